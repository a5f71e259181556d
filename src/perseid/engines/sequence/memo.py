"""Memo of a search: event combinations, taken events, and points reached, in one hash table."""

from __future__ import annotations

from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled


@compiled
def add_key(M: Arrays, first: int, length: int, store: bool) -> int:
    """Look up the key at the end of the buffer and store it on request: 1 if it is new, 0 if it is known, or FULL."""
    w = M.space
    table, size = w[A_TABLE], w[A_TABLE_SIZE]
    h = length
    for k in range(first, first + length):
        h = ((h ^ (w[k] & 0x7FFFFFFF)) * 1_000_003) & 0x7FFFFFFF  # no product above 2^51
        h ^= h >> 15
    epoch = w[C_STARTED]
    place = h % size
    for _ in range(64):
        if w[table + 3 * place] != epoch:
            if not store:
                return 1
            w[table + 3 * place] = epoch
            w[table + 3 * place + 1] = first
            w[table + 3 * place + 2] = length
            w[C_KEYS] = first + length
            w[C_OUTCOME] = first + length
            return 1
        if w[table + 3 * place + 2] == length:
            same = True
            other = w[table + 3 * place + 1]
            for k in range(length):
                if w[other + k] != w[first + k]:
                    same = False
                    break
            if same:
                w[C_OUTCOME] = other + length
                return 0
        place = (place + 1) % size
    return FULL


@compiled
def combination_key(M: Arrays, count: int, tag: int, store: bool) -> int:
    """Look up the combination of events chosen by ``->>``: 1 if it is new, 0, or FULL."""
    w = M.space
    first = w[C_KEYS]
    if first + count + 1 > w[A_KEYS_END]:
        return FULL
    w[first] = tag
    length = 1
    for k in range(count):
        if w[w[A_TAKEN] + TAKEN_WIDTH * k + K_ANY]:
            w[first + length] = w[w[A_TAKEN] + TAKEN_WIDTH * k + K_POSITION]
            length += 1
    return add_key(M, first, length, store)


@compiled
def taken_key(M: Arrays, count: int, tag: int) -> int:
    w = M.space
    first = w[C_KEYS]
    if first + 2 * count + 1 > w[A_KEYS_END]:
        return FULL
    w[first] = tag
    for k in range(count):
        w[first + 1 + 2 * k] = w[w[A_TAKEN] + TAKEN_WIDTH * k + K_STEP]
        w[first + 2 + 2 * k] = w[w[A_TAKEN] + TAKEN_WIDTH * k + K_POSITION]
    return add_key(M, first, 2 * count + 1, True)


@compiled
def point_key(M: Arrays, at: int, tag: int, base: int) -> int:
    """Look up the point that a thread has reached: 1 if this is the first, and so the preferred, path; 0, or FULL.

    Valid only for patterns without conditions on earlier events: then equal points have equal continuations. Sets
    ``C_OUTCOME`` to the offset of the point's outcome.
    """
    t, w = M.tables, M.space
    first = w[C_KEYS]
    most = t[S_FRAME] + 5
    if t[S_COMBINES]:
        most += w[at + COUNT]
    if first + most > w[A_KEYS_END]:
        return FULL
    w[first] = tag
    w[first + 1] = w[at + PC]
    w[first + 2] = w[at + LAST]
    n = 3
    for k in range(t[S_REGISTER_COUNT]):
        w[first + n] = w[at + t[S_REGISTERS] + 3 * k]
        n += 1
    w[first + n] = w[at + WATCHES] * 1000 + w[at + ZONES]
    n += 1
    for k in range(w[at + WATCHES] * WATCH_WIDTH):
        w[first + n] = w[at + t[S_WATCHES] + k]
        n += 1
    for k in range(w[at + ZONES] * ZONE_WIDTH):
        w[first + n] = w[at + t[S_ZONES] + k]
        n += 1
    for k in range(2 * t[S_UNIFIED_COUNT]):
        w[first + n] = w[at + t[S_UNIFIED] + k]
        n += 1
    if t[S_COMBINES]:
        for k in range(base, w[at + COUNT]):
            if w[w[A_TAKEN] + TAKEN_WIDTH * k + K_ANY]:
                w[first + n] = w[w[A_TAKEN] + TAKEN_WIDTH * k + K_POSITION]
                n += 1
    result = add_key(M, first, n, True)
    if result == 1:
        w[w[C_OUTCOME]] = POINT_DEAD
        w[C_KEYS] += 1
    return result
