"""Nodes of subscription blocks: value comparison, names, and variables in sibling expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping

from perseid.lang import tree_patterns as tp
from perseid.lang.subscriptions import Block, Comparator
from perseid.semantics.documents import Element, Found
from perseid.semantics.subscriptions import Node, step_at
from perseid.semantics.trees import DocumentEvaluation, Result, Returned, TreeLocation, compares, number_of
from perseid.semantics.writing import BLOCKS

_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare_numbers(one: str, op: Comparator, other: str) -> bool:
    """Compare two texts as numbers."""
    return _ORDERS[op](number_of(one), number_of(other))


def holds(op: Comparator, value: tp.Constant, text: str) -> bool:
    """Compare a text with a constant."""
    return str(value) in text if op == "contains" else compares(op, value)(text)


def root_of(block: Block) -> tp.TreeNode:
    """The first step of a block."""
    assert isinstance(block.tree.root, tp.TreeNode)
    return block.tree.root


def names_at(block: Block, side: int, node: Node) -> Iterator[str]:
    """Yield the names of the nodes at a step: its variable, and the block's own name at the end of its path."""
    step = step_at(root_of(block), node)
    if step.returns is not None:
        yield step.returns
    if step.next is None and all(number < 0 for number in node):
        yield BLOCKS[side]


def variables_in_runs(reading: DocumentEvaluation, step: tp.TreeNode, node: Found) -> Iterator[tuple[str, Found]]:
    """Yield the variables returned by sibling expressions below a step, with their nodes."""
    if not isinstance(node, Element):
        return
    exprs = [
        one.expr for one in step.predicates if isinstance(one, tp.Exists) and not isinstance(one.expr, tp.TreeNode)
    ]
    stack: list[Result] = []
    for expr in (*exprs, *(() if step.siblings is None else (step.siblings,))):
        stack += reading.runs(expr, TreeLocation.below(node)) or ()
    while stack:
        one = stack.pop()
        stack += one.inner
        if isinstance(one, Returned):
            yield one.name, one.node
