"""A few events out of many: all of them where they are few, else those of one key."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from perseid.engines.sequence.columns import column_type
from perseid.local.parquet import open_parquet
from perseid.local.rows import Events, read_events
from perseid.local.tables import are_paths, read_table
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.events import Event
from perseid.semantics.scope import attribute_path


def few_events(stream: Events, key: Mapping[str, Any] | None, most: int) -> list[Event] | None:
    """The events in hand, at most so many; None where even those of the key are more."""
    if not isinstance(stream.data, Mapping):
        rows = _few(stream.data, key or {}, most)
        return None if len(rows) > most else read_events(replace(stream, data=rows))
    found: list[Event] = []
    for event_type, data in stream.data.items():
        named = dict(zip(stream.key_names(), stream.columns("key", event_type), strict=False))
        rows = _few(data, {named.get(name, name): value for name, value in (key or {}).items()}, most)
        if len(rows) + len(found) > most:
            return None
        time = stream.time.get(event_type, "") if isinstance(stream.time, Mapping) else stream.time
        roles = (time, stream.columns("id", event_type), stream.columns("order_by", event_type))
        found += typed_events(rows, stream, event_type, *roles, named)
    return found


def typed_events(
    rows: Any,
    stream: Events,
    event_type: str | None,
    time: str,
    id: tuple[str, ...],
    order_by: tuple[str, ...],
    keys: Mapping[str, str] | None = None,
) -> list[Event]:
    """Rows of one input as events; an input of one type needs no column that says so, and its keys may be renamed."""
    named = replace(stream, data=rows, time=time, id=id, order_by=order_by, key=())
    if event_type is None:
        return read_events(named)
    renamed = [(there, here) for there, here in (keys or {}).items() if there != here]
    # Every column can be read as a type; what was read is replaced.
    return [
        replace(
            event,
            type=event_type,
            attributes={**event.attributes, **{there: event.attributes.get(here) for there, here in renamed}},
        )
        for event in read_events(replace(named, type=time))
    ]


def column_types(stream: Events) -> dict[str, t.Type]:
    """The types of the columns, as the engine sees them; of Parquet files only the schema is read."""
    inputs = stream.data.values() if isinstance(stream.data, Mapping) else [stream.data]
    types: dict[str, t.Type] = {}
    for data in inputs:
        table = read_table(open_parquet(data).head(0) if are_paths(data) else data, None)
        for name, column in table.columns.items():
            found = column_type(column)
            types[name] = found if name not in types else t.wider(types[name], found) or t.Variant()
    return types


def _few(data: Any, key: Mapping[str, Any], most: int) -> Any:
    if are_paths(data):
        data = open_parquet(data)
    if isinstance(data, ds.Dataset):
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


def _of_key(data: Any, key: Mapping[str, Any]) -> Any:
    """Rows that have the key's values, as far as columns tell; what is inside of columns is asked later."""
    if isinstance(data, pa.Table):
        chosen = _condition(data.schema, key)
        return data if chosen is None else data.filter(chosen)
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        for name, value in key.items():
            if name in data.columns:
                data = data[data[name].isna() if value is None else data[name] == value]
        return data
    wanted = {tuple(name.split(".")): v.identity(v.plain(value)) for name, value in key.items()}
    return [
        row
        for row in data
        if isinstance(row, Mapping)
        and all(v.identity(v.plain(attribute_path(row, path))) == value for path, value in wanted.items())
    ]


def _condition(schema: Any, key: Mapping[str, Any] | None) -> Any:
    found = None
    for name, value in (key or {}).items():
        if name not in schema.names:
            continue
        column = ds.field(name)
        try:
            one = column.is_null() if value is None else column == pa.scalar(value, schema.field(name).type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            one = ds.scalar(False)  # a value the column cannot have
        found = one if found is None else found & one
    return found


def _in_micros(table: Any) -> Any:
    """Times of other units in microseconds, which is what Python has."""
    for at, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            kind = pa.timestamp("us", column.type.tz)
            table = table.set_column(at, column.name, table.column(at).cast(kind, safe=False))
    return table
