"""Frames of live models on Spark: batch and stream have the local matches, with the same ids."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession

import perseid as ps
from examples import gesture_frames as g
from perseid.errors import EventDataError

BODY = ps.graph.metamodel((Path(__file__).parents[2] / "examples" / "gestures.perseid").read_text(encoding="utf-8"))
FORWARD = ps.patterns(BODY)["forward"]
TRACES = g.traces(3, 12 * g.CYCLE, seed=5)


def frames(data: object, shards: int = 16) -> ps.graph.Frames:
    return ps.graph.frames(
        data, BODY, each=g.body_parts(), columns=g.body_columns(), key="person", options=ps.StreamOptions(shards=shards)
    )


def match_locally() -> list[str]:
    found = sorted(match["match_id"] for match in FORWARD.match(frames(TRACES)).to_dicts())
    assert len(found) == g.expected(3, 12 * g.CYCLE, seed=5)[1]
    return found


def ids(found: DataFrame) -> list[str]:
    return sorted(row.match_id for row in found.select("match_id").collect())


def test_batch_equals_local_matches(spark: SparkSession) -> None:
    counted = Observation()
    assert ids(FORWARD.match(frames(spark.createDataFrame(TRACES)), observation=counted)) == match_locally()
    assert counted.get["events"] == TRACES.num_rows


@pytest.mark.parametrize("shards", [3])
def test_stream_equals_local_matches(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    begin = TRACES["ts"][0].as_py()
    rows = spark.createDataFrame(TRACES)
    # The last rows only advance the watermark.
    last = rows.limit(1)
    pieces = [rows.where(rows.ts < begin + dt.timedelta(seconds=2))]
    pieces += [rows.where((rows.ts >= begin + dt.timedelta(seconds=2)) & (rows.ts < begin + dt.timedelta(seconds=2.6)))]
    pieces += [rows.where(rows.ts >= begin + dt.timedelta(seconds=2.6))]
    pieces += [last.withColumn("ts", last.ts + dt.timedelta(days=days)) for days in (400, 401)]
    for piece in pieces:
        piece.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    found = FORWARD.match(frames(stream.withWatermark("ts", "1 second"), shards))
    name = f"frames_{shards}"
    query = found.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path / "state"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert ids(spark.table(name)) == match_locally()


def test_missing_columns_are_named(spark: SparkSession) -> None:
    data = spark.createDataFrame(TRACES).drop("right_hand_y")
    with pytest.raises(EventDataError, match="right_hand_y"):
        FORWARD.match(frames(data))


def test_explain_shows_evaluation_of_frames(spark: SparkSession) -> None:
    data = spark.createDataFrame(TRACES.slice(0, 10))
    assert FORWARD.explain(frames(data)) == FORWARD.explain(frames(TRACES))
    texts = data.withColumn("right_hand_y", data.right_hand_y.cast("string"))
    assert "one by one: column right_hand_y" in FORWARD.explain(frames(texts))
