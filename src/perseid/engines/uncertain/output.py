"""Output rows: pattern, group, time, probability, error bound, and expected number of matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.engines.sequence.schema import common_type
from perseid.engines.uncertain.output_policies import OpenAlerts, OutputPolicy, advance_alerts
from perseid.engines.uncertain.plan import PlannedQuery, UncertainPlan
from perseid.errors import EventDataError
from perseid.runtime.arrays import MOMENT, ArrowColumn, FloatArray, IntArray

if TYPE_CHECKING:
    from perseid.engines.uncertain.answers import StepProbabilities

SAMPLED = "sampled"
"""Counter of steps that were sampled although the query class allows exact evaluation, because of too many states."""
PATTERN, TIME, START, END, CHANCE, ERROR, EXPECTED = "pattern", "time", "start", "end", "p", "error", "expected"


def output_schema(
    queries: Sequence[PlannedQuery], types: Mapping[str, pa.DataType], output_policy: OutputPolicy
) -> pa.Schema:
    """Schema of output rows; ``types`` maps column names to Arrow types."""
    groups: dict[str, pa.DataType] = {}
    when = [(START, MOMENT), (END, MOMENT)] if output_policy.how == "spans" else [(TIME, MOMENT)]
    ours = {PATTERN, *(name for name, _ in when), *numeric_columns(output_policy)}
    for query in queries:
        for component in query.unit[: query.groups]:
            if component.name in ours:
                raise EventDataError(
                    f"Pattern {query.name} is partitioned by {component.name}, which is also the name of a result column.",
                    hint="Rename the column of the input.",
                )
            kind = types.get(component.name, pa.null())
            known = groups.get(component.name)
            groups[component.name] = kind if known is None else common_type(known, kind)
    numbers = [(name, pa.float64()) for name in numeric_columns(output_policy)]
    return pa.schema([(PATTERN, pa.string()), *groups.items(), *when, *numbers])


def numeric_columns(output_policy: OutputPolicy) -> tuple[str, ...]:
    """Numeric output columns of a group and step; they are the last ones."""
    return (CHANCE, ERROR, EXPECTED) if output_policy.counts else (CHANCE, ERROR)


GROUP, BINDING, DRAWN = BINDING_COLUMNS = "_group", "_binding", "_drawn"
"""Additional columns of per-binding rows: index of the pattern, hash of the binding, and True if sampled."""


def binding_schema(plan: UncertainPlan) -> pa.Schema:
    """Schema of per-binding rows, which ``finish`` combines; the additional columns are the last ones."""
    return pa.schema([*plan.schema, (GROUP, pa.int64()), (BINDING, pa.int64()), (DRAWN, pa.bool_())])


def binding_table(
    query: PlannedQuery, number: int, results: StepProbabilities, every: int | None, schema: pa.Schema
) -> pa.Table:
    """Per-binding rows of one pattern."""
    is_positive = results.probability > 0
    if results.expected is not None:
        is_positive |= results.expected > 0  # expected numbers are not pruned
    assert results.binding is not None
    chosen = np.flatnonzero(is_positive)
    table = _steps_table(query, results, chosen, every, schema)
    additional = {GROUP: np.full(len(chosen), number), BINDING: results.binding[chosen], DRAWN: results.drawn[chosen]}
    for name, values in additional.items():
        place = schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(values, schema.field(place).type))
    return table


def output_table(
    query: PlannedQuery,
    results: StepProbabilities,
    plan: UncertainPlan,
    before: OpenAlerts,
    off: int,
    done: int | None,
    ended: bool,
) -> tuple[pa.Table, OpenAlerts]:
    """Apply the output policy: return the output rows of a pattern, and the alerts and spans that stay open."""
    every, output_policy = plan.streams.every, plan.output_policy
    if not output_policy.lasts:
        numbers = results.expected if output_policy.counts else results.probability
        assert numbers is not None
        chosen = np.flatnonzero(numbers > output_policy.rise)
        return _steps_table(query, results, chosen, every, plan.schema), before
    rows, after = advance_alerts(output_policy, before, results, every is not None, done, ended, off)
    group, first, last = (np.array([one[i] for one in rows], np.int64) for i in range(3))
    numbers_by_name = {CHANCE: np.array([one.peak for one in rows]), ERROR: np.array([one.error for one in rows])}
    return _table(query, results.keys, group, first, last, numbers_by_name, every, plan.schema), after


def _steps_table(
    query: PlannedQuery, results: StepProbabilities, chosen: IntArray, every: int | None, schema: pa.Schema
) -> pa.Table:
    """Output rows of some results."""
    numbers_by_name = {CHANCE: results.probability[chosen], ERROR: results.error[chosen]}
    if results.expected is not None:
        numbers_by_name[EXPECTED] = results.expected[chosen]
    steps = results.step[chosen]
    return _table(query, results.keys, results.group[chosen], steps, steps, numbers_by_name, every, schema)


def _table(
    query: PlannedQuery, keys: Sequence[ArrowColumn], group: IntArray, first: IntArray, last: IntArray, numbers_by_name: Mapping[str, FloatArray],
    every: int | None, schema: pa.Schema,
) -> pa.Table:  # fmt: skip
    names = [component.name for component in query.unit[: query.groups]]
    columns = dict(zip(names, keys, strict=False))
    width = every or 1
    computed: dict[str, pa.Array] = {
        PATTERN: pa.array([query.name] * len(group), pa.string()),
        START: pa.array(first * width, pa.int64()).cast(MOMENT),
        END: pa.array(last * width, pa.int64()).cast(MOMENT),
        **{name: pa.array(numbers, pa.float64()) for name, numbers in numbers_by_name.items()},
    }
    computed[TIME] = computed[START]
    columns_out = []
    for field in schema:
        if field.name in columns:
            columns_out.append(columns[field.name].take(pa.array(group, pa.int64())).cast(field.type))
        else:
            columns_out.append(computed.get(field.name, pa.nulls(len(group), field.type)))
    return pa.table(columns_out, schema=schema)
