"""What every engine keeps of a stream out of order: what a window and the delay may still need, and at the end nothing."""

from __future__ import annotations

from typing import Any

from perseid.runtime.contract import Engine
from tests.contract.inputs import Question, inputs_of
from tests.contract.shards import OF_ALL, OF_KEY, arrivals, shard_of, takes
from tests.contract.streams import SECOND, Shard, bounded, kept_rows, times_of
from tests.contract.test_contract import every_engine

WINDOW, DELAY = 10, 5
"""In seconds."""
TEXTS = (
    "match A a ->> B b\nwithin 10 seconds\npartition by k",
    "match A a -> not C ->> B b ->> B c\nwithin 10 seconds\npartition by k",
    "match A a -> B+ b\nwithin 10 seconds\npartition by k\nreport timeouts",
    "match A a -> C c -> B b\nwithin 10 seconds\npartition by k\nselection recent",
    "match A a -> B b\nwithin 10 seconds\npartition by k\nsuppress 3 seconds",
)


def asked(engine: Engine, data: list[dict[str, Any]]) -> Question:
    """As many of the patterns as the engine takes."""
    write = inputs_of(engine).write
    taken = [text for text in TEXTS if takes(engine, write([text], []))]
    assert len(taken) > 1
    return write(taken, data)


def spans(question: Question) -> tuple[int, int]:
    """The longest window, and how long matches are suppressed."""
    suppressed = [plan.pattern.suppress for plan in question.plan.patterns]
    return (
        max(plan.retention.micros or plan.facts.bound or 0 for plan in question.plan.patterns),
        max((int(about.duration) for about in suppressed if about is not None), default=0),  # type: ignore[arg-type]
    )


@every_engine
def test_nothing_older_than_the_window_is_kept(engine: Engine) -> None:
    """Of what the watermark has passed; all else came within the delay."""
    kept = 0
    for seed in range(12):
        question = inputs_of(engine).ask(seed, False)
        if not bounded(question):
            continue
        shard, (span, _) = shard_of(engine, question), spans(question)
        for call in arrivals(engine, question, seed, beyond=1 + seed % 2, wild=seed % 2 > 0):
            shard.call(call.data, call.now)
            if shard.state is not None and call.now is not None:
                assert engine.report is not None
                oldest = engine.report(shard.state).oldest
                assert oldest is None or oldest > call.now - span, f"seed {seed}"
                kept += oldest is not None
    assert kept > 3


@every_engine
def test_the_state_is_empty_at_the_end(engine: Engine) -> None:
    """When the watermark has passed the last window and all that is suppressed; or at once, where the stream ends."""
    had = 0
    for seed in range(12):
        question = inputs_of(engine).ask(seed, False)
        if not question.data or not bounded(question):
            continue
        for ends in (False, True):
            shard, (span, suppressed) = shard_of(engine, question), spans(question)
            for call in arrivals(engine, question, seed, wild=True):
                shard.call(call.data, call.now)
            had += shard.state is not None
            if ends:
                shard.end()
            else:
                shard.call((), max(times_of(engine, question, question.data)) + span + suppressed + SECOND)
            assert shard.state is None, f"seed {seed}"
            assert shard.wake is None
    assert had > 6


RATE, BATCH = 2, 20
"""Events in a second, and in a call."""


def endless(engine: Engine, count: int) -> tuple[Shard, list[int], list[int]]:
    """A stream that is always the same, but for its keys, each of which is there for a while; how much was kept when."""
    rows = [{"second": i / RATE, "type": "ACBB"[i % 4], "k": (i + 5) // 20, "v": i % 3} for i in range(count)]
    question = asked(engine, rows)
    arriving = sorted(range(count), key=lambda i: i + 8 * (i % 2))  # every other one is four seconds late
    shard = shard_of(engine, question)
    kept, size = [], []
    for at in range(0, count, BATCH):
        came: list[Any] = [question.data[i] for i in arriving[at : at + BATCH]]
        if inputs_of(engine).promises:
            last = question.data[min(arriving[at + BATCH :], default=count) - 1]
            came += [{**last, "promise": OF_KEY, "any_type": True}, {**last, "promise": OF_ALL}]
        shard.call(came, None if not at else int((max(arriving[:at]) / RATE - DELAY) * SECOND))
        kept.append(kept_rows(engine, shard.state))
        size.append(0 if shard.state is None else len(shard.state))
    return shard, kept, size


@every_engine
def test_the_state_does_not_grow_with_the_stream(engine: Engine) -> None:
    """However long it is, whatever keys there were, and whatever was told: the same is kept as of a short one."""
    _, kept, size = endless(engine, 5 * BATCH)
    shard, kept_long, size_long = endless(engine, 50 * BATCH)
    assert max(kept) == max(kept_long) > 0
    assert max(kept) <= RATE * (WINDOW + DELAY) + BATCH
    assert max(size_long) <= max(size) + 200  # numbers have more digits, and no more than that
    assert len(shard.told) > 100
    assert not shard.late
    assert shard.counters["retracted"] > 20 or not engine.capabilities.retracts
    shard.finish()
    assert shard.state is None
