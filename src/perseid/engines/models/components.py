"""Which nodes hang together, and the least of them, kept as edges come and go."""

from __future__ import annotations

from typing import Any

from perseid.engines.models.deltas import Delta, Row, add
from perseid.engines.models.ranks import rank


class Components:
    """Rows (group, node, least node of its component); edges are rows (group, one end, other end).

    What changed is walked again, component by component: the cost is the size of the components that edges came to
    or went from, and no others.
    """

    def __init__(self, edges: int, nodes: int | None) -> None:
        self.inputs = (edges,) if nodes is None else (edges, nodes)
        self.near: dict[Row, dict[Row, int]] = {}
        self.alone: dict[Row, int] = {}
        self.least: dict[Row, Any] = {}
        self.members: dict[Row, set[Row]] = {}
        """Nodes of a component, by its group and least node."""

    def step(self, edges: Delta, nodes: Delta | None = None) -> Delta:
        touched: set[Row] = set()
        for row, weight in edges.items():
            one, other = row[:-1], (*row[:-2], row[-1])
            self._near(one, other, weight)
            self._near(other, one, weight)
            touched |= {one, other}
        for node, weight in (nodes or {}).items():
            add(self.alone, node, weight)
            touched.add(node)
        return self._again(touched)

    def _near(self, one: Row, other: Row, weight: int) -> None:
        near = self.near.setdefault(one, {})
        add(near, other, weight)
        if not near:
            del self.near[one]

    def _again(self, touched: set[Row]) -> Delta:
        """Every component that a touched node was or is in, walked anew."""
        old: set[Row] = set(touched)
        for node in touched:
            if node in self.least:
                old |= self.members.pop((*node[:-1], self.least[node]), set())
        before = {node: self.least.pop(node) for node in old if node in self.least}
        out: Delta = {}
        # An edge touches both its ends, so whatever a walk finds was in one of the old components.
        todo = set(old)
        while todo:
            start = todo.pop()
            if start not in self.near and start not in self.alone:
                continue
            found = self._walk(start)
            todo -= found
            least = min((node[-1] for node in found), key=rank)
            self.members[(*start[:-1], least)] = found
            for node in found:
                self.least[node] = least
        for node in old:
            then, now = before.get(node), self.least.get(node)
            if then != now:
                if then is not None:
                    add(out, (*node, then), -1)
                if now is not None:
                    add(out, (*node, now), 1)
        return out

    def _walk(self, start: Row) -> set[Row]:
        found, todo = {start}, [start]
        while todo:
            for node in self.near.get(todo.pop(), ()):
                if node not in found:
                    found.add(node)
                    todo.append(node)
        return found
