"""What every engine keeps to on a stream: the oracle's answer at every horizon, however the data are cut into calls."""

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
from tests.contract.inputs import Question, Row, answer, inputs_of, without_numba
from tests.contract.shards import arrivals, shard_of
from tests.contract.streams import (
    FAR,
    SECOND,
    Call,
    Shard,
    bounded,
    calls_of,
    kept_rows,
    key_of,
    streamed,
    suppresses,
    times_of,
)
from tests.contract.test_contract import every_engine, telling_engine, whole_engine

BASE = int(os.environ.get("PERSEID_SEEDS", "2000000"))
"""Where the seeds of the deep runs begin."""
DEEP_BLOCK = 1_000
PLAIN = "match A a -> B b\nwithin 10 seconds\npartition by k"
LAST = "match A a -> B+ b\nwithin 10 seconds\npartition by k"
"""Decided when the window closes."""


def seconds(*said: tuple[int, str], **more: Any) -> list[dict[str, Any]]:
    """Events of one key, by second and type."""
    return [{"second": second, "type": kind, "k": 1, "v": 1, **more} for second, kind in said]


def written(engine: Engine, texts: Sequence[str], data: Sequence[dict[str, Any]], **changes: Any) -> Question:
    return replace(inputs_of(engine).write(texts, data), **changes)


def same(one: StepResult, other: StepResult) -> None:
    """Two steps are the same to the last bit."""
    assert one.rows.schema == other.rows.schema
    assert repr(one.rows.to_pydict()) == repr(other.rows.to_pydict())
    assert (one.state, one.next_timer, dict(one.counters)) == (other.state, other.next_timer, dict(other.counters))
    assert list(one.late) == list(other.late)


# The answer does not depend on calls, shards and restarts


def any_cut(engine: Engine, seed: int, question: Question, beyond: float = 1.0) -> int:
    """A run cut into calls is the oracle's at every horizon, and at the end; every call can be made twice."""
    inputs = inputs_of(engine)
    shard = Shard(engine, question)
    for call in calls_of(engine, question, seed, beyond=beyond):
        times = times_of(engine, question, call.data)
        due = [row for row, time in zip(call.data, times, strict=True) if call.now is not None and time <= call.now]
        late = len(shard.late)
        again = shard.step(call.data, Watermark(shard.now, call.now, False))
        same(shard.call(call.data, call.now), again)
        assert shard.late[late:] == due, f"seed {seed}"
        if call.now is not None and not suppresses(question):
            # Those that suppress hold back what they know until the order of ends is known.
            come = replace(question, data=tuple(shard.accepted))
            assert shard.rows == inputs.expected(come, call.now), f"seed {seed} at {call.now}"
    assert beyond > 1 or not shard.late
    assert len(shard.accepted) + len(shard.late) == len(question.data)
    come = replace(question, data=tuple(shard.accepted))
    assert shard.finish() == inputs.expected(come), f"seed {seed}"
    return len(shard.told)


@telling_engine
@pytest.mark.parametrize("block", blocks(1, 4))
def test_any_cut_into_calls(engine: Engine, block: int) -> None:
    ask = inputs_of(engine).ask
    assert sum(any_cut(engine, seed, ask(seed, False)) for seed in range(block * 35, block * 35 + 35)) > 20


@telling_engine
@pytest.mark.parametrize("block", blocks(1, 2))
def test_late_rows_are_left_out_and_counted(engine: Engine, block: int) -> None:
    ask = inputs_of(engine).ask
    seeds = range(block * 35, block * 35 + 35)
    assert sum(any_cut(engine, seed, ask(seed, False), beyond=4) for seed in seeds) > 20


@telling_engine
def test_the_batch_and_the_stream_that_ends_are_one(engine: Engine) -> None:
    """A shard that is told of the end at once is what a batch is; and so is one that is told of it later."""
    for seed in range(30):
        question = inputs_of(engine).ask(seed, False)
        shard = Shard(engine, question)
        for call in calls_of(engine, question, seed):
            shard.call(call.data, call.now)
        shard.end()
        assert shard.rows == inputs_of(engine).expected(question), f"seed {seed}"


@telling_engine
@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.deep), 7])
def test_any_number_of_shards(engine: Engine, count: int) -> None:
    """Each has a state of its own, and may be called or not where it is given nothing."""
    for seed in range(count * 10, count * 10 + 10):
        question = inputs_of(engine).ask(seed, True)
        place = random.Random(seed)
        shard_of = {key: place.randrange(count) for key in {row["k"] for row in question.data}}
        shards = [Shard(engine, question, options={"shards": count}) for _ in range(count)]
        for call in calls_of(engine, question, seed):
            for number, shard in enumerate(shards):
                mine = [row for row in call.data if shard_of[row["k"]] == number]
                called = mine or (shard.wake is not None and call.now is not None and shard.wake <= call.now)
                if called or place.random() < 0.5:
                    shard.call(mine, call.now)
        told = [row for shard in shards for row in shard.finish()]
        assert sorted(told, key=repr) == inputs_of(engine).expected(question), f"seed {seed}"


@telling_engine
def test_the_same_calls_give_the_same_steps(engine: Engine) -> None:
    for seed in range(15):
        question = inputs_of(engine).ask(seed, False)
        one, other = Shard(engine, question), Shard(engine, question)
        for call in calls_of(engine, question, seed):
            same(one.call(call.data, call.now), other.call(list(call.data), call.now))


@every_engine
def test_a_restart_before_every_call_changes_nothing(engine: Engine) -> None:
    """Nothing goes from one call to the next but the state's bytes."""
    for seed in range(5):
        question = inputs_of(engine).ask(seed, False)
        one, other = shard_of(engine, question), shard_of(engine, question)
        for call in arrivals(engine, question, seed, wild=True):
            other.restart()
            same(one.call(call.data, call.now), other.call(list(call.data), call.now))
        assert one.finish() == other.finish()


@whole_engine
def test_time_does_not_go_back(engine: Engine) -> None:
    """A driver that says less than it said before is not believed: nothing is told twice."""
    question = written(engine, [PLAIN, LAST], seconds((1, "A"), (2, "B"), (3, "A"), (5, "B")))
    for lower in (None, 0, 2 * SECOND):
        shard = Shard(engine, question)
        shard.call(question.data, 4 * SECOND - SECOND * 4)
        shard.call((), 4 * SECOND)
        told = list(shard.told)
        shard.engine.step(shard.plan, shard.inputs.rows(question, ()), shard.state, Watermark(None, lower, False))
        step = shard.step((), Watermark(None, lower, False))
        assert answer(step, question) == []
        shard.state = step.state
        assert told
        assert shard.finish() == inputs_of(engine).expected(question)


@pytest.mark.deep
@telling_engine
def test_with_and_without_numba(engine: Engine) -> None:
    plain = without_numba("tests.contract.streams", f"streamed({engine.name!r}, range(12))")
    assert plain == json.loads(json.dumps(streamed(engine.name, range(12))))


# Where arrival is the order


def by_arrival(engine: Engine, seed: int, question: Question, disorder: float = 0.0) -> tuple[int, int]:
    """The oracle's answer over what was accepted; what is older than the newest of its key is late."""
    inputs = inputs_of(engine)
    shard = Shard(engine, question, "arrival")
    calls = calls_of(engine, question, seed, order="arrival")
    chance = random.Random(seed)
    if disorder:
        moved = [(n + chance.random() * disorder, call) for n, call in enumerate(calls)]
        calls = [call for _, call in sorted(moved, key=lambda pair: pair[0])]
    wanted = question.plan.event_types
    newest: dict[object, int] = {}
    for call in calls:
        times = times_of(engine, question, call.data)
        keys = [key_of(question, row) for row in call.data]
        late = [time < newest.get(key, time) for key, time in zip(keys, times, strict=True)]
        before = len(shard.late)
        again = shard.step(call.data, Watermark(shard.now, None, False))
        same(shard.call(call.data, None), again)
        assert shard.late[before:] == [row for row, gone in zip(call.data, late, strict=True) if gone], f"seed {seed}"
        for row, key, time, gone in zip(call.data, keys, times, late, strict=True):
            if not gone and (wanted is None or row["type"] in wanted):
                newest[key] = max(time, newest.get(key, time))
    assert len(shard.accepted) + len(shard.late) == len(question.data)
    come = replace(question, data=tuple(shard.accepted))
    assert shard.finish() == inputs.expected(come), f"seed {seed}"
    return len(shard.told), len(shard.late)


def one_route(engine: Engine, seeds: range, keyed: bool) -> list[tuple[int, Question]]:
    asked = [(seed, inputs_of(engine).ask(seed, keyed)) for seed in seeds]
    return [(seed, question) for seed, question in asked if len(question.plan.routes) == 1]


@whole_engine
def test_order_by_arrival(engine: Engine) -> None:
    told = [by_arrival(engine, seed, question)[0] for seed, question in one_route(engine, range(40), True)]
    told += [by_arrival(engine, seed, question)[0] for seed, question in one_route(engine, range(100, 140), False)]
    assert sum(told) > 50


@whole_engine
def test_order_by_arrival_leaves_late_rows_out(engine: Engine) -> None:
    asked = one_route(engine, range(200, 250), True)
    late = sum(by_arrival(engine, seed, question, disorder=2.5)[1] for seed, question in asked)
    assert late > 20


@whole_engine
def test_arrival_tells_at_once(engine: Engine) -> None:
    """Time has not moved, and nothing more is waited for than the match needs."""
    question = written(engine, [PLAIN], seconds((1, "A"), (2, "B"), (3, "A"), (4, "B")))
    shard = Shard(engine, question, "arrival")
    told = []
    for row in question.data:
        shard.call([row], None)
        told.append(len(shard.told))
    assert told == [0, 1, 1, 2]
    waiting = Shard(engine, question)
    for row in question.data:
        waiting.call([row], None)
    assert waiting.told == []
    assert shard.finish() == waiting.finish() == inputs_of(engine).expected(question)


# Being woken


def relevant_times(engine: Engine, question: Question) -> list[int]:
    """Where time alone may decide something: every event's, and every sum of one and of spans that patterns speak of."""
    times = set(times_of(engine, question, question.data))
    spans = {0, *range(SECOND, 11 * SECOND, SECOND)}
    return sorted({time + span for time in times for span in spans})


def woken(shard: Shard, times: Sequence[int]) -> dict[Row, int]:
    """When each match is told to one who calls only at wakes; a wake at the next microsecond means at any time."""
    told: dict[Row, int] = {}
    calls = 0
    while shard.wake is not None:
        wake = shard.wake
        if shard.now is None or wake > shard.now + 1:
            before = shard.step((), Watermark(shard.now, wake - 1, False))
            assert before.rows.num_rows == 0, "something is told before the shard asked to be called"
        else:
            wake = next((time for time in times if time >= wake), FAR)
        known = len(shard.told)
        shard.call((), wake)
        told.update(dict.fromkeys(shard.told[known:], wake))
        calls += 1
        assert calls < 400, "the shard asks to be called again and again"
    return told


@telling_engine
@pytest.mark.parametrize("block", blocks(1, 3))
def test_wakes_are_enough(engine: Engine, block: int) -> None:
    """Nothing is told before the wake, and at wakes everything is told as early as by calls at every time that counts."""
    counted = 0
    for seed in range(block * 30, block * 30 + 30):
        question = inputs_of(engine).ask(seed, False)
        if not bounded(question):
            continue
        calls = calls_of(engine, question, seed)
        rare, dense = Shard(engine, question), Shard(engine, question)
        for call in calls:
            rare.call(call.data, call.now)
            dense.call(call.data, call.now)
        times = relevant_times(engine, question)
        told = woken(rare, times)
        counted += len(told)
        for time in [time for time in times if dense.now is None or time > dense.now]:
            known = len(dense.told)
            dense.call((), time)
            assert all(told[row] <= time for row in dense.told[known:]), f"seed {seed}"
        assert rare.state is None
        assert dense.state is None
        assert rare.rows == dense.rows == inputs_of(engine).expected(question), f"seed {seed}"
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
def test_wakes_are_few(engine: Engine, text: str) -> None:
    """A shard asks to be called when something changes, and not at every microsecond until then."""
    rows = seconds((1, "A"), (2, "B"), (5, "A"), (6, "A"), (7, "B"), (9, "A"), (10, "A"))
    question = written(engine, [text], rows)
    shard = Shard(engine, question)
    shard.call(question.data, None)
    wakes = []
    while shard.wake is not None:
        wakes.append(shard.wake)
        shard.call((), shard.wake)
        assert len(wakes) < 25, wakes
    assert shard.state is None
    assert shard.rows == inputs_of(engine).expected(question)


@whole_engine
def test_a_call_that_changes_nothing_keeps_the_wake(engine: Engine) -> None:
    """Only late rows, or none: what was waited for is waited for still."""
    question = written(engine, [LAST + "\nsuppress 20 seconds"], seconds((1, "A"), (2, "B")))
    for order in ("watermark", "arrival"):
        shard = Shard(engine, question, order)
        shard.call(question.data, None)
        for now in (None, None, 5 * SECOND, 5 * SECOND, 12 * SECOND, 12 * SECOND):
            shard.call((), now)  # checked there: state, and so a wake
        assert len(shard.told) == 1
        assert kept_rows(engine, shard.state) == 0  # what suppresses others is all that is left
        assert shard.finish() == inputs_of(engine).expected(question)


# What is kept


def kept_times(state: bytes | None) -> list[int]:
    """The times of events that were searched before and may be asked for again."""
    if state is None:
        return []
    table = decode_state(state).tables[0].to_pydict()
    return [time for time, searched in zip(table["time"], table["searched"], strict=True) if searched]


@whole_engine
@pytest.mark.parametrize("block", blocks(1, 3))
def test_no_more_is_kept_than_plans_say(engine: Engine, block: int) -> None:
    """An event that was searched is kept for as long as the longest window of its plan and no longer."""
    kept = 0
    for seed in range(block * 50, block * 50 + 50):
        question = inputs_of(engine).ask(seed, False)
        plans = question.plan.patterns
        if not bounded(question):
            continue
        span = max(plan.retention.micros or 0 for plan in plans)
        shard = Shard(engine, question)
        for call in calls_of(engine, question, seed):
            shard.call(call.data, call.now)
            times = kept_times(shard.state)
            assert call.now is not None or not times
            assert not times or min(times) > call.now - span, f"seed {seed}"  # type: ignore[operator]
            if all(plan.retention.kind == "empty" for plan in plans):
                assert not times
            kept += len(times)
    assert kept > 15


def busy(engine: Engine, text: str) -> list[int]:
    """How much is kept of a key that is never quiet."""
    data = seconds(*((i, "B" if i % 7 == 6 else "A") for i in range(200)))
    question = written(engine, [text], data)
    shard = Shard(engine, question)
    kept = []
    for at in range(0, 200, 10):
        shard.call(question.data[at : at + 10], (at - 1) * SECOND)
        kept.append(kept_rows(engine, shard.state))
    assert shard.finish() == inputs_of(engine).expected(question)
    return kept


@whole_engine
@pytest.mark.parametrize("clause", ["", "\nsuppress 3 seconds", "\nafter match skip past last", "\nreport timeouts"])
def test_a_busy_key_is_kept_for_its_window(engine: Engine, clause: str) -> None:
    assert max(busy(engine, LAST + clause)) <= 10 + 2 * 10 + 1


CONTEXTS = ("chronicle", "immediate", "strict immediate", "continuous", "recent", "cumulative")


@whole_engine
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_busy_key_in_a_context(engine: Engine, context: str) -> None:
    """Partial matches are kept, and not all that was since there was none."""
    for shape, clause in (
        ("A a -> B b", ""),
        ("A a -> B b", "\nreport timeouts"),
        ("A a -> B b", "\nsuppress 3 seconds"),
        ("A a -> A b -> B c", ""),
        ("A a -> C c", "\nreport timeouts"),
    ):
        text = f"match {shape}\nwithin 10 seconds\npartition by k\nselection {context}{clause}"
        assert max(busy(engine, text)) <= 10 + 2 * 10 + 1, text


@whole_engine
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_context_goes_on_from_its_partial_matches(engine: Engine, context: str) -> None:
    """Wherever it is cut: totals, ways that one step is reached by, names, timeouts, and what must wait to be told."""
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
                question = written(engine, [text], data)
            except PatternError:
                continue  # cumulative has no repetition
            shard = Shard(engine, question)
            for at in range(0, 60, 2):
                shard.call(question.data[at : at + 2], (at // 2 - 2) * SECOND)
            assert shard.finish() == inputs_of(engine).expected(question), text
            assert shard.counters["capped"] == 0
            asked += len(shard.rows)
    assert asked > 5


# A changed set of patterns


def told_by(rows: Sequence[Row], pattern: CorePattern) -> list[Row]:
    return sorted((row for row in rows if row[0] == pattern.name), key=repr)


def pool_of(engine: Engine, seed: int, keyed: bool) -> tuple[Question, list[CorePattern]]:
    """A question, and four patterns of different meanings that can be asked of its data."""
    ask = inputs_of(engine).ask
    question, other = ask(3 * seed + 2, keyed), ask(3 * (seed + 1_000_000) + 2, keyed)
    more = []
    for number, pattern in enumerate(other.patterns[:2]):
        returns = tuple((f"{name}_more", expr) for name, expr in pattern.returns)
        more.append(replace(pattern, name=f"more{number}", returns=returns))
    return question, [*question.patterns[:2], *more]


def changed(engine: Engine, seed: int, order: str, routed: bool = False) -> int:
    """One set up to some call, then another."""
    inputs = inputs_of(engine)
    chance = random.Random(seed)
    question, pool = pool_of(engine, seed, order == "arrival")
    before, after = ([pattern for pattern in pool if chance.random() < 0.6] for _ in range(2))
    chance.shuffle(after)
    calls = calls_of(engine, question, seed, order=order)
    routes = replace(question, patterns=tuple(pool)).plan.routes
    if not before or not after or len(calls) < 2 or len({p.semantic_hash for p in pool}) < len(pool):
        return 0
    if order == "arrival" and len(routes) > 1:
        return 0
    cut = chance.randrange(1, len(calls))
    one = Shard(engine, replace(question, patterns=tuple(before)), order, routed=routed)
    for call in calls[:cut]:
        one.call(call.data, call.now)
    other = Shard(engine, replace(question, patterns=tuple(after)), order, routed=routed, state=one.state, now=one.now)
    newest = max(decode_state(one.state).tables[0]["time"].to_pylist(), default=one.now) if one.state else one.now
    came = max(times_of(engine, question, [row for call in calls[:cut] for row in call.data]), default=None)
    for call in calls[cut:]:
        other.call(call.data, call.now)
    other.finish()
    found = 0
    for pattern in after:
        alone = replace(question, patterns=(pattern,))
        told = told_by([*one.told, *other.told], pattern)
        (plan,) = alone.plan.patterns
        if pattern in before:
            expected = inputs.expected(alone)
        elif order == "arrival":
            if came is None or pattern.context or pattern.lead or pattern.suppress or pattern.skip.mode != "none":
                continue  # what it would have found before decides what it finds after
            expected = [row for row in inputs.expected(alone) if row[3] > came]  # type: ignore[operator]
            told = [row for row in told if row[3] > came]  # type: ignore[operator]
        elif plan.facts.lookback and plan.facts.bound is None:
            continue  # it may look back at what came before it for as long as it is open
        else:
            ways = [tuple(".".join(path.parts) for path in each.partition) for each in (pattern, *before)]
            keyed = {*ways[0]} <= {name for way in ways[1:] for name in way}
            if routed and (one.ways > 1 or other.ways > 1):
                keyed = ways[0] in ways[1:]  # events that wait have not gone another way
            since = one.now if keyed else newest
            if one.state is not None:
                # Nobody knows what was dropped before the first call: up to its time it may have been anything.
                since = max((time for time in (since, calls[cut].now) if time is not None), default=None)
            times = times_of(engine, question, question.data)
            pairs = zip(question.data, times, strict=True)
            seen = tuple(row for row, time in pairs if since is None or time > since)
            expected = inputs.expected(replace(alone, data=seen))
        found += len(expected)
        assert told == expected, f"seed {seed}: {pattern.name}"
    return found


@whole_engine
@pytest.mark.parametrize("order", ["watermark", "arrival"])
@pytest.mark.parametrize("block", blocks(1, 3))
def test_a_changed_set_goes_on(engine: Engine, order: str, block: int) -> None:
    """Patterns that stay have no gap, those that are added start at the change; their order does not matter."""
    assert sum(changed(engine, seed, order) for seed in range(block * 30, block * 30 + 30)) > 4


@whole_engine
def test_a_changed_set_goes_other_ways(engine: Engine) -> None:
    """The same where every way of partitioning has rows of its own."""
    assert sum(changed(engine, seed, "watermark", routed=True) for seed in range(200, 240)) > 9


@whole_engine
def test_every_way_of_partitioning_has_rows_of_its_own(engine: Engine) -> None:
    counted = 0
    for seed in range(300, 360):
        question = inputs_of(engine).ask(seed, False)
        if len(question.plan.routes) < 2:
            continue
        shard = Shard(engine, question, routed=True)
        for call in calls_of(engine, question, seed, beyond=2):
            shard.call(call.data, call.now)
        told = shard.finish()
        assert told == inputs_of(engine).expected(replace(question, data=tuple(shard.accepted))), f"seed {seed}"
        counted += len(told)
    assert counted > 20


@whole_engine
def test_a_pattern_that_is_removed_leaves_nothing(engine: Engine) -> None:
    data = seconds((1, "A"), (2, "B"), (3, "C"))
    both = written(engine, [LAST, "match C c -> A a\nwithin 1 hour\npartition by k"], data)
    shard = Shard(engine, both)
    shard.call(both.data, None)
    shard.call((), 4 * SECOND)
    gone = both.patterns[1].semantic_hash
    assert gone.encode() in (shard.state or b"")
    shard = Shard(engine, replace(both, patterns=both.patterns[:1]), state=shard.state, now=shard.now)
    shard.call((), 5 * SECOND)
    assert kept_times(shard.state) == [1 * SECOND, 2 * SECOND]
    assert gone.encode() not in (shard.state or b"")
    shard.call((), 11 * SECOND)
    assert shard.state is None


@whole_engine
def test_a_pattern_that_is_added_says_that_it_is_incomplete(engine: Engine) -> None:
    """Until one window has passed, and what it looks back at besides."""
    rows = seconds((1, "A"), (3, "A"), (5, "B"), (6, "A"), (7, "B"), (30, "A"), (31, "B"))
    added = "match not C for 5 seconds -> A a -> B b\nwithin 10 seconds\npartition by k"
    both = written(engine, [LAST, added], rows)
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
    assert told_by(other.told, both.patterns[1]) == told_by(expected, both.patterns[1])


@whole_engine
@pytest.mark.parametrize("what", ["columns", "decided"])
def test_a_pattern_that_asks_for_what_was_not_kept(engine: Engine, what: str) -> None:
    """It starts after the newest event that was kept; those that ask for nothing new go on."""
    inputs = inputs_of(engine)
    rows = seconds((1, "A"), (2, "A"), (4, "B"), (6, "A"), (7, "B"))
    added = "match A a [i > 0] -> B b\nwithin 10 seconds\npartition by k\nreturn a.i as i"
    both = written(engine, [LAST, added], [{**row, "i": 5} for row in rows])
    (number,) = [predicate.id for predicate in both.plan.predicates]

    def shaped(question: Question, data: Sequence[Any]) -> EventBatch:
        """As a driver would send them: what no pattern of the set asks for is left out."""
        given = inputs.rows(question, data)
        asks = len(question.patterns) > 1
        names = ["v", *(["i"] if asks else [])]
        decided = {number: given.time >= 0} if asks and what == "decided" else {}
        return replace(given, columns={name: given.columns[name] for name in names}, predicate_masks=decided)

    def go(question: Question, state: bytes | None, calls: Sequence[Call]) -> tuple[list[Row], bytes | None]:
        plan = engine.plan(question.plan, inputs.types())
        told: list[Row] = []
        for call in calls:
            step = engine.step(plan, shaped(question, call.data), state, Watermark(None, call.now, False))
            told += answer(step, question)
            state = step.state
        return told, state

    old = replace(both, patterns=both.patterns[:1])
    first, state = go(old, None, [Call(both.data[:2], None), Call((), 1 * SECOND)])
    second, state = go(both, state, [Call(both.data[2:], 1 * SECOND), Call((), 5 * SECOND), Call((), FAR)])
    assert state is None
    whole = inputs.expected(both)
    assert told_by([*first, *second], both.patterns[0]) == told_by(whole, both.patterns[0])
    assert [row[3] for row in told_by(second, both.patterns[1])] == [6 * SECOND]


@whole_engine
def test_arrival_keeps_what_others_need_when_a_pattern_is_added(engine: Engine) -> None:
    rows = seconds((1, "A"), (2, "A"), (4, "B"), (6, "A"), (7, "B"))
    both = written(engine, [LAST, "match A a -> B b\nwithin 20 seconds\npartition by k"], rows)
    one = Shard(engine, replace(both, patterns=both.patterns[:1]), "arrival")
    one.call(both.data[:2], None)
    one.call((), 1 * SECOND)
    for patterns in (both.patterns, both.patterns[::-1]):
        other = Shard(engine, replace(both, patterns=patterns), "arrival", state=one.state, now=one.now)
        for row in both.data[2:]:
            other.call([row], 1 * SECOND)
        told = told_by(other.finish(), both.patterns[0])
        assert told == told_by(inputs_of(engine).expected(both), both.patterns[0])


@whole_engine
def test_two_patterns_of_one_meaning(engine: Engine) -> None:
    """Under two names; each tells its matches, and what one told suppresses nothing of the other."""
    rows = seconds((1, "A"), (2, "B"), (3, "B"), (4, "A"), (5, "B"), (30, "A"), (31, "B"))
    question = written(engine, [LAST + "\nsuppress 5 seconds"] * 2, rows)
    shard = Shard(engine, question)
    for row in question.data:
        shard.call([row], row["number"] * SECOND - SECOND)
    assert shard.finish() == inputs_of(engine).expected(question)
    assert {row[0] for row in shard.told} == {"p0", "p1"}


@whole_engine
def test_what_is_suppressed_across_keys(engine: Engine) -> None:
    """Matches are told in the order of their ends, whichever key is decided first."""
    rows = [
        {"second": 0, "type": "A", "k": 1, "v": 1},
        {"second": 1, "type": "A", "k": 2, "v": 1},
        {"second": 2, "type": "B", "k": 2, "v": 1},
        {"second": 5, "type": "B", "k": 1, "v": 1},
    ]
    question = written(engine, [LAST + "\nreturn a.v as v\nsuppress 10 seconds by v"], rows)
    for times in (range(13), [5, 10, 11], [10, 12], [12]):
        shard = Shard(engine, question)
        shard.call(question.data, None)
        for second in times:
            shard.call((), second * SECOND)
            assert shard.rows == inputs_of(engine).expected(question, second * SECOND)
        assert shard.finish() == inputs_of(engine).expected(question)


# Counters


@whole_engine
def test_open_attempts_beyond_the_cap_are_given_up(engine: Engine) -> None:
    """The oldest first, and they are counted."""
    question = written(
        engine,
        ["match A a -> B b\nwithin forever\npartition by k"],
        seconds(*((i, "A") for i in range(10)), (20, "B")),
    )
    shard = Shard(engine, question)
    plans = tuple(
        replace(numbered, pattern=replace(numbered.pattern, retention=replace(numbered.pattern.retention, cap=3)))
        for numbered in shard.plan.patterns
    )
    shard.__dict__["plan"] = replace(shard.plan, patterns=plans)
    shard.call(question.data[:10], None)
    assert shard.call((), 10 * SECOND).counters["capped"] == 7
    assert kept_rows(engine, shard.state) == 3
    shard.call(question.data[10:], 10 * SECOND)
    shard.end()
    assert sorted(row[3] for row in shard.rows) == [7 * SECOND, 8 * SECOND, 9 * SECOND]  # type: ignore[type-var]


@whole_engine
def test_state_beyond_its_size_is_given_up(engine: Engine) -> None:
    question = written(
        engine,
        ["match A a -> B b\nwithin 1 hour\npartition by k"],
        seconds(*((i, "A") for i in range(200)), (300, "B")),
    )
    shard = Shard(engine, question, options={"max_state": 16_000})
    with pytest.raises(LimitError, match="wait for the watermark"):
        shard.call(question.data, None)
    for at in range(0, 200, 20):
        shard.call(question.data[at : at + 20], (at - 1) * SECOND)
        assert shard.state is None or len(shard.state) <= 16_000
    shard.call(question.data[200:], 250 * SECOND)
    told = len(shard.finish())
    assert shard.counters["capped"] > 0
    assert told + shard.counters["capped"] == 200
    assert {row[3] for row in shard.told} == {second * SECOND for second in range(200 - told, 200)}


@whole_engine
def test_what_is_counted(engine: Engine) -> None:
    """Late rows, duplicates, suppressed and timed-out attempts, each once however calls are cut."""
    rows = seconds((1, "A"), (2, "B"), (2, "B"), (3, "A"), (4, "B"), (9, "A"), (30, "C"))
    rows[2]["number"] = 1
    text = "match A a -> B b\nwithin 10 seconds\npartition by k\nreport timeouts\nsuppress 5 seconds"
    question = written(engine, [text], rows, dedupe=True)
    for cut in range(1, 6):
        shard = Shard(engine, question)
        shard.call(question.data[:cut], None)
        shard.call(question.data[cut:], None)
        shard.call(question.data[:1], 20 * SECOND)
        assert shard.finish() == inputs_of(engine).expected(question)
        counted = {name: shard.counters[name] for name in ("late", "duplicates", "suppressed", "timed_out", "matches")}
        assert counted == {"late": 1, "duplicates": 1, "suppressed": 1, "timed_out": 1, "matches": 1}
        assert shard.counters["events"] == len(rows)


@whole_engine
def test_live_keys_are_counted(engine: Engine) -> None:
    rows = [{"second": i, "type": "A", "k": i % 4, "v": 1} for i in range(8)]
    question = written(engine, [PLAIN], rows)
    shard = Shard(engine, question)
    assert shard.call(question.data, None).counters["live_keys"] == 4
    assert shard.call((), 12 * SECOND).counters["live_keys"] == 4
    assert shard.call((), 15 * SECOND).counters["live_keys"] == 2
    assert shard.call((), 17 * SECOND).counters["live_keys"] == 0


# Long runs


@pytest.mark.deep
@pytest.mark.timeout(7200)
@whole_engine
@pytest.mark.parametrize("block", range(20_000 // DEEP_BLOCK))
def test_deep(engine: Engine, block: int) -> None:
    """20,000 questions, each cut into calls in order, beyond it, by arrival, woken rarely and with a changed set."""
    inputs = inputs_of(engine)
    ways: list[Callable[[int], object]] = [
        lambda seed: any_cut(engine, seed, inputs.ask(seed, False)),
        lambda seed: any_cut(engine, seed, inputs.ask(seed, False), beyond=4),
        lambda seed: [by_arrival(engine, *one, disorder=2.5) for one in one_route(engine, range(seed, seed + 1), True)],
        lambda seed: changed(engine, seed, "watermark"),
        lambda seed: changed(engine, seed, "watermark", routed=True),
        lambda seed: changed(engine, seed, "arrival"),
    ]
    for seed in range(BASE + block * DEEP_BLOCK, BASE + (block + 1) * DEEP_BLOCK):
        any_cut(engine, seed, inputs.ask(seed, False))
        ways[seed % len(ways)](seed)


def test_tables_of_steps_are_tables() -> None:
    """Every engine's step is made of what drivers take apart."""
    for engine in [
        engine
        for engine in engines_for("patterns").values()
        if not engine.capabilities.retracts and inputs_of(engine).punctual
    ]:
        question = inputs_of(engine).ask(1, False)
        shard = Shard(engine, question)
        for call in calls_of(engine, question, 1):
            step = shard.call(call.data, call.now)
            assert isinstance(step.rows, pa.Table)
            assert step.state is None or type(step.state) is bytes
            assert step.next_timer is None or type(step.next_timer) is int


@whole_engine
def test_row_late_by_exactly_the_delay_is_late(engine: Engine) -> None:
    """Its time is that of the watermark; one microsecond later it is accepted."""
    question = written(
        engine, ["match A a -> B b\nwithin 1 minute\npartition by k"], seconds((1, "A"), (20, "C"), (10, "B"))
    )
    for watermark, late in ((10 * SECOND, 1), (10 * SECOND - 1, 0)):
        shard = Shard(engine, question)
        shard.call(question.data[:2], None)
        shard.call(question.data[2:], watermark)
        shard.finish()
        assert shard.counters["late"] == late
        assert shard.counters["matches"] == 1 - late
