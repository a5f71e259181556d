"""What candidates tell the candidates above them: that a demand is met, and what was found.

A mark goes to every candidate it is for at once. Results go to the innermost of them; what those around it find as well,
they get from it when it closes. Where nothing above gathers results, they pass through as soon as the demands are met.
"""

from __future__ import annotations

from perseid.engines.trees.cells import rope, tell_later
from perseid.engines.trees.match_layout import *
from perseid.engines.trees.match_layout import Space, compiled


@compiled
def nearest(M: Space, step: int, limit: int) -> int:
    """The innermost candidate of a step that is not deeper than a limit; 0 where there is none."""
    S = M.stack
    found = M.head[M.head[X_TOPS] + step]
    while found != 0 and S[found + C_DEPTH] > limit:
        found = S[found + C_PREVIOUS]
    return int(found)


@compiled
def hold(M: Space, candidate: int) -> None:
    """A candidate has cells or text: they must stay."""
    if M.stack[candidate + C_FLAGS] & HOLDS == 0:
        M.stack[candidate + C_FLAGS] |= HOLDS
        M.head[X_HOLDERS] += 1


@compiled
def let_go(M: Space, candidate: int) -> None:
    if M.stack[candidate + C_FLAGS] & HOLDS:
        M.stack[candidate + C_FLAGS] &= ~HOLDS
        M.head[X_HOLDERS] -= 1


@compiled
def give(M: Space, candidate: int, what: int, by: int) -> None:
    """Results of a step to a candidate above it, or to one of the same step around its own."""
    S, P = M.stack, M.plan
    while True:
        number = S[candidate + C_STEP]
        step, giver = P[P_STEPS] + number * STEP_WIDTH, P[P_STEPS] + by * STEP_WIDTH
        if P[step + SP_KIND] == RUN_STEP:
            ropes = candidate + RUN_CANDIDATE_WIDTH
            own = ropes + P[giver + SP_ROPE]
            S[own] = rope(M, S[own], what)
            if P[giver + SP_AXIS] == DESCENDANT and S[candidate + C_PREVIOUS] != 0:
                shared = own + P[step + SP_ROPES]
                S[shared] = rope(M, S[shared], what)
            hold(M, candidate)
            return
        shares = by == number or P[giver + SP_AXIS] == DESCENDANT
        if P[step + SP_FREE] == 0 or S[candidate + C_MARKS] != P[step + SP_ALL]:
            word = candidate + (C_INHERITED if shares else C_OWN)
            S[word] = rope(M, S[word], what)
            hold(M, candidate)
            return
        if number == 0:
            tell_later(M, what)
            return
        if shares and S[candidate + C_PREVIOUS] != 0:
            S[candidate + C_INHERITED] = rope(M, S[candidate + C_INHERITED], what)
            hold(M, candidate)
        by = number
        candidate = nearest(M, P[step + SP_PARENT], S[candidate + C_DEPTH] - 1)


@compiled
def set_mark(M: Space, candidate: int, bit: int) -> None:
    """A demand of a candidate is met; if it was the last one, others have to be told."""
    S, P, A = M.stack, M.plan, M.head
    S[candidate + C_MARKS] |= bit
    step = P[P_STEPS] + S[candidate + C_STEP] * STEP_WIDTH
    if P[step + SP_KIND] == ELEMENT_STEP and S[candidate + C_MARKS] == P[step + SP_ALL]:
        M.scratch[A[X_WORK]] = candidate
        A[X_WORK] += 1


@compiled
def mark(M: Space, number: int, limit: int) -> None:
    """A step holds: for the candidates above it that are not deeper than a limit, a demand is met."""
    S, P, A = M.stack, M.plan, M.head
    step = P[P_STEPS] + number * STEP_WIDTH
    above = P[step + SP_PARENT]
    if above == 0:
        pattern = P[step + SP_PATTERN]
        if A[A[X_DECIDED] + pattern] == 0:
            A[A[X_DECIDED] + pattern] = 1
            if P[P[P_PATTERNS] + pattern] & GIVES == 0:
                tell_later(M, -1 - pattern)
        return
    if P[step + SP_BIT] < 0:
        return  # it holds whatever there is, and nobody waits for it
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
            return  # whoever is around it was told with it
        set_mark(M, candidate, bit)
        candidate = S[candidate + C_PREVIOUS]


@compiled
def settle(M: Space) -> None:
    """Candidates whose demands were met lately: tell those above them, and let through what they found."""
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
        found = rope(M, S[candidate + C_OWN], S[candidate + C_INHERITED])
        if P[step + SP_FREE] and found != 0:
            S[candidate + C_OWN] = 0
            if S[candidate + C_PREVIOUS] == 0:
                S[candidate + C_INHERITED] = 0
                if P[step + SP_TEXT] == 0:
                    let_go(M, candidate)
            give(M, nearest(M, P[step + SP_PARENT], limit), found, number)
    A[X_WORK] = 0
