"""Real indoor walks as uncertain streams: WiFine's Wi-Fi signal strengths, about every five seconds, with the true
place.

A place is a cell of a grid that some training walk passed through. The likelihood of signal strengths in a cell is an
independent Gaussian for each access point, learned from the training walks; the other walks become likelihoods by step
and cell. One device has many access points that rise and fall together, so the product over all of them is
overconfident: a filter's best cell has 0.91 on average and is right in 0.55 of the steps. All together count as 40
(``WEIGHT``): 0.58 and 0.45. Strengths are late: alone, they fit the place of the previous sample better than their own
(0.98 within a cell, against 0.91) and are paired with it (``LATE``). These fractions are of training walks set aside.
All walks are on one floor. The license of the data does not allow redistribution: it is read in place.
"""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bench.real_data import DATA

WALKS = DATA / "indoor" / "wifine_40.tar.gz"
MISSING = -100.0
"""Strength, in dBm, of an access point that was not received: lower than all real ones."""
SIZE, SPREAD, WEIGHT = 3.0, 6.0, 40.0
"""Meters of a cell's side, minimum deviation in dBm, and effective number of access points."""
LATE = 1
"""Delay of strengths in samples."""
LENT = 4.0
"""Weight of a cell's neighborhood in samples, added to the cell's own."""


@dataclass(frozen=True)
class Walk:
    """One walk: a row per sample."""

    name: str
    seconds: Any
    x: Any
    y: Any
    floor: Any
    strengths: Any
    """By sample and access point, in dBm."""

    def __len__(self) -> int:
        return len(self.seconds)


@dataclass(frozen=True)
class Grid:
    """Square cells of a size in meters, numbered: those that training walks passed through."""

    size: float
    cells: Any
    """By number: floor, row and column."""

    @property
    def centres(self) -> Any:
        """By cell: x and y of its center."""
        return (self.cells[:, [2, 1]] + 0.5) * self.size

    def locate(self, walk: Walk) -> Any:
        """By sample: its cell, or the nearest cell of its floor that a training walk passed through."""
        x, y = self.centres.T
        apart = np.hypot(x - walk.x[:, None], y - walk.y[:, None])
        other = self.cells[:, 0] != walk.floor[:, None]
        inside = (self.cells[None] == _squares(walk, self.size)[:, None]).all(axis=2)
        return np.where(inside, -1.0, np.where(other, np.inf, apart)).argmin(axis=1)

    def steps_apart(self) -> Any:
        """Distance between each two cells in cells, diagonals included; far more if on two floors."""
        rows = np.abs(self.cells[:, None] - self.cells[None])
        return np.where(rows[:, :, 0] > 0, len(self.cells), rows[:, :, 1:].max(axis=2))

    def transitions(self, stay: float = 0.4) -> tuple[Any, Any, Any]:
        """Cell, next cell and probability: stay, or move to an adjacent cell, also diagonally, uniformly distributed.

        A cell without adjacent ones leads to the nearest, so that every cell can be left.
        """
        apart = self.steps_apart()
        np.fill_diagonal(apart, len(apart) + 1)
        beside = apart == 1
        beside |= ~beside.any(axis=1)[:, None] & (apart == apart.min(axis=1)[:, None])
        beside |= beside.T  # and can be entered
        chances = np.where(beside, (1 - stay) / np.maximum(beside.sum(axis=1), 1)[:, None], 0.0)
        np.fill_diagonal(chances, np.where(beside.any(axis=1), stay, 1.0))
        old, new = np.nonzero(chances)
        return old, new, chances[old, new]


@dataclass(frozen=True)
class Strengths:
    """Signal strengths by cell: a mean and a variance for each received access point."""

    heard: Any
    """Numbers of the access points that training walks received."""
    mean: Any
    variance: Any
    weight: float

    def likelihood(self, walk: Walk) -> Any:
        """By sample and cell: likelihood of its strengths, where the best cell of a sample has 1."""
        measured = walk.strengths[:, self.heard].astype(float)
        exact = 1 / self.variance
        # The square of a difference, expanded: matrix products instead of an array by sample, cell and access point.
        far = measured**2 @ exact.T - 2 * measured @ (self.mean * exact).T + (self.mean**2 * exact).sum(axis=1)
        log = -0.5 * (far + np.log(self.variance).sum(axis=1)) * min(self.weight / len(self.heard), 1.0)
        return np.exp(log - log.max(axis=1, keepdims=True))


def read_walks(path: Path = WALKS, late: int = LATE) -> list[Walk]:
    """Read all walks of the archive, by number; the place of a sample is paired with the strengths ``late`` samples
    later."""
    with tarfile.open(path) as archive:
        files = [member for member in archive.getmembers() if member.name.endswith(".csv")]
        return [_walk(archive, member, late) for member in sorted(files, key=lambda one: _number(one.name))]


def split(walks: Sequence[Walk], test: int = 8, seed: int = 5) -> tuple[list[Walk], list[Walk]]:
    """Split into walks for training, and ``test`` others for testing, drawn at random."""
    tested = np.zeros(len(walks), bool)
    tested[np.random.default_rng(seed).permutation(len(walks))[:test]] = True
    train, others = ([walk for walk, wanted in zip(walks, which, strict=True) if wanted] for which in (~tested, tested))
    return train, others


def make_grid(walks: Sequence[Walk], size: float = SIZE) -> Grid:
    """Cells that these walks passed through."""
    return Grid(size, np.unique(np.concatenate([_squares(walk, size) for walk in walks]), axis=0))


def learn(walks: Sequence[Walk], grid: Grid, spread: float = SPREAD, weight: float = WEIGHT) -> Strengths:
    """Learn means and variances by cell, where no deviation is below ``spread`` dBm.

    A rarely visited cell is smoothed with its neighborhood, itself included, which counts as ``LENT`` samples.
    """
    strengths = np.concatenate([walk.strengths for walk in walks]).astype(float)
    cell = np.concatenate([grid.locate(walk) for walk in walks])
    heard = np.flatnonzero((strengths > MISSING).any(axis=0))
    strengths = strengths[:, heard]
    belongs = (cell == np.arange(len(grid.cells))[:, None]).astype(float)
    around = (grid.steps_apart() <= 1).astype(float)
    count, total, squares = belongs.sum(axis=1)[:, None], belongs @ strengths, belongs @ strengths**2
    near = LENT / np.maximum(around @ count, 1)
    samples = np.maximum(count + near * (around @ count), 1e-9)
    mean = (total + near * (around @ total)) / samples
    variance = (squares + near * (around @ squares)) / samples - mean**2
    return Strengths(heard, mean, np.maximum(variance, spread**2), weight)


def _walk(archive: tarfile.TarFile, member: tarfile.TarInfo, late: int) -> Walk:
    table = pa.csv.read_csv(archive.extractfile(member))
    points = sorted((name for name in table.column_names if name.isdigit()), key=int)
    strengths = np.column_stack([np.asarray(table[name], np.float32) for name in points])
    kept = len(table) - late
    seconds, x, y = (np.asarray(table[name], float)[:kept] for name in ("timestamp", "x", "y"))
    floor = np.asarray(table["floorID"], np.int64)[:kept]
    return Walk(Path(member.name).stem, seconds, x, y, floor, strengths[late:])


def _number(name: str) -> int:
    return int(Path(name).stem.rsplit("_", 1)[1])


def _squares(walk: Walk, size: float) -> Any:
    """By sample: floor, row and column of its square."""
    rows = np.column_stack([walk.floor, walk.y // size, walk.x // size])
    return rows.astype(np.int64)
