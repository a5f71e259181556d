"""Matches that may be taken back, as a changelog: what was told before, what holds now, and the difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.disorder.schema import NAMED_BY, OP, REVISION
from perseid.engines.sequence.output import cast_column, joined
from perseid.engines.sequence.schema import MOMENT
from perseid.semantics import values as v

_NAMED_BY = (*NAMED_BY, "end")
"""An attempt may time out at another time than it did."""


def changes(before: pa.Table, now: pa.Table, revision: int, horizon: int | None, schema: pa.Schema) -> pa.Table:
    """What has to be taken back and what has to be told, so that the one becomes the other; that one is one later."""
    taken_back = before.filter(pc.invert(_among(before, now)))
    told = now.filter(pc.invert(_among(now, before)))
    parts = ((taken_back, "-", revision), (told, "+", revision + 1))
    return joined((_marked(rows, op, number, horizon, schema) for rows, op, number in parts), schema)


def _among(rows: pa.Table, others: pa.Table) -> Any:
    return pc.is_in(_named(rows), value_set=_named(others))


def _named(rows: pa.Table) -> Any:
    texts = (rows[name].cast(pa.int64()).cast(pa.string()) if name == "end" else rows[name] for name in _NAMED_BY)
    return pc.binary_join_element_wise(*texts, "\0", null_handling="replace", null_replacement="")


def _marked(rows: pa.Table, op: str, revision: int, horizon: int | None, schema: pa.Schema) -> pa.Table:
    place = schema.get_field_index(REVISION) + 1
    known = None if horizon is None or horizon > v.LATEST else horizon
    added = {
        OP: pa.array([op] * rows.num_rows, pa.string()),
        REVISION: pa.array(np.full(rows.num_rows, revision, np.int32)),
        schema.field(place).name: pa.array([known] * rows.num_rows, MOMENT),
    }
    return pa.table({f.name: added[f.name] if f.name in added else rows[f.name] for f in schema})


def fitted(told: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows that were told by another set of patterns, as far as this one has their columns."""
    if told.schema == schema:
        return told
    columns = {}
    for field in schema:
        column = told[field.name] if field.name in told.column_names else pa.nulls(told.num_rows)
        try:
            columns[field.name] = column if pa.types.is_null(field.type) else cast_column(column, field.type)
        except (pa.ArrowException, ValueError):
            columns[field.name] = pa.nulls(told.num_rows, field.type)
    return pa.table(columns)
