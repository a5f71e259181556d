"""The sequence engine: Q1 to Q5 on Spark, without Spark, and the kernel alone."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import ours, spark_baselines
from bench.duckdb_baseline import OTHER_FORMS, DuckDB
from bench.duckdb_baseline import SQL as DUCKDB_SQL
from bench.harness import (
    ROUNDS,
    Clock,
    Record,
    Report,
    Side,
    TimeUp,
    paired_ratio,
    print_line,
    progress,
    run_rounds,
    time_limit,
)
from bench.truth import Truth
from bench.workload import EVENTS, QUERIES, Query, generate, parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUICK = ("Q1n", "Q3")
ON_DEFAULTS = ("Q1n", "Q3")
"""Queries that also run with Spark's default number of shuffle partitions."""
LIMITS = {"quick": (54.0, 20.0), "standard": (1800.0, 120.0), "full": (3 * 3600.0, 900.0)}
"""Seconds that a run and a single call may take; figures beyond them are missing."""


def run(size: str, data: Path, only: tuple[str, ...] | None = None) -> Report:
    """Measure at a size, with generated data cached in a folder."""
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
        spark_baselines.session(Path(scratch)) as spark,
    ):
        frames = {dataset: spark.read.parquet(str(path)) for dataset, path in files.items()}
        _on_spark(report, queries, spark, frames, truth, clock)
    print_line(report.times(count))
    return report


def _datasets(queries: Iterable[Query]) -> list[str]:
    return list(dict.fromkeys(query.dataset for query in queries))


def _kernels(report: Report, queries: list[Query], truth: Truth, clock: Clock) -> None:
    """Kernel alone, on sorted arrays, in million events per second."""
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
    """From Parquet to matches in one process, compared with DuckDB."""
    database = DuckDB()
    try:
        for query in queries:
            if query.name not in DUCKDB_SQL:
                continue
            path, right = files[query.dataset], truth.of(query)
            mine = Side(f"{query.name} local", partial(ours.local, query, path), right)
            forms = {"duckdb": DUCKDB_SQL[query.name]}
            if report.size != "quick":
                forms |= OTHER_FORMS.get(query.name, {})
            others = [
                Side(f"{query.name} {form}", partial(database.run, sql, path), right) for form, sql in forms.items()
            ]
            records = _run_recorded(report, [mine, *others], clock)
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
    """On Spark, compared with baselines on Spark without Perseid."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(f"{name}_events")
    # At the size quick, the queries share one baseline run per round, because they read the same columns of the same
    # file.
    groups = [queries] if report.size == "quick" else [[query] for query in queries]
    for group in groups:
        sides: list[Side] = []
        for query in group:
            frame = frames[query.dataset]
            baseline = _baseline(query, frame, spark_baselines.partitions(), truth, "bare")
            if query is group[0] or report.size != "quick" or query.columns != group[0].columns:
                sides.append(baseline)
            sides.append(_mine(query, frame, truth, "ours"))
            sides.append(
                Side(
                    f"{query.name} limit",
                    partial(spark_baselines.run_limit, query, frame, spark_baselines.partitions()),
                    truth.relevant_to(query),
                )
            )
            if report.size != "quick":
                sides += _handwritten_sql(query, spark, truth)
        if group is groups[0] and report.size == "standard":
            # One round of so few events does not warm up the JIT compiler: the side that runs first would look slow.
            run_rounds(sides, clock, rounds=1, stop=spark.sparkContext.cancelAllJobs)
        records = _run_recorded(report, sides, clock, spark)
        for query in group:
            baseline_name = f"{query.name} bare"
            shared = records[baseline_name if baseline_name in records else f"{group[0].name} bare"]
            mine = records[f"{query.name} ours"]
            _compare(report, f"{query.name}.bare", mine, shared)
            for other in ("limit", "sql", "sql_unfiltered"):
                if f"{query.name} {other}" in records:
                    _compare(report, f"{query.name}.{other}", mine, records[f"{query.name} {other}"])
    if report.size == "quick":
        return
    with spark_baselines.spark_defaults(spark):
        for query in (q for q in queries if q.name in ON_DEFAULTS):
            frame = frames[query.dataset]
            ours_by_default = _mine(query, frame, truth, "ours, defaults")
            baseline_by_default = _baseline(query, frame, None, truth, "bare, defaults")
            records = _run_recorded(report, [baseline_by_default, ours_by_default], clock, spark)
            _compare(report, f"{query.name}.defaults", records[ours_by_default.name], records[baseline_by_default.name])


def _mine(query: Query, frame: DataFrame, truth: Truth, role: str) -> Side:
    return Side(f"{query.name} {role}", partial(ours.on_spark, query, frame), truth.of(query))


def _baseline(query: Query, frame: DataFrame, partitions: int | None, truth: Truth, role: str) -> Side:
    """The timed runs drop their output; one warm-up proves that all events are output."""

    def proof() -> object:
        found = spark_baselines.checksum_of(spark_baselines.identity_pipeline(query, frame, partitions), "id")
        return None if found == truth.all_events else found

    return Side(
        f"{query.name} {role}",
        partial(spark_baselines.run_identity_pipeline, query, frame, partitions),
        expected=None,
        proof=proof,
    )


def _handwritten_sql(query: Query, spark: SparkSession, truth: Truth) -> list[Side]:
    forms = {"sql": spark_baselines.SQL.get(query.name)} | spark_baselines.OTHER_FORMS.get(query.name, {})
    return [
        Side(f"{query.name} {form}", partial(spark_baselines.run_sql, spark, sql), truth.of(query))
        for form, sql in forms.items()
        if sql is not None
    ]


def _run_recorded(
    report: Report, sides: list[Side], clock: Clock, spark: SparkSession | None = None
) -> dict[str, Record]:
    progress(", ".join(one.name for one in sides))
    records = run_rounds(sides, clock, stop=None if spark is None else spark.sparkContext.cancelAllJobs)
    report.records |= records
    return records


def _compare(report: Report, name: str, mine: Record, theirs: Record) -> None:
    report.add(name, *paired_ratio(mine, theirs))
