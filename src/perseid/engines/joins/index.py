"""The index of subscriptions for the kernels: the relation RT of every template, as a trie of hashed choices.

Subscriptions with the same chains and constants are one *group* and end at one prefix. A group is sorted by window, the
widest first, so a binary search finds how many of its first subscriptions match a pair of documents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from perseid.engines.joins import layout as y
from perseid.engines.joins.alternatives import Alternatives
from perseid.engines.joins.entries import SubscriptionStore
from perseid.engines.joins.graph import (
    ENDLESS,
    EdgeChains,
    Kind,
    NodeChain,
    SubscriptionTemplate,
    TemplateEdge,
    TemplateRow,
)
from perseid.engines.joins.kernel import insert_all, insert_paths, rehash
from perseid.engines.joins.layout import Index
from perseid.engines.joins.values import Values
from perseid.lang.tree_patterns import Constant
from perseid.runtime.arrays import FloatArray, Int8Array, Int32Array, IntArray


@dataclass
class Subscriptions:
    """A mutable set of subscriptions; ``values`` are shared with the documents."""

    values: Values
    chains: dict[NodeChain, int] = field(default_factory=dict)
    templates: dict[SubscriptionTemplate, int] = field(default_factory=dict)
    roots: list[int] = field(default_factory=list)
    numbers: SubscriptionStore = field(default_factory=SubscriptionStore)
    """By entry: its owner and its template row."""
    alternatives: Alternatives = field(default_factory=Alternatives)
    prefixes: int = 0
    _end_prefixes: list[Int32Array] = field(default_factory=list)
    _windows: list[IntArray] = field(default_factory=list)
    """Windows of entries added since the last sort; ``_ordered`` has those of earlier entries."""

    def __post_init__(self) -> None:
        self.keys = np.zeros((1024, 3), np.int32)
        self.children = np.full(1024, -1, np.int32)
        self.next_edges = np.zeros(y.max_keys(1024), np.int32)
        """By prefix: the next edge to evaluate."""
        self.order = np.zeros(0, np.int32)
        """Entries by group, the widest window first, without removed ones."""
        self._ordered, self._settled = np.zeros(0, np.int64), 0
        """Windows in that order, and the number of entries at the last sort, removed ones included."""

    def add(self, owned_rows: Iterable[tuple[object, TemplateRow]]) -> None:
        """Add rows with their owners; rows with the same owner and document order are alternatives."""
        rows = list(owned_rows)
        width = max((len(row.edge_chains) for _, row in rows), default=1)
        paths = np.zeros((len(rows), 2 * width), np.int64)
        roots = np.zeros(len(rows), np.int64)
        lengths = np.zeros(len(rows), np.int64)
        windows = np.zeros(len(rows), np.int64)
        for i, (_, row) in enumerate(rows):
            roots[i] = self.root(row.template)
            lengths[i] = len(row.edge_chains)
            windows[i] = ENDLESS if row.window is None else row.window
            for e, (edge, edge_chains) in enumerate(zip(row.template.edges, row.edge_chains, strict=True)):
                paths[i, 2 * e : 2 * e + 2] = self.choice(edge, edge_chains)
        first = len(self.numbers)
        self.numbers.extend([owner for owner, _ in rows], [row for _, row in rows])
        ends = self.add_paths(roots, paths, lengths, windows)
        families: dict[tuple[object, bool], list[int]] = {}
        for i, (owner, row) in enumerate(rows):
            families.setdefault((owner, row.swapped), []).append(i)
        for family in families.values():
            if len(family) > 1:
                self.alternatives.add(np.array([family]) + first, ends[family].reshape(1, -1))

    def add_paths(self, roots: IntArray, paths: IntArray, lengths: IntArray, windows: IntArray) -> IntArray:
        """Add subscriptions as choices, and return the end prefix of each; their owners are already in ``numbers``."""
        ends = np.zeros(len(roots), np.int64)
        at = np.array([len(roots), 0, self.prefixes], np.int64)
        while at[1] < at[0]:
            insert_paths(
                self.keys, self.children, len(self.children) - 1, self.next_edges, roots, paths, lengths, ends, at
            )
            if at[1] < at[0]:
                self._grow()
        self.prefixes = int(at[2])
        self._end_prefixes.append(ends.astype(np.int32))
        self._windows.append(windows)
        return ends

    def remove(self, owners: Collection[object]) -> int:
        """Remove the entries of these owners, and return their number."""
        is_removed = self.numbers.are(owners)
        ends = np.concatenate([np.zeros(0, np.int32), *self._end_prefixes])
        is_removed &= ends >= 0
        ends[is_removed] = -1
        self._end_prefixes = [ends]
        return int(is_removed.sum())

    def _grow(self) -> None:
        keys, children = np.zeros((2 * len(self.children), 3), np.int32), np.full(2 * len(self.children), -1, np.int32)
        rehash(keys, children, len(children) - 1, self.keys, self.children, len(self.children) - 1)
        self.keys, self.children = keys, children
        self.next_edges = np.concatenate(
            [self.next_edges, np.zeros(y.max_keys(len(children)) - len(self.next_edges), np.int32)]
        )

    def chain(self, chain: NodeChain) -> int:
        return self.chains.setdefault(chain, len(self.chains))

    def root(self, template: SubscriptionTemplate) -> int:
        """Return the root prefix of a template, registering the template if it is new."""
        number = self.templates.setdefault(template, len(self.templates))
        if number == len(self.roots):
            if self.prefixes + 1 > len(self.next_edges):
                self._grow()
            self.roots.append(self.prefixes)
            self.next_edges[self.prefixes] = sum(len(one.edges) for one in self.templates) - len(template.edges)
            self.prefixes += 1
        return self.roots[number]

    def choice(self, edge: TemplateEdge, edge_chains: EdgeChains) -> tuple[int, int]:
        """Return the choice (a, b) of a subscription at an edge."""
        older, newer = (None if one is None else self.chain(one) for one in (edge_chains.older, edge_chains.newer))
        if older is not None and newer is not None:
            if edge.kind is Kind.ORDERED:
                self.values.compare_as_numbers()
            return older, newer
        assert edge_chains.value is not None
        return self.choices(edge, edge_chains, [edge_chains.value])[0]

    def choices(self, edge: TemplateEdge, edge_chains: EdgeChains, values: Iterable[Constant]) -> list[tuple[int, int]]:
        """Return the choices at an edge of subscriptions that differ only in their constants."""
        compared = edge_chains.older or edge_chains.newer
        assert compared is not None
        chain = self.chain(compared)
        match edge.kind:
            case Kind.NEWER_IS | Kind.OLDER_IS:
                return [(chain, self.values.constant(str(value))) for value in values]
            case Kind.NEWER_CONTAINS | Kind.OLDER_CONTAINS:
                return [(chain, self.values.needle(str(value))) for value in values]
        return [(chain, self.values.threshold(value)) for value in values]

    # for the kernels

    def compiled(self) -> Index:
        """Compile the arrays for the kernels, which are valid until a subscription is added or removed."""
        templates, edges, slots = _tables(list(self.templates), self.roots)
        ends, windows = self._order()
        offsets = np.zeros((self.prefixes, 2), np.int32)
        counts = np.bincount(ends, minlength=self.prefixes)
        np.cumsum(counts, out=offsets[:, 1])
        np.subtract(offsets[:, 1], counts, out=offsets[:, 0], casting="unsafe")
        del ends, counts
        kinds = self._kinds(edges)
        newer = np.zeros(len(self.chains), np.int64)
        equal = np.flatnonzero(kinds == y.EQUAL)
        newer[self.keys[equal, 2]] = 1
        ranges, pairs = self._ranges(np.flatnonzero(kinds >= y.NEWER_RANGE)), self._pairs(equal)
        masks = [len(children) - 1 for children in (self.children, ranges[1], pairs[1])]
        sizes = np.array([*masks, len(templates), windows.max(initial=-1)], np.int64)
        return Index(templates, edges, slots, self.keys, self.children, offsets, windows, *ranges, *pairs, newer, sizes)

    def widest(self) -> int:
        """Return the widest window; -1 without subscriptions."""
        return max((int(windows.max(initial=-1)) for windows in (self._ordered, *self._windows)), default=-1)

    def _order(self) -> tuple[Int32Array, IntArray]:
        """Sort all entries by end prefix and window; return the end prefix and the window of each."""
        ends = np.concatenate([np.zeros(0, np.int32), *self._end_prefixes])
        windows = np.zeros(len(ends), np.int64)
        windows[self.order] = self._ordered
        windows[self._settled :] = np.concatenate([np.zeros(0, np.int64), *self._windows])
        self._end_prefixes, self._windows, self._settled = [ends], [], len(ends)
        np.negative(windows, out=windows)
        order = np.lexsort((windows, ends)).astype(np.int32)
        self.order = order[np.searchsorted(ends, 0, sorter=order) :]  # removed entries sort first
        self._ordered = windows[self.order]
        np.negative(self._ordered, out=self._ordered)
        return ends[self.order], self._ordered

    def _kinds(self, edges: IntArray) -> Int8Array:
        """By slot of the hash table: the kind of the edge of its choice, or -1 if empty."""
        by_edge = np.append(edges[:, y.E_KIND], -1).astype(np.int8)
        by_prefix = by_edge[np.minimum(self.next_edges[: max(self.prefixes, 1)], len(edges))]
        edge_kinds = by_prefix[self.keys[:, 0]]
        edge_kinds[self.children < 0] = -1
        return edge_kinds

    def _pairs(self, at: IntArray) -> tuple[Int32Array, Int32Array, IntArray, IntArray]:
        """Index edges by pairs of chains, because most pairs of rows with equal values concern few templates."""
        chains = self.keys[at, 1].astype(np.int64) << 32 | self.keys[at, 2]
        pairs, which = np.unique(chains, return_inverse=True)
        by = np.unique(which.astype(np.int64) << 32 | self.next_edges[self.keys[at, 0]])
        return (
            *_table(pairs >> 32, pairs & 0xFFFFFFFF),
            np.searchsorted(by >> 32, np.arange(len(pairs) + 1)),
            by & 0xFFFFFFFF,
        )

    def _ranges(self, at: IntArray) -> tuple[Int32Array, Int32Array, Int32Array, FloatArray, Int32Array]:
        """Index ascending lists of thresholds by prefix and chain, with the prefix that each threshold leads to."""
        prefix, chain = self.keys[at, 0], self.keys[at, 1]
        thresholds = self.values.thresholds()[self.keys[at, 2]]
        order = np.lexsort((thresholds, chain, prefix))
        prefix, chain = prefix[order], chain[order]
        new = np.ones(len(order), np.bool_)
        new[1:] = (np.diff(prefix) != 0) | (np.diff(chain) != 0)
        begins = np.flatnonzero(new)
        ranges = np.stack([begins, np.append(begins, len(order))[1:]], axis=1).astype(np.int32)
        first, second = (part[begins].astype(np.int64) for part in (prefix, chain))
        return *_table(first, second), ranges, thresholds[order], self.children[at][order]

    def subscriptions_of(self, end: int, count: int, index: Index) -> list[tuple[object, TemplateRow]]:
        """Return the owners and rows of the first ``count`` subscriptions of a group."""
        first = int(index.ends[end, 0])
        return self.numbers.at(self.order[first : first + count])

    def due(self, rows: IntArray, index: Index) -> Int32Array:
        """Return the entries that result rows notify, concatenated by row."""
        counts = rows[:, y.O_COUNT]
        begins = index.ends[rows[:, y.O_GROUP], 0] - (np.cumsum(counts) - counts)
        return self.order[np.repeat(begins, counts) + np.arange(int(counts.sum()))]


def _table(a: IntArray, b: IntArray) -> tuple[Int32Array, Int32Array]:
    """Return a hash table that maps (a, b, 0) to its index."""
    size = y.size_for(len(a))
    keys, children = np.zeros((size, 3), np.int32), np.full(size, -1, np.int32)
    insert_all(keys, children, size - 1, a, b, np.zeros_like(a), len(a))
    return keys, children


def _tables(templates: Sequence[SubscriptionTemplate], roots: Sequence[int]) -> tuple[IntArray, IntArray, IntArray]:
    """Encode templates, their edges and the slots of these as kernel rows."""
    T: list[tuple[int, ...]] = []
    E: list[tuple[int, ...]] = []
    S: list[tuple[int, bool]] = []
    for template, root in zip(templates, roots, strict=True):
        first, bound = len(E), (set[int](), set[int]())
        for edge in template.edges:
            at = []
            for chain, known in zip((edge.older, edge.newer), bound, strict=True):
                at += [len(S), len(chain)]
                S += [(slot, slot not in known) for slot in chain]
                known.update(chain)
            E.append((edge.kind, _op(edge.op), *at))
        shown = []
        for nodes in template.shown:
            shown += [len(S), len(nodes)]
            S += [(slot, False) for slot in nodes]
        constants = sum(edge.kind in (Kind.NEWER_IS, Kind.NEWER_CONTAINS) for edge in template.edges)
        partial = any(known - set(nodes) for known, nodes in zip(bound, template.shown, strict=True))
        T.append((root, first, len(template.edges), constants, len(bound[1]), template.strict, *shown, partial))
    return (
        np.array(T, np.int64).reshape(-1, y.T_WIDTH),
        np.array(E, np.int64).reshape(-1, y.E_WIDTH),
        np.array(S, np.int64).reshape(-1, y.S_WIDTH),
    )


def _op(text: str) -> int:
    """Return the number of an operator, plus 8 if it compares texts."""
    sign, _, kind = text.partition(" ")
    return y.OPS.get(sign, 0) + (8 if kind else 0)
