"""Contract of a kind of stream: the methods that pattern sets and other queries call.

A kind is a subclass of :class:`StreamKind` and one line in :mod:`perseid.api.stream_kinds.registry`. Queries and job files call
the methods below; they never test the class of a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from perseid.api.arguments import Frame, Observation
from perseid.api.pattern_sources import PatternSources
from perseid.errors import PerseidError, UnsupportedError
from perseid.tables.rows import is_spark
from perseid.viz.why_not import WhyNot

if TYPE_CHECKING:
    from perseid.engines.models.stream import Models
    from perseid.engines.sequence.match_counts import Counts
    from perseid.engines.sequence.stream import Events
    from perseid.engines.trees.stream import Documents
    from perseid.engines.uncertain.stream import UncertainEvents

Relations = Mapping[str, Iterable[Iterable[object]]]


@dataclass(frozen=True)
class MatchOptions:
    """The parameters of ``match`` over local rows."""

    relations: Relations = field(default_factory=dict)
    horizon: int | None = None
    """Microseconds since 1970 UTC up to which the stream is complete; None: it is complete."""
    emit: object = None
    """The output policy of an uncertain stream."""


@dataclass(frozen=True)
class SparkMatchOptions:
    """The parameters of ``match`` over DataFrames."""

    relations: Relations = field(default_factory=dict)
    observation: Observation | None = None
    rejected: bool | str = False
    checkpoint: str | None = None
    emit: object = None


@dataclass(frozen=True)
class WhyNotOptions:
    """The parameters of ``why_not``."""

    key: object = None
    relations: Relations = field(default_factory=dict)
    shown: int = 3


@dataclass(frozen=True)
class DrawOptions:
    """The parameters of ``draw`` over a stream."""

    format: str = "text"
    relations: Relations = field(default_factory=dict)
    key: object = None
    truth: str | None = None


class StreamKind:
    """A kind of stream; a method that a kind does not override is an :class:`UnsupportedError`."""

    name: ClassVar[str] = ""
    """The name in the registry, in ``stream_kind`` of declarations and in ``kind:`` of job files."""
    job_settings: ClassVar[str | None] = None
    """The settings class for job files, ``package.module:Class``, which only jobs import; None: not in job files."""
    has_probabilities: ClassVar[bool] = False
    """Results have probabilities, so ``emit=`` applies."""

    def data_of(self, stream: Any) -> Iterable[object]:
        """The rows of every input of the stream, which :meth:`is_on_spark` examines."""
        return ()

    def is_on_spark(self, stream: object) -> bool:
        """True if any input is a Spark DataFrame."""
        return any(map(is_spark, self.data_of(stream)))

    def match(self, patterns: PatternSources, stream: Any, options: MatchOptions) -> object:
        """The matches in local rows."""
        raise self._unsupported("match")

    def match_on_spark(self, patterns: PatternSources, stream: Any, options: SparkMatchOptions) -> Frame:
        """The DataFrame of matches in DataFrames, batch or streaming."""
        raise self._unsupported("match")

    def count(self, patterns: PatternSources, stream: Any, relations: Relations) -> list[Counts]:
        """The number of matches of each pattern."""
        raise self._unsupported("count")

    def explain(self, patterns: PatternSources, stream: Any) -> str:
        """An explanation of the patterns over the stream."""
        raise self._unsupported("explain")

    def why_not(self, patterns: PatternSources, stream: Any, options: WhyNotOptions) -> WhyNot:
        """The reasons why the partial matches of one pattern ended."""
        raise self._unsupported("why_not")

    def draw(self, patterns: PatternSources, stream: Any, options: DrawOptions) -> str:
        """The stream of one key, drawn."""
        raise UnsupportedError(
            "draw(stream=…) draws probabilities, and this stream is certain.",
            hint="Remove stream=, or use why_not(…).",
        )

    # Queries other than patterns take the stream as one of the following, or raise the given error.

    def as_events(self, stream: Any, otherwise: PerseidError) -> Events:
        """The stream as declared events: for streams that are evaluated together with events."""
        raise otherwise

    def as_documents(self, stream: Any, otherwise: PerseidError) -> Documents:
        """The stream as documents: for tree patterns and subscriptions."""
        raise otherwise

    def as_uncertain(self, stream: Any, otherwise: PerseidError) -> UncertainEvents:
        """The stream as uncertain events: for learning."""
        raise otherwise

    def as_models(self, stream: Any, otherwise: PerseidError) -> Models:
        """The stream as changes of live models: for rules and repairs."""
        raise otherwise

    def _unsupported(self, method: str) -> UnsupportedError:
        return UnsupportedError(f"{method} is unsupported on a stream of kind {self.name!r}.")
