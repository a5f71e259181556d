"""Changes of a railway: for each of the six queries one way to inject an error, and one to repair a match of it.

Each is one transaction. An injection does not always create a match (a further segment is only wrong if there are
five), and the repair of one match may remove others too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from bench.models.railway import next_position
from perseid.semantics.graphs import Change, Graph
from perseid.semantics.model_queries import Match

TRIES = 1000


class NoErrorSiteError(Exception):
    """Random choice found nothing to break in this way: a small model has few routes."""


class RailwayEditor:
    """Chooses changes of the current graph with a random number generator."""

    def __init__(self, graph: Graph, seed: int = 1) -> None:
        self.graph = graph
        self.rng = random.Random(seed)
        self.by_kind: dict[str, list[Any]] = {}
        for element, kind in graph.nodes.items():
            self.by_kind.setdefault(kind, []).append(element)
        self.last = max(int(element) for element in graph.nodes)

    def inject(self, query: str) -> list[Change]:
        return list(_INJECT[query](self))

    def repair(self, query: str, match: Match) -> list[Change]:
        return list(_REPAIR[query](self, *match))

    def _some(self, kind: str, fits: Callable[[Any], object] = lambda element: True) -> Any:
        """A random existing element of a type that fits."""
        for _ in range(TRIES):
            element = self.rng.choice(self.by_kind[kind])
            if element in self.graph.nodes and fits(element):
                return element
        raise NoErrorSiteError(f"{TRIES} times a {kind} was drawn, and none of them fits")

    def _new(self, kind: str) -> int:
        self.last += 1
        self.by_kind[kind].append(self.last)
        return self.last

    def _ends(self, edge: str, element: Any) -> list[Any]:
        return sorted(self.graph.forth.get(edge, {}).get(element, ()))

    # errors

    def _no_length(self) -> Iterator[Change]:
        yield Change("set", self._some("Segment"), attribute="length", value=0)

    def _not_monitored(self) -> Iterator[Change]:
        switch = self._some("Switch", lambda element: self._ends("monitoredBy", element))
        for sensor in self._ends("monitoredBy", switch):
            yield Change("unlink", switch, "monitoredBy", target=sensor)

    def _not_required(self) -> Iterator[Change]:
        route = self._some("Route", lambda element: self._ends("requires", element))
        yield Change("unlink", route, "requires", target=self.rng.choice(self._ends("requires", route)))

    def _turned(self) -> Iterator[Change]:
        switch = self._some("Switch")
        now = self.graph.value(switch, "currentPosition")
        yield Change("set", switch, attribute="currentPosition", value=next_position(now))

    def _one_more(self) -> Iterator[Change]:
        """Insert a segment between two segments that one sensor monitors."""
        before = self._some("Segment", lambda element: self._watched_next(element) is not None)
        behind, sensor = self._watched_next(before) or (None, None)
        new = self._new("Segment")
        yield Change("unlink", before, "connectsTo", target=behind)
        yield Change("create", new, "Segment")
        yield Change("set", new, attribute="length", value=self.rng.randint(1, 1000))
        yield Change("link", new, "monitoredBy", target=sensor)
        yield Change("link", before, "connectsTo", target=new)
        yield Change("link", new, "connectsTo", target=behind)

    def _watched_next(self, segment: Any) -> tuple[Any, Any] | None:
        own = self._ends("monitoredBy", segment)
        for behind in self._ends("connectsTo", segment):
            common = [sensor for sensor in self._ends("monitoredBy", behind) if sensor in own]
            if common and self.graph.nodes[behind] == "Segment":
                return behind, common[0]
        return None

    def _no_entry(self) -> Iterator[Change]:
        route = self._some("Route", lambda element: self._ends("entry", element))
        yield Change("unlink", route, "entry", target=self._ends("entry", route)[0])

    # repairs

    def _lengthen(self, segment: Any) -> Iterator[Change]:
        length: Any = self.graph.value(segment, "length")
        yield Change("set", segment, attribute="length", value=1 - length)

    def _monitor(self, switch: Any) -> Iterator[Change]:
        sensor = self._new("Sensor")
        yield Change("create", sensor, "Sensor")
        yield Change("link", switch, "monitoredBy", target=sensor)

    def _require(self, route: Any, sensor: Any, *_: Any) -> Iterator[Change]:
        yield Change("link", route, "requires", target=sensor)

    def _turn(self, _semaphore: Any, _route: Any, position: Any, switch: Any) -> Iterator[Change]:
        wanted = self.graph.value(position, "position")
        yield Change("set", switch, attribute="currentPosition", value=wanted)

    def _take_out(self, _sensor: Any, first: Any, second: Any, third: Any, *_: Any) -> Iterator[Change]:
        yield Change("delete", second)
        if not self.graph.has_edge("connectsTo", first, third):
            yield Change("link", first, "connectsTo", target=third)

    def _enter(self, semaphore: Any, _route: Any, other: Any, *_: Any) -> Iterator[Change]:
        for entry in self._ends("entry", other):
            yield Change("unlink", other, "entry", target=entry)
        yield Change("link", other, "entry", target=semaphore)


_INJECT: dict[str, Callable[[RailwayEditor], Iterator[Change]]] = {
    "PosLength": RailwayEditor._no_length,
    "SwitchMonitored": RailwayEditor._not_monitored,
    "RouteSensor": RailwayEditor._not_required,
    "SwitchSet": RailwayEditor._turned,
    "ConnectedSegments": RailwayEditor._one_more,
    "SemaphoreNeighbor": RailwayEditor._no_entry,
}
_REPAIR: dict[str, Callable[..., Iterator[Change]]] = {
    "PosLength": RailwayEditor._lengthen,
    "SwitchMonitored": RailwayEditor._monitor,
    "RouteSensor": RailwayEditor._require,
    "SwitchSet": RailwayEditor._turn,
    "ConnectedSegments": RailwayEditor._take_out,
    "SemaphoreNeighbor": RailwayEditor._enter,
}
