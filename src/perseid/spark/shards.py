"""Shard labels: many keys share one group of Spark's, and labels distribute groups evenly over partitions.

Spark assigns a group to a partition by the hash of its label. The label of shard ``i`` of ``n`` is the smallest number
with the hash ``i`` modulo ``n``: any number of partitions that divides ``n`` then gets equally many shards.
"""

from __future__ import annotations

from functools import cache

_SEED = 42
_WORD = 0xFFFFFFFF


@cache
def labels(count: int) -> tuple[int, ...]:
    """The labels of this many shards."""
    found: dict[int, int] = {}
    label = 0
    while len(found) < count:
        found.setdefault(spark_hash(label) % count, label)
        label += 1
    return tuple(found[shard] for shard in range(count))


def spark_hash(number: int) -> int:
    """Spark's ``hash`` of an INT: Murmur3, 32 bits, as a signed number."""
    mixed = (number * 0xCC9E2D51) & _WORD
    mixed = (_rotated(mixed, 15) * 0x1B873593) & _WORD
    found = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _WORD
    found ^= 4
    found = ((found ^ found >> 16) * 0x85EBCA6B) & _WORD
    found = ((found ^ found >> 13) * 0xC2B2AE35) & _WORD
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD
