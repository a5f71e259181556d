"""A job that runs for long, with keys that come and go: what it takes is looked at every few seconds, and has to stay level."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import spark_rivals
from bench.harness import Report, progress, say
from bench.pipeline.contest import LATE
from bench.pipeline.sides import OURS, Sides, settings_of_a_job
from bench.pipeline.topics import Pulse, make_topic
from bench.servers.broker import Broker

MINUTES = {"quick": 1.0, "standard": 10.0, "full": 30.0}
EVERY = 10.0
"""Seconds between two samples."""
BEGIN = 120.0
"""Seconds that the first batch may take."""
RATE = 500
BETWEEN = 200
"""Keys that come between the two events of one."""
ALONE = 4
"""Of so many keys one never has a second event: the window has to end it."""
WARM = 1 / 3
"""The share of the time that does not count: heaps fill, and Spark begins to forget old batches."""
BOUND = 0.05
"""The share of its level by which something may grow in the time that counts."""
HEAP = "1g"
"""What the driver's JVM has, all of it from the start: a heap that may grow, grows, and would hide what else does."""


class Sample(NamedTuple):
    """What a job took at a moment; levels in megabytes, but for events."""

    seconds: float
    levels: dict[str, float]


def run(size: str, out: Path | None, minutes: float | None) -> Report:
    """Let a job run; figures are 1 where a level stayed, 0 where it grew."""
    report = Report("soak", size)
    length = 60 * (MINUTES[size] if minutes is None else minutes)
    options = f"-Xms{HEAP} -XX:+AlwaysPreTouch"
    settings = {**settings_of_a_job(), "spark.driver.memory": HEAP, "spark.driver.extraJavaOptions": options}
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-soak-") as scratch,
        Broker(Path(scratch) / "kafka") as broker,
        spark_rivals.session(Path(scratch), settings) as spark,
    ):
        sides = Sides(spark, broker, Path(scratch))
        source, target = make_topic(broker, "events"), make_topic(broker, "answers")
        with (
            Pulse(broker, source, RATE, churning()) as pulse,
            sides.running(OURS, LATE["watermark"], source, target, trigger="1 second") as runner,
        ):
            end = time.monotonic() + BEGIN
            while not runner.status.batches and time.monotonic() < end:  # the first takes long, and says nothing
                time.sleep(0.2)
            samples = list(_watched(length, Path(runner.job.checkpoint)))
            progress(f"{pulse.sent:,} events, {runner.status.batches:,} batches")
    judge(report, samples)
    if out is not None:
        from bench.pipeline.charts import draw

        say(f"written: {draw(samples, WARM * length, out)}")
    return report


def churning() -> Iterator[tuple[int, str]]:
    """New keys for ever: an A each, and of most a B some time later."""
    for key in itertools.count():
        yield key, "A"
        if key >= BETWEEN and key % ALONE:
            yield key - BETWEEN, "B"


def _watched(length: float, checkpoint: Path) -> Iterator[Sample]:
    begun = time.monotonic()
    while (gone := time.monotonic() - begun) < length:
        time.sleep(min(EVERY, max(0.0, length - gone)))
        one = Sample(time.monotonic() - begun, {**memory(), **_kept(checkpoint)})
        yield one
        progress(", ".join(f"{name} {level:,.1f}" for name, level in one.levels.items()))


def memory() -> dict[str, float]:
    """Resident megabytes of this process, of the JVM that it started, and of the workers that this one did."""
    children: dict[int, list[int]] = {}
    named: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition(" (")[2].rpartition(") ")
        except OSError:
            continue  # it has ended meanwhile
        named[int(folder.name)] = name
        children.setdefault(int(rest.split()[1]), []).append(int(folder.name))

    def below(pid: int) -> Iterator[int]:
        for child in children.get(pid, []):
            yield child
            yield from below(child)

    workers: list[int] = []
    machines: list[int] = []
    for child in children.get(os.getpid(), []):
        pythons = [pid for pid in below(child) if named[pid].startswith("python")]
        if named[child] == "java" and _is_spark(child):
            machines.append(child)
            workers += pythons
    return {
        "driver JVM": sum(map(_resident, machines)),
        "driver Python": _resident(os.getpid()),
        "Python workers": sum(map(_resident, workers)),
    }


def _is_spark(pid: int) -> bool:
    try:
        return b"SparkSubmit" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _resident(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def _kept(checkpoint: Path) -> dict[str, float]:
    """What the job keeps: its state by its own counters, and the folder of its checkpoint."""
    size = 0
    for path in checkpoint.rglob("*"):
        try:
            size += path.stat().st_size
        except OSError:
            continue  # Spark forgets old batches
    try:
        levels = json.loads((checkpoint / "perseid" / "status.json").read_text())["gauges"]
    except (OSError, ValueError):
        levels = {}
    return {
        "state": levels.get("state_bytes", 0) / 2**20,
        "events kept": float(levels.get("retained_events", 0)),
        "checkpoint": size / 2**20,
    }


def slope(times: Sequence[float], levels: Sequence[float]) -> float:
    """By Theil and Sen: the median of the slopes of all pairs, which a few outliers do not move."""
    pairs = itertools.combinations(zip(times, levels, strict=True), 2)
    return statistics.median((b - a) / (after - before) for (before, a), (after, b) in pairs if after > before)


def growth(samples: Sequence[Sample], name: str) -> float:
    """By which share of its level something grew in the time that counts."""
    times, levels = [one.seconds for one in samples], [one.levels[name] for one in samples]
    return slope(times, levels) * (times[-1] - times[0]) / statistics.median(levels)


def judge(report: Report, samples: Sequence[Sample]) -> None:
    """Put down of every level whether it stayed."""
    counting = [one for one in samples if one.seconds >= WARM * samples[-1].seconds]
    report.add("samples", len(samples))
    if len(counting) < 3:
        say("too few samples to say whether anything grows")
        return
    for name in counting[0].levels:
        level = statistics.median(one.levels[name] for one in counting)
        if not level:
            report.add(f"{name}.flat", None, "there was nothing of it, most of the time")
            continue
        grown = growth(counting, name)
        say(f"{name:<16} {level:12,.1f}  grew by {grown:+.1%} of that")
        report.add(f"{name}.flat", float(grown <= BOUND))
        report.add(f"{name}.grown", grown)
