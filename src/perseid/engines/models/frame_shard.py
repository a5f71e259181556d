"""Frames of a shard: frames up to the watermark are evaluated together, after the last frames of their models.

Events are differences from the previous frame, and moving windows look back further. So the last frames of each model
are retained, as many as the longest window needs. They are computed again with the new ones, and not emitted again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

import numpy as np
import pyarrow as pa

from perseid.engines.models.column_program import NotVectorizable
from perseid.engines.models.events import collect_events
from perseid.engines.models.frame_rows import require_fitting
from perseid.engines.models.frame_table import FrameTable
from perseid.engines.models.frames import FrameQueries
from perseid.engines.models.live import apply_transactions
from perseid.engines.models.plan import ModelsPlan, PatternGroup
from perseid.engines.models.state import ModelsState, frame_schema
from perseid.runtime.arrays import BoolArray, IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.key_encoding import one_chunk
from perseid.runtime.watermark import Watermark
from perseid.semantics.model_steps import EventStreamFilter


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
    given = frames if due.all() else frames.filter(pa.array(due))
    table = _frame_table(plan, given, time[due], seen[due])
    compiled = _compiled_groups(plan)
    groups = list(zip(plan.asked, compiled, strict=True))
    told = [None if one is None else table.events(one, group.watched) for group, one in groups]
    rest = iter(_one_by_one(plan, [group.watched for group, one in groups if one is None], table, kept, counted))
    remembered = frames.schema.empty_table() if not any(compiled) else _remembered(plan, given, table)
    waiting = frames.filter(pa.array(~due))
    kept.frames = pa.concat_tables([remembered, waiting])
    counted["live_keys"] = max(len(kept.models), len(table.rows.partitions))
    counted["retained_events"] = waiting.num_rows
    return [next(rest) if one is None else one for one in told]


def _with_new(plan: ModelsPlan, rows: EventBatch, timely: IntArray, kept: ModelsState) -> pa.Table:
    """Return the retained frames, followed by the new frames of a call."""
    assert plan.frames is not None
    schema = frame_schema(plan)
    given = [rows.columns[name] for name in (*plan.key, *plan.frame_columns)]
    columns = [pa.array(np.asarray(rows.time, np.int64)), pa.array(np.zeros(len(rows), bool)), *map(one_chunk, given)]
    new = pa.table(columns, schema=schema)
    new = new if len(timely) == len(rows) else new.take(pa.array(timely))
    return new if kept.frames is None or not kept.frames.num_rows else pa.concat_tables([kept.frames, new])


def _frame_table(plan: ModelsPlan, frames: pa.Table, time: IntArray, seen: BoolArray) -> FrameTable:
    """Return the frames of a call, including retained frames with events that were already emitted."""
    assert plan.frames is not None
    keys = {name: frames[f"key {i}"] for i, name in enumerate(plan.key)}
    columns = {name: one_chunk(frames[f"set {i}"]) for i, name in enumerate(plan.frame_columns)}
    return FrameTable(plan.frames, keys, columns, time, seen)


def _one_by_one(
    plan: ModelsPlan, watched: list[EventStreamFilter], table: FrameTable, kept: ModelsState, counted: Counter[str]
) -> list[pa.Table]:
    """Return the events of new frames for queries without an array form: each frame is a transaction."""
    if not watched:
        return []
    told = tuple(dict.fromkeys(name for one in watched for name in one.queries))
    effects = apply_transactions(kept.models, plan.queries, told, table.transactions(kept.models))
    gathered, rejected = collect_events(plan.queries, watched, plan.key, effects)
    counted["bad"] += len(rejected)
    return [one.table(plan.element, [plan.types[name] for name in plan.key]) for one in gathered]


def _remembered(plan: ModelsPlan, frames: pa.Table, table: FrameTable) -> pa.Table:
    """Return the last frames of each model, as many as its next frame looks back to."""
    windows = plan.queries.moving.values()
    count = max((one.values or 1 for one in windows), default=1)
    micros = max((one.microseconds or 0 for one in windows), default=0)
    size = len(table.time)
    ends = np.append(np.flatnonzero(np.diff(table.first)), size - 1)
    last = ends[np.searchsorted(ends, np.arange(size))] if size else ends[:0]
    near = last - np.arange(size) < count
    if micros:
        near |= table.time > table.time[last] - micros
    at = pa.array(table.rows.order[table.rows.last][near])
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "time": frames["time"].take(at),
        "seen": pa.array(np.ones(len(at), bool)),
    }
    columns |= {f"key {i}": column.take(at) for i, column in enumerate(table.keys.values())}
    for i in range(len(plan.frame_columns)):
        column = one_chunk(frames[f"set {i}"])
        columns[f"set {i}"] = column.take(pa.array(table.rows.rows(column)[near]))
    return pa.table(columns, schema=frames.schema)


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
