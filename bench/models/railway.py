"""Railways as in the Train Benchmark: its element types, its six well-formedness queries, and our own generator.

A route leads from one semaphore to the next over a sequence of switches; each switch has sensors, each sensor monitors
the switch and a few segments, and everything is connected in one line. A model of size n has 5 n routes. Errors are
drawn with the probabilities below, and each occurs at least once: every query has matches at every size.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from perseid.lang.parser import parse_models
from perseid.semantics.graphs import Change
from perseid.semantics.metamodels import kinds_of
from perseid.semantics.model_queries import Queries, check_queries

SIZES = (1, 2, 4, 8, 16, 32, 64)
POSITIONS = ("FAILURE", "STRAIGHT", "DIVERGING")
METAMODEL = """
model railway
node Region
node Route (active boolean)
node Semaphore (signal string)
node Sensor
abstract node TrackElement
node Segment is TrackElement (length bigint)
node Switch is TrackElement (currentPosition string)
node SwitchPosition (position string)
edge elements Region -> TrackElement
edge sensors Region -> Sensor
edge semaphores Segment -> Semaphore
edge entry Route -> Semaphore one
edge exit Route -> Semaphore one
edge follows Route -> SwitchPosition
edge requires Route -> Sensor
edge target SwitchPosition -> Switch one
edge monitoredBy TrackElement -> Sensor
edge connectsTo TrackElement -> TrackElement
"""
QUERIES = {
    "PosLength": """
query PosLength(segment) find segment: Segment where segment.length <= 0
""",
    "SwitchMonitored": """
query SwitchMonitored(switch) find switch: Switch, not switch -monitoredBy-> sensor
""",
    "RouteSensor": """
query RouteSensor(route, sensor, position, switch)
find route -follows-> position -target-> switch -monitoredBy-> sensor, not route -requires-> sensor
""",
    "SwitchSet": """
query SwitchSet(semaphore, route, position, switch)
find route -entry-> semaphore, route -follows-> position -target-> switch
where route.active and semaphore.signal = 'GO' and switch.currentPosition <> position.position
""",
    "ConnectedSegments": """
query watched(sensor, one, other)
find one: Segment -connectsTo-> other: Segment, one -monitoredBy-> sensor, other -monitoredBy-> sensor
query ConnectedSegments(sensor, a, b, c, d, e, f)
find watched(sensor, a, b), watched(sensor, b, c), watched(sensor, c, d), watched(sensor, d, e), watched(sensor, e, f)
""",
    "SemaphoreNeighbor": """
query SemaphoreNeighbor(semaphore, route, other, sensor, next_sensor, element, next_element)
find route -exit-> semaphore, route -requires-> sensor, element -monitoredBy-> sensor,
  element -connectsTo-> next_element, next_element -monitoredBy-> next_sensor, other -requires-> next_sensor,
  not other -entry-> semaphore
where route <> other
""",
}


@dataclass(frozen=True)
class Shape:
    """Size of the model: routes, and the maximum number of positions of a route, sensors of a switch and segments of a
    sensor."""

    routes: int
    positions: int = 20
    sensors: int = 10
    segments: int = 5


ERRORS = {
    "PosLength": 0.10,
    "SwitchMonitored": 0.08,
    "RouteSensor": 0.10,
    "SwitchSet": 0.15,
    "ConnectedSegments": 0.05,
    "SemaphoreNeighbor": 0.07,
}
"""Probability of an initial error in a segment, switch, sensor, switch, sensor and route."""


def queries(*names: str) -> Queries:
    """The checked queries of these names."""
    file = parse_models(METAMODEL + "".join(QUERIES[name] for name in names))
    assert file.metamodel is not None
    return check_queries(kinds_of(file.metamodel), file.queries)


def railway(shape: Shape, seed: int = 1) -> list[Change]:
    """Create a complete model, for one transaction."""
    return list(_Generator(shape, random.Random(seed)).changes())


def of_size(size: int) -> list[Change]:
    return railway(Shape(5 * size))


class _Generator:
    def __init__(self, shape: Shape, rng: random.Random) -> None:
        self.shape = shape
        self.rng = rng
        self.last = 0
        self.erred: set[str] = set()
        self.end: int | None = None
        """Last element of the track so far."""

    def changes(self) -> Iterator[Change]:
        entry, created = self._node("Semaphore")
        yield created
        yield Change("set", entry, attribute="signal", value="GO")
        for number in range(self.shape.routes):
            leave, created = self._node("Semaphore")
            yield created
            yield Change("set", leave, attribute="signal", value="GO")
            yield from self._route(number, entry, leave)
            entry = leave

    def _route(self, number: int, entry: int, leave: int) -> Iterator[Change]:
        region, created = self._node("Region")
        yield created
        route, created = self._node("Route")
        yield created
        yield Change("set", route, attribute="active", value=True)
        # Only a route that follows another can have a different entry than that one's exit.
        if number == 0 or not self._errs("SemaphoreNeighbor"):
            yield Change("link", route, "entry", target=entry)
        yield Change("link", route, "exit", target=leave)
        for _ in range(self.rng.randint(1, self.shape.positions)):
            yield from self._switch(region, route)
        assert self.end is not None
        yield Change("link", self.end, "semaphores", target=leave)

    def _switch(self, region: int, route: int) -> Iterator[Change]:
        position, created = self._node("SwitchPosition")
        yield created
        switch, created = self._node("Switch")
        yield created
        at = self.rng.choice(POSITIONS[1:])
        yield Change("set", position, attribute="position", value=at)
        yield Change(
            "set", switch, attribute="currentPosition", value=next_position(at) if self._errs("SwitchSet") else at
        )
        yield Change("link", position, "target", target=switch)
        yield Change("link", route, "follows", target=position)
        yield from self._laid(region, switch)
        monitored = not self._errs("SwitchMonitored")
        for _ in range(self.rng.randint(1, self.shape.sensors)):
            yield from self._sensor(region, route, switch if monitored else None)

    def _sensor(self, region: int, route: int, switch: int | None) -> Iterator[Change]:
        sensor, created = self._node("Sensor")
        yield created
        yield Change("link", region, "sensors", target=sensor)
        if switch is None:
            yield Change("link", route, "requires", target=sensor)
        else:
            yield Change("link", switch, "monitoredBy", target=sensor)
            if not self._errs("RouteSensor"):
                yield Change("link", route, "requires", target=sensor)
        segments = self.shape.segments + 1
        if not self._errs("ConnectedSegments"):
            segments = self.rng.randint(1, self.shape.segments)
        for _ in range(segments):
            segment, created = self._node("Segment")
            yield created
            length = self.rng.randint(1, 1000) if not self._errs("PosLength") else -self.rng.randint(0, 1000)
            yield Change("set", segment, attribute="length", value=length)
            yield from self._laid(region, segment)
            yield Change("link", segment, "monitoredBy", target=sensor)

    def _laid(self, region: int, element: int) -> Iterator[Change]:
        yield Change("link", region, "elements", target=element)
        if self.end is not None:
            yield Change("link", self.end, "connectsTo", target=element)
        self.end = element

    def _node(self, kind: str) -> tuple[int, Change]:
        self.last += 1
        return self.last, Change("create", self.last, kind)

    def _errs(self, query: str) -> bool:
        """Decide on an error: always where it could first occur, so that there is one; then with its probability."""
        first = query not in self.erred
        self.erred.add(query)
        return self.rng.random() < ERRORS[query] or first


def next_position(position: object) -> str:
    return POSITIONS[(POSITIONS.index(str(position)) + 1) % len(POSITIONS)]
