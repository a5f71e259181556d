"""How a stream that is out of order is searched, as it is declared on the stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from perseid.errors import EventDataError, did_you_mean


@dataclass(frozen=True)
class Strategy:
    """What is told of events that may still be joined by earlier ones."""

    name: ClassVar[str] = ""
    tells: ClassVar[str] = ""
    """For people: what is told when."""
    retracts: ClassVar[bool] = False
    """What was told may be taken back: matches come as a changelog."""


@dataclass(frozen=True)
class Buffer(Strategy):
    """Wait for the watermark, put events in order, search. Nothing is ever taken back."""

    name: ClassVar[str] = "buffer"
    tells: ClassVar[str] = "what the watermark has made final"


@dataclass(frozen=True)
class Aggressive(Strategy):
    """Tell at once what holds for the events that have come; take it back when a late one proves it wrong."""

    name: ClassVar[str] = "aggressive"
    tells: ClassVar[str] = (
        "at once what holds for the events that have come, and takes it back when a late one proves it wrong; rows are changes"
    )
    retracts: ClassVar[bool] = True


@dataclass(frozen=True)
class Assemble(Strategy):
    """Put matches together from events in any order; tell each when it is complete and nothing can prove it wrong."""

    name: ClassVar[str] = "assemble"
    tells: ClassVar[str] = (
        "a match when the last of its events has come, whichever that is; one that negates something when the watermark has "
        "passed that"
    )


@dataclass(frozen=True)
class Early(Assemble):
    """Put matches together from events in any order; tell each when it is complete, take it back if it is proved wrong."""

    name: ClassVar[str] = "early"
    tells: ClassVar[str] = (
        "a match when the last of its events has come, whichever that is, and takes it back when a late one is what it "
        "negates; rows are changes"
    )
    retracts: ClassVar[bool] = True


@dataclass(frozen=True)
class Adaptive(Strategy):
    """Wait for as long as events are late, all but a share of them; what comes later still is late."""

    name: ClassVar[str] = "adaptive"
    tells: ClassVar[str] = (
        "what a frontier has made final that follows the newest event at the delay which all but the allowed share of events had"
    )
    loss: float = 0.01
    """The share of events that may be left out."""

    def __post_init__(self) -> None:
        if not isinstance(self.loss, float | int) or not 0 <= self.loss < 1:
            raise EventDataError(f"Adaptive(loss={self.loss!r}): it is a share of all events, from 0 to below 1.")


@dataclass(frozen=True)
class Conservative(Strategy):
    """Tell what promises have made final: rows of the stream that say what can no longer come."""

    name: ClassVar[str] = "conservative"
    tells: ClassVar[str] = "what promises in the stream, or the watermark, have made final, key by key"
    promise: str = "promise"
    """The column that makes a row a promise: ``"key"`` about its key, ``"all"`` about every key, null for an event."""
    source: str | None = None
    """The column that says what a promise is about; None: the type of event."""
    sources: tuple[str, ...] = ()
    """Every source there is: a key is complete up to the least that one of them has promised."""

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
    """Assemble where that can be, else buffer; ``explain`` says which, and why."""

    name: ClassVar[str] = "auto"


BUFFER = Buffer()
STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (Buffer, Conservative, Aggressive, Assemble, Early, Adaptive, Auto)
}


def strategy_of(given: str | Strategy | type[Strategy]) -> Strategy:
    """A strategy by its name, with the settings it has by itself, or as it is given."""
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
