"""A shard of models: applies complete transactions, and matches patterns over the resulting events.

A transaction is complete once the watermark has reached its time. The process caches the decoded state between calls,
and decodes a state only if it is not among those it encoded last.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.models.events import PLACE, TIME, TYPE, collect_events, content_columns
from perseid.engines.models.frame_shard import events_of_frames
from perseid.engines.models.live import apply_transactions
from perseid.engines.models.plan import ROLES, ModelsPlan, PatternGroup
from perseid.engines.models.state import ModelsState, read_state, write_state
from perseid.engines.models.transactions import BufferedChange, Transaction, transactions
from perseid.engines.sequence.shard import SequenceShard, run
from perseid.errors import LimitError
from perseid.runtime.arrays import Int8Array, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.hashing import identities
from perseid.runtime.key_encoding import one_chunk
from perseid.runtime.late_rows import LateReason
from perseid.runtime.watermark import Watermark
from perseid.semantics.graphs import Change, Happening


def advance(plan: ModelsPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Process one call of a shard."""
    shard = decode_shard(plan, state)
    late, why, timely = by_time(rows, shard, watermark)
    counted: Counter[str] = Counter(events=len(timely), late=len(late), bad=0)
    collect = events_of_changes if plan.frames is None else events_of_frames
    events = collect(plan, rows, timely, shard, watermark, counted)
    shard.pass_to(watermark)
    tables, timers = _searched(plan, shard, events, rows, watermark, counted)
    written = None if watermark.ended else encode_shard(plan, shard)
    counted["matches"] = sum(table.num_rows for table in tables)
    counted["state_bytes"] = 0 if written is None else len(written)
    timers += shard.first_times()
    output = pa.concat_tables([plan.schema.empty_table(), *(_in_schema(table, plan.schema) for table in tables)])
    return StepResult(output.combine_chunks(), written, min(timers, default=None), dict(counted), late, why)


def by_time(rows: EventBatch, shard: ModelsState, watermark: Watermark) -> tuple[IntArray, Int8Array, IntArray]:
    """Return the late rows, the reason for each, and the rows in time.

    The watermark of this call counts too: lateness must not depend on which shards were called before.
    """
    passed = [time for time in (shard.done, None if watermark.ended else watermark.current) if time is not None]
    is_late = np.asarray(rows.time) <= max(passed) if passed else np.zeros(len(rows), bool)
    late = np.flatnonzero(is_late)
    return late, np.full(len(late), LateReason.BEHIND_WATERMARK, np.int8), np.flatnonzero(~is_late)


def events_of_changes(
    plan: ModelsPlan,
    rows: EventBatch,
    timely: IntArray,
    shard: ModelsState,
    watermark: Watermark,
    counted: Counter[str],
) -> list[pa.Table]:
    """Apply complete transactions; return their events for each group of patterns."""
    accept(plan, rows, timely, shard)
    effects = apply_transactions(shard.models, plan.queries, plan.reported_queries, ready(shard, watermark))
    gathered, rejected = collect_events(plan.queries, [one.watched for one in plan.groups], plan.key, effects)
    counted["bad"] += len(rejected)
    counted["live_keys"] = len(shard.models)
    counted["retained_events"] = len(shard.buffered)
    return [one.table(plan.element, [plan.types[name] for name in plan.key]) for one in gathered]


def accept(plan: ModelsPlan, rows: EventBatch, timely: IntArray, shard: ModelsState) -> None:
    """Buffer new changes, and ordinary events next to models, until their transaction is complete."""
    times = np.asarray(rows.time)
    columns = [_values(rows.columns[role]) for role in ROLES]
    event_columns = {name: _values(rows.columns[column]) for name, column in plan.event_columns.items()}
    kinds = np.asarray(rows.type_codes)
    keys = [_values(rows.columns[name]) for name in plan.key]
    ranks = [_values(rows.columns[name]) for name in plan.order_by]
    for row in timely.tolist():
        key, rank = (tuple(column[row] for column in parts) for parts in (keys, ranks))
        change: Change | Happening
        if event_columns and kinds[row] > 0:
            values = tuple((name, column[row]) for name, column in event_columns.items())
            change = Happening(rows.type_names[kinds[row]], values)
        else:
            change = Change(*(column[row] for column in columns))
        shard.buffered.append(BufferedChange(key, int(times[row]), rank, change))


def ready(shard: ModelsState, watermark: Watermark) -> Iterator[Transaction]:
    """Remove the complete transactions from the buffer, and yield them by model and time."""
    if watermark.ended:
        ready, shard.buffered = shard.buffered, []
    elif watermark.current is None:
        return
    else:
        ready = [one for one in shard.buffered if one.time <= watermark.current]
        shard.buffered = [one for one in shard.buffered if one.time > watermark.current]
    yield from transactions(sorted(ready, key=lambda one: repr(one.key)))


def _searched(
    plan: ModelsPlan,
    shard: ModelsState,
    tables_of_events: list[pa.Table],
    rows: EventBatch,
    watermark: Watermark,
    counted: Counter[str],
) -> tuple[list[pa.Table], list[int]]:
    """Match the patterns of each group over its events; return tables of matches, and the next timers."""
    if not shard.sequences:
        shard.sequences = [None] * len(plan.groups)
    tables, timers = [], []
    for number, (group, events) in enumerate(zip(plan.groups, tables_of_events, strict=True)):
        batch = _rows(plan, group, events, rows)
        ran = run(
            plan.over(group),
            batch,
            shard.sequences[number],
            clock=watermark,
            newest=watermark.current,
            make_shard=_Punctual,
        )
        done = ran.step
        shard.sequences[number] = done.state
        tables.append(done.rows)
        counted.update(
            {
                name: n
                for name, n in done.counters.items()
                if name not in ("events", "matches", "state_bytes", "retained_events", "live_keys")
            }
        )
        if done.next_timer is not None:
            timers.append(done.next_timer)
    return tables, timers


class _Punctual(SequenceShard):
    """A shard over events that are created once the watermark reaches their time: none of them is late."""

    def _classify_late(self, rows: EventBatch) -> Int8Array:
        return np.zeros(len(rows), np.int8)


def _rows(plan: ModelsPlan, group: PatternGroup, events: pa.Table, inputs: EventBatch) -> EventBatch:
    """Convert events to an input batch of the sequence engine."""
    content = {name: one_chunk(events[name]) for name in events.column_names if name not in (TIME, PLACE)}
    columns = {name: column for name, column in content.items() if name != TYPE}
    types = content[TYPE]
    coded = types if pa.types.is_dictionary(types.type) else types.dictionary_encode()
    order = content_columns(plan.queries, group.watched, plan.key)
    return EventBatch(
        time=one_chunk(events[TIME].cast(pa.int64())).to_numpy(),
        type_codes=coded.indices.to_numpy().astype(np.int32),
        type_names=coded.dictionary.to_pylist(),
        columns=columns,
        keys={
            route.id: dict(zip(route.columns, (columns[path[0]] for path in route.paths), strict=True))
            for route in group.sequence.plan.routes
        },
        identity=identities([content[name] for name in order], content),
        tie_breakers=[one_chunk(events[PLACE])],
        relations=inputs.relations,
    )


def _in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    missing = {f.name: pa.nulls(table.num_rows, f.type) for f in schema if f.name not in table.column_names}
    columns = [missing[f.name] if f.name in missing else table[f.name].cast(f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _values(column: pa.Array | pa.ChunkedArray | list[Any]) -> list[Any]:
    return column if isinstance(column, list) else column.to_pylist()


def encode_shard(plan: ModelsPlan, shard: ModelsState) -> bytes:
    """Encode the state of a shard, check its size, and cache the decoded form in this process."""
    state = write_state(plan, shard)
    if len(state) > plan.max_state:
        raise LimitError(
            f"The models of one shard take {len(state):,} bytes; max_state allows {plan.max_state:,}.",
            hint="Use more shards, or a larger ps.StreamOptions(max_state=…).",
        )
    _DECODED[plan.digest, state] = shard
    while len(_DECODED) > MOST:
        _DECODED.popitem(last=False)
    return state


_DECODED: OrderedDict[tuple[str, bytes], ModelsState] = OrderedDict()
"""Bounded cache of decoded shard states in this process, by plan digest and encoded state."""
MOST = 16


def decode_shard(plan: ModelsPlan, state: bytes | None) -> ModelsState:
    """Return the decoded state of a shard; it is removed from the cache, so a failed call leaves no partial update."""
    if state is None:
        return ModelsState()
    shard = _DECODED.pop((plan.digest, state), None)
    return read_state(plan, state) if shard is None else shard
