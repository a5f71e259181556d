"""Incremental aggregates over the matches of a call: count, sum, minimum, maximum and others."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Protocol

from perseid.engines.models.deltas import Changed, Delta, Key, Row
from perseid.engines.models.ranks import Sortable, rank
from perseid.semantics import values as v
from perseid.semantics.exact_sums import ExactSum
from perseid.semantics.graphs import canonical
from perseid.semantics.model_values import aggregate
from perseid.semantics.values import Value


class Accumulator(Protocol):
    """Aggregate state of one group."""

    def add(self, value: Value, weight: int) -> None: ...

    def value(self) -> Value: ...


class Aggregates:
    """Aggregate value of each group of a relation's rows; ``results`` has the values of nonempty groups."""

    def __init__(
        self,
        source: int,
        key: Key,
        argument: Callable[[Row], Value] | None,
        create: Callable[[], Accumulator],
        default: Value,
    ) -> None:
        self.inputs = (source,)
        self.key = key
        self.argument = argument
        self.create = create
        self.default = default
        self.groups: dict[object, Accumulator] = {}
        self.sizes: dict[object, int] = {}
        self.results: dict[object, Value] = {}

    def step(self, delta: Delta) -> Changed:
        touched: dict[object, None] = {}
        for row, weight in delta.items():
            at = self.key(row)
            touched[at] = None
            group = self.groups.get(at)
            if group is None:
                group = self.groups[at] = self.create()
            value = None if self.argument is None else self.argument(row)
            group.add(value, weight)
            self.sizes[at] = self.sizes.get(at, 0) + weight
        changed: Changed = {}
        for at in touched:
            old = self.results.get(at, self.default)
            if self.sizes[at] == 0:
                del self.sizes[at], self.groups[at]
                self.results.pop(at, None)
                new = self.default
            else:
                new = self.results[at] = self.groups[at].value()
            if new != old or type(new) is not type(old):
                changed[at] = (old, new)
        return changed


class Count:
    """Number of matches."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, value: Value, weight: int) -> None:
        self.count += weight

    def value(self) -> int:
        return self.count


class Sum:
    """Exact sum of integers and doubles, so that values can be subtracted again."""

    __slots__ = ("doubles", "empty_value", "integers", "others", "total")

    def __init__(self, empty_value: Value) -> None:
        self.empty_value = empty_value
        self.total = 0
        self.integers = 0
        self.doubles = ExactSum()
        self.others = Several("sum", empty_value)

    def add(self, value: Value, weight: int) -> None:
        if type(value) is int:
            self.total += weight * value
            self.integers += weight
        elif isinstance(value, float):
            self.doubles.add(value, weight)
        elif value is not None:
            self.others.add(value, weight)

    def value(self) -> Value:
        if self.others.counts:
            return self.others.value()
        if self.doubles.count:
            return canonical(self.doubles.value())
        return v.integer(self.total) if self.integers else self.empty_value


class Extreme:
    """Minimum or maximum: sorted values with the multiplicity of each."""

    __slots__ = ("counts", "greatest", "ranks")

    def __init__(self, greatest: bool) -> None:
        self.greatest = greatest
        self.counts: dict[Sortable, tuple[Value, int]] = {}
        self.ranks: list[Sortable] = []

    def add(self, value: Value, weight: int) -> None:
        if value is None:
            return
        place = rank(value)
        _, before = self.counts.get(place, (value, 0))
        if before == 0:
            insort(self.ranks, place)
        if before + weight == 0:
            del self.counts[place]
            self.ranks.pop(bisect_left(self.ranks, place))
        else:
            self.counts[place] = (value, before + weight)

    def value(self) -> Value:
        return self.counts[self.ranks[-1 if self.greatest else 0]][0] if self.ranks else None


class Several:
    """Any other aggregate: stores all values and recomputes when the group changes."""

    __slots__ = ("counts", "empty_value", "function")

    def __init__(self, function: str, empty_value: Value) -> None:
        self.function = function
        self.empty_value = empty_value
        self.counts: dict[Value, int] = {}

    def add(self, value: Value, weight: int) -> None:
        if value is None:
            return
        total = self.counts.get(value, 0) + weight
        if total:
            self.counts[value] = total
        else:
            del self.counts[value]

    def value(self) -> Value:
        values = [x for x, times in self.counts.items() for _ in range(times)]
        return canonical(aggregate(self.function, values, self.empty_value))


def accumulator(function: str, empty_value: Value) -> Callable[[], Accumulator]:
    """Return the accumulator factory of a function; ``empty_value`` is the result for a group without values."""
    match function:
        case "count":
            return Count
        case "sum":
            return lambda: Sum(empty_value)
        case "min" | "max":
            greatest = function == "max"
            return lambda: Extreme(greatest)
    return lambda: Several(function, empty_value)
