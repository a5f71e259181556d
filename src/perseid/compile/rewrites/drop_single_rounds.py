"""Rewrite ``A{1}`` to ``A``: a single iteration needs no counting, and no ``until``. Loops with guards remain."""

from __future__ import annotations

from perseid.compile.rewrites.mapping import map_pattern
from perseid.semantics import core as c


def drop_single_rounds(pattern: c.CorePattern) -> c.CorePattern:
    return map_pattern(pattern, _drop)


def _drop(element: c.Core) -> c.Core:
    if isinstance(element, c.Loop) and element.low == element.high == 1 and not element.guards:
        return element.body
    return element
