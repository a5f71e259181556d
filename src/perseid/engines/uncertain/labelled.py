"""Training data for learning: the readings of each step, and the true values where they are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perseid.engines.uncertain.chains import chains_of, no_retained_chains
from perseid.engines.uncertain.streams import Stream
from perseid.engines.uncertain.traces import steps_of
from perseid.errors import EventDataError, UnsupportedError, nearest
from perseid.runtime.arrays import IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.semantics import values as v
from perseid.semantics.hidden import UNKNOWN


@dataclass(frozen=True)
class LabelledTraces:
    """Concatenated traces; a gap longer than ``patience`` splits a key into two traces."""

    codes: IntArray
    """The reading: a row of the model's emissions, or -1."""
    hidden: IntArray
    """The true value: its number, or -1."""
    offsets: IntArray


def labelled_steps(stream: Stream, every: int | None, rows: EventBatch, truth: str | None) -> LabelledTraces:
    """Convert a stream's rows to steps. A trace ends with its last row: later missing readings are not in the data."""
    model = stream.model
    assert model is not None
    if not len(rows):
        raise EventDataError("No rows to learn from.", hint="Add rows with readings.")
    if truth is not None and len(stream.about) > 1:
        raise UnsupportedError(
            f"truth= names one column, but {stream.type} has {len(stream.about)} uncertain columns.",
            hint="Remove truth=….",
        )
    step = steps_of(rows, every)
    chains = chains_of(
        stream, rows, np.arange(len(rows)), step, no_retained_chains(stream, rows), None, None, every is not None
    )
    if len(chains.likelihood) > len(model.readings) + 1:
        raise UnsupportedError(
            "Some steps have several readings, but learning needs at most one for each step.",
            hint="Use a shorter step, every='…', or one reading for each step.",
        )
    starts, last = chains.offsets[:-1], np.flatnonzero(chains.rows)
    ends = last[np.searchsorted(last, chains.offsets[1:]) - 1] + 1
    indices = np.concatenate([np.arange(low, high) for low, high in zip(starts, ends, strict=True)])
    readings = chains.reading[indices]
    hidden = np.full(len(indices), UNKNOWN)
    if truth is not None:
        owner = np.repeat(np.arange(len(starts)), ends - starts)
        true_values = _true_values(stream, rows, step, truth)
        keys = [column.to_pylist() for column in chains.keys.values()]
        trace_keys = [tuple(v.identity(v.plain(column[chain])) for column in keys) for chain in range(len(starts))]
        steps = chains.step[indices]
        hidden = np.array(
            [true_values.get((trace_keys[own], int(at)), UNKNOWN) for own, at in zip(owner, steps, strict=True)]
        )
    return LabelledTraces(
        np.where(readings < len(model.readings), readings, UNKNOWN), hidden, np.append(0, np.cumsum(ends - starts))
    )


def _true_values(
    stream: Stream, rows: EventBatch, step: IntArray, truth: str
) -> dict[tuple[tuple[object, ...], int], int]:
    """By key and step: the number of the true value."""
    assert stream.model is not None
    numbers = {v.identity(v.plain(value)): number for number, value in enumerate(stream.model.values)}
    columns = [rows.columns[name].to_pylist() for name in stream.of]
    out: dict[tuple[tuple[object, ...], int], int] = {}
    for row, value in enumerate(rows.columns[truth].to_pylist()):
        if value is None:
            continue
        number = numbers.get(v.identity(v.plain(value)))
        if number is None:
            raise EventDataError(
                f"Column {truth!r} contains {value!r}, which is not a value of the model.",
                hint="Use an initial model with this value.",
                nearest=nearest(str(value), [str(one) for one in stream.model.values]),
            )
        key = tuple(v.identity(v.plain(column[row])) for column in columns)
        if out.setdefault((key, int(step[row])), number) != number:
            raise EventDataError(f"Column {truth!r} has two values at one step.", hint="Use a shorter step, every='…'.")
    return out
