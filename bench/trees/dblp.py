"""Generator of a bibliography with a number of records and fields in the order of DBLP's."""

from __future__ import annotations

import random
from collections.abc import Iterator

from bench.trees.words import in_pieces, random_words


def dblp(records: int, seed: int = 5) -> Iterator[bytes]:
    """Yield the document in pieces; half of the records are articles, the rest papers of proceedings."""
    return in_pieces(_parts(records, random.Random(seed)))


def _parts(records: int, chance: random.Random) -> Iterator[str]:
    words = random_words(chance, 4_000)
    names = [f"{first.title()} {last.title()}" for first, last in zip(words[::2], words[1::2], strict=True)]
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<dblp>\n'
    for number in range(records):
        article = chance.random() < 0.5
        kind, where = ("article", "journal") if article else ("inproceedings", "booktitle")
        authors = "".join(f"<author>{chance.choice(names)}</author>\n" for _ in range(1 + int(chance.expovariate(0.8))))
        title = " ".join(chance.choices(words, k=chance.randint(4, 12))).capitalize()
        first = chance.randint(1, 900)
        pages = f"<pages>{first}-{first + chance.randint(3, 25)}</pages>\n" if chance.random() < 0.95 else ""
        volume = (
            f"<volume>{chance.randint(1, 60)}</volume>\n<number>{chance.randint(1, 12)}</number>\n" if article else ""
        )
        electronic = f"<ee>https://example.org/{number}</ee>\n" if chance.random() < 0.6 else ""
        part_of = f"<crossref>conf/{chance.choice(words)}</crossref>\n" if not article and chance.random() < 0.8 else ""
        yield (
            f'<{kind} key="{kind}/{number}" mdate="2026-01-{chance.randint(1, 28):02}">\n{authors}<title>{title}.</title>\n{pages}'
            f"<year>{chance.randint(1970, 2026)}</year>\n<{where}>{chance.choice(words).title()}</{where}>\n{volume}{electronic}"
            f"{part_of}<url>db/{kind}/{number}.html</url>\n</{kind}>\n"
        )
    yield "</dblp>\n"
