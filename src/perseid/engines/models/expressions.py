"""Query expressions compiled to functions of a row: common forms to closures, the rest to calls of the evaluator."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from perseid.engines.models.deltas import Row
from perseid.lang import expressions as ex
from perseid.semantics import values as v
from perseid.semantics.evaluate import conjunction, disjunction, evaluate, literal_value, negation, ordering
from perseid.semantics.graphs import canonical
from perseid.semantics.model_values import RowScope
from perseid.semantics.values import Value

Function = Callable[[Row], Value]


def function(expr: ex.Expr, places: Mapping[tuple[str, ...], int]) -> Function:
    """Compile an expression; ``places`` maps each dotted name to its place in the row."""
    match expr:
        case ex.Literal():
            value = literal_value(expr)
            return lambda row: value
        case ex.Ref():
            place = places[expr.parts]
            return lambda row: row[place]
        case ex.Binary(op="and" | "or"):
            return _junction(expr, places)
        case ex.Binary(op="=" | "<>" | "<" | "<=" | ">" | ">="):
            return _comparison(expr, places)
        case ex.Binary(op="+" | "-" | "*"):
            return _arithmetic(expr, places)
        case ex.Unary(op="not"):
            inner = function(expr.operand, places)
            return lambda row: negation(inner(row))
    return _evaluated(expr, places)


def condition(expr: ex.Expr, places: Mapping[tuple[str, ...], int]) -> Callable[[Row], bool]:
    found = function(expr, places)
    return lambda row: found(row) is True


def value(expr: ex.Expr, places: Mapping[tuple[str, ...], int]) -> Function:
    """Compile as :func:`function` does, with results in the canonical form of row values."""
    found = function(expr, places)
    return lambda row: canonical(found(row))


def _junction(expr: ex.Binary, places: Mapping[tuple[str, ...], int]) -> Function:
    left, right = function(expr.left, places), function(expr.right, places)
    join = conjunction if expr.op == "and" else disjunction
    return lambda row: join(left(row), right(row))


_QUICK = frozenset({int, str})
"""Types with the same order in Python and SQL; doubles have NaN, and booleans are not numbers."""
_QUICKLY: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip


def _comparison(expr: ex.Binary, places: Mapping[tuple[str, ...], int]) -> Function:
    left, right, op = function(expr.left, places), function(expr.right, places), expr.op
    quick = _QUICKLY[op]

    def run(row: Row) -> Value:
        a, b = left(row), right(row)
        kind = type(a)
        if kind is type(b) and kind in _QUICK:
            return quick(a, b)
        return ordering(op, a, b)

    return run


def _arithmetic(expr: ex.Binary, places: Mapping[tuple[str, ...], int]) -> Function:
    left, right, op = function(expr.left, places), function(expr.right, places), expr.op
    quick = _QUICKLY[op]
    # Next to a decimal, a literal has the digits it was written with; the evaluator handles that.
    written = any(isinstance(side, ex.Literal) for side in (expr.left, expr.right))
    evaluated = _evaluated(expr, places) if written else None

    def run(row: Row) -> Value:
        a, b = left(row), right(row)
        if type(a) is int and type(b) is int:
            return v.integer(quick(a, b))
        return v.arithmetic(op, a, b) if evaluated is None else evaluated(row)

    return run


def _evaluated(expr: ex.Expr, places: Mapping[tuple[str, ...], int]) -> Function:
    names = dict.fromkeys(e.parts for e in ex.walk(expr) if isinstance(e, ex.Ref))
    referenced = [(parts, places[parts]) for parts in names]
    return lambda row: evaluate(expr, RowScope({parts: row[place] for parts, place in referenced}.__getitem__))
