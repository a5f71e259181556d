"""Check rules and repairs over a model: names exist, nodes are used where nodes are needed, and values fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from perseid.errors import Place, ScopeError, SemanticError, TypeMismatchError
from perseid.lang import ast
from perseid.lang import expressions as ex
from perseid.lang import models as m
from perseid.lang import rules as r
from perseid.lang.printer import print_expr
from perseid.semantics import types as t
from perseid.semantics.metamodels import Kinds, unknown
from perseid.semantics.model_queries import ANode, AValue, Queries, QueryNames, Sort
from perseid.semantics.typing import counted, infer


@dataclass(frozen=True, slots=True)
class Rules:
    """A checked set of rules and repairs, in source order."""

    queries: Queries
    rules: tuple[r.Rule, ...] = ()
    repairs: tuple[r.Repair, ...] = ()
    patterns: tuple[ast.PatternDefinition, ...] = ()
    """Patterns that trigger rules."""
    parameters: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names bound by a match of such a pattern: its key and its outputs."""
    source: str | None = None


def check_rules(queries: Queries, file: m.ModelFile, source: str | None = None) -> Rules:
    """Check all rules and repairs of a file; raise an error with its span for the first that is wrong."""
    by_name = {pattern.name: pattern for pattern in file.patterns}
    triggers = [rule.trigger for rule in file.rules if isinstance(rule.trigger, r.OnPattern)]
    for trigger in triggers:
        if trigger.pattern not in by_name:
            raise unknown("pattern", trigger.pattern, list(by_name), trigger.span)
    patterns = tuple(by_name[name] for name in dict.fromkeys(trigger.pattern for trigger in triggers))
    sorts = {pattern.name: _pattern_sorts(pattern, queries) for pattern in patterns}
    emitted: dict[str, tuple[str, ...]] = {}
    for rule in file.rules:
        trigger_ = rule.trigger
        known = sorts[trigger_.pattern] if isinstance(trigger_, r.OnPattern) else _arguments(trigger_, queries)
        for block in rule.blocks:
            _Block(queries, known, block.model).check(block.actions, emitted)
    for repair in file.repairs:
        _Block(queries, _arguments(repair, queries), ()).check(repair.actions, emitted)
    parameters = {name: tuple(known) for name, known in sorts.items()}
    return Rules(queries, file.rules, file.repairs, patterns, parameters, source)


def _arguments(query_use: r.OnQuery | r.Repair, queries: Queries) -> dict[str, Sort]:
    """Return the sorts of the names bound by a match of a query."""
    if query_use.query not in queries.queries:
        raise unknown("query", query_use.query, list(queries.queries), query_use.span)
    sorts = queries.sorts[query_use.query]
    if len(sorts) != len(query_use.arguments):
        raise SemanticError(
            f"{query_use.query}(…) expects {counted(len(sorts), 'argument')}, got {len(query_use.arguments)}.",
            span=query_use.span,
            hint=f"Use {query_use.query}({', '.join(sorts)}), with _ for arguments that do not matter.",
        )
    found: dict[str, Sort] = {}
    for name, sort in zip(query_use.arguments, sorts.values(), strict=True):
        if name == m.ANYTHING:
            continue
        if name in found:
            raise ScopeError(f"Duplicate name {name!r}.", span=query_use.span, hint="Use another name.")
        found[name] = sort
    return found


# names bound by a pattern match


def _pattern_sorts(pattern: ast.PatternDefinition, queries: Queries) -> dict[str, Sort]:
    steps = _Steps(pattern, queries)
    found: dict[str, Sort] = {}
    for path in pattern.partition_by:
        found[path.parts[-1]] = steps.column(path.parts)
    for output in pattern.returns:
        name = output.name or (output.expr.parts[-1] if isinstance(output.expr, ex.Ref) else None)
        if name is not None:
            found[name] = steps.of(output.expr)
    return found


@dataclass(slots=True)
class _Steps:
    """Sorts of the columns of a pattern's steps: nodes or values."""

    pattern: ast.PatternDefinition
    queries: Queries

    def of(self, expr: ex.Expr) -> Sort:
        return self.column(expr.parts) if isinstance(expr, ex.Ref) else AValue(t.Unknown())

    def column(self, parts: tuple[str, ...]) -> Sort:
        """Return the sort of a column of a named step, of a unified name, or of a column that every step has."""
        steps = list(ast.steps(self.pattern.match))
        named = [step for step in steps if step.name == parts[0]]
        if named and len(parts) == 2:
            return self._common([self._of_step(step, parts[1]) for step in named])
        unified = [self._of_step(s, u.attribute.parts[-1]) for s in steps for u in s.unify if u.name == parts[0]]
        if unified and len(parts) == 1:
            return self._common(unified)
        return self._common([self._of_step(step, parts[-1]) for step in steps])

    def _of_step(self, step: ast.Step, column: str) -> Sort | None:
        kinds = self.queries.kinds
        match step.kind:
            case ast.QueryEvent(query=query) if query in self.queries.sorts:
                return self.queries.sorts[query].get(column)
            case ast.ModelChange(action="link" | "unlink", element=edge) if edge in kinds.edges:
                ends = {"element": kinds.edges[edge].source, "target": kinds.edges[edge].target}
                return ANode(kinds.above[ends[column]]) if column in ends else AValue(t.Unknown())
            case ast.ModelChange(element=element) if element in kinds.nodes and column == "element":
                return ANode(kinds.above[element])
        return AValue(t.Unknown())

    def _common(self, sorts: list[Sort | None]) -> Sort:
        known = [sort for sort in sorts if sort is not None]
        nodes = [sort for sort in known if isinstance(sort, ANode)]
        if nodes and len(nodes) == len(known):
            return ANode(frozenset.intersection(*(node.types for node in nodes)))
        types = {sort.type for sort in known if isinstance(sort, AValue)}
        return AValue(types.pop() if len(types) == 1 and not nodes else t.Unknown())


# actions


class _Block:
    """Checks the actions of a block in sequence: each may use the nodes named by those before it."""

    def __init__(self, queries: Queries, known: Mapping[str, Sort], model: tuple[ex.Expr, ...]) -> None:
        self.queries = queries
        self.readable = dict(known)
        self.fresh: set[str] = set()
        """Nodes without readable values: created by the block, or of another model."""
        self.elsewhere = bool(model)
        self.changeable = {} if model else {n: s for n, s in known.items() if isinstance(s, ANode)}
        for key in model:
            self._type(key)

    def check(self, actions: Iterable[r.Action], emitted: dict[str, tuple[str, ...]]) -> None:
        for action in actions:
            match action:
                case r.SetValue():
                    self._set(action)
                case r.NamedNode():
                    self._named(action)
                case r.DeleteNode():
                    self._node(action.variable, action.span)
                case r.LinkNodes():
                    self._link(action)
                case r.Emit():
                    self._emit(action, emitted)

    def _set(self, action: r.SetValue) -> None:
        node = self._node(action.variable, action.span)
        kinds = self.queries.kinds
        carried = {name: type_ for kind in node.types for name, type_ in kinds.carried[kind].items()}
        if action.attribute not in carried:
            raise unknown(f"attribute of {action.variable}", action.attribute, list(carried), action.span)
        expected, actual = carried[action.attribute], self._type(action.value)
        if t.is_open(actual) or actual == expected:
            return
        if t.wider(expected, actual) is None or (isinstance(expected, t.Integer) and not isinstance(actual, t.Integer)):
            raise TypeMismatchError(
                f"{action.variable}.{action.attribute}: expected {expected}, got {actual}: {print_expr(action.value)}.",
                span=action.span,
                hint=f"Use a value of the type {expected}, or cast({print_expr(action.value)} as {expected}).",
            )

    def _named(self, action: r.NamedNode) -> None:
        kinds = self.queries.kinds
        if action.type not in kinds.nodes:
            raise unknown("node type", action.type, list(kinds.nodes), action.span)
        if action.create and kinds.nodes[action.type].abstract:
            below = [kind for kind in kinds.below(action.type) if not kinds.nodes[kind].abstract]
            raise SemanticError(
                f"Node type {action.type} is abstract.",
                span=action.span,
                hint=f"Use a subtype: {', '.join(below) or 'none'}.",
            )
        actual = self._type(action.name)
        if not t.is_open(actual) and not isinstance(actual, t.String | t.Integer):
            raise TypeMismatchError(
                f"Node name: expected a string or an integer, got {actual}: {print_expr(action.name)}.",
                span=action.name.span,
            )
        if action.variable in self.readable or action.variable in self.changeable:
            raise ScopeError(f"Duplicate name {action.variable!r}.", span=action.span, hint="Use another name.")
        node = ANode(kinds.above[action.type])
        self.changeable[action.variable] = node
        if action.create or self.elsewhere:
            self.fresh.add(action.variable)
        self.readable[action.variable] = node

    def _link(self, action: r.LinkNodes) -> None:
        kinds = self.queries.kinds
        if action.edge not in kinds.edges:
            raise unknown("edge", action.edge, list(kinds.edges), action.span)
        edge = kinds.edges[action.edge]
        for variable, expected in ((action.source, edge.source), (action.target, edge.target)):
            node = self._node(variable, action.span)
            if not _can_be(kinds, node, expected):
                lowest = min(node.types, key=lambda kind: -len(kinds.above[kind]))
                raise TypeMismatchError(
                    f"Edge {edge.name}: expected a {expected}, got {variable!r}, a {lowest}.",
                    span=action.span,
                    hint=f"Link a {edge.source} to a {edge.target}.",
                )

    def _emit(self, action: r.Emit, emitted: dict[str, tuple[str, ...]]) -> None:
        if self.elsewhere:
            raise SemanticError(
                "'emit' is not allowed in an action on another model.",
                span=action.span,
                hint="Write emit after the first 'do'.",
            )
        names = tuple(column_name(column) for column in action.columns)
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled is not None:
            raise ScopeError(f"Duplicate column {doubled!r} in {action.name}.", span=action.span)
        if emitted.setdefault(action.name, names) != names:
            raise SemanticError(
                f"{action.name}: expected the columns {', '.join(emitted[action.name])} of another rule, "
                f"got {', '.join(names)}.",
                span=action.span,
                hint="Use the same columns in the same order for all rows of one name.",
            )
        for column in action.columns:
            self._type(column.expr)

    def _node(self, variable: str, span: Place | None) -> ANode:
        if variable in self.changeable:
            return self.changeable[variable]
        sort = self.readable.get(variable)
        if sort is None:
            raise unknown("variable", variable, list(dict.fromkeys([*self.changeable, *self.readable])), span)
        if isinstance(sort, AValue):
            raise TypeMismatchError(f"Expected a node, got the value {variable!r}.", span=span)
        raise ScopeError(
            f"{variable!r} is a node of the rule's own model, not of the target model.",
            span=span,
            hint=f"Name a node of the target model: let other: {min(sort.types, default='Type')} named {variable}.",
        )

    def _type(self, expr: ex.Expr) -> t.Type:
        for part in ex.walk(expr):
            if isinstance(part, ex.Ref) and len(part.parts) > 1 and part.parts[0] in self.fresh:
                raise SemanticError(
                    f"The attributes of {part.parts[0]!r} cannot be read.",
                    span=part.span,
                    hint="Remove them: only the name of a new node, or of a node of another model, is known.",
                )
        return infer(expr, QueryNames(self.queries, self.readable))


def emitted_sorts(rules: Rules, returned: Mapping[str, Mapping[str, t.Type]]) -> dict[str, dict[str, Sort]]:
    """Return the sorts of the columns of emitted rows, by row name; ``returned`` has the types of pattern outputs.

    A column with values of incompatible types is text.
    """
    patterns = {pattern.name: pattern for pattern in rules.patterns}
    found: dict[str, dict[str, Sort]] = {}
    for rule in rules.rules:
        trigger = rule.trigger
        if isinstance(trigger, r.OnPattern):
            known = _pattern_sorts(patterns[trigger.pattern], rules.queries)
            types = returned.get(trigger.pattern, {})
            known = {n: AValue(types.get(n, s.type)) if isinstance(s, AValue) else s for n, s in known.items()}
        else:
            known = _arguments(trigger, rules.queries)
        for block in rule.blocks:
            bound = dict(known)
            for action in block.actions:
                if isinstance(action, r.NamedNode):
                    bound[action.variable] = ANode(rules.queries.kinds.above[action.type])
                elif isinstance(action, r.Emit):
                    columns = found.setdefault(action.name, {})
                    for column in action.columns:
                        name, sort = column_name(column), _sort(column.expr, rules.queries, bound)
                        columns[name] = _joined(columns.get(name, sort), sort)
    return found


def _sort(expr: ex.Expr, queries: Queries, known: Mapping[str, Sort]) -> Sort:
    if isinstance(expr, ex.Ref) and len(expr.parts) == 1:
        return known[expr.parts[0]]
    return AValue(infer(expr, QueryNames(queries, known)))


def _joined(left: Sort, right: Sort) -> Sort:
    if isinstance(left, ANode) or isinstance(right, ANode):
        return left if isinstance(left, type(right)) else AValue(t.String())
    if isinstance(left.type, t.Null) or isinstance(right.type, t.Null):
        return right if isinstance(left.type, t.Null) else left
    wider = left.type if left.type == right.type else t.wider(left.type, right.type)
    return AValue(t.String() if wider is None else wider)


def _can_be(kinds: Kinds, node: ANode, required: str) -> bool:
    """Return True if some type is a subtype of all known types of the node and of the wanted one."""
    return any(node.types | {required} <= above for above in kinds.above.values())


def column_name(column: ast.Output) -> str:
    """Return the name of a column of an emitted row."""
    if column.name is not None:
        return column.name
    if isinstance(column.expr, ex.Ref):
        return column.expr.parts[-1]
    raise SemanticError(
        f"The computed column {print_expr(column.expr)} needs a name.",
        span=column.span,
        hint=f"Add a name: {print_expr(column.expr)} as value.",
    )
