"""Patterns over a stream of documents: results of tree patterns, and documents, are its events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from perseid.api.arguments import all_on_spark, inputs, names_of
from perseid.api.pattern_meanings import explain_trees
from perseid.api.pattern_sources import PatternSources
from perseid.api.stream_kinds.events import EventStreamKind
from perseid.api.trees import check_trees
from perseid.engines.sequence.stream import Events
from perseid.engines.trees.stream import Documents, TreeQuery, check_variables, event_stream, extract_trees
from perseid.errors import PerseidError


class DocumentStreamKind(EventStreamKind):
    """A stream of documents."""

    name = "documents"
    job_settings: ClassVar[str | None] = "perseid.jobs.stream_kinds.documents:DocumentStream"

    def events_of(self, patterns: PatternSources, stream: Documents) -> tuple[PatternSources, Events]:
        """The patterns over the events that documents become, and these events."""
        data = [columns for _, columns in stream.inputs()]
        spark = all_on_spark(data)
        names = [name for one in data for name in (one.columns if spark else names_of(one))]
        patterns.locate(lambda: check_variables(patterns.patterns, names))
        lowered, query = extract_trees(patterns.all_patterns, stream.namespaces)
        patterns.locate(lambda: check_trees((step.tree for step in query.steps), stream))
        if not spark:
            from perseid.engines.trees.local import read_locally

            return patterns.lowered(lowered), patterns.locate(lambda: read_locally(stream, query))
        return patterns.lowered(lowered), patterns.locate(lambda: _events_on_spark(stream, query))

    def as_events(self, stream: Documents, otherwise: PerseidError) -> Events:
        """Always an error: only patterns turn documents into events."""
        raise otherwise

    def as_documents(self, stream: Documents, otherwise: PerseidError) -> Documents:
        """The stream itself."""
        return stream

    def data_of(self, stream: Documents) -> Iterable[object]:
        """The rows of every table."""
        return inputs(stream.events)

    def explain(self, patterns: PatternSources, stream: Documents) -> str:
        """The meaning of each pattern and of its tree patterns, then how documents are read."""
        over, events = self.events_of(patterns, stream)
        return "\n".join([super().explain(over, events), *explain_trees(patterns), f"\n{stream.explain()}"])


def _events_on_spark(stream: Documents, query: TreeQuery) -> Events:
    """The events that documents become on Spark."""
    from perseid.spark.documents import describe_table, prepare_rows

    schemas = [describe_table(frame, event_type) for event_type, frame in stream.inputs()]
    rows = prepare_rows(query.bind(stream, schemas), [frame for _, frame in stream.inputs()])
    return event_stream(stream, rows)
