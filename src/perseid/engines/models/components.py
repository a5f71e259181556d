"""Connected components and the least node of each, maintained incrementally."""

from __future__ import annotations

from perseid.engines.models.deltas import Delta, Row, add
from perseid.engines.models.ranks import rank
from perseid.semantics.values import Value


class ConnectedComponents:
    """Rows (group, node, least node of its component); edges are rows (group, one end, other end).

    Insertions merge components, at the cost of updating the nodes with a new least node. After deletions only the
    components of the touched nodes are recomputed.
    """

    def __init__(self, edges: int, nodes: int | None) -> None:
        self.inputs = (edges,) if nodes is None else (edges, nodes)
        self.neighbors: dict[Row, dict[Row, int]] = {}
        self.alone: dict[Row, int] = {}
        self.least: dict[Row, Value] = {}
        self.members: dict[Row, set[Row]] = {}
        """Nodes of a component, by its group and least node."""

    def step(self, edges: Delta, nodes: Delta | None = None) -> Delta:
        joined: list[tuple[Row, Row]] = []
        cut: set[Row] = set()
        for row, weight in edges.items():
            one, other = row[:-1], (*row[:-2], row[-1])
            was = other in self.neighbors.get(one, _NOWHERE)
            self._change_edge(one, other, weight)
            self._change_edge(other, one, weight)
            now = other in self.neighbors.get(one, _NOWHERE)
            if now and not was:
                joined.append((one, other))
            elif was and not now:
                cut |= {one, other}
        for node, weight in (nodes or {}).items():
            was = node in self.alone
            add(self.alone, node, weight)
            if not was:
                joined.append((node, node))
            elif node not in self.alone:
                cut.add(node)
        if cut:
            return self._recompute(cut.union(*joined))
        return self._join(joined)

    def _change_edge(self, one: Row, other: Row, weight: int) -> None:
        neighbors = self.neighbors.setdefault(one, {})
        add(neighbors, other, weight)
        if not neighbors:
            del self.neighbors[one]

    def _join(self, joined: list[tuple[Row, Row]]) -> Delta:
        """Merge components; sufficient if nothing was deleted."""
        before: dict[Row, Value] = {}
        for pair in joined:
            for node in pair:
                if node not in self.least:
                    before[node] = None
                    self.least[node] = node[-1]
                    self.members[node] = {node}
            ends = {(*node[:-1], self.least[node]) for node in pair}
            if len(ends) == 2:
                merged, absorbed = sorted(ends, key=lambda end: rank(end[-1]))
                moved = self.members.pop(absorbed)
                self.members[merged] |= moved
                for node in moved:
                    before.setdefault(node, self.least[node])
                    self.least[node] = merged[-1]
        return self._changes(before)

    def _recompute(self, touched: set[Row]) -> Delta:
        """Recompute every component that a touched node was or is in."""
        old: set[Row] = set(touched)
        for node in touched:
            if node in self.least:
                old |= self.members.pop((*node[:-1], self.least[node]), set())
        before = {node: self.least.pop(node) for node in old if node in self.least}
        # An edge touches both its ends, so every node that a walk finds was in one of the old components.
        todo = set(old)
        while todo:
            start = todo.pop()
            if start not in self.neighbors and start not in self.alone:
                continue
            found = self._walk(start)
            todo -= found
            least = min((node[-1] for node in found), key=rank)
            self.members[(*start[:-1], least)] = found
            for node in found:
                self.least[node] = least
        return self._changes({node: before.get(node) for node in old})

    def _changes(self, before: dict[Row, Value]) -> Delta:
        """Delta of the nodes with a changed least node; None in ``before`` means that there was no row."""
        out: Delta = {}
        for node, then in before.items():
            now = self.least.get(node)
            if then != now:
                if then is not None:
                    add(out, (*node, then), -1)
                if now is not None:
                    add(out, (*node, now), 1)
        return out

    def _walk(self, start: Row) -> set[Row]:
        found, todo = {start}, [start]
        while todo:
            for node in self.neighbors.get(todo.pop(), ()):
                if node not in found:
                    found.add(node)
                    todo.append(node)
        return found


_NOWHERE: dict[Row, int] = {}
