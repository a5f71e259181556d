"""The rules of tree patterns: as text, as a drawing, and interpreted, with the results of the oracle."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import perseid as ps
from perseid.engines.trees import transducer as td
from perseid.lang import tree_patterns as tp
from perseid.lang.tree_parser import parse_tree
from perseid.reference.trees import find_trees
from perseid.semantics.documents import Element, XmlAttribute
from perseid.semantics.trees import Returned, known_prefixes, number_of
from perseid.viz.tree_drawing import draw
from tests.lang.test_tree_patterns import TABLE_6
from tests.semantics.tree_documents import (
    NAMESPACES,
    Document,
    RandomTrees,
    TreeCase,
    random_document,
    random_siblings,
    read_tree_cases,
)

CASES = read_tree_cases(Path(__file__).parents[1] / "semantics" / "tree_cases")

# What the rules say, executed.

Forest: TypeAlias = tuple[Element | XmlAttribute, ...]


@dataclass(frozen=True)
class AddedNode:
    """Result of addNode."""

    name: str
    node: Element | XmlAttribute
    inner: Results


@dataclass(frozen=True)
class SiblingRun:
    """Result of reduce for a run of siblings."""

    automaton: str
    first: Element
    inner: Results


Results: TypeAlias = tuple[AddedNode | SiblingRun, ...]


@dataclass(frozen=True)
class RuleScope:
    """Bindings of the names in a rule."""

    streams: Mapping[str, Forest]
    tag: td.Tag | None = None
    y: Results = ()

    @property
    def node(self) -> Element | XmlAttribute:
        return self.streams["t"][0]


@dataclass(frozen=True)
class Over:
    """A run of siblings that a SiblingFA took, and what comes behind it."""

    taken: int
    behind: Forest
    y: Results


class Interpreter:
    """Interprets rules over forests; with `printed`, the rules of that name exactly as printed in the paper."""

    def __init__(
        self, transducer: td.Transducer, root: Element, namespaces: Mapping[str, str], printed: str | None = None
    ) -> None:
        self.rules, self.printed = transducer.rules, printed
        self.orders = {
            state.node.returns if isinstance(state, td.StepState) else state.name: order
            for order, state in enumerate(transducer.states)
        }
        """The place in the pattern of return names and of automata."""
        self.namespaces = known_prefixes(transducer.pattern, namespaces)
        self.root = root
        self.numbers = {one: number for number, one in enumerate(root.walk())}
        self.parents = {child: one for one in root.walk() for child in one.children}
        self.known: dict[tuple[str, Forest], Results | None] = {}

    def run(self) -> Results | None:
        return self.call("q0", (self.root,))

    def call(self, state: str, forest: Forest) -> Results | None:
        if state.startswith("fa"):
            forest = tuple(one for one in forest if isinstance(one, Element))
        if (state, forest) not in self.known:
            fitting = (
                (rule, scope) for rule in self.rules[state] if (scope := self.fits(rule.head, forest)) is not None
            )
            rule, scope = next(fitting)
            self.known[state, forest] = self.give(self.right(rule), scope)
        return self.known[state, forest]

    def right(self, rule: td.TransducerRule) -> td.Right:
        if rule.printed is not None and rule.corrected == self.printed:
            return rule.printed
        return rule.right

    def fits(self, head: td.Head, forest: Forest) -> RuleScope | None:
        if isinstance(head, td.Whole):
            return RuleScope({"x0": forest})
        if isinstance(head, td.EmptyForest):
            return None if forest else RuleScope({})
        if not forest or (isinstance(head, td.Tag) and not self.named(head, forest[0])):
            return None
        node = forest[0]
        below: Forest = ()
        if isinstance(node, Element):
            below = (*(XmlAttribute(node, name) for name in node.attributes), *node.children)
        streams = {"x0": forest, "x1": below, "x2": forest[1:], "t": (node,)}
        return RuleScope(streams, head if isinstance(head, td.Tag) else None)

    def named(self, tag: td.Tag, node: Element | XmlAttribute) -> bool:
        if isinstance(node, XmlAttribute) != tag.is_attribute:
            return False
        uri, local = node.name
        if not tag.test.is_wildcard and local != tag.test.local:
            return False
        if tag.test.prefix is not None:
            return uri == self.namespaces[tag.test.prefix]
        return tag.test.is_wildcard or uri == ("" if tag.is_attribute else self.namespaces.get("", ""))

    def give(self, right: td.Right, scope: RuleScope) -> Results | None:
        match right:
            case td.Empty():
                return None
            case td.RunParameter():
                return scope.y
            case td.StateCall():
                return self.call(right.state, scope.streams[right.stream])
            case td.SetMark():
                return () if right.inner is None else self.give(right.inner, scope)
            case td.AddNode():
                below = () if right.inner is None else self.give(right.inner, scope)
                return None if below is None else (AddedNode(right.name, scope.node, below),)
            case td.Concatenation() | td.Merge():
                found = [one for part in right.parts if (one := self.give(part, scope)) is not None]
                joined = tuple(result for one in found for result in one)
                if isinstance(right, td.Merge):
                    joined = tuple(sorted(dict.fromkeys(joined), key=self.place))
                return joined if found else None
            case td.Or():
                parts = (self.give(part, scope) for part in right.parts)
                return next((one for one in parts if one is not None), None)
            case td.If():
                holds = all(self.holds(one, scope) for one in right.conditions)
                return self.give(right.then if holds else right.otherwise, scope)
            case td.Longest():
                return self.longest(right, scope)
            case td.Restart():
                return self.restarting(right, scope)
        raise AssertionError(right)

    def place(self, result: AddedNode | SiblingRun) -> tuple[int, int, int]:
        """Sort key: document order, then the order of results in the pattern."""
        if isinstance(result, SiblingRun):
            return self.numbers[result.first], 0, self.orders[result.automaton]
        if isinstance(result.node, Element):
            return self.numbers[result.node], 0, self.orders[result.name]
        owner = result.node.owner
        return self.numbers[owner], 1 + list(owner.attributes).index(result.node.name), self.orders[result.name]

    def holds(self, condition: td.Condition, scope: RuleScope) -> bool:
        match condition:
            case td.ResultTest():
                return self.give(condition.call, scope) is not None
            case td.Compares():
                return compare(scope.node.text, condition.op, condition.value)
            case td.AtPosition():
                node, tag = scope.node, scope.tag
                assert isinstance(node, Element)
                assert tag is not None
                siblings = self.parents[node].children if node in self.parents else (node,)
                alike = [one for one in siblings if self.named(tag, one)]
                return alike.index(node) + 1 == (condition.index or len(alike))

    # SiblingFA

    def edges(self, state: str, forest: Forest, y: Results) -> Iterator[tuple[bool, td.StateCall | None, Results]]:
        """Yields, for each rule of an automaton state that applies to a sibling: does it take it, the call, and its
        y."""
        for rule in self.rules[state]:
            if isinstance(rule.right, td.Reduce):
                yield False, None, self.give(rule.right.run, RuleScope({}, y=y)) or ()
                continue
            scope = self.fits(rule.head, forest)
            if scope is None:
                continue
            right: td.Right = rule.right
            takes = isinstance(right, td.If)
            if isinstance(right, td.If):
                if not all(self.holds(one, scope) for one in right.conditions):
                    continue
                right = right.then
            assert isinstance(right, td.StateCall)
            assert right.parameter is not None
            yield takes, right, self.give(right.parameter, RuleScope(scope.streams, y=y)) or ()

    def ways(self, state: str, forest: Forest, y: Results = (), taken: int = 0) -> Iterator[Over]:
        for takes, call, after in self.edges(state, forest, y):
            if call is None:
                yield Over(taken, forest, after)
            else:
                yield from self.ways(call.state, forest[1:], after, taken + takes)

    def longest(self, right: td.Longest, scope: RuleScope) -> Results | None:
        forest = scope.streams["x0"]
        ways = list(self.ways(right.run, forest))
        if not ways:
            return self.call(right.search, forest[1:])
        best = max(ways, key=lambda way: (way.taken, len(way.behind)))
        return self.reduced(right.search, forest[0], best.y) + (self.call(right.search, best.behind) or ())

    def restarting(self, right: td.Restart, scope: RuleScope) -> Results | None:
        """As printed: drops a sibling that no edge takes, and reports the run if it may end there."""
        forest = scope.streams["x0"]
        begin: list[tuple[str, Results]] = [(right.run, ())]
        found, now, since = self.call(right.search, ()), begin, 0
        for at in range(len(forest) + 1):
            edges = [edge for state, y in now for edge in self.edges(state, forest[at:], y)]
            after = [(call.state, y) for _, call, y in edges if call is not None]
            over = next((y for _, call, y in edges if call is None), None)
            if not after and over is not None:
                found = (found or ()) + self.reduced(right.search, forest[since], over)
            now, since = (after, since) if after else (begin, at + 1)
        return found

    def reduced(self, automaton: str, first: Element | XmlAttribute, y: Results) -> Results:
        assert isinstance(first, Element)
        return (SiblingRun(automaton, first, y),) if y else ()


OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare(text: str, op: str, value: tp.Constant) -> bool:
    if isinstance(value, str):
        return OPERATORS[op](text, value)
    return OPERATORS[op](number_of(text), float(value))


def plain(results: Any) -> Any:
    """Returns results as nested lists, without the identity of runs."""
    if results is None:
        return None
    return [
        (one.name, one.node, plain(one.inner)) if isinstance(one, AddedNode | Returned) else plain(one.inner)
        for one in results
    ]


def format_results(results: Any) -> str:
    """Formats results: names with the text of their nodes, runs in braces."""
    if not results:
        return "nothing" if results is None else "yes"
    return " ".join(map(_format_result, plain(results)))


def _format_result(one: Any) -> str:
    if isinstance(one, list):
        return "{" + " ".join(map(_format_result, one)) + "}"
    name, node, inner = one
    return f"{name}({' '.join(map(_format_result, inner))})" if inner else f"{name}={node.text}"


# They mean what the oracle means.


def random_pairs(chance: random.Random, count: int) -> Iterator[tuple[tp.TreePattern, Element]]:
    """Returns patterns with documents; most of the random pairs that do not match are left out."""
    trees = RandomTrees(chance)
    while count:
        pattern = trees.pattern()
        root = Document.parse(random_document(chance, 30)).root
        if chance.random() < 0.1:
            # The forest of a document is its root alone, so a pattern of siblings as a whole is evaluated there.
            pattern = tp.TreePattern(tp.SiblingSequence((_ROOT, trees.expression(2, 3)), (tp.SiblingLink.ADJACENT,)))
        elif isinstance(pattern.root, tp.TreeNode):
            pattern = tp.TreePattern(replace(pattern.root, axis=tp.Axis.DESCENDANT))
        if chance.random() < 0.25:
            pattern, root = trees.ambiguous_runs(), Document.parse(random_siblings(chance)).root
        if find_trees(pattern, root, NAMESPACES) is not None or chance.random() < 0.1:
            count -= 1
            yield pattern, root


_ROOT = tp.SiblingRepeat(tp.TreeNode(tp.Axis.CHILD, tp.NameTest("r"), returns="root"), 0, 1)


@pytest.mark.parametrize("block", range(5))
def test_agrees_with_the_oracle(block: int) -> None:
    matched = runs = 0
    for pattern, root in random_pairs(random.Random(f"transducer {block}"), 100):
        expected = find_trees(pattern, root, NAMESPACES)
        given = Interpreter(td.translate(pattern), root, NAMESPACES).run()
        assert plain(given) == plain(expected), tp.print_tree(pattern)
        matched += expected is not None
        runs += "{" in format_results(expected)
    assert matched >= 50
    assert runs >= 5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_hand_worked(case: TreeCase) -> None:
    pattern = parse_tree(case.pattern).pattern
    root = Document.parse(case.document).root
    given = Interpreter(td.translate(pattern), root, case.namespaces).run()
    assert plain(given) == plain(find_trees(pattern, root, case.namespaces))


# As the paper prints them, some do not.


@dataclass(frozen=True)
class Mended:
    rule: str
    why: str
    pattern: str
    document: str
    printed: str
    ours: str


MENDED = [
    Mended("T1-1", "the first b has no c", "//r[/b[/c]]", "<r><b/><b><c/></b></r>", "nothing", "yes"),
    Mended("T1-1", "another b has another c", "//r->r/b/c->c", "<r><b><c>1</c></b><b><c>2</c></b></r>", "r(c=1)", "r(c=1 c=2)"),
    Mended("T1-3", "an a inside one that has no b", "//a[/b]", "<a><a><b/></a></a>", "nothing", "yes"),
    Mended("T1-3", "of x1 and x2, 'or' keeps one", "//a/b->x", "<r><c><a><b>1</b></a></c><a><b>2</b></a></r>", "x=1", "x=1 x=2"),
    Mended("T2-1", "the first b that is 1 has no c", "//r[/b[/c] = 1]", "<r><b>1</b><b><c>1</c></b></r>", "nothing", "yes"),
    Mended("T2-2", "the first b is not 1: and then?", "//r[/b->x = 1]", "<r><b>2</b><b>1</b></r>", "nothing", "x=1"),
    Mended("T2-4", "what comes first is asked for last", "//r->r[/c->y][/b->x]", "<r><b>1</b><c>2</c></r>", "r(y=2 x=1)", "r(x=1 y=2)"),
    Mended("T3-1", "what breaks a run may begin one", "//r(/a->x:/b)", "<r><a>1</a><a>2</a><b/></r>", "nothing", "{x=2}"),
    Mended("T3-1", "so may what a broken run has taken", "//r(/a->x:/a:/b)", "<r><a>1</a><a>2</a><a>3</a><b/></r>", "nothing", "{x=2}"),
    Mended("T3-1", "a run that goes on in vain was over", "//r(/a->x:(/b:/c)?)", "<r><a>1</a><b/></r>", "nothing", "{x=1}"),
]  # fmt: skip


@pytest.mark.parametrize("case", MENDED, ids=lambda case: f"{case.rule}, {case.why}")
def test_corrected_rules_equal_the_oracle(case: Mended) -> None:
    pattern = parse_tree(case.pattern).pattern
    root = Document.parse(case.document).root
    transducer = td.translate(pattern)
    assert case.rule in transducer.corrected
    assert format_results(find_trees(pattern, root)) == case.ours
    assert format_results(Interpreter(transducer, root, {}).run()) == case.ours
    assert format_results(Interpreter(transducer, root, {}, printed=case.rule).run()) == case.printed


def test_every_corrected_rule_has_a_case() -> None:
    assert {case.rule for case in MENDED} == set(td.CORRECTED)


def test_rules_without_a_correction_are_as_printed() -> None:
    for text in ("/a", "/a->x", "//a", "//a->x", "//a->x[/b]", "/a->x[/b = 1]", "/a->x[/b][//c->y]"):
        assert td.translate(parse_tree(text).pattern).corrected == ()


# As text: each rule next to its row of the paper's Table 2, by name.

GOLDEN = {
    "Q1.1": """
q0: the document
  q0(x0) = q1(x0)
q1: matches step 1, //dblp (T1-6 with T1-3)
  q1(dblp(x1) x2) = setMark(q2(x1)) or q1(x1) or q1(x2)  T1-3 corrected
  q1(%t(x1) x2)   = q1(x1) or q1(x2)
  q1(ε)           = ε
q2: matches step 2, /article (T1-5 with T1-1)
  q2(article(x1) x2) = setMark(q2'(x1)) or q2(x2)  T1-1 corrected
  q2(%t(x1) x2)      = q2(x2)
  q2(ε)              = ε
q2': all requirements below step 2 (T2-4)
  q2'(x0) = if q3(x0) != ε and q4(x0) != ε and q5(x0) != ε and q6(x0) != ε and q7(x0) != ε then q3(x0) q4(x0) q5(x0) q6(x0) q7(x0) else ε
q3: matches step 3, /author (T1-1 by T2-3)
  q3(author(x1) x2) = setMark(true)
  q3(%t(x1) x2)     = q3(x2)
  q3(ε)             = ε
q4: matches step 4, //title (T1-3 by T2-3)
  q4(title(x1) x2) = setMark(true)
  q4(%t(x1) x2)    = q4(x1) or q4(x2)
  q4(ε)            = ε
q5: matches step 5, //url (T1-3 by T2-3)
  q5(url(x1) x2) = setMark(true)
  q5(%t(x1) x2)  = q5(x1) or q5(x2)
  q5(ε)          = ε
q6: matches step 6, //ee (T1-3 by T2-3)
  q6(ee(x1) x2) = setMark(true)
  q6(%t(x1) x2) = q6(x1) or q6(x2)
  q6(ε)         = ε
q7: matches step 7, //year (T1-3)
  q7(year(x1) x2) = setMark(true)
  q7(%t(x1) x2)   = q7(x1) or q7(x2)
  q7(ε)           = ε
""",
    "Q1.3": """
q0: the document
  q0(x0) = q1(x0)
q1: matches step 1, //dblp (T1-6 with T1-3)
  q1(dblp(x1) x2) = setMark(q2(x1)) ∪ q1(x1) ∪ q1(x2)  T1-3 corrected
  q1(%t(x1) x2)   = q1(x1) q1(x2)                      T1-3 corrected
  q1(ε)           = ε
q2: matches step 2, //article (T1-8 with T1-3 by T2-3)
  q2(article(x1) x2) = setMark(fa1(x1)) ∪ q2(x1) ∪ q2(x2)  T1-3 corrected
  q2(%t(x1) x2)      = q2(x1) q2(x2)                       T1-3 corrected
  q2(ε)              = ε
fa1: runs of siblings below step 2, /author->A:/title:/pages:/year (T3-1)
  fa1(t x2)      = longest fa1.0(t x2, ε), then fa1 after it; if none, fa1(x2)  T3-1 corrected
  fa1(ε)         = ε
  fa1.0(t x2, y) = if q3(t) != ε then fa1.1(x2, y q3(t)) else ε
  fa1.1(t x2, y) = if q4(t) != ε then fa1.2(x2, y) else ε
  fa1.2(t x2, y) = if q5(t) != ε then fa1.3(x2, y) else ε
  fa1.3(t x2, y) = if q6(t) != ε then fa1.4(x2, y) else ε
  fa1.4(x0, y)   = reduce(y)
q3: matches step 3, /author->A (T1-2 by T3-2)
  q3(author(x1) x2) = addNode(author->A, ε) q3(x2)
  q3(%t(x1) x2)     = q3(x2)
  q3(ε)             = ε
q4: matches step 4, /title (T1-1 by T3-2)
  q4(title(x1) x2) = setMark(true)
  q4(%t(x1) x2)    = q4(x2)
  q4(ε)            = ε
q5: matches step 5, /pages (T1-1 by T3-2)
  q5(pages(x1) x2) = setMark(true)
  q5(%t(x1) x2)    = q5(x2)
  q5(ε)            = ε
q6: matches step 6, /year (T1-1 by T3-2)
  q6(year(x1) x2) = setMark(true)
  q6(%t(x1) x2)   = q6(x2)
  q6(ε)           = ε
""",
    "Q2.5": """
q0: the document
  q0(x0) = q1(x0)
q1: matches step 1, //VP (T1-6 with T1-3)
  q1(VP(x1) x2) = setMark(q2(x1)) ∪ q1(x1) ∪ q1(x2)  T1-3 corrected
  q1(%t(x1) x2) = q1(x1) q1(x2)                      T1-3 corrected
  q1(ε)         = ε
q2: matches step 2, /PP (T1-7 with T1-1 by T2-3)
  q2(PP(x1) x2) = setMark(fa1(x1)) q2(x2)  T1-1 corrected
  q2(%t(x1) x2) = q2(x2)
  q2(ε)         = ε
fa1: runs of siblings below step 2, /IN*|/NP->N[/CD][/VBN] (T3-1)
  fa1(t x2)      = longest fa1.0(t x2, ε), then fa1 after it; if none, fa1(x2)  T3-1 corrected
  fa1(ε)         = setMark(true)
  fa1.0(t x2, y) = if q3(t) != ε then fa1.1(x2, y) else ε
  fa1.0(t x2, y) = if q4(t) != ε then fa1.2(x2, y q4(t)) else ε
  fa1.1(t x2, y) = if q3(t) != ε then fa1.1(x2, y) else ε
  fa1.1(x0, y)   = reduce(y)
  fa1.2(x0, y)   = reduce(y)
q3: matches step 3, /IN (T1-1 by T3-2)
  q3(IN(x1) x2) = setMark(true)
  q3(%t(x1) x2) = q3(x2)
  q3(ε)         = ε
q4: matches step 4, /NP->N (T1-5 by T3-2)
  q4(NP(x1) x2) = addNode(NP->N, q4'(x1)) q4(x2)
  q4(%t(x1) x2) = q4(x2)
  q4(ε)         = ε
q4': all requirements below step 4 (T2-4)
  q4'(x0) = if q5(x0) != ε and q6(x0) != ε then q5(x0) q6(x0) else ε
q5: matches step 5, /CD (T1-1 by T2-3)
  q5(CD(x1) x2) = setMark(true)
  q5(%t(x1) x2) = q5(x2)
  q5(ε)         = ε
q6: matches step 6, /VBN (T1-1 by T2-3)
  q6(VBN(x1) x2) = setMark(true)
  q6(%t(x1) x2)  = q6(x2)
  q6(ε)          = ε
""",
    "Q3.6": """
q0: the document
  q0(x0) = q1(x0)
q1: matches step 1, //people (T1-6 with T1-3)
  q1(people(x1) x2) = setMark(q2(x1)) ∪ q1(x1) ∪ q1(x2)  T1-3 corrected
  q1(%t(x1) x2)     = q1(x1) q1(x2)                      T1-3 corrected
  q1(ε)             = ε
q2: matches step 2, //person (T1-6 with T1-3 by T2-3)
  q2(person(x1) x2) = setMark(q2'(x1)) ∪ q2(x1) ∪ q2(x2)  T1-3 corrected
  q2(%t(x1) x2)     = q2(x1) q2(x2)                       T1-3 corrected
  q2(ε)             = ε
q2': all requirements below step 2 (T2-4)
  q2'(x0) = if q3(x0) != ε and q5(x0) != ε then q3(x0) q5(x0) else ε
q3: matches step 3, /address->A (T1-5 by T2-3)
  q3(address(x1) x2) = addNode(address->A, q4(x1)) q3(x2)
  q3(%t(x1) x2)      = q3(x2)
  q3(ε)              = ε
q4: matches step 4, /zipcode (T2-1 by T2-3)
  q4(zipcode(x1) x2) = if value(zipcode) = 6 then setMark(true) else q4(x2)
  q4(%t(x1) x2)      = q4(x2)
  q4(ε)              = ε
q5: matches step 5, /profile (T1-5 with T1-1 by T2-3)
  q5(profile(x1) x2) = setMark(q5'(x1)) or q5(x2)  T1-1 corrected
  q5(%t(x1) x2)      = q5(x2)
  q5(ε)              = ε
q5': all requirements below step 5 (T2-4)
  q5'(x0) = if q6(x0) != ε and q7(x0) != ε then q6(x0) q7(x0) else ε
q6: matches step 6, /education (T1-1 by T2-3)
  q6(education(x1) x2) = setMark(true)
  q6(%t(x1) x2)        = q6(x2)
  q6(ε)                = ε
q7: matches step 7, //age (T1-3 by T2-3)
  q7(age(x1) x2) = setMark(true)
  q7(%t(x1) x2)  = q7(x1) or q7(x2)
  q7(ε)          = ε
""",
}


@pytest.mark.parametrize("query", GOLDEN)
def test_rules_of_table_6(query: str) -> None:
    transducer = td.translate(parse_tree(TABLE_6[query]).pattern)
    told = [f"  {name} {td.CORRECTED[name]}" for name in transducer.corrected]
    assert td.print_rules(transducer) == [*GOLDEN[query].strip().split("\n"), "corrected", *told]


@pytest.mark.parametrize("query", TABLE_6)
def test_every_query_of_table_6_is_translated(query: str) -> None:
    pattern = parse_tree(TABLE_6[query]).pattern
    assert td.print_rules(td.translate(pattern))
    assert all(draw(pattern, form) for form in ("text", "mermaid", "dot"))


def test_steps_have_the_numbers_of_the_walk() -> None:
    for seed in range(200):
        pattern = RandomTrees(random.Random(seed)).pattern()
        nodes = [part for part, _ in tp.walk(pattern) if isinstance(part, tp.TreeNode)]
        states = [state for state in td.translate(pattern).states if isinstance(state, td.StepState)]
        assert all(state.node == nodes[state.step - 1] for state in states)
        assert [state.step for state in states] == sorted(state.step for state in states)


def test_siblings_written_alike_are_one_state() -> None:
    states = {state.name for state in td.translate(parse_tree("//r(/a[/b]:/c:/a[/b]:/d)").pattern).states}
    assert states == {"q0", "q1", "fa1", "q2", "q3", "q4", "q7"}


def test_the_execute_stack() -> None:
    rules = td.translate(parse_tree(TABLE_6["Q3.6"]).pattern).rules
    address, other, end = rules["q3"]
    assert (address.children_called, address.siblings_called, address.reduced) == (("q4",), ("q3",), True)
    assert (other.children_called, other.siblings_called, other.reduced) == ((), ("q3",), False)
    assert (end.children_called, end.siblings_called, end.reduced) == ((), (), False)
    assert rules["q4"][0].reduced  # a value is known at the end tag
    assert (rules["q6"][0].children_called, rules["q6"][0].siblings_called, rules["q6"][0].reduced) == ((), (), False)


def test_drawing_of_a_large_automaton_is_truncated() -> None:
    pattern = parse_tree("//r(/a{3000})").pattern
    assert "  … 2,963 more rules" in td.print_rules(td.translate(pattern))
    assert draw(pattern).count("\n") < 100
    assert "2,961 more states" in draw(pattern, "mermaid")


def test_rules_for_attribute_position_and_text_conditions() -> None:
    rules = td.print_rules(td.translate(parse_tree("//a[2][last()][. = 'x\ny']/@k->v").pattern))
    assert rules[3] == (
        "  q1(a(x1) x2)  = if position(a) = 2 and position(a) = last() and value(a) = 'x y'"
        " then setMark(q2(x1)) ∪ q1(x1) ∪ q1(x2) else q1(x1) q1(x2)  T2-1 corrected"
    )
    assert rules[7] == "  q2(@k x2)     = addNode(@k->v, ε) q2(x2)"


# As a drawing.

DRAWN = """
(document)
└ q1 //dblp: result A
  └ q2 [//article]: result A
    └ ( ) fa1: runs of A
      ┌ /author->A:/title:/pages:/year
      │ 0: q3 → 1
      │ 1: q4 → 2
      │ 2: q5 → 3
      │ 3: q6 → 4
      │ 4: over
      └
      ├ q3 (/author->A): result A
      ├ q4 (/title): mark
      ├ q5 (/pages): mark
      └ q6 (/year): mark
((match))  result A, corrected rules: T1-3, T3-1
"""


def test_text() -> None:
    assert draw(parse_tree(TABLE_6["Q1.3"]).pattern) == DRAWN.lstrip()


def test_mermaid() -> None:
    drawn = draw(parse_tree("//r(/a->x:/b)").pattern, "mermaid", "found")
    assert (
        drawn
        == """flowchart LR
  start((start))
  s1["q1 //r"]
  s4["fa1.0"]
  s5["fa1.1"]
  s6["fa1.2, over"]
  s2["q2 /a-#gt;x"]
  s3["q3 /b"]
  match(("found"))
  start -->|"//<br/>result x"| s1
  s1 -->|"( )<br/>runs of x"| s4
  s4 -->|"q2"| s5
  s5 -->|"q3"| s6
  s1 -->|"(/)<br/>result x"| s2
  s1 -->|"(/)<br/>mark"| s3
  s1 -->|"result x"| match
  note["corrected rules: T1-3, T3-1"]:::note
  classDef note fill:none,stroke:none
  subgraph box1["fa1 /a-#gt;x:/b"]
    s4
    s5
    s6
  end
"""
    )


def test_dot() -> None:
    drawn = draw(parse_tree("/r->x:/b[. = 5]").pattern, "dot", "found").split("\n")
    assert drawn[7:] == [
        '  s3 [label="fa1.0"];',
        '  s4 [label="fa1.1"];',
        '  s5 [label="fa1.2, over"];',
        '  s1 [label="q1 /r->x"];',
        '  s2 [label="q2 /b\\nif value(b) = 5"];',
        '  start -> s3 [label="( )\\nruns of x"];',
        '  s3 -> s4 [label="q1"];',
        '  s4 -> s5 [label="q2"];',
        '  start -> s1 [label="(/)\\nresult x"];',
        '  start -> s2 [label="(/)\\nmark"];',
        '  s5 -> match [label="runs of x"];',
        '  subgraph cluster_1 { label="fa1 /r->x:/b[. = 5]"; s3; s4; s5; }',
        "}",
        "",
    ]


def test_labels_are_escaped() -> None:
    pattern = parse_tree("//r(/a:/b[. = 'say \"hi\" \\\\ <b>'])").pattern
    assert '"hi"' not in draw(pattern, "mermaid")
    assert '"hi"' not in draw(pattern, "dot").replace('\\"', "")


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ps.PerseidError, match="text, mermaid, dot or svg"):
        draw(parse_tree("//a").pattern, "pdf")  # type: ignore[arg-type]
