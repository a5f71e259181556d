"""Subscriptions with OR: several entries of one owner, and one notification for what more than one of them finds.

The kernel evaluates each alternative of a predicate by itself, so a pair of documents may be found once for each of them.
A notification is a subscription, its two documents and their nodes; here the entries that find the same one are merged.
Subscriptions without OR have no place in these tables, and an index without OR skips all of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from perseid.engines.joins import layout as y
from perseid.engines.joins.construction import nodes_by_side
from perseid.engines.joins.entries import Entries, EntryNumbers
from perseid.runtime.arrays import BoolArray, IntArray


class FoundRows(Protocol):
    """The rows that a join finds, and the nodes they name."""

    @property
    def rows(self) -> IntArray: ...
    @property
    def nodes(self) -> IntArray: ...


class RegisteredEntries(Protocol):
    """The entries of registered subscriptions, and which of them are alternatives."""

    @property
    def alternatives(self) -> Alternatives: ...
    @property
    def numbers(self) -> Entries: ...


class Alternatives:
    """Entries that are alternatives of one subscription in one order of its documents: a *family*."""

    def __init__(self) -> None:
        self._entries = np.zeros(0, np.int64)
        self._families = np.zeros(0, np.int64)
        """By place in ``_entries``, which rise: the family."""
        self._disjunctions = np.zeros(0, np.int64)
        """By family: the number of its alternatives' prefixes; families with one number evaluate the same predicate."""
        self._numbers: dict[tuple[int, ...], int] = {}
        """By the prefixes of a disjunction: its number."""
        self._pending: list[tuple[IntArray, IntArray]] = []
        """Families that were added since the last lookup: they are sorted in once for all of them."""

    def __bool__(self) -> bool:
        return len(self._entries) > 0 or bool(self._pending)

    def add(self, entries: IntArray, prefixes: IntArray) -> None:
        """Add families: a row of entries each, in the order of the alternatives, and the prefix each of them ends at."""
        if entries.size:
            self._pending.append((entries, prefixes))

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
        if not self:
            return np.full(len(entries), -1, np.int64)
        self._sort_pending()
        at = np.minimum(np.searchsorted(self._entries, entries), len(self._entries) - 1)
        return np.where(self._entries[at] == entries, self._families[at], -1)

    def disjunctions(self, entries: EntryNumbers) -> IntArray:
        """By entry: the number of the disjunction that its family evaluates, from 1; 0 where it has no alternatives."""
        families = self.families(entries)
        if not self:
            return np.zeros(len(entries), np.int64)
        return np.where(families < 0, 0, self._disjunctions[families] + 1)


@dataclass(frozen=True)
class Merged:
    """Which of the entries that were found are notifications of their own."""

    kept: BoolArray
    """By place: True for the first alternative that finds a notification, and for all that have no alternatives."""
    also: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By place of one that is kept: the places of other alternatives that find the same."""


def merge_alternatives(
    joined: FoundRows, subscriptions: RegisteredEntries, pair: IntArray, entry: EntryNumbers
) -> Merged | None:
    """Merge alternatives that find the same pair of documents and the same nodes; None where nothing has alternatives.

    ``pair`` and ``entry`` are the rows that were found and the entries they are due to, one beside the other.
    """
    if not subscriptions.alternatives:
        return None
    families = subscriptions.alternatives.families(entry)
    places = np.flatnonzero(families >= 0)
    if not len(places):
        return None
    found: dict[tuple[object, ...], list[int]] = {}
    for place in _repeated(joined, families, pair, entry, places).tolist():
        row = joined.rows[pair[place]]
        sides = nodes_by_side(subscriptions.numbers.row(int(entry[place])), nodes_of(joined, int(pair[place])))
        key = (int(families[place]), int(row[y.O_OLDER]), int(row[y.O_NEWER]), *sides)
        found.setdefault(key, []).append(place)
    kept = np.ones(len(entry), np.bool_)
    also: dict[int, Sequence[int]] = {}
    for first, *others in found.values():
        if others:
            kept[others] = False
            also[first] = others
    return Merged(kept, also)


def _repeated(joined: FoundRows, families: IntArray, pair: IntArray, entry: EntryNumbers, places: IntArray) -> IntArray:
    """The places whose family finds their pair of documents more than once, by family and pair.

    Within these they are in the order of the entries, in which the alternatives are written: the first one is kept.
    """
    older, newer = (joined.rows[pair[places], column] for column in (y.O_OLDER, y.O_NEWER))
    order = np.lexsort((entry[places], older, newer, families[places]))
    keys = np.stack([families[places], older, newer])[:, order]
    same = (keys[:, 1:] == keys[:, :-1]).all(axis=0)
    repeated = np.zeros(len(places), np.bool_)
    repeated[1:] = same
    repeated[:-1] |= same
    return places[order[repeated]]


def nodes_of(joined: FoundRows, pair: int) -> list[int]:
    """The nodes that a row of what was found names."""
    end = joined.rows[pair + 1, y.O_AT] if pair + 1 < len(joined.rows) else len(joined.nodes)
    return joined.nodes[joined.rows[pair, y.O_AT] : end].tolist()  # type: ignore[no-any-return]
