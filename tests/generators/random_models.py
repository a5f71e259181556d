"""Random models, queries over them, and the changes they go through: for the engine of live models and its oracle.

Everything follows from a seed. Graphs are small and dense, so that queries match, lose matches and find them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perseid.errors import PatternError
from perseid.lang import expressions as ex
from perseid.lang import models as m
from perseid.semantics import types as t
from perseid.semantics.metamodels import Kinds, kinds_of
from perseid.semantics.model_queries import ANode, AValue, Queries, Sort, bound, check_queries
from tests.generators.random_changes import Transaction, make_transactions
from tests.generators.random_patterns import SECOND, Chooser, SeededChooser

_ATTRIBUTES = ("bigint", "double", "string", "timestamp", "boolean")
_NODES = ("a", "b", "c", "d")
_STEPS: tuple[tuple[int, int | None], ...] = ((1, None), (1, None), (0, None), (1, 2), (2, 2), (0, 1), (1, 3))
_COMPARISONS: tuple[ex.BinaryOp, ...] = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_MOVING = ("moving_avg", "moving_min", "moving_max", "moving_sum", "moving_count")
Scope = dict[str, Sort]


@dataclass(frozen=True)
class ModelCase:
    """A metamodel, queries and transactions."""

    metamodel: m.MetamodelDefinition
    queries: tuple[m.QueryDefinition, ...]
    transactions: tuple[Transaction, ...]

    @property
    def checked(self) -> Queries:
        return check_queries(kinds_of(self.metamodel), self.queries)


def make_model_case(seed: int) -> ModelCase:
    """A case from a seed."""
    chooser = SeededChooser(seed)
    metamodel = make_metamodel(chooser)
    kinds = kinds_of(metamodel)
    queries = make_queries(chooser, kinds)
    return ModelCase(metamodel, queries, make_transactions(chooser, kinds))


def make_metamodel(chooser: Chooser) -> m.MetamodelDefinition:
    """Returns types with and without a common supertype, one of them abstract, and edges between any of them."""
    ch = chooser
    count = m.Attribute("n", "bigint")
    share = m.Attribute("x", "double")
    others = tuple(m.Attribute(name, ch.pick(_ATTRIBUTES)) for name in ("p", "q"))
    nodes = [
        m.NodeType("Thing", (), (count,), abstract=ch.chance(70)),
        m.NodeType("Host", ("Thing",), (share,)),
        m.NodeType("Task", ("Thing",) if ch.chance(60) else (), others[: ch.number(1, 2)]),
    ]
    if ch.chance(40):
        nodes.append(
            m.NodeType("Server", ("Host",) if ch.chance(50) else ("Task", "Host"), (m.Attribute("r", "double"),))
        )
    names = [node.name for node in nodes]
    often = (*names, "Host", "Host", "Thing")
    edges = [m.EdgeType("near", *ch.pick((("Host", "Host"), ("Thing", "Thing"), ("Host", "Thing"))))]
    for name in ("runs", "part")[: ch.number(1, 2)]:
        edges.append(m.EdgeType(name, ch.pick(often), ch.pick(often), one=ch.chance(35)))
    return m.MetamodelDefinition("site", tuple(nodes), tuple(edges))


def make_queries(chooser: Chooser, kinds: Kinds) -> tuple[m.QueryDefinition, ...]:
    """Returns several queries, at least one; later ones often call earlier ones."""
    wanted = chooser.number(3, 6)
    maker = _QueryMaker(chooser, kinds)
    tries = 0
    while len(maker.queries) < wanted and (tries < 40 or not maker.queries):
        maker.add()
        tries += 1
    return tuple(maker.queries)


class _QueryMaker:
    """Draws queries again until the checker of queries accepts them."""

    def __init__(self, chooser: Chooser, kinds: Kinds) -> None:
        self.ch = chooser
        self.kinds = kinds
        self.queries: list[m.QueryDefinition] = []
        self.checked = check_queries(kinds, ())

    def add(self) -> None:
        try:
            query = self.query(f"q{len(self.queries) + 1}")
            checked = check_queries(self.kinds, (*self.queries, query))
        except PatternError:
            return
        self.queries.append(query)
        self.checked = checked

    def scope(self, constraints: Sequence[m.Constraint]) -> Scope:
        """Returns the sorts of the variables of constraints."""
        return {name: sort for name, sort in bound(constraints, self.checked).items() if name != m.ANYTHING}

    def query(self, name: str) -> m.QueryDefinition:
        ch = self.ch
        if self.queries and ch.chance(15):
            return self.components(name)
        ways = [self.way(ch.pick((1, 1, 2, 2, 3)))]
        parameters, scope = self.parameters(ways[0])
        if ch.chance(25):
            other = self.way(ch.number(1, 2))
            theirs = self.scope(other.constraints)
            # Both alternatives must bind all parameters, so parameters that the second one lacks are dropped.
            parameters = tuple(p for p in parameters if p in theirs or any(d.name == p for d in other.definitions))
            ways.append(other)
        if not parameters:
            raise PatternError("Nothing to tell.")
        top = self.top(parameters, scope) if ch.chance(25) else None
        return m.QueryDefinition(name, parameters, tuple(ways), top)

    def parameters(self, way: m.Find) -> tuple[tuple[str, ...], Scope]:
        """Returns some of the variables that an alternative binds, in any order."""
        scope = self.scope(way.constraints)
        names = [*scope, *(d.name for d in way.definitions)]
        nodes = [name for name, sort in scope.items() if isinstance(sort, ANode)]
        chosen = list(dict.fromkeys(self.ch.pick(nodes) for _ in range(self.ch.number(1, 2)))) if nodes else []
        for _ in range(self.ch.pick((0, 0, 1, 2))):
            left = [name for name in names if name not in chosen]
            if left:
                chosen.append(self.ch.pick(left))
        for definition in way.definitions:
            if definition.name not in chosen and self.ch.chance(70):
                chosen.append(definition.name)
        return tuple(chosen), {name: scope[name] for name in chosen if name in scope}

    def components(self, name: str) -> m.QueryDefinition:
        ch = self.ch
        edges = [q for q in self.queries if self.ends_in_nodes(q, 2)]
        edge = ch.pick(edges or self.queries)
        nodes = [
            q.name for q in self.queries if len(q.parameters) == len(edge.parameters) - 1 and self.ends_in_nodes(q, 1)
        ]
        over = ch.pick(nodes) if nodes and ch.chance(60) else None
        return m.QueryDefinition(
            name, tuple(f"g{i}" for i in range(len(edge.parameters))), m.Components(edge.name, over)
        )

    def ends_in_nodes(self, query: m.QueryDefinition, count: int) -> bool:
        sorts = list(self.checked.sorts[query.name].values())
        return len(sorts) >= count and all(isinstance(sort, ANode) for sort in sorts[-count:])

    # ways

    def way(self, most: int) -> m.Find:
        ch = self.ch
        constraints: list[m.Constraint] = []
        scope: Scope = {}
        for _ in range(most):
            constraints.append(self.constraint(scope))
            scope = self.scope(constraints)
        for _ in range(ch.pick((0, 0, 0, 0, 1, 1, 2))):
            constraints.append(self.no(constraints, scope, 2))
        definitions: list[m.Definition] = []
        for i in range(ch.pick((0, 0, 1, 1, 2, 3))):
            made = self.definition(f"v{i}", scope)
            if made is not None:
                definition, sort = made
                definitions.append(definition)
                scope = {**scope, definition.name: sort}
        where = self.condition(scope, 2) if ch.chance(40) else None
        return m.Find(tuple(constraints), tuple(definitions), where)

    def constraint(self, scope: Scope) -> m.IsNode | m.Walk | m.QueryCall:
        ch = self.ch
        roll = ch.number(0, 99)
        if roll < 15:
            return m.IsNode(self.node(scope), ch.pick(list(self.kinds.nodes)))
        if roll < 60 or not self.queries:
            low, high = ch.pick(_STEPS) if ch.chance(35) else (1, 1)
            return m.Walk(self.node(scope), ch.pick(list(self.kinds.edges)), self.node(scope), low, high)
        return self.call(scope)

    def call(self, scope: Scope) -> m.QueryCall:
        ch = self.ch
        query = ch.pick(self.queries)
        sorts = self.checked.sorts[query.name]
        arguments = tuple(
            self.node(scope) if isinstance(sort, ANode) else self.value_name(scope) for sort in sorts.values()
        )
        low: int = 1
        high: int | None = 1
        if len(arguments) == 2 and all(isinstance(s, ANode) for s in sorts.values()) and ch.chance(50):
            low, high = ch.pick(_STEPS)
        return m.QueryCall(query.name, arguments, low, high)

    def node(self, scope: Scope) -> str:
        ch = self.ch
        known = [name for name, sort in scope.items() if isinstance(sort, ANode)]
        if known and ch.chance(60):
            return ch.pick(known)
        return m.ANYTHING if ch.chance(12) else ch.pick(_NODES)

    def value_name(self, scope: Scope) -> str:
        known = [name for name, sort in scope.items() if isinstance(sort, AValue)]
        if known and self.ch.chance(25):
            return self.ch.pick(known)
        return m.ANYTHING if self.ch.chance(30) else self.ch.pick(("t", "u", "w"))

    def no(self, outside: Sequence[m.Constraint], scope: Scope, depth: int) -> m.No:
        ch = self.ch
        inside: list[m.Constraint] = []
        seen = scope
        for _ in range(ch.pick((1, 1, 2))):
            inside.append(self.constraint(seen))
            seen = self.scope((*outside, *inside))
        if depth and ch.chance(25):
            inside.append(self.no((*outside, *inside), seen, depth - 1))
        where = self.condition(seen, 1) if ch.chance(40) else None
        return m.No(tuple(inside), where)

    # values

    def definition(self, name: str, scope: Scope) -> tuple[m.Definition, Sort] | None:
        if self.queries and self.ch.chance(65):
            return self.aggregate(name, scope)
        value = self.any_value(scope)
        return None if value is None else (m.Let(name, value[0]), AValue(value[1]))

    def aggregate(self, name: str, scope: Scope) -> tuple[m.Definition, Sort] | None:
        """An aggregate over a call with arguments that are partly bound outside and partly local."""
        ch = self.ch
        call = self.call(scope)
        inside = self.scope([call])
        value = self.any_value(inside)
        if value is None or ch.chance(35):
            return m.Aggregate(name, "count", None, call), AValue(t.Integer())
        expr, type_ = value
        numeric = isinstance(type_, t.Integer | t.Double)
        function = ch.pick(("sum", "avg", "min", "max", "sum") if numeric else ("min", "max"))
        made = {"avg": t.Double(), "sum": type_}.get(function, type_)
        return m.Aggregate(name, function, expr, call), AValue(made)

    def attributes(self, scope: Scope) -> list[tuple[ex.Ref, t.Type]]:
        """Every attribute that some variable has for certain."""
        found: list[tuple[ex.Ref, t.Type]] = []
        for name, sort in scope.items():
            if isinstance(sort, ANode):
                carried = {a: type_ for kind in sorted(sort.types) for a, type_ in self.kinds.carried[kind].items()}
                found += [(ex.Ref((name, attribute)), type_) for attribute, type_ in carried.items()]
        return found

    def any_value(self, scope: Scope, depth: int = 1) -> tuple[ex.Expr, t.Type] | None:
        ch = self.ch
        named: list[tuple[ex.Expr, t.Type]] = [
            (ex.Ref((name,)), sort.type) for name, sort in scope.items() if isinstance(sort, AValue)
        ]
        attributes = self.attributes(scope)
        numbers = [one for one in attributes if isinstance(one[1], t.Integer | t.Double)]
        if numbers and ch.chance(20):
            return self.moving(*ch.pick(numbers))
        pool = [*named, *named, *attributes]
        if not pool:
            return None
        expr, type_ = ch.pick(pool)
        if depth and isinstance(type_, t.Integer | t.Double) and ch.chance(40):
            other = self.any_value(scope, depth - 1) if ch.chance(60) else None
            if other is not None and isinstance(other[1], t.Integer | t.Double):
                double = isinstance(type_, t.Double) or isinstance(other[1], t.Double)
                return ex.Binary(ch.pick(("+", "-", "*")), expr, other[0]), t.Double() if double else t.Integer()
            return ex.Binary(ch.pick(("+", "*")), ex.Literal("integer", ch.number(1, 3)), expr), type_
        return expr, type_

    def moving(self, attribute: ex.Ref, type_: t.Type) -> tuple[ex.Expr, t.Type]:
        ch = self.ch
        function = ch.pick(_MOVING)
        length = (
            ex.Literal("integer", ch.number(1, 3))
            if ch.chance(50)
            else ex.Literal("duration", ch.number(1, 4) * SECOND)
        )
        made: t.Type = t.Double() if function in ("moving_avg", "moving_sum") else type_
        return ex.Call(function, (attribute, length)), t.Integer() if function == "moving_count" else made

    def condition(self, scope: Scope, depth: int) -> ex.Expr | None:
        ch = self.ch
        roll = ch.number(0, 99)
        if depth and roll < 25:
            left, right = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
            if left is None or right is None:
                return left or right
            return ex.Binary(ch.pick(("and", "or", "and")), left, right)
        if depth and roll < 33:
            inner = self.condition(scope, depth - 1)
            return None if inner is None else ex.Unary("not", inner)
        nodes = [name for name, sort in scope.items() if isinstance(sort, ANode)]
        if len(nodes) > 1 and roll < 50:
            op: ex.BinaryOp = ch.pick(("<>", "<>", "<", "="))
            return ex.Binary(op, ex.Ref((ch.pick(nodes),)), ex.Ref((ch.pick(nodes),)))
        value = self.any_value(scope)
        return None if value is None else self.test(*value, scope)

    def test(self, value: ex.Expr, type_: t.Type, scope: Scope) -> ex.Expr:
        """A condition on one value, true for some."""
        ch = self.ch
        if ch.chance(12):
            return ex.Is(value, "null", ch.chance(60))
        if isinstance(type_, t.Boolean):
            return value
        if ch.chance(30):
            other = self.any_value(scope)
            if other is not None and type(other[1]) is type(type_):
                return ex.Binary(ch.pick(_COMPARISONS), value, other[0])
        literal = _literal(ch, type_)
        if ch.chance(15):
            return ex.InList(value, (literal, _literal(ch, type_)), ch.chance(40))
        return ex.Binary(ch.pick(_COMPARISONS), value, literal)

    def top(self, parameters: tuple[str, ...], scope: Scope) -> m.Top:
        ch = self.ch
        by: list[m.Order] = []
        for _ in range(ch.pick((1, 1, 2))):
            names = [p for p in parameters if p not in scope]
            pool: list[ex.Expr] = [ex.Ref((name,)) for name in (*names, *names, *parameters)]
            pool += [ref for ref, _ in self.attributes(scope)]
            by.append(m.Order(ch.pick(pool), ch.chance(40)))
        per = (ch.pick(parameters),) if ch.chance(35) else ()
        return m.Top(ch.number(1, 3), tuple(by), per)


def _literal(ch: Chooser, type_: t.Type) -> ex.Literal:
    match type_:
        case t.Integer():
            return ex.Literal("integer", ch.number(0, 3))
        case t.Double():
            return ex.Literal("double", ch.pick((0.0, 0.5, 1.5)))
        case t.String():
            return ex.Literal("string", ch.pick(("a", "b", "")))
        case t.Timestamp():
            return ex.Literal("timestamp", (18_262 + ch.number(0, 3)) * 86_400 * SECOND)
    return ex.Literal("null", None)
