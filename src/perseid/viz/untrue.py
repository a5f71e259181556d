"""Failed conditions: the values that they read, and the reason for a null result."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from perseid.errors import nearest
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.semantics.evaluate import evaluate
from perseid.semantics.scope import MatchScope, holds
from perseid.viz.attempts import Refusal
from perseid.viz.words import format_value

_JOINING = frozenset({"and", "or", "=", "<>", "<", "<=", ">", ">=", "<=>"})


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names available to a condition: steps, unified values, and columns with a value in some event."""

    steps: Set[str]
    unified: Set[str]
    columns: Set[str]


def describe_untrue(expr: ex.Expr, scope: MatchScope, vocabulary: Vocabulary, subject: str, passed: int) -> Refusal:
    """Describe the first conjunct that is not true: its text, the values it reads, and the reason if it is null."""
    lead = f"{subject}: " if subject else ""
    part = next((part for part in ex.conjuncts(expr) if not holds(part, scope)), expr)
    text = print_expr(part)
    operands = _operands(part)
    values_read = {name: evaluate(operand, scope) for name, operand in operands.items()}
    values = "; ".join(f"{name} = {format_value(value)}" for name, value in values_read.items())
    if evaluate(part, scope) is not None:
        return Refusal(f"{text} was not true", f"{lead}{text} is not true: {values or 'never'}.", passed)
    nulls = [_why_null(operands[name], vocabulary) for name, value in values_read.items() if value is None]
    because = "; ".join(n for n in nulls if n)
    if not nulls:
        because = "the types of the two values are not comparable"
    details = f"{lead}{text} is null: {values}."
    if because:
        details += f" {because[0].upper()}{because[1:]}" + ("" if because.endswith("?") else ".")
    return Refusal(f"{text} was null", details, passed)


def _why_null(expr: ex.Expr, vocabulary: Vocabulary) -> str:
    """Return a note if no event has a value in a column of the expression; otherwise an empty string."""
    for ref in (e for e in ex.walk(expr) if isinstance(e, ex.Ref)):
        if ref.parts[0] in vocabulary.unified:
            continue
        named = ref.parts[0] in vocabulary.steps and len(ref.parts) > 1
        column = ref.parts[1] if named else ref.parts[0]
        if column not in vocabulary.columns:
            near = nearest(column, vocabulary.columns)
            return f"no event has a column {column!r}" + (f". Did you mean {near!r}?" if near else "")
    return ""


def _operands(expr: ex.Expr) -> dict[str, ex.Expr]:
    """Return, by text, the operands with values that explain a condition; constants are left out."""
    parts: tuple[ex.Expr, ...]
    match expr:
        case ex.Binary() if expr.op in _JOINING:
            parts = (expr.left, expr.right)
        case ex.Unary(op="not"):
            parts = (expr.operand,)
        case ex.Between():
            parts = (expr.value, expr.low, expr.high)
        case ex.InList() | ex.Is():
            parts = (expr.value,)
        case ex.Like():
            parts = (expr.value, expr.pattern)
        case ex.InRelation():
            parts = expr.values
        case ex.Literal() | ex.Param():
            parts = ()
        case _:
            return {print_expr(expr): expr}
    return {text: operand for part in parts for text, operand in _operands(part).items()}
