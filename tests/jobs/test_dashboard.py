"""The dashboard queries only metrics that a job exports."""

from __future__ import annotations

import json
import re
from pathlib import Path

from perseid.jobs.metrics import JobMetrics

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana-jobs.json"


def test_dashboard_queries_only_exported_metrics() -> None:
    exported = {sample.name for family in JobMetrics("job").registry.collect() for sample in family.samples}
    exported |= {family.name for family in JobMetrics("job").registry.collect()} | {"perseid_matches_total"}
    board = json.loads(DASHBOARD.read_text())
    queried = {
        name
        for panel in board["panels"]
        for one in panel["targets"]
        for name in re.findall(r"perseid_\w+", one["expr"])
    }
    assert len(queried) > 15
    assert queried <= exported


def test_panels_do_not_overlap() -> None:
    places = [tuple(panel["gridPos"][name] for name in "xywh") for panel in json.loads(DASHBOARD.read_text())["panels"]]
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(cells) == len(set(cells))
    assert all(x + w <= 24 for x, _, w, _ in places)
