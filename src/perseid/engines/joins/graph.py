"""Join graphs: what two blocks have to do with each other, once all that one document decides is gone.

A subscription's blocks are trees, and its equalities are edges between them. Of the trees only the nodes count that are
compared and those where their ways part (paper 3, Section 4.2). What lies above, below or between them is a demand on the
nodes that are left, and becomes part of what they are: a :class:`Chain` is a tree pattern that finds one compared node
together with the nodes above it that are left.

Two graphs that differ only in what their nodes are have one *template*; a subscription is a template and a chain for
each of its edges.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from itertools import permutations, product
from math import factorial, prod
from typing import TypeAlias

from perseid.lang import tree_patterns as tp
from perseid.lang.subscriptions import MIRRORED, Block, Comparator, Relation
from perseid.semantics.subscriptions import LEFT, RIGHT, Node, Related, kept, step_at

ENDLESS = 1 << 62
"""The window of subscriptions that have none."""
MAX_ORDERS = 5_040
"""Orders of edges that are tried for the one that equal graphs share; with more, some equal graphs are two templates."""


class Kind(IntEnum):
    """What an edge asks; edges are asked in this order."""

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
"""The nodes of a chain from above, as numbers that nodes of a template have."""


@dataclass(frozen=True, order=True)
class Edge:
    """One edge of a template."""

    kind: Kind
    older: Slots = ()
    newer: Slots = ()
    op: str = ""


@dataclass(frozen=True, order=True)
class Template:
    """What subscriptions share that differ only in the nodes they mean, in constants and in windows."""

    edges: tuple[Edge, ...]
    strict: bool
    """The newer document is later, and not of the same time."""
    shown: tuple[Slots, Slots]
    """The nodes of the older and of the newer document that a notification names."""


@dataclass(frozen=True)
class Chain:
    """A compared node and the nodes above it that count, as a tree pattern; nodes are named from above, n0, n1, …"""

    stream: str
    tree: str
    height: int
    """How many nodes it names."""


@dataclass(frozen=True)
class Asked:
    """What an edge is for one subscription: the chains of its template's edge, and a constant."""

    older: Chain | None = None
    newer: Chain | None = None
    value: tp.Constant | None = None


@dataclass(frozen=True)
class Row:
    """A subscription as a row of its template's relation RT."""

    template: Template
    asked: tuple[Asked, ...]
    window: int | None
    swapped: bool
    """The older document is the right block's."""
    order: tuple[tuple[int, ...], tuple[int, ...]]
    """By shown node of the older and of the newer block, in the order they have there: its place among those of the template."""
    names: tuple[tuple[str | None, ...], tuple[str | None, ...]]
    """By the same nodes: the variables they are."""


@dataclass(frozen=True)
class _Open:
    """An edge whose nodes have no numbers yet."""

    kind: Kind
    op: str
    chains: tuple[Sequence[Hashable], Sequence[Hashable]]
    """The nodes of the older and of the newer chain, from above."""
    asked: Asked


def rows_of(related: Related) -> Iterator[Row]:
    """The rows that a subscription is: one, or one for each order of the documents where either may come first."""
    yield _row(related, LEFT, related.relation is Relation.FOLLOWED_BY)
    if related.relation is Relation.JOIN:
        yield _row(related, RIGHT, False)


def same_order(rows: Sequence[Row]) -> list[list[int]]:
    """The places of rows by the order of the documents they ask for; those of one list are alternatives."""
    by_order: dict[bool, list[int]] = {}
    for place, row in enumerate(rows):
        by_order.setdefault(row.swapped, []).append(place)
    return list(by_order.values())


def _row(related: Related, older: int, strict: bool) -> Row:
    sides = (older, 1 - older)
    asked = [related.asked(side) for side in sides]
    left = [kept(nodes) for nodes in asked]
    blocks = [related.blocks[side] for side in sides]
    chains = [
        {node: _chain(block, node, nodes) for node in wanted}
        for block, nodes, wanted in zip(blocks, left, asked, strict=True)
    ]
    edges: list[_Open] = []
    for pair in related.pairs:
        a, b = (pair[side] for side in sides)
        edges.append(_Open(Kind.EQUAL, "", (_above(a, left[0]), _above(b, left[1])), Asked(chains[0][a], chains[1][b])))
    for one, op, other in related.ordered:
        a, b = ((one, other)[side] for side in sides)
        said = op if older == LEFT else MIRRORED[op]
        nodes = _above(a, left[0]), _above(b, left[1])
        edges.append(_Open(Kind.ORDERED, said, nodes, Asked(chains[0][a], chains[1][b])))
    for condition in related.conditions:
        newer = condition.side == sides[1]
        way = _above(condition.node, left[newer])
        nodes = ([], way) if newer else (way, [])
        chain = chains[newer][condition.node]
        made = Asked(None, chain, condition.value) if newer else Asked(chain, None, condition.value)
        edges.append(
            _Open(_kind_of(condition.op, condition.value, newer), _op_of(condition.op, condition.value), nodes, made)
        )
    shown = [kept(pair[side] for pair in related.pairs) for side in sides]
    template, order = _canonical(edges, shown, strict)
    numbers = _numbered([edges[i] for i in order])[1]
    places = tuple(
        tuple(slots.index(known[node]) for node in nodes)
        for nodes, known, slots in zip(shown, numbers, template.shown, strict=True)
    )
    names = []
    for told, block in zip(shown, blocks, strict=True):
        assert isinstance(block.tree.root, tp.TreeNode)
        names.append(tuple(step_at(block.tree.root, node).returns for node in told))
    return Row(
        template,
        tuple(edges[i].asked for i in order),
        related.window,
        older == RIGHT,
        (places[0], places[1]),
        (names[0], names[1]),
    )


def _kind_of(op: Comparator, value: tp.Constant, newer: bool) -> Kind:
    if op == "=" and isinstance(value, str):
        return Kind.NEWER_IS if newer else Kind.OLDER_IS
    if op == "contains":
        return Kind.NEWER_CONTAINS if newer else Kind.OLDER_CONTAINS
    return Kind.NEWER_RANGE if newer else Kind.OLDER_RANGE


def _op_of(op: Comparator, value: tp.Constant) -> str:
    """With a text things compare as texts, with a number as numbers: two kinds of the same sign."""
    if op == "contains" or (op == "=" and isinstance(value, str)):
        return ""
    return f"{op} text" if isinstance(value, str) else op


def _canonical(
    edges: Sequence[_Open], shown: Sequence[Sequence[Hashable]], strict: bool
) -> tuple[Template, tuple[int, ...]]:
    """The smallest of the templates that an order of the edges gives, and the first order that gives it.

    Edges are sorted before by what they ask, so subscriptions that ask the same have the same order, and how many orders
    there are is only looked at once for each shape of a graph.
    """
    given = sorted(range(len(edges)), key=lambda i: (edges[i].kind, edges[i].op, _sorted_by(edges[i].asked)))
    made, numbers = _numbered([edges[i] for i in given])
    told = tuple(tuple(sorted(known[one] for one in nodes)) for nodes, known in zip(shown, numbers, strict=True))
    template, order = _smallest(Template(made, strict, (told[0], told[1])))
    return template, tuple(given[i] for i in order)


@lru_cache(maxsize=1 << 14)
def _smallest(template: Template) -> tuple[Template, tuple[int, ...]]:
    by_kind: dict[tuple[Kind, str], list[int]] = {}
    for i, edge in enumerate(template.edges):
        by_kind.setdefault((edge.kind, edge.op), []).append(i)
    classes = [by_kind[kind] for kind in sorted(by_kind)]
    orders: Iterable[tuple[tuple[int, ...], ...]] = [tuple(tuple(each) for each in classes)]
    if prod(factorial(len(each)) for each in classes) <= MAX_ORDERS:
        orders = product(*(permutations(each) for each in classes))
    found = ((tuple(i for part in parts for i in part)) for parts in orders)
    return min(((_reordered(template, order), order) for order in found), key=lambda one: one)


def _reordered(template: Template, order: Sequence[int]) -> Template:
    """A template with its edges in another order, and its nodes numbered as they come then."""
    numbers: tuple[dict[int, int], dict[int, int]] = ({}, {})
    edges = []
    for i in order:
        edge = template.edges[i]
        older, newer = (
            tuple(known.setdefault(slot, len(known)) for slot in chain)
            for chain, known in zip((edge.older, edge.newer), numbers, strict=True)
        )
        edges.append(Edge(edge.kind, older, newer, edge.op))
    told = [tuple(sorted(known[slot] for slot in nodes)) for nodes, known in zip(template.shown, numbers, strict=True)]
    return Template(tuple(edges), template.strict, (told[0], told[1]))


def _sorted_by(asked: Asked) -> tuple[str, ...]:
    chains = ((one.stream, one.tree) if one else ("", "") for one in (asked.older, asked.newer))
    return (*(text for pair in chains for text in pair), str(asked.value))


def joins_of(template: Template) -> tuple[Edge, ...]:
    """The template as the paper has it: equalities between documents, and no node that is there for a constant only."""
    older, newer = template.shown
    return canonical_edges(
        ([slot for slot in edge.older if slot in older], [slot for slot in edge.newer if slot in newer])
        for edge in template.edges
        if edge.kind is Kind.EQUAL
    )


def canonical_edges(chains: Iterable[tuple[Sequence[Hashable], Sequence[Hashable]]]) -> tuple[Edge, ...]:
    """The edges that all graphs share which differ only in what their nodes are, of equalities between chains of nodes."""
    return _canonical([_Open(Kind.EQUAL, "", each, Asked()) for each in chains], ((), ()), False)[0].edges


def _numbered(edges: Sequence[_Open]) -> tuple[tuple[Edge, ...], tuple[dict[Hashable, int], dict[Hashable, int]]]:
    """The edges in an order, nodes numbered as they come; and the numbers."""
    numbers: tuple[dict[Hashable, int], dict[Hashable, int]] = ({}, {})
    made = []
    for edge in edges:
        slots = [
            tuple(known.setdefault(one, len(known)) for one in chain)
            for chain, known in zip(edge.chains, numbers, strict=True)
        ]
        made.append(Edge(edge.kind, slots[0], slots[1], edge.op))
    return tuple(made), numbers


def _above(node: Node, left: Sequence[Node]) -> list[Node]:
    """The nodes that count on the way to one, and itself, from above."""
    return [one for one in left if node[: len(one)] == one]


def _chain(block: Block, node: Node, left: Sequence[Node]) -> Chain:
    names = {one: f"n{i}" for i, one in enumerate(_above(node, left))}
    assert isinstance(block.tree.root, tp.TreeNode)
    root = _narrowed(block.tree.root, (), node, left, names)
    return Chain(block.stream, tp.print_tree(tp.TreePattern(root)), len(names))


def _narrowed(step: tp.TreeNode, here: Node, node: Node, left: Sequence[Node], names: dict[Node, str]) -> tp.TreeNode:
    """A step on the way to a node: other ways to nodes that count are left to their own chains."""
    on_way = node[len(here)] if len(here) < len(node) else None
    predicates = tuple(
        _nameless(one)
        for number, one in enumerate(step.predicates)
        if number != on_way and not any(other[: len(here) + 1] == (*here, number) for other in left)
    )
    after: tp.TreeNode | None = None
    if on_way is not None:
        inner = step.next if on_way < 0 else step.predicates[on_way].expr  # type: ignore[union-attr]
        assert isinstance(inner, tp.TreeNode)
        after = _narrowed(inner, (*here, on_way), node, left, names)
    if step.next is not None and on_way != -1 and not any(other[: len(here) + 1] == (*here, -1) for other in left):
        # The rest of the path only has to be there.
        predicates = (*predicates, tp.Exists(_nameless_node(step.next)))
    siblings = None if step.siblings is None else _nameless_expr(step.siblings)
    return replace(step, returns=names.get(here), predicates=predicates, siblings=siblings, next=after, span=None)


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
