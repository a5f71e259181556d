"""Allowlist of the functions and aggregates of expressions, as a table.

Functions of strings take linear time, on adversarial events too: regular expressions run in RE2, which does not
backtrack, and they are constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cmp_to_key, reduce
from typing import Any, TypeAlias
from typing import Literal as Choice

from perseid.lang.expressions import Expr, Literal, Unary
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.ip_networks import in_cidr
from perseid.semantics.regular_expressions import regexp_extract
from perseid.semantics.values import Value

Kind = Choice[
    "any", "like first", "boolean", "number", "amount", "integer", "constant integer", "fraction", "string", "text",
    "moment", "unit", "array", "collection", "orderable", "step", "regular expression", "network",
]  # fmt: skip
"""Argument kinds: an *amount* is a number or a duration, *text* anything that prints, a *moment* a timestamp or a date;
*like first* must be compatible with the first argument; a *fraction* is a constant from 0 to 1."""

ResultRule: TypeAlias = "Callable[[Sequence[t.Type], Sequence[Expr]], t.Type]"


@dataclass(frozen=True, slots=True)
class Function:
    """One function. The last parameter kind repeats if more arguments are allowed (``high`` None: any number).

    ``run`` gets evaluated arguments; if ``strict``, none of them is null. The first argument of an aggregate is the
    list of its values, one per event of the repetition, including nulls.
    """

    name: str
    low: int
    high: int | None
    parameters: tuple[Kind, ...]
    result: ResultRule
    run: Callable[..., Value]
    doc: str
    examples: tuple[str, ...] = ()
    strict: bool = True
    aggregate: bool = False
    distinct: bool = False


UNITS = (
    "year", "yyyy", "yy", "quarter", "month", "mon", "mm", "week", "day", "dd", "hour", "minute", "second",
    "millisecond", "microsecond",
)  # fmt: skip
EARTH_RADIUS_KM = 6371.0088
DEGREES = 180.0 / math.pi
"""Degrees per radian."""


def literal_integer(expr: Expr) -> int | None:
    """Return the value of ``5`` or ``-5``; None for anything else."""
    if isinstance(expr, Unary) and expr.op == "-":
        inner = literal_integer(expr.operand)
        return None if inner is None else -inner
    if isinstance(expr, Literal) and expr.kind == "integer" and isinstance(expr.value, int):
        return expr.value
    return None


def literal_fraction(expr: Expr) -> float | None:
    """Return the value of a numeric literal from 0 to 1 as a double; None for anything else."""
    if isinstance(expr, Literal) and v.is_number(expr.value) and expr.kind in ("integer", "decimal", "double"):
        return float(expr.value) if 0 <= expr.value <= 1 else None
    return None


def _always(type_: t.Type) -> ResultRule:
    return lambda types, args: type_


def _first(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    return types[0]


def _widest(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    return t.widest(list(types)) or t.Unknown()


def _chosen(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    return _widest(types[1:], args)


def _remainder(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    return t.arithmetic_type("%", types[0], types[1]) or t.Unknown()


def _rounded(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    if not isinstance(types[0], t.Decimal):
        return types[0]
    digits = literal_integer(args[1]) if len(args) > 1 else 0
    return t.Unknown() if digits is None else _round_type(types[0], digits)


def _round_type(type_: t.Decimal, digits: int) -> t.Decimal:
    integer_digits = type_.precision - type_.scale + 1
    if digits < 0:
        return t.bounded(max(integer_digits, 1 - digits), 0)
    scale = min(type_.scale, digits)
    return t.bounded(integer_digits + scale, scale)


def _integer_type(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    match types[0]:
        case t.Decimal() as type_:
            return t.bounded(type_.precision - type_.scale + 1, 0)
        case t.Integer() | t.Double():
            return t.Integer()
    return t.Unknown()


def _element(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    match types[0]:
        case t.Array(element=found) | t.Map(value=found):
            return found
    return t.Unknown()


def _sum_type(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    match types[0]:
        case t.Decimal() as type_:
            return t.bounded(type_.precision + 10, type_.scale)
        case t.Null() | t.Variant():
            return t.Unknown()
    return types[0]


def _average_type(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    match types[0]:
        case t.Decimal() as type_:
            return t.bounded(type_.precision + 4, type_.scale + 4)
        case t.Integer() | t.Double():
            return t.Double()
        case t.Duration():
            return t.Duration()
    return t.Unknown()


def _percentile_type(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    if isinstance(types[0], t.Duration):
        return types[0]
    return t.Double() if t.is_number(types[0]) else t.Unknown()


def _collected(types: Sequence[t.Type], args: Sequence[Expr]) -> t.Type:
    return t.Array(types[0])


def _on_doubles(run: Callable[[float], float | None]) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        number = v.to_double(value)
        return None if number is None else run(number)

    return apply


def _on_strings(run: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *args: run(*args) if all(isinstance(a, str) for a in args) else None


def _on_moments(run: Callable[[datetime], int]) -> Callable[[Value], Value]:
    return lambda value: run(v.midnight(value)) if isinstance(value, date) else None


def _abs(value: Value) -> Value:
    below = v.compare(value, timedelta() if isinstance(value, timedelta) else 0)
    if below is None or isinstance(value, float):
        return abs(value) if isinstance(value, float) else None
    return v.negate(value) if below < 0 else value


def _round(value: Value, digits: Value = 0) -> Value:
    if not isinstance(digits, int) or isinstance(digits, bool) or not v.is_number(value):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        found = _quantized(Decimal(repr(value)), digits)
        return float(found) + 0.0  # Spark rounds via a decimal, which has no minus zero
    if isinstance(value, int):
        return v.integer(int(_quantized(Decimal(value), digits))) if digits < 0 else value
    assert isinstance(value, Decimal)
    return v.fit(_quantized(value, digits), _round_type(v.decimal_type(value), max(digits, -100)))


def _quantized(value: Decimal, digits: int) -> Decimal:
    exponent = value.as_tuple().exponent
    if not value or (isinstance(exponent, int) and -exponent <= digits):
        return value
    # Compared first, so that extreme digit counts never reach the exponent.
    if value.adjusted() < -digits - 1:
        return Decimal(0)
    return v.EXACT.quantize(value, Decimal((0, (1,), -digits)))


def _rounded_to_integer(toward: Callable[[float | Decimal], int]) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        if isinstance(value, float):
            return v.integer(toward(value)) if math.isfinite(value) else None
        if isinstance(value, Decimal):
            type_ = v.decimal_type(value)
            return v.fit(Decimal(toward(value)), t.bounded(type_.precision - type_.scale + 1, 0))
        return value if v.is_number(value) else None

    return apply


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def _power(base: Value, exponent: Value) -> Value:
    a, b = v.to_double(base), v.to_double(exponent)
    if a is None or b is None:
        return None
    # Java's pow, where it differs from C's: 1 to the power of NaN or infinity is NaN.
    if math.isnan(b) or (math.isinf(b) and abs(a) == 1.0):
        return math.nan
    odd = math.isfinite(b) and math.fmod(b, 2.0) in (1.0, -1.0)
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and odd else math.inf
    except ValueError:
        if a == 0.0:
            return -math.inf if odd and math.copysign(1.0, a) < 0 else math.inf
        return math.nan


def _sign(value: float) -> float:
    return value if value == 0.0 or math.isnan(value) else math.copysign(1.0, value)


def common(found: list[Value]) -> list[Value] | None:
    """Convert numbers to a common type, as Spark does for one of several; None for incompatible types."""
    if all(v.is_number(x) for x in found):
        if any(isinstance(x, float) for x in found):
            return [v.to_double(x) for x in found]
        if any(isinstance(x, Decimal) for x in found):
            sizes = [v.decimal_type(x) if isinstance(x, Decimal) else t.as_decimal(t.Integer()) for x in found]
            size = reduce(t.wider_decimal, sizes)
            return [v.fit(Decimal(x), size) for x in found]  # type: ignore[arg-type]
        return found
    if any(isinstance(x, datetime) for x in found) and all(isinstance(x, date) for x in found):
        return [v.midnight(x) for x in found if isinstance(x, date)]
    return found if all(v.compare(found[0], x) is not None for x in found) else None


def _extreme(sign: int) -> Callable[..., Value]:
    def better(left: Value, right: Value) -> Value:
        order = v.compare(right, left)
        return right if order is not None and order * sign > 0 else left

    def apply(*args: Value) -> Value:
        known = [x for x in args if x is not None]
        in_one_type = common(known) if known else None
        return reduce(better, in_one_type) if in_one_type else None

    return apply


def _coalesce(*args: Value) -> Value:
    return next((x for x in args if x is not None), None)


def _nullif(left: Value, right: Value) -> Value:
    return None if v.equal(left, right) else left


def _if(condition: Value, then: Value, otherwise: Value) -> Value:
    return then if condition is True else otherwise


def _substring(value: Value, start: Value, length: Value = v.MAX_INTEGER) -> Value:
    if not isinstance(value, str) or not all(isinstance(x, int) for x in (start, length)):
        return None
    assert isinstance(start, int)
    assert isinstance(length, int)
    # 1-based; 0 is treated as 1; a negative start counts from the end and may be before the string.
    first = start - 1 if start > 0 else len(value) + start if start < 0 else 0
    return value[max(first, 0) : max(first + length, 0)]


def _replace(value: str, old: str, new: str = "") -> Value:
    if not old:
        return value
    size = len(value) + value.count(old) * (len(new) - len(old))
    return value.replace(old, new) if size <= v.MAX_STRING else None


def concat(*args: Value) -> Value:
    texts = [v.text(x) for x in args]
    known = [x for x in texts if x is not None]
    return "".join(known) if len(known) == len(texts) and sum(map(len, known)) <= v.MAX_STRING else None


def _split_part(value: Value, mark: Value, part: Value) -> Value:
    if not (isinstance(value, str) and isinstance(mark, str) and isinstance(part, int)) or part == 0:
        return None
    parts = value.split(mark) if mark else [value]
    index = part - 1 if part > 0 else len(parts) + part
    return parts[index] if 0 <= index < len(parts) else ""


def _date_trunc(unit: Value, value: Value) -> Value:
    if not isinstance(unit, str) or not isinstance(value, date):
        return None
    at = v.midnight(value)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit.lower():
        case "year" | "yyyy" | "yy":
            return day.replace(month=1, day=1)
        case "quarter":
            return day.replace(month=(at.month - 1) // 3 * 3 + 1, day=1)
        case "month" | "mon" | "mm":
            return day.replace(day=1)
        case "week":
            return day - timedelta(days=at.weekday())
        case "day" | "dd":
            return day
        case "hour":
            return at.replace(minute=0, second=0, microsecond=0)
        case "minute":
            return at.replace(second=0, microsecond=0)
        case "second":
            return at.replace(microsecond=0)
        case "millisecond":
            return at.replace(microsecond=at.microsecond // 1000 * 1000)
        case "microsecond":
            return at
    return None


def _array_contains(array: Value, element: Value) -> Value:
    if not isinstance(array, list):
        return None
    found = [v.equal(v.scalar(x), element) for x in array]
    return True if True in found else None if None in found else False


def entry(mapping: Mapping[Value, Value], key: Value) -> Value:
    """Return the value of a map key; Python would treat true as the key 1."""
    if isinstance(key, list | dict) or (isinstance(key, bool) and not any(k is key for k in mapping)):
        return None
    return v.scalar(mapping.get(key))


def _element_at(container: Value, key: Value) -> Value:
    if isinstance(container, dict):
        return entry(container, key)
    if not isinstance(container, list) or not isinstance(key, int) or isinstance(key, bool):
        return None
    inside = 1 <= abs(key) <= len(container)
    return v.scalar(container[key - 1 if key > 0 else key]) if inside else None


def _distance_km(*args: Value) -> Value:
    numbers = [x for x in map(v.to_double, args) if x is not None and math.isfinite(x)]
    if len(numbers) != len(args):
        return None
    lat1, lon1, lat2, lon2 = map(math.radians, numbers)
    half = math.sin((lat2 - lat1) / 2) ** 2
    half += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    # Rounding can push the haversine of antipodes slightly outside 0..1.
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(1.0, max(0.0, half))))


def _angle(*args: Value) -> Value:
    numbers = [x for x in map(v.to_double, args) if x is not None and math.isfinite(x)]
    if len(numbers) != len(args):
        return None
    ax, ay, bx, by, cx, cy = numbers
    ux, uy, wx, wy = ax - bx, ay - by, cx - bx, cy - by
    cross, dot = abs(ux * wy - uy * wx), ux * wx + uy * wy
    # Both are zero if a side has length zero; overflow to infinity has no angle either.
    if (cross == 0.0 and dot == 0.0) or not (math.isfinite(cross) and math.isfinite(dot)):
        return None
    return math.atan2(cross, dot) * DEGREES


def _known(found: list[Value]) -> list[Value]:
    return [x for x in found if x is not None]


def _sum(found: list[Value]) -> Value:
    known = _known(found)
    if not known:
        return None
    if all(isinstance(x, timedelta) for x in known):
        return v.duration(sum(v.microseconds(x) for x in known if isinstance(x, timedelta)))
    in_one_type: list[Any] | None = common(known) if all(v.is_number(x) for x in known) else None
    if in_one_type is None or None in in_one_type:
        return None
    if isinstance(in_one_type[0], Decimal):
        size = v.decimal_type(in_one_type[0])
        return v.fit(reduce(v.EXACT.add, in_one_type), t.bounded(size.precision + 10, size.scale))
    return (
        reduce(lambda a, b: a + b, in_one_type, 0.0)
        if isinstance(in_one_type[0], float)
        else v.integer(sum(in_one_type))
    )


def _avg(found: list[Value]) -> Value:
    known = _known(found)
    if known and all(isinstance(x, int) for x in known):
        known = [v.to_double(x) for x in known]  # Spark averages integers as doubles, so the sum cannot overflow
    total = _sum(known)
    if isinstance(total, Decimal):
        in_one_type = common(known) or []
        sizes = [v.decimal_type(x) for x in in_one_type[:1] if isinstance(x, Decimal)]
        quotient = v.EXACT.divide(total, Decimal(len(known)))
        return v.fit(quotient, t.bounded(sizes[0].precision + 4, sizes[0].scale + 4))
    return v.arithmetic("/", total, len(known))


def _stddev(found: list[Value]) -> Value:
    known = [v.to_double(x) for x in _known(found)]
    count, mean, squares = 0, 0.0, 0.0
    for x in known:
        if x is None:
            return None
        # Same order of operations as Spark, so that the last bit agrees.
        count += 1
        delta = x - mean
        step = delta / count
        mean += step
        squares += delta * (delta - step)
    return math.sqrt(squares / (count - 1)) if count > 1 and squares >= 0 else math.nan if count > 1 else None


def _percentile(found: list[Value], fraction: Value = 0.5) -> Value:
    """The exact percentile, interpolated between the two closest ranks with the operations of Spark's ``percentile``.

    NaN is above every number. Zero has no sign: Spark's depends on the order of its hash table.
    """
    known, part = _known(found), v.to_double(fraction)
    if not known or part is None or not 0.0 <= part <= 1.0:
        return None
    spans = [v.microseconds(x) for x in known if isinstance(x, timedelta)]
    in_one_type: list[Any] | None = spans
    if len(spans) < len(known):
        in_one_type = common(known) if all(v.is_number(x) for x in known) else None
    if in_one_type is None or None in in_one_type:
        return None
    in_one_type.sort(key=cmp_to_key(lambda x, y: v.compare(x, y) or 0))
    at = (len(in_one_type) - 1) * part
    low, high = math.floor(at), math.ceil(at)
    value = float(in_one_type[low])
    if v.compare(in_one_type[low], in_one_type[high]) != 0:
        value = (high - at) * value + (at - low) * float(in_one_type[high])
    if spans:
        return v.duration(max(v.MIN_INTEGER, min(int(value), v.MAX_INTEGER)))
    return value + 0.0


def _quantified(decisive: bool) -> Callable[[list[Value]], Value]:
    def apply(found: list[Value]) -> Value:
        known = [x for x in found if isinstance(x, bool)]
        return (decisive in known) is decisive if known else None

    return apply


def _prev(found: list[Value], offset: Value = 1) -> Value:
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset < len(found):
        return None
    return found[-1 - offset]


def _scalar(
    name: str,
    parameters: tuple[Kind, ...],
    result: ResultRule | t.Type,
    run: Callable[..., Value],
    doc: str,
    *examples: str,
    low: int | None = None,
    high: int | None = 0,
    strict: bool = True,
) -> Function:
    rule = result if callable(result) else _always(result)
    most = len(parameters) if high == 0 else high
    least = len(parameters) if low is None else low
    return Function(name, least, most, parameters, rule, run, doc, examples, strict)


def _aggregate(
    name: str,
    kind: Kind,
    result: ResultRule | t.Type,
    run: Callable[..., Value],
    doc: str,
    *examples: str,
    second: Kind | None = None,
    low: int = 1,
    distinct: bool = True,
) -> Function:
    parameters: tuple[Kind, ...] = (kind,) if second is None else (kind, second)
    rule = result if callable(result) else _always(result)
    return Function(name, low, len(parameters), parameters, rule, run, doc, examples, False, True, distinct)


def _evaluated_by_scope(*args: Value) -> Value:
    """Placeholder: the evaluator reads this function from the scope, which has the events."""
    return None


_INT, _DBL, _STR, _BOOL, _TS = t.Integer(), t.Double(), t.String(), t.Boolean(), t.Timestamp()
_GEO: tuple[Kind, ...] = ("number", "number", "number", "number")
_CORNER: tuple[Kind, ...] = (*_GEO, "number", "number")

_TABLE = (
    _scalar("abs", ("amount",), _first, _abs, "absolute value", "abs(-3) is 3"),
    _scalar("round", ("number", "constant integer"), _rounded, _round, "rounded to a number of digits, half away from zero", "round(2.5) is 3", "round(127, -1) is 130", low=1),
    _scalar("floor", ("number",), _integer_type, _rounded_to_integer(math.floor), "largest integer that is not above the value", "floor(-1.5) is -2"),
    _scalar("ceil", ("number",), _integer_type, _rounded_to_integer(math.ceil), "smallest integer that is not below the value", "ceil(-1.5) is -1"),
    _scalar("sqrt", ("number",), _DBL, _on_doubles(lambda x: math.nan if x < 0 else math.sqrt(x)), "square root; NaN below zero", "sqrt(9) is 3.0"),
    _scalar("power", ("number", "number"), _DBL, _power, "the first raised to the power of the second", "power(2, 10) is 1024.0"),
    _scalar("ln", ("number",), _DBL, _on_doubles(lambda x: None if x <= 0 else math.log(x)), "natural logarithm; null for zero and below", "ln(1) is 0.0"),
    _scalar("log10", ("number",), _DBL, _on_doubles(lambda x: None if x <= 0 else math.log10(x)), "logarithm to base 10; null for zero and below", "log10(1000) is 3.0"),
    _scalar("exp", ("number",), _DBL, _on_doubles(_exp), "e raised to this power", "exp(0) is 1.0"),
    _scalar("sign", ("number",), _DBL, _on_doubles(_sign), "-1.0, 0.0 or 1.0", "sign(-7) is -1.0"),
    _scalar("mod", ("number", "number"), _remainder, lambda a, b: v.arithmetic("%", a, b), "the remainder, with the sign of the first", "mod(-7, 3) is -1"),
    _scalar("greatest", ("orderable", "like first"), _widest, _extreme(1), "the largest that is not null", "greatest(1, null, 3) is 3", high=None, strict=False),
    _scalar("least", ("orderable", "like first"), _widest, _extreme(-1), "the smallest that is not null", "least(1, null, 3) is 1", high=None, strict=False),
    _scalar("coalesce", ("any", "like first"), _widest, _coalesce, "the first that is not null", "coalesce(null, 2) is 2", low=1, high=None, strict=False),
    _scalar("nullif", ("any", "like first"), _first, _nullif, "null if the two are equal, otherwise the first", "nullif(1, 1) is null", strict=False),
    _scalar("if", ("boolean", "any", "any"), _chosen, _if, "the second if the first is true, otherwise the third", "if(1 < 2, 'y', 'n') is 'y'", strict=False),
    _scalar("upper", ("string",), _STR, _on_strings(str.upper), "in upper case", "upper('ab') is 'AB'"),
    _scalar("lower", ("string",), _STR, _on_strings(str.lower), "in lower case", "lower('AB') is 'ab'"),
    _scalar("trim", ("string",), _STR, _on_strings(lambda s: s.strip(" ")), "without leading and trailing spaces", "trim(' a ') is 'a'"),
    _scalar("ltrim", ("string",), _STR, _on_strings(lambda s: s.lstrip(" ")), "without leading spaces", "ltrim(' a') is 'a'"),
    _scalar("rtrim", ("string",), _STR, _on_strings(lambda s: s.rstrip(" ")), "without trailing spaces", "rtrim('a ') is 'a'"),
    _scalar("length", ("string",), _INT, _on_strings(len), "number of characters", "length('abc') is 3"),
    _scalar("substring", ("string", "integer", "integer"), _STR, _substring, "from a position (1 is the first), with a number of characters", "substring('abcd', 2, 2) is 'bc'", low=2),
    _scalar("replace", ("string", "string", "string"), _STR, _on_strings(_replace), "every occurrence replaced", "replace('aba', 'a', 'x') is 'xbx'", low=2),
    _scalar("concat", ("text",), _STR, concat, "all values joined, as a string", "concat('a', 1) is 'a1'", low=1, high=None),
    _scalar("contains", ("string", "string"), _BOOL, _on_strings(lambda s, part: part in s), "contains the second", "contains('abc', 'b') is true"),
    _scalar("startswith", ("string", "string"), _BOOL, _on_strings(str.startswith), "starts with the second", "startswith('abc', 'ab') is true"),
    _scalar("endswith", ("string", "string"), _BOOL, _on_strings(str.endswith), "ends with the second", "endswith('abc', 'bc') is true"),
    _scalar("position", ("string", "string"), _INT, _on_strings(lambda part, s: s.find(part) + 1), "position of the first in the second, from 1; 0 if not found", "position('b', 'abc') is 2"),
    _scalar("instr", ("string", "string"), _INT, _on_strings(lambda s, part: s.find(part) + 1), "position of the second in the first, from 1; 0 if not found", "instr('abc', 'b') is 2"),
    _scalar("split_part", ("string", "string", "integer"), _STR, _split_part, "the n-th part between separators, from the end if negative", "split_part('a.b.c', '.', 2) is 'b'"),
    _scalar("regexp_extract", ("string", "regular expression", "constant integer"), _STR, regexp_extract, "the n-th group (0: all) of the first match of a regular expression; an empty string without a match", "regexp_extract('user 42', '([0-9]+)') is '42'", "regexp_extract('ab12', '[a-z]+', 0) is 'ab'", low=2),
    _scalar("in_cidr", ("string", "network"), _BOOL, in_cidr, "true if an IPv4 or IPv6 address is in one of the networks; null for a string that is no address", "in_cidr('10.1.2.3', '10.0.0.0/8') is true", "in_cidr('::1', '10.0.0.0/8', '::1') is true", high=None),
    _scalar("year", ("moment",), _INT, _on_moments(lambda at: at.year), "the year (UTC)", "year(date '2024-05-01') is 2024"),
    _scalar("month", ("moment",), _INT, _on_moments(lambda at: at.month), "the month, 1 to 12 (UTC)", "month(date '2024-05-01') is 5"),
    _scalar("day", ("moment",), _INT, _on_moments(lambda at: at.day), "the day of the month (UTC)", "day(date '2024-05-01') is 1"),
    _scalar("hour", ("moment",), _INT, _on_moments(lambda at: at.hour), "the hour, 0 to 23 (UTC)", "hour(date '2024-05-01') is 0"),
    _scalar("minute", ("moment",), _INT, _on_moments(lambda at: at.minute), "the minute", "minute(date '2024-05-01') is 0"),
    _scalar("second", ("moment",), _INT, _on_moments(lambda at: at.second), "the whole second", "second(date '2024-05-01') is 0"),
    _scalar("dayofweek", ("moment",), _INT, _on_moments(lambda at: at.isoweekday() % 7 + 1), "1 for Sunday to 7 for Saturday (UTC)", "dayofweek(date '2024-05-01') is 4"),
    _scalar("date_trunc", ("unit", "moment"), _TS, _date_trunc, "the start of the year, quarter, month, week, day, hour, … (UTC)", "date_trunc('month', date '2024-05-17') is timestamp '2024-05-01 00:00:00'"),
    _scalar("to_timestamp", ("string",), _TS, _on_strings(v.read_timestamp), "an ISO 8601 string as a timestamp", "to_timestamp('2024-05-01T10:00:00Z') is timestamp '2024-05-01 10:00:00'"),
    _scalar("size", ("collection",), _INT, lambda x: len(x) if isinstance(x, list | dict) else None, "number of entries of an array or a map", "size(a.items)"),
    _scalar("array_contains", ("array", "any"), _BOOL, _array_contains, "contains the second as an element", "array_contains(a.tags, 'vip')"),
    _scalar("element_at", ("collection", "any"), _element, _element_at, "element of an array, from 1 (from the end if negative), or value of a map", "element_at(a.items, -1)"),
    _scalar("distance_km", _GEO, _DBL, _distance_km, "kilometers between two points in degrees: latitude, longitude, latitude, longitude", "distance_km(0, 0, 0, 0) is 0.0"),
    _scalar("angle", _CORNER, _DBL, _angle, "degrees, 0 to 180, at the second of three points (x, y) between the other two; null if one of these equals the second", "angle(1, 0, 0, 0, 0, 1) is 90.0"),
    _scalar("time", ("step",), _TS, _evaluated_by_scope, "event time of a step; without an argument, of the event itself", "time(b) - time(a)", low=0),
    _scalar("type", ("step",), _STR, _evaluated_by_scope, "event type of a step; without an argument, of the event itself", "type(a)", low=0),
    _aggregate("count", "any", _INT, lambda xs: len(_known(xs)), "number of events, or of values that are not null", "count(t)", "count(distinct t.payee)"),
    _aggregate("sum", "amount", _sum_type, _sum, "the total; null if it exceeds the type", "sum(t.amount)"),
    _aggregate("avg", "amount", _average_type, _avg, "the mean", "avg(t.amount)"),
    _aggregate("min", "orderable", _first, lambda xs: _extreme(-1)(*xs), "the smallest", "min(t.amount)"),
    _aggregate("max", "orderable", _first, lambda xs: _extreme(1)(*xs), "the largest", "max(t.amount)"),
    _aggregate("stddev", "number", _DBL, _stddev, "sample standard deviation; null for fewer than two values", "stddev(t.amount)"),
    _aggregate("median", "amount", _percentile_type, _percentile, "the value in the middle, in order of size, or the mean of the two in the middle", "median(t.amount)"),
    _aggregate("percentile", "amount", _percentile_type, _percentile, "the value at a fraction of the way from the smallest to the largest, interpolated", "percentile(t.amount, 0.9)", second="fraction", low=2),
    _aggregate("collect", "any", _collected, _known, "the values that are not null, in order, as an array", "collect(t.payee)"),
    _aggregate("any", "boolean", _BOOL, _quantified(True), "true if at least one is true", "any(t.amount > 100)", distinct=False),
    _aggregate("every", "boolean", _BOOL, _quantified(False), "true if all are true", "every(t.amount > 100)", distinct=False),
    _aggregate("first", "any", _first, lambda xs: xs[0] if xs else None, "value in the first event, null or not", "first(t.amount)", distinct=False),
    _aggregate("last", "any", _first, lambda xs: xs[-1] if xs else None, "value in the last event, null or not", "last(t.amount)", distinct=False),
    _aggregate("prev", "any", _first, _prev, "value in the event before the last, or in an earlier one", "prev(t.amount)", "prev(t.amount, 2)", second="constant integer", distinct=False),
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {function.name: function for function in _TABLE}
AGGREGATES = frozenset(name for name, function in FUNCTIONS.items() if function.aggregate)
NAVIGATION = frozenset({"first", "last", "prev"})
"""Aggregates that pick one event; they may be nested in others: ``every(t.x > prev(t.x))``."""
