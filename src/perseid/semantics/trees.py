"""Reference semantics of tree patterns, by exhaustive search.

This is the specification of regular tree patterns (CEDMFT), as ``oracle`` is that of sequences: short, slow, and easy
to verify. docs/semantics.md describes the same in words.

A part is evaluated at a *place*: a node, with its children as the forest; the document, with its root as the forest; or
a single sibling. ``/a`` is a root of the forest, ``//a`` any node in it. The result is None if the part does not match,
otherwise its returned nodes: a tree for each node with a return name, and for each run of siblings.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TypeAlias

from perseid.errors import UnknownNameError, nearest
from perseid.lang import tree_patterns as tp
from perseid.semantics.documents import Element, Name, XmlAttribute

XML = "http://www.w3.org/XML/1998/namespace"
"""Namespace of the prefix ``xml`` in every document."""


@dataclass(frozen=True)
class Returned:
    """A node under its return name, with the results below it."""

    name: str
    node: Element | XmlAttribute
    inner: tuple[Result, ...] = ()


@dataclass(frozen=True)
class Run:
    """Results of one run of siblings, in the order of its members."""

    inner: tuple[Result, ...]
    first: Element
    """First member, which identifies the run independently of its results."""
    order: int
    """Index of its expression in the pattern."""


Result: TypeAlias = Returned | Run
Results: TypeAlias = tuple[Result, ...]


@dataclass(frozen=True)
class TreeLocation:
    """Location at which a part is evaluated."""

    forest: Sequence[Element]
    node: Element | None = None
    """Parent of the forest; None for the document and for a single sibling."""

    @classmethod
    def below(cls, node: Element) -> TreeLocation:
        return cls(node.children, node)

    def elements(self, axis: tp.Axis) -> Iterator[Element]:
        if axis is tp.Axis.CHILD:
            return iter(self.forest)
        return chain.from_iterable(root.walk() for root in self.forest)

    def owners(self, axis: tp.Axis) -> Iterator[Element]:
        """Yield the elements with the tested attributes: ``/@x`` the node itself, ``//@x`` also its descendants."""
        own = iter(() if self.node is None else (self.node,))
        return own if axis is tp.Axis.CHILD else chain(own, self.elements(axis))


@dataclass(frozen=True)
class Way:
    """State of matching siblings: position, number of members, and results."""

    end: int
    """Index after the last member; before the first member, the index at which the run must begin."""
    members: int = 0
    gap: bool = False
    """A ``::`` separates the last member from the next one."""
    results: Results = ()


def known_prefixes(pattern: tp.TreePattern, namespaces: Mapping[str, str]) -> Mapping[str, str]:
    """Return the namespaces by prefix; raise if the pattern uses an unknown prefix."""
    known = {**namespaces, "xml": XML}
    for part, _ in tp.walk(pattern):
        if isinstance(part, tp.TreeNode) and part.test.prefix is not None and part.test.prefix not in known:
            raise UnknownNameError(
                f"Unknown namespace prefix {part.test.prefix!r} in {tp.print_name(part.test)}.",
                nearest=nearest(part.test.prefix, namespaces),
                hint=f"Use ps.documents(…, namespaces={{{part.test.prefix!r}: 'the URI of the namespace'}}).",
            )
    return known


class DocumentEvaluation:
    """Evaluates the parts of one pattern over a document."""

    def __init__(self, root: Element, namespaces: Mapping[str, str], pattern: tp.TreePattern) -> None:
        self.root, self.namespaces = root, namespaces
        parts = [part for part, _ in tp.walk(pattern)]
        self.orders: dict[str | int, int] = {id(part): order for order, part in enumerate(parts)}
        """Index in the pattern of its parts, and of its return names."""
        for order, part in enumerate(parts):
            if isinstance(part, tp.TreeNode) and part.returns is not None:
                self.orders[part.returns] = order

    @cached_property
    def siblings(self) -> dict[Element, tuple[Element, ...]]:
        """Siblings of each element, including itself."""
        found: dict[Element, tuple[Element, ...]] = {self.root: (self.root,)}
        for one in self.root.walk():
            found.update(dict.fromkeys(one.children, one.children))
        return found

    def expression(self, expr: tp.SiblingExpr, place: TreeLocation) -> Results | None:
        return self.path(expr, place) if isinstance(expr, tp.TreeNode) else self.runs(expr, place)

    # paths

    def path(
        self, step: tp.TreeNode, place: TreeLocation, accepts: Callable[[str], bool] | None = None
    ) -> Results | None:
        """Return the distinct results of all nodes that a path reaches; ``accepts`` tests the text of its end nodes."""
        nodes = self.candidates(step, place)
        found = [below for node in nodes if (below := self.node(step, node, accepts)) is not None]
        return self.ordered(chain.from_iterable(found)) if found else None

    def candidates(self, step: tp.TreeNode, place: TreeLocation) -> Iterator[Element | XmlAttribute]:
        """Yield the nodes at a place that pass a step's test."""
        if not step.is_attribute:
            yield from (one for one in place.elements(step.axis) if self.named(step.test, one.name))
            return
        for owner in place.owners(step.axis):
            for name in owner.attributes:
                if self.named(step.test, name, attribute=True):
                    yield XmlAttribute(owner, name)

    def ordered(self, results: Iterable[Result]) -> Results:
        """Return distinct results in document order; for results with the same first node, in pattern order."""
        return tuple(sorted(dict.fromkeys(results), key=self._place))

    def _place(self, result: Result) -> tuple[int, int, int]:
        if isinstance(result, Run):
            return self.numbers[result.first], 0, result.order
        order = self.orders[result.name]
        if isinstance(result.node, Element):
            return self.numbers[result.node], 0, order
        owner = result.node.owner
        return self.numbers[owner], 1 + list(owner.attributes).index(result.node.name), order

    @cached_property
    def numbers(self) -> dict[Element, int]:
        """Index of each element in document order."""
        return {one: number for number, one in enumerate(self.root.walk())}

    def named(self, test: tp.NameTest, name: Name, *, attribute: bool = False) -> bool:
        uri, local = name
        if not test.is_wildcard and test.local != local:
            return False
        if test.prefix is not None:
            return self.namespaces[test.prefix] == uri
        # Names without a prefix: an element may have a default namespace, an attribute has none.
        return test.is_wildcard or uri == ("" if attribute else self.namespaces.get("", ""))

    def node(
        self, step: tp.TreeNode, node: Element | XmlAttribute, accepts: Callable[[str], bool] | None
    ) -> Results | None:
        """Return the results of a node that passes the step's test, and of the parts below it."""
        if step.next is None and accepts is not None and not accepts(node.text):
            return None
        parts: list[Results | None] = []
        if isinstance(node, Element):
            place = TreeLocation.below(node)
            parts += [self.predicate(one, step, node) for one in step.predicates]
            parts += [] if step.siblings is None else [self.runs(step.siblings, place)]
            parts += [] if step.next is None else [self.path(step.next, place, accepts)]
        inner: list[Result] = []
        for part in parts:
            if part is None:
                return None
            inner += part
        below = self.ordered(inner)
        return below if step.returns is None else (Returned(step.returns, node, below),)

    def predicate(self, predicate: tp.TreePredicate, step: tp.TreeNode, node: Element) -> Results | None:
        match predicate:
            case tp.Exists():
                return self.expression(predicate.expr, TreeLocation.below(node))
            case tp.Comparison():
                accepts = compares(predicate.op, predicate.value)
                if predicate.path is not None:
                    return self.path(predicate.path, TreeLocation.below(node), accepts)
                return () if accepts(node.text) else None
            case tp.Position() | tp.LastPosition():
                same_name = [one for one in self.siblings[node] if self.named(step.test, one.name)]
                place = predicate.index if isinstance(predicate, tp.Position) else len(same_name)
                return () if place <= len(same_name) and same_name[place - 1] is node else None

    # runs of siblings

    def runs(self, expr: tp.SiblingExpr, place: TreeLocation) -> Results | None:
        """Return leftmost-longest, non-overlapping runs of siblings from left to right."""
        found: list[Result] = []
        holds = any(not continuation.members for continuation in self.continuations(expr, place.forest[:0], Way(0)))
        at = 0
        while at < len(place.forest):
            continuations = [
                continuation for continuation in self.continuations(expr, place.forest, Way(at)) if continuation.members
            ]
            if not continuations:
                at += 1
                continue
            # Of those with most members, the one that ends first; of these, the first in order of preference.
            best = max(continuations, key=lambda continuation: (continuation.members, -continuation.end))
            if best.results:
                found.append(Run(best.results, place.forest[at], self.orders[id(expr)]))
            holds, at = True, best.end
        return tuple(found) if holds else None

    def continuations(self, expr: tp.SiblingExpr, forest: Sequence[Element], partial: Way) -> Iterator[Way]:
        """Yield every continuation of a match by an expression, in order of preference."""
        match expr:
            case tp.TreeNode():
                # After a gap the member is any later sibling, the nearest first.
                last = len(forest) if partial.gap else min(partial.end + 1, len(forest))
                for at in range(partial.end, last):
                    found = self.path(expr, TreeLocation((forest[at],)))
                    if found is not None:
                        yield Way(at + 1, partial.members + 1, results=partial.results + found)
            case tp.SiblingAlternation():
                for branch in expr.branches:
                    yield from self.continuations(branch, forest, partial)
            case tp.SiblingSequence():
                yield from self._sequence(expr, 0, forest, partial)
            case tp.SiblingRepeat():
                yield from self._rounds(expr, 0, forest, partial)

    def _sequence(self, expr: tp.SiblingSequence, item: int, forest: Sequence[Element], partial: Way) -> Iterator[Way]:
        for one in self.continuations(expr.items[item], forest, partial):
            if item + 1 == len(expr.items):
                yield one
                continue
            # A gap separates two members. It has no fixed length: the next member decides where it ends.
            gap = one.gap or (expr.links[item] is tp.SiblingLink.LATER and one.members > 0)
            yield from self._sequence(expr, item + 1, forest, replace(one, gap=gap))

    def _rounds(self, expr: tp.SiblingRepeat, done: int, forest: Sequence[Element], partial: Way) -> Iterator[Way]:
        """Prefer another iteration over stopping; an empty iteration counts as all missing iterations."""
        if expr.high is None or done < expr.high:
            for one in self.continuations(expr.item, forest, partial):
                if one.members > partial.members:
                    yield from self._rounds(expr, done + 1, forest, one)
                elif done < expr.low:
                    yield one
        if done >= expr.low:
            yield partial


_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*")
_OPERATORS: Mapping[str, Callable[[str | float, str | float], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compares(op: tp.ComparisonOp, value: tp.Constant) -> Callable[[str], bool]:
    """Return a comparison with a constant: numeric as doubles (non-numbers are NaN), textual by code points."""
    compare = _OPERATORS[op]
    if isinstance(value, str):
        return lambda text: compare(text, value)
    return lambda text: compare(number_of(text), float(value))


def number_of(text: str) -> float:
    """Parse a number as XPath does; NaN if the text is not a number."""
    found = _NUMBER.fullmatch(text)
    return float(found[1]) if found else float("nan")
