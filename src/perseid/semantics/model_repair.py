"""Repairs of a model: what is to be reached, the steps and fixes that reach it, and models as sets of facts.

A step is a repair at one match of its query; it can be taken where every change it asks for fits. A fix is a sequence of
steps after which no objective has a match; it ends there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from perseid.lang import rules as r
from perseid.semantics import values as v
from perseid.semantics.graphs import Change, Done, Element, Graph
from perseid.semantics.model_queries import Match
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
