"""Reference semantics of subscriptions: every subscription, every pair of documents, every choice of nodes.

This is the specification of XSCL queries (Hong et al. 2007), as ``oracle`` is that of sequences: short, slow, simple.
``FOLLOWED BY`` requires 0 < t2 - t1 <= T; ``JOIN`` requires |t2 - t1| <= T in either order, equal times included. A
document is never joined with itself, matches consume nothing, and documents are related only by their values.

A notification is identified by the nodes in equalities and their lowest common ancestors: the paper's RoutT. The rest
of a block only needs to match in some way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from perseid.lang import tree_patterns as tp
from perseid.lang.subscriptions import Block, Subscription, TemporalRelation
from perseid.semantics.documents import Element, Found, XmlAttribute, node_numbers
from perseid.semantics.subscription_nodes import compare_numbers, holds, names_at, root_of, variables_in_runs
from perseid.semantics.subscriptions import (
    LEFT,
    RIGHT,
    Node,
    Related,
    below,
    normal_forms,
    reduced_nodes,
    step_at,
    steps_of,
)
from perseid.semantics.trees import DocumentEvaluation, TreeLocation, known_prefixes
from perseid.semantics.writing import result_of

Embedding: TypeAlias = Mapping[Node, Found]


@dataclass(frozen=True, eq=False)
class Document:
    """A document of a stream, compared by identity."""

    id: int
    time: int
    stream: str
    root: Element


@dataclass(frozen=True)
class Notification:
    """A pair of documents that matches a subscription."""

    subscription: str
    left: int
    right: int
    nodes: tuple[tuple[int, ...], tuple[int, ...]]
    """Nodes of the left and of the right document, by :func:`node_numbers`, each in the order of the block's steps.

    Variables and alternatives are not part of the identity: several alternatives of an OR that match the same nodes are
    one notification.
    """


def notifications(
    subscriptions: Mapping[str, Subscription],
    documents: Sequence[Document],
    namespaces: Mapping[str, str] | None = None,
) -> set[Notification]:
    """Return all notifications."""
    found: set[Notification] = set()
    for name, subscription in subscriptions.items():
        for related in normal_forms(subscription):
            compared = [related.compared_nodes(side) for side in (LEFT, RIGHT)]
            found |= {one for one, _ in _of_one(name, related, compared, documents, namespaces or {})}
    return found


def results(
    subscriptions: Mapping[str, Subscription],
    documents: Sequence[Document],
    namespaces: Mapping[str, str] | None = None,
) -> dict[Notification, str]:
    """Return all notifications with their SELECT output.

    A variable has every node that it binds in some embedding of the blocks with this notification.
    """
    output: dict[Notification, str] = {}
    for name, subscription in subscriptions.items():
        found: dict[Notification, dict[str, set[Found]]] = {}
        for related in normal_forms(subscription):
            steps = [{node for node, _ in steps_of(root_of(block))} for block in related.blocks]
            for one, embeddings in _of_one(name, related, steps, documents, namespaces or {}):
                for side, embedding in enumerate(embeddings):
                    for variable, node in _named(related.blocks[side], side, embedding, namespaces or {}):
                        found.setdefault(one, {}).setdefault(variable, set()).add(node)
        for one, nodes in found.items():
            order: dict[Found, int] = {}
            for document in documents:
                if document.id in (one.left, one.right):
                    order |= node_numbers(document.root)
            sorted_nodes = {variable: sorted(some, key=order.__getitem__) for variable, some in nodes.items()}
            output[one] = result_of(subscription.select, sorted_nodes)
    return output


def _of_one(
    name: str,
    related: Related,
    compared: Sequence[set[Node]],
    documents: Sequence[Document],
    namespaces: Mapping[str, str],
) -> Iterator[tuple[Notification, tuple[Embedding, Embedding]]]:
    embeddings = [
        [list(_embeddings(block, one, related, side, compared[side], namespaces)) for one in documents]
        for side, block in enumerate(related.blocks)
    ]
    node_lists = [reduced_nodes(pair[side] for pair in related.pairs) for side in (LEFT, RIGHT)]
    numbered = [node_numbers(one.root) for one in documents]
    for (i, left), (j, right) in product(enumerate(documents), repeat=2):
        if i == j or not in_time(related, left.time, right.time):
            continue
        for one, other in product(embeddings[LEFT][i], embeddings[RIGHT][j]):
            if all(one[a].text == other[b].text for a, b in related.pairs) and all(
                compare_numbers(one[a].text, op, other[b].text) for a, op, b in related.ordered
            ):
                nodes = (
                    tuple(numbered[i][one[n]] for n in node_lists[LEFT]),
                    tuple(numbered[j][other[n]] for n in node_lists[RIGHT]),
                )
                yield Notification(name, left.id, right.id, nodes), (one, other)


def in_time(related: Related, left: int, right: int) -> bool:
    """Return True if the times of two documents satisfy the subscription."""
    apart = right - left
    if related.relation is TemporalRelation.JOIN:
        apart = abs(apart)
    elif apart <= 0:
        return False
    return related.window is None or apart <= related.window


def _named(block: Block, side: int, embedding: Embedding, namespaces: Mapping[str, str]) -> Iterator[tuple[str, Found]]:
    """Yield every variable of an embedded block, with its nodes."""
    for node, found in embedding.items():
        yield from ((name, found) for name in names_at(block, side, node))
        if isinstance(found, Element):
            evaluation = DocumentEvaluation(found, known_prefixes(block.tree, namespaces), block.tree)
            yield from variables_in_runs(evaluation, step_at(root_of(block), node), found)


def _embeddings(
    block: Block,
    document: Document,
    related: Related,
    side: int,
    compared: set[Node],
    namespaces: Mapping[str, str],
) -> Iterable[Embedding]:
    """Yield every embedding of the block's nodes in a document that satisfies the conditions on constants."""
    if document.stream != block.stream:
        return
    known = known_prefixes(block.tree, namespaces)
    evaluation = DocumentEvaluation(document.root, known, block.tree)
    conditions = [one for one in related.conditions if one.side == side]
    for found in _below(evaluation, root_of(block), (), TreeLocation((document.root,)), compared):
        if all(holds(one.op, one.value, found[one.node].text) for one in conditions):
            yield found


def _below(
    evaluation: DocumentEvaluation, step: tp.TreeNode, node: Node, place: TreeLocation, compared: set[Node]
) -> Iterator[dict[Node, Found]]:
    """Yield every embedding of a step, and of the queried nodes below it, at a place."""
    branches = {child: one for child, one in below(node, step) if any(a[: len(child)] == child for a in compared)}
    # Nodes that no comparison uses only need to exist.
    demands = [one for number, one in enumerate(step.predicates) if (*node, number) not in branches]
    demanded = tp.TreeNode(
        step.axis, step.test, step.is_attribute, None, (), step.siblings, None if (*node, -1) in branches else step.next
    )
    for found in evaluation.candidates(step, place):
        if isinstance(found, XmlAttribute):
            yield {node: found}
            continue
        if evaluation.node(demanded, found, None) is None:
            continue
        if any(evaluation.predicate(one, step, found) is None for one in demands):
            continue
        inner = [
            list(_below(evaluation, one, child, TreeLocation.below(found), compared)) for child, one in branches.items()
        ]
        for chosen in product(*inner):
            yield {node: found, **{k: v for part in chosen for k, v in part.items()}}
