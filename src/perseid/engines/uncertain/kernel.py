"""The automaton and what is hidden, moved on together: exact, and with memory that does not grow with the stream.

What is known of a group is a weight for each pair of a state of the automaton and a hidden value: the probability of all
worlds that have come to both (section 3.1.2). A step of the stream moves weights along the entries of the hidden chain, with
the letters of what happens, and adds up those that complete the pattern on the way.

Functions of the kernel hand on addresses, not arrays (see :mod:`perseid.runtime.pointers`): counting who holds which array took
most of a step's time.

The order of every sum is that of the data, whatever else is in a call: any cut of a stream gives the same bits. Where the
automaton does not know yet where a state goes, a function stops before it has changed anything, says what it has to know, and
is called again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from perseid.runtime.arrays import BoolArray, ByteArray, FloatArray, Int32Array, IntArray
from perseid.runtime.jit import typed, words

Ints: TypeAlias = IntArray
"""A flat array of int64."""
Rows: TypeAlias = IntArray
"""Rows of int64."""
Floats: TypeAlias = FloatArray
Numbers: TypeAlias = FloatArray
"""Rows of doubles."""
Truths: TypeAlias = ByteArray | BoolArray
"""A flat array of bytes, 0 or 1; of truths until a kernel is called."""
Facts: TypeAlias = ByteArray
"""Rows of bytes, 0 or 1."""
Moves: TypeAlias = Int32Array
"""Rows of int32."""

ALONE, TABLES, JOINT, MODEL, SMOOTHED = range(5)
"""Where a hidden chain gets its entries: there is none; rows of the data; several chains that are one; a model and readings; a
model and a table for each step."""
FINISHED, NEXT_UNKNOWN, JOIN_UNKNOWN, NO_ROOM, TOO_MANY = range(5)
"""How a call ends: at the end, or where the automaton has to be asked about a state and a letter, or about two letters; and how
a step does that would lead the worlds of a group into too many states."""
(
    C_GROUP,
    C_STEP,
    C_COUNT,
    C_FIRST,
    C_SECOND,
    C_OUT,
    C_BEGUN,
    C_IDLE,
    C_REST,
    C_IMPOSSIBLE,
    C_FRESH,
    C_VALUES,
    C_LOOKS,
    C_SIZE,
) = range(14)
"""Places in a cursor: group, step, states that have weight; what is asked about; what was written; whether the group was
taken up, how many idle steps are still to go before a step and at the end, how many readings no value explains; how many states get
weight in this step; how many hidden values there are, and whether what is read afterwards counts."""
S_DONE, S_WHOLE, S_AHEAD, S_GONE, S_SIZE = range(5)
"""Sums over a step: what is complete, all, all as seen from ahead, and what was absorbed."""


class Steps(NamedTuple):
    """Groups, their steps, and what is said of each step."""

    offsets: Ints
    """By group: where its steps begin."""
    idle: Ints
    """By step: how many steps before it nothing was said of."""
    afresh: Truths
    """By step: whether the hidden chain begins anew."""
    still: Truths
    """By step: whether the hidden chain has none there, so that it stays where it is and no event of it happens."""
    others: Ints
    others_end: Ints
    """By step: where the rows of chains begin, and end, that are independent from step to step."""
    chain: Ints
    letter: Ints
    share: Floats
    """Of those rows: whose they are, letter and probability."""
    entries: Ints
    entries_end: Ints
    """By step: where the entries of its table begin, and end; of a model all steps have the same, but those at which it is still."""
    at: Ints
    """By step: which of the hidden chain's it is."""
    absorbs: Ints
    """By group: from which step on worlds that are absorbed are left out."""
    rest: Ints
    """By group: how many steps after its last one nothing was said of."""
    ends: Truths
    """By group: whether the hidden chain is over after all of them."""


class Hidden(NamedTuple):
    """The chain that is hidden: from which value to which, and how probably. The last value is that of no event."""

    old: Ints
    new: Ints
    weight: Numbers
    """By entry; where readings of the future count, by step and entry."""
    letters: Rows
    """Of tables and joint chains, by entry; of models, by group and value."""
    likelihood: Numbers
    """Of models: by reading, how probable each value makes it. The last reading says nothing."""
    reading: Ints
    """By step: a row of the likelihoods."""
    ahead: Numbers
    """By step and value: how probable what is read afterwards makes it; empty where it does not count."""


class Work(NamedTuple):
    """Room to work in."""

    cursor: Ints
    order: Ints
    """The states that have weight, in the order in which they got it; behind them those that get it in this step."""
    slots: Ints
    """By state: its row in what comes, or -1."""
    now: Numbers
    then: Numbers
    """By row and value: weights."""
    seen: Ints
    chance: Floats
    aside: Floats
    """The letters of a step in the order in which they are met, and by letter: its probability, now and before a chain."""


def kinds(numba: Any) -> dict[str, Any]:
    """The arrays of this kernel, by the words for them."""
    return {
        "Ints": numba.int64[::1],
        "Rows": numba.int64[:, ::1],
        "Floats": numba.float64[::1],
        "Numbers": numba.float64[:, ::1],
        "Truths": numba.uint8[::1],
        "Facts": numba.uint8[:, ::1],
        "Moves": numba.int32[:, ::1],
    }


_ENTRY_TYPES, _TYPES = words(kinds, Steps=Steps, Hidden=Hidden, Work=Work)
compiled = typed(_TYPES, entry=False)
entry = typed(_ENTRY_TYPES, entry=True)


@compiled
def letters_of(steps: Steps, step: int, join: Moves, work: Work) -> int:
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


@compiled
def slot_of(state: int, work: Work) -> int:
    """The row of a state in what comes; the next free one where it has none yet."""
    slot = work.slots[state]
    if slot < 0:
        slot = work.cursor[C_FRESH]
        work.slots[state] = slot
        work.order[work.cursor[C_COUNT] + slot] = state
        work.cursor[C_FRESH] = slot + 1
    return slot  # type: ignore[no-any-return]


@compiled
def forget_rounding(work: Work) -> None:
    """Where all worlds are where they began, what rounding did is forgotten: nothing is kept of such a group, and it begins with 1."""
    last = work.cursor[C_VALUES] - 1
    if work.cursor[C_COUNT] == 1 and work.order[0] == 0 and abs(work.now[0, last] - 1.0) < 1e-9:
        work.now[0, last] = 1.0


@compiled
def settle(scale: float, prune: float, work: Work) -> float:
    """What comes is what is now; the weight of what was pruned. The number of states that are left goes to the cursor."""
    order, now, then = work.order, work.now, work.then
    count, values = work.cursor[C_COUNT], work.cursor[C_VALUES]
    kept, lost = 0, 0.0
    for i in range(work.cursor[C_FRESH]):
        state = order[count + i]
        work.slots[state] = -1
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
    work.cursor[C_COUNT] = kept
    forget_rounding(work)
    return lost


@compiled
def grow_older(following: Moves, work: Work) -> int:
    """A step at which nothing happens; how it ended."""
    order, now, cursor = work.order, work.now, work.cursor
    count = cursor[C_COUNT]
    for i in range(count):
        if following[order[i], 0] < 0:
            cursor[C_FIRST], cursor[C_SECOND] = order[i], 0
            return NEXT_UNKNOWN
    cursor[C_FRESH] = 0
    for i in range(count):
        slot = slot_of(following[order[i], 0], work)
        for x in range(cursor[C_VALUES]):
            work.then[slot, x] += now[i, x]
            now[i, x] = 0.0
    settle(1.0, 0.0, work)
    return FINISHED


@compiled
def land(
    state: int, letter: int, value: int, mass: float, seen: float, absorbs: bool, following: Moves, done: Facts,
    absorbing: Facts, most: int, work: Work, sums: Floats,
) -> int:  # fmt: skip
    """Weight of a state goes on with a letter; how it ended. ``seen`` is that weight as what is read afterwards has it."""
    after = following[state, letter]
    if after < 0:
        work.cursor[C_FIRST], work.cursor[C_SECOND] = state, letter
        return NEXT_UNKNOWN
    sums[S_WHOLE] += mass
    sums[S_AHEAD] += seen
    if done[state, letter]:
        sums[S_DONE] += seen
    if absorbs and absorbing[state, letter]:
        sums[S_GONE] += mass
        return FINISHED
    slot = slot_of(after, work)
    if work.cursor[C_FRESH] > most:
        return TOO_MANY
    work.then[slot, value] += mass
    return FINISHED


@compiled
def stay(
    i: int, beside: int, at: int, first: int, end: int, still: bool, absorbs: bool, hidden: Hidden, following: Moves,
    done: Facts, absorbing: Facts, most: int, work: Work, sums: Floats,
) -> int:  # fmt: skip
    """What the entries of a step leave out of each value is no event; where it is still, the chain stays where it is.

    Of one state, and one letter of what else happens; how it ended.
    """
    values, looks = work.cursor[C_VALUES], work.cursor[C_LOOKS] != 0
    e = first
    for x in range(values):
        rest = 1.0
        while e < end and hidden.old[e] == x:
            rest -= hidden.weight[0, e]
            e += 1
        mass = work.now[i, x] * rest * work.chance[beside]
        if rest <= 0.0 or mass == 0.0:
            continue
        to = x if still else values - 1
        seen = mass * hidden.ahead[at, to] if looks else mass
        status = land(work.order[i], beside, to, mass, seen, absorbs, following, done, absorbing, most, work, sums)
        if status != FINISHED:
            return status
    return FINISHED


@compiled
def move(
    mode: int, group: int, step: int, letters: int, steps: Steps, hidden: Hidden, following: Moves, done: Facts,
    absorbing: Facts, join: Moves, most: int, work: Work, sums: Floats,
) -> int:  # fmt: skip
    """Move the weights of all pairs one step on, to what comes, into so many states at ``most``; how it ended."""
    now, cursor = work.now, work.cursor
    still = steps.still[step] != 0
    first, end = steps.entries[step], steps.entries_end[step]
    at = steps.at[step]
    reading = hidden.reading[at] if mode == MODEL else 0
    looks = cursor[C_LOOKS] != 0
    absorbs = step >= steps.absorbs[group]
    for s in range(S_SIZE):
        sums[s] = 0.0
    cursor[C_FRESH] = 0
    for i in range(cursor[C_COUNT]):
        state = work.order[i]
        for k in range(letters):
            beside = work.seen[k]
            chance = work.chance[beside]
            if chance == 0.0:
                continue
            if mode <= TABLES or still:
                status = stay(
                    i, beside, at, first, end, still, absorbs, hidden, following, done, absorbing, most, work, sums
                )
                if status != FINISHED:
                    return status
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
                        cursor[C_FIRST], cursor[C_SECOND] = letter, beside
                        return JOIN_UNKNOWN
                    letter = both
                seen = mass * hidden.ahead[at, value] if looks else mass
                status = land(state, letter, value, mass, seen, absorbs, following, done, absorbing, most, work, sums)
                if status != FINISHED:
                    return status
    return FINISHED


@compiled
def take_back(work: Work) -> None:
    """Nothing comes of a step that cannot go on."""
    count = work.cursor[C_COUNT]
    for i in range(work.cursor[C_FRESH]):
        work.slots[work.order[count + i]] = -1
        for x in range(work.cursor[C_VALUES]):
            work.then[i, x] = 0.0


@compiled
def clear(work: Work) -> None:
    """No state has weight."""
    for i in range(work.cursor[C_COUNT]):
        for x in range(work.cursor[C_VALUES]):
            work.now[i, x] = 0.0


@compiled
def forget_value(work: Work) -> None:
    """The hidden chain is where it was before its first step."""
    values = work.cursor[C_VALUES]
    for i in range(work.cursor[C_COUNT]):
        sum_ = 0.0
        for x in range(values):
            sum_ += work.now[i, x]
            work.now[i, x] = 0.0
        work.now[i, values - 1] = sum_
    forget_rounding(work)


@entry
def advance(
    mode: int, steps: Steps, hidden: Hidden, following: Moves, done: Facts, absorbing: Facts, join: Moves, longest: int, most: int,
    prune: float, given: Rows, given_weight: Floats, given_offsets: Ints, work: Work, sums: Floats,
    told: Floats, gone: Floats, lost: Floats, fell: Ints, left: Rows, left_weight: Floats, left_offsets: Ints,
) -> int:  # fmt: skip
    """Move every group on over its steps.

    ``given`` are the pairs that groups begin with, and ``left`` those that they end with, as (state, value), with their weights.
    ``told`` gets the probability of each step, ``gone`` that of what was absorbed at it, ``lost``, by group, what pruning left
    out; ``sums`` is room for those of a step. ``longest`` is after how many idle steps nothing is left of a situation; -1 where
    time does not count. A group whose worlds would be in more than ``most`` states is left as it is before that step, and ``fell``
    gets the step.
    """
    cursor, order, slots, now = work.cursor, work.order, work.slots, work.now
    values = now.shape[1]
    groups = len(steps.offsets) - 1
    cursor[C_VALUES], cursor[C_LOOKS] = values, 1 if len(hidden.ahead) > 0 else 0
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
                    forget_value(work)
                cursor[C_IDLE] = min(steps.idle[step], longest + 1)
            while cursor[C_IDLE] > 0:
                if grow_older(following, work) != FINISHED:
                    return NEXT_UNKNOWN
                cursor[C_IDLE] -= 1
            letters = letters_of(steps, step, join, work)
            if letters < 0:
                return JOIN_UNKNOWN
            status = move(mode, group, step, letters, steps, hidden, following, done, absorbing, join, most, work, sums)
            if status == TOO_MANY:
                take_back(work)
                fell[group] = step
                cursor[C_STEP], cursor[C_REST] = steps.offsets[group + 1], 0
                break
            if status != FINISHED:
                take_back(work)
                return status
            if mode == MODEL and sums[S_WHOLE] == 0.0:
                # No value explains what was read: it says nothing, and is counted.
                take_back(work)
                hidden.reading[steps.at[step]] = len(hidden.likelihood) - 1
                cursor[C_IMPOSSIBLE] += 1
                continue
            clear(work)
            # Of readings only the posterior counts; of all else weights add up to one as they are.
            posterior = mode in (JOINT, MODEL)
            scale = 1.0 / sums[S_WHOLE] if posterior and sums[S_WHOLE] > 0.0 else 1.0
            lost[group] += settle(scale, prune, work)
            # Where what comes cannot be, it says nothing.
            told[step] = sums[S_DONE] / sums[S_AHEAD] if posterior and sums[S_AHEAD] > 0.0 else sums[S_DONE] * scale
            gone[step] = sums[S_GONE]
            cursor[C_STEP] += 1
            cursor[C_IDLE] = -1
        if cursor[C_REST] < 0:
            if steps.ends[group]:
                forget_value(work)
            cursor[C_REST] = min(steps.rest[group], longest + 1)
        while cursor[C_REST] > 0:
            if grow_older(following, work) != FINISHED:
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
