"""Compacting garbage collection of cells and text that no open candidate refers to.

If nothing refers to any of them, the kernel frees all at once. Some candidate may always hold a few, though:
of ``/a->x:/b`` over a long list of a's, the last one. So live data is compacted before arrays are enlarged.
"""

from __future__ import annotations

from perseid.engines.trees.cells import sort
from perseid.engines.trees.layout import Ints, WritableBytes
from perseid.engines.trees.match_layout import *
from perseid.engines.trees.match_layout import Space, compiled, entry


@compiled
def push(M: Space, top: int, cell: int, stamp: int) -> int:
    """Push a cell to be traversed, unless it was visited; return the new top."""
    if cell == 0 or M.cells[cell + CELL_STAMP] == stamp:
        return top
    M.cells[cell + CELL_STAMP] = stamp
    M.scratch[top] = cell
    return top + 1


@compiled
def size_of(C: Ints, cell: int) -> int:
    if C[cell + CELL_KIND] == ROPE_CELL:
        return ROPE_WIDTH
    if C[cell + CELL_KIND] == RESULT_CELL:
        return RESULT_WIDTH
    return int(CHILD_WIDTH + C[cell + K_COUNT])


@compiled
def refer(M: Space, first: int, count: int, top: int, stamp: int) -> int:
    """Push the cells that stack words refer to or, with no stamp, update these words to where the cells moved."""
    S, C = M.stack, M.cells
    for at in range(first, first + count):
        if stamp:
            top = push(M, top, S[at], stamp)
        elif S[at] != 0:
            S[at] = -C[S[at] + CELL_STAMP]
    return top


@compiled
def roots(M: Space, top: int, stamp: int) -> int:
    """Push all cells that candidates refer to or, with no stamp, update these references to where the cells moved."""
    S, P, A, C = M.stack, M.plan, M.head, M.cells
    candidate = A[X_LAST]
    while candidate != 0:
        step = P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH
        if P[step + SP_KIND] != LEAF_STEP:
            top = refer(M, candidate + C_OWN, 1, top, stamp)
        top = refer(M, candidate + C_INHERITED, 1, top, stamp)
        if P[step + SP_KIND] == RUN_STEP:
            top = refer(M, candidate + M_FIRST, 2, top, stamp)
            top = refer(M, candidate + M_BEST_ROPE, 1, top, stamp)
            ropes = candidate + RUN_CANDIDATE_WIDTH
            top = refer(M, ropes, 2 * P[step + SP_ROPES], top, stamp)
            threads = ropes + 2 * P[step + SP_ROPES]
            for k in range(S[candidate + M_THREADS]):
                top = refer(M, threads + 3 * k + 2, 1, top, stamp)
        candidate = S[candidate + C_BELOW]
    if A[X_PARKED]:
        for at in range(A[X_PARKS], A[X_PARKS] + P[P_LASTS] * DEPTHS):
            if A[at] > 1:
                if stamp:
                    top = push(M, top, A[at] - 1, stamp)
                else:
                    A[at] = 1 - C[A[at] - 1 + CELL_STAMP]
    return top


@compiled
def mark_cells(M: Space) -> int:
    """Stamp every reachable cell; return the stamp."""
    A, C, G = M.head, M.cells, M.scratch
    A[X_STAMP] += 1
    stamp = A[X_STAMP]
    bottom = A[X_GATHERED]
    top = roots(M, bottom, stamp)
    while top > bottom:
        top -= 1
        cell = G[top]
        if C[cell + CELL_KIND] == ROPE_CELL:
            top = push(M, top, C[cell + L_LEFT], stamp)
            top = push(M, top, C[cell + L_RIGHT], stamp)
        elif C[cell + CELL_KIND] == RESULT_CELL:
            top = push(M, top, C[cell + V_INNER], stamp)
        else:
            top = push(M, top, C[cell + K_NEXT], stamp)
            for k in range(C[cell + K_COUNT]):
                top = push(M, top, C[cell + K_ROPES + k], stamp)
    return int(stamp)


@compiled
def relocate(C: Ints, at: int) -> None:
    """Update a reference in a cell to where its target moved."""
    if C[at] != 0:
        C[at] = -C[C[at] + CELL_STAMP]


@compiled
def move_cells(M: Space, stamp: int) -> None:
    """Compact the stamped cells. In between, the stamp of a cell is its new offset, negated."""
    A, C = M.head, M.cells
    at, to = 1, 1
    while at < A[X_CELLS]:
        size = size_of(C, at)
        if C[at + CELL_STAMP] == stamp:
            C[at + CELL_STAMP] = -to
            to += size
        else:
            C[at + CELL_STAMP] = 0
        at += size
    roots(M, 0, 0)
    at = 1
    while at < A[X_CELLS]:
        size, target = size_of(C, at), -C[at + CELL_STAMP]
        if target > 0:
            if C[at + CELL_KIND] == ROPE_CELL:
                relocate(C, at + L_LEFT)
                relocate(C, at + L_RIGHT)
            elif C[at + CELL_KIND] == RESULT_CELL:
                relocate(C, at + V_INNER)
            else:
                relocate(C, at + K_NEXT)
                for k in range(C[at + K_COUNT]):
                    relocate(C, at + K_ROPES + k)
        at += size
    at = 1
    while at < A[X_CELLS]:
        size, target = size_of(C, at), -C[at + CELL_STAMP]
        if target > 0:
            for k in range(size):
                C[target + k] = C[at + k]
            C[target + CELL_STAMP] = 0
        at += size
    A[X_CELLS] = to


@compiled
def results_by_text(M: Space, kind: int) -> int:
    """Write the results of steps of a kind to the scratch, in the order of their texts; return their number."""
    A, C, G, P = M.head, M.cells, M.scratch, M.plan
    begin, count, at = A[X_GATHERED], 0, 1
    while at < A[X_CELLS]:
        if C[at + CELL_KIND] == RESULT_CELL and P[P[P_STEPS] + C[at + V_STEP] * STEP_WIDTH + SP_KIND] == kind:
            G[begin + count] = at
            count += 1
        at += size_of(C, at)
    sort(C, G, begin, count, V_FROM)
    return count


@compiled
def move_text(M: Space, R: WritableBytes, kind: int, open_from: int, end: int) -> int:
    """Compact the texts of results, then the open text; return its new end. Texts inside each other stay so."""
    A, C, G = M.head, M.cells, M.scratch
    count, begin = results_by_text(M, kind), A[X_GATHERED]
    # Text before ``done`` is in its new place; the current block moves down by ``shift`` bytes.
    done, shift = 0, 0
    for k in range(count + 1):
        first = C[G[begin + k] + V_FROM] if k < count else open_from
        last = C[G[begin + k] + V_TO] if k < count else end
        if k == count or first > open_from:
            first = min(first, open_from)
            last = end
        if first > done:
            shift += first - done
            done = first
        for at in range(done, last):
            R[at - shift] = R[at]
        done = max(done, last)
        if k < count:
            C[G[begin + k] + V_FROM] -= shift
            C[G[begin + k] + V_TO] -= shift
    return int(done - shift)


@entry
def collect(M: Space) -> None:
    """Free all cells, values and text except those that candidates refer to."""
    S, P, A = M.stack, M.plan, M.head
    move_cells(M, mark_cells(M))
    A[X_VALUES] = move_text(M, M.values, ATTRIBUTE_STEP, A[X_VALUES], A[X_VALUES])
    oldest = A[X_TEXT]
    candidate = A[X_LAST]
    while candidate != 0:
        if P[P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH + SP_TEXT]:
            oldest = min(oldest, S[candidate + C_TEXT])
        candidate = S[candidate + C_BELOW]
    end = move_text(M, M.text, ELEMENT_STEP, oldest, A[X_TEXT])
    shift = A[X_TEXT] - end
    A[X_TEXT] = end
    candidate = A[X_LAST]
    while candidate != 0:
        # All open text is contiguous, at the end.
        S[candidate + C_TEXT] = max(0, S[candidate + C_TEXT] - shift)
        candidate = S[candidate + C_BELOW]
