"""Searches every start of every partition, and unpacks the matches from the output."""

from __future__ import annotations

from perseid.engines.sequence.completion import (
    accepted_end,
    append_match,
    begin_key,
    begin_start,
    stopped_by,
    timeout_time,
)
from perseid.engines.sequence.epsilon_closure import epsilon_closure, wanted_by
from perseid.engines.sequence.layout import *
from perseid.engines.sequence.layout import Arrays, Ints, Ints2, compiled, entry
from perseid.engines.sequence.lookahead import required_steps
from perseid.engines.sequence.search import search, violates_leading_negation
from perseid.engines.sequence.search_record import push_search
from perseid.engines.sequence.skip_index import bit_of, next_event, next_for, next_until
from perseid.engines.sequence.thread_frame import bounds, clear_frame, fits, in_time, take, window_end


@compiled
def count_tries(M: Arrays, tried: int) -> None:
    """Count the steps of ``tried`` events; most paths of a straight pattern try too few for one step."""
    if tried >> CHEAP_SHIFT:
        M.space[C_STEPS] += tried >> CHEAP_SHIFT


@compiled
def follow(M: Arrays, at: int, start: int, end: int, horizon: int) -> int:
    """Follow the only thread of a pattern without alternatives, in its own frame ``at`` and without nodes."""
    t, e, w = M.tables, M.events, M.space
    i, tried = w[at + PC], 0
    while t[i] != ACCEPT:
        if t[i] == HOP:
            w[at + CONTIGUITY] = t[i + 1]
            w[at + AFTER] = t[i + 2]
            w[at + WITHIN] = t[i + 3]
        else:
            step, position = t[i + 1], w[at + LAST]
            bounds(M, at, start, end, False)
            high, closing = w[at + HIGH], w[at + CLOSING]
            while True:
                tried += 1
                position = next_for(M, at, step, position + 1, high, closing)
                if position >= high or e[E_TIME, position] > closing:
                    count_tries(M, tried)
                    if horizon != NONE and timeout_time(M, at, start, end, horizon) == FOREVER:
                        w[C_OPEN] = 1
                        w[C_NEXT_TIMER] = min(w[C_NEXT_TIMER], closing)
                    return CONTINUE
                if in_time(M, at, e[E_TIME, position]) and fits(M, at, step, position):
                    break
            result = take(M, at, step, position, at)
            if result <= 0:
                count_tries(M, tried)
                return result
        i += OP_WIDTH
    count_tries(M, tried)
    end_time = accepted_end(M, at, start)
    if end_time == NONE:
        return CONTINUE
    if not append_match(M, at, 0, end_time):
        return FULL
    w[C_FOUND] += 1
    return DECIDED


@compiled
def resume_after(M: Arrays, out: int, start: int) -> int:
    """The first position from which the next run may start, after the match at ``out``."""
    t, w = M.tables, M.space
    count = w[out + 3]
    pairs = out + MATCH_HEAD + 2 * t[S_UNIFIED_COUNT]
    if t[S_SKIP] == SKIP_PAST_LAST:
        return int(w[pairs + 2 * (count - 1) + 1]) + 1
    found = -1
    for k in range(count):
        if w[pairs + 2 * k] == t[S_SKIP_STEP]:
            found = w[pairs + 2 * k + 1]
            if t[S_SKIP] == SKIP_TO_FIRST:
                break
    return max(start + 1, found)


@compiled
def may_match(M: Arrays, first: int, count: int, start: int, end: int) -> bool:
    """True if events of the required steps, given as (mask, strictly next), follow within the window."""
    t, e, w = M.tables, M.events, M.space
    closing = window_end(M, start)
    if t[S_WITHIN_COUNT] >= 0 and start + t[S_WITHIN_COUNT] < end:
        end = start + t[S_WITHIN_COUNT]
    position = start
    for k in range(first, first + 2 * count, 2):
        position += 1
        if w[k + 1]:
            if position >= end or not e[E_MASK, position] & w[k]:
                return False
        else:
            position = next_until(M, position, end, w[k], closing)
            if position >= end:
                return False
    return e[E_TIME, position] <= closing


@compiled
def merge_points(M: Arrays, start: int, end: int, horizon: int, steps: int) -> None:
    """After a start, decide if the next starts share the points that they reach, with their outcomes.

    A point has the same outcome from each start as long as no window that ends with its start cuts it off: all events
    lie in the window of the first of these starts, and so in those of the later ones. A match ends the sharing, because
    less preferred paths are not searched.
    """
    e, w = M.events, M.space
    if w[C_FOUND]:
        w[C_MERGING] = 0
    elif not w[C_MERGING] and steps >= w[C_MERGE_AFTER]:
        closing = window_end(M, start)
        if closing >= e[E_TIME, end - 1] and closing > horizon:
            w[C_MERGING] = 1
            w[C_MERGE_HORIZON] = horizon
            w[C_KEYS] = w[A_KEYS]
            w[C_STARTED] += 1


@entry
def search_starts(M: Arrays, offsets: Ints, ends: Ints, frontiers: Ints, horizons: Ints, opens: Ints) -> int:
    """Search the partitions, resuming at the counters; CONTINUE when done, FULL to be called with more capacity.

    SPENT if a partition has exhausted its budget, PAUSED to be called again.

    A stream has a horizon in each partition (none: the input is complete) and ``opens``: 1 at each event that may start
    a match; undecided starts stay 1.
    """
    t, e, w = M.tables, M.events, M.space
    width = t[S_FRAME]
    seed = w[A_FRAMES]
    clear_frame(M, seed)
    w[seed + PC] = t[S_CODE]
    w[seed + TOTALS] = 1  # slot 1: totals of no events
    branch_count = epsilon_closure(M, seed, seed + width)
    if branch_count < 0:
        return FULL
    root = seed + (1 + branch_count) * width
    if root + width > w[A_FRAMES_END]:
        return FULL
    wanted = wanted_by(M, seed + width, branch_count)
    required_count = 0
    if branch_count == 1 and wanted and not t[S_TIMEOUTS]:
        # Most runs fail because required events do not follow: checking their masks skips those runs.
        required_count = required_steps(M, seed + width, seed, HEAD // 2)
        for k in range(seed, seed + 2 * required_count, 2):
            w[k] = bit_of(M, w[k])
    straight = t[S_STRAIGHT] == 1 and not t[S_TIMEOUTS]
    merges = t[S_MERGES] == 1
    streams = len(opens) > 0
    mode = t[S_SKIP]
    partition, start, resume = w[C_PARTITION], w[C_START], w[C_RESUME]
    while partition < len(offsets) - 1:
        low, end = offsets[partition], ends[partition]
        partition_horizon = horizons[partition] if len(horizons) else NONE
        if start < low:
            start = low
            resume = low
            w[C_EARLIEST_OPEN] = FOREVER
        w[C_PARTITION] = partition
        begun = False
        while True:
            passed = start
            start = next_event(M, max(start, resume), end, wanted)
            if streams:
                for k in range(passed, min(start, end)):
                    opens[k] = 0
            if start >= end:
                break
            if streams and not opens[start]:
                start += 1
                continue
            # A run is decided once its whole possible span is at or before the horizon.
            spanned = t[S_BOUND] >= 0 and e[E_TIME, start] + t[S_BOUND] <= partition_horizon
            horizon = NONE if spanned else partition_horizon
            if required_count and horizon == NONE and not may_match(M, seed, required_count, start, end):
                if streams:
                    opens[start] = 0
                start += 1
                continue
            if not begun:
                # Most keys start no run: they need no budget.
                begun = True
                begin_key(M, end - low)
                w[C_MERGING] = 0
            w[C_START] = start  # progress reads it
            steps = w[C_STEPS]
            if not straight:
                # A start of a straight pattern takes bounded time and has at most one match: only events tried count.
                w[C_STEPS] += 1
                begin_start(M, end - low)
            if w[C_STEPS] > w[C_STEPS_END]:
                w[C_RESUME] = resume
                result = stopped_by(M)
                if result != SPENT:
                    w[C_STEPS] = steps
                return result
            # All runs that start with this event.
            written, earliest_open, capped = w[C_OUT], w[C_EARLIEST_OPEN], w[C_CAPPED]
            matches = w[C_KEY_MATCHES]
            w[C_OPEN] = 0
            w[C_FOUND] = 0
            w[C_TIMEOUT] = -1
            if merges and horizon != w[C_MERGE_HORIZON]:
                w[C_MERGING] = 0
            if not merges or not w[C_MERGING]:
                w[C_KEYS] = w[A_KEYS]
                w[C_STARTED] += 1
            w[C_MATCHES] = 0
            result = 0
            for k in range(branch_count):
                o = seed + (1 + k) * width
                step = w[o + STEP]
                if step < 0 or not fits(M, o, step, start):
                    continue
                w[C_TOP] = root
                w[C_TOTALS] = 2
                w[C_NODES] = w[A_NODES]
                result = take(M, o, step, start, root)
                if result == 0:
                    continue
                w[C_TOP] = root + width
                if result > 0 and t[S_LEADS_COUNT]:
                    result = violates_leading_negation(M, root, low, start, horizon)
                    if result > 0:
                        result = 0
                        continue
                    if result == 0:
                        result = 1
                if result > 0 and straight:
                    result = follow(M, root, start, end, horizon)
                elif result > 0:
                    result = search(M, push_search(M, -1, root, start, end, horizon))
                if result != CONTINUE:
                    break
            if result < 0:
                w[C_OUT] = written
                w[C_EARLIEST_OPEN] = earliest_open
                w[C_CAPPED] = capped
                w[C_RESUME] = resume
                result = stopped_by(M)
                if result != SPENT:
                    # The start is searched again: its steps and matches so far do not count.
                    w[C_STEPS] = steps
                    w[C_KEY_MATCHES] = matches
                return result
            if merges:
                merge_points(M, start, end, horizon, w[C_STEPS] - steps - 1)
            if w[C_TIMEOUT] >= 0 and (w[C_FOUND] or w[C_OPEN]):
                w[w[C_TIMEOUT] + 1] = -1  # A run matched or is open: the timeout is void.
            if streams and not w[C_OPEN]:
                opens[start] = 0
            if mode != SKIP_NONE and mode != SKIP_TO_NEXT:
                if w[C_FOUND]:
                    # At most one match; a void timeout may precede it.
                    at = written
                    if w[C_TIMEOUT] >= 0:
                        at = w[C_TIMEOUT] + MATCH_HEAD + 2 * t[S_UNIFIED_COUNT] + 2 * w[w[C_TIMEOUT] + 3]
                    resume = resume_after(M, at, start)
                elif w[C_OPEN]:
                    w[C_EARLIEST_OPEN] = min(w[C_EARLIEST_OPEN], e[E_TIME, start])
                    break
            start += 1
        if partition_horizon != NONE:
            frontiers[partition] = (
                partition_horizon if w[C_EARLIEST_OPEN] == FOREVER else min(partition_horizon, w[C_EARLIEST_OPEN] - 1)
            )
        partition += 1
        start = offsets[partition]
        resume = start
        w[C_START] = start
        w[C_EARLIEST_OPEN] = FOREVER
        if begun:
            w[C_KEY_STEPS] = w[C_STEPS]
            w[C_KEY_MATCHES] = 0
    w[C_PARTITION] = partition
    return CONTINUE


@entry
def match_starts(flat: Ints, unified: int, starts: Ints) -> int:
    """Count matches and write their offsets to ``starts`` up to its length; void and partial ones are skipped."""
    count, at = 0, 0
    while at < len(flat):
        if flat[at + 1] >= 0:
            if count < len(starts):
                starts[count] = at
            count += 1
        at += MATCH_HEAD + 2 * unified + 2 * flat[at + 3]
    return count


@entry
def unpack(flat: Ints, starts: Ints, offsets: Ints, unified: int, steps: Ints, positions: Ints, bound: Ints2) -> None:
    for i in range(len(starts)):
        at = starts[i] + MATCH_HEAD
        for k in range(2 * unified):
            bound[i, k] = flat[at + k]
        at += 2 * unified
        for k in range(offsets[i + 1] - offsets[i]):
            steps[offsets[i] + k] = flat[at + 2 * k]
            positions[offsets[i] + k] = flat[at + 2 * k + 1]
