"""User rows (lists of dicts, pandas, Arrow tables) and the values in them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from perseid.errors import BindingError, EventDataError, missing_column, type_name
from perseid.semantics import values as v
from perseid.tables.arrow_streams import is_arrow_stream, read_arrow_stream

_MICROS = 1_000_000


def is_spark(data: object) -> bool:
    """True for a DataFrame of Spark, classic or Connect."""
    return hasattr(data, "mapInArrow")


def require_spark(data: object) -> None:
    """Raise unless the data is a Spark DataFrame."""
    if not is_spark(data):
        raise EventDataError(
            f"The inputs mix Spark DataFrames and local rows: got {type_name(data)}.",
            hint="Use spark.createDataFrame(rows), or local rows for all inputs.",
        )


def require_local_rows(operation: str, data: object) -> None:
    """Raise if the data is a Spark DataFrame, for operations that run in this process."""
    if is_spark(data):
        raise EventDataError(
            f"{operation}: expected local rows, got a Spark DataFrame.", hint="Use df.limit(10_000).toArrow()."
        )


def read_relation(name: str, rows: object) -> list[tuple[object, ...]]:
    """Read a relation: rows of values, single values, dicts, a pandas or Polars frame, or an Arrow table."""
    if not is_spark(rows) and is_arrow_stream(rows):
        rows = read_arrow_stream(rows)
    if hasattr(rows, "to_pylist") or (hasattr(rows, "to_dict") and hasattr(rows, "columns")):
        return [tuple(row.values()) for row in rows_of(rows)]
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise BindingError(
            f"Relation {name!r}: expected a table, got {_a(rows)}.",
            hint="Use rows: [('ann', 220), …], or single values: ['AT', 'DE'].",
        )
    out: list[tuple[object, ...]] = []
    for row in rows:
        if isinstance(row, Mapping):
            out.append(tuple(row.values()))
        elif isinstance(row, (list, tuple)):
            out.append(tuple(row))
        else:
            out.append((row,))
    if len({len(row) for row in out}) > 1:
        raise BindingError(f"Relation {name!r} has rows of different lengths.")
    return out


def rows_of(data: object) -> Iterator[Mapping[str, object]]:
    """Iterate over the rows of a table: dicts, a pandas frame or an Arrow table."""
    if hasattr(data, "to_pylist"):  # an Arrow table or record batch
        try:
            rows = data.to_pylist(maps_as_pydicts="lossy")
        except TypeError:  # an older pyarrow has only lists of pairs for maps
            rows = data.to_pylist()
        yield from rows
    elif hasattr(data, "to_dict") and hasattr(data, "columns"):  # a pandas frame
        for row in data.to_dict("records"):
            yield {str(name): pandas_null(value) for name, value in row.items()}
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes, Mapping)):
        for number, row in enumerate(data, 1):
            if not isinstance(row, Mapping):
                raise EventDataError(
                    f"Row {number}: expected a dict, got {_a(row)}.",
                    hint="Use one dict per event: {'ts': …, 'type': …}.",
                )
            yield row
    else:
        raise EventDataError(
            f"Cannot read events from {_a(data)}.",
            hint="Use a list of dicts, a pandas frame or an Arrow table.",
        )


def pandas_null(value: object) -> object:
    """Convert NaN to null, as when Spark reads a pandas frame: pandas writes a missing number as NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def index_names(data: object) -> tuple[str, ...]:
    """The names of a pandas frame's index; empty for any other data."""
    return tuple(str(name) for name in getattr(getattr(data, "index", None), "names", ()) if name is not None)


def column_missing_in(
    number: int, name: str, role: str, available: Sequence[str], index: Sequence[str] = ()
) -> EventDataError:
    """The error for a row without the column of a role; the column may be in the index of its frame."""
    usage = f"ps.events(rows, {role}=…), or --{role.replace('_', '-')} on the command line"
    error = missing_column(f"Row {number}", name, f"{role} column", available, usage)
    if name in index:
        error.hint = "Use df.reset_index(): the column is in the index."
    return error


def read_time(value: object, number: int, column: str) -> int:
    """Microseconds since 1970 UTC; raise an error that names the row if the value is no time."""
    value = v.plain(value)
    match value:
        case bool() | None:
            pass
        case int() | Decimal():
            return _seconds(Decimal(value), number, column)
        case float() if math.isfinite(value):
            return _seconds(Decimal(repr(value)), number, column)
        case dt.datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return (moment - v.EPOCH) // dt.timedelta(microseconds=1)
        case dt.date():
            return (dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC) - v.EPOCH) // dt.timedelta(
                microseconds=1
            )
        case str():
            read = v.read_timestamp(value)
            if read is not None:
                return (read - v.EPOCH) // dt.timedelta(microseconds=1)
    raise EventDataError(
        f"Row {number}, column {column!r}: expected a time, got {value!r}.",
        hint="Use a datetime, an ISO 8601 string, or a number of seconds since 1970.",
    )


def _seconds(value: Decimal, number: int, column: str) -> int:
    micros = value * _MICROS
    if not v.EARLIEST <= micros <= v.LATEST:
        raise EventDataError(
            f"Row {number}, column {column!r}: the time {value} is outside the years 1 to 9999.",
            hint="Use seconds since 1970; divide milliseconds by 1000.",
        )
    return int(micros)


def rank(value: object) -> tuple[Any, ...]:
    """Make values of ``order_by`` comparable with one another: nulls first, then by type."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, int(value))
    if isinstance(value, (int, Decimal)):
        return (2, value)
    if isinstance(value, float):
        return (2, value) if not math.isnan(value) else (3, 0)
    if isinstance(value, (dt.datetime, dt.date, dt.timedelta, str, bytes)):
        return (4, type(value).__name__, value)
    return (5, type(value).__name__, str(v.identity(value)))


def _a(value: object) -> str:
    name = type(value).__name__
    return ("an " if name[:1].lower() in "aeiou" else "a ") + name
