"""What a pattern means over an uncertain stream, by brute force: every possible world, and the oracle in each.

A *chain* is what is believed of one key: at each of its steps one event with some value, or none. Chains are independent of
one another. A world is one choice for every chain at every step; its probability is the product of what the choices have.
The answer is, for each group and time, the probability of all worlds in which the pattern is completed there
(:func:`perseid.reference.oracle.completions`), and how many matches are to be expected: the sum over all worlds of their
probability times the number of matches that are completed there. One match is the events that are taken, each as a step of the pattern:
another event, or the same as another step, is another match; that the pattern comes to the same by several paths is not.

This is slow and meant to be read. Engines are compared with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TypeAlias

from perseid.reference.oracle import completions
from perseid.semantics import core as c
from perseid.semantics import values as v
from perseid.semantics.events import Event, arrange
from perseid.semantics.scope import attribute
from perseid.semantics.values import Relation

Choice: TypeAlias = "tuple[tuple[str, object], ...] | None"
"""The uncertain columns of an event with their values; None is no event."""


@dataclass(frozen=True)
class Possible:
    """That an event with this value happens at a step, given what happened at the step before."""

    value: Choice
    probability: float
    given: Choice = None


@dataclass(frozen=True)
class Chain:
    """What is believed of one key: a table for each step. What a table leaves out is no event."""

    type: str
    key: Mapping[str, object]
    """The columns that are certain."""
    steps: Sequence[tuple[int, Sequence[Possible]]]
    """By time. With ``every`` these are all steps, also those without rows; without it, the distinct times of this chain's rows: at
    other times the chain has no step, no event, and keeps its value."""
    linked: bool = False
    """Whether a step depends on the one before it; then the first depends on no event."""

    def paths(self, until: int) -> Iterator[tuple[float, tuple[Choice, ...]]]:
        """Everything that may happen up to a time, with its probability."""
        ways: list[tuple[float, tuple[Choice, ...]]] = [(1.0, ())]
        for time, table in self.steps:
            if time > until:
                break
            longer = []
            for weight, path in ways:
                before = path[-1] if path else None
                rows = [row for row in table if not self.linked or row.given == before]
                longer += [(weight * row.probability, (*path, row.value)) for row in rows]
                longer.append((weight * (1.0 - sum(row.probability for row in rows)), (*path, None)))
            ways = [way for way in longer if way[0] > 0]
        yield from ways

    def since(self, time: int) -> Chain:
        """The chain without what was before a time: its first step is as probable as it is by itself, and those behind it depend
        on it as they did.

        A pattern within some time is completed at t as it is without a bound by the chains since t less that time.
        """
        later = [(at, table) for at, table in self.steps if at >= time]
        if self.linked and later:
            first = later[0][0]
            alone: dict[Choice, float] = defaultdict(float)
            for weight, path in self.paths(first):
                alone[path[-1]] += weight
            later[0] = first, [Possible(value, weight) for value, weight in alone.items() if value is not None]
        return replace(self, steps=later)


@dataclass(frozen=True)
class HiddenChain:
    """What readings say of one key: a hidden value at each step, which cannot be seen, and how likely each makes the reading.

    What is asked of a time is answered from the readings up to it, and of the ``lag`` steps behind it.
    """

    type: str
    key: Mapping[str, object]
    values: Sequence[Choice]
    initial: Sequence[float]
    transitions: Sequence[Sequence[float]]
    steps: Sequence[tuple[int, Sequence[float]]]
    """By time: for each value, the probability of what was read."""
    lag: int | None = 0
    """None: all readings there are."""
    linked: bool = field(default=True, init=False)

    def paths(self, until: int) -> Iterator[tuple[float, tuple[Choice, ...]]]:
        """Everything that may be hidden up to a time, with its probability given the readings that count."""
        asked = sum(time <= until for time, _ in self.steps)
        if asked == 0:
            yield 1.0, ()
            return
        known = len(self.steps) if self.lag is None else min(asked + self.lag, len(self.steps))
        weights: dict[tuple[int, ...], float] = defaultdict(float)
        for path in product(range(len(self.values)), repeat=known):
            weight = float(self.initial[path[0]])
            for i, (_, likelihood) in enumerate(self.steps[:known]):
                weight *= float(likelihood[path[i]])
                if i:
                    weight *= float(self.transitions[path[i - 1]][path[i]])
            weights[path[:asked]] += weight
        total = sum(weights.values())
        for path, weight in weights.items():
            if weight > 0:
                yield weight / total, tuple(self.values[i] for i in path)


@dataclass
class Answer:
    """Of a group at a time: how probable it is that the pattern is completed, and by how many matches on average."""

    probability: float = 0.0
    expected: float = 0.0


def answers(
    pattern: c.CorePattern,
    chains: Sequence[Chain | HiddenChain],
    certain: Sequence[Event] = (),
    relations: Mapping[str, Relation] | None = None,
) -> dict[tuple[tuple[object, ...], int], Answer]:
    """The answers that are above 0, by group and time; ``certain`` are events that happen in every world."""
    times = sorted({time for chain in chains for time, _ in chain.steps} | {event.time for event in certain})
    out: dict[tuple[tuple[object, ...], int], Answer] = defaultdict(Answer)
    # What later readings say changes the past; without readings one look at the whole is enough.
    hidden = any(isinstance(chain, HiddenChain) for chain in chains)
    for until in times if hidden else times[-1:]:
        for weight, happened in worlds(chains, until):
            groups: dict[tuple[object, ...], list[Event]] = defaultdict(list)
            for event in (*happened, *(e for e in certain if e.time <= until)):
                groups[tuple(v.plain(attribute(event, path.parts)) for path in pattern.partition)].append(event)
            for group, events in groups.items():
                ends = [one.end for one in completions(pattern, arrange(events), relations)]
                for end in set(ends) if not hidden else {until} & set(ends):
                    answer = out[group, end]
                    answer.probability += weight
                    answer.expected += weight * ends.count(end)
    return dict(out)


def worlds(chains: Sequence[Chain | HiddenChain], until: int) -> Iterator[tuple[float, list[Event]]]:
    """Every possible world up to a time: its probability, and the events that happen in it."""
    for paths in product(*(list(chain.paths(until)) for chain in chains)):
        weight = 1.0
        events: list[Event] = []
        for chain, (own, path) in zip(chains, paths, strict=True):
            weight *= own
            for (time, _), value in zip(chain.steps, path, strict=False):
                if value is not None:
                    name = f"{len(events)}"
                    events.append(Event(chain.type, time, {**chain.key, **dict(value)}, name))
        yield weight, events
