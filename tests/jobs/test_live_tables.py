"""A job with rules and a watch list from tables that change while it runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from perseid.jobs.assembly import assemble
from perseid.jobs.reading import read_job
from tests.jobs.test_backfill import Row, fill
from tests.jobs.test_runner import RunnerThread, until

pytestmark = pytest.mark.timeout(240)

JOB = """
job: watchers
stream:
  source: {files: {path: in, format: json, schema: "ts timestamp, type string, user string, n long", max_files_per_batch: 1}}
  lateness: 1 second
  shards: 2
patterns: {table: {file: {path: rules.csv}}}
relations: {Watched: {file: watched.csv}}
sinks: [{parquet: {path: out}}]
checkpoint: state
trigger: 100 milliseconds
"""
SEEN = "seen,pattern seen match A a where a.user in Watched return a.user as who"
LARGE = "large,pattern large match A a where a.n >= 100 return a.user as who"


def test_rules_and_relations_change_while_a_job_runs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "rules.csv").write_text(f"name,text\n{SEEN}\n")
    (tmp_path / "watched.csv").write_text("user\nann\n")

    def arrive(number: int, second: int, *rows: tuple[str, int]) -> None:
        made: list[Row] = [(f"2026-01-01T00:00:{second:02}Z", "A", user, n) for user, n in rows]
        fill(tmp_path / "staged", [[*made, (f"2026-01-01T00:00:{second + 5:02}Z", "Z", "zoe", 0)]], number)
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "staged" / f"{number}.json").rename(tmp_path / "in" / f"{number}.json")

    def found() -> list[tuple[str, str]]:
        files = (tmp_path / "out").glob("job=*/batch=*/*.parquet")
        rows = [row for file in files for row in pq.ParquetFile(file).read(["pattern", "who"]).to_pylist()]
        return sorted((row["pattern"], row["who"]) for row in rows)

    arrive(1, 0, ("ann", 1), ("bob", 2))
    with RunnerThread(assemble(read_job(tmp_path / "job.yaml"), spark)) as runner:
        until(lambda: found() == [("seen", "ann")])  # the watermark has passed it: later rules have no match with it
        (tmp_path / "watched.csv").write_text("user\nbob\n")
        until(lambda: runner.status.changes == 1)
        (tmp_path / "rules.csv").write_text(f"name,text\n{SEEN}\n{LARGE}\n")
        until(lambda: runner.status.changes == 2)
        arrive(2, 10, ("ann", 3), ("bob", 400))
        arrive(3, 20, ("cat", 5))
        until(lambda: ("large", "bob") in found())
    assert found() == [("large", "bob"), ("seen", "ann"), ("seen", "bob")]
