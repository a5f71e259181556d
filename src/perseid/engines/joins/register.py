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

    def add_groups(self, found: SubscriptionGroups[T]) -> None:
        """Add parsed subscriptions."""
        partition = self.partition
        single = [
            (owner, row)
            for owner, form in found.single
            for row, part in zip(form.rows, single_parts(form), strict=True)
            if partition is None or partition.owns(np.array([part]))[0]
        ]
        if single:
            self.subscriptions.add(single)
        for group in found.alike:
            for places in same_order(group.form.rows):
                own = group if partition is None else group.select(partition.owns(group.parts(places[0])).tolist())
                if not own.owners:
                    continue
                added = [self._add(group.form.rows[place], own) for place in places]
                if len(added) > 1:
                    entries, prefixes = (np.stack(each, axis=1) for each in zip(*added, strict=True))
                    self.subscriptions.alternatives.add(entries, prefixes)

    def _add(self, row: TemplateRow, given: TemplateGroup[T]) -> tuple[IntArray, IntArray]:
        """Add one row per subscription of a shape; return the new entries, and the prefix at which each ends."""
        index = self.subscriptions
        marks = marks_of(row)
        edges = row.template.edges
        base = [(0, 0) if e in marks else index.choice(edges[e], asked) for e, asked in enumerate(row.asked)]
        many = len(given.owners)
        paths = np.repeat(np.array([base], np.int64).reshape(1, -1), many, axis=0)
        for e, place in marks.items():
            paths[:, 2 * e : 2 * e + 2] = index.choices(edges[e], row.asked[e], given.constants[place])
        roots = np.full(many, index.root(row.template), np.int64)
        first = len(index.numbers)
        index.numbers.extend(given.owners, [row] * many)
        windows = np.array(given.windows, np.int64)
        return first + np.arange(many), index.add_paths(roots, paths, np.full(many, len(edges), np.int64), windows)
