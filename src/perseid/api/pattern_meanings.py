"""Explanations of patterns and their tree patterns, for streams of any kind."""

from __future__ import annotations

from perseid.api.pattern_sources import PatternSources
from perseid.compile.plan import Plan
from perseid.engines.trees.explain import explain_tree
from perseid.engines.trees.stream import extract_trees
from perseid.lang.tree_patterns import TreePattern
from perseid.viz.explain import explain


def meanings(patterns: PatternSources, plan: Plan) -> list[str]:
    """The meaning of each pattern in words."""
    return [explain(plan, pattern.name, pattern.metadata) for pattern in patterns.patterns]


def trees_of(patterns: PatternSources) -> dict[str, TreePattern]:
    """The tree patterns of all steps, by the type of their events."""
    _, query = extract_trees(patterns.patterns)  # by their prefixes: a stream declares the namespaces
    return {step.type: step.tree for step in query.steps}


def explain_trees(patterns: PatternSources) -> list[str]:
    """The meaning of each tree pattern."""
    return [f"\n{explain_tree(title, tree)}" for title, tree in trees_of(patterns).items()]
