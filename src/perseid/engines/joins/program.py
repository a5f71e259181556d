"""The program of a plan: subscriptions in normal form as columns, and compiled chains.

The driver compiles it once. It is plain data, so executors evaluate it without parsing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from perseid.engines.joins.graph import NodeChain
from perseid.engines.joins.subscription_groups import (
    NormalForm,
    SubscriptionGroups,
    TemplateGroup,
    chains_of_groups,
    group_by_shape,
    has_alternatives,
    single_parts,
)
from perseid.lang.subscriptions import Construction
from perseid.lang.tree_parser import parse_tree
from perseid.lang.tree_patterns import Constant
from perseid.lang.xscl_parts import Cutter
from perseid.runtime.arrays import BoolArray, Int32Array, IntArray

if TYPE_CHECKING:
    from perseid.engines.trees.plan import TreePlan

T = TypeVar("T")
"""Owners of subscriptions."""
Constructions: TypeAlias = Mapping[T, Construction | None]
"""By owner of a subscription that constructs results: its SELECT, or None for the default result."""


@dataclass(frozen=True)
class QueryPartition:
    """One of several disjoint partitions of all groups."""

    number: int = 0
    of: int = 1

    @property
    def is_whole(self) -> bool:
        """True if there is no other partition."""
        return self.of == 1

    def owns(self, parts: IntArray) -> BoolArray:
        """By part: True if this partition owns it."""
        is_owned: BoolArray = parts % self.of == self.number
        return is_owned


@dataclass(frozen=True)
class ChainProgram:
    """Chains compiled as tree patterns, by stream of documents."""

    chains: tuple[NodeChain, ...]
    namespaces: tuple[tuple[str, str], ...] = ()
    streams: Mapping[str, tuple[IntArray, TreePlan]] = field(default_factory=dict, compare=False)
    """By stream: the numbers of its chains, and their plan."""


def compile_chains(chains: Sequence[NodeChain], namespaces: Sequence[tuple[str, str]] = ()) -> ChainProgram:
    """Compile the chains of subscriptions."""
    from perseid.engines.trees.plan import tree_plan

    streams = {}
    for stream in dict.fromkeys(chain.stream for chain in chains):
        numbers = [number for number, chain in enumerate(chains) if chain.stream == stream]
        patterns = [parse_tree(chains[number].tree).pattern for number in numbers]
        streams[stream] = np.array(numbers, np.int64), tree_plan(patterns, dict(namespaces), inner_texts=False)
    return ChainProgram(tuple(chains), tuple(namespaces), streams)


compile_chains_once = lru_cache(maxsize=4)(compile_chains)
"""Cached ``compile_chains`` for chains that a process compiles repeatedly: folders and calls of a local match."""


@dataclass(frozen=True)
class GroupColumns:
    """A template group as columns."""

    form: NormalForm
    owner_indices: Int32Array
    """By subscription: the index of its owner in the program."""
    constants: tuple[pa.DictionaryArray | tuple[Constant, ...], ...]
    windows: IntArray
    parts: tuple[IntArray, ...]
    """By row of the form: the part of each subscription; empty in a program that was compiled without parts."""

    def select(self, owners: pa.StringArray, chosen: IntArray) -> TemplateGroup[str]:
        """Return a template group of some subscriptions, given by their indices in the group."""
        return TemplateGroup(
            self.form,
            owners.take(pa.array(self.owner_indices[chosen])).to_pylist(),
            [_constants(column, chosen) for column in self.constants],
            self.windows[chosen].tolist(),
            [part[chosen] for part in self.parts],
        )


def _constants(column: pa.DictionaryArray | tuple[Constant, ...], chosen: IntArray) -> list[Constant]:
    if isinstance(column, tuple):
        return [column[number] for number in chosen.tolist()]
    values = column.dictionary.to_pylist()  # equal constants share one string object
    return [values[number] for number in np.asarray(column.indices)[chosen].tolist()]


@dataclass(frozen=True)
class SingleForm:
    """A subscription without a shape, which is parsed on its own."""

    form: NormalForm
    owner_index: int
    parts: IntArray


@dataclass(frozen=True)
class SubscriptionProgram:
    """Compiled subscriptions that are fixed at planning time."""

    owners: pa.StringArray
    groups: tuple[GroupColumns, ...]
    single: tuple[SingleForm, ...]
    constructions: tuple[Construction | None, ...]
    """The distinct SELECT clauses of subscriptions that construct results."""
    construction_numbers: Int32Array
    """By owner: the index of its construction, or -1."""
    chains: tuple[NodeChain, ...]
    """The chains that the subscriptions need in documents."""

    def has_alternatives(self) -> bool:
        """Return True if some subscription has OR."""
        return any(map(has_alternatives, (*(one.form for one in self.single), *(one.form for one in self.groups))))

    def select(
        self, partition: QueryPartition, always: bool = False
    ) -> tuple[SubscriptionGroups[str], Constructions[str]]:
        """Return the subscriptions with a row in a partition, and their constructions.

        With ``always``, subscriptions without SELECT and PUBLISH construct the default result.
        """
        single = [one for one in self.single if partition.is_whole or partition.owns(one.parts).any()]
        chosen = [(group, _indices_in(group, partition)) for group in self.groups]
        nonempty = [(group, indices) for group, indices in chosen if len(indices)]
        nonempty.sort(key=lambda one: int(one[0].owner_indices[one[1][0]]))  # in the order in which shapes first occur
        groups = SubscriptionGroups(
            tuple(group.select(self.owners, indices) for group, indices in nonempty),
            tuple((self.owners[one.owner_index].as_py(), one.form) for one in single),
        )
        return groups, self._constructions(
            [
                *(group.owner_indices[indices] for group, indices in nonempty),
                np.array([one.owner_index for one in single], np.int64),
            ],
            always,
        )

    def _constructions(
        self, owner_indices: Sequence[IntArray | Int32Array], always: bool
    ) -> dict[str, Construction | None]:
        if not self.constructions and not always:
            return {}
        at = np.concatenate(owner_indices)
        at = at if always else at[self.construction_numbers[at] >= 0]
        owners = self.owners.take(pa.array(at)).to_pylist()
        constructions = (*self.constructions, None)  # the index -1 is the default result
        return {
            owner: constructions[number]
            for owner, number in zip(owners, self.construction_numbers[at].tolist(), strict=True)
        }


def _indices_in(group: GroupColumns, partition: QueryPartition) -> IntArray:
    """Return the indices of the subscriptions of a group with a row in a partition."""
    if partition.is_whole:
        return np.arange(len(group.owner_indices))
    assert group.parts, "Subscriptions without parts run in one partition."
    return np.flatnonzero(np.logical_or.reduce([partition.owns(part) for part in group.parts]))


def compile_subscriptions(texts: CutTexts[str], has_parts: bool) -> SubscriptionProgram:
    """Parse subscriptions, and encode them as columns. Only with parts, several partitions can evaluate them."""
    groups = group_by_shape(texts.sources, {})
    owner_numbers = {owner: place for place, owner in enumerate(texts.sources)}
    constructions = {one: number for number, one in enumerate(dict.fromkeys(texts.selects.values()))}
    construction_numbers = np.full(len(owner_numbers), -1, np.int32)
    for owner, select in texts.selects.items():
        construction_numbers[owner_numbers[owner]] = constructions[select]
    return SubscriptionProgram(
        pa.array(list(owner_numbers), pa.string()),
        tuple(_columns(group.with_parts() if has_parts else group, owner_numbers) for group in groups.by_shape),
        tuple(
            SingleForm(form, owner_numbers[o], np.array(list(single_parts(form)), np.int64))
            for o, form in groups.single
        ),
        tuple(constructions),
        construction_numbers,
        chains_of_groups(groups),
    )


def _columns(group: TemplateGroup[str], owner_numbers: Mapping[str, int]) -> GroupColumns:
    return GroupColumns(
        group.form,
        np.fromiter((owner_numbers[owner] for owner in group.owners), np.int32, len(group.owners)),
        tuple(_packed(column) for column in group.constants),
        np.array(group.windows, np.int64),
        tuple(group.computed_parts),
    )


def _packed(column: Sequence[Constant]) -> pa.DictionaryArray | tuple[Constant, ...]:
    if all(isinstance(one, str) for one in column):
        return pa.array(column, pa.string()).dictionary_encode()
    return tuple(column)


class CutTexts(NamedTuple, Generic[T]):
    """Subscriptions, split into clauses."""

    sources: dict[T, str]
    selects: dict[T, Construction | None]
    """By owner of a subscription that constructs a result: its SELECT, or None for the default result."""
    published: dict[T, str]
    """By owner of a subscription with PUBLISH: its result stream."""

    def of(self, owners: Iterable[T]) -> CutTexts[T]:
        """Return the subscriptions of some owners."""
        chosen = list(owners)
        return CutTexts(
            {one: self.sources[one] for one in chosen},
            {one: self.selects[one] for one in chosen if one in self.selects},
            {one: self.published[one] for one in chosen if one in self.published},
        )


def cut_texts(texts: Mapping[T, str], cutter: Cutter, always: bool = False) -> CutTexts[T]:
    """Split subscriptions; with ``always``, those without SELECT and PUBLISH construct the default result too."""
    sources: dict[T, str] = {}
    selects: dict[T, Construction | None] = {}
    published: dict[T, str] = {}
    by_select: dict[str | None, Construction | None] = {None: None}
    for owner, text in texts.items():
        parts = cutter.parts(text)
        sources[owner] = parts.source
        if parts.publish is not None:
            published[owner] = parts.publish
        if parts.constructs or always:
            if parts.select not in by_select:
                assert parts.select is not None
                by_select[parts.select] = Construction(parts.select)
            selects[owner] = by_select[parts.select]
    return CutTexts(sources, selects, published)


def forms_of(groups: SubscriptionGroups[T]) -> Iterator[tuple[T, NormalForm, tuple[Constant, ...]]]:
    """Yield the owner, the form and the constants for its marks of every subscription."""
    for group in groups.by_shape:
        for owner, filling in zip(group.owners, group.fillings(), strict=True):
            yield owner, group.form, tuple(filling)
    for owner, form in groups.single:
        yield owner, form, ()
