"""Patterns over an uncertain stream: results are probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from perseid.api.arguments import Frame, tables_of
from perseid.api.pattern_meanings import meanings
from perseid.api.pattern_sources import PatternSources
from perseid.api.stream_kinds.contract import (
    DetectOptions,
    DrawOptions,
    MatchOptions,
    Relations,
    StreamKind,
    WhyNotOptions,
)
from perseid.api.uncertain import detect_uncertain, draw_beliefs, explain_beliefs, match_beliefs
from perseid.compile.compiler import compile_set
from perseid.engines.uncertain.results import Answers
from perseid.engines.uncertain.stream import Beliefs
from perseid.errors import PerseidError, UnsupportedError
from perseid.viz.why_not import WhyNot

if TYPE_CHECKING:
    from perseid.engines.sequence.match_counts import Counts


class BeliefStreamKind(StreamKind):
    """An uncertain stream."""

    name = "beliefs"
    job_settings: ClassVar[str | None] = "perseid.jobs.stream_kinds.beliefs:BeliefStream"
    has_probabilities = True

    def as_beliefs(self, stream: Beliefs, otherwise: PerseidError) -> Beliefs:
        """The stream itself."""
        return stream

    def match(self, patterns: PatternSources, stream: Beliefs, options: MatchOptions) -> Answers:
        """The probabilities in data of this process."""
        if options.horizon is not None:
            raise UnsupportedError("A horizon is for streams of certain events.", hint="Leave out rows after it.")
        tables = tables_of(options.relations)
        return patterns.locate(lambda: match_beliefs(patterns.resolve(), stream, tables, options.tell))

    def detect(self, patterns: PatternSources, stream: Beliefs, options: DetectOptions) -> Frame:
        """The DataFrame of probabilities."""
        return patterns.locate(lambda: detect_uncertain(patterns.resolve(), stream, options))

    def count(self, patterns: PatternSources, stream: Beliefs, relations: Relations) -> list[Counts]:
        """Always an error: an uncertain stream has expected numbers of matches."""
        raise _no_matches("count", "Ask how many to expect: match(…, tell=ps.expected()).")

    def explain(self, patterns: PatternSources, stream: Beliefs) -> str:
        """The meaning of each pattern, then how its probabilities are computed."""
        cores = patterns.resolve()
        meaning = meanings(patterns, patterns.locate(lambda: compile_set(cores)))
        return "\n".join([*meaning, patterns.locate(lambda: explain_beliefs(cores, stream))])

    def why_not(self, patterns: PatternSources, stream: Beliefs, options: WhyNotOptions) -> WhyNot:
        """Always an error: an uncertain stream has no partial matches to show."""
        raise _no_matches("why_not", "Use match(…) and explain(…).")

    def draw(self, patterns: PatternSources, stream: Beliefs, options: DrawOptions) -> str:
        """The distribution of one key at each step, with the probabilities of the patterns."""
        tables = tables_of(options.relations)
        return patterns.locate(
            lambda: draw_beliefs(patterns.resolve(), stream, tables, options.format, options.key, options.truth)
        )


def _no_matches(method: str, hint: str) -> UnsupportedError:
    return UnsupportedError(f"{method} asks about matches, and an uncertain stream has probabilities.", hint=hint)
