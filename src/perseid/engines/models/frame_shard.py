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


def events_of_frames(
    plan: ModelsPlan,
    rows: EventBatch,
    timely: IntArray,
    shard: ModelsState,
    watermark: Watermark,
    counted: Counter[str],
) -> list[pa.Table]:
    """Return the events of frames up to the watermark, for each group of patterns."""
    frames = _with_new(plan, rows, timely, shard)
    time, seen = (one_chunk(frames[name]).to_numpy(zero_copy_only=False) for name in ("time", "seen"))
    due = (
        np.ones(len(time), bool)
        if watermark.ended
        else seen
        if watermark.current is None
        else seen | (time <= watermark.current)
    )
    due_frames = frames if due.all() else frames.filter(pa.array(due))
    table = _frame_table(plan, due_frames, time[due], seen[due])
    compiled = _compiled_groups(plan)
    groups = list(zip(plan.groups, compiled, strict=True))
    tables = [None if one is None else table.events(one, group.watched) for group, one in groups]
    rest = iter(_one_by_one(plan, [group.watched for group, one in groups if one is None], table, shard, counted))
    remembered = frames.schema.empty_table() if not any(compiled) else _remembered(plan, due_frames, table)
    pending = frames.filter(pa.array(~due))
    shard.frames = pa.concat_tables([remembered, pending])
    counted["live_keys"] = max(len(shard.models), len(table.rows.partitions))
    counted["retained_events"] = pending.num_rows
    return [next(rest) if one is None else one for one in tables]


def _with_new(plan: ModelsPlan, rows: EventBatch, timely: IntArray, shard: ModelsState) -> pa.Table:
    """Return the retained frames, followed by the new frames of a call."""
    assert plan.frames is not None
    schema = frame_schema(plan)
    columns_of_frames = [rows.columns[name] for name in (*plan.key, *plan.frame_columns)]
    columns = [
        pa.array(np.asarray(rows.time, np.int64)),
        pa.array(np.zeros(len(rows), bool)),
        *map(one_chunk, columns_of_frames),
    ]
    new = pa.table(columns, schema=schema)
    new = new if len(timely) == len(rows) else new.take(pa.array(timely))
    return new if shard.frames is None or not shard.frames.num_rows else pa.concat_tables([shard.frames, new])


def _frame_table(plan: ModelsPlan, frames: pa.Table, time: IntArray, seen: BoolArray) -> FrameTable:
    """Return the frames of a call, including retained frames with events that were already emitted."""
    assert plan.frames is not None
    keys = {name: frames[f"key {i}"] for i, name in enumerate(plan.key)}
    columns = {name: one_chunk(frames[f"set {i}"]) for i, name in enumerate(plan.frame_columns)}
    return FrameTable(plan.frames, keys, columns, time, seen)


def _one_by_one(
    plan: ModelsPlan, watched: list[EventStreamFilter], table: FrameTable, shard: ModelsState, counted: Counter[str]
) -> list[pa.Table]:
    """Return the events of new frames for queries without an array form: each frame is a transaction."""
    if not watched:
        return []
    query_names = tuple(dict.fromkeys(name for one in watched for name in one.queries))
    effects = apply_transactions(shard.models, plan.queries, query_names, table.transactions(shard.models))
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
    recent = last - np.arange(size) < count
    if micros:
        recent |= table.time > table.time[last] - micros
    at = pa.array(table.rows.order[table.rows.last][recent])
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "time": frames["time"].take(at),
        "seen": pa.array(np.ones(len(at), bool)),
    }
    columns |= {f"key {i}": column.take(at) for i, column in enumerate(table.keys.values())}
    for i in range(len(plan.frame_columns)):
        column = one_chunk(frames[f"set {i}"])
        columns[f"set {i}"] = column.take(pa.array(table.rows.rows(column)[recent]))
    return pa.table(columns, schema=frames.schema)


_ANSWERED: OrderedDict[tuple[str, str], list[FrameQueries | None]] = OrderedDict()
"""Bounded cache of queries compiled for arrays, by the digest of the plan and the schema of retained frames."""
MOST = 16


def _compiled_groups(plan: ModelsPlan) -> list[FrameQueries | None]:
    """Return the compiled queries of each group of patterns; None for a group without an array form."""
    known = plan.digest, str(frame_schema(plan))
    if known not in _ANSWERED:
        _ANSWERED[known] = [_ready(plan, group) for group in plan.groups]
        if len(_ANSWERED) > MOST:
            _ANSWERED.popitem(last=False)
    return _ANSWERED[known]


def _ready(plan: ModelsPlan, group: PatternGroup) -> FrameQueries | None:
    assert plan.frames is not None
    try:
        compiled = plan.frames.compile_queries(plan.queries, group.watched)
        for column in compiled.program.columns.values():
            require_fitting(column, plan.types[column.name])
    except NotVectorizable:
        return None
    return compiled
