"""The dashboard asks for what a job tells, and for nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

from perseid.jobs.metrics import JobMetrics

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana-jobs.json"


def test_every_metric_of_the_dashboard_is_one_of_a_job() -> None:
    told = {sample.name for family in JobMetrics("job").registry.collect() for sample in family.samples}
    told |= {family.name for family in JobMetrics("job").registry.collect()} | {"perseid_matches_total"}
    board = json.loads(DASHBOARD.read_text())
    asked = {
        name
        for panel in board["panels"]
        for one in panel["targets"]
        for name in re.findall(r"perseid_\w+", one["expr"])
    }
    assert len(asked) > 15
    assert asked <= told


def test_panels_do_not_lie_on_each_other() -> None:
    places = [tuple(panel["gridPos"][name] for name in "xywh") for panel in json.loads(DASHBOARD.read_text())["panels"]]
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(cells) == len(set(cells))
    assert all(x + w <= 24 for x, _, w, _ in places)
