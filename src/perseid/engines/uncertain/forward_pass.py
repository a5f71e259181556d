"""Forward pass of one pattern in one call: advances the state of its groups, and returns the state to store.

Groups are advanced exactly or, if the pattern is sampled, as random worlds. In an exact pattern, a group over the state
limit continues as worlds drawn from its distribution; it is exact again after a period without events in which all
partial matches expired. Both changes depend on the group's own data alone, so results do not depend on how a stream is
cut into calls. Numbers of matches are always exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.automaton import Automaton
from perseid.engines.uncertain.chains import RetainedChains
from perseid.engines.uncertain.counting import count
from perseid.engines.uncertain.counting_automaton import CountingAutomaton
from perseid.engines.uncertain.exact import AdvanceResult, StateWeights, move
from perseid.engines.uncertain.kernel import Steps
from perseid.engines.uncertain.memory import OFF, GroupStates, initial_weights, is_plain
from perseid.engines.uncertain.output_policies import OpenAlerts
from perseid.engines.uncertain.plan import PlannedQuery
from perseid.engines.uncertain.reading import SymbolEncoder, Units
from perseid.engines.uncertain.sampling import SampledRows, advance_worlds, exact_rows, fallback_worlds, fresh_worlds
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import LATER, NEVER, ChainGroups, PatternInput, split_groups
from perseid.engines.uncertain.worlds import Worlds
from perseid.runtime.arrays import BoolArray, IntArray


def advance_groups(
    automaton: Automaton, chain_groups: ChainGroups, initial: StateWeights, prune: float, *, falls: bool = False
) -> AdvanceResult:
    """Advance the groups of a batch: probabilities, or, for ``CountingAutomaton``, numbers of matches, which are not pruned."""
    if isinstance(automaton, CountingAutomaton):
        return count(
            automaton, chain_groups.mode, chain_groups.steps, chain_groups.hidden, initial, values=chain_groups.values
        )
    return move(
        automaton,
        chain_groups.mode,
        chain_groups.steps,
        chain_groups.hidden,
        initial,
        values=chain_groups.values,
        prune=prune,
        falls=falls,
    )


class ForwardPass:
    """The groups of one pattern in one call."""

    def __init__(
        self, one: PlannedQuery, streams: Streams, reader: SymbolEncoder, pattern_input: PatternInput, memory: GroupStates, numbered: bool,
        done: int | None, chains: Mapping[str, RetainedChains],
    ) -> None:  # fmt: skip
        self.one, self.streams, self.reader, self.found, self.memory = one, streams, reader, pattern_input, memory
        self.numbered, self.done = numbered, done
        self.sampled = one.is_sampled(streams) and not isinstance(reader.automaton, CountingAutomaton)
        units = len(pattern_input.units)
        self.stored_index = np.full(units, -1, np.int64)
        """By group: its index in the stored state, or -1."""
        if len(memory):
            self.stored_index[pattern_input.units.of[-1]] = np.arange(len(memory))
        self.is_stored = self.stored_index >= 0
        self.initial_index = self.stored_index.copy()
        """By group: index of its initial weights in the stored state, or -1 for the initial state."""
        self.last = np.full(units, NEVER)
        self.lost = np.zeros(units)
        had_value = np.zeros(units, bool)
        stored = self.stored_index[self.is_stored]
        self.last[self.is_stored], self.lost[self.is_stored] = memory.last[stored], memory.lost[stored]
        had_value[self.is_stored] = memory.hidden[stored]
        self.had_value = had_value
        unit_at = {place: unit for unit, place in enumerate(self.stored_index.tolist())}
        self.worlds = {unit_at[place]: worlds for place, worlds in memory.worlds.items()}
        self.linked = bool(pattern_input.entries)
        self.may_continue = self._may_continue(chains)
        self.weights: list[tuple[IntArray, StateWeights, int, IntArray]] = []
        """Per lot: groups, final weights, number of hidden values, and steps at which groups reached the limit."""
        self.impossible = 0

    def _may_continue(self, chains: Mapping[str, RetainedChains]) -> BoolArray:
        """By group: True if a retained chain with readings may continue in it."""
        units = self.found.units
        alive = np.zeros(len(units), bool)
        for reading in self.found.read:
            retained = chains.get(reading.stream.type)
            if retained is None or not len(retained):
                continue
            names = [component.column(reading.stream.type) for component in self.one.unit]
            columns = [retained.keys[name] for name in names if name in retained.keys]
            units_of_both = Units([units.keys, columns], [len(units), len(retained)])
            alive |= np.isin(units_of_both.of[0], units_of_both.of[1])
        return alive

    def run(self) -> list[SampledRows]:
        """Results by group and step."""
        rows = self._evaluate_sampled() if self.sampled else self._evaluate_alternating()
        for one in rows:
            np.maximum.at(self.last, one.unit, one.step)
        if self.numbered and self.done is not None:
            drawn = list(self.worlds)
            self.last[drawn] = np.maximum(self.last[drawn], self.done)
        return rows

    def _evaluate_sampled(self) -> list[SampledRows]:
        return [advance_worlds(self.found, self.numbered, self._worlds_of, self.lost)[0]]

    def _worlds_of(self, unit: int) -> Worlds:
        if unit not in self.worlds:
            self.worlds[unit] = fresh_worlds(self.reader, self.streams)
        return self.worlds[unit]

    def _evaluate_alternating(self) -> list[SampledRows]:
        """Alternate exact evaluation with sampling of groups over the state limit until none returns to exact."""
        self.reader.automaton.used_arrays.append(self.memory.weights.pairs[:, 0])
        rows: list[SampledRows] = []
        exact_from = np.full(len(self.found.units), NEVER)
        """By group: the step from which on it is exact."""
        exact_from[list(self.worlds)] = LATER
        pattern_input, has_state, hidden = (
            self.found.since(exact_from),
            self.is_stored & (exact_from == NEVER),
            self.had_value & (exact_from == NEVER),
        )
        while True:
            rows += self._exact(pattern_input, has_state, hidden)
            if not self.worlds:
                return rows
            drawn, returning = advance_worlds(
                self.found, self.numbered, self.worlds.get, self.lost, returns=not self.found.read
            )
            rows.append(drawn)
            if not returning:
                return rows
            exact_from[:] = LATER
            for unit, step in returning.items():
                exact_from[unit], self.initial_index[unit], self.last[unit], self.lost[unit] = step, -1, NEVER, 0.0
                del self.worlds[unit]
            pattern_input, has_state, hidden = (
                self.found.since(exact_from),
                np.zeros(len(exact_from), bool),
                np.zeros(len(exact_from), bool),
            )

    def _exact(self, pattern_input: PatternInput, has_state: BoolArray, hidden: BoolArray) -> list[SampledRows]:
        memory, automaton = self.memory, self.reader.automaton
        rows = []
        for chain_groups in split_groups(
            pattern_input, self.last.copy(), self.numbered, (has_state, hidden), memory.values if self.linked else None
        ):
            initial = initial_weights(memory, self.initial_index, chain_groups)
            result = advance_groups(
                automaton,
                replace(chain_groups, steps=self._steps(chain_groups)),
                initial,
                self.streams.prune,
                falls=True,
            )
            self.impossible += result.impossible + chain_groups.impossible
            rows.append(exact_rows(chain_groups, result, self.lost))
            self.lost[chain_groups.groups] += result.lost
            self.worlds |= fallback_worlds(self.one, self.streams, self.reader, pattern_input, chain_groups, result)
            automaton.used_arrays.append(result.weights.pairs[:, 0])
            self.weights.append((chain_groups.groups, result.weights, chain_groups.values, result.fell))
        return rows

    def _steps(self, chain_groups: ChainGroups) -> Steps:
        """Steps of a lot, with the number of steps without events after each group's last one up to now."""
        has_steps = np.diff(chain_groups.steps.offsets) > 0
        last = self.last
        last[chain_groups.groups[has_steps]] = chain_groups.step[chain_groups.steps.offsets[1:][has_steps] - 1]
        rest = np.zeros(len(chain_groups.groups), np.int64)
        if self.numbered and self.done is not None:
            rest = np.maximum(
                self.done - np.where(last[chain_groups.groups] == NEVER, self.done, last[chain_groups.groups]), 0
            )
            last[chain_groups.groups] = np.maximum(last[chain_groups.groups], self.done)
        ends = rest > 0 if self.linked else ~self.may_continue[chain_groups.groups]
        has_value = self.had_value[chain_groups.groups] | (chain_groups.values > 0)
        return chain_groups.steps._replace(rest=rest, ends=ends & has_value)

    # state to store

    def _is_over(self, worlds: Worlds) -> bool:
        """Return True if worlds need not be stored; a group over the limit stores them until it is exact again."""
        after = worlds.last + 1
        if self.numbered and self.done is not None:
            after = max(after, self.done + 1)
            if worlds.is_over(after):
                return True
        return self.sampled and worlds.is_plain(after)

    def remembered(self, ongoing: OpenAlerts) -> GroupStates:
        """State of the groups after the call, without those in the initial state."""
        memory = self.memory
        pairs, weight, lengths, groups = [], [], [], []
        size = len(memory.values)
        lasting = self.may_continue | (ongoing.since != OFF)
        for groups_of_part, final, values, fell in self.weights:
            pairs_moved = final.pairs.copy()
            pairs_moved[final.pairs[:, 1] == values, 1] = size
            is_initial = is_plain(StateWeights(pairs_moved, final.weight, final.offsets), size)
            stored_groups = np.flatnonzero((fell < 0) & (~is_initial | lasting[groups_of_part]))
            counts = np.diff(final.offsets)
            rows = np.flatnonzero(np.repeat(np.isin(np.arange(len(groups_of_part)), stored_groups), counts))
            pairs.append(pairs_moved[rows])
            weight.append(final.weight[rows])
            lengths.append(counts[stored_groups])
            groups.append(groups_of_part[stored_groups])
        drawn = [unit for unit in sorted(self.worlds) if lasting[unit] or not self._is_over(self.worlds[unit])]
        before = sum(map(len, groups))
        chosen = np.concatenate([np.zeros(0, np.int64), *groups, np.array(drawn, np.int64)])
        lengths.append(np.zeros(len(drawn), np.int64))
        offsets = np.append(0, np.cumsum(np.concatenate(lengths))).astype(np.int64)
        whole = StateWeights(
            np.concatenate([np.zeros((0, 2), np.int64), *pairs]), np.concatenate([np.zeros(0), *weight]), offsets
        )
        keys = [key.take(pa.array(chosen)) for key in self.found.units.keys]
        worlds = {before + i: self.worlds[unit] for i, unit in enumerate(drawn)}
        return GroupStates(keys, self.last[chosen], whole, memory.values, ongoing.since[chosen], ongoing.peak[chosen],
                      ongoing.error[chosen], self.lost[chosen], worlds)  # fmt: skip
