"""Progress of a streaming query, and the state in its checkpoint."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import perseid as ps
from perseid.cli.app import app
from perseid.errors import EventDataError, StateError
from perseid.spark.progress import Progress
from tests.sessions import CONNECT

TEXT = "pattern pair match A a -> B b within 1 hour partition by user\n\npattern alone match C c partition by user"


def run_query(spark: SparkSession, folder: Path, batches: list[list[tuple[int | None, str, str]]]) -> Any:
    """Run a query over so many files and return it."""
    (folder / "in").mkdir()
    for number, rows in enumerate(batches, 1):
        path = folder / "in" / f"{number}.json"
        named = [{"ts": _moment(at), "type": kind, "user": user} for at, kind, user in rows]
        path.write_text("\n".join(map(json.dumps, named)))
        os.utime(path, (number, number))
    reader = spark.readStream.schema("ts timestamp, type string, user string").option("maxFilesPerTrigger", 1)
    stream = reader.json(str(folder / "in")).withWatermark("ts", "1 second")
    matches = ps.patterns(TEXT).match(ps.events(stream))
    writer = matches.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def _moment(at: int | None) -> str | None:
    return None if at is None else (dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=at)).isoformat()


def test_progress_and_inspection(spark: SparkSession, tmp_path: Path) -> None:
    batches = [
        [(0, "A", "ann"), (1, "X", "ann"), (None, "A", "bob")],
        [(100, "A", "bob"), (101, "A", "bob"), (102, "C", "ann")],
        [(200, "B", "ann"), (3, "A", "eve")],
    ]
    query = run_query(spark, tmp_path, batches)
    seen = ps.progress(query)
    assert (seen.read, seen.filtered, seen.events, seen.late, seen.bad) == (8, 1, 5, 1, 1)
    assert seen.read == seen.filtered + seen.events + seen.late + seen.bad
    assert (seen.matches, seen.watermark) == (1, "2026-01-01T00:03:19.000Z")
    assert (seen.live_keys, seen.retained_events) == (2, 4)
    assert seen.state_bytes == sum(one.bytes for one in ps.inspect_state(spark, str(tmp_path / "checkpoint")).reports)
    assert ps.progress(query, "alone") == seen
    with pytest.raises(EventDataError, match="The query has no metrics of a pattern 'nobody'"):
        ps.progress(query, "nobody")
    found = ps.inspect_state(spark, str(tmp_path / "checkpoint"))
    assert found.busiest == [("user=ann", 2), ("user=bob", 2)]
    said = f"{found}\n"
    assert "of 16 shards have state: 4 events of 2 keys, " in said
    assert "Searched up to 2026-01-01 00:03:19 UTC." in said
    assert "1 event buffered until the watermark passes; the oldest in state is from 2026-01-01 00:00:00 UTC." in said
    assert "  alone: 0 open partial matches\n  pair: 3 open partial matches\n" in said
    if not CONNECT:  # the command has its own session, and a process has only one kind of session
        invoked = CliRunner().invoke(app, ["inspect", str(tmp_path / "checkpoint")])
        assert (invoked.exit_code, invoked.stdout) == (0, said), invoked.output
    for file in (tmp_path / "checkpoint" / "state").rglob("*.delta"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(StateError, match="CANNOT_LOAD_STATE_STORE") as raised:
        ps.inspect_state(spark, str(tmp_path / "checkpoint"))
    assert "Restore the folder from a copy" in str(raised.value.hint)


def test_query_without_batches_or_state(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be read as the checkpoint"):
        ps.inspect_state(spark, str(tmp_path))
    if not CONNECT:
        said = CliRunner().invoke(app, ["inspect", str(tmp_path)])
        assert said.exit_code == 1
        assert "cannot be read as the checkpoint of a stream" in said.stderr
    assert CliRunner().invoke(app, ["inspect", "x", "--master", "a", "--remote", "b"]).exit_code == 2
    rate = spark.readStream.format("rate").load().writeStream.format("noop")
    query = rate.option("checkpointLocation", str(tmp_path / "rate")).trigger(availableNow=True).start()
    query.awaitTermination()
    with pytest.raises(EventDataError, match="no Perseid metrics yet"):
        ps.progress(query)


def test_why_there_is_no_output() -> None:
    nothing = dict.fromkeys(Progress.__dataclass_fields__, 0)
    said = {
        "no watermark yet": {"watermark": None},
        "no row was accepted": {"watermark": "2026"},
        "no match is final up to the watermark": {"watermark": "2026", "events": 3},
    }
    for text, numbers in said.items():
        assert text in str(Progress(**{**nothing, **numbers}))
    assert "no output" not in str(Progress(**{**nothing, "watermark": "2026", "matches": 1}))
