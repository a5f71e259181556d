"""The kernel that puts matches together from events in the order in which they arrive, whatever their times.

INFA-HTS of Wang, Wang, Cheng and Lu (KSII Transactions on Internet and Information Systems 10(9), 2016), mended where it
is printed wrongly. A pattern is a row of slots. Every key has a main node, which knows the slots that are filled and has
a chain for each of them: its events in the order of time, linked both ways. An event goes into the chains that it fits,
from their ends, where most belong. When all slots of its key are filled, every match that has this event, and beside it
only such that came before, is found by walking the chains: so each match is found once, by the last of its events to
arrive. The paper counts events where it has to count slots, and never looks at the order of types.

What is found is followed once more by the machine of the sequence engine, which knows about conditions, absences and
windows, and sees only what has arrived. A match in which nothing is negated is certain when it is complete. Others wait,
in a heap, until time has passed what they negate, and are looked at again then.
"""

from __future__ import annotations

from perseid.engines.sequence.endings import accepted_end, broken_before, write_match
from perseid.engines.sequence.frames import bounds, clear_frame, fits, in_time, single_absence, take, window_end
from perseid.engines.sequence.jumps import first_at
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, Ints, compiled, entry
from perseid.engines.sequence.options import options

# the head of the work space: what a pattern is like, where the parts of the space lie, and counters
(
    H_SLOTS, H_WINDOW, H_NEGATES, H_STEPS, H_MAINS, H_LINKS, H_PICKS, H_HEAP, H_HEAP_END, H_MOMENTS, H_MOMENTS_END, H_NODES,
    H_WAITING, H_TOLD, H_CLOCK, H_MOMENT, H_PEAK, H_LIVE,
) = range(18)  # fmt: skip
ASSEMBLY_HEAD = 18
"""Slots; the window; whether a match may have to wait; then where steps, main nodes, links, picks, the heap and the moments
of matches begin (and end); how many nodes there are; how many matches wait; how many were told; the clock; the number of
the arrival; and the most nodes and waiting matches that there were at once, and are."""
LINK_WIDTH = 3
K_EVENT, K_BEFORE, K_AFTER = range(3)
NO_MATCH = NONE - 1
"""In place of the time from which a match is certain; NONE is from the start."""


@compiled
def main_of(A: Ints, key: int) -> int:
    """Where a key's main node lies: the bits of slots that are filled, then first and last node of each chain."""
    return int(A[H_MAINS] + key * (1 + 2 * A[H_SLOTS]))


@compiled
def insert(A: Ints, key: int, slot: int, position: int) -> None:
    """Put an event into a chain, from its end."""
    main = main_of(A, key)
    ends = main + 1 + 2 * slot
    node = A[H_LINKS] + LINK_WIDTH * A[H_NODES]
    A[H_NODES] += 1
    A[H_LIVE] += 1
    A[H_PEAK] = max(A[H_PEAK], A[H_LIVE])
    A[node + K_EVENT] = position
    later, earlier = -1, A[ends + 1]
    while earlier >= 0 and A[earlier + K_EVENT] > position:
        later = earlier
        earlier = A[earlier + K_BEFORE]
    A[node + K_BEFORE] = earlier
    A[node + K_AFTER] = later
    if earlier >= 0:
        A[earlier + K_AFTER] = node
    else:
        A[ends] = node
    if later >= 0:
        A[later + K_BEFORE] = node
    else:
        A[ends + 1] = node
    A[main] |= 1 << slot


@compiled
def forget(M: Arrays, A: Ints, key: int) -> None:
    """Take events out of a key's chains that no event to come can be in a match with."""
    e = M.events
    if A[H_CLOCK] == NONE:
        return
    main = main_of(A, key)
    for slot in range(A[H_SLOTS]):
        ends = main + 1 + 2 * slot
        node = A[ends]
        while node >= 0 and e[E_TIME, A[node + K_EVENT]] <= A[H_CLOCK] - A[H_WINDOW]:
            node = A[node + K_AFTER]
            A[H_LIVE] -= 1
        if node != A[ends]:
            A[ends] = node
            if node >= 0:
                A[node + K_BEFORE] = -1
            else:
                A[ends + 1] = -1
                A[main] &= ~(1 << slot)


@compiled
def certain_from(M: Arrays, A: Ints, picks: int, end: int) -> int:
    """Follow the events of a match through the pattern: the time from which it is certain, or NO_MATCH.

    The frame of the match is left where the machine's frames begin, its end in the word after the picks.
    """
    t, e, w = M.tables, M.events, M.space
    width = t[S_FRAME]
    root = w[A_FRAMES]
    option = root + width
    clear_frame(M, root)
    w[root + PC] = t[S_CODE]
    w[root + TOTALS] = 1
    w[C_TOTALS] = 2
    start = A[picks]
    due = NONE
    for slot in range(A[H_SLOTS]):
        options(M, root, option)
        step, position = w[option + STEP], A[picks + slot]
        if slot:
            bounds(M, option, start, end, False)
            moment = e[E_TIME, position]
            if moment > w[option + CLOSING] or position >= w[option + HIGH] or not in_time(M, option, moment):
                return NO_MATCH
            if w[option + WATCHES]:
                due = moment
                w[option + BROKEN] = -1
                if broken_before(M, option, position, start, end, False) < position:
                    return NO_MATCH
        if not fits(M, option, step, position) or take(M, option, step, position, root) != 1:
            return NO_MATCH
    options(M, root, option)
    closes = accepted_end(M, option, start)
    if closes == NONE:
        return NO_MATCH
    for k in range(w[option + WATCHES]):
        watch = option + t[S_WATCHES] + k * WATCH_WIDTH
        until = w[watch + W_UNTIL]
        limit = window_end(M, start) if until == NONE else until
        low = w[watch + W_POSITION] + 1
        high = end if limit == FOREVER else first_at(M, low, end, limit + 1)
        step = t[t[S_PROGRAMS] + 2 * w[watch + W_PROGRAM] + 1]
        if single_absence(M, option, w[watch + W_SINCE], step, low, high) < high:
            return NO_MATCH
        due = max(due, limit)
    A[picks + A[H_SLOTS]] = closes
    return due


@compiled
def tell(M: Arrays, A: Ints, key: int, end: int) -> bool:
    """Write the match whose frame was followed last; False where there is no room."""
    w = M.space
    if A[H_MOMENTS] + A[H_TOLD] >= A[H_MOMENTS_END]:
        return False
    w[C_PARTITION] = key
    if not write_match(M, w[A_FRAMES] + M.tables[S_FRAME], 0, end):
        return False
    A[A[H_MOMENTS] + A[H_TOLD]] = A[H_MOMENT]
    A[H_TOLD] += 1
    return True


# Matches that wait: a heap by the time from which they are certain


@compiled
def heap_row(A: Ints, i: int) -> int:
    """A row of the heap: due, key, then the picks."""
    return int(A[H_HEAP] + i * (2 + A[H_SLOTS]))


@compiled
def heap_swap(A: Ints, i: int, j: int) -> None:
    a, b = heap_row(A, i), heap_row(A, j)
    for k in range(2 + A[H_SLOTS]):
        A[a + k], A[b + k] = A[b + k], A[a + k]


@compiled
def wait(A: Ints, due: int, key: int, picks: int) -> bool:
    """Let a match wait; False where there is no room."""
    i = A[H_WAITING]
    row = heap_row(A, i)
    if row + 2 + A[H_SLOTS] > A[H_HEAP_END]:
        return False
    A[row] = due
    A[row + 1] = key
    for k in range(A[H_SLOTS]):
        A[row + 2 + k] = A[picks + k]
    A[H_WAITING] = i + 1
    A[H_PEAK] = max(A[H_PEAK], A[H_LIVE] + A[H_WAITING])
    while i > 0 and A[heap_row(A, (i - 1) // 2)] > A[heap_row(A, i)]:
        heap_swap(A, (i - 1) // 2, i)
        i = (i - 1) // 2
    return True


@compiled
def settle(M: Arrays, A: Ints, offsets: Ints) -> bool:
    """Tell the matches that have become certain; False where there is no room."""
    picks = A[H_PICKS]
    while A[H_WAITING] > 0 and A[heap_row(A, 0)] <= A[H_CLOCK]:
        row = heap_row(A, 0)
        key = A[row + 1]
        for k in range(A[H_SLOTS]):
            A[picks + k] = A[row + 2 + k]
        A[H_WAITING] -= 1
        heap_swap(A, 0, A[H_WAITING])
        i = 0
        while True:
            least = i
            for child in range(2 * i + 1, min(2 * i + 3, A[H_WAITING])):
                if A[heap_row(A, child)] < A[heap_row(A, least)]:
                    least = child
            if least == i:
                break
            heap_swap(A, i, least)
            i = least
        if certain_from(M, A, picks, offsets[key + 1]) != NO_MATCH and not tell(M, A, key, A[picks + A[H_SLOTS]]):
            return False
    return True


# Finding what an event completes


@compiled
def complete(M: Arrays, A: Ints, key: int, slot: int, position: int, since: int, end: int) -> bool:
    """Every match that has this event in this slot, told or left to wait; False where there is no room.

    Nothing is said of those that were certain at ``since``: they were told then.
    """
    e = M.events
    slots, main, picks = A[H_SLOTS], main_of(A, key), A[H_PICKS]
    cursors = picks + slots + 1
    if A[main] != (1 << slots) - 1:
        return True
    A[picks + slot] = position
    moment = e[E_TIME, position]
    level, entering = 0, True
    while level >= 0:
        if level == slots - 1:
            due = certain_from(M, A, picks, end)
            if due > since:
                if due <= A[H_CLOCK] or due == NONE:
                    if not tell(M, A, key, A[picks + slots]):
                        return False
                elif not wait(A, due, key, picks):
                    return False
            level -= 1
            entering = False
            continue
        # Backwards from the event to the first slot, then forwards from it to the last.
        target = slot - 1 - level if level < slot else level + 1
        node = A[main + 2 + 2 * target] if entering else A[A[cursors + target] + K_BEFORE]
        if target < slot:
            while node >= 0 and A[node + K_EVENT] >= A[picks + target + 1]:
                node = A[node + K_BEFORE]
            found = node >= 0 and moment - e[E_TIME, A[node + K_EVENT]] <= A[H_WINDOW]
        else:
            closing = e[E_TIME, A[picks]] + A[H_WINDOW]
            while node >= 0 and e[E_TIME, A[node + K_EVENT]] > closing:
                node = A[node + K_BEFORE]
            found = node >= 0 and A[node + K_EVENT] > A[picks + target - 1]
        if not found:
            level -= 1
            entering = False
            continue
        A[cursors + target] = node
        A[picks + target] = A[node + K_EVENT]
        level += 1
        entering = True
    return True


@compiled
def fitting(M: Arrays, A: Ints, position: int) -> int:
    """The bits of slots that an event fits by itself."""
    t, e = M.tables, M.events
    found = 0
    for slot in range(A[H_SLOTS]):
        row = t[S_STEP_TABLE] + A[A[H_STEPS] + slot] * STEP_WIDTH
        if (e[E_MASK, position] >> t[row + ST_BIT]) & 1 and (
            t[row + ST_MUST_BIT] < 0 or (e[E_MUST, position] >> t[row + ST_MUST_BIT]) & 1
        ):
            found |= 1 << slot
    return found


@compiled
def arrive(M: Arrays, A: Ints, key: int, position: int, masks: Ints) -> int:
    """Let an event be seen, and put it where it belongs; the bits of the slots it fits."""
    M.events[E_MASK, position] = masks[position]
    slots = fitting(M, A, position)
    for slot in range(A[H_SLOTS]):
        if (slots >> slot) & 1:
            insert(A, key, slot, position)
    return slots


@entry
def assemble(
    M: Arrays, A: Ints, offsets: Ints, keys: Ints, arrival: Ints, masks: Ints, kept: int, since: int, clocks: Ints
) -> int:
    """Events one after the other as they arrive; GOES_ON, or FULL to be asked again from the start with more room.

    The first ``kept`` of them came in earlier calls, when time stood at ``since``: of what they make without others only
    that is told which was not certain then. ``clocks`` says how far time is known at each arrival, and after the last.
    """
    A[H_CLOCK] = since
    for i in range(kept):
        arrive(M, A, keys[arrival[i]], arrival[i], masks)
    if A[H_NEGATES]:
        # What waited then waits again: whole matches have one event each in the last slot.
        last = A[H_SLOTS] - 1
        for i in range(kept):
            key = keys[arrival[i]]
            if (fitting(M, A, arrival[i]) >> last) & 1 and not complete(
                M, A, key, last, arrival[i], since, offsets[key + 1]
            ):
                return FULL
    for i in range(kept, len(arrival)):
        position = arrival[i]
        key = keys[position]
        A[H_MOMENT] = i
        if clocks[i] != A[H_CLOCK]:
            A[H_CLOCK] = clocks[i]
            if not settle(M, A, offsets):
                return FULL
        forget(M, A, key)
        slots = arrive(M, A, key, position, masks)
        for slot in range(A[H_SLOTS]):
            if (slots >> slot) & 1 and not complete(M, A, key, slot, position, NO_MATCH, offsets[key + 1]):
                return FULL
    A[H_MOMENT] = len(arrival)
    A[H_CLOCK] = clocks[len(arrival)]
    return GOES_ON if settle(M, A, offsets) else FULL
