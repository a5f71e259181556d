"""Rule changes under load: rules in a folder are added, changed, broken and fixed while a topic receives events."""

from __future__ import annotations

import json
import os
import random
import statistics
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

import perseid as ps
from bench.servers.broker import Broker
from perseid.jobs.assembly import assemble
from perseid.jobs.reading import read_job
from perseid.jobs.rules import read_patterns, versions_of
from perseid.jobs.runner import JobRunner

LONG = "PERSEID_CHANGES" in os.environ
"""In the long run, without other processes, pauses are checked too."""
CHANGES = int(os.environ.get("PERSEID_CHANGES", "10"))
pytestmark = [pytest.mark.servers, pytest.mark.timeout(120 + 30 * CHANGES)]

SEED = 7
RATE = 100
"""Events per second."""
PAUSE = 3.0
"""Limit of the median pause of a rule change, in seconds."""
WAIT = 60.0
STEADY = {
    "pairs": "pattern pairs match A a -> B b within 1 minute partition by user return a.n as a, b.n as b",
    "lonely": "pattern lonely match A a -> not B for 2 seconds partition by user return a.n as a",
}
"""Rules that do not change."""
CLOSING = {"ts": "2100-01-01T00:00:00Z", "type": "Z", "user": "z", "n": -1}


def _rule(name: str, bound: int) -> str:
    return f"pattern {name} match A a where a.n % 1000 >= {bound} partition by user return a.n as a"


class LoadProducer:
    """Produces events to a topic at a constant rate, and records them."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.rows: list[dict[str, Any]] = []
        self._producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 1})
        self._topic, self._stop = topic, threading.Event()
        self._random = random.Random(SEED)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.wait(1 / RATE):
            now = time.time_ns() // 1000
            moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1_000_000)) + f".{now % 1_000_000:06}Z"
            user = f"u{self._random.randrange(12)}"
            row = {"ts": moment, "type": self._random.choice("AABZ"), "user": user, "n": len(self.rows)}
            self.rows.append(row)
            self._producer.produce(self._topic, json.dumps(row), user)
            self._producer.poll(0)

    def __enter__(self) -> LoadProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for partition in range(4):
            self._producer.produce(self._topic, json.dumps(CLOSING), partition=partition)
        assert self._producer.flush(20) == 0


class MatchConsumer:
    """Consumes the messages of a topic on request."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.messages: list[dict[str, Any]] = []
        self._consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": topic})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])

    def poll(self) -> list[dict[str, Any]]:
        while some := self._consumer.consume(1000, 0.3):
            self.messages += [json.loads(one.value()) for one in some if one.error() is None]
        return self.messages

    def close(self) -> None:
        self._consumer.close()

    def count_matches(self, pattern: str) -> Counter[tuple[Any, ...]]:
        return Counter((row.get("a"), row.get("b")) for row in self.messages if row["pattern"] == pattern)


class ChangingRules:
    """Folder of rules that is changed at random, with the current rules and all versions so far."""

    def __init__(self, folder: Path, runner: JobRunner) -> None:
        self._folder, self._runner = folder, runner
        self._random = random.Random(SEED)
        self._holds: dict[str, str] = {}
        self._broken: set[str] = set()
        self._bound = 0
        self.versions: dict[str, set[str]] = {}
        self.done: Counter[str] = Counter()

    def change(self) -> None:
        names = sorted(self._holds)
        whole = [name for name in names if name not in self._broken]
        ways: dict[str, list[str]] = {
            "add": [f"rule{i}" for i in range(5) if f"rule{i}" not in self._holds],
            "change": whole,
            "remove": names if len(names) > 2 else [],
            "break": whole,
            "fix": sorted(self._broken),
        }
        way = self._random.choice([way for way, of in ways.items() if of])
        name = self._random.choice(ways[way])
        getattr(self, f"_{way}")(name)
        self.done[way] += 1

    def _write(self, name: str, text: str) -> None:
        staged = self._folder.parent / name
        staged.write_text(text)
        staged.rename(self._folder / f"{name}.perseid")

    def _taken(self, act: Callable[[], object]) -> None:
        before = self._runner.status.changes
        act()
        until(lambda: self._runner.status.changes > before)

    def _add(self, name: str) -> None:
        self._bound += 1
        text = _rule(name, self._bound)
        self._holds[name] = text
        self.versions.setdefault(name, set()).update(versions_of(read_patterns({name: text})).values())
        self._taken(lambda: self._write(name, text))
        assert not any(name in told for told in self._runner.status.rejected)

    _change = _add

    def _remove(self, name: str) -> None:
        del self._holds[name]
        self._broken.discard(name)
        self._taken((self._folder / f"{name}.perseid").unlink)

    def _break(self, name: str) -> None:
        self._broken.add(name)
        before = self._runner.status.changes
        self._write(name, _rule(name, 1).replace("a.n as a", "a.missing as a"))
        until(lambda: any(name in told for told in self._runner.status.rejected))
        (refusal,) = (str(one) for told, one in self._runner.status.rejected.items() if name in told)
        assert "missing" in refusal
        assert self._runner.status.changes == before

    def _fix(self, name: str) -> None:
        self._broken.discard(name)
        self._write(name, self._holds[name])
        until(lambda: not any(name in told for told in self._runner.status.rejected))


def until(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not ready():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def test_rule_changes_under_load_cause_no_lost_and_no_duplicate_matches(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    events, answers = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("events", "answers"))
    rules = tmp_path / "rules"
    rules.mkdir()
    for name, text in STEADY.items():
        (rules / f"{name}.perseid").write_text(text)
    kafka = {"servers": broker.servers, "topic": events, "schema": "ts timestamp, type string, user string, n bigint"}
    job = {
        "job": "reload",
        "stream": {
            "source": {"kafka": kafka},
            "lateness": "1 second",
            "max_ahead": "none",  # the closing record is of the year 2100
            "id": "position",
            "shards": 2,
        },
        "patterns": "rules/",
        "sinks": [{"kafka": {"servers": broker.servers, "topic": answers}}],
        "trigger": "0 seconds",
        "checkpoint": "checkpoint",
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    failed: list[BaseException] = []
    consumer = MatchConsumer(broker, answers)
    with LoadProducer(broker, events) as busy:
        until(lambda: len(busy.rows) > 1)
        runner = JobRunner(assemble(read_job(tmp_path / "job.yaml"), spark))
        thread = threading.Thread(target=lambda: _run(runner, failed))
        thread.start()
        try:
            until(lambda: runner.status.batches > 0 or bool(failed))
            folder = ChangingRules(rules, runner)
            for _ in range(CHANGES):
                folder.change()
        except BaseException:
            runner.stop()
            thread.join(WAIT)
            raise
    expected = _match_in_batch(busy.rows)
    try:
        counted = consumer.count_matches
        until(lambda: bool(consumer.poll()) and all(counted(name).total() >= len(expected[name]) for name in STEADY))
        runner.stop()
        thread.join(WAIT)
        consumer.poll()  # duplicates may follow
    finally:
        runner.stop()
        thread.join(WAIT)
        consumer.close()
    assert not failed
    assert runner.status.retries == 0
    for name, text in STEADY.items():
        assert consumer.count_matches(name) == expected[name]
        (version,) = versions_of(read_patterns({name: text})).values()
        assert {row["version"] for row in consumer.messages if row["pattern"] == name} == {version}
    for name, versions in folder.versions.items():
        found = consumer.count_matches(name)
        assert all(row["version"] in versions for row in consumer.messages if row["pattern"] == name)
        assert max(found.values(), default=1) == 1
    pause = statistics.median(runner.status.reload_pauses_s)
    print(
        f"{dict(folder.done)}, {len(busy.rows)} events; median pause {pause:.2f} s of {len(runner.status.reload_pauses_s)}"
    )
    assert pause <= PAUSE or not LONG


def _run(runner: JobRunner, failed: list[BaseException]) -> None:
    try:
        runner.run()
    except BaseException as error:
        failed.append(error)


def _match_in_batch(rows: list[dict[str, Any]]) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the matches of the unchanged rules over all events, in one batch."""
    stream = ps.events([*rows, CLOSING], time="ts", type="type", id="n")
    found: dict[str, Counter[tuple[Any, ...]]] = {}
    for name, text in STEADY.items():
        matches = ps.pattern(text).match(stream)
        found[name] = Counter((one.values.get("a"), one.values.get("b")) for one in matches)
    return found
