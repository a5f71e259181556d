"""Threads as frames: events that fit them, events they take, and their bounds.

One source, compiled by Numba or run as plain Python. The layout of the arrays is defined in
:mod:`perseid.engines.sequence.layout`.
"""

from __future__ import annotations

from perseid.engines.sequence.conditions import add_to_totals, evaluate
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled
from perseid.engines.sequence.skip_index import next_for


@compiled
def copy_words(M: Arrays, source: int, target: int, width: int) -> None:
    w = M.space
    for k in range(width):
        w[target + k] = w[source + k]


@compiled
def clear_frame(M: Arrays, at: int) -> None:
    """Initialize the frame of a thread without events."""
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
        if evaluate(M, t[k], at, own) != 1:
            return False
    return True


@compiled
def is_taken(M: Arrays, at: int, position: int) -> bool:
    """True if the thread or an enclosing one has taken this event."""
    w = M.space
    high = w[at + COUNT]
    while high > 0:
        # The events of one thread ascend; below them on the stack are those of the enclosing thread.
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


@compiled
def equal_values(M: Arrays, a: int, p: int, b: int, q: int) -> bool:
    """True if two unified values are equal; only numbers, or dates and timestamps, are compared across families."""
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
    """Add the event to the frame, which must have its own slot for totals."""
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
    """True if the event has the step's bit and the conditions that choose it hold.

    Conditions on a step that is not bound yet are skipped.
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
            copy_totals(M, w[at + TOTALS], 0)  # slot 0 is scratch
            w[bound + TOTALS] = 0
        # The stack of taken events is free above the thread.
        bind(M, bound, step, position)
    first = t[row + ST_CHOOSE]
    for k in range(first, first + 3 * t[row + ST_CHOOSE_COUNT], 3):
        needs = t[k + 1]
        is_bound = True
        for n in range(needs, needs + t[k + 2]):
            if w[at + t[S_CURRENT] + t[n]] < 0:
                is_bound = False
                break
        if is_bound and evaluate(M, t[k], bound, position) != 1:
            return False
    return True


@compiled
def take(M: Arrays, source: int, step: int, position: int, at: int) -> int:
    """Write the thread with the event to the frame ``at``: 1, or 0 if ``must`` rejects it, or FULL."""
    t, e, w = M.tables, M.events, M.space
    width = t[S_FRAME]
    if at + width > w[A_FRAMES_END]:
        return FULL
    if w[A_TAKEN] + TAKEN_WIDTH * (w[source + COUNT] + 2) > w[A_TAKEN_END]:
        w[C_FULL_AREA] = TAKEN_AREA
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
    if t[row + ST_MUST_BIT] >= 0 and not (e[E_MUST, position] >> t[row + ST_MUST_BIT]) & 1:
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
    retained = 0
    watches = at + t[S_WATCHES]
    for k in range(w[at + WATCHES]):
        if w[watches + k * WATCH_WIDTH + W_CONJUNCTION] >= 0:
            if retained != k:
                copy_words(M, watches + k * WATCH_WIDTH, watches + retained * WATCH_WIDTH, WATCH_WIDTH)
            retained += 1
    w[at + WATCHES] = retained
    zones = at + t[S_ZONES]
    for k in range(w[at + ZONES]):
        if w[zones + k * ZONE_WIDTH + Z_FIRST] < 0:
            w[zones + k * ZONE_WIDTH + Z_FIRST] = position
    return 1


@compiled
def stop_since(M: Arrays, at: int, until: int, low: int, high: int) -> int:
    """The first event from ``low`` to before ``high`` that ends a repetition; ``high`` if none does."""
    w = M.space
    position, tried = low - 1, 0
    while True:
        tried += 1
        position = next_for(M, at, until, position + 1, high, FOREVER)
        if position >= high or fits(M, at, until, position):
            w[C_STEPS] += tried >> CHEAP_SHIFT
            return position


@compiled
def window_end(M: Arrays, start: int) -> int:
    t, e = M.tables, M.events
    return e[E_TIME, start] + t[S_WITHIN] if t[S_WITHIN] >= 0 else FOREVER


@compiled
def high_of(M: Arrays, at: int, start: int, end: int, inner: bool) -> int:
    """The position before which count windows allow a branch to take an event."""
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
    """Write the bounds of a branch to its frame: latest time (CLOSING) and exclusive upper position (HIGH)."""
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
    """True if the branch may take an event of this time; its window is checked elsewhere."""
    t, w = M.tables, M.space
    if t[S_STRICTLY] and (moment < w[at + CLOCK] or (moment == w[at + CLOCK] and not w[at + TOGETHER])):
        return False
    if w[at + BARRIER] != NONE and moment <= w[at + BARRIER]:
        return False
    return not (w[at + AFTER] >= 0 and moment < w[at + CLOCK] + w[at + AFTER])


@compiled
def lone_must(M: Arrays, at: int, step: int, position: int) -> bool:
    """True if ``must`` of a step accepts this event; the thread does not take it."""
    t, e, w = M.tables, M.events, M.space
    row = t[S_STEP_TABLE] + step * STEP_WIDTH
    if t[row + ST_MUST_BIT] >= 0 and not (e[E_MUST, position] >> t[row + ST_MUST_BIT]) & 1:
        return False
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
    """The first event from ``low`` to before ``high`` that a negated single step takes; ``high`` if none does."""
    e, w = M.events, M.space
    position, tried = low - 1, 0
    while True:
        tried += 1
        position = next_for(M, at, step, position + 1, high, FOREVER)
        if position >= high or (
            e[E_TIME, position] > since
            and not is_taken(M, at, position)
            and fits(M, at, step, position)
            and lone_must(M, at, step, position)
        ):
            w[C_STEPS] += tried >> CHEAP_SHIFT
            return position
