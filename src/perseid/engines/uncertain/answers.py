"""The answers of one pattern to the rows of a call: exact, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perseid.engines.uncertain.exact import Moved, Weights, move
from perseid.engines.uncertain.joint import joint_lot
from perseid.engines.uncertain.plan import Asked
from perseid.engines.uncertain.reading import Reader, Units
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import NEVER, Given, Lot, lots, material


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


def exactly(asked: Asked, streams: Streams, reader: Reader, given: Given, apart: bool = False) -> tuple[Answers, int]:
    """The answers where all rows have come; and how many readings cannot be."""
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
        moved = move(reader.automaton, lot.mode, lot.steps, lot.hidden, fresh, values=lot.values, prune=streams.prune)
        impossible += moved.impossible + lot.impossible
        told.append(told_of(lot, moved))
    whole = (np.concatenate(parts) for parts in zip(*told, strict=True))
    return combined(asked, found.units, *whole, apart=apart), impossible


def told_of(lot: Lot, moved: Moved) -> tuple[Any, Any, Any, Any]:
    """What a lot tells: by step its group, number, probability, and what was left out by then."""
    lengths = np.diff(lot.steps.offsets)
    return np.repeat(lot.groups, lengths), lot.step, moved.told, np.repeat(moved.lost, lengths)


def combined(
    asked: Asked, units: Units, unit: Any, step: Any, probability: Any, error: Any, *, apart: bool = False
) -> Answers:
    """In order; and for anyone where bindings are independent queries: true for one of them at least (section 3.2)."""
    keys, group = units.keys, unit
    if asked.groups < len(asked.unit):
        groups = Units([units.keys[: asked.groups]], [len(units)])
        keys, group = groups.keys, groups.of[0][unit]
    order = np.lexsort((units.hashes[unit], step, group))  # so that products are taken in the same order in every call
    unit, group, step, probability, error = (one[order] for one in (unit, group, step, probability, error))
    if apart:
        return Answers(keys, group, step, probability, error, units.hashes[unit])
    at, none, summed = anyone([group, step], probability, error)
    if len(at) == len(group):
        return Answers(keys, group, step, probability, error)
    return Answers(keys, group[at], step[at], 1.0 - none, summed)


def anyone(words: Sequence[Any], probability: Any, error: Any) -> tuple[Any, Any, Any]:
    """Of rows that agree in all words: where they begin, the probability that none of them is true, and how far it may be off."""
    new = np.ones(len(probability), bool)
    if len(new):
        new[1:] = False
    for word in words:
        new[1:] |= word[1:] != word[:-1]
    at = np.flatnonzero(new)
    if not len(at):
        return at, np.zeros(0), np.zeros(0)
    return at, np.multiply.reduceat(1.0 - probability, at), np.add.reduceat(error, at)
