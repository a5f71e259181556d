"""The search: depth first in order of preference, so that the first accepted thread is the preferred match.

It finds the same matches as the oracle, by an index instead of scans. This module runs the phases; each is a function
of its record (:mod:`perseid.engines.sequence.search_record`).
"""

from __future__ import annotations

from perseid.engines.sequence.acceptance import accept_match
from perseid.engines.sequence.backtracking import try_branch
from perseid.engines.sequence.expansion import bound_branches, expand_thread, scan_events
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled
from perseid.engines.sequence.negation import begin_negation, try_candidate
from perseid.engines.sequence.search_record import (
    ACCEPTED,
    BOUND,
    CALL,
    CALL_NEGATION,
    CANDIDATE,
    EXPAND,
    R_BRANCH,
    R_CALLER,
    R_PHASE,
    R_POSITION,
    R_SEED,
    R_TOTALS,
    R_WATCH,
    RECORD_WIDTH,
    RETURN,
    SCAN,
    TRY,
    newest_node,
    push_negation,
)
from perseid.engines.sequence.skip_index import first_at
from perseid.runtime.jit import inlined


@inlined
def resume(M: Arrays, record: int, result: int) -> int:
    """The next phase of a record after its call has returned."""
    t, w = M.tables, M.space
    phase = w[record + R_PHASE]
    if phase == CANDIDATE:
        w[C_TOP] = w[record + R_SEED]
        w[C_TOTALS] = w[record + R_TOTALS]
        return RETURN + DECIDED if result == DECIDED else CANDIDATE
    if phase == ACCEPTED:
        w[record + R_WATCH] += 1
        return TRY if result == DECIDED else ACCEPTED
    if result == DECIDED:
        branch = w[newest_node(M) + N_FIRST] + (1 + w[record + R_BRANCH]) * t[S_FRAME]
        w[branch + BROKEN] = w[record + R_POSITION]
        w[record + R_WATCH] += 1
        w[record + R_POSITION] = -1
    return BOUND


@compiled
def search(M: Arrays, record: int) -> int:
    """Run the search of a record that was just pushed, and pop it; CONTINUE or DECIDED, or FULL.

    FULL also if ``record`` is FULL or the budget is exhausted: the caller compares the counters.
    """
    w = M.space
    if record < 0:
        return FULL
    phase = w[record + R_PHASE]
    while phase >= 0:
        if phase == EXPAND:
            phase = expand_thread(M, record)
        if phase == BOUND:
            phase = bound_branches(M, record)
        if phase == SCAN:
            phase = scan_events(M, record)
        if phase == TRY:
            phase = try_branch(M, record)
        if phase == ACCEPTED:
            phase = accept_match(M, record)
        elif phase == CALL_NEGATION:
            phase = begin_negation(M, record)
        elif phase == CANDIDATE:
            phase = try_candidate(M, record)
        if phase == CALL:
            record = w[C_NODES] - RECORD_WIDTH
            phase = w[record + R_PHASE]
        elif phase >= RETURN:
            w[C_NODES] = record
            record = w[record + R_CALLER]
            if record < 0:
                return phase - RETURN
            phase = resume(M, record, phase - RETURN)
    return FULL


@compiled
def violates_leading_negation(M: Arrays, thread: int, low: int, start: int, horizon: int) -> int:
    """1 if a leading negation matches before ``start`` in the partition that begins at ``low``; 0, or FULL."""
    t, e = M.tables, M.events
    for row in range(t[S_LEADS], t[S_LEADS] + 2 * t[S_LEADS_COUNT], 2):
        first = first_at(M, low, start, e[E_TIME, start] - t[row + 1])
        end = start
        while t[S_STRICTLY] == 1 and end > first and e[E_TIME, end - 1] == e[E_TIME, start]:
            end -= 1
        result = search(M, push_negation(M, -1, thread, t[row], first, end, NONE, horizon))
        if result != CONTINUE:
            return result
    return 0
