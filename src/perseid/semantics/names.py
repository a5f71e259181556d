"""Name references of an expression, grouped by their use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

from perseid.lang import expressions as ex
from perseid.semantics.functions import AGGREGATES, NAVIGATION

STEP_FUNCTIONS = frozenset({"time", "type"})
"""Functions that take a step as argument, not a value."""


@dataclass(slots=True)
class References:
    """The names that an expression uses, outside and inside aggregates."""

    plain: list[ex.Ref] = field(default_factory=list)
    aggregated: list[tuple[ex.Call, ex.Ref]] = field(default_factory=list)
    steps: list[tuple[ex.Call, ex.Ref]] = field(default_factory=list)
    """Arguments of time(a) and type(a)."""
    nested: ex.Call | None = None
    """A nested aggregate, if there is one, which is an error."""


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


def strip_step_name(expr: ex.Expr, step_name: str | None) -> ex.Expr:
    """Rewrite ``a.temp`` to ``temp`` and ``time(a)`` to ``time()``, independent of the step's name."""
    if step_name is None:
        return expr

    def bare(part: ex.Expr) -> ex.Expr | None:
        if isinstance(part, ex.Ref):
            return replace(part, parts=part.parts[1:]) if part.parts[0] == step_name and len(part.parts) > 1 else part
        if (
            isinstance(part, ex.Call)
            and part.name in STEP_FUNCTIONS
            and part.args
            and part.args[0] == ex.Ref((step_name,))
        ):
            return replace(part, args=())
        return None

    return rewritten(expr, bare)


def rewritten(expr: ex.Expr, change: Callable[[ex.Expr], ex.Expr | None]) -> ex.Expr:
    """Copy an expression with parts replaced; where ``change`` returns None, it is applied to the children."""
    changed = change(expr)
    if changed is not None:
        return changed
    changes: dict[str, object] = {}
    for f in fields(expr):
        value = getattr(expr, f.name)
        if isinstance(value, ex.EXPRESSION_TYPES) or (isinstance(value, tuple) and f.name != "parts"):
            changes[f.name] = _rewritten_part(value, change)
    return replace(expr, **changes) if changes else expr  # type: ignore[arg-type]


def _rewritten_part(value: object, change: Callable[[ex.Expr], ex.Expr | None]) -> object:
    if isinstance(value, ex.EXPRESSION_TYPES):
        return rewritten(value, change)
    if isinstance(value, tuple):
        return tuple(_rewritten_part(part, change) for part in value)
    return value
