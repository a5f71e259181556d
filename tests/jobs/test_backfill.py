"""Backfill, then live: each record counts once at the boundary, and a match may span both."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import perseid as ps
from perseid.errors import SettingsError
from perseid.jobs.assembly import assemble
from perseid.jobs.reading import read_job
from perseid.jobs.runner import JobRunner
from perseid.jobs.spec import JobFile
from tests.jobs.test_runner import RunnerThread, until

pytestmark = pytest.mark.timeout(240)

IDLE = "spark.sql.streaming.noDataProgressEventInterval"
"""Interval of progress events of an idle query, in milliseconds."""
JOB = """
job: orders
stream:
  source: {files: {path: live, format: json, schema: "ts timestamp, type string, user string, n long", max_files_per_batch: 1}}
  history:
    source: {files: {path: old, format: json, schema: "ts timestamp, type string, user string, n long", max_files_per_batch: 1}}
    until: 2026-01-02T00:00:00Z
  lateness: 1 minute
  shards: 2
patterns: {text: "pattern pairs match A a -> B b within 1 day partition by user return a.n as a, b.n as b"}
sinks: [{parquet: {path: out}}]
checkpoint: state
trigger: available_now
"""
Row = tuple[str, str, str, int]
OLD: list[list[Row]] = [
    [("2026-01-01T10:00:00Z", "A", "ann", 1), ("2026-01-01T11:00:00Z", "B", "ann", 2)],
    # In both inputs: history ends at the boundary, and live begins at it.
    [
        ("2026-01-01T23:00:00Z", "A", "bob", 3),
        ("2026-01-02T00:00:00Z", "B", "bob", 4),
        ("2026-01-02T01:00:00Z", "A", "cat", 5),
    ],
]
LIVE: list[list[Row]] = [
    [("2026-01-01T23:00:00Z", "A", "bob", 3), ("2026-01-02T00:00:00Z", "B", "bob", 4)],
    [("2026-01-02T01:00:00Z", "A", "cat", 5), ("2026-01-02T02:00:00Z", "B", "cat", 6)],
]
EXPECTED = {("ann", 1, 2), ("bob", 3, 4), ("cat", 5, 6)}


def fill(folder: Path, files: Sequence[Sequence[Row]], first: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(files, first):
        lines = [json.dumps(dict(zip(("ts", "type", "user", "n"), row, strict=True))) for row in rows]
        (folder / f"{number}.json").write_text("\n".join(lines))
        # The file source orders files by modification time.
        os.utime(folder / f"{number}.json", (number + 1, number + 1))


def found(spark: SparkSession, folder: Path) -> list[tuple[str, int, int]]:
    if not any((folder / "out").glob("job=*/batch=*/*.parquet")):
        return []  # Spark cannot read a folder in which a batch is only staged.
    rows = spark.read.parquet(str(folder / "out")).collect()
    return sorted((row["user"], row["a"], row["b"]) for row in rows)


@pytest.fixture
def job(tmp_path: Path) -> JobFile:
    (tmp_path / "job.yaml").write_text(JOB)
    fill(tmp_path / "old", OLD)
    fill(tmp_path / "live", LIVE)
    return read_job(tmp_path / "job.yaml")


def test_history_and_live_meet_without_gap_or_double(spark: SparkSession, job: JobFile, tmp_path: Path) -> None:
    JobRunner(assemble(job, spark, from_history=True)).run()
    # A restart knows from the checkpoint that it contains history; files written meanwhile close the windows.
    fill(tmp_path / "live", [[("2026-01-05T00:00:00Z", "Z", "zoe", 0)]], first=2)
    JobRunner(assemble(job, spark)).run()
    assert found(spark, tmp_path) == sorted(EXPECTED)


def test_live_continues_in_the_query_that_read_history(spark: SparkSession, job: JobFile, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB.replace("available_now", "200 milliseconds"))
    job = read_job(tmp_path / "job.yaml")
    spark.conf.set(IDLE, "500")
    try:
        with RunnerThread(assemble(job, spark, from_history=True)) as runner:
            assert runner.job.backfill is not None
            until(lambda: runner.job.backfill.ended)
            # The watermark of live is now in effect and has reached its newest record: two matches are emitted.
            until(lambda: len(found(spark, tmp_path)) == 2)
            fill(tmp_path / "live", [[("2026-01-05T00:00:00Z", "Z", "zoe", 0)]], first=2)
            until(lambda: len(found(spark, tmp_path)) == 3)
    finally:
        spark.conf.unset(IDLE)
    assert found(spark, tmp_path) == sorted(EXPECTED)


def test_rule_that_changes_after_a_backfill_matches_later_records(
    spark: SparkSession, job: JobFile, tmp_path: Path
) -> None:
    """The row that ends a backfill is dated 9000. It must not be the newest event, after which a changed rule starts."""
    # One state has the row and the later records, and strict contiguity keeps rows of every type.
    text = JOB.replace("shards: 2", "shards: 1").replace("A a -> B b", "A a, B b")
    (tmp_path / "job.yaml").write_text(text.replace("available_now", "200 milliseconds"))
    job = read_job(tmp_path / "job.yaml")
    spark.conf.set(IDLE, "500")
    try:
        with RunnerThread(assemble(job, spark, from_history=True)):
            # The query itself has read the row that ends the backfill.
            until(lambda: len(found(spark, tmp_path)) == 2)
    finally:
        spark.conf.unset(IDLE)
    (tmp_path / "job.yaml").write_text(text.replace("A a,", "A a [n > 6],"))
    later = [("2026-01-04T10:00:00Z", "A", "dan", 7), ("2026-01-04T11:00:00Z", "B", "dan", 8)]
    fill(tmp_path / "live", [later, [("2026-01-09T00:00:00Z", "Z", "zoe", 0)]], first=2)
    JobRunner(assemble(read_job(tmp_path / "job.yaml"), spark)).run()
    assert ("dan", 7, 8) in found(spark, tmp_path)


def test_history_is_declared_and_of_a_new_checkpoint(spark: SparkSession, job: JobFile, tmp_path: Path) -> None:
    fill(tmp_path / "live", [[("2026-01-05T00:00:00Z", "Z", "zoe", 0)]], first=2)
    JobRunner(assemble(job, spark)).run()
    assert [row for row in found(spark, tmp_path) if row[0] == "ann"] == []
    with pytest.raises(SettingsError, match="was started without history"):
        assemble(job, spark, from_history=True)
    (tmp_path / "plain.yaml").write_text(JOB[: JOB.index("  history:")] + JOB[JOB.index("  lateness:") :])
    with pytest.raises(SettingsError, match=r"has no stream\.history"):
        assemble(read_job(tmp_path / "plain.yaml"), spark, from_history=True)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("  order: arrival\n  lateness", "order: arrival expects the order of one source"),
        ("  time: {A: ts}\n  lateness", "history needs one source with one time column"),
    ],
)
def test_options_that_exclude_history_are_rejected(tmp_path: Path, changed: str, said: str) -> None:
    (tmp_path / "job.yaml").write_text(JOB.replace("  lateness", changed, 1))
    with pytest.raises(ps.PerseidError, match=said):
        read_job(tmp_path / "job.yaml")
