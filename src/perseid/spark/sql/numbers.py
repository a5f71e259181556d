"""Numbers: precision, sign, rounding, distances on the globe, and angles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from perseid.lang.expressions import Literal
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.functions import DEGREES, EARTH_RADIUS_KM, FUNCTIONS
from perseid.spark.sql.pieces import InexpressibleError, Names, Sql, double, duration, firm, integer
from perseid.spark.sql.times import micros

MIN_BIGINT = f"{v.MIN_INTEGER}L"
MAX_INT = 2_147_483_647
_SCALA_DIGITS = 34
_INFINITY = "cast('Infinity' as double)"


def as_double(value: Sql) -> str:
    if not t.is_number(value.type):
        raise InexpressibleError
    return value.text if isinstance(value.type, t.Double) else f"cast({value.text} as double)"


def as_decimal(value: Sql, size: t.Decimal) -> str:
    return value.text if value.type == size else f"cast({value.text} as {size})"


def decimal_size(value: Sql) -> t.Decimal:
    if not isinstance(value.type, t.Integer | t.Decimal):
        raise InexpressibleError
    return t.as_decimal(value.type)


def exact_size(values: Sequence[Sql]) -> t.Decimal:
    """The smallest decimal type that holds all of these without losing a digit."""
    sizes = [decimal_size(value) for value in values]
    integer_digits, scale = max(size.precision - size.scale for size in sizes), max(size.scale for size in sizes)
    if integer_digits + scale > t.MAX_PRECISION:
        raise InexpressibleError
    return t.Decimal(integer_digits + scale, scale)


def digits(value: Sql) -> str:
    return f"try_cast({value.text} as string)"  # without try_, a setting decides how decimals look


def narrowed(names: Names, double: str, to_integer: Callable[[str], str]) -> str:
    """Convert a double to a whole number; null if no bigint holds it, while Spark would return the nearest one."""
    limit = "9.223372036854775808E18D"
    return names.shared_text(double, lambda x: f"case when {x} >= -{limit} and {x} < {limit} then {to_integer(x)} end")


# signs


def negated(value: Sql) -> Sql:
    if isinstance(value.type, t.Null):
        return value
    return _resigned(value, lambda x: f"(-({x}))", f"replace(concat('-', {digits(value)}), '--', '')")


def absolute(value: Sql) -> Sql:
    return _resigned(value, lambda x: f"abs({x})", f"replace({digits(value)}, '-', '')")


def _resigned(value: Sql, sign: Callable[[str], str], changed: str) -> Sql:
    """Change the sign of a value.

    The smallest bigint has no opposite and becomes null. A long decimal is changed by its digits, since Spark's own
    minus and abs round to 34 of them.
    """
    match value.type:
        case t.Integer():
            return integer(sign(f"nullif({value.text}, {MIN_BIGINT})"))
        case t.Decimal(precision=precision) if precision > _SCALA_DIGITS:
            return replace(value, text=f"try_cast({changed} as {value.type})")
        case t.Double() | t.Decimal():
            return replace(value, text=sign(value.text))
        case t.Duration():
            return duration(sign(f"nullif({micros(value)}, {MIN_BIGINT})"))
    raise InexpressibleError


# rounding


def rounded(names: Names, value: Sql, digits: int | None) -> Sql:
    """``round`` to a literal number of digits."""
    if digits is None:
        raise InexpressibleError
    match value.type:
        case t.Integer() if digits >= 0:
            return value
        case t.Integer():
            tens = max(digits, -20)
            return integer(f"try_cast(round(cast({value.text} as decimal(20,0)), {tens}) as bigint)")
        case t.Double():
            if digits < 0:
                firm(value)
            # No double has digits beyond these, and Java would write out all the requested zeros.
            return replace(value, text=f"round({value.text}, {max(-400, min(digits, 400))})")
        case t.Decimal() as size:
            return _rounded_decimal(names, firm(value), size, digits)
    raise InexpressibleError


def _rounded_decimal(names: Names, value: Sql, size: t.Decimal, digits: int) -> Sql:
    result = FUNCTIONS["round"].result([size], [Literal("null", None), Literal("integer", max(digits, -100))])
    places = max(-100, min(digits, 100))
    if size.precision < t.MAX_PRECISION or size.scale > 0 or digits >= 0:
        return Sql(f"round({value.text}, {places})", result)
    # Only here rounding up can need a 39th digit, for which Spark raises.
    if places < -t.MAX_PRECISION:
        return Sql(f"if({value.text} is null, null, cast(0 as {result}))", result)
    limit = f"{10**38 - 5 * 10 ** (-places - 1)}BD"

    def guarded(x: str) -> str:
        return f"case when {x} < {limit} and {x} > -{limit} then round({x}, {places}) end"

    return Sql(names.shared(value, lambda x: guarded(x.text)), result)


def round_to_integer(names: Names, name: str, value: Sql) -> Sql:
    """``floor`` or ``ceil``."""
    match value.type:
        case t.Integer():
            return value
        case t.Double():
            return integer(narrowed(names, value.text, lambda x: f"{name}({x})"))
        case t.Decimal() as size:
            result = t.bounded(size.precision - size.scale + 1, 0)
            return Sql(f"{name}({value.text})", result, loose=value.loose)
    raise InexpressibleError


# Distances and angles


def distance(names: Names, degrees: Sequence[str]) -> Sql:
    """Kilometers between two points, each a latitude and a longitude."""

    def formula(*degrees: str) -> str:
        is_finite = " and ".join(f"abs({x}) < {_INFINITY}" for x in degrees)
        lat1, lon1, lat2, lon2 = (f"radians({x})" for x in degrees)
        half = (
            f"power(sin(({lat2} - {lat1}) / 2D), 2D) + "
            f"cos({lat1}) * cos({lat2}) * power(sin(({lon2} - {lon1}) / 2D), 2D)"
        )
        arc = f"asin(sqrt(least(1D, greatest(0D, {half}))))"
        return f"case when {is_finite} then 2D * {EARTH_RADIUS_KM!r}D * {arc} end"

    return double(names.shared_texts(degrees, formula))


def angle(names: Names, numbers: Sequence[str]) -> Sql:
    """Angle in degrees at the second of three points, each given as x and y."""

    def formula(ax: str, ay: str, bx: str, by: str, cx: str, cy: str) -> str:
        ux, uy, wx, wy = f"({ax} - {bx})", f"({ay} - {by})", f"({cx} - {bx})", f"({cy} - {by})"
        return names.shared_texts(
            [f"abs({ux} * {wy} - {uy} * {wx})", f"({ux} * {wx} + {uy} * {wy})"], formula_of_products
        )

    def formula_of_products(cross: str, dot: str) -> str:
        is_defined = f"{cross} < {_INFINITY} and abs({dot}) < {_INFINITY} and ({cross} <> 0D or {dot} <> 0D)"
        return f"case when {is_defined} then atan2({cross}, {dot}) * {DEGREES!r}D end"

    return double(names.shared_texts(numbers, formula))
