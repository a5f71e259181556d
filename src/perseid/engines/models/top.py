"""Top-k matches by rank, including ties with the last."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from perseid.engines.models.deltas import Delta, Key, Row, add
from perseid.engines.models.ranks import Sortable


class TopRows:
    """The first ``count`` rows by rank in each group, including ties with the last.

    Ranks are in a heap: a change below the last row of the result is cheap, whatever the size of the group.
    """

    def __init__(self, source: int, count: int, group: Key, rank: Callable[[Row], Sortable], width: int) -> None:
        self.inputs = (source,)
        self.count = count
        self.group = group
        self.rank = rank
        self.width = width
        self.groups: dict[object, _Group] = {}

    def step(self, delta: Delta) -> Delta:
        changed: dict[object, None] = {}
        for row, weight in delta.items():
            at = self.group(row)
            group = self.groups.get(at)
            if group is None:
                group = self.groups[at] = _Group()
            if group.change(self.rank(row), row[: self.width], weight):
                changed[at] = None
        out: Delta = {}
        for at in changed:
            group = self.groups[at]
            before = group.standing
            group.recompute(self.count)
            for row in before - group.standing:
                add(out, row, -1)
            for row in group.standing - before:
                add(out, row, 1)
            if not group.rows:
                del self.groups[at]
        return out


class _Group:
    __slots__ = ("heap", "last", "rows", "standing")

    def __init__(self) -> None:
        self.rows: dict[Sortable, Delta] = {}
        self.heap: list[Sortable] = []
        """Every rank with rows, and some without: those are skipped when popped."""
        self.standing: set[Row] = set()
        self.last: Sortable | None = None
        """Rank of the last row in the result; None while there are fewer rows than the limit."""

    def change(self, rank: Sortable, row: Row, weight: int) -> bool:
        """Add a weight to a row; return whether the result may change."""
        weights = self.rows.get(rank)
        if weights is None:
            self.rows[rank] = {row: weight}
            heappush(self.heap, rank)
        else:
            add(weights, row, weight)
            if not weights:
                del self.rows[rank]
                self._tidy()
        return self.last is None or not self.last < rank

    def recompute(self, count: int) -> None:
        self.standing = set()
        seen: list[Sortable] = []
        while self.heap and len(self.standing) < count:
            rank = heappop(self.heap)
            if rank in self.rows and not (seen and seen[-1] == rank):
                seen.append(rank)
                self.standing.update(self.rows[rank])
        self.last = seen[-1] if len(self.standing) >= count else None
        for rank in seen:
            heappush(self.heap, rank)

    def _tidy(self) -> None:
        """Rebuild the heap if it has more than twice the current ranks plus ``FEW``."""
        if len(self.heap) > 2 * len(self.rows) + FEW:
            self.heap = list(self.rows)
            heapify(self.heap)


FEW = 64
