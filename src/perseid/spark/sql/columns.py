"""Columns as SQL: their Perseid types, their fields and their elements."""

from __future__ import annotations

from pyspark.sql import types as st

from perseid.semantics import types as t
from perseid.spark.sql.literals import constant, is_plain, quoted
from perseid.spark.sql.numbers import MAX_INT, MIN_BIGINT, as_double
from perseid.spark.sql.pieces import (
    InexpressibleError,
    Names,
    Sql,
    boolean,
    firm,
    integer,
    moment,
    null,
    string,
    type_name,
)
from perseid.spark.sql.times import local_micros


def spark_type(data_type: st.DataType) -> t.Type:
    """The Perseid type of a Spark type; Unknown if only Python can read the values."""
    match data_type:
        case st.ByteType() | st.ShortType() | st.IntegerType() | st.LongType():
            return t.Integer()
        case st.FloatType() | st.DoubleType():
            return t.Double()
        case st.DecimalType():
            return t.Decimal(data_type.precision, data_type.scale)
        case st.StringType() | st.CharType() | st.VarcharType():
            return t.String()
        case st.BooleanType():
            return t.Boolean()
        case st.TimestampType() | st.TimestampNTZType():
            return t.Timestamp()
        case st.DateType():
            return t.Date()
        case st.DayTimeIntervalType():
            return t.Duration()
        case st.BinaryType():
            return t.BinaryType()
        case st.ArrayType():
            return t.Array(spark_type(data_type.elementType))
        case st.MapType():
            return t.Map(spark_type(data_type.keyType), spark_type(data_type.valueType))
        case st.StructType():
            return t.Struct(tuple((field.name, spark_type(field.dataType)) for field in data_type.fields))
    return t.Unknown()


def read(text: str, data_type: st.DataType) -> Sql:
    """A column, a field or an element as SQL, in the canonical form of its type."""
    type_ = spark_type(data_type)
    match data_type:
        case st.ByteType() | st.ShortType() | st.IntegerType() | st.FloatType() | st.CharType() | st.VarcharType():
            return Sql(f"cast({text} as {type_})", type_)
        case st.TimestampNTZType():
            return moment(local_micros(text))
        case st.DayTimeIntervalType() if (data_type.startField, data_type.endField) != (0, 3):
            return Sql(f"cast({text} as interval day to second)", type_)
        case st.StringType() if not _is_binary_text(data_type):
            return Sql(f"collate({text}, 'UTF8_BINARY')", type_)
        case st.ArrayType() | st.MapType() | st.StructType():
            return Sql(text, type_, raw=data_type)
        case st.NullType():
            return null(t.Null())
    if isinstance(type_, t.Unknown):
        raise InexpressibleError
    return Sql(text, type_)


def member(base: Sql, name: str) -> Sql:
    """A struct's field, or a map's value by a name."""
    match base.raw:
        case st.StructType() as struct:
            found = [field for field in struct.fields if field.name.lower() == name.lower()]
            if len(found) != 1 or found[0].name != name:
                raise InexpressibleError
            # With a dot, the first name could also be parsed as the alias of a table.
            access = f"['{name}']" if is_plain(name) and name else f".{quoted(name)}"
            return read(f"{base.text}{access}", found[0].dataType)
        case st.MapType(keyType=st.StringType()):
            return _map_value(base, base.raw, string(constant(name)))
    raise InexpressibleError


def item(base: Sql, key: Sql) -> Sql:
    """``base[key]``: an array's element, counted from zero, or a map's value."""
    match base.raw:
        case st.ArrayType() as array if isinstance(key.type, t.Integer):
            return read(f"get({base.text}, try_cast({firm(key).text} as int))", array.elementType)
        case st.MapType() as mapping:
            return _map_value(base, mapping, key)
    raise InexpressibleError


def element_at(names: Names, base: Sql, key: Sql) -> Sql:
    """An array's element, counted from one or, backwards, from minus one; or a map's value."""
    match base.raw:
        case st.ArrayType() as array if isinstance(key.type, t.Integer):
            # Spark raises for 0, and treats the smallest int as a valid position.
            at = names.shared(
                firm(key), lambda x: f"if(abs(nullif({x.text}, {MIN_BIGINT})) <= {MAX_INT}L, {x.text}, null)"
            )
            return read(f"try_element_at({base.text}, cast(nullif({at}, 0L) as int))", array.elementType)
        case st.MapType() as mapping:
            return _map_value(base, mapping, key)
    raise InexpressibleError


def _map_value(base: Sql, mapping: st.MapType, key: Sql) -> Sql:
    key_type = spark_type(mapping.keyType)
    exact = isinstance(key_type, t.String | t.Integer | t.Boolean | t.Date | t.Timestamp | t.Duration)
    if key_type != key.type or not exact or not is_comparable_as_is(mapping.keyType):
        raise InexpressibleError
    if isinstance(mapping.keyType, st.TimestampNTZType):
        raise InexpressibleError
    return read(f"try_element_at({base.text}, {firm(key).text})", mapping.valueType)


def size(value: Sql) -> Sql:
    """The number of elements of an array or a map."""
    match value.raw:
        case st.ArrayType():
            return integer(f"cast(array_size({value.text}) as bigint)")
        case st.MapType():
            return integer(f"cast(array_size(map_keys({value.text})) as bigint)")
    raise InexpressibleError


def array_contains(array: Sql, item: Sql) -> Sql:
    firm(item)
    if not isinstance(array.raw, st.ArrayType) or not is_comparable_as_is(array.raw):
        raise InexpressibleError
    if isinstance(array.raw.elementType, st.TimestampNTZType) or item.raw is not None:
        raise InexpressibleError
    match spark_type(array.raw.elementType), item.type:
        case (t.Double(), other) | (other, t.Double()) if t.is_number(other):
            return boolean(f"array_contains(cast({array.text} as array<double>), {as_double(item)})")
        case a, b if a == b:
            return boolean(f"array_contains(cast({array.text} as array<{type_name(a)}>), {item.text})")
    raise InexpressibleError


def is_comparable_as_is(data_type: st.DataType | None) -> bool:
    """True if arrays of this Spark type compare as in the reference."""
    match data_type:
        case st.ArrayType():
            return is_comparable_as_is(data_type.elementType)
        case st.StringType():
            return _is_binary_text(data_type)
        case None | st.MapType() | st.StructType():
            return False
    return not t.is_open(spark_type(data_type))


def _is_binary_text(data_type: st.StringType) -> bool:
    return getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"
