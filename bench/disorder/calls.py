"""The product's engines over paper 4's stream, in calls of a number of arrivals, as in micro-batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.disorder.workload import DELAY, RunOutput, Stream, events_of
from perseid.runtime.contract import Engine
from perseid.runtime.event_batch import EventBatch, take_events
from perseid.runtime.watermark import Watermark


def run_calls(engine: Engine, plan: Any, stream: Stream, size: int) -> RunOutput:
    """Run an engine over a stream; only its steps are timed."""
    given = stream if engine.name == "conservative" else stream.without_punctuations()
    steps = [(rows, Watermark(None, now), arrived) for rows, now, arrived in _calls(given, size)]
    steps.append((take_events(given.rows, np.zeros(0, np.int64)), Watermark(ended=True), steps[-1][2]))
    peak, late, state = 0, 0, None
    tables, calls, ends = [], [], [0.0]
    for call, (rows, watermark, _) in enumerate(steps):
        begin = time.perf_counter()
        done = engine.step(plan, rows, state, watermark)
        ends.append(ends[-1] + time.perf_counter() - begin)
        state = done.state
        peak = max(peak, 0 if state is None else len(state))
        late += len(done.late)
        if done.rows.num_rows:
            tables.append(done.rows)
            calls.append(np.full(done.rows.num_rows, call))
    events = np.concatenate([events_of(table) for table in tables])
    back = np.concatenate([np.asarray(table["op"].to_pylist()) == "-" for table in tables])
    call = np.concatenate(calls)
    arrived = np.array([seen for _, _, seen in steps])
    # Steps run back to back, as they do when events are waiting; a call reads its events when it begins.
    read = np.searchsorted(arrived, stream.arrival[events].max(axis=1, initial=-1), side="right")
    elapsed = np.array(ends)
    milliseconds = 1000 * (elapsed[call + 1] - elapsed[read])
    return RunOutput(elapsed[-1], peak, events, arrived[call], back, milliseconds, late)


def _calls(stream: Stream, size: int) -> Iterator[tuple[EventBatch, int | None, int]]:
    """Rows by call, the watermark before it, and the number of events that have arrived after it."""
    control = stream.rows.control
    events = np.arange(1, len(stream.rows) + 1) if control is None else np.cumsum(control == 0)
    now = None
    for at in range(0, len(stream.rows), size):
        some = take_events(stream.rows, np.arange(at, min(at + size, len(stream.rows))))
        yield some, now, int(events[at + len(some) - 1])
        real = some.time if some.control is None else some.time[some.control == 0]
        if len(real):
            now = max(-(10**18) if now is None else now, int(real.max()) - DELAY - 1)
