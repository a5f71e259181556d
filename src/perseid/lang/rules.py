"""AST of rules and repairs over a model: triggers and actions."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal as Choice
from typing import TypeAlias

from perseid.lang.ast import Output
from perseid.lang.expressions import Expr, Span, span_field

# triggers


@dataclass(frozen=True, slots=True)
class OnQuery:
    """``on found overcommitted(host)``: a query match appeared, changed, or disappeared; binds its values to names."""

    change: Choice["found", "updated", "lost"]
    query: str
    arguments: tuple[str, ...]
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class OnPattern:
    """``on toleration``: a match of a pattern; its key and outputs are bound by name."""

    pattern: str
    span: Span | None = span_field()


# actions


@dataclass(frozen=True, slots=True)
class SetValue:
    """``set host.cpu = host.cpu - 1``."""

    variable: str
    attribute: str
    value: Expr
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class NamedNode:
    """``create d: Deployed named 'd-' || host``; with ``let`` instead, the existing node of this name."""

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
    """``emit alarm(host, 'three errors' as why)``: an output row of the rule set."""

    name: str
    columns: tuple[Output, ...]
    span: Span | None = span_field()


Action: TypeAlias = "SetValue | NamedNode | DeleteNode | LinkNodes | Emit"


@dataclass(frozen=True, slots=True)
class ActionBlock:
    """Actions on the rule's own model, or with ``for model 'south' do …`` on the model of that key."""

    actions: tuple[Action, ...]
    model: tuple[Expr, ...] = ()
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Rule:
    """Actions that run on a trigger. The smallest ``priority`` runs first; rules without one run last."""

    name: str
    trigger: OnQuery | OnPattern
    blocks: tuple[ActionBlock, ...]
    priority: int | None = None
    span: Span | None = span_field()


@dataclass(frozen=True, slots=True)
class Repair:
    """A step that a repair search may take at each match of its query, and its cost."""

    name: str
    query: str
    arguments: tuple[str, ...]
    actions: tuple[Action, ...]
    cost: Decimal = Decimal(1)
    span: Span | None = span_field()
