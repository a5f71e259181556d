"""``+ - * / %`` on numbers, moments and durations: null where the result does not fit."""

from __future__ import annotations

from perseid.lang.expressions import Expr
from perseid.semantics import types as t
from perseid.semantics.functions import literal_integer
from perseid.spark.sql.numbers import as_decimal, as_double, decimal_size
from perseid.spark.sql.pieces import InexpressibleError, Names, Sql, double, duration, firm, integer, null
from perseid.spark.sql.times import bounded, micros

_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def arithmetic(names: Names, op: str, first: tuple[Expr, Sql], second: tuple[Expr, Sql]) -> Sql:
    """Apply an operator to two operands, each given as tree node and SQL."""
    left, right = first[1], second[1]
    if isinstance(left.type, t.Null) or isinstance(right.type, t.Null):
        return null(t.Null())
    match left.type, right.type:
        case (t.Double(), number) | (number, t.Double()) if t.is_number(number):
            firm_double = any(isinstance(x.type, t.Double) and not x.loose for x in (left, right))
            any_decimal = any(isinstance(x.type, t.Decimal) for x in (left, right))
            # A loose double (see Sql) may be an integer in the reference. Only a division then has the same result.
            if not firm_double and (op != "/" or any_decimal):
                raise InexpressibleError
            return _on_doubles(op, left, right)
        case t.Integer(), t.Integer():
            return _on_doubles(op, left, right) if op == "/" else integer(f"{_TRY[op]}({left.text}, {right.text})")
        case ((t.Integer() | t.Decimal()), (t.Integer() | t.Decimal())):
            a, b = _size_of(*first), _size_of(*second)
            # To compute a remainder, Java divides, and raises if the whole part of the quotient has too many digits.
            if op == "%" and a.precision - a.scale + b.scale > t.MAX_PRECISION:
                raise InexpressibleError
            text = f"{_TRY[op]}({as_decimal(left, a)}, {as_decimal(right, b)})"
            return Sql(text, t.decimal_result(op, a, b))
    return _on_times(names, op, left, right)


def _on_doubles(op: str, left: Sql, right: Sql) -> Sql:
    a, b = as_double(left), as_double(right)
    return double(f"{_TRY[op]}({a}, {b})" if op in "/%" else f"({a} {op} {b})")


def _size_of(expr: Expr, value: Sql) -> t.Decimal:
    """The decimal size of an operand: an integer literal counts its own digits, any other integer twenty."""
    number = literal_integer(expr)
    return decimal_size(firm(value)) if number is None else t.Decimal(len(str(abs(number))), 0)


def _on_times(names: Names, op: str, left: Sql, right: Sql) -> Sql:
    match left.type, right.type:
        case t.Duration(), t.Duration() if op in "+-":
            return duration(f"{_TRY[op]}({micros(left)}, {micros(right)})")
        case ((t.Timestamp() | t.Date()), t.Duration()) if op in "+-":
            return bounded(names, f"{_TRY[op]}({micros(left)}, {micros(right)})")
        case t.Duration(), (t.Timestamp() | t.Date()) if op == "+":
            return bounded(names, f"try_add({micros(left)}, {micros(right)})")
        case ((t.Timestamp() | t.Date()), (t.Timestamp() | t.Date())) if op == "-":
            return duration(f"try_subtract({micros(left)}, {micros(right)})")
        case t.Duration(), number if op in "*/" and t.is_number(number):
            return Sql(f"{_TRY[op]}({left.text}, {firm(right).text})", t.Duration())
        case number, t.Duration() if op == "*" and t.is_number(number):
            return Sql(f"try_multiply({right.text}, {firm(left).text})", t.Duration())
    raise InexpressibleError
