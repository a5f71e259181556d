"""The core form of a pattern: what is left when sugar is gone and every default is written out.

The oracle and the compiler both read this form. Steps are numbered in the order written; every arrow has its
contiguity; every conjunct of ``where`` has moved to the place where it is decided; ``stays`` has become a
step and an absence; every absence knows what ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from perseid.lang.ast import Contiguity, Evidence, Selection, Skip, StepKind, Suppress, Window
from perseid.lang.expressions import Expr, Ref, Span


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that chooses a step's event.

    ``needs`` is for conditions between members of a conjunction, whose order is not known: while one of these
    steps has no event yet the condition is not asked; it will be asked again when that step finds its event.
    """

    expr: Expr
    needs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CoreStep:
    """One event to be found. ``negated`` steps bind nothing that the rest of the pattern can see."""

    id: int
    name: str | None
    kind: StepKind
    unify: tuple[tuple[Ref, str], ...]
    choose: tuple[Condition, ...]
    must: tuple[Expr, ...]
    negated: bool = False
    repeated: bool = False
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Hop:
    """How a step follows the event before it; times are microseconds between the two."""

    contiguity: Contiguity
    after: int | None = None
    within: int | None = None


@dataclass(frozen=True, slots=True)
class Take:
    step: int


@dataclass(frozen=True, slots=True)
class Seq:
    items: tuple[Core, ...]
    hops: tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    branches: tuple[Core, ...]


@dataclass(frozen=True, slots=True)
class All:
    """Every member once, in any order; ``barred`` must not happen before the last member is done."""

    id: int
    members: tuple[Core, ...]
    hop: Hop
    guards: tuple[Expr, ...] = ()
    barred: tuple[Core, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """``low`` to ``high`` rounds of the body; ``guards`` must hold to leave; ``inside`` are the body's steps."""

    id: int
    body: Core
    low: int
    high: int | None
    reluctant: bool
    hop: Hop
    until: int | None
    guards: tuple[Expr, ...]
    inside: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """No match of the body for ``duration`` after the event before it; without one, until the next event.

    Where no next event comes, because the match or a zone ends here, the absence lasts until that window closes.
    """

    body: Core
    duration: int | None


@dataclass(frozen=True, slots=True)
class Zone:
    """A stretch of the match with its own bounds on length."""

    id: int
    body: Core
    within: Window | None
    holds_for: int | None


Core: TypeAlias = Take | Seq | Alt | All | Loop | Absent | Zone


@dataclass(frozen=True, slots=True)
class Lead:
    """``not X for d`` before the first step: no match of X in the d before the match begins."""

    body: Core
    duration: int


@dataclass(frozen=True, slots=True)
class CorePattern:
    """A pattern ready to be given its meaning."""

    name: str
    steps: tuple[CoreStep, ...]
    body: Core
    lead: tuple[Lead, ...]
    within: Window | None
    holds_for: int | None
    guards: tuple[Expr, ...]
    partition: tuple[Ref, ...]
    context: Selection | None
    skip: Skip
    strictly_later: bool | None
    """True where the selection wants later steps strictly later in time; None leaves it to the stream."""
    report_timeouts: bool
    returns: tuple[tuple[str, Expr], ...]
    evidence: Evidence | None
    suppress: Suppress | None
    unified: frozenset[str]
    semantic_hash: str

    @property
    def lone_step(self) -> CoreStep | None:
        """The step whose event bare column names mean, where the pattern has just one."""
        bound = [s for s in self.steps if not s.negated]
        return bound[0] if len(bound) == 1 else None

    def step_named(self, name: str) -> CoreStep | None:
        return next((s for s in self.steps if s.name == name), None)


def core_parts(core: Core) -> tuple[Core, ...]:
    match core:
        case Take():
            return ()
        case Seq():
            return core.items
        case Alt():
            return core.branches
        case All():
            return core.members + core.barred
        case Loop() | Absent() | Zone():
            return (core.body,)


def each(core: Core) -> Iterator[Core]:
    """The element and everything inside it, parents first."""
    yield core
    for part in core_parts(core):
        yield from each(part)


def each_of(pattern: CorePattern) -> Iterator[Core]:
    """Every element of a pattern, what its leading absences negate included."""
    yield from each(pattern.body)
    for lead in pattern.lead:
        yield from each(lead.body)


def guards_of(pattern: CorePattern) -> Iterator[Expr]:
    """Conditions that are asked on leaving a repetition, on completing a conjunction, and at the end."""
    for element in each_of(pattern):
        if isinstance(element, (Loop, All)):
            yield from element.guards
    yield from pattern.guards


def ends(core: Core) -> Iterator[Core]:
    """The parts of an element that can be its last: steps, absences, and the repetitions and zones around them."""
    match core:
        case Seq():
            for item in reversed(core.items):
                yield from ends(item)
                if not can_be_empty(item):
                    return
        case Alt():
            for branch in core.branches:
                yield from ends(branch)
        case All():
            for member in core.members:
                yield from ends(member)
        case Loop() | Zone():
            yield core
            yield from ends(core.body)
        case Take() | Absent():
            yield core


def takes(core: Core, *, negated: bool = True) -> tuple[int, ...]:
    """The steps of a core element, in order; without those under ``not`` unless asked."""
    if isinstance(core, Take):
        return (core.step,)
    if isinstance(core, Absent) and not negated:
        return ()
    inner = core.members if isinstance(core, All) and not negated else core_parts(core)
    return tuple(step for part in inner for step in takes(part, negated=negated))


def can_be_empty(core: Core) -> bool:
    """Can this be matched by no event at all?"""
    match core:
        case Take():
            return False
        case Seq():
            return all(can_be_empty(item) for item in core.items)
        case Alt():
            return any(can_be_empty(branch) for branch in core.branches)
        case All():
            return all(can_be_empty(member) for member in core.members)
        case Loop():
            return core.low == 0 or can_be_empty(core.body)
        case Absent():
            return True
        case Zone():
            return can_be_empty(core.body)
