"""Patterns over live models: matches of queries found, updated and lost, and changes, are its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from perseid.api.arguments import Frame
from perseid.api.models import additional_events_of, detect_changes, events_of, explain_model
from perseid.api.pattern_meanings import meanings
from perseid.api.pattern_sources import PatternSources
from perseid.api.stream_kinds.contract import MatchOptions, SparkMatchOptions
from perseid.api.stream_kinds.events import EventStreamKind, match_events
from perseid.engines.models.stream import Models, describe_rejected
from perseid.engines.sequence.results import Matches, merge_results
from perseid.engines.sequence.stream import Events
from perseid.errors import PerseidError, UnsupportedError
from perseid.semantics.model_steps import EventStreamGroup, grouped


class ModelStreamKind(EventStreamKind):
    """A stream of changes or frames of live models."""

    name = "model"
    job_settings: ClassVar[str | None] = "perseid.jobs.stream_kinds.models:ModelStream"

    def events_of(self, patterns: PatternSources, stream: Models) -> tuple[PatternSources, Events]:
        """The patterns and the events of the model that they are evaluated over, which all of them must share."""
        found, _ = _event_streams(patterns, stream)
        if len(found) > 1:
            raise UnsupportedError(
                "These patterns need different events of the model.",
                hint=f"Run them one by one: patterns[{patterns.names[0]!r}].",
            )
        return found[0]

    def as_events(self, stream: Models, otherwise: PerseidError) -> Events:
        """Always an error: only patterns turn changes into events."""
        raise otherwise

    def as_models(self, stream: Models, otherwise: PerseidError) -> Models:
        """The stream itself."""
        return stream

    def data_of(self, stream: Models) -> Iterable[object]:
        """The rows of changes."""
        return (stream.data,)

    def match(self, patterns: PatternSources, stream: Models, options: MatchOptions) -> Matches:
        """The matches in changes of this process."""
        streams, bad = _event_streams(patterns, stream)
        done = merge_results([match_events(over, rows, options) for over, rows in streams])
        if bad:
            done.add_rejected(len(bad), describe_rejected(bad))
        return done

    def match_on_spark(self, patterns: PatternSources, stream: Models, options: SparkMatchOptions) -> Frame:
        """The DataFrame of matches."""
        parts = [(group, over.compile(Events([], key=stream.key))) for over, group in group_patterns(patterns, stream)]
        return patterns.locate(lambda: detect_changes(parts, stream, options))

    def explain(self, patterns: PatternSources, stream: Models) -> str:
        """The meaning of each pattern, then the queries of the model."""
        parts = group_patterns(patterns, stream)
        explanations = [meanings(over, over.compile(Events([], key=stream.key))) for over, _ in parts]
        return "\n".join(
            [*(line for lines in explanations for line in lines), explain_model([group for _, group in parts], stream)]
        )


def group_patterns(patterns: PatternSources, stream: Models) -> list[tuple[PatternSources, EventStreamGroup]]:
    """The patterns by the events of the model that they need."""
    parts = []
    additional = additional_events_of(stream)
    groups = patterns.locate(
        lambda: grouped(patterns.all_patterns, stream.queries, stream.key, stream.observe, additional)
    )
    for group in groups:
        requested = tuple(one for one in group.patterns if one.name in patterns.names)
        producers = tuple(one for one in group.patterns if one.name not in patterns.names)
        if requested:
            parts.append((replace(patterns, patterns=requested, producers=producers), group))
    return parts


def _event_streams(patterns: PatternSources, stream: Models) -> tuple[list[tuple[PatternSources, Events]], list[str]]:
    """The patterns with the events of the model that they need, and the reason for each rejected change."""
    found = group_patterns(patterns, stream)
    events, rejected = events_of([group for _, group in found], stream)
    return list(zip([one for one, _ in found], events, strict=True)), rejected
