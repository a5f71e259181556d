"""Shared by the generators of documents: random words, and documents in pieces."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

PIECE = 1 << 18
"""Approximate number of characters per piece."""
_SYLLABLES = [
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "je",
    "ki",
    "lo",
    "mu",
    "na",
    "pe",
    "ri",
    "so",
    "tu",
    "va",
    "we",
    "xi",
    "yo",
    "zu",
    "bran",
    "clor",
    "dent",
    "frip",
    "gond",
]


def random_words(chance: random.Random, count: int) -> list[str]:
    """Generate ``count`` random words."""
    return ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(count)]


def in_pieces(parts: Iterable[str]) -> Iterator[bytes]:
    """Merge the parts of a document into fewer and larger ones, in UTF-8."""
    waiting: list[str] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= PIECE:
            yield "".join(waiting).encode()
            waiting, size = [], 0
    yield "".join(waiting).encode()
