"""Transform parse trees of expressions to the AST: one method per grammar rule, called from the leaves up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from lark import Token, v_args
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from perseid.errors import LimitError, PatternSyntaxError
from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang.printer import print_name

_UNIT_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICRO = dt.timedelta(microseconds=1)
_MOMENTS = range(
    (dt.datetime.min.replace(tzinfo=dt.UTC) - _EPOCH) // _MICRO,
    (dt.datetime.max.replace(tzinfo=dt.UTC) - _EPOCH) // _MICRO + 1,
)


class OptionalPart(NamedTuple):
    """An optional part of a step or group, by its role."""

    role: str
    value: Any


def place(meta: Meta) -> ex.Span:
    return ex.Span(meta.start_pos, meta.end_pos, meta.line, meta.column)


def token_place(token: Token) -> ex.Span:
    return ex.Span(token.start_pos or 0, token.end_pos or 0, token.line or 1, token.column or 1)


def _name(token: Token) -> str:
    return token[1:-1].replace("``", "`") if token.type == "QUOTED" else str(token)


def _check_name(name: str, token: Token) -> None:
    if len(name) > limits.MAX_NAME:
        raise LimitError(
            f"The name has {len(token)} characters; the maximum is {limits.MAX_NAME}.",
            span=token_place(token),
            hint="Use a shorter name.",
        )


def lower(token: Token) -> str:
    """Lower-case a name and check its length again: lower-casing may lengthen it."""
    name = token.lower()
    _check_name(name, token)
    return name


def unquote(token: Token) -> str:
    return token[1:-1].replace("''", "'")


_LARGE = {
    "integer": "Write it as a double, 1e20, or as a string.",
    "repetition bound": "For at least {number} events: Transfer+ t … where count(t) >= {number}.",
    "window": "Use within forever.",
    "evidence limit": "Use a smaller limit, and look up the events by their ids.",
    "size": "Use at most 38 digits for a decimal.",
    "closure bound": "Use + for one or more edges.",
    "number after 'top'": "Remove 'top', and sort the matches where you read them.",
}
"""Hints for numbers over their limit, by the kind of number."""


def integer(token: Token, limit: int, what: str) -> int:
    if len(token) > 25 or int(token) > limit:
        number = token if len(token) <= 25 else f"{token[:22]}…"
        raise LimitError(
            f"The {what} is {number}; the maximum is {limit:,}.",
            span=token_place(token),
            hint=_LARGE[what].format(number=number),
        )
    return int(token)


def _binary(op: str) -> Callable[[ExpressionReader, Meta, ex.Expr, ex.Expr], ex.Expr]:
    def build(_: ExpressionReader, meta: Meta, left: ex.Expr, right: ex.Expr) -> ex.Expr:
        return ex.Binary(op, left, right, span=place(meta))  # type: ignore[arg-type]

    return build


@v_args(inline=True, meta=True)
class ExpressionReader(Transformer_NonRecursive[Token, object]):
    """Transforms expressions, and the names, durations and types that patterns share with them.

    The transformer does not recurse; the depth of the tree is checked after it is built.
    """

    def __init__(self) -> None:
        super().__init__(visit_tokens=False)

    # names and words

    def name(self, meta: Meta, token: Token) -> Token:
        renamed = Token.new_borrow_pos("NAME", _name(token), token)
        _check_name(renamed, token)
        return renamed

    def word(self, meta: Meta, token: Token) -> str:
        return unquote(token) if token.type == "STRING" else str(token)

    def path(self, meta: Meta, *parts: Token) -> ex.Ref:
        return ex.Ref(tuple(map(str, parts)), span=place(meta))

    # durations and windows

    def quantity(self, meta: Meta, number: Token, unit: Token) -> int:
        if len(number) > 25:
            raise LimitError(
                "The duration is longer than the maximum of 200,000 years.",
                span=place(meta),
                hint="Use within forever.",
            )
        micros = Fraction(number) * _UNIT_MICROS[unit.lower().removesuffix("s")]
        if micros.denominator != 1:
            raise PatternSyntaxError(
                "A duration is a whole number of microseconds, at least 1.",
                span=place(meta),
                hint="Write 1 microsecond.",
            )
        if micros > limits.MAX_DURATION:
            raise LimitError(
                "The duration is longer than the maximum of 200,000 years.",
                span=place(meta),
                hint="Use within forever.",
            )
        return int(micros)

    def duration(self, meta: Meta, *quantities: int) -> int:
        total = sum(quantities)
        if total > limits.MAX_DURATION:
            raise LimitError(
                "The duration is longer than the maximum of 200,000 years.",
                span=place(meta),
                hint="Use within forever.",
            )
        return total

    def duration_param(self, meta: Meta, token: Token) -> ex.Param:
        return ex.Param(token[1:], span=place(meta))

    def gap(self, meta: Meta, duration: ast.Duration) -> OptionalPart:
        return OptionalPart("within", duration)

    def window_time(self, meta: Meta, duration: ast.Duration) -> ast.Window:
        return ast.TimeWindow(duration, span=place(meta))

    def window_count(self, meta: Meta, count: Token) -> ast.Window:
        events = integer(count, limits.MAX_INTEGER, "window")
        if events < 1:
            raise PatternSyntaxError(
                "A window of 0 events cannot contain a match.",
                span=place(meta),
                hint="A window needs at least as many events as the pattern has steps: within 2 events.",
            )
        return ast.CountWindow(events, span=place(meta))

    def window_forever(self, meta: Meta, _: Token) -> ast.Window:
        return ast.Forever(span=place(meta))

    # expressions

    or_ = _binary("or")
    and_ = _binary("and")

    def not_(self, meta: Meta, operand: ex.Expr) -> ex.Expr:
        return ex.Unary("not", operand, span=place(meta))

    def minus(self, meta: Meta, operand: ex.Expr) -> ex.Expr:
        return ex.Unary("-", operand, span=place(meta))

    def binary(self, meta: Meta, left: ex.Expr, op: Token, right: ex.Expr) -> ex.Expr:
        return ex.Binary(str(op), left, right, span=place(meta))  # type: ignore[arg-type]

    def compare(self, meta: Meta, left: ex.Expr, op: Token, right: ex.Expr) -> ex.Expr:
        sign = "<>" if op == "!=" else str(op)
        return ex.Binary(sign, left, right, span=place(meta))  # type: ignore[arg-type]

    def between(self, meta: Meta, value: ex.Expr, low: ex.Expr, high: ex.Expr) -> ex.Expr:
        return ex.Between(value, low, high, span=place(meta))

    def not_between(self, meta: Meta, value: ex.Expr, low: ex.Expr, high: ex.Expr) -> ex.Expr:
        return ex.Between(value, low, high, True, span=place(meta))

    def like(self, meta: Meta, value: ex.Expr, op: Token, pattern: ex.Expr) -> ex.Expr:
        return ex.Like(value, pattern, op=op.lower(), span=place(meta))  # type: ignore[arg-type]

    def not_like(self, meta: Meta, value: ex.Expr, op: Token, pattern: ex.Expr) -> ex.Expr:
        return ex.Like(value, pattern, True, op.lower(), span=place(meta))  # type: ignore[arg-type]

    def in_list(self, meta: Meta, value: ex.Expr, items: tuple[ex.Expr, ...]) -> ex.Expr:
        return ex.InList(value, items, span=place(meta))

    def not_in_list(self, meta: Meta, value: ex.Expr, items: tuple[ex.Expr, ...]) -> ex.Expr:
        return ex.InList(value, items, True, span=place(meta))

    def in_param(self, meta: Meta, value: ex.Expr, token: Token) -> ex.Expr:
        return ex.InList(value, (ex.Param(token[1:], span=token_place(token)),), span=place(meta))

    def not_in_param(self, meta: Meta, value: ex.Expr, token: Token) -> ex.Expr:
        return ex.InList(value, (ex.Param(token[1:], span=token_place(token)),), True, span=place(meta))

    def in_relation(self, meta: Meta, value: ex.Expr, relation: Token) -> ex.Expr:
        return ex.InRelation((value,), str(relation), span=place(meta))

    def not_in_relation(self, meta: Meta, value: ex.Expr, relation: Token) -> ex.Expr:
        return ex.InRelation((value,), str(relation), True, span=place(meta))

    def tuple_in(self, meta: Meta, first: ex.Expr, rest: tuple[ex.Expr, ...], relation: Token) -> ex.Expr:
        return ex.InRelation((first, *rest), str(relation), span=place(meta))

    def tuple_not_in(self, meta: Meta, first: ex.Expr, rest: tuple[ex.Expr, ...], relation: Token) -> ex.Expr:
        return ex.InRelation((first, *rest), str(relation), True, span=place(meta))

    def is_(self, meta: Meta, value: ex.Expr, what: Token) -> ex.Expr:
        return ex.Is(value, what.lower(), span=place(meta))  # type: ignore[arg-type]

    def is_not(self, meta: Meta, value: ex.Expr, what: Token) -> ex.Expr:
        return ex.Is(value, what.lower(), True, span=place(meta))  # type: ignore[arg-type]

    def ref(self, meta: Meta, name: Token) -> ex.Expr:
        return ex.Ref((str(name),), span=place(meta))

    def param(self, meta: Meta, token: Token) -> ex.Expr:
        return ex.Param(token[1:], span=place(meta))

    def member(self, meta: Meta, base: ex.Expr, name: Token) -> ex.Expr:
        if isinstance(base, ex.Ref):
            return ex.Ref((*base.parts, str(name)), span=place(meta))
        return ex.Member(base, str(name), span=place(meta))

    def item(self, meta: Meta, base: ex.Expr, key: ex.Expr) -> ex.Expr:
        return ex.Item(base, key, span=place(meta))

    def parens(self, meta: Meta, expr: ex.Expr) -> ex.Expr:
        return expr

    def arguments(self, meta: Meta, *items: ex.Expr) -> tuple[ex.Expr, ...]:
        return items

    def call(self, meta: Meta, name: Token, args: tuple[ex.Expr, ...] = ()) -> ex.Expr:
        return ex.Call(lower(name), args, span=place(meta))

    def call_distinct(self, meta: Meta, name: Token, args: tuple[ex.Expr, ...]) -> ex.Expr:
        return ex.Call(lower(name), args, True, span=place(meta))

    def cast(self, meta: Meta, value: ex.Expr, type_: str) -> ex.Expr:
        return ex.Cast(value, type_, span=place(meta))

    def when(self, meta: Meta, condition: ex.Expr, value: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        return (condition, value)

    def otherwise(self, meta: Meta, value: ex.Expr) -> OptionalPart:
        return OptionalPart("else", value)

    def _case(
        self, meta: Meta, operand: ex.Expr | None, items: tuple[tuple[ex.Expr, ex.Expr] | OptionalPart, ...]
    ) -> ex.Expr:
        whens = tuple(i for i in items if not isinstance(i, OptionalPart))
        otherwise = next((i.value for i in items if isinstance(i, OptionalPart)), None)
        return ex.Case(operand, whens, otherwise, span=place(meta))

    def case(self, meta: Meta, *items: tuple[ex.Expr, ex.Expr] | OptionalPart) -> ex.Expr:
        return self._case(meta, None, items)

    def case_of(self, meta: Meta, operand: ex.Expr, *items: tuple[ex.Expr, ex.Expr] | OptionalPart) -> ex.Expr:
        return self._case(meta, operand, items)

    # literals

    def integer(self, meta: Meta, token: Token) -> ex.Literal:
        return ex.Literal("integer", integer(token, limits.MAX_INTEGER, "integer"), span=place(meta))

    def decimal(self, meta: Meta, token: Token) -> ex.Literal:
        if len(token) > 39:
            raise LimitError(
                "A decimal has more than 38 digits.", span=place(meta), hint="Write it as a double: 1.5e40."
            )
        return ex.Literal("decimal", Decimal(token), span=place(meta))

    def double(self, meta: Meta, token: Token) -> ex.Literal:
        if len(token) > 1000:
            raise LimitError("A number is longer than 1,000 characters.", span=place(meta))
        value = float(token)
        if value in (float("inf"), float("-inf")):
            raise LimitError(
                "The number is too large for a double.", span=place(meta), hint="Use at most about 1.8e308."
            )
        return ex.Literal("double", value, span=place(meta))

    def string(self, meta: Meta, token: Token) -> ex.Literal:
        return ex.Literal("string", unquote(token), span=place(meta))

    def true(self, meta: Meta, _: Token) -> ex.Literal:
        return ex.Literal("boolean", True, span=place(meta))

    def false(self, meta: Meta, _: Token) -> ex.Literal:
        return ex.Literal("boolean", False, span=place(meta))

    def null(self, meta: Meta, _: Token) -> ex.Literal:
        return ex.Literal("null", None, span=place(meta))

    def timestamp(self, meta: Meta, token: Token) -> ex.Literal:
        text = token[token.index("'") + 1 : -1].strip()
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            raise PatternSyntaxError(
                f"Invalid timestamp {text!r}.",
                span=place(meta),
                hint="Write it as timestamp '2026-01-31 12:30:00Z'.",
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        micros = (moment - _EPOCH) // _MICRO
        if micros not in _MOMENTS:
            raise PatternSyntaxError(
                f"Invalid timestamp {text!r}.",
                span=place(meta),
                hint="Use a time in the years 1 to 9999 in UTC.",
            )
        return ex.Literal("timestamp", micros, span=place(meta))

    def date(self, meta: Meta, token: Token) -> ex.Literal:
        text = token[token.index("'") + 1 : -1].strip()
        try:
            day = dt.date.fromisoformat(text)
        except ValueError:
            raise PatternSyntaxError(
                f"Invalid date {text!r}.", span=place(meta), hint="Write it as date '2026-01-31'."
            ) from None
        return ex.Literal("date", (day - _EPOCH.date()).days, span=place(meta))

    def duration_literal(self, meta: Meta, *quantities: int) -> ex.Literal:
        return ex.Literal("duration", self.duration(meta, *quantities), span=place(meta))

    def negative(self, meta: Meta, literal: ex.Literal) -> ex.Literal:
        if literal.kind not in ("integer", "decimal", "double", "duration"):
            raise PatternSyntaxError(
                f"Expected a number or a duration after '-', got {literal.kind}.", span=place(meta)
            )
        value = literal.value
        # Unary minus would round a Decimal to the 28 digits of the context.
        negative = value.copy_negate() if isinstance(value, Decimal) else -value  # type: ignore[operator]
        return ex.Literal(literal.kind, negative, span=place(meta))

    # types, as text in canonical spelling

    def type_plain(self, meta: Meta, name: Token) -> str:
        return print_name(lower(name))

    def type_sized(self, meta: Meta, name: Token, *sizes: Token) -> str:
        inside = ",".join(str(integer(s, 1000, "size")) for s in sizes)
        return f"{print_name(lower(name))}({inside})"

    def type_of(self, meta: Meta, name: Token, inner: str) -> str:
        return f"{print_name(lower(name))} of {inner}"

    def type_field(self, meta: Meta, name: Token, inner: str) -> str:
        return f"{print_name(name)}:{inner}"

    def type_generic(self, meta: Meta, name: Token, *inner: str) -> str:
        return f"{print_name(lower(name))}<{','.join(inner)}>"
