"""Lower event-local expressions to Spark SQL with the values of the reference evaluator.

The text is printed from the typed tree, never from user text. Its values do not depend on the session's time zone,
``spark.sql.ansi.enabled`` or string escaping, and it raises on no row: times are computed as microseconds since 1970
UTC, and everything that may overflow or fail to parse goes through a ``try_`` function or a guard. Integers are bigint
and floats are double from the moment a column is read.

Expressions that Spark cannot evaluate exactly are left to Python (the result is None): text of doubles and their long
decimals (before Java 19 ``toString`` does not give the shortest digits), ``like`` with a pattern that is no literal
(Spark's matching backtracks, and an adversarial event could choose the pattern), regular expressions other than
searches for a fixed string (Java's engine backtracks and differs from RE2), addresses in IPv6 networks, comparisons
that need more than 38 digits, and ``case``, ``if`` or ``coalesce`` with branches of different types, if a conversion to
the common type would change a value. Three groups are lowered although the last digit may differ: ``ln``, ``log10``,
``exp``, ``power``, ``distance_km`` and ``angle`` are Java's and not C's; ``upper`` and ``lower`` use the Unicode
version of the JVM; ``round`` of a double starts from the digits Java gives it.

This module walks the tree; :mod:`perseid.spark.sql` has the SQL of each node.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import types as st

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
from perseid.semantics.functions import FUNCTIONS, literal_integer
from perseid.spark.sql.arithmetic import arithmetic
from perseid.spark.sql.casts import cast, target_type
from perseid.spark.sql.choices import case
from perseid.spark.sql.columns import item, member, read
from perseid.spark.sql.comparisons import between, compared, in_list, is_
from perseid.spark.sql.functions import function
from perseid.spark.sql.literals import bigint_literal, constant, literal, quoted
from perseid.spark.sql.numbers import negated
from perseid.spark.sql.pieces import InexpressibleError, Names, Sql, boolean, integer, need, null, string, truth
from perseid.spark.sql.strings import concatenated, like

MAX_TEXT = 100_000
"""Limit in characters: planning a longer text costs Spark more than the JVM saves at run time."""


def sql_text(
    expr: Expr,
    columns: Mapping[str, st.DataType],
    *,
    time: str,
    type: str | None,
    event_type: str | None = None,
) -> str | None:
    """Spark SQL for an expression over the columns of one event; None if only Python can evaluate it.

    ``time`` and ``type`` are the columns behind ``time()`` and ``type()``; without a type column, ``type()`` is
    ``event_type``. Timestamps in the columns are assumed to be in the years 1 to 9999, as in the reference.
    """
    found = lower_expression(expr, columns, time, type, event_type)
    return None if found is None else found.text


def predicate_text(
    expr: Expr,
    columns: Mapping[str, st.DataType],
    *,
    time: str,
    type: str | None,
    event_type: str | None = None,
) -> str | None:
    """A condition as Spark SQL that is true or false and never null; None if only Python can evaluate it."""
    found = lower_expression(expr, columns, time, type, event_type)
    return None if found is None else condition_text(found)


def condition_text(sql: Sql) -> str:
    """A condition as SQL, true or false and never null; a condition that is not boolean is false."""
    return f"coalesce({sql.text}, false)" if isinstance(sql.type, t.Boolean) else "false"


def lower_expression(
    expr: Expr, columns: Mapping[str, st.DataType], time: str, type_: str | None, event_type: str | None
) -> Sql | None:
    """Spark SQL for an expression, with its type; None if only Python can evaluate it."""
    try:
        found = _Writer(columns, time, type_, event_type).write(expr)
    except InexpressibleError:
        return None
    return found if len(found.text) <= MAX_TEXT else None


class _Writer:
    """Lowers one expression bottom-up, with the types of its parts."""

    def __init__(
        self, columns: Mapping[str, st.DataType], time: str, type_: str | None, event_type: str | None
    ) -> None:
        self.columns, self.time, self.type, self.event_type = columns, time, type_, event_type
        self.names = Names(columns)

    def write(self, expr: Expr) -> Sql:
        match expr:
            case Literal():
                return literal(expr)
            case Ref():
                return reduce(member, expr.parts[1:], self.column(expr.parts[0]))
            case Member():
                return member(self.write(expr.base), expr.name)
            case Item():
                return item(self.write(expr.base), self.write(expr.key))
            case Unary():
                return self.unary(expr)
            case Binary():
                return self.binary(expr)
            case Between():
                low, high = self.write(expr.low), self.write(expr.high)
                return _signed(between(self.names, self.write(expr.value), low, high), expr.negated)
            case InList():
                items = [self.write(one) for one in expr.items]
                return _signed(in_list(self.names, self.write(expr.value), items), expr.negated)
            case Like():
                return _signed(like(self.names, self.write(expr.value), expr), expr.negated)
            case Is():
                return is_(expr, self.write(expr.value))
            case Case():
                return self.case(expr)
            case Call():
                return self.call(expr)
            case Cast():
                return cast(self.names, self.write(expr.value), target_type(expr.type))
        raise InexpressibleError

    def column(self, name: str) -> Sql:
        if sum(name.lower() == other.lower() for other in self.columns) > 1 or name not in self.columns:
            raise InexpressibleError
        return read(quoted(name), self.columns[name])

    def unary(self, expr: Unary) -> Sql:
        if expr.op == "not":
            return boolean(f"(not {truth(self.write(expr.operand))})")
        if isinstance(expr.operand, Literal) and expr.operand.kind == "integer":
            number = literal_integer(expr)
            if number is not None and 0 <= -number <= v.MAX_INTEGER:
                return integer(bigint_literal(number))
        return negated(self.write(expr.operand))

    def binary(self, expr: Binary) -> Sql:
        match expr.op:
            case "and" | "or":
                parts = [truth(self.write(part)) for part in _chain(expr, expr.op)]
                return boolean(f"({f' {expr.op} '.join(parts)})")
            case "||":
                return concatenated(self.names, [self.write(part) for part in _chain(expr, "||")])
            case "=" | "<>" | "<" | "<=" | ">" | ">=" | "<=>":
                left, right = self.write(expr.left), self.write(expr.right)
                return boolean(compared(expr.op, left, right))
        return self.arithmetic(expr.op, expr.left, expr.right)

    def arithmetic(self, op: str, first: Expr, second: Expr) -> Sql:
        return arithmetic(self.names, op, (first, self.write(first)), (second, self.write(second)))

    def case(self, expr: Case) -> Sql:
        thens = [(then, self.write(then)) for _, then in expr.whens]
        if expr.otherwise is not None:
            thens.append((expr.otherwise, self.write(expr.otherwise)))
        tests = [self.write(when) for when, _ in expr.whens]
        operand = None if expr.operand is None else self.write(expr.operand)
        return case(self.names, operand, tests, thens)

    def call(self, expr: Call) -> Sql:
        definition = FUNCTIONS.get(expr.name)
        if definition is None or definition.aggregate:
            raise InexpressibleError
        if not definition.low <= len(expr.args) <= (definition.high or len(expr.args)):
            raise InexpressibleError
        if expr.name in ("time", "type"):
            return self.event_function(expr)
        if expr.name == "mod":
            return self.arithmetic("%", expr.args[0], expr.args[1])
        args = [self.write(arg) for arg in expr.args]
        if definition.strict and any(isinstance(arg.type, t.Null) for arg in args):
            return null(t.Null())
        return function(self.names, expr, args)

    def event_function(self, expr: Call) -> Sql:
        """``time()`` and ``type()`` of the event itself; with an argument they belong to a step and are not lowered."""
        if expr.args:
            raise InexpressibleError
        name, kind = (self.time, t.Timestamp) if expr.name == "time" else (self.type, t.String)
        if name is not None:
            column = self.column(name)
            need(column, kind)
            return column
        if self.event_type is None:
            raise InexpressibleError
        return string(constant(self.event_type))


def _signed(text: str, negated: bool) -> Sql:
    return boolean(f"(not {text})" if negated else text)


def _chain(expr: Expr, op: str) -> list[Expr]:
    """Flatten one operator: ``x and y and z`` as [x, y, z], regardless of grouping."""
    if isinstance(expr, Binary) and expr.op == op:
        return _chain(expr.left, op) + _chain(expr.right, op)
    return [expr]
