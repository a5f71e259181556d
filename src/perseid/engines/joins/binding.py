"""Binding of subscriptions to a stream of documents: input columns, shuffled columns, and the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from perseid.engines.joins.engine import FILE
from perseid.engines.joins.plan import make_plan
from perseid.engines.joins.table import SUFFIX
from perseid.engines.trees.formats import XML
from perseid.engines.trees.stream import Documents
from perseid.runtime.document_columns import DOCUMENT, WRONG
from perseid.runtime.query import (
    ColumnIdentity,
    ControlFiles,
    Input,
    PrepareInput,
    PrepareStage,
    Query,
    RejectedRows,
    StateOptions,
    TableSchema,
)
from perseid.semantics import types as t

NAME = "subscriptions"
"""The name of the query, and the type of its rows."""


def bind_subscriptions(
    documents: Documents,
    subscriptions: Mapping[str, str] | str,
    schemas: Sequence[TableSchema],
    *,
    expand: bool,
    results: bool,
    always: bool,
    rejected: bool,
    query_partitions: int,
) -> Query:
    """Return the query of subscriptions, as texts by owner or a folder, over documents in tables with these schemas."""
    events = documents.events
    inputs = tuple(documents.bind_events(schema) for schema in schemas)
    columns = _other_columns(inputs, schemas)
    plan = make_plan(
        subscriptions,
        pa.schema(list(columns.items())),
        namespaces=documents.namespaces,
        trusted=documents.trusted,
        format=documents.format,
        expand=expand,
        results=results,
        always=always,
        texts=_has_texts(documents, schemas),
        rejected=rejected,
        shards=query_partitions,
        order=events.order,
        max_state=events.max_state,
    )
    documents_columns = {**plan.chain_columns, **columns}
    files = {} if plan.folder is None else {FILE: pa.string()}
    return Query(
        name=NAME,
        engine="joins",
        plan=plan,
        inputs=(Input({name: name for name in documents_columns}, ColumnIdentity(DOCUMENT)),),
        columns={**documents_columns, **files},
        type_names=(NAME,),
        step_schema=plan.schema,
        schema=plan.schema,
        state=StateOptions(query_partitions, events.max_state, events.idle, events.max_ahead),
        prepare=PrepareStage("joins", plan, plan.chain_columns, inputs),
        broadcast=True,
        control_files=None if plan.folder is None else ControlFiles(plan.folder, SUFFIX, FILE),
        rejected=RejectedRows(tuple(columns), reason=WRONG) if rejected else None,
    )


def _other_columns(inputs: Sequence[PrepareInput], schemas: Sequence[TableSchema]) -> dict[str, pa.DataType]:
    """Return the columns of all tables in addition to the documents; columns with the same name are merged."""
    columns: dict[str, pa.DataType] = {}
    for prepared, schema in zip(inputs, schemas, strict=True):
        columns = {name: schema.columns[name].type for name in prepared.passed_columns} | columns
    return columns


def _has_texts(documents: Documents, schemas: Sequence[TableSchema]) -> bool:
    """Return True if the document bodies are strings, not bytes."""
    name = documents.column
    if name is None or documents.format != XML:
        return False
    columns = [schema.columns[name] for schema in schemas]
    return all(column.is_null or isinstance(column.meaning, t.String) for column in columns)
