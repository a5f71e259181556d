"""Rows dated in the future do not advance the watermark of a job, and a poisoned checkpoint is recoverable."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from perseid.jobs.assembly import assemble
from perseid.jobs.job_plan import RunStatus, StoppedError
from perseid.jobs.reading import JobFileError, read_job
from perseid.jobs.replay import replay
from perseid.jobs.runner import JobRunner
from tests.jobs import test_backfill
from tests.jobs.test_commands import call

pytestmark = pytest.mark.timeout(240)

JOB = """
job: orders
stream:
  source: {files: {path: in, format: json, schema: "ts timestamp, type string, user string, n long", max_files_per_batch: 1}}
  lateness: 1 minute
  shards: 2
patterns:
  text: |
    pattern pairs match A a -> B b within 1 hour partition by user return a.n as a, b.n as b
sinks: [{parquet: {path: out}}]
dead_letters: {parquet: {path: dead}}
checkpoint: state
trigger: available_now
"""
UNBOUNDED = JOB.replace("lateness: 1 minute", "lateness: 1 minute\n  max_ahead: none")
POISON = {"ts": "9999-06-01T00:00:00.000Z", "type": "A", "user": "eve", "n": 666}
POISONED = [
    [
        {"ts": "2026-01-01T10:00:00.000Z", "type": "A", "user": "ann", "n": 1},
        {"ts": "2026-01-01T10:01:00.000Z", "type": "B", "user": "ann", "n": 2},
        POISON,
    ],
    [{"ts": "2026-01-01T10:02:00.000Z", "type": "A", "user": "bob", "n": 3}],
]
"""Rows that arrive before the restart."""
LATER = [
    [{"ts": "2026-01-01T10:03:00.000Z", "type": "B", "user": "bob", "n": 4}],
    [{"ts": "2026-01-01T12:00:00.000Z", "type": "A", "user": "cat", "n": 5}],
    [{"ts": "2026-01-01T14:00:00.000Z", "type": "Z", "user": "zoe", "n": 6}],
]
PAIRS = [("ann", 1, 2), ("bob", 3, 4)]


def arrive(folder: Path, files: list[list[dict[str, Any]]], first: int = 0) -> None:
    """Write one file per batch; the source orders files by modification time."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(files, first + 1):
        (folder / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
        os.utime(folder / f"{number}.json", (number, number))


def run(spark: SparkSession, path: Path) -> RunStatus:
    return JobRunner(assemble(read_job(path), spark)).run()


def written(spark: SparkSession, folder: Path) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.read.parquet(str(folder)).collect()] if folder.exists() else []


def pairs(spark: SparkSession, folder: Path) -> list[tuple[str, int, int]]:
    return sorted((row["user"], row["a"], row["b"]) for row in written(spark, folder))


def letters(spark: SparkSession, folder: Path, kind: str) -> list[dict[str, Any]]:
    found = [row for row in written(spark, folder) if row["kind"] == kind]
    return sorted(found, key=lambda row: str(row["row"]))


def record(letter: dict[str, Any]) -> dict[str, Any]:
    """Return the record in a dead letter, without the columns of the source."""
    return {name: value for name, value in json.loads(letter["row"]).items() if not name.startswith("_perseid")}


def status(checkpoint: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((checkpoint / "perseid" / "status.json").read_text())
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(JOB)
    arrive(tmp_path / "in", POISONED)
    return tmp_path / "job.yaml"


def test_one_row_dated_9999_makes_no_later_row_late_also_after_a_restart(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    run(spark, path)
    arrive(tmp_path / "in", [[*LATER[0], POISON], *LATER[1:]], first=2)
    run(spark, path)
    assert pairs(spark, tmp_path / "out") == PAIRS
    assert letters(spark, tmp_path / "dead", "late") == []


def test_a_row_too_far_ahead_is_a_dead_letter_with_its_record_and_is_counted(
    spark: SparkSession, path: Path, tmp_path: Path
) -> None:
    run(spark, path)
    (letter,) = letters(spark, tmp_path / "dead", "ahead")
    assert letter["reason"] == "Its time is more than 1 hour after its arrival."
    assert letter["start"].replace(tzinfo=dt.UTC) == dt.datetime(9999, 6, 1, tzinfo=dt.UTC)
    assert record(letter) == POISON
    assert json.loads(letter["row"])["_perseid_position"].endswith("1.json")
    found = status(tmp_path / "state")
    assert (found["totals"]["ahead"], found["totals"]["late"], found["totals"]["dead_letters"]) == (1, 0, 1)
    assert found["warnings"] == []


def test_a_late_dead_letter_has_the_whole_record(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    late = {"ts": "2026-01-01T08:00:00.000Z", "type": "B", "user": "bob", "n": 9}
    arrive(tmp_path / "in", [[late]], first=2)
    run(spark, path)
    (letter,) = letters(spark, tmp_path / "dead", "late")
    assert record(letter) == late


def test_without_the_bound_the_watermark_ahead_of_the_clock_is_a_warning_and_a_gauge(
    spark: SparkSession, path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text(UNBOUNDED)
    made = assemble(read_job(path), spark)
    JobRunner(made).run()
    assert made.metrics is not None
    assert made.metrics.registry.get_sample_value("perseid_watermark_ahead_seconds") > 86_400 * 365 * 1_000
    assert made.metrics.registry.get_sample_value("perseid_late_total") == 1
    (warning,) = status(tmp_path / "state")["warnings"]
    assert warning.startswith("The watermark 9999-05-31T23:59:00+00:00 is ahead of the clock: rows with times")
    assert [one.message for one in caplog.records if "ahead of the clock" in one.message] == [warning]
    shown = call("status", path)
    assert "warning: The watermark 9999" in " ".join(shown.output.split())
    # A restart has the same watermark and warns again.
    caplog.clear()
    arrive(tmp_path / "in", LATER, first=2)
    run(spark, path)
    assert [one.message for one in caplog.records if "ahead of the clock" in one.message] == [warning]
    assert pairs(spark, tmp_path / "out") == [("ann", 1, 2)]


def test_late_rows_above_the_limit_stop_the_job_with_an_error(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    path.write_text(UNBOUNDED + "limits: {late: {share: 0.5, of: 3}}\n")
    arrive(tmp_path / "in", LATER, first=2)
    with pytest.raises(StoppedError, match=r"3 of the last 3 records that reached the patterns were late \(100\.0%\)"):
        run(spark, path)


def test_late_rows_at_the_limit_do_not_stop_the_job(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    path.write_text(UNBOUNDED + "limits: {late: {share: 0.5, of: 6}}\n")
    arrive(tmp_path / "in", [LATER[0], LATER[1]], first=2)
    run(spark, path)  # three rows on time and three late ones: exactly one half
    assert status(tmp_path / "state")["totals"]["late"] == 3


def test_command_exits_with_status_1_if_late_rows_exceed_the_limit(path: Path, spark: SparkSession) -> None:
    assert spark is not None
    path.write_text(UNBOUNDED + "limits: {late: {share: 0, of: 1}}\n")
    done = call("run", path)
    assert done.exit_code == 1
    assert "limits.late stops the job above 0.0%" in " ".join(done.output.split())


def test_history_is_bounded_and_ends(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(test_backfill.JOB + "dead_letters: {parquet: {path: dead}}\n")
    test_backfill.fill(tmp_path / "old", test_backfill.OLD)
    far = ("9999-06-01T00:00:00Z", "A", "eve", 666)
    test_backfill.fill(tmp_path / "live", [[*test_backfill.LIVE[0], far], test_backfill.LIVE[1]])
    JobRunner(assemble(read_job(tmp_path / "job.yaml"), spark, from_history=True)).run()
    test_backfill.fill(tmp_path / "live", [[far, ("2026-01-05T00:00:00Z", "Z", "zoe", 0)]], first=2)
    run(spark, tmp_path / "job.yaml")
    assert test_backfill.found(spark, tmp_path) == sorted(test_backfill.EXPECTED)
    ahead = letters(spark, tmp_path / "dead", "ahead")
    assert [record(one) for one in ahead] == [POISON | {"ts": "9999-06-01T00:00:00.000Z"}] * 2
    assert letters(spark, tmp_path / "dead", "late") == []


def test_replay_leaves_out_and_counts_records_too_far_ahead(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    path.write_text(
        JOB.replace(
            "match A a -> B b within 1 hour partition by user return a.n as a, b.n as b", "match A a return a.n as a"
        )
    )
    done = replay(read_job(path), spark, str(tmp_path / "answers"))
    assert (done.records, done.bad, done.ahead, done.matches) == (4, 0, 1, {"pairs": 2})
    assert sorted(row["a"] for row in done.rows.collect()) == [1, 3]
    assert done.until == dt.datetime(2026, 1, 1, 10, 2, tzinfo=dt.UTC)


def test_explain_of_a_job_has_the_bound(path: Path) -> None:
    said = " ".join(call("explain", path).output.split())
    assert "max_ahead: rows with a time more than 1 hour after their arrival are rejected and counted as ahead" in said
    path.write_text(UNBOUNDED)
    assert "max_ahead: unbounded: a row with any time advances the watermark" in " ".join(
        call("explain", path).output.split()
    )


@pytest.mark.parametrize("given", ["0 seconds", "20000 days", "5", "soon", "null", "[1 hour]"])
def test_invalid_bound_is_an_error_of_the_file(path: Path, given: str) -> None:
    path.write_text(JOB.replace("lateness: 1 minute", f"lateness: 1 minute\n  max_ahead: {given}"))
    with pytest.raises(JobFileError, match=r"stream\.max_ahead: .*such as 1 hour, or none"):
        read_job(path)


def test_a_share_of_late_rows_is_below_1(path: Path) -> None:
    path.write_text(JOB + "limits: {late: {share: 1, of: 10}}\n")
    with pytest.raises(JobFileError, match=r"limits\.late\.share: expected a number below 1"):
        read_job(path)
