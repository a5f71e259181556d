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
from perseid.engines.sequence.shard import (
    PartitionView,
    SequenceShard,
    negated_bits,
    newest_before,
    run,
    select_matches,
)
from perseid.errors import SearchBudgetError
from perseid.runtime.arena import allocate
from perseid.runtime.arrays import BoolArray, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.search_budget import SearchBudget
from perseid.runtime.watermark import Watermark

if TYPE_CHECKING:
    from perseid.engines.disorder.plan import DisorderPlan
    from perseid.engines.sequence.shard import ShardArguments


def advance(plan: DisorderPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Run one call of a shard: return the matches that have become final, and the new state."""
    inner = plan.sequence_plan(order=plan.strategy.name)
    previous = read_state(plan, state)
    done = run(
        inner,
        rows,
        previous.search_state,
        clock=watermark,
        newest=newest_before(inner, watermark),
        make_shard=ArrivalOrderShard,
    ).step
    written = write_state(plan, replace(previous, search_state=done.state))
    counters = {**done.counters, "state_bytes": 0 if written is None else len(written)}
    return replace(done, state=written, counters=counters)


class ArrivalOrderShard(SequenceShard):
    """A shard that searches all rows on arrival."""

    early = False
    """True if emitted matches may be retracted."""

    def __init__(self, *arguments: *ShardArguments) -> None:
        super().__init__(*arguments)
        self.moments: dict[str, IntArray] = {}
        """By pattern: for each match, the arrival index of its insertion, or the encoded one of its retraction."""

    def _ready(self) -> BoolArray:
        return np.ones(len(self.rows), bool)

    def _search_pattern(self, bytecode: CompiledPattern, name: str, view: PartitionView) -> PatternMatches:
        batch = replace(view.batch)
        has_state = name in self.previous.opens
        is_retained = view.order < self.old_count if has_state else np.zeros(len(view.order), bool)
        since = y.NONE if not has_state or self.previous.horizon is None else self.previous.horizon
        now = y.FOREVER if self.clock.ended else y.NONE if self.clock.current is None else self.clock.current
        times = Times(since, self._emitted_upto(since) if has_state else since, self._due_upto(now), now, self.early)
        found = assemble_matches(bytecode, batch, view, is_retained, times, self.plan.budget)
        raw, self.moments[bytecode.pattern.name], arrays = found
        span = bytecode.pattern.facts.bound
        assert span is not None
        if raw.next_timer != y.FOREVER:
            self.timers.append(raw.next_timer)
        fits = arrays.events[y.E_MASK] != 0
        needed = fits & (batch.time > now - span) if not self.clock.ended else np.zeros(len(fits), bool)
        if needed.any():
            self.timers.append(int(batch.time[needed].min()) + span)
        flags = np.zeros(len(self.rows), bool)
        flags[view.order[needed]] = True
        self.opens[name] = flags
        self.retained |= flags
        # A future event may begin a match that one of these events invalidates.
        negated = negated_bits(bytecode)
        breaks = (arrays.events[y.E_MASK] & negated != 0) & (batch.time > now)
        # A match that was emitted and may be retracted is found again from its events.
        self.required[view.order[needed if self.early and negated else breaks]] = True
        return PatternMatches(bytecode, raw, batch, view.offsets, view.occurrence, arrays, view.duplicates)

    def _emitted_upto(self, since: int) -> int:
        """Return the time up to which due matches were emitted before this call."""
        return since

    def _due_upto(self, now: int) -> int:
        """Return the time up to which due matches are emitted in this call."""
        return now


@dataclass(frozen=True)
class Times:
    """Progress of event time at the end of the previous call and in this call."""

    since: int
    """The watermark of the previous call."""
    emitted_upto: int
    """The previous call emitted the matches due up to this time."""
    due: int
    """This call emits the matches due up to this time."""
    complete_upto: int
    """The current watermark; ``FOREVER`` if the stream has ended."""
    early: bool
    """True if emitted matches may be retracted."""

    def by_arrival(self, count: int) -> tuple[IntArray, IntArray]:
        """Return ``due`` and ``complete_upto`` for each arrival and for the time after the last."""
        due, complete_upto = (np.full(count + 1, time, np.int64) for time in (self.due, self.complete_upto))
        if self.complete_upto == y.FOREVER:
            # The end of the stream applies after the last arrival.
            due[:-1], complete_upto[:-1] = self.emitted_upto, self.since
        return due, complete_upto


def assemble_matches(
    bytecode: CompiledPattern,
    batch: OrderedEvents,
    view: PartitionView,
    is_retained: BoolArray,
    times: Times,
    budget: SearchBudget,
) -> tuple[MatchBuffer, IntArray, y.Arrays]:
    """Run the kernel: return the matches, the moment of each, and the kernel's arrays."""
    order = np.argsort(~is_retained, kind="stable").astype(np.int64)
    due_upto, complete_upto = times.by_arrival(len(order))
    names = vars(a) if bytecode.compiled else plain(a)
    offsets, keys = kernel_keys(view)

    def run_kernel(buffers: AssemblyArrays) -> int:
        if not bytecode.compiled:
            names["outside_hook"][0] = evaluator(bytecode, batch, buffers.arrays)
        with np.errstate(all="ignore"):
            outcome: int = names["assemble"](
                buffers.arrays, buffers.work, offsets, keys, order, buffers.masks, buffers.fitting,
                int(is_retained.sum()), times.since, times.emitted_upto, due_upto, complete_upto,
            )  # fmt: skip
        return outcome

    buffers = run_with_buffers(bytecode, batch, np.diff(offsets), times.early, run_kernel, budget)
    return *buffers.decided_matches(bytecode), buffers.arrays


def kernel_keys(view: PartitionView) -> tuple[IntArray, IntArray]:
    """Return the offset of each key's first event and the key of each event, as contiguous int64 for the kernel."""
    offsets, keys = (np.ascontiguousarray(x, np.int64) for x in (view.offsets, view.partition))
    return offsets, keys


@dataclass(frozen=True)
class AssemblyArrays:
    """The work arrays of the kernel and the per-event bits that it reads on arrival of each event."""

    arrays: y.Arrays
    work: IntArray
    masks: IntArray
    fitting: IntArray
    """By event: the bits of the slots that it fits by its own predicates."""

    def decided_matches(self, bytecode: CompiledPattern) -> tuple[MatchBuffer, IntArray]:
        """Return the inserted and retracted matches with the moment of each, without pending matches."""
        space, work = self.arrays.space, self.work
        next_due = int(work[work[a.H_HEAP]]) if work[a.H_PENDING] else y.FOREVER
        frontiers = np.full(1, y.FOREVER, np.int64)  # no match depends on open partial matches
        raw = gather(bytecode, [space[space[y.A_OUT] : space[y.C_OUT]]], frontiers, 0, next_due, 0)
        moments = work[work[a.H_MOMENTS] : work[a.H_MOMENTS] + work[a.H_WRITTEN]]
        decided = np.flatnonzero(moments != a.PENDING)
        return raw if len(decided) == len(raw) else select_matches(raw, decided), moments[decided]


def run_with_buffers(
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
        buffers = AssemblyArrays(arrays, work, masks, fitting)
        if run_kernel(buffers) == y.CONTINUE:
            return buffers
        if work[a.H_SPENT]:
            raise _exceeded(bytecode, sizes, work, budget)
        matches *= 4
        space, reals = make_space(bytecode, words=width * matches)
        arrays = arrays._replace(space=space, reals=reals)


def slots_of(bytecode: CompiledPattern, arrays: y.Arrays) -> IntArray:
    """By event: the bits of the slots that it fits by its own predicates."""
    bits = np.zeros(arrays.events.shape[1], np.int64)
    for slot, step in enumerate(steps_of(bytecode.pattern.programs[0])):
        fits = (arrays.events[y.E_MASK] >> word_of(bytecode, step, y.ST_BIT)) & 1
        must = word_of(bytecode, step, y.ST_MUST_BIT)
        bits |= (fits if must < 0 else fits & (arrays.events[y.E_MUST] >> must)) << slot
    return bits


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
    slot_sequence = slots_in(bytecode)
    slots = len(slot_sequence.steps)
    parts = (
        (a.H_STEPS, None, slots),
        (a.H_BETWEEN, None, slots),
        (a.H_MAINS, None, keys * (a.MAIN_HEAD + 2 * slots)),
        (a.H_LINKS, None, a.LINK_WIDTH * int(np.bitwise_count(fitting).sum())),
        (a.H_PICKS, None, 2 * slots + 1),
        (a.H_HEAP, a.H_HEAP_END, a.PENDING_WIDTH * matches),
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
    work[a.H_NEGATES] = any(isinstance(instruction, p.WatchFor) for instruction in body.instructions)
    work[a.H_EARLY] = early
    work[a.H_BREAKS] = negated_bits(bytecode)
    work[a.H_PLAIN], work[a.H_DECIDES] = slot_sequence.plain, slot_sequence.decides
    work[work[a.H_STEPS] : work[a.H_BETWEEN]], work[work[a.H_BETWEEN] : work[a.H_MAINS]] = (
        slot_sequence.steps,
        slot_sequence.between,
    )
    mains = work[work[a.H_MAINS] : work[a.H_LINKS]].reshape(keys, a.MAIN_HEAD + 2 * slots)
    mains[:] = -1
    mains[:, [a.N_FILLED, a.N_BREAKERS, a.N_WORK, a.N_MATCHES]], mains[:, a.N_OLDEST] = 0, y.FOREVER
    mains[:, a.N_WORK_END], mains[:, a.N_MATCHES_END] = budget.steps(sizes), budget.matches(sizes)
    return work
