"""Properties of every engine on a stream: the oracle's matches at every horizon, for any cut of the data into calls."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from perseid.errors import LimitError, PatternError
from perseid.runtime.contract import Engine, StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.registry import engines_for
from perseid.runtime.state_codec import decode_state
from perseid.runtime.watermark import Watermark
from perseid.semantics.core import CorePattern
from tests.blocks import blocks
from tests.contract.inputs import PatternWorkload, Row, inputs_of, result_rows, without_numba
from tests.contract.shards import arrivals, shard_of
from tests.contract.streams import (
    FAR,
    SECOND,
    Shard,
    StreamCall,
    bounded,
    calls_of,
    key_of,
    retained_rows,
    streamed,
    suppresses,
    times_of,
)
from tests.contract.test_contract import every_engine, telling_engine, whole_engine

BASE = int(os.environ.get("PERSEID_SEEDS", "2000000"))
"""First seed of the deep runs."""
DEEP_BLOCK = 1_000
PLAIN = "match A a -> B b\nwithin 10 seconds\npartition by k"
LAST = "match A a -> B+ b\nwithin 10 seconds\npartition by k"
"""Pattern whose matches are final when the window closes."""


def seconds(*said: tuple[int, str], **more: Any) -> list[dict[str, Any]]:
    """Return events of one key, by second and type."""
    return [{"second": second, "type": kind, "k": 1, "v": 1, **more} for second, kind in said]


def make_workload(
    engine: Engine, texts: Sequence[str], data: Sequence[dict[str, Any]], **changes: Any
) -> PatternWorkload:
    return replace(inputs_of(engine).write(texts, data), **changes)


def assert_same_step(one: StepResult, other: StepResult) -> None:
    """Assert that two steps are equal to the last bit."""
    assert one.rows.schema == other.rows.schema
    assert repr(one.rows.to_pydict()) == repr(other.rows.to_pydict())
    assert (one.state, one.next_timer, dict(one.counters)) == (other.state, other.next_timer, dict(other.counters))
    assert list(one.late) == list(other.late)


# Independence of calls, shards and restarts


def check_any_cut(engine: Engine, seed: int, workload: PatternWorkload, beyond: float = 1.0) -> int:
    """Compare a run cut into calls with the oracle at every horizon, and at the end; repeat every call."""
    inputs = inputs_of(engine)
    shard = Shard(engine, workload)
    for call in calls_of(engine, workload, seed, beyond=beyond):
        times = times_of(engine, workload, call.data)
        expected_late = [
            row for row, time in zip(call.data, times, strict=True) if call.now is not None and time <= call.now
        ]
        late = len(shard.late)
        again = shard.step(call.data, Watermark(shard.now, call.now, False))
        assert_same_step(shard.call(call.data, call.now), again)
        assert shard.late[late:] == expected_late, f"seed {seed}"
        if call.now is not None and not suppresses(workload):
            # Suppression delays output until the order of ends is known.
            received = replace(workload, data=tuple(shard.accepted))
            assert shard.rows == inputs.expected(received, call.now), f"seed {seed} at {call.now}"
    assert beyond > 1 or not shard.late
    assert len(shard.accepted) + len(shard.late) == len(workload.data)
    received = replace(workload, data=tuple(shard.accepted))
    assert shard.finish() == inputs.expected(received), f"seed {seed}"
    return len(shard.emitted)


@telling_engine
@pytest.mark.parametrize("block", blocks(1, 4))
def test_any_cut_into_calls_equals_the_oracle(engine: Engine, block: int) -> None:
    draw_workload = inputs_of(engine).draw_workload
    assert (
        sum(check_any_cut(engine, seed, draw_workload(seed, False)) for seed in range(block * 35, block * 35 + 35)) > 20
    )


@telling_engine
@pytest.mark.parametrize("block", blocks(1, 2))
def test_late_rows_are_dropped_and_counted(engine: Engine, block: int) -> None:
    draw_workload = inputs_of(engine).draw_workload
    seeds = range(block * 35, block * 35 + 35)
    assert sum(check_any_cut(engine, seed, draw_workload(seed, False), beyond=4) for seed in seeds) > 20


@telling_engine
def test_ended_stream_equals_the_batch(engine: Engine) -> None:
    """For a shard that ends in its first call, and for one that ends later."""
    for seed in range(30):
        workload = inputs_of(engine).draw_workload(seed, False)
        shard = Shard(engine, workload)
        for call in calls_of(engine, workload, seed):
            shard.call(call.data, call.now)
        shard.end()
        assert shard.rows == inputs_of(engine).expected(workload), f"seed {seed}"


@telling_engine
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.deep), 7])
def test_any_number_of_pattern_shards(engine: Engine, count: int) -> None:
    """Each shard has its own state, and may be called or not if it receives no rows."""
    for seed in range(count * 10, count * 10 + 10):
        workload = inputs_of(engine).draw_workload(seed, True)
        place = random.Random(seed)
        shard_of = {key: place.randrange(count) for key in {row["k"] for row in workload.data}}
        shards = [Shard(engine, workload, options={"shards": count}) for _ in range(count)]
        for call in calls_of(engine, workload, seed):
            for number, shard in enumerate(shards):
                mine = [row for row in call.data if shard_of[row["k"]] == number]
                called = mine or (shard.timer is not None and call.now is not None and shard.timer <= call.now)
                if called or place.random() < 0.5:
                    shard.call(mine, call.now)
        emitted = [row for shard in shards for row in shard.finish()]
        assert sorted(emitted, key=repr) == inputs_of(engine).expected(workload), f"seed {seed}"


@telling_engine
def test_same_calls_have_the_same_steps(engine: Engine) -> None:
    for seed in range(15):
        workload = inputs_of(engine).draw_workload(seed, False)
        one, other = Shard(engine, workload), Shard(engine, workload)
        for call in calls_of(engine, workload, seed):
            assert_same_step(one.call(call.data, call.now), other.call(list(call.data), call.now))


@every_engine
def test_restart_before_every_call_does_not_change_matches(engine: Engine) -> None:
    """Only the bytes of the state pass from one call to the next."""
    for seed in range(5):
        workload = inputs_of(engine).draw_workload(seed, False)
        one, other = shard_of(engine, workload), shard_of(engine, workload)
        for call in arrivals(engine, workload, seed, wild=True):
            other.restart()
            assert_same_step(one.call(call.data, call.now), other.call(list(call.data), call.now))
        assert one.finish() == other.finish()


@whole_engine
def test_watermark_does_not_move_back(engine: Engine) -> None:
    """An older watermark of the driver is ignored: no match is duplicated."""
    workload = make_workload(engine, [PLAIN, LAST], seconds((1, "A"), (2, "B"), (3, "A"), (5, "B")))
    for lower in (None, 0, 2 * SECOND):
        shard = Shard(engine, workload)
        shard.call(workload.data, 4 * SECOND - SECOND * 4)
        shard.call((), 4 * SECOND)
        emitted = list(shard.emitted)
        shard.engine.step(shard.plan, shard.inputs.rows(workload, ()), shard.state, Watermark(None, lower, False))
        step = shard.step((), Watermark(None, lower, False))
        assert result_rows(step, workload) == []
        shard.state = step.state
        assert emitted
        assert shard.finish() == inputs_of(engine).expected(workload)


@pytest.mark.deep
@telling_engine
def test_streams_without_numba_have_the_same_output(engine: Engine) -> None:
    plain = without_numba("tests.contract.streams", f"streamed({engine.name!r}, range(12))")
    assert plain == json.loads(json.dumps(streamed(engine.name, range(12))))


# Arrival order


def check_arrival_order(engine: Engine, seed: int, workload: PatternWorkload, disorder: float = 0.0) -> tuple[int, int]:
    """Compare the accepted rows with the oracle; a row older than the newest of its key is late."""
    inputs = inputs_of(engine)
    shard = Shard(engine, workload, "arrival")
    calls = calls_of(engine, workload, seed, order="arrival")
    chance = random.Random(seed)
    if disorder:
        moved = [(n + chance.random() * disorder, call) for n, call in enumerate(calls)]
        calls = [call for _, call in sorted(moved, key=lambda pair: pair[0])]
    wanted = workload.plan.event_types
    newest: dict[object, int] = {}
    for call in calls:
        times = times_of(engine, workload, call.data)
        keys = [key_of(workload, row) for row in call.data]
        late = [time < newest.get(key, time) for key, time in zip(keys, times, strict=True)]
        before = len(shard.late)
        again = shard.step(call.data, Watermark(shard.now, None, False))
        assert_same_step(shard.call(call.data, None), again)
        assert shard.late[before:] == [row for row, gone in zip(call.data, late, strict=True) if gone], f"seed {seed}"
        for row, key, time, gone in zip(call.data, keys, times, late, strict=True):
            if not gone and (wanted is None or row["type"] in wanted):
                newest[key] = max(time, newest.get(key, time))
    assert len(shard.accepted) + len(shard.late) == len(workload.data)
    received = replace(workload, data=tuple(shard.accepted))
    assert shard.finish() == inputs.expected(received), f"seed {seed}"
    return len(shard.emitted), len(shard.late)


def draw_with_one_key(engine: Engine, seeds: range, keyed: bool) -> list[tuple[int, PatternWorkload]]:
    asked = [(seed, inputs_of(engine).draw_workload(seed, keyed)) for seed in seeds]
    return [(seed, workload) for seed, workload in asked if len(workload.plan.routes) == 1]


@whole_engine
def test_arrival_order_equals_the_oracle(engine: Engine) -> None:
    emitted = [
        check_arrival_order(engine, seed, workload)[0] for seed, workload in draw_with_one_key(engine, range(40), True)
    ]
    emitted += [
        check_arrival_order(engine, seed, workload)[0]
        for seed, workload in draw_with_one_key(engine, range(100, 140), False)
    ]
    assert sum(emitted) > 50


@whole_engine
def test_arrival_order_drops_late_rows(engine: Engine) -> None:
    asked = draw_with_one_key(engine, range(200, 250), True)
    late = sum(check_arrival_order(engine, seed, workload, disorder=2.5)[1] for seed, workload in asked)
    assert late > 20


@whole_engine
def test_arrival_order_emits_without_a_watermark(engine: Engine) -> None:
    """The watermark does not move; a match is emitted with its last event."""
    workload = make_workload(engine, [PLAIN], seconds((1, "A"), (2, "B"), (3, "A"), (4, "B")))
    shard = Shard(engine, workload, "arrival")
    emitted = []
    for row in workload.data:
        shard.call([row], None)
        emitted.append(len(shard.emitted))
    assert emitted == [0, 1, 1, 2]
    waiting = Shard(engine, workload)
    for row in workload.data:
        waiting.call([row], None)
    assert waiting.emitted == []
    assert shard.finish() == waiting.finish() == inputs_of(engine).expected(workload)


# Timers


def relevant_times(engine: Engine, workload: PatternWorkload) -> list[int]:
    """Return times at which something may become final: each event time, plus each duration of the patterns."""
    times = set(times_of(engine, workload, workload.data))
    spans = {0, *range(SECOND, 11 * SECOND, SECOND)}
    return sorted({time + span for time in times for span in spans})


def call_at_timers(shard: Shard, times: Sequence[int]) -> dict[Row, int]:
    """Call the shard only at its timers, a timer at the next microsecond at any time; return the time of each match."""
    emitted: dict[Row, int] = {}
    calls = 0
    while shard.timer is not None:
        timer = shard.timer
        if shard.now is None or timer > shard.now + 1:
            before = shard.step((), Watermark(shard.now, timer - 1, False))
            assert before.rows.num_rows == 0, "a match is emitted before the timer"
        else:
            timer = next((time for time in times if time >= timer), FAR)
        known = len(shard.emitted)
        shard.call((), timer)
        emitted.update(dict.fromkeys(shard.emitted[known:], timer))
        calls += 1
        assert calls < 400, "the shard asks to be called again and again"
    return emitted


@telling_engine
@pytest.mark.parametrize("block", blocks(1, 3))
def test_timers_suffice(engine: Engine, block: int) -> None:
    """Nothing is emitted before the timer, and calls at timers emit each match as early as more frequent calls."""
    counted = 0
    for seed in range(block * 30, block * 30 + 30):
        workload = inputs_of(engine).draw_workload(seed, False)
        if not bounded(workload):
            continue
        calls = calls_of(engine, workload, seed)
        rare, dense = Shard(engine, workload), Shard(engine, workload)
        for call in calls:
            rare.call(call.data, call.now)
            dense.call(call.data, call.now)
        times = relevant_times(engine, workload)
        emitted = call_at_timers(rare, times)
        counted += len(emitted)
        for time in [time for time in times if dense.now is None or time > dense.now]:
            known = len(dense.emitted)
            dense.call((), time)
            assert all(emitted[row] <= time for row in dense.emitted[known:]), f"seed {seed}"
        assert rare.state is None
        assert dense.state is None
        assert rare.rows == dense.rows == inputs_of(engine).expected(workload), f"seed {seed}"
    assert counted > 5


@whole_engine
@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        LAST,
        "match not C for 2 seconds -> A a -> B+ b\nwithin 10 seconds\npartition by k",
        LAST + "\nsuppress 3 seconds",
        "match A a -> not C for 2 seconds\npartition by k\nafter match skip past last\nsuppress 3 seconds",
        "match A a -> not B for 5 seconds\npartition by k\nreport timeouts",
    ],
)
def test_timers_are_few(engine: Engine, text: str) -> None:
    """A timer is set for a change, and not for every microsecond until then."""
    rows = seconds((1, "A"), (2, "B"), (5, "A"), (6, "A"), (7, "B"), (9, "A"), (10, "A"))
    workload = make_workload(engine, [text], rows)
    shard = Shard(engine, workload)
    shard.call(workload.data, None)
    timers = []
    while shard.timer is not None:
        timers.append(shard.timer)
        shard.call((), shard.timer)
        assert len(timers) < 25, timers
    assert shard.state is None
    assert shard.rows == inputs_of(engine).expected(workload)


@whole_engine
def test_call_without_effect_does_not_change_the_timer(engine: Engine) -> None:
    """With only late rows or without rows, the shard still waits."""
    workload = make_workload(engine, [LAST + "\nsuppress 20 seconds"], seconds((1, "A"), (2, "B")))
    for order in ("watermark", "arrival"):
        shard = Shard(engine, workload, order)
        shard.call(workload.data, None)
        for now in (None, None, 5 * SECOND, 5 * SECOND, 12 * SECOND, 12 * SECOND):
            shard.call((), now)  # the shard checks: state, and so a timer
        assert len(shard.emitted) == 1
        assert retained_rows(engine, shard.state) == 0  # only suppression is left
        assert shard.finish() == inputs_of(engine).expected(workload)


# Retention


def retained_times(state: bytes | None) -> list[int]:
    """Return the times of retained events that were matched before."""
    if state is None:
        return []
    table = decode_state(state).tables[0].to_pydict()
    return [time for time, searched in zip(table["time"], table["searched"], strict=True) if searched]


@whole_engine
@pytest.mark.parametrize("block", blocks(1, 3))
def test_retention_of_the_plan(engine: Engine, block: int) -> None:
    """A matched event is retained for the longest window of its plan, and no longer."""
    retained = 0
    for seed in range(block * 50, block * 50 + 50):
        workload = inputs_of(engine).draw_workload(seed, False)
        plans = workload.plan.patterns
        if not bounded(workload):
            continue
        span = max(plan.retention.micros or 0 for plan in plans)
        shard = Shard(engine, workload)
        for call in calls_of(engine, workload, seed):
            shard.call(call.data, call.now)
            times = retained_times(shard.state)
            assert call.now is not None or not times
            assert not times or min(times) > call.now - span, f"seed {seed}"  # type: ignore[operator]
            if all(plan.retention.kind == "empty" for plan in plans):
                assert not times
            retained += len(times)
    assert retained > 15


def count_retained(engine: Engine, text: str) -> list[int]:
    """Return the number of retained events of a key with constant traffic."""
    data = seconds(*((i, "B" if i % 7 == 6 else "A") for i in range(200)))
    workload = make_workload(engine, [text], data)
    shard = Shard(engine, workload)
    retained = []
    for at in range(0, 200, 10):
        shard.call(workload.data[at : at + 10], (at - 1) * SECOND)
        retained.append(retained_rows(engine, shard.state))
    assert shard.finish() == inputs_of(engine).expected(workload)
    return retained


@whole_engine
@pytest.mark.parametrize("clause", ["", "\nsuppress 3 seconds", "\nafter match skip past last", "\nreport timeouts"])
def test_busy_key_retains_one_window(engine: Engine, clause: str) -> None:
    assert max(count_retained(engine, LAST + clause)) <= 10 + 2 * 10 + 1


CONTEXTS = ("chronicle", "immediate", "strict immediate", "continuous", "recent", "cumulative")


@whole_engine
@pytest.mark.parametrize("context", CONTEXTS)
def test_busy_key_in_a_selection_context(engine: Engine, context: str) -> None:
    """Partial matches are retained, and not all events since the last time without one."""
    for shape, clause in (
        ("A a -> B b", ""),
        ("A a -> B b", "\nreport timeouts"),
        ("A a -> B b", "\nsuppress 3 seconds"),
        ("A a -> A b -> B c", ""),
        ("A a -> C c", "\nreport timeouts"),
    ):
        text = f"match {shape}\nwithin 10 seconds\npartition by k\nselection {context}{clause}"
        assert max(count_retained(engine, text)) <= 10 + 2 * 10 + 1, text


@whole_engine
@pytest.mark.parametrize("context", CONTEXTS)
def test_selection_context_continues_from_its_partial_matches(engine: Engine, context: str) -> None:
    """For any cut: totals, alternative transitions to a step, names, timeouts, and delayed matches."""
    asked = 0
    for match in (
        "A+ a -> C c -> B b [v > sum(a.v)]",
        "(A+ a)+ -> B b",
        "A a -> B* b -> C c",
        "A+? a -> not C -> B b",
        "A(v as u) a -> (B(v as u)+ b | C c)",
        "A a -> not (C x -> C y) -> B b",
        "A+ a -> not (C+ x -> B y [v > sum(x.v)]) -> C c [v <= sum(a.v)]",
        "A a -> B b [v > a.v] -> C c",
    ):
        for clause in ("", "\nreport timeouts", "\nsuppress 3 seconds"):
            text = f"match {match}\nwithin 8 seconds\npartition by k\nselection {context}{clause}"
            chance = random.Random(text)
            data = [
                {"second": i // 2, "type": chance.choice("AAABBC"), "k": chance.randrange(2), "v": chance.randrange(4)}
                for i in range(60)
            ]
            try:
                workload = make_workload(engine, [text], data)
            except PatternError:
                continue  # cumulative has no repetition
            shard = Shard(engine, workload)
            for at in range(0, 60, 2):
                shard.call(workload.data[at : at + 2], (at // 2 - 2) * SECOND)
            assert shard.finish() == inputs_of(engine).expected(workload), text
            assert shard.counters["capped"] == 0
            asked += len(shard.rows)
    assert asked > 5


# Changed sets of patterns


def rows_of_pattern(rows: Sequence[Row], pattern: CorePattern) -> list[Row]:
    return sorted((row for row in rows if row[0] == pattern.name), key=repr)


def draw_patterns(engine: Engine, seed: int, keyed: bool) -> tuple[PatternWorkload, list[CorePattern]]:
    """Return a workload, and four patterns of different meanings over its data."""
    draw_workload = inputs_of(engine).draw_workload
    workload, other = draw_workload(3 * seed + 2, keyed), draw_workload(3 * (seed + 1_000_000) + 2, keyed)
    more = []
    for number, pattern in enumerate(other.patterns[:2]):
        returns = tuple((f"{name}_more", expr) for name, expr in pattern.returns)
        more.append(replace(pattern, name=f"more{number}", returns=returns))
    return workload, [*workload.patterns[:2], *more]


def check_changed_patterns(engine: Engine, seed: int, order: str, routed: bool = False) -> int:
    """Run one set of patterns up to some call, then another."""
    inputs = inputs_of(engine)
    chance = random.Random(seed)
    workload, pool = draw_patterns(engine, seed, order == "arrival")
    before, after = ([pattern for pattern in pool if chance.random() < 0.6] for _ in range(2))
    chance.shuffle(after)
    calls = calls_of(engine, workload, seed, order=order)
    routes = replace(workload, patterns=tuple(pool)).plan.routes
    if not before or not after or len(calls) < 2 or len({p.semantic_hash for p in pool}) < len(pool):
        return 0
    if order == "arrival" and len(routes) > 1:
        return 0
    cut = chance.randrange(1, len(calls))
    one = Shard(engine, replace(workload, patterns=tuple(before)), order, routed=routed)
    for call in calls[:cut]:
        one.call(call.data, call.now)
    other = Shard(engine, replace(workload, patterns=tuple(after)), order, routed=routed, state=one.state, now=one.now)
    newest = max(decode_state(one.state).tables[0]["time"].to_pylist(), default=one.now) if one.state else one.now
    newest_arrived = max(times_of(engine, workload, [row for call in calls[:cut] for row in call.data]), default=None)
    for call in calls[cut:]:
        other.call(call.data, call.now)
    other.finish()
    found = 0
    for pattern in after:
        alone = replace(workload, patterns=(pattern,))
        emitted = rows_of_pattern([*one.emitted, *other.emitted], pattern)
        (plan,) = alone.plan.patterns
        if pattern in before:
            expected = inputs.expected(alone)
        elif order == "arrival":
            if (
                newest_arrived is None
                or pattern.context
                or pattern.lead
                or pattern.suppress
                or pattern.skip.mode != "none"
            ):
                continue  # earlier matches decide which matches follow
            expected = [row for row in inputs.expected(alone) if row[3] > newest_arrived]  # type: ignore[operator]
            emitted = [row for row in emitted if row[3] > newest_arrived]  # type: ignore[operator]
        elif plan.facts.lookback and plan.facts.bound is None:
            continue  # while it is open, it may look back at earlier events
        else:
            ways = [tuple(".".join(path.parts) for path in each.partition) for each in (pattern, *before)]
            keyed = {*ways[0]} <= {name for way in ways[1:] for name in way}
            if routed and (one.rows_per_event > 1 or other.rows_per_event > 1):
                keyed = ways[0] in ways[1:]  # waiting events were not sent to another key
            since = one.now if keyed else newest
            if one.state is not None:
                # Events before the first call are unknown up to its watermark.
                since = max((time for time in (since, calls[cut].now) if time is not None), default=None)
            times = times_of(engine, workload, workload.data)
            pairs = zip(workload.data, times, strict=True)
            visible = tuple(row for row, time in pairs if since is None or time > since)
            expected = inputs.expected(replace(alone, data=visible))
        found += len(expected)
        assert emitted == expected, f"seed {seed}: {pattern.name}"
    return found


@whole_engine
@pytest.mark.parametrize("order", ["watermark", "arrival"])
@pytest.mark.parametrize("block", blocks(1, 3))
def test_changed_patterns_continue(engine: Engine, order: str, block: int) -> None:
    """Retained patterns have no gap, added patterns start at the change, and their order has no effect."""
    assert sum(check_changed_patterns(engine, seed, order) for seed in range(block * 30, block * 30 + 30)) > 4


@whole_engine
def test_changed_patterns_continue_with_routed_rows(engine: Engine) -> None:
    """The same with separate rows for each partition key."""
    assert sum(check_changed_patterns(engine, seed, "watermark", routed=True) for seed in range(200, 240)) > 9


@whole_engine
def test_each_partition_key_has_separate_rows(engine: Engine) -> None:
    counted = 0
    for seed in range(300, 360):
        workload = inputs_of(engine).draw_workload(seed, False)
        if len(workload.plan.routes) < 2:
            continue
        shard = Shard(engine, workload, routed=True)
        for call in calls_of(engine, workload, seed, beyond=2):
            shard.call(call.data, call.now)
        emitted = shard.finish()
        assert emitted == inputs_of(engine).expected(replace(workload, data=tuple(shard.accepted))), f"seed {seed}"
        counted += len(emitted)
    assert counted > 20


@whole_engine
def test_removed_pattern_leaves_no_state(engine: Engine) -> None:
    data = seconds((1, "A"), (2, "B"), (3, "C"))
    both = make_workload(engine, [LAST, "match C c -> A a\nwithin 1 hour\npartition by k"], data)
    shard = Shard(engine, both)
    shard.call(both.data, None)
    shard.call((), 4 * SECOND)
    gone = both.patterns[1].semantic_hash
    assert gone.encode() in (shard.state or b"")
    shard = Shard(engine, replace(both, patterns=both.patterns[:1]), state=shard.state, now=shard.now)
    shard.call((), 5 * SECOND)
    assert retained_times(shard.state) == [1 * SECOND, 2 * SECOND]
    assert gone.encode() not in (shard.state or b"")
    shard.call((), 11 * SECOND)
    assert shard.state is None


@whole_engine
def test_added_pattern_is_reported_as_incomplete(engine: Engine) -> None:
    """Until one window and its lookback have passed."""
    rows = seconds((1, "A"), (3, "A"), (5, "B"), (6, "A"), (7, "B"), (30, "A"), (31, "B"))
    added = "match not C for 5 seconds -> A a -> B b\nwithin 10 seconds\npartition by k"
    both = make_workload(engine, [LAST, added], rows)
    one = Shard(engine, replace(both, patterns=both.patterns[:1]))
    one.call(both.data[:2], None)
    assert one.call((), 4 * SECOND).counters.get("incomplete", 0) == 0
    other = Shard(engine, both, state=one.state, now=one.now)
    counted = []
    for now in (4, 5, 12, 19, 20, 25):
        data = both.data[2:] if now == 4 else ()
        counted.append(other.call(data, now * SECOND).counters.get("incomplete", 0))
    assert counted == [1, 1, 1, 1, 0, 0]
    other.finish()
    expected = inputs_of(engine).expected(replace(both, data=both.data[2:]))
    assert rows_of_pattern(other.emitted, both.patterns[1]) == rows_of_pattern(expected, both.patterns[1])


@whole_engine
@pytest.mark.parametrize("what", ["columns", "decided"])
def test_added_pattern_of_missing_columns_starts_after_the_retained_events(engine: Engine, what: str) -> None:
    """It starts after the newest retained event; the other patterns continue."""
    inputs = inputs_of(engine)
    rows = seconds((1, "A"), (2, "A"), (4, "B"), (6, "A"), (7, "B"))
    added = "match A a [i > 0] -> B b\nwithin 10 seconds\npartition by k\nreturn a.i as i"
    both = make_workload(engine, [LAST, added], [{**row, "i": 5} for row in rows])
    (number,) = [predicate.id for predicate in both.plan.predicates]

    def shaped(workload: PatternWorkload, data: Sequence[Any]) -> EventBatch:
        """Return rows as a driver sends them: without columns and predicates that no pattern uses."""
        given = inputs.rows(workload, data)
        has_added_pattern = len(workload.patterns) > 1
        names = ["v", *(["i"] if has_added_pattern else [])]
        decided = {number: given.time >= 0} if has_added_pattern and what == "decided" else {}
        return replace(given, columns={name: given.columns[name] for name in names}, predicate_masks=decided)

    def run_calls(
        workload: PatternWorkload, state: bytes | None, calls: Sequence[StreamCall]
    ) -> tuple[list[Row], bytes | None]:
        plan = engine.plan(workload.plan, inputs.types())
        emitted: list[Row] = []
        for call in calls:
            step = engine.step(plan, shaped(workload, call.data), state, Watermark(None, call.now, False))
            emitted += result_rows(step, workload)
            state = step.state
        return emitted, state

    old = replace(both, patterns=both.patterns[:1])
    first, state = run_calls(old, None, [StreamCall(both.data[:2], None), StreamCall((), 1 * SECOND)])
    second, state = run_calls(
        both, state, [StreamCall(both.data[2:], 1 * SECOND), StreamCall((), 5 * SECOND), StreamCall((), FAR)]
    )
    assert state is None
    whole = inputs.expected(both)
    assert rows_of_pattern([*first, *second], both.patterns[0]) == rows_of_pattern(whole, both.patterns[0])
    assert [row[3] for row in rows_of_pattern(second, both.patterns[1])] == [6 * SECOND]


@whole_engine
def test_added_pattern_does_not_evict_events_of_others_in_arrival_order(engine: Engine) -> None:
    rows = seconds((1, "A"), (2, "A"), (4, "B"), (6, "A"), (7, "B"))
    both = make_workload(engine, [LAST, "match A a -> B b\nwithin 20 seconds\npartition by k"], rows)
    one = Shard(engine, replace(both, patterns=both.patterns[:1]), "arrival")
    one.call(both.data[:2], None)
    one.call((), 1 * SECOND)
    for patterns in (both.patterns, both.patterns[::-1]):
        other = Shard(engine, replace(both, patterns=patterns), "arrival", state=one.state, now=one.now)
        for row in both.data[2:]:
            other.call([row], 1 * SECOND)
        emitted = rows_of_pattern(other.finish(), both.patterns[0])
        assert emitted == rows_of_pattern(inputs_of(engine).expected(both), both.patterns[0])


@whole_engine
def test_equal_patterns_have_separate_matches_and_suppression(engine: Engine) -> None:
    """Under two names, each emits its matches, and none suppresses those of the other."""
    rows = seconds((1, "A"), (2, "B"), (3, "B"), (4, "A"), (5, "B"), (30, "A"), (31, "B"))
    workload = make_workload(engine, [LAST + "\nsuppress 5 seconds"] * 2, rows)
    shard = Shard(engine, workload)
    for row in workload.data:
        shard.call([row], row["number"] * SECOND - SECOND)
    assert shard.finish() == inputs_of(engine).expected(workload)
    assert {row[0] for row in shard.emitted} == {"p0", "p1"}


@whole_engine
def test_suppression_across_keys(engine: Engine) -> None:
    """Matches are emitted in the order of their ends, independent of the order in which keys become final."""
    rows = [
        {"second": 0, "type": "A", "k": 1, "v": 1},
        {"second": 1, "type": "A", "k": 2, "v": 1},
        {"second": 2, "type": "B", "k": 2, "v": 1},
        {"second": 5, "type": "B", "k": 1, "v": 1},
    ]
    workload = make_workload(engine, [LAST + "\nreturn a.v as v\nsuppress 10 seconds by v"], rows)
    for times in (range(13), [5, 10, 11], [10, 12], [12]):
        shard = Shard(engine, workload)
        shard.call(workload.data, None)
        for second in times:
            shard.call((), second * SECOND)
            assert shard.rows == inputs_of(engine).expected(workload, second * SECOND)
        assert shard.finish() == inputs_of(engine).expected(workload)


# Counters


@whole_engine
def test_partial_matches_above_the_cap_are_dropped(engine: Engine) -> None:
    """The oldest first, and they are counted."""
    workload = make_workload(
        engine,
        ["match A a -> B b\nwithin forever\npartition by k"],
        seconds(*((i, "A") for i in range(10)), (20, "B")),
    )
    shard = Shard(engine, workload)
    plans = tuple(
        replace(numbered, pattern=replace(numbered.pattern, retention=replace(numbered.pattern.retention, cap=3)))
        for numbered in shard.plan.patterns
    )
    shard.__dict__["plan"] = replace(shard.plan, patterns=plans)
    shard.call(workload.data[:10], None)
    assert shard.call((), 10 * SECOND).counters["capped"] == 7
    assert retained_rows(engine, shard.state) == 3
    shard.call(workload.data[10:], 10 * SECOND)
    shard.end()
    assert sorted(row[3] for row in shard.rows) == [7 * SECOND, 8 * SECOND, 9 * SECOND]  # type: ignore[type-var]


@whole_engine
def test_partial_matches_above_max_state_are_dropped(engine: Engine) -> None:
    workload = make_workload(
        engine,
        ["match A a -> B b\nwithin 1 hour\npartition by k"],
        seconds(*((i, "A") for i in range(200)), (300, "B")),
    )
    shard = Shard(engine, workload, options={"max_state": 16_000})
    with pytest.raises(LimitError, match="wait for the watermark"):
        shard.call(workload.data, None)
    for at in range(0, 200, 20):
        shard.call(workload.data[at : at + 20], (at - 1) * SECOND)
        assert shard.state is None or len(shard.state) <= 16_000
    shard.call(workload.data[200:], 250 * SECOND)
    emitted = len(shard.finish())
    assert shard.counters["capped"] > 0
    assert emitted + shard.counters["capped"] == 200
    assert {row[3] for row in shard.emitted} == {second * SECOND for second in range(200 - emitted, 200)}


@whole_engine
def test_counters_of_a_stream(engine: Engine) -> None:
    """Late rows, duplicates, suppressed and timed-out matches, each counted once for any cut into calls."""
    rows = seconds((1, "A"), (2, "B"), (2, "B"), (3, "A"), (4, "B"), (9, "A"), (30, "C"))
    rows[2]["number"] = 1
    text = "match A a -> B b\nwithin 10 seconds\npartition by k\nreport timeouts\nsuppress 5 seconds"
    workload = make_workload(engine, [text], rows, dedupe=True)
    for cut in range(1, 6):
        shard = Shard(engine, workload)
        shard.call(workload.data[:cut], None)
        shard.call(workload.data[cut:], None)
        shard.call(workload.data[:1], 20 * SECOND)
        assert shard.finish() == inputs_of(engine).expected(workload)
        counted = {name: shard.counters[name] for name in ("late", "duplicates", "suppressed", "timed_out", "matches")}
        assert counted == {"late": 1, "duplicates": 1, "suppressed": 1, "timed_out": 1, "matches": 1}
        assert shard.counters["events"] == len(rows)


@whole_engine
def test_live_keys_counter(engine: Engine) -> None:
    rows = [{"second": i, "type": "A", "k": i % 4, "v": 1} for i in range(8)]
    workload = make_workload(engine, [PLAIN], rows)
    shard = Shard(engine, workload)
    assert shard.call(workload.data, None).counters["live_keys"] == 4
    assert shard.call((), 12 * SECOND).counters["live_keys"] == 4
    assert shard.call((), 15 * SECOND).counters["live_keys"] == 2
    assert shard.call((), 17 * SECOND).counters["live_keys"] == 0


# Long runs


@pytest.mark.deep
@pytest.mark.timeout(7200)
@whole_engine
@pytest.mark.parametrize("block", range(20_000 // DEEP_BLOCK))
def test_streams_deep(engine: Engine, block: int) -> None:
    """20,000 workloads, each with calls in order, with late rows, in arrival order, at timers and with changed patterns."""
    inputs = inputs_of(engine)
    ways: list[Callable[[int], object]] = [
        lambda seed: check_any_cut(engine, seed, inputs.draw_workload(seed, False)),
        lambda seed: check_any_cut(engine, seed, inputs.draw_workload(seed, False), beyond=4),
        lambda seed: [
            check_arrival_order(engine, *one, disorder=2.5)
            for one in draw_with_one_key(engine, range(seed, seed + 1), True)
        ],
        lambda seed: check_changed_patterns(engine, seed, "watermark"),
        lambda seed: check_changed_patterns(engine, seed, "watermark", routed=True),
        lambda seed: check_changed_patterns(engine, seed, "arrival"),
    ]
    for seed in range(BASE + block * DEEP_BLOCK, BASE + (block + 1) * DEEP_BLOCK):
        check_any_cut(engine, seed, inputs.draw_workload(seed, False))
        ways[seed % len(ways)](seed)


def test_step_results_are_tables() -> None:
    """Drivers can take the result of every engine apart."""
    for engine in [
        engine
        for engine in engines_for("patterns").values()
        if not engine.capabilities.retracts and inputs_of(engine).punctual
    ]:
        workload = inputs_of(engine).draw_workload(1, False)
        shard = Shard(engine, workload)
        for call in calls_of(engine, workload, 1):
            step = shard.call(call.data, call.now)
            assert isinstance(step.rows, pa.Table)
            assert step.state is None or type(step.state) is bytes
            assert step.next_timer is None or type(step.next_timer) is int


@whole_engine
def test_row_late_by_exactly_the_delay_is_late(engine: Engine) -> None:
    """Its time equals the watermark; a row one microsecond later is accepted."""
    workload = make_workload(
        engine, ["match A a -> B b\nwithin 1 minute\npartition by k"], seconds((1, "A"), (20, "C"), (10, "B"))
    )
    for watermark, late in ((10 * SECOND, 1), (10 * SECOND - 1, 0)):
        shard = Shard(engine, workload)
        shard.call(workload.data[:2], None)
        shard.call(workload.data[2:], watermark)
        shard.finish()
        assert shard.counters["late"] == late
        assert shard.counters["matches"] == 1 - late
