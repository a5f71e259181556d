"""Answers as rows: pattern, group, time, probability, and by how much it may be off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.sequence.schema import MOMENT, common_type
from perseid.engines.uncertain.answers import Answers
from perseid.engines.uncertain.plan import Asked
from perseid.engines.uncertain.telling import Telling, tell

PATTERN, TIME, START, END, CHANCE, ERROR, EXPECTED = "pattern", "time", "start", "end", "p", "error", "expected"


def output_schema(asked: Sequence[Asked], types: Mapping[str, Any], telling: Telling, expected: bool) -> pa.Schema:
    """What rows of answers have; ``types`` are Arrow's, of columns by name."""
    groups: dict[str, Any] = {}
    for one in asked:
        for component in one.unit[: one.groups]:
            kind = types.get(component.name, pa.null())
            known = groups.get(component.name)
            groups[component.name] = kind if known is None else common_type(known, kind)
    when = [(START, MOMENT), (END, MOMENT)] if telling.how == "spans" else [(TIME, MOMENT)]
    more = [(EXPECTED, pa.float64())] if expected else []
    return pa.schema(
        [(PATTERN, pa.string()), *groups.items(), *when, (CHANCE, pa.float64()), (ERROR, pa.float64()), *more]
    )


def told_table(asked: Asked, answers: Answers, telling: Telling, every: int | None, schema: pa.Schema) -> pa.Table:
    """What is told of a pattern's answers."""
    told = tell(telling, answers.group, answers.step, answers.probability, every is not None)
    chosen = pa.array(answers.group[told.first])
    names = [component.name for component in asked.unit[: asked.groups]]
    keys = dict(zip(names, answers.keys, strict=True))
    width = every or 1
    made: dict[str, Any] = {
        PATTERN: pa.array(np.full(len(chosen), asked.name), pa.string()),
        START: pa.array(answers.step[told.first] * width).cast(MOMENT),
        END: pa.array(answers.step[told.last] * width).cast(MOMENT),
        CHANCE: pa.array(answers.probability[told.peak]),
        ERROR: pa.array(answers.error[told.peak]),
    }
    made[TIME] = made[START]
    if answers.expected is not None:
        made[EXPECTED] = pa.array(answers.expected[told.peak], from_pandas=True)
    columns = []
    for field in schema:
        if field.name in keys:
            columns.append(keys[field.name].take(chosen).cast(field.type))
        else:
            columns.append(made.get(field.name, pa.nulls(len(chosen), field.type)))
    return pa.table(columns, schema=schema)
