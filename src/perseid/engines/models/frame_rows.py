"""Rows of frames: the attributes that they set, their order, and their columns as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from perseid.engines.models.column_program import FrameColumn, NotVectorizable
from perseid.engines.models.frames import FrameQueries
from perseid.engines.models.vectors import BOOLEAN, DOUBLE, INTEGER, KINDS, Vector
from perseid.runtime.arrays import IntArray
from perseid.runtime.event_order import arrange
from perseid.runtime.key_encoding import one_chunk
from perseid.semantics import types as t
from perseid.semantics.graphs import Change, Element
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_steps import EventStreamFilter
from perseid.semantics.values import Value

_FAMILIES: dict[type, str] = {t.Boolean: BOOLEAN, t.Integer: INTEGER, t.Double: DOUBLE}


@dataclass(frozen=True)
class FrameShape:
    """The snapshot of every model, and the attributes that a frame sets in it."""

    each: tuple[Change, ...]
    """The initial changes of every model."""
    sets: Mapping[str, tuple[Element, str]]
    """Element and attribute set by each column of a frame."""

    @property
    def element(self) -> pa.DataType:
        """The Arrow type of node names."""
        return pa.int64() if all(isinstance(change.element, int) for change in self.each) else pa.string()

    def signature(self) -> tuple[object, ...]:
        """Return the whole shape as plain values, to detect a changed declaration."""
        each = [(c.action, c.element, c.kind, c.attribute, repr(c.value), c.target) for c in self.each]
        return (each, sorted(self.sets.items()))

    def compile_queries(self, queries: Queries, watched: EventStreamFilter) -> FrameQueries:
        """Compile the watched queries for arrays of frames."""
        if watched.changes:
            raise NotVectorizable("patterns match elementary changes")
        types = {change.element: str(change.kind) for change in self.each if change.action == "create"}
        columns: dict[tuple[Element, str], FrameColumn] = {}
        for name, (element, attribute) in self.sets.items():
            type_ = queries.kinds.attribute_type(types[element], attribute)
            columns[element, attribute] = FrameColumn(name, _FAMILIES.get(type(type_), str(type_)))
        return FrameQueries(queries, self.each, columns, watched.queries)

    def changes(self, values: Mapping[str, Sequence[Value]], frame: int, begins: bool) -> list[Change]:
        """Return the changes of a frame; ``begins`` if it is the first of its model."""
        found = list(self.each) if begins else []
        for name, (element, attribute) in self.sets.items():
            found.append(Change("set", element, attribute=attribute, value=values[name][frame]))
        return found

    def needed(
        self, queries: Queries, watched: Iterable[EventStreamFilter], types: Mapping[str, pa.DataType]
    ) -> tuple[str, ...]:
        """Return the columns that affect events; all columns if a group is evaluated frame by frame."""
        found: dict[str, None] = {}
        try:
            for one in watched:
                compiled = self.compile_queries(queries, one)
                for column in compiled.program.columns.values():
                    require_fitting(column, types[column.name])
                found |= dict.fromkeys(compiled.program.columns)
        except NotVectorizable:
            return tuple(self.sets)
        return tuple(name for name in self.sets if name in found)


class ArrangedFrames:
    """Rows of frames sorted by model and time; rows with the same model and time form one frame.

    If a frame has several rows, each column takes its greatest value: the order of rows is undefined, and the value of
    a column must not depend on the other columns that are read.
    """

    def __init__(self, keys: Sequence[pa.Array | pa.ChunkedArray], time: IntArray) -> None:
        self.inputs = (keys, time)
        found = arrange(keys, time, (), None)
        self.sorted = bool((found.order[1:] > found.order[:-1]).all())
        self.order = found.order
        self.time = time if self.sorted else time[self.order]
        self.first = np.repeat(found.offsets[:-1], np.diff(found.offsets))
        new = np.ones(len(self.order), np.bool_)
        new[1:] = (self.time[1:] != self.time[:-1]) | (self.first[1:] != self.first[:-1])
        self.starts = np.flatnonzero(new)
        self.stops = np.append(self.starts[1:], len(self.order))[: len(self.starts)]
        self.single = len(self.starts) == len(self.order)
        self.last: slice | IntArray = slice(None) if self.single else self.stops - 1
        self.partitions = found.offsets[:-1]

    def __len__(self) -> int:
        return len(self.starts)

    def rows(self, column: pa.Array | pa.ChunkedArray) -> IntArray:
        """Return, for each frame, the row with the greatest value of a column."""
        order = self.order if self.single else arrange(*self.inputs, [column], None).order
        return order[self.last]

    def first_frames(self) -> IntArray:
        """Return, for each frame, the first frame of its model."""
        if self.single:
            return self.first
        return np.searchsorted(self.starts, self.first[self.starts])

    def vector(self, column: pa.Array | pa.ChunkedArray, named: FrameColumn) -> Vector:
        """Convert a column of rows to a column of frames."""
        found = vector_of(column, named)
        if self.sorted and self.single:
            return found
        at = self.rows(column)
        return Vector(found.values[at], None if found.missing is None else found.missing[at])

    def key(self, column: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return a key column by frame; strings are dictionary-encoded with one entry per model."""
        column = one_chunk(column)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            number = np.searchsorted(self.partitions, self.first[self.last])
            values = column.take(pa.array(self.order[self.partitions]))
            return pa.DictionaryArray.from_arrays(pa.array(number.astype(np.int32)), values)
        return column if self.sorted and self.single else column.take(pa.array(self.order[self.last]))


def require_fitting(column: FrameColumn, kind: pa.DataType) -> None:
    """Raise :class:`NotVectorizable` unless arrays can hold the values of a column as the model reads them."""
    is_ = pa.types
    fits = {
        BOOLEAN: is_.is_boolean(kind),
        INTEGER: is_.is_integer(kind),
        DOUBLE: is_.is_floating(kind) or is_.is_integer(kind),
    }
    if not is_.is_null(kind) and not fits.get(column.family, False):
        raise NotVectorizable(f"column {column.name} is {kind}, and its attribute is {column.family}")


def vector_of(values: pa.Array | pa.ChunkedArray, column: FrameColumn) -> Vector:
    """Convert a column to an array with a mask of missing values."""
    found = one_chunk(values)
    kind = KINDS[column.family]
    if pa.types.is_null(found.type):
        return Vector(np.zeros(len(found), kind), np.ones(len(found), np.bool_))
    missing = np.asarray(found.is_null()) if found.null_count else None
    filled = found.fill_null(False if column.family == BOOLEAN else 0) if found.null_count else found
    return Vector(np.ascontiguousarray(filled.to_numpy(zero_copy_only=False)).astype(kind, copy=False), missing)
