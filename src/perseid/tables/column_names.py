"""Names of columns in arguments: strings, and Columns of Spark that are plain names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from perseid.errors import EventDataError, type_name


class NamedColumn(Protocol):
    """A Column of Spark, which this package does not import."""

    def isNotNull(self) -> object:  # the name in Spark
        ...


ColumnName: TypeAlias = str | NamedColumn
"""The name of a column; a Column of Spark has a name unless it is computed."""
ColumnNames: TypeAlias = ColumnName | Iterable[ColumnName]
"""Names of columns: one, or several."""
NamesByType: TypeAlias = ColumnNames | Mapping[str, ColumnNames]
"""Names of columns, or of columns by event type."""

_PATHS = {"model": "graph.model", "frames": "graph.frames"}
"""Functions that are not at the top level, with their paths below ``perseid``."""
_PLAIN_COLUMN = re.compile(r"Column<'`?([\w.]+)`?'>")


def require_name(function: str, parameter: str, name: object) -> str:
    """Return the name of a column; for any other type, raise an error that names the parameter."""
    if isinstance(name, str):
        return name
    if _is_column(name) and (found := _PLAIN_COLUMN.fullmatch(str(name))):
        return found[1]
    raise _no_name(function, parameter, name, "a column name")


def require_names(function: str, parameter: str, names: object) -> tuple[str, ...]:
    """Return the names of columns as a tuple: one, or several in any iterable."""
    if isinstance(names, str) or _is_column(names):
        return (require_name(function, parameter, names),)
    if isinstance(names, Mapping) or not isinstance(names, Iterable) or _is_series(names):
        raise _no_name(function, parameter, names, "column names")
    return tuple(require_name(function, parameter, name) for name in names)


def names_by_type(parameter: str, names: object) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
    """Return the names of columns, by event type if they are given so."""
    if isinstance(names, Mapping):
        return {kind: require_names("events", parameter, of_kind) for kind, of_kind in names.items()}
    return require_names("events", parameter, names)


def _no_name(function: str, parameter: str, value: object, expected: str) -> EventDataError:
    if _is_column(value):
        return EventDataError(
            f"{parameter}= expected {expected}, got the computed column {value}.",
            hint=f"Add the column with df.withColumn('name', …) and use {parameter}='name'.",
        )
    named = getattr(value, "name", None) if _is_series(value) else None
    name = named if isinstance(named, str) else {"time": "ts", "type": "type"}.get(parameter, "name")
    return EventDataError(
        f"{parameter}= expected {expected}, got {type_name(value)}.",
        hint=f"Use the name: ps.{_PATHS.get(function, function)}(…, {parameter}={name!r}).",
    )


def _is_column(value: object) -> bool:
    return type_name(value).endswith(".Column")


def _is_series(value: object) -> bool:
    return type_name(value).endswith("Series")
