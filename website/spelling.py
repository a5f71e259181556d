"""Spelling of the pages: words that neither the dictionary, the glossary nor ``website/words.txt`` has."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from spellchecker import SpellChecker

ROOT = Path(__file__).parents[1]
WORDS = ROOT / "website" / "words.txt"
GLOSSARY = ROOT / "docs" / "glossary.md"
NOT_PROSE = re.compile(
    r"^(```|~~~).*?^\1|``.+?``|`[^`\n]*`|<[^>\n]+>|\]\([^)]*\)|https?://\S+", re.MULTILINE | re.DOTALL
)
WORD = re.compile(r"(?<![\w.'/-])[A-Za-z][a-z]{3,}(?![\w'/-])")


def pages() -> Iterator[Path]:
    """Return all pages of the site."""
    yield from (
        ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    )
    yield from sorted((ROOT / "docs").rglob("*.md"))


def prose(page: Path) -> str:
    """Return the text of a page without code, links and markup; the lines stay the same."""
    return NOT_PROSE.sub(lambda match: "\n" * match[0].count("\n") + " ", page.read_text(encoding="utf-8"))


def misspelled() -> dict[str, str]:
    """Return the unknown words, each with its first place."""
    terms = set(re.findall(r"[a-z]+", GLOSSARY.read_text(encoding="utf-8").lower()))
    known = terms | set(WORDS.read_text(encoding="utf-8").split())
    places: dict[str, str] = {}
    for page in pages():
        for number, line in enumerate(prose(page).splitlines(), 1):
            for word in WORD.findall(line):
                if word.lower() not in known:
                    places.setdefault(word.lower(), f"{page.relative_to(ROOT)}:{number}")
    unknown = SpellChecker(distance=1).unknown(places)
    return {word: places[word] for word in sorted(unknown)}


if __name__ == "__main__":
    found = misspelled()
    for word, place in found.items():
        sys.stdout.write(f"{place}: {word}\n")
    sys.exit(1 if found else 0)
