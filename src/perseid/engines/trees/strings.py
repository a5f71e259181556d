"""Text of nodes: decoded from a document's bytes, and compared with constants.

A number is compared as the double that XPath reads, but without conversion: all decimals that round to a constant lie
between two bounds, which are computed with the plan. So digits are compared with digits, exactly and in any number.
"""

from __future__ import annotations

from perseid.engines.trees.layout import *
from perseid.engines.trees.layout import Bytes, Ints, WritableBytes
from perseid.engines.trees.match_layout import *
from perseid.engines.trees.match_layout import Space, compiled
from perseid.engines.trees.signs import (
    AMPERSAND,
    CARRIAGE_RETURN,
    LINE_FEED,
    MINUS,
    SEMICOLON,
    SPACE,
    TAB,
    character,
    is_space,
    put_character,
)

ZERO, NINE, POINT = 48, 57, 46


@compiled
def read_escaped(D: Bytes, at: int, end: int, R: WritableBytes, to: int, value: bool) -> int:
    """Decode references and line ends, in a value also white space; return the end offset, -1 for an unknown entity."""
    while at < end:
        byte = D[at]
        if byte == AMPERSAND:
            close = at + 1
            while close < end and D[close] != SEMICOLON:
                close += 1
            code = character(D, at + 1, close) if close < end else -1
            if code < 0:
                return -1
            to = put_character(R, to, code)
            at = close + 1
            continue
        if byte == CARRIAGE_RETURN:
            if at + 1 < end and D[at + 1] == LINE_FEED:
                at += 1
            byte = LINE_FEED
        if value and (byte == LINE_FEED or byte == TAB):
            byte = SPACE
        R[to] = byte
        to += 1
        at += 1
    return to


@compiled
def read_cdata(D: Bytes, at: int, end: int, R: WritableBytes, to: int, after_return: bool) -> int:
    """Decode the line ends of CDATA; return the end offset."""
    if after_return and at < end and D[at] == LINE_FEED:
        at += 1
    while at < end:
        byte = D[at]
        if byte == CARRIAGE_RETURN:
            if at + 1 < end and D[at + 1] == LINE_FEED:
                at += 1
            byte = LINE_FEED
        R[to] = byte
        to += 1
        at += 1
    return to


@compiled
def holds(op: int, order: int) -> bool:
    """Evaluate a comparison for an operand that is less than (-1), equal to (0) or greater than (1) the constant."""
    if order == NOT_A_NUMBER:
        return op == UNEQUAL
    if op == EQUAL:
        return order == 0
    if op == UNEQUAL:
        return order != 0
    if op == LESS_THAN:
        return order < 0
    if op == AT_MOST:
        return order <= 0
    if op == MORE_THAN:
        return order > 0
    return order >= 0


@compiled
def text_order(R: WritableBytes, begin: int, end: int, Z: Bytes, low: int, high: int) -> int:
    """Compare a text with a constant by code points: -1, 0 or 1."""
    length = min(end - begin, high - low)
    for k in range(length):
        if R[begin + k] != Z[low + k]:
            return -1 if R[begin + k] < Z[low + k] else 1
    if end - begin == high - low:
        return 0
    return -1 if end - begin < high - low else 1


@compiled
def bound_order(R: WritableBytes, begin: int, end: int, sign: int, point: int, P: Ints, bound: int, Z: Bytes) -> int:
    """Compare a number, given as sign, point and digits (perhaps with the point in them), with a bound: -1, 0 or 1."""
    bound_sign = P[bound + B_SIGN]
    if sign != bound_sign:
        return -1 if sign < bound_sign else 1
    if sign == 0:
        return 0
    if point != P[bound + B_POINT]:
        return sign if point > P[bound + B_POINT] else -sign
    at, to = begin, P[bound + B_FROM]
    while True:
        if at < end and R[at] == POINT:
            at += 1
        if at >= end and to >= P[bound + B_TO]:
            return 0
        digit = R[at] - ZERO if at < end else 0
        bound_digit = int(Z[to]) if to < P[bound + B_TO] else 0
        if digit != bound_digit:
            return sign if digit > bound_digit else -sign
        at += 1
        to += 1


@compiled
def number_order(R: WritableBytes, begin: int, end: int, P: Ints, test: int, Z: Bytes) -> int:
    """Compare a text as a number with a constant, both as doubles: -1, 0 or 1; NOT_A_NUMBER if it is none."""
    while begin < end and is_space(R[begin]):
        begin += 1
    while begin < end and is_space(R[end - 1]):
        end -= 1
    sign = 1
    if begin < end and R[begin] == MINUS:
        sign = -1
        begin += 1
    points, digits, first, whole = 0, 0, -1, 0
    for k in range(begin, end):
        byte = R[k]
        if byte == POINT:
            points += 1
            continue
        if byte < ZERO or byte > NINE:
            return NOT_A_NUMBER
        digits += 1
        if first < 0 and byte != ZERO:
            first = k
        if points == 0 and first >= 0:
            whole += 1
    if digits == 0 or points > 1:
        return NOT_A_NUMBER
    point = whole
    if first < 0:
        sign = 0
        first = end
    elif whole == 0:
        # Zeros between the point and the first significant digit.
        k = first - 1
        while R[k] != POINT:
            point -= 1
            k -= 1
    low = bound_order(R, first, end, sign, point, P, test + TE_LOW, Z)
    if low < 0 or (low == 0 and P[test + TE_CLOSED] == 0):
        return -1
    high = bound_order(R, first, end, sign, point, P, test + TE_HIGH, Z)
    if high > 0 or (high == 0 and P[test + TE_CLOSED] == 0):
        return 1
    return 0


@compiled
def tested(M: Space, step: int, R: WritableBytes, begin: int, end: int) -> int:
    """Return the bits of a step's comparisons that are true for a text."""
    P, Z = M.plan, M.constants
    bits = 0
    for k in range(P[step + SP_TEST_COUNT]):
        test = P[step + SP_TESTS] + k * TEST_WIDTH
        if P[test + TE_NUMERIC]:
            order = number_order(R, begin, end, P, test, Z)
        else:
            order = text_order(R, begin, end, Z, P[test + TE_FROM], P[test + TE_TO])
        if holds(P[test + TE_OP], order):
            bits |= 1 << P[test + TE_BIT]
    return bits
