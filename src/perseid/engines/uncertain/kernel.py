"""The automaton and what is hidden, moved on together: exact, and with memory that does not grow with the stream.

What is known of a group is a weight for each pair of a state of the automaton and a hidden value: the probability of all
worlds that have come to both (section 3.1.2). A step of the stream moves weights along the entries of the hidden chain, with
the letters of what happens, and adds up those that complete the pattern on the way.

The order of every sum is that of the data, whatever else is in a call: any cut of a stream gives the same bits. Where the
automaton does not know yet where a state goes, a function stops before it has changed anything, says what it has to know, and
is called again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from perseid.engines.jit import jit

ALONE, TABLES, JOINT, MODEL, SMOOTHED = range(5)
"""Where a hidden chain gets its entries: there is none; rows of the data; several chains that are one; a model and readings; a
model and a table for each step."""
FINISHED, NEXT_UNKNOWN, JOIN_UNKNOWN, NO_ROOM = range(4)
"""How a call ends: at the end, or where the automaton has to be asked about a state and a letter, or about two letters."""
C_GROUP, C_STEP, C_COUNT, C_FIRST, C_SECOND, C_OUT, C_BEGUN, C_IDLE, C_REST, C_IMPOSSIBLE, C_SIZE = range(11)
"""Places in a cursor: group, step, states that have weight; what is asked about; what was written; whether the group was
taken up, how many idle steps are still to go before a step and at the end, how many readings no value explains."""


class Steps(NamedTuple):
    """Groups, their steps, and what is said of each step."""

    offsets: Any
    """By group: where its steps begin."""
    idle: Any
    """By step: how many steps before it nothing was said of."""
    afresh: Any
    """By step: whether the hidden chain begins anew."""
    still: Any
    """By step: whether the hidden chain has none there, so that it stays where it is and no event of it happens."""
    others: Any
    others_end: Any
    """By step: where the rows of chains begin, and end, that are independent from step to step."""
    chain: Any
    letter: Any
    share: Any
    """Of those rows: whose they are, letter and probability."""
    entries: Any
    entries_end: Any
    """By step: where the entries of its table begin, and end; of a model all steps have the same."""
    at: Any
    """By step: which of the hidden chain's it is."""
    absorbs: Any
    """By group: from which step on worlds that are absorbed are left out."""
    rest: Any
    """By group: how many steps after its last one nothing was said of."""
    ends: Any
    """By group: whether the hidden chain is over after all of them."""


class Hidden(NamedTuple):
    """The chain that is hidden: from which value to which, and how probably. The last value is that of no event."""

    old: Any
    new: Any
    weight: Any
    """By entry; where readings of the future count, by step and entry."""
    letters: Any
    """Of tables and joint chains, by entry; of models, by group and value."""
    likelihood: Any
    """Of models: by reading, how probable each value makes it. The last reading says nothing."""
    reading: Any
    """By step: a row of the likelihoods."""
    ahead: Any
    """By step and value: how probable what is read afterwards makes it; empty where it does not count."""


class Work(NamedTuple):
    """Room to work in."""

    cursor: Any
    order: Any
    """The states that have weight, in the order in which they got it; behind them those that get it in this step."""
    slots: Any
    """By state: its row in what comes, or -1."""
    now: Any
    then: Any
    """By row and value: weights."""
    seen: Any
    chance: Any
    aside: Any
    """The letters of a step in the order in which they are met, and by letter: its probability, now and before a chain."""


@jit
def letters_of(steps: Steps, step: int, join: Any, work: Work) -> int:
    """The letters of what independent chains do at a step, each with its probability; how many, or -1 to ask for two."""
    seen, chance, aside = work.seen, work.chance, work.aside
    count = 1
    seen[0], chance[0] = 0, 1.0
    row, end = steps.others[step], steps.others_end[step]
    while row < end:
        last, stated = row, 0.0
        while last < end and steps.chain[last] == steps.chain[row]:
            stated += steps.share[last]
            last += 1
        before = count
        for i in range(before):
            aside[i] = chance[seen[i]]
            chance[seen[i]] = aside[i] * max(1.0 - stated, 0.0)
        for i in range(before):
            for r in range(row, last):
                letter = join[seen[i], steps.letter[r]]
                if letter < 0:
                    work.cursor[C_FIRST], work.cursor[C_SECOND] = seen[i], steps.letter[r]
                    return -1
                known = False
                for k in range(count):
                    if seen[k] == letter:
                        known = True
                        break
                if not known:
                    seen[count], chance[letter] = letter, 0.0
                    count += 1
                chance[letter] += aside[i] * steps.share[r]
        row = last
    return count


@jit
def grow_older(count: int, following: Any, work: Work) -> int:
    """A step at which nothing happens; how many states have weight after it, or -1 to ask for one."""
    order, slots, now, then = work.order, work.slots, work.now, work.then
    values = now.shape[1]
    for i in range(count):
        if following[order[i], 0] < 0:
            work.cursor[C_FIRST], work.cursor[C_SECOND] = order[i], 0
            return -1
    fresh = 0
    for i in range(count):
        state = following[order[i], 0]
        if slots[state] < 0:
            slots[state] = fresh
            order[count + fresh] = state
            fresh += 1
        for x in range(values):
            then[slots[state], x] += now[i, x]
            now[i, x] = 0.0
    settle(count, fresh, 1.0, 0.0, work)
    return fresh


@jit
def settle(count: int, fresh: int, scale: float, prune: float, work: Work) -> float:
    """What comes is what is now; the weight of what was pruned. The number of states that are left goes to the cursor."""
    order, slots, now, then = work.order, work.slots, work.now, work.then
    values = now.shape[1]
    kept, lost = 0, 0.0
    for i in range(fresh):
        state = order[count + i]
        slots[state] = -1
        some = False
        for x in range(values):
            weight = then[i, x] * scale
            then[i, x] = 0.0
            if 0.0 < weight < prune:
                lost += weight
                weight = 0.0
            some = some or weight > 0.0
            now[kept, x] = weight
        if some:
            order[count + kept] = state
            kept += 1
    for i in range(kept):
        order[i] = order[count + i]
    if kept == 1 and order[0] == 0 and abs(now[0, values - 1] - 1.0) < 1e-9:
        # All worlds are where they began: what rounding did is forgotten, as a group is of which nothing is known.
        now[0, values - 1] = 1.0
    work.cursor[C_COUNT] = kept
    return lost


@jit
def slot_of(state: int, count: int, fresh: int, work: Work) -> int:
    """The row of a state in what comes; the next free one where it has none yet."""
    slot = work.slots[state]
    if slot < 0:
        slot = fresh
        work.slots[state] = slot
        work.order[count + slot] = state
    return slot  # type: ignore[no-any-return]


@jit
def move(
    mode: int, group: int, step: int, letters: int, steps: Steps, hidden: Hidden, following: Any, done: Any,
    absorbing: Any, join: Any, work: Work, sums: Any,
) -> int:  # fmt: skip
    """Move the weights of all pairs one step on; how it ended. ``sums`` gets what is complete, all, and all as seen from ahead;
    how many states get weight; and what was absorbed."""
    order, now, then, cursor = work.order, work.now, work.then, work.cursor
    values = now.shape[1]
    nothing = values - 1
    count = cursor[C_COUNT]
    still = steps.still[step]
    first, end = steps.entries[step], steps.entries_end[step]
    if mode >= MODEL:
        first, end = 0, 0 if still else len(hidden.old)
    at = steps.at[step]
    reading = hidden.reading[at] if mode == MODEL else 0
    looks = len(hidden.ahead) > 0
    absorbs = step >= steps.absorbs[group]
    fresh, status = 0, FINISHED
    completed, whole, ahead, gone = 0.0, 0.0, 0.0, 0.0
    for i in range(count):
        state = order[i]
        for k in range(letters):
            beside = work.seen[k]
            chance = work.chance[beside]
            if chance == 0.0:
                continue
            e = first
            # Along the entries of the chain; then, where it says nothing, what is left of each value is no event.
            for x in range(values if mode <= TABLES or still else 0):
                rest = 1.0
                while e < end and hidden.old[e] == x:
                    rest -= hidden.weight[0, e]
                    e += 1
                mass = now[i, x] * rest * chance
                if rest <= 0.0 or mass == 0.0:
                    continue
                after = following[state, beside]
                if after < 0:
                    status, cursor[C_FIRST], cursor[C_SECOND] = NEXT_UNKNOWN, state, beside
                    break
                whole += mass
                ahead += mass
                if done[state, beside]:
                    completed += mass
                if absorbs and absorbing[state, beside]:
                    gone += mass
                    continue
                slot = slot_of(after, count, fresh, work)
                fresh = max(fresh, slot + 1)
                then[slot, x if still else nothing] += mass
            if status != FINISHED:
                break
            for e in range(first, end):
                weight = now[i, hidden.old[e]]
                if weight == 0.0:
                    continue
                value = hidden.new[e]
                if mode <= JOINT:
                    mass = weight * hidden.weight[0, e] * chance
                    letter = hidden.letters[0, e]
                else:
                    if mode == MODEL:
                        mass = weight * hidden.weight[0, e] * hidden.likelihood[reading, value] * chance
                    else:
                        mass = weight * hidden.weight[at, e] * chance
                    letter = hidden.letters[group, value]
                if mass == 0.0:
                    continue
                if beside != 0:
                    both = join[letter, beside]
                    if both < 0:
                        status, cursor[C_FIRST], cursor[C_SECOND] = JOIN_UNKNOWN, letter, beside
                        break
                    letter = both
                after = following[state, letter]
                if after < 0:
                    status, cursor[C_FIRST], cursor[C_SECOND] = NEXT_UNKNOWN, state, letter
                    break
                whole += mass
                seen_from_ahead = mass * hidden.ahead[at, value] if looks else mass
                ahead += seen_from_ahead
                if done[state, letter]:
                    completed += seen_from_ahead
                if absorbs and absorbing[state, letter]:
                    gone += mass
                    continue
                slot = slot_of(after, count, fresh, work)
                fresh = max(fresh, slot + 1)
                then[slot, value] += mass
            if status != FINISHED:
                break
        if status != FINISHED:
            break
    if status != FINISHED or (mode == MODEL and whole == 0.0):
        for i in range(fresh):
            work.slots[order[count + i]] = -1
            for x in range(values):
                then[i, x] = 0.0
        fresh = 0
    sums[0], sums[1], sums[2], sums[3], sums[4] = completed, whole, ahead, fresh, gone
    return status


@jit
def forget_value(count: int, work: Work) -> None:
    """The hidden chain is where it was before its first step."""
    values = work.now.shape[1]
    for i in range(count):
        sum_ = 0.0
        for x in range(values):
            sum_ += work.now[i, x]
            work.now[i, x] = 0.0
        work.now[i, values - 1] = sum_


@jit
def advance(
    mode: int, steps: Steps, hidden: Hidden, following: Any, done: Any, absorbing: Any, join: Any, longest: int, prune: float,
    given: Any, given_weight: Any, given_offsets: Any, work: Work, sums: Any,
    told: Any, gone: Any, lost: Any, left: Any, left_weight: Any, left_offsets: Any,
) -> int:  # fmt: skip
    """Move every group on over its steps.

    ``given`` are the pairs that groups begin with, and ``left`` those that they end with, as (state, value), with their weights.
    ``told`` gets the probability of each step, ``gone`` that of what was absorbed at it, ``lost``, by group, what pruning left out. ``longest`` is after how many idle steps
    nothing is left of a situation; -1 where time does not count.
    """
    cursor, order, slots, now = work.cursor, work.order, work.slots, work.now
    values = now.shape[1]
    groups = len(steps.offsets) - 1
    while cursor[C_GROUP] < groups:
        group = cursor[C_GROUP]
        if cursor[C_BEGUN] == 0:
            count = 0
            for i in range(given_offsets[group], given_offsets[group + 1]):
                state = given[i, 0]
                if slots[state] < 0:
                    slots[state] = count
                    order[count] = state
                    count += 1
                now[slots[state], given[i, 1]] += given_weight[i]
            for i in range(count):
                slots[order[i]] = -1
            cursor[C_COUNT], cursor[C_STEP], cursor[C_BEGUN] = count, steps.offsets[group], 1
            cursor[C_IDLE], cursor[C_REST] = -1, -1
        while cursor[C_STEP] < steps.offsets[group + 1]:
            step = cursor[C_STEP]
            if cursor[C_IDLE] < 0:
                if steps.afresh[step] or (mode == TABLES and steps.idle[step] > 0):
                    forget_value(cursor[C_COUNT], work)
                cursor[C_IDLE] = min(steps.idle[step], longest + 1)
            while cursor[C_IDLE] > 0:
                if grow_older(cursor[C_COUNT], following, work) < 0:
                    return NEXT_UNKNOWN
                cursor[C_IDLE] -= 1
            letters = letters_of(steps, step, join, work)
            if letters < 0:
                return JOIN_UNKNOWN
            status = move(mode, group, step, letters, steps, hidden, following, done, absorbing, join, work, sums)
            if status != FINISHED:
                return status
            if mode == MODEL and sums[1] == 0.0:
                # No value explains what was read: it says nothing, and is counted.
                hidden.reading[steps.at[step]] = len(hidden.likelihood) - 1
                cursor[C_IMPOSSIBLE] += 1
                continue
            count = cursor[C_COUNT]
            for i in range(count):
                for x in range(values):
                    now[i, x] = 0.0
            # Of readings only the posterior counts; of all else weights add up to one as they are.
            scale = 1.0 / sums[1] if mode in (JOINT, MODEL) and sums[1] > 0.0 else 1.0
            lost[group] += settle(count, int(sums[3]), scale, prune, work)
            # Where what comes cannot be, it says nothing.
            told[step] = sums[0] / sums[2] if mode in (JOINT, MODEL) and sums[2] > 0.0 else sums[0] * scale
            gone[step] = sums[4]
            cursor[C_STEP] += 1
            cursor[C_IDLE] = -1
        if cursor[C_REST] < 0:
            if steps.ends[group]:
                forget_value(cursor[C_COUNT], work)
            cursor[C_REST] = min(steps.rest[group], longest + 1)
        while cursor[C_REST] > 0:
            if grow_older(cursor[C_COUNT], following, work) < 0:
                return NEXT_UNKNOWN
            cursor[C_REST] -= 1
        out = cursor[C_OUT]
        if out + cursor[C_COUNT] * values > len(left):
            return NO_ROOM
        for i in range(cursor[C_COUNT]):
            for x in range(values):
                if now[i, x] > 0.0:
                    left[out, 0], left[out, 1] = order[i], x
                    left_weight[out] = now[i, x]
                    out += 1
                now[i, x] = 0.0
        cursor[C_OUT], left_offsets[group + 1] = out, out
        cursor[C_BEGUN] = 0
        cursor[C_GROUP] += 1
    return FINISHED
