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

from perseid.engines.disorder.state import BINS, BINS_PER_POWER_OF_TWO, Delays, read_state, write_state
from perseid.engines.sequence.shard import SequenceShard, newest_before, run
from perseid.runtime.arrays import Int8Array, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.late_rows import LateReason
from perseid.runtime.watermark import Watermark

if TYPE_CHECKING:
    from perseid.engines.disorder.plan import DisorderPlan
    from perseid.engines.disorder.strategy import Adaptive
    from perseid.engines.sequence.shard import ShardArguments

MIN_EVENTS = 200
"""Events in the histogram before it determines a frontier."""
DECAY_EVENTS = 20_000
"""Decay of the histogram, in events: its counts are halved when they exceed twice this number."""


def advance(plan: DisorderPlan, rows: EventBatch, state: bytes | None, clock: Watermark) -> StepResult:
    """Run one call of a shard: advance the frontier by the delays of the rows, and emit the matches that it finalizes."""
    previous = read_state(plan, state)
    delays = previous.delays or Delays((0,) * BINS)
    strategy: Adaptive = plan.strategy  # type: ignore[assignment]
    newly_expected = _fraction_beyond(delays, _last_bin(delays, strategy.loss)) * len(rows)
    previous_frontier = _latest(previous.horizon, clock.current)
    delays = _add_delays(delays, rows.time)
    last, frontier = _last_bin(delays, strategy.loss), previous_frontier
    if last is not None and delays.newest is not None:
        frontier = _latest(previous_frontier, delays.newest - _bin_upper_bound(last) - 1)
    inner = plan.sequence_plan(order=plan.strategy.name)
    shard_clock = clock if clock.ended else Watermark(previous_frontier, frontier, False)
    make_shard = partial(AdaptiveSlackShard, watermark=clock.current)
    done = run(
        inner, rows, previous.search_state, clock=shard_clock, newest=newest_before(inner, clock), make_shard=make_shard
    ).step
    expected = previous.expected_late + newly_expected
    new_state = replace(previous, search_state=done.state, horizon=frontier, delays=delays, expected_late=expected)
    newest = delays.newest
    is_expired = clock.ended or newest is None or (clock.current is not None and newest <= clock.current)
    # The histogram is retained until the watermark passes the newest event.
    written = None if is_expired and done.state is None else write_state(plan, new_state)
    timer = newest if done.state is None else done.next_timer
    counters = {
        **done.counters,
        "late_expected": int(expected) - int(previous.expected_late),
        "state_bytes": 0 if written is None else len(written),
    }
    return replace(done, state=written, next_timer=None if written is None else timer, counters=counters)


class AdaptiveSlackShard(SequenceShard):
    """A shard that classifies late rows by the frontier before the call, and searches up to the new frontier."""

    def __init__(self, *arguments: *ShardArguments, watermark: int | None) -> None:
        self.watermark = watermark
        super().__init__(*arguments)

    def _classify_late(self, rows: EventBatch) -> Int8Array:
        reasons, previous = np.zeros(len(rows), np.int8), self.clock.previous
        if previous is not None and not self.clock.ended:
            reasons[rows.time <= previous] = LateReason.BEHIND_FRONTIER
            if self.watermark is not None:
                reasons[rows.time <= self.watermark] = LateReason.BEHIND_WATERMARK
        return reasons


def _latest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _add_delays(delays: Delays, time: IntArray) -> Delays:
    """Add events to the histogram, with delays relative to the newest event of earlier calls."""
    if not len(time):
        return delays
    newest = int(time.max()) if delays.newest is None else delays.newest
    delay = np.maximum(newest - time, 0)
    counts = np.asarray(delays.counts, np.int64) + np.bincount(_bin_of(delay), minlength=BINS)
    while counts.sum() > 2 * DECAY_EVENTS:
        counts -= counts // 2
    return Delays(tuple(counts.tolist()), max(newest, int(time.max())))


def _bin_of(delay: IntArray) -> IntArray:
    """Return the bin of each delay: bin 0 for no delay, then ``PARTS`` bins per power of two."""
    whole = np.maximum(delay, 1).astype(np.float64)
    mantissa, exponent = np.frexp(whole)
    part = np.minimum(((mantissa - 0.5) * 2 * BINS_PER_POWER_OF_TWO).astype(np.int64), BINS_PER_POWER_OF_TWO - 1)
    return np.where(
        delay <= 0, 0, np.minimum(1 + (exponent.astype(np.int64) - 1) * BINS_PER_POWER_OF_TWO + part, BINS - 1)
    )


def _bin_upper_bound(number: int) -> int:
    """Return the upper bound of a bin, in microseconds."""
    if number == 0:
        return 0
    exponent, part = divmod(number - 1, BINS_PER_POWER_OF_TWO)
    return int(2.0**exponent * (1 + (part + 1) / BINS_PER_POWER_OF_TWO))


def _last_bin(delays: Delays, loss: float) -> int | None:
    """Return the first bin with at most a share ``loss`` of the events beyond it; None for fewer than ``ENOUGH`` events."""
    counts = np.asarray(delays.counts, np.int64)
    total = int(counts.sum())
    if total < MIN_EVENTS:
        return None
    beyond = total - np.cumsum(counts)
    return int(np.flatnonzero(beyond <= loss * total)[0])


def _fraction_beyond(delays: Delays, last: int | None) -> float:
    """Return the share of events in bins beyond ``last``."""
    return 0.0 if last is None else sum(delays.counts[last + 1 :]) / sum(delays.counts)
