"""Tables of other libraries as Arrow tables: Polars, DuckDB and all objects with the Arrow PyCapsule interface."""

from __future__ import annotations

import pyarrow as pa

from perseid.errors import EventDataError, type_name

_HINT = "Cast the column to another type, or remove it."


def is_arrow_stream(data: object) -> bool:
    """True for a table of another library that Arrow reads: not for Arrow's own tables, and not for pandas frames."""
    if isinstance(data, pa.Table | pa.RecordBatch) or type_name(data).startswith("pandas."):
        return False
    return hasattr(data, "__arrow_c_stream__") or type_name(data) == "polars.LazyFrame"


def read_arrow_stream(data: object) -> pa.Table:
    """Return the rows of a table of another library; a lazy frame of Polars is collected."""
    name = type_name(data)
    if name == "polars.LazyFrame":
        data = data.collect()  # type: ignore[attr-defined]
    if name.startswith("polars."):
        _refuse_objects(name, data)
    try:
        return pa.RecordBatchReader.from_stream(data).read_all()
    except pa.ArrowInvalid as error:
        raise EventDataError(f"The {name} cannot be read as an Arrow table: {error}.", hint=_HINT) from None


def _refuse_objects(name: str, frame: object) -> None:
    """Raise an error for columns of Python objects: Polars exports their addresses instead of their values."""
    for column, kind in getattr(frame, "schema", {}).items():
        if kind.is_object():
            raise EventDataError(f"Column {column!r} of the {name} has Python objects.", hint=_HINT)


def without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type with plain strings and binaries in place of views, also nested: Arrow cannot take rows of views."""
    is_ = pa.types
    if is_.is_string_view(kind):
        return pa.large_string()
    if is_.is_binary_view(kind):
        return pa.large_binary()
    if is_.is_dictionary(kind):
        return pa.dictionary(kind.index_type, without_views(kind.value_type), kind.ordered)
    if is_.is_struct(kind):
        return pa.struct([_field_without_views(field) for field in kind.fields])
    if is_.is_map(kind):
        return pa.map_(_field_without_views(kind.key_field), _field_without_views(kind.item_field))
    if is_.is_list(kind):
        return pa.list_(_field_without_views(kind.value_field))
    if is_.is_large_list(kind):
        return pa.large_list(_field_without_views(kind.value_field))
    if is_.is_fixed_size_list(kind):
        return pa.list_(_field_without_views(kind.value_field), kind.list_size)
    return kind


def _field_without_views(field: pa.Field) -> pa.Field:
    return field.with_type(without_views(field.type))
