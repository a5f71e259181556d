"""A long-running job with keys that come and go: its memory and state are sampled every few seconds, and must not
grow."""

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

from bench import spark_baselines
from bench.harness import Report, print_line, progress
from bench.pipeline.benchmark import LATENCY_SPECS
from bench.pipeline.runner import OURS, PipelineQueries, job_session_settings
from bench.pipeline.topics import RateProducer, make_topic
from bench.servers.broker import Broker

MINUTES = {"quick": 1.0, "standard": 10.0, "full": 30.0}
EVERY = 10.0
"""Seconds between two samples."""
BEGIN = 120.0
"""Maximum seconds of the first batch."""
RATE = 500
BETWEEN = 200
"""Keys between the two events of one key."""
ALONE = 4
"""One of so many keys never has a second event, so the window has to end its partial match."""
WARM_UP_FRACTION = 1 / 3
"""Fraction of the time that does not count: heaps fill, and Spark begins to delete old batches."""
MAX_GROWTH = 0.05
"""Maximum growth in the time that counts, as a fraction of the level."""
HEAP = "1g"
"""Heap of the driver's JVM, all of it from the start: otherwise the growth of the heap would hide other growth."""


class Sample(NamedTuple):
    """Levels of a job at one time: megabytes, or a number of events."""

    seconds: float
    levels: dict[str, float]


def run(size: str, out: Path | None, minutes: float | None) -> Report:
    """Run a job; figures are 1 for a level that did not grow, and 0 for one that did."""
    report = Report("soak", size)
    length = 60 * (MINUTES[size] if minutes is None else minutes)
    options = f"-Xms{HEAP} -XX:+AlwaysPreTouch"
    settings = {**job_session_settings(), "spark.driver.memory": HEAP, "spark.driver.extraJavaOptions": options}
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-soak-") as scratch,
        Broker(Path(scratch) / "kafka") as broker,
        spark_baselines.session(Path(scratch), settings) as spark,
    ):
        queries = PipelineQueries(spark, broker, Path(scratch))
        source, target = make_topic(broker, "events"), make_topic(broker, "answers")
        with (
            RateProducer(broker, source, RATE, churning()) as producer,
            queries.running(OURS, LATENCY_SPECS["watermark"], source, target, trigger="1 second") as runner,
        ):
            end = time.monotonic() + BEGIN
            while not runner.status.batches and time.monotonic() < end:  # the first batch takes long and does not count
                time.sleep(0.2)
            samples = list(_sample_levels(length, Path(runner.job.checkpoint)))
            progress(f"{producer.sent:,} events, {runner.status.batches:,} batches")
    check_growth(report, samples)
    if out is not None:
        from bench.pipeline.charts import draw

        print_line(f"written: {draw(samples, WARM_UP_FRACTION * length, out)}")
    return report


def churning() -> Iterator[tuple[int, str]]:
    """Endless new keys: an A for each, and for most a B some time later."""
    for key in itertools.count():
        yield key, "A"
        if key >= BETWEEN and key % ALONE:
            yield key - BETWEEN, "B"


def _sample_levels(length: float, checkpoint: Path) -> Iterator[Sample]:
    begun = time.monotonic()
    while (gone := time.monotonic() - begun) < length:
        time.sleep(min(EVERY, max(0.0, length - gone)))
        one = Sample(time.monotonic() - begun, {**memory(), **_state_levels(checkpoint)})
        yield one
        progress(", ".join(f"{name} {level:,.1f}" for name, level in one.levels.items()))


def memory() -> dict[str, float]:
    """Resident megabytes of this process, of its JVM, and of the JVM's workers."""
    children: dict[int, list[int]] = {}
    named: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition(" (")[2].rpartition(") ")
        except OSError:
            continue  # the process has ended
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


def _state_levels(checkpoint: Path) -> dict[str, float]:
    """Retained data of the job: its state by its own counters, and the size of its checkpoint."""
    size = 0
    for path in checkpoint.rglob("*"):
        try:
            size += path.stat().st_size
        except OSError:
            continue  # Spark deletes old batches
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
    """Theil–Sen slope: the median of the slopes of all pairs, which is robust against outliers."""
    pairs = itertools.combinations(zip(times, levels, strict=True), 2)
    return statistics.median((b - a) / (after - before) for (before, a), (after, b) in pairs if after > before)


def growth(samples: Sequence[Sample], name: str) -> float:
    """Growth of a level in the time that counts, as a fraction of it."""
    times, levels = [one.seconds for one in samples], [one.levels[name] for one in samples]
    return slope(times, levels) * (times[-1] - times[0]) / statistics.median(levels)


def check_growth(report: Report, samples: Sequence[Sample]) -> None:
    """Add a figure for every level: 1 if it did not grow."""
    counting = [one for one in samples if one.seconds >= WARM_UP_FRACTION * samples[-1].seconds]
    report.add("samples", len(samples))
    if len(counting) < 3:
        print_line("too few samples to say whether anything grows")
        return
    for name in counting[0].levels:
        level = statistics.median(one.levels[name] for one in counting)
        if not level:
            report.add(f"{name}.flat", None, "there was nothing of it, most of the time")
            continue
        grown = growth(counting, name)
        print_line(f"{name:<16} {level:12,.1f}  grew by {grown:+.1%} of that")
        report.add(f"{name}.flat", float(grown <= MAX_GROWTH))
        report.add(f"{name}.grown", grown)
