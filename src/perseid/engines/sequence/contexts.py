"""Event contexts over arrays: which partial matches may use an event, as in :mod:`perseid.semantics.contexts`.

Partial matches are frames in a pool, in order of creation. The events of each are a linked list from the last one back,
which partial matches that extend one another share. On a stream, the next call rebuilds a partial match from its first
event. Under chronicle, immediate and recent that would need the events that others took, so it is stored instead.
"""

from __future__ import annotations

from perseid.engines.sequence.completion import accepted_end, begin_key, broken_before, stopped_by, write_match
from perseid.engines.sequence.conditions import add_to_totals
from perseid.engines.sequence.epsilon_closure import epsilon_closure
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, Ints, compiled, entry
from perseid.engines.sequence.partial_pool import (
    EXTENDED,
    L_BEFORE,
    L_BRANCH,
    L_POSITION,
    L_STEP,
    STARTED_AT,
    TAKEN_LIST,
    append_link,
    load_events,
    pool_size,
    totals_beyond,
    totals_place,
)
from perseid.engines.sequence.search import search, violates_leading_negation
from perseid.engines.sequence.search_record import push_negation
from perseid.engines.sequence.skip_index import first_at
from perseid.engines.sequence.thread_frame import (
    bounds,
    clear_frame,
    copy_totals,
    fits,
    high_of,
    in_time,
    lone_must,
    single_absence,
    stop_since,
    take,
    window_end,
)

RETAIN, DROP, COMPLETE, TIMED_OUT = 0, 1, 2, 3


@compiled
def occurs(M: Arrays, outer: int, low: int, high: int, program: int, since: int, horizon: int) -> int:
    """DECIDED if a negated group matches among these events, CONTINUE, or FULL; the memo of its search is dropped."""
    w = M.space
    saved_keys = w[C_KEYS]
    w[C_STARTED] += 1
    w[C_TOTALS] = totals_beyond(M)
    result = search(M, push_negation(M, -1, outer, program, low, high, since, horizon))
    w[C_KEYS] = saved_keys
    w[C_STARTED] += 1
    return result


@compiled
def violates_negation(M: Arrays, o: int, start: int, processed: int, end: int, now: int, horizon: int) -> int:
    """1 if the events so far violate a negation that the branch depends on; 0, or FULL."""
    t, w = M.tables, M.space
    last = w[o + LAST] + 1
    if not w[o + WATCHES]:
        return 0
    upto = processed
    if t[S_STRICTLY]:
        upto = min(processed, first_at(M, last, processed, now))
    if upto <= last:
        return 0
    w[o + BROKEN] = -1
    if broken_before(M, o, upto, start, end, False) < upto:
        return 1
    high = min(upto, high_of(M, o, start, end, False))
    for k in range(w[o + WATCHES]):
        watch = o + t[S_WATCHES] + k * WATCH_WIDTH
        program = w[watch + W_PROGRAM]
        if t[t[S_PROGRAMS] + 2 * program + 1] >= 0:
            continue
        limit = w[o + CLOSING]
        if w[watch + W_UNTIL] != NONE:
            limit = min(limit, w[watch + W_UNTIL])
        inside = high if limit == FOREVER else min(high, first_at(M, last, high, limit + 1))
        if inside > last:
            result = occurs(M, o, w[watch + W_POSITION] + 1, inside, program, w[watch + W_SINCE], horizon)
            if result != 0:
                return result
    return 0


@compiled
def stopped(M: Arrays, o: int, processed: int) -> bool:
    """True if an ``until`` event has ended the repetition that the branch would continue."""
    t, w = M.tables, M.space
    for k in range(w[o + UNTILS]):
        if stop_since(M, o, w[o + t[S_UNTILS] + k], w[o + LAST] + 1, processed) < processed:
            return True
    return False


@compiled
def violates_trailing_negation(M: Arrays, o: int, start: int, processed: int, horizon: int) -> int:
    """1 if the events so far violate a trailing negation; 0, or FULL."""
    t, w = M.tables, M.space
    for k in range(w[o + WATCHES]):
        watch = o + t[S_WATCHES] + k * WATCH_WIDTH
        program, until = w[watch + W_PROGRAM], w[watch + W_UNTIL]
        limit = window_end(M, start) if until == NONE else until
        low = w[watch + W_POSITION] + 1
        high = processed if limit == FOREVER else first_at(M, low, max(low, processed), limit + 1)
        single = t[t[S_PROGRAMS] + 2 * program + 1]
        if single >= 0:
            if single_absence(M, o, w[watch + W_SINCE], single, low, high) < high:
                return 1
        else:
            result = occurs(M, o, low, high, program, w[watch + W_SINCE], horizon)
            if result != 0:
                return result
    return 0


@compiled
def verdict(M: Arrays, at: int, start: int, processed: int, end: int, now: int, horizon: int) -> int:
    """The verdict on a partial match, or FULL; one that completes or times out is written to the output."""
    t, w = M.tables, M.space
    width = t[S_FRAME]
    w[C_STEPS] += 1
    if not load_events(M, at):
        return FULL
    top = w[C_TOP]
    count = epsilon_closure(M, at, top)
    if count < 0:
        return FULL
    w[C_TOP] = top + count * width
    is_open = False
    late = NONE
    for k in range(count):
        o = top + k * width
        if w[o + STEP] < 0:
            end_time = accepted_end(M, o, start)
            if end_time == NONE:
                continue
            violated = violates_trailing_negation(M, o, start, processed, horizon)
            if violated < 0:
                return FULL
            if violated == 1:
                continue
            if w[o + WATCHES] and end_time >= now:
                is_open = True
            elif not is_open:
                if not write_match(M, o, 0, end_time):
                    return FULL
                w[C_TOP] = top
                return COMPLETE
            continue
        bounds(M, o, start, end, False)
        if stopped(M, o, processed):
            continue
        violated = violates_negation(M, o, start, processed, end, now, horizon)
        if violated < 0:
            return FULL
        if violated == 1:
            continue
        if w[o + CLOSING] != FOREVER and w[o + CLOSING] < now:
            late = w[o + CLOSING] if late == NONE else late
        elif now != FOREVER:  # At the end of the stream no branch stays open.
            is_open = True
    w[C_TOP] = top
    if is_open:
        return RETAIN
    if late != NONE and t[S_TIMEOUTS] and not w[at + EXTENDED]:
        if not write_match(M, at, 1, late):
            return FULL
        return TIMED_OUT
    return DROP


@compiled
def finish_decided(M: Arrays, partials: int, count: int, processed: int, end: int, now: int, horizon: int) -> int:
    """Complete, time out and drop decided partial matches; returns the number of those left, or FULL.

    The list holds every frame of the pool: those in use first, in order, then those that are free.
    """
    w = M.space
    retained = 0
    for k in range(count):
        at = w[partials + k]
        decision = verdict(M, at, w[at + STARTED_AT], processed, end, now, horizon)
        if decision < 0:
            return FULL
        if decision == RETAIN:
            w[partials + k] = w[partials + retained]
            w[partials + retained] = at
            retained += 1
    return retained


@compiled
def usable_branch(M: Arrays, at: int, position: int, horizon: int) -> int:
    """The frame of the preferred branch by which a partial match can take the event; 0 if none can, or FULL."""
    t, e, w = M.tables, M.events, M.space
    width = t[S_FRAME]
    w[C_STEPS] += 1
    if not load_events(M, at):
        return FULL
    top, start, moment = w[C_TOP], w[at + STARTED_AT], e[E_TIME, position]
    count = epsilon_closure(M, at, top)
    if count < 0:
        return FULL
    w[C_TOP] = top + count * width
    for k in range(count):
        o = top + k * width
        if w[o + STEP] < 0:
            continue
        bounds(M, o, start, position + 1, False)
        if position >= w[o + HIGH] or moment > w[o + CLOSING] or not in_time(M, o, moment):
            continue
        violated = violates_negation(M, o, start, position, position + 1, moment, horizon)
        if violated < 0:
            return FULL
        if violated == 1 or not fits(M, o, w[o + STEP], position):
            continue
        w[C_TOP] = top
        return o
    w[C_TOP] = top
    return 0


@compiled
def start_partial(M: Arrays, seed: int, branch_count: int, low: int, position: int, target: int, horizon: int) -> int:
    """Start a partial match with this event by the first branch that takes it, in ``target``: 1, 0 or FULL."""
    t, w = M.tables, M.space
    width = t[S_FRAME]
    for k in range(branch_count):
        o = seed + (1 + k) * width
        if w[o + STEP] < 0 or not fits(M, o, w[o + STEP], position):
            continue
        w[C_TOTALS] = totals_place(M, target)
        result = take(M, o, w[o + STEP], position, target)
        if result < 0:
            return FULL
        if result == 0:
            continue
        if t[S_LEADS_COUNT]:
            saved_keys = w[C_KEYS]
            w[C_STARTED] += 1
            w[C_TOTALS] = totals_beyond(M)
            result = violates_leading_negation(M, target, low, position, horizon)
            w[C_KEYS] = saved_keys
            w[C_STARTED] += 1
            if result < 0:
                return FULL
            if result == 1:
                continue
        w[target + EXTENDED] = 0
        w[target + STARTED_AT] = position
        if not append_link(M, target, 0, w[o + STEP], k, position):
            return FULL
        return 1
    return 0


@compiled
def extend_partial(M: Arrays, at: int, o: int, position: int, target: int) -> int:
    """Extend a partial match by the event, in ``target``: 1, or 0 if ``must`` rejects it, or FULL.

    Its branch ``o`` is one of the frames from ``C_TOP`` on.
    """
    t, w = M.tables, M.space
    step, before, start = w[o + STEP], w[at + TAKEN_LIST], w[at + STARTED_AT]
    branch = (o - w[C_TOP]) // t[S_FRAME]
    w[C_TOTALS] = totals_place(M, target)
    result = take(M, o, step, position, target)
    if result != 1:
        return result
    place = totals_place(M, target)
    if t[S_TOTALS] and w[target + TOTALS] != place:
        # The step updates no totals, so they are still in another frame's slot, which may be reused.
        copy_totals(M, w[target + TOTALS], place)
        w[target + TOTALS] = place
    w[target + EXTENDED] = 0
    w[target + STARTED_AT] = start
    return 1 if append_link(M, target, before, step, branch, position) else FULL


@compiled
def same_state(M: Arrays, a: int, b: int) -> bool:
    """True if two partial matches are in the same state: last step, iterations, and completed members."""
    t, w = M.tables, M.space
    if w[w[a + TAKEN_LIST] + L_STEP] != w[w[b + TAKEN_LIST] + L_STEP]:
        return False
    for k in range(t[S_REGISTER_COUNT]):
        if w[a + t[S_REGISTERS] + 3 * k] != w[b + t[S_REGISTERS] + 3 * k]:
            return False
    return True


@compiled
def gather(M: Arrays, at: int, position: int) -> int:
    """Add an event to a step that a partial match of the cumulative context has passed: 1, 0, or FULL."""
    t, e, w = M.tables, M.events, M.space
    if not load_events(M, at):
        return FULL
    link = w[at + TAKEN_LIST]
    for _ in range(w[at + COUNT]):
        step = w[link + L_STEP]
        is_repeated = False
        w[C_STEPS] += 1
        other = w[at + TAKEN_LIST]
        while other != link:
            if w[other + L_STEP] == step:
                is_repeated = True
                break
            other = w[other + L_BEFORE]
        if not is_repeated and fits(M, at, step, position) and lone_must(M, at, step, position):
            if not append_link(M, at, w[at + TAKEN_LIST], step, -1, position):
                return FULL
            w[at + COUNT] += 1
            w[at + LAST] = position
            w[at + t[S_CURRENT] + step] = position
            w[at + CLOCK] = e[E_TIME, position]
            add_to_totals(M, w[at + TOTALS], step, position)
            return 1
        link = w[link + L_BEFORE]
    return 0


@compiled
def remove_partial(M: Arrays, partials: int, k: int, count: int) -> None:
    """Remove a partial match from the list and free its frame."""
    w, at = M.space, M.space[partials + k]
    for n in range(k, count - 1):
        w[partials + n] = w[partials + n + 1]
    w[partials + count - 1] = at


@compiled
def retain_newest(M: Arrays, partials: int, count: int, newer: int, position: int, horizon: int) -> int:
    """Retain the newest partial match of each state, in order of recency (recent); returns their number, or FULL."""
    w = M.space
    total, retained, now = count + newer, 0, M.events[E_TIME, position]
    completes = M.tables[S_CURRENT] > M.tables[S_UNTILS]  # `until` or a negation can complete what the event replaces.
    for k in range(total):
        at = w[partials + k]
        replaced = False
        w[C_STEPS] += 1
        for n in range(k + 1, total):
            if same_state(M, at, w[partials + n]):
                replaced = True
                break
        processed = position + 1
        if (
            replaced
            and completes
            and k < count
            and verdict(M, at, w[at + STARTED_AT], processed, processed, now, horizon) < 0
        ):
            return FULL
        if not replaced:
            # The frames in between are replaced ones; they move behind the retained ones.
            w[partials + k] = w[partials + retained]
            w[partials + retained] = at
            retained += 1
    return retained


@compiled
def end_all(M: Arrays, partials: int, count: int, position: int, horizon: int) -> int:
    """End all partial matches; emit those that the event completes, by `until` or a negation. Returns 0, or FULL."""
    if count and M.tables[S_CURRENT] > M.tables[S_UNTILS]:
        if finish_decided(M, partials, count, position + 1, position + 1, M.events[E_TIME, position], horizon) < 0:
            return FULL
    return 0


@compiled
def offer_event(
    M: Arrays,
    partials: int,
    count: int,
    seed: int,
    branch_count: int,
    low: int,
    position: int,
    horizon: int,
    starts: bool,
) -> int:
    """Offer an event to the partial matches as the context prescribes; returns their new number, or FULL.

    Unless ``starts``, it starts none: one that it started in an earlier call has ended.
    """
    t, w = M.tables, M.space
    context = t[S_CONTEXT]
    used, has_fresh = 0, 0
    chronicle = context == CHRONICLE or context == IMMEDIATE
    if context == CUMULATIVE and count > 0:
        at = w[partials]
        o = usable_branch(M, at, position, horizon)
        if o < 0:
            return FULL
        if o == 0:
            return FULL if gather(M, at, position) < 0 else count
        result = extend_partial(M, at, o, position, w[partials + count])
        if result < 0:
            return FULL
        w[partials] = w[partials + count]
        w[partials + count] = at
        if result == 0:
            remove_partial(M, partials, 0, count)
        return count if result == 1 else count - 1
    if chronicle:
        # The first free frame is for the new partial match, the next for one that is extended.
        has_fresh = start_partial(M, seed, branch_count, low, position, w[partials + count], horizon)
        if has_fresh < 0:
            return FULL
    newer = 0
    if context == RECENT and starts:
        newer = start_partial(M, seed, branch_count, low, position, w[partials + count], horizon)
        if newer < 0:
            return FULL
    k = 0
    while k < count:
        at = w[partials + k]
        o = usable_branch(M, at, position, horizon)
        if o < 0:
            return FULL
        if o == 0 or (chronicle and has_fresh and w[o + SPARE]):
            k += 1
            continue
        place = partials + count + (newer if context == RECENT else 1)
        result = extend_partial(M, at, o, position, w[place])
        if result < 0:
            return FULL
        used = 1
        if context == RECENT:
            if result == 1:
                w[at + EXTENDED] = 1
                newer += 1
            k += 1
            continue
        if result == 1:
            w[partials + k] = w[place]
            w[place] = at
            k += 1
        else:
            remove_partial(M, partials, k, count)
            count -= 1
        if context != CONTINUOUS:
            break
    if chronicle:
        if used:
            return count
        if has_fresh:
            return count + 1
        if context == IMMEDIATE:
            count = end_all(M, partials, count, position, horizon)
        return count
    if context == STRICT_IMMEDIATE:
        if used:
            return count
        count = end_all(M, partials, count, position, horizon)
        if count < 0:
            return FULL
    if context == RECENT:
        return retain_newest(M, partials, count, newer, position, horizon)
    if starts:
        has_fresh = start_partial(M, seed, branch_count, low, position, w[partials + count], horizon)
        if has_fresh < 0:
            return FULL
    return count + has_fresh


@compiled
def earliest_open_end(M: Arrays, partials: int, count: int) -> int:
    """The earliest end time of an open partial match that could already be accepted; FOREVER if none.

    NONE if the space is full: ``FULL`` is a time as well.
    """
    t, w = M.tables, M.space
    earliest = FOREVER
    for k in range(count):
        at = w[partials + k]
        if not load_events(M, at):
            return NONE
        branch_count = epsilon_closure(M, at, w[C_TOP])
        if branch_count < 0:
            return NONE
        for n in range(branch_count):
            o = w[C_TOP] + n * t[S_FRAME]
            if w[o + STEP] < 0:
                end_time = accepted_end(M, o, w[at + STARTED_AT])
                if end_time != NONE:
                    earliest = min(earliest, end_time)
    return earliest


@compiled
def stores_partials(M: Arrays) -> bool:
    """True if the context's partial matches cannot be rebuilt from their own events."""
    context = M.tables[S_CONTEXT]
    return bool(context == CHRONICLE or context == IMMEDIATE or context == RECENT)


@compiled
def restore_run(
    M: Arrays, partials: int, seed: int, branch_count: int, begins: int, carried: Ints, first: int, last: int
) -> int:
    """Restore the valid partial matches from ``first`` to before ``last``; returns their number, or FULL."""
    t, w = M.tables, M.space
    width, size = t[S_FRAME], pool_size(M)
    count = 0
    i = first
    while i < last:
        if 2 * count + 4 > size:
            return FULL
        at = w[partials + count]
        link = i + CARRIED_HEAD
        i = link + 3 * carried[link - 1]
        before, taken = -1, 0
        for k in range(link, i, 3):
            step, branch, position = carried[k], carried[k + 1], carried[k + 2]
            taken = 0
            if position <= before or position >= begins:
                break
            before = position
            w[C_TOP] = seed + (1 + branch_count) * width
            if k > link:
                # Its events are on the stack, where ``take`` has put them.
                next_count = epsilon_closure(M, at, w[C_TOP])
                if next_count < 0:
                    return FULL
                o = w[C_TOP] + branch * width
                if branch < next_count and w[o + STEP] == step:
                    taken = extend_partial(M, at, o, position, at)
            else:
                o = seed + (1 + branch) * width
                if branch < branch_count and w[o + STEP] == step:
                    w[C_TOTALS] = totals_place(M, at)
                    taken = take(M, o, step, position, at)
                    w[at + STARTED_AT] = position
                    if taken == 1 and not append_link(M, at, 0, step, branch, position):
                        return FULL
            if taken < 0:
                return FULL
            if taken == 0:
                break
        if taken:
            w[at + EXTENDED] = carried[link - CARRIED_HEAD]
            count += 1
        else:
            w[C_CAPPED] += 1
    return count


@compiled
def save_run(M: Arrays, at: int) -> bool:
    """Append a partial match to the output, with its branches and EXTENDED; False if there is no capacity."""
    t, w = M.tables, M.space
    count, unified, to = w[at + COUNT], t[S_UNIFIED_COUNT], w[C_OUT]
    if to + MATCH_HEAD + 2 * unified + 2 * count > w[A_OUT_END]:
        w[C_FULL_AREA] = OUTPUT_AREA
        return False
    w[to] = w[C_PARTITION]
    w[to + 1] = STILL_OPEN
    w[to + 2] = w[at + EXTENDED]
    w[to + 3] = count
    to += MATCH_HEAD + 2 * unified
    link = w[at + TAKEN_LIST]
    for k in range(count - 1, -1, -1):
        w[to + 2 * k] = w[link + L_BRANCH] * t[S_STEPS] + w[link + L_STEP]
        w[to + 2 * k + 1] = w[link + L_POSITION]
        link = w[link + L_BEFORE]
    w[C_OUT] = to + 2 * count
    return True


@entry
def simulate(M: Arrays, offsets: Ints, ends: Ints, frontiers: Ints, horizons: Ints, opens: Ints, carried: Ints) -> int:
    """Process the partitions event by event, resuming at the counters; FULL to be called with more capacity.

    SPENT if a partition has exhausted its budget, PAUSED to be called again.

    ``opens`` is 1 at each event of a stream that may start a partial match. ``carried`` has stored ones, by partition.
    """
    t, e, w = M.tables, M.events, M.space
    width = t[S_FRAME]
    size = pool_size(M)
    pool = w[A_FRAMES]
    seed = pool + size * width
    if seed + 4 * width > w[A_FRAMES_END] or w[A_TOTALS] + (size + 8) * t[S_TOTALS] * TOTAL_INTS > w[A_TOTALS_END]:
        return FULL
    partials = w[A_NODES]
    clear_frame(M, seed)
    w[seed + PC] = t[S_CODE]
    w[seed + TOTALS] = 1
    w[C_NODES] = w[A_NODES] + size
    branch_count = epsilon_closure(M, seed, seed + width)
    if branch_count < 0:
        return FULL
    while w[C_PARTITION] < len(offsets) - 1:
        partition = w[C_PARTITION]
        low, end = offsets[partition], ends[partition]
        horizon = horizons[partition] if len(horizons) else NONE
        begins = low
        while len(opens) and begins < end and not opens[begins]:
            begins += 1
        written, capped, steps = w[C_OUT], w[C_CAPPED], w[C_STEPS]
        w[C_KEY_STEPS] = steps
        w[C_KEY_MATCHES] = 0
        begin_key(M, end - low)
        w[C_KEYS] = w[A_KEYS]
        for k in range(size):
            w[partials + k] = pool + k * width
        count = 0
        if len(carried):
            count = restore_run(
                M, partials, seed, branch_count, begins, carried, carried[partition], carried[partition + 1]
            )
        for position in range(begins, end + 1):
            w[C_START] = position  # progress reads it
            if w[C_STEPS] > w[C_STEPS_END]:
                count = FULL
            if count < 0:
                break
            now = FOREVER
            if position < end:
                now = e[E_TIME, position]
            elif horizon != NONE:
                now = horizon + 1
            w[C_TOP] = seed + (1 + branch_count) * width
            # Settle what time and the events before this one decide; then offer the event.
            count = finish_decided(M, partials, count, position, end, now, horizon)
            if position == end or count < 0:
                break
            if 2 * count + 4 > size:
                count = FULL
                break
            starts = len(opens) == 0 or opens[position] != 0
            count = offer_event(M, partials, count, seed, branch_count, low, position, horizon, starts)
            if count > t[S_MATCH_CAP]:
                # Partial matches that the event decides are settled before the next one, but the cap would drop them
                # here.
                count = finish_decided(M, partials, count, position + 1, end, now, horizon)
            if count < 0:
                break
            while count > t[S_MATCH_CAP]:
                remove_partial(M, partials, 0, count)
                w[C_CAPPED] += 1
                count -= 1
        if count >= 0 and horizon != NONE:
            earliest_open = earliest_open_end(M, partials, count)
            if earliest_open == NONE:
                count = FULL
            else:
                frontiers[partition] = horizon if earliest_open == FOREVER else min(horizon, earliest_open - 1)
            if len(opens) and stores_partials(M):
                for k in range(count):
                    if not save_run(M, w[partials + k]):
                        count = FULL
                        break
        if count < 0:
            w[C_OUT] = written
            w[C_CAPPED] = capped
            reason = stopped_by(M)
            if reason != SPENT:
                w[C_STEPS] = steps
            return reason
        if len(opens):
            for k in range(low, end):
                opens[k] = 0
            for k in range(count):
                opens[w[w[partials + k] + STARTED_AT]] = 1
            if count:
                w[C_NEXT_TIMER] = min(w[C_NEXT_TIMER], horizon + 1)
        w[C_PARTITION] = partition + 1
    return CONTINUE


@entry
def saved_run_starts(flat: Ints, unified: int, starts: Ints) -> int:
    """Count saved partial matches and write their offsets to ``starts`` up to its length."""
    count, at = 0, 0
    while at < len(flat):
        if flat[at + 1] == STILL_OPEN:
            if count < len(starts):
                starts[count] = at
            count += 1
        at += MATCH_HEAD + 2 * unified + 2 * flat[at + 3]
    return count
