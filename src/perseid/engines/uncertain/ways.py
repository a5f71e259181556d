"""Partial matches one by one, for counting them: what becomes of each with the events of a step.

The number of matches that a step is expected to complete is a sum over partial matches, whatever depends on what: expectations
add up. So nothing has to be made deterministic by worlds, and no class is too hard. A *way* is the events that a partial match
has taken, each as a step of the pattern. The pattern may come to the same way by several paths, as a repetition within a
repetition does: these are one match, and so a way carries all of them, a set of configurations. Ways that have come to the same set go
on alike, and are counted together.

Events of one step that the pattern cannot tell apart are two events: letters have each as often as it happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from perseid.engines.uncertain import automaton
from perseid.engines.uncertain.automaton import Automaton, TooManyStates
from perseid.engines.uncertain.pattern_nfa import Letter, TakenEvent, Thread
from perseid.semantics import core as c
from perseid.semantics.values import Relation

WORLD = 0
"""The state without a configuration: that of the world itself, which begins ways and goes on."""
MOST_WAYS = 4_096
"""How many states of ways there may be: they are not forgotten, and nothing is sampled of a number."""

S = TypeVar("S", bound=np.generic)


class Ways(Automaton):
    """States are those of one way each. ``next`` has, by state and letter, the number of a *branching*: the states that it goes
    to, from one number to before another among ``targets``, and how many matches are complete."""

    def __init__(
        self, pattern: c.CorePattern, relations: Mapping[str, Relation] | None = None, *, elapsed: int = 0
    ) -> None:
        super().__init__(pattern, relations, elapsed=elapsed)
        self.targets = np.zeros(64, np.int64)
        self.offsets = np.zeros(64, np.int64)
        self.complete = np.zeros(64)
        self._branchings = 0

    @property
    def most_letters(self) -> int:
        return automaton.MOST_LETTERS

    def state(self, configurations: Iterable[int]) -> int:
        number = super().state(configurations)
        if number >= MOST_WAYS:
            raise TooManyStates
        return number

    def together(self, one: Letter, other: Letter) -> Letter:
        return tuple(sorted((*one, *other), key=repr))

    def resolve(self, state: int, letter: int) -> None:
        """Find out what becomes of a way with a letter."""
        taken: dict[TakenEvent, list[Thread]] = {}
        after: list[int] = []
        if state == WORLD:
            after.append(WORLD)
            for what, thread in self.nfa.start_threads(self.letters[letter]):
                taken.setdefault(what, []).append(thread)
        else:
            waits = []
            for number in self.states[state]:
                found, still = self.nfa.transitions(self.configurations[number], self.letters[letter], self.elapsed)
                for what, thread in found:
                    taken.setdefault(what, []).append(thread)
                waits += [] if still is None else [self.number(still)]
            after += [self.state(waits)] if waits else []
        complete = 0
        for what in sorted(taken):  # an order that is the pattern's and the letter's own
            configurations, done = self.nfa.settle(taken[what])
            complete += done > 0
            if configurations:
                after.append(self.state(self.number(one) for one in configurations))
        self.next[state, letter] = self._branching(after, complete)

    def _branching(self, after: list[int], complete: int) -> int:
        number = self._branchings
        first = int(self.offsets[number])
        self.targets = _long_enough(self.targets, first + len(after))
        self.offsets = _long_enough(self.offsets, number + 2)
        self.complete = _long_enough(self.complete, number + 1)
        self.targets[first : first + len(after)] = after
        self.offsets[number + 1] = first + len(after)
        self.complete[number] = complete
        self._branchings += 1
        return number


def _long_enough(array: NDArray[S], size: int) -> NDArray[S]:
    return array if len(array) >= size else np.concatenate([array, np.zeros(max(size, len(array)), array.dtype)])
