"""Select the rows that rules emit from the action log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from perseid.spark.arrow import to_spark
from perseid.spark.inputs import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def select_emitted(actions: DataFrame, name: str, common: Sequence[str], types: Mapping[str, pa.DataType]) -> DataFrame:
    """Rows emitted under one name: the ``common`` columns (time and key), and each value in a column of its own type."""
    rows = actions.where((f.col("what") == "emitted") & (f.col("name") == name))
    values = [f.col("values")[column].try_cast(to_spark(kind)).alias(column) for column, kind in types.items()]
    return rows.select(*(f.col(quoted(column)) for column in common), *values)
