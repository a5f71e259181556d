"""Random changes of a model: most are valid, some are rejected, and many delete something."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TypeAlias

from perseid.errors import PerseidError
from perseid.semantics import types as t
from perseid.semantics.graphs import Change, Element, Graph
from perseid.semantics.metamodels import Kinds
from tests.generators.random_patterns import SECOND, Chooser

Transaction: TypeAlias = tuple[int, tuple[Change, ...]]
_VALUES: dict[type, tuple[object, ...]] = {
    t.Integer: (0, 1, 2, 3, 1, 2, -1, None, 2**62),
    t.Double: (0.0, -0.0, 0.5, 1.5, 0.1, 0.2, None, float("nan"), float("inf"), -float("inf"), 1e300, 2),
    t.String: ("a", "b", "ab", "", None),
    t.Timestamp: (*(datetime(2020, 1, 1) + timedelta(days=day) for day in range(4)), None),
    t.Boolean: (True, False, None),
}
_MISFITS: tuple[object, ...] = ("no number", 1.5, True, datetime(2020, 1, 1))


def make_transactions(chooser: Chooser, kinds: Kinds) -> tuple[Transaction, ...]:
    """A graph that is filled, changed for a while, and now and then emptied at the end."""
    maker = _ChangeMaker(chooser, kinds)
    made = [(0, tuple(maker.filling()))]
    time = 0
    for _ in range(chooser.number(5, 10)):
        time += chooser.pick((1, 1, 2, 3)) * SECOND
        made.append((time, tuple(maker.changes())))
    if chooser.chance(20):
        made.append((time + SECOND, tuple(maker.emptying())))
        made.append((time + 2 * SECOND, tuple(maker.filling())))
    return tuple(made)


class _ChangeMaker:
    """Tracks the graph, so that most changes are valid."""

    def __init__(self, chooser: Chooser, kinds: Kinds) -> None:
        self.ch = chooser
        self.kinds = kinds
        self.graph = Graph(kinds)
        texts = chooser.chance(30)
        many = chooser.number(4, 7)
        self.elements: list[Element] = [f"e{i}" if texts else i for i in range(many)]
        self.creatable = [name for name, node in kinds.nodes.items() if not node.abstract]
        self.creatable += [name for name in self.creatable if name == "Host"]

    def filling(self) -> Iterator[Change]:
        for element in self.elements:
            if self.ch.chance(85):
                yield self.tried(Change("create", element, self.ch.pick(self.creatable)))
        for element, kind in list(self.graph.nodes.items()):
            for attribute in self.kinds.carried[kind]:
                if self.ch.chance(80):
                    yield self.tried(self.setting(element, attribute))
        for _ in range(self.ch.number(2, 3) * len(self.elements)):
            yield self.tried(self.linking())

    def emptying(self) -> Iterator[Change]:
        for element in list(self.graph.nodes):
            yield self.tried(Change("delete", element))

    def changes(self) -> Iterator[Change]:
        """Yields the changes of one transaction; a transaction without changes only advances the time."""
        for _ in range(self.ch.pick((0, 1, 1, 2, 3, 4, 6))):
            for change in self.some():
                yield self.tried(change)

    def some(self) -> Iterator[Change]:
        ch = self.ch
        roll = ch.number(0, 99)
        if roll < 14:
            kind = ch.pick(list(self.kinds.nodes)) if ch.chance(95) else "Nothing"
            yield Change("create", ch.pick(self.elements), kind)
        elif roll < 21:
            yield Change("delete", self.element())
        elif roll < 28:
            yield from self.again()
        elif roll < 55:
            first = self.setting()
            yield first
            if ch.chance(25):  # the same again, or another value behind it
                yield first if ch.chance(50) else self.setting(first.element, first.attribute)
        elif roll < 80:
            yield self.linking()
        else:
            yield from self.unlinking()

    def again(self) -> Iterator[Change]:
        """Deletes a node and creates it again in one transaction, with the same type or another one."""
        ch = self.ch
        element = self.element()
        kind = self.graph.nodes.get(element)
        yield Change("delete", element)
        yield Change("create", element, kind if kind is not None and ch.chance(60) else ch.pick(self.creatable))
        for _ in range(ch.number(0, 2)):
            yield self.setting(element) if ch.chance(50) else self.linking(element)

    def setting(self, element: Element | None = None, attribute: str | None = None) -> Change:
        ch = self.ch
        element = self.element() if element is None else element
        kind = self.graph.nodes.get(element, self.creatable[0])
        carried = self.kinds.carried[kind]
        if attribute is None:
            attribute = ch.pick(list(carried)) if carried and ch.chance(96) else "nothing"
        if attribute not in carried or ch.chance(4):
            return Change("set", element, None, attribute, ch.pick(_MISFITS))
        return Change("set", element, None, attribute, ch.pick(_VALUES[type(carried[attribute])]))

    def linking(self, source: Element | None = None) -> Change:
        ch = self.ch
        edge = ch.pick(list(self.kinds.edges.values()))
        if ch.chance(8):
            return Change("link", self.element(), edge.name, target=ch.pick((self.element(), None)))
        source = self.of_type(edge.source) if source is None else source
        target = source if ch.chance(8) else self.of_type(edge.target)
        return Change("link", source, edge.name if ch.chance(98) else "nothing", target=target)

    def unlinking(self) -> Iterator[Change]:
        ch = self.ch
        edges = [(edge, *ends) for edge in self.kinds.edges for ends in sorted(self.graph.edges(edge))]
        if not edges or ch.chance(8):
            yield Change("unlink", self.element(), ch.pick(list(self.kinds.edges)), target=self.element())
            return
        edge, source, target = ch.pick(edges)
        yield Change("unlink", source, edge, target=target)
        if ch.chance(15):
            yield Change("link", source, edge, target=target)

    def element(self) -> Element:
        there = list(self.graph.nodes)
        return self.ch.pick(there) if there and self.ch.chance(94) else self.ch.pick(self.elements)

    def of_type(self, type_: str) -> Element:
        fit = [element for element, kind in self.graph.nodes.items() if self.kinds.is_a(kind, type_)]
        return self.ch.pick(fit) if fit else self.element()

    def tried(self, change: Change) -> Change:
        try:
            self.graph.apply(change)
        except PerseidError:
            return change
        return change
