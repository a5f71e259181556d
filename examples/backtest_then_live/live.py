"""The live source and the sinks of the job: topics of Kafka, or folders of files."""

from __future__ import annotations

import json
import os
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from generate import SCHEMA, Event

PARTITIONS = 2
READ_TIMEOUT_S = 60.0
MatchKey = tuple[str, str, str]
"""Pattern, version of the pattern, and match_id."""


def _to_json(event: Event) -> bytes:
    return json.dumps({**event, "ts": event["ts"].isoformat().replace("+00:00", "Z")}).encode()


class LiveSource(Protocol):
    """Where events arrive while the job runs, and the sinks that this place has besides Parquet."""

    def source(self) -> dict[str, Any]:
        """The source of the job file."""

    def sinks(self) -> list[dict[str, Any]]:
        """Further sinks of the job file."""

    def send(self, events: Iterable[Event]) -> None:
        """Send events; returns when all have arrived."""

    def found(self) -> Counter[MatchKey] | None:
        """Matches in the further sink; None without one."""


class KafkaSource:
    """A topic of events, and a topic of matches."""

    def __init__(self, servers: str) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        self._servers, run = servers, uuid.uuid4().hex[:8]
        self._events, self._matches = f"bank-events-{run}", f"bank-matches-{run}"
        admin = AdminClient({"bootstrap.servers": servers})
        topics = [NewTopic(name, PARTITIONS, 1) for name in (self._events, self._matches)]
        for created in admin.create_topics(topics).values():
            created.result(READ_TIMEOUT_S)
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 0})

    def source(self) -> dict[str, Any]:
        return {"kafka": {"servers": self._servers, "topic": self._events, "start": "earliest", "schema": SCHEMA}}

    def sinks(self) -> list[dict[str, Any]]:
        return [{"kafka": {"servers": self._servers, "topic": self._matches}}]

    def send(self, events: Iterable[Event]) -> None:
        for event in events:
            self._producer.produce(self._events, _to_json(event), event["user"])
        if self._producer.flush(READ_TIMEOUT_S) != 0:
            raise TimeoutError("The broker did not accept all events.")

    def found(self) -> Counter[MatchKey]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self._servers, "group.id": self._matches, "enable.auto.commit": False}
        )
        try:
            places = [TopicPartition(self._matches, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
            left = sum(consumer.get_watermark_offsets(place, timeout=READ_TIMEOUT_S)[1] for place in places)
            consumer.assign(places)
            found: Counter[MatchKey] = Counter()
            while left:
                messages = consumer.consume(min(left, 10_000), READ_TIMEOUT_S)
                if not messages:
                    raise TimeoutError(f"{left} matches did not arrive from the topic.")
                for message in messages:
                    row, key = json.loads(message.value() or b"{}"), message.key() or b""
                    found[row["pattern"], row["version"], key.decode()] += 1
                left -= len(messages)
            return found
        finally:
            consumer.close()


class FileSource:
    """A folder that receives files of JSON lines; Parquet is the only sink."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        folder.mkdir()

    def source(self) -> dict[str, Any]:
        return {"files": {"path": str(self._folder), "format": "json", "schema": SCHEMA}}

    def sinks(self) -> list[dict[str, Any]]:
        return []

    def send(self, events: Iterable[Event]) -> None:
        lines = [_to_json(event) for event in events]
        if not lines:
            return
        self._count += 1
        there = self._folder / f"{self._count:06}.json"
        staged = there.with_name(f".{there.name}")  # Spark skips names that begin with a dot
        staged.write_bytes(b"\n".join(lines))
        os.replace(staged, there)

    def found(self) -> None:
        return None


def parquet_matches(folder: Path, pattern: str = "**/*.parquet") -> Counter[MatchKey]:
    """Matches in a Parquet sink or in the result of a replay."""
    found: Counter[MatchKey] = Counter()
    for path in sorted(folder.glob(pattern)):
        table: pa.Table = pq.ParquetFile(path).read(["pattern", "version", "match_id"])
        found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return found
