"""The automaton of a pattern, determinized lazily for the letters of a stream.

A state is the set of NFA configurations that a possible world has reached. It depends on that world alone, so the
probabilities of worlds in the same state add up (section 3.1.2). States and letters are numbered on first use. The
number of states is exponential in the worst case: a group with worlds in too many states at once is sampled, and states
that no world is in are evicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from perseid.engines.uncertain.pattern_nfa import Configuration, ConfigurationKey, Letter, PatternNFA
from perseid.runtime.arrays import IntArray
from perseid.semantics import core as c
from perseid.semantics.values import Relation

MOST_STATES = 4_096
"""Maximum number of states that the worlds of one group may be in at once."""
FORGET = 20_000
"""Number of states above which unused states are evicted."""
MOST_LETTERS = 4_096
"""Maximum number of distinct letters of a pattern; a table has an entry for every pair of them."""
MOST_SETS = 512
"""The limit if a letter is a set of events: above it, worlds advance event by event."""
UNKNOWN = -1

S = TypeVar("S", bound=np.generic)


class StateLimitExceeded(Exception):  # noqa: N818  Not a user error: always caught.
    """Exact evaluation needs more states or letters than the limit."""


class Automaton:
    """DFA states and letters by number; ``next`` and ``done`` are the transition tables computed so far."""

    sparse = False
    """True if worlds advance by single events instead of joint letters."""

    def __init__(
        self,
        pattern: c.CorePattern,
        relations: Mapping[str, Relation] | None = None,
        *,
        elapsed: int = 0,
        most: int | None = None,
    ) -> None:
        self.pattern = pattern
        self.nfa = PatternNFA(pattern, relations)
        self.elapsed = elapsed
        """Microseconds between two steps of the stream."""
        self.most = MOST_STATES if most is None else most
        """Maximum number of states of one group in exact evaluation."""
        self.held: list[IntArray] = []
        """Arrays of state numbers in use by callers; eviction renumbers them in place."""
        self._enough = FORGET
        self.configurations: list[Configuration] = []
        self._configuration_numbers: dict[ConfigurationKey, int] = {}
        self.states: list[tuple[int, ...]] = []
        self._state_numbers: dict[tuple[int, ...], int] = {}
        self.letters: list[Letter] = []
        self._letter_numbers: dict[Letter, int] = {}
        self._moves: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}
        self._begun: dict[int, tuple[tuple[int, ...], int]] = {}
        self.next = np.full((8, 8), UNKNOWN, np.int32)
        self.done = np.zeros((8, 8), np.bool_)
        self.join = np.full((8, 8), UNKNOWN, np.int32)
        self.letter(())
        self.state(())

    @property
    def most_letters(self) -> int:
        """Maximum number of letters; lower if conditions refer to earlier events, as such letters rarely repeat."""
        return min(MOST_LETTERS, MOST_SETS) if self.nfa.refers_back else MOST_LETTERS

    # numbers

    def letter(self, letter: Letter) -> int:
        """Return the number of a letter, adding it if it is new; 0 is the empty letter."""
        number = self._letter_numbers.get(letter)
        if number is None:
            if len(self.letters) >= self.most_letters:
                raise StateLimitExceeded
            number = self._letter_numbers[letter] = len(self.letters)
            self.letters.append(letter)
            self.next, self.done = _grown(self.next, UNKNOWN, 0, number), _grown(self.done, False, 0, number)
            self.join = _grown(self.join, UNKNOWN, number, number)
        return number

    def joined(self, one: int, other: int) -> int:
        """Return the letter of a step with the events of both letters."""
        if self.join[one, other] == UNKNOWN:
            made = self.letter(self.together(self.letters[one], self.letters[other]))
            self.join[one, other] = self.join[other, one] = made
        return int(self.join[one, other])

    def together(self, one: Letter, other: Letter) -> Letter:
        """Join two letters, as far as the pattern distinguishes their events."""
        return self.nfa.join_letters(one, other)

    def number(self, configuration: Configuration) -> int:
        """Return the number of a configuration, adding it if it is new."""
        number = self._configuration_numbers.get(configuration.key)
        if number is None:
            number = self._configuration_numbers[configuration.key] = len(self.configurations)
            self.configurations.append(configuration)
        return number

    def state(self, configurations: Iterable[int]) -> int:
        """Return the number of a set of configurations, adding it if it is new; 0 is the empty set."""
        own = tuple(sorted(set(configurations)))
        number = self._state_numbers.get(own)
        if number is None:
            number = self._state_numbers[own] = len(self.states)
            self.states.append(own)
            self.next, self.done = _grown(self.next, UNKNOWN, number, 0), _grown(self.done, False, number, 0)
        return number

    # moves

    def move(self, configuration: int, letter: int) -> tuple[tuple[int, ...], int]:
        """Successors of one configuration on a letter, and the number of threads that complete."""
        known = self._moves.get((configuration, letter))
        if known is None:
            after, done = self.nfa.advance(self.configurations[configuration], self.letters[letter], self.elapsed)
            known = self._moves[configuration, letter] = tuple(self.number(one) for one in after), done
        return known

    def begin(self, letter: int) -> tuple[tuple[int, ...], int]:
        """Configurations that start with a letter, and the number of threads that complete at once."""
        known = self._begun.get(letter)
        if known is None:
            after, done = self.nfa.start(self.letters[letter])
            known = self._begun[letter] = tuple(self.number(one) for one in after), done
        return known

    def resolve(self, state: int, letter: int) -> None:
        """Compute the transition of a state on a letter and store it in the tables."""
        configurations, done = self.begin(letter)
        after = list(configurations)
        for configuration in self.states[state]:
            more, also = self.move(configuration, letter)
            after += more
            done += also
        if self.nfa.youngest_suffices:
            after = self._youngest(after)
        self.next[state, letter] = self.state(after)
        self.done[state, letter] = done > 0

    def is_crowded(self) -> bool:
        """Return True if there are so many states that unused ones should be evicted."""
        return len(self.states) > self._enough

    def forget(self, *used: IntArray) -> None:
        """Evict all states that occur neither in these arrays nor in ``held``, and renumber the arrays in place."""
        arrays = [*self.held, *used]
        own = np.unique(np.concatenate([np.zeros(1, np.int64), *arrays]))
        states = [self.states[int(state)] for state in own]
        numbers = sorted({configuration for state in states for configuration in state})
        configurations = [self.configurations[number] for number in numbers]
        self.configurations, self._configuration_numbers, self.states, self._state_numbers = [], {}, [], {}
        self._moves, self._begun = {}, {}
        self.next = np.full((8, self.next.shape[1]), UNKNOWN, np.int32)
        self.done = np.zeros((8, self.done.shape[1]), np.bool_)
        renamed = {number: self.number(one) for number, one in zip(numbers, configurations, strict=True)}
        for state in states:  # the first is the empty set
            self.state(renamed[configuration] for configuration in state)
        for array in arrays:
            array[:] = np.searchsorted(own, array)
        self._enough = FORGET + 2 * len(own)

    def _youngest(self, configurations: list[int]) -> list[int]:
        """Of configurations that differ only in age, retain the youngest: it has the most time left."""
        best: dict[ConfigurationKey, int] = {}
        for number in configurations:
            one = self.configurations[number]
            key = one.key_without_age
            if key not in best or self.configurations[best[key]].age_us > one.age_us:
                best[key] = number
        return list(best.values())


def _grown(table: NDArray[S], fill: int, row: int, column: int) -> NDArray[S]:
    """Return the table, doubled in size if it lacks the row or the column."""
    rows, columns = table.shape
    if row < rows and column < columns:
        return table
    larger = np.full(
        (2 * rows if row >= rows else rows, 2 * columns if column >= columns else columns), fill, table.dtype
    )
    larger[:rows, :columns] = table
    return larger
