"""Subscriptions by their texts, for an index: those of one shape are read, reduced and ordered once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from perseid.engines.joins.graph import Row, rows_of
from perseid.engines.joins.index import ENDLESS, Subscriptions
from perseid.lang.tree_patterns import Constant
from perseid.lang.xscl import parse_subscription
from perseid.lang.xscl_shapes import place_of, shaped
from perseid.semantics.subscriptions import normal_forms


class Register:
    """Adds subscriptions to an index; whose they are is any value, and comes back with what is found."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.subscriptions = subscriptions
        self._shapes: dict[str, tuple[Row, ...]] = {}

    def add(self, texts: Mapping[Any, str]) -> None:
        """Add subscriptions, or none of them: the first that is wrong is refused with its error."""
        alike: dict[str, list[tuple[Any, tuple[Constant, ...], int]]] = {}
        whole: list[tuple[object, Row]] = []
        rows: dict[str, tuple[Row, ...]] = {}
        for whose, text in texts.items():
            found = shaped(text)
            if found is None:
                whole += [(whose, row) for row in _rows(text)]
                continue
            if found.shape not in self._shapes and found.shape not in rows:
                _rows(text)  # what is wrong is said of the text, not of its shape
                rows[found.shape] = _rows(found.shape)
            window = ENDLESS if found.window is None else found.window
            alike.setdefault(found.shape, []).append((whose, found.constants, window))
        self._shapes |= rows
        if whole:
            self.subscriptions.add(whole)
        for shape, given in alike.items():
            for row in self._shapes[shape]:
                self._add(row, given)

    def _add(self, row: Row, given: list[tuple[Any, tuple[Constant, ...], int]]) -> None:
        """One row for each of the subscriptions of a shape."""
        index = self.subscriptions
        marks = {e: place for e, asked in enumerate(row.asked) if (place := place_of(asked.value)) is not None}
        edges = row.template.edges
        base = [(0, 0) if e in marks else index.choice(edges[e], asked) for e, asked in enumerate(row.asked)]
        paths = np.repeat(np.array([base], np.int64).reshape(1, -1), len(given), axis=0)
        for e, place in marks.items():
            asked = row.asked[e]
            paths[:, 2 * e : 2 * e + 2] = [
                index.choice(edges[e], replace(asked, value=constants[place])) for _, constants, _ in given
            ]
        roots = np.full(len(given), index.root(row.template), np.int64)
        index.numbers += [(whose, row) for whose, _, _ in given]
        index.add_paths(
            roots, paths, np.full(len(given), len(edges), np.int64), np.array([w for _, _, w in given], np.int64)
        )


def _rows(text: str) -> tuple[Row, ...]:
    return tuple(row for related in normal_forms(parse_subscription(text)) for row in rows_of(related))
