"""Likelihoods from recorded walks: signal strengths learned on training walks locate the test walks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.uncertain.walks import WALKS, Grid, Walk, learn, make_grid, read_walks, split


def make_walk(name: str, x: Any, floor: int = 0) -> Walk:
    """Return a walk along a line with an access point at each end, and a third one out of range."""
    x = np.asarray(x, float)
    strengths = np.column_stack([-40 - 2 * x, -80 + 2 * x, np.full(len(x), -100.0)])
    return Walk(name, np.arange(len(x)) * 5.0, x, np.zeros(len(x)), np.full(len(x), floor), strengths)


def matrix(grid: Grid) -> Any:
    full = np.zeros((len(grid.cells), len(grid.cells)))
    old, new, chance = grid.transitions()
    full[old, new] = chance
    return full


def forward_filter(likelihood: Any, moves: Any) -> Any:
    """Return the probability of each cell at each step, given the readings up to the step."""
    known = np.full(len(moves), 1 / len(moves))
    rows = []
    for step, observed in enumerate(likelihood):
        known = (known @ moves if step else known) * observed
        known /= known.sum()
        rows.append(known)
    return np.array(rows)


def accuracy(train: list[Walk], test: list[Walk], size: float = 3.0) -> float:
    """Return the fraction of steps with the most probable cell at most one cell from the true one."""
    grid = make_grid(train, size)
    strengths, moves, apart = learn(train, grid), matrix(grid), grid.steps_apart()
    near = [
        apart[forward_filter(strengths.likelihood(walk), moves).argmax(axis=1), grid.locate(walk)] <= 1 for walk in test
    ]
    return float(np.concatenate(near).mean())


def test_grid_has_the_cells_on_walks() -> None:
    grid = make_grid([make_walk("a", [0.5, 2.5, 3.5]), make_walk("b", [11.0]), make_walk("c", [2.0], floor=1)], 3.0)
    assert grid.cells.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 3], [1, 0, 0]]
    assert grid.centres[:, 0].tolist() == [1.5, 4.5, 10.5, 1.5]
    assert grid.locate(make_walk("d", [1.0, 6.5, 8.9])).tolist() == [0, 1, 2], (
        "a place without a cell is located in the nearest cell"
    )
    assert grid.locate(make_walk("d", [11.0], floor=1)).tolist() == [3]
    moves = matrix(grid)
    np.testing.assert_allclose(moves.sum(axis=1), 1)
    assert moves[0, 1] > 0
    assert moves[0, 2] == 0
    assert moves[2, 1] > 0, "an isolated cell has no transition to the nearest cell"
    assert moves[1, 2] > 0, "an isolated cell has no transition from the nearest cell"


def test_signal_strengths_locate_the_cell() -> None:
    train = [make_walk(str(seed), np.random.default_rng(seed).uniform(0, 20, 200)) for seed in range(3)]
    grid = make_grid(train, 2.0)
    strengths = learn(train, grid, spread=2.0)
    assert strengths.heard.tolist() == [0, 1]
    walk = make_walk("test", np.linspace(0.1, 19.9, 40))
    likelihood = strengths.likelihood(walk)
    assert likelihood.shape == (40, 10)
    assert (likelihood.max(axis=1) == 1).all()
    assert (np.abs(likelihood.argmax(axis=1) - grid.locate(walk)) <= 1).all()
    gap = walk.strengths[:, None, :2] - strengths.mean
    log = -0.5 * (gap**2 / strengths.variance + np.log(strengths.variance)).sum(axis=2)
    np.testing.assert_allclose(likelihood, np.exp(log - log.max(axis=1, keepdims=True)), atol=1e-9)


@pytest.fixture(scope="module")
def walks() -> list[Walk]:
    if not WALKS.exists():
        pytest.skip(f"no indoor/{WALKS.name} in the folder of real data, which PERSEID_DATA names")
    return read_walks()


def test_all_walks_are_read(walks: list[Walk]) -> None:
    assert len(walks) == 40
    assert sum(len(walk) for walk in walks) == 7_361 - 40, "the last position of each walk has no signal strengths"
    assert {walk.strengths.shape[1] for walk in walks} == {436}
    assert all((np.diff(walk.seconds) > 0).all() and not np.isnan(walk.strengths).any() for walk in walks)
    train, test = split(walks)
    assert sorted(walk.name for walk in train + test) == sorted(walk.name for walk in walks)
    assert len(test) == 8


def test_walks_stay_on_the_grid(walks: list[Walk]) -> None:
    train, _ = split(walks)
    grid = make_grid(train)
    apart = grid.steps_apart()
    jumps = np.concatenate([apart[cells[:-1], cells[1:]] for cells in map(grid.locate, walks)])
    assert (jumps <= 1).mean() > 0.99
    reached = matrix(grid) > 0
    for _ in range(8):
        reached = (reached.astype(float) @ reached) > 0
    assert reached.all(), "every cell can be reached from every other"


def test_filter_locates_test_walks_within_one_cell(walks: list[Walk]) -> None:
    train, test = split(walks)
    assert accuracy(train, test) > 0.95
