"""Frames of models in order, and their output: events computed on arrays, or transactions one by one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa

from perseid.engines.models.column_program import FrameColumns
from perseid.engines.models.frame_events import event_table, happened, ranks_of
from perseid.engines.models.frame_rows import ArrangedFrames, FrameShape
from perseid.engines.models.frames import FrameQueries
from perseid.engines.models.transactions import Key, Transaction
from perseid.runtime.arrays import BoolArray, IntArray
from perseid.runtime.key_encoding import one_chunk
from perseid.semantics.model_steps import EventStreamFilter
from perseid.semantics.values import Value
from perseid.tables.columns import Column


class FrameTable:
    """Frames of local rows, or of one call of a shard."""

    def __init__(
        self,
        shape: FrameShape,
        keys: Mapping[str, Column],
        columns: Mapping[str, Column],
        time: IntArray,
        seen: BoolArray | None = None,
    ) -> None:
        """``columns`` are those that frames set; ``seen`` marks the rows of frames that an earlier call has emitted."""
        self.shape = shape
        self.keys = {name: one_chunk(column) for name, column in keys.items()}
        self.columns = columns
        self.rows = ArrangedFrames(list(self.keys.values()), time)
        self.time = self.rows.time[self.rows.last]
        self.first = self.rows.first_frames()
        self.seen = np.zeros(len(self.time), np.bool_) if seen is None else seen[self.rows.order][self.rows.last]

    def events(self, compiled: FrameQueries, watched: EventStreamFilter, threads: int = 1) -> pa.Table:
        """Return the events of all new frames, computed on arrays."""
        ranks = ranks_of(compiled, watched)
        columns = {one.name: self.rows.vector(self.columns[one.name], one) for one in compiled.program.columns.values()}
        rows, of = happened(compiled, ranks, FrameColumns(self.time, self.first, columns), threads)
        if self.seen.any():
            new = ~self.seen[rows]
            rows, of = rows[new], of[new]
        keys = {name: self.rows.key(column) for name, column in self.keys.items()}
        return event_table(compiled.queries, watched, ranks, (rows, of), self.time, keys, self.shape.element)

    def transactions(self, existing: Collection[Key] = ()) -> Iterator[Transaction]:
        """Yield the changes of each new frame; a model that is not ``existing`` begins with the snapshot."""
        values = {name: _values_at(column, self.rows.rows(column)) for name, column in self.columns.items()}
        at = self.rows.order[self.rows.last]
        keys = [_values_at(column, at) for column in self.keys.values()]
        started: set[Key] = set()
        for frame in np.flatnonzero(~self.seen).tolist():
            key = tuple(column[frame] for column in keys)
            first = key not in started and key not in existing
            started.add(key)
            yield key, int(self.time[frame]), self.shape.changes(values, frame, first)


def _values_at(column: Column, rows: IntArray) -> list[Value]:
    if isinstance(column, list):
        return [column[row] for row in rows.tolist()]
    found: list[Value] = one_chunk(column).take(pa.array(rows)).to_pylist()
    return found
