"""Tree patterns as macro forest transducers with SiblingFA: the rules of paper 1's Table 2, for one pattern.

A state is a function on a forest. It returns ε if nothing matches; otherwise a mark (``setMark``), with the nodes that
are returned (``addNode``). ``q3`` matches step 3, ``q3'`` combines several requirements below it (T2-4), and ``fa1`` is
the SiblingFA of a sibling expression, with one state ``fa1.0``, ``fa1.1``, … for each of the automaton's. In

    q3(author(x1) x2) = addNode(author->A, q4(x1)) q3(x2)

x1 is the content of the tag, its attributes before its elements, and x2 the forest that follows it; ``%t`` is any other
tag, t a whole element, x0 the whole forest. T2-3, T3-2 and T3-3 only state that a path in ``[ ]`` and ``( )`` is
translated like any other; a state records the rule that led to it. The paper lists few of the rules for steps without a
return name: the others are T1-1 or T1-3 combined with the rule for the requirements below. Attributes, positions, ``.``
and ``//`` before a comparison are not in its tables, and follow the existing rules.

Execution follows Table 3: a start tag pushes the states that a rule calls on x1 (CS1) and on x2 (CS2), and the end tag
reduces the rules that matched (RS): ``addNode(tag, f)`` and ``setMark(f)`` are ε if f is.

Steps are numbered from 1 in the order of ``tree_patterns.walk``; the document is 0. Equal members of one sibling
expression are one state, named after the first; the numbers of the others are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Literal, TypeAlias

from perseid.engines.trees.siblings import END_OF_RUN, PASS, SiblingFA, sibling_automaton
from perseid.lang import tree_patterns as tp

MAX_RULES_SHOWN = 40
"""Rules printed per state; the rest are counted."""

CORRECTED: Mapping[str, str] = MappingProxyType(
    {
        "T1-1": "stops at the first tag that passes the test; requirements below it may fail, and other tags may return more, so "
        "Perseid continues in x2",
        "T1-3": "stops as T1-1 does, and 'or' retains one of x1 and x2; Perseid continues in both and, because nested tags find "
        "the same nodes, returns each result once, in document order",
        "T2-1": "stops at the first value for which the comparison is true; other requirements of the tag may fail, and other "
        "tags may return more, so Perseid continues in x2",
        "T2-2": "has no else branch, so a value for which the comparison is false ends the search; Perseid continues after it",
        "T2-4": "returns all results of one predicate before those of the next; Perseid returns both in document order",
        "T3-1": "drops the sibling that breaks a run, and the members of the run; Perseid searches for the longest run from "
        "each sibling that is in no earlier run",
    }
)
"""By rule of the paper: its defect as printed, and the corrected behavior."""

# Left-hand and right-hand sides of rules.

Stream: TypeAlias = Literal["x0", "x1", "x2", "t"]


@dataclass(frozen=True)
class Tag:
    """``tag(x1) x2``: an element or attribute that passes the step's test."""

    test: tp.NameTest
    is_attribute: bool = False


@dataclass(frozen=True)
class OtherTag:
    """``%t(x1) x2``: anything else."""


@dataclass(frozen=True)
class Sibling:
    """``t x2``: an element as a whole; attributes are no siblings."""


@dataclass(frozen=True)
class EmptyForest:
    """``ε``: the end of the forest."""


@dataclass(frozen=True)
class Whole:
    """``x0``: any forest."""


Head: TypeAlias = Tag | OtherTag | Sibling | EmptyForest | Whole


@dataclass(frozen=True)
class Empty:
    """``ε``: no match."""


EMPTY = Empty()


@dataclass(frozen=True)
class RunParameter:
    """``y``: nodes returned so far by the run of siblings."""


@dataclass(frozen=True)
class StateCall:
    """``q(x1)``, ``fa1.2(x2, y)``: a state applied to a part of the input."""

    state: str
    stream: Stream
    parameter: Right | None = None


@dataclass(frozen=True)
class SetMark:
    """Mark the match for the node above, with the nodes returned below; ``true`` if nothing is required below."""

    inner: StateCall | None = None


@dataclass(frozen=True)
class AddNode:
    """Return the tag, with the nodes returned below; these are ε if nothing is required below."""

    tag: str
    name: str
    inner: StateCall | None = None


@dataclass(frozen=True)
class Concatenation:
    """``f f``: the results of all parts, concatenated."""

    parts: tuple[Right, ...]


@dataclass(frozen=True)
class Merge:
    """``f ∪ f``: the results of all parts, deduplicated and in document order."""

    parts: tuple[Right, ...]


@dataclass(frozen=True)
class Or:
    """``f or f``: the first part that is not ε; sufficient if only marks are needed."""

    parts: tuple[Right, ...]


@dataclass(frozen=True)
class If:
    conditions: tuple[Condition, ...]
    then: Right
    otherwise: Right = EMPTY


@dataclass(frozen=True)
class Reduce:
    """``reduce(y)``: the end of a run of siblings, with the nodes that it returns."""

    run: Right


@dataclass(frozen=True)
class Longest:
    """T3-1 as intended: the run with the most siblings of those that begin here; then the search resumes after it.

    Of runs with equally many, the one that ends first, and of these the one with the first rules.
    """

    run: str
    search: str


@dataclass(frozen=True)
class Restart:
    """T3-1 as printed: where a sibling fits no rule, the automaton restarts at the next."""

    run: str
    search: str


Right: TypeAlias = (
    Empty | RunParameter | StateCall | SetMark | AddNode | Concatenation | Merge | Or | If | Reduce | Longest | Restart
)


@dataclass(frozen=True)
class ResultTest:
    """``q(x0) != ε``."""

    call: StateCall


@dataclass(frozen=True)
class Compares:
    """``value(tag) > 5``: a comparison of the tag's text with a constant."""

    tag: str
    op: tp.ComparisonOp
    value: tp.Constant


@dataclass(frozen=True)
class AtPosition:
    """``position(tag) = 2``: the position among siblings that pass the step's test; None is the last."""

    tag: str
    index: int | None


Condition: TypeAlias = ResultTest | Compares | AtPosition


@dataclass(frozen=True)
class TransducerRule:
    """``state(head, parameters) = right``. A SiblingFA's state tries all rules that fit, any other state the first."""

    state: str
    head: Head
    right: Right
    paper: tuple[str, ...] = ()
    """The rules of Table 2 that this one is an instance of, the leading one first."""
    corrected: str | None = None
    """The one of them that differs from the paper."""
    printed: Right | None = None
    """The right-hand side of that one as printed."""
    has_parameter: bool = False

    @property
    def children_called(self) -> tuple[str, ...]:
        """The states that a start tag pushes for x1: CS1."""
        return _called(self.right, "x1")

    @property
    def siblings_called(self) -> tuple[str, ...]:
        """The states that a start tag pushes for x2: CS2."""
        return _called(self.right, "x2")

    @property
    def reduced(self) -> bool:
        """True if the end tag decides the rule (RS). A tag without requirements is decided when it begins."""
        return isinstance(self.head, Tag) and any(
            (isinstance(one, SetMark | AddNode) and one.inner is not None)
            or (isinstance(one, If) and any(isinstance(condition, Compares) for condition in one.conditions))
            for one in _parts(self.right)
        )


# States.


@dataclass(frozen=True, kw_only=True)
class State:
    name: str
    rules: tuple[TransducerRule, ...]
    parent: int = 0
    """The step with the node that it searches below; 0 for the document."""
    by: str | None = None
    """T2-3 for an expression in ``[ ]``, T3-2 for a member of a run."""
    returns_nodes: bool
    """True if it returns nodes, rather than only marks."""


@dataclass(frozen=True, kw_only=True)
class Beginning(State):
    """``q0``: the document."""


@dataclass(frozen=True, kw_only=True)
class StepState(State):
    """Matches a step of a path."""

    step: int
    node: tp.TreeNode
    conditions: tuple[Condition, ...]
    """Conditions on the node itself, not on nodes below it."""


@dataclass(frozen=True, kw_only=True)
class Demands(State):
    """Holds if all requirements below a node match (T2-4)."""


@dataclass(frozen=True, kw_only=True)
class SiblingState(State):
    """Searches for runs of siblings (T3-1)."""

    expr: tp.SiblingExpr
    automaton: SiblingFA
    items: tuple[str, ...]
    """By item of the automaton: the state that tests a sibling for it."""


@dataclass(frozen=True)
class Transducer:
    pattern: tp.TreePattern
    states: tuple[State, ...]
    """``q0`` first, then in the order of the pattern."""

    @cached_property
    def rules(self) -> Mapping[str, tuple[TransducerRule, ...]]:
        """Rules by state; the states of each SiblingFA by their own names."""
        found: dict[str, list[TransducerRule]] = {}
        for rule in chain.from_iterable(state.rules for state in self.states):
            found.setdefault(rule.state, []).append(rule)
        return {name: tuple(rules) for name, rules in found.items()}

    @property
    def corrected(self) -> tuple[str, ...]:
        """The rules of the paper that are corrected for this pattern, in the paper's order."""
        used = {rule.corrected for state in self.states for rule in state.rules}
        return tuple(name for name in CORRECTED if name in used)


def translate(pattern: tp.TreePattern) -> Transducer:
    """Translate a pattern; raise LimitError if a sibling expression is too large for an automaton."""
    first, *others = _Translation().expression(pattern.root, 0, None)
    q0 = Beginning(
        name="q0",
        rules=(TransducerRule("q0", Whole(), StateCall(first.name, "x0")),),
        returns_nodes=first.returns_nodes,
    )
    return Transducer(pattern, (q0, first, *others))


class _Translation:
    """Numbers steps in the order of ``walk`` as it translates them."""

    def __init__(self) -> None:
        self.steps = self.automata = 0

    def expression(self, expr: tp.SiblingExpr, parent: int, by: str | None) -> list[State]:
        """Return the states of a path or a sibling expression, the initial one first."""
        if isinstance(expr, tp.TreeNode):
            return self.path(expr, parent, by)
        return self.siblings(expr, parent, by)

    def path(
        self, node: tp.TreeNode, parent: int, by: str | None, compared: tp.Comparison | None = None
    ) -> list[State]:
        self.steps += 1
        step = self.steps
        name = f"q{step}"
        parts = [part for one in node.predicates if (part := self.predicate(one, step))]
        parts += [] if node.siblings is None else [self.siblings(node.siblings, step, None)]
        parts += [] if node.next is None else [self.path(node.next, step, None, compared)]
        inner = None if not parts else StateCall(parts[0][0].name if len(parts) == 1 else f"{name}'", "x1")
        returns_below = any(part[0].returns_nodes for part in parts)
        conditions = _conditions(node, compared)
        only_runs = node.siblings is not None and len(parts) == 1
        state = StepState(
            name=name,
            rules=_StepRules(name, node, conditions, inner, returns_below, only_runs).rules(),
            parent=parent,
            by=by,
            returns_nodes=returns_below or node.returns is not None,
            step=step,
            node=node,
            conditions=conditions,
        )
        demands = [] if len(parts) < 2 else [_demands(f"{name}'", step, [part[0] for part in parts])]
        return [state, *demands, *chain.from_iterable(parts)]

    def predicate(self, predicate: tp.TreePredicate, step: int) -> list[State]:
        """Return the states of a predicate on nodes below; other predicates are conditions of the node's rule."""
        match predicate:
            case tp.Exists():
                return self.expression(predicate.expr, step, "T2-3")
            case tp.Comparison() if predicate.path is not None:
                return self.path(predicate.path, step, "T2-3", predicate)
            case _:
                return []

    def siblings(self, expr: tp.SiblingExpr, parent: int, by: str | None) -> list[State]:
        self.automata += 1
        name = f"fa{self.automata}"
        automaton = sibling_automaton(expr)
        members: dict[tp.TreeNode, list[State]] = {}
        for node in _members(expr):
            if node in members:
                self.steps += sum(isinstance(part, tp.TreeNode) for part, _ in tp.walk(tp.TreePattern(node)))
            else:
                members[node] = self.path(node, parent, "T3-2")
        items = [members[item][0] for item in automaton.items]
        state = SiblingState(
            name=name,
            rules=_sibling_rules(name, automaton, items),
            parent=parent,
            by=by,
            returns_nodes=any(item.returns_nodes for item in items),
            expr=expr,
            automaton=automaton,
            items=tuple(item.name for item in items),
        )
        return [state, *chain.from_iterable(members.values())]


@dataclass(frozen=True)
class _StepRules:
    """T1-1 to T1-8, T2-1 and T2-2, by whether the step is returned, and by the conditions on its node."""

    name: str
    node: tp.TreeNode
    conditions: tuple[Condition, ...]
    inner: StateCall | None
    returns_nodes: bool
    """True if nodes below are returned."""
    only_runs: bool
    """True if a sibling expression is the only requirement below."""

    @property
    def deep(self) -> bool:
        return self.node.axis is tp.Axis.DESCENDANT

    @property
    def compared(self) -> bool:
        return any(isinstance(one, Compares) for one in self.conditions)

    @property
    def plain(self) -> str:
        """The rule for the step alone."""
        return ("T1-1", "T1-2", "T1-3", "T1-4")[2 * self.deep + (self.node.returns is not None)]

    @property
    def paper(self) -> tuple[str, ...]:
        returned = self.node.returns is not None
        names = [("T2-2" if returned else "T2-1")] if self.compared else []
        if self.inner is not None:
            names.append(("T1-5", "T1-6", "T1-7", "T1-8")[2 * self.only_runs + self.deep])
        if (self.deep or not self.compared) if self.inner is None else not returned:
            names.append(self.plain)
        return tuple(names)

    def rules(self) -> tuple[TransducerRule, ...]:
        sibling_call, child_call = StateCall(self.name, "x2"), StateCall(self.name, "x1")
        everywhere = (child_call, sibling_call) if self.deep else (sibling_call,)
        # An attribute has nothing below it.
        onward = (sibling_call,) if self.node.is_attribute else everywhere
        matched, corrected, printed = self._marked(onward) if self.node.returns is None else self._returned(onward)
        passed = _join(everywhere) if self.returns_nodes or self.node.returns is not None else _either(everywhere)
        # T1-3 has 'or' here too.
        lost = corrected == "T1-3" and self.returns_nodes
        return (
            TransducerRule(
                self.name, Tag(self.node.test, self.node.is_attribute), matched, self.paper, corrected, printed
            ),
            TransducerRule(
                self.name,
                OtherTag(),
                passed,
                self.paper,
                corrected if lost else None,
                _either(everywhere) if lost else None,
            ),
            TransducerRule(self.name, EmptyForest(), EMPTY, self.paper),
        )

    def _returned(self, on: tuple[StateCall, ...]) -> tuple[Right, str | None, Right | None]:
        assert self.node.returns is not None
        matched = Concatenation((AddNode(_tag(self.node), self.node.returns, self.inner), *on))
        if not self.conditions:
            return matched, None, None
        right = If(self.conditions, matched, _join(on))
        return (right, "T2-2", If(self.conditions, matched)) if self.compared else (right, None, None)

    def _marked(self, on: tuple[StateCall, ...]) -> tuple[Right, str | None, Right | None]:
        mark = SetMark(self.inner)
        otherwise = _join(on) if self.returns_nodes else _either(on)
        if self.inner is None:
            # Nothing below can fail or return more: as printed, the first match is enough.
            return self._conditional(mark, otherwise), None, None
        matched: Right = Or((mark, *on))
        if self.returns_nodes:
            matched = Merge((mark, *on)) if self.deep else Concatenation((mark, *on))
        corrected = "T2-1" if self.compared else self.plain
        return self._conditional(matched, otherwise), corrected, self._conditional(mark, _either(on))

    def _conditional(self, then: Right, otherwise: Right) -> Right:
        return If(self.conditions, then, otherwise) if self.conditions else then


def _join(calls: tuple[StateCall, ...]) -> Right:
    return calls[0] if len(calls) == 1 else Concatenation(calls)


def _either(calls: tuple[StateCall, ...]) -> Right:
    return calls[0] if len(calls) == 1 else Or(calls)


def _conditions(node: tp.TreeNode, compared: tp.Comparison | None) -> tuple[Condition, ...]:
    """Return the conditions on the node itself: position, text, and text as the end of a compared path."""
    tag = _tag(node)
    conditions: list[Condition] = []
    for predicate in node.predicates:
        match predicate:
            case tp.Position():
                conditions.append(AtPosition(tag, predicate.index))
            case tp.LastPosition():
                conditions.append(AtPosition(tag, None))
            case tp.Comparison(path=None):
                conditions.append(Compares(tag, predicate.op, predicate.value))
            case _:
                pass
    if compared is not None and node.next is None:
        conditions.append(Compares(tag, compared.op, compared.value))
    return tuple(conditions)


def _demands(name: str, step: int, parts: list[State]) -> Demands:
    """Build the state of T2-4; if at most one part returns nodes, their order needs no merge."""
    calls = tuple(StateCall(part.name, "x0") for part in parts)
    tests = tuple(ResultTest(call) for call in calls)
    returning = sum(part.returns_nodes for part in parts)
    if returning < 2:
        rule = TransducerRule(name, Whole(), If(tests, Concatenation(calls)), ("T2-4",))
    else:
        rule = TransducerRule(
            name, Whole(), If(tests, Merge(calls)), ("T2-4",), "T2-4", If(tests, Concatenation(calls))
        )
    return Demands(name=name, rules=(rule,), parent=step, returns_nodes=returning > 0)


def _sibling_rules(name: str, automaton: SiblingFA, items: list[State]) -> tuple[TransducerRule, ...]:
    """T3-1: the search for runs, then the automaton's edges, those of a state in order of preference."""
    paper, y = ("T3-1",), RunParameter()
    begin = f"{name}.0"
    rules = [
        TransducerRule(name, Sibling(), Longest(begin, name), paper, "T3-1", Restart(begin, name)),
        TransducerRule(name, EmptyForest(), SetMark() if automaton.nullable else EMPTY, paper),
    ]
    for number, edges in enumerate(automaton.states):
        state = f"{name}.{number}"
        for edge in edges:
            after = f"{name}.{edge.state}"
            if edge.item == END_OF_RUN:
                rules.append(TransducerRule(state, Whole(), Reduce(y), paper, has_parameter=True))
            elif edge.item == PASS:
                rules.append(TransducerRule(state, Sibling(), StateCall(after, "x2", y), paper, has_parameter=True))
            else:
                item = items[edge.item]
                member_call = StateCall(item.name, "t")
                next_call = StateCall(after, "x2", Concatenation((y, member_call)) if item.returns_nodes else y)
                rules.append(
                    TransducerRule(
                        state, Sibling(), If((ResultTest(member_call),), next_call), paper, has_parameter=True
                    )
                )
    return tuple(rules)


def _members(expr: tp.SiblingExpr) -> Iterator[tp.TreeNode]:
    """Yield the member nodes of a sibling expression, in printed order."""
    pending: list[tp.TreePart] = [expr]
    while pending:
        part = pending.pop()
        if isinstance(part, tp.TreeNode):
            yield part
        else:
            pending.extend(reversed(tp.children(part)))


def _parts(right: Right) -> Iterator[Right]:
    """Yield a right-hand side and all its parts, from left to right."""
    yield right
    match right:
        case SetMark() | AddNode():
            inner: tuple[Right, ...] = () if right.inner is None else (right.inner,)
        case Concatenation() | Merge() | Or():
            inner = right.parts
        case If():
            calls = tuple(one.call for one in right.conditions if isinstance(one, ResultTest))
            inner = (*calls, right.then, right.otherwise)
        case Reduce():
            inner = (right.run,)
        case StateCall():
            inner = () if right.parameter is None else (right.parameter,)
        case Longest() | Restart():
            inner = (StateCall(right.search, "x2"),)
        case _:
            inner = ()
    for one in inner:
        yield from _parts(one)


def _called(right: Right, stream: Stream) -> tuple[str, ...]:
    calls = (one for one in _parts(right) if isinstance(one, StateCall) and one.stream == stream)
    return tuple(dict.fromkeys(one.state for one in calls))


# Printing.


def print_rules(transducer: Transducer) -> list[str]:
    """Print every state with its rules and their names in the paper; then the corrected rules, with reasons."""
    lines: list[str] = []
    for state in transducer.states:
        lines.append(f"{state.name}: {print_state(state)}")
        shown = state.rules[:MAX_RULES_SHOWN]
        rows = [
            (print_head(rule), print_right(rule.right), f"{rule.corrected} corrected" if rule.corrected else "")
            for rule in shown
        ]
        widest = max(len(row[0]) for row in rows)
        middle = max(len(row[1]) for row in rows)
        lines += [f"  {head:<{widest}} = {right:<{middle}}  {corrected}".rstrip() for head, right, corrected in rows]
        if len(state.rules) > len(shown):
            lines.append(f"  … {len(state.rules) - len(shown):,} more rules")
    if transducer.corrected:
        lines.append("corrected")
        lines += [f"  {name} {CORRECTED[name]}" for name in transducer.corrected]
    # A text constant may contain line breaks.
    return [" ".join(line.splitlines()) for line in lines]


def print_state(state: State) -> str:
    """Describe the role of a state, and the rules of the paper that define it."""
    names = " with ".join(state.rules[0].paper) + ("" if state.by is None else f" by {state.by}")
    match state:
        case StepState():
            return f"matches step {state.step}, {print_step(state.node)} ({names})"
        case Demands():
            return f"all requirements below step {state.parent} ({names})"
        case SiblingState():
            below = "the document" if state.parent == 0 else f"step {state.parent}"
            return f"runs of siblings below {below}, {tp.print_tree(tp.TreePattern(state.expr))} ({names})"
        case _:
            return "the document"


def print_step(node: tp.TreeNode) -> str:
    """Print a step without its predicates and the rest of its path."""
    return f"{node.axis.value}{_tag(node)}" + ("" if node.returns is None else f"->{node.returns}")


def print_head(rule: TransducerRule) -> str:
    match rule.head:
        case Tag():
            sign = "@" if rule.head.is_attribute else ""
            below = "" if rule.head.is_attribute else "(x1)"
            head = f"{sign}{tp.print_name(rule.head.test)}{below} x2"
        case OtherTag():
            head = "%t(x1) x2"
        case Sibling():
            head = "t x2"
        case EmptyForest():
            head = "ε"
        case Whole():
            head = "x0"
    return f"{rule.state}({head}{', y' if rule.has_parameter else ''})"


def print_right(right: Right) -> str:
    match right:
        case Empty():
            return "ε"
        case RunParameter():
            return "y"
        case StateCall():
            parameter = "" if right.parameter is None else f", {print_right(right.parameter)}"
            return f"{right.state}({right.stream}{parameter})"
        case SetMark():
            return f"setMark({'true' if right.inner is None else print_right(right.inner)})"
        case AddNode():
            return f"addNode({right.tag}->{right.name}, {'ε' if right.inner is None else print_right(right.inner)})"
        case Concatenation():
            return " ".join(map(print_right, right.parts))
        case Merge():
            return " ∪ ".join(map(print_right, right.parts))
        case Or():
            return " or ".join(map(print_right, right.parts))
        case If():
            condition_text = " and ".join(map(print_condition, right.conditions))
            return f"if {condition_text} then {print_right(right.then)} else {print_right(right.otherwise)}"
        case Reduce():
            return f"reduce({print_right(right.run)})"
        case Longest():
            return f"longest {right.run}(t x2, ε), then {right.search} after it; if none, {right.search}(x2)"
        case Restart():
            return f"{right.run}(t x2, ε); if none, restartFA() {right.search}(x2)"


def print_condition(condition: Condition) -> str:
    match condition:
        case ResultTest():
            return f"{print_right(condition.call)} != ε"
        case Compares():
            return f"value({condition.tag}) {condition.op} {_print_constant(condition.value)}"
        case AtPosition():
            return f"position({condition.tag}) = {'last()' if condition.index is None else condition.index}"


def _print_constant(value: tp.Constant) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _tag(node: tp.TreeNode) -> str:
    return ("@" if node.is_attribute else "") + tp.print_name(node.test)
