"""What a name in an expression stands for: the references of an expression, sorted by what they ask."""

from __future__ import annotations

from dataclasses import dataclass, field

from perseid.lang import expressions as ex

AGGREGATES = frozenset(
    ["count", "sum", "avg", "min", "max", "first", "last", "prev", "stddev", "any", "every", "collect"]
)
NAVIGATION = frozenset({"first", "last", "prev"})
"""These may stand inside another aggregate: ``every(t.x > prev(t.x))`` looks back from each round."""
STEP_FUNCTIONS = frozenset({"time", "type"})
"""Functions whose argument is a step and not a value."""


@dataclass(slots=True)
class References:
    """The names an expression uses, outside and inside aggregates."""

    plain: list[ex.Ref] = field(default_factory=list)
    aggregated: list[tuple[ex.Call, ex.Ref]] = field(default_factory=list)
    steps: list[tuple[ex.Call, ex.Ref]] = field(default_factory=list)
    """Arguments of time(a) and type(a)."""
    nested: ex.Call | None = None
    """An aggregate inside an aggregate, if there is one: it has no meaning."""


def is_aggregate(expr: ex.Expr) -> bool:
    return isinstance(expr, ex.Call) and expr.name in AGGREGATES


def references(expr: ex.Expr) -> References:
    found = References()
    _collect(expr, None, found)
    return found


def _collect(expr: ex.Expr, inside: ex.Call | None, found: References) -> None:
    if isinstance(expr, ex.Ref):
        if inside is None:
            found.plain.append(expr)
        else:
            found.aggregated.append((inside, expr))
        return
    if isinstance(expr, ex.Call) and expr.name in STEP_FUNCTIONS:
        for arg in expr.args:
            if isinstance(arg, ex.Ref) and len(arg.parts) == 1:
                found.steps.append((expr, arg))
            else:
                _collect(arg, inside, found)
        return
    if isinstance(expr, ex.Call) and expr.name in AGGREGATES:
        if inside is None:
            inside = expr
        elif expr.name not in NAVIGATION:
            found.nested = expr
    for child in ex.children(expr):
        _collect(child, inside, found)
