"""The benchmark against Esper, without Java: data exchange, failures and figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench import ours, truth
from bench.esper import benchmark, process
from bench.esper.queries import FORMS
from bench.harness import Clock, Report, Timed, targets_of
from bench.java import RoundsError
from bench.truth import MatchChecksum
from bench.workload import QUERIES, Query, generate

RIGHT = MatchChecksum(3, 12)


def run_contest(esper: Callable[[], Timed]) -> Report:
    report = Report("esper", "standard")
    benchmark.compare(
        report,
        "Q1",
        kernel=lambda: Timed(0.25, RIGHT),
        ordered=lambda: Timed(0.5, RIGHT),
        esper=esper,
        right=RIGHT,
        clock=Clock(3600, 60),
    )
    return report


def test_events_are_sent_as_columns(tmp_path: Path) -> None:
    events = generate("plain", 50, keys=5)
    process.write_events(events, tmp_path / "events")
    content = (tmp_path / "events").read_bytes()
    assert len(content) == 29 * 50
    assert (np.frombuffer(content, "<i8", 50, 8 * 50) == events.ts).all()
    assert (np.frombuffer(content, "<i4", 50, 16 * 50) == events.key).all()
    assert (np.frombuffer(content, "<i1", 50, 20 * 50) == events.type).all()
    assert (np.frombuffer(content, "<f8", 50, 21 * 50) == events.v).all()


def test_kernel_and_kernel_with_ordering_are_both_compared() -> None:
    report = run_contest(lambda: Timed(5.0, RIGHT))
    assert report.figures == {"Q1.esper": 20.0, "Q1.esper_with_ordering": 10.0}
    assert len(report.records["Q1 esper"].seconds) == benchmark.ROUNDS


def test_other_matches_equal_in_number_give_no_figure() -> None:
    report = run_contest(lambda: Timed(5.0, MatchChecksum(3, 13)))
    assert report.figures == {"Q1.esper": None, "Q1.esper_with_ordering": None}
    assert report.reasons["Q1.esper"] == "other matches: 3 (ids 13), right is 3 (ids 12)"
    assert "other matches" in report.table({})


def test_failed_baseline_gives_no_figure() -> None:
    def fail() -> Timed:
        raise RoundsError("out of memory")

    report = run_contest(fail)
    assert report.reasons["Q1.esper"] == "theirs: out of memory"
    assert report.short({"Q1.esper": 10.0}) == ["Q1.esper"]


def test_exactly_the_queries_with_an_esper_form_have_targets() -> None:
    assert set(targets_of("esper", "standard")) == {f"{name}.esper" for name in FORMS}


@pytest.mark.parametrize("query", [QUERIES[name] for name in FORMS], ids=lambda q: q.name)
def test_engine_with_ordering_finds_the_expected_matches(query: Query) -> None:
    events = generate("plain", 20_000, keys=50)
    rate, found = ours.engine_rate(query, events)
    assert rate > 0
    assert found == truth.expected_result(query.name, events.by_key())
