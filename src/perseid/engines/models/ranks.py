"""Sort keys of values: numbers by size with NaN above all, null below everything."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from datetime import date, datetime
from typing import TypeAlias

from perseid.semantics.model_queries import Match
from perseid.semantics.model_values import ordered
from perseid.semantics.values import EPOCH, MICROSECOND, Value, midnight

Sortable: TypeAlias = "tuple[object, ...]"
"""Parts are compared only with parts at the same index and of the same type."""


def rank(value: Value) -> Sortable:
    """Return a sort key that orders like values of one type, and is equal for equal values."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, date):
        return (1, (midnight(value) - EPOCH) // MICROSECOND)
    return (1, value)


def in_order(matches: Collection[Match]) -> Iterable[Match]:
    """Sort matches in the order of the oracle, which for integers and strings is Python's."""
    if len(matches) < 2:
        return matches
    kinds = [set(map(type, column)) for column in zip(*matches, strict=True)]
    if all(len(kind) == 1 and kind <= _PLAIN for kind in kinds):
        return sorted(matches)
    return ordered(matches)


class Backwards:
    """Inverts the order of a key that cannot be negated."""

    __slots__ = ("inside",)

    def __init__(self, inside: Sortable) -> None:
        self.inside = inside

    def __lt__(self, other: Backwards) -> bool:
        return bool(other.inside < self.inside)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backwards) and other.inside == self.inside

    def __hash__(self) -> int:
        return hash(self.inside)


def downwards(value: Value) -> Sortable:
    """Return a sort key with the reverse order of :func:`rank`."""
    if type(value) is int:
        return (-1, -value)
    if isinstance(value, datetime):
        return (-1, -((value - EPOCH) // MICROSECOND))
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (-2,) if math.isnan(value) else (-1, -value)
    return (-1, Backwards(rank(value)))


_PLAIN = frozenset({int, str})
