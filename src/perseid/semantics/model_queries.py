"""Check queries over a model and prepare them: names exist, variables are bound, called queries come first.

The result is the same AST in which every ``_`` has a unique name and ``moving_avg(hand.y, 5)`` is an attribute of
``hand`` with that name; the oracle and the engine both start from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

from perseid.errors import LimitError, Place, ScopeError, SemanticError, TypeMismatchError, UnknownNameError
from perseid.lang import expressions as ex
from perseid.lang import models as m
from perseid.lang.limits import MAX_DEPTH
from perseid.lang.printer import print_expr
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.functions import FUNCTIONS
from perseid.semantics.metamodels import Kinds, unknown
from perseid.semantics.names import rewritten
from perseid.semantics.typing import check_condition, counted, described, infer
from perseid.semantics.values import Value

MOVING = ("moving_avg", "moving_min", "moving_max", "moving_sum", "moving_count")
MOST_VALUES = 10_000
"""Maximum window of ``moving_avg(hand.y, n)``, in values."""


@dataclass(frozen=True, slots=True)
class Moving:
    """Moving aggregate over the last values of an attribute: a number of values, or a time range."""

    function: str
    attribute: str
    values: int | None
    microseconds: int | None


@dataclass(frozen=True, slots=True)
class ANode:
    """A node variable; ``types`` are its known types, including their supertypes."""

    types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AValue:
    type: t.Type


Sort: TypeAlias = "ANode | AValue"
Match: TypeAlias = "tuple[Value, ...]"
_WIDE = (t.Double, t.Decimal)
"""Types to which an integer may be converted."""


@dataclass(frozen=True, slots=True)
class Queries:
    """A checked set of queries over one metamodel, each after those it calls."""

    kinds: Kinds
    queries: dict[str, m.QueryDefinition]
    sorts: dict[str, dict[str, Sort]]
    """Sort of each parameter of a query."""
    moving: dict[str, Moving]
    """Moving windows by their attribute name."""

    def node_parameters(self, query: str) -> tuple[int, ...]:
        """Return the indices of the node parameters; a change of one of these nodes is an update of the match."""
        sorts = self.sorts[query]
        parameters = self.queries[query].parameters
        return tuple(i for i, name in enumerate(parameters) if isinstance(sorts[name], ANode))

    def widened(self, query: str) -> Callable[[Match], Match] | None:
        """Return a function that converts a match to the parameter types, if an alternative has narrower ones."""
        alternatives = self.queries[query].alternatives
        sorts = [self.sorts[query][name] for name in self.queries[query].parameters]
        types = {i: s.type for i, s in enumerate(sorts) if isinstance(s, AValue) and isinstance(s.type, _WIDE)}
        if not types or isinstance(alternatives, m.Components) or len(alternatives) == 1:
            return None
        return lambda match: tuple(v.conform(x, types[i]) if i in types else x for i, x in enumerate(match))


def check_queries(kinds: Kinds, queries: Iterable[m.QueryDefinition]) -> Queries:
    """Check all queries of a set; raise an error with its span for the first that is wrong."""
    definitions = {query.name: query for query in queries}
    checked = Queries(kinds, {}, {}, {})
    for name in definitions:
        _check(name, definitions, checked, ())
    return checked


def _check(name: str, definitions: Mapping[str, m.QueryDefinition], done: Queries, callers: tuple[str, ...]) -> None:
    if name in done.queries:
        return
    query = definitions[name]
    if name in callers:
        circle = " calls ".join((*callers[callers.index(name) :], name))
        raise SemanticError(
            f"Recursive query: {circle}.",
            span=query.span,
            hint="Use a closure for transitive relations: near+(a, b), a -next+-> b.",
        )
    if len(callers) > MAX_DEPTH:
        raise LimitError(
            f"Queries call each other more than {MAX_DEPTH} levels deep.", span=query.span, hint="Merge some of them."
        )
    for other in m.called(query):
        if other not in definitions:
            raise unknown("query", other, list(definitions), _place_of(other, query))
        _check(other, definitions, done, (*callers, name))
    if m.ANYTHING in query.parameters:
        raise ScopeError(
            f"Parameter _ of query {name} has no name.",
            span=query.span,
            hint="Write a name in place of _, or remove it.",
        )
    doubled = next((p for p in query.parameters if query.parameters.count(p) > 1), None)
    if doubled is not None:
        raise ScopeError(f"Duplicate parameter {doubled!r} of query {name}.", span=query.span, hint="Use another name.")
    if isinstance(query.alternatives, m.Components):
        sorts = _components(query, query.alternatives, done)
        ready = query
    else:
        ready, sorts = _QueryChecker(query, done).check()
    done.queries[name] = ready
    done.sorts[name] = sorts


def _place_of(name: str, query: m.QueryDefinition) -> Place | None:
    """Return the span at which a query calls another one."""
    if isinstance(query.alternatives, m.Components):
        return query.alternatives.span
    return next((call.span for call in m.calls(query) if call.query == name), query.span)


def bound(constraints: Iterable[m.Constraint], checked: Queries) -> dict[str, Sort]:
    """Return the sorts of the variables of constraints; variables of a negation are local to it."""
    checker = _QueryChecker(m.QueryDefinition("", (), ()), checked)
    sorts: dict[str, Sort] = {}
    for constraint in constraints:
        if not isinstance(constraint, m.No):
            checker.bind(constraint, sorts)
    return sorts


def _components(query: m.QueryDefinition, components: m.Components, done: Queries) -> dict[str, Sort]:
    edges = done.queries[components.edges].parameters
    nodes = None if components.nodes is None else done.queries[components.nodes].parameters
    groups_of_edges = edges[:-2]
    called = f"components of {components.edges}" + ("" if components.nodes is None else f" over {components.nodes}")
    if len(edges) < 2:
        raise SemanticError(
            f"The last two parameters of {components.edges} must be the nodes of an edge; it has {len(edges)} parameter.",
            span=components.span,
            hint=f"Add a parameter: query {components.edges}(one, other) find ….",
        )
    if len(query.parameters) != len(edges):
        grouping = f"{', '.join(groups_of_edges)}, " if groups_of_edges else ""
        raise SemanticError(
            f"{query.name} needs {len(edges)} parameters, as {components.edges} has: {grouping}the node and the least node "
            "of its component.",
            span=components.span,
            hint=f"Write: query {query.name}({grouping}node, least) {called}.",
        )
    if nodes is not None and len(nodes) != len(edges) - 1:
        grouping = f"{', '.join(groups_of_edges)}, " if groups_of_edges else ""
        raise SemanticError(
            f"{components.nodes} needs one parameter fewer than {components.edges}: {grouping}the node.",
            span=components.span,
            hint=f"Write: query {components.nodes}({grouping}node) find ….",
        )
    if query.top is not None:
        raise SemanticError(
            f"{query.name}: 'top' needs 'find'.", span=query.top.span, hint="Use 'top' in a query that calls this one."
        )
    *groups, one, other = done.sorts[components.edges].values()
    alone = () if components.nodes is None else tuple(done.sorts[components.nodes].values())
    joined = [(components.edges, edges[-2], one), (components.edges, edges[-1], other)]
    if nodes is not None and components.nodes is not None:
        joined.append((components.nodes, nodes[-1], alone[-1]))
    ends = [sort for _, _, sort in joined if isinstance(sort, ANode)]
    if len(ends) != len(joined):
        name, parameter = next((name, parameter) for name, parameter, sort in joined if not isinstance(sort, ANode))
        raise SemanticError(
            f"Components need nodes, and parameter {parameter!r} of {name} is a value.",
            span=components.span,
            hint="Use a query over two nodes." if name == components.edges else "Use a query over one node.",
        )
    for parameter, a, b in zip(edges, groups, alone, strict=False):
        if isinstance(a, ANode) != isinstance(b, ANode):
            raise SemanticError(
                f"Parameter {parameter!r} is {_sort_name(a)} in {components.edges} and {_sort_name(b)} in {components.nodes}.",
                span=components.span,
                hint="Use a node in both, or a value in both.",
            )
    # A node of a component may come from either end.
    node = ANode(frozenset.intersection(*(end.types for end in ends)))
    return dict(zip(query.parameters, (*groups, node, node), strict=True))


def _sort_name(sort: Sort) -> str:
    return "a node" if isinstance(sort, ANode) else described(sort.type)


class _QueryChecker:
    """The alternatives of one query."""

    def __init__(self, query: m.QueryDefinition, done: Queries) -> None:
        self.query = query
        self.done = done
        self.fresh = count(1)

    def check(self) -> tuple[m.QueryDefinition, dict[str, Sort]]:
        assert not isinstance(self.query.alternatives, m.Components)
        found = [self._alternative(alternative) for alternative in self.query.alternatives]
        sorts = {name: self._common(name, [s[name] for _, s in found]) for name in self.query.parameters}
        top = None if self.query.top is None else self._top(self.query.top, sorts)
        alternatives = tuple(alternative for alternative, _ in found)
        return replace(self.query, alternatives=alternatives, top=top), sorts

    def _common(self, name: str, sorts: list[Sort]) -> Sort:
        """Return the common sort of a parameter over all alternatives."""
        nodes = [s for s in sorts if isinstance(s, ANode)]
        if nodes and len(nodes) != len(sorts):
            raise TypeMismatchError(
                f"{name!r} of {self.query.name} is a node in one alternative and a value in another.",
                span=self.query.span,
                hint="Split the query in two, or use another name in one alternative.",
            )
        if nodes:
            return ANode(frozenset.intersection(*(s.types for s in nodes)))
        types = [s.type for s in sorts if isinstance(s, AValue)]
        widest = t.widest(types) if len(types) > 1 else types[0]
        if widest is None:
            other = next(type_ for type_ in types if t.wider(types[0], type_) is None)
            raise TypeMismatchError(
                f"{name!r} of {self.query.name} is {described(types[0])} in one alternative "
                f"and {described(other)} in another.",
                span=self.query.span,
                hint=f"Cast one of them: let {name} = cast(x as string).",
            )
        return AValue(widest)

    def _alternative(self, alternative: m.Find) -> tuple[m.Find, dict[str, Sort]]:
        constraints = self._named(alternative.constraints)
        sorts: dict[str, Sort] = {}
        for constraint in constraints:
            if not isinstance(constraint, m.No):
                self.bind(constraint, sorts)
        if not sorts:
            raise SemanticError(
                f"{self.query.name} has only negated constraints.",
                span=alternative.span,
                hint=f"Add a constraint that is not negated: a: {next(iter(self.done.kinds.nodes), 'User')}.",
            )
        ready = tuple(self._no(c, sorts) if isinstance(c, m.No) else c for c in constraints)
        definitions = []
        for definition in alternative.definitions:
            if definition.name in sorts:
                raise ScopeError(f"Duplicate name {definition.name!r}.", span=definition.span, hint="Use another name.")
            definitions.append(self._define(definition, sorts))
        condition = None if alternative.where is None else self._condition(alternative.where, sorts)
        for name in self.query.parameters:
            if name not in sorts:
                kind = next(iter(self.done.kinds.nodes), "User")
                several = not isinstance(self.query.alternatives, m.Components) and len(self.query.alternatives) > 1
                raise ScopeError(
                    f"Parameter {name!r} does not occur after 'find' or 'let'"
                    + (" in this alternative." if several else "."),
                    span=alternative.span,
                    hint=f"Add a constraint with it, such as {name}: {kind}, or define it: let {name} = ….",
                )
        return replace(alternative, constraints=ready, definitions=tuple(definitions), where=condition), sorts

    def _named(self, constraints: tuple[m.Constraint, ...]) -> tuple[m.Constraint, ...]:
        """Give every ``_`` a unique name."""

        def name(variable: str) -> str:
            return f"_{next(self.fresh)}?" if variable == m.ANYTHING else variable

        found: list[m.Constraint] = []
        for c in constraints:
            match c:
                case m.IsNode():
                    found.append(replace(c, variable=name(c.variable)))
                case m.Walk():
                    found.append(replace(c, source=name(c.source), target=name(c.target)))
                case m.QueryCall():
                    found.append(replace(c, arguments=tuple(map(name, c.arguments))))
                case m.No():
                    found.append(replace(c, constraints=self._named(c.constraints)))
        return tuple(found)

    # what constraints bind

    def bind(self, constraint: m.IsNode | m.Walk | m.QueryCall, sorts: dict[str, Sort]) -> None:
        kinds = self.done.kinds
        match constraint:
            case m.IsNode():
                if constraint.type not in kinds.nodes:
                    raise unknown("node type", constraint.type, list(kinds.nodes), constraint.span)
                self._is(constraint.variable, ANode(kinds.above[constraint.type]), sorts, constraint.span)
            case m.Walk():
                if constraint.edge not in kinds.edges:
                    raise unknown("edge", constraint.edge, list(kinds.edges), constraint.span)
                edge = kinds.edges[constraint.edge]
                ends = ((constraint.source, edge.source), (constraint.target, edge.target))
                for variable, type_ in ends:
                    # A walk of zero edges ends at its start, whatever its type.
                    known = kinds.above[type_] if constraint.low else frozenset[str]()
                    self._is(variable, ANode(known), sorts, constraint.span)
            case m.QueryCall():
                for variable, sort in zip(constraint.arguments, self._parameters(constraint), strict=True):
                    self._is(variable, sort, sorts, constraint.span)

    def _parameters(self, call: m.QueryCall) -> list[Sort]:
        sorts = self.done.sorts[call.query]
        if len(sorts) != len(call.arguments):
            raise TypeMismatchError(
                f"{call.query}(…) expects {counted(len(sorts), 'argument')}, got {len(call.arguments)}.",
                span=call.span,
                hint=f"Use {call.query}({', '.join(sorts)}), with _ for arguments that do not matter.",
            )
        found = list(sorts.values())
        if (call.low, call.high) != (1, 1) and not all(isinstance(s, ANode) for s in found):
            raise SemanticError(
                f"Closure of {call.query}: expected only nodes as parameters.",
                span=call.span,
                hint="Use a query from node to node.",
            )
        if call.low == 0:
            return [ANode(), ANode()]
        return found

    def _is(self, variable: str, sort: Sort, sorts: dict[str, Sort], span: Place | None) -> None:
        known = sorts.get(variable)
        if known is None:
            sorts[variable] = sort
        elif isinstance(known, ANode) and isinstance(sort, ANode):
            sorts[variable] = ANode(known.types | sort.types)
        elif isinstance(known, ANode) or isinstance(sort, ANode):
            raise TypeMismatchError(
                f"{variable!r} is used as a node and as a value.", span=span, hint="Rename one of them."
            )
        elif _differ(known.type, sort.type):
            # 1 and 1.0 are equal, so the type of the variable's value would depend on the order of evaluation.
            raise TypeMismatchError(
                f"{variable!r} is {described(known.type)} in one constraint and {described(sort.type)} in another.",
                span=span,
                hint=_join_hint(variable, known.type, sort.type),
            )

    def _no(self, no: m.No, sorts: dict[str, Sort]) -> m.No:
        inside = dict(sorts)
        for constraint in no.constraints:
            if not isinstance(constraint, m.No):
                self.bind(constraint, inside)
        nested = tuple(self._no(c, inside) if isinstance(c, m.No) else c for c in no.constraints)
        condition = None if no.where is None else self._condition(no.where, inside)
        return replace(no, constraints=nested, where=condition)

    # values

    def _define(self, definition: m.Definition, sorts: dict[str, Sort]) -> m.Definition:
        if isinstance(definition, m.Let):
            value = self._expression(definition.value, sorts)
            sorts[definition.name] = AValue(infer(value, QueryNames(self.done, sorts)))
            return replace(definition, value=value)
        call = self._named((definition.call,))[0]
        assert isinstance(call, m.QueryCall)
        self.bind(call, dict(sorts))
        # Bind only the arguments of the call: a group then has one value, whichever row reads it.
        inside: dict[str, Sort] = {}
        self.bind(call, inside)
        over = None if definition.value is None else self._expression(definition.value, inside)
        type_ = self._aggregated(definition, over, inside)
        sorts[definition.name] = AValue(type_)
        empty_value = v.conform(0, type_) if definition.function in ("count", "sum") else None
        return replace(definition, call=call, value=over, empty_value=empty_value)

    def _aggregated(self, definition: m.Aggregate, value: ex.Expr | None, inside: dict[str, Sort]) -> t.Type:
        if value is None:
            return t.Integer()
        call = ex.Call(definition.function, (value,), span=value.span)
        return infer(call, QueryNames(self.done, inside))

    def _condition(self, condition: ex.Expr, sorts: dict[str, Sort]) -> ex.Expr:
        ready = self._expression(condition, sorts)
        check_condition(ready, QueryNames(self.done, sorts))
        return ready

    def _expression(self, expr: ex.Expr, sorts: Mapping[str, Sort]) -> ex.Expr:
        def change(part: ex.Expr) -> ex.Expr | None:
            if isinstance(part, ex.Call) and part.name in MOVING:
                return self._window(part, sorts)
            if isinstance(part, ex.Call) and part.name in self.done.queries and part.name not in FUNCTIONS:
                raise SemanticError(
                    f"{part.name} is a query, not a function.",
                    span=part.span,
                    hint=f"Use it after 'find', or count its matches: let n = count of {part.name}(…).",
                )
            return None

        return rewritten(expr, change)

    def _window(self, call: ex.Call, sorts: Mapping[str, Sort]) -> ex.Ref:
        match call.args:
            case (ex.Ref(parts=(variable, attribute)), ex.Literal(kind="integer" | "duration") as length) if (
                isinstance(sorts.get(variable), ANode) and isinstance(length.value, int) and length.value > 0
            ):
                pass
            case _:
                raise SemanticError(
                    f"{call.name} expects an attribute of a node and a window above zero.",
                    span=call.span,
                    hint=f"Write {call.name}({_attribute_of(call)}, 5) for the last five values, "
                    f"or {call.name}({_attribute_of(call)}, 2 seconds) for those of the last two seconds.",
                )
        if length.kind == "integer" and length.value > MOST_VALUES:
            raise LimitError(
                f"The window has more than {MOST_VALUES:,} values.", span=length.span, hint="Use a duration."
            )
        name = f"{call.name}({attribute}, {print_expr(length)})"
        values = length.value if length.kind == "integer" else None
        micros = length.value if length.kind == "duration" else None
        self.done.moving[name] = Moving(call.name, attribute, values, micros)
        return ex.Ref((variable, name), span=call.span)

    def _top(self, top: m.Top, sorts: dict[str, Sort]) -> m.Top:
        for name in top.per:
            if name not in sorts:
                raise unknown("parameter", name, list(sorts), top.span)
        by = []
        for order in top.by:
            value = self._expression(order.value, sorts)
            type_ = infer(value, QueryNames(self.done, sorts))
            if not t.is_open(type_) and not t.is_orderable(type_):
                raise TypeMismatchError(f"'top' expects an orderable value, got {type_}.", span=order.value.span)
            by.append(replace(order, value=value))
        return replace(top, by=tuple(by))


def _join_hint(variable: str, left: t.Type, right: t.Type) -> str:
    """The hint for one variable with values of two types."""
    if not (t.is_number(left) and t.is_number(right)):
        return "Rename one of them."
    if isinstance(left, t.Double) or isinstance(right, t.Double):
        return f"Rename one of them and write: where abs({variable} - other) < 1e-9."
    return f"Rename one of them and write: where {variable} = other."


def _attribute_of(call: ex.Call) -> str:
    attribute = call.args[0] if call.args else None
    return print_expr(attribute) if isinstance(attribute, ex.Ref) and len(attribute.parts) == 2 else "a.ATTRIBUTE"


def _differ(left: t.Type, right: t.Type) -> bool:
    return type(left) is not type(right) and not t.is_open(left) and not t.is_open(right)


@dataclass(frozen=True, slots=True)
class QueryNames:
    """Types of the names in an expression of a query."""

    done: Queries
    sorts: Mapping[str, Sort]

    def ref(self, ref: ex.Ref) -> t.Type:
        variable, *path = ref.parts
        sort = self.sorts.get(variable)
        if sort is None:
            raise self._unknown(ref)
        if isinstance(sort, AValue):
            return sort.type if not path else t.Unknown()
        return self._attribute(ref, sort, path[0]) if path else t.Unknown()

    def _unknown(self, ref: ex.Ref) -> ScopeError | UnknownNameError:
        """Return the error for an unknown variable, which may be an attribute of one."""
        name = ref.parts[0]
        for variable, sort in self.sorts.items():
            if isinstance(sort, ANode) and any(name in self.done.kinds.carried[kind] for kind in sort.types):
                return ScopeError(f"Attribute {name!r} needs a node.", span=ref.span, hint=f"Use {variable}.{name}.")
        return unknown("variable", name, [s for s in self.sorts if not s.endswith("?")], ref.span)

    def _attribute(self, ref: ex.Ref, sort: ANode, attribute: str) -> t.Type:
        window = self.done.moving.get(attribute)
        name = attribute if window is None else window.attribute
        carried = {a: type_ for kind in sort.types for a, type_ in self.done.kinds.carried[kind].items()}
        if name not in carried:
            what = f"attribute of {ref.parts[0]}"
            raise unknown(what, name, list(carried), ref.span)
        if isinstance(carried[name], t.Array | t.Map | t.Struct | t.Variant):
            raise TypeMismatchError(
                f"Unsupported attribute {name} in a query: expected a single value, got {carried[name]}.",
                span=ref.span,
                hint="Store the value in a separate attribute.",
            )
        if window is None:
            return carried[name]
        if window.function == "moving_count":
            return t.Integer()
        if not t.is_number(carried[name]) and window.function in ("moving_avg", "moving_sum"):
            raise TypeMismatchError(
                f"{window.function}(…) expects a number, got {described(carried[name])}.",
                span=ref.span,
                hint="Use moving_min, moving_max or moving_count, which support any value.",
            )
        return t.Double() if window.function in ("moving_avg", "moving_sum") else carried[name]

    def param(self, param: ex.Param) -> t.Type:
        raise UnknownNameError(
            f"A query does not support outside parameters, got :{param.name}.",
            span=param.span,
            hint="Write the value, or store it in an attribute of a node.",
        )

    def relation(self, expr: ex.InRelation) -> tuple[t.Type, ...] | None:
        raise UnknownNameError(
            f"Unexpected relation {expr.relation}: a query does not support tables.",
            span=expr.span,
            hint=f"Use a query after 'find': {expr.relation}(a, b).",
        )

    def is_step(self, name: str) -> bool:
        return False
