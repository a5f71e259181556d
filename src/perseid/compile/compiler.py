"""Compile core patterns to a plan: rewrite them, number predicates, emit programs, and derive what drivers need."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from perseid.compile import program as p
from perseid.compile.plan import OPEN_CAP, PatternPlan, Plan, PlanColumn, Predicate, Retention, Route, RowKind, StepPlan
from perseid.compile.rewrites import rewrite
from perseid.lang import ast
from perseid.lang.expressions import Expr
from perseid.lang.printer import print_expr
from perseid.semantics import core as c
from perseid.semantics.detection import feeding_order, feeds
from perseid.semantics.facts import Facts, event_local, facts_of
from perseid.semantics.names import strip_step_name


def compile_set(patterns: Sequence[c.CorePattern]) -> Plan:
    """Compile a set of patterns to its plan."""
    ordered = [rewrite(pattern) for pattern in feeding_order(patterns)]
    names = {pattern.name for pattern in ordered}
    predicates = _Predicates()
    routes = _Routes()
    plans = tuple(_pattern(pattern, names, predicates, routes) for pattern in ordered)
    return Plan(
        patterns=plans,
        predicates=tuple(predicates.listed),
        routes=tuple(routes.listed),
        columns=_columns(plans),
        all_columns=any(plan.facts.all_columns for plan in plans),
        event_types=_event_types(plans, names),
    )


class _Predicates:
    """Predicates of the set, without duplicates."""

    def __init__(self) -> None:
        self.listed: list[Predicate] = []
        self._predicate_ids: dict[tuple[str, str | None, str], int] = {}

    def number(self, expr: Expr, step: c.CoreStep | None, pattern: c.CorePattern) -> int:
        kind = step.kind if step is not None else None
        event_type = kind.name if isinstance(kind, ast.EventType) else None
        local = step is not None and event_local(expr, step, pattern)
        if local and step is not None:
            # An event-local predicate is the same in every pattern, regardless of the name of its step.
            expr = strip_step_name(expr, step.name)
        # Names of other steps have a meaning in their own pattern only.
        owner = "" if local else f"{pattern.semantic_hash} {'' if step is None else step.id}"
        key = (print_expr(expr), event_type, owner)
        if key not in self._predicate_ids:
            digest = hashlib.blake2b(repr(key).encode(), digest_size=8).hexdigest()
            self._predicate_ids[key] = len(self.listed)
            self.listed.append(Predicate(len(self.listed), digest, expr, local, event_type))
        return self._predicate_ids[key]


class _Routes:
    def __init__(self) -> None:
        self.listed: list[Route] = []

    def number(self, paths: tuple[tuple[str, ...], ...]) -> int:
        for route in self.listed:
            if route.paths == paths:
                return route.id
        self.listed.append(Route(len(self.listed), paths))
        return len(self.listed) - 1


def _pattern(pattern: c.CorePattern, names: set[str], predicates: _Predicates, routes: _Routes) -> PatternPlan:
    facts = facts_of(pattern)
    emitter = _Emitter(pattern, predicates)
    emitter.emit(pattern.body)
    leads = tuple((emitter.emit(lead.body), lead.duration) for lead in pattern.lead)
    steps = tuple(
        StepPlan(
            step.id,
            tuple((predicates.number(k.expr, step, pattern), k.needs) for k in step.choose),
            tuple(predicates.number(test, step, pattern) for test in step.must),
        )
        for step in pattern.steps
    )
    return PatternPlan(
        pattern=pattern,
        facts=facts,
        programs=emitter.finished(),
        leads=leads,
        steps=steps,
        guards=tuple(predicates.number(guard, None, pattern) for guard in pattern.guards),
        route=routes.number(tuple(path.parts for path in pattern.partition)),
        feeds_on=tuple(feeds(pattern, names)),
        retention=_retention(pattern, facts),
        timer_reasons=tuple(reason for reason in facts.known if reason != "event"),
        row_kinds=_row_kinds(pattern),
    )


def _retention(pattern: c.CorePattern, facts: Facts) -> Retention:
    quiet = pattern.suppress.duration if pattern.suppress is not None else 0
    assert isinstance(quiet, int)
    micros = None
    if facts.bound is not None:
        # Matches that suppress others are emitted in the order of their ends, so they wait for partial matches that
        # began before that end.
        suppression_wait = facts.bound if pattern.suppress is not None else 0
        micros = max(facts.bound + suppression_wait + facts.lookback, quiet)
    cap = OPEN_CAP if facts.retention == "unbounded" else None
    return Retention(facts.retention, None if facts.retention == "empty" else micros, facts.count_bound, cap)


def _row_kinds(pattern: c.CorePattern) -> tuple[RowKind, ...]:
    kinds: tuple[RowKind, ...] = ("match", "late", "bad", "ahead", "counter")
    return (*kinds, "timed out") if pattern.report_timeouts else kinds


def _columns(plans: tuple[PatternPlan, ...]) -> tuple[PlanColumn, ...]:
    uses: dict[str, tuple[set[str] | None, bool]] = {}
    for plan in plans:
        for step, facts in zip(plan.pattern.steps, plan.facts.steps, strict=True):
            kind = step.kind
            for name in facts.columns:
                types, retained = uses.get(name, (set(), False))
                if types is not None:
                    types = {*types, kind.name} if isinstance(kind, ast.EventType) else None
                uses[name] = (types, retained or name in facts.retained)
        for path in plan.pattern.partition:
            uses[path.parts[0]] = (None, True)
    return tuple(
        PlanColumn(name, None if types is None else tuple(sorted(types)), retained)
        for name, (types, retained) in sorted(uses.items())
    )


def _event_types(plans: tuple[PatternPlan, ...], names: set[str]) -> tuple[str, ...] | None:
    if not all(plan.facts.droppable for plan in plans):
        return None
    kinds = [step.kind for plan in plans for step in plan.pattern.steps]
    return tuple(sorted({k.name for k in kinds if isinstance(k, ast.EventType)} - names))


class _Emitter:
    """Emits the program of one pattern and the programs of its negated parts."""

    def __init__(self, pattern: c.CorePattern, predicates: _Predicates) -> None:
        self.pattern = pattern
        self.predicates = predicates
        self.programs: list[p.Program | None] = []

    def emit(self, body: c.Core) -> int:
        """Emit the program of an element, and return its number."""
        number = len(self.programs)
        self.programs.append(None)
        code = _Code(self)
        code.element(body)
        code.add(p.AcceptMatch())
        self.programs[number] = p.Program(tuple(code.code), code.registers)
        return number

    def finished(self) -> tuple[p.Program, ...]:
        return tuple(program for program in self.programs if program is not None)

    def guards(self, exprs: tuple[Expr, ...]) -> tuple[int, ...]:
        return tuple(self.predicates.number(expr, None, self.pattern) for expr in exprs)


class _Code:
    """One program under construction; jumps are patched when their targets are known."""

    def __init__(self, emitter: _Emitter) -> None:
        self.emitter = emitter
        self.code: list[p.Instruction] = []
        self.registers = 0

    def add(self, instruction: p.Instruction) -> int:
        self.code.append(instruction)
        return len(self.code) - 1

    def register(self) -> int:
        self.registers += 1
        return self.registers - 1

    def element(self, element: c.Core) -> None:
        match element:
            case c.Take():
                self.add(p.TakeEvent(element.step))
            case c.Seq():
                for i, item in enumerate(element.items):
                    # An absence takes no event: the hop that counts is the one behind it.
                    if i > 0 and not isinstance(item, c.Absent):
                        self.add(p.SetHop(element.hops[i - 1]))
                    self.element(item)
            case c.Alt():
                self._alternation(element)
            case c.Loop():
                self._loop(element)
            case c.All():
                self._all(element)
            case c.Absent():
                self.add(p.WatchFor(self.emitter.emit(element.body), element.duration))
            case c.Zone():
                self.add(p.ZoneEnter(element.within, element.holds_for))
                self.element(element.body)
                self.add(p.ZoneLeave())

    def _alternation(self, element: c.Alt) -> None:
        split = self.add(p.Split(()))
        starts, ends = [], []
        for branch in element.branches:
            starts.append(len(self.code))
            self.element(branch)
            ends.append(self.add(p.Jump(0)))
        self.code[split] = p.Split(tuple(starts))
        for end in ends:
            self.code[end] = p.Jump(len(self.code))

    def _loop(self, element: c.Loop) -> None:
        register = self.register()
        self.add(p.LoopEnter(register))
        turn = self.add(p.Jump(0))
        self.element(element.body)
        self.add(p.LoopBack(register, turn))
        self.code[turn] = p.LoopTurn(
            register,
            element.low,
            element.high,
            element.reluctant,
            element.hop,
            element.until,
            self.emitter.guards(element.guards),
            element.inside,
            turn + 1,
            len(self.code),
        )

    def _all(self, element: c.All) -> None:
        register = self.register()
        barred = tuple(self.emitter.emit(body) for body in element.barred)
        self.add(p.AllEnter(register, len(element.members), barred))
        turn = self.add(p.Jump(0))
        starts = []
        for i, member in enumerate(element.members):
            starts.append(len(self.code))
            self.element(member)
            self.add(p.AllBack(register, i, turn))
        self.code[turn] = p.AllTurn(
            register, element.hop, self.emitter.guards(element.guards), tuple(starts), len(self.code)
        )
