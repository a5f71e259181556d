"""Entries to parts of a real floor, by Wi-Fi signal strengths: detections as in Figures 9 and 10.

Regions are chosen by a rule, from training walks alone: squares of three by three cells (9 m) from the corner of the
grid; each region that a training walk ever entered has one query. A step is a sample, about five seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import perseid as ps
from bench.uncertain.quality import FILTERED, INDEPENDENT, MAP, MARKOV, MLE, THRESHOLDS, Approach, Curves, moments
from bench.uncertain.scoring import Moments, curve
from bench.uncertain.walks import WALKS, Grid, Walk, learn, make_grid, read_walks

ENTERS = """
pattern enters
match At a [cell not in Region] -> At b must (cell not in Region) -> At c must (cell in Region)
within forever
partition by walk
selection successor
"""
SIDE = 3
"""Cells of a region's side."""
TOLERANCES = (1, 2, 6)
"""Samples: about 5, 10 and 30 seconds."""
APPROACHES: tuple[Approach, ...] = (INDEPENDENT, FILTERED, MLE, MARKOV, MAP)
FOLDS = 5


def has_data() -> bool:
    return WALKS.exists()


def regions_of(grid: Grid, train: Sequence[Walk]) -> dict[str, Any]:
    """By name, the cells of each region that some training walk entered after two samples outside."""
    squares, of = np.unique(grid.cells // [1, SIDE, SIDE], axis=0, return_inverse=True)
    of = of.reshape(-1)
    entered = np.zeros(len(squares), bool)
    for walk in train:
        entered[of[grid.locate(walk)[entries(of[grid.locate(walk)])]]] = True
    return {f"region {i}": np.flatnonzero(of == i) for i in np.flatnonzero(entered).tolist()}


def entries(region: Any) -> Any:
    """Samples at which a walk is in a region in which it was not in the two before."""
    return np.flatnonzero((region[2:] != region[1:-1]) & (region[2:] != region[:-2])) + 2


def folds(walks: Sequence[Walk], count: int) -> list[tuple[list[Walk], list[Walk]]]:
    """``count`` folds: a different fifth of the walks for testing, the others for training."""
    which = np.random.default_rng(5).permutation(len(walks)) % FOLDS
    return [
        ([w for w, f in zip(walks, which, strict=True) if f != fold], [w for w, f in zip(walks, which, strict=True) if f == fold])
        for fold in range(count)
    ]  # fmt: skip


def measure(count: int = FOLDS, every: int = 1) -> tuple[dict[tuple[str, int], Curves], int, int]:
    """Scores by approach and tolerance, a row per walk; and the numbers of queried regions and of entries.

    With ``every``, only every second or third region is queried, to save time.
    """
    found: dict[tuple[str, int], list[Any]] = {(one.name, d): [] for one in APPROACHES for d in TOLERANCES}
    queried, entered = 0, 0
    for train, test in folds(read_walks(), count):
        grid = make_grid(train)
        strengths = learn(train, grid)
        regions = dict(list(regions_of(grid, train).items())[::every])
        queried = max(queried, len(regions))
        model, rows = _model(grid), _rows(test, strengths)
        labels = {walk.name: _labels(grid, walk, regions) for walk in test}
        entered += sum(map(len, labels.values()))
        for one in APPROACHES:
            matched = _detect(rows, model, one, regions)
            for walk in test:
                keys, steps, chance = matched
                own = np.char.startswith(keys, f"{walk.name}/")
                for d in TOLERANCES:
                    scored = curve(Moments(keys[own], steps[own]), chance[own], labels[walk.name], THRESHOLDS, d)
                    found[one.name, d].append((scored.precision, scored.recall))
    return {name: Curves(*np.array(rows).transpose(1, 0, 2)) for name, rows in found.items()}, queried, entered


def _model(grid: Grid) -> Any:
    full = np.zeros((len(grid.cells), len(grid.cells)))
    old, new, chance = grid.transitions()
    full[old, new] = chance
    return ps.uncertain.hidden_markov(values=range(len(grid.cells)), transitions=full)


def _rows(walks: Sequence[Walk], strengths: Any) -> pa.Table:
    return pa.table(
        {
            "walk": [walk.name for walk in walks for _ in range(len(walk))],
            "ts": moments(pa.array(np.concatenate([np.arange(len(walk)) for walk in walks]))),
            "likelihood": pa.array(
                [row for walk in walks for row in strengths.likelihood(walk)], pa.list_(pa.float64())
            ),
        }
    )


def _labels(grid: Grid, walk: Walk, regions: dict[str, Any]) -> Moments:
    cells = grid.locate(walk)
    keys, steps = [], []
    for name, own in regions.items():
        inside = np.isin(cells, own)
        for step in (np.flatnonzero(inside[2:] & ~inside[1:-1] & ~inside[:-2]) + 2).tolist():
            keys.append(f"{walk.name}/{name}")
            steps.append(step)
    return Moments(np.array(keys, str), np.array(steps, np.int64))


def _detect(rows: pa.Table, model: Any, approach: Approach, regions: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Detections: walk and region, step, probability."""
    stream = ps.uncertain_events(
        rows,
        event_type="At",
        key="walk",
        value="cell",
        likelihood="likelihood",
        model=model,
        inference=approach.inference,
        correlated=approach.correlations,
        every="1 second",
    )
    pattern = ps.pattern(ENTERS)
    keys, steps, chance = [np.zeros(0, str)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for name, own in regions.items():
        table = pattern.match(
            stream, relations={"Region": [(cell,) for cell in own.tolist()]}, emit=ps.uncertain.above(0.001)
        )
        matched = table.to_arrow()
        keys.append(np.array([f"{walk}/{name}" for walk in matched["walk"].to_pylist()], str))
        steps.append(np.asarray(matched["time"].cast(pa.int64())) // 1_000_000)
        chance.append(np.asarray(matched["p"]))
    return np.concatenate(keys), np.concatenate(steps), np.concatenate(chance)
