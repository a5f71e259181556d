"""Runs a case as a stream: rows in calls, a watermark that advances, and state that is passed on as bytes."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from perseid.runtime.contract import Engine, Plan, StepResult
from perseid.runtime.counters import COUNTERS
from perseid.runtime.late_rows import LateReason
from perseid.runtime.watermark import Watermark
from tests.contract.cases import FAR, EngineCase, Output, some_rows


class RowCall(NamedTuple):
    """Numbers of the rows of a call, and its watermark."""

    numbers: Sequence[int]
    now: int | None


def make_calls(case: EngineCase, seed: int, beyond: float = 1.0, wild: bool = False) -> list[RowCall]:
    """Cut the rows at random.

    Rows arrive out of order by the delay of the watermark times ``beyond``: above 1 some are late. The delay of a
    ``wild`` case is as long as the stream.
    """
    chance = random.Random(seed)
    times = [int(time) for time in case.rows.time]
    if not times:
        return []
    span = max(times) - min(times) + 1
    delay = chance.choice(
        [0, span // 10 + 1, span // 3 + 1] if beyond <= 1 else [span // 10 + 1, span // 3 + 1, span // 2 + 1]
    )
    delay = span if wild else delay
    arrival = [time + chance.random() * delay * 0.999 * beyond for time in times]
    order = sorted(range(len(times)), key=lambda i: (arrival[i], i))
    least, most = (6, 12) if wild else (0, 6) if beyond <= 1 else (3, 6)
    cuts = sorted(chance.sample(range(len(times) + 1), min(len(times) + 1, chance.randint(least, most))))
    calls: list[RowCall] = []
    now: int | None = None
    for low, high in zip([0, *cuts], [*cuts, len(times)], strict=True):
        calls.append(RowCall(order[low:high], now))
        if high:
            now = max(times[i] for i in order[:high]) - delay - 1
    return calls


def same_step(one: StepResult, other: StepResult) -> None:
    """Assert that two steps are equal to the last bit."""
    assert one.rows.schema == other.rows.schema
    assert repr(one.rows.to_pydict()) == repr(other.rows.to_pydict())
    assert (one.state, one.next_timer, dict(one.counters)) == (other.state, other.next_timer, dict(other.counters))
    assert list(one.late) == list(other.late)
    assert list(one.late_reasons) == list(other.late_reasons)


@dataclass
class StreamDriver:
    """One shard of a stream; checks the properties that hold for every call."""

    engine: Engine
    case: EngineCase
    plan: Plan
    partition: int = 0
    """Partition of the queries, if every shard receives all rows."""
    state: bytes | None = None
    now: int | None = None
    timer: int | None = None
    tables: list[pa.Table] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Bytes of state after each call."""

    @property
    def output(self) -> Output:
        return self.case.read(self.tables)

    def try_call(self, numbers: Sequence[int], now: int | None, ended: bool = False) -> StepResult:
        """Make a call without changing the driver."""
        rows = replace(some_rows(self.case, numbers), query_partition=self.partition)
        watermark = Watermark(self.now, None, True) if ended else Watermark(self.now, now)
        return self.engine.run_step(self.plan, rows, self.state, watermark)

    def call(self, numbers: Sequence[int], now: int | None) -> StepResult:
        step = self.try_call(numbers, now)
        self._check_late(step, numbers, now)
        self._check(step, len(numbers))
        assert step.next_timer is None or now is None or step.next_timer > now, "the timer has passed already"
        if step.state is not None and self.case.bounded and self.engine.capabilities.state_expires:
            assert step.next_timer is not None, "nothing would ever evict this state"
        self._advance(step, now)
        return step

    def end(self) -> StepResult:
        """Make the last call of a stream that ends."""
        step = self.try_call((), None, ended=True)
        self._check(step, 0)
        assert step.state is None
        assert step.next_timer is None
        self._advance(step, self.now)
        return step

    def finish(self) -> Output:
        """Let the watermark pass every window, then end what no window bounds."""
        self.call((), FAR)
        if self.case.bounded and self.engine.capabilities.state_expires:
            assert self.state is None, "state is left after the last window"
        self.end()
        return self.output

    def restart(self) -> None:
        """Continue with the plan as another process receives it; the caller drops the caches of this one."""
        self.plan = pickle.loads(pickle.dumps(self.plan))

    def _check_late(self, step: StepResult, numbers: Sequence[int], now: int | None) -> None:
        late = [int(i) for i in step.late]
        assert len({*late}) == len(late) == len(step.late_reasons)
        assert LateReason.NOT not in {int(reason) for reason in step.late_reasons}
        times = np.asarray(self.case.rows.time)[list(numbers)]
        behind = [] if now is None else np.flatnonzero(self.case.is_late(times, now)).tolist()
        if self.engine.capabilities.waits_for_watermark:
            assert sorted(late) == behind
            assert {int(reason) for reason in step.late_reasons} <= {LateReason.BEHIND_WATERMARK}
        else:
            assert {*behind} <= {*late}
        self.late += [numbers[i] for i in late]
        self.accepted += [row for i, row in enumerate(numbers) if i not in {*late}]

    def _check(self, step: StepResult, rows: int) -> None:
        assert step.rows.schema.names == self.plan.schema.names
        assert step.state is None or type(step.state) is bytes
        assert step.next_timer is None or type(step.next_timer) is int
        if step.state is None:
            assert step.next_timer is None, "a shard without state needs no timer"
        counters = step.counters
        assert all(type(count) is int for count in counters.values()), counters
        assert {*counters} <= {*COUNTERS}, "no driver knows some counter"
        assert counters.get("late", 0) == len(step.late)
        assert counters["events"] == rows - len(step.late)
        assert counters.get("state_bytes", 0) == (0 if step.state is None else len(step.state))

    def _advance(self, step: StepResult, now: int | None) -> None:
        self.tables.append(step.rows)
        self.sizes.append(0 if step.state is None else len(step.state))
        self.state, self.timer = step.state, step.next_timer
        self.now = now if self.now is None or now is None else max(self.now, now)


def start(engine: Engine, case: EngineCase) -> StreamDriver:
    return StreamDriver(engine, case, case.plan)


def start_shards(engine: Engine, case: EngineCase, count: int) -> list[StreamDriver]:
    plan = replace(case.plan, shards=count)
    return [StreamDriver(engine, case, plan, number) for number in range(count)]
