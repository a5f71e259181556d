"""Decimal bounds of the numbers that equal a constant when read as doubles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction


@dataclass(frozen=True)
class Bound:
    """A decimal number: 0.d1d2d3… times ten to the power of its point; a sign of 2 or -2 is beyond all numbers."""

    sign: int
    point: int = 0
    digits: bytes = b""


def bounds_of(value: int | Decimal) -> tuple[Bound, Bound, bool]:
    """Return the bounds of the numbers that read as a constant, and whether the bounds do (ties go to even)."""
    number = float(value)
    low, high = _between(math.nextafter(number, -math.inf), number), _between(number, math.nextafter(number, math.inf))
    return low, high, _is_even(number)


def _between(lower: float, upper: float) -> Bound:
    if lower == -math.inf and upper == -math.inf:
        return Bound(-2)
    if lower == math.inf and upper == math.inf:
        return Bound(2)
    return _decimal((_fraction(lower) + _fraction(upper)) / 2)


def _fraction(number: float) -> Fraction:
    """Return the exact value of a double; infinity counts as the double that would follow the largest one."""
    return Fraction(2**1024 if number > 0 else -(2**1024)) if math.isinf(number) else Fraction(number)


def _decimal(number: Fraction) -> Bound:
    if number == 0:
        return Bound(0)
    sign = 1 if number > 0 else -1
    # A denominator that is a power of two: as many decimal places as its exponent are exact.
    places = number.denominator.bit_length() - 1
    digits = str(abs(number.numerator) * 10**places // number.denominator)
    return Bound(sign, len(digits) - places, bytes(map(int, digits.rstrip("0"))))


def _is_even(number: float) -> bool:
    """Return whether the last bit of the mantissa is 0. Infinity counts as even: a tie rounds up to it."""
    if math.isinf(number):
        return True
    exponent = max(math.frexp(number)[1] - 53, -1074)
    return int(Fraction(number) / Fraction(2) ** exponent) % 2 == 0
