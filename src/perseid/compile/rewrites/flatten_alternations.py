"""Rewrite ``(A | B) | C`` to ``A | B | C``, with the same preference."""

from __future__ import annotations

from perseid.compile.rewrites.mapping import map_pattern
from perseid.semantics import core as c


def flatten_alternations(pattern: c.CorePattern) -> c.CorePattern:
    return map_pattern(pattern, _flatten)


def _flatten(element: c.Core) -> c.Core:
    if not isinstance(element, c.Alt):
        return element
    branches: list[c.Core] = []
    for branch in element.branches:
        branches.extend(branch.branches if isinstance(branch, c.Alt) else (branch,))
    return c.Alt(tuple(branches))
