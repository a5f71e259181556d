"""What a repair of a model is: every sequence of steps tried, on a copy of the model, with all queries asked anew.

A step is a repair at one match of its query; it can be taken where every change it asks for fits. A fix is a sequence of
steps after which no objective has a match; it ends there. On the way no constraint may have a match. Of all ways to
one and the same model the best is told. Slow and meant to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from perseid.lang import rules as r
from perseid.semantics import values as v
from perseid.semantics.graphs import Change, Done, Element, Graph
from perseid.semantics.model_oracle import applied, evaluate_all, ordered
from perseid.semantics.model_queries import Match, Queries
from perseid.semantics.model_rules import effects_of

Fact: TypeAlias = "tuple[object, ...]"


@dataclass(frozen=True, slots=True)
class Aims:
    """What is to be reached: queries by name, and how far to go for it."""

    hard: tuple[str, ...]
    """Must have no match in the end."""
    soft: tuple[str, ...] = ()
    """The fewer matches these have in the end, the better."""
    never: tuple[str, ...] = ()
    """May have no match after any step."""
    depth: int = 5
    cost: Decimal | None = None

    def allows(self, steps: int, cost: Decimal) -> bool:
        return steps <= self.depth and (self.cost is None or cost <= self.cost)


@dataclass(frozen=True, slots=True)
class Step:
    """One repair at one match: what it asks for, what it costs, and what it comes to in words."""

    repair: str
    match: Match
    changes: tuple[Change, ...]
    cost: Decimal
    said: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Steps that lead to a model in which no objective has a match."""

    steps: tuple[Step, ...]
    soft: int

    @property
    def cost(self) -> Decimal:
        return sum((step.cost for step in self.steps), Decimal(0))

    @property
    def changes(self) -> list[Change]:
        """All changes that it takes, in order."""
        return [change for step in self.steps for change in step.changes]

    def way(self) -> tuple[object, ...]:
        """What decides between two ways to the same model."""
        return self.cost, len(self.steps), tuple(step.said for step in self.steps)

    def rank(self) -> tuple[object, ...]:
        return self.cost, self.soft, len(self.steps), tuple(step.said for step in self.steps)


def fixes_by_hand(queries: Queries, repairs: Iterable[r.Repair], graph: Graph, aims: Aims) -> list[Fix]:
    """All fixes, the best first."""
    world = World(queries, tuple(repairs), aims)
    best: dict[frozenset[Fact], Fix] = {}

    def walk(at: Graph, steps: tuple[Step, ...], cost: Decimal) -> None:
        for step, after in world.steps(at):
            if not aims.allows(len(steps) + 1, cost + step.cost):
                continue
            hard, soft = world.judge(after)
            if hard == 0:
                fix = Fix((*steps, step), soft)
                there = best.setdefault(facts(after, after.nodes), fix)
                if fix.way() < there.way():
                    best[facts(after, after.nodes)] = fix
            else:
                walk(after, (*steps, step), cost + step.cost)

    if world.judge(graph)[0]:
        walk(graph, (), Decimal(0))
    return sorted(best.values(), key=Fix.rank)


def climbed_by_hand(queries: Queries, repairs: Iterable[r.Repair], graph: Graph, aims: Aims) -> list[Fix]:
    """Always the step after which objectives have the fewest matches, soft ones decide next; while it is better than before."""
    world = World(queries, tuple(repairs), aims)
    steps: tuple[Step, ...] = ()
    cost = Decimal(0)
    now = world.judge(graph)
    while now[0]:
        allowed = [(s, g) for s, g in world.steps(graph) if aims.allows(len(steps) + 1, cost + s.cost)]
        judged = [(world.judge(after), step.cost, step.said, step, after) for step, after in allowed]
        if not judged:
            return []
        then, _, _, step, graph = min(judged, key=lambda one: one[:3])
        if then >= now:
            return []
        now, steps, cost = then, (*steps, step), cost + step.cost
    return [Fix(steps, now[1])] if steps else []


@dataclass(frozen=True, slots=True)
class World:
    """Models and the steps that lead from one to another."""

    queries: Queries
    repairs: tuple[r.Repair, ...]
    aims: Aims

    def steps(self, graph: Graph) -> Iterator[tuple[Step, Graph]]:
        matches = self._matches(graph)
        for repair in self.repairs:
            for match in ordered(matches[repair.query]):
                changes = asked_by(repair, match, graph)
                after = copied(graph)
                done, refused = applied(after, changes)
                if refused or any(self._matches(after)[name] for name in self.aims.never):
                    continue
                yield Step(repair.name, match, changes, repair.cost, said(repair, match, done)), after

    def judge(self, graph: Graph) -> tuple[int, int]:
        """How many matches objectives have, those that must have none and the soft ones."""
        matches = self._matches(graph)
        return sum(len(matches[n]) for n in self.aims.hard), sum(len(matches[n]) for n in self.aims.soft)

    def _matches(self, graph: Graph) -> dict[str, set[Match]]:
        return evaluate_all(self.queries, graph, lambda element, window: None)


# steps


def asked_by(repair: r.Repair, match: Match, graph: Graph) -> tuple[Change, ...]:
    """The changes of a step, with the values that the model has now."""
    names = {name: value for name, value in zip(repair.arguments, match, strict=True) if name != "_"}
    effects = effects_of(r.Block(repair.actions), repair.name, names, graph)
    return tuple(asked.change for asked in effects.asked)


def said(repair: r.Repair, match: Match, done: Iterable[Done]) -> str:
    """A step in words."""
    return f"{repair.name}({', '.join(map(_text, match))}): {', '.join(map(_done, done))}"


def _done(one: Done) -> str:
    match one.action:
        case "set":
            return f"set {one.attribute} of {one.element} from {_text(one.old)} to {_text(one.new)}"
        case "create" | "delete":
            return f"{one.action} the {one.kind} {one.element}"
    return f"{one.action} {one.element} -{one.kind}-> {one.target}"


def _text(value: object) -> str:
    text = v.text(value)
    return "null" if text is None else text


# models as sets of facts


def facts(graph: Graph, elements: Iterable[Element]) -> frozenset[Fact]:
    """Everything that is so of these nodes: what they are, their values, the edges at them."""
    found: set[Fact] = set()
    for element in elements:
        kind = graph.nodes.get(element)
        if kind is None:
            continue
        found.add(("node", element, kind))
        for attribute in graph.kinds.attributes(kind):
            value = graph.value(element, attribute)
            if value is not None:
                found.add(("value", element, attribute, value))
        for edge, ends in graph.forth.items():
            found.update(("edge", element, edge, target) for target in ends.get(element, ()))
            found.update(("edge", source, edge, element) for source in graph.back[edge].get(element, ()))
    return frozenset(found)


def copied(graph: Graph) -> Graph:
    forth = {edge: {one: set(others) for one, others in ends.items()} for edge, ends in graph.forth.items()}
    back = {edge: {one: set(others) for one, others in ends.items()} for edge, ends in graph.back.items()}
    return Graph(graph.kinds, dict(graph.nodes), dict(graph.values), forth, back)
