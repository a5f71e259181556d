"""Emit matches finalized by punctuations, per key and per event type or source.

A punctuation is a row in the stream (the partial order guarantee of Wang et al., 2016, paper 4): no later row of this
type or source, of this key or of any key, has a time up to that of the punctuation. A key is complete up to the minimum
of the punctuations of all types or sources that a pattern reads, or up to the watermark if that is later. Up to there
it is searched, its matches are emitted, and its events are evicted. A row that violates a punctuation is late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from perseid.engines.disorder.state import read_state, write_state
from perseid.engines.sequence import layout as y
from perseid.engines.sequence import state as events
from perseid.engines.sequence.partition_sort import comparable
from perseid.engines.sequence.shard import SequenceShard, newest_before, next_timer, run
from perseid.runtime.arrays import BoolArray, Int8Array, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import (
    KEY_PUNCTUATION,
    STREAM_PUNCTUATION,
    EventBatch,
    concat_batches,
    flatten_column,
    take_events,
)
from perseid.runtime.event_order import arrange
from perseid.runtime.late_rows import LateReason
from perseid.runtime.watermark import Watermark

if TYPE_CHECKING:
    from perseid.engines.disorder.plan import DisorderPlan
    from perseid.engines.disorder.strategy import Conservative
    from perseid.engines.sequence.plan import SequencePlan

NONE = y.NONE


@dataclass(frozen=True)
class Promises:
    """The punctuations received by a shard."""

    names: Sequence[str]
    """The types or sources that all need a punctuation for a key to be complete; none: only unnamed punctuations count."""
    source: str | None
    of_keys: EventBatch
    everywhere: Mapping[str, int]
    """By name: the time of the punctuation of every key; the empty name covers all types or sources."""

    def codes(self, rows: EventBatch) -> IntArray:
        """By row: the index of its name in ``names``; -1 for null, -2 for any other name."""
        places = {name: i for i, name in enumerate(self.names)}
        if self.source is None:
            by_kind = [places.get(name, -2) for name in rows.type_names]
            codes: IntArray = np.array([*by_kind, -1], np.int64)[rows.type_codes]
            return codes
        found = flatten_column(rows.columns[self.source]).to_pylist()
        return np.array([-1 if name is None else places.get(str(name), -2) for name in found], np.int64)

    def reach(self, rows: EventBatch) -> tuple[IntArray, IntArray]:
        """By row: the time up to which its key is complete, and the time up to which its own name is punctuated."""
        both = concat_batches(self.of_keys, rows)
        (keys,) = both.keys.values()
        arrangement = arrange([comparable(key) for key in keys.values()], both.time, [], None)
        partition = np.empty(len(both), np.int64)
        partition[arrangement.order] = np.repeat(np.arange(arrangement.partitions), np.diff(arrangement.offsets))
        promised, codes = len(self.of_keys), self.codes(both)
        upto = np.full((arrangement.partitions, len(self.names) + 1), NONE, np.int64)
        for code in range(-1, len(self.names)):
            # The last column is for punctuations without a name, which cover all names.
            mine = np.flatnonzero(codes[:promised] == code)
            np.maximum.at(upto[:, code], partition[mine], both.time[mine])
        for place, name in enumerate(self.names):
            upto[:, place] = np.maximum(upto[:, place], self.everywhere.get(name, NONE))
        upto[:, -1] = np.maximum(upto[:, -1], self.everywhere.get("", NONE))
        upto[:, :-1] = np.maximum(upto[:, :-1], upto[:, -1:])
        least = upto[:, :-1].min(axis=1) if self.names else upto[:, -1]
        own = codes[promised:]
        # A row without a name, or with a name outside ``names``, is covered only by punctuations of all names.
        return least[partition[promised:]], upto[partition[promised:], np.where(own < 0, len(self.names), own)]

    def with_more(self, rows: EventBatch, now: int) -> Promises:
        """Add new punctuations; evict those that the watermark has passed or that newer ones supersede."""
        everywhere = {name: time for name, time in self.everywhere.items() if time > now}
        codes, control, rows = self.codes(rows), rows.control, replace(rows, control=None)
        for code, name in enumerate((*self.names, "")):
            mine = (control == STREAM_PUNCTUATION) & (codes == (code if name else -1))
            newest = int(rows.time[mine].max(initial=now))
            if newest > now:
                everywhere[name] = max(everywhere.get(name, NONE), newest)
        chosen = np.flatnonzero((control == KEY_PUNCTUATION) & (rows.time > now) & (codes > -2))
        both = concat_batches(
            take_events(self.of_keys, np.flatnonzero(self.of_keys.time > now)), take_events(rows, chosen)
        )
        return replace(self, of_keys=take_events(both, self._newest(both)), everywhere=everywhere)

    def _newest(self, rows: EventBatch) -> IntArray:
        """Return the positions of the newest punctuation of each key and name."""
        (keys,) = rows.keys.values()
        arrangement = arrange([comparable(key) for key in keys.values()], rows.time, [], None)
        partition = np.repeat(np.arange(arrangement.partitions), np.diff(arrangement.offsets))
        about = partition * (len(self.names) + 2) + self.codes(rows)[arrangement.order] + 2
        _, last = np.unique(about[::-1], return_index=True)  # the rows of a key are sorted by time
        return np.sort(arrangement.order[::-1][last])


def advance(plan: DisorderPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Run one call of a shard over rows and punctuations: return the finalized matches and the new state."""
    inner = plan.searched(order=plan.strategy.name)
    before = read_state(plan, state)
    control = np.zeros(len(rows), np.int8) if rows.control is None else rows.control
    came, given = np.flatnonzero(control == 0), np.flatnonzero(control != 0)
    promised = take_events(replace(rows, control=control), given)
    here = replace(take_events(rows, came) if len(given) else rows, control=None)
    known = _known(plan, before.promised, before.everywhere, here)
    now = NONE if watermark.current is None else watermark.current
    more = known.with_more(promised, now)
    make = partial(PunctuatedShard, known=known, promised=more, moved=len(promised) > 0)
    done = run(inner, here, before.searched, clock=watermark, newest=newest_before(inner, watermark), make=make).step
    kept, wakes = replace(before, searched=done.state), [] if done.next_timer is None else [done.next_timer]
    if watermark.ended:
        kept = replace(kept, promised=None, everywhere={})
    else:
        size, body = len(more.of_keys), None
        if size:
            few = events.SequenceState(more.of_keys, np.zeros(size, bool), np.zeros(size, np.int64), {})
            body = events.write_state(plan.plan, few, plan.shards, inner.order)
        kept = replace(kept, promised=body, everywhere=dict(more.everywhere))
        wakes += [*more.everywhere.values(), *([int(more.of_keys.time.min())] if len(more.of_keys) else [])]
    written = write_state(plan, kept)
    counters = {
        **done.counters,
        "control_rows": len(promised),
        "state_bytes": 0 if written is None else len(written),
    }
    wake = next_timer(wakes, watermark.current) if written is not None else None
    return replace(done, state=written, next_timer=wake, counters=counters, late=came[np.asarray(done.late, np.int64)])


def _known(plan: DisorderPlan, state: bytes | None, everywhere: Mapping[str, int], shape: EventBatch) -> Promises:
    strategy: Conservative = plan.strategy  # type: ignore[assignment]
    none = take_events(shape, np.zeros(0, np.int64))
    rows = none if state is None else events.read_state(plan.plan, none, state, plan.shards, strategy.name).rows
    names = strategy.sources if strategy.source is not None else plan.plan.event_types or ()
    return Promises(names, strategy.source, rows, everywhere)


class PunctuatedShard(SequenceShard):
    """A shard with one completeness horizon per key."""

    def __init__(
        self,
        plan: SequencePlan,
        kept: events.SequenceState,
        rows: EventBatch,
        watermark: Watermark,
        fed: EventBatch | None = None,
        *,
        known: Promises,
        promised: Promises,
        moved: bool,
    ) -> None:
        self.known_before, self.promised = known, promised
        super().__init__(plan, kept, rows, watermark, fed)
        self.idle = self.idle and not moved

    def _behind(self, rows: EventBatch) -> Int8Array:
        """Classify late rows by the punctuations of earlier calls: a row may precede a punctuation of its own call."""
        _, own = self.known_before.reach(rows)
        behind = super()._behind(rows)
        behind[(behind == LateReason.NOT) & (rows.time <= own)] = LateReason.AFTER_PUNCTUATION
        return behind

    @cached_property
    def complete(self) -> IntArray:
        """By row: the time up to which its key is complete."""
        return self.promised.reach(self.rows)[0]

    @cached_property
    def complete_before(self) -> IntArray:
        return self.known_before.reach(self.rows)[0]

    def _ready(self) -> BoolArray:
        ready: BoolArray = super()._ready() | (self.rows.time <= self.complete)
        return ready

    def _horizons(self, order: IntArray, offsets: IntArray, *, before: bool = False) -> IntArray:
        known = super()._horizons(order, offsets, before=before)
        some = np.diff(offsets) > 0
        first = order[offsets[:-1][some]]
        known[some] = np.maximum(known[some], (self.complete_before if before else self.complete)[first])
        return known
