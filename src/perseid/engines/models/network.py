"""A set of queries compiled to a network of operators; common subqueries are shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from typing import Any

from perseid.engines.models.aggregates import Aggregates, accumulator
from perseid.engines.models.closure import Closure
from perseid.engines.models.components import ConnectedComponents
from perseid.engines.models.deltas import Changed, Delta, columns, row_of
from perseid.engines.models.expressions import condition, value
from perseid.engines.models.operators import AntiJoin, Distinct, Filter, Join, Lookup, Operator, Product, Project, Union
from perseid.engines.models.ranks import downwards, rank
from perseid.engines.models.sources import Attributes, ChangeSource, EdgeRows, MovingWindows, Nodes, Place, place_of
from perseid.engines.models.top import TopRows
from perseid.lang import expressions as ex
from perseid.lang import models as m
from perseid.semantics.graphs import AppliedChange, same
from perseid.semantics.model_queries import Moving, Queries

Name = tuple[str, ...]
"""A variable, or an attribute of one: the name of a column of a relation."""


class Network:
    """Operators in topological order: each comes after its inputs."""

    def __init__(self, queries: Queries) -> None:
        self.queries = queries
        self.operators: list[Any] = []
        self.outputs: dict[str, int] = {}
        self.shared: dict[object, int] = {}
        for name, query in queries.queries.items():
            self.outputs[name] = _Compiled(self, query).output()
        self.followers: list[list[int]] = [[] for _ in self.operators]
        """By operator, the operators with it as an input."""
        self.listeners: dict[Place, list[int]] = {}
        self.clocks: list[int] = []
        """Operators that may change when only time advances."""
        for number, operator in enumerate(self.operators):
            for other in dict.fromkeys(operator.inputs):
                self.followers[other].append(number)
            for place in () if operator.inputs else operator.listens():
                self.listeners.setdefault(place, []).append(number)
            if isinstance(operator, MovingWindows):
                self.clocks.append(number)

    def propagate(
        self, time: int, done: list[AppliedChange], known: Mapping[int, Changed] | None = None
    ) -> dict[int, Any]:
        """Return the deltas by operator; operators without changed input, and those in ``known``, do not run."""
        known = known or {}
        changes_of: dict[int, list[AppliedChange]] = {
            number: [] for number in self.clocks if self.operators[number].is_due(time)
        }
        for one in done:
            for number in self.listeners.get(place_of(one), ()):
                changes_of.setdefault(number, []).append(one)
        deltas: dict[int, Delta | Changed] = {}
        queue = sorted(changes_of.keys() | known.keys())
        queued = set(queue)
        while queue:
            number = heappop(queue)
            operator = self.operators[number]
            delta: Delta | Changed
            if number in known:
                delta = known[number]
            elif number in changes_of:
                delta = operator.read(time, changes_of[number])
            else:
                delta = operator.step(*[deltas.get(other, _NOTHING) for other in operator.inputs])
            if delta:
                deltas[number] = delta
                for other in self.followers[number]:
                    if other not in queued:
                        queued.add(other)
                        heappush(queue, other)
        return deltas

    def add(self, operator: Operator | ChangeSource, share_key: object = None) -> int:
        """Add an operator and return its number; an existing operator with the same ``share_key`` is reused."""
        if share_key is not None and share_key in self.shared:
            return self.shared[share_key]
        self.operators.append(operator)
        number = len(self.operators) - 1
        if share_key is not None:
            self.shared[share_key] = number
        return number

    def source(self, share_key: object, create: Callable[[], Operator | ChangeSource]) -> int:
        return self.shared[share_key] if share_key in self.shared else self.add(create(), share_key)

    def nodes(self, type_: str | None) -> int:
        return self.source(("nodes", type_), lambda: Nodes(self.queries.kinds, type_))

    def edges(self, edge: str) -> int:
        return self.source(("edges", edge), lambda: EdgeRows(edge))

    def values(self, attribute: str) -> int:
        window = self.queries.moving.get(attribute)
        return self.source(("values", attribute), lambda: self._values(attribute, window))

    def _values(self, attribute: str, window: Moving | None) -> Attributes | MovingWindows:
        kinds = self.queries.kinds
        return Attributes(kinds, attribute) if window is None else MovingWindows(kinds, attribute, window)

    def walks(self, edges: int, low: int, high: int | None) -> int:
        """Return the operator for pairs connected by a walk of ``low`` to ``high`` edges."""
        if (low, high) == (1, 1):
            return edges
        return self.source(("walks", edges, low, high), lambda: self._walks(edges, low, high))

    def _walks(self, edges: int, low: int, high: int | None) -> Distinct:
        if high is None:
            found = [self.source(("closure", edges), lambda: Closure(edges))]
        else:
            found, at = [], edges
            for steps in range(1, high + 1):
                if steps > 1:
                    joined = self.add(Join(at, edges, columns((1,)), columns((0,)), (1,)))
                    at = self.add(Distinct(self.add(Project(joined, row_of((0, 2))))))
                if steps >= low:
                    found.append(at)
        if low == 0:
            found.append(self.add(Project(self.nodes(None), row_of((0, 0)))))
        return Distinct(self.add(Union(tuple(found))))


class _Relation:
    """An operator with the names of its columns."""

    __slots__ = ("names", "number")

    def __init__(self, number: int, names: tuple[Name, ...]) -> None:
        self.number = number
        self.names = names

    def places(self) -> dict[Name, int]:
        return {name: place for place, name in enumerate(self.names)}

    def has(self, name: Name) -> bool:
        return name in self.names


class _Compiled:
    """Compiles one query into the network."""

    def __init__(self, network: Network, query: m.QueryDefinition) -> None:
        self.network = network
        self.query = query

    def output(self) -> int:
        alternatives = self.query.alternatives
        if isinstance(alternatives, m.Components):
            nodes = None if alternatives.nodes is None else self.network.outputs[alternatives.nodes]
            return self.network.add(ConnectedComponents(self.network.outputs[alternatives.edges], nodes))
        found = tuple(self._alternative(alternative) for alternative in alternatives)
        union = found[0] if len(found) == 1 else self.network.add(Union(found))
        widened = self.network.queries.widened(self.query.name)
        if widened is not None:
            union = self.network.add(Project(union, widened))
        distinct = self.network.add(Distinct(union))
        return distinct if self.query.top is None else self._top(self.query.top, distinct)

    def _alternative(self, alternative: m.Find) -> int:
        relation = self._rows(alternative.constraints, None, alternative.definitions, alternative.where)
        return self._projected(relation, [(name,) for name in self.query.parameters])

    def _projected(self, relation: _Relation, names: Iterable[Name]) -> int:
        places = relation.places()
        selected = tuple(places[name] for name in names)
        if selected == tuple(range(len(relation.names))):
            return relation.number
        return self.network.add(Project(relation.number, row_of(selected)))

    # constraints

    def _rows(
        self,
        constraints: tuple[m.Constraint, ...],
        start: _Relation | None,
        definitions: tuple[m.Definition, ...] = (),
        where: ex.Expr | None = None,
    ) -> _Relation:
        """Return the rows that satisfy the constraints; each condition applies as soon as its variables are bound."""
        pending = ex.conjuncts(where)
        remaining = [c for c in constraints if not isinstance(c, m.No)]
        remaining = [c for c in remaining if not self._implied(c, remaining)]
        relation = start
        while remaining:
            chosen = self._next(remaining, relation)
            remaining.remove(chosen)
            right = self._constraint(chosen)
            relation = right if relation is None else self._joined(relation, right)
            relation = self._filtered(relation, pending)
        assert relation is not None
        for constraint in constraints:
            if isinstance(constraint, m.No):
                relation = self._without(relation, constraint)
        for definition in definitions:
            relation = self._defined(relation, definition)
            relation = self._filtered(relation, pending)
        relation = self._filtered(relation, pending)
        assert not pending
        return relation

    def _implied(self, constraint: m.Constraint, others: list[m.IsNode | m.Walk | m.QueryCall]) -> bool:
        """Return whether the node type is implied by an edge that requires it at this end."""
        if not isinstance(constraint, m.IsNode):
            return False
        kinds = self.network.queries.kinds
        for other in others:
            if isinstance(other, m.Walk) and other.low:
                edge = kinds.edges[other.edge]
                for variable, type_ in ((other.source, edge.source), (other.target, edge.target)):
                    if variable == constraint.variable and kinds.is_a(type_, constraint.type):
                        return True
        return False

    def _next(
        self, remaining: list[m.IsNode | m.Walk | m.QueryCall], relation: _Relation | None
    ) -> m.IsNode | m.Walk | m.QueryCall:
        """Return the constraint to join next: one that shares a variable, with the fewest unknown variables."""
        if relation is None:
            return remaining[0]
        known = {name[0] for name in relation.names}

        def unknown(constraint: m.IsNode | m.Walk | m.QueryCall) -> tuple[bool, int]:
            variables = set(m.variables_of(constraint))
            return not variables & known, len(variables - known)

        return min(remaining, key=unknown)

    def _constraint(self, constraint: m.IsNode | m.Walk | m.QueryCall) -> _Relation:
        network = self.network
        match constraint:
            case m.IsNode():
                number = network.nodes(constraint.type)
            case m.Walk():
                number = network.walks(network.edges(constraint.edge), constraint.low, constraint.high)
            case m.QueryCall():
                number = network.walks(network.outputs[constraint.query], constraint.low, constraint.high)
        return self._without_repeats(number, m.variables_of(constraint))

    def _without_repeats(self, number: int, variables: tuple[str, ...]) -> _Relation:
        """Name the columns; for a repeated variable, filter rows with equal values and drop the duplicate column."""
        first = {name: variables.index(name) for name in variables}
        if len(first) == len(variables):
            return _Relation(number, tuple((name,) for name in variables))
        pairs = [(place, first[name]) for place, name in enumerate(variables) if first[name] != place]
        filtered = self.network.add(Filter(number, lambda row: all(same(row[a], row[b]) for a, b in pairs)))
        projected = self.network.add(Project(filtered, row_of(tuple(first.values()))))
        return _Relation(projected, tuple((name,) for name in first))

    def _joined(self, left: _Relation, right: _Relation) -> _Relation:
        common = [name for name in right.names if left.has(name)]
        added = tuple(place for place, name in enumerate(right.names) if not left.has(name))
        names = left.names + tuple(right.names[place] for place in added)
        if not common:
            return _Relation(self.network.add(Product(left.number, right.number, added)), names)
        left_places, right_places = left.places(), right.places()
        keys = [columns(tuple(places[name] for name in common)) for places in (left_places, right_places)]
        return _Relation(self.network.add(Join(left.number, right.number, keys[0], keys[1], added)), names)

    def _without(self, relation: _Relation, no: m.No) -> _Relation:
        inside = [c for c in no.constraints if not isinstance(c, m.No)]
        inner_names = {(name,) for c in inside for name in m.variables_of(c)}
        condition_names = {(ref.parts[0],) for ref in _references(no.where)}
        alone = condition_names <= inner_names and bool(inside) and not any(isinstance(c, m.No) for c in no.constraints)
        if alone:
            right = self._rows(no.constraints, None, (), no.where)
            shared: list[Name] = [name for name in relation.names if name in inner_names]
        else:
            # Conditions refer to outer variables, so the inner search starts from the outer rows.
            right = self._rows(no.constraints, relation, (), no.where)
            shared = list(relation.names)
        left_places, right_places = relation.places(), right.places()
        keys = [columns(tuple(places[name] for name in shared)) for places in (left_places, right_places)]
        return _Relation(self.network.add(AntiJoin(relation.number, right.number, keys[0], keys[1])), relation.names)

    # values

    def _filtered(self, relation: _Relation, pending: list[ex.Expr]) -> _Relation:
        for expr in list(pending):
            known = {name[0] for name in relation.names}
            if {ref.parts[0] for ref in _references(expr)} <= known:
                pending.remove(expr)
                relation = self._with_attributes(relation, expr)
                predicate = condition(expr, relation.places())
                relation = _Relation(self.network.add(Filter(relation.number, predicate)), relation.names)
        return relation

    def _with_attributes(self, relation: _Relation, expr: ex.Expr | None) -> _Relation:
        """Return the relation extended by a column for every attribute that an expression reads."""
        for ref in _references(expr):
            if len(ref.parts) > 1 and not relation.has(ref.parts):
                source = self.network.values(ref.parts[1])
                values = self.network.operators[source]
                key = columns((relation.places()[ref.parts[:1]],))
                number = self.network.add(Lookup(relation.number, source, key, values.current, values.default))
                relation = _Relation(number, (*relation.names, ref.parts))
        return relation

    def _defined(self, relation: _Relation, definition: m.Definition) -> _Relation:
        if isinstance(definition, m.Let):
            relation = self._with_attributes(relation, definition.value)
            computed = value(definition.value, relation.places())
            number = self.network.add(Project(relation.number, lambda row: (*row, computed(row))))
        else:
            number = self._aggregated(relation, definition)
        return _Relation(number, (*relation.names, (definition.name,)))

    def _aggregated(self, relation: _Relation, definition: m.Aggregate) -> int:
        inside = self._constraint(definition.call)
        bound = [name for name in inside.names if relation.has(name)]
        inside = self._with_attributes(inside, definition.value)
        inner_places, outer_places = inside.places(), relation.places()
        argument = None if definition.value is None else value(definition.value, inner_places)
        create = accumulator(definition.function, definition.empty_value)
        key = columns(tuple(inner_places[name] for name in bound))
        groups = Aggregates(inside.number, key, argument, create, definition.empty_value)
        source = self.network.add(groups)
        group_key = columns(tuple(outer_places[name] for name in bound))
        return self.network.add(Lookup(relation.number, source, group_key, groups.results, definition.empty_value))

    def _top(self, top: m.Top, distinct: int) -> int:
        relation = _Relation(distinct, tuple((name,) for name in self.query.parameters))
        for order in top.by:
            relation = self._with_attributes(relation, order.value)
        places = relation.places()
        keys = [(value(order.value, places), rank if order.ascending else downwards) for order in top.by]
        group = columns(tuple(places[name,] for name in top.per))
        rows = TopRows(
            relation.number,
            top.count,
            group,
            lambda row: tuple(transform(key(row)) for key, transform in keys),
            len(self.query.parameters),
        )
        return self.network.add(rows)


def _references(expr: ex.Expr | None) -> list[ex.Ref]:
    return [] if expr is None else [e for e in ex.walk(expr) if isinstance(e, ex.Ref)]


_NOTHING: Delta = {}
