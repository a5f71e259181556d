"""The state of a shard stays within ``max_state``: dropped events are counted, and never cause a wrong match."""

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
from tests.contract.inputs import PatternWorkload, inputs_of
from tests.contract.shards import shard_of, supports
from tests.contract.streams import SECOND, Shard, calls_of
from tests.contract.test_streams import make_workload

NAMES = ("sequence", "adaptive", "conservative", "aggressive", "assemble", "early")
BUFFERING = ("sequence", "conservative", "aggressive")
"""Engines whose events wait for the watermark; events of an adaptive stream wait for its own frontier."""
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


def limited(engine: Engine, workload: PatternWorkload, limit: int) -> Shard:
    return shard_of(engine, workload, options={"max_state": limit})


def with_limit(shard: Shard, limit: int) -> None:
    """Continue in another process with another limit."""
    shard.restart()
    shard.__dict__["plan"] = replace(shard.plan, max_state=limit)


def event_bytes(shard: Shard) -> int:
    """Return the bytes of the events in a state, without the data of the strategy."""
    if shard.state is None or shard.engine.name == "sequence":
        return len(shard.state or b"")
    return len(read_state(shard.plan, shard.state).search_state or b"")


@pytest.mark.parametrize("name", BUFFERING)
def test_waiting_events_above_the_limit_are_an_error_and_a_larger_limit_continues_without_loss(name: str) -> None:
    engine = engines()[name]
    data = [event(i, "A") for i in range(200)] + [event(300, "B")]
    workload = make_workload(engine, [PLAIN], data)
    shard = limited(engine, workload, 16_000)
    shard.call(workload.data[:20], None)
    before = shard.state
    for _ in range(2):  # a restart with the same limit fails again, and changes nothing
        with pytest.raises(LimitError, match=r"events that wait for the watermark take [\d,]+ bytes") as raised:
            shard.call(workload.data[20:], None)
        assert "max_state allows 16,000. No event was dropped." in raised.value.message
        assert "larger max_state" in str(raised.value.hint)
        assert "stream.max_state" in str(raised.value.hint)
        assert shard.state == before
    with_limit(shard, 1 << 20)
    shard.call(workload.data[20:], None)
    assert shard.finish() == inputs_of(engine).expected(workload)
    assert len(shard.rows) == 200
    assert shard.counters["capped"] == 0


@pytest.mark.parametrize("name", ["sequence", "adaptive", "conservative", "aggressive"])
def test_events_of_a_leading_absence_are_not_evicted(name: str) -> None:
    """The absence of one key covers an event that arrives long after another key has filled the state."""
    engine = engines()[name]
    many = [event(i, "A", 2) for i in range(1, 201)]
    workload = make_workload(engine, [LEADING], [event(0, "C"), *many, event(300, "A"), event(305, "B")])
    shard = limited(engine, workload, 12_000)
    shard.call(workload.data[:21], -SECOND)
    for at in range(21, 201, 20):
        shard.call(workload.data[at : at + 20], (at - 1) * SECOND)
    shard.call(workload.data[201:], 250 * SECOND)
    assert shard.finish() == []
    assert shard.counters["capped"] > 100


@pytest.mark.parametrize("name", ["assemble", "early"])
def test_event_that_violates_a_negation_of_later_matches_is_not_evicted(name: str) -> None:
    """A late event begins a match that a much earlier event invalidates."""
    engine = engines()[name]
    many = [event(i, "A", 2) for i in range(40, 241)]
    workload = make_workload(engine, [ANY_BETWEEN], [event(20, "C"), *many, event(30, "B"), event(10, "A")])
    shard = limited(engine, workload, 200_000 if name == "early" else 12_000)
    for at in range(0, len(workload.data) - 1, 20):
        shard.call(workload.data[at : min(at + 20, len(workload.data) - 1)], None)
    shard.call(workload.data[-1:], None)
    assert shard.finish() == []
    assert name == "early" or shard.counters["capped"] > 50


def test_arrival_order_is_still_checked_for_keys_with_dropped_partial_matches() -> None:
    engine = engines()["sequence"]
    many = [event(i, "A", 2) for i in range(101, 301)]
    workload = make_workload(engine, [BETWEEN], [event(100, "C"), *many, event(50, "A"), event(400, "B")])
    shard = Shard(engine, workload, order="arrival", options={"max_state": 12_000})
    for at in range(0, len(workload.data), 20):
        shard.call(workload.data[at : at + 20], None)
    assert [row["type"] for row in shard.late] == ["A"]


def random_events(chance: random.Random, count: int) -> list[dict[str, Any]]:
    return [event(second * 2, chance.choice("AAABC"), chance.randrange(1, 4)) for second in range(count)]


@every_name
@pytest.mark.parametrize("seed", blocks(2, 4))
def test_state_stays_within_the_limit_and_every_match_is_right(name: str, seed: int) -> None:
    """Each call fails or stays below the limit, and after an error a larger limit continues."""
    engine, chance = engines()[name], random.Random(seed)
    failed = dropped = 0
    for text in (PLAIN, LEADING, FIRST, BETWEEN, ITERATED, ANY, ANY_BETWEEN):
        workload = make_workload(engine, [text], random_events(chance, 240))
        if not supports(engine, workload):
            continue
        limit = chance.choice((9_000, 14_000))
        shard = limited(engine, workload, limit)
        for call in cut(engine, workload, seed):
            if chance.random() < 0.3:
                shard.restart()
            try:
                shard.call(call.data, call.now)
            except LimitError:
                failed += 1
                limit *= 4
                with_limit(shard, limit)
                shard.call(call.data, call.now)
            assert event_bytes(shard) <= limit
        accepted = replace(workload, data=tuple(shard.accepted))
        found, right = shard.finish(), inputs_of(engine).expected(accepted)
        assert set(found) <= set(right), f"{text!r} seed {seed}"
        assert len(found) == len(right) or shard.counters["capped"], f"{text!r} seed {seed}: lost and not counted"
        dropped += shard.counters["capped"]
    assert failed + dropped > 0


def cut(engine: Engine, workload: PatternWorkload, seed: int) -> Sequence[Any]:
    """Return the data in calls of at most thirty rows."""
    out = []
    for call in calls_of(engine, workload, seed):
        for at in range(0, max(len(call.data), 1), 30):
            out.append(replace(call, data=call.data[at : at + 30]))
    return out


def test_finished_rows_have_no_state_and_no_limit() -> None:
    engine = engines()["sequence"]
    workload = make_workload(engine, [PLAIN], [*(event(i, "A") for i in range(200)), event(300, "B")])
    rows = inputs_of(engine).rows(workload, workload.data)
    plan = replace(engine.plan(workload.plan, inputs_of(engine).types(workload)), max_state=1 << 16)
    done = engine.step(plan, rows, None, Watermark(None, None, True))
    assert (done.rows.num_rows, done.state, done.counters["capped"]) == (200, None, 0)
