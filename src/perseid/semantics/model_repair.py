"""Model repairs: objectives, the steps and fixes that reach them, and models as sets of facts.

A step is a repair at one match of its query; it is applicable if every change of it is valid. A fix is a sequence of
steps that ends as soon as no objective has a match.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from perseid.lang import rules as r
from perseid.semantics import values as v
from perseid.semantics.graphs import AppliedChange, Change, Element, Graph
from perseid.semantics.model_queries import Match
from perseid.semantics.model_rules import effects_of

Fact: TypeAlias = "tuple[object, ...]"


@dataclass(frozen=True, slots=True)
class Aims:
    """Objectives of a repair search: queries by name, and the limits of the search."""

    hard: tuple[str, ...]
    """Must have no match at the end."""
    soft: tuple[str, ...] = ()
    """Should have as few matches as possible at the end."""
    never: tuple[str, ...] = ()
    """Must have no match after any step."""
    depth: int = 5
    cost: Decimal | None = None

    def allows(self, steps: int, cost: Decimal) -> bool:
        return steps <= self.depth and (self.cost is None or cost <= self.cost)


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One repair at one match: its changes, its cost, and a description."""

    repair: str
    match: Match
    changes: tuple[Change, ...]
    cost: Decimal
    description: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Steps that lead to a model without matches of the objectives."""

    steps: tuple[RepairStep, ...]
    soft: int

    @property
    def cost(self) -> Decimal:
        return sum((step.cost for step in self.steps), Decimal(0))

    @property
    def changes(self) -> list[Change]:
        """Return all changes of the fix, in order."""
        return [change for step in self.steps for change in step.changes]

    def sort_key(self) -> tuple[object, ...]:
        """Return the sort key among fixes that lead to the same model."""
        return self.cost, len(self.steps), tuple(step.description for step in self.steps)

    def rank(self) -> tuple[object, ...]:
        return self.cost, self.soft, len(self.steps), tuple(step.description for step in self.steps)


# steps


def changes_of_step(repair: r.Repair, match: Match, graph: Graph) -> tuple[Change, ...]:
    """Return the changes of a step, evaluated on the current model."""
    names = {name: value for name, value in zip(repair.arguments, match, strict=True) if name != "_"}
    effects = effects_of(r.ActionBlock(repair.actions), repair.name, names, graph)
    return tuple(request.change for request in effects.requests)


def describe_step(repair: r.Repair, match: Match, done: Iterable[AppliedChange]) -> str:
    """Describe a step."""
    return f"{repair.name}({', '.join(map(_text, match))}): {', '.join(map(_done, done))}"


def _done(one: AppliedChange) -> str:
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
    """Return all facts about these nodes: their types, their values, and the edges at them."""
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
