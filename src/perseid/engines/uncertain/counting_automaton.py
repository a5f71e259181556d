"""Automaton that counts partial matches: successors of each one on the events of a step.

By linearity of expectation, the expected number of matches is a sum over partial matches, whatever their dependence. So
worlds need no determinization, and every query class is tractable. A *way* is the set of events that a partial match
has taken, each with its pattern step. Several threads can take the same events, e.g. in a nested repetition. They are
one match, so the state of a way is a set of configurations. Ways in the same state are counted together.

Two events of a step that the pattern cannot distinguish are still two events: a letter has an event as often as it
occurs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from perseid.engines.uncertain import automaton
from perseid.engines.uncertain.automaton import Automaton, StateLimitExceeded
from perseid.engines.uncertain.pattern_nfa import Letter, NfaThread, TakenEvent
from perseid.semantics import core as c
from perseid.semantics.values import Relation

WORLD = 0
"""The empty state: it represents the world itself, starts ways, and continues."""
MAX_WAYS = 4_096
"""Maximum number of states; they are not evicted, and counts have no fallback to sampling."""

S = TypeVar("S", bound=np.generic)


class CountingAutomaton(Automaton):
    """States are those of one way each. ``next`` has, by state and letter, the number of a *branching*: a range of
    ``targets``, the states that it leads to, and a number of completed matches in ``complete``."""

    def __init__(
        self, pattern: c.CorePattern, relations: Mapping[str, Relation] | None = None, *, elapsed: int = 0
    ) -> None:
        super().__init__(pattern, relations, elapsed=elapsed)
        self.targets = np.zeros(64, np.int64)
        self.offsets = np.zeros(64, np.int64)
        self.complete = np.zeros(64)
        self._branchings = 0

    @property
    def max_letters(self) -> int:
        return automaton.MAX_LETTERS

    def state(self, configurations: Iterable[int]) -> int:
        number = super().state(configurations)
        if number >= MAX_WAYS:
            raise StateLimitExceeded
        return number

    def together(self, one: Letter, other: Letter) -> Letter:
        return tuple(sorted((*one, *other), key=repr))

    def resolve(self, state: int, letter: int) -> None:
        """Compute the branching of a state on a letter and store it in the tables."""
        bound: dict[TakenEvent, list[NfaThread]] = {}
        after: list[int] = []
        if state == WORLD:
            after.append(WORLD)
            for bound_event, thread in self.nfa.start_threads(self.letters[letter]):
                bound.setdefault(bound_event, []).append(thread)
        else:
            waiting_numbers = []
            for number in self.states[state]:
                transitions, remaining = self.nfa.transitions(
                    self.configurations[number], self.letters[letter], self.elapsed
                )
                for bound_event, thread in transitions:
                    bound.setdefault(bound_event, []).append(thread)
                waiting_numbers += [] if remaining is None else [self.number(remaining)]
            after += [self.state(waiting_numbers)] if waiting_numbers else []
        complete = 0
        for bound_event in sorted(bound):  # an order that depends only on the pattern and the letter
            configurations, done = self.nfa.settle(bound[bound_event])
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
