"""What a tree pattern does with a document, in words and as the rules of a transducer."""

from __future__ import annotations

from perseid.engines.trees.transducer import print_rules, translate
from perseid.lang.tree_patterns import TreePattern, return_names


def explain_tree(title: str, pattern: TreePattern) -> str:
    """What it returns, when that is told, what is kept until then, and its rules."""
    names = return_names(pattern)
    told = (
        f"a result is told as soon as it is decided; it returns {', '.join(names)}"
        if names
        else "it returns no node: yes, once a document, as soon as the first match is decided"
    )
    lines = [
        f"tree {title}",
        "  engine: trees, one pass over the document",
        f"  told: {told}",
        "  kept: candidates of the elements that are open, and what they have found",
        "  rules:",
        *(f"    {line}" for line in print_rules(translate(pattern))),
    ]
    return "\n".join(lines)
