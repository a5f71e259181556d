"""A shard of a stream: matches up to the watermark, retains events of open windows, and evicts the rest.

State is raw events, so a call searches the retained and the new events. A decided run is never searched again; an open
one is, from its first event, until the horizon has passed its span. Partial matches that take events from one another
cannot be rebuilt, and are stored. Matches are emitted once: those emitted before are derived from the previous horizon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.compile import program as p
from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.engines.sequence.columns import OrderedEvents, batch_in
from perseid.engines.sequence.match_buffer import MatchBuffer, decided_partials, prepend_decided
from perseid.engines.sequence.output import PatternMatches, joined, match_tables
from perseid.engines.sequence.partials import (
    Partials,
    concat_partials,
    encode_partials,
    no_partials,
    placed_partials,
    stores_partials,
)
from perseid.engines.sequence.run import find
from perseid.engines.sequence.state import PatternProgress, SequenceState, empty_state, read_state, write_state
from perseid.errors import LimitError
from perseid.runtime.arrays import BoolArray, Int8Array, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch, concat_batches, take_events
from perseid.runtime.event_order import arrange
from perseid.runtime.hashing import match_words
from perseid.runtime.key_encoding import distinct
from perseid.runtime.late_rows import LateReason
from perseid.runtime.watermark import ARRIVAL, Watermark

if TYPE_CHECKING:
    from perseid.engines.sequence.plan import SequencePlan

_BEFORE_ALL = y.NONE
ShardArguments: TypeAlias = "tuple[SequencePlan, SequenceState, EventBatch, Watermark, EventBatch | None]"
"""The arguments of a :class:`SequenceShard`."""


def advance(plan: SequencePlan, rows: EventBatch, state: bytes | None, clock: Watermark) -> StepResult:
    """Run one call of a shard of a stream: rows and state in, decided matches and the new state out."""
    return run(plan, rows, state, clock=clock, newest=newest_before(plan, clock)).step


def newest_before(plan: SequencePlan, clock: Watermark) -> int | None:
    """The newest time that any event before this call may have; None without a watermark."""
    return None if clock.current is None else clock.current + plan.delay


@dataclass(frozen=True)
class ShardResult:
    """The result of a call, and what stages that take its matches need."""

    step: StepResult
    tables: Mapping[str, pa.Table]
    """Output rows by pattern."""
    emitted_upto: Mapping[str, int]
    """By pattern: the time up to which all its matches have been emitted; no entry if it was not searched."""
    new_state: SequenceState | None
    """The state after the call; None at the end of the input."""


def run(
    plan: SequencePlan,
    rows: EventBatch,
    state: bytes | SequenceState | None,
    *,
    clock: Watermark,
    newest: int | None,
    fed: EventBatch | None = None,
    fresh: bool = False,
    make_shard: Callable[..., SequenceShard] | None = None,
    writes: bool = True,
) -> ShardResult:
    """Run one call. ``fed`` are matches of other patterns, never late; ``fresh`` patterns are new to the state.

    A speculative call continues from the ``left`` of another call, and writes nothing.
    """
    if isinstance(state, SequenceState):
        previous = state
    elif state is not None:
        previous = read_state(plan.plan, rows, state, plan.shards, plan.order, newest)
    else:
        previous = empty_state(rows)
        if fresh:
            previous = replace(
                previous,
                progress={one.pattern.pattern.semantic_hash: PatternProgress(newest) for one in plan.patterns},
            )
    if previous.horizon is not None and not clock.ended and (clock.current is None or clock.current < previous.horizon):
        clock = replace(clock, current=previous.horizon)  # the horizon never moves back
    shard = (make_shard or SequenceShard)(plan, previous, rows, clock, fed)
    found = list(shard.search())
    last_ends: dict[str, dict[tuple[int, int], int]] = {}
    for matches in found:
        # By name: two patterns with the same semantic hash emit their matches separately.
        last_ends[matches.pattern.name] = dict(shard.progress_of(matches.pattern.semantic_hash).groups)
    tables, counters = match_tables(found, shard.rows, plan.schema, last_ends)
    counters.update(shard.counters)
    new_state = None if clock.ended else shard.new_state(found, last_ends)
    written, new_state, dropped = _encode_within_limit(plan, new_state) if writes else (None, new_state, 0)
    counters["capped"] += dropped
    counters["live_keys"] = _live_keys(new_state)
    counters["retained_events"] = 0 if new_state is None else len(new_state.rows)
    counters["state_bytes"] = 0 if written is None else len(written)
    return ShardResult(
        StepResult(
            joined(tables.values(), plan.schema),
            written,
            shard.next_timer(new_state),
            dict(counters),
            shard.late,
            shard.late_reasons,
        ),
        tables,
        shard.emitted_upto,
        new_state,
    )


def _encode_within_limit(
    plan: SequencePlan, state: SequenceState | None
) -> tuple[bytes | None, SequenceState | None, int]:
    """Encode the state within its limit; returns also the remaining state and the number of dropped runs, oldest first.

    Dropping a run loses matches. Dropping an event that waits for the watermark, or that a negation checks, would make
    matches wrong: such rows are never evicted, and a state that they fill is an error.
    """
    dropped = 0
    while True:
        if state is None or (
            not len(state.rows) and not any(m.groups or m.since is not None for m in state.progress.values())
        ):
            return None, None, dropped
        written = write_state(plan.plan, state, plan.shards, plan.order)
        if len(written) <= plan.max_state:
            return written, state, dropped
        required = np.zeros(len(state.rows), bool) if state.required is None else state.required
        evictable = state.searched & ~required
        if not evictable.any():
            raise _state_limit_error(state, len(written), plan.max_state)
        is_old = state.searched & (state.rows.time <= np.median(state.rows.time[evictable]))
        dropped += sum(int((flags & is_old).sum()) for flags in state.opens.values())
        state = state.without_runs(is_old).take(np.flatnonzero(~is_old | required))


def _state_limit_error(state: SequenceState, size: int, limit: int) -> LimitError:
    """The error for a state that exceeds its limit by events that must not be evicted."""
    buffered = int((~state.searched).sum())
    others = len(state.rows) - buffered
    covered = f" and {others:,} events that a 'not' or a later event still needs" if others else ""
    return LimitError(
        f"{buffered:,} events that wait for the watermark{covered} take {size:,} bytes in one shard; max_state allows {limit:,}. "
        "No event was dropped.",
        hint="Restart the query with a larger max_state, in ps.StreamOptions(max_state=…) or as stream.max_state of a job: "
        "it resumes from its checkpoint without loss. A shorter watermark delay retains fewer events; so do more "
        "shards, which need a new checkpoint.",
    )


def _live_keys(state: SequenceState | None) -> int:
    if state is None or not len(state.rows):
        return 0
    rows = state.rows
    if rows.route is None:
        return max(distinct(list(keys.values()), len(rows)) for keys in rows.keys.values())
    counts = []
    for route, keys in rows.keys.items():
        chosen = pa.array(np.flatnonzero(rows.route == route))
        counts.append(distinct([key.take(chosen) for key in keys.values()], len(chosen)))
    return max(counts)


@dataclass(frozen=True)
class PartitionView:
    """Rows that can be searched, sorted by one partitioning."""

    batch: OrderedEvents
    order: IntArray
    offsets: IntArray
    occurrence: IntArray
    duplicates: int
    horizons: IntArray | None
    """The horizon of each partition; None if the input is complete."""
    searched: BoolArray
    """By position: True if an earlier call searched it."""

    @cached_property
    def partition(self) -> IntArray:
        """By position: its partition."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


class SequenceShard:
    """One call of a shard. Disorder strategies override which rows are searched, and which are late."""

    def __init__(
        self,
        plan: SequencePlan,
        previous: SequenceState,
        rows: EventBatch,
        clock: Watermark,
        fed: EventBatch | None = None,
    ) -> None:
        self.plan, self.previous, self.clock = plan, previous, clock
        self.arrival = plan.order == ARRIVAL
        reasons = self._classify_late(rows)
        self.late = np.flatnonzero(reasons)
        self.late_reasons = reasons[self.late]
        accepted = take_events(rows, np.flatnonzero(reasons == LateReason.NOT)) if len(self.late) else rows
        self.rows = concat_batches(previous.rows, accepted if fed is None else concat_batches(accepted, fed))
        self.old_count = len(previous.rows)
        new = len(self.rows) - self.old_count
        self.searched = np.concatenate([previous.searched, np.zeros(new, bool)])
        self.counters: Counter[str] = Counter(events=len(accepted), late=len(self.late), duplicates=0, capped=0)
        self.opens: dict[str, BoolArray] = {}
        """By pattern: rows that start a run which is open after this call."""
        self.partials: dict[str, Partials] = {}
        """By pattern: partial matches that are open after this call and cannot be rebuilt."""
        self.retained = np.zeros(len(self.rows), bool)
        self.required = np.zeros(len(self.rows), bool)
        """Rows without which later events would give wrong matches, or would be accepted although they are late."""
        self.occurrence = np.concatenate([previous.occurrence, np.zeros(new, np.int64)])
        self.progress: dict[str, PatternProgress] = {}
        self.timers: list[int] = []
        self.emitted_upto: dict[str, int] = {}
        """By pattern: the time up to which its matches are decided and emitted."""
        self.search_order: IntArray | None = None
        """Rows in the order in which they were searched."""
        self.ready = np.ones(len(self.rows), bool) if clock.ended else self._ready()
        """Rows to search in this call; the others wait for the watermark."""
        nothing_new = not (self.ready & ~self.searched).any() and previous.horizon == clock.current
        self.idle = nothing_new and not clock.ended and not previous.replays
        """True if there are no new rows to search and the horizon is unchanged: open runs stay open."""

    def _classify_late(self, rows: EventBatch) -> Int8Array:
        """The late reason of each row."""
        reasons, now = np.zeros(len(rows), np.int8), self.clock.current
        if self.arrival and len(self.previous.rows):
            reasons[_is_older(self.previous.rows, rows)] = LateReason.OUT_OF_ORDER
        if now is not None:
            reasons[rows.time <= now] = LateReason.BEHIND_WATERMARK
        return reasons

    def _ready(self) -> BoolArray:
        """Mask of the rows that can be searched: up to the watermark, or all in arrival order."""
        if self.arrival:
            return np.ones(len(self.rows), bool)
        if self.clock.current is None:
            return np.zeros(len(self.rows), bool)
        return self.rows.time <= self.clock.current

    def progress_of(self, name: str) -> PatternProgress:
        return self.previous.progress.get(name, PatternProgress())

    # searching

    def search(self) -> Iterator[PatternMatches]:
        """Search every pattern and yield its new matches."""
        if self.idle:
            new = np.zeros(len(self.rows) - self.old_count, bool)
            self.opens = {name: np.concatenate([flags, new]) for name, flags in self.previous.opens.items()}
            self.progress, self.partials = dict(self.previous.progress), dict(self.previous.partials)
            self.counters["incomplete"] += sum(progress.since is not None for progress in self.progress.values())
            self.retained[: self.old_count] = self.searched[: self.old_count]
            lookback = max((bytecode.pattern.facts.lookback for bytecode in self.plan.patterns), default=0)
            if lookback:
                now = _BEFORE_ALL + lookback if self.clock.current is None else self.clock.current
                self.required = self.searched & (self.rows.time > now - lookback)
            return
        views: dict[tuple[int, int | None], PartitionView] = {}
        for bytecode in self.plan.patterns:
            name, route = bytecode.pattern.pattern.semantic_hash, bytecode.pattern.route
            since = self._since(bytecode)
            if (route, since) not in views:
                views[route, since] = self._make_view(route, since)
                if since is None and route == min(self.rows.keys):
                    self.counters["duplicates"] += views[route, since].duplicates
            yield self._search_pattern(bytecode, name, views[route, since])

    def _since(self, bytecode: CompiledPattern) -> int | None:
        """The time after which a pattern takes events, while the state has earlier ones; None if it takes all."""
        facts, now = bytecode.pattern.facts, self.clock.current
        progress = self.progress_of(bytecode.pattern.pattern.semantic_hash)
        since = progress.since
        if since is not None:
            if self.clock.ended or (now is not None and since + (facts.bound or 0) + facts.lookback < now):
                progress = replace(progress, since=None)
            else:
                self.counters["incomplete"] += 1
                self.timers.append(since + (facts.bound or 0) + facts.lookback + 1)
        self.progress[bytecode.pattern.pattern.semantic_hash] = progress
        # It still applies in the call that passes it: earlier events may have waited until now to be searched.
        return since

    def _make_view(self, route: int, since: int | None) -> PartitionView:
        from perseid.engines.sequence.partition_sort import sort_partitions, wanted_rows

        rows = self.rows
        chosen = self.ready if since is None else self.ready & (rows.time > since)
        wanted = wanted_rows(self.plan, rows)
        if wanted is not None:
            chosen = chosen & wanted
        order, offsets, occurrence, duplicates = sort_partitions(
            self._in_arrival_order(), route, np.flatnonzero(chosen)
        )
        if self.search_order is None or len(order) > len(self.search_order):
            self.search_order = order  # a pattern that starts later has fewer rows
        searched = self.searched[order]
        if occurrence is None:
            occurrence = np.zeros(len(order), np.int64)
        occurrence = np.where(searched, self.occurrence[order], occurrence)
        self.occurrence[order] = occurrence
        batch = batch_in(rows, order)
        horizons = None if self.clock.ended else self._horizons(order, offsets)
        return PartitionView(batch, order, offsets, occurrence, duplicates, horizons, searched)

    def _in_arrival_order(self) -> EventBatch:
        """The rows; in arrival order, with their arrival number as the first tie breaker, retained rows first."""
        if not self.arrival:
            return self.rows
        arrived = np.full(len(self.rows), self.old_count, np.int64)
        arrived[: self.old_count] = np.arange(self.old_count)
        return replace(self.rows, tie_breakers=[pa.array(arrived), *self.rows.tie_breakers])

    def _horizons(self, order: IntArray, offsets: IntArray, *, before: bool = False) -> IntArray:
        """The horizon of each partition, now or ``before``: the watermark, or in arrival order newest time - 1."""
        now = self.previous.horizon if before else self.clock.current
        horizons = np.full(len(offsets) - 1, _BEFORE_ALL if now is None else now, np.int64)
        if not self.arrival or not len(order):
            return horizons
        time = self.rows.time[order]
        nonempty = np.diff(offsets) > 0
        last = np.where(nonempty, time[np.maximum(offsets[1:] - 1, 0)], _BEFORE_ALL)
        # Events of the same time may follow the newest one, but no earlier ones.
        return np.maximum(horizons, last - 1)

    def _search_pattern(self, bytecode: CompiledPattern, name: str, view: PartitionView) -> PatternMatches:
        opens = np.ones(len(view.order), np.int64)
        if view.searched.any():
            before = self.previous.opens.get(name)
            rows = view.order[view.searched]
            opens[view.searched] = 0 if before is None else before[rows]
        stored = self._stored_partials(bytecode, name, view)
        if stored is not None:
            opens[view.searched] = 0  # their partial matches are restored
        starts = opens.copy()
        batch = replace(view.batch)
        words = None if stored is None else encode_partials(stored.open, view.partition, len(view.offsets) - 1)
        raw, arrays = find(
            bytecode,
            batch,
            view.offsets,
            horizon=view.horizons,
            opens=opens,
            carried=words,
            budget=self.plan.budget,
        )
        self.emitted_upto[bytecode.pattern.name] = self._decided_upto(raw)
        raw = self._drop_emitted(bytecode, view, raw, starts)
        if stored is not None:
            raw = prepend_decided(bytecode, raw, stored.decided, view.partition)
        deferred = None
        if bytecode.pattern.pattern.suppress is not None:
            raw, deferred = self._split_due(bytecode, raw, opens)
        self.counters["capped"] += self._drop_oldest_runs(bytecode, view, opens)
        if stores_partials(bytecode) and raw.partials is not None:
            partials = raw.partials if deferred is None else concat_partials(decided_partials(deferred), raw.partials)
            partials = partials.select(opens[partials.starts] != 0)
            self.partials[name] = replace(partials, events=view.order[partials.events])
        if raw.next_timer != y.FOREVER:
            self.timers.append(raw.next_timer)
        self._mark_retained(bytecode, view, arrays, opens, name)
        return PatternMatches(bytecode, raw, batch, view.offsets, view.occurrence, arrays, view.duplicates)

    def _decided_upto(self, raw: MatchBuffer) -> int:
        if self.clock.ended:
            return y.FOREVER
        now = _BEFORE_ALL if self.clock.current is None else self.clock.current
        return min(now, int(raw.frontiers[:-1].min(initial=y.FOREVER)))

    def _stored_partials(self, bytecode: CompiledPattern, name: str, view: PartitionView) -> Partials | None:
        """Stored partial matches with positions as events; None if they are rebuilt."""
        if not stores_partials(bytecode) or self.previous.replays:
            return None
        before = self.previous.partials.get(name, no_partials())
        places = np.full(len(self.rows), -1, np.int64)
        places[view.order[view.searched]] = np.flatnonzero(view.searched)
        found = placed_partials(bytecode, before, places, view.partition)
        self.counters["capped"] += len(before) - len(found)
        return found

    def _drop_emitted(
        self, bytecode: CompiledPattern, view: PartitionView, raw: MatchBuffer, starts: IntArray
    ) -> MatchBuffer:
        """Remove matches that were emitted before: an open run may have some already."""
        tables = bytecode.tables
        contextual, suppresses = tables[y.S_CONTEXT] >= 0, bytecode.pattern.pattern.suppress is not None
        if not contextual and not suppresses and (not tables[y.S_COMBINES] or tables[y.S_ONE]):
            return raw  # one match per start, after which its run is over
        if contextual and not self.previous.replays:
            return raw  # one match per partial match, which ends with it
        if not (starts[view.searched] == 1).any():
            return raw
        if tables[y.S_PLAIN] and not contextual and not suppresses and not self.arrival:
            emitted = self._horizons(view.order, view.offsets, before=True)
            return select_matches(raw, np.flatnonzero(raw.timed_out | (raw.end > emitted[raw.partition])))
        hashes = _match_hashes(raw, view.order)
        before = np.flatnonzero(view.searched)
        counts = np.concatenate([[0], np.cumsum(view.searched)])
        offsets = counts[view.offsets]
        order = view.order[before]
        batch = replace(
            view.batch, time=view.batch.time[before], kinds=view.batch.kinds[before], order=order, loaded={}
        )
        horizons = self._horizons(order, offsets, before=True)
        earlier, _ = find(bytecode, batch, offsets, horizon=horizons, opens=starts[before], budget=self.plan.budget)
        if suppresses:
            earlier = select_matches(earlier, np.flatnonzero(_due(bytecode, earlier)))
        emitted = _match_hashes(earlier, order)
        return select_matches(raw, np.flatnonzero(~np.isin(hashes, emitted)))

    def _split_due(
        self, bytecode: CompiledPattern, raw: MatchBuffer, opens: IntArray
    ) -> tuple[MatchBuffer, MatchBuffer]:
        """Split matches into those to emit in order of their end, and others that an earlier, open run may suppress."""
        due = _due(bytecode, raw)
        opens[raw.starts[~due]] = 1
        return select_matches(raw, np.flatnonzero(due)), select_matches(raw, np.flatnonzero(~due))

    # retention

    def _drop_oldest_runs(self, bytecode: CompiledPattern, view: PartitionView, opens: IntArray) -> int:
        """Drop the oldest open runs beyond the cap of a key, if nothing bounds the pattern; returns their number."""
        cap = bytecode.pattern.retention.cap
        if cap is None or self.clock.ended:
            return 0
        positions = np.flatnonzero(opens)
        partition = view.partition[positions]
        surplus = np.bincount(partition, minlength=len(view.offsets) - 1) - cap
        if not (surplus > 0).any():
            return 0
        first = np.searchsorted(partition, partition)  # where the partition begins among these
        is_dropped = np.arange(len(positions)) - first < surplus[partition]
        opens[positions[is_dropped]] = 0
        return int(is_dropped.sum())

    def _mark_retained(
        self, bytecode: CompiledPattern, view: PartitionView, arrays: y.Arrays, opens: IntArray, name: str
    ) -> None:
        """Mark the rows that the pattern may still need."""
        flags = np.zeros(len(self.rows), bool)
        flags[view.order] = opens != 0
        self.opens[name] = flags
        if self.clock.ended or not len(view.order):
            return
        partition, time = view.partition, view.batch.time
        count = len(view.offsets) - 1
        first = np.full(count, len(time), np.int64)
        positions = np.flatnonzero(opens)
        first[partition[positions][::-1]] = positions[::-1]
        needed = np.arange(len(time)) >= first[partition]
        lookback = bytecode.pattern.facts.lookback
        if lookback:
            assert view.horizons is not None
            # The lookback of open runs and of later ones.
            began = np.where(first < len(time), time[np.minimum(first, len(time) - 1)], y.FOREVER)
            needed |= time >= (np.minimum(began, view.horizons + 1) - lookback)[partition]
            covered = time >= (view.horizons + 1 - lookback)[partition]
            if self.plan.plan.event_types is not None:
                covered &= arrays.events[y.E_MASK] & negated_bits(bytecode) != 0
            self.required[view.order[covered]] = True
        if self.plan.plan.event_types is not None:
            needed &= arrays.events[y.E_MASK] != 0
        if lookback and needed.any():
            self.timers.append(int(time[needed].min()) + lookback)
        if self.arrival:
            # The newest event decides which later ones are out of order, until the watermark passes it.
            now = _BEFORE_ALL if self.clock.current is None else self.clock.current
            last = time == time[np.maximum(view.offsets[1:] - 1, 0)][partition]
            newest = last & (time > now)
            needed |= newest
            self.required[view.order[newest]] = True
            if newest.any():
                self.timers.append(int(time[newest].min()))
        self.retained[view.order[needed]] = True

    def new_state(self, found: list[PatternMatches], last_ends: dict[str, dict[tuple[int, int], int]]) -> SequenceState:
        """The state after this call."""
        progress = dict(self.progress)
        decided_upto = [
            self.emitted_upto[matches.pattern.name] for matches in found if matches.pattern.suppress is not None
        ]
        for matches in found:
            suppress, name = matches.pattern.suppress, matches.pattern.semantic_hash
            if suppress is not None:
                assert isinstance(suppress.duration, int)
                expired_upto = _BEFORE_ALL if self.clock.current is None else min(decided_upto) + 1 - suppress.duration
                groups = {group: end for group, end in last_ends[matches.pattern.name].items() if end > expired_upto}
                progress[name] = replace(progress[name], groups=groups)
                self.timers += [end + suppress.duration for end in groups.values()]
        chosen = np.flatnonzero(self.retained | ~self.ready)
        if self.arrival and not self.idle:
            assert self.search_order is not None
            chosen = self.search_order[self.retained[self.search_order]]  # in the order of the search
        after = self.opens, self.clock.current, progress, self.partials
        return SequenceState(self.rows, self.ready, self.occurrence, *after, required=self.required).take(chosen)

    def next_timer(self, state: SequenceState | None) -> int | None:
        """The next timer: a deadline, the end of a window, or the time of a waiting event; None if none."""
        if state is None:
            return None
        buffered = state.rows.time[~state.searched]
        times = [*self.timers, *([int(buffered.min())] if len(buffered) else [])]
        now = self.clock.current
        if self.idle:
            # Without a search the deadlines of open runs are unknown: the timer is the next possible time.
            ends = [end for progress in state.progress.values() for end in progress.groups.values()]
            starts = [progress.since for progress in state.progress.values() if progress.since is not None]
            open_times = [*state.rows.time[state.searched].tolist(), *ends, *starts]
            times += [min(open_times) if now is None else now + 1] if open_times else []
        return next_timer(times, now)


def negated_bits(bytecode: CompiledPattern) -> int:
    """The mask bits of negated steps, including those of leading negations."""
    table, bits = int(bytecode.tables[y.S_STEP_TABLE]), 0
    for program in bytecode.pattern.programs[1:]:
        for instruction in program.instructions:
            if isinstance(instruction, p.TakeEvent):
                bits |= 1 << int(bytecode.tables[table + instruction.step * y.STEP_WIDTH + y.ST_BIT])
    return bits


def next_timer(times: Sequence[int], now: int | None) -> int | None:
    """The earliest of these times after ``now``; ``now + 1`` if all have passed, None if there are none."""
    if not times or now is None:
        return min(times, default=None)
    # A deadline that has passed is held back by an open run, and ends with its decision.
    return min((time for time in times if time > now), default=now + 1)


def _due(bytecode: CompiledPattern, raw: MatchBuffer) -> BoolArray:
    """Mask of matches that can be emitted: no undecided match that may suppress them can end before them."""
    core = bytecode.pattern.pattern
    assert core.suppress is not None
    upto = raw.frontiers[raw.partition]
    if core.suppress.by and not {".".join(path.parts) for path in core.partition} <= set(core.suppress.by):
        upto = raw.frontiers[:-1].min(initial=y.FOREVER)  # matches of one key can suppress those of another
    return raw.timed_out | (raw.end <= upto)


def _is_older(retained: EventBatch, rows: EventBatch) -> BoolArray:
    """Mask of the rows older than the newest retained row of their key."""
    both = concat_batches(retained, rows)
    (keys,) = both.keys.values()
    arrangement = arrange(list(keys.values()), both.time, [], None)
    old = arrangement.order < len(retained)
    partition = np.repeat(np.arange(arrangement.partitions), np.diff(arrangement.offsets))
    newest = np.full(arrangement.partitions, _BEFORE_ALL, np.int64)
    np.maximum.at(newest, partition[old], both.time[arrangement.order[old]])
    is_older = np.zeros(len(both), bool)
    is_older[arrangement.order] = ~old & (both.time[arrangement.order] < newest[partition])
    return is_older[len(retained) :]


def _match_hashes(raw: MatchBuffer, order: IntArray) -> NDArray[Any]:
    """An identifier of each match: a hash of its kind and rows."""
    rows = np.ascontiguousarray(order[raw.positions], np.int64)
    none = np.zeros((len(raw), 2), np.int64)
    zeros = np.zeros(len(rows), np.int64)
    lanes = match_words(0, 1, none, raw.offsets, raw.steps, zeros, zeros, rows)
    kinds = np.where(raw.timed_out, 1, 0)
    return np.ascontiguousarray(np.column_stack([lanes, kinds]).astype(np.int64)).view("V24").ravel()


def select_matches(raw: MatchBuffer, chosen: IntArray) -> MatchBuffer:
    """Select matches by index."""
    if len(chosen) == len(raw):
        return raw
    counts = np.diff(raw.offsets)[chosen]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    inside = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], counts) + np.repeat(raw.offsets[:-1][chosen], counts)
    inside = inside.astype(np.int64)
    return replace(
        raw,
        partition=raw.partition[chosen],
        timed_out=raw.timed_out[chosen],
        end=raw.end[chosen],
        offsets=offsets,
        steps=raw.steps[inside],
        positions=raw.positions[inside],
        unified=raw.unified[chosen],
    )
