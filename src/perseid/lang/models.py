"""AST of metamodels and of queries over models.

Nodes are frozen and compare by value, like those of patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from perseid.lang.ast import PatternDefinition
from perseid.lang.expressions import Expr, Span, span_field
from perseid.lang.rules import Repair, Rule

ANYTHING = "_"
"""The wildcard variable; every occurrence is a separate variable."""


# kinds of element


@dataclass(frozen=True, slots=True)
class Attribute:
    """``cpu bigint``: an attribute of the nodes of a type; null on a node without a value."""

    name: str
    type: str
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class NodeType:
    """``node Comment is Submission (text string)``; an abstract type has only nodes of its subtypes."""

    name: str
    above: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    abstract: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class EdgeType:
    """``edge likes User -> Comment``; with ``one``, a node has at most one outgoing edge of this type."""

    name: str
    source: str
    target: str
    one: bool = False
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class MetamodelDefinition:
    """Node and edge types of a model."""

    name: str
    nodes: tuple[NodeType, ...]
    edges: tuple[EdgeType, ...]
    span: Span | None = span_field()


# constraints of a query


@dataclass(frozen=True, slots=True)
class IsNode:
    """``host: Host``: a node of this type or of a subtype."""

    variable: str
    type: str
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Walk:
    """``a -knows-> b``, ``a -knows+-> b``, ``a -knows{1,3}-> b``: a path of ``low`` to ``high`` edges."""

    source: str
    edge: str
    target: str
    low: int = 1
    high: int | None = 1
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class QueryCall:
    """``stretched(body, arm)``: a match of another query; with bounds, its transitive closure: ``near+(a, b)``."""

    query: str
    arguments: tuple[str, ...]
    low: int = 1
    high: int | None = 1
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class No:
    """``not a -knows-> b``, ``not (a -knows-> c, c: Host where c.cpu > 3)``: no such match exists."""

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
    ``empty_value`` is the result over no matches; the checker sets it, as it depends on the type.
    """

    name: str
    function: str
    value: Expr | None
    call: QueryCall
    empty_value: object = field(default=None, compare=False, repr=False)
    span: Span | None = span_field()


Constraint: TypeAlias = "IsNode | Walk | QueryCall | No"
Definition: TypeAlias = "Let | Aggregate"


# queries


@dataclass(frozen=True, slots=True)
class Find:
    """One alternative of a query: constraints that must all hold, values, and a condition."""

    constraints: tuple[Constraint, ...]
    definitions: tuple[Definition, ...] = ()
    where: Expr | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Components:
    """``components of pals over fans``: connected components, each identified by its smallest node.

    The last two parameters of the query are a node and the smallest node of its component. The parameters before
    them come from ``edges``, which has the edge ends as its last two parameters; each group of them has its own
    components. ``nodes`` adds nodes without edges.
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
    """``top 3 per body by score, time``: the matches with the largest values, including ties with the last."""

    count: int
    by: tuple[Order, ...]
    per: tuple[str, ...] = ()
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class QueryDefinition:
    """A query over a model. A match is the values of its parameters; alternatives (``or``) form one set of matches."""

    name: str
    parameters: tuple[str, ...]
    alternatives: tuple[Find, ...] | Components
    top: Top | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file: metamodel, queries, patterns over their events, rules and repairs."""

    metamodel: MetamodelDefinition | None
    queries: tuple[QueryDefinition, ...]
    patterns: tuple[PatternDefinition, ...] = ()
    rules: tuple[Rule, ...] = ()
    repairs: tuple[Repair, ...] = ()


def variables_of(constraint: IsNode | Walk | QueryCall) -> tuple[str, ...]:
    """Return the variables of a constraint, in argument order."""
    match constraint:
        case IsNode():
            return (constraint.variable,)
        case Walk():
            return (constraint.source, constraint.target)
        case QueryCall():
            return constraint.arguments


def calls(query: QueryDefinition) -> Iterator[QueryCall]:
    """Yield every call of another query in this one."""
    if isinstance(query.alternatives, Components):
        return
    for alternative in query.alternatives:
        yield from _calls(alternative.constraints)
        yield from (d.call for d in alternative.definitions if isinstance(d, Aggregate))


def called(query: QueryDefinition) -> tuple[str, ...]:
    """Return the names of all queries that this one depends on, in source order."""
    if isinstance(query.alternatives, Components):
        nodes = () if query.alternatives.nodes is None else (query.alternatives.nodes,)
        return (query.alternatives.edges, *nodes)
    return tuple(dict.fromkeys(call.query for call in calls(query)))


def _calls(constraints: tuple[Constraint, ...]) -> Iterator[QueryCall]:
    for constraint in constraints:
        if isinstance(constraint, QueryCall):
            yield constraint
        elif isinstance(constraint, No):
            yield from _calls(constraint.constraints)
