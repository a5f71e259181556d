"""Tags as tokens: their names and attributes, and the namespaces that they declare."""

from __future__ import annotations

from perseid.engines.trees.layout import *
from perseid.engines.trees.layout import Bytes, Ints, Tokens, WritableBytes, compiled
from perseid.engines.trees.names import (
    add_recent,
    declare,
    expanded,
    leave_scope,
    name_length,
    name_of,
    read_name,
    read_uri,
    recent_name,
    same_name,
)
from perseid.engines.trees.signs import *
from perseid.engines.trees.vectors import REACH, value_bytes


@compiled
def write_token(K: Tokens, index: int, kind: int, name: int, begin: int, end: int) -> None:
    K[T_KIND, index] = kind
    K[T_NAME, index] = name
    K[T_BEGIN, index] = begin
    K[T_END, index] = end


@compiled
def doubt(A: Ints, at: int, reason: int) -> int:
    A[H_AT] = at
    A[H_REASON] = reason
    return DOUBT


@compiled
def close_tag(A: Ints, K: Tokens, name: int, at: int) -> None:
    """Close an element, given its name in its namespace."""
    write_token(K, A[H_TOKENS], END, name, at, at)
    A[H_TOKENS] += 1
    leave_scope(A)
    A[H_DEPTH] -= 1
    if A[H_DEPTH] == 0:
        A[H_ROOTS] = 2


@compiled
def end_tag(A: Ints, N: WritableBytes, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """Scan ``</name>``; return a scan status."""
    if A[H_TOKENS] + 1 > A[H_TOKEN_CAPACITY]:
        A[H_AT] = at
        return FULL
    if A[H_DEPTH] == 0:
        return doubt(A, at, UNSURE)
    top = A[H_STACK] + 2 * (A[H_DEPTH] - 1)
    record = A[top]
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
    """Return the closing quote's offset, or -3 - offset for a value to decode; -1 at the input end, -2 for DOUBT."""
    is_plain = True
    while at < end:
        if at + REACH <= end:
            skipped = value_bytes(D, at)
            at += skipped
            if skipped == REACH:
                continue
        byte = D[at]
        if byte == quote:
            return at if is_plain else -3 - at
        kind = IN_TEXT[byte]
        if kind == PLAIN or kind == BRACKET:
            is_plain = is_plain and byte >= SPACE
            at += 1
        elif kind == WIDE:
            length = wide(D, at, end) if A[H_STRICT] else 1
            if length <= 0:
                return -1 if length < 0 else -2
            at += length
        elif kind == REFERS:
            is_plain = False
            if A[H_STRICT]:
                close = reference(D, at, end)
                if close <= 0:
                    return -1 if close < 0 else -2
                at = close
            else:
                at += 1
        elif kind == RETURN:
            is_plain = False
            at += 1
        elif A[H_STRICT]:
            return -2
        else:
            at += 1
    return -1


@compiled
def declarations(A: Ints, N: WritableBytes, D: Bytes, K: Tokens, first: int, tokens: int) -> int:
    """Bind declared namespaces; return the end of the other attributes, or -1 for no capacity, -2 for DOUBT."""
    remaining = first
    for index in range(first, tokens):
        name = K[T_NAME, index]
        prefix = A[A[H_RECORDS] + name * RECORD_WIDTH + R_PREFIX]
        if name != XMLNS_PREFIX and prefix != XMLNS_PREFIX:
            write_token(K, remaining, K[T_KIND, index], name, K[T_BEGIN, index], K[T_END, index])
            remaining += 1
            continue
        begin, end = K[T_BEGIN, index], K[T_END, index]
        bound = EMPTY if name == XMLNS_PREFIX else A[A[H_RECORDS] + name * RECORD_WIDTH + R_LOCAL]
        if K[T_KIND, index] == ESCAPED_VALUE:
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
    return remaining


@compiled
def name_at(A: Ints, N: WritableBytes, D: Bytes, begin: int, end: int) -> int:
    """Return the record of a tag or attribute name; -1 for no capacity, -2 for DOUBT, -3 if the input ends in it."""
    length = name_length(D, begin, end)
    record = recent_name(A, N, D, begin, length) if length else 0
    if record != 0:
        return record
    close = begin
    while close < end and IN_NAME[D[close]]:
        if IN_NAME[D[close]] == BEYOND_ASCII and A[H_STRICT]:
            return -2
        close += 1
    if close >= end:
        return -3
    if close == begin or IN_NAME[D[begin]] == 2:
        return -2
    name = read_name(A, N, D, begin, close)
    if name < 0:
        return name
    add_recent(A, D, begin, close, name, end)
    return int(A[H_RECORDS] + name * RECORD_WIDTH)


@compiled
def without_name(A: Ints, at: int, reason: int) -> int:
    """Return the scan status of a tag without a name where one is required, from the error of ``name_at``."""
    if reason == -3:
        A[H_AT] = at
        return MORE
    return doubt(A, at, TOO_MANY_NAMES if reason == -1 else UNSURE)


@compiled
def start_tag(A: Ints, N: WritableBytes, D: Bytes, K: Tokens, at: int, end: int) -> int:
    """Scan ``<name a="b">`` or ``<name/>``; return a scan status. An incomplete tag has no effect except new names."""
    if A[H_ROOTS] == 2:
        return doubt(A, at, UNSURE)
    if A[H_DEPTH] >= A[H_DEEPEST]:
        return doubt(A, at, TOO_DEEP)
    begin = at + 1
    tag = name_at(A, N, D, begin, end)
    if tag < 0:
        return without_name(A, at, tag)
    close = begin + A[tag + R_LENGTH]
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
        record = name_at(A, N, D, begin, end)
        if record < 0:
            return without_name(A, at, record)
        close = begin + A[record + R_LENGTH]
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
        if attributes > A[H_MAX_ATTRIBUTES]:
            return doubt(A, at, TOO_MANY_ATTRIBUTES)
        attribute = (record - A[H_RECORDS]) // RECORD_WIDTH
        if A[record + R_STAMP] == A[H_SERIAL]:
            return doubt(A, at, UNSURE)
        A[record + R_STAMP] = A[H_SERIAL]
        if tokens >= A[H_TOKEN_CAPACITY]:
            A[H_AT] = at
            return FULL
        # For now under the name as written: namespaces are resolved at the end of the tag, as declarations may follow.
        write_token(K, tokens, kind, attribute, begin, close)
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
    if tokens + 1 > A[H_TOKEN_CAPACITY]:
        A[H_AT] = at
        return FULL
    if declared:
        tokens = declarations(A, N, D, K, first + 1, tokens)
        if tokens < 0:
            return doubt(A, at, TOO_MANY_NAMES if tokens == -1 else UNSURE)
    pair_number = expanded(A, (tag - A[H_RECORDS]) // RECORD_WIDTH, False)
    if pair_number < 0:
        return doubt(A, at, TOO_MANY_NAMES if pair_number == -1 else UNSURE)
    if tokens > first + 1 and (A[H_ATTRIBUTES] or prefixed):
        for index in range(first + 1, tokens):
            attribute_number = expanded(A, K[T_NAME, index], True)
            if attribute_number < 0:
                return doubt(A, at, TOO_MANY_NAMES if attribute_number == -1 else UNSURE)
            pair = A[H_PAIR] + A[H_PAIR_SIZE] + attribute_number * PAIR_WIDTH
            if A[pair + P_STAMP] == A[H_SERIAL]:
                return doubt(A, at, UNSURE)  # two prefixes for one namespace
            A[pair + P_STAMP] = A[H_SERIAL]
            K[T_NAME, index] = attribute_number
    write_token(K, first, START, pair_number, at, begin + 1)
    A[H_TOKENS] = tokens if A[H_ATTRIBUTES] else first + 1
    top = A[H_STACK] + 2 * A[H_DEPTH]
    A[top] = tag
    A[top + 1] = pair_number
    A[H_DEPTH] += 1
    A[H_ROOTS] = 1
    if empty:
        close_tag(A, K, pair_number, begin)
    A[H_AT] = begin + 1
    return DONE
