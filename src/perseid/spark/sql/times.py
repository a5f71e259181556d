"""Moments and durations as microseconds, independent of the session's time zone."""

from __future__ import annotations

from perseid.lang.expressions import Expr, Literal
from perseid.semantics import types as t
from perseid.semantics.functions import UNITS
from perseid.spark.sql.pieces import MICROSECOND, InexpressibleError, Names, Sql, firm, integer, moment

DAY = 86_400_000_000
_HOUR, _MINUTE, _SECOND = 3_600_000_000, 60_000_000, 1_000_000
_FIRST_MICRO, _LAST_MICRO = -62_135_596_800_000_000, 253_402_300_799_999_999
_FIRST_DAY = 719_162  # days from 0001-01-01 to 1970-01-01
_EPOCH_NTZ = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_CLOCK = {"hour": (DAY, _HOUR), "minute": (_HOUR, _MINUTE), "second": (_MINUTE, _SECOND)}
_LENGTHS = {"day": DAY, "dd": DAY, "hour": _HOUR, "minute": _MINUTE, "second": _SECOND, "millisecond": 1_000}


def micros(value: Sql) -> str:
    """A moment or a duration as a bigint of microseconds."""
    if value.micros is not None:
        return value.micros
    match value.type:
        case t.Date():
            return f"try_multiply(cast(unix_date({value.text}) as bigint), {DAY}L)"
        case t.Timestamp():
            return f"unix_micros({value.text})"
        case t.Duration():
            seconds = f"cast(cast({value.text} as interval second) as decimal(20,6))"
            return f"cast({seconds} * 1000000BD as bigint)"
    raise InexpressibleError


def local_micros(text: str) -> str:
    """A timestamp without a zone, read as UTC, in microseconds."""
    return micros(Sql(f"({text} - {_EPOCH_NTZ})", t.Duration()))


def seconds(value: Sql) -> str:
    """Seconds since 1970 as an exact decimal; Spark's own cast goes through a double."""
    return f"(cast({micros(firm(value))} as decimal(20,0)) * 0.000001BD)"


def day(value: Sql) -> str:
    """The date of a moment in UTC; days are counted from the first one, so that ``div`` truncates downward."""
    if isinstance(value.type, t.Date):
        return value.text
    days = f"try_add({micros(value)}, {-_FIRST_MICRO}L) div {DAY}L - {_FIRST_DAY}L"
    return f"date_from_unix_date(cast({days} as int))"


def moment_text(value: Sql) -> str:
    return f"cast({_EPOCH_NTZ} + {MICROSECOND} * {micros(value)} as string)"


def bounded(names: Names, micros: str) -> Sql:
    """A moment, null outside the years 1 to 9999."""
    return moment(
        names.shared_text(micros, lambda x: f"case when {x} >= {_FIRST_MICRO}L and {x} <= {_LAST_MICRO}L then {x} end")
    )


def calendar_part(name: str, value: Sql) -> Sql:
    """The year, month, day or day of the week."""
    return integer(f"cast({name}({day(_need_moment(value))}) as bigint)")


def clock_part(name: str, value: Sql) -> Sql:
    """The hour, minute or second."""
    around, unit = _CLOCK[name]
    return integer(f"(pmod({micros(_need_moment(value))}, {around}L) div {unit}L)")


def truncated(names: Names, unit: Expr, value: Sql) -> Sql:
    """Truncate a moment to a unit, which must be a literal."""
    _need_moment(value)
    word = unit.value.lower() if isinstance(unit, Literal) and isinstance(unit.value, str) else None
    if word not in UNITS:
        raise InexpressibleError
    match word:
        case "microsecond":
            return moment(micros(value))
        case "year" | "yyyy" | "yy" | "quarter" | "month" | "mon" | "mm" | "week":
            return moment(micros(Sql(f"trunc({day(value)}, '{word}')", t.Date())))
    length = _LENGTHS[word]
    return moment(names.shared_text(micros(value), lambda x: f"try_subtract({x}, pmod({x}, {length}L))"))


def _need_moment(value: Sql) -> Sql:
    if not t.is_moment(value.type):
        raise InexpressibleError
    return value
