"""``python -m bench crash``: injects N faults of ten kinds into a job and validates the content of its sinks.

The expected matches are those of the same rules over the same events in this process. Parquet, Delta and PostgreSQL
must contain each of them once, Kafka at least once. The times and the order of the faults come from a seed, which is
printed.
"""

from __future__ import annotations

import contextlib
import math
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench import harness
from bench.crash.disk import Disk
from bench.crash.job_process import JobProcess
from bench.crash.producer import EventProducer
from bench.crash.sink_readers import parquet_rows, postgres, read_all_sinks
from bench.crash.workload import PARTITIONS, JobSetup, MatchKey, expected_matches
from bench.servers.broker import Broker
from bench.servers.jars import SETTINGS, connectors
from bench.servers.postgres import Postgres

KILLS = {"quick": 3, "standard": 20, "full": 100}
PACE = 200
"""Events per second."""
TIMEOUT_S = 240.0
"""Seconds after which an operation counts as failed."""
ONCE = ("parquet", "delta", "postgres")
"""Sinks that hold each match exactly once."""


class CrashError(Exception):
    """The job did not recover, or did not fail where it must."""


@dataclass
class FaultStats:
    """Cost of one kind of fault."""

    faults: int = 0
    restarts: int = 0
    """Restarted processes, without queries that the job itself restarted."""
    seconds: list[float] = field(default_factory=list)
    """From the fault to the next committed batch."""
    lost: int = 0
    """Matches that a reader of Kafka received and an earlier sink lost."""
    duplicates: int = 0


@dataclass
class CrashOutcome:
    """Result of a run."""

    seed: int
    fault_stats: dict[str, FaultStats]
    expected: set[MatchKey]
    found: dict[str, Counter[MatchKey]]
    letters: tuple[int, int]
    """Expected and actual number of dead letters."""
    batches: int
    seconds: float

    def lost(self, sink: str) -> int:
        return len(self.expected - set(self.found[sink]))

    def unexpected(self, sink: str) -> int:
        """Rows that are not an expected match."""
        return len(set(self.found[sink]) - self.expected)

    def duplicates(self, sink: str) -> int:
        return sum(count - 1 for count in self.found[sink].values())


class FaultInjector:
    """The servers, a producer, and the job under test."""

    def __init__(
        self, folder: Path, disk: Disk, broker: Broker, setup: JobSetup, producer: EventProducer, seed: int
    ) -> None:
        self._folder, self._disk, self._broker, self._setup, self._producer = folder, disk, broker, setup, producer
        self._chance = random.Random(seed)
        self._hooks, self._log = folder / "hooks", folder / "job.log"
        self._hooks.mkdir()
        self.fault_stats: dict[str, FaultStats] = {}
        self._stats = FaultStats()
        self._duplicates = self._lost = 0
        self._copy = folder / "older-checkpoint"
        """Copy of the checkpoint, which later faults may also restore."""
        self.job = self._start()
        self._kinds: dict[str, Callable[[], None]] = {
            "commit": self._commit,
            "restore": self._restore,
            "poison": self._poison,
            "workers": self._workers,
            "sink": self._sink,
            "driver": self._driver,
            "kernel": self._kernel,
            "broker": self._stop_broker,
            "disk": self._full_disk,
            "state": self._state,
        }

    def close(self) -> None:
        self.job.kill()

    def _start(self, file: Path | None = None) -> JobProcess:
        # A killed driver leaves its copies of jars behind, and a hundred of them would fill the disk.
        shutil.rmtree(self._setup.folder / "local", ignore_errors=True)
        return JobProcess(file or self._setup.file, self._log, self._hooks)

    def inject_faults(self, kills: int, until: float = math.inf) -> None:
        """Inject ``kills`` faults, all kinds equally often, and none after the monotonic time ``until``."""
        deck: list[str] = []
        for number in range(kills):
            if time.monotonic() > until:
                harness.progress(f"time is up after {number} of {kills}")
                return
            if not deck:
                deck = list(self._kinds)
                if number:
                    self._chance.shuffle(deck)
            kind = deck.pop(0)
            self._stats = self.fault_stats.setdefault(kind, FaultStats())
            self._wait_for_batches(1)
            time.sleep(self._chance.uniform(0, 1.5))
            begin = time.monotonic()
            self._kinds[kind]()
            self._wait_for_batches(1)
            self._stats.faults += 1
            self._stats.seconds.append(time.monotonic() - begin)
            self._count_effects()
            harness.progress(f"{number + 1}/{kills} {kind}: {self._stats.seconds[-1]:.1f} s, batch {self.committed()}")

    def finish(self, whole: Callable[[], bool]) -> None:
        """Wait until all matches are present, or until the missing ones count as lost; then stop the job."""
        with contextlib.suppress(CrashError):
            self._wait_until(whole, "the last match")
        if (status := self.job.leave()) != 0:
            raise CrashError(f"The job ended with {status}.\n{self._log_tail()}")

    # Waiting

    def committed(self) -> int:
        there = self._setup.checkpoint / "commits"
        return max((int(path.name) for path in there.glob("[0-9]*")), default=-1)

    def _wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Wait for a condition; a job that ends meanwhile is restarted."""
        end = time.monotonic() + TIMEOUT_S
        while not ready():
            if time.monotonic() > end:
                raise CrashError(f"{what} took too long.\n{self._log_tail()}")
            if self.job.ended:
                self._restart()
            time.sleep(0.05)

    def _wait_for_batches(self, more: int) -> None:
        known = self.committed()
        self._wait_until(lambda: self.committed() >= known + more, "the next batch")

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def _restart(self) -> None:
        self.job.kill()
        self._stats.restarts += 1
        self.job = self._start()

    def _count_effects(self) -> None:
        """Count the effects of this fault. Kafka is the first sink of a batch and read last, so it contains all that
        the others contain."""
        found = read_all_sinks(self._setup.folder, self._setup.postgres, self._setup.servers)
        lost = sum(len(set(found[name]) - set(found["kafka"])) for name in ONCE)
        duplicates = sum(count - 1 for name in ONCE for count in found[name].values())
        self._stats.lost += max(0, lost - self._lost)
        self._stats.duplicates += max(0, duplicates - self._duplicates)
        self._lost, self._duplicates = lost, duplicates

    # Faults

    def _driver(self) -> None:
        self.job.kill()
        self._restart()
        if self._chance.random() < 0.3:  # and again during recovery
            time.sleep(self._chance.uniform(1, 10))
            self.job.kill()
            self._restart()

    def _workers(self) -> None:
        self._wait_until(lambda: self.job.kill_workers() > 0, "a worker to kill")

    def _kernel(self) -> None:
        self._request_failure("fail-kernel", "")

    def _sink(self) -> None:
        kind = self._chance.choice([*ONCE, "kafka"])
        self._request_failure("fail-sink", f"{kind} {self._chance.choice(['half', 'after'])}")

    def _request_failure(self, name: str, text: str) -> None:
        (self._hooks / f"{name}.new").write_text(text)
        (self._hooks / f"{name}.new").rename(self._hooks / name)
        self._wait_until(lambda: not (self._hooks / name).exists(), f"{name} to be taken")

    def _stop_broker(self) -> None:
        with self._producer.paused():
            self._broker.stop()
            time.sleep(self._chance.uniform(0.5, 3))
            self._broker.start()

    def _commit(self) -> None:
        self.job.kill()
        last = self._setup.checkpoint / "commits" / str(self.committed())
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
        self._restart()

    def _full_disk(self) -> None:
        before = self._log.stat().st_size
        self._disk.fill(self.job.processes())
        try:
            end = time.monotonic() + TIMEOUT_S
            while self._log.stat().st_size == before and not self.job.ended:
                if time.monotonic() > end:
                    raise CrashError(f"The job did not report the full disk.\n{self._log_tail()}")
                time.sleep(0.1)
        finally:
            self._disk.free()

    def _state(self) -> None:
        """Truncate the state file that the next batch loads. The job must report it and stop; with the original file it
        must continue."""
        self.job.kill()
        version = self.committed() + 1
        shards = (self._setup.checkpoint / "state" / "0").iterdir()
        sizes = {shard: sum(file.stat().st_size for file in shard.glob(f"{version}.*")) for shard in shards}
        files = list(max(sizes, key=lambda shard: sizes[shard]).glob(f"{version}.*"))
        whole, log_size = {file: file.read_bytes() for file in files}, self._log.stat().st_size
        for file, body in whole.items():
            file.write_bytes(body[: len(body) // 2])
        self.job = self._start(self._setup.file.with_name("without-retries.yaml"))
        try:
            status: int | None = self.job.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            self.job.kill()
        log = self._log.read_bytes()[log_size:].decode(errors="replace")
        if status != 1 or "error" not in log.lower():
            raise CrashError(f"The job did not report the truncated state, exit {status}: {log[-2000:]}")
        for file, body in whole.items():
            file.write_bytes(body)
        harness.progress(f"truncated state: {log.strip().splitlines()[-1][:300]}")
        self._restart()

    def _restore(self) -> None:
        """Replace the checkpoint by an older copy, from this or an earlier fault: the sinks then have batches that it
        does not have."""
        self.job.kill()
        if not self._copy.exists() or self._chance.random() < 0.5:
            shutil.rmtree(self._copy, ignore_errors=True)
            shutil.copytree(self._setup.checkpoint, self._copy)
        self._restart()
        self._wait_for_batches(self._chance.randrange(1, 4))
        self.job.kill()
        shutil.rmtree(self._setup.checkpoint)
        shutil.copytree(self._copy, self._setup.checkpoint)
        harness.progress(f"restored: batch {self.committed()} is the last")
        self._restart()

    def _poison(self) -> None:
        """Send an event dated 9999: it must become a dead letter and make no later event late."""
        self._producer.poison()


def crash(kills: int, folder: Path, seed: int, minutes: float | None = None) -> CrashOutcome:
    """Inject faults, up to a number or a time, and report the content of the sinks."""
    from confluent_kafka.admin import AdminClient, NewTopic

    begin = time.monotonic()
    jars = connectors()
    with (
        Broker(folder / "broker") as broker,
        tempfile.TemporaryDirectory(prefix="perseid-postgres-") as data,
        Postgres(Path(data)) as database,
        Disk(folder / "disk") as disk,
    ):
        topics = [NewTopic(name, PARTITIONS, 1) for name in ("events", "answers")]
        admin = AdminClient({"bootstrap.servers": broker.servers})
        for made in admin.create_topics(topics).values():
            made.result(20)
        setup = JobSetup(disk.folder / "job", broker.servers, database.url, jars, SETTINGS)
        for name, retry_for in (("without-retries.yaml", "0 seconds"), ("job.yaml", "10 minutes")):
            setup.write(name, trigger="1 second", retry_for=retry_for)
        with EventProducer(broker.servers, seed, PACE) as producer:
            injector = FaultInjector(folder, disk, broker, setup, producer, seed)
            try:
                injector.inject_faults(kills, math.inf if minutes is None else begin + 60 * minutes)
                expected = expected_matches(producer.close())
                injector.finish(lambda: len(postgres(database.url)) >= len(expected))
            finally:
                injector.close()
        found = read_all_sinks(setup.folder, database.url, broker.servers)
        letters = len(parquet_rows(setup.folder / "out" / "dead"))
        batches = injector.committed() + 1
    return CrashOutcome(
        seed, injector.fault_stats, expected, found, (producer.bad, letters), batches, time.monotonic() - begin
    )


def table(outcome: CrashOutcome) -> str:
    """Return the result as a text table."""
    lines = [f"{'fault':<8} {'times':>5} {'restarts':>8} {'median s':>8} {'most s':>7} {'lost':>5} {'duplicates':>10}"]
    for kind, stats in outcome.fault_stats.items():
        middle, most = statistics.median(stats.seconds), max(stats.seconds)
        lines.append(
            f"{kind:<8} {stats.faults:>5} {stats.restarts:>8} {middle:>8.1f} {most:>7.1f} {stats.lost:>5} {stats.duplicates:>10}"
        )
    lines.append(
        f"{'sink':<8} {'rows':>6} {'lost':>5} {'unexpected':>10} {'duplicates':>10}   of {len(outcome.expected):,} matches"
    )
    for name, found in outcome.found.items():
        lost, unexpected, duplicates = outcome.lost(name), outcome.unexpected(name), outcome.duplicates(name)
        lines.append(f"{name:<8} {sum(found.values()):>6} {lost:>5} {unexpected:>10} {duplicates:>10}")
    lines.append(f"dead letters: {outcome.letters[1]} of {outcome.letters[0]}")
    lines.append(f"{outcome.batches} batches, {outcome.seconds:.0f} s, seed {outcome.seed}")
    return "\n".join(lines)


def figures(outcome: CrashOutcome) -> Mapping[str, float]:
    """Return shares of correct rows: 1 if all are correct."""
    whole = len(outcome.expected)
    made: dict[str, float] = {"faults": sum(stats.faults for stats in outcome.fault_stats.values())}
    for name in outcome.found:
        bad = outcome.lost(name) + outcome.unexpected(name) + (outcome.duplicates(name) if name in ONCE else 0)
        made[f"{name}.right"] = 1.0 - bad / whole
    sent, there = outcome.letters
    made["dead_letters.right"] = 1.0 - abs(sent - there) / max(sent, 1)
    return made


def run(
    size: str, data: Path, kills: int | None = None, seed: int | None = None, minutes: float | None = None
) -> harness.Report:
    report = harness.Report("crash", size)
    signal.signal(
        signal.SIGTERM, lambda number, _frame: sys.exit(128 + number)
    )  # Servers and mounts are released on exit.
    try:
        outcome = crash(kills or KILLS[size], data, random.randrange(10**6) if seed is None else seed, minutes)
    except CrashError as error:
        report.add("faults", None, str(error))
        return report
    harness.print_line(table(outcome))
    for name, figure in figures(outcome).items():
        # Rounded up, a missing thousandth would count as complete.
        report.figures[name] = figure
    return report
