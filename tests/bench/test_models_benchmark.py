"""``python -m bench models`` at a small size: every point has times, wrong matches end the run, missing data is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.harness import Report, targets_of
from bench.models import benchmark, measure, railway, social, trains, ttc
from bench.models.measure import ModelPoint, ResultMismatchError, TimedModel
from perseid.semantics.graphs import Change


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "RAILWAY_SIZES", {"quick": (1,)})
    monkeypatch.setattr(benchmark, "UPDATES", {"quick": 3})
    monkeypatch.setattr(ttc, "ARCHIVE", Path("nowhere.tar.gz"))


@pytest.mark.usefixtures("small")
def test_every_target_has_a_figure_or_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = benchmark.run("quick", tmp_path)
    for size in ("quick", "standard", "full"):
        assert set(targets_of("models", size)) <= set(report.figures)
    assert "PERSEID_DATA" in report.reasons["social.Q1.in_time"]
    assert all(report.figures[f"railway.{name}.{kind}"] for name in railway.QUERIES for kind in trains.KINDS)
    assert "| SemaphoreNeighbor | 1 |" in capsys.readouterr().out
    assert "<svg" in (tmp_path / "models-railway.svg").read_text()


@pytest.mark.deep
def test_figures_of_the_social_media_case() -> None:
    if not ttc.ARCHIVE.exists():
        pytest.skip(f"no models/{ttc.ARCHIVE.name} in the folder of real data, which PERSEID_DATA names")
    report = Report("models", "quick")
    points = social.measure((1, 2), 1, report)
    assert [(point.query, point.size) for point in points] == [(which, size) for size in (1, 2) for which in ttc.TEXTS]
    assert {len(point.updates["change set"]) for point in points} == {20}
    assert set(targets_of("models", "quick")) & {f"social.{name}.in_time" for name in ("Q1", "Q2")} <= set(
        report.figures
    )


def test_wrong_matches_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(measure.BY_HAND, "PosLength", lambda graph: set())
    model = TimedModel(
        ModelPoint("railway", "PosLength", 1), railway.queries("PosLength"), ["PosLength"], railway.of_size(1)
    )
    with pytest.raises(ResultMismatchError, match="PosLength, size 1"):
        model.evaluate_from_scratch()


def test_a_refused_change_ends_the_run() -> None:
    model = TimedModel(
        ModelPoint("railway", "PosLength", 1), railway.queries("PosLength"), ["PosLength"], railway.of_size(1)
    )
    with pytest.raises(ResultMismatchError, match="refused"):
        model.update("inject", [Change("delete", -1)])
