"""Wait as long as events are late, and no longer: a frontier of our own inside the watermark.

How far behind the newest event others come is counted in a histogram, which forgets slowly. The frontier follows the
newest event at the distance that all but the share of events had which may be lost. What comes behind the frontier is
late, as what comes behind a watermark is: left out, counted, and a row where rejected rows are asked for. Over what was
accepted the answer is exact.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from perseid.engines.disorder.state import BARS, PARTS, Delays, read_state, write_state
from perseid.engines.sequence.shard import Shard, newest_before, run
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
"""Events from which on their delays say something."""
REMEMBERED = 20_000
"""Events after which each counts half."""


def advance(plan: DisorderPlan, rows: EventBatch, state: bytes | None, clock: Watermark) -> StepResult:
    """One call of a shard: what the frontier has made final is told, and moves it."""
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
    # How late events come is worth knowing as long as any may come that this shard would wait for.
    written = None if over and done.state is None else write_state(plan, kept)
    wake = newest if done.state is None else done.next_timer
    counters = {
        **done.counters,
        "late_expected": int(expected) - int(before.owed),
        "state_bytes": 0 if written is None else len(written),
    }
    return replace(done, state=written, next_timer=None if written is None else wake, counters=counters)


class Punctual(Shard):
    """A shard that judges what is late by the frontier there was before its rows came, and searches up to the new one."""

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
    """The histogram with these events in it."""
    if not len(time):
        return delays
    newest = int(time.max()) if delays.newest is None else delays.newest
    behind = np.maximum(newest - time, 0)
    counts = np.asarray(delays.counts, np.int64) + np.bincount(_bar(behind), minlength=BARS)
    while counts.sum() > 2 * REMEMBERED:
        counts -= counts // 2
    return Delays(tuple(counts.tolist()), max(newest, int(time.max())))


def _bar(behind: IntArray) -> IntArray:
    """Which bar a delay belongs to: none of its own for no delay, then a quarter of a power of two each."""
    whole = np.maximum(behind, 1).astype(np.float64)
    mantissa, exponent = np.frexp(whole)
    part = np.minimum(((mantissa - 0.5) * 2 * PARTS).astype(np.int64), PARTS - 1)
    return np.where(behind <= 0, 0, np.minimum(1 + (exponent.astype(np.int64) - 1) * PARTS + part, BARS - 1))


def _longest(bar: int) -> int:
    """The longest delay that a bar stands for."""
    if bar == 0:
        return 0
    exponent, part = divmod(bar - 1, PARTS)
    return int(2.0**exponent * (1 + (part + 1) / PARTS))


def _last_bar(delays: Delays, loss: float) -> int | None:
    """The bar up to which to wait so that no more than this share is lost; None while nobody can say."""
    counts = np.asarray(delays.counts, np.int64)
    total = int(counts.sum())
    if total < ENOUGH:
        return None
    beyond = total - np.cumsum(counts)
    return int(np.flatnonzero(beyond <= loss * total)[0])


def _share_beyond(delays: Delays, last: int | None) -> float:
    """The share of events that came later than those of a bar."""
    return 0.0 if last is None else sum(delays.counts[last + 1 :]) / sum(delays.counts)
