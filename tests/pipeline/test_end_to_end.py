"""End to end: events from a broker, `perseid run`, four sinks; each has exactly the matches of a local batch."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.crash.job_process import JobProcess
from bench.crash.sink_readers import parquet_rows, read_all_sinks
from bench.crash.workload import BASE, MALFORMED, PARTITIONS, Feed, JobSetup, closing, expected_matches, payload
from bench.servers.broker import Broker
from bench.servers.jars import SETTINGS
from bench.servers.postgres import Postgres

pytestmark = [pytest.mark.servers, pytest.mark.timeout(3600)]

EVENTS = int(os.environ.get("PERSEID_E2E_EVENTS", "50000"))
BATCHES = 4
EVERY_BAD, EVERY_LATE = 500, 2000
LONG_AGO = BASE.replace(year=2020).isoformat()
TOPICS = ("events", "answers")


@pytest.fixture
def setup(broker: Broker, postgres: Postgres, jars: list[Path], tmp_path: Path) -> Iterator[JobSetup]:
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in TOPICS]).values():
        made.result(20)
    yield JobSetup(tmp_path / "job", broker.servers, postgres.url, jars, SETTINGS)
    for gone in admin.delete_topics(list(TOPICS)).values():
        gone.result(20)
    with psycopg.connect(postgres.url) as database:
        database.execute("drop schema public cascade")
        database.execute("create schema public")


class ProducedRecords:
    """Produced records: valid events, and the positions of the others."""

    def __init__(self, servers: str) -> None:
        self.good: list[dict[str, Any]] = []
        self.bad: set[str] = set()
        self.late: set[str] = set()
        self.whole = 0
        settings = {"enable.idempotence": True, "log_level": 0, "queue.buffering.max.messages": 2_000_000}
        self._producer = Producer({"bootstrap.servers": servers, **settings})

    def send(self, body: bytes, partition: int, kind: set[str] | None = None) -> None:
        def delivered(error: Any, message: Any) -> None:
            assert error is None
            if kind is not None:
                kind.add(f"{message.topic()}/{message.partition()}/{message.offset()}")

        self._producer.produce("events", body, partition=partition, on_delivery=delivered)
        self.whole += 1

    def everything(self, count: int) -> None:
        feed = Feed(7)
        for n in range(count):
            event = feed.event(n)
            self.good.append(event)
            self.send(payload(event), n % PARTITIONS)
            if n % EVERY_BAD == 3:
                self.send(MALFORMED[n // EVERY_BAD % len(MALFORMED)], (n + 1) % PARTITIONS, self.bad)
            # After the first batch, so that a watermark exists.
            if n % EVERY_LATE == 4 and n > count * 2 // BATCHES:
                self.send(
                    payload(feed.event(n) | {"n": -2 - n, "ts": LONG_AGO, "type": "Order"}), n % PARTITIONS, self.late
                )
            if n % 10_000 == 0:
                self._producer.poll(0)
        end = closing(count)
        self.good.append(end)
        self.send(payload(end), 0)
        assert self._producer.flush(60) == 0


def positions(letters: list[dict[str, Any]], kind: str) -> list[str]:
    return sorted(json.loads(one["row"])["_perseid_position"] for one in letters if one["kind"] == kind)


def test_four_sinks_have_the_matches_of_a_batch(setup: JobSetup, tmp_path: Path) -> None:
    sent = ProducedRecords(setup.servers)
    sent.everything(EVENTS)
    setup.write(source={"max_per_batch": sent.whole // BATCHES + 1})
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "count").touch()
    begin = time.perf_counter()
    with JobProcess(setup.file, tmp_path / "log", hooks, ["--once"]) as job:
        status = job.process.wait(3000)
    seconds = time.perf_counter() - begin
    assert status == 0, (tmp_path / "log").read_text()[-3000:]

    expected = expected_matches(sent.good)
    assert {pattern for pattern, _ in expected} == {"unpaid", "spree", "moved"}
    for name, found in read_all_sinks(setup.folder, setup.postgres, setup.servers).items():
        once = set(found) if name == "kafka" else found  # Kafka is at-least-once: consumers deduplicate by key
        assert Counter(once) == Counter(expected), name

    letters = parquet_rows(setup.folder / "out" / "dead")
    assert positions(letters, "bad") == sorted(sent.bad)
    assert positions(letters, "late") == sorted(sent.late)
    assert len(letters) == len(sent.bad) + len(sent.late)
    assert min(len(sent.bad), len(sent.late)) > 5

    # One search for four sinks: each shard ran once per batch, by its own count of calls.
    lines = [json.loads(line) for line in (setup.folder / "log.jsonl").read_text().splitlines()]
    calls = Counter((hooks / "calls").read_text().splitlines())
    batches = {int(call.split()[0]) for call in calls}
    assert set(calls.values()) == {1}
    assert {call.split()[1] for call in calls if call.startswith("0 ")} == {call.split()[1] for call in calls}
    assert len(calls) >= 4 * BATCHES, "four shards in every batch that had rows"
    assert batches <= {line["batch"] for line in lines}
    assert sum(sum(line["matches_by_pattern"].values()) for line in lines) == len(expected)
    rate = sent.whole / seconds
    print(f"\n{sent.whole:,} records, {len(expected):,} matches, 4 sinks: {seconds:.1f} s, {rate:,.0f} records/s")
