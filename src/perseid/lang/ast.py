"""The pattern part of the tree: one frozen AST for every kind of stream.

An element describes a piece of a match. A *step* stands for one event and has a kind: an event type, any
event, a tree pattern over a document, a model query found, updated or lost, or an elementary change of a
model. New kinds of stream add kinds of step, not new languages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Literal as Choice
from typing import TypeAlias

from perseid.lang.expressions import Expr, Literal, Param, Ref, Span, span_field
from perseid.lang.tree_patterns import TreePattern


class Contiguity(Enum):
    """How a step finds its event after the one before it."""

    NEXT = ","
    """Strict: only the very next event of the partition."""
    SKIP = "->"
    """Skip to next: the first later event that fits; others are passed over."""
    ANY = "->>"
    """Skip to any: every later event that fits, each giving its own match."""


class Selection(Enum):
    """Which events and matches count: named readings of "then" (docs/semantics.md has the table)."""

    SQL = "sql"
    STRICT = "strict"
    NEXT = "next"
    ANY = "any"
    FOLLOWED_BY = "followed by"
    SUCCESSOR = "successor"
    CHRONICLE = "chronicle"
    RECENT = "recent"
    CONTINUOUS = "continuous"
    CUMULATIVE = "cumulative"
    IMMEDIATE = "immediate"
    STRICT_IMMEDIATE = "strict immediate"

    @property
    def is_context(self) -> bool:
        """True for the event contexts: they decide by what partial matches may use an event."""
        return self in CONTEXTS


CONTEXTS = frozenset(
    {
        Selection.CHRONICLE,
        Selection.RECENT,
        Selection.CONTINUOUS,
        Selection.CUMULATIVE,
        Selection.IMMEDIATE,
        Selection.STRICT_IMMEDIATE,
    }
)

Duration: TypeAlias = "int | Param"
"""Microseconds, or a parameter that will be bound to them."""


# kinds of step


@dataclass(frozen=True, slots=True)
class EventType:
    """An event by its type, or a match of another pattern of the set by that pattern's name."""

    name: str


@dataclass(frozen=True, slots=True)
class AnyEvent:
    """Any event at all: ``any``."""


@dataclass(frozen=True, slots=True)
class TreeMatch:
    """A document of a stream that a tree pattern matches: ``Orders << //order->o >>``."""

    stream: str
    tree: TreePattern


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """A model query whose match appeared, stayed with a change, or went away: ``found Overloaded``."""

    change: Choice["found", "updated", "lost"]
    query: str


@dataclass(frozen=True, slots=True)
class ModelChange:
    """An elementary change of a model: ``change set Host.cpu``, ``change create Host``."""

    action: Choice["create", "delete", "set", "link", "unlink"]
    element: str
    feature: str | None = None


StepKind: TypeAlias = EventType | AnyEvent | TreeMatch | QueryEvent | ModelChange


@dataclass(frozen=True, slots=True)
class Unify:
    """``Login(user as u)``: the value must be equal wherever ``u`` stands in the match."""

    attribute: Ref
    name: str


# elements


@dataclass(frozen=True, slots=True)
class Step:
    """One event. ``condition`` chooses which event; ``must`` tests the one chosen and ends the attempt."""

    kind: StepKind
    name: str | None = None
    unify: tuple[Unify, ...] = ()
    condition: Expr | None = None
    must: Expr | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Link:
    """What stands between two elements of a sequence: contiguity, and bounds on the time between them."""

    contiguity: Contiguity = Contiguity.SKIP
    after: Duration | None = None
    within: Duration | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Sequence:
    """Elements one after the other; ``links[i]`` stands between element i and i + 1."""

    elements: tuple[Element, ...]
    links: tuple[Link, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of the branches; the first is preferred where one event fits several."""

    branches: tuple[Element, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Conjunction:
    """All members, in any order, none inside another."""

    members: tuple[Element, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Repeat:
    """An element ``low`` to ``high`` times (None: no upper bound).

    ``contiguity`` is how one round follows the other; None takes it from the arrow before the element
    (from the one after it, for the first element of a sequence).
    """

    element: Element
    low: int
    high: int | None
    reluctant: bool = False
    contiguity: Contiguity | None = None
    until: Step | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Absence:
    """``not X``: no match of the element here; ``duration`` (``for``) ends it at a deadline."""

    element: Element
    duration: Duration | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Stays:
    """``Reading r [temp > 80] stays 5 minutes``: the step, and then no event of its type against it."""

    step: Step
    duration: Duration
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Group:
    """Parentheses with a window of their own: ``(A -> B within 5 minutes)``."""

    element: Element
    within: Window | None = None
    holds_for: Duration | None = None
    span: Span | None = span_field()


Element: TypeAlias = Step | Sequence | Alternation | Conjunction | Repeat | Absence | Stays | Group
ELEMENT_TYPES = (Step, Sequence, Alternation, Conjunction, Repeat, Absence, Stays, Group)


# clauses


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """``within 10 minutes``: last minus first is at most this, the bound included."""

    duration: Duration
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class CountWindow:
    """``within 5 events``: the match spans at most this many events of its partition."""

    events: int
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Forever:
    """``within forever``: no bound, said on purpose."""

    span: Span | None = span_field()


Window: TypeAlias = TimeWindow | CountWindow | Forever

SkipMode = Choice["none", "to next", "past last", "to first", "to last"]


@dataclass(frozen=True, slots=True)
class Skip:
    """Where the next attempt may start after a match; ``step`` for ``to first`` and ``to last``."""

    mode: SkipMode
    step: str | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A typed parameter of the pattern, ``threshold decimal = 100``."""

    name: str
    type: str
    default: Literal | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Output:
    """``expr as name`` after ``return``; without ``as`` the name is taken from the expression."""

    expr: Expr
    name: str | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Evidence:
    """``return evidence``: the contributing events themselves, at most ``limit`` of them, the rest counted."""

    limit: int = 100


@dataclass(frozen=True, slots=True)
class Suppress:
    """``suppress 1 hour by user``: after a match, further ones with equal values are counted, not reported."""

    duration: Duration
    by: tuple[str, ...] = ()
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Metadata:
    """What people and routing need and matching does not; no part of a pattern's semantic identity."""

    severity: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern as written."""

    name: str
    match: Element
    parameters: tuple[Parameter, ...] = ()
    metadata: Metadata = Metadata()
    where: Expr | None = None
    within: Window | None = None
    holds_for: Duration | None = None
    partition_by: tuple[Ref, ...] = ()
    selection: Selection | None = None
    skip: Skip | None = None
    report_timeouts: bool = False
    returns: tuple[Output, ...] = ()
    evidence: Evidence | None = None
    suppress: Suppress | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class PatternFile:
    """All patterns of one text; a step's type may be the name of another pattern of the file."""

    patterns: tuple[Pattern, ...]


def parts(element: Element) -> tuple[Element, ...]:
    """The direct sub-elements, in the order they are written."""
    match element:
        case Step():
            return ()
        case Sequence():
            return element.elements
        case Alternation():
            return element.branches
        case Conjunction():
            return element.members
        case Stays():
            return (element.step,)
        case Repeat() | Absence() | Group():
            return (element.element,)


def steps(element: Element) -> Iterator[Step]:
    """Every step, in the order written, those under ``not`` included, ``until`` steps not."""
    if isinstance(element, Step):
        yield element
    for part in parts(element):
        yield from steps(part)
