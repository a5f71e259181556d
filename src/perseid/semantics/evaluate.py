"""Expression evaluation with the SQL semantics of Spark 4, and null wherever Spark would fail.

Evaluation never raises: overflow, a zero divisor, an invalid cast and incompatible operands are null, and so is a
string longer than ``MAX_STRING`` or a ``like`` pattern longer than ``MAX_LIKE``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Protocol

from perseid.errors import PatternError
from perseid.lang.expressions import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Expr,
    InList,
    InRelation,
    Is,
    Item,
    Like,
    Literal,
    Member,
    Param,
    Ref,
    Unary,
    walk,
)
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.case_folding import fold_case
from perseid.semantics.functions import FUNCTIONS, Function, concat, entry, literal_integer
from perseid.semantics.regular_expressions import extract, matches, rlike
from perseid.semantics.values import Relation, Value

MAX_LIKE = 1_000
MAX_NUMBER_TEXT = 1_000


class Scope(Protocol):
    """Name resolution of an expression: a partial match and the current event."""

    def ref(self, parts: tuple[str, ...]) -> object:
        """Return the value of a dotted name; None if any part of it is missing."""
        ...

    def rounds(self, names: frozenset[str]) -> Iterable[Scope]:
        """Return one scope per event bound to the repeated step among ``names``, in order.

        ``names`` are the first parts of all names in an aggregate's argument. The nested ``rounds`` of an iteration end
        with that iteration, so that ``prev`` inside an aggregate looks back from it.
        """
        ...

    def is_step(self, name: str) -> bool:
        """Return True if this bare name is a step (``count(t)`` counts its events), not a column."""
        ...

    def param(self, name: str) -> object: ...

    def relation(self, name: str) -> Relation | Iterable[tuple[object, ...]] | None:
        """Return a relation. A :class:`Relation` is indexed once; other rows are scanned at each call."""
        ...

    def time(self, step: str | None) -> datetime | None:
        """Return the event time of a step, or of the current event."""
        ...

    def event_type(self, step: str | None) -> str | None: ...


def is_true(value: Value) -> bool:
    """Return True if a condition with this value holds; null does not."""
    return value is True


def evaluate(expr: Expr, scope: Scope) -> Value:
    """Evaluate an expression; see :mod:`perseid.semantics.values` for the representation of values."""
    match expr:
        case Literal():
            return literal_value(expr)
        case Ref():
            return v.scalar(scope.ref(expr.parts))
        case Binary():
            return _binary(expr, scope)
        case Unary():
            inner = evaluate(expr.operand, scope)
            return v.negate(inner) if expr.op == "-" else negation(inner)
        case Call():
            return _call(expr, scope)
        case Param():
            return v.scalar(scope.param(expr.name))
        case Between():
            value = evaluate(expr.value, scope)
            low = ordering(">=", value, evaluate(expr.low, scope))
            high = ordering("<=", value, evaluate(expr.high, scope))
            return _signed(conjunction(low, high), expr.negated)
        case InList():
            return _signed(_in_list(expr, scope), expr.negated)
        case InRelation():
            return _signed(_in_relation(expr, scope), expr.negated)
        case Like():
            test = _LIKES[expr.op]
            return _signed(test(evaluate(expr.value, scope), evaluate(expr.pattern, scope)), expr.negated)
        case Is():
            inner = evaluate(expr.value, scope)
            expected = {"null": None, "true": True, "false": False}[expr.what]
            return (inner is expected) is not expr.negated
        case Case():
            return _case(expr, scope)
        case Cast():
            target = _cast_target(expr.type)
            return None if target is None else cast(evaluate(expr.value, scope), target)
        case Member():
            base = evaluate(expr.base, scope)
            return v.scalar(base.get(expr.name)) if isinstance(base, dict) else None
        case Item():
            return _item(evaluate(expr.base, scope), evaluate(expr.key, scope))


def evaluate_all(expr: Expr, scopes: Iterable[Scope]) -> list[Value]:
    """Evaluate an expression in each scope; a regular expression is compiled once, not for each text."""
    match expr:
        case Like(op="rlike", pattern=Literal(value=str() as expression)):
            found = matches([evaluate(expr.value, scope) for scope in scopes], expression)
            return [_signed(one, expr.negated) for one in found]
        case Call(name="regexp_extract", args=(text, Literal(value=str() as expression), *others)) if len(others) < 2:
            group = literal_integer(others[0]) if others else 1
            if group is not None:
                return [*extract([evaluate(text, scope) for scope in scopes], expression, group)]
    return [evaluate(expr, scope) for scope in scopes]


def literal_value(expr: Literal) -> Value:
    """Return the runtime value of a literal."""
    value = expr.value
    if isinstance(value, int) and not isinstance(value, bool):
        match expr.kind:
            case "timestamp":
                return v.moment(value)
            case "duration":
                return v.duration(value)
            case "date":
                at = v.moment(value * 86_400_000_000)
                return None if at is None else at.date()
            case "double":
                return float(value)
    return v.scalar(value)


def conjunction(left: Value, right: Value) -> bool | None:
    """Three-valued AND; non-boolean values count as null."""
    if left is False or right is False:
        return False
    return True if left is True and right is True else None


def disjunction(left: Value, right: Value) -> bool | None:
    if left is True or right is True:
        return True
    return False if left is False and right is False else None


def negation(value: Value) -> bool | None:
    return not value if isinstance(value, bool) else None


def _signed(value: Value, negated: bool) -> Value:
    return negation(value) if negated else value


_ORDERINGS: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def ordering(op: str, left: Value, right: Value) -> bool | None:
    order = v.compare(left, right)
    return None if order is None else _ORDERINGS[op](order)


def _binary(expr: Binary, scope: Scope) -> Value:
    left = evaluate(expr.left, scope)
    match expr.op:
        # Neither side can fail, so the right one is not evaluated if the left decides.
        case "and":
            return False if left is False else conjunction(left, evaluate(expr.right, scope))
        case "or":
            return True if left is True else disjunction(left, evaluate(expr.right, scope))
    right = evaluate(expr.right, scope)
    match expr.op:
        case "<=>":
            return left is right is None or v.equal(left, right) is True
        case "=" | "<>" | "<" | "<=" | ">" | ">=":
            return ordering(expr.op, left, right)
        case "||":
            return concat(left, right)
    literals = (literal_integer(expr.left) is not None, literal_integer(expr.right) is not None)
    return v.arithmetic(expr.op, left, right, literals)


def _in_list(expr: InList, scope: Scope) -> Value:
    value = evaluate(expr.value, scope)
    found = [evaluate(item, scope) for item in expr.items]
    if len(found) == 1 and isinstance(expr.items[0], Param) and isinstance(found[0], list):
        found = [v.scalar(x) for x in found[0]]
    results = [v.equal(value, x) for x in found]
    return True if True in results else None if None in results else False


def _in_relation(expr: InRelation, scope: Scope) -> Value:
    relation = scope.relation(expr.relation)
    if relation is None:
        return None
    if not isinstance(relation, Relation):
        relation = Relation(relation)
    return relation.holds(tuple(evaluate(x, scope) for x in expr.values))


def _case(expr: Case, scope: Scope) -> Value:
    subject = None if expr.operand is None else evaluate(expr.operand, scope)
    for when, then in expr.whens:
        test = evaluate(when, scope)
        if test is True if expr.operand is None else v.equal(subject, test) is True:
            return evaluate(then, scope)
    return None if expr.otherwise is None else evaluate(expr.otherwise, scope)


def _item(base: Value, key: Value) -> Value:
    if isinstance(base, dict):
        return None if key is None else entry(base, key)
    if isinstance(base, list) and isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(base):
        return v.scalar(base[key])
    return None


def _call(expr: Call, scope: Scope) -> Value:
    function = FUNCTIONS.get(expr.name)
    if function is None or not function.low <= len(expr.args) <= (function.high or len(expr.args)):
        return None
    if function.aggregate:
        return _aggregate(function, expr, scope)
    if expr.name in ("time", "type"):
        step = _step_name(expr)
        if expr.args and step is None:
            return None
        return v.scalar(scope.time(step) if expr.name == "time" else scope.event_type(step))
    if expr.name == "mod":
        return _binary(Binary("%", expr.args[0], expr.args[1]), scope)
    args = [evaluate(arg, scope) for arg in expr.args]
    return None if function.strict and None in args else function.run(*args)


def _step_name(expr: Call) -> str | None:
    if len(expr.args) == 1 and isinstance(expr.args[0], Ref) and len(expr.args[0].parts) == 1:
        return expr.args[0].parts[0]
    return None


def step_names(expr: Expr) -> frozenset[str]:
    """Return the first parts of all names in an expression: candidate steps of an aggregate."""
    return frozenset(e.parts[0] for e in walk(expr) if isinstance(e, Ref))


def _aggregate(function: Function, expr: Call, scope: Scope) -> Value:
    rounds = scope.rounds(step_names(expr.args[0]))
    step = _step_name(expr)
    if function.name == "count" and step is not None and scope.is_step(step):
        return sum(1 for _ in rounds)
    found = [evaluate(expr.args[0], each) for each in rounds]
    if expr.distinct and function.distinct:
        distinct: dict[object, Value] = {}
        for value in found:
            distinct.setdefault(v.identity(value), value)
        found = list(distinct.values())
    return function.run(found, *(evaluate(arg, scope) for arg in expr.args[1:]))


def like_stretches(pattern: str) -> list[list[str | None]] | None:
    """Split a ``like`` pattern at ``%`` into characters, None for ``_``; None if an escape is invalid."""
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


@lru_cache(maxsize=512)
def _like_parts(pattern: str) -> tuple[tuple[re.Pattern[str], int], ...] | None:
    """Return a regular expression and its length for each part of a ``like`` pattern between ``%``.

    A fixed-length expression cannot backtrack, so matching takes at most text times pattern steps.
    """
    stretches = like_stretches(pattern)
    if stretches is None:
        return None
    texts = ["".join("." if char is None else re.escape(char) for char in stretch) for stretch in stretches]
    return tuple((re.compile(text, re.DOTALL), len(stretch)) for text, stretch in zip(texts, stretches, strict=True))


def like(value: Value, pattern: Value) -> bool | None:
    """SQL ``LIKE``: ``%`` is any sequence of characters, ``_`` any one, and a backslash escapes the next."""
    if not isinstance(value, str) or not isinstance(pattern, str) or len(pattern) > MAX_LIKE:
        return None
    parts = _like_parts(pattern)
    if parts is None:
        return None
    (head, at), *between = parts
    if not between:
        return head.fullmatch(value) is not None
    tail, tail_length = between.pop()
    if head.match(value) is None:
        return False
    # Matching each part as early as possible leaves the most text for the parts after it.
    for part, _ in between:
        found = part.search(value, at)
        if found is None:
            return False
        at = found.end()
    return len(value) - tail_length >= at and tail.fullmatch(value, len(value) - tail_length) is not None


def ilike(value: Value, pattern: Value) -> bool | None:
    """``like`` without regard to case: characters are compared by their case folding, one by one."""
    if not isinstance(value, str) or not isinstance(pattern, str):
        return None
    return like(fold_case(value), fold_case(pattern))


_LIKES: dict[str, Callable[[Value, Value], bool | None]] = {"like": like, "ilike": ilike, "rlike": rlike}


@lru_cache(maxsize=256)
def _cast_target(written: str) -> t.Type | None:
    try:
        return t.parse_type(written)
    except PatternError:
        return None


def cast(value: Value, target: t.Type) -> Value:
    """``cast(value as target)``, null where Spark's ``try_cast`` is null."""
    if value is None:
        return None
    match target:
        case t.String():
            return v.text(value)
        case t.Boolean():
            return _to_boolean(value)
        case t.Integer():
            return _to_integer(value)
        case t.Double():
            return _to_double(value)
        case t.Decimal():
            found = _to_decimal(value)
            return None if found is None else v.fit(found, target)
        case t.Timestamp():
            return _to_timestamp(value)
        case t.Date():
            return _to_date(value)
        case t.Duration():
            return _to_duration(value)
    return v.conform(value, target)


_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_SPECIAL = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_DURATION = re.compile(r"([+-])?([0-9]{1,9}) ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?")


def _to_boolean(value: Value) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = v.trimmed(value).lower()
        return True if text in _TRUE else False if text in _FALSE else None
    return bool(value) if v.is_number(value) else None


def _to_integer(value: Value) -> int | None:
    match value:
        case int():
            return int(value)
        case float():
            return v.narrow(value)
        case Decimal():
            return v.integer(int(value))
        case datetime():
            return (value - v.EPOCH) // timedelta(seconds=1)
        case str():
            text = v.trimmed(value)
            return v.integer(int(text)) if len(text) <= MAX_NUMBER_TEXT and _INTEGER.fullmatch(text) else None
    return None


def _to_double(value: Value) -> float | None:
    match value:
        case datetime():
            return v.microseconds(value - v.EPOCH) / 1_000_000
        case str():
            text = v.trimmed(value)
            if len(text) > MAX_NUMBER_TEXT:
                return None
            if text[-1:] in ("d", "D", "f", "F") and text[-2:-1].isdigit():
                text = text[:-1]  # Java accepts a type suffix, and so does Spark
            if _NUMBER.fullmatch(text):
                return float(text)
            sign, bare = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
            found = _SPECIAL.get(bare.lower())
            if found is None or (sign and math.isnan(found)):
                return None
            return -found if sign == "-" else found
        case bool():
            return float(value)
    return v.to_double(value)


def _to_decimal(value: Value) -> Decimal | None:
    match value:
        case int() | Decimal():
            return Decimal(value)
        case float():
            return Decimal(repr(value)) if math.isfinite(value) else None
        case datetime():
            return v.EXACT.divide(Decimal(v.microseconds(value - v.EPOCH)), Decimal(1_000_000))
        case str():
            text = v.trimmed(value)
            return Decimal(text) if len(text) <= MAX_NUMBER_TEXT and _NUMBER.fullmatch(text) else None
    return None


def _to_timestamp(value: Value) -> datetime | None:
    match value:
        case date():
            return v.midnight(value)
        case str():
            return v.read_timestamp(value)
        case bool():
            return None
        case int():
            return v.moment(value * 1_000_000) if abs(value) < 10**12 else None
        case float() if math.isfinite(value) and abs(value) < 1e12:
            return v.moment(int(value * 1_000_000))
        case Decimal() if value.copy_abs() < 10**12:
            return v.moment(int(v.EXACT.multiply(value, Decimal(1_000_000))))
    return None


def _to_date(value: Value) -> date | None:
    if isinstance(value, str):
        # Anything after a date and a blank or a T is ignored.
        day = re.split("[ T]", v.trimmed(value), maxsplit=1)[0]
        at = v.read_timestamp(day)
        return None if at is None else at.date()
    return value.date() if isinstance(value, datetime) else value if isinstance(value, date) else None


def _to_duration(value: Value) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    found = _DURATION.fullmatch(v.trimmed(value)) if isinstance(value, str) and len(value) <= 64 else None
    if found is None:
        return None
    sign, days, hours, minutes, seconds, fraction = found.groups()
    if int(hours) > 23 or int(minutes) > 59 or int(seconds) > 59:
        return None
    seconds_total = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    micros = seconds_total * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
    return v.duration(-micros if sign == "-" else micros)
