"""Classes of bytes in XML, and decoding of characters and references."""

from __future__ import annotations

import numpy as np

from perseid.engines.trees.entities import entity
from perseid.engines.trees.layout import Bytes, WritableBytes, compiled
from perseid.engines.trees.vectors import REACH, plain_bytes

# classes of bytes in text
PLAIN, OPENS, REFERS, BRACKET, RETURN, WIDE, FORBIDDEN = range(7)
_IN_TEXT = np.zeros(256, np.uint8)
_IN_TEXT[:32] = FORBIDDEN
_IN_TEXT[[9, 10]] = PLAIN
_IN_TEXT[13] = RETURN
_IN_TEXT[128:] = WIDE
_IN_TEXT[ord("<")], _IN_TEXT[ord("&")], _IN_TEXT[ord("]")] = OPENS, REFERS, BRACKET
# classes of bytes in names: 1 anywhere, 2 not at the beginning, 3 a colon, 4 beyond ASCII
_IN_NAME = np.zeros(256, np.uint8)
for _letter in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_":
    _IN_NAME[_letter] = 1
for _letter in b"0123456789-.":
    _IN_NAME[_letter] = 2
_IN_NAME[ord(":")] = 3
_IN_NAME[128:] = 4
BEYOND_ASCII = 4
IN_TEXT: Bytes = _IN_TEXT
IN_NAME: Bytes = _IN_NAME

TAB, LINE_FEED, CARRIAGE_RETURN, SPACE = 9, 10, 13, 32
BANG, QUOTE, HASH, AMPERSAND, APOSTROPHE, MINUS, SLASH, COLON, SEMICOLON, LESS, EQUALS, GREATER, QUESTION = (
    33, 34, 35, 38, 39, 45, 47, 58, 59, 60, 61, 62, 63,
)  # fmt: skip
BRACKET_CLOSE = 93
CDATA_OPENS: Bytes = np.frombuffer(b"<![CDATA[", np.uint8)
CDATA_LENGTH = 9
DECLARED: Bytes = np.frombuffer(b'<?xml version="1.0"', np.uint8)
UTF_8: Bytes = np.frombuffer(b' encoding="utf-8"', np.uint8)
DECLARED_LENGTH, UTF_8_LENGTH = 19, 17


@compiled
def is_space(byte: int) -> bool:
    return byte == SPACE or byte == LINE_FEED or byte == TAB or byte == CARRIAGE_RETURN


@compiled
def after_space(D: Bytes, at: int, end: int) -> int:
    while at < end and is_space(D[at]):
        at += 1
    return at


@compiled
def after_plain(D: Bytes, at: int, end: int) -> int:
    """Return the offset of the next byte of text that needs processing, or ``end``."""
    while at + REACH <= end:
        plain_length = plain_bytes(D, at)
        if plain_length < REACH:
            return at + plain_length
        at += REACH  # a constant, so that the next load does not wait for these bytes
    while at < end and IN_TEXT[D[at]] == PLAIN:
        at += 1
    return at


@compiled
def wide(D: Bytes, at: int, end: int) -> int:
    """Return the length of a UTF-8 character beyond ASCII; 0 if XML does not allow it, -1 if the input ends in it."""
    first = D[at]
    if first < 0xC2 or first > 0xF4:
        return 0
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    for k in range(1, length):
        if at + k >= end:
            return -1
        if D[at + k] & 0xC0 != 0x80:
            return 0
    second = D[at + 1]
    if (
        (first == 0xE0 and second < 0xA0)
        or (first == 0xED and second > 0x9F)
        or (first == 0xF0 and second < 0x90)
        or (first == 0xF4 and second > 0x8F)
        or (first == 0xEF and second == 0xBF and D[at + 2] >= 0xBE)
    ):
        return 0
    return length


@compiled
def numbered(D: Bytes, at: int, end: int) -> int:
    """Return the character of a numeric reference, ``65`` or ``x41`` in ``&#65;`` or ``&#x41;``; -1 if XML has none."""
    base = 10
    if at < end and D[at] == 120:
        base = 16
        at += 1
    if at >= end:
        return -1
    code = 0
    for k in range(at, end):
        byte = int(D[k])
        digit = 99
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte <= 102:
            digit = byte - 87
        elif 65 <= byte <= 70:
            digit = byte - 55
        if digit >= base or code > 0x10FFFF:
            return -1
        code = code * base + digit
    may_be = (
        code == TAB
        or code == LINE_FEED
        or code == CARRIAGE_RETURN
        or 0x20 <= code <= 0xD7FF
        or 0xE000 <= code <= 0xFFFD
        or 0x10000 <= code <= 0x10FFFF
    )
    return code if may_be else -1


@compiled
def character(D: Bytes, begin: int, end: int) -> int:
    """Return the character of the reference between ``&`` and ``;``; -1 if it is unknown."""
    if begin < end and D[begin] == HASH:
        return numbered(D, begin + 1, end)
    return entity(D, begin, end)


@compiled
def reference(D: Bytes, at: int, end: int) -> int:
    """Return the end of a numeric reference or one to a predefined entity; 0 for others, -1 if the input ends in it."""
    stop = min(end, at + 12)
    close = at + 1
    while close < stop and D[close] != SEMICOLON:
        close += 1
    if close >= stop:
        return -1 if stop == end else 0
    length = close - at - 1
    if length > 0 and D[at + 1] == HASH:
        return close + 1 if numbered(D, at + 2, close) >= 0 else 0
    a = D[at + 1] if length > 0 else 0
    b = D[at + 2] if length > 1 else 0
    c = D[at + 3] if length > 2 else 0
    d = D[at + 4] if length > 3 else 0
    is_known = (
        (length == 2 and (a == 108 or a == 103) and b == 116)  # lt, gt
        or (length == 3 and a == 97 and b == 109 and c == 112)  # amp
        or (length == 4 and a == 97 and b == 112 and c == 111 and d == 115)  # apos
        or (length == 4 and a == 113 and b == 117 and c == 111 and d == 116)  # quot
    )
    return close + 1 if is_known else 0


@compiled
def put_character(N: WritableBytes, at: int, code: int) -> int:
    """Write a character in UTF-8; return the end offset."""
    if code < 0x80:
        N[at] = code
        return at + 1
    if code < 0x800:
        N[at] = 0xC0 | code >> 6
        N[at + 1] = 0x80 | code & 63
        return at + 2
    if code < 0x10000:
        N[at] = 0xE0 | code >> 12
        N[at + 1] = 0x80 | code >> 6 & 63
        N[at + 2] = 0x80 | code & 63
        return at + 3
    N[at] = 0xF0 | code >> 18
    N[at + 1] = 0x80 | code >> 12 & 63
    N[at + 2] = 0x80 | code >> 6 & 63
    N[at + 3] = 0x80 | code & 63
    return at + 4
