"""A query without variables, evaluated from any of its steps on, as safe plans require for intervals.

A track starts at its first step, or at a later one as if no steps preceded it: hidden chains start from their marginal
distribution, and the automaton from its initial state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from perseid.engines.uncertain import kernel as k
from perseid.engines.uncertain.automaton import Automaton
from perseid.engines.uncertain.exact import StateWeights, move
from perseid.engines.uncertain.reading import SymbolEncoder
from perseid.engines.uncertain.traces import ChainGroups
from perseid.runtime.arrays import BoolArray, FloatArray, IntArray
from perseid.runtime.jit import jit

BLOCK = 1 << 21
"""Target number of steps per kernel call; a track of n steps is evaluated from each of them, in n * n steps."""
_BY_STEP = ("idle", "afresh", "still", "others", "others_end", "entries", "entries_end", "at")


@dataclass(frozen=True)
class Track:
    """One group of a lot."""

    reader: SymbolEncoder
    chain_groups: ChainGroups
    start: FloatArray | None = None
    """By hidden value, "no event" last: its probability before the first step, if there were earlier steps."""
    chain: int = 0
    """For tables: hash of the chain's key."""

    @cached_property
    def after(self) -> FloatArray:
        """By step and hidden value: the marginal probability after the step."""
        chain_groups = self.chain_groups
        out = np.zeros((len(chain_groups.step), chain_groups.values + 1))
        now = self._nowhere() if self.start is None else self.start.copy()
        steps, hidden = chain_groups.steps, chain_groups.hidden
        spread(
            chain_groups.mode == k.TABLES, steps.idle, steps.afresh, steps.still, steps.entries, steps.entries_end, steps.at,
            hidden.old, hidden.new, hidden.weight, now, out,
        )  # fmt: skip
        return out

    def _nowhere(self) -> FloatArray:
        out = np.zeros(self.chain_groups.values + 1)
        out[-1] = 1.0
        return out

    def _before(self, first: int) -> FloatArray:
        """By hidden value: the marginal probability before a step."""
        steps = self.chain_groups.steps
        if steps.afresh[first] or (self.chain_groups.mode == k.TABLES and steps.idle[first] > 0):
            return self._nowhere()
        if first:
            before: FloatArray = self.after[first - 1]
            return before
        return self._nowhere() if self.start is None else self.start

    def is_quiet(self, grid: IntArray) -> bool:
        """Return True if it has no step in the grid."""
        low, high = np.searchsorted(self.chain_groups.step, [grid[0], grid[-1] + 1])
        return bool(low == high)

    def over(
        self, grid: IntArray, absorbing: Callable[[Automaton], BoolArray] | None = None
    ) -> tuple[FloatArray, FloatArray] | None:
        """By first absorbing step of a grid and by step: probability of completing the query, and of being absorbed.

        Evaluation starts at the beginning of the grid. The result is None if the track has no step in it. ``absorbing``
        marks the transitions that absorb worlds: by default those that complete the query.
        """
        chain_groups, count = self.chain_groups, len(grid)
        low, high = (int(place) for place in np.searchsorted(chain_groups.step, [grid[0], grid[-1] + 1]))
        if low == high:
            return None
        step_count = high - low
        completed, absorbed = np.zeros((step_count, step_count)), np.zeros((step_count, step_count))
        at_once = max(1, BLOCK // step_count)
        for begin in range(0, step_count, at_once):
            count_of_starts = min(step_count, begin + at_once) - begin
            steps = _from_each(chain_groups.steps, low, high, np.arange(begin, begin + count_of_starts))
            hidden = chain_groups.hidden
            if chain_groups.mode >= k.MODEL:
                hidden = hidden._replace(letters=np.repeat(hidden.letters, count_of_starts, axis=0))
            moved = move(
                self.reader.automaton, chain_groups.mode, steps, hidden, self._weights(low, count_of_starts), values=chain_groups.values,
                absorbing=absorbing,
            )  # fmt: skip
            completed[begin : begin + count_of_starts] = moved.probability.reshape(count_of_starts, step_count)
            absorbed[begin : begin + count_of_starts] = moved.absorbed.reshape(count_of_starts, step_count)
        places = np.searchsorted(grid, chain_groups.step[low:high])
        # A start between two steps of the track is equivalent to a start at the next one.
        first = np.searchsorted(places, np.arange(count))
        inside = np.flatnonzero(first < step_count)
        early = np.tril(np.ones((count, count), bool), -1)
        out = []
        for found in (completed, absorbed):
            whole = np.zeros((count, count))
            whole[np.ix_(inside, places)] = found[first[inside]]
            whole[early] = 0.0
            out.append(whole)
        return out[0], out[1]

    def _weights(self, first: int, many: int) -> StateWeights:
        """Initial weights of that many groups, which start at a step."""
        if not self.chain_groups.values:
            return StateWeights.fresh(many, 0)
        before = self._before(first)
        some = np.flatnonzero(before)
        pairs = np.stack([np.zeros(len(some), np.int64), some], axis=1)
        return StateWeights(np.tile(pairs, (many, 1)), np.tile(before[some], many), np.arange(many + 1) * len(some))


def track_of(
    reader: SymbolEncoder, chain_groups: ChainGroups, group: int, start: FloatArray | None = None, chain: int = 0
) -> Track:
    """Extract one group of a lot."""
    low, high = int(chain_groups.steps.offsets[group]), int(chain_groups.steps.offsets[group + 1])
    steps = chain_groups.steps._replace(
        offsets=np.array([0, high - low]),
        absorbs=np.array([high - low]),
        rest=chain_groups.steps.rest[:1],
        ends=chain_groups.steps.ends[:1],
        **{name: getattr(chain_groups.steps, name)[low:high] for name in _BY_STEP},
    )
    hidden = chain_groups.hidden
    if chain_groups.mode >= k.MODEL:
        hidden = hidden._replace(letters=hidden.letters[group : group + 1])
    one = replace(
        chain_groups,
        groups=chain_groups.groups[group : group + 1],
        step=chain_groups.step[low:high],
        steps=steps,
        hidden=hidden,
    )
    return Track(reader, one, start, chain)


def _from_each(steps: k.Steps, low: int, high: int, begins: IntArray) -> k.Steps:
    """Repeat a range of steps for each start, from which on worlds are absorbed."""
    many, count = len(begins), high - low
    return steps._replace(
        offsets=np.arange(many + 1) * count,
        absorbs=np.arange(many) * count + begins,
        rest=np.zeros(many, np.int64),
        ends=np.zeros(many, bool),
        **{name: np.tile(getattr(steps, name)[low:high], many) for name in _BY_STEP},
    )


@jit
def spread(
    tables: bool, idle: Any, afresh: Any, still: Any, first: Any, end: Any, at: Any, old: Any, new: Any, weight: Any, now: Any,
    out: Any,
) -> None:  # fmt: skip
    """Marginal distributions of a hidden chain after each step, written to ``out``, from that before its first step.

    Sums are in the order of values and entries. Where "no event" is certain, its probability is exactly 1, whatever
    came before.
    """
    values = len(now)
    then = np.zeros(values)
    for i in range(len(idle)):
        if afresh[i] or (tables and idle[i] > 0):
            now[:] = 0.0
            now[values - 1] = 1.0
        if not still[i]:
            row = 0 if tables else at[i]
            then[:] = 0.0
            e = first[i]
            if tables:
                for x in range(values):
                    rest = 1.0
                    while e < end[i] and old[e] == x:
                        rest -= weight[0, e]
                        e += 1
                    if rest > 0.0:
                        then[values - 1] += now[x] * rest
            for e in range(first[i], end[i]):
                then[new[e]] += now[old[e]] * weight[row, e]
            some = False
            for x in range(values - 1):
                some = some or then[x] > 0.0
            now[:] = then
            if not some:
                now[values - 1] = 1.0
        out[i] = now
