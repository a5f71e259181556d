"""Rows per event type, and warnings about input without matches, from counters and never from the data.

Executors count the rows of each event type that a pattern names. The driver reads the sums with the other counters:
from an ``Observation`` after a batch, and from the progress of a stream. No additional job runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from perseid.errors import InputWarning, warn
from perseid.runtime.query import Query
from perseid.spark.type_counts import OF_TYPE

if TYPE_CHECKING:
    from pyspark.sql import Observation

BY_TYPE, REQUIRED = "by_type", "required_types"
"""Fields of a stream's counters: the counts of each call, and the types as JSON."""
Fields: TypeAlias = Mapping[str, Any]
"""Named values from Spark: parsed JSON, or the fields of a row."""

_REQUIRED: WeakKeyDictionary[Observation, dict[str, Sequence[str]]] = WeakKeyDictionary()
"""Event types that each pattern requires, by ``Observation``."""


# Batch


def remember(observation: Observation, required: Mapping[str, Sequence[str]]) -> None:
    """Store the event types that patterns require until the counters of the observation are read."""
    _REQUIRED[observation] = dict(required)


def read_observation(observation: Observation) -> dict[str, int]:
    """Return the counters of a batch, after an action on it; warn about input without matches."""
    counted = {name: int(value) for name, value in observation.get.items()}
    by_type = {name.removeprefix(OF_TYPE): count for name, count in counted.items() if name.startswith(OF_TYPE)}
    # The filter drops rows before they are counted: a count of 0 does not imply an empty input.
    read = counted.get("events", 0) or None
    warn_of_input(_REQUIRED.get(observation, {}), by_type, counted.get("bad", 0), read)
    return counted


# Stream


def types_as_text(query: Query) -> str:
    """The event types of a query as JSON for the metrics of a stream; ``idle`` is true if a clock is a source too."""
    required = dict(query.required_types)
    return json.dumps({"named": query.event_types, "required": required, "idle": query.state.idle is not None})


def read_types(counted: Iterable[Fields]) -> tuple[dict[str, int], dict[str, list[str]], bool]:
    """Rows by type over some batches, the types that each pattern requires, and true if a clock is a source too."""
    sums: dict[str, int] = {}
    required: dict[str, list[str]] = {}
    idle = False
    for counters in counted:
        types = json.loads(counters.get(REQUIRED) or "{}")
        required, idle = types.get("required", required), types.get("idle", idle)
        for name in types.get("named", ()):
            sums.setdefault(name, 0)
        for call in (counters.get(BY_TYPE) or "").split():
            for name, count in zip(types["named"], call.split(":"), strict=True):
                sums[name] += int(count)
    return sums, required, idle


def missing_input(
    required: Mapping[str, Sequence[str]], by_type: Mapping[str, int], bad: int, read: int | None, ahead: int = 0
) -> list[str]:
    """Sentences about input without matches; ``read`` is the number of rows, None if it is unknown.

    The sentences contain no counts, so that a repeated warning has the same text.
    """
    if not required or read == 0:
        return []
    sentences = []
    arrived = [name for name, count in by_type.items() if count]
    if bad and read is not None and bad >= read and not arrived:
        sentences.append(
            "Every counted row is bad: no row has a readable time, or no row with a time is of a type that the patterns "
            "name. A time is not readable if it is null, or a text that is not ISO 8601; parse such a text first: "
            "to_timestamp(column, 'dd.MM.yyyy HH:mm')."
        )
    lacking: dict[tuple[str, ...], list[str]] = {}
    for pattern, types in required.items():
        absent = tuple(sorted(name for name in types if not by_type.get(name, 0)))
        if absent:
            lacking.setdefault(absent, []).append(pattern)
    causes = ["the input has no rows"] if read is None else []
    causes += ["the type differs from the type in the data", "conditions on it hold for no row"]
    causes += ["its rows have no readable time"] if bad else []
    causes += ["its rows are dated beyond max_ahead"] if ahead else []
    for absent, patterns in lacking.items():
        subject, it = ("Pattern", "it") if len(patterns) == 1 else ("Patterns", "them")
        sentences.append(
            f"{subject} {_quote(patterns)} {'has' if len(patterns) == 1 else 'have'} no match so far: no row of type "
            f"{_quote(absent)} reached {it}. Possible causes: {'; '.join(causes)}. "
            f"Types that reached the patterns: {_quote(arrived) or 'none'}."
        )
    return sentences


def _quote(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def warn_of_input(
    required: Mapping[str, Sequence[str]], by_type: Mapping[str, int], bad: int, read: int | None, ahead: int = 0
) -> None:
    """Warn, once for each sentence and calling line, about input without matches."""
    for sentence in missing_input(required, by_type, bad, read, ahead):
        warn(sentence, InputWarning)
