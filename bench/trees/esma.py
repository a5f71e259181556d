"""Algorithm ESMA of paper 1 (Table 3) in Python: the execute stack over the tokens of expat.

``translate`` gives the rules (Table 2, with the fixes that ``explain`` lists). Each layer of the stack belongs to an open
element, the lowest to the document. A layer holds the states that read the children of that element, the result of each
state, and the rules that wait for the end tag of the current child (RS).

A start tag applies one rule of each state. The states that these rules call on x1 (CS1) are the states of the new layer. The
states that they call on x2 (CS2) stay in the layer of the parent, where the next sibling reads them. Table 3 puts both into
the new layer; its end tag would remove CS2 before the next sibling arrives. An end tag removes a layer and reduces the rules
in RS. A rule that calls nothing on x1 and compares no value is reduced at the start tag ("indecomposable" in Table 3).

Four things keep it fast and do not change the algorithm:

- Transitions are memoized by set of states and tag name, so a start tag costs one lookup.
- A state that only descends (``q(%t(x1) x2) = q(x1) q(x2)``) shares its result with the layer above and needs no reduction.
- A state that returns no nodes leaves CS2 with the first hit, because ``or`` needs no second one.
- A state that several rules call on the same children is evaluated once.

Attributes, positions and namespace prefixes are not in Tables 1 to 3 and raise ``NotImplementedError``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from xml.parsers import expat

from perseid.engines.trees import transducer as td
from perseid.engines.trees.siblings import END_OF_RUN, PASS
from perseid.lang import tree_patterns as tp
from perseid.lang.tree_parser import parse_tree
from perseid.semantics.trees import number_of

CHUNK_BYTES = 1 << 20


class ResultNode(NamedTuple):
    """A returned node, or a run of siblings, which has no name."""

    number: int
    """Number of the element, or of the first one of the run, in document order; the root is 1."""
    order: int
    """Number of the state in the pattern."""
    name: str | None
    inner: Sequence[ResultNode | None]
    """None entries are marks."""


Cell: TypeAlias = list[ResultNode | None]
"""The result of a state: empty is ε, a None entry is a mark."""
Cells: TypeAlias = list[Cell]
Reduction: TypeAlias = Callable[[Cells, int, str], Sequence[ResultNode | None]]
"""Results of a right-hand side without its x2 part: from the cells of x1, the number of the element, and its text."""

MARK: Sequence[ResultNode | None] = (None,)
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def count_results(text: str, path: Path) -> int:
    """Count the results of a pattern at the top level of a file; 1 for yes and 0 for no."""
    program = EsmaProgram(parse_tree(text).pattern)
    return count_matches(program, path)


def count_matches(program: EsmaProgram, path: Path) -> int:
    """Count as ``count_results`` does, with a program that is already compiled."""
    with path.open("rb", buffering=0) as file:
        found = program.run(iter(lambda: file.read(CHUNK_BYTES), b""))
    return sum(one is not None for one in found) if program.returns else min(len(found), 1)


class EsmaProgram:
    """The rules of one pattern with memoized transitions. It can run over any number of documents."""

    def __init__(self, pattern: tp.TreePattern) -> None:
        transducer = td.translate(pattern)
        self.states = {state.name: state for state in transducer.states}
        self.orders = {name: order for order, name in enumerate(self.states)}
        self.automata = {
            name: SiblingTable(state, self.states, self.orders[name])
            for name, state in self.states.items()
            if isinstance(state, td.SiblingState)
        }
        for state in transducer.states:
            if isinstance(state, td.StepState):
                _require_supported(state)
        self.returns = transducer.states[0].returns_nodes
        self.compares = any(
            isinstance(one, td.Compares)
            for state in transducer.states
            if isinstance(state, td.StepState)
            for one in state.conditions
        )
        self._sets: dict[tuple[tuple[str, ...], frozenset[int]], StateSet] = {}
        (first,) = (call for call in transducer.states[0].rules if isinstance(call.right, td.StateCall))
        assert isinstance(first.right, td.StateCall)
        self.bottom = self.state_set([first.right.state])

    def state_set(self, called: Iterable[str]) -> StateSet:
        """States that are called on the same children, with the states that T2-4 calls on them."""
        names: dict[str, None] = {}
        for name in called:
            names[name] = None
            state = self.states[name]
            if isinstance(state, td.Demands):
                names.update(dict.fromkeys(_called_on_whole(state)))
        return self.interned(tuple(names), frozenset(range(len(names))))

    def interned(self, names: tuple[str, ...], alive: frozenset[int]) -> StateSet:
        found = self._sets.get((names, alive))
        if found is None:
            found = self._sets[names, alive] = StateSet(self, names, alive)
        return found

    def new_cell(self, name: str) -> Cell:
        table = self.automata.get(name)
        return [] if table is None else SiblingRuns(table)

    def run(self, chunks: Iterable[bytes], namespace_separator: str | None = None) -> Cell:
        """Read a document to its end and return the results of the pattern; the list is empty for no match."""
        states = self.bottom
        cells: Cells = [self.new_cell(name) for name in states.names]
        whole = cells[0]
        stack: list[tuple[StateSet, Cells, Transition, int]] = []
        push, pop = stack.append, stack.pop
        number = 0
        texts: list[str] = []
        marks: list[int] = []
        parser = expat.ParserCreate(namespace_separator=namespace_separator)
        parser.buffer_text = parser.ordered_attributes = True

        def retire(cell: Cell) -> None:
            """Remove a state from the sets of all layers that share its result."""
            nonlocal states
            states = states.without(cells, cell)
            for depth in range(len(stack) - 1, -1, -1):
                above, its_cells, transition, its_number = stack[depth]
                if not any(one is cell for one in its_cells):
                    break
                stack[depth] = (above.without(its_cells, cell), its_cells, transition, its_number)

        def start(tag: str, _attributes: object) -> None:
            nonlocal states, cells, number
            number += 1
            transition = states[tag]
            for reduction in transition.at_start:
                if reduction(cells, _NO_CELLS, number, ""):
                    retire(cells[reduction.slot])
            if transition.reads_text:
                if not marks:
                    parser.CharacterDataHandler = texts.append
                marks.append(len(texts))
            push((states, cells, transition, number))
            states = transition.below
            if transition.makers is not None:
                cells = [make(cells) for make in transition.makers]

        def end(_tag: str) -> None:
            nonlocal states, cells
            for finish in states.finals:
                finish(cells)
            below = cells
            states, cells, transition, its_number = pop()
            if transition.at_end:
                text = ""
                if transition.reads_text:
                    text = "".join(texts[marks.pop() :])
                    if not marks:
                        parser.CharacterDataHandler = None
                        texts.clear()
                for reduction in transition.at_end:
                    if reduction(cells, below, its_number, text):
                        retire(cells[reduction.slot])

        parser.StartElementHandler = start
        parser.EndElementHandler = end
        for chunk in chunks:
            parser.Parse(chunk, False)
        parser.Parse(b"", True)
        for finish in states.finals:
            finish(cells)
        return whole


_NO_CELLS: Cells = []


class StateSet(dict[str, "Transition"]):
    """The states of a layer. Maps a tag name to its transition, which is computed once."""

    def __init__(self, program: EsmaProgram, names: tuple[str, ...], alive: frozenset[int]) -> None:
        self.program, self.names, self.alive = program, names, alive
        self.finals = [*self._runs_that_finish(), *self._demands()]

    def __missing__(self, tag: str) -> Transition:
        transition = self[tag] = _Compilation(self, tag).transition()
        return transition

    def without(self, cells: Cells, cell: Cell) -> StateSet:
        dead = {slot for slot in self.alive if cells[slot] is cell}
        return self.program.interned(self.names, self.alive - dead) if dead else self

    def _runs_that_finish(self) -> Iterator[Callable[[Cells], None]]:
        for slot, name in enumerate(self.names):
            if name in self.program.automata:
                yield _finish_runs(slot)

    def _demands(self) -> Iterator[Callable[[Cells], None]]:
        """T2-4 at the end of the children."""
        for slot, name in enumerate(self.names):
            state = self.program.states[name]
            if isinstance(state, td.Demands):
                parts = [self.names.index(part) for part in _called_on_whole(state)]
                right = state.rules[0].right
                assert isinstance(right, td.If)
                yield _join_demands(slot, parts, isinstance(right.then, td.Merge))


def _finish_runs(slot: int) -> Callable[[Cells], None]:
    def finish(cells: Cells) -> None:
        runs = cells[slot]
        assert isinstance(runs, SiblingRuns)
        runs.finish()

    return finish


def _join_demands(slot: int, parts: Sequence[int], merged: bool) -> Callable[[Cells], None]:
    def finish(cells: Cells) -> None:
        found = [cells[part] for part in parts]
        if all(found):
            joined = list(chain.from_iterable(found))
            cells[slot].extend(_merge(joined) if merged else joined)

    return finish


class StateReduction:
    """Adds the results of one rule to the result of its state. Returns True where the state needs no further sibling."""

    __slots__ = ("answers", "right", "slot")

    def __init__(self, slot: int, right: Reduction, answers: bool) -> None:
        self.slot, self.right, self.answers = slot, right, answers

    def __call__(self, cells: Cells, below: Cells, number: int, text: str) -> bool:
        found = self.right(below, number, text)
        if not found:
            return False
        cell = cells[self.slot]
        if self.answers:
            cell.extend(found if not cell else [one for one in found if one is not None])
            return False
        cell.append(None)
        return True


class SiblingReduction:
    """Moves a SiblingFA by one sibling with known items."""

    __slots__ = ("answers", "items", "slot")

    def __init__(self, slot: int, items: Sequence[tuple[int, Reduction]], answers: bool) -> None:
        self.slot, self.items, self.answers = slot, items, answers

    def __call__(self, cells: Cells, below: Cells, number: int, text: str) -> bool:
        runs = cells[self.slot]
        assert isinstance(runs, SiblingRuns)
        mask = 0
        values: dict[int, Sequence[ResultNode | None]] = {}
        for item, right in self.items:
            found = right(below, number, text)
            if found:
                mask |= 1 << item
                values[item] = found
        runs.advance(mask, values, number)
        return bool(runs) and not self.answers


@dataclass(frozen=True)
class Transition:
    """Effect of a start tag on a set of states."""

    below: StateSet
    """CS1 of the new layer."""
    makers: Sequence[Callable[[Cells], Cell]] | None
    """The cells of the new layer; None where it has those of the layer above."""
    at_start: Sequence[StateReduction | SiblingReduction]
    at_end: Sequence[StateReduction | SiblingReduction]
    """RS."""
    reads_text: bool


class _Compilation:
    """Computes the transition of a set of states on a tag."""

    def __init__(self, states: StateSet, tag: str) -> None:
        self.states, self.tag, self.program = states, tag, states.program

    def transition(self) -> Transition:
        rules = {slot: self._rules(self.states.names[slot]) for slot in sorted(self.states.alive)}
        called = [name for some in rules.values() for rule in some.values() for name in rule.children_called]
        below = self.program.state_set(called)
        shared = self._shared(rules, [*called, *self._called_by_demands(below)])
        slots = {name: slot for slot, name in enumerate(below.names)}
        at_start: list[StateReduction | SiblingReduction] = []
        at_end: list[StateReduction | SiblingReduction] = []
        reads_text = False
        for slot, some in rules.items():
            if slot in shared.values() or not some:
                continue
            state = self.program.states[self.states.names[slot]]
            waits = any(rule.children_called or _compares(rule.right) for rule in some.values())
            reads_text |= any(_compares(rule.right) for rule in some.values())
            built = {item: self._build(rule.right, slots, self._order(rule)) for item, rule in some.items()}
            if isinstance(state, td.SiblingState):
                items = [(item, right) for item, right in built.items() if right is not _empty_result]
                (at_end if waits else at_start).append(SiblingReduction(slot, items, state.returns_nodes))
            elif built[0] is not _empty_result:
                (at_end if waits else at_start).append(StateReduction(slot, built[0], state.returns_nodes))
        same = below.names == self.states.names and all(
            shared.get(name) == slot for slot, name in enumerate(below.names)
        )
        makers = None if same else [self._maker(name, shared) for name in below.names]
        return Transition(below, makers, at_start, at_end, reads_text)

    def _order(self, rule: td.TransducerRule) -> int:
        return self.program.orders[rule.state]

    def _rules(self, name: str) -> dict[int, td.TransducerRule]:
        """The rule of a state for the tag; of a SiblingFA the rules of its items."""
        state = self.program.states[name]
        match state:
            case td.StepState():
                return {0: self._rule(state)}
            case td.SiblingState():
                items = (self.program.states[item] for item in state.items)
                return {number: self._rule(item) for number, item in enumerate(items)}
            case _:
                return {}

    def _rule(self, state: td.State) -> td.TransducerRule:
        matched, other, _ = state.rules
        assert isinstance(matched.head, td.Tag)
        test = matched.head.test
        return matched if test.is_wildcard or test.local == self.tag else other

    def _called_by_demands(self, below: StateSet) -> Iterator[str]:
        for name in below.names:
            state = self.program.states[name]
            if isinstance(state, td.Demands):
                yield from _called_on_whole(state)

    def _shared(self, rules: Mapping[int, Mapping[int, td.TransducerRule]], called: Sequence[str]) -> dict[str, int]:
        """By state below: the slot above whose cell it uses, if the rule only descends and has no other caller."""
        return {
            name: slot
            for slot, some in rules.items()
            if isinstance(self.program.states[name := self.states.names[slot]], td.StepState)
            and isinstance(some[0].head, td.OtherTag)
            and some[0].children_called == (name,)
            and called.count(name) == 1
        }

    def _maker(self, name: str, shared: Mapping[str, int]) -> Callable[[Cells], Cell]:
        if name in shared:
            return operator.itemgetter(shared[name])
        table = self.program.automata.get(name)
        return _new_list if table is None else lambda _: SiblingRuns(table)

    def _build(self, right: td.Right, slots: Mapping[str, int], order: int) -> Reduction:
        match right:
            case td.StateCall() if right.stream == "x1":
                return _cell(slots[right.state])
            case td.SetMark():
                return _mark if right.inner is None else _cell(slots[right.inner.state])
            case td.AddNode():
                return _add_node(order, right.name, None if right.inner is None else slots[right.inner.state])
            case td.Concatenation() | td.Merge() | td.Or():
                built = (self._build(part, slots, order) for part in right.parts)
                parts = [part for part in built if part is not _empty_result]
                if len(parts) <= 1:
                    return parts[0] if parts else _empty_result
                if isinstance(right, td.Or):
                    return _either(parts)
                return _joined(parts, merged=isinstance(right, td.Merge))
            case td.If():
                asked = [one for one in right.conditions if isinstance(one, td.Compares)]
                assert len(asked) == len(right.conditions)
                return _conditional(
                    [_comparison(one) for one in asked],
                    self._build(right.then, slots, order),
                    self._build(right.otherwise, slots, order),
                )
            case _:
                return _empty_result


def _empty_result(_cells: Cells, _number: int, _text: str) -> Sequence[ResultNode | None]:
    return ()


def _mark(_cells: Cells, _number: int, _text: str) -> Sequence[ResultNode | None]:
    return MARK


def _new_list(_cells: Cells) -> Cell:
    return []


def _cell(slot: int) -> Reduction:
    return lambda cells, _number, _text: cells[slot]


def _add_node(order: int, name: str, inner: int | None) -> Reduction:
    if inner is None:
        return lambda _cells, number, _text: (ResultNode(number, order, name, ()),)
    return lambda cells, number, _text: (ResultNode(number, order, name, found),) if (found := cells[inner]) else ()


def _either(parts: Sequence[Reduction]) -> Reduction:
    def reduce(cells: Cells, number: int, text: str) -> Sequence[ResultNode | None]:
        return next((found for part in parts if (found := part(cells, number, text))), ())

    return reduce


def _joined(parts: Sequence[Reduction], merged: bool) -> Reduction:
    def reduce(cells: Cells, number: int, text: str) -> Sequence[ResultNode | None]:
        found = [one for part in parts if (one := part(cells, number, text))]
        if len(found) <= 1:
            return found[0] if found else ()
        joined = list(chain.from_iterable(found))
        return _merge(joined) if merged else joined

    return reduce


def _conditional(conditions: Sequence[Callable[[str], bool]], then: Reduction, otherwise: Reduction) -> Reduction:
    def reduce(cells: Cells, number: int, text: str) -> Sequence[ResultNode | None]:
        holds = all(condition(text) for condition in conditions)
        return (then if holds else otherwise)(cells, number, text)

    return reduce


def _comparison(condition: td.Compares) -> Callable[[str], bool]:
    compare, value = _COMPARE[condition.op], condition.value
    if isinstance(value, str):
        return lambda text: compare(text, value)
    number = float(value)
    return lambda text: compare(number_of(text), number)


def _merge(found: Iterable[ResultNode | None]) -> Cell:
    """Each result once, in document order."""
    unique = {one[:2]: one for one in found if one is not None}
    return [unique[key] for key in sorted(unique)] if unique else [None]


def _compares(right: td.Right) -> bool:
    return isinstance(right, td.If)


def _called_on_whole(state: td.Demands) -> tuple[str, ...]:
    right = state.rules[0].right
    assert isinstance(right, td.If)
    return tuple(one.call.state for one in right.conditions if isinstance(one, td.ResultTest))


def _require_supported(state: td.StepState) -> None:
    if state.node.is_attribute:
        raise NotImplementedError("attributes are not in the paper's tables")
    if state.node.test.prefix is not None:
        raise NotImplementedError("namespace prefixes are not in the paper's tables")
    if any(isinstance(one, td.AtPosition) for one in state.conditions):
        raise NotImplementedError("positions are not in the paper's tables")


# SiblingFA


class SiblingTable:
    """The automaton of one expression over siblings, with memoized edges."""

    def __init__(self, state: td.SiblingState, states: Mapping[str, td.State], order: int) -> None:
        self.edges = state.automaton.states
        self.nullable, self.order = state.automaton.nullable, order
        self.returns = [states[item].returns_nodes for item in state.items]
        self.ends = [any(edge.item == END_OF_RUN for edge in edges) for edges in self.edges]
        self.continues = [any(edge.item != END_OF_RUN for edge in edges) for edges in self.edges]
        self._steps: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}

    def step(self, state: int, mask: int) -> tuple[tuple[int, int], ...]:
        """The next states with the item that is taken, for a sibling with the items in a bit mask."""
        found = self._steps.get((state, mask))
        if found is None:
            found = self._steps[state, mask] = tuple(
                (edge.state, edge.item)
                for edge in self.edges[state]
                if edge.item == PASS or (edge.item >= 0 and mask >> edge.item & 1)
            )
        return found


class RunCandidate:
    """The runs of siblings that begin at one sibling, and the longest that is complete."""

    __slots__ = ("behind", "first", "index", "taken", "threads", "y")

    def __init__(self, first: int, index: int) -> None:
        self.first, self.index = first, index
        self.threads: list[tuple[int, int, tuple[ResultNode, ...]]] = [(0, 0, ())]
        self.taken, self.behind = -1, 0
        self.y: tuple[ResultNode, ...] = ()

    def advance(
        self, table: SiblingTable, mask: int, values: Mapping[int, Sequence[ResultNode | None]], behind: int
    ) -> None:
        after: dict[int, tuple[int, int, tuple[ResultNode, ...]]] = {}
        for state, taken, y in self.threads:
            for next_state, item in table.step(state, mask):
                if item == PASS:
                    now_taken, now_y = taken, y
                else:
                    now_taken, now_y = taken + 1, y
                    if table.returns[item]:
                        now_y = (*y, *(one for one in values[item] if one is not None))
                if table.ends[next_state] and now_taken > self.taken:
                    self.taken, self.behind, self.y = now_taken, behind, now_y
                if table.continues[next_state]:
                    there = after.get(next_state)
                    if there is None or there[1] < now_taken:
                        after.pop(next_state, None)
                        after[next_state] = (next_state, now_taken, now_y)
        self.threads = list(after.values())


class SiblingRuns(list[ResultNode | None]):
    """The result of a SiblingFA on the children of one element: the leftmost longest runs (T3-1, fixed)."""

    __slots__ = ("candidates", "siblings", "table")

    def __init__(self, table: SiblingTable) -> None:
        super().__init__()
        self.table, self.siblings = table, 0
        self.candidates: list[RunCandidate] = []

    def advance(self, mask: int, values: Mapping[int, Sequence[ResultNode | None]], number: int) -> None:
        self.siblings += 1
        begins = mask and self.table.step(0, mask)
        if not begins and not self.candidates:
            return
        if begins:
            self.candidates.append(RunCandidate(number, self.siblings - 1))
        for candidate in self.candidates:
            candidate.advance(self.table, mask, values, self.siblings)
        while self.candidates and not self.candidates[0].threads:
            self._emit_first()

    def finish(self) -> None:
        while self.candidates:
            self._emit_first()
        if self.table.nullable and not self:
            self.append(None)

    def _emit_first(self) -> None:
        candidate = self.candidates.pop(0)
        if candidate.taken < 0:
            return
        while self.candidates and self.candidates[0].index < candidate.behind:
            self.candidates.pop(0)
        if candidate.y:
            self.append(ResultNode(candidate.first, self.table.order, None, candidate.y))
        elif not self:
            self.append(None)
