"""Readings of a stream with a model, chain by chain: every step that a key has, silent ones too, and what they say.

A key has a step where it has a row. For as long as its stream is patient, silence is a reading too: that nothing was read.
After a longer one the chain begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perseid.engines.codes import key_codes
from perseid.engines.contract import Rows
from perseid.engines.hashing import hash_columns
from perseid.engines.sequence.arrangement import comparable
from perseid.engines.uncertain.inference import (
    filtered,
    lagged,
    likeliest_each,
    likeliest_path,
    particle_filter,
    smoothed,
)
from perseid.engines.uncertain.reading import taken
from perseid.engines.uncertain.streams import LIKELIHOOD, READING, Stream
from perseid.errors import EventDataError
from perseid.semantics import values as v
from perseid.semantics.hashing import hash_values
from perseid.semantics.hidden import HiddenMarkov


@dataclass(frozen=True)
class Chains:
    """The chains of one stream: those of a key that was silent for too long are two."""

    rows: Any
    """By chain: a row that has its key."""
    hashes: Any
    """By chain: a hash of its key."""
    offsets: Any
    """By chain: where its steps begin."""
    step: Any
    """By step: its number."""
    reading: Any
    """By step: a row of the likelihoods."""
    likelihood: Any
    """By reading and value; the last row says nothing."""


def chains_of(stream: Stream, rows: Rows, chosen: Any, step: Any) -> Chains:
    """The chains of a stream's rows; ``step`` has the numbers of their steps."""
    model = stream.model
    assert model is not None
    keys = [comparable(taken(rows.columns[name], chosen)) for name in stream.of]
    codes, _ = key_codes(keys, len(chosen))
    hashes = owner_hashes(stream, rows, chosen)
    said, likelihood = _said(stream, model, rows, chosen)
    # Several readings of one step are one: what they say is multiplied, in the order of what was read.
    order = np.lexsort((said, step, codes))
    codes, steps, said = codes[order], step[order], said[order]
    new_step = np.ones(len(order), bool)
    new_step[1:] = (codes[1:] != codes[:-1]) | (steps[1:] != steps[:-1])
    at = np.flatnonzero(new_step)
    likelihood, said = _together(likelihood, said, at)
    codes, steps, first = codes[at], steps[at], order[at]
    gap = np.zeros(len(at), np.int64)
    gap[1:] = np.where(codes[1:] == codes[:-1], steps[1:] - steps[:-1] - 1, 0)
    begins = np.ones(len(at), bool)
    begins[1:] = (codes[1:] != codes[:-1]) | (gap[1:] > stream.patience)
    gap = np.where(begins, 0, gap)
    # Silent steps before each step, with what silence says.
    silence = model.codes([None])[0] if None in model.readings else len(likelihood) - 1
    lengths = gap + 1
    ends = np.cumsum(lengths)
    reading = np.full(int(ends[-1]) if len(ends) else 0, silence, np.int64)
    reading[ends - 1] = said
    whole = np.repeat(steps - gap, lengths) + (np.arange(len(reading)) - np.repeat(ends - lengths, lengths))
    starts = np.flatnonzero(begins)
    offsets = np.append((ends - lengths)[starts], len(reading))
    return Chains(chosen[first[starts]], hashes[first[starts]], offsets, whole, reading, likelihood)


def owner_hashes(stream: Stream, rows: Rows, chosen: Any) -> Any:
    """By row a hash of whose it is, the same in every call."""
    own = [taken(rows.columns[name], chosen) for name in stream.of]
    return hash_columns(own, leading=hash_values([stream.type]), rows=len(chosen))


def _said(stream: Stream, model: HiddenMarkov, rows: Rows, chosen: Any) -> tuple[Any, Any]:
    """By row what it says, as a row of the likelihoods; and these, the last of which says nothing."""
    nothing = np.ones((1, len(model.values)))
    if LIKELIHOOD in rows.columns and rows.columns[LIKELIHOOD].null_count < len(rows):
        column = taken(rows.columns[LIKELIHOOD], chosen)
        sizes = np.asarray(column.value_lengths().fill_null(0))
        if (sizes != len(model.values)).any():
            wrong = int(sizes[sizes != len(model.values)][0])
            raise EventDataError(
                f"A row of {stream.type} has {wrong} likelihoods, and its model {len(model.values)} values.",
                hint="Give one for each value of the model, in its order.",
            )
        table = np.asarray(column.flatten()).astype(np.float64).reshape(len(chosen), len(model.values))
        if not (np.isfinite(table).all() and (table >= 0).all()):
            raise EventDataError(f"A likelihood of {stream.type} is negative, infinite or no number.")
        table, said = np.unique(table, axis=0, return_inverse=True)
        return said.reshape(-1), np.concatenate([table, nothing])
    column = comparable(taken(rows.columns[READING], chosen))
    codes, _ = key_codes([column], len(chosen))
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    values = taken(rows.columns[READING], chosen)
    known: Mapping[Any, int] = {value: i for i, value in enumerate(model.readings)}
    found = np.empty(len(first), np.int64)
    for i, row in enumerate(first):
        value = values[int(row)] if isinstance(values, list) else values[int(row)].as_py()
        value = v.plain(value)
        if value not in known and value is not None:
            raise EventDataError(
                f"{value!r} was read of {stream.type}, and its model knows no such reading.",
                hint=f"It knows: {', '.join(map(str, model.readings[:12]))}{', …' if len(model.readings) > 12 else ''}.",
            )
        found[i] = known.get(value, len(model.readings))
    return found[which], np.concatenate([model.emissions, nothing])


def _together(likelihood: Any, said: Any, at: Any) -> tuple[Any, Any]:
    """What the readings of each step say together."""
    ends = np.append(at[1:], len(said))
    several = np.flatnonzero(ends - at > 1)
    out = said[at]
    if not len(several):
        return likelihood, out
    made: dict[tuple[int, ...], Any] = {}
    for i in several:
        own = tuple(int(code) for code in said[at[i] : ends[i]])
        made[own] = np.multiply.reduce(likelihood[list(own)], axis=0)
    whole = np.concatenate([likelihood[:-1], np.stack(list(made.values())), likelihood[-1:]])
    out[out == len(likelihood) - 1] = len(whole) - 1
    numbers = {own: len(likelihood) - 1 + i for i, own in enumerate(made)}
    for i in several:
        out[i] = numbers[tuple(int(code) for code in said[at[i] : ends[i]])]
    return whole, out


def marginals_of(stream: Stream, chains: Chains, seed: int) -> tuple[Any, int]:
    """By step and value: how probable it is by itself, as the stream's inference has it; and readings that cannot be."""
    model, way = stream.model, stream.inference
    assert model is not None
    seen = chains.likelihood[chains.reading]
    if way.name == "particles":
        seeds = chains.hashes ^ np.int64(seed)
        shares = particle_filter(model, seen, chains.offsets, way.number, seeds)
        return shares.marginals, int(shares.impossible.sum())
    if way.name == "viterbi":
        path = likeliest_path(model, seen, chains.offsets)
        return _chosen(path.path, len(model.values)), int(path.impossible.sum())
    if way.name == "lag":
        known = lagged(model, seen, chains.offsets, way.number)
    else:
        known = (smoothed if way.name == "smooth" else filtered)(model, seen, chains.offsets)
    found = _chosen(likeliest_each(known.marginals), len(model.values)) if way.name == "likeliest" else known.marginals
    return found, int(known.impossible.sum())


def _chosen(path: Any, values: int) -> Any:
    """One value a step, as if it were certain."""
    out = np.zeros((len(path), values))
    out[np.arange(len(path)), path] = 1.0
    return out
