"""Baseline matcher: active instance stacks with depth-first sequence construction, in order and out of order.

SASE (Wu, Diao and Rizvi, SIGMOD 2006) keeps a stack of events for each step of a sequence. An instance on a stack points to
the most recent instance of the previous stack (RIP) at the time it was pushed, so that a depth-first search from the last
step finds all matches. Li, Liu, Ding, Rundensteiner and Mani (ICDCS Workshops 2007; ICDE 2009) extend it to streams out of
order: a late event is inserted at its place in the sorted stack, and pointers of the next stack that skip it are adjusted.
Paper 4 compares INFA-HTS with K-slack, conservative and aggressive processing over such stacks.

The implementation is tuned like the shared search of :mod:`bench.disorder.methods`. Stacks are partitioned by key and
contiguous in memory. The window prunes every level of the search. A negated type has a stack of its own, and each
instance after it points to the last negated event before it, so a negation is checked in constant time and also prunes.
Output records are written by the same function as those of the shared search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.disorder.heap import FACTOR, pop, push
from perseid.engines.disorder import assembly as a
from perseid.engines.disorder.assembly import fill_frame, write_with_moment
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, Ints, compiled, entry

S_BASE, S_BOTTOM, S_TOP = range(3)
STACK_WIDTH = 3
"""Words of a stack: first entry in the arena; index of the oldest live instance; index after the newest."""
I_EVENT, I_PREVIOUS, I_NEGATED = range(3)
INSTANCE_WIDTH = 3
"""Words of an instance: position of the event; how many instances of the previous stack are earlier, and how many of the
stack of events that are negated before this step."""
NO_BOUND = FOREVER


def make_stacks(keys: Any, fitting: Any, negating: Any, slots: int) -> tuple[Any, Any, Any]:
    """Empty stacks, the arena of their instances, and the oldest live time of each key.

    Stack ``slot`` of a key holds events of a step. Stack ``slots + slot`` holds events negated before that step.
    """
    count = int(keys.max(initial=-1)) + 1
    sizes = np.zeros((count, 2 * slots), np.int64)
    for slot in range(slots):
        sizes[:, slot] = np.bincount(keys[(fitting >> slot) & 1 == 1], minlength=count)
        sizes[:, slots + slot] = np.bincount(keys[(negating >> slot) & 1 == 1], minlength=count)
    stacks = np.zeros((count * 2 * slots, STACK_WIDTH), np.int64)
    stacks[1:, S_BASE] = np.cumsum(sizes.ravel())[:-1]
    arena = np.zeros(INSTANCE_WIDTH * int(sizes.sum()) + INSTANCE_WIDTH, np.int64)
    return stacks.ravel(), arena, np.full(count, FOREVER, np.int64)


@compiled
def stack_of(A: Ints, key: int, stack: int) -> int:
    """Address of a stack of a key."""
    return int((key * 2 * A[a.H_SLOTS] + stack) * STACK_WIDTH)


@compiled
def instance(S: Ints, stack: int, index: int) -> int:
    """Address of an instance in the arena."""
    return int((S[stack + S_BASE] + index) * INSTANCE_WIDTH)


@compiled
def count_earlier(S: Ints, P: Ints, stack: int, position: int) -> int:
    """Index after the last instance of a stack that is earlier than an event; in order that is the top."""
    i = S[stack + S_TOP]
    while i > S[stack + S_BOTTOM] and P[instance(S, stack, i - 1)] >= position:
        i -= 1
    return int(i)


@compiled
def insert_instance(A: Ints, S: Ints, P: Ints, key: int, number: int, position: int) -> int:
    """Insert an event into a sorted stack and adjust the pointers to it; the index of its instance."""
    slots = A[a.H_SLOTS]
    stack = stack_of(A, key, number)
    i = S[stack + S_TOP]
    S[stack + S_TOP] = i + 1
    while i > S[stack + S_BOTTOM] and P[instance(S, stack, i - 1)] > position:
        low = instance(S, stack, i - 1)
        for k in range(INSTANCE_WIDTH):
            P[low + INSTANCE_WIDTH + k] = P[low + k]
        i -= 1
    at = instance(S, stack, i)
    P[at + I_EVENT] = position
    following, word = number + 1, I_PREVIOUS
    if number < slots:
        if number > 0:
            P[at + I_PREVIOUS] = count_earlier(S, P, stack_of(A, key, number - 1), position)
        if A[A[a.H_BETWEEN] + number]:
            P[at + I_NEGATED] = count_earlier(S, P, stack_of(A, key, slots + number), position)
        A[a.H_LIVE] += 1
    else:
        following, word = number - slots, I_NEGATED
    if following < slots:
        stack = stack_of(A, key, following)
        k = S[stack + S_TOP] - 1
        while k >= S[stack + S_BOTTOM] and P[instance(S, stack, k)] > position:
            P[instance(S, stack, k) + word] += 1
            k -= 1
    return int(i)


@compiled
def evict(M: Arrays, A: Ints, S: Ints, P: Ints, oldest: Ints, key: int) -> None:
    """Remove events of a key that are too old for a match with any event to come."""
    e = M.events
    limit = A[a.H_COMPLETE_UPTO] - A[a.H_WINDOW]
    if A[a.H_COMPLETE_UPTO] == NONE or oldest[key] > limit:
        return
    oldest[key] = FOREVER
    for number in range(2 * A[a.H_SLOTS]):
        stack = stack_of(A, key, number)
        i, top = S[stack + S_BOTTOM], S[stack + S_TOP]
        while i < top and e[E_TIME, P[instance(S, stack, i)]] <= limit:
            i += 1
        if number < A[a.H_SLOTS]:
            A[a.H_LIVE] -= i - S[stack + S_BOTTOM]
        S[stack + S_BOTTOM] = i
        if i < top:
            oldest[key] = min(oldest[key], e[E_TIME, P[instance(S, stack, i)]])


@compiled
def construct(
    M: Arrays, A: Ints, S: Ints, P: Ints, key: int, slot: int, index: int, below: int, moment: int
) -> bool:  # fmt: skip
    """Write all matches that have this instance at this step, depth first; False if the output is full.

    The search goes forward to the last step, then backward along the pointers to the first. Only events before the
    position ``below`` are taken at the previous step: NO_BOUND, or a late negated event whose matches are retracted.
    """
    e = M.events
    slots, picks = A[a.H_SLOTS], A[a.H_PICKS]
    cursors = picks + slots + 1
    position = P[instance(S, stack_of(A, key, slot), index)]
    moment_of = e[E_TIME, position]
    for other in range(slots - 1, slot, -1):
        stack = stack_of(A, key, other)
        top = S[stack + S_TOP]
        if top == S[stack + S_BOTTOM] or P[instance(S, stack, top - 1)] <= position:
            return True
    for other in range(slot):
        stack = stack_of(A, key, other)
        if S[stack + S_TOP] == S[stack + S_BOTTOM] or P[instance(S, stack, S[stack + S_BOTTOM])] >= position:
            return True
    A[picks + slot] = position
    A[cursors + slot] = index
    later = slots - 1 - slot
    level, entering = 0, True
    while level >= 0:
        if level == slots - 1:
            fill_frame(M, A, picks)
            if not write_with_moment(M, A, key, picks, moment):
                return False
            level -= 1
            entering = False
            continue
        target = slot + 1 + level if level < later else slots - 2 - level
        stack = stack_of(A, key, target)
        bottom = S[stack + S_BOTTOM]
        found = False
        if target > slot:
            i = S[stack + S_TOP] - 1 if entering else A[cursors + target] - 1
            while i >= bottom and e[E_TIME, P[instance(S, stack, i)]] > moment_of + A[a.H_WINDOW]:
                i -= 1
            if A[A[a.H_BETWEEN] + target]:
                # An instance with a negated event after the previous step is skipped, and one before it is tried.
                negated = stack_of(A, key, slots + target)
                while i >= bottom and P[instance(S, stack, i)] > A[picks + target - 1]:
                    last = P[instance(S, stack, i) + I_NEGATED] - 1
                    if last < S[negated + S_BOTTOM] or P[instance(S, negated, last)] < A[picks + target - 1]:
                        break
                    i -= 1
            found = i >= bottom and P[instance(S, stack, i)] > A[picks + target - 1]
        else:
            after = instance(S, stack_of(A, key, target + 1), A[cursors + target + 1])
            i = P[after + I_PREVIOUS] - 1 if entering else A[cursors + target] - 1
            if target == slot - 1:
                while i >= bottom and P[instance(S, stack, i)] > below:
                    i -= 1
            if i >= bottom:
                event = P[instance(S, stack, i)]
                found = e[E_TIME, A[picks + slots - 1]] - e[E_TIME, event] <= A[a.H_WINDOW]
                if found and A[A[a.H_BETWEEN] + target + 1]:
                    negated = stack_of(A, key, slots + target + 1)
                    last = P[after + I_NEGATED] - 1
                    found = last < S[negated + S_BOTTOM] or P[instance(S, negated, last)] < event
        if not found:
            level -= 1
            entering = False
            continue
        A[cursors + target] = i
        A[picks + target] = P[instance(S, stack, i)]
        level += 1
        entering = True
    return True


@compiled
def insert_event(
    A: Ints, S: Ints, P: Ints, oldest: Ints, key: int, position: int, moment: int, fitting: int, negating: int
) -> None:  # fmt: skip
    """Insert an event into all stacks that it belongs to."""
    slots = A[a.H_SLOTS]
    oldest[key] = min(oldest[key], moment)
    for slot in range(slots):
        if (negating >> slot) & 1:
            insert_instance(A, S, P, key, slots + slot, position)
        if (fitting >> slot) & 1:
            insert_instance(A, S, P, key, slot, position)


@compiled
def construct_from_last(M: Arrays, A: Ints, S: Ints, P: Ints, key: int, position: int, moment: int) -> bool:
    """Write all matches that end with an event; False if the output is full."""
    last = A[a.H_SLOTS] - 1
    index = count_earlier(S, P, stack_of(A, key, last), position)
    return construct(M, A, S, P, key, last, index, NO_BOUND, moment)


@compiled
def compensate(
    M: Arrays, A: Ints, S: Ints, P: Ints, key: int, slot: int, position: int, moment: int
) -> bool:  # fmt: skip
    """Recompute and retract the matches that a negated event invalidates; it is not on its stack yet."""
    stack, negated = stack_of(A, key, slot), stack_of(A, key, A[a.H_SLOTS] + slot)
    i = S[stack + S_TOP] - 1
    while i >= S[stack + S_BOTTOM] and P[instance(S, stack, i)] > position:
        last = P[instance(S, stack, i) + I_NEGATED] - 1
        # Matches over an earlier negated event that lies between do not exist any more.
        if (last < S[negated + S_BOTTOM] or P[instance(S, negated, last)] < position) and not construct(
            M, A, S, P, key, slot, i, position, a.RETRACTION - moment
        ):
            return False
        i -= 1
    return True


@entry
def k_slack_stacks(
    M: Arrays, A: Ints, H: Ints, S: Ints, P: Ints, oldest: Ints, keys: Ints, arrival: Ints, fitting: Ints, negating: Ints,
    sure: Ints, unit: int, usage: Ints2,
) -> int:  # fmt: skip
    """Events are buffered until no earlier one can arrive, then pushed in order; the last step starts a search."""
    e = M.events
    last = A[a.H_SLOTS] - 1
    for i in range(len(arrival) + 1):
        if i < len(arrival):
            push(H, e[E_TIME, arrival[i]] // unit * FACTOR + arrival[i])
        while H[0] > 0 and e[E_TIME, H[1] % FACTOR] <= sure[i]:
            position = pop(H) % FACTOR
            key = keys[position]
            A[a.H_COMPLETE_UPTO] = e[E_TIME, position] - 1
            evict(M, A, S, P, oldest, key)
            insert_event(A, S, P, oldest, key, position, e[E_TIME, position], fitting[position], negating[position])
            if (fitting[position] >> last) & 1 and not construct_from_last(M, A, S, P, key, position, i):
                return FULL
        usage[0, i] = A[a.H_LIVE]
        usage[1, i] = H[0]
    return CONTINUE


@entry
def conservative_stacks(
    M: Arrays, A: Ints, H: Ints, S: Ints, P: Ints, oldest: Ints, keys: Ints, arrival: Ints, fitting: Ints, negating: Ints,
    sure: Ints, punctuations: Ints, unit: int, usage: Ints2,
) -> int:  # fmt: skip
    """Events are inserted on arrival; the last step starts a search when no earlier event can arrive.

    ``arrival`` has a punctuation as -1 minus the number of its type, and its time in ``sure``.
    """
    e = M.events
    last = A[a.H_SLOTS] - 1
    frontier = NONE
    for i in range(len(arrival) + 1):
        if i < len(arrival) and arrival[i] < 0:
            punctuations[-1 - arrival[i]] = max(punctuations[-1 - arrival[i]], sure[i])
            least = punctuations[0]
            for k in range(1, len(punctuations)):
                least = min(least, punctuations[k])
            frontier = max(frontier, least)
        else:
            A[a.H_COMPLETE_UPTO] = frontier
            frontier = max(frontier, sure[i])
            if i < len(arrival):
                position = arrival[i]
                key = keys[position]
                evict(M, A, S, P, oldest, key)
                insert_event(A, S, P, oldest, key, position, e[E_TIME, position], fitting[position], negating[position])
                if (fitting[position] >> last) & 1:
                    push(H, e[E_TIME, position] // unit * FACTOR + position)
        usage[0, i] = A[a.H_LIVE]
        usage[1, i] = H[0]
        while H[0] > 0 and e[E_TIME, H[1] % FACTOR] <= frontier:
            position = pop(H) % FACTOR
            if not construct_from_last(M, A, S, P, keys[position], position, i):
                return FULL
    return CONTINUE


@entry
def aggressive_stacks(
    M: Arrays, A: Ints, S: Ints, P: Ints, oldest: Ints, keys: Ints, arrival: Ints, fitting: Ints, negating: Ints, sure: Ints,
    usage: Ints2,
) -> int:  # fmt: skip
    """Every event starts a search on arrival; a late negated event retracts, by a search for what it invalidates."""
    e = M.events
    slots = A[a.H_SLOTS]
    for i in range(len(arrival)):
        position = arrival[i]
        key = keys[position]
        A[a.H_COMPLETE_UPTO] = sure[i]
        evict(M, A, S, P, oldest, key)
        oldest[key] = min(oldest[key], e[E_TIME, position])
        for slot in range(slots):
            if (negating[position] >> slot) & 1:
                if not compensate(M, A, S, P, key, slot, position, i):
                    return FULL
                insert_instance(A, S, P, key, slots + slot, position)
        for slot in range(slots):
            if (fitting[position] >> slot) & 1:
                index = insert_instance(A, S, P, key, slot, position)
                if not construct(M, A, S, P, key, slot, index, NO_BOUND, i):
                    return FULL
        usage[0, i] = A[a.H_LIVE]
    return CONTINUE
