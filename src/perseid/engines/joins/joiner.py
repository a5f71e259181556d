"""The join of documents, in time order, for a set of subscriptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from perseid.engines.joins import layout as y
from perseid.engines.joins.alternatives import Merged, merge_alternatives, nodes_of
from perseid.engines.joins.graph import TemplateRow
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.kernel import join_documents, list_documents
from perseid.engines.joins.layout import (
    N_DROPPED,
    N_FOUND,
    N_FULL,
    N_NODES,
    N_POSTINGS,
    N_SLICES,
    N_WIDTH,
    Buffers,
    Index,
    Store,
)
from perseid.engines.joins.values import extended, reserved
from perseid.errors import LimitError
from perseid.runtime.arrays import IntArray

MIN_EVICTED_DOCUMENTS = 1_024
"""Minimum number of expired documents for an eviction, which rebuilds the lists."""
VIEW_BYTES = 1 << 27
BLOCK = 256
"""Result rows that are converted to Python objects at once."""
_SLICE_BYTES = 12
MAX_ROWS_PER_DOCUMENT = 1 << 22
"""Maximum number of result rows of one newer document."""
MAX_EXPANDED_PER_DOCUMENT = 1_000_000
"""Maximum number of notifications of one newer document, if each is an output row."""


@dataclass(frozen=True)
class ChainBindings:
    """Chains found in documents: a row each, contiguous by document."""

    documents: IntArray
    """By row: the index of its document in the batch."""
    chains: IntArray
    texts: Sequence[str]
    at: IntArray
    """By row: the offset of its nodes."""
    nodes: IntArray


@dataclass(frozen=True)
class Joined:
    """The result of a join: rows of the kernel, and their nodes."""

    rows: IntArray
    nodes: IntArray
    index: Index


class Joiner:
    """The join state: the rows of retained documents, and the posting lists and slices of their values."""

    def __init__(self, subscriptions: Subscriptions, views: int = y.CACHED, view_bytes: int = VIEW_BYTES) -> None:
        """Views take at most ``view_bytes``; beyond that, all are dropped and rebuilt on demand."""
        self.subscriptions = subscriptions
        self.views = views
        self._max_slices = view_bytes // _SLICE_BYTES
        self.times = np.zeros(16, np.int64)
        self.documents = np.zeros((16, 2), np.int64)
        self.rows = np.zeros((16, 3), np.int64)
        self.nodes = np.zeros(16, np.int64)
        self.heads = np.zeros((0, 2), np.int64)
        self.postings = np.zeros((1024, 3), np.int64)
        self.slices = np.zeros((0, 3), np.int32)
        self.count = self.rows_used = self.nodes_used = 0
        self.evicted = 0
        """Number of evicted documents."""
        self._counters = np.zeros(N_WIDTH, np.int64)
        self._capacities: dict[str, int] = {"pairs": 256, "links": 1024, "states": 256, "found": 4096, "nodes": 1 << 14}
        self._latest = np.zeros(0, np.int32)
        self.index: Index | None = None
        self._heights = np.zeros(0, np.int64)
        """By chain: its height."""

    def add(self, times: IntArray, bindings: ChainBindings) -> Joined:
        """Join documents, the oldest first, with each other and all earlier ones; number them in order of arrival."""
        self._evict()
        first, last = self.count, self.count + len(times)
        self.append(times, bindings)
        if self.index is None:
            self.index = self.subscriptions.compiled()
        store, done = self.store(), first
        self._counters[N_FOUND] = self._counters[N_NODES] = 0
        buffers = self.allocate_buffers()
        while done < last:
            done = join_documents(self.index, store, buffers, done, last, self.views)
            if done < last:
                if self._capacities["found"] - int(self._counters[N_FOUND]) > MAX_ROWS_PER_DOCUMENT:
                    raise LimitError(
                        f"A document has more than {MAX_ROWS_PER_DOCUMENT:,} combinations with earlier documents "
                        "(MAX_ROWS_PER_DOCUMENT).",
                        hint="Compare values that occur once in a document, or use a shorter window.",
                    )
                self._grow()
                store = self.store()
                buffers = self.allocate_buffers(buffers)
        row_count, node_count = (int(self._counters[k]) for k in (N_FOUND, N_NODES))
        rows = buffers.found[:row_count].copy()
        rows[:, y.O_OLDER : y.O_NEWER + 1] += self.evicted
        return Joined(rows, buffers.nodes[:node_count].copy(), self.index)

    def text_of(self, document: int, node: int) -> str | None:
        """Return the text of a node at the end of a chain; None for other nodes."""
        begin, end = self.documents[document - self.evicted].tolist()
        heights = self.heights()
        for chain, value, at in self.rows[begin:end].tolist():
            if self.nodes[at + heights[chain] - 1] == node:
                return str(self.subscriptions.values.texts[value])
        return None

    def changed(self) -> None:
        """Invalidate the compiled index, after subscriptions were added or removed."""
        self.index = None

    def append(self, times: IntArray, bindings: ChainBindings) -> None:
        """Append documents to the arrays without joining them."""
        row_counts = np.bincount(bindings.documents, minlength=len(times)) if len(times) else np.zeros(0, np.int64)
        ends = self.rows_used + np.cumsum(row_counts)
        self.times = extended(self.times, self.count, times)
        self.documents = extended(self.documents, self.count, np.stack([ends - row_counts, ends], axis=1))
        at = self.nodes_used + bindings.at
        values = self.subscriptions.values.numbers(bindings.texts)
        self.rows = extended(self.rows, self.rows_used, np.stack([bindings.chains, values, at], axis=1))
        self.nodes = extended(self.nodes, self.nodes_used, bindings.nodes)
        self.count += len(times)
        self.rows_used += len(bindings.chains)
        self.nodes_used += len(bindings.nodes)
        # A row is in at most one posting list and one slice, so neither has more entries than there are rows.
        self.postings = reserved(self.postings, self.rows_used)
        if self.views == y.CACHED:
            self.slices = reserved(self.slices, min(self.rows_used, self._max_slices))[: self._max_slices]
        size = len(self.subscriptions.values)
        if size > len(self.heads):
            self.heads = np.concatenate([self.heads, _no_lists(max(size, 2 * len(self.heads)) - len(self.heads))])

    def restore(self, times: IntArray, bindings: ChainBindings) -> None:
        """Append documents that an earlier joiner has joined, and rebuild the posting lists."""
        self.append(times, bindings)
        list_documents(self.store(), self.allocate_buffers(), 0, self.count)

    def _evict(self) -> None:
        """Evict expired documents, once they are at least half of all documents and at least ``MIN_EVICTED_DOCUMENTS``."""
        if self.index is None or not self.count:
            return
        oldest = int(self.times[self.count - 1]) - int(self.index.sizes[y.X_WIDEST])
        expired = int(np.searchsorted(self.times[: self.count], oldest, "left"))
        if expired < max(MIN_EVICTED_DOCUMENTS, self.count // 2):
            return
        retained, begin = self.count - expired, int(self.documents[expired, 0])
        rows = self.rows[begin : self.rows_used].copy()
        first = int(rows[:, 2].min(initial=self.nodes_used))
        rows[:, 2] -= first
        used, rows[:, 1] = np.unique(rows[:, 1], return_inverse=True)
        self.subscriptions.values.retain(used)
        self.times, self.documents = (
            self.times[expired : self.count].copy(),
            self.documents[expired : self.count] - begin,
        )
        self.rows, self.nodes = rows, self.nodes[first : self.nodes_used].copy()
        self.count, self.rows_used, self.nodes_used = retained, len(rows), len(self.nodes)
        self.evicted += expired
        self.heads = _no_lists(len(used))
        self._counters[N_POSTINGS] = self._counters[N_SLICES] = self._counters[N_FULL] = 0
        list_documents(self.store(), self.allocate_buffers(), 0, retained)

    @property
    def view_bytes(self) -> int:
        """Size of the views in bytes."""
        return int(self.slices.nbytes)

    @property
    def views_dropped(self) -> int:
        """Number of times that all views were dropped because of their limit."""
        return int(self._counters[N_DROPPED])

    def heights(self) -> IntArray:
        """Return the height of each chain; chains are only ever added."""
        if len(self._heights) != max(len(self.subscriptions.chains), 1):
            self._heights = np.array([chain.height for chain in self.subscriptions.chains] or [0], np.int64)
        return self._heights

    def store(self) -> Store:
        """Return the join state as arrays for the kernels."""
        features = self.subscriptions.values.features()
        return Store(
            self.times, self.documents, self.rows, self.heights(), self.nodes, *features, self.heads, self.postings, self.slices
        )  # fmt: skip

    def allocate_buffers(self, before: Buffers | None = None) -> Buffers:
        """Allocate the buffers of the kernels, with the results copied from ``before``."""
        size = self._capacities
        max_rows = int((self.documents[: self.count, 1] - self.documents[: self.count, 0]).max(initial=1))
        result_rows, nodes = np.zeros((size["found"], y.O_WIDTH), np.int64), np.zeros(size["nodes"], np.int64)
        previous = np.zeros(size["found"], np.int32)
        if self.index is not None and len(self._latest) < len(self.index.ends):
            self._latest = np.zeros(len(self.index.ends), np.int32)
        if before is not None:
            previous[: len(before.previous)] = before.previous
            result_rows[: len(before.found)] = before.found
            nodes[: len(before.nodes)] = before.nodes
        lists = np.full((len(self.index.edges) if self.index else 0, 2), -1, np.int64)
        return Buffers(
            np.zeros((size["pairs"], 2), np.int64),
            lists,
            np.zeros((size["links"], 2), np.int64),
            np.zeros(2 * y.MAX_SLOTS, np.int64),
            np.zeros((2, y.MAX_EDGES + 1), np.int64),
            np.zeros(y.MAX_EDGES + 1, np.int64),
            np.zeros((size["states"], 2), np.int64),
            np.zeros((size["states"], y.MAX_SLOTS), np.int64),
            np.zeros((max_rows, 2), np.int64),
            result_rows,
            previous,
            self._latest,
            nodes,
            self._counters,
            np.array(
                [
                    *(size[name] for name in ("pairs", "links", "states", "found", "nodes")),
                    len(self.slices),
                    len(self.heads),
                ]
            ),
        )

    def _grow(self) -> None:
        """Double all capacities: the kernel does not report which one was exhausted."""
        for name in self._capacities:
            self._capacities[name] *= 2


def _no_lists(count: int) -> IntArray:
    """Return heads for values without posting lists and slices."""
    heads = np.empty((count, 2), np.int64)
    heads[:, 0], heads[:, 1] = -1, -2
    return heads


def require_expandable(joined: Joined) -> None:
    """Raise an error if a newer document has more notifications than the limit for expanded rows."""
    if not len(joined.rows):
        return
    newer = joined.rows[:, y.O_NEWER]
    max_notifications = int(np.bincount(newer - newer.min(), joined.rows[:, y.O_COUNT]).max())
    if max_notifications > MAX_EXPANDED_PER_DOCUMENT:
        raise LimitError(
            f"With expand=True, a document has {max_notifications:,} notifications; the limit is {MAX_EXPANDED_PER_DOCUMENT:,} "
            "(MAX_EXPANDED_PER_DOCUMENT).",
            hint="Remove expand=True, or compare values that occur once in a document.",
        )


def pairs(joined: Joined) -> Iterator[tuple[int, int, int, int, list[int]]]:
    """Yield each result row: group, number of its matching subscriptions, older document, newer document, nodes."""
    for part in _blocks(joined):
        rows = part.rows.tolist()
        first = rows[0][y.O_AT]
        nodes = part.nodes[first:].tolist()
        ends = [*(part.rows[1:, y.O_AT] - first).tolist(), len(nodes)]
        for (group, count, older, newer, at), end in zip(rows, ends, strict=True):
            yield group, count, older, newer, nodes[at - first : end]


class Notified(NamedTuple):
    """One notification, with older and newer document and their nodes."""

    owner: object
    row: TemplateRow
    older: int
    newer: int
    nodes: list[int]
    also: tuple[tuple[TemplateRow, list[int]], ...] = ()
    """Other alternatives of the subscription with the same notification, and their nodes in the order of their rows."""


def notified(joined: Joined, subscriptions: Subscriptions) -> Iterator[Notified]:
    """Yield every notification once, even if several alternatives match it."""
    for block in merged_blocks(joined, subscriptions):
        begin, merged = 0, block.merged
        for part in _blocks(block.joined):
            owners, at = subscriptions.numbers.at(subscriptions.due(part.rows, part.index)), 0
            for _, count, older, newer, nodes in pairs(part):
                for index in range(at, at + count):
                    if merged is None:
                        yield Notified(*owners[index], older, newer, nodes)
                    elif merged.retained[begin + index]:
                        also = tuple(
                            (subscriptions.numbers.row(block.entry[i]), nodes_of(block.joined, block.pair[i]))
                            for i in merged.also.get(begin + index, ())
                        )
                        yield Notified(*owners[index], older, newer, nodes, also)
                at += count
            begin += at


class MergedBlock(NamedTuple):
    """Result rows of some newer documents, with merged alternatives."""

    joined: Joined
    merged: Merged | None = None
    """None if no matching entry has alternatives; then the arrays below are empty."""
    pair: Any = ()
    """By matching entry: its row of the block."""
    entry: Any = ()


def merged_blocks(joined: Joined, subscriptions: Subscriptions) -> Iterator[MergedBlock]:
    """Merge alternatives block by block, which bounds the arrays by notification to one block and one document.

    A block ends after the last row of a newer document, so it contains all alternatives of a notification.
    """
    if subscriptions.alternatives.is_empty:
        yield MergedBlock(joined)
        return
    rows = joined.rows
    # The kernel joins one document at a time, so the rows of a newer document are contiguous.
    ends = np.append(np.flatnonzero(rows[1:, y.O_NEWER] != rows[:-1, y.O_NEWER]) + 1, len(rows))
    begin = 0
    while begin < len(rows):
        end = int(ends[np.searchsorted(ends, min(begin + BLOCK, len(rows)))])
        block = _cut(joined, begin, end)
        entry = subscriptions.due(block.rows, block.index)
        pair = np.repeat(np.arange(len(block.rows)), block.rows[:, y.O_COUNT])
        merged = merge_alternatives(block, subscriptions, pair, entry)
        yield MergedBlock(block) if merged is None else MergedBlock(block, merged, pair, entry)
        begin = end


def _blocks(joined: Joined) -> Iterator[Joined]:
    """Split a join into blocks: short-lived Python objects are cheap."""
    return (_cut(joined, begin, begin + BLOCK) for begin in range(0, len(joined.rows), BLOCK))


def _cut(joined: Joined, begin: int, end: int) -> Joined:
    rows = joined.rows
    nodes = joined.nodes[: rows[end, y.O_AT]] if end < len(rows) else joined.nodes
    return Joined(rows[begin:end], nodes, joined.index)
