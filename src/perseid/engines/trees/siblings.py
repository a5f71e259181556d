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

MOST_EDGES = 1 << 16
MOST_PASSES = 64
MOST_ITEMS = 62
"""As many as bits of a word, with two to spare."""

OVER, PASS = -1, -2
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
    def most(self) -> tuple[int, ...]:
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
class _Still:
    """A state: remaining tasks, whether anything was taken, and whether a gap is open since the last member."""

    tasks: tuple[_Task, ...]
    taken: bool = False
    gap: bool = False


def sibling_automaton(expr: tp.SiblingExpr) -> SiblingFA:
    """Build the automaton of an expression; raise LimitError if it is too large."""
    items = tuple(dict.fromkeys(_items(expr)))  # equal items return nothing, and are one
    if len(items) > MOST_ITEMS:
        raise LimitError(f"A sibling expression has at most {MOST_ITEMS} distinct steps, got {len(items)}.")
    number = {item: k for k, item in enumerate(items)}
    first = _Still((expr,))
    known = {first: 0}
    states: list[tuple[SiblingEdge, ...]] = []
    waiting, edges, nullable = [first], 0, False
    while waiting:
        still = waiting.pop(0)
        found: dict[SiblingEdge, None] = {}
        for item, after in _ways(still):
            if after is None:
                nullable = nullable or not still.taken
                if still.taken:
                    found[SiblingEdge(OVER, -1)] = None
                continue
            if after not in known:
                known[after] = len(known)
                waiting.append(after)
            found[SiblingEdge(PASS if item is None else number[item], known[after])] = None
            if edges + len(found) > MOST_EDGES:
                raise LimitError(
                    "The sibling expression is too large.", hint="Repeat less, or without an upper bound: {2,}."
                )
        edges += len(found)
        states.append(tuple(found))
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


def _ways(still: _Still) -> Iterator[tuple[tp.TreeNode | None, _Still | None]]:
    """Yield the next actions in order: take an item, skip a sibling (no item), or end (no state after it)."""
    if not still.tasks:
        yield None, None
        return
    task, rest = still.tasks[0], still.tasks[1:]
    match task:
        case tp.TreeNode():
            marked = tuple(_Round(one.repeat, one.done, True) if isinstance(one, _Round) else one for one in rest)
            yield task, _Still(marked, taken=True)
            if still.gap:
                yield None, still
        case tp.SiblingAlternation():
            for branch in task.branches:
                yield from _ways(_Still((branch, *rest), still.taken, still.gap))
        case tp.SiblingSequence():
            tasks: list[_Task] = [task.items[0]]
            for link, item in zip(task.links, task.items[1:], strict=True):
                tasks += [link, item]
            yield from _ways(_Still((*tasks, *rest), still.taken, still.gap))
        case tp.SiblingLink():
            gap = still.gap or (task is tp.SiblingLink.LATER and still.taken)
            yield from _ways(_Still(rest, still.taken, gap))
        case tp.SiblingRepeat():
            yield from _rounds(task, 0, rest, still)
        case _Round():
            if task.took:
                unbounded = task.repeat.high is None and task.done >= task.repeat.low
                yield from _rounds(task.repeat, task.done if unbounded else task.done + 1, rest, still)
            elif task.done < task.repeat.low:
                # An empty iteration covers all required iterations that remain.
                yield from _ways(_Still(rest, still.taken, still.gap))


def _rounds(
    repeat: tp.SiblingRepeat, done: int, rest: tuple[_Task, ...], still: _Still
) -> Iterator[tuple[tp.TreeNode | None, _Still | None]]:
    if repeat.high is None or done < repeat.high:
        round_ = _Round(repeat, done, took=False)
        yield from _ways(_Still((repeat.item, round_, *rest), still.taken, still.gap))
    if done >= repeat.low:
        yield from _ways(_Still(rest, still.taken, still.gap))


def _longest(states: tuple[tuple[SiblingEdge, ...], ...]) -> tuple[int, ...]:
    """Return the most items on any path from each state; -1 for all if unbounded, or if passes run out."""
    most = [0] * len(states)
    for _ in range(MOST_PASSES):
        changed = False
        for at in range(len(states) - 1, -1, -1):
            best = most[at]
            for edge in states[at]:
                if edge.item != OVER:
                    best = max(best, most[edge.state] + (edge.item >= 0))
            changed = changed or best > most[at]
            most[at] = best
        if not changed:
            return tuple(most)
    return tuple(-1 for _ in states)
