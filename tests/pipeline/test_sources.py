"""Sources with a real broker and real tables: every record is good, late or malformed, and none stops a batch."""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import perseid as ps
from bench.servers.broker import Broker
from perseid.errors import SettingsError
from perseid.sources import records
from perseid.sources.contract import ARRIVED, PAYLOAD, POSITION, WRONG
from perseid.sources.files import FileSource
from perseid.sources.kafka import KafkaSource

pytestmark = pytest.mark.servers

START = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
SCHEMA = "n BIGINT, ts TIMESTAMP, kind STRING, user STRING, amount DOUBLE, tags ARRAY<STRING>, at STRUCT<x: INT>"
PATTERN = "pattern pair match A a -> B b partition by user within 1 minute"
AVRO = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "more", "type": {"type": "array", "items": "double"}},
    ],
}


def produce(broker: Broker, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
    producer = Producer({"bootstrap.servers": broker.servers, "queue.buffering.max.messages": 1_000_000})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def event(n: int, second: int, **more: Any) -> dict[str, Any]:
    moment = START + dt.timedelta(seconds=second)
    return {"n": n, "ts": moment.isoformat(), "kind": "AB"[n % 2], "user": f"u{n % 7}", "amount": n / 2, **more}


def adversarial_record(dice: random.Random, n: int, second: int) -> bytes | None:
    """Return a malformed record, or one that only resembles a malformed record."""
    good = event(n, second, tags=["a"], at={"x": n})
    body = json.dumps(good).encode()
    wrong = {"n": "x", "ts": "soon", "amount": [], "tags": 5, "at": {"x": "y"}}
    name = dice.choice(list(wrong))
    huge = dice.choice([b"9" * 40, b"9" * 3000, b"-1e9999", b"1" + b"0" * 18, b"1e-400"])
    deep = dice.choice([50, 900, 1100, 20_000])
    at = dice.randrange(len(body))
    return dice.choice(
        [
            body[:at],
            body[:at] + bytes([dice.randrange(128, 256)]) + body[at:],
            body[:at] + bytes(dice.randrange(256) for _ in range(3)) + body[at + 3 :],
            dice.randbytes(dice.randrange(1, 200)),
            json.dumps(good | {name: wrong[name]}).encode(),
            json.dumps(good | {name: None}).encode(),
            body.replace(b'"amount": ', b'"amount": ' + huge + b', "was": '),
            body.replace(b'"n": ', b'"n": ' + huge + b', "was": '),
            body.replace(b'"ts": ', b'"ts": ' + huge + b', "was": '),
            body[:-1] + b', "more": ' + b"[" * deep + b"]" * deep + b"}",
            body[:-1] + b', "tags": ' + b'{"a":' * deep + b"1" + b"}" * deep + b"}",
            body[:-1] + b', "n": 5, "n": "six"}',
            body[:-1] + b', "kind": "A", "kind": "B"}',
            body + body,
            b"[" + body + b"]",
            b"",
            b" \t\r\n",
            None,
            b"null",
            "\ufeff".encode() + body,
            body.decode().encode("utf-16"),
            b"\x00" * dice.randrange(1, 50),
            b"x" * (70_000 if n % 20 == 0 else 70),
        ]
    )


def test_ten_thousand_adversarial_records_are_accepted_late_or_bad(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    dice = random.Random(11)
    produced: list[bytes | None] = []
    for n in range(10_000):
        late = n % 50 == 49
        second = n // 10 - (500 if late else 0)
        produced.append(
            adversarial_record(dice, n, second) if dice.random() < 0.6 else json.dumps(event(n, second)).encode()
        )
    half = len(produced) // 2
    source = KafkaSource(servers=broker.servers, topic="hostile", schema=SCHEMA, required=["kind"])
    told: list[Any] = []
    counted = {"events": 0, "late": 0, "bad": 0}
    before: set[str] = set()  # offsets of the first half; arrival times in milliseconds cannot separate the halves
    for part in (produced[:half], produced[half:]):
        if told:
            before = {row[POSITION] for row in source.open(spark, streaming=False).select(POSITION).collect()}
        produce(broker, "hostile", ((None, value) for value in part))
        seen = ps.progress(stream(spark, source, tmp_path / "checkpoint", told))
        counted = {name: count + getattr(seen, name) for name, count in counted.items()}
    good = source.open(spark, streaming=False).where(f"{WRONG} is null").select("ts", POSITION).collect()
    timed = [(row["ts"].astimezone(dt.UTC), row[POSITION]) for row in good if row["ts"]]
    watermark = max(time for time, place in timed if place in before) - dt.timedelta(seconds=30)
    bad = [row for row in told if row["kind"] == "bad"]
    late_rows = [row for row in told if row["kind"] == "late"]
    assert counted["events"] + counted["late"] + counted["bad"] == len(produced)
    assert (counted["late"], counted["bad"]) == (len(late_rows), len(bad))
    assert counted["events"] > 4000
    expected = {place for time, place in timed if place not in before and time <= watermark}
    assert {json.loads(row["row"])[POSITION] for row in late_rows} == expected
    assert expected
    assert len(bad) > 2000
    places = [json.loads(row["row"])[POSITION] for row in told if row["kind"] in ("bad", "late")]
    assert len(set(places)) == len(places)
    assert all(place.startswith("hostile/") for place in places)
    assert all(list(json.loads(row["row"])) == [POSITION] for row in late_rows)
    malformed = 0
    for row in bad:
        held = json.loads(row["row"])
        assert row["reason"]
        assert ARRIVED in held
        if WRONG in held:  # the others can be parsed, but have no time
            malformed += 1
            assert held[WRONG] == row["reason"]
            assert PAYLOAD in held or row["reason"] == records.NO_PAYLOAD
            assert set(held) <= {WRONG, PAYLOAD, POSITION, ARRIVED}
        else:
            assert held["kind"] in ("A", "B")
    assert len(good) + malformed == len(produced)
    assert malformed < len(bad)


def stream(spark: SparkSession, source: KafkaSource, checkpoint: Path, told: list[Any]) -> Any:
    """Run a stream over the available records; return its matches and rejected rows."""
    frame = source.open(spark, streaming=True)
    declared = ps.events(
        frame.withWatermark("ts", "30 seconds"),
        time="ts",
        type="kind",
        id=(POSITION,),
        options=ps.StreamOptions(shards=4),
    )
    matches = ps.pattern(PATTERN).match(replace(declared, wrong=WRONG, position=POSITION), rejected="bad")
    writer = matches.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.foreachBatch(lambda batch, _: told.extend(batch.collect())).start()
    query.awaitTermination()
    return query


def test_topic_has_the_same_matches_in_batch_and_as_stream(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    def value(n: int) -> bytes:
        return b"no JSON" if n % 10 == 9 else json.dumps(event(n, n // 4)).encode()

    last = json.dumps(event(1, 10_000)).encode()
    produce(broker, "same", [(None, value(n)) for n in range(400)])
    source = KafkaSource(servers=broker.servers, topic="same", schema=SCHEMA, max_per_batch=10_000)
    told: list[Any] = []
    stream(spark, source, tmp_path / "checkpoint", told)
    produce(broker, "same", [(None, last)])
    stream(spark, source, tmp_path / "checkpoint", told)
    frame = source.open(spark, streaming=False)
    declared = ps.events(frame, time="ts", type="kind", id=(POSITION,))
    at_once = ps.pattern(PATTERN).match(declared).collect()
    assert len(at_once) > 100
    assert sorted(row["match_id"] for row in told if row["kind"] == "match") == sorted(
        row["match_id"] for row in at_once
    )
    assert sum(row["kind"] == "bad" for row in told) == 40


def test_kafka_metadata_columns(spark: SparkSession, broker: Broker) -> None:
    produce(broker, "kept-columns", [(b"k", b"<a/>"), (b"\xff", b"<b/>"), (None, None), (None, b"\xff")])
    keep = {
        name: f"its_{name}" for name in ("key", "key_bytes", "topic", "partition", "offset", "timestamp", "headers")
    }
    source = KafkaSource(servers=broker.servers, topic={"pattern": "kept-col.*"}, format="text", keep=keep)
    rows = {
        row[PAYLOAD]: row for row in source.open(spark, streaming=False).collect() if row[WRONG] != records.NO_PAYLOAD
    }
    good = rows[None]
    assert (good["value"], good["its_key"], good["its_key_bytes"]) == ("<a/>", "k", b"k")
    assert good[POSITION] == f"kept-columns/{good['its_partition']}/{good['its_offset']}"
    assert good["its_timestamp"] == good[ARRIVED]
    assert rows["<b/>"][WRONG] == "The key is not UTF-8 text."
    assert rows["<b/>"]["its_topic"] is None
    assert rows["base64:/w=="][WRONG] == records.NO_TEXT


def test_avro_is_read_or_malformed(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    good = bytes([0, 0, 0, 0, 7]) + b"\x06" + b"\x02\x04ab" + b"\x02" + struct.pack("<d", 2.5) + b"\x00"
    dice = random.Random(3)
    payloads = [good, b"", None, good[:4], good[:9], good[:5] + b"\x06\x02\xfe\xff\xff\xff\x0f"]
    payloads += [dice.randbytes(dice.randrange(1, 60)) for _ in range(500)]
    produce(broker, "avro", [(None, payload) for payload in payloads])
    file = tmp_path / "reading.avsc"
    file.write_text(json.dumps(AVRO))
    source = KafkaSource(servers=broker.servers, topic="avro", format="avro", schema={"file": file}, skip=5)
    rows = source.open(spark, streaming=False).collect()
    assert len(rows) == len(payloads)
    read = [row for row in rows if row[WRONG] is None]
    assert any((row["n"], row["name"], row["more"]) == (3, "ab", [2.5]) for row in read)
    assert len(read) < 50  # random bytes without a schema id occasionally decode as a valid record
    reasons = {row[WRONG] for row in rows}
    assert reasons == {None, records.NO_PAYLOAD, records.EMPTY, records.NO_AVRO}
    no_schema = KafkaSource(servers=broker.servers, topic="avro", format="avro", schema="no schema")
    with pytest.raises(SettingsError, match="Spark cannot read Avro with this schema"):
        no_schema.open(spark, streaming=False)


def test_delta_table_is_a_source(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    spark.createDataFrame([(1, "a"), (None, "b")], "n INT, name STRING").write.format("delta").save(path)
    source = FileSource(path=path, format="delta", required=["n"])
    told: list[Any] = []
    writer = source.open(spark, streaming=True).writeStream.option("checkpointLocation", str(tmp_path / "c"))
    query = writer.foreachBatch(lambda batch, _: told.extend(batch.collect())).trigger(availableNow=True).start()
    query.awaitTermination()
    assert {(row["n"], row[WRONG]) for row in told} == {(1, None), (None, "Required column n has no value.")}
    assert sorted(map(repr, told)) == sorted(map(repr, source.open(spark, streaming=False).collect()))
    assert {row[POSITION] for row in told} == {path}
