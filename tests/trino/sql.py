"""Perseid patterns as SQL:2016 row patterns, for the part of the language that both have.

:func:`translate` gives a MATCH_RECOGNIZE query whose rows say which event stands at which step, so that a
match of SQL and one of ours can be compared event by event. What SQL has no words for, or means differently,
is refused with :class:`UntranslatableError`; docs/sql-differences.md lists it.

The shape of the pattern is read from the tree as written, the conditions of each step from the core form,
where every conjunct of ``where`` already stands at the step that decides it.
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
    """A pattern ready to be asked: everything but the rows."""

    pattern: str
    define: tuple[tuple[str, str], ...]
    skip: str
    partitioned: bool

    def over(self, rows: Sequence[Row]) -> str:
        """The query over many streams at once; each is a partition of its own."""
        values = ",\n".join(
            f"({stream}, {_or_null(key)}, {time}, {seq}, '{type_}', {_or_null(value)})"
            for stream, key, time, seq, type_, value in rows
        )
        partition = "stream, k" if self.partitioned else "stream"
        define = ",\n".join(f"    {variable} AS {condition}" for variable, condition in self.define)
        # The casts keep a column of nothing but nulls an integer.
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
    """The SQL variable of a step, by its number in the order written."""
    return f"S{step}"


def step_of(name: str) -> int:
    return int(name[1:])


def translate(pattern: ast.PatternDefinition, *, anyway: bool = False) -> Query:
    """The query; ``anyway`` also where SQL has words for the pattern and means something else by them."""
    return _Translator(pattern, anyway).query()


def _or_null(value: int | None) -> str:
    return "NULL" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class _Situation:
    """What is known when a step is tried."""

    before: frozenset[int]
    """Steps that certainly have an event, since the repetitions around the step last began a round."""
    loops: tuple[int, ...]
    """Repetitions around it that can go round more than once."""


@dataclass(slots=True)
class _Translator:
    source: ast.PatternDefinition
    anyway: bool = False
    core: c.CorePattern = field(init=False)
    names: dict[str, int] = field(init=False)
    situations: dict[int, _Situation] = field(default_factory=dict)
    extra: dict[int, list[str]] = field(default_factory=dict)
    """Conditions that come from guards and arrows, as SQL."""

    def query(self) -> Query:
        self.core = resolve(self.source)
        self.names = {s.name: s.id for s in self.core.steps if s.name is not None}
        self._check(self.core)
        self._situate(self.core.body, frozenset(), ())
        self._guards(self.core.body, top=True)
        numbered = iter(range(len(self.core.steps)))
        shape = self._shape(self.source.match, numbered)
        define = tuple((variable(s.id), self._condition(s)) for s in self.core.steps)
        return Query(shape, define, self._skip(), bool(self.core.partition))

    # what can be said at all

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

    def _situate(self, core: c.Core, bound: frozenset[int], loops: tuple[int, ...]) -> frozenset[int]:
        match core:
            case c.Take():
                self.situations[core.step] = _Situation(bound, loops)
                return bound | {core.step}
            case c.Seq():
                for item in core.items:
                    bound = self._situate(item, bound, loops)
                return bound
            case c.Alt():
                return frozenset.intersection(*(self._situate(b, bound, loops) for b in core.branches))
            case c.All():
                # Whether another member has come before is not known.
                return frozenset.union(*(self._situate(m, bound, loops) for m in core.members))
            case c.Loop():
                inner = loops if core.high == 1 else (*loops, core.id)
                after = self._situate(core.body, bound - set(core.inside), inner)
                return after if core.low > 0 else bound
        raise UntranslatableError(type(core).__name__)

    def _guards(self, core: c.Core, *, top: bool) -> None:
        """Conditions asked when a repetition or conjunction is left: SQL can ask only at the next event."""
        if isinstance(core, c.Seq):
            for i, item in enumerate(core.items):
                self._guards(item, top=False)
                follower = core.items[i + 1] if i + 1 < len(core.items) else None
                if isinstance(item, c.Loop) and item.guards:
                    if not top or not isinstance(follower, c.Take):
                        raise UntranslatableError("a condition on leaving a repetition")
                    asked = [self._expr(g, None) for g in item.guards]
                    self.extra.setdefault(follower.step, []).extend(asked)
                hop = core.hops[i] if i < len(core.hops) else None
                if hop is not None and (hop.after is not None or hop.within is not None):
                    if not isinstance(follower, c.Take):
                        raise UntranslatableError("a bound on the time before more than a step")
                    self.extra.setdefault(follower.step, []).append(_gap(variable(follower.step), hop))
            return
        if isinstance(core, c.Loop) and core.guards:
            raise UntranslatableError("a condition on leaving a repetition")
        if isinstance(core, c.All) and core.guards:
            # Each member asks it of those before it, so at the end it holds, if every member must come.
            plain = {m.step for m in core.members if isinstance(m, c.Take)}
            for guard in core.guards:
                refs = references(guard)
                asked = {self.names[r.parts[0]] for r in refs.plain if r.parts[0] in self.names}
                around = {s for s in asked - plain if s in c.takes(core)}
                if refs.aggregated or around or any(self.situations[s].loops for s in asked):
                    raise UntranslatableError("a condition between members that can be missing or repeated")
        for part in c.core_parts(core):
            self._guards(part, top=False)

    # shape

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
                # Without ->> a start has one match at most, so every match is the first of its start.
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
        """Is the step in every match, and never its first event?"""
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
            asked = self._expr(condition.expr, step.id)
            if condition.needs:
                absent = " OR ".join(f"COUNT({variable(n)}.*) = 0" for n in condition.needs)
                asked = f"({absent} OR {asked})"
            parts.append(asked)
        # With strict arrows alone, an event refused by a test and one not chosen end the path alike.
        parts.extend(self._expr(test, step.id) for test in step.must)
        parts.extend(self.extra.get(step.id, ()))
        match self.core.within:
            case ast.TimeWindow(duration=int(duration)):
                parts.append(f"{me}.ts - FIRST(ts) <= {_seconds(duration)}")
            case ast.CountWindow(events=count):
                parts.append(f"COUNT(*) <= {count}")
        return " AND ".join(parts) or "true"

    def _unified(self, name: str, own: int | None) -> str:
        """The unified value, from any step that has it; the step at hand comes last, for its event is bound."""
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
        """In a repetition a plain name means this round's event; in SQL the last one of any round."""
        target = self.situations[step]
        if not self.anyway and target.loops and (at is None or step not in self.situations[at].before):
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
            # Not SQL's PREV, which is the row before in the table: ours is the event before in the same step.
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
    """How the events inside the element follow each other."""
    match core:
        case c.Seq():
            return core.hops
        case c.Loop() if core.high != 1:
            return (core.hop,)
        case c.All() if len(core.members) > 1:
            return (core.hop,)
    return ()


def _one_way(core: c.Core) -> bool:
    """Can the element be matched in one way only?"""
    match core:
        case c.Take():
            return True
        case c.Seq():
            return all(map(_one_way, core.items))
        case c.Loop():
            return core.low == core.high and _one_way(core.body)
    return False


def _obligatory(core: c.Core, step: int) -> bool:
    """Does every way through the element take the step?"""
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
    """Bounds on the time since the event before; the first event of a match has none before it."""
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
