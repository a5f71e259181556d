"""Print rules and repairs as text, one clause per line."""

from __future__ import annotations

from decimal import Decimal

from perseid.lang import rules as r
from perseid.lang.printer import print_expr, print_name, print_output

WORDS = frozenset(("rule", "repair", "on", "priority", "cost", "do", "emit", "named"))
"""Keywords of rules, in addition to those of patterns and models."""


def rule_text(rule: r.Rule) -> str:
    lines = [f"rule {print_name(rule.name)} on {_trigger(rule.trigger)}"]
    if rule.priority is not None:
        lines.append(f"priority {rule.priority}")
    lines += map(_block, rule.blocks)
    return "".join(f"{line}\n" for line in lines)


def repair_text(repair: r.Repair) -> str:
    lines = [f"repair {print_name(repair.name)} on {print_name(repair.query)}({_names(repair.arguments)})"]
    if repair.cost != Decimal(1):
        lines.append(f"cost {repair.cost:f}")
    lines.append("do " + ", ".join(map(_action, repair.actions)))
    return "".join(f"{line}\n" for line in lines)


def _trigger(trigger: r.OnQuery | r.OnPattern) -> str:
    if isinstance(trigger, r.OnPattern):
        return print_name(trigger.pattern)
    return f"{trigger.change} {print_name(trigger.query)}({_names(trigger.arguments)})"


def _block(block: r.ActionBlock) -> str:
    other = f"for model {', '.join(map(print_expr, block.model))} " if block.model else ""
    return f"{other}do " + ", ".join(map(_action, block.actions))


def _action(action: r.Action) -> str:
    match action:
        case r.SetValue():
            place = f"{print_name(action.variable)}.{print_name(action.attribute)}"
            return f"set {place} = {print_expr(action.value)}"
        case r.NamedNode():
            word = "create" if action.create else "let"
            return f"{word} {print_name(action.variable)}: {print_name(action.type)} named {print_expr(action.name)}"
        case r.DeleteNode():
            return f"delete {print_name(action.variable)}"
        case r.LinkNodes():
            walk = f"{print_name(action.source)} -{print_name(action.edge)}-> {print_name(action.target)}"
            return f"{action.action} {walk}"
        case r.Emit():
            return f"emit {print_name(action.name)}({', '.join(map(print_output, action.columns))})"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(print_name, names))
