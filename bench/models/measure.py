"""Timing one model: its load, each of its updates, and the same questions asked anew."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from bench.models.by_hand import BY_HAND
from perseid.engines.models.live import LiveModel
from perseid.engines.models.network import Network
from perseid.semantics.graphs import AppliedChange, Change, Graph
from perseid.semantics.model_queries import Match, Queries

ANEW = 5
"""How often the questions are asked anew."""


class WrongAnswerError(Exception):
    """Two ways to answer a question do not agree: no time of either counts."""


@dataclass
class Point:
    """What was measured of one question at one size; times in seconds."""

    case: str
    query: str
    size: int
    elements: int = 0
    load: list[float] = field(default_factory=list)
    updates: dict[str, list[float]] = field(default_factory=dict)
    fresh: list[float] = field(default_factory=list)
    by_hand: list[float] = field(default_factory=list)

    def update(self, kind: str) -> float | None:
        seconds = self.updates.get(kind)
        return statistics.median(seconds) if seconds else None

    def against_fresh(self, kind: str) -> float | None:
        """How many times as long the same query takes anew, by a fresh network over the graph as it stands."""
        update = self.update(kind)
        return None if update is None else statistics.median(self.fresh) / update

    def against_hand(self, kind: str) -> float | None:
        """How many times as long a program takes that was written for this one question."""
        update = self.update(kind)
        return None if update is None else statistics.median(self.by_hand) / update


class Watch:
    """A live model that notes what its transactions take."""

    def __init__(self, point: Point, queries: Queries, names: Iterable[str], initial: list[Change]) -> None:
        self.point = point
        self.names = tuple(names)
        self.model = LiveModel(queries, self.names)
        self.time = 0
        gc.collect()
        point.load.append(self._transact(initial))
        point.elements = len(self.model.graph.nodes)

    def update(self, kind: str, changes: list[Change]) -> None:
        self.point.updates.setdefault(kind, []).append(self._transact(changes))

    def _transact(self, changes: list[Change]) -> float:
        begin = time.perf_counter()
        told = self.model.transact(self.time, changes)
        taken = time.perf_counter() - begin
        self.time += 1
        if told.refused:
            raise WrongAnswerError(f"refused: {told.refused[0]}")
        return taken

    def anew(self) -> None:
        """The same questions from scratch, over the graph as it stands; they must have the same answers."""
        graph = self.model.graph
        for _ in range(ANEW):
            begin = time.perf_counter()
            found = {name: BY_HAND[name](graph) for name in self.names}
            self.point.by_hand.append(time.perf_counter() - begin)
        self._compare(found)
        gc.collect()
        begin = time.perf_counter()
        fresh = Network(self.model.queries)
        deltas = fresh.propagate(self.time, list(_as_done(graph)))
        self.point.fresh.append(time.perf_counter() - begin)
        self._compare({name: set(deltas.get(fresh.outputs[name], ())) for name in self.names})

    def _compare(self, found: dict[str, set[Match]]) -> None:
        for name, matches in found.items():
            if matches != self.model.matches[name].standing:
                raise WrongAnswerError(f"{self.point.case}, {name}, size {self.point.size}: other matches from scratch")


def _as_done(graph: Graph) -> Iterator[AppliedChange]:
    """Everything that is there, as if it had just come."""
    for element, kind in graph.nodes.items():
        yield AppliedChange("create", element, kind)
    for (element, attribute), value in graph.values.items():
        yield AppliedChange("set", element, graph.nodes[element], attribute, None, value)
    for edge in graph.forth:
        for source, target in graph.edges(edge):
            yield AppliedChange("link", source, edge, target=target)


def table(points: list[Point], columns: list[tuple[str, Callable[[Point], str]]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield "| " + " | ".join(name for name, _ in columns) + " |"
    yield "|" + "---|" * len(columns)
    for point in points:
        yield "| " + " | ".join(show(point) for _, show in columns) + " |"
