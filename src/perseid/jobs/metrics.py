"""Metrics of a job: a Prometheus endpoint, a log with a line of JSON per batch, and a status file in the checkpoint."""

from __future__ import annotations

import datetime as dt
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from perseid.errors import SettingsError
from perseid.jobs.folders import Folder
from perseid.runtime.counters import COUNTERS, GAUGES
from perseid.spark.input_counts import read_types
from perseid.spark.progress import AHEAD_OF_CLOCK_ADVICE, batch_counts, by_shard

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

log = logging.getLogger("perseid.jobs")

STATUS = "status.json"
BATCH_SECONDS_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_COUNTED = {
    "events": "Rows that the patterns received.",
    "late": "Late rows.",
    "bad": "Rows that are malformed or have no time.",
    "ahead": "Rows dated further beyond their arrival than max_ahead allows.",
    "retracted": "Matches that were emitted and retracted.",
    "suppressed": "Matches that were suppressed.",
    "capped": "Partial matches dropped because the state limit was reached.",
    "duplicates": "Duplicate events.",
}

Facts: TypeAlias = dict[str, Any]
"""Figures of one batch: a line of the log."""


class StatusFile(TypedDict, total=False):
    """Content of the status file. Keys without a value yet are missing."""

    job: str
    since: float
    rules: list[str]
    versions: dict[str, str]
    """Version of each rule, as in the column ``version`` of its matches."""
    last: Facts | None
    gauges: dict[str, int]
    matches_by_pattern: dict[str, int]
    """By pattern and kind."""
    totals: dict[str, int]
    types: dict[str, int]
    changes: int
    retries: int
    rejected: dict[str, str]
    quarantined: dict[str, str]
    quarantines: int
    warnings: list[str]


@dataclass(frozen=True)
class BatchStats:
    """Number of rows that a batch wrote to its sinks."""

    number: int
    matches: Mapping[tuple[str, str], int]
    """By pattern and kind."""
    dead_letters: int = 0
    dropped: int = 0


class JobMetrics:
    """Collects metrics per batch. Readers never block the query."""

    def __init__(self, job: str, folder: Folder | None = None, log: Path | None = None) -> None:
        self.registry = CollectorRegistry()
        self._job, self._folder = job, folder
        self._log = log
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.open("a").close()  # a file that cannot be written is an error now, not after the first batch
        self._server: WSGIServer | None = None
        self._since = time.time()
        self._status: StatusFile = {
            "job": job, "since": self._since, "rules": [], "last": None, "gauges": {}, "matches_by_pattern": {},
            "totals": {}, "rejected": {}, "quarantined": {}, "quarantines": 0, "warnings": [],
        }  # fmt: skip
        self._pending: dict[int, BatchStats] = {}
        self._last = -1

        def counter(name: str, about: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"perseid_{name}", about, labels, registry=self.registry)

        def gauge(name: str, about: str) -> Gauge:
            return Gauge(f"perseid_{name}", about, registry=self.registry)

        self._read = counter("rows_read", "Rows that were read from the sources.")
        self._counted = {name: counter(name, about) for name, about in _COUNTED.items()}
        self._matches = counter("matches", "Matches written to the sinks.", ("pattern", "kind"))
        self._letters = counter("dead_letters", "Rows written to the dead-letter sink.")
        self._dropped = counter("dropped", "Matches dropped because of a limit of the job.")
        self._changes = counter("rule_changes", "Rule changes that were applied.")
        self._retries = counter("retries", "Restarts of the query after a failure.")
        self._seconds = Histogram(
            "perseid_batch_seconds", "Duration of batches.", registry=self.registry, buckets=BATCH_SECONDS_BUCKETS
        )
        self._gauges_by_shard: dict[str, list[int]] = {}
        self._levels = {name: gauge(name, f"Number of {about}.") for name, about in GAUGES.items()}
        self._watermark = gauge("watermark_seconds", "The watermark, in seconds since 1970.")
        self._event_time_lag = gauge("event_time_lag_seconds", "Seconds that the watermark is behind the clock.")
        self._watermark_ahead = gauge(
            "watermark_ahead_seconds", "Seconds that the watermark is ahead of the clock; 0 if it is behind."
        )
        self._lag = gauge("source_lag_rows", "Rows of the sources that are not read yet.")
        self._rejected = gauge("rules_rejected", "Rule texts that are currently rejected.")
        self._quarantined = gauge("rules_quarantined", "Patterns that do not run because of their search budget.")
        self._quarantines = counter("quarantines", "Patterns that were quarantined.")
        self._batch = gauge("last_batch", "The number of the last batch.")

    @property
    def match_counts(self) -> dict[str, int]:
        """Number of matches written in this run, by pattern and kind."""
        return dict(self._status["matches_by_pattern"])

    def serve(self, host: str, port: int) -> int:
        """Start the Prometheus endpoint and return its port."""
        try:
            self._server, thread = start_http_server(port, host, self.registry)
        except OSError as error:
            raise SettingsError(f"Cannot listen on {host}:{port} for metrics: {error.strerror}.") from None
        del thread
        return int(self._server.server_port)

    def batch_written(self, stats: BatchStats) -> None:
        """Call when all sinks have written a batch."""
        self._pending[stats.number] = stats

    def query_started(self, versions: Mapping[str, str]) -> None:
        """Call when a query starts, with the version of each rule; replaces the status file of an earlier process."""
        self._status["rules"] = sorted(versions)
        self._status["versions"] = dict(sorted(versions.items()))
        self._write_status()

    def rules_changed(self, changes: int, retries: int, rejected: Mapping[str, str]) -> None:
        """Call when rules change or are rejected, or when the query restarts; counts are totals of this run."""
        now: StatusFile = {"changes": changes, "retries": retries, "rejected": dict(rejected)}
        if all(self._status.get(name) == value for name, value in now.items()):
            return
        self._changes.inc(changes - self._status.get("changes", 0))
        self._retries.inc(retries - self._status.get("retries", 0))
        self._rejected.set(len(rejected))
        self._status |= now
        self._write_status()

    def patterns_quarantined(self, count: int, patterns: Mapping[str, str]) -> None:
        """Call with the number of quarantines in this run and the patterns that do not run, each with the reason."""
        if self._status["quarantined"] == patterns and self._status["quarantines"] == count:
            return
        self._quarantines.inc(count - self._status["quarantines"])
        self._quarantined.set(len(patterns))
        self._status |= {"quarantined": dict(patterns), "quarantines": count}
        self._write_status()

    def batch_committed(self, progress: StreamingQueryProgress) -> None:
        """Call with Spark's progress of each committed batch."""
        number = int(progress["batchId"])
        if number <= self._last and number not in self._pending:
            return
        self._last = max(number, self._last)
        stats = self._pending.pop(number, BatchStats(number, {}))
        rows = int(progress["numInputRows"] or 0)
        self._read.inc(rows)
        counted = batch_counts(progress) or {}
        for name, metric in self._counted.items():
            metric.inc(int(counted.get(name) or 0))
        for (pattern, kind), count in stats.matches.items():
            self._matches.labels(pattern, kind).inc(count)
        self._letters.inc(stats.dead_letters)
        self._dropped.inc(stats.dropped)
        seconds = (progress["durationMs"] or {}).get("triggerExecution", 0) / 1000
        self._seconds.observe(seconds)
        self._batch.set(number)
        if counted:
            self._gauges_by_shard |= by_shard(counted)
            for level, total in zip(
                self._levels.values(), zip(*self._gauges_by_shard.values(), strict=True), strict=False
            ):
                level.set(sum(total))
        watermark = _seconds((progress["eventTime"] or {}).get("watermark"))
        lag_s = None
        if watermark:
            lag_s = max(0.0, time.time() - watermark)
            self._watermark.set(watermark)
            self._event_time_lag.set(lag_s)
            self._watch_clock(watermark, time.time())
        lag = sum(map(_lag, progress["sources"]))
        self._lag.set(lag)
        self._log_batch(number, rows, counted, stats, seconds, watermark, lag)

    def _watch_clock(self, watermark: float, now: float) -> None:
        """Set gauge and warning of a watermark that is ahead of the clock; log the warning once per occurrence."""
        self._watermark_ahead.set(max(0.0, watermark - now))
        was = bool(self._status["warnings"])
        self._status["warnings"] = []
        if watermark <= now:
            return
        moment = dt.datetime.fromtimestamp(watermark, dt.UTC).isoformat(timespec="seconds")
        self._status["warnings"] = [f"The watermark {moment} is ahead of the clock: {AHEAD_OF_CLOCK_ADVICE}"]
        if not was:
            log.warning("%s", self._status["warnings"][0])

    def _log_batch(
        self,
        number: int,
        rows: int,
        counted: Mapping[str, int | str | None],
        stats: BatchStats,
        seconds: float,
        watermark: float | None,
        lag: int,
    ) -> None:
        facts: Facts = {
            "at": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            "job": self._job,
            "batch": number,
            "read": rows,
            "seconds": seconds,
            "watermark": None if not watermark else dt.datetime.fromtimestamp(watermark, dt.UTC).isoformat(),
            "watermark_ahead": max(0.0, watermark - time.time()) if watermark else 0.0,
            "lag": lag,
            "matches_by_pattern": {f"{pattern} {kind}": count for (pattern, kind), count in stats.matches.items()},
            "dead_letters": stats.dead_letters,
            "dropped": stats.dropped,
            **{name: int(counted[name] or 0) for name in COUNTERS if name in counted and name != "shards"},
            "types": read_types([counted])[0],
        }
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(facts, ensure_ascii=False) + "\n")
        self._add_to_totals(facts)

    def _add_to_totals(self, facts: Facts) -> None:
        totals = self._status["totals"]
        for name in ("read", "dead_letters", "dropped", *_COUNTED):
            totals[name] = totals.get(name, 0) + int(facts.get(name) or 0)
        by_pattern = self._status["matches_by_pattern"]
        for name, count in facts["matches_by_pattern"].items():
            by_pattern[name] = by_pattern.get(name, 0) + count
        types = self._status.setdefault("types", {})
        for name, count in facts["types"].items():
            types[name] = types.get(name, 0) + count
        levels = [sum(total) for total in zip(*self._gauges_by_shard.values(), strict=True)]
        self._status |= {"last": dict(facts), "gauges": dict(zip(GAUGES, levels, strict=False))}
        self._write_status()

    def _write_status(self) -> None:
        """Write the status file."""
        if self._folder is not None:
            self._folder.write(STATUS, json.dumps(self._status, ensure_ascii=False).encode())

    def close(self) -> None:
        """Stop the endpoint."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _seconds(moment: str | None) -> float | None:
    if not moment:
        return None
    return dt.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def _lag(source: SourceProgress) -> int:
    """Rows that a Kafka source has not read yet, by its offsets; 0 for other sources."""
    try:
        latest, end = (json.loads(source[name]) for name in ("latestOffset", "endOffset"))
        return sum(
            int(offset) - int(end[topic][partition])
            for topic, partitions in latest.items()
            for partition, offset in partitions.items()
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return 0
