"""Moving windows and angles over arrays, with the same results as for single frames."""

from __future__ import annotations

import math
from typing import Any

from perseid.runtime.jit import jit
from perseid.semantics.functions import DEGREES


@jit
def window_start(row: int, low: int, first: Any, time: Any, count: int, micros: int) -> int:
    """Return the first row of the window that ends at ``row``; ``low`` is that of the previous row, or ``row`` itself.

    A window has at most ``count`` rows, or if that is 0, those of the last ``micros`` microseconds.
    """
    if count > 0:
        return int(max(first[row], row - count + 1))
    limit = time[row] - micros
    low = max(low, first[row])
    while time[low] <= limit:
        low += 1
    while low > first[row] and time[low - 1] > limit:
        low -= 1
    return low


SUM, MEAN, COUNT = 0, 1, 2


@jit
def moving_totals(
    values: Any,
    missing: Any,
    first: Any,
    time: Any,
    start: int,
    count: int,
    micros: int,
    function: int,
    out: Any,
    none: Any,
) -> bool:
    """Write the sum (oldest value first), mean or number of known values of the window of each row from ``start`` on.

    ``none`` marks windows without a known value; it is valid only if the function returns true, for at least one.
    """
    low = start
    anywhere = False
    if count > 0 and len(missing) == 0 and function != COUNT:  # fast path of the usual case, without checks
        for place in range(len(out)):
            row = start + place
            total = 0.0
            begin = max(first[row], row - count + 1)
            for at in range(begin, row + 1):
                total += values[at]
            out[place] = total if function == SUM else total / (row + 1 - begin)
        return False
    for place in range(len(out)):
        row = start + place
        low = window_start(row, low, first, time, count, micros)
        total, known = 0.0, 0
        for at in range(low, row + 1):
            if len(missing) == 0 or not missing[at]:
                total += values[at]
                known += 1
        none[place] = known == 0
        anywhere = anywhere or known == 0
        out[place] = known if function == COUNT else total if function == SUM or known == 0 else total / known
    return anywhere


@jit
def moving_extremes(
    values: Any,
    missing: Any,
    first: Any,
    time: Any,
    start: int,
    count: int,
    micros: int,
    greatest: bool,
    best: Any,
    none: Any,
) -> bool:
    """Write the minimum or maximum of the window of each row from ``start`` on, NaN above all; ``none`` as for totals."""
    low = start
    anywhere = False
    for place in range(len(best)):
        row = start + place
        low = window_start(row, low, first, time, count, micros)
        known = 0
        found = values[row]
        for at in range(low, row + 1):
            if len(missing) == 0 or not missing[at]:
                one = values[at]
                above = one > found or (math.isnan(one) and not math.isnan(found))
                below = one < found or (math.isnan(found) and not math.isnan(one))
                if known == 0 or (above if greatest else below):
                    found = one
                known += 1
        best[place] = found
        none[place] = known == 0
        anywhere = anywhere or known == 0
    return anywhere


@jit
def angles(points: Any, out: Any, missing: Any) -> None:
    """Compute the function ``angle`` of every row, by the same steps as :mod:`perseid.semantics.functions`."""
    ax, ay, bx, by, cx, cy = points
    for row in range(len(out)):
        ux, uy = ax[row] - bx[row], ay[row] - by[row]
        wx, wy = cx[row] - bx[row], cy[row] - by[row]
        cross, dot = abs(ux * wy - uy * wx), ux * wx + uy * wy
        none = (cross == 0.0 and dot == 0.0) or not (math.isfinite(cross) and math.isfinite(dot))
        missing[row] = none
        out[row] = 0.0 if none else math.atan2(cross, dot) * DEGREES
