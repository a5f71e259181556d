"""Check patterns against a schema: resolve every name, and type every expression and parameter.

Without a schema the columns are unknown, and only patterns that are wrong under every schema are rejected. Errors carry
spans; the caller attaches the source text with ``locate``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

from perseid.errors import (
    LimitError,
    PatternError,
    ScopeError,
    SemanticError,
    TypeMismatchError,
    UnknownNameError,
    nearest,
)
from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.semantics import core as c
from perseid.semantics import types as t
from perseid.semantics.binding import check_declared, signed
from perseid.semantics.evaluate import evaluate, is_true
from perseid.semantics.names import references
from perseid.semantics.resolve import resolve
from perseid.semantics.scope import Bindings, MatchScope
from perseid.semantics.typing import check_condition, described, infer, member_type

Columns: TypeAlias = "Mapping[str, t.Type] | None"
"""Columns of a step's event; None if unknown."""

_SHOWN_NAMES = 12
_MAX_CHAIN = 100
_NOTHING = MatchScope(frozenset(), Bindings())


def check(
    file_or_pattern: ast.PatternFile | ast.PatternDefinition, schema: t.EventSchema | None = None
) -> list[c.CorePattern]:
    """Validate patterns and return their core forms, in source order.

    Parameters take their defaults. Without a default, a value parameter stays a parameter, and a duration parameter is
    replaced by a placeholder that passes every check: such a core can be inspected but not run.
    """
    patterns = (file_or_pattern,) if isinstance(file_or_pattern, ast.PatternDefinition) else file_or_pattern.patterns
    checker = _Checker(patterns, schema)
    return [checker.core(pattern.name) for pattern in patterns]


def parameter_types(pattern: ast.PatternDefinition) -> dict[str, t.Type]:
    """Return the declared types; raise if one is unknown, declared twice, or does not fit its default."""
    found: dict[str, t.Type] = {}
    for parameter in pattern.parameters:
        name = parameter.name
        if name in found:
            raise ScopeError(f"Duplicate parameter :{name}.", span=parameter.span, hint="Use another name.")
        try:
            found[name] = t.parse_type(parameter.type, parameter.span)
        except UnknownNameError as error:
            error.hint = (
                "Available: boolean, int, bigint, double, decimal, string, timestamp, date, duration, "
                "and 'list of' one of these."
            )
            raise
        if parameter.default is not None and not _default_fits(found[name], parameter.default):
            kind = parameter.default.kind
            raise TypeMismatchError(
                f"Parameter :{name} is declared as {parameter.type}, but its default is {_a(kind)}.",
                span=parameter.default.span or parameter.span,
                hint="Remove the default: set a list with .bind(…)."
                if isinstance(found[name], t.Array)
                else f"Declare it as {name} {_declared_as(kind)}, or change the default.",
            )
    return found


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _declared_as(kind: str) -> str:
    return {"integer": "bigint", "null": "string"}.get(kind, kind)


def _default_fits(declared: t.Type, default: ex.Literal) -> bool:
    match declared, default.kind:
        case t.Array(), _:
            return False
        case _, "null":
            return True
        case t.Double(), "integer" | "decimal" | "double":
            return True
        case t.Decimal(), "integer" | "decimal":
            return True
        case t.Integer(), "integer":
            return True
        case ((t.Boolean() | t.String() | t.Timestamp() | t.Date() | t.Duration()), kind):
            return str(declared) == kind
    return t.is_open(declared)


def _check_uses(node: object, types: Mapping[str, t.Type]) -> None:
    """Reject list parameters outside ``in``, and parameters used as durations but declared otherwise."""
    if isinstance(node, ex.InList) and len(node.items) == 1 and isinstance(node.items[0], ex.Param):
        _check_uses(node.value, types)
        return
    if isinstance(node, ex.Param):
        if isinstance(types[node.name], t.Array):
            raise TypeMismatchError(
                f"List parameter :{node.name} is allowed only after 'in'.",
                span=node.span,
                hint=f"Write … in :{node.name}.",
            )
        return
    for role, child in _children(node):
        if isinstance(child, ex.Param) and _is_length(node, role):
            if not isinstance(types[child.name], t.Duration | t.Unknown):
                raise TypeMismatchError(
                    f"Parameter :{child.name} is used as a duration but declared as {types[child.name]}.",
                    span=child.span,
                    hint=f"Declare it as {child.name} duration = 10 minutes.",
                )
        else:
            _check_uses(child, types)


def _children(node: object) -> Iterator[tuple[str, object]]:
    if isinstance(node, tuple):
        yield from (("", child) for child in node)
    elif is_dataclass(node) and not isinstance(node, ex.Span):
        yield from ((f.name, getattr(node, f.name)) for f in fields(node) if f.name != "span")


def _is_length(node: object, role: str) -> bool:
    return role in ("duration", "holds_for") or (isinstance(node, ast.Link) and role in ("after", "within"))


def _with_lengths(node: object, defaults: Mapping[str, ex.Literal]) -> Any:
    """Replace every duration parameter by a number.

    Without a default, an upper bound becomes the maximum duration and a lower bound the minimum, so that no comparison
    of two durations fails for an unbound value.
    """
    if isinstance(node, tuple):
        return tuple(_with_lengths(child, defaults) for child in node)
    if not is_dataclass(node) or isinstance(node, (ex.Span, *ex.EXPRESSION_TYPES)):
        return node
    changes: dict[str, object] = {}
    for role, child in _children(node):
        if isinstance(child, ex.Param) and _is_length(node, role):
            default = defaults.get(child.name)
            upper = isinstance(node, ast.TimeWindow) or role == "within"
            bound = limits.MAX_DURATION if upper else 1
            changes[role] = bound if default is None else default.value
        else:
            changed = _with_lengths(child, defaults)
            if changed is not child:
                changes[role] = changed
    return replace(node, **changes) if changes else node  # type: ignore[type-var]


def _with_values(node: object, defaults: Mapping[str, ex.Literal]) -> Any:
    """Replace every parameter that has a default by it, at the parameter's span."""
    if isinstance(node, ex.Param):
        default = defaults.get(node.name)
        return node if default is None else signed(default, node.span)
    if isinstance(node, tuple):
        return tuple(_with_values(child, defaults) for child in node)
    if not is_dataclass(node) or isinstance(node, (ex.Span, ex.Literal, ex.Ref, ast.Parameter)):
        return node
    changes = {role: _with_values(child, defaults) for role, child in _children(node)}
    return replace(node, **changes)  # type: ignore[type-var]


class _Checker:
    def __init__(self, patterns: Iterable[ast.PatternDefinition], schema: t.EventSchema | None) -> None:
        self.schema = schema
        self.patterns = {pattern.name: pattern for pattern in patterns}
        self.done: dict[str, c.CorePattern] = {}
        self.outputs: dict[str, Columns] = {}
        self.trail: list[str] = []

    def core(self, name: str) -> c.CorePattern:
        if name not in self.done:
            pattern = self.patterns[name]
            self.trail.append(name)
            try:
                self.done[name] = self._check(pattern)
            except PatternError as error:
                error.span = error.span or pattern.span
                raise
            self.trail.pop()
        return self.done[name]

    def _check(self, pattern: ast.PatternDefinition) -> c.CorePattern:
        check_declared(pattern)
        types = parameter_types(pattern)
        _check_uses(replace(pattern, parameters=()), types)
        defaults = {p.name: p.default for p in pattern.parameters if p.default is not None}
        # Type checks use the declared types of parameters, contradiction checks their defaults.
        typed = replace(_with_lengths(pattern, defaults), parameters=())
        for step in _untils(typed.match):
            self._columns(step.kind, step.span)
        self._check_bare(typed)
        core = resolve(typed)
        self._check_types(core, typed, types)
        return resolve(_with_values(typed, defaults)) if defaults else core

    def _columns(self, kind: ast.StepKind, span: ex.Span | None) -> Columns:
        match kind:
            case ast.EventType() if kind.name in self.patterns:
                return self._fed(kind.name, span)
            case ast.EventType() if self.schema is not None:
                known = self.schema.event_types
                if known is not None and kind.name not in known:
                    near = nearest(kind.name, [*known, *self.patterns])
                    raise UnknownNameError(
                        f"Unknown event type {kind.name!r}.",
                        span=span,
                        nearest=near,
                        hint=f"Available: {_listing(known)}.",
                    )
                return self.schema.columns(kind.name)
            case ast.AnyEvent() if self.schema is not None:
                return self.schema.columns()
        return None

    def _fed(self, name: str, span: ex.Span | None) -> Columns:
        """Return the columns of another pattern's matches."""
        if name in self.trail:
            if name == self.trail[-1]:
                raise SemanticError(
                    f"Pattern {name} consumes its own matches: the step type {name!r} refers to the pattern.",
                    span=span,
                    hint="Rename the pattern, so that its name differs from its event types.",
                )
            circle = ", ".join(f"{x} consumes matches of {y}" for x, y in pairwise([*self.trail, name]))
            raise SemanticError(
                f"Patterns feed each other in a cycle: {circle}.",
                span=span,
                hint="Break the cycle: a pattern can consume only matches that do not depend on its own.",
            )
        if len(self.trail) > _MAX_CHAIN:
            raise LimitError(
                f"Patterns consume matches of patterns more than {_MAX_CHAIN} levels deep.",
                span=span,
                hint="Merge some of the patterns into one.",
            )
        self.core(name)
        return self.outputs[name]

    def _check_bare(self, pattern: ast.PatternDefinition) -> None:
        """Reject a bare column in ``where`` or ``return`` over several steps, by the columns of each in the schema."""
        steps = list(ast.steps(pattern.match))
        columns = [self._columns(s.kind, _head(s.span, _kind(s))) for s in steps]
        hidden = {id(s) for s in _negated(pattern.match)}
        positive = [(s, k) for s, k in zip(steps, columns, strict=True) if id(s) not in hidden]
        named = {s.name for s in steps} | {u.name for s in steps for u in s.unify}
        if self.schema is None or len(positive) < 2 or any(k is None for _, k in positive):
            return
        exprs = [e for e in (pattern.where, *(o.expr for o in pattern.returns)) if e is not None]
        for ref in (r for e in exprs for r in references(e).plain if r.parts[0] not in named):
            name = ".".join(ref.parts)
            having = [s for s, known in positive if known is not None and ref.parts[0] in known]
            if len(having) > 1:
                places = _joined([_title(s) for s in having])
                raise ScopeError(
                    f"Column {name!r} is ambiguous: {places} have it.",
                    span=ref.span,
                    hint=_name_candidates(having, name),
                )
            if having:
                raise ScopeError(
                    f"Column {name!r} needs a step name; only {_title(having[0])} has it.",
                    span=ref.span,
                    hint=_name_candidates(having, name),
                )
            if len(ref.parts) == 1:
                owners = {column: step.name for step, known in reversed(positive) for column in known or ()}
                near = nearest(name, {*owners, *(n for n in named if n)})
                owner = owners.get(near) if near is not None else None
                raise UnknownNameError(
                    f"Unknown name {name!r}: it is neither a step nor a column of a step.",
                    span=ref.span,
                    nearest=f"{owner}.{near}" if owner is not None and near not in named else near,
                    hint=f"Available steps: {_listing([_title(s) for s, _ in positive])}.",
                )

    def _check_types(self, core: c.CorePattern, pattern: ast.PatternDefinition, params: Mapping[str, t.Type]) -> None:
        columns = [self._columns(step.kind, step.span) for step in core.steps]
        unified = _unified(core, columns)
        everywhere = _Names(core, columns, unified, params)
        partition = self._partition(core, columns)
        for i, step in enumerate(core.steps):
            env = replace(everywhere, own_step=i)
            for condition in step.choose:
                _check_conjunct(condition.expr, env)
            for expr in step.must:
                _check_conjunct(expr, env)
        for guard in c.guards_of(core):
            _check_conjunct(guard, everywhere)
        returned: dict[str, t.Type] = {}
        for name, expr in core.returns:
            _check_sense(expr, everywhere)
            returned[name] = infer(expr, everywhere)
        self.outputs[pattern.name] = {**partition, **returned, "match_id": t.String()}

    def _partition(self, core: c.CorePattern, columns: list[Columns]) -> dict[str, t.Type]:
        found: dict[str, t.Type] = {}
        for ref in core.partition:
            name = ".".join(ref.parts)
            first: tuple[c.CoreStep, t.Type] | None = None
            for step, known in zip(core.steps, columns, strict=True):
                if known is None:
                    continue
                if ref.parts[0] not in known:
                    raise UnknownNameError(
                        f"Column {ref.parts[0]!r} of 'partition by' not found in {_kind(step)}; every event needs it.",
                        span=ref.span,
                        nearest=nearest(ref.parts[0], known),
                        hint=f"Available: {_listing(known)}.",
                    )
                type_ = _inside(known[ref.parts[0]], ref.parts[1:], ref)
                if first is not None and t.wider(first[1], type_) is None:
                    raise TypeMismatchError(
                        f"'partition by {name}': the column is {described(first[1])} in {_kind(first[0])} "
                        f"and {described(type_)} in {_kind(step)}.",
                        span=ref.span,
                        hint="Use a column of one type: events of one partition have equal values.",
                    )
                first = first or (step, type_)
            found[name] = t.Unknown() if first is None else first[1]
        return found


@dataclass(frozen=True, slots=True)
class _Names:
    """Typing environment of one location in a pattern."""

    core: c.CorePattern
    columns: list[Columns]
    unified: Mapping[str, t.Type]
    params: Mapping[str, t.Type]
    own_step: int | None = None

    def ref(self, ref: ex.Ref) -> t.Type:
        head, rest = ref.parts[0], ref.parts[1:]
        step = self.core.step_named(head)
        if step is not None:
            if not rest:
                raise ScopeError(
                    f"Expected a value, got the event {head!r}.",
                    span=ref.span,
                    hint=f"Use one of its columns, as in {head}.{self._example(step)}, or its time, time({head}).",
                )
            return self._column(step, rest, ref)
        if head in self.unified:
            return _inside(self.unified[head], rest, ref)
        if self.own_step is not None:
            return self._column(self.core.steps[self.own_step], ref.parts, ref)
        positive = [s for s in self.core.steps if not s.negated]
        return self._column(positive[0], ref.parts, ref) if len(positive) == 1 else t.Unknown()

    def _example(self, step: c.CoreStep) -> str:
        return next(iter(self.columns[step.id] or ()), "COLUMN")

    def _column(self, step: c.CoreStep, path: tuple[str, ...], ref: ex.Ref) -> t.Type:
        known = self.columns[step.id]
        if known is None:
            return t.Unknown()
        if path[0] not in known:
            bare = len(path) == len(ref.parts)
            names = [s.name for s in self.core.steps if s.name]
            near = nearest(path[0], known)
            if bare and len(path) > 1:
                near = nearest(path[0], names) or near
            if near is not None and not bare:
                near = f"{ref.parts[0]}.{near}"
            raise UnknownNameError(
                f"Column {path[0]!r} not found in {_kind(step)}.",
                span=ref.span,
                nearest=near,
                hint=f"Available: {_listing(known)}.",
            )
        return _inside(known[path[0]], path[1:], ref)

    def param(self, param: ex.Param) -> t.Type:
        return self.params[param.name]

    def relation(self, expr: ex.InRelation) -> tuple[t.Type, ...] | None:
        return None

    def is_step(self, name: str) -> bool:
        return self.core.step_named(name) is not None

    def plain(self, expr: ex.Expr) -> ex.Expr:
        """Rewrite ``t.amount`` to ``amount`` in t's own condition, where they are equivalent."""
        own_name = None if self.own_step is None else self.core.steps[self.own_step].name
        if own_name is not None and isinstance(expr, ex.Ref) and expr.parts[0] == own_name and len(expr.parts) > 1:
            return ex.Ref(expr.parts[1:])
        return expr


def _inside(type_: t.Type, path: tuple[str, ...], ref: ex.Ref) -> t.Type:
    for i, part in enumerate(path):
        type_ = member_type(type_, part, ref.span, ".".join(ref.parts[: len(ref.parts) - len(path) + i]))
    return type_


def _unified(core: c.CorePattern, columns: list[Columns]) -> dict[str, t.Type]:
    """Return the type of every unified name; its columns must have compatible types."""
    found: dict[str, tuple[c.CoreStep, t.Type]] = {}
    names = _Names(core, columns, {}, {})
    for step in core.steps:
        for ref, name in step.unify:
            type_ = replace(names, own_step=step.id)._column(step, ref.parts, ref)
            if name not in found:
                found[name] = (step, type_)
                continue
            other, known = found[name]
            wider = t.wider(known, type_)
            if wider is None:
                raise TypeMismatchError(
                    f"'as {name}' requires equal values: it is {described(known)} in {_kind(other)} "
                    f"and {described(type_)} in {_kind(step)}.",
                    span=ref.span,
                    hint="Use columns of one type, or remove one and compare it in a condition with cast(x as …).",
                )
            found[name] = (other, wider)
    return {name: type_ for name, (_, type_) in found.items()}


def _check_conjunct(expr: ex.Expr, env: _Names) -> None:
    _check_sense(expr, env)
    check_condition(expr, env)
    names = (ex.Ref, ex.Param, ex.InRelation)
    steps = any(isinstance(e, ex.Call) and e.name in ("time", "type") for e in ex.walk(expr))
    if steps or any(isinstance(e, names) for e in ex.walk(expr)):
        return
    if not is_true(evaluate(expr, _NOTHING)):
        raise SemanticError(
            f"The condition is never true: {print_expr(expr)}.",
            span=expr.span,
            hint="Remove it, or use a column of an event.",
        )


def _check_sense(expr: ex.Expr, env: _Names) -> None:
    """Reject well-typed comparisons that can only have one outcome."""
    for part in ex.walk(expr):
        if isinstance(part, ex.Binary):
            _check_null(part)
            _check_itself(part, env)
        if isinstance(part, ex.InList) and part.negated and any(_is_null(item) for item in part.items):
            raise SemanticError(
                "'not in' is never true for a list with a null: a comparison with null is null.",
                span=part.span,
                hint=f"Remove the null. If {print_expr(part.value)} is null, 'not in' is not true in any case.",
            )


def _is_null(expr: ex.Expr) -> bool:
    return isinstance(expr, ex.Literal) and expr.kind == "null"


def _check_null(expr: ex.Binary) -> None:
    if expr.op not in ("=", "<>", "<", "<=", ">", ">="):
        return
    for side, other in ((expr.left, expr.right), (expr.right, expr.left)):
        if _is_null(side):
            test = "is not null" if expr.op == "<>" else "is null"
            raise SemanticError(
                "A comparison with null is never true, even if both sides are null.",
                span=expr.span,
                hint=f"Write {print_expr(other)} {test}.",
            )


def _check_itself(expr: ex.Binary, env: _Names) -> None:
    if expr.op not in ("=", "<>", "<", "<=", ">", ">=", "<=>"):
        return
    left, right = env.plain(expr.left), env.plain(expr.right)
    if left != right or not isinstance(left, ex.Ref):
        return
    name = ".".join(left.parts)
    own_step = None if env.own_step is None else env.core.steps[env.own_step]
    other = next((s.name for s in env.core.steps if s.name and not s.negated and s is not own_step), None)
    message = "The condition compares a value with itself."
    if own_step is not None and left.parts[0] not in env.unified and env.core.step_named(left.parts[0]) is None:
        column = f"a column of {own_step.name or _kind(own_step)} with itself"
        message = f"{print_expr(expr)} compares {column}: in square brackets, a bare name is a column of the step."
    raise SemanticError(
        message,
        span=expr.span,
        hint=f"Name the other event: {other or 'a'}.{left.parts[-1]} {expr.op} {name}.",
    )


def _head(span: ex.Span | None, name: str) -> ex.Span | None:
    """Return the part of a step's span that covers its type."""
    if span is None or span.end - span.start < len(name):
        return span
    return ex.Span(span.start, span.start + len(name), span.line, span.column)


def _untils(element: ast.Element) -> Iterator[ast.Step]:
    if isinstance(element, ast.Repeat) and element.until is not None:
        yield element.until
    for part in ast.parts(element):
        yield from _untils(part)


def _negated(element: ast.Element) -> Iterator[ast.Step]:
    if isinstance(element, ast.Absence):
        yield from ast.steps(element.element)
    else:
        for part in ast.parts(element):
            yield from _negated(part)


def _kind(step: ast.Step | c.CoreStep) -> str:
    match step.kind:
        case ast.EventType(name):
            return name
        case ast.AnyEvent():
            return "any event"
        case ast.TreeMatch(stream, _):
            return stream
        case ast.QueryEvent(_, query):
            return query
        case ast.ModelChange():
            return step.kind.element


def _title(step: ast.Step | c.CoreStep) -> str:
    return f"{_kind(step)} {step.name}" if step.name else _kind(step)


def _name_candidates(steps: list[ast.Step], name: str) -> str:
    named = [s.name for s in steps if s.name]
    if not named:
        return f"Name a step and use the name: {_kind(steps[0])} a … a.{name}."
    return f"Use {' or '.join(f'{n}.{name}' for n in named[:3])}."


def _joined(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _listing(names: Iterable[str]) -> str:
    pool = list(names)
    shown = ", ".join(pool[:_SHOWN_NAMES])
    more = len(pool) - _SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown or "none"
