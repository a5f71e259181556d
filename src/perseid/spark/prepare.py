"""Run an engine's ``prepare`` on executors, before the shuffle.

Batch and stream run the same stateless function over Arrow batches. On a stream the time column retains the watermark
of the input.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from perseid._version import __version__
from perseid.runtime.arrays import IntArray
from perseid.runtime.contract import Engine
from perseid.spark.inputs import DELAY, quoted
from perseid.spark.worker import Sent, freeze_gc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Numbers: TypeAlias = IntArray | Sequence[int]
"""Row indices."""


@dataclass(frozen=True)
class PrepareJob(Sent):
    """The ``prepare`` of an engine as a ``mapInArrow`` function."""

    passed_columns: tuple[str, ...]
    """Columns that pass unchanged."""
    schema: pa.Schema
    engine: Engine
    plan: object
    engine_columns: Mapping[str, str]
    """Input column by the engine's column name."""
    time: str | None = None
    """The time column, which is null in bad rows."""
    wrong: str | None = None
    """The column with the reason of a bad row."""
    ahead: str | None = None
    """The column with the time of rows that are too far ahead: they bypass ``prepare``, one row each."""
    payload: str | None = None
    """The column with the body of such a row as text; null in all other rows."""
    body: str | None = None
    """The input column with that body."""
    version: str = __version__

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Prepare the rows of each batch."""
        assert self.engine.prepare is not None
        for batch in batches:
            read_rows = batch
            if self.ahead is not None:
                is_ahead = pc.is_valid(batch.column(batch.schema.get_field_index(self.ahead)))
                yield from self._unread(batch, np.flatnonzero(is_ahead))
                read_rows = batch.filter(pc.invert(is_ahead))
            columns = {
                engine_column: read_rows.column(read_rows.schema.get_field_index(input_column))
                for engine_column, input_column in self.engine_columns.items()
            }
            for piece in self.engine.prepare(self.plan, columns):
                yield from self.rows(read_rows, piece.rows, piece.columns)
                if piece.bad and self.time is not None and self.wrong is not None:
                    untimed = pa.nulls(len(piece.bad), self.schema.field(self.time).type)
                    reasons = pa.array([record.message for record in piece.bad], pa.string())
                    columns_of_bad = {self.time: untimed, self.wrong: reasons}
                    yield from self.rows(read_rows, [record.row for record in piece.bad], columns_of_bad)
        freeze_gc()

    def rows(self, batch: pa.RecordBatch, at: Numbers, columns: Mapping[str, pa.Array]) -> Iterator[pa.RecordBatch]:
        """The rows of a batch at these indices, with further columns; columns of the schema in neither are null."""
        if not len(at):
            return
        numbers = pa.array(at, pa.int64())
        values = {name: batch.column(batch.schema.get_field_index(name)).take(numbers) for name in self.passed_columns}
        values |= columns
        arrays = [values[c.name].cast(c.type) if c.name in values else pa.nulls(len(at), c.type) for c in self.schema]
        yield from pa.table(arrays, schema=self.schema).to_batches(max_chunksize=65_536)

    def _unread(self, batch: pa.RecordBatch, at: Numbers) -> Iterator[pa.RecordBatch]:
        """Rows that are too far ahead, without ``prepare``; their body becomes text."""
        if self.payload is None or self.body is None or not len(at):
            yield from self.rows(batch, at, {})
            return
        body = batch.column(batch.schema.get_field_index(self.body)).take(pa.array(at, pa.int64()))
        if pa.types.is_binary(body.type):
            texts = [None if one is None else f"base64:{b64encode(one).decode()}" for one in body.to_pylist()]
            body = pa.array(texts, pa.string())
        yield from self.rows(batch, at, {self.payload: body})


def restore_watermarks(prepared: DataFrame, frame: DataFrame) -> DataFrame:
    """Restore the watermarks of ``frame``, which the Python function hides."""
    delays = {field.name: field.metadata[DELAY] for field in frame.schema.fields if DELAY in field.metadata}
    if not any(name in delays for name in prepared.columns):
        return prepared
    columns = [
        f.col(quoted(name)).alias(name, metadata={DELAY: delays[name]}) if name in delays else f.col(quoted(name))
        for name in prepared.columns
    ]
    return prepared.select(*columns)
