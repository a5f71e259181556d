"""Hidden Markov chains of a stream with a model: the steps of each key, with the likelihoods of their readings.

A key has a step where it has a row. For up to ``patience`` steps after its last row, a step without a row counts as the
reading "nothing was read". After a longer gap the chain restarts from the initial distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa

from perseid.engines.sequence.partition_sort import comparable
from perseid.engines.uncertain.inference import chain_of, likeliest_each, likeliest_path, particle_filter, smoothed
from perseid.engines.uncertain.ordering import begins, by_step, ordered
from perseid.engines.uncertain.passes import Likelihoods, filter_on, look_ahead_all, weigh_all
from perseid.engines.uncertain.reading import Units, hashed, select_values
from perseid.engines.uncertain.streams import LIKELIHOOD, READING, Stream
from perseid.errors import EventDataError
from perseid.runtime.arrays import ArrowColumn, BoolArray, FloatArray, IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.hashing import hash_columns
from perseid.runtime.key_encoding import numbered, read_only
from perseid.semantics import values as v
from perseid.semantics.hashing import hash_values
from perseid.semantics.hidden import HiddenMarkov


@dataclass(frozen=True)
class Chains:
    """The chains of one stream; a gap longer than ``patience`` splits a key into two chains."""

    keys: Mapping[str, ArrowColumn]
    """The key columns, by chain."""
    hashes: IntArray
    """By chain: a hash of its key."""
    offsets: IntArray
    """By chain: offset of its first step."""
    step: IntArray
    """By step: its step number."""
    reading: IntArray
    """By step: a row of the likelihoods."""
    rows: BoolArray
    """By step: True if it has a row."""
    likelihood: FloatArray
    """By reading and value; the last row is uninformative (all ones)."""
    afresh: BoolArray
    """By chain: True if it starts here, False if it continues a retained chain."""
    evaluated: IntArray
    """By chain: the number of its steps to evaluate now; later steps only provide lookahead."""
    before: IntArray
    """By chain: its index among the retained chains, or -1."""

    def some(self, which: IntArray) -> tuple[Chains, IntArray]:
        """Select chains; also return the indices of their steps among all steps."""
        lengths = np.diff(self.offsets)[which]
        offsets = np.append(0, np.cumsum(lengths))
        steps = np.repeat(self.offsets[:-1][which] - offsets[:-1], lengths) + np.arange(offsets[-1])
        by_chain = {name: getattr(self, name)[which] for name in ("hashes", "afresh", "evaluated", "before")}
        by_step = {name: getattr(self, name)[steps] for name in ("step", "reading", "rows")}
        keys = {name: column.take(pa.array(which)) for name, column in self.keys.items()}
        return replace(self, keys=keys, offsets=offsets, **by_chain, **by_step), steps

    @property
    def counted(self) -> BoolArray:
        """By step: True if it is evaluated now."""
        owner = self.owner
        return np.arange(len(owner)) - self.offsets[owner] < self.evaluated[owner]

    @property
    def owner(self) -> IntArray:
        """By step: its chain."""
        return np.repeat(np.arange(len(self.afresh)), np.diff(self.offsets))


@dataclass(frozen=True)
class RetainedChains:
    """Retained chains: key, last step with a row, last evaluated step, and the filtered distribution at that step."""

    keys: Mapping[str, ArrowColumn]
    last: IntArray
    done: IntArray
    belief: FloatArray
    """By chain and value; no columns if the distribution is part of the pattern states."""

    def __len__(self) -> int:
        return len(self.last)


def no_retained_chains(stream: Stream, rows: EventBatch) -> RetainedChains:
    """Return an empty set of retained chains."""
    none = np.zeros(0, np.int64)
    return RetainedChains({name: rows.columns[name].slice(0, 0) for name in stream.of}, none, none, np.zeros((0, 0)))


def chains_of(
    stream: Stream, rows: EventBatch, chosen: IntArray, step: IntArray, retained: RetainedChains, upto: int | None, known: int | None,
    numbered: bool,
) -> Chains:  # fmt: skip
    """Build the chains of a stream's rows, continuing the retained ones.

    ``step`` is the step number of each row. Steps up to ``upto`` are evaluated (None: all); readings are complete up to
    ``known``. If steps are not ``numbered``, there are no gaps between them.
    """
    model = stream.model
    assert model is not None
    key_columns = {name: select_values(rows.columns[name], chosen) for name in stream.of}
    units = Units([list(key_columns.values()), list(retained.keys.values())], [len(chosen), len(retained)])
    codes, old = units.of
    reading_rows, likelihood, silent_reading = _likelihood_rows(stream, model, rows, chosen)
    # Several readings at one step are combined: their likelihoods are multiplied in the order of the table rows.
    which, at = by_step(codes, step)
    likelihood, reading_rows = _multiply_readings(
        likelihood, reading_rows[ordered([which, reading_rows], np.zeros(len(which)))], begins(which, len(at))
    )
    silent_row = len(likelihood) - 1 if silent_reading is None else silent_reading
    retained_index = np.full(len(units), -1, np.int64)
    retained_index[old] = np.arange(len(retained))
    spans = _chain_spans(
        codes[at], step[at], retained, retained_index, stream.patience if numbered else 0, known, numbered
    )
    spans = spans.some(spans.lengths > 0)
    offsets = np.append(0, np.cumsum(spans.lengths))
    offset_in_chain = np.arange(offsets[-1]) - np.repeat(offsets[:-1], spans.lengths)
    whole = np.repeat(spans.first, spans.lengths) + offset_in_chain if numbered else step[at]
    # Positions of the steps with a row; the others are filled with the silent reading.
    owner = np.repeat(np.arange(len(spans.key)), spans.end - spans.begin)
    steps = step[at]
    place = offsets[owner] + steps - spans.first[owner] if numbered else np.arange(len(steps))
    reading, has_row = np.full(len(whole), silent_row, np.int64), np.zeros(len(whole), bool)
    reading[place], has_row[place] = reading_rows, True
    evaluated = spans.lengths
    if upto is not None:
        evaluated = np.diff(np.append(0, np.cumsum(whole <= upto))[offsets])
    return Chains(
        keys={name: column.take(pa.array(spans.key)) for name, column in zip(stream.of, units.keys, strict=True)},
        hashes=hash_columns(units.keys, leading=hash_values([stream.type]), rows=len(units))[spans.key],
        offsets=offsets,
        step=whole,
        reading=reading,
        rows=has_row,
        likelihood=likelihood,
        afresh=spans.kept < 0,
        evaluated=evaluated,
        before=spans.kept,
    )


@dataclass(frozen=True)
class _Spans:
    """Chains as ranges of rows, ordered by key: continued from the retained ones, or started after a long gap."""

    key: IntArray
    kept: IntArray
    """Index among the retained chains, or -1."""
    begin: IntArray
    end: IntArray
    """Range of its rows."""
    first: IntArray
    lengths: IntArray
    """Its first step, and its number of steps, including those without a row."""

    def some(self, chosen: BoolArray) -> _Spans:
        return self if chosen.all() else _Spans(*(getattr(self, one.name)[chosen] for one in fields(self)))


def _chain_spans(
    codes: IntArray,
    steps: IntArray,
    retained: RetainedChains,
    retained_index: IntArray,
    patience: int,
    known: int | None,
    numbered: bool,
) -> _Spans:
    """Split rows, sorted by key and step, into chains; ``retained_index`` is the index of each key's retained chain, or -1."""
    first_row = np.ones(len(codes), bool)
    first_row[1:] = np.diff(codes) != 0
    new = first_row.copy()
    if numbered:
        new[1:] |= np.diff(steps) - 1 > patience
    begin = np.flatnonzero(new)
    end = np.append(begin, len(codes))[1:]
    key = codes[begin]
    retained_at = np.where(first_row[begin], retained_index[key], -1)
    if numbered and len(retained):
        retained_at[steps[begin] - retained.last[retained_at] - 1 > patience] = -1
    # A retained chain without new rows continues with steps that have no reading.
    without_rows = np.setdiff1d(np.flatnonzero(retained_index >= 0), key[retained_at >= 0], assume_unique=True)
    insert_at = np.searchsorted(key, without_rows)
    row = np.append(begin, len(codes))[insert_at]
    key, retained_at = (
        np.insert(key, insert_at, without_rows),
        np.insert(retained_at, insert_at, retained_index[without_rows]),
    )
    begin, end = np.insert(begin, insert_at, row), np.insert(end, insert_at, row)
    if not numbered:
        return _Spans(key, retained_at, begin, end, np.zeros(len(key), np.int64), end - begin)
    empty = begin == end
    done, last = (np.append(one, 0)[retained_at] for one in (retained.done, retained.last))
    rows = np.append(steps, 0)
    newest = np.where(empty, last, rows[end - 1])
    final = newest + patience
    if known is not None:
        final = np.maximum(newest, np.minimum(final, known))
    first = np.where(retained_at >= 0, done + 1, rows[begin])
    return _Spans(key, retained_at, begin, end, first, np.maximum(final - first + 1, 0))


def owners_of(stream: Stream, rows: EventBatch, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """By row: an index of its key; and by index: a hash of the key that is stable across calls."""
    key_columns = [select_values(rows.columns[name], chosen) for name in stream.of]
    return hashed(key_columns, len(chosen), hash_values([stream.type]))


def _likelihood_rows(
    stream: Stream, model: HiddenMarkov, rows: EventBatch, chosen: IntArray
) -> tuple[IntArray, FloatArray, int | None]:
    """By row: its row in the likelihood table; the table, uninformative row last; and the row of "no reading"."""
    uninformative = np.ones((1, len(model.values)))
    column = select_values(rows.columns[LIKELIHOOD], chosen) if LIKELIHOOD in rows.columns else None
    if column is not None and (column.null_count < len(column) or READING not in rows.columns):
        sizes = np.asarray(column.value_lengths().fill_null(0))
        if (sizes != len(model.values)).any():
            size = int(sizes[sizes != len(model.values)][0])
            raise EventDataError(
                f"A row of {stream.type} has {size} likelihoods, but its model has {len(model.values)} values.",
                hint="Use one likelihood for each value of the model, in the order of its values.",
            )
        table = np.asarray(column.flatten()).astype(np.float64).reshape(len(chosen), len(model.values))
        if not (np.isfinite(table).all() and (table >= 0).all()):
            raise EventDataError(f"A likelihood of {stream.type} is negative, infinite or not a number.")
        table, rows_of_table = np.unique(table, axis=0, return_inverse=True)
        if None not in model.readings:
            return rows_of_table.reshape(-1), np.concatenate([table, uninformative]), None
        silent_row = model.emissions[model.codes([None])]
        return rows_of_table.reshape(-1), np.concatenate([table, silent_row, uninformative]), len(table)
    column = comparable(select_values(rows.columns[READING], chosen))
    first, which = numbered([column], len(chosen))
    values = select_values(rows.columns[READING], chosen)
    codes: Mapping[object, int] = {value: i for i, value in enumerate(model.readings)}
    code_of_reading = np.empty(len(first), np.int64)
    for i, row in enumerate(first):
        value = values[int(row)] if isinstance(values, list) else values[int(row)].as_py()
        value = v.plain(value)
        if value not in codes and value is not None:
            raise EventDataError(
                f"Unknown reading {value!r} of {stream.type}.",
                hint=f"Available in its model: {', '.join(map(str, model.readings[:12]))}{', …' if len(model.readings) > 12 else ''}.",
            )
        code_of_reading[i] = codes.get(value, len(model.readings))
    return code_of_reading[which], np.concatenate([model.emissions, uninformative]), codes.get(None)


def _multiply_readings(likelihood: FloatArray, reading_rows: IntArray, begins: IntArray) -> tuple[FloatArray, IntArray]:
    """Multiply the likelihoods of all readings of a step; ``begins`` has the offsets of each step's readings."""
    counts = np.diff(begins)
    uninformative = len(likelihood) - 1
    whole, out = likelihood, reading_rows[begins[:-1]]
    for nth in range(1, int(counts.max(initial=0))):
        several = np.flatnonzero(counts > nth)
        pairs = out[several] * len(likelihood) + reading_rows[begins[several] + nth]
        distinct_pairs, which = np.unique(pairs, return_inverse=True)
        out[several] = len(whole) + which.reshape(-1)
        whole = np.concatenate(
            [whole, whole[distinct_pairs // len(likelihood)] * likelihood[distinct_pairs % len(likelihood)]]
        )
    if len(whole) > len(likelihood):
        # The uninformative row is moved to the end.
        out[out == uninformative] = len(whole)
        whole = np.concatenate([whole, likelihood[-1:]])
    return whole, out


def marginals_of(
    stream: Stream, chains: Chains, retained: RetainedChains, seed: int
) -> tuple[FloatArray, FloatArray, int]:
    """By step and value: the marginal under the stream's inference; the filtered distribution at the last evaluated
    step of each chain; and the number of readings with zero likelihood."""
    model, inference = stream.model, stream.inference
    assert model is not None
    likelihoods = chains.likelihood[chains.reading]
    filtered, impossible = _filtered(model, chains, retained)
    ignored, belief = int(impossible.sum()), _last_marginals(chains, filtered)
    if inference.name == "particles":
        shares = particle_filter(model, likelihoods, chains.offsets, inference.number, chains.hashes ^ np.int64(seed))
        return shares.marginals, belief, int(shares.impossible.sum())
    if inference.name == "viterbi":
        path = likeliest_path(model, likelihoods, chains.offsets)
        return _chosen(path.path, len(model.values)), belief, int(path.impossible.sum())
    marginals = filtered
    if inference.name == "lag":
        weigh_all(marginals, _lookahead(stream, chains, filtered, impossible))
    elif inference.name == "smooth":
        marginals = smoothed(model, likelihoods, chains.offsets).marginals
    elif inference.name == "likeliest":
        marginals = _chosen(likeliest_each(filtered), len(model.values))
    return marginals, belief, ignored


def lookahead_of(stream: Stream, chains: Chains, retained: RetainedChains) -> tuple[FloatArray, FloatArray]:
    """By step and value: the likelihood of the readings within the lag, up to a factor; and the filtered distribution
    at the last evaluated step of each chain. Readings with zero likelihood are ignored."""
    assert stream.model is not None
    filtered, impossible = _filtered(stream.model, chains, retained)
    return _lookahead(stream, chains, filtered, impossible), _last_marginals(chains, filtered)


def _lookahead(stream: Stream, chains: Chains, filtered: FloatArray, impossible: BoolArray) -> FloatArray:
    assert stream.model is not None
    weights = np.empty_like(filtered)
    evidence = Likelihoods(read_only(chains.likelihood), chains.reading, chains.offsets)
    look_ahead_all(chain_of(stream.model), evidence, filtered, impossible, stream.inference.number, weights)
    return weights


def _last_marginals(chains: Chains, filtered: FloatArray) -> FloatArray:
    """The filtered distribution at the last evaluated step of each chain."""
    last = chains.offsets[:-1] + np.maximum(chains.evaluated, 1) - 1
    return filtered[last].copy() if len(last) else filtered


def _filtered(model: HiddenMarkov, chains: Chains, retained: RetainedChains) -> tuple[FloatArray, BoolArray]:
    """Filtered distribution of each step, continuing retained chains; and True for readings with zero likelihood."""
    begin = np.zeros((len(chains.afresh), len(model.values)))
    continues = chains.before >= 0
    begin[continues] = retained.belief[chains.before[continues]] if len(retained) else 0.0
    marginals = np.empty((len(chains.step), len(model.values)))
    impossible = np.zeros(len(chains.step), np.bool_)
    likelihoods = np.ascontiguousarray(chains.likelihood[chains.reading])
    filter_on(chain_of(model), likelihoods, chains.offsets, chains.afresh, begin, marginals, impossible)
    return marginals, impossible


def _chosen(path: IntArray, values: int) -> FloatArray:
    """One-hot distributions for one value per step."""
    out = np.zeros((len(path), values))
    out[np.arange(len(path)), path] = 1.0
    return out
