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
from perseid.engines.sequence.match_buffer import MatchBuffer, waiting, with_waiting
from perseid.engines.sequence.output import PatternMatches, joined, match_tables
from perseid.engines.sequence.partials import (
    Partials,
    all_partials,
    carried_words,
    carries,
    no_partials,
    placed_partials,
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
Given: TypeAlias = "tuple[SequencePlan, SequenceState, EventBatch, Watermark, EventBatch | None]"
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
    known: Mapping[str, int]
    """By pattern: the time up to which all its matches have been emitted; no entry if it was not searched."""
    left: SequenceState | None
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
    make: Callable[..., SequenceShard] | None = None,
    writes: bool = True,
) -> ShardResult:
    """Run one call. ``fed`` are matches of other patterns, never late; ``fresh`` patterns are new to the state.

    A speculative call continues from the ``left`` of another call, and writes nothing.
    """
    if isinstance(state, SequenceState):
        kept = state
    elif state is not None:
        kept = read_state(plan.plan, rows, state, plan.shards, plan.order, newest)
    else:
        kept = empty_state(rows)
        if fresh:
            kept = replace(
                kept, memories={one.pattern.pattern.semantic_hash: PatternProgress(newest) for one in plan.patterns}
            )
    if kept.horizon is not None and not clock.ended and (clock.current is None or clock.current < kept.horizon):
        clock = replace(clock, current=kept.horizon)  # the horizon never moves back
    shard = (make or SequenceShard)(plan, kept, rows, clock, fed)
    found = list(shard.search())
    told: dict[str, dict[tuple[int, int], int]] = {}
    for one in found:
        # By name: two patterns with the same semantic hash emit their matches separately.
        told[one.pattern.name] = dict(shard.memory(one.pattern.semantic_hash).groups)
    tables, counters = match_tables(found, shard.rows, plan.schema, told)
    counters.update(shard.counters)
    left = None if clock.ended else shard.left(found, told)
    written, left, lost = _written(plan, left) if writes else (None, left, 0)
    counters["capped"] += lost
    counters["live_keys"] = _live(left)
    counters["retained_events"] = 0 if left is None else len(left.rows)
    counters["state_bytes"] = 0 if written is None else len(written)
    return ShardResult(
        StepResult(
            joined(tables.values(), plan.schema), written, shard.wake(left), dict(counters), shard.late, shard.why
        ),
        tables,
        shard.known,
        left,
    )


def _written(plan: SequencePlan, left: SequenceState | None) -> tuple[bytes | None, SequenceState | None, int]:
    """Encode the state within its limit; returns also the remaining state and the number of dropped runs, oldest first.

    Dropping a run loses matches. Dropping an event that waits for the watermark, or that a negation checks, would make
    matches wrong: such rows are never evicted, and a state that they fill is an error.
    """
    dropped = 0
    while True:
        if left is None or (
            not len(left.rows) and not any(m.groups or m.since is not None for m in left.memories.values())
        ):
            return None, None, dropped
        written = write_state(plan.plan, left, plan.shards, plan.order)
        if len(written) <= plan.max_state:
            return written, left, dropped
        required = np.zeros(len(left.rows), bool) if left.required is None else left.required
        evictable = left.searched & ~required
        if not evictable.any():
            raise _state_limit_error(left, len(written), plan.max_state)
        old = left.searched & (left.rows.time <= np.median(left.rows.time[evictable]))
        dropped += sum(int((flags & old).sum()) for flags in left.opens.values())
        left = left.without_runs(old).take(np.flatnonzero(~old | required))


def _state_limit_error(left: SequenceState, size: int, limit: int) -> LimitError:
    """The error for a state that exceeds its limit by events that must not be evicted."""
    waiting = int((~left.searched).sum())
    others = len(left.rows) - waiting
    covered = f" and {others:,} events that a 'not' or a later event still needs" if others else ""
    return LimitError(
        f"{waiting:,} events that wait for the watermark{covered} take {size:,} bytes in one shard; max_state allows {limit:,}. "
        "No event was dropped.",
        hint="Restart the query with a larger max_state, in ps.StreamOptions(max_state=…) or as stream.max_state of a job: "
        "it resumes from its checkpoint without loss. A shorter watermark delay retains fewer events; so do more "
        "shards, which need a new checkpoint.",
    )


def _live(left: SequenceState | None) -> int:
    if left is None or not len(left.rows):
        return 0
    rows = left.rows
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
        self, plan: SequencePlan, kept: SequenceState, rows: EventBatch, clock: Watermark, fed: EventBatch | None = None
    ) -> None:
        self.plan, self.kept, self.clock = plan, kept, clock
        self.arrival = plan.order == ARRIVAL
        behind = self._behind(rows)
        self.late = np.flatnonzero(behind)
        self.why = behind[self.late]
        accepted = take_events(rows, np.flatnonzero(behind == LateReason.NOT)) if len(self.late) else rows
        self.rows = concat_batches(kept.rows, accepted if fed is None else concat_batches(accepted, fed))
        self.old = len(kept.rows)
        new = len(self.rows) - self.old
        self.searched = np.concatenate([kept.searched, np.zeros(new, bool)])
        self.counters: Counter[str] = Counter(events=len(accepted), late=len(self.late), duplicates=0, capped=0)
        self.opens: dict[str, BoolArray] = {}
        """By pattern: rows that start a run which is open after this call."""
        self.partials: dict[str, Partials] = {}
        """By pattern: partial matches that are open after this call and cannot be rebuilt."""
        self.keep = np.zeros(len(self.rows), bool)
        self.required = np.zeros(len(self.rows), bool)
        """Rows without which later events would give wrong matches, or would be accepted although they are late."""
        self.occurrence = np.concatenate([kept.occurrence, np.zeros(new, np.int64)])
        self.memories: dict[str, PatternProgress] = {}
        self.wakes: list[int] = []
        self.known: dict[str, int] = {}
        """By pattern: the time up to which its matches are decided and emitted."""
        self.arranged: IntArray | None = None
        """Rows in the order in which they were searched."""
        self.ready = np.ones(len(self.rows), bool) if clock.ended else self._ready()
        """Rows to search in this call; the others wait for the watermark."""
        nothing_new = not (self.ready & ~self.searched).any() and kept.horizon == clock.current
        self.idle = nothing_new and not clock.ended and not kept.replays
        """True if there are no new rows to search and the horizon is unchanged: open runs stay open."""

    def _behind(self, rows: EventBatch) -> Int8Array:
        """The late reason of each row."""
        behind, now = np.zeros(len(rows), np.int8), self.clock.current
        if self.arrival and len(self.kept.rows):
            behind[_older(self.kept.rows, rows)] = LateReason.OUT_OF_ORDER
        if now is not None:
            behind[rows.time <= now] = LateReason.BEHIND_WATERMARK
        return behind

    def _ready(self) -> BoolArray:
        """Mask of the rows that can be searched: up to the watermark, or all in arrival order."""
        if self.arrival:
            return np.ones(len(self.rows), bool)
        if self.clock.current is None:
            return np.zeros(len(self.rows), bool)
        return self.rows.time <= self.clock.current

    def memory(self, name: str) -> PatternProgress:
        return self.kept.memories.get(name, PatternProgress())

    # searching

    def search(self) -> Iterator[PatternMatches]:
        """Search every pattern and yield its new matches."""
        if self.idle:
            new = np.zeros(len(self.rows) - self.old, bool)
            self.opens = {name: np.concatenate([flags, new]) for name, flags in self.kept.opens.items()}
            self.memories, self.partials = dict(self.kept.memories), dict(self.kept.partials)
            self.counters["incomplete"] += sum(memory.since is not None for memory in self.memories.values())
            self.keep[: self.old] = self.searched[: self.old]
            back = max((bytecode.pattern.facts.lookback for bytecode in self.plan.patterns), default=0)
            if back:
                now = _BEFORE_ALL + back if self.clock.current is None else self.clock.current
                self.required = self.searched & (self.rows.time > now - back)
            return
        places: dict[tuple[int, int | None], PartitionView] = {}
        for bytecode in self.plan.patterns:
            name, route = bytecode.pattern.pattern.semantic_hash, bytecode.pattern.route
            since = self._since(bytecode)
            if (route, since) not in places:
                places[route, since] = self._place(route, since)
                if since is None and route == min(self.rows.keys):
                    self.counters["duplicates"] += places[route, since].duplicates
            yield self._found(bytecode, name, places[route, since])

    def _since(self, bytecode: CompiledPattern) -> int | None:
        """The time after which a pattern takes events, while the state has earlier ones; None if it takes all."""
        facts, now = bytecode.pattern.facts, self.clock.current
        memory = self.memory(bytecode.pattern.pattern.semantic_hash)
        since = memory.since
        if since is not None:
            if self.clock.ended or (now is not None and since + (facts.bound or 0) + facts.lookback < now):
                memory = replace(memory, since=None)
            else:
                self.counters["incomplete"] += 1
                self.wakes.append(since + (facts.bound or 0) + facts.lookback + 1)
        self.memories[bytecode.pattern.pattern.semantic_hash] = memory
        # It still applies in the call that passes it: earlier events may have waited until now to be searched.
        return since

    def _place(self, route: int, since: int | None) -> PartitionView:
        from perseid.engines.sequence.partition_sort import arranged, wanted_rows

        rows = self.rows
        chosen = self.ready if since is None else self.ready & (rows.time > since)
        wanted = wanted_rows(self.plan, rows)
        if wanted is not None:
            chosen = chosen & wanted
        order, offsets, occurrence, duplicates = arranged(self._ranked(), route, np.flatnonzero(chosen))
        if self.arranged is None or len(order) > len(self.arranged):
            self.arranged = order  # a pattern that starts later has fewer rows
        searched = self.searched[order]
        if occurrence is None:
            occurrence = np.zeros(len(order), np.int64)
        occurrence = np.where(searched, self.occurrence[order], occurrence)
        self.occurrence[order] = occurrence
        batch = batch_in(rows, order)
        horizons = None if self.clock.ended else self._horizons(order, offsets)
        return PartitionView(batch, order, offsets, occurrence, duplicates, horizons, searched)

    def _ranked(self) -> EventBatch:
        """The rows; in arrival order, with their arrival number as the first tie breaker, retained rows first."""
        if not self.arrival:
            return self.rows
        arrived = np.full(len(self.rows), self.old, np.int64)
        arrived[: self.old] = np.arange(self.old)
        return replace(self.rows, tie_breakers=[pa.array(arrived), *self.rows.tie_breakers])

    def _horizons(self, order: IntArray, offsets: IntArray, *, before: bool = False) -> IntArray:
        """The horizon of each partition, now or ``before``: the watermark, or in arrival order newest time - 1."""
        now = self.kept.horizon if before else self.clock.current
        known = np.full(len(offsets) - 1, _BEFORE_ALL if now is None else now, np.int64)
        if not self.arrival or not len(order):
            return known
        time = self.rows.time[order]
        some = np.diff(offsets) > 0
        last = np.where(some, time[np.maximum(offsets[1:] - 1, 0)], _BEFORE_ALL)
        # Events of the same time may follow the newest one, but no earlier ones.
        return np.maximum(known, last - 1)

    def _found(self, bytecode: CompiledPattern, name: str, placed: PartitionView) -> PatternMatches:
        opens = np.ones(len(placed.order), np.int64)
        if placed.searched.any():
            before = self.kept.opens.get(name)
            rows = placed.order[placed.searched]
            opens[placed.searched] = 0 if before is None else before[rows]
        carried = self._carried(bytecode, name, placed)
        if carried is not None:
            opens[placed.searched] = 0  # their partial matches are restored
        asked = opens.copy()
        batch = replace(placed.batch)
        words = None if carried is None else carried_words(carried.open, placed.partition, len(placed.offsets) - 1)
        raw, arrays = find(
            bytecode,
            batch,
            placed.offsets,
            horizon=placed.horizons,
            opens=opens,
            carried=words,
            budget=self.plan.budget,
        )
        self.known[bytecode.pattern.name] = self._known(raw)
        raw = self._new(bytecode, placed, raw, asked)
        if carried is not None:
            raw = with_waiting(bytecode, raw, carried.decided, placed.partition)
        untold = None
        if bytecode.pattern.pattern.suppress is not None:
            raw, untold = self._tellable(bytecode, raw, opens)
        self.counters["capped"] += self._give_up(bytecode, placed, opens)
        if carries(bytecode) and raw.partials is not None:
            left = raw.partials if untold is None else all_partials(waiting(untold), raw.partials)
            left = left.chosen(opens[left.starts] != 0)
            self.partials[name] = replace(left, events=placed.order[left.events])
        if raw.wake != y.FOREVER:
            self.wakes.append(raw.wake)
        self._keep(bytecode, placed, arrays, opens, name)
        return PatternMatches(bytecode, raw, batch, placed.offsets, placed.occurrence, arrays, placed.duplicates)

    def _known(self, raw: MatchBuffer) -> int:
        if self.clock.ended:
            return y.FOREVER
        now = _BEFORE_ALL if self.clock.current is None else self.clock.current
        return min(now, int(raw.frontiers[:-1].min(initial=y.FOREVER)))

    def _carried(self, bytecode: CompiledPattern, name: str, placed: PartitionView) -> Partials | None:
        """Stored partial matches with positions as events; None if they are rebuilt."""
        if not carries(bytecode) or self.kept.replays:
            return None
        before = self.kept.partials.get(name, no_partials())
        places = np.full(len(self.rows), -1, np.int64)
        places[placed.order[placed.searched]] = np.flatnonzero(placed.searched)
        found = placed_partials(bytecode, before, places, placed.partition)
        self.counters["capped"] += len(before) - len(found)
        return found

    def _new(self, bytecode: CompiledPattern, placed: PartitionView, raw: MatchBuffer, asked: IntArray) -> MatchBuffer:
        """Remove matches that were emitted before: an open run may have some already."""
        tables = bytecode.tables
        contextual, suppresses = tables[y.S_CONTEXT] >= 0, bytecode.pattern.pattern.suppress is not None
        if not contextual and not suppresses and (not tables[y.S_COMBINES] or tables[y.S_ONE]):
            return raw  # one match per start, after which its run is over
        if contextual and not self.kept.replays:
            return raw  # one match per partial match, which ends with it
        if not (asked[placed.searched] == 1).any():
            return raw
        if tables[y.S_PLAIN] and not contextual and not suppresses and not self.arrival:
            known = self._horizons(placed.order, placed.offsets, before=True)
            return chosen_of(raw, np.flatnonzero(raw.timed_out | (raw.end > known[raw.partition])))
        told = _names(raw, placed.order)
        before = np.flatnonzero(placed.searched)
        counts = np.concatenate([[0], np.cumsum(placed.searched)])
        offsets = counts[placed.offsets]
        order = placed.order[before]
        batch = replace(
            placed.batch, time=placed.batch.time[before], kinds=placed.batch.kinds[before], order=order, loaded={}
        )
        horizons = self._horizons(order, offsets, before=True)
        earlier, _ = find(bytecode, batch, offsets, horizon=horizons, opens=asked[before], budget=self.plan.budget)
        if suppresses:
            earlier = chosen_of(earlier, np.flatnonzero(_due(bytecode, earlier)))
        known = _names(earlier, order)
        return chosen_of(raw, np.flatnonzero(~np.isin(told, known)))

    def _tellable(
        self, bytecode: CompiledPattern, raw: MatchBuffer, opens: IntArray
    ) -> tuple[MatchBuffer, MatchBuffer]:
        """Split matches into those to emit in order of their end, and others that an earlier, open run may suppress."""
        due = _due(bytecode, raw)
        opens[raw.starts[~due]] = 1
        return chosen_of(raw, np.flatnonzero(due)), chosen_of(raw, np.flatnonzero(~due))

    # retention

    def _give_up(self, bytecode: CompiledPattern, placed: PartitionView, opens: IntArray) -> int:
        """Drop the oldest open runs beyond the cap of a key, if nothing bounds the pattern; returns their number."""
        cap = bytecode.pattern.retention.cap
        if cap is None or self.clock.ended:
            return 0
        places = np.flatnonzero(opens)
        partition = placed.partition[places]
        surplus = np.bincount(partition, minlength=len(placed.offsets) - 1) - cap
        if not (surplus > 0).any():
            return 0
        first = np.searchsorted(partition, partition)  # where the partition begins among these
        gone = np.arange(len(places)) - first < surplus[partition]
        opens[places[gone]] = 0
        return int(gone.sum())

    def _keep(
        self, bytecode: CompiledPattern, placed: PartitionView, arrays: y.Arrays, opens: IntArray, name: str
    ) -> None:
        """Mark the rows that the pattern may still need."""
        flags = np.zeros(len(self.rows), bool)
        flags[placed.order] = opens != 0
        self.opens[name] = flags
        if self.clock.ended or not len(placed.order):
            return
        partition, time = placed.partition, placed.batch.time
        count = len(placed.offsets) - 1
        first = np.full(count, len(time), np.int64)
        places = np.flatnonzero(opens)
        first[partition[places][::-1]] = places[::-1]
        asked = np.arange(len(time)) >= first[partition]
        back = bytecode.pattern.facts.lookback
        if back:
            assert placed.horizons is not None
            # The lookback of open runs and of later ones.
            began = np.where(first < len(time), time[np.minimum(first, len(time) - 1)], y.FOREVER)
            asked |= time >= (np.minimum(began, placed.horizons + 1) - back)[partition]
            covered = time >= (placed.horizons + 1 - back)[partition]
            if self.plan.plan.event_types is not None:
                covered &= arrays.events[y.E_MASK] & negated_bits(bytecode) != 0
            self.required[placed.order[covered]] = True
        if self.plan.plan.event_types is not None:
            asked &= arrays.events[y.E_MASK] != 0
        if back and asked.any():
            self.wakes.append(int(time[asked].min()) + back)
        if self.arrival:
            # The newest event decides which later ones are out of order, until the watermark passes it.
            now = _BEFORE_ALL if self.clock.current is None else self.clock.current
            last = time == time[np.maximum(placed.offsets[1:] - 1, 0)][partition]
            newest = last & (time > now)
            asked |= newest
            self.required[placed.order[newest]] = True
            if newest.any():
                self.wakes.append(int(time[newest].min()))
        self.keep[placed.order[asked]] = True

    def left(self, found: list[PatternMatches], told: dict[str, dict[tuple[int, int], int]]) -> SequenceState:
        """The state after this call."""
        memories = dict(self.memories)
        known = [self.known[one.pattern.name] for one in found if one.pattern.suppress is not None]
        for one in found:
            about, name = one.pattern.suppress, one.pattern.semantic_hash
            if about is not None:
                assert isinstance(about.duration, int)
                over = _BEFORE_ALL if self.clock.current is None else min(known) + 1 - about.duration
                groups = {group: end for group, end in told[one.pattern.name].items() if end > over}
                memories[name] = replace(memories[name], groups=groups)
                self.wakes += [end + about.duration for end in groups.values()]
        chosen = np.flatnonzero(self.keep | ~self.ready)
        if self.arrival and not self.idle:
            assert self.arranged is not None
            chosen = self.arranged[self.keep[self.arranged]]  # in the order of the search
        after = self.opens, self.clock.current, memories, self.partials
        return SequenceState(self.rows, self.ready, self.occurrence, *after, required=self.required).take(chosen)

    def wake(self, left: SequenceState | None) -> int | None:
        """The next timer: a deadline, the end of a window, or the time of a waiting event; None if none."""
        if left is None:
            return None
        waiting = left.rows.time[~left.searched]
        times = [*self.wakes, *([int(waiting.min())] if len(waiting) else [])]
        now = self.clock.current
        if self.idle:
            # Without a search the deadlines of open runs are unknown: the timer is the next possible time.
            ends = [end for memory in left.memories.values() for end in memory.groups.values()]
            starts = [memory.since for memory in left.memories.values() if memory.since is not None]
            some = [*left.rows.time[left.searched].tolist(), *ends, *starts]
            times += [min(some) if now is None else now + 1] if some else []
        return next_timer(times, now)


def negated_bits(bytecode: CompiledPattern) -> int:
    """The mask bits of negated steps, including those of leading negations."""
    table, bits = int(bytecode.tables[y.S_STEP_TABLE]), 0
    for program in bytecode.pattern.programs[1:]:
        for one in program.instructions:
            if isinstance(one, p.TakeEvent):
                bits |= 1 << int(bytecode.tables[table + one.step * y.STEP_WIDTH + y.ST_BIT])
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


def _older(kept: EventBatch, rows: EventBatch) -> BoolArray:
    """Mask of the rows older than the newest retained row of their key."""
    both = concat_batches(kept, rows)
    (keys,) = both.keys.values()
    arrangement = arrange(list(keys.values()), both.time, [], None)
    old = arrangement.order < len(kept)
    partition = np.repeat(np.arange(arrangement.partitions), np.diff(arrangement.offsets))
    newest = np.full(arrangement.partitions, _BEFORE_ALL, np.int64)
    np.maximum.at(newest, partition[old], both.time[arrangement.order[old]])
    behind = np.zeros(len(both), bool)
    behind[arrangement.order] = ~old & (both.time[arrangement.order] < newest[partition])
    return behind[len(kept) :]


def _names(raw: MatchBuffer, order: IntArray) -> NDArray[Any]:
    """An identifier of each match: a hash of its kind and rows."""
    rows = np.ascontiguousarray(order[raw.positions], np.int64)
    none = np.zeros((len(raw), 2), np.int64)
    zeros = np.zeros(len(rows), np.int64)
    lanes = match_words(0, 1, none, raw.offsets, raw.steps, zeros, zeros, rows)
    kinds = np.where(raw.timed_out, 1, 0)
    return np.ascontiguousarray(np.column_stack([lanes, kinds]).astype(np.int64)).view("V24").ravel()


def chosen_of(raw: MatchBuffer, chosen: IntArray) -> MatchBuffer:
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
