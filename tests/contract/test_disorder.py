"""Streams out of order: what promises make final, what a frontier of our own leaves out, what is put together early."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from perseid.engines.disorder import adaptive
from perseid.engines.disorder.strategy import STRATEGIES, Adaptive, Aggressive, Assemble, Conservative, strategy_of
from perseid.errors import EventDataError, StateError, UnsupportedError
from perseid.runtime.contract import Engine
from perseid.runtime.registry import engines, engines_for
from perseid.runtime.state_codec import decode_state
from perseid.runtime.watermark import Watermark
from tests.contract.deep import CASES, deep_blocks, try_block
from tests.contract.inputs import Question, inputs_of
from tests.contract.shards import OF_ALL, Promising, moments, with_promises
from tests.contract.streams import SECOND, Shard, calls_of, key_of, rows_of, times_of, unsuppressed
from tests.contract.test_streams import PLAIN, seconds, written

ASSEMBLE, ADAPTIVE, CONSERVATIVE = (engines()[name] for name in ("assemble", "adaptive", "conservative"))


# Promises


def reach(question: Question, promises: Sequence[Mapping[str, Any]], key: object, now: int | None) -> int | None:
    """Up to when a key is complete, by looking at everything that was promised."""
    types = question.plan.event_types
    names: Sequence[str | None] = [None] if types is None else types
    least = None
    for name in names:
        said = [
            row["ts"]
            for row in promises
            if (row["any_type"] or row["type"] == name)
            and (row["promise"] == OF_ALL or key_of(question, moments([row])[0]) == key)
        ]
        upto = max(said, default=None)
        if upto is None:
            return now
        least = upto if least is None else min(least, upto)
    return least if now is None or (least is not None and least > now) else now


def promised(question: Question, seed: int) -> tuple[int, int]:
    """Every key is told of up to what was promised of it; how much was told, and how much before the watermark."""
    chance = random.Random(seed)
    calls = with_promises(CONSERVATIVE, question, calls_of(CONSERVATIVE, question, seed, wild=seed % 4 > 2), chance)
    shard, names = Promising(CONSERVATIVE, question), unsuppressed(question)
    said: list[Mapping[str, Any]] = []
    early = 0
    for call in calls:
        if chance.random() < 0.3:
            shard.restart()
        shard.call(moments(call.data), call.now)
        said += [row for row in call.data if "promise" in row]
        expected = []
        for key in {key_of(question, row) for row in shard.accepted}:
            mine = tuple(row for row in shard.accepted if key_of(question, row) == key)
            upto = reach(question, said, key, call.now)
            if upto is not None:
                expected += inputs_of(CONSERVATIVE).expected(replace(question, data=mine), upto)
        told = rows_of(names, shard.rows)
        assert told == rows_of(names, sorted(expected, key=repr)), f"seed {seed} at {call.now}"
        whole = replace(question, data=tuple(shard.accepted))
        known = [] if call.now is None else rows_of(names, inputs_of(CONSERVATIVE).expected(whole, call.now))
        early += len(told) - len(known)
    assert not shard.late
    assert shard.finish() == inputs_of(CONSERVATIVE).expected(question), f"seed {seed}"
    return len(shard.told), early


def all_of(engine: Engine, run: Callable[[Question, int], tuple[int, ...]], seeds: Iterable[int]) -> list[int]:
    """What was counted, over questions of these seeds."""
    counts = (run(inputs_of(engine).ask(seed, False), seed) for seed in seeds)
    return [sum(each) for each in zip(*counts, strict=True)]


def try_all(engine: Engine, block: int, run: Callable[[Question, int], object]) -> None:
    try_block(block, lambda seed: inputs_of(engine).ask(seed, False), run)


def test_every_key_is_told_of_up_to_what_was_promised() -> None:
    told, early = all_of(CONSERVATIVE, promised, range(45))
    assert told > 25
    assert early > 10


@pytest.mark.deep
@deep_blocks("promises")
def test_promises_deep(block: int) -> None:
    try_all(CONSERVATIVE, block, promised)


def test_a_broken_promise_is_late() -> None:
    rows = seconds((1, "A"), (5, "B"), (3, "B"))
    question = written(CONSERVATIVE, [PLAIN], rows)
    shard = Promising(CONSERVATIVE, question)
    promise = {**question.data[0], "promise": OF_ALL, "any_type": True, "ts": 4 * SECOND}
    shard.call([*question.data[:1], *moments([promise])], None)
    shard.call(question.data[1:], None)
    assert [row["number"] for row in shard.late] == [2]
    shard.call(moments([{**promise, "ts": 5 * SECOND}]), None)
    assert len(shard.told) == 1


# A frontier of our own


@pytest.mark.parametrize("loss", [0.0, 0.02, 0.2])
def test_exact_over_what_was_accepted(loss: float) -> None:
    """Whatever is late, all else is the oracle's; and a stream that is stopped and goes on is none the wiser."""
    late = 0
    for seed in range(25):
        question = inputs_of(ADAPTIVE).ask(seed, False)
        shard = Shard(ADAPTIVE, question, options={"strategy": Adaptive(loss)})
        for call in calls_of(ADAPTIVE, question, seed, beyond=3):
            shard.call(call.data, call.now)
        come = replace(question, data=tuple(shard.accepted))
        late += len(shard.late)
        assert len(shard.accepted) + len(shard.late) == len(question.data)
        assert shard.finish() == inputs_of(ADAPTIVE).expected(come), f"seed {seed}"
    assert late > 5


def followed(question: Question, seed: int) -> tuple[int, int, int]:
    """Late is what comes behind the frontier there was, told what the new one makes final.

    How much was told, how much before the watermark, and how many rows were late.
    """
    inputs, chance = inputs_of(ADAPTIVE), random.Random(seed)
    shard = Shard(ADAPTIVE, question, options={"strategy": Adaptive(chance.choice((0.0, 0.05, 0.2, 0.4)))})
    names, frontier, early = unsuppressed(question), None, 0
    for call in calls_of(ADAPTIVE, question, seed, beyond=1 + seed % 2, wild=seed % 3 > 0):
        if chance.random() < 0.3:
            shard.restart()
        judged = max((time for time in (frontier, call.now) if time is not None), default=None)
        times = times_of(ADAPTIVE, question, call.data)
        gone = [row for row, time in zip(call.data, times, strict=True) if judged is not None and time <= judged]
        known = len(shard.late)
        shard.call(call.data, call.now)
        assert shard.late[known:] == gone, f"seed {seed} at {call.now}"
        frontier = call.now if shard.state is None else decode_state(shard.state).facts["horizon"]
        if frontier is None:
            assert shard.rows == [], f"seed {seed}"
            continue
        come = replace(question, data=tuple(shard.accepted))
        told = rows_of(names, shard.rows)
        assert told == rows_of(names, inputs.expected(come, frontier)), f"seed {seed} at {frontier}"
        early += len(told) - (0 if call.now is None else len(rows_of(names, inputs.expected(come, call.now))))
    come = replace(question, data=tuple(shard.accepted))
    assert shard.finish() == inputs.expected(come), f"seed {seed}"
    return len(shard.told), early, len(shard.late)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few events say how late others come, so that short streams have a frontier."""
    monkeypatch.setattr(adaptive, "MIN_EVENTS", 4)


@pytest.mark.usefixtures("soon")
def test_exact_up_to_the_frontier() -> None:
    told, early, late = all_of(ADAPTIVE, followed, range(40))
    assert told > 30
    assert early > 10
    assert late > 10


@pytest.mark.deep
@pytest.mark.usefixtures("soon")
@deep_blocks("frontier")
def test_frontier_deep(block: int) -> None:
    try_all(ADAPTIVE, block, followed)


@pytest.mark.parametrize("loss", [0.001, 0.05, 0.2])
def test_no_more_is_lost_than_may_be(loss: float) -> None:
    """And what was reckoned to be lost is about what was; matches come long before the watermark's."""
    chance = random.Random(loss)
    rows = []
    for i in range(6_000):
        kind = "A" if i % 2 == 0 else "B"
        delay = chance.expovariate(1 / 3.0)
        rows.append((i * 0.1 + delay, {"second": 0, "type": kind, "k": i // 2 % 5, "v": 1, "at": i * 0.1}))
    rows.sort(key=lambda pair: pair[0])
    question = written(ADAPTIVE, [PLAIN], [row for _, row in rows])
    data = [{**row, "ts": int(said["at"] * SECOND)} for row, (_, said) in zip(question.data, rows, strict=True)]
    shard = Shard(ADAPTIVE, question, options={"strategy": Adaptive(loss)})
    for at in range(0, len(data), 50):
        shard.call(moments(data[at : at + 50]), None)
    lost = len(shard.late) / len(data)
    assert lost <= loss
    expected = shard.counters["late_expected"] / len(data)
    assert abs(expected - lost) <= 0.3 * loss + 0.002
    assert len(shard.told) > 1_000  # and there was no watermark at all


# Putting together


def put_together(question: Question, seed: int) -> tuple[int, int]:
    """Nothing is told that is not so in the end, all that the watermark has made final is told, and all at once that can be.

    How much was told, and how much before the watermark.
    """
    inputs, chance = inputs_of(ASSEMBLE), random.Random(seed)
    shard = Shard(ASSEMBLE, question)
    negating = {p.name for p in question.patterns if any(step.negated for step in p.steps)}
    early = 0
    for call in calls_of(ASSEMBLE, question, seed, beyond=1 + seed % 2, wild=seed % 3 > 0):
        if chance.random() < 0.3:
            shard.restart()
        shard.call(call.data, call.now)
        come = replace(question, data=tuple(shard.accepted))
        final = [] if call.now is None else inputs.expected(come, call.now)
        assert set(final) <= set(shard.rows), f"seed {seed} at {call.now}"
        at_once = [row for row in inputs.expected(come) if row[0] not in negating]
        assert [row for row in shard.rows if row[0] not in negating] == at_once, f"seed {seed} at {call.now}"
        early += len(shard.rows) - len(final)
    come = replace(question, data=tuple(shard.accepted))
    assert shard.finish() == inputs.expected(come), f"seed {seed}"
    return len(shard.told), early


def test_put_together_in_any_order() -> None:
    told, early = all_of(ASSEMBLE, put_together, range(60))
    assert told > 50
    assert early > 15


def test_put_together_event_by_event() -> None:
    for seed in range(1_000, 1_040):
        question = inputs_of(ASSEMBLE).ask(seed, False)
        shard = Shard(ASSEMBLE, question)
        for call in calls_of(ASSEMBLE, question, seed, wild=True):
            for row in call.data:
                shard.call([row], call.now)
        assert shard.finish() == inputs_of(ASSEMBLE).expected(question), f"seed {seed}"


@pytest.mark.deep
@deep_blocks("put together")
def test_put_together_deep(block: int) -> None:
    try_all(ASSEMBLE, block, put_together)


def test_the_deep_runs_are_enough() -> None:
    retracting = sum(engine.capabilities.retracts for engine in engines_for("patterns").values())
    assert sum(CASES.values()) + (retracting - 1) * CASES["stands"] >= 100_000


def test_told_when_the_last_of_its_events_comes() -> None:
    """Whichever that is; nothing waits for the watermark unless something is negated."""
    text = "match A a ->> B b ->> C c\nwithin 10 seconds\npartition by k"
    question = written(ASSEMBLE, [text], seconds((3, "C"), (1, "A"), (2, "B"), (2, "B"), (0, "A")))
    shard = Shard(ASSEMBLE, question)
    told = []
    for row in question.data:
        shard.call([row], None)
        told.append(len(shard.told))
    assert told == [0, 0, 1, 2, 4]
    assert shard.finish() == inputs_of(ASSEMBLE).expected(question)


def test_what_is_negated_is_waited_for() -> None:
    text = "match A a -> not C ->> B b\nwithin 10 seconds\npartition by k"
    question = written(ASSEMBLE, [text], seconds((5, "B"), (1, "A"), (4, "A"), (2, "C")))
    shard = Shard(ASSEMBLE, question)
    shard.call(question.data[:3], None)
    assert shard.told == []
    shard.call(question.data[3:], 1 * SECOND)
    shard.call((), 4 * SECOND)
    assert shard.told == []
    assert shard.wake == 5 * SECOND
    shard.call((), 5 * SECOND)
    assert [row[3] for row in shard.told] == [4 * SECOND]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("match A a -> B b\nwithin 10 seconds", "take the next event"),
        ("match A+ a ->> B b\nwithin 10 seconds", "a repetition"),
        ("match A a ->> B b\nwithin 10 seconds\nsuppress 3 seconds", "it suppresses matches"),
        ("match A a ->> B b\nwithin 5 events", "counts events"),
        ("match A a ->> B b\nwithin 10 seconds\nreport timeouts", "it reports timeouts"),
        ("match A a ->> B b\nwithin 10 seconds\nafter match skip past last", "depend on earlier matches"),
        ("match not C for 2 seconds -> A a ->> B b\nwithin 10 seconds", "events before its first event"),
        ("match A a -> not (C c -> D d) ->> B b\nwithin 10 seconds", "more than one event"),
        ("match A a ->> B b\nwithin forever", "its duration is unbounded"),
    ],
)
def test_what_cannot_be_put_together(text: str, why: str) -> None:
    question = written(ASSEMBLE, [text], seconds((1, "A")))
    with pytest.raises(UnsupportedError, match=why):
        ASSEMBLE.plan(question.plan, inputs_of(ASSEMBLE).types(question))


# Declarations and states


def test_strategies_by_name() -> None:
    assert strategy_of("aggressive") == Aggressive()
    assert strategy_of(Adaptive(0.1)).loss == 0.1  # type: ignore[attr-defined]
    with pytest.raises(EventDataError, match="expected an instance, got a class"):
        strategy_of(Assemble)
    with pytest.raises(EventDataError, match="Did you mean 'assemble'"):
        strategy_of("assembel")
    with pytest.raises(EventDataError, match="from 0 to below 1"):
        Adaptive(loss=2)
    with pytest.raises(EventDataError, match="expected both or neither, because a key is complete"):
        Conservative(source="reader")
    assert Assemble().name == "assemble"


@pytest.mark.parametrize("name", sorted({*engines_for("patterns")} & {*STRATEGIES}))
def test_states_of_others_and_damaged_ones(name: str) -> None:
    engine = engines()[name]
    question = written(engine, ["match A a ->> B b\nwithin 10 seconds\npartition by k"], seconds((1, "A"), (2, "B")))
    plan = engine.plan(question.plan, inputs_of(engine).types(question))
    rows = inputs_of(engine).rows(question, question.data)
    state = engine.step(plan, rows, None, Watermark()).state
    assert state is not None
    assert engine.report is not None
    assert engine.report(state).events == 2
    for other in engines_for("patterns").values():
        if other is not engine:
            theirs = other.plan(question.plan, inputs_of(other).types(question))
            with pytest.raises(StateError):
                other.step(theirs, rows, state, Watermark())
    with pytest.raises(StateError, match="shards"):
        engine.step(replace(plan, shards=5), rows, state, Watermark())
    chance = random.Random(name)
    for _ in range(60):
        broken = bytearray(state)
        at = chance.randrange(len(broken))
        broken[at] ^= 1 << chance.randrange(8)
        with pytest.raises(StateError):
            engine.step(plan, rows, bytes(broken), Watermark())
    with pytest.raises(StateError):
        engine.step(plan, rows, state[: len(state) // 2], Watermark())
