"""Convert subscriptions to value-join normal form: comparisons of nodes only, each a step of its block's tree.

Three rewrites do this (Hong et al. 2007, Section 2): a predicate with ``OR`` becomes several alternatives; a path after
a variable becomes a new node of the block; and a comparison inside a block, ``[/price < 10]``, becomes a condition on
the node at the end of its path, so that subscriptions with different constants have the same structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TypeAlias

from perseid.errors import LimitError, UnsupportedError
from perseid.lang import tree_patterns as tp
from perseid.lang.subscriptions import (
    MIRRORED,
    AllOf,
    Block,
    Comparator,
    Compared,
    Operand,
    Pairing,
    Predicate,
    Subscription,
    TemporalRelation,
    print_predicate,
)

MAX_ALTERNATIVES = 64
LEFT, RIGHT = 0, 1
Node: TypeAlias = tuple[int, ...]
"""A step of a block as a path from the root: predicate indices, and -1 for the next step of a path."""


@dataclass(frozen=True)
class NodeCondition:
    """A comparison of a node of one block with a constant."""

    side: int
    node: Node
    op: Comparator
    value: tp.Constant


@dataclass(frozen=True)
class Related:
    """Two blocks and the predicate between them."""

    relation: TemporalRelation
    blocks: tuple[Block, Block]
    pairs: tuple[tuple[Node, Node], ...]
    """Nodes of the left and of the right block with equal string values."""
    ordered: tuple[tuple[Node, Comparator, Node], ...]
    """Nodes with string values that satisfy the comparison as numbers."""
    conditions: tuple[NodeCondition, ...]
    window: int | None

    def compared_nodes(self, side: int) -> set[Node]:
        """Return the nodes of a block that occur in a comparison."""
        ordered = {(one, other)[side] for one, _, other in self.ordered}
        return {pair[side] for pair in self.pairs} | ordered | {one.node for one in self.conditions if one.side == side}


def normal_forms(subscription: Subscription) -> tuple[Related, ...]:
    """Return the alternatives of a subscription; a pair of documents matches if any of them holds."""
    source = subscription.source
    return tuple(dict.fromkeys(_normal(source, each) for each in _alternatives(source.predicate)))


def _alternatives(predicate: Predicate) -> list[tuple[Compared, ...]]:
    """Return the predicate in disjunctive normal form: alternatives, each a conjunction of comparisons."""
    if isinstance(predicate, Compared):
        return [(predicate,)]
    if isinstance(predicate, AllOf):
        parts = [_alternatives(part) for part in predicate.parts]
        count = 1
        for part in parts:
            count *= len(part)
        _require_node_limit(count, predicate)
        return [tuple(dict.fromkeys(c for part in chosen for c in part)) for chosen in product(*parts)]
    found = [each for part in predicate.parts for each in _alternatives(part)]
    _require_node_limit(len(found), predicate)
    return found


def _require_node_limit(count: int, predicate: Predicate) -> None:
    if count > MAX_ALTERNATIVES:
        raise LimitError(
            f"The predicate has {count:,} alternatives; the limit is {MAX_ALTERNATIVES}.",
            hint=f"Split it into several subscriptions: {print_predicate(predicate)[:80]}",
        )


def _normal(source: Pairing, comparisons: Iterable[Compared]) -> Related:
    trees = [_Tree(source.left), _Tree(source.right)]
    pairs: list[tuple[Node, Node]] = []
    ordered: list[tuple[Node, Comparator, Node]] = []
    conditions: list[NodeCondition] = []
    for one in comparisons:
        side, node = _place(trees, one.left)
        if not isinstance(one.right, Operand):
            conditions.append(NodeCondition(side, node, one.op, one.right))
            continue
        other, other_node = _place(trees, one.right)
        if side == other:
            raise UnsupportedError(
                f"{print_predicate(one)} compares two nodes of one document.",
                hint="Compare a node of the left block with one of the right block, or with a constant.",
            )
        op = one.op
        if side == RIGHT:
            node, other_node, op = other_node, node, MIRRORED[op]
        if op == "=":
            pairs.append((node, other_node))
        elif op == "!=":
            raise UnsupportedError(
                "!= between nodes of two documents is unsupported: nearly all pairs differ.",
                hint="Use = for the values in common; add <, <=, > and >= if needed.",
            )
        else:
            ordered.append((node, op, other_node))
    for side, tree in enumerate(trees):
        conditions += [NodeCondition(side, node, op, value) for node, op, value in tree.lifted]
    if not pairs:
        raise UnsupportedError(
            "A subscription needs at least one equality between nodes of the two documents; without one, every "
            "document is compared with every other.",
            hint="Add an equality: {a = c AND b < d, 1 day}.",
        )
    blocks = (trees[LEFT].block(), trees[RIGHT].block())
    unique = tuple(dict.fromkeys(pairs)), tuple(dict.fromkeys(ordered)), tuple(dict.fromkeys(conditions))
    return Related(source.relation, blocks, *unique, source.window)


def _place(trees: list[_Tree], operand: Operand) -> tuple[int, Node]:
    for side, tree in enumerate(trees):
        if operand.variable in tree.places:
            return side, tree.place(operand)
    raise AssertionError("names are checked when a subscription is read")


class _Tree:
    """A block during the rewrite: paths are added to it, and comparisons moved out of it."""

    def __init__(self, block: Block) -> None:
        self.source = block
        self.lifted: list[tuple[Node, Comparator, tp.Constant]] = []
        self.added: dict[tuple[Node, tp.TreeNode], Node] = {}
        assert isinstance(block.tree.root, tp.TreeNode)
        self.root = self._lift(block.tree.root, ())
        self.places: dict[str, Node | None] = dict.fromkeys(block.variables)
        for node, step in steps_of(self.root):
            if step.returns is not None:
                self.places[step.returns] = node

    def _lift(self, step: tp.TreeNode, location: Node) -> tp.TreeNode:
        """Replace comparisons with constants by existence tests and record them; sibling expressions are unchanged."""
        predicates: list[tp.TreePredicate] = []
        for one in step.predicates:
            if isinstance(one, tp.Comparison) and one.path is None:
                self.lifted.append((location, one.op, one.value))
            elif isinstance(one, tp.Comparison) and one.path is not None:
                inner = (*location, len(predicates))
                path = self._lift(one.path, inner)
                self.lifted.append((_last(path, inner), one.op, one.value))
                predicates.append(tp.Exists(path))
            elif isinstance(one, tp.Exists) and isinstance(one.expr, tp.TreeNode):
                predicates.append(tp.Exists(self._lift(one.expr, (*location, len(predicates)))))
            else:
                predicates.append(one)
        after = None if step.next is None else self._lift(step.next, (*location, -1))
        return replace(step, predicates=tuple(predicates), next=after)

    def place(self, operand: Operand) -> Node:
        node = self.places[operand.variable]
        if node is None:
            raise UnsupportedError(
                f"{operand.variable!r} is in a run of siblings, which can contain any number of such nodes.",
                hint="Name a node in a path or in brackets: //item->i[/title->t].",
            )
        if operand.path is None:
            return node
        # Equal paths of the predicate share one node. A bracket of the block is separate, as it may compare its node.
        if (node, operand.path) not in self.added:
            location = (*node, len(step_at(self.root, node).predicates))
            self.root = _with_predicate(self.root, node, tp.Exists(operand.path))
            self.added[node, operand.path] = _last(operand.path, location)
        return self.added[node, operand.path]

    def block(self) -> Block:
        return replace(self.source, tree=tp.TreePattern(self.root))


def steps_of(root: tp.TreeNode) -> Iterator[tuple[Node, tp.TreeNode]]:
    """Yield the steps of a block in paths and brackets, parents first."""
    stack: list[tuple[Node, tp.TreeNode]] = [((), root)]
    while stack:
        node, step = stack.pop()
        yield node, step
        stack.extend(reversed(list(below(node, step))))


def below(node: Node, step: tp.TreeNode) -> Iterator[tuple[Node, tp.TreeNode]]:
    """Yield the steps directly below a step."""
    for number, one in enumerate(step.predicates):
        if isinstance(one, tp.Exists) and isinstance(one.expr, tp.TreeNode):
            yield (*node, number), one.expr
    if step.next is not None:
        yield (*node, -1), step.next


def step_at(root: tp.TreeNode, node: Node) -> tp.TreeNode:
    """Return the step at a path."""
    step = root
    for number in node:
        if number < 0:
            assert step.next is not None
            step = step.next
        else:
            one = step.predicates[number]
            assert isinstance(one, tp.Exists)
            assert isinstance(one.expr, tp.TreeNode)
            step = one.expr
    return step


def _with_predicate(step: tp.TreeNode, node: Node, added: tp.TreePredicate) -> tp.TreeNode:
    if not node:
        return replace(step, predicates=(*step.predicates, added))
    number, *rest = node
    if number < 0:
        assert step.next is not None
        return replace(step, next=_with_predicate(step.next, tuple(rest), added))
    one = step.predicates[number]
    assert isinstance(one, tp.Exists)
    assert isinstance(one.expr, tp.TreeNode)
    changed = tp.Exists(_with_predicate(one.expr, tuple(rest), added))
    return replace(step, predicates=(*step.predicates[:number], changed, *step.predicates[number + 1 :]))


def _last(path: tp.TreeNode, node: Node) -> Node:
    """Return the node at the end of a path."""
    while path.next is not None:
        path, node = path.next, (*node, -1)
    return node


def reduced_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes of the reduced tree: the given nodes and their lowest common ancestors.

    This reduces a join graph to its minor (Hong et al. 2007, Section 4.2): unused leaves, the steps above the lowest
    common ancestor, and steps with a single child are removed.
    """
    ordered = sorted(set(nodes))
    found = set(ordered)
    for one, other in pairwise(ordered):
        found.add(common(one, other))
    return tuple(sorted(found))


def common(one: Node, other: Node) -> Node:
    """Return the lowest common ancestor, which may be one of the two."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return one[:length]
