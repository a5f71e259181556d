"""Rows of a file for a run of a job without Spark, which skips malformed records as the job on Spark does."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from perseid.errors import EventDataError
from perseid.jobs.stream_kinds.contract import Row, StreamSettings
from perseid.tables.rows import read_time


def require_times(
    stream: StreamSettings,
    tables: Mapping[str, list[Row]],
    lines: MutableMapping[int, Row],
    malformed: MutableMapping[int, str],
) -> dict[str, list[Row]]:
    """Return the tables without rows that have no readable time, and move these rows from ``lines`` to ``malformed``.

    If no row of a table has a time, the time column is probably misspelled: the table stays, and matching it is an error
    that names the columns.
    """
    numbers = {id(row): number for number, row in lines.items()}
    columns = stream.time_columns()
    timed_tables = {}
    for path, rows in tables.items():
        column = columns.get(path)
        timed_rows = rows if column is None else [row for row in rows if _has_time(row, column)]
        if not timed_rows:
            timed_rows = rows
        timed_tables[path] = timed_rows
        timed = {id(row) for row in timed_rows}
        for row in rows:
            if id(row) not in timed and (number := numbers.get(id(row))) is not None:
                malformed[number] = f"column {column!r} has no readable time"
                del lines[number]
    return timed_tables


def _has_time(row: Row, column: str) -> bool:
    try:
        read_time(row.get(column), 0, column)
    except EventDataError:
        return False
    return True
