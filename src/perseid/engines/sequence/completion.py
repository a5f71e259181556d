"""Run termination: negation violated, timed out, accepted and written, or out of budget."""

from __future__ import annotations

from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled
from perseid.engines.sequence.skip_index import first_at
from perseid.engines.sequence.thread_frame import all_hold, high_of, single_absence, stop_since, window_end


@compiled
def broken_before(M: Arrays, at: int, upto: int, start: int, end: int, inner: bool) -> int:
    """The first event before ``upto`` that violates a negation the branch depends on; ``upto`` if none."""
    t, e, w = M.tables, M.events, M.space
    last = w[at + LAST] + 1
    first = upto
    if w[at + BROKEN] >= 0:
        first = min(first, w[at + BROKEN])
    high = high_of(M, at, start, end, inner)
    for k in range(w[at + WATCHES]):
        watch = at + t[S_WATCHES] + k * WATCH_WIDTH
        step = t[t[S_PROGRAMS] + 2 * w[watch + W_PROGRAM] + 1]
        if step < 0:
            continue  # A group: searched for when the branch was bounded.
        limit = w[at + CLOSING]
        if w[watch + W_UNTIL] != NONE:
            limit = min(limit, w[watch + W_UNTIL])
        position = single_absence(M, at, w[watch + W_SINCE], step, w[watch + W_POSITION] + 1, first)
        position = max(position, last)
        if position < first and position < high and e[E_TIME, position] <= limit:
            first = position
    return first


@compiled
def timeout_time(M: Arrays, at: int, start: int, end: int, horizon: int) -> int:
    """The time at which a branch timed out; NONE if it ended in another way.

    FOREVER if its window is open: an event after the horizon can still be taken.
    """
    t, e, w = M.tables, M.events, M.space
    last, closing = w[at + LAST] + 1, w[at + CLOSING]
    high = high_of(M, at, start, FOREVER, False)
    inside = min(end, high)
    if closing != FOREVER:
        inside = min(inside, first_at(M, last, end, closing + 1))
    if w[at + CONTIGUITY] == STRICT and inside > last:
        return NONE
    for k in range(w[at + UNTILS]):
        if stop_since(M, at, w[at + t[S_UNTILS] + k], last, inside) < inside:
            return NONE
    if horizon != NONE and closing > horizon and high > end:
        return FOREVER
    end_time = FOREVER
    if high <= end:
        end_time = e[E_TIME, high - 1]
    if closing != FOREVER and (horizon == NONE or closing <= horizon):
        end_time = min(end_time, closing)
    return NONE if end_time == FOREVER else end_time


@compiled
def accepted_end(M: Arrays, at: int, start: int) -> int:
    """The end time of a match accepted here, its negations included; NONE if bounds or guards reject it."""
    t, e, w = M.tables, M.events, M.space
    closing = window_end(M, start)
    end = w[at + CLOCK]
    for k in range(w[at + WATCHES]):
        until = w[at + t[S_WATCHES] + k * WATCH_WIDTH + W_UNTIL]
        end = max(end, closing if until == NONE else until)
    if end > closing:
        return NONE
    if t[S_HOLDS] >= 0 and end - e[E_TIME, start] < t[S_HOLDS]:
        return NONE
    if not all_hold(M, t[S_GUARDS], t[S_GUARDS_COUNT], at, -1):
        return NONE
    return end


@compiled
def begin_start(M: Arrays, events: int) -> None:
    """Set the step limit of a start: its own budget, that of the key, or the next pause, if earlier."""
    w = M.space
    end = w[C_STEPS] + w[C_MAX_STEPS] + w[C_START_STEPS] * events
    w[C_STEPS_END] = min(end, w[C_KEY_END], w[C_PAUSE])


@compiled
def begin_key(M: Arrays, events: int) -> None:
    """Set the limits of steps and matches of a key with this number of events."""
    w = M.space
    w[C_KEY_END] = w[C_KEY_STEPS] + w[C_MAX_STEPS] + w[C_EVENT_STEPS] * events
    w[C_MATCHES_END] = w[C_MAX_MATCHES] + w[C_EVENT_MATCHES] * events
    w[C_STEPS_END] = min(w[C_KEY_END], w[C_PAUSE])


@compiled
def stopped_by(M: Arrays) -> int:
    """The reason why a search has stopped: SPENT, PAUSED, or FULL."""
    w = M.space
    if w[C_KEY_MATCHES] > w[C_MATCHES_END]:
        return SPENT
    if w[C_STEPS] > w[C_PAUSE]:
        return PAUSED
    return SPENT if w[C_STEPS] > w[C_STEPS_END] else FULL


@compiled
def append_match(M: Arrays, at: int, kind: int, end: int) -> bool:
    """Append a match to the output; False if there is no capacity for it."""
    t, w = M.tables, M.space
    count, unified = w[at + COUNT], t[S_UNIFIED_COUNT]
    to = w[C_OUT]
    if to + MATCH_HEAD + 2 * unified + 2 * count > w[A_OUT_END]:
        w[C_FULL_AREA] = OUTPUT_AREA
        return False
    w[to] = w[C_PARTITION]
    w[to + 1] = kind
    w[to + 2] = end
    w[to + 3] = count
    to += MATCH_HEAD
    for k in range(2 * unified):
        w[to + k] = w[at + t[S_UNIFIED] + k]
    to += 2 * unified
    for k in range(count):
        w[to + 2 * k] = w[w[A_TAKEN] + TAKEN_WIDTH * k + K_STEP]
        w[to + 2 * k + 1] = w[w[A_TAKEN] + TAKEN_WIDTH * k + K_POSITION]
    w[C_OUT] = to + 2 * count
    return True


@compiled
def write_match(M: Arrays, at: int, kind: int, end: int) -> bool:
    """Append a match to the output; False if there is no capacity or no budget for it."""
    w = M.space
    if w[C_KEY_MATCHES] >= w[C_MATCHES_END]:
        w[C_KEY_MATCHES] = w[C_MATCHES_END] + 1
        return False
    if not append_match(M, at, kind, end):
        return False
    w[C_KEY_MATCHES] += 1
    w[C_STEPS] += w[at + COUNT] >> CHEAP_SHIFT
    return True
