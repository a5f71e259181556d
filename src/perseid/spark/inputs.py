"""The DataFrames of a declared stream: their columns, column roles and types.

Columns are read by SQL text. A name that SQL text cannot express, or that means another column in patterns, gets an
internal name in a derived DataFrame; the caller's DataFrame is unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pyspark.sql import types as st

from perseid.errors import EventDataError, TypeMismatchError, missing_column
from perseid.lang import expressions as ex
from perseid.runtime.query import DeclaredTable
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.spark.expressions import sql_text
from perseid.spark.identity import hash_text, identity_text
from perseid.spark.sql.columns import spark_type
from perseid.spark.sql.times import DAY
from perseid.spark.worker import AHEAD, OURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELAY = "spark.watermarkDelayMs"
"""Metadata key of a column with a watermark."""
_DENSE = 2**33
"""Below this many seconds adjacent doubles are less than a microsecond apart."""


@dataclass(frozen=True)
class InputFrame:
    """One DataFrame of a stream."""

    frame: DataFrame
    event_type: str | None
    """The type of all its events, if it is one of several inputs."""
    time: str
    type: str | None
    id: tuple[str, ...]
    order_by: tuple[str, ...]
    columns: Mapping[str, st.DataType]
    """Type by the name patterns use."""
    names: Mapping[str, str]
    """Name in ``frame`` by the name patterns use, if they differ."""
    user_columns: tuple[tuple[str, str, st.DataType], ...]
    """The caller's columns: name, name in ``frame``, type."""
    has_ahead_column: bool = False
    """True if a column of the frame has the times of rows that are too far ahead."""

    def text(self, name: str) -> str:
        """A column as SQL."""
        return quoted(self.names.get(name, name))

    def record_text(self, names: Sequence[str] | None = None) -> str:
        """The given columns of the caller, or all, as JSON in SQL; includes a time that is too far ahead."""
        aliases = {name: column for name, column, _ in self.user_columns}
        texts = []
        for name in aliases if names is None else names:
            bounded, column = self.has_ahead_column and name == self.time, quoted(aliases[name])
            texts.append(f"coalesce({column}, {AHEAD}) as {column}" if bounded else column)
        return f"to_json(struct({', '.join(texts)}))"


def inputs_of(tables: Sequence[DeclaredTable]) -> list[InputFrame]:
    """Every DataFrame of a declared stream, with the declared columns validated."""
    return [_input(table) for table in tables]


def _input(table: DeclaredTable) -> InputFrame:
    frame, event_type, key_names = cast("DataFrame", table.data), table.event_type, table.key_names
    has_ahead_column = AHEAD in frame.columns
    fields = [(field.name, field.dataType) for field in frame.schema.fields if field.name != AHEAD]
    column_types = dict(fields)
    where = "" if event_type is None else f" of {event_type}"
    twice = [name for name, count in Counter(name for name, _ in fields).items() if count > 1]
    if twice:
        raise EventDataError(
            f"The DataFrame{where} has several columns named {twice[0]!r}.", hint="Rename or drop all but one."
        )
    roles: list[tuple[str, str]] = [("time", table.time)]
    if table.type is not None:
        roles.append(("type", table.type))
    ids, ranks, keys = table.id, table.order_by, table.key
    roles += [*(("id", name) for name in ids), *(("order_by", name) for name in ranks)]
    roles += [("key", name.split(".")[0] if name not in column_types else name) for name in keys]
    for role, name in roles:
        if name not in column_types:
            raise missing_column(
                f"The DataFrame{where}", name, f"{role} column", [*column_types], f"ps.events(df, {role}=…)"
            )
    renamed = {key_name: column for key_name, column in zip(key_names, keys, strict=True) if key_name != column}
    frame, aliases = _framed(frame, [field.name for field in frame.schema.fields], renamed)
    names = {name: column for name, column in aliases.items() if name != column}
    columns = {**column_types, **{key_name: column_types[column] for key_name, column in renamed.items()}}
    for key_name in renamed:
        names.pop(key_name, None)  # the key, and no longer the caller's own column of that name
    return InputFrame(
        frame, event_type, table.time, table.type, ids, ranks, columns, names,
        tuple((name, aliases[name], data_type) for name, data_type in fields), has_ahead_column,
    )  # fmt: skip


def _framed(frame: DataFrame, fields: list[str], renamed: Mapping[str, str]) -> tuple[DataFrame, dict[str, str]]:
    """The frame with every column under a name that SQL text can express, and keys also under the name patterns use."""
    lower = Counter(name.lower() for name in fields)
    reserved = {name.lower() for name in renamed}
    aliases = {
        name: f"{OURS}own{i}"
        if not name or "${" in name or lower[name.lower()] > 1 or name.lower() in reserved
        else name
        for i, name in enumerate(fields)
    }
    if any(name != alias for name, alias in aliases.items()):
        frame = frame.toDF(*aliases.values())
    if renamed:
        frame = frame.selectExpr("*", *(f"{quoted(aliases[old])} as {quoted(new)}" for new, old in renamed.items()))
    return frame, aliases


def ahead_column(input_frame: InputFrame) -> str:
    """The time of a row that is too far ahead, in microseconds, as SQL."""
    return f"{f'unix_micros({AHEAD})' if input_frame.has_ahead_column else 'cast(null as bigint)'} as {AHEAD}"


def types_of(inputs: Sequence[InputFrame]) -> tuple[dict[str, t.Type], dict[str, st.DataType]]:
    """The columns of all inputs with their types; raises if the types of a column have no common type."""
    names = dict.fromkeys(name for input_frame in inputs for name in input_frame.columns)
    shared_types = {name: shared_type(name, inputs) for name in names}
    return {name: types[0] for name, types in shared_types.items()}, {
        name: types[1] for name, types in shared_types.items()
    }


def shared_type(name: str, inputs: Sequence[InputFrame]) -> tuple[t.Type, st.DataType]:
    """The type that a column has in all inputs that have it."""
    type_: t.Type = t.Null()
    spark: st.DataType = st.NullType()
    for input_frame in inputs:
        data_type = input_frame.columns.get(name, st.NullType())
        if isinstance(spark, st.NullType):
            type_, spark = spark_type(data_type), data_type
        elif spark != data_type and not isinstance(data_type, st.NullType):
            wider_type = t.wider(type_, spark_type(data_type))
            shared = None if wider_type is None else _spark_of(wider_type)
            if wider_type is None or shared is None:
                raise EventDataError(
                    f"Column {name!r} is {spark.simpleString()} in one input "
                    f"and {data_type.simpleString()} in another.",
                    hint="Rename or cast one of them.",
                )
            type_, spark = wider_type, shared
    return type_, spark


def column_types(tables: Sequence[DeclaredTable]) -> dict[str, t.Type]:
    """The types of the columns of all tables of a stream."""
    return types_of(inputs_of(tables))[0]


def _spark_of(type_: t.Type) -> st.DataType | None:
    """The widest Spark type of a Perseid type; None without one."""
    match type_:
        case t.Integer():
            return st.LongType()
        case t.Double():
            return st.DoubleType()
        case t.Decimal():
            return st.DecimalType(type_.precision, type_.scale)
        case t.String():
            return st.StringType()
        case t.Boolean():
            return st.BooleanType()
        case t.Timestamp():
            return st.TimestampType()
        case t.Date():
            return st.DateType()
        case t.Duration():
            return st.DayTimeIntervalType()
        case t.BinaryType():
            return st.BinaryType()
        case t.Array():
            inner = _spark_of(type_.element)
            return None if inner is None else st.ArrayType(inner)
        case t.Map():
            key, value = _spark_of(type_.key), _spark_of(type_.value)
            return None if key is None or value is None else st.MapType(key, value)
        case t.Struct():
            fields = [(name, _spark_of(inner)) for name, inner in type_.fields]
            spark_fields = [st.StructField(name, inner) for name, inner in fields if inner is not None]
            return st.StructType(spark_fields) if len(spark_fields) == len(fields) else None
    return None


# SQL text


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal that parses alike under every parser setting."""
    if text.isascii() and text.isalnum():
        return f"'{text}'"
    return f"cast(X'{text.encode().hex()}' as string)"


def type_text(data_type: st.DataType) -> str:
    """A type as SQL; ``simpleString`` leaves out fields and quotes no names."""
    match data_type:
        case st.ArrayType():
            return f"array<{type_text(data_type.elementType)}>"
        case st.MapType():
            return f"map<{type_text(data_type.keyType)}, {type_text(data_type.valueType)}>"
        case st.StructType():
            fields = (f"{quoted(field.name)}: {type_text(field.dataType)}" for field in data_type.fields)
            return f"struct<{', '.join(fields)}>"
        case st.NullType():
            return "void"
    return data_type.simpleString()


def column_text(input_frame: InputFrame, name: str, target: st.DataType) -> str:
    """A column of the stream as SQL, in the type that all inputs share; null if this input lacks the column."""
    kind = input_frame.columns.get(name)
    if kind is None:
        return f"cast(null as {type_text(target)})"
    text = input_frame.text(name)
    if kind == target:
        return text
    if isinstance(target, st.TimestampType) and isinstance(kind, st.TimestampNTZType | st.DateType):
        return f"timestamp_micros({_moment(kind, text)})"  # a cast would go by the session's zone
    return f"try_cast({text} as {type_text(target)})"


def field_type(parts: Sequence[str], types: Mapping[str, st.DataType]) -> st.DataType | None:
    """The type at the end of a path; None if the path does not exist."""
    kind = types.get(parts[0])
    for part in parts[1:]:
        kind = kind[part].dataType if isinstance(kind, st.StructType) and part in kind.names else None
    return kind


def key_text(input_frame: InputFrame, parts: Sequence[str], column: st.DataType) -> str:
    """A key as SQL: one value for all NaN and one for both zeros, since keys are compared by value."""
    kind = field_type(parts, {parts[0]: column})
    assert kind is not None
    if parts[0] not in input_frame.columns:
        return f"cast(null as {type_text(st.DoubleType() if isinstance(kind, st.FloatType) else kind)})"
    path = [quoted(part) for part in parts[1:]]
    text = ".".join([column_text(input_frame, parts[0], column), *path])
    if isinstance(kind, st.DoubleType | st.FloatType):
        return f"if(isnan({text}), double('NaN'), if({text} = 0.0D, 0.0D, cast({text} as double)))"
    return text


def time_text(input_frame: InputFrame) -> str:
    """The time in microseconds as SQL; null if it is missing or outside the years 1 to 9999."""
    kind, text = input_frame.columns[input_frame.time], input_frame.text(input_frame.time)
    match kind:
        case st.TimestampType() | st.TimestampNTZType() | st.DateType():
            micros = _moment(kind, text)
        case st.IntegralType():
            micros = f"try_multiply(cast({text} as bigint), 1000000L)"
        case st.DoubleType() | st.FloatType():
            # A double stands for its shortest decimal digits. If a whole number of microseconds, divided by a million,
            # gives the double, the time is that number. All other doubles have few enough digits for this decimal.
            seconds = f"cast({text} as double)"
            near = f"rint({seconds} * 1000000D)"
            exact = f"try_multiply(try_cast({seconds} as decimal(38, 18)), cast(1000000 as decimal(8, 0)))"
            micros = (
                f"if(abs({seconds}) < {_DENSE}D and {near} / 1000000D = {seconds}, "
                f"cast({near} as bigint), try_cast({exact} as bigint))"
            )
        case st.DecimalType():
            micros = f"try_cast(try_multiply({text}, cast(1000000 as decimal(8, 0))) as bigint)"
        case st.StringType():
            name = input_frame.names.get(input_frame.time, input_frame.time)
            read = sql_text(ex.Cast(ex.Ref((name,)), "timestamp"), {name: kind}, time=name, type=None)
            assert read is not None
            micros = f"unix_micros({read})"
        case _:
            raise TypeMismatchError(
                f"Time column {input_frame.time!r} is {kind.simpleString()}, expected a time.",
                hint="Use a timestamp, a date, an ISO 8601 string, or a number of seconds since 1970.",
            )
    if isinstance(kind, st.StringType):
        return micros  # times parsed from text are in these years
    return f"case when {micros} between {v.EARLIEST}L and {v.LATEST}L then {micros} end"


def _moment(kind: st.DataType, text: str) -> str:
    """A timestamp or date in microseconds as SQL; without a zone it is UTC, regardless of the session's zone."""
    if isinstance(kind, st.TimestampType):
        return f"unix_micros({text})"
    if isinstance(kind, st.DateType):
        return f"cast(unix_date({text}) as bigint) * {DAY}L"
    return f"timestampdiff(MICROSECOND, timestamp_ntz'1970-01-01 00:00:00', {text})"


def type_column_text(input_frame: InputFrame) -> str:
    """An event's type as SQL."""
    if input_frame.type is None:
        assert input_frame.event_type is not None
        return literal(input_frame.event_type)
    kind, text = input_frame.columns[input_frame.type], input_frame.text(input_frame.type)
    if isinstance(kind, st.StringType):
        # Types are compared by their bytes, regardless of the column's collation.
        return text if kind == st.StringType() else f"collate({text}, 'UTF8_BINARY')"
    return f"try_cast({text} as string)"


def of_type_text(input_frame: InputFrame, event_type: str) -> str:
    """Condition, as SQL, that the event is of this type."""
    if input_frame.type is None:
        return "true" if input_frame.event_type == event_type else "false"
    return f"{type_column_text(input_frame)} = {literal(event_type)}"


def identity_column_text(input_frame: InputFrame, ids: Sequence[str]) -> str:
    """Event identity as SQL; with several inputs it includes the type, since each input numbers its own events."""
    columns = {name: (alias, data_type) for name, alias, data_type in input_frame.user_columns}
    # Without ids, columns are hashed in the order of the caller's names, not of internal ones.
    identity = (
        identity_text([columns[name] for name in ids], [])
        if ids
        else hash_text([columns[name] for name in sorted(columns)])
    )
    return (
        identity if input_frame.event_type is None else f"xxhash64({identity}, {literal(input_frame.event_type)}, 0L)"
    )


def delay_of(input_frame: InputFrame) -> int | None:
    """Milliseconds that an input's watermark is behind its newest event; None without a watermark."""
    delay = time_field(input_frame).metadata.get(DELAY)
    return None if delay is None else int(delay)


def time_field(input_frame: InputFrame) -> st.StructField:
    """The schema field of an input's time column."""
    name = next(alias for column, alias, _ in input_frame.user_columns if column == input_frame.time)
    field: st.StructField = input_frame.frame.schema[name]
    return field
