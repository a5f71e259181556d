"""Output rows: pairs of documents with all notified subscriptions, or one row per subscription."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from perseid.engines.joins import layout as y
from perseid.engines.joins.alternatives import Merged, merge_alternatives, nodes_of
from perseid.engines.joins.construction import ConstructionIndex, constructed, nodes_by_side
from perseid.engines.joins.entries import EntryNumbers
from perseid.engines.joins.graph import Kind, TemplateRow
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import Joined, Joiner, require_expandable
from perseid.engines.joins.plan import BODIES, COLUMN_PREFIX, EPOCH, VALUES, JoinsPlan
from perseid.runtime.arrays import IntArray


class NotificationWriter:
    """Collects the output rows of a call."""

    def __init__(
        self, plan: JoinsPlan, index: Subscriptions, since: IntArray, constructions: ConstructionIndex
    ) -> None:
        self.plan, self.index, self.since, self.constructions = plan, index, since, constructions
        self._parts: list[pa.Table] = []
        self.rows = 0

    def add(self, joined: Joined, documents: pa.Table, base: int, joiner: Joiner) -> None:
        """Add the notifications of a join; ``documents`` are the retained ones, of which the first has number ``base``."""
        if not len(joined.rows):
            return
        entry = self.index.due(joined.rows, joined.index)
        pair = np.repeat(np.arange(len(joined.rows)), joined.rows[:, y.O_COUNT])
        older, newer = (joined.rows[:, column] - base for column in (y.O_OLDER, y.O_NEWER))
        is_retained = older[pair] >= 0
        if self.plan.folder is not None:
            # A subscription matches only documents that arrived after its file was loaded.
            epochs = np.asarray(documents[EPOCH].combine_chunks())
            first_epochs = np.minimum(epochs[np.maximum(older, 0)], epochs[newer])
            is_retained &= first_epochs[pair] >= self.since[entry]
        pair, entry = pair[is_retained], entry[is_retained]
        if not len(pair):
            return
        if self.plan.expand:
            require_expandable(joined)
        merged = None
        if not self.index.alternatives.is_empty:
            merged = merge_alternatives(joined, self.index, pair, entry)
        values: list[list[tuple[str, str]]] = []
        if self.plan.expand:
            values = list(self._values(joined, joiner, pair, entry, merged))
        if merged is not None:
            pair, entry = pair[merged.retained], entry[merged.retained]
        swapped = self.index.numbers.swapped(entry)
        left, right = np.where(swapped, newer[pair], older[pair]), np.where(swapped, older[pair], newer[pair])
        results = self._results(joined, documents, pair, entry, left, right) if self.plan.results else None
        if self.plan.expand:
            texts = pa.array(values, VALUES.type)
            table = self._table(documents, self.index.numbers.names(entry), left, right, texts, results)
        else:
            by = 2 * pair + swapped
            if merged is not None:
                # Different result rows may match alternatives of one subscription, so those with OR get separate rows.
                numbers, number = np.unique(self.index.alternatives.disjunctions(entry), return_inverse=True)
                by = by * len(numbers) + number
            table = self._compact(documents, by, entry, left, right, results)
        self._parts.append(table)
        self.rows += table.num_rows

    def _compact(
        self,
        documents: pa.Table,
        by: IntArray,
        entry: EntryNumbers,
        left: IntArray,
        right: IntArray,
        results: pa.StringArray | None,
    ) -> pa.Table:
        """Return a row per pair, result and document order: subscriptions with swapped blocks get separate rows."""
        if results is not None:
            encoded = results.dictionary_encode(null_encoding="encode")
            by = by * len(encoded.dictionary) + np.asarray(encoded.indices, np.int64)
        order = np.argsort(by, kind="stable")
        by, entry = by[order], entry[order]
        begins = np.flatnonzero(np.concatenate([[True], by[1:] != by[:-1]]))
        offsets = pa.array(np.append(begins, len(by)).astype(np.int32))
        owners = pa.ListArray.from_arrays(offsets, self.index.numbers.names(entry))
        first_rows = order[begins]
        chosen_results = None if results is None else results.take(pa.array(first_rows))
        return self._table(documents, owners, left[first_rows], right[first_rows], None, chosen_results)

    def _values(
        self, joined: Joined, joiner: Joiner, pair: IntArray, entry: EntryNumbers, merged: Merged | None
    ) -> Iterator[list[tuple[str, str]]]:
        """By retained entry: the variables that it compares, and those of its other matching alternatives."""
        rows, pairs, last = self.index.numbers.rows(entry), pair.tolist(), -1
        texts_by_row: dict[tuple[int, int], list[tuple[str, str]]] = {}
        """By pair and template row, which many entries of a pair have in common."""
        for index, i in enumerate(pairs):
            if merged is not None and not merged.retained[index]:
                continue
            if i != last:
                texts_by_row.clear()
                last = i
            texts = []
            for at in (index, *(() if merged is None else merged.also.get(index, ()))):
                key = pairs[at], id(rows[at])
                if key not in texts_by_row:
                    texts_by_row[key] = _first_by_name(_texts(rows[at], joined, pairs[at], joiner))
                texts.append(texts_by_row[key])
            yield texts[0] if len(texts) == 1 else _first_by_name(chain.from_iterable(texts))

    def _results(
        self, joined: Joined, documents: pa.Table, pair: IntArray, entry: EntryNumbers, left: IntArray, right: IntArray
    ) -> pa.StringArray:
        """By entry: its constructed result, or null; equal constructions of the same nodes are computed once."""
        bodies = documents[BODIES]
        results: list[str | None] = []
        constructed_texts: dict[tuple[object, ...], str] = {}
        owner_names = self.index.numbers.names(entry).to_pylist()
        for i, number, owner, a, b in zip(
            pair.tolist(), entry.tolist(), owner_names, left.tolist(), right.tolist(), strict=True
        ):
            subscription = self.constructions.subscription_of(owner)
            if subscription is None:
                results.append(None)
                continue
            sides = nodes_by_side(self.index.numbers.row(number), nodes_of(joined, i))
            key = (id(subscription), a, b, *sides)
            if key not in constructed_texts:
                constructed_texts[key] = constructed(
                    subscription, bodies[a].as_py(), bodies[b].as_py(), *sides, self.plan.namespaces
                )
            results.append(constructed_texts[key])
        return pa.array(results, pa.string())

    def _table(
        self,
        documents: pa.Table,
        owners: pa.Array,
        left: IntArray,
        right: IntArray,
        values: pa.MapArray | None,
        results: pa.StringArray | None,
    ) -> pa.Table:
        columns = [owners]
        for numbers in (left, right):
            indices = pa.array(numbers)
            columns_of_side = [
                documents[COLUMN_PREFIX + name].take(indices).combine_chunks() for name in self.plan.columns.names
            ]
            columns.append(pa.StructArray.from_arrays(columns_of_side, fields=list(self.plan.columns)))
        columns += [column for column in (values, results) if column is not None]
        if self.plan.rejected:
            nulls = pa.nulls(len(left), pa.string())
            columns = [pa.array(["match"] * len(left), pa.string()), *columns, nulls, nulls]
        return pa.table(columns, schema=self.plan.schema)

    def table(self) -> pa.Table:
        return pa.concat_tables([self.plan.schema.empty_table(), *self._parts])


def _first_by_name(texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    by_name: dict[str, str] = {}
    for name, text in texts:
        by_name.setdefault(name, text)
    return list(by_name.items())


def _texts(row: TemplateRow, joined: Joined, pair: int, joiner: Joiner) -> Iterator[tuple[str, str]]:
    """Yield the variables of a notification that an equality compares, with their texts, left block first.

    Other nodes are omitted, because the availability of their texts depends on other subscriptions.
    """
    nodes = nodes_of(joined, pair)
    older, newer = (int(joined.rows[pair, column]) for column in (y.O_OLDER, y.O_NEWER))
    shown = row.template.shown
    older_count = len(shown[0])
    edges = [(edge.older[-1], edge.newer[-1]) for edge in row.template.edges if edge.kind is Kind.EQUAL]
    equal = [set(ends) for ends in zip(*edges, strict=True)]
    sides = list(
        zip((older, newer), (nodes[:older_count], nodes[older_count:]), row.order, row.names, shown, equal, strict=True)
    )
    for document, side_nodes, order, names, slots, ends in reversed(sides) if row.swapped else sides:
        for index, name in zip(order, names, strict=True):
            text = joiner.text_of(document, side_nodes[index]) if name is not None and slots[index] in ends else None
            if name is not None and text is not None:
                yield name, text
