"""Where changes enter a network: nodes of a type, edges, attributes and moving windows of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Protocol, TypeAlias

from perseid.engines.models.deltas import Changed, Delta, add
from perseid.semantics.graphs import Done, Element
from perseid.semantics.metamodels import Kinds
from perseid.semantics.model_queries import Moving
from perseid.semantics.model_values import moving_value
from perseid.semantics.values import Value

Place: TypeAlias = "tuple[str, str | None]"
"""An action, with the type of node or edge, or the attribute, that it is about: what a source listens to."""


def place_of(one: Done) -> Place:
    return one.action, one.attribute if one.action == "set" else one.kind


def _of_attribute(kinds: Kinds, attribute: str) -> Iterator[Place]:
    """A node that goes takes its values with it."""
    yield "set", attribute
    for kind, carried in kinds.carried.items():
        if attribute in carried:
            yield "delete", kind


class ChangeSource(Protocol):
    """``listens`` tells of what its changes are made, ``read`` is given those of one transaction."""

    inputs: tuple[int, ...]

    def listens(self) -> Iterator[Place]: ...

    def read(self, time: int, done: list[Done]) -> Delta | Changed: ...


class Nodes:
    """The nodes of a type and of those below it, as rows of one column; of any type at all where none is named."""

    inputs: tuple[int, ...] = ()

    def __init__(self, kinds: Kinds, type_: str | None) -> None:
        self.kinds = frozenset(kinds.nodes if type_ is None else kinds.below(type_))

    def listens(self) -> Iterator[Place]:
        for kind in self.kinds:
            yield "create", kind
            yield "delete", kind

    def read(self, time: int, done: list[Done]) -> Delta:
        out: Delta = {}
        for one in done:
            add(out, (one.element,), 1 if one.action == "create" else -1)
        return out


class Edges:
    """The edges of a type: rows of source and target."""

    inputs: tuple[int, ...] = ()

    def __init__(self, edge: str) -> None:
        self.edge = edge

    def listens(self) -> Iterator[Place]:
        yield "link", self.edge
        yield "unlink", self.edge

    def read(self, time: int, done: list[Done]) -> Delta:
        out: Delta = {}
        for one in done:
            add(out, (one.element, one.target), 1 if one.action == "link" else -1)
        return out


class Attributes:
    """An attribute of every node that has a value of it."""

    inputs: tuple[int, ...] = ()

    def __init__(self, kinds: Kinds, attribute: str) -> None:
        self.kinds = kinds
        self.attribute = attribute
        self.default = None
        self.held: dict[object, Value] = {}

    def listens(self) -> Iterator[Place]:
        return _of_attribute(self.kinds, self.attribute)

    def read(self, time: int, done: list[Done]) -> Changed:
        before: dict[Element, Value] = {}
        held = self.held
        for one in done:
            if one.action == "set":
                before.setdefault(one.element, held.get(one.element))
                if one.new is None:
                    held.pop(one.element, None)
                else:
                    held[one.element] = one.new
            elif one.element in held:
                before.setdefault(one.element, held.pop(one.element))
        return _differences(before, held)


class MovingWindows:
    """What is made of the last values of an attribute, of every node that was given any."""

    inputs: tuple[int, ...] = ()

    def __init__(self, kinds: Kinds, name: str, window: Moving) -> None:
        self.kinds = kinds
        self.name = name
        self.window = window
        self.default = moving_value(window, ())
        """What the window of a node is worth that was given no value."""
        self.past: dict[Element, deque[tuple[int, Value]]] = {}
        self.held: dict[object, Value] = {}
        self.due: list[tuple[int, int, Element]] = []
        """When a value leaves a window of time, and of which node; the second number keeps nodes from being compared."""
        self.asked = 0

    def listens(self) -> Iterator[Place]:
        return _of_attribute(self.kinds, self.window.attribute)

    def wakes(self, time: int) -> bool:
        """Does a value leave a window now, whatever else happens?"""
        return bool(self.due) and self.due[0][0] <= time

    def read(self, time: int, done: list[Done]) -> Changed:
        touched: dict[Element, None] = {}
        for one in done:
            if one.action == "set":
                self._remember(time, one.element, one.new)
                touched[one.element] = None
            elif one.element in self.past:
                del self.past[one.element]
                touched[one.element] = None
        while self.due and self.due[0][0] <= time:
            element = heappop(self.due)[2]
            if element in self.past:
                touched[element] = None
        before = {element: self.held.get(element, self.default) for element in touched}
        for element in touched:
            self._make(time, element)
        return _differences(before, self.held, self.default)

    def restore(self, past: Mapping[Element, list[tuple[int, Value]]]) -> Changed:
        """Go on from what was in the windows after the last transaction."""
        for element, values in past.items():
            self.past[element] = deque(values, maxlen=self.window.values)
            self.held[element] = moving_value(self.window, [value for _, value in values])
            for time, _ in values if self.window.microseconds is not None else ():
                self._expect(time, element)
        return _differences(dict.fromkeys(past, self.default), self.held, self.default)

    def _expect(self, time: int, element: Element) -> None:
        assert self.window.microseconds is not None
        self.asked += 1
        heappush(self.due, (time + self.window.microseconds, self.asked, element))

    def _remember(self, time: int, element: Element, value: Value) -> None:
        past = self.past.get(element)
        if past is None:
            past = self.past[element] = deque(maxlen=self.window.values)
        if past and past[-1][0] == time:
            # Of one transaction the last value counts.
            past.pop()
        past.append((time, value))
        if self.window.microseconds is not None:
            self._expect(time, element)

    def _make(self, time: int, element: Element) -> None:
        past = self.past.get(element)
        if past is not None and self.window.microseconds is not None:
            while past and past[0][0] <= time - self.window.microseconds:
                past.popleft()
        if past is None:
            self.held.pop(element, None)
        else:
            self.held[element] = moving_value(self.window, [value for _, value in past])


def _differences(before: dict[Element, Value], held: dict[object, Value], default: Value = None) -> Changed:
    changed: Changed = {}
    for element, old in before.items():
        new = held.get(element, default)
        if new != old or type(new) is not type(old):
            changed[element] = (old, new)
    return changed
