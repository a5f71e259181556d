"""The scanner: bytes of a document to columns of tokens, and a proof, on the way, that the document is well formed.

It accepts what it can prove: UTF-8 without a DTD, names of ASCII letters, the five entities and character references that
everybody knows, tags that match, attributes that differ, prefixes that are declared. Whatever else there is, wrong or only
rare, is in doubt, and another has to judge it. Told not to be strict, it takes a document that was judged for what it is.

A scan reads whole tokens only: where the bytes end in one, it is asked again with more, from where that token began. Texts,
comments, instructions and CDATA may be of any length and are read in pieces.
"""

from __future__ import annotations

import numpy as np

from perseid.engines.trees.entities import entity
from perseid.engines.trees.layout import *
from perseid.engines.trees.layout import Bytes, Ints, Room, Tokens, compiled, entry

# what a byte is in text
PLAIN, OPENS, REFERS, BRACKET, RETURN, WIDE, FORBIDDEN = range(7)
_IN_TEXT = np.zeros(256, np.uint8)
_IN_TEXT[:32] = FORBIDDEN
_IN_TEXT[[9, 10]] = PLAIN
_IN_TEXT[13] = RETURN
_IN_TEXT[128:] = WIDE
_IN_TEXT[ord("<")], _IN_TEXT[ord("&")], _IN_TEXT[ord("]")] = OPENS, REFERS, BRACKET
# what a byte is in a name
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
STRIDE = 8
MOST_PROBES = 256
"""How far a name may lie from its place in a table that is at most half full: only a document made for that is worse."""


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
    """Where something comes that has to be looked at, or somewhat before: many bytes are asked at once."""
    while at + STRIDE <= end:
        seen = 0
        for k in range(STRIDE):
            seen |= int(IN_TEXT[D[at + k]])
        if seen:
            return at
        at += STRIDE
    return at


@compiled
def wide(D: Bytes, at: int, end: int) -> int:
    """The length of a character beyond ASCII; 0 where it is none that may be, -1 where the bytes end in it."""
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
def is_character(D: Bytes, at: int, close: int) -> bool:
    """Do digits name a character that a document may have?"""
    base = 10
    if at < close and D[at] == 120:
        base = 16
        at += 1
    if at >= close or close - at > 8:
        return False
    code = 0
    for k in range(at, close):
        byte = int(D[k])
        digit = 99
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte <= 102:
            digit = byte - 87
        elif 65 <= byte <= 70:
            digit = byte - 55
        if digit >= base:
            return False
        code = code * base + digit
    return (
        code == TAB
        or code == LINE_FEED
        or code == CARRIAGE_RETURN
        or 0x20 <= code <= 0xD7FF
        or 0xE000 <= code <= 0xFFFD
        or 0x10000 <= code <= 0x10FFFF
    )


@compiled
def reference(D: Bytes, at: int, end: int) -> int:
    """Where a reference ends that everybody knows; 0 where it is another, -1 where the bytes end in it."""
    stop = min(end, at + 12)
    close = at + 1
    while close < stop and D[close] != SEMICOLON:
        close += 1
    if close >= stop:
        return -1 if stop == end else 0
    length = close - at - 1
    if length > 0 and D[at + 1] == HASH:
        return close + 1 if is_character(D, at + 2, close) else 0
    a = D[at + 1] if length > 0 else 0
    b = D[at + 2] if length > 1 else 0
    c = D[at + 3] if length > 2 else 0
    d = D[at + 4] if length > 3 else 0
    known = (
        (length == 2 and (a == 108 or a == 103) and b == 116)  # lt, gt
        or (length == 3 and a == 97 and b == 109 and c == 112)  # amp
        or (length == 4 and a == 97 and b == 112 and c == 111 and d == 115)  # apos
        or (length == 4 and a == 113 and b == 117 and c == 111 and d == 116)  # quot
    )
    return close + 1 if known else 0


# names


@compiled
def same_name(D: Bytes, begin: int, length: int, N: Room, at: int) -> bool:
    for k in range(length):
        if D[begin + k] != N[at + k]:
            return False
    return True


@compiled
def mixed(found: int) -> int:
    """A hash whose last bits tell names apart that differ in their last letters, as numbered ones do."""
    found = ((found & 0xFFFFFF) * 0x9E3779B1 + (found >> 24) * 0x85EBCA6B) & 0xFFFFFFFFFFFF
    return int(found ^ (found >> 23))


@compiled
def hash_of(A: Ints, D: Bytes, begin: int, end: int) -> int:
    """A number for some bytes, from 0 on; salted, so that nobody can write names that share one."""
    found, factor = A[H_SALT], A[H_FACTOR]
    for k in range(begin, end):
        found = (found * factor + int(D[k])) & 0xFFFFFFFFFFFF
    return mixed(found)


@compiled
def name_of(A: Ints, N: Room, D: Bytes, begin: int, end: int) -> int:
    """The number of a name; -1 where there is no room for another."""
    hashed = hash_of(A, D, begin, end)
    mask = A[H_TABLE_SIZE] - 1
    slot = hashed & mask
    last = (slot + MOST_PROBES) & mask
    while True:
        found = A[A[H_TABLE] + slot] - 1
        if found < 0:
            break
        record = A[H_RECORDS] + found * RECORD_WIDTH
        if (
            A[record + R_HASH] == hashed
            and A[record + R_LENGTH] == end - begin
            and same_name(D, begin, end - begin, N, A[record + R_AT])
        ):
            return int(found)
        slot = (slot + 1) & mask
        if slot == last:
            return -1
    number = A[H_NAMES]
    record = A[H_RECORDS] + number * RECORD_WIDTH
    if record + RECORD_WIDTH > A[H_RECORDS_END] or A[H_BYTES] + end - begin > A[H_BYTES_END]:
        return -1
    for k in range(end - begin):
        N[A[H_BYTES] + k] = D[begin + k]
    A[record + R_AT] = A[H_BYTES]
    A[record + R_LENGTH] = end - begin
    A[record + R_HASH] = hashed
    A[record + R_PREFIX] = -1
    A[record + R_LOCAL] = -2
    A[record + R_EPOCH] = -1
    A[record + R_EXPANDED] = -1
    A[record + R_STAMP] = -1
    A[record + R_BOUND] = -1
    A[H_BYTES] += end - begin
    A[H_NAMES] += 1
    A[A[H_TABLE] + slot] = number + 1
    return int(number)


@compiled
def read_name(A: Ints, N: Room, D: Bytes, begin: int, end: int) -> int:
    """The number of a name that may have a prefix; -1 for no room, -2 where its colons are not as they should be."""
    number = name_of(A, N, D, begin, end)
    if number < 0:
        return -1
    record = A[H_RECORDS] + number * RECORD_WIDTH
    if A[record + R_LOCAL] != -2:  # else it is new, or was a namespace
        return int(number if A[record + R_LOCAL] >= 0 else -2)
    colon = begin
    while colon < end and D[colon] != COLON:
        colon += 1
    if colon == end:
        A[record + R_LOCAL] = number
        return int(number)
    A[record + R_LOCAL] = -1  # until it is shown to be right
    if colon == begin or colon + 1 == end or IN_NAME[D[colon + 1]] == 2:
        return -2
    for k in range(colon + 1, end):
        if D[k] == COLON:
            return -2
    prefix = name_of(A, N, D, begin, colon)
    local = name_of(A, N, D, colon + 1, end)
    if prefix < 0 or local < 0:
        return -1
    A[record + R_PREFIX] = prefix
    A[record + R_LOCAL] = local
    return int(number)


@compiled
def pair_of(A: Ints, uri: int, local: int) -> int:
    """The number of a name in a namespace; -1 where there is no room for another."""
    mask = A[H_PAIR_SIZE] - 1
    slot = ((int(uri) * 0x9E3779B1 + int(local) * 0x85EBCA6B) >> 16) & mask
    last = (slot + MOST_PROBES) & mask
    pairs = A[H_PAIR] + A[H_PAIR_SIZE]
    while True:
        found = A[A[H_PAIR] + slot] - 1
        if found < 0:
            break
        pair = pairs + found * PAIR_WIDTH
        if A[pair + P_URI] == uri and A[pair + P_LOCAL] == local:
            return int(found)
        slot = (slot + 1) & mask
        if slot == last:
            return -1
    number = A[H_PAIRS]
    pair = pairs + number * PAIR_WIDTH
    if pair + PAIR_WIDTH > A[H_PAIRS_END]:
        return -1
    A[pair + P_URI] = uri
    A[pair + P_LOCAL] = local
    A[pair + P_STAMP] = -1
    A[H_PAIRS] += 1
    A[A[H_PAIR] + slot] = number + 1
    return int(number)


@compiled
def expanded(A: Ints, name: int, attribute: bool) -> int:
    """The number of a name in its namespace; -1 for no room, -2 where its prefix stands for nothing.

    An attribute without a prefix is in no namespace, so it has a place of its own beside what is remembered.
    """
    record = A[H_RECORDS] + name * RECORD_WIDTH
    prefix = A[record + R_PREFIX]
    if attribute and prefix < 0:
        return pair_of(A, EMPTY, name)
    if A[record + R_EPOCH] == A[H_EPOCH]:
        return int(A[record + R_EXPANDED])
    uri = A[A[H_RECORDS] + (EMPTY if prefix < 0 else prefix) * RECORD_WIDTH + R_BOUND]
    if uri < 0:
        if prefix >= 0:
            return -2
        uri = EMPTY
    found = pair_of(A, uri, A[record + R_LOCAL])
    A[record + R_EPOCH] = A[H_EPOCH]
    A[record + R_EXPANDED] = found
    return found


@compiled
def declare(A: Ints, prefix: int, uri: int) -> bool:
    """Let a prefix stand for a namespace in the element that is being opened; False where there is no room."""
    scope = A[H_SCOPE] + A[H_SCOPES] * SCOPE_WIDTH
    if scope + SCOPE_WIDTH > A[H_SCOPE_END]:
        return False
    bound = A[H_RECORDS] + prefix * RECORD_WIDTH + R_BOUND
    A[scope + S_PREFIX] = prefix
    A[scope + S_BEFORE] = A[bound]
    A[scope + S_DEPTH] = A[H_DEPTH] + 1
    A[bound] = uri
    A[H_SCOPES] += 1
    return True


@compiled
def leave_scope(A: Ints) -> None:
    """Take back what the element declared that is closed."""
    changed = False
    while A[H_SCOPES] > 0:
        scope = A[H_SCOPE] + (A[H_SCOPES] - 1) * SCOPE_WIDTH
        if A[scope + S_DEPTH] < A[H_DEPTH]:
            break
        A[A[H_RECORDS] + A[scope + S_PREFIX] * RECORD_WIDTH + R_BOUND] = A[scope + S_BEFORE]
        A[H_SCOPES] -= 1
        changed = True
    if changed:
        A[H_EPOCH] += 1


# tokens


@compiled
def put(K: Tokens, place: int, kind: int, name: int, begin: int, end: int) -> None:
    K[T_KIND, place] = kind
    K[T_NAME, place] = name
    K[T_BEGIN, place] = begin
    K[T_END, place] = end


@compiled
def doubt(A: Ints, at: int, why: int) -> int:
    A[H_AT] = at
    A[H_WHY] = why
    return DOUBT


@compiled
def close_tag(A: Ints, K: Tokens, name: int, at: int) -> None:
    """An element is closed, whose name in its namespace this is."""
    put(K, A[H_TOKENS], END, name, at, at)
    A[H_TOKENS] += 1
    leave_scope(A)
    A[H_DEPTH] -= 1
    if A[H_DEPTH] == 0:
        A[H_ROOTS] = 2


@compiled
def end_tag(A: Ints, N: Room, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """``</name>``: what a scan answers."""
    if A[H_TOKENS] + 1 > A[H_ROOM]:
        A[H_AT] = at
        return FULL
    if A[H_DEPTH] == 0:
        return doubt(A, at, UNSURE)
    top = A[H_STACK] + 2 * (A[H_DEPTH] - 1)
    record = A[H_RECORDS] + A[top] * RECORD_WIDTH
    length = A[record + R_LENGTH]
    close = at + 2 + length
    if close >= end:
        A[H_AT] = at
        return MORE
    if A[H_STRICT] and not same_name(D, at + 2, length, N, A[record + R_AT]):
        return doubt(A, at, UNSURE)
    close = after_space(D, close, end)
    if close >= end:
        A[H_AT] = at
        return MORE
    if D[close] != GREATER:
        return doubt(A, at, UNSURE)
    close_tag(A, K, A[top + 1], at)
    A[H_AT] = close + 1
    return DONE


@compiled
def value_end(A: Ints, D: Bytes, at: int, end: int, quote: int) -> int:
    """Where the quotes of a value close; -1 where the bytes end in it, -2 for doubt. A value to be read ends below -2."""
    plain = True
    while at < end:
        byte = D[at]
        if byte == quote:
            return at if plain else -3 - at
        kind = IN_TEXT[byte]
        if kind == PLAIN or kind == BRACKET:
            plain = plain and byte >= SPACE
            at += 1
        elif kind == WIDE:
            length = wide(D, at, end) if A[H_STRICT] else 1
            if length <= 0:
                return -1 if length < 0 else -2
            at += length
        elif kind == REFERS:
            plain = False
            if A[H_STRICT]:
                close = reference(D, at, end)
                if close <= 0:
                    return -1 if close < 0 else -2
                at = close
            else:
                at += 1
        elif kind == RETURN:
            plain = False
            at += 1
        elif A[H_STRICT]:
            return -2
        else:
            at += 1
    return -1


@compiled
def put_character(N: Room, at: int, code: int) -> int:
    """Write a character in UTF-8: where it ends."""
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


@compiled
def character(D: Bytes, begin: int, end: int) -> int:
    """What is between ``&`` and ``;`` as a character; -1 where it is none that is known."""
    if begin >= end or D[begin] != HASH:
        return entity(D, begin, end)
    at, base = begin + 1, 10
    if at < end and D[at] == 120:
        at, base = at + 1, 16
    code = 0
    for k in range(at, end):
        byte = int(D[k])
        digit = byte - 48 if byte <= 57 else (byte | 32) - 87
        if digit < 0 or digit >= base or code > 0x10FFFF:
            return -1
        code = code * base + digit
    if at >= end or code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return -1
    return code


@compiled
def read_uri(A: Ints, N: Room, D: Bytes, begin: int, end: int) -> int:
    """The number of a namespace whose references and white space have to be read; -1 for no room.

    What it says is never longer than what is written, and is put where new names go: there it becomes one, or is left.
    """
    first = A[H_BYTES]
    if first + end - begin + 4 > A[H_BYTES_END]:
        return -1
    to, at = first, begin
    while at < end:
        byte = int(D[at])
        if byte == AMPERSAND:
            close = at + 1
            while close < end and D[close] != SEMICOLON:
                close += 1
            code = character(D, at + 1, close)
            if code >= 0:
                to = put_character(N, to, code)
            at = close + 1
            continue
        if byte == CARRIAGE_RETURN and at + 1 < end and D[at + 1] == LINE_FEED:
            at += 1
        N[to] = SPACE if byte < SPACE else byte
        to += 1
        at += 1
    return name_of(A, N, N, first, to)


@compiled
def declarations(A: Ints, N: Room, D: Bytes, K: Tokens, first: int, tokens: int) -> int:
    """Namespaces that attributes declare; the attributes that are left, or -1 for no room, -2 for doubt."""
    left = first
    for place in range(first, tokens):
        name = K[T_NAME, place]
        prefix = A[A[H_RECORDS] + name * RECORD_WIDTH + R_PREFIX]
        if name != XMLNS_PREFIX and prefix != XMLNS_PREFIX:
            put(K, left, K[T_KIND, place], name, K[T_BEGIN, place], K[T_END, place])
            left += 1
            continue
        begin, end = K[T_BEGIN, place], K[T_END, place]
        bound = EMPTY if name == XMLNS_PREFIX else A[A[H_RECORDS] + name * RECORD_WIDTH + R_LOCAL]
        if K[T_KIND, place] == ESCAPED_VALUE:
            if A[H_STRICT]:
                return -2
            uri = read_uri(A, N, D, begin, end)
        else:
            uri = name_of(A, N, D, begin, end)
        if uri < 0:
            return -1
        if bound == XML_PREFIX and uri == XML_URI and not A[H_STRICT]:
            continue
        reserved = bound == XML_PREFIX or bound == XMLNS_PREFIX or uri == XML_URI or uri == XMLNS_URI
        if reserved or (uri == EMPTY and bound != EMPTY):
            return -2
        if not declare(A, bound, -1 if uri == EMPTY else uri):
            return -1
    A[H_EPOCH] += 1
    return left


@compiled
def after_name(A: Ints, D: Bytes, at: int, end: int) -> int:
    """Where a name ends; -1 where it has letters that the scanner cannot judge and has to."""
    while at < end and IN_NAME[D[at]]:
        if IN_NAME[D[at]] == 4 and A[H_STRICT]:
            return -1
        at += 1
    return at


@compiled
def start_tag(A: Ints, N: Room, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """``<name a="b">`` or ``<name/>``: what a scan answers. Nothing is changed but names before it is read whole."""
    begin = at + 1
    close = after_name(A, D, begin, end)
    if close < 0:
        return doubt(A, at, UNSURE)
    if close >= end:
        A[H_AT] = at
        return MORE
    if close == begin or IN_NAME[D[begin]] == 2 or A[H_ROOTS] == 2:
        return doubt(A, at, UNSURE)
    if A[H_DEPTH] >= A[H_DEEPEST]:
        return doubt(A, at, TOO_DEEP)
    name = read_name(A, N, D, begin, close)
    if name < 0:
        return doubt(A, at, TOO_MANY_NAMES if name == -1 else UNSURE)
    first = A[H_TOKENS]
    tokens = first + 1
    A[H_SERIAL] += 1
    prefixed, declared, attributes = False, False, 0
    while True:
        begin = after_space(D, close, end)
        if begin >= end:
            A[H_AT] = at
            return MORE
        if D[begin] == GREATER or D[begin] == SLASH:
            break
        if begin == close:
            return doubt(A, at, UNSURE)
        close = after_name(A, D, begin, end)
        if close < 0 or (close < end and (close == begin or IN_NAME[D[begin]] == 2)):
            return doubt(A, at, UNSURE)
        own, own_end = begin, close
        close = after_space(D, close, end)
        if close < end and D[close] != EQUALS:
            return doubt(A, at, UNSURE)
        close = after_space(D, close + 1, end)
        if close >= end:
            A[H_AT] = at
            return MORE
        quote = D[close]
        if quote != QUOTE and quote != APOSTROPHE:
            return doubt(A, at, UNSURE)
        begin = close + 1
        close = value_end(A, D, begin, end, quote)
        if close == -1:
            A[H_AT] = at
            return MORE
        if close == -2:
            return doubt(A, at, UNSURE)
        kind = ATTRIBUTE
        if close < -2:
            kind = ESCAPED_VALUE
            close = -3 - close
        attributes += 1
        if attributes > A[H_MOST]:
            return doubt(A, at, TOO_MANY_ATTRIBUTES)
        attribute = read_name(A, N, D, own, own_end)
        if attribute < 0:
            return doubt(A, at, TOO_MANY_NAMES if attribute == -1 else UNSURE)
        record = A[H_RECORDS] + attribute * RECORD_WIDTH
        if A[record + R_STAMP] == A[H_SERIAL]:
            return doubt(A, at, UNSURE)
        A[record + R_STAMP] = A[H_SERIAL]
        if tokens >= A[H_ROOM]:
            A[H_AT] = at
            return FULL
        # For now under the name as it is written; declarations, which may follow, are known at the end of the tag.
        put(K, tokens, kind, attribute, begin, close)
        tokens += 1
        if attribute == XMLNS_PREFIX or A[record + R_PREFIX] == XMLNS_PREFIX:
            declared = True
        elif A[record + R_PREFIX] >= 0:
            prefixed = True
        close += 1
    empty = D[begin] == SLASH
    if empty:
        begin += 1
        if begin >= end:
            A[H_AT] = at
            return MORE
        if D[begin] != GREATER:
            return doubt(A, at, UNSURE)
    if tokens + 1 > A[H_ROOM]:
        A[H_AT] = at
        return FULL
    if declared:
        tokens = declarations(A, N, D, K, first + 1, tokens)
        if tokens < 0:
            return doubt(A, at, TOO_MANY_NAMES if tokens == -1 else UNSURE)
    found = expanded(A, name, False)
    if found < 0:
        return doubt(A, at, TOO_MANY_NAMES if found == -1 else UNSURE)
    if tokens > first + 1 and (A[H_ATTRIBUTES] or prefixed):
        for place in range(first + 1, tokens):
            one = expanded(A, K[T_NAME, place], True)
            if one < 0:
                return doubt(A, at, TOO_MANY_NAMES if one == -1 else UNSURE)
            pair = A[H_PAIR] + A[H_PAIR_SIZE] + one * PAIR_WIDTH
            if A[pair + P_STAMP] == A[H_SERIAL]:
                return doubt(A, at, UNSURE)  # two prefixes for one namespace
            A[pair + P_STAMP] = A[H_SERIAL]
            K[T_NAME, place] = one
    put(K, first, START, found, at, begin + 1)
    A[H_TOKENS] = tokens if A[H_ATTRIBUTES] else first + 1
    top = A[H_STACK] + 2 * A[H_DEPTH]
    A[top] = name
    A[top + 1] = found
    A[H_DEPTH] += 1
    A[H_ROOTS] = 1
    if empty:
        close_tag(A, K, found, begin)
    A[H_AT] = begin + 1
    return DONE


@compiled
def is_comment(D: Bytes, at: int, end: int) -> int:
    """Is what begins with ``<!`` a comment? -1 where the bytes end before that is known."""
    if at + 3 >= end:
        return -1 if at + 2 >= end or D[at + 2] == MINUS else 0
    return 1 if D[at + 2] == MINUS and D[at + 3] == MINUS else 0


@compiled
def is_cdata(D: Bytes, at: int, end: int) -> int:
    """Is what begins with ``<!`` CDATA? -1 where the bytes end before that is known."""
    for k in range(CDATA_LENGTH):
        if at + k >= end:
            return -1
        if D[at + k] != CDATA_OPENS[k]:
            return 0
    return 1


@compiled
def doctype(A: Ints, D: Bytes, at: int, end: int) -> int:
    """A document type without a subset of its own, which was judged by another: passed over."""
    quote, close = 0, at + 2
    while close < end:
        byte = D[close]
        if quote:
            if byte == quote:
                quote = 0
        elif byte == QUOTE or byte == APOSTROPHE:
            quote = byte
        elif byte == GREATER:
            A[H_AT] = close + 1
            return DONE
        close += 1
    A[H_AT] = at
    return MORE


@compiled
def instruction(A: Ints, D: Bytes, at: int, end: int) -> int:
    """The beginning of ``<?target …?>``."""
    close = at + 2
    while close < end and IN_NAME[D[close]] and close < at + 64:
        if A[H_STRICT] and IN_NAME[D[close]] >= 3:
            return doubt(A, at, UNSURE)
        close += 1
    if close >= end:
        A[H_AT] = at
        return MORE
    if A[H_STRICT]:
        length = close - at - 2
        named_xml = length == 3 and D[at + 2] | 32 == 120 and D[at + 3] | 32 == 109 and D[at + 4] | 32 == 108
        odd = length == 0 or IN_NAME[D[at + 2]] != 1 or named_xml
        if odd or (D[close] != QUESTION and not is_space(D[close])):
            return doubt(A, at, UNSURE)
        if D[close] == QUESTION and (close + 1 >= end or D[close + 1] != GREATER):
            if close + 1 < end:
                return doubt(A, at, UNSURE)
            A[H_AT] = at
            return MORE
    A[H_MODE] = IN_INSTRUCTION
    A[H_AT] = close
    return DONE


@compiled
def markup(A: Ints, N: Room, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """Whatever begins with ``<``: what a scan answers."""
    if at + 1 >= end:
        A[H_AT] = at
        return MORE
    second = D[at + 1]
    if second == SLASH:
        return end_tag(A, N, D, K, at, end)
    if second == QUESTION:
        return instruction(A, D, at, end)
    if second != BANG:
        return start_tag(A, N, D, K, at, end)
    comment, characters = is_comment(D, at, end), is_cdata(D, at, end)
    if comment == 1:
        A[H_MODE] = IN_COMMENT
        A[H_AT] = at + 4
        return DONE
    if characters == 1 and A[H_DEPTH] > 0:
        A[H_MODE] = IN_CDATA
        A[H_AT] = at + CDATA_LENGTH
        return DONE
    if comment < 0 or characters < 0:
        A[H_AT] = at
        return MORE
    return doubt(A, at, UNSURE) if A[H_STRICT] or A[H_ROOTS] else doctype(A, D, at, end)


@compiled
def cdata(A: Ints, K: Tokens, begin: int, end: int) -> None:
    if A[H_TEXTS] and begin < end:
        put(K, A[H_TOKENS], CDATA, -1, begin, end)
        A[H_TOKENS] += 1


@compiled
def passed_over(A: Ints, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """The rest, or a piece, of a comment, an instruction or CDATA: what a scan answers."""
    mode, begin = A[H_MODE], at
    if mode == IN_CDATA and A[H_TEXTS] and A[H_TOKENS] + 1 > A[H_ROOM]:
        A[H_AT] = at
        return FULL
    while at < end:
        byte = D[at]
        if mode == IN_INSTRUCTION:
            if byte == QUESTION:
                if at + 1 >= end:
                    break
                if D[at + 1] == GREATER:
                    A[H_MODE] = OUTSIDE
                    A[H_AT] = at + 2
                    return DONE
        elif (mode == IN_COMMENT and byte == MINUS) or (mode == IN_CDATA and byte == BRACKET_CLOSE):
            if at + 2 >= end:
                break
            if D[at + 1] == byte:
                if D[at + 2] == GREATER:
                    if mode == IN_CDATA:
                        cdata(A, K, begin, at)
                    A[H_MODE] = OUTSIDE
                    A[H_AT] = at + 3
                    return DONE
                if mode == IN_COMMENT and A[H_STRICT]:
                    return doubt(A, at, UNSURE)
        if A[H_STRICT]:
            kind = IN_TEXT[byte]
            if kind == WIDE:
                length = wide(D, at, end)
                if length < 0:
                    break
                if length == 0:
                    return doubt(A, at, UNSURE)
                at += length - 1
            elif kind == FORBIDDEN:
                return doubt(A, at, UNSURE)
        at += 1
    if mode == IN_CDATA:
        cdata(A, K, begin, at)
    A[H_AT] = at
    return DONE if at >= end else MORE


@compiled
def text(A: Ints, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """Text up to the next ``<``, or a piece of it: what a scan answers."""
    if A[H_TOKENS] + 1 > A[H_ROOM]:
        A[H_AT] = at
        return FULL
    begin, kind, strict = at, TEXT, A[H_STRICT]
    answer = DONE
    looked = at
    while True:
        if at >= looked:
            at = after_plain(D, at, end)
            looked = at + STRIDE
        if at >= end:
            break
        is_ = IN_TEXT[D[at]]
        if is_ == PLAIN:
            at += 1
        elif is_ == OPENS:
            break
        elif is_ == WIDE:
            length = wide(D, at, end) if strict else 1
            if length <= 0:
                if length == 0:
                    return doubt(A, at, UNSURE)
                answer = MORE
                break
            at += length
        elif is_ == REFERS:
            # Also where it is only read: a piece does not end in the middle of one.
            close = reference(D, at, end)
            if close < 0:
                answer = MORE
                break
            if close == 0:
                if strict:
                    return doubt(A, at, UNSURE)
                close = at + 1
            kind = ESCAPED
            at = close
        elif is_ == RETURN:
            if at + 1 >= end and A[H_DEPTH] > 0:  # Behind the root nothing may follow.
                answer = MORE
                break
            kind = ESCAPED
            at += 1
        elif is_ == BRACKET and strict:
            if at + 2 >= end:
                answer = MORE
                break
            if D[at + 1] == BRACKET_CLOSE and D[at + 2] == GREATER:
                return doubt(A, at, UNSURE)
            at += 1
        elif is_ == FORBIDDEN and strict:
            return doubt(A, at, UNSURE)
        else:
            at += 1
    if A[H_DEPTH] == 0:
        if strict:
            for k in range(begin, at):
                if not is_space(D[k]):
                    return doubt(A, k, UNSURE)
    elif A[H_TEXTS] and begin < at:
        put(K, A[H_TOKENS], kind, -1, begin, at)
        A[H_TOKENS] += 1
    A[H_AT] = at
    return answer


@compiled
def known_name(A: Ints, N: Room, D: Bytes, begin: int, end: int, hashed: int) -> int:
    """The record of a name that was read before and whose namespace is known; 0 where there is none."""
    mask = A[H_TABLE_SIZE] - 1
    slot = hashed & mask
    while True:
        found = A[A[H_TABLE] + slot] - 1
        if found < 0:
            return 0
        record = A[H_RECORDS] + found * RECORD_WIDTH
        if A[record + R_HASH] == hashed and A[record + R_LENGTH] == end - begin:
            if not same_name(D, begin, end - begin, N, A[record + R_AT]):
                return 0
            return int(record) if A[record + R_LOCAL] >= 0 and A[record + R_EPOCH] == A[H_EPOCH] else 0
        slot = (slot + 1) & mask


@compiled
def plain_tokens(A: Ints, N: Room, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """What most of a document is: tags of known names without attributes, and plain texts. Where something else comes.

    All that is not as simple is left to the others; this only has to be right about what it takes.
    """
    tokens, depth = A[H_TOKENS], A[H_DEPTH]
    room, strict, texts = A[H_ROOM], A[H_STRICT], A[H_TEXTS]
    stack, records, salt, factor = A[H_STACK], A[H_RECORDS], A[H_SALT], A[H_FACTOR]
    # Tags that end what declared namespaces are left to the others.
    floor = 1
    if A[H_SCOPES]:
        floor = max(1, A[A[H_SCOPE] + (A[H_SCOPES] - 1) * SCOPE_WIDTH + S_DEPTH])
    while at + 1 < end and tokens < room:
        if D[at] == LESS:
            if D[at + 1] == SLASH:
                if depth <= floor:
                    break
                top = stack + 2 * (depth - 1)
                record = records + A[top] * RECORD_WIDTH
                length = A[record + R_LENGTH]
                close = at + 2 + length
                if close >= end or D[close] != GREATER:
                    break
                if strict and not same_name(D, at + 2, length, N, A[record + R_AT]):
                    break
                put(K, tokens, END, A[top + 1], at, at)
                depth -= 1
            else:
                if IN_NAME[D[at + 1]] != 1 or depth >= A[H_DEEPEST]:
                    break
                close = at + 1
                hashed, letters = salt, 0
                while close < end and IN_NAME[D[close]]:
                    hashed = (hashed * factor + int(D[close])) & 0xFFFFFFFFFFFF
                    letters |= int(IN_NAME[D[close]])
                    close += 1
                if close >= end or D[close] != GREATER or (strict and letters & BEYOND_ASCII):
                    break
                record = known_name(A, N, D, at + 1, close, mixed(hashed))
                if record == 0:
                    break
                put(K, tokens, START, A[record + R_EXPANDED], at, close + 1)
                top = stack + 2 * depth
                A[top] = (record - records) // RECORD_WIDTH
                A[top + 1] = A[record + R_EXPANDED]
                depth += 1
            tokens += 1
            at = close + 1
        else:
            close = after_plain(D, at, end)
            while close < end and IN_TEXT[D[close]] == PLAIN:
                close += 1
            if close >= end or D[close] != LESS:
                break
            if texts:
                put(K, tokens, TEXT, -1, at, close)
                tokens += 1
            at = close
    A[H_TOKENS] = tokens
    A[H_DEPTH] = depth
    return int(at)


@compiled
def after_declaration(D: Bytes, at: int, end: int) -> int:
    """Where a document begins after its XML declaration, as nearly all are written; -1 for others."""
    if end - at < 5 or D[at] != LESS or D[at + 1] != QUESTION:
        return at if at < end and D[at] == LESS else -1
    for k in range(DECLARED_LENGTH):
        if at + k >= end or D[at + k] != DECLARED[k]:
            return -1
    at += DECLARED_LENGTH
    if at + UTF_8_LENGTH < end and D[at] == SPACE:
        for k in range(UTF_8_LENGTH):
            byte = D[at + k]
            if byte != UTF_8[k] and not (65 <= byte <= 90 and byte + 32 == UTF_8[k]):
                return -1
        at += UTF_8_LENGTH
    if at + 1 < end and D[at] == QUESTION and D[at + 1] == GREATER:
        return at + 2
    return -1


@compiled
def begin_scan(A: Ints, strict: bool) -> None:
    """A new document: nothing is open, and no namespace declared."""
    while A[H_SCOPES]:  # of a document that was left in the middle
        scope = A[H_SCOPE] + (A[H_SCOPES] - 1) * SCOPE_WIDTH
        A[A[H_RECORDS] + A[scope + S_PREFIX] * RECORD_WIDTH + R_BOUND] = A[scope + S_BEFORE]
        A[H_SCOPES] -= 1
    A[H_AT] = 0
    A[H_MODE] = OUTSIDE
    A[H_DEPTH] = 0
    A[H_ROOTS] = 0
    A[H_TOKENS] = 0
    A[H_EPOCH] += 1
    A[H_STRICT] = 1 if strict else 0


@compiled
def is_over(A: Ints) -> bool:
    """Is what was read a whole document?"""
    return bool(A[H_DEPTH] == 0 and A[H_ROOTS] == 2 and A[H_MODE] == OUTSIDE)


@compiled
def scan_on(A: Ints, N: Room, D: Bytes, K: Tokens, end: int) -> int:
    """Go on from where the scanner stands: what it answers, and in its head how far it came and how many tokens there are."""
    answer = DONE
    while A[H_AT] < end and answer == DONE:
        if A[H_MODE] == OUTSIDE and A[H_DEPTH] > 0:
            A[H_AT] = plain_tokens(A, N, D, K, A[H_AT], end)
            if A[H_AT] >= end:
                break
        at = A[H_AT]
        if A[H_MODE] != OUTSIDE:
            answer = passed_over(A, D, K, at, end)
        elif D[at] == LESS:
            answer = markup(A, N, D, K, at, end)
            if answer == DONE and A[H_AT] - at > A[H_LONGEST]:
                answer = doubt(A, at, TOO_LONG)
        else:
            answer = text(A, D, K, at, end)
    return answer


@entry
def scan(A: Ints, N: Room, D: Bytes, K: Tokens, end: int) -> int:
    return scan_on(A, N, D, K, end)


@entry
def begin_scanning(A: Ints, strict: bool) -> None:
    begin_scan(A, strict)


@entry
def number_name(A: Ints, N: Room, D: Bytes, length: int) -> int:
    """The number of a name, for those that are known before any document."""
    return name_of(A, N, D, 0, length)


@entry
def number_pair(A: Ints, uri: int, local: int) -> int:
    """The number of a name in a namespace, both by their own."""
    return pair_of(A, uri, local)
