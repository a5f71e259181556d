"""Drives the kernel: allocates its buffers, and resolves the transitions that it reports as unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from perseid.engines.uncertain import kernel as k
from perseid.engines.uncertain.automaton import Automaton, StateLimitExceeded
from perseid.runtime.arrays import BoolArray, ByteArray, FloatArray, IntArray


@dataclass(frozen=True)
class StateWeights:
    """State of groups: by group, pairs of automaton state and hidden value, with their weights."""

    pairs: IntArray
    weight: FloatArray
    offsets: IntArray

    @classmethod
    def fresh(cls, groups: int, values: int) -> StateWeights:
        """Return the initial state: automaton state 0, no hidden value."""
        pairs = np.zeros((groups, 2), np.int64)
        pairs[:, 1] = values
        return cls(pairs, np.ones(groups), np.arange(groups + 1))


@dataclass(frozen=True)
class AdvanceResult:
    """Probability per step, state after the call, and probability mass lost to pruning per group."""

    probability: FloatArray
    weights: StateWeights
    lost: FloatArray
    impossible: int
    absorbed: FloatArray
    """By step: probability absorbed at it."""
    fell: IntArray
    """By group: the step at which its worlds exceed the state limit, or -1; its state is that before the step."""


def move(
    automaton: Automaton,
    mode: int,
    steps: k.Steps,
    hidden: k.Hidden,
    initial: StateWeights,
    *,
    values: int = 0,
    prune: float = 0.0,
    absorbing: Callable[[Automaton], BoolArray] | None = None,
    falls: bool = False,
) -> AdvanceResult:
    """Advance every group over its steps; ``values`` is the number of hidden values, not counting "no event".

    ``absorbing`` returns a table by state and letter: True where worlds are absorbed. The default is the transitions
    that complete the pattern. Unless ``falls`` is set, so that the caller handles groups over the state limit,
    exceeding it raises ``StateLimitExceeded``.
    """
    groups, count = len(steps.offsets) - 1, len(steps.idle)
    nfa = automaton.nfa
    longest = -1
    if nfa.is_timed:
        # Without a time bound, ages still stop changing after the longest duration of the pattern.
        longest = count_steps(nfa.longest_us, automaton.elapsed) + 1
    probability, absorbed_weight, lost = np.zeros(count), np.zeros(count), np.zeros(groups)
    limit_step = np.full(groups, -1, np.int64)
    initial_pairs = initial.pairs.copy()
    final, final_weight = np.zeros((1024, 2), np.int64), np.zeros(1024)
    final_offsets = np.zeros(groups + 1, np.int64)
    work = allocate_buffers(automaton, values + 1, None)
    sums = np.zeros(k.S_SIZE)
    steps = in_bytes(steps)
    while True:
        done = _bytes(automaton.done)
        absorbed = done if absorbing is None else _bytes(absorbing(automaton))
        with np.errstate(all="ignore"):
            status = k.advance(
                mode, steps, hidden, automaton.next, done, absorbed, automaton.join, longest, automaton.most, prune,
                initial_pairs, initial.weight, initial.offsets, work, sums, probability, absorbed_weight, lost, limit_step, final, final_weight, final_offsets,
            )  # fmt: skip
        first, second = int(work.cursor[k.C_FIRST]), int(work.cursor[k.C_SECOND])
        if status == k.FINISHED:
            out = int(work.cursor[k.C_OUT])
            weights = StateWeights(final[:out].copy(), final_weight[:out].copy(), final_offsets)
            if not falls and (limit_step >= 0).any():
                raise StateLimitExceeded
            return AdvanceResult(
                probability, weights, lost, int(work.cursor[k.C_IMPOSSIBLE]), absorbed_weight, limit_step
            )
        if status == k.BUFFER_FULL:
            added = 2 * len(final) + len(automaton.states) * (values + 1)
            final = np.concatenate([final, np.zeros((added, 2), np.int64)])
            final_weight = np.concatenate([final_weight, np.zeros(added)])
        elif status == k.NEXT_UNKNOWN and automaton.is_crowded():
            at, count_of_states, out = (int(work.cursor[slot]) for slot in (k.C_GROUP, k.C_COUNT, k.C_OUT))
            automaton.evict_states(
                work.order[:count_of_states], final[:out, 0], initial_pairs[initial.offsets[at + 1] :, 0]
            )
        elif status == k.NEXT_UNKNOWN:
            automaton.resolve(first, second)
        else:
            automaton.joined(first, second)
        work = allocate_buffers(automaton, values + 1, work)


def _bytes(truths: k.Truths) -> ByteArray:
    return truths.view(np.uint8)


def in_bytes(steps: k.Steps) -> k.Steps:
    """View booleans as bytes, the type that kernels take."""
    return steps._replace(afresh=_bytes(steps.afresh), still=_bytes(steps.still), ends=_bytes(steps.ends))


def count_steps(micros: int, elapsed: int) -> int:
    """Number of steps that cover a duration, rounded up."""
    return -(-micros // max(elapsed, 1))


def allocate_buffers(automaton: Automaton, values: int, before: k.Work | None) -> k.Work:
    """Buffers for the current number of states and letters; work in progress is copied over."""
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
