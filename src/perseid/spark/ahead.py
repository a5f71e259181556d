"""Reject rows with an event time too far beyond their arrival, before they reach the watermark.

The watermark follows the newest time of a stream and never moves back: one row dated 9999 makes all later rows late,
also after a restart. The bound is therefore applied before ``withWatermark``. A rejected row passes with a null time,
so it moves no watermark and is no event; a separate column has its time, so that it can be counted and returned as a
row.

A row arrives when its micro-batch begins. Spark stores that moment in the checkpoint with the offsets of the batch: a
retried batch rejects the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as st

from perseid.errors import EventDataError
from perseid.spark.inputs import DELAY
from perseid.spark.worker import AHEAD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def bound_input(data: Any, time: Any, max_ahead: int | None, lateness: int | None) -> Any:
    """Apply the bound, then the watermark, to streaming DataFrames; return any other data unchanged.

    ``data`` and ``time`` may be dicts by event type; ``max_ahead`` and ``lateness`` are microseconds.
    """
    if max_ahead is None and lateness is None:
        return data
    if isinstance(data, Mapping):
        times = time if isinstance(time, Mapping) else dict.fromkeys(data, time)
        return {kind: bound_input(frame, times.get(kind), max_ahead, lateness) for kind, frame in data.items()}
    if not getattr(data, "isStreaming", False):
        return data
    _require_no_watermark(data, max_ahead, lateness)
    if data.columns.count(time) != 1 or not isinstance(data.schema[time].dataType, st.TimestampType):
        return data  # detection rejects it later, with the available columns
    return _rebuild(data, time, max_ahead, lateness)


def mark_ahead(frame: DataFrame, time: str, max_ahead: int | None) -> DataFrame:
    """Move times that are too far ahead from ``time`` to a separate column; set no watermark."""
    return frame if max_ahead is None else _rebuild(frame, time, max_ahead, None)


def _rebuild(frame: DataFrame, time: str, max_ahead: int | None, lateness: int | None) -> DataFrame:
    names = frame.columns
    # Names may contain any character, or differ by case only.
    sql_names = [f"c{i}" for i in range(len(names))]
    time_column = sql_names[names.index(time)]
    rebuilt = frame.toDF(*sql_names)
    if max_ahead is not None:
        is_ahead = f"unix_micros({time_column}) > unix_micros(current_timestamp()) + {max_ahead}L"
        columns = [f"if({is_ahead}, null, {name}) as {name}" if name == time_column else name for name in sql_names]
        rebuilt = rebuilt.selectExpr(*columns, f"if({is_ahead}, {time_column}, null) as {AHEAD}")
    if lateness is not None:
        rebuilt = rebuilt.withWatermark(time_column, f"{lateness} microseconds")
    return rebuilt.toDF(*names, *([] if max_ahead is None else [AHEAD]))


def _require_no_watermark(frame: DataFrame, max_ahead: int | None, lateness: int | None) -> None:
    """Raise if the frame has a watermark already, or if ``max_ahead`` is set without ``lateness``.

    Spark rejects a second watermark, and a bound above the first one has no effect.
    """
    watermarked = next((field.name for field in frame.schema.fields if DELAY in field.metadata), None)
    if watermarked is not None:
        parameter = "max_ahead" if max_ahead is not None else "lateness"
        raise EventDataError(
            f"The streaming DataFrame already has a watermark on {watermarked!r}; {parameter} requires a DataFrame without one.",
            hint="Remove withWatermark and pass its delay: lateness='10 minutes'.",
        )
    if lateness is None:
        raise EventDataError(
            "max_ahead requires lateness, which sets the watermark.",
            hint="Add the watermark delay: lateness='10 minutes'.",
        )
