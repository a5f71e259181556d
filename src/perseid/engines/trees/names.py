"""Names of a document by number, as written and in their namespaces, and the declared namespaces."""

from __future__ import annotations

from perseid.engines.trees.layout import *
from perseid.engines.trees.layout import Bytes, Ints, WritableBytes, compiled, entry
from perseid.engines.trees.signs import *
from perseid.engines.trees.vectors import REACH, WORD, WORD_BITS, name_bytes, same_bytes, word

MAX_PROBES = 256
"""Limit of probes in a hash table that is at most half full: only adversarial documents reach it."""
FOLD = 0x5851F42D


@compiled
def same_name(D: Bytes, begin: int, length: int, N: WritableBytes, at: int) -> bool:
    for k in range(length):
        if D[begin + k] != N[at + k]:
            return False
    return True


@compiled
def mixed(hashed: int) -> int:
    """Mix a hash so that its low bits differ for names that differ in their last letters only, as numbered ones do."""
    hashed = ((hashed & 0xFFFFFF) * 0x9E3779B1 + (hashed >> 24) * 0x85EBCA6B) & 0xFFFFFFFFFFFF
    return int(hashed ^ (hashed >> 23))


@compiled
def hash_of(A: Ints, D: Bytes, begin: int, end: int) -> int:
    """Hash bytes to a number from 0 on; salted, so that documents cannot be written to collide."""
    hashed, factor = A[H_SALT], A[H_FACTOR]
    for k in range(begin, end):
        hashed = (hashed * factor + int(D[k])) & 0xFFFFFFFFFFFF
    return mixed(hashed)


@compiled
def name_of(A: Ints, N: WritableBytes, D: Bytes, begin: int, end: int) -> int:
    """Return the number of a name, which is added if it is new; -1 if there is no capacity."""
    hashed = hash_of(A, D, begin, end)
    mask = A[H_TABLE_SIZE] - 1
    slot = hashed & mask
    last = (slot + MAX_PROBES) & mask
    while True:
        number_found = A[A[H_TABLE] + slot] - 1
        if number_found < 0:
            break
        record = A[H_RECORDS] + number_found * RECORD_WIDTH
        if (
            A[record + R_HASH] == hashed
            and A[record + R_LENGTH] == end - begin
            and same_name(D, begin, end - begin, N, A[record + R_AT])
        ):
            return int(number_found)
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
def read_name(A: Ints, N: WritableBytes, D: Bytes, begin: int, end: int) -> int:
    """Return the number of a name, with or without prefix; -1 for no capacity, -2 for malformed colons."""
    number = name_of(A, N, D, begin, end)
    if number < 0:
        return -1
    record = A[H_RECORDS] + number * RECORD_WIDTH
    if A[record + R_LOCAL] != -2:  # else it is new, or was only a part of a name or a namespace
        return int(number if A[record + R_LOCAL] >= 0 else -2)
    colon = begin
    while colon < end and D[colon] != COLON:
        colon += 1
    if colon == end:
        A[record + R_LOCAL] = number
        return int(number)
    A[record + R_LOCAL] = -1  # until its colons are validated
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
def key_of(D: Bytes, begin: int, length: int) -> int:
    """Return the key of a name in the cache of recent names: its letters, if there are few, otherwise a hash."""
    if length < WORD:
        return (word(D, begin) & ((1 << 8 * length) - 1)) | (length << 8 * (WORD - 1))
    key = word(D, begin) * FOLD + word(D, begin + length - WORD)
    return (key & WORD_BITS) | (WORD_BITS + 1)


@compiled
def name_length(D: Bytes, begin: int, end: int) -> int:
    """Return the length of what may be a name; 0 if it is empty, too near to the end, or too long for the cache."""
    if begin + 2 * REACH > end:
        return 0
    length = name_bytes(D, begin)
    if length == REACH:
        length += name_bytes(D, begin + REACH)
        if length == 2 * REACH:
            return 0
    return length


@compiled
def recent_name(A: Ints, N: WritableBytes, D: Bytes, begin: int, length: int) -> int:
    """Return the record of a name in the cache of recent names; 0 if it is not there.

    Most names recur: they need no validation but that the bytes are equal.
    """
    key = key_of(D, begin, length)
    entry_at = A[H_RECENT] + RECENT_WIDTH * (mixed(key) & (RECENT_NAMES - 1))
    if A[entry_at + Q_KEY] != key:
        return 0
    record = A[entry_at + Q_RECORD]
    if key > WORD_BITS and not (A[record + R_LENGTH] == length and same_bytes(D, begin, N, A[record + R_AT], length)):
        return 0
    return int(record)


@compiled
def add_recent(A: Ints, D: Bytes, begin: int, end: int, name: int, close: int) -> None:
    """Add a valid name to the cache of recent names, unless it is long, or not ASCII, which strict mode rejects."""
    if end - begin >= 2 * REACH or begin + REACH > close:
        return
    for k in range(begin, end):
        if IN_NAME[D[k]] >= BEYOND_ASCII:
            return
    key = key_of(D, begin, end - begin)
    entry_at = A[H_RECENT] + RECENT_WIDTH * (mixed(key) & (RECENT_NAMES - 1))
    A[entry_at + Q_KEY] = key
    A[entry_at + Q_RECORD] = A[H_RECORDS] + name * RECORD_WIDTH


@compiled
def pair_of(A: Ints, uri: int, local: int) -> int:
    """Return the number of a name in a namespace, which is added if it is new; -1 if there is no capacity."""
    mask = A[H_PAIR_SIZE] - 1
    slot = ((int(uri) * 0x9E3779B1 + int(local) * 0x85EBCA6B) >> 16) & mask
    last = (slot + MAX_PROBES) & mask
    pairs = A[H_PAIR] + A[H_PAIR_SIZE]
    while True:
        number_found = A[A[H_PAIR] + slot] - 1
        if number_found < 0:
            break
        pair = pairs + number_found * PAIR_WIDTH
        if A[pair + P_URI] == uri and A[pair + P_LOCAL] == local:
            return int(number_found)
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
    """Return the number of a name in its namespace; -1 if there is no capacity, -2 if its prefix is not declared.

    An attribute without a prefix is in no namespace, so it does not use the number stored in its record.
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
    pair = pair_of(A, uri, A[record + R_LOCAL])
    A[record + R_EPOCH] = A[H_EPOCH]
    A[record + R_EXPANDED] = pair
    return pair


@compiled
def declare(A: Ints, prefix: int, uri: int) -> bool:
    """Bind a prefix to a namespace in the element that is being opened; return False if there is no capacity."""
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
    """Undo the declarations of the element that is closed."""
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


@compiled
def read_uri(A: Ints, N: WritableBytes, D: Bytes, begin: int, end: int) -> int:
    """Return the number of a namespace with references and white space to decode; -1 if there is no capacity.

    The decoded namespace is never longer than its source. It is written where new names go: there it becomes one, or is
    overwritten.
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


@entry
def number_name(A: Ints, N: WritableBytes, D: Bytes, length: int) -> int:
    """Return the number of a name that is defined before any document."""
    return name_of(A, N, D, 0, length)


@entry
def number_pair(A: Ints, uri: int, local: int) -> int:
    """Return the number of a name in a namespace, from the numbers of both."""
    return pair_of(A, uri, local)
