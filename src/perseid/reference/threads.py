"""What the interpreter keeps: threads in a program, and the items of an attempt in order of preference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from perseid.lang import ast
from perseid.lang.ast import Contiguity
from perseid.semantics import core as c

Register: TypeAlias = tuple[int, int, int]
"""Loops: rounds done, events taken when the round began and when the loop did. Conjunctions: a bit per member done."""
CLEAR: Register = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Watched:
    """A program that must not match after ``position`` and ``since``, until a time or the next event."""

    program: int
    position: int
    since: int | None
    until: int | None
    depth: int
    conjunction: int | None = None


@dataclass(frozen=True, slots=True)
class OpenZone:
    within: ast.Window | None
    holds_for: int | None
    first: int | None


class Thread(NamedTuple):
    """A point in a program with everything bound on the way; positions count the partition's events.

    A named tuple, as the oracle's `Path` is: changed copies of one are cheap.
    """

    program: int
    pc: int
    registers: tuple[Register, ...]
    hop: c.Hop | None = None
    together: bool = False
    taken: tuple[tuple[int, int], ...] = ()
    current: Mapping[int, int] = MappingProxyType({})
    unified: Mapping[str, object] = MappingProxyType({})
    clock: int = 0
    barrier: int | None = None
    watches: tuple[Watched, ...] = ()
    zones: tuple[OpenZone, ...] = ()
    untils: tuple[int, ...] = ()
    combination: tuple[int, ...] = ()
    spare: bool = False

    @property
    def last(self) -> int:
        return self.taken[-1][1]

    def set(self, register: int, value: Register) -> tuple[Register, ...]:
        return (*self.registers[:register], value, *self.registers[register + 1 :])


@dataclass(frozen=True, slots=True)
class Wait:
    """A thread that stands before ``TakeEvent``."""

    step: int
    path: Thread

    @property
    def any(self) -> bool:
        return self.path.hop is not None and self.path.hop.contiguity is Contiguity.ANY

    @property
    def next(self) -> bool:
        return self.path.hop is not None and self.path.hop.contiguity is Contiguity.NEXT


@dataclass(frozen=True, slots=True)
class Done:
    """A thread that stands before ``AcceptMatch``."""

    path: Thread


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """An option of ``thread``, which has just taken an event; ``broken`` is when its absence was broken."""

    thread: Thread
    wait: Wait
    closing: int | None
    limits: tuple[tuple[int, int], ...]
    broken: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """Accepted, once the absences at its end are over."""

    thread: Thread
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Complete:
    thread: Thread
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class GivenUp:
    """An option that waited in vain until its window closed, at its place in the order."""

    thread: Thread
    end: int


ListItem: TypeAlias = Waiting | Pending | Complete | GivenUp


@dataclass(slots=True, eq=False)
class Attempt:
    start: int
    items: list[ListItem]
    emitted: set[tuple[int, ...]] = field(default_factory=set)
    taken: set[tuple[tuple[int, int], ...]] = field(default_factory=set)
