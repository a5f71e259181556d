"""Matches are counted while they are written; rejected rows are only computed if the job has a dead-letter sink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from perseid.jobs.assembly import assemble
from perseid.jobs.match_counter import MatchCounter
from perseid.jobs.reading import read_job
from perseid.jobs.runner import JobRunner

pytestmark = pytest.mark.timeout(240)


def test_matches_are_counted_for_any_list_of_pattern_names(spark: SparkSession) -> None:
    rows = [("p", "match"), ("p", "match"), ("p", "timed out"), ("q", "match"), (None, "late"), (None, "bad")]
    frame = spark.createDataFrame(rows, "pattern string, kind string")
    right = {("p", "match"): 2, ("p", "timed out"): 1, ("q", "match"): 1, ("None", "late"): 1, ("None", "bad"): 1}
    for named in ([], ["p", "q"], ["p"], [f"p{i}" for i in range(40)]):
        count = MatchCounter(named)
        assert count(frame) == count(frame) == right


def test_dead_letters_can_be_enabled_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    source, dead = tmp_path / "in", tmp_path / "dead"
    source.mkdir()
    job: dict[str, Any] = {
        "job": "later",
        "stream": {
            "source": {
                "files": {"path": str(source), "format": "json", "schema": "ts timestamp, type string, n bigint"}
            },
            "lateness": "1 second",
            "shards": 2,
        },
        "patterns": {"text": "pattern pairs match A a -> B b within 1 hour return a.n as a, b.n as b"},
        "sinks": [{"parquet": {"path": str(tmp_path / "out")}}],
        "trigger": "available_now",
        "checkpoint": str(tmp_path / "checkpoint"),
    }

    def run(number: int, *lines: str) -> Any:
        (source / f"{number}.json").write_text("\n".join(lines))
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
        made = assemble(read_job(tmp_path / "job.yaml"), spark)
        assert ("row" in made.build_query(made.rules.read()).frame.columns) == ("dead_letters" in job)
        JobRunner(assemble(read_job(tmp_path / "job.yaml"), spark)).run()
        return made

    def event(second: int, kind: str, n: int) -> str:
        return json.dumps({"ts": f"2026-01-01T00:00:{second:02}Z", "type": kind, "n": n})

    run(1, event(1, "A", 1), "no JSON")
    job["dead_letters"] = {"parquet": {"path": str(dead)}}
    run(2, event(2, "B", 2), "nor this")
    run(3, event(30, "Z", 3))
    assert [tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).select("a", "b").collect()] == [(1, 2)]
    letters = spark.read.parquet(str(dead)).select("kind", "row").collect()
    assert [(row["kind"], "nor this" in row["row"]) for row in letters] == [("bad", True)]
