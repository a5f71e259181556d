"""Runs of siblings: an automaton over the children of an element, in document order.

All threads of the automaton begin at the first child that is not decided yet, in order of preference; of two in the
same state, the one that took more children survives. A run is chosen when no thread can take more than the best
complete run. Then the search resumes after it, over buffered children.

Resuming after every child may take time quadratic in their number. Beyond a limit, children are only buffered, and when
the element ends all runs are found from the last child backwards, in time linear in their number.
"""

from __future__ import annotations

from perseid.engines.trees.cells import result, rope
from perseid.engines.trees.delivery import mark, nearest, propagate, release_references, retain
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
    thread_numbers = A[X_THREADS]
    fresh = thread_numbers + A[X_STATES]
    count = 0
    for k in range(S[candidate + M_THREADS]):
        state, taken_count, rope_so_far = S[threads + 3 * k], S[threads + 3 * k + 1], S[threads + 3 * k + 2]
        for e in range(P[offsets + state], P[offsets + state + 1]):
            item, after = P[edges + 2 * e], P[edges + 2 * e + 1]
            if item == END_OF_RUN or (item >= 0 and (bits >> item) & 1 == 0):
                continue
            new_count = taken_count + 1 if item >= 0 else taken_count
            earlier = A[thread_numbers + after]
            if earlier != 0:
                if A[fresh + 3 * (earlier - 1) + 1] >= new_count:
                    continue
                A[fresh + 3 * (earlier - 1)] = -1
            A[thread_numbers + after] = count + 1
            A[fresh + 3 * count] = after
            A[fresh + 3 * count + 1] = new_count
            item_rope = P[items + item] if item >= 0 else -1
            A[fresh + 3 * count + 2] = (
                rope(M, rope_so_far, C[child + K_ROPES + item_rope]) if item_rope >= 0 else rope_so_far
            )
            count += 1
    S[candidate + M_LENGTH] += 1
    remaining = 0
    for k in range(count):
        state = A[fresh + 3 * k]
        if state < 0:
            continue
        A[thread_numbers + state] = 0
        taken_count, rope_so_far = A[fresh + 3 * k + 1], A[fresh + 3 * k + 2]
        S[threads + 3 * remaining], S[threads + 3 * remaining + 1], S[threads + 3 * remaining + 2] = (
            state,
            taken_count,
            rope_so_far,
        )
        remaining += 1
        if P[P[fa + F_ACCEPTS] + state] and taken_count > S[candidate + M_BEST]:
            S[candidate + M_BEST] = taken_count
            S[candidate + M_BEST_LENGTH] = S[candidate + M_LENGTH]
            S[candidate + M_BEST_ROPE] = rope_so_far
    S[candidate + M_THREADS] = remaining
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
    max_more = P[P[P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH + SP_FA] + F_MAX_MORE]
    threads = threads_of(M, candidate)
    for k in range(S[candidate + M_THREADS]):
        max_left = P[max_more + S[threads + 3 * k]]
        if max_left < 0 or S[threads + 3 * k + 1] + max_left > best:
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
def choose(M: Space, candidate: int, results: int) -> int:
    """Decide the first buffered child: drop it, or its best run; return ``results`` with the results of that run."""
    S, P, C = M.stack, M.plan, M.cells
    number = S[candidate + C_STEP]
    if S[candidate + M_BEST] == 0:
        drop(M, candidate, 1)
        return results
    mark(M, number, S[candidate + C_DEPTH])
    S[candidate + M_DONE] = 1 - P[P[P_STEPS] + number * STEP_WIDTH + SP_RETURNS_BELOW]
    if S[candidate + M_BEST_ROPE] != 0:
        first = C[S[candidate + M_FIRST] + K_ORDINAL]
        results = rope(M, results, result(M, first, number, -1, 0, 0, S[candidate + M_BEST_ROPE]))
    drop(M, candidate, S[candidate + M_BEST_LENGTH])
    return results


@compiled
def find_runs(M: Space, candidate: int, results: int, ended: bool) -> int:
    """Find runs from the first buffered child, as far as they are decided; return ``results`` with their results."""
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
            return results
        if S[candidate + M_SPENT] > PATIENCE * S[candidate + M_BUDGET] + GRACE:
            S[candidate + M_DEFERRED] = 1
            return results
        while child != 0:
            advance(M, candidate, child)
            if decided(M, candidate):
                break
            child = C[child + K_NEXT]
        if child == 0 and not ended:
            return results
        results = choose(M, candidate, results)


@compiled
def backwards(M: Space, candidate: int, results: int) -> int:
    """Find all runs of the buffered children, by the best run from each child; return ``results`` with their results."""
    S, P, A, C, G = M.stack, M.plan, M.head, M.cells, M.scratch
    fa = P[P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH + SP_FA]
    states, offsets, edges, accepts = P[fa + F_STATES], P[fa + F_OFFSETS], P[fa + F_EDGES], P[fa + F_ACCEPTS]
    count = S[candidate + M_BUFFERED]
    children, ends = A[X_GATHERED], A[X_GATHERED] + count
    child = S[candidate + M_FIRST]
    for k in range(count):
        G[children + k] = child
        child = C[child + K_NEXT]
    # By state: the most members that a run may still take, and its end; before and after a child.
    current, following = A[X_THREADS] + A[X_STATES], A[X_THREADS] + 3 * A[X_STATES]
    for s in range(states):
        A[following + 2 * s] = 0 if P[accepts + s] else -1
        A[following + 2 * s + 1] = count
    for k in range(count - 1, -1, -1):
        bits = C[G[children + k] + K_BITS]
        for s in range(states):
            longest, end = (0, k) if P[accepts + s] else (-1, k)
            for e in range(P[offsets + s], P[offsets + s + 1]):
                item, after = P[edges + 2 * e], P[edges + 2 * e + 1]
                if item == END_OF_RUN or (item >= 0 and (bits >> item) & 1 == 0):
                    continue
                beyond = A[following + 2 * after]
                if beyond < 0:
                    continue
                if item >= 0:
                    beyond += 1
                if beyond > longest or (beyond == longest and A[following + 2 * after + 1] < end):
                    longest, end = beyond, A[following + 2 * after + 1]
            A[current + 2 * s] = longest
            A[current + 2 * s + 1] = end
        G[ends + k] = A[current + 1] if A[current] > 0 else -1
        current, following = following, current
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
        results = choose(M, candidate, results)
        at = end
    return results


@compiled
def propagate_runs(M: Space, candidate: int, results: int) -> None:
    """Pass the results of runs to the candidate of the parent of the children."""
    if results != 0:
        number = M.stack[candidate + C_STEP]
        above = M.plan[M.plan[P_STEPS] + number * STEP_WIDTH + SP_PARENT]
        propagate(M, nearest(M, above, M.stack[candidate + C_DEPTH]), results, number)


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
    release_references(M, candidate)


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
    retain(M, candidate)
    if S[candidate + M_FIRST] == 0:
        S[candidate + M_FIRST] = child
        begin_run(M, candidate)
    else:
        C[S[candidate + M_LAST] + K_NEXT] = child
    S[candidate + M_LAST] = child
    S[candidate + M_BUFFERED] += 1
    A[X_BUFFERED] += 1
    if S[candidate + M_DEFERRED]:
        return
    S[candidate + M_BUDGET] = S[candidate + M_BUFFERED]
    S[candidate + M_SPENT] = 0
    advance(M, candidate, child)
    if decided(M, candidate):
        results = choose(M, candidate, 0)
        propagate_runs(M, candidate, find_runs(M, candidate, results, False))
    release(M, candidate)


@compiled
def end_runs(M: Space, candidate: int) -> None:
    """Process the end of the element: decide all runs that are still open."""
    S = M.stack
    results = 0
    if S[candidate + M_FIRST] != 0 and S[candidate + M_DONE] == 0:
        S[candidate + M_BUDGET] = S[candidate + M_BUFFERED]
        S[candidate + M_SPENT] = 0
        if S[candidate + M_DEFERRED] == 0:
            results = choose(M, candidate, 0)
            results = find_runs(M, candidate, results, True)
        if S[candidate + M_DEFERRED]:
            results = backwards(M, candidate, results)
    M.head[X_BUFFERED] -= S[candidate + M_BUFFERED]
    propagate_runs(M, candidate, results)
