"""Local matching of documents: warnings if nothing matches, and errors of malformed documents."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import perseid as ps
from perseid.engines.trees import namespaces
from perseid.errors import DocumentError, EventDataError, PerseidWarning, UnknownNameError
from perseid.lang import ast
from perseid.lang.parser import parse_pattern
from perseid.lang.tree_types import describe_type, tree_type

ATOM = "http://www.w3.org/2005/Atom"
FEED = f'<feed xmlns="{ATOM}"><entry><title>one</title></entry></feed>'
AT = datetime(2026, 3, 1, tzinfo=UTC)


def documents(*bodies: str | bytes | None, **more: Any) -> ps.xml.Documents:
    return ps.documents(pa.table({"ts": [AT] * len(bodies), "xml": list(bodies)}), body="xml", time="ts", **more)


def warned(found: pytest.WarningsRecorder) -> str:
    (one,) = found
    assert one.filename == __file__
    return str(one.message)


@pytest.mark.parametrize(
    "body",
    [
        FEED,
        FEED.encode(),
        FEED.encode("utf-16"),
        FEED.replace("feed", "a:feed").replace("entry", "a:entry").replace("xmlns=", "xmlns:a="),
        f"<?xml version='1.0' encoding='ISO-8859-1'?>{FEED}",
    ],
)
def test_name_without_its_namespace_is_a_warning(body: str | bytes) -> None:
    with pytest.warns(PerseidWarning) as found:
        assert ps.xml.tree_patterns("//entry->entry").match(documents(body)).num_rows == 0
    message = warned(found)
    assert f"'entry' has no namespace in the pattern, and namespace '{ATOM}' in the documents" in message
    assert f"namespaces={{'': '{ATOM}'}}" in message


def test_namespace_from_the_warning_matches() -> None:
    table = ps.xml.tree_patterns("//entry/title->title").match(documents(FEED, namespaces={"": ATOM}))
    assert table["title"].to_pylist() == [["one"]]


def test_sequence_warns_of_a_missing_namespace() -> None:
    pattern = ps.pattern("pattern p match Feed << //entry->entry >> e return e.entry")
    with pytest.warns(PerseidWarning, match="'entry' has no namespace in the pattern") as found:
        assert len(pattern.match(documents(FEED))) == 0
    warned(found)


def test_files_warn_of_a_missing_namespace(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(FEED)
    paths = ps.documents([{"file": str(tmp_path / name)} for name in ("none.xml", "a.xml")], path="file")
    with pytest.warns(PerseidWarning, match="'entry' has no namespace in the pattern"):
        ps.xml.tree_patterns("//entry->entry").match(paths)


@pytest.mark.parametrize(
    ("tree", "bodies", "more"),
    [
        ("//entry", [FEED, "<entry/>"], {}),
        ("//entry[/a]", [FEED, "<entry/>"], {}),
        ("//item->item", [FEED], {}),
        ("//*[/@entry]", [FEED], {}),
        ("//a:item", [FEED], {"namespaces": {"a": ATOM}}),
        ("//entry", [FEED], {"namespaces": {"": "urn:another"}}),
        ("//b", ["<a xmlns:n='urn:n' n:b='1'/>"], {}),
        ("//b", [None, "", "<b", "<!DOCTYPE a [<!ENTITY e 'e'>]><b xmlns='urn:b'/>"], {}),
    ],
)
def test_no_namespace_warning_if_it_would_not_help(tree: str, bodies: list[Any], more: dict[str, Any]) -> None:
    table = pa.table({"xml": pa.array(bodies, pa.string())})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.xml.tree_patterns(tree).match(ps.documents(table, body="xml", **more))


def test_only_the_first_documents_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "SAMPLE_BYTES", 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.xml.tree_patterns("//entry").match(documents("<a>" + " " * 20 + "</a>", FEED))


def test_sequence_error_of_a_malformed_document_has_a_hint() -> None:
    pattern = ps.pattern("pattern p match D << //a->x >> o return o.x")
    for method in (pattern.match, pattern.why_not):
        with pytest.raises(DocumentError, match="Row 2: Mismatched tag") as found:
            method(documents("<a/>", "<a><b></a>"))
        assert found.value.hint is not None
        assert "Remove the row" in found.value.hint
    table = ps.xml.tree_patterns("//a->x").match(documents("<a/>", "<a><b></a>"))
    assert [one is None for one in table["error"].to_pylist()] == [True, False]


def test_unknown_prefix_error_hints_at_namespaces() -> None:
    with pytest.raises(UnknownNameError, match="Unknown namespace prefix 'a' in a:entry") as found:
        ps.xml.tree_patterns("//a:entry->e").match(documents(FEED))
    assert found.value.hint == "Use ps.documents(…, namespaces={'a': 'the URI of the namespace'})."


def test_no_document_at_all() -> None:
    none = ps.documents(
        pa.table({"ts": pa.array([], pa.timestamp("us", "UTC")), "xml": pa.array([], pa.string())}), body="xml"
    )
    table = ps.xml.tree_patterns("//a->x").match(none)
    assert (table.num_rows, table.column_names) == (0, ["ts", "pattern", "place", "x", "nodes", "error"])
    assert len(ps.pattern("pattern p match D << //a->x >> o return o.x").match(none)) == 0


NO_DOCUMENT = {"what": "The document is null", "line": None, "column": None}
NULL_BODIES = {
    "dicts": [{"ts": 1, "s": "S", "xml": None}],
    "Arrow": pa.table({"ts": [1], "s": ["S"], "xml": pa.nulls(1)}),
    "pandas, None": pd.DataFrame({"ts": [1], "s": ["S"], "xml": [None]}),
    "pandas, NaN": pd.DataFrame({"ts": [1], "s": ["S"], "xml": [float("nan")]}),
}
SEQUENCE = ps.pattern("pattern p match S << //a->x >> o return o.x")
PAIRS = ps.xscl.subscriptions("S//a->x FOLLOWED BY{x = y, 1 hour} S//a->y")


@pytest.mark.parametrize("format", ["xml", "json"])
@pytest.mark.parametrize("given", NULL_BODIES)
def test_bodies_that_are_null_throughout_are_bad_documents(given: str, format: str) -> None:
    data = NULL_BODIES[given]
    (row,) = ps.xml.tree_patterns("//a->x").match(ps.documents(data, body="xml", format=format)).to_pylist()
    assert (row["ts"], row["pattern"], row["error"]) == (1, None, NO_DOCUMENT)
    declared = ps.documents(data, body="xml", type="s", time="ts", format=format)
    for match in (SEQUENCE.match, PAIRS.match):
        with pytest.raises(DocumentError, match="Row 1: The document is null"):
            match(declared)


@pytest.mark.parametrize("format", ["xml", "json"])
@pytest.mark.parametrize("data", [[], pa.table({"ts": pa.nulls(0), "s": pa.nulls(0), "xml": pa.nulls(0)})], ids=type)
def test_no_rows_of_no_type_are_no_documents(data: Any, format: str) -> None:
    declared = ps.documents(data, body="xml", type="s", time="ts", format=format)
    assert ps.xml.tree_patterns("//a->x").match(declared).num_rows == 0
    assert len(SEQUENCE.match(declared)) == 0
    assert PAIRS.match(declared).num_rows == 0


def test_rows_without_the_body_column_are_an_error_that_names_it() -> None:
    declared = ps.documents([{"ts": 1, "s": "S", "xmk": "<a/>"}], body="xml", type="s", time="ts")
    for match in (ps.xml.tree_patterns("//a->x").match, SEQUENCE.match, PAIRS.match):
        with pytest.raises(
            EventDataError,
            match=r"Column 'xml' not found in the table; .* Available: ts, s, xmk\.\n  = Did you mean 'xmk'\?",
        ):
            match(declared)


def test_types_of_tree_patterns_are_shown_without_their_namespaces() -> None:
    rows = [{"ts": 1, "feed": "Feed", "xml": FEED}]
    stream = ps.documents(rows, body="xml", type="feed", namespaces={"": ATOM, "x": "urn:x"})
    text = "pattern p match Feed << //entry->entry >> e -> not Feed << //x:b->b >> for 1 hour"
    found = ps.pattern(text).match(stream)
    assert "e: Feed <<//entry->entry>>@00:00:01" in repr(found)
    assert ATOM not in repr(found)
    never = "pattern p match Feed << //entry->entry >> e -> Feed << //x:b->b >> f within 1 hour"
    missing = ps.pattern(never).match(stream)
    assert missing.notes == ("no event has the type 'Feed <<//x:b->b>>'.",)
    explained = ps.pattern(text).explain(stream)
    assert [line for line in explained.splitlines() if ATOM in line] == [f"  namespace (none): {ATOM}"]
    assert [line for line in explained.splitlines() if "urn:x" in line] == ["  namespace x: urn:x"]


def test_identity_of_a_tree_pattern_has_its_namespaces() -> None:
    """States and match ids depend on the identity."""
    (step,) = ast.steps(parse_pattern("pattern p match Feed << //entry->e >> a").match)
    assert isinstance(step.kind, ast.TreeMatch)
    assert (
        tree_type("Feed", step.kind.tree, [("", ATOM), ("x", "urn:x")]) == f"Feed <<//entry->e>> default={ATOM} x=urn:x"
    )
    assert describe_type(f"Feed <<//entry->e>> default={ATOM} x=urn:x") == "Feed <<//entry->e>>"
    assert describe_type("Order") == "Order"
