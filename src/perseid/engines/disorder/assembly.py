"""The kernel that assembles matches from events in arrival order, independent of their timestamps.

INFA-HTS of Wang, Wang, Cheng and Lu (KSII Transactions on Internet and Information Systems 10(9), 2016), corrected:
the paper counts events where it has to count slots, and never checks the order of types. A pattern is a sequence of
slots. Every key has a main node with the bits of filled slots, the oldest time, and a chain per slot: a doubly linked
list of its events in time order. An event is inserted into the chains that it fits, from the tail, where most belong.
When all slots of its key are filled, a walk over the chains finds every match of this event with events that arrived
before it. So each match is found once, on arrival of the last of its events.

The walk checks the negations between two slots. In a plain pattern the result is a match. Otherwise the automaton of the
sequence engine validates it: predicates, negations and windows, over the events that have arrived. A match without
negations is final when it is complete. Others are pending in a heap until time has passed the scopes of their negations,
and are then validated again. With early output, time is that of the newest event; an emitted match is listed until it is
final, and retracted when a late event breaks it.
"""

from __future__ import annotations

from perseid.engines.sequence.completion import accepted_end, broken_before, write_match
from perseid.engines.sequence.epsilon_closure import epsilon_closure
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, Ints, compiled, entry
from perseid.engines.sequence.skip_index import first_at, last_event, next_event
from perseid.engines.sequence.thread_frame import bounds, clear_frame, fits, in_time, single_absence, take, window_end

# the head of the work space: properties of the pattern, offsets of the parts, and counters
(
    H_SLOTS, H_WINDOW, H_NEGATES, H_MAINS, H_LINKS, H_PICKS, H_HEAP, H_HEAP_END, H_MOMENTS, H_MOMENTS_END, H_NODES,
    H_PENDING, H_WRITTEN, H_DUE_UPTO, H_MOMENT, H_PEAK, H_LIVE, H_COMPLETE_UPTO, H_BREAKS, H_LIST, H_LIST_END, H_LISTED,
    H_FREE, H_EARLY, H_STEPS, H_BETWEEN, H_PLAIN, H_DECIDES, H_SPENT,
) = range(29)  # fmt: skip
ASSEMBLY_HEAD = 29
"""Number of slots; the window; whether the pattern has negations; offsets of main nodes, links, picks, heap and its end,
moments of matches and their end; number of nodes allocated; of pending matches; of matches written; the time up to which
matches are due; the arrival index (or number of arrivals after the last); the peak of live nodes, pending and listed
matches; the live nodes; the time up to which the input is complete; the bits of events that can break a match; the next
free offset of the list of early matches and its end; the listed matches; the head of its free list (-1: none); whether
output is early; offset of the steps of slots; offset of the bits of events negated between a slot and the one before it
(0: not decided by bits); whether the pattern is plain, so that bits and the window decide a match; if so, the last slot
with a negation before it (-1: none). Last, 1 + the key that exhausted its budget."""
LINK_WIDTH = 3
K_EVENT, K_BEFORE, K_AFTER = range(3)
MAIN_HEAD = 8
N_FILLED, N_OLDEST, N_EARLY, N_BREAKERS, N_WORK, N_WORK_END, N_MATCHES, N_MATCHES_END = range(8)
NO_MATCH = NONE - 1
"""In place of the time from which a match is final; NONE: final when complete."""
RETRACTION = -1
"""The moment of a retraction is this minus the arrival index, so at most this."""
PENDING = NONE
"""The moment of a pending match."""
PENDING_WIDTH = 5
W_DUE, W_KEY, W_NUMBER, W_OUTPUT, W_BREAKERS = range(5)


@compiled
def main_of(A: Ints, key: int) -> int:
    """Return the offset of a key's main node.

    Layout: bits of filled slots, oldest time, head of the list of early matches, number of events that may break a match,
    search steps and their limit, matches and their limit, then head and tail of each chain.
    """
    return int(A[H_MAINS] + key * (MAIN_HEAD + 2 * A[H_SLOTS]))


@compiled
def insert(A: Ints, main: int, slot: int, position: int) -> None:
    """Insert an event into a chain in time order, scanning from the tail."""
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
def evict(M: Arrays, A: Ints, key: int) -> None:
    """Evict events from a key's chains that are outside the window of any future event."""
    e, main = M.events, main_of(A, key)
    if A[H_COMPLETE_UPTO] == NONE or A[main + N_OLDEST] > A[H_COMPLETE_UPTO] - A[H_WINDOW]:
        return
    A[main + N_OLDEST] = FOREVER
    for slot in range(A[H_SLOTS]):
        ends = main + MAIN_HEAD + 2 * slot
        node = A[ends]
        while node >= 0 and e[E_TIME, A[node + K_EVENT]] <= A[H_COMPLETE_UPTO] - A[H_WINDOW]:
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
def validate_match(M: Arrays, A: Ints, picks: int, end: int) -> int:
    """Run the automaton over the events of a match: return the time from which it is final, or NO_MATCH.

    The frame of the match is left in the second of the automaton's frames, its end time in the word after the picks.
    """
    t, e, w = M.tables, M.events, M.space
    width = t[S_FRAME]
    root = w[A_FRAMES]
    branch = root + width
    clear_frame(M, root)
    w[root + PC] = t[S_CODE]
    w[root + TOTALS] = 1
    w[C_TOTALS] = 2
    start = A[picks]
    due = NONE
    for slot in range(A[H_SLOTS]):
        epsilon_closure(M, root, branch)
        step, position = w[branch + STEP], A[picks + slot]
        if slot:
            bounds(M, branch, start, end, False)
            moment = e[E_TIME, position]
            if moment > w[branch + CLOSING] or position >= w[branch + HIGH] or not in_time(M, branch, moment):
                return NO_MATCH
            if w[branch + WATCHES]:
                due = moment
                w[branch + BROKEN] = -1
                if broken_before(M, branch, position, start, end, False) < position:
                    return NO_MATCH
        if not fits(M, branch, step, position) or take(M, branch, step, position, root) != 1:
            return NO_MATCH
    epsilon_closure(M, root, branch)
    closes = accepted_end(M, branch, start)
    if closes == NONE:
        return NO_MATCH
    for k in range(w[branch + WATCHES]):
        watch = branch + t[S_WATCHES] + k * WATCH_WIDTH
        until = w[watch + W_UNTIL]
        limit = window_end(M, start) if until == NONE else until
        low = w[watch + W_POSITION] + 1
        high = end if limit == FOREVER else first_at(M, low, end, limit + 1)
        step = t[t[S_PROGRAMS] + 2 * w[watch + W_PROGRAM] + 1]
        if single_absence(M, branch, w[watch + W_SINCE], step, low, high) < high:
            return NO_MATCH
        due = max(due, limit)
    A[picks + A[H_SLOTS]] = closes
    return due


@compiled
def fill_frame(M: Arrays, A: Ints, picks: int) -> int:
    """Fill the frame as :func:`validate_match` does, without checks, for a match of a plain slot sequence."""
    e, w = M.events, M.space
    w[w[A_FRAMES] + M.tables[S_FRAME] + COUNT] = A[H_SLOTS]
    for slot in range(A[H_SLOTS]):
        taken = w[A_TAKEN] + TAKEN_WIDTH * slot
        w[taken + K_STEP] = A[A[H_STEPS] + slot]
        w[taken + K_POSITION] = A[picks + slot]
    A[picks + A[H_SLOTS]] = e[E_TIME, A[picks + A[H_SLOTS] - 1]]
    return int(e[E_TIME, A[picks + A[H_DECIDES]]] if A[H_DECIDES] >= 0 else NONE)


# Matches emitted before they are final: a linked list per key, with rows of due time, next row, then the picks


@compiled
def list_early(A: Ints, due: int, key: int, picks: int) -> bool:
    """List an emitted match that may be retracted; False if the capacity is exhausted."""
    if not A[H_EARLY] or due <= A[H_COMPLETE_UPTO]:
        return True
    row = A[H_FREE]
    if row >= 0:
        A[H_FREE] = A[row + 1]
    else:
        row = A[H_LIST]
        if row + 2 + A[H_SLOTS] > A[H_LIST_END]:
            return False
        A[H_LIST] += 2 + A[H_SLOTS]
    first = main_of(A, key) + N_EARLY
    A[row] = due
    A[row + 1] = A[first]
    for k in range(A[H_SLOTS]):
        A[row + 2 + k] = A[picks + k]
    A[first] = row
    A[H_LISTED] += 1
    A[H_PEAK] = max(A[H_PEAK], A[H_LIVE] + A[H_PENDING] + A[H_LISTED])
    return True


@compiled
def unlink_early(A: Ints, link: int) -> None:
    """Unlink the row that a link points to, and add it to the free list."""
    row = A[link]
    A[link] = A[row + 1]
    A[row + 1] = A[H_FREE]
    A[H_FREE] = row
    A[H_LISTED] -= 1


@compiled
def write_with_moment(M: Arrays, A: Ints, key: int, picks: int, moment: int) -> bool:
    """Write the match in the current frame and its moment; False if the capacity or the key's budget is exhausted."""
    w = M.space
    main = main_of(A, key)
    A[main + N_MATCHES] += 1
    if A[main + N_MATCHES] > A[main + N_MATCHES_END]:
        A[H_SPENT] = 1 + key
        return False
    if A[H_MOMENTS] + A[H_WRITTEN] >= A[H_MOMENTS_END]:
        return False
    w[C_PARTITION] = key
    if not write_match(M, w[A_FRAMES] + M.tables[S_FRAME], 0, A[picks + A[H_SLOTS]]):
        return False
    A[A[H_MOMENTS] + A[H_WRITTEN]] = moment
    A[H_WRITTEN] += 1
    return True


@compiled
def emit_match(M: Arrays, A: Ints, due: int, key: int, picks: int) -> bool:
    """Emit the match in the current frame; False if the capacity or the key's budget is exhausted."""
    return write_with_moment(M, A, key, picks, A[H_MOMENT]) and list_early(A, due, key, picks)


@compiled
def may_break(A: Ints, picks: int, position: int, mask: int) -> bool:
    """Return True if an event may break a match: the pattern is not plain, or the event is negated between two picks."""
    if not A[H_PLAIN]:
        return True
    for slot in range(1, A[H_SLOTS]):
        if mask & A[A[H_BETWEEN] + slot] and A[picks + slot - 1] < position < A[picks + slot]:
            return True
    return False


@compiled
def retract_broken(M: Arrays, A: Ints, key: int, position: int, mask: int, end: int) -> bool:
    """Retract early matches that an arriving event breaks, before it is inserted; False if out of capacity or budget.

    Matches that have become final are removed from the list.
    """
    e, picks = M.events, A[H_PICKS]
    link = main_of(A, key) + N_EARLY
    while A[link] >= 0:
        row = A[link]
        broken = False
        if A[row] > A[H_COMPLETE_UPTO] and may_break(A, row + 2, position, mask):
            for k in range(A[H_SLOTS]):
                A[picks + k] = A[row + 2 + k]
            e[E_MASK, position] = mask
            broken = validate_match(M, A, picks, end) == NO_MATCH
            e[E_MASK, position] = 0
            if broken:
                validate_match(M, A, picks, end)
                if not write_with_moment(M, A, key, picks, RETRACTION - A[H_MOMENT]):
                    return False
        if broken or A[row] <= A[H_COMPLETE_UPTO]:
            unlink_early(A, link)
        else:
            link = row + 1
    return True


# Pending matches: a heap by the time from which they are final. Their rows are written when they are found


@compiled
def heap_row(A: Ints, i: int) -> int:
    return int(A[H_HEAP] + i * PENDING_WIDTH)


@compiled
def heap_swap(A: Ints, i: int, j: int) -> None:
    a, b = heap_row(A, i), heap_row(A, j)
    for k in range(PENDING_WIDTH):
        A[a + k], A[b + k] = A[b + k], A[a + k]


@compiled
def add_pending(M: Arrays, A: Ints, due: int, key: int, picks: int) -> bool:
    """Add the match in the current frame to the heap; False if the capacity or the key's budget is exhausted."""
    i = A[H_PENDING]
    row = heap_row(A, i)
    if row + PENDING_WIDTH > A[H_HEAP_END]:
        return False
    A[row + W_DUE] = due
    A[row + W_KEY] = key
    A[row + W_NUMBER] = A[H_WRITTEN]
    A[row + W_OUTPUT] = M.space[C_OUT]
    A[row + W_BREAKERS] = A[main_of(A, key) + N_BREAKERS]
    if not write_with_moment(M, A, key, picks, PENDING):
        return False
    A[H_PENDING] = i + 1
    A[H_PEAK] = max(A[H_PEAK], A[H_LIVE] + A[H_PENDING] + A[H_LISTED])
    while i > 0 and A[heap_row(A, (i - 1) // 2)] > A[heap_row(A, i)]:
        heap_swap(A, (i - 1) // 2, i)
        i = (i - 1) // 2
    return True


@compiled
def emit_due(M: Arrays, A: Ints, offsets: Ints) -> bool:
    """Emit the pending matches that are due; False if the capacity is exhausted."""
    t, w, picks = M.tables, M.space, A[H_PICKS]
    while A[H_PENDING] > 0 and A[heap_row(A, 0)] <= A[H_DUE_UPTO]:
        row = heap_row(A, 0)
        due, key, number = A[row + W_DUE], A[row + W_KEY], A[row + W_NUMBER]
        for k in range(A[H_SLOTS]):
            A[picks + k] = w[A[row + W_OUTPUT] + MATCH_HEAD + 2 * t[S_UNIFIED_COUNT] + 2 * k + 1]
        # Without new events of a negated kind the match needs no validation.
        is_unchanged = A[row + W_BREAKERS] == A[main_of(A, key) + N_BREAKERS]
        A[H_PENDING] -= 1
        heap_swap(A, 0, A[H_PENDING])
        i = 0
        while True:
            least = i
            for child in range(2 * i + 1, min(2 * i + 3, A[H_PENDING])):
                if A[heap_row(A, child)] < A[heap_row(A, least)]:
                    least = child
            if least == i:
                break
            heap_swap(A, i, least)
            i = least
        if is_unchanged or validate_match(M, A, picks, offsets[key + 1]) != NO_MATCH:
            A[A[H_MOMENTS] + number] = A[H_MOMENT]
            if not list_early(A, due, key, picks):
                return False
    return True


# Finding the matches that an event completes


@compiled
def may_complete(A: Ints, key: int, slot: int, position: int) -> bool:
    """Return False if a slot is empty or has no event on the required side of this event."""
    main = main_of(A, key)
    if A[main + N_FILLED] != (1 << A[H_SLOTS]) - 1:
        return False
    # The last slot first: most events arrive in order, so later slots have no later event yet.
    for other in range(A[H_SLOTS] - 1, slot, -1):
        if A[A[main + MAIN_HEAD + 2 * other + 1] + K_EVENT] <= position:
            return False
    for other in range(slot):
        if A[A[main + MAIN_HEAD + 2 * other] + K_EVENT] >= position:
            return False
    return True


@compiled
def complete_slot(
    M: Arrays, A: Ints, key: int, slot: int, position: int, since: int, emitted_upto: int, end: int
) -> bool:
    """Emit or enqueue every match with this event in this slot; False if the capacity or the key's budget is exhausted.

    Matches final at ``since`` are skipped, and those due at ``emitted_upto`` only listed: an earlier call emitted them.
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
            due = fill_frame(M, A, picks) if A[H_PLAIN] else validate_match(M, A, picks, end)
            if due > since:
                if due <= emitted_upto:
                    if not list_early(A, due, key, picks):
                        return False
                elif due <= A[H_DUE_UPTO] or due == NONE:
                    if not emit_match(M, A, due, key, picks):
                        return False
                elif not add_pending(M, A, due, key, picks):
                    return False
            level -= 1
            entering = False
            continue
        # Forward from the event to the last slot, where there are fewest candidates, then backward to the first.
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
                # The range up to the previous candidate was checked, but that event itself may be negated.
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
def add_event(M: Arrays, A: Ints, key: int, position: int, mask: int, fitting: int) -> None:
    """Make an event visible by setting its mask, and insert it into the chains of the slots that it fits."""
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
def complete_matches(M: Arrays, A: Ints, key: int, position: int, fitting: int, end: int) -> bool:
    """Find every match that a new event completes; False if the capacity or the key's budget is exhausted."""
    slot = 0
    while fitting:
        if fitting & 1 and not complete_slot(M, A, key, slot, position, NO_MATCH, NO_MATCH, end):
            return False
        fitting >>= 1
        slot += 1
    return True


@entry
def assemble(
    M: Arrays, A: Ints, offsets: Ints, keys: Ints, arrival: Ints, masks: Ints, fitting: Ints, old_count: int,
    since: int, emitted_upto: int, due_upto: Ints, complete_upto: Ints,
) -> int:  # fmt: skip
    """Process events in arrival order; return CONTINUE, or FULL to be restarted from the beginning with more capacity.

    ``masks`` are the predicate bits of each event, set on its arrival; ``fitting`` are the slots that it fits by itself.
    The first ``old_count`` events arrived in earlier calls, the last with watermark ``since``; matches of these events
    alone were emitted then if they were final at ``since`` or due at ``emitted_upto``. ``due_upto`` is the time up to
    which matches are due at each arrival and after the last, ``complete_upto`` that up to which the input is complete.
    """
    A[H_DUE_UPTO] = emitted_upto
    A[H_COMPLETE_UPTO] = since
    for i in range(old_count):
        position = arrival[i]
        add_event(M, A, keys[position], position, masks[position], fitting[position])
    if A[H_NEGATES]:
        # Rebuild the heap: every complete match has exactly one event in the last slot.
        last = A[H_SLOTS] - 1
        for i in range(old_count):
            position = arrival[i]
            key = keys[position]
            if (fitting[position] >> last) & 1 and not complete_slot(
                M, A, key, last, position, since, emitted_upto, offsets[key + 1]
            ):
                return FULL
    for i in range(old_count, len(arrival)):
        position = arrival[i]
        key = keys[position]
        A[H_MOMENT] = i
        A[H_COMPLETE_UPTO] = complete_upto[i]
        if (
            A[H_LISTED]
            and masks[position] & A[H_BREAKS]
            and not retract_broken(M, A, key, position, masks[position], offsets[key + 1])
        ):
            return FULL
        evict(M, A, key)
        add_event(M, A, key, position, masks[position], fitting[position])
        if due_upto[i] != A[H_DUE_UPTO]:
            A[H_DUE_UPTO] = due_upto[i]
            if not emit_due(M, A, offsets):
                return FULL
        if not complete_matches(M, A, key, position, fitting[position], offsets[key + 1]):
            return FULL
    A[H_MOMENT] = len(arrival)
    A[H_DUE_UPTO] = due_upto[len(arrival)]
    A[H_COMPLETE_UPTO] = complete_upto[len(arrival)]
    return CONTINUE if emit_due(M, A, offsets) else FULL
