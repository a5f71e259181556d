"""Exact sums of doubles: independent of the order of addition, and values can be retracted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_SCALE = 1074
"""Every finite double is an integer multiple of two to the power of minus this."""
_UNIT = 1 << _SCALE


@dataclass(slots=True)
class ExactSum:
    """The exact sum as a multiple of the smallest double; non-finite values are counted separately."""

    total: int = 0
    count: int = 0
    upwards: int = 0
    downwards: int = 0
    unknown: int = 0

    def add(self, value: float, weight: int = 1) -> None:
        """Add ``weight`` times a value; a weight of minus one retracts it."""
        self.count += weight
        if math.isfinite(value):
            numerator, denominator = value.as_integer_ratio()
            self.total += weight * numerator * (_UNIT // denominator)
        elif math.isnan(value):
            self.unknown += weight
        elif value > 0:
            self.upwards += weight
        else:
            self.downwards += weight

    def value(self) -> float:
        """Return the double nearest to the exact sum; infinities and NaN follow IEEE 754."""
        if self.unknown or (self.upwards and self.downwards):
            return math.nan
        if self.upwards or self.downwards:
            return math.inf if self.upwards else -math.inf
        try:
            return self.total / _UNIT
        except OverflowError:
            return math.inf if self.total > 0 else -math.inf

    def mean(self) -> float:
        return self.value() / self.count


def exact_sum(values: Iterable[float]) -> ExactSum:
    found = ExactSum()
    for value in values:
        found.add(value)
    return found
