"""Answers as sinks see them: what names a row, a row as JSON, and types that files can hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql import types as t

from perseid.runtime.changelog import OP, REVISION
from perseid.settings import SettingsError
from perseid.spark.inputs import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

MATCH_ID, PATTERN, KIND, VERSION = "match_id", "pattern", "kind", "version"
NAMES = (MATCH_ID, "id")
"""Columns that name a row, the first that there is: matches have one, and what rules emit has the other."""
JSON = {"timeZone": "UTC", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "true"}
"""How values are written as JSON: moments in UTC, nulls left out."""
_OPTIONS = f"map({', '.join(literal(word) for option in JSON.items() for word in option)})"


def json_of(rows: DataFrame, leaving_out: Collection[str] = ()) -> str:
    """Each row as one JSON object. As SQL, like the others here: one text is parsed sooner than ten calls are made, every batch."""
    columns = [quoted(name) for name in rows.columns if name not in leaving_out]
    return f"to_json(struct({', '.join(columns)}), {_OPTIONS})" if columns else "'{}'"


def identity_of(rows: DataFrame) -> str:
    """What names each row, as text: its ``match_id`` or ``id``, and where it has none, a hash of all it says."""
    named = [f"cast({quoted(name)} as string)" for name in NAMES if name in rows.columns][:1]
    return f"coalesce({', '.join([*named, f'sha2({json_of(rows)}, 256)'])})"


def headers_of(rows: DataFrame) -> dict[str, str]:
    """What a message says of its row beside it, as text; null where the row does not say."""
    return {
        name: f"cast({quoted(name)} as string)" for name in (PATTERN, VERSION, OP, REVISION) if name in rows.columns
    }


def storable(rows: DataFrame, *, intervals: bool) -> DataFrame:
    """Rows whose types files can hold: stretches of time, unless they can be held, and columns of nothing become text."""
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


def free_of(schema: StructType, reserved: Collection[str], why: str) -> None:
    """Refuse columns that are called as columns of the sink's own."""
    for name in schema.fieldNames():
        if name.lower() in reserved:
            raise SettingsError(
                f"The answers have a column {name!r}, and {why}.", hint=f"Return it under another name: … as {name}_2."
            )
