"""Match probabilities of one pattern for the rows of one call, by step, and expected numbers of matches.

Results are exact, or sampled where the exact computation needs too many states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.exact import StateWeights
from perseid.engines.uncertain.joint import joint_groups
from perseid.engines.uncertain.memory import no_memory
from perseid.engines.uncertain.moving import ForwardPass, carried
from perseid.engines.uncertain.plan import PlannedQuery
from perseid.engines.uncertain.reading import SymbolEncoder, Units
from perseid.engines.uncertain.sampling import SampledRows, drawn_on, exact_rows, fresh_worlds
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import NEVER, CallInput, material
from perseid.engines.uncertain.ways import Ways
from perseid.engines.uncertain.worlds import Worlds
from perseid.errors import LimitError
from perseid.runtime.arrays import ArrowColumn, BoolArray, FloatArray, IntArray
from perseid.runtime.key_encoding import Codes


@dataclass(frozen=True)
class StepProbabilities:
    """Match probabilities, sorted by group and step."""

    keys: Sequence[ArrowColumn]
    """The group key columns, by group."""
    group: IntArray
    """By result row: its group."""
    step: IntArray
    probability: FloatArray
    error: FloatArray
    """Error bound; per binding, only the probability mass lost to pruning."""
    drawn: BoolArray
    """True where the probability was sampled."""
    binding: IntArray | None = None
    """Hash of the binding, if results are per binding."""
    expected: FloatArray | None = None
    """Expected number of completed matches, if the output policy requires it."""


def exactly(
    asked: PlannedQuery, streams: Streams, reader: SymbolEncoder, given: CallInput, apart: bool = False
) -> tuple[StepProbabilities, int]:
    """Return exact results for a finite input, and the number of readings with zero likelihood.

    A group with worlds in too many automaton states at once is sampled from that step on. If the automaton is a
    ``Ways``, probabilities are expected numbers of matches instead.
    """
    found = material(asked, streams, reader, given)
    if asked.is_single(streams):
        memory = no_memory(found.units.keys, found.entries[0].values if found.entries else np.zeros(0, np.int64))
        moving = ForwardPass(asked, streams, reader, found, memory, given.numbered, None, {})
        told, impossible = moving.told(), moving.impossible
    else:
        lot = joint_groups(found, np.full(len(found.units), NEVER), given.numbered, reader.automaton)
        fresh = StateWeights.fresh(len(lot.groups), lot.values)
        moved = carried(reader.automaton, lot, fresh, streams.prune)
        told, impossible = [exact_rows(lot, moved, np.zeros(len(found.units)))], moved.impossible + lot.impossible
    ways = isinstance(reader.automaton, Ways)
    return combined(asked, streams, found.units, told, apart=apart, ways=ways), impossible


def sampled(
    asked: PlannedQuery, streams: Streams, reader: SymbolEncoder, given: CallInput, apart: bool = False
) -> StepProbabilities:
    """Return sampled results for a finite input."""
    asked.refuse_unsampled(streams)
    found = material(asked, streams, reader, given)

    def begun(_: int) -> Worlds:
        reader.automaton.held.clear()  # the states of the previous group are no longer needed
        return fresh_worlds(reader, streams)

    told, _ = drawn_on(found, given.numbered, begun, np.zeros(len(found.units)))
    return combined(asked, streams, found.units, [told], apart=apart)


def combined(
    asked: PlannedQuery,
    streams: Streams,
    units: Units,
    parts: Sequence[SampledRows],
    *,
    apart: bool = False,
    ways: bool = False,
) -> StepProbabilities:
    """Sort results, and combine independent bindings: the probability that at least one matches (section 3.2).

    With ``apart``, bindings stay separate. With ``ways``, results are expected numbers of matches, and are summed.
    """
    told = SampledRows(*(np.concatenate(some) for some in zip(*parts, strict=True)))
    keys, group = units.keys, told.unit
    if asked.groups < len(asked.unit):
        groups = Units([units.keys[: asked.groups]], [len(units)])
        keys, group = groups.keys, groups.of[0][told.unit]
    # Products are taken in the same order in every call.
    order = np.lexsort((units.hashes[told.unit], told.step, group))
    told, group = SampledRows._make(one[order] for one in told), group[order]
    if apart:
        return StepProbabilities(
            keys, group, told.step, told.probability, told.lost, told.drawn, units.hashes[told.unit]
        )
    at = beginnings([group, told.step])
    error, drawn = errors(told.lost, told.drawn, at, streams)
    found = (summed if ways else anyone)(told.probability, at)
    return StepProbabilities(keys, group[at], told.step[at], found, error, drawn)


def join_expected(answers: StepProbabilities, counted: StepProbabilities) -> StepProbabilities:
    """Add the expected numbers of matches, joined by group, step and binding; 0 where none were counted."""
    rows = Units([_join_keys(answers), _join_keys(counted)], [len(answers.step), len(counted.step)])
    expected = np.zeros(len(rows))
    expected[rows.of[1]] = counted.probability
    return replace(answers, expected=expected[rows.of[0]])


def _join_keys(answers: StepProbabilities) -> list[ArrowColumn]:
    """Join key of each result: group columns, step, and the binding if results are per binding."""
    words = [answers.step] if answers.binding is None else [answers.step, answers.binding]
    return [*(key.take(pa.array(answers.group)) for key in answers.keys), *map(pa.array, words)]


def beginnings(words: Sequence[Codes]) -> IntArray:
    """Return the first index of each run of rows that agree in all columns; rows are sorted."""
    new = np.zeros(len(words[0]), bool)
    new[:1] = True
    for word in words:
        new[1:] |= word[1:] != word[:-1]
    return np.flatnonzero(new)


def anyone(probability: FloatArray, at: IntArray) -> FloatArray:
    """By run of rows: the probability that at least one of them is true, if they are independent.

    If only one row of a run has a probability above 0, the result is that probability, bit for bit.
    """
    none = np.multiply.reduceat(1.0 - probability, at) if len(at) else np.zeros(0)
    return np.where(summed(probability > 0, at) > 1, 1.0 - none, summed(probability, at))


def summed(numbers: FloatArray | BoolArray, at: IntArray) -> FloatArray:
    """By run of rows: the sum."""
    return np.add.reduceat(numbers, at, dtype=np.float64) if len(at) else np.zeros(0)


def errors(lost: FloatArray, drawn: BoolArray, at: IntArray, streams: Streams) -> tuple[FloatArray, BoolArray]:
    """By run of rows: the summed error bound, and True if any row was sampled."""
    some = np.logical_or.reduceat(drawn, at) if len(at) else np.zeros(0, bool)
    return summed(lost, at) + np.where(some, streams.sampling.epsilon, 0.0), some


def letter_limit_error(one: PlannedQuery) -> LimitError:
    """Error for a step at which too many distinct letters occur."""
    return LimitError(
        f"Pattern {one.name} exceeds a limit: one group has too many distinct combinations of events per step.",
        hint="Add partition by, or use fewer keys in the conditions.",
    )


def count_limit_error(one: PlannedQuery) -> LimitError:
    """Error for a pattern with too many distinct partial matches to count."""
    return LimitError(
        f"Pattern {one.name} has too many distinct partial matches, or combinations of events per step, to count matches.",
        hint="Add partition by, use a coarser step, or use a shorter window.",
    )
