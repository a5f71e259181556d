"""AST of subscriptions: two tree pattern blocks, a temporal join of their documents, and the output per pair.

This is XSCL, the language of Hong et al., *Massively Multi-Query Join Processing in Publish/Subscribe Systems*, 2007:
``S//book->b[//author->a] FOLLOWED BY{a = c, 1 day} S//blog->d[//author->c]``. A block is a stream and a tree pattern
with return names as the block's variables. The predicate compares variables of the two blocks with each other, or one
with a constant; a path after a variable, ``b//author``, is a node below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Literal as Choice
from typing import TypeAlias

from perseid.errors import SemanticError
from perseid.lang.expressions import Span, span_field
from perseid.lang.printer import print_duration, print_name
from perseid.lang.templates import Template, read_template
from perseid.lang.tree_patterns import (
    Constant,
    TreeNode,
    TreePattern,
    check_number,
    print_constant,
    print_path,
    print_tree,
    return_names,
)

Comparator = Choice["=", "!=", "<", "<=", ">", ">=", "contains"]
MIRRORED: dict[str, Comparator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Operators with their operands swapped."""


class TemporalRelation(Enum):
    """Temporal order of the documents of two blocks."""

    JOIN = "JOIN"
    """In either order, at most a window apart."""
    FOLLOWED_BY = "FOLLOWED BY"
    """The second is later, by at most the window."""


@dataclass(frozen=True, slots=True)
class Block:
    """Documents of a stream that match a tree pattern."""

    stream: str
    tree: TreePattern
    span: Span | None = span_field()

    @property
    def variables(self) -> tuple[str, ...]:
        return return_names(self.tree)


@dataclass(frozen=True, slots=True)
class Operand:
    """A variable, or the nodes that a path below it reaches."""

    variable: str
    path: TreeNode | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Compared:
    """Comparison of two nodes, or of a node with a constant."""

    left: Operand
    op: Comparator
    right: Operand | Constant
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        if self.op == "contains" and not (isinstance(self.right, str) and self.right):
            raise SemanticError("'contains' expects a non-empty string", hint="Write title contains 'storm'.")
        if isinstance(self.right, int | Decimal):
            check_number(self.right)


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Compared | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class Pairing:
    """The FROM query: a join of two blocks."""

    relation: TemporalRelation
    left: Block
    right: Block
    predicate: Predicate
    window: int | None
    """Microseconds; None is unbounded."""
    span: Span | None = span_field()

    def __post_init__(self) -> None:
        both = set(self.left.variables) & set(self.right.variables)
        if both:
            raise SemanticError(f"both blocks have a variable {min(both)!r}", hint="Rename the node in one block.")


@dataclass(frozen=True, slots=True)
class Construction:
    """SELECT as an XML template with ``{variable}`` as placeholder for nodes; without it a row has both blocks."""

    text: str
    template: Template = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "template", read_template(self.text))

    @property
    def variables(self) -> tuple[str, ...]:
        return self.template.variables


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription."""

    source: Pairing
    select: Construction | None = None
    publish: str | None = None
    """Name of the result stream."""
    span: Span | None = span_field()


def read_constant(literal: str) -> Constant:
    """Parse a quoted text or a number."""
    if literal[0] in "'\"":
        return literal[1:-1].replace(literal[0] * 2, literal[0])
    value = Decimal(literal)
    return int(value) if value == value.to_integral_value() and abs(value.adjusted()) < 50 else value


def comparisons(predicate: Predicate) -> Iterator[Compared]:
    """Yield every comparison in a predicate."""
    if isinstance(predicate, Compared):
        yield predicate
    else:
        for part in predicate.parts:
            yield from comparisons(part)


# printing


def print_subscription(subscription: Subscription) -> str:
    """Print the canonical text; parsing it returns the same subscription."""
    source = subscription.source
    window = "forever" if source.window is None else print_duration(source.window)
    lines = [] if subscription.select is None else [f"SELECT {subscription.select.text}", "FROM"]
    lines += [
        print_block(source.left),
        f"{source.relation.value}{{{print_predicate(source.predicate)}, {window}}}",
        print_block(source.right),
    ]
    if subscription.publish is not None:
        lines.append(f"PUBLISH {print_name(subscription.publish)}")
    return "\n".join(lines) + "\n"


def print_block(block: Block) -> str:
    return print_name(block.stream) + print_tree(block.tree)


def print_predicate(predicate: Predicate) -> str:
    match predicate:
        case Compared():
            right = predicate.right
            shown = _print_operand(right) if isinstance(right, Operand) else print_constant(right)
            return f"{_print_operand(predicate.left)} {predicate.op} {shown}"
        case AllOf():
            inner = (f"({print_predicate(p)})" if isinstance(p, AnyOf) else print_predicate(p) for p in predicate.parts)
            return " AND ".join(inner)
        case AnyOf():
            return " OR ".join(map(print_predicate, predicate.parts))


def _print_operand(operand: Operand) -> str:
    return operand.variable + ("" if operand.path is None else print_path(operand.path))
