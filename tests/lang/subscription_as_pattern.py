"""Converts a subscription to the equivalent pattern, for round-trip tests."""

from __future__ import annotations

from decimal import Decimal
from typing import NoReturn

from perseid.errors import SemanticError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.subscriptions import AllOf, Compared, Operand, Pairing, Predicate, Subscription, TemporalRelation

_STEPS = ("a", "b")


def pattern_of(subscription: Subscription, name: str = "subscription") -> ast.PatternDefinition:
    """Return the pattern equivalent to a subscription, or raise a :class:`~perseid.errors.SemanticError` with the reason."""
    source = subscription.source
    if subscription.select is not None or subscription.publish is not None:
        _refuse_pattern(
            "a pattern returns columns, and this makes XML", subscription.span, "Leave SELECT and PUBLISH out."
        )
    steps = tuple(
        ast.Step(ast.TreeMatch(block.stream, block.tree), name=step)
        for block, step in zip((source.left, source.right), _STEPS, strict=True)
    )
    match: ast.Element = ast.Conjunction(steps)
    if source.relation is TemporalRelation.FOLLOWED_BY:
        match = ast.Sequence(steps, (ast.Link(),))
    return ast.PatternDefinition(
        name,
        match,
        where=_expression(source.predicate, source),
        within=ast.Forever() if source.window is None else ast.TimeWindow(source.window),
        selection=ast.Selection.FOLLOWED_BY,
    )


def _refuse_pattern(why: str, span: ex.Span | None, hint: str | None = None) -> NoReturn:
    raise SemanticError(f"This subscription is no pattern: {why}.", span=span, hint=hint)


def _expression(predicate: Predicate, source: Pairing) -> ex.Expr:
    if isinstance(predicate, Compared):
        return _comparison(predicate, source)
    parts = [_expression(one, source) for one in predicate.parts]
    made = parts[0]
    for one in parts[1:]:
        made = ex.Binary("and" if isinstance(predicate, AllOf) else "or", made, one)
    return made


def _comparison(one: Compared, source: Pairing) -> ex.Expr:
    left, right = _ref(one.left, source), one.right
    if one.op == "contains":
        return ex.Call("contains", (left, ex.Literal("string", str(right))))
    op: ex.BinaryOp = "<>" if one.op == "!=" else one.op
    if isinstance(right, Operand):
        if op == "=":
            return ex.Binary(op, left, _ref(right, source))
        return ex.Binary(op, ex.Cast(left, "double"), ex.Cast(_ref(right, source), "double"))
    if isinstance(right, str):
        return ex.Binary(op, left, ex.Literal("string", right))
    if op == "<>":
        _refuse_pattern("what is no number is different from every number here, and unknown there", one.span)
    size: int | Decimal = -right if right < 0 else right
    literal: ex.Expr = ex.Literal("integer" if isinstance(right, int) else "decimal", size)
    return ex.Binary(op, ex.Cast(left, "double"), ex.Unary("-", literal) if right < 0 else literal)


def _ref(operand: Operand, source: Pairing) -> ex.Ref:
    if operand.path is not None:
        _refuse_pattern(
            "a path stands behind a variable", operand.span, "Name the node in its block: //item->i[//author->x]."
        )
    return ex.Ref((_STEPS[operand.variable not in source.left.variables], operand.variable))
