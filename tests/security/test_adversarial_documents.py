"""Each document of ``docs/security.md`` is read, or rejected with its position, in bounded time and memory."""

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
from tests.security.documents import CHUNK, ROWS, UNCHECKED, AdversarialDocument, Chunks, Outcome, Read, Rejected

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
SECONDS = 5.0
"""Maximum processor time of a document of 100 MB on a slow, loaded machine."""


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
        return Rejected(error.message, error.line, error.column)
    return Read(elements, attributes, text)


def expected(row: AdversarialDocument, found: Outcome, *, trusted: bool) -> Outcome:
    """Return the outcome in the row, or the actual outcome if the row leaves the tokens unspecified."""
    listed = row.trusted if trusted else row.safe
    return found if listed == UNCHECKED and isinstance(found, Read) else listed


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    """Compile the kernels first, so that compilation does not count toward the time of a document."""
    outcome(Scanner(), lambda: [b"<a/>"], trusted=False)


@pytest.mark.parametrize("trusted", [False, True], ids=["safe", "trusted"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_document_has_its_outcome_in_bounded_time_and_memory(row: AdversarialDocument, trusted: bool) -> None:
    scanner = Scanner()
    tracemalloc.start()
    try:
        begun = time.process_time()
        found = outcome(scanner, row.chunks, trusted=trusted)
        seconds = time.process_time() - begun
        memory = tracemalloc.get_traced_memory()[1]  # includes memory of expat, which uses the allocator of Python
    finally:
        tracemalloc.stop()
    assert found == expected(row, found, trusted=trusted)
    assert seconds < SECONDS
    assert memory < row.memory
    # An adversarial document does not affect the next document.
    good = b"<?xml version='1.0'?><a xmlns='u' b='1'>x</a>"
    assert outcome(scanner, lambda: [good], trusted=trusted) == Read(1, 1, 1)


@pytest.mark.deep
@pytest.mark.parametrize("trusted", [False, True], ids=["safe", "trusted"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_matcher_has_the_same_outcome_as_the_scanner(row: AdversarialDocument, trusted: bool) -> None:
    matcher = matcher_of([parse_tree("//a[/b]/c->x").pattern])
    begun = time.process_time()
    try:
        for _ in matcher.read(row.chunks, trusted=trusted):
            pass
        found: Outcome = UNCHECKED
    except DocumentError as error:
        found = Rejected(error.message, error.line, error.column)
    assert time.process_time() - begun < SECONDS
    listed = row.trusted if trusted else row.safe
    # The position can differ, because the names of the pattern count as names too.
    assert isinstance(found, Rejected) == isinstance(listed, Rejected)
    if isinstance(found, Rejected) and isinstance(listed, Rejected):
        assert found.message == listed.message


@pytest.mark.parametrize("trusted", [False, True], ids=["safe", "trusted"])
def test_outcome_does_not_depend_on_chunk_boundaries(trusted: bool) -> None:
    scanner = Scanner()
    for row in ROWS:
        if not isinstance(row.data, bytes) or len(row.data) > CHUNK:
            continue
        for size in (1, 2, 3, 7, 64):
            pieces = [row.data[at : at + size] for at in range(0, len(row.data), size)]
            found = outcome(scanner, lambda pieces=pieces: pieces, trusted=trusted)  # type: ignore[misc]
            assert found == expected(row, found, trusted=trusted), (row.name, size)


def test_tag_in_small_chunks_is_scanned_in_linear_time() -> None:
    def chunks() -> list[bytes]:
        return [b"<a b='", *([b"x" * 64] * 100_000), b"'/>"]

    begun = time.process_time()
    assert outcome(Scanner(), chunks, trusted=False) == Read(1, 1)
    assert time.process_time() - begun < SECONDS


def test_name_limit_does_not_count_names_of_earlier_documents() -> None:
    """The scanner retains names across documents, up to a limit; a document is rejected only for its own names."""
    scanner = Scanner()
    for kind in b"bcdef":
        names = b"".join(b"<%c%d/>" % (kind, number) for number in range(30_000))
        for _ in range(2):
            assert outcome(scanner, lambda data=names: [b"<a>", data, b"</a>"], trusted=False) == Read(30_001)  # type: ignore[misc]
    names = b"".join(b"<g%d/>" % number for number in range(60_000))
    assert outcome(scanner, lambda: [b"<a>", names, b"</a>"], trusted=False) == Read(60_001)


def test_error_positions_count_from_the_beginning_of_the_document() -> None:
    lines = [b"<a>\n"] * 20_000
    found = outcome(Scanner(), lambda: lines, trusted=True)
    assert isinstance(found, Rejected)
    assert (found.line, found.column) == (limits.DEEPEST + 1, 1)
    wide = "<a>\n\N{EURO SIGN}\N{EURO SIGN}<1/></a>".encode()
    for trusted in (False, True):
        found = outcome(Scanner(), lambda: [wide[:6], wide[6:]], trusted=trusted)
        assert isinstance(found, Rejected)
        assert found.line == 2
        assert found.column == (3 if trusted else 4)  # start of the tag, or the position at which expat stopped


def test_page_lists_all_rows() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for group in dict.fromkeys(row.group for row in ROWS):
        _, found, section = PAGE.partition(f"### {group}\n")
        assert found, group
        listed = [
            line
            for line in re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
            if line.startswith("| ")
        ]
        assert listed[1:] == [str(row) for row in ROWS if row.group == group]


def test_page_lists_all_limits() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", PAGE, re.MULTILINE))
    defined = {name: value for name, value in vars(limits).items() if name.isupper()}
    defined |= {name: value for name, value in vars(texts).items() if name.startswith("MAX_")}
    defined |= {
        name: value for name, value in vars(regular_expressions).items() if name in ("MAX_EXPRESSION", "MAX_PROGRAM")
    }
    assert listed == {name: f"{value:,}" for name, value in defined.items()}
