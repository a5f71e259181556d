"""The state of a shard stays within ``max_state``: what is dropped is counted, and never makes a match that is wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from perseid.engines.disorder.state import read_state
from perseid.errors import LimitError
from perseid.runtime.contract import Engine
from perseid.runtime.registry import engines
from perseid.runtime.watermark import Watermark
from tests.blocks import blocks
from tests.contract.inputs import Question, inputs_of
from tests.contract.shards import shard_of, takes
from tests.contract.streams import SECOND, Shard, calls_of
from tests.contract.test_streams import written

NAMES = ("sequence", "adaptive", "conservative", "aggressive", "assemble", "early")
BUFFERING = ("sequence", "conservative", "aggressive")
"""Engines whose events wait for the watermark; those of an adaptive one wait for its own frontier."""
PLAIN = "match A a -> B b\nwithin 1 hour\npartition by k"
LEADING = "match not C for 1 hour -> A a -> B b\nwithin 1 hour\npartition by k"
FIRST = "match not A for 30 seconds -> A a -> B b\nwithin 1 hour\npartition by k"
BETWEEN = "match A a -> not C -> B b\nwithin 1 hour\npartition by k"
ITERATED = "match A a -> B+ b\nwithin 20 minutes\npartition by k"
ANY = "match A a ->> B b\nwithin 1 minute\npartition by k"
ANY_BETWEEN = "match A a -> not C ->> B b\nwithin 1 minute\npartition by k"
every_name = pytest.mark.parametrize("name", NAMES)


def event(second: int, kind: str, key: int = 1) -> dict[str, Any]:
    return {"second": second, "type": kind, "k": key, "v": 1}


def limited(engine: Engine, question: Question, limit: int) -> Shard:
    return shard_of(engine, question, options={"max_state": limit})


def with_limit(shard: Shard, limit: int) -> None:
    """Another process goes on with another limit."""
    shard.restart()
    shard.__dict__["plan"] = replace(shard.plan, max_state=limit)


def searched_bytes(shard: Shard) -> int:
    """Bytes of the events in a state, without what a strategy has beside them."""
    if shard.state is None or shard.engine.name == "sequence":
        return len(shard.state or b"")
    return len(read_state(shard.plan, shard.state).search_state or b"")


@pytest.mark.parametrize("name", BUFFERING)
def test_waiting_events_beyond_the_limit_are_an_error_and_a_larger_limit_goes_on_without_loss(name: str) -> None:
    engine = engines()[name]
    data = [event(i, "A") for i in range(200)] + [event(300, "B")]
    question = written(engine, [PLAIN], data)
    shard = limited(engine, question, 16_000)
    shard.call(question.data[:20], None)
    before = shard.state
    for _ in range(2):  # a restart with the same limit fails again, and changes nothing
        with pytest.raises(LimitError, match=r"events that wait for the watermark take [\d,]+ bytes") as raised:
            shard.call(question.data[20:], None)
        assert "max_state allows 16,000. No event was dropped." in raised.value.message
        assert "larger max_state" in str(raised.value.hint)
        assert "stream.max_state" in str(raised.value.hint)
        assert shard.state == before
    with_limit(shard, 1 << 20)
    shard.call(question.data[20:], None)
    assert shard.finish() == inputs_of(engine).expected(question)
    assert len(shard.rows) == 200
    assert shard.counters["capped"] == 0


@pytest.mark.parametrize("name", ["sequence", "adaptive", "conservative", "aggressive"])
def test_events_of_a_leading_absence_are_not_evicted(name: str) -> None:
    """The absence of one key covers an event that comes long after another key has filled the state."""
    engine = engines()[name]
    many = [event(i, "A", 2) for i in range(1, 201)]
    question = written(engine, [LEADING], [event(0, "C"), *many, event(300, "A"), event(305, "B")])
    shard = limited(engine, question, 12_000)
    shard.call(question.data[:21], -SECOND)
    for at in range(21, 201, 20):
        shard.call(question.data[at : at + 20], (at - 1) * SECOND)
    shard.call(question.data[201:], 250 * SECOND)
    assert shard.finish() == []
    assert shard.counters["capped"] > 100


@pytest.mark.parametrize("name", ["assemble", "early"])
def test_event_that_breaks_matches_to_come_is_not_evicted(name: str) -> None:
    """A late event begins a match that an event breaks which came long before it."""
    engine = engines()[name]
    many = [event(i, "A", 2) for i in range(40, 241)]
    question = written(engine, [ANY_BETWEEN], [event(20, "C"), *many, event(30, "B"), event(10, "A")])
    shard = limited(engine, question, 200_000 if name == "early" else 12_000)
    for at in range(0, len(question.data) - 1, 20):
        shard.call(question.data[at : min(at + 20, len(question.data) - 1)], None)
    shard.call(question.data[-1:], None)
    assert shard.finish() == []
    assert name == "early" or shard.counters["capped"] > 50


def test_arrival_order_is_still_checked_for_keys_whose_attempts_are_dropped() -> None:
    engine = engines()["sequence"]
    many = [event(i, "A", 2) for i in range(101, 301)]
    question = written(engine, [BETWEEN], [event(100, "C"), *many, event(50, "A"), event(400, "B")])
    shard = Shard(engine, question, order="arrival", options={"max_state": 12_000})
    for at in range(0, len(question.data), 20):
        shard.call(question.data[at : at + 20], None)
    assert [row["type"] for row in shard.late] == ["A"]


def random_events(chance: random.Random, count: int) -> list[dict[str, Any]]:
    return [event(second * 2, chance.choice("AAABC"), chance.randrange(1, 4)) for second in range(count)]


@every_name
@pytest.mark.parametrize("seed", blocks(2, 4))
def test_state_stays_within_the_limit_and_every_match_is_right(name: str, seed: int) -> None:
    """Whatever is dropped: each call fails or stays below the limit, and after an error a larger limit goes on."""
    engine, chance = engines()[name], random.Random(seed)
    failed = dropped = 0
    for text in (PLAIN, LEADING, FIRST, BETWEEN, ITERATED, ANY, ANY_BETWEEN):
        question = written(engine, [text], random_events(chance, 240))
        if not takes(engine, question):
            continue
        limit = chance.choice((9_000, 14_000))
        shard = limited(engine, question, limit)
        for call in cut(engine, question, seed):
            if chance.random() < 0.3:
                shard.restart()
            try:
                shard.call(call.data, call.now)
            except LimitError:
                failed += 1
                limit *= 4
                with_limit(shard, limit)
                shard.call(call.data, call.now)
            assert searched_bytes(shard) <= limit
        accepted = replace(question, data=tuple(shard.accepted))
        found, right = shard.finish(), inputs_of(engine).expected(accepted)
        assert set(found) <= set(right), f"{text!r} seed {seed}"
        assert len(found) == len(right) or shard.counters["capped"], f"{text!r} seed {seed}: lost and not counted"
        dropped += shard.counters["capped"]
    assert failed + dropped > 0


def cut(engine: Engine, question: Question, seed: int) -> Sequence[Any]:
    """The data in calls of thirty rows at most."""
    out = []
    for call in calls_of(engine, question, seed):
        for at in range(0, max(len(call.data), 1), 30):
            out.append(replace(call, data=call.data[at : at + 30]))
    return out


def test_finished_rows_have_no_state_and_no_limit() -> None:
    engine = engines()["sequence"]
    question = written(engine, [PLAIN], [*(event(i, "A") for i in range(200)), event(300, "B")])
    rows = inputs_of(engine).rows(question, question.data)
    plan = replace(engine.plan(question.plan, inputs_of(engine).types(question)), max_state=1 << 16)
    done = engine.step(plan, rows, None, Watermark(None, None, True))
    assert (done.rows.num_rows, done.state, done.counters["capped"]) == (200, None, 0)
