"""JSON documents, and rows as documents, in local matching."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import perseid as ps
from perseid.engines.trees import formats
from perseid.errors import DocumentError, EventDataError, UnsupportedError

AT = dt.datetime(2026, 3, 1, 9, tzinfo=dt.UTC)
ORDERS = [
    {"ts": AT, "id": 1, "feed": "Orders", "payload": '{"no": 17, "customer": "ann", "items": [{"sku": "pen"}, {"sku": "ink"}], "total": 120.50}'},
    {"ts": AT + dt.timedelta(minutes=1), "id": 2, "feed": "Orders", "payload": '{"no": 18, "customer": "bob", "items": [], "total": 90}'},
    {"ts": AT + dt.timedelta(minutes=2), "id": 3, "feed": "Payments", "payload": '{"payment": {"order": 17, "customer": "ann"}}'},
]  # fmt: skip


def orders(*more: dict[str, Any]) -> ps.xml.Documents:
    return ps.documents([*ORDERS, *more], body="payload", type="feed", format="json")


def body(payload: Any) -> dict[str, Any]:
    return {"ts": AT, "id": 9, "feed": "Orders", "payload": payload}


def test_trees_over_json() -> None:
    found = ps.xml.tree_patterns("/json->order[/items/sku->sku][/total > 100]").match(orders()).to_pylist()
    assert [(row["id"], row["sku"]) for row in found] == [(1, ["pen", "ink"])]
    assert "payload" not in found[0]
    assert [node["text"] for node in found[0]["nodes"]] == ["17annpenink120.50", "pen", "ink"]


def test_bytes_are_json_too() -> None:
    data = pa.table({"payload": [b'{"a": "\xc3\xa9"}', '{"a": "é"}'.encode("utf-16")]})
    assert (
        ps.xml.tree_patterns("//a->a").match(ps.documents(data, body="payload", format="json"))["a"].to_pylist()
        == [["é"]] * 2
    )


def test_patterns_over_json() -> None:
    asked = ps.pattern("""
        pattern paid
        match   Orders << /json->order[/no->no][/total->total] >> o -> Payments << //payment->payment[/order->no] >> p
        within  1 hour
        partition by no
        return  o.total
    """)
    assert [(m.key["no"], m.values["total"]) for m in asked.match(orders())] == [("17", "120.50")]
    with pytest.raises(DocumentError, match=r"Row 4: Expected a value \(line 2, column 7\)"):
        asked.match(orders(body('{"a": 1,\n "b": }')))


def test_invalid_json_is_an_error_row_with_a_position() -> None:
    wrong = [body(one) for one in ("{", None, "<order/>", "[" * 100_000, '{"ok": 1}')]
    found = ps.xml.tree_patterns("//ok->ok").match(orders(*wrong)).to_pylist()
    errors = [row["error"] for row in found if row["error"] is not None]
    assert [(one["what"][:20], one["line"], one["column"]) for one in errors] == [
        ("Unexpected end of do", 1, 2),
        ("The document is null", None, None),
        ("The document looks l", 1, 1),
        ("Elements are nested ", 1, 10_001),
    ]
    assert [row["ok"] for row in found if row["error"] is None] == [["1"]]


def test_limits_of_the_reader_have_no_place_in_json() -> None:
    names = ", ".join(f'"n{i}": 1' for i in range(70_000))
    (row,) = (
        ps.xml.tree_patterns("//ok")
        .match(ps.documents([body(f"{{{names}}}")], body="payload", format="json"))
        .to_pylist()
    )
    assert row["error"]["what"].startswith("The document has more than 65,536 distinct names")
    assert row["error"]["line"] is None


def test_many_chunks_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "PIECE", 100)
    bodies = [body("{" if i % 7 == 0 else f'{{"n": {i}, "text": "{"x" * (i % 50)}"}}') | {"id": i} for i in range(100)]
    found = ps.xml.tree_patterns("//n->n").match(ps.documents(bodies, body="payload", format="json")).to_pylist()
    assert sorted((row["id"], row["n"]) for row in found if row["error"] is None) == [
        (i, [str(i)]) for i in range(100) if i % 7
    ]
    assert sorted(row["id"] for row in found if row["error"] is not None) == list(range(0, 100, 7))


def test_subscriptions_over_json() -> None:
    text = "Orders/json->a[/customer->x] FOLLOWED BY{x = y, 1 hour} Payments//payment->b[/customer->y]"
    (row,) = ps.xscl.subscriptions(text).match(orders(), expand=True).to_pylist()
    assert (row["left"]["id"], row["right"]["id"], dict(row["values"])) == (1, 3, {"x": "ann", "y": "ann"})
    with pytest.raises(DocumentError, match=r"Row 5: Expected ',' or '}' \(line 1, column 8\)"):
        ps.xscl.subscriptions(text).match(orders(body("{}"), body('{"a": 1]')))
    tables = {"Orders": ORDERS[:2], "Payments": [*ORDERS[2:], {**ORDERS[2], "payload": "{"}]}
    with pytest.raises(DocumentError, match="Row 4: Unexpected end"):
        ps.xscl.subscriptions(text).match(ps.documents(tables, body="payload", format="json"))


def test_nulls_do_not_join() -> None:
    text = "F/json->a[/c->x] JOIN{x = y, forever} F/json->b[/c->y]"
    rows = [{"ts": i, "f": "F", "p": '{"c": null}'} for i in range(3)]
    assert ps.xscl.subscriptions(text).match(ps.documents(rows, body="p", type="f", format="json")).num_rows == 0


EVERY = {
    "ts": AT,
    "i": 5,
    "s": "a<b&\r\x01é",
    "t": True,
    "whole": 3.0,
    "large": 1.25e16,
    "small": 1e-7,
    "d": Decimal("1.50"),
    "day": dt.date(2026, 3, 1),
    "bytes": b"ab",
    "gone": None,
    "list": [1, None, 2],
    "lists": [[1], []],
    "deep": {"a": {"b": [{"c": "x"}, {"c": "y"}]}, "n": None},
    "two words": 1,
}
WRITTEN = {
    "ts": ["2026-03-01T09:00:00Z"], "i": ["5"], "s": ["a<b&\r\ufffdé"], "t": ["true"], "whole": ["3"], "large": ["12500000000000000"],
    "small": ["0.0000001"], "d": ["1.50"], "day": ["2026-03-01"], "bytes": ["YWI="], "gone": None, "list": ["1", "2"],
    "lists": ["1", ""], "deep/a/b/c": ["x", "y"], "two_words": ["1"],
}  # fmt: skip


@pytest.mark.parametrize("path", WRITTEN)
def test_rows_are_documents(path: str) -> None:
    nothing = dict.fromkeys(EVERY)
    for data in ([EVERY, nothing], pa.Table.from_pylist([EVERY, nothing])):
        found = ps.xml.tree_patterns(f"/row->r[/{path}->x]").match(ps.documents(data, format="row")).to_pylist()
        assert [row["x"] for row in found] == ([] if WRITTEN[path] is None else [WRITTEN[path]])
        assert all(row["i"] == 5 and row["error"] is None for row in found)


def test_maps_structs_and_floats_in_rows() -> None:
    maps = pa.array([[("k 1", [1, 2]), ("k2", [3])], None, []], pa.map_(pa.string(), pa.list_(pa.int64())))
    table = pa.table({"m": maps, "f": pa.array([0.1, None, 1e30], pa.float32()), "far": pa.array([10**18, 0, None], pa.timestamp("us"))})  # fmt: skip
    found = ps.xml.tree_patterns({"m": "/row->r[/m/k_1->x]", "f": "/row->r[/f->x]", "t": "/row->r[/far->x]"})
    assert sorted((row["pattern"], row["x"]) for row in found.match(ps.documents(table, format="row")).to_pylist()) == [
        ("f", ["0.1"]),
        ("f", ["1" + "0" * 30]),
        ("m", ["1", "2"]),
        ("t", ["1970-01-01T00:00:00Z"]),
    ]


def test_patterns_and_subscriptions_over_rows() -> None:
    rows = [
        {"ts": AT, "kind": "Order", "no": 7, "customer": {"name": "ann"}},
        {"ts": AT + dt.timedelta(minutes=1), "kind": "Order", "no": 8, "customer": {"name": None}},
        {"ts": AT + dt.timedelta(minutes=2), "kind": "Call", "no": 9, "customer": {"name": "ann"}},
    ]
    documents = ps.documents(rows, format="row", type="kind")
    text = "Order/row->a[/customer/name->x] FOLLOWED BY{x = y, 1 hour} Call/row->b[//name->y]"
    (pair,) = ps.xscl.subscriptions(text).match(documents).to_pylist()
    assert (pair["left"]["no"], pair["right"]["no"]) == (7, 9)
    asked = ps.pattern("""
        pattern p match Order << /row->r[//name->name] >> o -> Call << /row->r[//name->name] >> c within 1 hour
        partition by name return o.no, c.no as called
    """)
    assert [(m.key["name"], m.values["no"], m.values["called"]) for m in asked.match(documents)] == [("ann", 7, 9)]
    assert ps.xml.tree_patterns("/row").match(ps.documents([], format="row")).num_rows == 0


def test_mistakes() -> None:
    rows = [{"ts": AT, "payload": "{}"}]
    with pytest.raises(EventDataError, match=r"Unknown document format 'jsn'\.\n  = Did you mean 'json'\?"):
        ps.documents(rows, body="payload", format="jsn")
    with pytest.raises(EventDataError, match="body='payload', format='json'"):
        ps.documents(rows, format="json")
    with pytest.raises(EventDataError, match=r"body= and path= do not apply\.\n.*use format='json'"):
        ps.documents(rows, body="payload", format="row")
    with pytest.raises(EventDataError, match=r"Either body= or path= is required\.\n.*format='row'"):
        ps.documents(rows)
    with pytest.raises(UnsupportedError, match="Read the files into a column"):
        ps.documents(rows, path="payload", format="json")
    with pytest.raises(EventDataError, match="namespaces= applies to XML, and these documents have format='json'"):
        ps.documents(rows, body="payload", format="json", namespaces={"a": "urn:a"})
    with pytest.raises(EventDataError, match="neither strings nor binary"):
        ps.xml.tree_patterns("//a").match(ps.documents(rows, body="ts", format="json"))
    with pytest.raises(EventDataError, match="the table has a column"):
        ps.xml.tree_patterns("/row/ts->ts").match(ps.documents(rows, format="row"))
    for documents in (
        ps.documents([{"a": 1}, {"a": "x"}], format="row"),
        ps.documents([{"a": 1, "b": "<r/>"}, {"a": "x", "b": "<r/>"}], body="b"),
    ):
        with pytest.raises(EventDataError, match="no common type"):
            ps.xml.tree_patterns("/r").match(documents)
    times = pa.table({"x": pa.array([[dt.time(1)]], pa.list_(pa.time64("us")))})
    with pytest.raises(EventDataError, match="Column 'x' is list"):
        ps.xml.tree_patterns("/row").match(ps.documents(times, format="row"))


def test_explained() -> None:
    assert "JSON: the root is /json" in orders().explain()
    assert "source: all columns of a row" in ps.documents([EVERY], format="row").explain()
    assert "XML, proven well formed" in ps.documents([EVERY], body="s").explain()
    assert repr(ps.documents([EVERY], format="row")).startswith("<documents: row of")


def test_an_error_of_a_file_names_it(tmp_path: Path) -> None:
    pattern = ps.pattern("pattern p match A a")
    with pytest.raises(ps.errors.EventDataError, match=r"none\.csv: The file cannot be read: No such file"):
        pattern.match(ps.events(str(tmp_path / "none.csv")))
    (tmp_path / "bad.jsonl").write_text('{"ts": 0}\n{')
    with pytest.raises(ps.errors.EventDataError, match=r"bad\.jsonl: Line 2: invalid JSON"):
        pattern.match(ps.events(tmp_path / "bad.jsonl"))
    (tmp_path / "events.tsv").write_text("ts\ttype")
    with pytest.raises(ps.errors.EventDataError, match=r"cannot be read as Parquet(.|\n)*\.csv, \.jsonl and \.ndjson"):
        pattern.match(ps.events(tmp_path / "events.tsv"))
