"""Cells: results of candidates, concatenated without copying, and their output.

A rope concatenates two ropes or results; a result may be in many ropes. Ropes are immutable: duplicates and document
order are resolved on output.
"""

from __future__ import annotations

from perseid.engines.trees.layout import Ints
from perseid.engines.trees.match_layout import *
from perseid.engines.trees.match_layout import Space, compiled


@compiled
def rope(M: Space, left: int, right: int) -> int:
    """Concatenate two ropes; 0 is the empty rope."""
    if left == 0 or left == right:
        return right
    if right == 0:
        return left
    A, C = M.head, M.cells
    at = A[X_CELLS]
    C[at + CELL_KIND] = ROPE_CELL
    C[at + CELL_STAMP] = 0
    C[at + L_LEFT] = left
    C[at + L_RIGHT] = right
    A[X_CELLS] = at + ROPE_WIDTH
    return int(at)


@compiled
def result(M: Space, ordinal: int, step: int, name: int, begin: int, end: int, inner: int) -> int:
    """Allocate a result: a returned node, or a run of siblings."""
    A, C = M.head, M.cells
    at = A[X_CELLS]
    C[at + CELL_KIND] = RESULT_CELL
    C[at + CELL_STAMP] = 0
    C[at + V_ORDINAL] = ordinal
    C[at + V_STEP] = step
    C[at + V_NAME] = name
    C[at + V_FROM] = begin
    C[at + V_TO] = end
    C[at + V_INNER] = inner
    C[at + V_EMITTED] = 0
    A[X_CELLS] = at + RESULT_WIDTH
    return int(at)


@compiled
def queue_output(M: Space, rope_or_pattern: int) -> None:
    """Queue for output a rope of results or, as -1 - pattern, the match of a pattern that returns nothing."""
    A = M.head
    M.scratch[A[X_QUEUED] + A[X_QUEUE]] = rope_or_pattern
    A[X_QUEUE] += 1


@compiled
def comes_before(C: Ints, one: int, other: int, word: int) -> bool:
    """Compare two results by a field (``word``), then by their steps."""
    if C[one + word] != C[other + word]:
        return bool(C[one + word] < C[other + word])
    return bool(C[one + V_STEP] < C[other + V_STEP])


@compiled
def sink(C: Ints, G: Ints, begin: int, at: int, count: int, word: int) -> None:
    """Sift the entry at ``at`` down the heap (part of heapsort)."""
    while True:
        child = 2 * at + 1
        if child >= count:
            return
        if child + 1 < count and comes_before(C, G[begin + child], G[begin + child + 1], word):
            child += 1
        if not comes_before(C, G[begin + at], G[begin + child], word):
            return
        swapped = G[begin + at]
        G[begin + at] = G[begin + child]
        G[begin + child] = swapped
        at = child


@compiled
def sort(C: Ints, G: Ints, begin: int, count: int, word: int) -> None:
    """Sort results by a field; input that is sorted already, as most is, takes one pass."""
    ordered = True
    for k in range(begin, begin + count - 1):
        if comes_before(C, G[k + 1], G[k], word):
            ordered = False
            break
    if ordered:
        return
    for at in range(count // 2 - 1, -1, -1):
        sink(C, G, begin, at, count, word)
    for last in range(count - 1, 0, -1):
        swapped = G[begin]
        G[begin] = G[begin + last]
        G[begin + last] = swapped
        sink(C, G, begin, 0, last, word)


@compiled
def gather(M: Space, root: int, begin: int) -> int:
    """Write a rope's results to the scratch from ``begin``, distinct and in document order; return their number."""
    A, C, G = M.head, M.cells, M.scratch
    A[X_STAMP] += 1
    stamp = A[X_STAMP]
    count = 0
    # Ropes still to be traversed form a stack at the end of the scratch; it grows downwards.
    bottom = A[X_SCRATCH_END]
    top = bottom
    at = root
    while True:
        if at != 0 and C[at + CELL_STAMP] != stamp:
            C[at + CELL_STAMP] = stamp
            if C[at + CELL_KIND] == ROPE_CELL:
                top -= 1
                G[top] = C[at + L_RIGHT]
                at = C[at + L_LEFT]
                continue
            G[begin + count] = at
            count += 1
        if top == bottom:
            break
        at = G[top]
        top += 1
    sort(C, G, begin, count, V_ORDINAL)
    return count


@compiled
def note_full(M: Space) -> None:
    """Record how much was written when the output arrays were full: the caller enlarges the array that is too small."""
    A = M.head
    A[X_FULL_ROWS], A[X_FULL_BYTES] = A[X_ROWS], A[X_OUT_BYTES]


@compiled
def write_row(M: Space, cell: int, level: int) -> bool:
    """Write a row for a node or run; return False if the output arrays are full."""
    A, C, P, rows = M.head, M.cells, M.plan, M.rows
    step = P[P_STEPS] + C[cell + V_STEP] * STEP_WIDTH
    begin, end = C[cell + V_FROM], C[cell + V_TO]
    at, written_bytes = A[X_ROWS] * ROW_WIDTH, A[X_OUT_BYTES]
    if at + ROW_WIDTH > A[X_ROWS_END] or written_bytes + end - begin > A[X_OUT_END]:
        note_full(M)
        return False
    source = M.values if P[step + SP_KIND] == ATTRIBUTE_STEP else M.text
    target = M.text_out
    for k in range(end - begin):
        target[written_bytes + k] = source[begin + k]
    rows[at + O_PATTERN] = P[step + SP_PATTERN]
    rows[at + O_LEVEL] = level
    rows[at + O_STEP] = C[cell + V_STEP]
    rows[at + O_NAME] = C[cell + V_NAME]
    rows[at + O_FROM] = written_bytes
    rows[at + O_TO] = written_bytes + end - begin
    rows[at + O_ORDINAL] = C[cell + V_ORDINAL] - A[A[X_ORDINALS]]  # the root is element 1
    A[X_ROWS] += 1
    A[X_OUT_BYTES] = written_bytes + end - begin
    return True


@compiled
def emit_result(M: Space, cell: int, free: int) -> bool:
    """Write a result and all results inside it as rows, or none and return False; scratch is unused from ``free``."""
    A, C, G = M.head, M.cells, M.scratch
    rows_before, bytes_before = A[X_ROWS], A[X_OUT_BYTES]
    # The results of each level follow those of the level above, after three words with its cursor, end and base.
    base, cursor, end, level = free, free + 3, free + 3, 0
    has_capacity = write_row(M, cell, 0)
    inner = C[cell + V_INNER]
    if has_capacity and inner != 0:
        end = cursor + gather(M, inner, cursor)
    while has_capacity:
        if cursor == end:
            if base == free:
                break
            cursor, end, base = G[base], G[base + 1], G[base + 2]
            level -= 1
            continue
        inner_cell = G[cursor]
        cursor += 1
        has_capacity = write_row(M, inner_cell, level + 1)
        inner = C[inner_cell + V_INNER]
        if inner != 0:
            G[end], G[end + 1], G[end + 2] = cursor, end, base
            base = end
            cursor = end + 3
            end = cursor + gather(M, inner, cursor)
            level += 1
    if not has_capacity:
        A[X_ROWS], A[X_OUT_BYTES] = rows_before, bytes_before
    return bool(has_capacity)


@compiled
def emit_queued(M: Space) -> bool:
    """Write all queued results, each once; return False if the next one does not fit."""
    A, C, G, rows = M.head, M.cells, M.scratch, M.rows
    while A[X_QUEUE_DONE] < A[X_QUEUE]:
        queued = G[A[X_QUEUED] + A[X_QUEUE_DONE]]
        if queued < 0:
            at = A[X_ROWS] * ROW_WIDTH
            if at + ROW_WIDTH > A[X_ROWS_END]:
                note_full(M)
                return False
            rows[at + O_PATTERN] = -queued - 1
            rows[at + O_LEVEL] = 0
            rows[at + O_STEP] = -1
            rows[at + O_NAME] = -1
            rows[at + O_FROM] = A[X_OUT_BYTES]
            rows[at + O_TO] = A[X_OUT_BYTES]
            rows[at + O_ORDINAL] = 0
            A[X_ROWS] += 1
        else:
            begin = A[X_GATHERED]
            count = gather(M, queued, begin)
            for k in range(begin, begin + count):
                cell = G[k]
                if C[cell + V_EMITTED] == 0:
                    if not emit_result(M, cell, begin + count):
                        return False
                    C[cell + V_EMITTED] = 1
        A[X_QUEUE_DONE] += 1
    A[X_QUEUE] = 0
    A[X_QUEUE_DONE] = 0
    return True
