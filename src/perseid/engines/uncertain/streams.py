"""What is said of the streams that a pattern is asked of: which of their events are certain, and how the others are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from perseid.semantics.classes import Keys
from perseid.semantics.hidden import HiddenMarkov

CHANCE, READING, LIKELIHOOD = "_p", "_reading", "_likelihood"
"""Columns of rows that are ours: the probability, what was read, and for each hidden value how probable it makes that."""
GIVEN = "_given "
"""What the names of columns begin with that have the value of the step before."""


class Known(Enum):
    """How the events of a stream are known."""

    CERTAIN = "certain"
    INDEPENDENT = "independent"
    """A distribution for each step."""
    LINKED = "linked"
    """A table for each step, by the value of the step before."""
    READ = "read"
    """Readings, and a model of what is behind them."""


@dataclass(frozen=True)
class Inference:
    """How readings become beliefs."""

    name: str
    """filter, lag, smooth, viterbi, likeliest or particles."""
    number: int = 0
    """How many steps to wait, or how many particles there are."""

    @property
    def looks_back(self) -> bool:
        """Whether it needs all readings there will be."""
        return self.name in ("smooth", "viterbi")

    def __str__(self) -> str:
        return f"{self.name}({self.number})" if self.number else self.name


FILTER = Inference("filter")
WAYS = ("filter", "lag", "smooth", "viterbi", "likeliest", "particles")


@dataclass(frozen=True)
class Stream:
    """One kind of event, and how it is known."""

    type: str
    known: Known
    of: tuple[str, ...] = ()
    """The columns of its key, which are certain: whose the events are."""
    about: tuple[str, ...] = ()
    """The columns that are not."""
    model: HiddenMarkov | None = None
    inference: Inference = FILTER
    correlations: bool = True
    """Whether steps are taken to depend on one another; where not, each is as probable as it is by itself."""
    patience: int = 0
    """Of readings: for how many steps silence is a reading too."""

    @property
    def keys(self) -> Keys:
        return Keys(None if self.known is Known.CERTAIN else self.of, self.about)

    @property
    def keeps_belief(self) -> bool:
        """Whether what is known of its chains is kept, and not only what patterns know of them: which readings ahead cannot be
        depends on it."""
        return self.known is Known.READ and (not self.hidden or self.inference.name == "lag")

    @property
    def hidden(self) -> bool:
        """Whether what happens at a step depends on what happened at the one before."""
        if self.known is Known.LINKED:
            return True
        return self.known is Known.READ and self.correlations and self.inference.name in ("filter", "lag", "smooth")


@dataclass(frozen=True)
class Sampling:
    """How far a sampled probability may be off, and how often."""

    epsilon: float = 0.1
    delta: float = 0.1
    seed: int = 0
    always: bool = False
    """Also where an exact answer could be had."""


@dataclass(frozen=True)
class Streams:
    """All that is said of an uncertain stream."""

    parts: tuple[Stream, ...]
    every: int | None = None
    """Microseconds of a step; None: every distinct time is one."""
    sampling: Sampling = field(default_factory=Sampling)
    prune: float = 0.0
    """Weights below this are left out, and counted."""

    @property
    def keys(self) -> dict[str, Keys]:
        return {part.type: part.keys for part in self.parts}

    def part(self, type_: str) -> Stream | None:
        return next((part for part in self.parts if part.type == type_), None)
