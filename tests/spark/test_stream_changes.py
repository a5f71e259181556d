"""Current matches of a changelog, and the tables into which it can be merged."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import perseid as ps
from tests.spark.streaming import WAIT, Streams, at
from tests.spark.test_stream_disorder import PATTERNS, SCHEMA

CHANGE = "pattern string, kind string, match_id string, op string, revision int, `how.much` int, row string"


def changelog(spark: SparkSession, *changes: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame([change + (None,) * (7 - len(change)) for change in changes], CHANGE)


@pytest.fixture
def plain(spark: SparkSession) -> Iterator[str]:
    """Return a table without support for MERGE."""
    changelog(spark).write.mode("overwrite").saveAsTable("plain")
    yield "plain"
    spark.sql("drop table plain")


def test_last_revision_of_a_match_wins_in_any_order(spark: SparkSession) -> None:
    often = [("p", "match", "often", "-" if n % 2 else "+", n, n) for n in range(2, 41)]
    changes = [
        *often,
        ("p", "match", "back", "+", 2, 1),
        ("p", "match", "back", "-", 3, 1),
        # One id with three names.
        ("p", "match", "same", "-", 5, 1),
        ("p", "timed out", "same", "+", 2, 2),
        ("q", "match", "same", "+", 4, 3),
        (None, "late", None, None, None, None, '{"n":7}'),
        (None, "bad", None, None, None, None, '{"n":8}'),
    ]
    expected = [("p", "often", 40), ("p", "same", 2), ("q", "same", 3)]
    for seed in range(3):
        random.Random(seed).shuffle(changes)
        stands = ps.disorder.current_matches(changelog(spark, *changes).repartition(3)).collect()
        assert sorted((row.pattern, row.match_id, row["how.much"]) for row in stands) == expected


def test_unsupported_merge_is_rejected(spark: SparkSession, plain: str) -> None:
    told = changelog(spark, ("p", "match", "a", "+", 1, 5))
    with pytest.raises(ps.errors.EventDataError, match="Not a changelog of matches: column 'match_id' not found"):
        ps.disorder.merge_into(plain)(told.drop("match_id"), 0)
    with pytest.raises(
        ps.errors.EventDataError,
        match=r"Table nowhere not found: cannot fold[^$]*ps.disorder.merge_into\('nowhere', using='delta'\)",
    ):
        ps.disorder.merge_into("nowhere")(told, 0)
    with pytest.raises(
        ps.errors.EventDataError,
        match=r"Column 'more' of the changes not found[^$]*ADD COLUMNS \(`more` decimal\(5,2\)\)",
    ):
        ps.disorder.merge_into(plain)(told.selectExpr("*", "cast(1 as decimal(5, 2)) as more"), 0)
    with pytest.raises(ps.errors.UnsupportedError, match=r"Table plain does not support MERGE[^$]*such as Delta"):
        ps.disorder.merge_into(plain)(told, 0)
    told.createOrReplaceTempView("seen")
    with pytest.raises(ps.errors.UnsupportedError, match="Table seen does not support MERGE"):
        ps.disorder.merge_into("seen")(told, 0)
    spark.catalog.dropTempView("seen")


def test_rejected_rows_are_not_merged(spark: SparkSession, plain: str) -> None:
    """Without a change there is nothing to merge, and support for MERGE is not checked."""
    ps.disorder.merge_into(plain)(changelog(spark, (None, "late", None, None, None, None, '{"n":7}')), 0)
    assert spark.table(plain).count() == 0


def test_format_without_merge_is_rejected_before_the_query_runs(spark: SparkSession) -> None:
    with pytest.raises(ps.errors.UnsupportedError, match="'Parquet' do not support MERGE"):
        ps.disorder.merge_into("made", using="Parquet")
    assert not spark.catalog.tableExists("made")


def test_query_reports_why_it_cannot_be_merged(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    rows = [
        {"ts": at(1), "type": "Order", "user": "ann", "v": 1, "n": 1},
        {"ts": at(3), "type": "Payment", "user": "ann", "v": 1, "n": 2},
    ]
    stream = streams.stream(SCHEMA, rows)
    changes = PATTERNS["paid"].match(
        ps.events(stream, id="n", disorder="aggressive", options=ps.StreamOptions(shards=1))
    )
    with pytest.raises(ps.errors.UnsupportedError, match=r"foreachBatch\(ps.disorder.merge_into\(table\)\)"):
        ps.disorder.current_matches(changes)
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in changes.schema)
    spark.sql(f"create table unmergeable ({columns}) using parquet")
    folded = changes.writeStream.foreachBatch(ps.disorder.merge_into("unmergeable"))
    query = folded.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="Table unmergeable does not support MERGE"):
        query.awaitTermination(WAIT)
    spark.sql("drop table unmergeable")
