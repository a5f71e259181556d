"""The state of a search: a record of named slots on the stack of nodes, and the phases that work on it.

A negated group is found by a separate search, which continues its candidates by further searches. Each of them pushes a
record that names its caller. When it returns, its record is popped and the caller resumes in its own phase. (Numba
takes three times as long to compile a recursive function.)
"""

from __future__ import annotations

from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays
from perseid.runtime.jit import inlined

# A phase returns the next one: CALL after it pushed a record, RETURN + the result at the end of its search, or FULL.
EXPAND, BOUND, SCAN, TRY, ACCEPTED, CALL_NEGATION, CANDIDATE, CALL, RETURN = range(9)

RECORD_WIDTH = 22
(
    # of every record: its caller (-1: none), the phase to resume, the first event it may take, the event before which
    # it ends, the horizon
    R_CALLER, R_PHASE, R_START, R_END, R_HORIZON,
    # of a search that continues a thread: 1 inside a negation; 1 if unaccepted threads can time out or stay open; 1 if
    # the first thread that can end decides; the tag of its points; the thread to expand and the offset of its point's
    # outcome
    R_NEGATED, R_TIMED, R_FIRST_DECIDES, R_TAG, R_THREAD, R_POINT,
    # resumption after a search for a negated group: branch, watch, event; the end of the match
    R_BRANCH, R_WATCH, R_POSITION, R_MATCH_END,
    # of a search for a negated group: the thread that depends on it, its program, the time after which it counts, its
    # seed, the number of the seed's branches (R_BRANCH is the next one), the events that they take, the totals in use
    R_AROUND, R_PROGRAM, R_SINCE, R_SEED, R_BRANCHES, R_WANTED, R_TOTALS,
) = range(22)  # fmt: skip


@inlined
def push_record(M: Arrays, caller: int, phase: int, start: int, end: int, horizon: int) -> int:
    """Push the record of a search for events from ``start`` to before ``end``; FULL if there is no capacity."""
    w = M.space
    record = w[C_NODES]
    if record + RECORD_WIDTH > w[A_NODES_END]:
        return FULL
    w[C_NODES] = record + RECORD_WIDTH
    w[record + R_CALLER] = caller
    w[record + R_PHASE] = phase
    w[record + R_START] = start
    w[record + R_END] = end
    w[record + R_HORIZON] = horizon
    return record


@inlined
def combines(M: Arrays) -> bool:
    """True if a start may have several matches, one for each combination of events."""
    t = M.tables
    return t[S_COMBINES] == 1 and t[S_ONE] == 0


@inlined
def push_search(M: Arrays, caller: int, thread: int, start: int, end: int, horizon: int) -> int:
    """Push a search that continues a thread, inside a negation if it has a caller; FULL if there is no capacity.

    Without a caller it writes the matches it decides, and its result is DECIDED when no later thread can match. Inside
    a negation the result is DECIDED when a thread is accepted.
    """
    t, w = M.tables, M.space
    record = push_record(M, caller, EXPAND, start, end, horizon)
    if record < 0:
        return FULL
    timed = horizon != NONE or t[S_TIMEOUTS] == 1
    w[record + R_NEGATED] = 1 if caller >= 0 else 0
    w[record + R_TIMED] = 1 if timed and caller < 0 else 0
    w[record + R_FIRST_DECIDES] = (
        1 if not timed and not combines(M) and t[S_GUARDS_COUNT] == 0 and t[S_HOLDS] < 0 else 0
    )
    if w[C_MERGING] == 1:
        w[record + R_TAG] = 0
    else:
        w[C_EPOCH] += 1
        w[record + R_TAG] = w[C_EPOCH]
    w[record + R_THREAD] = thread
    w[record + R_POINT] = -1
    return record


@inlined
def push_negation(
    M: Arrays, caller: int, thread: int, program: int, start: int, end: int, since: int, horizon: int
) -> int:
    """Push a search for ``program`` after the time ``since``, with the bindings of ``thread``; FULL if out of capacity.

    Its result is DECIDED if the program matches.
    """
    w = M.space
    record = push_record(M, caller, CALL_NEGATION, start, end, horizon)
    if record < 0:
        return FULL
    w[record + R_AROUND] = thread
    w[record + R_PROGRAM] = program
    w[record + R_SINCE] = since
    return record


@inlined
def newest_node(M: Arrays) -> int:
    """The node on top of the stack."""
    return M.space[C_NODES] - NODE_WIDTH
