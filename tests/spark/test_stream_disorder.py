"""Streams out of order on Spark: current matches after every batch, and early output by punctuations and patterns."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import perseid as ps
from perseid.runtime import registry
from perseid.runtime.contract import Capabilities, Passes
from perseid.semantics.detection import Match
from tests.contract.toy import TOY, Toy
from tests.spark.streaming import FAR, MOMENT, Streams, at, ids, seconds

SCHEMA = pa.schema(
    {
        "ts": MOMENT,
        "type": pa.string(),
        "user": pa.string(),
        "v": pa.int64(),
        "n": pa.int64(),
        "punctuation": pa.string(),
    }
)
PATTERNS = ps.patterns("""
pattern paid
match Order o -> not Cancel -> Payment p [v >= o.v]
within 20 seconds
partition by user
return o.v as price, p.n as payment

pattern unpaid
match Order o -> not Payment for 8 seconds
partition by user

pattern tries
match Order o -> Payment+ p
within 10 seconds
partition by user
after match skip past last
return count(p) as times
report timeouts
""")
CHAIN = ps.pattern("""
pattern chain
match Order o ->> Payment p [v >= o.v] ->> Receipt r
within 20 seconds
partition by user
""")
PUT_TOGETHER = ps.patterns("""
pattern paid
match Order o -> not Cancel ->> Payment p [v >= o.v]
within 20 seconds
partition by user
return o.v as price, p.n as payment

pattern unpaid
match Order o -> not Payment for 8 seconds
within 20 seconds
partition by user
""")
CLOSING = {"ts": at(FAR), "type": "Z"}


class Backward(Toy):
    """A strategy whose engine needs the end of the stream first."""

    name: ClassVar[str] = "backward"


def batches_of(chance: random.Random, delay: float, kinds: str = "OOPPC") -> list[list[dict[str, Any]]]:
    """Return events in files, out of order by less than the delay."""
    names = {"O": "Order", "P": "Payment", "C": "Cancel", "R": "Receipt"}
    rows = [
        {
            "ts": at(chance.randrange(60)),
            "type": names[chance.choice(kinds)],
            "user": chance.choice(["ann", "bob", None]),
            "v": chance.randrange(3),
            "n": n,
        }
        for n in range(70)
    ]
    moved = sorted(rows, key=lambda row: seconds(row["ts"]) + chance.random() * delay * 0.99)
    return [moved[i : i + 14] for i in range(0, len(moved), 14)]


def match_locally(patterns: ps.PatternSet, rows: Sequence[Mapping[str, Any]], horizon: Any = None) -> list[Match]:
    return list(patterns.match(ps.events(list(rows), id="n"), horizon=horizon))


def named(matches: Sequence[Match]) -> list[tuple[str, str, str]]:
    return sorted((m.pattern, m.match_id, m.kind) for m in matches)


@pytest.mark.parametrize(
    ("strategy", "patterns", "seeds"),
    [
        ("aggressive", PATTERNS, 1),
        pytest.param("aggressive", PATTERNS, 3, marks=pytest.mark.deep),
        ("early", PUT_TOGETHER, 1),
        (Toy(), PATTERNS, 1),
    ],
    ids=["aggressive", "aggressive on three streams", "early", "toy"],
)
def test_current_matches_after_every_batch(
    spark: SparkSession, tmp_path: Path, strategy: str | Toy, patterns: ps.PatternSet, seeds: int
) -> None:
    """Emitted and not retracted matches equal local matches of the rows so far, at the horizon of the output rows."""
    retracted = 0
    for seed in range(seeds):
        chance = random.Random(seed)
        streams = Streams(spark, tmp_path / str(seed))
        streams.folder.mkdir()
        batches = batches_of(chance, 15)
        received: list[dict[str, Any]] = []
        emitted: Counter[tuple[str, str, str]] = Counter()
        run = None
        for number, batch in enumerate([*batches, [CLOSING]]):
            streams.add("input", SCHEMA, batch)
            frame = streams.read("input", SCHEMA, "15 seconds")
            # One shard, so that the horizon of every row is the newest event time.
            changes = patterns.match(ps.events(frame, id="n", disorder=strategy, options=ps.StreamOptions(shards=1)))
            before = set() if run is None else {_change(row) for row in run.table.to_pylist()}
            run = streams.run(changes)
            received += batch
            new = [row for row in run.table.to_pylist() if _change(row) not in before]
            new.sort(key=lambda row: row["revision"])
            assert len(run.table) == len(before) + len(new)
            for row in new:
                emitted[row["pattern"], row["match_id"], row["kind"]] += 1 if row["op"] == "+" else -1
            assert set(emitted.values()) <= {0, 1}, f"seed {seed}, batch {number}"
            if batch != [CLOSING]:
                horizon = max(row["ts"] for row in received)
                assert {row["horizon"] for row in new} <= {horizon}
                expected = named(match_locally(patterns, received, horizon))
                assert sorted(emitted.elements()) == expected, f"seed {seed}, batch {number}"
        assert run is not None
        assert sorted(emitted.elements()) == named(match_locally(patterns, received[:-1]))
        folded = ps.disorder.current_matches(spark.createDataFrame(run.table.to_pandas(), changes.schema))
        assert sorted((row.pattern, row.match_id, row.kind) for row in folded.collect()) == sorted(emitted.elements())
        retracted += sum(row["op"] == "-" for row in run.table.to_pylist())
        assert run.states[-1] == 0
    assert retracted > seeds


def _change(row: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(row[name] for name in ("pattern", "match_id", "kind", "op", "revision"))


@pytest.mark.parametrize("strategy", ["assemble", "conservative", "adaptive", "auto"])
def test_strategies_have_the_matches_of_finished_data(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    chance = random.Random(strategy)
    streams = Streams(spark, tmp_path)
    batches = batches_of(chance, 10, "OOPPR")
    stream = streams.stream(SCHEMA, *batches, [CLOSING], delay="10 seconds")
    run = streams.run(CHAIN.match(ps.events(stream, id="n", disorder=strategy, options=ps.StreamOptions(shards=2))))
    rows = [row for batch in batches for row in batch]
    expected = sorted((m.pattern, m.match_id, m.kind) for m in match_locally(CHAIN, rows))
    assert len(expected) > 10
    assert ids(run.rows) == expected
    assert run.counters["late"] == run.counters["bad"] == 0
    assert run.counters["events"] == len(rows)
    assert run.states[-1] == 0
    if strategy in ("assemble", "auto"):
        emitted = [sum(batch["matches"] for batch in run.batches[: n + 1]) for n in range(len(batches))]
        received = [
            len(match_locally(CHAIN, [row for batch in batches[: n + 1] for row in batch])) for n in range(len(batches))
        ]
        assert emitted == received  # immediately


def test_punctuations_reach_every_shard(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        {"ts": at(1), "type": "Order", "user": "ann", "v": 1, "n": 1},
        {"ts": at(3), "type": "Payment", "user": "ann", "v": 1, "n": 2},
        {"ts": at(2), "type": "Order", "user": "bob", "v": 1, "n": 3},
        {"ts": at(4), "type": "Payment", "user": "bob", "v": 1, "n": 4},
    ]
    about_all = {"ts": at(5), "punctuation": "all"}
    said_less = {"ts": at(2), "punctuation": "all"}
    untimed = {"punctuation": "all", "n": 7}
    about_bob = {"ts": at(30), "user": "bob", "punctuation": "key"}
    unclear = {"ts": at(5), "user": "bob", "punctuation": "perhaps"}
    unasked = {"ts": at(40), "type": "Click", "punctuation": "all"}
    broken = {"ts": at(20), "type": "Order", "user": "bob", "v": 1, "n": 5}
    fine = {"ts": at(20), "type": "Order", "user": "ann", "v": 1, "n": 6}
    streams = Streams(spark, tmp_path)
    punctuated = [about_all, said_less, untimed, unclear]
    stream = streams.stream(SCHEMA, rows, [unasked], punctuated, [about_bob], [broken, fine], delay="1 hour")
    found = PATTERNS["paid"].match(
        ps.events(stream, id="n", disorder="conservative", options=ps.StreamOptions(shards=4)), rejected=True
    )
    run = streams.run(found)
    matches = [batch["matches"] for batch in run.batches]
    assert matches[:4] == [0, 0, 2, 0]
    assert run.counters["control_rows"] == 4 + 1  # the newest punctuation of all keys counts once per shard
    assert sorted((row["kind"], row["reason"]) for row in run.rejected) == [
        ("bad", "It has no time."),
        ("bad", "Its punctuation is neither 'key' nor 'all'."),
        ("late", "An earlier punctuation excludes it."),
    ]
    assert run.counters["events"] == 5
    assert '"n":5' in next(row["row"] for row in run.rejected if row["kind"] == "late")


def test_punctuations_of_sources(spark: SparkSession, tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("reader", pa.string()))
    rows = [
        {"ts": at(1), "type": "Order", "user": "ann", "v": 1, "n": 1, "reader": "x"},
        {"ts": at(3), "type": "Payment", "user": "ann", "v": 1, "n": 2, "reader": "y"},
    ]
    streams = Streams(spark, tmp_path)
    first, second = ({"ts": at(5), "punctuation": "all", "reader": reader} for reader in "xy")
    stream = streams.stream(schema, rows, [first], [second], delay="1 hour")
    strategy = ps.disorder.Conservative(source="reader", sources=("x", "y"))
    run = streams.run(
        PATTERNS["paid"].match(ps.events(stream, id="n", disorder=strategy, options=ps.StreamOptions(shards=2)))
    )
    assert [batch["matches"] for batch in run.batches][:3] == [0, 0, 1]


def test_reason_of_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The reason is the watermark if the row is late in any strategy; otherwise it is the strategy."""
    prompt = [{"ts": at(n / 10), "type": "Click", "user": "ann", "n": n} for n in range(600)]
    behind = {"ts": at(55), "type": "Order", "user": "ann", "n": 601}
    far_behind = {"ts": at(5), "type": "Order", "user": "ann", "n": 602}
    reasons = {}
    for name in ("adaptive", "conservative", "aggressive"):
        (tmp_path / name).mkdir()
        streams = Streams(spark, tmp_path / name)
        punctuation = [{"ts": at(56), "punctuation": "all"}] if name == "conservative" else []
        batches = [prompt[:1], [*prompt[1:], *punctuation], [behind, far_behind]]
        stream = streams.stream(SCHEMA, *batches, delay="40 seconds")
        anything = ps.pattern("pattern anything match any x -> any y within 1 second partition by user")
        found = anything.match(
            ps.events(stream, id="n", disorder=name, options=ps.StreamOptions(shards=1)), rejected=True
        )
        run = streams.run(found)
        assert run.counters["late"] == len(run.rejected)
        reasons[name] = {json.loads(row["row"])["n"]: row["reason"] for row in run.rejected}
    watermark = "Its time is at or before the watermark."
    assert reasons == {
        "adaptive": {
            601: "It arrived after the adaptive delay, but before the watermark passed its time.",
            602: watermark,
        },
        "conservative": {601: "An earlier punctuation excludes it.", 602: watermark},
        "aggressive": {602: watermark},
    }


def test_aggressive_stream_continues_with_changed_patterns(spark: SparkSession, tmp_path: Path) -> None:
    """Matches of a removed pattern cannot be confirmed any more, and are retracted by id."""
    streams = Streams(spark, tmp_path)
    rows = [
        {"ts": at(1), "type": "Order", "user": "ann", "v": 1, "n": 1},
        {"ts": at(3), "type": "Payment", "user": "ann", "v": 1, "n": 2},
    ]
    stream = streams.stream(SCHEMA, rows, delay="10 seconds")
    both = ps.patterns(f"{PATTERNS['paid']}\n{CHAIN}")
    first = streams.run(
        both.match(ps.events(stream, id="n", disorder="aggressive", options=ps.StreamOptions(shards=1)))
    )
    (emitted,) = first.rows
    streams.add("input", SCHEMA, [{"ts": at(4), "type": "Receipt", "user": "ann", "n": 3}])
    second = streams.run(
        CHAIN.match(ps.events(stream, id="n", disorder="aggressive", options=ps.StreamOptions(shards=1)))
    )
    last = max(second.rows, key=lambda row: row["revision"] if row["pattern"] == "paid" else -1)
    assert (last["op"], last["match_id"]) == ("-", emitted["match_id"])


def test_unsupported_strategies_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    stream = streams.stream(SCHEMA, [CLOSING], delay="10 seconds")
    with pytest.raises(ps.errors.UnsupportedError, match="use '->>' to take every event"):
        PATTERNS["paid"].match(ps.events(stream, disorder="assemble"))
    with pytest.raises(ps.errors.EventDataError, match="requires events in order, and disorder="):
        ps.events(stream, order="arrival", disorder="aggressive")
    with pytest.raises(ps.errors.UnknownNameError, match="'marker'"):
        PATTERNS["paid"].match(ps.events(stream, disorder=ps.disorder.Conservative(punctuation="marker")))
    with pytest.raises(ps.errors.TypeMismatchError, match="expected a string column"):
        PATTERNS["paid"].match(ps.events(stream, disorder=ps.disorder.Conservative(punctuation="v")))
    with pytest.raises(ps.errors.UnsupportedError, match="have 2 partitionings"):
        ps.patterns(f"{PATTERNS['paid']}\npattern all\nmatch Order o ->> Payment p\nwithin 5 seconds").match(
            ps.events(stream, disorder="conservative")
        )
    with pytest.raises(ps.errors.EventDataError, match="fold expects a Spark DataFrame of changes, got list"):
        ps.disorder.current_matches([])
    with pytest.raises(ps.errors.EventDataError, match="Not a changelog of matches"):
        ps.disorder.current_matches(spark.range(1))
    with pytest.raises(ps.errors.UnsupportedError, match="has no last change"):
        ps.disorder.current_matches(PATTERNS.match(ps.events(stream, disorder="aggressive")))


def test_engine_that_needs_the_end_is_rejected(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream has no end to begin at."""
    back = replace(TOY, name=Backward.name, capabilities=Capabilities(passes=Passes.BACKWARD))
    monkeypatch.setattr(registry, "_registered", [*registry._registered, back])
    stream = Streams(spark, tmp_path).stream(SCHEMA, [CLOSING], delay="10 seconds")
    with pytest.raises(ps.errors.UnsupportedError, match="Engine 'backward' also reads its input backward in time"):
        PATTERNS.match(ps.events(stream, disorder=Backward()))


def test_state_of_another_strategy_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    rows = [{"ts": at(1), "type": "Order", "user": "ann", "v": 1, "n": 1}]
    stream = streams.stream(SCHEMA, rows, delay="10 seconds")
    streams.run(CHAIN.match(ps.events(stream, disorder="assemble", options=ps.StreamOptions(shards=1))))
    streams.add("input", SCHEMA, [{**rows[0], "ts": at(2)}])
    with pytest.raises(Exception, match="made with disorder='assemble'"):
        streams.run(CHAIN.match(ps.events(stream, disorder="adaptive", options=ps.StreamOptions(shards=1))))
    with pytest.raises(Exception, match="declared differently when the checkpoint was made"):
        streams.run(CHAIN.match(ps.events(stream, options=ps.StreamOptions(shards=1))))
    # explain shows the pattern in any case.
    (found,) = ps.inspect_state(spark, str(tmp_path / "query.checkpoint")).reports
    assert found.events == 1


def test_explain_shows_the_strategy_and_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    stream = streams.stream(SCHEMA, [CLOSING], delay="10 seconds")
    chosen = CHAIN.explain(ps.events(stream, disorder="auto"))
    assert "assemble: emits a match when all its events have arrived" in " ".join(chosen.split())
    assert "engine assemble: " in " ".join(chosen.split())
    assert "event lookup each new event is combined with the received events of the other slots" in " ".join(
        chosen.split()
    )
    buffered = PATTERNS["paid"].explain(ps.events(stream, disorder="auto"))
    assert "because paid cannot be assembled: '->' and ',' take the next event" in " ".join(buffered.split())
    assert "engine sequence: " in " ".join(buffered.split())
    retracted = PATTERNS["paid"].explain(ps.events(stream, disorder="aggressive"))
    assert "retracts those that a late event invalidates" in " ".join(retracted.split())
