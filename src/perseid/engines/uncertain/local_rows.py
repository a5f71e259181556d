"""Reads the tables of a local uncertain stream into an event batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from perseid.engines.uncertain.stream import Belief, UncertainEvents, role_of
from perseid.engines.uncertain.streams import CHANCE, GIVEN
from perseid.errors import EventDataError, missing_column
from perseid.runtime.arrays import Int32Array, IntArray
from perseid.runtime.event_batch import EventBatch
from perseid.runtime.hashing import hash_columns
from perseid.semantics import values as v
from perseid.tables.columns import Table, read_table, time_column, type_codes


def read_rows(stream: UncertainEvents, columns_read: Iterable[str], relations: Mapping[str, v.Relation]) -> EventBatch:
    """Read all rows, with the columns that the engine and the patterns need."""
    columns_wanted = set(columns_read)
    tables: list[pa.Table] = []
    kinds: list[Int32Array] = []
    names: list[str] = []
    times: list[IntArray] = []
    for part in stream.parts:
        table = _read(part, columns_wanted)
        times.append(time_column(table, part.time))
        tables.append(_named(part, table, columns_wanted))
        kinds.append(np.full(table.rows, len(names), np.int32))
        names.append(part.stream.type)
    for events in stream.certain:
        for kind, one in events.inputs():
            table = read_table(one.data)
            times.append(time_column(table, one.time))
            codes, own = (np.zeros(table.rows, np.int32), [kind]) if kind is not None else type_codes(table, one.type)
            kinds.append(np.where(codes < 0, -1, codes + len(names)).astype(np.int32))
            names += own
            tables.append(_whole(table, columns_wanted & table.columns.keys()))
    whole = _stacked(tables)
    columns = {name: whole[name].combine_chunks() for name in whole.column_names if name != _HIDDEN}
    time = np.concatenate(times)
    # Only certain events need an identity; all others are identified by their key.
    identity = (
        hash_columns([pa.array(time), *(columns[name] for name in sorted(columns))])
        if stream.certain
        else np.zeros(len(time), np.int64)
    )
    return EventBatch(time, np.concatenate(kinds), names, columns, {}, identity, relations=dict(relations))


_HIDDEN = "\0rows"
"""Placeholder column that gives a table without columns its row count."""


def _read(part: Belief, columns_wanted: set[str]) -> Table:
    sources = part.sources()
    table = read_table(part.data, {*sources.values(), *columns_wanted, part.time})
    there = list(table.names or table.columns)
    for ours, name in sources.items():
        if name not in table.columns and (table.rows or there):
            raise missing_column(
                f"The table of {part.stream.type}", name, role_of(ours), there, "ps.uncertain_events(data, …)"
            )
    return table


def _named(part: Belief, table: Table, columns_wanted: set[str]) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for ours, name in part.sources().items():
        # An empty list of rows has no columns; that is no error.
        columns[ours] = _column(table, name) if name in table.columns else pa.nulls(0)
        if ours == CHANCE:
            columns[ours] = as_doubles(columns[ours], part.stream.type, name)
    for name in columns_wanted & table.columns.keys():
        columns.setdefault(name, _column(table, name))
    return pa.table({**columns, _HIDDEN: pa.nulls(table.rows)})


def as_doubles(column: pa.Array | pa.ChunkedArray, type_: str, name: str) -> pa.Array | pa.ChunkedArray:
    """Cast a probability column to float64."""
    try:
        return column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise EventDataError(
            f"Column {name!r} of {type_}: expected probabilities, got {column.type}.",
            hint="Use another column: probability='…'.",
        ) from None


def _whole(table: Table, columns_wanted: Iterable[str]) -> pa.Table:
    return pa.table({**{name: _column(table, name) for name in columns_wanted}, _HIDDEN: pa.nulls(table.rows)})


def _column(table: Table, name: str) -> pa.Array:
    column = table.columns[name]
    if isinstance(column, list):
        if all(one is None or isinstance(one, (list, tuple)) for one in column):
            return pa.array(column, pa.list_(pa.float64()))
        raise EventDataError(
            f"Column {name!r} has values of several types.",
            hint="Cast the column to one type.",
        )
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _stacked(tables: list[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        kinds: dict[str, set[str]] = {}
        for table in tables:
            for one in table.schema:
                kinds.setdefault(one.name, set()).add(str(one.type))
        name = next((name for name, found in kinds.items() if len(found - {"null"}) > 1), "")
        raise EventDataError(
            f"Column {name.removeprefix(GIVEN)!r} is {' in one table and '.join(sorted(kinds.get(name, set())))} in another.",
            hint="Cast one of them.",
        ) from error
