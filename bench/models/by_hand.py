"""The same queries as handwritten programs that compute everything from scratch: the strongest baseline for an update.

Each is a program for one query over the current graph with its edges by both ends: a few loops in the cheapest order.
It retains nothing between calls, and is not informed of changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from perseid.semantics.graphs import Graph
from perseid.semantics.model_queries import Match

_NO_EDGES: dict[Any, set[Any]] = {}


def _forth(graph: Graph, edge: str) -> dict[Any, set[Any]]:
    return graph.forth.get(edge, _NO_EDGES)


def _back(graph: Graph, edge: str) -> dict[Any, set[Any]]:
    return graph.back.get(edge, _NO_EDGES)


# the social media case


def q1(graph: Graph) -> set[Match]:
    fans = _back(graph, "likes")
    scores = {
        post: 10 * len(comments) + sum([len(fans[comment]) for comment in comments if comment in fans])
        for post, comments in _back(graph, "root").items()
    }
    return _first_three(scores, graph, "Post")


def q2(graph: Graph) -> set[Match]:
    friends = _forth(graph, "friends")
    scores = {}
    for comment, users in _back(graph, "likes").items():
        left, score = set(users), 0
        while left:
            todo = [left.pop()]
            size = 0
            while todo:
                size += 1
                near = left & friends.get(todo.pop(), _NOBODY)
                left -= near
                todo.extend(near)
            score += size * size
        scores[comment] = score
    return _first_three(scores, graph, "Comment")


def _first_three(scores: dict[Any, int], graph: Graph, kind: str) -> set[Match]:
    """Top three, and those equal to the third; those without a score only if fewer than three have one."""
    if len(scores) < 3:
        scores = {element: 0 for element, own in graph.nodes.items() if own == kind} | scores
    least = heapq.nlargest(3, scores.values())[-1]
    ranks = {element: (score, graph.values[element, "at"]) for element, score in scores.items() if score >= least}
    third = heapq.nlargest(3, ranks.values())[-1]  # type: ignore[type-var]
    return {(element, rank[0]) for element, rank in ranks.items() if rank >= third}  # type: ignore[operator]


# the railway


def pos_length(graph: Graph) -> set[Match]:
    values: dict[Any, Any] = graph.values
    return {(element,) for element, kind in graph.nodes.items() if kind == "Segment" and values[element, "length"] <= 0}


def switch_monitored(graph: Graph) -> set[Match]:
    monitored = _forth(graph, "monitoredBy")
    return {(element,) for element, kind in graph.nodes.items() if kind == "Switch" and element not in monitored}


def route_sensor(graph: Graph) -> set[Match]:
    targets, monitored, requires = (_forth(graph, edge) for edge in ("target", "monitoredBy", "requires"))
    found = set()
    for route, positions in _forth(graph, "follows").items():
        required = requires.get(route, _NOBODY)
        for position in positions:
            for switch in targets.get(position, ()):
                for sensor in monitored.get(switch, _NOBODY) - required:
                    found.add((route, sensor, position, switch))
    return found


def switch_set(graph: Graph) -> set[Match]:
    targets, follows, values = _forth(graph, "target"), _forth(graph, "follows"), graph.values
    found = set()
    for route, semaphores in _forth(graph, "entry").items():
        (semaphore,) = semaphores
        if not values[route, "active"] or values[semaphore, "signal"] != "GO":
            continue
        for position in follows.get(route, ()):
            wanted = values[position, "position"]
            for switch in targets.get(position, ()):
                if values[switch, "currentPosition"] != wanted:
                    found.add((semaphore, route, position, switch))
    return found


def connected_segments(graph: Graph) -> set[Match]:
    connected, nodes = _forth(graph, "connectsTo"), graph.nodes
    found = set()
    for sensor, elements in _back(graph, "monitoredBy").items():
        if len(elements) < 6 and not _may_return(elements, connected):
            continue
        rows: list[tuple[Any, ...]] = [(element,) for element in elements if nodes[element] == "Segment"]
        watched = {row[0] for row in rows}
        for _ in range(5):
            rows = [(*row, behind) for row in rows for behind in connected.get(row[-1], _NOBODY) & watched]
        found.update((sensor, *row) for row in rows)
    return found


def _may_return(elements: set[Any], connected: dict[Any, set[Any]]) -> bool:
    """Check for a possible cycle: it would have an edge from some element to one that is not greater."""
    return any(other <= one and other in elements for one in elements for other in connected.get(one, ()))


def semaphore_neighbor(graph: Graph) -> set[Match]:
    requiring, watching = _back(graph, "requires"), _back(graph, "monitoredBy")
    entries, exits, connected, monitored = (
        _forth(graph, edge) for edge in ("entry", "exit", "connectsTo", "monitoredBy")
    )
    found = set()
    for route, sensors in _forth(graph, "requires").items():
        for semaphore in exits.get(route, ()):
            for sensor in sensors:
                for element in watching.get(sensor, ()):
                    for behind in connected.get(element, ()):
                        for other_sensor in monitored.get(behind, ()):
                            for other in requiring.get(other_sensor, ()):
                                if other != route and semaphore not in entries.get(other, ()):
                                    found.add((semaphore, route, other, sensor, other_sensor, element, behind))
    return found


_NOBODY: frozenset[Any] = frozenset()
BY_HAND: dict[str, Callable[[Graph], set[Match]]] = {
    "q1": q1,
    "q2": q2,
    "PosLength": pos_length,
    "SwitchMonitored": switch_monitored,
    "RouteSensor": route_sensor,
    "SwitchSet": switch_set,
    "ConnectedSegments": connected_segments,
    "SemaphoreNeighbor": semaphore_neighbor,
}
