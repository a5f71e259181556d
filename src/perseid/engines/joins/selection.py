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

Given: TypeAlias = Mapping[Node, AbstractSet[Found]]
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
    named = [{number: node for node, number in some.items()} for some in numbered]
    found: tuple[dict[str, set[Found]], dict[str, set[Found]]] = ({}, {})
    for related in _normal_forms(subscription):
        shown = [reduced_nodes(pair[side] for pair in related.pairs) for side in (LEFT, RIGHT)]
        if any(len(shown[side]) != len(nodes[side]) for side in (LEFT, RIGHT)):
            continue
        there = [[named[side].get(one) for one in nodes[side]] for side in (LEFT, RIGHT)]
        given = [
            {step: {one} for step, one in zip(shown[side], there[side], strict=True) if one is not None}
            for side in (LEFT, RIGHT)
        ]
        if all(len(given[side]) == len(shown[side]) for side in (LEFT, RIGHT)):
            _gather(found, related, roots, given, namespaces or {})
    return {
        name: sorted(some, key=numbered[side].__getitem__)
        for side in (LEFT, RIGHT)
        for name, some in found[side].items()
    }


@lru_cache(maxsize=1 << 10)
def _normal_forms(subscription: Subscription) -> tuple[Related, ...]:
    return normal_forms(subscription)


def _gather(
    found: Sequence[dict[str, set[Found]]],
    related: Related,
    roots: Sequence[Element],
    given: Sequence[Given],
    namespaces: Mapping[str, str],
) -> None:
    """Add the variable bindings of one normal form of a subscription."""
    if any(_only(given[LEFT][a]).text != _only(given[RIGHT][b]).text for a, b in related.pairs):
        return
    lying = [_Lying(related, side, roots[side], namespaces) for side in (LEFT, RIGHT)]
    choices = _in_order(related, lying, given) if related.ordered else [[{}], [{}]]
    made = [[lying[side].variables({**given[side], **choice}) for choice in choices[side]] for side in (LEFT, RIGHT)]
    if not all(any(each) for each in made):
        return  # every embedded block binds a variable at the end of its path
    for side in (LEFT, RIGHT):
        for each in made[side]:
            for name, some in each.items():
                found[side].setdefault(name, set()).update(some)


def _only(nodes: AbstractSet[Found]) -> Found:
    (node,) = nodes
    return node


def _in_order(related: Related, lying: Sequence[_Lying], given: Sequence[Given]) -> Sequence[Sequence[Given]]:
    """By block: the restrictions of its compared nodes that satisfy all order comparisons with nodes of the other block."""
    asked = [sorted({pair[side] for pair in _ends(related)}) for side in (LEFT, RIGHT)]
    ways: list[list[dict[Node, Found]]] = []
    for side in (LEFT, RIGHT):
        can_be = lying[side].steps(given[side])
        each = product(*(can_be.get(node, ()) for node in asked[side]))
        some = [dict(zip(asked[side], way, strict=True)) for way in each]
        if len(asked[side]) > 1:
            some = [way for way in some if lying[side].steps({**given[side], **_one_each(way)})]
        ways.append(some)
    good: list[dict[int, None]] = [{}, {}]
    for (i, one), (j, other) in product(enumerate(ways[LEFT]), enumerate(ways[RIGHT])):
        if all(compare_numbers(one[a].text, op, other[b].text) for a, op, b in related.ordered):
            good[LEFT][i] = good[RIGHT][j] = None
    found: list[list[Given]] = []
    for side in (LEFT, RIGHT):
        chosen = [ways[side][i] for i in good[side]]
        if len(asked[side]) == 1 and chosen:  # a single step can be any of them
            found.append([{asked[side][0]: {way[asked[side][0]] for way in chosen}}])
        else:
            found.append([_one_each(way) for way in chosen])
    return found


def _ends(related: Related) -> list[tuple[Node, Node]]:
    return [(a, b) for a, _, b in related.ordered]


def _one_each(way: Mapping[Node, Found]) -> dict[Node, AbstractSet[Found]]:
    return {node: {one} for node, one in way.items()}


class _Lying:
    """The embeddings of a block in a document."""

    def __init__(self, related: Related, side: int, root: Element, namespaces: Mapping[str, str]) -> None:
        self.block, self.side = related.blocks[side], side
        self.root = root_of(self.block)
        self.reading = DocumentEvaluation(root, known_prefixes(self.block.tree, namespaces), self.block.tree)
        self.conditions: dict[Node, list[tuple[Comparator, tp.Constant]]] = {}
        for one in related.conditions:
            if one.side == side:
                self.conditions.setdefault(one.node, []).append((one.op, one.value))
        self._given: Given = {}
        self._known: dict[tuple[Node, Found], bool] = {}

    def steps(self, given: Given) -> dict[Node, dict[Found, tp.TreeNode]]:
        """By step: the nodes it can match under the restrictions; empty if the block has no such embedding."""
        self._given, self._known = given, {}
        found: dict[Node, dict[Found, tp.TreeNode]] = {}
        waiting: list[tuple[Node, tp.TreeNode, TreeLocation]] = [((), self.root, TreeLocation((self.reading.root,)))]
        while waiting:
            node, step, place = waiting.pop()
            here = found.setdefault(node, {})
            for one in self.reading.candidates(step, place):
                if one in here or not self._can_be(node, step, one):
                    continue
                here[one] = step
                if isinstance(one, Element):
                    waiting += [(there, inner, TreeLocation.below(one)) for there, inner in below(node, step)]
        return found if found[()] else {}

    def variables(self, given: Given) -> dict[str, set[Found]]:
        """By variable: the nodes that it can bind to."""
        found: dict[str, set[Found]] = {}
        for node, nodes in self.steps(given).items():
            for name in names_at(self.block, self.side, node):
                found.setdefault(name, set()).update(nodes)
            for one, step in nodes.items():
                for name, inner in variables_in_runs(self.reading, step, one):
                    found.setdefault(name, set()).add(inner)
        return found

    def _can_be(self, node: Node, step: tp.TreeNode, one: Found) -> bool:
        """Return True if a step can match a node that passes its node test, with all conditions below it; memoized."""
        known = self._known.get((node, one))
        if known is None:
            known = self._known[node, one] = self._fits(node, step, one)
        return known

    def _fits(self, node: Node, step: tp.TreeNode, one: Found) -> bool:
        if node in self._given and one not in self._given[node]:
            return False
        if not all(holds(op, value, one.text) for op, value in self.conditions.get(node, ())):
            return False
        if not isinstance(one, Element):
            return True
        branches = dict(below(node, step))
        for number, predicate in enumerate(step.predicates):
            if (*node, number) not in branches and self.reading.predicate(predicate, step, one) is None:
                return False
        place = TreeLocation.below(one)
        if step.siblings is not None and self.reading.runs(step.siblings, place) is None:
            return False
        return all(
            any(self._can_be(there, inner, each) for each in self.reading.candidates(inner, place))
            for there, inner in branches.items()
        )
