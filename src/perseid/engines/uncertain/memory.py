"""State of a pattern between calls: per group, the probabilities of (state, hidden value) pairs or sampled worlds, and
the open alert or span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perseid.engines.uncertain.chains import RetainedChains, no_retained_chains
from perseid.engines.uncertain.exact import StateWeights
from perseid.engines.uncertain.plan import UncertainPlan
from perseid.engines.uncertain.streams import Known
from perseid.engines.uncertain.traces import NEVER, ChainGroups
from perseid.engines.uncertain.window_history import WindowHistory
from perseid.engines.uncertain.worlds import Worlds
from perseid.runtime.arrays import ArrowColumn, BoolArray, FloatArray, IntArray
from perseid.runtime.event_batch import EventBatch, take_events

OFF = NEVER
"""Start of an alert or a span in groups that have none."""


@dataclass(frozen=True)
class GroupStates:
    """Groups of one pattern, in any order."""

    keys: Sequence[ArrowColumn]
    """The group key columns."""
    last: IntArray
    """By group: the last evaluated step."""
    weights: StateWeights
    """Hidden values are indices into ``values``; the index after the last means "no event"."""
    values: IntArray
    """For tables: sorted hashes of the values; for models: their numbers."""
    since: IntArray
    peak: FloatArray
    error: FloatArray
    """By group: first step of the open alert or span; of a span, the highest probability and its error bound."""
    lost: FloatArray
    """By group: probability mass lost to pruning."""
    worlds: Mapping[int, Worlds] = field(default_factory=dict)
    """By sampled group: its worlds; such a group has no pairs."""

    def __len__(self) -> int:
        return len(self.last)

    @property
    def hidden(self) -> BoolArray:
        """By group: True if it has a hidden value."""
        some = np.zeros(len(self), bool)
        owner = np.repeat(np.arange(len(self)), np.diff(self.weights.offsets))
        some[owner[self.weights.pairs[:, 1] != len(self.values)]] = True
        some[[group for group, worlds in self.worlds.items() if worlds.values]] = True
        return some

    def among(self, values: IntArray) -> GroupStates:
        """Re-index the hidden values to a larger set."""
        stored_index = np.append(np.searchsorted(values, self.values), len(values)).astype(np.int64)
        pairs = self.weights.pairs.copy()
        pairs[:, 1] = stored_index[pairs[:, 1]]
        return replace(self, weights=replace(self.weights, pairs=pairs), values=values)


def no_group_states(keys: Sequence[ArrowColumn], values: IntArray) -> GroupStates:
    """Return an empty state."""
    none, empty_state = np.zeros(0, np.int64), np.zeros(0)
    weights = StateWeights(np.zeros((0, 2), np.int64), empty_state, np.zeros(1, np.int64))
    return GroupStates(
        [key.slice(0, 0) for key in keys], none, weights, values, none, empty_state, empty_state, empty_state
    )


def chosen_weights(weights: StateWeights, groups: IntArray) -> StateWeights:
    """Select the weights of some groups, in the given order."""
    lengths = np.diff(weights.offsets)[groups]
    starts = weights.offsets[:-1][groups]
    ends = np.cumsum(lengths)
    rows = np.repeat(starts - (ends - lengths), lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
    return StateWeights(weights.pairs[rows], weights.weight[rows], np.append(0, ends).astype(np.int64))


def initial_weights(memory: GroupStates, stored_index: IntArray, chain_groups: ChainGroups) -> StateWeights:
    """Initial weights of the groups of a lot: the stored ones (``stored_index``, -1 for none), or the initial state."""
    old = stored_index[chain_groups.groups]
    fresh = StateWeights.fresh(len(old), chain_groups.values)
    if not (old >= 0).any():
        return fresh
    lengths = np.where(old >= 0, np.diff(memory.weights.offsets)[np.maximum(old, 0)], 1)
    ends = np.cumsum(lengths)
    pairs = np.repeat(fresh.pairs, lengths, axis=0)
    weight = np.ones(len(pairs))
    stored = chosen_weights(memory.weights, old[old >= 0])
    rows = np.repeat(old >= 0, lengths)
    own = stored.pairs.copy()
    own[own[:, 1] == len(memory.values), 1] = chain_groups.values
    pairs[rows], weight[rows] = own, stored.weight
    return StateWeights(pairs, weight, np.append(0, ends).astype(np.int64))


def is_plain(weights: StateWeights, values: int) -> BoolArray:
    """By group: True if its state is the initial one."""
    lengths = np.diff(weights.offsets)
    first = np.minimum(weights.offsets[:-1], max(len(weights.pairs) - 1, 0))
    if not len(weights.pairs):
        none: BoolArray = lengths == 0
        return none
    plain: BoolArray = (lengths == 1) & (weights.pairs[first, 0] == 0) & (weights.pairs[first, 1] == values)
    return plain


@dataclass(frozen=True)
class UncertainState:
    """The state of a shard."""

    known: int | None
    """Step up to which rows were assumed complete."""
    done: int | None
    """Step up to which rows were evaluated."""
    buffered: EventBatch
    lives: Mapping[str, RetainedChains]
    """By event type with readings."""
    memories: Mapping[str, GroupStates]
    """By state name of the pattern (``PlannedQuery.memory``)."""
    histories: Mapping[str, WindowHistory] = field(default_factory=dict)
    """The same, for patterns that are evaluated over windows."""


def empty_state(plan: UncertainPlan, rows: EventBatch) -> UncertainState:
    """Return the initial state of a shard."""
    none = take_events(rows, np.zeros(0, np.int64))
    lives = {part.type: no_retained_chains(part, none) for part in plan.streams.parts if part.known is Known.READ}
    return UncertainState(None, None, none, lives, {})
