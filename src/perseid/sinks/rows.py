"""Matches as sinks read them: the identity of a row, a row as JSON, and types that files can hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql import types as t

from perseid.errors import SettingsError
from perseid.runtime.changelog import OP, REVISION
from perseid.spark.inputs import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

MATCH_ID, PATTERN, KIND, VERSION = "match_id", "pattern", "kind", "version"
NAMES = (MATCH_ID, "id")
"""Columns that identify a row, by priority: matches have the first one, rows that rules emit the second."""
JSON = {"timeZone": "UTC", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "true"}
"""Options of values as JSON: moments in UTC, nulls left out."""
_OPTIONS = f"map({', '.join(literal(word) for option in JSON.items() for word in option)})"


def json_of(rows: DataFrame, leaving_out: Collection[str] = ()) -> str:
    """Each row as one JSON object, in SQL: one parsed text is faster than ten DataFrame calls in every batch."""
    columns = [quoted(name) for name in rows.columns if name not in leaving_out]
    return f"to_json(struct({', '.join(columns)}), {_OPTIONS})" if columns else "'{}'"


def identity_of(rows: DataFrame) -> str:
    """The identity of each row as text, in SQL: its ``match_id`` or ``id``, or else a hash of the whole row."""
    named = [f"cast({quoted(name)} as string)" for name in NAMES if name in rows.columns][:1]
    return f"coalesce({', '.join([*named, f'sha2({json_of(rows)}, 256)'])})"


def headers_of(rows: DataFrame) -> dict[str, str]:
    """The headers of a row's message as text, in SQL; null if the row has no value."""
    return {
        name: f"cast({quoted(name)} as string)" for name in (PATTERN, VERSION, OP, REVISION) if name in rows.columns
    }


def storable(rows: DataFrame, *, intervals: bool) -> DataFrame:
    """Convert types that files cannot hold to text: nulls, and intervals unless ``intervals`` is true."""
    columns = []
    for field in rows.schema:
        kind = _storable(field.dataType, intervals)
        column = f.col(quoted(field.name))
        columns.append(column if kind == field.dataType else column.cast(kind).alias(field.name))
    return rows.select(*columns)


def _storable(kind: DataType, intervals: bool) -> DataType:
    if isinstance(kind, t.StructType):
        return t.StructType([t.StructField(x.name, _storable(x.dataType, intervals), x.nullable) for x in kind])
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(_storable(kind.elementType, intervals), kind.containsNull)
    if isinstance(kind, t.MapType):
        return t.MapType(
            _storable(kind.keyType, intervals), _storable(kind.valueType, intervals), kind.valueContainsNull
        )
    spans = (t.DayTimeIntervalType, t.YearMonthIntervalType)
    if isinstance(kind, (t.NullType, t.CalendarIntervalType)) or (isinstance(kind, spans) and not intervals):
        return t.StringType()
    return kind


def require_unreserved(schema: StructType, reserved: Collection[str], reason: str) -> None:
    """Raise for columns with a name that the sink reserves."""
    for name in schema.fieldNames():
        if name.lower() in reserved:
            raise SettingsError(
                f"The output has a column {name!r}; {reason}.", hint=f"Return it under another name: … as {name}_2."
            )
