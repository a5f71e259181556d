"""What the oracle follows: paths through a pattern, their options, and how an attempt can end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from perseid.lang.ast import Contiguity
from perseid.semantics import core as c

Todo: TypeAlias = "tuple[c.Core | c.Hop | Round | Rest | Close, Todo] | None"
"""What is left of the pattern: a linked list of core elements and the markers below."""


@dataclass(frozen=True, slots=True)
class Round:
    """A repetition after ``count`` rounds.

    It was entered when ``entered`` events were taken, and its last round began when ``mark`` were.
    """

    loop: c.Loop
    count: int
    mark: int
    entered: int


@dataclass(frozen=True, slots=True)
class Rest:
    """A conjunction with these members still to come; it was entered when ``entered`` events were taken."""

    all: c.All
    members: tuple[int, ...]
    entered: int


@dataclass(frozen=True, slots=True)
class Close:
    zone: c.Zone


@dataclass(frozen=True, slots=True)
class Watch:
    """An absence being watched: no match of ``body`` after ``position`` (and after the time ``since``)."""

    body: c.Core
    position: int
    since: int | None
    until: int | None
    depth: int
    """How many zones were open; an absence at the end of a zone lasts until that zone's window closes."""
    conjunction: int | None = None
    """Lasts until this conjunction is done, and not only until the next event."""


class Path(NamedTuple):
    """One way through the pattern so far; positions are indexes into the partition's events.

    A named tuple: the oracle makes millions of changed copies, and those of a frozen dataclass take twice as long or more.
    """

    todo: Todo
    hop: c.Hop | None = None
    together: bool = False
    """The next event may have the same time as the last: both belong to one conjunction."""
    taken: tuple[tuple[int, int], ...] = ()
    current: Mapping[int, int] = MappingProxyType({})
    unified: Mapping[str, object] = MappingProxyType({})
    clock: int = 0
    """The time of the last event, or the end of a timed absence after it."""
    barrier: int | None = None
    """The end of a timed absence: the next event must be later."""
    watches: tuple[Watch, ...] = ()
    zones: tuple[tuple[c.Zone, int | None], ...] = ()
    untils: tuple[int, ...] = ()
    """Stop conditions of the repetition whose next round would begin here."""
    combination: tuple[int, ...] = ()
    spare: bool = False
    """The next event would begin a round that a reluctant repetition could do without."""

    @property
    def last(self) -> int:
        return self.taken[-1][1]


@dataclass(frozen=True, slots=True)
class Option:
    """A step the path could go on with; ``path`` is what is left once it has taken its event."""

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
    """A path that reached acceptance; ``end`` is the time of its last part, a timed absence included."""

    path: Path
    end: int
    kind: str = "match"


@dataclass(frozen=True, slots=True)
class Open:
    """A path that a later event may still complete."""

    combination: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Stuck:
    """A path that waited in vain until a window closed, and when that was."""

    path: Path
    end: int


Outcome: TypeAlias = Found | Open | Stuck
