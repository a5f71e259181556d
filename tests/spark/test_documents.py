"""Documents on Spark: batch, stream and files of any size have the same results as local documents."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Observation, SparkSession
from pyspark.sql import types as st

import perseid as ps
from perseid.errors import DocumentError, EventDataError, SemanticError, UnknownNameError, UnsupportedError
from tests.spark.streaming import FAR, MOMENT, Streams, at, ids

UNPAID = ps.pattern("""
    pattern unpaid
    match   Orders << //order->order[/total->total > 100][/@customer->customer] >> o
            -> not Payments << //payment->paid[/@customer->customer] >> for 1 hour
    partition by customer
    return  o.total, o.id as document
""")
ARROW = pa.schema([("ts", MOMENT), ("id", pa.int64()), ("kind", pa.string()), ("xml", pa.string())])
SPARK = st.StructType(
    [
        st.StructField("ts", st.TimestampType()),
        st.StructField("id", st.LongType()),
        st.StructField("kind", st.StringType()),
        st.StructField("xml", st.StringType()),
    ]
)


def feed(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return random orders and payments: several in one document, some small, some payments without an order."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        customer = f"c{chance.randint(1, 12)}"
        if chance.random() < 0.6:
            orders = (
                f"<order customer='{chance.choice([customer, f'c{chance.randint(1, 12)}'])}'>"
                f"<total>{chance.randint(1, 300)}</total></order>"
                for _ in range(chance.randint(0, 3))
            )
            kind, xml = "Orders", f"<orders>{''.join(orders)}<payment customer='{customer}'/></orders>"
        else:
            kind, xml = "Payments", f"<payment customer='{customer}'>&#8364;<![CDATA[5]]></payment>"
        rows.append({"ts": at(600 * number + chance.randint(0, 3)), "id": number, "kind": kind, "xml": xml})
    return rows


def declared(data: Any, **more: Any) -> ps.xml.Documents:
    return ps.documents(data, body="xml", time="ts", type="kind", id="id", **more)


def test_batch_equals_local_matches(spark: SparkSession) -> None:
    rows = feed(120)
    local = UNPAID.match(declared(pa.Table.from_pylist(rows, ARROW)))
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], SPARK).repartition(5)
    found = UNPAID.match(declared(frame)).toArrow().to_pylist()
    assert len(found) > 5
    assert ids(found) == sorted((m.pattern, m.match_id, m.kind) for m in local)
    assert {row["total"] for row in found} <= {str(n) for n in range(101, 301)}
    plan = UNPAID.match(declared(frame))
    assert "xml" not in plan.columns


def test_stream_equals_batch(spark: SparkSession, tmp_path: Path) -> None:
    """In any batches; documents that cannot be parsed are bad rows and block nothing."""
    rows = feed(90, seed=2)
    wrong = [{"ts": at(5), "id": 1000, "kind": "Orders", "xml": "<a>\n<b></a>"}, {**rows[0], "id": 1001, "xml": None}]
    far = {"ts": at(FAR), "id": 2000, "kind": "Payments", "xml": "<payment customer='nobody'/>"}
    streams = Streams(spark, tmp_path)
    batches = [[*rows[:20], *wrong], rows[20:25], rows[25:80], rows[80:], [far]]
    frame = streams.stream(ARROW, *batches)
    ran = streams.run(UNPAID.match(declared(frame), rejected=True))
    local = UNPAID.match(declared(pa.Table.from_pylist([*rows, far], ARROW)))
    assert ids(ran.rows) == sorted((m.pattern, m.match_id, m.kind) for m in local)
    assert ran.counters["bad"] == 2
    assert sorted(row["reason"] for row in ran.rejected) == [
        "Mismatched tag (line 2, column 6).",
        "The document is null.",
    ]


def test_unparsable_documents_are_counted(spark: SparkSession) -> None:
    rows = [*feed(10), {"ts": at(0), "id": 99, "kind": "Orders", "xml": "<a"}]
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], SPARK)
    counted = Observation()
    UNPAID.match(declared(frame), observation=counted).collect()
    assert counted.get["bad"] == 1


def test_bodies_that_are_null_throughout_are_counted_as_bad(spark: SparkSession) -> None:
    """Also if the column has the null type."""
    subscriptions = ps.xscl.subscriptions("Orders//order->a FOLLOWED BY{a = b, 1 day} Orders//order->b")
    for null in ("null", "cast(null as string)", "cast(null as binary)"):
        frame = spark.range(3).selectExpr("id", "timestamp_seconds(id) as ts", "'Orders' as kind", f"{null} as xml")
        errors = [row.error.what for row in ps.xml.tree_patterns("//order->x").match(declared(frame)).collect()]
        assert errors == ["The document is null"] * 3
        for match in (UNPAID.match, subscriptions.match):
            counted = Observation()
            assert match(declared(frame), observation=counted).collect() == []
            assert counted.get["bad"] == 3
    with pytest.raises(EventDataError, match="Column 'body' not found"):
        ps.xml.tree_patterns("//order->x").match(ps.documents(frame, body="body"))


def test_tree_patterns_output_result_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Tree patterns alone, batch and stream: the same rows, and unparsable documents as rejected rows."""
    trees = ps.xml.tree_patterns(
        {"large": "//order->o[/total->t > 100]", "paid": "//payment", "run": "//orders(/order->o:/payment->p)"}
    )
    rows = [*feed(40), {"ts": at(0), "id": 99, "kind": "Orders", "xml": "<a>\n &nope;</a>"}]
    table = pa.Table.from_pylist(rows, ARROW)
    wanted = sorted(trees.match(declared(table)).to_pylist(), key=str)
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], SPARK).repartition(3)
    found = trees.match(declared(frame)).toArrow()
    assert sorted(found.select(list(wanted[0])).to_pylist(), key=str) == wanted
    (bad,) = [row for row in wanted if row["error"] is not None]
    assert (bad["id"], bad["error"]["line"], bad["error"]["column"]) == (99, 2, 2)
    runs = [row for row in wanted if row["pattern"] == "run"]
    assert [node["variable"] for node in runs[0]["nodes"]] == [None, "o", "p"]
    assert [node["level"] for node in runs[0]["nodes"]] == [0, 1, 1]
    streams = Streams(spark, tmp_path)
    ran = streams.run(trees.match(declared(streams.stream(ARROW, rows[:15], rows[15:]))))
    assert sorted(ran.table.select(list(wanted[0])).to_pylist(), key=str) == wanted


def test_documents_are_read_from_files(spark: SparkSession, tmp_path: Path) -> None:
    """A document given by its path is read in chunks; a missing or invalid file is an error in its row."""
    large = tmp_path / "large.xml"
    with large.open("wb") as file:
        file.write(b"<feed>")
        for number in range(60_000):
            file.write(b"<item><n>%d</n><text>%s</text></item>" % (number, b"x" * 50))
        file.write(b"</feed>")
    broken = tmp_path / "broken.xml"
    broken.write_bytes(b"<feed><item><n>1</n></item>\n<item></feed>")
    doubtful = tmp_path / "doubtful.xml"
    doubtful.write_bytes("<feed><item><n>1</n></item><é/><item><n>2</n></item></feed>".encode())
    paths = [str(large), broken.as_uri(), str(doubtful), str(tmp_path / "none.xml"), None]
    frame = spark.createDataFrame([(path,) for path in paths], "file string")
    trees = ps.xml.tree_patterns("//item/n->n")
    found = trees.match(ps.documents(frame, path="file")).toArrow().to_pylist()
    of = {path: [row for row in found if row["file"] == path] for path in paths}
    assert sorted(int(row["n"][0]) for row in of[str(large)]) == list(range(60_000))
    # Results before the position of an error stay, and the error follows; a document that is malformed early has no result.
    assert [(row["n"], row["error"] and row["error"]["line"]) for row in of[broken.as_uri()]] == [(None, 2)]
    assert [row["n"] for row in of[str(doubtful)]] == [["1"], ["2"]]
    for path in paths[3:]:
        (row,) = of[path]
        assert row["error"]["what"]
    binary = spark.read.format("binaryFile").load(str(large))
    assert trees.match(ps.documents(binary, body="content")).count() == 60_000


def test_documents_in_any_encoding(spark: SparkSession) -> None:
    text = "<r><a>é</a></r>"
    bodies = [
        text.encode(),
        ("﻿" + text).encode(),
        text.encode("utf-16"),
        ("<?xml version='1.0' encoding='ISO-8859-1'?>" + text).encode("latin-1"),
    ]
    frame = spark.createDataFrame([(body,) for body in bodies], "xml binary")
    found = ps.xml.tree_patterns("//a->a").match(ps.documents(frame, body="xml")).toArrow()["a"].to_pylist()
    assert found == [["é"]] * 4
    # A string is already decoded, so its encoding declaration is ignored.
    frame = spark.createDataFrame([("<?xml version='1.0' encoding='ISO-8859-1'?>" + text,)], "xml string")
    assert ps.xml.tree_patterns("//a->a").match(ps.documents(frame, body="xml")).toArrow()["a"].to_pylist() == [["é"]]


def test_documents_are_events_too(spark: SparkSession) -> None:
    """A step that names a type matches documents of that type; tables can also be given by type."""
    asked = ps.pattern("pattern p match Orders o -> Payments << //payment >> p within 1 hour return o.id, p.id as paid")
    rows = feed(30, seed=4)
    by_kind = {
        kind: spark.createDataFrame([(r["ts"], r["id"], r["xml"]) for r in rows if r["kind"] == kind], "ts timestamp, id long, xml string")
        for kind in ("Orders", "Payments")
    }  # fmt: skip
    together = spark.createDataFrame([tuple(row.values()) for row in rows], SPARK)
    one = asked.match(declared(together)).toArrow()
    several = asked.match(ps.documents(by_kind, body="xml", time="ts", id="id")).toArrow()
    assert one.num_rows > 3
    assert sorted(map(str, one.select(["id", "paid"]).to_pylist())) == sorted(
        map(str, several.select(["id", "paid"]).to_pylist())
    )


def test_namespaces(spark: SparkSession) -> None:
    xml = "<feed xmlns='http://www.w3.org/2005/Atom'><entry><title>t</title></entry></feed>"
    frame = spark.createDataFrame([(xml,)], "xml string")
    trees = ps.xml.tree_patterns("//a:entry/a:title->t")
    declared = ps.documents(frame, body="xml", namespaces={"a": "http://www.w3.org/2005/Atom"})
    assert trees.match(declared).toArrow()["t"].to_pylist() == [["t"]]
    with pytest.raises(UnknownNameError, match="namespace"):
        trees.match(ps.documents(frame, body="xml"))


def test_document_errors(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("<a/>", at(0))], "xml string, ts timestamp")
    with pytest.raises(EventDataError, match="Did you mean 'xml'"):
        ps.xml.tree_patterns("//a").match(ps.documents(frame, body="xmll"))
    with pytest.raises(EventDataError, match="Either body= or path= is required"):
        ps.documents(frame)
    with pytest.raises(EventDataError, match="Both body= and path= are given"):
        ps.documents(frame, body="xml", path="xml")
    with pytest.raises(UnsupportedError, match="has tree patterns, which need a stream of documents"):
        UNPAID.match(ps.events(frame, time="ts"))
    with pytest.raises(EventDataError, match="is timestamp"):
        ps.xml.tree_patterns("//a").match(ps.documents(frame, body="ts"))
    with pytest.raises(EventDataError, match="Tree patterns require a stream of documents"):
        ps.xml.tree_patterns("//a").match(frame)
    rows = [{"xml": "<a/>"}]
    for mixed in ({"A": frame, "B": rows}, {"A": rows, "B": frame}):
        with pytest.raises(EventDataError, match="The inputs mix Spark DataFrames and local rows"):
            ps.xml.tree_patterns("//a").match(ps.documents(mixed, body="xml"))
    with pytest.raises(UnknownNameError, match="Did you mean 'total'"):
        ps.pattern("pattern p match D << //a->x[/t->total] >> o return o.totl").match(ps.documents(frame, body="xml"))
    with pytest.raises(SemanticError, match="in separate results"):
        ps.pattern("pattern p match D << //a[/b->x][/c->y] >> o return o.x").match(ps.documents(frame, body="xml"))
    with pytest.raises(EventDataError, match="the table has a column"):
        ps.pattern("pattern p match D << //a->ts >> o return o.ts").match(ps.documents(frame, body="xml"))
    with pytest.raises(EventDataError, match="time column"):
        ps.pattern("pattern p match D << //a->x >> o return o.x").match(ps.documents(frame, body="xml", time="tss"))
    with pytest.raises(UnsupportedError, match="last"):
        ps.xml.tree_patterns("//a(/b[last()]:/c)").match(ps.documents(frame, body="xml"))
    with pytest.raises(DocumentError, match="Row 2"):
        ps.pattern("pattern p match D << //a->x >> o return o.x").match(
            ps.documents([{"ts": at(0), "xml": "<a/>"}, {"ts": at(1), "xml": "<b>"}], body="xml")
        )


def test_explain_of_documents(spark: SparkSession) -> None:
    frame = spark.createDataFrame([tuple(row.values()) for row in feed(1)], SPARK)
    said = UNPAID.explain(declared(frame, trusted=True, namespaces={"a": "urn:a"}))
    for line in (
        "tree Orders <<",
        "matches: any order (->order) that",
        "before the shuffle",
        "trusted",
        "namespace a: urn:a",
    ):
        assert line in said
    assert "has children as /b:/c*" in ps.xml.tree_patterns("//a(/b:/c*)").explain()
    assert "graph" in ps.xml.tree_patterns("//a(/b:/c*)").draw("mermaid") or "flowchart" in ps.xml.tree_patterns(
        "//a(/b:/c*)"
    ).draw("mermaid")
    assert "//order->order" in UNPAID.draw()


def test_far_apart_orders_do_not_meet(spark: SparkSession) -> None:
    """Results of one document are in document order, and those of documents of one time in the order of the documents."""
    asked = ps.pattern("pattern p match D << //a->x >> a -> D << //b->y >> b within 1 minute return a.x, b.y")
    rows = [{"ts": at(0), "id": n, "xml": "<r><b>1</b><a>2</a><b>3</b><a>4</a></r>"} for n in range(2)]
    rows.append({"ts": at(0) + timedelta(seconds=1), "id": 7, "xml": "<r><b>5</b></r>"})
    local = asked.match(ps.documents(rows, body="xml", id="id"))
    frame = spark.createDataFrame([tuple(r.values()) for r in rows], "ts timestamp, id long, xml string")
    there = asked.match(ps.documents(frame, body="xml", id="id")).toArrow()
    found = sorted((row["x"], row["y"]) for row in there.to_pylist())
    assert found == sorted((m.values["x"], m.values["y"]) for m in local)
    assert ("2", "3") in found


def test_json_equals_local_matches(spark: SparkSession, tmp_path: Path) -> None:
    """Patterns and tree patterns over JSON, batch and stream; invalid JSON is a bad row with a position."""
    rows = [
        {"ts": at(60 * n), "id": n, "kind": "Payments" if n % 3 == 2 else "Orders", "xml": f'{{"no": {n // 3}, "customer": "c{n % 5}", "items": [{{"sku": "s{n}"}}, {{"sku": null}}], "total": {n}.50}}'}
        for n in range(60)
    ]  # fmt: skip
    wrong = {"ts": at(5), "id": 99, "kind": "Orders", "xml": '{"no": 1,\n "no"}'}
    asked = ps.pattern("""
        pattern paid
        match   Orders << /json->order[/no->no][/total->total > 9] >> o -> Payments << /json->paid[/no->no] >> p
        within  1 hour
        partition by no
        return  o.total
    """)
    table = pa.Table.from_pylist(rows, ARROW)
    local = asked.match(declared(table, format="json"))
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], SPARK).repartition(3)
    found = asked.match(declared(frame, format="json")).toArrow().to_pylist()
    assert len(found) > 10
    assert ids(found) == sorted((m.pattern, m.match_id, m.kind) for m in local)
    trees = ps.xml.tree_patterns("/json->order[/items/sku->sku][/no->no]")
    wanted = sorted(trees.match(declared([*rows, wrong], format="json")).to_pylist(), key=str)
    streams = Streams(spark, tmp_path)
    ran = streams.run(trees.match(declared(streams.stream(ARROW, rows[:15], [wrong, *rows[15:]]), format="json")))
    assert sorted(ran.table.select(list(wanted[0])).to_pylist(), key=str) == wanted
    (bad,) = [row["error"] for row in wanted if row["error"] is not None]
    assert bad == {"what": "Expected ':'", "line": 2, "column": 6}


def test_rows_as_documents_equal_local_documents(spark: SparkSession) -> None:
    """Values of every type have the same text as locally."""
    frame = spark.sql("""
        select id, timestamp'2026-03-01 09:00:00Z' + make_interval(0, 0, 0, 0, 0, id) as ts, 'Order' as kind, 'a<b & ' || id as s,
               id % 2 = 0 as even, id * 1e15 + 0.5D as large, cast(id / 3 as float) as f, cast(id / 8 as decimal(10, 3)) as d,
               date'2026-03-01' as day, cast('ab' as binary) as bytes, if(id = 1, null, id) as gone,
               array(id, null, 7) as items, array(array(1L), array()) as lists, timestamp_ntz'2026-03-01 09:00:00.25' as local,
               named_struct('name', 'n' || id, 'no', array(named_struct('x', id))) as customer, map('k ' || id, id) as m
        from range(4)
    """)
    paths = {
        "s": "s", "ts": "t", "even": "e", "large": "l", "f": "f", "d": "d", "day": "day", "bytes": "by", "gone": "g", "items": "i",
        "lists/item": "li", "local": "lo", "customer/name": "cn", "customer/no/x": "x", "m/k_1": "m1",
    }  # fmt: skip
    trees = ps.xml.tree_patterns({name: f"/row->r[/{path}->node]" for path, name in paths.items()})
    local = trees.match(ps.documents(frame.toArrow(), format="row")).to_pylist()
    there = trees.match(ps.documents(frame.repartition(2), format="row")).toArrow()
    shown = [(row["pattern"], row["id"], row["node"], row["error"]) for row in local]
    assert len(shown) == 15 * 4 - 1 - 3
    assert sorted(shown, key=str) == sorted(
        ((row["pattern"], row["id"], row["node"], row["error"]) for row in there.to_pylist()), key=str
    )
    assert {(name, node[0]) for name, id, node, _ in shown if id == 3} >= {
        ("s", "a<b & 3"), ("t", "2026-03-01T09:03:00Z"), ("e", "false"), ("l", "3000000000000000.5"), ("f", "1"), ("d", "0.375"),
        ("day", "2026-03-01"), ("by", "YWI="), ("g", "3"), ("i", "3"), ("lo", "2026-03-01T09:00:00.250000Z"), ("x", "3"),
    }  # fmt: skip
    asked = ps.pattern(
        "pattern p match D << /row->r[//name->n] >> a -> D << /row->r[/even->n] >> b within 1 hour return a.n, b.id"
    )
    found = asked.match(ps.documents(frame, format="row", id="id")).toArrow().to_pylist()
    assert ids(found) == sorted(
        (m.pattern, m.match_id, m.kind) for m in asked.match(ps.documents(frame.toArrow(), format="row", id="id"))
    )
    with pytest.raises(EventDataError, match="Column 'v' is variant, which cannot be converted to text"):
        ps.xml.tree_patterns("/row").match(ps.documents(spark.sql("select parse_json('1') as v"), format="row"))
