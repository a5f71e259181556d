"""Each document of ``docs/security.md``: read, or refused with its place, in bounded time and memory."""

from __future__ import annotations

import re
import time
import tracemalloc
from pathlib import Path

import pytest

from perseid.engines.trees import layout as y
from perseid.engines.trees import limits
from perseid.engines.trees.tokens import Scanner
from perseid.errors import DocumentError
from perseid.jobs import texts
from perseid.lang.tree_parser import parse_tree
from perseid.semantics import regular_expressions
from tests.engines.tree_matching import matcher_of
from tests.security.documents import CHUNK, ROWS, TAKEN, Chunks, Hostile, Outcome, Read, Refused

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
SECONDS = 5.0
"""Processor time that a document may take, at 100 MB, on a slow machine that does something else as well."""


def outcome(scanner: Scanner, chunks: Chunks, *, trusted: bool) -> Outcome:
    elements = attributes = text = 0
    try:
        for batch in scanner.read(chunks, trusted=trusted):
            if batch is None:
                elements = attributes = text = 0
                continue
            kinds, _, begin, end = batch.tokens
            elements += int((kinds == y.START).sum())
            attributes += int(((kinds == y.ATTRIBUTE) | (kinds == y.ESCAPED_VALUE)).sum())
            text += int((end - begin)[kinds >= y.TEXT].sum())
    except DocumentError as error:
        return Refused(error.message, error.line, error.column)
    return Read(elements, attributes, text)


def expected(row: Hostile, found: Outcome, *, trusted: bool) -> Outcome:
    """What the row says; where nothing is said about tokens, those that there are."""
    said = row.trusted if trusted else row.safe
    return found if said == TAKEN and isinstance(found, Read) else said


@pytest.fixture(scope="module", autouse=True)
def _kernels_are_there() -> None:
    """Compiling them is not part of any document's time."""
    outcome(Scanner(), lambda: [b"<a/>"], trusted=False)


@pytest.mark.parametrize("trusted", [False, True], ids=["safe", "trusted"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_hostile_document(row: Hostile, trusted: bool) -> None:
    scanner = Scanner()
    tracemalloc.start()
    try:
        begun = time.process_time()
        found = outcome(scanner, row.chunks, trusted=trusted)
        seconds = time.process_time() - begun
        memory = tracemalloc.get_traced_memory()[1]  # expat's as well: Python lends it
    finally:
        tracemalloc.stop()
    assert found == expected(row, found, trusted=trusted)
    assert seconds < SECONDS
    assert memory < row.memory
    # Whoever is hostile does no harm to who comes next.
    good = b"<?xml version='1.0'?><a xmlns='u' b='1'>x</a>"
    assert outcome(scanner, lambda: [good], trusted=trusted) == Read(1, 1, 1)


@pytest.mark.deep
@pytest.mark.parametrize("trusted", [False, True], ids=["safe", "trusted"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_who_matches_a_hostile_document_says_the_same(row: Hostile, trusted: bool) -> None:
    matcher = matcher_of([parse_tree("//a[/b]/c->x").pattern])
    begun = time.process_time()
    try:
        for _ in matcher.read(row.chunks, trusted=trusted):
            pass
        found: Outcome = TAKEN
    except DocumentError as error:
        found = Refused(error.message, error.line, error.column)
    assert time.process_time() - begun < SECONDS
    said = row.trusted if trusted else row.safe
    # Not where: names that a pattern asks for are names as well.
    assert isinstance(found, Refused) == isinstance(said, Refused)
    if isinstance(found, Refused) and isinstance(said, Refused):
        assert found.message == said.message


@pytest.mark.parametrize("trusted", [False, True], ids=["safe", "trusted"])
def test_cuts_change_nothing(trusted: bool) -> None:
    scanner = Scanner()
    for row in ROWS:
        if not isinstance(row.data, bytes) or len(row.data) > CHUNK:
            continue
        for size in (1, 2, 3, 7, 64):
            pieces = [row.data[at : at + size] for at in range(0, len(row.data), size)]
            found = outcome(scanner, lambda pieces=pieces: pieces, trusted=trusted)  # type: ignore[misc]
            assert found == expected(row, found, trusted=trusted), (row.name, size)


def test_a_tag_in_small_chunks_is_not_read_from_its_beginning_each_time() -> None:
    def chunks() -> list[bytes]:
        return [b"<a b='", *([b"x" * 64] * 100_000), b"'/>"]

    begun = time.process_time()
    assert outcome(Scanner(), chunks, trusted=False) == Read(1, 1)
    assert time.process_time() - begun < SECONDS


def test_what_others_left_is_no_reason_to_refuse() -> None:
    """Names stay from document to document, and there is room for so many: whose they are must not matter."""
    scanner = Scanner()
    for kind in b"bcdef":
        names = b"".join(b"<%c%d/>" % (kind, number) for number in range(30_000))
        for _ in range(2):
            assert outcome(scanner, lambda data=names: [b"<a>", data, b"</a>"], trusted=False) == Read(30_001)  # type: ignore[misc]
    names = b"".join(b"<g%d/>" % number for number in range(60_000))
    assert outcome(scanner, lambda: [b"<a>", names, b"</a>"], trusted=False) == Read(60_001)


def test_places_count_from_the_beginning_of_the_document() -> None:
    lines = [b"<a>\n"] * 20_000
    found = outcome(Scanner(), lambda: lines, trusted=True)
    assert isinstance(found, Refused)
    assert (found.line, found.column) == (limits.DEEPEST + 1, 1)
    wide = "<a>\n\N{EURO SIGN}\N{EURO SIGN}<1/></a>".encode()
    for trusted in (False, True):
        found = outcome(Scanner(), lambda: [wide[:6], wide[6:]], trusted=trusted)
        assert isinstance(found, Refused)
        assert found.line == 2
        assert found.column == (3 if trusted else 4)  # where the tag begins; where expat stopped in it


def test_the_page_has_these_rows() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for group in dict.fromkeys(row.group for row in ROWS):
        _, found, section = PAGE.partition(f"### {group}\n")
        assert found, group
        said = [
            line
            for line in re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
            if line.startswith("| ")
        ]
        assert said[1:] == [str(row) for row in ROWS if row.group == group]


def test_the_page_has_these_limits() -> None:
    said = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", PAGE, re.MULTILINE))
    meant = {name: value for name, value in vars(limits).items() if name.isupper()}
    meant |= {name: value for name, value in vars(texts).items() if name.startswith("MAX_")}
    meant |= {
        name: value for name, value in vars(regular_expressions).items() if name in ("MAX_EXPRESSION", "MAX_PROGRAM")
    }
    assert said == {name: f"{value:,}" for name, value in meant.items()}
