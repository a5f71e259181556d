"""Any pattern, by random worlds (section 3.5): how many of them complete it at a step is an estimate of its probability.

With n = ln(2/δ) / (2 ε²) worlds an estimate is off by more than ε with probability δ at most (Hoeffding); the bound is that of
one step and group. All worlds of a group are moved together. What is drawn for a chain at a step follows from the seed, the
chain and the step alone, so a stream cut in any way draws the same worlds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from perseid.engines.jit import jit
from perseid.engines.uncertain.answers import Answers
from perseid.engines.uncertain.automaton import UNKNOWN, Automaton
from perseid.engines.uncertain.exact import count_steps
from perseid.engines.uncertain.inference import smoothed_tables
from perseid.engines.uncertain.particles import mixed, uniform
from perseid.engines.uncertain.plan import Asked
from perseid.engines.uncertain.reading import Reader, Units
from perseid.engines.uncertain.streams import Known, Sampling, Streams
from perseid.engines.uncertain.traces import Given, Material, Read, material
from perseid.errors import UnsupportedError

FORGET = 20_000
"""States after which those are forgotten that no world is in."""


def worlds_for(sampling: Sampling) -> int:
    """How many worlds are drawn."""
    return math.ceil(math.log(2 / sampling.delta) / (2 * sampling.epsilon**2))


@jit
def draw(seed: np.uint64, chain: np.uint64, step: np.uint64, out: Any) -> None:
    """Numbers from 0 to 1 that follow from seed, chain and step."""
    word = mixed(mixed(seed ^ chain) + step)
    for i in range(len(out)):
        out[i] = uniform(word, i)


def _word(number: int) -> np.uint64:
    return np.uint64(int(number) & ((1 << 64) - 1))


@dataclass
class Worlds:
    """The worlds of one group: by world a state of the automaton, and by hidden chain the value it has."""

    automaton: Automaton
    count: int
    seed: int

    def __post_init__(self) -> None:
        self.state = np.zeros(self.count, np.int64)
        self.values: dict[int, Any] = {}
        self._drawn = np.empty(self.count)

    def uniform(self, chain: int, step: int) -> Any:
        with np.errstate(over="ignore"):
            draw(_word(self.seed), _word(chain), _word(step), self._drawn)
        return self._drawn

    def happens(self, letters: Any, chain: int, step: int, own: Any, shares: Any) -> Any:
        """The letters of worlds with what an independent chain does at a step."""
        drawn = np.searchsorted(np.cumsum(shares), self.uniform(chain, step), side="right")
        return self.joined(letters, np.append(own, 0)[drawn])

    def follows(self, letters: Any, chain: int, step: int, table: Any, nothing: int) -> Any:
        """The letters of worlds with what a hidden chain does at a step; ``table`` has old, new, letter and weight of entries.

        Entries are sorted by the value before. What they leave out is no event, and the value of that is ``nothing``.
        """
        old, new, letter, weight = table
        before = self.values.get(chain)
        if before is None:
            before = np.full(self.count, nothing, np.int64)
        after = np.full(self.count, nothing, np.int64)
        own = np.zeros(self.count, np.int64)
        drawn = self.uniform(chain, step).copy()
        for value in np.unique(before):
            here = np.flatnonzero(before == value)
            low, high = np.searchsorted(old, [value, value + 1])
            place = low + np.searchsorted(np.cumsum(weight[low:high]), drawn[here], side="right")
            there = place < high
            after[here[there]] = new[place[there]]
            own[here[there]] = letter[place[there]]
        self.values[chain] = after
        return self.joined(letters, own)

    def joined(self, letters: Any, own: Any) -> Any:
        found = self.automaton.join[letters, own]
        if (found == UNKNOWN).any():
            for one, other in np.unique(np.stack([letters, own])[:, found == UNKNOWN], axis=1).T:
                self.automaton.joined(int(one), int(other))
            found = self.automaton.join[letters, own]
        return found.astype(np.int64)

    def move(self, letters: Any) -> Any:
        """One step on: by world, whether the pattern is completed."""
        automaton = self.automaton
        if len(automaton.states) > FORGET:
            self.state = automaton.forget(self.state)
        after = automaton.next[self.state, letters]
        if (after == UNKNOWN).any():
            pairs = np.unique(np.stack([self.state, letters])[:, after == UNKNOWN], axis=1)
            for state, letter in pairs.T:
                automaton.resolve(int(state), int(letter))
            after = automaton.next[self.state, letters]
        done = automaton.done[self.state, letters]
        self.state = after.astype(np.int64)
        return done

    def idle(self, steps: int) -> None:
        """Some steps at which nothing happens."""
        nothing = np.zeros(self.count, np.int64)
        for _ in range(steps):
            self.move(nothing)


def sampled(asked: Asked, streams: Streams, reader: Reader, given: Given) -> Answers:
    """The answers by sampling, where all rows have come."""
    refuse_unsampled(asked, streams)
    found = material(asked, streams, reader, given)
    count = worlds_for(streams.sampling)
    groups = Units([found.units.keys[: asked.groups]], [len(found.units)])
    completed: dict[tuple[int, int], Any] = {}
    for unit, happening in enumerate(_by_unit(found, given.numbered)):
        worlds = Worlds(reader.automaton, count, streams.sampling.seed)
        before = None
        for step, doings in happening:
            if before is not None and reader.automaton.meaning.timed:
                longest = count_steps(reader.automaton.meaning.oldest, reader.automaton.elapsed) + 1
                worlds.idle(min(step - before - 1, longest))
            before = step
            letters = np.zeros(count, np.int64)
            for doing in doings:
                letters = doing(worlds, letters)
            done = worlds.move(letters)
            key = int(groups.of[0][unit]), step
            completed[key] = completed[key] | done if key in completed else done
    keys = sorted(completed)
    return Answers(
        groups.keys,
        np.array([group for group, _ in keys], np.int64),
        np.array([step for _, step in keys], np.int64),
        np.array([completed[key].mean() for key in keys]),
        np.full(len(keys), streams.sampling.epsilon),
    )


def refuse_unsampled(asked: Asked, streams: Streams) -> None:
    """Worlds are drawn from all readings, or step by step; not from those up to each step, each time anew."""
    for part in asked.hidden(streams):
        if part.known is Known.READ and part.inference.name != "smooth":
            raise UnsupportedError(
                f"Pattern {asked.name} has to be sampled ({asked.classified.kind.value}: {asked.classified.why}), and the values "
                f"behind the readings of {part.type} cannot be with inference={str(part.inference)!r}.",
                hint="Of finished data say inference='smooth'; or correlations=False, which takes steps one by one.",
            )


Doing: TypeAlias = "Callable[[Worlds, Any], Any]"


def _by_unit(found: Material, numbered: bool) -> Iterator[list[tuple[int, list[Doing]]]]:
    """By group: its steps in order, and what chains do at each."""
    happening: list[dict[int, list[Doing]]] = [{} for _ in range(len(found.units))]
    others = found.others
    order = np.lexsort((others.share, *others.order[::-1], others.step, others.unit))
    for rows in _runs(order, others.unit, others.step, others.chain):
        unit, step, chain = int(others.unit[rows[0]]), int(others.step[rows[0]]), int(others.order[0, rows[0]])
        letters, shares = others.letter[rows], others.share[rows]
        happening[unit].setdefault(step, []).append(_happens(chain, step, letters, shares))
    for entries in found.entries:
        order = np.lexsort((entries.weight, entries.new, entries.old, entries.chain, entries.step, entries.unit))
        nothing = len(entries.values)
        chains: dict[tuple[int, int], set[int]] = {}
        for rows in _runs(order, entries.unit, entries.step, entries.chain):
            unit, step, chain = (int(one[rows[0]]) for one in (entries.unit, entries.step, entries.chain))
            table = tuple(one[rows] for one in (entries.old, entries.new, entries.letter, entries.weight))
            happening[unit].setdefault(step, []).append(_follows(chain, step, table, nothing))
            chains.setdefault((unit, chain), set()).add(step)
        if numbered:
            _silences(happening, chains, nothing)
    for read in found.read:
        _posterior(happening, read)
    for steps in happening:
        yield sorted(steps.items())


def _silences(happening: list[dict[int, list[Doing]]], chains: dict[tuple[int, int], set[int]], nothing: int) -> None:
    """A chain that a step says nothing of has no event there; the step after it goes on from that."""
    empty = tuple(np.zeros(0, kind) for kind in (np.int64, np.int64, np.int64, np.float64))
    for (unit, chain), own in chains.items():
        for step in {*happening[unit], *(step - 1 for step in own)} - own:
            if step > min(own):
                happening[unit].setdefault(step, []).append(_follows(chain, step, empty, nothing))


def _posterior(happening: list[dict[int, list[Doing]]], read: Read) -> None:
    """The chain that hidden values follow once all readings are known."""
    model, chains = read.stream.model, read.chains
    assert model is not None
    tables = smoothed_tables(model, chains.likelihood[chains.reading], chains.offsets)
    values = len(model.values)
    source = np.repeat(np.arange(values), np.diff(model.starts))
    for number, unit in enumerate(read.unit):
        letters, chain = read.letters[number], int(chains.hashes[number])
        low, high = chains.offsets[number], chains.offsets[number + 1]
        for at in range(low, high):
            step = int(chains.step[at])
            if at == low:
                old, new, weight = np.full(values, values), np.arange(values), tables.marginals[at]
            else:
                old, new, weight = source, model.targets, tables.weights[at]
            table = old, new, letters[new], weight
            happening[int(unit)].setdefault(step, []).append(_follows(chain, step, table, values, at == low))


def _happens(chain: int, step: int, letters: Any, shares: Any) -> Doing:
    return lambda worlds, so_far: worlds.happens(so_far, chain, step, letters, shares)


def _follows(chain: int, step: int, table: Any, nothing: int, afresh: bool = False) -> Doing:
    def follow(worlds: Worlds, so_far: Any) -> Any:
        if afresh:
            worlds.values.pop(chain, None)
        return worlds.follows(so_far, chain, step, table, nothing)

    return follow


def _runs(order: Any, *words: Any) -> Iterator[Any]:
    """Rows in order, in runs that agree in all words."""
    if not len(order):
        return
    new = np.zeros(len(order), bool)
    for word in words:
        new[1:] |= word[order[1:]] != word[order[:-1]]
    yield from np.split(order, np.flatnonzero(new))
