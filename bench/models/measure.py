"""Times of one model: its load, each of its updates, and evaluation of the same queries from scratch."""

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

SCRATCH_REPETITIONS = 5
"""Repetitions of the evaluation from scratch."""


class ResultMismatchError(Exception):
    """Two evaluations of a query differ: no time of either counts."""


@dataclass
class ModelPoint:
    """Measurements of one query at one size; times in seconds."""

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
        """Time of the same query from scratch, by a fresh network over the current graph, as a multiple of an
        update's."""
        update = self.update(kind)
        return None if update is None else statistics.median(self.fresh) / update

    def against_hand(self, kind: str) -> float | None:
        """Time of a program written for this query, as a multiple of an update's."""
        update = self.update(kind)
        return None if update is None else statistics.median(self.by_hand) / update


class TimedModel:
    """A live model that records the times of its transactions."""

    def __init__(self, point: ModelPoint, queries: Queries, names: Iterable[str], initial: list[Change]) -> None:
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
        outcome = self.model.transact(self.time, changes)
        taken = time.perf_counter() - begin
        self.time += 1
        if outcome.refused:
            raise ResultMismatchError(f"refused: {outcome.refused[0]}")
        return taken

    def evaluate_from_scratch(self) -> None:
        """Evaluate the same queries from scratch, over the current graph; their matches must be equal."""
        graph = self.model.graph
        for _ in range(SCRATCH_REPETITIONS):
            begin = time.perf_counter()
            found = {name: BY_HAND[name](graph) for name in self.names}
            self.point.by_hand.append(time.perf_counter() - begin)
        self._compare(found)
        gc.collect()
        begin = time.perf_counter()
        fresh = Network(self.model.queries)
        deltas = fresh.propagate(self.time, list(_as_changes(graph)))
        self.point.fresh.append(time.perf_counter() - begin)
        self._compare({name: set(deltas.get(fresh.outputs[name], ())) for name in self.names})

    def _compare(self, found: dict[str, set[Match]]) -> None:
        for name, matches in found.items():
            if matches != self.model.matches[name].standing:
                raise ResultMismatchError(
                    f"{self.point.case}, {name}, size {self.point.size}: other matches from scratch"
                )


def _as_changes(graph: Graph) -> Iterator[AppliedChange]:
    """The content of the graph as changes that create it."""
    for element, kind in graph.nodes.items():
        yield AppliedChange("create", element, kind)
    for (element, attribute), value in graph.values.items():
        yield AppliedChange("set", element, graph.nodes[element], attribute, None, value)
    for edge in graph.forth:
        for source, target in graph.edges(edge):
            yield AppliedChange("link", source, edge, target=target)


def table(points: list[ModelPoint], columns: list[tuple[str, Callable[[ModelPoint], str]]]) -> Iterator[str]:
    """Format the lines of a Markdown table."""
    yield "| " + " | ".join(name for name, _ in columns) + " |"
    yield "|" + "---|" * len(columns)
    for point in points:
        yield "| " + " | ".join(show(point) for _, show in columns) + " |"
