"""A Delta table beside a changelog that goes on: after every batch it holds what stands."""

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
class Sink:
    """Folds each batch into a table, and writes it down beside it."""

    into: Fold
    told: Path
    crash: Path
    """A file: while it is there, the next batch dies after it was folded."""

    def __call__(self, batch: DataFrame, number: int) -> None:
        batch.persist()
        batch.write.mode("overwrite").parquet(str(self.told / f"batch={number}"))
        self.into(batch, number)
        batch.unpersist()
        if self.crash.exists():
            self.crash.unlink()
            raise RuntimeError("the power went out")


@dataclass(frozen=True)
class Folding:
    """A stream of changes whose sink is a table."""

    streams: Streams
    sink: Sink
    table: str

    def run(self, *batches: Any, sink: Fold | None = None) -> StreamingQuery:
        """Let files come, and have them searched from where the checkpoint is."""
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
        """All changes so far, with the number of their batch."""
        return self.streams.spark.read.parquet(str(self.sink.told))

    def newest(self) -> int:
        """The last batch that changed anything."""
        return max(row.batch for row in self.written().collect())

    def stands(self) -> list[dict[str, Any]]:
        """What is in the table, seen to be what stands of all changes so far."""
        there = ordered(self.streams.spark.table(self.table))
        assert there == ordered(ps.disorder.current_matches(self.written().drop("batch")))
        return there


@pytest.fixture
def folding(spark: SparkSession, tmp_path: Path) -> Folding:
    table = f"delta.`{tmp_path / 'table'}`"
    sink = Sink(ps.disorder.merge_into(table, using="delta"), tmp_path / "told", tmp_path / "crash")
    return Folding(Streams(spark, tmp_path), sink, table)


def ordered(rows: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: (row["match_id"], row["kind"]))


def test_the_table_holds_what_stands_after_every_batch(folding: Folding) -> None:
    batches = batches_of(random.Random(3), 15)
    for batch in batches:
        folding.run(batch)  # from the checkpoint, each time
        folding.stands()
    assert len(folding.stands()) > 10
    folding.run([CLOSING], [{**batches[0][0], "n": -1}])  # what comes too late is no change
    folding.stands()
    told = [row.op for row in folding.written().collect()]
    assert set(told) == {"+", "-", None}
    assert told.count("-") > 3


def test_a_batch_that_comes_again_changes_nothing(folding: Folding) -> None:
    *before, last = batches_of(random.Random(3), 15)[:3]
    folding.run(*before)
    stood, newest = folding.stands(), folding.newest()
    batch = folding.written().where(f"batch = {newest}").drop("batch")
    for _ in range(2):
        folding.sink.into(batch, newest)
        assert folding.stands() == stood
    folding.sink.crash.touch()
    with pytest.raises(Exception, match="the power went out"):
        folding.run(last)
    stood, newest = folding.stands(), folding.newest()
    again = folding.run()
    assert again.recentProgress[0]["batchId"] == newest
    assert folding.stands() == stood


def test_a_batch_is_searched_once(folding: Folding) -> None:
    batches = batches_of(random.Random(3), 15)[:2]
    counted = ps.progress(folding.run(*batches, sink=ps.disorder.merge_into(folding.table, using="delta")))
    assert (counted.read, counted.events) == (28, 28)
    there = folding.streams.spark.table(folding.table)
    assert counted.matches + counted.timed_out - counted.retracted == there.count()


def test_a_change_counts_where_its_revision_is_above(spark: SparkSession) -> None:
    changelog(spark).selectExpr("*", "'' as note").writeTo("changing").using("delta").create()
    into = ps.disorder.merge_into("changing")

    def stands(*changes: tuple[str, str, int, int]) -> dict[str, tuple[int, int]]:
        into(changelog(spark, *(("p", "match", *change) for change in changes)), 0)
        return {row.match_id: (row.revision, row["how.much"]) for row in spark.table("changing").collect()}

    assert stands(("a", "+", 2, 10), ("b", "+", 2, 20), ("c", "-", 1, 30)) == {"a": (2, 10), "b": (2, 20)}
    assert stands(("a", "+", 4, 11), ("b", "-", 2, 20), ("b", "-", 1, 20)) == {"a": (4, 11), "b": (2, 20)}
    assert stands(("a", "-", 3, 10), ("a", "+", 4, 12), ("b", "-", 3, 20)) == {"a": (4, 11)}
    assert stands(("a", "-", 5, 11), ("a", "+", 6, 13), ("b", "+", 4, 21)) == {"a": (6, 13), "b": (4, 21)}
    assert stands(("a", "+", 8, 1), ("a", "-", 9, 1), ("a", "-", 7, 1), ("b", "+", 6, 2)) == {"b": (6, 2)}


def test_the_guide(spark: SparkSession) -> None:
    run_guide(spark, "out-of-order", "spark|delta")
