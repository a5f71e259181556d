"""Propagation to the candidates above: marks for met requirements, and results.

A mark goes at once to every candidate that it applies to. Results go to the innermost of them; enclosing candidates get
those that they share from it when it closes. If nothing above collects results, they pass through as soon as the
requirements are met.
"""

from __future__ import annotations

from perseid.engines.trees.cells import queue_output, rope
from perseid.engines.trees.match_layout import *
from perseid.engines.trees.match_layout import Space, compiled


@compiled
def nearest(M: Space, step: int, limit: int) -> int:
    """Return the innermost candidate of a step that is not deeper than a limit, or 0."""
    S = M.stack
    candidate = M.head[M.head[X_TOPS] + step]
    while candidate != 0 and S[candidate + C_DEPTH] > limit:
        candidate = S[candidate + C_PREVIOUS]
    return int(candidate)


@compiled
def retain(M: Space, candidate: int) -> None:
    """Flag a candidate that refers to cells or text, so that these are retained."""
    if M.stack[candidate + C_FLAGS] & HOLDS_REFERENCES == 0:
        M.stack[candidate + C_FLAGS] |= HOLDS_REFERENCES
        M.head[X_HOLDERS] += 1


@compiled
def release_references(M: Space, candidate: int) -> None:
    if M.stack[candidate + C_FLAGS] & HOLDS_REFERENCES:
        M.stack[candidate + C_FLAGS] &= ~HOLDS_REFERENCES
        M.head[X_HOLDERS] -= 1


@compiled
def propagate(M: Space, candidate: int, rope_of_results: int, by: int) -> None:
    """Add results of a step to a candidate of the step above it, or of the same step."""
    S, P = M.stack, M.plan
    while True:
        number = S[candidate + C_STEP]
        step, giver = P[P_STEPS] + number * STEP_WIDTH, P[P_STEPS] + by * STEP_WIDTH
        if P[step + SP_KIND] == RUN_STEP:
            ropes = candidate + RUN_CANDIDATE_WIDTH
            child_rope = ropes + P[giver + SP_ROPE]
            S[child_rope] = rope(M, S[child_rope], rope_of_results)
            if P[giver + SP_AXIS] == DESCENDANT and S[candidate + C_PREVIOUS] != 0:
                shared_rope = child_rope + P[step + SP_ROPES]
                S[shared_rope] = rope(M, S[shared_rope], rope_of_results)
            retain(M, candidate)
            return
        is_shared = by == number or P[giver + SP_AXIS] == DESCENDANT
        if P[step + SP_FREE] == 0 or S[candidate + C_MARKS] != P[step + SP_ALL]:
            word = candidate + (C_INHERITED if is_shared else C_OWN)
            S[word] = rope(M, S[word], rope_of_results)
            retain(M, candidate)
            return
        if number == 0:
            queue_output(M, rope_of_results)
            return
        if is_shared and S[candidate + C_PREVIOUS] != 0:
            S[candidate + C_INHERITED] = rope(M, S[candidate + C_INHERITED], rope_of_results)
            retain(M, candidate)
        by = number
        candidate = nearest(M, P[step + SP_PARENT], S[candidate + C_DEPTH] - 1)


@compiled
def set_mark(M: Space, candidate: int, bit: int) -> None:
    """Mark a requirement of a candidate as met; if all are met, queue the candidate for ``settle``."""
    S, P, A = M.stack, M.plan, M.head
    S[candidate + C_MARKS] |= bit
    step = P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH
    if P[step + SP_KIND] == ELEMENT_STEP and S[candidate + C_MARKS] == P[step + SP_ALL]:
        M.scratch[A[X_WORK]] = candidate
        A[X_WORK] += 1


@compiled
def mark(M: Space, number: int, limit: int) -> None:
    """Mark a match of a step in the candidates above it that are not deeper than a limit, or in its pattern."""
    S, P, A = M.stack, M.plan, M.head
    step = P[P_STEPS] + number * STEP_WIDTH
    above = P[step + SP_PARENT]
    if above == 0:
        pattern = P[step + SP_PATTERN]
        if A[A[X_DECIDED] + pattern] == 0:
            A[A[X_DECIDED] + pattern] = 1
            if P[P[P_PATTERNS] + pattern] & RETURNS_NODES == 0:
                queue_output(M, -1 - pattern)
        return
    if P[step + SP_BIT] < 0:
        return  # the expression matches without siblings: nothing requires it
    bit = 1 << P[step + SP_BIT]
    candidate = nearest(M, above, limit)
    if P[step + SP_AXIS] != DESCENDANT:
        if S[candidate + C_MARKS] & bit == 0:
            set_mark(M, candidate, bit)
        return
    runs = P[P[P_STEPS] + above * STEP_WIDTH + SP_KIND] == RUN_STEP
    while candidate != 0:
        if runs and S[candidate + M_DONE]:
            candidate = S[candidate + C_PREVIOUS]
            continue
        if S[candidate + C_MARKS] & bit:
            return  # enclosing candidates are marked already
        set_mark(M, candidate, bit)
        candidate = S[candidate + C_PREVIOUS]


@compiled
def settle(M: Space) -> None:
    """Propagate the candidates with newly met requirements: mark those above them, and pass on their results."""
    S, P, A = M.stack, M.plan, M.head
    done = 0
    while done < A[X_WORK]:
        candidate = M.scratch[done]
        done += 1
        number = S[candidate + C_STEP]
        step = P[P_STEPS] + number * STEP_WIDTH
        limit = S[candidate + C_DEPTH] - 1
        S[candidate + C_FLAGS] |= DELIVERED
        mark(M, number, limit)
        results = rope(M, S[candidate + C_OWN], S[candidate + C_INHERITED])
        if P[step + SP_FREE] and results != 0:
            S[candidate + C_OWN] = 0
            if S[candidate + C_PREVIOUS] == 0:
                S[candidate + C_INHERITED] = 0
                if P[step + SP_TEXT] == 0:
                    release_references(M, candidate)
            propagate(M, nearest(M, P[step + SP_PARENT], limit), results, number)
    A[X_WORK] = 0
