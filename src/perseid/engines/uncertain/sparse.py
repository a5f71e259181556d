"""Automaton for random worlds in which many chains act at once, without joint letters and transition tables.

If many chains meet in a group, a step has too many combinations of events to number them as letters. Instead, the
events of a step act on each configuration of a world one by one. An event can start configurations, advance a
configuration, and end moves that a configuration waits for. The first two effects add up over the events of a step, and
a configuration retains the moves that no event ends. So only the effect of one event on one configuration is computed
and cached.

Caches are bounded, and dropped entries are computed again: memory grows neither with the number of chains that meet,
nor with the stream. Worlds reach the same states as with joint letters, so results are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from perseid.engines.uncertain.automaton import Automaton
from perseid.engines.uncertain.pattern_nfa import Letter
from perseid.runtime.arrays import BoolArray, IntArray

MAX_EFFECTS = 1 << 19
"""Maximum number of cached effects of events on configurations."""
MAX_TRANSITION_BYTES = 1 << 25
"""Maximum size of the cache of state transitions, in bytes."""
TRANSITION_BYTES = 200
"""Approximate size of a cached transition without its letters, in bytes."""


class Effect(NamedTuple):
    """Effect of an event on a configuration: successors, number of completed threads, and indices of ended moves."""

    after: tuple[int, ...]
    done: int
    ended: frozenset[int]


class SparseAutomaton(Automaton):
    """States by number, and letters of single events only; the tables ``next``, ``done`` and ``join`` are not used."""

    sparse = True

    def __init__(self, *given: Any, **named: Any) -> None:
        self._effects: dict[int, dict[int, Effect | None]] = {}
        self._counted = 0
        self._followed: dict[tuple[int, bytes], tuple[int, bool]] = {}
        self._followed_bytes = 0
        super().__init__(*given, **named)

    def letter(self, letter: Letter) -> int:
        """Return the number of a letter, adding it if it is new, without a limit; 0 is the empty letter."""
        number = self._letter_numbers.get(letter)
        if number is None:
            number = self._letter_numbers[letter] = len(self.letters)
            self.letters.append(letter)
        return number

    def state(self, configurations: Iterable[int]) -> int:
        own = tuple(sorted(set(configurations)))
        number = self._state_numbers.get(own)
        if number is None:
            number = self._state_numbers[own] = len(self.states)
            self.states.append(own)
        return number

    def evict_states(self, *used: IntArray) -> None:
        super().evict_states(*used)
        self._drop_effects()
        self._drop_moves()

    def follow(self, states: IntArray, acting: IntArray) -> tuple[IntArray, BoolArray]:
        """By world: its next state, and True if the pattern completes.

        ``acting`` has, by chain and world, the letter of the chain's event.
        """
        after, done = np.zeros(len(states), np.int64), np.zeros(len(states), bool)
        ordered = np.sort(acting, axis=0)
        for world, state in enumerate(states.tolist()):
            letters = ordered[:, world]
            events = np.unique(letters[letters > 0])
            key = state, events.tobytes()
            transition = self._followed.get(key)
            if transition is None:
                if self._followed_bytes >= MAX_TRANSITION_BYTES:
                    self._drop_moves()
                transition = self._followed[key] = self._transition(state, events.tolist())
                self._followed_bytes += len(key[1]) + TRANSITION_BYTES
            after[world], done[world] = transition
        return after, done

    def _drop_moves(self) -> None:
        self._followed, self._followed_bytes = {}, 0

    def _drop_effects(self) -> None:
        self._effects, self._counted = {}, 0

    def _transition(self, state: int, letters: list[int]) -> tuple[int, bool]:
        """Transition of one state on the events of a step."""
        after: list[int] = []
        done = 0
        for letter in letters:
            started, completed = self.begin(letter)
            after += started
            done += completed
        for configuration in self.states[state]:
            successors, completed = self._successors_of(configuration, letters)
            after += successors
            done += completed
        if self.nfa.youngest_suffices:
            after = self._youngest(after)
        return self.state(after), done > 0

    def _successors_of(self, configuration: int, letters: list[int]) -> tuple[list[int], int]:
        """Successors of one configuration on the events of a step, and the number of threads that complete."""
        effects = self._effects.get(configuration)
        if effects is None:
            effects = self._effects[configuration] = {}
        after: list[int] = []
        done = 0
        ended: frozenset[int] = frozenset()
        for letter in letters:
            if letter not in effects:
                if self._counted >= MAX_EFFECTS:
                    self._drop_effects()
                    effects = self._effects[configuration] = {}
                effects[letter] = self._effect(configuration, letter)
                self._counted += 1
            effect = effects[letter]
            if effect is not None:
                after += effect.after
                done += effect.done
                ended |= effect.ended
        after += self._without_ended(configuration, ended)
        return after, done

    def _without_ended(self, configuration: int, ended: frozenset[int]) -> tuple[int, ...]:
        """The configuration one step later, without the ended moves."""
        next_configurations, _ = self.move(configuration, 0)
        if not next_configurations or not ended:
            return next_configurations
        (number,) = next_configurations
        later = self.configurations[number]
        waiting = tuple(one for one in later.waiting if one not in ended)
        return (self.number(self.nfa.configuration(later.thread, waiting)),) if waiting else ()

    def _effect(self, configuration: int, letter: int) -> Effect | None:
        """Effect of one event on a configuration, or None if it has none."""
        bound, remaining = self.nfa.transitions(self.configurations[configuration], self.letters[letter], self.elapsed)
        configurations, done = self.nfa.settle([thread for _, thread in bound])
        next_configurations, _ = self.move(configuration, 0)
        before = set(self.configurations[next_configurations[0]].waiting) if next_configurations else set()
        ended = frozenset(before - set(() if remaining is None else remaining.waiting))
        if not configurations and not done and not ended:
            return None
        return Effect(tuple(self.number(one) for one in configurations), done, ended)
