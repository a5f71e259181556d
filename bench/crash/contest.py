"""``python -m bench crash``: a job that is hurt N times in ten ways, and what its sinks hold in the end.

Right is what the same rules find over the same events in this process. Parquet, Delta and PostgreSQL have to hold each of
these once, Kafka at least once. Moments and order come from a seed, which is printed.
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
from bench.crash.feeding import Feeding
from bench.crash.reading import everywhere, parquet_rows, postgres
from bench.crash.running import Started
from bench.crash.workload import PARTITIONS, Named, Setup, answer
from bench.servers.broker import Broker
from bench.servers.jars import SETTINGS, connectors
from bench.servers.postgres import Postgres

KILLS = {"quick": 3, "standard": 20, "full": 100}
PACE = 200
"""Events a second."""
PATIENCE = 240.0
"""Seconds that anything may take before it is called lost."""
ONCE = ("parquet", "delta", "postgres")
"""Sinks that hold each match exactly once."""


class CrashError(Exception):
    """The job did not come back, or did not fail where it has to."""


@dataclass
class Toll:
    """What one way to hurt a job has cost."""

    harms: int = 0
    restarts: int = 0
    """Processes that were started again; a query that the job itself started again is none."""
    seconds: list[float] = field(default_factory=list)
    """From the harm to the next batch that was committed."""
    lost: int = 0
    """Matches that a reader of Kafka had and a sink before it had not."""
    twice: int = 0


@dataclass
class Outcome:
    """How it ended."""

    seed: int
    tolls: dict[str, Toll]
    expected: set[Named]
    found: dict[str, Counter[Named]]
    letters: tuple[int, int]
    """Dead letters that there should be, and that there are."""
    batches: int
    seconds: float

    def lost(self, sink: str) -> int:
        return len(self.expected - set(self.found[sink]))

    def wrong(self, sink: str) -> int:
        """Rows of no match."""
        return len(set(self.found[sink]) - self.expected)

    def twice(self, sink: str) -> int:
        return sum(count - 1 for count in self.found[sink].values())


class Arena:
    """Servers, a producer, and the job between them."""

    def __init__(self, folder: Path, disk: Disk, broker: Broker, setup: Setup, feeding: Feeding, seed: int) -> None:
        self._folder, self._disk, self._broker, self._setup, self._feeding = folder, disk, broker, setup, feeding
        self._chance = random.Random(seed)
        self._hooks, self._log = folder / "hooks", folder / "job.log"
        self._hooks.mkdir()
        self.tolls: dict[str, Toll] = {}
        self._toll = Toll()
        self._twice = self._lost = 0
        self._copy = folder / "older-checkpoint"
        """A copy of the checkpoint; it stays for later faults, which then go back further."""
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

    def _start(self, file: Path | None = None) -> Started:
        # A driver that is killed leaves its copies of jars behind, and a hundred of them would fill the disk by themselves.
        shutil.rmtree(self._setup.folder / "local", ignore_errors=True)
        return Started(file or self._setup.file, self._log, self._hooks)

    def hurt(self, kills: int, until: float = math.inf) -> None:
        """So often, every way as often as any other; no fault is injected after the time ``until`` of the monotonic clock."""
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
            self._toll = self.tolls.setdefault(kind, Toll())
            self._until_batches(1)
            time.sleep(self._chance.uniform(0, 1.5))
            begin = time.monotonic()
            self._kinds[kind]()
            self._until_batches(1)
            self._toll.harms += 1
            self._toll.seconds.append(time.monotonic() - begin)
            self._compare()
            harness.progress(f"{number + 1}/{kills} {kind}: {self._toll.seconds[-1]:.1f} s, batch {self.committed()}")

    def finish(self, whole: Callable[[], bool]) -> None:
        """Until all is there, or long enough that what is missing is lost; then it is asked to leave."""
        with contextlib.suppress(CrashError):
            self._until(whole, "the last match")
        if (status := self.job.leave()) != 0:
            raise CrashError(f"The job ended with {status}.\n{self._said()}")

    # What is waited for

    def committed(self) -> int:
        there = self._setup.checkpoint / "commits"
        return max((int(path.name) for path in there.glob("[0-9]*")), default=-1)

    def _until(self, ready: Callable[[], bool], what: str) -> None:
        """Until something is so; a job that ended meanwhile is started again."""
        end = time.monotonic() + PATIENCE
        while not ready():
            if time.monotonic() > end:
                raise CrashError(f"{what} took too long.\n{self._said()}")
            if self.job.ended:
                self._again()
            time.sleep(0.05)

    def _until_batches(self, more: int) -> None:
        known = self.committed()
        self._until(lambda: self.committed() >= known + more, "the next batch")

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def _again(self) -> None:
        self.job.kill()
        self._toll.restarts += 1
        self.job = self._start()

    def _compare(self) -> None:
        """What this harm has done: Kafka is the first sink of a batch and read last, so it has all that the others have."""
        found = everywhere(self._setup.folder, self._setup.postgres, self._setup.servers)
        lost = sum(len(set(found[name]) - set(found["kafka"])) for name in ONCE)
        twice = sum(count - 1 for name in ONCE for count in found[name].values())
        self._toll.lost += max(0, lost - self._lost)
        self._toll.twice += max(0, twice - self._twice)
        self._lost, self._twice = lost, twice

    # How it is hurt

    def _driver(self) -> None:
        self.job.kill()
        self._again()
        if self._chance.random() < 0.3:  # and once more, while it finds its way back
            time.sleep(self._chance.uniform(1, 10))
            self.job.kill()
            self._again()

    def _workers(self) -> None:
        self._until(lambda: self.job.kill_workers() > 0, "a worker to kill")

    def _kernel(self) -> None:
        self._leave_word("fail-kernel", "")

    def _sink(self) -> None:
        kind = self._chance.choice([*ONCE, "kafka"])
        self._leave_word("fail-sink", f"{kind} {self._chance.choice(['half', 'after'])}")

    def _leave_word(self, name: str, text: str) -> None:
        (self._hooks / f"{name}.new").write_text(text)
        (self._hooks / f"{name}.new").rename(self._hooks / name)
        self._until(lambda: not (self._hooks / name).exists(), f"{name} to be taken")

    def _stop_broker(self) -> None:
        with self._feeding.resting():
            self._broker.stop()
            time.sleep(self._chance.uniform(0.5, 3))
            self._broker.start()

    def _commit(self) -> None:
        self.job.kill()
        last = self._setup.checkpoint / "commits" / str(self.committed())
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
        self._again()

    def _full_disk(self) -> None:
        before = self._log.stat().st_size
        self._disk.fill(self.job.processes())
        try:
            end = time.monotonic() + PATIENCE
            while self._log.stat().st_size == before and not self.job.ended:
                if time.monotonic() > end:
                    raise CrashError(f"Nothing was said of a full disk.\n{self._said()}")
                time.sleep(0.1)
        finally:
            self._disk.free()

    def _state(self) -> None:
        """What the next batch begins with is cut: the job has to say so and stop; with the file as it was it goes on."""
        self.job.kill()
        version = self.committed() + 1
        shards = (self._setup.checkpoint / "state" / "0").iterdir()
        sizes = {shard: sum(file.stat().st_size for file in shard.glob(f"{version}.*")) for shard in shards}
        files = list(max(sizes, key=lambda shard: sizes[shard]).glob(f"{version}.*"))
        whole, said = {file: file.read_bytes() for file in files}, self._log.stat().st_size
        for file, body in whole.items():
            file.write_bytes(body[: len(body) // 2])
        self.job = self._start(self._setup.file.with_name("without-retries.yaml"))
        try:
            status: int | None = self.job.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            self.job.kill()
        words = self._log.read_bytes()[said:].decode(errors="replace")
        if status != 1 or "error" not in words.lower():
            raise CrashError(f"A state that is cut was not told, exit {status}: {words[-2000:]}")
        for file, body in whole.items():
            file.write_bytes(body)
        harness.progress(f"a state that is cut: {words.strip().splitlines()[-1][:300]}")
        self._again()

    def _restore(self) -> None:
        """The checkpoint is replaced by an older copy, of this fault or of an earlier one: sinks have batches that it does not have."""
        self.job.kill()
        if not self._copy.exists() or self._chance.random() < 0.5:
            shutil.rmtree(self._copy, ignore_errors=True)
            shutil.copytree(self._setup.checkpoint, self._copy)
        self._again()
        self._until_batches(self._chance.randrange(1, 4))
        self.job.kill()
        shutil.rmtree(self._setup.checkpoint)
        shutil.copytree(self._copy, self._setup.checkpoint)
        harness.progress(f"restored: batch {self.committed()} is the last")
        self._again()

    def _poison(self) -> None:
        """An event dated 9999 arrives: it is a dead letter, and no later event is late because of it."""
        self._feeding.poison()


def crash(kills: int, folder: Path, seed: int, minutes: float | None = None) -> Outcome:
    """Hurt a job so often, or for so long, and report what its sinks hold."""
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
        setup = Setup(disk.folder / "job", broker.servers, database.url, jars, SETTINGS)
        for name, retry_for in (("without-retries.yaml", "0 seconds"), ("job.yaml", "10 minutes")):
            setup.write(name, trigger="1 second", retry_for=retry_for)
        with Feeding(broker.servers, seed, PACE) as feeding:
            arena = Arena(folder, disk, broker, setup, feeding, seed)
            try:
                arena.hurt(kills, math.inf if minutes is None else begin + 60 * minutes)
                expected = answer(feeding.close())
                arena.finish(lambda: len(postgres(database.url)) >= len(expected))
            finally:
                arena.close()
        found = everywhere(setup.folder, database.url, broker.servers)
        letters = len(parquet_rows(setup.folder / "out" / "dead"))
        batches = arena.committed() + 1
    return Outcome(seed, arena.tolls, expected, found, (feeding.bad, letters), batches, time.monotonic() - begin)


def table(outcome: Outcome) -> str:
    """For people."""
    lines = [f"{'hurt':<8} {'times':>5} {'restarts':>8} {'median s':>8} {'most s':>7} {'lost':>5} {'twice':>5}"]
    for kind, toll in outcome.tolls.items():
        middle, most = statistics.median(toll.seconds), max(toll.seconds)
        lines.append(
            f"{kind:<8} {toll.harms:>5} {toll.restarts:>8} {middle:>8.1f} {most:>7.1f} {toll.lost:>5} {toll.twice:>5}"
        )
    lines.append(
        f"{'sink':<8} {'rows':>6} {'lost':>5} {'wrong':>5} {'twice':>5}   of {len(outcome.expected):,} matches"
    )
    for name, found in outcome.found.items():
        lost, wrong, twice = outcome.lost(name), outcome.wrong(name), outcome.twice(name)
        lines.append(f"{name:<8} {sum(found.values()):>6} {lost:>5} {wrong:>5} {twice:>5}")
    lines.append(f"dead letters: {outcome.letters[1]} of {outcome.letters[0]}")
    lines.append(f"{outcome.batches} batches, {outcome.seconds:.0f} s, seed {outcome.seed}")
    return "\n".join(lines)


def figures(outcome: Outcome) -> Mapping[str, float]:
    """1 where all is right: shares of what there has to be."""
    whole = len(outcome.expected)
    made: dict[str, float] = {"harms": sum(toll.harms for toll in outcome.tolls.values())}
    for name in outcome.found:
        bad = outcome.lost(name) + outcome.wrong(name) + (outcome.twice(name) if name in ONCE else 0)
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
    )  # servers and mounts are left by leaving
    try:
        outcome = crash(kills or KILLS[size], data, random.randrange(10**6) if seed is None else seed, minutes)
    except CrashError as error:
        report.add("harms", None, str(error))
        return report
    harness.say(table(outcome))
    for name, figure in figures(outcome).items():
        # Rounded up, a thousandth that is missing would be called whole.
        report.figures[name] = figure
    return report
