"""AST of tree patterns, the text between ``<<`` and ``>>``, and its printer.

A tree pattern is a path of steps, ``//order[/total > 100]->o/item``. A step has an axis (``/`` child, ``//``
descendant), a name test, an optional return name (``->o``), predicates in ``[ ]`` and one expression in ``( )``
over its children as siblings, ``(/author->a:/title:(/pages|/year)*)``. Paths inside ``[ ]`` and ``( )`` are
relative to their step: ``//a`` there is a descendant of that step, never of the document.

Siblings are joined by ``:`` (the next element sibling) or ``::`` (any later one). The double colon is the weaker
form of the single one. It cannot be XPath's ``axis::name``, as the only axes are ``/`` and ``//``.

A colon also separates a namespace prefix from its name. After the sibling colon a step always begins with its
axis (or a group with its parenthesis), so a colon without space between two names, ``/p:local`` or ``/p:*``, is
a prefix, and every other colon is the sibling operator.

Nodes are frozen and compare by value; spans count from the start of the tree text and are excluded from
equality. Constructors reject nodes that have no text form, so every pattern can be printed and parsed back to
the same pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Literal as Choice
from typing import TypeAlias, get_args

from perseid.errors import LimitError, SemanticError
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
    """Axis from the previous step."""

    CHILD = "/"
    DESCENDANT = "//"


class SiblingLink(Enum):
    """Order of two siblings."""

    ADJACENT = ":"
    """The next element; text, comments and processing instructions in between are ignored."""
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
            raise SemanticError(f"{self.local!r} is not an XML name")
        if self.prefix is not None and not _XML_NAME.fullmatch(self.prefix):
            raise SemanticError(f"{self.prefix!r} is not an XML namespace prefix")

    @property
    def is_wildcard(self) -> bool:
        return self.local == "*"


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One step, the constraints below it, and the rest of the path in ``next``.

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
            raise SemanticError(
                f"invalid return name {self.returns!r}",
                hint="use letters, digits and _, and do not begin with a digit",
            )
        if self.is_attribute and (self.predicates or self.siblings is not None or self.next is not None):
            raise SemanticError(
                f"unexpected constraint or step below the attribute @{print_name(self.test)}",
                hint="end the path at the attribute: it has a value and no children",
            )
        if self.siblings is not None:
            _refuse_attributes(self.siblings)


@dataclass(frozen=True, slots=True)
class Exists:
    """``[/a]``, ``[/a:/b]``: the node has children (or descendants) that match the expression."""

    expr: SiblingExpr
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Comparison:
    """``[/total > 100]``: true for some node at the end of the path; no path (``.``) compares the node itself.

    The type of the constant selects a numeric or a textual comparison.
    """

    path: TreeNode | None
    op: ComparisonOp
    value: Constant
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if self.op not in get_args(ComparisonOp):
            raise SemanticError(f"unknown comparison {self.op!r}")
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | Decimal):
            raise SemanticError(f"expected a string or a number to compare with, got {self.value!r}")
        if not isinstance(self.value, str):
            check_number(self.value)


@dataclass(frozen=True, slots=True)
class Position:
    """``[3]``: the third of the siblings that pass the step's test, counted from 1."""

    index: int
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        check_number(self.index)
        if self.index < 1:
            raise SemanticError(f"expected a position from 1, got {self.index}", hint="count positions from 1")


@dataclass(frozen=True, slots=True)
class LastPosition:
    """``[last()]``: the last of the siblings that pass the step's test."""

    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class SiblingSequence:
    """Siblings in order; ``links[i]`` joins items i and i + 1."""

    items: tuple[SiblingExpr, ...]
    links: tuple[SiblingLink, ...]
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if len(self.items) < 2 or len(self.links) != len(self.items) - 1:
            raise SemanticError("a sequence needs at least two items and one link between each two")
        for item in self.items:
            _refuse_attributes(item)


@dataclass(frozen=True, slots=True)
class SiblingAlternation:
    """One of the branches."""

    branches: tuple[SiblingExpr, ...]
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if len(self.branches) < 2:
            raise SemanticError("an alternation needs at least two branches")


@dataclass(frozen=True, slots=True)
class SiblingRepeat:
    """An expression ``low`` to ``high`` times, each iteration at the next sibling (``high`` None: unbounded)."""

    item: SiblingExpr
    low: int
    high: int | None
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if max(self.low, self.high or 0) > MAX_REPETITION:
            raise LimitError(f"a repetition bound is larger than {MAX_REPETITION:,}", hint="remove the bound: {2,}")
        if self.low < 0 or self.high == 0:
            raise SemanticError("a repetition must be at least {0,1}", hint="remove the element that must not occur")
        if self.high is not None and self.high < self.low:
            raise SemanticError(
                f"invalid repetition {{{self.low},{self.high}}}: the upper bound is below the lower bound",
                hint=f"write the smaller bound first: {{{self.high},{self.low}}}",
            )
        _refuse_attributes(self.item)


SiblingExpr: TypeAlias = TreeNode | SiblingSequence | SiblingAlternation | SiblingRepeat
TreePredicate: TypeAlias = Exists | Comparison | Position | LastPosition
TreePart: TypeAlias = SiblingExpr | TreePredicate


@dataclass(frozen=True, slots=True)
class TreePattern:
    """A complete tree pattern; return names are unique."""

    root: SiblingExpr
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        names = return_names(self)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise SemanticError(f"duplicate return name {twice!r}", hint="use another name")


def children(part: TreePart) -> tuple[TreePart, ...]:
    """Return the direct parts, in printed order."""
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
    """Yield every part with its depth (1 at the root) in preorder and printed order, without recursion."""
    stack: list[tuple[TreePart, int]] = [(pattern.root, 1)]
    while stack:
        part, depth = stack.pop()
        yield part, depth
        stack.extend((child, depth + 1) for child in reversed(children(part)))


def return_names(pattern: TreePattern) -> tuple[str, ...]:
    """Collect the return names, in printed order."""
    return tuple(p.returns for p, _ in walk(pattern) if isinstance(p, TreeNode) and p.returns is not None)


def print_tree(pattern: TreePattern) -> str:
    """Print the canonical text; parsing it returns the same pattern."""
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
            raise SemanticError(f"a node cannot be compared with {value}")
        too_large = len(value.as_tuple().digits) > MAX_NUMBER_LENGTH or abs(value.adjusted()) > MAX_EXPONENT
    else:
        too_large = abs(value) >= 10**MAX_NUMBER_LENGTH
    if too_large:
        raise LimitError(f"a number must have at most {MAX_NUMBER_LENGTH} digits and an exponent up to {MAX_EXPONENT}")


def _refuse_attributes(expr: SiblingExpr) -> None:
    """Reject attributes in sibling expressions: attributes have no order."""
    match expr:
        case TreeNode() if expr.is_attribute:
            name = print_name(expr.test)
            raise SemanticError(
                f"unexpected attribute @{name} among siblings",
                hint=f"write [@{name}] instead: attributes have no order",
            )
        case SiblingAlternation():
            for branch in expr.branches:
                _refuse_attributes(branch)
        case _:
            # Sequences and repetitions validate their own members in ``__post_init__``.
            return
