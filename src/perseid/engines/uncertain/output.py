"""Output rows: pattern, group, time, probability, error bound, and expected number of matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.engines.sequence.schema import common_type
from perseid.engines.uncertain.plan import PlannedQuery, UncertainPlan
from perseid.engines.uncertain.telling import OpenAlerts, OutputPolicy, go_on
from perseid.errors import EventDataError
from perseid.runtime.arrays import MOMENT, ArrowColumn, FloatArray, IntArray

if TYPE_CHECKING:
    from perseid.engines.uncertain.answers import StepProbabilities

SAMPLED = "sampled"
"""Counter of steps that were sampled although the query class allows exact evaluation, because of too many states."""
PATTERN, TIME, START, END, CHANCE, ERROR, EXPECTED = "pattern", "time", "start", "end", "p", "error", "expected"


def output_schema(asked: Sequence[PlannedQuery], types: Mapping[str, pa.DataType], telling: OutputPolicy) -> pa.Schema:
    """Schema of output rows; ``types`` maps column names to Arrow types."""
    groups: dict[str, pa.DataType] = {}
    when = [(START, MOMENT), (END, MOMENT)] if telling.how == "spans" else [(TIME, MOMENT)]
    ours = {PATTERN, *(name for name, _ in when), *numeric_columns(telling)}
    for one in asked:
        for component in one.unit[: one.groups]:
            if component.name in ours:
                raise EventDataError(
                    f"Pattern {one.name} is partitioned by {component.name}, which is also the name of a result column.",
                    hint="Rename the column of the input.",
                )
            kind = types.get(component.name, pa.null())
            known = groups.get(component.name)
            groups[component.name] = kind if known is None else common_type(known, kind)
    numbers = [(name, pa.float64()) for name in numeric_columns(telling)]
    return pa.schema([(PATTERN, pa.string()), *groups.items(), *when, *numbers])


def numeric_columns(telling: OutputPolicy) -> tuple[str, ...]:
    """Numeric output columns of a group and step; they are the last ones."""
    return (CHANCE, ERROR, EXPECTED) if telling.counts else (CHANCE, ERROR)


GROUP, BINDING, DRAWN = APART = "_group", "_binding", "_drawn"
"""Additional columns of per-binding rows: index of the pattern, hash of the binding, and True if sampled."""


def apart_schema(plan: UncertainPlan) -> pa.Schema:
    """Schema of per-binding rows, which ``finish`` combines; the additional columns are the last ones."""
    return pa.schema([*plan.schema, (GROUP, pa.int64()), (BINDING, pa.int64()), (DRAWN, pa.bool_())])


def apart_table(
    asked: PlannedQuery, number: int, answers: StepProbabilities, every: int | None, schema: pa.Schema
) -> pa.Table:
    """Per-binding rows of one pattern."""
    there = answers.probability > 0
    if answers.expected is not None:
        there |= answers.expected > 0  # expected numbers are not pruned
    assert answers.binding is not None
    some = np.flatnonzero(there)
    told = _steps_table(asked, answers, some, every, schema)
    own = {GROUP: np.full(len(some), number), BINDING: answers.binding[some], DRAWN: answers.drawn[some]}
    for name, values in own.items():
        place = schema.get_field_index(name)
        told = told.set_column(place, name, pa.array(values, schema.field(place).type))
    return told


def output_table(
    asked: PlannedQuery,
    answers: StepProbabilities,
    plan: UncertainPlan,
    before: OpenAlerts,
    off: int,
    done: int | None,
    ended: bool,
) -> tuple[pa.Table, OpenAlerts]:
    """Apply the output policy: return the output rows of a pattern, and the alerts and spans that stay open."""
    every, telling = plan.streams.every, plan.telling
    if not telling.lasts:
        numbers = answers.expected if telling.counts else answers.probability
        assert numbers is not None
        chosen = np.flatnonzero(numbers > telling.rise)
        return _steps_table(asked, answers, chosen, every, plan.schema), before
    told, after = go_on(telling, before, answers, every is not None, done, ended, off)
    group, first, last = (np.array([one[i] for one in told], np.int64) for i in range(3))
    found = {CHANCE: np.array([one.peak for one in told]), ERROR: np.array([one.error for one in told])}
    return _table(asked, answers.keys, group, first, last, found, every, plan.schema), after


def _steps_table(
    asked: PlannedQuery, answers: StepProbabilities, chosen: IntArray, every: int | None, schema: pa.Schema
) -> pa.Table:
    """Output rows of some results."""
    found = {CHANCE: answers.probability[chosen], ERROR: answers.error[chosen]}
    if answers.expected is not None:
        found[EXPECTED] = answers.expected[chosen]
    steps = answers.step[chosen]
    return _table(asked, answers.keys, answers.group[chosen], steps, steps, found, every, schema)


def _table(
    asked: PlannedQuery, keys: Sequence[ArrowColumn], group: IntArray, first: IntArray, last: IntArray, found: Mapping[str, FloatArray],
    every: int | None, schema: pa.Schema,
) -> pa.Table:  # fmt: skip
    names = [component.name for component in asked.unit[: asked.groups]]
    columns = dict(zip(names, keys, strict=False))
    width = every or 1
    made: dict[str, pa.Array] = {
        PATTERN: pa.array([asked.name] * len(group), pa.string()),
        START: pa.array(first * width, pa.int64()).cast(MOMENT),
        END: pa.array(last * width, pa.int64()).cast(MOMENT),
        **{name: pa.array(numbers, pa.float64()) for name, numbers in found.items()},
    }
    made[TIME] = made[START]
    out = []
    for field in schema:
        if field.name in columns:
            out.append(columns[field.name].take(pa.array(group, pa.int64())).cast(field.type))
        else:
            out.append(made.get(field.name, pa.nulls(len(group), field.type)))
    return pa.table(out, schema=schema)
