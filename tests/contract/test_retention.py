"""State retention on a stream out of order: events of open windows and of the delay, and an empty state at the end."""

from __future__ import annotations

from typing import Any

from perseid.runtime.contract import Engine
from tests.contract.inputs import PatternWorkload, inputs_of
from tests.contract.shards import OF_ALL, OF_KEY, arrivals, shard_of, supports
from tests.contract.streams import SECOND, Shard, bounded, retained_rows, times_of
from tests.contract.test_contract import every_engine

WINDOW, DELAY = 10, 5
"""Seconds."""
TEXTS = (
    "match A a ->> B b\nwithin 10 seconds\npartition by k",
    "match A a -> not C ->> B b ->> B c\nwithin 10 seconds\npartition by k",
    "match A a -> B+ b\nwithin 10 seconds\npartition by k\nreport timeouts",
    "match A a -> C c -> B b\nwithin 10 seconds\npartition by k\nselection recent",
    "match A a -> B b\nwithin 10 seconds\npartition by k\nsuppress 3 seconds",
)


def make_supported_workload(engine: Engine, data: list[dict[str, Any]]) -> PatternWorkload:
    """Return a workload with the patterns that the engine supports."""
    write = inputs_of(engine).write
    taken = [text for text in TEXTS if supports(engine, write([text], []))]
    assert len(taken) > 1
    return write(taken, data)


def spans(workload: PatternWorkload) -> tuple[int, int]:
    """Return the longest window, and the longest suppression."""
    suppressed = [plan.pattern.suppress for plan in workload.plan.patterns]
    return (
        max(plan.retention.micros or plan.facts.bound or 0 for plan in workload.plan.patterns),
        max((int(about.duration) for about in suppressed if about is not None), default=0),  # type: ignore[arg-type]
    )


@every_engine
def test_events_older_than_the_window_are_evicted(engine: Engine) -> None:
    """Of events that the watermark has passed; all others are within the delay."""
    retained = 0
    for seed in range(12):
        workload = inputs_of(engine).draw_workload(seed, False)
        if not bounded(workload):
            continue
        shard, (span, _) = shard_of(engine, workload), spans(workload)
        for call in arrivals(engine, workload, seed, beyond=1 + seed % 2, wild=seed % 2 > 0):
            shard.call(call.data, call.now)
            if shard.state is not None and call.now is not None:
                assert engine.report is not None
                oldest = engine.report(shard.state).oldest
                assert oldest is None or oldest > call.now - span, f"seed {seed}"
                retained += oldest is not None
    assert retained > 3


@every_engine
def test_state_is_empty_at_the_end(engine: Engine) -> None:
    """When the watermark has passed the last window and suppression; or immediately, if the stream ends."""
    had = 0
    for seed in range(12):
        workload = inputs_of(engine).draw_workload(seed, False)
        if not workload.data or not bounded(workload):
            continue
        for ends in (False, True):
            shard, (span, suppressed) = shard_of(engine, workload), spans(workload)
            for call in arrivals(engine, workload, seed, wild=True):
                shard.call(call.data, call.now)
            had += shard.state is not None
            if ends:
                shard.end()
            else:
                shard.call((), max(times_of(engine, workload, workload.data)) + span + suppressed + SECOND)
            assert shard.state is None, f"seed {seed}"
            assert shard.timer is None
    assert had > 6


RATE, BATCH = 2, 20
"""Events per second, and per call."""


def endless(engine: Engine, count: int) -> tuple[Shard, list[int], list[int]]:
    """Run a uniform stream in which keys appear for a while; return the retained events after each call."""
    rows = [{"second": i / RATE, "type": "ACBB"[i % 4], "k": (i + 5) // 20, "v": i % 3} for i in range(count)]
    workload = make_supported_workload(engine, rows)
    arriving = sorted(range(count), key=lambda i: i + 8 * (i % 2))  # every second one is four seconds late
    shard = shard_of(engine, workload)
    retained, size = [], []
    for at in range(0, count, BATCH):
        came: list[Any] = [workload.data[i] for i in arriving[at : at + BATCH]]
        if inputs_of(engine).takes_punctuations:
            last = workload.data[min(arriving[at + BATCH :], default=count) - 1]
            came += [{**last, "promise": OF_KEY, "any_type": True}, {**last, "promise": OF_ALL}]
        shard.call(came, None if not at else int((max(arriving[:at]) / RATE - DELAY) * SECOND))
        retained.append(retained_rows(engine, shard.state))
        size.append(0 if shard.state is None else len(shard.state))
    return shard, retained, size


@every_engine
def test_retained_state_does_not_grow_with_the_stream(engine: Engine) -> None:
    """A long stream has the same state as a short one, for any number of keys and matches."""
    _, retained, size = endless(engine, 5 * BATCH)
    shard, kept_long, size_long = endless(engine, 50 * BATCH)
    assert max(retained) == max(kept_long) > 0
    assert max(retained) <= RATE * (WINDOW + DELAY) + BATCH
    assert max(size_long) <= max(size) + 200  # only numbers have more digits
    assert len(shard.emitted) > 100
    assert not shard.late
    assert shard.counters["retracted"] > 20 or not engine.capabilities.retracts
    shard.finish()
    assert shard.state is None
