"""``match`` over DataFrames: its options, its deprecated name ``detect``, and columns in place of names."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import perseid as ps

PAIR = ps.pattern("pattern pair match A a -> B b within 1 minute partition by k return a.v as x, b.v as y")
ROWS = pa.Table.from_pylist(
    [
        {"ts": datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC), "type": kind, "k": k, "v": second}
        for second, kind, k in ((0, "A", 1), (1, "A", 2), (2, "B", 1), (3, "B", 2), (4, "B", 3))
    ]
)


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS)


def ids(found: DataFrame) -> set[str]:
    return {row.match_id for row in found.collect()}


def test_match_over_a_dataframe_returns_a_dataframe(table: DataFrame) -> None:
    rows = {kind: ROWS.filter(pc.equal(ROWS["type"], kind)) for kind in "AB"}
    tables = {kind: table.where(f.col("type") == kind) for kind in "AB"}
    for stream, local in ((table, ROWS), (ps.events(table), ps.events(ROWS)), (tables, rows)):
        found = PAIR.match(stream)
        assert isinstance(found, type(table))
        assert not found.isStreaming
        assert ids(found) == {one.match_id for one in PAIR.match(local)}
        assert found.count() == 2


def test_detect_warns_and_matches(table: DataFrame) -> None:
    with pytest.warns(ps.errors.DeprecatedNameWarning, match="detect is deprecated .* Use match"):
        found = PAIR.detect(table)
    assert ids(found) == ids(PAIR.match(table))


def test_local_rows_do_not_mix_with_a_dataframe(table: DataFrame) -> None:
    for stream in ({"A": table, "B": ROWS}, {"A": ROWS, "B": table}):
        for run in (PAIR.match, PAIR.explain, PAIR.why_not):
            with pytest.raises(ps.errors.EventDataError, match="The inputs mix Spark DataFrames and local rows"):
                run(stream)


def test_columns_are_names(table: DataFrame) -> None:
    named = ids(PAIR.match(ps.events(table, time="ts", key="k")))
    assert ids(PAIR.match(ps.events(table, time=f.col("ts"), type=table.type, key=[table["k"]]))) == named
    for computed in (f.col("ts") + f.expr("interval 1 day"), f.to_timestamp("ts"), table.ts.alias("at")):
        with pytest.raises(ps.errors.EventDataError, match="time= expected a column name, got the computed column"):
            ps.events(table, time=computed)
