"""Expressions of queries as functions of a row: the common ones as closures, the rest by the evaluator."""

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
    """The value of an expression in a row, in which each dotted name has its place."""
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
    """As :func:`function`, in the one form that rows hold values in."""
    found = function(expr, places)
    return lambda row: canonical(found(row))


def _junction(expr: ex.Binary, places: Mapping[tuple[str, ...], int]) -> Function:
    left, right = function(expr.left, places), function(expr.right, places)
    join = conjunction if expr.op == "and" else disjunction
    return lambda row: join(left(row), right(row))


_QUICK = frozenset({int, str})
"""Types whose own order is SQL's; doubles have NaN, and booleans are no numbers."""
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
    # Beside a decimal a written number has the digits it was written with: the evaluator knows.
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
    wanted = [(parts, places[parts]) for parts in names]
    return lambda row: evaluate(expr, RowScope({parts: row[place] for parts, place in wanted}.__getitem__))
