"""Backtracking: the newest node tries its branches in order of preference; one that takes an event is expanded."""

from __future__ import annotations

from perseid.engines.sequence.completion import accepted_end, broken_before, timeout_time, write_match
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays
from perseid.engines.sequence.memo import combination_key, point_key
from perseid.engines.sequence.search_record import (
    ACCEPTED,
    EXPAND,
    R_END,
    R_HORIZON,
    R_MATCH_END,
    R_NEGATED,
    R_POINT,
    R_START,
    R_TAG,
    R_THREAD,
    R_TIMED,
    R_WATCH,
    RECORD_WIDTH,
    RETURN,
    TRY,
    combines,
    newest_node,
)
from perseid.engines.sequence.skip_index import next_for
from perseid.engines.sequence.thread_frame import copy_totals, copy_words, fits, in_time, is_taken, take
from perseid.runtime.jit import inlined


@inlined
def note_outcome(M: Arrays, node: int, outcome: int) -> None:
    """Record the outcome of a node unless it has one."""
    w = M.space
    if w[node + N_OUTCOME] == POINT_DEAD:
        w[node + N_OUTCOME] = outcome


@inlined
def pop_node(M: Arrays, record: int, node: int) -> None:
    """Pop a node with all branches tried, and record the outcome of its point for later starts."""
    w = M.space
    outcome = w[node + N_OUTCOME]
    if w[C_MERGING] == 1 and outcome != POINT_DEAD:
        if w[node + N_POINT] >= 0:
            w[w[node + N_POINT]] = outcome
        if node > record + RECORD_WIDTH:
            note_outcome(M, node - NODE_WIDTH, outcome)
    w[C_NODES] = node
    w[C_TOP] = w[node + N_FIRST]


@inlined
def next_any(M: Arrays, branch: int, negated: bool) -> int:
    """The next event that a ``->>`` branch can take, scanning from ``SCAN_FROM``, or -1."""
    t, e, w = M.tables, M.events, M.space
    step, high, closing, broken_at = w[branch + STEP], w[branch + HIGH], w[branch + CLOSING], w[branch + BROKEN]
    position, found = w[branch + SCAN_FROM] - 1, -1
    tried = 0
    while found < 0:
        tried += 1
        position = next_for(M, branch, step, position + 1, high, closing)
        if position >= high or e[E_TIME, position] > closing:
            break
        if broken_at >= 0 and broken_at < position:
            if not (t[S_STRICTLY] == 1 and e[E_TIME, broken_at] == e[E_TIME, position]):
                break
        if (
            not (negated and is_taken(M, branch, position))
            and in_time(M, branch, e[E_TIME, position])
            and fits(M, branch, step, position)
        ):
            found = position
    w[C_STEPS] += tried >> CHEAP_SHIFT
    w[branch + SCAN_FROM] = found + 1
    return found


@inlined
def reach_point(M: Arrays, record: int, node: int, child: int) -> int:
    """Record that a thread has reached a point; 1 if it has to be expanded, 0 if its outcome is known, or FULL."""
    t, w = M.tables, M.space
    merging = w[C_MERGING] == 1
    result = point_key(M, child, w[record + R_TAG], 0)
    w[record + R_POINT] = -1
    if merging and result < 0 and not t[S_MEMO] and w[A_TABLE_SIZE] >= MERGED_POINTS:
        return 1  # The memo is at its limit; the search does not depend on it.
    if merging and result >= 0:
        point = w[C_OUTCOME]
        w[record + R_POINT] = point
        if result == 0 and w[point] != POINT_DEAD:
            if w[point] == POINT_OPEN:
                w[C_OPEN] = 1
            if not w[C_OPEN]:
                return 1  # A match, which the start has to find itself.
            note_outcome(M, node, w[point])
    return result


@inlined
def note_open(M: Arrays, branch: int) -> bool:
    """Record that the event combination of an open branch is undecided; False if there is no capacity."""
    t, w = M.tables, M.space
    if not combines(M) or t[S_PLAIN]:
        return True
    result = combination_key(M, w[branch + COUNT], -1, True)
    if result == 1:
        result = combination_key(M, w[branch + COUNT], -2, True)
    return result >= 0


@inlined
def time_out(M: Arrays, record: int, node: int, branch: int) -> int:
    """End a branch without a next event: it is open until its window closes, or timed out. Returns TRY or FULL."""
    t, w = M.tables, M.space
    start, end = w[record + R_START], w[record + R_END]
    any_later = w[branch + CONTIGUITY] == ANY
    if not any_later and (w[node + N_COMMITTED] or w[branch + FOUND] != -1):
        return TRY
    if w[branch + WATCHES] and (w[branch + HIGH] == 0 or broken_before(M, branch, end, start, end, False) < end):
        return TRY
    end_time = timeout_time(M, branch, start, end, w[record + R_HORIZON])
    if end_time == FOREVER:
        w[C_OPEN] = 1
        w[C_NEXT_TIMER] = min(w[C_NEXT_TIMER], w[branch + CLOSING])
        note_outcome(M, node, POINT_OPEN)
        if not any_later and not note_open(M, branch):
            return FULL
    elif end_time != NONE and t[S_TIMEOUTS] and w[C_TIMEOUT] < 0:
        w[C_TIMEOUT] = w[C_OUT]
        if not write_match(M, branch, 1, end_time):
            return FULL
    return TRY


@inlined
def has_next(M: Arrays, branch: int, after: int) -> bool:
    """True if one of the branches from ``branch`` to before ``after`` is left to try."""
    t, w = M.tables, M.space
    for other in range(branch, after, t[S_FRAME]):
        if w[other + STEP] < 0 or w[other + CONTIGUITY] == ANY or w[other + FOUND] >= 0:
            return True
    return False


@inlined
def replace_node(M: Arrays, node: int, child: int) -> int:
    """Pop a node without untried branches, and move the continuing thread to its place, which is returned.

    A repetition of a million iterations needs no capacity for a million nodes, nor for its totals after each of them.
    """
    t, w = M.tables, M.space
    thread = w[node + N_FIRST]
    own = w[thread + TOTALS]
    if w[child + TOTALS] != own and own >= w[node - NODE_WIDTH + N_TOTALS]:
        copy_totals(M, w[child + TOTALS], own)
        w[child + TOTALS] = own
        w[C_TOTALS] = own + 1
    copy_words(M, child, thread, t[S_FRAME])
    w[C_NODES] = node
    return thread


@inlined
def try_branch(M: Arrays, record: int) -> int:
    """Try the next event of the newest node's branch; EXPAND if it is taken, ACCEPTED at the end of the pattern."""
    t, w = M.tables, M.space
    width = t[S_FRAME]
    if w[C_NODES] == record + RECORD_WIDTH:
        return RETURN + CONTINUE
    node = newest_node(M)
    w[C_TOTALS] = w[node + N_TOTALS]
    index, count = w[node + N_AT], w[node + N_COUNT]
    if index == count:
        pop_node(M, record, node)
        return TRY
    first = w[node + N_FIRST] + width
    branch, child = first + index * width, first + count * width
    w[C_TOP] = child
    if w[branch + STEP] < 0:
        w[node + N_AT] += 1
        if w[record + R_NEGATED]:
            return RETURN + DECIDED
        w[record + R_MATCH_END] = accepted_end(M, branch, w[record + R_START])
        w[record + R_WATCH] = 0
        return TRY if w[record + R_MATCH_END] == NONE else ACCEPTED
    position = -1
    if w[branch + CONTIGUITY] == ANY:
        position = next_any(M, branch, w[record + R_NEGATED] == 1)
    elif w[branch + FOUND] >= 0:
        position = w[branch + FOUND]
        w[branch + FOUND] = -2
    if position < 0:
        w[node + N_AT] += 1
        return time_out(M, record, node, branch) if w[record + R_TIMED] else TRY
    result = take(M, branch, w[branch + STEP], position, child)
    if result == 1 and (t[S_MEMO] == 1 or w[C_MERGING] == 1):
        result = reach_point(M, record, node, child)
    if result < 0:
        return FULL
    if result == 0:
        return TRY
    if w[branch + CONTIGUITY] != ANY and not w[record + R_TIMED] and node > record + RECORD_WIDTH:
        if not has_next(M, branch + width, child):
            child = replace_node(M, node, child)
    w[C_TOP] = child + width
    w[record + R_THREAD] = child
    return EXPAND
