"""Our engines over paper 4's stream, in calls of so many arrivals, as a micro-batch would be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.disorder.arriving import DELAY, Course, Stream, events_of
from perseid.engines.contract import Clock, Engine, Rows
from perseid.engines.rows import take_rows


def run_calls(engine: Engine, plan: Any, stream: Stream, size: int) -> Course:
    """Run an engine over a stream; only its steps are timed."""
    given = stream if engine.name == "conservative" else stream.without_promises()
    steps = [(rows, Clock(None, now), seen) for rows, now, seen in _calls(given, size)]
    steps.append((take_rows(given.rows, np.zeros(0, np.int64)), Clock(ended=True), steps[-1][2]))
    taken, peak, state = 0.0, 0, None
    rows, moments = [], []
    for some, clock, seen in steps:
        begin = time.perf_counter()
        done = engine.step(plan, some, state, clock)
        taken += time.perf_counter() - begin
        state = done.state
        peak = max(peak, 0 if state is None else len(state))
        if done.rows.num_rows:
            rows.append(done.rows)
            moments.append(np.full(done.rows.num_rows, seen))
    ids = [events_of(table) for table in rows]
    back = [np.asarray(table["op"].to_pylist()) == "-" for table in rows]
    return Course(taken, peak, np.concatenate(ids), np.concatenate(moments), np.concatenate(back))


def _calls(stream: Stream, size: int) -> Iterator[tuple[Rows, int | None, int]]:
    """Rows by call, how far the watermark had come before, and how many events have arrived after."""
    control = stream.rows.control
    events = np.arange(1, len(stream.rows) + 1) if control is None else np.cumsum(control == 0)
    now = None
    for at in range(0, len(stream.rows), size):
        some = take_rows(stream.rows, np.arange(at, min(at + size, len(stream.rows))))
        yield some, now, int(events[at + len(some) - 1])
        real = some.time if some.control is None else some.time[some.control == 0]
        if len(real):
            now = max(-(10**18) if now is None else now, int(real.max()) - DELAY - 1)
