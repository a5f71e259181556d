"""Disorder strategies, as declared on a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perseid.errors import EventDataError, did_you_mean


@dataclass(frozen=True)
class Strategy:
    """The output policy for matches while earlier events may still arrive."""

    name: ClassVar[str] = ""
    tells: ClassVar[str] = ""
    """The output policy in words, for ``explain()``."""
    retracts: ClassVar[bool] = False
    """True if emitted matches may be retracted: the output is a changelog."""


@dataclass(frozen=True)
class Buffer(Strategy):
    """Buffer events until the watermark, sort them, and search. There are no retractions."""

    name: ClassVar[str] = "buffer"
    tells: ClassVar[str] = "what the watermark has made final"


@dataclass(frozen=True)
class Aggressive(Strategy):
    """Emit the matches of the events received so far; retract those that a late event invalidates."""

    name: ClassVar[str] = "aggressive"
    tells: ClassVar[str] = (
        "at once what holds for the events that have come, and takes it back when a late one proves it wrong; rows are changes"
    )
    retracts: ClassVar[bool] = True


@dataclass(frozen=True)
class Assemble(Strategy):
    """Assemble matches from events in any order; emit each when it is complete and no late event can invalidate it."""

    name: ClassVar[str] = "assemble"
    tells: ClassVar[str] = (
        "a match when the last of its events has come, whichever that is; one that negates something when the watermark has "
        "passed that"
    )


@dataclass(frozen=True)
class Early(Assemble):
    """Assemble matches from events in any order; emit each when it is complete; retract it if a late event breaks it."""

    name: ClassVar[str] = "early"
    tells: ClassVar[str] = (
        "a match when the last of its events has come, whichever that is, and takes it back when a late one is what it "
        "negates; rows are changes"
    )
    retracts: ClassVar[bool] = True


@dataclass(frozen=True)
class Adaptive(Strategy):
    """Wait for the delay that covers all but a given share of the events; events with longer delays are late."""

    name: ClassVar[str] = "adaptive"
    tells: ClassVar[str] = (
        "what a frontier has made final that follows the newest event at the delay which all but the allowed share of events had"
    )
    loss: float = 0.01
    """The share of events that may be dropped as late."""

    def __post_init__(self) -> None:
        if not isinstance(self.loss, float | int) or not 0 <= self.loss < 1:
            raise EventDataError(f"Adaptive(loss={self.loss!r}): it is a share of all events, from 0 to below 1.")


@dataclass(frozen=True)
class Conservative(Strategy):
    """Emit matches finalized by punctuations: rows of the stream that rule out further events up to a time."""

    name: ClassVar[str] = "conservative"
    tells: ClassVar[str] = "what promises in the stream, or the watermark, have made final, key by key"
    promise: str = "promise"
    """The column that marks punctuations: ``"key"`` for the row's key, ``"all"`` for every key, null for an event."""
    source: str | None = None
    """The column with the source that a punctuation covers; None: punctuations cover an event type."""
    sources: tuple[str, ...] = ()
    """All sources: a key is complete up to the minimum of their punctuations."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", tuple(self.sources))
        if (self.source is None) != (not self.sources):
            raise EventDataError(
                "Conservative(source=…, sources=…): a key is complete when every source has promised, so all have to be named.",
                hint="Name the column and its values, or neither: then promises are about types of events.",
            )
        if not all(isinstance(name, str) and name for name in self.sources):
            raise EventDataError(f"Conservative(sources={self.sources!r}): every source has a name, which is a text.")


@dataclass(frozen=True)
class Auto(Strategy):
    """Assemble if the patterns and the watermark delay allow it, else buffer; ``explain`` reports the choice."""

    name: ClassVar[str] = "auto"


BUFFER = Buffer()
STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (Buffer, Conservative, Aggressive, Assemble, Early, Adaptive, Auto)
}


def strategy_of(given: str | Strategy | type[Strategy]) -> Strategy:
    """Return a strategy as given, or the one of this name with default settings."""
    if isinstance(given, Strategy):
        return given
    if isinstance(given, type) and issubclass(given, Strategy):
        raise EventDataError(
            f"disorder=ps.{given.__name__} is a kind of strategy, and none yet.",
            hint=f"Write disorder=ps.{given.__name__}(), or disorder={given.name!r}.",
        )
    if given not in STRATEGIES:
        raise EventDataError(
            f"disorder={given!r} is no strategy." + did_you_mean(str(given), STRATEGIES),
            hint=f"There is: {', '.join(STRATEGIES)}.",
        )
    return STRATEGIES[given]()
