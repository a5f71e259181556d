"""The operators of a network of queries: each maps the deltas of its inputs to the delta of its output.

All changes of a transaction propagate at once, and each operator runs after its inputs. So no operator processes an
intermediate state, and a match that a transaction removes and adds again is neither lost nor found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perseid.engines.models.deltas import Changed, Delta, Key, KeyedRows, Row, add, columns, merged, row_of
from perseid.semantics.values import Value


class Operator(Protocol):
    """``inputs`` are the numbers of earlier operators; ``step`` takes their deltas in that order."""

    @property
    def inputs(self) -> tuple[int, ...]: ...

    @property
    def step(self) -> Callable[..., Delta | Changed]: ...


class Project:
    """Maps every row to another."""

    def __init__(self, source: int, function: Callable[[Row], Row]) -> None:
        self.inputs = (source,)
        self.function = function

    def step(self, delta: Delta) -> Delta:
        out: Delta = {}
        function = self.function
        for row, weight in delta.items():
            projected = function(row)
            if projected in out:
                add(out, projected, weight)
            else:
                out[projected] = weight
        return out


class Filter:
    """Rows that satisfy a condition."""

    def __init__(self, source: int, predicate: Callable[[Row], bool]) -> None:
        self.inputs = (source,)
        self.predicate = predicate

    def step(self, delta: Delta) -> Delta:
        predicate = self.predicate
        return {row: weight for row, weight in delta.items() if predicate(row)}


class Join:
    """Equi-join of two relations; the right one adds the columns at ``adds``.

    The key and ``adds`` cover all columns of the right relation, so each output row has one source row on each side.
    """

    def __init__(self, left: int, right: int, left_key: Key, right_key: Key, adds: tuple[int, ...]) -> None:
        self.inputs = (left, right)
        self.left = KeyedRows(left_key)
        self.right = KeyedRows(right_key)
        self.adds = row_of(adds)

    def step(self, left: Delta, right: Delta) -> Delta:
        out: Delta = {}
        adds = self.adds
        if left:
            key, rows = self.left.key, self.right.rows
            for row, weight in left.items():
                for other, times in rows.get(key(row), _NONE).items():
                    out[row + adds(other)] = weight * times
            self.left.update(left)
        if right:
            # After the update of the left index: new rows of both sides are joined here, and only here.
            key, rows = self.right.key, self.left.rows
            for other, times in right.items():
                new = adds(other)
                for row, weight in rows.get(key(other), _NONE).items():
                    add(out, row + new, weight * times)
            self.right.update(right)
        return out


class AntiJoin:
    """Rows of the left relation with a key that no row of the right one has."""

    def __init__(self, left: int, right: int, left_key: Key, right_key: Key) -> None:
        self.inputs = (left, right)
        self.left = KeyedRows(left_key)
        self.right_key = right_key
        self.against: dict[object, int] = {}

    def step(self, left: Delta, right: Delta) -> Delta:
        out: Delta = {}
        against = self.against
        changes: dict[object, int] = {}
        for row, weight in right.items():
            at = self.right_key(row)
            changes[at] = changes.get(at, 0) + weight
        for at, change in changes.items():
            before = against.get(at, 0)
            now = before + change
            if now:
                against[at] = now
            else:
                against.pop(at, None)
            if (before == 0) != (now == 0):
                sign = -1 if before == 0 else 1
                for row, weight in self.left.rows.get(at, _NONE).items():
                    add(out, row, sign * weight)
        key = self.left.key
        for row, weight in left.items():
            if key(row) not in against:
                add(out, row, weight)
        self.left.update(left)
        return out


class Union:
    """Union of relations with the same columns; weights are added."""

    def __init__(self, sources: tuple[int, ...]) -> None:
        self.inputs = sources

    def step(self, *deltas: Delta) -> Delta:
        return merged(deltas)


class Distinct:
    """Each row once, whatever its number of derivations."""

    def __init__(self, source: int) -> None:
        self.inputs = (source,)
        self.weights: Delta = {}

    def step(self, delta: Delta) -> Delta:
        out: Delta = {}
        weights = self.weights
        for row, weight in delta.items():
            before = weights.get(row, 0)
            now = before + weight
            if now:
                weights[row] = now
            else:
                del weights[row]
            if before == 0:
                out[row] = 1
            elif now == 0:
                out[row] = -1
        return out


class Lookup:
    """Extends every row by the value of its key: an attribute of a node, or the aggregate of a group."""

    def __init__(self, left: int, values: int, key: Key, results: dict[object, Value], default: Value) -> None:
        self.inputs = (left, values)
        self.left = KeyedRows(key)
        self.results = results
        self.default = default

    def step(self, left: Delta, changed: Changed) -> Delta:
        out: Delta = {}
        for at, (old, new) in changed.items() if changed else ():
            for row, weight in self.left.rows.get(at, _NONE).items():
                add(out, (*row, old), -weight)
                add(out, (*row, new), weight)
        if left:
            key, results, default = self.left.key, self.results, self.default
            valued = {(*row, results.get(key(row), default)): weight for row, weight in left.items()}
            out = merged((out, valued))
            self.left.update(left)
        return out


class Product(Join):
    """Cross product of two relations."""

    def __init__(self, left: int, right: int, adds: tuple[int, ...]) -> None:
        super().__init__(left, right, columns(()), columns(()), adds)


_NONE: Delta = {}
