"""Subscriptions on Spark: local notifications in a batch, on a stream, after restarts, and while subscriptions change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Observation, SparkSession

import perseid as ps
from perseid.errors import EventDataError, StateError, UnsupportedError
from perseid.lang.subscriptions import print_subscription
from tests.semantics.join_documents import random_documents, random_subscriptions, xml
from tests.spark.streaming import FAR, MOMENT, Streams, at

ARROW = pa.schema([("ts", MOMENT), ("n", pa.int64()), ("kind", pa.string()), ("xml", pa.string())])


def random_feed(seed: int, rounds: int) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return subscriptions, and documents a few seconds apart."""
    chance = random.Random(seed)
    texts = {}
    for i in range(8):
        texts |= {f"s{i}.{name}": print_subscription(one) for name, one in random_subscriptions(chance, 6).items()}
    rows = []
    for number in range(rounds):
        for one in random_documents(chance):
            second = 3 * number + one.time // 1_000_000
            rows.append({"ts": at(second), "n": len(rows), "kind": one.stream, "xml": xml(one.root)})
    return texts, rows


def declared(data: Any, **more: Any) -> ps.xml.Documents:
    return ps.documents(data, body="xml", time="ts", type="kind", id="n", **more)


def notifications(rows: Iterable[Mapping[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Return owner and pair of each notification with its count, from rows of pairs or of subscriptions."""
    return Counter(
        (who, row["left"]["n"], row["right"]["n"])
        for row in rows
        for who in (row["subscriptions"] if "subscriptions" in row else [row["subscription"]])
    )


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    return Streams(spark, tmp_path)


def batch_of(spark: SparkSession, rows: list[dict[str, Any]]) -> Any:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=ARROW)).repartition(3)


def test_batch_equals_local_notifications(spark: SparkSession) -> None:
    texts, rows = random_feed(1, 8)
    here = ps.xscl.subscriptions(texts).match(declared(pa.Table.from_pylist(rows, schema=ARROW)))
    found = ps.xscl.subscriptions(texts).match(declared(batch_of(spark, rows)), query_partitions=3)
    expected = notifications(here.to_pylist())
    assert len(expected) > 50
    assert found.columns == here.column_names
    assert notifications(rows_of(found)) == expected
    one = ps.xscl.subscriptions(texts).match(declared(batch_of(spark, rows)), query_partitions=1, expand=True)
    wide = ps.xscl.subscriptions(texts).match(declared(pa.Table.from_pylist(rows, schema=ARROW)), expand=True)
    assert one.columns == wide.column_names
    assert Counter(map(_shown, rows_of(one))) == Counter(map(_shown, wide.to_pylist()))


def _shown(row: dict[str, Any]) -> tuple[object, ...]:
    """Return a row in the form of local rows: Spark's driver has times without a zone (here UTC), and unordered maps."""
    sides = [{**row[side], "ts": row[side]["ts"].replace(tzinfo=None)} for side in ("left", "right")]
    return row["subscription"], repr(sides), tuple(sorted(dict(row["values"]).items()))


def test_counters(spark: SparkSession) -> None:
    rows = [
        {"ts": at(0), "n": 1, "kind": "S", "xml": "<a>1</a>"},
        {"ts": at(1), "n": 2, "kind": "S", "xml": "<a>1</a>"},
        {"ts": at(1), "n": 3, "kind": "S", "xml": "<a>1"},
        {"ts": None, "n": 4, "kind": "S", "xml": "<a>1</a>"},
        {"ts": at(2), "n": 5, "kind": "T", "xml": "<a>1</a>"},
    ]
    seen = Observation()
    one = ps.xscl.subscriptions("S//a->x FOLLOWED BY{x = y, 1 day} S//a->y")
    found = one.match(declared(batch_of(spark, rows)), observation=seen)
    assert notifications(rows_of(found)) == Counter({("subscription", 1, 2): 1})
    assert {name: seen.get[name] for name in ("events", "bad", "matches")} == {"events": 4, "bad": 2, "matches": 1}


EITHER = {
    "constants": "S//a->x FOLLOWED BY{x = y AND (x = '1' OR y = '1'), 1 day} S//a->y",
    "names": "S//r[/a->x2][/a->x3] FOLLOWED BY{x2 = y OR x3 = y, 1 day} S//r[/a->y]",
    "different nodes": "S//r[/a->x][/b->z] FOLLOWED BY{x = y OR z = y, 1 day} S//r[/a->y]",
}


@pytest.mark.parametrize("expand", [False, True])
def test_or_is_notified_once_in_any_number_of_shares(spark: SparkSession, streams: Streams, expand: bool) -> None:
    rows = [{"ts": at(i), "n": i, "kind": "S", "xml": "<r><a>1</a><b>1</b></r>"} for i in range(3)]
    query = ps.xscl.subscriptions(EITHER)
    here = notifications(query.match(declared(pa.Table.from_pylist(rows, schema=ARROW)), expand=expand).to_pylist())
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert here == Counter({(who, *pair): 1 + (who == "different nodes") for who in EITHER for pair in pairs})
    for shares in (1, 3):
        assert (
            notifications(rows_of(query.match(declared(batch_of(spark, rows)), query_partitions=shares, expand=expand)))
            == here
        )
    ends = [{"ts": at(FAR + i), "n": -1 - i, "kind": "S", "xml": "<z/>"} for i in range(2)]
    streams.add("input", ARROW, rows[:1], rows[1:], *([one] for one in ends))
    run = streams.run(query.match(declared(streams.read("input", ARROW)), query_partitions=3, expand=expand))
    assert notifications(run.rows) == here


def test_stream_with_a_restart_equals_local_notifications(streams: Streams) -> None:
    """In any batches with a restart; late and unparsable documents are rejected rows."""
    texts, rows = random_feed(2, 10)
    expected = notifications(
        ps.xscl.subscriptions(texts).match(declared(pa.Table.from_pylist(rows, schema=ARROW))).to_pylist()
    )
    assert len(expected) > 50
    chance = random.Random(3)
    shuffled = sorted(rows, key=lambda row: (row["ts"].timestamp() + chance.uniform(0, 8), row["n"]))
    cut = len(shuffled) // 3
    streams.add("input", ARROW, shuffled[:cut], shuffled[cut : 2 * cut])
    frame = streams.read("input", ARROW)

    def start_query(**more: Any) -> Any:
        return ps.xscl.subscriptions(texts).match(declared(frame), query_partitions=2, rejected=True, **more)

    streams.run(start_query())
    last = [
        {"ts": at(-100), "n": -1, "kind": "S", "xml": "<a>1</a>"},
        {"ts": at(40), "n": -2, "kind": "S", "xml": "<a>1"},
        {"ts": at(FAR), "n": -3, "kind": "S", "xml": "<z>no more</z>"},
    ]
    streams.add("input", ARROW, shuffled[2 * cut :], last, [{**last[-1], "ts": at(FAR + 1)}])
    run = streams.run(start_query(checkpoint=str(streams.checkpoint())))
    assert notifications(run.rows) == expected
    reasons = {row["kind"]: row["reason"] for row in run.rejected}
    assert len(run.rejected) == 2
    assert reasons["late"] == "Its time is at or before the watermark."
    assert "line 1, column" in reasons["bad"]
    assert run.counters["late"] == 1
    assert run.counters["bad"] == 1
    with pytest.raises(StateError, match="2 shards, and the query now has 3"):
        ps.xscl.subscriptions(texts).match(declared(frame), query_partitions=3, checkpoint=str(streams.checkpoint()))
    one = ps.xscl.subscriptions({**texts, "new": "S//a->x JOIN{x = y, 1 day} S//a->y"})
    with pytest.raises(StateError, match="Incompatible checkpoint: expected subscriptions"):
        one.match(declared(frame), query_partitions=2, checkpoint=str(streams.checkpoint()))


def test_subscriptions_are_added_and_removed(streams: Streams, tmp_path: Path) -> None:
    table = ps.xscl.subscription_table(tmp_path / "subscriptions")
    table.add({"x": "S//a->x FOLLOWED BY{x = y, 1 day} S//a->y", "b": "S//b->x FOLLOWED BY{x = y, 1 day} S//b->y"})
    frame = streams.read("input", ARROW)
    query = table.match(declared(frame, order="arrival"), query_partitions=2)

    streams.add("input", ARROW, _documents(1, 2))
    assert set(notifications(streams.run(query).rows)) == {("x", 1, 2), ("b", 1, 2)}
    table.add({"c": "S//c->x FOLLOWED BY{x = y, 1 day} S//c->y"})
    table.remove(["b"])
    streams.add("input", ARROW, _documents(3))
    run = streams.run(query)
    # The added one gets no notification of earlier documents; the removed one gets none any more.
    assert set(notifications(run.rows)) == {("x", 1, 2), ("b", 1, 2), ("x", 1, 3), ("x", 2, 3)}
    streams.add("input", ARROW, _documents(4))
    assert set(notifications(streams.run(query).rows)) - set(notifications(run.rows)) == {
        ("x", 1, 4), ("x", 2, 4), ("x", 3, 4), ("c", 3, 4),
    }  # fmt: skip
    batch = table.match(declared(batch_of(streams.spark, _documents(1, 2, 3))))
    assert {who for who, _, _ in notifications(rows_of(batch))} == {"x", "c"}


def _documents(*numbers: int) -> list[dict[str, Any]]:
    return [{"ts": at(n), "n": n, "kind": "S", "xml": "<r><a>1</a><b>2</b><c>3</c></r>"} for n in numbers]


def test_documents_outside_every_window_are_evicted(streams: Streams) -> None:
    """Documents that no window reaches are evicted, the last one when the watermark has passed it."""
    one = ps.xscl.subscriptions("S//a->x FOLLOWED BY{x = y, 10 seconds} S//a->y")
    rows = [{"ts": at(20 * n), "n": n, "kind": "S", "xml": f"<a>{n % 2}</a>"} for n in range(6)]
    end = [{"ts": at(FAR), "n": 100, "kind": "T", "xml": "<b/>"}]
    frame = streams.stream(ARROW, rows[:3], rows[3:], end)
    run = streams.run(one.match(declared(frame), query_partitions=2))
    assert run.rows == []
    assert run.counters["events"] == 6, "a document of an unused stream is not counted"
    assert run.states[-1] == 0


def test_select_output_equals_local_output(streams: Streams) -> None:
    """SELECT of a batch and of a restarted stream equals the local output; bodies are retained for it."""
    texts = {
        "made": "SELECT <pair by='{x}'>{p}</pair> FROM S//r->a[/a->x][/b->p] FOLLOWED BY{x = y, 1 day} S//r->b[/a->y]",
        "same": "SELECT <pair by='{x}'>{p}</pair> FROM S//r->a[/a->x][/b->p] FOLLOWED BY{x = y, 2 days} S//r->b[/a->y]",
        "plain": "S//a->x FOLLOWED BY{x = y, 1 day} S//a->y",
    }
    rows = _documents(1, 2, 3)
    query = ps.xscl.subscriptions(texts)
    here = query.match(declared(pa.Table.from_pylist(rows, schema=ARROW)))
    found = query.match(declared(batch_of(streams.spark, rows)), query_partitions=3)
    assert found.columns == here.column_names
    expected = _output_columns(here.to_pylist())
    assert expected[("made", "same"), 1, 2] == '<pair by="1"><b>2</b></pair>'
    assert expected[("plain",), 1, 2] is None
    assert _output_columns(rows_of(found)) == expected
    assert _output_columns(rows_of(query.match(declared(batch_of(streams.spark, rows)), results=False))) == {
        (("made", "same"), a, b): None for a, b in ((1, 2), (1, 3), (2, 3))
    } | {(("plain",), a, b): None for a, b in ((1, 2), (1, 3), (2, 3))}
    streams.add("input", ARROW, rows[:2])
    restarted = query.match(declared(streams.read("input", ARROW), order="arrival"), query_partitions=2)
    streams.run(restarted)
    streams.add("input", ARROW, rows[2:])
    assert _output_columns(streams.run(restarted).rows) == expected


def _output_columns(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], str | None]:
    return {
        (tuple(sorted(row["subscriptions"])), row["left"]["n"], row["right"]["n"]): row.get("result") for row in rows
    }


def test_subscriptions_over_json_and_rows(spark: SparkSession) -> None:
    """By path or by column, the same subscriptions have the same notifications."""
    rows = [{"ts": at(n), "n": n, "kind": "S", "xml": f'{{"who": "ann", "paid": [{n}, 7]}}'} for n in range(3)]
    query = ps.xscl.subscriptions(
        "S//json->a[/who->x][/paid->p] FOLLOWED BY{x = y AND p = q, 1 day} S//json->b[/who->y][/paid->q]"
    )
    found = query.match(declared(batch_of(spark, rows), format="json"), query_partitions=2)
    assert notifications(rows_of(found)) == Counter(
        {("subscription", 0, 1): 1, ("subscription", 0, 2): 1, ("subscription", 1, 2): 1}
    )
    frame = spark.createDataFrame([(0, "ann", 5), (1, "bob", 5), (2, "ann", 6)], "n int, who string, paid int")
    stream = ps.documents({"Paid": frame.selectExpr("timestamp_seconds(n) as ts", "*")}, format="row", time="ts")
    again = ps.xscl.subscriptions(
        "Paid//row->a[/who->x][/paid->p] FOLLOWED BY{x = y AND p < q, 1 day} Paid//row->b[/who->y][/paid->q]"
    )
    assert notifications(rows_of(again.match(stream))) == Counter({("subscription", 0, 2): 1})


def test_subscription_errors(spark: SparkSession, streams: Streams) -> None:
    one = ps.xscl.subscriptions("S//a->x FOLLOWED BY{x = y, 10 seconds} S//a->y")
    frame = batch_of(spark, _documents(1, 2))
    with pytest.raises(EventDataError, match="no stream is declared"):
        one.match(ps.documents(frame, body="xml", time="ts"))
    with pytest.raises(EventDataError, match="Subscriptions require a stream of documents"):
        one.match(frame)
    with pytest.raises(EventDataError, match="query_partitions=0: expected a number from 1 to 4,096"):
        one.match(declared(frame), query_partitions=0)
    circle = {
        "a": "SELECT <b>{x}</b> FROM S//a->x JOIN{x = y, 1 day} S//a->y PUBLISH T",
        "b": "T//b->x JOIN{x = y, 1 day} S//a->y",
    }
    with pytest.raises(
        UnsupportedError,
        match="a subscription cannot read a stream that another subscription of the same set publishes",
    ):
        ps.xscl.subscriptions(circle).match(declared(frame))
    with pytest.raises(EventDataError, match="has no watermark"):
        one.match(declared(streams.read("input", ARROW, delay=None)))
    with pytest.raises(UnsupportedError, match="checkpoint= requires a Spark DataFrame"):
        one.match(declared([]), checkpoint="there")
