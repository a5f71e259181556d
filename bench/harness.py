"""Timing and validation: rounds in turns, medians of paired ratios, targets, the last line of JSON."""

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
    """The time limit is over. Not an Exception, so that no handler takes it for a failure of its own."""


class MissingToolError(Exception):
    """The machine lacks something that the benchmark needs; the message says what, and how to install it."""


@contextmanager
def time_limit(seconds: float, stop: Callable[[], object] | None = None) -> Iterator[None]:
    """Raise :class:`TimeUp` if the block does not end in time. Main thread only; limits do not nest.

    With ``stop``, nothing is interrupted here: ``stop`` is called repeatedly until the block ends.
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
    """A result and its measured seconds, returned by a call that does more than is timed."""

    seconds: float
    result: object


@dataclass(frozen=True)
class Side:
    """A side of a benchmark: its name in the table, its call, and the only valid result."""

    name: str
    run: Callable[[], object]
    expected: object = None
    proof: Callable[[], object] | None = None
    """Warm-up for a timed run that does not return its result: must return the expected one."""


@dataclass
class Record:
    """Seconds of a side's rounds, or why there are none."""

    seconds: list[float] = field(default_factory=list)
    failure: str | None = None


class Clock:
    """Time limits: of the whole run, from the start of the process, and of one call."""

    def __init__(self, total: float, call: float) -> None:
        self._end = _BEGIN + total
        self._call = call

    def allowance(self) -> float:
        """Seconds that the next call may take; zero or less if the time is up."""
        return min(self._call, self._end - time.monotonic())


def run_rounds(
    sides: Sequence[Side],
    clock: Clock,
    *,
    rounds: int = ROUNDS,
    warm: int = 1,
    stop: Callable[[], object] | None = None,
) -> dict[str, Record]:
    """Warm all sides up, the first time with proof, then run them in turns, every other round in reverse order.

    A side that fails is dropped. ``stop`` ends a call from another thread, where raising inside it would be unsafe.
    """
    records = {one.name: Record() for one in sides}
    for turn in range(warm + rounds):
        for one in sides if turn % 2 == 0 else reversed(sides):
            record = records[one.name]
            if record.failure is not None:
                continue
            work = one.proof if turn == 0 and one.proof is not None else one.run
            taken, record.failure = _run_timed(work, one.expected, clock.allowance(), stop)
            if turn >= warm and record.failure is None:
                record.seconds.append(taken)
    return records


def _run_timed(
    work: Callable[[], object], expected: object, allowed: float, stop: Callable[[], object] | None
) -> tuple[float, str | None]:
    """Return the seconds of a call, and its failure if any."""
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
    """Median over rounds of the speed of ours as a multiple of theirs; or None and the reason."""
    for who, record in (("ours", ours), ("theirs", theirs)):
        if record.failure is not None:
            return None, f"{who}: {record.failure}"
    if len(ours.seconds) != len(theirs.seconds) or not ours.seconds:
        return None, "no paired rounds"
    return statistics.median(b / a for a, b in zip(ours.seconds, theirs.seconds, strict=True)), ""


@dataclass
class Report:
    """Figures of a run, where larger is better, and the reasons for missing ones."""

    bench: str
    size: str
    figures: dict[str, float | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)

    def add(self, name: str, figure: float | None, reason: str = "") -> None:
        """Add a figure; a missing one has a reason."""
        self.figures[name] = figure if figure is None else float(f"{figure:.4g}")
        if figure is None:
            self.reasons[name] = reason

    def short(self, targets: Mapping[str, float]) -> list[str]:
        """Figures below their target, and targets without a figure, because a missing figure does not meet its target."""
        found = ((name, self.figures.get(name)) for name in targets)
        return [name for name, figure in found if figure is None or figure < targets[name]]

    def last_line(self, targets: Mapping[str, float]) -> str:
        """The machine-readable line of JSON."""
        return json.dumps(
            {"bench": self.bench, "size": self.size, "figures": self.figures, "short": self.short(targets)}
        )

    def table(self, targets: Mapping[str, float]) -> str:
        """A text table of the figures and their targets."""
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
        """A Markdown table of every target, its figure and whether it is met."""
        lines = ["| figure | target | measured | met |", "|---|--:|--:|---|"]
        for name, target in targets.items():
            figure = self.figures.get(name)
            if figure is None:
                lines.append(f"| `{name}` | {target:g} | - | no: {self.reasons.get(name, 'not measured')} |")
            else:
                lines.append(f"| `{name}` | {target:g} | {figure:.3g} | {'no' if figure < target else 'yes'} |")
        return "\n".join(lines)

    def times(self, count: int) -> str:
        """A text table of the times of all sides for ``count`` events."""
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
        """Write the run as JSON, with every time and the machine."""
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
    """Minimum figures of a benchmark at a size."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: float(least) for name, least in tables.get(bench, {}).get(size, {}).items()}


def progress(text: str) -> None:
    """Print progress and the elapsed time to stderr."""
    print_line(f"{time.monotonic() - _BEGIN:6.1f} s  {text}", "stderr")


def print_line(text: str, stream: str = "stdout") -> None:
    """Write a line: results to stdout, progress to stderr."""
    out = sys.stdout if stream == "stdout" else sys.stderr
    out.write(text + "\n")
    out.flush()


def conclude(report: Report, out: Path | None, targets: Mapping[str, float] | None = None) -> int:
    """Print the table and the last line, write the requested files, and return the exit status."""
    least = targets_of(report.bench, report.size) if targets is None else targets
    print_line(report.table(least))
    if out is not None:
        print_line(f"written: {report.write(out, least)}")
    print_line(report.last_line(least))
    return 1 if report.short(least) else 0
