"""Join graphs: the relation of two blocks, reduced to the parts that a single document does not decide.

A subscription's blocks are trees, and its equalities are edges between them. The reduced graph retains only the compared
nodes and those where the paths to them branch (paper 3, Section 4.2). The steps above, below and between them are
conditions on the retained nodes and part of their identity: a :class:`NodeChain` is a tree pattern that finds one compared
node and its retained ancestors.

Graphs that differ only in the identity of their nodes have the same *template*; a subscription is a template and chains
for each of its edges.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from itertools import permutations, product
from math import factorial, prod
from typing import TypeAlias

from perseid.errors import LimitError
from perseid.lang import tree_patterns as tp
from perseid.lang.subscriptions import MIRRORED, Block, Comparator, TemporalRelation
from perseid.semantics.subscriptions import LEFT, RIGHT, Node, Related, reduced_nodes, step_at

ENDLESS = 1 << 62
"""The window of subscriptions without one."""
MAX_SLOTS = 64
"""Maximum number of nodes of a template on one side."""
MAX_EDGES = 128
"""Maximum number of edges of a template."""
MAX_ORDERS = 5_040
"""Limit of edge orders tried for the canonical one; beyond it some isomorphic graphs have different templates."""


class Kind(IntEnum):
    """The predicate of an edge; edges are evaluated in this order."""

    NEWER_IS = 0
    """A node of the newer document has the text of a constant."""
    NEWER_CONTAINS = 1
    EQUAL = 2
    """A node of the older document and one of the newer have the same text."""
    OLDER_IS = 3
    OLDER_CONTAINS = 4
    ORDERED = 5
    """A node of the older document and one of the newer compare as numbers."""
    NEWER_RANGE = 6
    """A node of the newer document compares with a constant."""
    OLDER_RANGE = 7


Slots: TypeAlias = tuple[int, ...]
"""The nodes of a chain, topmost first, as numbers in a template."""


@dataclass(frozen=True, order=True)
class TemplateEdge:
    """One edge of a template."""

    kind: Kind
    older: Slots = ()
    newer: Slots = ()
    op: str = ""


@dataclass(frozen=True, order=True)
class SubscriptionTemplate:
    """The common structure of subscriptions that differ only in chains, constants and windows."""

    edges: tuple[TemplateEdge, ...]
    strict: bool
    """True if the newer document must be strictly later."""
    shown: tuple[Slots, Slots]
    """The nodes of the older and of the newer document in a notification."""


@dataclass(frozen=True)
class NodeChain:
    """A compared node and its retained ancestors, as a tree pattern; nodes are named n0, n1, … from the top."""

    stream: str
    tree: str
    height: int
    """The number of named nodes."""


@dataclass(frozen=True)
class EdgeChains:
    """The chains or the chain and constant of one subscription for an edge of its template."""

    older: NodeChain | None = None
    newer: NodeChain | None = None
    value: tp.Constant | None = None


@dataclass(frozen=True)
class TemplateRow:
    """A subscription as a row of its template's relation RT."""

    template: SubscriptionTemplate
    edge_chains: tuple[EdgeChains, ...]
    window: int | None
    swapped: bool
    """True if the older document matches the right block."""
    order: tuple[tuple[int, ...], tuple[int, ...]]
    """By shown node of the older and of the newer block, in block order: its index among those of the template."""
    names: tuple[tuple[str | None, ...], tuple[str | None, ...]]
    """By the same nodes: their variables."""


@dataclass(frozen=True)
class _Open:
    """An edge with unnumbered nodes."""

    kind: Kind
    op: str
    chains: tuple[Sequence[Hashable], Sequence[Hashable]]
    """The nodes of the older and of the newer chain, topmost first."""
    edge_chains: EdgeChains


def rows_of(related: Related) -> Iterator[TemplateRow]:
    """Yield the rows of a subscription: one, or one per document order if either block may match the older document."""
    yield _row(related, LEFT, related.relation is TemporalRelation.FOLLOWED_BY)
    if related.relation is TemporalRelation.JOIN:
        yield _row(related, RIGHT, False)


def same_order(rows: Sequence[TemplateRow]) -> list[list[int]]:
    """Group the indices of rows by document order; the rows of one list are alternatives."""
    by_order: dict[bool, list[int]] = {}
    for place, row in enumerate(rows):
        by_order.setdefault(row.swapped, []).append(place)
    return list(by_order.values())


def _row(related: Related, older: int, strict: bool) -> TemplateRow:
    sides = (older, 1 - older)
    compared = [related.compared_nodes(side) for side in sides]
    reduced = [reduced_nodes(nodes) for nodes in compared]
    blocks = [related.blocks[side] for side in sides]
    chains = [
        {node: _chain(block, node, nodes) for node in compared_nodes}
        for block, nodes, compared_nodes in zip(blocks, reduced, compared, strict=True)
    ]
    edges: list[_Open] = []
    for pair in related.pairs:
        a, b = (pair[side] for side in sides)
        edges.append(
            _Open(
                Kind.EQUAL, "", (_above(a, reduced[0]), _above(b, reduced[1])), EdgeChains(chains[0][a], chains[1][b])
            )
        )
    for first_node, op, second_node in related.ordered:
        a, b = ((first_node, second_node)[side] for side in sides)
        side_op = op if older == LEFT else MIRRORED[op]
        nodes = _above(a, reduced[0]), _above(b, reduced[1])
        edges.append(_Open(Kind.ORDERED, side_op, nodes, EdgeChains(chains[0][a], chains[1][b])))
    for condition in related.conditions:
        newer = condition.side == sides[1]
        way = _above(condition.node, reduced[newer])
        nodes = ([], way) if newer else (way, [])
        chain = chains[newer][condition.node]
        edge_chains = EdgeChains(None, chain, condition.value) if newer else EdgeChains(chain, None, condition.value)
        edges.append(
            _Open(
                _kind_of(condition.op, condition.value, newer),
                _op_of(condition.op, condition.value),
                nodes,
                edge_chains,
            )
        )
    shown = [reduced_nodes(pair[side] for pair in related.pairs) for side in sides]
    template, order = _canonical(edges, shown, strict)
    _require_limits(template)
    numbers = _numbered([edges[i] for i in order])[1]
    orders = tuple(
        tuple(slots.index(known[node]) for node in nodes)
        for nodes, known, slots in zip(shown, numbers, template.shown, strict=True)
    )
    names = []
    for nodes_shown, block in zip(shown, blocks, strict=True):
        assert isinstance(block.tree.root, tp.TreeNode)
        names.append(tuple(step_at(block.tree.root, node).returns for node in nodes_shown))
    return TemplateRow(
        template,
        tuple(edges[i].edge_chains for i in order),
        related.window,
        older == RIGHT,
        (orders[0], orders[1]),
        (names[0], names[1]),
    )


def _require_limits(template: SubscriptionTemplate) -> None:
    highest = max((slot for edge in template.edges for slot in (*edge.older, *edge.newer)), default=0)
    if highest >= MAX_SLOTS or len(template.edges) > MAX_EDGES:
        raise LimitError(
            f"A subscription has at most {MAX_SLOTS} nodes of a document and {MAX_EDGES} comparisons.",
            hint="Split it into several subscriptions.",
        )


def _kind_of(op: Comparator, value: tp.Constant, newer: bool) -> Kind:
    if op == "=" and isinstance(value, str):
        return Kind.NEWER_IS if newer else Kind.OLDER_IS
    if op == "contains":
        return Kind.NEWER_CONTAINS if newer else Kind.OLDER_CONTAINS
    return Kind.NEWER_RANGE if newer else Kind.OLDER_RANGE


def _op_of(op: Comparator, value: tp.Constant) -> str:
    """Return the operator, marked if it compares texts: comparison with a string is textual, with a number numeric."""
    if op == "contains" or (op == "=" and isinstance(value, str)):
        return ""
    return f"{op} text" if isinstance(value, str) else op


def _canonical(
    edges: Sequence[_Open], shown: Sequence[Sequence[Hashable]], strict: bool
) -> tuple[SubscriptionTemplate, tuple[int, ...]]:
    """Return the smallest template over all edge orders, and the first edge order that gives it.

    Edges are first sorted by predicate and chains, so equal subscriptions start from the same order, and the enumeration
    of orders is cached per shape of a graph.
    """
    initial = sorted(range(len(edges)), key=lambda i: (edges[i].kind, edges[i].op, _sorted_by(edges[i].edge_chains)))
    initial_edges, numbers = _numbered([edges[i] for i in initial])
    shown_slots = tuple(tuple(sorted(known[one] for one in nodes)) for nodes, known in zip(shown, numbers, strict=True))
    template, order = _smallest(SubscriptionTemplate(initial_edges, strict, (shown_slots[0], shown_slots[1])))
    return template, tuple(initial[i] for i in order)


@lru_cache(maxsize=1 << 14)
def _smallest(template: SubscriptionTemplate) -> tuple[SubscriptionTemplate, tuple[int, ...]]:
    by_kind: dict[tuple[Kind, str], list[int]] = {}
    for i, edge in enumerate(template.edges):
        by_kind.setdefault((edge.kind, edge.op), []).append(i)
    classes = [by_kind[kind] for kind in sorted(by_kind)]
    orders: Iterable[tuple[tuple[int, ...], ...]] = [tuple(tuple(members) for members in classes)]
    if prod(factorial(len(members)) for members in classes) <= MAX_ORDERS:
        orders = product(*(permutations(members) for members in classes))
    candidates = ((tuple(i for part in parts for i in part)) for parts in orders)
    return min(((_reordered(template, order), order) for order in candidates), key=lambda pair: pair)


def _reordered(template: SubscriptionTemplate, order: Sequence[int]) -> SubscriptionTemplate:
    """Return a template with reordered edges, and nodes renumbered by first occurrence."""
    numbers: tuple[dict[int, int], dict[int, int]] = ({}, {})
    edges = []
    for i in order:
        edge = template.edges[i]
        older, newer = (
            tuple(known.setdefault(slot, len(known)) for slot in chain)
            for chain, known in zip((edge.older, edge.newer), numbers, strict=True)
        )
        edges.append(TemplateEdge(edge.kind, older, newer, edge.op))
    shown = [tuple(sorted(known[slot] for slot in nodes)) for nodes, known in zip(template.shown, numbers, strict=True)]
    return SubscriptionTemplate(tuple(edges), template.strict, (shown[0], shown[1]))


def _sorted_by(edge_chains: EdgeChains) -> tuple[str, ...]:
    chains = ((one.stream, one.tree) if one else ("", "") for one in (edge_chains.older, edge_chains.newer))
    return (*(text for pair in chains for text in pair), str(edge_chains.value))


def joins_of(template: SubscriptionTemplate) -> tuple[TemplateEdge, ...]:
    """Return the template as defined in the paper: equality edges, without nodes that only a constant uses."""
    older, newer = template.shown
    return canonical_edges(
        ([slot for slot in edge.older if slot in older], [slot for slot in edge.newer if slot in newer])
        for edge in template.edges
        if edge.kind is Kind.EQUAL
    )


def canonical_edges(chains: Iterable[tuple[Sequence[Hashable], Sequence[Hashable]]]) -> tuple[TemplateEdge, ...]:
    """Return the canonical edges of equalities between chains, common to all isomorphic graphs."""
    return _canonical([_Open(Kind.EQUAL, "", each, EdgeChains()) for each in chains], ((), ()), False)[0].edges


def _numbered(
    edges: Sequence[_Open],
) -> tuple[tuple[TemplateEdge, ...], tuple[dict[Hashable, int], dict[Hashable, int]]]:
    """Number the nodes of edges by first occurrence; return the edges and the numbers per side."""
    numbers: tuple[dict[Hashable, int], dict[Hashable, int]] = ({}, {})
    numbered_edges = []
    for edge in edges:
        slots = [
            tuple(known.setdefault(one, len(known)) for one in chain)
            for chain, known in zip(edge.chains, numbers, strict=True)
        ]
        numbered_edges.append(TemplateEdge(edge.kind, slots[0], slots[1], edge.op))
    return tuple(numbered_edges), numbers


def _above(node: Node, retained: Sequence[Node]) -> list[Node]:
    """Return the retained ancestors of a node and the node itself, topmost first."""
    return [one for one in retained if node[: len(one)] == one]


def _chain(block: Block, node: Node, retained: Sequence[Node]) -> NodeChain:
    names = {one: f"n{i}" for i, one in enumerate(_above(node, retained))}
    assert isinstance(block.tree.root, tp.TreeNode)
    root = _narrowed(block.tree.root, (), node, retained, names)
    return NodeChain(block.stream, tp.print_tree(tp.TreePattern(root)), len(names))


def _narrowed(
    step: tp.TreeNode, path: Node, node: Node, retained: Sequence[Node], names: dict[Node, str]
) -> tp.TreeNode:
    """Return a step on the path to a node, without branches to other retained nodes, which have their own chains."""
    on_way = node[len(path)] if len(path) < len(node) else None
    predicates = tuple(
        _nameless(one)
        for number, one in enumerate(step.predicates)
        if number != on_way and not any(other[: len(path) + 1] == (*path, number) for other in retained)
    )
    after: tp.TreeNode | None = None
    if on_way is not None:
        inner = step.next if on_way < 0 else step.predicates[on_way].expr  # type: ignore[union-attr]
        assert isinstance(inner, tp.TreeNode)
        after = _narrowed(inner, (*path, on_way), node, retained, names)
    if step.next is not None and on_way != -1 and not any(other[: len(path) + 1] == (*path, -1) for other in retained):
        # The rest of the path is an existence predicate.
        predicates = (*predicates, tp.Exists(_nameless_node(step.next)))
    siblings = None if step.siblings is None else _nameless_expr(step.siblings)
    return replace(step, returns=names.get(path), predicates=predicates, siblings=siblings, next=after, span=None)


def _nameless(predicate: tp.TreePredicate) -> tp.TreePredicate:
    if isinstance(predicate, tp.Exists):
        return tp.Exists(_nameless_expr(predicate.expr))
    if isinstance(predicate, tp.Comparison) and predicate.path is not None:
        return replace(predicate, path=_nameless_node(predicate.path))
    return predicate


def _nameless_expr(expr: tp.SiblingExpr) -> tp.SiblingExpr:
    match expr:
        case tp.TreeNode():
            return _nameless_node(expr)
        case tp.SiblingSequence():
            return replace(expr, items=tuple(map(_nameless_expr, expr.items)))
        case tp.SiblingAlternation():
            return replace(expr, branches=tuple(map(_nameless_expr, expr.branches)))
        case tp.SiblingRepeat():
            return replace(expr, item=_nameless_expr(expr.item))


def _nameless_node(step: tp.TreeNode) -> tp.TreeNode:
    return replace(
        step,
        returns=None,
        predicates=tuple(map(_nameless, step.predicates)),
        siblings=None if step.siblings is None else _nameless_expr(step.siblings),
        next=None if step.next is None else _nameless_node(step.next),
    )
