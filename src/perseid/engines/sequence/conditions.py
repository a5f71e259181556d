"""Evaluates formulas, the bytecode of expressions over a thread's events, on a small stack.

Every value is an int64 or a double with a null flag. Types are static, so that each opcode handles one of the two.
Nothing raises: overflow, a zero divisor and unbound steps are null, as in :mod:`perseid.semantics.values`.
"""

from __future__ import annotations

import math

import numpy as np

from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled

LARGEST = 2**63 - 1
SMALLEST = -(2**63)
DAY = 86_400_000_000
NAN = float("nan")


@compiled
def add_overflows(a: int, b: int) -> bool:
    return (b > 0 and a > LARGEST - b) or (b < 0 and a < SMALLEST - b)


@compiled
def product_overflows(a: int, b: int) -> bool:
    if a == 0 or b == 0:
        return False
    if a == SMALLEST or b == SMALLEST:
        return not (a == 1 or b == 1)
    whole = LARGEST // abs(b)
    if abs(a) <= whole:
        return False
    # minus 2^63 fits, plus 2^63 does not
    return not ((a < 0) != (b < 0) and abs(a) == whole + 1 and LARGEST % abs(b) == abs(b) - 1)


@compiled
def compare_doubles(a: float, b: float) -> int:
    """Return -1, 0 or 1; NaN equals itself and is greater than every number."""
    if a != a or b != b:
        return int(a != a) - int(b != b)
    return int(a > b) - int(a < b)


@compiled
def remainder(a: int, b: int) -> int:
    """The remainder with the sign of the dividend, as in SQL."""
    if b == -1:
        return 0
    r = a % b
    return r - b if r != 0 and (a < 0) != (b < 0) else r


@compiled
def remainder_double(a: float, b: float) -> float:
    if a != a or b != b or math.isinf(a):
        return NAN
    return float(np.fmod(a, b))


@compiled
def outside(condition: int, at: int, own: int) -> int:
    """Evaluate a condition without an opcode: the reference evaluator in plain Python, unused if compiled."""
    return -1


@compiled
def load(M: Arrays, column: int, position: int, sp: int) -> None:
    """Push a column's value of an event; null if ``position`` is negative (unbound)."""
    t, e, w, r = M.tables, M.events, M.space, M.reals
    if position < 0 or (e[E_NULLS, position] >> column) & 1:
        w[w[A_NULLS] + sp] = 1
        return
    w[w[A_NULLS] + sp] = 0
    if t[t[S_FAMILIES] + column] == DOUBLE:
        r[sp] = M.doubles[column, position]
    else:
        w[w[A_STACK] + sp] = int(e[E_COLUMNS + column, position])


@compiled
def total(M: Arrays, at: int, slot: int, sp: int) -> None:
    """Push a running total."""
    t, w, r = M.tables, M.space, M.reals
    row = t[S_TOTAL_TABLE] + slot * TOTAL_WIDTH
    function = t[row + T_FUNCTION]
    ints = (w[at + TOTALS] * t[S_TOTALS] + slot) * TOTAL_INTS
    doubles = (w[at + TOTALS] * t[S_TOTALS] + slot) * TOTAL_DOUBLES
    count = w[w[A_TOTALS] + ints]
    if function == TOTAL_EVENTS or function == TOTAL_COUNT:
        w[w[A_NULLS] + sp] = 0
        w[w[A_STACK] + sp] = int(count)
        return
    if function == TOTAL_FIRST or function == TOTAL_LAST:
        load(M, t[row + T_COLUMN], count - 1, sp)
        return
    w[w[A_NULLS] + sp] = 1
    if count == 0:
        return
    if function == TOTAL_SUM:
        # Stored in two halves, so that only the sum itself can overflow, not an intermediate result.
        low, high = int(w[w[A_TOTALS] + ints + 1]), int(w[w[A_TOTALS] + ints + 2])
        high += low >> 32
        if -(2**31) <= high < 2**31:
            w[w[A_NULLS] + sp] = 0
            w[w[A_STACK] + sp] = high * 2**32 + (low & (2**32 - 1))
    elif function == TOTAL_SUM_DOUBLE:
        w[w[A_NULLS] + sp] = 0
        r[sp] = r[STACK + doubles]
    elif function == TOTAL_AVERAGE:
        w[w[A_NULLS] + sp] = 0
        r[sp] = r[STACK + doubles] / count
    elif function == TOTAL_MIN or function == TOTAL_MAX:
        w[w[A_NULLS] + sp] = 0
        if t[row + T_FAMILY] == DOUBLE:
            r[sp] = r[STACK + doubles]
        else:
            w[w[A_STACK] + sp] = int(w[w[A_TOTALS] + ints + 1])
    elif function == TOTAL_STDDEV:
        if count > 1:
            w[w[A_NULLS] + sp] = 0
            squares = r[STACK + doubles + 1]
            r[sp] = math.sqrt(squares / (count - 1)) if squares >= 0 else NAN
    elif function == TOTAL_ANY:
        w[w[A_NULLS] + sp] = 0
        w[w[A_STACK] + sp] = int(w[w[A_TOTALS] + ints + 1] > 0)
    elif function == TOTAL_EVERY:
        w[w[A_NULLS] + sp] = 0
        w[w[A_STACK] + sp] = int(w[w[A_TOTALS] + ints + 1] == count)


@compiled
def compare_values(M: Arrays, column: int, p: int, q: int) -> int:
    """Return -1, 0 or 1 for a column's values of two events."""
    t, e = M.tables, M.events
    if t[t[S_FAMILIES] + column] == DOUBLE:
        return compare_doubles(M.doubles[column, p], M.doubles[column, q])
    a, b = e[E_COLUMNS + column, p], e[E_COLUMNS + column, q]
    return int(a > b) - int(a < b)


@compiled
def number_at(M: Arrays, column: int, position: int) -> float:
    """Return a numeric column's value of an event as a double."""
    t = M.tables
    if t[t[S_FAMILIES] + column] == DOUBLE:
        return M.doubles[column, position]
    return float(M.events[E_COLUMNS + column, position])


@compiled
def sift_down(M: Arrays, column: int, root: int, size: int) -> None:
    """Move the root of a heap of positions below the entries with larger values."""
    w = M.space
    heap = w[A_TAKEN] + K_SORTED
    moved = w[heap + TAKEN_WIDTH * root]
    child = 2 * root + 1
    while child < size:
        if child + 1 < size:
            left, right = w[heap + TAKEN_WIDTH * child], w[heap + TAKEN_WIDTH * (child + 1)]
            if compare_values(M, column, left, right) < 0:
                child += 1
        larger = w[heap + TAKEN_WIDTH * child]
        if compare_values(M, column, larger, moved) <= 0:
            break
        w[heap + TAKEN_WIDTH * root] = larger
        root = child
        child = 2 * root + 1
    w[heap + TAKEN_WIDTH * root] = moved


@compiled
def percentile(M: Arrays, at: int, step: int, column: int, fraction: float, sp: int) -> None:
    """Push a percentile of a column over the events of a step, interpolated between the two closest ranks.

    A heap of the positions is taken apart down to these ranks, so that no order of the events takes quadratic time.
    """
    e, w, r = M.events, M.space, M.reals
    heap = w[A_TAKEN] + K_SORTED
    size = 0
    for k in range(w[at + COUNT]):
        entry = w[A_TAKEN] + TAKEN_WIDTH * k
        position = w[entry + K_POSITION]
        if w[entry + K_STEP] == step and not (e[E_NULLS, position] >> column) & 1:
            w[heap + TAKEN_WIDTH * size] = position
            size += 1
    w[C_STEPS] += size >> CHEAP_SHIFT
    w[w[A_NULLS] + sp] = 1 if size == 0 else 0
    if size == 0:
        return
    for k in range(size // 2):
        sift_down(M, column, size // 2 - 1 - k, size)
    rank = (size - 1) * fraction
    low, high = math.floor(rank), math.ceil(rank)
    while size > high + 1:
        size -= 1
        w[heap] = w[heap + TAKEN_WIDTH * size]
        sift_down(M, column, 0, size)
    upper = w[heap]
    if low < high:
        w[heap] = w[heap + TAKEN_WIDTH * high]
        sift_down(M, column, 0, high)
    lower = w[heap]
    value = number_at(M, column, lower)
    if compare_values(M, column, lower, upper) != 0:
        # Same order of operations as Spark, so that the last bit agrees.
        value = (high - rank) * value + (rank - low) * number_at(M, column, upper)
    r[sp] = value + 0.0  # zero has no sign


@compiled
def add_to_totals(M: Arrays, slots: int, step: int, position: int) -> None:
    """Add one more event to the totals of a step."""
    t, e, w, r = M.tables, M.events, M.space, M.reals
    row = t[S_STEP_TABLE] + step * STEP_WIDTH
    first = t[row + ST_TOTALS]
    for k in range(first, first + t[row + ST_TOTALS_COUNT]):
        slot = t[k]
        total_row = t[S_TOTAL_TABLE] + slot * TOTAL_WIDTH
        function, column = t[total_row + T_FUNCTION], t[total_row + T_COLUMN]
        ints = (slots * t[S_TOTALS] + slot) * TOTAL_INTS
        doubles = (slots * t[S_TOTALS] + slot) * TOTAL_DOUBLES
        if function == TOTAL_EVENTS:
            w[w[A_TOTALS] + ints] += 1
            continue
        if function == TOTAL_FIRST:
            if w[w[A_TOTALS] + ints] == 0:
                w[w[A_TOTALS] + ints] = position + 1
            continue
        if function == TOTAL_LAST:
            w[w[A_TOTALS] + ints] = position + 1
            continue
        if (e[E_NULLS, position] >> column) & 1:
            continue
        w[w[A_TOTALS] + ints] += 1
        count = w[w[A_TOTALS] + ints]
        double = t[t[S_FAMILIES] + column] == DOUBLE
        if function == TOTAL_SUM:
            value = int(e[E_COLUMNS + column, position])
            w[w[A_TOTALS] + ints + 1] += value & (2**32 - 1)
            w[w[A_TOTALS] + ints + 2] += value >> 32
        elif function == TOTAL_SUM_DOUBLE or function == TOTAL_AVERAGE:
            r[STACK + doubles] += M.doubles[column, position] if double else float(e[E_COLUMNS + column, position])
        elif function == TOTAL_MIN or function == TOTAL_MAX:
            sign = 1 if function == TOTAL_MAX else -1
            if double:
                value_d = M.doubles[column, position]
                if count == 1 or compare_doubles(value_d, r[STACK + doubles]) * sign > 0:
                    r[STACK + doubles] = value_d
            else:
                value = int(e[E_COLUMNS + column, position])
                if count == 1 or (value > w[w[A_TOTALS] + ints + 1] if sign > 0 else value < w[w[A_TOTALS] + ints + 1]):
                    w[w[A_TOTALS] + ints + 1] = value
        elif function == TOTAL_STDDEV:
            x = M.doubles[column, position] if double else float(e[E_COLUMNS + column, position])
            delta = x - r[STACK + doubles]
            part = delta / count
            r[STACK + doubles] += part
            r[STACK + doubles + 1] += delta * (delta - part)
        elif e[E_COLUMNS + column, position] != 0:  # any, every
            w[w[A_TOTALS] + ints + 1] += 1


@compiled
def evaluate(M: Arrays, formula: int, at: int, own: int) -> int:
    """Evaluate a formula: 1, 0, or -1 for null; its value is left at the bottom of the stack."""
    t, e, w, sd = M.tables, M.events, M.space, M.reals
    si, sn = w[A_STACK], w[A_NULLS]
    i = formula
    sp = -1
    while True:
        op, a, b = t[i], t[i + 1], t[i + 2]
        i += FORMULA_WIDTH
        if op == F_END:
            if w[sn + 0]:
                return -1
            return 1 if w[si + 0] != 0 else 0
        if op <= F_PREV:
            sp += 1
            if op == F_OWN:
                load(M, a, own, sp)
            elif op == F_CURRENT:
                load(M, b, w[at + t[S_CURRENT] + a], sp)
            elif op == F_INT:
                w[sn + sp] = 0
                w[si + sp] = int(t[a])
            elif op == F_DOUBLE:
                w[sn + sp] = 0
                sd[sp] = M.constants[a]
            elif op == F_NULL:
                w[sn + sp] = 1
            elif op == F_UNIFIED:
                where = at + t[S_UNIFIED] + 2 * a
                load(M, w[where + 1], w[where], sp)
            elif op == F_OWN_TIME:
                w[sn + sp] = 0 if own >= 0 else 1
                if own >= 0:
                    w[si + sp] = int(e[E_TIME, own])
            elif op == F_TIME:
                position = w[at + t[S_CURRENT] + a]
                w[sn + sp] = 0 if position >= 0 else 1
                if position >= 0:
                    w[si + sp] = int(e[E_TIME, position])
            elif op == F_TOTAL:
                total(M, at, a, sp)
            elif op == F_PERCENTILE:  # b packs column and constant
                percentile(M, at, a, b & 255, M.constants[b >> 8], sp)
            else:  # F_PREV: the value some iterations before the last; b packs column and offset
                k, remaining, position = w[at + COUNT] - 1, b >> 8, -1
                while k >= 0:
                    if w[w[A_TAKEN] + TAKEN_WIDTH * (k) + K_STEP] == a:
                        if remaining == 0:
                            position = w[w[A_TAKEN] + TAKEN_WIDTH * (k) + K_POSITION]
                            break
                        remaining -= 1
                    k -= 1
                load(M, b & 255, position, sp)
            continue
        if op <= F_ABS_D:
            if w[sn + sp]:
                continue
            if op == F_NOT:
                w[si + sp] = 1 if w[si + sp] == 0 else 0
            elif op == F_TO_DOUBLE:
                sd[sp] = float(w[si + sp])
            elif op == F_NEG_D:
                sd[sp] = -sd[sp]
            elif op == F_ABS_D:
                sd[sp] = abs(sd[sp])
            elif op == F_TO_TIMESTAMP:
                w[si + sp] = w[si + sp] * DAY
            elif w[si + sp] == SMALLEST:
                w[sn + sp] = 1
            elif op == F_NEG:
                w[si + sp] = -w[si + sp]
            else:
                w[si + sp] = abs(w[si + sp])
        elif op == F_AND:
            sp -= 1
            x = -1 if w[sn + sp] else (1 if w[si + sp] != 0 else 0)
            y = -1 if w[sn + sp + 1] else (1 if w[si + sp + 1] != 0 else 0)
            w[sn + sp] = 0
            if x == 0 or y == 0:
                w[si + sp] = 0
            elif x < 0 or y < 0:
                w[sn + sp] = 1
            else:
                w[si + sp] = 1
        elif op == F_OR:
            sp -= 1
            x = -1 if w[sn + sp] else (1 if w[si + sp] != 0 else 0)
            y = -1 if w[sn + sp + 1] else (1 if w[si + sp + 1] != 0 else 0)
            w[sn + sp] = 0
            if x == 1 or y == 1:
                w[si + sp] = 1
            elif x < 0 or y < 0:
                w[sn + sp] = 1
            else:
                w[si + sp] = 0
        elif op == F_IS_NULL:
            w[si + sp] = 1 if w[sn + sp] else 0
            w[sn + sp] = 0
        elif op == F_IS_TRUE:
            w[si + sp] = 1 if not w[sn + sp] and w[si + sp] != 0 else 0
            w[sn + sp] = 0
        elif op == F_IS_FALSE:
            w[si + sp] = 1 if not w[sn + sp] and w[si + sp] == 0 else 0
            w[sn + sp] = 0
        elif op == F_IF:  # condition, then, else
            sp -= 2
            k = sp + 1 if not w[sn + sp] and w[si + sp] != 0 else sp + 2
            w[sn + sp] = w[sn + k]
            w[si + sp] = w[si + k]
            sd[sp] = sd[k]
        elif op == F_SAME or op == F_SAME_D:
            sp -= 1
            if w[sn + sp] or w[sn + sp + 1]:
                w[si + sp] = 1 if w[sn + sp] and w[sn + sp + 1] else 0
            elif op == F_SAME:
                w[si + sp] = 1 if w[si + sp] == w[si + sp + 1] else 0
            else:
                w[si + sp] = 1 if compare_doubles(sd[sp], sd[sp + 1]) == 0 else 0
            w[sn + sp] = 0
        elif op == F_PYTHON:
            sp += 1
            truth = outside(a, at, own)
            w[sn + sp] = 1 if truth < 0 else 0
            w[si + sp] = truth
        else:
            sp -= 1
            if w[sn + sp] or w[sn + sp + 1]:
                w[sn + sp] = 1
            elif op == F_EQ:
                w[si + sp] = 1 if w[si + sp] == w[si + sp + 1] else 0
            elif op == F_LT:
                w[si + sp] = 1 if w[si + sp] < w[si + sp + 1] else 0
            elif op == F_LE:
                w[si + sp] = 1 if w[si + sp] <= w[si + sp + 1] else 0
            elif op == F_EQ_D:
                w[si + sp] = 1 if compare_doubles(sd[sp], sd[sp + 1]) == 0 else 0
            elif op == F_LT_D:
                w[si + sp] = 1 if compare_doubles(sd[sp], sd[sp + 1]) < 0 else 0
            elif op == F_LE_D:
                w[si + sp] = 1 if compare_doubles(sd[sp], sd[sp + 1]) <= 0 else 0
            elif op == F_ADD_D:
                sd[sp] = sd[sp] + sd[sp + 1]
            elif op == F_SUB_D:
                sd[sp] = sd[sp] - sd[sp + 1]
            elif op == F_MUL_D:
                sd[sp] = sd[sp] * sd[sp + 1]
            elif op == F_DIV_D:
                if sd[sp + 1] == 0.0:
                    w[sn + sp] = 1
                else:
                    sd[sp] = sd[sp] / sd[sp + 1]
            elif op == F_MOD_D:
                if sd[sp + 1] == 0.0:
                    w[sn + sp] = 1
                else:
                    sd[sp] = remainder_double(sd[sp], sd[sp + 1])
            elif op == F_DIV:
                if w[si + sp + 1] == 0:
                    w[sn + sp] = 1
                else:
                    sd[sp] = float(w[si + sp]) / float(w[si + sp + 1])
            elif op == F_MOD:
                if w[si + sp + 1] == 0:
                    w[sn + sp] = 1
                else:
                    w[si + sp] = remainder(w[si + sp], w[si + sp + 1])
            elif op == F_ADD:
                if add_overflows(w[si + sp], w[si + sp + 1]):
                    w[sn + sp] = 1
                else:
                    w[si + sp] = w[si + sp] + w[si + sp + 1]
            elif op == F_SUB:
                if w[si + sp + 1] == SMALLEST:
                    if w[si + sp] >= 0:
                        w[sn + sp] = 1
                    else:
                        w[si + sp] = w[si + sp] - w[si + sp + 1]
                elif add_overflows(w[si + sp], -w[si + sp + 1]):
                    w[sn + sp] = 1
                else:
                    w[si + sp] = w[si + sp] - w[si + sp + 1]
            elif op == F_MUL:
                if product_overflows(w[si + sp], w[si + sp + 1]):
                    w[sn + sp] = 1
                else:
                    w[si + sp] = w[si + sp] * w[si + sp + 1]
