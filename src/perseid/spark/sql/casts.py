"""``cast``, and parsing of numbers and times: the same texts as the reference's own regular expressions accept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from perseid.errors import PatternError
from perseid.semantics import types as t
from perseid.semantics.evaluate import MAX_NUMBER_TEXT
from perseid.spark.sql.literals import constant
from perseid.spark.sql.numbers import as_double, narrowed
from perseid.spark.sql.pieces import (
    InexpressibleError,
    Names,
    Sql,
    boolean,
    double,
    firm,
    integer,
    moment,
    null,
    string,
)
from perseid.spark.sql.strings import as_text
from perseid.spark.sql.times import bounded, day, local_micros, micros, seconds

_SURE_DIGITS = 15  # of a double; whether Java gives the shortest digits beyond them depends on its version

# Spaces and control characters around a text are ignored.
_EDGE = r"[\x00-\x20\x7f]*"
_EDGE_CHARACTERS = "".join(map(chr, range(33))) + "\x7f"
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_DATE = r"(?!0000)[0-9]{4}(?:-[0-9]{1,2}(?:-[0-9]{1,2}"
_CLOCK = r"[0-9]{1,2}:[0-9]{1,2}(?::[0-9]{1,2}(?:\.[0-9]{0,9})?)?"
_ZONE = r" ?(?:Z|UTC|[+-][0-9]{1,2}(?::?[0-9]{2})?)"


def _pattern(inside: str) -> str:
    return constant(rf"\A{_EDGE}{inside}{_EDGE}\z")


_IS_DOUBLE = _pattern(rf"(?:{_NUMBER}(?:[eE][+-]?[0-9]{{1,9}})?(?:(?<=[0-9])[dDfF])?|(?i:[+-]?inf(?:inity)?|nan))")
_IS_DECIMAL = _pattern(rf"{_NUMBER}(?:[eE][+-]?[0-9]{{1,9}})?")
# Java would compute ten to an exponent of nine digits, for minutes, to round the result to zero.
_IS_SHORT_DECIMAL = _pattern(rf"{_NUMBER}(?:[eE][+-]?0*[0-9]{{1,4}})?")
_IS_TINY_DECIMAL = _pattern(rf"(?:[+-]?[0.]+[eE][+-]?[0-9]+|{_NUMBER}[eE]-[0-9]+)")
_IS_TIMESTAMP = _pattern(rf"{_DATE}(?:[T ](?:{_CLOCK}(?:{_ZONE})?)?)?)?)?")
_ZONE_OF_TEXT = constant(rf":[0-9]{{1,2}}(?:\.[0-9]{{0,9}})?({_ZONE})\z")
_OFFSET = constant(r"\A ?[+-]([0-9]{1,2}):?([0-9]{2})?\z")
_DAY_OF_TEXT = constant(rf"\A{_EDGE}({_DATE})?)?){_EDGE}(?:[ T](?s:.*))?\z")
_IS_DURATION = _pattern(r"[+-]?[0-9]{1,9} [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]{1,9})?")


def target_type(written: str) -> t.Type:
    try:
        return t.parse_type(written)
    except PatternError:
        raise InexpressibleError from None


def cast(names: Names, value: Sql, target: t.Type) -> Sql:
    if isinstance(target, t.Array | t.Map | t.Struct | t.Variant | t.BinaryType):
        raise InexpressibleError
    if isinstance(value.type, t.Null):
        return null(target)
    if value.type == target:
        return value if not value.loose else replace(value, loose=isinstance(target, t.Timestamp))
    match target:
        case t.String():
            return string(as_text(value))
        case t.Boolean() if t.is_number(value.type) or isinstance(value.type, t.String):
            return boolean(f"try_cast({value.text} as boolean)")
        case t.Integer():
            return _to_integer(names, value)
        case t.Double():
            return _to_double(names, value)
        case t.Decimal():
            return _to_decimal(names, value, target)
        case t.Timestamp():
            return _to_timestamp(names, value)
        case t.Date():
            return _to_date(value)
        case t.Duration() if isinstance(value.type, t.String):
            return Sql(names.shared_text(value.text, _read_duration), target)
    return null(target)


def _to_integer(names: Names, value: Sql) -> Sql:
    match value.type:
        case t.Double():
            return integer(narrowed(names, value.text, lambda x: f"cast({x} as bigint)"))
        case t.Boolean() | t.Decimal():
            return integer(f"try_cast({value.text} as bigint)")
        case t.Timestamp():
            return integer(f"try_cast({firm(value).text} as bigint)")
        case t.String():
            return integer(_read_number(names, value, None, lambda x: f"try_cast({x} as bigint)"))
    return null(t.Integer())


def _to_double(names: Names, value: Sql) -> Sql:
    match value.type:
        case t.Integer() | t.Decimal():
            return double(as_double(value))
        case t.Boolean():
            return double(f"cast({value.text} as double)")
        case t.Timestamp():
            return double(f"cast({seconds(value)} as double)")
        case t.String():
            return double(_read_number(names, value, _IS_DOUBLE, lambda x: f"try_cast({x} as double)"))
    return null(t.Double())


def _to_decimal(names: Names, value: Sql, target: t.Decimal) -> Sql:
    def read(text: str) -> str:
        return (
            f"case when {text} rlike {_IS_SHORT_DECIMAL} then try_cast({text} as {target}) "
            f"when {text} rlike {_IS_TINY_DECIMAL} then cast(0 as {target}) end"
        )

    match value.type:
        case t.Double() if target.precision > _SURE_DIGITS:
            raise InexpressibleError
        case t.Boolean() | t.Integer() | t.Decimal() | t.Double():
            return Sql(f"try_cast({value.text} as {target})", target)
        case t.Timestamp():
            return Sql(f"try_cast({seconds(value)} as {target})", target)
        case t.String():
            return Sql(_read_number(names, value, _IS_DECIMAL, read), target)
    return null(target)


def _to_timestamp(names: Names, value: Sql) -> Sql:
    match value.type:
        case t.Date() | t.Timestamp():
            return moment(micros(value))
        case t.String():
            return read_timestamp(names, value)
        case t.Integer():
            return bounded(names, f"try_multiply({value.text}, 1000000L)")
        case t.Double():
            return bounded(names, narrowed(names, f"({value.text} * 1000000D)", lambda x: f"cast({x} as bigint)"))
        case t.Decimal() as size:
            if size.precision > 30:  # the product would lose digits
                raise InexpressibleError
            return bounded(names, f"try_cast({value.text} * 1000000BD as bigint)")
    return null(t.Timestamp())


def _to_date(value: Sql) -> Sql:
    match value.type:
        case t.Date() | t.Timestamp():
            return Sql(day(value), t.Date())
        case t.String():
            return Sql(f"try_cast(regexp_extract({value.text}, {_DAY_OF_TEXT}, 1) as date)", t.Date())
    return null(t.Date())


# reading


def _read_number(names: Names, value: Sql, test: str | None, then: Callable[[str], str]) -> str:
    """Convert a text that is short enough to be a number, and matches ``test``; any other text is null."""

    def read(x: str) -> str:
        matches = "" if test is None else f" and {x} rlike {test}"
        return f"case when length({x}) <= {MAX_NUMBER_TEXT}{matches} then {then(x)} end"

    # Spark's casts differ in the characters that they ignore.
    return names.shared_text(f"btrim({value.text}, {constant(_EDGE_CHARACTERS)})", read)


def _read_duration(text: str) -> str:
    return (
        f"case when length({text}) <= 64 and {text} rlike {_IS_DURATION} "
        f"then try_cast({text} as interval day to second) end"
    )


def read_timestamp(names: Names, value: Sql) -> Sql:
    """Parse an ISO 8601 text as a timestamp; without a zone it is UTC, regardless of the session's zone."""

    def read(text: str) -> str:
        # Spark rejects a T with nothing behind it.
        bare = f"btrim({text}, {constant('T' + _EDGE_CHARACTERS)})"
        found = names.shared_text(
            bare, lambda x: names.shared_text(f"regexp_extract({x}, {_ZONE_OF_TEXT}, 1)", lambda y: _read_zoned(x, y))
        )
        return f"case when {text} rlike {_IS_TIMESTAMP} then {found} end"

    return bounded(names, names.shared_text(value.text, read))


def _read_zoned(bare: str, zone: str) -> str:
    """The microseconds of a time and its zone.

    Spark parses fewer offsets than ISO 8601 has, so the offset is cut off and subtracted here.
    """
    clock = f"substring({bare}, 1, length({bare}) - length({zone}))"
    local = local_micros(f"try_cast({clock} as timestamp_ntz)")
    hours = f"try_cast(regexp_extract({zone}, {_OFFSET}, 1) as bigint)"
    minutes = f"coalesce(try_cast(regexp_extract({zone}, {_OFFSET}, 2) as bigint), 0L)"
    offset_minutes = f"case when {hours} <= 18 and {minutes} <= 59 then {hours} * 60 + {minutes} end"
    offset = f"if({zone} rlike {_OFFSET}, {offset_minutes}, 0L) * if(contains({zone}, '-'), -60000000L, 60000000L)"
    return f"try_subtract({local}, {offset})"
