"""Constants and names that every setting of Spark's parser reads alike."""

from __future__ import annotations

import math
from decimal import Decimal

from perseid.lang.expressions import Literal
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.spark.sql.pieces import InexpressibleError, Sql, boolean, double, duration, integer, moment, null, string
from perseid.spark.sql.times import DAY


def quoted(name: str) -> str:
    """Quote the name of a column or field; raise for ``${...}``, which Spark replaces even inside quotes."""
    if not name or "${" in name or not _is_text(name):
        raise InexpressibleError
    return "`" + name.replace("`", "``") + "`"


def constant(value: str) -> str:
    """A string literal; text that a parser setting could read differently is written as its bytes."""
    if is_plain(value):
        return f"'{value}'"
    if not _is_text(value):
        raise InexpressibleError
    return f"cast(X'{value.encode().hex().upper()}' as string)"


def is_plain(value: str) -> bool:
    return value.isascii() and all(c.isalnum() or c in " _.,:-" for c in value)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def bigint_literal(value: int) -> str:
    return f"{value}L" if value >= 0 else f"({value}L)"


def literal(expr: Literal) -> Sql:
    value = expr.value
    match expr.kind, value:
        case "boolean", bool():
            return boolean("true" if value else "false")
        case "double", int() | float():
            return double(_double(float(value)))
        case "decimal", Decimal():
            found = v.sized(value)
            if found is None:
                return null(t.Null())
            size = v.decimal_type(found)
            return Sql(f"cast({format(found, 'f')}BD as {size})", size)
        case "string", str():
            return string(constant(value))
        case "null", None:
            return null(t.Null())
        case "integer", int() if not isinstance(value, bool):
            return integer(bigint_literal(value)) if v.integer(value) is not None else null(t.Integer())
        case "timestamp", int():
            return moment(bigint_literal(value)) if v.moment(value) is not None else null(t.Timestamp())
        case "duration", int():
            return duration(bigint_literal(value)) if v.integer(value) is not None else null(t.Duration())
        case "date", int():
            inside = v.moment(value * DAY) is not None
            return Sql(f"date_from_unix_date({value})", t.Date()) if inside else null(t.Date())
    raise InexpressibleError


def _double(value: float) -> str:
    if not math.isfinite(value):
        return f"cast('{value}' as double)"
    return f"{value!r}D" if math.copysign(1.0, value) > 0 else f"({value!r}D)"
