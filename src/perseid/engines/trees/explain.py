"""Explanation of a tree pattern, in words and as the rules of a transducer."""

from __future__ import annotations

from perseid.engines.trees.transducer import print_rules, translate
from perseid.lang.tree_patterns import (
    Axis,
    Comparison,
    Exists,
    LastPosition,
    Position,
    SiblingExpr,
    TreeNode,
    TreePattern,
    TreePredicate,
    print_name,
    print_tree,
    return_names,
)


def explain_tree(title: str, pattern: TreePattern, *, rules: bool = False) -> str:
    """Describe the nodes that a pattern matches and returns, its output policy and state, and on request its rules."""
    names = return_names(pattern)
    emitted = (
        f"{', '.join(names)} of each result, as soon as it is final"
        if names
        else "one row per matching document without nodes, as soon as the first match is final"
    )
    lines = [
        f"tree {title}",
        f"  matches: {_tree_line(pattern.root)}",
        "  engine: trees, one pass over the document",
        f"  emits: {emitted}",
        "  state: candidates of open elements, and their results so far",
    ]
    if rules:
        lines += ["  rules:", *(f"    {line}" for line in print_rules(translate(pattern)))]
    return "\n".join(lines)


def _tree_line(expr: SiblingExpr) -> str:
    if not isinstance(expr, TreeNode):
        return f"the root as {_printed(expr)}"
    if expr.is_attribute:
        return _with_demands(f"any attribute{_named(expr)}", expr)
    name = _named(expr) or " element"
    return _with_demands(f"{'the root' if expr.axis is Axis.CHILD else 'any'}{name}", expr)


def _below(node: TreeNode) -> str:
    """Describe a step relative to the one before it, and the rest of its path."""
    if node.is_attribute:
        scope = "" if node.axis is Axis.CHILD else " (of the element or a descendant)"
        return _with_demands(f"an attribute{_named(node)}{scope}", node)
    return _with_demands(f"a {'child' if node.axis is Axis.CHILD else 'descendant'}{_named(node)}", node)


def _named(node: TreeNode) -> str:
    return "" if node.test.is_wildcard and node.test.prefix is None else f" {print_name(node.test)}"


def _with_demands(text: str, node: TreeNode) -> str:
    text += "" if node.returns is None else f" (->{node.returns})"
    demands = [_demand(one) for one in node.predicates]
    if node.siblings is not None:
        demands.append(f"has children as {_printed(node.siblings)}")
    if demands:
        text += " that " + " and ".join(demands)
    return text if node.next is None else f"{text}; in it, {_below(node.next)}"


def _demand(predicate: TreePredicate) -> str:
    match predicate:
        case Exists():
            return f"has {_has(predicate.expr)}"
        case Comparison():
            subject = "text" if predicate.path is None else _has(predicate.path)
            value = f"'{predicate.value}'" if isinstance(predicate.value, str) else predicate.value
            return f"has {subject} {predicate.op} {value}"
        case Position():
            return f"is number {predicate.index} of the siblings with its name"
        case LastPosition():
            return "is the last of the siblings with its name"


def _has(expr: SiblingExpr) -> str:
    """Describe a single step in words; a longer expression is clearer as written."""
    if not isinstance(expr, TreeNode):
        return f"children as {_printed(expr)}"
    is_single = not expr.predicates and expr.siblings is None and expr.next is None
    return _below(expr) if is_single else _printed(expr)


def _printed(expr: SiblingExpr) -> str:
    return print_tree(TreePattern(expr))
