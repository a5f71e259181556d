"""Vectorized queries over models of fixed structure: structural matches, each with a condition over columns.

A frame sets attributes of a model created from a snapshot. Nodes and edges are fixed, so the snapshot determines which
elements can match. Whether they match is a condition over the columns of a frame, computed for all frames of all models
at once. A match is found when its condition becomes true, and lost when it becomes false. A query without this form
raises :class:`~perseid.engines.models.column_program.NotVectorizable` with the reason; then
:class:`~perseid.engines.models.live.LiveModel` evaluates frame by frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from perseid.engines.models.column_program import (
    ColumnProgram,
    Constant,
    Formulas,
    FrameColumn,
    NotVectorizable,
    ProgramSlot,
    Term,
)
from perseid.engines.models.live import LiveModel
from perseid.engines.models.vectors import BOOLEAN, INTEGER, Values, Vector
from perseid.lang import expressions as ex
from perseid.lang import models as m
from perseid.semantics.graphs import Change, Element, canonical
from perseid.semantics.model_queries import Match, Queries
from perseid.semantics.model_values import ordered
from perseid.semantics.values import Value

MOST_MATCHES = 4_096
"""Limit of structural matches of one query: with more, most work would be for conditions that never hold."""

Guard: TypeAlias = "tuple[ProgramSlot, ...]"
"""Conjunction of conditions; the empty guard is always true."""
Row: TypeAlias = "tuple[dict[str, Term], Guard]"


@dataclass(frozen=True, slots=True)
class Standing:
    """A structural match, and the boolean step for the frames in which it holds; None if it always does."""

    match: Match
    condition: ProgramSlot | None
    changed: ProgramSlot | None
    """Step for the frames in which an attribute of one of its nodes changes; None if no column sets one."""


class FrameQueries:
    """Some queries of a set, compiled for arrays of frames."""

    def __init__(
        self,
        queries: Queries,
        snapshot: Sequence[Change],
        columns: Mapping[tuple[Element, str], FrameColumn],
        wanted: Iterable[str],
    ) -> None:
        self.queries = queries
        self.columns = columns
        self.program = ColumnProgram()
        self.model = LiveModel(queries)
        self.model.transact(0, snapshot)
        self.formulas = Formulas(self.program, self.model.graph, columns, queries.moving)
        self.changing = {attribute for _, attribute in columns}
        self.found: dict[str, dict[Match, list[Guard]]] = {}
        self.standing = {name: self._standing(name) for name in wanted}

    def _standing(self, query: str) -> list[Standing]:
        found = self._matches(query)
        nodes = self.queries.node_parameters(query)
        return [
            Standing(match, self._any(found[match]), self._changed([match[place] for place in nodes]))
            for match in ordered(found)
        ]

    def _changed(self, nodes: Sequence[Value]) -> ProgramSlot | None:
        columns = [column for (element, _), column in self.columns.items() if element in nodes]
        for column in columns:
            if column.family not in (BOOLEAN, INTEGER, "double"):
                raise NotVectorizable(f"column {column.name} of a node in a match is not a number or boolean")
        return self.program.changed(columns) if columns else None

    # queries

    def _matches(self, name: str) -> dict[Match, list[Guard]]:
        """Return the structural matches of a query; each holds where one of its guards does."""
        if name not in self.found:
            query = self.queries.queries[name]
            if self._is_still(query):
                self.found[name] = {match: [()] for match in self.model.matches[name].standing}
            else:
                self.found[name] = self._changing_matches(query)
            if len(self.found[name]) > MOST_MATCHES:
                raise NotVectorizable(
                    f"{name} has {len(self.found[name]):,} structural matches, more than {MOST_MATCHES:,}"
                )
        return self.found[name]

    def _is_still(self, query: m.QueryDefinition) -> bool:
        """Return whether no attribute that a frame sets affects the matches of the query."""
        attributes = {ref.parts[1] for ref in _references(query) if len(ref.parts) > 1}
        if attributes & (self.changing | set(self.queries.moving)):
            return False
        return all(self._is_still(self.queries.queries[other]) for other in m.called(query))

    def _changing_matches(self, query: m.QueryDefinition) -> dict[Match, list[Guard]]:
        if isinstance(query.alternatives, m.Components):
            raise NotVectorizable(f"{query.name} computes components of changing matches")
        if query.top is not None:
            raise NotVectorizable(f"{query.name} has a top of changing values")
        found: dict[Match, list[Guard]] = {}
        for alternative in query.alternatives:
            for env, guard in self._rows_of_alternative(alternative):
                match = tuple(self._fixed(query, name, env[name]) for name in query.parameters)
                found.setdefault(match, []).append(guard)
        return found

    def _fixed(self, query: m.QueryDefinition, name: str, term: Term) -> Value:
        if isinstance(term, ProgramSlot):
            raise NotVectorizable(f"{name} of {query.name} is a changing value")
        return term.value

    def _rows_of_alternative(self, alternative: m.Find) -> Iterator[Row]:
        for env, guard in self._joined(alternative.constraints, [({}, ())]):
            row = dict(env)
            for definition in alternative.definitions:
                row[definition.name] = self._defined(definition, row)
            guarded = self._where(alternative.where, row, guard)
            if guarded is not None:
                yield row, guarded

    def _where(self, condition: ex.Expr | None, env: Mapping[str, Term], guard: Guard) -> Guard | None:
        """Return the guard extended by a condition; None if the condition is never true."""
        for part in ex.conjuncts(condition):
            term = self.formulas.term(part, env)
            if isinstance(term, ProgramSlot):
                if term.family != BOOLEAN:
                    return None
                guard = guard if term in guard else (*guard, term)
            elif term.value is not True:
                return None
        return guard

    # constraints

    def _joined(self, constraints: Iterable[m.Constraint], rows: list[Row]) -> list[Row]:
        pending = [c for c in constraints if not isinstance(c, m.No)]
        while pending:
            known = set(rows[0][0]) if rows else set()
            chosen = min(
                pending, key=lambda c: (not set(m.variables_of(c)) & known, len(set(m.variables_of(c)) - known))
            )
            pending.remove(chosen)
            rows = self._join(rows, chosen)
            if len(rows) > MOST_MATCHES:
                raise NotVectorizable(f"more than {MOST_MATCHES:,} structural matches")
        for no in constraints:
            if isinstance(no, m.No):
                rows = [row for row in (self._without(row, no) for row in rows) if row is not None]
        return rows

    def _join(self, rows: list[Row], constraint: m.IsNode | m.Walk | m.QueryCall) -> list[Row]:
        variables, tuples = self._relation(constraint)
        known = tuple(name for name in dict.fromkeys(variables) if rows and name in rows[0][0])
        by_key: dict[Match, list[tuple[dict[str, Value], list[Guard]]]] = {}
        for values, guards in tuples.items():
            new = dict(zip(variables, values, strict=True))
            if all(new[name] == value for name, value in zip(variables, values, strict=True)):
                by_key.setdefault(tuple(new[name] for name in known), []).append((new, guards))
        found: list[Row] = []
        for env, guard in rows:
            key = tuple(self._bound(env[name]) for name in known)
            for new, guards in by_key.get(key, ()):
                joined = self._all(guard, guards)
                found.append((env | {name: Constant(value) for name, value in new.items()}, joined))
        return found

    def _bound(self, term: Term) -> Value:
        if isinstance(term, ProgramSlot):
            raise NotVectorizable("a call with a changing value")
        return term.value

    def _without(self, row: Row, no: m.No) -> Row | None:
        env, guard = row
        inside = []
        for one, its in self._joined(no.constraints, [(env, ())]):
            guarded = self._where(no.where, one, its)
            if guarded is not None:
                inside.append(guarded)
        if not inside:
            return row
        present = self._any(inside)
        return (
            None if present is None else (env, (*guard, self.program.add_computed("absent", BOOLEAN, _absent, present)))
        )

    def _relation(
        self, constraint: m.IsNode | m.Walk | m.QueryCall
    ) -> tuple[tuple[str, ...], dict[Match, list[Guard]]]:
        variables = m.variables_of(constraint)
        if isinstance(constraint, m.QueryCall):
            if (constraint.low, constraint.high) == (1, 1):
                return variables, self._matches(constraint.query)
            if not self._is_still(self.queries.queries[constraint.query]):
                raise NotVectorizable(f"a closure of the changing query {constraint.query}")
        return variables, {match: [()] for match in self._standing_tuples(constraint)}

    def _standing_tuples(self, constraint: m.IsNode | m.Walk | m.QueryCall) -> Iterable[Match]:
        """Return the tuples that satisfy a constraint on the structure of the snapshot."""
        graph = self.model.graph
        if isinstance(constraint, m.IsNode):
            return [(node,) for node, kind in graph.nodes.items() if graph.kinds.is_a(kind, constraint.type)]
        if isinstance(constraint, m.QueryCall):
            edges: Iterable[Match] = self.model.matches[constraint.query].standing
        else:
            edges = graph.edges(constraint.edge)
        if (constraint.low, constraint.high) == (1, 1):
            return edges
        return _walk_pairs(graph.nodes, edges, constraint.low, constraint.high)

    # values and guards

    def _defined(self, definition: m.Definition, env: Mapping[str, Term]) -> Term:
        if isinstance(definition, m.Let):
            term = self.formulas.term(definition.value, env)
            return Constant(canonical(term.value)) if isinstance(term, Constant) else term
        if definition.function != "count" or definition.value is not None:
            raise NotVectorizable(f"{definition.function} of changing matches")
        always, at_times = 0, []
        for _, guards in self._join([(dict(env), ())], definition.call):
            if guards:
                at_times.append(self._all_slot(guards))
            else:
                always += 1
        if not at_times:
            return Constant(always)
        return self.program.add_computed(
            f"count beyond {always}", INTEGER, lambda *parts: _count(always, parts), *at_times
        )

    def _all(self, guard: Guard, guards: list[Guard]) -> Guard:
        """Return the conjunction of a guard with the disjunction of several others."""
        if len(guards) == 1:
            return (*guard, *(slot for slot in guards[0] if slot not in guard))
        any_of = self._any(guards)
        return guard if any_of is None or any_of in guard else (*guard, any_of)

    def _all_slot(self, guard: Guard) -> ProgramSlot:
        if len(guard) == 1:
            return guard[0]
        return self.program.add_computed("all", BOOLEAN, _all_of, *sorted(set(guard), key=lambda slot: slot.number))

    def _any(self, guards: list[Guard]) -> ProgramSlot | None:
        """Return the disjunction of guards; None if one of them is always true."""
        if () in guards:
            return None
        slots = sorted({self._all_slot(guard) for guard in guards}, key=lambda slot: slot.number)
        return slots[0] if len(slots) == 1 else self.program.add_computed("any", BOOLEAN, _any_of, *slots)


def _walk_pairs(nodes: Iterable[Element], edges: Iterable[Match], low: int, high: int | None) -> Iterator[Match]:
    """Yield the pairs of nodes connected by a walk of ``low`` to ``high`` edges."""
    after: dict[Value, set[Value]] = {}
    for source, target in edges:
        after.setdefault(source, set()).add(target)

    def successors(some: set[Value]) -> set[Value]:
        return {target for one in some for target in after.get(one, ())}

    for start in nodes:
        at: set[Value] = {start}
        for _ in range(low):
            at = successors(at)
        reached, steps = set(at), low
        while at and (high is None or steps < high):
            at = successors(at) - reached
            reached |= at
            steps += 1
        yield from ((start, end) for end in reached)


def _absent(present: Vector) -> Vector:
    return Vector(~present.values)


def _all_of(*parts: Vector) -> Vector:
    return Vector(np.logical_and.reduce(np.broadcast_arrays(*(p.values for p in parts))))


def _any_of(*parts: Vector) -> Vector:
    return Vector(np.logical_or.reduce(np.broadcast_arrays(*(p.values for p in parts))))


def _count(always: int, parts: Sequence[Vector]) -> Vector:
    total = cast("Values", np.int64(always))
    for part in parts:
        total = total + part.values
    return Vector(total)


def _references(query: m.QueryDefinition) -> Iterator[ex.Ref]:
    """Yield every name that an expression of a query reads."""
    if isinstance(query.alternatives, m.Components):
        return
    for alternative in query.alternatives:
        yield from _names(alternative.where)
        yield from _references_of_absence(alternative.constraints)
        for definition in alternative.definitions:
            yield from _names(definition.value)
    for order in () if query.top is None else query.top.by:
        yield from _names(order.value)


def _references_of_absence(constraints: Iterable[m.Constraint]) -> Iterator[ex.Ref]:
    for constraint in constraints:
        if isinstance(constraint, m.No):
            yield from _names(constraint.where)
            yield from _references_of_absence(constraint.constraints)


def _names(expr: ex.Expr | None) -> list[ex.Ref]:
    return [] if expr is None else [part for part in ex.walk(expr) if isinstance(part, ex.Ref)]
