"""Skip index: finds the next event by a tree of masks, by the values of an earlier event, or by time.

The cost of a search depends on the events it tries, not on the events in between.
"""

from __future__ import annotations

from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled, entry


@entry
def index_blocks(M: Arrays) -> None:
    """Build the tree: the masks of each 64 events, and of each 64 such blocks, from the offset in the first word on."""
    e, b = M.events, M.blocks
    n = e.shape[1]
    above = b[0]
    for i in range(n):
        b[1 + (i >> 6)] |= e[E_MASK, i]
    for i in range(1, above):
        b[above + ((i - 1) >> 6)] |= b[i]


@compiled
def bit_of(M: Arrays, step: int) -> int:
    """The mask with the bit of a step."""
    t = M.tables
    return 1 << t[t[S_STEP_TABLE] + step * STEP_WIDTH + ST_BIT]


@compiled
def next_until(M: Arrays, position: int, end: int, wanted: int, closing: int) -> int:
    """Like :func:`next_event`; may return ``end`` early if only events later than ``closing`` are left."""
    e, b = M.events, M.blocks
    while position < end:
        if e[E_MASK, position] & wanted:
            return position
        position += 1
        if position & 63 == 0:
            block = position >> 6
            while position < end and not b[1 + block] & wanted:
                if e[E_TIME, position] > closing:
                    return end
                block += 1
                if block & 63 == 0:
                    above = block >> 6
                    while above << 12 < end and not b[b[0] + above] & wanted:
                        above += 1
                    block = above << 6
                position = block << 6
    return end


@compiled
def next_event(M: Arrays, position: int, end: int, wanted: int) -> int:
    """The first event from ``position`` to before ``end`` that fits one of the wanted steps; ``end`` if none does."""
    return next_until(M, position, end, wanted, FOREVER)


@compiled
def last_event(M: Arrays, low: int, position: int, wanted: int) -> int:
    """The last event from ``low`` to before ``position`` that fits one of the wanted steps; below ``low`` if none."""
    e, b = M.events, M.blocks
    while position > low:
        position -= 1
        if e[E_MASK, position] & wanted:
            return position
        while position & 63 == 0 and position > low and not b[position >> 6] & wanted:
            position -= 64
            while position & 4095 == 0 and position > low and not b[b[0] + (position >> 12) - 1] & wanted:
                position -= 4096
    return low - 1


@compiled
def first_at(M: Arrays, low: int, high: int, moment: int) -> int:
    """The first position from ``low`` to before ``high`` with a time of at least ``moment``; ``high`` if none."""
    e = M.events
    # It is usually near: galloping search is faster than binary search over all later events.
    stride = 1
    while low + stride < high and e[E_TIME, low + stride] < moment:
        low += stride
        stride += stride
    high = min(high, low + stride)
    while low < high:
        middle = (low + high) >> 1
        if e[E_TIME, middle] < moment:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def holder_of(M: Arrays, at: int, step: int) -> int:
    """The thread's event with the values that the step's events must equal; -1 if every event has to be tried."""
    t, w = M.tables, M.space
    row = t[S_STEP_TABLE] + step * STEP_WIDTH
    if t[row + ST_POSTING] < 0 or M.postings[0] == 0:
        return -1
    holder = t[row + ST_HOLDER]
    return w[at + t[S_CURRENT] + holder] if holder >= 0 else w[at + t[S_UNIFIED] + 2 * (-1 - holder)]


@compiled
def place_in(M: Arrays, step: int, holder: int, position: int, before: bool) -> int:
    """The first event from ``position`` on with the holder's values or, if ``before``, the last one before it.

    -1 if no event has them.
    """
    t, s = M.tables, M.postings
    posting = 1 + t[t[S_STEP_TABLE] + step * STEP_WIDTH + ST_POSTING] * POSTING_WIDTH
    group = s[s[posting + P_GROUP_OF] + holder]
    if group < 0:
        return -1
    first, place = s[posting + P_EVENTS], s[posting + P_GROUPS] + group
    least, most = first + s[place], first + s[place + 1]
    low, high = least, most
    while low < high:
        middle = (low + high) >> 1
        if s[middle] < position:
            low = middle + 1
        else:
            high = middle
    if before:
        return s[low - 1] if low > least else -1
    return s[low] if low < most else -1


@compiled
def next_for(M: Arrays, at: int, step: int, position: int, end: int, closing: int) -> int:
    """The first event from ``position`` to before ``end`` that may fit the step, by its posting if it has one."""
    holder = holder_of(M, at, step)
    if holder < 0:
        return next_until(M, position, end, bit_of(M, step), closing)
    found = place_in(M, step, holder, position, False)
    return end if found < 0 else min(found, end)
