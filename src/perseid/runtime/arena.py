"""Allocation inside the one array that a kernel works in: a head says where its parts lie."""

from __future__ import annotations

from collections.abc import Iterable

from perseid.runtime.arrays import IntArray


def allocate(space: IntArray, head: int, parts: Iterable[tuple[int, int | None, int]]) -> None:
    """Allocate parts behind the head. Each names the word of its begin, the word of its end if there is one, and its size."""
    at = head
    for word, end, size in parts:
        space[word] = at
        at += size
        if end is not None:
            space[end] = at
