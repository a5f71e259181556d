"""Patterns over an uncertain stream: results are probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from perseid.api.arguments import Frame, tables_of
from perseid.api.pattern_meanings import meanings
from perseid.api.pattern_sources import PatternSources
from perseid.api.stream_kinds.contract import (
    DrawOptions,
    MatchOptions,
    Relations,
    SparkMatchOptions,
    StreamKind,
    WhyNotOptions,
)
from perseid.api.uncertain import draw_uncertain, explain_uncertain, match_uncertain, match_uncertain_on_spark
from perseid.compile.compiler import compile_set
from perseid.engines.uncertain.results import UncertainMatches
from perseid.engines.uncertain.stream import UncertainEvents
from perseid.errors import PerseidError, UnsupportedError
from perseid.viz.why_not import WhyNot

if TYPE_CHECKING:
    from perseid.engines.sequence.match_counts import Counts


class UncertainStreamKind(StreamKind):
    """An uncertain stream."""

    name = "uncertain"
    job_settings: ClassVar[str | None] = "perseid.jobs.stream_kinds.uncertain:UncertainStream"
    has_probabilities = True

    def as_uncertain(self, stream: UncertainEvents, otherwise: PerseidError) -> UncertainEvents:
        """The stream itself."""
        return stream

    def data_of(self, stream: UncertainEvents) -> Iterable[object]:
        """The rows of every table."""
        return stream.frames()

    def match(self, patterns: PatternSources, stream: UncertainEvents, options: MatchOptions) -> UncertainMatches:
        """The probabilities in data of this process."""
        if options.horizon is not None:
            raise UnsupportedError(
                "horizon= (a fixed watermark) is unsupported on uncertain streams.",
                hint="Remove the rows after it instead.",
            )
        tables = tables_of(options.relations)
        return patterns.locate(lambda: match_uncertain(patterns.resolve(), stream, tables, options.emit))

    def match_on_spark(self, patterns: PatternSources, stream: UncertainEvents, options: SparkMatchOptions) -> Frame:
        """The DataFrame of probabilities."""
        return patterns.locate(lambda: match_uncertain_on_spark(patterns.resolve(), stream, options))

    def count(self, patterns: PatternSources, stream: UncertainEvents, relations: Relations) -> list[Counts]:
        """Always an error: an uncertain stream has expected numbers of matches."""
        raise _no_matches("count", "Use match(…, emit=ps.uncertain.expected()).")

    def explain(self, patterns: PatternSources, stream: UncertainEvents) -> str:
        """The meaning of each pattern, then how its probabilities are computed."""
        cores = patterns.resolve()
        meaning = meanings(patterns, patterns.locate(lambda: compile_set(cores)))
        return "\n".join([*meaning, patterns.locate(lambda: explain_uncertain(cores, stream))])

    def why_not(self, patterns: PatternSources, stream: UncertainEvents, options: WhyNotOptions) -> WhyNot:
        """Always an error: an uncertain stream has no partial matches to show."""
        raise _no_matches("why_not", "Use match(…) and explain(…).")

    def draw(self, patterns: PatternSources, stream: UncertainEvents, options: DrawOptions) -> str:
        """The distribution of one key at each step, with the probabilities of the patterns."""
        tables = tables_of(options.relations)
        return patterns.locate(
            lambda: draw_uncertain(patterns.resolve(), stream, tables, options.format, options.key, options.truth)
        )


def _no_matches(method: str, hint: str) -> UnsupportedError:
    return UnsupportedError(
        f"{method} is unsupported on uncertain streams: their results are probabilities.", hint=hint
    )
