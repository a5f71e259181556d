"""Patterns and input of the job: shop events out of order, with hot keys, equal times and malformed payloads."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

import perseid as ps

PATTERNS = """
pattern unpaid match Order o -> not Payment for 1 hour partition by user return o.n as placed
pattern spree match Order o -> Payment+ p -> Refund r within 20 minutes partition by user
  return count(p) as payments, sum(p.amount) as paid
pattern moved match Login a -> Login b where b.ip <> a.ip within 30 minutes partition by user
  return a.ip as was, b.ip as now
"""
SCHEMA = "n bigint, ts timestamp, type string, user string, ip string, amount double"
LATENESS = "1 hour"
BASE = datetime(2026, 1, 1, tzinfo=UTC)
STEP = 2.0
"""Seconds of event time between two events."""
DISORDER = 600
"""Seconds that an event may arrive after later ones, well within the lateness."""
USERS = 400
PARTITIONS = 2
MALFORMED: Sequence[bytes] = (b"", b"{", b"[1]", b'{"n": "x"}', b"\xff\xfe", b'{"n": 1} and more', b"null")
_TYPES = random.Random(3).choices(("Order", "Payment", "Refund", "Login", "Browse"), (5, 6, 1, 4, 4), k=997)

MatchKey = tuple[str, str]
"""A match by its pattern and its id."""


@dataclass
class Feed:
    """Events in order of arrival, the same for the same seed."""

    seed: int
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def event(self, n: int) -> dict[str, Any]:
        """The next event, in whole seconds, so that many have the same time."""
        chance = self._chance
        second = int(n * STEP) - (chance.randrange(DISORDER) if chance.random() < 0.3 else 0)
        user = 0 if chance.random() < 0.05 else int(USERS * chance.random() ** 2)  # hot keys
        return {
            "n": n,
            "ts": (BASE + timedelta(seconds=second)).isoformat().replace("+00:00", "Z"),
            "type": _TYPES[(n * 31 + chance.randrange(997)) % 997],
            "user": f"u{user}",
            "ip": f"10.0.0.{chance.randrange(4)}",
            "amount": chance.randrange(1, 400) / 4,
        }


def closing(n: int) -> dict[str, Any]:
    """An event that no pattern matches, so late that everything before it is final."""
    far = BASE + timedelta(seconds=n * STEP, days=2)  # not in the future, because the job rejects such records
    return {"n": -1, "ts": far.isoformat().replace("+00:00", "Z"), "type": "Close", "user": "u0"}


def poisoned(n: int) -> dict[str, Any]:
    """An event with a wrong clock, which would make every later event late."""
    return {"n": -2 - n, "ts": "9999-12-31T00:00:00Z", "type": "Order", "user": "u0"}


def payload(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode()


def expected_matches(events: Iterable[dict[str, Any]]) -> set[MatchKey]:
    """Expected matches: the same patterns over the same events in this process, as finite input."""
    rows = [{"ip": None, "amount": None, **event, "ts": datetime.fromisoformat(event["ts"])} for event in events]
    found = ps.patterns(PATTERNS).match(ps.events(rows, id="n"))
    named = [(match.pattern, match.match_id) for match in found]
    assert len(set(named)) == len(named)
    return set(named)


@dataclass(frozen=True)
class JobSetup:
    """Locations and settings of the parts of a job."""

    folder: Path
    servers: str
    postgres: str
    jars: Sequence[Path]
    settings: dict[str, str]
    """Spark settings that enable Delta."""

    @property
    def file(self) -> Path:
        return self.folder / "job.yaml"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def write(self, name: str = "job.yaml", **more: Any) -> None:
        """Write a job file with four sinks, Kafka first, so that it is written during matching, and a dead-letter
        sink."""
        self.folder.mkdir(parents=True, exist_ok=True)
        source = {"servers": self.servers, "topic": "events", "schema": SCHEMA, "required": ["n", "ts", "type"]}
        source |= more.pop("source", {})
        job = {
            "job": "shop",
            "stream": {
                "kind": "events",
                "source": {"kafka": source},
                "type": "type",
                "lateness": LATENESS,
                "id": ["n"],
                "shards": 4,
            },
            "patterns": {"text": PATTERNS},
            "sinks": [
                {"kafka": {"servers": self.servers, "topic": "answers"}},
                {"parquet": {"path": "out/parquet"}},
                {"delta": {"path": "out/delta"}},
                {"postgres": {"url": self.postgres, "table": "answers"}},
            ],
            "dead_letters": {"parquet": {"path": "out/dead"}},
            "checkpoint": "checkpoint",
            "metrics": {"log": "log.jsonl"},
            "spark": {
                "spark.jars": ",".join(map(str, self.jars)),
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.memory": "1g",
                "spark.ui.enabled": "false",
                "spark.sql.shuffle.partitions": "2",
                "spark.local.dir": str(self.folder / "local"),
                "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
                **self.settings,
            },
            **more,
        }
        (self.folder / name).write_text(yaml.safe_dump(job, sort_keys=False))
