"""Types of expressions, their notation, and the schema of events.

Integers are 64-bit: Spark's smaller integers are widened on input. ``Unknown`` is the type of a column without a
schema, ``Null`` that of the null literal; both are compatible with every type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from perseid.errors import Place, TypeMismatchError, UnknownNameError, nearest

MAX_PRECISION = 38
INTEGER_DIGITS = 20  # Spark reads a bigint as decimal(20,0) where it meets a decimal
MAX_NESTING = 20


@dataclass(frozen=True, slots=True)
class Boolean:
    def __str__(self) -> str:
        return "boolean"


@dataclass(frozen=True, slots=True)
class Integer:
    def __str__(self) -> str:
        return "bigint"


@dataclass(frozen=True, slots=True)
class Double:
    def __str__(self) -> str:
        return "double"


@dataclass(frozen=True, slots=True)
class Decimal:
    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class String:
    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True, slots=True)
class Timestamp:
    def __str__(self) -> str:
        return "timestamp"


@dataclass(frozen=True, slots=True)
class Date:
    def __str__(self) -> str:
        return "date"


@dataclass(frozen=True, slots=True)
class Duration:
    def __str__(self) -> str:
        return "duration"


@dataclass(frozen=True, slots=True)
class BinaryType:
    def __str__(self) -> str:
        return "binary"


@dataclass(frozen=True, slots=True)
class Array:
    element: Type

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{name}:{type_}' for name, type_ in self.fields)}>"


@dataclass(frozen=True, slots=True)
class Variant:
    """Semi-structured: each value has its own type, known only at run time."""

    def __str__(self) -> str:
        return "variant"


@dataclass(frozen=True, slots=True)
class Unknown:
    def __str__(self) -> str:
        return "unknown"


@dataclass(frozen=True, slots=True)
class Null:
    def __str__(self) -> str:
        return "null"


Type: TypeAlias = (
    Boolean
    | Integer
    | Double
    | Decimal
    | String
    | Timestamp
    | Date
    | Duration
    | BinaryType
    | Array
    | Map
    | Struct
    | Variant
    | Unknown
    | Null
)

SPELLINGS: dict[str, Type] = {
    "boolean": Boolean(),
    "bool": Boolean(),
    "bigint": Integer(),
    "int": Integer(),
    "integer": Integer(),
    "long": Integer(),
    "smallint": Integer(),
    "short": Integer(),
    "tinyint": Integer(),
    "byte": Integer(),
    "double": Double(),
    "float": Double(),
    "string": String(),
    "timestamp": Timestamp(),
    "date": Date(),
    "duration": Duration(),
    "binary": BinaryType(),
    "variant": Variant(),
    # Spark's decimal without digits is decimal(10,0), which would silently drop the cents of a threshold.
    "decimal": Decimal(MAX_PRECISION, 18),
}
TYPE_WORDS = (*SPELLINGS, "array", "map", "struct", "list")
_AVAILABLE = (
    "boolean, int, bigint, double, decimal(p,s), string, timestamp, date, duration, binary, array<t>, map<k,v>, "
    "struct<name:t,...>, variant"
)
FOREIGN_NAMES = {
    "bool": "boolean", "char": "string", "datetime": "timestamp", "interval": "duration", "json": "variant",
    "number": "double", "numeric": "decimal", "real": "double", "str": "string", "text": "string", "varchar": "string",
}  # fmt: skip
"""Type names of other languages."""


def is_open(type_: Type) -> bool:
    """Return True if the type is not known, so that no operation on it can be rejected."""
    return isinstance(type_, Unknown | Variant | Null)


def is_number(type_: Type) -> bool:
    return isinstance(type_, Integer | Double | Decimal)


def is_moment(type_: Type) -> bool:
    return isinstance(type_, Timestamp | Date)


def is_orderable(type_: Type) -> bool:
    if isinstance(type_, Array):
        return is_orderable(type_.element)
    return not isinstance(type_, Map | Struct)


_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*|[0-9]+|[<>(),:])")


class _TypeReader:
    def __init__(self, text: str, span: Place | None) -> None:
        self.text, self.span, self.tokens, at = text, span, [], 0
        end = len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.wrong(f"unexpected {text[at : at + 20].strip()!r}")
            self.tokens.append(found[1])
            at = found.end()
        self.at = 0

    def wrong(self, what: str) -> TypeMismatchError:
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return TypeMismatchError(f"Invalid type {shown!r}: {what}.", span=self.span, hint=f"Available: {_AVAILABLE}.")

    def unknown(self, word: str) -> UnknownNameError:
        near = FOREIGN_NAMES.get(word.lower()) or nearest(word, TYPE_WORDS)
        return UnknownNameError(
            f"Unknown type {word!r}.", span=self.span, nearest=near, hint=f"Available: {_AVAILABLE}."
        )

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next_token(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, mark: str) -> None:
        if self.next_token() != mark:
            raise self.wrong(f"expected {mark!r}")

    def number(self) -> int:
        token = self.next_token()
        if not token.isdigit() or len(token) > 3:
            raise self.wrong("expected a number of digits")
        return int(token)

    def read(self, depth: int = 0) -> Type:
        if depth > MAX_NESTING:
            raise self.wrong(f"nested more than {MAX_NESTING} levels deep")
        word = self.next_token()
        match word.lower():
            case "":
                raise self.wrong("expected the name of a type")
            case "decimal" if self.peek() == "(":
                return self.decimal()
            case "list":
                if self.next_token().lower() != "of":
                    raise self.wrong("expected 'of', as in 'list of string'")
                return Array(self.read(depth + 1))
            case "array":
                self.expect("<")
                element = self.read(depth + 1)
                self.expect(">")
                return Array(element)
            case "map":
                self.expect("<")
                key = self.read(depth + 1)
                self.expect(",")
                value = self.read(depth + 1)
                self.expect(">")
                return Map(key, value)
            case "struct":
                return self.struct(depth)
            case name if name in SPELLINGS:
                return SPELLINGS[name]
        if word[0].isdigit() or (not word[0].isalnum() and word[0] != "_"):
            raise self.wrong(f"expected the name of a type, got {word!r}")
        raise self.unknown(word)

    def decimal(self) -> Decimal:
        self.expect("(")
        precision, scale = self.number(), 0
        if self.peek() == ",":
            self.next_token()
            scale = self.number()
        self.expect(")")
        if not (1 <= precision <= MAX_PRECISION and scale <= precision):
            raise self.wrong(f"expected a precision from 1 to {MAX_PRECISION} and a scale up to the precision")
        return Decimal(precision, scale)

    def struct(self, depth: int) -> Struct:
        self.expect("<")
        found: dict[str, Type] = {}
        while True:
            name = self.next_token()
            self.expect(":")
            if name in found:
                raise self.wrong(f"duplicate field {name!r}")
            found[name] = self.read(depth + 1)
            if self.peek() != ",":
                break
            self.next_token()
        self.expect(">")
        return Struct(tuple(found.items()))


def parse_type(text: str, span: Place | None = None) -> Type:
    """Parse a type name; an unknown type raises an error with the nearest name."""
    reader = _TypeReader(text, span)
    result = reader.read()
    if reader.peek():
        raise reader.wrong(f"unexpected {reader.peek()!r} after its end")
    return result


def bounded(precision: int, scale: int) -> Decimal:
    return Decimal(max(1, min(precision, MAX_PRECISION)), min(scale, MAX_PRECISION))


def adjusted(precision: int, scale: int) -> Decimal:
    """Fit a result type into 38 digits like Spark: reduce the scale, but not below six digits."""
    if precision <= MAX_PRECISION:
        return Decimal(max(1, precision), scale)
    integer_digits = precision - scale
    return Decimal(MAX_PRECISION, max(MAX_PRECISION - integer_digits, min(scale, 6)))


def decimal_result(op: str, left: Decimal, right: Decimal) -> Decimal:
    """Return Spark's result type of ``left op right``."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    match op:
        case "*":
            return adjusted(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(6, s1 + p2 + 1)
            return adjusted(p1 - s1 + s2 + scale, scale)
        case "%":
            return adjusted(min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2))
    return adjusted(max(p1 - s1, p2 - s2) + max(s1, s2) + 1, max(s1, s2))


def as_decimal(type_: Integer | Decimal) -> Decimal:
    return type_ if isinstance(type_, Decimal) else Decimal(INTEGER_DIGITS, 0)


def wider_decimal(left: Decimal, right: Decimal) -> Decimal:
    """Return a decimal type for both; beyond 38 digits Spark 4 retains the integer digits and reduces the scale."""
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    if precision <= MAX_PRECISION:
        return Decimal(precision, scale)
    return Decimal(MAX_PRECISION, max(0, scale - (precision - MAX_PRECISION)))


def wider(left: Type, right: Type) -> Type | None:
    """Return the common type of alternatives (case, coalesce), or None."""
    if left == right or isinstance(right, Null):
        return left
    if isinstance(left, Null):
        return right
    if is_open(left) or is_open(right):
        return Unknown()
    match left, right:
        case (Double(), other) | (other, Double()) if is_number(other):
            return Double()
        case ((Integer() | Decimal()), (Integer() | Decimal())):
            return wider_decimal(as_decimal(left), as_decimal(right))
        case (Timestamp(), Date()) | (Date(), Timestamp()):
            return Timestamp()
        case Array(), Array():
            element = wider(left.element, right.element)
            return None if element is None else Array(element)
        case Map(), Map():
            key, value = wider(left.key, right.key), wider(left.value, right.value)
            return None if key is None or value is None else Map(key, value)
    return None


def arithmetic_type(op: str, left: Type, right: Type) -> Type | None:
    """Return the type of ``left op right`` for + - * / %; None if the operation is invalid."""
    if is_open(left) or is_open(right):
        return _half_known(op, left, right)
    match left, right:
        case (Double(), other) | (other, Double()) if is_number(other):
            return Double()
        case Integer(), Integer():
            return Double() if op == "/" else Integer()
        case ((Integer() | Decimal()), (Integer() | Decimal())):
            return decimal_result(op, as_decimal(left), as_decimal(right))
        case Duration(), Duration() if op in ("+", "-"):
            return Duration()
        case ((Timestamp() | Date()), Duration()) if op in ("+", "-"):
            return Timestamp()
        case Duration(), (Timestamp() | Date()) if op == "+":
            return Timestamp()
        case ((Timestamp() | Date()), (Timestamp() | Date())) if op == "-":
            return Duration()
        case Duration(), other if op in ("*", "/") and is_number(other):
            return Duration()
        case other, Duration() if op == "*" and is_number(other):
            return Duration()
    return None


def _half_known(op: str, left: Type, right: Type) -> Type | None:
    known = right if is_open(left) else left
    if is_open(known) or is_number(known):
        return Unknown()
    if isinstance(known, Duration) and (op == "*" or (op == "/" and known is left)):
        return Duration()
    if isinstance(known, Duration | Timestamp | Date) and op in ("+", "-"):
        return Unknown()
    return None


@dataclass(frozen=True, slots=True)
class EventSchema:
    """Columns of events: by event type, or one set for all types (``common``)."""

    by_type: Mapping[str, Mapping[str, Type]]
    common: Mapping[str, Type] | None = None

    @property
    def event_types(self) -> tuple[str, ...] | None:
        """The declared event types; None if any name is allowed."""
        return None if self.common is not None else tuple(self.by_type)

    def columns(self, event_type: str | None = None) -> Mapping[str, Type]:
        """Return the columns of a type; without one, those of all types (Unknown where the types differ)."""
        if self.common is not None:
            return self.common
        if event_type is not None:
            return self.by_type.get(event_type, {})
        merged: dict[str, Type] = {}
        for columns in self.by_type.values():
            for name, type_ in columns.items():
                merged[name] = type_ if merged.get(name, type_) == type_ else Unknown()
        return merged

    def column(self, event_type: str | None, name: str) -> Type | None:
        return self.columns(event_type).get(name)


def schema(declared: Mapping[str, str | Type | Mapping[str, str | Type]]) -> EventSchema:
    """Declare the columns of events and their types.

    ``schema({"Login": {"user": "string"}})`` declares columns by event type, ``schema({"user": "string"})`` for all
    event types.
    """
    by_type: dict[str, dict[str, Type]] = {}
    common: dict[str, Type] = {}
    if not isinstance(declared, Mapping):
        raise TypeMismatchError(
            f"Schema: expected a dict, got a {type(declared).__name__}.",
            hint="Use schema({'Login': {'user': 'string'}}).",
        )
    for name, content in declared.items():
        if isinstance(content, Mapping):
            by_type[name] = {column: _declared(type_) for column, type_ in content.items()}
        else:
            common[name] = _declared(content)
    if by_type and common:
        raise TypeMismatchError(
            f"The schema mixes an event type ({next(iter(by_type))!r}) and a column ({next(iter(common))!r}).",
            hint="Declare columns for each event type, or one set of columns for all types.",
        )
    return EventSchema(by_type, common or None)


def _declared(type_: str | Type) -> Type:
    if isinstance(type_, str):
        return parse_type(type_)
    if not type(type_).__module__ == __name__:
        raise TypeMismatchError(
            f"Type of a column: expected a string, got {type_!r}.",
            hint="Use 'integer', 'string', 'decimal(18,2)', …",
        )
    return type_


def widest(found: list[Type]) -> Type | None:
    """Return the common type of several types; None if two are incompatible."""
    start: Type | None = Null()
    return reduce(lambda a, b: None if a is None else wider(a, b), found, start)
