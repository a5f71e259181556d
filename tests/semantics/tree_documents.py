"""Documents for tests: from XML by lxml, and random; test cases as text, with the results of a pattern as lines."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lxml import etree

from perseid.lang import tree_patterns as tp
from perseid.semantics.documents import Element, Name, XmlAttribute
from perseid.semantics.trees import Result, Results, Returned, Run

PARSER = etree.XMLParser(
    resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True, huge_tree=False
)


@dataclass(frozen=True)
class Document:
    """A document as Perseid's tree and as lxml's."""

    root: Element
    source: Any
    made: dict[Any, Element]
    """Elements of Perseid by those of lxml."""

    @classmethod
    def parse(cls, text: str | bytes) -> Document:
        source = etree.fromstring(text, PARSER)
        made: dict[Any, Element] = {}
        for one in reversed(list(source.iter())):  # children before their parents
            content: list[Element | str] = [one.text] if one.text else []
            for child in one:
                content.append(made[child])
                content += [child.tail] if child.tail else []
            attributes = {_name(name): str(value) for name, value in one.attrib.items()}
            made[one] = Element(_name(one.tag), attributes, tuple(content))
        return cls(made[source], source, made)

    def of_lxml(self, found: Sequence[Any]) -> list[Element | XmlAttribute]:
        """Returns the nodes found by an XPath expression of lxml as nodes of Perseid."""
        nodes: list[Element | XmlAttribute] = []
        for one in found:
            if isinstance(one, etree._Element):
                nodes.append(self.made[one])
            else:
                nodes.append(XmlAttribute(self.made[one.getparent()], _name(one.attrname)))
        return nodes


def _name(name: str) -> Name:
    found = re.fullmatch(r"(?:\{(.*)\})?([^}]+)", name)
    assert found is not None
    return found[1] or "", found[2]


def lines(results: Results | None) -> list[str]:
    """Returns the results of a pattern as lines, with inner results indented."""
    if results is None:
        return ["nothing"]
    return list(_lines(results, "")) or ["yes"]


def _lines(results: Sequence[Result], indent: str) -> Iterator[str]:
    for one in results:
        if isinstance(one, Run):
            yield f"{indent}run"
        else:
            uri, local = one.node.name
            name = ("@" if isinstance(one.node, XmlAttribute) else "") + (f"{{{uri}}}" if uri else "") + local
            # Text of inner results is not repeated.
            text = f" {one.node.text!r}" if one.node.text and not one.inner else ""
            yield f"{indent}{one.name} {name}{text}"
        yield from _lines(one.inner, indent + "  ")


def nodes_of(results: Results, name: str) -> Iterator[Element | XmlAttribute]:
    """The nodes under a return name."""
    for one in results:
        if isinstance(one, Returned) and one.name == name:
            yield one.node
        yield from nodes_of(one.inner, name)


# cases


@dataclass(frozen=True)
class TreeCase:
    title: str
    pattern: str
    namespaces: dict[str, str]
    document: str
    gives: list[str]


def parse_tree_cases(text: str) -> list[TreeCase]:
    cases = []
    for block in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        title, *rest = block.rstrip().split("\n")
        given = {word: line.removeprefix(word).strip() for line in rest if (word := line.split(" ")[0])}
        at = next(i for i, line in enumerate(rest) if line.startswith("gives"))
        said = [line.removeprefix("  ") for line in rest[at + 1 :] if line]
        named = dict(one.split("=") for one in given.get("namespaces", "").split())
        cases.append(TreeCase(title, given["pattern"], named, given["document"], said or [given["gives"]]))
    return cases


def read_tree_cases(folder: Path) -> list[TreeCase]:
    return [case for path in sorted(folder.glob("*.txt")) for case in parse_tree_cases(path.read_text("utf-8"))]


# at random

TAGS = "abc"
NAMESPACES = {"p": "u"}
TEXTS = ("", "", "1", "2", " 2 ", "10", "x", "é", "2.0", "-1")


def random_document(chance: random.Random, size: int = 14) -> str:
    """Returns a random document with few names, flat or nested."""
    count = chance.randint(1, size)
    opened = ["<r xmlns:p='u'>"]
    stack = ["r"]
    out = [*opened, chance.choice(TEXTS)]
    for _ in range(count):
        while len(stack) > 1 and chance.random() < 0.45:
            out += [f"</{stack.pop()}>", chance.choice(TEXTS)]
        tag = ("p:" if chance.random() < 0.15 else "") + chance.choice(TAGS)
        attributes = "".join(f" {name}='{chance.choice(TEXTS)}'" for name in ("k", "p:k") if chance.random() < 0.2)
        out += [f"<{tag}{attributes}>", chance.choice(TEXTS)]
        out += ["<!-- a -->"] if chance.random() < 0.05 else []
        stack.append(tag)
    return "".join([*out, *(f"</{tag}>" for tag in reversed(stack))])


def random_siblings(chance: random.Random) -> str:
    """Returns a root with a few children, with few names and distinct texts, so that different readings differ."""
    names = chance.choices(TAGS, weights=(3, 3, 2), k=chance.randint(4, 9))
    return "<r>" + "".join(f"<{name}>{number}</{name}>" for number, name in enumerate(names)) + "</r>"


class RandomTrees:
    """Draws patterns that documents of :func:`random_document` often match."""

    def __init__(self, chance: random.Random, *, siblings: bool = True) -> None:
        self.chance, self.siblings, self.names = chance, siblings, 0

    def pattern(self) -> tp.TreePattern:
        self.names = 0
        expr: tp.SiblingExpr = self.path(3)
        if self.names == 0 and self.chance.random() < 0.8:
            expr = _returning(expr)
        return tp.TreePattern(expr)

    def ambiguous_runs(self) -> tp.TreePattern:
        """Runs of plain siblings with many gaps, which documents of :func:`random_siblings` allow in several ways."""
        self.names = 0
        runs = self.ambiguous_sequence(1)
        return tp.TreePattern(tp.TreeNode(tp.Axis.DESCENDANT, tp.NameTest("r"), siblings=runs))

    def ambiguous_sequence(self, depth: int) -> tp.SiblingExpr:
        """A member, then members and groups that mostly can be left out, most of them behind a gap."""
        chance = self.chance
        items: list[tp.SiblingExpr] = [self.plain_member()]
        for _ in range(chance.randint(1, 3)):
            item: tp.SiblingExpr = self.plain_member()
            if depth and chance.random() < 0.3:
                item = self.ambiguous_sequence(depth - 1)
            elif chance.random() < 0.2:
                item = tp.SiblingAlternation((item, self.plain_member()))
            if chance.random() < 0.6:
                item = tp.SiblingRepeat(item, *chance.choice([(0, None), (1, None), (0, 1), (0, 2), (1, 2)]))
            items.append(item)
        later, adjacent = tp.SiblingLink.LATER, tp.SiblingLink.ADJACENT
        return tp.SiblingSequence(tuple(items), tuple(chance.choice([later, later, adjacent]) for _ in items[1:]))

    def plain_member(self) -> tp.TreeNode:
        self.names += 1
        return tp.TreeNode(tp.Axis.CHILD, tp.NameTest(self.chance.choice("aaabbb*")), returns=f"x{self.names}")

    def path(self, depth: int) -> tp.TreeNode:
        chance = self.chance
        steps = chance.randint(1, 2 if depth > 1 else 1)
        rest = self.attribute() if chance.random() < 0.1 else None
        for _ in range(steps):
            rest = self.step(depth, rest)
        assert rest is not None
        return rest

    def step(self, depth: int, rest: tp.TreeNode | None) -> tp.TreeNode:
        chance = self.chance
        predicates = tuple(self.predicate(depth - 1) for _ in range(2) if depth > 0 and chance.random() < 0.3)
        siblings = None
        if self.siblings and depth > 0 and chance.random() < 0.35:
            siblings = self.expression(depth - 1, 3)
        axis = chance.choice(tuple(tp.Axis))
        return tp.TreeNode(axis, self.test(), False, self.name(), predicates, siblings, rest)

    def attribute(self) -> tp.TreeNode:
        test = tp.NameTest(self.chance.choice("kkk*"), self.chance.choice([None, None, "p"]))
        return tp.TreeNode(self.chance.choice(tuple(tp.Axis)), test, True, self.name())

    def test(self) -> tp.NameTest:
        local = self.chance.choice([*TAGS, *TAGS, "*"])
        return tp.NameTest(local, "p" if self.chance.random() < 0.1 else None)

    def name(self) -> str | None:
        if self.chance.random() < 0.6:
            return None
        self.names += 1
        return f"x{self.names}"

    def predicate(self, depth: int) -> tp.TreePredicate:
        chance, kind = self.chance, self.chance.random()
        if kind < 0.5:
            plain = not self.siblings or chance.random() < 0.6
            return tp.Exists(self.path(depth) if plain else self.expression(depth, 3))
        if kind < 0.6:
            return tp.Exists(self.attribute())
        if kind < 0.85:
            value = chance.choice([1, 2, 10, "x", "2", "é"])
            ops = ("=", "!=") if isinstance(value, str) else ("=", "!=", "<", "<=", ">", ">=")
            path = chance.choice([None, self.path(0), self.attribute()])
            return tp.Comparison(path, chance.choice(ops), value)
        return tp.Position(chance.randint(1, 2)) if chance.random() < 0.6 else tp.LastPosition()

    def expression(self, depth: int, width: int) -> tp.SiblingExpr:
        chance, kind = self.chance, self.chance.random()
        if width == 1 or kind < 0.3:
            return self.path(depth)
        if kind < 0.65:
            items = tuple(self.expression(depth, width - 1) for _ in range(chance.randint(2, 3)))
            links = tuple(
                tp.SiblingLink.LATER if chance.random() < 0.25 else tp.SiblingLink.ADJACENT for _ in items[1:]
            )
            return tp.SiblingSequence(items, links)
        if kind < 0.8:
            return tp.SiblingAlternation(tuple(self.expression(depth, width - 1) for _ in range(2)))
        low, high = chance.choice([(0, None), (1, None), (0, 1), (2, 3), (1, 2)])
        return tp.SiblingRepeat(self.expression(depth, width - 1), low, high)


def _returning(path: tp.TreeNode) -> tp.TreeNode:
    return replace(path, returns="x0") if path.next is None else replace(path, next=_returning(path.next))
