"""Search for repairs of a model: one live model moves from state to state, and each state is evaluated once.

A state is the unordered set of facts that differ from the start, so different paths to the same model share a state.
The successors of a state, and its matches of objectives, are computed once and cached. Paths differ by steps and cost:
a cheaper or shorter path to a known state continues from there without a new evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias, cast

from perseid.engines.models.live import LiveModel
from perseid.errors import UnsupportedError
from perseid.lang import expressions as ex
from perseid.lang import models as m
from perseid.lang import rules as r
from perseid.semantics import types as t
from perseid.semantics.graphs import RANK, AppliedChange, Change, Element, Graph
from perseid.semantics.model_queries import Queries
from perseid.semantics.model_repair import Aims, Fact, Fix, RepairStep, changes_of_step, describe_step, facts
from perseid.semantics.model_values import ordered

State: TypeAlias = "frozenset[Fact]"
START: State = frozenset()
STRATEGIES = ("best first", "breadth first", "depth first", "hill climbing")


@dataclass(frozen=True, slots=True)
class RepairSearchResult:
    """Result of a search: fixes, best first; whether the search was complete; the number of known states."""

    fixes: list[Fix]
    complete: bool
    states: int
    valid: bool
    """True if no hard objective has a match at the start."""


@dataclass(frozen=True, slots=True)
class _Path:
    state: State
    steps: tuple[RepairStep, ...]
    cost: Decimal


def search(
    queries: Queries, repairs: Sequence[r.Repair], graph: Graph, aims: Aims, strategy: str, states: int
) -> RepairSearchResult:
    """Search for fixes of a model with one of :data:`STRATEGIES`, over at most ``states`` states."""
    _refuse_lists(queries)
    space = _Space(queries, repairs, graph, aims, states)
    if not space.scores[START][0]:
        return RepairSearchResult([], True, 1, True)
    fixes = _climb(space) if strategy == "hill climbing" else _explore(space, strategy)
    complete = not space.full and strategy != "hill climbing"
    return RepairSearchResult(sorted(fixes, key=Fix.rank), complete, len(space.scores), False)


def _explore(space: _Space, strategy: str) -> list[Fix]:
    """Visit every state within bounds, in the order of the strategy; return the best fix for each valid state."""
    paths: dict[State, list[_Path]] = {}
    best: dict[State, Fix] = {}
    numbers = count()
    todo: list[tuple[tuple[object, ...], int, _Path]] = []

    def add(path: _Path) -> None:
        if _is_better(path, paths.setdefault(path.state, [])):
            heappush(todo, (_urgency(strategy, path, space), next(numbers), path))

    add(_Path(START, (), Decimal(0)))
    while todo:
        path = heappop(todo)[2]
        if not any(path is known for known in paths[path.state]):
            continue  # superseded by a better path
        for step, state in space.steps(path.state):
            cost = path.cost + step.cost
            if not space.aims.allows(len(path.steps) + 1, cost):
                continue
            after = _Path(state, (*path.steps, step), cost)
            hard, soft = space.scores[state]
            if hard:
                add(after)
                continue
            fix = Fix(after.steps, soft)
            if state not in best or fix.sort_key() < best[state].sort_key():
                best[state] = fix
    return list(best.values())


def _urgency(strategy: str, path: _Path, space: _Space) -> tuple[object, ...]:
    if strategy == "breadth first":
        return (len(path.steps),)
    if strategy == "depth first":
        return (-len(path.steps),)
    return (*space.scores[path.state], path.cost, len(path.steps), _texts(path))


def _is_better(path: _Path, known: list[_Path]) -> bool:
    """Return whether no known path beats this one; if so, add it and drop the known paths that it beats."""
    if any(_beats(other, path) for other in known):
        return False
    known[:] = [other for other in known if not _beats(path, other)]
    known.append(path)
    return True


def _beats(path: _Path, other: _Path) -> bool:
    if path.cost > other.cost or len(path.steps) > len(other.steps):
        return False
    equal = (path.cost, len(path.steps)) == (other.cost, len(other.steps))
    return not equal or _texts(path) <= _texts(other)


def _texts(path: _Path) -> tuple[str, ...]:
    return tuple(step.description for step in path.steps)


def _climb(space: _Space) -> list[Fix]:
    """Hill climbing: move to the best next state while it improves on the current one."""
    path = _Path(START, (), Decimal(0))
    while space.scores[path.state][0]:
        allowed = [
            (space.scores[state], step.cost, step.description, step, state)
            for step, state in space.steps(path.state)
            if space.aims.allows(len(path.steps) + 1, path.cost + step.cost)
        ]
        if not allowed:
            return []
        score, _, _, step, state = min(allowed, key=lambda one: one[:3])
        if score >= space.scores[path.state]:
            return []
        path = _Path(state, (*path.steps, step), path.cost + step.cost)
    return [Fix(path.steps, space.scores[path.state][1])]


class _Space:
    """The states reachable by repairs, and one live model that moves to the requested state."""

    def __init__(self, queries: Queries, repairs: Sequence[r.Repair], graph: Graph, aims: Aims, states: int) -> None:
        names = {*aims.hard, *aims.soft, *aims.never, *(repair.query for repair in repairs)}
        self.live = LiveModel(_required_queries(queries, names))
        self.repairs = repairs
        self.aims = aims
        self.most = states
        self.full = False
        """True if states were left out because the limit was reached."""
        self.live.transact(0, _establish_facts(facts(graph, graph.nodes)))
        self.at = START
        self.scores: dict[State, tuple[int, int]] = {START: self._score()}
        """Number of matches of hard and of soft objectives, by state."""
        self.following: dict[State, list[tuple[RepairStep, State]]] = {}

    def steps(self, state: State) -> list[tuple[RepairStep, State]]:
        """Return the possible steps from a state, with the states they lead to."""
        if state not in self.following:
            self._move_to(state)
            self.following[state] = list(self._try_all(state))
        return self.following[state]

    def _try_all(self, state: State) -> Iterator[tuple[RepairStep, State]]:
        graph = self.live.graph
        todo = [
            (repair, match, changes_of_step(repair, match, graph))
            for repair in self.repairs
            for match in ordered(self.live.matches[repair.query].standing)
        ]
        for repair, match, changes in todo:
            self._move_to(state)
            done, refused = self._change(changes)
            if refused or any(self.live.matches[name].standing for name in self.aims.never):
                continue
            if self.at not in self.scores:
                if len(self.scores) >= self.most:
                    self.full = True
                    continue
                self.scores[self.at] = self._score()
            yield RepairStep(repair.name, match, changes, repair.cost, describe_step(repair, match, done)), self.at

    def _score(self) -> tuple[int, int]:
        matches = self.live.matches
        hard = sum(len(matches[name].standing) for name in self.aims.hard)
        return hard, sum(len(matches[name].standing) for name in self.aims.soft)

    def _change(self, changes: Iterable[Change]) -> tuple[list[AppliedChange], bool]:
        changes = list(changes)
        touched = {end for change in changes for end in (change.element, change.target) if end is not None}
        graph = self.live.graph
        before = facts(graph, touched)
        effects = self.live.transact(0, changes)
        self.at = self.at ^ before ^ facts(graph, touched)
        return effects.done, bool(effects.refused)

    def _move_to(self, state: State) -> None:
        """Move the model to a state: remove the facts that the state lacks, add those that it has."""
        different = self.at ^ state
        if not different:
            return
        graph = self.live.graph
        nodes = {fact[1] for fact in different if fact[0] == "node"}
        # Deleting a node also deletes its values and edges, including those that both states share.
        present = facts(graph, {fact[1] for fact in different} | nodes)  # type: ignore[arg-type]
        removed = {fact for fact in different if fact in present}
        replaced = {e for e in nodes if sum(f[0] == "node" and f[1] == e for f in different) == 2}
        restored = {
            f
            for f in present - removed
            if f[0] != "node" and (f[1] in replaced or (f[0] == "edge" and f[3] in replaced))
        }
        self._change([*_remove_facts(removed), *_establish_facts((different - removed) | restored)])
        assert self.at == state


def _establish_facts(missing: Iterable[Fact]) -> list[Change]:
    """Return the changes that establish facts: nodes, then their values, then edges."""
    found: list[Change] = []
    for fact in missing:
        element = cast("Element", fact[1])
        match fact[0]:
            case "node":
                found.append(Change("create", element, str(fact[2])))
            case "value":
                found.append(Change("set", element, None, str(fact[2]), fact[3]))
            case "edge":
                target = cast("Element", fact[3])
                found.append(Change("link", element, str(fact[2]), target=target))
    return sorted(found, key=lambda change: RANK[change.action])


def _remove_facts(removed: set[Fact]) -> list[Change]:
    deleted: set[Element] = {fact[1] for fact in removed if fact[0] == "node"}  # type: ignore[misc]
    found: list[Change] = []
    for fact in removed:
        element = cast("Element", fact[1])
        match fact[0]:
            case "node":
                found.append(Change("delete", element))
            case "value" if element not in deleted:
                found.append(Change("set", element, None, str(fact[2]), None))
            case "edge":
                target = cast("Element", fact[3])
                found.append(Change("unlink", element, str(fact[2]), target=target))
    order = {"set": 0, "unlink": 1, "delete": 2}
    return sorted(found, key=lambda change: order[change.action])


def _refuse_lists(queries: Queries) -> None:
    for kind, carried in queries.kinds.carried.items():
        for name, type_ in carried.items():
            if isinstance(type_, t.Array | t.Map | t.Struct | t.Variant):
                raise UnsupportedError(
                    f"A search for repairs supports only single values, and {kind}.{name} is {type_}.",
                    hint="Use attributes with single values: a number, a string, a timestamp.",
                )


def _required_queries(queries: Queries, names: Iterable[str]) -> Queries:
    """Return only the queries that a search evaluates, and those that they call."""
    required: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in required:
            required.add(name)
            todo.extend(m.called(queries.queries[name]))
    for name in sorted(required):
        if any(ref.parts[-1] in queries.moving for ref in _refs(queries.queries[name])):
            raise UnsupportedError(
                f"A search for repairs tries changes at one time, and query {name} has a moving window.",
                hint="Use queries without moving averages and other moving windows.",
            )
    definitions = {name: query for name, query in queries.queries.items() if name in required}
    return Queries(queries.kinds, definitions, {name: queries.sorts[name] for name in definitions}, {})


def _refs(value: object) -> Iterator[ex.Ref]:
    if isinstance(value, ex.Ref):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _refs(part)
    elif is_dataclass(value) and not isinstance(value, ex.Span):
        for part in fields(value):
            yield from _refs(getattr(value, part.name))
