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
from perseid.engines.uncertain.chains import (
    Chains,
    RetainedChains,
    chains_of,
    lookahead_of,
    marginals_of,
    no_retained_chains,
)
from perseid.engines.uncertain.exact import count_steps
from perseid.engines.uncertain.forward_pass import ForwardPass
from perseid.engines.uncertain.memory import OFF, GroupStates, UncertainState, empty_state, no_group_states
from perseid.engines.uncertain.output import SAMPLED, binding_schema, binding_table, output_table
from perseid.engines.uncertain.output_policies import OpenAlerts, no_open_alerts
from perseid.engines.uncertain.plan import PlannedQuery, UncertainPlan
from perseid.engines.uncertain.reading import SymbolEncoder, Units, reader_of, select_values, unit_columns
from perseid.engines.uncertain.safe import safely
from perseid.engines.uncertain.sparse import SparseAutomaton
from perseid.engines.uncertain.state import read_state, write_state
from perseid.engines.uncertain.streams import Known, Stream
from perseid.engines.uncertain.traces import (
    NEVER,
    CallInput,
    bad_distributions,
    build_pattern_input,
    parts_of,
    steps_of,
)
from perseid.engines.uncertain.window_history import WindowHistory, append_input, empty_history, evict_steps
from perseid.errors import LimitError
from perseid.runtime.arrays import BoolArray, FloatArray, IntArray
from perseid.runtime.contract import StepResult
from perseid.runtime.event_batch import EventBatch, concat_batches, take_events
from perseid.runtime.late_rows import LateReason
from perseid.runtime.watermark import Watermark


class _SparseAutomatonNeeded(Exception):  # noqa: N818  Always caught; not an error of the user.
    """The worlds of a sampled pattern need a sparse automaton; the argument is the name of its state."""


@functools.lru_cache(maxsize=1024)
def _sparse_flag(_pattern: str) -> list[bool]:
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
    names = {query.memory(ways): (query, ways) for query in plan.queries for ways in plan.output_policy.carries}
    readers = {
        name: reader_of(query, plan.streams.every, rows.relations, ways, name in sparse or _sparse_flag(name)[0])
        for name, (query, ways) in names.items()
    }
    initial_state = empty_state(plan, rows) if state is None else read_state(plan, rows, state, readers)
    shard = UncertainShard(plan, initial_state, rows, watermark, readers)
    tables = [shard.evaluate(query, number) for number, query in enumerate(plan.queries)]
    final = None if watermark.ended else shard.final_state()
    written = None if final is None else write_state(plan, final, readers)
    if written is not None and len(written) > plan.max_state:
        raise LimitError(
            f"The state of the groups takes {len(written):,} bytes in one shard, more than the limit of {plan.max_state:,}.",
            hint="Use more shards, shorter windows, or ps.StreamOptions(max_state=…).",
        )
    table = pa.concat_tables([shard.schema.empty_table(), *tables]).combine_chunks()
    counters = {
        **shard.counters,
        "matches": table.num_rows,
        "live_keys": 0 if final is None else max([0, *(len(one) for one in final.memories.values())]),
        "retained_events": 0
        if final is None
        else len(final.buffered) + sum(len(one) for one in final.histories.values()),
        "state_bytes": 0 if written is None else len(written),
    }
    return StepResult(
        table, written, None if final is None else shard.next_timer(final), counters, shard.late, shard.late_reasons
    )


def all_kinds(plan: UncertainPlan, rows: EventBatch) -> EventBatch:
    """Add missing event types to the type names, so that stored rows of a type survive a call without rows of it."""
    missing = [part.type for part in plan.streams.parts if part.type not in rows.type_names]
    return replace(rows, type_names=[*rows.type_names, *missing]) if missing else rows


class UncertainShard:
    """One call of a shard."""

    def __init__(
        self,
        plan: UncertainPlan,
        state: UncertainState,
        rows: EventBatch,
        watermark: Watermark,
        readers: Mapping[str, SymbolEncoder],
    ) -> None:
        self.plan, self.state, self.clock, self.readers = plan, state, watermark, readers
        self.schema = binding_schema(plan) if plan.apart else plan.schema
        self.streams = plan.streams
        self.every = plan.streams.every
        self.lag = max([0, *(part.inference.number for part in plan.streams.parts if part.inference.name == "lag")])
        self.known = self._known(watermark)
        self.done = None if self.known is None else self.known - self.lag
        if watermark.ended:
            self.known = self.done = None
        steps = steps_of(rows, self.every)
        reasons = np.zeros(len(rows), np.int8)
        if self.known is not None and not watermark.ended:
            reasons[steps <= self.known] = LateReason.BEHIND_WATERMARK
        self.late = np.flatnonzero(reasons)
        self.late_reasons = reasons[self.late]
        accepted = take_events(rows, np.flatnonzero(reasons == LateReason.NOT)) if len(self.late) else rows
        self.rows = concat_batches(state.buffered, accepted)
        step = steps_of(self.rows, self.every)
        self.unknown = not watermark.ended and self.known is None
        """True if there is no watermark yet: then no step is evaluated."""
        counts = np.zeros(len(step), bool) if self.unknown else self._upto(step, self.done)
        complete = np.zeros(len(step), bool) if self.unknown else self._upto(step, self.known)
        self.counts = counts
        self.lives: dict[str, RetainedChains] = {}
        self.memories: dict[str, GroupStates] = {}
        self.histories: dict[str, WindowHistory] = {}
        self.counters: Counter[str] = Counter(events=len(accepted), late=len(self.late), impossible=0, bad=0, sampled=0)
        self.call_input = self._call_input(step, counts, complete)

    def _known(self, watermark: Watermark) -> int | None:
        """The last complete step."""
        before = self.state.known
        if watermark.current is None:
            return before
        now = watermark.current if self.every is None else (watermark.current + 1) // self.every - 1
        return now if before is None else max(now, before)

    def _upto(self, step: IntArray, last: int | None) -> BoolArray:
        return np.ones(len(step), bool) if last is None else step <= last

    def _call_input(self, step: IntArray, counts: BoolArray, complete: BoolArray) -> CallInput:
        ready = take_events(self.rows, np.flatnonzero(counts))
        steps_ready = step[counts]
        bad_rows = bad_distributions(self.streams, ready, steps_ready)
        self.counters["bad"] += len(bad_rows)
        chains, beliefs, ahead = {}, {}, {}
        numbered = self.every is not None
        for part, chosen in parts_of(self.streams, self.rows):
            if part.known is not Known.READ:
                continue
            chosen_complete = chosen[complete[chosen]]
            retained = self.state.lives.get(part.type) or no_retained_chains(part, self.rows)
            if self.unknown:
                self.lives[part.type] = retained
                continue
            new_chains = chains_of(
                part, self.rows, chosen_complete, step[chosen_complete], retained, self.done, self.known, numbered
            )
            chains[part.type] = new_chains
            belief = None
            if not part.hidden:
                beliefs[part.type], belief, impossible = marginals_of(
                    part, new_chains, retained, self.streams.sampling.seed
                )
                self.counters["impossible"] += impossible
            elif part.stores_belief:
                ahead[part.type], belief = lookahead_of(part, new_chains, retained)
            self.lives[part.type] = self._retain_chains(part, new_chains, retained, belief)
        return CallInput(ready, steps_ready, chains, beliefs, ahead, bad_rows, numbered)

    def _retain_chains(
        self, part: Stream, chains: Chains, retained: RetainedChains, belief: FloatArray | None
    ) -> RetainedChains:
        """Retain chains that may continue: of each key, the newest one with an evaluated step."""
        newest: dict[int, int] = {}
        for i, owner in enumerate(chains.hashes):
            if chains.evaluated[i] or chains.before[i] >= 0:
                newest[int(owner)] = i
        chosen = np.array(sorted(newest.values()), np.int64)
        last = np.array([self._last_row(chains, retained, i) for i in chosen], np.int64)
        before = chains.before[chosen]
        done = retained.done[np.maximum(before, 0)] if len(retained) else np.zeros(len(chosen), np.int64)
        has_evaluated = chains.evaluated[chosen] > 0
        done[has_evaluated] = chains.step[
            chains.offsets[chosen[has_evaluated]] + chains.evaluated[chosen[has_evaluated]] - 1
        ]
        may_continue = np.ones(len(chosen), bool)
        if self.done is not None and self.every is not None:
            may_continue = last + part.patience >= self.done
        beliefs = np.zeros((len(chosen), 0 if belief is None else belief.shape[1]))
        for place, i in enumerate(chosen if belief is not None else ()):
            assert belief is not None
            beliefs[place] = belief[i] if chains.evaluated[i] else retained.belief[chains.before[i]]
        indices = np.flatnonzero(may_continue)
        keys = {name: column.take(pa.array(chosen[indices])) for name, column in chains.keys.items()}
        retained_now = RetainedChains(keys, last[indices], done[indices], beliefs[indices])
        return self._with_quiet(part, retained, retained_now, np.isin(np.arange(len(retained)), chains.before))

    def _with_quiet(
        self, part: Stream, retained: RetainedChains, new: RetainedChains, continues: BoolArray
    ) -> RetainedChains:
        """Add retained chains without a step in this call that may still get one: time may not have advanced."""
        both = Units([list(retained.keys.values()), list(new.keys.values())], [len(retained), len(new)])
        quiet = ~continues & ~np.isin(both.of[0], both.of[1])
        if self.done is not None and self.every is not None:
            quiet &= retained.last + part.patience >= self.done
        if not quiet.any():
            return new
        rows = np.append(np.flatnonzero(quiet), len(retained) + np.arange(len(new)))
        columns = (select_values(key, rows) for key in both.whole)
        belief = np.concatenate([retained.belief[quiet], new.belief.reshape(len(new), retained.belief.shape[1])])
        last, done = np.concatenate([retained.last, new.last])[rows], np.concatenate([retained.done, new.done])[rows]
        return RetainedChains(dict(zip(new.keys, columns, strict=True)), last, done, belief)

    def _last_row(self, chains: Chains, retained: RetainedChains, i: int) -> int:
        """The last evaluated step of a chain that had a row."""
        rows = chains.rows[chains.offsets[i] : chains.offsets[i] + chains.evaluated[i]]
        rows_with_data = np.flatnonzero(rows)
        if len(rows_with_data):
            return int(chains.step[chains.offsets[i] + rows_with_data[-1]])
        return int(retained.last[chains.before[i]])

    # patterns

    def evaluate(self, query: PlannedQuery, number: int) -> pa.Table:
        """Evaluate a pattern and return its output rows; the new state is stored in ``self``."""
        if self.unknown:
            names = [query.memory(ways) for ways in self.plan.output_policy.carries]
            self.memories |= {name: self.state.memories[name] for name in names if name in self.state.memories}
            self.histories |= {name: self.state.histories[name] for name in names if name in self.state.histories}
            return self.schema.empty_table()
        if query.looks_back(self.streams):
            return self._evaluate_windows(query)
        forward_pass, results = self._advance(query, ways=False)
        self.counters["impossible"] += forward_pass.impossible
        if not query.is_sampled(self.streams):
            self.counters[SAMPLED] += int(results.drawn.sum())
        table, ongoing = self._emit(query, number, self._counted(query, results), forward_pass)
        self.memories[query.memory(False)] = forward_pass.remembered(ongoing)
        return table

    def _counted(self, query: PlannedQuery, results: StepProbabilities) -> StepProbabilities:
        """Add expected numbers of matches, if the output policy requires them."""
        if not self.plan.output_policy.counts:
            return results
        counting, counted = self._advance(query, ways=True)
        self.memories[query.memory(True)] = counting.remembered(no_open_alerts(len(counting.found.units), OFF))
        return join_expected(results, counted)

    def _evaluate_windows(self, query: PlannedQuery) -> pa.Table:
        """Evaluate a pattern over windows and return its output rows; its history is appended and evicted."""
        name = query.memory(False)
        stored = self.state.histories.get(name)
        history = empty_history(query, self.streams, self.rows) if stored is None else stored
        call_input = append_input(query, self.streams, history, self.call_input)
        after = NEVER if self.state.done is None else self.state.done
        lasting = history.groups if len(history.ongoing.since) else None
        try:
            results, units = safely(query, self.streams, call_input, after=after, starts=history.starts, more=lasting)
        except StateLimitExceeded:
            raise letter_limit_error(query) from None
        before = no_open_alerts(len(units), OFF)
        for target, source in zip(before, history.ongoing, strict=True):
            target[units.of[-1]] = source
        results = self._counted(query, results)
        table, ongoing = output_table(query, results, self.plan, before, OFF, self.done, self.clock.ended)
        if self.done is not None:
            last = np.flatnonzero(ongoing.since != OFF)
            groups = [key.take(pa.array(last)) for key in units.keys]
            evicted = evict_steps(query, self.streams, history, call_input, self.done)
            self.histories[name] = replace(
                evicted, groups=groups, ongoing=OpenAlerts._make(values[last] for values in ongoing)
            )
        return table

    def _advance(self, query: PlannedQuery, *, ways: bool) -> tuple[ForwardPass, StepProbabilities]:
        """Advance a pattern over the complete steps: probabilities, or, with ``ways``, expected numbers of matches."""
        reader = self.readers[query.memory(ways)]
        model = next((part.model for part in query.hidden(self.streams) if part.known is Known.READ), None)
        values = np.zeros(0, np.int64) if model is None else np.arange(len(model.values))
        memory = self.state.memories.get(query.memory(ways))
        if memory is None:
            memory = no_group_states(unit_columns(self.rows, query.unit), values)
        try:
            pattern_input = build_pattern_input(
                query, self.streams, reader, self.call_input, memory.keys if len(memory) else None
            )
            if pattern_input.entries:
                memory = memory.among(np.union1d(pattern_input.entries[0].values, memory.values))
            forward_pass = ForwardPass(
                query, self.streams, reader, pattern_input, memory, self.call_input.numbered, self.done, self.lives
            )
            rows = forward_pass.run()
        except StateLimitExceeded:
            if not ways and query.is_sampled(self.streams) and not isinstance(reader.automaton, SparseAutomaton):
                _sparse_flag(query.memory(ways))[0] = True
                raise _SparseAutomatonNeeded(query.memory(ways)) from None
            raise (count_limit_error if ways else letter_limit_error)(query) from None
        return forward_pass, combined(
            query, self.streams, pattern_input.units, rows, per_binding=self.plan.apart, ways=ways
        )

    def _emit(
        self, query: PlannedQuery, number: int, results: StepProbabilities, forward_pass: ForwardPass
    ) -> tuple[pa.Table, OpenAlerts]:
        """Return the output rows, and the alerts and spans that stay open."""
        plan, count, memory, stored_index = (
            self.plan,
            len(forward_pass.found.units),
            forward_pass.memory,
            forward_pass.stored_index,
        )
        is_stored = stored_index >= 0
        before = no_open_alerts(count, OFF)
        for target, source in zip(before[:3], (memory.since, memory.peak, memory.error), strict=True):
            target[is_stored] = source[stored_index[is_stored]]
        before.last[is_stored] = memory.last[stored_index[is_stored]]
        if plan.apart:
            return binding_table(query, number, results, self.every, self.schema), before
        return output_table(query, results, plan, before, OFF, self.done, self.clock.ended)

    # state to store

    def final_state(self) -> UncertainState | None:
        waiting = take_events(self.rows, np.flatnonzero(~self.counts))
        lives = {type_: one for type_, one in self.lives.items() if len(one)}
        memories = {name: one for name, one in self.memories.items() if len(one)}
        pasts = {name: one for name, one in self.histories.items() if not one.is_over}
        if not len(waiting) and not lives and not memories and not pasts:
            return None
        return UncertainState(self.known, self.done, waiting, {**self.lives}, memories, pasts)

    def next_timer(self, final: UncertainState) -> int | None:
        """Return the time of the next timer: the earliest one at which there is work without a new row."""
        width = self.every or 1
        timers = []
        if len(final.buffered):
            first = int(steps_of(final.buffered, self.every).min())
            timers.append((first + self.lag + 1) * width - 1)
        if self.every is not None and self.done is not None:
            done = self.done
            next_ = (done + 1 + self.lag + 1) * width - 1
            if any(len(one) for one in final.lives.values()):
                timers.append(next_)
            for query in self.plan.queries:
                history = final.histories.get(query.memory(False))
                if history is not None and query.window is not None:
                    last_timer = (history.newest(self.every) + query.window + self.lag + 1) * width - 1
                    timers.append(next_ if len(history.ongoing.since) else max(next_, last_timer))
                nfa = self.readers[query.memory(False)].automaton.nfa
                for ways in self.plan.output_policy.carries:
                    memory = final.memories.get(query.memory(ways))
                    if memory is None or not len(memory):
                        continue
                    if (memory.since != OFF).any() or memory.hidden.any():
                        timers.append(next_)
                    elif nfa.is_timed:
                        longest = count_steps(nfa.longest_us, self.every) + 2
                        timers.append((done + longest + self.lag + 1) * width - 1)
        return min(timers, default=None)
