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

MAX_STATES = 4_096
"""Maximum number of states that the worlds of one group may be in at once."""
EVICT_ABOVE_STATES = 20_000
"""Number of states above which unused states are evicted."""
MAX_LETTERS = 4_096
"""Maximum number of distinct letters of a pattern; a table has an entry for every pair of them."""
MAX_SET_LETTERS = 512
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
        self.most = MAX_STATES if most is None else most
        """Maximum number of states of one group in exact evaluation."""
        self.used_arrays: list[IntArray] = []
        """Arrays of state numbers in use by callers; eviction renumbers them in place."""
        self._evict_above = EVICT_ABOVE_STATES
        self.configurations: list[Configuration] = []
        self._configuration_numbers: dict[ConfigurationKey, int] = {}
        self.states: list[tuple[int, ...]] = []
        self._state_numbers: dict[tuple[int, ...], int] = {}
        self.letters: list[Letter] = []
        self._letter_numbers: dict[Letter, int] = {}
        self._successors: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}
        self._starts: dict[int, tuple[tuple[int, ...], int]] = {}
        self.next = np.full((8, 8), UNKNOWN, np.int32)
        self.done = np.zeros((8, 8), np.bool_)
        self.join = np.full((8, 8), UNKNOWN, np.int32)
        self.letter(())
        self.state(())

    @property
    def max_letters(self) -> int:
        """Maximum number of letters; lower if conditions refer to earlier events, as such letters rarely repeat."""
        return min(MAX_LETTERS, MAX_SET_LETTERS) if self.nfa.refers_back else MAX_LETTERS

    # numbers

    def letter(self, letter: Letter) -> int:
        """Return the number of a letter, adding it if it is new; 0 is the empty letter."""
        number = self._letter_numbers.get(letter)
        if number is None:
            if len(self.letters) >= self.max_letters:
                raise StateLimitExceeded
            number = self._letter_numbers[letter] = len(self.letters)
            self.letters.append(letter)
            self.next, self.done = _grown(self.next, UNKNOWN, 0, number), _grown(self.done, False, 0, number)
            self.join = _grown(self.join, UNKNOWN, number, number)
        return number

    def joined(self, one: int, other: int) -> int:
        """Return the letter of a step with the events of both letters."""
        if self.join[one, other] == UNKNOWN:
            letter = self.letter(self.together(self.letters[one], self.letters[other]))
            self.join[one, other] = self.join[other, one] = letter
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
        members = tuple(sorted(set(configurations)))
        number = self._state_numbers.get(members)
        if number is None:
            number = self._state_numbers[members] = len(self.states)
            self.states.append(members)
            self.next, self.done = _grown(self.next, UNKNOWN, number, 0), _grown(self.done, False, number, 0)
        return number

    # moves

    def move(self, configuration: int, letter: int) -> tuple[tuple[int, ...], int]:
        """Successors of one configuration on a letter, and the number of threads that complete."""
        successors = self._successors.get((configuration, letter))
        if successors is None:
            after, done = self.nfa.advance(self.configurations[configuration], self.letters[letter], self.elapsed)
            successors = self._successors[configuration, letter] = tuple(self.number(one) for one in after), done
        return successors

    def begin(self, letter: int) -> tuple[tuple[int, ...], int]:
        """Configurations that start with a letter, and the number of threads that complete at once."""
        started = self._starts.get(letter)
        if started is None:
            after, done = self.nfa.start(self.letters[letter])
            started = self._starts[letter] = tuple(self.number(one) for one in after), done
        return started

    def resolve(self, state: int, letter: int) -> None:
        """Compute the transition of a state on a letter and store it in the tables."""
        configurations, done = self.begin(letter)
        after = list(configurations)
        for configuration in self.states[state]:
            successors, also = self.move(configuration, letter)
            after += successors
            done += also
        if self.nfa.youngest_suffices:
            after = self._youngest(after)
        self.next[state, letter] = self.state(after)
        self.done[state, letter] = done > 0

    def is_crowded(self) -> bool:
        """Return True if there are so many states that unused ones should be evicted."""
        return len(self.states) > self._evict_above

    def evict_states(self, *used: IntArray) -> None:
        """Evict all states that occur neither in these arrays nor in ``used_arrays``, and renumber the arrays in place."""
        arrays = [*self.used_arrays, *used]
        used_states = np.unique(np.concatenate([np.zeros(1, np.int64), *arrays]))
        states = [self.states[int(state)] for state in used_states]
        numbers = sorted({configuration for state in states for configuration in state})
        configurations = [self.configurations[number] for number in numbers]
        self.configurations, self._configuration_numbers, self.states, self._state_numbers = [], {}, [], {}
        self._successors, self._starts = {}, {}
        self.next = np.full((8, self.next.shape[1]), UNKNOWN, np.int32)
        self.done = np.zeros((8, self.done.shape[1]), np.bool_)
        renamed = {number: self.number(one) for number, one in zip(numbers, configurations, strict=True)}
        for state in states:  # the first is the empty set
            self.state(renamed[configuration] for configuration in state)
        for array in arrays:
            array[:] = np.searchsorted(used_states, array)
        self._evict_above = EVICT_ABOVE_STATES + 2 * len(used_states)

    def _youngest(self, configurations: list[int]) -> list[int]:
        """Of configurations that differ only in age, retain the youngest: it has the most time left."""
        best: dict[ConfigurationKey, int] = {}
        for number in configurations:
            configuration = self.configurations[number]
            key = configuration.key_without_age
            if key not in best or self.configurations[best[key]].age_us > configuration.age_us:
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
