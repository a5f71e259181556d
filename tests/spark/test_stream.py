"""Time at which a stream emits matches: by watermark, on arrival, or by the system clock; with one or several inputs."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import perseid as ps
from tests.spark.settings import settings
from tests.spark.streaming import FAR, MOMENT, Run, Streams, at, ids, seconds

EVENTS = pa.schema(
    {"ts": MOMENT, "type": pa.string(), "user": pa.string(), "n": pa.int64()},
)


def event(second: float | None, kind: str | None, user: str | None = "x", n: int = 0) -> dict[str, Any]:
    return {"ts": at(second), "type": kind, "user": user, "n": n}


def match_rows(rows: Sequence[Mapping[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    """Return sorted matches: pattern, kind, first and last second, and some columns."""
    found = [
        (row["pattern"], row["kind"], seconds(row["start"]), seconds(row["end"]), *(row[name] for name in columns))
        for row in rows
    ]
    return sorted(found, key=repr)


def local_ids(patterns: Any, rows: Sequence[Mapping[str, Any]], **options: Any) -> list[tuple[str, str, str]]:
    return sorted((m.pattern, m.match_id, m.kind) for m in patterns.match(ps.events(list(rows), **options)))


# Watermark


WAITING = ps.patterns("""
pattern silent match A a -> not B for 5 seconds partition by user return a.n as n
pattern open match C c -> D d within 5 seconds partition by user report timeouts return c.n as n
""")
PROVIDER = "org.apache.spark.sql.execution.streaming.state."


@pytest.mark.parametrize("provider", ["HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"])
def test_unused_rows_advance_the_watermark_and_empty_the_state(
    spark: SparkSession, tmp_path: Path, provider: str
) -> None:
    """A batch without data emits an absence and a timeout, and the state is empty."""
    streams = Streams(spark, tmp_path)
    batches = [
        [event(0, "A", "x", 1), event(1, "C", "y", 2), event(2, "X", "z")],
        [event(3, "A", "z", 3), event(4, "B", "z", 4)],
        [event(60, "X", "other"), event(61, None, None)],
    ]
    frame = streams.stream(EVENTS, *batches)
    with settings(spark, spark__sql__streaming__stateStore__providerClass=PROVIDER + provider):
        run = streams.run(WAITING.match(ps.events(frame, options=ps.StreamOptions(shards=4))))
    assert match_rows(run.rows, "user", "n") == [("open", "timed out", 1, 6, "y", 2), ("silent", "match", 0, 5, "x", 1)]
    assert run.read == [3, 2, 2, 0]
    assert [batch["matches"] + batch["timed_out"] for batch in run.batches] == [0, 0, 0, 2]
    assert [batch["events"] for batch in run.batches] == [2, 2, 0, 0]
    assert run.states[-1] == 0
    assert run.states[1] > 0
    assert run.batches[-1]["state_bytes"] == run.batches[-1]["live_keys"] == run.batches[-1]["retained_events"] == 0
    assert run.batches[0]["state_bytes"] > 0
    assert run.batches[0]["live_keys"] == 2


def test_batches_without_usable_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Batches without rows, without times, or with only late rows; and nearly all rows of one key."""
    chance = random.Random(3)
    pairs = ps.patterns("""
        pattern pair match A a -> B b within 8 seconds partition by user return a.n as first, b.n as last
        pattern three match A+ a -> B b within 8 seconds after match skip past last partition by user return count(a) as n
    """)

    def skewed(low: int) -> list[dict[str, Any]]:
        return [
            event(low + chance.uniform(0, 20), chance.choice("AB"), "x" if chance.random() < 0.9 else f"y{i % 3}", i)
            for i in range(low * 10, low * 10 + 80)
        ]

    first, second = skewed(20), skewed(40)
    nameless = [event(None, chance.choice("ABX"), "x", i) for i in range(9)]
    late = [event(chance.uniform(-9, 10), chance.choice("AB"), "x", i) for i in range(12)]
    streams = Streams(spark, tmp_path)
    frame = streams.stream(EVENTS, [], [], nameless, first, second, late, [event(FAR, "X")])
    run = streams.run(pairs.match(ps.events(frame, options=ps.StreamOptions(shards=2)), rejected=True))
    assert run.counters["bad"] == len(nameless)
    assert run.counters["late"] == len(late)
    assert run.counters["events"] == len(first) + len(second)
    assert Counter((row["kind"], row["reason"]) for row in run.rejected) == {
        ("bad", "It has no time."): len(nameless),
        ("late", "Its time is at or before the watermark."): len(late),
    }
    assert {row["row"] is None or "ts" in json.loads(row["row"]) for row in run.rejected if row["kind"] == "bad"} == {
        False
    }
    assert ids(run.rows) == local_ids(pairs, [*first, *second])
    assert len({row["user"] for row in run.rows}) > 1


# Arrival order


def test_arrival_order_emits_immediately(spark: SparkSession, tmp_path: Path) -> None:
    """A match is emitted in the batch of its last event; a row older than the newest of its key is late."""
    pairs = ps.pattern(
        "pattern pair match A a -> B b within 1 minute partition by user return a.n as first, b.n as last"
    )
    streams = Streams(spark, tmp_path)
    batches = [
        [event(0, "A", "x", 1), event(50, "A", "y", 2)],
        [event(5, "B", "x", 3), event(49, "B", "y", 4), event(52, "A", "y", 5)],
        [event(55, "B", "y", 6), event(4, "A", "x", 7), event(5, "A", "x", 8), event(6, "B", "x", 9)],
    ]
    frame = streams.stream(EVENTS, *batches, delay="1 hour")
    run = streams.run(pairs.match(ps.events(frame, order="arrival", options=ps.StreamOptions(shards=2)), rejected=True))
    assert match_rows(run.rows, "user", "first", "last") == [
        ("pair", "match", 0, 5, "x", 1, 3),
        ("pair", "match", 5, 6, "x", 8, 9),
        ("pair", "match", 50, 55, "y", 2, 6),
        ("pair", "match", 52, 55, "y", 5, 6),
    ]
    assert [batch["matches"] for batch in run.batches[:3]] == [0, 1, 3]
    assert [batch["late"] for batch in run.batches[:3]] == [0, 1, 1]
    late = {(row["user"], seconds(row["start"]), json.loads(row["row"])["n"]) for row in run.rejected}
    assert late == {("y", 49, 4), ("x", 4, 7)}
    assert {"order='arrival' does not allow" in row["reason"] for row in run.rejected} == {True}
    assert run.counters["events"] == 7
    accepted = [row for batch in batches for row in batch if row["n"] not in (4, 7)]
    assert ids(run.rows) == local_ids(pairs, accepted)


# Idle source


def test_clock_advances_event_time_of_an_idle_source(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    # The second row is needed for the shard to retain state, and with it its progress in time.
    patterns = ps.patterns(f"{WAITING}\npattern patient match E e -> F f within 1 hour partition by user")
    frame = streams.stream(EVENTS, [event(0, "A", "x", 1), event(1, "E")], [event(4, "X", "x")], delay="1 second")
    found = patterns.match(ps.events(frame, options=ps.StreamOptions(shards=1, idle="2 seconds")), rejected=True)
    running = streams.start(found, processingTime="500 milliseconds")

    def wait(what: Callable[[Run], Any]) -> Run:
        # The first batches may have to compile kernels; after them, only the clock counts.
        deadline, seen = time.monotonic() + 120, running.read_output()
        while time.monotonic() < deadline and not what(seen):
            time.sleep(0.5)
            assert running.query.exception() is None
            seen = running.read_output()
            if max(seen.watermarks, default=0) == 3:
                deadline = min(deadline, time.monotonic() + 30)
        return seen

    try:
        first = wait(lambda seen: seen.rows)
        streams.add("input", EVENTS, [event(4, "B", "x", 2)])
        last = wait(lambda seen: seen.rejected)
    finally:
        running.query.stop()
    assert match_rows(first.rows, "user", "n") == [("silent", "match", 0, 5, "x", 1)]
    # The watermark is at 4 - 1 seconds and does not reach the absence, which ends at 5.
    assert max(last.watermarks) == 3
    (late,) = last.rejected
    assert (late["kind"], seconds(late["start"]), late["user"]) == ("late", 4, "x")
    assert "processing time advanced event time" in late["reason"]


# Several inputs


def test_watermark_of_several_inputs_is_the_slowest(spark: SparkSession, tmp_path: Path) -> None:
    """Each has its own columns, names and watermark; the slowest watermark decides."""
    logins = pa.schema({"at": MOMENT, "user": pa.string(), "ip": pa.string()})
    transfers = pa.schema({"when": MOMENT, "uid": pa.string(), "amount": pa.float64()})
    streams = Streams(spark, tmp_path)
    login_rows = [
        [{"at": at(0), "user": "ann", "ip": "1"}, {"at": at(8), "user": "bob", "ip": "2"}],
        [{"at": at(3), "user": "ann", "ip": "3"}, {"at": None, "user": "ann", "ip": "4"}],
        [{"at": at(FAR), "user": None, "ip": None}],
    ]
    transfer_rows = [
        [{"when": at(2), "uid": "ann", "amount": 5.0}, {"when": at(9), "uid": "ann", "amount": 0.5}],
        [{"when": at(10), "uid": "bob", "amount": 7.0}, {"when": at(4), "uid": "ann", "amount": 9.0}],
        [{"when": at(FAR), "uid": None, "amount": None}],
    ]
    patterns = ps.patterns("""
        pattern moved match Login a -> Transfer t [amount > 1] within 1 minute return a.ip, t.amount as amount
        pattern idle match Login a -> not Transfer [amount > 1] for 5 seconds return a.ip
    """)
    options: dict[str, Any] = {
        "time": {"Login": "at", "Transfer": "when"},
        "key": {"Login": "user", "Transfer": "uid"},
    }
    frames = {
        "Login": streams.stream(logins, *login_rows, name="logins", delay="10 seconds", time="at"),
        "Transfer": streams.stream(transfers, *transfer_rows, name="transfers", delay="20 seconds", time="when"),
    }
    run = streams.run(patterns.match(ps.events(frames, **options, options=ps.StreamOptions(shards=2)), rejected=True))
    everything = {
        "Login": pa.Table.from_pylist(
            [r for b in login_rows for r in b if r["at"] not in (None, at(FAR))], schema=logins
        ),
        "Transfer": pa.Table.from_pylist(
            [r for b in transfer_rows for r in b if r["when"] != at(FAR)], schema=transfers
        ),
    }
    expected = patterns.match(ps.events(everything, **options))
    assert ids(run.rows) == sorted((m.pattern, m.match_id, m.kind) for m in expected)
    assert {(row["user"], row["ip"], row["amount"]) for row in run.rows if row["pattern"] == "moved"} == {
        ("ann", "1", 5.0), ("ann", "3", 9.0), ("bob", "2", 7.0),
    }  # fmt: skip
    assert run.counters["bad"] == 1
    assert [json.loads(row["row"]) for row in run.rejected] == [{"user": "ann", "ip": "4"}]
    # Both inputs have reached the far row: the watermark is that of the slower.
    assert run.watermarks[-1] == FAR - 20
