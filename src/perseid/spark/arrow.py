"""Convert Spark types to Arrow types and back. pyspark's own conversion has other parameters in each version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as st

from perseid.runtime.arrays import MOMENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PAIRS: tuple[tuple[type[st.DataType], pa.DataType], ...] = (
    (st.BooleanType, pa.bool_()),
    (st.ByteType, pa.int8()),
    (st.ShortType, pa.int16()),
    (st.IntegerType, pa.int32()),
    (st.LongType, pa.int64()),
    (st.FloatType, pa.float32()),
    (st.DoubleType, pa.float64()),
    (st.StringType, pa.string()),
    (st.CharType, pa.string()),
    (st.VarcharType, pa.string()),
    (st.BinaryType, pa.binary()),
    (st.DateType, pa.date32()),
    (st.TimestampType, MOMENT),
    (st.TimestampNTZType, pa.timestamp("us")),
    (st.DayTimeIntervalType, pa.duration("us")),
)


def to_arrow(data_type: st.DataType) -> pa.DataType | None:
    """The Arrow type of a Spark type; None if the type cannot be transferred to Python."""
    match data_type:
        case st.DecimalType():
            return pa.decimal128(data_type.precision, data_type.scale)
        case st.ArrayType():
            inner = to_arrow(data_type.elementType)
            return None if inner is None else pa.list_(inner)
        case st.MapType():
            key, value = to_arrow(data_type.keyType), to_arrow(data_type.valueType)
            return None if key is None or value is None else pa.map_(key, value)
        case st.StructType():
            fields = [(field.name, to_arrow(field.dataType)) for field in data_type.fields]
            # Fields are identified by name alone.
            unclear = not fields or len(dict(fields)) < len(fields)
            return None if unclear or any(kind is None for _, kind in fields) else pa.struct(fields)
    return next((kind for spark, kind in _PAIRS if isinstance(data_type, spark)), None)


def arrow_types(frame: DataFrame) -> dict[str, pa.DataType]:
    """Arrow's types of the columns of a DataFrame."""
    return {field.name: to_arrow(field.dataType) for field in frame.schema}


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema; every column must have an Arrow type."""
    return pa.schema([(field.name, to_arrow(field.dataType)) for field in schema])


def to_spark(kind: pa.DataType) -> st.DataType:
    """The Spark type of an Arrow type in the output of a plan."""
    is_ = pa.types
    if is_.is_decimal(kind):
        return st.DecimalType(kind.precision, kind.scale)
    if is_.is_list(kind):
        return st.ArrayType(to_spark(kind.value_type))
    if is_.is_map(kind):
        return st.MapType(to_spark(kind.key_type), to_spark(kind.item_type))
    if is_.is_struct(kind):
        return st.StructType([st.StructField(field.name, to_spark(field.type)) for field in kind])
    if is_.is_timestamp(kind) and kind.tz is not None:
        return st.TimestampType()
    return next(spark() for spark, other in _PAIRS if other == kind)
