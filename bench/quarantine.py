"""A job with ten rules, one of which exceeds its search budget, compared with the same job without this rule."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from bench import spark_baselines
from bench.harness import Clock, Report, Side, Timed, paired_ratio, print_line, progress, run_rounds
from perseid.cli.running import settings_of
from perseid.jobs.assembly import assemble
from perseid.jobs.reading import read_job
from perseid.jobs.runner import JobRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMITS = {"quick": (58.0, 30.0), "standard": (900.0, 300.0), "full": (1800.0, 600.0)}
"""Seconds of a whole run and of one job."""
SIZES = {"quick": (3, 5_000), "standard": (60, 50_000), "full": (120, 50_000)}
"""Files, one micro-batch each, and events of a file."""
SHARDS = 16
"""The default of a stream; it decides the number of tasks, as for ``perseid run``."""
USERS = 2_000
BURST = 200
"""Events of one key in the second file: 2.5 billion combinations of five of them."""
BURST_FILE = 1
EVENTS_PER_SECOND = 1_000
KINDS = ("Login", "Order", "Refund", "Logout", "Burst")
NINE = tuple(
    f"pattern rule_{number}\nmatch {first} a -> {then} b [n > {least}]\nwithin 5 seconds\npartition by user"
    for number, (first, then, least) in enumerate(
        (first, then, least)
        for first, then in (("Login", "Refund"), ("Order", "Refund"), ("Refund", "Logout"))
        for least in (90, 94, 97)
    )
)
EXPLODING = "pattern exploding\nmatch Burst a ->> Burst b ->> Burst c ->> Burst d ->> Burst e\nwithin 1 minute\npartition by user"


def run(size: str, data: Path) -> Report:
    """Measure at a size, with generated files cached in a folder."""
    clock = Clock(*LIMITS[size])
    report = Report("quarantine", size)
    files, per_file = SIZES[size]
    source = write_files(data / f"quarantine-{files}-{per_file}", files, per_file)
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-quarantine-") as scratch,
        spark_baselines.session(Path(scratch), settings_of(SHARDS, "local[*]")) as spark,
    ):
        progress("the nine rules once, for their matches")
        expected = run_job(spark, source, Path(scratch), NINE).result
        sides = [
            Side("nine rules", partial(run_job, spark, source, Path(scratch), NINE), expected),
            Side("ten rules, one exploding", partial(_run_ten, spark, source, Path(scratch)), expected),
        ]
        report.records |= run_rounds(
            sides, clock, warm=0, rounds=1 if size == "quick" else 3, stop=spark.sparkContext.cancelAllJobs
        )
    nine, ten = report.records.values()
    report.add("nine_of_ten.rate", *paired_ratio(ten, nine))
    print_line(report.times(files * per_file))
    return report


def write_files(folder: Path, files: int, per_file: int) -> Path:
    """Events in files, in order of time; one key has a burst."""
    if folder.exists():
        return folder
    staged = folder.with_suffix(".staged")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    chance = np.random.default_rng(7)
    for number in range(files):
        count = per_file + (BURST if number == BURST_FILE else 0)
        begin = number * per_file * 1_000_000 // EVENTS_PER_SECOND
        step = 1_000_000 // EVENTS_PER_SECOND * per_file // count
        kinds = chance.integers(0, len(KINDS) - 1, count)
        users = chance.integers(1, USERS, count)
        if number == BURST_FILE:
            kinds[:BURST], users[:BURST] = len(KINDS) - 1, 0
        table = pa.table(
            {
                "ts": pa.array(begin + step * np.arange(count), pa.timestamp("us", "UTC")),
                "type": pa.array(np.array(KINDS)[kinds]),
                "user": pa.array(users),
                "n": pa.array(chance.integers(0, 100, count)),
            }
        )
        pq.write_table(table, staged / f"{number:05}.parquet")
    staged.rename(folder)
    return folder


def run_job(spark: SparkSession, source: Path, scratch: Path, rules: tuple[str, ...]) -> Timed:
    """Run a job over all files, from an empty checkpoint: its seconds and its matches by rule."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    files = {
        "path": str(source),
        "format": "parquet",
        "schema": "ts timestamp, type string, user bigint, n bigint",
        "max_files_per_batch": 1,
    }
    job = {
        "job": "rules",
        "stream": {"source": {"files": files}, "lateness": "1 second"},
        "patterns": {"text": "\n".join(rules)},
        "sinks": [{"parquet": {"path": str(folder / "out")}}],
        "checkpoint": str(folder / "checkpoint"),
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    made = JobRunner(assemble(read_job(folder / "job.yaml"), spark, once=True))
    begun = time.perf_counter()
    counters = made.run()
    seconds = time.perf_counter() - begun
    assert (counters.quarantines == 1) == (EXPLODING in rules), counters.quarantined
    found = spark.read.parquet(str(folder / "out")).groupBy("pattern").count().collect()
    shutil.rmtree(folder)
    return Timed(seconds, Counter({row["pattern"]: row["count"] for row in found}))


def _run_ten(spark: SparkSession, source: Path, scratch: Path) -> Timed:
    return run_job(spark, source, scratch, (*NINE, EXPLODING))
