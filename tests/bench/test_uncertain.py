"""The data of paper 5: movement within the building, read rates of antennas, and the scores of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from bench.uncertain.building import ANTENNAS, Building, Motion, build
from bench.uncertain.people import SHORT, Trace, TraceSize, read, simulate
from bench.uncertain.scoring import Moments, curve, interval, merged, score

DOORS = {"office", "coffee", "lecture"}


@pytest.fixture(scope="module")
def building() -> Building:
    return build()


@pytest.fixture(scope="module")
def trace(building: Building) -> Trace:
    return simulate(building, seed=5)


def test_building_has_the_size_of_the_one_in_the_paper(building: Building) -> None:
    assert 60 <= len(building.places) <= 90
    assert len(set(building.values)) == len(building.places)
    assert {place.floor for place in building.places} == {1, 2}
    assert len({(place.x, place.y, place.floor) for place in building.places}) == len(building.places)
    assert len(building.antennas) == len(set(building.antennas)) == ANTENNAS
    assert {building.places[cell].kind for cell in building.antennas} == {"hall"}
    assert (building.distances >= 0).all(), "every place can be reached"
    for here, neighbors in enumerate(building.neighbours):
        assert all(here in building.neighbours[there] for there in neighbors)
        assert len(neighbors) == 1 or building.places[here].kind not in DOORS


def test_model_has_probabilities_of_staying_and_of_moving_to_neighbors(building: Building) -> None:
    model = building.hidden_markov(Motion(stay_room=0.9, stay_hall=0.2), home="office 1.02")
    moves = {
        place: {
            model.values[there]: chance
            for there, chance in zip(model.targets[low:high], model.weights[low:high], strict=True)
        }
        for place, low, high in zip(model.values, model.starts[:-1], model.starts[1:], strict=True)
    }
    for here, place in enumerate(building.places):
        assert set(moves[place.name]) == {place.name, *(building.values[there] for there in building.neighbours[here])}
        assert moves[place.name][place.name] == pytest.approx(0.9 if place.is_room else 0.2)
    (door,) = set(moves["office 1.02"]) - {"office 1.02"}
    assert moves[door]["office 1.02"] > 5 * moves[door]["office 1.17"], (
        "the own office is likelier than the one opposite"
    )


def test_emissions_are_zero_in_rooms_and_have_the_read_rate_at_antennas(building: Building) -> None:
    silent = building.emissions()[-1]
    assert (silent[building.rooms] == 1).all()
    np.testing.assert_allclose(silent[list(building.antennas)], 1 - building.read_rate)
    own = building.emissions()[np.arange(ANTENNAS), list(building.antennas)]
    assert (own > 0.45).all(), "an antenna reads its own cell well"


def test_emissions_equal_the_frequencies_of_readings(building: Building) -> None:
    places = np.repeat(np.arange(len(building.places)), 20_000)
    readings = read(building, places[None], np.random.default_rng(5))[0]
    shares = np.zeros((ANTENNAS + 1, len(building.places)))
    np.add.at(shares, (readings, places), 1 / 20_000)
    np.testing.assert_allclose(shares, building.emissions(), atol=0.02)


def test_traces_are_deterministic_and_differ_by_seed(building: Building) -> None:
    first, again, other = (simulate(building, seed, SHORT) for seed in (1, 1, 2))
    assert first.readings().equals(again.readings())
    assert first.truth().equals(again.truth())
    assert first.labels(skew=20, seed=3).equals(again.labels(skew=20, seed=3))
    assert not first.truth().equals(other.truth())


def test_trace_has_the_size_of_the_one_in_the_paper(trace: Trace) -> None:
    assert (trace.people, len(trace.names), len(set(trace.names))) == (8, 60, 60)
    assert trace.seconds[-1] + 1 == 72 * 60
    pauses = np.diff(trace.seconds)
    assert pauses[pauses > 1].tolist() == [601]
    assert 25 <= trace.labels().num_rows <= 65  # 44 in the paper
    readings, truth = trace.readings(), trace.truth(objects=False)
    assert readings.column_names == ["person", "second", "antenna"]
    assert truth.column_names == ["person", "second", "place"]
    assert (readings.num_rows, truth.num_rows) == (60 * 3720, 8 * 3720)
    assert readings["antenna"].null_count == (trace.antennas < 0).sum()
    assert truth["place"][3720].as_py() == trace.building.values[trace.offices[1]]


def test_people_and_carried_objects_move_only_between_neighbors(trace: Trace) -> None:
    at_once = np.diff(trace.seconds) == 1
    steps = trace.building.distances[trace.places[:, :-1], trace.places[:, 1:]][:, at_once]
    assert steps[: trace.people].max() == 1
    for number, owner in enumerate(trace.owners):
        mine, theirs = trace.places[trace.people + number], trace.places[owner]
        apart = mine != theirs
        assert trace.building.rooms[mine[apart]].all(), "an object was left outside a room"
        assert not (apart[1:] & (mine[1:] != mine[:-1]) & at_once).any(), "an object moved without its owner"
    carried = trace.places[trace.people :] == trace.places[list(trace.owners)]
    assert 0.6 < carried.mean() < 0.98


@pytest.mark.parametrize("rate", [0.6, 0.7])
def test_antennas_read_as_often_as_asked(rate: float) -> None:
    trace = simulate(build(read_rate=rate), 5, TraceSize(objects=16))
    assert trace.read_rate() == pytest.approx(rate, abs=0.03)
    assert (trace.antennas[trace.building.rooms[trace.places]] == -1).all()


def test_label_is_an_entry_after_two_seconds_outside(trace: Trace) -> None:
    where = {(row["person"], row["second"]): row["place"] for row in trace.truth(objects=False).to_pylist()}

    def inside(person: str, second: int) -> bool:
        return where.get((person, second), "coffee or unknown").startswith("coffee")

    entered = [(p, s) for p, s in where if inside(p, s) and not inside(p, s - 1) and not inside(p, s - 2)]
    labels = [(row["person"], row["second"]) for row in trace.labels().to_pylist()]
    assert labels == entered
    late = trace.labels(skew=20, seed=1)
    delays = np.asarray(late["second"]) - [second for _, second in labels]
    assert delays.min() >= 0
    assert 10 < delays.max() <= 20


def moments(*pairs: tuple[str, int]) -> Moments:
    return Moments(np.array([key for key, _ in pairs], str), np.array([second for _, second in pairs], np.int64))


LABELS = moments(("ann", 100), ("ann", 300), ("bob", 100))


@pytest.mark.parametrize(
    ("detected", "precision", "recall", "f1"),
    [
        (moments(("ann", 130), ("ann", 331)), 1 / 2, 1 / 3, 0.4),  # the tolerance of 30 seconds is inclusive
        (
            moments(("ann", 70), ("ann", 75), ("ann", 120), ("bob", 300)),
            3 / 4,
            1 / 3,
            6 / 13,
        ),  # three detections of one label
        (moments(("bob", 300)), 0, 0, 0),
        (moments(), 1, 0, 0),
        (LABELS, 1, 1, 1),
    ],
)
def test_hand_worked_scores(detected: Moments, precision: float, recall: float, f1: float) -> None:
    found = score(detected, LABELS)
    assert (found.precision, found.recall, found.f1) == pytest.approx((precision, recall, f1))
    assert found.detections == len(detected)


def test_one_detection_can_find_two_labels_and_recall_without_labels_is_one() -> None:
    found = score(moments(("ann", 200)), LABELS, tolerance=100)
    assert (found.precision, found.recall) == (1, 2 / 3)
    assert score(moments(("ann", 1)), moments()).recall == 1


def test_close_detections_are_merged_to_one_alert() -> None:
    detected = moments(("bob", 10), ("ann", 60), ("ann", 10), ("ann", 31), ("ann", 90), ("ann", 121))
    alerts = merged(detected)
    assert list(zip(alerts.key.tolist(), alerts.second.tolist(), strict=True)) == [
        ("ann", 10), ("ann", 90), ("ann", 121), ("bob", 10),
    ]  # fmt: skip
    assert score(detected, LABELS, merge=True).precision == 1 / 2


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("tolerance", [0, 5, 30])
def test_curve_has_the_score_at_each_threshold(merge: bool, tolerance: int) -> None:
    chance = np.random.default_rng(tolerance)
    key, second = np.repeat(np.arange(4), 200), np.tile(np.arange(200), 4)
    mixed = chance.permutation(800)
    scored = Moments(key[mixed], second[mixed])
    probabilities = chance.integers(0, 11, 800) / 10
    labels = Moments(chance.integers(0, 5, 12), chance.integers(-50, 250, 12))
    thresholds = [0.0, 0.35, 0.9, 1.0]
    found = curve(scored, probabilities, labels, thresholds, tolerance, merge=merge)
    for at, least in enumerate(thresholds):
        above = probabilities > least
        one = score(Moments(scored.key[above], scored.second[above]), labels, tolerance, merge=merge)
        assert (found.precision[at], found.recall[at], found.f1[at]) == (one.precision, one.recall, one.f1)
        assert found.detections[at] == one.detections
        if not merge:
            pairs = set(zip(scored.key[above].tolist(), scored.second[above].tolist(), strict=True))
            hit = [
                any((k, s + d) in pairs for d in range(-tolerance, tolerance + 1))
                for k, s in zip(labels.key, labels.second, strict=True)
            ]
            assert one.recall == pytest.approx(np.mean(hit))


def test_intervals_use_the_t_distribution() -> None:
    for count, quantile in ((2, 12.7062), (5, 2.7764), (20, 2.0930)):
        values = np.arange(count, dtype=float)
        mean, half = interval(values)
        assert mean == values.mean()
        assert half == pytest.approx(quantile * values.std(ddof=1) / count**0.5, rel=1e-4)
    assert interval([3.0]) == (3.0, float("inf"))
