"""Counts matches without enumerating them: ``->>`` can have more matches than fit into memory.

For a chain of steps, each reached by ``->>`` and decided by its event alone, an event is a small matrix: row i, column
j is the number of ways in which it extends a partial match of i steps to one of j. The matrix of a range of events is
the product of theirs, and matches that end with an event are counted by the product over its window. Windows slide, so
products are stored in two stacks (those in front are suffix products), and an event costs a few products of small
matrices, however many partial matches are open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perseid.compile import program as p
from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.lang.ast import Contiguity
from perseid.lang.expressions import Ref
from perseid.runtime.arrays import IntArray
from perseid.runtime.jit import jit

OVERFLOW = -1


@dataclass(frozen=True)
class CountablePattern:
    """A pattern that can be counted without enumerating: its steps, and which of them repeat."""

    steps: tuple[int, ...]
    repeated: tuple[bool, ...]
    window: int | None
    variable: int | None
    """The column by which all steps are unified, or None; each of its values is counted separately."""


def chain_of(bytecode: CompiledPattern) -> CountablePattern | str:
    """The chain of a pattern, or the reason why its matches have to be enumerated."""
    core, programs = bytecode.pattern.pattern, bytecode.pattern.programs
    head = bytecode.tables
    if core.context is not None or core.skip.mode != "none":
        return "'selection' or 'after match skip' selects the matches"
    if core.lead or core.holds_for is not None or bytecode.pattern.guards or core.report_timeouts:
        return "it has a leading 'not', a minimum duration, a condition at the end, or timeouts"
    if head[y.S_WITHIN_COUNT] >= 0:
        return "its window counts events"
    if len(programs) > 1:
        return "it has a negation"
    if core.suppress is not None:
        return "it suppresses matches"
    if head[y.S_STRICTLY]:
        return "a later step needs a later time"
    steps: list[int] = []
    repeated: list[bool] = []
    contiguity = Contiguity.ANY
    code = list(programs[0].instructions)
    at = 0
    while at < len(code):
        match code[at]:
            case p.TakeEvent(step=step):
                if contiguity is not Contiguity.ANY:
                    return "an arrow is not ->>"
                steps.append(step)
                repeated.append(False)
            case p.SetHop(hop=hop):
                if hop.after is not None or hop.within is not None:
                    return "an arrow has its own time bounds"
                contiguity = hop.contiguity
            case p.LoopEnter():
                turn, take, back = code[at + 1 : at + 4]
                if (
                    not isinstance(turn, p.LoopTurn)
                    or not isinstance(take, p.TakeEvent)
                    or not isinstance(back, p.LoopBack)
                ):
                    return "a group is repeated"
                if contiguity is not Contiguity.ANY or turn.hop.contiguity is not Contiguity.ANY:
                    return "a repetition does not match every combination"
                if turn.low != 1 or turn.high is not None or turn.until is not None or turn.guards or turn.hop.after:
                    return "a repetition has its own bounds"
                if turn.hop.within is not None:
                    return "a repetition has its own bounds"
                steps.append(take.step)
                repeated.append(True)
                at += 3
            case p.AcceptMatch():
                pass
            case _:
                return "its steps are not a plain chain"
        at += 1
    variable = _variable(bytecode, steps)
    if isinstance(variable, str):
        return variable
    micros = int(head[y.S_WITHIN])
    return CountablePattern(tuple(steps), tuple(repeated), None if micros < 0 else micros, variable)


def _variable(bytecode: CompiledPattern, steps: list[int]) -> int | str | None:
    """The one column in which all steps are equal, by unification or by conditions; None, or a reason to enumerate."""
    head = bytecode.tables
    found: list[tuple[int, int] | None] = []
    for step in steps:
        row = int(head[y.S_STEP_TABLE]) + step * y.STEP_WIDTH
        posting = bytecode.posting_of(step)
        if head[row + y.ST_MUST_COUNT] or head[row + y.ST_MUST_BIT] >= 0:
            return "a condition reads more than its own event"
        count, first = int(head[row + y.ST_UNIFY_COUNT]), int(head[row + y.ST_UNIFY])
        if head[row + y.ST_CHOOSE_COUNT]:
            if posting is None or bytecode.looks_back(step) or count or posting.own != posting.earlier:
                return "a condition reads more than its own event"
            if len(posting.own) > 1:
                return "a step compares several values for equality"
            if not isinstance(bytecode.columns[posting.own[0]].expr, Ref):
                return "a compared value is computed"
            found.append((-1, posting.own[0]))
            continue
        if count > 1:
            return "a step shares several values with others"
        found.append((int(head[first]), int(head[first + 1])) if count else None)
    if found[0] is None and len(found) > 1 and found[1] is not None and found[1][0] == -1:
        found[0] = found[1]  # The first step has no earlier one to equal.
    columns = set(found)
    if columns == {None}:
        return None
    if None in columns or len({name for name, _ in columns if name is not None}) > 1:  # type: ignore[misc]
        return "its steps do not all share one value"
    if len(columns) > 1:
        return "steps share a value of different columns"
    return next(column for _, column in columns)  # type: ignore[misc]


@jit
def count_chains(
    time: Any, fits: Any, repeats: Any, steps: int, window: int, offsets: Any, counts: Any, front: Any, back: Any
) -> int:
    """Add the matches of each partition to ``counts``; returns 0, or OVERFLOW if a number may exceed 64 bits.

    ``fits[i]`` has bit k set if event i fits step k; ``front`` has one matrix per event of the longest partition and
    one more.
    """
    states = steps + 1
    for partition in range(len(offsets) - 1):
        low, high = offsets[partition], offsets[partition + 1]
        first = low  # the first event in the window
        front_end = low  # events before it are in the front stack, as products up to here
        for a in range(states):
            for b in range(states):
                back[a, b] = 1 if a == b else 0
        for i in range(low, high):
            if window >= 0:
                while first < i and time[first] < time[i] - window:
                    first += 1
                    if first > front_end:
                        # The front is empty: it is rebuilt from the events of the back as suffix products.
                        for a in range(states):
                            for b in range(states):
                                front[i - low, a, b] = 1 if a == b else 0
                                back[a, b] = 1 if a == b else 0
                        for k in range(i - 1, first - 1, -1):
                            at, before = k - low, k - low + 1
                            for a in range(states):
                                for b in range(states):
                                    front[at, a, b] = front[before, a, b]
                            for s in range(steps):
                                if fits[k] >> s & 1:
                                    # From s steps to s + 1, and where the step repeats from s + 1 to itself.
                                    for b in range(states):
                                        front[at, s, b] += front[before, s + 1, b]
                                        if repeats[s]:
                                            front[at, s + 1, b] += front[before, s + 1, b]
                                        if front[at, s, b] < 0 or front[at, s + 1, b] < 0:
                                            return OVERFLOW
                        front_end = i
            if fits[i] >> (steps - 1) & 1:
                total = 0
                ends = 2 if repeats[steps - 1] else 1
                for end in range(ends):
                    column = steps - 1 + end
                    if front_end > first:
                        for m in range(states):
                            left, right = front[first - low, 0, m], back[m, column]
                            if left > 0 and right > 0:
                                if left > (2**62) // right:
                                    return OVERFLOW
                                total += left * right
                    else:
                        total += back[0, column]
                    if total < 0 or total > 2**62:
                        return OVERFLOW
                counts[partition] += total
                if counts[partition] < 0:
                    return OVERFLOW
            for s in range(steps - 1, -1, -1):
                if fits[i] >> s & 1:
                    for a in range(states):
                        if repeats[s]:
                            back[a, s + 1] += back[a, s + 1]
                        back[a, s + 1] += back[a, s]
                        if back[a, s + 1] < 0 or back[a, s + 1] > 2**62:
                            return OVERFLOW
    return 0


def count_exactly(time: IntArray, fits: IntArray, chain: CountablePattern, offsets: IntArray) -> list[int]:
    """Count with integers of any size, for counts that exceed 64 bits; each event visits every open start."""
    steps, window = len(chain.steps), chain.window
    out = []
    for low, high in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        total = 0
        open_: list[tuple[int, list[int]]] = []
        for i in range(low, high):
            moment, mask = int(time[i]), int(fits[i])
            if window is not None:
                open_ = [(begun, counts) for begun, counts in open_ if begun >= moment - window]
            if mask >> (steps - 1) & 1 and steps == 1:
                total += 1
            for _, counts in open_:
                for s in range(steps - 1, 0, -1):
                    if mask >> s & 1:
                        new = counts[s - 1] + (counts[s] if chain.repeated[s] else 0)
                        if s == steps - 1:
                            total += new
                        counts[s] += new
                if mask & 1 and chain.repeated[0]:
                    if steps == 1:
                        total += counts[0]
                    counts[0] *= 2
            if mask & 1:
                open_.append((moment, [1, *([0] * (steps - 1))]))
        out.append(total)
    return out


def count_matches(chain: CountablePattern, arrays: y.Arrays, offsets: IntArray, tables: IntArray) -> list[int]:
    """The number of matches of each partition."""
    mask = arrays.events[y.E_MASK]
    fits = np.zeros(len(mask), np.int64)
    for place, step in enumerate(chain.steps):
        bit = int(tables[int(tables[y.S_STEP_TABLE]) + step * y.STEP_WIDTH + y.ST_BIT])
        fits |= (mask >> bit & 1) << place
    time = arrays.events[y.E_TIME]
    counts = np.zeros(len(offsets) - 1, np.int64)
    states = len(chain.steps) + 1
    longest = int(np.diff(offsets).max()) if len(offsets) > 1 else 0
    front = np.zeros((longest + 1 if chain.window is not None else 1, states, states), np.int64)
    back = np.zeros((states, states), np.int64)
    window = -1 if chain.window is None else chain.window
    status = count_chains(time, fits, np.array(chain.repeated), states - 1, window, offsets, counts, front, back)
    if status == OVERFLOW:
        return count_exactly(time, fits, chain, offsets)
    return [int(n) for n in counts]
