"""Pattern trees and their text in the language."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


class Event(NamedTuple):
    """An event; its position in the list is its place in the order of the partition."""

    type: str
    time: int
    v: int | None


# --- conditions ---------------------------------------------------------------------------------------------------


class Condition(NamedTuple):
    """`left op right`; each side is ("v",), ("const", n), ("ref", step), or (function, step) with an aggregate."""

    left: tuple[Any, ...]
    op: str
    right: tuple[Any, ...]

    def text(self) -> str:
        return f"{_side_text(self.left)} {self.op} {_side_text(self.right)}"

    def names(self) -> list[str]:
        return [side[1] for side in (self.left, self.right) if side[0] not in ("v", "const")]


def _side_text(side: tuple[Any, ...]) -> str:
    match side:
        case ("v",):
            return "v"
        case ("const", value):
            return str(value)
        case ("ref", name):
            return f"{name}.v"
        case ("count", name):
            return f"count({name})"
        case ("prev", name):
            return f"coalesce(prev({name}.v), 1)"
        case (function, name):
            return f"{function}({name}.v)"
    raise AssertionError(side)


# --- the tree -----------------------------------------------------------------------------------------------------


class Arrow(NamedTuple):
    """`,`, `->` or `->>`, with bounds in seconds. `is_member`: leads to a further member of a conjunction."""

    kind: str
    after: int | None = None
    within: int | None = None
    is_member: bool = False

    def text(self) -> str:
        after = "" if self.after is None else f" after {self.after} seconds"
        within = "" if self.within is None else f" within {self.within} seconds"
        return f"{'' if self.kind == ',' else ' '}{self.kind}{after}{within} "


THEN = Arrow("->")


@dataclass(eq=False)
class Step:
    type: str  # "any" takes every type
    name: str = ""
    condition: Condition | None = None
    must: Condition | None = None

    def text(self, quantifier: str = "") -> str:
        parts = [self.type + quantifier, self.name]
        parts += [f"[{self.condition.text()}]"] if self.condition else []
        parts += [f"must ({self.must.text()})"] if self.must else []
        return " ".join(part for part in parts if part)


@dataclass(eq=False)
class Seq:
    """Elements with the arrow before each; the first arrow is not used. `Not` occurs only in here and in `Conj`."""

    items: list[tuple[Arrow, Node]]

    def text(self) -> str:
        return "".join((arrow.text() if i else "") + _inner(item) for i, (arrow, item) in enumerate(self.items))


@dataclass(eq=False)
class Alt:
    branches: list[Node]

    def text(self) -> str:
        return " | ".join(_inner(branch) for branch in self.branches)


@dataclass(eq=False)
class Conj:
    members: list[Node]

    def text(self) -> str:
        return " & ".join(_inner(member) for member in self.members)


@dataclass(eq=False)
class Rep:
    body: Node
    low: int
    high: int | None
    is_greedy: bool = True
    mode: str = ""  # consecutive, relaxed, combinations, or by the arrow
    until: Step | None = None

    def quantifier(self) -> str:
        short = {(0, 1): "?", (0, None): "*", (1, None): "+"}.get((self.low, self.high))
        if short is None:
            if self.low == self.high:
                short = f"{{{self.low}}}"
            else:
                low = "" if self.low == 0 and self.high is not None else self.low
                short = f"{{{low},{'' if self.high is None else self.high}}}"
        return short + ("" if self.is_greedy else "?")

    def text(self) -> str:
        if isinstance(self.body, Step):
            text = self.body.text(self.quantifier())
        elif isinstance(self.body, Group):
            text = self.body.text() + self.quantifier()
        else:
            text = f"({self.body.text()}){self.quantifier()}"
        text += f" {self.mode}" if self.mode else ""
        return text + (f" until {self.until.text()}" if self.until else "")


@dataclass(eq=False)
class Group:
    body: Node
    within: int
    unit: str = "seconds"

    def text(self) -> str:
        return f"({self.body.text()} within {self.within} {self.unit})"


@dataclass(eq=False)
class Not:
    body: Node
    seconds: int | None = None

    def text(self) -> str:
        return f"not {_inner(self.body)}" + ("" if self.seconds is None else f" for {self.seconds} seconds")


Node = Step | Seq | Alt | Conj | Rep | Group | Not


def _inner(node: Node) -> str:
    return f"({node.text()})" if isinstance(node, Seq | Alt | Conj) else node.text()


def nodes_of(node: Node) -> Iterator[Node]:
    """The node and everything below it, in the order of the text."""
    yield node
    match node:
        case Seq(items):
            below: list[Node] = [item for _, item in items]
        case Alt(parts) | Conj(parts):
            below = parts
        case Rep(body) | Group(body) | Not(body):
            below = [body]
        case _:
            below = []
    for part in below:
        yield from nodes_of(part)


@dataclass(eq=False)
class Pattern:
    root: Node
    within: int | None = None
    unit: str = "seconds"
    where: list[Condition] = field(default_factory=list)
    holds: int | None = None
    skip: str = ""  # the text behind `after match skip`
    selection: str = ""
    is_strictly_later: bool = False  # an option of the stream

    def text(self) -> str:
        parts = [f"match {self.root.text()}"]
        parts += ["where " + " and ".join(c.text() for c in self.where)] if self.where else []
        parts += ["within forever" if self.within is None else f"within {self.within} {self.unit}"]
        parts += [] if self.holds is None else [f"holds for {self.holds} seconds"]
        parts += [f"selection {self.selection}"] if self.selection else []
        parts += [f"after match skip {self.skip}"] if self.skip else []
        return "\n".join(parts)


def with_arrows(node: Node, arrow: Arrow) -> Node:
    """A copy in which every arrow is the given one; `Step` objects are shared."""
    match node:
        case Seq(items):
            return Seq([(arrow, with_arrows(item, arrow)) for _, item in items])
        case Alt(parts):
            return Alt([with_arrows(part, arrow) for part in parts])
        case Conj(parts):
            return Conj([with_arrows(part, arrow) for part in parts])
        case Rep(inner) | Group(inner) | Not(inner):
            return replace(node, body=with_arrows(inner, arrow))
    return node
