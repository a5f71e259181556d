"""The plan: what a set of patterns is compiled to. It is data, printable, and says all an engine has to know.

A plan is always of a set; one pattern is a set of one. The fields under "for the drivers" are what the engine
contract needs from the start: how rows are routed, what is kept and for how long, when a shard has to be woken,
which rows come out and whether they can be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perseid.compile.program import AllTurn, LoopTurn, Program
from perseid.lang.expressions import Expr
from perseid.semantics.core import CorePattern
from perseid.semantics.facts import Facts, Known

PLAN_VERSION = 1
OPEN_CAP = 100_000
"""The cap of patterns that say ``within forever``."""

RowKind = Literal["match", "timed out", "late", "bad", "ahead", "counter"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition of the set, stored once however many patterns ask it.

    ``identity`` names it across versions of a set: state refers to predicates by it and never by position.
    """

    id: int
    identity: str
    expr: Expr
    event_local: bool
    """One event decides it, so it can be decided before the shuffle."""
    event_type: str | None
    """The type of event it is asked of, where it is asked of one type only."""


@dataclass(frozen=True, slots=True)
class Route:
    """One way rows are partitioned; patterns with equal ``partition by`` share it."""

    id: int
    paths: tuple[tuple[str, ...], ...]
    """Each a column, or the way to a field inside one."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What the keys are called where matches are shown."""
        return tuple(".".join(path) for path in self.paths)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that has to reach the engine, of events of these types (None: of all)."""

    name: str
    event_types: tuple[str, ...] | None
    kept: bool
    """Still asked for once the event is taken, so it is part of state."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept per key, and for how long in event time."""

    kind: Literal["empty", "window", "unbounded"]
    micros: int | None
    events: int | None
    cap: int | None = None
    """Where nothing else bounds it: how many attempts, or partial matches, are kept open per key. When one more would
    be, the oldest is given up and counted."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step by the numbers of its predicates; ``needs`` holds a condition back until these steps are bound."""

    step: int
    choose: tuple[tuple[int, tuple[int, ...]], ...]
    must: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PatternPlan:
    """One pattern of the set."""

    pattern: CorePattern
    facts: Facts
    programs: tuple[Program, ...]
    """The body first, then those of what is negated."""
    leads: tuple[tuple[int, int], ...]
    """(program, microseconds): absences that look back from the first event."""
    steps: tuple[StepPlan, ...]
    guards: tuple[int, ...]
    route: int
    feeds_on: tuple[str, ...]
    # for the drivers
    retention: Retention
    wake: tuple[Known, ...]
    """What can make the engine speak without a new event: an absence's deadline, a closing window, or nothing."""
    row_kinds: tuple[RowKind, ...]

    @property
    def name(self) -> str:
        return self.pattern.name


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled set of patterns, producers before their consumers."""

    patterns: tuple[PatternPlan, ...]
    predicates: tuple[Predicate, ...]
    routes: tuple[Route, ...]
    columns: tuple[Column, ...]
    all_columns: bool
    """Some pattern returns whole events, so every column has to reach the engine."""
    event_types: tuple[str, ...] | None
    """The types any step wants; None where some step takes every event or unwanted ones count."""
    state_kind: Literal["replayable", "summary"] = "replayable"
    passes: Literal["forward", "backward"] = "forward"
    retractable: bool = False
    identity: tuple[str, ...] = ("time", "order_by", "id", "occurrence")
    version: int = PLAN_VERSION


def forgetful(plan: Plan, pattern: PatternPlan) -> bool:
    """Does no condition of the pattern look at anything but the event at hand and unified values?"""
    asked = [n for step in pattern.steps for n in (*(k for k, _ in step.choose), *step.must)]
    turns = [i for program in pattern.programs for i in program.instructions if isinstance(i, (LoopTurn, AllTurn))]
    looks_back = any(turn.guards or (isinstance(turn, LoopTurn) and turn.until is not None) for turn in turns)
    return not looks_back and not pattern.guards and all(plan.predicates[n].event_local for n in asked)
