"""A declared stream of frames: every row sets attributes of a model that begins with a snapshot.

A stream of frames is a stream of changes: the first frame of a model has the changes of the snapshot and of its row,
every later frame those of its row. So it is evaluated as :class:`~perseid.engines.models.stream.Models` is, and if the
queries allow it, for all frames at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from perseid.compile.plan import Plan
from perseid.engines.models.column_program import FrameColumn, NotVectorizable
from perseid.engines.models.frame_rows import FrameShape, require_fitting
from perseid.engines.models.frame_table import FrameTable
from perseid.engines.models.stream import Data_co, Models, bind_patterns, type_of
from perseid.engines.models.transactions import Transaction
from perseid.errors import missing_column
from perseid.runtime.query import Query, TableSchema
from perseid.semantics.graphs import Change, Element
from perseid.semantics.model_steps import EventStreamFilter, EventStreamGroup
from perseid.tables.columns import Column, Table, read_table, time_column


@dataclass(frozen=True)
class Frames(Models[Data_co]):
    """A stream of frames of models, one model for each key; create it with :func:`perseid.graph.frames`."""

    each: tuple[Change, ...] = ()
    """The initial changes of every model."""
    sets: Mapping[str, tuple[Element, str]] = field(default_factory=dict)
    """Element and attribute set by each column of a frame."""

    has_frames: ClassVar[bool] = True

    @cached_property
    def shape(self) -> FrameShape:
        return FrameShape(self.each, self.sets)

    def bind(self, groups: Sequence[tuple[EventStreamGroup, Plan]], schemas: Sequence[TableSchema]) -> Query:
        """Return the query of patterns over tables with these schemas."""
        return bind_patterns(self, groups, schemas, self.shape)

    def transactions(self) -> Iterator[Transaction]:
        """Yield one transaction for each frame, as :meth:`Models.transactions` does for changes."""
        table = self._table(set(self.sets))
        if not table.rows:
            return
        yield from self._frames(table, {name: table.columns[name] for name in self.sets}).transactions()

    def event_tables(self, watched: Sequence[EventStreamFilter]) -> tuple[list[pa.Table], list[str]]:
        """Return tables of events and the reasons of rejected changes; all frames at once if possible."""
        found: list[pa.Table | None] = []
        for one in watched:
            try:
                found.append(self._at_once(one))
            except NotVectorizable:
                found.append(None)
        rest = [one for one, table in zip(watched, found, strict=True) if table is None]
        tables, rejected = super().event_tables(rest) if rest else ([], [])
        left = iter(tables)
        return [next(left) if table is None else table for table in found], rejected

    def name_types(self) -> tuple[pa.DataType, list[pa.DataType]]:
        table = self._table(set())
        return self.shape.element, [type_of(table, name) for name in self.key]

    def why_one_by_one(self, watched: EventStreamFilter, types: Mapping[str, pa.DataType] | None = None) -> str | None:
        """Return why frames are evaluated one by one; None if all at once. ``types`` are the Arrow types of columns."""
        try:
            compiled = self.shape.compile_queries(self.queries, watched)
            table = read_table(self.data, set(compiled.program.columns)) if types is None else None
            for column in compiled.program.columns.values():
                if table is not None and column.name in table.columns:
                    _fitting(table, column)
                elif types is not None and column.name in types:
                    require_fitting(column, types[column.name])
        except NotVectorizable as reason:
            return str(reason)
        return None

    def _at_once(self, watched: EventStreamFilter) -> pa.Table:
        compiled = self.shape.compile_queries(self.queries, watched)
        table = self._table(set(compiled.program.columns))
        if not table.rows:
            raise NotVectorizable("the table has no rows")
        columns = {one.name: _fitting(table, one) for one in compiled.program.columns.values()}
        return self._frames(table, columns).events(compiled, watched, os.cpu_count() or 1)

    def _frames(self, table: Table, columns: Mapping[str, Column]) -> FrameTable:
        for name in self.key:
            type_of(table, name)
        keys = {name: table.columns[name] for name in self.key}
        return FrameTable(self.shape, keys, columns, np.asarray(time_column(table, self.time)))

    def _table(self, columns: set[str]) -> Table:
        table = read_table(self.data, {self.time, *self.key, *columns})
        for name in (*self.key, *sorted(columns)):
            if name not in table.columns and table.rows:
                role = "key" if name in self.key else "value of " + ".".join(map(str, self.sets[name]))
                raise missing_column("The table of frames", name, role, list(table.names), "ps.graph.frames(rows, …)")
        return table

    def __repr__(self) -> str:
        by = f"by {', '.join(self.key)}" if self.key else "of one model"
        return f"<model {self.queries.kinds.metamodel.name}: frames of {len(self.sets)} columns {by}>"


def _fitting(table: Table, column: FrameColumn) -> pa.Array | pa.ChunkedArray:
    """Return the values of a column; raise :class:`NotVectorizable` if arrays cannot hold them."""
    found = table.columns[column.name]
    if isinstance(found, list):
        raise NotVectorizable(f"column {column.name} has values of several types, and its attribute is {column.family}")
    require_fitting(column, found.type)
    return found
