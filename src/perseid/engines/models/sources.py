"""Input operators of a network: nodes of a type, edges, attributes, and moving windows over attributes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Protocol, TypeAlias

from perseid.engines.models.deltas import Changed, Delta, add
from perseid.semantics.graphs import AppliedChange, Element
from perseid.semantics.metamodels import Kinds
from perseid.semantics.model_queries import Moving
from perseid.semantics.model_values import moving_value
from perseid.semantics.values import Value

Place: TypeAlias = "tuple[str, str | None]"
"""An action with its type of node or edge, or its attribute: the routing key from changes to sources."""


def place_of(one: AppliedChange) -> Place:
    return one.action, one.attribute if one.action == "set" else one.kind


def _of_attribute(kinds: Kinds, attribute: str) -> Iterator[Place]:
    """Yield the places of an attribute: it is set, or a node with it is deleted."""
    yield "set", attribute
    for kind, carried in kinds.carried.items():
        if attribute in carried:
            yield "delete", kind


class ChangeSource(Protocol):
    """``listens`` yields the places that a source reads; ``read`` takes their changes of one transaction."""

    inputs: tuple[int, ...]

    def listens(self) -> Iterator[Place]: ...

    def read(self, time: int, done: list[AppliedChange]) -> Delta | Changed: ...


class Nodes:
    """The nodes of a type and its subtypes, as rows of one column; all nodes if no type is given."""

    inputs: tuple[int, ...] = ()

    def __init__(self, kinds: Kinds, type_: str | None) -> None:
        self.kinds = frozenset(kinds.nodes if type_ is None else kinds.below(type_))

    def listens(self) -> Iterator[Place]:
        for kind in self.kinds:
            yield "create", kind
            yield "delete", kind

    def read(self, time: int, done: list[AppliedChange]) -> Delta:
        out: Delta = {}
        for one in done:
            add(out, (one.element,), 1 if one.action == "create" else -1)
        return out


class EdgeRows:
    """The edges of a type, as rows of source and target."""

    inputs: tuple[int, ...] = ()

    def __init__(self, edge: str) -> None:
        self.edge = edge

    def listens(self) -> Iterator[Place]:
        yield "link", self.edge
        yield "unlink", self.edge

    def read(self, time: int, done: list[AppliedChange]) -> Delta:
        out: Delta = {}
        for one in done:
            add(out, (one.element, one.target), 1 if one.action == "link" else -1)
        return out


class Attributes:
    """The values of an attribute, by node."""

    inputs: tuple[int, ...] = ()

    def __init__(self, kinds: Kinds, attribute: str) -> None:
        self.kinds = kinds
        self.attribute = attribute
        self.default = None
        self.current: dict[object, Value] = {}

    def listens(self) -> Iterator[Place]:
        return _of_attribute(self.kinds, self.attribute)

    def read(self, time: int, done: list[AppliedChange]) -> Changed:
        before: dict[Element, Value] = {}
        current = self.current
        for one in done:
            if one.action == "set":
                before.setdefault(one.element, current.get(one.element))
                if one.new is None:
                    current.pop(one.element, None)
                else:
                    current[one.element] = one.new
            elif one.element in current:
                before.setdefault(one.element, current.pop(one.element))
        return _differences(before, current)


class MovingWindows:
    """Aggregate over the last values of an attribute, by node."""

    inputs: tuple[int, ...] = ()

    def __init__(self, kinds: Kinds, name: str, window: Moving) -> None:
        self.kinds = kinds
        self.name = name
        self.window = window
        self.default = moving_value(window, ())
        """Result for a node without any value in its history."""
        self.history: dict[Element, deque[tuple[int, Value]]] = {}
        self.current: dict[object, Value] = {}
        self.due: list[tuple[int, int, Element]] = []
        """Heap of the time at which a value leaves a time window, a tie-breaking number, and the node."""
        self.expected = 0

    def listens(self) -> Iterator[Place]:
        return _of_attribute(self.kinds, self.window.attribute)

    def is_due(self, time: int) -> bool:
        """Return whether a value leaves a window at or before this time."""
        return bool(self.due) and self.due[0][0] <= time

    def read(self, time: int, done: list[AppliedChange]) -> Changed:
        touched: dict[Element, None] = {}
        for one in done:
            if one.action == "set":
                self._remember(time, one.element, one.new)
                touched[one.element] = None
            elif one.element in self.history:
                del self.history[one.element]
                touched[one.element] = None
        while self.due and self.due[0][0] <= time:
            element = heappop(self.due)[2]
            if element in self.history:
                touched[element] = None
        before = {element: self.current.get(element, self.default) for element in touched}
        for element in touched:
            self._update(time, element)
        return _differences(before, self.current, self.default)

    def restore(self, histories: Mapping[Element, list[tuple[int, Value]]]) -> Changed:
        """Continue from the contents of the windows after the last transaction."""
        for element, values in histories.items():
            self.history[element] = deque(values, maxlen=self.window.values)
            self.current[element] = moving_value(self.window, [value for _, value in values])
            for time, _ in values if self.window.microseconds is not None else ():
                self._expect(time, element)
        return _differences(dict.fromkeys(histories, self.default), self.current, self.default)

    def _expect(self, time: int, element: Element) -> None:
        assert self.window.microseconds is not None
        self.expected += 1
        heappush(self.due, (time + self.window.microseconds, self.expected, element))

    def _remember(self, time: int, element: Element, value: Value) -> None:
        history = self.history.get(element)
        if history is None:
            history = self.history[element] = deque(maxlen=self.window.values)
        if history and history[-1][0] == time:
            # Only the last value in a transaction counts.
            history.pop()
        history.append((time, value))
        if self.window.microseconds is not None:
            self._expect(time, element)

    def _update(self, time: int, element: Element) -> None:
        history = self.history.get(element)
        if history is not None and self.window.microseconds is not None:
            while history and history[0][0] <= time - self.window.microseconds:
                history.popleft()
        if history is None:
            self.current.pop(element, None)
        else:
            self.current[element] = moving_value(self.window, [value for _, value in history])


def _differences(before: dict[Element, Value], current: dict[object, Value], default: Value = None) -> Changed:
    changed: Changed = {}
    for element, old in before.items():
        new = current.get(element, default)
        if new != old or type(new) is not type(old):
            changed[element] = (old, new)
    return changed
