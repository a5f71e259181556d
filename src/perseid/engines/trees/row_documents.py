"""Rows as XML: the root element is ``row``, and its children are the columns.

As in JSON, a field of a struct and an entry of a map is an element of its name, a list is as many elements as it has
items, and a null has no element. Whole columns are converted at once, locally and on executors.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.trees.json_documents import ITEM
from perseid.engines.trees.plain_xml import xml_name, xml_text
from perseid.errors import EventDataError
from perseid.semantics import values as v

ROOT = "row"
_TEXT = pa.large_string()
_NAMELESS = "\x01"
"""Placeholder for an element name that depends on the value, the key of a map; no text contains it."""
_DAY = 86_400_000_000


def rows_to_xml(rows: pa.StructArray) -> pa.LargeBinaryArray:
    """Convert a struct array with columns as fields to one document per row."""
    written = _element(ROOT, _contents(rows), None)
    return written.cast(pa.large_binary())


def has_text(kind: pa.DataType) -> bool:
    """Return whether values of this type can be converted to text."""
    is_ = pa.types
    if is_.is_struct(kind):
        return all(has_text(field.type) for field in kind)
    if is_.is_map(kind):
        return _is_plain(kind.key_type) and has_text(kind.item_type)
    return has_text(kind.value_type) if _is_list(kind) else _is_plain(kind)


def textless(name: str, kind: str) -> EventDataError:
    """Return an error for rows as documents with a column that cannot be converted to text."""
    return EventDataError(
        f"Column {name!r} is {kind}, which cannot be converted to text for documents from rows.",
        hint="Remove it, or cast it to string.",
    )


def _is_plain(kind: pa.DataType) -> bool:
    is_ = pa.types
    tests = (
        is_.is_string, is_.is_large_string, is_.is_boolean, is_.is_integer, is_.is_floating, is_.is_decimal, is_.is_timestamp,
        is_.is_date32, is_.is_duration, is_.is_binary, is_.is_large_binary, is_.is_null,
    )  # fmt: skip
    return any(one(kind) for one in tests) or (is_.is_dictionary(kind) and _is_plain(kind.value_type))


def _is_list(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind))


def _element(name: str, contents: pa.Array, nulls: pa.BooleanArray | None) -> pa.LargeStringArray:
    """By row: an element with a content, or an empty text for a null."""
    written = pc.binary_join_element_wise(
        pa.scalar(f"<{name}>", _TEXT), contents, pa.scalar(f"</{name}>", _TEXT), pa.scalar("", _TEXT)
    )
    return written if nulls is None else pc.if_else(nulls, pa.scalar("", _TEXT), written)


def _elements(name: str, column: pa.Array, is_item: bool = False) -> pa.LargeStringArray:
    """By row: the elements of a named value."""
    column = _clip_years(column)
    kind = column.type
    nulls = column.is_null() if column.null_count or pa.types.is_null(kind) else None
    if _is_list(kind) and not is_item:
        return _joined(column, lambda values: _elements(name, values, is_item=True))
    if _is_list(kind):
        return _element(name, _joined(column, lambda values: _elements(ITEM, values, is_item=True)), nulls)
    if pa.types.is_map(kind):
        return _element(name, _entries(column), nulls)
    return _element(name, _contents(column) if pa.types.is_struct(kind) else _texts(column), nulls)


def _contents(structs: pa.StructArray) -> pa.LargeStringArray:
    """By row: the elements of all fields."""
    written = [_elements(xml_name(f.name), structs.field(i)) for i, f in enumerate(structs.type)]
    return pc.binary_join_element_wise(*written, pa.scalar("", _TEXT)) if written else _repeat("", len(structs))


def _repeat(text: str, count: int) -> pa.LargeStringArray:
    return pa.repeat(pa.scalar(text, _TEXT), count)


def _joined(lists: pa.Array, write: Callable[[pa.Array], pa.LargeStringArray]) -> pa.LargeStringArray:
    """By row: the concatenated elements of all items of a list; an empty text for a null."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    offsets = np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))])
    # Values under a null list are not among the items.
    written = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), write(pc.list_flatten(lists)))
    return pc.binary_join(written, pa.scalar("", _TEXT))


def _entries(maps: pa.MapArray) -> pa.LargeStringArray:
    kind = maps.type
    as_list = maps.cast(pa.list_(pa.struct([pa.field("key", kind.key_type, False), ("value", kind.item_type)])))

    def write(entries: pa.StructArray) -> pa.LargeStringArray:
        names = [xml_name(key) for key in _raw_texts(entries.field(0)).to_pylist()]
        written = _elements(_NAMELESS, entries.field(1)).to_pylist()
        return pa.array([one.replace(_NAMELESS, name) for name, one in zip(names, written, strict=True)], _TEXT)

    return _joined(as_list, write)


def _texts(column: pa.Array) -> pa.LargeStringArray:
    """By row: a value as text, escaped for XML; arbitrary for nulls."""
    raw = _raw_texts(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return raw
    doubtful = pc.match_substring_regex(raw, "[&<>\\r\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x{fffe}\\x{ffff}]")
    if not pc.any(doubtful).as_py():
        return raw
    is_doubtful = doubtful.to_pylist()
    return pa.array(
        [xml_text(t) if is_bad else t for t, is_bad in zip(raw.to_pylist(), is_doubtful, strict=True)], _TEXT
    )


def _raw_texts(column: pa.Array) -> pa.LargeStringArray:
    kind, is_ = column.type, pa.types
    if is_.is_dictionary(kind):
        return _raw_texts(column.cast(kind.value_type))
    if is_.is_null(kind):
        return _repeat("", len(column))
    if is_.is_timestamp(kind):
        shown = pc.fill_null(column.cast(pa.timestamp("us")).cast(_TEXT), "")
        return pc.replace_substring_regex(shown, r"^(\S+) (\S+?)(\.000000)?$", r"\1T\2Z")
    if is_.is_floating(kind):
        return pa.array([_number(one) for one in column.to_numpy(zero_copy_only=False)], _TEXT)
    if is_.is_decimal(kind):
        return pa.array([format(one, "f") if one is not None else "" for one in column.to_pylist()], _TEXT)
    if is_.is_duration(kind):
        return pa.array([v.text(v.plain(one)) or "" for one in column.to_pylist()], _TEXT)
    if is_.is_binary(kind) or is_.is_large_binary(kind):
        return pa.array([base64.b64encode(one or b"").decode() for one in column.to_pylist()], _TEXT)
    return pc.fill_null(column.cast(_TEXT), "")


def _number(value: np.floating) -> str:
    """Format a number as XPath does: without an exponent, which comparisons would not read, and no point at the end."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return np.format_float_positional(value, trim="-") if value else "0"


def _clip_years(column: pa.Array) -> pa.Array:
    """Replace timestamps and dates outside the years 1 to 9999 by nulls, as everywhere."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"), safe=False)
        numbers, size = column.cast(pa.int64()), 1
    elif pa.types.is_date32(column.type):
        numbers, size = column.cast(pa.int32()).cast(pa.int64()), _DAY
    else:
        return column
    beyond = pc.or_(pc.less(numbers, -(-v.EARLIEST // size)), pc.greater(numbers, v.LATEST // size))
    return pc.if_else(beyond, pa.scalar(None, column.type), column)
