"""A shard of an uncertain stream: evaluates the steps completed by the watermark, and stores the state of groups.

A step is complete once the watermark is past its end. With a lag, it is evaluated when the steps of the lag are
complete too. The state of a group does not grow with the stream.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.answers import (
    StepProbabilities,
    combined,
    count_limit_error,
    join_expected,
    letter_limit_error,
)
from perseid.engines.uncertain.automaton import StateLimitExceeded
from perseid.engines.uncertain.chains import Chains, Lives, chains_of, looked_ahead, marginals_of, no_lives
from perseid.engines.uncertain.exact import count_steps
from perseid.engines.uncertain.memory import OFF, GroupStates, UncertainState, empty_state, no_memory
from perseid.engines.uncertain.moving import ForwardPass
from perseid.engines.uncertain.output import SAMPLED, apart_schema, apart_table, output_table
from perseid.engines.uncertain.past import WindowHistory, empty_history, evict_steps, followed
from perseid.engines.uncertain.plan import PlannedQuery, UncertainPlan
from perseid.engines.uncertain.reading import SymbolEncoder, Units, reader_of, taken, unit_columns
from perseid.engines.uncertain.safe import safely
from perseid.engines.uncertain.sparse import SparseAutomaton
from perseid.engines.uncertain.state import read_state, write_state
from perseid.engines.uncertain.streams import Known, Stream
from perseid.engines.uncertain.telling import OpenAlerts, no_open_alerts
from perseid.engines.uncertain.traces import NEVER, CallInput, material, parts_of, steps_of, unsound
from perseid.errors import LimitError
from perseid.runtime.arrays import BoolArray, FloatArray, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch, concat_batches, take_events
from perseid.runtime.late_rows import LateReason
from perseid.runtime.watermark import Watermark


class _SparseAutomatonNeeded(Exception):  # noqa: N818  Always caught; not an error of the user.
    """The worlds of a sampled pattern need a sparse automaton; the argument is the name of its state."""


@functools.lru_cache(maxsize=1024)
def _needs(_pattern: str) -> list[bool]:
    """Mutable flag of a pattern: True if an earlier call in this process needed a sparse automaton."""
    return [False]


def advance(plan: UncertainPlan, rows: EventBatch, state: bytes | None, watermark: Watermark) -> StepResult:
    """Advance a shard by one call."""
    rows = all_kinds(plan, rows)
    sparse: set[str] = set()
    while True:
        try:
            return _advance(plan, rows, state, watermark, sparse)
        except _SparseAutomatonNeeded as needed:
            # Retry from the previous state with a sparse automaton. This happens at most once per pattern.
            sparse.add(needed.args[0])


def _advance(
    plan: UncertainPlan, rows: EventBatch, state: bytes | None, watermark: Watermark, sparse: set[str]
) -> StepResult:
    names = {one.memory(ways): (one, ways) for one in plan.asked for ways in plan.telling.carries}
    readers = {
        name: reader_of(one, plan.streams.every, rows.relations, ways, name in sparse or _needs(name)[0])
        for name, (one, ways) in names.items()
    }
    kept = empty_state(plan, rows) if state is None else read_state(plan, rows, state, readers)
    shard = UncertainShard(plan, kept, rows, watermark, readers)
    tables = [shard.answered(one, number) for number, one in enumerate(plan.asked)]
    left = None if watermark.ended else shard.left()
    written = None if left is None else write_state(plan, left, readers)
    if written is not None and len(written) > plan.max_state:
        raise LimitError(
            f"The state of the groups takes {len(written):,} bytes in one shard, more than the limit of {plan.max_state:,}.",
            hint="Use more shards, shorter windows, or ps.StreamOptions(max_state=…).",
        )
    table = pa.concat_tables([shard.schema.empty_table(), *tables]).combine_chunks()
    counters = {
        **shard.counters,
        "matches": table.num_rows,
        "live_keys": 0 if left is None else max([0, *(len(one) for one in left.memories.values())]),
        "retained_events": 0 if left is None else len(left.waiting) + sum(len(one) for one in left.pasts.values()),
        "state_bytes": 0 if written is None else len(written),
    }
    return StepResult(table, written, None if left is None else shard.wake(left), counters, shard.late, shard.why)


def all_kinds(plan: UncertainPlan, rows: EventBatch) -> EventBatch:
    """Add missing event types to the type names, so that stored rows of a type survive a call without rows of it."""
    missing = [part.type for part in plan.streams.parts if part.type not in rows.type_names]
    return replace(rows, type_names=[*rows.type_names, *missing]) if missing else rows


class UncertainShard:
    """One call of a shard."""

    def __init__(
        self,
        plan: UncertainPlan,
        kept: UncertainState,
        rows: EventBatch,
        watermark: Watermark,
        readers: Mapping[str, SymbolEncoder],
    ) -> None:
        self.plan, self.kept, self.clock, self.readers = plan, kept, watermark, readers
        self.schema = apart_schema(plan) if plan.apart else plan.schema
        self.streams = plan.streams
        self.every = plan.streams.every
        self.lag = max([0, *(part.inference.number for part in plan.streams.parts if part.inference.name == "lag")])
        self.known = self._known(watermark)
        self.done = None if self.known is None else self.known - self.lag
        if watermark.ended:
            self.known = self.done = None
        steps = steps_of(rows, self.every)
        behind = np.zeros(len(rows), np.int8)
        if self.known is not None and not watermark.ended:
            behind[steps <= self.known] = LateReason.BEHIND_WATERMARK
        self.late = np.flatnonzero(behind)
        self.why = behind[self.late]
        accepted = take_events(rows, np.flatnonzero(behind == LateReason.NOT)) if len(self.late) else rows
        self.rows = concat_batches(kept.waiting, accepted)
        step = steps_of(self.rows, self.every)
        self.unknown = not watermark.ended and self.known is None
        """True if there is no watermark yet: then no step is evaluated."""
        counts = np.zeros(len(step), bool) if self.unknown else self._upto(step, self.done)
        seen = np.zeros(len(step), bool) if self.unknown else self._upto(step, self.known)
        self.counts = counts
        self.lives: dict[str, Lives] = {}
        self.memories: dict[str, GroupStates] = {}
        self.pasts: dict[str, WindowHistory] = {}
        self.counters: Counter[str] = Counter(events=len(accepted), late=len(self.late), impossible=0, bad=0, sampled=0)
        self.given = self._given(step, counts, seen)

    def _known(self, watermark: Watermark) -> int | None:
        """The last complete step."""
        before = self.kept.known
        if watermark.current is None:
            return before
        now = watermark.current if self.every is None else (watermark.current + 1) // self.every - 1
        return now if before is None else max(now, before)

    def _upto(self, step: IntArray, last: int | None) -> BoolArray:
        return np.ones(len(step), bool) if last is None else step <= last

    def _given(self, step: IntArray, counts: BoolArray, seen: BoolArray) -> CallInput:
        ready = take_events(self.rows, np.flatnonzero(counts))
        own = step[counts]
        bad = unsound(self.streams, ready, own)
        self.counters["bad"] += len(bad)
        chains, beliefs, ahead = {}, {}, {}
        numbered = self.every is not None
        for part, chosen in parts_of(self.streams, self.rows):
            if part.known is not Known.READ:
                continue
            here = chosen[seen[chosen]]
            kept = self.kept.lives.get(part.type) or no_lives(part, self.rows)
            if self.unknown:
                self.lives[part.type] = kept
                continue
            found = chains_of(part, self.rows, here, step[here], kept, self.done, self.known, numbered)
            chains[part.type] = found
            belief = None
            if not part.hidden:
                beliefs[part.type], belief, impossible = marginals_of(part, found, kept, self.streams.sampling.seed)
                self.counters["impossible"] += impossible
            elif part.keeps_belief:
                ahead[part.type], belief = looked_ahead(part, found, kept)
            self.lives[part.type] = self._lived(part, found, kept, belief)
        return CallInput(ready, own, chains, beliefs, ahead, bad, numbered)

    def _lived(self, part: Stream, chains: Chains, kept: Lives, belief: FloatArray | None) -> Lives:
        """Retain chains that may continue: of each key, the newest one with an evaluated step."""
        newest: dict[int, int] = {}
        for i, owner in enumerate(chains.hashes):
            if chains.told[i] or chains.before[i] >= 0:
                newest[int(owner)] = i
        chosen = np.array(sorted(newest.values()), np.int64)
        last = np.array([self._last_row(chains, kept, i) for i in chosen], np.int64)
        before = chains.before[chosen]
        done = kept.done[np.maximum(before, 0)] if len(kept) else np.zeros(len(chosen), np.int64)
        own = chains.told[chosen] > 0
        done[own] = chains.step[chains.offsets[chosen[own]] + chains.told[chosen[own]] - 1]
        alive = np.ones(len(chosen), bool)
        if self.done is not None and self.every is not None:
            alive = last + part.patience >= self.done
        known = np.zeros((len(chosen), 0 if belief is None else belief.shape[1]))
        for place, i in enumerate(chosen if belief is not None else ()):
            assert belief is not None
            known[place] = belief[i] if chains.told[i] else kept.belief[chains.before[i]]
        keep = np.flatnonzero(alive)
        keys = {name: column.take(pa.array(chosen[keep])) for name, column in chains.keys.items()}
        lived = Lives(keys, last[keep], done[keep], known[keep])
        return self._with_quiet(part, kept, lived, np.isin(np.arange(len(kept)), chains.before))

    def _with_quiet(self, part: Stream, kept: Lives, lived: Lives, goes_on: BoolArray) -> Lives:
        """Add retained chains without a step in this call that may still get one: time may not have advanced."""
        both = Units([list(kept.keys.values()), list(lived.keys.values())], [len(kept), len(lived)])
        quiet = ~goes_on & ~np.isin(both.of[0], both.of[1])
        if self.done is not None and self.every is not None:
            quiet &= kept.last + part.patience >= self.done
        if not quiet.any():
            return lived
        rows = np.append(np.flatnonzero(quiet), len(kept) + np.arange(len(lived)))
        columns = (taken(key, rows) for key in both.whole)
        belief = np.concatenate([kept.belief[quiet], lived.belief.reshape(len(lived), kept.belief.shape[1])])
        last, done = np.concatenate([kept.last, lived.last])[rows], np.concatenate([kept.done, lived.done])[rows]
        return Lives(dict(zip(lived.keys, columns, strict=True)), last, done, belief)

    def _last_row(self, chains: Chains, kept: Lives, i: int) -> int:
        """The last evaluated step of a chain that had a row."""
        rows = chains.rows[chains.offsets[i] : chains.offsets[i] + chains.told[i]]
        own = np.flatnonzero(rows)
        if len(own):
            return int(chains.step[chains.offsets[i] + own[-1]])
        return int(kept.last[chains.before[i]])

    # patterns

    def answered(self, one: PlannedQuery, number: int) -> pa.Table:
        """Evaluate a pattern and return its output rows; the new state is stored in ``self``."""
        if self.unknown:
            names = [one.memory(ways) for ways in self.plan.telling.carries]
            self.memories |= {name: self.kept.memories[name] for name in names if name in self.kept.memories}
            self.pasts |= {name: self.kept.pasts[name] for name in names if name in self.kept.pasts}
            return self.schema.empty_table()
        if one.looks_back(self.streams):
            return self._looked_back(one)
        moving, answers = self._moved(one, ways=False)
        self.counters["impossible"] += moving.impossible
        if not one.is_sampled(self.streams):
            self.counters[SAMPLED] += int(answers.drawn.sum())
        table, ongoing = self._told(one, number, self._counted(one, answers), moving)
        self.memories[one.memory(False)] = moving.remembered(ongoing)
        return table

    def _counted(self, one: PlannedQuery, answers: StepProbabilities) -> StepProbabilities:
        """Add expected numbers of matches, if the output policy requires them."""
        if not self.plan.telling.counts:
            return answers
        counting, counted = self._moved(one, ways=True)
        self.memories[one.memory(True)] = counting.remembered(no_open_alerts(len(counting.found.units), OFF))
        return join_expected(answers, counted)

    def _looked_back(self, one: PlannedQuery) -> pa.Table:
        """Evaluate a pattern over windows and return its output rows; its history is appended and evicted."""
        name = one.memory(False)
        kept = self.kept.pasts.get(name)
        past = empty_history(one, self.streams, self.rows) if kept is None else kept
        given = followed(one, self.streams, past, self.given)
        after = NEVER if self.kept.done is None else self.kept.done
        lasting = past.groups if len(past.ongoing.since) else None
        try:
            answers, units = safely(one, self.streams, given, after=after, starts=past.starts, more=lasting)
        except StateLimitExceeded:
            raise letter_limit_error(one) from None
        before = no_open_alerts(len(units), OFF)
        for mine, theirs in zip(before, past.ongoing, strict=True):
            mine[units.of[-1]] = theirs
        answers = self._counted(one, answers)
        table, ongoing = output_table(one, answers, self.plan, before, OFF, self.done, self.clock.ended)
        if self.done is not None:
            last = np.flatnonzero(ongoing.since != OFF)
            groups = [key.take(pa.array(last)) for key in units.keys]
            left = evict_steps(one, self.streams, past, given, self.done)
            self.pasts[name] = replace(left, groups=groups, ongoing=OpenAlerts._make(some[last] for some in ongoing))
        return table

    def _moved(self, one: PlannedQuery, *, ways: bool) -> tuple[ForwardPass, StepProbabilities]:
        """Advance a pattern over the complete steps: probabilities, or, with ``ways``, expected numbers of matches."""
        reader = self.readers[one.memory(ways)]
        model = next((part.model for part in one.hidden(self.streams) if part.known is Known.READ), None)
        values = np.zeros(0, np.int64) if model is None else np.arange(len(model.values))
        memory = self.kept.memories.get(one.memory(ways))
        if memory is None:
            memory = no_memory(unit_columns(self.rows, one.unit), values)
        try:
            found = material(one, self.streams, reader, self.given, memory.keys if len(memory) else None)
            if found.entries:
                memory = memory.among(np.union1d(found.entries[0].values, memory.values))
            moving = ForwardPass(one, self.streams, reader, found, memory, self.given.numbered, self.done, self.lives)
            told = moving.told()
        except StateLimitExceeded:
            if not ways and one.is_sampled(self.streams) and not isinstance(reader.automaton, SparseAutomaton):
                _needs(one.memory(ways))[0] = True
                raise _SparseAutomatonNeeded(one.memory(ways)) from None
            raise (count_limit_error if ways else letter_limit_error)(one) from None
        return moving, combined(one, self.streams, found.units, told, apart=self.plan.apart, ways=ways)

    def _told(
        self, one: PlannedQuery, number: int, answers: StepProbabilities, moving: ForwardPass
    ) -> tuple[pa.Table, OpenAlerts]:
        """Return the output rows, and the alerts and spans that stay open."""
        plan, count, memory, places = self.plan, len(moving.found.units), moving.memory, moving.places
        kept = places >= 0
        before = no_open_alerts(count, OFF)
        for mine, theirs in zip(before[:3], (memory.since, memory.peak, memory.error), strict=True):
            mine[kept] = theirs[places[kept]]
        before.last[kept] = memory.last[places[kept]]
        if plan.apart:
            return apart_table(one, number, answers, self.every, self.schema), before
        return output_table(one, answers, plan, before, OFF, self.done, self.clock.ended)

    # state to store

    def left(self) -> UncertainState | None:
        waiting = take_events(self.rows, np.flatnonzero(~self.counts))
        lives = {type_: one for type_, one in self.lives.items() if len(one)}
        memories = {name: one for name, one in self.memories.items() if len(one)}
        pasts = {name: one for name, one in self.pasts.items() if not one.is_over}
        if not len(waiting) and not lives and not memories and not pasts:
            return None
        return UncertainState(self.known, self.done, waiting, {**self.lives}, memories, pasts)

    def wake(self, left: UncertainState) -> int | None:
        """Return the time of the next timer: the earliest one at which there is work without a new row."""
        width = self.every or 1
        wakes = []
        if len(left.waiting):
            first = int(steps_of(left.waiting, self.every).min())
            wakes.append((first + self.lag + 1) * width - 1)
        if self.every is not None and self.done is not None:
            done = self.done
            next_ = (done + 1 + self.lag + 1) * width - 1
            if any(len(one) for one in left.lives.values()):
                wakes.append(next_)
            for one in self.plan.asked:
                past = left.pasts.get(one.memory(False))
                if past is not None and one.window is not None:
                    over = (past.newest(self.every) + one.window + self.lag + 1) * width - 1
                    wakes.append(next_ if len(past.ongoing.since) else max(next_, over))
                nfa = self.readers[one.memory(False)].automaton.nfa
                for ways in self.plan.telling.carries:
                    memory = left.memories.get(one.memory(ways))
                    if memory is None or not len(memory):
                        continue
                    if (memory.since != OFF).any() or memory.hidden.any():
                        wakes.append(next_)
                    elif nfa.is_timed:
                        longest = count_steps(nfa.longest_us, self.every) + 2
                        wakes.append((done + longest + self.lag + 1) * width - 1)
        return min(wakes, default=None)
