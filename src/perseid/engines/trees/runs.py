"""Runs of siblings: an automaton over the children of an element, in document order.

All threads of the automaton begin at the first child that is not decided yet, in order of preference; of two in the
same state, the one that took more children survives. A run is chosen when no thread can take more than the best
complete run. Then the search resumes after it, over buffered children.

Resuming after every child may take time quadratic in their number. Beyond a limit, children are only buffered, and when
the element ends all runs are found from the last child backwards, in time linear in their number.
"""

from __future__ import annotations

from perseid.engines.trees.cells import result, rope
from perseid.engines.trees.delivery import give, hold, let_go, mark, nearest
from perseid.engines.trees.match_layout import *
from perseid.engines.trees.match_layout import Space, compiled


@compiled
def threads_of(M: Space, candidate: int) -> int:
    """Return the offset of a candidate's threads: state, children taken, and rope of each."""
    step = M.plan[P_STEPS] + M.stack[candidate + C_STEP] * STEP_WIDTH
    return int(candidate + RUN_CANDIDATE_WIDTH + 2 * M.plan[step + SP_ROPES])


@compiled
def begin_run(M: Space, candidate: int) -> None:
    """Reset a candidate to one thread that has taken no child."""
    S = M.stack
    S[candidate + M_LENGTH] = 0
    S[candidate + M_THREADS] = 1
    S[candidate + M_BEST] = 0
    S[candidate + M_BEST_LENGTH] = 0
    S[candidate + M_BEST_ROPE] = 0
    threads = threads_of(M, candidate)
    for k in range(3):
        S[threads + k] = 0


@compiled
def advance(M: Space, candidate: int, child: int) -> None:
    """Advance every thread by one child."""
    S, P, A, C = M.stack, M.plan, M.head, M.cells
    step = P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH
    fa = P[step + SP_FA]
    items = fa + FA_HEAD  # by item: the number of its rope
    offsets, edges, bits = P[fa + F_OFFSETS], P[fa + F_EDGES], C[child + K_BITS]
    threads = threads_of(M, candidate)
    # Buffer for threads: by state the number of its thread, counted from 1; then the threads.
    where = A[X_THREADS]
    fresh = where + A[X_STATES]
    count = 0
    for k in range(S[candidate + M_THREADS]):
        state, taken, found = S[threads + 3 * k], S[threads + 3 * k + 1], S[threads + 3 * k + 2]
        for e in range(P[offsets + state], P[offsets + state + 1]):
            item, after = P[edges + 2 * e], P[edges + 2 * e + 1]
            if item == OVER or (item >= 0 and (bits >> item) & 1 == 0):
                continue
            more = taken + 1 if item >= 0 else taken
            there = A[where + after]
            if there != 0:
                if A[fresh + 3 * (there - 1) + 1] >= more:
                    continue
                A[fresh + 3 * (there - 1)] = -1
            A[where + after] = count + 1
            A[fresh + 3 * count] = after
            A[fresh + 3 * count + 1] = more
            own = P[items + item] if item >= 0 else -1
            A[fresh + 3 * count + 2] = rope(M, found, C[child + K_ROPES + own]) if own >= 0 else found
            count += 1
    S[candidate + M_LENGTH] += 1
    left = 0
    for k in range(count):
        state = A[fresh + 3 * k]
        if state < 0:
            continue
        A[where + state] = 0
        taken, found = A[fresh + 3 * k + 1], A[fresh + 3 * k + 2]
        S[threads + 3 * left], S[threads + 3 * left + 1], S[threads + 3 * left + 2] = state, taken, found
        left += 1
        if P[P[fa + F_OVER] + state] and taken > S[candidate + M_BEST]:
            S[candidate + M_BEST] = taken
            S[candidate + M_BEST_LENGTH] = S[candidate + M_LENGTH]
            S[candidate + M_BEST_ROPE] = found
    S[candidate + M_THREADS] = left
    S[candidate + M_SPENT] += 1


@compiled
def decided(M: Space, candidate: int) -> bool:
    """Return whether no thread can take more children than the best complete run."""
    S, P = M.stack, M.plan
    best = S[candidate + M_BEST]
    if S[candidate + M_THREADS] == 0:
        return True
    if best == 0:
        return False
    most = P[P[P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH + SP_FA] + F_MOST]
    threads = threads_of(M, candidate)
    for k in range(S[candidate + M_THREADS]):
        still = P[most + S[threads + 3 * k]]
        if still < 0 or S[threads + 3 * k + 1] + still > best:
            return False
    return True


@compiled
def drop(M: Space, candidate: int, count: int) -> None:
    """Drop the first buffered children."""
    S, C, A = M.stack, M.cells, M.head
    for _ in range(count):
        S[candidate + M_FIRST] = C[S[candidate + M_FIRST] + K_NEXT]
    S[candidate + M_BUFFERED] -= count
    A[X_BUFFERED] -= count
    if S[candidate + M_FIRST] == 0:
        S[candidate + M_LAST] = 0


@compiled
def choose(M: Space, candidate: int, found: int) -> int:
    """Decide the first buffered child: drop it, or its best run; return ``found`` with the results of that run."""
    S, P, C = M.stack, M.plan, M.cells
    number = S[candidate + C_STEP]
    if S[candidate + M_BEST] == 0:
        drop(M, candidate, 1)
        return found
    mark(M, number, S[candidate + C_DEPTH])
    S[candidate + M_DONE] = 1 - P[P[P_STEPS] + number * STEP_WIDTH + SP_GIVES]
    if S[candidate + M_BEST_ROPE] != 0:
        first = C[S[candidate + M_FIRST] + K_ORDINAL]
        found = rope(M, found, result(M, first, number, -1, 0, 0, S[candidate + M_BEST_ROPE]))
    drop(M, candidate, S[candidate + M_BEST_LENGTH])
    return found


@compiled
def go_on(M: Space, candidate: int, found: int, ended: bool) -> int:
    """Find runs from the first buffered child, as far as they are decided; return ``found`` with their results."""
    S, P, C = M.stack, M.plan, M.cells
    step = P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH
    firsts = P[P[step + SP_FA] + F_FIRST]
    while True:
        if S[candidate + M_DONE]:
            drop(M, candidate, S[candidate + M_BUFFERED])
        while S[candidate + M_FIRST] != 0 and C[S[candidate + M_FIRST] + K_BITS] & firsts == 0:
            drop(M, candidate, 1)
        begin_run(M, candidate)
        child = S[candidate + M_FIRST]
        if child == 0:
            return found
        if S[candidate + M_SPENT] > PATIENCE * S[candidate + M_LOT] + GRACE:
            S[candidate + M_WAITS] = 1
            return found
        while child != 0:
            advance(M, candidate, child)
            if decided(M, candidate):
                break
            child = C[child + K_NEXT]
        if child == 0 and not ended:
            return found
        found = choose(M, candidate, found)


@compiled
def backwards(M: Space, candidate: int, found: int) -> int:
    """Find all runs of the buffered children, by the best run from each child; return ``found`` with their results."""
    S, P, A, C, G = M.stack, M.plan, M.head, M.cells, M.scratch
    fa = P[P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH + SP_FA]
    states, offsets, edges, over = P[fa + F_STATES], P[fa + F_OFFSETS], P[fa + F_EDGES], P[fa + F_OVER]
    count = S[candidate + M_BUFFERED]
    children, ends = A[X_GATHERED], A[X_GATHERED] + count
    child = S[candidate + M_FIRST]
    for k in range(count):
        G[children + k] = child
        child = C[child + K_NEXT]
    # By state: the most members that a run may still take, and its end; before and after a child.
    here, there = A[X_THREADS] + A[X_STATES], A[X_THREADS] + 3 * A[X_STATES]
    for s in range(states):
        A[there + 2 * s] = 0 if P[over + s] else -1
        A[there + 2 * s + 1] = count
    for k in range(count - 1, -1, -1):
        bits = C[G[children + k] + K_BITS]
        for s in range(states):
            most, end = (0, k) if P[over + s] else (-1, k)
            for e in range(P[offsets + s], P[offsets + s + 1]):
                item, after = P[edges + 2 * e], P[edges + 2 * e + 1]
                if item == OVER or (item >= 0 and (bits >> item) & 1 == 0):
                    continue
                beyond = A[there + 2 * after]
                if beyond < 0:
                    continue
                if item >= 0:
                    beyond += 1
                if beyond > most or (beyond == most and A[there + 2 * after + 1] < end):
                    most, end = beyond, A[there + 2 * after + 1]
            A[here + 2 * s] = most
            A[here + 2 * s + 1] = end
        G[ends + k] = A[here + 1] if A[here] > 0 else -1
        here, there = there, here
    at = 0
    while at < count:
        end = G[ends + at]
        if end < 0:
            drop(M, candidate, 1)
            at += 1
            continue
        begin_run(M, candidate)
        for k in range(at, end):
            advance(M, candidate, G[children + k])
        found = choose(M, candidate, found)
        at = end
    return found


@compiled
def hand_over(M: Space, candidate: int, found: int) -> None:
    """Pass the results of runs to the candidate of the parent of the children."""
    if found != 0:
        number = M.stack[candidate + C_STEP]
        above = M.plan[M.plan[P_STEPS] + number * STEP_WIDTH + SP_PARENT]
        give(M, nearest(M, above, M.stack[candidate + C_DEPTH]), found, number)


@compiled
def release(M: Space, candidate: int) -> None:
    """Release a candidate that refers to no buffered children and no ropes."""
    S, P = M.stack, M.plan
    if S[candidate + M_FIRST] != 0:
        return
    ropes = candidate + RUN_CANDIDATE_WIDTH
    for k in range(2 * P[P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH + SP_ROPES]):
        if S[ropes + k] != 0:
            return
    let_go(M, candidate)


@compiled
def feed(M: Space, candidate: int, ordinal: int) -> None:
    """Process the end of a child: its items are known, and the automaton advances."""
    S, P, A, C = M.stack, M.plan, M.head, M.cells
    step = P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH
    bits = S[candidate + C_MARKS]
    if S[candidate + M_DONE]:
        return
    ropes = candidate + RUN_CANDIDATE_WIDTH
    if S[candidate + M_FIRST] == 0 and bits & P[P[step + SP_FA] + F_FIRST] == 0:
        S[candidate + C_MARKS] = 0
        for k in range(P[step + SP_ROPES]):
            S[ropes + k] = 0
        release(M, candidate)
        return
    child = A[X_CELLS]
    A[X_CELLS] = child + CHILD_WIDTH + P[step + SP_ROPES]
    C[child + CELL_KIND] = CHILD_CELL
    C[child + CELL_STAMP] = 0
    C[child + K_NEXT] = 0
    C[child + K_BITS] = bits
    C[child + K_ORDINAL] = ordinal
    C[child + K_COUNT] = P[step + SP_ROPES]
    for k in range(P[step + SP_ROPES]):
        C[child + K_ROPES + k] = S[ropes + k]
        S[ropes + k] = 0
    S[candidate + C_MARKS] = 0
    hold(M, candidate)
    if S[candidate + M_FIRST] == 0:
        S[candidate + M_FIRST] = child
        begin_run(M, candidate)
    else:
        C[S[candidate + M_LAST] + K_NEXT] = child
    S[candidate + M_LAST] = child
    S[candidate + M_BUFFERED] += 1
    A[X_BUFFERED] += 1
    if S[candidate + M_WAITS]:
        return
    S[candidate + M_LOT] = S[candidate + M_BUFFERED]
    S[candidate + M_SPENT] = 0
    advance(M, candidate, child)
    if decided(M, candidate):
        found = choose(M, candidate, 0)
        hand_over(M, candidate, go_on(M, candidate, found, False))
    release(M, candidate)


@compiled
def end_runs(M: Space, candidate: int) -> None:
    """Process the end of the element: decide all runs that are still open."""
    S = M.stack
    found = 0
    if S[candidate + M_FIRST] != 0 and S[candidate + M_DONE] == 0:
        S[candidate + M_LOT] = S[candidate + M_BUFFERED]
        S[candidate + M_SPENT] = 0
        if S[candidate + M_WAITS] == 0:
            found = choose(M, candidate, 0)
            found = go_on(M, candidate, found, True)
        if S[candidate + M_WAITS]:
            found = backwards(M, candidate, found)
    M.head[X_BUFFERED] -= S[candidate + M_BUFFERED]
    hand_over(M, candidate, found)
