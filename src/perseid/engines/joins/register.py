"""Index construction: add subscriptions to an index."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perseid.engines.joins.graph import TemplateRow, same_order
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.program import QueryPartition, SubscriptionProgram
from perseid.engines.joins.subscription_groups import (
    NormalForm,
    SubscriptionGroups,
    T,
    TemplateGroup,
    group_by_shape,
    marks_of,
    single_parts,
)
from perseid.engines.joins.values import Values
from perseid.runtime.arrays import IntArray


def index_of(program: SubscriptionProgram) -> Subscriptions:
    """Return an index of all subscriptions of a program."""
    index = Subscriptions(Values())
    IndexBuilder(index).add_groups(program.select(QueryPartition())[0])
    return index


class IndexBuilder:
    """Adds the subscriptions of a partition to an index; an owner is any value, which results refer to."""

    def __init__(self, subscriptions: Subscriptions, partition: QueryPartition | None = None) -> None:
        self.subscriptions = subscriptions
        self.partition = None if partition is None or partition.is_whole else partition
        self._shapes: dict[str, NormalForm] = {}

    def add(self, texts: Mapping[T, str]) -> None:
        """Parse subscriptions and add all of them; if one is invalid, raise its error and add none."""
        self.add_groups(group_by_shape(texts, self._shapes))

    def add_groups(self, groups: SubscriptionGroups[T]) -> None:
        """Add parsed subscriptions."""
        partition = self.partition
        single = [
            (owner, row)
            for owner, form in groups.single
            for row, part in zip(form.rows, single_parts(form), strict=True)
            if partition is None or partition.owns(np.array([part]))[0]
        ]
        if single:
            self.subscriptions.add(single)
        for group in groups.by_shape:
            for row_indices in same_order(group.form.rows):
                owned_group = (
                    group if partition is None else group.select(partition.owns(group.parts(row_indices[0])).tolist())
                )
                if not owned_group.owners:
                    continue
                added = [self._add(group.form.rows[row_index], owned_group) for row_index in row_indices]
                if len(added) > 1:
                    entries, prefixes = (np.stack(each, axis=1) for each in zip(*added, strict=True))
                    self.subscriptions.alternatives.add(entries, prefixes)

    def _add(self, row: TemplateRow, group: TemplateGroup[T]) -> tuple[IntArray, IntArray]:
        """Add one row per subscription of a shape; return the new entries, and the prefix at which each ends."""
        index = self.subscriptions
        marks = marks_of(row)
        edges = row.template.edges
        base = [
            (0, 0) if e in marks else index.choice(edges[e], edge_chains)
            for e, edge_chains in enumerate(row.edge_chains)
        ]
        count = len(group.owners)
        paths = np.repeat(np.array([base], np.int64).reshape(1, -1), count, axis=0)
        for e, mark in marks.items():
            paths[:, 2 * e : 2 * e + 2] = index.choices(edges[e], row.edge_chains[e], group.constants[mark])
        roots = np.full(count, index.root(row.template), np.int64)
        first = len(index.numbers)
        index.numbers.extend(group.owners, [row] * count)
        windows = np.array(group.windows, np.int64)
        return first + np.arange(count), index.add_paths(roots, paths, np.full(count, len(edges), np.int64), windows)
