"""The sequence engine on a stream: Q1 to Q5 compared with a baseline stateful query, small triggers, and growing
state."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import statistics
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import ours, spark_baselines
from bench.harness import Clock, Report, Side, Timed, paired_ratio, print_line, progress, run_rounds
from bench.truth import MatchChecksum, Truth
from bench.workload import EVENTS, FORMAT, KEYS, QUERIES, EventArrays, Query, parquet, rows
from perseid.spark.shards import labels

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUICK = ("Q1n",)
LIMITS = {"quick": (55.0, 30.0), "standard": (2400.0, 120.0), "full": (3 * 3600.0, 900.0)}
COUNTS = EVENTS | {"quick": 500_000}
"""Events of a run."""
SHARDS = 16
DELAY = "1 second"
CLOSING_TIME = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
"""Time of the row that closes a stream: every window ends before it."""
NEVER_MS = 10**12
SMALL_TRIGGER_EVENTS = 100
"""Events of a small trigger."""
TRIGGERS = 25
WARM = 3
"""Warm-up runs of a query: one run does not warm up the JIT compiler, and a stream runs for a long time."""
STATE_MB = (1, 2, 4, 8, 16, 32, 64, 128)
RETAINED_EVENTS_PER_MB = 32_000
"""Retained events that take about a megabyte."""


def run(size: str, data: Path, only: tuple[str, ...] | None = None) -> Report:
    """Measure at a size, with generated data cached in a folder."""
    clock = Clock(*LIMITS[size])
    report = Report("stream", size)
    count = COUNTS[size]
    queries = [QUERIES[name] for name in only or (QUICK if size == "quick" else tuple(QUERIES))]
    progress(f"{count:,} events for {', '.join(query.name for query in queries)}")
    truth = Truth(data, count)
    truth.prepare(queries)
    sources = {q.dataset: pieces(data, q.dataset, count) for q in queries}
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-stream-") as scratch,
        spark_baselines.session(Path(scratch)) as spark,
    ):
        bench = Bench(spark, Path(scratch))
        for query in queries:
            _throughput(report, bench, query, sources[query.dataset], truth, clock)
        if size != "quick":  # Spark's startup and the first query of a session take most of its time.
            _small_triggers(report, bench, queries[0], data, clock)
            if not only:
                _growth(report, bench, data)
    print_line(report.times(count))
    return report


# Data


def pieces(folder: Path, dataset: str, count: int) -> Path:
    """Write the dataset as files of one row group each, which a stream reads one per trigger, and one that closes the
    stream."""
    target = folder / f"stream-{dataset}-{count}-v{FORMAT}"
    if target.exists():
        return target
    whole = pq.ParquetFile(parquet(folder, dataset, count))
    groups = (whole.read_row_group(group) for group in range(whole.num_row_groups))
    return write_files(target, groups)


def write_files(target: Path, tables: Iterable[pa.Table], closing: pa.Table | None = None) -> Path:
    """Write tables as files that a stream reads in this order, and one that closes the stream."""
    part = target.with_suffix(f".{os.getpid()}.part")
    part.mkdir(parents=True)
    number, table = 0, None
    for number, table in enumerate(tables, 1):
        _file(part, number, table)
    assert table is not None
    _file(part, number + 1, _closing(table.schema) if closing is None else closing)
    part.rename(target)
    return target


def _file(folder: Path, number: int, table: pa.Table) -> None:
    path = folder / f"{number:05}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_600_000_000 + number,) * 2)  # files are read in the order of their age


def _closing(schema: pa.Schema) -> pa.Table:
    key = "0" if pa.types.is_string(schema.field("key").type) else 0
    row = {"id": -1, "ts": CLOSING_TIME, "key": key, "type": "Z", "v": 0.0}
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names}], schema=schema)


# Sides


class Bench:
    """Streams of both sides in one session, each run to the end of its files."""

    def __init__(self, spark: SparkSession, scratch: Path, files: int = 1, delay: str = DELAY) -> None:
        self.spark, self.scratch, self.delay = spark, scratch, delay
        self.files = files
        """Files per trigger."""
        self.runs = 0
        self.state_bytes = 0
        """Average state size of a shard of ours, which the baseline query uses too."""

    def source(self, folder: Path) -> DataFrame:
        reader = self.spark.readStream.schema(self.spark.read.parquet(str(folder)).schema)
        frame = reader.option("maxFilesPerTrigger", self.files).parquet(str(folder))
        return frame.withWatermark("ts", self.delay)

    def use_separate_workers(self, side: str) -> None:
        """Run the queries planned from here on in separate Python workers.

        Spark shares workers among all queries of a session. A baseline query would find the modules that the other side
        has loaded, which slow it down, or frozen with ``gc.freeze()``, which speeds it up. A baseline query that runs
        alone has neither.
        """
        self.spark.sparkContext.environment["BENCH_SIDE"] = side

    def plan_ours(self, query: Query, folder: Path) -> DataFrame:
        self.use_separate_workers("ours")
        return ours.streamed(query, self.source(folder), SHARDS)

    def plan_baseline(self, query: Query, folder: Path, timeouts: bool) -> DataFrame:
        self.use_separate_workers("bare")
        sample_bytes = sample(query, folder, self.state_bytes)
        return baseline(query, self.source(folder), SHARDS, sample_bytes, timeouts)

    def ours(self, query: Query, folder: Path) -> Timed:
        """Run to a no-op sink; the result is the number of matches by the counters."""
        ran = self.stream(self.plan_ours(query, folder))
        return Timed(seconds_of(ran), self.matches(ran))

    def proof(self, query: Query, folder: Path) -> Timed:
        """Run with materialized matches: count and sum of ids must be correct."""
        path = self.scratch / f"matches-{self.runs}"
        found = self.plan_ours(query, folder)
        ran = self.stream(found, "parquet", path=str(path))
        result = spark_baselines.checksum_of(self.spark.read.schema(found.schema).parquet(str(path)), "aid")
        right = self.matches(ran)
        shutil.rmtree(path, ignore_errors=True)
        return Timed(seconds_of(ran), result if result.matches == right else ("counted", right, "found", result))

    def matches(self, ran: list[Any]) -> int:
        """Number of emitted matches; also records the size of the state."""
        counters = [ours.counters(one) for one in ran]
        sizes = [c["state_bytes"] / c["shards"] for c in counters if c["shards"]]
        self.state_bytes = int(statistics.mean(sizes)) if sizes else 0
        return sum(c["matches"] for c in counters)

    def baseline(self, query: Query, folder: Path, timeouts: bool) -> Timed:
        """Run the same filter, columns, shards and bytes of state, without any work on them."""
        ran = self.stream(self.plan_baseline(query, folder, timeouts))
        return Timed(seconds_of(ran), None)

    def stream(self, frame: DataFrame, sink: str = "noop", **options: str) -> list[Any]:
        """Run a query to the end of its files and return the progress of every batch."""
        self.runs += 1
        checkpoint = self.scratch / f"checkpoint-{self.runs}"
        writer = frame.writeStream.format(sink).options(**options).option("checkpointLocation", str(checkpoint))
        query = writer.outputMode("append").trigger(availableNow=True).start()
        try:
            query.awaitTermination()
            return list(query.recentProgress)
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)


def seconds_of(ran: list[Any]) -> float:
    """Total seconds of the triggers of a run."""
    return sum(_trigger(one) for one in ran) / 1000


def _trigger(one: Any) -> float:
    return float(one["durationMs"]["triggerExecution"])


def sample(query: Query, folder: Path, size: int) -> bytes:
    """``size`` bytes of typical state content: events. Zeros would be compressed to nothing on their way to the
    disk."""
    table = pq.read_table(folder / "00001.parquet", columns=[name for name in query.columns if name != "type"])
    parts = [column.chunk(0).buffers()[-1] for column in table.combine_chunks().columns]
    whole = b"".join(part.to_pybytes()[: size // len(parts) + 1] for part in parts)
    return (whole * (size // len(whole) + 1))[:size]


def baseline(query: Query, frame: DataFrame, shards: int, content: bytes, timeouts: bool) -> DataFrame:
    """The same filter and columns as ours, into a stateful query without any work."""
    wanted = f"type in ({', '.join(map(repr, query.types))}) or ts is null"
    rest = [name for name in query.columns if name not in ("ts", "type")]
    kinds = " ".join(f"when '{name}' then {i}" for i, name in enumerate(query.types))
    rows = (frame if query.strict else frame.where(wanted)).selectExpr(
        *rest, "unix_micros(ts) as ts", f"coalesce(case type {kinds} end, -1) as kind", shard_of("key", shards)
    )
    return count_rows(rows, content, timeouts)


def shard_of(key: str, shards: int) -> str:
    """Column with the shard of a row."""
    named = ", ".join(map(str, labels(shards)))  # otherwise one partition would have more of them than another
    return f"element_at(array({named}), cast(pmod(xxhash64(0, {key}), {shards}) as int) + 1) as shard"


def count_rows(rows: DataFrame, content: bytes, timeouts: bool) -> DataFrame:
    """A stateful query without any work: reads and writes a state of these bytes, and counts rows.

    With ``timeouts`` it sets an event-time timeout, which every query that closes windows needs.
    """
    from pyspark.sql import functions as sf

    def count(_key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        rows = sum(len(one) for one in frames)
        if state.exists:
            (before,) = state.get
            rows += 0 * len(before)
        state.update((content,))
        if timeouts:
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + NEVER_MS)
        yield pd.DataFrame({"rows": [rows]})

    # The event-time column of the operator: it is never late, because late rows would be dropped and not counted.
    unknown = sf.lit(None).cast("timestamp").alias("event_time", metadata={"spark.watermarkDelayMs": 0})
    grouped = (rows.select("*", unknown) if timeouts else rows).groupBy("shard")
    kind = "EventTimeTimeout" if timeouts else "NoTimeout"
    counts = grouped.applyInPandasWithState(count, "rows bigint", "content binary", "append", kind)
    return counts.where(sf.col("rows") < 0)


# Figures


def _throughput(report: Report, bench: Bench, query: Query, folder: Path, truth: Truth, clock: Clock) -> None:
    right, quick = truth.of(query), report.size == "quick"
    proof = (
        None if quick else partial(bench.proof, query, folder)
    )  # It would take most of a quick run: the count must be enough.
    sides = [
        Side(f"{query.name} ours", partial(once, bench, query, folder, right), right, proof),
        Side(f"{query.name} bare", partial(bench.baseline, query, folder, True), None),
    ]
    rounds, warm = (1, 1) if quick else (5, WARM if report.records else 2 * WARM)  # The first side also warms up Spark.
    records = run_rounds(sides, clock, rounds=rounds, warm=warm, stop=bench.spark.sparkContext.cancelAllJobs)
    report.records.update(records)
    report.add(f"{query.name}.bare", *paired_ratio(records[f"{query.name} ours"], records[f"{query.name} bare"]))
    progress(f"{query.name}: {report.figures[f'{query.name}.bare']} of bare, {bench.state_bytes:,} bytes a shard")


def once(bench: Bench, query: Query, folder: Path, right: MatchChecksum) -> Timed:
    done = bench.ours(query, folder)
    return Timed(done.seconds, right if done.result == right.matches else done.result)


def _small_triggers(report: Report, bench: Bench, query: Query, data: Path, clock: Clock) -> None:
    """Triggers with few events measure the cost of a trigger."""
    folder = data / f"stream-few-{TRIGGERS}-v{FORMAT}"
    if not folder.exists():
        whole = pq.ParquetFile(parquet(data, query.dataset, EVENTS["quick"])).read_row_group(0)
        write_files(folder, (whole.slice(SMALL_TRIGGER_EVENTS * i, SMALL_TRIGGER_EVENTS) for i in range(TRIGGERS)))
    others = ("bare", "untimed")
    for _ in range(2):  # The work of the JIT compiler during this time is not a cost of a trigger.
        bench.ours(query, folder)
        for other in others:
            bench.baseline(query, folder, other == "bare")
    times: dict[str, list[float]] = {who: [] for who in ("ours", *others)}
    for turn in range(3):
        for who in times if turn % 2 == 0 else reversed(times):
            if clock.allowance() <= 0:
                break
            if who == "ours":
                ran = bench.stream(bench.plan_ours(query, folder))
            else:
                ran = bench.stream(bench.plan_baseline(query, folder, timeouts=who == "bare"))
            times[who] += [_trigger(one) for one in ran[2:-2]]
    for other in others:
        if times["ours"] and times[other]:
            mine, theirs = (statistics.median(times[who]) for who in ("ours", other))
            progress(f"a trigger of {SMALL_TRIGGER_EVENTS} events: ours {mine:.0f} ms, {other} {theirs:.0f} ms")
            # Larger is better, as for all figures: the minimum is 1 / 1.15.
            report.add(f"trigger.{other}", theirs / mine)
        else:
            report.add(f"trigger.{other}", None, "the run's time was up")


def _growth(report: Report, bench: Bench, data: Path) -> None:
    """Cost of a trigger as the state grows: partial matches that stay open, in files of increasing size."""
    text = "pattern open\nmatch A a -> Y y\nwithin 300 days\npartition by key\nreturn a.id as aid\n"
    query = Query("open", "plain", text, ("A",), strict=False, columns=("id", "ts", "key", "type"))
    folder = data / f"stream-growing-v{FORMAT}"
    if not folder.exists():
        write_files(folder, _growing())
    ran = bench.stream(bench.plan_ours(query, folder))
    for one in ran:
        size = ours.counters(one)["state_bytes"] / 2**20
        # A batch after a large one has few new events, so its time is for the state alone.
        progress(f"state {size:6.1f} MB, {one['numInputRows']:>9,} new rows: {_trigger(one):7.0f} ms")
    for goal in STATE_MB:
        small = [one for one in ran if one["numInputRows"] <= SMALL_TRIGGER_EVENTS]
        near = [_trigger(one) for one in small if 0.8 <= ours.counters(one)["state_bytes"] / 2**20 / goal < 1.6]
        if near:
            report.add(f"state.{goal}MB.ms", statistics.median(near))


def _growing() -> Iterator[pa.Table]:
    """Files that double the retained events, each followed by small ones."""
    at = 0
    for megabytes in STATE_MB:
        for size in (
            megabytes * RETAINED_EVENTS_PER_MB - at,
            SMALL_TRIGGER_EVENTS,
            SMALL_TRIGGER_EVENTS,
            SMALL_TRIGGER_EVENTS,
        ):
            ids = np.arange(at, at + size)
            yield rows(EventArrays(ids, ids, (ids % KEYS).astype(np.int16), np.zeros(size, np.int8), np.zeros(size)))
            at += size
