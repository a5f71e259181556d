"""Matches that may be taken back, as a changelog: what was told before, what holds now, and the difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.sequence.output import cast_column, joined
from perseid.runtime.arrays import MOMENT, IntArray
from perseid.runtime.changelog import NAMED_BY, OP, REVISION
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.watermark import Watermark
from perseid.semantics import values as v

_NAMED_BY = (*NAMED_BY, "end")
"""An attempt may time out at another time than it did."""


def changes(before: pa.Table, now: pa.Table, revision: int, horizon: int | None, schema: pa.Schema) -> pa.Table:
    """What has to be taken back and what has to be told, so that the one becomes the other; that one is one later."""
    taken_back = before.filter(pc.invert(_among(before, now)))
    told = now.filter(pc.invert(_among(now, before)))
    parts = ((taken_back, "-", revision), (told, "+", revision + 1))
    return joined((marked(rows, op, number, horizon, schema) for rows, op, number in parts), schema)


def _among(rows: pa.Table, others: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(_named(rows), value_set=_named(others))


def _named(rows: pa.Table) -> pa.ChunkedArray:
    texts = (rows[name].cast(pa.int64()).cast(pa.string()) if name == "end" else rows[name] for name in _NAMED_BY)
    return pc.binary_join_element_wise(*texts, "\0", null_handling="replace", null_replacement="")


def marked(rows: pa.Table, op: str, revision: int, horizon: int | None, schema: pa.Schema) -> pa.Table:
    """Rows as changes, up to a horizon."""
    place = schema.get_field_index(REVISION) + 1
    known = None if horizon is None or horizon > v.LATEST else horizon
    added = {
        OP: pa.repeat(op, rows.num_rows),
        REVISION: pa.array(np.full(rows.num_rows, revision, np.int32)),
        schema.field(place).name: pa.repeat(pa.scalar(known, MOMENT), rows.num_rows),
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


def horizon_of(
    before: int | None, rows: EventBatch, late: IntArray | Sequence[int], watermark: Watermark
) -> int | None:
    """Up to when what has come is taken for all there is: the newest event that was accepted, or the watermark."""
    if watermark.ended:
        return None
    times = rows.time if not len(late) else np.delete(rows.time, np.asarray(late, np.int64))
    known = [time for time in (before, watermark.current) if time is not None]
    return max([*known, *([int(times.max())] if len(times) else [])], default=None)


def is_ahead(horizon: int | None, watermark: Watermark) -> bool:
    """Was something taken for all there is that the watermark has not passed?"""
    return horizon is not None and (watermark.current is None or horizon > watermark.current)


def counted(out: pa.Table) -> dict[str, int]:
    """What was told and what was taken back."""
    new = pc.equal(out[OP], "+")
    matches = pc.and_(new, pc.equal(out["kind"], "match"))
    sums: dict[str, pa.Scalar] = {
        "matches": pc.sum(matches),
        "timed_out": pc.sum(pc.and_not(new, matches)),
        "retracted": pc.sum(pc.invert(new)),
    }
    if "evidence_dropped" in out.column_names:
        sums["evidence_dropped"] = pc.sum(out.filter(new)["evidence_dropped"])
    return {name: total.as_py() or 0 for name, total in sums.items()}
