"""Documents that somebody broke a little: never a crash, and in safe mode never another word than expat's."""

from __future__ import annotations

import os
import random
import re
from xml.parsers import expat

import pytest

from perseid.engines.trees.tokens import Scanner
from perseid.errors import DocumentError
from tests.engines.test_scan import mutate, parsed, scanned
from tests.security.documents import BAD_BYTES, SUBSET
from tests.semantics.tree_documents import random_document

BASE = int(os.environ.get("PERSEID_SEEDS", "2000000"))
BEGINNINGS = (
    "",
    "",
    "<?xml version='1.0'?>",
    "<?xml version='1.0' encoding='UTF-8'?>\n",
    "<?xml version='1.1'?>",
    "<?xml version='1.0' standalone='yes'?><!DOCTYPE a SYSTEM 'x'>",
    "<!DOCTYPE a>",
    "<!DOCTYPE a PUBLIC 'x' 'y'><!-- x -->",
    "<!DOCTYPE a [<!ENTITY b 'c'>]>",
    "<!DOCTYPE a [<!ATTLIST a b CDATA 'c'>]>",
    "<?xml version='1.0' encoding='{encoding}'?>",
)
ENCODINGS = ("utf-8", "utf-8", "utf-8", "iso-8859-1", "windows-1251", "utf-16", "utf-16-le", "utf-16-be", "koi8-r")
ON_PURPOSE = (SUBSET, "Entities that a document declares are not read")
SNIPPETS = (
    b"<b xmlns='u:a'/>",
    b"<b xmlns:p='u&amp;v' p:c='1'/>",
    b"<u:a/>",
    b"&uuml;",
    b"\r",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"]>",
)


def made(seed: int) -> bytes:
    """A document in some encoding with something in front of it, mostly broken."""
    chance = random.Random(seed)
    encoding = chance.choice(ENCODINGS)
    text = chance.choice(BEGINNINGS).format(encoding=encoding) + random_document(chance, chance.choice((2, 8, 20)))
    if encoding.startswith("utf") and chance.random() < 0.2:  # the others could not write it in a name
        text = re.sub("(?<=[</:])[bc](?=[ />])", "\N{CYRILLIC SMALL LETTER ZHE}", text)
    data = bytearray(text.encode(encoding, "xmlcharrefreplace"))
    for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 5))):
        mutate(chance, data)
        if chance.random() < 0.2:
            at = chance.randint(0, len(data))
            data[at:at] = chance.choice(SNIPPETS)
    return bytes(data)


def judged_by_expat(data: bytes) -> bool:
    """Is it well formed, if nobody says anything about it on purpose?"""
    parser = expat.ParserCreate(namespace_separator="\x1f")
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError):  # the last two: of encodings
        return False
    return True


def compare(scanner: Scanner, seed: int) -> bool:
    """Nothing but a DocumentError is raised, and in safe mode just where expat refuses; whether it was read."""
    data = made(seed)
    chance = random.Random(-seed)
    cuts = sorted(chance.randint(0, len(data)) for _ in range(chance.randint(0, 4)))
    place = 1, 1
    try:
        tokens, refused = scanned(scanner, data, cuts), ""
    except DocumentError as error:
        tokens, refused, place = [], error.message, (error.line, error.column)
    assert min(place) >= 1, (seed, data)
    try:
        scanned(scanner, data, cuts, trusted=True)
    except DocumentError:
        assert refused, (seed, data)  # Whoever is trusted is refused no more.
    if refused == BAD_BYTES:  # of half a surrogate pair, which expat lets pass
        assert data.startswith((b"\xff\xfe", b"\xfe\xff")) or 0 in data[:2], (seed, data)
    elif refused not in ON_PURPOSE:
        assert (not refused) == judged_by_expat(data), (seed, data, refused)
    if not refused:
        assert _shape(tokens) == _shape(parsed(data)), (seed, data)
    return not refused


def _shape(tokens: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Elements and attributes with their names: texts and values are not read here, only found."""
    return [token[:2] for token in tokens if token[0] != "text"]


def run(count: int, first: int) -> None:
    scanner = Scanner()
    read = sum(compare(scanner, seed) for seed in range(first, first + count))
    assert count / 10 < read < count * 9 / 10


def test_broken_documents() -> None:
    run(300, 0)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(4))
def test_many_broken_documents(part: int) -> None:
    run(5_000, BASE + part * 5_000)
