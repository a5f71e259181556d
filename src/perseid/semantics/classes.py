"""Query classes of patterns over uncertain streams (Lahar, Ré et al. 2008), from the pattern and the keys.

Regular: every condition is about one event, and no variable is shared; an automaton carries the probability. Extended
Regular: shared variables occur in every step, in the key of its stream; each binding is a separate Regular query,
independent of the others. Safe: that holds for a prefix, and the rest takes other events: of other types, or with
another constant in a column of the key. All others are Unsafe: already the simplest of them are #P-hard (Propositions
3.18 and 3.19), and are sampled.

Conditions in brackets are part of a subgoal and ``must`` is the selection after it; both are pushed down as in the
paper. A column of ``partition by`` is a constant in each group. The paper has no windows and no absences of one event;
they do not change the class: a configuration of the automaton has an age, and a safe plan is evaluated, for each step,
over the steps that a window reaches back to. A safe plan with other time bounds is rejected, and the pattern is Unsafe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.printer import print_expr
from perseid.semantics import core as c
from perseid.semantics.facts import event_local
from perseid.semantics.names import rewritten


class QueryClass(Enum):
    REGULAR = "Regular"
    EXTENDED = "Extended Regular"
    SAFE = "Safe"
    UNSAFE = "Unsafe"


@dataclass(frozen=True)
class Keys:
    """Columns of an event type: its key, which is certain, and its uncertain columns."""

    key: tuple[str, ...] | None
    """None: all columns, as for certain events."""
    uncertain: tuple[str, ...] = ()

    def has(self, column: str) -> bool:
        return self.key is None or column in self.key


# Safe plans (Definition 3.15)


@dataclass(frozen=True)
class Reg:
    """Automaton of a prefix with all variables bound."""

    steps: tuple[int, ...]
    items: int
    """Number of items of the sequence."""


@dataclass(frozen=True)
class IndependentProject:
    """Independent project: true for some value of a variable."""

    variable: str
    plan: SafePlan


@dataclass(frozen=True)
class Then:
    """A plan, then one step that takes events which no step of the plan can take."""

    plan: SafePlan
    step: int


SafePlan = Reg | IndependentProject | Then


@dataclass(frozen=True)
class Classified:
    """Query class, the reason, and inputs of the evaluation: per-binding variables and the safe plan."""

    kind: QueryClass
    why: str
    bound: tuple[str, ...] = ()
    """Variables with an independent query per binding."""
    plan: SafePlan | None = None


def local_form(pattern: c.CorePattern) -> c.CorePattern:
    """Rewrite variables in conditions to columns of the current event, where its step binds them."""
    steps = []
    for step in pattern.steps:
        path_of = {name: path for path, name in step.unify}
        choose = tuple(replace(k, expr=_with_paths(k.expr, path_of)) for k in step.choose)
        steps.append(replace(step, choose=choose, must=tuple(_with_paths(test, path_of) for test in step.must)))
    return replace(pattern, steps=tuple(steps))


def _with_paths(expr: ex.Expr, path_of: Mapping[str, ex.Ref]) -> ex.Expr:
    def read(part: ex.Expr) -> ex.Expr | None:
        if not isinstance(part, ex.Ref):
            return None
        path = path_of.get(part.parts[0])
        return part if path is None else replace(part, parts=(*path.parts, *part.parts[1:]))

    return rewritten(expr, read)


def grounded(pattern: c.CorePattern, bound: Iterable[str], *, others: bool = True) -> c.CorePattern:
    """Return the pattern for input with one value per bound variable, without the comparisons of these variables.

    With ``others``, variables that occur only once are dropped too. Null is not a value of a variable.
    """
    free = set(bound)
    if others:
        free |= pattern.unified - set(_shared(pattern, range(len(pattern.steps))))
    steps = []
    for step in pattern.steps:
        required = [c.Condition(ex.Is(path, "null", True)) for path, name in step.unify if name in free]
        for i, (path, name) in enumerate(step.unify):
            first = next(other for other, same in step.unify[: i + 1] if same == name)
            if name in free and first != path:  # twice in one step
                required.append(c.Condition(ex.Binary("=", first, path)))
        unify = tuple(pair for pair in step.unify if pair[1] not in free)
        steps.append(replace(step, unify=unify, choose=(*step.choose, *required)))
    return replace(pattern, steps=tuple(steps), unified=frozenset(pattern.unified - free))


def classify(pattern: c.CorePattern, streams: Mapping[str, Keys]) -> Classified:
    """Classify a pattern in its local form over streams with these keys, by event type."""
    crossing = _crossing(pattern)
    if crossing is not None:
        return Classified(QueryClass.UNSAFE, f"{crossing} refers to two events: the predicate is not local")
    steps = tuple(step.id for step in pattern.steps)
    shared = _shared(pattern, steps)
    if not shared:
        # A variable in the key of every step separates queries even if it is not shared.
        alone = (
            ()
            if is_strict(pattern)
            else tuple(x for x in sorted(pattern.unified) if _dependent(pattern, streams, steps, x) is None)
        )
        return Classified(QueryClass.REGULAR, "every predicate is local, and no variable is shared", alone)
    reasons = {x: _dependent(pattern, streams, steps, x) for x in shared}
    if not any(reasons.values()) and is_strict(pattern):
        strictness = "a comma requires" if _has_comma(pattern) else "consecutive iterations require"
        reasons[shared[0]] = f"{strictness} the very next event, which can have another value of {shared[0]}"
    if not any(reasons.values()):
        reason = f"{_listed(shared)}: in the key of every step, so bindings are independent (Definition 3.5)"
        return Classified(QueryClass.EXTENDED, reason, tuple(shared))
    why = next(reason for reason in reasons.values() if reason is not None)
    items = _items(pattern)
    if items is None:
        return Classified(QueryClass.UNSAFE, f"{why}; no safe plan: {_unsafe_reason(pattern)}")
    plan, failed = _plan(pattern, streams, items, frozenset())
    if plan is None:
        return Classified(QueryClass.UNSAFE, f"{why}; no safe plan: {failed}")
    return Classified(QueryClass.SAFE, f"{why}; safe plan: {format_plan(plan, pattern)}", plan=plan)


def is_strict(pattern: c.CorePattern) -> bool:
    """Return True if some step or iteration must be the very next event."""
    return any(
        hop.contiguity is ast.Contiguity.NEXT
        for element in c.each(pattern.body)
        for hop in (
            element.hops if isinstance(element, c.Seq) else (element.hop,) if isinstance(element, c.Loop) else ()
        )
    )


def _has_comma(pattern: c.CorePattern) -> bool:
    """Return True if a step of a sequence is strict, not only the iterations of a repetition."""
    sequences = (element for element in c.each(pattern.body) if isinstance(element, c.Seq))
    return any(hop.contiguity is ast.Contiguity.NEXT for one in sequences for hop in one.hops)


def _crossing(pattern: c.CorePattern) -> str | None:
    """Return the text of a condition over more than one event, or None."""
    for step in pattern.steps:
        for expr in (*(k.expr for k in step.choose), *step.must):
            if not event_local(expr, step, pattern):
                return print_expr(expr)
    return None


def _shared(pattern: c.CorePattern, steps: Sequence[int]) -> list[str]:
    """Return the variables that occur in more than one of the steps, or in a repeated one."""
    places: dict[str, int] = {}
    for number in steps:
        step = pattern.steps[number]
        for _, name in step.unify:
            places[name] = places.get(name, 0) + (2 if step.repeated else 1)
    return sorted(name for name, count in places.items() if count > 1)


def _dependent(pattern: c.CorePattern, streams: Mapping[str, Keys], steps: Iterable[int], variable: str) -> str | None:
    """Return the reason why these steps are not syntactically independent on a variable (Definition 3.4), or None."""
    columns: dict[str, str] = {}
    for number in steps:
        step = pattern.steps[number]
        called = step.name or f"step {number + 1}"
        if not isinstance(step.kind, ast.EventType):
            return f"{variable} is shared, and {called} matches events of any type"
        paths = [path.parts for path, name in step.unify if name == variable]
        if not paths:
            return f"{variable} is shared, but not by {called}"
        keys = streams.get(step.kind.name, Keys(()))
        at = next((parts[0] for parts in paths if len(parts) == 1 and keys.has(parts[0])), None)
        if at is None:
            return f"{variable} is {'.'.join(paths[0])} in {called}, which is not a key of {step.kind.name}"
        if columns.setdefault(step.kind.name, at) != at:
            return f"{variable} is both {at} and {columns[step.kind.name]} of {step.kind.name}"
    return None


def bound_column(pattern: c.CorePattern, streams: Mapping[str, Keys], variable: str) -> dict[str, str]:
    """Return the key column of a variable, by event type."""
    found: dict[str, str] = {}
    for step in pattern.steps:
        if isinstance(step.kind, ast.EventType) and step.kind.name in streams:
            for path, name in step.unify:
                if name == variable and streams[step.kind.name].has(path.parts[0]):
                    found.setdefault(step.kind.name, path.parts[0])
    return found


def window_of(pattern: c.CorePattern) -> int | None:
    """Return the time window in microseconds, or None."""
    within = pattern.within
    return within.duration if isinstance(within, ast.TimeWindow) and isinstance(within.duration, int) else None


def _is_bounded_otherwise(pattern: c.CorePattern) -> bool:
    """Return True for a window other than a time window."""
    return not isinstance(pattern.within, ast.Forever | None) and window_of(pattern) is None


def _unsafe_reason(pattern: c.CorePattern) -> str:
    if is_strict(pattern):
        strict = "a comma" if _has_comma(pattern) else "consecutive iterations"
        return f"with {strict}, events of all streams count, so no two parts of the pattern are independent"
    if _is_bounded_otherwise(pattern):
        return "the window is not a time window"
    if pattern.holds_for is not None:
        return "the pattern uses 'holds for'"
    return "the pattern is not a plain sequence"


def _items(pattern: c.CorePattern) -> list[c.Core] | None:
    """Return the items of a plain sequence without time bounds; None for any other pattern.

    A comma rules out a safe plan anywhere, also inside a group or a repetition; so do consecutive iterations.
    """
    if is_strict(pattern) or _is_bounded_otherwise(pattern) or pattern.holds_for is not None:
        return None
    body = pattern.body
    if not isinstance(body, c.Seq):
        return None
    plain = c.Hop(ast.Contiguity.SKIP)
    if any(hop != plain for hop in body.hops):
        return None
    return list(body.items)


def _plan(
    pattern: c.CorePattern, streams: Mapping[str, Keys], items: Sequence[c.Core], env: frozenset[str]
) -> tuple[SafePlan | None, str]:
    """Algorithm 1, with the assumption of Equation 3 made explicit: both sides of a sequence use different chains."""
    steps = tuple(step for item in items for step in c.takes(item))
    free = [x for x in _shared(pattern, steps) if x not in env]
    if not free:
        return Reg(steps, len(items)), ""
    for variable in free:
        if _dependent(pattern, streams, steps, variable) is None:
            plan, failed = _plan(pattern, streams, items, env | {variable})
            return (None if plan is None else IndependentProject(variable, plan)), failed
    last = items[-1]
    if len(items) < 2:
        return None, f"{free[0]} is shared within the first item of the sequence"
    if not isinstance(last, c.Take):
        return None, "the last item of the sequence is not a single step"
    before = steps[: -len(c.takes(last))]
    last_step = pattern.steps[last.step]
    called = last_step.name or f"step {last.step + 1}"
    variables = {name for _, name in last_step.unify}
    common = {name for number in before for _, name in pattern.steps[number].unify} & variables - env
    if common:
        return None, f"{called} shares {min(common)} with some of the steps before it, but not with all of them"
    if not all(_cannot_unify(last_step, pattern.steps[number], streams) for number in before):
        return None, f"{called} and a step before it can match the same event, so they are not independent"
    prefix = c.Seq(tuple(items[:-1]), tuple(c.Hop(ast.Contiguity.SKIP) for _ in items[2:]))
    if any(isinstance(end, c.Absent) for end in c.ends(prefix)):
        return None, f"the steps before {called} end with a 'not', so the time at which they became true is unknown"
    if c.can_be_empty(prefix):
        return None, f"the steps before {called} can match no event, and then {called} alone is a match"
    plan, failed = _plan(pattern, streams, items[:-1], env)
    return (None if plan is None else Then(plan, last.step)), failed


def _cannot_unify(one: c.CoreStep, other: c.CoreStep, streams: Mapping[str, Keys]) -> bool:
    """Return True if no event can be taken by both steps: their types or constants in a key column differ.

    Events with different keys belong to different chains, which are independent.
    """
    if not isinstance(one.kind, ast.EventType) or not isinstance(other.kind, ast.EventType):
        return False
    if one.kind != other.kind:
        return True
    keys = streams.get(one.kind.name, Keys(()))
    constants, other_constants = key_constants(one, keys), key_constants(other, keys)
    return any(
        all(_differ(a, b) for a in constants[column] for b in other_constants[column])
        for column in constants.keys() & other_constants.keys()
    )


def key_constants(step: c.CoreStep, keys: Keys) -> dict[str, tuple[ex.Literal, ...]]:
    """Return, by key column, the constants that a step's conditions allow.

    Only conditions that select the event count: ``must`` is tested after the event is selected, whatever its key.
    """
    found: dict[str, tuple[ex.Literal, ...]] = {}
    for condition in step.choose:
        for expr in _conjuncts(condition.expr):
            value, constants = _equated(expr)
            if value is None:
                continue
            parts = value.parts[1:] if len(value.parts) > 1 and value.parts[0] == step.name else value.parts
            if len(parts) == 1 and keys.has(parts[0]):
                known = found.get(parts[0])
                found[parts[0]] = constants if known is None or len(constants) < len(known) else known
    return found


def _conjuncts(expr: ex.Expr) -> Iterator[ex.Expr]:
    if isinstance(expr, ex.Binary) and expr.op == "and":
        yield from _conjuncts(expr.left)
        yield from _conjuncts(expr.right)
    else:
        yield expr


def _equated(expr: ex.Expr) -> tuple[ex.Ref | None, tuple[ex.Literal, ...]]:
    """Return a column and the constants it is compared with for equality; None for other conditions."""
    match expr:
        case ex.Binary(op="=", left=ex.Ref() as value, right=ex.Literal() as constant):
            return value, (constant,)
        case ex.Binary(op="=", left=ex.Literal() as constant, right=ex.Ref() as value):
            return value, (constant,)
        case ex.InList(value=ex.Ref() as value, items=items, negated=False):
            constants = tuple(item for item in items if isinstance(item, ex.Literal))
            return (value, constants) if constants and len(constants) == len(items) else (None, ())
    return None, ()


_NUMBERS = ("integer", "decimal", "double")


def _differ(one: ex.Literal, other: ex.Literal) -> bool:
    """Return True if no value equals both constants, whatever the type of the column.

    Numbers differ if they differ as doubles. Constants of different kinds are assumed not to differ.
    """
    if one.kind in _NUMBERS and other.kind in _NUMBERS:
        return float(one.value) != float(other.value)  # type: ignore[arg-type]
    return one.kind == other.kind and one.value != other.value


def format_plan(plan: SafePlan, pattern: c.CorePattern) -> str:
    """Format a plan in the paper's notation."""
    match plan:
        case Reg():
            named = "; ".join(_called(pattern, number) for number in plan.steps)
            return f"reg({named})"
        case IndependentProject():
            return f"π-{plan.variable}({format_plan(plan.plan, pattern)})"
        case Then():
            return f"seq({format_plan(plan.plan, pattern)}, {_called(pattern, plan.step)})"


def _called(pattern: c.CorePattern, number: int) -> str:
    step = pattern.steps[number]
    return step.name or (step.kind.name if isinstance(step.kind, ast.EventType) else "any")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
