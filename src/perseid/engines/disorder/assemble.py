"""Assemble matches from events as they arrive, and emit them when they are complete and final.

Every event is searched on arrival, and retained as long as a match with a future event may need it. A match without
negations is emitted in the call in which the last of its events arrives; any other when the watermark has passed the
scopes of its negations. There are no retractions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from perseid.compile import program as p
from perseid.engines.disorder import assembly as a
from perseid.engines.disorder.slots import slots_in, steps_of, word_of
from perseid.engines.disorder.state import read_state, write_state
from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.engines.sequence.columns import OrderedEvents, kernel_arrays
from perseid.engines.sequence.match_buffer import MatchBuffer
from perseid.engines.sequence.output import PatternMatches
from perseid.engines.sequence.run import evaluator, gather, make_space, plain
from perseid.engines.sequence.shard import PartitionView, SequenceShard, chosen_of, negated_bits, newest_before, run
from perseid.errors import SearchBudgetError
from perseid.runtime.arena import allocate
from perseid.runtime.arrays import BoolArray, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.search_budget import SearchBudget
from perseid.runtime.watermark import Watermark

if TYPE_CHECKING:
    from perseid.engines.disorder.plan import DisorderPlan
    from perseid.engines.sequence.shard import Given


def advance(plan: DisorderPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Run one call of a shard: return the matches that have become final, and the new state."""
    inner = plan.searched(order=plan.strategy.name)
    before = read_state(plan, state)
    done = run(
        inner, rows, before.searched, clock=watermark, newest=newest_before(inner, watermark), make=Assembling
    ).step
    written = write_state(plan, replace(before, searched=done.state))
    counters = {**done.counters, "state_bytes": 0 if written is None else len(written)}
    return replace(done, state=written, counters=counters)


class Assembling(SequenceShard):
    """A shard that searches all rows on arrival."""

    early = False
    """True if emitted matches may be retracted."""

    def __init__(self, *given: *Given) -> None:
        super().__init__(*given)
        self.moments: dict[str, IntArray] = {}
        """By pattern: for each match, the arrival index of its insertion, or the encoded one of its retraction."""

    def _ready(self) -> BoolArray:
        return np.ones(len(self.rows), bool)

    def _found(self, bytecode: CompiledPattern, name: str, placed: PartitionView) -> PatternMatches:
        batch = replace(placed.batch)
        known = name in self.kept.opens
        came_before = placed.order < self.old if known else np.zeros(len(placed.order), bool)
        since = y.NONE if not known or self.kept.horizon is None else self.kept.horizon
        now = y.FOREVER if self.clock.ended else y.NONE if self.clock.current is None else self.clock.current
        times = Times(since, self._told(since) if known else since, self._due(now), now, self.early)
        found = assembled(bytecode, batch, placed, came_before, times, self.plan.budget)
        raw, self.moments[bytecode.pattern.name], arrays = found
        span = bytecode.pattern.facts.bound
        assert span is not None
        if raw.wake != y.FOREVER:
            self.wakes.append(raw.wake)
        fits = arrays.events[y.E_MASK] != 0
        asked = fits & (batch.time > now - span) if not self.clock.ended else np.zeros(len(fits), bool)
        if asked.any():
            self.wakes.append(int(batch.time[asked].min()) + span)
        flags = np.zeros(len(self.rows), bool)
        flags[placed.order[asked]] = True
        self.opens[name] = flags
        self.keep |= flags
        # A future event may begin a match that one of these events invalidates.
        negated = negated_bits(bytecode)
        breaks = (arrays.events[y.E_MASK] & negated != 0) & (batch.time > now)
        # A match that was emitted and may be retracted is found again from its events.
        self.required[placed.order[asked if self.early and negated else breaks]] = True
        return PatternMatches(bytecode, raw, batch, placed.offsets, placed.occurrence, arrays, placed.duplicates)

    def _told(self, since: int) -> int:
        """Return the time up to which due matches were emitted before this call."""
        return since

    def _due(self, now: int) -> int:
        """Return the time up to which due matches are emitted in this call."""
        return now


@dataclass(frozen=True)
class Times:
    """Progress of event time at the end of the previous call and in this call."""

    since: int
    """The watermark of the previous call."""
    told: int
    """The previous call emitted the matches due up to this time."""
    due: int
    """This call emits the matches due up to this time."""
    sure: int
    """The current watermark; ``FOREVER`` if the stream has ended."""
    early: bool
    """True if emitted matches may be retracted."""

    def by_arrival(self, count: int) -> tuple[IntArray, IntArray]:
        """Return ``due`` and ``sure`` for each arrival and for the time after the last."""
        due, sure = (np.full(count + 1, time, np.int64) for time in (self.due, self.sure))
        if self.sure == y.FOREVER:
            due[:-1], sure[:-1] = self.told, self.since  # the end of the stream applies after the last arrival
        return due, sure


def assembled(
    bytecode: CompiledPattern,
    batch: OrderedEvents,
    placed: PartitionView,
    came_before: BoolArray,
    times: Times,
    budget: SearchBudget,
) -> tuple[MatchBuffer, IntArray, y.Arrays]:
    """Run the kernel: return the matches, the moment of each, and the kernel's arrays."""
    order = np.argsort(~came_before, kind="stable").astype(np.int64)
    clocks, sure = times.by_arrival(len(order))
    names = vars(a) if bytecode.compiled else plain(a)
    offsets, keys = placed_keys(placed)

    def run_kernel(room: AssemblyArrays) -> int:
        if not bytecode.compiled:
            names["outside_hook"][0] = evaluator(bytecode, batch, room.arrays)
        with np.errstate(all="ignore"):
            answer: int = names["assemble"](
                room.arrays, room.work, offsets, keys, order, room.masks, room.fitting, int(came_before.sum()), times.since,
                times.told, clocks, sure,
            )  # fmt: skip
        return answer

    room = with_room(bytecode, batch, np.diff(offsets), times.early, run_kernel, budget)
    return *room.said(bytecode), room.arrays


def placed_keys(placed: PartitionView) -> tuple[IntArray, IntArray]:
    """Return the offset of each key's first event and the key of each event, as contiguous int64 for the kernel."""
    offsets, keys = (np.ascontiguousarray(x, np.int64) for x in (placed.offsets, placed.partition))
    return offsets, keys


@dataclass(frozen=True)
class AssemblyArrays:
    """The work arrays of the kernel and the per-event bits that it reads on arrival of each event."""

    arrays: y.Arrays
    work: IntArray
    masks: IntArray
    fitting: IntArray
    """By event: the bits of the slots that it fits by its own predicates."""

    def said(self, bytecode: CompiledPattern) -> tuple[MatchBuffer, IntArray]:
        """Return the inserted and retracted matches with the moment of each, without pending matches."""
        space, work = self.arrays.space, self.work
        waiting = int(work[work[a.H_HEAP]]) if work[a.H_WAITING] else y.FOREVER
        frontiers = np.full(1, y.FOREVER, np.int64)  # no match depends on open partial matches
        raw = gather(bytecode, [space[space[y.A_OUT] : space[y.C_OUT]]], frontiers, 0, waiting, 0)
        moments = work[work[a.H_MOMENTS] : work[a.H_MOMENTS] + work[a.H_TOLD]]
        said = np.flatnonzero(moments != a.WAITS)
        return raw if len(said) == len(raw) else chosen_of(raw, said), moments[said]


def with_room(
    bytecode: CompiledPattern,
    batch: OrderedEvents,
    sizes: IntArray,
    early: bool,
    run_kernel: Callable[[AssemblyArrays], int],
    budget: SearchBudget,
) -> AssemblyArrays:
    """Run a kernel, with larger buffers until they suffice, and return them. ``sizes`` counts the events of each key."""
    # Unwritten buffer pages cost nothing; a kernel that runs out of capacity is restarted from the beginning.
    matches = max(256, 4 * len(batch))
    width = y.MATCH_HEAD + 2 * int(bytecode.tables[y.S_UNIFIED_COUNT]) + 2 * len(bytecode.pattern.pattern.steps)
    arrays = kernel_arrays(bytecode, batch, *make_space(bytecode, words=width * matches))
    masks, fitting = arrays.events[y.E_MASK].copy(), slots_of(bytecode, arrays)
    while True:
        arrays.events[y.E_MASK] = 0
        work = work_space(bytecode, fitting, sizes, matches, budget, early=early)
        room = AssemblyArrays(arrays, work, masks, fitting)
        if run_kernel(room) == y.GOES_ON:
            return room
        if work[a.H_SPENT]:
            raise _exceeded(bytecode, sizes, work, budget)
        matches *= 4
        space, reals = make_space(bytecode, words=width * matches)
        arrays = arrays._replace(space=space, reals=reals)


def slots_of(bytecode: CompiledPattern, arrays: y.Arrays) -> IntArray:
    """By event: the bits of the slots that it fits by its own predicates."""
    found = np.zeros(arrays.events.shape[1], np.int64)
    for slot, step in enumerate(steps_of(bytecode.pattern.programs[0])):
        fits = (arrays.events[y.E_MASK] >> word_of(bytecode, step, y.ST_BIT)) & 1
        must = word_of(bytecode, step, y.ST_MUST_BIT)
        found |= (fits if must < 0 else fits & (arrays.events[y.E_MUST] >> must)) << slot
    return found


def _exceeded(bytecode: CompiledPattern, sizes: IntArray, work: IntArray, budget: SearchBudget) -> SearchBudgetError:
    """Return the error for the key that exhausted its search budget."""
    key = int(work[a.H_SPENT]) - 1
    main, events = int(work[a.H_MAINS] + key * (a.MAIN_HEAD + 2 * work[a.H_SLOTS])), int(sizes[key])
    if work[main + a.N_MATCHES] > work[main + a.N_MATCHES_END]:
        return SearchBudgetError(bytecode.pattern.name, "matches", budget.matches(events), events)
    return SearchBudgetError(bytecode.pattern.name, "steps", budget.steps(events), events)


def work_space(
    bytecode: CompiledPattern, fitting: IntArray, sizes: Any, matches: int, budget: SearchBudget, *, early: bool
) -> IntArray:
    """Allocate and initialize the kernel's work space, for up to ``matches`` pending or emitted matches."""
    keys = len(sizes)
    body = bytecode.pattern.programs[0]
    row = slots_in(bytecode)
    slots = len(row.steps)
    parts = (
        (a.H_STEPS, None, slots),
        (a.H_BETWEEN, None, slots),
        (a.H_MAINS, None, keys * (a.MAIN_HEAD + 2 * slots)),
        (a.H_LINKS, None, a.LINK_WIDTH * int(np.bitwise_count(fitting).sum())),
        (a.H_PICKS, None, 2 * slots + 1),
        (a.H_HEAP, a.H_HEAP_END, a.WAIT_WIDTH * matches),
        (a.H_LIST, a.H_LIST_END, (2 + slots) * matches if early else 0),
        (a.H_MOMENTS, a.H_MOMENTS_END, 2 * matches),
    )
    # Only the parts before the links are read before they are written.
    work = np.empty(a.ASSEMBLY_HEAD + sum(size for _, _, size in parts), np.int64)
    work[: a.ASSEMBLY_HEAD] = 0
    allocate(work, a.ASSEMBLY_HEAD, parts)
    bound = bytecode.pattern.facts.bound
    assert bound is not None
    work[a.H_SLOTS], work[a.H_WINDOW], work[a.H_FREE] = slots, bound, -1
    work[a.H_NEGATES] = any(isinstance(one, p.WatchFor) for one in body.instructions)
    work[a.H_EARLY] = early
    work[a.H_BREAKS] = negated_bits(bytecode)
    work[a.H_PLAIN], work[a.H_DECIDES] = row.plain, row.decides
    work[work[a.H_STEPS] : work[a.H_BETWEEN]], work[work[a.H_BETWEEN] : work[a.H_MAINS]] = row.steps, row.between
    mains = work[work[a.H_MAINS] : work[a.H_LINKS]].reshape(keys, a.MAIN_HEAD + 2 * slots)
    mains[:] = -1
    mains[:, [a.N_FILLED, a.N_BREAKERS, a.N_WORK, a.N_MATCHES]], mains[:, a.N_OLDEST] = 0, y.FOREVER
    mains[:, a.N_WORK_END], mains[:, a.N_MATCHES_END] = budget.steps(sizes), budget.matches(sizes)
    return work
