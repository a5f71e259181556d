"""State of the reference interpreter: threads in a program, and the items of a run in order of preference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from perseid.lang import ast
from perseid.lang.ast import Contiguity
from perseid.semantics import core as c

Register: TypeAlias = tuple[int, int, int]
"""Loops: iterations done, events taken at iteration and loop start. Conjunctions: members done (bits), 0, events."""
CLEAR: Register = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class WatchedProgram:
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
    """A position in a program with its bindings; event positions index the partition's events.

    It is a named tuple, like the oracle's ``Path``, because modified copies are cheap.
    """

    program: int
    pc: int
    registers: tuple[Register, ...]
    hop: c.Hop | None = None
    together: bool = False
    bound_events: tuple[tuple[int, int], ...] = ()
    current: Mapping[int, int] = MappingProxyType({})
    unified: Mapping[str, object] = MappingProxyType({})
    clock: int = 0
    barrier: int | None = None
    watches: tuple[WatchedProgram, ...] = ()
    zones: tuple[OpenZone, ...] = ()
    untils: tuple[int, ...] = ()
    combination: tuple[int, ...] = ()
    spare: bool = False

    @property
    def last(self) -> int:
        return self.bound_events[-1][1]

    def set(self, register: int, value: Register) -> tuple[Register, ...]:
        return (*self.registers[:register], value, *self.registers[register + 1 :])


@dataclass(frozen=True, slots=True)
class Wait:
    """A thread at ``TakeEvent``."""

    step: int
    path: Thread

    @property
    def any(self) -> bool:
        return self.path.hop is not None and self.path.hop.contiguity is Contiguity.ANY

    @property
    def next(self) -> bool:
        return self.path.hop is not None and self.path.hop.contiguity is Contiguity.NEXT


@dataclass(frozen=True, slots=True)
class AcceptedThread:
    """A thread at ``AcceptMatch``."""

    path: Thread


@dataclass(frozen=True, slots=True, eq=False)
class PendingBranch:
    """An option of ``thread``, which has just taken an event; ``broken`` is the time its absence was violated."""

    thread: Thread
    wait: Wait
    closing: int | None
    limits: tuple[tuple[int, int], ...]
    broken: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """Accepted, pending the absences at its end."""

    thread: Thread
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Complete:
    thread: Thread
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class TimedOutOption:
    """An option that timed out, at its position in the order of preference."""

    thread: Thread
    end: int


ListItem: TypeAlias = PendingBranch | Pending | Complete | TimedOutOption


@dataclass(slots=True, eq=False)
class SearchRun:
    start: int
    items: list[ListItem]
    emitted: set[tuple[int, ...]] = field(default_factory=set)
    matched: set[tuple[tuple[int, int], ...]] = field(default_factory=set)
