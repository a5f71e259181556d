"""The program of a pattern: a flat list of instructions that a small machine follows.

Every instruction is plain data. ``target`` fields are indexes into the same list. A negated part has a program of
its own, named by its index in the plan's list of programs; conditions are named by their index in the plan's
list of predicates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from perseid.lang.ast import Window
from perseid.semantics.core import Hop


@dataclass(frozen=True, slots=True)
class TakeEvent:
    """Wait for an event that fits this step, then go on."""

    step: int


@dataclass(frozen=True, slots=True)
class SetHop:
    """The next event follows the last in this way."""

    hop: Hop


@dataclass(frozen=True, slots=True)
class Split:
    """Go on at each target, the first preferred."""

    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Jump:
    target: int


@dataclass(frozen=True, slots=True)
class LoopEnter:
    register: int


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """Another round, or leave, by the count in the register; greedy prefers another round."""

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
    """A round is done."""

    register: int
    target: int


@dataclass(frozen=True, slots=True)
class AllEnter:
    """Begin a conjunction; none of the ``barred`` programs may match before it is done."""

    register: int
    members: int
    barred: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AllTurn:
    """Any member whose bit in the register is not set; leave once all are."""

    register: int
    hop: Hop
    guards: tuple[int, ...]
    members: tuple[int, ...]
    exit: int


@dataclass(frozen=True, slots=True)
class AllBack:
    """This member is done."""

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
