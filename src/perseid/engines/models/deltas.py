"""Sets of rows with weights, and what changes in them: what flows through the network of a set of queries.

A relation is a set of rows, each with a weight: how many ways there are to it. A change of a relation is such a set
too, in which weights may be negative. Everything below is written for changes, so its cost follows what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, TypeAlias

from perseid.semantics.values import Value

Row: TypeAlias = "tuple[Value, ...]"
Delta: TypeAlias = "dict[Row, int]"
Changed: TypeAlias = "dict[object, tuple[Value, Value]]"
"""Values by key that are others now: the old one and the new one."""
Key: TypeAlias = "Callable[[Row], object]"


def add(delta: Delta, row: Row, weight: int) -> None:
    """A row that is taken away as often as it is added is not there."""
    total = delta.get(row, 0) + weight
    if total:
        delta[row] = total
    else:
        del delta[row]


def merged(deltas: Iterable[Delta]) -> Delta:
    """The sum of several changes; a single one as it is."""
    given = [delta for delta in deltas if delta]
    if len(given) == 1:
        return given[0]
    total: Delta = {}
    for delta in given:
        for row, weight in delta.items():
            add(total, row, weight)
    return total


class Index:
    """The rows of a relation by a key, kept as it changes."""

    __slots__ = ("key", "rows")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.rows: dict[object, Delta] = {}

    def update(self, delta: Delta) -> None:
        rows, key = self.rows, self.key
        for row, weight in delta.items():
            at = key(row)
            held = rows.get(at)
            if held is None:
                rows[at] = {row: weight}
            elif row not in held:
                held[row] = weight
            else:
                add(held, row, weight)
                if not held:
                    del rows[at]


def columns(places: tuple[int, ...]) -> Callable[[Row], Any]:
    """The values at some places of a row: the value itself where there is one place."""
    return itemgetter(*places) if places else _nothing


def row_of(places: tuple[int, ...]) -> Callable[[Row], Row]:
    """A row of the values at some places."""
    if len(places) == 1:
        place = places[0]
        return lambda row: (row[place],)
    return columns(places)


def _nothing(row: Row) -> Row:
    return ()
