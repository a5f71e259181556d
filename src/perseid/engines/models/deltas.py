"""Weighted row sets (Z-sets) and their deltas, which flow through the network of a set of queries.

A relation maps each row to a weight: the number of its derivations. A delta of a relation is such a map too, with
weights that may be negative. Operators process deltas, so their cost is proportional to the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, TypeAlias

from perseid.semantics.values import Value

Row: TypeAlias = "tuple[Value, ...]"
Delta: TypeAlias = "dict[Row, int]"
Changed: TypeAlias = "dict[object, tuple[Value, Value]]"
"""Old and new value by key, for values that changed."""
Key: TypeAlias = "Callable[[Row], object]"


def add(delta: Delta, row: Row, weight: int) -> None:
    """Add a weight to a row; a row with weight zero is removed."""
    total = delta.get(row, 0) + weight
    if total:
        delta[row] = total
    else:
        del delta[row]


def merged(deltas: Iterable[Delta]) -> Delta:
    """Return the sum of several deltas; a single nonempty one is returned as it is."""
    nonempty = [delta for delta in deltas if delta]
    if len(nonempty) == 1:
        return nonempty[0]
    total: Delta = {}
    for delta in nonempty:
        for row, weight in delta.items():
            add(total, row, weight)
    return total


class KeyedRows:
    """Rows of a relation by key, updated by deltas."""

    __slots__ = ("key", "rows")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.rows: dict[object, Delta] = {}

    def update(self, delta: Delta) -> None:
        rows, key = self.rows, self.key
        for row, weight in delta.items():
            at = key(row)
            weights = rows.get(at)
            if weights is None:
                rows[at] = {row: weight}
            elif row not in weights:
                weights[row] = weight
            else:
                add(weights, row, weight)
                if not weights:
                    del rows[at]


def columns(places: tuple[int, ...]) -> Callable[[Row], Any]:
    """Return a getter of the values at some places of a row: the bare value for one place, else a tuple."""
    return itemgetter(*places) if places else _no_columns


def row_of(places: tuple[int, ...]) -> Callable[[Row], Row]:
    """Return a function that projects a row to some places."""
    if len(places) == 1:
        place = places[0]
        return lambda row: (row[place],)
    return columns(places)


def _no_columns(row: Row) -> Row:
    return ()
