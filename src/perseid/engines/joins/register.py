"""Subscriptions by their texts, for an index: those of one shape are read, reduced and ordered once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import compress
from typing import Generic, TypeVar

import numpy as np

from perseid.engines.joins.alternatives import same_order
from perseid.engines.joins.graph import Chain, Row, rows_of
from perseid.engines.joins.index import ENDLESS, Subscriptions
from perseid.lang.tree_patterns import Constant
from perseid.lang.xscl import parse_subscription
from perseid.lang.xscl_parts import Cutter
from perseid.lang.xscl_shapes import place_of, shaped
from perseid.runtime.arrays import IntArray
from perseid.semantics.subscriptions import normal_forms

T = TypeVar("T")
"""Whose subscriptions are."""

_OR = re.compile("(?<![a-z])or(?![a-z])", re.IGNORECASE)
"""Occurs in every subscription with OR; it may occur in a constant of another one."""


@dataclass(frozen=True)
class Share:
    """One of so many shares of all groups: whoever has it knows nothing of the others."""

    number: int = 0
    of: int = 1

    def has(self, part: int) -> bool:
        return part % self.of == self.number


@dataclass
class _Alike(Generic[T]):
    """Subscriptions of one shape: whose each is, its constants by their places, and its window."""

    whose: list[T] = field(default_factory=list)
    constants: list[list[Constant]] = field(default_factory=list)
    windows: list[int] = field(default_factory=list)

    def add(self, whose: T, constants: Iterable[Constant], window: int | None) -> None:
        self.whose.append(whose)
        self.windows.append(ENDLESS if window is None else window)
        if len(self.whose) == 1:
            self.constants = [[one] for one in constants]
            return
        for column, one in zip(self.constants, constants, strict=True):
            column.append(one)

    def parts(self, row: Row) -> Iterator[int]:
        """The parts of a row, for each of them."""
        return _parts(row, zip(*self.constants, strict=True) if self.constants else [()] * len(self.whose))

    def some(self, chosen: Sequence[bool]) -> _Alike[T]:
        columns = [list(compress(column, chosen)) for column in self.constants]
        return _Alike(list(compress(self.whose, chosen)), columns, list(compress(self.windows, chosen)))


@dataclass(frozen=True)
class _Sorted(Generic[T]):
    """Subscriptions by their shape; and those that have none, with their rows."""

    alike: Mapping[str, _Alike[T]]
    whole: Sequence[tuple[T, tuple[Row, ...]]]


class Register:
    """Adds subscriptions to an index; whose they are is any value, and comes back with what is found."""

    def __init__(self, subscriptions: Subscriptions, share: Share | None = None) -> None:
        self.subscriptions = subscriptions
        self.share = None if share is None or share.of == 1 else share
        self._shapes: dict[str, tuple[Row, ...]] = {}

    def add(self, texts: Mapping[T, str]) -> None:
        """Add subscriptions, or none of them: the first that is wrong is refused with its error."""
        found = _sorted(texts, self._shapes)
        share = self.share
        whole = [
            (whose, row)
            for whose, rows in found.whole
            for first, row in _with_first_alternative(rows)
            if share is None or share.has(next(_parts(first, [()])))
        ]
        if whole:
            self.subscriptions.add(whole)
        for shape, given in found.alike.items():
            rows = self._shapes[shape]
            for places in same_order(rows):
                first = rows[places[0]]
                own = given if share is None else given.some([share.has(part) for part in given.parts(first)])
                if not own.whose:
                    continue
                added = [self._add(rows[place], own) for place in places]
                if len(added) > 1:
                    entries, prefixes = (np.stack(each, axis=1) for each in zip(*added, strict=True))
                    self.subscriptions.alternatives.add(entries, prefixes)

    def _add(self, row: Row, given: _Alike[T]) -> tuple[IntArray, IntArray]:
        """Add one row for each of the subscriptions of a shape: their entries, and the prefixes they end at."""
        index = self.subscriptions
        marks = _marks(row)
        edges = row.template.edges
        base = [(0, 0) if e in marks else index.choice(edges[e], asked) for e, asked in enumerate(row.asked)]
        many = len(given.whose)
        paths = np.repeat(np.array([base], np.int64).reshape(1, -1), many, axis=0)
        for e, place in marks.items():
            paths[:, 2 * e : 2 * e + 2] = index.choices(edges[e], row.asked[e], given.constants[place])
        roots = np.full(many, index.root(row.template), np.int64)
        first = len(index.numbers)
        index.numbers.extend(given.whose, [row] * many)
        windows = np.array(given.windows, np.int64)
        return first + np.arange(many), index.add_paths(roots, paths, np.full(many, len(edges), np.int64), windows)


def parts_of(texts: Mapping[T, str]) -> tuple[dict[T, list[int]], tuple[Chain, ...]]:
    """By subscription: the parts that its rows belong to; and the chains that all of them ask for.

    Rows of one group are of one part, so that what is told together is found in one place however many places there are.
    Alternatives of one subscription are of the part of the first: what several of them find is one notification.
    """
    shapes: dict[str, tuple[Row, ...]] = {}
    found = _sorted(texts, shapes)
    parts: dict[T, list[int]] = {whose: [] for whose in texts}
    chains: dict[Chain, None] = {}
    for whose, rows in found.whole:
        parts[whose] += (part for first, _ in _with_first_alternative(rows) for part in _parts(first, [()]))
        chains |= dict.fromkeys(chain for row in rows for chain in _chains(row))
    for shape, given in found.alike.items():
        for first, row in _with_first_alternative(shapes[shape]):
            chains |= dict.fromkeys(_chains(row))
            for whose, part in zip(given.whose, given.parts(first), strict=True):
                parts[whose].append(part)
    return parts, tuple(chains)


def have_alternatives(texts: Iterable[str]) -> bool:
    """Return True if a subscription has OR, so that several rows of it relate its documents in one order."""
    cutter = Cutter()
    shapes: dict[str, tuple[Row, ...]] = {}
    sources = (cutter.parts(text).source for text in texts)
    found = _sorted({n: source for n, source in enumerate(sources) if _OR.search(source)}, shapes)
    rows_by_subscription = (*shapes.values(), *(rows for _, rows in found.whole))
    return any(len(places) > 1 for rows in rows_by_subscription for places in same_order(rows))


def _sorted(texts: Mapping[T, str], shapes: dict[str, tuple[Row, ...]]) -> _Sorted[T]:
    """Texts by shape; ``shapes`` learns those that are new, once all texts are known to be right."""
    alike: dict[str, _Alike[T]] = {}
    known: dict[str, str] = {}
    """Constants that many have are kept once."""
    whole: list[tuple[T, tuple[Row, ...]]] = []
    rows: dict[str, tuple[Row, ...]] = {}
    for whose, text in texts.items():
        found = shaped(text)
        if found is None:
            whole.append((whose, _rows(text)))
            continue
        if found.shape not in shapes and found.shape not in rows:
            _rows(text)  # what is wrong is said of the text, not of its shape
            rows[found.shape] = _rows(found.shape)
        constants = (known.setdefault(one, one) if isinstance(one, str) else one for one in found.constants)
        if found.shape not in alike:
            alike[found.shape] = _Alike()
        alike[found.shape].add(whose, constants, found.window)
    shapes |= rows
    return _Sorted(alike, whole)


def _rows(text: str) -> tuple[Row, ...]:
    return tuple(row for related in normal_forms(parse_subscription(text)) for row in rows_of(related))


def _with_first_alternative(rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Yield each row behind its first alternative, whose part it goes to; a row without alternatives is its own."""
    first = {place: places[0] for places in same_order(rows) for place in places}
    return ((rows[first[place]], row) for place, row in enumerate(rows))


def _chains(row: Row) -> Iterator[Chain]:
    return (chain for asked in row.asked for chain in (asked.older, asked.newer) if chain is not None)


def _marks(row: Row) -> dict[int, int]:
    """By edge that asks for a constant of the shape: which."""
    return {e: place for e, asked in enumerate(row.asked) if (place := place_of(asked.value)) is not None}


def _parts(row: Row, constants: Iterable[Sequence[Constant]]) -> Iterator[int]:
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
