"""Changelogs of retractable matches: the difference of the matches emitted before and the matches valid now."""

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
"""Includes the end time: late events may change the time at which a partial match times out."""


def diff(before: pa.Table, now: pa.Table, revision: int, horizon: int | None, schema: pa.Schema) -> pa.Table:
    """Retractions and insertions that turn ``before`` into ``now``; insertions have ``revision + 1``."""
    retractions = before.filter(pc.invert(_is_in(before, now)))
    insertions = now.filter(pc.invert(_is_in(now, before)))
    parts = ((retractions, "-", revision), (insertions, "+", revision + 1))
    return joined((add_changelog_columns(rows, op, number, horizon, schema) for rows, op, number in parts), schema)


def _is_in(rows: pa.Table, others: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(_match_keys(rows), value_set=_match_keys(others))


def _match_keys(rows: pa.Table) -> pa.ChunkedArray:
    texts = (rows[name].cast(pa.int64()).cast(pa.string()) if name == "end" else rows[name] for name in _NAMED_BY)
    return pc.binary_join_element_wise(*texts, "\0", null_handling="replace", null_replacement="")


def add_changelog_columns(rows: pa.Table, op: str, revision: int, horizon: int | None, schema: pa.Schema) -> pa.Table:
    """Add the changelog columns to match rows."""
    place = schema.get_field_index(REVISION) + 1
    known = None if horizon is None or horizon > v.LATEST else horizon
    added = {
        OP: pa.repeat(op, rows.num_rows),
        REVISION: pa.array(np.full(rows.num_rows, revision, np.int32)),
        schema.field(place).name: pa.repeat(pa.scalar(known, MOMENT), rows.num_rows),
    }
    return pa.table({f.name: added[f.name] if f.name in added else rows[f.name] for f in schema})


def fit_to_schema(emitted: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert match rows emitted under another pattern set to a schema: missing or inconvertible columns become null."""
    if emitted.schema == schema:
        return emitted
    columns = {}
    for field in schema:
        column = emitted[field.name] if field.name in emitted.column_names else pa.nulls(emitted.num_rows)
        try:
            columns[field.name] = column if pa.types.is_null(field.type) else cast_column(column, field.type)
        except (pa.ArrowException, ValueError):
            columns[field.name] = pa.nulls(emitted.num_rows, field.type)
    return pa.table(columns)


def horizon_of(
    before: int | None, rows: EventBatch, late: IntArray | Sequence[int], watermark: Watermark
) -> int | None:
    """Event time up to which the input is treated as complete: the newest accepted event or the watermark.

    The horizon never decreases; it is None when the stream has ended.
    """
    if watermark.ended:
        return None
    times = rows.time if not len(late) else np.delete(rows.time, np.asarray(late, np.int64))
    bounds = [time for time in (before, watermark.current) if time is not None]
    return max([*bounds, *([int(times.max())] if len(times) else [])], default=None)


def is_ahead(horizon: int | None, watermark: Watermark) -> bool:
    """Return True if the horizon is ahead of the watermark."""
    return horizon is not None and (watermark.current is None or horizon > watermark.current)


def count_changes(out: pa.Table) -> dict[str, int]:
    """Count the inserted matches, inserted timeouts and retractions of a changelog."""
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
