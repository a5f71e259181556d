"""Local execution of tree patterns: results of documents in tables of this process, as rows or as events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from perseid.engines.sequence.stream import Events
from perseid.engines.trees.engine import Trees, prepare
from perseid.engines.trees.formats import XML
from perseid.engines.trees.namespaces import warn_of_namespaces
from perseid.engines.trees.results import PATTERN
from perseid.engines.trees.row_documents import has_text, textless
from perseid.engines.trees.stream import Documents, TreeQuery, event_stream
from perseid.errors import DocumentError, EventDataError
from perseid.runtime.contract import BadRecord, Prepared
from perseid.runtime.document_columns import BODY, DOCUMENT, STREAM, TYPE
from perseid.runtime.event_batch import Column
from perseid.runtime.hashing import identities
from perseid.runtime.query import PrepareStage
from perseid.tables.columns import Table, read_table

_REMOVE_HINT = "Remove the row. Use ps.xml.tree_patterns(…).match(…) to list all unreadable documents."


def match_locally(documents: Documents, trees: Trees, names: Sequence[str]) -> pa.Table:
    """Match tree patterns with local documents; return results, and errors of unreadable documents, as a table."""
    stage, tables, bodies = documents.bind_trees(trees, names, ()), [], []
    for event_type, data in documents.inputs():
        table = read_documents(documents, data)
        documents.require(list(table.columns), event_type)
        documents.refuse_returned(stage.columns, list(table.columns))
        bodies.append(bodies_of(documents, table))
        retained = {name: whole_array(column) for name, column in table.columns.items() if name != documents.body}
        tables.append(_run_prepare(stage, retained, {BODY: bodies[-1]}))
    results = pa.concat_tables(tables, promote_options="permissive")
    if documents.format == XML and results[PATTERN].null_count == results.num_rows:
        warn_of_namespaces(documents, bodies, trees.patterns)
    return results


def read_documents(documents: Documents, data: object) -> Table:
    """Return the table of documents; an empty list, which names no columns, gets those that are declared."""
    table = read_table(data, None)
    if table.rows or table.columns:
        return table
    names = dict.fromkeys((documents.column, documents.type, documents.events.time))
    return Table({name: pa.nulls(0, pa.string()) for name in names if name is not None}, 0)


def bodies_of(documents: Documents, table: Table) -> pa.Array:
    """Return the column that documents are read from; if rows are documents, a struct of all columns."""
    if documents.column is None:
        return _rows_of(table)
    column: Column = table.columns[documents.column]
    if hasattr(column, "type") and column.null_count == len(column):
        return pa.nulls(len(column), pa.string())  # all null: the column's type, if any, does not matter
    if documents.body is not None and (not hasattr(column, "type") or not _is_readable(column.type)):
        raise EventDataError(
            f"Column {documents.body!r}, configured as the body of documents, has neither strings nor binary values."
        )
    return whole_array(column)


def _rows_of(table: Table) -> pa.Array:
    columns = {name: whole_array(column) for name, column in table.columns.items()}
    for name, column in columns.items():
        if not has_text(column.type):
            raise textless(name, str(column.type))
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns)) if columns else pa.array([])


def _is_readable(kind: pa.DataType) -> bool:
    is_ = pa.types
    texts = (is_.is_string, is_.is_large_string, is_.is_binary, is_.is_large_binary)
    return any(one(kind) for one in texts)


def read_locally(documents: Documents, query: TreeQuery) -> Events:
    """Return local documents as events; raise an error with the row of one that cannot be read."""
    stage, tables, bodies = query.bind(documents, ()), [], []
    for event_type, data in documents.inputs():
        table = read_documents(documents, data)
        documents.require(list(table.columns), event_type)
        documents.require_time(list(table.columns))
        documents.refuse_returned(query.variables, list(table.columns))
        bodies.append(bodies_of(documents, table))
        tables.append(_events_locally(documents, stage, event_type, table, bodies[-1]))
    events = pa.concat_tables(tables, promote_options="permissive")
    if documents.format == XML and not {step.type for step in query.steps}.intersection(
        pc.unique(events[TYPE]).to_pylist()
    ):
        warn_of_namespaces(documents, bodies, [step.tree for step in query.steps])
    return event_stream(documents, events)


def _events_locally(
    documents: Documents, stage: PrepareStage, event_type: str | None, table: Table, bodies: pa.Array
) -> pa.Table:
    columns = {name: whole_array(column) for name, column in table.columns.items()}
    retained = {name: column for name, column in columns.items() if name != documents.body}
    retained[DOCUMENT] = pa.array(identities([columns[name] for name in documents.events.id], columns))
    inputs = {BODY: bodies}
    if event_type is not None:
        inputs[STREAM] = pa.array([event_type] * table.rows, pa.string())
    elif documents.type is not None:
        inputs[STREAM] = columns[documents.type]
    return _run_prepare(stage, retained, inputs)


def _run_prepare(stage: PrepareStage, retained: Mapping[str, pa.Array], inputs: Mapping[str, pa.Array]) -> pa.Table:
    """Return the rows of ``prepare`` with the columns of their documents; raise an error for a bad record."""
    pieces = [_output_rows(stage, retained, Prepared((), {}))]  # the columns, for tables without documents
    for piece in prepare(stage.plan, inputs):
        for record in piece.bad:
            reject_document(record)
        pieces.append(_output_rows(stage, retained, piece))
    return pa.concat_tables(pieces)


def reject_document(record: BadRecord) -> NoReturn:
    """Raise the error for a local document that cannot be read."""
    raise DocumentError(
        f"Row {record.row + 1}: {record.reason}", line=record.line or 1, column=record.column or 1, hint=_REMOVE_HINT
    )


def _output_rows(stage: PrepareStage, retained: Mapping[str, pa.Array], piece: Prepared) -> pa.Table:
    rows = pa.array(piece.rows, pa.int64())
    columns = {name: column.take(rows) for name, column in retained.items()}
    for name, kind in stage.columns.items():
        columns[name] = piece.columns[name].cast(kind) if name in piece.columns else pa.nulls(len(rows), kind)
    return pa.table(columns)


def whole_array(column: Column) -> pa.Array:
    """Return a column as one Arrow array."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.Array):
        return whole
    try:
        return pa.array(whole)
    except (pa.ArrowException, UnicodeError, OverflowError) as error:
        raise EventDataError(
            f"A column of the documents has values that have no common type: {error}.",
            hint="Cast them to one type, or remove the column.",
        ) from None
