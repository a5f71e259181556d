"""Scalar functions by name."""

from __future__ import annotations

from perseid.lang.expressions import Call
from perseid.semantics import types as t
from perseid.semantics.functions import literal_integer
from perseid.spark.sql import choices, columns, networks, numbers, strings, times
from perseid.spark.sql.casts import read_timestamp
from perseid.spark.sql.pieces import InexpressibleError, Names, Sql, boolean, double, integer, need, string


def function(names: Names, expr: Call, args: list[Sql]) -> Sql:
    """A call as SQL; the arguments are lowered already, and their number is valid."""
    a, *others = args
    parts = list(zip(expr.args, args, strict=True))
    match expr.name:
        case "abs":
            return numbers.absolute(a)
        case "round":
            return numbers.rounded(names, a, literal_integer(expr.args[1]) if others else 0)
        case "floor" | "ceil":
            return numbers.round_to_integer(names, expr.name, a)
        case "sqrt" | "ln" | "log10" | "exp" | "sign" | "power":
            return double(f"{expr.name}({', '.join(map(numbers.as_double, args))})")
        case "distance_km":
            return numbers.distance(names, list(map(numbers.as_double, args)))
        case "angle":
            return numbers.angle(names, list(map(numbers.as_double, args)))
        case "greatest" | "least" | "coalesce":
            return choices.one_of(expr.name, parts)
        case "nullif":
            return choices.nullif(names, a, others[0])
        case "if":
            return choices.if_(a, parts[1:])
        case "upper" | "lower" | "trim" | "ltrim" | "rtrim":
            return string(f"{expr.name}({need(a, t.String)})")
        case "length":
            return integer(f"cast(length({need(a, t.String)}) as bigint)")
        case "contains" | "startswith" | "endswith":
            return boolean(f"{expr.name}({need(a, t.String)}, {need(others[0], t.String)})")
        case "instr":
            return integer(f"cast(instr({need(a, t.String)}, {need(others[0], t.String)}) as bigint)")
        case "position":
            return integer(f"cast(instr({need(others[0], t.String)}, {need(a, t.String)}) as bigint)")
        case "substring":
            return strings.substring(names, a, parts[1:])
        case "replace":
            return strings.replaced(names, *(need(arg, t.String) for arg in args))
        case "concat":
            return strings.concatenated(names, args)
        case "split_part":
            text, mark = need(a, t.String), need(others[0], t.String)
            return strings.split_part(names, text, mark, need(others[1], t.Integer))
        case "in_cidr":
            return boolean(networks.in_cidr(names, need(a, t.String), expr.args[1:]))
        case "year" | "month" | "day" | "dayofweek":
            return times.calendar_part(expr.name, a)
        case "hour" | "minute" | "second":
            return times.clock_part(expr.name, a)
        case "date_trunc":
            return times.truncated(names, expr.args[0], others[0])
        case "to_timestamp":
            need(a, t.String)
            return read_timestamp(names, a)
        case "size":
            return columns.size(a)
        case "array_contains":
            return columns.array_contains(a, others[0])
        case "element_at":
            return columns.element_at(names, a, others[0])
    raise InexpressibleError
