"""Documents on Spark: read where they lie, before the shuffle, so that only what was found in them goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql import types as st

from perseid._version import __version__
from perseid.engines.trees.engine import BODY, PLACE, STREAM, TREES, TYPE, Trees, readings
from perseid.engines.trees.formats import XML
from perseid.engines.trees.row_documents import has_text
from perseid.errors import EventDataError, UnsupportedError
from perseid.local.documents import DOCUMENT, WRONG, Asked, Documents, event_stream
from perseid.local.rows import Events, require_spark
from perseid.local.trees import ERROR, error_column, result_columns, result_fields, textless
from perseid.runtime.contract import Engine
from perseid.spark.arrow import to_arrow, to_spark
from perseid.spark.identity import identity_text
from perseid.spark.inputs import literal, quoted
from perseid.spark.prepare import PrepareJob, RowsJob, watched
from perseid.spark.worker import AHEAD, OURS, settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GIVEN, SAID = OURS + "body", OURS + "stream"
PAYLOAD = "_perseid_payload"
"""The body of a document that is too far ahead, under the name that sources of jobs have for what cannot be read."""


@dataclass(frozen=True)
class ResultsJob(RowsJob):
    """Results as they are, a row each, and a row for each document that cannot be read."""

    trees: Trees
    is_path: bool
    names: tuple[str, ...]
    version: str = __version__

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that ``mapInArrow`` is given."""
        for batch in batches:
            bodies = batch.column(batch.schema.get_field_index(GIVEN))
            for first, reader, findings in readings(self.trees, bodies, self.is_path):
                at = findings.document[findings.firsts] + first
                yield from self.rows(batch, at, result_columns(self.names, reader, findings))
                if findings.refused:
                    bad = findings.refused_from(first)
                    yield from self.rows(batch, [one.row for one in bad], {ERROR: error_column(bad)})
        settle()


def documents_as_events(documents: Documents, asked: Asked) -> Events:
    """A stream of documents as the stream of events that results are."""
    for _, frame in documents.inputs():
        require_spark(frame)
        documents.refuse_returned(asked.variables, frame.columns)
    fields = [st.StructField(name, st.StringType()) for name in (TYPE, *asked.variables)]
    fields.append(st.StructField(PLACE, st.LongType()))
    return event_stream(documents, prepared(documents, TREES, asked.plan(documents), fields))


def prepared(documents: Documents, engine: Engine, plan: object, fields: Sequence[st.StructField]) -> DataFrame:
    """What an engine makes of documents before the shuffle: its ``fields`` beside their columns, whichever input they are of."""
    together = None
    for event_type, frame in documents.inputs():
        kept = _kept(documents, frame, event_type)
        documents.require_time(frame.columns)
        own = [st.StructField(DOCUMENT, st.LongType()), st.StructField(WRONG, st.StringType())]
        is_bounded, payload = AHEAD in kept, None
        if is_bounded and documents.body is not None:
            payload = PAYLOAD
            own += [] if PAYLOAD in kept else [st.StructField(PAYLOAD, st.StringType())]
        schema = st.StructType([*kept.values(), *own, *fields])
        others, given = [_identity(documents, frame)], {BODY: GIVEN}
        if event_type is not None:
            others.append(f"{literal(event_type)} as {SAID}")
            given[STREAM] = SAID
        elif documents.type is not None:
            given[STREAM] = documents.type
        job = PrepareJob(
            (*kept, DOCUMENT),
            pa.schema([(field.name, to_arrow(field.dataType)) for field in schema]),
            engine,
            plan,
            given,
            documents.events.time,
            WRONG,
            AHEAD if is_bounded else None,
            payload,
        )
        read = watched(_sent(documents, frame, kept, *others).mapInArrow(job, schema), frame)
        together = read if together is None else together.unionByName(read, allowMissingColumns=True)
    return cast("DataFrame", together)


def detect_trees(documents: Documents, trees: Trees, names: tuple[str, ...]) -> DataFrame:
    """The DataFrame of what tree patterns find in documents."""
    together = None
    for event_type, frame in documents.inputs():
        kept = _kept(documents, frame, event_type)
        if AHEAD in kept:
            raise UnsupportedError(
                "max_ahead is for documents that patterns or subscriptions relate by their times; tree patterns alone "
                "return what is in each document.",
                hint="Leave out max_ahead=.",
            )
        fields = result_fields(trees)
        documents.refuse_returned((field.name for field in fields), frame.columns)
        schema = st.StructType([*kept.values(), *(st.StructField(one.name, to_spark(one.type)) for one in fields)])
        arrow = pa.schema([(field.name, to_arrow(field.dataType)) for field in schema])
        job = ResultsJob(tuple(kept), arrow, trees, documents.is_path, names)
        read = watched(_sent(documents, frame, kept).mapInArrow(job, schema), frame)
        together = read if together is None else together.unionByName(read, allowMissingColumns=True)
    return cast("DataFrame", together)


def _kept(documents: Documents, frame: DataFrame, event_type: str | None) -> dict[str, st.StructField]:
    """The columns that go on beside what is found: all but bodies, and but what cannot cross to Python."""
    require_spark(frame)
    documents.require(frame.columns, event_type)
    if documents.column is None:
        for field in frame.schema.fields:
            _refuse_textless(field)
    else:
        _require_readable(documents, documents.column, frame.schema[documents.column].dataType)
    fields = [field for field in frame.schema.fields if field.name != documents.body]
    return {one.name: st.StructField(one.name, one.dataType) for one in fields if to_arrow(one.dataType) is not None}


def kept_columns(documents: Documents) -> list[st.StructField]:
    """The columns that go on of any input; a name that several have is one column."""
    found: dict[str, st.StructField] = {}
    for event_type, frame in documents.inputs():
        found = _kept(documents, frame, event_type) | found
    return [field for name, field in found.items() if name != AHEAD]


def has_texts(documents: Documents) -> bool:
    """Are the bodies that are read texts, and not bytes?"""
    frames = [frame for _, frame in documents.inputs()]
    name = documents.column
    if name is None or documents.format != XML:
        return False
    return all(isinstance(frame.schema[name].dataType, st.StringType | st.NullType) for frame in frames)


def _require_readable(documents: Documents, name: str, column: st.DataType) -> None:
    if not isinstance(column, st.StringType | st.BinaryType | st.NullType) or (
        documents.is_path and isinstance(column, st.BinaryType)
    ):
        role = "path" if documents.is_path else "body"
        raise EventDataError(
            f"The column {name!r}, which is to be the {role} of documents, is {column.simpleString()}.",
            hint="A path is a string; a body is a string or binary.",
        )


def _refuse_textless(field: st.StructField) -> None:
    kind = to_arrow(field.dataType)
    if kind is None or not has_text(kind):
        raise textless(field.name, field.dataType.simpleString())


def _sent(documents: Documents, frame: DataFrame, kept: Mapping[str, st.StructField], *others: str) -> DataFrame:
    """What crosses to Python."""
    names = [name for name in kept if name != AHEAD] if documents.column is None else [documents.column]
    body = ", ".join(map(quoted, names))
    # A row that is a document is written as XML where documents are read: the same text there as here.
    given = f"struct({body})" if documents.column is None else body
    if documents.column is not None and isinstance(frame.schema[documents.column].dataType, st.NullType):
        given = f"cast({body} as string)"  # null throughout: every row is a bad document
    return frame.selectExpr(*map(quoted, kept), f"{given} as {GIVEN}", *others)


def _identity(documents: Documents, frame: DataFrame) -> str:
    """What makes a document this document, as SQL."""
    types = {field.name: field.dataType for field in frame.schema.fields if field.name != AHEAD}
    ids = [(name, types[name]) for name in documents.events.id]
    return f"{identity_text(ids, list(types.items()))} as {quoted(DOCUMENT)}"
