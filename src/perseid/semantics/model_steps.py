"""Lower model steps to event steps: ``found q`` and ``change set Host.cpu`` become event types and conditions.

To a pattern, a model is a stream of events: for each query that the pattern names, its matches found, updated and lost;
for each kind of elementary change that it names, the changes of that kind. The stream has no other events, so none
affect a strict context, and matches do not depend on other patterns of the set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from perseid.errors import SemanticError, UnsupportedError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang.printer import print_kind
from perseid.semantics import types as t
from perseid.semantics.graphs import AppliedChange
from perseid.semantics.metamodels import Kinds, unknown
from perseid.semantics.model_queries import AValue, Queries

CHANGE_COLUMNS = ("element", "kind", "attribute", "old", "new", "target")
"""Columns of an elementary change as an event."""


@dataclass(frozen=True, slots=True)
class EventStreamFilter:
    """The part of a model's changes that is in its event stream."""

    queries: tuple[str, ...]
    changes: tuple[ast.ModelChange, ...]
    happenings: tuple[str, ...] = ()
    """Types of ordinary events joined to the model."""
    columns: tuple[tuple[str, t.Type], ...] = ()
    """Columns of the ordinary events, with their types."""

    def signature(self) -> tuple[object, ...]:
        """Return a comparable description of all fields, to detect changes."""
        columns = [(name, str(type_)) for name, type_ in self.columns]
        return (self.queries, [print_kind(change) for change in self.changes], self.happenings, columns)

    def includes(self, done: AppliedChange, kinds: Kinds) -> bool:
        """Return True if some step matches a change like this."""
        return any(_fits(observed, done, kinds) for observed in self.changes)


def _fits(observed: ast.ModelChange, done: AppliedChange, kinds: Kinds) -> bool:
    if observed.action != done.action:
        return False
    if observed.action in ("link", "unlink"):
        return observed.element == done.kind
    return kinds.is_a(done.kind, observed.element) and observed.feature in (None, done.attribute)


def query_event(change: str, query: str) -> str:
    """Return the event type of a match that appeared, changed, or disappeared."""
    return f"{change} {query}"


def change_event(action: str) -> str:
    """Return the event type of an elementary change."""
    return f"change {action}"


@dataclass(frozen=True, slots=True)
class JoinedEvents:
    """Declaration of the ordinary events joined to a model."""

    types: tuple[str, ...] | None
    """Event types; None if a column has the type."""
    columns: tuple[tuple[str, t.Type], ...]


@dataclass(frozen=True, slots=True)
class EventStreamGroup:
    """Patterns evaluated over the same events."""

    patterns: tuple[ast.PatternDefinition, ...]
    watched: EventStreamFilter


def grouped(
    patterns: Sequence[ast.PatternDefinition],
    queries: Queries,
    key: tuple[str, ...],
    observe: Iterable[str] = (),
    joined_events: JoinedEvents | None = None,
) -> list[EventStreamGroup]:
    """Group patterns by the model events they read; ``key`` columns partition every pattern by model.

    A pattern that takes matches of another reads the events of both.
    """
    by_name = {pattern.name: pattern for pattern in patterns}
    found: dict[EventStreamFilter, list[ast.PatternDefinition]] = {}
    for pattern in patterns:
        watching = _Found(queries, joined_events, by_name)
        for name in _fed_by(pattern, by_name):
            watching.lowered(by_name[name].match)
        for name in observe:
            watching.query(name, None)
        happenings = tuple(sorted(watching.happenings))
        columns = joined_events.columns if joined_events is not None and happenings else ()
        watched = EventStreamFilter(tuple(sorted(watching.queries)), tuple(watching.changes), happenings, columns)
        partition = (*(ex.Ref((name,)) for name in key), *pattern.partition_by)
        partitioned = replace(
            pattern, match=watching.lowered(pattern.match), partition_by=tuple(dict.fromkeys(partition))
        )
        found.setdefault(watched, []).append(partitioned)
    return [EventStreamGroup(tuple(members), watched) for watched, members in found.items()]


def _fed_by(pattern: ast.PatternDefinition, by_name: dict[str, ast.PatternDefinition]) -> list[str]:
    """Return the patterns connected with this one through matches, in either direction and transitively."""
    connected: dict[str, set[str]] = {name: set() for name in by_name}
    for other in by_name.values():
        for step in ast.steps(other.match):
            if isinstance(step.kind, ast.EventType) and step.kind.name in by_name:
                connected[other.name].add(step.kind.name)
                connected[step.kind.name].add(other.name)
    found, todo = {pattern.name}, [pattern.name]
    while todo:
        new = connected[todo.pop()] - found
        found |= new
        todo.extend(new)
    return [name for name in by_name if name in found]


class _Found:
    """Collects the queries, changes and ordinary events of steps during lowering."""

    def __init__(self, queries: Queries, joined_events: JoinedEvents | None, patterns: Collection[str]) -> None:
        self.known = queries
        self.joined_events = joined_events
        self.patterns = patterns
        self.happenings: dict[str, None] = {}
        self.queries: dict[str, None] = {}
        self.changes: dict[ast.ModelChange, None] = {}

    def lowered(self, value: object) -> Any:
        if isinstance(value, ast.Step):
            return self._step(value)
        if isinstance(value, tuple):
            return tuple(map(self.lowered, value))
        if isinstance(value, ast.ELEMENT_TYPES) and is_dataclass(value):
            parts = {part.name: getattr(value, part.name) for part in fields(value)}
            return replace(value, **{name: self.lowered(part) for name, part in parts.items()})
        return value

    def _step(self, step: ast.Step) -> ast.Step:
        match step.kind:
            case ast.QueryEvent(change, query):
                self.query(query, step)
                return replace(step, kind=ast.EventType(query_event(change, query)))
            case ast.ModelChange() as observed:
                self.changes[observed] = None
                narrowed = self._narrowed(observed, step)
                condition = ex.conjoin([*narrowed, *ex.conjuncts(step.condition)])
                return replace(step, kind=ast.EventType(change_event(observed.action)), condition=condition)
            case ast.EventType(name) if name not in self.patterns:
                self._happening(name, step)
        return step

    def _happening(self, name: str, step: ast.Step) -> None:
        if self.joined_events is None:
            raise SemanticError(
                f"Step {name} matches additional events, and the model has none.",
                span=step.span,
                hint=f"Add ps.graph.model(…, events=ps.events({{'{name}': rows}})). To match a query, write found {name}.",
            )
        if self.joined_events.types is not None and name not in self.joined_events.types:
            raise unknown("event type", name, list(self.joined_events.types), step.span)
        self.happenings[name] = None

    def query(self, name: str, step: ast.Step | None) -> None:
        if name not in self.known.queries:
            raise unknown("query", name, list(self.known.queries), None if step is None else step.span)
        self.queries[name] = None

    def _narrowed(self, observed: ast.ModelChange, step: ast.Step) -> list[ex.Expr]:
        kinds = self.known.kinds
        if observed.action in ("link", "unlink"):
            if observed.element not in kinds.edges:
                raise unknown("edge", observed.element, list(kinds.edges), step.span)
            if observed.feature is not None:
                raise SemanticError(
                    "An edge has no attributes.",
                    span=step.span,
                    hint=f"Write change {observed.action} {observed.element}.",
                )
            return [_equals("kind", observed.element)]
        if observed.element not in kinds.nodes:
            raise unknown("node type", observed.element, list(kinds.nodes), step.span)
        narrowed: list[ex.Expr] = [_among("kind", kinds.below(observed.element))]
        if observed.feature is not None:
            if observed.action != "set":
                raise SemanticError(
                    f"'change {observed.action}' applies to a whole node, not to an attribute.",
                    span=step.span,
                    hint=f"Write change {observed.action} {observed.element}.",
                )
            if observed.feature not in kinds.carried[observed.element]:
                raise unknown(
                    f"attribute of {observed.element}",
                    observed.feature,
                    list(kinds.carried[observed.element]),
                    step.span,
                )
            narrowed.append(_equals("attribute", observed.feature))
        return narrowed


def _equals(column: str, value: str) -> ex.Expr:
    return ex.Binary("=", ex.Ref((column,)), ex.Literal("string", value))


def _among(column: str, values: list[str]) -> ex.Expr:
    if len(values) == 1:
        return _equals(column, values[0])
    return ex.InList(ex.Ref((column,)), tuple(ex.Literal("string", value) for value in values))


def event_columns(queries: Queries, watched: EventStreamFilter, key: Sequence[str] = ()) -> dict[str, t.Type | None]:
    """Return the columns of model events besides time, type and key, with their types; None for node names."""
    found: dict[str, t.Type | None] = {}
    for query in watched.queries:
        for name in queries.queries[query].parameters:
            if name in key:
                raise UnsupportedError(
                    f"{name!r} is both a parameter of the query {query} and the key column of the models.",
                    hint="Rename one of them.",
                )
    for query in watched.queries:
        for name, sort in queries.sorts[query].items():
            type_ = sort.type if isinstance(sort, AValue) else None
            if found.setdefault(name, type_) != type_:
                raise UnsupportedError(
                    f"Parameter {name!r} has one type in the query {query} and another in a different query of the stream.",
                    hint="Rename one of the parameters.",
                )
    if watched.changes:
        values = _value_type(queries.kinds, watched.changes)
        change_columns = dict(zip(CHANGE_COLUMNS, (None, t.String(), t.String(), values, values, None), strict=True))
        for name, type_ in change_columns.items():
            if name in found and found[name] != type_:
                raise UnsupportedError(
                    f"Parameter {name!r} has another type than the column {name!r} of elementary changes.",
                    hint="Rename the parameter.",
                )
            found[name] = type_
    for name, type_ in watched.columns:
        if name in key:
            continue
        names_nodes = name in found and found[name] is None and isinstance(type_, t.String | t.Integer)
        if name in found and not names_nodes and found[name] != type_:
            raise UnsupportedError(
                f"Column {name!r} has one type in additional events and another in events of the model.",
                hint="Rename one of them.",
            )
        found.setdefault(name, type_)
    return found


def _value_type(kinds: Kinds, changes: Iterable[ast.ModelChange]) -> t.Type:
    """Return the common type of all attributes with observed changes."""
    sets = [observed for observed in changes if observed.action == "set"]
    types: dict[t.Type, None] = {}
    for observed in sets:
        for kind in kinds.below(observed.element):
            for attribute, type_ in kinds.carried[kind].items():
                if observed.feature in (None, attribute):
                    types[type_] = None
    if len(types) > 1:
        raise UnsupportedError(
            "The changed attributes have several types, but the columns old and new have one.",
            hint="Name attributes of one type, as in change set Host.cpu, and run the others in a separate query.",
        )
    return next(iter(types), t.String())
