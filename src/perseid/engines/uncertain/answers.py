"""Match probabilities of one pattern for the rows of one call, by step, and expected numbers of matches.

Results are exact, or sampled where the exact computation needs too many states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.counting_automaton import CountingAutomaton
from perseid.engines.uncertain.exact import StateWeights
from perseid.engines.uncertain.forward_pass import ForwardPass, advance_groups
from perseid.engines.uncertain.joint import joint_groups
from perseid.engines.uncertain.memory import no_group_states
from perseid.engines.uncertain.plan import PlannedQuery
from perseid.engines.uncertain.reading import SymbolEncoder, Units
from perseid.engines.uncertain.sampling import SampledRows, advance_worlds, exact_rows, fresh_worlds
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import NEVER, CallInput, build_pattern_input
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
    query: PlannedQuery, streams: Streams, reader: SymbolEncoder, call_input: CallInput, per_binding: bool = False
) -> tuple[StepProbabilities, int]:
    """Return exact results for a finite input, and the number of readings with zero likelihood.

    A group with worlds in too many automaton states at once is sampled from that step on. If the automaton is a
    ``CountingAutomaton``, probabilities are expected numbers of matches instead.
    """
    pattern_input = build_pattern_input(query, streams, reader, call_input)
    if query.is_single(streams):
        memory = no_group_states(
            pattern_input.units.keys,
            pattern_input.entries[0].values if pattern_input.entries else np.zeros(0, np.int64),
        )
        forward_pass = ForwardPass(query, streams, reader, pattern_input, memory, call_input.numbered, None, {})
        rows, impossible = forward_pass.run(), forward_pass.impossible
    else:
        chain_groups = joint_groups(
            pattern_input, np.full(len(pattern_input.units), NEVER), call_input.numbered, reader.automaton
        )
        fresh = StateWeights.fresh(len(chain_groups.groups), chain_groups.values)
        result = advance_groups(reader.automaton, chain_groups, fresh, streams.prune)
        rows, impossible = (
            [exact_rows(chain_groups, result, np.zeros(len(pattern_input.units)))],
            result.impossible + chain_groups.impossible,
        )
    ways = isinstance(reader.automaton, CountingAutomaton)
    return combined(query, streams, pattern_input.units, rows, per_binding=per_binding, ways=ways), impossible


def sampled(
    query: PlannedQuery, streams: Streams, reader: SymbolEncoder, call_input: CallInput, per_binding: bool = False
) -> StepProbabilities:
    """Return sampled results for a finite input."""
    query.refuse_unsampled(streams)
    pattern_input = build_pattern_input(query, streams, reader, call_input)

    def begun(_: int) -> Worlds:
        reader.automaton.used_arrays.clear()  # the states of the previous group are no longer needed
        return fresh_worlds(reader, streams)

    rows, _ = advance_worlds(pattern_input, call_input.numbered, begun, np.zeros(len(pattern_input.units)))
    return combined(query, streams, pattern_input.units, [rows], per_binding=per_binding)


def combined(
    query: PlannedQuery,
    streams: Streams,
    units: Units,
    parts: Sequence[SampledRows],
    *,
    per_binding: bool = False,
    ways: bool = False,
) -> StepProbabilities:
    """Sort results, and combine independent bindings: the probability that at least one matches (section 3.2).

    With ``per_binding``, bindings stay separate. With ``ways``, results are expected numbers of matches, and are summed.
    """
    rows = SampledRows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    keys, group = units.keys, rows.unit
    if query.groups < len(query.unit):
        groups = Units([units.keys[: query.groups]], [len(units)])
        keys, group = groups.keys, groups.of[0][rows.unit]
    # Products are taken in the same order in every call.
    order = np.lexsort((units.hashes[rows.unit], rows.step, group))
    rows, group = SampledRows._make(column[order] for column in rows), group[order]
    if per_binding:
        return StepProbabilities(
            keys, group, rows.step, rows.probability, rows.lost, rows.drawn, units.hashes[rows.unit]
        )
    at = beginnings([group, rows.step])
    error, drawn = errors(rows.lost, rows.drawn, at, streams)
    probability = (summed if ways else anyone)(rows.probability, at)
    return StepProbabilities(keys, group[at], rows.step[at], probability, error, drawn)


def join_expected(results: StepProbabilities, counted: StepProbabilities) -> StepProbabilities:
    """Add the expected numbers of matches, joined by group, step and binding; 0 where none were counted."""
    rows = Units([_join_keys(results), _join_keys(counted)], [len(results.step), len(counted.step)])
    expected = np.zeros(len(rows))
    expected[rows.of[1]] = counted.probability
    return replace(results, expected=expected[rows.of[0]])


def _join_keys(results: StepProbabilities) -> list[ArrowColumn]:
    """Join key of each result: group columns, step, and the binding if results are per binding."""
    columns = [results.step] if results.binding is None else [results.step, results.binding]
    return [*(key.take(pa.array(results.group)) for key in results.keys), *map(pa.array, columns)]


def beginnings(columns: Sequence[Codes]) -> IntArray:
    """Return the first index of each run of rows that agree in all columns; rows are sorted."""
    new = np.zeros(len(columns[0]), bool)
    new[:1] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def anyone(probability: FloatArray, at: IntArray) -> FloatArray:
    """By run of rows: the probability that at least one of them is true, if they are independent.

    If only one row of a run has a probability above 0, the result is that probability, bit for bit.
    """
    none_true = np.multiply.reduceat(1.0 - probability, at) if len(at) else np.zeros(0)
    return np.where(summed(probability > 0, at) > 1, 1.0 - none_true, summed(probability, at))


def summed(numbers: FloatArray | BoolArray, at: IntArray) -> FloatArray:
    """By run of rows: the sum."""
    return np.add.reduceat(numbers, at, dtype=np.float64) if len(at) else np.zeros(0)


def errors(lost: FloatArray, drawn: BoolArray, at: IntArray, streams: Streams) -> tuple[FloatArray, BoolArray]:
    """By run of rows: the summed error bound, and True if any row was sampled."""
    any_sampled = np.logical_or.reduceat(drawn, at) if len(at) else np.zeros(0, bool)
    return summed(lost, at) + np.where(any_sampled, streams.sampling.epsilon, 0.0), any_sampled


def letter_limit_error(query: PlannedQuery) -> LimitError:
    """Error for a step at which too many distinct letters occur."""
    return LimitError(
        f"Pattern {query.name} exceeds a limit: one group has too many distinct combinations of events per step.",
        hint="Add partition by, or use fewer keys in the conditions.",
    )


def count_limit_error(query: PlannedQuery) -> LimitError:
    """Error for a pattern with too many distinct partial matches to count."""
    return LimitError(
        f"Pattern {query.name} has too many distinct partial matches, or combinations of events per step, to count matches.",
        hint="Add partition by, use a coarser step, or use a shorter window.",
    )
