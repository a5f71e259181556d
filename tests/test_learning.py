"""Models learned from declared streams: hand-worked counts, errors, and convergence to the true model."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import perseid as ps

BEGUN = ps.uncertain.hidden_markov(
    transitions=ps.uncertain.floor_plan([("hall", "a"), ("hall", "b")], stay=0.5),
    readings={"hall": {"h": 0.5, None: 0.5}, "a": {"x": 0.5, None: 0.5}, "b": {"x": 0.5, None: 0.5}},
)
ROWS = [
    {"ts": 0, "who": "ann", "r": "h", "was": "hall"},
    {"ts": 1, "who": "ann", "r": "x", "was": "a"},
    {"ts": 3, "who": "ann", "r": None, "was": "a"},
    {"ts": 0, "who": "bob", "r": None, "was": "b"},
    {"ts": 1, "who": "bob", "r": "h", "was": "hall"},
    {"ts": 2, "who": "bob", "r": "h", "was": None},
]


def stream(rows: Any = ROWS, **more: Any) -> ps.uncertain.UncertainEvents:
    kind = {"event_type": "At", "key": "who", "value": "place", "reading": "r", "model": BEGUN, "every": "1 second"}
    return ps.uncertain_events(rows, **{**kind, **more})


def transitions_from(model: ps.uncertain.HiddenMarkov, value: str) -> dict[Any, float]:
    at = model.values.index(value)
    own = slice(model.starts[at], model.starts[at + 1])
    return {model.values[to]: float(p) for to, p in zip(model.targets[own], model.weights[own], strict=True)}


def test_transitions_and_readings_are_counted() -> None:
    """Ann's third row follows a missing step and begins a new trace: one transition from hall to a, one from b to hall."""
    model = ps.uncertain.learn(stream(), truth="was", smoothing=0.0).model
    assert transitions_from(model, "hall") == {"hall": 0.0, "a": 1.0, "b": 0.0}
    assert transitions_from(model, "b") == {"hall": 1.0, "b": 0.0}
    assert transitions_from(model, "a") == pytest.approx({"hall": 0.5, "a": 0.5}), (
        "a value without counts has the initial probabilities"
    )
    assert model.initial.tolist() == [1 / 3, 1 / 3, 1 / 3]
    assert model.emissions[model.readings.index("h")].tolist() == [1.0, 0.0, 0.0]


def test_reading_timeout_joins_traces_across_missing_rows() -> None:
    """The missing second has no truth, so transitions into it and out of it are not counted."""
    model = ps.uncertain.learn(stream(reading_timeout="1 second"), truth="was", smoothing=0.0).model
    assert model.initial.tolist() == [1 / 2, 0.0, 1 / 2]
    one = ps.uncertain.learn(stream(ROWS[:1]), max_iterations=1).log_likelihoods
    with_timeout = ps.uncertain.learn(stream(ROWS[:1], reading_timeout="1 hour"), max_iterations=1).log_likelihoods
    assert one == with_timeout, "missing rows after the last row are not readings"


def test_all_input_types_give_the_same_model() -> None:
    results = [
        ps.uncertain.learn(stream(data)) for data in (ROWS, pd.DataFrame(ROWS), pa.Table.from_pylist(ROWS), iter(ROWS))
    ]
    assert len({one.model for one in results}) == 1
    assert len({one.log_likelihoods for one in results}) == 1
    first = results[0]
    assert first.settled
    assert all(later >= before for before, later in zip(first.log_likelihoods, first.log_likelihoods[1:], strict=False))
    assert not transitions_from(first.model, "a").get("b"), "there is no door"


def test_learning_converges_to_the_true_model() -> None:
    """3,000 steps of a model that has more accurate readings and fewer moves than the initial one."""
    true = ps.uncertain.hidden_markov(
        transitions=ps.uncertain.floor_plan([("hall", "a"), ("hall", "b")], stay=0.9),
        initial={"hall": 1.0},
        readings={"hall": {"h": 0.9, None: 0.1}, "a": {"x": 0.2, None: 0.8}, "b": {"x": 0.7, None: 0.3}},
    )
    random, at, rows = np.random.default_rng(7), 0, []
    for second in range(3000):
        read = random.choice(len(true.readings), p=true.emissions[:, at])
        rows.append({"ts": second, "who": "ann", "r": true.readings[read], "was": true.values[at]})
        own = slice(true.starts[at], true.starts[at + 1])
        at = int(random.choice(true.targets[own], p=true.weights[own]))
    tilted = ps.uncertain.hidden_markov(
        transitions=ps.uncertain.floor_plan([("hall", "a"), ("hall", "b")], stay=0.6),
        readings={"hall": {"h": 0.6, None: 0.4}, "a": {"x": 0.4, None: 0.6}, "b": {"x": 0.6, None: 0.4}},
    )
    for more in ({}, {"truth": "was"}):
        learnt = ps.uncertain.learn(stream(rows, model=tilted), max_iterations=500, **more).model
        assert learnt.readings == true.readings
        assert np.abs(learnt.emissions - true.emissions).max() < 0.12
        assert np.abs(learnt.weights - true.weights).max() < 0.06


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (ROWS, {}, "learn requires an uncertain stream with readings, got list"),
        (stream([]), {}, "No rows to learn from"),
        (stream([]), {"truth": "was"}, "No rows to learn from"),
        (
            stream(),
            {"truth": "where"},
            "Column 'where' not found in the stream; it is configured as the truth. Available: r, ts, was, who.",
        ),
        (stream(), {"truth": "who"}, "'ann', which is not a value of the model"),
        (stream(), {"truth": "was", "smoothing": -1}, "smoothing"),
        (stream(), {"max_iterations": -1}, "max_iterations=-1: expected an integer of at least 0"),
        (stream(every="2 seconds"), {}, "several readings"),
        (stream([ROWS[0], {**ROWS[1], "was": "b"}, {**ROWS[2], "ts": 2}]), {"truth": "was"}, "from 'b' to 'a'"),
        (stream().combine(ps.events([])), {}, "learn requires one uncertain stream, and several are combined"),
        (ps.uncertain_events([], event_type="At", value="place"), {}, "this stream has probabilities"),
        (
            ps.uncertain_events([], event_type="At", value="place", likelihood="l", model=BEGUN),
            {},
            "this stream has likelihoods",
        ),
    ],
)
def test_invalid_input_of_learn_is_an_error(data: Any, options: Any, message: str) -> None:
    with pytest.raises(ps.PerseidError, match=re.escape(message)):
        ps.uncertain.learn(data, **options)
