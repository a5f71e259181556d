"""Case folding for ``ilike``, character by character.

Two characters are equal regardless of case if their full Unicode case foldings are equal. The mapping is one character
to one character: it keeps the length of a string and does not depend on neighbors, unlike ``lower``, which writes a
final sigma in another form. The SQL of ``ilike`` is generated from the same table, so it does not depend on the Unicode
version of the JVM.
"""

from __future__ import annotations

from functools import lru_cache

LAST_CASED = 0x1FFFF
"""Characters with case are in the first two planes of Unicode."""


@lru_cache(maxsize=1)
def _variants() -> dict[str, str]:
    """The characters of each full case folding, in order, where there are several."""
    found: dict[str, str] = {}
    for code in range(LAST_CASED + 1):
        char = chr(code)
        if (folded := char.casefold()) != char:
            found[folded] = found.get(folded, "") + char
    return {
        folded: folded + others if len(folded) == 1 else others
        for folded, others in found.items()
        if len(folded) == 1 or len(others) > 1
    }


@lru_cache(maxsize=1)
def _table() -> dict[int, str]:
    """The folded form of each character that differs from it."""
    return {ord(char): variants[0] for variants in _variants().values() for char in variants[1:]}


def fold_case(text: str) -> str:
    """Return the text with each character replaced by its folded form; the length stays the same."""
    return text.lower() if text.isascii() else text.translate(_table())


def case_variants(char: str) -> str:
    """Return all characters with the same folded form, which is the first; the character itself if it has no case."""
    return _variants().get(char.casefold(), char)
