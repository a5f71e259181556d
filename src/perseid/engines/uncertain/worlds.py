"""Random worlds of one group, advanced together: their automaton states and hidden values.

Draws for a chain at a step depend only on the seed, the chain and the step, so the worlds are the same however a stream
is cut into calls, shards and restarts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from perseid.engines.uncertain.automaton import UNKNOWN, Automaton
from perseid.engines.uncertain.exact import count_steps
from perseid.engines.uncertain.particles import mixed, uniform
from perseid.engines.uncertain.sparse import SparseAutomaton
from perseid.engines.uncertain.streams import Sampling
from perseid.engines.uncertain.traces import NEVER
from perseid.lang import ast
from perseid.runtime.arrays import BoolArray, FloatArray, IntArray
from perseid.runtime.jit import jit

_FALL = 0x6A09E667F3BCC908
"""Salt that separates the draws of a group at its fallback to sampling from those of chains."""


def worlds_for(sampling: Sampling) -> int:
    """Number of worlds: with n = ln(2/δ) / (2 ε²), the error exceeds ε with probability δ at most (Hoeffding)."""
    return math.ceil(math.log(2 / sampling.delta) / (2 * sampling.epsilon**2))


@jit
def draw(seed: np.uint64, chain: np.uint64, step: np.uint64, out: Any) -> None:
    """Fill ``out`` with uniform numbers in [0, 1) that depend on seed, chain and step."""
    word = mixed(mixed(seed ^ chain) + step)
    for i in range(len(out)):
        out[i] = uniform(word, i)


def _word(number: int) -> np.uint64:
    return np.uint64(int(number) & ((1 << 64) - 1))


@dataclass
class HiddenSamples:
    """The value of a hidden chain in each world."""

    there: BoolArray
    """By world: True if it has a value, False for no event."""
    value: IntArray
    """By world: a hash of the value, or its number in the model."""
    stays: bool = False
    """At a step without input: True if it retains its value, False if it has no event."""


@dataclass
class Worlds:
    """The worlds of one group: by world an automaton state, and by hidden chain a value."""

    automaton: Automaton
    count: int
    seed: int
    last: int = NEVER
    """The last step of the worlds."""
    state: Any = None
    values: dict[int, HiddenSamples] = field(default_factory=dict)
    """By chain with a value in at least one world."""

    def __post_init__(self) -> None:
        if self.state is None:
            self.state = np.zeros(self.count, np.int64)
        self.automaton.used_arrays.append(self.state)
        self._acted: set[int] = set()

    @property
    def longest(self) -> int:
        """Number of steps without events after which more of them change nothing."""
        return count_steps(self.automaton.nfa.longest_us, self.automaton.elapsed) + 2

    def is_over(self, step: int) -> bool:
        """Return True if all partial matches have expired, for any draw, given no events since the last step."""
        windowed = isinstance(self.automaton.pattern.within, ast.TimeWindow)
        return windowed and self.last != NEVER and step - self.last - 1 >= self.longest

    def is_plain(self, step: int) -> bool:
        """Return True if the worlds are in their initial state, given that the next step is this one or later."""
        has_value = any(own.stays or step - self.last <= 1 for own in self.values.values())
        return not has_value and not self.state.any()

    def uniform(self, chain: int, step: int) -> FloatArray:
        drawn = np.empty(self.count)
        with np.errstate(over="ignore"):
            draw(_word(self.seed), _word(chain), _word(step), drawn)
        return drawn

    def fall(self, group: int, step: int, pairs: IntArray, weight: FloatArray) -> IntArray:
        """Draw all worlds from weighted (state, hidden value) pairs before a step; return the hidden values."""
        reached = np.cumsum(weight)
        drawn = np.searchsorted(reached, self.uniform(group ^ _FALL, step) * reached[-1], side="right")
        drawn = np.minimum(drawn, len(pairs) - 1)
        self.state[:] = pairs[drawn, 0]
        self.last = step - 1
        value: IntArray = pairs[drawn, 1]
        return value

    # advance by a step

    def advance(self, step: int, doings: Sequence[Doing], numbered: bool) -> BoolArray:
        """Advance by one step with the actions of the chains; return, by world, True if the pattern completes."""
        if numbered and self.last != NEVER:
            self._advance_idle(step - self.last - 1)
        self.last = step
        self._acted = set()
        acting = [doing(self) for doing in doings]
        self.values = {chain: own for chain, own in self.values.items() if own.stays or chain in self._acted}
        if isinstance(self.automaton, SparseAutomaton):
            return self._follow(self.automaton, acting)
        letters = np.zeros(self.count, np.int64)
        for own_letters in acting:
            letters = self.joined(letters, own_letters)
        return self.move(letters)

    def _follow(self, automaton: SparseAutomaton, acting: Sequence[IntArray]) -> BoolArray:
        """Advance the states without joint letters; return, by world, True if the pattern completes."""
        if automaton.is_crowded():
            automaton.evict_states()
        letters = np.stack(acting) if acting else np.zeros((0, self.count), np.int64)
        self.state[:], done = automaton.follow(self.state, letters)
        return done

    def _advance_idle(self, steps: int) -> None:
        """Advance by that many steps without events."""
        if not steps:
            return
        self.values = {chain: own for chain, own in self.values.items() if own.stays}
        if self.automaton.nfa.is_timed:
            nothing = np.zeros(self.count, np.int64)
            for _ in range(min(steps, self.longest)):
                if isinstance(self.automaton, SparseAutomaton):
                    self._follow(self.automaton, [])
                else:
                    self.move(nothing)

    def happens(self, chain: int, own: IntArray, shares: FloatArray) -> IntArray:
        """By world: the letter of an independent chain at this step."""
        drawn = np.searchsorted(np.cumsum(shares), self.uniform(chain, self.last), side="right")
        return np.append(own, 0)[drawn]

    def follows(self, chain: int, table: Table, names: IntArray, stays: bool) -> IntArray:
        """By world: the letter of a hidden chain at this step; ``table`` has the entries of the step.

        Entries are sorted by the value before; values are indices into ``names``, and the index after the last means
        "no event". Probability that the entries do not cover is that of no event.
        """
        old, new, letter, weight = table
        before = self._numbers(chain, names)
        there, value = np.zeros(self.count, bool), np.zeros(self.count, np.int64)
        own = np.zeros(self.count, np.int64)
        drawn = self.uniform(chain, self.last)
        for number in np.unique(before):
            here = np.flatnonzero(before == number)
            low, high = np.searchsorted(old, [number, number + 1])
            place = low + np.searchsorted(np.cumsum(weight[low:high]), drawn[here], side="right")
            some = place < high
            there[here[some]] = True
            value[here[some]] = names[new[place[some]]]
            own[here[some]] = letter[place[some]]
        if there.any():
            self.values[chain] = HiddenSamples(there, value, stays)
        else:
            self.values.pop(chain, None)
        self._acted.add(chain)
        return own

    def _numbers(self, chain: int, names: IntArray) -> IntArray:
        """By world: the index of a chain's value in ``names``; its length for no event, -1 for a missing value."""
        known = self.values.get(chain)
        if known is None:
            return np.full(self.count, len(names), np.int64)
        place = np.minimum(np.searchsorted(names, known.value), max(len(names) - 1, 0))
        same = known.there & (names[place] == known.value) if len(names) else np.zeros(self.count, bool)
        return np.where(same, place, np.where(known.there, -1, len(names)))

    def joined(self, letters: IntArray, own: IntArray) -> IntArray:
        found = self.automaton.join[letters, own]
        if (found == UNKNOWN).any():
            for one, other in np.unique(np.stack([letters, own])[:, found == UNKNOWN], axis=1).T:
                self.automaton.joined(int(one), int(other))
            found = self.automaton.join[letters, own]
        return found.astype(np.int64)

    def move(self, letters: IntArray) -> BoolArray:
        """Advance the states; return, by world, True if the pattern completes."""
        automaton = self.automaton
        if automaton.is_crowded():
            automaton.evict_states()
        after = automaton.next[self.state, letters]
        if (after == UNKNOWN).any():
            pairs = np.unique(np.stack([self.state, letters])[:, after == UNKNOWN], axis=1)
            for state, letter in pairs.T:
                automaton.resolve(int(state), int(letter))
            after = automaton.next[self.state, letters]
        done: BoolArray = automaton.done[self.state, letters]
        self.state[:] = after
        return done


Table: TypeAlias = tuple[IntArray, IntArray, IntArray, FloatArray]
"""Entries: value before, value after, letter, weight."""
Doing: TypeAlias = "Callable[[Worlds], IntArray]"
"""Action of a chain at a step: returns, by world, the letter of its event."""
