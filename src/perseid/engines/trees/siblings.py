"""The automaton of a sibling expression, SiblingFA in paper 1: the runs of siblings that it accepts, by preference.

It reads the children of an element one by one, each with the set of the expression's items that it matches. A state has
its edges in order of preference: take the child as an item, skip it (between two members, where ``::`` allows it), or
end. Every derivation of ``semantics.trees`` through an expression is one path here, and in the same order.

The choice of the next item precedes the length of a gap. So an edge that skips a child leads to a state that waits for
one item alone, and directly follows the edge that takes the child as this item.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from perseid.errors import LimitError
from perseid.lang import tree_patterns as tp

MAX_EDGES = 1 << 16
MAX_PASSES = 64
MAX_ITEMS = 62
"""As many as bits of a word, with two to spare."""

END_OF_RUN, PASS = -1, -2
"""Edges that take no item: the end of a run, and the skip of a child."""


@dataclass(frozen=True)
class SiblingEdge:
    item: int
    """The item that a child is taken as, or OVER, or PASS."""
    state: int
    """The target state; -1 for OVER."""


@dataclass(frozen=True)
class SiblingFA:
    """States by number; a run begins in the first."""

    items: tuple[tp.TreeNode, ...]
    states: tuple[tuple[SiblingEdge, ...], ...]
    nullable: bool
    """True if the expression matches without any sibling."""

    @cached_property
    def max_more(self) -> tuple[int, ...]:
        """By state: how many more siblings a run may take from it; -1 if there is no bound."""
        return _longest(self.states)


# Remaining tasks of a derivation: an expression, a link, or the end of an iteration.
@dataclass(frozen=True)
class _Round:
    repeat: tp.SiblingRepeat
    done: int
    took: bool
    """True if the iteration has taken a sibling."""


_Task: TypeAlias = tp.SiblingExpr | tp.SiblingLink | _Round


@dataclass(frozen=True)
class _DerivationState:
    """A state: remaining tasks, whether anything was taken, and whether a gap is open since the last member."""

    tasks: tuple[_Task, ...]
    has_taken: bool = False
    gap: bool = False


def sibling_automaton(expr: tp.SiblingExpr) -> SiblingFA:
    """Build the automaton of an expression; raise LimitError if it is too large."""
    items = tuple(dict.fromkeys(_items(expr)))  # equal items return nothing, and are one
    if len(items) > MAX_ITEMS:
        raise LimitError(f"A sibling expression has at most {MAX_ITEMS} distinct steps, got {len(items)}.")
    number = {item: k for k, item in enumerate(items)}
    first = _DerivationState((expr,))
    numbers = {first: 0}
    states: list[tuple[SiblingEdge, ...]] = []
    pending, edges, nullable = [first], 0, False
    while pending:
        state = pending.pop(0)
        edges_of_state: dict[SiblingEdge, None] = {}
        for item, after in _next_actions(state):
            if after is None:
                nullable = nullable or not state.has_taken
                if state.has_taken:
                    edges_of_state[SiblingEdge(END_OF_RUN, -1)] = None
                continue
            if after not in numbers:
                numbers[after] = len(numbers)
                pending.append(after)
            edges_of_state[SiblingEdge(PASS if item is None else number[item], numbers[after])] = None
            if edges + len(edges_of_state) > MAX_EDGES:
                raise LimitError(
                    "The sibling expression is too large.", hint="Repeat less, or without an upper bound: {2,}."
                )
        edges += len(edges_of_state)
        states.append(tuple(edges_of_state))
    return SiblingFA(items, tuple(states), nullable)


def _items(expr: tp.SiblingExpr) -> Iterator[tp.TreeNode]:
    match expr:
        case tp.TreeNode():
            yield expr
        case tp.SiblingRepeat():
            yield from _items(expr.item)
        case tp.SiblingSequence():
            for one in expr.items:
                yield from _items(one)
        case tp.SiblingAlternation():
            for one in expr.branches:
                yield from _items(one)


def _next_actions(state: _DerivationState) -> Iterator[tuple[tp.TreeNode | None, _DerivationState | None]]:
    """Yield the next actions in order: take an item, skip a sibling (no item), or end (no state after it)."""
    if not state.tasks:
        yield None, None
        return
    task, rest = state.tasks[0], state.tasks[1:]
    match task:
        case tp.TreeNode():
            marked = tuple(_Round(one.repeat, one.done, True) if isinstance(one, _Round) else one for one in rest)
            yield task, _DerivationState(marked, has_taken=True)
            if state.gap:
                yield None, state
        case tp.SiblingAlternation():
            for branch in task.branches:
                yield from _next_actions(_DerivationState((branch, *rest), state.has_taken, state.gap))
        case tp.SiblingSequence():
            tasks: list[_Task] = [task.items[0]]
            for link, item in zip(task.links, task.items[1:], strict=True):
                tasks += [link, item]
            yield from _next_actions(_DerivationState((*tasks, *rest), state.has_taken, state.gap))
        case tp.SiblingLink():
            gap = state.gap or (task is tp.SiblingLink.LATER and state.has_taken)
            yield from _next_actions(_DerivationState(rest, state.has_taken, gap))
        case tp.SiblingRepeat():
            yield from _rounds(task, 0, rest, state)
        case _Round():
            if task.took:
                unbounded = task.repeat.high is None and task.done >= task.repeat.low
                yield from _rounds(task.repeat, task.done if unbounded else task.done + 1, rest, state)
            elif task.done < task.repeat.low:
                # An empty iteration covers all required iterations that remain.
                yield from _next_actions(_DerivationState(rest, state.has_taken, state.gap))


def _rounds(
    repeat: tp.SiblingRepeat, done: int, rest: tuple[_Task, ...], state: _DerivationState
) -> Iterator[tuple[tp.TreeNode | None, _DerivationState | None]]:
    if repeat.high is None or done < repeat.high:
        round_ = _Round(repeat, done, took=False)
        yield from _next_actions(_DerivationState((repeat.item, round_, *rest), state.has_taken, state.gap))
    if done >= repeat.low:
        yield from _next_actions(_DerivationState(rest, state.has_taken, state.gap))


def _longest(states: tuple[tuple[SiblingEdge, ...], ...]) -> tuple[int, ...]:
    """Return the most items on any path from each state; -1 for all if unbounded, or if passes run out."""
    longest = [0] * len(states)
    for _ in range(MAX_PASSES):
        changed = False
        for at in range(len(states) - 1, -1, -1):
            best = longest[at]
            for edge in states[at]:
                if edge.item != END_OF_RUN:
                    best = max(best, longest[edge.state] + (edge.item >= 0))
            changed = changed or best > longest[at]
            longest[at] = best
        if not changed:
            return tuple(longest)
    return tuple(-1 for _ in states)
