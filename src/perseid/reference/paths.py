"""Data structures of the oracle: paths through a pattern, their options, and the outcomes of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from perseid.lang.ast import Contiguity
from perseid.semantics import core as c

Todo: TypeAlias = "tuple[c.Core | c.Hop | RepetitionState | Rest | Close, Todo] | None"
"""Rest of the pattern: a linked list of core elements and the markers below."""


@dataclass(frozen=True, slots=True)
class RepetitionState:
    """A repetition after ``count`` iterations.

    ``entered`` is the number of events taken at its start, ``mark`` the number at the start of its last iteration.
    """

    loop: c.Loop
    count: int
    mark: int
    entered: int


@dataclass(frozen=True, slots=True)
class Rest:
    """A conjunction with its pending members; ``entered`` is the number of events taken at its start."""

    all: c.All
    members: tuple[int, ...]
    entered: int


@dataclass(frozen=True, slots=True)
class Close:
    zone: c.Zone


@dataclass(frozen=True, slots=True)
class NegationWatch:
    """An active absence: no match of ``body`` after ``position`` (and after the time ``since``)."""

    body: c.Core
    position: int
    since: int | None
    until: int | None
    depth: int
    """Number of open zones; an absence at the end of a zone lasts until that zone's window closes."""
    conjunction: int | None = None
    """The absence lasts until this conjunction is complete, not only until the next event."""


class Path(NamedTuple):
    """A partial path through the pattern; positions are indices into the partition's events.

    A named tuple: the oracle makes millions of modified copies, which take at least twice as long with a dataclass.
    """

    todo: Todo
    hop: c.Hop | None = None
    together: bool = False
    """The next event may have the same time as the last, as both belong to one conjunction."""
    bound_events: tuple[tuple[int, int], ...] = ()
    current: Mapping[int, int] = MappingProxyType({})
    unified: Mapping[str, object] = MappingProxyType({})
    clock: int = 0
    """Time of the last event, or the end of a timed absence after it."""
    barrier: int | None = None
    """End of a timed absence: the next event must be later."""
    watches: tuple[NegationWatch, ...] = ()
    zones: tuple[tuple[c.Zone, int | None], ...] = ()
    untils: tuple[int, ...] = ()
    """Stop conditions of the repetition of which the next iteration would begin here."""
    combination: tuple[int, ...] = ()
    spare: bool = False
    """The next event would begin an optional iteration of a reluctant repetition."""

    @property
    def last(self) -> int:
        return self.bound_events[-1][1]


@dataclass(frozen=True, slots=True)
class Option:
    """A step that may follow; ``path`` is the state once the step has taken its event."""

    step: int
    path: Path

    @property
    def any(self) -> bool:
        return self.path.hop is not None and self.path.hop.contiguity is Contiguity.ANY

    @property
    def next(self) -> bool:
        return self.path.hop is not None and self.path.hop.contiguity is Contiguity.NEXT


@dataclass(frozen=True, slots=True)
class Accept:
    path: Path


@dataclass(frozen=True, slots=True)
class Found:
    """A path that reached acceptance; ``end`` is the time of its last part, including a timed absence."""

    path: Path
    end: int
    kind: str = "match"


@dataclass(frozen=True, slots=True)
class Open:
    """A path that a later event may still complete."""

    combination: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Stuck:
    """A path that timed out, and the time at which its window closed."""

    path: Path
    end: int


Outcome: TypeAlias = Found | Open | Stuck
