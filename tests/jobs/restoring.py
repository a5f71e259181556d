"""A job over files, with a checkpoint that is copied, and restored after more batches."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import perseid as ps
from perseid.jobs.job_plan import JobPlan, RuleOutput
from perseid.jobs.rules import RuleTexts, read_patterns, versions_of
from perseid.jobs.runner import JobRunner
from perseid.sinks.contract import Sink

PATTERNS = """
pattern pairs match A a -> B b within 1 hour partition by user return a.n as a, b.n as b
pattern calm match A a -> not B for 30 seconds partition by user return a.n as a
"""
SCHEMA = "ts timestamp, type string, user string, n long"
BASE = datetime(2026, 1, 1, tzinfo=UTC)
LATENESS = "1 minute"

Named = tuple[str, str, str]
"""A match: pattern, kind and match_id."""


class _Rules:
    def read(self) -> RuleTexts:
        return RuleTexts({"rules": PATTERNS})


@dataclass
class Restoring:
    """Files of events, a checkpoint and its copy."""

    spark: SparkSession
    folder: Path
    sinks: Sequence[Sink]
    disorder: str | None = None
    dead_letters: Sink | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    files: int = 0

    def __post_init__(self) -> None:
        (self.folder / "in").mkdir()
        self._chance = random.Random(5)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def arrive(self, files: int) -> None:
        """Write more files with six events each; some events are out of order."""
        for _ in range(files):
            self._write([self._event() for _ in range(6)])

    def close(self) -> None:
        """Write events so late that everything before them is final."""
        self._write([{"ts": BASE + timedelta(days=1), "type": "Z", "user": "u0", "n": -1}])
        self._write([{"ts": BASE + timedelta(days=2), "type": "Z", "user": "u0", "n": -2}])

    def arrive_with_retraction(self) -> None:
        """Write one file each for an A, a B, a later event, and an earlier B that replaces the first one."""
        begin = 5 * len(self.events)
        for second, kind in ((0, "A"), (40, "B"), (45, "Z"), (10, "B")):
            n = len(self.events)
            self._write([{"ts": BASE + timedelta(seconds=begin + second), "type": kind, "user": "u9", "n": n}])

    def _event(self) -> dict[str, Any]:
        n = len(self.events)
        second = 5 * n - self._chance.choice((0, 0, 0, 20, 40))
        kind, user = self._chance.choice("AAB"), f"u{self._chance.randrange(3)}"
        return {"ts": BASE + timedelta(seconds=second), "type": kind, "user": user, "n": n}

    def _write(self, events: list[dict[str, Any]]) -> None:
        self.events += events
        self.files += 1
        staged = self.folder / f"{self.files}.staged"
        staged.write_text("\n".join(json.dumps({**event, "ts": event["ts"].isoformat()}) for event in events))
        os.utime(staged, (self.files, self.files))
        staged.rename(self.folder / "in" / f"{self.files:05}.json")

    def run(self, files_per_batch: int) -> JobRunner:
        """Process all files, so many per batch."""
        stream = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files_per_batch)
        frame = stream.json(str(self.folder / "in")).withWatermark("ts", LATENESS)

        def match_rules(texts: RuleTexts) -> RuleOutput:
            patterns = read_patterns(texts.patterns)
            options: dict[str, Any] = {} if self.disorder is None else {"disorder": self.disorder}
            found = patterns.match(
                ps.events(frame, id="n", **options, options=ps.StreamOptions(shards=2)),
                rejected=self.dead_letters is not None,
            )
            return RuleOutput(found, versions_of(patterns), ["user"])

        job = JobPlan("job", self.spark, _Rules(), match_rules, self.sinks, str(self.checkpoint), self.dead_letters)
        made = JobRunner(_once(job))
        made.run()
        return made

    def save(self) -> None:
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        shutil.copytree(self.checkpoint, self.folder / "copy")

    def restore(self) -> None:
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self.folder / "copy", self.checkpoint)

    def play(self) -> None:
        """Run some batches, copy the checkpoint, run more batches, restore the copy and add more events."""
        self.arrive(6)
        self.run(6)
        self.save()
        self.arrive(3)
        self.run(1)
        self.restore()
        self.arrive(1)
        self.close()

    def expected(self) -> Counter[Named]:
        """Return the matches of the same events in this process, each once."""
        found = ps.patterns(PATTERNS).match(ps.events(self.events, id="n"))
        return Counter((match.pattern, match.kind, match.match_id) for match in found)


def _once(job: JobPlan) -> JobPlan:
    from dataclasses import replace

    return replace(job, trigger={"availableNow": True}, reloads_rules=False)
