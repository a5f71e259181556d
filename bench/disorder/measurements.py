"""Measurements of a method or an engine, and their Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.disorder.workload import Quality


@dataclass(frozen=True)
class MethodMeasurement:
    """A method, or an engine in calls of a size, at one share of delayed events."""

    method: str
    disorder: int
    """Delayed events, in percent."""
    events: int
    seconds: float
    peak_bytes: int
    """Largest state."""
    latency: float
    """Mean arrivals from the last of a match's events to its output."""
    latency_ms: float
    quality: Quality
    late: int = 0
    """Events that were dropped as late."""
    call: int = 1
    """Arrivals in a call."""

    @property
    def rate(self) -> float:
        return self.events / self.seconds


Cell = Callable[[MethodMeasurement], str]


def time_cell(one: MethodMeasurement) -> str:
    return f"{one.seconds * 1000:,.1f}"


def rate_cell(one: MethodMeasurement) -> str:
    return f"{one.rate / 1000:,.0f}"


def bytes_cell(one: MethodMeasurement) -> str:
    return f"{one.peak_bytes:,}"


def latency_cell(one: MethodMeasurement) -> str:
    return f"{one.latency:,.1f} ({_milliseconds(one.latency_ms)} ms)"


def quality_cell(one: MethodMeasurement) -> str:
    """Recall / precision of all emitted matches, and of those that are not retracted if they differ."""
    made = one.quality
    emitted, final = (made.emitted_recall, made.emitted_precision), (made.recall, made.precision)
    both = [" / ".join(map(share, pair)) for pair in (emitted, final)]
    return both[0] if both[0] == both[1] else f"{both[0]} → {both[1]}"


def share(value: float) -> str:
    """A share in percent; 100 only if it is exact."""
    text = f"{value * 100:.3f}"
    return "100" if value == 1 else "99.999" if text == "100.000" else text


def _milliseconds(value: float) -> str:
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.5f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def pivot(measurements: Sequence[MethodMeasurement], cell: Cell, *, calls: bool = False) -> str:
    """A row for each share of delayed events (and size of calls), a column for each method."""
    methods = list(dict.fromkeys(one.method for one in measurements))
    known = {(one.call, one.disorder, one.method): one for one in measurements}
    rows = []
    for call, disorder in dict.fromkeys((one.call, one.disorder) for one in measurements):
        cells = [known.get((call, disorder, method)) for method in methods]
        first = [f"{call:,}"] if calls else []
        rows.append([*first, f"{disorder} %", *("-" if one is None else cell(one) for one in cells)])
    return table([*(["events in a call"] if calls else []), "delayed", *methods], rows)


def all_rows(measurements: Sequence[MethodMeasurement]) -> str:
    """A row for each measurement, with everything that was measured."""
    head = [
        "call", "delayed", "method", "ms", "events/s", "largest state, bytes", "latency, arrivals", "latency, ms",
        "emitted: recall %", "emitted: precision %", "retracted %", "final: recall %", "final: precision %", "late events",
    ]  # fmt: skip
    return table(
        head,
        (
            [
                f"{one.call:,}", f"{one.disorder} %", one.method, f"{one.seconds * 1000:,.2f}", f"{one.rate:,.0f}",
                bytes_cell(one), f"{one.latency:,.1f}", _milliseconds(one.latency_ms), share(one.quality.emitted_recall),
                share(one.quality.emitted_precision), share(one.quality.retracted), share(one.quality.recall),
                share(one.quality.precision), f"{one.late:,}",
            ]
            for one in measurements
        ),
    )  # fmt: skip
