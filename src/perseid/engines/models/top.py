"""The matches with the greatest values, and those equal to the last of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any

from perseid.engines.models.deltas import Delta, Key, Row, add


class Top:
    """Rows by rank in each group: the first ``count`` of them, ties with the last among them.

    Ranks lie in a sorted list, each once: what enters or leaves far from the top costs a search, not a sort.
    """

    def __init__(self, source: int, count: int, group: Key, rank: Callable[[Row], Any], width: int) -> None:
        self.inputs = (source,)
        self.count = count
        self.group = group
        self.rank = rank
        self.width = width
        self.groups: dict[Any, _Group] = {}

    def step(self, delta: Delta) -> Delta:
        touched: dict[Any, Delta] = {}
        for row, weight in delta.items():
            touched.setdefault(self.group(row), {})[row] = weight
        for at, rows in touched.items():
            if at not in self.groups:
                self.groups[at] = _Group()
            self.groups[at].change([(self.rank(row), row[: self.width], weight) for row, weight in rows.items()])
        out: Delta = {}
        for at in touched:
            group = self.groups[at]
            before, group.standing = group.standing, group.first(self.count)
            for row in before - group.standing:
                add(out, row, -1)
            for row in group.standing - before:
                add(out, row, 1)
            if not group.ranks:
                del self.groups[at]
        return out


FEW = 64
"""Up to so many new ranks are put in their places one by one; more of them and the list is sorted anew."""


class _Group:
    __slots__ = ("ranks", "rows", "standing")

    def __init__(self) -> None:
        self.ranks: list[Any] = []
        self.rows: dict[Any, Delta] = {}
        self.standing: set[Row] = set()

    def change(self, changes: list[tuple[Any, Row, int]]) -> None:
        new: set[Any] = set()
        for rank, row, weight in changes:
            held = self.rows.get(rank)
            if held is None:
                self.rows[rank] = {row: weight}
                new.add(rank)
                continue
            add(held, row, weight)
            if not held:
                del self.rows[rank]
                if rank in new:
                    new.discard(rank)
                else:
                    self.ranks.pop(bisect_left(self.ranks, rank))
        if len(new) > FEW:
            self.ranks.extend(new)
            self.ranks.sort()
        else:
            for rank in new:
                insort(self.ranks, rank)

    def first(self, count: int) -> set[Row]:
        found: set[Row] = set()
        for rank in self.ranks:
            if len(found) >= count:
                break
            found.update(self.rows[rank])
        return found
