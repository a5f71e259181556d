"""A stream as a driver runs it: data cut into calls, time that goes on, and state that is carried as bytes."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from perseid.runtime.contract import Engine, StepResult
from perseid.runtime.event_batch import take_events
from perseid.runtime.watermark import Watermark
from perseid.semantics import values as v
from perseid.semantics.scope import attribute_path
from tests.contract.inputs import Inputs, Question, Row, answer, inputs_of

Data = Sequence[Mapping[str, Any]]
SECOND = 1_000_000
FAR = 10**17
"""Long after every window."""


@dataclass(frozen=True)
class Call:
    """What a driver gives at once: data, and up to when everything had come before them."""

    data: Data
    now: int | None


@dataclass
class Shard:
    """One shard of a stream. Every call is checked for what all calls have in common."""

    engine: Engine
    question: Question
    order: str = "watermark"
    options: Mapping[str, Any] = field(default_factory=dict)
    routed: bool = False
    """Where patterns are partitioned in several ways, every event comes as one row for each of them."""
    state: bytes | None = None
    now: int | None = None
    wake: int | None = None
    told: list[Row] = field(default_factory=list)
    accepted: list[Mapping[str, Any]] = field(default_factory=list)
    late: list[Mapping[str, Any]] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    """Of all calls so far, summed up."""

    @property
    def inputs(self) -> Inputs:
        return inputs_of(self.engine)

    @cached_property
    def plan(self) -> Any:
        plan = self.engine.plan(self.question.plan, self.inputs.types(self.question))
        return replace(plan, order=self.order, **self.options)

    @property
    def ways(self) -> int:
        """How many rows there are of each event."""
        return max(len(self.question.plan.routes), 1) if self.routed else 1

    def step(self, data: Data, clock: Watermark) -> StepResult:
        """A call that leaves this shard as it was."""
        rows = self.inputs.rows(self.question, data)
        if self.ways > 1:
            every = np.arange(len(rows))
            routes = [route.id for route in self.question.plan.routes]
            rows = replace(
                take_events(rows, np.tile(every, self.ways)), route=np.repeat(np.array(routes, np.int32), len(every))
            )
        return self.engine.step(self.plan, rows, self.state, clock)

    def call(self, data: Data, now: int | None) -> StepResult:
        """A call, after which the shard goes on from what it gave."""
        return self._gone_on(data, now, self.step(data, Watermark(self.now, now, False)))

    def end(self) -> StepResult:
        """The last call of a stream that has an end."""
        return self._gone_on((), self.now, self.step((), Watermark(self.now, None, True)), ended=True)

    def _gone_on(self, data: Data, now: int | None, step: StepResult, ended: bool = False) -> StepResult:
        assert len(set(step.late)) == len(step.late)
        late = sorted({int(i) % max(len(data), 1) for i in step.late})
        assert len(late) * self.ways == len(step.late)
        self.late += [data[i] for i in late]
        fresh = [row for i, row in enumerate(data) if i not in set(late)]
        self.accepted += fresh
        assert step.counters.get("late", 0) == len(late) * self.ways
        assert step.counters["events"] == (len(data) - len(late)) * self.ways
        assert step.counters.get("state_bytes", 0) == (0 if step.state is None else len(step.state))
        assert step.counters.get("retained_events", 0) == kept_rows(self.engine, step.state)
        assert all(type(count) is int for count in step.counters.values()), step.counters
        found = self._heard(step, fresh, now, ended)
        kinds = [row[2] for row in found]
        assert step.counters["matches"] == kinds.count("match")
        assert step.counters["timed_out"] == kinds.count("timed out")
        if ended:
            assert step.state is None
            assert step.next_timer is None
        if step.state is None:
            assert step.next_timer is None, "a shard without state has nothing to be woken for"
        elif self.bounded:
            assert step.next_timer is not None, "nothing would ever clear this state"
        assert step.next_timer is None or now is None or step.next_timer > now
        self.told += found
        return self._carried(step, now)

    def _heard(self, step: StepResult, fresh: Data, now: int | None, ended: bool) -> list[Row]:
        """What a call told."""
        return answer(step, self.question)

    def _carried(self, step: StepResult, now: int | None) -> StepResult:
        """What the next call is given of this one is bytes, and what time it was."""
        assert step.state is None or type(step.state) is bytes
        self.counters.update(step.counters)
        self.state, self.wake, self.now = step.state, step.next_timer, now
        return step

    def restart(self) -> None:
        """Another process goes on: with the plan as it is sent there, and from the state's bytes."""
        self.__dict__["plan"] = pickle.loads(pickle.dumps(self.plan))

    @property
    def bounded(self) -> bool:
        """Is everything over some time after the last event, whatever that was?"""
        return bounded(self.question)

    @property
    def rows(self) -> list[Row]:
        """All that was told, in one order."""
        return sorted(self.told, key=repr)

    def finish(self) -> list[Row]:
        """Let time go on to the end of every window, then end what no time ends."""
        self.call((), FAR)
        if self.bounded:
            assert self.state is None, "state is left after the last window"
        else:
            self.end()
        return self.rows


def bounded(question: Question) -> bool:
    """Does time alone decide every attempt?"""
    return not any(p.retention.kind == "unbounded" or p.retention.events is not None for p in question.plan.patterns)


def suppresses(question: Question) -> bool:
    return any(pattern.suppress is not None for pattern in question.patterns)


def unsuppressed(question: Question) -> frozenset[str]:
    """Patterns that neither suppress nor take matches of one that does: those hold back what they know."""
    held: set[str] = set()
    for plan in question.plan.patterns:  # those that feed others come before them
        if plan.pattern.suppress is not None or held & {*plan.feeds_on}:
            held.add(plan.name)
    return frozenset(plan.name for plan in question.plan.patterns) - held


def rows_of(names: Collection[str], rows: Sequence[Row]) -> list[Row]:
    """What these patterns told."""
    return [row for row in rows if row[0] in names]


def kept_rows(engine: Engine, state: bytes | None) -> int:
    assert engine.report is not None
    return 0 if state is None else engine.report(state).events


def times_of(engine: Engine, question: Question, data: Data) -> list[int]:
    return [int(time) for time in inputs_of(engine).rows(question, data).time]


def key_of(question: Question, row: Mapping[str, Any]) -> object:
    """The key of a row, where all patterns are partitioned in one way."""
    (route,) = question.plan.routes
    return tuple(v.identity(v.plain(attribute_path(row, path))) for path in route.paths)


def calls_of(
    engine: Engine,
    question: Question,
    seed: int,
    *,
    order: str = "watermark",
    beyond: float = 1.0,
    wild: bool = False,
) -> list[Call]:
    """The data in calls, cut at random; disorder is within the delay of the watermark, times ``beyond``.

    Where it is ``wild``, the delay is that of most of the data.

    Where arrival is the order, time does not go on, data come in theirs, and equal times come together.
    """
    chance = random.Random(seed)
    data, times = question.data, times_of(engine, question, question.data)
    if not data:
        return []
    span = max(times) - min(times) + 1
    delays = [span // 2 + 1, span + 1] if wild else [0, span // 10 + 1, span // 3 + 1]
    delay = chance.choice(delays) if order == "watermark" else 0
    late = {i: chance.random() * delay * 0.999 * beyond for i in range(len(data))}
    arriving = sorted(range(len(data)), key=lambda i: (times[i] + late[i], i))
    cuts = sorted(chance.sample(range(len(data) + 1), min(len(data) + 1, chance.randrange(7))))
    if order == "arrival":
        cuts = [c for c in cuts if c in (0, len(data)) or times[arriving[c - 1]] != times[arriving[c]]]
    calls, now, seen = [], None, []
    for low, high in zip([0, *cuts], [*cuts, len(data)], strict=True):
        calls.append(Call([data[i] for i in arriving[low:high]], now))
        seen += arriving[low:high]
        if seen and order == "watermark":
            now = max(times[i] for i in seen) - delay - 1
    return calls


def streamed(name: str, seeds: Sequence[int]) -> list[list[object]]:
    """What an engine tells and wakes for, call by call, as lists, so that another process can print it."""
    from perseid.runtime.registry import engines

    engine = engines()[name]
    out: list[list[object]] = []
    for seed in seeds:
        question = inputs_of(engine).ask(seed, False)
        shard = Shard(engine, question)
        for call in calls_of(engine, question, seed):
            step = shard.call(call.data, call.now)
            counters = {name: count for name, count in step.counters.items() if name != "state_bytes"}
            out.append([sorted(map(list, answer(step, question)), key=repr), step.next_timer, sorted(counters.items())])
        out.append([list(row) for row in shard.finish()])
    return out
