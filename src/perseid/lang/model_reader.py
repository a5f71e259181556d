"""Transform parse trees of models and queries to the AST of :mod:`perseid.lang.models`."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from lark import Token, v_args
from lark.tree import Meta

from perseid.errors import PatternSyntaxError, ScopeError, TypeMismatchError
from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang import models as m
from perseid.lang import rules as r
from perseid.lang.expression_reader import integer, place, token_place
from perseid.lang.model_slips import with_names
from perseid.lang.rule_reader import RuleReader, plain_arrow

AGGREGATES = ("count", "sum", "min", "max", "avg")

_Named: TypeAlias = m.QueryDefinition | ast.PatternDefinition | r.Rule | r.Repair


class _Node(NamedTuple):
    variable: str
    type: str | None
    span: ex.Span


class _Step(NamedTuple):
    edge: str
    bounds: tuple[int, int | None]
    node: _Node
    forward: bool
    span: ex.Span


class _Bounds(NamedTuple):
    low: int
    high: int | None


class _Where(NamedTuple):
    condition: ex.Expr


class _Above(NamedTuple):
    names: tuple[str, ...]


@v_args(inline=True, meta=True)
class ModelReader(RuleReader):
    """One method per grammar rule; the base classes transform rules, patterns and expressions."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    # kinds of element

    def attribute(self, meta: Meta, name: Token, type_: str) -> m.Attribute:
        return m.Attribute(str(name), type_, span=place(meta))

    def attributes(self, meta: Meta, *attributes: m.Attribute) -> tuple[m.Attribute, ...]:
        return attributes

    def above(self, meta: Meta, *names: Token) -> _Above:
        return _Above(tuple(map(str, names)))

    def node_type(self, meta: Meta, *parts: Any) -> m.NodeType:
        abstract = isinstance(parts[0], Token) and parts[0].type == "ABSTRACT"
        name, *rest = parts[1:] if abstract else parts
        above = next((part.names for part in rest if isinstance(part, _Above)), ())
        attributes = next((part for part in rest if not isinstance(part, _Above)), ())
        return m.NodeType(str(name), above, attributes, abstract, span=place(meta))

    def edge_type(self, meta: Meta, name: Token, source: Token, arrow: Token, target: Token, *one: Token) -> m.EdgeType:
        plain_arrow(arrow)
        return m.EdgeType(str(name), str(source), str(target), bool(one), span=place(meta))

    def metamodel(self, meta: Meta, name: Token, *types: m.NodeType | m.EdgeType) -> m.MetamodelDefinition:
        nodes = tuple(t for t in types if isinstance(t, m.NodeType))
        edges = tuple(t for t in types if isinstance(t, m.EdgeType))
        return m.MetamodelDefinition(str(name), nodes, edges, span=place(meta))

    # constraints

    def closure_plus(self, meta: Meta) -> _Bounds:
        return _Bounds(1, None)

    def closure_star(self, meta: Meta) -> _Bounds:
        return _Bounds(0, None)

    def closure_exactly(self, meta: Meta, count: Token) -> _Bounds:
        return self.closure_between(meta, count, count)

    def closure_between(self, meta: Meta, low: Token, high: Token) -> _Bounds:
        bounds = _Bounds(*(integer(t, limits.MAX_STEPS, "closure bound") for t in (low, high)))
        if bounds.high is not None and bounds.high < max(bounds.low, 1):
            raise PatternSyntaxError(
                "The upper bound is zero." if not bounds.high else "The upper bound is below the lower bound.",
                span=place(meta),
                hint=f"Write {{{bounds.high},{bounds.low}}}." if bounds.high else "Write {1}, or * for any number.",
            )
        return bounds

    def node_of_chain(self, meta: Meta, name: Token, *type_: Token) -> _Node:
        return _Node(str(name), str(type_[1]) if type_ else None, place(meta))

    def forth(self, meta: Meta, edge: Token, *rest: _Bounds | Token | _Node) -> _Step:
        bounds, (arrow, node) = _bounds(rest)
        plain_arrow(arrow)
        return _Step(str(edge), bounds, node, True, place(meta))

    def back(self, meta: Meta, _: Token, edge: Token, *rest: _Bounds | _Node) -> _Step:
        bounds, (node,) = _bounds(rest)
        return _Step(str(edge), bounds, node, False, place(meta))

    def chain(self, meta: Meta, first: _Node, *steps: _Step) -> tuple[m.Constraint, ...]:
        if first.type is None and not steps:
            rest = self.text[first.span.end :].lstrip(" \t")
            if rest.startswith("-->"):
                raise PatternSyntaxError(
                    "'--' begins a comment here.",
                    span=first.span,
                    hint=with_names(f"Write an edge with its type: {first.variable} -$edge-> b.", self.text),
                )
            raise PatternSyntaxError(
                f"Variable {first.variable!r} has no constraint.",
                span=first.span,
                hint=with_names(
                    f"Add its type, {first.variable}: $node, or an edge, {first.variable} -$edge-> b.", self.text
                ),
            )
        found: list[m.Constraint] = []
        at = first
        for step in (None, *steps):
            node = first if step is None else step.node
            if step is not None:
                ends = (at.variable, node.variable) if step.forward else (node.variable, at.variable)
                found.append(m.Walk(ends[0], step.edge, ends[1], *step.bounds, span=step.span))
            if node.type is not None:
                found.append(m.IsNode(node.variable, node.type, span=node.span))
            at = node
        return tuple(found)

    def called(self, meta: Meta, *parts: Token | _Bounds) -> tuple[m.Constraint, ...]:
        return (self._call(meta, parts),)

    def _call(self, meta: Meta, parts: tuple[Token | _Bounds, ...]) -> m.QueryCall:
        name, *rest = parts
        bounds, arguments = _bounds(tuple(rest))
        if bounds != (1, 1) and len(arguments) != 2:
            mark = "{…}" if bounds[1] is not None else "+" if bounds[0] else "*"
            raise TypeMismatchError(
                f"{name}{mark}(…) expects 2 arguments, got {len(arguments)}.",
                span=place(meta),
                hint=f"Write {name}+(from, to), or add a query with two parameters that calls {name}.",
            )
        return m.QueryCall(str(name), tuple(map(str, arguments)), *bounds, span=place(meta))

    def constraints(self, meta: Meta, *constraints: tuple[m.Constraint, ...] | m.No) -> tuple[m.Constraint, ...]:
        found: list[m.Constraint] = []
        for constraint in constraints:
            found.extend(constraint if isinstance(constraint, tuple) else (constraint,))
        return tuple(found)

    def no(self, meta: Meta, constraints: tuple[m.Constraint, ...]) -> m.No:
        return m.No(constraints, span=place(meta))

    def no_group(self, meta: Meta, constraints: tuple[m.Constraint, ...], *condition: _Where) -> m.No:
        return m.No(constraints, condition[0].condition if condition else None, span=place(meta))

    # values

    def definition(self, meta: Meta, name: Token, _: Token, value: ex.Expr, *call: Token | _Bounds) -> m.Definition:
        if not call:
            return m.Let(str(name), value, span=place(meta))
        function, over = _aggregate(value)
        return m.Aggregate(str(name), function, over, self._call(meta, call), span=place(meta))

    def definitions(self, meta: Meta, *definitions: m.Definition) -> tuple[m.Definition, ...]:
        return definitions

    def query_where(self, meta: Meta, condition: ex.Expr) -> _Where:
        return _Where(condition)

    # queries

    def find(
        self, meta: Meta, constraints: tuple[m.Constraint, ...], *rest: tuple[m.Definition, ...] | _Where
    ) -> m.Find:
        condition = next((part.condition for part in rest if isinstance(part, _Where)), None)
        definitions = next((part for part in rest if not isinstance(part, _Where)), ())
        return m.Find(constraints, definitions, condition, span=place(meta))

    def way(self, meta: Meta, find: m.Find) -> m.Find:
        return find

    def ways(self, meta: Meta, *ways: m.Find) -> tuple[m.Find, ...]:
        return ways

    def components(self, meta: Meta, edges: Token, *nodes: Token) -> m.Components:
        return m.Components(str(edges), str(nodes[0]) if nodes else None, span=place(meta))

    def order(self, meta: Meta, value: ex.Expr, *direction: Token) -> m.Order:
        return m.Order(value, bool(direction) and direction[0].lower() == "ascending")

    def per(self, meta: Meta, *names: Token) -> tuple[str, ...]:
        return tuple(map(str, names))

    def top(self, meta: Meta, count: Token, *rest: tuple[str, ...] | m.Order) -> m.Top:
        per = next((part for part in rest if isinstance(part, tuple)), ())
        by = tuple(part for part in rest if isinstance(part, m.Order))
        number = integer(count, limits.MAX_ROUNDS, "number after 'top'")
        if number == 0:
            raise PatternSyntaxError(
                f"'top': expected a number from 1 to {limits.MAX_ROUNDS:,}, got 0.",
                span=token_place(count),
                hint="Write top 1 by …",
            )
        return m.Top(number, by, per, span=place(meta))

    def query(self, meta: Meta, name: Token, *rest: Any) -> m.QueryDefinition:
        parameters = tuple(str(part) for part in rest if isinstance(part, Token))
        ways, *top = (part for part in rest if not isinstance(part, Token))
        return m.QueryDefinition(str(name), parameters, ways, top[0] if top else None, span=token_place(name))

    def model_file(self, meta: Meta, *parts: m.MetamodelDefinition | _Named) -> m.ModelFile:
        metamodels = [part for part in parts if isinstance(part, m.MetamodelDefinition)]
        if len(metamodels) > 1:
            raise PatternSyntaxError(
                "Duplicate clause 'model'.", span=metamodels[1].span, hint="Put each model in its own text."
            )
        queries = tuple(part for part in parts if isinstance(part, m.QueryDefinition))
        patterns = tuple(part for part in parts if isinstance(part, ast.PatternDefinition))
        rules = tuple(part for part in parts if isinstance(part, r.Rule))
        repairs = tuple(part for part in parts if isinstance(part, r.Repair))
        for noun, named in (("query", queries), ("pattern", patterns), ("rule", rules), ("repair", repairs)):
            _require_distinct(noun, named)
        return m.ModelFile(metamodels[0] if metamodels else None, queries, patterns, rules, repairs)


def _require_distinct(noun: str, named: tuple[_Named, ...]) -> None:
    seen: set[str] = set()
    for part in named:
        if part.name in seen:
            raise ScopeError(f"Duplicate {noun} {part.name!r}.", span=part.span, hint="Use another name.")
        seen.add(part.name)


def _bounds(parts: tuple[Any, ...]) -> tuple[tuple[int, int | None], tuple[Any, ...]]:
    """Split off leading repetition bounds; the default is (1, 1)."""
    if parts and isinstance(parts[0], _Bounds):
        return tuple(parts[0]), parts[1:]  # type: ignore[return-value]
    return (1, 1), parts


def _aggregate(value: ex.Expr) -> tuple[str, ex.Expr | None]:
    """Return the function and argument of an aggregate before ``of``: ``count``, ``sum(x)``, …."""
    match value:
        case ex.Ref(parts=(name,)) if name.lower() == "count":
            return "count", None
        case ex.Call(name=name, args=(argument,), distinct=False) if name in AGGREGATES and name != "count":
            return name, argument
    raise PatternSyntaxError(
        "Expected an aggregate before 'of'.",
        span=value.span,
        hint="Write count of q(x, _), or sum(y) of q(x, y); min, max and avg likewise.",
    )
