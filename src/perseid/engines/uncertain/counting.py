"""Expected number of matches per step: partial matches and the hidden chain, advanced together.

The state of a group is a number for each pair of a partial-match state and a hidden value: the expected number of such
partial matches, summed over all worlds with that value; for the state ``WORLD`` it is the probability of these worlds.
A step moves these numbers along its *edges*, from value to value with a letter, and each partial match goes to all
states that it branches into. Otherwise the kernel works as the kernel of probabilities does: sums are in the order of
the data, and where a branching is unknown, it returns before it has changed anything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from perseid.engines.uncertain import kernel as k
from perseid.engines.uncertain.counting_automaton import WORLD, CountingAutomaton
from perseid.engines.uncertain.exact import AdvanceResult, StateWeights, allocate_buffers, count_steps, in_bytes
from perseid.engines.uncertain.kernel import Floats, Hidden, Ints, Moves, Rows, Steps, Work
from perseid.errors import LimitError
from perseid.runtime.arrays import FloatArray
from perseid.runtime.jit import typed, words

NO_EDGES = k.STATE_LIMIT + 1
"""Additional status: the buffer for the edges of a step is full."""


class Edges(NamedTuple):
    """Transitions of a step: hidden value before and after, letter, and probability."""

    old: Ints
    new: Ints
    letter: Ints
    weight: Floats
    ahead: Floats
    """Likelihood of later readings given the new value."""


class Branchings(NamedTuple):
    """Successors of partial matches: by state and letter a branching; by branching its targets and matches."""

    number: Moves
    offsets: Ints
    targets: Ints
    complete: Floats


_ENTRY_TYPES, _TYPES = words(k.kinds, Steps=Steps, Hidden=Hidden, Work=Work, Edges=Edges, Branchings=Branchings)
compiled = typed(_TYPES, entry=False)
entry = typed(_ENTRY_TYPES, entry=True)


@compiled
def write_edge(edges: Edges, at: int, old: int, new: int, letter: int, weight: float, ahead: float) -> int:
    """Write an edge unless its weight is 0; return the new number of edges."""
    if weight <= 0.0:
        return at
    edges.old[at], edges.new[at], edges.letter[at] = old, new, letter
    edges.weight[at], edges.ahead[at] = weight, ahead
    return at + 1


@compiled
def edges_of(
    mode: int, group: int, step: int, letters: int, steps: Steps, hidden: Hidden, join: Moves, work: Work, edges: Edges, capacity: int,
) -> int:  # fmt: skip
    """Write the edges of a step: hidden chain combined with independent chains. Return their number, or a negative
    status. ``capacity`` is the buffer capacity."""
    values = work.cursor[k.C_VALUES]
    still = steps.still[step] != 0
    first, end = steps.entries[step], steps.entries_end[step]
    at = steps.at[step]
    reading = hidden.reading[at] if mode == k.MODEL else 0
    has_lookahead = work.cursor[k.C_LOOKAHEAD] != 0
    edge_count = 0
    for i in range(letters):
        other_letter = work.seen[i]
        chance = work.chance[other_letter]
        if edge_count + values + end - first > capacity:
            return -NO_EDGES
        e = first
        # Probability that the entries of a value do not cover is that of no event.
        for x in range(values if mode <= k.TABLES or still else 0):
            rest = 1.0
            while e < end and hidden.old[e] == x:
                rest -= hidden.weight[0, e]
                e += 1
            to = x if still else values - 1
            edge_count = write_edge(
                edges, edge_count, x, to, other_letter, rest * chance, hidden.ahead[at, to] if has_lookahead else 1.0
            )
        for e in range(first, end):
            value = hidden.new[e]
            letter = hidden.letters[0, e] if mode <= k.JOINT else hidden.letters[group, value]
            weight = hidden.weight[at if mode == k.SMOOTHED else 0, e] * chance
            if mode == k.MODEL:
                weight *= hidden.likelihood[reading, value]
            if other_letter != 0:
                joint_letter = join[letter, other_letter]
                if joint_letter < 0:
                    work.cursor[k.C_FIRST], work.cursor[k.C_SECOND] = letter, other_letter
                    return -k.JOIN_UNKNOWN
                letter = joint_letter
            edge_count = write_edge(
                edges,
                edge_count,
                hidden.old[e],
                value,
                letter,
                weight,
                hidden.ahead[at, value] if has_lookahead else 1.0,
            )
    return edge_count


@compiled
def quiet(work: Work, edges: Edges) -> int:
    """Write the edges of a step without input: each value stays. Return their number."""
    values = work.cursor[k.C_VALUES]
    for x in range(values):
        write_edge(edges, x, x, x, 0, 1.0, 1.0)
    return values  # type: ignore[no-any-return]


@compiled
def branch(edge_count: int, edges: Edges, branchings: Branchings, work: Work, sums: Floats) -> int:
    """Move all numbers along the edges of a step; return a status. ``sums`` gets the completed matches, the weight of
    all worlds, and that weight times the likelihood of later readings."""
    now, cursor = work.now, work.cursor
    for s in range(k.S_SIZE):
        sums[s] = 0.0
    cursor[k.C_FRESH] = 0
    for i in range(cursor[k.C_COUNT]):
        state = work.order[i]
        for e in range(edge_count):
            mass = now[i, edges.old[e]] * edges.weight[e]
            if mass == 0.0:
                continue
            number = branchings.number[state, edges.letter[e]]
            if number < 0:
                cursor[k.C_FIRST], cursor[k.C_SECOND] = state, edges.letter[e]
                return k.NEXT_UNKNOWN
            if state == WORLD:
                sums[k.S_WHOLE] += mass
                sums[k.S_AHEAD] += mass * edges.ahead[e]
            sums[k.S_DONE] += mass * edges.ahead[e] * branchings.complete[number]
            for t in range(branchings.offsets[number], branchings.offsets[number + 1]):
                work.then[k.slot_of(branchings.targets[t], work), edges.new[e]] += mass
    return k.FINISHED


@compiled
def grow_older(edges: Edges, branchings: Branchings, work: Work, sums: Floats) -> int:
    """Advance by a step without events; return a status."""
    status = branch(quiet(work, edges), edges, branchings, work, sums)
    if status != k.FINISHED:
        k.discard_step(work)
        return status
    k.clear(work)
    k.settle(1.0, 0.0, work)
    return k.FINISHED


@entry
def advance(
    mode: int, steps: Steps, hidden: Hidden, branchings: Branchings, join: Moves, longest: int,
    initial: Rows, initial_weight: Floats, initial_offsets: Ints, work: Work, edges: Edges, sums: Floats,
    expected: Floats, final: Rows, final_weight: Floats, final_offsets: Ints,
) -> int:  # fmt: skip
    """Advance every group over its steps, as the kernel of probabilities does; write the expected matches per step."""
    cursor, order, slots, now = work.cursor, work.order, work.slots, work.now
    values = now.shape[1]
    groups = len(steps.offsets) - 1
    cursor[k.C_VALUES], cursor[k.C_LOOKAHEAD] = values, 1 if len(hidden.ahead) > 0 else 0
    while cursor[k.C_GROUP] < groups:
        group = cursor[k.C_GROUP]
        if cursor[k.C_BEGUN] == 0:
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
            cursor[k.C_COUNT], cursor[k.C_STEP], cursor[k.C_BEGUN] = count, steps.offsets[group], 1
            cursor[k.C_IDLE], cursor[k.C_REST] = -1, -1
        while cursor[k.C_STEP] < steps.offsets[group + 1]:
            step = cursor[k.C_STEP]
            if cursor[k.C_IDLE] < 0:
                if steps.afresh[step] or (mode == k.TABLES and steps.idle[step] > 0):
                    k.reset_hidden(work)
                cursor[k.C_IDLE] = min(steps.idle[step], longest + 1)
            while cursor[k.C_IDLE] > 0:
                status = grow_older(edges, branchings, work, sums)
                if status != k.FINISHED:
                    return status
                cursor[k.C_IDLE] -= 1
            letters = k.letters_of(steps, step, join, work)
            if letters < 0:
                return k.JOIN_UNKNOWN
            edge_count = edges_of(mode, group, step, letters, steps, hidden, join, work, edges, len(edges.old))
            if edge_count < 0:
                return -edge_count
            status = branch(edge_count, edges, branchings, work, sums)
            if status != k.FINISHED:
                k.discard_step(work)
                return status
            if mode == k.MODEL and sums[k.S_WHOLE] == 0.0:
                # No value explains the reading: it is ignored.
                k.discard_step(work)
                hidden.reading[steps.at[step]] = len(hidden.likelihood) - 1
                continue
            k.clear(work)
            posterior = mode in (k.JOINT, k.MODEL)
            scale = 1.0 / sums[k.S_WHOLE] if posterior and sums[k.S_WHOLE] > 0.0 else 1.0
            k.settle(scale, 0.0, work)
            expected[step] = (
                sums[k.S_DONE] / sums[k.S_AHEAD] if posterior and sums[k.S_AHEAD] > 0.0 else sums[k.S_DONE] * scale
            )
            cursor[k.C_STEP] += 1
            cursor[k.C_IDLE] = -1
        if cursor[k.C_REST] < 0:
            if steps.ends[group]:
                k.reset_hidden(work)
            cursor[k.C_REST] = min(steps.rest[group], longest + 1)
        while cursor[k.C_REST] > 0:
            status = grow_older(edges, branchings, work, sums)
            if status != k.FINISHED:
                return status
            cursor[k.C_REST] -= 1
        out = cursor[k.C_OUT]
        if out + cursor[k.C_COUNT] * values > len(final):
            return k.BUFFER_FULL
        for i in range(cursor[k.C_COUNT]):
            for x in range(values):
                if now[i, x] > 0.0:
                    final[out, 0], final[out, 1] = order[i], x
                    final_weight[out] = now[i, x]
                    out += 1
                now[i, x] = 0.0
        cursor[k.C_OUT], final_offsets[group + 1] = out, out
        cursor[k.C_BEGUN] = 0
        cursor[k.C_GROUP] += 1
    return k.FINISHED


def count(
    ways: CountingAutomaton, mode: int, steps: k.Steps, hidden: k.Hidden, initial: StateWeights, *, values: int = 0
) -> AdvanceResult:
    """Advance every group over its steps; compute the expected number of completed matches per step."""
    groups, size = len(steps.offsets) - 1, len(steps.idle)
    longest = count_steps(ways.nfa.longest_us, ways.elapsed) + 1 if ways.nfa.is_timed else -1
    expected, sums = np.zeros(size), np.zeros(k.S_SIZE)
    final, final_weight = np.zeros((1024, 2), np.int64), np.zeros(1024)
    final_offsets = np.zeros(groups + 1, np.int64)
    work, edges = allocate_buffers(ways, values + 1, None), _edges(256 + 2 * values)
    steps = in_bytes(steps)
    while True:
        branchings = Branchings(ways.next, ways.offsets, ways.targets, ways.complete)
        with np.errstate(all="ignore"):
            status = advance(
                mode, steps, hidden, branchings, ways.join, longest, initial.pairs, initial.weight, initial.offsets, work, edges,
                sums, expected, final, final_weight, final_offsets,
            )  # fmt: skip
        first, second = int(work.cursor[k.C_FIRST]), int(work.cursor[k.C_SECOND])
        if status == k.FINISHED:
            out = int(work.cursor[k.C_OUT])
            weights = StateWeights(final[:out].copy(), final_weight[:out].copy(), final_offsets)
            _refuse_infinite(ways, expected, weights)
            return AdvanceResult(expected, weights, np.zeros(groups), 0, np.zeros(size), np.full(groups, -1, np.int64))
        if status == k.BUFFER_FULL:
            added = 2 * len(final) + len(ways.states) * (values + 1)
            final = np.concatenate([final, np.zeros((added, 2), np.int64)])
            final_weight = np.concatenate([final_weight, np.zeros(added)])
        elif status == NO_EDGES:
            edges = _edges(2 * len(edges.old) + len(hidden.old) + values)
        elif status == k.NEXT_UNKNOWN:
            ways.resolve(first, second)
        else:
            ways.joined(first, second)
        work = allocate_buffers(ways, values + 1, work)


def _edges(size: int) -> Edges:
    old, new, letter = (np.zeros(size, np.int64) for _ in range(3))
    return Edges(old, new, letter, np.zeros(size), np.zeros(size))


def _refuse_infinite(ways: CountingAutomaton, expected: FloatArray, weights: StateWeights) -> None:
    if not (np.isfinite(expected).all() and np.isfinite(weights.weight).all()):
        raise LimitError(
            f"Pattern {ways.pattern.name} has too many partial matches: their number exceeds the range of a double.",
            hint="Add a window: the number grows with every event.",
        )
