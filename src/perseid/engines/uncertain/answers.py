"""The answers of one pattern to the rows of a call: exact, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.codes import key_codes
from perseid.engines.contract import Rows
from perseid.engines.uncertain.exact import Weights, move
from perseid.engines.uncertain.joint import joint_lot
from perseid.engines.uncertain.plan import Asked
from perseid.engines.uncertain.reading import Reader, unit_columns
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import NEVER, lots, material


@dataclass(frozen=True)
class Answers:
    """By group and step, in this order: the probability that the pattern is completed."""

    group: Any
    """Equal for steps of one group."""
    row: Any
    """A row that has the group's key."""
    step: Any
    probability: Any
    error: Any
    """By how much it may be off."""
    expected: Any = None
    """How many ways are to be expected, where that was asked; NaN where nobody knows."""


def exactly(asked: Asked, streams: Streams, reader: Reader, rows: Rows) -> tuple[Answers, Any, int]:
    """The answers where all rows have come; and rows that are no distribution, and how many readings cannot be."""
    found = material(asked, streams, reader, rows)
    count = len(found.units)
    told: list[tuple[Any, Any, Any, Any]] = []
    impossible = found.impossible
    last = np.full(count, NEVER)
    single = asked.is_single(streams)
    for lot in lots(found, count, last) if single else [joint_lot(found, count, last, reader.automaton)]:
        given = Weights.fresh(len(lot.groups), lot.values)
        moved = move(reader.automaton, lot.mode, lot.steps, lot.hidden, given, values=lot.values, prune=streams.prune)
        impossible += moved.impossible
        unit = np.repeat(lot.groups, np.diff(lot.steps.offsets))
        lost = np.repeat(moved.lost, np.diff(lot.steps.offsets))
        told.append((unit, lot.step, moved.told, lost))
    unit, step, probability, error = (np.concatenate(parts) for parts in zip(*told, strict=True))
    answers = combined(asked, rows, found.units[unit], found.hashes[unit], step, probability, error)
    return answers, found.bad, impossible


def combined(asked: Asked, rows: Rows, row: Any, hashes: Any, step: Any, probability: Any, error: Any) -> Answers:
    """In order; and for anyone where bindings are independent queries: true for one of them at least (section 3.2)."""
    columns = [column.take(pa.array(row)) for column in unit_columns(rows, asked.unit[: asked.groups])]
    codes, _ = key_codes(columns, len(row))
    order = np.lexsort((hashes, step, codes))  # so that products are taken in the same order in every call
    codes, row, step, probability, error = (one[order] for one in (codes, row, step, probability, error))
    new = np.ones(len(row), bool)
    new[1:] = (codes[1:] != codes[:-1]) | (step[1:] != step[:-1])
    at = np.flatnonzero(new)
    if len(at) == len(row):
        return Answers(codes, row, step, probability, error)
    none = np.multiply.reduceat(1.0 - probability, at)
    return Answers(codes[at], row[at], step[at], 1.0 - none, np.add.reduceat(error, at))
