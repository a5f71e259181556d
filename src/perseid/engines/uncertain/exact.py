"""Running the kernel: room to work in, and the automaton asked about what it does not know yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perseid.engines.uncertain import kernel as k
from perseid.engines.uncertain.automaton import Automaton, TooManyStates
from perseid.runtime.arrays import BoolArray, ByteArray, FloatArray, IntArray


@dataclass(frozen=True)
class Weights:
    """What is known of groups: by group pairs of a state and a hidden value, with their weights."""

    pairs: IntArray
    weight: FloatArray
    offsets: IntArray

    @classmethod
    def fresh(cls, groups: int, values: int) -> Weights:
        """Before anything happened: no configuration, no value."""
        pairs = np.zeros((groups, 2), np.int64)
        pairs[:, 1] = values
        return cls(pairs, np.ones(groups), np.arange(groups + 1))


@dataclass(frozen=True)
class Moved:
    """The probability of every step, what is known afterwards, and what pruning left out of each group."""

    told: FloatArray
    weights: Weights
    lost: FloatArray
    impossible: int
    gone: FloatArray
    """By step: what was absorbed at it."""
    fell: IntArray
    """By group: the step that would have led its worlds into too many states, or -1; it is left as it was before that."""


def move(
    automaton: Automaton,
    mode: int,
    steps: k.Steps,
    hidden: k.Hidden,
    given: Weights,
    *,
    values: int = 0,
    prune: float = 0.0,
    absorbing: Callable[[Automaton], BoolArray] | None = None,
    falls: bool = False,
) -> Moved:
    """Every group over its steps; ``values`` are those of the hidden chain, without that of no event.

    ``absorbing`` says with which letters, by state, worlds are absorbed: by default those that complete the pattern.
    Unless somebody takes over where a group ``falls``, there being too many states is an error.
    """
    groups, count = len(steps.offsets) - 1, len(steps.idle)
    nfa = automaton.nfa
    longest = -1
    if nfa.is_timed:
        # Where nothing bounds how long a configuration waits, it still does not change for ever: ages stop counting.
        longest = count_steps(nfa.longest_us, automaton.elapsed) + 1
    told, gone, lost = np.zeros(count), np.zeros(count), np.zeros(groups)
    fell = np.full(groups, -1, np.int64)
    begin = given.pairs.copy()
    left, left_weight = np.zeros((1024, 2), np.int64), np.zeros(1024)
    left_offsets = np.zeros(groups + 1, np.int64)
    work = room(automaton, values + 1, None)
    sums = np.zeros(k.S_SIZE)
    steps = in_bytes(steps)
    while True:
        done = _bytes(automaton.done)
        absorbed = done if absorbing is None else _bytes(absorbing(automaton))
        with np.errstate(all="ignore"):
            status = k.advance(
                mode, steps, hidden, automaton.next, done, absorbed, automaton.join, longest, automaton.most, prune,
                begin, given.weight, given.offsets, work, sums, told, gone, lost, fell, left, left_weight, left_offsets,
            )  # fmt: skip
        first, second = int(work.cursor[k.C_FIRST]), int(work.cursor[k.C_SECOND])
        if status == k.FINISHED:
            out = int(work.cursor[k.C_OUT])
            kept = Weights(left[:out].copy(), left_weight[:out].copy(), left_offsets)
            if not falls and (fell >= 0).any():
                raise TooManyStates
            return Moved(told, kept, lost, int(work.cursor[k.C_IMPOSSIBLE]), gone, fell)
        if status == k.NO_ROOM:
            more = 2 * len(left) + len(automaton.states) * (values + 1)
            left = np.concatenate([left, np.zeros((more, 2), np.int64)])
            left_weight = np.concatenate([left_weight, np.zeros(more)])
        elif status == k.NEXT_UNKNOWN and automaton.is_crowded():
            at, many, out = (int(work.cursor[place]) for place in (k.C_GROUP, k.C_COUNT, k.C_OUT))
            automaton.forget(work.order[:many], left[:out, 0], begin[given.offsets[at + 1] :, 0])
        elif status == k.NEXT_UNKNOWN:
            automaton.resolve(first, second)
        else:
            automaton.joined(first, second)
        work = room(automaton, values + 1, work)


def _bytes(truths: k.Truths) -> ByteArray:
    return truths.view(np.uint8)


def in_bytes(steps: k.Steps) -> k.Steps:
    """Steps as kernels take them, which know no truths but bytes."""
    return steps._replace(afresh=_bytes(steps.afresh), still=_bytes(steps.still), ends=_bytes(steps.ends))


def count_steps(micros: int, elapsed: int) -> int:
    """How many steps of the stream lie in a time."""
    return -(-micros // max(elapsed, 1))


def room(automaton: Automaton, values: int, before: k.Work | None) -> k.Work:
    """Room for all states and letters there are; what was under way goes on in it."""
    states, letters = len(automaton.next), automaton.next.shape[1]
    if before is not None and len(before.slots) >= states and len(before.seen) >= letters:
        return before
    work = k.Work(
        cursor=np.zeros(k.C_SIZE, np.int64),
        order=np.zeros(2 * states, np.int64),
        slots=np.full(states, -1, np.int64),
        now=np.zeros((states, values)),
        then=np.zeros((states, values)),
        seen=np.zeros(letters, np.int64),
        chance=np.zeros(letters),
        aside=np.zeros(letters),
    )
    if before is not None:
        work.cursor[:] = before.cursor
        count = int(before.cursor[k.C_COUNT])
        work.order[:count] = before.order[:count]
        work.now[: len(before.now)] = before.now
    return work
