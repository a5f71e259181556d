"""The benchmark of repairs finds both fixes of the case in the paper within a second."""

from __future__ import annotations

from bench import harness
from bench.repair import run


def test_both_fixes_are_found_within_a_second() -> None:
    report = run("quick")
    assert report.short(harness.targets_of("repair", "quick")) == []
