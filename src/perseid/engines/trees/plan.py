"""Compiler of a set of tree patterns to the matcher's plan: steps as integers.

Steps are numbered in the order of the pattern: a step, its predicates, the expression over its children, the rest of
its path. A sibling expression is a step of its own, at the same element as its parent step; its items are the steps
below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from perseid.engines.trees import match_layout as y
from perseid.engines.trees.bounds import Bound, bounds_of
from perseid.engines.trees.siblings import END_OF_RUN, SiblingFA, sibling_automaton
from perseid.errors import LimitError, UnsupportedError
from perseid.lang import tree_patterns as tp
from perseid.runtime.arrays import IntArray
from perseid.semantics.documents import Name
from perseid.semantics.trees import known_prefixes

MAX_DEMANDS = 62
_OPS = {"=": y.EQUAL, "!=": y.UNEQUAL, "<": y.LESS_THAN, "<=": y.AT_MOST, ">": y.MORE_THAN, ">=": y.AT_LEAST}


@dataclass
class PlanStep:
    """One step, before it is encoded as integers."""

    kind: int
    parent: int
    pattern: int
    axis: int = y.CHILD
    test: tp.NameTest | None = None
    uri: str | None = None
    """The namespace of its name; None matches any."""
    returns: str | None = None
    bit: int = -1
    demands: int = 0
    """Number of requirement bits of its candidates."""
    comparisons: list[tuple[int, tp.Comparison]] = field(default_factory=list)
    position: int = 0
    last_bit: int = -1
    fa: SiblingFA | None = None
    machines: list[int] = field(default_factory=list)
    returns_below: bool = False
    returns_text: bool = False
    """True if it is returned with its text."""
    ropes: list[int] = field(default_factory=list)
    """Of a sibling expression: by item, the number of its rope, or -1."""

    @property
    def is_leaf(self) -> bool:
        """True for an element that returns nothing and requires nothing but comparisons of its text."""
        only_text = bool(self.comparisons) and self.demands == len(self.comparisons) and not self.machines
        is_plain = self.kind == y.ELEMENT_STEP and self.returns is None and not self.position
        return is_plain and only_text

    @property
    def all_demands(self) -> int:
        return (1 << self.demands) - 1 if self.kind != y.RUN_STEP else 0

    def demand(self) -> int:
        """Allocate another requirement bit."""
        if self.demands == MAX_DEMANDS:
            raise LimitError(f"A step of a tree pattern has at most {MAX_DEMANDS} conditions.")
        self.demands += 1
        return self.demands - 1


@dataclass(frozen=True)
class TreePlan:
    """A compiled set of tree patterns."""

    patterns: tuple[tp.TreePattern, ...]
    steps: tuple[PlanStep, ...]
    names: tuple[Name, ...]
    """Names that steps test: the scanner gives them the first numbers."""
    ints: IntArray
    constants: bytes
    """Texts and digits to compare with. Bytes, because kernels take a read-only array, and unpickled ones are not."""
    lists: Mapping[tuple[bool, Name], int]
    """Offset of the list of steps that test a name, by (is an attribute, name)."""
    others: Mapping[tuple[bool, str | None], int]
    """Offset of the list for names in no step, by (is an attribute, namespace); None is any other namespace."""

    @property
    def texts(self) -> bool:
        """True if the text of any element is needed."""
        return any(step.kind == y.ELEMENT_STEP and _needs_text(step) for step in self.steps)

    @property
    def attributes(self) -> bool:
        return any(step.kind == y.ATTRIBUTE_STEP for step in self.steps)

    def steps_of(self, name: Name, *, attribute: bool) -> int:
        """Return the offset of the list of steps that test a name; 0 if there are none."""
        offset = self.lists.get((attribute, name))
        if offset is None:
            offset = self.others.get((attribute, name[0]), self.others[attribute, None])
        return offset


def _is_wild(step: PlanStep) -> bool:
    """Return whether every child element passes the step's test."""
    any_name = step.test is not None and step.test.is_wildcard and step.uri is None
    return any_name and step.kind == y.ELEMENT_STEP and step.axis == y.CHILD


def _needs_text(step: PlanStep) -> bool:
    return step.returns_text or bool(step.comparisons)


def tree_plan(
    patterns: Iterable[tp.TreePattern], namespaces: Mapping[str, str] | None = None, inner_texts: bool = True
) -> TreePlan:
    """Compile a set of patterns with the same namespace prefixes.

    Without ``inner_texts``, returned nodes that contain returned nodes have empty texts.
    """
    all_patterns = tuple(patterns)
    numbering = _Numbering()
    for number, pattern in enumerate(all_patterns):
        numbering.add(number, pattern, known_prefixes(pattern, namespaces or {}))
    numbering.steps.append(PlanStep(y.LEAF_STEP, -1, -1))
    return _Writing(all_patterns, numbering.steps).plan(inner_texts)


class _Numbering:
    """Numbers the steps of patterns."""

    def __init__(self) -> None:
        self.steps = [PlanStep(y.DOCUMENT_STEP, -1, -1)]

    def add(self, number: int, pattern: tp.TreePattern, namespaces: Mapping[str, str]) -> None:
        self.number, self.namespaces = number, namespaces
        self.expression(pattern.root, 0)

    def expression(self, expr: tp.SiblingExpr, parent: int) -> None:
        """Add a requirement of a step: a path, or a sibling expression."""
        if isinstance(expr, tp.TreeNode):
            self.path(expr, parent, self._demand(parent))
        else:
            self.runs(expr, parent)

    def _demand(self, parent: int) -> int:
        return self.steps[parent].demand() if parent else -1

    def path(self, first: tp.TreeNode, parent: int, bit: int, judge: tp.Comparison | None = None) -> None:
        """Add the steps of a path, each the parent of the next; a comparison applies to the last one."""
        step: tp.TreeNode | None = first
        while step is not None:
            parent = self.step(step, parent, bit, judge)
            step = step.next
            bit = self._demand(parent) if step is not None else -1

    def step(self, node: tp.TreeNode, parent: int, bit: int, judge: tp.Comparison | None) -> int:
        prefix = node.test.prefix
        uri = None
        if prefix is not None:
            uri = self.namespaces[prefix]
        elif not node.test.is_wildcard:
            uri = "" if node.is_attribute else self.namespaces.get("", "")
        step = PlanStep(
            kind=y.ATTRIBUTE_STEP if node.is_attribute else y.ELEMENT_STEP,
            parent=parent,
            pattern=self.number,
            axis=y.CHILD if node.axis is tp.Axis.CHILD else y.DESCENDANT,
            test=node.test,
            uri=uri,
            returns=node.returns,
            bit=bit,
        )
        number = len(self.steps)
        self.steps.append(step)
        if judge is not None and node.next is None:
            step.comparisons.append((step.demand(), judge))
        for predicate in node.predicates:
            match predicate:
                case tp.Exists():
                    self.expression(predicate.expr, number)
                case tp.Comparison():
                    if predicate.path is None:
                        step.comparisons.append((step.demand(), predicate))
                    else:
                        self.path(predicate.path, number, self._demand(number), predicate)
                case tp.Position():
                    step.position = predicate.index if step.position in (0, predicate.index) else -1
                case tp.LastPosition():
                    if step.last_bit < 0:
                        step.last_bit = step.demand()
        if node.siblings is not None:
            self.runs(node.siblings, number)
        return number

    def runs(self, expr: tp.SiblingExpr, parent: int) -> None:
        fa = sibling_automaton(expr)
        number = len(self.steps)
        bit = -1 if fa.nullable else self._demand(parent)
        step = PlanStep(y.RUN_STEP, parent, self.number, axis=y.SELF, bit=bit, fa=fa)
        self.steps.append(step)
        self.steps[parent].machines.append(number)
        for item, node in enumerate(fa.items):
            _refuse_last(node)
            self.path(node, number, item)


def _refuse_last(node: tp.TreeNode) -> None:
    """Reject ``[last()]`` in a run of siblings: it is decided only after the siblings that follow in the run."""
    if any(isinstance(one, tp.LastPosition) for one in node.predicates):
        raise UnsupportedError(
            f"{tp.print_name(node.test)}[last()] is unsupported in a run of siblings.",
            hint="Rewrite the run so that it ends there: [last()] is decided only after the siblings that follow.",
        )


class _Writing:
    """Encodes steps as integers."""

    def __init__(self, patterns: Sequence[tp.TreePattern], steps: list[PlanStep]) -> None:
        self.patterns, self.steps = tuple(patterns), steps
        self.ints: list[int] = [0] * y.PLAN_HEAD
        self.constants = bytearray()

    def plan(self, inner_texts: bool) -> TreePlan:
        self._mark_returning(inner_texts)
        self.ints[y.P_STEPS], self.ints[y.P_STEP_COUNT] = len(self.ints), len(self.steps)
        at = len(self.ints)
        self.ints += [0] * (y.STEP_WIDTH * len(self.steps))
        counters = lasts = 0
        for number, step in enumerate(self.steps):
            words = self._words(number, step)
            if step.position:
                words[y.SP_COUNTER] = counters
                counters += 1
            if step.last_bit >= 0:
                words[y.SP_LAST] = lasts
                lasts += 1
            self.ints[at + number * y.STEP_WIDTH : at + (number + 1) * y.STEP_WIDTH] = words
        self._head(lasts)
        lists, others = self._lists()
        names = tuple(dict.fromkeys(name for _, name in lists))
        return TreePlan(
            self.patterns,
            tuple(self.steps),
            names,
            np.array(self.ints, np.int64),
            bytes(self.constants) or b"\0",
            lists,
            others,
        )

    def _mark_returning(self, inner_texts: bool) -> None:
        for step in reversed(self.steps):
            step.returns_text = step.returns is not None and (inner_texts or not step.returns_below)
            step.returns_below = step.returns_below or step.returns is not None
            if step.returns_below and step.parent >= 0:
                self.steps[step.parent].returns_below = True

    def _head(self, lasts: int) -> None:
        runs = [step for step in self.steps if step.fa is not None and any(one >= 0 for one in step.ropes)]
        edges = max((sum(map(len, step.fa.states)) for step in runs if step.fa is not None), default=0)
        self.ints[y.P_PATTERNS], self.ints[y.P_PATTERN_COUNT] = len(self.ints), len(self.patterns)
        flags = [0] * len(self.patterns)
        for step in self.steps:
            if step.parent == 0:
                always = step.fa is not None and step.fa.nullable
                flags[step.pattern] |= (y.RETURNS_NODES if step.returns_below else 0) | (
                    y.HOLDS_ALWAYS if always else 0
                )
        self.ints += flags
        self.ints[y.P_PUSHED] = sum(self.ints[self._address(n) + y.SP_SIZE] for n in range(len(self.steps)))
        self.ints[y.P_LASTS], self.ints[y.P_LEAVES] = lasts, len(self.steps) - 1
        self.ints[y.P_RUN_CELLS] = 2 * y.ROPE_WIDTH * edges * y.GRACE * len(runs) + 64 * len(self.steps)
        # Ropes, and a result and a rope for each child if each is a run of its own.
        self.ints[y.P_CHILD_CELLS] = y.ROPE_WIDTH * edges * (y.PATIENCE + 2) + 16

    def _address(self, number: int) -> int:
        return self.ints[y.P_STEPS] + number * y.STEP_WIDTH

    def _words(self, number: int, step: PlanStep) -> list[int]:
        words = [0] * y.STEP_WIDTH
        parent = self.steps[step.parent] if step.parent >= 0 else None
        words[y.SP_PARENT], words[y.SP_AXIS], words[y.SP_KIND] = step.parent, step.axis, step.kind
        words[y.SP_BIT], words[y.SP_ALL] = step.bit, 0 if number == 0 else step.all_demands
        words[y.SP_RETURN], words[y.SP_RETURNS_BELOW] = step.returns is not None, step.returns_below
        words[y.SP_TEXT] = (step.kind == y.ELEMENT_STEP and _needs_text(step)) or step.kind == y.LEAF_STEP
        words[y.SP_TESTS], words[y.SP_TEST_COUNT] = self._tests(step), len(step.comparisons)
        words[y.SP_PLACE], words[y.SP_COUNTER], words[y.SP_LAST] = step.position, -1, -1
        words[y.SP_LAST_BIT], words[y.SP_PATTERN] = step.last_bit, step.pattern
        free = number == 0 or (parent is not None and self._is_free(step))  # leaves return nothing
        words[y.SP_FREE] = free
        words[y.SP_MACHINES], words[y.SP_MACHINE_COUNT] = len(self.ints), len(step.machines)
        self.ints += step.machines
        words[y.SP_SIZE], words[y.SP_ROPE] = y.CANDIDATE_WIDTH, -1
        words[y.SP_WILDS] = self._list(n for n, one in enumerate(self.steps) if one.parent == number and _is_wild(one))
        if parent is not None and parent.kind == y.RUN_STEP:
            words[y.SP_ROPE] = parent.ropes[step.bit]
        if step.fa is not None:
            below = {
                self.steps[n].bit: self.steps[n]
                for n in range(number, len(self.steps))
                if self.steps[n].parent == number
            }
            giving = [item for item in range(len(step.fa.items)) if below[item].returns_below]
            step.ropes = [giving.index(item) if item in giving else -1 for item in range(len(step.fa.items))]
            words[y.SP_ROPES], words[y.SP_FA] = len(giving), self._automaton(step.fa, step.ropes)
            words[y.SP_SIZE] = y.RUN_CANDIDATE_WIDTH + 2 * len(giving) + 3 * len(step.fa.states)
        return words

    def _is_free(self, step: PlanStep) -> bool:
        while step.parent >= 0:
            if step.returns is not None or step.kind == y.RUN_STEP:
                return False
            step = self.steps[step.parent]
        return True

    def _tests(self, step: PlanStep) -> int:
        at = len(self.ints)
        for bit, comparison in step.comparisons:
            words = [0] * y.TEST_WIDTH
            words[y.TE_BIT], words[y.TE_OP] = bit, _OPS[comparison.op]
            if isinstance(comparison.value, str):
                words[y.TE_FROM], words[y.TE_TO] = self._bytes(comparison.value.encode())
            else:
                low, high, closed = bounds_of(comparison.value)
                words[y.TE_NUMERIC], words[y.TE_CLOSED] = 1, closed
                words[y.TE_LOW : y.TE_HIGH] = self._bound(low)
                words[y.TE_HIGH : y.TEST_WIDTH] = self._bound(high)
            self.ints += words
        return at

    def _bound(self, bound: Bound) -> list[int]:
        return [bound.sign, bound.point, *self._bytes(bound.digits)]

    def _bytes(self, data: bytes) -> tuple[int, int]:
        at = len(self.constants)
        self.constants += data
        return at, len(self.constants)

    def _automaton(self, fa: SiblingFA, ropes: Sequence[int]) -> int:
        at = len(self.ints)
        self.ints += [0] * y.FA_HEAD
        self.ints += ropes
        head = [len(fa.states), 0]
        for edge in fa.states[0]:
            head[y.F_FIRST] |= 1 << edge.item if edge.item >= 0 else 0
        offsets = np.cumsum([0] + [len(edges) for edges in fa.states]).tolist()
        for part in (
            offsets,
            [word for edges in fa.states for edge in edges for word in (edge.item, edge.state)],
            fa.max_more,
            [int(any(edge.item == END_OF_RUN for edge in edges)) for edges in fa.states],
        ):
            head.append(len(self.ints))
            self.ints += part
        self.ints[at : at + y.FA_HEAD] = head
        return at

    def _lists(self) -> tuple[dict[tuple[bool, Name], int], dict[tuple[bool, str | None], int]]:
        """Build the lists of steps by name, steps below before those above."""
        named = [(n, step) for n, step in enumerate(self.steps) if step.test is not None]
        lists: dict[tuple[bool, Name], int] = {}
        others: dict[tuple[bool, str | None], int] = {}
        exact: dict[tuple[bool, Name], list[int]] = {}
        wild: list[tuple[bool, str | None, int]] = []
        for n, step in named:
            assert step.test is not None
            attribute = step.kind == y.ATTRIBUTE_STEP
            if _is_wild(step):
                continue  # listed in SP_WILDS of the step above
            if step.test.is_wildcard:
                wild.append((attribute, step.uri, n))
            else:
                exact.setdefault((attribute, (step.uri or "", step.test.local)), []).append(n)
        for (attribute, name), numbers in exact.items():
            also = [n for a, uri, n in wild if a == attribute and uri in (None, name[0])]
            lists[attribute, name] = self._list(numbers + also)
        for attribute in (False, True):
            for uri in {None, *(uri for a, uri, _ in wild if a == attribute)}:
                others[attribute, uri] = self._list([n for a, u, n in wild if a == attribute and u in (None, uri)])
        return lists, others

    def _list(self, numbers: Iterable[int]) -> int:
        """Encode a list of steps: those that are not leaves, 0, the leaves, 0; return its offset, or 0 if empty."""
        ordered = sorted(numbers, reverse=True)
        if not ordered:
            return 0
        at = len(self.ints)
        self.ints += [*(n for n in ordered if not self.steps[n].is_leaf), 0]
        self.ints += [*(n for n in ordered if self.steps[n].is_leaf), 0]
        return at
