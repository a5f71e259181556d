"""Answers as rows: pattern, group, time, probability, and by how much it may be off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from perseid.engines.sequence.schema import MOMENT, common_type
from perseid.engines.uncertain.plan import Asked, UncertainPlan
from perseid.engines.uncertain.telling import Ongoing, Telling, go_on

if TYPE_CHECKING:
    from perseid.engines.uncertain.answers import Answers

PATTERN, TIME, START, END, CHANCE, ERROR = "pattern", "time", "start", "end", "p", "error"


def output_schema(asked: Sequence[Asked], types: Mapping[str, Any], telling: Telling) -> pa.Schema:
    """What rows of answers have; ``types`` are Arrow's, of columns by name."""
    groups: dict[str, Any] = {}
    for one in asked:
        for component in one.unit[: one.groups]:
            kind = types.get(component.name, pa.null())
            known = groups.get(component.name)
            groups[component.name] = kind if known is None else common_type(known, kind)
    when = [(START, MOMENT), (END, MOMENT)] if telling.how == "spans" else [(TIME, MOMENT)]
    return pa.schema([(PATTERN, pa.string()), *groups.items(), *when, (CHANCE, pa.float64()), (ERROR, pa.float64())])


BINDING, GROUP = "_binding", "_group"
"""Columns of what is told of each binding: which it is, and which of the patterns asks."""


def apart_schema(plan: UncertainPlan) -> pa.Schema:
    """What is told of each binding where somebody else combines them; the last four columns are no part of a group."""
    groups = [field for field in plan.schema if field.name not in (CHANCE, ERROR)]
    more = [(CHANCE, pa.float64()), (ERROR, pa.float64()), (GROUP, pa.int64()), (BINDING, pa.int64())]
    return pa.schema([*groups, *(pa.field(*one) for one in more)])


def apart_table(asked: Asked, number: int, answers: Answers, every: int | None, schema: pa.Schema) -> pa.Table:
    """What is told of each binding, to be combined by somebody else."""
    some = np.flatnonzero(answers.probability > 0)
    found = answers.probability[some], answers.error[some]
    steps = answers.step[some]
    told = _table(asked, answers.keys, answers.group[some], steps, steps, found, every, schema)
    for name, values in ((GROUP, np.full(len(some), number)), (BINDING, answers.binding[some])):
        told = told.set_column(schema.get_field_index(name), name, pa.array(values, pa.int64()))
    return told


def told_table(
    asked: Asked, answers: Answers, plan: UncertainPlan, before: Ongoing, off: int, done: int | None, ended: bool
) -> tuple[pa.Table, Ongoing]:
    """What is told of a pattern's answers, and which alerts and spans go on; ``before`` has those that did."""
    every, telling = plan.streams.every, plan.telling
    if telling.how == "steps":
        chosen = np.flatnonzero(answers.probability > telling.rise)
        steps, found = answers.step[chosen], (answers.probability[chosen], answers.error[chosen])
        return _table(asked, answers.keys, answers.group[chosen], steps, steps, found, every, plan.schema), before
    told, after = go_on(telling, before, answers, every is not None, done, ended, off)
    group, first, last = (np.array([one[i] for one in told], np.int64) for i in range(3))
    found = np.array([one.peak for one in told]), np.array([one.error for one in told])
    return _table(asked, answers.keys, group, first, last, found, every, plan.schema), after


def _table(
    asked: Asked, keys: Sequence[Any], group: Any, first: Any, last: Any, found: tuple[Any, Any], every: int | None,
    schema: pa.Schema,
) -> pa.Table:  # fmt: skip
    names = [component.name for component in asked.unit[: asked.groups]]
    columns = dict(zip(names, keys, strict=False))
    width = every or 1
    made: dict[str, Any] = {
        PATTERN: pa.array([asked.name] * len(group), pa.string()),
        START: pa.array(first * width, pa.int64()).cast(MOMENT),
        END: pa.array(last * width, pa.int64()).cast(MOMENT),
        CHANCE: pa.array(found[0], pa.float64()),
        ERROR: pa.array(found[1], pa.float64()),
    }
    made[TIME] = made[START]
    out = []
    for field in schema:
        if field.name in columns:
            out.append(columns[field.name].take(pa.array(group, pa.int64())).cast(field.type))
        else:
            out.append(made.get(field.name, pa.nulls(len(group), field.type)))
    return pa.table(out, schema=schema)
