"""Parse a list of columns in Spark's DDL, such as ``ts timestamp, user string``."""

from __future__ import annotations

import re

from perseid.errors import PatternError
from perseid.semantics.types import Type, parse_type

_COLUMN = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>\w+))\s*[:\s]\s*(?P<type>.+?)\s*", re.DOTALL)
_CONSTRAINT = re.compile(r"(?is)\s+(not\s+null|comment\s+'(?:[^']|'')*'|default\s+.*)\s*$")


def parse_columns(ddl: object) -> dict[str, Type] | None:
    """Return the type of each column; None if ``ddl`` is not a text or has a type that patterns do not have."""
    if not isinstance(ddl, str):
        return None
    found = {}
    for part in _split_columns(ddl):
        match = _COLUMN.fullmatch(part)
        if match is None:
            return None
        kind = match["type"]
        while _CONSTRAINT.search(kind):
            kind = _CONSTRAINT.sub("", kind)
        try:
            found[(match["quoted"] or match["name"]).replace("``", "`")] = parse_type(kind)
        except PatternError:
            return None
    return found


def _split_columns(ddl: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, char in enumerate(ddl):
        depth += (char in "(<") - (char in ")>")
        if char == "," and depth == 0:
            parts.append(ddl[start:place])
            start = place + 1
    return [*parts, ddl[start:]]
