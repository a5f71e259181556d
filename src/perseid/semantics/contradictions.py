"""Find conditions on one value that no value satisfies together; only certain contradictions are reported."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr

_FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_ORDERED = frozenset({"integer", "decimal", "double", "string", "timestamp", "date", "duration"})


@dataclass(frozen=True, slots=True)
class Clash:
    text: str
    span: ex.Span | None


@dataclass(frozen=True, slots=True)
class _Bound:
    op: str
    literal: ex.Literal
    source: ex.Expr


def find_contradiction(conditions: list[ex.Expr]) -> Clash | None:
    """Return the first pair of conditions on one value that exclude each other."""
    seen: dict[str, list[_Bound]] = {}
    for condition in (part for whole in conditions for part in ex.conjuncts(whole)):
        for subject, bound in _bounds(condition):
            for other in seen.get(subject, ()):
                if _exclude(bound, other):
                    text = f"{print_expr(other.source)} and {print_expr(bound.source)}"
                    return Clash(text, bound.source.span)
            seen.setdefault(subject, []).append(bound)
    return None


def _bounds(condition: ex.Expr) -> list[tuple[str, _Bound]]:
    if isinstance(condition, ex.Between) and not condition.negated:
        pairs = ((">=", condition.low), ("<=", condition.high))
        return [
            (print_expr(condition.value), _Bound(op, limit, condition))
            for op, limit in pairs
            if isinstance(limit, ex.Literal) and limit.kind in _ORDERED
        ]
    if not isinstance(condition, ex.Binary) or condition.op not in _FLIP:
        return []
    left, right = condition.left, condition.right
    if isinstance(right, ex.Literal) and isinstance(left, ex.Ref) and right.kind in _ORDERED:
        return [(print_expr(left), _Bound(condition.op, right, condition))]
    if isinstance(left, ex.Literal) and isinstance(right, ex.Ref) and left.kind in _ORDERED:
        return [(print_expr(right), _Bound(_FLIP[condition.op], left, condition))]
    return []


def _key(literal: ex.Literal) -> tuple[str, object]:
    value = literal.value
    if isinstance(value, float):
        return ("double", value) if math.isfinite(value) else (f"no number {id(literal)}", 0)
    if literal.kind in ("integer", "decimal"):
        return ("number", Decimal(value) if isinstance(value, int) else value)
    return (literal.kind, value)


def _exclude(a: _Bound, b: _Bound) -> bool:
    (kind_a, x), (kind_b, y) = _key(a.literal), _key(b.literal)
    if kind_a != kind_b:
        return False
    if a.op == "=" and b.op == "=":
        return x != y
    for low, high, least, most in ((a, b, x, y), (b, a, y, x)):
        if low.op in (">", ">=", "=") and high.op in ("<", "<=", "="):
            strict = low.op == ">" or high.op == "<"
            if least > most or (strict and least == most):  # type: ignore[operator]
                return True
    return False
