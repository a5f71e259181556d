"""Rows per event type, and warnings about input that cannot match: read from counters, never from the data.

Executors count the rows of each type that a pattern names while they step. The driver reads the sums where counters are
read: from an ``Observation`` after a batch, and from the progress of a stream. No job runs for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from perseid.compile.plan import Plan
from perseid.errors import InputWarning, warn
from perseid.lang import ast
from perseid.semantics import core
from perseid.spark.type_counts import OF_TYPE

BY_TYPE, REQUIRED = "by_type", "required_types"
"""In a stream's counters: the counts of each call, and the types as JSON."""

_REQUIRED: WeakKeyDictionary[Any, dict[str, list[str]]] = WeakKeyDictionary()
"""By ``Observation``: the types that each pattern requires."""


def named_types(plan: Plan) -> tuple[str, ...]:
    """The event types that steps name, also those that must not occur; matches that feed patterns are none."""
    told = {pattern.name for pattern in plan.patterns}
    kinds = (step.kind for pattern in plan.patterns for step in pattern.pattern.steps)
    named = dict.fromkeys(kind.name for kind in kinds if isinstance(kind, ast.EventType))
    return tuple(name for name in named if name not in told)


def required_types(plan: Plan) -> dict[str, list[str]]:
    """By pattern: the event types without which it has no match."""
    named = set(named_types(plan))
    found: dict[str, list[str]] = {}
    for pattern in plan.patterns:
        kinds = {step.id: step.kind for step in pattern.pattern.steps}
        needed = (kinds[step] for step in sorted(_required(pattern.pattern.body)))
        types = dict.fromkeys(kind.name for kind in needed if isinstance(kind, ast.EventType) and kind.name in named)
        found[pattern.name] = [*types, *sorted(_either(pattern.pattern.body, kinds) & named - set(types))]
    return found


def _required(part: core.Core) -> set[int]:
    """The steps that every match of a part has."""
    match part:
        case core.Take():
            return {part.step}
        case core.Seq():
            return set[int]().union(*map(_required, part.items))
        case core.All():
            return set[int]().union(*map(_required, part.members))
        case core.Loop():
            return _required(part.body) if part.low else set()
        case core.Zone():
            return _required(part.body)
    return set()  # an absence has no event; branches have steps of their own


def _either(part: core.Core, kinds: Mapping[int, ast.StepKind]) -> set[str]:
    """The types that every branch of an alternation requires."""
    match part:
        case core.Seq():
            return set[str]().union(*(_either(one, kinds) for one in part.items))
        case core.All():
            return set[str]().union(*(_either(one, kinds) for one in part.members))
        case core.Loop() if part.low:
            return _either(part.body, kinds)
        case core.Zone():
            return _either(part.body, kinds)
        case core.Alt():
            each = []
            for branch in part.branches:
                own = (kinds[step] for step in _required(branch))
                each.append({kind.name for kind in own if isinstance(kind, ast.EventType)} | _either(branch, kinds))
            return set[str].intersection(*each)
    return set()


# Batch


def remember(observation: Any, plan: Plan) -> None:
    """Keep the types that patterns require, for whoever reads the counters later."""
    _REQUIRED[observation] = required_types(plan)


def read_observation(observation: Any) -> dict[str, int]:
    """The counters of a batch, after an action on it; warns of input that cannot match."""
    counted = {name: int(value) for name, value in observation.get.items()}
    by_type = {name.removeprefix(OF_TYPE): many for name, many in counted.items() if name.startswith(OF_TYPE)}
    # Rows that no step wants are dropped before they are counted: where nothing is left, there may have been rows.
    read = counted.get("events", 0) or None
    warn_of_input(_REQUIRED.get(observation, {}), by_type, counted.get("bad", 0), read)
    return counted


# Stream


def types_as_text(plan: Plan) -> str:
    """The types of a plan as JSON, which travels with the metrics of a stream."""
    return json.dumps({"named": named_types(plan), "required": required_types(plan)})


def read_types(counted: Iterable[Mapping[str, Any]]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Rows of each type over some batches, and the types that each pattern requires."""
    sums: dict[str, int] = {}
    required: dict[str, list[str]] = {}
    for one in counted:
        types = json.loads(one.get(REQUIRED) or "{}")
        required = types.get("required", required)
        for name in types.get("named", ()):
            sums.setdefault(name, 0)
        for call in (one.get(BY_TYPE) or "").split():
            for name, many in zip(types["named"], call.split(":"), strict=True):
                sums[name] += int(many)
    return sums, required


def missing_input(
    required: Mapping[str, Sequence[str]], by_type: Mapping[str, int], bad: int, read: int | None
) -> list[str]:
    """Sentences about input that cannot match; ``read`` counts the rows, None where nobody knows how many there were."""
    if read is not None and not read:
        return []
    said = []
    if bad and read is not None and bad >= read:
        said.append(
            f"None of {read:,} rows has a time that can be read: a time is null, or a text that is not ISO 8601. "
            "Parse it first: to_timestamp(column, 'dd.MM.yyyy HH:mm')."
        )
    if not sum(by_type.values()) and said:
        return said
    arrived = [f"{name!r} ({many:,} rows)" for name, many in by_type.items() if many]
    for pattern, types in required.items():
        absent = [name for name in types if not by_type.get(name, 0)]
        if absent:
            said.append(
                f"Pattern {pattern!r} cannot match: no row of type {', '.join(map(repr, absent))} reached it. "
                f"{'The input has no rows, the' if read is None else 'The'} type is spelled otherwise in the data, "
                f"or conditions on it hold for no row. Types that reached the patterns: {', '.join(arrived) or 'none'}."
            )
    return said


def warn_of_input(
    required: Mapping[str, Sequence[str]], by_type: Mapping[str, int], bad: int, read: int | None
) -> None:
    """Warn, once for each sentence and calling line, of input that cannot match."""
    for sentence in missing_input(required, by_type, bad, read):
        warn(sentence, InputWarning)
