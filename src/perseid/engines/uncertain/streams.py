"""Descriptions of the streams that patterns read: certain events, and the kinds of uncertainty of the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from perseid.errors import EventDataError
from perseid.semantics.classes import Keys
from perseid.semantics.hidden import HiddenMarkov

CHANCE, READING, LIKELIHOOD = "_p", "_reading", "_likelihood"
"""Internal columns: probability, reading, and for each hidden value the likelihood of the reading."""
GIVEN = "_given "
"""Prefix of internal columns with the value of the previous step."""


class Known(Enum):
    """Kind of (un)certainty of a stream's events."""

    CERTAIN = "certain"
    INDEPENDENT = "independent"
    """A distribution for each step."""
    LINKED = "linked"
    """A transition table for each step, by the value of the previous one."""
    READ = "read"
    """Readings, and a hidden Markov model."""


@dataclass(frozen=True)
class Inference:
    """Inference algorithm for a stream with readings."""

    name: str
    """One of filter, lag, smooth, viterbi, likeliest and particles."""
    number: int = 0
    """Lag in steps, or number of particles."""

    @property
    def looks_back(self) -> bool:
        """True if it needs all readings, including later ones."""
        return self.name in ("smooth", "viterbi")

    def __str__(self) -> str:
        return f"{self.name}({self.number})" if self.number else self.name


FILTER = Inference("filter")
WAYS = ("filter", "lag", "smooth", "viterbi", "likeliest", "particles")


@dataclass(frozen=True)
class Stream:
    """One event type, and its kind of uncertainty."""

    type: str
    known: Known
    of: tuple[str, ...] = ()
    """Key columns, which are certain."""
    about: tuple[str, ...] = ()
    """Uncertain columns."""
    model: HiddenMarkov | None = None
    inference: Inference = FILTER
    correlations: bool = True
    """True if the dependence between steps is modeled; False if each step has its marginal distribution."""
    patience: int = 0
    """For readings: the number of steps without a row that count as "nothing was read"."""

    @property
    def keys(self) -> Keys:
        return Keys(None if self.known is Known.CERTAIN else self.of, self.about)

    @property
    def stores_belief(self) -> bool:
        """True if filtered distributions are stored per chain, in addition to pattern states; a lag needs them to find
        readings with zero likelihood."""
        return self.known is Known.READ and (not self.hidden or self.inference.name == "lag")

    @property
    def hidden(self) -> bool:
        """True if a step depends on the previous one."""
        if self.known is Known.LINKED:
            return True
        return self.known is Known.READ and self.correlations and self.inference.name in ("filter", "lag", "smooth")


@dataclass(frozen=True)
class Sampling:
    """Sampling: the error of a probability exceeds ``epsilon`` with a probability of at most ``delta``."""

    epsilon: float = 0.1
    delta: float = 0.1
    seed: int = 0
    always: bool = False
    """Sample even if exact evaluation is possible."""

    def __post_init__(self) -> None:
        for name, number in (("epsilon", self.epsilon), ("delta", self.delta)):
            if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < 1:
                raise EventDataError(f"{name}={number!r}: expected a number between 0 and 1.")


@dataclass(frozen=True)
class Streams:
    """Description of an uncertain stream."""

    parts: tuple[Stream, ...]
    every: int | None = None
    """Length of a step in microseconds; None if every distinct time is a step."""
    sampling: Sampling = field(default_factory=Sampling)
    prune: float = 0.0
    """Weights below this are dropped, and added to the error."""

    @property
    def keys(self) -> dict[str, Keys]:
        return {part.type: part.keys for part in self.parts}

    def part(self, type_: str) -> Stream | None:
        return next((part for part in self.parts if part.type == type_), None)
