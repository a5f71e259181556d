"""Local rows in the forms that users have: files, data frames, relations of databases, iterators."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from perseid.errors import EventDataError
from perseid.tables.arrow_streams import is_arrow_stream, read_arrow_stream
from perseid.tables.columns import are_paths
from perseid.tables.files import csv_table, read_objects, text_of
from perseid.tables.rows import is_spark

JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
CSV_ENDINGS = (".csv",)


def reusable_rows(data: object) -> object:
    """Return rows that can be read several times, as a declared stream is.

    CSV and JSON Lines files are read here; Parquet files are read where they are needed. Frames of Polars and other
    objects with the Arrow PyCapsule interface (DuckDB) become an Arrow table, iterators a list.
    """
    if is_spark(data):  # a DataFrame of Spark has the interface, too
        return data
    if are_paths(data):
        return _read_files([data] if isinstance(data, str | os.PathLike) else list(data), data)
    if is_arrow_stream(data):
        return read_arrow_stream(data)
    return list(data) if isinstance(data, Iterator) else data


def _read_files(paths: list[str | os.PathLike[str]], data: object) -> object:
    """The rows of text files; other paths are returned as given."""
    endings = {Path(os.fspath(path)).suffix.lower() for path in paths}
    is_text = endings & {*JSON_ENDINGS, *CSV_ENDINGS}
    if not is_text:
        return data
    if len(endings) > 1:
        raise EventDataError(
            f"The files have several formats: {', '.join(sorted(endings))}.",
            hint="Declare several inputs by event type: ps.events({'Login': 'logins.csv', …}).",
        )
    read = _csv_rows if endings <= {*CSV_ENDINGS} else read_objects
    return [row for path in paths for row in _rows_of(Path(os.fspath(path)), read)]


def _rows_of(path: Path, read: Callable[[Path], Iterable[dict[str, object]]]) -> list[dict[str, object]]:
    try:
        return list(read(path))
    except EventDataError as error:
        raise EventDataError(f"{path}: {error.message}", hint=error.hint) from None


def _csv_rows(path: Path) -> list[dict[str, object]]:
    header, rows = csv_table(text_of(path))
    return [dict(zip(header, row, strict=True)) for row in rows]
