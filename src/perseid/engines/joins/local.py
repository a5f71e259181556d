"""Local evaluation of subscriptions over documents: pairs of documents, and the subscriptions that each notifies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from perseid.engines.joins.construction import constructed, nodes_by_side
from perseid.engines.joins.graph import TemplateRow
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import Joined, Joiner, merged_blocks, notified, pairs, require_expandable
from perseid.engines.joins.output import values_of
from perseid.engines.joins.program import compile_chains_once
from perseid.engines.joins.publication import Publication
from perseid.engines.joins.reading import ChainReader
from perseid.engines.trees.formats import DocumentChunk, together
from perseid.engines.trees.local import bodies_of, read_documents, whole_array
from perseid.engines.trees.stream import Documents
from perseid.errors import DocumentError, EventDataError
from perseid.runtime.arrays import IntArray
from perseid.tables.columns import time_column

Told: TypeAlias = dict[str, Any]
"""An output row: documents by their numbers, and the subscriptions or the one subscription that it notifies."""

PART = 4_096
"""Documents that are read and joined per block."""
PUBLISHED = "published"
"""The column with the text of a document that a subscription has published."""
_LEAVE_OUT = "Remove the row. Use ps.xml.tree_patterns(…).match(…) to list all unreadable documents."


def join_here(
    documents: Documents,
    levels: Sequence[Subscriptions],
    expand: bool,
    publication: Publication | None = None,
    results: bool | None = None,
) -> pa.Table:
    """Return an Arrow table with a row per pair of documents and choice of nodes, or per notified subscription.

    Subscriptions of a level also read the documents that earlier levels publish. Without levels the table is empty.
    """
    given = _LocalInput.read(documents)
    if len(levels) > 1 and PUBLISHED in given.kept.column_names:
        raise EventDataError(f"Column {PUBLISHED!r} has a reserved name.", hint="Rename the column.")
    asked = bool(publication is not None and publication.makes) if results is None else results
    maker = None
    if publication is not None and (asked or len(levels) > 1):
        maker = _Maker(publication, given, documents.namespaces, asked, results is True)
    rows: list[Told] = []
    for subscriptions in levels:
        rows += _joined(given, documents, subscriptions, expand, maker)
        if maker is not None:
            given.publish(maker, documents)
    return _table(rows, given, expand, asked, len(levels) > 1)


def _joined(
    given: _LocalInput, documents: Documents, subscriptions: Subscriptions, expand: bool, maker: _Maker | None
) -> Iterator[Told]:
    """Join all documents for one level, and yield the output rows."""
    order = np.argsort(given.times, kind="stable")
    subscriptions.values.keep(np.zeros(0, np.int64))  # evict the texts of documents of earlier calls
    joiner = Joiner(subscriptions)
    program = compile_chains_once(tuple(subscriptions.chains), documents.namespaces)
    reader = ChainReader(program, documents.trusted)
    for begin in range(0, len(order), PART):
        some = order[begin : begin + PART]
        bindings, refused = reader.read(given.bodies.take(pa.array(some)), [given.streams[i] for i in some.tolist()])
        for bad in given.lot.explained([replace(one, row=int(some[one.row])) for one in refused]):
            raise DocumentError(
                f"Row {bad.row + 1}: {bad.reason}", line=bad.line or 1, column=bad.column or 1, hint=_LEAVE_OUT
            )
        joined = joiner.add(given.times[some], bindings)
        yield from (_expanded if expand else _compact)(joined, joiner, order, maker)


@dataclass
class _LocalInput:
    """All input and published documents: columns, bodies, times and streams."""

    kept: pa.Table
    lot: DocumentChunk
    bodies: pa.Array
    times: IntArray
    streams: list[str]
    published: list[str | None] = field(default_factory=list)
    """By document: its text if a subscription published it, else None."""

    @classmethod
    def read(cls, documents: Documents) -> _LocalInput:
        tables, bodies, times, streams = [], [], [], list[str]()
        documents.require_streams()
        for event_type, data in documents.inputs():
            table = read_documents(documents, data)
            documents.require(list(table.columns), event_type)
            documents.require_time(list(table.columns))
            tables.append({n: whole_array(c) for n, c in table.columns.items() if n != documents.body})
            bodies.append(bodies_of(documents, table))
            times.append(time_column(table, documents.events.time))
            named = table.columns[documents.type] if event_type is None and documents.type is not None else None
            streams += (
                [event_type or ""] * table.rows
                if named is None
                else [str(one) for one in whole_array(named).to_pylist()]
            )
        kept = pa.concat_tables([pa.table(columns) for columns in tables], promote_options="permissive")
        lot = together(bodies, documents.format)
        told = np.concatenate([np.zeros(0, np.int64), *times])
        return cls(kept, lot, lot.bodies, told, streams, [None] * len(streams))

    def publish(self, maker: _Maker, documents: Documents) -> None:
        """Add newly published documents; of their columns only the time and the stream are set."""
        new, maker.published = list(maker.published.values()), {}
        if not new:
            return
        later = [max(pair, key=self.times.__getitem__) for _, _, pair in new]
        columns = {
            name: whole_array(column).take(pa.array(later)) if name == documents.events.time else pa.nulls(len(new))
            for name, column in zip(self.kept.column_names, self.kept.columns, strict=True)
        }
        texts, streams = [text for _, text, _ in new], [stream for stream, _, _ in new]
        if documents.type in columns:
            columns[documents.type] = pa.array(streams, pa.string()).cast(self.kept[documents.type].type)
        self.kept = pa.concat_tables([self.kept, pa.table(columns)], promote_options="permissive")
        self.bodies = pa.concat_arrays([self.bodies, pa.array(texts, pa.large_string()).cast(self.bodies.type)])
        self.times = np.concatenate([self.times, self.times[later]])
        self.streams += streams
        self.published += texts


class _Maker:
    """Constructs the results of subscriptions from pairs of documents, and collects the published ones."""

    def __init__(
        self,
        publication: Publication,
        given: _LocalInput,
        namespaces: Sequence[tuple[str, str]],
        told: bool,
        always: bool,
    ) -> None:
        self.publication, self.given, self.namespaces = publication, given, namespaces
        self.told, self.always = told, always
        self.published: dict[tuple[object, ...], tuple[str, str, tuple[int, int]]] = {}
        """By owner, pair and nodes: stream, text and pair. A match by several alternatives is published once."""
        self._last: dict[tuple[object, ...], str] = {}

    def result(self, whose: object, row: TemplateRow, left: int, right: int, nodes: Sequence[int]) -> str | None:
        """Return the result of a subscription for a pair if results are output; publish it if a subscription reads it."""
        number, stream = self.publication.built(whose, self.always), self.publication.stream_of(whose)
        if number is None or not (self.told or stream is not None):
            return None
        sides = nodes_by_side(row, nodes)
        key = (number, left, right, *sides)
        if key not in self._last:
            if len(self._last) > PART:
                self._last.clear()
            one, other = (self.given.bodies[place].as_py() for place in (left, right))
            subscription = self.publication.made(number)
            self._last[key] = constructed(subscription, one, other, sides[0], sides[1], self.namespaces)
        if stream is not None:
            self.published[whose, left, right, *sides] = stream, self._last[key], (left, right)
        return self._last[key] if self.told else None


def _compact(joined: Joined, joiner: Joiner, numbers: IntArray, maker: _Maker | None) -> Iterator[Told]:
    """Yield a row per pair, result and document order: subscriptions with swapped blocks get separate rows."""
    for (group, count, older, newer, nodes), kept in _matching_disjunctions(joined, joiner.subscriptions):
        owners = joiner.subscriptions.whose(group, count, joined.index)
        numbered = [(0, one) for one in owners]
        if kept is not None:
            numbered = [(number, one) for number, one in zip(kept, owners, strict=True) if number >= 0]
        for swapped in (False, True):
            left, right = (int(numbers[one]) for one in ((newer, older) if swapped else (older, newer)))
            whose: dict[tuple[int, str | None], list[object]] = {}
            for number, (name, row) in numbered:
                if row.swapped is swapped:
                    made = None if maker is None else maker.result(name, row, left, right, nodes)
                    whose.setdefault((number, made), []).append(name)
            for (_, made), names in whose.items():
                yield {"subscriptions": names, "left": left, "right": right, "result": made}


def _matching_disjunctions(
    joined: Joined, subscriptions: Subscriptions
) -> Iterator[tuple[tuple[int, int, int, int, list[int]], list[int] | None]]:
    """Yield each pair, and by matching subscription its disjunction number, or -1 if it is merged into another.

    Subscriptions with OR get separate rows by that number; it is 0 for others. None means that all are 0.
    """
    for block in merged_blocks(joined, subscriptions):
        if block.merged is None:
            yield from ((pair, None) for pair in pairs(block.joined))
            continue
        kept = np.where(block.merged.kept, subscriptions.alternatives.disjunctions(block.entry), -1)
        at = 0
        for pair in pairs(block.joined):
            count = pair[1]
            yield pair, kept[at : at + count].tolist()
            at += count


def _expanded(joined: Joined, joiner: Joiner, numbers: IntArray, maker: _Maker | None) -> Iterator[Told]:
    require_expandable(joined)
    for one in notified(joined, joiner.subscriptions):
        left, right = (int(numbers[n]) for n in ((one.newer, one.older) if one.row.swapped else (one.older, one.newer)))
        values = values_of(((one.row, one.nodes), *one.also), joiner, one.older, one.newer)
        made = None if maker is None else maker.result(one.owner, one.row, left, right, one.nodes)
        yield {"subscription": one.owner, "left": left, "right": right, "values": values, "result": made}


def _table(rows: list[Told], given: _LocalInput, expand: bool, made: bool, published: bool) -> pa.Table:
    columns = {name: whole_array(given.kept[name]) for name in given.kept.column_names}
    if published:
        columns[PUBLISHED] = pa.array(given.published, pa.string())
    documents = {
        side: pa.StructArray.from_arrays(
            [one.take(pa.array([row[side] for row in rows], pa.int64())) for one in columns.values()],
            names=list(columns),
        )
        for side in ("left", "right")
    }
    results = {"result": pa.array([row["result"] for row in rows], pa.string())} if made else {}
    if not expand:
        told = pa.array([[str(one) for one in row["subscriptions"]] for row in rows], pa.list_(pa.string()))
        return pa.table({"subscriptions": told, **documents, **results})
    names = pa.array([str(row["subscription"]) for row in rows], pa.string())
    values = pa.array([row["values"] for row in rows], pa.map_(pa.string(), pa.string()))
    return pa.table({"subscription": names, **documents, "values": values, **results})
