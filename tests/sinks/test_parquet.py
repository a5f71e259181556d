"""The Parquet sink writes a batch completely or not at all, also after a crash at any time."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import perseid.sinks.parquet as room
from perseid.errors import SettingsError
from perseid.sinks.failures import SinkError
from perseid.sinks.parquet import Parquet
from tests.sinks.match_changes import ADVERSARIAL_TEXTS, batch, broken, match_changes, matches


def read_batches(spark: SparkSession, folder: Path) -> list[str]:
    """Return the rows that a reader reads, with their batch number."""
    rows = spark.read.parquet(str(folder)).collect()
    return sorted(f"{row.batch}{row.match_id}" for row in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "with space"


def test_retried_batch_replaces_itself(spark: SparkSession, folder: Path) -> None:
    sink = Parquet(path=str(folder), files=1)
    sink.prepare(spark, matches(spark).schema, "job-1")
    sink.write(batch(matches(spark, "a", "b")))
    sink.write(batch(matches(spark), 1))  # nothing changed, so nothing is written
    sink.write(batch(matches(spark, "c"), 2))
    for attempt in "bc":
        sink.write(batch(matches(spark, "b", "a"), attempt=attempt))
    assert read_batches(spark, folder) == ["0a", "0b", "2c"]
    sink.write(batch(matches(spark, "a"), job="job/2 %"))
    assert {row.job for row in spark.read.parquet(str(folder)).collect()} == {"job-1", "job/2 %"}
    grown = matches(spark, "d").selectExpr("*", "7 as more")
    sink.write(batch(grown, 3))
    rows = spark.read.option("mergeSchema", "true").parquet(str(folder)).where("job = 'job-1'").collect()
    assert {row.match_id: row.more for row in rows} == {"a": None, "b": None, "c": None, "d": 7}


def test_values_survive_a_round_trip(spark: SparkSession, folder: Path) -> None:
    rows = match_changes(spark, *((str(n), "+", 0, text) for n, text in enumerate(ADVERSARIAL_TEXTS)))
    Parquet(path=f"file://{folder}").write(batch(rows))
    kept = spark.read.parquet(str(folder)).drop("job", "batch", "odd").orderBy("match_id")
    assert kept.collect() == rows.drop("odd").orderBy("match_id").collect()
    assert [row.note for row in kept.collect()] == ADVERSARIAL_TEXTS


@pytest.mark.parametrize("step", ["move:1", "move:2", "remove:2", "remove:3"])
def test_crash_causes_no_lost_and_no_duplicate_rows(
    spark: SparkSession, folder: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash at each step of replacing the output of an earlier try."""
    sink = Parquet(path=str(folder), files=1)
    sink.write(batch(matches(spark, "z"), 0))
    sink.write(batch(matches(spark, "a", "b"), 1))
    name, at = step.split(":")
    real, left = getattr(room._Folder, name), [int(at)]

    def failing(self: room._Folder, *args: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError("the power went out")
        real(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(room._Folder, name, failing)
        with pytest.raises(SinkError, match=r"Batch 1 was not written: the power went out") as caught:
            sink.write(batch(matches(spark, "a", "b"), 1, attempt="b"))
    assert caught.value.batch == 1
    assert read_batches(spark, folder) in (["0z"], ["0z", "1a", "1b"])
    sink.prepare(spark, matches(spark).schema, "job-1")
    assert read_batches(spark, folder) == ["0z", "1a", "1b"], "what was there before is back before the job runs"
    assert not (folder / "_perseid" / "job-1").exists()
    sink.write(batch(matches(spark, "a", "b"), 1, attempt="c"))
    assert read_batches(spark, folder) == ["0z", "1a", "1b"]


def test_failing_rows_leave_no_output(spark: SparkSession, folder: Path) -> None:
    sink = Parquet(path=str(folder))
    sink.write(batch(matches(spark, "z"), 0))
    with pytest.raises(SinkError, match="the power went out"):
        sink.write(batch(broken(matches(spark, "a")), 1))
    assert read_batches(spark, folder) == ["0z"]
    (folder / "_perseid" / "job-2").mkdir(parents=True)
    sink.prepare(spark, matches(spark).schema, "job-1")
    assert (folder / "_perseid" / "job-2").exists(), "another job may be writing there"
    sink.write(batch(matches(spark, "a"), 1, attempt="b"))
    assert read_batches(spark, folder) == ["0z", "1a"]


def test_file_system_without_rename_is_rejected(spark: SparkSession, folder: Path) -> None:
    for path in ("s3://bucket/a", "abfss://x@y/a", "gs://b"):
        with pytest.raises(ValueError, match="use the sink delta"):
            Parquet(path=path)
    with pytest.raises(ValueError, match="'%'"):
        Parquet(path="file:///a%20b")
    with pytest.raises(SettingsError, match=r"'Batch'.*read as columns"):
        Parquet(path=str(folder)).prepare(spark, matches(spark).selectExpr("*", "1 as Batch").schema, "j")
