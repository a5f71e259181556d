"""Model graph: typed nodes with attributes, edges, and five elementary changes.

A change that is invalid in the current state raises an error with the reason and leaves the model unchanged. Deleting a
node first removes all its edges, each as an elementary change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal as Choice
from typing import TypeAlias

from perseid.errors import PerseidError
from perseid.semantics import values as v
from perseid.semantics.evaluate import cast
from perseid.semantics.metamodels import Kinds
from perseid.semantics.types import Type
from perseid.semantics.values import Value

Element: TypeAlias = "str | int"
"""Name of a node, unique in its model; the names of one model are all texts or all numbers."""
Action = Choice["create", "delete", "set", "link", "unlink"]
ACTIONS: tuple[Action, ...] = ("create", "delete", "set", "link", "unlink")
RANK: dict[str, int] = {"unlink": 0, "delete": 1, "create": 2, "set": 3, "link": 4}
"""Default order of changes at one time, so that an element can be replaced and an edge moved."""
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Change:
    """One requested elementary change.

    ``kind`` is the node type of a create and the edge type of a link or unlink; ``target`` is the edge's other end.
    """

    action: Action
    element: Element
    kind: str | None = None
    attribute: str | None = None
    value: object = None
    target: Element | None = None
    tied: bool = field(default=False, compare=False, repr=False)
    """True if only the value orders this set after the change before it, a set of the same attribute."""


@dataclass(frozen=True, slots=True)
class Happening:
    """An ordinary event in a model's input: it changes nothing, and follows the changes of its time."""

    type: str
    values: tuple[tuple[str, object], ...]
    """Columns with their values."""

    @property
    def action(self) -> str:
        return "event"


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """One applied elementary change: an event for steps such as ``change set Host.cpu``."""

    action: Action
    element: Element
    kind: str
    """Type of the node or of the edge."""
    attribute: str | None = None
    old: Value = None
    new: Value = None
    target: Element | None = None


def in_turn(rank: Iterable[object], change: Change | Happening) -> tuple[object, ...]:
    """Return the sort key of a change within its time: rank, action, then element, attribute, kind and target.

    The value comes last and as text only, so that the order does not depend on the order of rows. Sets of one attribute
    that are equal up to there are ordered by value where the type of the attribute is known.
    """
    if isinstance(change, Happening):
        return (*map(_rank_key, rank), len(RANK), 1, repr(change))
    names = (change.element, change.attribute, change.kind, change.target)
    place = RANK.get(change.action, len(RANK))
    return (*map(_rank_key, rank), place, 0, str(change.action), *map(_name_key, names), repr(change.value))


def is_tied(before: Change | Happening, change: Change | Happening) -> bool:
    """Return True if two changes of one time and rank are sets of one attribute of one element."""
    if not isinstance(before, Change) or not isinstance(change, Change):
        return False
    if before.action != "set" or change.action != "set":
        return False
    return (before.element, before.attribute) == (change.element, change.attribute)


def have_equal_ranks(left: Iterable[object], right: Iterable[object]) -> bool:
    """Return True if two ranks are equal; NaN equals NaN, null equals null."""
    return all(_rank_key(a) == _rank_key(b) for a, b in zip(left, right, strict=True))


def _rank_key(value: object) -> tuple[object, ...]:
    """Return the sort key of a column value: null first, NaN last."""
    if value is None:
        return (0,)
    return (2,) if isinstance(value, float) and math.isnan(value) else (1, value)


def _name_key(name: object) -> tuple[object, ...]:
    """Return the sort key of a name: null, numbers by size, texts by code point, anything else by its text."""
    if name is None:
        return (0,)
    if isinstance(name, str):
        return (2, name)
    return (1, name) if isinstance(name, int) else (3, repr(name))


class ChangeError(PerseidError):
    """A change that is invalid in the current state of the model."""

    code = "change"


def canonical(value: Value) -> Value:
    """Return one object for NaN and one zero, so that values can be compared and hashed."""
    if isinstance(value, float):
        if math.isnan(value):
            return NAN
        return value + 0.0
    return value


def same(left: Value, right: Value) -> bool:
    """Return True if two canonical values are equal; NaN equals NaN, and null equals null."""
    return left is right or left == right


@dataclass(slots=True)
class Graph:
    """Nodes by name; edges by type, in both directions."""

    kinds: Kinds
    nodes: dict[Element, str] = field(default_factory=dict)
    values: dict[tuple[Element, str], Value] = field(default_factory=dict)
    forth: dict[str, dict[Element, set[Element]]] = field(default_factory=dict)
    back: dict[str, dict[Element, set[Element]]] = field(default_factory=dict)

    def apply(self, change: Change) -> list[AppliedChange]:
        """Apply a change; return its elementary changes in order, or raise :class:`ChangeError`."""
        match change.action:
            case "create":
                return self._create(change)
            case "delete":
                return self._delete(change)
            case "set":
                return self._set(change)
            case "link":
                return self._link(change)
            case "unlink":
                return self._unlink(change)
        raise ChangeError(f"Unknown change {change.action!r}. Available: {', '.join(ACTIONS)}.")

    def value_of_set(self, change: Change) -> Value:
        """Return the value of a set in the type of its attribute; null if the set is invalid."""
        kind = self.nodes.get(change.element)
        type_ = None if kind is None else self.kinds.attributes(kind).get(str(change.attribute))
        return None if type_ is None else _read_value(change.value, type_)

    def value(self, element: Element, attribute: str) -> Value:
        return self.values.get((element, attribute))

    def edges(self, edge: str) -> Iterator[tuple[Element, Element]]:
        for source, targets in self.forth.get(edge, {}).items():
            for target in targets:
                yield source, target

    def has_edge(self, edge: str, source: Element, target: Element) -> bool:
        return target in self.forth.get(edge, {}).get(source, ())

    # the five changes

    def _create(self, change: Change) -> list[AppliedChange]:
        if change.element is None:
            raise ChangeError("Cannot create a node without a name.")
        if change.element in self.nodes:
            raise ChangeError(f"Node {change.element!r} already exists, with type {self.nodes[change.element]}.")
        kind = self.kinds.creatable(change.kind)
        self.nodes[change.element] = kind
        return [AppliedChange("create", change.element, kind)]

    def _delete(self, change: Change) -> list[AppliedChange]:
        kind = self._kind_of(change.element)
        deleted_edges = [AppliedChange("unlink", *ends) for ends in self._edges_at(change.element)]
        for done in deleted_edges:
            self._cut(done.kind, done.element, done.target)
        for attribute in self.kinds.attributes(kind):
            self.values.pop((change.element, attribute), None)
        del self.nodes[change.element]
        return [*deleted_edges, AppliedChange("delete", change.element, kind)]

    def _set(self, change: Change) -> list[AppliedChange]:
        kind = self._kind_of(change.element)
        type_ = self.kinds.attribute_type(kind, change.attribute)
        new = _read_value(change.value, type_)
        if new is None and not v.is_null(change.value):
            raise ChangeError(f"{kind}.{change.attribute}: expected {type_}, got {change.value!r}.")
        place = (change.element, str(change.attribute))
        old = self.values.get(place)
        if new is None:
            self.values.pop(place, None)
        else:
            self.values[place] = new
        return [AppliedChange("set", change.element, kind, change.attribute, old, new)]

    def _link(self, change: Change) -> list[AppliedChange]:
        edge = self.kinds.edge(change.kind)
        for end, expected in ((change.element, edge.source), (change.target, edge.target)):
            if not self.kinds.is_a(self._kind_of(end), expected):
                raise ChangeError(f"Edge {edge.name}: expected a {expected}, got {end!r}, a {self.nodes[end]}.")  # type: ignore[index]
        targets = self.forth.setdefault(edge.name, {}).setdefault(change.element, set())
        if change.target in targets:
            raise ChangeError(f"Edge {change.element!r} -{edge.name}-> {change.target!r} already exists.")
        if edge.one and targets:
            raise ChangeError(f"{change.element!r} already has an edge {edge.name}; at most one is allowed.")
        assert change.target is not None
        targets.add(change.target)
        self.back.setdefault(edge.name, {}).setdefault(change.target, set()).add(change.element)
        return [AppliedChange("link", change.element, edge.name, target=change.target)]

    def _unlink(self, change: Change) -> list[AppliedChange]:
        edge = self.kinds.edge(change.kind).name
        if change.target is None or not self.has_edge(edge, change.element, change.target):
            raise ChangeError(f"Edge {change.element!r} -{edge}-> {change.target!r} not found.")
        self._cut(edge, change.element, change.target)
        return [AppliedChange("unlink", change.element, edge, target=change.target)]

    def _kind_of(self, element: Element | None) -> str:
        if element not in self.nodes:
            raise ChangeError(f"Node {element!r} not found in the model.")
        return self.nodes[element]

    def _edges_at(self, element: Element) -> Iterator[tuple[Element, str, None, None, None, Element]]:
        """Yield the edges at a node in an order independent of hashing; a self-loop once."""
        for edge in sorted(self.forth):
            for target in _sorted(self.forth[edge].get(element, ())):
                yield element, edge, None, None, None, target
            for source in _sorted(self.back.get(edge, {}).get(element, ())):
                if source != element:
                    yield source, edge, None, None, None, element

    def _cut(self, edge: str, source: Element, target: Element | None) -> None:
        assert target is not None
        for ends, one, other in ((self.forth[edge], source, target), (self.back[edge], target, source)):
            ends[one].discard(other)
            if not ends[one]:
                del ends[one]


def _read_value(value: object, type_: Type) -> Value:
    """Convert a value to an attribute type. Texts are cast: change rows have one value column for all types."""
    plain = v.scalar(value)
    return canonical(cast(plain, type_) if isinstance(plain, str) else v.conform(plain, type_))


def _sorted(elements: Iterable[Element]) -> list[Element]:
    return sorted(elements, key=lambda e: (isinstance(e, str), e))
