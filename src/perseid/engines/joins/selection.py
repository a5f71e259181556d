"""Variable bindings and SELECT result of one notification, without enumerating all embeddings of its blocks.

The oracle (``reference.subscriptions.results``) enumerates all choices of nodes. Here each pair of step and node is
tested once: a block is a tree, so the steps below a step depend on each other only through the node of that step. Only
order comparisons relate nodes of the two documents outside the notification; combinations of these are enumerated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import product
from typing import TypeAlias

from perseid.lang import tree_patterns as tp
from perseid.lang.subscriptions import Comparator, Subscription
from perseid.semantics.documents import Element, Found, node_numbers
from perseid.semantics.subscription_nodes import compare_numbers, holds, names_at, root_of, variables_in_runs
from perseid.semantics.subscriptions import LEFT, RIGHT, Node, Related, below, normal_forms, reduced_nodes
from perseid.semantics.trees import DocumentEvaluation, TreeLocation, known_prefixes
from perseid.semantics.writing import result_of

Restrictions: TypeAlias = Mapping[Node, AbstractSet[Found]]
"""By step: the nodes to which it is restricted."""


def built(
    subscription: Subscription,
    left: Element,
    right: Element,
    nodes: tuple[Sequence[int], Sequence[int]],
    namespaces: Mapping[str, str] | None = None,
) -> str:
    """Construct the XML of SELECT for a pair of documents and a notification's nodes, as ``joins`` numbers them."""
    return result_of(subscription.select, bound(subscription, left, right, nodes, namespaces))


def bound(
    subscription: Subscription,
    left: Element,
    right: Element,
    nodes: tuple[Sequence[int], Sequence[int]],
    namespaces: Mapping[str, str] | None = None,
) -> dict[str, list[Found]]:
    """By variable: all nodes that it can bind to, in document order."""
    roots = (left, right)
    numbered = [node_numbers(root) for root in roots]
    named = [{number: node for node, number in nodes_of_variable.items()} for nodes_of_variable in numbered]
    found: tuple[dict[str, set[Found]], dict[str, set[Found]]] = ({}, {})
    for related in _normal_forms(subscription):
        shown = [reduced_nodes(pair[side] for pair in related.pairs) for side in (LEFT, RIGHT)]
        if any(len(shown[side]) != len(nodes[side]) for side in (LEFT, RIGHT)):
            continue
        shown_nodes = [[named[side].get(one) for one in nodes[side]] for side in (LEFT, RIGHT)]
        restrictions = [
            {step: {one} for step, one in zip(shown[side], shown_nodes[side], strict=True) if one is not None}
            for side in (LEFT, RIGHT)
        ]
        if all(len(restrictions[side]) == len(shown[side]) for side in (LEFT, RIGHT)):
            _gather(found, related, roots, restrictions, namespaces or {})
    return {
        name: sorted(nodes_of_variable, key=numbered[side].__getitem__)
        for side in (LEFT, RIGHT)
        for name, nodes_of_variable in found[side].items()
    }


@lru_cache(maxsize=1 << 10)
def _normal_forms(subscription: Subscription) -> tuple[Related, ...]:
    return normal_forms(subscription)


def _gather(
    found: Sequence[dict[str, set[Found]]],
    related: Related,
    roots: Sequence[Element],
    restrictions: Sequence[Restrictions],
    namespaces: Mapping[str, str],
) -> None:
    """Add the variable bindings of one normal form of a subscription."""
    if any(_only(restrictions[LEFT][a]).text != _only(restrictions[RIGHT][b]).text for a, b in related.pairs):
        return
    embeddings = [_Embeddings(related, side, roots[side], namespaces) for side in (LEFT, RIGHT)]
    choices = _in_order(related, embeddings, restrictions) if related.ordered else [[{}], [{}]]
    bindings = [
        [embeddings[side].variables({**restrictions[side], **choice}) for choice in choices[side]]
        for side in (LEFT, RIGHT)
    ]
    if not all(any(binding) for binding in bindings):
        return  # every embedded block binds a variable at the end of its path
    for side in (LEFT, RIGHT):
        for binding in bindings[side]:
            for name, bound_nodes in binding.items():
                found[side].setdefault(name, set()).update(bound_nodes)


def _only(nodes: AbstractSet[Found]) -> Found:
    (node,) = nodes
    return node


def _in_order(
    related: Related, embeddings: Sequence[_Embeddings], restrictions: Sequence[Restrictions]
) -> Sequence[Sequence[Restrictions]]:
    """By block: the restrictions of its compared nodes that satisfy all order comparisons with nodes of the other block."""
    compared = [sorted({pair[side] for pair in _ends(related)}) for side in (LEFT, RIGHT)]
    combinations: list[list[dict[Node, Found]]] = []
    for side in (LEFT, RIGHT):
        can_be = embeddings[side].steps(restrictions[side])
        choices = product(*(can_be.get(node, ()) for node in compared[side]))
        candidates = [dict(zip(compared[side], way, strict=True)) for way in choices]
        if len(compared[side]) > 1:
            candidates = [
                way for way in candidates if embeddings[side].steps({**restrictions[side], **_singletons(way)})
            ]
        combinations.append(candidates)
    satisfying: list[dict[int, None]] = [{}, {}]
    for (i, one), (j, other) in product(enumerate(combinations[LEFT]), enumerate(combinations[RIGHT])):
        if all(compare_numbers(one[a].text, op, other[b].text) for a, op, b in related.ordered):
            satisfying[LEFT][i] = satisfying[RIGHT][j] = None
    found: list[list[Restrictions]] = []
    for side in (LEFT, RIGHT):
        chosen = [combinations[side][i] for i in satisfying[side]]
        if len(compared[side]) == 1 and chosen:  # a single step can be any of them
            found.append([{compared[side][0]: {way[compared[side][0]] for way in chosen}}])
        else:
            found.append([_singletons(way) for way in chosen])
    return found


def _ends(related: Related) -> list[tuple[Node, Node]]:
    return [(a, b) for a, _, b in related.ordered]


def _singletons(way: Mapping[Node, Found]) -> dict[Node, AbstractSet[Found]]:
    return {node: {one} for node, one in way.items()}


class _Embeddings:
    """The embeddings of a block in a document."""

    def __init__(self, related: Related, side: int, root: Element, namespaces: Mapping[str, str]) -> None:
        self.block, self.side = related.blocks[side], side
        self.root = root_of(self.block)
        self.reading = DocumentEvaluation(root, known_prefixes(self.block.tree, namespaces), self.block.tree)
        self.conditions: dict[Node, list[tuple[Comparator, tp.Constant]]] = {}
        for candidate in related.conditions:
            if candidate.side == side:
                self.conditions.setdefault(candidate.node, []).append((candidate.op, candidate.value))
        self._restrictions: Restrictions = {}
        self._memo: dict[tuple[Node, Found], bool] = {}

    def steps(self, restrictions: Restrictions) -> dict[Node, dict[Found, tp.TreeNode]]:
        """By step: the nodes it can match under the restrictions; empty if the block has no such embedding."""
        self._restrictions, self._memo = restrictions, {}
        found: dict[Node, dict[Found, tp.TreeNode]] = {}
        pending: list[tuple[Node, tp.TreeNode, TreeLocation]] = [((), self.root, TreeLocation((self.reading.root,)))]
        while pending:
            node, step, location = pending.pop()
            matched = found.setdefault(node, {})
            for candidate in self.reading.candidates(step, location):
                if candidate in matched or not self._can_be(node, step, candidate):
                    continue
                matched[candidate] = step
                if isinstance(candidate, Element):
                    pending += [(child, inner, TreeLocation.below(candidate)) for child, inner in below(node, step)]
        return found if found[()] else {}

    def variables(self, restrictions: Restrictions) -> dict[str, set[Found]]:
        """By variable: the nodes that it can bind to."""
        found: dict[str, set[Found]] = {}
        for node, nodes in self.steps(restrictions).items():
            for name in names_at(self.block, self.side, node):
                found.setdefault(name, set()).update(nodes)
            for candidate, step in nodes.items():
                for name, inner in variables_in_runs(self.reading, step, candidate):
                    found.setdefault(name, set()).add(inner)
        return found

    def _can_be(self, node: Node, step: tp.TreeNode, candidate: Found) -> bool:
        """Return True if a step can match a node that passes its node test, with all conditions below it; memoized."""
        result = self._memo.get((node, candidate))
        if result is None:
            result = self._memo[node, candidate] = self._matches(node, step, candidate)
        return result

    def _matches(self, node: Node, step: tp.TreeNode, candidate: Found) -> bool:
        if node in self._restrictions and candidate not in self._restrictions[node]:
            return False
        if not all(holds(op, value, candidate.text) for op, value in self.conditions.get(node, ())):
            return False
        if not isinstance(candidate, Element):
            return True
        branches = dict(below(node, step))
        for number, predicate in enumerate(step.predicates):
            if (*node, number) not in branches and self.reading.predicate(predicate, step, candidate) is None:
                return False
        location = TreeLocation.below(candidate)
        if step.siblings is not None and self.reading.runs(step.siblings, location) is None:
            return False
        return all(
            any(self._can_be(child, inner, descendant) for descendant in self.reading.candidates(inner, location))
            for child, inner in branches.items()
        )
