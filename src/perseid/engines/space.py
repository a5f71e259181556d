"""The space a kernel works in: one array, with a head that says where its parts lie."""

from __future__ import annotations

from collections.abc import Iterable

from perseid.engines.arrays import IntArray


def lay_out(space: IntArray, head: int, parts: Iterable[tuple[int, int | None, int]]) -> None:
    """Write into the head of a space where its parts begin and, where a word is named for it, end; each is of a size."""
    at = head
    for word, end, size in parts:
        space[word] = at
        at += size
        if end is not None:
            space[end] = at
