"""AST of expressions, used in conditions and after ``return``.

Nodes are frozen and compare by value: the source span of a node is carried for error messages and excluded from
equality and hashing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Literal as Choice
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text; line and column count from 1, offsets from 0."""

    start: int
    end: int
    line: int
    column: int


def span_field() -> Span | None:
    return field(default=None, compare=False, repr=False, kw_only=True)


LiteralKind = Choice["null", "boolean", "integer", "decimal", "double", "string", "timestamp", "date", "duration"]
LiteralValue: TypeAlias = "bool | int | Decimal | float | str | None"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Timestamps are microseconds since 1970 UTC, dates days since 1970, durations microseconds."""

    kind: LiteralKind
    value: LiteralValue
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Ref:
    """A dotted name: ``amount``, ``a.amount``, ``a.device.os``, or a unified parameter ``u``.

    The checker resolves the first part to a step or to a column of the step's own event.
    """

    parts: tuple[str, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a base that is not a plain dotted name: ``a.items[0].price``."""

    base: Expr
    name: str
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Item:
    """An array element (from 0) or a map value: ``a.items[0]``, ``a.tags['colour']``; null if absent."""

    base: Expr
    key: Expr
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the pattern, bound at use: ``:threshold``."""

    name: str
    span: Span | None = span_field()


UnaryOp = Choice["-", "not"]
LikeOp = Choice["like", "ilike", "rlike"]
BinaryOp = Choice["+", "-", "*", "/", "%", "||", "=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or"]


@dataclass(frozen=True, slots=True)
class Unary:
    op: UnaryOp
    operand: Expr
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Binary:
    op: BinaryOp
    left: Expr
    right: Expr
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Between:
    value: Expr
    low: Expr
    high: Expr
    negated: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class InList:
    """``x in (1, 2, 3)``; a single parameter (``x in :vips``) may be a list bound at use."""

    value: Expr
    items: tuple[Expr, ...]
    negated: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class InRelation:
    """``(p, l) in Office``: membership in a table that is bound at use."""

    values: tuple[Expr, ...]
    relation: str
    negated: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Like:
    """``like``, ``ilike`` (case-insensitive) or ``rlike`` (regular expression)."""

    value: Expr
    pattern: Expr
    negated: bool = False
    op: LikeOp = "like"
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Is:
    """``x is null``, ``x is not null``, ``x is true``, ``x is not false`` …; the result is never null."""

    value: Expr
    what: Choice["null", "true", "false"]
    negated: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Case:
    operand: Expr | None
    whens: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Call:
    """A function or aggregate of the allowlist; names are lower case."""

    name: str
    args: tuple[Expr, ...]
    distinct: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Cast:
    """``cast(x as double)``: null if the value cannot be converted."""

    value: Expr
    type: str
    span: Span | None = span_field()


Expr: TypeAlias = (
    Literal
    | Ref
    | Member
    | Item
    | Param
    | Unary
    | Binary
    | Between
    | InList
    | InRelation
    | Like
    | Is
    | Case
    | Call
    | Cast
)
EXPRESSION_TYPES = (
    Literal, Ref, Member, Item, Param, Unary, Binary, Between, InList, InRelation, Like, Is, Case, Call, Cast
)  # fmt: skip


_FIELD_NAMES = {kind: tuple(f.name for f in fields(kind)) for kind in EXPRESSION_TYPES}


def children(expr: Expr) -> Iterator[Expr]:
    """Yield the direct sub-expressions, left to right."""
    for name in _FIELD_NAMES[type(expr)]:
        value = getattr(expr, name)
        if isinstance(value, EXPRESSION_TYPES):
            yield value
        elif isinstance(value, tuple):
            for part in value:
                if isinstance(part, EXPRESSION_TYPES):
                    yield part
                elif isinstance(part, tuple):
                    yield from (p for p in part if isinstance(p, EXPRESSION_TYPES))


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all its descendants, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def conjuncts(expr: Expr | None) -> list[Expr]:
    """Split ``x and y and z`` into [x, y, z]."""
    if expr is None:
        return []
    if isinstance(expr, Binary) and expr.op == "and":
        return conjuncts(expr.left) + conjuncts(expr.right)
    return [expr]


def conjoin(parts: list[Expr]) -> Expr | None:
    """Join conditions by ``and``, the inverse of :func:`conjuncts`; None for an empty list."""
    result: Expr | None = None
    for part in parts:
        result = part if result is None else Binary("and", result, part)
    return result
