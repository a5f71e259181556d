"""Documents in XML, JSON or rows: tree patterns without event patterns."""

from __future__ import annotations

from perseid.api.trees import TreePatterns, tree_patterns
from perseid.engines.trees.stream import Documents

__all__ = [
    "Documents",
    "TreePatterns",
    "tree_patterns",
]
