"""The same queries as one would write them by hand, all anew: what an update is compared with.

They read tables that suit them, each edge as a dict of lists and each attribute as a dict, made outside the time; so the
time is that of the question alone, without reading or building a model. Each is a few loops over whole tables, in the order
that makes least, with nothing kept from one call to the next.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from perseid.semantics.graphs import Graph
from perseid.semantics.model_oracle import Match


class Tables:
    """A graph as plain dicts."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: dict[str, list[Any]] = {}
        for element, kind in graph.nodes.items():
            self.nodes.setdefault(kind, []).append(element)
        self.forth: dict[str, dict[Any, list[Any]]] = {}
        self.back: dict[str, dict[Any, list[Any]]] = {}
        for kept, given in ((self.forth, graph.forth), (self.back, graph.back)):
            for edge in graph.kinds.edges:
                kept[edge] = {one: list(others) for one, others in given.get(edge, {}).items()}
        self.values: dict[str, dict[Any, Any]] = {}
        for (element, attribute), value in graph.values.items():
            self.values.setdefault(attribute, {})[element] = value


# the social media case


def q1(tables: Tables) -> set[Match]:
    scores = dict.fromkeys(tables.nodes["Post"], 0)
    fans = tables.back["likes"]
    for post, comments in tables.back["root"].items():
        scores[post] = 10 * len(comments) + sum([len(fans[comment]) for comment in comments if comment in fans])
    return _first_three(scores, tables)


def q2(tables: Tables) -> set[Match]:
    scores = dict.fromkeys(tables.nodes["Comment"], 0)
    friends = tables.forth["friends"]
    for comment, users in tables.back["likes"].items():
        left, score = set(users), 0
        while left:
            todo = [left.pop()]
            size = 0
            while todo:
                size += 1
                near = left.intersection(friends.get(todo.pop(), ()))
                left -= near
                todo.extend(near)
            score += size * size
        scores[comment] = score
    return _first_three(scores, tables)


def _first_three(scores: dict[Any, int], tables: Tables) -> set[Match]:
    """With those that are equal to the third."""
    times = tables.values["at"]
    ranks = {element: (score, times[element]) for element, score in scores.items()}
    third = heapq.nlargest(3, ranks.values())[-1]
    return {(element, rank[0]) for element, rank in ranks.items() if rank >= third}


# the railway


def pos_length(tables: Tables) -> set[Match]:
    return {(segment,) for segment, length in tables.values["length"].items() if length <= 0}


def switch_monitored(tables: Tables) -> set[Match]:
    monitored = tables.forth["monitoredBy"]
    return {(switch,) for switch in tables.nodes["Switch"] if switch not in monitored}


def route_sensor(tables: Tables) -> set[Match]:
    targets, monitored = tables.forth["target"], tables.forth["monitoredBy"]
    found = set()
    for route, positions in tables.forth["follows"].items():
        required = set(tables.forth["requires"].get(route, ()))
        for position in positions:
            for switch in targets.get(position, ()):
                for sensor in monitored.get(switch, ()):
                    if sensor not in required:
                        found.add((route, sensor, position, switch))
    return found


def switch_set(tables: Tables) -> set[Match]:
    targets, signals = tables.forth["target"], tables.values["signal"]
    current, wanted, active = (tables.values[name] for name in ("currentPosition", "position", "active"))
    found = set()
    for route, semaphores in tables.forth["entry"].items():
        if not active[route] or signals[semaphores[0]] != "GO":
            continue
        for position in tables.forth["follows"].get(route, ()):
            for switch in targets.get(position, ()):
                if current[switch] != wanted[position]:
                    found.add((semaphores[0], route, position, switch))
    return found


def _may_return(elements: set[Any], connected: dict[Any, list[Any]]) -> bool:
    """Could a walk come back to where it was? Then it leads from some element to one that is not greater."""
    return any(other <= one and other in elements for one in elements for other in connected.get(one, ()))


def connected_segments(tables: Tables) -> set[Match]:
    connected, segments = tables.forth["connectsTo"], tables.values["length"]
    found = set()
    for sensor, elements in tables.back["monitoredBy"].items():
        watched = {element for element in elements if element in segments}
        if len(watched) < 6 and not _may_return(watched, connected):
            continue
        rows: list[tuple[Any, ...]] = [(segment,) for segment in watched]
        for _ in range(5):
            rows = [(*row, behind) for row in rows for behind in connected.get(row[-1], ()) if behind in watched]
        found.update((sensor, *row) for row in rows)
    return found


def semaphore_neighbor(tables: Tables) -> set[Match]:
    requiring, monitored, watching = tables.back["requires"], tables.forth["monitoredBy"], tables.back["monitoredBy"]
    entries, exits, connected = tables.forth["entry"], tables.forth["exit"], tables.forth["connectsTo"]
    found = set()
    for route, sensors in tables.forth["requires"].items():
        for semaphore in exits.get(route, ()):
            for sensor in sensors:
                for element in watching.get(sensor, ()):
                    for behind in connected.get(element, ()):
                        for other_sensor in monitored.get(behind, ()):
                            for other in requiring.get(other_sensor, ()):
                                if other != route and semaphore not in entries.get(other, ()):
                                    found.add((semaphore, route, other, sensor, other_sensor, element, behind))
    return found


BY_HAND: dict[str, Callable[[Tables], set[Match]]] = {
    "q1": q1,
    "q2": q2,
    "PosLength": pos_length,
    "SwitchMonitored": switch_monitored,
    "RouteSensor": route_sensor,
    "SwitchSet": switch_set,
    "ConnectedSegments": connected_segments,
    "SemaphoreNeighbor": semaphore_neighbor,
}
