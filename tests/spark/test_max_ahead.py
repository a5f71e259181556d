"""Rows dated in the future on a stream: rejected before the watermark, for any kind of stream and any row."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import perseid as ps
from perseid.spark.ahead import mark_ahead
from perseid.spark.worker import AHEAD
from tests.spark import test_documents, test_models, test_subscriptions, test_uncertain
from tests.spark.streaming import FAR, MOMENT, Streams, at, ids

SCHEMA = pa.schema({"ts": MOMENT, "type": pa.string(), "user": pa.string(), "n": pa.int64()})
PUNCTUATED = SCHEMA.append(pa.field("punctuation", pa.string()))
PATTERNS = ps.patterns("""
pattern paid
match Order o -> Payment p
within 20 seconds
partition by user
return o.n as order, p.n as payment

pattern unpaid
match Order o -> not Payment for 8 seconds
within 20 seconds
partition by user
""")
POISON = dt.datetime(9999, 6, 1, tzinfo=dt.UTC)
BOUND: dict[str, Any] = {"max_ahead": "1 hour", "lateness": "10 seconds"}
Row = dict[str, Any]


def row(second: float | None, kind: str, user: str = "ann", n: int = 0) -> Row:
    return {"ts": at(second), "type": kind, "user": user, "n": n}


TIMELY: list[list[Row]] = [
    [row(0, "Order", "ann", 1), row(3, "Order", "bob", 2), row(2, "Payment", "ann", 3)],
    [row(6, "Payment", "bob", 4), row(30, "Order", "cat", 5)],
    [row(33, "Payment", "cat", 6), row(31, "Order", "dan", 7)],
    [row(FAR, "Z")],
]
"""Return rows that are out of order by less than the delay of the watermark."""


def poisoned(batches: list[list[Row]]) -> list[list[Row]]:
    """Return the same rows with a row of the year 9999 in the first and the third batch."""
    out = [list(batch) for batch in batches]
    for number in (0, 2):
        out[number].insert(1, {**row(0, "Payment", "ann", 666), "ts": POISON})
    return out


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Streams:
    return Streams(spark, tmp_path)


def expected(batches: list[list[Row]]) -> list[tuple[str, str, str]]:
    """Return the matches of all rows with a time of this century."""
    rows = [one for batch in batches for one in batch if one["ts"] is not None and one["ts"] != POISON]
    return sorted((match.pattern, match.match_id, match.kind) for match in PATTERNS.match(ps.events(rows)))


def test_rows_far_ahead_change_no_match_and_are_counted(streams: Streams) -> None:
    stream = streams.stream(SCHEMA, *poisoned(TIMELY), delay=None)
    run = streams.run(PATTERNS.match(ps.events(stream, **BOUND, options=ps.StreamOptions(shards=2)), rejected=True))
    assert ids(run.rows) == expected(TIMELY)
    assert (run.counters["ahead"], run.counters["late"], run.counters["bad"]) == (2, 0, 0)
    ahead = [one for one in run.table.to_pylist() if one["kind"] == "ahead"]
    assert {one["reason"] for one in ahead} == {"Its time is more than 1 hour after its arrival."}
    assert [(one["start"], one["user"]) for one in ahead] == [(POISON, "ann")] * 2
    assert {one["row"] for one in ahead} == {'{"ts":"9999-06-01T00:00:00.000Z","type":"Payment","user":"ann","n":666}'}


def test_without_the_bound_the_same_rows_make_later_ones_late(streams: Streams) -> None:
    run = streams.run(
        PATTERNS.match(ps.events(streams.stream(SCHEMA, *poisoned(TIMELY)), options=ps.StreamOptions(shards=2)))
    )
    assert ids(run.rows) != expected(TIMELY)
    assert run.counters["late"] == 4


def test_the_watermark_ahead_of_the_clock_is_a_warning_of_progress(streams: Streams) -> None:
    running = streams.start(
        PATTERNS.match(ps.events(streams.stream(SCHEMA, *poisoned(TIMELY)), options=ps.StreamOptions(shards=2)))
    )
    running.finish()
    with pytest.warns(
        ps.errors.InputWarning, match=r"The watermark 9999-05-31T23:59:50\.000Z is [0-9,]+ days ahead of the clock"
    ):
        ps.progress(running.query)


def test_a_bounded_stream_has_no_such_warning_and_counts_in_progress(streams: Streams) -> None:
    stream = streams.stream(SCHEMA, *poisoned(TIMELY), delay=None)
    running = streams.start(PATTERNS.match(ps.events(stream, **BOUND, options=ps.StreamOptions(shards=2))))
    running.finish()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = ps.progress(running.query)
    assert (seen.read, seen.filtered, seen.events, seen.late, seen.bad, seen.ahead) == (10, 1, 7, 0, 0, 2)


@pytest.mark.parametrize(
    "name",
    ["aggressive", pytest.param("assemble", marks=pytest.mark.deep), pytest.param("adaptive", marks=pytest.mark.deep)],
)
def test_rows_far_ahead_change_no_match_of_a_stream_out_of_order(streams: Streams, name: str) -> None:
    asked = PATTERNS if name == "aggressive" else ps.patterns(str(PATTERNS["paid"]).replace("->", "->>"))
    strategy: Any = ps.disorder.Adaptive(loss=0.1) if name == "adaptive" else name
    found = {}
    for way, batches in (("plain", TIMELY), ("poisoned", poisoned(TIMELY))):
        stream = streams.stream(SCHEMA, *batches, name=way, delay=None)
        run = streams.run(
            asked.match(ps.events(stream, disorder=strategy, **BOUND, options=ps.StreamOptions(shards=2))), way
        )
        found[way] = sorted((one["pattern"], one["match_id"], one.get("op") or "+") for one in run.rows)
        assert run.counters["ahead"] == (2 if way == "poisoned" else 0)
        assert run.counters["late"] == 0
    assert found["plain"] == found["poisoned"] != []


def test_a_punctuation_dated_9999_is_rejected(streams: Streams) -> None:
    batches = [[{**one, "punctuation": None} for one in batch] for batch in TIMELY]
    batches[0].append({**row(0, "Payment"), "ts": POISON, "punctuation": "all"})
    stream = streams.stream(PUNCTUATED, *batches, delay=None)
    run = streams.run(
        PATTERNS.match(ps.events(stream, id="n", disorder="conservative", **BOUND, options=ps.StreamOptions(shards=2)))
    )
    assert (run.counters["ahead"], run.counters["late"], run.counters["control_rows"]) == (1, 0, 0)
    rows = [one for batch in TIMELY for one in batch]
    assert ids(run.rows) == sorted(
        (match.pattern, match.match_id, match.kind) for match in PATTERNS.match(ps.events(rows, id="n"))
    )


def test_a_row_without_a_time_is_bad_and_not_ahead(streams: Streams) -> None:
    batches = [[*TIMELY[0], row(None, "Order"), {**row(0, "Order"), "ts": POISON}], *TIMELY[1:]]
    stream = streams.stream(SCHEMA, *batches, delay=None)
    run = streams.run(PATTERNS.match(ps.events(stream, **BOUND, options=ps.StreamOptions(shards=2)), rejected="bad"))
    assert (run.counters["ahead"], run.counters["bad"]) == (1, 1)
    kinds = {one["kind"]: one["reason"] for one in run.table.to_pylist() if one["kind"] in ("ahead", "bad")}
    assert kinds == {"ahead": "Its time is more than 1 hour after its arrival.", "bad": "It has no time."}
    assert ids(run.rows) == expected(batches)


def test_a_row_exactly_at_the_bound_is_accepted(spark: SparkSession) -> None:
    micros = 3_600_000_000
    now = "unix_micros(current_timestamp())"
    rows = spark.sql(f"select timestamp_micros({now} + {micros} + n) as ts, n from values (-1), (0), (1) as t(n)")
    found = {one["n"]: one for one in mark_ahead(rows, "ts", micros).collect()}
    assert [found[n]["ts"] is not None for n in (-1, 0, 1)] == [True, True, False]
    assert [found[n][AHEAD] is not None for n in (-1, 0, 1)] == [False, False, True]


def test_with_a_lateness_of_max_ahead_the_watermark_stays_behind_the_clock(streams: Streams) -> None:
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=59)
    stream = streams.stream(SCHEMA, [{**row(0, "Order"), "ts": soon}], [row(0, "Order")], delay=None)
    running = streams.start(
        PATTERNS.match(ps.events(stream, max_ahead="1 hour", lateness="1 hour", options=ps.StreamOptions(shards=2)))
    )
    run = running.finish()
    assert (run.counters["ahead"], run.counters["late"]) == (0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = ps.progress(running.query)
    assert seen.watermark is not None
    assert dt.datetime.now(dt.UTC) - dt.timedelta(hours=1) < dt.datetime.fromisoformat(seen.watermark)


def test_a_batch_that_runs_again_has_the_clock_that_was_stored_with_its_offsets(streams: Streams) -> None:
    streams.add("input", SCHEMA, [row(0, "Order")])

    def run() -> int:
        found = PATTERNS.match(
            ps.events(streams.read("input", SCHEMA, None), **BOUND, options=ps.StreamOptions(shards=2))
        )
        writer = found.writeStream.format("noop").option("checkpointLocation", str(streams.checkpoint()))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return ps.progress(query).ahead

    assert run() == 0
    # As after a crash before the first commit; but its clock was two hours before the row.
    checkpoint = streams.checkpoint()
    for path in [*(checkpoint / "commits").iterdir(), *(checkpoint / "offsets").iterdir()]:
        if path.parent.name == "commits" or path.name != "0":
            path.unlink()
    version, stored, *offsets = (checkpoint / "offsets" / "0").read_text().splitlines()
    clock = int((at(0) - dt.timedelta(hours=2)).timestamp() * 1000)
    stored = json.dumps({**json.loads(stored), "batchTimestampMs": clock})
    (checkpoint / "offsets" / "0").write_text("\n".join([version, stored, *offsets]))
    with pytest.warns(ps.errors.InputWarning, match="its rows are dated beyond max_ahead"):
        assert run() == 1


def test_inputs_by_type_are_bounded_each(streams: Streams) -> None:
    own = pa.schema({"at": MOMENT, "user": pa.string(), "n": pa.int64()})
    orders = [
        [{"at": one["ts"], "user": one["user"], "n": one["n"]} for one in batch if one["type"] == "Order"]
        for batch in TIMELY
    ]
    paid = [[{**one, "type": None} for one in batch if one["type"] in ("Payment", "Z")] for batch in poisoned(TIMELY)]
    data = {
        "Order": streams.stream(
            own, *(batch or [{"at": at(FAR), "user": "zoe", "n": 0}] for batch in orders), name="orders", delay=None
        ),
        "Payment": streams.stream(SCHEMA, *paid, name="payments", delay=None),
    }
    declared = ps.events(
        data, time={"Order": "at", "Payment": "ts"}, id="n", **BOUND, options=ps.StreamOptions(shards=2)
    )
    run = streams.run(PATTERNS["paid"].match(declared))
    assert sorted((one["order"], one["payment"]) for one in run.rows) == [(1, 3), (2, 4), (5, 6)]
    assert run.counters["ahead"] == 2


def test_names_of_columns_may_be_odd(streams: Streams) -> None:
    schema = pa.schema({"the `time`": MOMENT, "type": pa.string(), "user": pa.string(), "a.b": pa.int64()})
    batches = [
        [{"the `time`": one["ts"], "type": one["type"], "user": one["user"], "a.b": one["n"]} for one in batch]
        for batch in poisoned(TIMELY)
    ]
    stream = streams.stream(schema, *batches, delay=None)
    asked = ps.pattern("pattern paid match Order o -> Payment p within 20 seconds partition by user")
    run = streams.run(
        asked.match(ps.events(stream, time="the `time`", **BOUND, options=ps.StreamOptions(shards=2)), rejected=True)
    )
    assert len(run.rows) == 3
    (one, _) = [json.loads(one["row"]) for one in run.table.to_pylist() if one["kind"] == "ahead"]
    assert one == {"the `time`": "9999-06-01T00:00:00.000Z", "type": "Payment", "user": "ann", "a.b": 666}


def test_identities_are_those_of_a_stream_without_the_bound(streams: Streams) -> None:
    bounded = streams.stream(SCHEMA, *TIMELY, name="one", delay=None)
    plain = streams.stream(SCHEMA, *TIMELY, name="two")
    first = streams.run(PATTERNS.match(ps.events(bounded, **BOUND, options=ps.StreamOptions(shards=2))), "one")
    second = streams.run(PATTERNS.match(ps.events(plain, options=ps.StreamOptions(shards=2))), "two")
    assert ids(first.rows) == ids(second.rows) == expected(TIMELY)


# Other streams


def test_a_document_far_ahead_is_rejected_once_with_its_body(streams: Streams) -> None:
    rows = test_documents.feed(40)
    far = [{"ts": POISON, "id": 1000, "kind": "Orders", "xml": "<orders><order/></orders>"}]
    closing = [{"ts": at(FAR), "id": 1001, "kind": "Orders", "xml": "<z/>"}]
    stream = streams.stream(test_documents.ARROW, [*far, *rows[:20]], rows[20:], closing, delay=None)
    declared = test_documents.declared(stream, lateness="10 seconds", max_ahead="1 hour")
    run = streams.run(test_documents.UNPAID.match(declared, rejected=True))
    here = test_documents.UNPAID.match(test_documents.declared(pa.Table.from_pylist(rows, test_documents.ARROW)))
    assert ids(run.rows) == sorted((m.pattern, m.match_id, m.kind) for m in here)
    (one,) = [one for one in run.table.to_pylist() if one["kind"] == "ahead"]
    found = json.loads(one["row"])
    assert (found["ts"], found["id"], found["_perseid_payload"]) == ("9999-06-01T00:00:00.000Z", 1000, far[0]["xml"])
    assert (run.counters["ahead"], run.counters["late"], run.counters["bad"]) == (1, 0, 0)


def test_a_document_of_a_row_does_not_contain_the_column_of_the_bound(streams: Streams) -> None:
    schema = pa.schema({"ts": MOMENT, "n": pa.int64()})
    stream = streams.stream(
        schema, [{"ts": at(0), "n": 7}, {"ts": POISON, "n": 8}], [{"ts": at(FAR), "n": 9}], delay=None
    )
    every = ps.pattern("pattern every match Document << /row->row[/*->child] >> d return d.child")
    run = streams.run(
        every.match(ps.documents(stream, format="row", id="n", **BOUND, options=ps.StreamOptions(shards=2)))
    )
    assert run.counters["ahead"] == 1
    assert all("9999" not in str(one) for one in run.table.to_pylist())


def test_a_document_of_a_subscription_far_ahead_is_rejected_once(streams: Streams) -> None:
    texts, rows = test_subscriptions.random_feed(3, 6)
    far = [{"ts": POISON, "n": 10_000, "kind": rows[0]["kind"], "xml": rows[0]["xml"]}]
    closing = [{"ts": at(FAR), "n": 10_001, "kind": "none", "xml": "<z/>"}]
    half = len(rows) // 2
    stream = streams.stream(test_subscriptions.ARROW, [*far, *rows[:half]], rows[half:], closing, delay=None)
    declared = test_subscriptions.declared(stream, lateness="10 seconds", max_ahead="1 hour")
    run = streams.run(ps.xscl.subscriptions(texts).match(declared, query_partitions=2, rejected=True))
    here = ps.xscl.subscriptions(texts).match(
        test_subscriptions.declared(pa.Table.from_pylist(rows, schema=test_subscriptions.ARROW))
    )
    assert test_subscriptions.notifications(run.rows) == test_subscriptions.notifications(here.to_pylist())
    (one,) = [one for one in run.table.to_pylist() if one["kind"] == "ahead"]
    found = json.loads(one["row"])
    assert (found["ts"], found["n"], found["_perseid_payload"]) == ("9999-06-01T00:00:00.000Z", 10_000, far[0]["xml"])
    assert (run.counters["ahead"], run.counters["late"]) == (1, 0)


def read_files(spark: SparkSession, folder: Path, schema: str, *parts: list[Any]) -> DataFrame:
    for part in parts:
        spark.createDataFrame(part, schema).coalesce(1).write.mode("append").parquet(str(folder))
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def in_memory(
    spark: SparkSession, found: DataFrame, name: str, folder: Path
) -> tuple[list[dict[str, Any]], ps.Progress]:
    writer = found.writeStream.format("memory").queryName(name).option("checkpointLocation", str(folder))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [one.asDict() for one in spark.table(name).collect()], ps.progress(query)


def test_a_reading_of_an_uncertain_stream_far_ahead_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    rows = sorted(test_uncertain.readings())
    far = [(POISON, "a", "a1")]
    end = [(test_uncertain.BEGIN + dt.timedelta(days=30), "nobody", None)]
    stream = read_files(spark, tmp_path / "in", test_uncertain.SCHEMA, [*far, *rows[:90]], rows[90:], end)
    declared = ps.uncertain_events(
        stream, lateness="2 seconds", max_ahead="1 hour", **test_uncertain.SAID, options=ps.StreamOptions(shards=2)
    )
    asked = test_uncertain.coffee(True)
    found, seen = in_memory(
        spark, asked.match(declared, relations=test_uncertain.ROOMS), "ahead_beliefs", tmp_path / "state"
    )
    own = [one for one in found if one["person"] != "nobody"]
    assert test_uncertain.exact_rows(own) == test_uncertain.match_locally(True) != []
    assert (seen.ahead, seen.late) == (1, 0)
    assert "max_ahead: rows with a time more than 1 hour after their arrival are rejected" in asked.explain(declared)


def test_a_change_of_a_model_far_ahead_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    rows = sorted(test_models.changes(), key=lambda one: (one[1], one[0]))
    far = [("north", POISON, "create", "h9", "Host", None, None, None)]
    end = [
        ("end", test_models.BEGIN + dt.timedelta(days=days), "create", "x", "App", None, None, None)
        for days in (30, 31)
    ]
    parts = ([*far, *rows[:60]], rows[60:], end[:1], end[1:])
    stream = read_files(spark, tmp_path / "in", test_models.SCHEMA, *parts)
    declared = ps.graph.model(
        stream,
        test_models.SITE,
        key="site",
        lateness="2 seconds",
        max_ahead="1 hour",
        options=ps.StreamOptions(shards=2),
    )
    asked = ps.patterns(test_models.SITE)
    found, seen = in_memory(spark, asked.match(declared), "ahead_models", tmp_path / "state")
    assert sorted(one["match_id"] for one in found) == test_models.match_locally(test_models.changes())
    assert (seen.ahead, seen.late) == (1, 0)
    assert "max_ahead: rows with a time more than 1 hour after their arrival are rejected" in asked.explain(declared)


# Invalid bounds, and explain


@pytest.mark.parametrize("given", ["0 seconds", dt.timedelta(seconds=-1), "10001 days"])
def test_a_bound_is_above_zero_and_below_10000_days(given: Any) -> None:
    with pytest.raises(ps.errors.EventDataError, match="expected a duration above zero and of at most 10,000 days"):
        ps.events([], max_ahead=given)


def test_a_negative_lateness_is_rejected() -> None:
    with pytest.raises(ps.errors.EventDataError, match="expected a duration of zero or more"):
        ps.events([], lateness=dt.timedelta(seconds=-1))


def test_a_bound_above_a_watermark_is_rejected(streams: Streams) -> None:
    marked = streams.stream(SCHEMA, *TIMELY)
    with pytest.raises(
        ps.errors.EventDataError, match="already has a watermark on 'ts'; max_ahead requires a DataFrame without one"
    ):
        ps.events(marked, **BOUND)
    with pytest.raises(
        ps.errors.EventDataError, match="already has a watermark on 'ts'; lateness requires a DataFrame without one"
    ):
        ps.events(marked, lateness="1 minute")


def test_a_bound_of_a_stream_needs_the_delay_of_its_watermark(streams: Streams) -> None:
    with pytest.raises(ps.errors.EventDataError, match="max_ahead requires lateness") as found:
        ps.events(streams.stream(SCHEMA, *TIMELY, delay=None), max_ahead="1 hour")
    assert "lateness='10 minutes'" in str(found.value)


def test_finished_data_has_no_arrival_and_no_bound(spark: SparkSession) -> None:
    rows = [one for batch in poisoned(TIMELY) for one in batch]
    here = PATTERNS.match(ps.events(rows, **BOUND))
    assert sorted(match.match_id for match in here) == sorted(
        match.match_id for match in PATTERNS.match(ps.events(rows))
    )
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))
    assert ps.events(frame, **BOUND).data is frame


def test_explain_has_the_bound(streams: Streams) -> None:
    stream = streams.stream(SCHEMA, *TIMELY, delay=None)
    bounded = " ".join(PATTERNS.explain(ps.events(stream, **BOUND)).split())
    assert (
        "max_ahead rows with a time more than 1 hour after their arrival are rejected and counted as "
        "ahead; they do not advance the watermark" in bounded
    )
    assert "emits matches finalized by the watermark (10 seconds behind the newest event), one batch later" in bounded
    plain = " ".join(PATTERNS.explain(ps.events(stream, lateness="10 seconds")).split())
    assert "max_ahead unbounded: a row with any time advances the watermark" in plain


def test_frames_of_a_model_take_the_bound(streams: Streams) -> None:
    schema = pa.schema({"ts": MOMENT, "site": pa.string(), "load": pa.float64()})
    stream = streams.stream(
        schema,
        [{"ts": at(0), "site": "north", "load": 0.9}, {"ts": POISON, "site": "north", "load": 0.1}],
        [{"ts": at(1), "site": "north", "load": 0.9}, {"ts": at(2), "site": "north", "load": 0.1}],
        [{"ts": at(4), "site": "north", "load": 0.1}],
        [{"ts": at(FAR), "site": "end", "load": 0.0}],
        delay=None,
    )
    each = [{"change": "create", "element": "h1", "kind": "Host"}]
    declared = ps.graph.frames(
        stream,
        test_models.SITE,
        each=each,
        columns={"load": ("h1", "load")},
        key="site",
        **BOUND,
        options=ps.StreamOptions(shards=2),
    )
    heated = ps.patterns(test_models.SITE)["heated"]
    run = streams.run(heated.match(declared))
    assert [one["host"] for one in run.rows] == ["h1"]
    assert (run.counters["ahead"], run.counters["late"]) == (1, 0)
