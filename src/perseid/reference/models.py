"""Reference semantics of model queries: recompute all queries after every transaction and compare the matches.

It is slow and written to be read. A transaction is all changes of one point in time; queries are evaluated at its end.
A match is *found* if it is new, *lost* if it is gone, and *updated* if it remains and a node among its parameters
changed: a new attribute value, or an edge at it was added or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import TypeAlias

from perseid.lang import expressions as ex
from perseid.lang import models as m
from perseid.semantics.evaluate import evaluate, is_true
from perseid.semantics.graphs import AppliedChange, Change, Element, Graph, Happening, canonical, same
from perseid.semantics.model_changes import QueryChange, TransactionEffects, applied, split_input, touched
from perseid.semantics.model_queries import Match, Moving, Queries
from perseid.semantics.model_values import (
    RowScope,
    aggregate,
    compare_values,
    match_key,
    moving_value,
    order_key,
    ordered,
)
from perseid.semantics.values import Value

Row: TypeAlias = "dict[str, Value]"


@dataclass(slots=True)
class Recomputed:
    """A model and its queries, recomputed from scratch in every transaction."""

    queries: Queries
    graph: Graph = field(init=False)
    matches: dict[str, set[Match]] = field(init=False)
    history: dict[tuple[Element, str], list[tuple[int, Value]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.graph = Graph(self.queries.kinds)
        self.matches = {name: set() for name in self.queries.queries}

    def transact(self, time: int, changes: Iterable[Change | Happening]) -> TransactionEffects:
        """Apply all changes of one point in time, in order."""
        model_changes, happened = split_input(changes)
        if happened and not model_changes:
            return TransactionEffects([], [], [], happened)
        done, refused = applied(self.graph, model_changes)
        self._remember(time, done)
        before = self.matches
        self.matches = evaluate_all(self.queries, self.graph, self._window_values(time))
        return TransactionEffects(done, list(self._changes(before, touched(done))), refused, happened)

    def _remember(self, time: int, done: Sequence[AppliedChange]) -> None:
        for one in done:
            if one.action == "set":
                history = self.history.setdefault((one.element, str(one.attribute)), [])
                if history and history[-1][0] == time:
                    history.pop()
                history.append((time, one.new))
            elif one.action == "delete":
                for place in [p for p in self.history if p[0] == one.element]:
                    del self.history[place]

    def _window_values(self, time: int) -> Callable[[Element, Moving], Value]:
        def value(element: Element, window: Moving) -> Value:
            history = self.history.get((element, window.attribute), [])
            if window.values is not None:
                values = history[-window.values :]
            else:
                assert window.microseconds is not None
                values = [p for p in history if p[0] > time - window.microseconds]
            return moving_value(window, [value for _, value in values])

        return value

    def _changes(self, before: dict[str, set[Match]], changed: set[Element]) -> Iterator[QueryChange]:
        for name, now in self.matches.items():
            then = before[name]
            nodes = self.queries.node_parameters(name)
            for match in ordered(then - now):
                yield QueryChange("lost", name, match)
            for match in ordered(m_ for m_ in then & now if any(m_[i] in changed for i in nodes)):
                yield QueryChange("updated", name, match)
            for match in ordered(now - then):
                yield QueryChange("found", name, match)


# a set of queries on a graph


def evaluate_all(
    queries: Queries, graph: Graph, window_value: Callable[[Element, Moving], Value]
) -> dict[str, set[Match]]:
    """Return the matches of every query."""
    found: dict[str, set[Match]] = {}
    reader = _ModelReader(queries, graph, window_value, found)
    for name, query in queries.queries.items():
        found[name] = reader.matches(query)
    return found


@dataclass(slots=True)
class _ModelReader:
    queries: Queries
    graph: Graph
    window_value: Callable[[Element, Moving], Value]
    found: dict[str, set[Match]]

    def matches(self, query: m.QueryDefinition) -> set[Match]:
        if isinstance(query.alternatives, m.Components):
            return self._components(query.alternatives)
        rows: dict[Match, Row] = {}
        widened = self.queries.widened(query.name)
        for alternative in query.alternatives:
            for row in self._alternative(alternative):
                match: Match = tuple(row[name] for name in query.parameters)
                match = match if widened is None else widened(match)
                rows[match] = dict(zip(query.parameters, match, strict=True))
        return set(rows) if query.top is None else self._top(query.top, rows)

    def _alternative(self, alternative: m.Find) -> Iterator[Row]:
        for joined in self._joined(alternative.constraints, [{}]):
            row = joined
            for definition in alternative.definitions:
                row = row | {definition.name: self._defined(definition, row)}
            if alternative.where is None or is_true(self._value(alternative.where, row)):
                yield row

    def _joined(self, constraints: Iterable[m.Constraint], rows: list[Row]) -> list[Row]:
        """Join the rows with the matches of all constraints; negations come last, when all variables are bound."""
        positive = [c for c in constraints if not isinstance(c, m.No)]
        for constraint in positive:
            variables, tuples = self._relation(constraint)
            rows = [row | new for row in rows for new in _agreeing(row, variables, tuples)]
        for no in constraints:
            if isinstance(no, m.No):
                rows = [row for row in rows if not self._has_match(no, row)]
        return rows

    def _has_match(self, no: m.No, row: Row) -> bool:
        inside = self._joined(no.constraints, [row])
        return any(no.where is None or is_true(self._value(no.where, one)) for one in inside)

    def _relation(self, constraint: m.IsNode | m.Walk | m.QueryCall) -> tuple[tuple[str, ...], set[Match]]:
        match constraint:
            case m.IsNode():
                is_a = self.graph.kinds.is_a
                return (constraint.variable,), {(n,) for n, k in self.graph.nodes.items() if is_a(k, constraint.type)}
            case m.Walk():
                edges: set[Match] = set(self.graph.edges(constraint.edge))
                return (constraint.source, constraint.target), self._walks(edges, constraint.low, constraint.high)
            case m.QueryCall():
                matches = self.found[constraint.query]
                if (constraint.low, constraint.high) != (1, 1):
                    matches = self._walks(matches, constraint.low, constraint.high)
                return constraint.arguments, matches

    def _walks(self, edges: set[Match], low: int, high: int | None) -> set[Match]:
        """Return the node pairs connected by some walk of ``low`` to ``high`` edges."""
        at: set[Match] = {(node, node) for node in self.graph.nodes}
        found = set(at) if low == 0 else set()
        seen: set[frozenset[Match]] = set()
        steps = 0
        while at and (high is None or steps < high):
            at = {(a, c) for a, b in at for b_, c in edges if b == b_}
            steps += 1
            if steps >= low:
                found |= at
            if high is None:
                # Unbounded walks end when a set of pairs repeats.
                if frozenset(at) in seen:
                    break
                seen.add(frozenset(at))
        return found

    def _components(self, components: m.Components) -> set[Match]:
        neighbors: dict[Match, set[Match]] = {}
        for *group, a, b in self.found[components.edges]:
            neighbors.setdefault((*group, a), set()).add((*group, b))
            neighbors.setdefault((*group, b), set()).add((*group, a))
        for node in self.found[components.nodes] if components.nodes is not None else ():
            neighbors.setdefault(node, set())
        found: set[Match] = set()
        for start in neighbors:
            reached, todo = {start}, [start]
            while todo:
                new = neighbors[todo.pop()] - reached
                reached |= new
                todo.extend(new)
            found.add((*start, ordered(reached)[0][-1]))
        return found

    # values

    def _defined(self, definition: m.Definition, row: Row) -> Value:
        if isinstance(definition, m.Let):
            return canonical(self._value(definition.value, row))
        variables, tuples = self._relation(definition.call)
        inside = [row | new for new in _agreeing(row, variables, tuples)]
        if definition.value is None:
            return len(inside)
        values = [self._value(definition.value, one) for one in _by_match(inside)]
        return canonical(aggregate(definition.function, values, definition.empty_value))

    def _value(self, expr: ex.Expr, row: Row) -> Value:
        def named(parts: tuple[str, ...]) -> Value:
            found = row[parts[0]]
            return found if len(parts) == 1 else self._attribute(found, parts[1])  # type: ignore[arg-type]

        return evaluate(expr, RowScope(named))

    def _attribute(self, element: Element, name: str) -> Value:
        window = self.queries.moving.get(name)
        return self.graph.value(element, name) if window is None else self.window_value(element, window)

    def _top(self, top: m.Top, rows: dict[Match, Row]) -> set[Match]:
        groups: dict[Match, list[tuple[Match, list[Value]]]] = {}
        for match, row in rows.items():
            keys = [self._value(order.value, row) for order in top.by]
            groups.setdefault(tuple(row[name] for name in top.per), []).append((match, keys))
        found: set[Match] = set()
        for members in groups.values():
            members.sort(key=lambda one: top_key(top, one[1]))
            last = members[: top.count][-1]
            found |= {match for match, keys in members if top_key(top, keys) <= top_key(top, last[1])}
        return found


def _agreeing(row: Row, variables: tuple[str, ...], tuples: set[Match]) -> Iterator[Row]:
    """Yield the bindings that each tuple adds to a row, if they agree with it and among repeated variables."""
    for values in tuples:
        new = dict(zip(variables, values, strict=True))
        if all(same(new[name], value) for name, value in zip(variables, values, strict=True)) and all(
            same(row[name], value) for name, value in new.items() if name in row
        ):
            yield new


def _by_match(rows: list[Row]) -> list[Row]:
    """Sort rows into one order, so that a sum of doubles is deterministic."""
    return sorted(rows, key=lambda row: match_key([row[name] for name in sorted(row)]))


_descending_key = cmp_to_key(lambda left, right: compare_values(right, left))


def top_key(top: m.Top, keys: Sequence[Value]) -> list[object]:
    """Return the sort key of the top: the smallest key is first; null is the lowest value."""
    return [(order_key if order.ascending else _descending_key)(key) for order, key in zip(top.by, keys, strict=True)]
