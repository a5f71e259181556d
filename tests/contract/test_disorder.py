"""Streams out of order: what promises make final, what a frontier of our own leaves out, what is put together early."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from perseid.engines.contract import Clock, Step
from perseid.engines.disorder.strategy import Adaptive, Aggressive, Assemble, Conservative, strategy_of
from perseid.engines.registry import engines
from perseid.errors import EventDataError, StateError, UnsupportedError
from tests.contract.inputs import Question, inputs_of
from tests.contract.streams import FAR, SECOND, Call, Data, Shard, calls_of, key_of, suppresses, times_of
from tests.contract.test_streams import PLAIN, seconds, written

ASSEMBLE, ADAPTIVE, CONSERVATIVE = (engines()[name] for name in ("assemble", "adaptive", "conservative"))
OF_KEY, OF_ALL = 1, 2


# Promises


@dataclass
class Promising(Shard):
    """A shard that is given promises too: rows that say ``promise``, of a type, or of all where they say ``any_type``."""

    def step(self, data: Data, clock: Clock) -> Step:
        rows = self.inputs.rows(self.question, data)
        kinds = rows.kinds.copy()
        kinds[[i for i, row in enumerate(data) if row.get("any_type")]] = -1
        control = np.array([row.get("promise", 0) for row in data], np.int8)
        return self.engine.step(self.plan, replace(rows, kinds=kinds, control=control), self.state, clock)

    def _gone_on(self, data: Data, now: int | None, step: Step, ended: bool = False) -> Step:
        events = [i for i, row in enumerate(data) if "promise" not in row]
        assert step.counters["promises"] == len(data) - len(events)
        places = {row: i for i, row in enumerate(events)}
        here = replace(step, late=[places[int(i)] for i in step.late])
        super()._gone_on([data[i] for i in events], now, here, ended)
        return step

    @property
    def bounded(self) -> bool:
        return False  # promises wait for the watermark too


def with_promises(question: Question, calls: Sequence[Call], chance: random.Random) -> list[Call]:
    """The calls with promises in between that are kept: of a type or of all, of a key or of all."""
    out: list[Call] = []
    for n, call in enumerate(calls):
        data: list[Mapping[str, Any]] = list(call.data)
        to_come = [row for later in calls[n + 1 :] for row in later.data]
        for _ in range(chance.randrange(4)):
            like = dict(chance.choice(question.data))
            every_type, every_key = chance.random() < 0.4, chance.random() < 0.6
            about = [
                row
                for row in to_come
                if (every_type or row["type"] == like["type"])
                and (every_key or key_of(question, row) == key_of(question, like))
            ]
            newest = max(times_of(CONSERVATIVE, question, question.data)) + SECOND
            upto = min(times_of(CONSERVATIVE, question, about), default=newest + 1) - 1
            like |= {"ts": upto, "promise": OF_ALL if every_key else OF_KEY, "any_type": every_type}
            data.append(like)
        out.append(Call(data, call.now))
    return out


def moments(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Promises have their times in microseconds; rows have moments."""
    from perseid.semantics import values as v

    return [{**row, "ts": v.moment(row["ts"])} if isinstance(row["ts"], int) else row for row in rows]


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


def promised(seed: int) -> tuple[int, int]:
    """Every key is told of up to what was promised of it; how much was told, and how much before the watermark."""
    question = inputs_of(CONSERVATIVE).ask(seed, False)
    chance = random.Random(seed)
    calls = with_promises(question, calls_of(CONSERVATIVE, question, seed), chance)
    shard = Promising(CONSERVATIVE, question)
    said: list[Mapping[str, Any]] = []
    early = 0
    for call in calls:
        shard.call(moments(call.data), call.now)
        said += [row for row in call.data if "promise" in row]
        if suppresses(question):
            continue
        expected = []
        for key in {key_of(question, row) for row in shard.accepted}:
            mine = tuple(row for row in shard.accepted if key_of(question, row) == key)
            upto = reach(question, said, key, call.now)
            if upto is not None:
                expected += inputs_of(CONSERVATIVE).expected(replace(question, data=mine), upto)
        assert shard.rows == sorted(expected, key=repr), f"seed {seed} at {call.now}"
        whole = replace(question, data=tuple(shard.accepted))
        known = 0 if call.now is None else len(inputs_of(CONSERVATIVE).expected(whole, call.now))
        early += len(shard.rows) - known
    assert not shard.late
    shard.call((), FAR)
    if shard.state is not None:
        shard.end()
    assert shard.rows == inputs_of(CONSERVATIVE).expected(question), f"seed {seed}"
    return len(shard.told), early


def test_every_key_is_told_of_up_to_what_was_promised() -> None:
    told, early = (sum(counts) for counts in zip(*(promised(seed) for seed in range(90)), strict=True))
    assert told > 50
    assert early > 20


@pytest.mark.deep
@pytest.mark.parametrize("block", range(10))
def test_promises_deep(block: int) -> None:
    for seed in range(2_000_000 + block * 500, 2_000_000 + (block + 1) * 500):
        promised(seed)


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


def put_together(seed: int) -> tuple[int, int]:
    """Nothing is told that is not so in the end, all that the watermark has made final is told, and all at once that can be.

    How much was told, and how much before the watermark.
    """
    inputs = inputs_of(ASSEMBLE)
    question = inputs.ask(seed, False)
    shard = Shard(ASSEMBLE, question)
    negating = {p.name for p in question.patterns if any(step.negated for step in p.steps)}
    early = 0
    for call in calls_of(ASSEMBLE, question, seed, beyond=1 + seed % 2, wild=seed % 3 > 0):
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
    told, early = (sum(counts) for counts in zip(*(put_together(seed) for seed in range(150)), strict=True))
    assert told > 150
    assert early > 50


def test_put_together_event_by_event() -> None:
    for seed in range(1_000, 1_040):
        question = inputs_of(ASSEMBLE).ask(seed, False)
        shard = Shard(ASSEMBLE, question)
        for call in calls_of(ASSEMBLE, question, seed, wild=True):
            for row in call.data:
                shard.call([row], call.now)
        assert shard.finish() == inputs_of(ASSEMBLE).expected(question), f"seed {seed}"


@pytest.mark.deep
@pytest.mark.parametrize("block", range(20))
def test_put_together_deep(block: int) -> None:
    for seed in range(3_000_000 + block * 1_000, 3_000_000 + (block + 1) * 1_000):
        put_together(seed)


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
        ("match A a ->> B b\nwithin 10 seconds\nsuppress 3 seconds", "suppressed"),
        ("match A a ->> B b\nwithin 5 events", "counts events"),
        ("match A a ->> B b\nwithin 10 seconds\nreport timeouts", "come to nothing"),
        ("match A a ->> B b\nwithin 10 seconds\nafter match skip past last", "matches before it"),
        ("match not C for 2 seconds -> A a ->> B b\nwithin 10 seconds", "looks back"),
        ("match A a -> not (C c -> D d) ->> B b\nwithin 10 seconds", "more than one event"),
        ("match A a ->> B b\nwithin forever", "nothing bounds it"),
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
    with pytest.raises(EventDataError, match="Did you mean 'assemble'"):
        strategy_of("assembel")
    with pytest.raises(EventDataError, match="from 0 to below 1"):
        Adaptive(loss=2)
    with pytest.raises(EventDataError, match="all have to be named"):
        Conservative(source="reader")
    assert Assemble().name == "assemble"


@pytest.mark.parametrize("name", ["aggressive", "assemble", "adaptive", "conservative"])
def test_states_of_others_and_damaged_ones(name: str) -> None:
    engine = engines()[name]
    question = written(engine, ["match A a ->> B b\nwithin 10 seconds\npartition by k"], seconds((1, "A"), (2, "B")))
    plan = engine.plan(question.plan, inputs_of(engine).types(question))
    rows = inputs_of(engine).rows(question, question.data)
    state = engine.step(plan, rows, None, Clock()).state
    assert state is not None
    assert engine.report is not None
    assert engine.report(state).events == 2
    for other in engines().values():
        if other is not engine:
            theirs = other.plan(question.plan, inputs_of(other).types(question))
            with pytest.raises(StateError):
                other.step(theirs, rows, state, Clock())
    with pytest.raises(StateError, match="shards"):
        engine.step(replace(plan, shards=5), rows, state, Clock())
    chance = random.Random(name)
    for _ in range(60):
        broken = bytearray(state)
        at = chance.randrange(len(broken))
        broken[at] ^= 1 << chance.randrange(8)
        with pytest.raises(StateError):
            engine.step(plan, rows, bytes(broken), Clock())
    with pytest.raises(StateError):
        engine.step(plan, rows, state[: len(state) // 2], Clock())
