"""Subscriptions by their texts, for an index: those of one shape are read, reduced and ordered once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np

from perseid.engines.joins.graph import Chain, Row, rows_of
from perseid.engines.joins.index import ENDLESS, Subscriptions
from perseid.lang.tree_patterns import Constant
from perseid.lang.xscl import parse_subscription
from perseid.lang.xscl_shapes import place_of, shaped
from perseid.semantics.subscriptions import normal_forms

Given: TypeAlias = tuple[Any, tuple[Constant, ...], int]
"""Of a shape: whose it is, its constants, and its window."""


@dataclass(frozen=True)
class Share:
    """One of so many shares of all groups: whoever has it knows nothing of the others."""

    number: int = 0
    of: int = 1

    def has(self, part: int) -> bool:
        return part % self.of == self.number


@dataclass(frozen=True)
class _Sorted:
    """Subscriptions by their shape; and those that have none, with their rows."""

    alike: Mapping[str, Sequence[Given]]
    whole: Sequence[tuple[Any, tuple[Row, ...]]]


class Register:
    """Adds subscriptions to an index; whose they are is any value, and comes back with what is found."""

    def __init__(self, subscriptions: Subscriptions, share: Share | None = None) -> None:
        self.subscriptions = subscriptions
        self.share = None if share is None or share.of == 1 else share
        self._shapes: dict[str, tuple[Row, ...]] = {}

    def add(self, texts: Mapping[Any, str]) -> None:
        """Add subscriptions, or none of them: the first that is wrong is refused with its error."""
        found = _sorted(texts, self._shapes)
        whole = [
            (whose, row)
            for whose, rows in found.whole
            for row in rows
            if self.share is None or self.share.has(_part(row))
        ]
        if whole:
            self.subscriptions.add(whole)
        for shape, given in found.alike.items():
            for row in self._shapes[shape]:
                own = given
                if self.share is not None:
                    parts = _parts(row, [constants for _, constants, _ in given])
                    own = [one for one, part in zip(given, parts, strict=True) if self.share.has(part)]
                if own:
                    self._add(row, own)

    def _add(self, row: Row, given: Sequence[Given]) -> None:
        """One row for each of the subscriptions of a shape."""
        index = self.subscriptions
        marks = _marks(row)
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


def parts_of(texts: Mapping[Any, str]) -> tuple[dict[Any, list[int]], tuple[Chain, ...]]:
    """By subscription: the parts that its rows belong to; and the chains that all of them ask for.

    Rows of one group are of one part, so that what is told together is found in one place however many places there are.
    """
    shapes: dict[str, tuple[Row, ...]] = {}
    found = _sorted(texts, shapes)
    parts: dict[Any, list[int]] = {whose: [] for whose in texts}
    chains: dict[Chain, None] = {}
    for whose, rows in found.whole:
        parts[whose] += map(_part, rows)
        chains |= dict.fromkeys(chain for row in rows for chain in _chains(row))
    for shape, given in found.alike.items():
        for row in shapes[shape]:
            chains |= dict.fromkeys(_chains(row))
            for (whose, _, _), part in zip(given, _parts(row, [one[1] for one in given]), strict=True):
                parts[whose].append(part)
    return parts, tuple(chains)


def _sorted(texts: Mapping[Any, str], shapes: dict[str, tuple[Row, ...]]) -> _Sorted:
    """Texts by shape; ``shapes`` learns those that are new, once all texts are known to be right."""
    alike: dict[str, list[Given]] = {}
    whole: list[tuple[Any, tuple[Row, ...]]] = []
    rows: dict[str, tuple[Row, ...]] = {}
    for whose, text in texts.items():
        found = shaped(text)
        if found is None:
            whole.append((whose, _rows(text)))
            continue
        if found.shape not in shapes and found.shape not in rows:
            _rows(text)  # what is wrong is said of the text, not of its shape
            rows[found.shape] = _rows(found.shape)
        window = ENDLESS if found.window is None else found.window
        alike.setdefault(found.shape, []).append((whose, found.constants, window))
    shapes |= rows
    return _Sorted(alike, whole)


def _rows(text: str) -> tuple[Row, ...]:
    return tuple(row for related in normal_forms(parse_subscription(text)) for row in rows_of(related))


def _chains(row: Row) -> Iterator[Chain]:
    return (chain for asked in row.asked for chain in (asked.older, asked.newer) if chain is not None)


def _marks(row: Row) -> dict[int, int]:
    """By edge that asks for a constant of the shape: which."""
    return {e: place for e, asked in enumerate(row.asked) if (place := place_of(asked.value)) is not None}


def _part(row: Row) -> int:
    (part,) = _parts(row, [()])
    return part


def _parts(row: Row, constants: Sequence[tuple[Constant, ...]]) -> Iterator[int]:
    """The part of a row's group, for each of these constants in place of its marks."""
    marks = _marks(row)
    said = [repr(row.template)]
    for e, asked in enumerate(row.asked):
        said.append(f"{asked.older} {asked.newer}")
        said.append("" if e in marks else _written(asked.value))
    base = blake2b("\n".join(said).encode(), digest_size=8)
    for some in constants:
        own = base.copy()
        own.update("\n".join(_written(some[place]) for place in marks.values()).encode())
        yield int.from_bytes(own.digest()) >> 1


def _written(value: Constant | None) -> str:
    return f"{type(value).__name__} {value}"
