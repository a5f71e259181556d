"""Producers and consumers of topics: a dataset at once, or events at a constant rate, each with its send time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.servers.broker import Broker

PARTITIONS = 4
TICK = 0.005
"""Seconds between two groups of events that are sent at a constant rate."""


def make_topic(broker: Broker, name: str, partitions: int = PARTITIONS) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.servers})
    for done in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        done.result(20)
    return name


def fill(broker: Broker, topic: str, parquet: Path, closing: dict[str, Any]) -> None:
    """Send a dataset as JSON, in its order, then a record to each partition that closes all windows."""
    import pyarrow.parquet as pq

    producer = _producer(broker, **{"linger.ms": 20})
    for batch in pq.ParquetFile(parquet).iter_batches(65_536):
        for row in batch.to_pylist():
            row["ts"] = row["ts"].isoformat()
            producer.produce(topic, json.dumps(row), str(row["key"]))
        producer.flush(60)
    for partition in range(PARTITIONS):
        producer.produce(topic, json.dumps(closing), partition=partition)
    producer.flush(20)


def count_messages(broker: Broker, topic: str) -> int:
    """Number of messages in a topic."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "count", "log_level": 0})
    try:
        known = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        ends = (consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20) for p in known)
        return sum(high - low for low, high in ends)
    finally:
        consumer.close()


def _producer(broker: Broker, **more: Any) -> Any:
    from confluent_kafka import Producer

    quiet = {"bootstrap.servers": broker.servers, "log_level": 0}
    return Producer(quiet | {"linger.ms": 1, "queue.buffering.max.messages": 500_000} | more)


class RateProducer:
    """Sends events, each with a key and a type, at a constant rate until it is stopped."""

    def __init__(self, broker: Broker, topic: str, rate: int, events: Iterator[tuple[int, str]]) -> None:
        self.sent = 0
        self._topic, self._rate, self._events = topic, rate, events
        self._producer = _producer(broker)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        begun = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - begun) * self._rate)
            while self.sent < due:
                self._send(*next(self._events))
            self._producer.poll(0)
            time.sleep(TICK)

    def _send(self, key: int, kind: str) -> None:
        now = time.time_ns() // 1000
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1_000_000))
        event = f'{{"ts":"{moment}.{now % 1_000_000:06}Z","key":{key},"type":"{kind}","sent":{now}}}'
        self._producer.produce(self._topic, event, str(key))
        self.sent += 1

    def __enter__(self) -> RateProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._producer.flush(20)


class OutputConsumer:
    """Receives the outputs of a topic: their arrival times, and their latencies since the event was sent."""

    def __init__(self, broker: Broker, topic: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self.latencies: list[tuple[float, float]] = []
        """Arrival time and latency, in seconds."""
        self._stop = threading.Event()
        self._consumer = Consumer(
            {"bootstrap.servers": broker.servers, "group.id": topic, "log_level": 0, "fetch.wait.max.ms": 10}
        )
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(500, 0.02):
                if message.error() is None:
                    now = time.time()
                    self.latencies.append((now, now - json.loads(message.value())["sent"] / 1e6))

    def __enter__(self) -> OutputConsumer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._consumer.close()
