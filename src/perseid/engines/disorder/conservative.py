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
class Punctuations:
    """The punctuations received by a shard."""

    names: Sequence[str]
    """The types or sources that all need a punctuation for a key to be complete; none: only unnamed punctuations count."""
    source: str | None
    by_key: EventBatch
    for_all_keys: Mapping[str, int]
    """By name: the time of the punctuation of every key; the empty name covers all types or sources."""

    def name_codes(self, rows: EventBatch) -> IntArray:
        """By row: the index of its name in ``names``; -1 for null, -2 for any other name."""
        numbers = {name: i for i, name in enumerate(self.names)}
        if self.source is None:
            by_type = [numbers.get(name, -2) for name in rows.type_names]
            codes: IntArray = np.array([*by_type, -1], np.int64)[rows.type_codes]
            return codes
        names = flatten_column(rows.columns[self.source]).to_pylist()
        return np.array([-1 if name is None else numbers.get(str(name), -2) for name in names], np.int64)

    def complete_upto(self, rows: EventBatch) -> tuple[IntArray, IntArray]:
        """By row: the time up to which its key is complete, and the time up to which its own name is punctuated."""
        both = concat_batches(self.by_key, rows)
        (keys,) = both.keys.values()
        arrangement = arrange([comparable(key) for key in keys.values()], both.time, [], None)
        partition = np.empty(len(both), np.int64)
        partition[arrangement.order] = np.repeat(np.arange(arrangement.partitions), np.diff(arrangement.offsets))
        count, codes = len(self.by_key), self.name_codes(both)
        upto = np.full((arrangement.partitions, len(self.names) + 1), NONE, np.int64)
        for code in range(-1, len(self.names)):
            # The last column is for punctuations without a name, which cover all names.
            positions = np.flatnonzero(codes[:count] == code)
            np.maximum.at(upto[:, code], partition[positions], both.time[positions])
        for place, name in enumerate(self.names):
            upto[:, place] = np.maximum(upto[:, place], self.for_all_keys.get(name, NONE))
        upto[:, -1] = np.maximum(upto[:, -1], self.for_all_keys.get("", NONE))
        upto[:, :-1] = np.maximum(upto[:, :-1], upto[:, -1:])
        least = upto[:, :-1].min(axis=1) if self.names else upto[:, -1]
        own_codes = codes[count:]
        # A row without a name, or with a name outside ``names``, is covered only by punctuations of all names.
        return least[partition[count:]], upto[partition[count:], np.where(own_codes < 0, len(self.names), own_codes)]

    def add(self, rows: EventBatch, now: int) -> Punctuations:
        """Add new punctuations; evict those that the watermark has passed or that newer ones supersede."""
        for_all_keys = {name: time for name, time in self.for_all_keys.items() if time > now}
        codes, control, rows = self.name_codes(rows), rows.control, replace(rows, control=None)
        for code, name in enumerate((*self.names, "")):
            is_named = (control == STREAM_PUNCTUATION) & (codes == (code if name else -1))
            newest = int(rows.time[is_named].max(initial=now))
            if newest > now:
                for_all_keys[name] = max(for_all_keys.get(name, NONE), newest)
        chosen = np.flatnonzero((control == KEY_PUNCTUATION) & (rows.time > now) & (codes > -2))
        both = concat_batches(
            take_events(self.by_key, np.flatnonzero(self.by_key.time > now)), take_events(rows, chosen)
        )
        return replace(self, by_key=take_events(both, self._newest(both)), for_all_keys=for_all_keys)

    def _newest(self, rows: EventBatch) -> IntArray:
        """Return the positions of the newest punctuation of each key and name."""
        (keys,) = rows.keys.values()
        arrangement = arrange([comparable(key) for key in keys.values()], rows.time, [], None)
        partition = np.repeat(np.arange(arrangement.partitions), np.diff(arrangement.offsets))
        groups = partition * (len(self.names) + 2) + self.name_codes(rows)[arrangement.order] + 2
        _, last = np.unique(groups[::-1], return_index=True)  # the rows of a key are sorted by time
        return np.sort(arrangement.order[::-1][last])


def advance(plan: DisorderPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Run one call of a shard over rows and punctuations: return the finalized matches and the new state."""
    inner = plan.sequence_plan(order=plan.strategy.name)
    previous = read_state(plan, state)
    control = np.zeros(len(rows), np.int8) if rows.control is None else rows.control
    event_positions, control_positions = np.flatnonzero(control == 0), np.flatnonzero(control != 0)
    control_rows = take_events(replace(rows, control=control), control_positions)
    event_rows = replace(take_events(rows, event_positions) if len(control_positions) else rows, control=None)
    previous_punctuations = _read_punctuations(
        plan, previous.key_punctuations, previous.stream_punctuations, event_rows
    )
    now = NONE if watermark.current is None else watermark.current
    punctuations = previous_punctuations.add(control_rows, now)
    make_shard = partial(
        PunctuatedShard,
        previous_punctuations=previous_punctuations,
        punctuations=punctuations,
        has_new_punctuations=len(control_rows) > 0,
    )
    done = run(
        inner,
        event_rows,
        previous.search_state,
        clock=watermark,
        newest=newest_before(inner, watermark),
        make_shard=make_shard,
    ).step
    new_state, timers = replace(previous, search_state=done.state), [] if done.next_timer is None else [done.next_timer]
    if watermark.ended:
        new_state = replace(new_state, key_punctuations=None, stream_punctuations={})
    else:
        size, body = len(punctuations.by_key), None
        if size:
            key_state = events.SequenceState(punctuations.by_key, np.zeros(size, bool), np.zeros(size, np.int64), {})
            body = events.write_state(plan.plan, key_state, plan.shards, inner.order)
        new_state = replace(new_state, key_punctuations=body, stream_punctuations=dict(punctuations.for_all_keys))
        timers += [
            *punctuations.for_all_keys.values(),
            *([int(punctuations.by_key.time.min())] if len(punctuations.by_key) else []),
        ]
    written = write_state(plan, new_state)
    counters = {
        **done.counters,
        "control_rows": len(control_rows),
        "state_bytes": 0 if written is None else len(written),
    }
    timer = next_timer(timers, watermark.current) if written is not None else None
    return replace(
        done, state=written, next_timer=timer, counters=counters, late=event_positions[np.asarray(done.late, np.int64)]
    )


def _read_punctuations(
    plan: DisorderPlan, state: bytes | None, for_all_keys: Mapping[str, int], shape: EventBatch
) -> Punctuations:
    strategy: Conservative = plan.strategy  # type: ignore[assignment]
    no_rows = take_events(shape, np.zeros(0, np.int64))
    rows = no_rows if state is None else events.read_state(plan.plan, no_rows, state, plan.shards, strategy.name).rows
    names = strategy.sources if strategy.source is not None else plan.plan.event_types or ()
    return Punctuations(names, strategy.source, rows, for_all_keys)


class PunctuatedShard(SequenceShard):
    """A shard with one completeness horizon per key."""

    def __init__(
        self,
        plan: SequencePlan,
        previous: events.SequenceState,
        rows: EventBatch,
        watermark: Watermark,
        fed: EventBatch | None = None,
        *,
        previous_punctuations: Punctuations,
        punctuations: Punctuations,
        has_new_punctuations: bool,
    ) -> None:
        self.previous_punctuations, self.punctuations = previous_punctuations, punctuations
        super().__init__(plan, previous, rows, watermark, fed)
        self.idle = self.idle and not has_new_punctuations

    def _classify_late(self, rows: EventBatch) -> Int8Array:
        """Classify late rows by the punctuations of earlier calls: a row may precede a punctuation of its own call."""
        _, punctuated_upto = self.previous_punctuations.complete_upto(rows)
        reasons = super()._classify_late(rows)
        reasons[(reasons == LateReason.NOT) & (rows.time <= punctuated_upto)] = LateReason.AFTER_PUNCTUATION
        return reasons

    @cached_property
    def complete_upto(self) -> IntArray:
        """By row: the time up to which its key is complete."""
        return self.punctuations.complete_upto(self.rows)[0]

    @cached_property
    def complete_upto_before(self) -> IntArray:
        return self.previous_punctuations.complete_upto(self.rows)[0]

    def _ready(self) -> BoolArray:
        ready: BoolArray = super()._ready() | (self.rows.time <= self.complete_upto)
        return ready

    def _horizons(self, order: IntArray, offsets: IntArray, *, before: bool = False) -> IntArray:
        horizons = super()._horizons(order, offsets, before=before)
        nonempty = np.diff(offsets) > 0
        first = order[offsets[:-1][nonempty]]
        horizons[nonempty] = np.maximum(
            horizons[nonempty], (self.complete_upto_before if before else self.complete_upto)[first]
        )
        return horizons
