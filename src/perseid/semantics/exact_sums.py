"""Sums of doubles that do not hang on the order of adding, and from which what was added can be taken away."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_SCALE = 1074
"""Every finite double is a whole number of the smallest one, two to the power of minus this."""
_UNIT = 1 << _SCALE


@dataclass(slots=True)
class ExactSum:
    """The true sum as a whole number of smallest doubles; what is not finite is counted beside it."""

    total: int = 0
    count: int = 0
    upwards: int = 0
    downwards: int = 0
    unknown: int = 0

    def add(self, value: float, weight: int = 1) -> None:
        """``weight`` times a value; minus one takes it away again."""
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
        """The double nearest to the true sum; as IEEE has it where infinities or NaN are in it."""
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
