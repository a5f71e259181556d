"""The kernel that puts matches together from events in the order in which they arrive, whatever their times.

INFA-HTS of Wang, Wang, Cheng and Lu (KSII Transactions on Internet and Information Systems 10(9), 2016), mended where it
is printed wrongly. A pattern is a row of slots. Every key has a main node, which knows the slots that are filled and the
oldest time, and has a chain for each slot: its events in the order of time, linked both ways. An event goes into the
chains that it fits, from their ends, where most belong. When all slots of its key are filled, every match that has this
event, and beside it only such that came before, is found by walking the chains: so each match is found once, by the last
of its events to arrive. The paper counts events where it has to count slots, and never looks at the order of types.

What must not lie between two slots is looked for on the way. Where nothing else is asked of a match, it is one when it is
found. Others are followed once more by the machine of the sequence engine, which knows about conditions, absences and
windows, and sees only what has arrived. A match in which nothing is negated is certain when it is complete. Others wait,
in a heap, until time has passed what they negate, and are looked at again then. Where matches are told early, time is that
of the newest event; what was told is listed until it is certain, and taken back when an event comes that breaks it.
"""

from __future__ import annotations

from perseid.engines.sequence.completion import accepted_end, broken_before, write_match
from perseid.engines.sequence.epsilon_closure import epsilon_closure
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, Ints, compiled, entry
from perseid.engines.sequence.skip_index import first_at, last_event, next_event
from perseid.engines.sequence.thread_frame import bounds, clear_frame, fits, in_time, single_absence, take, window_end

# the head of the work space: what a pattern is like, where the parts of the space lie, and counters
(
    H_SLOTS, H_WINDOW, H_NEGATES, H_MAINS, H_LINKS, H_PICKS, H_HEAP, H_HEAP_END, H_MOMENTS, H_MOMENTS_END, H_NODES,
    H_WAITING, H_TOLD, H_CLOCK, H_MOMENT, H_PEAK, H_LIVE, H_SURE, H_BREAKS, H_LIST, H_LIST_END, H_LISTED, H_FREE, H_EARLY,
    H_STEPS, H_BETWEEN, H_PLAIN, H_DECIDES, H_SPENT,
) = range(29)  # fmt: skip
ASSEMBLY_HEAD = 29
"""Slots; the window; whether a match may have to wait; then where main nodes, links, picks, the heap and the moments
of matches begin (and end); how many nodes there are; how many matches wait; how many were told; the clock; the number of
the arrival; and the most nodes and matches that were held at once, and the nodes that are. Then up to when nothing can
come; the bits of events that can break a match; room for those that were told early; and whether any are. Then the steps
of slots; the bits of events that must not lie between a slot and the one before it, where bits say it all; whether they
and the slots decide all about a match; and, if so, the last slot before which something must not be (-1: none). Last, 1 + the key whose budget is used up."""
LINK_WIDTH = 3
K_EVENT, K_BEFORE, K_AFTER = range(3)
MAIN_HEAD = 8
N_FILLED, N_OLDEST, N_TOLD, N_BREAKERS, N_WORK, N_WORK_END, N_MATCHES, N_MATCHES_END = range(8)
NO_MATCH = NONE - 1
"""In place of the time from which a match is certain; NONE is from the start."""
TAKEN_BACK = -1
"""From here downwards, moments at which matches were taken back."""
WAITS = NONE
"""The moment of a match that is not told yet."""
WAIT_WIDTH = 5
W_DUE, W_KEY, W_NUMBER, W_PLACE, W_BREAKERS = range(5)


@compiled
def main_of(A: Ints, key: int) -> int:
    """Where a key's main node lies.

    It has the bits of slots that are filled, the oldest time, what was told, how many events came that may break a match,
    its search steps and matches with the limit of each, and both ends of each chain.
    """
    return int(A[H_MAINS] + key * (MAIN_HEAD + 2 * A[H_SLOTS]))


@compiled
def insert(A: Ints, main: int, slot: int, position: int) -> None:
    """Put an event into a chain, from its end."""
    ends = main + MAIN_HEAD + 2 * slot
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
    A[main + N_FILLED] |= 1 << slot


@compiled
def forget(M: Arrays, A: Ints, key: int) -> None:
    """Take events out of a key's chains that no event to come can be in a match with."""
    e, main = M.events, main_of(A, key)
    if A[H_SURE] == NONE or A[main + N_OLDEST] > A[H_SURE] - A[H_WINDOW]:
        return
    A[main + N_OLDEST] = FOREVER
    for slot in range(A[H_SLOTS]):
        ends = main + MAIN_HEAD + 2 * slot
        node = A[ends]
        while node >= 0 and e[E_TIME, A[node + K_EVENT]] <= A[H_SURE] - A[H_WINDOW]:
            node = A[node + K_AFTER]
            A[H_LIVE] -= 1
        if node >= 0:
            A[main + N_OLDEST] = min(A[main + N_OLDEST], e[E_TIME, A[node + K_EVENT]])
        if node != A[ends]:
            A[ends] = node
            if node >= 0:
                A[node + K_BEFORE] = -1
            else:
                A[ends + 1] = -1
                A[main + N_FILLED] &= ~(1 << slot)


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
        epsilon_closure(M, root, option)
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
    epsilon_closure(M, root, option)
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
def lay_down(M: Arrays, A: Ints, picks: int) -> int:
    """What :func:`certain_from` does for events that the search has shown to be a match of a plain row of slots."""
    e, w = M.events, M.space
    w[w[A_FRAMES] + M.tables[S_FRAME] + COUNT] = A[H_SLOTS]
    for slot in range(A[H_SLOTS]):
        taken = w[A_TAKEN] + TAKEN_WIDTH * slot
        w[taken + K_STEP] = A[A[H_STEPS] + slot]
        w[taken + K_POSITION] = A[picks + slot]
    A[picks + A[H_SLOTS]] = e[E_TIME, A[picks + A[H_SLOTS] - 1]]
    return int(e[E_TIME, A[picks + A[H_DECIDES]]] if A[H_DECIDES] >= 0 else NONE)


# Matches that were told before they were certain: a list for each key, of rows of due, the next row, then the picks


@compiled
def enlist(A: Ints, due: int, key: int, picks: int) -> bool:
    """Remember a match that was told, where it may have to be taken back; False where there is no room."""
    if not A[H_EARLY] or due <= A[H_SURE]:
        return True
    row = A[H_FREE]
    if row >= 0:
        A[H_FREE] = A[row + 1]
    else:
        row = A[H_LIST]
        if row + 2 + A[H_SLOTS] > A[H_LIST_END]:
            return False
        A[H_LIST] += 2 + A[H_SLOTS]
    first = main_of(A, key) + N_TOLD
    A[row] = due
    A[row + 1] = A[first]
    for k in range(A[H_SLOTS]):
        A[row + 2 + k] = A[picks + k]
    A[first] = row
    A[H_LISTED] += 1
    A[H_PEAK] = max(A[H_PEAK], A[H_LIVE] + A[H_WAITING] + A[H_LISTED])
    return True


@compiled
def strike(A: Ints, link: int) -> None:
    """Take the row that a link leads to from its list."""
    row = A[link]
    A[link] = A[row + 1]
    A[row + 1] = A[H_FREE]
    A[H_FREE] = row
    A[H_LISTED] -= 1


@compiled
def write(M: Arrays, A: Ints, key: int, picks: int, moment: int) -> bool:
    """Write the match whose frame was followed last, and when that was; False where there is no room."""
    w = M.space
    main = main_of(A, key)
    A[main + N_MATCHES] += 1
    if A[main + N_MATCHES] > A[main + N_MATCHES_END]:
        A[H_SPENT] = 1 + key
        return False
    if A[H_MOMENTS] + A[H_TOLD] >= A[H_MOMENTS_END]:
        return False
    w[C_PARTITION] = key
    if not write_match(M, w[A_FRAMES] + M.tables[S_FRAME], 0, A[picks + A[H_SLOTS]]):
        return False
    A[A[H_MOMENTS] + A[H_TOLD]] = moment
    A[H_TOLD] += 1
    return True


@compiled
def tell(M: Arrays, A: Ints, due: int, key: int, picks: int) -> bool:
    """Tell the match that was followed last; False where there is no room."""
    return write(M, A, key, picks, A[H_MOMENT]) and enlist(A, due, key, picks)


@compiled
def may_break(A: Ints, picks: int, position: int, mask: int) -> bool:
    """False where an event does not lie between two slots of a plain row between which it must not."""
    if not A[H_PLAIN]:
        return True
    for slot in range(1, A[H_SLOTS]):
        if mask & A[A[H_BETWEEN] + slot] and A[picks + slot - 1] < position < A[picks + slot]:
            return True
    return False


@compiled
def take_back(M: Arrays, A: Ints, key: int, position: int, mask: int, end: int) -> bool:
    """Take back what an event breaks that is not seen yet; False where there is no room."""
    e, picks = M.events, A[H_PICKS]
    link = main_of(A, key) + N_TOLD
    while A[link] >= 0:
        row = A[link]
        broken = False
        if A[row] > A[H_SURE] and may_break(A, row + 2, position, mask):
            for k in range(A[H_SLOTS]):
                A[picks + k] = A[row + 2 + k]
            e[E_MASK, position] = mask
            broken = certain_from(M, A, picks, end) == NO_MATCH
            e[E_MASK, position] = 0
            if broken:
                certain_from(M, A, picks, end)
                if not write(M, A, key, picks, TAKEN_BACK - A[H_MOMENT]):
                    return False
        if broken or A[row] <= A[H_SURE]:
            strike(A, link)
        else:
            link = row + 1
    return True


# Matches that wait: a heap by the time from which they are certain. What they say is written when they are found


@compiled
def heap_row(A: Ints, i: int) -> int:
    return int(A[H_HEAP] + i * WAIT_WIDTH)


@compiled
def heap_swap(A: Ints, i: int, j: int) -> None:
    a, b = heap_row(A, i), heap_row(A, j)
    for k in range(WAIT_WIDTH):
        A[a + k], A[b + k] = A[b + k], A[a + k]


@compiled
def wait(M: Arrays, A: Ints, due: int, key: int, picks: int) -> bool:
    """Let the match wait that was followed last; False where there is no room."""
    i = A[H_WAITING]
    row = heap_row(A, i)
    if row + WAIT_WIDTH > A[H_HEAP_END]:
        return False
    A[row + W_DUE] = due
    A[row + W_KEY] = key
    A[row + W_NUMBER] = A[H_TOLD]
    A[row + W_PLACE] = M.space[C_OUT]
    A[row + W_BREAKERS] = A[main_of(A, key) + N_BREAKERS]
    if not write(M, A, key, picks, WAITS):
        return False
    A[H_WAITING] = i + 1
    A[H_PEAK] = max(A[H_PEAK], A[H_LIVE] + A[H_WAITING] + A[H_LISTED])
    while i > 0 and A[heap_row(A, (i - 1) // 2)] > A[heap_row(A, i)]:
        heap_swap(A, (i - 1) // 2, i)
        i = (i - 1) // 2
    return True


@compiled
def settle(M: Arrays, A: Ints, offsets: Ints) -> bool:
    """Tell the matches that have become certain; False where there is no room."""
    t, w, picks = M.tables, M.space, A[H_PICKS]
    while A[H_WAITING] > 0 and A[heap_row(A, 0)] <= A[H_CLOCK]:
        row = heap_row(A, 0)
        due, key, number = A[row + W_DUE], A[row + W_KEY], A[row + W_NUMBER]
        for k in range(A[H_SLOTS]):
            A[picks + k] = w[A[row + W_PLACE] + MATCH_HEAD + 2 * t[S_UNIFIED_COUNT] + 2 * k + 1]
        # Where nothing came that it negates there is nothing to look at again.
        stands = A[row + W_BREAKERS] == A[main_of(A, key) + N_BREAKERS]
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
        if stands or certain_from(M, A, picks, offsets[key + 1]) != NO_MATCH:
            A[A[H_MOMENTS] + number] = A[H_MOMENT]
            if not enlist(A, due, key, picks):
                return False
    return True


# Finding what an event completes


@compiled
def may_complete(A: Ints, key: int, slot: int, position: int) -> bool:
    """False where a slot is empty, or has nothing on the side of an event on which it has to lie."""
    main = main_of(A, key)
    if A[main + N_FILLED] != (1 << A[H_SLOTS]) - 1:
        return False
    # The last slot first: most events come in order, and nothing is there yet that is later.
    for other in range(A[H_SLOTS] - 1, slot, -1):
        if A[A[main + MAIN_HEAD + 2 * other + 1] + K_EVENT] <= position:
            return False
    for other in range(slot):
        if A[A[main + MAIN_HEAD + 2 * other] + K_EVENT] >= position:
            return False
    return True


@compiled
def complete(M: Arrays, A: Ints, key: int, slot: int, position: int, since: int, told: int, end: int) -> bool:
    """Every match that has this event in this slot, told or left to wait; False where there is no room.

    Nothing is said of those that were certain at ``since`` or early at ``told``: they were told then.
    """
    e = M.events
    slots, main, picks = A[H_SLOTS], main_of(A, key), A[H_PICKS]
    cursors = picks + slots + 1
    if not may_complete(A, key, slot, position):
        return True
    A[picks + slot] = position
    moment = e[E_TIME, position]
    if slot == A[H_DECIDES] and moment <= since:
        return True
    later = slots - 1 - slot
    level, entering = 0, True
    while level >= 0:
        A[main + N_WORK] += 1
        if A[main + N_WORK] > A[main + N_WORK_END]:
            A[H_SPENT] = 1 + key
            return False
        if level == slots - 1:
            due = lay_down(M, A, picks) if A[H_PLAIN] else certain_from(M, A, picks, end)
            if due > since:
                if due <= told:
                    if not enlist(A, due, key, picks):
                        return False
                elif due <= A[H_CLOCK] or due == NONE:
                    if not tell(M, A, due, key, picks):
                        return False
                elif not wait(M, A, due, key, picks):
                    return False
            level -= 1
            entering = False
            continue
        # Forwards from the event to the last slot, where there is least, then backwards from it to the first.
        target = slot + 1 + level if level < later else slots - 2 - level
        node = A[main + MAIN_HEAD + 2 * target + 1] if entering else A[A[cursors + target] + K_BEFORE]
        if target > slot:
            while node >= 0 and e[E_TIME, A[node + K_EVENT]] > moment + A[H_WINDOW]:
                node = A[node + K_BEFORE]
            absent = A[A[H_BETWEEN] + target]
            if absent and entering and node >= 0:
                first = next_event(M, A[picks + target - 1] + 1, A[node + K_EVENT], absent)
                while node >= 0 and A[node + K_EVENT] > first:
                    node = A[node + K_BEFORE]
            found = node >= 0 and A[node + K_EVENT] > A[picks + target - 1]
        else:
            while node >= 0 and A[node + K_EVENT] >= A[picks + target + 1]:
                node = A[node + K_BEFORE]
            found = node >= 0 and e[E_TIME, A[picks + slots - 1]] - e[E_TIME, A[node + K_EVENT]] <= A[H_WINDOW]
            absent = A[A[H_BETWEEN] + target + 1]
            if absent and found:
                # Up to the one before this nothing was in the way, but it may be itself.
                upto = A[picks + target + 1] if entering else A[picks + target] + 1
                low = A[node + K_EVENT] + 1
                found = last_event(M, low, upto, absent) < low
        if found and target == A[H_DECIDES]:
            found = e[E_TIME, A[node + K_EVENT]] > since
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
def arrive(M: Arrays, A: Ints, key: int, position: int, mask: int, fitting: int) -> None:
    """Let an event be seen, and put it into the chains of the slots that it fits."""
    M.events[E_MASK, position] = mask
    main, slot = main_of(A, key), 0
    if mask & A[H_BREAKS]:
        A[main + N_BREAKERS] += 1
    if fitting:
        A[main + N_OLDEST] = min(A[main + N_OLDEST], M.events[E_TIME, position])
    while fitting:
        if fitting & 1:
            insert(A, main, slot, position)
        fitting >>= 1
        slot += 1


@compiled
def completed(M: Arrays, A: Ints, key: int, position: int, fitting: int, end: int) -> bool:
    """Every match that an event which has just come completes; False where there is no room."""
    slot = 0
    while fitting:
        if fitting & 1 and not complete(M, A, key, slot, position, NO_MATCH, NO_MATCH, end):
            return False
        fitting >>= 1
        slot += 1
    return True


@entry
def assemble(
    M: Arrays, A: Ints, offsets: Ints, keys: Ints, arrival: Ints, masks: Ints, fitting: Ints, kept: int, since: int,
    told: int, clocks: Ints, sure: Ints,
) -> int:  # fmt: skip
    """Events one after the other as they arrive; GOES_ON, or FULL to be asked again from the start with more room.

    ``masks`` and ``fitting`` say what an event is, when it is seen, and the slots it fits by itself. The first ``kept`` of
    them came in earlier calls, when nothing up to ``since`` could come any more, and what was due at ``told`` had been
    told: of what they make without others only the rest is told. ``clocks`` says what is due at each arrival, and after
    the last, and ``sure`` up to when nothing can come.
    """
    A[H_CLOCK] = told
    A[H_SURE] = since
    for i in range(kept):
        position = arrival[i]
        arrive(M, A, keys[position], position, masks[position], fitting[position])
    if A[H_NEGATES]:
        # What waited then waits again: whole matches have one event each in the last slot.
        last = A[H_SLOTS] - 1
        for i in range(kept):
            position = arrival[i]
            key = keys[position]
            if (fitting[position] >> last) & 1 and not complete(
                M, A, key, last, position, since, told, offsets[key + 1]
            ):
                return FULL
    for i in range(kept, len(arrival)):
        position = arrival[i]
        key = keys[position]
        A[H_MOMENT] = i
        A[H_SURE] = sure[i]
        if (
            A[H_LISTED]
            and masks[position] & A[H_BREAKS]
            and not take_back(M, A, key, position, masks[position], offsets[key + 1])
        ):
            return FULL
        forget(M, A, key)
        arrive(M, A, key, position, masks[position], fitting[position])
        if clocks[i] != A[H_CLOCK]:
            A[H_CLOCK] = clocks[i]
            if not settle(M, A, offsets):
                return FULL
        if not completed(M, A, key, position, fitting[position], offsets[key + 1]):
            return FULL
    A[H_MOMENT] = len(arrival)
    A[H_CLOCK] = clocks[len(arrival)]
    A[H_SURE] = sure[len(arrival)]
    return GOES_ON if settle(M, A, offsets) else FULL
