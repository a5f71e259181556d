"""The sequence engine: Q1 to Q5 on Spark, without Spark, and the kernel alone."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import ours, spark_rivals
from bench.duckdb_rival import OTHER_FORMS, DuckDB
from bench.duckdb_rival import SQL as DUCKDB_SQL
from bench.harness import (
    ROUNDS,
    Clock,
    Contestant,
    Record,
    Report,
    TimeUp,
    contest,
    paired_ratio,
    progress,
    say,
    time_limit,
)
from bench.truth import Truth
from bench.workload import EVENTS, QUERIES, Query, generate, parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUICK = ("Q1n", "Q3")
ON_DEFAULTS = ("Q1n", "Q3")
"""Queries that also run with the shuffle partitions Spark has when nobody sets them."""
LIMITS = {"quick": (54.0, 20.0), "standard": (1800.0, 120.0), "full": (3 * 3600.0, 900.0)}
"""Seconds that a run and a single call may take; beyond them figures are missing."""


def run(size: str, data: Path, only: tuple[str, ...] | None = None) -> Report:
    """Measure at a size, with generated data kept in a folder."""
    clock = Clock(*LIMITS[size])
    report = Report("sequence", size)
    count = EVENTS[size]
    queries = [QUERIES[name] for name in only or (QUICK if size == "quick" else tuple(QUERIES))]
    progress(f"{count:,} events for {', '.join(query.name for query in queries)}")
    files = {dataset: parquet(data, dataset, count) for dataset in _datasets(queries)}
    truth = Truth(data, count)
    truth.prepare(queries)
    _kernels(report, queries, truth, clock)
    _without_spark(report, queries, files, truth, clock)
    progress("Spark starts")
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-spark-") as scratch,
        spark_rivals.session(Path(scratch)) as spark,
    ):
        frames = {dataset: spark.read.parquet(str(path)) for dataset, path in files.items()}
        _on_spark(report, queries, spark, frames, truth, clock)
    say(report.times(count))
    return report


def _datasets(queries: Iterable[Query]) -> list[str]:
    return list(dict.fromkeys(query.dataset for query in queries))


def _kernels(report: Report, queries: list[Query], truth: Truth, clock: Clock) -> None:
    """The kernel alone, on sorted arrays, in million events per second."""
    for dataset in _datasets(queries):
        arrays = generate(dataset, truth.count).by_key()
        for query in (q for q in queries if q.dataset == dataset):
            name = f"{query.name}.kernel"
            rates = []
            try:
                with time_limit(clock.allowance()):
                    for _ in range(ROUNDS):
                        rate, found = ours.kernel_rate(query, arrays)
                        if found != truth.of(query):
                            raise ValueError(f"wrong answer: {tuple(found)}, right is {tuple(truth.of(query))}")
                        rates.append(rate / 1e6)
            except (Exception, TimeUp) as error:
                report.add(name, None, f"not measured: {error}")
            else:
                report.add(name, statistics.median(rates))


def _without_spark(report: Report, queries: list[Query], files: dict[str, Path], truth: Truth, clock: Clock) -> None:
    """From Parquet to matches in one process, beside DuckDB."""
    database = DuckDB()
    try:
        for query in queries:
            if query.name not in DUCKDB_SQL:
                continue
            path, right = files[query.dataset], truth.of(query)
            mine = Contestant(f"{query.name} local", partial(ours.local, query, path), right)
            forms = {"duckdb": DUCKDB_SQL[query.name]}
            if report.size != "quick":
                forms |= OTHER_FORMS.get(query.name, {})
            rivals = [
                Contestant(f"{query.name} {form}", partial(database.run, sql, path), right)
                for form, sql in forms.items()
            ]
            records = _held(report, [mine, *rivals], clock)
            for form in forms:
                _compare(report, f"{query.name}.{form}", records[mine.name], records[f"{query.name} {form}"])
    finally:
        database.close()


def _on_spark(
    report: Report,
    queries: list[Query],
    spark: SparkSession,
    frames: dict[str, DataFrame],
    truth: Truth,
    clock: Clock,
) -> None:
    """On Spark, beside what Spark does without us."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(f"{name}_events")
    # Quick shares one bare run a round among its queries, which read the same columns of the same file.
    groups = [queries] if report.size == "quick" else [[query] for query in queries]
    for group in groups:
        contestants: list[Contestant] = []
        for query in group:
            frame = frames[query.dataset]
            bare = _bare(query, frame, spark_rivals.partitions(), truth, "bare")
            if query is group[0] or report.size != "quick" or query.columns != group[0].columns:
                contestants.append(bare)
            contestants.append(_mine(query, frame, truth, "ours"))
            contestants.append(
                Contestant(
                    f"{query.name} limit",
                    partial(spark_rivals.run_limit, query, frame, spark_rivals.partitions()),
                    truth.wanted_by(query),
                )
            )
            if report.size != "quick":
                contestants += _by_hand(query, spark, truth)
        if group is groups[0] and report.size == "standard":
            # Java's compiler is not done after one round of so few events: whoever comes first would look slow.
            contest(contestants, clock, rounds=1, stop=spark.sparkContext.cancelAllJobs)
        records = _held(report, contestants, clock, spark)
        for query in group:
            bare_name = f"{query.name} bare"
            shared = records[bare_name if bare_name in records else f"{group[0].name} bare"]
            mine = records[f"{query.name} ours"]
            _compare(report, f"{query.name}.bare", mine, shared)
            for rival in ("limit", "sql", "sql_unfiltered"):
                if f"{query.name} {rival}" in records:
                    _compare(report, f"{query.name}.{rival}", mine, records[f"{query.name} {rival}"])
    if report.size == "quick":
        return
    with spark_rivals.spark_defaults(spark):
        for query in (q for q in queries if q.name in ON_DEFAULTS):
            frame = frames[query.dataset]
            mine_by_default = _mine(query, frame, truth, "ours, defaults")
            bare_by_default = _bare(query, frame, None, truth, "bare, defaults")
            records = _held(report, [bare_by_default, mine_by_default], clock, spark)
            _compare(report, f"{query.name}.defaults", records[mine_by_default.name], records[bare_by_default.name])


def _mine(query: Query, frame: DataFrame, truth: Truth, role: str) -> Contestant:
    return Contestant(f"{query.name} {role}", partial(ours.on_spark, query, frame), truth.of(query))


def _bare(query: Query, frame: DataFrame, partitions: int | None, truth: Truth, role: str) -> Contestant:
    """The timed runs drop what comes out; that all events come out is shown once, while warming up."""

    def proof() -> object:
        found = spark_rivals.answer_of(spark_rivals.bare(query, frame, partitions), "id")
        return None if found == truth.everything else found

    return Contestant(
        f"{query.name} {role}", partial(spark_rivals.run_bare, query, frame, partitions), expected=None, proof=proof
    )


def _by_hand(query: Query, spark: SparkSession, truth: Truth) -> list[Contestant]:
    forms = {"sql": spark_rivals.SQL.get(query.name)} | spark_rivals.OTHER_FORMS.get(query.name, {})
    return [
        Contestant(f"{query.name} {form}", partial(spark_rivals.run_sql, spark, sql), truth.of(query))
        for form, sql in forms.items()
        if sql is not None
    ]


def _held(
    report: Report, contestants: list[Contestant], clock: Clock, spark: SparkSession | None = None
) -> dict[str, Record]:
    progress(", ".join(one.name for one in contestants))
    records = contest(contestants, clock, stop=None if spark is None else spark.sparkContext.cancelAllJobs)
    report.records |= records
    return records


def _compare(report: Report, name: str, mine: Record, theirs: Record) -> None:
    report.add(name, *paired_ratio(mine, theirs))
