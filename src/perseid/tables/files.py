"""Read events and tables from files; errors name the detected format and a conversion."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perseid.errors import EventDataError

Table = tuple[list[str], list[tuple[object, ...]]]
"""Column names, and rows."""
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def holds_objects(path: Path) -> bool:
    """True if a file that is no pattern begins like JSON lines."""
    try:
        return str(path) != "-" and path.read_bytes()[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
    except OSError:
        return False


def csv_table(text: str) -> Table:
    try:
        header, *rows = [row for row in csv.reader(text.splitlines(keepends=True), strict=True) if row] or [[]]
    except csv.Error as error:
        raise EventDataError(f"Invalid CSV: {error}.") from None
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise EventDataError(f"Row {number}: expected {len(header)} cells as in the header, got {len(row)}.")
    columns = [_column([row[place] for row in rows]) for place in range(len(header))]
    return header, list(zip(*columns, strict=True))


def _column(cells: list[str]) -> list[object]:
    """A column of only numbers has numbers; an empty cell is null."""
    for form, read in ((_INTEGER, int), (_NUMBER, float)):
        if all(form.fullmatch(cell) for cell in cells if cell):
            return [read(cell) if cell else None for cell in cells]
    return [cell or None for cell in cells]


def text_of(path: Path) -> str:
    """The text of a file or of standard input; raise for gzip and for encodings other than UTF-8."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise EventDataError(f"The file cannot be read: {error.strerror}.") from None
    if data.startswith(b"\x1f\x8b"):
        remedy = "Add gunzip to the pipe." if str(path) == "-" else f"Decompress it first: gunzip -k {path}"
        raise EventDataError("Expected text, got gzip.", hint=remedy)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in data[:4]:
        raise EventDataError(
            "Expected UTF-8, got an encoding that looks like UTF-16.",
            hint=f"Convert it to UTF-8: iconv -f UTF-16 -t UTF-8 {path}",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EventDataError(f"Invalid UTF-8: line {line} has an unexpected byte.") from None


def read_objects(path: Path) -> Iterator[dict[str, object]]:
    return objects_in(text_of(path), path)


def objects_in(text: str, path: Path) -> Iterator[dict[str, object]]:
    first = True
    for line in _parse_lines(text):
        if isinstance(line.found, str):
            if first:
                _raise_for_other_formats(text, line.text, path)
            raise EventDataError(f"Line {line.number}: {line.found}.")
        first = False
        yield line.found


def read_valid_objects(path: Path) -> tuple[dict[int, dict[str, object]], dict[int, str]]:
    """The objects of a file, and the reasons why other lines are malformed, both by line.

    A file without any object is in another format, which is an error as in :func:`read_objects`.
    """
    text = text_of(path)
    objects: dict[int, dict[str, object]] = {}
    malformed: dict[int, str] = {}
    for line in _parse_lines(text):
        if isinstance(line.found, str):
            malformed[line.number] = line.found
        else:
            objects[line.number] = line.found
    if malformed and not objects:
        for _ in objects_in(text, path):
            pass
    return objects, malformed


@dataclass(frozen=True)
class _ParsedLine:
    number: int
    text: str
    found: dict[str, object] | str
    """The object, or the reason why the line has none."""


def _parse_lines(text: str) -> Iterator[_ParsedLine]:
    # Not splitlines(): JSON strings may contain other line separators.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=lambda _: None)
        except (ValueError, RecursionError) as error:
            where = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            yield _ParsedLine(number, line, f"invalid JSON: {where}")
            continue
        yield _ParsedLine(number, line, row if isinstance(row, dict) else "expected a JSON object")


def _raise_for_other_formats(text: str, line: str, path: Path) -> None:
    """If the first line is not an object, raise with the detected format and a conversion."""
    if line.lstrip().startswith("["):
        raise EventDataError(
            "Expected one JSON object per line, got a JSON array.",
            hint=f"Convert it to JSON lines: jq -c '.[]' {path}",
        )
    if line.lstrip().startswith("{"):
        try:
            _, end = json.JSONDecoder().raw_decode(text.lstrip())
        except (ValueError, RecursionError):
            return
        if "\n" not in text.lstrip()[:end]:
            return
        raise EventDataError(
            "Expected one JSON object per line, got one over several lines.",
            hint=f"Convert it to JSON lines: jq -c . {path}",
        )
    if re.search(r"[^,;\t][,;\t]", line):
        raise EventDataError(
            "Expected one JSON object per line, got text that looks like CSV.",
            hint=f"Convert it to JSON lines: mlr --icsv --ojsonl cat {path} "
            "(or in Python: ps.events(pandas.read_csv(…))).",
        )


def read_rows(path: Path) -> list[tuple[object, ...]]:
    """The rows of a table in a file, in the order of its columns."""
    return read_table(path)[1]


def read_table(path: Path) -> Table:
    """A table in a file: JSON lines, CSV with a header or Parquet."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "not a Parquet file"
            raise EventDataError(f"The file cannot be read: {reason}.") from None
        return table.column_names, [tuple(row.values()) for row in table.to_pylist()]
    text = text_of(path)
    if not text.lstrip().startswith(("{", "[")) and path.suffix not in (".json", ".jsonl", ".ndjson"):
        return csv_table(text)
    objects = list(objects_in(text, path))
    columns = list(dict.fromkeys(column for row in objects for column in row))
    return columns, [tuple(row.get(column) for column in columns) for row in objects]
