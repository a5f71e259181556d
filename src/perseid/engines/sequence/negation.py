"""The search for a negated group: every event that can begin it is tried, and continued by a nested search."""

from __future__ import annotations

from perseid.engines.sequence.epsilon_closure import epsilon_closure, wanted_by
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays
from perseid.engines.sequence.search_record import (
    CALL,
    CANDIDATE,
    R_AROUND,
    R_BRANCH,
    R_BRANCHES,
    R_END,
    R_HORIZON,
    R_PHASE,
    R_POSITION,
    R_PROGRAM,
    R_SEED,
    R_SINCE,
    R_START,
    R_TOTALS,
    R_WANTED,
    RETURN,
    push_search,
)
from perseid.engines.sequence.skip_index import next_event
from perseid.engines.sequence.thread_frame import copy_words, fits, is_taken, take
from perseid.runtime.jit import inlined


@inlined
def seed_negation(M: Arrays, around: int, program: int, at: int) -> None:
    """Write a thread at the start of a negated group, with the bindings of the enclosing thread."""
    t, w = M.tables, M.space
    copy_words(M, around, at, t[S_FRAME])
    w[at + PC] = t[t[S_PROGRAMS] + 2 * program]
    w[at + CONTIGUITY] = SKIP
    w[at + AFTER] = -1
    w[at + WITHIN] = -1
    w[at + TOGETHER] = 0
    w[at + CLOCK] = 0
    w[at + BARRIER] = NONE
    w[at + SPARE] = 0
    w[at + WATCHES] = 0
    w[at + ZONES] = 0
    w[at + UNTILS] = 0
    w[at + BEGUN] = w[around + COUNT]
    w[at + AROUND] = around
    for k in range(3 * t[S_REGISTER_COUNT]):
        w[at + t[S_REGISTERS] + k] = 0


@inlined
def begin_negation(M: Arrays, record: int) -> int:
    """Write the seed of a negated group and its branches; the next phase is CANDIDATE."""
    t, w = M.tables, M.space
    width = t[S_FRAME]
    seed = w[C_TOP]
    if seed + width > w[A_FRAMES_END]:
        return FULL
    seed_negation(M, w[record + R_AROUND], w[record + R_PROGRAM], seed)
    count = epsilon_closure(M, seed, seed + width)
    if count < 0:
        return FULL
    w[record + R_SEED] = seed
    w[record + R_BRANCHES] = count
    w[record + R_BRANCH] = count
    w[record + R_WANTED] = wanted_by(M, seed + width, count)
    w[record + R_TOTALS] = w[C_TOTALS]
    w[record + R_POSITION] = w[record + R_START] - 1
    return CANDIDATE


@inlined
def try_candidate(M: Arrays, record: int) -> int:
    """Take the next event that can begin a negated group and CALL the search that continues it; RETURN if none can."""
    t, e, w = M.tables, M.events, M.space
    width = t[S_FRAME]
    seed, count, branch = w[record + R_SEED], w[record + R_BRANCHES], w[record + R_BRANCH]
    position, end = w[record + R_POSITION], w[record + R_END]
    child = seed + (1 + count) * width
    taken = 0
    while taken == 0:
        if branch == count:
            w[C_STEPS] += 1
            if w[C_STEPS] > w[C_STEPS_END]:
                return FULL
            position = next_event(M, position + 1, end, w[record + R_WANTED])
            if position >= end:
                w[C_TOP] = seed
                return RETURN + CONTINUE
            if e[E_TIME, position] <= w[record + R_SINCE] or is_taken(M, w[record + R_AROUND], position):
                continue
            branch = 0
        at = seed + (1 + branch) * width
        branch += 1
        if w[at + STEP] >= 0 and fits(M, at, w[at + STEP], position):
            taken = take(M, at, w[at + STEP], position, child)
            if taken < 0:
                return FULL
            if taken == 0:
                w[C_TOTALS] = w[record + R_TOTALS]
    w[record + R_BRANCH] = branch
    w[record + R_POSITION] = position
    w[record + R_PHASE] = CANDIDATE
    w[C_TOP] = child + width
    return CALL if push_search(M, record, child, position, end, w[record + R_HORIZON]) >= 0 else FULL
