"""Rows of notifications: pairs of documents with all who are due them, or one row for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.engines.joins import layout as y
from perseid.engines.joins.graph import Row
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import Joined, Joiner
from perseid.engines.joins.plan import JoinsPlan
from perseid.engines.joins.state import EPOCH, given_columns


class Told:
    """What is told in a call, as it is found."""

    def __init__(self, plan: JoinsPlan, index: Subscriptions, since: Any) -> None:
        self.plan, self.index, self.since = plan, index, since
        self._parts: list[pa.Table] = []
        self.rows = 0

    def add(self, joined: Joined, documents: pa.Table, base: int, joiner: Joiner) -> None:
        """What some documents are due; ``documents`` are all that are kept, from the one with number ``base`` on."""
        if not len(joined.rows):
            return
        pair, entry = due(joined, self.index)
        older, newer = (joined.rows[:, column] - base for column in (y.O_OLDER, y.O_NEWER))
        alive = older[pair] >= 0
        if self.plan.folder is not None:
            # Who came with a file is told of documents that came with it or after it.
            epochs = np.asarray(documents[EPOCH].combine_chunks())
            first = np.minimum(epochs[np.maximum(older, 0)], epochs[newer])
            alive &= first[pair] >= self.since[entry]
        pair, entry = pair[alive], entry[alive]
        if not len(pair):
            return
        swapped = np.array([self.index.numbers[i][1].swapped for i in entry.tolist()], np.bool_)
        if self.plan.expand:
            table = self._expanded(joined, joiner, documents, older, newer, pair, entry, swapped)
        else:
            table = self._compact(documents, older, newer, pair, entry, swapped)
        self._parts.append(table)
        self.rows += table.num_rows

    def _compact(self, documents: Any, older: Any, newer: Any, pair: Any, entry: Any, swapped: Any) -> pa.Table:
        """A row for each pair; those of a group whose left block is the newer document's have a row of their own."""
        by = 2 * pair + swapped
        order = np.argsort(by, kind="stable")
        by, entry = by[order], entry[order]
        begins = np.flatnonzero(np.concatenate([[True], by[1:] != by[:-1]]))
        offsets = pa.array(np.append(begins, len(by)).astype(np.int32))
        whose = pa.ListArray.from_arrays(offsets, self._whose(entry))
        pair, swapped = by[begins] // 2, by[begins] % 2 == 1
        return self._table(documents, [whose], older[pair], newer[pair], swapped, [])

    def _expanded(
        self,
        joined: Joined,
        joiner: Joiner,
        documents: Any,
        older: Any,
        newer: Any,
        pair: Any,
        entry: Any,
        swapped: Any,
    ) -> pa.Table:
        ends = np.append(joined.rows[1:, y.O_AT], len(joined.nodes))
        values = []
        for i, number in zip(pair.tolist(), entry.tolist(), strict=True):
            nodes = joined.nodes[joined.rows[i, y.O_AT] : ends[i]].tolist()
            first, second = int(joined.rows[i, y.O_OLDER]), int(joined.rows[i, y.O_NEWER])
            values.append(list(values_of(self.index.numbers[number][1], joiner, first, second, nodes)))
        made = pa.array(values, self.plan.schema.field("values").type)
        return self._table(documents, [self._whose(entry)], older[pair], newer[pair], swapped, [made])

    def _whose(self, entry: Any) -> pa.Array:
        return pa.array([str(self.index.numbers[i][0]) for i in entry.tolist()], pa.string())

    def _table(
        self, documents: Any, before: list[Any], older: Any, newer: Any, swapped: Any, after: list[Any]
    ) -> pa.Table:
        sides = []
        for numbers in (np.where(swapped, newer, older), np.where(swapped, older, newer)):
            given = [
                column.take(pa.array(numbers)).combine_chunks()
                for column in given_columns(documents, self.plan.columns)
            ]
            sides.append(pa.StructArray.from_arrays(given, fields=list(self.plan.columns)))
        columns = [*before, *sides, *after]
        if self.plan.rejected:
            none = pa.nulls(len(older), pa.string())
            columns = [pa.array(["match"] * len(older), pa.string()), *columns, none, none]
        return pa.table(columns, schema=self.plan.schema)

    def table(self) -> pa.Table:
        return pa.concat_tables([self.plan.schema.empty_table(), *self._parts])


def due(joined: Joined, index: Subscriptions) -> tuple[Any, Any]:
    """Every notification: the number of its pair, and the entry that is told."""
    counts = joined.rows[:, y.O_COUNT]
    firsts = joined.index.ends[joined.rows[:, y.O_GROUP], 0]
    pair = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    return pair, index.order[np.repeat(firsts, counts) + place]


def values_of(row: Row, joiner: Joiner, older: int, newer: int, nodes: list[int]) -> Iterator[tuple[str, str]]:
    """The variables of a notification that are compared, with their texts: those of the left block first."""
    own = len(row.template.shown[0])
    sides = list(zip((older, newer), (nodes[:own], nodes[own:]), row.order, row.names, strict=True))
    for document, some, order, names in reversed(sides) if row.swapped else sides:
        for place, name in zip(order, names, strict=True):
            text = joiner.text_of(document, some[place])
            if name is not None and text is not None:
                yield name, text
