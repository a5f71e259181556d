"""Bounds from the steps that a thread still requires: events after which no match can follow are not tried."""

from __future__ import annotations

from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled
from perseid.engines.sequence.skip_index import bit_of, first_at, holder_of, last_event, place_in
from perseid.engines.sequence.thread_frame import window_end


@compiled
def required_steps(M: Arrays, at: int, first: int, capacity: int) -> int:
    """Write the steps that the thread ``at`` must take, as (step, strictly next), to ``first``; returns their number.

    The list ends at the first alternative, or at ``capacity``. Optional iterations of a repetition are left out. A step
    after them, or after one that may skip events, is not strictly next, because its position is unknown.
    """
    t, w = M.tables, M.space
    i, count, strict = w[at + PC], 0, False
    loose = False
    while count < capacity:
        op = t[i]
        if op == TAKE:
            if not strict:
                loose = True
            w[first + 2 * count] = t[i + 1]
            w[first + 2 * count + 1] = 0 if loose else 1
            count += 1
            i += OP_WIDTH
        elif op == HOP:
            strict = t[i + 1] == STRICT
            i += OP_WIDTH
        elif op == LOOP_TURN:
            if t[i + 2] > 0:
                i = t[i + 13]
            else:
                loose = True
                i = t[i + 14]
        elif op == LOOP_BACK:
            loose = True
            i = t[t[i + 2] + 14]
        elif op == JUMP:
            i = t[i + 1]
        elif op == SPLIT or op == ALL_ENTER or op == ALL_BACK or op == ACCEPT:
            break
        else:
            i += OP_WIDTH
    return count


@compiled
def latest_start(M: Arrays, at: int, start: int, end: int, negated: bool) -> int:
    """The position before which a branch must take an event, so that its required steps can follow.

    A ``->>`` branch tries every event before that position. If steps are decided by their own event, or by a value that
    the thread already has, each of these events leads to a match: the cost is proportional to the output.
    """
    t, w = M.tables, M.space
    low = w[at + LAST] + 1
    if not negated:
        if t[S_WITHIN_COUNT] >= 0:
            end = min(end, start + t[S_WITHIN_COUNT])
        if t[S_WITHIN] >= 0:
            end = first_at(M, low, end, window_end(M, start) + 1)
    # The frame in which conditions bind events is free while no condition is evaluated.
    first = w[A_BIND]
    for k in range(required_steps(M, at, first, t[S_FRAME] // 2) - 1, -1, -1):
        if end <= low:
            break
        step = w[first + 2 * k]
        holder, known = holder_of(M, at, step), step
        while holder < 0 and t[t[S_STEP_TABLE] + known * STEP_WIDTH + ST_SAME_VALUES]:
            # The holder is not bound yet; if it is certain to be, it has the values by which it is found itself.
            known = t[t[S_STEP_TABLE] + known * STEP_WIDTH + ST_HOLDER]
            certain = known == w[at + STEP]
            for n in range(k):
                certain = certain or known == w[first + 2 * n]
            if not certain:
                break
            holder = holder_of(M, at, known)
        if holder < 0:
            end = last_event(M, low, end, bit_of(M, step))
        else:
            end = place_in(M, step, holder, end, True)
    return end
