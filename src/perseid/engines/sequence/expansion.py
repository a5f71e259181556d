"""Expansion of a thread: its branches, the bounds of each, and the first event that each can take."""

from __future__ import annotations

from perseid.engines.sequence.completion import broken_before
from perseid.engines.sequence.epsilon_closure import epsilon_closure
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays
from perseid.engines.sequence.lookahead import latest_start
from perseid.engines.sequence.search_record import (
    BOUND,
    CALL,
    R_BRANCH,
    R_END,
    R_FIRST_DECIDES,
    R_HORIZON,
    R_NEGATED,
    R_PHASE,
    R_POINT,
    R_POSITION,
    R_START,
    R_THREAD,
    R_TIMED,
    R_WATCH,
    RECORD_WIDTH,
    SCAN,
    TRY,
    newest_node,
    push_negation,
)
from perseid.engines.sequence.skip_index import bit_of, next_for, next_until
from perseid.engines.sequence.thread_frame import bounds, copy_totals, copy_words, fits, high_of, in_time, is_taken
from perseid.runtime.jit import inlined


@inlined
def can_end(M: Arrays, first: int, count: int, negated: bool) -> bool:
    """True if one of the branches is accepted regardless of later events."""
    t, w = M.tables, M.space
    for branch in range(first, first + count * t[S_FRAME], t[S_FRAME]):
        if w[branch + STEP] < 0 and (negated or not w[branch + WATCHES]):
            return True
    return False


@inlined
def drop_nodes(M: Arrays, base: int, thread: int, count: int) -> None:
    """Move a thread and the branches behind it to the node at ``base``, which is dropped with all after it.

    The thread can end here, so that no earlier choice is reconsidered: a repetition at the end of a pattern needs no
    more capacity than one in the middle.
    """
    t, w = M.tables, M.space
    width = t[S_FRAME]
    bottom = w[base + N_FIRST]
    copy_words(M, thread, bottom, (1 + count) * width)
    if w[bottom + TOTALS] >= w[base + N_TOTALS]:
        totals = w[base + N_TOTALS]
        copy_totals(M, w[bottom + TOTALS], totals)
        for place in range(bottom, bottom + (1 + count) * width, width):
            w[place + TOTALS] = totals
        w[C_TOTALS] = totals + 1


@inlined
def expand_thread(M: Arrays, record: int) -> int:
    """Push a node with the branches of the thread ``R_THREAD``; the next phase is BOUND, from its first branch on."""
    t, w = M.tables, M.space
    width = t[S_FRAME]
    w[C_STEPS] += 1
    if w[C_STEPS] > w[C_STEPS_END]:
        return FULL
    thread = w[record + R_THREAD]
    node, first = w[C_NODES], w[C_TOP]
    if node + NODE_WIDTH > w[A_NODES_END]:
        return FULL
    count = epsilon_closure(M, thread, first)
    if count < 0:
        return FULL
    base = record + RECORD_WIDTH
    if node > base and w[record + R_FIRST_DECIDES] and can_end(M, first, count, w[record + R_NEGATED] == 1):
        drop_nodes(M, base, thread, count)
        node, thread = base, w[base + N_FIRST]
        first = thread + width
    w[C_NODES] = node + NODE_WIDTH
    w[C_TOP] = first + count * width
    w[node + N_FIRST] = thread
    w[node + N_COUNT] = count
    w[node + N_AT] = 0
    w[node + N_TOTALS] = w[C_TOTALS]
    w[node + N_POINT] = w[record + R_POINT]
    w[node + N_OUTCOME] = POINT_DEAD
    w[record + R_BRANCH] = 0
    w[record + R_WATCH] = 0
    w[record + R_POSITION] = -1
    return BOUND


@inlined
def program_events(M: Arrays, program: int) -> int:
    """The mask of events that a program may take."""
    t = M.tables
    i, bits = t[t[S_PROGRAMS] + 2 * program], 0
    while t[i] != ACCEPT:
        if t[i] == TAKE:
            bits |= bit_of(M, t[i + 1])
        i += OP_WIDTH
    return bits


@inlined
def next_completion(M: Arrays, branch: int, watch: int, position: int, start: int, end: int, negated: bool) -> int:
    """The next event after ``position`` (-1: the first) that may complete a negated group, or -1.

    Only an event that the group takes can complete it, except that it may be complete immediately.
    """
    e, w = M.events, M.space
    limit = w[branch + CLOSING]
    if w[watch + W_UNTIL] != NONE and w[watch + W_UNTIL] < limit:
        limit = w[watch + W_UNTIL]
    high = high_of(M, branch, start, end, negated)
    if w[branch + BROKEN] >= 0 and w[branch + BROKEN] < high:
        high = w[branch + BROKEN]
    if position < 0:
        position = w[branch + LAST] + 1
    else:
        position = next_until(M, position + 1, high, program_events(M, w[watch + W_PROGRAM]), limit)
    return position if position < high and e[E_TIME, position] <= limit else -1


@inlined
def bound_branches(M: Arrays, record: int) -> int:
    """Bound the newest node's branches, from ``R_BRANCH`` on; CALL if a negated group must be searched for, else SCAN.

    ``BROKEN`` of a branch is the first event that completes a negated group it watches.
    """
    t, w = M.tables, M.space
    node, width = newest_node(M), t[S_FRAME]
    first, count = w[node + N_FIRST] + width, w[node + N_COUNT]
    start, end, negated = w[record + R_START], w[record + R_END], w[record + R_NEGATED] == 1
    k, n, position = w[record + R_BRANCH], w[record + R_WATCH], w[record + R_POSITION]
    while k < count:
        branch = first + k * width
        if n == 0 and position < 0:
            w[branch + FOUND] = -1
            w[branch + BROKEN] = -1
            if w[branch + STEP] < 0:
                k += 1
                continue
            bounds(M, branch, start, end, negated)
        while n < w[branch + WATCHES]:
            watch = branch + t[S_WATCHES] + n * WATCH_WIDTH
            if t[t[S_PROGRAMS] + 2 * w[watch + W_PROGRAM] + 1] < 0:
                position = next_completion(M, branch, watch, position, start, end, negated)
                if position >= 0:
                    w[record + R_BRANCH] = k
                    w[record + R_WATCH] = n
                    w[record + R_POSITION] = position
                    w[record + R_PHASE] = BOUND
                    low, since = w[watch + W_POSITION] + 1, w[watch + W_SINCE]
                    horizon = w[record + R_HORIZON]
                    if push_negation(M, record, branch, w[watch + W_PROGRAM], low, position + 1, since, horizon) < 0:
                        return FULL
                    return CALL
            n += 1
            position = -1
        if w[branch + CONTIGUITY] == ANY:
            w[branch + SCAN_FROM] = w[branch + LAST] + 1
            if not w[record + R_TIMED]:
                w[branch + HIGH] = min(w[branch + HIGH], latest_start(M, branch, start, end, negated))
            if w[branch + WATCHES]:
                high = w[branch + HIGH]
                broken = broken_before(M, branch, high, start, end, negated)
                w[branch + BROKEN] = broken if broken < high else -1
        k += 1
        n = 0
    return SCAN


@inlined
def takes_first(M: Arrays, branch: int, position: int, start: int, end: int, negated: bool) -> bool:
    """True if a branch that takes the first event that fits, and has none yet, can take this one."""
    t, e, w = M.tables, M.events, M.space
    moment = e[E_TIME, position]
    if (
        w[branch + STEP] < 0
        or w[branch + CONTIGUITY] == ANY
        or w[branch + FOUND] != -1
        or position >= w[branch + HIGH]
        or moment > w[branch + CLOSING]
        or not in_time(M, branch, moment)
        or not fits(M, branch, w[branch + STEP], position)
    ):
        return False
    if w[branch + WATCHES]:
        before = position
        while t[S_STRICTLY] == 1 and before > 0 and e[E_TIME, before - 1] == moment:
            before -= 1
        if broken_before(M, branch, before, start, end, negated) < before:
            w[branch + HIGH] = 0
            return False
    return True


@inlined
def scan_events(M: Arrays, record: int) -> int:
    """Find the first event of each branch of the newest node that does not try all (``->>``); the next phase is TRY.

    The first event that fits commits the node, unless it fits only branches that are optional (SPARE).
    """
    t, e, w = M.tables, M.events, M.space
    node, width = newest_node(M), t[S_FRAME]
    first = w[node + N_FIRST] + width
    after = first + w[node + N_COUNT] * width
    start, end, negated = w[record + R_START], w[record + R_END], w[record + R_NEGATED] == 1
    pending, lone, wanted, high, latest = 0, first, 0, 0, NONE
    for branch in range(first, after, width):
        if w[branch + STEP] >= 0 and w[branch + CONTIGUITY] != ANY:
            pending += 1
            lone = branch
            wanted |= bit_of(M, w[branch + STEP])
            high = max(high, w[branch + HIGH])
            latest = max(latest, w[branch + CLOSING])
    committed, position = 0, w[first + LAST]
    alone, tried = pending == 1, 0
    while pending and not committed:
        tried += 1
        if alone:
            position = next_for(M, lone, w[lone + STEP], position + 1, high, latest)
        else:
            position = next_until(M, position + 1, high, wanted, latest)
        if position >= high or e[E_TIME, position] > latest:
            break
        if negated and is_taken(M, first, position):
            continue
        found = False
        for branch in range(first, after, width):
            if takes_first(M, branch, position, start, end, negated):
                w[branch + FOUND] = position
                pending -= 1
                found = True
                if not w[branch + SPARE]:
                    committed = 1
        if found and pending and not committed:
            # Branches with an event are not scanned for again.
            wanted = 0
            for branch in range(first, after, width):
                if w[branch + STEP] >= 0 and w[branch + CONTIGUITY] != ANY and w[branch + FOUND] == -1:
                    wanted |= bit_of(M, w[branch + STEP])
    w[C_STEPS] += tried >> CHEAP_SHIFT
    w[node + N_COMMITTED] = committed
    return TRY
