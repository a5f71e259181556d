"""Disorder strategies, as declared on a stream."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import ClassVar

from perseid.deprecated import warn_deprecated
from perseid.errors import EventDataError, nearest

DEFAULT_PUNCTUATION = "punctuation"
"""The column that marks punctuations, unless :class:`Conservative` names another."""


@dataclass(frozen=True)
class Strategy:
    """The output policy for matches while earlier events may still arrive."""

    name: ClassVar[str] = ""
    output_policy: ClassVar[str] = ""
    """The output policy in words, for ``explain()``."""
    retracts: ClassVar[bool] = False
    """True if emitted matches may be retracted: the output is a changelog."""


@dataclass(frozen=True)
class Buffer(Strategy):
    """Buffer events until the watermark, sort them, and search. There are no retractions."""

    name: ClassVar[str] = "buffer"
    output_policy: ClassVar[str] = "the matches that the watermark has made final"


@dataclass(frozen=True)
class Aggressive(Strategy):
    """Emit the matches of the events received so far; retract those that a later arrival invalidates."""

    name: ClassVar[str] = "aggressive"
    output_policy: ClassVar[str] = (
        "matches of the received events at once, and retracts those that a late event invalidates; rows are a changelog"
    )
    retracts: ClassVar[bool] = True


@dataclass(frozen=True)
class Assemble(Strategy):
    """Assemble matches from events in any order; emit each when it is complete and no later arrival can invalidate it."""

    name: ClassVar[str] = "assemble"
    output_policy: ClassVar[str] = (
        "a match when all its events have arrived, in any order; with a negation, when the watermark has passed the "
        "negated interval"
    )


@dataclass(frozen=True)
class Early(Assemble):
    """Assemble matches from events in any order; emit each when complete; retract it if a later arrival invalidates it."""

    name: ClassVar[str] = "early"
    output_policy: ClassVar[str] = (
        "a match when all its events have arrived, in any order, and retracts it when a late event violates a "
        "negation; rows are a changelog"
    )
    retracts: ClassVar[bool] = True


@dataclass(frozen=True)
class Adaptive(Strategy):
    """Wait for the delay that covers all but a given share of the events; events with longer delays are late."""

    name: ClassVar[str] = "adaptive"
    output_policy: ClassVar[str] = (
        "the matches that a frontier has made final; it trails the newest event by the delay that covers all events "
        "but the allowed share"
    )
    loss: float = 0.01
    """The share of events that may be dropped as late."""

    def __post_init__(self) -> None:
        if not isinstance(self.loss, float | int) or not 0 <= self.loss < 1:
            raise EventDataError(f"Adaptive(loss=…): expected a number from 0 to below 1, got {self.loss!r}.")


@dataclass(frozen=True)
class Conservative(Strategy):
    """Emit matches finalized by punctuations: rows of the stream that rule out further events up to a time."""

    name: ClassVar[str] = "conservative"
    output_policy: ClassVar[str] = (
        "the matches of each key that punctuations in the stream, or the watermark, have made final"
    )
    punctuation: str = DEFAULT_PUNCTUATION
    """The column that marks punctuations: ``"key"`` for the row's key, ``"all"`` for every key, null for an event."""
    source: str | None = None
    """The column with the source that a punctuation covers; None: punctuations cover an event type."""
    sources: tuple[str, ...] = ()
    """All sources: a key is complete up to the minimum of their punctuations."""
    promise: InitVar[str | None] = None
    """The deprecated name of ``punctuation``."""

    def __post_init__(self, promise: str | None) -> None:
        if promise is not None:
            warn_deprecated("Conservative(promise=…)", "Conservative(punctuation=…)")
            object.__setattr__(self, "punctuation", promise)
        object.__setattr__(self, "sources", tuple(self.sources))
        if (self.source is None) != (not self.sources):
            raise EventDataError(
                "Conservative(source=…, sources=…): expected both or neither, because a key is complete when every "
                "source has sent a punctuation.",
                hint="Add the missing one, or remove both: then punctuations are about event types.",
            )
        if not all(isinstance(name, str) and name for name in self.sources):
            raise EventDataError(f"Conservative(sources=…): expected non-empty strings, got {self.sources!r}.")


@dataclass(frozen=True)
class Auto(Strategy):
    """Assemble if the patterns and the watermark delay allow it, else buffer; ``explain`` reports the choice."""

    name: ClassVar[str] = "auto"


BUFFER = Buffer()
STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (Buffer, Conservative, Aggressive, Assemble, Early, Adaptive, Auto)
}


def strategy_of(value: str | Strategy | type[Strategy]) -> Strategy:
    """Return a strategy as given, or the one of this name with default settings."""
    if isinstance(value, Strategy):
        return value
    if isinstance(value, type) and issubclass(value, Strategy):
        raise EventDataError(
            f"disorder=ps.disorder.{value.__name__}: expected an instance, got a class.",
            hint=f"Use disorder=ps.disorder.{value.__name__}(), or disorder={value.name!r}.",
        )
    if value not in STRATEGIES:
        raise EventDataError(
            f"Unknown disorder strategy {value!r}.",
            hint=f"Available: {', '.join(STRATEGIES)}.",
            nearest=nearest(str(value), STRATEGIES),
        )
    return STRATEGIES[value]()
