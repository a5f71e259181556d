"""Reference semantics of patterns over uncertain streams: enumerate all possible worlds and run the oracle in each.

A *chain* is the distribution of one key: at each of its steps one event with some value, or none. Chains are mutually
independent. A world is one choice for every chain at every step; its probability is the product of the probabilities of
its choices. The result, for each group and time, is the total probability of the worlds in which the pattern is
completed at that time (:func:`perseid.reference.oracle.completions`), and the expected number of matches: the sum over
all worlds of their probability times the number of matches completed then. A match is identified by the events taken
and their steps: another event, or the same event at another step, is another match; several paths to the same events
are one match.

It is slow and written to be read. Engines are compared with it.
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
    """Probability of an event with this value at a step, given the choice at the step before."""

    value: Choice
    probability: float
    given: Choice = None


@dataclass(frozen=True)
class Chain:
    """Distribution of one key: a table for each step. The remaining probability of a table is that of no event."""

    type: str
    key: Mapping[str, object]
    """The certain columns."""
    steps: Sequence[tuple[int, Sequence[Possible]]]
    """In time order. With ``every`` these are all steps, including those without rows; without it, the distinct times
    of this chain's rows: at other times the chain has no step and no event, and its value does not change."""
    linked: bool = False
    """True if a step depends on the one before it; the first step is then conditioned on no event."""

    def paths(self, until: int) -> Iterator[tuple[float, tuple[Choice, ...]]]:
        """Yield every path up to a time, with its probability."""
        weighted: list[tuple[float, tuple[Choice, ...]]] = [(1.0, ())]
        for time, table in self.steps:
            if time > until:
                break
            longer = []
            for weight, path in weighted:
                before = path[-1] if path else None
                rows = [row for row in table if not self.linked or row.given == before]
                longer += [(weight * row.probability, (*path, row.value)) for row in rows]
                longer.append((weight * (1.0 - sum(row.probability for row in rows)), (*path, None)))
            weighted = [pair for pair in longer if pair[0] > 0]
        yield from weighted

    def since(self, time: int) -> Chain:
        """Return the chain from a time on: its first step has its marginal distribution, later steps are unchanged.

        A pattern with a window is completed at t if the pattern without it is completed at t by the chains since t
        minus the window.
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
    """Readings of one key: a hidden value at each step, and the likelihood of the reading under each value.

    The result at a time uses the readings up to it and of the ``lag`` steps after it.
    """

    type: str
    key: Mapping[str, object]
    values: Sequence[Choice]
    initial: Sequence[float]
    transitions: Sequence[Sequence[float]]
    steps: Sequence[tuple[int, Sequence[float]]]
    """In time order: for each value, the probability of the reading."""
    lag: int | None = 0
    """None: all readings are used."""
    linked: bool = field(default=True, init=False)

    def paths(self, until: int) -> Iterator[tuple[float, tuple[Choice, ...]]]:
        """Yield every hidden path up to a time, with its probability given the readings in use."""
        count = sum(time <= until for time, _ in self.steps)
        if count == 0:
            yield 1.0, ()
            return
        known = len(self.steps) if self.lag is None else min(count + self.lag, len(self.steps))
        weights: dict[tuple[int, ...], float] = defaultdict(float)
        for path in product(range(len(self.values)), repeat=known):
            weight = float(self.initial[path[0]])
            for i, (_, likelihood) in enumerate(self.steps[:known]):
                weight *= float(likelihood[path[i]])
                if i:
                    weight *= float(self.transitions[path[i - 1]][path[i]])
            weights[path[:count]] += weight
        total = sum(weights.values())
        for path, weight in weights.items():
            if weight > 0:
                yield weight / total, tuple(self.values[i] for i in path)


@dataclass
class GroupResult:
    """Result for a group at a time: probability that the pattern is completed, and expected number of matches."""

    probability: float = 0.0
    expected: float = 0.0


def group_results(
    pattern: c.CorePattern,
    chains: Sequence[Chain | HiddenChain],
    certain: Sequence[Event] = (),
    relations: Mapping[str, Relation] | None = None,
) -> dict[tuple[tuple[object, ...], int], GroupResult]:
    """Return the nonzero results by group and time; ``certain`` are events that happen in every world."""
    times = sorted({time for chain in chains for time, _ in chain.steps} | {event.time for event in certain})
    out: dict[tuple[tuple[object, ...], int], GroupResult] = defaultdict(GroupResult)
    # Later readings change the distribution of earlier values; without readings, one evaluation is enough.
    hidden = any(isinstance(chain, HiddenChain) for chain in chains)
    for until in times if hidden else times[-1:]:
        for weight, happened in worlds(chains, until):
            groups: dict[tuple[object, ...], list[Event]] = defaultdict(list)
            for event in (*happened, *(e for e in certain if e.time <= until)):
                groups[tuple(v.plain(attribute(event, path.parts)) for path in pattern.partition)].append(event)
            for group, events in groups.items():
                ends = [one.end for one in completions(pattern, arrange(events), relations)]
                for end in set(ends) if not hidden else {until} & set(ends):
                    result = out[group, end]
                    result.probability += weight
                    result.expected += weight * ends.count(end)
    return dict(out)


def worlds(chains: Sequence[Chain | HiddenChain], until: int) -> Iterator[tuple[float, list[Event]]]:
    """Yield every possible world up to a time: its probability and its events."""
    for paths in product(*(list(chain.paths(until)) for chain in chains)):
        weight = 1.0
        events: list[Event] = []
        for chain, (path_weight, path) in zip(chains, paths, strict=True):
            weight *= path_weight
            for (time, _), value in zip(chain.steps, path, strict=False):
                if value is not None:
                    name = f"{len(events)}"
                    events.append(Event(chain.type, time, {**chain.key, **dict(value)}, name))
        yield weight, events
