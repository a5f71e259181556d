"""Facts about the watermark: how it advances, how it is passed on, and which rows are late."""

from __future__ import annotations

import time

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.spark_facts.streams import Streams, far_future, operator, state_operator, watermarks

pytestmark = pytest.mark.deep

# The third batch has a row of label 1 that is older than the watermark, which is then 190.
LATE = ([(1, 100)], [(2, 200)], [(1, 50), (2, 210)])
NONE_DROPPED = [
    ("row", 1, 50, 190_000),
    ("row", 1, 100, 0),
    ("row", 2, 200, 90_000),
    ("row", 2, 210, 190_000),
    ("timeout", 1, 0, 200_000),
]


def test_filter_on_other_columns_is_pushed_below_the_watermark(streams: Streams) -> None:
    """Filtered events do not advance the watermark. If they did, Perseid could use simple filters."""
    frame = streams.read([(1, 100)], [(2, 500)], [(1, 101)]).withWatermark("ts", "10 seconds").where("label = 1")
    assert watermarks(streams.run(frame)) == [0, 90, 90]


def test_filter_that_names_the_time_column_is_not_pushed_below_the_watermark(streams: Streams) -> None:
    """If Spark pushed it down too, a stream of irrelevant events would stop the watermark, and with it all timeouts."""
    frame = streams.read([(1, 100)], [(2, 500)], [(1, 101)]).withWatermark("ts", "10 seconds")
    query = streams.run(frame.where("label = 1 OR ts IS NULL"))
    assert watermarks(query) == [0, 90, 490]
    assert [row[0] for row in streams.rows()] == [1, 1]


def test_late_rows_are_dropped_if_the_input_has_the_event_time_column(streams: Streams) -> None:
    """Perseid therefore uses a constant time column, which would not be needed if late rows reached the operator."""
    frame = streams.read(*LATE).withWatermark("ts", "10 seconds")
    query = streams.run(operator(frame))
    assert [row[1:3] for row in streams.rows() if row[0] == "row"] == [(1, 100), (2, 200), (2, 210)]
    assert sum(batch["numRowsDroppedByWatermark"] for batch in state_operator(query)) == 1


def test_late_rows_reach_the_operator_if_the_only_time_column_is_a_constant_in_the_far_future(streams: Streams) -> None:
    """Without this, Spark would drop late events before Perseid can count or emit them. The watermark still advances."""
    frame = streams.read(*LATE).withWatermark("ts", "10 seconds").select("label", "at", far_future())
    query = streams.run(operator(frame))
    assert streams.rows() == NONE_DROPPED
    assert watermarks(query) == [0, 90, 190, 200]
    assert sum(batch["numRowsDroppedByWatermark"] for batch in state_operator(query)) == 0


def test_map_in_arrow_loses_the_watermark(streams: Streams) -> None:
    """Perseid therefore restores it: Spark rejects event-time timeouts if no input column has a watermark."""
    frame = streams.read(*LATE).withWatermark("ts", "10 seconds")
    mapped = frame.mapInArrow(lambda batches: batches, "label INT, at BIGINT, ts TIMESTAMP")
    assert mapped.schema["ts"].metadata == {}
    with pytest.raises(AnalysisException, match="Event-time timeout not supported without watermark") as raised:
        streams.run(operator(mapped))
    assert raised.value.getCondition() == "_LEGACY_ERROR_TEMP_3102"


def test_constant_with_the_delay_as_metadata_restores_the_watermark_after_map_in_arrow(streams: Streams) -> None:
    """Without this, no Python code could run before the operator, which must have the true watermark."""
    frame = streams.read(*LATE).withWatermark("ts", "10 seconds")
    mapped = frame.mapInArrow(lambda batches: batches, "label INT, at BIGINT, ts TIMESTAMP")
    streams.run(operator(mapped.select("label", "at", far_future(delay=10_000))))
    assert streams.rows() == NONE_DROPPED


def test_timestamp_without_time_zone_cannot_have_a_watermark(streams: Streams) -> None:
    """The error message of Perseid recommends a cast. If Spark accepts TIMESTAMP_NTZ, Perseid should accept it too."""
    frame = streams.read([(1, 100)]).withColumn("local", f.col("ts").cast("timestamp_ntz"))
    with pytest.raises(AnalysisException) as raised:
        streams.run(frame.withWatermark("local", "10 seconds"))
    assert raised.value.getCondition() == "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE"


def test_watermark_delay_is_in_the_schema(streams: Streams) -> None:
    """Perseid reads the delay of a stream from it, without the JVM. Otherwise users would have to declare it twice."""
    frame = streams.read([(1, 100)]).withWatermark("ts", "1 hour 10 seconds")
    assert frame.schema["ts"].metadata["spark.watermarkDelayMs"] == 3_610_000
    assert frame.select(f.col("ts").alias("renamed")).schema["renamed"].metadata == frame.schema["ts"].metadata
    assert "spark.watermarkDelayMs" not in frame.schema["label"].metadata


def test_watermark_of_two_inputs_is_the_minimum(streams: Streams) -> None:
    """Pattern sets over several sources depend on this: the slower source delays final results."""
    first = streams.read([(1, 100)], [(1, 1000)], name="first").withWatermark("ts", "10 seconds")
    second = streams.read([(2, 500)], [(2, 600)], name="second").withWatermark("ts", "20 seconds")
    query = streams.run(operator(first.union(second).select("label", "at", far_future())))
    assert watermarks(query) == [0, 90, 580]


def test_rows_of_the_rate_source_do_not_hold_back_the_watermark(streams: Streams, spark: SparkSession) -> None:
    """Clock rows for idle sources depend on this: each tick starts a batch, and only real events advance the watermark."""
    events = streams.read([(1, 100)], [(1, 200)]).withWatermark("ts", "10 seconds").select("label", "at")
    rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    ticks = rate.selectExpr("CAST(-1 - value AS INT) AS label", "0L AS at")
    frame = operator(events.union(ticks).select("label", "at", far_future()))
    query = streams.start(frame, now=False)
    deadline = time.monotonic() + 60
    while not any(label < 0 and watermark == 190_000 for _, label, _, watermark in streams.rows()):
        assert time.monotonic() < deadline, f"no tick saw the watermark of the events: {streams.rows()}"
        assert query.exception() is None
        time.sleep(0.1)
    query.stop()
    assert max(watermarks(query)) == 190


def test_rate_source_makes_available_now_one_batch_without_a_final_batch(streams: Streams, spark: SparkSession) -> None:
    """Clock rows therefore cannot be used with availableNow: all input is one batch, and no timeout fires after it."""
    events = streams.read([(1, 100)], [(2, 200)]).withWatermark("ts", "10 seconds").select("label", "at")
    ticks = spark.readStream.format("rate").load().selectExpr("-1 AS label", "0L AS at")
    query = streams.run(operator(events.union(ticks).select("label", "at", far_future())))
    assert watermarks(query) == [0]
    assert [row[:3] for row in streams.rows()] == [("row", 1, 100), ("row", 2, 200)]
