"""Reference evaluator for queries over live models.

The evaluator follows docs/semantics.md (Live models) and docs/guides/models.md and shares no code with the product. It
applies each transaction to a graph of its own, recomputes every query from scratch, and derives *found*, *updated* and
*lost* from two consecutive results. Queries have a form of their own here, with a printer to the text of the language.

A constant below names each reading that the documentation left open when this evaluator was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

ANY = "_"

RECREATED_NODE_IS_CHANGED = True
"""A node deleted and created again in one transaction counts as changed, also with equal values and edges."""
TOP_INCLUDES_TIES = True
"""`top n` returns every match with fewer than n strictly better ones, so ties at the end can give more than n."""
NULL_JOINS_NULL = True
"""A variable that occurs in two places of a query has one value, and null is such a value."""
EQUAL_SET_EMITS_CHANGE = True
"""`change set` is an event also where the attribute had the value before."""
MOVING_SUM_OF_NOTHING: int | None = None
"""The sum of nothing is 0; a moving sum of no value is null."""


# metamodel


@dataclass(frozen=True)
class NodeType:
    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    above: str | None = None


@dataclass(frozen=True)
class EdgeType:
    name: str
    source: str
    target: str
    one: bool = False


@dataclass(frozen=True)
class ModelSchema:
    nodes: tuple[NodeType, ...]
    edges: tuple[EdgeType, ...]

    def node(self, name: str) -> NodeType:
        return next(each for each in self.nodes if each.name == name)

    def edge(self, name: str) -> EdgeType:
        return next(each for each in self.edges if each.name == name)

    def lineage(self, name: str) -> list[str]:
        """The type and all types above it."""
        found = [name]
        while (above := self.node(found[-1]).above) is not None:
            found.append(above)
        return found

    def is_a(self, name: str, above: str) -> bool:
        return above in self.lineage(name)

    def attributes(self, name: str) -> dict[str, str]:
        return {attribute: sort for each in self.lineage(name) for attribute, sort in self.node(each).attributes}

    def text(self) -> str:
        lines = ["model m"]
        for node in self.nodes:
            above = f" is {node.above}" if node.above else ""
            listed = ", ".join(f"{name} {sort}" for name, sort in node.attributes)
            lines.append(f"node {node.name}{above}" + (f" ({listed})" if listed else ""))
        for edge in self.edges:
            lines.append(f"edge {edge.name} {edge.source} -> {edge.target}" + (" one" if edge.one else ""))
        return "\n".join(lines) + "\n"


# expressions: text and value


@dataclass(frozen=True)
class QueryScope:
    graph: Graph
    values: dict[str, Any]
    now: int


class Expression:
    def text(self) -> str:
        raise NotImplementedError

    def value(self, scope: QueryScope) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Expression):
    constant: Any

    def text(self) -> str:
        if self.constant is None:
            return "null"
        if isinstance(self.constant, str):
            return "'" + self.constant.replace("'", "''") + "'"
        return str(self.constant)

    def value(self, scope: QueryScope) -> Any:
        return self.constant


@dataclass(frozen=True)
class Name(Expression):
    name: str

    def text(self) -> str:
        return self.name

    def value(self, scope: QueryScope) -> Any:
        return scope.values[self.name]


@dataclass(frozen=True)
class Attribute(Expression):
    name: str
    attribute: str

    def text(self) -> str:
        return f"{self.name}.{self.attribute}"

    def value(self, scope: QueryScope) -> Any:
        return scope.graph.attributes[scope.values[self.name]].get(self.attribute)


@dataclass(frozen=True)
class Moving(Expression):
    function: str
    name: str
    attribute: str
    last: int | None = None
    seconds: int | None = None

    def text(self) -> str:
        window = str(self.last) if self.last is not None else f"{self.seconds} seconds"
        return f"moving_{self.function}({self.name}.{self.attribute}, {window})"

    def value(self, scope: QueryScope) -> Any:
        given = scope.graph.given.get((scope.values[self.name], self.attribute), [])
        if self.last is not None:
            given = given[-self.last :]
        else:
            given = [(time, value) for time, value in given if time > scope.now - self.seconds]
        values = [value for _, value in given if value is not None]
        if self.function == "sum" and not values:
            return MOVING_SUM_OF_NOTHING
        return aggregate(self.function, values, len(values))


@dataclass(frozen=True)
class Binary(Expression):
    operator: str
    left: Expression
    right: Expression

    def text(self) -> str:
        return f"({self.left.text()} {self.operator} {self.right.text()})"

    def value(self, scope: QueryScope) -> Any:
        left, right = self.left.value(scope), self.right.value(scope)
        if self.operator == "and":
            if left is False or right is False:
                return False
            return None if left is None or right is None else True
        if self.operator == "or":
            if left is True or right is True:
                return True
            return None if left is None or right is None else False
        if left is None or right is None:
            return None
        return OPERATORS[self.operator](left, right)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


@dataclass(frozen=True)
class Negated(Expression):
    inner: Expression

    def text(self) -> str:
        return f"(not {self.inner.text()})"

    def value(self, scope: QueryScope) -> Any:
        inner = self.inner.value(scope)
        return None if inner is None else not inner


@dataclass(frozen=True)
class IsNull(Expression):
    inner: Expression
    null: bool = True

    def text(self) -> str:
        return f"({self.inner.text()} is {'' if self.null else 'not '}null)"

    def value(self, scope: QueryScope) -> Any:
        return (self.inner.value(scope) is None) == self.null


@dataclass(frozen=True)
class Coalesce(Expression):
    first: Expression
    second: Expression

    def text(self) -> str:
        return f"coalesce({self.first.text()}, {self.second.text()})"

    def value(self, scope: QueryScope) -> Any:
        first = self.first.value(scope)
        return self.second.value(scope) if first is None else first


def aggregate(function: str, values: Sequence[Any], count: int) -> Any:
    """Aggregate non-null values; ``count`` is the number of matches, nulls included."""
    if function == "count":
        return count
    if function == "sum":
        return sum(values)
    if not values:
        return None
    if function == "avg":
        return sum(values) / len(values)
    return min(values) if function == "min" else max(values)


# queries


@dataclass(frozen=True)
class Closure:
    least: int = 1
    most: int | None = 1

    def text(self) -> str:
        if (self.least, self.most) == (1, 1):
            return ""
        if self.most is None:
            return {0: "*", 1: "+"}[self.least]
        return f"{{{self.least}}}" if self.least == self.most else f"{{{self.least},{self.most}}}"

    def pairs(self, relation: set[tuple[Any, Any]], nodes: Iterable[Any]) -> set[tuple[Any, Any]]:
        """Pairs connected by a walk with a length within the bounds."""
        if (self.least, self.most) == (1, 1):
            return relation
        following: dict[Any, list[Any]] = {}
        for left, right in relation:
            following.setdefault(left, []).append(right)
        reached = {(node, node) for node in nodes}
        found = set(reached) if self.least == 0 else set()
        limit = self.most if self.most is not None else len({*nodes, *(x for pair in relation for x in pair)}) + 1
        for length in range(1, limit + 1):
            if length == 1:
                reached = set(relation)
            else:
                reached = {(left, after) for left, right in reached for after in following.get(right, ())}
            if length >= self.least:
                found |= reached
        return found


ONCE = Closure()


@dataclass(frozen=True)
class OfType:
    name: str
    type: str

    def text(self) -> str:
        return f"{self.name}: {self.type}"

    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def relation(self, world: World) -> set[tuple[Any, ...]]:
        graph = world.graph
        return {(node,) for node, kind in graph.kinds.items() if graph.schema.is_a(kind, self.type)}


@dataclass(frozen=True)
class Connected:
    source: str
    edge: str
    target: str
    closure: Closure = ONCE
    back: bool = False
    source_type: str | None = None
    target_type: str | None = None

    def text(self) -> str:
        source = self.source + (f": {self.source_type}" if self.source_type else "")
        target = self.target + (f": {self.target_type}" if self.target_type else "")
        if self.back:
            return f"{target} <-{self.edge}{self.closure.text()}- {source}"
        return f"{source} -{self.edge}{self.closure.text()}-> {target}"

    def names(self) -> tuple[str, ...]:
        return (self.source, self.target)

    def relation(self, world: World) -> set[tuple[Any, ...]]:
        graph = world.graph
        pairs = {(source, target) for kind, source, target in graph.edges if kind == self.edge}
        pairs = self.closure.pairs(pairs, graph.kinds)
        if self.source_type:
            pairs = {pair for pair in pairs if graph.schema.is_a(graph.kinds[pair[0]], self.source_type)}
        if self.target_type:
            pairs = {pair for pair in pairs if graph.schema.is_a(graph.kinds[pair[1]], self.target_type)}
        return pairs


@dataclass(frozen=True)
class CallConstraint:
    query: str
    arguments: tuple[str, ...]
    closure: Closure = ONCE

    def text(self) -> str:
        return f"{self.query}{self.closure.text()}({', '.join(self.arguments)})"

    def names(self) -> tuple[str, ...]:
        return self.arguments

    def relation(self, world: World) -> set[tuple[Any, ...]]:
        matches = world.results[self.query]
        return matches if self.closure == ONCE else self.closure.pairs(matches, world.graph.kinds)  # type: ignore[arg-type]


Positive = OfType | Connected | CallConstraint


@dataclass(frozen=True)
class Without:
    """A negative condition: no way to extend the match by the inner constraints."""

    inner: tuple[Positive, ...]
    where: Expression | None = None

    def text(self) -> str:
        if len(self.inner) == 1 and self.where is None:
            return f"not {self.inner[0].text()}"
        where = f" where {self.where.text()}" if self.where else ""
        return f"not ({', '.join(each.text() for each in self.inner)}{where})"


@dataclass(frozen=True)
class Let:
    name: str
    expression: Expression | None
    function: str | None = None
    call: CallConstraint | None = None

    def text(self) -> str:
        if self.call is None:
            assert self.expression is not None
            return f"{self.name} = {self.expression.text()}"
        made = "count" if self.expression is None else f"{self.function}({self.expression.text()})"
        return f"{self.name} = {made} of {self.call.text()}"


@dataclass(frozen=True)
class Way:
    positives: tuple[Positive, ...]
    negatives: tuple[Without, ...] = ()
    lets: tuple[Let, ...] = ()
    where: Expression | None = None

    def text(self) -> str:
        lines = [", ".join(each.text() for each in (*self.positives, *self.negatives))]
        if self.lets:
            lines.append("let   " + ", ".join(each.text() for each in self.lets))
        if self.where is not None:
            lines.append("where " + self.where.text())
        return "\n".join(lines)


@dataclass(frozen=True)
class Top:
    number: int
    by: tuple[tuple[Expression, str], ...]
    per: tuple[str, ...] = ()

    def text(self) -> str:
        per = f" per {', '.join(self.per)}" if self.per else ""
        by = ", ".join(f"{each.text()}{' ' + direction if direction else ''}" for each, direction in self.by)
        return f"top {self.number}{per} by {by}"


@dataclass(frozen=True)
class ModelQuery:
    name: str
    parameters: tuple[str, ...]
    sorts: tuple[str, ...]
    """The sort of each parameter: a node type, or ``bigint``, ``double`` or ``string``."""
    ways: tuple[Way, ...] = ()
    top: Top | None = None
    components: tuple[str, str | None] | None = None

    def text(self) -> str:
        head = f"query {self.name}({', '.join(self.parameters)})\n"
        if self.components is not None:
            query, over = self.components
            return f"{head}components of {query}{f' over {over}' if over else ''}\n"
        ways = "\nor find ".join(way.text() for way in self.ways)
        return f"{head}find  {ways}\n{self.top.text() + chr(10) if self.top else ''}"

    def calls(self) -> Iterator[str]:
        """The names of called queries in the order of the text."""
        if self.components is not None:
            yield from (name for name in self.components if name)
        for way in self.ways:
            inner = [*way.positives, *(each for negative in way.negatives for each in negative.inner)]
            yield from (each.query for each in inner if isinstance(each, CallConstraint))
            yield from (each.call.query for each in way.lets if each.call is not None)


VALUE_SORTS = ("bigint", "double", "string")


@dataclass
class World:
    graph: Graph
    now: int
    results: dict[str, set[tuple[Any, ...]]] = field(default_factory=dict)

    def evaluate(self, query: ModelQuery) -> set[tuple[Any, ...]]:
        if query.components is not None:
            return self.connect(*query.components)
        found: set[tuple[Any, ...]] = set()
        for way in query.ways:
            for binding in self.bind(way):
                found.add(tuple(binding[name] for name in query.parameters))
        return self.select_best(query, found) if query.top is not None else found

    def connect(self, query: str, over: str | None) -> set[tuple[Any, ...]]:
        """Each element with the least element of its undirected component."""
        least: dict[Any, Any] = {}
        pairs = self.results[query]
        for pair in pairs:
            least.update({each: each for each in pair})
        if over is not None:
            least.update({each: each for (each,) in self.results[over]})
        changed = True
        while changed:
            changed = False
            for left, right in pairs:
                low = min(least[left], least[right])
                if least[left] != low or least[right] != low:
                    least[left] = least[right] = low
                    changed = True
        return set(least.items())

    def select_best(self, query: ModelQuery, found: set[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
        top = query.top
        assert top is not None
        groups: dict[tuple[Any, ...], list[tuple[Any, tuple[Any, ...]]]] = {}
        for match in found:
            values = dict(zip(query.parameters, match, strict=True))
            scope = QueryScope(self.graph, values, self.now)
            rank = []
            for expression, direction in top.by:
                value = expression.value(scope)
                rank.append(Descending(value) if direction != "ascending" else Ascending(value))
            groups.setdefault(tuple(values[name] for name in top.per), []).append((rank, match))
        best: set[tuple[Any, ...]] = set()
        for ranked in groups.values():
            if TOP_INCLUDES_TIES:
                for rank, match in ranked:
                    if sum(other < rank for other, _ in ranked) < top.number:
                        best.add(match)
            else:
                ranked.sort(key=lambda each: (each[0], sort_key(each[1])))
                best.update(match for _, match in ranked[: top.number])
        return best

    def bind(self, way: Way) -> Iterator[dict[str, Any]]:
        for binding in self.join({}, way.positives):
            if any(self.extends(binding, each) for each in way.negatives):
                continue
            for let in way.lets:
                binding[let.name] = self.compute(let, binding)
            if way.where is None or way.where.value(QueryScope(self.graph, binding, self.now)) is True:
                yield binding

    def join(self, binding: dict[str, Any], constraints: Sequence[Positive]) -> Iterator[dict[str, Any]]:
        bindings = [binding]
        for constraint in constraints:
            names, relation = constraint.names(), constraint.relation(self)
            bindings = [
                joined for each in bindings for row in relation if (joined := unify(each, names, row)) is not None
            ]
        for each in bindings:
            yield dict(each)

    def extends(self, binding: dict[str, Any], negative: Without) -> bool:
        for each in self.join(binding, negative.inner):
            if negative.where is None or negative.where.value(QueryScope(self.graph, each, self.now)) is True:
                return True
        return False

    def compute(self, let: Let, binding: dict[str, Any]) -> Any:
        if let.call is None:
            assert let.expression is not None
            return let.expression.value(QueryScope(self.graph, binding, self.now))
        rows = [
            inner for row in let.call.relation(self) if (inner := unify(binding, let.call.arguments, row)) is not None
        ]
        if let.expression is None:
            return len(rows)
        values = [let.expression.value(QueryScope(self.graph, inner, self.now)) for inner in rows]
        return aggregate(let.function or "", [each for each in values if each is not None], len(rows))


def unify(binding: dict[str, Any], names: Sequence[str], row: Sequence[Any]) -> dict[str, Any] | None:
    """The binding extended by the row, or None where a variable would have two values."""
    made = dict(binding)
    for name, value in zip(names, row, strict=True):
        if name == ANY:
            continue
        if name in made:
            if made[name] != value or (value is None and not NULL_JOINS_NULL):
                return None
        else:
            made[name] = value
    return made


class Ascending:
    """Order with null below every value."""

    def __init__(self, value: Any) -> None:
        self.key = (value is not None, 0 if value is None else value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ascending) and self.key == other.key

    def __lt__(self, other: Ascending) -> bool:
        return self.key < other.key

    __hash__ = None  # type: ignore[assignment]


class Descending(Ascending):
    def __lt__(self, other: Ascending) -> bool:
        return other.key < self.key


def sort_key(match: Sequence[Any]) -> tuple[Any, ...]:
    return tuple((value is not None, 0 if value is None else value) for value in match)


# graph and transactions


@dataclass(frozen=True)
class Change:
    action: str
    element: Any
    kind: str | None = None
    attribute: str | None = None
    value: Any = None
    target: Any = None

    def row(self) -> dict[str, Any]:
        row = {"change": self.action, "element": self.element}
        if self.action == "set":
            return row | {"attribute": self.attribute, "value": self.value}
        if self.kind is not None:
            row["kind"] = self.kind
        if self.action in ("link", "unlink"):
            row["target"] = self.target
        return row


PHASES = ("unlink", "delete", "create", "set", "link")


def phase_key(change: Change) -> tuple[Any, ...]:
    """Order of changes that no rank orders: phase, element, attribute, type, target, and sets by value."""
    details = (change.attribute, change.kind, change.target, change.value)
    return (PHASES.index(change.action), change.element, sort_key(details))


class Graph:
    def __init__(self, schema: ModelSchema) -> None:
        self.schema = schema
        self.kinds: dict[Any, str] = {}
        self.attributes: dict[Any, dict[str, Any]] = {}
        self.edges: set[tuple[str, Any, Any]] = set()
        self.given: dict[tuple[Any, str], list[tuple[int, Any]]] = {}

    def apply(self, change: Change, now: int) -> list[tuple[Any, ...]] | None:
        """Elementary changes made, as (action, kind, attribute, element, target, old, new), or None if rejected."""
        schema, element = self.schema, change.element
        kind = self.kinds.get(element)
        if change.action == "create":
            if kind is not None:
                return None
            assert change.kind is not None
            self.kinds[element] = change.kind
            self.attributes[element] = {}
            return [("create", change.kind, None, element, None, None, None)]
        if change.action == "delete":
            if kind is None:
                return None
            gone = [edge for edge in self.edges if element in edge[1:]]
            gone.sort(key=lambda edge: (edge[0], edge[1] != element, edge[2] if edge[1] == element else edge[1]))
            self.edges.difference_update(gone)
            del self.kinds[element], self.attributes[element]
            for pair in [pair for pair in self.given if pair[0] == element]:
                del self.given[pair]
            made = [("unlink", name, None, source, target, None, None) for name, source, target in gone]
            return [*made, ("delete", kind, None, element, None, None, None)]
        if change.action == "set":
            if kind is None or change.attribute not in schema.attributes(kind):
                return None
            old = self.attributes[element].get(change.attribute)
            self.attributes[element][change.attribute] = change.value
            given = self.given.setdefault((element, change.attribute), [])
            if given and given[-1][0] == now:
                given.pop()
            given.append((now, change.value))
            if old == change.value and not EQUAL_SET_EMITS_CHANGE:
                return []
            return [("set", kind, change.attribute, element, None, old, change.value)]
        assert change.kind is not None
        edge = (change.kind, element, change.target)
        if change.action == "unlink":
            if edge not in self.edges:
                return None
            self.edges.remove(edge)
            return [("unlink", change.kind, None, element, change.target, None, None)]
        kinds = schema.edge(change.kind)
        other = self.kinds.get(change.target)
        if kind is None or other is None or edge in self.edges:
            return None
        if not schema.is_a(kind, kinds.source) or not schema.is_a(other, kinds.target):
            return None
        if kinds.one and any(name == change.kind and source == element for name, source, _ in self.edges):
            return None
        self.edges.add(edge)
        return [("link", change.kind, None, element, change.target, None, None)]


@dataclass
class Log:
    """Results of one model over all of its transactions."""

    events: list[tuple[int, str, str, tuple[Any, ...]]] = field(default_factory=list)
    """(time, found/updated/lost, query, values)"""
    changes: list[tuple[Any, ...]] = field(default_factory=list)
    """(time, action, kind, attribute, element, target, old, new)"""
    sequence: list[tuple[Any, ...]] = field(default_factory=list)
    """Elementary changes and query events in their order: ("change", …) and ("event", …)."""
    rejected: list[tuple[int, str, Any]] = field(default_factory=list)
    matches: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)


def order_queries(queries: Sequence[ModelQuery]) -> list[ModelQuery]:
    """Text order, with called queries right before the first query that calls them."""
    named, ordered = {query.name: query for query in queries}, []

    def visit(query: ModelQuery) -> None:
        if query in ordered:
            return
        for name in query.calls():
            visit(named[name])
        ordered.append(query)

    for query in queries:
        visit(query)
    return ordered


def run(
    schema: ModelSchema, queries: Sequence[ModelQuery], changes: Sequence[tuple[int, int, Change]], ordered: bool
) -> Log:
    """Evaluate (time, number, change) rows of one model.

    ``ordered`` applies a transaction by number and rows of equal numbers by phase, else all rows by phase.
    """
    graph, log, ranked = Graph(schema), Log(), order_queries(queries)
    before: dict[str, set[tuple[Any, ...]]] = {query.name: set() for query in ranked}
    for now in sorted({time for time, _, _ in changes}):
        rows = [(number, change) for time, number, change in changes if time == now]
        rows.sort(key=lambda row: (row[0] if ordered else 0, phase_key(row[1])))
        kinds, edges = dict(graph.kinds), set(graph.edges)
        attributes = {node: dict(values) for node, values in graph.attributes.items()}
        deleted = set()
        for _, change in rows:
            made = graph.apply(change, now)
            if made is None:
                log.rejected.append((now, change.action, change.element))
                continue
            if change.action == "delete":
                deleted.add(change.element)
            log.changes.extend((now, *each) for each in made)
            log.sequence.extend(("change", now, *each) for each in made)
        changed = {end for edge in edges ^ graph.edges for end in edge[1:]}
        for node in graph.kinds:
            if node in kinds:
                old, new = attributes[node], graph.attributes[node]
                if any(old.get(name) != new.get(name) for name in {*old, *new}):
                    changed.add(node)
                if node in deleted and (RECREATED_NODE_IS_CHANGED or kinds[node] != graph.kinds[node]):
                    changed.add(node)
        world = World(graph, now)
        for query in ranked:
            world.results[query.name] = world.evaluate(query)
        for query in ranked:
            old_matches, new_matches = before[query.name], world.results[query.name]
            nodes = [place for place, sort in enumerate(query.sorts) if sort not in VALUE_SORTS]
            kept = old_matches & new_matches
            updated = {match for match in kept if any(match[place] in changed for place in nodes)}
            for word, group in (("lost", old_matches - kept), ("updated", updated), ("found", new_matches - kept)):
                for match in sorted(group, key=sort_key):
                    log.events.append((now, word, query.name, match))
                    log.sequence.append(("event", now, word, query.name, match))
        before = world.results
    log.matches = {query.name: sorted(before[query.name], key=sort_key) for query in ranked}
    return log
