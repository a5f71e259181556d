"""A Delta table that is merged from a changelog: after every batch it has the current matches."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import perseid as ps
from tests.spark.streaming import WAIT, Streams
from tests.spark.test_spark_guide import run_guide
from tests.spark.test_stream_changes import changelog
from tests.spark.test_stream_disorder import CLOSING, PATTERNS, SCHEMA, batches_of

pytestmark = [pytest.mark.delta, pytest.mark.timeout(600)]

Fold = Callable[[Any, int], None]


@dataclass(frozen=True)
class MergeSink:
    """Merges each batch into a table, and writes the batch to a folder."""

    into: Fold
    changes: Path
    crash: Path
    """Marker file: while it exists, the next batch fails after its merge."""

    def __call__(self, batch: DataFrame, number: int) -> None:
        batch.persist()
        batch.write.mode("overwrite").parquet(str(self.changes / f"batch={number}"))
        self.into(batch, number)
        batch.unpersist()
        if self.crash.exists():
            self.crash.unlink()
            raise RuntimeError("the power went out")


@dataclass(frozen=True)
class MergingStream:
    """A stream of changes with a table as sink."""

    streams: Streams
    sink: MergeSink
    table: str

    def run(self, *batches: Any, sink: Fold | None = None) -> StreamingQuery:
        """Add files and run the query over them, from its checkpoint."""
        self.streams.add("input", SCHEMA, *batches)
        frame = self.streams.read("input", SCHEMA, "15 seconds")
        changes = PATTERNS.match(
            ps.events(frame, id="n", disorder="aggressive", options=ps.StreamOptions(shards=2)), rejected=True
        )
        writer = changes.writeStream.foreachBatch(sink or self.sink).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.streams.folder / "checkpoint")).start()
        try:
            assert query.awaitTermination(WAIT)
        finally:
            query.stop()
        return query

    def written(self) -> DataFrame:
        """Return all changes so far, with their batch number."""
        return self.streams.spark.read.parquet(str(self.sink.changes))

    def newest(self) -> int:
        """Return the number of the last batch with a change."""
        return max(row.batch for row in self.written().collect())

    def check_table(self) -> list[dict[str, Any]]:
        """Return the rows of the table, and assert that they are the current matches of all changes so far."""
        there = ordered(self.streams.spark.table(self.table))
        assert there == ordered(ps.disorder.current_matches(self.written().drop("batch")))
        return there


@pytest.fixture
def merging(spark: SparkSession, tmp_path: Path) -> MergingStream:
    table = f"delta.`{tmp_path / 'table'}`"
    sink = MergeSink(ps.disorder.merge_into(table, using="delta"), tmp_path / "told", tmp_path / "crash")
    return MergingStream(Streams(spark, tmp_path), sink, table)


def ordered(rows: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: (row["match_id"], row["kind"]))


def test_table_has_the_current_matches_after_every_batch(merging: MergingStream) -> None:
    batches = batches_of(random.Random(3), 15)
    for batch in batches:
        merging.run(batch)  # each time from the checkpoint
        merging.check_table()
    assert len(merging.check_table()) > 10
    merging.run([CLOSING], [{**batches[0][0], "n": -1}])  # a late row is no change
    merging.check_table()
    changes = [row.op for row in merging.written().collect()]
    assert set(changes) == {"+", "-", None}
    assert changes.count("-") > 3


def test_retried_batch_changes_nothing(merging: MergingStream) -> None:
    *before, last = batches_of(random.Random(3), 15)[:3]
    merging.run(*before)
    stood, newest = merging.check_table(), merging.newest()
    batch = merging.written().where(f"batch = {newest}").drop("batch")
    for _ in range(2):
        merging.sink.into(batch, newest)
        assert merging.check_table() == stood
    merging.sink.crash.touch()
    with pytest.raises(Exception, match="the power went out"):
        merging.run(last)
    stood, newest = merging.check_table(), merging.newest()
    again = merging.run()
    assert again.recentProgress[0]["batchId"] == newest
    assert merging.check_table() == stood


def test_batch_runs_once(merging: MergingStream) -> None:
    batches = batches_of(random.Random(3), 15)[:2]
    counted = ps.progress(merging.run(*batches, sink=ps.disorder.merge_into(merging.table, using="delta")))
    assert (counted.read, counted.events) == (28, 28)
    there = merging.streams.spark.table(merging.table)
    assert counted.matches + counted.timed_out - counted.retracted == there.count()


def test_only_a_higher_revision_changes_a_row(spark: SparkSession) -> None:
    changelog(spark).selectExpr("*", "'' as note").writeTo("changing").using("delta").create()
    into = ps.disorder.merge_into("changing")

    def merge_changes(*changes: tuple[str, str, int, int]) -> dict[str, tuple[int, int]]:
        into(changelog(spark, *(("p", "match", *change) for change in changes)), 0)
        return {row.match_id: (row.revision, row["how.much"]) for row in spark.table("changing").collect()}

    assert merge_changes(("a", "+", 2, 10), ("b", "+", 2, 20), ("c", "-", 1, 30)) == {"a": (2, 10), "b": (2, 20)}
    assert merge_changes(("a", "+", 4, 11), ("b", "-", 2, 20), ("b", "-", 1, 20)) == {"a": (4, 11), "b": (2, 20)}
    assert merge_changes(("a", "-", 3, 10), ("a", "+", 4, 12), ("b", "-", 3, 20)) == {"a": (4, 11)}
    assert merge_changes(("a", "-", 5, 11), ("a", "+", 6, 13), ("b", "+", 4, 21)) == {"a": (6, 13), "b": (4, 21)}
    assert merge_changes(("a", "+", 8, 1), ("a", "-", 9, 1), ("a", "-", 7, 1), ("b", "+", 6, 2)) == {"b": (6, 2)}


def test_guide_shows_its_output(spark: SparkSession) -> None:
    run_guide(spark, "out-of-order", "spark|delta")
