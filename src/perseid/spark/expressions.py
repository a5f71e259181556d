"""Event-local expressions as Spark SQL text, worth what the reference evaluator says they are worth.

The text is printed from the typed tree, never from what a user wrote. It gives the same values whatever the session's
time zone, ``spark.sql.ansi.enabled`` and string escaping are, and it cannot raise on any row: times are computed as
microseconds since 1970 UTC, and everything that may overflow or fail to parse goes through a ``try_`` function or a
guard. Integers are bigint and floats are double from the moment a column is read.

What Spark cannot say exactly is left to Python (the answer is None): text of doubles and their long decimals (before
Java 19 ``toString`` does not give the shortest digits), ``like`` with a pattern that is no literal (Spark's matching
backtracks, and a hostile event could choose the pattern), comparisons that need more than 38 digits, and branches of
different kinds where the reference would keep the kind of the branch taken. Three things are said although the last
digit may differ: ``ln``, ``log10``, ``exp``, ``power`` and ``distance_km`` are Java's and not C's; ``upper`` and
``lower`` know the Unicode of their own version; ``round`` of a double starts from the digits Java gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce

from pyspark.sql import types as st

from perseid.errors import TypeMismatchError
from perseid.lang.expressions import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Expr,
    InList,
    Is,
    Item,
    Like,
    Literal,
    Member,
    Ref,
    Unary,
)
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.evaluate import MAX_LIKE, MAX_NUMBER_TEXT
from perseid.semantics.functions import EARTH_RADIUS_KM, FUNCTIONS, UNITS, literal_integer

MAX_TEXT = 100_000
"""A longer text costs Spark more to plan than the JVM saves at run time."""
MAX_COPY = 120
"""An operand up to this many characters is written again where it is needed twice; a longer one is bound to a name."""

_FIRST_MICRO, _LAST_MICRO = -62_135_596_800_000_000, 253_402_300_799_999_999
_DAY = 86_400_000_000
_FIRST_DAY = 719_162  # days from 0001-01-01 to 1970-01-01
_MIN = f"{v.MIN_INTEGER}L"
_MICROSECOND = "interval '0 00:00:00.000001' day to second"
_EPOCH_NTZ = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_MAX_INT = 2_147_483_647
_EXACT_IN_DOUBLE = 2**53
_SCALA_DIGITS = 34
_SURE_DIGITS = 15  # of a double; whether Java gives the shortest digits beyond them depends on its version


def spark_type(data_type: st.DataType) -> t.Type:
    """The type Perseid gives to a Spark type; Unknown for what only Python may look into."""
    match data_type:
        case st.ByteType() | st.ShortType() | st.IntegerType() | st.LongType():
            return t.Integer()
        case st.FloatType() | st.DoubleType():
            return t.Double()
        case st.DecimalType():
            return t.Decimal(data_type.precision, data_type.scale)
        case st.StringType() | st.CharType() | st.VarcharType():
            return t.String()
        case st.BooleanType():
            return t.Boolean()
        case st.TimestampType() | st.TimestampNTZType():
            return t.Timestamp()
        case st.DateType():
            return t.Date()
        case st.DayTimeIntervalType():
            return t.Duration()
        case st.BinaryType():
            return t.Binary()
        case st.ArrayType():
            return t.Array(spark_type(data_type.elementType))
        case st.MapType():
            return t.Map(spark_type(data_type.keyType), spark_type(data_type.valueType))
        case st.StructType():
            return t.Struct(tuple((field.name, spark_type(field.dataType)) for field in data_type.fields))
    return t.Unknown()


def sql_text(
    expr: Expr,
    columns: Mapping[str, st.DataType],
    *,
    time: str,
    type: str | None,
    event_type: str | None = None,
) -> str | None:
    """Spark SQL for an expression over the columns of one event; None where only Python can say it.

    ``time`` and ``type`` are the columns behind ``time()`` and ``type()``; without a type column, ``type()`` is
    ``event_type``. Moments in the columns are taken to lie in the years 1 to 9999, as they do for the reference.
    """
    found = _written(expr, columns, time, type, event_type)
    return None if found is None else found.text


def predicate_text(
    expr: Expr,
    columns: Mapping[str, st.DataType],
    *,
    time: str,
    type: str | None,
    event_type: str | None = None,
) -> str | None:
    """A condition as Spark SQL that is true or false and never null; None where only Python can say it."""
    found = _written(expr, columns, time, type, event_type)
    if found is None:
        return None
    # Only true is true: a condition of another kind never holds.
    return f"coalesce({found.text}, false)" if isinstance(found.type, t.Boolean) else "false"


def _written(
    expr: Expr, columns: Mapping[str, st.DataType], time: str, type_: str | None, event_type: str | None
) -> _Sql | None:
    try:
        found = _Writer(columns, time, type_, event_type).write(expr)
    except _CannotSayError:
        return None
    return found if len(found.text) <= MAX_TEXT else None


class _CannotSayError(Exception):
    """Spark SQL has no exact words for this expression."""


@dataclass(frozen=True, slots=True)
class _Sql:
    """A piece of Spark SQL and the type its values have there.

    ``micros`` is the same moment or duration as a bigint of microseconds, where that is how it was made. ``raw`` is
    the Spark type of an array, map or struct, whose contents are as the column has them. A *loose* value equals the
    reference's but may be of another kind: ``coalesce(price, 0)`` is a double here, and the integer 0 there when the
    price is null.
    """

    text: str
    type: t.Type
    micros: str | None = None
    raw: st.DataType | None = None
    loose: bool = False


def _name(type_: t.Type) -> str:
    return "interval day to second" if isinstance(type_, t.Duration) else str(type_)


def _null(type_: t.Type) -> _Sql:
    return _Sql("null" if isinstance(type_, t.Null) else f"cast(null as {_name(type_)})", type_)


def _boolean(text: str) -> _Sql:
    return _Sql(text, t.Boolean())


def _integer(text: str) -> _Sql:
    return _Sql(text, t.Integer())


def _double(text: str) -> _Sql:
    return _Sql(text, t.Double())


def _string(text: str) -> _Sql:
    return _Sql(text, t.String())


def _moment(micros: str) -> _Sql:
    return _Sql(f"timestamp_micros({micros})", t.Timestamp(), micros)


def _duration(micros: str) -> _Sql:
    return _Sql(f"({_MICROSECOND} * {micros})", t.Duration(), micros)


def _quoted(name: str) -> str:
    """A column's or field's name; Spark replaces ``${...}`` even inside quotes, so such a name cannot be said."""
    if not name or "${" in name or not _is_text(name):
        raise _CannotSayError
    return "`" + name.replace("`", "``") + "`"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _is_plain(value: str) -> bool:
    return value.isascii() and all(c.isalnum() or c in " _.,:-" for c in value)


def _constant(value: str) -> str:
    """A string literal; what any setting of the parser could read differently is written as its bytes."""
    if _is_plain(value):
        return f"'{value}'"
    if not _is_text(value):
        raise _CannotSayError
    return f"cast(X'{value.encode().hex().upper()}' as string)"


# What the reference's own regular expressions accept, spaces and control characters around it included.
_EDGE = r"[\x00-\x20\x7f]*"
_EDGE_CHARACTERS = _constant("".join(map(chr, range(33))) + "\x7f")
_T_AND_EDGE_CHARACTERS = _constant("T" + "".join(map(chr, range(33))) + "\x7f")
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_DATE = r"(?!0000)[0-9]{4}(?:-[0-9]{1,2}(?:-[0-9]{1,2}"
_CLOCK = r"[0-9]{1,2}:[0-9]{1,2}(?::[0-9]{1,2}(?:\.[0-9]{0,9})?)?"
_ZONE = r" ?(?:Z|UTC|[+-][0-9]{1,2}(?::?[0-9]{2})?)"


def _pattern(inside: str) -> str:
    return _constant(rf"\A{_EDGE}{inside}{_EDGE}\z")


_IS_DOUBLE = _pattern(rf"(?:{_NUMBER}(?:[eE][+-]?[0-9]{{1,9}})?(?:(?<=[0-9])[dDfF])?|(?i:[+-]?inf(?:inity)?|nan))")
_IS_DECIMAL = _pattern(rf"{_NUMBER}(?:[eE][+-]?[0-9]{{1,9}})?")
# Java would raise ten to an exponent of nine digits, for minutes, to round the result to zero.
_IS_SHORT_DECIMAL = _pattern(rf"{_NUMBER}(?:[eE][+-]?0*[0-9]{{1,4}})?")
_IS_TINY_DECIMAL = _pattern(rf"(?:[+-]?[0.]+[eE][+-]?[0-9]+|{_NUMBER}[eE]-[0-9]+)")
_IS_TIMESTAMP = _pattern(rf"{_DATE}(?:[T ](?:{_CLOCK}(?:{_ZONE})?)?)?)?)?")
_ZONE_OF_TEXT = _constant(rf":[0-9]{{1,2}}(?:\.[0-9]{{0,9}})?({_ZONE})\z")
_OFFSET = _constant(r"\A ?[+-]([0-9]{1,2}):?([0-9]{2})?\z")
_DAY_OF_TEXT = _constant(rf"\A{_EDGE}({_DATE})?)?){_EDGE}(?:[ T](?s:.*))?\z")
_IS_DURATION = _pattern(r"[+-]?[0-9]{1,9} [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]{1,9})?")


def _micros(value: _Sql) -> str:
    """A moment or a duration as a bigint of microseconds."""
    if value.micros is not None:
        return value.micros
    match value.type:
        case t.Date():
            return f"try_multiply(cast(unix_date({value.text}) as bigint), {_DAY}L)"
        case t.Timestamp():
            return f"unix_micros({value.text})"
        case t.Duration():
            seconds = f"cast(cast({value.text} as interval second) as decimal(20,6))"
            return f"cast({seconds} * 1000000BD as bigint)"
    raise _CannotSayError


def _day(value: _Sql) -> str:
    """The date of a moment, in UTC; counted from the first day, so that cutting off is rounding down."""
    if isinstance(value.type, t.Date):
        return value.text
    days = f"try_add({_micros(value)}, {-_FIRST_MICRO}L) div {_DAY}L - {_FIRST_DAY}L"
    return f"date_from_unix_date(cast({days} as int))"


def _as_double(value: _Sql) -> str:
    if not t.is_number(value.type):
        raise _CannotSayError
    return value.text if isinstance(value.type, t.Double) else f"cast({value.text} as double)"


def _as_decimal(value: _Sql, size: t.Decimal) -> str:
    return value.text if value.type == size else f"cast({value.text} as {size})"


def _digits(value: _Sql) -> str:
    return f"try_cast({value.text} as string)"  # without try_, a setting decides how decimals look


def _resigned(value: _Sql, digits: str) -> str:
    """A long decimal with another sign, by its digits: Spark's own minus and abs round to 34 of them."""
    return f"try_cast({digits} as {value.type})"


def _firm(value: _Sql) -> _Sql:
    if value.loose:
        raise _CannotSayError
    return value


def _need(value: _Sql, *kinds: type[t.Type]) -> str:
    if not isinstance(value.type, kinds):
        raise _CannotSayError
    return _firm(value).text


def _truth(value: _Sql) -> str:
    """What is no boolean counts as null."""
    return value.text if isinstance(value.type, t.Boolean) else _null(t.Boolean()).text


def _is_comparable_as_is(data_type: st.DataType | None) -> bool:
    """Do arrays of this Spark type compare as the reference compares them?"""
    match data_type:
        case st.ArrayType():
            return _is_comparable_as_is(data_type.elementType)
        case st.StringType():
            return _is_binary_text(data_type)
        case None | st.MapType() | st.StructType():
            return False
    return not t.is_open(spark_type(data_type))


def _is_binary_text(data_type: st.StringType) -> bool:
    return getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"


class _Writer:
    """Writes one expression: a method for each kind of node, each with the types of its parts in hand."""

    def __init__(
        self, columns: Mapping[str, st.DataType], time: str, type_: str | None, event_type: str | None
    ) -> None:
        self.columns, self.time, self.type, self.event_type = columns, time, type_, event_type
        self.prefix = "perseid_"
        while any(name.lower().startswith(self.prefix) for name in columns):
            self.prefix += "_"
        self.bound = 0

    def write(self, expr: Expr) -> _Sql:
        match expr:
            case Literal():
                return self.literal(expr)
            case Ref():
                return reduce(self.member, expr.parts[1:], self.column(expr.parts[0]))
            case Member():
                return self.member(self.write(expr.base), expr.name)
            case Item():
                return self.item(self.write(expr.base), self.write(expr.key), first=0)
            case Unary():
                return self.unary(expr)
            case Binary():
                return self.binary(expr)
            case Between():
                low, high = self.write(expr.low), self.write(expr.high)
                found = self.shared(
                    self.write(expr.value),
                    lambda x: f"({self.compared('>=', x, low)} and {self.compared('<=', x, high)})",
                )
                return self.signed(found, expr.negated)
            case InList():
                return self.signed(self.in_list(expr), expr.negated)
            case Like():
                return self.signed(self.like(expr), expr.negated)
            case Is():
                return self.is_(expr)
            case Case():
                return self.case(expr)
            case Call():
                return self.call(expr)
            case Cast():
                return self.cast(self.write(expr.value), self.target(expr.type))
        raise _CannotSayError

    # names

    def shared(self, value: _Sql, body: Callable[[_Sql], str]) -> str:
        """A text that has the value several times, without growing twofold at every level of nesting."""
        source = value.micros or value.text
        if len(source) <= MAX_COPY:
            return body(value)
        self.bound += 1
        name = f"{self.prefix}{self.bound}"
        match value:
            case _Sql(type=t.Timestamp(), micros=str()):
                inner = replace(_moment(name), loose=value.loose)
            case _Sql(type=t.Duration(), micros=str()):
                inner = _duration(name)
            case _:
                inner = replace(value, text=name)
        return f"get(transform(array({source}), {name} -> {body(inner)}), 0)"

    def shared_text(self, text: str, body: Callable[[str], str]) -> str:
        return self.shared(_Sql(text, t.Unknown()), lambda x: body(x.text))

    def column(self, name: str) -> _Sql:
        if sum(name.lower() == other.lower() for other in self.columns) > 1 or name not in self.columns:
            raise _CannotSayError
        return self.read(_quoted(name), self.columns[name])

    def read(self, text: str, data_type: st.DataType) -> _Sql:
        """What a column, a field or an element holds, in the one form each type has here."""
        type_ = spark_type(data_type)
        match data_type:
            case st.ByteType() | st.ShortType() | st.IntegerType() | st.FloatType() | st.CharType() | st.VarcharType():
                return _Sql(f"cast({text} as {type_})", type_)
            case st.TimestampNTZType():
                return _moment(_micros(_Sql(f"({text} - {_EPOCH_NTZ})", t.Duration())))
            case st.DayTimeIntervalType() if (data_type.startField, data_type.endField) != (0, 3):
                return _Sql(f"cast({text} as interval day to second)", type_)
            case st.StringType() if not _is_binary_text(data_type):
                return _Sql(f"collate({text}, 'UTF8_BINARY')", type_)
            case st.ArrayType() | st.MapType() | st.StructType():
                return _Sql(text, type_, raw=data_type)
            case st.NullType():
                return _null(t.Null())
        if isinstance(type_, t.Unknown):
            raise _CannotSayError
        return _Sql(text, type_)

    def member(self, base: _Sql, name: str) -> _Sql:
        match base.raw:
            case st.StructType() as struct:
                found = [field for field in struct.fields if field.name.lower() == name.lower()]
                if len(found) != 1 or found[0].name != name:
                    raise _CannotSayError
                # With a dot, the first name could also be read as the alias of a table.
                access = f"['{name}']" if _is_plain(name) and name else f".{_quoted(name)}"
                return self.read(f"{base.text}{access}", found[0].dataType)
            case st.MapType(keyType=st.StringType()):
                return self.item(base, _string(_constant(name)), first=0)
        raise _CannotSayError

    def item(self, base: _Sql, key: _Sql, first: int) -> _Sql:
        """An array's element, counted from ``first``, or a map's value."""
        _firm(key)
        match base.raw:
            case st.ArrayType() as array if isinstance(key.type, t.Integer):
                if first == 0:
                    return self.read(f"get({base.text}, try_cast({key.text} as int))", array.elementType)
                # Spark raises for 0, and takes the smallest int for a place inside.
                at = self.shared(key, lambda x: f"if(abs(nullif({x.text}, {_MIN})) <= {_MAX_INT}L, {x.text}, null)")
                return self.read(f"try_element_at({base.text}, cast(nullif({at}, 0L) as int))", array.elementType)
            case st.MapType() as mapping:
                wanted = spark_type(mapping.keyType)
                exact = isinstance(wanted, t.String | t.Integer | t.Boolean | t.Date | t.Timestamp | t.Duration)
                if wanted != key.type or not exact or not _is_comparable_as_is(mapping.keyType):
                    raise _CannotSayError
                if isinstance(mapping.keyType, st.TimestampNTZType):
                    raise _CannotSayError
                return self.read(f"try_element_at({base.text}, {key.text})", mapping.valueType)
        raise _CannotSayError

    # constants

    def literal(self, expr: Literal) -> _Sql:
        value = expr.value
        match expr.kind, value:
            case "boolean", bool():
                return _boolean("true" if value else "false")
            case "double", int() | float():
                return _double(self.double(float(value)))
            case "decimal", Decimal():
                found = v.sized(value)
                if found is None:
                    return _null(t.Null())
                size = v.decimal_type(found)
                return _Sql(f"cast({format(found, 'f')}BD as {size})", size)
            case "string", str():
                return _string(_constant(value))
            case "null", None:
                return _null(t.Null())
            case "integer", int() if not isinstance(value, bool):
                return _integer(self.whole(value)) if v.integer(value) is not None else _null(t.Integer())
            case "timestamp", int():
                return _moment(self.whole(value)) if v.moment(value) is not None else _null(t.Timestamp())
            case "duration", int():
                return _duration(self.whole(value)) if v.integer(value) is not None else _null(t.Duration())
            case "date", int():
                inside = v.moment(value * _DAY) is not None
                return _Sql(f"date_from_unix_date({value})", t.Date()) if inside else _null(t.Date())
        raise _CannotSayError

    @staticmethod
    def whole(value: int) -> str:
        return f"{value}L" if value >= 0 else f"({value}L)"

    @staticmethod
    def double(value: float) -> str:
        if not math.isfinite(value):
            return f"cast('{value}' as double)"
        return f"{value!r}D" if math.copysign(1.0, value) > 0 else f"({value!r}D)"

    # choosing

    def chosen(self, parts: Sequence[tuple[Expr, _Sql]]) -> tuple[list[str], _Sql]:
        """Values of which one is taken, brought to one type; the second has that type and no text."""
        known = [(expr, part) for expr, part in parts if not isinstance(part.type, t.Null)]
        if not known:
            return ["null"] * len(parts), _null(t.Null())
        first = known[0][1]
        if all(part.type == first.type and part.raw == first.raw for _, part in known):
            return [part.text for _, part in parts], replace(
                first, text="", micros=None, loose=any(part.loose for _, part in known)
            )
        common = t.widest([part.type for _, part in known])
        result = _Sql("", common or t.Unknown(), loose=True)
        match common:
            case t.Double():
                for expr, part in known:
                    small = literal_integer(expr)
                    if not isinstance(part.type, t.Double) and (small is None or abs(small) >= _EXACT_IN_DOUBLE):
                        raise _CannotSayError
                return [part.text if isinstance(part.type, t.Null) else _as_double(part) for _, part in parts], result
            case t.Decimal():
                sizes = [self.size(part) for _, part in known]
                if self.exact_size(sizes) is None:
                    raise _CannotSayError
                return [
                    part.text if isinstance(part.type, t.Null) else _as_decimal(part, common) for _, part in parts
                ], result
            case t.Timestamp():
                return [
                    part.text if isinstance(part.type, t.Null | t.Timestamp) else _moment(_micros(part)).text
                    for _, part in parts
                ], result
        raise _CannotSayError

    @staticmethod
    def size(part: _Sql) -> t.Decimal:
        if not isinstance(part.type, t.Integer | t.Decimal):
            raise _CannotSayError
        return t.as_decimal(part.type)

    @staticmethod
    def exact_size(sizes: Sequence[t.Decimal]) -> t.Decimal | None:
        """A decimal that holds all of these without losing a digit."""
        whole, scale = max(size.precision - size.scale for size in sizes), max(size.scale for size in sizes)
        return t.Decimal(whole + scale, scale) if whole + scale <= t.MAX_PRECISION else None

    def case(self, expr: Case) -> _Sql:
        thens = [(then, self.write(then)) for _, then in expr.whens]
        if expr.otherwise is not None:
            thens.append((expr.otherwise, self.write(expr.otherwise)))
        texts, result = self.chosen(thens)
        tests = [self.write(when) for when, _ in expr.whens]
        if not tests:
            raise _CannotSayError
        last = f" else {texts[-1]}" if expr.otherwise is not None else ""

        def branches(conditions: Sequence[str]) -> str:
            arms = " ".join(f"when {x} then {y}" for x, y in zip(conditions, texts, strict=False))
            return f"case {arms}{last} end"

        if expr.operand is None:
            return replace(result, text=branches([_truth(test) for test in tests]))
        operand = self.write(expr.operand)
        return replace(
            result, text=self.shared(operand, lambda x: branches([self.compared("=", x, test) for test in tests]))
        )

    # comparing and logic

    def signed(self, text: str, negated: bool) -> _Sql:
        return _boolean(f"(not {text})" if negated else text)

    def alike(self, left: _Sql, right: _Sql) -> tuple[str, str] | None:
        """Both sides in a form Spark compares as the reference does; None where they are never comparable."""
        match left.type, right.type:
            case (t.Null(), _) | (_, t.Null()):
                return None
            case (t.Integer(), t.Integer()) | (t.Double(), t.Double()):
                return left.text, right.text
            case (t.Double(), other) | (other, t.Double()) if t.is_number(other):
                double, number = (left, right) if isinstance(left.type, t.Double) else (right, left)
                # Behind a loose double may stand an integer, which meets a decimal exactly.
                if double.loose and isinstance(number.type, t.Decimal):
                    raise _CannotSayError
                return _as_double(left), _as_double(right)
            case ((t.Integer() | t.Decimal()), (t.Integer() | t.Decimal())):
                size = self.exact_size([self.size(left), self.size(right)])
                if size is None:
                    raise _CannotSayError
                return _as_decimal(left, size), _as_decimal(right, size)
            case ((t.Timestamp() | t.Date()), (t.Timestamp() | t.Date())):
                if left.type == right.type and not (left.micros and right.micros):
                    return left.text, right.text
                return _micros(left), _micros(right)
            case t.Array(), t.Array():
                if left.raw != right.raw or not _is_comparable_as_is(left.raw):
                    raise _CannotSayError
                return left.text, right.text
            case a, b if a == b and isinstance(a, t.String | t.Boolean | t.Binary | t.Duration):
                return left.text, right.text
        return None

    def compared(self, op: str, left: _Sql, right: _Sql) -> str:
        pair = self.alike(left, right)
        if pair is None:
            return f"({left.text} is null and {right.text} is null)" if op == "<=>" else _null(t.Boolean()).text
        return f"({pair[0]} {op} {pair[1]})"

    def in_list(self, expr: InList) -> str:
        items = [self.write(item) for item in expr.items]

        def among(value: _Sql) -> str:
            # Spark brings a whole list to one type; here each item meets the value on its own terms.
            groups: dict[str, list[str]] = {}
            unsure = False
            for item in items:
                pair = self.alike(value, item)
                if pair is None:
                    unsure = True
                else:
                    groups.setdefault(pair[0], []).append(pair[1])
            found = [f"({left} in ({', '.join(right)}))" for left, right in groups.items()]
            if unsure:
                found.append(_null(t.Boolean()).text)
            return f"({' or '.join(found)})" if found else "false"

        return self.shared(self.write(expr.value), among)

    def is_(self, expr: Is) -> _Sql:
        value = self.write(expr.value)
        word = "is not" if expr.negated else "is"
        if expr.what == "null":
            return _boolean(f"({value.text} {word} null)")
        if not isinstance(value.type, t.Boolean):
            return _boolean("true" if expr.negated else "false")
        return _boolean(f"({value.text} {word} {expr.what})")

    def like(self, expr: Like) -> str:
        """A literal pattern as a search for its stretches one after the other, which takes linear time."""
        value = self.write(expr.value)
        if not isinstance(expr.pattern, Literal) or not isinstance(expr.pattern.value, str):
            raise _CannotSayError
        pattern = expr.pattern.value
        if isinstance(value.type, t.Null) or len(pattern) > MAX_LIKE:
            return _null(t.Boolean()).text
        _need(value, t.String)
        stretches = _stretches(pattern)
        if stretches is None:
            return _null(t.Boolean()).text
        if any(one is None for stretch in stretches for one in stretch):
            # With a sign for any one character only Spark's own way is left; more than one search is not linear.
            if len(stretches) > 3:
                raise _CannotSayError
            return f"({value.text} like {_constant(pattern)})"
        texts = ["".join(one for one in stretch if one is not None) for stretch in stretches]
        if len(texts) == 1:
            return f"({value.text} = {_constant(texts[0])})"
        head, *between, tail = texts

        def search(x: _Sql) -> str:
            tests = [f"startswith({x.text}, {_constant(head)})"] if head else []
            tests += [f"endswith({x.text}, {_constant(tail)})"] if tail else []
            wanted = [part for part in between if part]
            if not wanted:
                tests.append(f"length({x.text}) >= {len(head) + len(tail)}")
            elif not head and not tail and len(wanted) == 1:
                tests.append(f"contains({x.text}, {_constant(wanted[0])})")
            else:
                at = str(len(head) + 1)
                for part in wanted:
                    # What was not found is null from here on, and null is found nowhere.
                    at = f"nullif(locate({_constant(part)}, {x.text}, {at}), 0) + {len(part)}"
                # A miss is null on a string, and must be false; on null all of it stays null.
                tests.append(f"if({x.text} is null, null, coalesce({at} + {len(tail) - 1} <= length({x.text}), false))")
            return f"({' and '.join(tests)})"

        return self.shared(value, search)

    # operators

    def unary(self, expr: Unary) -> _Sql:
        if expr.op == "not":
            return _boolean(f"(not {_truth(self.write(expr.operand))})")
        if isinstance(expr.operand, Literal) and expr.operand.kind == "integer":
            number = literal_integer(expr)
            if number is not None and 0 <= -number <= v.MAX_INTEGER:
                return _integer(self.whole(number))
        return self.negated(self.write(expr.operand))

    def negated(self, value: _Sql) -> _Sql:
        match value.type:
            case t.Null():
                return value
            case t.Integer():
                return _integer(f"(-(nullif({value.text}, {_MIN})))")
            case t.Decimal(precision=digits) if digits > _SCALA_DIGITS:
                return replace(value, text=_resigned(value, f"replace(concat('-', {_digits(value)}), '--', '')"))
            case t.Double() | t.Decimal():
                return replace(value, text=f"(-({value.text}))")
            case t.Duration():
                return _duration(f"(-(nullif({_micros(value)}, {_MIN})))")
        raise _CannotSayError

    def binary(self, expr: Binary) -> _Sql:
        match expr.op:
            case "and" | "or":
                parts = [_truth(self.write(part)) for part in _chain(expr, expr.op)]
                return _boolean(f"({f' {expr.op} '.join(parts)})")
            case "||":
                return self.concatenated([self.write(part) for part in _chain(expr, "||")])
            case "=" | "<>" | "<" | "<=" | ">" | ">=" | "<=>":
                left, right = self.write(expr.left), self.write(expr.right)
                return _boolean(self.compared(expr.op, left, right))
        return self.arithmetic(expr.op, expr.left, expr.right)

    def arithmetic(self, op: str, first: Expr, second: Expr) -> _Sql:
        left, right = self.write(first), self.write(second)
        if isinstance(left.type, t.Null) or isinstance(right.type, t.Null):
            return _null(t.Null())
        match left.type, right.type:
            case (t.Double(), other) | (other, t.Double()) if t.is_number(other):
                firm_double = any(isinstance(x.type, t.Double) and not x.loose for x in (left, right))
                any_decimal = any(isinstance(x.type, t.Decimal) for x in (left, right))
                # Two integers that stand behind loose doubles divide as doubles, and only that.
                if not firm_double and (op != "/" or any_decimal):
                    raise _CannotSayError
                return self.double_arithmetic(op, _as_double(left), _as_double(right))
            case t.Integer(), t.Integer():
                if op == "/":
                    return self.double_arithmetic(op, _as_double(left), _as_double(right))
                return _integer(f"{_TRY[op]}({left.text}, {right.text})")
            case ((t.Integer() | t.Decimal()), (t.Integer() | t.Decimal())):
                a, b = self.operand(first, left), self.operand(second, right)
                # Java raises when the whole part of the quotient behind a remainder has too many digits.
                if op == "%" and a.precision - a.scale + b.scale > t.MAX_PRECISION:
                    raise _CannotSayError
                text = f"{_TRY[op]}({_as_decimal(left, a)}, {_as_decimal(right, b)})"
                return _Sql(text, t.decimal_result(op, a, b))
        return self.time_arithmetic(op, left, right)

    def operand(self, expr: Expr, value: _Sql) -> t.Decimal:
        """The size of an integer beside a decimal: a literal counts its own digits, anything else twenty."""
        number = literal_integer(expr)
        return self.size(_firm(value)) if number is None else t.Decimal(len(str(abs(number))), 0)

    def double_arithmetic(self, op: str, left: str, right: str) -> _Sql:
        return _double(f"{_TRY[op]}({left}, {right})" if op in "/%" else f"({left} {op} {right})")

    def time_arithmetic(self, op: str, left: _Sql, right: _Sql) -> _Sql:
        moments = t.Timestamp | t.Date
        match left.type, right.type:
            case t.Duration(), t.Duration() if op in "+-":
                return _duration(f"{_TRY[op]}({_micros(left)}, {_micros(right)})")
            case ((t.Timestamp() | t.Date()), t.Duration()) if op in "+-":
                return self.bounded(f"{_TRY[op]}({_micros(left)}, {_micros(right)})")
            case t.Duration(), (t.Timestamp() | t.Date()) if op == "+":
                return self.bounded(f"try_add({_micros(left)}, {_micros(right)})")
            case a, b if op == "-" and isinstance(a, moments) and isinstance(b, moments):
                return _duration(f"try_subtract({_micros(left)}, {_micros(right)})")
            case t.Duration(), number if op in "*/" and t.is_number(number):
                return _Sql(f"{_TRY[op]}({left.text}, {_firm(right).text})", t.Duration())
            case number, t.Duration() if op == "*" and t.is_number(number):
                return _Sql(f"try_multiply({right.text}, {_firm(left).text})", t.Duration())
        raise _CannotSayError

    def bounded(self, micros: str) -> _Sql:
        """A moment, null outside the years 1 to 9999."""
        return _moment(
            self.shared_text(
                micros, lambda x: f"case when {x} >= {_FIRST_MICRO}L and {x} <= {_LAST_MICRO}L then {x} end"
            )
        )

    def narrowed(self, double: str, whole: Callable[[str], str]) -> str:
        """A double made whole, null where no bigint holds it; Spark would give the nearest one it has."""
        limit = "9.223372036854775808E18D"
        return self.shared_text(double, lambda x: f"case when {x} >= -{limit} and {x} < {limit} then {whole(x)} end")

    # text

    def text(self, value: _Sql) -> str:
        match _firm(value).type:
            case t.String():
                return value.text
            case t.Boolean() | t.Integer() | t.Decimal() | t.Date() | t.Duration():
                return _digits(value)
            case t.Timestamp():
                return f"cast({_EPOCH_NTZ} + {_MICROSECOND} * {_micros(value)} as string)"
            case t.Double():
                raise _CannotSayError
        return _null(t.String()).text

    def concatenated(self, values: Sequence[_Sql]) -> _Sql:
        texts = [self.text(value) for value in values]

        def limited(done: list[str]) -> str:
            if len(done) < len(texts):
                return self.shared_text(texts[len(done)], lambda x: limited([*done, x]))
            size = " + ".join(f"cast(length({x}) as bigint)" for x in done)
            return f"case when {size} <= {v.MAX_STRING}L then concat({', '.join(done)}) end"

        return _string(limited([]))

    # functions

    def call(self, expr: Call) -> _Sql:
        function = FUNCTIONS.get(expr.name)
        if function is None or function.aggregate:
            raise _CannotSayError
        if not function.low <= len(expr.args) <= (function.high or len(expr.args)):
            raise _CannotSayError
        if expr.name in ("time", "type"):
            return self.own(expr)
        if expr.name == "mod":
            return self.arithmetic("%", expr.args[0], expr.args[1])
        args = [self.write(arg) for arg in expr.args]
        if function.strict and any(isinstance(arg.type, t.Null) for arg in args):
            return _null(t.Null())
        return self.function(expr, args)

    def own(self, expr: Call) -> _Sql:
        """The time and type of the event itself; those of a step are not this event's to say."""
        if expr.args:
            raise _CannotSayError
        if expr.name == "time":
            found = self.column(self.time)
            _need(found, t.Timestamp)
            return found
        if self.type is not None:
            found = self.column(self.type)
            _need(found, t.String)
            return found
        if self.event_type is None:
            raise _CannotSayError
        return _string(_constant(self.event_type))

    def function(self, expr: Call, args: list[_Sql]) -> _Sql:
        a = args[0]
        match expr.name:
            case "abs":
                return self.absolute(a)
            case "round":
                return self.rounded(a, literal_integer(expr.args[1]) if len(args) > 1 else 0)
            case "floor" | "ceil":
                return self.to_whole(expr.name, a)
            case "sqrt" | "ln" | "log10" | "exp" | "sign" | "power":
                return _double(f"{expr.name}({', '.join(map(_as_double, args))})")
            case "distance_km":
                return self.distance(list(map(_as_double, args)))
            case "greatest" | "least" | "coalesce":
                return self.one_of(expr, args)
            case "nullif":
                return replace(
                    a,
                    text=self.shared(a, lambda x: f"if({self.compared('=', x, args[1])}, null, {x.text})"),
                    micros=None,
                )
            case "if":
                texts, result = self.chosen(list(zip(expr.args[1:], args[1:], strict=True)))
                return replace(result, text=f"if({_truth(a)}, {texts[0]}, {texts[1]})")
            case "upper" | "lower" | "trim" | "ltrim" | "rtrim":
                return _string(f"{expr.name}({_need(a, t.String)})")
            case "length":
                return _integer(f"cast(length({_need(a, t.String)}) as bigint)")
            case "contains" | "startswith" | "endswith":
                return _boolean(f"{expr.name}({_need(a, t.String)}, {_need(args[1], t.String)})")
            case "instr":
                return _integer(f"cast(instr({_need(a, t.String)}, {_need(args[1], t.String)}) as bigint)")
            case "position":
                return _integer(f"cast(instr({_need(args[1], t.String)}, {_need(a, t.String)}) as bigint)")
            case "substring":
                return self.substring(expr, args)
            case "replace":
                return self.replaced([_need(arg, t.String) for arg in args])
            case "concat":
                return self.concatenated(args)
            case "split_part":
                return self.split_part(args)
            case "year" | "month" | "day" | "dayofweek":
                self.need_moment(a)
                return _integer(f"cast({expr.name}({_day(a)}) as bigint)")
            case "hour" | "minute" | "second":
                self.need_moment(a)
                unit = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}[expr.name]
                around = {"hour": _DAY, "minute": 3_600_000_000, "second": 60_000_000}[expr.name]
                return _integer(f"(pmod({_micros(a)}, {around}L) div {unit}L)")
            case "date_trunc":
                return self.truncated(expr.args[0], args[1])
            case "to_timestamp":
                _need(a, t.String)
                return self.read_timestamp(a)
            case "size":
                return self.size_of(a)
            case "array_contains":
                return self.array_contains(a, args[1])
            case "element_at":
                return self.item(a, args[1], first=1)
        raise _CannotSayError

    @staticmethod
    def need_moment(value: _Sql) -> None:
        if not t.is_moment(value.type):
            raise _CannotSayError

    def absolute(self, value: _Sql) -> _Sql:
        match value.type:
            case t.Integer():
                return _integer(f"abs(nullif({value.text}, {_MIN}))")
            case t.Decimal(precision=digits) if digits > _SCALA_DIGITS:
                return replace(value, text=_resigned(value, f"replace({_digits(value)}, '-', '')"))
            case t.Double() | t.Decimal():
                return replace(value, text=f"abs({value.text})")
            case t.Duration():
                return _duration(f"abs(nullif({_micros(value)}, {_MIN}))")
        raise _CannotSayError

    def rounded(self, value: _Sql, digits: int | None) -> _Sql:
        if digits is None:
            raise _CannotSayError
        match value.type:
            case t.Integer() if digits >= 0:
                return value
            case t.Integer():
                tens = max(digits, -20)
                return _integer(f"try_cast(round(cast({value.text} as decimal(20,0)), {tens}) as bigint)")
            case t.Double():
                if digits < 0:
                    _firm(value)
                # No double has digits beyond these, and Java would write out all the zeros asked for.
                return replace(value, text=f"round({value.text}, {max(-400, min(digits, 400))})")
            case t.Decimal() as size:
                _firm(value)
                result = FUNCTIONS["round"].result(
                    [size], [Literal("null", None), Literal("integer", max(digits, -100))]
                )
                places = max(-100, min(digits, 100))
                if size.precision == t.MAX_PRECISION and size.scale == 0 and digits < 0:
                    # Only here rounding up can need a 39th digit, and Spark raises.
                    if places < -t.MAX_PRECISION:
                        return _Sql(f"if({value.text} is null, null, cast(0 as {result}))", result)
                    limit = f"{10**38 - 5 * 10 ** (-places - 1)}BD"
                    return _Sql(
                        self.shared(
                            value,
                            lambda x: (
                                f"case when {x.text} < {limit} and {x.text} > -{limit} "
                                f"then round({x.text}, {places}) end"
                            ),
                        ),
                        result,
                    )
                return _Sql(f"round({value.text}, {places})", result)
        raise _CannotSayError

    def to_whole(self, name: str, value: _Sql) -> _Sql:
        match value.type:
            case t.Integer():
                return value
            case t.Double():
                return _integer(self.narrowed(value.text, lambda x: f"{name}({x})"))
            case t.Decimal() as size:
                result = t.bounded(size.precision - size.scale + 1, 0)
                return _Sql(f"{name}({value.text})", result, loose=value.loose)
        raise _CannotSayError

    def distance(self, args: list[str]) -> _Sql:
        def formula(done: list[str]) -> str:
            if len(done) < len(args):
                return self.shared_text(args[len(done)], lambda x: formula([*done, x]))
            known = " and ".join(f"abs({x}) < cast('Infinity' as double)" for x in done)
            lat1, lon1, lat2, lon2 = (f"radians({x})" for x in done)
            half = (
                f"power(sin(({lat2} - {lat1}) / 2D), 2D) + "
                f"cos({lat1}) * cos({lat2}) * power(sin(({lon2} - {lon1}) / 2D), 2D)"
            )
            arc = f"asin(sqrt(least(1D, greatest(0D, {half}))))"
            return f"case when {known} then 2D * {EARTH_RADIUS_KM!r}D * {arc} end"

        return _double(formula([]))

    def one_of(self, expr: Call, args: list[_Sql]) -> _Sql:
        texts, result = self.chosen(list(zip(expr.args, args, strict=True)))
        if expr.name != "coalesce":
            if not t.is_orderable(result.type) or (result.raw is not None and not _is_comparable_as_is(result.raw)):
                raise _CannotSayError
            texts = [text for text, arg in zip(texts, args, strict=True) if not isinstance(arg.type, t.Null)]
        if isinstance(result.type, t.Null):
            return result
        return replace(result, text=texts[0] if len(texts) == 1 else f"{expr.name}({', '.join(texts)})")

    def substring(self, expr: Call, args: list[_Sql]) -> _Sql:
        text = _need(args[0], t.String)
        numbers = [literal_integer(arg) for arg in expr.args[1:]]
        if all(number is not None and abs(number) < _MAX_INT for number in numbers):
            # In Spark's two-argument form the length is the largest int, which reaches the end of any string.
            return _string(f"substring({', '.join([text, *map(str, numbers)])})")
        length = _need(args[2], t.Integer) if len(args) > 2 else f"{v.MAX_INTEGER}L"

        def cut(text: str, start: str, length: str) -> str:
            near = f"cast(least({start}, {_MAX_INT}L) as int)"
            size = f"cast(least(greatest({length}, 0L), {_MAX_INT}L) as int)"
            # Spark's positions are ints: what begins that far before the string is cut from its first character.
            # As decimals, because the optimizer is free to add bigints in an order that overflows.
            rest = f"cast({start} as decimal(20,0)) + greatest({length}, 0L) + length({text})"
            far = f"substring({text}, 1, cast(least(greatest({rest}, 0BD), {_MAX_INT}BD) as int))"
            known = f"{start} is null or {length} is null"
            return (
                f"case when {known} then null when {start} < -{_MAX_INT}L then {far} "
                f"else substring({text}, {near}, {size}) end"
            )

        start = _need(args[1], t.Integer)
        return _string(
            self.shared_text(
                text, lambda x: self.shared_text(start, lambda y: self.shared_text(length, lambda z: cut(x, y, z)))
            )
        )

    def replaced(self, args: list[str]) -> _Sql:
        """Each occurrence replaced; how long the result would be is known before it is made."""
        old, new = args[1], args[2] if len(args) > 2 else "''"

        def limited(text: str, old: str, new: str) -> str:
            gone = f"cast(length({text}) - length(replace({text}, {old}, '')) as bigint)"
            growth = f"{gone} div cast(length({old}) as bigint) * (length({new}) - length({old}))"
            return (
                f"case when {old} = '' then if({new} is null, null, {text}) "
                f"when length({text}) + {growth} <= {v.MAX_STRING}L then replace({text}, {old}, {new}) end"
            )

        return _string(
            self.shared_text(
                args[0], lambda x: self.shared_text(old, lambda y: self.shared_text(new, lambda z: limited(x, y, z)))
            )
        )

    def split_part(self, args: list[_Sql]) -> _Sql:
        part = self.shared_text(
            _need(args[2], t.Integer),
            lambda x: f"if({x} is null, null, greatest(least({x}, {_MAX_INT}L), -{_MAX_INT}L))",
        )
        text, mark = _need(args[0], t.String), _need(args[1], t.String)
        return _string(f"split_part({text}, {mark}, cast(nullif({part}, 0L) as int))")

    def truncated(self, unit: Expr, value: _Sql) -> _Sql:
        self.need_moment(value)
        word = unit.value.lower() if isinstance(unit, Literal) and isinstance(unit.value, str) else None
        if word not in UNITS:
            raise _CannotSayError
        match word:
            case "microsecond":
                return _moment(_micros(value))
            case "year" | "yyyy" | "yy" | "quarter" | "month" | "mon" | "mm" | "week":
                return _moment(_micros(_Sql(f"trunc({_day(value)}, '{word}')", t.Date())))
        length = {
            "day": _DAY, "dd": _DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000,
            "millisecond": 1_000,
        }[word]  # fmt: skip
        return _moment(self.shared_text(_micros(value), lambda x: f"try_subtract({x}, pmod({x}, {length}L))"))

    def read_timestamp(self, value: _Sql) -> _Sql:
        """An ISO 8601 text. Without a zone it is read as a local time, which no session can move."""

        def read(bare: str, zone: str) -> str:
            # Spark reads fewer offsets than ISO 8601 has, so they are taken off and counted here.
            clock = f"substring({bare}, 1, length({bare}) - length({zone}))"
            local = _micros(_Sql(f"(try_cast({clock} as timestamp_ntz) - {_EPOCH_NTZ})", t.Duration()))
            hours = f"try_cast(regexp_extract({zone}, {_OFFSET}, 1) as bigint)"
            minutes = f"coalesce(try_cast(regexp_extract({zone}, {_OFFSET}, 2) as bigint), 0L)"
            ahead = f"case when {hours} <= 18 and {minutes} <= 59 then {hours} * 60 + {minutes} end"
            offset = f"if({zone} rlike {_OFFSET}, {ahead}, 0L) * if(contains({zone}, '-'), -60000000L, 60000000L)"
            return f"try_subtract({local}, {offset})"

        def written(x: _Sql) -> str:
            # Spark minds a T with nothing behind it.
            bare = f"btrim({x.text}, {_T_AND_EDGE_CHARACTERS})"
            found = self.shared_text(
                bare, lambda y: self.shared_text(f"regexp_extract({y}, {_ZONE_OF_TEXT}, 1)", lambda z: read(y, z))
            )
            return f"case when {x.text} rlike {_IS_TIMESTAMP} then {found} end"

        return self.bounded(self.shared(value, written))

    @staticmethod
    def size_of(value: _Sql) -> _Sql:
        match value.raw:
            case st.ArrayType():
                return _integer(f"cast(array_size({value.text}) as bigint)")
            case st.MapType():
                return _integer(f"cast(array_size(map_keys({value.text})) as bigint)")
        raise _CannotSayError

    @staticmethod
    def array_contains(array: _Sql, wanted: _Sql) -> _Sql:
        _firm(wanted)
        if not isinstance(array.raw, st.ArrayType) or not _is_comparable_as_is(array.raw):
            raise _CannotSayError
        if isinstance(array.raw.elementType, st.TimestampNTZType) or (wanted.raw is not None):
            raise _CannotSayError
        match spark_type(array.raw.elementType), wanted.type:
            case (t.Double(), other) | (other, t.Double()) if t.is_number(other):
                return _boolean(f"array_contains(cast({array.text} as array<double>), {_as_double(wanted)})")
            case a, b if a == b:
                return _boolean(f"array_contains(cast({array.text} as array<{_name(a)}>), {wanted.text})")
        raise _CannotSayError

    # casts

    @staticmethod
    def target(written: str) -> t.Type:
        try:
            return t.parse_type(written)
        except TypeMismatchError:
            raise _CannotSayError from None

    def cast(self, value: _Sql, target: t.Type) -> _Sql:
        if isinstance(target, t.Array | t.Map | t.Struct | t.Variant | t.Binary):
            raise _CannotSayError
        if isinstance(value.type, t.Null):
            return _null(target)
        if value.type == target:
            return value if not value.loose else replace(value, loose=isinstance(target, t.Timestamp))
        match target:
            case t.String():
                return _string(self.text(value))
            case t.Boolean() if t.is_number(value.type) or isinstance(value.type, t.String):
                return _boolean(f"try_cast({value.text} as boolean)")
            case t.Integer():
                return self.to_integer(value)
            case t.Double():
                return self.to_double(value)
            case t.Decimal():
                return self.to_decimal(value, target)
            case t.Timestamp():
                return self.to_timestamp(value)
            case t.Date():
                return self.to_date(value)
            case t.Duration() if isinstance(value.type, t.String):
                return _Sql(
                    self.shared(
                        value,
                        lambda x: (
                            f"case when length({x.text}) <= 64 and {x.text} rlike {_IS_DURATION} "
                            f"then try_cast({x.text} as interval day to second) end"
                        ),
                    ),
                    target,
                )
        return _null(target)

    def short(self, value: _Sql, test: str, then: Callable[[str], str]) -> str:
        """What a text that is not too long to be a number says, where it also matches."""

        def read(x: str) -> str:
            matches = f" and {x} rlike {test}" if test else ""
            return f"case when length({x}) <= {MAX_NUMBER_TEXT}{matches} then {then(x)} end"

        # Spark's casts do not all pass over the same characters.
        return self.shared_text(f"btrim({value.text}, {_EDGE_CHARACTERS})", read)

    def to_integer(self, value: _Sql) -> _Sql:
        match value.type:
            case t.Double():
                return _integer(self.narrowed(value.text, lambda x: f"cast({x} as bigint)"))
            case t.Boolean() | t.Decimal():
                return _integer(f"try_cast({value.text} as bigint)")
            case t.Timestamp():
                return _integer(f"try_cast({_firm(value).text} as bigint)")
            case t.String():
                return _integer(self.short(value, "", lambda x: f"try_cast({x} as bigint)"))
        return _null(t.Integer())

    def to_double(self, value: _Sql) -> _Sql:
        match value.type:
            case t.Integer() | t.Decimal():
                return _double(_as_double(value))
            case t.Boolean():
                return _double(f"cast({value.text} as double)")
            case t.Timestamp():
                return _double(f"cast({self.seconds(value)} as double)")
            case t.String():
                return _double(self.short(value, _IS_DOUBLE, lambda x: f"try_cast({x} as double)"))
        return _null(t.Double())

    @staticmethod
    def seconds(value: _Sql) -> str:
        """Seconds since 1970 as an exact decimal; Spark's own cast goes through a double."""
        return f"(cast({_micros(_firm(value))} as decimal(20,0)) * 0.000001BD)"

    def to_decimal(self, value: _Sql, target: t.Decimal) -> _Sql:
        def read(text: str) -> str:
            return (
                f"case when {text} rlike {_IS_SHORT_DECIMAL} then try_cast({text} as {target}) "
                f"when {text} rlike {_IS_TINY_DECIMAL} then cast(0 as {target}) end"
            )

        match value.type:
            case t.Double() if target.precision > _SURE_DIGITS:
                raise _CannotSayError
            case t.Boolean() | t.Integer() | t.Decimal() | t.Double():
                return _Sql(f"try_cast({value.text} as {target})", target)
            case t.Timestamp():
                return _Sql(f"try_cast({self.seconds(value)} as {target})", target)
            case t.String():
                return _Sql(self.short(value, _IS_DECIMAL, read), target)
        return _null(target)

    def to_timestamp(self, value: _Sql) -> _Sql:
        match value.type:
            case t.Date() | t.Timestamp():
                return _moment(_micros(value))
            case t.String():
                return self.read_timestamp(value)
            case t.Integer():
                return self.bounded(f"try_multiply({value.text}, 1000000L)")
            case t.Double():
                return self.bounded(self.narrowed(f"({value.text} * 1000000D)", lambda x: f"cast({x} as bigint)"))
            case t.Decimal() as size:
                if size.precision > 30:  # the product would lose digits
                    raise _CannotSayError
                return self.bounded(f"try_cast({value.text} * 1000000BD as bigint)")
        return _null(t.Timestamp())

    def to_date(self, value: _Sql) -> _Sql:
        match value.type:
            case t.Date() | t.Timestamp():
                return _Sql(_day(value), t.Date())
            case t.String():
                return _Sql(f"try_cast(regexp_extract({value.text}, {_DAY_OF_TEXT}, 1) as date)", t.Date())
        return _null(t.Date())


_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def _chain(expr: Expr, op: str) -> list[Expr]:
    """``x and y and z`` as [x, y, z]: both sides of the same sign, however they were grouped."""
    if isinstance(expr, Binary) and expr.op == op:
        return _chain(expr.left, op) + _chain(expr.right, op)
    return [expr]


def _stretches(pattern: str) -> list[list[str | None]] | None:
    """The characters between ``%``, None for any one; None when an escape has nothing to escape."""
    found: list[list[str | None]] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
            if at == len(pattern) or pattern[at] not in "\\%_":
                return None
            found[-1].append(pattern[at])
        elif char == "%":
            found.append([])
        else:
            found[-1].append(None if char == "_" else char)
        at += 1
    return found
