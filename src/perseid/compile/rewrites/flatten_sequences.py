"""Rewrite ``(A -> B) -> C`` to ``A -> B -> C``: sequences are associative, an arrow belongs to the step behind it."""

from __future__ import annotations

from perseid.compile.rewrites.mapping import map_pattern
from perseid.semantics import core as c


def flatten_sequences(pattern: c.CorePattern) -> c.CorePattern:
    return map_pattern(pattern, _flatten)


def _flatten(element: c.Core) -> c.Core:
    if not isinstance(element, c.Seq):
        return element
    items: list[c.Core] = []
    hops: list[c.Hop] = []
    for i, item in enumerate(element.items):
        if i > 0:
            hops.append(element.hops[i - 1])
        if isinstance(item, c.Seq):
            items.extend(item.items)
            hops.extend(item.hops)
        else:
            items.append(item)
    return c.Seq(tuple(items), tuple(hops))
