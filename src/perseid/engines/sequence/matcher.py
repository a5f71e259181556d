"""The kernel as a matcher of events in memory: for tests, and for patterns that matches feed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.sequence.bytecode import compile_pattern
from perseid.engines.sequence.columns import AnyColumn, OrderedEvents, unified_values
from perseid.engines.sequence.run import find
from perseid.runtime.arrays import MOMENT
from perseid.runtime.search_budget import DEFAULT_BUDGET, SearchBudget
from perseid.semantics.core import CorePattern
from perseid.semantics.detection import Matcher, Partition, RawMatch
from perseid.semantics.events import Event
from perseid.semantics.values import Relation

_ARROW: tuple[tuple[type, pa.DataType], ...] = (
    (bool, pa.bool_()),
    (int, pa.int64()),
    (float, pa.float64()),
    (str, pa.string()),
    (datetime, MOMENT),
    (date, pa.date32()),
    (timedelta, pa.duration("us")),
)


def kernel_matcher(
    plan: Plan,
    *,
    compiled: bool = True,
    budget: SearchBudget = DEFAULT_BUDGET,
    count: Callable[[int], None] | None = None,
) -> Matcher:
    """A matcher of the plan's patterns that runs the kernel; ``count`` gets the size of each searched partition."""
    by_name = {pattern.name: pattern for pattern in plan.patterns}

    def run(
        pattern: CorePattern,
        events: Sequence[Event],
        *,
        horizon: int | None,
        strictly_later: bool,
        relations: Mapping[str, Relation],
    ) -> Partition:
        batch = batch_of(events, relations)
        bytecode = compile_pattern(plan, by_name[pattern.name], batch.types(), strictly_later)
        offsets = np.array([0, len(events)], np.int64)
        raw, _ = find(bytecode, batch, offsets, horizon=horizon, compiled=compiled, budget=budget)
        if count is not None:
            count(len(events))
        found = [
            RawMatch(
                tuple(raw.bound_events(i)),
                raw.ends(i),
                raw.kind(i),
                unified_values(pattern, bytecode.columns, batch, raw.unified[i]),
            )
            for i in range(len(raw))
        ]
        found.sort(key=lambda m: (m.end, m.bound_events[-1][1], m.bound_events[0][1]))
        frontier = None if horizon is None else min(horizon, int(raw.frontiers[0]))
        return Partition(found, frontier, raw.capped)

    return run


def batch_of(events: Sequence[Event], relations: Mapping[str, Relation]) -> OrderedEvents:
    """Convert events to columns; a column with values of mixed types stays a list."""
    names = list(dict.fromkeys(name for event in events for name in event.attributes))
    kinds = list(dict.fromkeys(event.type for event in events if event.type is not None))
    code = {kind: i for i, kind in enumerate(kinds)}
    columns = {name: column_of([event.attributes.get(name) for event in events]) for name in names}
    return OrderedEvents(
        time=np.array([event.time for event in events], np.int64),
        kinds=np.array([-1 if event.type is None else code[event.type] for event in events], np.int32),
        kind_names=kinds,
        columns=columns,
        relations=relations,
    )


def column_of(values: list[object]) -> AnyColumn:
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values))
    if len(kinds) == 1:
        (kind,) = kinds
        for python, arrow in _ARROW:
            if kind is python:
                return pa.array(values, arrow)
    return values
