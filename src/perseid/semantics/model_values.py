"""Values of model queries: scope of expressions in a row, aggregates, moving windows, and the order of matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from perseid.semantics import values as v
from perseid.semantics.exact_sums import exact_sum
from perseid.semantics.functions import FUNCTIONS
from perseid.semantics.graphs import canonical
from perseid.semantics.model_queries import Match, Moving
from perseid.semantics.values import Value


@dataclass(frozen=True, slots=True)
class RowScope:
    """Scope of an expression in a row: each name is a variable, or an attribute of a variable's node."""

    value: Callable[[tuple[str, ...]], object]

    def ref(self, parts: tuple[str, ...]) -> object:
        return self.value(parts)

    def rounds(self, names: frozenset[str]) -> Iterable[RowScope]:
        return ()

    def is_step(self, name: str) -> bool:
        return False

    def param(self, name: str) -> object:
        return None

    def relation(self, name: str) -> None:
        return None

    def time(self, step: str | None) -> None:
        return None

    def event_type(self, step: str | None) -> None:
        return None


def moving_value(window: Moving, history: Sequence[Value]) -> Value:
    """Return the value of a moving window over its values, oldest first; null without any."""
    known = [value for value in history if value is not None]
    if window.function == "moving_count":
        return len(known)
    if not known:
        return None
    if window.function in ("moving_avg", "moving_sum"):
        # Sum in sequence, oldest first: windows are short, and an array of windows is summed in the same order.
        total = 0.0
        for value in known:
            total += float(value)  # type: ignore[arg-type]
        return canonical(total if window.function == "moving_sum" else total / len(known))
    best = known[0]
    for value in known[1:]:
        order = v.compare(value, best)
        if order is not None and (order > 0) == (window.function == "moving_max") and order:
            best = value
    return best


def aggregate(function: str, values: Sequence[Value], empty_value: Value) -> Value:
    """Aggregate the non-null values; ``empty_value`` is the result if there are none.

    A sum of doubles is the double nearest to the exact sum, so it does not depend on the order, and values can be
    retracted.
    """
    known = [value for value in values if value is not None]
    if not known:
        return empty_value
    doubles = [value for value in known if isinstance(value, float)]
    if function in ("sum", "avg") and known and len(doubles) == len(known):
        total = exact_sum(doubles)
        return total.value() if function == "sum" else total.mean()
    return FUNCTIONS[function].run(known)


def ordered(matches: Iterable[Match]) -> list[Match]:
    """Sort matches by their values, nulls first."""
    return sorted(matches, key=match_key)


def match_key(values: Sequence[Value]) -> list[object]:
    """Return the sort key of a match."""
    return [order_key(value) for value in values]


def compare_values(left: Value, right: Value) -> int:
    if left is None or right is None:
        return (left is not None) - (right is not None)
    found = v.compare(left, right)
    if found is None:
        # Values of different types, which the type check prevents: order by type name to have a total order.
        a, b = type(left).__name__, type(right).__name__
        return (a > b) - (a < b)
    return found


order_key = cmp_to_key(compare_values)
