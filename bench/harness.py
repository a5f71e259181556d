"""How things are timed and judged: contests in rounds, medians of paired ratios, targets, the last line of JSON."""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NamedTuple

TARGETS = Path(__file__).with_name("targets.toml")
ROUNDS = 3
_BEGIN = time.monotonic()


class TimeUp(BaseException):
    """The time allowed is over; not an Exception, so that nothing on the way takes it for a failure of its own."""


class MissingToolError(Exception):
    """A benchmark needs something that this machine does not have; says what, and how to get it."""


@contextmanager
def time_limit(seconds: float, stop: Callable[[], object] | None = None) -> Iterator[None]:
    """Raise :class:`TimeUp` when the block has not ended in time. Main thread only; limits do not nest.

    With ``stop``, nothing is interrupted here: ``stop`` is called, again and again, until the block ends.
    """
    if stop is not None:
        with _stopped_from_outside(seconds, stop):
            yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _stopped_from_outside(seconds: float, stop: Callable[[], object]) -> Iterator[None]:
    ended, late = threading.Event(), threading.Event()

    def watch() -> None:
        wait = seconds
        while not ended.wait(wait):
            late.set()
            stop()
            wait = 0.5

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except Exception:
        if late.is_set():
            raise TimeUp from None
        raise
    finally:
        ended.set()
        watcher.join()


class Timed(NamedTuple):
    """What was found, and the seconds that count: given by a call that does more than is to be timed."""

    seconds: float
    answer: object


@dataclass(frozen=True)
class Contestant:
    """Something that answers a question, how it is called in the table, and the only answer whose time counts."""

    name: str
    run: Callable[[], object]
    expected: object = None
    proof: Callable[[], object] | None = None
    """The warm-up, where the timed run cannot show its answer: must give what is expected."""


@dataclass
class Record:
    """The seconds of a contestant's rounds, or why there are none."""

    seconds: list[float] = field(default_factory=list)
    failure: str | None = None


class Clock:
    """The time a whole run may take from the start of the process, and the most that one call may."""

    def __init__(self, total: float, call: float) -> None:
        self._end = _BEGIN + total
        self._call = call

    def allowance(self) -> float:
        """Seconds the next call may take; zero or less when time is up."""
        return min(self._call, self._end - time.monotonic())


def contest(
    contestants: Sequence[Contestant],
    clock: Clock,
    *,
    rounds: int = ROUNDS,
    warm: int = 1,
    stop: Callable[[], object] | None = None,
) -> dict[str, Record]:
    """Let all run to warm up, the first time with proof, then in turns, every other round backwards. Who fails is out.

    ``stop`` ends a call from another thread, where raising in the midst of it would do harm.
    """
    records = {one.name: Record() for one in contestants}
    for turn in range(warm + rounds):
        for one in contestants if turn % 2 == 0 else reversed(contestants):
            record = records[one.name]
            if record.failure is not None:
                continue
            work = one.proof if turn == 0 and one.proof is not None else one.run
            taken, record.failure = _attempt(work, one.expected, clock.allowance(), stop)
            if turn >= warm and record.failure is None:
                record.seconds.append(taken)
    return records


def _attempt(
    work: Callable[[], object], expected: object, allowed: float, stop: Callable[[], object] | None
) -> tuple[float, str | None]:
    """The seconds that a call took, and what was wrong with it."""
    if allowed <= 0:
        return 0.0, "the run's time was up"
    start = time.perf_counter()
    try:
        with time_limit(allowed, stop):
            found = work()
    except TimeUp:
        return 0.0, f"not done after {allowed:.0f} s"
    except NotImplementedError as error:
        return 0.0, f"not measured: {error}"
    except Exception as error:
        return 0.0, f"{type(error).__name__}: {(str(error).strip() or 'no reason given').splitlines()[0]}"
    taken = time.perf_counter() - start
    if isinstance(found, Timed):
        taken, found = found
    return taken, None if found == expected else f"wrong answer: {_plain(found)}, right is {_plain(expected)}"


def _plain(value: object) -> str:
    return str(tuple(value)) if isinstance(value, tuple) else str(value)


def paired_ratio(ours: Record, theirs: Record) -> tuple[float | None, str]:
    """How many times as fast we are, as the median over rounds; or None and why."""
    for who, record in (("ours", ours), ("theirs", theirs)):
        if record.failure is not None:
            return None, f"{who}: {record.failure}"
    if len(ours.seconds) != len(theirs.seconds) or not ours.seconds:
        return None, "no paired rounds"
    return statistics.median(b / a for a, b in zip(ours.seconds, theirs.seconds, strict=True)), ""


@dataclass
class Report:
    """The figures of a run, larger being better, and the reasons for those that are missing."""

    bench: str
    size: str
    figures: dict[str, float | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)

    def add(self, name: str, figure: float | None, reason: str = "") -> None:
        """Put down a figure; one that is missing says why."""
        self.figures[name] = figure if figure is None else float(f"{figure:.4g}")
        if figure is None:
            self.reasons[name] = reason

    def short(self, targets: Mapping[str, float]) -> list[str]:
        """Figures below their target, and targets without a figure: what was not measured is not met."""
        found = ((name, self.figures.get(name)) for name in targets)
        return [name for name, figure in found if figure is None or figure < targets[name]]

    def last_line(self, targets: Mapping[str, float]) -> str:
        """The line of JSON that machines read."""
        return json.dumps(
            {"bench": self.bench, "size": self.size, "figures": self.figures, "short": self.short(targets)}
        )

    def table(self, targets: Mapping[str, float]) -> str:
        """The figures for people, beside their targets."""
        width = max(map(len, [*self.figures, *targets, "figure"]))
        lines = [f"{'figure':<{width}}  {'value':>10}  {'target':>7}"]
        for name in dict.fromkeys([*self.figures, *targets]):
            figure, target = self.figures.get(name), targets.get(name)
            value = "-" if figure is None else f"{figure:,.0f}" if figure >= 1000 else f"{figure:.2f}"
            verdict = self.reasons.get(name, "not measured") if figure is None else ""
            if target is not None and figure is not None:
                verdict = "short" if figure < target else "ok"
            aim = "" if target is None else f"{target:g}"
            lines.append(f"{name:<{width}}  {value:>10}  {aim:>7}  {verdict}".rstrip())
        return "\n".join(lines)

    def target_table(self, targets: Mapping[str, float]) -> str:
        """Every target with its figure and whether it is met, as a Markdown table."""
        lines = ["| figure | target | measured | met |", "|---|--:|--:|---|"]
        for name, target in targets.items():
            figure = self.figures.get(name)
            if figure is None:
                lines.append(f"| `{name}` | {target:g} | - | no: {self.reasons.get(name, 'not measured')} |")
            else:
                lines.append(f"| `{name}` | {target:g} | {figure:.3g} | {'no' if figure < target else 'yes'} |")
        return "\n".join(lines)

    def times(self, count: int) -> str:
        """For people: what everybody took for so many events, whatever the ratios."""
        width = max((len(name) for name in self.records), default=0)
        rounds = max((len(record.seconds) for record in self.records.values()), default=0)
        lines = [f"{count:,} events; medians of {rounds} rounds"]
        for name, record in self.records.items():
            if record.failure is not None:
                lines.append(f"{name:<{width}}  {record.failure}")
            elif record.seconds:
                middle = statistics.median(record.seconds)
                rate = count / middle / 1000
                lines.append(f"{name:<{width}}  {middle:9.3f} s  {rate:10,.0f} thousand events/s")
        return "\n".join(lines) + "\n"

    def write(self, folder: Path, targets: Mapping[str, float]) -> Path:
        """Keep the run, with every time and the machine it was taken on, as JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.bench}-{self.size}.json"
        whole = json.loads(self.last_line(targets)) | {
            "targets": dict(targets),
            "reasons": self.reasons,
            "seconds": {name: record.seconds for name, record in self.records.items()},
            "machine": {
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                "system": platform.platform(),
            },
        }
        path.write_text(json.dumps(whole, indent=2) + "\n")
        return path


def targets_of(bench: str, size: str, path: Path = TARGETS) -> dict[str, float]:
    """The least figures of a benchmark at a size."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: float(least) for name, least in tables.get(bench, {}).get(size, {}).items()}


def progress(text: str) -> None:
    """Say on stderr what is going on, and since when."""
    say(f"{time.monotonic() - _BEGIN:6.1f} s  {text}", "stderr")


def say(text: str, stream: str = "stdout") -> None:
    """Write a line: results to stdout, progress to stderr."""
    out = sys.stdout if stream == "stdout" else sys.stderr
    out.write(text + "\n")
    out.flush()


def conclude(report: Report, out: Path | None, targets: Mapping[str, float] | None = None) -> int:
    """Print table and last line, write what was asked for, and give the exit status."""
    least = targets_of(report.bench, report.size) if targets is None else targets
    say(report.table(least))
    if out is not None:
        say(f"written: {report.write(out, least)}")
    say(report.last_line(least))
    return 1 if report.short(least) else 0
