"""Comparisons, with both sides in a form that Spark compares as the reference does."""

from __future__ import annotations

from collections.abc import Sequence

from perseid.lang.expressions import Is
from perseid.semantics import types as t
from perseid.spark.sql.columns import is_comparable_as_is
from perseid.spark.sql.numbers import as_decimal, as_double, exact_size
from perseid.spark.sql.pieces import NO_TRUTH, InexpressibleError, Names, Sql, boolean
from perseid.spark.sql.times import micros


def compared(op: str, left: Sql, right: Sql) -> str:
    pair = _comparable_pair(left, right)
    if pair is None:
        return f"({left.text} is null and {right.text} is null)" if op == "<=>" else NO_TRUTH
    return f"({pair[0]} {op} {pair[1]})"


def _comparable_pair(left: Sql, right: Sql) -> tuple[str, str] | None:
    """Both sides in a form that Spark compares as the reference does; None if they are never comparable."""
    match left.type, right.type:
        case (t.Null(), _) | (_, t.Null()):
            return None
        case (t.Integer(), t.Integer()) | (t.Double(), t.Double()):
            return left.text, right.text
        case (t.Double(), other) | (other, t.Double()) if t.is_number(other):
            double, number = (left, right) if isinstance(left.type, t.Double) else (right, left)
            # A loose double may be an integer in the reference, which compares exactly with a decimal.
            if double.loose and isinstance(number.type, t.Decimal):
                raise InexpressibleError
            return as_double(left), as_double(right)
        case ((t.Integer() | t.Decimal()), (t.Integer() | t.Decimal())):
            size = exact_size([left, right])
            return as_decimal(left, size), as_decimal(right, size)
        case ((t.Timestamp() | t.Date()), (t.Timestamp() | t.Date())):
            if left.type == right.type and not (left.micros and right.micros):
                return left.text, right.text
            return micros(left), micros(right)
        case t.Array(), t.Array():
            if left.raw != right.raw or not is_comparable_as_is(left.raw):
                raise InexpressibleError
            return left.text, right.text
        case a, b if a == b and isinstance(a, t.String | t.Boolean | t.BinaryType | t.Duration):
            return left.text, right.text
    return None


def between(names: Names, value: Sql, low: Sql, high: Sql) -> str:
    return names.shared(value, lambda x: f"({compared('>=', x, low)} and {compared('<=', x, high)})")


def in_list(names: Names, value: Sql, items: Sequence[Sql]) -> str:
    def among(value: Sql) -> str:
        # Spark converts a whole list to one type; here each item is compared with the value separately.
        groups: dict[str, list[str]] = {}
        unsure = False
        for item in items:
            pair = _comparable_pair(value, item)
            if pair is None:
                unsure = True
            else:
                groups.setdefault(pair[0], []).append(pair[1])
        memberships = [f"({operand} in ({', '.join(operands)}))" for operand, operands in groups.items()]
        if unsure:
            memberships.append(NO_TRUTH)
        return f"({' or '.join(memberships)})" if memberships else "false"

    return names.shared(value, among)


def is_(expr: Is, value: Sql) -> Sql:
    """``is null``, ``is true``, ``is false`` and their opposites."""
    word = "is not" if expr.negated else "is"
    if expr.what == "null":
        return boolean(f"({value.text} {word} null)")
    if not isinstance(value.type, t.Boolean):
        return boolean("true" if expr.negated else "false")
    return boolean(f"({value.text} {word} {expr.what})")
