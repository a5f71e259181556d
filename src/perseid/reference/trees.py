"""Reference semantics of tree patterns, by exhaustive search.

This is the specification of regular tree patterns (CEDMFT), described in docs/semantics.md, as ``oracle`` is that of
sequences. The evaluation is :class:`perseid.semantics.trees.DocumentEvaluation`, which subscriptions use for their output too.
"""

from __future__ import annotations

from collections.abc import Mapping

from perseid.lang import tree_patterns as tp
from perseid.semantics.documents import Element
from perseid.semantics.trees import DocumentEvaluation, Results, TreeLocation, known_prefixes


def find_trees(pattern: tp.TreePattern, root: Element, namespaces: Mapping[str, str] | None = None) -> Results | None:
    """Return the results of a pattern in a document; None if the document does not match.

    ``namespaces`` maps prefixes to URIs; the empty prefix applies to names without one.
    """
    known = known_prefixes(pattern, namespaces or {})
    return DocumentEvaluation(root, known, pattern).expression(pattern.root, TreeLocation((root,)))
