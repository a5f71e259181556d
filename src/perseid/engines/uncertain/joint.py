"""Several hidden chains in one group, combined into one chain over their joint values, with a table for each step.

Exact, and as large as the product of the chains' sizes. Above a limit, ``StateLimitExceeded`` makes the caller sample.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from perseid.engines.uncertain import kernel as k
from perseid.engines.uncertain.automaton import Automaton, StateLimitExceeded
from perseid.engines.uncertain.inference import filtered, smoothed_tables
from perseid.engines.uncertain.traces import (
    ChainGroups,
    InputLayout,
    PatternInput,
    Read,
    TransitionRows,
    lay_out_steps,
    no_hidden,
)
from perseid.runtime.arrays import FloatArray, IntArray

MAX_VALUES = 4_096
MAX_ENTRIES = 1 << 20


@dataclass(frozen=True)
class JointTransitions:
    """Transitions of a chain at a step: value before, value after, letter, weight; and lookahead by value after."""

    old: IntArray
    new: IntArray
    letter: IntArray
    weight: FloatArray
    ahead: FloatArray | None = None


@dataclass(frozen=True)
class OneChain:
    """One hidden chain of a group: number of values, the last being "no event", and transition tables by step."""

    size: int
    tables: dict[int, JointTransitions]
    stays: bool
    """At a step without a table: True if the chain retains its value, False if it has no event."""

    def steps(self, numbered: bool) -> set[int]:
        """Its steps, and, if steps are numbered, the step before each, at which it may have no event."""
        first = min(self.tables)
        before = set() if self.stays or not numbered else {step - 1 for step in self.tables if step > first}
        return self.tables.keys() | before

    def at(self, step: int) -> JointTransitions:
        table = self.tables.get(step)
        if table is not None:
            return table
        old = np.arange(self.size)
        letter, weight = np.zeros(self.size, np.int64), np.ones(self.size)
        if not self.stays:
            return JointTransitions(old, np.full(self.size, self.size - 1), letter, weight)
        # The lookahead of the chain's latest step still applies.
        before = bisect_left(self.order, step) - 1
        return JointTransitions(
            old, old, letter, weight, self.tables[self.order[before]].ahead if before >= 0 else None
        )

    @cached_property
    def order(self) -> list[int]:
        """Its steps, sorted."""
        return sorted(self.tables)


def joint_groups(pattern_input: PatternInput, last: IntArray, numbered: bool, automaton: Automaton) -> ChainGroups:
    """Build the lot of all groups, combining the hidden chains of each."""
    count = len(pattern_input.units)
    chains: list[list[OneChain]] = [[] for _ in range(count)]
    for entries in pattern_input.entries:
        for unit, chain in _of_tables(entries):
            chains[unit].append(chain)
    impossible_readings = 0
    for read in pattern_input.read:
        chains_of_reading, impossible = _of_readings(read)
        impossible_readings += impossible
        for unit, chain in chains_of_reading:
            chains[unit].append(chain)
    group_steps = [(unit, step) for unit, own in enumerate(chains) for chain in own for step in chain.steps(numbered)]
    pairs = np.array(group_steps, np.int64).reshape(-1, 2)
    is_present = np.zeros(count, bool)
    is_present[pattern_input.others.unit] = True
    is_present[pairs[:, 0]] = True
    units = np.flatnonzero(is_present)
    layout = lay_out_steps(units, last[units], numbered, pattern_input.others, places=(pairs[:, 0], pairs[:, 1]))
    largest = max((_size(chains[unit]) for unit in units), default=1)
    return ChainGroups(
        k.JOINT,
        units,
        layout.step,
        *_joint_layout(layout, chains, automaton, largest),
        largest - 1,
        impossible=impossible_readings,
    )


def _size(chains: list[OneChain]) -> int:
    size = 1
    for chain in chains:
        size *= chain.size
    if size > MAX_VALUES:
        raise StateLimitExceeded
    return size


def _joint_layout(
    layout: InputLayout, chains: list[list[OneChain]], automaton: Automaton, largest: int
) -> tuple[k.Steps, k.Hidden]:
    pieces: list[JointTransitions] = []
    first = np.zeros(len(layout.step) + 1, np.int64)
    ahead = np.ones((len(layout.step), largest))
    has_lookahead = any(table.ahead is not None for own in chains for chain in own for table in chain.tables.values())
    for i, (unit, step) in enumerate(zip(layout.unit, layout.step, strict=True)):
        own = chains[int(unit)]
        # The value before the first step is the last one, whatever the number of values of the group.
        size, table = reduce(
            lambda one, other: _product(one, other, automaton), ((c.size, c.at(int(step))) for c in own), _NEUTRAL
        )
        at = np.arange(size)
        at[-1] = largest - 1
        pieces.append(JointTransitions(at[table.old], at[table.new], table.letter, table.weight))
        ahead[i, at] = table.ahead
        first[i + 1] = first[i] + len(table.old)
        if first[i + 1] > MAX_ENTRIES:
            raise StateLimitExceeded
    hidden = no_hidden(len(layout.step))._replace(
        old=_whole([one.old for one in pieces]),
        new=_whole([one.new for one in pieces]),
        letters=_whole([one.letter for one in pieces]).reshape(1, -1),
        weight=np.concatenate([np.zeros(0), *(one.weight for one in pieces)]).reshape(1, -1),
        ahead=ahead if has_lookahead else np.zeros((0, 0)),
    )
    return layout.steps._replace(entries=first[:-1], entries_end=first[1:]), hidden


def _whole(parts: list[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


_NEUTRAL = (
    1,
    JointTransitions(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1), np.ones(1)),
)
"""The neutral element of the product: a chain with one value and no events."""


def _product(
    one: tuple[int, JointTransitions], other: tuple[int, JointTransitions], automaton: Automaton
) -> tuple[int, JointTransitions]:
    (own, a), (size, b) = one, other
    i, j = (grid.reshape(-1) for grid in np.meshgrid(np.arange(len(a.old)), np.arange(len(b.old)), indexing="ij"))
    letter = np.array(
        [automaton.joined(int(x), int(y)) for x, y in zip(a.letter[i], b.letter[j], strict=True)], np.int64
    )
    first = np.ones(own) if a.ahead is None else a.ahead
    second = np.ones(size) if b.ahead is None else b.ahead
    ahead = np.outer(first, second).reshape(-1)
    return own * size, JointTransitions(
        a.old[i] * size + b.old[j], a.new[i] * size + b.new[j], letter, a.weight[i] * b.weight[j], ahead
    )


def _of_tables(entries: TransitionRows) -> list[tuple[int, OneChain]]:
    no_event = len(entries.values)
    order = np.lexsort((entries.weight, entries.new, entries.old, entries.step, entries.chain, entries.unit))
    out: dict[tuple[int, int], dict[int, list[int]]] = {}
    for row in order:
        key = int(entries.unit[row]), int(entries.chain[row])
        out.setdefault(key, {}).setdefault(int(entries.step[row]), []).append(int(row))
    chains = []
    for (unit, _), steps in out.items():
        tables = {}
        for step, rows in steps.items():
            old, new, letter, weight = (one[rows] for one in (entries.old, entries.new, entries.letter, entries.weight))
            rest = 1.0 - np.bincount(old, weight, minlength=no_event + 1)
            short = np.flatnonzero(rest > 0)
            tables[step] = JointTransitions(
                np.concatenate([old, short]),
                np.concatenate([new, np.full(len(short), no_event)]),
                np.concatenate([letter, np.zeros(len(short), np.int64)]),
                np.concatenate([weight, rest[short]]),
            )
        chains.append((unit, OneChain(no_event + 1, tables, entries.stays)))
    return chains


def _of_readings(read: Read) -> tuple[list[tuple[int, OneChain]], int]:
    """Chains with a model, by group; and the number of readings with zero likelihood."""
    model, chains, way = read.stream.model, read.chains, read.stream.inference
    assert model is not None
    values = len(model.values)
    source = np.repeat(np.arange(values), np.diff(model.starts))
    likelihoods = chains.likelihood[chains.reading]
    impossible = filtered(model, likelihoods, chains.offsets).impossible
    likelihoods = np.where(impossible[:, None], 1.0, likelihoods)
    smooth = smoothed_tables(model, likelihoods, chains.offsets) if way.name == "smooth" else None
    chain_of_key: dict[tuple[int, int], OneChain] = {}
    for number, unit in enumerate(read.unit):
        key = int(unit), int(chains.hashes[number])
        chain = chain_of_key.setdefault(key, OneChain(values + 1, {}, True))
        letters = read.letters[number]
        low, high = chains.offsets[number], chains.offsets[number + 1]
        for at in range(low, high):
            if at == low:  # first step: the initial distribution, whatever the value before
                old, new = (
                    grid.reshape(-1) for grid in np.meshgrid(np.arange(values + 1), np.arange(values), indexing="ij")
                )
                weight = np.tile(
                    model.initial * likelihoods[at] if smooth is None else smooth.marginals[at], values + 1
                )
            else:
                old, new = source, model.targets
                weight = model.weights * likelihoods[at][new] if smooth is None else smooth.weights[at]
            later = None if read.ahead is None else np.append(read.ahead[at], 1.0)
            chain.tables[int(chains.step[at])] = JointTransitions(old, new, letters[new], weight, later)
    return [(unit, chain) for (unit, _), chain in chain_of_key.items()], int(impossible.sum())
