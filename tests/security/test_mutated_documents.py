"""Randomly mutated documents never crash the scanner, and safe mode accepts exactly the documents that expat accepts."""

from __future__ import annotations

import os
import random
import re
from xml.parsers import expat

import pytest

from perseid.engines.trees.matcher import TreeMatcher
from perseid.engines.trees.tokens import Scanner
from perseid.errors import DocumentError
from perseid.lang.tree_parser import parse_tree
from tests.engines.test_scan import mutate, parsed, scanned
from tests.engines.tree_matching import matcher_of
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
OWN_RESTRICTIONS = (SUBSET, "Unsupported entity declaration")
UNKNOWN = "Reference to an unknown entity"
"""Error that only readers of node texts raise."""
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


PLAIN_NAMES = ("a", "b", "bb", "author", "journal", "purchaseOrder", "aNameOfMoreThanSixteen", "x" * 40)
PLAIN_TEXTS = (
    "",
    "\n",
    "\n    ",
    "x",
    "some words",
    "a text that is longer than sixteen bytes",
    "\N{EURO SIGN}",
    "&lt;",
    "x]",
)


def plain_document(chance: random.Random, count: int) -> str:
    """Write a typical document: mostly elements with text, some with attributes."""
    inside, parts = ["a"], ["<a>"]
    for _ in range(count):
        parts.append(chance.choice(PLAIN_TEXTS))
        if len(inside) > 1 and chance.random() < 0.3:
            parts.append(f"</{inside.pop()}>")
            continue
        name = chance.choice(PLAIN_NAMES)
        parts.append(f"<{name}>" if chance.random() < 0.9 else f"<{name} b='c' d = \"e\">")
        if chance.random() < 0.3:
            inside.append(name)
        else:
            parts.append(f"{chance.choice(PLAIN_TEXTS)}</{name}>")
    return "".join([*parts, *(f"</{name}>" for name in reversed(inside))])


def make_malformed_document(seed: int) -> bytes:
    """Return a document in a random encoding with a random prolog, in most cases malformed."""
    chance = random.Random(seed)
    encoding = chance.choice(ENCODINGS)
    body = plain_document(chance, 60) if chance.random() < 0.4 else random_document(chance, chance.choice((2, 8, 20)))
    text = chance.choice(BEGINNINGS).format(encoding=encoding) + body
    if encoding.startswith("utf") and chance.random() < 0.2:  # other encodings cannot represent it in a name
        text = re.sub("(?<=[</:])[bc](?=[ />])", "\N{CYRILLIC SMALL LETTER ZHE}", text)
    data = bytearray(text.encode(encoding, "xmlcharrefreplace"))
    for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 5))):
        mutate(chance, data)
        if chance.random() < 0.2:
            at = chance.randint(0, len(data))
            data[at:at] = chance.choice(SNIPPETS)
    return bytes(data)


def is_well_formed_for_expat(data: bytes) -> bool:
    """Return whether expat accepts the document; Perseid's own restrictions do not apply."""
    parser = expat.ParserCreate(namespace_separator="\x1f")
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError):  # LookupError and ValueError come from encodings
        return False
    return True


class Readers:
    """A scanner and matchers, which retain names across documents."""

    def __init__(self) -> None:
        self.scanner = Scanner()
        self.matchers = tuple(
            matcher_of([parse_tree(text).pattern for text in texts])
            for texts in (("//*->x",), ("//b->x", "//bb[/b]->y"), ("//b->x", "//@b->z"))
        )


def count_results(matcher: TreeMatcher, pieces: list[bytes], *, trusted: bool) -> tuple[int, str]:
    """Return the number of results of the first pattern and no error, or 0 and the error."""
    count = 0
    try:
        for batch in matcher.read(lambda: pieces, trusted=trusted):
            count = 0 if batch is None else count + int(((batch.rows[:, 0] == 0) & (batch.rows[:, 1] == 0)).sum())
    except DocumentError as error:
        return 0, f"{error.message} ({error.line}, {error.column})"
    return count, ""


def compare(readers: Readers, seed: int) -> bool:
    """Check that only a DocumentError is raised, in safe mode exactly if expat rejects; return whether the document was read."""
    data = make_malformed_document(seed)
    chance = random.Random(-seed)
    cuts = sorted(chance.randint(0, len(data)) for _ in range(chance.randint(0, 4)))
    rejected, starts = {}, {}
    for trusted in (False, True):
        place, message, tokens = (1, 1), "", []
        try:
            tokens = scanned(readers.scanner, data, cuts, trusted=trusted)
        except DocumentError as error:
            message, place = error.message, (error.line, error.column)
        assert min(place) >= 1, (seed, data)
        rejected[trusted], starts[trusted] = message, [name for kind, name, *_ in tokens if kind == "start"]
        # Matchers have the same outcome as the scanner.
        expected = f"{message} ({place[0]}, {place[1]})" if message else ""
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        counts = (len(starts[trusted]), *[starts[trusted].count(("", "b"))] * 2)
        for matcher, count in zip(readers.matchers, counts, strict=True):
            result = count_results(matcher, pieces, trusted=trusted)
            assert result == (count, expected) or UNKNOWN in result[1], (seed, data, trusted)
        if not trusted and not message:
            assert _shape(tokens) == _shape(parsed(data)), (seed, data)
    assert rejected[False] or not rejected[True], (seed, data)  # trusted mode never rejects more
    if rejected[False] == BAD_BYTES:  # unpaired surrogates, which expat accepts
        assert data.startswith((b"\xff\xfe", b"\xfe\xff")) or 0 in data[:2], (seed, data)
    elif rejected[False] not in OWN_RESTRICTIONS:
        assert (not rejected[False]) == is_well_formed_for_expat(data), (seed, data, rejected)
    return not rejected[False]


def _shape(tokens: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Return elements and attributes with their names, without texts and values, which the scanner only locates."""
    return [token[:2] for token in tokens if token[0] != "text"]


def run(count: int, first: int) -> None:
    readers = Readers()
    read = sum(compare(readers, seed) for seed in range(first, first + count))
    assert count / 10 < read < count * 9 / 10


def test_mutated_documents_are_accepted_as_by_expat() -> None:
    run(300, 0)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(4))
def test_many_mutated_documents_are_accepted_as_by_expat(part: int) -> None:
    run(5_000, BASE + part * 5_000)
