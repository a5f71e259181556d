"""Checks and conversions of the arguments of queries: streams, relations and patterns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from perseid.api.streams import events
from perseid.engines.sequence.stream import Events
from perseid.errors import BindingError, UnsupportedError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.semantics.core import CorePattern
from perseid.tables.columns import read_table
from perseid.tables.rows import is_spark, read_relation, require_spark

if TYPE_CHECKING:
    import pyspark.sql as spark

Frame: TypeAlias = "spark.DataFrame"
"""A DataFrame of Spark."""
SparkData: TypeAlias = "spark.DataFrame | Mapping[str, spark.DataFrame]"
"""DataFrames: one, or several by event type."""
Observation: TypeAlias = "spark.Observation"
"""The counters of an action of Spark on a DataFrame."""
Relations = Mapping[str, Iterable[Iterable[object]]]
_KINDS = {
    ast.QueryEvent: "queries over a live model",
    ast.ModelChange: "changes of a live model",
}


def is_streaming(stream: Events) -> bool:
    """True for streaming DataFrames; raises for data of this process."""
    tables = inputs(stream)
    for data in tables:
        require_spark(data)
    return any(data.isStreaming for data in tables)


def require_no_observation(streaming: bool, observation: Observation | None) -> None:
    """Raise an error for an observation of a stream."""
    if streaming and observation is not None:
        raise UnsupportedError(
            "observation= requires a batch DataFrame: a streaming query reports its counts for each batch.",
            hint="Use ps.progress(query) with the running query.",
        )


def require_no_spark_options(**options: object) -> None:
    """Raise an error for an option of Spark that is given with local rows."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise UnsupportedError(
                f"{name}= requires a Spark DataFrame, and these rows are local.", hint=f"Remove {name}=."
            )


def inputs(stream: Events) -> list[Any]:
    return list(stream.data.values()) if isinstance(stream.data, Mapping) else [stream.data]


def on_spark(stream: Events) -> bool:
    """True for DataFrames; raises for a mix of DataFrames and local rows."""
    return all_on_spark(inputs(stream))


def all_on_spark(tables: Iterable[object]) -> bool:
    """True for DataFrames, false for local rows; raises for a mix of both."""
    tables = list(tables)
    if not any(map(is_spark, tables)):
        return False
    for data in tables:
        require_spark(data)
    return True


def names_of(data: object) -> list[str]:
    return list(read_table(data, ()).names)


def declared_kind(stream: object) -> str | None:
    """The name of the kind of a declared stream; None for bare rows."""
    return getattr(type(stream), "stream_kind", None)


def declare(stream: object) -> Any:
    """The declared stream; bare rows are events with the default column names."""
    return events(stream) if declared_kind(stream) is None else stream


def tables_of(relations: Relations | None) -> dict[str, list[tuple[object, ...]]]:
    return {name: read_relation(name, rows) for name, rows in by_name(relations).items()}


def by_name(relations: Relations | None) -> Mapping[str, Iterable[Iterable[object]]]:
    if relations is not None and not isinstance(relations, Mapping):
        raise BindingError("relations= expected a dict of tables by name: relations={'Office': [('ann', 220), …]}.")
    return relations or {}


def columns_of(tree: ast.PatternFile) -> list[str]:
    """The columns of a table of matches: keys, then returned values; the same for an empty table."""
    names = [".".join(path.parts) for p in tree.patterns for path in p.partition_by]
    for p in tree.patterns:
        names += [o.name or (o.expr.parts[-1] if isinstance(o.expr, ex.Ref) else "") for o in p.returns]
    return list(dict.fromkeys(names))


def require_event_steps(cores: list[CorePattern]) -> None:
    """Raise an error for a step over documents or models."""
    for core in cores:
        for step in core.steps:
            if isinstance(step.kind, ast.TreeMatch):
                raise UnsupportedError(
                    f"Pattern {core.name} has tree patterns, which need a stream of documents, not of events.",
                    hint="Use ps.documents(df, body='xml', time=…).",
                )
            if type(step.kind) in _KINDS:
                raise UnsupportedError(
                    f"Pattern {core.name} has steps over {_KINDS[type(step.kind)]}, which need a graph model, not a "
                    "stream of events.",
                    hint="Use ps.graph.model(rows, ps.graph.metamodel(…)).",
                )
