"""Parse and check a list of columns in Spark's DDL, such as ``ts timestamp, user string``, without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

from perseid.errors import PatternError, nearest
from perseid.semantics.types import FOREIGN_NAMES, Type, parse_type

_COLUMN = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>\w+))\s*[:\s]\s*(?P<type>.+?)\s*", re.DOTALL)
_CONSTRAINT = re.compile(r"""(?is)\s+(not\s+null|comment\s+(?:'(?:[^'\\]|''|\\.)*'|"[^"]*")|default\s+.*)\s*$""")
_STRUCT = re.compile(r"(?is)\s*struct\s*<(.*)>\s*")
_TYPE = re.compile(r"\s*([A-Za-z_]\w*)\s*(.*?)\s*", re.DOTALL)

_BARE_TYPES = (
    "boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double",
    "date", "timestamp_ntz", "timestamp_ltz", "binary", "void", "variant",
)  # fmt: skip
"""Types of Spark without arguments."""
_TYPES_WITH_ARGUMENTS = (
    "string", "timestamp", "decimal", "dec", "numeric", "char", "character", "varchar", "interval", "time", "geometry",
    "geography",
)  # fmt: skip
"""Types of Spark whose arguments are left to Spark to check: newer versions have more of them."""
_NESTED_TYPES = {"array": "array<t>", "map": "map<k,v>", "struct": "struct<name:t>"}
_ALL_TYPES = (*_BARE_TYPES, *_TYPES_WITH_ARGUMENTS, *_NESTED_TYPES)
_AVAILABLE = (
    "boolean, int, bigint, double, decimal(p,s), string, timestamp, date, binary, array<t>, map<k,v>, struct<name:t>, "
    "variant"
)
_MAX_SHOWN = 40
"""Characters of a name that are shown in a message."""
_MAX_NESTING = 20


def parse_columns(ddl: object) -> dict[str, Type] | None:
    """Return the type of each column; None if ``ddl`` is not a text or has a type that patterns do not have."""
    if not isinstance(ddl, str):
        return None
    found = {}
    for part in _split_columns(ddl):
        match = _COLUMN.fullmatch(part)
        if match is None:
            return None
        try:
            found[_name(match)] = parse_type(_without_constraints(match["type"]))
        except PatternError:
            return None
    return found


def check_columns(ddl: str) -> None:
    """Raise a ValueError with the column, the reason and the correction if Spark cannot parse these columns.

    Spark parses them only when a job starts. A text that passes here can still be rejected there, but not the reverse.
    """
    struct = _STRUCT.fullmatch(ddl)
    parts = _split_columns(ddl if struct is None else struct[1])
    for number, part in enumerate(parts, 1):
        if not part.strip():
            reason = "the schema is empty" if len(parts) == 1 else f"column {number} is empty; remove a comma"
            raise ValueError(f"{reason}. Use columns as in SQL: 'ts TIMESTAMP, user STRING'")
        match = _COLUMN.fullmatch(part)
        if match is None:
            raise ValueError(
                f"column {number}{_shown(part.strip())} has no type. Use columns as in SQL: 'ts TIMESTAMP, user STRING'"
            )
        try:
            _check_type(_without_constraints(match["type"]))
        except ValueError as error:
            raise ValueError(f"column {number}{_shown(_name(match))}: {error}") from None


def _name(column: re.Match[str]) -> str:
    return (column["quoted"] or column["name"]).replace("``", "`")


def _without_constraints(kind: str) -> str:
    while _CONSTRAINT.search(kind):
        kind = _CONSTRAINT.sub("", kind)
    return kind


def _shown(name: str) -> str:
    """Return a name for a message; empty for a text that is no name, because it could be anything."""
    return f" {name!r}" if len(name) <= _MAX_SHOWN and re.fullmatch(r"\w+", name) else ""


def _check_type(text: str, depth: int = 0) -> None:
    match = _TYPE.fullmatch(text)
    if match is None or depth > _MAX_NESTING:
        raise ValueError("invalid type" if match is None else f"a type is nested more than {_MAX_NESTING} levels deep")
    name, arguments = match[1].lower(), match[2]
    if name in _NESTED_TYPES:
        if not (arguments.startswith("<") and arguments.endswith(">")):
            raise ValueError(f"invalid type {name}; use {_NESTED_TYPES[name]}")
        for inner in _inner_types(name, arguments[1:-1]):
            _check_type(inner, depth + 1)
    elif name not in _ALL_TYPES:
        near = FOREIGN_NAMES.get(name, "")
        near = near if near in _ALL_TYPES else nearest(name, _ALL_TYPES) or ""
        suggestion = f" Did you mean {near!r}?" if near else ""
        raise ValueError(f"unknown type{_shown(match[1])}.{suggestion} Available: {_AVAILABLE}")
    elif arguments and name in _BARE_TYPES:
        raise ValueError(f"unexpected text after the type {name}. Separate columns with commas")


def _inner_types(name: str, inside: str) -> Iterator[str]:
    """Types inside the brackets of a nested type."""
    parts = _split_columns(inside)
    if name == "struct":
        for part in parts if inside.strip() else []:
            field = _COLUMN.fullmatch(part)
            if field is None:
                raise ValueError("a field of a struct has no type; use struct<name:t>")
            yield _without_constraints(field["type"])
        return
    if len(parts) != (2 if name == "map" else 1):
        raise ValueError(f"invalid type {name}; use {_NESTED_TYPES[name]}")
    yield from parts


def _split_columns(ddl: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for place, char in enumerate(ddl):
        if quote:
            quote = "" if char == quote else quote
        elif char in "`'\"":
            quote = char
        elif char == "," and depth == 0:
            parts.append(ddl[start:place])
            start = place + 1
        else:
            depth += (char in "(<") - (char in ")>")
    return [*parts, ddl[start:]]
