"""Unsupported streams are rejected before the query runs, with a hint."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession

import perseid as ps
from perseid.api.patterns import PatternSet
from perseid.errors import EventDataError, PerseidError, PerseidWarning, UnsupportedError
from tests.spark.settings import settings

PAIR = ps.pattern("pattern pair match A a -> B b within 1 minute partition by user")


@pytest.fixture(scope="module")
def unwatermarked(spark: SparkSession) -> DataFrame:
    """A stream without a watermark."""
    rate = spark.readStream.format("rate").load()
    return rate.selectExpr("timestamp as ts", "'A' as type", "value as user", "value as host")


@pytest.fixture(scope="module")
def frame(unwatermarked: DataFrame) -> DataFrame:
    return unwatermarked.withWatermark("ts", "10 seconds")


def assert_rejected(
    kind: type[PerseidError], text: str, stream: Any, pattern: PatternSet = PAIR, **options: Any
) -> str:
    with pytest.raises(kind, match=text) as caught:
        pattern.match(stream, **options)
    return str(caught.value)


def test_stream_without_a_watermark_is_rejected(unwatermarked: DataFrame, frame: DataFrame) -> None:
    shown = assert_rejected(EventDataError, "has no watermark on 'ts'", ps.events(unwatermarked))
    assert 'df.withWatermark("ts", "10 minutes")' in shown
    renamed = unwatermarked.withColumnRenamed("ts", "at")
    shown = assert_rejected(EventDataError, "has no watermark on 'at'", ps.events(renamed, time="at"))
    assert 'df.withWatermark("at", "10 minutes")' in shown
    # A watermark on another column does not help.
    other = unwatermarked.selectExpr("*", "ts as seen").withWatermark("seen", "1 minute")
    assert_rejected(EventDataError, "has no watermark on 'ts'", ps.events(other))
    assert_rejected(EventDataError, "DataFrame of B has no watermark", ps.events({"A": frame, "B": unwatermarked}))
    assert PAIR.match(ps.events(frame)).isStreaming


@pytest.mark.parametrize(
    ("cast", "text"),
    [
        ("cast(ts as timestamp_ntz)", "is TIMESTAMP_NTZ, which does not support watermarks"),
        ("cast(ts as string)", "is string; a stream requires a TIMESTAMP"),
        ("unix_seconds(ts)", "is bigint; a stream requires a TIMESTAMP"),
        ("cast(ts as date)", "is date; a stream requires a TIMESTAMP"),
    ],
)
def test_time_column_without_watermark_support_is_rejected(unwatermarked: DataFrame, cast: str, text: str) -> None:
    odd = unwatermarked.selectExpr(f"{cast} as ts", "type", "user")
    shown = assert_rejected(EventDataError, text, ps.events(odd))
    assert 'df.withWatermark("ts", "10 minutes")' in shown


def test_unsupported_inputs_are_rejected(spark: SparkSession, frame: DataFrame) -> None:
    still = spark.sql("select current_timestamp() as ts, 'A' as type, 1L as user, 1L as host")
    assert_rejected(EventDataError, "Some inputs are streams and others are not", ps.events({"A": frame, "B": still}))
    assert_rejected(EventDataError, "Some inputs are streams and others are not", ps.events({"A": still, "B": frame}))
    assert_rejected(
        UnsupportedError, "observation= requires a batch DataFrame", ps.events(frame), observation=Observation()
    )
    assert_rejected(UnsupportedError, "rejected=True requires a streaming DataFrame", ps.events(still), rejected=True)
    feeding = ps.patterns("""
        pattern first match A a -> B b within 1 minute partition by user return a.host as host
        pattern then match first x -> C c within 1 minute partition by host
    """)
    assert_rejected(UnsupportedError, "Pattern then consumes matches of first across keys", ps.events(frame), feeding)


def test_arrival_order_requires_one_partition_key(frame: DataFrame) -> None:
    two = ps.patterns("""
        pattern by_user match A a -> B b within 1 minute partition by user
        pattern by_host match A a -> B b within 1 minute partition by host
    """)
    shown = assert_rejected(
        UnsupportedError, "order='arrival' relies on the order within a key", ps.events(frame, order="arrival"), two
    )
    assert "these patterns have 2 partitionings" in shown
    assert two.match(ps.events(frame)).isStreaming
    assert two["by_user"].match(ps.events(frame, order="arrival")).isStreaming


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shards": 0}, "shards=0: expected a number from 1 to 4,096"),
        ({"shards": 10**6}, "shards=1000000: expected a number from 1 to 4,096"),
        ({"shards": "4"}, "shards='4': expected a number from 1 to 4,096"),
        ({"max_state": 5}, "max_state=5: expected a number at least 65,536"),
        ({"idle": "soon"}, "soon"),
        ({"idle": "5 milliseconds"}, "idle='5 milliseconds': expected a duration of at least 1 second"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], text: str) -> None:
    with pytest.raises(PerseidError, match=text):
        ps.StreamOptions(**options)


def test_order_and_options_are_validated(frame: DataFrame) -> None:
    with pytest.raises(PerseidError, match="order='sideways': expected 'watermark' or 'arrival'"):
        ps.events(frame, order="sideways")
    with pytest.raises(PerseidError, match="options= expected StreamOptions, got dict"):
        ps.events(frame, options={"shards": 4})  # type: ignore[arg-type]


def test_too_many_partitions_give_a_warning(spark: SparkSession, frame: DataFrame) -> None:
    """The warning comes before the first start, because a checkpoint fixes their number."""
    with settings(spark, spark__sql__shuffle__partitions="200"):
        with pytest.warns(PerseidWarning, match=r'spark\.conf\.set\("spark\.sql\.shuffle\.partitions", 16\)') as caught:
            PAIR.match(ps.events(frame))
        assert [warning.filename for warning in caught] == [__file__], "it should point to the caller's line"
        # As many partitions as shards are not too many.
        PAIR.match(ps.events(frame, options=ps.StreamOptions(shards=400)))


def test_an_old_spark_with_a_new_pyarrow(frame: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.1")
    monkeypatch.setattr("pyarrow.__version__", "26.0.0")
    assert "pyarrow<26" in assert_rejected(UnsupportedError, "Spark 4.0.1 require pyarrow below 26", ps.events(frame))
    monkeypatch.setattr("pyarrow.__version__", "25.0.0")
    assert PAIR.match(ps.events(frame)).isStreaming


def test_composed_patterns_reject_arrival_order(frame: DataFrame) -> None:
    text = "pattern p match A a partition by user\npattern q match p x -> p y within 1 minute partition by user"
    shown = assert_rejected(
        UnsupportedError, "q consumes matches of p", ps.events(frame, order="arrival"), ps.patterns(text)
    )
    assert "order='watermark'" in shown
