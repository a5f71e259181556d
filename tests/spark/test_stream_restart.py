"""A query continues from its checkpoint without lost or duplicate matches, or fails with the reason."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import perseid as ps
from tests.spark.streaming import FAR, MOMENT, Run, Streams, at, seconds

EVENTS = pa.schema({"ts": MOMENT, "type": pa.string(), "user": pa.string(), "n": pa.int64()})
PAIR = "pattern pair match A a -> B b within 20 seconds partition by user return a.n as first, b.n as last\n"
SILENT = "pattern silent match A a -> not B for 8 seconds partition by user return a.n as first\n"
QUIET = "pattern quiet match A a partition by user suppress 15 seconds return a.n as first\n"
TRIPLE = "pattern triple match A a -> B b -> A c within 20 seconds partition by user return c.n as last\n"
SHORT = "pattern short match A a -> B b within 4 seconds partition by user return b.n as last\n"
OTHER = "pattern other match A a -> C c within 4 seconds partition by user return c.n as last\n"
CLOSING = [{"ts": at(FAR), "type": "X", "user": None, "n": None}]


def batch(chance: random.Random, low: int, count: int = 40) -> list[dict[str, Any]]:
    """Return events of ten seconds, and a few late ones of the ten seconds before."""
    return [
        {
            "ts": at(low + chance.randint(-4, 10)),
            "type": chance.choice("AABBCX"),
            "user": chance.choice(["x", "y", "z", None]),
            "n": low * 100 + i,
        }
        for i in range(count)
    ]


def matches(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    found = [(row["pattern"], row["match_id"]) for row in rows if not names or row["pattern"] in names]
    return sorted(found)


def expected(text: str, *batches: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = ps.patterns(text).match(ps.events([row for rows in batches for row in rows], id="n"))
    return sorted((m.pattern, m.match_id) for m in found)


def test_query_continues_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(1)
    batches = [batch(chance, second) for second in (0, 10, 20, 30)]
    streams = Streams(spark, tmp_path)
    text = PAIR + SILENT + QUIET

    def query() -> Any:
        frame = streams.read("input", EVENTS, delay="15 seconds")
        return ps.patterns(text).match(ps.events(frame, id="n", options=ps.StreamOptions(shards=4)))

    streams.add("input", EVENTS, *batches[:2])
    first = streams.run(query())
    assert first.batches[-1]["state_bytes"] > 0
    assert len(matches(first.rows)) < len(expected(text, *batches[:2]))
    streams.add("input", EVENTS, *batches[2:3])
    streams.run(query())
    streams.add("input", EVENTS, *batches[3:], CLOSING)
    last = streams.run(query())
    assert last.read[0] == len(batches[3])
    assert last.counters["late"] == 0
    assert last.counters["incomplete"] == 0
    assert matches(last.rows) == expected(text, *batches)
    assert {name for name, _ in matches(last.rows)} == {"pair", "silent", "quiet"}
    assert last.states[-1] == 0


def test_another_set_of_patterns_over_the_same_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """A retained pattern emits all its matches; a new one starts immediately, and is reported until it has all events."""
    chance = random.Random(2)
    batches = [batch(chance, second) for second in (0, 10, 20, 60)]
    streams = Streams(spark, tmp_path)

    def run(text: str, *more: list[dict[str, Any]]) -> Run:
        streams.add("input", EVENTS, *more)
        frame = streams.read("input", EVENTS, delay="15 seconds")
        return streams.run(ps.patterns(text).match(ps.events(frame, id="n", options=ps.StreamOptions(shards=2))))

    before = run(SILENT + PAIR, *batches[:2])
    assert before.counters["incomplete"] == 0
    after = run(PAIR + TRIPLE, batches[2])
    assert after.counters["incomplete"] > 0
    last = run(PAIR + TRIPLE, batches[3], CLOSING)
    assert last.batches[-1]["incomplete"] == 0
    assert last.counters["late"] == 0
    assert matches(last.rows, "pair") == expected(PAIR, *batches)
    told = matches(last.rows, "triple")
    every = ps.patterns(TRIPLE).match(ps.events([row for rows in batches for row in rows], id="n"))
    # Only matches, and all that begin after the newest event time at the change.
    assert len(set(told)) == len(told)
    assert set(told) <= {(m.pattern, m.match_id) for m in every}
    assert {(m.pattern, m.match_id) for m in every if seconds(m.start) > after.watermarks[0] + 15} <= set(told)
    assert len(told) < len(every)
    # A removed pattern emits nothing after the change.
    assert matches(last.rows, "silent") == matches(before.rows, "silent")
    assert len(matches(last.rows, "silent")) < len(expected(SILENT, *batches))


DROPPED = {
    "while others wait": [["A0", "C1", "B2"], ["C3"]],
    "of a shard that keeps nothing": [["C5"], ["A3", "C7"]],
    "of a shard that keeps nothing for a while": [["A0", "C14", "X15"], ["B1", "X20"], ["X21"], ["A13", "C15"]],
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            marks=[pytest.mark.xfail(strict=True, reason="without a state nothing says that a pattern is new")]
            if case.endswith("nothing")
            else [],
        )
        for case in DROPPED
    ],
)
def test_new_pattern_of_a_type_whose_events_were_dropped(spark: SparkSession, tmp_path: Path, case: str) -> None:
    """Events of an unused type were never retained, so no match may skip them to take a later one."""
    streams = Streams(spark, tmp_path)
    batches = [
        [{"ts": at(int(text[1:])), "type": text[0], "user": "x", "n": int(text[1:])} for text in texts]
        for texts in DROPPED[case]
    ]
    for text, rows in ((SHORT, batches[:1]), (SHORT + OTHER, [*batches[1:], CLOSING])):
        streams.add("input", EVENTS, *rows)
        frame = streams.read("input", EVENTS, delay="15 seconds")
        run = streams.run(ps.patterns(text).match(ps.events(frame, id="n", options=ps.StreamOptions(shards=1))))
    assert run.counters["late"] == 0
    assert set(matches(run.rows, "other")) <= set(expected(OTHER, *batches))


def test_incompatible_checkpoint_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    """The query fails with a hint, and leaves the checkpoint unchanged."""
    chance = random.Random(3)
    batches = [batch(chance, 0), batch(chance, 10)]
    streams = Streams(spark, tmp_path)
    frame = streams.stream(EVENTS, batches[0], delay="15 seconds")
    streams.run(ps.patterns(PAIR).match(ps.events(frame, id="n", options=ps.StreamOptions(shards=2))))
    streams.add("input", EVENTS, batches[1], CLOSING)

    def fails(text: str, stream: Any) -> None:
        with pytest.raises(StreamingQueryException, match=f"StateError: {text}"):
            streams.run(ps.patterns(PAIR).match(stream))

    fails(
        "The checkpoint was made with 2 shards, and the query now has 4",
        ps.events(frame, id="n", options=ps.StreamOptions(shards=4)),
    )
    for words, said in (
        ({"options": ps.StreamOptions(shards=4)}, "made with 2 shards"),
        ({"order": "arrival"}, "made with order='watermark'"),
    ):
        declared: dict[str, Any] = {"options": ps.StreamOptions(shards=2), **words}
        with pytest.raises(ps.errors.StateError, match=said):
            ps.patterns(PAIR).match(ps.events(frame, id="n", **declared), checkpoint=str(streams.checkpoint()))
    fails(
        "The checkpoint was made with order='watermark', and the query now has order='arrival'",
        ps.events(frame, id="n", order="arrival", options=ps.StreamOptions(shards=2)),
    )
    # As for columns of the same names with other types.
    other = frame.withColumn("n", f.array("n"))
    fails(
        "The column 'n' was int64 when the checkpoint was made, and is list",
        ps.events(other, id="user", options=ps.StreamOptions(shards=2)),
    )
    other = frame.withColumn("user", frame["n"])
    fails(
        "The key 'user' was string when the checkpoint was made, and is int64 now",
        ps.events(other, id="n", options=ps.StreamOptions(shards=2)),
    )
    goes_on = ps.patterns(PAIR).match(
        ps.events(frame, id="n", options=ps.StreamOptions(shards=2)), checkpoint=str(streams.checkpoint())
    )
    assert matches(streams.run(goes_on).rows) == expected(PAIR, *batches)


def test_incompatible_query_is_rejected_before_a_batch_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise shards without state would be written in the new format before a shard with state is rejected."""
    streams = Streams(spark, tmp_path)
    frame = streams.stream(EVENTS, batch(random.Random(5), 0), delay="15 seconds")
    pair = ps.patterns(PAIR)
    nothing_yet = pair.match(
        ps.events(frame, id="n", options=ps.StreamOptions(shards=2)), checkpoint=str(streams.checkpoint())
    )
    streams.run(nothing_yet)
    kept = {p: p.read_bytes() for p in streams.checkpoint().rglob("*") if p.is_file() and not p.name.startswith(".")}
    with pytest.raises(ps.errors.StateError, match="validates the checkpoint before anything runs"):
        pair.match(ps.events(frame, id="n", options=ps.StreamOptions(shards=8)), checkpoint=str(streams.checkpoint()))
    assert kept == {p: p.read_bytes() for p in kept}
    with pytest.raises(ps.errors.UnsupportedError, match="requires a streaming DataFrame, got a batch DataFrame"):
        pair.match(ps.events(spark.createDataFrame([], frame.schema), id="n"), checkpoint=str(streams.checkpoint()))
