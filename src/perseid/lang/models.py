"""The tree of models and of the queries over them: what kinds of element there are, and what is asked of them.

Nodes are frozen and compare by meaning, as those of patterns do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from perseid.lang.ast import Pattern
from perseid.lang.expressions import Expr, Span, span_field
from perseid.lang.rules import Repair, Rule

ANYTHING = "_"
"""The variable that stands for any value and is never the same one twice."""


# kinds of element


@dataclass(frozen=True, slots=True)
class Attribute:
    """``cpu bigint``: what nodes of a type carry; a node that was given none has null."""

    name: str
    type: str
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class NodeType:
    """``node Comment is Submission (text string)``; of an abstract type there are only nodes of types below it."""

    name: str
    above: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    abstract: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class EdgeType:
    """``edge likes User -> Comment``; ``one`` says that a node has at most one of them going out."""

    name: str
    source: str
    target: str
    one: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Metamodel:
    """What a model may contain."""

    name: str
    nodes: tuple[NodeType, ...]
    edges: tuple[EdgeType, ...]
    span: Span | None = span_field()


# constraints of a query


@dataclass(frozen=True, slots=True)
class IsNode:
    """``host: Host``: a node of this type or of one below it."""

    variable: str
    type: str
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Walk:
    """``a -knows-> b``, ``a -knows+-> b``, ``a -knows{1,3}-> b``: edges, one after the other, ``low`` to ``high``."""

    source: str
    edge: str
    target: str
    low: int = 1
    high: int | None = 1
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Call:
    """``stretched(body, arm)``: a match of another query; with ``steps``, its transitive closure: ``near+(a, b)``."""

    query: str
    arguments: tuple[str, ...]
    low: int = 1
    high: int | None = 1
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class No:
    """``not a -knows-> b``, ``not (a -knows-> c, c: Host where c.cpu > 3)``: there is no such match."""

    constraints: tuple[Constraint, ...]
    where: Expr | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Let:
    """``let load = host.used / host.total``: a value that conditions and parameters may use."""

    name: str
    value: Expr
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``let n = count of fans(post, _)``, ``let total = sum(n * n) of sizes(post, n)``: over all matches of a call.

    Arguments that are bound elsewhere select the matches; the others are free, and ``value`` may use them.
    ``nothing`` is what it is worth where there is no match: the checker says, as it knows the type.
    """

    name: str
    function: str
    value: Expr | None
    call: Call
    nothing: object = field(default=None, compare=False, repr=False)
    span: Span | None = span_field()


Constraint: TypeAlias = "IsNode | Walk | Call | No"
Definition: TypeAlias = "Let | Aggregate"


# queries


@dataclass(frozen=True, slots=True)
class Find:
    """One way for a query to match: constraints that all hold, values, and a condition."""

    constraints: tuple[Constraint, ...]
    definitions: tuple[Definition, ...] = ()
    where: Expr | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Components:
    """``components of pals over fans``: which nodes hang together, and the least of them.

    The last two parameters of the query are a node and the least node of its component; those before them are
    given by ``edges``, whose last two parameters are the ends, so that each group has components of its own.
    ``nodes`` adds nodes that no edge touches.
    """

    edges: str
    nodes: str | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Order:
    value: Expr
    ascending: bool = False


@dataclass(frozen=True, slots=True)
class Top:
    """``top 3 per body by score, time``: the matches with the greatest values, and those equal to the last of them."""

    count: int
    by: tuple[Order, ...]
    per: tuple[str, ...] = ()
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Query:
    """A question to a model. A match is the values of its parameters; ways joined by ``or`` are one set of matches."""

    name: str
    parameters: tuple[str, ...]
    ways: tuple[Find, ...] | Components
    top: Top | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Everything a text about a model holds: what it may contain, queries, patterns over their events, rules."""

    metamodel: Metamodel | None
    queries: tuple[Query, ...]
    patterns: tuple[Pattern, ...] = ()
    rules: tuple[Rule, ...] = ()
    repairs: tuple[Repair, ...] = ()


def variables_of(constraint: IsNode | Walk | Call) -> tuple[str, ...]:
    """The variables of a constraint, in the order of what it relates."""
    match constraint:
        case IsNode():
            return (constraint.variable,)
        case Walk():
            return (constraint.source, constraint.target)
        case Call():
            return constraint.arguments


def calls(query: Query) -> Iterator[Call]:
    """Every call of another query that stands in this one."""
    if isinstance(query.ways, Components):
        return
    for way in query.ways:
        yield from _calls(way.constraints)
        yield from (d.call for d in way.definitions if isinstance(d, Aggregate))


def called(query: Query) -> tuple[str, ...]:
    """The names of all queries that this one stands on, in the order of the text."""
    if isinstance(query.ways, Components):
        nodes = () if query.ways.nodes is None else (query.ways.nodes,)
        return (query.ways.edges, *nodes)
    return tuple(dict.fromkeys(call.query for call in calls(query)))


def _calls(constraints: tuple[Constraint, ...]) -> Iterator[Call]:
    for constraint in constraints:
        if isinstance(constraint, Call):
            yield constraint
        elif isinstance(constraint, No):
            yield from _calls(constraint.constraints)
