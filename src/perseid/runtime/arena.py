"""Allocate the parts of the single array that a kernel works in; words at its head store the offsets of the parts."""

from __future__ import annotations

from collections.abc import Iterable

from perseid.runtime.arrays import IntArray


def allocate(space: IntArray, head: int, parts: Iterable[tuple[int, int | None, int]]) -> None:
    """Allocate parts behind the head, each given as (word of its start, word of its end or None, size)."""
    at = head
    for word, end, size in parts:
        space[word] = at
        at += size
        if end is not None:
            space[end] = at
