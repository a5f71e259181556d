"""Advances automaton and hidden chain of each group together: exact, in memory independent of the stream length.

The state of a group is a weight for each pair of an automaton state and a hidden value: the probability of all worlds
in both (section 3.1.2). A step moves weights along the transitions of the hidden chain, with the letters of the events,
and sums up those that complete the pattern.

Kernel functions pass addresses to each other, not arrays (see :mod:`perseid.runtime.pointers`), because reference
counting of arrays took most of a step's time.

Every sum is in the order of the data, whatever else is in a call: results are the same to the bit however a stream is
cut into calls. Where the automaton lacks a transition, a function returns before it has changed anything, reports the
missing entry, and is called again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from perseid.runtime.arrays import BoolArray, ByteArray, FloatArray, Int32Array, IntArray
from perseid.runtime.jit import typed, words

Ints: TypeAlias = IntArray
"""1-D int64."""
Rows: TypeAlias = IntArray
"""2-D int64."""
Floats: TypeAlias = FloatArray
Numbers: TypeAlias = FloatArray
"""2-D float64."""
Truths: TypeAlias = ByteArray | BoolArray
"""1-D bytes, 0 or 1; booleans until a kernel is called."""
Facts: TypeAlias = ByteArray
"""2-D bytes, 0 or 1."""
Moves: TypeAlias = Int32Array
"""2-D int32."""

ALONE, TABLES, JOINT, MODEL, SMOOTHED = range(5)
"""Sources of a hidden chain's transitions: none (no hidden chain); rows of the data; joint tables of several chains; a
model with likelihoods of readings; a model with a smoothed table for each step."""
FINISHED, NEXT_UNKNOWN, JOIN_UNKNOWN, BUFFER_FULL, STATE_LIMIT = range(5)
"""Status of a call: finished; transition missing for a state and a letter; joint letter missing for two letters; output
buffer full; and the status of a step that takes the worlds of a group over the state limit."""
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
    C_LOOKAHEAD,
    C_SIZE,
) = range(14)
"""Slots of the cursor: group; step; number of states with weight; arguments of the missing entry (two); output pairs
written; True once the group is initialized; idle steps left before the step, and after the last; readings with zero
likelihood; states that get weight in this step; number of hidden values; True if later readings count."""
S_DONE, S_WHOLE, S_AHEAD, S_ABSORBED, S_SIZE = range(5)
"""Sums over a step: completed weight with lookahead, total weight, total weight with lookahead, absorbed weight."""


class Steps(NamedTuple):
    """Groups, their steps, and the input of each step."""

    offsets: Ints
    """By group: offset of its first step."""
    idle: Ints
    """By step: number of steps without input before it."""
    afresh: Truths
    """By step: True if the hidden chain restarts."""
    still: Truths
    """By step: True if the hidden chain has no entry there, so that it retains its value and has no event."""
    others: Ints
    others_end: Ints
    """By step: range of the rows of chains that are independent from step to step."""
    chain: Ints
    letter: Ints
    share: Floats
    """Of those rows: chain, letter and probability."""
    entries: Ints
    entries_end: Ints
    """By step: range of its transitions; with a model the same for all steps, but empty where the chain is still."""
    at: Ints
    """By step: its index in the per-step arrays of the hidden chain."""
    absorbs: Ints
    """By group: the step from which on worlds are absorbed."""
    rest: Ints
    """By group: number of steps without input after its last one."""
    ends: Truths
    """By group: True if the hidden chain ends after its last step."""


class Hidden(NamedTuple):
    """Transitions of the hidden chain: value before, value after, and weight. The last value means "no event"."""

    old: Ints
    new: Ints
    weight: Numbers
    """By transition, in row 0; for smoothed tables, by step and transition."""
    letters: Rows
    """For tables and joint chains by transition, in row 0; for models by group and value."""
    likelihood: Numbers
    """For models: by reading and value, the likelihood. The last reading is uninformative."""
    reading: Ints
    """By step: a row of the likelihoods."""
    ahead: Numbers
    """By step and value: the likelihood of later readings; empty if these do not count."""


class Work(NamedTuple):
    """Work buffers."""

    cursor: Ints
    order: Ints
    """States with weight, in the order in which they got it; after them, the states that get weight in this step."""
    slots: Ints
    """By state: its row in ``then``, or -1."""
    now: Numbers
    then: Numbers
    """By row and value: weights before and after the step."""
    seen: Ints
    chance: Floats
    aside: Floats
    """Letters of a step by first occurrence; by letter its probability; by position that before the current chain."""


def kinds(numba: Any) -> dict[str, Any]:
    """Numba types of the array aliases."""
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
    """Write the joint letters of independent chains and their probabilities; return the count, -1 if one is missing."""
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
    """Return the row of a state in ``then``; assign the next free row if it has none."""
    slot = work.slots[state]
    if slot < 0:
        slot = work.cursor[C_FRESH]
        work.slots[state] = slot
        work.order[work.cursor[C_COUNT] + slot] = state
        work.cursor[C_FRESH] = slot + 1
    return slot  # type: ignore[no-any-return]


@compiled
def round_initial(work: Work) -> None:
    """Round the weight of a group in the initial state to 1, so that no state is stored for it."""
    last = work.cursor[C_VALUES] - 1
    if work.cursor[C_COUNT] == 1 and work.order[0] == 0 and abs(work.now[0, last] - 1.0) < 1e-9:
        work.now[0, last] = 1.0


@compiled
def settle(scale: float, prune: float, work: Work) -> float:
    """Make ``then`` the current weights, scaled and pruned; update the number of states; return the pruned weight."""
    order, now, then = work.order, work.now, work.then
    count, values = work.cursor[C_COUNT], work.cursor[C_VALUES]
    count_kept, lost = 0, 0.0
    for i in range(work.cursor[C_FRESH]):
        state = order[count + i]
        work.slots[state] = -1
        has_weight = False
        for x in range(values):
            weight = then[i, x] * scale
            then[i, x] = 0.0
            if 0.0 < weight < prune:
                lost += weight
                weight = 0.0
            has_weight = has_weight or weight > 0.0
            now[count_kept, x] = weight
        if has_weight:
            order[count + count_kept] = state
            count_kept += 1
    for i in range(count_kept):
        order[i] = order[count + i]
    work.cursor[C_COUNT] = count_kept
    round_initial(work)
    return lost


@compiled
def advance_idle(following: Moves, work: Work) -> int:
    """Advance by a step without events; return a status."""
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
def add_weight(
    state: int, letter: int, value: int, mass: float, weight_ahead: float, absorbs: bool, following: Moves, done: Facts,
    absorbing: Facts, max_states: int, work: Work, sums: Floats,
) -> int:  # fmt: skip
    """Move one weight along a transition; return a status. ``weight_ahead`` is the weight with the lookahead applied."""
    after = following[state, letter]
    if after < 0:
        work.cursor[C_FIRST], work.cursor[C_SECOND] = state, letter
        return NEXT_UNKNOWN
    sums[S_WHOLE] += mass
    sums[S_AHEAD] += weight_ahead
    if done[state, letter]:
        sums[S_DONE] += weight_ahead
    if absorbs and absorbing[state, letter]:
        sums[S_ABSORBED] += mass
        return FINISHED
    slot = slot_of(after, work)
    if work.cursor[C_FRESH] > max_states:
        return STATE_LIMIT
    work.then[slot, value] += mass
    return FINISHED


@compiled
def move_uncovered(
    i: int, other_letter: int, at: int, first: int, end: int, still: bool, absorbs: bool, hidden: Hidden, following: Moves,
    done: Facts, absorbing: Facts, max_states: int, work: Work, sums: Floats,
) -> int:  # fmt: skip
    """Move the weight that the entries of each value do not cover: to "no event", or, if still, to the same value.

    Handles one state, and one letter of the independent chains; returns a status.
    """
    values, has_lookahead = work.cursor[C_VALUES], work.cursor[C_LOOKAHEAD] != 0
    e = first
    for x in range(values):
        rest = 1.0
        while e < end and hidden.old[e] == x:
            rest -= hidden.weight[0, e]
            e += 1
        mass = work.now[i, x] * rest * work.chance[other_letter]
        if rest <= 0.0 or mass == 0.0:
            continue
        to = x if still else values - 1
        seen = mass * hidden.ahead[at, to] if has_lookahead else mass
        status = add_weight(
            work.order[i], other_letter, to, mass, seen, absorbs, following, done, absorbing, max_states, work, sums
        )
        if status != FINISHED:
            return status
    return FINISHED


@compiled
def move(
    mode: int, group: int, step: int, letters: int, steps: Steps, hidden: Hidden, following: Moves, done: Facts,
    absorbing: Facts, join: Moves, max_states: int, work: Work, sums: Floats,
) -> int:  # fmt: skip
    """Advance the weights of all pairs by one step into at most ``max_states`` states; return a status."""
    now, cursor = work.now, work.cursor
    still = steps.still[step] != 0
    first, end = steps.entries[step], steps.entries_end[step]
    at = steps.at[step]
    reading = hidden.reading[at] if mode == MODEL else 0
    has_lookahead = cursor[C_LOOKAHEAD] != 0
    absorbs = step >= steps.absorbs[group]
    for s in range(S_SIZE):
        sums[s] = 0.0
    cursor[C_FRESH] = 0
    for i in range(cursor[C_COUNT]):
        state = work.order[i]
        for k in range(letters):
            other_letter = work.seen[k]
            chance = work.chance[other_letter]
            if chance == 0.0:
                continue
            if mode <= TABLES or still:
                status = move_uncovered(
                    i,
                    other_letter,
                    at,
                    first,
                    end,
                    still,
                    absorbs,
                    hidden,
                    following,
                    done,
                    absorbing,
                    max_states,
                    work,
                    sums,
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
                if other_letter != 0:
                    joint_letter = join[letter, other_letter]
                    if joint_letter < 0:
                        cursor[C_FIRST], cursor[C_SECOND] = letter, other_letter
                        return JOIN_UNKNOWN
                    letter = joint_letter
                seen = mass * hidden.ahead[at, value] if has_lookahead else mass
                status = add_weight(
                    state, letter, value, mass, seen, absorbs, following, done, absorbing, max_states, work, sums
                )
                if status != FINISHED:
                    return status
    return FINISHED


@compiled
def discard_step(work: Work) -> None:
    """Discard the weights of an incomplete step."""
    count = work.cursor[C_COUNT]
    for i in range(work.cursor[C_FRESH]):
        work.slots[work.order[count + i]] = -1
        for x in range(work.cursor[C_VALUES]):
            work.then[i, x] = 0.0


@compiled
def clear(work: Work) -> None:
    """Set all current weights to 0."""
    for i in range(work.cursor[C_COUNT]):
        for x in range(work.cursor[C_VALUES]):
            work.now[i, x] = 0.0


@compiled
def reset_hidden(work: Work) -> None:
    """Reset the hidden chain to "no event", its value before the first step."""
    values = work.cursor[C_VALUES]
    for i in range(work.cursor[C_COUNT]):
        sum_ = 0.0
        for x in range(values):
            sum_ += work.now[i, x]
            work.now[i, x] = 0.0
        work.now[i, values - 1] = sum_
    round_initial(work)


@entry
def advance(
    mode: int, steps: Steps, hidden: Hidden, following: Moves, done: Facts, absorbing: Facts, join: Moves, longest: int, max_states: int,
    prune: float, initial: Rows, initial_weight: Floats, initial_offsets: Ints, work: Work, sums: Floats,
    completed: Floats, absorbed: Floats, lost: Floats, limit_step: Ints, final: Rows, final_weight: Floats, final_offsets: Ints,
) -> int:  # fmt: skip
    """Advance every group over its steps; return a status.

    ``initial`` are the initial (state, value) pairs of groups, and ``final`` the final ones, with their weights. ``completed``
    gets the probability of each step, ``absorbed`` the probability absorbed at it, and ``lost``, by group, the pruned
    weight; ``sums`` is a buffer for one step. ``longest`` is the number of idle steps after which more of them change
    nothing; -1 if time does not matter. A group with worlds in more than ``max_states`` states is left as it was before that
    step, and ``limit_step`` gets the step.
    """
    cursor, order, slots, now = work.cursor, work.order, work.slots, work.now
    values = now.shape[1]
    groups = len(steps.offsets) - 1
    cursor[C_VALUES], cursor[C_LOOKAHEAD] = values, 1 if len(hidden.ahead) > 0 else 0
    while cursor[C_GROUP] < groups:
        group = cursor[C_GROUP]
        if cursor[C_BEGUN] == 0:
            count = 0
            for i in range(initial_offsets[group], initial_offsets[group + 1]):
                state = initial[i, 0]
                if slots[state] < 0:
                    slots[state] = count
                    order[count] = state
                    count += 1
                now[slots[state], initial[i, 1]] += initial_weight[i]
            for i in range(count):
                slots[order[i]] = -1
            cursor[C_COUNT], cursor[C_STEP], cursor[C_BEGUN] = count, steps.offsets[group], 1
            cursor[C_IDLE], cursor[C_REST] = -1, -1
        while cursor[C_STEP] < steps.offsets[group + 1]:
            step = cursor[C_STEP]
            if cursor[C_IDLE] < 0:
                if steps.afresh[step] or (mode == TABLES and steps.idle[step] > 0):
                    reset_hidden(work)
                cursor[C_IDLE] = min(steps.idle[step], longest + 1)
            while cursor[C_IDLE] > 0:
                if advance_idle(following, work) != FINISHED:
                    return NEXT_UNKNOWN
                cursor[C_IDLE] -= 1
            letters = letters_of(steps, step, join, work)
            if letters < 0:
                return JOIN_UNKNOWN
            status = move(
                mode, group, step, letters, steps, hidden, following, done, absorbing, join, max_states, work, sums
            )
            if status == STATE_LIMIT:
                discard_step(work)
                limit_step[group] = step
                cursor[C_STEP], cursor[C_REST] = steps.offsets[group + 1], 0
                break
            if status != FINISHED:
                discard_step(work)
                return status
            if mode == MODEL and sums[S_WHOLE] == 0.0:
                # No value explains the reading: it is ignored, and counted.
                discard_step(work)
                hidden.reading[steps.at[step]] = len(hidden.likelihood) - 1
                cursor[C_IMPOSSIBLE] += 1
                continue
            clear(work)
            # With a model, weights are normalized to the posterior; otherwise they add up to 1 already.
            posterior = mode in (JOINT, MODEL)
            scale = 1.0 / sums[S_WHOLE] if posterior and sums[S_WHOLE] > 0.0 else 1.0
            lost[group] += settle(scale, prune, work)
            # Without lookahead weight, the lookahead is ignored.
            completed[step] = (
                sums[S_DONE] / sums[S_AHEAD] if posterior and sums[S_AHEAD] > 0.0 else sums[S_DONE] * scale
            )
            absorbed[step] = sums[S_ABSORBED]
            cursor[C_STEP] += 1
            cursor[C_IDLE] = -1
        if cursor[C_REST] < 0:
            if steps.ends[group]:
                reset_hidden(work)
            cursor[C_REST] = min(steps.rest[group], longest + 1)
        while cursor[C_REST] > 0:
            if advance_idle(following, work) != FINISHED:
                return NEXT_UNKNOWN
            cursor[C_REST] -= 1
        out = cursor[C_OUT]
        if out + cursor[C_COUNT] * values > len(final):
            return BUFFER_FULL
        for i in range(cursor[C_COUNT]):
            for x in range(values):
                if now[i, x] > 0.0:
                    final[out, 0], final[out, 1] = order[i], x
                    final_weight[out] = now[i, x]
                    out += 1
                now[i, x] = 0.0
        cursor[C_OUT], final_offsets[group + 1] = out, out
        cursor[C_BEGUN] = 0
        cursor[C_GROUP] += 1
    return FINISHED
