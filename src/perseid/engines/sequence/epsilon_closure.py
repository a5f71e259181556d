"""Epsilon closure of a thread: its instructions followed up to the next steps that take an event."""

from __future__ import annotations

from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled
from perseid.engines.sequence.skip_index import bit_of
from perseid.engines.sequence.thread_frame import all_hold, copy_words, stop_since


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
    """Leave the innermost zone, which may end with a negation up to the end of its window; False if it rejects."""
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
def wanted_by(M: Arrays, first: int, count: int) -> int:
    """The mask of events that at least one of the branches can take."""
    t, w = M.tables, M.space
    wanted = 0
    for at in range(first, first + count * t[S_FRAME], t[S_FRAME]):
        if w[at + STEP] >= 0:
            wanted |= bit_of(M, w[at + STEP])
    return wanted


@compiled
def epsilon_closure(M: Arrays, root: int, first: int) -> int:
    """Write the branches of a thread as frames from ``first`` on, preferred first; returns their number, or FULL."""
    t, w = M.tables, M.space
    width = t[S_FRAME]
    # A branch is followed in its own frame; pending branches are on a stack of frames.
    base = w[A_WORK]
    capacity = (w[A_WORK_END] - base) // width
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
            w[at + TOGETHER] = 0
            i += OP_WIDTH
        elif op == JUMP:
            i = t[i + 1]
        elif op == SPLIT:
            count = t[i + 2]
            if depth + count > capacity:
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
            # An empty iteration replaces all iterations that are still required; if none is required, the branch is
            # dead. This is checked before the count is capped: without an upper bound, it is capped at the lower one.
            dead = w[at + COUNT] == w[r + 1] and w[r] >= t[i + 2]
            w[r] += 1
            if t[i + 3] < 0 and w[r] > t[i + 2] and w[r] > 1:
                w[r] = t[i + 2] if t[i + 2] > 1 else 1
        elif op == LOOP_TURN:
            r = t[S_REGISTERS] + 3 * t[i + 1]
            iterations, entered, count = w[at + r], w[at + r + 2], w[at + COUNT]
            low, high, reluctant, until = t[i + 2], t[i + 3], t[i + 4], t[i + 8]
            idle = iterations > 0 and count == w[at + r + 1]
            leave = idle or iterations >= low
            if leave and t[i + 10]:
                leave = all_hold(M, t[i + 9], t[i + 10], at, -1)
            again = not idle and (high < 0 or iterations < high)
            if again and until >= 0 and count > entered:
                begun = w[w[A_TAKEN] + TAKEN_WIDTH * entered + K_POSITION] + 1
                last = w[at + LAST] + 1
                again = stop_since(M, at, until, begun, last) >= last
            other = at
            if again and leave:
                if depth == capacity:
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
                if iterations > 0:
                    w[to + CONTIGUITY] = t[i + 5]
                    w[to + AFTER] = t[i + 6]
                    w[to + WITHIN] = t[i + 7]
                    w[to + TOGETHER] = 0
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
                retained = 0
                watches = at + t[S_WATCHES]
                for k in range(w[at + WATCHES]):
                    if w[watches + k * WATCH_WIDTH + W_CONJUNCTION] != t[i + 1]:
                        copy_words(M, watches + k * WATCH_WIDTH, watches + retained * WATCH_WIDTH, WATCH_WIDTH)
                        retained += 1
                w[at + WATCHES] = retained
                w[r] = 0
                w[r + 1] = 0
                w[r + 2] = 0
                i = t[i + 9]
            else:
                if depth + members > capacity:
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
