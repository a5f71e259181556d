"""Models learnt from declared streams: what is counted by hand, what is refused, and that learning helps."""

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


def ways(model: ps.uncertain.HiddenMarkov, value: str) -> dict[Any, float]:
    at = model.values.index(value)
    own = slice(model.starts[at], model.starts[at + 1])
    return {model.values[to]: float(p) for to, p in zip(model.targets[own], model.weights[own], strict=True)}


def test_counting() -> None:
    """Ann's third row is after a silence, and begins a trace: hall to a once, b to hall once."""
    model = ps.uncertain.learn(stream(), truth="was", smoothing=0.0).model
    assert ways(model, "hall") == {"hall": 0.0, "a": 1.0, "b": 0.0}
    assert ways(model, "b") == {"hall": 1.0, "b": 0.0}
    assert ways(model, "a") == pytest.approx({"hall": 0.5, "a": 0.5}), "of what nothing was counted, all is kept"
    assert model.initial.tolist() == [1 / 3, 1 / 3, 1 / 3]
    assert model.emissions[model.readings.index("h")].tolist() == [1.0, 0.0, 0.0]


def test_patience_joins_traces_and_reads_silence() -> None:
    """The silent second between has no truth: nothing is counted into it or out of it."""
    model = ps.uncertain.learn(stream(reading_timeout="1 second"), truth="was", smoothing=0.0).model
    assert model.initial.tolist() == [1 / 2, 0.0, 1 / 2]
    one = ps.uncertain.learn(stream(ROWS[:1]), max_iterations=1).log_likelihoods
    patient = ps.uncertain.learn(stream(ROWS[:1], reading_timeout="1 hour"), max_iterations=1).log_likelihoods
    assert one == patient, "after the last row nothing is known, not even silence"


def test_all_tables_say_the_same() -> None:
    told = [
        ps.uncertain.learn(stream(data)) for data in (ROWS, pd.DataFrame(ROWS), pa.Table.from_pylist(ROWS), iter(ROWS))
    ]
    assert len({one.model for one in told}) == 1
    assert len({one.log_likelihoods for one in told}) == 1
    first = told[0]
    assert first.settled
    assert all(later >= before for before, later in zip(first.log_likelihoods, first.log_likelihoods[1:], strict=False))
    assert not ways(first.model, "a").get("b"), "there is no door"


def test_learning_finds_what_was_true() -> None:
    """A thousand steps of a model that reads better and moves less than the one begun with."""
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
    ("given", "words", "says"),
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
def test_what_cannot_be_learnt(given: Any, words: Any, says: str) -> None:
    with pytest.raises(ps.PerseidError, match=re.escape(says)):
        ps.uncertain.learn(given, **words)
