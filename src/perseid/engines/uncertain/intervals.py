"""Safe plans (section 3.3): a probability for every interval of time, computed from those of its parts.

For each interval, a plan computes the probability that the query is true at none of its steps. For a prefix without
free variables, an automaton computes it by absorbing the worlds that complete the prefix. For a variable it is the
product over its values, which are independent. For ``q; g`` it follows from Equation 2: from the last event matching g
before the interval, and the last one within it. Equation 3 takes these as independent, so g must use streams that q
does not use.

The recursion for automaton intervals, as printed, multiplies two probabilities conditional on the state as if the first
did not depend on it; here "not yet true" is carried jointly with the state. Also, the last event before the interval
and the last one within it are never at the same step.

A plan is built once from the input of a group, and evaluated over any grid, a list of consecutive steps, as if no steps
preceded them. Products are taken in an order derived from the data, so the result of a grid is the same to the bit
whatever surrounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.automaton import Automaton, StateLimitExceeded
from perseid.engines.uncertain.pattern_nfa import chooses
from perseid.engines.uncertain.plan import Component, PlannedQuery
from perseid.engines.uncertain.reading import SymbolEncoder, Units, unit_columns
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import NEVER, CallInput, PatternInput, build_pattern_input, split_groups
from perseid.engines.uncertain.tracks import Track, track_of
from perseid.lang import ast
from perseid.runtime.arrays import ArrowColumn, BoolArray, FloatArray, IntArray
from perseid.runtime.event_batch import take_events
from perseid.semantics import core as c
from perseid.semantics.classes import IndependentProject, Reg, SafePlan, Then, bound_column, grounded


@dataclass(frozen=True)
class ChainMarginals:
    """Marginal distribution of the hidden chains of a table stream after some step."""

    step: int
    chain: IntArray
    value: IntArray
    event: BoolArray
    """By row: hash of the chain's key; hash of the value; False if the row is that of no event."""
    weight: FloatArray


# compiled plans


@dataclass(frozen=True)
class Automata:
    """A prefix without variables: true where one of its tracks is true."""

    tracks: tuple[Track, ...]


@dataclass(frozen=True)
class Anyone:
    """True for at least one value of a variable."""

    plans: tuple[Plan, ...]


@dataclass(frozen=True)
class After:
    """A plan followed by an event of other streams."""

    plan: Plan
    tracks: tuple[Track, ...]
    fits: Callable[[Automaton], BoolArray]
    is_last: bool
    """True if no step can follow: the event has a test, or depends on the step before."""


Plan: TypeAlias = Automata | Anyone | After


class PlanLayout:
    """Compiles safe plans for the input of a group."""

    def __init__(self, query: PlannedQuery, streams: Streams, starts: Mapping[str, ChainMarginals]) -> None:
        self.query, self.streams, self.starts = query, streams, starts
        # The window of a match is the grid.
        self.pattern = replace(query.pattern, within=None)
        self._readers: dict[c.Core, SymbolEncoder] = {}

    def of(self, plan: SafePlan, call_input: CallInput) -> Plan:
        match plan:
            case Reg():
                body = self.pattern.body
                if isinstance(body, c.Seq) and plan.items < len(body.items):
                    body = replace(body, items=body.items[: plan.items], hops=body.hops[: plan.items - 1])
                    body = body.items[0] if len(body.items) == 1 else body
                return Automata(tuple(self.tracks(body, of_types(call_input, self._types(plan)))))
            case IndependentProject():
                own = of_types(call_input, self._types(plan))
                return Anyone(tuple(self.of(plan.plan, one) for one in self._bindings(plan, own)))
            case Then():
                step = self.pattern.steps[plan.step]
                hidden = [part for part in self.query.hidden(self.streams) if ast.EventType(part.type) == step.kind]
                tracks = self.tracks(c.Take(plan.step), of_types(call_input, self._kinds((plan.step,))))
                before = self.of(plan.plan, of_types(call_input, self._types(plan.plan)))
                return After(before, tuple(tracks), _fitting(plan.step), bool(step.must or hidden))

    def _types(self, plan: SafePlan) -> set[str]:
        match plan:
            case Reg():
                return self._kinds(plan.steps)
            case IndependentProject():
                return self._types(plan.plan)
            case Then():
                return self._types(plan.plan) | self._kinds((plan.step,))

    def _kinds(self, steps: Sequence[int]) -> set[str]:
        kinds = (self.pattern.steps[number].kind for number in steps)
        return {kind.name for kind in kinds if isinstance(kind, ast.EventType)}

    def _bindings(self, plan: IndependentProject, call_input: CallInput) -> Iterator[CallInput]:
        """Input of each value of a variable, in the order of the values' hashes."""
        columns = bound_column(self.pattern, self.streams.keys, plan.variable)
        units = units_of(call_input, (Component(plan.variable, columns),))
        for number, one in split_by_group(call_input, units):
            if units.keys[0][number].is_valid:  # null does not bind a variable
                yield one

    def tracks(self, body: c.Core, call_input: CallInput, *, every_chain: bool = False) -> Iterator[Track]:
        """Split a query without variables into independent tracks; that of a single event has one per hidden chain.

        Hidden chains with no event that the query can take are left out, unless ``every_chain`` is set.
        """
        pattern = grounded(replace(self.pattern, body=body), self.pattern.unified)
        is_single_event = isinstance(body, c.Take)
        types_present = np.unique(call_input.rows.type_codes)
        types = {call_input.rows.type_names[code] for code in types_present if code >= 0} | set(call_input.chains)
        hidden = [part for part in self.streams.parts if part.hidden and part.type in types]
        unit = tuple(Component(name) for part in hidden for name in part.of) if is_single_event else ()
        if len(hidden) > 1:
            raise StateLimitExceeded
        if body not in self._readers:
            relations = call_input.rows.relations
            self._readers[body] = SymbolEncoder(Automaton(pattern, relations, elapsed=self.streams.every or 0))
        reader = self._readers[body]
        query = PlannedQuery(pattern, self.query.classified, unit, len(unit), frozenset(types))
        pattern_input = build_pattern_input(query, self.streams, reader, call_input)
        if not every_chain:
            pattern_input = _with_effect(pattern_input, _letters_taken(reader.automaton, c.takes(body)))
        if not is_single_event and any(len(np.unique(entries.chain)) > 1 for entries in pattern_input.entries):
            raise StateLimitExceeded
        if not is_single_event and any(len(np.unique(read.chains.hashes)) > 1 for read in pattern_input.read):
            raise StateLimitExceeded
        start_marginals = self.starts.get(hidden[0].type) if hidden else None
        values = None if start_marginals is None else start_marginals.value[start_marginals.event]
        for chain_groups in split_groups(
            pattern_input, np.full(len(pattern_input.units), NEVER), call_input.numbered, values=values
        ):
            for group in np.argsort(pattern_input.units.hashes[chain_groups.groups], kind="stable"):
                chain = _chain(pattern_input, int(chain_groups.groups[group]))
                start = (
                    None
                    if start_marginals is None or chain_groups.hashes is None
                    else _start(start_marginals, chain, chain_groups.hashes)
                )
                track = track_of(reader, chain_groups, int(group), start, chain)
                if (
                    start is not None
                    and start_marginals is not None
                    and track.chain_groups.step[0] != start_marginals.step + 1
                ):
                    track = replace(track, start=None)  # a gap means no event, so the start does not apply
                yield track


def _letters_taken(automaton: Automaton, steps: Sequence[int]) -> BoolArray:
    """By letter: True if one of these steps can take an event of it."""
    mask = sum(chooses(step) for step in set(steps))
    return np.array([any(bits & mask for bits, _ in letter) for letter in automaton.letters], bool)


def _with_effect(pattern_input: PatternInput, effective: BoolArray) -> PatternInput:
    """Drop hidden chains that have no event with an ``effective`` letter."""
    entries = tuple(
        one.chosen(np.flatnonzero(np.isin(one.chain, one.chain[effective[one.letter]])))
        for one in pattern_input.entries
    )
    read = []
    for one in pattern_input.read:
        effective_chains = np.flatnonzero(effective[one.letters].any(axis=1))
        if len(effective_chains) == len(one.letters):
            read.append(one)
        elif len(effective_chains):
            chains, steps = one.chains.some(effective_chains)
            ahead = None if one.ahead is None else one.ahead[steps]
            read.append(
                replace(
                    one,
                    chains=chains,
                    unit=one.unit[effective_chains],
                    letters=one.letters[effective_chains],
                    ahead=ahead,
                )
            )
    return replace(pattern_input, entries=entries, read=tuple(read))


def _chain(pattern_input: PatternInput, unit: int) -> int:
    for entries in pattern_input.entries:
        own = np.flatnonzero(entries.unit == unit)
        if len(own):
            return int(entries.chain[own[0]])
    return 0


def _start(marginals: ChainMarginals, chain: int, values: IntArray) -> FloatArray | None:
    """By value: its probability; None if the chain is not among the known ones."""
    rows_of_chain = np.flatnonzero(marginals.chain == chain)
    if not len(rows_of_chain):
        return None
    out = np.zeros(len(values) + 1)
    value_index = np.where(
        marginals.event[rows_of_chain], np.searchsorted(values, marginals.value[rows_of_chain]), len(values)
    )
    out[value_index] = marginals.weight[rows_of_chain]
    return out


def _fitting(step: int) -> Callable[[Automaton], BoolArray]:
    """Return a function that marks, by state and letter, the letters with an event that fits a step."""

    def absorbing(automaton: Automaton) -> BoolArray:
        out = np.zeros(automaton.done.shape, np.bool_)
        for number, letter in enumerate(automaton.letters):
            out[:, number] = any(bits & chooses(step) for bits, _ in letter)
        return out

    return absorbing


# input


def of_types(call_input: CallInput, types: set[str] | frozenset[str]) -> CallInput:
    """Restrict the input to some event types, without the bad rows."""
    is_wanted = np.array([*(name in types for name in call_input.rows.type_names), False])[call_input.rows.type_codes]
    is_wanted[call_input.bad] = False
    chains = {type_: one for type_, one in call_input.chains.items() if type_ in types}
    if is_wanted.all() and len(chains) == len(call_input.chains):
        return call_input
    rows = np.flatnonzero(is_wanted)
    return replace(
        call_input,
        rows=take_events(call_input.rows, rows),
        step=call_input.step[rows],
        chains=chains,
        bad=np.zeros(0, np.int64),
    )


def split_by_group(call_input: CallInput, units: Units) -> Iterator[tuple[int, CallInput]]:
    """Split the input by group, in the order of the groups' hashes."""
    for number in np.argsort(units.hashes, kind="stable"):
        rows = np.flatnonzero(units.of[0] == number)
        chains, beliefs = {}, {}
        for (type_, all_), own in zip(call_input.chains.items(), units.of[1:-1], strict=True):
            which = np.flatnonzero(own == number)
            if len(which):
                chains[type_], steps = all_.some(which)
                if type_ in call_input.beliefs:
                    beliefs[type_] = call_input.beliefs[type_][steps]
        yield (
            int(number),
            replace(
                call_input,
                rows=take_events(call_input.rows, rows),
                step=call_input.step[rows],
                chains=chains,
                beliefs=beliefs,
            ),
        )


def units_of(call_input: CallInput, unit: tuple[Component, ...], more: Sequence[ArrowColumn] | None = None) -> Units:
    """Groups of rows, of chains, and of additional key columns (``more``)."""
    sources, sizes = [unit_columns(call_input.rows, unit)], [len(call_input.rows)]
    for type_, chains in call_input.chains.items():
        missing = pa.nulls(len(chains.afresh))
        sources.append([chains.keys.get(component.column(type_), missing) for component in unit])
        sizes.append(len(chains.afresh))
    sources.append([pa.nulls(0)] * len(unit) if more is None else list(more))
    sizes.append(0 if more is None else len(more[0]) if unit else 1)
    return Units(sources, sizes)


def grid_of(call_input: CallInput) -> IntArray:
    """The steps with input."""
    return np.unique(np.concatenate([call_input.step, *(one.step[one.counted] for one in call_input.chains.values())]))


# evaluation


def points(plan: Plan, grid: IntArray, first: int = 0) -> FloatArray:
    """By step of a grid, from index ``first`` on: the probability that the query is true at it."""
    match plan:
        case Automata():
            raise AssertionError("only a Regular query has a plan of one automaton")
        case Anyone():
            out = np.ones(len(grid) - first)
            for one in plan.plans:
                if not _is_quiet(one, grid):
                    out *= 1.0 - points(one, grid, first)
            return 1.0 - out
        case After():
            return _points_after(plan, grid, first)


def never(plan: Plan, grid: IntArray) -> FloatArray:
    """By first and last step: the probability that the query is true at no step of the interval."""
    match plan:
        case Automata():
            out = np.ones((len(grid), len(grid)))
            for track in plan.tracks:
                result = track.over(grid)
                if result is not None:
                    out *= 1.0 - np.cumsum(result[1], axis=1)
            return out
        case Anyone():
            out = np.ones((len(grid), len(grid)))
            for one in plan.plans:
                if not _is_quiet(one, grid):
                    out *= never(one, grid)
            return out
        case After():
            return _never_after(plan, grid)


def _is_quiet(plan: Plan, grid: IntArray) -> bool:
    """Return True if the query cannot be true in the grid because it lacks events."""
    match plan:
        case Automata():
            return all(track.is_quiet(grid) for track in plan.tracks)
        case Anyone():
            return all(_is_quiet(one, grid) for one in plan.plans)
        case After():
            return all(track.is_quiet(grid) for track in plan.tracks) or _is_quiet(plan.plan, grid)


def _points_after(plan: After, grid: IntArray, first: int) -> FloatArray:
    """Equation 2 for a single step: an event of g passes at it, and q was true since the last event that fits g."""
    true = 1.0 - never(plan.plan, grid)
    none, nor = _no_fit(plan, grid)
    out = np.zeros(len(grid) - first)
    for t in range(max(first, 1), len(grid)):
        # By the step after the last event that fits: none of them up to t, and one that passes at t.
        since = none[: t + 1, t] - nor[: t + 1, t]
        out[t - first] = since[0] * true[0, t - 1] + (np.diff(since) * true[:t, t - 1]).sum()
    return out


def _no_fit(plan: After, grid: IntArray) -> tuple[FloatArray, FloatArray]:
    """By steps s <= t: the probability that no event fits g from s to before t; and that, besides, none passes at t."""
    none, nor = np.ones((len(grid), len(grid))), np.ones((len(grid), len(grid)))
    for track in plan.tracks:
        result = track.over(grid, plan.fits)
        if result is not None:
            completed, absorbed = result
            before = 1.0 - (np.cumsum(absorbed, axis=1) - absorbed)
            none *= before
            nor *= before - completed
    return none, nor


def _never_after(plan: After, grid: IntArray) -> FloatArray:
    """Equation 3, for an event g without a test, on streams that are independent from step to step."""
    if plan.is_last:
        raise StateLimitExceeded
    true = 1.0 - never(plan.plan, grid)
    _, nor = _no_fit(plan, grid)
    quiet = np.diag(nor)  # no event fits at the step
    count = len(grid)
    reached = np.zeros((count, count))
    """By first step of an interval and step b in it: q is true from the last event before the interval to before b."""
    last = np.zeros(count)
    first = 1.0
    for begin in range(count):
        if count > 1:
            passed = np.einsum("i,ij->j", last[: count - 1], true[: count - 1, : count - 1])
            reached[begin, 1:] = passed + first * true[0, : count - 1]
        last *= quiet[begin]
        last[begin] = 1.0 - quiet[begin]
        first *= quiet[begin]
    out = np.ones((count, count))
    for begin in range(count):
        so_far = 0.0
        for end in range(begin, count):
            so_far = quiet[end] * so_far + (1.0 - quiet[end]) * reached[begin, end]
            out[begin, end] = 1.0 - so_far
    return out
