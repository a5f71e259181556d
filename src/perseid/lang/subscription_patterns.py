"""Subscriptions written as patterns: two tree steps with an equality predicate, under ``selection followed by``.

    pattern again
    match   Feed << //item->i[/author->x] >> a -> Feed << //item->j[/author->y] >> b
    where   a.x = b.y
    within  1 day
    selection followed by

is ``Feed//item->i[/author->x] FOLLOWED BY{x = y, 1 day} Feed//item->j[/author->y]``; with ``&`` between the steps it
is a JOIN. Node values are text: a numeric comparison in XSCL is ``cast(a.p as double)`` in a pattern.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from typing import Any, NoReturn

from perseid.errors import SemanticError, UnknownNameError, nearest
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.lang.subscriptions import (
    MIRRORED,
    AllOf,
    AnyOf,
    Block,
    Comparator,
    Compared,
    Operand,
    Pairing,
    Predicate,
    Subscription,
    TemporalRelation,
    comparisons,
)
from perseid.lang.tree_patterns import Constant, TreeNode, TreePattern, return_names

_SELECTION = (
    "Use selection followed by: it matches every pair, consumes no document, and requires the second document to be "
    "strictly later. Join the steps with -> for that order, or with & for either order."
)
_OPERATORS: dict[str, Comparator] = {"=": "=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_STEPS = ("a", "b")


def subscription_of(pattern: ast.PatternDefinition) -> Subscription:
    """Convert a pattern to a subscription; raise :class:`~perseid.errors.SemanticError` if it is not one."""
    relation, steps = _steps(pattern.match)
    # Under 'any', the second event of a sequence may share the timestamp of the first; members of & may under both.
    every = {ast.Selection.FOLLOWED_BY} | ({ast.Selection.ANY} if relation is TemporalRelation.JOIN else set())
    if pattern.selection not in every:
        _reject("its selection does not match every pair", pattern.span, _SELECTION)
    _reject_clauses(pattern)
    reader = _ConditionConverter(steps)
    parts: list[Predicate] = [reader.key(one) for one in pattern.partition_by]
    for number, step in enumerate(steps):
        parts += [reader.predicate(one, number) for one in ex.conjuncts(step.condition)]
    parts += [reader.predicate(one, None) for one in ex.conjuncts(pattern.where)]
    flat = [one for part in parts for one in (part.parts if isinstance(part, AllOf) else (part,))]
    if not any(one.op == "=" and isinstance(one.right, Operand) for part in flat for one in comparisons(part)):
        _reject("no condition compares nodes of the two documents with =", pattern.span, "Add where a.x = b.y.")
    predicate = flat[0] if len(flat) == 1 else AllOf(tuple(flat))
    return Subscription(Pairing(relation, *reader.blocks, predicate, _window(pattern)), span=pattern.span)


def _reject(problem: str, span: ex.Span | None, hint: str | None = None) -> NoReturn:
    raise SemanticError(f"The pattern is not a valid subscription: {problem}.", span=span, hint=hint)


def _steps(match: ast.Element) -> tuple[TemporalRelation, tuple[ast.Step, ast.Step]]:
    """Return the two steps and their relation: FOLLOWED_BY for a sequence, JOIN for a conjunction."""
    relation, parts = TemporalRelation.FOLLOWED_BY, ast.parts(match)
    if isinstance(match, ast.Conjunction):
        relation = TemporalRelation.JOIN
    elif not isinstance(match, ast.Sequence):
        parts = ()
    if len(parts) != 2 or not all(isinstance(one, ast.Step) and isinstance(one.kind, ast.TreeMatch) for one in parts):
        _reject(
            "expected two steps, each a tree pattern",
            match.span,
            "Write Feed << //item->i[/author->x] >> a -> Feed << //item->j[/author->y] >> b.",
        )
    if isinstance(match, ast.Sequence):
        (link,) = match.links
        if link.contiguity is not ast.Contiguity.SKIP or link.after is not None or link.within is not None:
            _reject("the arrow between its steps is not a plain ->", link.span or match.span, _SELECTION)
    one, other = parts
    assert isinstance(one, ast.Step)
    assert isinstance(other, ast.Step)
    for step in (one, other):
        if step.must is not None or step.unify:
            _reject("a step must be a tree pattern, with at most a condition in [ ]", step.span, "Compare in where.")
    return relation, (one, other)


def _reject_clauses(pattern: ast.PatternDefinition) -> None:
    clauses = {
        "parameters": pattern.parameters,
        "holds for": pattern.holds_for is not None,
        "after match skip": pattern.skip is not None,
        "report timeouts": pattern.report_timeouts,
        "return": pattern.returns or pattern.evidence is not None,
        "suppress": pattern.suppress is not None,
    }
    for clause, is_present in clauses.items():
        if is_present:
            _reject(f"{clause!r} is unsupported", pattern.span, "Remove it: an output row has both documents.")


def _window(pattern: ast.PatternDefinition) -> int | None:
    match pattern.within:
        case ast.TimeWindow(int() as micros):
            return micros
        case ast.Forever():
            return None
    _reject("its window must be a duration or forever", pattern.span, "Use within 1 day, or within forever.")


class _ConditionConverter:
    """Converts pattern conditions to node comparisons. A node name used in both trees is renamed in the second."""

    def __init__(self, steps: tuple[ast.Step, ast.Step]) -> None:
        self.names = [step.name for step in steps]
        blocks, used = [], set[str]()
        self.variables: list[dict[str, str]] = []
        for step in steps:
            assert isinstance(step.kind, ast.TreeMatch)
            names_of_step = return_names(step.kind.tree)
            renamed = {name: _free(name, used | set(names_of_step)) if name in used else name for name in names_of_step}
            used |= set(renamed.values())
            self.variables.append(renamed)
            root = step.kind.tree.root
            if not isinstance(root, TreeNode):
                _reject("a block must be one path, got a sibling expression", step.span, "Put it below a step.")
            blocks.append(Block(step.kind.stream, TreePattern(_renamed(root, renamed)), span=step.span))
        self.blocks = (blocks[0], blocks[1])

    def key(self, ref: ex.Ref) -> Compared:
        """``partition by x``: the nodes named x of both trees have equal text."""
        name = ref.parts[0] if len(ref.parts) == 1 else ""
        if not all(name in some for some in self.variables):
            _reject(f"its key {print_expr(ref)} is not a node of both steps", ref.span, "Compare in where: a.x = b.y.")
        left, right = (Operand(some[name], span=ref.span) for some in self.variables)
        return Compared(left, "=", right, span=ref.span)

    def predicate(self, expr: ex.Expr, step: int | None) -> Predicate:
        match expr:
            case ex.Binary("and" | "or" as op):
                kind = AllOf if op == "and" else AnyOf
                both = [self.predicate(one, step) for one in (expr.left, expr.right)]
                return kind(tuple(q for p in both for q in (p.parts if isinstance(p, kind) else (p,))))
            case ex.Binary(op) if op in _OPERATORS:
                return self._compared(expr, step)
            case ex.Call("contains", (value, ex.Literal("string", str() as text))):
                node, number = self._side(value, step)
                if isinstance(node, Operand) and not number:
                    return Compared(node, "contains", text, span=expr.span)
        _reject(
            f"{print_expr(expr)} is not a comparison of nodes",
            getattr(expr, "span", None),
            "Use = <> < <= > >=, contains(a.x, 'text'), and, or.",
        )

    def _compared(self, expr: ex.Binary, step: int | None) -> Compared:
        op = _OPERATORS[expr.op]
        (left, one), (right, other) = (self._side(each, step) for each in (expr.left, expr.right))
        if not isinstance(left, Operand):
            left, right, one, other, op = right, left, other, one, MIRRORED[op]
        if not isinstance(left, Operand):
            _reject(f"{print_expr(expr)} contains no node", expr.span)
        numbers = one and (other or not isinstance(right, Operand | str))
        texts = not one and (isinstance(right, str) or (isinstance(right, Operand) and not other and op == "="))
        if not (texts or (numbers and op != "!=" and not (isinstance(right, Operand) and op == "="))):
            _reject(
                f"unsupported comparison {print_expr(expr)}",
                expr.span,
                "Compare nodes of two documents as strings, a.x = b.y, or as numbers, cast(a.p as double) < "
                "cast(b.q as double); with a constant, as strings, a.x <> 'ann', or numbers, cast(a.p as double) < 10.",
            )
        return Compared(left, op, right, span=expr.span)

    def _side(self, expr: ex.Expr, step: int | None) -> tuple[Operand | Constant, bool]:
        """Return a node or a constant, and True for a node cast to a number."""
        match expr:
            case ex.Cast(ex.Ref() as ref, "double"):
                return self._node(ref, step), True
            case ex.Ref():
                return self._node(expr, step), False
            case ex.Literal("string", str() as value):
                return value, False
            case ex.Literal("integer" | "decimal", int() | Decimal() as number):
                return number, False
            case ex.Unary("-", ex.Literal("integer" | "decimal", int() | Decimal() as number)):
                return -number, False
        _reject(f"{print_expr(expr)} is neither a node nor a constant", getattr(expr, "span", None))

    def _node(self, ref: ex.Ref, step: int | None) -> Operand:
        number, name = step, ref.parts[0]
        if len(ref.parts) > 1 or step is None:
            number = self.names.index(ref.parts[0]) if ref.parts[0] in self.names else None
            name = ref.parts[-1]
        if number is None or len(ref.parts) > 2 or (step is None and len(ref.parts) == 1):
            _reject(f"{print_expr(ref)} is not a node of a step", ref.span, "Name the steps, and write a.x.")
        known = self.variables[number]
        if name not in known:
            raise UnknownNameError(
                f"Unknown node {name!r}.",
                span=ref.span,
                nearest=nearest(name, known),
                hint=f"Available: {', '.join(known)}." if known else "Name nodes with ->: //author->a.",
            )
        return Operand(known[name], span=ref.span)


def _free(name: str, used: set[str]) -> str:
    number = 2
    while f"{name}_{number}" in used:
        number += 1
    return f"{name}_{number}"


def _renamed(part: Any, names: dict[str, str]) -> Any:
    """Copy a part of a tree pattern with its return names replaced."""
    if isinstance(part, tuple):
        return tuple(_renamed(one, names) for one in part)
    if not is_dataclass(part) or isinstance(part, type | ex.Span):
        return part
    changed = {f.name: _renamed(getattr(part, f.name), names) for f in fields(part) if f.name != "span"}
    if isinstance(part, TreeNode) and part.returns is not None:
        changed["returns"] = names[part.returns]
    return replace(part, **changed)
