"""The automaton of a pattern as a graph: steps are states, and edges describe how one step follows another."""

from __future__ import annotations

from dataclasses import dataclass, field

from perseid.lang.ast import Contiguity
from perseid.lang.printer import print_duration, print_expr, print_window
from perseid.lang.tree_types import describe_kind
from perseid.semantics import core as c

START, MATCH = -1, -2


@dataclass(frozen=True, slots=True)
class Edge:
    """``source`` and ``target`` are step ids, or START or MATCH."""

    source: int
    target: int
    label: str


@dataclass(slots=True)
class DrawnGraph:
    steps: dict[int, str]
    edges: list[Edge] = field(default_factory=list)
    footer: str = ""


@dataclass(frozen=True, slots=True)
class _From:
    state: int
    hop: c.Hop | None = None
    notes: tuple[str, ...] = ()


def graph_of(pattern: c.CorePattern) -> DrawnGraph:
    walk = _Walk(pattern)
    seeds = [_From(START, None, tuple(f"no {name(pattern, lead.body)} for {print_duration(lead.duration)} before"
                                      for lead in pattern.lead))]  # fmt: skip
    for end in walk.element(pattern.body, seeds):
        walk.edge(end, MATCH, tuple(print_expr(guard) for guard in pattern.guards))
    shown = {s.id: step_label(s) for s in pattern.steps if not s.negated}
    return DrawnGraph(shown, walk.edges, footer_of(pattern))


def footer_of(pattern: c.CorePattern) -> str:
    parts = []
    if pattern.within is not None:
        parts.append(f"within {print_window(pattern.within)}")
    if pattern.holds_for is not None:
        parts.append(f"holds for {print_duration(pattern.holds_for)}")
    if pattern.partition:
        parts.append("per " + ", ".join(".".join(path.parts) for path in pattern.partition))
    if pattern.context is not None:
        parts.append(f"selection {pattern.context.value}")
    elif pattern.skip.mode != "none":
        parts.append(f"then skip {pattern.skip.mode}" + (f" {pattern.skip.step}" if pattern.skip.step else ""))
    return ", ".join(parts)


def step_label(step: c.CoreStep) -> str:
    kind = describe_kind(step.kind)
    text = kind if step.name is None else f"{step.name}: {kind}"
    return text + "".join(f" ({'.'.join(path.parts)} as {shared})" for path, shared in step.unify)


def name(pattern: c.CorePattern, body: c.Core) -> str:
    """Describe a negated element in a few words."""
    match body:
        case c.Take():
            step = pattern.steps[body.step]
            conditions = [print_expr(k.expr) for k in step.choose]
            return step_label(step) + (f" [{' and '.join(conditions)}]" if conditions else "")
        case c.Alt():
            return " or ".join(name(pattern, b) for b in body.branches)
        case c.Seq():
            return "(" + " then ".join(name(pattern, i) for i in body.items) + ")"
        case c.Loop():
            return f"{body.low} × {name(pattern, body.body)}"
        case c.All():
            return "(" + " and ".join(name(pattern, m) for m in body.members) + ")"
        case c.Absent():
            return f"no {name(pattern, body.body)}"
        case c.Zone():
            return name(pattern, body.body)


def rounds_text(loop: c.Loop) -> str:
    """Describe the number of iterations of a repetition."""
    match (loop.low, loop.high):
        case (0, 1):
            text = "at most once"
        case (low, None):
            text = f"{low} or more"
        case (low, high) if low == high:
            text = f"{low} times"
        case (low, high):
            text = f"{low} to {high} times"
    return text + (", reluctant" if loop.reluctant else "")


class _Walk:
    def __init__(self, pattern: c.CorePattern) -> None:
        self.pattern = pattern
        self.edges: list[Edge] = []

    def edge(self, source: _From, target: int, extra: tuple[str, ...] = ()) -> None:
        notes = [*source.notes, *extra]
        hop = source.hop
        if hop is not None and target != MATCH:
            arrow = {Contiguity.NEXT: "next", Contiguity.SKIP: "then", Contiguity.ANY: "any later"}[hop.contiguity]
            after = "" if hop.after is None else f" after {print_duration(hop.after)}"
            within = "" if hop.within is None else f" within {print_duration(hop.within)}"
            notes.insert(0, arrow + after + within)
        new = Edge(source.state, target, "\n".join(notes))
        if new not in self.edges:
            self.edges.append(new)

    def element(self, element: c.Core, sources: list[_From]) -> list[_From]:
        """Add the edges into and inside the element; return the states that can be last in it."""
        match element:
            case c.Take():
                step = self.pattern.steps[element.step]
                conditions = [f"[{print_expr(k.expr)}]" for k in step.choose]
                tests = [f"must {print_expr(test)}" for test in step.must]
                for source in sources:
                    self.edge(source, step.id, (*conditions, *tests))
                return [_From(step.id)]
            case c.Seq():
                for i, item in enumerate(element.items):
                    if i > 0 and not isinstance(item, c.Absent):
                        sources = [_From(s.state, element.hops[i - 1], s.notes) for s in sources]
                    sources = self.element(item, sources)
                return sources
            case c.Alt():
                return [end for branch in element.branches for end in self.element(branch, sources)]
            case c.All():
                return self._all(element, sources)
            case c.Loop():
                return self._loop(element, sources)
            case c.Absent():
                duration = "" if element.duration is None else f" for {print_duration(element.duration)}"
                note = f"no {name(self.pattern, element.body)}{duration}"
                return [_From(s.state, s.hop, (*s.notes, note)) for s in sources]
            case c.Zone():
                ends = self.element(element.body, sources)
                bounds = [] if element.within is None else [f"within {print_window(element.within)}"]
                bounds += [] if element.holds_for is None else [f"holds for {print_duration(element.holds_for)}"]
                return [_From(s.state, s.hop, (*s.notes, f"group {' '.join(bounds)}")) for s in ends]

    def _all(self, element: c.All, sources: list[_From]) -> list[_From]:
        notes = tuple(f"no {name(self.pattern, b)} until all have matched" for b in element.barred)
        seeds = [_From(s.state, s.hop, (*s.notes, *notes)) for s in sources]
        ends = [self.element(member, seeds) for member in element.members]
        for i, ends_of_member in enumerate(ends):
            others = [m for j, m in enumerate(element.members) if j != i]
            for other in others:
                self.element(
                    other, [_From(e.state, element.hop, ("the others, in any order",)) for e in ends_of_member]
                )
        guards = tuple(print_expr(guard) for guard in element.guards)
        return [_From(e.state, None, ("all have matched", *guards)) for ends_of_member in ends for e in ends_of_member]

    def _loop(self, element: c.Loop, sources: list[_From]) -> list[_From]:
        ends = self.element(element.body, sources)
        if element.high != 1:
            notes = [f"again ({rounds_text(element)})"]
            if element.until is not None:
                notes.append(f"until {step_label(self.pattern.steps[element.until])}")
            self.element(element.body, [_From(e.state, element.hop, (*e.notes, *notes)) for e in ends])
        guards = tuple(f"if {print_expr(guard)}" for guard in element.guards)
        out = [_From(e.state, e.hop, (*e.notes, *guards)) for e in ends]
        return [*out, *sources] if element.low == 0 else out
