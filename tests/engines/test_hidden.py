"""Hidden Markov models: inference and learning against hmmlearn, and against sums over all paths."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator, default_rng

from perseid.engines.uncertain import inference as infer
from perseid.engines.uncertain.learning import learn, learn_labelled
from perseid.errors import BindingError, EventDataError, PerseidError
from perseid.semantics.hidden import Floats, HiddenMarkov, Ints, floor_plan, hidden_markov

FAST = os.environ.get("PERSEID_NUMBA", "1") != "0"
MODELS = range(60)


def random_rows(random: Generator, rows: int, columns: int, dense: bool) -> Floats:
    """Returns random distributions; sparse ones have a few transitions each, one of them to itself."""
    made = random.random((rows, columns)) + 0.05
    if not dense:
        made *= (random.random((rows, columns)) < 0.4) | (np.arange(rows)[:, None] % columns == np.arange(columns))
    return made / made.sum(axis=1, keepdims=True)


def random_model(seed: int, most: int = 6, zeros: bool = False) -> HiddenMarkov:
    """Returns a random model; odd seeds are sparse, and with `zeros` some readings are impossible for some values."""
    random = default_rng(seed)
    values, readings = int(random.integers(1, most + 1)), int(random.integers(1, 5))
    names = [f"r{reading}" for reading in range(readings)]
    return hidden_markov(
        values=[f"v{value}" for value in range(values)],
        initial=random_rows(random, 1, values, dense=True)[0],
        transitions=random_rows(random, values, values, dense=seed % 2 == 0),
        readings=random_rows(random, values, readings, dense=not zeros),
        reading_names=names,
    )


def random_codes(random: Generator, model: HiddenMarkov, lengths: list[int], unknown: float = 0.0) -> tuple[Ints, Ints]:
    codes = random.integers(0, len(model.readings), sum(lengths))
    codes[random.random(len(codes)) < unknown] = -1
    return codes, np.concatenate([[0], np.cumsum(lengths)])


def cases(seeds: Any, most: int = 6, longest: int = 12) -> Iterator[tuple[HiddenMarkov, Ints, Ints]]:
    """Returns models with keys of different lengths, one of which has one step."""
    for seed in seeds:
        model, random = random_model(seed, most), default_rng([seed, 1])
        lengths = [1, *(int(length) for length in random.integers(2, longest + 1, 3))]
        yield model, *random_codes(random, model, lengths)


def dense_transitions(model: HiddenMarkov) -> Floats:
    many = len(model.values)
    matrix = np.zeros((many, many))
    matrix[np.repeat(np.arange(many), np.diff(model.starts)), model.targets] = model.weights
    return matrix


def judge(model: HiddenMarkov, **options: Any) -> Any:
    """Returns the same model in hmmlearn."""
    from hmmlearn.hmm import CategoricalHMM

    made = CategoricalHMM(n_components=len(model.values), n_features=len(model.readings), init_params="", **options)
    made.startprob_, made.transmat_ = model.initial.copy(), dense_transitions(model)
    made.emissionprob_ = model.emissions.T.copy()
    return made


def log_of(model: HiddenMarkov, codes: Ints, path: Ints) -> float:
    """Returns the logarithm of the joint probability of a path and its readings."""
    matrix = dense_transitions(model)
    steps = [model.initial[path[0]], *(matrix[a, b] for a, b in pairwise(path)), *model.emissions[codes, path]]
    return math.fsum(math.log(step) for step in steps)


@pytest.fixture
def judged() -> Iterator[None]:
    """Suppresses the warnings of hmmlearn about logarithms of zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def close(left: Any, right: Any, within: float = 1e-9) -> bool:
    return bool(np.allclose(left, right, rtol=within, atol=within))


@pytest.mark.usefixtures("judged")
def test_inference_agrees_with_hmmlearn() -> None:
    same = 0
    for model, codes, offsets in cases(MODELS):
        oracle = judge(model)
        filtered, smoothed = infer.filtered(model, codes, offsets), infer.smoothed(model, codes, offsets)
        path = infer.likeliest_path(model, codes, offsets)
        assert not filtered.impossible.any()
        for key, (first, last) in enumerate(pairwise(offsets)):
            column = codes[first:last, None]
            assert close(smoothed.marginals[first:last], oracle.predict_proba(column))
            assert close(filtered.log_likelihoods[key], oracle.score(column))
            assert filtered.log_likelihoods[key] == smoothed.log_likelihoods[key]
            log_probability, states = oracle.decode(column)
            assert close(path.log_probabilities[key], log_probability)
            assert close(log_of(model, codes[first:last], path.path[first:last]), log_probability, 1e-12)
            same += path.path[first:last].tolist() == states.tolist()
            for step in range(first, last):
                assert close(filtered.marginals[step], oracle.predict_proba(codes[first : step + 1, None])[-1])
    assert same > 0.97 * 4 * len(MODELS), "paths differ only where the same steps in another order are as likely"


@pytest.mark.usefixtures("judged")
def test_learning_agrees_with_hmmlearn() -> None:
    for model, codes, offsets in cases(MODELS, longest=40):
        oracle = judge(model, n_iter=1, tol=0.0, params="ste")
        oracle.fit(codes[:, None], np.diff(offsets))
        learnt = learn(model, codes, offsets, max_iterations=1)
        assert close(learnt.model.initial, oracle.startprob_)
        assert close(dense_transitions(learnt.model), oracle.transmat_)
        assert close(learnt.model.emissions.T, oracle.emissionprob_)


def test_likelihood_never_decreases_and_zero_transitions_stay_zero() -> None:
    rounds = 0
    for model, codes, offsets in cases(range(20), longest=40):
        learnt = learn(model, codes, offsets, max_iterations=30, tolerance=0.0)
        rounds += len(learnt.log_likelihoods)
        assert all(later >= earlier for earlier, later in pairwise(learnt.log_likelihoods))
        assert not (dense_transitions(learnt.model)[dense_transitions(model) == 0]).any()
        assert np.array_equal(learnt.model.targets, model.targets)
        said = infer.filtered(learnt.model, codes, offsets).log_likelihoods.sum()
        assert said == learnt.log_likelihoods[-1]
    assert rounds > 300, "learning must go on for a while to show anything"


def test_missing_readings_do_not_change_the_learned_model() -> None:
    model = hidden_markov(
        transitions=floor_plan([("a", "b")]), readings={"a": {"x": 0.9, "y": 0.1}, "b": {"x": 0.2, "y": 0.8}}
    )
    learnt = learn(model, [-1, -1, -1], [0, 3])
    assert close(learnt.model.emissions, model.emissions)
    assert learnt.log_likelihoods[0] == 0.0
    assert learn(model, [0, 1], [0, 2], max_iterations=0).model == model


# What every path says.


def every_path(model: HiddenMarkov, codes: Ints, table: Floats | None = None) -> dict[tuple[int, ...], float]:
    """Returns the joint probability of each path with the readings of one key."""
    rows, matrix = (model.emissions if table is None else table), dense_transitions(model)
    found = {}
    for path in product(range(len(model.values)), repeat=len(codes)):
        chance = float(model.initial[path[0]])
        for before, after in pairwise(path):
            chance *= matrix[before, after]
        for value, code in zip(path, codes, strict=True):
            chance *= 1.0 if code < 0 else rows[code, value]
        found[path] = chance
    return found


def small(seeds: Any) -> Iterator[tuple[HiddenMarkov, Ints, Ints]]:
    """Returns cases with few values and steps, so that all paths can be enumerated; some readings are missing."""
    for seed in seeds:
        model, random = random_model(seed, 3, zeros=seed % 3 == 0), default_rng([seed, 2])
        codes, offsets = random_codes(random, model, [1, 2, 4, 6], unknown=0.15)
        yield model, without_the_impossible(model, codes, offsets), offsets


def without_the_impossible(model: HiddenMarkov, codes: Ints, offsets: Ints) -> Ints:
    return np.where(infer.filtered(model, codes, offsets).impossible, -1, codes)


def marginal(paths: dict[tuple[int, ...], float], step: int, many: int) -> Floats:
    found = np.zeros(many)
    for path, chance in paths.items():
        found[path[step]] += chance
    return found / found.sum()


def test_lags_agree_with_every_path() -> None:
    for model, codes, offsets in small(range(50)):
        for lag in (0, 1, 2, 9):
            lagged = infer.lagged(model, codes, offsets, lag).marginals
            for first, last in pairwise(offsets):
                for step in range(first, last):
                    paths = every_path(model, codes[first : min(step + lag + 1, last)])
                    assert close(lagged[step], marginal(paths, step - first, len(model.values)), 1e-12)
        assert close(infer.lagged(model, codes, offsets, 0).marginals, infer.filtered(model, codes, offsets).marginals)
        assert close(infer.lagged(model, codes, offsets, 9).marginals, infer.smoothed(model, codes, offsets).marginals)


def test_looking_ahead_agrees_with_every_path() -> None:
    for model, codes, offsets in small(range(50)):
        for lag in (0, 1, 3, 9):
            weights = infer.look_ahead(model, codes, offsets, lag).weights
            possible = infer.filtered(model, codes, offsets).marginals > 0
            for first, last in pairwise(offsets):
                for step in range(first, last):
                    after = codes[step + 1 : min(step + lag + 1, last)]
                    said = np.zeros(len(model.values))
                    for path, chance in every_path(model, np.array([-1, *after])).items():
                        said[path[0]] += chance / model.initial[path[0]]
                    assert close(weights[step], said / said[possible[step]].max(), 1e-12)


def test_smoothed_tables_equal_the_posterior_over_paths() -> None:
    for model, codes, offsets in small(range(50)):
        tables = infer.smoothed_tables(model, codes, offsets)
        assert close(tables.marginals, infer.smoothed(model, codes, offsets).marginals, 1e-15)
        left = np.repeat(np.arange(len(model.values)), np.diff(model.starts))
        where = {way: at for at, way in enumerate(zip(left.tolist(), model.targets.tolist(), strict=True))}
        for first, last in pairwise(offsets):
            paths = every_path(model, codes[first:last])
            total = math.fsum(paths.values())
            assert not tables.weights[first].any()
            for path, chance in paths.items():
                said = float(tables.marginals[first, path[0]])
                for step, way in enumerate(pairwise(path), first + 1):
                    said *= tables.weights[step, where[way]] if way in where else 0.0
                assert said == pytest.approx(chance / total, rel=1e-12, abs=0)
            for step in range(first + 1, last):
                sums = np.bincount(left, tables.weights[step], len(model.values))
                assert close(sums, tables.marginals[step - 1] > 0, 1e-12)


def test_likelihoods_are_readings_without_a_list() -> None:
    for model, codes, offsets in small(range(20)):
        table = np.where(codes[:, None] < 0, 1.0, model.emissions[codes])
        for ask in (infer.filtered, infer.smoothed, infer.smoothed_tables, infer.likeliest_path):
            for left, right in zip(ask(model, codes, offsets), ask(model, table, offsets), strict=True):
                assert close(left, right, 1e-12)
        for ask in (infer.lagged, infer.look_ahead):
            for left, right in zip(ask(model, codes, offsets, 2), ask(model, table, offsets, 2), strict=True):
                assert close(left, right, 1e-12)
        scaled = infer.smoothed(model, table * 1e90, offsets)  # densities may be of any size
        assert close(scaled.marginals, infer.smoothed(model, codes, offsets).marginals, 1e-12)


# Keys by themselves, and the same source with and without Numba.


def everything(model: HiddenMarkov, codes: Ints, offsets: Ints) -> dict[str, list[Any]]:
    """Returns all results of inference: first those by step, then those by key."""
    seeds = 7 + codes[offsets[:-1]]
    said = {
        "filtered": infer.filtered(model, codes, offsets),
        "smoothed": infer.smoothed(model, codes, offsets),
        "tables": infer.smoothed_tables(model, codes, offsets),
        "lagged": infer.lagged(model, codes, offsets, 3),
        "ahead": infer.look_ahead(model, codes, offsets, 3),
        "path": infer.likeliest_path(model, codes, offsets),
        "particles": infer.particle_filter(model, codes, offsets, 50, seeds),
    }
    return {name: [part.tolist() for part in parts] for name, parts in said.items()}


def awkward(seeds: Any) -> Iterator[tuple[HiddenMarkov, Ints, Ints]]:
    """Returns models with impossible readings and missing readings."""
    for seed in seeds:
        model, random = random_model(seed, 6, zeros=True), default_rng([seed, 3])
        yield model, *random_codes(random, model, [1, 5, 3, 17, 9], unknown=0.1)


def test_results_of_a_key_do_not_depend_on_other_keys() -> None:
    flagged = 0
    for model, codes, offsets in awkward(range(40)):
        together = everything(model, codes, offsets)
        alone = [everything(model, codes[a:b], np.array([0, b - a])) for a, b in pairwise(offsets)]
        for name, parts in together.items():
            for part, whole in enumerate(parts):
                assert whole == [row for one in alone for row in one[name][part]], name
        flagged += sum(together["filtered"][2])
    assert flagged > 40, "some readings must be impossible"


@pytest.mark.skipif(not FAST, reason="both sides would be plain Python")
def test_plain_python_inference_equals_compiled() -> None:
    code = (
        "import json\n"
        "from tests.engines.test_hidden import awkward, everything\n"
        "print(json.dumps([everything(*case) for case in awkward(range(6))]))\n"
    )
    environment = {**os.environ, "PERSEID_NUMBA": "0"}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for plain, case in zip(json.loads(ran.stdout), awkward(range(6)), strict=True):
        for name, parts in everything(*case).items():
            for left, right in zip(plain[name], parts, strict=True):
                if np.ndim(right) == 1:  # logarithms are the C library's, or NumPy's
                    assert close(left, right, 1e-12), name
                else:
                    assert left == right, name


# Readings that cannot be.

LOCKED = hidden_markov(
    values=["a", "b"],
    initial={"a": 1.0},
    transitions={"a": {"a": 1.0}, "b": {"b": 1.0}},
    readings={"a": {"A": 0.9, None: 0.1}, "b": {"B": 0.9, None: 0.1}},
)


def test_impossible_readings_are_flagged_and_ignored() -> None:
    codes, offsets = LOCKED.codes(["A", "B", "A", None]), np.array([0, 4])
    expected = [False, True, False, False]
    for ask in (infer.filtered, infer.smoothed, infer.smoothed_tables):
        known = ask(LOCKED, codes, offsets)
        assert known.impossible.tolist() == expected
        assert known.marginals.tolist() == [[1.0, 0.0]] * 4
        assert close(known.log_likelihoods, [2 * math.log(0.9) + math.log(0.1)])
    assert infer.lagged(LOCKED, codes, offsets, 2).marginals.tolist() == [[1.0, 0.0]] * 4
    ahead = infer.look_ahead(LOCKED, codes, offsets, 2)
    assert ahead.weights[:, 0].tolist() == [1.0] * 4
    assert np.isfinite(ahead.weights).all()
    path = infer.likeliest_path(LOCKED, codes, offsets)
    assert path.path.tolist() == [0, 0, 0, 0]
    assert path.impossible.tolist() == expected
    assert infer.smoothed_tables(LOCKED, codes, offsets).weights.tolist() == [[0.0, 0.0]] + [[1.0, 0.0]] * 3
    guesses = infer.particle_filter(LOCKED, codes, offsets, 10, 1)
    assert guesses.impossible.tolist() == [False, True, True, False], "particles believe the last reading"
    assert guesses.marginals.tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]


def test_impossible_readings_are_treated_as_missing() -> None:
    flagged = 0
    for model, codes, offsets in awkward(range(40)):
        quiet = without_the_impossible(model, codes, offsets)
        flagged += int((quiet != codes).sum())
        left, right = everything(model, codes, offsets), everything(model, quiet, offsets)
        for name in left.keys() - {"particles"}:
            assert left[name][:-1] == right[name][:-1], name
            assert np.flatnonzero(left[name][-1]).tolist() == np.flatnonzero(quiet != codes).tolist()
            assert not any(right[name][-1])
        learnt, again = learn(model, codes, offsets, max_iterations=3), learn(model, quiet, offsets, max_iterations=3)
        assert learnt.model == again.model
        assert learnt.log_likelihoods == again.log_likelihoods
    assert flagged > 40


def test_likelihoods_that_are_all_zero_are_treated_as_missing() -> None:
    table = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.0]])
    for ask in (infer.filtered, infer.smoothed):
        known = ask(LOCKED, table, [0, 3])
        assert known.impossible.tolist() == [True, False, True]
        assert known.marginals.tolist() == [[1.0, 0.0]] * 3
    assert infer.particle_filter(LOCKED, table, [0, 3], 5, 1).impossible.tolist() == [True, False, True]


def test_readings_of_vanishing_probability_are_impossible() -> None:
    """Two rooms without a door: readings of one decrease the probability of the other below the smallest double."""
    model = hidden_markov(
        transitions={"a": {"a": 1.0}, "b": {"b": 1.0}},
        readings={"a": {"A": 0.999, "x": 0.001}, "b": {"A": 1e-5, "B": 1 - 1e-5}},
    )
    for length in (50, 59, 60, 61, 62, 63, 64, 65, 200):
        codes, offsets = model.codes(["A"] * length + ["B"] * 3), np.array([0, length + 3])
        for ask in (infer.filtered, infer.smoothed, infer.smoothed_tables):
            known = ask(model, codes, offsets)
            assert np.isfinite(known.marginals).all()
            assert close(known.marginals.sum(axis=1), 1.0)
            assert known.impossible.any() == (length > 60)
        for lag in (1, 10, 500):
            assert close(infer.lagged(model, codes, offsets, lag).marginals.sum(axis=1), 1.0)
            assert np.isfinite(infer.look_ahead(model, codes, offsets, lag).weights).all()
        assert np.isfinite(infer.likeliest_path(model, codes, offsets).log_probabilities).all()
        table = np.where(np.arange(length + 3)[:, None] < length, [1.0, 1e-5], [0.0, 1e100])
        known = infer.smoothed(model, table, offsets)
        assert close(known.marginals.sum(axis=1), 1.0)
        assert known.impossible.any() == (length > 60), "a prediction of a few bits is none, whatever weighs it"


def test_impossible_value_does_not_outweigh_a_possible_one() -> None:
    """A value that is certain stays certain, though all later readings are far likelier under another value."""
    model = hidden_markov(
        transitions={"a": {"a": 1.0}, "b": {"b": 1.0}},
        initial={"b": 1.0},
        readings={"a": {"A": 1.0}, "b": {"A": 1e-5, "B": 1 - 1e-5}},
    )
    codes, offsets = model.codes(["A"] * 300), [0, 300]
    for lag in (1, 100, 300):
        assert infer.lagged(model, codes, offsets, lag).marginals.tolist() == [[0.0, 1.0]] * 300
        ahead = infer.look_ahead(model, codes, offsets, lag).weights
        assert ahead[:, 1].tolist() == [1.0] * 300
        assert np.isfinite(ahead).all()


def test_long_trace_does_not_underflow() -> None:
    steps = 100_000 if FAST else 2_000
    model = random_model(5, zeros=False)
    codes, offsets = random_codes(default_rng(4), model, [steps])
    for ask in (infer.filtered, infer.smoothed):
        known = ask(model, codes, offsets)
        assert close(known.marginals.sum(axis=1), 1.0, 1e-12)
        assert not known.impossible.any()
    assert known.log_likelihoods[0] < -745 * 2 or not FAST
    path = infer.likeliest_path(model, codes, offsets)
    assert path.log_probabilities[0] < known.log_likelihoods[0]
    assert close(infer.lagged(model, codes, offsets, steps).marginals, known.marginals)
    cut = infer.smoothed(model, codes[:500], [0, 500])
    assert close(known.marginals[:100], cut.marginals[:100], 1e-6)


# Ties, particles, counting.


def test_ties_go_to_the_smallest() -> None:
    alike = hidden_markov(
        values=range(4), transitions=np.full((4, 4), 0.25), readings=np.ones((4, 1)), reading_names=["r"]
    )
    assert infer.likeliest_path(alike, [0, -1, 0], [0, 3]).path.tolist() == [0, 0, 0]
    assert infer.likeliest_each([[0.2, 0.4, 0.4], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]]).tolist() == [1, 0, 0]


def test_keys_may_be_empty() -> None:
    for ask in (infer.filtered, infer.smoothed, infer.smoothed_tables, infer.likeliest_path):
        assert not any(len(part) for part in ask(LOCKED, np.zeros(0, np.int64), [0]))
        several = ask(LOCKED, LOCKED.codes(["A"]), [0, 0, 1, 1])
        assert len(several[0]) == 1
        assert several[-2].tolist() == [0.0, math.log(0.9), 0.0]
    assert infer.lagged(LOCKED, [0], [0, 0, 1], 3).marginals.tolist() == [[1.0, 0.0]]


def test_particle_filter_is_accurate_and_reproducible() -> None:
    many = 4_000 if FAST else 1_000
    for seed in range(10):
        model, random = random_model(seed, 6), default_rng([seed, 5])
        codes, offsets = random_codes(random, model, [30, 1, 20], unknown=0.1)
        exact = infer.filtered(model, codes, offsets).marginals
        guessed = infer.particle_filter(model, codes, offsets, many, seed)
        assert np.abs(guessed.marginals - exact).max() < (0.05 if FAST else 0.1)
        again = infer.particle_filter(model, codes, offsets, many, np.full(3, seed))
        assert np.array_equal(guessed.marginals, again.marginals)
    other = infer.particle_filter(model, codes, offsets, many, seed + 1)
    assert len(model.values) == 1 or not np.array_equal(guessed.marginals, other.marginals)


def test_particles_without_weight_are_drawn_again_one_step_away() -> None:
    """A particle hardly ever takes the rare transition, but the reading requires it."""
    rare = hidden_markov(
        values=["a", "b", "c"],
        initial={"a": 1.0},
        transitions={"a": {"a": 0.999999, "b": 0.000001}, "b": {"b": 1.0}, "c": {"c": 1.0}},
        readings={"a": {"A": 1.0}, "b": {"B": 1.0}, "c": {"B": 1.0}},
    )
    guessed = infer.particle_filter(rare, rare.codes(["A", "B", "B"]), [0, 3], 1, 3)
    assert guessed.marginals.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    assert not guessed.impossible.any()


PLANNED = hidden_markov(
    transitions=floor_plan([("hall", "a"), ("hall", "b")]),
    readings={"hall": {"h": 0.5, None: 0.5}, "a": {"x": 0.5, None: 0.5}, "b": {"x": 0.5, None: 0.5}},
)


def test_labeled_learning_respects_the_floor_plan() -> None:
    """One transition from the hall to itself and one to a are counted; the unlabeled last step is not counted."""
    read = PLANNED.codes(["h", "x", None, None, "h", "h", "h"])
    was, offsets = [0, 1, 1, 2, 0, 0, -1], [0, 3, 7]
    learnt = learn_labelled(PLANNED, read, was, offsets, smoothing=1.0)
    model = learnt.model
    assert model.initial.tolist() == [2 / 5, 1 / 5, 2 / 5]
    assert close(dense_transitions(model), [[2 / 5, 2 / 5, 1 / 5], [1 / 3, 2 / 3, 0], [2 / 3, 0, 1 / 3]])
    assert model.emissions[:, 1].tolist() == [0, 1 / 2, 1 / 2]
    assert model.emissions[:, 0].tolist() == [4 / 5, 1 / 5, 0]
    said = [infer.filtered(one, read, offsets).log_likelihoods.sum() for one in (PLANNED, model)]
    assert list(learnt.log_likelihoods) == said
    bare = learn_labelled(PLANNED, read, was, offsets, smoothing=0.0).model
    assert dense_transitions(bare).tolist() == [[0.5, 0.5, 0], [0, 1, 0], [1, 0, 0]]
    assert bare.emissions[:, 2].tolist() == [0, 1, 0]
    still = learn_labelled(PLANNED, [0], [0], [0, 1], smoothing=0.0).model
    assert np.array_equal(still.weights, PLANNED.weights), "of what nothing was counted, nothing is known anew"


@pytest.mark.parametrize(
    ("read", "was", "smoothing", "says"),
    [
        (["h"], [-1], 1.0, "No step has a known true value"),
        (["x", "x"], [1, 2], 1.0, "from 'a' to 'b', which has probability 0"),
        (["x"], [0], 1.0, "'x' was read at 'hall', which has probability 0"),
        (["h"], [0], -1, "smoothing"),
        (["h"], [0], math.nan, "smoothing"),
        (["h"], [0], True, "smoothing"),
    ],
)
def test_invalid_labels_are_rejected(read: Any, was: Any, smoothing: Any, says: str) -> None:
    with pytest.raises(PerseidError, match=says):
        learn_labelled(PLANNED, PLANNED.codes(read), was, [0, len(read)], smoothing=smoothing)


def test_trace_with_an_impossible_start_is_rejected() -> None:
    here = replace(PLANNED, initial=np.array([1.0, 0.0, 0.0]))
    with pytest.raises(PerseidError, match="begins with 'a', which has probability 0"):
        learn_labelled(here, [1], [1], [0, 1])


def test_learning_reports_convergence() -> None:
    codes = PLANNED.codes(["h", None, "x", None, "h", None, None, "h"])
    some, all_ = (learn(PLANNED, codes, [0, 8], max_iterations=rounds) for rounds in (1, 1000))
    assert not some.settled
    assert all_.settled
    assert all_.log_likelihoods[-1] - all_.log_likelihoods[-2] <= 1e-6
    assert repr(some).startswith("<learned in 1 iteration: log-likelihood -")
    assert repr(some).endswith(", not converged>")


# The model itself.


def test_a_model_of_mappings_is_one_of_matrices() -> None:
    said = hidden_markov(
        transitions={"a": {"b": 0.1, "a": 0.9}, "b": {"b": 1.0, "a": 0.0}},
        initial={"b": 1.0},
        readings={"a": {"antenna": 0.7, None: 0.3}, "b": {None: 1}},
    )
    same = hidden_markov(
        values=np.array(["a", "b"]),
        transitions=[[0.9, 0.1], [0, 1]],
        initial=[0, 1],
        readings=[[0.7, 0.3], [0, 1]],
        reading_names=["antenna", None],
    )
    assert said == same
    assert hash(said) == hash(same)
    assert said.targets.tolist() == [0, 1, 1]
    assert said.codes([None, "antenna"]).tolist() == [1, 0]
    assert hidden_markov(transitions={"a": {"a": 1 - 1e-10}}).weights.tolist() == [1 - 1e-10], "nothing is made to fit"
    assert said != hidden_markov(transitions={"a": {"a": 1.0}})
    assert said != "a model"
    assert [part.tolist() for part in said.reversed_transitions()] == [[0, 1, 3], [0, 0, 1], [0.9, 0.1, 1.0]]


def test_a_model_travels() -> None:
    for seed in range(10):
        model = random_model(seed)
        model.reversed_transitions()
        copy = pickle.loads(pickle.dumps(model))
        assert copy == model
        assert not copy.weights.flags.writeable
    assert LOCKED.digest() == "8f66653bbce693828f77a487a7cc3acd", "the digest stands in kept state"


def test_floor_plan_moves_to_neighbors_only() -> None:
    plan = floor_plan([("hall", "a"), ("b", "hall"), ("hall", "a")], stay=0.5)
    assert plan == {
        "hall": {"hall": 0.5, "a": 0.25, "b": 0.25},
        "a": {"a": 0.5, "hall": 0.5},
        "b": {"b": 0.5, "hall": 0.5},
    }
    assert floor_plan([(1, 2)], stay=1) == {1: {1: 1.0}, 2: {2: 1.0}}
    assert hidden_markov(transitions=plan).initial.tolist() == [1 / 3] * 3


def test_product_of_models_is_their_independent_combination() -> None:
    left, right = random_model(3, 3), random_model(4, 3)
    both = left.product(right)
    assert close(dense_transitions(both), np.kron(dense_transitions(left), dense_transitions(right)), 1e-15)
    random = default_rng(1)
    ours, offsets = random_codes(random, left, [8, 3])
    theirs, _ = random_codes(random, right, [8, 3])
    pairs = [(left.readings[a], right.readings[b]) for a, b in zip(ours, theirs, strict=True)]
    known = infer.smoothed(both, both.codes(pairs), offsets)
    apart = infer.smoothed(left, ours, offsets), infer.smoothed(right, theirs, offsets)
    assert close(known.marginals, [np.kron(a, b) for a, b in zip(*(one.marginals for one in apart), strict=True)])
    assert close(known.log_likelihoods, apart[0].log_likelihoods + apart[1].log_likelihoods)


WAYS = {"a": {"a": 0.9, "b": 0.1}, "b": {"b": 1.0}}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"transitions": {"a": {"a": 0.9}}}, "from 'a': expected a sum of 1, got 0.9"),
        ({"transitions": {"a": {"a": 1 - 1e-8}}}, "from 'a': expected a sum of 1, got 0.99999999"),
        ({"transitions": {"a": {"a": 1 + 1e-6}}}, "expected a number from 0 to 1, got 1.000001"),
        (
            {"transitions": {"a": {"a": 1.5, "b": -0.5}, "b": {"b": 1}}},
            "from 'a' to 'a': expected a number from 0 to 1, got 1.5",
        ),
        ({"transitions": {"a": {"a": math.nan}}}, "got nan"),
        ({"transitions": {"a": {"a": "much"}}}, "probability of 'a', got 'much'"),
        ({"transitions": {"a": {"a": None}}}, "probability of 'a', got None"),
        ({"transitions": {"a": 1.0}}, "got a float"),
        ({"transitions": {"hall": {"hal": 1.0}}}, r"unknown value 'hal'\.\n  = Did you mean 'hall'"),
        ({"transitions": {}}, "no values"),
        ({"transitions": {None: {None: 1.0}}}, "unsupported name None"),
        ({"transitions": {math.nan: {}}}, "unsupported name nan"),
        ({"transitions": WAYS, "values": ["a", "b", "a"]}, "'a' occurs twice"),
        ({"transitions": WAYS, "values": ["a", "b", "c"]}, "from 'c': expected a sum of 1, got 0.0"),
        ({"transitions": WAYS, "values": ["a"]}, "unknown value 'b'"),
        ({"transitions": WAYS, "values": "ab"}, "got a str"),
        ({"transitions": WAYS, "values": [["a"], "b"]}, r"values: unsupported name \['a'\]"),
        ({"transitions": [[1.0]]}, "transition matrix needs names"),
        ({"transitions": [[0.5, 0.5]], "values": ["a", "b"]}, "shape"),
        ({"transitions": [[0.5, 0.5], [1]], "values": ["a", "b"]}, "rows of equal length"),
        ({"transitions": [["x"]], "values": ["a"]}, "expected numbers"),
        ({"transitions": [[1j]], "values": ["a"]}, "expected numbers"),
        ({"transitions": WAYS, "initial": {"a": 0.5}}, "initial probabilities: expected a sum of 1, got 0.5"),
        ({"transitions": WAYS, "initial": {"c": 1.0}}, "unknown value 'c'"),
        ({"transitions": WAYS, "initial": [1.0]}, "shape"),
        ({"transitions": WAYS, "initial": [math.inf, 0]}, "'a': expected a number from 0 to 1, got inf"),
        ({"transitions": WAYS, "readings": {"a": {"x": 1.0}}}, "readings at 'b': expected a sum of 1, got 0.0"),
        (
            {"transitions": WAYS, "readings": {"a": {"x": 1.0}, "b": {"x": 0.5}}},
            "readings at 'b': expected a sum of 1, got 0.5",
        ),
        ({"transitions": WAYS, "readings": {"a": {"x": 1}, "b": {"x": 1}, "c": {}}}, "unknown value 'c'"),
        (
            {"transitions": WAYS, "readings": {"a": {"x": 1}, "b": {"y": 1}}, "reading_names": ["x"]},
            "unknown reading 'y'",
        ),
        ({"transitions": WAYS, "readings": [[1.0], [1.0]]}, "readings needs names"),
        ({"transitions": WAYS, "readings": [[1.0], [1.0]], "reading_names": ["x", "x"]}, "twice"),
        (
            {"transitions": WAYS, "readings": [[2.0], [1.0]], "reading_names": ["x"]},
            "of reading 'x' at 'a': expected a number from 0 to 1, got 2.0",
        ),
        ({"transitions": WAYS, "reading_names": ["x"]}, "without readings"),
    ],
)
def test_invalid_models_are_rejected(given: Any, says: str) -> None:
    with pytest.raises(BindingError, match=says):
        hidden_markov(**given)


@pytest.mark.parametrize(
    ("starts", "targets", "says"),
    [
        ([0, 1], [0], "starts"),
        ([0, 2, 1], [0], "starts"),
        ([0, 1, 3], [0, 1], "starts"),
        ([0.0, 1.0, 2.0], [0, 1], "integers"),
        ([[0], [1, 2]], [0, 1], "integers"),
        ([0, 1, 2], [0, 2], "target out of range: expected a number from 0 to 1"),
        ([0, 1, 2], [0, -1], "target out of range: expected a number from 0 to 1"),
        ([0, 2, 3], [1, 0, 1], "must be ascending"),
        ([0, 2, 3], [0, 0, 1], "must be ascending"),
    ],
)
def test_invalid_transitions_are_rejected(starts: Any, targets: Any, says: str) -> None:
    with pytest.raises(BindingError, match=says):
        HiddenMarkov(("a", "b"), (), np.array([0.5, 0.5]), starts, targets, np.ones(len(targets)), np.zeros((0, 2)))


@pytest.mark.parametrize(
    ("edges", "stay", "says"),
    [
        ([("a", "a")], 0.8, "twice"),
        ([("a",)], 0.8, "Expected an edge"),
        (["ab"], 0.8, "Expected an edge"),
        ([("a", None)], 0.8, "unsupported name None"),
        ([("a", "b")], 1.1, "stay"),
        ([("a", "b")], math.nan, "stay"),
        ([("a", "b")], "0.5", "stay"),
    ],
)
def test_invalid_floor_plans_are_rejected(edges: Any, stay: Any, says: str) -> None:
    with pytest.raises(BindingError, match=says):
        floor_plan(edges, stay)


@pytest.mark.parametrize(
    ("codes", "offsets", "says"),
    [
        ([3], [0, 1], "Unknown reading code 3: the model has 3 readings"),
        ([-2], [0, 1], "Unknown reading code -2"),
        (np.array([2**64 - 1], np.uint64), [0, 1], "Unknown reading code 18446744073709551615"),
        ([0.5], [0, 1], "Readings must be codes"),
        (["A"], [0, 1], "Readings must be codes"),
        ([[1.0], [1.0, 2.0]], [0, 1], "Readings must be codes"),
        ([[1.0, 1.0, 1.0]], [0, 1], "need 2 columns .* got 3"),
        ([["x", "y"]], [0, 1], "need 2 columns of numbers, .* got 2 of <U1"),
        ([[1.0, -1.0]], [0, 1], "Step 0 has the invalid likelihood -1.0 for 'b'"),
        ([[1.0, math.nan]], [0, 1], "likelihood nan"),
        ([[1e300, 1.0]], [0, 1], "likelihood 1e"),
        ([0, 1], [0, 1], "Offsets must ascend"),
        ([0, 1], [1, 2], "Offsets must ascend"),
        ([0, 1], [0, 2, 1, 2], "Offsets must ascend"),
        ([0, 1], [], "Offsets must ascend"),
        ([0, 1], [0.0, 2.0], "Offsets must ascend"),
        ([0, 1], [[0], [1, 2]], "Offsets must ascend"),
    ],
)
def test_invalid_readings_are_rejected(codes: Any, offsets: Any, says: str) -> None:
    for ask in (infer.filtered, infer.smoothed, infer.smoothed_tables, infer.likeliest_path):
        with pytest.raises(EventDataError, match=says):
            ask(LOCKED, codes, offsets)


def test_invalid_options_are_rejected() -> None:
    for lag in (-1, 1.5, True, None):
        with pytest.raises(BindingError, match="lag"):
            infer.lagged(LOCKED, [0], [0, 1], lag)  # type: ignore[arg-type]
    for particles in (0, -1, 1.5, True, 1 << 40):
        with pytest.raises(BindingError, match="particles"):
            infer.particle_filter(LOCKED, [0], [0, 1], particles, 1)  # type: ignore[arg-type]
    for seed in (0.5, [1, 2], None, True):
        with pytest.raises(BindingError, match="seed"):
            infer.particle_filter(LOCKED, [0], [0, 1], 5, seed)
    assert infer.particle_filter(LOCKED, [0], [0, 1], 5, -(1 << 70)).marginals.tolist() == [[1.0, 0.0]]
    with pytest.raises(EventDataError, match="Marginals"):
        infer.likeliest_each([1.0])
    with pytest.raises(EventDataError, match=r"Unknown reading 'C'"):
        LOCKED.codes(["A", "C"])
    with pytest.raises(EventDataError, match="unhashable"):
        LOCKED.codes([["A"]])  # type: ignore[list-item]
    with pytest.raises(BindingError, match="max_iterations=-1: expected an integer of at least 0"):
        learn(LOCKED, [0], [0, 1], max_iterations=-1)
    with pytest.raises(BindingError, match="tolerance=nan: expected a number of at least 0"):
        learn(LOCKED, [0], [0, 1], tolerance=math.nan)
    with pytest.raises(BindingError, match="likelihoods"):
        learn(LOCKED, [[1.0, 1.0]], [0, 1])
    wide = hidden_markov(values=range(101), transitions=np.full((101, 101), 1 / 101))
    with pytest.raises(BindingError, match=r"product has .* the limit is"):
        wide.product(wide)
    with pytest.raises(BindingError, match="Only one"):
        LOCKED.product(hidden_markov(transitions=WAYS))
