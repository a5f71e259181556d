"""The sequence engine on a stream: Q1 to Q5 beside a bare stateful query, small triggers, and growing state."""

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

from bench import ours, spark_rivals
from bench.harness import Clock, Contestant, Report, Timed, contest, paired_ratio, progress, say
from bench.truth import Answer, Truth
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
FAR = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
"""When the row comes that closes a stream: every window lies before it."""
NEVER_MS = 10**12
FEW = 100
"""Events of a small trigger."""
TRIGGERS = 25
WARM = 3
"""Runs of a query before it is timed: in one, Java's compiler is not done with the hot parts, and a stream does not stop."""
STATE_MB = (1, 2, 4, 8, 16, 32, 64, 128)
KEPT_A_MB = 32_000
"""Kept events that take about a megabyte."""


def run(size: str, data: Path, only: tuple[str, ...] | None = None) -> Report:
    """Measure at a size, with generated data kept in a folder."""
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
        spark_rivals.session(Path(scratch)) as spark,
    ):
        bench = Bench(spark, Path(scratch))
        for query in queries:
            _throughput(report, bench, query, sources[query.dataset], truth, clock)
        if size != "quick":  # Spark's start and the first query of a session take most of its time
            _few(report, bench, queries[0], data, clock)
            if not only:
                _growth(report, bench, data)
    say(report.times(count))
    return report


# Data


def pieces(folder: Path, dataset: str, count: int) -> Path:
    """The dataset as files of a row group each, which a stream reads one a trigger, and one that closes it."""
    target = folder / f"stream-{dataset}-{count}-v{FORMAT}"
    if target.exists():
        return target
    whole = pq.ParquetFile(parquet(folder, dataset, count))
    groups = (whole.read_row_group(group) for group in range(whole.num_row_groups))
    return write_files(target, groups)


def write_files(target: Path, tables: Iterable[pa.Table], closing: pa.Table | None = None) -> Path:
    """Tables as files that a stream reads in this order, and one that closes it."""
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
    row = {"id": -1, "ts": FAR, "key": key, "type": "Z", "v": 0.0}
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names}], schema=schema)


# Contestants


class Bench:
    """Streams of both sides in one session, each run to the end of its files."""

    def __init__(self, spark: SparkSession, scratch: Path, files: int = 1, delay: str = DELAY) -> None:
        self.spark, self.scratch, self.delay = spark, scratch, delay
        self.files = files
        """Files that a trigger takes."""
        self.runs = 0
        self.state_bytes = 0
        """What a shard of ours has on average, so that the bare query can have as much."""

    def source(self, folder: Path) -> DataFrame:
        reader = self.spark.readStream.schema(self.spark.read.parquet(str(folder)).schema)
        frame = reader.option("maxFilesPerTrigger", self.files).parquet(str(folder))
        return frame.withWatermark("ts", self.delay)

    def beside(self, side: str) -> None:
        """Have what is planned from here on run in Python workers of its own.

        Spark shares workers among all queries of a session. A bare query would find what the other side has loaded
        there, which slows it down, or has put out of the garbage collector's sight, which speeds it up; whoever runs it
        alone has neither.
        """
        self.spark.sparkContext.environment["BENCH_SIDE"] = side

    def plan_ours(self, query: Query, folder: Path) -> DataFrame:
        self.combine("ours")
        return ours.streamed(query, self.source(folder), SHARDS)

    def plan_bare(self, query: Query, folder: Path, timeouts: bool) -> DataFrame:
        self.combine("bare")
        kept = sample(query, folder, self.state_bytes)
        return bare(query, self.source(folder), SHARDS, kept, timeouts)

    def ours(self, query: Query, folder: Path) -> Timed:
        """Matches to nowhere; the answer is how many there were, by what was counted on the way."""
        ran = self.stream(self.plan_ours(query, folder))
        return Timed(seconds_of(ran), self.matches(ran))

    def proof(self, query: Query, folder: Path) -> Timed:
        """The same with its matches kept: count and sum of ids have to be right."""
        path = self.scratch / f"matches-{self.runs}"
        found = self.plan_ours(query, folder)
        ran = self.stream(found, "parquet", path=str(path))
        answer = spark_rivals.answer_of(self.spark.read.schema(found.schema).parquet(str(path)), "aid")
        right = self.matches(ran)
        shutil.rmtree(path, ignore_errors=True)
        return Timed(seconds_of(ran), answer if answer.matches == right else ("counted", right, "found", answer))

    def matches(self, ran: list[Any]) -> int:
        """How many matches were told; how large the state was is noted."""
        counters = [ours.counters(one) for one in ran]
        sizes = [c["state_bytes"] / c["shards"] for c in counters if c["shards"]]
        self.state_bytes = int(statistics.mean(sizes)) if sizes else 0
        return sum(c["matches"] for c in counters)

    def bare(self, query: Query, folder: Path, timeouts: bool) -> Timed:
        """The same filter, columns, shards and bytes of state, and nothing done with them."""
        ran = self.stream(self.plan_bare(query, folder, timeouts))
        return Timed(seconds_of(ran), None)

    def stream(self, frame: DataFrame, sink: str = "noop", **options: str) -> list[Any]:
        """Run a query to the end of its files; the progress of every batch."""
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
    """What the triggers of a run took."""
    return sum(_trigger(one) for one in ran) / 1000


def _trigger(one: Any) -> float:
    return float(one["durationMs"]["triggerExecution"])


def sample(query: Query, folder: Path, size: int) -> bytes:
    """So many bytes of what a state holds: events. Zeros would be compressed to nothing on their way to the disk."""
    table = pq.read_table(folder / "00001.parquet", columns=[name for name in query.columns if name != "type"])
    parts = [column.chunk(0).buffers()[-1] for column in table.combine_chunks().columns]
    whole = b"".join(part.to_pybytes()[: size // len(parts) + 1] for part in parts)
    return (whole * (size // len(whole) + 1))[:size]


def bare(query: Query, frame: DataFrame, shards: int, content: bytes, timeouts: bool) -> DataFrame:
    """The same filter and columns as ours, into a stateful query with nothing in it."""
    wanted = f"type in ({', '.join(map(repr, query.types))}) or ts is null"
    rest = [name for name in query.columns if name not in ("ts", "type")]
    kinds = " ".join(f"when '{name}' then {i}" for i, name in enumerate(query.types))
    rows = (frame if query.strict else frame.where(wanted)).selectExpr(
        *rest, "unix_micros(ts) as ts", f"coalesce(case type {kinds} end, -1) as kind", shard_of("key", shards)
    )
    return counted(rows, content, timeouts)


def shard_of(key: str, shards: int) -> str:
    """The column that says to which shard a row goes."""
    named = ", ".join(map(str, labels(shards)))  # or one partition would have more of them than the other
    return f"element_at(array({named}), cast(pmod(xxhash64(0, {key}), {shards}) as int) + 1) as shard"


def counted(rows: DataFrame, content: bytes, timeouts: bool) -> DataFrame:
    """A stateful query with nothing in it: a state of these bytes is read and written, rows are counted.

    With ``timeouts`` it asks to be called when event time passes a moment, as whoever closes windows has to.
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

    # Event time as the operator knows it: a column that is never late, or it would drop rows that we count.
    unknown = sf.lit(None).cast("timestamp").alias("event_time", metadata={"spark.watermarkDelayMs": 0})
    grouped = (rows.select("*", unknown) if timeouts else rows).groupBy("shard")
    kind = "EventTimeTimeout" if timeouts else "NoTimeout"
    told = grouped.applyInPandasWithState(count, "rows bigint", "kept binary", "append", kind)
    return told.where(sf.col("rows") < 0)


# Figures


def _throughput(report: Report, bench: Bench, query: Query, folder: Path, truth: Truth, clock: Clock) -> None:
    right, quick = truth.of(query), report.size == "quick"
    proof = None if quick else partial(bench.proof, query, folder)  # it takes a quick run's time: the count has to do
    contestants = [
        Contestant(f"{query.name} ours", partial(once, bench, query, folder, right), right, proof),
        Contestant(f"{query.name} bare", partial(bench.bare, query, folder, True), None),
    ]
    rounds, warm = (1, 1) if quick else (5, WARM if report.records else 2 * WARM)  # what comes first warms Spark up too
    records = contest(contestants, clock, rounds=rounds, warm=warm, stop=bench.spark.sparkContext.cancelAllJobs)
    report.records.update(records)
    report.add(f"{query.name}.bare", *paired_ratio(records[f"{query.name} ours"], records[f"{query.name} bare"]))
    progress(f"{query.name}: {report.figures[f'{query.name}.bare']} of bare, {bench.state_bytes:,} bytes a shard")


def once(bench: Bench, query: Query, folder: Path, right: Answer) -> Timed:
    done = bench.ours(query, folder)
    return Timed(done.seconds, right if done.answer == right.matches else done.answer)


def _few(report: Report, bench: Bench, query: Query, data: Path, clock: Clock) -> None:
    """Triggers with few events: what is left is what a trigger costs."""
    folder = data / f"stream-few-{TRIGGERS}-v{FORMAT}"
    if not folder.exists():
        whole = pq.ParquetFile(parquet(data, query.dataset, EVENTS["quick"])).read_row_group(0)
        write_files(folder, (whole.slice(FEW * i, FEW) for i in range(TRIGGERS)))
    rivals = ("bare", "untimed")
    for _ in range(2):  # what Java's compiler does meanwhile is not what a trigger costs
        bench.ours(query, folder)
        for rival in rivals:
            bench.bare(query, folder, rival == "bare")
    times: dict[str, list[float]] = {who: [] for who in ("ours", *rivals)}
    for turn in range(3):
        for who in times if turn % 2 == 0 else reversed(times):
            if clock.allowance() <= 0:
                break
            if who == "ours":
                ran = bench.stream(bench.plan_ours(query, folder))
            else:
                ran = bench.stream(bench.plan_bare(query, folder, timeouts=who == "bare"))
            times[who] += [_trigger(one) for one in ran[2:-2]]
    for rival in rivals:
        if times["ours"] and times[rival]:
            mine, theirs = (statistics.median(times[who]) for who in ("ours", rival))
            progress(f"a trigger of {FEW} events: ours {mine:.0f} ms, {rival} {theirs:.0f} ms")
            # As all figures, larger is better: 1 / 1.15 is the least.
            report.add(f"trigger.{rival}", theirs / mine)
        else:
            report.add(f"trigger.{rival}", None, "the run's time was up")


def _growth(report: Report, bench: Bench, data: Path) -> None:
    """What a trigger costs as state grows: attempts that stay open, in files of growing size."""
    text = "pattern open\nmatch A a -> Y y\nwithin 300 days\npartition by key\nreturn a.id as aid\n"
    query = Query("open", "plain", text, ("A",), strict=False, columns=("id", "ts", "key", "type"))
    folder = data / f"stream-growing-v{FORMAT}"
    if not folder.exists():
        write_files(folder, _growing())
    ran = bench.stream(bench.plan_ours(query, folder))
    for one in ran:
        size = ours.counters(one)["state_bytes"] / 2**20
        # A batch after a large one has few new events: what it takes is for the state alone.
        progress(f"state {size:6.1f} MB, {one['numInputRows']:>9,} new rows: {_trigger(one):7.0f} ms")
    for goal in STATE_MB:
        small = [one for one in ran if one["numInputRows"] <= FEW]
        near = [_trigger(one) for one in small if 0.8 <= ours.counters(one)["state_bytes"] / 2**20 / goal < 1.6]
        if near:
            report.add(f"state.{goal}MB.ms", statistics.median(near))


def _growing() -> Iterator[pa.Table]:
    """Files that double what is kept, each followed by small ones."""
    at = 0
    for megabytes in STATE_MB:
        for size in (megabytes * KEPT_A_MB - at, FEW, FEW, FEW):
            ids = np.arange(at, at + size)
            yield rows(EventArrays(ids, ids, (ids % KEYS).astype(np.int16), np.zeros(size, np.int8), np.zeros(size)))
            at += size
