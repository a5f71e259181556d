"""Run a :class:`~perseid.runtime.query.Query` of any engine on Spark, batch or streaming."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from perseid.errors import UnsupportedError
from perseid.runtime.query import DeclaredTable, Query, TableColumn, TableSchema
from perseid.spark.batch import run_batch
from perseid.spark.inputs import InputFrame, inputs_of
from perseid.spark.projection import SqlEvaluator, internal_schema, project, schema_of, shared_columns, spark_schema
from perseid.spark.stream import are_streams, run_stream
from perseid.spark.worker import FinishTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation


@dataclass(frozen=True)
class RunOptions:
    """Options of one run of a query."""

    relations: Mapping[str, list[tuple[object, ...]]] = field(default_factory=dict)
    checkpoint: str | None = None
    """The checkpoint to validate before anything runs."""
    observation: Observation | None = None


class SparkTables:
    """The DataFrames of a stream's tables, to which a query is bound and over which it runs."""

    def __init__(self, frames: Iterable[InputFrame], streaming: bool) -> None:
        self.frames = list(frames)
        self.streaming = streaming
        self.evaluator = SqlEvaluator(self.frames)

    @classmethod
    def of(cls, tables: Iterable[DeclaredTable]) -> SparkTables:
        """The DataFrames of these tables, with the declared columns validated; either all are streams, or none is."""
        declared = list(tables)
        streaming = are_streams(cast("DataFrame", one.data) for one in declared)
        return cls(inputs_of(declared), streaming)

    @property
    def schemas(self) -> list[TableSchema]:
        """The schema of each DataFrame."""
        return [schema_of(frame) for frame in self.frames]

    @property
    def columns(self) -> dict[str, TableColumn]:
        """The columns of all DataFrames, with the types that they share."""
        return shared_columns(self.frames)

    def run(self, query: Query, options: RunOptions) -> DataFrame:
        """The DataFrame of a query's results; the query has one input for each DataFrame."""
        projection = project(query, self.evaluator, options.relations, options.observation is not None)
        if self.streaming:
            results = run_stream(projection, options.checkpoint)
        else:
            results = run_batch(projection, options.observation)
        if query.finish_by is None:
            return projection.shown(results)
        schema = internal_schema(query.schema, counted=False)
        steps = projection.job.schema.names[: len(query.step_schema)]
        names = dict(zip(query.step_schema.names, steps, strict=True))
        task = FinishTask(projection.job.engine, query.plan, query.step_schema, schema)
        finished = results.select(*steps).repartition(*(names[name] for name in query.finish_by))
        return finished.mapInArrow(task, spark_schema(schema)).toDF(*query.schema.names)


def require_no_rejected(rejected: bool, streams: str, rows: str) -> None:
    """Raise an error if rejected rows are requested as rows of the output."""
    if rejected:
        raise UnsupportedError(
            f"rejected=True is unsupported on {streams}.",
            hint=f"Use ps.progress(query) to count late and bad {rows}.",
        )
