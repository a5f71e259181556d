"""Key columns of a stream: the path of each key's name, and the column at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.sequence.stream import Events
from perseid.errors import EventDataError
from perseid.tables.columns import Column, Table, column_names


def key_paths(stream: Events) -> tuple[tuple[str, ...], ...]:
    """The path of each key: a name with dots is the column of that name if there is one, else a path into a struct."""
    names, inputs = stream.key_names(), stream.inputs()
    if not any("." in name for _, source in inputs for name in source.columns("key")):
        return tuple((name,) for name in names)
    columns_by_type = {event_type: column_names(source.data) for event_type, source in inputs}
    known = {name for columns in columns_by_type.values() for name in columns}
    paths = tuple((name,) if name in known else tuple(name.split(".")) for name in names)
    for event_type, source in inputs:
        for name, column, path in zip(names, source.columns("key"), paths, strict=True):
            if name != column and (len(path) > 1 or ("." in column and column not in columns_by_type[event_type])):
                raise EventDataError(
                    f"The key {column!r} of {event_type} cannot be renamed to {name!r}, because one of them is a field "
                    "inside a struct.",
                    hint="Add a top-level key column to each input: df.withColumn('user', df['device.user']).",
                )
    return paths


def key_column(table: Table, path: Sequence[str]) -> Column:
    """A key column; one that no row has is all null, and one with values of mixed types stays a list."""
    column = table.columns.get(path[0])
    return pa.nulls(table.rows) if column is None else field_inside(column, path[1:])


def field_inside(column: Column, path: Sequence[str]) -> Column:
    """The field at the end of a path through structs; null if it does not exist."""
    rows = len(column)
    for part in path:
        if isinstance(column, list):
            column = [value.get(part) if isinstance(value, Mapping) else None for value in column]
        elif pa.types.is_struct(column.type) and column.type.get_field_index(part) >= 0:
            column = pc.struct_field(column, part)
        else:
            return pa.nulls(rows)
    return column
