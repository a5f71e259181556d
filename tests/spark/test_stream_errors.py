"""What cannot be streamed is refused before anything runs, and says what to do."""

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
def bare(spark: SparkSession) -> DataFrame:
    """A stream without a watermark."""
    rate = spark.readStream.format("rate").load()
    return rate.selectExpr("timestamp as ts", "'A' as type", "value as user", "value as host")


@pytest.fixture(scope="module")
def frame(bare: DataFrame) -> DataFrame:
    return bare.withWatermark("ts", "10 seconds")


def refused(kind: type[PerseidError], text: str, stream: Any, pattern: PatternSet = PAIR, **options: Any) -> str:
    with pytest.raises(kind, match=text) as caught:
        pattern.match(stream, **options)
    return str(caught.value)


def test_a_stream_without_a_watermark(bare: DataFrame, frame: DataFrame) -> None:
    shown = refused(EventDataError, "has no watermark on 'ts'", ps.events(bare))
    assert 'df.withWatermark("ts", "10 minutes")' in shown
    renamed = bare.withColumnRenamed("ts", "at")
    shown = refused(EventDataError, "has no watermark on 'at'", ps.events(renamed, time="at"))
    assert 'df.withWatermark("at", "10 minutes")' in shown
    # One on another column does not help.
    other = bare.selectExpr("*", "ts as seen").withWatermark("seen", "1 minute")
    refused(EventDataError, "has no watermark on 'ts'", ps.events(other))
    refused(EventDataError, "DataFrame of B has no watermark", ps.events({"A": frame, "B": bare}))
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
def test_a_time_that_cannot_have_a_watermark(bare: DataFrame, cast: str, text: str) -> None:
    odd = bare.selectExpr(f"{cast} as ts", "type", "user")
    shown = refused(EventDataError, text, ps.events(odd))
    assert 'df.withWatermark("ts", "10 minutes")' in shown


def test_what_a_stream_is_not(spark: SparkSession, frame: DataFrame) -> None:
    still = spark.sql("select current_timestamp() as ts, 'A' as type, 1L as user, 1L as host")
    refused(EventDataError, "Some inputs are streams and others are not", ps.events({"A": frame, "B": still}))
    refused(EventDataError, "Some inputs are streams and others are not", ps.events({"A": still, "B": frame}))
    refused(UnsupportedError, "observation= requires a batch DataFrame", ps.events(frame), observation=Observation())
    refused(UnsupportedError, "rejected=True requires a streaming DataFrame", ps.events(still), rejected=True)
    feeding = ps.patterns("""
        pattern first match A a -> B b within 1 minute partition by user return a.host as host
        pattern then match first x -> C c within 1 minute partition by host
    """)
    refused(UnsupportedError, "Pattern then consumes matches of first across keys", ps.events(frame), feeding)


def test_arrival_trusts_one_kind_of_key(frame: DataFrame) -> None:
    two = ps.patterns("""
        pattern by_user match A a -> B b within 1 minute partition by user
        pattern by_host match A a -> B b within 1 minute partition by host
    """)
    shown = refused(
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
def test_settings_that_are_none(options: dict[str, Any], text: str) -> None:
    with pytest.raises(PerseidError, match=text):
        ps.StreamOptions(**options)


def test_order_and_options_are_validated(frame: DataFrame) -> None:
    with pytest.raises(PerseidError, match="order='sideways': expected 'watermark' or 'arrival'"):
        ps.events(frame, order="sideways")
    with pytest.raises(PerseidError, match="options= expected StreamOptions, got dict"):
        ps.events(frame, options={"shards": 4})  # type: ignore[arg-type]


def test_many_partitions_are_warned_of(spark: SparkSession, frame: DataFrame) -> None:
    """Before the first start: a checkpoint keeps their number."""
    with settings(spark, spark__sql__shuffle__partitions="200"):
        with pytest.warns(PerseidWarning, match=r'spark\.conf\.set\("spark\.sql\.shuffle\.partitions", 16\)') as caught:
            PAIR.match(ps.events(frame))
        assert [warning.filename for warning in caught] == [__file__], "it should point to the caller's line"
        # As many as there are shards are not too many.
        PAIR.match(ps.events(frame, options=ps.StreamOptions(shards=400)))


def test_an_old_spark_with_a_new_pyarrow(frame: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.1")
    monkeypatch.setattr("pyarrow.__version__", "26.0.0")
    assert "pyarrow<26" in refused(UnsupportedError, "Spark 4.0.1 require pyarrow below 26", ps.events(frame))
    monkeypatch.setattr("pyarrow.__version__", "25.0.0")
    assert PAIR.match(ps.events(frame)).isStreaming


def test_matches_of_others_by_arrival(frame: DataFrame) -> None:
    text = "pattern p match A a partition by user\npattern q match p x -> p y within 1 minute partition by user"
    shown = refused(UnsupportedError, "q consumes matches of p", ps.events(frame, order="arrival"), ps.patterns(text))
    assert "order='watermark'" in shown
