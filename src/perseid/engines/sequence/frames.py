"""The search for matches over arrays of events: what the oracle does, with jumps instead of scans.

One source, compiled by Numba or run as plain Python. Paths are frames of numbers on a stack; the search goes
depth first in order of preference, so that the first path to arrive is the one that counts. Which event a step can
take next is found by jumping over a tree of masks, so a search costs what it tries and not how long it waits.
The arrays and their words are named in :mod:`perseid.engines.sequence.layout`.
"""

from __future__ import annotations

from perseid.engines.sequence.conditions import add_to_totals, ask
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled, entry

# jumping


@entry
def index_blocks(M: Arrays) -> None:
    """Note what occurs in each 64 events, and in each 64 such blocks; the first place says where the latter begin."""
    e, b = M.events, M.blocks
    n = e.shape[1]
    above = b[0]
    for i in range(n):
        b[1 + (i >> 6)] |= e[E_MASK, i]
    for i in range(1, above):
        b[above + ((i - 1) >> 6)] |= b[i]


@compiled
def next_until(M: Arrays, position: int, end: int, wanted: int, closing: int) -> int:
    """Like :func:`next_event`; may give up early where only events later than ``closing`` are left."""
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
    """The first event from ``position`` to before ``end`` that fits one of the wanted steps; ``end`` where none does."""
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
def holder_of(M: Arrays, at: int, step: int) -> int:
    """The event of the path whose values the step's events have; -1: it has none, and every event has to be looked at."""
    t, w = M.tables, M.space
    row = t[S_STEP_TABLE] + step * STEP_WIDTH
    if t[row + ST_POSTING] < 0 or M.postings[0] == 0:
        return -1
    holder = t[row + ST_HOLDER]
    return w[at + t[S_CURRENT] + holder] if holder >= 0 else w[at + t[S_UNIFIED] + 2 * (-1 - holder)]


@compiled
def place_in(M: Arrays, step: int, holder: int, position: int, before: int) -> int:
    """The first event from ``position`` on that has the holder's values or, where ``before``, the last one before it.

    -1 where there is none.
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
    """The first event from ``position`` to before ``end`` that the path's step may fit, by its values where it can."""
    t = M.tables
    holder = holder_of(M, at, step)
    if holder < 0:
        return next_until(M, position, end, 1 << t[t[S_STEP_TABLE] + step * STEP_WIDTH + ST_BIT], closing)
    found = place_in(M, step, holder, position, 0)
    return end if found < 0 else min(found, end)


@compiled
def first_at(M: Arrays, low: int, high: int, moment: int) -> int:
    """The first position from ``low`` to ``high`` whose time is at least ``moment``."""
    e = M.events
    # Mostly it lies near: strides that double find it in less than halving all that comes after.
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


# frames


@compiled
def copy_words(M: Arrays, source: int, target: int, width: int) -> None:
    w = M.space
    for k in range(width):
        w[target + k] = w[source + k]


@compiled
def clear_frame(M: Arrays, at: int) -> None:
    """A path before its first event."""
    t, w = M.tables, M.space
    for k in range(t[S_FRAME]):
        w[at + k] = 0
    w[at + LAST] = -1
    w[at + CONTIGUITY] = FIRST
    w[at + AFTER] = -1
    w[at + WITHIN] = -1
    w[at + BARRIER] = NONE
    w[at + STEP] = -1
    for k in range(t[S_STEPS]):
        w[at + t[S_CURRENT] + k] = -1
    for k in range(2 * t[S_UNIFIED_COUNT]):
        w[at + t[S_UNIFIED] + k] = -1


@compiled
def all_hold(M: Arrays, first: int, count: int, at: int, own: int) -> bool:
    t = M.tables
    for k in range(first, first + count):
        if ask(M, t[k], at, own) != 1:
            return False
    return True


@compiled
def is_mine(M: Arrays, at: int, position: int) -> bool:
    """Does the path, or one around it, take this event itself?"""
    w = M.space
    high = w[at + COUNT]
    while high > 0:
        # What one path takes ascends; below it on the stack lies what the path around it has taken.
        low = w[at + BEGUN]
        first = low
        while low < high:
            middle = (low + high) >> 1
            found = w[w[A_TAKEN] + TAKEN_WIDTH * middle + K_POSITION]
            if found == position:
                return True
            if found < position:
                low = middle + 1
            else:
                high = middle
        high = first
        at = w[at + AROUND]
    return False


# fitting


@compiled
def equal_values(M: Arrays, a: int, p: int, b: int, q: int) -> bool:
    """Are two unified values equal? Values of different kinds are not."""
    t, e = M.tables, M.events
    x, y = t[t[S_FAMILIES] + a], t[t[S_FAMILIES] + b]
    if x == DOUBLE or y == DOUBLE:
        if (x != DOUBLE and x != INTEGER) or (y != DOUBLE and y != INTEGER):
            return False
        u = M.doubles[a, p] if x == DOUBLE else float(e[E_COLUMNS + a, p])
        v = M.doubles[b, q] if y == DOUBLE else float(e[E_COLUMNS + b, q])
        return bool(u == v or (u != u and v != v))
    if x == y:
        return bool(e[E_COLUMNS + a, p] == e[E_COLUMNS + b, q])
    if x == DATE and y == TIMESTAMP:
        return bool(e[E_COLUMNS + a, p] * 86_400_000_000 == e[E_COLUMNS + b, q])
    if x == TIMESTAMP and y == DATE:
        return bool(e[E_COLUMNS + a, p] == e[E_COLUMNS + b, q] * 86_400_000_000)
    return False


@compiled
def unify(M: Arrays, at: int, step: int, position: int) -> bool:
    """Bind or compare the step's unified values; null unifies with nothing."""
    t, e, w = M.tables, M.events, M.space
    row = t[S_STEP_TABLE] + step * STEP_WIDTH
    first = t[row + ST_UNIFY]
    for k in range(t[row + ST_UNIFY_COUNT]):
        variable, column = t[first + 2 * k], t[first + 2 * k + 1]
        if (e[E_NULLS, position] >> column) & 1:
            return False
        where = at + t[S_UNIFIED] + 2 * variable
        if w[where] < 0:
            w[where] = position
            w[where + 1] = column
        elif not equal_values(M, w[where + 1], w[where], column, position):
            return False
    return True


@compiled
def bind(M: Arrays, at: int, step: int, position: int) -> None:
    """Let the frame know the event; totals were copied to a place of their own before."""
    t, w = M.tables, M.space
    count = w[at + COUNT]
    w[w[A_TAKEN] + TAKEN_WIDTH * count + K_STEP] = step
    w[w[A_TAKEN] + TAKEN_WIDTH * count + K_POSITION] = position
    w[at + COUNT] = count + 1
    w[at + t[S_CURRENT] + step] = position
    if t[t[S_STEP_TABLE] + step * STEP_WIDTH + ST_TOTALS_COUNT]:
        add_to_totals(M, w[at + TOTALS], step, position)


@compiled
def copy_totals(M: Arrays, source: int, target: int) -> None:
    t, w, r = M.tables, M.space, M.reals
    n = t[S_TOTALS]
    for k in range(n * TOTAL_INTS):
        w[w[A_TOTALS] + target * n * TOTAL_INTS + k] = w[w[A_TOTALS] + source * n * TOTAL_INTS + k]
    for k in range(n * TOTAL_DOUBLES):
        r[STACK + target * n * TOTAL_DOUBLES + k] = r[STACK + source * n * TOTAL_DOUBLES + k]


@compiled
def fits(M: Arrays, at: int, step: int, position: int) -> bool:
    """Is the event of the step's kind, and do the conditions that choose hold?

    Conditions that wait for a step not bound yet are left out.
    """
    t, e, w = M.tables, M.events, M.space
    row = t[S_STEP_TABLE] + step * STEP_WIDTH
    if not (e[E_MASK, position] >> t[row + ST_BIT]) & 1:
        return False
    if t[row + ST_SIMPLE]:
        return True
    bound = at
    if t[row + ST_BINDS]:
        bound = w[A_BIND]
        copy_words(M, at, bound, t[S_FRAME])
        if not unify(M, bound, step, position):
            return False
        if t[row + ST_TOTALS_COUNT]:
            copy_totals(M, w[at + TOTALS], 0)  # place 0 is for trying
            w[bound + TOTALS] = 0
        # What lies above the path on the stack of taken events is nobody's.
        bind(M, bound, step, position)
    first = t[row + ST_CHOOSE]
    for k in range(first, first + 3 * t[row + ST_CHOOSE_COUNT], 3):
        needs = t[k + 1]
        asked = True
        for n in range(needs, needs + t[k + 2]):
            if w[at + t[S_CURRENT] + t[n]] < 0:
                asked = False
                break
        if asked and ask(M, t[k], bound, position) != 1:
            return False
    return True


@compiled
def take(M: Arrays, source: int, step: int, position: int, at: int) -> int:
    """The path with the event, written to the frame ``at``: 1, or 0 where ``must`` refuses it, or FULL."""
    t, e, w = M.tables, M.events, M.space
    width = t[S_FRAME]
    if at + width > w[A_FRAMES_END] or w[A_TAKEN] + TAKEN_WIDTH * (w[source + COUNT] + 2) > w[A_TAKEN_END]:
        return FULL
    if source != at:
        copy_words(M, source, at, width)
    row = t[S_STEP_TABLE] + step * STEP_WIDTH
    unify(M, at, step, position)
    if t[row + ST_TOTALS_COUNT]:
        slots = w[C_TOTALS]
        if w[A_TOTALS] + (slots + 1) * t[S_TOTALS] * TOTAL_INTS > w[A_TOTALS_END]:
            return FULL
        copy_totals(M, w[source + TOTALS], slots)
        w[at + TOTALS] = slots
        w[C_TOTALS] = slots + 1
    w[w[A_TAKEN] + TAKEN_WIDTH * w[at + COUNT] + K_ANY] = 1 if w[at + CONTIGUITY] == ANY else 0
    bind(M, at, step, position)
    if not (e[E_MUST, position] >> step) & 1:
        return 0
    if not all_hold(M, t[row + ST_MUST], t[row + ST_MUST_COUNT], at, position):
        return 0
    w[at + LAST] = position
    w[at + CONTIGUITY] = FIRST
    w[at + AFTER] = -1
    w[at + WITHIN] = -1
    w[at + TOGETHER] = 0
    w[at + CLOCK] = e[E_TIME, position]
    w[at + BARRIER] = NONE
    w[at + SPARE] = 0
    w[at + UNTILS] = 0
    kept = 0
    watches = at + t[S_WATCHES]
    for k in range(w[at + WATCHES]):
        if w[watches + k * WATCH_WIDTH + W_CONJUNCTION] >= 0:
            if kept != k:
                copy_words(M, watches + k * WATCH_WIDTH, watches + kept * WATCH_WIDTH, WATCH_WIDTH)
            kept += 1
    w[at + WATCHES] = kept
    zones = at + t[S_ZONES]
    for k in range(w[at + ZONES]):
        if w[zones + k * ZONE_WIDTH + Z_FIRST] < 0:
            w[zones + k * ZONE_WIDTH + Z_FIRST] = position
    return 1


# options


@compiled
def add_watch(M: Arrays, at: int, program: int, position: int, since: int, until: int, conjunction: int) -> None:
    t, w = M.tables, M.space
    k = at + t[S_WATCHES] + w[at + WATCHES] * WATCH_WIDTH
    w[k + W_PROGRAM] = program
    w[k + W_POSITION] = position
    w[k + W_SINCE] = since
    w[k + W_UNTIL] = until
    w[k + W_DEPTH] = w[at + ZONES]
    w[k + W_CONJUNCTION] = conjunction
    w[at + WATCHES] += 1


@compiled
def close_zone(M: Arrays, at: int) -> bool:
    """Leave the innermost zone, which may end with an absence that lasts until its window closes."""
    t, e, w = M.tables, M.events, M.space
    w[at + ZONES] -= 1
    depth = w[at + ZONES]
    zone = at + t[S_ZONES] + depth * ZONE_WIDTH
    if w[zone + Z_FIRST] < 0:
        return True
    begin = e[E_TIME, w[zone + Z_FIRST]]
    if w[zone + Z_MICROS] >= 0:
        closing = begin + w[zone + Z_MICROS]
        if w[at + CLOCK] > closing:
            return False
        ends_here = False
        for k in range(w[at + WATCHES]):
            watch = at + t[S_WATCHES] + k * WATCH_WIDTH
            if w[watch + W_DEPTH] > depth and w[watch + W_UNTIL] == NONE and w[watch + W_CONJUNCTION] < 0:
                w[watch + W_UNTIL] = closing
                ends_here = True
        if ends_here:
            w[at + CLOCK] = closing
            w[at + BARRIER] = closing
    return not (w[zone + Z_HOLDS] >= 0 and w[at + CLOCK] - begin < w[zone + Z_HOLDS])


@compiled
def stop_since(M: Arrays, at: int, until: int, low: int, high: int) -> int:
    """The first event from ``low`` to before ``high`` that ends a repetition; ``high`` where none does."""
    position = low - 1
    while True:
        position = next_for(M, at, until, position + 1, high, FOREVER)
        if position >= high or fits(M, at, until, position):
            return position


@compiled
def options(M: Arrays, root: int, first: int) -> int:
    """What a path can do next, the preferred way first, written as frames from ``first`` on; their number, or FULL."""
    t, w = M.tables, M.space
    width = t[S_FRAME]
    # A way is followed where its option will stand; ways to be followed later wait on a stack of frames.
    base = w[A_WORK]
    room = (w[A_WORK_END] - base) // width
    strictly = t[S_STRICTLY]
    depth, at = 0, first
    if at + width > w[A_FRAMES_END]:
        return FULL
    copy_words(M, root, at, width)
    i = w[at + PC]
    while True:
        op = t[i]
        dead = False
        if op == TAKE or op == ACCEPT:
            w[at + PC] = i
            w[at + STEP] = -1
            if op == TAKE:
                w[at + PC] = i + OP_WIDTH
                w[at + STEP] = t[i + 1]
            at += width
            dead = True
        elif op == HOP:
            w[at + CONTIGUITY] = t[i + 1]
            w[at + AFTER] = t[i + 2]
            w[at + WITHIN] = t[i + 3]
            i += OP_WIDTH
        elif op == JUMP:
            i = t[i + 1]
        elif op == SPLIT:
            count = t[i + 2]
            if depth + count > room:
                return FULL
            for k in range(count - 1, 0, -1):
                copy_words(M, at, base + depth * width, width)
                w[base + depth * width + PC] = t[t[i + 1] + k]
                depth += 1
            i = t[t[i + 1]]
        elif op == LOOP_ENTER:
            r = at + t[S_REGISTERS] + 3 * t[i + 1]
            w[r] = 0
            w[r + 1] = w[at + COUNT]
            w[r + 2] = w[at + COUNT]
            i += OP_WIDTH
        elif op == LOOP_BACK:
            r = at + t[S_REGISTERS] + 3 * t[i + 1]
            i = t[i + 2]
            w[r] += 1
            if t[i + 3] < 0 and w[r] > t[i + 2] and w[r] > 1:
                # Without an upper bound, rounds beyond the lower one need no counting.
                w[r] = t[i + 2] if t[i + 2] > 1 else 1
        elif op == LOOP_TURN:
            r = t[S_REGISTERS] + 3 * t[i + 1]
            rounds, entered, count = w[at + r], w[at + r + 2], w[at + COUNT]
            low, high, reluctant, until = t[i + 2], t[i + 3], t[i + 4], t[i + 8]
            idle = rounds > 0 and count == w[at + r + 1]
            leave = rounds <= low if idle else rounds >= low
            if leave and t[i + 10]:
                leave = all_hold(M, t[i + 9], t[i + 10], at, -1)
            again = not idle and (high < 0 or rounds < high)
            if again and until >= 0 and count > entered:
                begun = w[w[A_TAKEN] + TAKEN_WIDTH * entered + K_POSITION] + 1
                last = w[at + LAST] + 1
                again = stop_since(M, at, until, begun, last) >= last
            other = at
            if again and leave:
                if depth == room:
                    return FULL
                other = base + depth * width
                depth += 1
                copy_words(M, at, other, width)
            if leave:
                to = at if reluctant else other
                w[to + PC] = t[i + 14]
                w[to + r] = 0
                w[to + r + 1] = 0
                w[to + r + 2] = 0
                if idle:
                    w[to + UNTILS] = 0
                    w[to + SPARE] = 0
            if again:
                to = other if reluctant else at
                w[to + PC] = t[i + 13]
                w[to + r + 1] = count
                for n in range(t[i + 11], t[i + 11] + t[i + 12]):
                    w[to + t[S_CURRENT] + t[n]] = -1
                if reluctant and leave:
                    w[to + SPARE] = 1
                elif count != entered:
                    w[to + SPARE] = 0
                if rounds > 0:
                    w[to + CONTIGUITY] = t[i + 5]
                    w[to + AFTER] = t[i + 6]
                    w[to + WITHIN] = t[i + 7]
                    if until >= 0:
                        w[to + t[S_UNTILS] + w[to + UNTILS]] = until
                        w[to + UNTILS] += 1
                    else:
                        w[to + UNTILS] = 0
            i = w[at + PC]
            dead = not again and not leave
        elif op == ALL_ENTER:
            r = at + t[S_REGISTERS] + 3 * t[i + 1]
            since = w[at + CLOCK] if strictly else w[at + BARRIER]
            for k in range(t[i + 3], t[i + 3] + t[i + 4]):
                add_watch(M, at, t[k], w[at + LAST], since, NONE, t[i + 1])
            w[r] = 0
            w[r + 1] = 0
            w[r + 2] = w[at + COUNT]
            i += OP_WIDTH
        elif op == ALL_BACK:
            r = at + t[S_REGISTERS] + 3 * t[i + 1]
            w[r] |= 1 << t[i + 2]
            w[r + 1] = 0
            i = t[i + 3]
        elif op == ALL_TURN:
            r = at + t[S_REGISTERS] + 3 * t[i + 1]
            done, entered, members = w[r], w[r + 2], t[i + 8]
            if done == (1 << members) - 1:
                dead = not all_hold(M, t[i + 5], t[i + 6], at, -1)
                kept = 0
                watches = at + t[S_WATCHES]
                for k in range(w[at + WATCHES]):
                    if w[watches + k * WATCH_WIDTH + W_CONJUNCTION] != t[i + 1]:
                        copy_words(M, watches + k * WATCH_WIDTH, watches + kept * WATCH_WIDTH, WATCH_WIDTH)
                        kept += 1
                w[at + WATCHES] = kept
                w[r] = 0
                w[r + 1] = 0
                w[r + 2] = 0
                i = t[i + 9]
            else:
                if depth + members > room:
                    return FULL
                if w[at + COUNT] != entered:
                    w[at + CONTIGUITY] = t[i + 2]
                    w[at + AFTER] = t[i + 3]
                    w[at + WITHIN] = t[i + 4]
                    w[at + TOGETHER] = 1
                least = 0
                while done >> least & 1:
                    least += 1
                for k in range(members - 1, least, -1):
                    if not done >> k & 1:
                        copy_words(M, at, base + depth * width, width)
                        w[base + depth * width + PC] = t[t[i + 7] + k]
                        depth += 1
                i = t[t[i + 7] + least]
        elif op == WATCH:
            since = w[at + CLOCK] if strictly else w[at + BARRIER]
            duration = t[i + 2]
            until = NONE if duration < 0 else w[at + CLOCK] + duration
            add_watch(M, at, t[i + 1], w[at + LAST], since, until, -1)
            if duration >= 0:
                w[at + CLOCK] = until
                w[at + BARRIER] = until
            i += OP_WIDTH
        elif op == ZONE_ENTER:
            zone = at + t[S_ZONES] + w[at + ZONES] * ZONE_WIDTH
            w[zone + Z_MICROS] = t[i + 1]
            w[zone + Z_COUNT] = t[i + 2]
            w[zone + Z_HOLDS] = t[i + 3]
            w[zone + Z_FIRST] = -1
            w[at + ZONES] += 1
            i += OP_WIDTH
        else:  # ZONE_LEAVE
            dead = not close_zone(M, at)
            i += OP_WIDTH
        if dead:
            if depth == 0:
                return (at - first) // width
            if at + width > w[A_FRAMES_END]:
                return FULL
            depth -= 1
            copy_words(M, base + depth * width, at, width)
            i = w[at + PC]


# bounds of an option


@compiled
def window_end(M: Arrays, start: int) -> int:
    t, e = M.tables, M.events
    return e[E_TIME, start] + t[S_WITHIN] if t[S_WITHIN] >= 0 else FOREVER


@compiled
def high_of(M: Arrays, at: int, start: int, end: int, inner: bool) -> int:
    """The position before which windows by count let an option take an event."""
    t, w = M.tables, M.space
    high = end
    if not inner and t[S_WITHIN_COUNT] >= 0:
        high = min(high, start + t[S_WITHIN_COUNT])
    for k in range(w[at + ZONES]):
        zone = at + t[S_ZONES] + k * ZONE_WIDTH
        if w[zone + Z_FIRST] >= 0 and w[zone + Z_COUNT] >= 0:
            high = min(high, w[zone + Z_FIRST] + w[zone + Z_COUNT])
    return high


@compiled
def bounds(M: Arrays, at: int, start: int, end: int, inner: bool) -> None:
    """Write what bounds an option into its frame: the last time, and the position before which it may take."""
    t, e, w = M.tables, M.events, M.space
    closing = FOREVER if inner else window_end(M, start)
    if w[at + WITHIN] >= 0 and w[at + CLOCK] + w[at + WITHIN] < closing:
        closing = w[at + CLOCK] + w[at + WITHIN]
    for k in range(w[at + ZONES]):
        zone = at + t[S_ZONES] + k * ZONE_WIDTH
        if w[zone + Z_FIRST] >= 0 and w[zone + Z_MICROS] >= 0:
            closing = min(closing, e[E_TIME, w[zone + Z_FIRST]] + w[zone + Z_MICROS])
    w[at + CLOSING] = closing
    high = high_of(M, at, start, end, inner)
    if w[at + CONTIGUITY] == STRICT and w[at + LAST] + 2 < high:
        high = w[at + LAST] + 2
    for k in range(w[at + UNTILS]):
        until = w[at + t[S_UNTILS] + k]
        high = min(high, stop_since(M, at, until, w[at + LAST] + 1, high))
    w[at + HIGH] = high


@compiled
def in_time(M: Arrays, at: int, moment: int) -> bool:
    """May the option take an event of this time? Its window is looked at elsewhere."""
    t, w = M.tables, M.space
    if t[S_STRICTLY] and (moment < w[at + CLOCK] or (moment == w[at + CLOCK] and not w[at + TOGETHER])):
        return False
    if w[at + BARRIER] != NONE and moment <= w[at + BARRIER]:
        return False
    return not (w[at + AFTER] >= 0 and moment < w[at + CLOCK] + w[at + AFTER])


# absence


@compiled
def lone_must(M: Arrays, at: int, step: int, position: int) -> bool:
    """Would ``must`` let a negated step take this event?"""
    t, e, w = M.tables, M.events, M.space
    if not (e[E_MUST, position] >> step) & 1:
        return False
    row = t[S_STEP_TABLE] + step * STEP_WIDTH
    if t[row + ST_MUST_COUNT] == 0:
        return True
    copy_words(M, at, w[A_BIND], t[S_FRAME])
    unify(M, w[A_BIND], step, position)
    if t[row + ST_TOTALS_COUNT]:
        copy_totals(M, w[at + TOTALS], 0)
        w[w[A_BIND] + TOTALS] = 0
    bind(M, w[A_BIND], step, position)
    return all_hold(M, t[row + ST_MUST], t[row + ST_MUST_COUNT], w[A_BIND], position)


@compiled
def single_absence(M: Arrays, at: int, since: int, step: int, low: int, high: int) -> int:
    """The first event from ``low`` to before ``high`` that a watched single step takes; ``high`` where none does."""
    e = M.events
    position = low - 1
    while True:
        position = next_for(M, at, step, position + 1, high, FOREVER)
        if position >= high or (
            e[E_TIME, position] > since
            and not is_mine(M, at, position)
            and fits(M, at, step, position)
            and lone_must(M, at, step, position)
        ):
            return position


# keys seen in one search: combinations, taken events, points reached


@compiled
def add_key(M: Arrays, first: int, length: int, keep: bool) -> int:
    """Is the key at the end of the buffer new? 1: new, and kept where that is asked; 0: known; FULL."""
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
            if not keep:
                return 1
            w[table + 3 * place] = epoch
            w[table + 3 * place + 1] = first
            w[table + 3 * place + 2] = length
            w[C_KEYS] = first + length
            return 1
        if w[table + 3 * place + 2] == length:
            same = True
            other = w[table + 3 * place + 1]
            for k in range(length):
                if w[other + k] != w[first + k]:
                    same = False
                    break
            if same:
                return 0
        place = (place + 1) % size
    return FULL


@compiled
def combination_key(M: Arrays, count: int, tag: int, keep: bool) -> int:
    """Is this combination of events chosen by ``->>`` new?"""
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
    return add_key(M, first, length, keep)


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
    """Is this the first, and so the preferred, way to this point with this event?

    Asked only of patterns in which no condition looks back: then equal points have equal futures.
    """
    t, w = M.tables, M.space
    first = w[C_KEYS]
    most = t[S_FRAME] + 4
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
    return add_key(M, first, n, True)
