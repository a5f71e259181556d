"""Subscriptions on Spark: a stream of items beside one that only moves them, two ways to share the work, and changes while it runs.

Items are those of feeds, subscriptions are distinct ones with windows without end, so that every item may meet all before
it. The bare query reads the same files, carries the same documents to Python and through a stateful operator with as many
shards, and does nothing with them.
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
from bench import harness, spark_rivals
from bench.joins.contest import DEFAULT_LEAVES, DEFAULT_QUERIES, DEFAULT_ZIPF
from bench.joins.million import FEW, items, registered, subscriptions, texts
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
"""Of the query that is changed while it runs."""
ARROW = pa.schema([("ts", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("xml", pa.string())])
_DAYS = re.compile(r"\d+ days")


@dataclass(frozen=True)
class Size:
    items: int
    files: int
    queries: int
    live: int
    """Those that ask for what occurs: without windows, what is due to an item grows with all items before it."""
    routed: int
    """Items that are shared out in both ways."""
    rounds: int
    running: int
    """Subscriptions of the query that is changed while it runs."""


SIZES = {
    "quick": Size(1_000, 1, 1_000, 1_000, 500, 1, 0),
    "standard": Size(225_000, 9, 100_000, 1_000, 20_000, 5, 200_000),
    "full": Size(225_000, 9, 100_000, 1_000, 40_000, 5, 1_000_000),
}
ROUNDS = {"quick": 1, "standard": 1, "full": 3}


def run(size: str) -> harness.Report:
    report, chosen = harness.Report("joins-stream", size), SIZES[size]
    asked_by = dict(_endless(given(chosen.queries, chosen.live)))
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-joins-") as scratch,
        spark_rivals.session(Path(scratch)) as spark,
    ):
        spark.conf.set(spark_rivals.PARTITIONS_SETTING, str(SHARES))
        bench = Bench(spark, Path(scratch), delay="0 seconds")
        folder = Path(scratch) / "items"
        write(folder, chosen.items, chosen.files)
        _throughput(report, bench, folder, asked_by, chosen, ROUNDS[size])
        _routes(report, spark, folder, asked_by, chosen)
        if chosen.running:
            _changed(report, spark, Path(scratch), chosen)
    return report


def given(count: int, live: int, channels: bool = False) -> Iterator[tuple[str, str]]:
    """So many distinct subscriptions, of which these many ask for what occurs.

    Those that relate items of one channel are left out, unless they are asked for: without a window an item meets all
    items of its channel, a seventieth of all there are, and the time goes by the square of the items.
    """
    first = FEW - (live if channels else live * 4 // 3)
    some = (text for text in texts(first, FEW + 2 * count) if channels or "c = d" not in text)
    return ((f"subscriber-{number:07}", text) for number, text in enumerate(islice(some, count)))


def _endless(given: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name, text in given:
        yield name, _DAYS.sub("forever", text)


def write(folder: Path, count: int, files: int) -> None:
    """Items in the order of time, in so many files of one age after the other."""
    folder.mkdir()
    each = -(-count // files)
    given = enumerate(items(count, SECTIONS))
    for number in range(files):
        add_file(folder, number, list(islice(given, each)))


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
    report: harness.Report, bench: Bench, folder: Path, asked_by: dict[str, str], size: Size, rounds: int
) -> None:
    start = time.perf_counter()
    asked = ps.xscl.subscriptions(asked_by)
    harness.progress(f"{len(asked_by):,} subscriptions are read in {time.perf_counter() - start:.1f} s")
    ratios, rates = [], []
    for _ in range(rounds):
        bench.combine("ours")
        ran = bench.stream(asked.match(_documents(bench.source(folder)), query_partitions=SHARES))
        taken = seconds_of(ran)
        bench.combine("bare")
        bare = seconds_of(bench.stream(moved(bench.source(folder))))
        told = [counters(one.observedMetrics["perseid subscriptions"].asDict(recursive=True)) for one in ran]
        rows, state = sum(one["matches"] for one in told), max(one["state_bytes"] for one in told)
        each = ", ".join(f"{one.durationMs['triggerExecution'] / 1000:.1f}" for one in ran)
        harness.say(
            f"stream: {size.items:,} items, {len(asked_by):,} subscriptions, windows without end: {taken:.1f} s, "
            f"{size.items / taken:,.0f} items/s, {rows:,} rows of pairs told, {state / 1e6:,.0f} MB of state at the end "
            f"in all shares; bare {bare:.1f} s, {size.items / bare:,.0f} items/s; batches took {each} s"
        )
        ratios.append(bare / taken)
        rates.append(size.items / taken)
    report.add("stream.items_per_second", sorted(rates)[len(rates) // 2])
    report.add("stream.bare", sorted(ratios)[len(ratios) // 2])


def moved(frame: DataFrame) -> DataFrame:
    """Documents to Python and back, and through an operator that keeps nothing."""
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
    done = grouped.applyInPandasWithState(counted, "rows bigint", "kept binary", "append", "EventTimeTimeout")
    return done.where(f.col("rows") < 0)


# Two ways to share the work


def asked_pairs(rows: Iterable[TemplateRow]) -> set[tuple[NodeChain, NodeChain]]:
    """Pairs of chains that some equality asks for: the older document's, the newer's."""
    return {
        (asked.older, asked.newer)
        for row in {id(row): row for row in rows}.values()
        for edge, asked in zip(row.template.edges, row.asked, strict=True)
        if edge.kind is Kind.EQUAL and asked.older is not None and asked.newer is not None
    }


def equal_pairs(bindings: ChainBindings, chains: Sequence[NodeChain], asked: set[tuple[NodeChain, NodeChain]]) -> int:
    """How many pairs of rows of two documents have one text and chains that somebody asks to be equal."""
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
    """The paper's queries and documents, with its defaults."""
    schema = Schema.flat(DEFAULT_LEAVES)
    made = Drawn(schema, DEFAULT_LEAVES, DEFAULT_ZIPF).subscriptions(DEFAULT_QUERIES)
    chains = list(made.chains)
    times, bindings = pairs_of_documents(schema, chains, 40)
    due = int(Joiner(made).add(times, bindings).rows[:, y.O_COUNT].sum())
    pairs = equal_pairs(bindings, chains, asked_pairs(row for _, row in made.numbers))
    rows = len(bindings.chains)
    harness.say(
        f"routes: the paper's defaults, Zipf {DEFAULT_ZIPF}: {due:,} notifications; by value {rows:,} rows and then {pairs:,} "
        f"pairs are shuffled, {(rows + pairs) / due:.3f} a notification; by share {SHARES * rows:,} rows, "
        f"{SHARES * rows / due:.3f} a notification"
    )
    report.add("routes.paper.by_value", (rows + pairs) / due)
    report.add("routes.paper.twenty_against_by_value", 20 * due / (rows + pairs))
    report.add("routes.paper.by_share", SHARES * rows / due)


def _routes(report: harness.Report, spark: SparkSession, folder: Path, asked_by: dict[str, str], size: Size) -> None:
    _paper(report)
    frame = spark.read.parquet(str(folder)).where(f"n < {size.routed}").cache()
    frame.count()
    index, _ = registered(iter(asked_by.items()))
    pairs = asked_pairs(row for _, row in index.numbers)
    plan = make_plan(asked_by, pa.schema([("n", pa.int64())]))
    inputs = (_documents(frame).bind_events(describe_table(frame, None)),)
    read = prepare_rows(PrepareStage("joins", plan, plan.found, inputs), [frame])
    rows = read.selectExpr(DOCUMENT, f"inline(arrays_zip({CHAINS}, {TEXTS}))").toDF("document", "chain", "text")
    keys = spark.createDataFrame([(key_of(a), key_of(b)) for a, b in pairs], "older bigint, newer bigint")
    older = rows.toDF("first", "older", "text")
    newer = rows.toDF("document", "newer", "text")
    met = newer.join(keys, "newer").join(older, ["older", "text"]).where("first < document")

    def taken(what: DataFrame) -> float:
        start = time.perf_counter()
        what.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - start

    asked = ps.xscl.subscriptions(asked_by)
    told = asked.match(_documents(frame), query_partitions=SHARES, expand=False)
    counts = told.selectExpr("count(*) as rows", "sum(size(subscriptions)) as due").first()
    many, met_rows = rows.count(), met.count()
    # Workers read subscriptions when they first need them, and keep them.
    by_share, by_value = (
        min(taken(one) for _ in range(size.rounds)) for one in (told, met.repartition(SHARES, "document"))
    )
    assert counts is not None
    due = max(counts["due"] or 0, 1)
    harness.say(
        f"routes: {size.routed:,} items, {len(asked_by):,} distinct subscriptions with constants: {due:,} notifications; by value "
        f"{many:,} rows and then {met_rows:,} pairs, {(many + met_rows) / due:,.1f} a notification, {by_value:.1f} s as Spark joins "
        f"them before any template is asked; by share {SHARES * many:,} rows, {SHARES * many / due:.2f} a notification, "
        f"{by_share:.1f} s with everything"
    )
    report.add("routes.distinct.by_value", (many + met_rows) / due)
    report.add("routes.distinct.by_share", SHARES * many / due)
    report.add("routes.distinct.share_against_value", by_value / by_share)
    frame.unpersist()


# Changes while it runs


def _changed(report: harness.Report, spark: SparkSession, scratch: Path, size: Size) -> None:
    """Ten thousand subscriptions are added to a query that runs: what the batch that takes them takes more than others."""
    table = ps.xscl.subscription_table(scratch / "table")
    start = time.perf_counter()
    given = subscriptions(size.running + 10_000)
    while some := dict(islice(given, min(100_000, size.running))):
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
    told = table.match(_documents(stream), query_partitions=SHARES)
    writer = told.writeStream.format("noop").option("checkpointLocation", str(scratch / "changed"))
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
        # Any worker may be given any share, and reads its subscriptions when it first is.
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
    harness.say(
        f"changed: 10,000 added to a stream of {size.running:,}: written in {written:.2f} s; batches took {usual:.2f} s before and at "
        f"most {max(after):.2f} s after ({', '.join(f'{one:.2f}' for one in durations)}; {warm} before)"
    )
    report.add("changed.within_two_seconds", 2 / max(max(after) - usual, 0.01))


def _wait(query: Any, batches: int) -> None:
    """Until so many batches with rows are over."""
    end = time.monotonic() + 600
    while sum(1 for one in query.recentProgress if one.numInputRows) < batches:
        if time.monotonic() > end or not query.isActive:
            raise AssertionError(f"The query did not come to its batch {batches}: {query.exception()}")
        time.sleep(0.05)
