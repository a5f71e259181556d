"""The tree part of the language: what stands between ``<<`` and ``>>``, as data, and its printed form.

A tree pattern is a path of steps, ``//order[/total > 100]->o/item``. A step has an axis (``/`` child, ``//``
descendant), a name test, perhaps a return name (``->o``), predicates in ``[ ]`` and one expression in ``( )``
over its children as siblings, ``(/author->a:/title:(/pages|/year)*)``. Paths inside ``[ ]`` and ``( )`` are
relative to the step they belong to: ``//a`` there is a descendant of that step, never of the document.

Two siblings are joined by ``:`` (the very next element sibling) or ``::`` (any later one). The doubled colon
is the weaker form of the single one, and XPath's ``axis::name`` cannot be meant, as axes here are only ``/``
and ``//``.

A colon also parts a namespace prefix from its name. After the sibling colon a step always begins with its
axis (or a group with its parenthesis), so a colon written without space between two names, ``/p:local`` or
``/p:*``, is a prefix, and every other colon is the sibling operator.

Nodes are frozen and compare by meaning; spans count from the start of the tree text and take no part in
equality. A node that could not be written down is refused when it is built, so every pattern can be printed
and read back as the same pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Literal as Choice
from typing import TypeAlias, get_args

from perseid.errors import LimitError, MeaningError
from perseid.lang.expressions import Span, span_field

MAX_REPETITION = 10_000
MAX_NUMBER_LENGTH = 100
MAX_EXPONENT = 999

# The name characters of XML 1.0 without the colon; tree.lark has the same ranges.
_NAME_START = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_XML_NAME = re.compile(rf"[{_NAME_START}][{_NAME_START}.0-9\u00b7\u0300-\u036f\u203f-\u2040-]*")
_VARIABLE = re.compile(r"[^\W\d]\w*")


class Axis(Enum):
    """How a step is reached from the step before it."""

    CHILD = "/"
    DESCENDANT = "//"


class SiblingLink(Enum):
    """How one sibling follows another."""

    ADJACENT = ":"
    """The very next element; text, comments and processing instructions between do not count."""
    LATER = "::"
    """Any later element of the same parent."""


ComparisonOp = Choice["=", "!=", "<", "<=", ">", ">="]
Constant: TypeAlias = str | int | Decimal


@dataclass(frozen=True, slots=True)
class NameTest:
    """A tag or attribute name, with a namespace prefix or without; ``*`` is any name."""

    local: str
    prefix: str | None = None
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if self.local != "*" and not _XML_NAME.fullmatch(self.local):
            raise MeaningError(f"{self.local!r} is not an XML name")
        if self.prefix is not None and not _XML_NAME.fullmatch(self.prefix):
            raise MeaningError(f"{self.prefix!r} is not an XML namespace prefix")

    @property
    def is_wildcard(self) -> bool:
        return self.local == "*"


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One step and what is demanded below it; ``next`` is the rest of the path.

    The span covers the step with its ``[ ]`` and ``( )``, not the rest of the path.
    """

    axis: Axis
    test: NameTest
    is_attribute: bool = False
    returns: str | None = None
    predicates: tuple[TreePredicate, ...] = ()
    siblings: SiblingExpr | None = None
    next: TreeNode | None = None
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if self.returns is not None and not _VARIABLE.fullmatch(self.returns):
            raise MeaningError(
                f"{self.returns!r} cannot name a returned node",
                hint="a name is made of letters, digits and _ and does not begin with a digit",
            )
        if self.is_attribute and (self.predicates or self.siblings is not None or self.next is not None):
            raise MeaningError(
                f"nothing can stand below the attribute @{print_name(self.test)}",
                hint="an attribute has a value and no children: it ends its path",
            )
        if self.siblings is not None:
            _refuse_attributes(self.siblings)


@dataclass(frozen=True, slots=True)
class Exists:
    """``[/a]``, ``[/a:/b]``: the node has children (or descendants) of this shape."""

    expr: SiblingExpr
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Comparison:
    """``[/total > 100]``: some node at the end of the path compares so; no path (``.``) is the node itself.

    The constant decides: with a number the comparison is numeric, with a string it is textual.
    """

    path: TreeNode | None
    op: ComparisonOp
    value: Constant
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if self.op not in get_args(ComparisonOp):
            raise MeaningError(f"{self.op!r} is not a comparison")
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | Decimal):
            raise MeaningError(f"a node is compared with text or a number, not with {self.value!r}")
        if not isinstance(self.value, str):
            check_number(self.value)


@dataclass(frozen=True, slots=True)
class Position:
    """``[3]``: the third of its siblings that pass the step's test, counted from 1."""

    index: int
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        check_number(self.index)
        if self.index < 1:
            raise MeaningError(f"there is no position {self.index}", hint="positions count from 1")


@dataclass(frozen=True, slots=True)
class LastPosition:
    """``[last()]``: the last of its siblings that pass the step's test."""

    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class SiblingSequence:
    """Siblings in order; ``links[i]`` stands between item i and i + 1."""

    items: tuple[SiblingExpr, ...]
    links: tuple[SiblingLink, ...]
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if len(self.items) < 2 or len(self.links) != len(self.items) - 1:
            raise MeaningError("a sequence has two items or more and one link between each two")
        for item in self.items:
            _refuse_attributes(item)


@dataclass(frozen=True, slots=True)
class SiblingAlternation:
    """One of the branches."""

    branches: tuple[SiblingExpr, ...]
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if len(self.branches) < 2:
            raise MeaningError("an alternation has two branches or more")


@dataclass(frozen=True, slots=True)
class SiblingRepeat:
    """An expression ``low`` to ``high`` times, each round the very next sibling (high None: no bound)."""

    item: SiblingExpr
    low: int
    high: int | None
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if max(self.low, self.high or 0) > MAX_REPETITION:
            raise LimitError(f"a repetition counts to {MAX_REPETITION:,} at most", hint="leave the bound out: {2,}")
        if self.low < 0 or self.high == 0:
            raise MeaningError("a repetition is at least {0,1}", hint="leave out what may not occur at all")
        if self.high is not None and self.high < self.low:
            raise MeaningError(
                f"the repetition {{{self.low},{self.high}}} ends before it begins",
                hint=f"write the smaller bound first: {{{self.high},{self.low}}}",
            )
        _refuse_attributes(self.item)


SiblingExpr: TypeAlias = TreeNode | SiblingSequence | SiblingAlternation | SiblingRepeat
TreePredicate: TypeAlias = Exists | Comparison | Position | LastPosition
TreePart: TypeAlias = SiblingExpr | TreePredicate


@dataclass(frozen=True, slots=True)
class TreePattern:
    """A whole tree pattern; every return name stands once."""

    root: SiblingExpr
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        names = return_names(self)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise MeaningError(f"two nodes are returned as {twice!r}", hint="give each its own name")


def children(part: TreePart) -> tuple[TreePart, ...]:
    """The direct parts, in the order they are printed."""
    match part:
        case TreeNode():
            after = (part.siblings, part.next)
            return (*part.predicates, *(p for p in after if p is not None))
        case Exists():
            return (part.expr,)
        case Comparison():
            return () if part.path is None else (part.path,)
        case Position() | LastPosition():
            return ()
        case SiblingSequence():
            return part.items
        case SiblingAlternation():
            return part.branches
        case SiblingRepeat():
            return (part.item,)


def walk(pattern: TreePattern) -> Iterator[tuple[TreePart, int]]:
    """Every part with its depth (the root has 1), parents first, in the order printed; without recursion."""
    waiting: list[tuple[TreePart, int]] = [(pattern.root, 1)]
    while waiting:
        part, depth = waiting.pop()
        yield part, depth
        waiting.extend((child, depth + 1) for child in reversed(children(part)))


def return_names(pattern: TreePattern) -> tuple[str, ...]:
    """The names nodes are returned by, in the order printed."""
    return tuple(p.returns for p, _ in walk(pattern) if isinstance(p, TreeNode) and p.returns is not None)


def print_tree(pattern: TreePattern) -> str:
    """The canonical text: reading it gives the same pattern."""
    return _print_expr(pattern.root)


def print_name(test: NameTest) -> str:
    return test.local if test.prefix is None else f"{test.prefix}:{test.local}"


def _print_expr(expr: SiblingExpr) -> str:
    match expr:
        case TreeNode():
            return print_path(expr)
        case SiblingRepeat():
            return _print_inside(expr.item, TreeNode) + _print_bounds(expr.low, expr.high)
        case SiblingSequence():
            texts = [_print_inside(item, TreeNode, SiblingRepeat) for item in expr.items]
            tails = (link.value + text for link, text in zip(expr.links, texts[1:], strict=True))
            return texts[0] + "".join(tails)
        case SiblingAlternation():
            return "|".join(_print_inside(b, TreeNode, SiblingRepeat, SiblingSequence) for b in expr.branches)


def _print_inside(expr: SiblingExpr, *plain: type) -> str:
    text = _print_expr(expr)
    return text if isinstance(expr, plain) else f"({text})"


def _print_bounds(low: int, high: int | None) -> str:
    signs: dict[tuple[int, int | None], str] = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if (low, high) in signs:
        return signs[low, high]
    if low == high:
        return f"{{{low}}}"
    return f"{{{low},{'' if high is None else high}}}"


def print_path(first: TreeNode) -> str:
    texts: list[str] = []
    node: TreeNode | None = first
    while node is not None:
        texts.append(_print_step(node))
        node = node.next
    return "".join(texts)


def _print_step(node: TreeNode) -> str:
    sign = "@" if node.is_attribute else ""
    variable = "" if node.returns is None else f"->{node.returns}"
    predicates = "".join(f"[{_print_predicate(p)}]" for p in node.predicates)
    siblings = "" if node.siblings is None else f"({_print_expr(node.siblings)})"
    return f"{node.axis.value}{sign}{print_name(node.test)}{variable}{predicates}{siblings}"


def _print_predicate(predicate: TreePredicate) -> str:
    match predicate:
        case Exists():
            return _print_expr(predicate.expr)
        case Comparison():
            path = "." if predicate.path is None else print_path(predicate.path)
            return f"{path} {predicate.op} {print_constant(predicate.value)}"
        case Position():
            return str(predicate.index)
        case LastPosition():
            return "last()"


def print_constant(value: Constant) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def check_number(value: int | Decimal) -> None:
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise MeaningError(f"a node cannot be compared with {value}")
        too_large = len(value.as_tuple().digits) > MAX_NUMBER_LENGTH or abs(value.adjusted()) > MAX_EXPONENT
    else:
        too_large = abs(value) >= 10**MAX_NUMBER_LENGTH
    if too_large:
        raise LimitError(f"a number has at most {MAX_NUMBER_LENGTH} digits and an exponent up to {MAX_EXPONENT}")


def _refuse_attributes(expr: SiblingExpr) -> None:
    """Attributes have no order: one cannot be a member of a run of siblings."""
    match expr:
        case TreeNode() if expr.is_attribute:
            name = print_name(expr.test)
            raise MeaningError(
                f"the attribute @{name} cannot stand among siblings",
                hint=f"attributes have no order: write [@{name}] instead",
            )
        case SiblingAlternation():
            for branch in expr.branches:
                _refuse_attributes(branch)
        case _:
            # Sequences and repetitions have looked at their own members when they were built.
            return
