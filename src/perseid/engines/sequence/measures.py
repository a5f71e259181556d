"""Evaluates returned expressions for every match, over arrays."""

from __future__ import annotations

from perseid.engines.sequence.conditions import add_to_totals, evaluate
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, Doubles, Ints, Ints2, entry
from perseid.engines.sequence.thread_frame import clear_frame


@entry
def measure(
    M: Arrays, formula: int, own: bool, offsets: Ints, steps: Ints, positions: Ints, unified: Ints2,
    double: bool, ints: Ints, doubles: Doubles, nulls: Ints,
) -> int:  # fmt: skip
    """Evaluate a formula for each match; FULL if a match has more events than the stack has capacity for."""
    t, w, r = M.tables, M.space, M.reals
    at = w[A_FRAMES]
    for i in range(len(offsets) - 1):
        first, count = offsets[i], offsets[i + 1] - offsets[i]
        if w[A_TAKEN] + TAKEN_WIDTH * count > w[A_TAKEN_END]:
            return FULL
        clear_frame(M, at)
        w[at + COUNT] = count
        w[at + TOTALS] = 1
        for k in range(t[S_TOTALS] * TOTAL_INTS):
            w[w[A_TOTALS] + t[S_TOTALS] * TOTAL_INTS + k] = 0
        for k in range(t[S_TOTALS] * TOTAL_DOUBLES):
            r[STACK + t[S_TOTALS] * TOTAL_DOUBLES + k] = 0.0
        for k in range(2 * t[S_UNIFIED_COUNT]):
            w[at + t[S_UNIFIED] + k] = unified[i, k]
        for k in range(count):
            step, position = steps[first + k], positions[first + k]
            w[w[A_TAKEN] + TAKEN_WIDTH * k + K_STEP] = step
            w[w[A_TAKEN] + TAKEN_WIDTH * k + K_POSITION] = position
            w[at + t[S_CURRENT] + step] = position
            if t[t[S_STEP_TABLE] + step * STEP_WIDTH + ST_TOTALS_COUNT]:
                add_to_totals(M, w[at + TOTALS], step, position)
        evaluate(M, formula, at, positions[first] if own else -1)
        nulls[i] = w[w[A_NULLS]]
        if double:
            doubles[i] = r[0]
        else:
            ints[i] = w[w[A_STACK]]
    return CONTINUE


@entry
def last_of_step(offsets: Ints, steps: Ints, positions: Ints, step: int, last: Ints) -> None:
    """Write the last event of a step in each match to ``last``; -1 if it has none."""
    for i in range(len(offsets) - 1):
        last[i] = -1
        for k in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            if steps[k] == step:
                last[i] = positions[k]
                break
