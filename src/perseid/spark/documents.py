"""Documents on executors: read where they lie, before the shuffle, so that only what was found in them goes on.

Batch and stream are the same: a function over Arrow batches without state. On a stream the time keeps the watermark that the
caller set below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f
from pyspark.sql import types as st

from perseid._version import __version__
from perseid.engines.trees.reader import Findings, Reader
from perseid.errors import EventDataError
from perseid.local.documents import (
    ANY_DOCUMENT,
    DOCUMENT,
    PLACE,
    TYPE,
    WRONG,
    Asked,
    Documents,
    Trees,
    event_stream,
)
from perseid.local.rows import Events
from perseid.local.trees import ERROR, columns_of, error_column, reader_for, result_columns, result_fields
from perseid.spark.arrow import to_arrow, to_spark
from perseid.spark.identity import identity_text
from perseid.spark.inputs import DELAY, quoted
from perseid.spark.worker import OURS, Sent, settle

BODY = OURS + "body"
PIECE = 1 << 24
"""Bytes of documents that are read before what was found in them goes on."""


@lru_cache(maxsize=4)
def reader_of(trees: Trees) -> Reader:
    """One reader a process: it knows the names of the documents before."""
    return reader_for(trees)


@dataclass(frozen=True)
class DocumentJob(Sent):
    """What an executor has to know to read documents."""

    trees: Trees
    is_path: bool
    kept: tuple[str, ...]
    """Columns of the documents that go on."""
    schema: Any

    def findings(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Reader, Findings]]:
        """What is found, piece by piece, and the rows that the documents of a piece are in."""
        reader = reader_of(self.trees)
        for batch in batches:
            bodies = batch.column(batch.schema.get_field_index(BODY))
            if self.is_path:
                for number, path in enumerate(bodies.to_pylist()):
                    for findings in reader.read_file(number, path):
                        yield batch, reader, findings
                continue
            for begin, end in _pieces(bodies):
                piece = batch.slice(begin, end - begin)
                yield piece, reader, reader.read(bodies.slice(begin, end - begin))
        settle()

    def rows(self, batch: pa.RecordBatch, at: Any, columns: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Rows of documents, with further columns; what is not given is null."""
        if not len(at):
            return
        rows = pa.array(at, pa.int64())
        found = {name: batch.column(batch.schema.get_field_index(name)).take(rows) for name in self.kept} | dict(
            columns
        )
        whole = [found[f.name].cast(f.type) if f.name in found else pa.nulls(len(at), f.type) for f in self.schema]
        yield from pa.table(whole, schema=self.schema).to_batches(max_chunksize=65_536)


def _pieces(bodies: Any) -> Iterator[tuple[int, int]]:
    """Documents in lots of some bytes: a batch of Spark's has as many rows as it has, of any size."""
    begin = size = 0
    for end, length in enumerate(pc.binary_length(bodies).to_pylist(), 1):
        size += length or 0
        if size >= PIECE:
            yield begin, end
            begin, size = end, 0
    if begin < len(bodies):
        yield begin, len(bodies)


@dataclass(frozen=True)
class EventsJob(DocumentJob):
    """Results as events."""

    asked: Asked
    time: str
    type: str | None
    event_type: str | None
    version: str = __version__

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that ``mapInArrow`` is given."""
        for batch, reader, findings in self.findings(batches):
            types = self._types(batch)
            at, columns = columns_of(self.asked, reader, findings, types)
            yield from self.rows(batch, at, columns)
            if findings.refused:
                bad = [one.document for one in findings.refused]
                # Without a time it is a bad row, and is counted as one.
                untimed = pa.nulls(len(bad), self.schema.field(self.time).type)
                wrong = pa.array([one.said for one in findings.refused], pa.string())
                yield from self.rows(batch, bad, {self.time: untimed, WRONG: wrong})
            if self.asked.whole and findings.done:
                yield from self._whole(batch, findings, types)

    def _whole(
        self, batch: pa.RecordBatch, findings: Findings, types: list[str | None] | None
    ) -> Iterator[pa.RecordBatch]:
        """Documents as events themselves, those that could be read."""
        bad = {one.document for one in findings.refused}
        good = [number for number in findings.done if number not in bad]
        names = [ANY_DOCUMENT if types is None else types[number] for number in good]
        own = {TYPE: pa.array(names, pa.string()), PLACE: pa.array(np.zeros(len(good), np.int64))}
        yield from self.rows(batch, good, own)

    def _types(self, batch: pa.RecordBatch) -> list[str | None] | None:
        if self.event_type is not None:
            return [self.event_type] * batch.num_rows
        if self.type is None:
            return None
        return batch.column(batch.schema.get_field_index(self.type)).cast(pa.string()).to_pylist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class ResultsJob(DocumentJob):
    """Results as they are, a row each, and a row for each document that cannot be read."""

    names: tuple[str, ...]
    version: str = __version__

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function that ``mapInArrow`` is given."""
        for batch, reader, findings in self.findings(batches):
            yield from self.rows(
                batch, findings.document[findings.firsts], result_columns(self.names, reader, findings)
            )
            if findings.refused:
                bad = [one.document for one in findings.refused]
                yield from self.rows(batch, bad, {ERROR: error_column(findings.refused)})


def documents_as_events(documents: Documents, asked: Asked) -> Events:
    """A stream of documents as the stream of events that results are."""
    together = None
    for event_type, frame in documents.inputs():
        kept = _kept(documents, frame, event_type)
        fields = [st.StructField(DOCUMENT, st.LongType())]
        fields += [st.StructField(name, st.StringType()) for name in (TYPE, WRONG, *asked.variables)]
        fields.append(st.StructField(PLACE, st.LongType()))
        documents.refuse_returned(asked.variables, frame.columns)
        documents.require_time(frame.columns)
        time = documents.events.time
        schema = st.StructType([*kept.values(), *fields])
        columns = tuple(name for name in (*kept, DOCUMENT))
        arrow = pa.schema([(field.name, to_arrow(field.dataType)) for field in schema])
        job = EventsJob(
            asked.trees(documents), documents.body is None, columns, arrow, asked, time, documents.type, event_type
        )
        read = _sent(documents, frame, kept, identified=True).mapInArrow(job, schema)
        read = _watched(read, frame)
        together = read if together is None else together.unionByName(read, allowMissingColumns=True)
    return event_stream(documents, together)


def detect_trees(documents: Documents, trees: Trees, names: tuple[str, ...]) -> Any:
    """The DataFrame of what tree patterns find in documents."""
    together = None
    for event_type, frame in documents.inputs():
        kept = _kept(documents, frame, event_type)
        fields = result_fields(trees)
        documents.refuse_returned((field.name for field in fields), frame.columns)
        schema = st.StructType([*kept.values(), *(st.StructField(one.name, to_spark(one.type)) for one in fields)])
        arrow = pa.schema([(field.name, to_arrow(field.dataType)) for field in schema])
        job = ResultsJob(trees, documents.body is None, tuple(kept), arrow, names)
        read = _watched(_sent(documents, frame, kept, identified=False).mapInArrow(job, schema), frame)
        together = read if together is None else together.unionByName(read, allowMissingColumns=True)
    return together


def _watched(read: Any, frame: Any) -> Any:
    """With the watermarks that the caller set below: the function in between hides them."""
    delays = {field.name: field.metadata[DELAY] for field in frame.schema.fields if DELAY in field.metadata}
    if not any(name in delays for name in read.columns):
        return read
    columns = [
        f.col(quoted(name)).alias(name, metadata={DELAY: delays[name]}) if name in delays else f.col(quoted(name))
        for name in read.columns
    ]
    return read.select(*columns)


def _kept(documents: Documents, frame: Any, event_type: str | None) -> dict[str, st.StructField]:
    """The columns that go on beside what is found: all but bodies, and but what cannot cross to Python."""
    if not hasattr(frame, "mapInArrow"):
        kind = type(frame)
        raise EventDataError(
            f"detect works on Spark DataFrames, and this is {kind.__module__.split('.')[0]}.{kind.__name__}.",
            hint="For lists, pandas, Arrow and Parquet use match(…): no cluster is needed.",
        )
    documents.require(frame.columns, event_type)
    column = frame.schema[documents.column].dataType
    if not isinstance(column, st.StringType | st.BinaryType) or (
        documents.body is None and isinstance(column, st.BinaryType)
    ):
        role = "path" if documents.body is None else "body"
        raise EventDataError(
            f"The column {documents.column!r}, which is to be the {role} of documents, is {column.simpleString()}.",
            hint="A path is a string; a body is a string or binary.",
        )
    fields = [field for field in frame.schema.fields if field.name != documents.body]
    return {one.name: st.StructField(one.name, one.dataType) for one in fields if to_arrow(one.dataType) is not None}


def _sent(documents: Documents, frame: Any, kept: Mapping[str, st.StructField], *, identified: bool) -> Any:
    """What crosses to Python."""
    columns = [quoted(name) for name in kept]
    columns.append(f"{quoted(documents.column)} as {BODY}")
    if identified:
        types = {field.name: field.dataType for field in frame.schema.fields}
        ids = [(name, types[name]) for name in documents.events.id]
        columns.append(f"{identity_text(ids, list(types.items()))} as {quoted(DOCUMENT)}")
    return frame.selectExpr(*columns)
