"""The soak benchmark detects growth from samples with a fit that is robust to outliers."""

from __future__ import annotations

import os
import random

from bench.harness import Report
from bench.pipeline.soak import MAX_GROWTH, Sample, check_growth, churning, growth, memory


def _samples(levels: list[float]) -> list[Sample]:
    return [Sample(10.0 * i, {"level": level}) for i, level in enumerate(levels)]


def test_steady_growth_is_found_in_noise() -> None:
    noise = random.Random(1)
    grown = growth(_samples([100 + 0.2 * i + noise.uniform(-3, 3) for i in range(120)]), "level")
    assert grown > MAX_GROWTH
    assert abs(grown - 0.2 * 119 / 112) < 0.05


def test_outliers_at_the_end_are_not_growth() -> None:
    noise = random.Random(1)
    levels = [100 + noise.uniform(-3, 3) for _ in range(110)] + [400.0] * 10
    assert abs(growth(_samples(levels), "level")) < MAX_GROWTH


def test_mostly_zero_samples_give_no_figure() -> None:
    report = Report("soak", "full")
    check_growth(report, _samples([0.0] * 20 + [50.0] * 5))
    assert report.figures["level.flat"] is None


def test_churning_keys_begin_in_order_and_some_never_end() -> None:
    events = churning()
    first = [next(events) for _ in range(10_000)]
    begun = [key for key, kind in first if kind == "A"]
    ended = {key for key, kind in first if kind == "B"}
    assert begun == list(range(len(begun)))
    assert 0.6 < len(ended) / len(begun) < 0.8


def test_memory_of_this_process_is_measured() -> None:
    measured = memory()
    with open(f"/proc/{os.getpid()}/statm") as file:
        pages = int(file.read().split()[1])
    assert abs(measured["driver Python"] - pages * os.sysconf("SC_PAGE_SIZE") / 2**20) < 5
