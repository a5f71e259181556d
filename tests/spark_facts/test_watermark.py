"""What moves the watermark, who may see it, and which rows count as late."""

from __future__ import annotations

import time

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.spark_facts.streams import Streams, far_future, operator, state_operator, watermarks

pytestmark = pytest.mark.deep

# The third batch brings label 1 a row from the time before the watermark, which is 190 by then.
LATE = ([(1, 100)], [(2, 200)], [(1, 50), (2, 210)])
NONE_DROPPED = [
    ("row", 1, 50, 190_000),
    ("row", 1, 100, 0),
    ("row", 2, 200, 90_000),
    ("row", 2, 210, 190_000),
    ("timeout", 1, 0, 200_000),
]


def test_a_filter_on_other_columns_is_pushed_below_the_watermark(streams: Streams) -> None:
    """Dropped events do not move time. If they did, our filters could be written plainly."""
    frame = streams.read([(1, 100)], [(2, 500)], [(1, 101)]).withWatermark("ts", "10 seconds").where("label = 1")
    assert watermarks(streams.run(frame)) == [0, 90, 90]


def test_a_filter_that_names_the_time_column_lets_unwanted_events_move_the_watermark(streams: Streams) -> None:
    """If this were pushed down too, a stream of events that no step wants would stop time: no timeout, no absence."""
    frame = streams.read([(1, 100)], [(2, 500)], [(1, 101)]).withWatermark("ts", "10 seconds")
    query = streams.run(frame.where("label = 1 OR ts IS NULL"))
    assert watermarks(query) == [0, 90, 490]
    assert [row[0] for row in streams.rows()] == [1, 1]


def test_late_rows_are_dropped_when_the_operator_is_given_the_real_time_column(streams: Streams) -> None:
    """The reason for the constant column. If late rows came through, it would not be needed."""
    frame = streams.read(*LATE).withWatermark("ts", "10 seconds")
    query = streams.run(operator(frame))
    assert [row[1:3] for row in streams.rows() if row[0] == "row"] == [(1, 100), (2, 200), (2, 210)]
    assert sum(batch["numRowsDroppedByWatermark"] for batch in state_operator(query)) == 1


def test_late_rows_arrive_when_the_only_time_column_is_a_constant_far_future(streams: Streams) -> None:
    """Without this, late events vanish before we can count them or hand them on. Time must go on all the same."""
    frame = streams.read(*LATE).withWatermark("ts", "10 seconds").select("label", "at", far_future())
    query = streams.run(operator(frame))
    assert streams.rows() == NONE_DROPPED
    assert watermarks(query) == [0, 90, 190, 200]
    assert sum(batch["numRowsDroppedByWatermark"] for batch in state_operator(query)) == 0


def test_map_in_arrow_loses_the_watermark(streams: Streams) -> None:
    """The reason to restore it. Event-time timeouts are refused where no column of the input carries a watermark."""
    frame = streams.read(*LATE).withWatermark("ts", "10 seconds")
    mapped = frame.mapInArrow(lambda batches: batches, "label INT, at BIGINT, ts TIMESTAMP")
    assert mapped.schema["ts"].metadata == {}
    with pytest.raises(AnalysisException, match="Event-time timeout not supported without watermark") as refused:
        streams.run(operator(mapped))
    assert refused.value.getCondition() == "_LEGACY_ERROR_TEMP_3102"


def test_a_constant_with_the_delay_as_metadata_restores_the_watermark_after_map_in_arrow(streams: Streams) -> None:
    """Without this, nothing written in Python may stand before the operator. The state must see the true watermark."""
    frame = streams.read(*LATE).withWatermark("ts", "10 seconds")
    mapped = frame.mapInArrow(lambda batches: batches, "label INT, at BIGINT, ts TIMESTAMP")
    streams.run(operator(mapped.select("label", "at", far_future(delay=10_000))))
    assert streams.rows() == NONE_DROPPED


def test_a_timestamp_without_time_zone_cannot_carry_a_watermark(streams: Streams) -> None:
    """Our message tells users to cast. If Spark took TIMESTAMP_NTZ one day, we should too."""
    frame = streams.read([(1, 100)]).withColumn("local", f.col("ts").cast("timestamp_ntz"))
    with pytest.raises(AnalysisException) as refused:
        streams.run(frame.withWatermark("local", "10 seconds"))
    assert refused.value.getCondition() == "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE"


def test_the_delay_of_the_watermark_stands_in_the_schema(streams: Streams) -> None:
    """How we know a stream's delay without the JVM. Without it, users would have to say it twice."""
    frame = streams.read([(1, 100)]).withWatermark("ts", "1 hour 10 seconds")
    assert frame.schema["ts"].metadata["spark.watermarkDelayMs"] == 3_610_000
    assert frame.select(f.col("ts").alias("renamed")).schema["renamed"].metadata == frame.schema["ts"].metadata
    assert "spark.watermarkDelayMs" not in frame.schema["label"].metadata


def test_two_inputs_have_the_smaller_watermark_of_both(streams: Streams) -> None:
    """Pattern sets over several sources stand on this: the slower source holds back what is final."""
    first = streams.read([(1, 100)], [(1, 1000)], name="first").withWatermark("ts", "10 seconds")
    second = streams.read([(2, 500)], [(2, 600)], name="second").withWatermark("ts", "20 seconds")
    query = streams.run(operator(first.union(second).select("label", "at", far_future())))
    assert watermarks(query) == [0, 90, 580]


def test_rows_of_the_rate_source_do_not_hold_back_the_watermark(streams: Streams, spark: SparkSession) -> None:
    """Clock rows for idle sources stand on this: a batch every tick, time moved by the real events alone."""
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


def test_a_rate_source_turns_available_now_into_one_batch_without_a_last_one(
    streams: Streams, spark: SparkSession
) -> None:
    """Why clock rows and availableNow do not go together: all input is one batch, and no timeout fires after it."""
    events = streams.read([(1, 100)], [(2, 200)]).withWatermark("ts", "10 seconds").select("label", "at")
    ticks = spark.readStream.format("rate").load().selectExpr("-1 AS label", "0L AS at")
    query = streams.run(operator(events.union(ticks).select("label", "at", far_future())))
    assert watermarks(query) == [0]
    assert [row[:3] for row in streams.rows()] == [("row", 1, 100), ("row", 2, 200)]
