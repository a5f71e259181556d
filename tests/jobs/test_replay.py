"""Replay of historical data with the rules of a job: the matches of a stream, without an effect on the job."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from perseid.jobs.reading import read_job
from perseid.jobs.replay import replay
from tests.jobs.test_backfill import JOB, LIVE, OLD, Row, fill
from tests.jobs.test_commands import call

pytestmark = pytest.mark.timeout(240)

LATER: list[list[Row]] = [*OLD, [("2026-01-02T02:00:00Z", "B", "cat", 6)]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(JOB)
    fill(tmp_path / "old", LATER)
    fill(tmp_path / "live", LIVE)
    with (tmp_path / "old" / "0.json").open("a") as file:
        file.write('\n{"ts": "2026-01-01T10:30:00Z", "type": "B", "user":')
    return tmp_path / "job.yaml"


def test_replay_matches_history_and_leaves_the_job_unchanged(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    done = replay(read_job(path), spark, str(tmp_path / "answers"))
    assert sorted((row["user"], row["a"], row["b"]) for row in done.rows.collect()) == [
        ("ann", 1, 2),
        ("bob", 3, 4),
        ("cat", 5, 6),
    ]
    assert (done.records, done.bad, done.matches) == (7, 1, {"pairs": 3})
    assert done.since == dt.datetime(2026, 1, 1, 10, tzinfo=dt.UTC)
    assert done.until == dt.datetime(2026, 1, 2, 2, tzinfo=dt.UTC)
    assert all(done.rows.toPandas()["version"])
    assert sorted(one.name for one in tmp_path.iterdir()) == ["answers", "job.yaml", "live", "old"]


def test_replay_of_a_time_range(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    since, until = dt.datetime(2026, 1, 1, 23, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, 2, tzinfo=dt.UTC)
    done = replay(read_job(path), spark, str(tmp_path / "answers"), since, until)
    assert [(row["user"], row["a"], row["b"]) for row in done.rows.collect()] == [("bob", 3, 4)]
    assert (done.records, done.bad) == (4, 1)  # the malformed record has no known time


def test_replay_without_history_reads_the_source(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    path.write_text(text[: text.index("  history:")] + text[text.index("  lateness:") :])
    done = replay(read_job(path), spark, str(tmp_path / "answers"))
    assert (done.records, done.bad, done.matches) == (4, 0, {"pairs": 2})


@pytest.mark.usefixtures("spark")
def test_replay_command_prints_matches(path: Path, tmp_path: Path) -> None:
    shown = call("replay", path, "--to", tmp_path / "kept")
    assert shown.exit_code == 0, shown.output
    assert "7 records from 2026-01-01 10:00:00 to 2026-01-02 02:00:00 UTC, 1 of them malformed" in shown.stderr
    assert "3 matches (pairs 3)" in shown.stderr
    assert "ann" in shown.stdout
    assert list((tmp_path / "kept").glob("*.parquet"))
    report = json.loads(call("replay", path, "--json", "--until", "2026-01-01T12:00:00").stdout)
    assert report == {
        "job": "orders",
        "records": 3,
        "bad": 1,
        "ahead": 0,
        "from": "2026-01-01T10:00:00+00:00",
        "to": "2026-01-01T11:00:00+00:00",
        "matches": {"pairs": 1},
    }


def test_errors_are_reported_before_the_query_runs(path: Path, tmp_path: Path) -> None:
    there = call("replay", path, "--to", tmp_path)
    assert there.exit_code == 2
    assert "already exists. Use a new folder." in there.stderr
    odd = call("replay", path, "--since", "yesterday")
    assert odd.exit_code == 2
    assert "--since: expected a time such as 2026-01-31T06:00:00Z, got 'yesterday'." in odd.stderr


@pytest.mark.usefixtures("spark")
def test_invalid_rule_is_reported(path: Path) -> None:
    path.write_text(path.read_text().replace("return a.n as a", "return a.m as a"))
    done = call("replay", path)
    assert done.exit_code == 1
    assert "Column 'm' not found in the DataFrame." in done.stderr
    assert "Available: ts, type, user, n. Steps: a, b." in done.stderr
