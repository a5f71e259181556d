"""Reference semantics of model repairs: try every sequence of steps on a copy, and evaluate all queries anew.

No constraint may have a match at any step. Of all fixes with the same resulting model the best is returned. It is slow
and written to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from perseid.lang import rules as r
from perseid.reference.models import evaluate_all
from perseid.semantics.graphs import Graph
from perseid.semantics.model_changes import applied
from perseid.semantics.model_queries import Match, Queries
from perseid.semantics.model_repair import Aims, Fact, Fix, RepairStep, changes_of_step, describe_step, facts
from perseid.semantics.model_values import ordered


def fixes_by_hand(queries: Queries, repairs: Iterable[r.Repair], graph: Graph, aims: Aims) -> list[Fix]:
    """Return all fixes, the best first."""
    world = World(queries, tuple(repairs), aims)
    best: dict[frozenset[Fact], Fix] = {}

    def walk(at: Graph, steps: tuple[RepairStep, ...], cost: Decimal) -> None:
        for step, after in world.steps(at):
            if not aims.allows(len(steps) + 1, cost + step.cost):
                continue
            hard, soft = world.judge(after)
            if hard == 0:
                fix = Fix((*steps, step), soft)
                known = best.setdefault(facts(after, after.nodes), fix)
                if fix.sort_key() < known.sort_key():
                    best[facts(after, after.nodes)] = fix
            else:
                walk(after, (*steps, step), cost + step.cost)

    if world.judge(graph)[0]:
        walk(graph, (), Decimal(0))
    return sorted(best.values(), key=Fix.rank)


def climbed_by_hand(queries: Queries, repairs: Iterable[r.Repair], graph: Graph, aims: Aims) -> list[Fix]:
    """Hill climbing: take the step with the fewest objective matches (soft ones break ties) while it improves."""
    world = World(queries, tuple(repairs), aims)
    steps: tuple[RepairStep, ...] = ()
    cost = Decimal(0)
    now = world.judge(graph)
    while now[0]:
        allowed = [(s, g) for s, g in world.steps(graph) if aims.allows(len(steps) + 1, cost + s.cost)]
        judged = [(world.judge(after), step.cost, step.description, step, after) for step, after in allowed]
        if not judged:
            return []
        then, _, _, step, graph = min(judged, key=lambda one: one[:3])
        if then >= now:
            return []
        now, steps, cost = then, (*steps, step), cost + step.cost
    return [Fix(steps, now[1])] if steps else []


@dataclass(frozen=True, slots=True)
class World:
    """Models and the steps between them."""

    queries: Queries
    repairs: tuple[r.Repair, ...]
    aims: Aims

    def steps(self, graph: Graph) -> Iterator[tuple[RepairStep, Graph]]:
        matches = self._matches(graph)
        for repair in self.repairs:
            for match in ordered(matches[repair.query]):
                changes = changes_of_step(repair, match, graph)
                after = copied(graph)
                done, refused = applied(after, changes)
                if refused or any(self._matches(after)[name] for name in self.aims.never):
                    continue
                yield RepairStep(repair.name, match, changes, repair.cost, describe_step(repair, match, done)), after

    def judge(self, graph: Graph) -> tuple[int, int]:
        """Return the number of matches of the hard and of the soft objectives."""
        matches = self._matches(graph)
        return sum(len(matches[n]) for n in self.aims.hard), sum(len(matches[n]) for n in self.aims.soft)

    def _matches(self, graph: Graph) -> dict[str, set[Match]]:
        return evaluate_all(self.queries, graph, lambda element, window: None)


def copied(graph: Graph) -> Graph:
    forth = {edge: {one: set(others) for one, others in ends.items()} for edge, ends in graph.forth.items()}
    back = {edge: {one: set(others) for one, others in ends.items()} for edge, ends in graph.back.items()}
    return Graph(graph.kinds, dict(graph.nodes), dict(graph.values), forth, back)
