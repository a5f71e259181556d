"""AST of patterns: frozen nodes, shared by every kind of stream.

An element describes a part of a match. A *step* matches one event and has a kind: an event type, any event, a tree
pattern over a document, a model query found, updated or lost, or an elementary change of a model. New kinds of
stream add kinds of step, not new languages.
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
    """Contiguity of a step with the step before it."""

    NEXT = ","
    """Strict: only the very next event of the partition."""
    SKIP = "->"
    """Skip till next match: the first later event that matches; events in between are skipped."""
    ANY = "->>"
    """Skip till any match: every later event that matches, each in its own match."""


class Selection(Enum):
    """Event selection strategies (table in docs/semantics.md)."""

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
        """True for event contexts, which limit the partial matches that may consume an event."""
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
"""Microseconds, or a parameter to be bound to them."""


# kinds of step


@dataclass(frozen=True, slots=True)
class EventType:
    """An event by its type, or a match of another pattern of the set by that pattern's name."""

    name: str


@dataclass(frozen=True, slots=True)
class AnyEvent:
    """Any event: ``any``."""


@dataclass(frozen=True, slots=True)
class TreeMatch:
    """A document of a stream that a tree pattern matches: ``Orders << //order->o >>``."""

    stream: str
    tree: TreePattern


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """A match of a model query that appeared, changed, or disappeared: ``found Overloaded``."""

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
    """``Login(user as u)``: the value must be equal at every ``u`` of the match."""

    attribute: Ref
    name: str


# elements


@dataclass(frozen=True, slots=True)
class Step:
    """One event. ``condition`` selects the event; ``must`` tests the selected event and ends the run if it fails."""

    kind: StepKind
    name: str | None = None
    unify: tuple[Unify, ...] = ()
    condition: Expr | None = None
    must: Expr | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Link:
    """Operator between two elements of a sequence: contiguity, and bounds on the time between them."""

    contiguity: Contiguity = Contiguity.SKIP
    after: Duration | None = None
    within: Duration | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Sequence:
    """Elements in order; ``links[i]`` joins elements i and i + 1."""

    elements: tuple[Element, ...]
    links: tuple[Link, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of the branches; the first is preferred where one event matches several."""

    branches: tuple[Element, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Conjunction:
    """All members, in any order and not interleaved."""

    members: tuple[Element, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Repeat:
    """An element ``low`` to ``high`` times (None: no upper bound).

    ``contiguity`` applies between iterations; None takes it from the arrow before the element (from the one after
    it, for the first element of a sequence).
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
    """``Reading r [temp > 80] stays 5 minutes``: the step, then no event of its type that violates its condition."""

    step: Step
    duration: Duration
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Group:
    """Parentheses with their own window: ``(A -> B within 5 minutes)``."""

    element: Element
    within: Window | None = None
    holds_for: Duration | None = None
    span: Span | None = span_field()


Element: TypeAlias = Step | Sequence | Alternation | Conjunction | Repeat | Absence | Stays | Group
ELEMENT_TYPES = (Step, Sequence, Alternation, Conjunction, Repeat, Absence, Stays, Group)


# clauses


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """``within 10 minutes``: the last event is at most this long after the first, inclusive."""

    duration: Duration
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class CountWindow:
    """``within 5 events``: the match spans at most this many events of its partition."""

    events: int
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Forever:
    """``within forever``: explicitly unbounded."""

    span: Span | None = span_field()


Window: TypeAlias = TimeWindow | CountWindow | Forever

SkipMode = Choice["none", "to next", "past last", "to first", "to last"]


@dataclass(frozen=True, slots=True)
class Skip:
    """After-match skip strategy; ``step`` is set for ``to first`` and ``to last``."""

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
    """``expr as name`` after ``return``; without ``as`` the name is derived from the expression."""

    expr: Expr
    name: str | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Evidence:
    """``return evidence``: the contributing events, at most ``limit`` of them; the rest are counted."""

    limit: int = 100


@dataclass(frozen=True, slots=True)
class Suppress:
    """``suppress 1 hour by user``: after a match, further ones with equal values are counted but not emitted."""

    duration: Duration
    by: tuple[str, ...] = ()
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata for users and routing. Matching ignores it, and it is not part of a pattern's semantic identity."""

    severity: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None


@dataclass(frozen=True, slots=True)
class PatternDefinition:
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

    patterns: tuple[PatternDefinition, ...]


def parts(element: Element) -> tuple[Element, ...]:
    """Return the direct sub-elements, in source order."""
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
    """Yield every step in source order, including those under ``not`` but not ``until`` steps."""
    if isinstance(element, Step):
        yield element
    for part in parts(element):
        yield from steps(part)
