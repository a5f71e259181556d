"""Stable multi-column sort of rows by small integers: a counting sort pass per column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from perseid.runtime.arrays import FloatArray, IntArray
from perseid.runtime.jit import jit


def ordered(ranks: Sequence[IntArray], last: FloatArray) -> IntArray:
    """Sort rows by ranks, which count from 0, the most significant first; ties are sorted by ``last``."""
    whole = np.stack([np.asarray(rank, np.int64) for rank in ranks])
    order = np.arange(whole.shape[1])
    for rank in whole[::-1]:
        most = int(rank.max(initial=0))
        if most:
            after = np.empty_like(order)
            count_sort(rank, most, order, after)
            order = after
    settle_ties(whole, np.ascontiguousarray(last, np.float64), order)
    return order


def by_step(unit: IntArray, step: IntArray) -> tuple[IntArray, IntArray]:
    """By row: the index of its (group, step) pair in sorted order; and by pair: one of its rows."""
    order = np.arange(len(unit))
    if not _in_order(unit, step):
        order = ordered([unit, _places(step)], np.zeros(len(unit)))
    which, at = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    return which, at[: number_steps(unit, step, order, which, at)]


def begins(which: IntArray, steps: int) -> IntArray:
    """Offsets of the rows of each step, once sorted, including the end of the last."""
    return np.append(0, np.cumsum(np.bincount(which, minlength=steps)))


def _places(numbers: IntArray) -> IntArray:
    """Convert numbers to ranks: offsets from the minimum, or, if these are sparse, dense ranks."""
    above = numbers - (numbers.min() if len(numbers) else 0)
    return above if above.max(initial=0) <= 4 * len(numbers) else ranks(numbers)


def ranks(numbers: IntArray) -> IntArray:
    """Dense ranks of numbers."""
    return np.unique(numbers, return_inverse=True)[1].reshape(-1)


def _in_order(first: IntArray, second: IntArray) -> bool:
    """Return True if rows are sorted by two columns."""
    step = np.diff(first)
    return bool(((step > 0) | ((step == 0) & (np.diff(second) >= 0))).all())


@jit
def count_sort(rank: Any, most: int, order: Any, after: Any) -> None:
    """Stable counting sort by one rank."""
    places = np.zeros(most + 2, np.int64)
    for row in range(len(rank)):
        places[rank[row] + 1] += 1
    for i in range(most):
        places[i + 1] += places[i]
    for row in order:
        after[places[rank[row]]] = row
        places[rank[row]] += 1


@jit
def settle_ties(ranks: Any, last: Any, order: Any) -> None:
    """Insertion sort of rows that agree in all ranks, by a number."""
    for at in range(1, len(order)):
        own, place = order[at], at
        while place > 0:
            rank = len(ranks) - 1
            while rank >= 0 and ranks[rank, order[place - 1]] == ranks[rank, own]:
                rank -= 1
            if rank >= 0 or last[order[place - 1]] <= last[own]:
                break
            order[place] = order[place - 1]
            place -= 1
        order[place] = own


@jit
def number_steps(unit: Any, step: Any, order: Any, which: Any, at: Any) -> int:
    """Number the steps of sorted rows, and note one row of each; return the number of steps."""
    count = 0
    for place in range(len(order)):
        own = order[place]
        if place == 0 or unit[own] != unit[order[place - 1]] or step[own] != step[order[place - 1]]:
            at[count] = own
            count += 1
        which[own] = count - 1
    return count
