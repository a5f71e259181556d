"""Readings of a stream with a model, chain by chain: every step that a key has, silent ones too, and what they say.

A key has a step where it has a row. For as long as its stream is patient, silence is a reading too: that nothing was read.
After a longer one the chain begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.codes import key_codes, read_only
from perseid.engines.contract import Rows
from perseid.engines.hashing import hash_columns
from perseid.engines.sequence.arrangement import comparable
from perseid.engines.uncertain.inference import chain_of, likeliest_each, likeliest_path, particle_filter, smoothed
from perseid.engines.uncertain.passes import Evidence, filter_on, look_ahead_all, weigh_all
from perseid.engines.uncertain.reading import Units, taken
from perseid.engines.uncertain.streams import LIKELIHOOD, READING, Stream
from perseid.errors import EventDataError
from perseid.semantics import values as v
from perseid.semantics.hashing import hash_values
from perseid.semantics.hidden import HiddenMarkov


@dataclass(frozen=True)
class Chains:
    """The chains of one stream: those of a key that was silent for too long are two."""

    keys: Mapping[str, Any]
    """The columns of their key, by chain."""
    hashes: Any
    """By chain: a hash of its key."""
    offsets: Any
    """By chain: where its steps begin."""
    step: Any
    """By step: its number."""
    reading: Any
    """By step: a row of the likelihoods."""
    rows: Any
    """By step: whether it has a row; others are silent."""
    likelihood: Any
    """By reading and value; the last row says nothing."""
    afresh: Any
    """By chain: whether it begins here, and does not go on from what is kept."""
    told: Any
    """By chain: how many of its steps count now; those behind them only say what comes."""
    before: Any
    """By chain: where what is kept of it is, or -1."""


@dataclass(frozen=True)
class Lives:
    """What is kept of chains: their key, their last step with a row, the last that counted, and what was known then."""

    keys: Mapping[str, Any]
    last: Any
    done: Any
    belief: Any
    """By chain and value; without columns where only patterns ask for it."""

    def __len__(self) -> int:
        return len(self.last)


def no_lives(stream: Stream, rows: Rows) -> Lives:
    """That nothing is kept."""
    none = np.zeros(0, np.int64)
    return Lives({name: rows.columns[name].slice(0, 0) for name in stream.of}, none, none, np.zeros((0, 0)))


def chains_of(
    stream: Stream, rows: Rows, chosen: Any, step: Any, kept: Lives, upto: int | None, known: int | None, numbered: bool
) -> Chains:
    """The chains of a stream's rows, and of what is kept of earlier ones.

    ``step`` has the numbers of the rows' steps. Steps count up to ``upto``, all where it is None; readings are there up to
    ``known``. Where steps are not ``numbered``, no time lies between two.
    """
    model = stream.model
    assert model is not None
    own = {name: taken(rows.columns[name], chosen) for name in stream.of}
    units = Units([list(own.values()), list(kept.keys.values())], [len(chosen), len(kept)])
    codes, old = units.of
    said, likelihood, quiet = _said(stream, model, rows, chosen)
    # Several readings of one step are one: what they say is multiplied, in the order of what was read.
    order = np.lexsort((said, step, codes))
    codes, steps, said = codes[order], step[order], said[order]
    new_step = np.ones(len(order), bool)
    new_step[1:] = (codes[1:] != codes[:-1]) | (steps[1:] != steps[:-1])
    at = np.flatnonzero(new_step)
    likelihood, said = _together(likelihood, said, at)
    codes, steps = codes[at], steps[at]
    silence = len(likelihood) - 1 if quiet is None else quiet
    by_key = np.append(np.searchsorted(codes, np.arange(len(units))), len(codes))
    places = np.full(len(units), -1, np.int64)
    places[old] = np.arange(len(kept))
    patience = stream.patience if numbered else 0
    pieces = _Pieces()
    for key in range(len(units)):
        low, high = by_key[key], by_key[key + 1]
        place = int(places[key])
        last = int(kept.last[place]) if place >= 0 else None
        done = int(kept.done[place]) if place >= 0 else None
        pieces.add(key, place, last, done, steps[low:high], said[low:high], patience, upto, known, silence, numbered)
    of = np.array(pieces.keys, np.int64)
    lengths = np.array([len(one) for one in pieces.steps], np.int64)
    return Chains(
        keys={name: column.take(pa.array(of)) for name, column in zip(stream.of, units.keys, strict=True)},
        hashes=hash_columns(
            [key.take(pa.array(of)) for key in units.keys], leading=hash_values([stream.type]), rows=len(of)
        ),
        offsets=np.append(0, np.cumsum(lengths)),
        step=np.concatenate([np.zeros(0, np.int64), *pieces.steps]),
        reading=np.concatenate([np.zeros(0, np.int64), *pieces.said]),
        rows=np.concatenate([np.zeros(0, bool), *pieces.rows]),
        likelihood=likelihood,
        afresh=np.array(pieces.afresh, bool),
        told=np.array(pieces.told, np.int64),
        before=np.array(pieces.before, np.int64),
    )


class _Pieces:
    """Chains as they are put together, one key after the other."""

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.steps: list[Any] = []
        self.said: list[Any] = []
        self.rows: list[Any] = []
        self.afresh: list[bool] = []
        self.told: list[int] = []
        self.before: list[int] = []

    def add(
        self, key: int, place: int, last: int | None, done: int | None, steps: Any, said: Any, patience: int,
        upto: int | None, known: int | None, silence: int, numbered: bool,
    ) -> None:  # fmt: skip
        """The chains of one key: what goes on from what is kept, and what begins after a silence that was too long."""
        gap = np.diff(steps) - 1 if numbered else np.zeros(max(len(steps) - 1, 0), np.int64)
        cuts = np.flatnonzero(gap > patience) + 1
        runs = list(zip(np.split(steps, cuts), np.split(said, cuts), strict=True)) if len(steps) else []
        if last is not None:
            goes_on = bool(runs) and (not numbered or int(runs[0][0][0]) - last - 1 <= patience)
            if not goes_on:
                runs.insert(0, (steps[:0], said[:0]))
        for number, (own, read) in enumerate(runs):
            kept = number == 0 and last is not None
            first = (done if kept and done is not None else int(own[0]) - 1) + 1
            newest = int(own[-1]) if len(own) else last
            assert newest is not None
            final = newest + patience
            final = final if known is None else max(newest, min(final, known))
            if numbered:
                whole = np.arange(first, final + 1)
                filled = np.full(len(whole), silence, np.int64)
                filled[own - first] = read
            else:
                whole, filled = own, read
            there = np.isin(whole, own)
            counted = len(whole) if upto is None else int(np.searchsorted(whole, upto, side="right"))
            if not len(whole):
                continue
            self.keys.append(key)
            self.steps.append(whole)
            self.said.append(filled)
            self.rows.append(there)
            self.afresh.append(not kept)
            self.told.append(counted)
            self.before.append(place if kept else -1)


def owner_hashes(stream: Stream, rows: Rows, chosen: Any) -> Any:
    """By row a hash of whose it is, the same in every call."""
    own = [taken(rows.columns[name], chosen) for name in stream.of]
    return hash_columns(own, leading=hash_values([stream.type]), rows=len(chosen))


def _said(stream: Stream, model: HiddenMarkov, rows: Rows, chosen: Any) -> tuple[Any, Any, int | None]:
    """By row what it says, as a row of the likelihoods; these, the last of which says nothing; and which of them silence is."""
    nothing = np.ones((1, len(model.values)))
    column = taken(rows.columns[LIKELIHOOD], chosen) if LIKELIHOOD in rows.columns else None
    if column is not None and (column.null_count < len(column) or READING not in rows.columns):
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
        if None not in model.readings:
            return said.reshape(-1), np.concatenate([table, nothing]), None
        quiet = model.emissions[model.codes([None])]
        return said.reshape(-1), np.concatenate([table, quiet, nothing]), len(table)
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
    return found[which], np.concatenate([model.emissions, nothing]), known.get(None)


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


def marginals_of(stream: Stream, chains: Chains, kept: Lives, seed: int) -> tuple[Any, Any, int]:
    """By step and value: how probable it is by itself, as the stream's inference has it; what is known at the last step of each
    chain that counts; and how many readings cannot be."""
    model, way = stream.model, stream.inference
    assert model is not None
    seen = chains.likelihood[chains.reading]
    known, impossible = _filtered(model, chains, kept)
    passed_over, belief = int(impossible.sum()), _last(chains, known)
    if way.name == "particles":
        shares = particle_filter(model, seen, chains.offsets, way.number, chains.hashes ^ np.int64(seed))
        return shares.marginals, belief, int(shares.impossible.sum())
    if way.name == "viterbi":
        path = likeliest_path(model, seen, chains.offsets)
        return _chosen(path.path, len(model.values)), belief, int(path.impossible.sum())
    found = known
    if way.name == "lag":
        weigh_all(found, _ahead(stream, chains, known, impossible))
    elif way.name == "smooth":
        found = smoothed(model, seen, chains.offsets).marginals
    elif way.name == "likeliest":
        found = _chosen(likeliest_each(known), len(model.values))
    return found, belief, passed_over


def looked_ahead(stream: Stream, chains: Chains, kept: Lives) -> tuple[Any, Any]:
    """By step and value: how probable it makes what is read in the steps that are waited for, up to a factor; and what is known
    at the last step of each chain that counts. Readings that cannot be say nothing."""
    assert stream.model is not None
    known, impossible = _filtered(stream.model, chains, kept)
    return _ahead(stream, chains, known, impossible), _last(chains, known)


def _ahead(stream: Stream, chains: Chains, known: Any, impossible: Any) -> Any:
    assert stream.model is not None
    weights = np.empty_like(known)
    said = Evidence(read_only(chains.likelihood), chains.reading, chains.offsets)
    look_ahead_all(chain_of(stream.model), said, known, impossible, stream.inference.number, weights)
    return weights


def _last(chains: Chains, known: Any) -> Any:
    """What is known at the last step of each chain that counts."""
    last = chains.offsets[:-1] + np.maximum(chains.told, 1) - 1
    return known[last].copy() if len(last) else known


def _filtered(model: HiddenMarkov, chains: Chains, kept: Lives) -> tuple[Any, Any]:
    """What is known at each step by the readings up to it, going on from what was known before; and which of them cannot be."""
    begin = np.zeros((len(chains.afresh), len(model.values)))
    goes_on = chains.before >= 0
    begin[goes_on] = kept.belief[chains.before[goes_on]] if len(kept) else 0.0
    marginals = np.empty((len(chains.step), len(model.values)))
    impossible = np.zeros(len(chains.step), np.bool_)
    seen = np.ascontiguousarray(chains.likelihood[chains.reading])
    filter_on(chain_of(model), seen, chains.offsets, chains.afresh, begin, marginals, impossible)
    return marginals, impossible


def _chosen(path: Any, values: int) -> Any:
    """One value a step, as if it were certain."""
    out = np.zeros((len(path), values))
    out[np.arange(len(path)), path] = 1.0
    return out
