"""Subscriptions with OR: several entries of one owner, and one notification for a pair that several of them match.

The kernel evaluates the alternatives of a predicate independently, so each of them may match the same pair of documents.
A notification is a subscription, two documents and their nodes; this module merges the entries that match the same one.
Subscriptions without OR are not in these tables, and an index without OR skips the merge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from perseid.engines.joins import layout as y
from perseid.engines.joins.construction import nodes_by_side
from perseid.engines.joins.entries import EntryNumbers, SubscriptionStore
from perseid.runtime.arrays import BoolArray, IntArray


class FoundRows(Protocol):
    """The result rows of a join, and their nodes."""

    @property
    def rows(self) -> IntArray: ...
    @property
    def nodes(self) -> IntArray: ...


class RegisteredEntries(Protocol):
    """The entries of registered subscriptions, and their families of alternatives."""

    @property
    def alternatives(self) -> Alternatives: ...
    @property
    def numbers(self) -> SubscriptionStore: ...


class Alternatives:
    """Entries that are alternatives of one subscription in one order of its documents: a *family*."""

    def __init__(self) -> None:
        self._entries = np.zeros(0, np.int64)
        self._families = np.zeros(0, np.int64)
        """By index in ``_entries``, which are ascending: the family."""
        self._disjunctions = np.zeros(0, np.int64)
        """By family: its disjunction number; families with the same number evaluate the same predicate."""
        self._numbers: dict[tuple[int, ...], int] = {}
        """By the prefixes of a disjunction: its number."""
        self._pending: list[tuple[IntArray, IntArray]] = []
        """Families added since the last lookup, which sorts them all in at once."""
        self.is_empty = True

    def add(self, entries: IntArray, prefixes: IntArray) -> None:
        """Add families: a row of entries each, in the order of the alternatives, and the end prefix of each entry."""
        if entries.size:
            self._pending.append((entries, prefixes))
            self.is_empty = False

    def _sort_pending(self) -> None:
        if not self._pending:
            return
        pending, self._pending = self._pending, []
        sizes = np.concatenate([np.full(len(entries), entries.shape[1]) for entries, _ in pending])
        numbers = len(self._disjunctions) + np.repeat(np.arange(len(sizes)), sizes)
        self._entries = np.concatenate([self._entries, *(entries.ravel() for entries, _ in pending)])
        self._families = np.concatenate([self._families, numbers])
        order = np.argsort(self._entries, kind="stable")
        self._entries, self._families = self._entries[order], self._families[order]
        rows = (tuple(row) for _, prefixes in pending for row in prefixes.tolist())
        new = [self._numbers.setdefault(row, len(self._numbers)) for row in rows]
        self._disjunctions = np.concatenate([self._disjunctions, np.array(new, np.int64)])

    def families(self, entries: EntryNumbers) -> IntArray:
        """By entry: its family, or -1."""
        if self.is_empty:
            return np.full(len(entries), -1, np.int64)
        self._sort_pending()
        at = np.minimum(np.searchsorted(self._entries, entries), len(self._entries) - 1)
        return np.where(self._entries[at] == entries, self._families[at], -1)

    def disjunctions(self, entries: EntryNumbers) -> IntArray:
        """By entry: the number of its family's disjunction, from 1; 0 if it has no alternatives."""
        families = self.families(entries)
        if self.is_empty:
            return np.zeros(len(entries), np.int64)
        return np.where(families < 0, 0, self._disjunctions[families] + 1)


@dataclass(frozen=True)
class Merged:
    """The matched entries, deduplicated to one per notification."""

    retained: BoolArray
    """By index: True for the first alternative that matches a notification, and for all entries without alternatives."""
    also: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By index of a retained entry: the indices of other alternatives with the same notification."""


def merge_alternatives(
    joined: FoundRows, subscriptions: RegisteredEntries, pair: IntArray, entry: EntryNumbers
) -> Merged | None:
    """Merge alternatives that match the same pair of documents and nodes; None if none of the entries has any.

    ``pair`` and ``entry`` are parallel arrays of result rows and the entries that they notify.
    """
    families = subscriptions.alternatives.families(entry)
    indices = np.flatnonzero(families >= 0)
    if not len(indices):
        return None
    by_notification: dict[tuple[object, ...], list[int]] = {}
    for index in _repeated(joined, families, pair, entry, indices).tolist():
        row = joined.rows[pair[index]]
        sides = nodes_by_side(subscriptions.numbers.row(int(entry[index])), nodes_of(joined, int(pair[index])))
        key = (int(families[index]), int(row[y.O_OLDER]), int(row[y.O_NEWER]), *sides)
        by_notification.setdefault(key, []).append(index)
    retained = np.ones(len(entry), np.bool_)
    also: dict[int, Sequence[int]] = {}
    for first, *others in by_notification.values():
        if others:
            retained[others] = False
            also[first] = others
    return Merged(retained, also)


def _repeated(
    joined: FoundRows, families: IntArray, pair: IntArray, entry: EntryNumbers, indices: IntArray
) -> IntArray:
    """Return the indices of entries with a family that matches their pair of documents repeatedly, by family and pair.

    Within a family and pair they are in entry order, the order of the alternatives in the text; the first is retained.
    """
    older, newer = (joined.rows[pair[indices], column] for column in (y.O_OLDER, y.O_NEWER))
    order = np.lexsort((entry[indices], older, newer, families[indices]))
    keys = np.stack([families[indices], older, newer])[:, order]
    same_as_next = (keys[:, 1:] == keys[:, :-1]).all(axis=0)
    repeated = np.zeros(len(indices), np.bool_)
    repeated[1:] = same_as_next
    repeated[:-1] |= same_as_next
    return indices[order[repeated]]


def nodes_of(joined: FoundRows, pair: int) -> list[int]:
    """Return the nodes of a result row."""
    end = joined.rows[pair + 1, y.O_AT] if pair + 1 < len(joined.rows) else len(joined.nodes)
    return joined.nodes[joined.rows[pair, y.O_AT] : end].tolist()  # type: ignore[no-any-return]
