"""A stream whose waiting events exceed ``max_state`` fails, loses no event, and continues with a larger limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import perseid as ps
from perseid.api.stream_options import MIN_STATE_BYTES
from perseid.jobs.spark_errors import first_line, hint_of
from tests.spark.streaming import FAR, MOMENT, Streams, at

EVENTS = pa.schema({"ts": MOMENT, "type": pa.string(), "user": pa.string(), "n": pa.int64(), "note": pa.string()})
PAIR = "pattern pair match A a -> B b within 10 minutes partition by user return a.note as note, b.n as last"
NOTE = "x" * 1000


def events(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"ts": at(n), "type": "A" if n % 2 == 0 else "B", "user": "x", "n": n, "note": f"{n}{NOTE}"}
        for n in range(first, last)
    ]


def test_waiting_events_beyond_max_state_fail_the_query_until_the_limit_is_raised(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams = Streams(spark, tmp_path)
    batches = [events(0, 10), events(10, 200), [{"ts": at(FAR), "type": "X", "user": None, "n": None, "note": None}]]

    def query(limit: int) -> Any:
        frame = streams.read("input", EVENTS, delay="1 hour")
        return ps.pattern(PAIR).match(ps.events(frame, id="n", options=ps.StreamOptions(shards=1, max_state=limit)))

    streams.add("input", EVENTS, *batches)
    for _ in range(2):  # with the same limit it fails again
        with pytest.raises(StreamingQueryException) as raised:
            streams.run(query(MIN_STATE_BYTES))
        assert "200 events that wait for the watermark take" in first_line(raised.value)
        assert f"max_state allows {MIN_STATE_BYTES:,}. No event was dropped." in first_line(raised.value)
        assert "Restart the query with a larger max_state" in str(hint_of(raised.value))
    run = streams.run(query(1 << 22))
    whole = ps.pattern(PAIR).match(ps.events([row for rows in batches for row in rows], id="n"))
    assert sorted(row["match_id"] for row in run.rows) == sorted(match.match_id for match in whole)
    assert len(run.rows) == 100
    assert run.counters["capped"] == 0


def test_finished_table_has_no_state_limit(spark: SparkSession) -> None:
    rows = [{**row, "ts": row["ts"].replace(tzinfo=None)} for row in events(0, 200)]
    frame = spark.createDataFrame(rows, "ts timestamp, type string, user string, n long, note string")
    assert (
        ps.pattern(PAIR)
        .match(ps.events(frame, id="n", options=ps.StreamOptions(shards=1, max_state=MIN_STATE_BYTES)))
        .count()
        == 100
    )
