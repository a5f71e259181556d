"""What runs on executors for a stream: rows into one packet per shard, a shard's packets into a step, matches out.

Rows cross the stateful operator as packets, Arrow tables in bytes: pandas, through which Spark hands them over, has
no whole number that may be null and no date after 2262.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid._version import __version__
from perseid.engines.contract import Clock, Step
from perseid.engines.registry import engines
from perseid.engines.sequence.schema import MOMENT
from perseid.engines.state import arrow_stream
from perseid.spark.shards import labels
from perseid.spark.worker import OURS, TIME, Job, Sent, settle

SHARD, LABEL, PACKET, CLOCK, ROW, COUNTS = (
    OURS + name for name in ("shard", "label", "packet", "clock", "row", "counts")
)
COUNTERS = (
    "shards",
    "events",
    "late",
    "bad",
    "matches",
    "timed_out",
    "suppressed",
    "evidence_dropped",
    "capped",
    "duplicates",
    "incomplete",
    "live_keys",
    "kept_events",
    "state_bytes",
)
"""What every call of a shard counts. The last three are what it has after the call, all others what happened in it."""
GAUGES = COUNTERS[-3:]
BY_SHARD = "by_shard"
"""The last three by the label of each shard: only shards that were called count, and a total needs the others too."""
NO_CLOCK = -(2**62)
PACKET_ROWS = 1 << 20
"""Rows that wait in memory until they are packed."""
TOLD_ROWS = 1 << 16
"""Matches that cross as one row."""


@dataclass(frozen=True)
class StreamJob(Sent):
    """A job, and what a stream of it is like; plain data."""

    job: Job
    crossing: pa.Schema
    """The columns of a packet."""
    shards: int
    idle: int | None = None
    """Microseconds without a new watermark after which time goes on by the clock."""
    rejected: bool = False
    """Late and bad rows come out as rows."""
    flat: bool = True
    """No column of the matches is a list, a struct or a map: they cross as columns, others as packets."""
    version: str = __version__

    def pack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Before the shuffle: rows by shard, each shard's as one packet. The function that ``mapInArrow`` is given."""
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            if batch.num_rows:
                waiting.append(batch)
                rows += batch.num_rows
            if rows >= PACKET_ROWS:
                yield from self._packets(pa.Table.from_batches(waiting))
                waiting, rows = [], 0
        if waiting:
            yield from self._packets(pa.Table.from_batches(waiting))

    def _packets(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        named = labels(self.shards)
        if self.idle is not None:
            ticks = table[CLOCK]
            now = pc.max(ticks).as_py()
            table = table.filter(pc.is_null(ticks)).drop_columns([CLOCK])
            if now is not None:
                # Every shard has to hear the clock.
                yield _packet_rows(named, [b""] * len(named), now)
        if not table.num_rows:
            return
        shard = np.asarray(table[SHARD].combine_chunks())
        table = table.select(self.crossing.names).cast(self.crossing)
        order = np.argsort(shard, kind="stable")
        (whole,) = table.take(pa.array(order)).combine_chunks().to_batches()
        cuts = np.searchsorted(shard[order], np.arange(self.shards + 1))
        full = [i for i in range(self.shards) if cuts[i] < cuts[i + 1]]
        packets = [arrow_stream(whole.slice(cuts[i], cuts[i + 1] - cuts[i])).to_pybytes() for i in full]
        yield _packet_rows([named[i] for i in full], packets, NO_CLOCK)

    def step(self, key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Iterator[Any]:
        """One shard in one micro-batch. The function that ``applyInPandasWithState`` is given."""
        import pandas as pd

        packets: list[bytes] = []
        clock = NO_CLOCK
        for frame in frames:
            packets += [packet for packet in frame[PACKET] if packet]
            clock = max(clock, int(frame[CLOCK].max())) if len(frame) else clock
        held = state.get if state.exists else None
        if held is None and not packets:
            return
        watermark = state.getCurrentWatermarkMs()
        mark, since, reached = (watermark, clock, NO_CLOCK) if held is None else held[1:]
        if self.idle is not None:
            if mark != watermark or since == NO_CLOCK:
                mark, since = watermark, clock
            elif watermark > 0 and clock - since >= self.idle:
                # The source is silent: time goes on from where it stopped.
                reached = max(reached, watermark * 1000 + clock - since)
        now = max(watermark * 1000, reached)
        done, counters, rejected = self._stepped(packets, None if held is None else held[0], now if now > 0 else None)
        if done.state is not None:
            state.update((done.state, mark, since, reached))
            if done.wake is not None:
                # Spark calls once the watermark is past the milliseconds that it is told.
                state.setTimeoutTimestamp(max(-(-done.wake // 1000) - 1, watermark, 1))
        elif state.exists:
            state.remove()
        out = self.job.named(done.rows).cast(self.job.schema)
        if rejected is not None:
            out = pa.concat_tables([out, rejected])
        settle()
        counts = ",".join(str(counters[name]) for name in COUNTERS)
        held_now = ":".join(str(counters[name]) for name in GAUGES)
        counts = f"{counts},{key[0]}:{held_now}"
        if not self.flat:
            packet = arrow_stream(out.combine_chunks().to_batches()[0]).to_pybytes() if out.num_rows else None
            yield pd.DataFrame({PACKET: [packet], COUNTS: [counts]}, dtype=object)
            return
        for at in range(0, max(out.num_rows, 1), TOLD_ROWS):
            some = out.slice(at, TOLD_ROWS)
            cells = {name: _cell(_crossed(some[name])) for name in some.column_names}
            yield pd.DataFrame({**cells, COUNTS: _cell(counts if at == 0 else None)}, copy=False)

    def _stepped(
        self, packets: list[bytes], state: bytes | None, now: int | None
    ) -> tuple[Step, Mapping[str, int], pa.Table | None]:
        read = [pa.ipc.open_stream(packet).read_all() for packet in packets]
        table = pa.concat_tables(read).combine_chunks() if read else self.crossing.empty_table()
        timed = pc.is_valid(table[TIME])
        untimed = table.filter(pc.invert(timed)) if table[TIME].null_count else table.slice(0, 0)
        table = table.filter(timed) if untimed.num_rows else table
        done = engines()[self.job.engine].step(self.job.plan, self.job.rows(table), state, Clock(None, now, False))
        late = self.job.once(table.take(pa.array(done.late, pa.int64())))
        received = self.job.once(table).num_rows
        counters = {**dict.fromkeys(COUNTERS, 0), **done.counters, "shards": 1, "bad": untimed.num_rows}
        counters |= {"late": late.num_rows, "events": received - late.num_rows}
        rejected = None
        if self.rejected and (late.num_rows or untimed.num_rows):
            rejected = pa.concat_tables([self._rejected(late, "late"), self._rejected(untimed, "bad")])
        return done, counters, rejected

    def _rejected(self, table: pa.Table, kind: str) -> pa.Table:
        """Rows that were not taken, as rows of the output: what they are, their time, their key, and the rest as JSON."""
        shown: dict[str, Any] = {
            "kind": pa.array([kind] * table.num_rows, pa.string()),
            "start": table[TIME].cast(MOMENT),
            self.job.plan.schema.names[-1]: table[ROW],
        }
        for keys in self.job.keys.values():
            shown.update({there: table[here] for there, here in keys if there not in shown})
        columns = [
            shown[field.name].cast(field.type) if field.name in shown else pa.nulls(table.num_rows, field.type)
            for field in self.job.plan.schema
        ]
        return self.job.named(pa.table(columns, schema=self.job.plan.schema)).cast(self.job.schema)

    def unpack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """After the operator: packets as the rows of matches. The function that ``mapInArrow`` is given."""
        for batch in batches:
            for packet in batch.column(0):
                yield from pa.ipc.open_stream(packet.as_buffer())


def _packet_rows(named: Iterable[int], packets: list[bytes], clock: int) -> pa.RecordBatch:
    columns = [
        pa.array(named, pa.int32()),
        pa.array(packets, pa.binary()),
        pa.array(np.full(len(packets), clock, np.int64)),
    ]
    return pa.record_batch(columns, names=[LABEL, PACKET, CLOCK])


def crossing_type(kind: Any) -> Any:
    """How a flat type crosses from the operator: pandas takes NaN for null, and has no dates far from now."""
    is_ = pa.types
    if is_.is_timestamp(kind) or is_.is_duration(kind):
        return pa.int64()
    if is_.is_date32(kind):
        return pa.int32()
    return pa.string() if is_.is_floating(kind) else kind


def _crossed(column: Any) -> Any:
    """A column of the matches as what pandas leaves as it is."""
    values = column.cast(crossing_type(column.type))
    numbers = pa.types.is_integer(values.type) and not values.null_count
    return np.asarray(values) if numbers else values.to_pylist()


def _cell(value: Any) -> Any:
    """A column of one row."""
    cell = np.empty(1, object)
    cell[0] = value
    return cell
