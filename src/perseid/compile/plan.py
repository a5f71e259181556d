"""The plan: the compiled form of a set of patterns, as printable data with all that an engine needs.

A plan is always of a set; one pattern is a set of one. The fields under "for the drivers" are those that the engine
contract needs from the start: row routing, retention of state, timers, kinds of output rows and retractions.
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
"""The limit on open partial matches of patterns with ``within forever``."""

RowKind = Literal["match", "timed out", "late", "bad", "ahead", "counter"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate of the set, stored once for all patterns that have it.

    ``identity`` is the same in all versions of a set: state refers to predicates by it and never by position.
    """

    id: int
    identity: str
    expr: Expr
    event_local: bool
    """A single event decides it, so it can be evaluated before the shuffle."""
    event_type: str | None
    """The type of the events that it is evaluated for, if it is only one."""


@dataclass(frozen=True, slots=True)
class Route:
    """A partitioning of rows; patterns with equal ``partition by`` share it."""

    id: int
    paths: tuple[tuple[str, ...], ...]
    """Each a column, or the path to a field inside one."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the keys in output rows."""
        return tuple(".".join(path) for path in self.paths)


@dataclass(frozen=True, slots=True)
class PlanColumn:
    """A column that the engine needs, of events of these types (None: of all)."""

    name: str
    event_types: tuple[str, ...] | None
    retained: bool
    """Still evaluated after the event is taken, so it is part of the state."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The state that is retained per key, and its duration in event time."""

    kind: Literal["empty", "window", "unbounded"]
    micros: int | None
    events: int | None
    cap: int | None = None
    """If nothing else bounds the state: the maximum number of open partial matches per key.

    A partial match beyond it drops the oldest one, which is counted.
    """


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step with the numbers of its predicates; ``needs`` defers a predicate until these steps are bound."""

    step: int
    choose: tuple[tuple[int, tuple[int, ...]], ...]
    must: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PatternPlan:
    """One pattern of the set."""

    pattern: CorePattern
    facts: Facts
    programs: tuple[Program, ...]
    """The body first, then the programs of negated parts."""
    leads: tuple[tuple[int, int], ...]
    """(program, microseconds): absences that extend backward from the first event."""
    steps: tuple[StepPlan, ...]
    guards: tuple[int, ...]
    route: int
    feeds_on: tuple[str, ...]
    # for the drivers
    retention: Retention
    timer_reasons: tuple[Known, ...]
    """Reasons for output without a new event: the deadline of an absence, a closing window, or none."""
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
    columns: tuple[PlanColumn, ...]
    all_columns: bool
    """Some pattern returns whole events, so the engine needs every column."""
    event_types: tuple[str, ...] | None
    """The types that steps name; None if a step takes every event, or if events of other types matter."""
    state_kind: Literal["replayable", "summary"] = "replayable"
    passes: Literal["forward", "backward"] = "forward"
    retractable: bool = False
    identity: tuple[str, ...] = ("time", "order_by", "id", "occurrence")
    version: int = PLAN_VERSION


def forgetful(plan: Plan, pattern: PatternPlan) -> bool:
    """True if the conditions of the pattern read only the current event and unified values."""
    predicate_ids = [n for step in pattern.steps for n in (*(k for k, _ in step.choose), *step.must)]
    turns = [i for program in pattern.programs for i in program.instructions if isinstance(i, (LoopTurn, AllTurn))]
    looks_back = any(turn.guards or (isinstance(turn, LoopTurn) and turn.until is not None) for turn in turns)
    return not looks_back and not pattern.guards and all(plan.predicates[n].event_local for n in predicate_ids)
