"""The meaning of tree patterns: what each part of one finds in a document, by trying everything.

This is the specification of regular tree patterns (paper 1), as ``oracle`` is that of sequences. docs/semantics.md says
the same in words. The evaluation is :class:`perseid.semantics.trees.Reading`, with which subscriptions make their output too.
"""

from __future__ import annotations

from collections.abc import Mapping

from perseid.lang import tree_patterns as tp
from perseid.semantics.documents import Element
from perseid.semantics.trees import Place, Reading, Results, known_prefixes


def find_trees(pattern: tp.TreePattern, root: Element, namespaces: Mapping[str, str] | None = None) -> Results | None:
    """What a pattern returns of a document; None where the document does not match it.

    ``namespaces`` says what prefixes stand for; the empty prefix is that of names without one.
    """
    known = known_prefixes(pattern, namespaces or {})
    return Reading(root, known, pattern).expression(pattern.root, Place((root,)))
