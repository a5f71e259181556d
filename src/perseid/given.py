"""What people give beside their patterns: streams of any kind, relations, horizons; looked at before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from perseid.errors import BindingError, UnsupportedError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.local.documents import Documents
from perseid.local.models import Models
from perseid.local.rows import Events, is_spark, read_relation, require_here, require_spark
from perseid.semantics.core import CorePattern

Frame: TypeAlias = Any
"""A DataFrame of Spark's, of which only :mod:`perseid.spark` knows the types."""
Observation: TypeAlias = Any
"""Spark's, for what is counted beside a DataFrame; None where nobody asks."""
Relations = Mapping[str, Iterable[Iterable[object]]]
_KINDS = {
    ast.QueryEvent: "queries over a live model",
    ast.ModelChange: "changes of a live model",
}


def is_streaming(stream: Events) -> bool:
    """Is the data a stream of Spark's? Other data than Spark's is refused."""
    given = inputs(stream)
    for data in given:
        require_spark(data)
    return any(data.isStreaming for data in given)


def refuse_spark(what: str, stream: object) -> None:
    if isinstance(stream, Models):
        require_here(what, stream.data)
        return
    for data in inputs(stream.events if isinstance(stream, Documents) else declared_stream(stream)):
        require_here(what, data)


def inputs(stream: Events) -> list[Any]:
    return list(stream.data.values()) if isinstance(stream.data, Mapping) else [stream.data]


def on_spark(stream: Events) -> bool:
    return is_spark(next(iter(inputs(stream)), None))


def names_of(data: object) -> list[str]:
    from perseid.local.tables import read_table

    return list(read_table(data, ()).names)


def declared_stream(stream: object) -> Events:
    """Bare rows are a stream with the default column names."""
    return stream if isinstance(stream, Events) else Events(stream)


def tables_of(relations: Relations | None) -> dict[str, list[tuple[object, ...]]]:
    return {name: read_relation(name, rows) for name, rows in by_name(relations).items()}


def by_name(relations: Relations | None) -> Mapping[str, Iterable[Iterable[object]]]:
    if relations is not None and not isinstance(relations, Mapping):
        raise BindingError("Relations are given by name: relations={'Office': [('ann', 220), …]}.")
    return relations or {}


def columns_of(tree: ast.PatternFile) -> list[str]:
    """The columns a table of matches has, however many there are: keys first, then what is returned."""
    names = [".".join(path.parts) for p in tree.patterns for path in p.partition_by]
    for p in tree.patterns:
        names += [o.name or (o.expr.parts[-1] if isinstance(o.expr, ex.Ref) else "") for o in p.returns]
    return list(dict.fromkeys(names))


def refuse_other_streams(cores: list[CorePattern]) -> None:
    for core in cores:
        for step in core.steps:
            if isinstance(step.kind, ast.TreeMatch):
                raise UnsupportedError(
                    f"Pattern {core.name} asks for trees in documents, and its stream is declared as one of events.",
                    hint="Declare it as documents: ps.documents(df, body='xml', time=…).",
                )
            if type(step.kind) in _KINDS:
                raise UnsupportedError(
                    f"Pattern {core.name} asks for {_KINDS[type(step.kind)]}, and its stream is declared as one of events.",
                    hint="Declare it as changes of a model: ps.model(rows, ps.metamodel(…)).",
                )
