"""The answers of one pattern to the rows of a call: exact, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.codes import key_codes
from perseid.engines.contract import Rows
from perseid.engines.uncertain.exact import Weights, move
from perseid.engines.uncertain.plan import Asked
from perseid.engines.uncertain.reading import Reader, unit_columns
from perseid.engines.uncertain.streams import Streams
from perseid.engines.uncertain.traces import NEVER, lots, material


@dataclass(frozen=True)
class Answers:
    """By group and step: the probability that the pattern is completed. Those of 0 are left out."""

    row: Any
    """A row that has the group's key."""
    step: Any
    probability: Any
    error: Any
    """By how much it may be off."""


def exactly(asked: Asked, streams: Streams, reader: Reader, rows: Rows) -> tuple[Answers, Any, int]:
    """The answers where all rows have come; and rows that are no distribution, and how many readings cannot be."""
    found = material(asked, streams, reader, rows)
    count = len(found.units)
    told: list[tuple[Any, Any, Any, Any]] = []
    impossible = found.impossible
    for lot in lots(found, count, np.full(count, NEVER)):
        given = Weights.fresh(len(lot.groups), lot.values)
        moved = move(reader.automaton, lot.mode, lot.steps, lot.hidden, given, values=lot.values, prune=streams.prune)
        impossible += moved.impossible
        unit = np.repeat(lot.groups, np.diff(lot.steps.offsets))
        lost = np.repeat(moved.lost, np.diff(lot.steps.offsets))
        seen = moved.told > 0
        told.append((unit[seen], lot.step[seen], moved.told[seen], lost[seen]))
    unit, step, probability, error = (np.concatenate(parts) for parts in zip(*told, strict=True))
    answers = combined(asked, rows, found.units[unit], found.hashes[unit], step, probability, error)
    return answers, found.bad, impossible


def combined(asked: Asked, rows: Rows, row: Any, hashes: Any, step: Any, probability: Any, error: Any) -> Answers:
    """For anyone: true for one binding at least, which are independent (section 3.2)."""
    if asked.groups == len(asked.unit):
        return Answers(row, step, probability, error)
    columns = [column.take(pa.array(row)) for column in unit_columns(rows, asked.unit[: asked.groups])]
    return _anyone(columns, row, hashes, step, probability, error)


def _anyone(columns: Sequence[Any], row: Any, hashes: Any, step: Any, probability: Any, error: Any) -> Answers:
    codes, _ = key_codes(columns, len(row))
    order = np.lexsort((hashes, step, codes))  # so that products are taken in the same order in every call
    codes, row, step, probability, error = (one[order] for one in (codes, row, step, probability, error))
    new = np.ones(len(row), bool)
    new[1:] = (codes[1:] != codes[:-1]) | (step[1:] != step[:-1])
    at = np.flatnonzero(new)
    if not len(at):
        return Answers(row, step, probability, error)
    none = np.multiply.reduceat(1.0 - probability, at)
    return Answers(row[at], step[at], 1.0 - none, np.add.reduceat(error, at))
