"""Classifies single events: steps of the pattern that fit, tests that pass, and columns for later conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perseid.engines.uncertain.pattern_nfa import EVENT_PRESENT, Symbol, chooses, passes, refers_back
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.semantics import core as c
from perseid.semantics import values as v
from perseid.semantics.events import Event, is_of_kind
from perseid.semantics.facts import event_local
from perseid.semantics.names import references
from perseid.semantics.scope import Bindings, MatchScope, holds
from perseid.semantics.values import Relation


def condition_columns(pattern: c.CorePattern) -> frozenset[str]:
    """Columns that conditions read, with or without the name of a step."""
    found: set[str] = set()
    for step in pattern.steps:
        for expr in (*(k.expr for k in step.choose), *step.must):
            found.update(_columns(expr, pattern))
        found.update(path.parts[0] for path, _ in step.unify)
    return frozenset(found)


def _columns(expr: ex.Expr, pattern: c.CorePattern) -> Iterator[str]:
    names = {step.name for step in pattern.steps if step.name is not None}
    for ref in references(expr).plain:
        head = ref.parts[0]
        if head in names:
            yield from ref.parts[1:2]
        elif head not in pattern.unified:
            yield head


@dataclass(frozen=True)
class Test:
    """A condition that depends on one event only, and the columns it reads."""

    columns: tuple[str, ...]
    expr: ex.Expr | None = None
    step: str | None = None
    """Name of its step."""
    timed: bool = False
    only_null: bool = False
    """True if it depends only on the column being null."""


@dataclass(frozen=True)
class Tested:
    """A step with its event-local conditions."""

    id: int
    kind: ast.StepKind
    choose: tuple[Test, ...]
    must: tuple[Test, ...]


class Symbols:
    """Evaluates the event-local conditions of one pattern."""

    def __init__(self, pattern: c.CorePattern, relations: Mapping[str, Relation]) -> None:
        self.relations = relations
        self.columns = sorted(condition_columns(pattern))
        self.looks_back = refers_back(pattern)
        self._names = frozenset(step.name for step in pattern.steps if step.name is not None)
        self._steps = [
            Tested(
                step.id,
                step.kind,
                tuple(_test(k.expr, step, pattern) for k in step.choose if event_local(k.expr, step, pattern)),
                tuple(_test(test, step, pattern) for test in step.must if event_local(test, step, pattern)),
            )
            for step in pattern.steps
        ]

    def steps(self, type_: str | None) -> Iterator[Tested]:
        """Steps that take events of a type."""
        event = Event(type_, 0, {}, "")
        return (step for step in self._steps if is_of_kind(event, step.kind))

    def holds(self, test: Test, event: Event) -> bool:
        """Return True if a condition holds for an event."""
        assert test.expr is not None
        own = {} if test.step is None else {test.step: event}
        return holds(test.expr, MatchScope(self._names, Bindings({}, own, {}), event, self.relations))

    def read_columns(self, event: Event) -> tuple[tuple[str, object], ...]:
        """Columns of an event that conditions of other steps may read."""
        if not self.looks_back:
            return ()
        return tuple((name, v.plain(event.attributes[name])) for name in self.columns if name in event.attributes)

    def of(self, event: Event) -> Symbol:
        """Symbol of an event."""
        bits = EVENT_PRESENT
        for step in self.steps(event.type):
            if all(self.holds(test, event) for test in step.choose):
                bits |= chooses(step.id)
                if all(self.holds(test, event) for test in step.must):
                    bits |= passes(step.id)
        return bits, self.read_columns(event)


def _test(expr: ex.Expr, step: c.CoreStep, pattern: c.CorePattern) -> Test:
    timed = any(isinstance(part, ex.Call) and part.name == "time" for part in ex.walk(expr))
    only_null = False
    if isinstance(expr, ex.Is) and expr.what == "null" and isinstance(expr.value, ex.Ref):
        parts = expr.value.parts
        only_null = len(parts[1:] if parts[0] == step.name else parts) == 1
    return Test(tuple(sorted(set(_columns(expr, pattern)))), expr, step.name, timed, only_null)
