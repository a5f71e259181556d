"""Selects a few events of many: all of them if they are few, else those of one key."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from perseid.engines.sequence.columns import column_type
from perseid.engines.sequence.stream import Events, read_events
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.events import Event
from perseid.semantics.scope import attribute_path
from perseid.tables.columns import are_paths, read_table
from perseid.tables.parquet import is_dataset, open_parquet

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset as ds

Key: TypeAlias = Mapping[tuple[str, ...], object]
"""Key values by the path to their column, or to a field inside one."""


SelectedRows: TypeAlias = "pa.Table | pd.DataFrame | list[object]"
"""Rows in memory."""


def select_events(stream: Events, key: Key, most: int) -> list[Event] | None:
    """The events, or only those of the key if there are more than ``most``; None if these are still more."""
    selected: dict[str | None, SelectedRows] = {}
    for event_type, source in stream.inputs():
        named = dict(zip(stream.key_names(), source.columns("key"), strict=True))
        path_values = {(named.get(head, head), *inside): value for (head, *inside), value in key.items()}
        selected[event_type] = _select_rows(source.data, path_values, most)
        if sum(map(len, selected.values())) > most:
            return None
    return read_events(replace(stream, data=selected if isinstance(stream.data, Mapping) else selected[None]))


def column_types(stream: Events) -> dict[str, t.Type]:
    """The column types that the engine infers; of Parquet files only the schema is read."""
    types: dict[str, t.Type] = {}
    for _, source in stream.inputs():
        table = read_table(open_parquet(source.data).head(0) if are_paths(source.data) else source.data, None)
        for name, column in table.columns.items():
            found = column_type(column)
            types[name] = found if name not in types else t.wider(types[name], found) or t.Variant()
    return types


def _select_rows(data: Any, key: Key, most: int) -> SelectedRows:
    if are_paths(data):
        data = open_parquet(data)
    if is_dataset(data):
        chosen = None if data.count_rows() <= most else _condition(data.schema, key)
        data = data.head(most + 1, filter=chosen)
    elif hasattr(data, "__arrow_c_stream__") and not hasattr(data, "to_dict"):
        data = pa.table(data)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, Sized):
        data = list(data)
    if len(data) > most:
        data = _of_key(data, key)
    return _in_micros(data) if isinstance(data, pa.Table) else data


def _of_key(data: Any, key: Key) -> SelectedRows:
    """Rows with the key's values; in tables, fields inside columns are checked later."""
    if isinstance(data, pa.Table):
        chosen = _condition(data.schema, key)
        return data if chosen is None else data.filter(chosen)
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        for (name, *inside), value in key.items():
            if name in data.columns and not inside:
                data = data[data[name].isna() if value is None else data[name] == value]
        return data
    wanted = {path: v.identity(v.plain(value)) for path, value in key.items()}
    return [
        row
        for row in data
        if isinstance(row, Mapping)
        and all(v.identity(v.plain(attribute_path(row, path))) == value for path, value in wanted.items())
    ]


def _condition(schema: pa.Schema, key: Key) -> ds.Expression | None:
    import pyarrow.dataset as ds

    conjunction = None
    for (name, *inside), value in key.items():
        if name not in schema.names or inside:
            continue
        column = ds.field(name)
        try:
            condition = column.is_null() if value is None else column == pa.scalar(value, schema.field(name).type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            condition = ds.scalar(False)  # a value the column cannot have
        conjunction = condition if conjunction is None else conjunction & condition
    return conjunction


def _in_micros(table: pa.Table) -> pa.Table:
    """Cast nanosecond timestamps to microseconds, the resolution of Python."""
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            kind = pa.timestamp("us", column.type.tz)
            table = table.set_column(at, column.name, table.column(at).cast(kind, safe=False))
    return table
