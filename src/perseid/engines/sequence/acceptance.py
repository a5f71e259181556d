"""Acceptance: a thread at the end of the pattern is a match if no trailing negation matches and it is decided."""

from __future__ import annotations

from perseid.engines.sequence.backtracking import note_open, note_outcome
from perseid.engines.sequence.completion import write_match
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays
from perseid.engines.sequence.memo import combination_key, taken_key
from perseid.engines.sequence.search_record import (
    ACCEPTED,
    CALL,
    R_END,
    R_HORIZON,
    R_MATCH_END,
    R_PHASE,
    R_START,
    R_WATCH,
    RETURN,
    TRY,
    combines,
    newest_node,
    push_negation,
)
from perseid.engines.sequence.skip_index import first_at
from perseid.engines.sequence.thread_frame import single_absence, window_end
from perseid.runtime.jit import inlined

NEW_MATCH = 2
"""The match of a combination is new and has to be written."""


@inlined
def new_combination(M: Arrays, branch: int, end_time: int) -> int:
    """NEW_MATCH if an accepted thread is the preferred one of its combination and not written yet; else 0, or FULL.

    If a preferred thread of the combination is still open, the frontier is held back.
    """
    w = M.space
    count = w[branch + COUNT]
    result = combination_key(M, count, -1, True)
    if result < 0:
        return FULL
    if result == 0:
        result = combination_key(M, count, -2, False)
        if result < 0:
            return FULL
        if result == 0:
            w[C_EARLIEST_OPEN] = min(w[C_EARLIEST_OPEN], end_time)
        return 0
    result = taken_key(M, count, -3)
    if result < 0:
        return FULL
    if result == 0:
        w[C_FOUND] += 1
        return 0
    return NEW_MATCH


@inlined
def accept_match(M: Arrays, record: int) -> int:
    """Check the trailing negations of an accepted thread, from ``R_WATCH`` on, and write its match.

    Returns CALL if a negated group has to be searched for, RETURN + DECIDED if the search is over, else TRY.
    """
    t, w = M.tables, M.space
    node = newest_node(M)
    # The node's thread precedes its branches, and N_AT is already the next branch.
    branch = w[node + N_FIRST] + w[node + N_AT] * t[S_FRAME]
    start, end = w[record + R_START], w[record + R_END]
    end_time, horizon = w[record + R_MATCH_END], w[record + R_HORIZON]
    for n in range(w[record + R_WATCH], w[branch + WATCHES]):
        watch = branch + t[S_WATCHES] + n * WATCH_WIDTH
        program, until, since = w[watch + W_PROGRAM], w[watch + W_UNTIL], w[watch + W_SINCE]
        limit = window_end(M, start) if until == NONE else until
        low = w[watch + W_POSITION] + 1
        single = t[t[S_PROGRAMS] + 2 * program + 1]
        high = end if limit == FOREVER else first_at(M, low, end, limit + 1)
        if single < 0:
            w[record + R_WATCH] = n
            w[record + R_PHASE] = ACCEPTED
            return CALL if push_negation(M, record, branch, program, low, high, since, horizon) >= 0 else FULL
        if single_absence(M, branch, since, single, low, high) < high:
            return TRY
    if w[branch + WATCHES] and horizon != NONE and horizon < end_time:
        w[C_OPEN] = 1
        w[C_NEXT_TIMER] = min(w[C_NEXT_TIMER], end_time)
        return TRY if note_open(M, branch) else FULL
    if not combines(M):
        if w[C_OPEN]:
            w[C_EARLIEST_OPEN] = min(w[C_EARLIEST_OPEN], end_time)
            note_outcome(M, node, POINT_ACCEPTED)
            return TRY
    elif not t[S_PLAIN]:
        result = new_combination(M, branch, end_time)
        if result != NEW_MATCH:
            return TRY if result >= 0 else FULL
    if not write_match(M, branch, 0, end_time):
        return FULL
    w[C_FOUND] += 1
    w[C_MATCHES] += 1
    if combines(M):
        if w[C_MATCHES] < t[S_MATCH_CAP]:
            return TRY
        w[C_CAPPED] += 1
    return RETURN + DECIDED
