"""A producer that sends events during fault injection and records them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.crash.workload import MALFORMED, PARTITIONS, Feed, closing, payload, poisoned

EVERY_BAD = 50
PIECE = 0.1
"""Seconds between two groups of events."""


class EventProducer:
    """Sends events at a constant rate from its own thread until it is closed."""

    def __init__(self, servers: str, seed: int, pace: int) -> None:
        from confluent_kafka import Producer

        self.events: list[dict[str, Any]] = []
        self.bad = 0
        self._feed, self._pace = Feed(seed), pace
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        self._end, self._free = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> EventProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(PIECE):
            with self._free:
                for _ in range(max(1, int(self._pace * PIECE))):
                    self._send()
                self._producer.poll(0)

    def _send(self) -> None:
        n = len(self.events)
        event = self._feed.event(n)
        self.events.append(event)
        self._producer.produce("events", payload(event), partition=n % PARTITIONS)
        if n % EVERY_BAD == 0:
            self._producer.produce("events", MALFORMED[self.bad % len(MALFORMED)], partition=n % PARTITIONS)
            self.bad += 1

    def poison(self) -> None:
        """Send an event dated far in the future, which a job must reject."""
        with self._free:
            self._producer.produce("events", payload(poisoned(len(self.events))), partition=0)
            self.bad += 1
            self._flush()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause sending after a flush, so that the producer makes no event late."""
        with self._free:
            self._flush()
            yield

    def close(self) -> list[dict[str, Any]]:
        """Stop, send an event that makes all earlier ones final, and return all valid events."""
        self._end.set()
        self._thread.join()
        self._flush()
        time.sleep(PIECE)
        last = closing(len(self.events))
        self._producer.produce("events", payload(last), partition=0)
        self._flush()
        return [*self.events, last]

    def _flush(self) -> None:
        if self._producer.flush(60):
            raise TimeoutError("the broker did not take all events within a minute")
