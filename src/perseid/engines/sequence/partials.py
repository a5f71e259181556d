"""Partial matches in the state: the events that each has taken, with their steps and branches.

Under some contexts partial matches take events from one another, so that none can be rebuilt alone. They are stored as
the events they took, each with its step and with the number of the branch that led to it; from these the kernel
restores each. A decided match that cannot be emitted yet is stored with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from perseid.engines.sequence import layout as y
from perseid.engines.sequence.bytecode import CompiledPattern
from perseid.runtime.arrays import BoolArray, IntArray
from perseid.runtime.state_layout import StateColumn, StateTable
from perseid.semantics import values as v


@dataclass(frozen=True)
class Partials:
    """Partial matches of one pattern; those of one key in the order in which events are offered to them."""

    offsets: IntArray
    """Offsets of the events of each."""
    events: IntArray
    """Row numbers, or positions in the arrays of the kernel."""
    steps: IntArray
    branches: IntArray
    extended: BoolArray
    """True if another one extends it, so that it does not time out."""
    ends: IntArray
    """End time of a match that is not emitted yet; NONE if it is open."""

    def __len__(self) -> int:
        return len(self.extended)

    @property
    def starts(self) -> IntArray:
        return self.events[self.offsets[:-1]]

    def select(self, which: BoolArray) -> Partials:
        """Select partial matches by a mask."""
        if which.all():
            return self
        inside = np.repeat(which, np.diff(self.offsets))
        return Partials(
            offsets=_ends_of(np.diff(self.offsets)[which]),
            events=self.events[inside],
            steps=self.steps[inside],
            branches=self.branches[inside],
            extended=self.extended[which],
            ends=self.ends[which],
        )

    def renumbered(self, places: IntArray) -> Partials:
        """Map events to ``places``; partial matches with an event that has none (-1) are dropped."""
        found = replace(self, events=places[self.events])
        return found.select(_each(found.events >= 0, found.offsets))

    @property
    def open(self) -> Partials:
        return self.select(self.ends == y.NONE)

    @property
    def decided(self) -> Partials:
        """Decided matches that are not emitted yet."""
        return self.select(self.ends != y.NONE)


def _ends_of(counts: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _each(truths: BoolArray, offsets: IntArray) -> BoolArray:
    """For each range between offsets: True if all its values are true."""
    before = np.concatenate([[0], np.cumsum(~truths)])
    return before[offsets[1:]] == before[offsets[:-1]]


def no_partials() -> Partials:
    none = np.zeros(0, np.int64)
    return Partials(np.zeros(1, np.int64), none, none, none, np.zeros(0, bool), none)


def concat_partials(*parts: Partials) -> Partials:
    return Partials(
        offsets=_ends_of(np.concatenate([np.diff(part.offsets) for part in parts])),
        events=np.concatenate([part.events for part in parts]),
        steps=np.concatenate([part.steps for part in parts]),
        branches=np.concatenate([part.branches for part in parts]),
        extended=np.concatenate([part.extended for part in parts]),
        ends=np.concatenate([part.ends for part in parts]),
    )


def stores_partials(bytecode: CompiledPattern) -> bool:
    """True if the pattern's partial matches are stored; otherwise each is rebuilt from its first event."""
    return int(bytecode.tables[y.S_CONTEXT]) in (y.CHRONICLE, y.IMMEDIATE, y.RECENT)


# to the kernel and back


def placed_partials(bytecode: CompiledPattern, partials: Partials, places: IntArray, partition: IntArray) -> Partials:
    """Map rows to positions and drop invalid partial matches, which a valid state does not have."""
    found = partials.renumbered(places)
    steps = int(bytecode.tables[y.S_STEPS])
    later = np.ones(len(found.events), bool)
    later[1:] = (found.events[1:] > found.events[:-1]) & (partition[found.events[1:]] == partition[found.events[:-1]])
    later[found.offsets[:-1]] = True
    is_valid = later & (found.steps >= 0) & (found.steps < steps) & (found.branches >= 0)
    return found.select(_each(is_valid, found.offsets))


def encode_partials(partials: Partials, partition: IntArray, count: int) -> IntArray:
    """Encode partial matches for the kernel: the offsets of partitions, then the partial matches of each."""
    partitions = partition[partials.starts]
    order = np.argsort(partitions, kind="stable")
    sizes = np.diff(partials.offsets)
    words = _ends_of(y.CARRIED_HEAD + 3 * sizes[order])
    begins = count + 1 + words[np.searchsorted(partitions[order], np.arange(count + 1))]
    flat = np.empty(int(words[-1]), np.int64)
    flat[words[:-1]] = partials.extended[order]
    flat[words[:-1] + 1] = sizes[order]
    # The offset of each one's events, in the sorted order.
    heads = np.empty(len(partials), np.int64)
    heads[order] = words[:-1] + y.CARRIED_HEAD
    at = np.repeat(heads - 3 * partials.offsets[:-1], sizes) + 3 * np.arange(len(partials.events))
    flat[at], flat[at + 1], flat[at + 2] = partials.steps, partials.branches, partials.events
    return np.concatenate([begins, flat]).astype(np.int64)


def unpack_runs(
    bytecode: CompiledPattern, counts: IntArray, steps: IntArray, positions: IntArray, extended: IntArray
) -> Partials:
    """Decode partial matches that the kernel saved; their step words contain the branch too."""
    step_count = int(bytecode.tables[y.S_STEPS])
    return Partials(
        offsets=_ends_of(counts),
        events=positions,
        steps=steps % step_count,
        branches=steps // step_count,
        extended=extended != 0,
        ends=np.full(len(extended), y.NONE, np.int64),
    )


# in the state

_TAKEN = (
    StateColumn("event", pa.int64(), into="events"),
    StateColumn("step", pa.int32()),
    StateColumn("way", pa.int32()),
)
_TAKEN_TYPE = pa.struct([pa.field(field.name, field.type, nullable=False) for field in _TAKEN])
_LISTS = pa.list_(pa.field("item", _TAKEN_TYPE, nullable=False))
PARTIALS = StateTable(
    "partials",
    (
        StateColumn("pattern", pa.int32(), into="partials"),
        StateColumn("taken", _LISTS, min_size=1, items=StateColumn("item", _TAKEN_TYPE, fields=_TAKEN)),
        StateColumn("went on", pa.bool_()),
        StateColumn("end", pa.int64(), nullable=True, low=v.EARLIEST, high=v.LATEST),
    ),
    optional=True,
)
"""One row for each partial match, with the number of its pattern."""


def partials_table(partials: Sequence[Partials]) -> pa.RecordBatch | None:
    """Make the table of all partial matches; None if there are none."""
    if not partials:
        return None
    rows = concat_partials(*partials)
    numbers = np.repeat(np.arange(len(partials), dtype=np.int32), list(map(len, partials)))
    parts = (rows.events, rows.steps.astype(np.int32), rows.branches.astype(np.int32))
    taken = pa.StructArray.from_arrays(list(map(pa.array, parts)), fields=list(_TAKEN_TYPE))
    lists = pa.ListArray.from_arrays(pa.array(rows.offsets.astype(np.int32)), taken, type=_LISTS)
    return PARTIALS.batch([numbers, lists, rows.extended, pa.array(rows.ends, mask=rows.ends == y.NONE)])


def read_partials(table: pa.RecordBatch | None, patterns: Sequence[str]) -> Mapping[str, Partials]:
    """Read partial matches from their table, by pattern."""
    if table is None:
        return {}
    lists, ends = table.column("taken"), table.column("end")
    event, step, branch = (np.asarray(part).astype(np.int64) for part in lists.flatten().flatten())
    rows = Partials(
        offsets=_ends_of(np.asarray(lists.value_lengths())),
        events=event,
        steps=step,
        branches=branch,
        extended=table.column("went on").to_numpy(zero_copy_only=False),
        ends=np.asarray(ends.fill_null(y.NONE)),
    )
    numbers = np.asarray(table.column("pattern"))
    return {name: rows.select(numbers == n) for n, name in enumerate(patterns)}
