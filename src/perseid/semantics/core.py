"""Core form of a pattern: sugar is removed and every default is explicit.

The oracle and the compiler both read this form. Steps are numbered in source order; every arrow has its contiguity;
every conjunct of ``where`` is at the place where it is decided; ``stays`` is a step and an absence; every absence has
an explicit end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from perseid.lang.ast import Contiguity, Evidence, Selection, Skip, StepKind, Suppress, Window
from perseid.lang.expressions import Expr, Ref, Span


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that selects a step's event.

    ``needs`` is for conditions between members of a conjunction, which may match in any order: while one of these steps
    has no event yet, the condition is skipped; it is evaluated again when that step binds its event.
    """

    expr: Expr
    needs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CoreStep:
    """One event to match. ``negated`` steps bind nothing visible to the rest of the pattern."""

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
    """Relation of a step to the event before it; times are microseconds between the two."""

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
    """Every member once, in any order; ``barred`` must not match before the last member is complete."""

    id: int
    members: tuple[Core, ...]
    hop: Hop
    guards: tuple[Expr, ...] = ()
    barred: tuple[Core, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """``low`` to ``high`` iterations of the body; ``guards`` must hold to leave; ``inside`` are the body's steps."""

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

    If the match or a zone ends here, there is no next event, and the absence lasts until that window closes.
    """

    body: Core
    duration: int | None


@dataclass(frozen=True, slots=True)
class Zone:
    """A part of the match with its own bounds on length."""

    id: int
    body: Core
    within: Window | None
    holds_for: int | None


Core: TypeAlias = Take | Seq | Alt | All | Loop | Absent | Zone


@dataclass(frozen=True, slots=True)
class Lead:
    """``not X for d`` before the first step: no match of X within d before the match begins."""

    body: Core
    duration: int


@dataclass(frozen=True, slots=True)
class CorePattern:
    """A resolved pattern."""

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
    """If not None, set by the selection: True if later steps need strictly later times. None: set by the stream."""
    report_timeouts: bool
    returns: tuple[tuple[str, Expr], ...]
    evidence: Evidence | None
    suppress: Suppress | None
    unified: frozenset[str]
    semantic_hash: str

    @property
    def lone_step(self) -> CoreStep | None:
        """The step that bare column names refer to, if the pattern has exactly one positive step."""
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
    """Yield the element and everything inside it, parents first."""
    yield core
    for part in core_parts(core):
        yield from each(part)


def each_of(pattern: CorePattern) -> Iterator[Core]:
    """Yield every element of a pattern, including the bodies of its leading absences."""
    yield from each(pattern.body)
    for lead in pattern.lead:
        yield from each(lead.body)


def guards_of(pattern: CorePattern) -> Iterator[Expr]:
    """Yield conditions evaluated on leaving a repetition, on completing a conjunction, and at the end."""
    for element in each_of(pattern):
        if isinstance(element, (Loop, All)):
            yield from element.guards
    yield from pattern.guards


def ends(core: Core) -> Iterator[Core]:
    """Yield the parts that can be last in an element: steps, absences, and the repetitions and zones around them."""
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
    """Return the steps of a core element in order, without those under ``not`` if ``negated`` is False."""
    if isinstance(core, Take):
        return (core.step,)
    if isinstance(core, Absent) and not negated:
        return ()
    inner = core.members if isinstance(core, All) and not negated else core_parts(core)
    return tuple(step for part in inner for step in takes(part, negated=negated))


def can_be_empty(core: Core) -> bool:
    """Return True if the element can match no event at all."""
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
