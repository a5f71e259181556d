"""Subscriptions that read streams published by others: their evaluation order, and their constructions."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias

from perseid.errors import MeaningError
from perseid.lang.subscriptions import Subscription
from perseid.lang.xscl import parse_subscription
from perseid.lang.xscl_parts import Cutter, Parts
from perseid.lang.xscl_shapes import shaped

Whose: TypeAlias = object
"""Owner of a subscription: any hashable value."""
Texts: TypeAlias = Mapping[Any, str]
"""Subscription texts by owner."""


class Publication:
    """Subscriptions by owner, split into source and construction."""

    def __init__(self, texts: Texts) -> None:
        self._cutter = Cutter()
        self._parts: dict[Whose, Parts] = {}
        self.sources: dict[Whose, str] = {}
        for whose, text in texts.items():
            parts = self._cutter.parts(text)
            self.sources[whose] = parts.source
            if parts.built is not None:
                self._parts[whose] = parts
        self.levels = self._in_order()
        """Owners by level of the publication graph: a level reads only streams that earlier levels publish."""

    @property
    def makes(self) -> bool:
        """True if a subscription has a construction."""
        return bool(self._parts)

    def made(self, number: int) -> Subscription:
        """Return the subscription for a construction number."""
        return self._cutter.made(number)

    def built(self, whose: Whose, always: bool) -> int | None:
        """Return the construction number of a subscription; without a construction, None unless ``always``."""
        parts = self._parts.get(whose)
        if parts is not None:
            return parts.built
        return self._cutter.number(self.sources[whose]) if always else None

    def stream_of(self, whose: Whose) -> str | None:
        """Return the stream to which a subscription publishes, if another subscription reads it."""
        parts = self._parts.get(whose)
        return parts.publish if parts is not None and parts.publish in self.read else None

    def _in_order(self) -> list[list[Whose]]:
        published = {whose: parts.publish for whose, parts in self._parts.items() if parts.publish is not None}
        self.read: set[str] = set()
        if not published:
            return [list(self.sources)]
        shapes: dict[str, tuple[str, str]] = {}
        streams = {whose: _streams(source, shapes) for whose, source in self.sources.items()}
        self.read = {one for each in streams.values() for one in each}
        graph: dict[str, set[str]] = {name: set() for name in published.values()}
        for whose, name in published.items():
            graph[name].update(one for one in streams[whose] if one in graph)
        try:
            order = list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            raise MeaningError(
                f"Subscriptions publish streams that they read, in a cycle: {' -> '.join(error.args[1])}.",
                hint="Publish one of these streams under a name that none of the subscriptions reads.",
            ) from None
        level = dict.fromkeys(graph, 0)
        for name in order:
            level[name] = 1 + max((level[one] for one in graph[name]), default=0)
        found: list[list[Whose]] = [[] for _ in range(1 + max(level.values()))]
        for whose, each in streams.items():
            found[max(level.get(one, 0) for one in each)].append(whose)
        return [some for some in found if some]


def _streams(source: str, shapes: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """Return the streams of a subscription's left and right block."""
    shape = shaped(source)
    text = source if shape is None else shape.shape
    if text not in shapes:
        read = parse_subscription(source).source
        shapes[text] = read.left.stream, read.right.stream
    return shapes[text]
