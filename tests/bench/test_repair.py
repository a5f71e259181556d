"""The bench of repairs: both fixes of the paper's case, within a second."""

from __future__ import annotations

from bench import harness
from bench.repair import run


def test_both_fixes_within_a_second() -> None:
    report = run("quick")
    assert report.short(harness.targets_of("repair", "quick")) == []
