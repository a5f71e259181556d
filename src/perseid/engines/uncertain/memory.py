"""What is kept of a pattern between calls: for each group pairs of a state and a hidden value, or random worlds, and where its
answers stood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from perseid.engines.uncertain.chains import Lives, no_lives
from perseid.engines.uncertain.exact import Weights
from perseid.engines.uncertain.past import Past
from perseid.engines.uncertain.plan import UncertainPlan
from perseid.engines.uncertain.streams import Known
from perseid.engines.uncertain.traces import NEVER, Lot
from perseid.engines.uncertain.worlds import Worlds
from perseid.runtime.arrays import ArrowColumn, BoolArray, FloatArray, IntArray
from perseid.runtime.event_batch import EventBatch, take_events

OFF = NEVER
"""Since when an alert or a span lasts, where none does."""


@dataclass(frozen=True)
class Memory:
    """Groups, in any order."""

    keys: Sequence[ArrowColumn]
    """The columns that they are put together by."""
    last: IntArray
    """By group: the last step that counted."""
    weights: Weights
    """Values are numbered as ``values`` has them, and after them comes that of no event."""
    values: IntArray
    """Of tables: hashes of the values there are; of models: their numbers."""
    since: IntArray
    peak: FloatArray
    error: FloatArray
    """By group: since which step an alert or a span lasts; of a span, the highest probability and how far it may be off."""
    lost: FloatArray
    """By group: what pruning left out."""
    worlds: Mapping[int, Worlds] = field(default_factory=dict)
    """By group that is sampled; such a group has no pairs."""

    def __len__(self) -> int:
        return len(self.last)

    @property
    def hidden(self) -> BoolArray:
        """By group: whether it has a hidden value."""
        some = np.zeros(len(self), bool)
        owner = np.repeat(np.arange(len(self)), np.diff(self.weights.offsets))
        some[owner[self.weights.pairs[:, 1] != len(self.values)]] = True
        some[[group for group, worlds in self.worlds.items() if worlds.values]] = True
        return some

    def among(self, values: IntArray) -> Memory:
        """The same, with more values."""
        places = np.append(np.searchsorted(values, self.values), len(values)).astype(np.int64)
        pairs = self.weights.pairs.copy()
        pairs[:, 1] = places[pairs[:, 1]]
        return replace(self, weights=replace(self.weights, pairs=pairs), values=values)


def no_memory(keys: Sequence[ArrowColumn], values: IntArray) -> Memory:
    """That nothing is kept."""
    none, nothing = np.zeros(0, np.int64), np.zeros(0)
    weights = Weights(np.zeros((0, 2), np.int64), nothing, np.zeros(1, np.int64))
    return Memory([key.slice(0, 0) for key in keys], none, weights, values, none, nothing, nothing, nothing)


def chosen_weights(weights: Weights, groups: IntArray) -> Weights:
    """The weights of some groups, in their order."""
    lengths = np.diff(weights.offsets)[groups]
    starts = weights.offsets[:-1][groups]
    ends = np.cumsum(lengths)
    rows = np.repeat(starts - (ends - lengths), lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
    return Weights(weights.pairs[rows], weights.weight[rows], np.append(0, ends).astype(np.int64))


def begun(memory: Memory, places: IntArray, lot: Lot) -> Weights:
    """What the groups of a lot begin with: what is kept of them (``places``, -1 for nothing), or nothing yet."""
    old = places[lot.groups]
    fresh = Weights.fresh(len(old), lot.values)
    if not (old >= 0).any():
        return fresh
    lengths = np.where(old >= 0, np.diff(memory.weights.offsets)[np.maximum(old, 0)], 1)
    ends = np.cumsum(lengths)
    pairs = np.repeat(fresh.pairs, lengths, axis=0)
    weight = np.ones(len(pairs))
    kept = chosen_weights(memory.weights, old[old >= 0])
    rows = np.repeat(old >= 0, lengths)
    own = kept.pairs.copy()
    own[own[:, 1] == len(memory.values), 1] = lot.values
    pairs[rows], weight[rows] = own, kept.weight
    return Weights(pairs, weight, np.append(0, ends).astype(np.int64))


def is_plain(weights: Weights, values: int) -> BoolArray:
    """By group: whether nothing is known of it that was not known before it began."""
    lengths = np.diff(weights.offsets)
    first = np.minimum(weights.offsets[:-1], max(len(weights.pairs) - 1, 0))
    if not len(weights.pairs):
        none: BoolArray = lengths == 0
        return none
    plain: BoolArray = (lengths == 1) & (weights.pairs[first, 0] == 0) & (weights.pairs[first, 1] == values)
    return plain


@dataclass(frozen=True)
class Kept:
    """The state of a shard."""

    known: int | None
    """Up to which step rows were taken to have come."""
    done: int | None
    """Up to which step they counted."""
    waiting: EventBatch
    lives: Mapping[str, Lives]
    """By type of event that is read."""
    memories: Mapping[str, Memory]
    """By what a pattern means."""
    pasts: Mapping[str, Past] = field(default_factory=dict)
    """The same, of those that look back over windows."""


def nothing(plan: UncertainPlan, rows: EventBatch) -> Kept:
    """The state of a shard that has seen nothing."""
    none = take_events(rows, np.zeros(0, np.int64))
    lives = {part.type: no_lives(part, none) for part in plan.streams.parts if part.known is Known.READ}
    return Kept(None, None, none, lives, {})
