"""Subscriptions that read streams published by others: compiled, in levels of evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from perseid.engines.joins.plan import JoinsPlan
from perseid.engines.joins.program import CutTexts, compile_subscriptions, cut_texts
from perseid.errors import SemanticError
from perseid.lang.xscl import parse_subscription
from perseid.lang.xscl_parts import Cutter
from perseid.lang.xscl_shapes import shaped

Texts: TypeAlias = Mapping[str, str]
"""Subscription texts by owner."""


class PublicationLevel:
    """Subscriptions that read only streams that earlier levels publish."""

    def __init__(self, texts: Texts, cut: CutTexts[str], streams: Mapping[str, str]) -> None:
        self.texts, self.streams = texts, streams
        """By owner: its text; and the stream to which it publishes, if another subscription reads it."""
        self._cut = cut
        self.program = compile_subscriptions(cut, has_parts=False)
        self.plans: dict[tuple[object, ...], JoinsPlan] = {}
        """By settings of a match: the plan of the level."""

    @cached_property
    def publishers(self) -> PublicationLevel:
        """The subscriptions that publish to streams of other subscriptions."""
        texts = {owner: self.texts[owner] for owner in self.streams}
        return PublicationLevel(texts, self._cut.of(texts), self.streams)


class Publication:
    """Subscriptions by owner."""

    def __init__(self, texts: Texts) -> None:
        cut = cut_texts(texts, Cutter())
        self.constructs = bool(cut.selects)
        """True if a subscription has SELECT or PUBLISH."""
        if not cut.published:
            self.levels = [PublicationLevel(texts, cut, {})] if texts else []
            """A level reads only streams that earlier levels publish."""
            return
        reads = _streams_of(cut.sources)
        streams_read = {one for pair in reads.values() for one in pair}
        streams = {owner: name for owner, name in cut.published.items() if name in streams_read}
        self.levels = [
            PublicationLevel(
                {owner: texts[owner] for owner in owners},
                cut.of(owners),
                {owner: streams[owner] for owner in owners if owner in streams},
            )
            for owners in _in_order(reads, cut.published)
        ]


def _in_order(reads: Mapping[str, tuple[str, str]], published: Mapping[str, str]) -> list[list[str]]:
    """Return the owners by level."""
    graph: dict[str, set[str]] = {name: set() for name in published.values()}
    for owner, name in published.items():
        graph[name].update(one for one in reads[owner] if one in graph)
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise SemanticError(
            f"Subscriptions publish streams that they read, in a cycle: {' -> '.join(error.args[1])}.",
            hint="Publish one of these streams under a name that none of the subscriptions reads.",
        ) from None
    level = dict.fromkeys(graph, 0)
    for name in order:
        level[name] = 1 + max((level[one] for one in graph[name]), default=0)
    levels: list[list[str]] = [[] for _ in range(1 + max(level.values()))]
    for owner, streams in reads.items():
        levels[max(level.get(one, 0) for one in streams)].append(owner)
    return [owners for owners in levels if owners]


def _streams_of(sources: Texts) -> dict[str, tuple[str, str]]:
    """By owner: the streams of the left and the right block."""
    shapes: dict[str, tuple[str, str]] = {}
    by_owner = {}
    for owner, source in sources.items():
        shape = shaped(source)
        text = source if shape is None else shape.shape
        if text not in shapes:
            subscription = parse_subscription(source).source
            shapes[text] = subscription.left.stream, subscription.right.stream
        by_owner[owner] = shapes[text]
    return by_owner
