"""Frames of a shard: frames up to the watermark are evaluated together, after the last frames of their models.

Events are differences from the previous frame, and moving windows look back further. So the last frames of each model
are retained, as many as the longest window needs. They are computed again with the new ones, and not emitted again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

import numpy as np
import pyarrow as pa

from perseid.engines.models.column_program import FrameColumns, NotVectorizable
from perseid.engines.models.events import EventRows
from perseid.engines.models.frame_events import event_table, happened, ranks_of
from perseid.engines.models.frame_rows import ArrangedFrames, require_fitting
from perseid.engines.models.frames import FrameQueries
from perseid.engines.models.live import LiveModel
from perseid.engines.models.plan import ModelsPlan, PatternGroup
from perseid.engines.models.state import ModelsState, frame_schema
from perseid.runtime.arrays import BoolArray, IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.key_encoding import one_chunk
from perseid.runtime.watermark import Watermark


def brought_by_frames(
    plan: ModelsPlan, rows: EventBatch, timely: IntArray, kept: ModelsState, watermark: Watermark, counted: Counter[str]
) -> list[pa.Table]:
    """Return the events of frames up to the watermark, for each group of patterns."""
    frames = _with_new(plan, rows, timely, kept)
    time, seen = (one_chunk(frames[name]).to_numpy(zero_copy_only=False) for name in ("time", "seen"))
    due = (
        np.ones(len(time), bool)
        if watermark.ended
        else seen
        if watermark.current is None
        else seen | (time <= watermark.current)
    )
    work = _Work(plan, frames if due.all() else frames.filter(pa.array(due)), time[due], seen[due])
    answered = _compiled_groups(plan)
    told = [None if one is None else work.at_once(group, one) for group, one in zip(plan.asked, answered, strict=True)]
    slow = [group for group, one in zip(plan.asked, answered, strict=True) if one is None]
    rest = iter(work.one_by_one(slow, kept, counted))
    remembered = work.remembered() if len(slow) < len(plan.asked) else frames.schema.empty_table()
    waiting = frames.filter(pa.array(~due))
    kept.frames = pa.concat_tables([remembered, waiting])
    counted["live_keys"] = max(len(kept.models), work.models)
    counted["retained_events"] = waiting.num_rows
    return [next(rest) if table is None else table for table in told]


def _with_new(plan: ModelsPlan, rows: EventBatch, timely: IntArray, kept: ModelsState) -> pa.Table:
    """Return the retained frames, followed by the new frames of a call."""
    assert plan.frames is not None
    schema = frame_schema(plan)
    given = [rows.columns[name] for name in (*plan.key, *plan.frame_columns)]
    columns = [pa.array(np.asarray(rows.time, np.int64)), pa.array(np.zeros(len(rows), bool)), *map(one_chunk, given)]
    new = pa.table(columns, schema=schema)
    new = new if len(timely) == len(rows) else new.take(pa.array(timely))
    return new if kept.frames is None or not kept.frames.num_rows else pa.concat_tables([kept.frames, new])


class _Work:
    """Frames computed in one call, including retained frames with events that were already emitted."""

    def __init__(self, plan: ModelsPlan, frames: pa.Table, time: IntArray, seen: BoolArray) -> None:
        assert plan.frames is not None
        self.plan = plan
        self.shape = plan.frames
        self.frames = frames
        self.keys = {name: one_chunk(frames[f"key {i}"]) for i, name in enumerate(plan.key)}
        self.places = {name: f"set {i}" for i, name in enumerate(plan.frame_columns)}
        self.rows = ArrangedFrames(list(self.keys.values()), time)
        self.time = self.rows.time[self.rows.last]
        self.first = self.rows.first_frames()
        self.seen = seen[self.rows.order][self.rows.last]
        self.models = len(self.rows.partitions)

    def at_once(self, group: PatternGroup, asked: FrameQueries) -> pa.Table:
        """Return the events of all new frames, computed on arrays."""
        ranks = ranks_of(asked, group.watched)
        columns = {
            column.name: self.rows.vector(one_chunk(self.frames[self.places[column.name]]), column)
            for column in asked.program.columns.values()
        }
        rows, of = happened(asked, ranks, FrameColumns(self.time, self.first, columns))
        if self.seen.any():
            new = ~self.seen[rows]
            rows, of = rows[new], of[new]
        keys = {name: self.rows.key(column) for name, column in self.keys.items()}
        return event_table(self.plan.queries, group.watched, ranks, (rows, of), self.time, keys, self.plan.element)

    def one_by_one(self, groups: list[PatternGroup], kept: ModelsState, counted: Counter[str]) -> list[pa.Table]:
        """Return the events of new frames for queries without an array form: each frame is a transaction."""
        gathered = [EventRows(self.plan.queries, one.watched, self.plan.key) for one in groups]
        if not groups:
            return []
        told = tuple(dict.fromkeys(name for one in groups for name in one.watched.queries))
        columns = {name: one_chunk(self.frames[place]) for name, place in self.places.items()}
        values = {name: one.take(pa.array(self.rows.rows(one))).to_pylist() for name, one in columns.items()}
        at = pa.array(self.rows.order[self.rows.last])
        keys = [column.take(at).to_pylist() for column in self.keys.values()]
        for frame in np.flatnonzero(~self.seen).tolist():
            key, time = tuple(column[frame] for column in keys), int(self.time[frame])
            begins = key not in kept.models
            if begins:
                kept.models[key] = LiveModel(self.plan.queries, told)
            done = kept.models[key].transact(time, self.shape.changes(values, frame, begins))
            counted["bad"] += len(done.refused)
            for one in gathered:
                one.add(key, time, done)
        return [one.table(self.plan.element, [self.plan.types[name] for name in self.plan.key]) for one in gathered]

    def remembered(self) -> pa.Table:
        """Return the last frames of each model, as many as its next frame looks back to."""
        windows = self.plan.queries.moving.values()
        count = max((one.values or 1 for one in windows), default=1)
        micros = max((one.microseconds or 0 for one in windows), default=0)
        frames = len(self.time)
        ends = np.append(np.flatnonzero(np.diff(self.first)), frames - 1)
        last = ends[np.searchsorted(ends, np.arange(frames))] if frames else ends[:0]
        near = last - np.arange(frames) < count
        if micros:
            near |= self.time > self.time[last] - micros
        at = pa.array(self.rows.order[self.rows.last][near])
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            "time": self.frames["time"].take(at),
            "seen": pa.array(np.ones(len(at), bool)),
        }
        columns |= {f"key {i}": column.take(at) for i, column in enumerate(self.keys.values())}
        for place in self.places.values():
            column = one_chunk(self.frames[place])
            columns[place] = column.take(pa.array(self.rows.rows(column)[near]))
        return pa.table(columns, schema=self.frames.schema)


_ANSWERED: OrderedDict[tuple[str, str], list[FrameQueries | None]] = OrderedDict()
"""Bounded cache of queries compiled for arrays, by the digest of the plan and the schema of retained frames."""
MOST = 16


def _compiled_groups(plan: ModelsPlan) -> list[FrameQueries | None]:
    """Return the compiled queries of each group of patterns; None for a group without an array form."""
    known = plan.digest, str(frame_schema(plan))
    if known not in _ANSWERED:
        _ANSWERED[known] = [_ready(plan, group) for group in plan.asked]
        if len(_ANSWERED) > MOST:
            _ANSWERED.popitem(last=False)
    return _ANSWERED[known]


def _ready(plan: ModelsPlan, group: PatternGroup) -> FrameQueries | None:
    assert plan.frames is not None
    try:
        asked = plan.frames.asked(plan.queries, group.watched)
        for column in asked.program.columns.values():
            require_fitting(column, plan.types[column.name])
    except NotVectorizable:
        return None
    return asked
