"""The automaton of a pattern made deterministic, as far as a stream needs it.

A state is the set of configurations that a world has come to; which of them is reached depends on the world alone, so the
probabilities of worlds that have come to the same state can be added (section 3.1.2). States and letters are numbered as they
are met. There may be more states than anybody can count: a group whose worlds are in too many at once is sampled, and states
that nobody is in any more are forgotten.
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
"""How many states the worlds of one group may be in at once."""
FORGET = 20_000
"""States after which those are forgotten that no world is in."""
MOST_LETTERS = 4_096
"""How many different steps of a stream a pattern may tell apart at once: two of them have to be put together."""
MOST_SETS = 512
"""The same where a letter is a set of events: above it, worlds are moved on event by event."""
UNKNOWN = -1

S = TypeVar("S", bound=np.generic)


class TooManyStates(Exception):  # noqa: N818  It is no error of the user's, and is always caught.
    """What is asked about comes together in too many ways to be told exactly."""


class Automaton:
    """States and letters by number; ``next`` and ``done`` are tables of what is known by now."""

    sparse = False
    """Are the events of a step put together world by world, and not as letters?"""

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
        """Microseconds from one step of the stream to the next."""
        self.most = MOST_STATES if most is None else most
        """How many states the worlds of one group may be in at once, to be told exactly."""
        self.held: list[IntArray] = []
        """Arrays of numbers of states that somebody goes on using: they are changed in place when states are forgotten."""
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
        """How many letters there may be. Where conditions look back at events, a letter is a set of events: few of them repeat."""
        return min(MOST_LETTERS, MOST_SETS) if self.nfa.refers_back else MOST_LETTERS

    # numbers

    def letter(self, letter: Letter) -> int:
        """The number of a letter; that of no event is 0."""
        number = self._letter_numbers.get(letter)
        if number is None:
            if len(self.letters) >= self.most_letters:
                raise TooManyStates
            number = self._letter_numbers[letter] = len(self.letters)
            self.letters.append(letter)
            self.next, self.done = _grown(self.next, UNKNOWN, 0, number), _grown(self.done, False, 0, number)
            self.join = _grown(self.join, UNKNOWN, number, number)
        return number

    def joined(self, one: int, other: int) -> int:
        """The letter of a step at which the events of both happen."""
        if self.join[one, other] == UNKNOWN:
            made = self.letter(self.together(self.letters[one], self.letters[other]))
            self.join[one, other] = self.join[other, one] = made
        return int(self.join[one, other])

    def together(self, one: Letter, other: Letter) -> Letter:
        """What two events of a step are to whether a pattern is completed."""
        return self.nfa.join_letters(one, other)

    def number(self, configuration: Configuration) -> int:
        """The number of a configuration."""
        number = self._configuration_numbers.get(configuration.key)
        if number is None:
            number = self._configuration_numbers[configuration.key] = len(self.configurations)
            self.configurations.append(configuration)
        return number

    def state(self, configurations: Iterable[int]) -> int:
        """The number of a set of configurations; that of none is 0."""
        own = tuple(sorted(set(configurations)))
        number = self._state_numbers.get(own)
        if number is None:
            number = self._state_numbers[own] = len(self.states)
            self.states.append(own)
            self.next, self.done = _grown(self.next, UNKNOWN, number, 0), _grown(self.done, False, number, 0)
        return number

    # moves

    def move(self, configuration: int, letter: int) -> tuple[tuple[int, ...], int]:
        """What becomes of one configuration, and how many ways are complete with it."""
        known = self._moves.get((configuration, letter))
        if known is None:
            after, done = self.nfa.advance(self.configurations[configuration], self.letters[letter], self.elapsed)
            known = self._moves[configuration, letter] = tuple(self.number(one) for one in after), done
        return known

    def begin(self, letter: int) -> tuple[tuple[int, ...], int]:
        """What begins with a letter."""
        known = self._begun.get(letter)
        if known is None:
            after, done = self.nfa.start(self.letters[letter])
            known = self._begun[letter] = tuple(self.number(one) for one in after), done
        return known

    def resolve(self, state: int, letter: int) -> None:
        """Find out where a state goes with a letter, for the tables."""
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
        """Are there so many states that some should be forgotten?"""
        return len(self.states) > self._enough

    def forget(self, *used: IntArray) -> None:
        """Forget all states but those in these arrays and in what is held; in all of them they have new numbers then."""
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
        for state in states:  # the first is that of none
            self.state(renamed[configuration] for configuration in state)
        for array in arrays:
            array[:] = np.searchsorted(own, array)
        self._enough = FORGET + 2 * len(own)

    def _youngest(self, configurations: list[int]) -> list[int]:
        """Of configurations that differ in their age alone, the one that has the most time left."""
        best: dict[ConfigurationKey, int] = {}
        for number in configurations:
            one = self.configurations[number]
            key = one.key_without_age
            if key not in best or self.configurations[best[key]].age_us > one.age_us:
                best[key] = number
        return list(best.values())


def _grown(table: NDArray[S], fill: int, row: int, column: int) -> NDArray[S]:
    """A table with room for a row and a column."""
    rows, columns = table.shape
    if row < rows and column < columns:
        return table
    larger = np.full(
        (2 * rows if row >= rows else rows, 2 * columns if column >= columns else columns), fill, table.dtype
    )
    larger[:rows, :columns] = table
    return larger
