"""Adaptive slack: a frontier ahead of the watermark that follows the measured delays of events.

A decaying histogram counts the delays of events behind the newest event. The frontier trails the newest event by the
delay quantile that leaves out at most the allowed share of events. An event behind the frontier is late, like one behind
the watermark: it is dropped, counted, and written to the output of rejected rows if that is requested. The matches are
exact for the accepted events.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from perseid.engines.disorder.state import BARS, PARTS, Delays, read_state, write_state
from perseid.engines.sequence.shard import SequenceShard, newest_before, run
from perseid.runtime.arrays import Int8Array, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.late_rows import LateReason
from perseid.runtime.watermark import Watermark

if TYPE_CHECKING:
    from perseid.engines.disorder.plan import DisorderPlan
    from perseid.engines.disorder.strategy import Adaptive
    from perseid.engines.sequence.shard import Given

ENOUGH = 200
"""Events in the histogram before it determines a frontier."""
REMEMBERED = 20_000
"""Decay of the histogram, in events: its counts are halved when they exceed twice this number."""


def advance(plan: DisorderPlan, rows: EventBatch, state: bytes | None, clock: Watermark) -> StepResult:
    """Run one call of a shard: advance the frontier by the delays of the rows, and emit the matches that it finalizes."""
    before = read_state(plan, state)
    delays = before.delays or Delays((0,) * BARS)
    strategy: Adaptive = plan.strategy  # type: ignore[assignment]
    owed = _share_beyond(delays, _last_bar(delays, strategy.loss)) * len(rows)
    judged = _latest(before.horizon, clock.current)
    delays = _measured(delays, rows.time)
    last, frontier = _last_bar(delays, strategy.loss), judged
    if last is not None and delays.newest is not None:
        frontier = _latest(judged, delays.newest - _longest(last) - 1)
    inner = plan.searched(order=plan.strategy.name)
    asked = clock if clock.ended else Watermark(judged, frontier, False)
    make = partial(Punctual, watermark=clock.current)
    done = run(inner, rows, before.searched, clock=asked, newest=newest_before(inner, clock), make=make).step
    expected = before.owed + owed
    kept = replace(before, searched=done.state, horizon=frontier, delays=delays, owed=expected)
    newest = delays.newest
    over = clock.ended or newest is None or (clock.current is not None and newest <= clock.current)
    # The histogram is retained until the watermark passes the newest event.
    written = None if over and done.state is None else write_state(plan, kept)
    wake = newest if done.state is None else done.next_timer
    counters = {
        **done.counters,
        "late_expected": int(expected) - int(before.owed),
        "state_bytes": 0 if written is None else len(written),
    }
    return replace(done, state=written, next_timer=None if written is None else wake, counters=counters)


class Punctual(SequenceShard):
    """A shard that classifies late rows by the frontier before the call, and searches up to the new frontier."""

    def __init__(self, *given: *Given, watermark: int | None) -> None:
        self.watermark = watermark
        super().__init__(*given)

    def _behind(self, rows: EventBatch) -> Int8Array:
        behind, before = np.zeros(len(rows), np.int8), self.clock.previous
        if before is not None and not self.clock.ended:
            behind[rows.time <= before] = LateReason.BEHIND_FRONTIER
            if self.watermark is not None:
                behind[rows.time <= self.watermark] = LateReason.BEHIND_WATERMARK
        return behind


def _latest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _measured(delays: Delays, time: IntArray) -> Delays:
    """Add events to the histogram, with delays relative to the newest event of earlier calls."""
    if not len(time):
        return delays
    newest = int(time.max()) if delays.newest is None else delays.newest
    behind = np.maximum(newest - time, 0)
    counts = np.asarray(delays.counts, np.int64) + np.bincount(_bar(behind), minlength=BARS)
    while counts.sum() > 2 * REMEMBERED:
        counts -= counts // 2
    return Delays(tuple(counts.tolist()), max(newest, int(time.max())))


def _bar(behind: IntArray) -> IntArray:
    """Return the bin of each delay: bin 0 for no delay, then ``PARTS`` bins per power of two."""
    whole = np.maximum(behind, 1).astype(np.float64)
    mantissa, exponent = np.frexp(whole)
    part = np.minimum(((mantissa - 0.5) * 2 * PARTS).astype(np.int64), PARTS - 1)
    return np.where(behind <= 0, 0, np.minimum(1 + (exponent.astype(np.int64) - 1) * PARTS + part, BARS - 1))


def _longest(bar: int) -> int:
    """Return the upper bound of a bin, in microseconds."""
    if bar == 0:
        return 0
    exponent, part = divmod(bar - 1, PARTS)
    return int(2.0**exponent * (1 + (part + 1) / PARTS))


def _last_bar(delays: Delays, loss: float) -> int | None:
    """Return the first bin with at most a share ``loss`` of the events beyond it; None for fewer than ``ENOUGH`` events."""
    counts = np.asarray(delays.counts, np.int64)
    total = int(counts.sum())
    if total < ENOUGH:
        return None
    beyond = total - np.cumsum(counts)
    return int(np.flatnonzero(beyond <= loss * total)[0])


def _share_beyond(delays: Delays, last: int | None) -> float:
    """Return the share of events in bins beyond ``last``."""
    return 0.0 if last is None else sum(delays.counts[last + 1 :]) / sum(delays.counts)
