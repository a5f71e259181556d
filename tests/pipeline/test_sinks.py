"""Sinks with real servers: contents after a batch, a retried batch, a partly written batch and batches out of order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer
from pyspark.sql import SparkSession

import perseid as ps
import perseid.sinks.postgres_tables as tables
from bench.servers.broker import Broker
from bench.servers.postgres import Postgres as Server
from perseid.errors import SettingsError
from perseid.sinks.contract import Sink
from perseid.sinks.delta import Delta
from perseid.sinks.failures import SinkError
from perseid.sinks.kafka import Kafka
from perseid.sinks.postgres import Postgres
from perseid.sinks.staging import INSTEAD
from tests.sinks.match_changes import ADVERSARIAL_TEXTS, Change, batch, broken, match_changes, matches
from tests.sinks.test_kinds import GUIDE

pytestmark = pytest.mark.servers

CHANGES: list[list[Change]] = [
    [("a", "+", 2, "first"), ("b", "+", 2, "stays")],
    [("a", "-", 3, "first"), ("a", "+", 4, "second"), ("c", "+", 2, "goes")],
    [("c", "-", 3, "goes"), ("a", "-", 5, "second"), ("a", "+", 6, "third")],
]
"""Life cycle of three matches over three batches."""
STANDS = {"a": "third", "b": "stays"}


@pytest.fixture
def database(postgres: Server) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.url, autocommit=True) as made:
        yield made
        made.execute("drop schema public cascade")
        made.execute("create schema public")


def prepared(sink: Sink, spark: SparkSession, job: str = "job-1") -> Any:
    sink.prepare(spark, matches(spark).schema, job)
    return sink


def rows_of(database: psycopg.Connection[Any], statement: str) -> list[Any]:
    return database.execute(statement).fetchall()  # type: ignore[arg-type,unused-ignore]


def test_postgres_holds_each_match_once(
    spark: SparkSession, postgres: Server, database: psycopg.Connection[Any]
) -> None:
    sink = prepared(Postgres(url=postgres.url, table='Odd "table"'), spark)
    sink.write(batch(matches(spark, "a", "b").repartition(3)))
    sink.write(batch(matches(spark), 1))
    sink.write(batch(matches(spark, "c").selectExpr("*", "7 as more"), 2))
    ids = 'select match_id, data->>$$more$$ from "Odd ""table""" order by 1'
    assert rows_of(database, ids) == [("a", None), ("b", None), ("c", "7")]
    (written,) = rows_of(database, 'select max(written) from "Odd ""table"""')
    sink.write(batch(matches(spark, "a", "b", "later"), 0, attempt="b"))
    prepared(sink, spark).write(batch(matches(spark, "c"), 2, attempt="b"))
    assert rows_of(database, 'select count(*), max(written) from "Odd ""table"""') == [(3, *written)], "the ledger knew"
    assert rows_of(database, 'select batch, rows from "Odd ""table""_ledger" order by 1') == [(0, 2), (1, 0), (2, 1)]
    sink.write(batch(matches(spark, "a", "d"), 0, job="job-2"))
    assert [name for name, _ in rows_of(database, ids)] == ["a", "b", "c", "d"], "a match has its id in every job"
    assert rows_of(database, 'select count(*) from "Odd ""table""_staging"') == [(0,)]


def test_postgres_rewrites_a_batch_number_with_other_offsets(
    spark: SparkSession, postgres: Server, database: psycopg.Connection[Any]
) -> None:
    sink = prepared(Postgres(url=postgres.url, table="t"), spark)
    sink.write(replace(batch(matches(spark, "a", "b"), 0), digest="first"))
    sink.write(replace(batch(match_changes(spark, ("x", "+", 2, "a change")), 1), digest="second"))
    sink.write(replace(batch(matches(spark, "skipped"), 0, attempt="b"), digest="first"))
    ids = "select match_id, batch from t order by 1"
    assert rows_of(database, ids) == [("a", 0), ("b", 0), ("x", 1)], "the same offsets are a retry"
    sink.write(replace(batch(matches(spark, "b", "c"), 0, attempt="c"), digest="other"))
    assert rows_of(database, ids) == [("a", 0), ("b", 0), ("c", 0)], "revisions of later batches are numbered anew"
    assert rows_of(database, "select batch, digest from t_ledger") == [(0, "other")]


def test_postgres_stores_values_of_every_kind(
    spark: SparkSession, postgres: Server, database: psycopg.Connection[Any]
) -> None:
    database.execute("create schema ops")
    sink = prepared(Postgres(url=postgres.url, table="ops.alarms"), spark)
    sink.write(batch(match_changes(spark, *((f"{n}\0", "+", 0, text) for n, text in enumerate(ADVERSARIAL_TEXTS)))))
    found = rows_of(database, "select data->>'note' from ops.alarms order by match_id")
    assert [note for (note,) in found] == [text.replace("\0", INSTEAD) for text in ADVERSARIAL_TEXTS]
    one = (
        'select match_id, revision, op, pattern, kind, version, extract(epoch from start)::text, "end" - start, '
        "(data->>'amount')::numeric::text, data->'odd', data->'evidence'->0->'at', data->'counts', data->>'bytes', data ? 'op' "
        "from ops.alarms order by match_id limit 1"
    )
    ((*first, took, amount, odd, at, counts, raw, twice),) = rows_of(database, one)
    assert first == [f"0{INSTEAD}", 0, "+", "late", "match", "v1", "1772355600.000001"]
    assert took.total_seconds() == pytest.approx(299.999999, abs=1e-7)
    assert (amount, odd, at, counts, raw, twice) == (
        "12345678901234567890.12", "NaN", "2026-03-01T09:00:00.000000Z", {"k": 1}, "AP8=", False,
    )  # fmt: skip
    sink.write(batch(spark.sql("select 'p' pattern, 1 step, 0.5D probability, 'not a time' start"), 1))
    ((name, data),) = rows_of(database, "select match_id, data from ops.alarms where pattern = 'p'")
    assert (len(name), data) == (64, {"step": 1, "probability": 0.5, "start": "not a time"})
    database.execute("drop schema ops cascade")


def test_postgres_writes_a_batch_atomically(
    spark: SparkSession, postgres: Server, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = prepared(Postgres(url=postgres.url, table="t"), spark)
    good = matches(spark, "a", "b")
    with pytest.raises(SinkError, match=r"127.0.0.1:\d+/postgres t: Batch 0 was not written: .*the power went out"):
        sink.write(batch(good.union(broken(matches(spark, "c")))))
    with monkeypatch.context() as patched:  # merged, not yet committed
        patched.setattr(tables, "RETAINED_BATCHES", None)
        with pytest.raises(SinkError, match="unsupported operand"):
            sink.write(batch(good, attempt="b"))
    with pytest.raises(SinkError, match=r"(?i)index row|exceeds"):  # random text of a megabyte, too long for an index
        sink.write(batch(good.selectExpr("* except (match_id)", "repeat(uuid(), 30000) as match_id"), attempt="c"))
    with monkeypatch.context() as patched:  # a crash of the server truncates unlogged tables
        real = tables.SinkTables.merge

        def emptied(self: tables.SinkTables, *args: Any) -> None:
            database.execute("truncate t_staging")
            real(self, *args)

        patched.setattr(tables.SinkTables, "merge", emptied)
        with pytest.raises(SinkError, match="the staging table no longer has all copied rows"):
            sink.write(batch(good, attempt="d"))
    assert rows_of(database, "select (select count(*) from t), (select count(*) from t_ledger)") == [(0, 0)]
    database.execute(
        "insert into t_staging select 'job-1', 0, 'dead', 'x', now(), 'dead', 0, '+', 'p', 'match', 'v', null, null, '{}'"
    )
    sink.write(batch(good, attempt="e"))
    assert rows_of(database, "select match_id from t order by 1") == [("a",), ("b",)]
    assert rows_of(database, "select count(*) from t_staging") == [(0,)]


def test_postgres_has_the_current_matches_for_any_order_of_changes(
    spark: SparkSession, postgres: Server, database: psycopg.Connection[Any]
) -> None:
    (standing,) = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    sink = prepared(Postgres(url=postgres.url, table="alarms"), spark)
    # As different jobs: then each batch is merged, and the batch log skips none.
    for number, job in ((2, "x"), (0, "x"), (1, "y"), (0, "z"), (2, "z")):
        sink.write(batch(match_changes(spark, *CHANGES[number]), number, job=job))
    sink.write(batch(match_changes(spark, *CHANGES[2]), 2, "again", job="x"))
    database.execute(standing)
    found = rows_of(database, "select match_id, data->>'note' from alarms_current")
    assert dict(found) == STANDS
    assert len(found) == 2
    assert rows_of(database, "select count(*) from alarms") == [(8,)], "every change is kept, once"


def test_postgres_errors_are_explained_without_secrets(
    spark: SparkSession, postgres: Server, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = matches(spark).schema
    database.execute("create table taken (match_id text)")
    with pytest.raises(SinkError, match="cannot write to the existing table") as caught:
        Postgres(url=postgres.url, table="taken").prepare(spark, schema, "j")
    assert caught.value.hint
    monkeypatch.setenv("PG", "pa55-w0rd")
    words = {"host": "127.0.0.1", "port": postgres.port, "user": "pa55-w0rd", "database": "postgres", "table": "t"}
    stranger = Postgres.model_validate({**words, "password": {"env": "PG"}})
    with pytest.raises(SinkError, match=r'cannot be used: .*role "\*\*\*" does not exist') as caught:
        stranger.prepare(spark, schema, "j")
    assert "pa55" not in str(caught.value)
    known = Postgres.model_validate({**words, "user": "postgres", "password": {"env": "PG"}})
    prepared(known, spark).write(batch(matches(spark, "a")))
    assert "pa55" not in repr(known)
    database.execute("drop table t_staging")
    with pytest.raises(SinkError, match=r"Batch 1 was not written: .*t_staging") as caught:
        known.write(batch(matches(spark, "a"), 1))
    assert "pa55" not in str(caught.value)


def test_delta_holds_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    sink = prepared(Delta(path=str(tmp_path / "t")), spark)
    sink.write(batch(match_changes(spark, *((str(n), "+", 0, text) for n, text in enumerate(ADVERSARIAL_TEXTS)))))
    with pytest.raises(SinkError, match=r"delta .*: Batch 1 was not written: .*the power went out"):
        sink.write(batch(matches(spark, "c").union(broken(matches(spark, "d"))), 1))
    sink.write(batch(matches(spark, "c", "d").selectExpr("*", "7 as more"), 1, attempt="b"))
    prepared(sink, spark).write(batch(matches(spark, "c", "d"), 1, attempt="c"))
    sink.write(batch(matches(spark, "c"), 0, job="job-2"))
    rows = spark.read.format("delta").load(sink.path).orderBy("match_id", "more").collect()
    assert [row.note for row in rows[:-3]] == ADVERSARIAL_TEXTS
    assert [(row.match_id, row.more) for row in rows[-3:]] == [("c", None), ("c", 7), ("d", 7)]
    assert rows[0].evidence[0].took == "INTERVAL '90' SECOND"


def test_delta_holds_changes_or_current_matches(spark: SparkSession, tmp_path: Path) -> None:
    told = prepared(Delta(path=str(tmp_path / "told")), spark)
    stands = prepared(Delta(table="sinks_standing", changes="fold"), spark)
    for number, attempt in ((0, "a"), (1, "a"), (1, "b"), (2, "a")):
        rows = match_changes(spark, *CHANGES[number])
        rows = rows.selectExpr("*", "7 as more") if number == 2 else rows
        for sink in (told, stands):
            sink.write(batch(rows, number, attempt))
    assert {row.match_id: (row.note, row.more) for row in spark.table("sinks_standing").collect()} == {
        "a": ("third", 7),
        "b": ("stays", None),
    }
    changelog = spark.read.format("delta").load(told.path)
    assert changelog.count() == 8
    assert {row.match_id: row.note for row in ps.disorder.current_matches(changelog).collect()} == STANDS
    spark.sql("drop table sinks_standing")
    with pytest.raises(SettingsError, match="column 'pattern' not found"):
        stands.prepare(spark, spark.range(1).schema, "j")


def test_kafka_has_every_match_at_least_once(
    spark: SparkSession, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARK", "pa55-w0rd")
    words = {"servers": broker.servers, "topic": "sent", "options": {"kafka.client.id": {"env": "MARK"}}}
    sink = prepared(Kafka.model_validate(words), spark)
    sink.write(batch(match_changes(spark, *((str(n), "+", n, text) for n, text in enumerate(ADVERSARIAL_TEXTS)))))
    assert "pa55" not in repr(sink)
    with pytest.raises(SinkError, match=r"Batch 1 was not written: .*the power went out"):
        sink.write(batch(matches(spark, "a").union(broken(matches(spark, "b"))).selectExpr("*", "7 as more"), 1))
    for attempt in "bc":
        sink.write(batch(matches(spark, "a", "b").selectExpr("*", "7 as more"), 1, attempt))
    sink.write(batch(matches(spark), 2))
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "sinks", "auto.offset.reset": "earliest"})
    consumer.subscribe(["sent"])
    got: list[Any] = []
    for _ in range(60):
        got += [message for message in consumer.consume(100, 0.5) if message.error() is None]
        if len(got) >= len(ADVERSARIAL_TEXTS) + 4:
            break
    consumer.close()
    seen: dict[tuple[str, int], dict[str, Any]] = {}
    for message in got:  # as in the guide
        headers = {name: value.decode() for name, value in message.headers()}
        seen.setdefault((message.key().decode(), int(headers["revision"])), json.loads(message.value()))
        assert (headers["pattern"], headers["op"], headers["version"]) == ("late", "+", "v1")
    assert [seen[str(n), n]["note"] for n in range(len(ADVERSARIAL_TEXTS))] == ADVERSARIAL_TEXTS
    assert sorted(key for key, _ in seen) == [*map(str, range(len(ADVERSARIAL_TEXTS))), "a", "b"]
    assert seen["a", 0]["more"] == 7
    refused = Kafka.model_validate({**words, "options": {"kafka.acks": {"env": "MARK"}}})
    with pytest.raises(SinkError, match=r"Batch 3 was not written: .*acks") as caught:
        refused.write(batch(matches(spark, "a"), 3))
    assert "pa55" not in str(caught.value)
