"""The four methods of paper 4 event by event, as it measures them: one loop each, over the same chains and the same search.

A method is given the events one after the other and tells what it finds in between; nothing is done in batches, and no
state is written. What differs is only what the methods differ in. K-slack keeps events in a heap until the longest delay
has passed, and searches in order. Conservative puts events into the chains when they come, and searches from the last
event of a match when promises, or the longest delay, have passed it. Aggressive searches from every event when it comes,
tells what it finds, and takes back what a late one breaks. Assemble does the same and tells what is certain.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.disorder.arriving import Course
from perseid.engines.contract import Clock, Rows
from perseid.engines.disorder import assembly as a
from perseid.engines.disorder.assemble import Assembling, Room, placed_keys, with_room
from perseid.engines.disorder.assembly import NO_MATCH, arrive, complete, forget
from perseid.engines.disorder.plan import DisorderPlan
from perseid.engines.rows import take_rows
from perseid.engines.sequence import layout as y
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, Ints, compiled, entry
from perseid.engines.sequence.state import nothing

METHODS = ("K-slack", "conservative", "aggressive", "assemble")
FACTOR = 1 << 24
"""A number in a heap is a time in units, times this, and a position."""


# A heap of numbers; its first word is how many there are


@compiled
def push(H: Ints, number: int) -> None:
    H[0] += 1
    i = H[0]
    while i > 1 and H[i // 2] > number:
        H[i] = H[i // 2]
        i //= 2
    H[i] = number


@compiled
def pop(H: Ints) -> int:
    least, number = H[1], H[H[0]]
    H[0] -= 1
    i = 1
    while 2 * i <= H[0]:
        child = 2 * i
        if child < H[0] and H[child + 1] < H[child]:
            child += 1
        if H[child] >= number:
            break
        H[i] = H[child]
        i = child
    H[i] = number
    return int(least)


@entry
def k_slack(
    M: Arrays, A: Ints, H: Ints, offsets: Ints, keys: Ints, arrival: Ints, masks: Ints, fitting: Ints, sure: Ints,
    unit: int,
) -> int:  # fmt: skip
    """Events wait until nothing earlier can come, and are searched in order, from the last of a match."""
    e = M.events
    last = A[a.H_SLOTS] - 1
    for i in range(len(arrival) + 1):
        if i < len(arrival):
            push(H, e[E_TIME, arrival[i]] // unit * FACTOR + arrival[i])
        A[a.H_MOMENT] = i
        while H[0] > 0 and e[E_TIME, H[1] % FACTOR] <= sure[i]:
            position = pop(H) % FACTOR
            key = keys[position]
            A[a.H_CLOCK] = e[E_TIME, position]
            A[a.H_SURE] = A[a.H_CLOCK] - 1
            forget(M, A, key)
            arrive(M, A, key, position, masks[position], fitting[position])
            if (fitting[position] >> last) & 1 and not complete(
                M, A, key, last, position, NO_MATCH, NO_MATCH, offsets[key + 1]
            ):
                return FULL
        A[a.H_PEAK] = max(A[a.H_PEAK], A[a.H_LIVE] + H[0])
    return GOES_ON


@entry
def conservative(
    M: Arrays, A: Ints, H: Ints, offsets: Ints, keys: Ints, arrival: Ints, masks: Ints, fitting: Ints, sure: Ints,
    promises: Ints, unit: int,
) -> int:  # fmt: skip
    """Events are put where they belong; matches are searched from their last event when nothing earlier can come.

    ``arrival`` has a promise as -1 less the number of its type, whose time is in ``sure``; ``promises`` what was
    promised of each type.
    """
    e = M.events
    last = A[a.H_SLOTS] - 1
    frontier = NONE
    for i in range(len(arrival) + 1):
        if i < len(arrival) and arrival[i] < 0:
            promises[-1 - arrival[i]] = max(promises[-1 - arrival[i]], sure[i])
            least = promises[0]
            for k in range(1, len(promises)):
                least = min(least, promises[k])
            frontier = max(frontier, least)
        else:
            A[a.H_SURE] = frontier  # what ends up to there has been searched
            frontier = max(frontier, sure[i])
            if i < len(arrival):
                position = arrival[i]
                forget(M, A, keys[position])
                arrive(M, A, keys[position], position, masks[position], fitting[position])
                if (fitting[position] >> last) & 1:
                    push(H, e[E_TIME, position] // unit * FACTOR + position)
        A[a.H_PEAK] = max(A[a.H_PEAK], A[a.H_LIVE] + H[0])
        A[a.H_MOMENT] = i
        A[a.H_CLOCK] = frontier
        while H[0] > 0 and e[E_TIME, H[1] % FACTOR] <= frontier:
            position = pop(H) % FACTOR
            key = keys[position]
            if not complete(M, A, key, last, position, NO_MATCH, NO_MATCH, offsets[key + 1]):
                return FULL
    return GOES_ON


def follow(method: str, plan: DisorderPlan, rows: Rows, delay: int, unit: int) -> Course:
    """A method over a stream in the order of arrival; only its loop is timed."""
    promised = np.zeros(len(rows), bool) if rows.control is None else rows.control != 0
    newest = np.maximum.accumulate(np.where(promised, y.NONE, rows.time))
    come = np.cumsum(~promised)
    (numbered,) = plan.patterns
    # Events and promises of types that the pattern does not know are nothing to it, but time goes on with them.
    codes = np.array([_types(numbered).get(name, -1) for name in rows.kind_names])[rows.kinds]
    kept = codes >= 0
    rows, promised, newest, come, codes = (
        take_rows(rows, np.flatnonzero(kept)),
        *(x[kept] for x in (promised, newest, come, codes)),
    )
    events = take_rows(rows, np.flatnonzero(~promised))
    shard = Assembling(plan.searched(order="assemble"), nothing(events), events, Clock(ended=True))
    placed = shard._place(numbered.pattern.route, None)
    arrival = np.argsort(placed.order).astype(np.int64)
    mixed = np.empty(len(rows), np.int64)
    mixed[~promised], mixed[promised] = arrival, -1 - codes[promised]
    sure = np.append(np.where(promised, rows.time, newest - delay - 1), y.FOREVER)
    offsets, keys = placed_keys(placed)
    seconds = 0.0

    def run_method(room: Room) -> int:
        nonlocal seconds
        given = (offsets, keys, mixed, room.masks, room.fitting)
        heap, promises = np.zeros(len(events) + 2, np.int64), np.full(len(_types(numbered)), y.NONE)
        clocks = np.append(newest, y.FOREVER) if method == "aggressive" else sure
        begin = time.perf_counter()
        if method == "K-slack":
            answer = k_slack(room.arrays, room.work, heap, *given, sure, unit)
        elif method == "conservative":
            answer = conservative(room.arrays, room.work, heap, *given, sure, promises, unit)
        else:
            answer = a.assemble(room.arrays, room.work, *given, 0, y.NONE, y.NONE, clocks, sure)
        seconds = time.perf_counter() - begin
        return answer

    room = with_room(numbered, placed.batch, len(offsets) - 1, method == "aggressive", run_method)
    raw, moments = room.said(numbered)
    back = moments <= a.TAKEN_BACK
    at = np.where(back, a.TAKEN_BACK - moments, moments)
    ids = events.identity[placed.order[raw.positions.reshape(len(raw), -1)]]
    return Course(seconds, int(room.work[a.H_PEAK]), ids, np.append(come, come[-1])[at], back)


def _types(numbered: Any) -> dict[str, int]:
    names = sorted({step.kind.name for step in numbered.pattern.pattern.steps})
    return {name: i for i, name in enumerate(names)}
