"""Queries and documents of the paper: two or three levels, leaves drawn at random, few joins more often than many.

The paper measures the join alone, on two documents whose corresponding leaves have the same text. This benchmark has
many such pairs, each with its own texts, so that one run is long enough to be timed; nothing joins across pairs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from perseid.engines.joins.graph import NodeChain, TemplateRow, rows_of
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import ChainBindings
from perseid.engines.joins.values import Values
from perseid.lang import tree_patterns as tp
from perseid.lang.subscriptions import Block, TemporalRelation
from perseid.semantics.subscriptions import Node, Related

BRANCHING = 4


@dataclass(frozen=True)
class Schema:
    """Positions of the leaves of a document: the numbers of the steps from the root to each."""

    leaves: tuple[tuple[int, ...], ...]

    @classmethod
    def flat(cls, leaves: int) -> Schema:
        return cls(tuple((i,) for i in range(leaves)))

    @classmethod
    def three_levels(cls) -> Schema:
        return cls(tuple((i, j) for i in range(BRANCHING) for j in range(BRANCHING)))

    def block(self, chosen: Sequence[int]) -> tuple[Block, dict[int, Node]]:
        """Build a block with some leaves, and the position of each."""
        root, places = _step(self, (), chosen)
        return Block("S", tp.TreePattern(root)), places


def _step(schema: Schema, here: tuple[int, ...], chosen: Sequence[int]) -> tuple[tp.TreeNode, dict[int, Node]]:
    name = "item" if not here else "_".join(["n", *map(str, here)])
    axis = tp.Axis.DESCENDANT if not here else tp.Axis.CHILD
    below = sorted({schema.leaves[i][len(here)] for i in chosen if len(schema.leaves[i]) > len(here)})
    predicates, places = [], {i: () for i in chosen if schema.leaves[i] == here}
    for number, branch in enumerate(below):
        there = (*here, branch)
        inner = [i for i in chosen if schema.leaves[i][: len(there)] == there]
        step, found = _step(schema, there, inner)
        predicates.append(tp.Exists(step))
        places |= {i: (number, *node) for i, node in found.items()}
    return tp.TreeNode(axis, tp.NameTest(name), predicates=tuple(predicates)), places


class Drawn:
    """Queries drawn as in Section 6.1: k leaves of each side, the i-th of one equal to the i-th of the other."""

    def __init__(self, schema: Schema, most: int, zipf: float, seed: int = 5) -> None:
        self.schema, self.chance = schema, random.Random(seed)
        self.weights = list(accumulate(1 / k**zipf for k in range(1, most + 1)))
        self._rows: dict[tuple[tuple[int, int], ...], TemplateRow] = {}

    def pairs(self) -> tuple[tuple[int, int], ...]:
        (k,) = self.chance.choices(range(1, len(self.weights) + 1), cum_weights=self.weights)
        leaves = range(len(self.schema.leaves))
        return tuple(sorted(zip(self.chance.sample(leaves, k), self.chance.sample(leaves, k), strict=True)))

    def row(self, pairs: tuple[tuple[int, int], ...]) -> TemplateRow:
        if pairs not in self._rows:
            left, places = self.schema.block(sorted({i for i, _ in pairs}))
            right, others = self.schema.block(sorted({j for _, j in pairs}))
            joined = tuple((places[i], others[j]) for i, j in pairs)
            (self._rows[pairs],) = rows_of(Related(TemporalRelation.FOLLOWED_BY, (left, right), joined, (), (), None))
        return self._rows[pairs]

    def subscriptions(self, count: int) -> Subscriptions:
        made = Subscriptions(Values())
        made.add((i, self.row(self.pairs())) for i in range(count))
        return made

    @property
    def distinct(self) -> int:
        return len(self._rows)


def pairs_of_documents(
    schema: Schema, chains: Sequence[NodeChain], count: int, first: int = 0
) -> tuple[np.ndarray, ChainBindings]:
    """``count`` pairs from pair number ``first`` on: corresponding leaves of a pair have one text, which no other leaf has."""
    ends = [_leaf_of(schema, chain) for chain in chains]
    documents, numbers, texts, nodes, at = [], [], [], [], []
    for document in range(2 * count):
        for number, (leaf, chain) in enumerate(zip(ends, chains, strict=True)):
            documents.append(document)
            numbers.append(number)
            texts.append(f"{first + document // 2}.{leaf}")
            at.append(len(nodes))
            way = schema.leaves[leaf]
            nodes += [_node(schema, way[:depth]) for depth in _depths(chain, len(way))]
    bindings = ChainBindings(np.array(documents), np.array(numbers), texts, np.array(at), np.array(nodes))
    return np.arange(2 * first, 2 * (first + count), dtype=np.int64), bindings


def _leaf_of(schema: Schema, chain: NodeChain) -> int:
    """The leaf at which a chain ends, by the name of its last step."""
    last = chain.tree.rsplit("/", 1)[1].split("->")[0]
    return schema.leaves.index(tuple(int(part) for part in last.split("_")[1:]))


def _depths(chain: NodeChain, leaf: int) -> list[int]:
    """Depths of the nodes that a chain names."""
    steps = chain.tree.lstrip("/").split("/")
    return [depth for depth, step in enumerate(steps) if "->" in step]


def _node(schema: Schema, way: tuple[int, ...]) -> int:
    number = 1
    for branch in way:
        number = number * (BRANCHING + 16) + branch + 1
    return number
