"""Random rules over the queries of a random model: set, create, link, unlink, delete and emit; most reach a
fixpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from perseid.lang import expressions as ex
from perseid.lang import rules as r
from perseid.lang.ast import Output
from perseid.semantics import types as t
from perseid.semantics.model_queries import ANode, Queries, Sort
from perseid.semantics.rules import Rules
from tests.generators.random_patterns import Chooser

_LITERALS: Mapping[type, tuple[ex.Literal, ...]] = {
    t.Integer: tuple(ex.Literal("integer", n) for n in (0, 1, 2)),
    t.Double: tuple(ex.Literal("double", x) for x in (0.0, 0.5, 1.5)),
    t.String: tuple(ex.Literal("string", text) for text in ("a", "b", "")),
    t.Boolean: tuple(ex.Literal("boolean", on) for on in (True, False)),
    t.Timestamp: tuple(ex.Literal("timestamp", day * 86_400_000_000) for day in (18_262, 18_263)),
}


def make_rules(chooser: Chooser, queries: Queries, *, texts: bool, others: tuple[str, ...] = ()) -> Rules:
    """Returns some rules; nodes are named by ``texts`` or by numbers, and rules may request changes of the models
    ``others``."""
    made = _RuleMaker(chooser, queries, texts, others)
    rules = tuple(made.rule(f"rule{i}") for i in range(chooser.number(1, 4)))
    return Rules(queries, rules)


class _RuleMaker:
    def __init__(self, chooser: Chooser, queries: Queries, texts: bool, others: tuple[str, ...]) -> None:
        self.ch = chooser
        self.queries = queries
        self.texts = texts
        self.others = others

    def rule(self, name: str) -> r.Rule:
        ch = self.ch
        query = ch.pick(list(self.queries.queries))
        changes: tuple[Literal["found", "updated", "lost"], ...] = ("found", "found", "updated", "lost")
        sorts = self.queries.sorts[query]
        trigger = r.OnQuery(ch.pick(changes), query, tuple(f"x{i}" for i in range(len(sorts))))
        known = dict(zip(trigger.arguments, sorts.values(), strict=True))
        blocks = [r.ActionBlock(tuple(self.actions(name, known)))]
        if self.others and ch.chance(30):
            model = ex.Literal("string", ch.pick(self.others))
            blocks.append(r.ActionBlock((self.created("other"),), (model,)))
        return r.Rule(name, trigger, tuple(blocks), ch.pick((None, None, 1, 2)))

    def actions(self, name: str, known: Mapping[str, Sort]) -> Iterator[r.Action]:
        ch = self.ch
        nodes = [n for n, sort in known.items() if isinstance(sort, ANode)]
        yield r.Emit(name, tuple(Output(ex.Ref((n,)), None) for n in known))
        for i in range(ch.pick((0, 1, 1, 2))):
            roll = ch.number(0, 99)
            if nodes and roll < 55:
                yield from self.setting(ch.pick(nodes), known)
            elif nodes and roll < 65:
                yield r.DeleteNode(ch.pick(nodes))
            elif nodes and roll < 85:
                edge = ch.pick(list(self.queries.kinds.edges))
                action: Literal["link", "unlink"] = "link" if ch.chance(60) else "unlink"
                yield r.LinkNodes(action, ch.pick(nodes), edge, ch.pick(nodes))
            else:
                yield self.created(f"new{i}")

    def setting(self, node: str, known: Mapping[str, Sort]) -> Iterator[r.Action]:
        sort = known[node]
        assert isinstance(sort, ANode)
        carried = {a: type_ for kind in sorted(sort.types) for a, type_ in self.queries.kinds.carried[kind].items()}
        if not carried:
            return
        attribute = self.ch.pick(list(carried))
        type_ = carried[attribute]
        value: ex.Expr = self.ch.pick(_LITERALS[type(type_)])
        if isinstance(type_, t.Integer | t.Double) and self.ch.chance(25):
            value = ex.Binary("-", ex.Ref((node, attribute)), ex.Literal("integer", 1))
        yield r.SetValue(node, attribute, value)

    def created(self, variable: str) -> r.NamedNode:
        kinds = [name for name, node in self.queries.kinds.nodes.items() if not node.abstract]
        number = self.ch.number(0, 9)
        name = ex.Literal("string", f"e{number}") if self.texts else ex.Literal("integer", number)
        return r.NamedNode(variable, self.ch.pick(kinds), name, True)
