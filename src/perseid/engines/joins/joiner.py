"""Documents in, notifications out: what a set of subscriptions finds in documents that come in the order of their time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perseid.engines.joins import layout as y
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.kernel import (
    N_FOUND,
    N_NODES,
    N_POSTINGS,
    N_SLICES,
    N_WIDTH,
    Index,
    Room,
    Store,
    join_documents,
)


@dataclass(frozen=True)
class Bindings:
    """Chains found in documents: a row each, those of a document one after the other."""

    documents: Any
    """By row: its document, as a place among those that come together."""
    chains: Any
    texts: Sequence[str]
    at: Any
    """By row: where its nodes begin."""
    nodes: Any


@dataclass(frozen=True)
class Joined:
    """What was found: rows of the kernel's, and the nodes they name."""

    rows: Any
    nodes: Any
    index: Index


class Joiner:
    """The join state: documents that have come, and all that may still be joined."""

    def __init__(self, subscriptions: Subscriptions, views: int = y.CACHED) -> None:
        self.subscriptions = subscriptions
        self.views = views
        self.times = np.zeros(16, np.int64)
        self.documents = np.zeros((16, 2), np.int64)
        self.rows = np.zeros((16, 3), np.int64)
        self.nodes = np.zeros(16, np.int64)
        self.heads = np.zeros((0, 2), np.int64)
        self.postings = np.zeros((1024, 3), np.int64)
        self.slices = np.zeros((1024, 3), np.int64)
        self.count = self.rows_used = self.nodes_used = 0
        self._told = np.zeros(N_WIDTH, np.int64)
        self._room: dict[str, Any] = {"pairs": 256, "states": 256, "found": 4096, "nodes": 1 << 14}
        self.index: Index | None = None

    def add(self, times: Any, bindings: Bindings) -> Joined:
        """Documents, the oldest first: what they and those before them are due."""
        first, last = self.count, self.count + len(times)
        self._append(times, bindings)
        if self.index is None:
            self.index = self.subscriptions.compiled()
        store, done = self._store(), first
        self._told[N_FOUND] = self._told[N_NODES] = 0
        room = self._make_room(store)
        while done < last:
            done = join_documents(self.index, store, room, done, last, self.views)
            if done < last:
                self._grow()
                store = self._store()
                room = self._make_room(store, room)
        found, nodes = (int(self._told[k]) for k in (N_FOUND, N_NODES))
        return Joined(room.found[:found].copy(), room.nodes[:nodes].copy(), self.index)

    def changed(self) -> None:
        """Subscriptions were added or removed."""
        self.index = None

    def _append(self, times: Any, given: Bindings) -> None:
        many = np.bincount(given.documents, minlength=len(times)) if len(times) else np.zeros(0, np.int64)
        ends = self.rows_used + np.cumsum(many)
        self.times = _with(self.times, self.count, times)
        self.documents = _with(self.documents, self.count, np.stack([ends - many, ends], axis=1))
        at = self.nodes_used + given.at
        values = self.subscriptions.values.numbers(given.texts)
        self.rows = _with(self.rows, self.rows_used, np.stack([given.chains, values, at], axis=1))
        self.nodes = _with(self.nodes, self.nodes_used, given.nodes)
        self.count += len(times)
        self.rows_used += len(given.chains)
        self.nodes_used += len(given.nodes)
        size = len(self.subscriptions.values)
        if size > len(self.heads):
            new = np.empty((max(size, 2 * len(self.heads)) - len(self.heads), 2), np.int64)
            new[:, 0], new[:, 1] = -1, -2
            self.heads = np.concatenate([self.heads, new])

    def _heights(self) -> Any:
        return np.array([chain.height for chain in self.subscriptions.chains] or [0], np.int64)

    def _store(self) -> Store:
        numbers, needles_at, needles = self.subscriptions.values.known()
        return Store(
            self.times, self.documents, self.rows, self._heights(), self.nodes, numbers, needles_at, needles, self.heads,
            self.postings, self.slices,
        )  # fmt: skip

    def _make_room(self, store: Store, before: Room | None = None) -> Room:
        size = self._room
        most = int((self.documents[: self.count, 1] - self.documents[: self.count, 0]).max(initial=1))
        found, nodes = np.zeros((size["found"], y.O_WIDTH), np.int64), np.zeros(size["nodes"], np.int64)
        if before is not None:
            found[: len(before.found)] = before.found
            nodes[: len(before.nodes)] = before.nodes
        return Room(
            np.zeros((size["pairs"], 2), np.int64),
            np.zeros((2, y.MAX_SLOTS), np.int64),
            np.zeros((2, y.MAX_EDGES + 1), np.int64),
            np.zeros(y.MAX_EDGES + 1, np.int64),
            np.zeros((size["states"], 2), np.int64),
            np.zeros((size["states"], y.MAX_SLOTS), np.int64),
            np.zeros((most, 2), np.int64),
            found,
            nodes,
            self._told,
        )

    def _grow(self) -> None:
        """Twice as much room for everything: what was short is not told."""
        for name in self._room:
            self._room[name] *= 2
        for name, used in (("postings", N_POSTINGS), ("slices", N_SLICES)):
            had = getattr(self, name)
            if 2 * self._told[used] > len(had):
                setattr(self, name, np.concatenate([had, np.zeros_like(had)]))


def _with(had: Any, used: int, new: Any) -> Any:
    """An array with rows behind those in use; it grows by half at least."""
    if used + len(new) > len(had):
        room = max(used + len(new), len(had) + len(had) // 2)
        had = np.concatenate([had[:used], np.zeros((room - used, *had.shape[1:]), had.dtype)])
    had[used : used + len(new)] = new
    return had


def notified(joined: Joined, subscriptions: Subscriptions) -> Iterator[tuple[object, int, int, list[int]]]:
    """Every notification: whose, the older document, the newer, and the nodes; a pair that many are due is told of often."""
    rows = joined.rows.tolist()
    for i, (group, count, older, newer, at) in enumerate(rows):
        end = rows[i + 1][y.O_AT] if i + 1 < len(rows) else len(joined.nodes)
        nodes = joined.nodes[at:end].tolist()
        for whose in subscriptions.whose(group, count, joined.index):
            yield whose, older, newer, nodes
