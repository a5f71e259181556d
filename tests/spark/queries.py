"""The query of a plan over DataFrames, and its lowering to SQL."""

from __future__ import annotations

from perseid.compile.plan import Plan
from perseid.engines.sequence.bind import BindOptions, bind_events
from perseid.engines.sequence.stream import Events
from perseid.spark.projection import Projection, project
from perseid.spark.query_driver import SparkTables


def project_events(plan: Plan, stream: Events) -> Projection:
    """The projection of the query of a plan over declared events."""
    data = SparkTables.of(stream.tables())
    query = bind_events(stream, plan, data.schemas, data.columns, data.evaluator, BindOptions(data.streaming))
    return project(query, data.evaluator)
