"""Groups of subscriptions by shape: texts that differ only in constants and windows share one normal form.

The driver compiles the groups into the program of a plan. A folder stores texts, which each query partition parses here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import compress
from typing import Generic, TypeVar

import numpy as np

from perseid.engines.joins.graph import ENDLESS, NodeChain, SubscriptionTemplate, TemplateRow, rows_of, same_order
from perseid.lang.subscriptions import Subscription
from perseid.lang.tree_patterns import Constant
from perseid.lang.xscl import parse_subscription
from perseid.lang.xscl_parts import Cutter
from perseid.lang.xscl_shapes import place_of, shaped
from perseid.runtime.arrays import IntArray
from perseid.semantics.subscriptions import normal_forms

T = TypeVar("T")
"""Owners of subscriptions."""

_OR = re.compile("(?<![a-z])or(?![a-z])", re.IGNORECASE)
"""Matches every subscription with OR, and possibly a constant of another one."""


@dataclass(frozen=True)
class NormalForm:
    """A parsed subscription and its rows; in those of a shape, marks replace the constants."""

    subscription: Subscription
    rows: tuple[TemplateRow, ...]


@dataclass
class TemplateGroup(Generic[T]):
    """Subscriptions of one shape: the owner, the constants and the window of each."""

    form: NormalForm
    owners: list[T] = field(default_factory=list)
    constants: list[list[Constant]] = field(default_factory=list)
    """By mark: the column of the subscriptions' constants."""
    windows: list[int] = field(default_factory=list)
    computed_parts: Sequence[IntArray] = ()
    """By row: the part of each subscription; empty if not computed."""

    def add(self, owner: T, constants: Iterable[Constant], window: int | None) -> None:
        self.owners.append(owner)
        self.windows.append(ENDLESS if window is None else window)
        if len(self.owners) == 1:
            self.constants = [[one] for one in constants]
            return
        for column, one in zip(self.constants, constants, strict=True):
            column.append(one)

    def fillings(self) -> Iterable[Sequence[Constant]]:
        """By subscription: its constants."""
        return zip(*self.constants, strict=True) if self.constants else [()] * len(self.owners)

    def parts(self, row: int) -> IntArray:
        """By subscription: the part of its row with index ``row``."""
        if self.computed_parts:
            return self.computed_parts[row]
        return np.fromiter(row_parts(self.form.rows[row], self.fillings()), np.int64, len(self.owners))

    def with_parts(self) -> TemplateGroup[T]:
        """Return the group with its parts computed; alternatives of one subscription have the part of the first."""
        first = {
            row: self.parts(alternatives[0]) for alternatives in same_order(self.form.rows) for row in alternatives
        }
        parts = [first[row] for row in range(len(self.form.rows))]
        return TemplateGroup(self.form, self.owners, self.constants, self.windows, parts)

    def select(self, chosen: Sequence[bool]) -> TemplateGroup[T]:
        """Return the group of some of the subscriptions, given as a mask."""
        columns = [list(compress(column, chosen)) for column in self.constants]
        parts = [part[np.asarray(chosen, np.bool_)] for part in self.computed_parts]
        return TemplateGroup(
            self.form, list(compress(self.owners, chosen)), columns, list(compress(self.windows, chosen)), parts
        )


@dataclass(frozen=True)
class SubscriptionGroups(Generic[T]):
    """Subscriptions by shape, and those without one."""

    by_shape: Sequence[TemplateGroup[T]]
    single: Sequence[tuple[T, NormalForm]]


def group_by_shape(texts: Mapping[T, str], shapes: dict[str, NormalForm]) -> SubscriptionGroups[T]:
    """Parse subscriptions; ``shapes`` is extended by new shapes once all texts are known to be correct."""
    by_shape: dict[str, TemplateGroup[T]] = {}
    interned: dict[str, str] = {}
    """Interned constants."""
    single: list[tuple[T, NormalForm]] = []
    new: dict[str, NormalForm] = {}
    for owner, text in texts.items():
        shape = shaped(text)
        if shape is None:
            single.append((owner, parse_normal_form(text)))
            continue
        if shape.shape not in shapes and shape.shape not in new:
            parse_normal_form(text)  # so that an error refers to the text, not to its shape
            new[shape.shape] = parse_normal_form(shape.shape)
        constants = (interned.setdefault(one, one) if isinstance(one, str) else one for one in shape.constants)
        if shape.shape not in by_shape:
            by_shape[shape.shape] = TemplateGroup(new.get(shape.shape) or shapes[shape.shape])
        by_shape[shape.shape].add(owner, constants, shape.window)
    shapes |= new
    return SubscriptionGroups(tuple(by_shape.values()), tuple(single))


def parse_normal_form(text: str) -> NormalForm:
    """Parse one subscription, or one shape."""
    subscription = parse_subscription(text)
    return NormalForm(subscription, tuple(row for related in normal_forms(subscription) for row in rows_of(related)))


def parts_of(texts: Mapping[T, str]) -> tuple[dict[T, list[int]], tuple[NodeChain, ...]]:
    """Return the parts of each subscription's rows, and the chains of all subscriptions.

    A part is a hash that determines the query partition. Rows of one group have the same part, so that one query
    partition emits their notifications together. Alternatives of one subscription have the part of the first, so that
    their common notifications are merged.
    """
    groups = group_by_shape(texts, {})
    parts: dict[T, list[int]] = {owner: [] for owner in texts}
    for owner, form in groups.single:
        parts[owner] += single_parts(form)
    for group in groups.by_shape:
        columns = (column.tolist() for column in group.with_parts().computed_parts)
        for owner, subscription_parts in zip(group.owners, zip(*columns, strict=True), strict=True):
            parts[owner] += subscription_parts
    return parts, chains_of_groups(groups)


def chains_of_groups(groups: SubscriptionGroups[T]) -> tuple[NodeChain, ...]:
    """The chains that subscriptions need in documents."""
    forms = (*(form for _, form in groups.single), *(group.form for group in groups.by_shape))
    return tuple(
        dict.fromkeys(
            chain
            for form in forms
            for row in form.rows
            for edge_chains in row.edge_chains
            for chain in (edge_chains.older, edge_chains.newer)
            if chain is not None
        )
    )


def have_alternatives(texts: Iterable[str]) -> bool:
    """Return True if a subscription has OR, that is, several rows with the same document order."""
    cutter = Cutter()
    sources = (cutter.parts(text).source for text in texts)
    groups = group_by_shape({n: source for n, source in enumerate(sources) if _OR.search(source)}, {})
    return any(
        map(has_alternatives, (*(group.form for group in groups.by_shape), *(form for _, form in groups.single)))
    )


def has_alternatives(form: NormalForm) -> bool:
    """Return True if several rows have the same document order."""
    return any(len(places) > 1 for places in same_order(form.rows))


def single_parts(form: NormalForm) -> Iterator[int]:
    """By row of a subscription without a shape: its part."""
    first = {row: alternatives[0] for alternatives in same_order(form.rows) for row in alternatives}
    return (next(row_parts(form.rows[first[row]], [()])) for row in range(len(form.rows)))


def marks_of(row: TemplateRow) -> dict[int, int]:
    """By edge that has a mark for its constant: the number of the mark."""
    return {
        e: mark for e, edge_chains in enumerate(row.edge_chains) if (mark := place_of(edge_chains.value)) is not None
    }


def row_parts(row: TemplateRow, fillings: Iterable[Sequence[Constant]]) -> Iterator[int]:
    """Yield the part of a row for each tuple of constants in place of its marks."""
    marks = marks_of(row)
    lines = [_template_text(row.template)]
    for e, edge_chains in enumerate(row.edge_chains):
        lines.append(f"{_chain_text(edge_chains.older)} {_chain_text(edge_chains.newer)}")
        lines.append("" if e in marks else _written(edge_chains.value))
    base = blake2b("\n".join(lines).encode(), digest_size=8)
    for filling in fillings:
        digest = base.copy()
        digest.update("\n".join(_written(filling[place]) for place in marks.values()).encode())
        yield int.from_bytes(digest.digest()) >> 1


def _template_text(template: SubscriptionTemplate) -> str:
    """Text of a template for the hash of a part. Files and states have such hashes: this text never changes."""
    edges = [
        f"Edge(kind={edge.kind!r}, older={edge.older!r}, newer={edge.newer!r}, op={edge.op!r})"
        for edge in template.edges
    ]
    listed = f"({edges[0]},)" if len(edges) == 1 else f"({', '.join(edges)})"
    return f"Template(edges={listed}, strict={template.strict!r}, shown={template.shown!r})"


def _chain_text(chain: NodeChain | None) -> str:
    """Text of a chain for the hash of a part; it never changes either."""
    return str(chain and f"Chain(stream={chain.stream!r}, tree={chain.tree!r}, height={chain.height!r})")


def _written(value: Constant | None) -> str:
    return f"{type(value).__name__} {value}"
