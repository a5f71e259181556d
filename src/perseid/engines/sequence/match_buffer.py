"""Matches of a search in flat arrays, and decided matches that are not emitted yet."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.engines.sequence.partials import Partials
from perseid.runtime.arrays import BoolArray, IntArray
from perseid.semantics.contexts import END_OF_TIME


@dataclass(frozen=True)
class MatchBuffer:
    """Matches of a search: one row for each, and their events in flat arrays."""

    partition: IntArray
    timed_out: BoolArray
    end: IntArray
    offsets: IntArray
    steps: IntArray
    positions: IntArray
    unified: IntArray
    """(position, column) for each unified name, -1 if unbound."""
    frontiers: IntArray
    capped: int
    next_timer: int = y.FOREVER
    """Timer: the earliest time at which an open run may be decided without a further event."""
    partials: Partials | None = None
    """Open partial matches for the next call to restore, under a context that needs it."""

    def __len__(self) -> int:
        return len(self.partition)

    @property
    def starts(self) -> IntArray:
        """The position of each match's first event."""
        return self.positions[self.offsets[:-1]]

    def bound_events(self, i: int) -> list[tuple[int, int]]:
        """The events of a match: step and position of each."""
        span = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        return list(zip(self.steps[span].tolist(), self.positions[span].tolist(), strict=True))

    def ends(self, i: int) -> int:
        """The end time of a match."""
        end = int(self.end[i])
        return END_OF_TIME if end == y.FOREVER else end

    def kind(self, i: int) -> str:
        return "timed out" if self.timed_out[i] else "match"


def decided_partials(raw: MatchBuffer) -> Partials:
    """Convert matches that cannot be emitted yet to their stored form, without the branches that led to them."""
    none = np.zeros(len(raw), bool)
    return Partials(raw.offsets, raw.positions, raw.steps, np.zeros(len(raw.steps), np.int64), none, raw.end)


def prepend_decided(bytecode: CompiledPattern, raw: MatchBuffer, decided: Partials, partition: IntArray) -> MatchBuffer:
    """Prepend decided matches of earlier calls that were not emitted yet."""
    if not len(decided):
        return raw
    return replace(
        raw,
        partition=np.concatenate([partition[decided.starts], raw.partition]),
        timed_out=np.concatenate([decided.extended, raw.timed_out]),
        end=np.concatenate([decided.ends, raw.end]),
        offsets=np.concatenate([decided.offsets[:-1], raw.offsets + decided.offsets[-1]]),
        steps=np.concatenate([decided.steps, raw.steps]),
        positions=np.concatenate([decided.events, raw.positions]),
        unified=np.concatenate([_unified(bytecode, decided), raw.unified]),
    )


def _unified(bytecode: CompiledPattern, decided: Partials) -> IntArray:
    """By match and unified name: the (position, column) of the first event that binds it."""
    tables = bytecode.tables
    found = np.full((len(decided), 2 * int(tables[y.S_UNIFIED_COUNT])), -1, np.int64)
    for i in range(len(decided) if found.shape[1] else 0):
        for k in range(decided.offsets[i], decided.offsets[i + 1]):
            row = tables[y.S_STEP_TABLE] + decided.steps[k] * y.STEP_WIDTH
            first = tables[row + y.ST_UNIFY]
            for n in range(first, first + 2 * tables[row + y.ST_UNIFY_COUNT], 2):
                name = 2 * tables[n]
                if found[i, name] < 0:
                    found[i, name : name + 2] = decided.events[k], tables[n + 1]
    return found
