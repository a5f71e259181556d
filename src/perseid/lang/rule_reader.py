"""Transform parse trees of rules and repairs to the AST of :mod:`perseid.lang.rules`."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal as Choice
from typing import NamedTuple, cast

from lark import Token, v_args
from lark.tree import Meta

from perseid.errors import PatternSyntaxError
from perseid.lang import ast, limits
from perseid.lang import expressions as ex
from perseid.lang import rules as r
from perseid.lang.expression_reader import integer, place, token_place
from perseid.lang.pattern_reader import PatternReader


class _Priority(NamedTuple):
    number: int


class _Cost(NamedTuple):
    number: Decimal


@v_args(inline=True, meta=True)
class RuleReader(PatternReader):
    """One method per grammar rule; the base classes transform patterns and expressions."""

    def on_query(self, meta: Meta, change: Token, query: Token, *arguments: Token) -> r.OnQuery:
        word = cast("Choice['found', 'updated', 'lost']", change.lower())
        return r.OnQuery(word, str(query), tuple(map(str, arguments)), span=place(meta))

    def on_pattern(self, meta: Meta, pattern: Token) -> r.OnPattern:
        return r.OnPattern(str(pattern), span=place(meta))

    def priority(self, meta: Meta, number: Token) -> _Priority:
        return _Priority(integer(number, limits.MAX_INTEGER, "integer"))

    def cost(self, meta: Meta, number: Token) -> _Cost:
        if len(number) > 20:
            raise PatternSyntaxError(
                "A cost is longer than 20 characters.", span=token_place(number), hint="Use cost 1."
            )
        return _Cost(Decimal(number))

    # actions

    def set_value(self, meta: Meta, variable: Token, attribute: Token, _: Token, value: ex.Expr) -> r.SetValue:
        return r.SetValue(str(variable), str(attribute), value, span=place(meta))

    def create_node(self, meta: Meta, variable: Token, _: Token, type_: Token, name: ex.Expr) -> r.NamedNode:
        return r.NamedNode(str(variable), str(type_), name, True, span=place(meta))

    def known_node(self, meta: Meta, variable: Token, _: Token, type_: Token, name: ex.Expr) -> r.NamedNode:
        return r.NamedNode(str(variable), str(type_), name, False, span=place(meta))

    def delete_node(self, meta: Meta, variable: Token) -> r.DeleteNode:
        return r.DeleteNode(str(variable), span=place(meta))

    def link_nodes(self, meta: Meta, source: Token, edge: Token, arrow: Token, target: Token) -> r.LinkNodes:
        plain_arrow(arrow)
        return r.LinkNodes("link", str(source), str(edge), str(target), span=place(meta))

    def unlink_nodes(self, meta: Meta, source: Token, edge: Token, arrow: Token, target: Token) -> r.LinkNodes:
        plain_arrow(arrow)
        return r.LinkNodes("unlink", str(source), str(edge), str(target), span=place(meta))

    def emit(self, meta: Meta, name: Token, *columns: ast.Output) -> r.Emit:
        return r.Emit(str(name), columns, span=place(meta))

    # rules

    def block(self, meta: Meta, *parts: r.Action | ex.Expr) -> r.ActionBlock:
        actions = tuple(part for part in parts if isinstance(part, _ACTIONS))
        model = tuple(part for part in parts if not isinstance(part, _ACTIONS))
        return r.ActionBlock(actions, model, span=place(meta))

    def rule(
        self, meta: Meta, name: Token, trigger: r.OnQuery | r.OnPattern, *rest: _Priority | r.ActionBlock
    ) -> r.Rule:
        priority = next((part.number for part in rest if isinstance(part, _Priority)), None)
        blocks = tuple(part for part in rest if isinstance(part, r.ActionBlock))
        return r.Rule(str(name), trigger, blocks, priority, span=token_place(name))

    def repair(self, meta: Meta, name: Token, query: Token, *rest: Token | r.Action | _Cost) -> r.Repair:
        arguments = tuple(str(part) for part in rest if isinstance(part, Token))
        actions = tuple(part for part in rest if isinstance(part, _ACTIONS))
        cost = next((part.number for part in rest if isinstance(part, _Cost)), Decimal(1))
        return r.Repair(str(name), str(query), arguments, actions, cost, span=token_place(name))


_ACTIONS = (r.SetValue, r.NamedNode, r.DeleteNode, r.LinkNodes, r.Emit)


def plain_arrow(arrow: Token) -> None:
    """Raise a syntax error unless the edge ends in ``->``."""
    if arrow != "->":
        raise PatternSyntaxError(
            f"Expected '->' at the end of an edge, got '{arrow}'.", span=token_place(arrow), hint="Write a -likes-> b."
        )
