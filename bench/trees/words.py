"""What the generators of documents share: words that nobody said, and documents in pieces."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

PIECE = 1 << 18
"""Characters of a piece, about."""
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


def made_up(chance: random.Random, count: int) -> list[str]:
    """So many words."""
    return ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(count)]


def in_pieces(parts: Iterable[str]) -> Iterator[bytes]:
    """Parts of a document as fewer and larger ones, in UTF-8."""
    waiting: list[str] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= PIECE:
            yield "".join(waiting).encode()
            waiting, size = [], 0
    yield "".join(waiting).encode()
