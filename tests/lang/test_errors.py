"""Error messages of common mistakes, as golden files: the input above the line, the message below it.

Run with PERSEID_REWRITE_GOLDEN=1 to rewrite the messages; then review every changed one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from perseid.errors import PatternError, PerseidError
from perseid.lang.parser import parse_file
from perseid.semantics.check import check
from perseid.semantics.types import EventSchema, schema

LINE = "\n----\n"
FILES = sorted((Path(__file__).parent / "errors").glob("*.txt"))


def read(file: Path) -> tuple[EventSchema | None, str, str]:
    """Return the schema of the header, the pattern text, and the expected message."""
    above, _, message = file.read_text(encoding="utf-8").partition(LINE)
    declared: dict[str, dict[str, str]] = {}
    rows = above.split("\n")
    while rows and rows[0].startswith("schema "):
        event_type, _, columns = rows.pop(0).removeprefix("schema ").partition(":")
        pairs = (column.partition(" ")[::2] for column in re.split(r",\s+", columns.strip()))
        declared[event_type] = dict(pairs)
    return schema(declared) if declared else None, "\n".join(rows), message


def provoke(text: str, events: EventSchema | None) -> PerseidError:
    try:
        check(parse_file(text), events)
    except PatternError as error:
        return error.locate(text)
    except PerseidError as error:
        return error
    pytest.fail("no error was raised")


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_message(file: Path) -> None:
    events, text, expected = read(file)
    error = provoke(text, events)
    found = f"{type(error).__name__}\n{error}\n"
    if os.environ.get("PERSEID_REWRITE_GOLDEN") == "1":
        above = file.read_text(encoding="utf-8").partition(LINE)[0].rstrip("\n")
        file.write_text(f"{above}{LINE}{found}", encoding="utf-8")
        return
    assert found == expected


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_error_has_a_position_and_a_hint(file: Path) -> None:
    events, text, _ = read(file)
    error = provoke(text, events)
    assert isinstance(error, PatternError)
    assert error.hint or error.nearest
    assert error.line is not None
    assert error.column is not None
    rows = text.split("\n")
    assert 1 <= error.line <= len(rows)
    assert 1 <= error.column <= len(rows[error.line - 1]) + 1
    assert "^" in str(error)


def test_at_least_70_mistakes_are_covered() -> None:
    assert len(FILES) >= 70
