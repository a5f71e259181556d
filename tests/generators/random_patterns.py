"""Random valid patterns, and random streams for them.

The generator takes every decision from a *chooser*, so the same code serves hypothesis (which shrinks failures) and
seeded random numbers (which are faster, for very long runs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Protocol, TypeVar

from hypothesis import assume
from hypothesis import strategies as st

from perseid.errors import PatternError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.semantics.core import CorePattern
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve

T = TypeVar("T")
SECOND = 1_000_000
TYPES = ("A", "B", "C")
_COMPARISONS: tuple[ex.BinaryOp, ...] = (">", "<=", "=", "<>")


class Chooser(Protocol):
    def pick(self, options: Sequence[T]) -> T: ...
    def number(self, low: int, high: int) -> int: ...
    def chance(self, percent: int) -> bool: ...


class SeededChooser:
    """Decisions from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        return options[self._random.randrange(len(options))]

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent


class _DrawnChooser:
    """Decisions from hypothesis; the first option of a list and the smallest number are the simplest."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def pick(self, options: Sequence[T]) -> T:
        chosen: T = self._draw(st.sampled_from(list(options)))
        return chosen

    def number(self, low: int, high: int) -> int:
        drawn: int = self._draw(st.integers(low, high))
        return drawn

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent


class _PatternMaker:
    def __init__(self, chooser: Chooser, selection: ast.Selection | None) -> None:
        self.ch = chooser
        self.selection = selection
        self.names: list[str] = []
        self.counter = 0

    # elements

    def step(self, *, named: bool = True) -> ast.Step:
        ch = self.ch
        kind: ast.StepKind = ast.AnyEvent() if ch.chance(4) else ast.EventType(ch.pick(TYPES))
        name = None
        if named:
            name = "abcdefghijklmnop"[self.counter % 16] + ("" if self.counter < 16 else str(self.counter))
            self.counter += 1
        unify = (ast.Unify(ex.Ref(("k",)), "u"),) if ch.chance(8) else ()
        condition = self.condition(name) if ch.chance(35) else None
        must = self.condition(name) if named and ch.chance(5) else None
        if name is not None:
            self.names.append(name)
        return ast.Step(kind, name, unify, condition, must)

    def condition(self, own: str | None) -> ex.Expr:
        ch = self.ch
        value = ex.Ref(("v",))
        op: ex.BinaryOp = ch.pick(_COMPARISONS)
        roll = ch.number(0, 9)
        if roll < 5 or not self.names:
            return ex.Binary(op, value, ex.Literal("integer", ch.number(0, 3)))
        other = ch.pick(self.names)
        if roll < 8:
            return ex.Binary(op, value, ex.Ref((other, "v")))
        if roll == 8 and own is not None:
            return ex.Binary("<=", ex.Call("sum", (ex.Ref((own, "v")),)), ex.Literal("integer", ch.number(1, 6)))
        return ex.Binary(op, value, ex.Call(ch.pick(("max", "count", "first")), (ex.Ref((other, "v")),)))

    def element(self, depth: int) -> ast.Element:
        ch = self.ch
        roll = ch.number(0, 99) if depth > 0 else 0
        if roll < 2:
            step = replace(self.step(), must=None)
            return ast.Stays(replace(step, condition=step.condition or self.condition(None)), ch.number(1, 3) * SECOND)
        if roll < 35:
            return self.step()
        if roll < 60:
            return self.sequence(depth - 1)
        if roll < 68:
            return ast.Alternation(tuple(self.element(depth - 1) for _ in range(2)))
        if roll < 75:
            members: list[ast.Element] = [self.element(depth - 1) for _ in range(2)]
            if ch.chance(15):
                members.append(ast.Absence(self.step(named=False)))
            return ast.Conjunction(tuple(members))
        if roll < 93:
            return self.repeat(depth - 1)
        window = self.window() if ch.chance(80) else None
        holds = ch.number(1, 3) * SECOND if window is None or ch.chance(20) else None
        return ast.Group(self.element(depth - 1), window, holds)

    def repeat(self, depth: int) -> ast.Element:
        ch = self.ch
        low, high = ch.pick(((1, None), (0, None), (0, 1), (2, None), (2, 2), (1, 2), (1, 3), (0, 2), (1, 1)))
        until = None
        if ch.chance(12):
            until = ast.Step(ast.EventType(ch.pick(TYPES)), condition=self.condition(None) if ch.chance(30) else None)
        contiguity = None
        if self.selection is None and ch.chance(25):
            contiguity = ch.pick((ast.Contiguity.NEXT, ast.Contiguity.SKIP, ast.Contiguity.ANY))
        return ast.Repeat(self.element(depth), low, high, ch.chance(30), contiguity, until)

    def link(self) -> ast.Link:
        ch = self.ch
        if self.selection is not None:
            contiguity = ast.Contiguity.SKIP
        else:
            skip, any_, next_ = ast.Contiguity.SKIP, ast.Contiguity.ANY, ast.Contiguity.NEXT
            contiguity = ch.pick((skip, skip, skip, next_, next_, any_))
        after = ch.number(1, 2) * SECOND if ch.chance(5) else None
        within = ch.number(2, 5) * SECOND if ch.chance(8) else None
        return ast.Link(contiguity, after, within)

    def negated(self) -> ast.Absence:
        ch = self.ch
        roll = ch.number(0, 9)
        inner: ast.Element
        if roll < 7:
            inner = self.step(named=False)
        elif roll == 7:
            inner = ast.Alternation((self.step(named=False), self.step(named=False)))
        elif roll == 8:
            inner = ast.Repeat(self.step(named=False), 2, 2)
        else:
            inner = ast.Sequence((self.step(named=False), self.step(named=False)), (ast.Link(),))
        duration = ch.number(1, 4) * SECOND if ch.chance(40) else None
        return ast.Absence(inner, duration)

    def sequence(self, depth: int) -> ast.Element:
        ch = self.ch
        elements: list[ast.Element] = []
        links: list[ast.Link] = []
        for i in range(ch.number(2, 3)):
            if i > 0:
                links.append(self.link())
                if ch.chance(18):
                    elements.append(self.negated())
                    links[-1] = ast.Link()
                    links.append(self.link())
            elements.append(self.element(depth))
        if ch.chance(10):
            elements.append(self.negated())
            links.append(ast.Link())
        return ast.Sequence(tuple(elements), tuple(links))

    def window(self) -> ast.Window:
        ch = self.ch
        if ch.chance(20):
            return ast.CountWindow(ch.number(1, 6))
        return ast.TimeWindow(ch.number(1, 8) * SECOND)

    # clauses

    def pattern(self) -> ast.PatternDefinition:
        ch = self.ch
        match = self.sequence(2) if ch.chance(80) else self.element(3)
        if ch.chance(6):
            lead = ast.Absence(self.negated().element, ch.number(1, 4) * SECOND)
            match = ast.Sequence((lead, match), (ast.Link(),))
        where = None
        if self.names and ch.chance(25):
            where = self.where()
        within: ast.Window = self.window() if ch.chance(85) else ast.Forever()
        skip = None
        if self.selection is None and ch.chance(45):
            mode: ast.SkipMode = ch.pick(("past last", "to next", "to first", "to last", "none"))
            skip = ast.Skip(mode, ch.pick(self.names) if mode in ("to first", "to last") and self.names else None)
            if mode in ("to first", "to last") and not self.names:
                skip = ast.Skip("past last")
        return ast.PatternDefinition(
            "p",
            match,
            where=where,
            within=within,
            holds_for=ch.number(1, 3) * SECOND if ch.chance(6) else None,
            partition_by=(ex.Ref(("k",)),) if ch.chance(30) else (),
            selection=self.selection,
            skip=skip,
            report_timeouts=ch.chance(25),
            returns=self.returns(),
            evidence=ast.Evidence(2) if ch.chance(5) else None,
            suppress=ast.Suppress(ch.number(1, 4) * SECOND) if ch.chance(8) else None,
        )

    def where(self) -> ex.Expr:
        ch = self.ch
        if ch.chance(15):
            return ex.Binary(ch.pick(_COMPARISONS), ex.Ref(("u",)), ex.Literal("integer", ch.number(0, 1)))
        first, second = ch.pick(self.names), ch.pick(self.names)
        if ch.chance(50):
            return ex.Binary(ch.pick(_COMPARISONS), ex.Ref((first, "v")), ex.Ref((second, "v")))
        function, comparison, limit = ch.pick(("sum", "count")), ch.pick(_COMPARISONS[:2]), ch.number(0, 4)
        if function == "sum" and limit > 2:  # without another draw, so that all other choices of a seed stay the same
            function = "median"
        return ex.Binary(comparison, ex.Call(function, (ex.Ref((first, "v")),)), ex.Literal("integer", limit))

    def returns(self) -> tuple[ast.Output, ...]:
        if not self.names or not self.ch.chance(20):
            return ()
        return (ast.Output(ex.Ref((self.ch.pick(self.names), "v")), "x"),)


def make_pattern(chooser: Chooser) -> CorePattern | None:
    """Returns a random pattern, or None if the drawn pattern is invalid."""
    selection = None
    if chooser.chance(30):
        selection = chooser.pick(list(ast.Selection))
    pattern = _PatternMaker(chooser, selection).pattern()
    if selection is not None and selection.is_context and isinstance(pattern.within, ast.CountWindow):
        pattern = replace(pattern, within=ast.TimeWindow(6 * SECOND))
    try:
        return resolve(pattern)
    except PatternError:
        return None


def make_events(chooser: Chooser, longest: int = 9) -> list[Event]:
    """A random stream: few types, few values, nulls, equal times, gaps."""
    events = []
    time = 0
    for i in range(chooser.number(0, longest)):
        time += chooser.pick((1, 1, 0, 1, 2, 3)) * SECOND
        kind = chooser.pick((*TYPES, *TYPES, "X"))
        value = None if chooser.chance(8) else chooser.number(0, 3)
        events.append(Event(kind, time, {"v": value, "k": chooser.number(0, 1)}, f"e{i}", 0, (0, i)))
    return events


@st.composite
def core_patterns(draw: st.DrawFn) -> CorePattern:
    """Random patterns with a meaning, for hypothesis."""
    pattern = make_pattern(_DrawnChooser(draw))
    assume(pattern is not None)
    assert pattern is not None
    return pattern


@st.composite
def event_streams(draw: st.DrawFn, longest: int = 9) -> list[Event]:
    """Random streams, for hypothesis."""
    return make_events(_DrawnChooser(draw), longest)


def make_pair(seed: int, longest: int = 9) -> tuple[CorePattern, list[Event]]:
    """A pattern and a stream from a seed; the same seed gives the same pair."""
    chooser = SeededChooser(seed)
    while True:
        pattern = make_pattern(chooser)
        if pattern is not None:
            return pattern, make_events(chooser, longest)
