"""Paper 4's stream on Spark: our strategies beside a bare stateful query, at a fifth of all events out of order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench import ours, spark_rivals
from bench.disorder.arriving import LONGEST, PATTERN_TEXT, Stream, make_stream, right_answer
from bench.harness import Clock, Contestant, Report, Timed, contest, paired_ratio, progress, say
from bench.stream import SHARDS, Bench, seconds_of, write_files
from bench.truth import Answer
from bench.workload import FORMAT, Query
from perseid.runtime.event_batch import flatten_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNTS = {"quick": 250_000, "standard": 2_000_000, "full": 10_000_000}
LIMITS = {"quick": (55.0, 40.0), "standard": (2400.0, 240.0), "full": (3 * 3600.0, 900.0)}
ROUNDS = {"quick": (1, 1), "standard": (3, 2), "full": (1, 1)}
"""That count, and before them."""
DISORDER = 20
TAGS = 1_000
BATCH = 250_000
"""Events of a trigger."""
STRATEGIES = ("buffer", "assemble", "early", "aggressive", "conservative", "adaptive")
QUICK = ("assemble",)
SEQ = Query("SEQ", "disorder", PATTERN_TEXT, tuple("ABCDEFG"), strict=False, columns=("id", "ts", "key", "type"))


def run(size: str, data: Path) -> Report:
    """Measure at a size, with generated data kept in a folder."""
    clock, report = Clock(*LIMITS[size]), Report("disorder-stream", size)
    stream = make_stream(COUNTS[size], DISORDER, tags=TAGS)
    found = right_answer(stream)
    right = Answer(found.num_rows, int(np.asarray(found["a"]).sum()))
    progress(f"{COUNTS[size]:,} events, {stream.disorder:.0%} behind, {right.matches:,} matches")
    names = QUICK if size == "quick" else STRATEGIES
    folders = {promises: _pieces(data, stream, promises) for promises in {name == "conservative" for name in names}}
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-disorder-") as scratch,
        spark_rivals.session(Path(scratch)) as spark,
    ):
        for name in names:
            bench = Disordered(spark, Path(scratch), name)
            folder = folders[name == "conservative"]
            # An adaptive stream may lose events, and then matches: how many is said, and not held against it.
            lossy = name == "adaptive"
            counted = partial(bench.counted, folder, None if lossy else right)
            shown = None if lossy else partial(bench.shown, folder)
            contestants = [
                Contestant(f"{name} ours", counted, None if lossy else right, shown),
                Contestant(f"{name} bare", partial(bench.bare, SEQ, folder, True), None),
            ]
            rounds, warm = ROUNDS[size]
            stop = spark.sparkContext.cancelAllJobs
            records = contest(contestants, clock, rounds=rounds, warm=warm, stop=stop)
            report.records.update(records)
            report.add(f"{name}.bare", *paired_ratio(records[f"{name} ours"], records[f"{name} bare"]))
            progress(f"{name}: {report.figures[f'{name}.bare']} of bare, {bench.state_bytes:,} bytes a shard")
    say(report.times(COUNTS[size]))
    return report


class Disordered(Bench):
    """A stream that is searched by a strategy."""

    def __init__(self, spark: Any, scratch: Path, strategy: str) -> None:
        # A row at the watermark is late, and one may come that is as late as any.
        super().__init__(spark, scratch, delay=f"{LONGEST * 1000 + 1} milliseconds")
        self.strategy = strategy

    def plan_ours(self, query: Query, folder: Path) -> DataFrame:
        self.combine("ours")
        return ours.streamed(query, self.source(folder), SHARDS, disorder=self.strategy)

    def counted(self, folder: Path, right: Answer | None) -> Timed:
        """Changes to nowhere; the answer is how many matches were told and not taken back."""
        ran = self.stream(self.plan_ours(SEQ, folder))
        matches = self.matches(ran)
        if right is None:
            late = sum(ours.counters(one)["late"] for one in ran)
            progress(f"{self.strategy}: {matches:,} matches, {late:,} events late")
            return Timed(seconds_of(ran), None)
        return Timed(seconds_of(ran), right if matches == right.matches else matches)

    def shown(self, folder: Path) -> Timed:
        """The same with its changes kept and folded: count and sum of ids have to be right."""
        path = self.scratch / f"changes-{self.runs}"
        changes = self.plan_ours(SEQ, folder)
        ran = self.stream(changes, "parquet", path=str(path))
        self.matches(ran)
        kept = self.spark.read.schema(changes.schema).parquet(str(path))
        answer = spark_rivals.answer_of(ours.stands(kept), "a")
        shutil.rmtree(path, ignore_errors=True)
        return Timed(seconds_of(ran), answer)

    def matches(self, ran: list[Any]) -> int:
        taken_back = sum(ours.counters(one)["retracted"] for one in ran)
        if taken_back:
            progress(f"{self.strategy}: {taken_back:,} taken back")
        return super().matches(ran) - taken_back


def _pieces(folder: Path, stream: Stream, promises: bool) -> Path:
    """The stream as files in the order of arrival, one a trigger."""
    target = folder / f"disorder-{len(stream.arrival)}-{'with' if promises else 'without'}-promises-v{FORMAT}"
    return target if target.exists() else write_files(target, _tables(stream, promises))


def _tables(stream: Stream, promises: bool) -> Iterator[pa.Table]:
    rows = stream.rows if promises else stream.without_punctuations().rows
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
