"""Paper 4's experiment: four methods over events more and more out of order, event by event and in calls of our engines."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.disorder import printed
from bench.disorder.arriving import (
    COLUMNS,
    DELAY,
    PATTERN,
    UNIT,
    WITHOUT_NEGATION,
    Course,
    Stream,
    events_of,
    make_stream,
    name_of,
    right_answer,
)
from bench.disorder.calls import run_calls
from bench.disorder.methods import METHODS, follow
from bench.harness import Clock, Contestant, Record, Report, Timed, contest, paired_ratio, progress, say
from perseid.engines.registry import engines

COUNTS = {"quick": 10_000, "standard": 100_000, "full": 1_000_000}
CALLED = {"quick": 10_000, "standard": 100_000, "full": 100_000}
"""Events that go through the engines."""
ROUNDS = {"quick": (5, 1), "standard": (9, 3), "full": (5, 3)}
"""Of the methods, and of the engines."""
LIMITS = {"quick": (55.0, 20.0), "standard": (1800.0, 120.0), "full": (3600.0, 240.0)}
DISORDER = {"quick": (0, 20, 50), "standard": (0, 10, 20, 30, 40, 50), "full": (0, 10, 20, 30, 40, 50)}
RATES = {"quick": (1.0,), "standard": (1.0, 1.5), "full": (1.0, 1.5)}
"""Reads of a tag in a unit of time; of more reads more matches are made, and more of them broken."""
CALL = 100
"""Arrivals that an engine is given at once."""
ENGINES = {
    "K-slack": "sequence",
    "conservative": "conservative",
    "aggressive": "aggressive",
    "early": "early",
    "assemble": "assemble",
}


@dataclass(frozen=True)
class Measured:
    """A method, or an engine, at one disorder."""

    method: str
    disorder: int
    events: int
    seconds: float
    held: int
    """The most that was held at once: events and matches, or bytes of state."""
    latency: float
    """Arrivals from the last of a match's events to its being told, on average."""
    accuracy: float
    """The share of right matches that stand in the end."""
    sound: float
    """The share of right ones among all that were ever told."""
    retracted: float
    """Those taken back, as a share of those told."""

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    def line(self, unit: str) -> str:
        millis = self.latency * self.seconds / self.events * 1000
        return (
            f"{self.disorder:>3} %  {self.method:<12}  {self.seconds:8.4f} s  {self.rate / 1000:7,.0f} thousand/s  "
            f"held {self.held:>7,} {unit}  latency {self.latency:6.1f} arrivals {millis:8.3f} ms  "
            f"right {self.accuracy:7.2%}, of all told {self.sound:7.2%}  taken back {self.retracted:7.3%}"
        )


def run(size: str, out: Path | None = None) -> Report:
    """Measure at a size; charts go where figures go."""
    clock, report = Clock(*LIMITS[size]), Report("disorder", size)
    for rate in RATES[size]:
        _event_by_event(report, clock, rate, out)
    _in_calls(report, clock)
    return report


def _event_by_event(report: Report, clock: Clock, rate: float, out: Path | None) -> None:
    """The methods as the paper measures them."""
    plan = engines()["assemble"].plan(PATTERN.plan(), COLUMNS)
    unforced = engines()["assemble"].plan(WITHOUT_NEGATION.plan(), COLUMNS)
    first = RATES[report.size][0]
    prefix = "" if rate == first else f"rate {rate:g} "
    measured: list[Measured] = []
    say(f"event by event, {COUNTS[report.size]:,} events, {rate:g} reads of a tag in a unit")
    for percent in DISORDER[report.size]:
        stream = make_stream(COUNTS[report.size], percent, rate=rate)
        right = events_of(right_answer(stream))
        bare = stream.without_promises()

        def attempt(name: str, bare: Stream = bare, stream: Stream = stream) -> Course:
            return follow(name, plan, (stream if name == "conservative" else bare).rows, DELAY, UNIT)

        records, some = _contest(report, clock, METHODS, attempt, stream, right, 0)
        measured += some
        for one in some:
            say(one.line("things"))
            report.add(f"{prefix}{one.method}.{percent}.accuracy", one.accuracy)
            if one.retracted or one.method == "aggressive":
                report.add(f"{prefix}{one.method}.{percent}.retracted", one.retracted)
        report.records.update({f"{prefix}{percent} % {name}": record for name, record in records.items()})
        _against(report, f"{prefix}assemble.{percent}", records)
        free = follow("assemble", unforced, bare.rows, DELAY, UNIT)
        late = stream.latency(free.events, free.moment).mean()
        say(f"{percent:>3} %  assemble, nothing negated: latency {late:.1f} arrivals")
        for how, mended in (("as printed", False), ("its counter mended", True)):
            found = name_of(printed.told(stream, mended=mended))
            hits = int(np.isin(np.unique(found), name_of(right)).sum())
            say(
                f"{percent:>3} %  Algorithm 1 {how}: told {len(found):,}, of them right {hits:,}; "
                f"accuracy {hits / len(right):.2%}"
            )
        progress(f"{percent} % ({stream.disorder:.0%} behind), {len(right):,} matches")
    ends = [one.rate for one in measured if one.method == "assemble"]
    report.add(f"{prefix}assemble.steady", ends[-1] / ends[0])
    if out is not None:
        from bench.disorder.charts import draw

        for path in draw([asdict(one) | {"rate": one.rate} for one in measured], out, f"disorder-{rate:g}"):
            say(f"drawn: {path.name}")


def _in_calls(report: Report, clock: Clock) -> None:
    """Our engines, with all they do beside: rows arranged, state read and written, matches as tables."""
    there = {name: engines()[engine] for name, engine in ENGINES.items()}
    plans = {name: engine.plan(PATTERN.plan(), COLUMNS) for name, engine in there.items()}
    say(f"\nour engines, {CALLED[report.size]:,} events in calls of {CALL}")
    for percent in DISORDER[report.size]:
        stream = make_stream(CALLED[report.size], percent)
        right = events_of(right_answer(stream))

        def attempt(name: str, stream: Stream = stream) -> Course:
            return run_calls(there[name], plans[name], stream, CALL)

        records, some = _contest(report, clock, tuple(there), attempt, stream, right, 1)
        for one in some:
            say(one.line("bytes"))
            report.add(f"calls.{one.method}.{percent}.accuracy", one.accuracy)
        report.records.update({f"calls {percent} % {name}": record for name, record in records.items()})
        _against(report, f"calls.assemble.{percent}", records)


def _contest(
    report: Report,
    clock: Clock,
    names: Sequence[str],
    attempt: Callable[[str], Course],
    stream: Stream,
    right: Any,
    which: int,
) -> tuple[dict[str, Record], list[Measured]]:
    """Let all run, each with the right answer in the end, and say what they took."""
    kept: dict[str, Course] = {}
    named = np.sort(name_of(right))
    wanted = named.tobytes()

    def run_one(name: str) -> Timed:
        kept[name] = attempt(name)
        return Timed(kept[name].seconds, wanted if kept[name].stands().tobytes() == wanted else "other matches")

    contestants = [Contestant(name, partial(run_one, name), wanted) for name in names]
    records = contest(contestants, clock, rounds=ROUNDS[report.size][which])
    measured = []
    for name, one in kept.items():
        if not records[name].seconds:
            say(f"{name}: {records[name].failure}")
            continue
        told, back = name_of(one.events[~one.back]), int(one.back.sum())
        measured.append(
            Measured(
                name,
                stream.percent,
                len(stream.arrival),
                statistics.median(records[name].seconds),
                one.peak,
                float(stream.latency(one.events, one.moment)[~one.back].mean()),
                float(np.isin(named, one.stands()).mean()),
                float(np.isin(told, named).mean()),
                back / max(len(told), 1),
            )
        )
    return records, measured


def _against(report: Report, figure: str, records: dict[str, Record]) -> None:
    """How many times as fast as the fastest of the paper's others assemble is."""
    ratios = [paired_ratio(records["assemble"], records[name]) for name in METHODS if name != "assemble"]
    known = [ratio for ratio, _ in ratios if ratio is not None]
    report.add(figure, min(known) if len(known) == len(ratios) else None, next((why for _, why in ratios if why), ""))
