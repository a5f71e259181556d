"""Transitive closure of an edge relation, maintained incrementally."""

from __future__ import annotations

from perseid.engines.models.deltas import Delta, Row, add
from perseid.semantics.values import Value


class Closure:
    """Pairs of nodes connected by a walk of at least one edge.

    An inserted edge connects all nodes that reach its source with all nodes that its target reaches. After deletions,
    the nodes that reached a deleted edge are traversed again: expensive with many predecessors, and correct for cycles.
    """

    def __init__(self, source: int) -> None:
        self.inputs = (source,)
        self.next: dict[Value, set[Value]] = {}
        self.reach: dict[Value, set[Value]] = {}
        """Nodes reachable from each node."""
        self.reached_by: dict[Value, set[Value]] = {}

    def step(self, delta: Delta) -> Delta:
        out: Delta = {}
        deleted = [pair for pair, weight in delta.items() if weight < 0]
        if deleted:
            self._remove(deleted, out)
        for pair, weight in delta.items():
            if weight > 0:
                self._insert(pair[0], pair[1], out)
        return out

    def _remove(self, deleted: list[Row], out: Delta) -> None:
        affected: set[Value] = set()
        for source, target in deleted:
            affected.add(source)
            affected |= self.reached_by.get(source, _NOTHING)
            targets = self.next[source]
            targets.discard(target)
            if not targets:
                del self.next[source]
        for start in affected:
            before = self.reach.get(start, _NOTHING)
            now = self._walk(start)
            for end in before - now:
                add(out, (start, end), -1)
                self._forget(start, end)
            if now:
                self.reach[start] = now
            else:
                self.reach.pop(start, None)

    def _walk(self, start: Value) -> set[Value]:
        found: set[Value] = set()
        todo = [start]
        while todo:
            new = self.next.get(todo.pop(), _NOTHING) - found
            found |= new
            todo.extend(new)
        return found

    def _forget(self, start: Value, end: Value) -> None:
        sources = self.reached_by[end]
        sources.discard(start)
        if not sources:
            del self.reached_by[end]

    def _insert(self, source: Value, target: Value, out: Delta) -> None:
        self.next.setdefault(source, set()).add(target)
        ends = {target} | self.reach.get(target, _NOTHING)
        for start in {source} | self.reached_by.get(source, _NOTHING):
            reach = self.reach.setdefault(start, set())
            for end in ends - reach:
                reach.add(end)
                self.reached_by.setdefault(end, set()).add(start)
                add(out, (start, end), 1)


_NOTHING: frozenset[Value] = frozenset()
