"""The events behind matches, one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perseid.errors import EventDataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MATCH_COLUMNS = ("match_id", "pattern", "position")


def explode_evidence(matches: DataFrame) -> DataFrame:
    """One row for each event that contributed to a match: ``match_id``, ``pattern``, ``position``, the event's columns.

    ``matches`` is the output of ``match`` for patterns that return ``evidence``; positions count from 0, in the order
    of the match. An event column named like one of these three is renamed to ``event_match_id`` and so on.
    """
    from pyspark.sql import functions as f
    from pyspark.sql import types as st

    kind = matches.schema["evidence"].dataType if "evidence" in matches.columns else None
    inner = kind.elementType if isinstance(kind, st.ArrayType) else None
    if not isinstance(inner, st.StructType):
        raise EventDataError("The matches have no evidence.", hint="Add it to the pattern: return …, evidence.")
    reserved = {name.lower() for name in _MATCH_COLUMNS}
    columns = []
    for name in inner.names:
        column = f.col("event").getField(name)
        columns.append(column.alias(f"event_{name}" if name.lower() in reserved else name))
    exploded = matches.select("match_id", "pattern", f.posexplode("evidence").alias("position", "event"))
    return exploded.select(*_MATCH_COLUMNS, *columns)
