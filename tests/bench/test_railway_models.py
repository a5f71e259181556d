"""Railways as in the Train Benchmark: the generator, and incremental matches of six queries under injections and repairs."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.models.by_hand import BY_HAND
from bench.models.railway import QUERIES, Shape, of_size, queries, railway
from bench.models.railway_changes import NoErrorSiteError, RailwayEditor
from perseid.engines.models.live import LiveModel
from perseid.engines.models.ranks import in_order
from perseid.reference.models import Recomputed
from perseid.semantics.graphs import Change

SMALL = Shape(routes=3, positions=2, sensors=2, segments=5)
NARROW = Shape(routes=6, positions=1, sensors=2, segments=3)
"""A shape in which routes follow each other closely."""


def elements(changes: list[Change]) -> int:
    return sum(change.action == "create" for change in changes)


def test_models_are_deterministic_and_grow_with_their_size() -> None:
    assert of_size(1) == of_size(1)
    assert railway(SMALL, seed=1) != railway(SMALL, seed=2)
    assert 1_000 <= elements(of_size(1)) <= 2_000
    assert elements(of_size(16)) == pytest.approx(16 * 1_300, rel=0.2)
    assert elements(of_size(32)) == pytest.approx(32 * 1_300, rel=0.2)


def test_every_query_has_matches_in_the_smallest_model() -> None:
    model = LiveModel(queries(*QUERIES))
    result = model.transact(0, of_size(1))
    assert not result.refused
    counts = Counter(change.query for change in result.changes)
    assert all(counts[name] for name in QUERIES), counts


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_injected_and_repaired_errors_change_matches_as_in_the_oracle(name: str, seed: int) -> None:
    engine, oracle = LiveModel(queries(name)), Recomputed(queries(name))
    changes, repaired = railway(NARROW if name == "SemaphoreNeighbor" else SMALL, seed), 0
    for time in range(13):
        actual, expected = engine.transact(time, changes), oracle.transact(time, changes)
        assert not actual.refused
        assert (actual.done, actual.changes) == (expected.done, expected.changes)
        standing = engine.matches[name].standing
        assert BY_HAND[name](engine.graph) == standing == oracle.matches[name]
        engineer = RailwayEditor(engine.graph, seed + time)
        if standing and time % 2 == 0:
            changes = engineer.repair(name, next(iter(in_order(standing))))
            repaired += 1
        else:
            try:
                changes = engineer.inject(name)
            except NoErrorSiteError:
                break
    assert repaired


@pytest.mark.parametrize("name", QUERIES)
def test_repair_removes_its_match(name: str) -> None:
    model = LiveModel(queries(name), [name])
    model.transact(0, of_size(1))
    engineer = RailwayEditor(model.graph)
    time = 0
    while (standing := model.matches[name].standing) and time < 40:
        time += 1
        match = next(iter(in_order(standing)))
        assert not model.transact(time, engineer.repair(name, match)).refused
        assert match not in model.matches[name].standing
        assert BY_HAND[name](model.graph) == model.matches[name].standing
    assert time
    for _ in range(20):
        time += 1
        try:
            changes = engineer.inject(name)
        except NoErrorSiteError:
            assert name == "SemaphoreNeighbor", "there are only five routes"
            break
        assert not model.transact(time, changes).refused
        assert BY_HAND[name](model.graph) == model.matches[name].standing
