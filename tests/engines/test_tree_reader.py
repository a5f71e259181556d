"""Columns of documents: the results of each document equal those of that document alone, also next to malformed
ones."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from perseid.engines.trees import match_layout as y
from perseid.engines.trees.reader import ROWS, DocumentReader, Findings
from perseid.lang import tree_patterns as tp
from tests.engines.tree_texts import reader_of
from tests.semantics.tree_documents import NAMESPACES, random_document

PATTERNS = ("//a->x[/b->y]", "//b", "//*(/a->x:/b->y?)", "//c->z[last()]", "//@k->k", "/r[/a[2]]//c->x")
ODD: tuple[bytes | None, ...] = (
    None,
    b"",
    b"<r><a></r>",
    b"<r>\n <a>&nope;</a></r>",
    "<r><é/><a>1<b/></a></r>".encode(),
    "<r><a>é<b/></a></r>".encode("utf-16"),
    b"<?xml version='1.0' encoding='latin-1'?><r><b>\xe9</b></r>",
    b"\xef\xbb\xbf<r><b/></r>",
    b'<?xml version="1.0" encoding="UTF-8"?>\n<r><b/></r>',
    b'<?xml version="1.0" standalone="yes"?><r><b/></r>',
    b'<!DOCTYPE r SYSTEM "r.dtd"><r><b>&uuml;</b></r>',
    b"<r><b/>" + b"<a>x</a>" * 3000 + b"</r>",
    b"<r>" + b"<a>" * 200 + b"y" * 5000 + b"</a>" * 200 + b"</r>",
)


def shown(reader: DocumentReader, findings: Findings) -> list[tuple[object, ...]]:
    """Returns rows in comparable form, with names and texts instead of numbers."""
    names = [*findings.names, None]
    words = findings.rows[:, [y.O_PATTERN, y.O_LEVEL, y.O_STEP, y.O_ORDINAL]].tolist()
    named = [names[number] for number in findings.rows[:, y.O_NAME].tolist()]
    return list(zip(findings.document.tolist(), map(tuple, words), named, findings.texts.to_pylist(), strict=True))


def bodies(seed: int, count: int) -> list[bytes | None]:
    chance = random.Random(seed)
    return [chance.choice(ODD) if chance.random() < 0.2 else random_document(chance).encode() for _ in range(count)]


@pytest.mark.parametrize("trusted", [False, True])
def test_a_column_is_its_documents(trusted: bool) -> None:
    given = [
        body for body in bodies(1, 600) if not trusted or (body and b"&nope" not in body and b"<a></r>" not in body)
    ]
    together = reader_of(PATTERNS, NAMESPACES.items(), trusted)
    findings = together.read(pa.array(given, pa.binary()))
    alone, wanted, refused = reader_of(PATTERNS, NAMESPACES.items(), trusted), [], []
    for number, body in enumerate(given):
        one = alone.read(pa.array([body], pa.binary()))
        wanted += [(number, *row[1:]) for row in shown(alone, one)]
        refused += [(number, bad.reason, bad.line, bad.column) for bad in one.refused]
    assert shown(together, findings) == wanted
    assert [(bad.row, bad.reason, bad.line, bad.column) for bad in findings.refused] == refused
    assert bool(refused) != trusted


def test_slices_chunks_and_kinds_of_columns() -> None:
    given = bodies(2, 60)
    reader = reader_of(PATTERNS, NAMESPACES.items())
    whole = shown(reader, reader.read(pa.array(given, pa.binary())))
    for column in (
        pa.array(given, pa.large_binary()),
        pa.chunked_array([pa.array(given[:20], pa.binary()), pa.array(given[20:], pa.binary())]),
        pa.array([b"<q/>", *given, b"<q/>"], pa.binary()).slice(1, len(given)),
        given,
    ):
        assert shown(reader, reader.read(column)) == whole
    assert shown(reader, reader.read(pa.array([], pa.binary()))) == []
    # Text is text, whatever it says that it was.
    said = '<?xml version="1.0" encoding="UTF-16"?><r><b>é</b></r>'
    assert not reader.read(pa.array([said])).refused


def test_texts_and_nodes_of_results() -> None:
    reader = reader_of(["//a->x[/b->y]", "//c"])
    findings = reader.read([b"<r><a>1<b>2</b><b>3</b></a><c/></r>", b"<r/>", b"<r><a>4</a><a><b>5</b></a></r>"])
    steps = {step.returns: number for number, step in enumerate(reader.plan.steps)}
    assert findings.document[findings.firsts].tolist() == [0, 0, 2]
    by_result = dict(zip(findings.rows[findings.firsts, y.O_PATTERN].tolist(), findings.firsts.tolist(), strict=False))
    assert set(by_result) == {0, 1}
    assert sorted(map(str, findings.first_texts([steps["y"]]).to_pylist())) == ["2", "5", "None"]
    assert sorted(findings.all_texts([steps["y"]]).to_pylist()) == [[], ["2", "3"], ["5"]]
    nodes = findings.nodes([step.returns for step in reader.plan.steps]).to_pylist()
    first = next(one for one in nodes if one)
    assert [(n["variable"], n["level"], n["name"]) for n in first] == [
        ("x", 0, "a"),
        ("y", 1, "b"),
        ("y", 1, "b"),
    ]


def test_results_of_a_file_are_returned_in_chunks(tmp_path: Path) -> None:
    """Results are returned in several chunks, also if the document turns out to need expat."""
    count = 3 * ROWS
    for name, tail in (("plain", b""), ("doubtful", "<é/>".encode())):
        path = tmp_path / name
        path.write_bytes(b"<r>" + b"<a>1</a>" * count + tail + b"</r>")
        pieces = list(reader_of(["//a->x"]).read_file(7, str(path)))
        assert len(pieces) > 2
        assert sum(len(piece.rows) for piece in pieces) == count
        assert not any(piece.refused for piece in pieces)
        assert np.all(np.concatenate([piece.document for piece in pieces]) == 7)
        places = np.concatenate([piece.rows[:, y.O_ORDINAL] for piece in pieces])
        assert np.array_equal(places >> y.ELEMENT_BITS, np.arange(2, count + 2))


def test_printed_pattern_parses_to_the_same_pattern() -> None:
    """Executors receive patterns as text: parsing it gives the same pattern."""
    from perseid.lang.tree_parser import parse_tree

    for text in PATTERNS:
        assert parse_tree(tp.print_tree(parse_tree(text).pattern)).pattern == parse_tree(text).pattern


def test_number_of_distinct_names_is_limited() -> None:
    """A document with the maximum number of names is read, one with more is rejected, and its neighbors are
    unaffected."""
    many, more = (
        b"<r>" + b"".join(b"<n%d>1</n%d>" % (i, i) for i in range(count)) + b"<b/></r>" for count in (60_000, 70_000)
    )
    findings = reader_of(["//b"]).read(
        pa.array([b"<r><b/></r>", many, b"<r><b/></r>", more, b"<r><b/></r>"], pa.binary())
    )
    assert findings.document.tolist() == [0, 1, 2, 4]
    (bad,) = findings.refused
    assert bad.row == 3
    assert "65,536 distinct names" in bad.reason
