"""The search proper: depth first in order of preference, so that the first path to arrive is the one that counts.

What the oracle does, with jumps instead of scans. Frames and the nodes of the search lie on stacks of numbers.
"""

from __future__ import annotations

from perseid.engines.sequence.endings import accepted_end, broken_before, waited, write_match
from perseid.engines.sequence.frames import (
    bounds,
    copy_totals,
    copy_words,
    fits,
    high_of,
    in_time,
    is_mine,
    single_absence,
    take,
    window_end,
)
from perseid.engines.sequence.jumps import (
    bit_of,
    first_at,
    holder_of,
    last_event,
    next_event,
    next_for,
    next_until,
    place_in,
)
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, compiled
from perseid.engines.sequence.options import options, wanted_by
from perseid.engines.sequence.seen import combination_key, point_key, taken_key
from perseid.runtime.jit import jit

# where a search goes on: in a path that waits, and among the events where something negated could begin
BEGIN, EXPAND, WEIGH, TRY, ENDS, ASK, CANDIDATE, ANSWER = range(8)
# what a search keeps of itself while it looks for something negated
CALL_WIDTH = 16


@compiled
def seed_inner(M: Arrays, outer: int, program: int, at: int) -> None:
    """A path into something negated: it sees what the path around it has bound."""
    t, w = M.tables, M.space
    copy_words(M, outer, at, t[S_FRAME])
    w[at + PC] = t[t[S_PROGRAMS] + 2 * program]
    w[at + CONTIGUITY] = SKIP
    w[at + AFTER] = -1
    w[at + WITHIN] = -1
    w[at + TOGETHER] = 0
    w[at + CLOCK] = 0
    w[at + BARRIER] = NONE
    w[at + SPARE] = 0
    w[at + WATCHES] = 0
    w[at + ZONES] = 0
    w[at + UNTILS] = 0
    w[at + BEGUN] = w[outer + COUNT]
    w[at + AROUND] = outer
    for k in range(3 * t[S_REGISTER_COUNT]):
        w[at + t[S_REGISTERS] + k] = 0


@compiled
def needed(M: Arrays, at: int, first: int, room: int) -> int:
    """Steps without which the path ``at`` cannot arrive, as (step, strictly next) from ``first`` on; their number.

    A way that the instructions leave open ends the list, and so does the room for it; rounds of a repetition beyond
    those it must have are left out, and what follows is then no longer strictly next.
    """
    t, w = M.tables, M.space
    i, count, strict = w[at + PC], 0, False
    loose = False
    while count < room:
        op = t[i]
        if op == TAKE:
            if not strict:
                loose = True
            w[first + 2 * count] = t[i + 1]
            w[first + 2 * count + 1] = 0 if loose else 1
            count += 1
            i += OP_WIDTH
        elif op == HOP:
            strict = t[i + 1] == STRICT
            i += OP_WIDTH
        elif op == LOOP_TURN:
            if t[i + 2] > 0:
                i = t[i + 13]
            else:
                loose = True
                i = t[i + 14]
        elif op == LOOP_BACK:
            loose = True
            i = t[t[i + 2] + 14]
        elif op == JUMP:
            i = t[i + 1]
        elif op == SPLIT or op == ALL_ENTER or op == ALL_BACK or op == ACCEPT:
            break
        else:
            i += OP_WIDTH
    return count


@compiled
def latest_start(M: Arrays, at: int, start: int, end: int, inner: bool) -> int:
    """The position before which an option must take an event if the steps it needs are still to follow.

    An option of ``->>`` tries every event up to there. Where steps are decided by their own event, or by a value that
    the path has already, each of them leads to a match: the search costs what it finds.
    """
    t, w = M.tables, M.space
    low = w[at + LAST] + 1
    if not inner:
        if t[S_WITHIN_COUNT] >= 0:
            end = min(end, start + t[S_WITHIN_COUNT])
        if t[S_WITHIN] >= 0:
            end = first_at(M, low, end, window_end(M, start) + 1)
    # The frame that conditions bind events in is free while nothing is asked.
    first = w[A_BIND]
    for k in range(needed(M, at, first, t[S_FRAME] // 2) - 1, -1, -1):
        if end <= low:
            break
        step = w[first + 2 * k]
        holder, known = holder_of(M, at, step), step
        while holder < 0 and t[t[S_STEP_TABLE] + known * STEP_WIDTH + ST_ALIKE]:
            # Not there yet; where it is sure to come, it will have the values it is found by itself.
            known = t[t[S_STEP_TABLE] + known * STEP_WIDTH + ST_HOLDER]
            sure = known == w[at + STEP]
            for n in range(k):
                sure = sure or known == w[first + 2 * n]
            if not sure:
                break
            holder = holder_of(M, at, known)
        if holder < 0:
            end = last_event(M, low, end, bit_of(M, step))
        else:
            end = place_in(M, step, holder, end, True)
    return end


@compiled
def steps_of(M: Arrays, program: int) -> int:
    """The bits of every step that something negated could take."""
    t = M.tables
    i, bits = t[t[S_PROGRAMS] + 2 * program], 0
    while t[i] != ACCEPT:
        if t[i] == TAKE:
            bits |= bit_of(M, t[i + 1])
        i += OP_WIDTH
    return bits


@compiled
def search(M: Arrays, mode: int, root: int, start: int, end: int, program: int, since: int, horizon: int) -> int:
    """Go on from the frame ``root`` with the events before ``end``, in order of preference.

    OUTER writes what is decided and answers DECIDED once nothing after it can count; INNER, inside something
    negated, answers DECIDED once a path arrives; OCCURS asks whether ``program`` matches somewhere from ``start`` to
    before ``end`` after the time ``since``; LED whether something stands before the event ``end`` that must not, in a
    partition that begins with ``start``. Absences may hold absences: a search that has to look for one keeps what it
    knows on the stack of nodes and becomes the search for it (a function that calls itself takes Numba three times
    as long to compile). A search whose budget is used up answers FULL, and its caller compares the counters.
    """
    t, e, w = M.tables, M.events, M.space
    width = t[S_FRAME]
    strictly = t[S_STRICTLY] == 1
    combines = t[S_COMBINES] == 1 and t[S_ONE] == 0
    # Points that earlier starts reached are known too, with their outcome.
    merging = w[C_MERGING] == 1
    memo = t[S_MEMO] == 1 or merging
    # Does it matter how paths end that do not arrive? And does the first to arrive settle all?
    watched = horizon != NONE or t[S_TIMEOUTS] == 1
    settles = not watched and not combines and t[S_GUARDS_COUNT] == 0 and t[S_HOLDS] < 0
    floor = w[C_NODES]
    partition, led_by, lead = start, end, 0
    phase = ASK if mode == OCCURS else BEGIN
    answer = 0
    if mode == LED:
        phase = ANSWER
    inner = mode == INNER
    # of a path that waits
    tails, tag, base, expand, node, k, n, position, over = False, 0, 0, 0, 0, 0, 0, 0, 0
    point = -1
    pending, only, wanted, most, latest = 0, 0, 0, 0, 0
    # of a search for something negated: the path around it, its seed, which way is tried
    outer, seed, ways, way, totals = root, 0, 0, 0, 0
    while True:
        if phase == TRY:
            if w[C_NODES] == base:
                answer = GOES_ON
                phase = ANSWER
                continue
            node = w[C_NODES] - NODE_WIDTH
            w[C_TOTALS] = w[node + N_TOTALS]
            index, count = w[node + N_AT], w[node + N_COUNT]
            first = w[node + N_FIRST] + width
            if index == count:
                if merging and w[node + N_OUTCOME] != DEAD:
                    if w[node + N_POINT] >= 0:
                        w[w[node + N_POINT]] = w[node + N_OUTCOME]
                    if node > base and w[node - NODE_WIDTH + N_OUTCOME] == DEAD:
                        w[node - NODE_WIDTH + N_OUTCOME] = w[node + N_OUTCOME]
                w[C_NODES] = node
                w[C_TOP] = w[node + N_FIRST]
                continue
            child = first + count * width
            w[C_TOP] = child
            o = first + index * width
            step = w[o + STEP]
            if step < 0:
                w[node + N_AT] += 1
                if inner:
                    w[C_NODES] = base
                    answer = DECIDED
                    phase = ANSWER
                    continue
                over = accepted_end(M, o, start)
                if over != NONE:
                    n = 0
                    phase = ENDS
                continue

            position = -1
            any_later = w[o + CONTIGUITY] == ANY
            if any_later:
                high, closing = w[o + HIGH], w[o + CLOSING]
                candidate = w[o + SCAN] - 1
                tried = 0
                while position < 0:
                    tried += 1
                    candidate = next_for(M, o, step, candidate + 1, high, closing)
                    if candidate >= high or e[E_TIME, candidate] > closing:
                        break
                    broken_at = w[o + BROKEN]
                    if (
                        broken_at >= 0
                        and broken_at < candidate
                        and not (strictly and e[E_TIME, broken_at] == e[E_TIME, candidate])
                    ):
                        break
                    if (
                        not (inner and is_mine(M, o, candidate))
                        and in_time(M, o, e[E_TIME, candidate])
                        and fits(M, o, step, candidate)
                    ):
                        position = candidate
                w[C_STEPS] += tried >> CHEAP_SHIFT
                w[o + SCAN] = position + 1
            elif w[o + FOUND] >= 0:
                position = w[o + FOUND]
                w[o + FOUND] = -2
            if position >= 0:
                answer = take(M, o, step, position, child)
                if answer == 1 and memo:
                    answer = point_key(M, child, tag, 0)
                    point = -1
                    if merging and answer < 0 and not t[S_MEMO] and w[A_TABLE_SIZE] >= MERGED_POINTS:
                        answer = 1  # Enough points are kept; the search needs none of them.
                    elif merging and answer >= 0:
                        point = w[C_OUTCOME]
                        if answer == 0 and w[point] != DEAD:
                            if w[point] == WAITS:
                                w[C_OPEN] = 1
                            if not w[C_OPEN]:
                                answer = 1  # A match: the start has to find it itself.
                            elif w[node + N_OUTCOME] == DEAD:
                                w[node + N_OUTCOME] = w[point]
                if answer < 0:
                    return FULL
                if answer == 1:
                    if not any_later and not tails and node > base:
                        # Where nothing is left to try, the node itself is not needed any more: a repetition of a
                        # million rounds needs no room for a million nodes, nor for its totals after each of them.
                        rest = False
                        for m in range(index + 1, count):
                            other = first + m * width
                            if w[other + STEP] < 0 or w[other + CONTIGUITY] == ANY or w[other + FOUND] >= 0:
                                rest = True
                                break
                        if not rest:
                            own = w[first - width + TOTALS]
                            if w[child + TOTALS] != own and own >= w[node - NODE_WIDTH + N_TOTALS]:
                                copy_totals(M, w[child + TOTALS], own)
                                w[child + TOTALS] = own
                                w[C_TOTALS] = own + 1
                            copy_words(M, child, first - width, width)
                            child = first - width
                            w[C_NODES] = node
                    w[C_TOP] = child + width
                    expand = child
                    phase = EXPAND
                continue
            w[node + N_AT] += 1
            if not tails or (not any_later and (w[node + N_COMMITTED] or w[o + FOUND] != -1)):
                continue
            if w[o + WATCHES] and (w[o + HIGH] == 0 or broken_before(M, o, end, start, end, inner) < end):
                continue
            over = waited(M, o, start, end, horizon)
            if over == FOREVER:
                w[C_OPEN] = 1
                w[C_WAKE] = min(w[C_WAKE], w[o + CLOSING])
                if w[node + N_OUTCOME] == DEAD:
                    w[node + N_OUTCOME] = WAITS
                if combines and not any_later and not t[S_PLAIN]:
                    answer = combination_key(M, w[o + COUNT], -1, True)
                    if answer == 1:
                        answer = combination_key(M, w[o + COUNT], -2, True)
                    if answer < 0:
                        return FULL
            elif over != NONE and t[S_TIMEOUTS] and w[C_STUCK] < 0:
                w[C_STUCK] = w[C_OUT]
                if not write_match(M, o, 1, over):
                    return FULL

        elif phase == EXPAND:
            w[C_STEPS] += 1
            if w[C_STEPS] > w[C_STEPS_END]:
                return FULL
            node = w[C_NODES]
            if node + NODE_WIDTH > w[A_NODES_END]:
                return FULL
            first = w[C_TOP]
            count = options(M, expand, first)
            if count < 0:
                return FULL
            if node > base and settles:
                for m in range(count):
                    if w[first + m * width + STEP] < 0 and (inner or not w[first + m * width + WATCHES]):
                        # Whatever becomes of the rest, this path can end here: what came before is never gone back
                        # to, and a repetition at the end needs no more room than one in the middle.
                        node, bottom = base, w[base + N_FIRST]
                        copy_words(M, expand, bottom, (1 + count) * width)
                        if w[bottom + TOTALS] >= w[base + N_TOTALS]:
                            slots = w[base + N_TOTALS]
                            copy_totals(M, w[bottom + TOTALS], slots)
                            for place in range(bottom, bottom + (1 + count) * width, width):
                                w[place + TOTALS] = slots
                            w[C_TOTALS] = slots + 1
                        expand, first = bottom, bottom + width
                        break
            w[C_NODES] = node + NODE_WIDTH
            w[C_TOP] = first + count * width
            w[node + N_FIRST] = expand
            w[node + N_COUNT] = count
            w[node + N_AT] = 0
            w[node + N_TOTALS] = w[C_TOTALS]
            w[node + N_POINT] = point
            w[node + N_OUTCOME] = DEAD
            pending, wanted, most, latest = 0, 0, 0, NONE
            k, n, position = 0, 0, -1
            phase = WEIGH

        elif phase == WEIGH:
            first, count = w[node + N_FIRST] + width, w[node + N_COUNT]
            while k < count:
                o = first + k * width
                if n == 0 and position < 0:
                    w[o + FOUND] = -1
                    w[o + BROKEN] = -1
                    if w[o + STEP] < 0:
                        k += 1
                        continue
                    bounds(M, o, start, end, inner)
                while n < w[o + WATCHES]:
                    watch = o + t[S_WATCHES] + n * WATCH_WIDTH
                    program = w[watch + W_PROGRAM]
                    if t[t[S_PROGRAMS] + 2 * program + 1] < 0:
                        # With which event is a group complete that must not be? Only one that it takes can be.
                        limit = w[o + CLOSING]
                        if w[watch + W_UNTIL] != NONE and w[watch + W_UNTIL] < limit:
                            limit = w[watch + W_UNTIL]
                        high = high_of(M, o, start, end, inner)
                        if w[o + BROKEN] >= 0 and w[o + BROKEN] < high:
                            high = w[o + BROKEN]
                        if position < 0:
                            position = w[o + LAST] + 1
                        else:
                            position = next_until(M, position + 1, high, steps_of(M, program), limit)
                        if position < high and e[E_TIME, position] <= limit:
                            phase = ASK
                            break
                    n += 1
                    position = -1
                if phase == ASK:
                    break
                if w[o + CONTIGUITY] == ANY:
                    w[o + SCAN] = w[o + LAST] + 1
                    if not tails:
                        w[o + HIGH] = min(w[o + HIGH], latest_start(M, o, start, end, inner))
                    if w[o + WATCHES]:
                        high = w[o + HIGH]
                        broken = broken_before(M, o, high, start, end, inner)
                        w[o + BROKEN] = broken if broken < high else -1
                else:
                    pending += 1
                    only = k
                    wanted |= bit_of(M, w[o + STEP])
                    most = max(most, w[o + HIGH])
                    latest = max(latest, w[o + CLOSING])
                k += 1
                n = 0
            if phase == ASK:
                call = w[C_NODES]
                if call + CALL_WIDTH > w[A_NODES_END]:
                    return FULL
                w[call] = WEIGH
                w[call + 1] = k
                w[call + 2] = n
                w[call + 3] = position
                w[call + 4] = pending
                w[call + 5] = wanted
                w[call + 6] = most
                w[call + 7] = latest
                w[call + 8] = inner
                w[call + 9] = start
                w[call + 10] = end
                w[call + 11] = tag
                w[call + 12] = base
                w[call + 13] = node
                w[call + 14] = only
                w[C_NODES] = call + CALL_WIDTH
                outer = o
                start, end, since = w[watch + W_POSITION] + 1, position + 1, w[watch + W_SINCE]
                continue
            # The first event that fits decides, unless only options that can be spared want it.
            committed, position = 0, w[first + LAST]
            lone = first + only * width
            alone, tried = pending == 1, 0
            while pending and not committed:
                tried += 1
                if alone:
                    position = next_for(M, lone, w[lone + STEP], position + 1, most, latest)
                else:
                    position = next_until(M, position + 1, most, wanted, latest)
                if position >= most or e[E_TIME, position] > latest:
                    break
                moment = e[E_TIME, position]
                if inner and is_mine(M, first, position):
                    continue
                found = False
                for m in range(count):
                    o = first + m * width
                    if (
                        w[o + STEP] < 0
                        or w[o + CONTIGUITY] == ANY
                        or w[o + FOUND] != -1
                        or position >= w[o + HIGH]
                        or moment > w[o + CLOSING]
                        or not in_time(M, o, moment)
                        or not fits(M, o, w[o + STEP], position)
                    ):
                        continue
                    if w[o + WATCHES]:
                        before = position
                        while strictly and before > 0 and e[E_TIME, before - 1] == moment:
                            before -= 1
                        if broken_before(M, o, before, start, end, inner) < before:
                            w[o + HIGH] = 0
                            continue
                    w[o + FOUND] = position
                    pending -= 1
                    found = True
                    if not w[o + SPARE]:
                        committed = 1
                if found and pending and not committed:
                    # Options that have their event are not searched for again.
                    wanted = 0
                    for m in range(count):
                        o = first + m * width
                        if w[o + STEP] >= 0 and w[o + CONTIGUITY] != ANY and w[o + FOUND] == -1:
                            wanted |= bit_of(M, w[o + STEP])
            w[C_STEPS] += tried >> CHEAP_SHIFT
            w[node + N_COMMITTED] = committed
            phase = TRY

        elif phase == ENDS:
            # A path has arrived: do the absences it ends with hold?
            o = w[node + N_FIRST] + w[node + N_AT] * width
            broken_here = False
            while n < w[o + WATCHES]:
                watch = o + t[S_WATCHES] + n * WATCH_WIDTH
                program, until = w[watch + W_PROGRAM], w[watch + W_UNTIL]
                limit = window_end(M, start) if until == NONE else until
                low = w[watch + W_POSITION] + 1
                single = t[t[S_PROGRAMS] + 2 * program + 1]
                high = end if limit == FOREVER else first_at(M, low, end, limit + 1)
                if single < 0:
                    call = w[C_NODES]
                    if call + CALL_WIDTH > w[A_NODES_END]:
                        return FULL
                    w[call] = ENDS
                    w[call + 1] = n
                    w[call + 2] = over
                    w[call + 9] = start
                    w[call + 10] = end
                    w[call + 11] = tag
                    w[call + 12] = base
                    w[call + 13] = node
                    w[C_NODES] = call + CALL_WIDTH
                    outer = o
                    start, end, since = low, high, w[watch + W_SINCE]
                    phase = ASK
                    break
                if single_absence(M, o, w[watch + W_SINCE], single, low, high) < high:
                    broken_here = True
                    break
                n += 1
            if phase == ASK:
                continue
            phase = TRY
            if broken_here:
                continue
            if w[o + WATCHES] and horizon != NONE and horizon < over:
                w[C_OPEN] = 1
                w[C_WAKE] = min(w[C_WAKE], over)
                if combines and not t[S_PLAIN]:
                    answer = combination_key(M, w[o + COUNT], -1, True)
                    if answer == 1 and combination_key(M, w[o + COUNT], -2, True) < 0:
                        answer = FULL
                    if answer < 0:
                        return FULL
                continue
            if not combines and w[C_OPEN]:
                w[C_HELD] = min(w[C_HELD], over)
                if w[node + N_OUTCOME] == DEAD:
                    w[node + N_OUTCOME] = ARRIVES
                continue
            if combines and not t[S_PLAIN]:
                answer = combination_key(M, w[o + COUNT], -1, True)
                if answer < 0:
                    return FULL
                if answer == 0:
                    answer = combination_key(M, w[o + COUNT], -2, False)
                    if answer < 0:
                        return FULL
                    if answer == 0:
                        w[C_HELD] = min(w[C_HELD], over)
                    continue
                answer = taken_key(M, w[o + COUNT], -3)
                if answer < 0:
                    return FULL
                if answer == 0:
                    w[C_FOUND] += 1
                    continue
            if not write_match(M, o, 0, over):
                return FULL
            w[C_FOUND] += 1
            w[C_MATCHES] += 1
            if combines and w[C_MATCHES] >= t[S_MATCH_CAP]:
                w[C_CAPPED] += 1
            elif combines:
                continue
            w[C_NODES] = base
            answer = DECIDED
            phase = ANSWER

        elif phase == BEGIN:
            tails = watched and not inner
            if merging:
                tag = 0
            else:
                w[C_EPOCH] += 1
                tag = w[C_EPOCH]
            base = w[C_NODES]
            point = -1
            expand = root
            phase = EXPAND

        elif phase == ASK:
            seed = w[C_TOP]
            if seed + width > w[A_FRAMES_END]:
                return FULL
            seed_inner(M, outer, program, seed)
            ways = options(M, seed, seed + width)
            if ways < 0:
                return FULL
            wanted = wanted_by(M, seed + width, ways)
            totals, position, way = w[C_TOTALS], start - 1, ways
            phase = CANDIDATE

        elif phase == CANDIDATE:
            answer = 0
            while answer == 0:
                if way == ways:
                    w[C_STEPS] += 1
                    if w[C_STEPS] > w[C_STEPS_END]:
                        return FULL
                    position = next_event(M, position + 1, end, wanted)
                    if position >= end:
                        break
                    if e[E_TIME, position] <= since or is_mine(M, outer, position):
                        continue
                    way = 0
                o = seed + (1 + way) * width
                way += 1
                step = w[o + STEP]
                if step >= 0 and fits(M, o, step, position):
                    answer = take(M, o, step, position, seed + (1 + ways) * width)
                    if answer < 0:
                        return FULL
                    if answer == 0:
                        w[C_TOTALS] = totals
            if answer == 0:
                w[C_TOP] = seed
                phase = ANSWER
                continue
            call = w[C_NODES]
            if call + CALL_WIDTH > w[A_NODES_END]:
                return FULL
            w[call] = CANDIDATE
            w[call + 1] = outer
            w[call + 2] = seed
            w[call + 3] = ways
            w[call + 4] = way
            w[call + 5] = wanted
            w[call + 6] = totals
            w[call + 7] = position
            w[call + 8] = since
            w[call + 9] = start
            w[call + 10] = end
            w[C_NODES] = call + CALL_WIDTH
            root = seed + (1 + ways) * width
            w[C_TOP] = root + width
            start = position
            inner = True
            phase = BEGIN

        elif w[C_NODES] == floor:  # ANSWER: to who asked first
            if mode != LED or answer != 0 or lead == t[S_LEADS_COUNT]:
                return answer
            row = t[S_LEADS] + 2 * lead
            lead += 1
            outer, program, since = root, t[row], NONE
            start = first_at(M, partition, led_by, e[E_TIME, led_by] - t[row + 1])
            end = led_by
            while strictly and end > start and e[E_TIME, end - 1] == e[E_TIME, led_by]:
                end -= 1
            phase = ASK

        else:  # ANSWER: to the search that had to know
            call = w[C_NODES] - CALL_WIDTH
            w[C_NODES] = call
            start, end = w[call + 9], w[call + 10]
            phase = w[call]
            if phase == CANDIDATE:
                outer = w[call + 1]
                seed = w[call + 2]
                ways = w[call + 3]
                way = w[call + 4]
                wanted = w[call + 5]
                totals = w[call + 6]
                position = w[call + 7]
                since = w[call + 8]
                w[C_TOP] = seed
                w[C_TOTALS] = totals
                if answer != 0:
                    phase = ANSWER
                continue
            tag, base, node = w[call + 11], w[call + 12], w[call + 13]
            if phase == ENDS:
                n, over = w[call + 1] + 1, w[call + 2]
                inner = False
                if answer != 0:
                    phase = TRY
            else:
                k, n, position = w[call + 1], w[call + 2], w[call + 3]
                pending, wanted, most, latest = w[call + 4], w[call + 5], w[call + 6], w[call + 7]
                inner, only = w[call + 8] != 0, w[call + 14]
                if answer != 0:
                    w[w[node + N_FIRST] + (1 + k) * width + BROKEN] = position
                    n += 1
                    position = -1
            tails = watched and not inner


@jit
def led(M: Arrays, root: int, low: int, start: int, horizon: int) -> int:
    """Does something stand before the first event that must not? Compiled when another kernel asks for it."""
    return search(M, LED, root, low, start, 0, 0, horizon)
