"""Translates Perseid patterns to SQL:2016 row patterns, for the common part of both languages.

:func:`translate` returns a MATCH_RECOGNIZE query with one row for each event of a match and its step, so that
matches of SQL and of Perseid can be compared event by event. Patterns that SQL cannot express, or evaluates
differently, raise :class:`UntranslatableError`; docs/sql-differences.md lists them.

The structure of the pattern comes from the syntax tree, and the conditions of each step from the core form,
which already assigns every conjunct of ``where`` to the step that decides it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.semantics import core as c
from perseid.semantics.names import references
from perseid.semantics.resolve import resolve

Row = tuple[int, int | None, int, int, str, int | None]
"""stream, key, time in seconds, number within the stream, type, value"""

_AGGREGATES = {
    "sum": "SUM",
    "avg": "AVG",
    "min": "MIN",
    "max": "MAX",
    "any": "BOOL_OR",
    "every": "BOOL_AND",
    "first": "FIRST",
    "last": "LAST",
}
_OPERATORS = frozenset({"+", "-", "*", "=", "<>", "<", "<=", ">", ">="})
_COLUMNS = frozenset({"v"})
_SECOND = 1_000_000


class UntranslatableError(Exception):
    """The pattern is outside the part that SQL and Perseid share."""


@dataclass(frozen=True, slots=True)
class Query:
    """A translated pattern: all parts of the query except the rows."""

    pattern: str
    define: tuple[tuple[str, str], ...]
    skip: str
    partitioned: bool

    def over(self, rows: Sequence[Row]) -> str:
        """Return the SQL text of the query over several streams, each of which is a partition."""
        values = ",\n".join(
            f"({stream}, {_or_null(key)}, {time}, {seq}, '{type_}', {_or_null(value)})"
            for stream, key, time, seq, type_, value in rows
        )
        partition = "stream, k" if self.partitioned else "stream"
        define = ",\n".join(f"    {variable} AS {condition}" for variable, condition in self.define)
        # The casts give a column with only nulls the type integer.
        return f"""SELECT stream, {"k" if self.partitioned else "NULL"}, number, variable, seq
FROM (SELECT stream, CAST(k AS integer) AS k, ts, seq, type, CAST(v AS integer) AS v FROM (VALUES
{values}
) AS t (stream, k, ts, seq, type, v))
MATCH_RECOGNIZE (
  PARTITION BY {partition} ORDER BY ts, seq
  MEASURES MATCH_NUMBER() AS number, CLASSIFIER() AS variable
  ALL ROWS PER MATCH
  AFTER MATCH SKIP {self.skip}
  PATTERN ({self.pattern})
  DEFINE
{define}
)"""


def variable(step: int) -> str:
    """Return the SQL variable of a step, which has the number of the step in the pattern text."""
    return f"S{step}"


def step_of(name: str) -> int:
    return int(name[1:])


def translate(pattern: ast.PatternDefinition, *, anyway: bool = False) -> Query:
    """Translate a pattern; ``anyway`` also translates patterns that SQL evaluates differently."""
    return _Translator(pattern, anyway).query()


def _or_null(value: int | None) -> str:
    return "NULL" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class _StepContext:
    """Static facts that hold when a step is evaluated."""

    before: frozenset[int]
    """Steps that always have an event in the current iteration of the enclosing repetitions."""
    loops: tuple[int, ...]
    """Enclosing repetitions with more than one possible iteration."""


@dataclass(slots=True)
class _Translator:
    source: ast.PatternDefinition
    anyway: bool = False
    core: c.CorePattern = field(init=False)
    names: dict[str, int] = field(init=False)
    step_contexts: dict[int, _StepContext] = field(default_factory=dict)
    extra: dict[int, list[str]] = field(default_factory=dict)
    """SQL conditions from guards and from time bounds between steps."""

    def query(self) -> Query:
        self.core = resolve(self.source)
        self.names = {s.name: s.id for s in self.core.steps if s.name is not None}
        self._check(self.core)
        self._set_contexts(self.core.body, frozenset(), ())
        self._guards(self.core.body, top=True)
        numbered = iter(range(len(self.core.steps)))
        shape = self._shape(self.source.match, numbered)
        define = tuple((variable(s.id), self._condition(s)) for s in self.core.steps)
        return Query(shape, define, self._skip(), bool(self.core.partition))

    # supported patterns

    def _check(self, core: c.CorePattern) -> None:
        refuse = {
            "a context": core.context is not None,
            "strictly later": bool(core.strictly_later),
            "a leading absence": bool(core.lead),
            "holds for": core.holds_for is not None,
            "timeouts": core.report_timeouts,
            "suppression": core.suppress is not None,
            "a condition on the finished match": bool(core.guards),
            "an event under not or until": any(s.negated for s in core.steps),
            "a partition by other than k": core.partition not in ((), (ex.Ref(("k",)),)),
        }
        for part in _each(core.body):
            if isinstance(part, c.Zone):
                refuse["a window on a group"] = True
            if not all(h.contiguity is ast.Contiguity.NEXT for h in _hops(part)):
                refuse["an arrow that passes events over"] = True
            if self.anyway:
                continue
            if isinstance(part, c.Loop) and c.can_be_empty(part.body):
                refuse["a repetition of what can be nothing: preferred differently"] = True
            if isinstance(part, c.All) and len(part.members) > 2 and not all(map(_one_way, part.members)):
                refuse["three or more members with a choice inside: preferred differently"] = True
        for what, present in refuse.items():
            if present:
                raise UntranslatableError(what)

    def _set_contexts(self, core: c.Core, bound: frozenset[int], loops: tuple[int, ...]) -> frozenset[int]:
        match core:
            case c.Take():
                self.step_contexts[core.step] = _StepContext(bound, loops)
                return bound | {core.step}
            case c.Seq():
                for item in core.items:
                    bound = self._set_contexts(item, bound, loops)
                return bound
            case c.Alt():
                return frozenset.intersection(*(self._set_contexts(b, bound, loops) for b in core.branches))
            case c.All():
                # The order of the members is not known statically.
                return frozenset.union(*(self._set_contexts(m, bound, loops) for m in core.members))
            case c.Loop():
                inner = loops if core.high == 1 else (*loops, core.id)
                after = self._set_contexts(core.body, bound - set(core.inside), inner)
                return after if core.low > 0 else bound
        raise UntranslatableError(type(core).__name__)

    def _guards(self, core: c.Core, *, top: bool) -> None:
        """Move conditions on leaving a repetition or conjunction to the next step, because SQL evaluates conditions at events."""
        if isinstance(core, c.Seq):
            for i, item in enumerate(core.items):
                self._guards(item, top=False)
                follower = core.items[i + 1] if i + 1 < len(core.items) else None
                if isinstance(item, c.Loop) and item.guards:
                    if not top or not isinstance(follower, c.Take):
                        raise UntranslatableError("a condition on leaving a repetition")
                    conditions = [self._expr(g, None) for g in item.guards]
                    self.extra.setdefault(follower.step, []).extend(conditions)
                hop = core.hops[i] if i < len(core.hops) else None
                if hop is not None and (hop.after is not None or hop.within is not None):
                    if not isinstance(follower, c.Take):
                        raise UntranslatableError("a bound on the time before more than a step")
                    self.extra.setdefault(follower.step, []).append(_gap(variable(follower.step), hop))
            return
        if isinstance(core, c.Loop) and core.guards:
            raise UntranslatableError("a condition on leaving a repetition")
        if isinstance(core, c.All) and core.guards:
            # Each member evaluates it over the earlier members, so it holds at the end if every member is required.
            plain = {m.step for m in core.members if isinstance(m, c.Take)}
            for guard in core.guards:
                refs = references(guard)
                steps = {self.names[r.parts[0]] for r in refs.plain if r.parts[0] in self.names}
                around = {s for s in steps - plain if s in c.takes(core)}
                if refs.aggregated or around or any(self.step_contexts[s].loops for s in steps):
                    raise UntranslatableError("a condition between members that can be missing or repeated")
        for part in c.core_parts(core):
            self._guards(part, top=False)

    # structure

    def _shape(self, element: ast.Element, numbered: Iterator[int]) -> str:
        match element:
            case ast.Step():
                return variable(next(numbered))
            case ast.Sequence():
                return "(" + " ".join(self._shape(e, numbered) for e in element.elements) + ")"
            case ast.Alternation():
                return "(" + " | ".join(self._shape(b, numbered) for b in element.branches) + ")"
            case ast.Conjunction():
                return "PERMUTE(" + ", ".join(self._shape(m, numbered) for m in element.members) + ")"
            case ast.Repeat():
                return f"({self._shape(element.element, numbered)}){_quantifier(element)}"
            case ast.Group(within=None, holds_for=None):
                return self._shape(element.element, numbered)
        raise UntranslatableError(type(element).__name__)

    def _skip(self) -> str:
        skip = self.core.skip
        match skip.mode:
            case "none" | "to next":
                # Without ->> a start has at most one match, so every match is the first of its start.
                return "TO NEXT ROW"
            case "past last":
                return "PAST LAST ROW"
            case "to first" | "to last":
                assert skip.step is not None
                target = self.names[skip.step]
                if not self.anyway and not self._always_after_start(target):
                    raise UntranslatableError("a skip to a step that can be missing or the start: an error in SQL")
                return f"{skip.mode.upper()} {variable(target)}"

    def _always_after_start(self, target: int) -> bool:
        """Return whether every match has the step, and never as its first event."""
        body = self.core.body
        if not isinstance(body, c.Seq):
            return False
        for i, item in enumerate(body.items):
            if target in c.takes(item):
                started = any(not c.can_be_empty(before) for before in body.items[:i])
                return started and _obligatory(item, target)
        return False

    # conditions

    def _condition(self, step: c.CoreStep) -> str:
        me = variable(step.id)
        parts = []
        if isinstance(step.kind, ast.EventType):
            parts.append(f"{me}.type = '{step.kind.name}'")
        elif not isinstance(step.kind, ast.AnyEvent):
            raise UntranslatableError(type(step.kind).__name__)
        for path, name in step.unify:
            column = self._column(me, path.parts)
            parts.append(f"{column} IS NOT NULL AND {column} = {self._unified(name, own=step.id)}")
        for condition in step.choose:
            predicate = self._expr(condition.expr, step.id)
            if condition.needs:
                absent = " OR ".join(f"COUNT({variable(n)}.*) = 0" for n in condition.needs)
                predicate = f"({absent} OR {predicate})"
            parts.append(predicate)
        # With strict arrows only, an event that fails a test and an event that is not chosen both end the run.
        parts.extend(self._expr(test, step.id) for test in step.must)
        parts.extend(self.extra.get(step.id, ()))
        match self.core.within:
            case ast.TimeWindow(duration=int(duration)):
                parts.append(f"{me}.ts - FIRST(ts) <= {_seconds(duration)}")
            case ast.CountWindow(events=count):
                parts.append(f"COUNT(*) <= {count}")
        return " AND ".join(parts) or "true"

    def _unified(self, name: str, own: int | None) -> str:
        """Return the unified value from any step that has it; the current step is last, because its event is already bound."""
        carriers = [s for s in self.core.steps if any(n == name for _, n in s.unify)]
        carriers.sort(key=lambda s: s.id == own)
        values = []
        for step in carriers:
            path = next(p for p, n in step.unify if n == name)
            values.append(f"FIRST({self._column(variable(step.id), path.parts)})")
        return values[0] if len(values) == 1 else f"COALESCE({', '.join(values)})"

    def _column(self, qualifier: str, parts: tuple[str, ...]) -> str:
        if len(parts) != 1 or parts[0] not in _COLUMNS:
            raise UntranslatableError(f"the column {'.'.join(parts)}")
        return f"{qualifier}.{parts[0]}"

    def _ref(self, ref: ex.Ref, at: int | None, inside: int | None) -> str:
        head = ref.parts[0]
        if head in self.names:
            step = self.names[head]
            if step not in (at, inside):
                self._check_fresh(step, at)
            return self._column(variable(step), ref.parts[1:])
        if head in self.core.unified:
            return self._unified(head, own=None)
        if at is None or inside is not None:
            raise UntranslatableError("a bare column here")
        return self._column(variable(at), ref.parts)

    def _check_fresh(self, step: int, at: int | None) -> None:
        """Raise an error for a name in a repetition: it means the event of the current iteration, in SQL the last one of any."""
        target = self.step_contexts[step]
        if not self.anyway and target.loops and (at is None or step not in self.step_contexts[at].before):
            raise UntranslatableError("a name that this round may not have bound")

    def _expr(self, expr: ex.Expr, at: int | None, inside: int | None = None) -> str:
        def down(e: ex.Expr) -> str:
            return self._expr(e, at, inside)

        match expr:
            case ex.Literal(kind="null"):
                return "NULL"
            case ex.Literal(kind="boolean"):
                return "true" if expr.value else "false"
            case ex.Literal(kind="integer"):
                return str(expr.value)
            case ex.Literal(kind="string"):
                return "'" + str(expr.value).replace("'", "''") + "'"
            case ex.Ref():
                return self._ref(expr, at, inside)
            case ex.Unary(op="-"):
                return f"(- {down(expr.operand)})"
            case ex.Unary():
                return f"(NOT {down(expr.operand)})"
            case ex.Binary(op="<=>"):
                return f"({down(expr.left)} IS NOT DISTINCT FROM {down(expr.right)})"
            case ex.Binary(op="and" | "or"):
                return f"({down(expr.left)} {expr.op.upper()} {down(expr.right)})"
            case ex.Binary() if expr.op in _OPERATORS:
                return f"({down(expr.left)} {expr.op} {down(expr.right)})"
            case ex.Between():
                no = "NOT " if expr.negated else ""
                return f"({down(expr.value)} {no}BETWEEN {down(expr.low)} AND {down(expr.high)})"
            case ex.InList():
                no = "NOT " if expr.negated else ""
                return f"({down(expr.value)} {no}IN ({', '.join(map(down, expr.items))}))"
            case ex.Is(what="null"):
                return f"({down(expr.value)} IS {'NOT ' if expr.negated else ''}NULL)"
            case ex.Is():
                no = "" if expr.negated else "NOT "
                return f"({down(expr.value)} IS {no}DISTINCT FROM {expr.what})"
            case ex.Call():
                if inside is not None:
                    raise UntranslatableError("an aggregate of an aggregate")
                return self._call(expr)
        raise UntranslatableError(type(expr).__name__)

    def _call(self, call: ex.Call) -> str:
        if call.distinct:
            raise UntranslatableError("distinct: the judge refuses it here")
        steps = {self.names[r.parts[0]] for _, r in references(call).aggregated if r.parts[0] in self.names}
        if len(steps) != 1:
            raise UntranslatableError("an aggregate over more than one step")
        (step,) = steps
        argument = call.args[0]
        if call.name == "count":
            whole = isinstance(argument, ex.Ref) and len(argument.parts) == 1
            return f"COUNT({variable(step)}.*)" if whole else f"COUNT({self._expr(argument, None, step)})"
        inner = self._expr(argument, None, step)
        if call.name == "prev":
            # PREV of SQL is the previous row of the table; prev of Perseid is the previous event of the same step.
            offset = call.args[1] if len(call.args) > 1 else ex.Literal("integer", 1)
            if not isinstance(offset, ex.Literal):
                raise UntranslatableError("a computed offset")
            return f"LAST({inner}, {offset.value})"
        if call.name not in _AGGREGATES:
            raise UntranslatableError(call.name)
        return f"{_AGGREGATES[call.name]}({inner})"


def _each(core: c.Core) -> Iterator[c.Core]:
    yield core
    for part in c.core_parts(core):
        yield from _each(part)


def _hops(core: c.Core) -> tuple[c.Hop, ...]:
    """Return the transitions between the events inside the element."""
    match core:
        case c.Seq():
            return core.hops
        case c.Loop() if core.high != 1:
            return (core.hop,)
        case c.All() if len(core.members) > 1:
            return (core.hop,)
    return ()


def _one_way(core: c.Core) -> bool:
    """Return whether the element has only one way to match."""
    match core:
        case c.Take():
            return True
        case c.Seq():
            return all(map(_one_way, core.items))
        case c.Loop():
            return core.low == core.high and _one_way(core.body)
    return False


def _obligatory(core: c.Core, step: int) -> bool:
    """Return whether every match of the element binds the step."""
    match core:
        case c.Take():
            return core.step == step
        case c.Seq():
            return any(_obligatory(item, step) for item in core.items)
        case c.All():
            return any(_obligatory(member, step) for member in core.members)
        case c.Alt():
            return all(_obligatory(branch, step) for branch in core.branches)
        case c.Loop():
            return core.low > 0 and _obligatory(core.body, step)
    return False


def _quantifier(repeat: ast.Repeat) -> str:
    match (repeat.low, repeat.high):
        case (0, 1):
            text = "?"
        case (0, None):
            text = "*"
        case (1, None):
            text = "+"
        case (low, None):
            text = f"{{{low},}}"
        case (low, high) if low == high:
            text = f"{{{low}}}"
        case (low, high):
            text = f"{{{low},{high}}}"
    return text + ("?" if repeat.reluctant else "")


def _gap(me: str, hop: c.Hop) -> str:
    """Return the bounds on the time since the previous event; they do not apply to the first event of a match."""
    gap = f"({me}.ts - PREV({me}.ts))"
    bounds = []
    if hop.after is not None:
        bounds.append(f"{gap} >= {_seconds(hop.after)}")
    if hop.within is not None:
        bounds.append(f"{gap} <= {_seconds(hop.within)}")
    return f"(COUNT(*) = 1 OR ({' AND '.join(bounds)}))"


def _seconds(micros: int) -> int:
    if micros % _SECOND:
        raise UntranslatableError("a part of a second")
    return micros // _SECOND


def rows_of(streams: Iterable[Sequence[Row]]) -> list[Row]:
    return [row for stream in streams for row in stream]
