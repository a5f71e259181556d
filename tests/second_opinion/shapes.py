"""All small patterns, numbered, and all short streams: the input of the exhaustive comparison.

A pattern has a size: a step counts one, a repetition around a group counts one more than the group, and an operator
counts the sum of its sides. `shape_at` returns the pattern with a number, so that a large class can be sampled at
equal distances.
"""

from __future__ import annotations

from functools import cache
from itertools import product

from tests.second_opinion.pattern_tree import Alt, Arrow, Event, Node, Pattern, Rep, Seq, Step

TYPES = "ABC"
LONGEST_STREAM_EVENTS = 5
WINDOW_S = 60
QUANTIFIERS: tuple[tuple[int, int | None, bool] | None, ...] = (
    None,
    (0, 1, True),
    (0, None, True),
    (0, 1, False),
    (1, None, True),
    (1, None, False),
    (2, None, True),
    (0, 2, False),
    (1, 2, True),
)
"""None, `?`, `*`, `??`, `+`, `+?`, `{2,}`, `{,2}?`, `{1,2}`."""
OPERATORS = ("|", ",", "->", "->>")


@cache
def count_shapes(size: int) -> int:
    """The number of patterns of this size."""
    if size == 1:
        return len(TYPES) * len(QUANTIFIERS)
    repeated = count_shapes(size - 1) * (len(QUANTIFIERS) - 1)
    joined = sum(count_shapes(left) * count_shapes(size - left) for left in range(1, size))
    return repeated + joined * len(OPERATORS)


def shape_at(size: int, number: int) -> Pattern:
    """The pattern of this size with this number; its steps are named s1, s2, ... in the order of the text."""
    names = iter(f"s{i}" for i in range(1, size + 1))
    return Pattern(_node_at(size, number, names), within=WINDOW_S)


def _node_at(size: int, number: int, names: object) -> Node:
    if size == 1:
        number, kind = divmod(number, len(TYPES))
        return _repeat(Step(TYPES[kind], next(names)), QUANTIFIERS[number])  # type: ignore[call-overload]
    repeated = count_shapes(size - 1) * (len(QUANTIFIERS) - 1)
    if number < repeated:
        number, quantifier = divmod(number, len(QUANTIFIERS) - 1)
        return _repeat(_node_at(size - 1, number, names), QUANTIFIERS[quantifier + 1])
    number, operator = divmod(number - repeated, len(OPERATORS))
    for left in range(1, size):
        pairs = count_shapes(left) * count_shapes(size - left)
        if number < pairs:
            first, second = divmod(number, count_shapes(size - left))
            sides = _node_at(left, first, names), _node_at(size - left, second, names)
            return _join(OPERATORS[operator], *sides)
        number -= pairs
    raise IndexError(number)


def _repeat(node: Node, quantifier: tuple[int, int | None, bool] | None) -> Node:
    return node if quantifier is None else Rep(node, *quantifier)


def _join(operator: str, left: Node, right: Node) -> Node:
    if operator == "|":
        return Alt([left, right])
    return Seq([(Arrow("->"), left), (Arrow(operator), right)])


@cache
def short_streams() -> tuple[tuple[Event, ...], ...]:
    """Every stream of one to five events over three types, one event a second."""
    return tuple(
        tuple(Event(kind, time, None) for time, kind in enumerate(kinds))
        for length in range(1, LONGEST_STREAM_EVENTS + 1)
        for kinds in product(TYPES, repeat=length)
    )
