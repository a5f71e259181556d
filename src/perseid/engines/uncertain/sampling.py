"""Sampling (section 3.5): the fraction of random worlds that complete any pattern at a step estimates its probability.

The error bound holds for one step and group. If a pattern is combined over bindings, these are independent and sampled
separately. The product of their estimates is the mean over all pairings of their worlds; each pairing has the bound of
a single estimate, and so has the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.exact import AdvanceResult
from perseid.engines.uncertain.inference import smoothed_tables
from perseid.engines.uncertain.plan import PlannedQuery
from perseid.engines.uncertain.reading import SymbolEncoder
from perseid.engines.uncertain.streams import Known, Streams
from perseid.engines.uncertain.traces import ChainGroups, PatternInput, Read, TransitionRows
from perseid.engines.uncertain.worlds import Doing, HiddenSamples, Table, Worlds, worlds_for
from perseid.runtime.arrays import BoolArray, FloatArray, IntArray
from perseid.runtime.hashing import hash_columns
from perseid.semantics.hashing import hash_values


class SampledRows(NamedTuple):
    """Results by group and step: probability, mass pruned so far, and True if sampled."""

    unit: IntArray
    step: IntArray
    probability: FloatArray
    lost: FloatArray
    drawn: BoolArray


def fresh_worlds(reader: SymbolEncoder, streams: Streams) -> Worlds:
    """Worlds of a group in the initial state."""
    return Worlds(reader.automaton, worlds_for(streams.sampling), streams.sampling.seed)


def advance_worlds(
    pattern_input: PatternInput,
    numbered: bool,
    worlds_of: Callable[[int], Worlds | None],
    lost: FloatArray,
    *,
    returns: bool = False,
) -> tuple[SampledRows, dict[int, int]]:
    """Advance worlds over the steps after their last one.

    ``worlds_of`` returns the worlds of a group, or None if it is evaluated exactly; ``lost`` is the pruned mass by
    group. With ``returns``, the worlds of a group stop before the first step at which all partial matches have expired,
    and the group becomes exact again; the second result has these steps by group.
    """
    unit, steps, share = [], [], []
    returning: dict[int, int] = {}
    for number, actions in enumerate(_by_unit(pattern_input)):
        own = worlds_of(number) if actions else None
        if own is None:
            continue
        begin = own.last
        for step, doings in actions:
            if step <= begin:
                continue
            if returns and numbered and own.is_over(step):
                returning[number] = step
                break
            done = own.advance(step, doings, numbered)
            unit.append(number)
            steps.append(step)
            share.append(float(done.mean()))
    of = np.array(unit, np.int64)
    return SampledRows(of, np.array(steps, np.int64), np.array(share), lost[of], np.ones(len(of), bool)), returning


def exact_rows(chain_groups: ChainGroups, result: AdvanceResult, lost: FloatArray) -> SampledRows:
    """Exact results of a lot, up to the steps at which groups reached the limit; ``lost`` is the mass pruned before."""
    lengths = np.diff(chain_groups.steps.offsets)
    place = np.repeat(np.arange(len(chain_groups.groups)), lengths)
    whole = (np.arange(len(place)) < result.fell[place]) | (result.fell[place] < 0)
    place = place[whole]
    unit = chain_groups.groups[place]
    return SampledRows(
        unit,
        chain_groups.step[whole],
        result.probability[whole],
        result.lost[place] + lost[unit],
        np.zeros(len(unit), bool),
    )


def fallback_worlds(
    query: PlannedQuery,
    streams: Streams,
    reader: SymbolEncoder,
    pattern_input: PatternInput,
    chain_groups: ChainGroups,
    result: AdvanceResult,
) -> dict[int, Worlds]:
    """By group over the state limit: worlds drawn from its distribution before the step."""
    out: dict[int, Worlds] = {}
    for place in np.flatnonzero(result.fell >= 0):
        query.refuse_unsampled(streams, "a group is in too many states at once")
        unit, step = int(chain_groups.groups[place]), int(chain_groups.step[result.fell[place]])
        rows = slice(result.weights.offsets[place], result.weights.offsets[place + 1])
        worlds = out[unit] = fresh_worlds(reader, streams)
        value = worlds.fall(
            int(pattern_input.units.hashes[unit]), step, result.weights.pairs[rows], result.weights.weight[rows]
        )
        if not (value != chain_groups.values).any():
            continue
        chain, stays = _chain_at(query, streams, pattern_input, unit, step)
        if chain is not None:
            worlds.values[chain] = HiddenSamples(
                value != chain_groups.values, np.append(chain_groups.names, 0)[value], stays
            )
    return out


def _chain_at(
    query: PlannedQuery, streams: Streams, pattern_input: PatternInput, unit: int, step: int
) -> tuple[int | None, bool]:
    """The hidden chain of a group, and True if it retains its value at steps without entries.

    A table chain that does not retain it has a value only at steps with entries.
    """
    for entries in pattern_input.entries:
        rows_here = np.flatnonzero((entries.unit == unit) & (entries.stays | (entries.step == step)))
        if len(rows_here):
            return int(entries.chain[rows_here[0]]), entries.stays
        if entries.stays:  # its rows arrived in an earlier call
            return _chain_of_key(query, streams, pattern_input, entries, unit), True
    for read in pattern_input.read:
        rows_here = np.flatnonzero(read.unit == unit)
        if len(rows_here):
            return int(read.chains.hashes[rows_here[0]]), True
    return None, False


def _chain_of_key(
    query: PlannedQuery, streams: Streams, pattern_input: PatternInput, entries: TransitionRows, unit: int
) -> int | None:
    """Hash of the table chain of a group, computed from the group's key."""
    part = next((one for one in query.hidden(streams) if one.known is Known.LINKED), None)
    if part is None:
        return None
    columns = {one.column(part.type): key for one, key in zip(query.unit, pattern_input.units.keys, strict=True)}
    key = [columns[name].take(pa.array([unit])) for name in part.of]
    key = [own if kind is None else own.cast(kind) for own, kind in zip(key, entries.key_types, strict=True)]
    return int(hash_columns(key, leading=hash_values([part.type]), rows=1)[0])


def _by_unit(pattern_input: PatternInput) -> Iterator[list[tuple[int, list[Doing]]]]:
    """By group: its steps in order, with a function for each chain that acts at the step."""
    actions: list[dict[int, list[Doing]]] = [{} for _ in range(len(pattern_input.units))]
    others = pattern_input.others
    order = np.lexsort((others.share, *others.order[::-1], others.step, others.unit))
    for rows in _runs(order, others.unit, others.step, others.chain):
        unit, step, chain = int(others.unit[rows[0]]), int(others.step[rows[0]]), int(others.order[0, rows[0]])
        letters, shares = others.letter[rows], others.share[rows]
        actions[unit].setdefault(step, []).append(_happens(chain, letters, shares))
    for entries in pattern_input.entries:
        order = np.lexsort((entries.weight, entries.new, entries.old, entries.chain, entries.step, entries.unit))
        for rows in _runs(order, entries.unit, entries.step, entries.chain):
            unit, step, chain = (int(one[rows[0]]) for one in (entries.unit, entries.step, entries.chain))
            table = cast(
                "Table", tuple(one[rows] for one in (entries.old, entries.new, entries.letter, entries.weight))
            )
            actions[unit].setdefault(step, []).append(_follows(chain, table, entries.values, stays=entries.stays))
    for read in pattern_input.read:
        _posterior(actions, read)
    for steps in actions:
        yield sorted(steps.items())


def _posterior(actions: list[dict[int, list[Doing]]], read: Read) -> None:
    """Add the smoothed Markov chains of chains with readings."""
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
            actions[int(unit)].setdefault(step, []).append(
                _follows(chain, table, np.arange(values), afresh=at == low, stays=True)
            )


def _happens(chain: int, letters: IntArray, shares: FloatArray) -> Doing:
    return lambda worlds: worlds.happens(chain, letters, shares)


def _follows(chain: int, table: Table, names: IntArray, *, afresh: bool = False, stays: bool = False) -> Doing:
    def follow(worlds: Worlds) -> IntArray:
        if afresh:
            worlds.values.pop(chain, None)
        return worlds.follows(chain, table, names, stays)

    return follow


def _runs(order: IntArray, *words: IntArray) -> Iterator[IntArray]:
    """Split sorted rows into runs that agree in all columns."""
    if not len(order):
        return
    new = np.zeros(len(order), bool)
    for word in words:
        new[1:] |= word[order[1:]] != word[order[:-1]]
    yield from np.split(order, np.flatnonzero(new))
