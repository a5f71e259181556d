"""Subscriptions on Spark: a stream of items compared with a baseline stream, two partitioning schemes, and changes at
runtime.

Items are those of feeds. Subscriptions are distinct and have infinite windows, so that every item may join all earlier
ones. The baseline query reads the same files, moves the same documents to Python and through a stateful operator with
as many shards, and does no work on them.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import perseid as ps
from bench import harness, spark_baselines
from bench.joins.benchmark import DEFAULT_LEAVES, DEFAULT_QUERIES, DEFAULT_ZIPF
from bench.joins.million import BASE_COUNT, build_index, items, subscriptions, texts
from bench.joins.workload import Drawn, Schema, pairs_of_documents
from bench.stream import Bench, seconds_of
from perseid.engines.joins import layout as y
from perseid.engines.joins.documents import key_of
from perseid.engines.joins.graph import Kind, NodeChain, TemplateRow
from perseid.engines.joins.joiner import ChainBindings, Joiner
from perseid.engines.joins.plan import CHAINS, TEXTS, make_plan
from perseid.runtime.document_columns import DOCUMENT
from perseid.runtime.query import PrepareStage
from perseid.spark.documents import describe_table, prepare_rows
from perseid.spark.progress import counters
from perseid.spark.shards import labels

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARES = 2
SECTIONS = 10
MOST_BATCHES = 40
"""Batches of the query with changing subscriptions."""
ARROW = pa.schema([("ts", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("xml", pa.string())])
_DAYS = re.compile(r"\d+ days")


@dataclass(frozen=True)
class JoinsStreamSize:
    items: int
    files: int
    queries: int
    live: int
    """Subscriptions with constants that occur: without windows, the notifications of an item grow with all earlier
    items."""
    routed: int
    """Items that are partitioned in both ways."""
    rounds: int
    running: int
    """Subscriptions of the query that changes at runtime."""


SIZES = {
    "quick": JoinsStreamSize(1_000, 1, 1_000, 1_000, 500, 1, 0),
    "standard": JoinsStreamSize(225_000, 9, 100_000, 1_000, 20_000, 5, 200_000),
    "full": JoinsStreamSize(225_000, 9, 100_000, 1_000, 40_000, 5, 1_000_000),
}
ROUNDS = {"quick": 1, "standard": 1, "full": 3}


def run(size: str) -> harness.Report:
    report, chosen = harness.Report("joins-stream", size), SIZES[size]
    subscription_texts = dict(_endless(distinct_subscriptions(chosen.queries, chosen.live)))
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-joins-") as scratch,
        spark_baselines.session(Path(scratch)) as spark,
    ):
        spark.conf.set(spark_baselines.PARTITIONS_SETTING, str(SHARES))
        bench = Bench(spark, Path(scratch), delay="0 seconds")
        folder = Path(scratch) / "items"
        write(folder, chosen.items, chosen.files)
        _throughput(report, bench, folder, subscription_texts, chosen, ROUNDS[size])
        _routes(report, spark, folder, subscription_texts, chosen)
        if chosen.running:
            _changed(report, spark, Path(scratch), chosen)
    return report


def distinct_subscriptions(count: int, live: int, channels: bool = False) -> Iterator[tuple[str, str]]:
    """``count`` distinct subscriptions, of which ``live`` have constants that occur.

    Those that join items of one channel are left out unless ``channels`` is true: without a window, an item joins all
    items of its channel, a seventieth of all items, and the time is quadratic in the items.
    """
    first = BASE_COUNT - (live if channels else live * 4 // 3)
    some = (text for text in texts(first, BASE_COUNT + 2 * count) if channels or "c = d" not in text)
    return ((f"subscriber-{number:07}", text) for number, text in enumerate(islice(some, count)))


def _endless(subscriptions_by_name: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, text in subscriptions_by_name:
        yield name, _DAYS.sub("forever", text)


def write(folder: Path, count: int, files: int) -> None:
    """Write items in time order to files of increasing age."""
    folder.mkdir()
    each = -(-count // files)
    numbered = enumerate(items(count, SECTIONS))
    for number in range(files):
        add_file(folder, number, list(islice(numbered, each)))


def add_file(folder: Path, number: int, some: Sequence[tuple[int, tuple[int, bytes]]]) -> None:
    rows = [{"ts": at, "n": n, "xml": body.decode()} for n, (at, body) in some]
    columns = [pa.array([row[name] for row in rows], pa.int64() if name == "ts" else kind.type) for name, kind in zip(ARROW.names, ARROW, strict=True)]  # fmt: skip
    table = pa.table([columns[0].cast(ARROW[0].type), *columns[1:]], schema=ARROW)
    hidden = folder / f".{number}"
    pq.write_table(table, hidden)
    os.utime(hidden, (1_600_000_000 + number,) * 2)
    hidden.rename(folder / f"{number:05}.parquet")


def _documents(frame: DataFrame) -> ps.xml.Documents:
    return ps.documents({"F": frame}, body="xml", time="ts", id="n", order="arrival")


# Throughput


def _throughput(
    report: harness.Report,
    bench: Bench,
    folder: Path,
    subscription_texts: dict[str, str],
    size: JoinsStreamSize,
    rounds: int,
) -> None:
    start = time.perf_counter()
    subscription_set = ps.xscl.subscriptions(subscription_texts)
    harness.progress(f"{len(subscription_texts):,} subscriptions are read in {time.perf_counter() - start:.1f} s")
    ratios, rates = [], []
    for _ in range(rounds):
        bench.use_separate_workers("ours")
        ran = bench.stream(subscription_set.match(_documents(bench.source(folder)), query_partitions=SHARES))
        taken = seconds_of(ran)
        bench.use_separate_workers("bare")
        baseline_s = seconds_of(bench.stream(baseline(bench.source(folder))))
        reports = [counters(one.observedMetrics["perseid subscriptions"].asDict(recursive=True)) for one in ran]
        rows, state = sum(one["matches"] for one in reports), max(one["state_bytes"] for one in reports)
        each = ", ".join(f"{one.durationMs['triggerExecution'] / 1000:.1f}" for one in ran)
        harness.print_line(
            f"stream: {size.items:,} items, {len(subscription_texts):,} subscriptions, windows without end: {taken:.1f} s, "
            f"{size.items / taken:,.0f} items/s, {rows:,} rows of pairs emitted, {state / 1e6:,.0f} MB of state at the end "
            f"in all query partitions; baseline {baseline_s:.1f} s, {size.items / baseline_s:,.0f} items/s; batches took {each} s"
        )
        ratios.append(baseline_s / taken)
        rates.append(size.items / taken)
    report.add("stream.items_per_second", sorted(rates)[len(rates) // 2])
    report.add("stream.bare", sorted(ratios)[len(ratios) // 2])


def baseline(frame: DataFrame) -> DataFrame:
    """Move documents to Python and back, and through an operator without state of its own."""
    from pyspark.sql import functions as f

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def counted(_key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        state.update((b"",))
        yield pd.DataFrame({"rows": [sum(len(one) for one in frames)]})

    named = ", ".join(map(str, labels(SHARES)))
    rows = frame.selectExpr("unix_micros(ts) as ts", "n", "xml").mapInArrow(same, "ts bigint, n bigint, xml string")
    rows = rows.selectExpr("*", f"element_at(array({named}), cast(pmod(n, {SHARES}) as int) + 1) as shard")
    unknown = f.lit(None).cast("timestamp").alias("event_time", metadata={"spark.watermarkDelayMs": 0})
    grouped = rows.select("*", unknown).groupBy("shard")
    done = grouped.applyInPandasWithState(counted, "rows bigint", "content binary", "append", "EventTimeTimeout")
    return done.where(f.col("rows") < 0)


# Two partitioning schemes


def compared_pairs(rows: Iterable[TemplateRow]) -> set[tuple[NodeChain, NodeChain]]:
    """Pairs of chains that some equality compares: the older document's, the newer's."""
    return {
        (asked.older, asked.newer)
        for row in {id(row): row for row in rows}.values()
        for edge, asked in zip(row.template.edges, row.edge_chains, strict=True)
        if edge.kind is Kind.EQUAL and asked.older is not None and asked.newer is not None
    }


def equal_pairs(bindings: ChainBindings, chains: Sequence[NodeChain], asked: set[tuple[NodeChain, NodeChain]]) -> int:
    """Number of pairs of rows of two documents with the same text and chains that some subscription compares."""
    before: dict[int, list[int]] = defaultdict(list)
    for older, newer in asked:
        before[chains.index(newer)].append(chains.index(older))
    seen: defaultdict[tuple[int, str], int] = defaultdict(int)
    found, last, own = 0, -1, list[tuple[int, str]]()
    for document, chain, text in zip(
        bindings.documents.tolist(), bindings.chains.tolist(), bindings.texts, strict=True
    ):
        if document != last:
            for one in own:
                seen[one] += 1
            last, own = document, []
        own.append((chain, text))
        found += sum(seen[older, text] for older in before[chain])
    return found


def _paper(report: harness.Report) -> None:
    """Run the paper's queries and documents, with its defaults."""
    schema = Schema.flat(DEFAULT_LEAVES)
    made = Drawn(schema, DEFAULT_LEAVES, DEFAULT_ZIPF).subscriptions(DEFAULT_QUERIES)
    chains = list(made.chains)
    times, bindings = pairs_of_documents(schema, chains, 40)
    due = int(Joiner(made).add(times, bindings).rows[:, y.O_COUNT].sum())
    pairs = equal_pairs(bindings, chains, compared_pairs(row for _, row in made.numbers))
    rows = len(bindings.chains)
    harness.print_line(
        f"routes: the paper's defaults, Zipf {DEFAULT_ZIPF}: {due:,} notifications; by value {rows:,} rows and then {pairs:,} "
        f"pairs are shuffled, {(rows + pairs) / due:.3f} a notification; by share {SHARES * rows:,} rows, "
        f"{SHARES * rows / due:.3f} a notification"
    )
    report.add("routes.paper.by_value", (rows + pairs) / due)
    report.add("routes.paper.twenty_against_by_value", 20 * due / (rows + pairs))
    report.add("routes.paper.by_share", SHARES * rows / due)


def _routes(
    report: harness.Report, spark: SparkSession, folder: Path, subscription_texts: dict[str, str], size: JoinsStreamSize
) -> None:
    _paper(report)
    frame = spark.read.parquet(str(folder)).where(f"n < {size.routed}").cache()
    frame.count()
    index, _ = build_index(iter(subscription_texts.items()))
    pairs = compared_pairs(row for _, row in index.numbers)
    plan = make_plan(subscription_texts, pa.schema([("n", pa.int64())]))
    inputs = (_documents(frame).bind_events(describe_table(frame, None)),)
    read = prepare_rows(PrepareStage("joins", plan, plan.chain_columns, inputs), [frame])
    rows = read.selectExpr(DOCUMENT, f"inline(arrays_zip({CHAINS}, {TEXTS}))").toDF("document", "chain", "text")
    keys = spark.createDataFrame([(key_of(a), key_of(b)) for a, b in pairs], "older bigint, newer bigint")
    older = rows.toDF("first", "older", "text")
    newer = rows.toDF("document", "newer", "text")
    met = newer.join(keys, "newer").join(older, ["older", "text"]).where("first < document")

    def taken(what: DataFrame) -> float:
        start = time.perf_counter()
        what.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start

    subscription_set = ps.xscl.subscriptions(subscription_texts)
    reports = subscription_set.match(_documents(frame), query_partitions=SHARES, expand=False)
    counts = reports.selectExpr("count(*) as rows", "sum(size(subscriptions)) as due").first()
    many, met_rows = rows.count(), met.count()
    # Workers load subscriptions on first use, and cache them.
    by_share, by_value = (
        min(taken(one) for _ in range(size.rounds)) for one in (reports, met.repartition(SHARES, "document"))
    )
    assert counts is not None
    due = max(counts["due"] or 0, 1)
    harness.print_line(
        f"routes: {size.routed:,} items, {len(subscription_texts):,} distinct subscriptions with constants: {due:,} notifications; by value "
        f"{many:,} rows and then {met_rows:,} pairs, {(many + met_rows) / due:,.1f} a notification, {by_value:.1f} s as Spark joins "
        f"them before any template is asked; by share {SHARES * many:,} rows, {SHARES * many / due:.2f} a notification, "
        f"{by_share:.1f} s with everything"
    )
    report.add("routes.distinct.by_value", (many + met_rows) / due)
    report.add("routes.distinct.by_share", SHARES * many / due)
    report.add("routes.distinct.share_against_value", by_value / by_share)
    frame.unpersist()


# Changes at runtime


def _changed(report: harness.Report, spark: SparkSession, scratch: Path, size: JoinsStreamSize) -> None:
    """Add ten thousand subscriptions to a running query: measures how much longer the batch takes that loads them."""
    table = ps.xscl.subscription_table(scratch / "table")
    start = time.perf_counter()
    texts_by_name = subscriptions(size.running + 10_000)
    while some := dict(islice(texts_by_name, min(100_000, size.running))):
        if len(some) <= 10_000:
            later = {f"late {name}": text for name, text in some.items()}
            break
        table.add(some)
    harness.progress(f"{size.running:,} subscriptions are written in {time.perf_counter() - start:.1f} s")
    folder = scratch / "arriving"
    folder.mkdir()
    parts = enumerate(items(MOST_BATCHES * 200, SECTIONS))
    add_file(folder, 0, list(islice(parts, 200)))
    frame = spark.readStream.schema(spark.read.parquet(str(folder)).schema).option("maxFilesPerTrigger", 1)
    stream = frame.parquet(str(folder)).withWatermark("ts", "0 seconds")
    reports = table.match(_documents(stream), query_partitions=SHARES)
    writer = reports.writeStream.format("noop").option("checkpointLocation", str(scratch / "changed"))
    query = writer.trigger(processingTime="0 seconds").start()
    durations: list[float] = []

    def batches(more: int) -> None:
        for _ in range(more):
            number = len(durations) + 1
            _wait(query, number)
            ran = [one for one in query.recentProgress if one.numInputRows]
            durations.append(ran[number - 1].durationMs["triggerExecution"] / 1000)
            add_file(folder, number, list(islice(parts, 200)))

    try:
        # Any worker may receive any query partition, and loads its subscriptions on first use.
        while len(durations) < MOST_BATCHES - 12 and (len(durations) < 4 or max(durations[-4:]) > 2 * min(durations)):
            batches(1)
        usual, warm = sorted(durations[-4:])[2], len(durations)
        start = time.perf_counter()
        table.add(later)
        written = time.perf_counter() - start
        batches(9)
    finally:
        query.stop()
    after = durations[warm:]
    harness.print_line(
        f"changed: 10,000 added to a stream of {size.running:,}: written in {written:.2f} s; batches took {usual:.2f} s before and at "
        f"most {max(after):.2f} s after ({', '.join(f'{one:.2f}' for one in durations)}; {warm} before)"
    )
    report.add("changed.within_two_seconds", 2 / max(max(after) - usual, 0.01))


def _wait(query: Any, batches: int) -> None:
    """Wait until ``batches`` batches with rows are done."""
    end = time.monotonic() + 600
    while sum(1 for one in query.recentProgress if one.numInputRows) < batches:
        if time.monotonic() > end or not query.isActive:
            raise AssertionError(f"The query did not come to its batch {batches}: {query.exception()}")
        time.sleep(0.05)
