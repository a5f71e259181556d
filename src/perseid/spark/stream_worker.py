"""Executor side of a stream: runs the rows of a shard through the engine and outputs matches.

Spark transfers rows through pandas, which has no nullable integers and no dates after 2262. Columns are therefore
transferred as numbers and texts, with a column of null flags as bits. If some are lists, structs or the like, rows are
packed before the shuffle: one packet per shard, an Arrow table in bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid._version import __version__
from perseid.lang.printer import print_duration
from perseid.runtime.arrays import MOMENT
from perseid.runtime.contract import StepResult
from perseid.runtime.counters import COUNTERS, GAUGES
from perseid.runtime.event_batch import STREAM_PUNCTUATION
from perseid.runtime.late_rows import LateReason
from perseid.runtime.state_codec import arrow_stream
from perseid.runtime.watermark import Watermark
from perseid.spark.shards import labels
from perseid.spark.worker import AHEAD, LABEL, OURS, TIME, Job, Sent, freeze_gc

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

    from perseid.runtime.arrays import Int8Array

SHARD, PACKET, CLOCK, ROW, REASON, NULLS, COUNTS, CONTROL, WRONG = (
    OURS + name for name in ("shard", "packet", "clock", "row", "reason", "nulls", "counts", "control", "wrong")
)
UNKNOWN_PUNCTUATION_SCOPE = 3
"""Control code of a punctuation with an unknown scope: a bad row."""
BY_SHARD = "by_shard"
"""Gauges by the label of each shard: only called shards report them, and a total needs the others too."""
NO_CLOCK = -(2**62)
PACKET_ROWS = 1 << 20
"""Rows that are buffered before they are packed."""
OUTPUT_CHUNK_ROWS = 1 << 16
"""Matches that are transferred as one row."""
MOSTLY_CONSTANT_COLUMNS = ("pattern", "kind", "op", "revision", "horizon")
"""Columns that mostly have one value in all matches of a call, which is then transferred once."""
LATE_REASONS = {
    LateReason.BEHIND_WATERMARK: "Its time is at or before the watermark.",
    LateReason.OUT_OF_ORDER: "It is older than an earlier row of its key, which order='arrival' does not allow.",
    LateReason.AFTER_PUNCTUATION: "An earlier punctuation excludes it.",
    LateReason.BEHIND_FRONTIER: "It arrived after the adaptive delay, but before the watermark passed its time.",
}
BEHIND_CLOCK = "The source was idle, and processing time advanced event time past the time of this row."
NO_TIME = "It has no time."
UNCLEAR_PUNCTUATION = "Its punctuation is neither 'key' nor 'all'."


@dataclass(frozen=True)
class StreamJob(Sent):
    """A task and the properties of its stream; plain data."""

    job: Job
    crossing: pa.Schema
    """The columns of a packet."""
    shards: int
    idle: int | None = None
    """Microseconds without a new watermark after which the clock advances time."""
    rejected: bool = False
    """True if late and bad rows, and rows too far ahead, are output as rows."""
    max_ahead: int | None = None
    """Microseconds that a time may lie beyond its arrival, named in the reason of rejected rows."""
    position: str | None = None
    """The column that identifies a late row in the output; None outputs the whole row."""
    plain: bool = False
    """True if rows are transferred as columns, all of types that pandas preserves; otherwise as packets."""
    flat: bool = True
    """True if no column of the matches is nested: they are transferred as columns, otherwise as packets."""
    about: str | None = None
    """The column with the type or source that a punctuation is about; None without punctuations."""
    everywhere: bool = False
    """True if every shard receives all rows: queries are partitioned, not the data."""
    version: str = __version__

    def pack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack rows before the shuffle, one packet per shard; a ``mapInArrow`` function."""
        buffered: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            if batch.num_rows:
                buffered.append(batch)
                rows += batch.num_rows
            if rows >= PACKET_ROWS:
                yield from self._packets(pa.Table.from_batches(buffered))
                buffered, rows = [], 0
        if buffered:
            yield from self._packets(pa.Table.from_batches(buffered))

    def _packets(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        named = labels(self.shards)
        if self.idle is not None:
            ticks = table[CLOCK]
            now = pc.max(ticks).as_py()
            table = table.filter(pc.is_null(ticks)).drop_columns([CLOCK])
            if now is not None:
                # Every shard needs the clock.
                yield _packet_rows(named, [b""] * len(named), now)
        if not table.num_rows:
            return
        if self.everywhere:
            (sorted_batch,) = table.select(self.crossing.names).cast(self.crossing).combine_chunks().to_batches()
            yield _packet_rows(named, [arrow_stream(sorted_batch).to_pybytes()] * self.shards, NO_CLOCK)
            return
        if self.about is not None:
            table = self._copy_stream_punctuations(table)
        shard = np.asarray(table[SHARD].combine_chunks())
        table = table.select(self.crossing.names).cast(self.crossing)
        order = np.argsort(shard, kind="stable")
        (sorted_batch,) = table.take(pa.array(order)).combine_chunks().to_batches()
        cuts = np.searchsorted(shard[order], np.arange(self.shards + 1))
        full = [i for i in range(self.shards) if cuts[i] < cuts[i + 1]]
        packets = [arrow_stream(sorted_batch.slice(cuts[i], cuts[i + 1] - cuts[i])).to_pybytes() for i in full]
        yield _packet_rows([named[i] for i in full], packets, NO_CLOCK)

    def _copy_stream_punctuations(self, table: pa.Table) -> pa.Table:
        """Copy punctuations about every key to each shard, only the newest of its kind, which implies the others."""
        everywhere = pc.and_(pc.equal(table[CONTROL], STREAM_PUNCTUATION), pc.is_valid(table[TIME]))
        punctuations = table.filter(everywhere)
        if not punctuations.num_rows:
            return table
        if self.about in punctuations.column_names:
            punctuations = punctuations.sort_by(TIME)
            names = np.asarray(punctuations[self.about].combine_chunks().dictionary_encode("encode").indices)
            _, newest = np.unique(names[::-1], return_index=True)
            punctuations = punctuations.take(pa.array(punctuations.num_rows - 1 - newest))
        else:
            punctuations = punctuations.take([int(np.argmax(punctuations[TIME].to_numpy()))])
        shards = np.repeat(np.arange(self.shards, dtype=np.int32), punctuations.num_rows)
        copies = punctuations.take(pa.array(np.tile(np.arange(punctuations.num_rows), self.shards)))
        copies = copies.set_column(copies.schema.get_field_index(SHARD), SHARD, pa.array(shards))
        return pa.concat_tables([table.filter(pc.invert(everywhere)), copies.cast(table.schema)])

    def step(self, key: tuple[int, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        """Run one shard in one micro-batch; an ``applyInPandasWithState`` function."""
        import pandas as pd

        table, clock = self._received(frames)
        previous = state.get if state.exists else None
        if previous is None and not table.num_rows:
            return
        watermark = state.getCurrentWatermarkMs()
        mark, since, reached = (watermark, clock, NO_CLOCK) if previous is None else previous[1:]
        if self.idle is not None:
            if mark != watermark or since == NO_CLOCK:
                mark, since = watermark, clock
            elif watermark > 0 and clock - since >= self.idle:
                # The source is idle: time advances from where it stopped.
                reached = max(reached, watermark * 1000 + clock - since)
        now = max(watermark * 1000, reached)
        body = None if previous is None else previous[0]
        query_partition = labels(self.shards).index(int(key[0])) if self.everywhere else 0
        done, counters, type_counts, rejected = self._stepped(
            table, body, now if now > 0 else None, watermark * 1000, query_partition
        )
        if done.state is not None:
            state.update((done.state, mark, since, reached))
            if done.next_timer is not None:
                # Spark calls once the watermark is past the given milliseconds.
                state.setTimeoutTimestamp(max(-(-done.next_timer // 1000) - 1, watermark, 1))
        elif state.exists:
            state.remove()
        out = self.job.named(done.rows).cast(self.job.schema)
        if rejected:
            out = pa.concat_tables([out, *rejected])
        freeze_gc()
        counts = ",".join(str(counters[name]) for name in COUNTERS)
        gauges = ":".join(str(counters[name]) for name in GAUGES)
        by_type = ":".join(map(str, type_counts))
        counts = f"{counts},{key[0]}:{gauges},{by_type}"
        if not self.flat:
            packet = arrow_stream(out.combine_chunks().to_batches()[0]).to_pybytes() if out.num_rows else None
            yield pd.DataFrame({PACKET: [packet], COUNTS: [counts]}, dtype=object)
            return
        for at in range(0, max(out.num_rows, 1), OUTPUT_CHUNK_ROWS):
            chunk = out.slice(at, OUTPUT_CHUNK_ROWS)
            row = np.empty((1, chunk.num_columns + 1), object)
            for i, name in enumerate(chunk.column_names):
                row[0, i] = _crossed(
                    chunk[i].slice(0, 1) if name in MOSTLY_CONSTANT_COLUMNS and _is_constant(chunk[i]) else chunk[i]
                )
            row[0, -1] = counts if at == 0 else None
            yield pd.DataFrame(row, columns=[*chunk.column_names, COUNTS], copy=False)

    def check(self, state: bytes) -> None:
        """Raise the errors of a step for a state: without rows and time, a step only reads the state."""
        self._stepped(self.crossing.empty_table(), state, None, 0)

    def _received(self, frames: Iterable[pd.DataFrame]) -> tuple[pa.Table, int]:
        """The rows of a call, and the newest clock tick."""
        tables = [self.crossing.empty_table()]
        clock = NO_CLOCK
        for frame in frames:
            if not len(frame):
                continue
            if self.idle is not None:
                clock = max(clock, int(frame[CLOCK].max()))
            if self.plain:
                data = frame if self.idle is None else frame[frame[CLOCK] == NO_CLOCK]
                tables += [_plain_table(data, self.crossing)] if len(data) else []
            else:
                tables += [pa.ipc.open_stream(packet).read_all() for packet in frame[PACKET] if packet]
        return pa.concat_tables(tables).combine_chunks(), clock

    def _stepped(
        self, table: pa.Table, state: bytes | None, now: int | None, watermark: int, query_partition: int = 0
    ) -> tuple[StepResult, Mapping[str, int], list[int], list[pa.Table]]:
        ahead = bad = late = table.slice(0, 0)
        if AHEAD in table.column_names and table[AHEAD].null_count < table.num_rows:
            is_ahead = pc.is_valid(table[AHEAD])
            ahead, table = table.filter(is_ahead), table.filter(pc.invert(is_ahead))
            if self.rejected:
                ahead = ahead.append_column(REASON, pa.array([self._ahead_reason()] * ahead.num_rows, pa.string()))
        promising = CONTROL in table.column_names
        if table[TIME].null_count or promising:
            good = pc.is_valid(table[TIME])
            if promising:
                good = pc.and_(good, pc.not_equal(table[CONTROL], UNKNOWN_PUNCTUATION_SCOPE))
            bad, table = table.filter(pc.invert(good)), table.filter(good)
        rows = replace(self.job.rows(table), query_partition=query_partition)
        if promising:
            rows = replace(rows, control=np.asarray(table[CONTROL].combine_chunks()).astype(np.int8))
        done = self.job.engine.run_step(self.job.plan, rows, state, Watermark(None, now, False))
        if len(done.late):
            late = table.take(pa.array(done.late, pa.int64()))
            if self.rejected:
                late = late.append_column(REASON, _late_reasons(late, done.late_reasons, watermark))
                if self.position is not None:
                    late = _late_object(late, self.position)
            late = self.job.once(late)
        if bad.num_rows and self.rejected:
            reason = pc.if_else(pc.is_null(bad[TIME]), NO_TIME, UNCLEAR_PUNCTUATION)
            if WRONG in bad.column_names:
                reason = pc.coalesce(bad[WRONG], reason)
            bad = bad.append_column(REASON, reason)
        received = self.job.once(table).num_rows
        unread = done.counters.get("bad", 0)  # rows that the engine could not read
        counters = {**dict.fromkeys(COUNTERS, 0), **done.counters, "shards": 1, "bad": bad.num_rows + unread}
        counters["ahead"] = ahead.num_rows
        counters |= {"late": late.num_rows, "events": received - late.num_rows - unread - counters["control_rows"]}
        if query_partition:  # every query partition receives the same rows; only the first counts and rejects them
            counters |= dict.fromkeys(("events", "late", "bad", "ahead", "control_rows"), 0)
        rejected_by_kind = (
            (("late", late), ("bad", bad), ("ahead", ahead)) if self.rejected and not query_partition else ()
        )
        by_type = [0] * len(self.job.types) if query_partition else self.job.by_type(rows, table)
        return (
            done,
            counters,
            by_type,
            [self._rejected(rejected_rows, kind) for kind, rejected_rows in rejected_by_kind if rejected_rows.num_rows],
        )

    def _ahead_reason(self) -> str:
        if self.max_ahead is None:
            return "Its time is too far after its arrival."
        return f"Its time is more than {print_duration(self.max_ahead)} after its arrival."

    def _rejected(self, table: pa.Table, kind: str) -> pa.Table:
        """Rejected rows as rows of the output: kind, time, key, reason, and the rest as JSON."""
        reason, row = self.job.plan.schema.names[-2:]
        shown: dict[str, pa.Array | pa.ChunkedArray] = {
            "kind": pa.array([kind] * table.num_rows, pa.string()),
            "start": table[AHEAD if kind == "ahead" else TIME].cast(MOMENT),
            reason: table[REASON],
            row: table[ROW],
        }
        for keys in self.job.keys.values():
            shown.update({key_name: table[column] for key_name, column in keys if key_name not in shown})
        columns = [
            shown[field.name].cast(field.type) if field.name in shown else pa.nulls(table.num_rows, field.type)
            for field in self.job.plan.schema
        ]
        return self.job.named(pa.table(columns, schema=self.job.plan.schema)).cast(self.job.schema)

    def unpack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack packets into the rows of matches, after the operator; a ``mapInArrow`` function."""
        for batch in batches:
            for packet in batch.column(0):
                yield from pa.ipc.open_stream(packet.as_buffer())


def _late_object(late: pa.Table, column: str) -> pa.Table:
    """Replace the JSON of late rows, a single value, by an object with that value under ``column``."""
    rows = [None if text is None else json.dumps({column: text}) for text in late[ROW].to_pylist()]
    return late.set_column(late.schema.get_field_index(ROW), ROW, pa.array(rows, pa.string()))


def _late_reasons(late: pa.Table, codes: Int8Array | Sequence[int], watermark: int) -> pa.Array:
    """The reason of each late row; rows after the watermark and before the time of the clock have their own reason."""
    codes = np.asarray(codes, np.int8)
    by_clock = (codes == LateReason.BEHIND_WATERMARK) & (late[TIME].to_numpy() > watermark)
    reasons = [LATE_REASONS.get(code, BEHIND_CLOCK) for code in LateReason]
    return pa.array(reasons, pa.string()).take(pa.array(np.where(by_clock, LateReason.NOT, codes)))


def is_plain(kind: pa.DataType) -> bool:
    """True if values of the type are transferred as a column."""
    is_ = pa.types
    zoned = is_.is_timestamp(kind) and kind.tz is not None
    numbers = (is_.is_integer, is_.is_floating, is_.is_boolean, is_.is_date32)
    return zoned or is_texts(kind) or any(test(kind) for test in numbers)


def is_texts(kind: pa.DataType) -> bool:
    """True if pandas holds the type as objects, with None for null."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _plain_table(frame: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    nulls = frame[NULLS].to_numpy()
    any_nulls = int(np.bitwise_or.reduce(nulls))
    columns = []
    for i, field in enumerate(schema):
        values = frame[field.name]
        if is_texts(field.type):
            columns.append(pa.array(values, field.type, from_pandas=True))
            continue
        mask = (nulls >> i & 1).astype(bool) if any_nulls >> i & 1 else None
        columns.append(pa.array(values.to_numpy(), _as_number(field.type), mask=mask).cast(field.type))
    return pa.table(columns, schema=schema)


def _packet_rows(named: Iterable[int], packets: list[bytes], clock: int) -> pa.RecordBatch:
    columns = [
        pa.array(named, pa.int32()),
        pa.array(packets, pa.binary()),
        pa.array(np.full(len(packets), clock, np.int64)),
    ]
    return pa.record_batch(columns, names=[LABEL, PACKET, CLOCK])


def crossing_type(kind: pa.DataType) -> pa.DataType:
    """The type in which a flat column leaves the operator: pandas reads NaN as null, and has no dates far from now."""
    return pa.string() if pa.types.is_floating(kind) else _as_number(kind)


def _as_number(kind: pa.DataType) -> pa.DataType:
    """The integer type in which times and dates are transferred; any other type unchanged."""
    is_ = pa.types
    if is_.is_timestamp(kind) or is_.is_duration(kind):
        return pa.int64()
    return pa.int32() if is_.is_date32(kind) else kind


def _is_constant(column: pa.ChunkedArray) -> bool:
    """True if all values are equal and none is null."""
    ends = pc.min_max(column)
    return column.null_count == 0 and len(column) > 0 and ends["min"] == ends["max"]


def _crossed(column: pa.ChunkedArray) -> list[object]:
    """A column of the matches as a list of Python values; from an array, Spark would make slower NumPy numbers."""
    values = column.cast(crossing_type(column.type))
    numbers = pa.types.is_integer(values.type) and not values.null_count
    return np.asarray(values).tolist() if numbers else values.to_pylist()  # type: ignore[no-any-return]
