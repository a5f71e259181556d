"""The answers of one pattern to the rows of a call, step by step: how probable it is that it is completed, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.automaton import Automaton
from perseid.engines.uncertain.counting import count
from perseid.engines.uncertain.exact import Moved, Weights, move
from perseid.engines.uncertain.joint import joint_lot
from perseid.engines.uncertain.plan import Asked
from perseid.engines.uncertain.reading import Reader, Units
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import NEVER, Given, Lot, lots, material
from perseid.engines.uncertain.ways import Ways
from perseid.errors import LimitError


@dataclass(frozen=True)
class Answers:
    """By group and step, in this order: the probability that the pattern is completed."""

    keys: Sequence[Any]
    """The columns of groups."""
    group: Any
    """By answer: its group."""
    step: Any
    probability: Any
    error: Any
    """By how much it may be off."""
    binding: Any = None
    """Where bindings are told one by one: a hash of each."""
    expected: Any = None
    """Where it is asked for: how many matches are expected to be completed."""


def exactly(asked: Asked, streams: Streams, reader: Reader, given: Given, apart: bool = False) -> tuple[Answers, int]:
    """The answers where all rows have come; and how many readings cannot be.

    A reader of ways has numbers of matches for probabilities.
    """
    found = material(asked, streams, reader, given)
    last = np.full(len(found.units), NEVER)
    if asked.is_single(streams):
        every = lots(found, last, given.numbered)
    else:
        every = [joint_lot(found, last, given.numbered, reader.automaton)]
    told: list[tuple[Any, Any, Any, Any]] = []
    impossible = 0
    for lot in every:
        fresh = Weights.fresh(len(lot.groups), lot.values)
        moved = carried(reader.automaton, lot, fresh, streams.prune)
        impossible += moved.impossible + lot.impossible
        told.append(told_of(lot, moved))
    whole = (np.concatenate(parts) for parts in zip(*told, strict=True))
    ways = isinstance(reader.automaton, Ways)
    return combined(asked, found.units, *whole, apart=apart, ways=ways), impossible


def carried(automaton: Automaton, lot: Lot, given: Weights, prune: float) -> Moved:
    """The groups of a lot over their steps: probabilities, or of ways numbers of matches, of which nothing is pruned."""
    if isinstance(automaton, Ways):
        return count(automaton, lot.mode, lot.steps, lot.hidden, given, values=lot.values)
    return move(automaton, lot.mode, lot.steps, lot.hidden, given, values=lot.values, prune=prune)


def told_of(lot: Lot, moved: Moved) -> tuple[Any, Any, Any, Any]:
    """What a lot tells: by step its group, number, probability, and what was left out by then."""
    lengths = np.diff(lot.steps.offsets)
    return np.repeat(lot.groups, lengths), lot.step, moved.told, np.repeat(moved.lost, lengths)


def combined(
    asked: Asked, units: Units, unit: Any, step: Any, found: Any, error: Any, *, apart: bool = False, ways: bool = False
) -> Answers:
    """In order; and for anyone where bindings are independent queries: true for one of them at least (section 3.2).

    Of ``ways`` what was found are numbers, which add up.
    """
    keys, group = units.keys, unit
    if asked.groups < len(asked.unit):
        groups = Units([units.keys[: asked.groups]], [len(units)])
        keys, group = groups.keys, groups.of[0][unit]
    order = np.lexsort((units.hashes[unit], step, group))  # so that products are taken in the same order in every call
    unit, group, step, found, error = (one[order] for one in (unit, group, step, found, error))
    if apart:
        return Answers(keys, group, step, found, error, units.hashes[unit])
    at = beginnings([group, step])
    if len(at) < len(group):
        group, step = group[at], step[at]
        found, error = summed(found, at) if ways else 1.0 - nobody(found, at), summed(error, at)
    return Answers(keys, group, step, found, error)


def beside(answers: Answers, counted: Answers) -> Answers:
    """Answers with the numbers of matches that were counted at their steps; of any other step none is expected."""
    rows = Units([_whose(answers), _whose(counted)], [len(answers.step), len(counted.step)])
    expected = np.zeros(len(rows))
    expected[rows.of[1]] = counted.probability
    return replace(answers, expected=expected[rows.of[0]])


def _whose(answers: Answers) -> list[Any]:
    """Whose each answer is: columns of its group, its step, and its binding where these are told apart."""
    words = [answers.step] if answers.binding is None else [answers.step, answers.binding]
    return [*(key.take(pa.array(answers.group)) for key in answers.keys), *map(pa.array, words)]


def too_many_ways(one: Asked) -> LimitError:
    """That matches of a pattern cannot be counted."""
    return LimitError(
        f"The partial matches of pattern {one.name}, or what may happen at one step, differ in more ways than can be counted.",
        hint="Partition by what belongs together, or use a coarser step or a shorter window.",
    )


def beginnings(words: Sequence[Any]) -> Any:
    """Of rows in order: where those begin that agree in all words."""
    new = np.zeros(len(words[0]), bool)
    new[:1] = True
    for word in words:
        new[1:] |= word[1:] != word[:-1]
    return np.flatnonzero(new)


def nobody(probability: Any, at: Any) -> Any:
    """By run of rows: the probability that none of them is true."""
    return np.multiply.reduceat(1.0 - probability, at) if len(at) else np.zeros(0)


def summed(numbers: Any, at: Any) -> Any:
    """By run of rows: their sum."""
    return np.add.reduceat(numbers, at) if len(at) else np.zeros(0)
