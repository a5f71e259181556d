"""The experiment of paper 5: thresholds are chosen on other seeds, gains are measured as in the paper, and queries have the expected class."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import perseid as ps
from bench.uncertain import quality as q
from bench.uncertain import rooms, speed, wifi
from bench.uncertain.building import build
from bench.uncertain.people import SHORT, simulate
from bench.uncertain.walks import Walk, make_grid
from perseid.semantics.check import check
from perseid.semantics.classes import QueryClass


def curves(*rows: tuple[float, float]) -> q.Curves:
    """Return curves of seeds with their best values at different thresholds, and low values elsewhere."""
    precision, recall = np.full((len(rows), len(q.THRESHOLDS)), 0.1), np.full((len(rows), len(q.THRESHOLDS)), 0.1)
    for i, (value, other) in enumerate(rows):
        precision[i, 3 + i] = recall[i, 3 + i] = value
        precision[i, 4 - i] = recall[i, 4 - i] = other
    return q.Curves(precision, recall)


def test_threshold_of_a_seed_is_chosen_on_the_other_seeds() -> None:
    chosen = q.best(curves((0.9, 0.5), (0.8, 0.6)))
    assert chosen.f1.tolist() == pytest.approx([0.5, 0.6]), "not at the best threshold of the other seed"
    assert q.best(curves((0.9, 0.5))).f1.tolist() == pytest.approx([0.9]), "a single seed uses its own threshold"


def test_gains_are_percentage_points() -> None:
    flat = np.full((2, len(q.THRESHOLDS)), 0.5)
    rising = np.tile(np.linspace(0, 1, len(q.THRESHOLDS)), (2, 1))
    ours, theirs = q.Curves(rising, 1 - rising), q.Curves(flat, flat)
    assert q.max_gains(ours, theirs)["precision"].points == pytest.approx(48, abs=2), "not where nothing is detected"
    even = q.gains_at_equal(ours, theirs)
    assert even["precision"] == pytest.approx(0, abs=2), "of what has as much recall, the best has as much precision"
    assert even["recall"] == pytest.approx(0, abs=2)
    assert q.gains_at(ours, ours, 0.12)["recall"] == (0, 0)


def test_particle_filter_guesses_are_deterministic_places() -> None:
    building = build()
    trace = simulate(building, 1, SHORT)
    readings = q.readings_of(trace)
    guesses = q.guess(readings, building.hidden_markov(), seed=3)
    assert guesses.num_rows == readings.num_rows == trace.people * len(trace.seconds)
    assert set(guesses["place"].to_pylist()) <= set(building.values)
    assert guesses.equals(q.guess(readings, building.hidden_markov(), seed=3))
    truth = trace.truth(objects=False)["place"].to_pylist()
    assert np.mean(np.array(guesses["place"].to_pylist()) == np.array(truth)) > 0.1, "chance is 1 in 85"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (speed.Q1, QueryClass.REGULAR),
        (speed.Q2, QueryClass.EXTENDED),
        (speed.REGULAR, QueryClass.REGULAR),
        (speed.larger(6), QueryClass.EXTENDED),
    ],
)
def test_query_has_the_expected_class(text: str, kind: QueryClass) -> None:
    tracked = speed.track(2, 5)
    ready = speed.Prepared.of(text, tracked.stream(tracked.marginals), tracked.relations)
    assert ready.plan.queries[0].classified.kind is kind


def test_printed_query_of_figure_14_is_unsafe_and_its_variant_safe() -> None:
    streams, _, relations = speed.safe_streams(2, 5)
    printed = speed.Prepared.of(speed.FIGURE_14, streams["auto"], relations)
    assert printed.plan.queries[0].classified.kind is QueryClass.UNSAFE
    ready = speed.Prepared.of(speed.SAFE, streams["auto"], relations)
    assert ready.plan.queries[0].classified.kind is QueryClass.SAFE


def test_gain_is_at_the_best_threshold_from_a_tenth_to_a_half() -> None:
    """Thresholds outside the interval do not count, and precision and recall have separate thresholds."""
    low, high = (float(q.THRESHOLDS[np.abs(q.THRESHOLDS - rho).argmin()]) for rho in (0.1, 0.3))
    ours, theirs = np.full((2, len(q.THRESHOLDS)), 0.5), np.full((2, len(q.THRESHOLDS)), 0.4)
    precision, recall = ours.copy(), ours.copy()
    precision[:, q.THRESHOLDS < 0.1] = 0.9
    precision[:, high == q.THRESHOLDS] = 0.6
    recall[:, low == q.THRESHOLDS] = 0.7
    found = q.max_gains(q.Curves(precision, recall), q.Curves(theirs, theirs))
    assert (found["precision"].points, found["precision"].threshold) == (pytest.approx(20), high)
    assert (found["recall"].points, found["recall"].threshold) == (pytest.approx(30), low)
    assert found["recall"].recall == pytest.approx(70)


def test_probabilities_from_tables_equal_those_from_readings() -> None:
    """The pruning for Figure 13 changes probabilities by at most 0.02."""
    tracked = speed.track(3, 30)
    pattern = ps.pattern(speed.Q2)
    tables, readings = (
        pattern.match(stream, relations=tracked.relations).to_arrow()
        for stream in (tracked.stream(tracked.tables, previous="before"), tracked.archived("smooth"))
    )
    by_time = dict(zip(readings["time"].to_pylist(), readings["p"].to_pylist(), strict=True))
    assert tables.num_rows > 5
    for when, chance in zip(tables["time"].to_pylist(), tables["p"].to_pylist(), strict=True):
        assert chance == pytest.approx(by_time[when], abs=0.02)


def test_likeliest_value_has_the_highest_probability_of_its_step() -> None:
    tracked = speed.track(3, 5)
    (part,) = tracked.likeliest().parts
    chosen = part.data.select(["person", "ts", "place"]).to_pylist()
    assert len(chosen) == 15
    rows = tracked.marginals.to_pylist()
    for row in chosen:
        own = {one["place"]: one["p"] for one in rows if (one["person"], one["ts"]) == (row["person"], row["ts"])}
        assert own[row["place"]] == max(own.values())


def test_only_correlations_detect_a_stay() -> None:
    highest = {(line.approach, line.k): line.probability.max() for line in rooms.lines((1, 3))}
    assert highest[q.MARKOV.name, 1] == pytest.approx(highest[q.SMOOTHED.name, 1])
    assert highest[q.MARKOV.name, 3] > 10 * highest[q.SMOOTHED.name, 3]
    assert highest[q.MAP.name, 1] == 0, "the most probable path is in another room"


def test_regions_are_cells_that_training_walks_enter() -> None:
    x = np.arange(0, 30, 3.0) + 1
    zero = np.zeros(len(x))
    walk = Walk("a", zero, x, zero, zero.astype(int), np.zeros((len(x), 1)))
    grid = make_grid([walk])
    regions = wifi.regions_of(grid, [walk])
    assert [len(cells) for cells in regions.values()] == [3, 3, 1], "the first cell of a walk is not entered"
    assert wifi.entries(np.array([0, 0, 1, 1, 0, 1])).tolist() == [2, 4]
    trains = [[one.name for one in train] for train, _ in wifi.folds([walk] * 10, 5)]
    assert [len(train) for train in trains] == [8] * 5


def test_pattern_texts_are_valid() -> None:
    for text in (q.COFFEE, wifi.ENTERS, rooms.in_the_room(10), speed.SAFE):
        assert check(speed.parse_file(text))
    assert pa.types.is_timestamp(q.moments(pa.array([1])).type)
