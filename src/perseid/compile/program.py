"""The program of a pattern: a flat list of instructions for a small virtual machine.

Every instruction is plain data. ``target`` fields are indexes into the same list. A negated part has its own program,
referenced by its index in the plan's list of programs; conditions are referenced by their index in the plan's list of
predicates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from perseid.lang.ast import Window
from perseid.semantics.core import Hop


@dataclass(frozen=True, slots=True)
class TakeEvent:
    """Wait for an event that matches this step, then continue."""

    step: int


@dataclass(frozen=True, slots=True)
class SetHop:
    """Set the relation of the next event to the last one."""

    hop: Hop


@dataclass(frozen=True, slots=True)
class Split:
    """Continue at each target, the first preferred."""

    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Jump:
    target: int


@dataclass(frozen=True, slots=True)
class LoopEnter:
    register: int


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """Start another iteration, or leave, by the count in the register; greedy prefers another iteration."""

    register: int
    low: int
    high: int | None
    reluctant: bool
    hop: Hop
    until: int | None
    guards: tuple[int, ...]
    inside: tuple[int, ...]
    body: int
    exit: int


@dataclass(frozen=True, slots=True)
class LoopBack:
    """Complete an iteration."""

    register: int
    target: int


@dataclass(frozen=True, slots=True)
class AllEnter:
    """Begin a conjunction; none of the ``barred`` programs may match before it is complete."""

    register: int
    members: int
    barred: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AllTurn:
    """Continue with any member with an unset bit in the register; leave once all bits are set."""

    register: int
    hop: Hop
    guards: tuple[int, ...]
    members: tuple[int, ...]
    exit: int


@dataclass(frozen=True, slots=True)
class AllBack:
    """Complete this member of a conjunction."""

    register: int
    member: int
    target: int


@dataclass(frozen=True, slots=True)
class WatchFor:
    """From here on the program must not match: for ``duration``, or until the next event."""

    program: int
    duration: int | None


@dataclass(frozen=True, slots=True)
class ZoneEnter:
    within: Window | None
    holds_for: int | None


@dataclass(frozen=True, slots=True)
class ZoneLeave:
    pass


@dataclass(frozen=True, slots=True)
class AcceptMatch:
    pass


Instruction: TypeAlias = (
    TakeEvent
    | SetHop
    | Split
    | Jump
    | LoopEnter
    | LoopTurn
    | LoopBack
    | AllEnter
    | AllTurn
    | AllBack
    | WatchFor
    | ZoneEnter
    | ZoneLeave
    | AcceptMatch
)


@dataclass(frozen=True, slots=True)
class Program:
    instructions: tuple[Instruction, ...]
    registers: int
