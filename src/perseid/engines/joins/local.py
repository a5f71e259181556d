"""Local evaluation of subscriptions: documents of this process as input of the engine, and its rows as a table."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.joins.engine import JOINS
from perseid.engines.joins.plan import JoinsPlan, make_plan
from perseid.engines.joins.publication import Publication, PublicationLevel
from perseid.engines.joins.shard import release
from perseid.engines.trees.formats import XML
from perseid.engines.trees.local import bodies_of, read_documents, reject_document, whole_array
from perseid.engines.trees.stream import Documents
from perseid.errors import EventDataError
from perseid.runtime.arrays import IntArray
from perseid.runtime.document_columns import BODY, DOCUMENT, STREAM
from perseid.runtime.event_batch import Column, concat_batches
from perseid.runtime.local_run import PrepareTable, prepare_local, run_local
from perseid.tables.columns import time_column

PUBLISHED = "published"
"""The column with the text of a document that a subscription has published."""
NUMBERS = pa.schema([(DOCUMENT, pa.int64())])
"""The only column of documents that crosses the engine: equal documents of a table differ in their numbers."""


def match_locally(
    documents: Documents, publication: Publication, expand: bool, results: bool | None = None
) -> pa.Table:
    """Return an Arrow table with a row per pair of documents and choice of nodes, or per notified subscription.

    Subscriptions of a level also read the documents that earlier levels publish. Without levels the table is empty.
    """
    local_documents = _LocalDocuments.read(documents)
    if len(publication.levels) > 1:
        if PUBLISHED in local_documents.table.column_names:
            raise EventDataError(f"Column {PUBLISHED!r} has a reserved name.", hint="Rename the column.")
        local_documents.table = local_documents.table.append_column(
            PUBLISHED, pa.nulls(local_documents.table.num_rows, pa.string())
        )
    with_results = publication.constructs if results is None else results
    tables: list[pa.Table] = []
    for level in publication.levels:
        tables.append(local_documents.match(level, expand, with_results, results is True))
        if level.streams:
            # Without results, rows of several results are one row, so the published ones are constructed on their own.
            local_documents.publish(
                level, tables[-1] if with_results else local_documents.match(level.publishers, False, True, False)
            )
    empty = [] if tables else [JoinsPlan(NUMBERS, expand=expand, results=with_results).schema.empty_table()]
    return local_documents.with_documents(pa.concat_tables([*tables, *empty]).combine_chunks())


@dataclass
class _LocalDocuments:
    """All input and published documents; the number of a document is that of its row in ``table``."""

    documents: Documents
    table: pa.Table
    times: IntArray
    inputs: Sequence[PrepareTable]
    published: list[PrepareTable]
    is_text: bool
    """True if all bodies are strings, not bytes."""

    @classmethod
    def read(cls, documents: Documents) -> _LocalDocuments:
        tables: list[pa.Table] = []
        inputs: list[PrepareTable] = []
        count, is_text = 0, documents.format == XML
        documents.require_streams()
        for event_type, data in documents.inputs():
            table = read_documents(documents, data)
            documents.require(list(table.columns), event_type)
            documents.require_time(list(table.columns))
            tables.append(pa.table({n: whole_array(c) for n, c in table.columns.items() if n != documents.body}))
            bodies = bodies_of(documents, table)
            is_text &= pa.types.is_string(bodies.type) or pa.types.is_large_string(bodies.type)
            names = None if event_type is not None or documents.type is None else table.columns[documents.type]
            streams = pa.array([event_type or ""] * table.rows, pa.string()) if names is None else _texts_of(names)
            inputs.append(_numbered(bodies, streams, time_column(table, documents.events.time), count))
            count += table.rows
        combined = pa.concat_tables(tables, promote_options="permissive")
        return cls(documents, combined, np.concatenate([one.time for one in inputs]), inputs, [], is_text)

    def match(self, level: PublicationLevel, expand: bool, results: bool, always: bool) -> pa.Table:
        """Return the engine's rows for the subscriptions of a level over all documents."""
        plan = _plan_of(level, self.documents, self.is_text, expand=expand, results=results, always=always)
        rows = prepare_local(JOINS, plan, plan.chain_columns, self.inputs, reject_document)
        if self.published:
            count = sum(len(one.time) for one in self.inputs)
            built = prepare_local(
                JOINS,
                replace(plan, format=XML),
                plan.chain_columns,
                self.published,
                lambda record: reject_document(record.shifted(count)),
            )
            rows = concat_batches(rows, built)
        return run_local(JOINS, plan, rows).rows

    def publish(self, level: PublicationLevel, rows: pa.Table) -> None:
        """Add the results in the rows of a level as documents; of their columns only the time and the stream are set."""
        if "subscriptions" in rows.column_names:
            lists = rows["subscriptions"].combine_chunks()
            rows = rows.take(pc.list_parent_indices(lists)).append_column("subscription", lists.flatten())
        streams = pa.array([level.streams.get(owner) for owner in rows["subscription"].to_pylist()], pa.string())
        rows, streams = rows.filter(streams.is_valid()), streams.drop_null()
        if not rows.num_rows:
            return
        left_numbers, right_numbers = (_numbers_of(rows, side) for side in ("left", "right"))
        later = np.where(self.times[right_numbers] > self.times[left_numbers], right_numbers, left_numbers)
        texts = rows["result"].combine_chunks()
        columns = {
            name: column.take(pa.array(later)) if name == self.documents.events.time else pa.nulls(rows.num_rows)
            for name, column in zip(self.table.column_names, self.table.columns, strict=True)
        }
        if self.documents.type in columns:
            columns[self.documents.type] = streams.cast(self.table[self.documents.type].type)
        columns[PUBLISHED] = texts
        self.published.append(_numbered(texts, streams, self.times[later], self.table.num_rows))
        self.table = pa.concat_tables([self.table, pa.table(columns)], promote_options="permissive")
        self.times = np.concatenate([self.times, self.times[later]])

    def with_documents(self, rows: pa.Table) -> pa.Table:
        """Return the engine's rows with the columns of documents instead of their numbers."""
        columns = [whole_array(column) for column in self.table.columns]
        for side in ("left", "right"):
            numbers = pa.array(_numbers_of(rows, side))
            structs = pa.StructArray.from_arrays([one.take(numbers) for one in columns], names=self.table.column_names)
            rows = rows.set_column(rows.schema.get_field_index(side), side, structs)
        return rows


def _plan_of(level: PublicationLevel, documents: Documents, texts: bool, **settings: bool) -> JoinsPlan:
    """Return the plan of a level. The engine caches its index, which is released together with the level."""
    key = (documents.namespaces, documents.trusted, documents.format, texts, *settings.values())
    if key not in level.plans:
        plan = make_plan(
            level.texts,
            NUMBERS,
            program=level.program,
            namespaces=documents.namespaces,
            trusted=documents.trusted,
            format=documents.format,
            texts=texts,
            **settings,
        )
        level.plans[key] = plan
        weakref.finalize(level, release, plan).atexit = False
    return level.plans[key]


def _numbered(bodies: pa.Array, streams: pa.Array, times: IntArray, first: int) -> PrepareTable:
    """Return documents as input of the engine, with numbers from ``first``."""
    numbers = np.arange(first, first + len(times))
    return PrepareTable({BODY: bodies, STREAM: streams}, {DOCUMENT: pa.array(numbers)}, times, numbers)


def _texts_of(names: Column) -> pa.Array:
    column = whole_array(names)
    if pa.types.is_string(column.type):
        return column
    return pa.array([None if one is None else str(one) for one in column.to_pylist()], pa.string())


def _numbers_of(rows: pa.Table, side: str) -> IntArray:
    """By row: the number of the document on one side."""
    return np.asarray(rows[side].combine_chunks().field(0))
