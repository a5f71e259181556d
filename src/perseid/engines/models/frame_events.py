"""Events of frames as a table: the same rows that :class:`perseid.engines.models.events.EventRows` builds one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from perseid.engines.models.column_program import FrameColumns, FrameRange, ProgramSlot
from perseid.engines.models.events import PLACE, TIME, TYPE, arrow_of_column
from perseid.engines.models.frames import FrameQueries
from perseid.engines.models.vectors import Vector
from perseid.runtime.arrays import BoolArray, IntArray
from perseid.semantics.model_queries import Match, Queries
from perseid.semantics.model_steps import EventStreamFilter, event_columns, query_event
from perseid.semantics.values import Value

BLOCK = 1 << 14
"""Rows computed together: few enough for all their arrays to fit in the CPU cache."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One event that a frame can produce; ranks are in the emission order of a transaction."""

    query: str
    change: str
    match: Match
    condition: ProgramSlot | None
    changed: ProgramSlot | None


def ranks_of(compiled: FrameQueries, watched: EventStreamFilter) -> list[Rank]:
    """Return all events that one frame can produce: by query, lost, updated and found matches."""
    found = []
    for query in compiled.queries.queries:
        if query in watched.queries:
            for change in ("lost", "updated", "found"):
                for one in compiled.standing[query]:
                    if (change != "lost" or one.condition is not None) and (
                        change != "updated" or one.changed is not None
                    ):
                        found.append(Rank(query, change, one.match, one.condition, one.changed))
    return found


def happened(
    compiled: FrameQueries, ranks: Sequence[Rank], frames: FrameColumns, threads: int = 1
) -> tuple[IntArray, IntArray]:
    """Return the events in order: the frame row of each, and the index of its rank."""
    starts = range(0, len(frames), BLOCK)

    def one(start: int) -> tuple[IntArray, IntArray]:
        with np.errstate(all="ignore"):
            return _block(compiled, ranks, frames, start, min(start + BLOCK, len(frames)))

    if not ranks or not len(frames):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if threads > 1 and len(starts) > 1:
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(one, starts))
    else:
        found = [one(start) for start in starts]
    return np.concatenate([rows for rows, _ in found]), np.concatenate([of for _, of in found])


def _block(
    compiled: FrameQueries, ranks: Sequence[Rank], frames: FrameColumns, start: int, stop: int
) -> tuple[IntArray, IntArray]:
    # The preceding row is computed too: events are differences from it.
    begin = max(start - 1, 0)
    values = compiled.program.run(FrameRange(frames, begin, stop))
    rows = stop - begin
    fresh = frames.first[begin:stop] == np.arange(begin, stop)
    mask = np.empty((rows, len(ranks)), np.bool_)
    edges: dict[ProgramSlot | None, tuple[BoolArray, BoolArray]] = {}
    for place, rank in enumerate(ranks):
        if rank.condition not in edges:
            edges[rank.condition] = _now_and_before(values, rank.condition, rows, fresh)
        now, before = edges[rank.condition]
        if rank.change == "found":
            mask[:, place] = now & ~before
        elif rank.change == "lost":
            mask[:, place] = before & ~now
        else:
            assert rank.changed is not None
            mask[:, place] = before & now & values[rank.changed.number].values
    if begin < start:
        mask[0] = False
    at, of = np.divmod(np.flatnonzero(mask), len(ranks))
    return at + begin, of


def _now_and_before(
    values: list[Vector], condition: ProgramSlot | None, rows: int, fresh: BoolArray
) -> tuple[BoolArray, BoolArray]:
    """Return masks of the rows where a match holds, and where it held in the previous frame of the same model."""
    now = np.ones(rows, np.bool_) if condition is None else np.broadcast_to(values[condition.number].values, rows)
    before = np.empty(rows, np.bool_)
    before[:1] = False
    before[1:] = now[:-1]
    before &= ~fresh
    return now, before


def event_table(
    queries: Queries,
    watched: EventStreamFilter,
    ranks: Sequence[Rank],
    events: tuple[IntArray, IntArray],
    time: IntArray,
    keys: Mapping[str, pa.Array],
    element: pa.DataType,
) -> pa.Table:
    """Build the table of events; ``keys`` has a column for each part of the model key, by frame row."""
    rows, of = events
    new = np.ones(len(rows), np.bool_)
    new[1:] = rows[1:] != rows[:-1]
    begin = np.maximum.accumulate(np.where(new, np.arange(len(rows)), 0))
    columns: dict[str, pa.Array] = {
        TIME: pa.array(time[rows]).cast(pa.timestamp("us", "UTC")),
        TYPE: _coded(of, [query_event(rank.change, rank.query) for rank in ranks], pa.string()),
        PLACE: pa.array(np.arange(len(rows)) - begin),
    }
    row_indices = pa.array(rows)
    for name, column in keys.items():
        columns[name] = column.take(row_indices)
    for name, kind in event_columns(queries, watched, tuple(keys)).items():
        values = [
            dict(zip(queries.queries[rank.query].parameters, rank.match, strict=True)).get(name) for rank in ranks
        ]
        columns[name] = _coded(of, values, arrow_of_column(kind, element))
    return pa.table(columns)


def _coded(of: IntArray, values: list[Value], type_: pa.DataType) -> pa.Array:
    """Expand one value per rank to one per event; strings as dictionary codes, which are faster to read."""
    distinct = list(dict.fromkeys(value for value in values if value is not None))
    place = {value: code for code, value in enumerate(distinct)}
    codes = np.array([place.get(value, -1) for value in values], np.int32)[of] if values else np.zeros(0, np.int32)
    coded = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(distinct, type_))
    return coded if pa.types.is_string(type_) else coded.cast(type_)
