"""The answers of one pattern to the rows of a call, step by step: how probable it is that it is completed, and how often.

Exact, and where that takes too much, sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.exact import Weights
from perseid.engines.uncertain.joint import joint_lot
from perseid.engines.uncertain.memory import no_memory
from perseid.engines.uncertain.moving import Moving, carried
from perseid.engines.uncertain.plan import Asked
from perseid.engines.uncertain.reading import Reader, Units
from perseid.engines.uncertain.sampling import Told, drawn_on, fresh_worlds, told_of
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import NEVER, Given, material
from perseid.engines.uncertain.ways import Ways
from perseid.engines.uncertain.worlds import Worlds
from perseid.errors import LimitError
from perseid.runtime.arrays import ArrowColumn, BoolArray, FloatArray, IntArray
from perseid.runtime.key_encoding import Codes


@dataclass(frozen=True)
class Answers:
    """By group and step, in this order: the probability that the pattern is completed."""

    keys: Sequence[ArrowColumn]
    """The columns of groups."""
    group: IntArray
    """By answer: its group."""
    step: IntArray
    probability: FloatArray
    error: FloatArray
    """By how much it may be off; where bindings are told one by one, what pruning left out."""
    drawn: BoolArray
    """Whether it was sampled."""
    binding: IntArray | None = None
    """Where bindings are told one by one: a hash of each."""
    expected: FloatArray | None = None
    """Where it is asked for: how many matches are expected to be completed."""


def exactly(asked: Asked, streams: Streams, reader: Reader, given: Given, apart: bool = False) -> tuple[Answers, int]:
    """The answers where all rows have come; and how many readings cannot be.

    A group whose worlds come to be in too many states at once is sampled from that step on. A reader of ways has numbers of matches
    for probabilities.
    """
    found = material(asked, streams, reader, given)
    if asked.is_single(streams):
        memory = no_memory(found.units.keys, found.entries[0].values if found.entries else np.zeros(0, np.int64))
        moving = Moving(asked, streams, reader, found, memory, given.numbered, None, {})
        told, impossible = moving.told(), moving.impossible
    else:
        lot = joint_lot(found, np.full(len(found.units), NEVER), given.numbered, reader.automaton)
        fresh = Weights.fresh(len(lot.groups), lot.values)
        moved = carried(reader.automaton, lot, fresh, streams.prune)
        told, impossible = [told_of(lot, moved, np.zeros(len(found.units)))], moved.impossible + lot.impossible
    ways = isinstance(reader.automaton, Ways)
    return combined(asked, streams, found.units, told, apart=apart, ways=ways), impossible


def sampled(asked: Asked, streams: Streams, reader: Reader, given: Given, apart: bool = False) -> Answers:
    """The answers by sampling, where all rows have come."""
    asked.refuse_unsampled(streams)
    found = material(asked, streams, reader, given)

    def begun(_: int) -> Worlds:
        reader.automaton.held.clear()  # those before are done
        return fresh_worlds(reader, streams)

    told, _ = drawn_on(found, given.numbered, begun, np.zeros(len(found.units)))
    return combined(asked, streams, found.units, [told], apart=apart)


def combined(
    asked: Asked, streams: Streams, units: Units, parts: Sequence[Told], *, apart: bool = False, ways: bool = False
) -> Answers:
    """In order; and for anyone where bindings are independent queries: true for one of them at least (section 3.2).

    Of ``ways`` what is told are numbers, which add up.
    """
    told = Told(*(np.concatenate(some) for some in zip(*parts, strict=True)))
    keys, group = units.keys, told.unit
    if asked.groups < len(asked.unit):
        groups = Units([units.keys[: asked.groups]], [len(units)])
        keys, group = groups.keys, groups.of[0][told.unit]
    # So that products are taken in the same order in every call.
    order = np.lexsort((units.hashes[told.unit], told.step, group))
    told, group = Told._make(one[order] for one in told), group[order]
    if apart:
        return Answers(keys, group, told.step, told.probability, told.lost, told.drawn, units.hashes[told.unit])
    at = beginnings([group, told.step])
    error, drawn = errors(told.lost, told.drawn, at, streams)
    found = (summed if ways else anyone)(told.probability, at)
    return Answers(keys, group[at], told.step[at], found, error, drawn)


def beside(answers: Answers, counted: Answers) -> Answers:
    """Answers with the numbers of matches that were counted at their steps; of any other step none is expected."""
    rows = Units([_whose(answers), _whose(counted)], [len(answers.step), len(counted.step)])
    expected = np.zeros(len(rows))
    expected[rows.of[1]] = counted.probability
    return replace(answers, expected=expected[rows.of[0]])


def _whose(answers: Answers) -> list[ArrowColumn]:
    """Whose each answer is: columns of its group, its step, and its binding where these are told apart."""
    words = [answers.step] if answers.binding is None else [answers.step, answers.binding]
    return [*(key.take(pa.array(answers.group)) for key in answers.keys), *map(pa.array, words)]


def beginnings(words: Sequence[Codes]) -> IntArray:
    """Of rows in order: where those begin that agree in all words."""
    new = np.zeros(len(words[0]), bool)
    new[:1] = True
    for word in words:
        new[1:] |= word[1:] != word[:-1]
    return np.flatnonzero(new)


def anyone(probability: FloatArray, at: IntArray) -> FloatArray:
    """By run of rows: the probability that one of them at least is true.

    Of a single one that can be it is that one's to the bit, whatever else there is in a call.
    """
    none = np.multiply.reduceat(1.0 - probability, at) if len(at) else np.zeros(0)
    return np.where(summed(probability > 0, at) > 1, 1.0 - none, summed(probability, at))


def summed(numbers: FloatArray | BoolArray, at: IntArray) -> FloatArray:
    """By run of rows: their sum."""
    return np.add.reduceat(numbers, at, dtype=np.float64) if len(at) else np.zeros(0)


def errors(lost: FloatArray, drawn: BoolArray, at: IntArray, streams: Streams) -> tuple[FloatArray, BoolArray]:
    """By run of rows: how far the probability of any of them may be off, and whether one was sampled."""
    some = np.logical_or.reduceat(drawn, at) if len(at) else np.zeros(0, bool)
    return summed(lost, at) + np.where(some, streams.sampling.epsilon, 0.0), some


def too_many_letters(one: Asked) -> LimitError:
    """That steps are told apart in too many ways."""
    return LimitError(
        f"Pattern {one.name} is asked of so many chains at once that steps differ in more ways than can be kept.",
        hint="Partition by what belongs together, or ask for fewer keys in its conditions.",
    )


def too_many_ways(one: Asked) -> LimitError:
    """That matches of a pattern cannot be counted."""
    return LimitError(
        f"The partial matches of pattern {one.name}, or what may happen at one step, differ in more ways than can be counted.",
        hint="Partition by what belongs together, or use a coarser step or a shorter window.",
    )
