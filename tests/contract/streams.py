"""A stream as a driver runs it: data cut into calls, an advancing watermark, and state that is passed on as bytes."""

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
from tests.contract.inputs import PatternInputs, PatternWorkload, Row, inputs_of, result_rows

Data = Sequence[Mapping[str, Any]]
SECOND = 1_000_000
FAR = 10**17
"""A time after every window."""


@dataclass(frozen=True)
class StreamCall:
    """Data of a call, and the watermark after it."""

    data: Data
    now: int | None


@dataclass
class Shard:
    """One shard of a stream; checks the properties that hold for every call."""

    engine: Engine
    workload: PatternWorkload
    order: str = "watermark"
    options: Mapping[str, Any] = field(default_factory=dict)
    routed: bool = False
    """With several partition keys, every event is one row for each of them."""
    state: bytes | None = None
    now: int | None = None
    timer: int | None = None
    emitted: list[Row] = field(default_factory=list)
    accepted: list[Mapping[str, Any]] = field(default_factory=list)
    late: list[Mapping[str, Any]] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)
    """Counters summed over all calls."""

    @property
    def inputs(self) -> PatternInputs:
        return inputs_of(self.engine)

    @cached_property
    def plan(self) -> Any:
        plan = self.engine.plan(self.workload.plan, self.inputs.types(self.workload))
        return replace(plan, order=self.order, **self.options)

    @property
    def rows_per_event(self) -> int:
        """Return the number of rows of each event."""
        return max(len(self.workload.plan.routes), 1) if self.routed else 1

    def step(self, data: Data, clock: Watermark) -> StepResult:
        """Make a call without changing this shard."""
        rows = self.inputs.rows(self.workload, data)
        if self.rows_per_event > 1:
            every = np.arange(len(rows))
            routes = [route.id for route in self.workload.plan.routes]
            rows = replace(
                take_events(rows, np.tile(every, self.rows_per_event)),
                route=np.repeat(np.array(routes, np.int32), len(every)),
            )
        return self.engine.step(self.plan, rows, self.state, clock)

    def call(self, data: Data, now: int | None) -> StepResult:
        """Make a call and continue from its state."""
        return self._advance(data, now, self.step(data, Watermark(self.now, now, False)))

    def end(self) -> StepResult:
        """Make the last call of a stream that ends."""
        return self._advance((), self.now, self.step((), Watermark(self.now, None, True)), ended=True)

    def _advance(self, data: Data, now: int | None, step: StepResult, ended: bool = False) -> StepResult:
        assert len(set(step.late)) == len(step.late)
        late = sorted({int(i) % max(len(data), 1) for i in step.late})
        assert len(late) * self.rows_per_event == len(step.late)
        self.late += [data[i] for i in late]
        fresh = [row for i, row in enumerate(data) if i not in set(late)]
        self.accepted += fresh
        assert step.counters.get("late", 0) == len(late) * self.rows_per_event
        assert step.counters["events"] == (len(data) - len(late)) * self.rows_per_event
        assert step.counters.get("state_bytes", 0) == (0 if step.state is None else len(step.state))
        assert step.counters.get("retained_events", 0) == retained_rows(self.engine, step.state)
        assert all(type(count) is int for count in step.counters.values()), step.counters
        found = self._read_output(step, fresh, now, ended)
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
        self.emitted += found
        return self._carry_over(step, now)

    def _read_output(self, step: StepResult, fresh: Data, now: int | None, ended: bool) -> list[Row]:
        """Return the rows that a call emitted."""
        return result_rows(step, self.workload)

    def _carry_over(self, step: StepResult, now: int | None) -> StepResult:
        """Pass the bytes of the state and the watermark to the next call."""
        assert step.state is None or type(step.state) is bytes
        self.counters.update(step.counters)
        self.state, self.timer, self.now = step.state, step.next_timer, now
        return step

    def restart(self) -> None:
        """Continue with the plan as another process receives it, and from the bytes of the state."""
        self.__dict__["plan"] = pickle.loads(pickle.dumps(self.plan))

    @property
    def bounded(self) -> bool:
        """Return true if every window closes some time after the last event."""
        return bounded(self.workload)

    @property
    def rows(self) -> list[Row]:
        """Return all emitted rows, sorted."""
        return sorted(self.emitted, key=repr)

    def finish(self) -> list[Row]:
        """Advance the watermark past every window, then end the stream if a window is unbounded."""
        self.call((), FAR)
        if self.bounded:
            assert self.state is None, "state is left after the last window"
        else:
            self.end()
        return self.rows


def bounded(workload: PatternWorkload) -> bool:
    """Return true if time alone decides every partial match."""
    return not any(p.retention.kind == "unbounded" or p.retention.events is not None for p in workload.plan.patterns)


def suppresses(workload: PatternWorkload) -> bool:
    return any(pattern.suppress is not None for pattern in workload.patterns)


def unsuppressed(workload: PatternWorkload) -> frozenset[str]:
    """Return the patterns without suppression, also in their input patterns: suppression delays output."""
    held: set[str] = set()
    for plan in workload.plan.patterns:  # input patterns come before the patterns that use them
        if plan.pattern.suppress is not None or held & {*plan.feeds_on}:
            held.add(plan.name)
    return frozenset(plan.name for plan in workload.plan.patterns) - held


def rows_of(names: Collection[str], rows: Sequence[Row]) -> list[Row]:
    """Return the rows of these patterns."""
    return [row for row in rows if row[0] in names]


def retained_rows(engine: Engine, state: bytes | None) -> int:
    assert engine.report is not None
    return 0 if state is None else engine.report(state).events


def times_of(engine: Engine, workload: PatternWorkload, data: Data) -> list[int]:
    return [int(time) for time in inputs_of(engine).rows(workload, data).time]


def key_of(workload: PatternWorkload, row: Mapping[str, Any]) -> object:
    """Return the key of a row, if all patterns have the same partition key."""
    (route,) = workload.plan.routes
    return tuple(v.identity(v.plain(attribute_path(row, path))) for path in route.paths)


def calls_of(
    engine: Engine,
    workload: PatternWorkload,
    seed: int,
    *,
    order: str = "watermark",
    beyond: float = 1.0,
    wild: bool = False,
) -> list[StreamCall]:
    """Cut the data into calls at random; rows are out of order by the delay of the watermark times ``beyond``.

    The delay of a ``wild`` stream is as long as most of its data.

    In arrival order there is no watermark, data are in order of time, and equal times are in one call.
    """
    chance = random.Random(seed)
    data, times = workload.data, times_of(engine, workload, workload.data)
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
        calls.append(StreamCall([data[i] for i in arriving[low:high]], now))
        seen += arriving[low:high]
        if seen and order == "watermark":
            now = max(times[i] for i in seen) - delay - 1
    return calls


def streamed(name: str, seeds: Sequence[int]) -> list[list[object]]:
    """Return output and timers of each call as lists, so that another process can print them."""
    from perseid.runtime.registry import engines

    engine = engines()[name]
    out: list[list[object]] = []
    for seed in seeds:
        workload = inputs_of(engine).draw_workload(seed, False)
        shard = Shard(engine, workload)
        for call in calls_of(engine, workload, seed):
            step = shard.call(call.data, call.now)
            counters = {name: count for name, count in step.counters.items() if name != "state_bytes"}
            out.append(
                [sorted(map(list, result_rows(step, workload)), key=repr), step.next_timer, sorted(counters.items())]
            )
        out.append([list(row) for row in shard.finish()])
    return out
