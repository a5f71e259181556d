"""A declared stream of frames: every row sets attributes of a model that begins with a snapshot.

A stream of frames is a stream of changes: the first frame of a model is the changes of the snapshot and those of its
row, every later one those of its row. So it is answered as :class:`~perseid.local.models.Models` is, and where the queries
allow it, for all frames at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.codes import one_chunk
from perseid.engines.models.frame_events import event_table, happened, ranks_of
from perseid.engines.models.frames import FrameQueries
from perseid.engines.models.sheets import Column, FrameColumns, NoArrays
from perseid.engines.models.vectors import BOOLEAN, DOUBLE, INTEGER, KINDS, Vector
from perseid.engines.order import arrange
from perseid.errors import missing_column
from perseid.local.models import Models, type_of, values_of
from perseid.local.tables import Table, read_table, time_column
from perseid.semantics import types as t
from perseid.semantics.graphs import Change, Element
from perseid.semantics.model_steps import Watched

_FAMILIES: dict[type, str] = {t.Boolean: BOOLEAN, t.Integer: INTEGER, t.Double: DOUBLE}


@dataclass(frozen=True)
class Frames(Models):
    """A stream of frames of models, one for each key; make one with :func:`perseid.frames`."""

    each: tuple[Change, ...] = ()
    """The changes that every model begins with."""
    sets: Mapping[str, tuple[Element, str]] = field(default_factory=dict)
    """The element and the attribute that each column of a frame sets."""

    def transactions(self) -> Iterator[tuple[tuple[Any, ...], int, list[Change]]]:
        table = self._table(set(self.sets))
        if not table.rows:
            return
        values = {name: values_of(table, name) for name in self.sets}
        keys = [values_of(table, name) for name in self.key]
        rows = _Arranged(self, table)
        for start, stop in zip(rows.starts, rows.stops, strict=True):
            at = rows.order[start:stop].tolist()
            key = tuple(column[at[0]] for column in keys)
            changes = list(self.each) if rows.first[start] == start else []
            for row in at:
                changes += [
                    Change("set", element, attribute=attribute, value=values[name][row])
                    for name, (element, attribute) in self.sets.items()
                ]
            yield key, int(rows.time[start]), changes

    def event_tables(self, watched: Sequence[Watched]) -> list[pa.Table]:
        """The events, for each that watches them: of all frames at once where that can be, else frame by frame."""
        found: list[pa.Table | None] = []
        for one in watched:
            try:
                found.append(self._at_once(one))
            except NoArrays:
                found.append(None)
        rest = [one for one, table in zip(watched, found, strict=True) if table is None]
        left = iter(super().event_tables(rest) if rest else ())
        return [next(left) if table is None else table for table in found]

    def name_types(self) -> tuple[Any, list[Any]]:
        numbers = all(isinstance(change.element, int) for change in self.each)
        table = self._table(set())
        return pa.int64() if numbers else pa.string(), [type_of(table, name) for name in self.key]

    def why_one_by_one(self, watched: Watched) -> str | None:
        """What keeps frames from being answered all at once; None where nothing does."""
        try:
            asked = self._asked(watched)
            table = read_table(self.data, set(asked.sheet.columns))
            for column in asked.sheet.columns.values():
                if column.name in table.columns:
                    _kind(table, column)
        except NoArrays as reason:
            return str(reason)
        return None

    def _at_once(self, watched: Watched) -> pa.Table:
        asked = self._asked(watched)
        ranks = ranks_of(asked, watched)
        table = self._table(set(asked.sheet.columns))
        if not table.rows:
            raise NoArrays("a table without rows")
        element, kinds = self.name_types()
        rows = _Arranged(self, table)
        columns = {column.name: rows.vector(_read(table, column)) for column in asked.sheet.columns.values()}
        time, first = rows.time[rows.last], rows.first_of_last()
        events = happened(asked, ranks, FrameColumns(time, first, columns), os.cpu_count() or 1)
        keys = {name: rows.key(table.columns[name], kind) for name, kind in zip(self.key, kinds, strict=True)}
        return event_table(self.queries, watched, ranks, events, time, keys, element)

    def _asked(self, watched: Watched) -> FrameQueries:
        if watched.changes:
            raise NoArrays("elementary changes, which patterns ask for")
        kinds = self.queries.kinds
        types = {change.element: str(change.kind) for change in self.each if change.action == "create"}
        columns: dict[tuple[Element, str], Column] = {}
        for name, (element, attribute) in self.sets.items():
            type_ = kinds.attribute_type(types[element], attribute)
            columns[element, attribute] = Column(name, _FAMILIES.get(type(type_), str(type_)))
        return FrameQueries(self.queries, self.each, columns, watched.queries)

    def _table(self, columns: set[str]) -> Table:
        table = read_table(self.data, {self.time, *self.key, *columns})
        for name in (*self.key, *sorted(columns)):
            if name not in table.columns and table.rows:
                role = "key" if name in self.key else "value of " + ".".join(map(str, self.sets[name]))
                raise missing_column("The table of frames", name, role, list(table.names), "ps.frames(rows, …)")
        return table

    def __repr__(self) -> str:
        by = ", ".join(self.key) or "one model"
        return f"<model {self.queries.kinds.metamodel.name}: frames of {len(self.sets)} columns by {by}>"


class _Arranged:
    """The rows of frames by model and time; those of one model and time are one frame, and the last of them counts."""

    def __init__(self, frames: Frames, table: Table) -> None:
        self.time = np.asarray(time_column(table, frames.time))
        for name in frames.key:
            type_of(table, name)
        found = arrange([one_chunk(table.columns[name]) for name in frames.key], self.time, [], None)
        self.sorted = bool((found.order[1:] > found.order[:-1]).all())
        self.order = found.order
        if not self.sorted:
            self.time = self.time[self.order]
        self.first = np.repeat(found.offsets[:-1], np.diff(found.offsets))
        new = np.ones(len(self.order), np.bool_)
        new[1:] = (self.time[1:] != self.time[:-1]) | (self.first[1:] != self.first[:-1])
        self.starts = np.flatnonzero(new)
        self.stops = np.append(self.starts[1:], len(self.order))[: len(self.starts)]
        self.single = len(self.starts) == len(self.order)
        self.last: Any = slice(None) if self.single else self.stops - 1
        self.partitions = found.offsets[:-1]

    def first_of_last(self) -> Any:
        """For each frame the first frame of its model."""
        if self.single:
            return self.first
        return np.searchsorted(self.starts, self.first[self.starts])

    def vector(self, column: Vector) -> Vector:
        """A column of rows as one of frames."""
        if self.sorted and self.single:
            return column
        at = self.order[self.last]
        return Vector(column.values[at], None if column.missing is None else column.missing[at])

    def key(self, column: Any, kind: Any) -> Any:
        """A key column by frame: of texts there is one for each model, and frames have its number."""
        column = one_chunk(column)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            number = np.searchsorted(self.partitions, self.first[self.last])
            values = column.take(pa.array(self.order[self.partitions]))
            return pa.DictionaryArray.from_arrays(pa.array(number.astype(np.int32)), values)
        return column if self.sorted and self.single else column.take(pa.array(self.order[self.last]))


def _kind(table: Table, column: Column) -> Any:
    """The values of a column as arrays hold them; those that a model would refuse or read otherwise go one by one."""
    found = table.columns[column.name]
    if not isinstance(found, list):
        kind, is_ = found.type, pa.types
        fits = {
            BOOLEAN: is_.is_boolean(kind),
            INTEGER: is_.is_integer(kind),
            DOUBLE: is_.is_floating(kind) or is_.is_integer(kind),
        }
        if is_.is_null(kind) or fits.get(column.family, False):
            return found
    what = "values of several kinds" if isinstance(found, list) else f"{found.type}"
    raise NoArrays(f"the column {column.name}, which has {what} where the attribute is {column.family}")


def _read(table: Table, column: Column) -> Vector:
    found = one_chunk(_kind(table, column))
    kind = KINDS[column.family]
    if pa.types.is_null(found.type):
        return Vector(np.zeros(len(found), kind), np.ones(len(found), np.bool_))
    missing = np.asarray(found.is_null()) if found.null_count else None
    filled = found.fill_null(False if column.family == BOOLEAN else 0) if found.null_count else found
    return Vector(np.ascontiguousarray(filled.to_numpy(zero_copy_only=False)).astype(kind, copy=False), missing)
