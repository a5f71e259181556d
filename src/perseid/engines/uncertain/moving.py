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
from perseid.engines.uncertain.chains import Lives
from perseid.engines.uncertain.counting import count
from perseid.engines.uncertain.exact import Moved, StateWeights, move
from perseid.engines.uncertain.kernel import Steps
from perseid.engines.uncertain.memory import OFF, GroupStates, begun, is_plain
from perseid.engines.uncertain.plan import PlannedQuery
from perseid.engines.uncertain.reading import SymbolEncoder, Units
from perseid.engines.uncertain.sampling import SampledRows, drawn_on, exact_rows, fallen, fresh_worlds
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.telling import OpenAlerts
from perseid.engines.uncertain.traces import LATER, NEVER, ChainGroups, Material, split_groups
from perseid.engines.uncertain.ways import Ways
from perseid.engines.uncertain.worlds import Worlds
from perseid.runtime.arrays import BoolArray, IntArray


def carried(automaton: Automaton, lot: ChainGroups, given: StateWeights, prune: float, *, falls: bool = False) -> Moved:
    """Advance the groups of a lot: probabilities, or, for ``Ways``, numbers of matches, which are not pruned."""
    if isinstance(automaton, Ways):
        return count(automaton, lot.mode, lot.steps, lot.hidden, given, values=lot.values)
    return move(automaton, lot.mode, lot.steps, lot.hidden, given, values=lot.values, prune=prune, falls=falls)


class ForwardPass:
    """The groups of one pattern in one call."""

    def __init__(
        self, one: PlannedQuery, streams: Streams, reader: SymbolEncoder, found: Material, memory: GroupStates, numbered: bool,
        done: int | None, lives: Mapping[str, Lives],
    ) -> None:  # fmt: skip
        self.one, self.streams, self.reader, self.found, self.memory = one, streams, reader, found, memory
        self.numbered, self.done = numbered, done
        self.sampled = one.is_sampled(streams) and not isinstance(reader.automaton, Ways)
        units = len(found.units)
        self.places = np.full(units, -1, np.int64)
        """By group: its index in the stored state, or -1."""
        if len(memory):
            self.places[found.units.of[-1]] = np.arange(len(memory))
        self.kept = self.places >= 0
        self.begins = self.places.copy()
        """By group: index of its initial weights in the stored state, or -1 for the initial state."""
        self.last = np.full(units, NEVER)
        self.lost = np.zeros(units)
        had_value = np.zeros(units, bool)
        own = self.places[self.kept]
        self.last[self.kept], self.lost[self.kept] = memory.last[own], memory.lost[own]
        had_value[self.kept] = memory.hidden[own]
        self.had_value = had_value
        where = {place: unit for unit, place in enumerate(self.places.tolist())}
        self.worlds = {where[place]: worlds for place, worlds in memory.worlds.items()}
        self.linked = bool(found.entries)
        self.alive = self._alive(lives)
        self.weights: list[tuple[IntArray, StateWeights, int, IntArray]] = []
        """Per lot: groups, final weights, number of hidden values, and steps at which groups reached the limit."""
        self.impossible = 0

    def _alive(self, lives: Mapping[str, Lives]) -> BoolArray:
        """By group: True if a retained chain with readings may continue in it."""
        units = self.found.units
        alive = np.zeros(len(units), bool)
        for read in self.found.read:
            own = lives.get(read.stream.type)
            if own is None or not len(own):
                continue
            names = [component.column(read.stream.type) for component in self.one.unit]
            columns = [own.keys[name] for name in names if name in own.keys]
            both = Units([units.keys, columns], [len(units), len(own)])
            alive |= np.isin(both.of[0], both.of[1])
        return alive

    def told(self) -> list[SampledRows]:
        """Results by group and step."""
        told = self._all_drawn() if self.sampled else self._in_turns()
        for one in told:
            np.maximum.at(self.last, one.unit, one.step)
        if self.numbered and self.done is not None:
            drawn = list(self.worlds)
            self.last[drawn] = np.maximum(self.last[drawn], self.done)
        return told

    def _all_drawn(self) -> list[SampledRows]:
        return [drawn_on(self.found, self.numbered, self._begun, self.lost)[0]]

    def _begun(self, unit: int) -> Worlds:
        if unit not in self.worlds:
            self.worlds[unit] = fresh_worlds(self.reader, self.streams)
        return self.worlds[unit]

    def _in_turns(self) -> list[SampledRows]:
        """Alternate exact evaluation with sampling of groups over the state limit until none returns to exact."""
        self.reader.automaton.held.append(self.memory.weights.pairs[:, 0])
        told: list[SampledRows] = []
        first = np.full(len(self.found.units), NEVER)
        """By group: the step from which on it is exact."""
        first[list(self.worlds)] = LATER
        found, here, hidden = self.found.since(first), self.kept & (first == NEVER), self.had_value & (first == NEVER)
        while True:
            told += self._exact(found, here, hidden)
            if not self.worlds:
                return told
            drawn, returning = drawn_on(
                self.found, self.numbered, self.worlds.get, self.lost, returns=not self.found.read
            )
            told.append(drawn)
            if not returning:
                return told
            first[:] = LATER
            for unit, step in returning.items():
                first[unit], self.begins[unit], self.last[unit], self.lost[unit] = step, -1, NEVER, 0.0
                del self.worlds[unit]
            found, here, hidden = self.found.since(first), np.zeros(len(first), bool), np.zeros(len(first), bool)

    def _exact(self, found: Material, here: BoolArray, hidden: BoolArray) -> list[SampledRows]:
        memory, automaton = self.memory, self.reader.automaton
        told = []
        for lot in split_groups(
            found, self.last.copy(), self.numbered, (here, hidden), memory.values if self.linked else None
        ):
            begins = begun(memory, self.begins, lot)
            moved = carried(automaton, replace(lot, steps=self._steps(lot)), begins, self.streams.prune, falls=True)
            self.impossible += moved.impossible + lot.impossible
            told.append(exact_rows(lot, moved, self.lost))
            self.lost[lot.groups] += moved.lost
            self.worlds |= fallen(self.one, self.streams, self.reader, found, lot, moved)
            automaton.held.append(moved.weights.pairs[:, 0])
            self.weights.append((lot.groups, moved.weights, lot.values, moved.fell))
        return told

    def _steps(self, lot: ChainGroups) -> Steps:
        """Steps of a lot, with the number of steps without events after each group's last one up to now."""
        some = np.diff(lot.steps.offsets) > 0
        last = self.last
        last[lot.groups[some]] = lot.step[lot.steps.offsets[1:][some] - 1]
        rest = np.zeros(len(lot.groups), np.int64)
        if self.numbered and self.done is not None:
            rest = np.maximum(self.done - np.where(last[lot.groups] == NEVER, self.done, last[lot.groups]), 0)
            last[lot.groups] = np.maximum(last[lot.groups], self.done)
        ends = rest > 0 if self.linked else ~self.alive[lot.groups]
        has_value = self.had_value[lot.groups] | (lot.values > 0)
        return lot.steps._replace(rest=rest, ends=ends & has_value)

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
        lasting = self.alive | (ongoing.since != OFF)
        for own, left, values, fell in self.weights:
            moved = left.pairs.copy()
            moved[left.pairs[:, 1] == values, 1] = size
            plain = is_plain(StateWeights(moved, left.weight, left.offsets), size)
            keep = np.flatnonzero((fell < 0) & (~plain | lasting[own]))
            counts = np.diff(left.offsets)
            rows = np.flatnonzero(np.repeat(np.isin(np.arange(len(own)), keep), counts))
            pairs.append(moved[rows])
            weight.append(left.weight[rows])
            lengths.append(counts[keep])
            groups.append(own[keep])
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
