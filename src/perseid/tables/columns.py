"""Convert lists of dicts, pandas, Arrow and Parquet to columns.

A column is an Arrow array, or "loose": a list of plain Python values, for values of no single type that Arrow holds
without changing them. Both give the same values as :mod:`perseid.tables.rows` gives row by row.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perseid.errors import EventDataError
from perseid.runtime.arrays import MOMENT, ArrowColumn, BoolArray, IntegerArray
from perseid.semantics import values as v
from perseid.tables import rows as row_reader
from perseid.tables.arrow_streams import without_views
from perseid.tables.parquet import Paths, is_dataset, open_parquet

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.dataset as ds

Loose: TypeAlias = list[Any]
"""Plain values of several types."""
Column: TypeAlias = "pa.Array | pa.ChunkedArray | Loose"
"""A ``pa.Array``, a ``pa.ChunkedArray``, or a list of plain values."""
Ints: TypeAlias = npt.NDArray[np.int64]

_SECOND, _DAY = 1_000_000, 86_400_000_000
_FIRST, _LAST = v.EARLIEST, v.LATEST
_SIMPLE: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.datetime: MOMENT,
    dt.date: pa.date32(),
    dt.timedelta: pa.duration("us"),
}
_AS_THEY_ARE = {bool, int, float, str, bytes, dt.datetime, dt.date}
"""Types with values that need no conversion."""
_PANDAS_KINDS = {
    "DatetimeTZDtype", "StringDtype", "BooleanDtype", "ArrowDtype", "Float32Dtype", "Float64Dtype",
    "Int8Dtype", "Int16Dtype", "Int32Dtype", "Int64Dtype", "UInt8Dtype", "UInt16Dtype", "UInt32Dtype", "UInt64Dtype",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of one length, by name."""

    columns: dict[str, Column]
    rows: int
    names: tuple[str, ...] = ()
    """All columns of the input, also those that are not needed."""
    gaps: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """For columns that some dict lacks: the first such row, from 0, and the columns of that row."""
    outside: dict[str, tuple[int, str]] = field(default_factory=dict)
    """For columns with moments outside the years 1 to 9999, which are null: the first such row, from 0, and value."""
    index: tuple[str, ...] = ()
    """The names of a pandas frame's index, for errors about missing columns."""


def read_table(data: Any, needed: Collection[str] | None = None) -> Table:
    """Read the needed columns of a table, or all if ``needed`` is None; missing columns are left out."""
    if are_paths(data):
        data = open_parquet(data)
    if is_dataset(data):
        return _from_arrow(_scanned(data, needed), None, data.schema.names)
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return _from_pandas(data, needed)
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.Table | pa.RecordBatchReader):
        data = pa.RecordBatchReader.from_stream(data)
    if isinstance(data, pa.RecordBatchReader):
        names = data.schema.names
        indices = [i for i, name in enumerate(names) if needed is None or name in needed]
        schema = pa.schema([data.schema.field(i) for i in indices])
        if not indices:
            return Table({}, sum(batch.num_rows for batch in data), tuple(names))
        batches = [pa.RecordBatch.from_arrays([batch.column(i) for i in indices], schema=schema) for batch in data]
        return _from_arrow(pa.Table.from_batches(batches, schema), None, names)
    if isinstance(data, pa.Table | pa.RecordBatch):
        return _from_arrow(data, needed, data.schema.names)
    return _from_rows(data.to_pylist() if hasattr(data, "to_pylist") else data, needed)


def column_names(data: Any) -> list[str]:
    """The column names of a table or of a Spark DataFrame; no value is read."""
    if are_paths(data):
        data = open_parquet(data)
    if is_dataset(data) or isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return list(data.schema.names)
    if hasattr(data, "columns"):
        return [str(name) for name in data.columns]
    return list(dict.fromkeys(str(name) for row in row_reader.rows_of(data) for name in row))


def require(table: Table, name: str, role: str) -> Column:
    """Return a column that every row must have; raise if one lacks it."""
    if name not in table.columns:
        if not table.rows:
            return pa.nulls(0)  # no row lacks it
        raise row_reader.column_missing_in(1, name, role, table.names, table.index)
    if name in table.gaps:
        row, row_columns = table.gaps[name]
        raise row_reader.column_missing_in(row + 1, name, role, row_columns)
    return table.columns[name]


def time_column(table: Table, name: str) -> Ints:
    """Microseconds since 1970 UTC of every row; raise for the first row without a readable time."""
    column = table.columns.get(name)
    if column is None:
        column = require(table, name, "time")
    micros, bad = _times(column, name)
    if bad is not None:
        if name in table.gaps and table.gaps[name][0] == bad:
            require(table, name, "time")
        if name in table.outside and table.outside[name][0] == bad:
            raise EventDataError(
                f"Row {bad + 1}, column {name!r}: the time {table.outside[name][1]} is outside the years 1 to 9999.",
                hint="Check the unit: milliseconds that are read as seconds are 1000 times too large.",
            )
        row_reader.read_time(_value(column, bad), bad + 1, name)
        raise AssertionError("a bad time was readable")
    return micros


def times_are_readable(column: ArrowColumn) -> bool:
    """True if these are timestamps without nulls, in the years 1 to 9999."""
    if not pa.types.is_timestamp(column.type) or column.null_count:
        return False
    least, most = pc.min_max(column.cast(pa.int64())).values()
    micros = {"s": _SECOND, "ms": 1_000, "us": 1, "ns": 0.001}[column.type.unit]
    return not len(column) or bool(least.as_py() * micros >= _FIRST and most.as_py() * micros <= _LAST)


def type_codes(table: Table, name: str) -> tuple[npt.NDArray[np.int32], list[str]]:
    """The type of each row as an index into the list of type names; -1 for null."""
    column = require(table, name, "type")
    if not isinstance(column, list) and pa.types.is_floating(column.type):
        column = column.to_pylist()  # as text, minus zero is not zero
    if isinstance(column, list):
        texts: list[str | None] = [v.text(value) for value in column]
        codes_by_text: dict[str, int] = {}
        codes = np.array(
            [-1 if x is None else codes_by_text.setdefault(x, len(codes_by_text)) for x in texts], np.int32
        )
        return codes, list(codes_by_text)
    codes, distinct = _encoded(column)
    names: dict[str, int] = {}
    mapped = np.full(len(distinct) + 1, -1, np.int32)
    # Only names that occur: a dictionary may hold others, or one of them twice.
    for code in np.flatnonzero(np.bincount(codes + 1)[1:]).tolist():
        text = v.text(v.plain(distinct[code]))
        if text is not None:
            mapped[code] = names.setdefault(text, len(names))
    return mapped[codes], list(names)


# Inputs


def are_paths(data: object) -> TypeGuard[Paths]:
    """True for the path of a file or folder, or a list of paths."""
    if isinstance(data, str | os.PathLike):
        return True
    return isinstance(data, list | tuple) and bool(data) and all(isinstance(item, str | os.PathLike) for item in data)


def count_rows(data: object) -> int | None:
    """Return the number of rows of tables in memory, also by event type; None for files and iterators."""
    if isinstance(data, Mapping):
        counts = [count_rows(one) for one in data.values()]
        return None if None in counts else sum(count for count in counts if count is not None)
    return len(data) if isinstance(data, Sized) and not are_paths(data) else None


def _scanned(dataset: ds.Dataset, needed: Collection[str] | None) -> pa.Table:
    chosen = [name for name in dict.fromkeys(dataset.schema.names) if needed is None or name in needed]
    try:
        return dataset.to_table(columns=chosen)
    except (pa.ArrowException, OSError) as error:
        raise EventDataError(f"Cannot read events from the files: {str(error).splitlines()[0]}") from error


def _from_arrow(data: pa.Table | pa.RecordBatch, needed: Collection[str] | None, names: Iterable[str]) -> Table:
    table = Table({}, data.num_rows, tuple(names))
    for i, name in enumerate(data.schema.names):
        if needed is None or name in needed:
            _store_column(table, name, data.column(i))
    return table


def _store_column(table: Table, name: str, column: Column) -> None:
    converted = _to_supported(column)
    table.columns[name] = converted
    if not isinstance(converted, list) and converted.type in (MOMENT, pa.date32()):
        converted, outside = _within_years(converted)
        table.columns[name] = converted
        if outside is not None:
            table.outside[name] = outside


def _from_pandas(data: pd.DataFrame, needed: Collection[str] | None) -> Table:
    names = tuple(str(name) for name in data.columns)
    table = Table({}, len(data), names, index=row_reader.index_names(data))
    for i, name in enumerate(table.names):
        if needed is None or name in needed:
            _store_column(table, name, _from_series(data.iloc[:, i]))
    return table


def _from_series(series: pd.Series) -> Column:
    kind = series.dtype
    if type(kind).__name__ == "CategoricalDtype":
        # A missing category is null; so is a category that is NaN, which pandas does not allow.
        values = _from_series(series.cat.categories.to_series())
        if isinstance(values, list):
            return [None if code < 0 else values[code] for code in series.cat.codes.tolist()]
        if pa.types.is_null(values.type):
            return pa.nulls(len(series))
        codes = series.cat.codes.to_numpy()
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), values)
    if isinstance(kind, np.dtype) and kind.kind in "biufMm":
        if kind == np.float16:
            series = series.astype(np.float64)
        found = pa.array(series, from_pandas=True)
    elif type(kind).__name__ in _PANDAS_KINDS:
        found = pa.array(series, from_pandas=True)
    else:
        return _from_objects(series)
    if pa.types.is_floating(found.type):
        # A missing number is NaN in pandas; nullable kinds may have both.
        found = pc.if_else(pc.is_nan(found), pa.scalar(None, found.type), found)
    return found


def _from_objects(series: pd.Series) -> Column:
    from pandas.api.types import infer_dtype

    if series.dtype == object and infer_dtype(series, skipna=True) == "string":
        try:
            return pa.array(series, pa.string(), from_pandas=True)
        except UnicodeError:  # half a surrogate pair
            pass
    return _from_values([row_reader.pandas_null(value) for value in series.tolist()])


def _from_rows(data: object, needed: Collection[str] | None) -> Table:
    rows: list[Mapping[str, object]] = list(row_reader.rows_of(data))
    shapes = dict.fromkeys(map(tuple, rows))  # as a rule all dicts have the same keys: only one shape to check
    if not all(type(name) is str for shape in shapes for name in shape):
        rows = [{str(name): value for name, value in row.items()} for row in rows]
        shapes = dict.fromkeys(map(tuple, rows))
    table = Table({}, len(rows), tuple(dict.fromkeys(name for shape in shapes for name in shape)))
    for name in table.names:
        if needed is not None and name not in needed:
            continue
        if all(name in shape for shape in shapes):
            table.columns[name] = _from_values([row[name] for row in rows])
        else:
            table.columns[name] = _from_values([row.get(name) for row in rows])
            gap = next(i for i, row in enumerate(rows) if name not in row)
            table.gaps[name] = (gap, tuple(rows[gap]))
    return table


# Conversion of columns


def _from_values(values: Loose) -> Column:
    """Convert values of one type to an Arrow array, and any others to a list of plain values."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1 and kinds <= _AS_THEY_ARE and _arrow_knows(values, kinds):
        try:
            return pa.array(values, _SIMPLE[next(iter(kinds))])
        except (
            pa.ArrowException,
            UnicodeError,
            OverflowError,
        ):  # an integer of more than 64 bits, half a surrogate pair
            pass
    values = [v.plain(value) for value in values]
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    if len(kinds) > 1:
        return values
    (kind,) = kinds
    try:
        if kind is v.SizedDecimal:
            return _decimals(values)
        return values if kind not in _SIMPLE else pa.array(values, _SIMPLE[kind])
    except (pa.ArrowException, UnicodeError, OverflowError):
        return values


def _arrow_knows(values: Loose, kinds: set[type]) -> bool:
    """True if Arrow reads these values correctly: moments of other zones may leave the calendar in UTC."""
    return kinds != {dt.datetime} or {value.tzinfo for value in values if value is not None} <= {None, dt.UTC}


def _decimals(values: Loose) -> Column:
    present = [value for value in values if value is not None]
    types = {v.decimal_type(value) for value in present}
    scale = next(iter(types)).scale
    # The size of a decimal determines the digits of a quotient. Read back from Arrow, a decimal has the size of its own
    # digits; that is exact if these have one scale and are all that the size counts.
    integer_digits = max(type_.precision - type_.scale for type_ in types)
    same = all(type_.scale == scale for type_ in types) and integer_digits + scale <= 38
    if not same or any(v.sized(Decimal(value)).precision != value.precision for value in present):  # type: ignore[union-attr]
        return values
    return pa.array(values, pa.decimal128(max(1, integer_digits + scale), scale))


def _to_supported(column: Column) -> Column:
    """Convert an Arrow column to one of the supported types; other types are converted value by value."""
    if isinstance(column, list):
        return column
    kind = column.type
    is_ = pa.types
    if is_.is_run_end_encoded(kind):
        return _to_supported(pc.run_end_decode(column))
    plain = without_views(kind)
    if plain != kind:
        return _to_supported(column.cast(plain))
    if is_.is_dictionary(kind):
        if is_.is_string(kind.value_type) or is_.is_large_string(kind.value_type):
            return column
        return _to_supported(column.cast(kind.value_type))
    if is_.is_timestamp(kind):
        return _in_micros(column, kind.unit, MOMENT)
    if is_.is_duration(kind):
        return _in_micros(column, kind.unit, pa.duration("us"))
    if is_.is_date64(kind):
        return _renumbered(column, lambda days: (days // 86_400_000).astype(np.int32), pa.date32())
    if is_.is_time(kind):
        return pa.nulls(len(column))  # a time of day is no supported value
    if is_.is_uint64(kind):
        beyond = pc.greater(column, pa.scalar(2**63 - 1, kind))
        return pc.if_else(beyond, pa.scalar(None, kind), column).cast(pa.int64())
    if is_.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    if is_.is_float16(kind):
        return column.cast(pa.float64())
    if is_.is_decimal(kind) and not is_.is_decimal128(kind):
        return _from_values(column.to_pylist())
    if isinstance(kind, pa.BaseExtensionType) or is_.is_interval(kind):
        return _from_values(column.to_pylist())
    return column


_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


def _in_micros(column: ArrowColumn, unit: str, target: pa.DataType) -> Column:
    """Timestamps or durations in microseconds, rounded down."""
    if unit == "us":
        return column if column.type == target else _renumbered(column, lambda micros: micros, target)
    if unit == "ns":
        return _renumbered(column, lambda nanos: nanos // 1_000, target)
    most = (2**63 - 1) // _PER_UNIT[unit]
    if pa.types.is_duration(target):
        numbers = column.cast(pa.int64())
        beyond = pc.or_(pc.less(numbers, -most), pc.greater(numbers, most))
        column = pc.if_else(beyond, pa.scalar(None, column.type), column)
    # A moment beyond 64 bits of microseconds is outside the valid years anyway: it is clipped.
    return _renumbered(column, lambda units: np.clip(units, -most, most) * _PER_UNIT[unit], target)


def _renumbered(column: ArrowColumn, change: Callable[[Ints], npt.NDArray[np.generic]], target: pa.DataType) -> Column:
    """Change the integers under a column; nulls remain."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = []
    for chunk in chunks:
        numbers = change(_int64(chunk))
        mask = np.asarray(chunk.is_null()) if chunk.null_count else None
        found.append(pa.array(numbers, mask=mask).view(target))
    return pa.chunked_array(found, target) if isinstance(column, pa.ChunkedArray) else found[0]


def _int64(column: pa.Array) -> Ints:
    """The 64-bit integers under one array; values at nulls are arbitrary."""
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.zeros(len(column), np.int64)
    return np.frombuffer(data, np.int64, len(column), column.offset * 8)


def _within_years(column: ArrowColumn) -> tuple[ArrowColumn, tuple[int, str] | None]:
    """The column with null for values outside the valid years, and the first such row with its value."""
    moments = column.type == MOMENT
    first, last = (_FIRST, _LAST) if moments else (_FIRST // _DAY, _LAST // _DAY)
    numbers = _numbers(column)
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is None or (ends["min"] >= first and ends["max"] <= last):
        return column, None
    beyond = pc.fill_null(pc.or_(pc.less(numbers, first), pc.greater(numbers, last)), False)
    row = pc.index(beyond, True).as_py()
    shown = f"{numbers[row].as_py()} {'microseconds' if moments else 'days'} since 1970"
    return pc.if_else(beyond, pa.scalar(None, column.type), column), (row, shown)


def _numbers(column: ArrowColumn) -> ArrowColumn:
    """The integers under timestamps and dates."""
    return column.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date32(column.type) else column.cast(pa.int64())


# Times


def _times(column: Column, name: str) -> tuple[Ints, int | None]:
    """Microseconds, and the first row without a readable time; if there is one, the numbers are invalid."""
    if isinstance(column, list):
        return _times_one_by_one(column, name)
    kind = column.type
    bad = _first(column.is_null()) if column.null_count else None
    if kind == MOMENT:
        return _contiguous(column), bad
    if pa.types.is_date32(kind):
        return _contiguous(column) * _DAY, bad
    if pa.types.is_integer(kind):
        seconds = _contiguous(column)
        beyond = (seconds < -(-_FIRST // _SECOND)) | (seconds > _LAST // _SECOND)
        if beyond.any():
            bad = min(int(np.argmax(beyond)), len(seconds) if bad is None else bad)
        return seconds * _SECOND, bad
    if pa.types.is_floating(kind):
        return _times_of_doubles(np.asarray(column.cast(pa.float64()).fill_null(math.nan)), name)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        codes, distinct = _encoded(column)
        micros = np.zeros(len(distinct) + 1, np.int64)
        unreadable = np.zeros(len(distinct) + 1, np.bool_)
        unreadable[-1] = True  # where the code is -1: null
        for code in range(len(distinct)):
            try:
                micros[code] = row_reader.read_time(distinct[code], 0, name)
            except EventDataError:
                unreadable[code] = True
        return micros[codes], _first(unreadable[codes])
    return _times_one_by_one(column.to_pylist(), name)


def _times_one_by_one(values: Sequence[object], name: str) -> tuple[Ints, int | None]:
    found = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        try:
            found[row] = row_reader.read_time(value, 0, name)
        except EventDataError:
            return found, row
    return found, None


def _times_of_doubles(seconds: npt.NDArray[np.float64], name: str) -> tuple[Ints, int | None]:
    """Convert seconds to microseconds by their shortest decimal digits.

    Below 2**33 adjacent doubles are less than a microsecond apart, so at most one whole number of microseconds is
    written as a given double; if division gives the double back, it is that number. All others are parsed like text.
    """
    near = np.where(np.abs(seconds) < 2**33, seconds, 0.0)
    found = np.rint(near * _SECOND)
    sure = (found / _SECOND == seconds) & (np.abs(seconds) < 2**33)
    micros = found.astype(np.int64)
    for row in np.flatnonzero(~sure).tolist():
        try:
            micros[row] = row_reader.read_time(float(seconds[row]), 0, name)
        except EventDataError:
            return micros, row
    return micros, None


def _contiguous(column: ArrowColumn) -> Ints:
    """Integers, or the integers under timestamps and dates, in one array; zero at nulls."""
    numbers = column.cast(pa.int64()) if pa.types.is_integer(column.type) else _numbers(column)
    if numbers.null_count:
        numbers = numbers.fill_null(0)
    if isinstance(numbers, pa.ChunkedArray) and numbers.num_chunks == 1:
        numbers = numbers.chunk(0)  # without a copy
    return np.asarray(numbers)


def _encoded(column: ArrowColumn) -> tuple[npt.NDArray[Any], Loose]:
    """Codes, -1 for null, and the value of each code."""
    if pa.types.is_dictionary(column.type) and isinstance(column, pa.ChunkedArray) and column.num_chunks != 1:
        try:
            column = column.unify_dictionaries()  # chunks may have different dictionaries
        except pa.ArrowInvalid:  # one of them holds a null
            column = column.cast(column.type.value_type)
    if not pa.types.is_dictionary(column.type):
        if pa.types.is_nested(column.type):
            return np.full(len(column), -1), []
        column = column.dictionary_encode()
    if not isinstance(column, pa.ChunkedArray):
        column = pa.chunked_array([column])
    if not column.num_chunks:
        return np.zeros(0, np.int64), []
    codes = [_codes(chunk.indices) for chunk in column.chunks]
    distinct = column.chunk(column.num_chunks - 1).dictionary.to_pylist()
    found = codes[0] if len(codes) == 1 else np.concatenate(codes)
    missing = np.array([value is None for value in distinct], np.bool_)
    if missing.any():  # a dictionary's own null
        found = np.where(missing[found] & (found >= 0), -1, found)
    return found, distinct


def _codes(indices: pa.Array) -> IntegerArray:
    if indices.type != pa.int32():
        indices = indices.cast(pa.int64())
    return np.asarray(indices.fill_null(-1) if indices.null_count else indices)


def _first(flags: BoolArray | pa.Array | pa.ChunkedArray) -> int | None:
    found = np.flatnonzero(np.asarray(flags))
    return int(found[0]) if len(found) else None


def _value(column: Column, row: int) -> object:
    return column[row] if isinstance(column, list) else column[row].as_py()
