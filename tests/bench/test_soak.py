"""Whether something grows is told from its samples: by a fit that a few outliers do not move."""

from __future__ import annotations

import os
import random

from bench.harness import Report
from bench.pipeline.soak import MAX_GROWTH, Sample, check_growth, churning, growth, memory


def _samples(levels: list[float]) -> list[Sample]:
    return [Sample(10.0 * i, {"level": level}) for i, level in enumerate(levels)]


def test_what_grows_steadily_is_found_in_the_noise() -> None:
    noise = random.Random(1)
    grown = growth(_samples([100 + 0.2 * i + noise.uniform(-3, 3) for i in range(120)]), "level")
    assert grown > MAX_GROWTH
    assert abs(grown - 0.2 * 119 / 112) < 0.05


def test_what_is_level_stays_so_with_outliers_at_its_end() -> None:
    noise = random.Random(1)
    levels = [100 + noise.uniform(-3, 3) for _ in range(110)] + [400.0] * 10
    assert abs(growth(_samples(levels), "level")) < MAX_GROWTH


def test_what_was_mostly_nothing_is_not_called_level() -> None:
    report = Report("soak", "full")
    check_growth(report, _samples([0.0] * 20 + [50.0] * 5))
    assert report.figures["level.flat"] is None


def test_keys_come_and_go_and_some_never_end() -> None:
    events = churning()
    first = [next(events) for _ in range(10_000)]
    begun = [key for key, kind in first if kind == "A"]
    ended = {key for key, kind in first if kind == "B"}
    assert begun == list(range(len(begun)))
    assert 0.6 < len(ended) / len(begun) < 0.8


def test_the_memory_of_this_process_is_seen() -> None:
    seen = memory()
    with open(f"/proc/{os.getpid()}/statm") as file:
        pages = int(file.read().split()[1])
    assert abs(seen["driver Python"] - pages * os.sysconf("SC_PAGE_SIZE") / 2**20) < 5
