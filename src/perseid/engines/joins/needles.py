"""Multi-pattern substring search in one pass over the bytes of a text (Aho and Corasick).

UTF-8 is self-synchronizing, so a text contains another exactly if its bytes do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perseid.engines.joins.kernel import find, insert, rehash
from perseid.engines.joins.layout import Bytes, Int32s, Ints, Keys, entry, size_for
from perseid.runtime.arrays import ByteArray, IntArray


@entry
def _grow_tree(
    keys: Keys,
    children: Int32s,
    mask: int,
    above: Int32s,
    letters: Int32s,
    depths: Int32s,
    ends: Int32s,
    data: Bytes,
    at: Ints,
    count: int,
) -> int:
    """Insert all needles into the trie, and return the number of nodes."""
    used = 1
    for needle in range(count):
        node = 0
        for i in range(at[needle], at[needle + 1]):
            child = find(keys, children, mask, node, data[i], 0)
            if child < 0:
                child = used
                used += 1
                insert(keys, children, mask, node, data[i], 0, child)
                above[child], letters[child], depths[child] = node, data[i], depths[node] + 1
            node = child
        ends[node] = needle
    return used


@entry
def _link(
    keys: Keys,
    children: Int32s,
    mask: int,
    above: Int32s,
    letters: Int32s,
    ends: Int32s,
    order: Ints,
    falls: Int32s,
    nexts: Int32s,
    count: int,
) -> None:
    """Compute the links of nodes in breadth-first order.

    ``falls`` links to the longest proper suffix that is a node, ``nexts`` to the longest one that ends a needle.
    """
    for i in range(count):
        node = order[i]
        if node == 0:
            continue
        fall = falls[above[node]] if above[node] != 0 else -1
        suffix = 0
        while fall >= 0:
            suffix = find(keys, children, mask, fall, letters[node], 0)
            if suffix >= 0:
                break
            suffix = 0
            fall = falls[fall] if fall != 0 else -1
        falls[node] = suffix
        nexts[node] = suffix if ends[suffix] >= 0 else nexts[suffix]


@entry
def _contained(
    keys: Keys,
    children: Int32s,
    mask: int,
    ends: Int32s,
    falls: Int32s,
    nexts: Int32s,
    data: Bytes,
    at: Ints,
    last_text: Ints,
    counts: Ints,
    out: Ints,
    count: int,
    capacity: int,
) -> int:
    """Write the distinct needles in each text; return their total number, or -1 if the capacity is exhausted."""
    total = 0
    for text in range(count):
        begin, node = total, 0
        for i in range(at[text], at[text + 1]):
            child = find(keys, children, mask, node, data[i], 0)
            while child < 0 and node != 0:
                node = falls[node]
                child = find(keys, children, mask, node, data[i], 0)
            node = child if child > 0 else 0
            at_end = node if ends[node] >= 0 else nexts[node]
            while at_end > 0:
                needle = ends[at_end]
                if last_text[needle] != text:
                    if total >= capacity:
                        return -1
                    last_text[needle] = text
                    out[total] = needle
                    total += 1
                at_end = nexts[at_end]
        counts[text] = total - begin
    return total


class Needles:
    """An Aho-Corasick automaton for a set of needles."""

    def __init__(self, needles: Sequence[str]) -> None:
        data, at = _bytes(needles)
        max_nodes = int(at[-1]) + 1
        size = size_for(max_nodes)
        keys, children = np.zeros((size, 3), np.int32), np.full(size, -1, np.int32)
        above, letters, depths = (np.zeros(max_nodes, np.int32) for _ in range(3))
        ends = np.full(max_nodes, -1, np.int32)
        used = _grow_tree(keys, children, size - 1, above, letters, depths, ends, data, at, len(needles))
        # Needles share the nodes of common prefixes, so there are often far fewer nodes than bytes.
        small = size_for(used)
        self._keys, self._children = np.zeros((small, 3), np.int32), np.full(small, -1, np.int32)
        rehash(self._keys, self._children, small - 1, keys, children, size - 1)
        self._ends = ends[:used].copy()
        self._falls, self._nexts = np.zeros(used, np.int32), np.zeros(used, np.int32)
        order = np.argsort(depths[:used], kind="stable")
        _link(
            self._keys, self._children, small - 1, above, letters, self._ends, order, self._falls, self._nexts, used
        )  # fmt: skip
        self._count = len(needles)

    def contained(self, texts: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return the number of needles that each text contains, and the needles, concatenated by text."""
        counts = np.zeros(len(texts), np.int64)
        if not self._count or not texts:
            return counts, np.zeros(0, np.int64)
        data, at = _bytes(texts)
        capacity = 4 * len(texts) + 1024
        while True:
            out = np.zeros(capacity, np.int64)
            last_text = np.full(self._count, -1, np.int64)
            total = _contained(
                self._keys, self._children, len(self._children) - 1, self._ends, self._falls, self._nexts, data, at, last_text,
                counts, out, len(texts), capacity,
            )  # fmt: skip
            if total >= 0:
                return counts, out[:total]
            capacity *= 4


def _bytes(texts: Sequence[str]) -> tuple[ByteArray, IntArray]:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    at = np.zeros(len(encoded) + 1, np.int64)
    at[1:] = np.cumsum([len(one) for one in encoded])
    return np.frombuffer(bytearray(b"".join(encoded) or b"\0"), np.uint8), at
