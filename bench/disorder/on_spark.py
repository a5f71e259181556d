"""Paper 4's stream on Spark: the strategies compared with a baseline stateful query, with a fifth of the events out of
order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench import ours, spark_baselines
from bench.disorder.workload import LONGEST, PATTERN_TEXT, Stream, expected_matches, make_stream
from bench.harness import Clock, Report, Side, Timed, paired_ratio, print_line, progress, run_rounds
from bench.stream import SHARDS, Bench, seconds_of, write_files
from bench.truth import MatchChecksum
from bench.workload import FORMAT, Query
from perseid.runtime.event_batch import flatten_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNTS = {"quick": 250_000, "standard": 2_000_000, "full": 10_000_000}
LIMITS = {"quick": (55.0, 40.0), "standard": (2400.0, 240.0), "full": (3 * 3600.0, 900.0)}
ROUNDS = {"quick": (1, 1), "standard": (3, 2), "full": (1, 1)}
"""Timed rounds and warm-up rounds."""
DISORDER = 20
TAGS = 1_000
BATCH = 250_000
"""Events per trigger."""
STRATEGIES = ("buffer", "assemble", "early", "aggressive", "conservative", "adaptive")
QUICK = ("assemble",)
SEQ = Query("SEQ", "disorder", PATTERN_TEXT, tuple("ABCDEFG"), strict=False, columns=("id", "ts", "key", "type"))


def run(size: str, data: Path) -> Report:
    """Measure at a size, with generated data cached in a folder."""
    clock, report = Clock(*LIMITS[size]), Report("disorder-stream", size)
    stream = make_stream(COUNTS[size], DISORDER, tags=TAGS)
    found = expected_matches(stream)
    right = MatchChecksum(found.num_rows, int(np.asarray(found["a"]).sum()))
    progress(f"{COUNTS[size]:,} events, {stream.disorder:.0%} behind, {right.matches:,} matches")
    names = QUICK if size == "quick" else STRATEGIES
    folders = {
        punctuated: _pieces(data, stream, punctuated) for punctuated in {name == "conservative" for name in names}
    }
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-disorder-") as scratch,
        spark_baselines.session(Path(scratch)) as spark,
    ):
        for name in names:
            bench = Disordered(spark, Path(scratch), name)
            folder = folders[name == "conservative"]
            # An adaptive stream may lose events, and then matches: the loss is reported, but is not an error.
            lossy = name == "adaptive"
            run_counted = partial(bench.run_counted, folder, None if lossy else right)
            run_materialized = None if lossy else partial(bench.run_materialized, folder)
            sides = [
                Side(f"{name} ours", run_counted, None if lossy else right, run_materialized),
                Side(f"{name} bare", partial(bench.baseline, SEQ, folder, True), None),
            ]
            rounds, warm = ROUNDS[size]
            stop = spark.sparkContext.cancelAllJobs
            records = run_rounds(sides, clock, rounds=rounds, warm=warm, stop=stop)
            report.records.update(records)
            report.add(f"{name}.bare", *paired_ratio(records[f"{name} ours"], records[f"{name} bare"]))
            progress(f"{name}: {report.figures[f'{name}.bare']} of bare, {bench.state_bytes:,} bytes a shard")
    print_line(report.times(COUNTS[size]))
    return report


class Disordered(Bench):
    """A stream that is matched with one strategy."""

    def __init__(self, spark: Any, scratch: Path, strategy: str) -> None:
        # A row at the watermark is late, and a row may have the longest delay.
        super().__init__(spark, scratch, delay=f"{LONGEST * 1000 + 1} milliseconds")
        self.strategy = strategy

    def plan_ours(self, query: Query, folder: Path) -> DataFrame:
        self.use_separate_workers("ours")
        return ours.streamed(query, self.source(folder), SHARDS, disorder=self.strategy)

    def run_counted(self, folder: Path, right: MatchChecksum | None) -> Timed:
        """Run to a no-op sink; the result is the number of matches that were emitted and not retracted."""
        ran = self.stream(self.plan_ours(SEQ, folder))
        matches = self.matches(ran)
        if right is None:
            late = sum(ours.counters(one)["late"] for one in ran)
            progress(f"{self.strategy}: {matches:,} matches, {late:,} events late")
            return Timed(seconds_of(ran), None)
        return Timed(seconds_of(ran), right if matches == right.matches else matches)

    def run_materialized(self, folder: Path) -> Timed:
        """Run with materialized changes, folded to current matches: count and sum of ids must be correct."""
        path = self.scratch / f"changes-{self.runs}"
        changes = self.plan_ours(SEQ, folder)
        ran = self.stream(changes, "parquet", path=str(path))
        self.matches(ran)
        matches = self.spark.read.schema(changes.schema).parquet(str(path))
        result = spark_baselines.checksum_of(ours.current_matches(matches), "a")
        shutil.rmtree(path, ignore_errors=True)
        return Timed(seconds_of(ran), result)

    def matches(self, ran: list[Any]) -> int:
        retractions = sum(ours.counters(one)["retracted"] for one in ran)
        if retractions:
            progress(f"{self.strategy}: {retractions:,} taken back")
        return super().matches(ran) - retractions


def _pieces(folder: Path, stream: Stream, punctuated: bool) -> Path:
    """The stream as files in order of arrival, one per trigger."""
    target = folder / f"disorder-{len(stream.arrival)}-{'with' if punctuated else 'without'}-promises-v{FORMAT}"
    return target if target.exists() else write_files(target, _tables(stream, punctuated))


def _tables(stream: Stream, punctuated: bool) -> Iterator[pa.Table]:
    rows = stream.rows if punctuated else stream.without_punctuations().rows
    names = pa.DictionaryArray.from_arrays(pa.array(rows.type_codes), rows.type_names).dictionary_decode()
    columns = {
        "id": flatten_column(rows.columns["id"]),
        "ts": pa.array(rows.time).cast(pa.timestamp("us", "UTC")),
        "key": flatten_column(rows.columns["key"]),
        "type": names,
    }
    if rows.control is not None:
        columns["promise"] = pa.array(["all"] * len(rows), mask=rows.control == 0)
    table = pa.table(columns)
    for at in range(0, len(rows), BATCH):
        yield table.slice(at, BATCH)
