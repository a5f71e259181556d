"""Rows put in order by small numbers: one pass over them for each, however they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from perseid.runtime.arrays import FloatArray, IntArray
from perseid.runtime.jit import jit


def ordered(ranks: Sequence[IntArray], last: FloatArray) -> IntArray:
    """Rows in the order of ranks, which count from 0, the first before all others; those that agree in all by ``last``."""
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
    """By row the number of its step in the order of groups and steps; and where each of these has a row."""
    order = np.arange(len(unit))
    if not _in_order(unit, step):
        order = ordered([unit, _places(step)], np.zeros(len(unit)))
    which, at = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    return which, at[: number_steps(unit, step, order, which, at)]


def begins(which: IntArray, steps: int) -> IntArray:
    """Where the rows of each step begin, once they are in order; and where the last ends."""
    return np.append(0, np.cumsum(np.bincount(which, minlength=steps)))


def _places(numbers: IntArray) -> IntArray:
    """Numbers as ranks: by how much they are above the least, or where that leaves too many free, by their places."""
    above = numbers - (numbers.min() if len(numbers) else 0)
    return above if above.max(initial=0) <= 4 * len(numbers) else ranks(numbers)


def ranks(numbers: IntArray) -> IntArray:
    """The places of numbers among themselves."""
    return np.unique(numbers, return_inverse=True)[1].reshape(-1)


def _in_order(first: IntArray, second: IntArray) -> bool:
    """Do rows ascend in one word, and where they agree in another?"""
    step = np.diff(first)
    return bool(((step > 0) | ((step == 0) & (np.diff(second) >= 0))).all())


@jit
def count_sort(rank: Any, most: int, order: Any, after: Any) -> None:
    """Rows by one rank; those that agree stay in the order that they are in."""
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
    """Rows that agree in all ranks, by a number."""
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
    """Number the steps of rows that are in order, and note a row of each; how many there are."""
    count = 0
    for place in range(len(order)):
        own = order[place]
        if place == 0 or unit[own] != unit[order[place - 1]] or step[own] != step[order[place - 1]]:
            at[count] = own
            count += 1
        which[own] = count - 1
    return count
