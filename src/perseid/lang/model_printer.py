"""Print models and queries as text. ``parse_models(print_models(f)) == f`` for every tree."""

from __future__ import annotations

from perseid.lang import models as m
from perseid.lang.printer import print_expr, print_name, print_pattern, quoting
from perseid.lang.rule_printer import WORDS as WORDS_OF_RULES
from perseid.lang.rule_printer import repair_text, rule_text

WORDS = frozenset(
    (
        "model", "node", "edge", "abstract", "one", "query", "find", "components", "over", "let", "top", "per",
        "ascending", "descending", *WORDS_OF_RULES,
    )
)  # fmt: skip
"""Keywords of model files, in addition to those of patterns; the printer quotes such names in backticks."""


def print_models(file: m.ModelFile) -> str:
    """The metamodel, then queries, patterns, rules and repairs; one clause per line, a blank line between any two."""
    with quoting(WORDS):
        parts = [] if file.metamodel is None else [_metamodel(file.metamodel)]
        parts += [_query(query) for query in file.queries]
        parts += [print_pattern(pattern) for pattern in file.patterns]
        parts += [*map(rule_text, file.rules), *map(repair_text, file.repairs)]
    return "\n".join(parts)


# kinds of element


def _metamodel(metamodel: m.MetamodelDefinition) -> str:
    lines = [f"model {print_name(metamodel.name)}"]
    lines += [_node(node) for node in metamodel.nodes]
    lines += [_edge(edge) for edge in metamodel.edges]
    return "".join(f"{line}\n" for line in lines)


def _node(node: m.NodeType) -> str:
    above = f" is {_names(node.above)}" if node.above else ""
    carried = ", ".join(f"{print_name(attribute.name)} {attribute.type}" for attribute in node.attributes)
    abstract = "abstract " if node.abstract else ""
    return f"{abstract}node {print_name(node.name)}{above}" + (f" ({carried})" if carried else "")


def _edge(edge: m.EdgeType) -> str:
    ends = f"{print_name(edge.source)} -> {print_name(edge.target)}"
    return f"edge {print_name(edge.name)} {ends}" + (" one" if edge.one else "")


# queries


def _query(query: m.QueryDefinition) -> str:
    lines = [f"query {print_name(query.name)}({_names(query.parameters)})"]
    if isinstance(query.alternatives, m.Components):
        over = "" if query.alternatives.nodes is None else f" over {print_name(query.alternatives.nodes)}"
        lines.append(f"components of {print_name(query.alternatives.edges)}{over}")
    else:
        for word, alternative in zip(
            ("find", *["or find"] * len(query.alternatives)), query.alternatives, strict=False
        ):
            lines += _alternative(word, alternative)
    if query.top is not None:
        lines.append(_top(query.top))
    return "".join(f"{line}\n" for line in lines)


def _alternative(word: str, alternative: m.Find) -> list[str]:
    lines = [f"{word} {_constraints(alternative.constraints)}"]
    if alternative.definitions:
        lines.append("let " + ", ".join(map(_definition, alternative.definitions)))
    if alternative.where is not None:
        lines.append(f"where {print_expr(alternative.where)}")
    return lines


def _definition(definition: m.Definition) -> str:
    name = print_name(definition.name)
    if isinstance(definition, m.Let):
        return f"{name} = {print_expr(definition.value)}"
    of = "" if definition.value is None else f"({print_expr(definition.value)})"
    return f"{name} = {definition.function}{of} of {_constraint(definition.call)}"


def _top(top: m.Top) -> str:
    per = f" per {_names(top.per)}" if top.per else ""
    by = ", ".join(print_expr(order.value) + (" ascending" if order.ascending else "") for order in top.by)
    return f"top {top.count}{per} by {by}"


# constraints


def _constraints(constraints: tuple[m.Constraint, ...]) -> str:
    return ", ".join(map(_constraint, constraints))


def _constraint(constraint: m.Constraint) -> str:
    match constraint:
        case m.IsNode():
            return f"{print_name(constraint.variable)}: {print_name(constraint.type)}"
        case m.Walk():
            source, edge, target = map(print_name, (constraint.source, constraint.edge, constraint.target))
            return f"{source} -{edge}{_steps(constraint)}-> {target}"
        case m.QueryCall():
            return f"{print_name(constraint.query)}{_steps(constraint)}({_names(constraint.arguments)})"
        case m.No(constraints=(m.IsNode() | m.Walk() | m.QueryCall() as only,), where=None):
            return f"not {_constraint(only)}"
        case m.No():
            where = "" if constraint.where is None else f" where {print_expr(constraint.where)}"
            return f"not ({_constraints(constraint.constraints)}{where})"


def _steps(constraint: m.Walk | m.QueryCall) -> str:
    match (constraint.low, constraint.high):
        case (1, 1):
            return ""
        case (1, None):
            return "+"
        case (0, None):
            return "*"
        case (low, high) if low == high:
            return f"{{{low}}}"
        case (low, high):
            return f"{{{low},{high}}}"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(print_name, names))
