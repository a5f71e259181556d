"""Brute-force tree patterns over lxml, written from the documentation alone.

The module shares no code with the product. It has a tree of its own for patterns, a printer, a matcher and
generators of random patterns and documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from lxml import etree

NAMESPACES = {"p": "urn:p", "q": "urn:q"}
XML_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*\Z")

# --- documents ---------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class XmlNode:
    """An element or an attribute with its position in document order."""

    uri: str
    name: str
    text: str
    position: tuple[int, int]  # number of the element, then 0 for the element and 1, 2, ... for its attributes
    parent: XmlNode | None = None
    children: list[XmlNode] = field(default_factory=list)
    attributes: list[XmlNode] = field(default_factory=list)
    _subtree: list[XmlNode] = field(default_factory=list)

    @property
    def siblings(self) -> list[XmlNode]:
        return self.parent.children if self.parent is not None else [self]

    def subtree(self) -> list[XmlNode]:
        """The node and all nodes below it, in document order."""
        if not self._subtree:
            self._subtree = [self, *(node for child in self.children for node in child.subtree())]
        return self._subtree


def _split(tag: str) -> tuple[str, str]:
    name = etree.QName(tag)
    return name.namespace or "", name.localname


def read_document(xml: str) -> XmlNode:
    """Root of a document, parsed by lxml; comments and processing instructions are left out."""
    count = 0

    def convert(element: Any, parent: XmlNode | None) -> XmlNode:
        nonlocal count
        count += 1
        number = count
        uri, name = _split(element.tag)
        node = XmlNode(uri, name, "", (number, 0), parent)
        for index, (key, value) in enumerate(element.attrib.items(), 1):
            node.attributes.append(XmlNode(*_split(key), value, (number, index), node))
        parts = [element.text or ""]
        for child in element:
            if isinstance(child.tag, str):
                node.children.append(convert(child, node))
                parts.append(node.children[-1].text)
            parts.append(child.tail or "")
        node.text = "".join(parts)
        return node

    return convert(etree.fromstring(xml), None)


# --- patterns ----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class TreeConstant:
    """A number or a text on the right of a comparison, with its spelling."""

    spelling: str
    value: float | str


@dataclass(eq=False)
class Compare:
    """`[. op constant]`, or the comparison at the end of a path."""

    op: str
    constant: TreeConstant


@dataclass(eq=False)
class Position:
    """`[n]`, or `[last()]` for 0."""

    index: int


@dataclass(eq=False)
class Has:
    """`[path]` or `[path op constant]`."""

    path: TreeStep
    compare: Compare | None = None
    prefix: str = ""  # "." as in [.//a]


@dataclass(eq=False)
class TreeGroup:
    """`( )`: an expression over the children."""

    expression: Expression
    number: int = 0


@dataclass(eq=False)
class TreeStep:
    """One step of a path with everything written behind it."""

    axis: str
    test: str  # name, p:name, *, @name, @*
    name: str | None = None
    suffixes: list[Compare | Position | Has | TreeGroup] = field(default_factory=list)
    rest: TreeStep | None = None
    name_at: int = 0  # number of suffixes before the return name
    arrow: str = "->"
    number: int = 0

    @property
    def is_attribute(self) -> bool:
        return self.test.startswith("@")


@dataclass(eq=False)
class Member:
    """A path that one sibling satisfies."""

    path: TreeStep


@dataclass(eq=False)
class TreeSequence:
    """Parts joined by `:` or `::`."""

    parts: list[Expression]
    joints: list[str]


@dataclass(eq=False)
class Either:
    """Branches joined by `|`."""

    parts: list[Expression]


@dataclass(eq=False)
class TreeRepeat:
    """A repeated part."""

    part: Expression
    low: int
    high: int | None
    spelling: str


Expression = Member | TreeSequence | Either | TreeRepeat


def print_step(step: TreeStep) -> str:
    """Text of a path."""
    parts = [step.axis, step.test]
    for index in range(len(step.suffixes) + 1):
        if step.name is not None and index == min(step.name_at, len(step.suffixes)):
            parts.append(f"{step.arrow}{step.name}")
        if index < len(step.suffixes):
            parts.append(_print_suffix(step.suffixes[index]))
    if step.rest is not None:
        parts.append(print_step(step.rest))
    return "".join(parts)


def _print_compare(compare: Compare) -> str:
    return f" {compare.op} {compare.constant.spelling}"


def _print_suffix(suffix: Compare | Position | Has | TreeGroup) -> str:
    if isinstance(suffix, Compare):
        return f"[.{_print_compare(suffix)}]"
    if isinstance(suffix, Position):
        return f"[{suffix.index or 'last()'}]"
    if isinstance(suffix, TreeGroup):
        return f"({print_expression(suffix.expression)})"
    path = print_step(suffix.path)
    if suffix.prefix == "@":
        path = path[1:]  # [/@k] is also written [@k]
    elif suffix.prefix == ".":
        path = "." + path
    return f"[{path}{_print_compare(suffix.compare) if suffix.compare else ''}]"


def print_expression(expression: Expression) -> str:
    """Text of an expression over siblings."""
    if isinstance(expression, Member):
        return print_step(expression.path)
    if isinstance(expression, Either):
        return " | ".join(print_expression(part) for part in expression.parts)
    if isinstance(expression, TreeRepeat):
        inner = print_expression(expression.part)
        plain = isinstance(expression.part, Member) and _is_single(expression.part.path)
        return (inner if plain else f"({inner})") + expression.spelling
    texts = [
        print_expression(part) if isinstance(part, Member | TreeRepeat) else f"({print_expression(part)})"
        for part in expression.parts
    ]
    return texts[0] + "".join(joint + text for joint, text in zip(expression.joints, texts[1:], strict=True))


def _is_single(step: TreeStep) -> bool:
    return step.rest is None and not any(isinstance(suffix, TreeGroup) for suffix in step.suffixes)


def steps_of(step: TreeStep) -> Iterator[TreeStep]:
    """All steps of a pattern: a step, those of its predicates, of its group, then the rest of its path.

    A group comes behind the predicates of its step, also where it is written before them.
    """
    yield step
    for suffix in sorted(step.suffixes, key=lambda suffix: isinstance(suffix, TreeGroup)):
        if isinstance(suffix, Has):
            yield from steps_of(suffix.path)
        elif isinstance(suffix, TreeGroup):
            yield from _steps_of_expression(suffix.expression)
    if step.rest is not None:
        yield from steps_of(step.rest)


def _steps_of_expression(expression: Expression) -> Iterator[TreeStep]:
    if isinstance(expression, Member):
        yield from steps_of(expression.path)
    elif isinstance(expression, TreeRepeat):
        yield from _steps_of_expression(expression.part)
    else:
        for part in expression.parts:
            yield from _steps_of_expression(part)


def number_steps(step: TreeStep) -> None:
    """Number steps and groups in the order that decides between results at one node."""
    count = 0
    for each in steps_of(step):
        count += 100
        each.number = count
    for each in steps_of(step):
        for suffix in each.suffixes:
            if isinstance(suffix, TreeGroup):
                first = next(_steps_of_expression(suffix.expression))
                suffix.number = first.number - 1  # just before the first step in the group
                while suffix.number in _taken(step, suffix):
                    suffix.number -= 1


def _taken(root: TreeStep, but: TreeGroup) -> set[int]:
    return {
        suffix.number
        for step in steps_of(root)
        for suffix in step.suffixes
        if isinstance(suffix, TreeGroup) and suffix is not but
    }


# --- matching ----------------------------------------------------------------------------------------------------


def as_number(text: str) -> float | None:
    """Number in a text, read as XPath reads one."""
    found = XML_NUMBER.match(text)
    return float(found.group(1)) if found else None


def compare_values(op: str, left: Any, right: Any) -> bool:
    """Truth of a comparison of two numbers or two texts."""
    return bool(
        {
            "=": left == right,
            "!=": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[op]
    )


def compare_text(compare: Compare, text: str) -> bool:
    """Truth of a comparison of a node's text with a constant."""
    constant = compare.constant.value
    if isinstance(constant, str):
        return compare_values(compare.op, text, constant)
    number = as_number(text)
    if number is None:
        return compare.op == "!="
    return compare_values(compare.op, number, constant)


@dataclass(eq=False)
class Result:
    """A returned node or a run, with the inner results."""

    key: tuple[int, tuple[int, int]]
    position: tuple[int, int]
    variable: str | None
    node: XmlNode | None
    inner: list[Result]

    def flatten(self, level: int = 0) -> Iterator[tuple[str | None, int, str | None, str | None, str]]:
        if self.node is None:
            yield (None, level, None, None, "")
        else:
            yield (self.variable, level, self.node.uri, self.node.name, self.node.text)
        for result in self.inner:
            yield from result.flatten(level + 1)


@dataclass(frozen=True)
class _Way:
    """Members of a run so far; `gap` is set behind `::`."""

    members: tuple[tuple[TreeStep, int], ...]
    gap: bool


class TreeMatcher:
    """Matches one pattern in one document."""

    def __init__(self, pattern: TreeStep, root: XmlNode, namespaces: dict[str, str]) -> None:
        self.pattern = pattern
        self.root = root
        self.namespaces = namespaces
        self._holds: dict[tuple[int, tuple[int, int]], bool] = {}
        self._inside: dict[tuple[int, tuple[int, int], int], list[Result] | None] = {}

    def match(self) -> tuple[bool, list[Result]]:
        """Truth of the pattern, and its results in document order."""
        return self.find(self.pattern, [self.root], None, None)

    def candidates(self, step: TreeStep, forest: list[XmlNode], owner: XmlNode | None) -> Iterator[XmlNode]:
        """Nodes of the forest that pass the test of a step."""
        if step.is_attribute:
            nodes = [owner] if owner is not None else []
            if step.axis == "//":
                nodes = nodes + [node for tree in forest for node in tree.subtree()]
            found = [attribute for node in nodes for attribute in node.attributes]
        elif step.axis == "//":
            found = [node for tree in forest for node in tree.subtree()]
        else:
            found = forest
        return (node for node in found if self.passes_test(step.test, node))

    def passes_test(self, test: str, node: XmlNode) -> bool:
        """Truth of a name test. An element name without a prefix is in the namespace of the empty prefix, if any."""
        name = test.removeprefix("@")
        if name == "*":
            return True
        prefix, colon, local = name.rpartition(":")
        if node.name != local:
            return False
        if not colon and name is not test:
            return node.uri == ""
        return node.uri == self.namespaces.get(prefix, "")

    def member_holds(self, path: TreeStep, sibling: XmlNode) -> bool:
        """Truth of a member's path at one sibling."""
        key = (id(path), sibling.position)
        if key not in self._holds:
            self._holds[key] = self.find(path, [sibling], None, None)[0]
        return self._holds[key]

    def find(
        self, step: TreeStep, forest: list[XmlNode], owner: XmlNode | None, compare: Compare | None
    ) -> tuple[bool, list[Result]]:
        """Truth of a path in a forest, and its results."""
        holds = False
        results: list[Result] = []
        for node in self.candidates(step, forest, owner):
            inner = self.inside(step, node, compare)
            if inner is None:
                continue
            holds = True
            if step.name is None:
                results.extend(inner)
            else:
                results.append(Result((step.number, node.position), node.position, step.name, node, inner))
        return holds, arrange(results)

    def inside(self, step: TreeStep, node: XmlNode, compare: Compare | None) -> list[Result] | None:
        """Results below a node that a step finds, or None where the step does not find the node."""
        key = (id(step), node.position, id(compare))
        if key not in self._inside:
            self._inside[key] = self._compute_inside(step, node, compare)
        return self._inside[key]

    def fits(self, suffixes: list[Compare | Position | Has | TreeGroup], test: str, node: XmlNode) -> bool:
        """Truth of suffixes at a node that passed the test of its step."""
        return self._compute_inside(TreeStep("/", test, suffixes=suffixes), node, None) is not None

    def _compute_inside(self, step: TreeStep, node: XmlNode, compare: Compare | None) -> list[Result] | None:
        results: list[Result] = []
        if step.rest is None and compare is not None and not compare_text(compare, node.text):
            return None
        for suffix in step.suffixes:
            if isinstance(suffix, Compare):
                if not compare_text(suffix, node.text):
                    return None
            elif isinstance(suffix, Position):
                counted = [sibling for sibling in node.siblings if self.passes_test(step.test, sibling)]
                if suffix.index > len(counted) or counted[suffix.index - 1] is not node:
                    return None
            elif isinstance(suffix, Has):
                holds, found = self.find(suffix.path, node.children, node, suffix.compare)
                if not holds:
                    return None
                results.extend(found)
            else:
                runs = self.runs(suffix.expression, node.children)
                if not runs and not is_nullable(suffix.expression):
                    return None
                for run in runs:
                    inner = [
                        result
                        for member, index in run
                        for result in self.find(member, [node.children[index]], None, None)[1]
                    ]
                    if inner:
                        key = (suffix.number, node.children[run[0][1]].position)
                        results.append(Result(key, key[1], None, None, inner))
        if step.rest is not None:
            holds, found = self.find(step.rest, node.children, node, compare)
            if not holds:
                return None
            results.extend(found)
        return arrange(results)

    def runs(self, expression: Expression, siblings: list[XmlNode]) -> list[tuple[tuple[TreeStep, int], ...]]:
        """Runs of siblings from left to right; they share no sibling."""
        found = []
        start = 0
        while start < len(siblings):
            best: tuple[tuple[TreeStep, int], ...] = ()
            for way in self.ways(expression, _Way((), False), siblings, start):
                members = way.members
                if members and (
                    len(members) > len(best) or (len(members) == len(best) and members[-1][1] < best[-1][1])
                ):
                    best = members
            if best:
                found.append(best)
                start = best[-1][1] + 1
            else:
                start += 1
        return found

    def ways(self, expression: Expression, way: _Way, siblings: list[XmlNode], start: int) -> Iterator[_Way]:
        """All ways to read an expression from a partial run on, the preferred ones first."""
        if isinstance(expression, Member):
            if not way.members:
                places = range(start, start + 1)
            else:
                last = way.members[-1][1]
                places = range(last + 1, len(siblings) if way.gap else min(last + 2, len(siblings)))
            for place in places:
                if self.member_holds(expression.path, siblings[place]):
                    yield _Way((*way.members, (expression.path, place)), False)
        elif isinstance(expression, Either):
            for part in expression.parts:
                yield from self.ways(part, way, siblings, start)
        elif isinstance(expression, TreeSequence):
            yield from self._sequence_ways(expression, 0, way, siblings, start)
        else:
            yield from self._repeat_ways(expression, 0, way, siblings, start)

    def _sequence_ways(
        self, sequence: TreeSequence, index: int, way: _Way, siblings: list[XmlNode], start: int
    ) -> Iterator[_Way]:
        for after in self.ways(sequence.parts[index], way, siblings, start):
            if index + 1 == len(sequence.parts):
                yield after
            else:
                behind = _Way(after.members, after.gap or sequence.joints[index] == "::")
                yield from self._sequence_ways(sequence, index + 1, behind, siblings, start)

    def _repeat_ways(
        self, repeat: TreeRepeat, count: int, way: _Way, siblings: list[XmlNode], start: int
    ) -> Iterator[_Way]:
        if repeat.high is None or count < repeat.high:
            for after in self.ways(repeat.part, way, siblings, start):
                if len(after.members) > len(way.members):
                    yield from self._repeat_ways(repeat, count + 1, after, siblings, start)
                elif count < repeat.low:
                    yield after  # an iteration without members completes all iterations that are still required
        if count >= repeat.low:
            yield way


def is_nullable(expression: Expression) -> bool:
    """Truth of: the expression can be empty."""
    if isinstance(expression, Member):
        return False
    if isinstance(expression, TreeRepeat):
        return expression.low == 0 or is_nullable(expression.part)
    if isinstance(expression, Either):
        return any(is_nullable(part) for part in expression.parts)
    return all(is_nullable(part) for part in expression.parts)


def arrange(results: list[Result]) -> list[Result]:
    """Each result once, in document order, then in the order of the pattern."""
    return sorted({result.key: result for result in results}.values(), key=lambda each: (each.position, each.key[0]))


def match_rows(pattern: TreeStep, root: XmlNode, namespaces: dict[str, str]) -> list[tuple[int, list[tuple[Any, ...]]]]:
    """Place and nodes of each row; a pattern without return names has one row without nodes, or none."""
    holds, results = TreeMatcher(pattern, root, namespaces).match()
    if not any(step.name is not None for step in steps_of(pattern)):
        return [(0, [])] if holds else []
    return [(result.position[0], list(result.flatten())) for result in results]


# --- random cases ------------------------------------------------------------------------------------------------

ELEMENT_NAMES = ["a", "b", "c", "d"]
TEXTS = ["1", "2", "3", "10", "x", "y", "xy", "", " 2 ", "2.0", "-1", "1e1", "+2", ".5", "2.", "é", "A&B", "- 1", "02"]


def random_alphabet(random: Random) -> list[str]:
    """Element names that a case uses; few names make many matches."""
    return ELEMENT_NAMES[: random.choice([2, 3, 3, 4])]


def random_document(random: Random, names: list[str]) -> str:
    """Text of a small document with namespaces, comments, CDATA and mixed content."""
    if random.random() < 0.35:
        children = (random.choice(names[:3]) for _ in range(random.randint(3, 7)))
        return "<r>" + "".join(f"<{name}>{number}</{name}>" for number, name in enumerate(children)) + "</r>"
    budget = [random.randint(3, 22)]
    spaces = random.random() < 0.25
    widths = random.choice([[0, 1, 2, 3], [0, 1, 2, 3, 4, 6], [0, 0, 0, 4, 7]])

    def write(depth: int) -> str:
        budget[0] -= 1
        name = random.choice(names) if depth else random.choice(["r", "r", "a", "b"])
        declared = ""
        if not depth:
            declared = ' xmlns:p="urn:p" xmlns:z="urn:q"'
        if spaces and random.random() < 0.15:
            name = random.choice(["p:", "z:"]) + name
        elif spaces and random.random() < 0.1:
            declared += ' xmlns="urn:p"' if random.random() < 0.5 else ' xmlns=""'
        attributes = ""
        for key in random.sample(["k", "j", "p:k"], 3):
            if random.random() < 0.22:
                attributes += f' {key}="{_escape(random.choice(TEXTS))}"'
        content = [_random_text(random, 0.15)] if depth < 3 else [_random_text(random, 0.7)]
        for _ in range(random.choice(widths) if depth else random.randint(1, 8)):
            if depth < 4 and budget[0] > 0:
                content.append(write(depth + 1))
                content.append(_random_text(random, 0.08))
        if len(content) == 1 and random.random() < 0.7:
            content = [_random_text(random, 1)]
        body = "".join(content)
        if not body and random.random() < 0.5:
            return f"<{name}{declared}{attributes}/>"
        return f"<{name}{declared}{attributes}>{body}</{name}>"

    return write(0)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _random_text(random: Random, chance: float) -> str:
    text = ""
    if random.random() < 0.05:
        text += random.choice(["<!-- 7 -->", "<?pi 7?>", "\n "])
    if random.random() < chance:
        value = random.choice(TEXTS)
        form = random.random()
        if form < 0.06:
            text += f"<![CDATA[{value}]]>"
        elif form < 0.1 and value:
            text += f"&#x{ord(value[0]):x};{_escape(value[1:])}"
        else:
            text += _escape(value)
    return text


def _stands_behind_positions(suffix: Compare | Position | Has | TreeGroup) -> bool:
    """Sort key: a position comes before a group."""
    return not isinstance(suffix, Position)


class TreePatternMaker:
    """Random patterns that stay within the documented language."""

    def __init__(self, random: Random, alphabet: list[str], returns: float | None = None) -> None:
        self.random = random
        self.alphabet = alphabet
        self.returns = random.choice([0.0, 0.3, 0.5, 0.8]) if returns is None else returns
        self.names = 0
        self.plain = False
        self.budget = random.choice([3, 5, 7, 9])

    def make(self) -> TreeStep:
        """A numbered pattern."""
        if self.random.random() < 0.35:
            return self.make_runs()
        step = self.step("//" if self.random.random() < 0.8 else "/", 0, top=True)
        if self.returns and not any(each.name for each in steps_of(step)):
            last = self.random.choice(list(steps_of(step)))
            last.name = self.new_name()
        number_steps(step)
        return step

    def make_runs(self) -> TreeStep:
        """A numbered pattern that is one expression over plain siblings, with several ways to read them."""
        self.plain = True
        self.returns = 0.85
        self.budget = 6
        step = TreeStep("//", self.random.choice(["r", "*"]))
        step.suffixes.append(TreeGroup(self.expression(0, 0)))
        if self.random.random() < 0.3:
            step.name = self.new_name()
        number_steps(step)
        return step

    def new_name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def constant(self) -> TreeConstant:
        if self.random.random() < 0.5:
            spelling = self.random.choice(["1", "2", "3", "2.0", "-1", "0", "10", "0.5"])
            return TreeConstant(spelling, float(spelling))
        text = self.random.choice([*TEXTS, "it's"])
        return TreeConstant("'" + text.replace("'", "''") + "'", text)

    def compare(self) -> Compare:
        return Compare(self.random.choice(["=", "=", "!=", "<", "<=", ">", ">="]), self.constant())

    def test(self, *, top: bool) -> str:
        roll = self.random.random()
        if roll < 0.15:
            return "*"
        if roll < 0.21:
            return self.random.choice(["p:", "q:"]) + self.random.choice(self.alphabet)
        return self.random.choice([*self.alphabet, "r", "r"] if top else self.alphabet)

    def step(self, axis: str, depth: int, *, top: bool = False, member: bool = False) -> TreeStep:
        random = self.random
        self.budget -= 1
        step = TreeStep(axis, self.test(top=top), arrow=random.choice(["->", "->", "->", " as ", " -> "]))
        if random.random() < self.returns:
            step.name = self.new_name()
        if random.random() < 0.07:
            step.suffixes.append(self.compare())
        if random.random() < 0.09:
            step.suffixes.append(Position(random.choice([1, 1, 2, 2, 3] if member else [0, 0, 1, 2, 2, 3])))
        while depth < 3 and self.budget > 0 and random.random() < 0.4:
            step.suffixes.append(self.has(depth + 1))
        if depth < 3 and self.budget > 0 and random.random() < (0.15 if member else 0.4):
            step.suffixes.append(TreeGroup(self.expression(depth + 1, 0)))
        random.shuffle(step.suffixes)
        step.suffixes.sort(key=_stands_behind_positions)
        if depth < 3 and self.budget > 0 and random.random() < 0.25:
            step.rest = self.attribute() if random.random() < 0.2 else self.step(self.axis(), depth + 1)
        step.name_at = random.choice([0, 0, 1, 2])
        return step

    def axis(self) -> str:
        return "//" if self.random.random() < 0.4 else "/"

    def attribute(self) -> TreeStep:
        self.budget -= 1
        step = TreeStep(self.random.choice(["/", "/", "//"]), self.random.choice(["@k", "@j", "@p:k", "@*"]))
        if self.random.random() < self.returns:
            step.name = self.new_name()
        return step

    def has(self, depth: int) -> Has:
        random = self.random
        path = self.attribute() if random.random() < 0.25 else self.step(self.axis(), depth)
        has = Has(path)
        if random.random() < 0.35:
            has.compare = self.compare()
        if path.is_attribute and path.axis == "/" and random.random() < 0.5:
            has.prefix = "@"
        elif random.random() < 0.2:
            has.prefix = "."
        return has

    def expression(self, depth: int, nesting: int) -> Expression:
        random = self.random
        roll = random.random()
        if nesting > 2 or self.budget <= 1 or roll < 0.12:
            return self.repeated(Member(self.member(depth)))
        if roll < 0.78:
            count = random.choice([2, 2, 2, 3])
            joints = [":", "::"] if self.plain else [":", ":", ":", "::"]
            parts: list[Expression] = []
            for _ in range(count):
                part = self.repeated(Member(self.member(depth)))
                parts.append(
                    self.repeated(self.expression(depth, nesting + 1))
                    if random.random() < (0.4 if self.plain else 0.2)
                    else part
                )
            return self.repeated(TreeSequence(parts, [random.choice(joints) for _ in range(count - 1)]), nested=True)
        parts = [self.expression(depth, nesting + 1) for _ in range(2)]
        return self.repeated(Either(parts), nested=True)

    def member(self, depth: int) -> TreeStep:
        if self.plain:
            self.budget -= 1
            named = self.random.random() < self.returns
            return TreeStep("/", self.random.choice([*self.alphabet[:3], "*"]), self.new_name() if named else None)
        return self.step("//" if self.random.random() < 0.1 else "/", depth, member=True)

    def repeated(self, part: Expression, *, nested: bool = False) -> Expression:
        random = self.random
        if random.random() < (0.75 if nested else 0.6) or isinstance(part, TreeRepeat):
            return part
        low, high, spelling = random.choice(
            [
                (0, None, "*"),
                (1, None, "+"),
                (0, 1, "?"),
                (2, 2, "{2}"),
                (2, None, "{2,}"),
                (0, 2, "{,2}"),
                (1, 2, "{1,2}"),
                (2, 3, "{2,3}"),
                (0, 3, "{0,3}"),
            ]
        )
        return TreeRepeat(part, low, high, spelling)
