"""Random tree patterns for property tests; needs hypothesis."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import get_args

from hypothesis import strategies as st

from perseid.lang.tree_patterns import (
    MAX_REPETITION,
    Axis,
    Comparison,
    ComparisonOp,
    Constant,
    Exists,
    LastPosition,
    NameTest,
    Position,
    SiblingAlternation,
    SiblingExpr,
    SiblingLink,
    SiblingRepeat,
    SiblingSequence,
    TreeNode,
    TreePattern,
    TreePredicate,
)

# Words of the language and awkward spellings are names like any other.
_NAMES = st.sampled_from(["a", "b", "as", "AS", "last", "and", "a-", "a-b", "a.b", "_x", "é", "名", "e1"])
_TESTS = st.builds(NameTest, st.one_of(_NAMES, st.just("*")), st.one_of(st.none(), _NAMES))
_AXES = st.sampled_from(Axis)


def tree_patterns() -> st.SearchStrategy[TreePattern]:
    """Any tree pattern, each return name used once."""
    return st.builds(lambda root: TreePattern(_Renamer().expr(root)), _expressions())


def constants() -> st.SearchStrategy[Constant]:
    decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)
    exponents = st.builds(Decimal, st.sampled_from(["1E+5", "-2.50", "0.0", "7E-30", "1.25E+900"]))
    return st.one_of(st.text(max_size=8), st.integers(-(10**30), 10**30), decimals.filter(_is_short), exponents)


def _is_short(value: Decimal) -> bool:
    return len(value.as_tuple().digits) <= 50 and abs(value.adjusted()) <= 900


def _expressions() -> st.SearchStrategy[SiblingExpr]:
    return st.recursive(_paths(None), _larger, max_leaves=6)


def _larger(smaller: st.SearchStrategy[SiblingExpr]) -> st.SearchStrategy[SiblingExpr]:
    return st.one_of(_paths(smaller), _sequences(smaller), _alternations(smaller), _repeats(smaller))


def _paths(below: st.SearchStrategy[SiblingExpr] | None) -> st.SearchStrategy[TreeNode]:
    # Built once and not in each draw: making strategies costs more than drawing from them.
    predicates = st.lists(_predicates(below), max_size=2)
    siblings = st.none() if below is None else st.one_of(st.none(), below)
    return _path(predicates, siblings, st.one_of(st.none(), _attributes()))


@st.composite
def _path(
    draw: st.DrawFn,
    predicates: st.SearchStrategy[list[TreePredicate]],
    siblings: st.SearchStrategy[SiblingExpr | None],
    last: st.SearchStrategy[TreeNode | None],
) -> TreeNode:
    rest = draw(last)
    for _ in range(draw(st.integers(1, 3))):
        name = _maybe_name(draw)
        found = tuple(draw(predicates))
        rest = TreeNode(draw(_AXES), draw(_TESTS), False, name, found, draw(siblings), rest)
    assert rest is not None
    return rest


@st.composite
def _attributes(draw: st.DrawFn) -> TreeNode:
    return TreeNode(draw(_AXES), draw(_TESTS), True, _maybe_name(draw))


def _maybe_name(draw: st.DrawFn) -> str | None:
    # A mark only: the names are given at the end, when it is known which are taken.
    return "x" if draw(st.booleans()) else None


def _predicates(below: st.SearchStrategy[SiblingExpr] | None) -> st.SearchStrategy[TreePredicate]:
    choices: list[st.SearchStrategy[TreePredicate]] = [
        st.builds(
            Comparison,
            st.one_of(st.none(), _attributes()),
            st.sampled_from(get_args(ComparisonOp)),
            constants(),
        ),
        st.builds(Position, st.integers(1, 10**9)),
        st.just(LastPosition()),
        st.builds(Exists, _attributes()),
    ]
    if below is not None:
        paths = below.filter(lambda expr: isinstance(expr, TreeNode))
        choices.append(st.builds(Exists, below))
        choices.append(st.builds(Comparison, paths, st.sampled_from(get_args(ComparisonOp)), constants()))
    return st.one_of(choices)


@st.composite
def _sequences(draw: st.DrawFn, smaller: st.SearchStrategy[SiblingExpr]) -> SiblingSequence:
    items = draw(st.lists(smaller, min_size=2, max_size=3))
    links = [draw(st.sampled_from(SiblingLink)) for _ in items[1:]]
    return SiblingSequence(tuple(items), tuple(links))


def _alternations(smaller: st.SearchStrategy[SiblingExpr]) -> st.SearchStrategy[SiblingAlternation]:
    return st.lists(smaller, min_size=2, max_size=3).map(lambda found: SiblingAlternation(tuple(found)))


@st.composite
def _repeats(draw: st.DrawFn, smaller: st.SearchStrategy[SiblingExpr]) -> SiblingRepeat:
    low = draw(st.one_of(st.integers(0, 2), st.just(MAX_REPETITION)))
    high = draw(st.one_of(st.none(), st.integers(max(1, low), MAX_REPETITION)))
    return SiblingRepeat(draw(smaller), low, high)


class _Renamer:
    """Gives each marked node a name of its own."""

    def __init__(self) -> None:
        self._count = 0

    def expr(self, expr: SiblingExpr) -> SiblingExpr:
        match expr:
            case TreeNode():
                return self.node(expr)
            case SiblingSequence():
                return replace(expr, items=tuple(map(self.expr, expr.items)))
            case SiblingAlternation():
                return replace(expr, branches=tuple(map(self.expr, expr.branches)))
            case SiblingRepeat():
                return replace(expr, item=self.expr(expr.item))

    def node(self, node: TreeNode) -> TreeNode:
        return replace(
            node,
            returns=None if node.returns is None else self._fresh(),
            predicates=tuple(map(self._predicate, node.predicates)),
            siblings=None if node.siblings is None else self.expr(node.siblings),
            next=None if node.next is None else self.node(node.next),
        )

    def _predicate(self, predicate: TreePredicate) -> TreePredicate:
        match predicate:
            case Exists():
                return replace(predicate, expr=self.expr(predicate.expr))
            case Comparison():
                return replace(predicate, path=None if predicate.path is None else self.node(predicate.path))
            case _:
                return predicate

    def _fresh(self) -> str:
        self._count += 1
        return f"x{self._count}"
