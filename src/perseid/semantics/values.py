"""Runtime values: their Python representation, comparison, and arithmetic that never raises.

null is None; the others are bool, int (64-bit), float, Decimal, str, bytes, datetime (aware, UTC), date, timedelta,
list, and dict for structs and maps. Values carry their own type, so the same code works with and without a schema.
Values outside Spark's ranges (an integer beyond 64 bits, a year beyond 9999, more than 38 digits) are null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, TypeAlias, TypeGuard

from perseid.semantics import types as t

Value: TypeAlias = object

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
EARLIEST = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
LATEST = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
"""The first and the last microsecond of the years 1 to 9999; timestamps outside are null."""
MAX_STRING = 1_000_000
"""Maximum length of a string result; longer is null, so that adversarial patterns cannot exhaust memory."""
MAX_NESTING = 64

# Wide enough for every exact intermediate result of two 38-digit numbers; no traps, so nothing raises.
EXACT = Context(prec=400, rounding=ROUND_HALF_UP, Emin=-999_999, Emax=999_999, traps=[])


class SizedDecimal(Decimal):
    """A decimal that stores its type's precision; its scale is its exponent.

    Spark derives the digits of a quotient from the types of its operands, not from their values.
    """

    precision: int

    def __new__(cls, value: Decimal | str, precision: int) -> SizedDecimal:
        self = super().__new__(cls, value)
        self.precision = precision
        return self

    def __reduce__(self) -> Any:
        return SizedDecimal, (str(self), self.precision)

    def __copy__(self) -> SizedDecimal:
        return self

    def __deepcopy__(self, memo: object) -> SizedDecimal:
        return self


def fit(value: Decimal, type_: t.Decimal) -> SizedDecimal | None:
    """Convert to a decimal type: rounded half up to its scale, null if it has too many integer digits."""
    if not value.is_finite():
        return None
    if value and value.adjusted() >= type_.precision - type_.scale + 1:
        return None
    if not value or value.adjusted() < -type_.scale - 1:
        return SizedDecimal(Decimal((0, (0,), -type_.scale)), type_.precision)
    rounded = EXACT.quantize(value, Decimal((0, (1,), -type_.scale)))
    if not rounded:
        rounded = rounded.copy_abs()  # Spark decimals have no minus zero
    elif rounded.adjusted() >= type_.precision - type_.scale:
        return None
    return SizedDecimal(rounded, type_.precision)


def decimal_type(value: Decimal) -> t.Decimal:
    """Return the declared type if known, else the type that Spark gives a literal with these digits."""
    _, digits, exponent = value.as_tuple()
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    return t.Decimal(getattr(value, "precision", max(len(digits), scale)), scale)


def sized(value: Decimal) -> SizedDecimal | None:
    """Convert a plain decimal to the size of its own digits; null beyond 38."""
    if isinstance(value, SizedDecimal):
        return value
    if not value.is_finite() or (value and value.adjusted() >= t.MAX_PRECISION):
        return None
    _, _, exponent = value.as_tuple()
    scale = min(max(0, -int(exponent)), t.MAX_PRECISION)
    integer_digits = max(0, value.adjusted() + 1) if value else 0
    scale = min(scale, t.MAX_PRECISION - integer_digits)
    return fit(value, t.Decimal(max(1, integer_digits + scale), scale))


def integer(value: int) -> int | None:
    return value if MIN_INTEGER <= value <= MAX_INTEGER else None


def duration(microseconds: int) -> timedelta | None:
    return timedelta(microseconds=microseconds) if integer(microseconds) is not None else None


def microseconds(value: timedelta) -> int:
    return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds


def moment(micros: int) -> datetime | None:
    """Return the timestamp for microseconds since 1970; null outside the years 1 to 9999."""
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def clock(micros: int) -> str:
    """Format a time for display: the date only if it is not 1970-01-01, fractions only if there are any."""
    found = moment(micros)
    if found is None:
        return "∞"
    form = "%H:%M:%S" if found.date().toordinal() == 719163 else "%Y-%m-%d %H:%M:%S"
    return found.strftime(form) + (f".{found.microsecond:06d}".rstrip("0") if found.microsecond else "")


def midnight(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)


def _utc(value: datetime) -> datetime | None:
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value if value.tzinfo is UTC else value.astimezone(UTC)


_NULLS = ("NoneType", "NAType", "NaTType")


def is_null(value: object) -> bool:
    """Return True for a null of Python, pandas or NumPy, unlike a value that cannot be read."""
    name = type(value).__name__
    return name in _NULLS or (name in ("datetime64", "timedelta64") and str(value) == "NaT")


def scalar(value: object) -> Value:
    """Convert one value to the runtime representation; the contents of lists and dicts are not converted."""
    kind = type(value)
    if value is None or kind in (str, float, bool, SizedDecimal, list, dict, bytes):
        return value
    if kind is int:
        return value if MIN_INTEGER <= value <= MAX_INTEGER else None  # type: ignore[operator]
    try:
        return _foreign(value, kind.__name__)
    except Exception:
        # Events may contain any object, with arbitrary methods; values that cannot be read are null.
        return None


def _foreign(value: Any, name: str) -> Value:
    # pandas and NumPy values are recognized by duck typing, so that neither needs to be installed.
    if name in _NULLS:
        return None
    if name in ("datetime64", "timedelta64"):
        return scalar(value.astype(f"{name}[us]").item())
    if isinstance(value, datetime):
        if type(value) is not datetime:
            value = datetime(
                value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond,
                tzinfo=value.tzinfo, fold=value.fold,
            )  # fmt: skip
        return _utc(value)
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    if isinstance(value, timedelta):
        return duration(microseconds(value))
    if isinstance(value, Decimal):
        return sized(value)
    if isinstance(value, int):
        return integer(int(value))
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    for method in ("asDict", "_asdict"):
        if hasattr(value, method):
            return dict(getattr(value, method)())
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | set | frozenset):
        return list(value)
    for method in ("tolist", "item", "as_py"):
        if hasattr(value, method):
            found = getattr(value, method)()
            return scalar(found) if type(found) is not type(value) else None
    return None


def plain(value: object, depth: int = 0) -> Value:
    """Convert a value and its contents to the runtime representation, for input events."""
    found = scalar(value)
    if isinstance(found, list | dict) and depth >= MAX_NESTING:
        return None
    if isinstance(found, list):
        return [plain(v, depth + 1) for v in found]
    if isinstance(found, dict):
        return {scalar(k): plain(v, depth + 1) for k, v in found.items() if _is_key(scalar(k))}
    return found


def _is_key(value: Value) -> bool:
    return value is not None and not isinstance(value, list | dict)


def is_number(value: Value) -> TypeGuard[int | float | Decimal]:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def to_double(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def compare(left: Value, right: Value, depth: int = 0) -> int | None:
    """Return -1, 0 or 1 in Spark's order; None if the values are not comparable (nulls, different kinds).

    NaN equals itself and is above every number; a double is compared with an integer or a decimal as a double.
    """
    if is_number(left) and is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            a, b = float(left), float(right)
            if math.isnan(a) or math.isnan(b):
                return _order(math.isnan(a), math.isnan(b))
            return _order(a, b)
        return _order(left, right)
    for kind in (str, bool, bytes, timedelta):
        if isinstance(left, kind):
            return _order(left, right) if isinstance(right, kind) else None
    if isinstance(left, date) and isinstance(right, date):
        if isinstance(left, datetime) or isinstance(right, datetime):
            return _order(midnight(left), midnight(right))
        return _order(left, right)
    if isinstance(left, list) and isinstance(right, list) and depth < MAX_NESTING:
        for x, y in zip(left, right, strict=False):
            a_, b_ = scalar(x), scalar(y)
            if a_ is None or b_ is None:
                found: int | None = _order(a_ is not None, b_ is not None)
            else:
                found = compare(a_, b_, depth + 1)
            if found != 0:
                return found
        return _order(len(left), len(right))
    return None


def equal(left: Value, right: Value) -> bool | None:
    found = compare(left, right)
    return None if found is None else found == 0


def identity(value: Value, depth: int = 0) -> object:
    """Return a hashable key, equal for equal values: true differs from 1, NaN equals NaN, minus zero equals zero."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, float) and math.isnan(value):
        return ("nan",)
    if isinstance(value, list):
        return ("list", *(identity(scalar(v), depth + 1) for v in value)) if depth < MAX_NESTING else ("deep",)
    if isinstance(value, dict):
        if depth >= MAX_NESTING:
            return ("deep",)
        # Repr orders keys of mixed kinds; as keys are scalars, it also distinguishes them.
        inside = sorted(((repr(scalar(k)), identity(scalar(v), depth + 1)) for k, v in value.items()), key=_first)
        return ("dict", *inside)
    return value


def _first(pair: tuple[str, object]) -> str:
    return pair[0]


def conform(value: object, type_: t.Type) -> Value:
    """Convert a value to the type of its declared column; null if it does not fit."""
    found = scalar(value)
    match type_:
        case t.Double():
            return to_double(found)
        case t.Integer():
            return found if isinstance(found, int) and not isinstance(found, bool) else None
        case t.Decimal():
            if isinstance(found, float):
                found = sized(Decimal(repr(found))) if math.isfinite(found) else None
            return fit(Decimal(found), type_) if isinstance(found, int | Decimal) and is_number(found) else None
        case t.Timestamp():
            return midnight(found) if isinstance(found, date) else None
        case t.Date():
            return found.date() if isinstance(found, datetime) else found if isinstance(found, date) else None
        case t.Boolean() | t.String() | t.Duration() | t.BinaryType():
            return found if isinstance(found, _PYTHON[type(type_)]) else None
        case t.Array():
            return [conform(v, type_.element) for v in found] if isinstance(found, list) else None
        case t.Map():
            if not isinstance(found, dict):
                return None
            pairs = ((conform(k, type_.key), conform(v, type_.value)) for k, v in found.items())
            return {k: v for k, v in pairs if _is_key(k)}
        case t.Struct():
            if not isinstance(found, dict):
                return None
            return {name: conform(found.get(name), inner) for name, inner in type_.fields}
    return plain(found)


_PYTHON: dict[type, type] = {t.Boolean: bool, t.String: str, t.Duration: timedelta, t.BinaryType: bytes}


class Relation:
    """A table for ``(x, y) in Name``, bound at use; rows with nulls are stored separately to make a miss cheap."""

    def __init__(self, rows: Iterable[Iterable[object]]) -> None:
        self.rows = [tuple(scalar(v) for v in row) for row in rows]
        self.keys = frozenset(tuple(identity(v) for v in row) for row in self.rows if None not in row)
        self.with_nulls = [row for row in self.rows if None in row]

    def holds(self, values: tuple[Value, ...]) -> bool | None:
        """SQL row ``IN``: null if membership depends only on a null."""
        if None not in values:
            if tuple(identity(v) for v in values) in self.keys:
                return True
            candidates = self.with_nulls
        else:
            candidates = self.rows
        unsure = any(
            len(row) == len(values) and all(equal(a, b) is not False for a, b in zip(row, values, strict=True))
            for row in candidates
        )
        return None if unsure else False


def arithmetic(op: str, left: Value, right: Value, literals: tuple[bool, bool] = (False, False)) -> Value:
    """Compute ``left op right`` for + - * / %; null for nulls, overflow, a zero divisor, and invalid operand kinds.

    ``literals`` marks operands that are integer literals: next to a decimal, Spark counts only their digits, but 20
    digits for any other integer.
    """
    if is_number(left) and is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            return _double_arithmetic(op, float(left), float(right))
        if isinstance(left, int) and isinstance(right, int):
            return _integer_arithmetic(op, left, right)
        return _decimal_arithmetic(op, _as_decimal(left, literals[0]), _as_decimal(right, literals[1]))
    return _time_arithmetic(op, left, right)


def _integer_arithmetic(op: str, left: int, right: int) -> Value:
    match op:
        case "+":
            return integer(left + right)
        case "-":
            return integer(left - right)
        case "*":
            return integer(left * right)
    if right == 0:
        return None
    if op == "/":
        return float(left) / float(right)
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _double_arithmetic(op: str, left: float, right: float) -> Value:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right == 0.0:
        return None
    if op == "/":
        return left / right
    return math.nan if math.isinf(left) else math.fmod(left, right)


def _as_decimal(value: Any, literal: bool) -> SizedDecimal:
    if isinstance(value, SizedDecimal):
        return value
    if isinstance(value, int):
        return SizedDecimal(Decimal(value), len(str(abs(value))) if literal else t.INTEGER_DIGITS)
    return SizedDecimal(value, decimal_type(value).precision)


def _decimal_arithmetic(op: str, left: SizedDecimal, right: SizedDecimal) -> Value:
    target = t.decimal_result(op, decimal_type(left), decimal_type(right))
    match op:
        case "+":
            return fit(EXACT.add(left, right), target)
        case "-":
            return fit(EXACT.subtract(left, right), target)
        case "*":
            return fit(EXACT.multiply(left, right), target)
    if not right:
        return None
    return fit((EXACT.divide if op == "/" else EXACT.remainder)(left, right), target)


def half_up(value: Decimal) -> int:
    return int(EXACT.quantize(value, Decimal(1)))


def _scaled(op: str, value: timedelta, factor: int | float | Decimal) -> timedelta | None:
    """Multiply or divide a duration by a number, rounded half up to the microsecond."""
    micros = microseconds(value)
    if isinstance(factor, float):
        # A duration divided by infinity is zero; multiplied by infinity it overflows.
        if math.isnan(factor) or (factor == 0.0 if op == "/" else math.isinf(factor)):
            return None
        product = micros * factor if op == "*" else micros / factor
        return duration(half_up(Decimal(product))) if abs(product) < 1e19 else None
    if op == "*":
        return duration(half_up(EXACT.multiply(Decimal(micros), Decimal(factor))))
    return duration(half_up(EXACT.divide(Decimal(micros), Decimal(factor)))) if factor else None


def _time_arithmetic(op: str, left: Value, right: Value) -> Value:
    try:
        match left, right:
            case timedelta(), timedelta() if op in ("+", "-"):
                return duration(microseconds(left) + (1 if op == "+" else -1) * microseconds(right))
            case date(), timedelta() if op in ("+", "-"):
                return midnight(left) + right if op == "+" else midnight(left) - right
            case timedelta(), date() if op == "+":
                return midnight(right) + left
            case date(), date() if op == "-":
                return midnight(left) - midnight(right)
            case timedelta(), _ if op in ("*", "/") and is_number(right):
                return _scaled(op, left, right)
            case _, timedelta() if op == "*" and is_number(left):
                return _scaled(op, right, left)
    except OverflowError:
        return None
    return None


def negate(value: Value) -> Value:
    if isinstance(value, timedelta):
        return duration(-microseconds(value))
    if isinstance(value, Decimal):
        return fit(value.copy_negate(), decimal_type(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return integer(-value)
    return -value if isinstance(value, float) else None


def narrow(found: float) -> int | None:
    """Return a double's integer part; null for NaN, infinity, or overflow."""
    return integer(int(found)) if math.isfinite(found) else None


def has_lone_surrogate(text: str) -> bool:
    """Return True if a text has a lone surrogate, which UTF-8 cannot encode."""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def text(value: Value) -> str | None:
    """``cast(value as string)``, exactly as Spark formats it (times in UTC)."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _double_text(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
            return f"{value.date().isoformat()} {value.hour:02}:{value.minute:02}:{value.second:02}{fraction}"
        case date():
            return value.isoformat()
        case timedelta():
            return _duration_text(microseconds(value))
    return None


def _double_text(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f")
    sign, digits, _ = Decimal(repr(value)).normalize(EXACT).as_tuple()
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{Decimal(repr(value)).adjusted()}"


def _duration_text(micros: int) -> str:
    sign = "-" if micros < 0 else ""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    tail = f".{fraction:06}".rstrip("0") if fraction else ""
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{tail}"
    return f"INTERVAL '{sign}{days} {clock}' DAY TO SECOND"


_DATE = r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
_CLOCK = r"(?:[T ](?:([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?"
_ZONE = r" ?(Z|UTC|[+-][0-9]{1,2}(?::?[0-9]{2})?)?)?"
_TIMESTAMP = re.compile(f"{_DATE}{_CLOCK}{_ZONE})?)?)?")


def read_timestamp(written: str) -> datetime | None:
    """Parse an ISO 8601 timestamp or date; UTC without an offset, digits below the microsecond are truncated."""
    written = trimmed(written)
    found = _TIMESTAMP.fullmatch(written) if len(written) <= 64 else None
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        local = datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0),
            int((fraction or "")[:6].ljust(6, "0")), tzinfo=UTC,
        )  # fmt: skip
        return local - _offset(zone)
    except (ValueError, OverflowError):
        return None


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone in ("Z", "UTC"):
        return timedelta()
    hours, minutes = re.fullmatch(r"([0-9]{1,2}):?([0-9]{2})?", zone[1:]).groups()  # type: ignore[union-attr]
    if int(hours) > 18 or int(minutes or 0) > 59:
        raise ValueError(zone)
    found = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return -found if zone[0] == "-" else found


def trimmed(written: str) -> str:
    """Strip the spaces and control characters that Spark's casts ignore."""
    return written.strip("".join(map(chr, range(33))) + "\x7f")
