"""Plan of the engine for uncertain streams: patterns with their query classes, and the output policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from perseid.engines.uncertain.output_policies import EVERY, OutputPolicy
from perseid.engines.uncertain.streams import Known, Stream, Streams
from perseid.errors import UnsupportedError
from perseid.lang import ast
from perseid.semantics import core as c
from perseid.semantics.classes import (
    Classified,
    IndependentProject,
    QueryClass,
    Reg,
    SafePlan,
    bound_column,
    classify,
    grounded,
    is_strict,
    key_constants,
    local_form,
    window_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

COUNTS_SUFFIX = " ways"
MAX_WINDOW_STEPS = 512
"""Maximum window of a safe plan, in steps; time per step grows with its square."""


@dataclass(frozen=True)
class Component:
    """A grouping column; its name may differ by event type."""

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)

    def column(self, type_: str) -> str:
        return self.columns.get(type_, self.name)


@dataclass(frozen=True)
class PlannedQuery:
    """One pattern, with its query class and grouping columns."""

    pattern: c.CorePattern
    classified: Classified
    unit: tuple[Component, ...]
    """Grouping columns: first those of ``partition by``, then bound variables. Each group is an independent query."""
    groups: int
    """Number of leading columns that results are grouped by; over the rest they are combined."""
    types: frozenset[str] | None
    """Event types of its steps; None if a step takes any type."""
    window: int | None = None
    """Safe patterns: length of the window in steps, evaluated at each step; None if unbounded."""

    @property
    def name(self) -> str:
        return self.pattern.name

    @property
    def named_types(self) -> frozenset[str]:
        """Event types of its steps; a Safe pattern has no others."""
        return frozenset(step.kind.name for step in self.pattern.steps if isinstance(step.kind, ast.EventType))

    def memory(self, ways: bool) -> str:
        """Name of its state: of probabilities, or, with ``ways``, of its counted partial matches."""
        return self.pattern.semantic_hash + (COUNTS_SUFFIX if ways else "")

    def reads_type(self, type_: str) -> bool:
        return self.types is None or type_ in self.types

    def hidden(self, streams: Streams) -> tuple[Stream, ...]:
        """Streams that the pattern reads, with steps that depend on one another."""
        return tuple(part for part in streams.parts if part.hidden and self.reads_type(part.type))

    def is_sampled(self, streams: Streams) -> bool:
        """Return True if it is never evaluated exactly."""
        return self.classified.kind is QueryClass.UNSAFE or streams.sampling.always

    def looks_back(self, streams: Streams) -> bool:
        """Return True if its safe plan is evaluated over a window at each step."""
        return self.window is not None and not self.is_sampled(streams)

    def is_single(self, streams: Streams) -> bool:
        """Return True if each group has at most one hidden chain."""
        hidden = self.hidden(streams)
        if len(hidden) > 1:
            return False
        return all({part.column(one.type) for part in self.unit} >= set(one.of) for one in hidden)

    def unsampled(self, streams: Streams) -> Stream | None:
        """Return a stream for which the pattern cannot be sampled, if there is one.

        Filtered readings cannot be sampled: each one changes the distribution that earlier steps were drawn from.
        """
        read = (part for part in self.hidden(streams) if part.known is Known.READ)
        return next((part for part in read if part.inference.name != "smooth"), None)

    def refuse_unsampled(self, streams: Streams, why: str | None = None) -> None:
        """Raise an error if sampling or interval evaluation is required, but impossible with a stream's inference."""
        part = self.unsampled(streams)
        if part is None:
            return
        problem, evaluated = f"must be sampled ({why or self._class_reason})", "sampled"
        if why is None and self.classified.kind is QueryClass.SAFE and not streams.sampling.always:
            problem, evaluated = f"is evaluated over time intervals ({self._class_reason})", "evaluated like this"
        raise UnsupportedError(
            f"Pattern {self.name} {problem}, but readings of {part.type} with inference={str(part.inference)!r} cannot be {evaluated}.",
            hint="Use correlated=False, which makes steps independent, or inference='smooth' over finished data.",
        )

    @property
    def _class_reason(self) -> str:
        return f"{self.classified.kind.value}: {self.classified.why}"


@dataclass(frozen=True)
class UncertainPlan:
    """Patterns over an uncertain stream."""

    queries: tuple[PlannedQuery, ...]
    streams: Streams
    schema: pa.Schema
    """Schema of the output rows."""
    output_policy: OutputPolicy = EVERY
    shards: int = 1
    max_state: int = 1 << 28
    apart: bool = False
    """True if results are per binding, to be combined after a second shuffle."""

    def refuse_on_streams(self) -> None:
        """Raise an error for what needs finished data."""
        for part in self.streams.parts:
            if part.known is not Known.READ:
                continue
            way = part.inference.name
            if part.inference.looks_back:
                raise UnsupportedError(
                    f"inference={str(part.inference)!r} of {part.type} needs all readings, so it is unsupported on a stream.",
                    hint="Use 'filter' or 'lag(5)', or finished data.",
                )
            if way == "particles":
                raise UnsupportedError(
                    "A particle filter is unsupported on a stream.", hint="Use 'filter', which is exact."
                )
            if way == "lag" and self.streams.every is None:
                raise UnsupportedError(
                    "On a stream, inference='lag(…)' needs a step length.", hint="Add every='1 second'."
                )
        for one in self.queries:
            if one.is_sampled(self.streams) or one.window is not None:
                one.refuse_unsampled(self.streams)
            elif one.classified.kind is QueryClass.SAFE:
                raise UnsupportedError(
                    f"Pattern {one.name} is Safe ({one.classified.why}): not supported on a stream without a window.",
                    hint="Add within 1 minute, use a batch DataFrame or match(…), or sample it: sampling=ps.uncertain.Sampling(always=True).",
                )
            # Sampled worlds have a value for each chain, and windows retain all tables. Otherwise, and for counts of
            # matches, a group carries one hidden value.
            carried = not (one.is_sampled(self.streams) or one.window is not None) or self.output_policy.counts
            if carried and not one.is_single(self.streams):
                names = " and ".join(part.type for part in one.hidden(self.streams))
                raise UnsupportedError(
                    f"Pattern {one.name} may have several chains of {names} in one group: not supported on a stream.",
                    hint="Partition by their key, or make steps independent: ps.uncertain_events(…, correlated=False).",
                )

    def refuse_apart(self) -> None:
        """Raise an error for stateful output policies over combined bindings, which are combined after the operator."""
        for one in self.queries:
            if one.groups < len(one.unit) and self.output_policy.lasts:
                raise UnsupportedError(
                    f"Pattern {one.name} combines the results of several bindings: not supported with the output policy {self.output_policy.how!r}.",
                    hint="Use emit=ps.uncertain.above(…), add partition by, or use match(…).",
                )


def plan_query(pattern: c.CorePattern, streams: Streams) -> PlannedQuery:
    """Plan a pattern: classify it, and find its grouping columns."""
    keys = streams.keys
    pattern = local_form(pattern)
    columns = {path.parts for path in pattern.partition}
    places = {
        name: {path.parts for step in pattern.steps for path, own in step.unify if own == name}
        for name in pattern.unified
    }
    # A variable on a partition column is constant in each group.
    pattern = grounded(
        pattern, (name for name, own in places.items() if len(own) == 1 and own <= columns), others=False
    )
    classified, window = _windowed(pattern, streams, classify(pattern, keys))
    kinds = {step.kind for step in pattern.steps}
    types = (
        None
        if ast.AnyEvent() in kinds or is_strict(pattern)
        else frozenset(k.name for k in kinds if isinstance(k, ast.EventType))
    )
    if types is None and classified.plan is not None:
        # A plan treats event types separately; here events of every type matter.
        why = f"{classified.why}, which is not used: events of every type matter"
        classified, window = replace(classified, kind=QueryClass.UNSAFE, why=why, plan=None), None
    unit = [Component(path.parts[0]) for path in pattern.partition]
    groups = len(unit)
    if classified.bound:
        unit += [Component(name, bound_column(pattern, keys, name)) for name in classified.bound]
    if classified.kind is not QueryClass.UNSAFE:
        pattern = grounded(pattern, classified.bound)
    return PlannedQuery(pattern, classified, tuple(unit), groups, types, window)


def _windowed(pattern: c.CorePattern, streams: Streams, classified: Classified) -> tuple[Classified, int | None]:
    """Query class of a pattern, and the window of its safe plan in steps.

    The decision depends on declarations alone: a stream cannot retract what it has emitted.
    """
    window_us = window_of(pattern)
    if classified.plan is None or window_us is None:
        return classified, None
    steps = window_us // (streams.every or window_us or 1)
    why = f"its window has more than {MAX_WINDOW_STEPS:,} steps" if steps > MAX_WINDOW_STEPS else None
    why = why or _not_followed(pattern, streams, classified.plan, frozenset(), inside=False)
    if why is None:
        return classified, steps
    return replace(
        classified, kind=QueryClass.UNSAFE, why=f"{classified.why}, which is not used: {why}", plan=None
    ), None


def _constant_columns(steps: Sequence[c.CoreStep], part: Stream) -> set[str]:
    """Columns of a stream's key with the same constant in all of these steps."""
    constants_by_step = [key_constants(step, part.keys) for step in steps]
    columns = set[str]()
    for column in constants_by_step[0]:
        constants = {known.get(column) for known in constants_by_step}
        if len(constants) == 1 and len(constants_by_step[0][column]) == 1:
            columns.add(column)
    return columns


def _not_followed(
    pattern: c.CorePattern, streams: Streams, plan: SafePlan, bound: frozenset[str], *, inside: bool
) -> str | None:
    """Reason why a safe plan cannot be evaluated over these streams, or None; ``inside`` if more steps follow."""
    if isinstance(plan, IndependentProject):
        return _not_followed(pattern, streams, plan.plan, bound | {plan.variable}, inside=inside)
    steps = [pattern.steps[number] for number in (plan.steps if isinstance(plan, Reg) else (plan.step,))]
    hidden = [part for part in streams.parts if part.hidden and any(s.kind == ast.EventType(part.type) for s in steps)]
    if isinstance(plan, Reg):
        columns = {path.parts[0] for path in pattern.partition}
        for part in hidden if len(steps) > 1 or steps[0].repeated else ():
            own = columns | {bound_column(pattern, streams.keys, name).get(part.type, "") for name in bound}
            own |= _constant_columns([step for step in steps if step.kind == ast.EventType(part.type)], part)
            if len(hidden) > 1 or not own >= set(part.of):
                return f"one binding may have several chains of {part.type}"
        return None
    if inside and hidden:
        return f"steps of {hidden[0].type} depend on each other, and more steps follow"
    if inside and steps[0].must:
        return f"{steps[0].name or 'a step'} has a test, and more steps follow"
    return _not_followed(pattern, streams, plan.plan, bound, inside=True)
