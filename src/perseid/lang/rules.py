"""The tree of rules and repairs over a model: what they wait for, and what they do to it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal as Choice
from typing import TypeAlias

from perseid.lang.ast import Output
from perseid.lang.expressions import Expr, Span, span_field

# what is waited for


@dataclass(frozen=True, slots=True)
class OnQuery:
    """``on found overcommitted(host)``: a match of a query came, stayed with a change, or went; its values get names."""

    change: Choice["found", "updated", "lost"]
    query: str
    arguments: tuple[str, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class OnPattern:
    """``on toleration``: a match of a pattern; its key and what it returns are known by their names."""

    pattern: str
    span: Span | None = span_field()


# what is done


@dataclass(frozen=True, slots=True)
class SetValue:
    """``set host.cpu = host.cpu - 1``."""

    variable: str
    attribute: str
    value: Expr
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class NamedNode:
    """``create d: Deployed named 'd-' || host``; with ``let`` instead, the node that is there under this name."""

    variable: str
    type: str
    name: Expr
    create: bool
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class DeleteNode:
    variable: str
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class LinkNodes:
    """``link host -trace-> d``, ``unlink host -trace-> d``."""

    action: Choice["link", "unlink"]
    source: str
    edge: str
    target: str
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Emit:
    """``emit alarm(host, 'three errors' as why)``: a row for those who take what the rules tell."""

    name: str
    columns: tuple[Output, ...]
    span: Span | None = span_field()


Action: TypeAlias = "SetValue | NamedNode | DeleteNode | LinkNodes | Emit"


@dataclass(frozen=True, slots=True)
class Block:
    """Actions on the rule's own model, or ``for model 'south' do …`` on the one with this key."""

    actions: tuple[Action, ...]
    model: tuple[Expr, ...] = ()
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Rule:
    """What is done when something happens. The smallest ``priority`` goes first; rules without one go last."""

    name: str
    trigger: OnQuery | OnPattern
    blocks: tuple[Block, ...]
    priority: int | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Repair:
    """A step that a search for repairs may take wherever its query matches, and what it costs."""

    name: str
    query: str
    arguments: tuple[str, ...]
    actions: tuple[Action, ...]
    cost: Decimal = Decimal(1)
    span: Span | None = span_field()
