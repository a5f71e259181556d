"""Uncertain streams in the public API: small hand-worked examples, and errors."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest

import perseid as ps
from perseid.errors import EventDataError, PerseidError, UnsupportedError

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def second(number: int) -> dt.datetime:
    return START + dt.timedelta(seconds=number)


def stream_of(*rows: tuple[int, str, str | None, float | None], **more: Any) -> ps.uncertain.UncertainEvents:
    """Return a stream from rows of second, person, place and probability."""
    data = [{"ts": second(at), "who": who, "place": place, "p": p} for at, who, place, p in rows]
    return ps.uncertain_events(
        data, **{"event_type": "At", "key": "who", "value": "place", "every": "1 second", **more}
    )


def stream_of_tables(*rows: tuple[int, str, str | None, str, float], **more: Any) -> ps.uncertain.UncertainEvents:
    """Return a stream of transition tables from rows of second, person, previous place, place and probability."""
    data = [{"ts": second(at), "who": who, "old": old, "place": to, "p": p} for at, who, old, to, p in rows]
    kind = {"event_type": "At", "key": "who", "value": "place", "previous": "old", "every": "1 second"}
    return ps.uncertain_events(data, **{**kind, **more})


def pattern_of(match: str, more: str = "within forever") -> ps.Pattern:
    return ps.pattern(f"pattern p match {match} {more} selection successor")


def probabilities_of(result: ps.uncertain.UncertainMatches) -> dict[int, float]:
    """Return the probabilities by second."""
    return {int((row["time"] - START).total_seconds()): row["p"] for row in result}


AB = pattern_of("At [place = 'a'] -> At [place = 'b']")
IN_A = pattern_of("At [place = 'a']")
EACH_IN_A = pattern_of("At [place = 'a']", "within forever partition by who")
MODEL = ps.uncertain.hidden_markov(
    transitions={"a": {"a": 0.75, "b": 0.25}, "b": {"a": 0.25, "b": 0.75}},
    readings={"a": {"A": 0.8, "B": 0.2}, "b": {"A": 0.2, "B": 0.8}},
)


def stream_of_readings(*readings: str | None, **more: Any) -> ps.uncertain.UncertainEvents:
    """Return a stream with one reading of ann per second from second 1."""
    data = [{"ts": second(at), "who": "ann", "r": reading} for at, reading in enumerate(readings, 1)]
    kind = {"event_type": "At", "key": "who", "value": "place", "reading": "r", "model": MODEL, "every": "1 second"}
    return ps.uncertain_events(data, **{**kind, **more})


# UncertainMatches


def test_independent_steps_have_the_hand_worked_probabilities() -> None:
    """At 2: a at 1, then b. At 3: a at 1, no b at 2, then b."""
    stream = stream_of((1, "ann", "a", 0.5), (2, "ann", "b", 0.6), (3, "ann", "b", 1.0))
    result = AB.match(stream)
    assert probabilities_of(result) == pytest.approx({2: 0.5 * 0.6, 3: 0.5 * 0.4})
    assert [row["pattern"] for row in result] == ["p", "p"]
    assert {row["error"] for row in result} == {0.0}
    assert (result.sampled, result.impossible) == (0, 0)


def test_empty_stream_has_no_results() -> None:
    """As with certain streams, columns can be missing from an empty table, but not from an empty list."""
    for stream in (stream_of(), stream_of_tables(), stream_of_readings()):
        result = EACH_IN_A.match(stream)
        assert (len(result), result.notes) == (0, ())
        assert result.to_arrow().column_names == ["pattern", "who", "time", "p", "error"]
    bare = pa.table({"ts": pa.array([], pa.timestamp("us", "UTC"))})
    with pytest.raises(EventDataError, match="Column 'who' not found in the table of At"):
        IN_A.match(ps.uncertain_events(bare, event_type="At", key="who", value="place", every="1 second"))


def test_result_converts_to_dicts_arrow_pandas_and_html() -> None:
    result = AB.match(stream_of((1, "ann", "a", 0.5), (2, "ann", "b", 0.6)))
    assert repr(result) == "1 result\n  p  [2026-01-01 00:00:02]  p=0.3000"
    row = {"pattern": "p", "time": second(2), "p": pytest.approx(0.3), "error": 0.0}
    assert list(result) == result.to_dicts() == result[:] == [row]
    assert result[0] == result[-1] == row
    assert result.to_arrow().column_names == ["pattern", "time", "p", "error"]
    assert result.to_pandas()["p"].tolist() == [pytest.approx(0.3)]
    assert "<table" in (result._repr_html_() or "")
    with pytest.raises(IndexError, match="Index 1 is out of range: 1 result"):
        result[1]


def test_results_per_group_and_for_any_key() -> None:
    """One probability per person, and for any person 1 - (1 - 0.25) * (1 - 0.1)."""
    stream = stream_of((1, "ann", "a", 0.5), (2, "ann", "b", 0.5), (1, "bob", "a", 1.0), (2, "bob", "b", 0.1))
    each = pattern_of("At [place = 'a'] -> At [place = 'b']", "within forever partition by who").match(stream)
    assert {row["who"]: row["p"] for row in each} == pytest.approx({"ann": 0.25, "bob": 0.1})
    assert "who=ann" in repr(each)
    same = pattern_of("At(who as w) [place = 'a'] -> At(who as w) [place = 'b']").match(stream)
    assert probabilities_of(same) == pytest.approx({2: 1 - 0.75 * 0.9})


def test_transition_tables() -> None:
    """Ann stays in a place with probability 0.9. After a missing step, the table of no event applies."""
    second_step = [(2, "ann", "a", "a", 0.9), (2, "ann", "a", "b", 0.1), (2, "ann", "b", "b", 1.0)]
    first = [(1, "ann", None, "a", 0.5), (1, "ann", None, "b", 0.5)]
    assert probabilities_of(AB.match(stream_of_tables(*first, *second_step))) == pytest.approx({2: 0.05})
    gap = [(1, "ann", None, "a", 1.0), (3, "ann", "a", "b", 1.0), (3, "ann", None, "b", 0.25)]
    assert probabilities_of(AB.match(stream_of_tables(*gap))) == pytest.approx({3: 0.25})


def test_inference_from_readings() -> None:
    """The expected values are computed by hand, as in tests/semantics/test_worlds.py."""
    a_a, b_a = 0.8 * 0.75 * 0.2, 0.2 * 0.25 * 0.2
    a_b, b_b = 0.8 * 0.25 * 0.8, 0.2 * 0.75 * 0.8
    whole = a_a + b_a + a_b + b_b
    assert probabilities_of(IN_A.match(stream_of_readings("A", "B"))) == pytest.approx({1: 0.8, 2: (a_a + b_a) / whole})
    assert probabilities_of(AB.match(stream_of_readings("A", "B"))) == pytest.approx({2: a_b / whole})
    for inference in ("smooth", "lag(1)"):
        found = probabilities_of(IN_A.match(stream_of_readings("A", "B", inference=inference)))
        assert found == pytest.approx({1: (a_a + a_b) / whole, 2: (a_a + b_a) / whole})
    by_step = probabilities_of(AB.match(stream_of_readings("A", "B", correlated=False)))
    assert by_step == pytest.approx({2: 0.8 * (a_b + b_b) / whole})


def test_likeliest_and_viterbi_values_are_certain() -> None:
    """The likeliest value is a, then b. The likeliest path is also a b, with 0.16 against 0.12 for b b and a a."""
    for inference in ("likeliest", "viterbi"):
        assert probabilities_of(AB.match(stream_of_readings("A", "B", inference=inference))) == {2: 1.0}


def test_particle_filter_approximates_the_filter() -> None:
    exact = probabilities_of(IN_A.match(stream_of_readings("A", "B", "A")))
    assert probabilities_of(
        IN_A.match(stream_of_readings("A", "B", "A", inference="particles(5000)"))
    ) == pytest.approx(exact, abs=0.05)


def test_impossible_readings_are_ignored_and_counted() -> None:
    locked = ps.uncertain.hidden_markov(
        values=["a", "b"],
        initial={"a": 1.0},
        transitions={"a": {"a": 1.0}, "b": {"b": 1.0}},
        readings={"a": {"A": 1.0}, "b": {"B": 1.0}},
    )
    result = EACH_IN_A.match(stream_of_readings("A", "B", "A", model=locked))
    assert probabilities_of(result) == {1: 1.0, 2: 1.0, 3: 1.0}
    assert result.impossible == 1
    assert "1 readings that no value of the model explains were ignored" in repr(result)


def test_likelihoods_equal_readings() -> None:
    """Likelihoods equal to the reading probabilities of the model give the same result as the readings."""
    data = pa.table({"ts": [second(1), second(2)], "who": ["ann", "ann"], "like": [[0.8, 0.2], [0.2, 0.8]]})
    result = AB.match(
        ps.uncertain_events(
            data, event_type="At", key="who", value="place", likelihood="like", model=MODEL, every="1 second"
        )
    )
    assert probabilities_of(result) == pytest.approx(probabilities_of(AB.match(stream_of_readings("A", "B"))))


def test_missing_rows_count_as_readings_until_the_reading_timeout() -> None:
    """Without the timeout, inference restarts at the second reading, with 0.5 for each place."""
    data = [{"ts": second(at), "who": "ann", "r": "A"} for at in (1, 3)]
    kind = {"event_type": "At", "key": "who", "value": "place", "reading": "r", "model": MODEL, "every": "1 second"}
    assert probabilities_of(IN_A.match(ps.uncertain_events(data, **kind))) == pytest.approx({1: 0.8, 3: 0.8})
    with_timeout = probabilities_of(IN_A.match(ps.uncertain_events(data, reading_timeout="1 second", **kind)))
    before = 0.75 * (0.75 * 0.8 + 0.25 * 0.2) + 0.25 * (0.25 * 0.8 + 0.75 * 0.2)
    assert with_timeout == pytest.approx(
        {1: 0.8, 2: 0.75 * 0.8 + 0.25 * 0.2, 3: (known := before * 0.8 / (before * 0.8 + (1 - before) * 0.2)),
         4: 0.75 * known + 0.25 * (1 - known)}
    )  # fmt: skip


def test_several_columns_can_be_uncertain() -> None:
    data = [
        {"ts": second(1), "who": "ann", "place": "a", "mood": "good", "p": 0.3},
        {"ts": second(1), "who": "ann", "place": "a", "mood": "bad", "p": 0.2},
    ]
    stream = ps.uncertain_events(data, event_type="At", key="who", value=["place", "mood"])
    assert probabilities_of(IN_A.match(stream)) == pytest.approx({1: 0.5})
    assert probabilities_of(pattern_of("At [place = 'a' and mood = 'bad']").match(stream)) == pytest.approx({1: 0.2})


def test_null_is_no_event() -> None:
    stream = stream_of((1, "ann", None, 0.5), (1, "ann", "a", 0.25))
    assert probabilities_of(pattern_of("At").match(stream)) == pytest.approx({1: 0.25})


def test_rows_of_one_step_are_simultaneous() -> None:
    """With a step of one second, a and b half a second apart are alternatives of one step."""
    data = [
        {"ts": second(1), "who": "ann", "place": "a", "p": 0.5},
        {"ts": second(1) + dt.timedelta(milliseconds=500), "who": "ann", "place": "b", "p": 0.5},
    ]
    stream = {"event_type": "At", "key": "who", "value": "place"}
    assert len(AB.match(ps.uncertain_events(data, every="1 second", **stream))) == 0
    assert [row["p"] for row in AB.match(ps.uncertain_events(data, **stream))] == [0.25]


def test_combination_with_certain_events_and_relations() -> None:
    doors = ps.events([{"ts": second(3), "type": "Door", "who": "ann"}])
    stream = stream_of((1, "ann", "a", 0.5), (2, "ann", "c", 0.5), (2, "ann", "b", 0.1)).combine(doors)
    through = pattern_of("At [place in Rooms] -> Door")
    assert probabilities_of(through.match(stream, relations={"Rooms": [("a",), ("b",)]})) == pytest.approx(
        {3: 1 - 0.5 * 0.9}
    )
    assert repr(stream) == "<uncertain events: At of who and certain events>"


def test_combination_with_another_uncertain_stream() -> None:
    lamp = ps.uncertain_events([{"ts": second(2), "on": True, "p": 0.5}], event_type="Lamp", value="on")
    found = pattern_of("At [place = 'a'] -> Lamp [on]").match(stream_of((1, "ann", "a", 0.5)).combine(lamp))
    assert probabilities_of(found) == {2: 0.25}


def test_window_limits_the_duration() -> None:
    stream = stream_of((1, "ann", "a", 1.0), (3, "ann", "b", 1.0))
    assert probabilities_of(pattern_of("At [place = 'a'] -> At [place = 'b']", "within 2 seconds").match(stream)) == {
        3: 1.0
    }
    assert len(pattern_of("At [place = 'a'] -> At [place = 'b']", "within 1 second").match(stream)) == 0


WALKED_AND_RANG = "At(who as x) [place = 'a'] -> At(who as x) [place = 'b'] -> Lamp [on]"
"""A Safe pattern that is not Extended Regular, because the lamp has no key."""


def stream_with_lamp(**more: Any) -> ps.uncertain.UncertainEvents:
    """Return a stream with ann in a with 0.5 at 1, in a or b at 2, in b with 0.6 at 3, and a lamp that is on at 4."""
    lamp = ps.uncertain_events([{"ts": second(4), "on": True, "p": 1.0}], event_type="Lamp", value="on")
    rows = ((1, "ann", "a", 0.5), (2, "ann", "a", 0.4), (2, "ann", "b", 0.6), (3, "ann", "b", 0.6))
    return stream_of(*rows, **more).combine(lamp)


def test_windows_of_safe_patterns_are_exact() -> None:
    """Within 3 seconds: a at 1 and b at 2, or else at 3; or no a at 1, a at 2, and b at 3."""
    since_1 = 0.5 * (0.6 + 0.4 * 0.6) + 0.5 * 0.4 * 0.6
    for within, expected in (
        ("forever", {4: since_1}),
        ("3 seconds", {4: since_1}),
        ("2 seconds", {4: 0.4 * 0.6}),
        ("1 second", {}),
    ):
        found = pattern_of(WALKED_AND_RANG, f"within {within}").match(stream_with_lamp())
        assert probabilities_of(found) == pytest.approx(expected), within
        assert all(row["error"] == 0 for row in found)
    with pytest.raises(EventDataError, match="the stream has no step length"):
        pattern_of(WALKED_AND_RANG, "within 3 seconds").match(stream_with_lamp(every=None))


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        # Bob has an event between 1 and 3, so ann's events at 1 and 3 are not consecutive; those at 3 and 4 are.
        ("At(who as w){2} a consecutive -> At(who as w) b", {5: 1.0}),
        # The second step starts at 3; the events at 4 and 5 are consecutive iterations.
        ("At(who as w) a [place = 'a'] -> At(who as w){3} b consecutive", {5: 1.0}),
        ("At(who as w) a -> At(who as w){4} b consecutive", {}),
    ],
)
def test_consecutive_iterations_with_a_shared_variable(match: str, expected: dict[int, float]) -> None:
    """Ann has events at 1, 3, 4 and 5, bob at 2. All are certain, so sampled results are exact."""
    stream = stream_of(
        (1, "ann", "a", 1.0), (2, "bob", "b", 1.0), (3, "ann", "b", 1.0), (4, "ann", "b", 1.0), (5, "ann", "b", 1.0)
    )
    assert probabilities_of(ps.pattern(f"pattern p match {match} within forever").match(stream)) == expected


@pytest.mark.parametrize("within", ["forever", "5 seconds"])
@pytest.mark.parametrize(
    "prefix",
    [
        "At(who as w)* a",
        "At(who as w){,2} a",
        "(At(who as w) a -> At(who as w) b)?",
        "(At(who as w) a | At(who as w)? b)",
    ],
)
def test_step_after_an_optional_prefix_matches_alone(prefix: str, within: str) -> None:
    """Ann has an event with 0.5, and the door opens with certainty, which alone is a match."""
    stream = stream_of((0, "ann", "a", 0.5)).combine(ps.events([{"ts": second(1), "type": "Door"}]))
    assert probabilities_of(ps.pattern(f"pattern p match {prefix} -> Door d within {within}").match(stream)) == {1: 1.0}


def test_sampling_always_has_the_error_bound() -> None:
    stream = stream_of(
        (1, "ann", "a", 0.5), sampling=ps.uncertain.Sampling(always=True, epsilon=0.02, delta=0.01, seed=3)
    )
    (row,) = IN_A.match(stream)
    assert row["p"] == pytest.approx(0.5, abs=0.02)
    assert row["error"] == 0.02
    assert "± 0.02" in repr(IN_A.match(stream))


def test_pruning_drops_at_most_the_pruned_probability() -> None:
    """Pruned states are no longer part of a match, so the probability can be too low by their share."""
    stream = stream_of((1, "ann", "a", 0.01), (2, "ann", "b", 1.0), prune=0.05)
    result = AB.match(stream)
    missed = 0.01 - (result[0]["p"] if len(result) else 0.0)
    assert 0 <= missed <= 0.01
    whole = stream_of((1, "ann", "a", 0.01), (1, "ann", "c", 0.99), (2, "ann", "b", 1.0), (2, "bob", "a", 0.5))
    assert probabilities_of(AB.match(whole)) == pytest.approx({2: 0.01})


# Output policies


def stream_of_ann_in_a(*probabilities: float | None) -> ps.uncertain.UncertainEvents:
    """Return a stream with one probability per second from second 1; None is a second without a row."""
    return stream_of(*((at, "ann", "a", p) for at, p in enumerate(probabilities, 1) if p is not None))


def test_above_emits_steps_above_the_threshold() -> None:
    stream = stream_of_ann_in_a(0.2, 0.5, 0.8)
    assert probabilities_of(IN_A.match(stream, emit=ps.uncertain.above(0.5))) == {3: 0.8}  # the threshold is exclusive
    assert probabilities_of(IN_A.match(stream, emit=ps.uncertain.above(0))) == {1: 0.2, 2: 0.5, 3: 0.8}


def test_alert_is_emitted_again_only_after_a_fall() -> None:
    """0.6 is a rise. 0.4 is no fall below 0.3, so 0.7 is no new alert. After 0.2, 0.9 is."""
    stream = stream_of_ann_in_a(0.1, 0.6, 0.4, 0.7, 0.2, 0.9)
    assert probabilities_of(IN_A.match(stream, emit=ps.uncertain.alerts(rise=0.6, fall=0.3))) == {2: 0.6, 6: 0.9}
    assert probabilities_of(IN_A.match(stream, emit=ps.uncertain.alerts(0.6))) == {2: 0.6, 4: 0.7, 6: 0.9}


def test_missing_step_ends_an_alert() -> None:
    assert probabilities_of(IN_A.match(stream_of_ann_in_a(0.6, None, 0.6), emit=ps.uncertain.alerts(0.5, 0.1))) == {
        1: 0.6,
        3: 0.6,
    }


def test_spans_are_consecutive_steps_above_the_threshold() -> None:
    found = IN_A.match(stream_of_ann_in_a(0.6, 0.8, 0.5, 0.4, 0.7, None, 0.7), emit=ps.uncertain.spans(0.5))
    assert [((row["start"] - START).seconds, (row["end"] - START).seconds, row["p"]) for row in found] == [
        (1, 3, 0.8),
        (5, 5, 0.7),
        (7, 7, 0.7),
    ]
    assert "[2026-01-01 00:00:01 → 2026-01-01 00:00:03]  p=0.8000" in repr(found)


def test_spans_are_separate_for_each_group() -> None:
    stream = stream_of((1, "ann", "a", 0.9), (2, "bob", "a", 0.9))
    found = pattern_of("At [place = 'a']", "within forever partition by who").match(
        stream, emit=ps.uncertain.spans(0.5)
    )
    assert [(row["who"], row["start"], row["end"]) for row in found] == [
        ("ann", second(1), second(1)),
        ("bob", second(2), second(2)),
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ps.uncertain.above(1.5), "p=1.5: expected a probability from 0 to 1"),
        (lambda: ps.uncertain.above(True), "p=True: expected a probability from 0 to 1"),
        (lambda: ps.uncertain.alerts(0.3, 0.6), "fall=0.6, rise=0.3: expected fall above 0 and rise of at least fall"),
        (lambda: ps.uncertain.alerts(0.3, 0), "fall=0, rise=0.3: expected fall above 0"),
        (lambda: ps.uncertain.spans(0), "p=0: expected a probability above 0"),
        (lambda: ps.uncertain.spans(math.nan), "p=nan: expected a probability from 0 to 1"),
        (lambda: IN_A.match(stream_of_ann_in_a(0.5), emit=0.5), "emit=0.5: expected an output policy"),
    ],
)
def test_invalid_output_policy_is_an_error(make: Any, message: str) -> None:
    with pytest.raises(EventDataError) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize("options", [{"emit": ps.uncertain.above(0.5)}])
def test_output_policy_requires_an_uncertain_stream(options: dict[str, Any]) -> None:
    certain = ps.events([{"ts": second(1), "type": "At", "place": "a"}])
    with pytest.raises(
        UnsupportedError, match="emit= requires an uncertain stream, and this stream is certain"
    ) as caught:
        IN_A.match(certain, **options)
    assert "ps.uncertain_events" in str(caught.value)


# Errors

ROWS = [{"ts": START, "who": "ann", "place": "a", "p": 0.5}]
STREAM = {"event_type": "At", "key": "who", "value": "place"}

DECLARED: dict[str, tuple[dict[str, Any], str]] = {
    "an invalid event type": ({"event_type": "At home"}, "event_type='At home': expected the name of an event type"),
    "nothing uncertain": ({"value": ()}, "value= names no column"),
    "a key that is uncertain": ({"value": "who"}, "Column 'who' is in key= and in value="),
    "a reading without a model": ({"reading": "r"}, "reading= requires a model="),
    "likelihoods without a model": ({"likelihood": "r"}, "likelihood= requires a model="),
    "a model without a reading": ({"model": MODEL}, "model= requires either reading= or likelihood="),
    "reading and likelihood": ({"model": MODEL, "reading": "r", "likelihood": "l"}, "model= requires either reading= or likelihood="),
    "no model": ({"model": {}, "reading": "r"}, "model= expected a HiddenMarkov, got dict"),
    "a model and probabilities": ({"model": MODEL, "reading": "r", "probability": "p"}, "not both"),
    "a model and tables": ({"model": MODEL, "reading": "r", "previous": "old"}, "not both"),
    "too few previous columns": ({"value": ["place", "mood"], "previous": "old"}, "previous= has 1 columns, value= has 2"),
    "model values that are not pairs": (
        {"value": ["place", "mood"], "model": MODEL, "reading": "r"}, "the values of the model are not tuples of 2",
    ),
    "a misspelled inference": ({"model": MODEL, "reading": "r", "inference": "fliter"}, "Unknown inference 'fliter'"),
    "a lag of no steps": ({"model": MODEL, "reading": "r", "inference": "lag"}, "'lag(5)' and 'particles(1000)' require a number"),
    "a lag of 0": ({"model": MODEL, "reading": "r", "inference": "lag(0)"}, "'lag(5)' and 'particles(1000)' require a number"),
    "a filter with a number": ({"model": MODEL, "reading": "r", "inference": "filter(3)"}, "the others have none"),
    "a reading timeout without steps": (
        {"model": MODEL, "reading": "r", "reading_timeout": "2 seconds"}, "reading_timeout= requires the length of a step",
    ),
    "a step of no length": ({"every": "0 seconds"}, "every='0 seconds'"),
    "sampling": ({"sampling": 0.1}, "sampling= expected Sampling, got float"),
    "prune": ({"prune": 1}, "prune=1: expected a number from 0 to below 1"),
    "prune with a filter": (
        {"model": MODEL, "reading": "r", "prune": 0.1}, "prune= is unsupported with inference='filter'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DECLARED)
def test_invalid_declaration_is_an_error(case: str) -> None:
    options, message = DECLARED[case]
    with pytest.raises(EventDataError) as caught:
        ps.uncertain_events(ROWS, **{**STREAM, **options})
    assert message in str(caught.value)


def test_sampling_is_validated() -> None:
    for name, number in (("epsilon", 0), ("delta", 1.5), ("delta", "1"), ("epsilon", True)):
        with pytest.raises(EventDataError, match=f"{name}={number!r}: expected a number between 0 and 1"):
            ps.uncertain.Sampling(**{name: number})  # type: ignore[arg-type]


def test_misspelled_inference_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(EventDataError, match="filter") as caught:
        stream_of_readings("A", inference="fliter")
    assert "Did you mean 'filter'?" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "person"}, "key or value column"),
        ({"value": "room"}, "key or value column"),
        ({"probability": "chance"}, "probability column"),
        ({"previous": "old"}, "previous value column"),
        ({"time": "when"}, "when"),
        ({"model": MODEL, "reading": "r"}, "reading column"),
        ({"model": MODEL, "likelihood": "l"}, "likelihood column"),
    ],
)
def test_missing_column_is_an_error_with_its_role(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PerseidError) as caught:
        IN_A.match(ps.uncertain_events(ROWS, **{**STREAM, **options}))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "shares", [(1.5,), (0.7, 0.7), (-0.1,), (math.nan,), (None,), (0.2, None), (math.inf,)], ids=str
)
def test_probabilities_that_are_not_a_distribution_are_an_error(shares: tuple[float | None, ...]) -> None:
    stream = stream_of(*((1, "ann", place, p) for place, p in zip("ab", shares, strict=False)))
    with pytest.raises(
        EventDataError, match="The probabilities of At of who ann at one step are not a distribution"
    ) as e:
        IN_A.match(stream)
    assert "with a sum of at most 1; the rest is the probability of no event" in str(e.value)


def test_rounded_probabilities_are_a_distribution() -> None:
    stream = stream_of((1, "ann", "a", 0.3333334), (1, "ann", "b", 0.3333334), (1, "ann", "c", 0.3333334))
    assert probabilities_of(IN_A.match(stream)) == pytest.approx({1: 0.3333334})


def test_tables_are_distributions_for_each_previous_value() -> None:
    """Two rows of 0.7 for different previous values are valid."""
    sound = stream_of_tables((1, "ann", None, "a", 0.7), (1, "ann", "x", "a", 0.7))
    assert probabilities_of(IN_A.match(sound)) == pytest.approx({1: 0.7})
    with pytest.raises(EventDataError, match=r"are not a distribution: 0\.7, 0\.7"):
        IN_A.match(stream_of_tables((1, "ann", None, "a", 0.7), (1, "ann", None, "b", 0.7)))


def test_probability_that_is_not_a_number_is_an_error() -> None:
    with pytest.raises(EventDataError, match="Column 'p' of At: expected probabilities, got string"):
        IN_A.match(ps.uncertain_events([{**ROWS[0], "p": "often"}], **STREAM))


def test_unknown_reading_is_an_error() -> None:
    with pytest.raises(EventDataError, match="Unknown reading 'C' of At") as caught:
        IN_A.match(stream_of_readings("A", "C"))
    assert "Available in its model: A, B" in str(caught.value)


@pytest.mark.parametrize(
    ("like", "message"),
    [
        ([0.5], "has 1 likelihoods, but its model has 2 values"),
        ([0.5, -1.0], "negative"),
        ([0.5, math.nan], "not a number"),
    ],
)
def test_invalid_likelihoods_are_an_error(like: list[float], message: str) -> None:
    data = pa.table({"ts": [second(1)], "who": ["ann"], "like": [like]})
    with pytest.raises(EventDataError, match=message):
        IN_A.match(ps.uncertain_events(data, **STREAM, likelihood="like", model=MODEL, every="1 second"))


def test_time_bound_requires_a_step_length() -> None:
    timed = pattern_of("At [place = 'a'] -> At [place = 'b']", "within 5 seconds")
    with pytest.raises(EventDataError, match="has a time bound, but the stream has no step length") as caught:
        timed.match(stream_of((1, "ann", "a", 0.5), every=None))
    assert "every='1 second'" in str(caught.value)
    with pytest.raises(
        EventDataError, match="a time bound of 5 seconds, which is not a multiple of the step length, 2 seconds"
    ):
        timed.match(stream_of((1, "ann", "a", 0.5), every="2 seconds"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("match At -> At within 5 events selection successor", "has a window in events"),
        (
            "match At -> At within forever after match skip past last",
            "has 'after match skip' or 'selection' with consumption",
        ),
        ("match At & Door within 5 seconds after match skip none", "has steps in any order"),
        ("match At -> not Door for 2 seconds within forever after match skip none", "ends with 'not'"),
        ("match At -> At within forever partition by place.floor selection successor", "a nested field"),
    ],
)
def test_unsupported_pattern_is_an_error(text: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        ps.pattern(f"pattern p {text}").match(stream_of((1, "ann", "a", 0.5)))
    assert message in str(caught.value)


def test_partition_by_a_dependent_value_is_an_error() -> None:
    by_place = pattern_of("At -> At", "within forever partition by place")
    for stream in (stream_of_readings("A"), stream_of_tables((1, "ann", None, "a", 1.0))):
        with pytest.raises(
            UnsupportedError, match="partitioned by place, which is uncertain and depends on the previous"
        ):
            by_place.match(stream)
    stream = stream_of((1, "ann", "a", 0.5), (2, "ann", "a", 0.5), (2, "ann", "b", 0.5))
    assert {row["place"]: row["p"] for row in by_place.match(stream)} == {"a": 0.25}


def test_unsafe_pattern_of_filtered_readings_is_an_error() -> None:
    crossing = pattern_of("At a -> At b [place > a.place]")
    with pytest.raises(
        UnsupportedError, match=r"must be sampled .* with inference='filter' cannot be sampled"
    ) as caught:
        crossing.match(stream_of_readings("A", "B"))
    assert "inference='smooth'" in str(caught.value)
    assert crossing.match(stream_of_readings("A", "B", inference="smooth"))[0]["error"] == 0.1


@pytest.mark.parametrize("within", ["forever", "5 seconds"])
def test_safe_pattern_of_filtered_readings_is_an_error(within: str) -> None:
    lamp = ps.uncertain_events([{"ts": second(4), "on": True, "p": 1.0}], event_type="Lamp", value="on")
    pattern = pattern_of(WALKED_AND_RANG, f"within {within}")
    with pytest.raises(
        UnsupportedError, match=r"is evaluated over time intervals .* with inference='filter' cannot be"
    ):
        pattern.match(stream_of_readings("A", "B").combine(lamp))
    for more in ({"correlated": False}, {"inference": "smooth"}):
        assert [row["error"] for row in pattern.match(stream_of_readings("A", "B", **more).combine(lamp))] == [0.0]


def test_combined_streams_must_have_different_event_types() -> None:
    with pytest.raises(EventDataError, match="Two uncertain streams have the event type 'At'") as caught:
        stream_of_ann_in_a(0.5).combine(stream_of_ann_in_a(0.5))
    assert "event_type=" in str(caught.value)
    with pytest.raises(EventDataError, match=r"combine\(…\): expected a stream, got list"):
        stream_of_ann_in_a(0.5).combine([])  # type: ignore[arg-type]


# explain()


def explained(pattern: ps.Pattern, stream: ps.uncertain.UncertainEvents) -> str:
    return " ".join(pattern.explain(stream).split())


def test_classes_are_explained() -> None:
    regular = explained(AB, stream_of_ann_in_a(0.5))
    assert "class Regular (Ré et al. 2008): every predicate is local, and no variable is shared" in regular
    assert "method exact, step by step" in regular
    assert "grouped by step, all keys together" in regular
    assert (
        "4,096 states of a group at once; above it, the group is sampled from that step on: 150 sampled worlds"
        in regular
    )
    assert "At key who, value place: a distribution for each step" in regular
    extended = explained(pattern_of("At(who as w) -> At(who as w)", "within 5 seconds"), stream_of_ann_in_a(0.5))
    assert "class Extended Regular (Ré et al. 2008): w: in the key of every step" in extended
    assert "combined as 1 - product of (1 - p)" in extended
    assert "the duration of a partial match is part of its state" in extended


def test_safe_plans_are_explained() -> None:
    whole = explained(pattern_of(WALKED_AND_RANG), stream_with_lamp())
    assert (
        "class Safe (Ré et al. 2008): x is shared, but not by step 3; safe plan: seq(π-x(reg(At; At)), Lamp)" in whole
    )
    assert "needs finished data, or on a stream a window (within …)" in whole
    window = explained(pattern_of(WALKED_AND_RANG, "within 5 seconds"), stream_with_lamp())
    assert "exact, by a safe plan over the last 6 steps, at each step:" in window
    assert "the duration of a partial match" not in window
    long = explained(pattern_of(WALKED_AND_RANG, "within 1 hour"), stream_with_lamp())
    assert "class Unsafe (Ré et al. 2008)" in long
    assert "which is not used: its window has more than 512 steps" in long
    assert "150 sampled worlds" in long


def test_sampling_is_explained() -> None:
    crossing = pattern_of("At a -> At b [place > a.place]", "within forever partition by who")
    message = explained(
        crossing, stream_of((1, "ann", "a", 0.5), sampling=ps.uncertain.Sampling(epsilon=0.05, delta=0.01, seed=4))
    )
    assert "class Unsafe (Ré et al. 2008): place > a.place refers to two events: the predicate is not local" in message
    worlds = math.ceil(math.log(2 / 0.01) / (2 * 0.05**2))
    assert f"{worlds:,} sampled worlds, seed 4: the error exceeds 0.05 with probability 0.01 at most" in message
    assert "grouped by who and step" in message


def test_streams_are_explained() -> None:
    assert (
        "readings, hidden Markov model with 2 values, lag(2); up to 3 steps without a row count as readings"
        in explained(AB, stream_of_readings("A", inference="lag(2)", reading_timeout="3 seconds"))
    )
    assert "inference restarts after a step without a row" in explained(AB, stream_of_readings("A"))
    assert "a transition table for each step, given the previous value" in explained(
        AB, stream_of_tables((1, "ann", None, "a", 1.0))
    )
    assert "weights below 0.1; error includes the dropped probability" in explained(
        AB, stream_of((1, "ann", "a", 1.0), prune=0.1)
    )


# Irregular steps and impossible readings


def test_without_every_each_distinct_time_is_a_step_of_tables() -> None:
    rows = [(1, "ann", None, "a", 1.0), (2, "ann", "a", "b", 0.5)]
    assert probabilities_of(AB.match(stream_of_tables(*rows, every=None))) == pytest.approx({2: 0.5})


TABLES = ((1, "ann", None, "a", 1.0), (3, "ann", "a", "a", 0.5), (3, "ann", None, "b", 1.0))


@pytest.mark.parametrize(
    "match",
    ["At x [place = 'a']", "(At x [place = 'a'] | Lamp y)", "(At(who as w) x [place = 'a'] | Lamp(who as w) y)"],
)
@pytest.mark.parametrize("bob", [(), ((2, "bob", None, "b", 1.0),)], ids=["one chain", "two chains"])
@pytest.mark.parametrize("method", ["exact", "sample"])
def test_without_every_a_chain_of_tables_has_steps_only_at_times_of_its_rows(
    match: str, bob: tuple[Any, ...], method: str
) -> None:
    """At 3 ann is in a with 0.5, given that she was in a at 1; events of a lamp or of bob at 2 are no steps of her chain."""
    lamp = ps.uncertain_events(
        [{"ts": second(2), "who": "ann", "on": True, "p": 0.5}], event_type="Lamp", key="who", value="on"
    )
    sampling = ps.uncertain.Sampling(epsilon=0.02, delta=0.001, always=True)
    more = {"sampling": sampling} if method == "sample" else {}
    stream = stream_of_tables(*TABLES, *bob, every=None, **more).combine(lamp)
    result = pattern_of(match).match(stream, emit=ps.uncertain.expected())
    expected = {1: 1.0, 3: 0.5} | ({2: 0.5} if "Lamp" in match else {})
    assert probabilities_of(result) == pytest.approx(expected, abs=0.02 if more else 1e-12)
    assert {row["time"]: row["expected"] for row in result} == pytest.approx(
        {second(at): p for at, p in expected.items()}
    )


def test_without_every_a_safe_pattern_is_exact_over_a_chain_of_tables() -> None:
    """Ann is in a at 1, and at 3 with 0.5; the lamp is on with 0.5 at 2, and with certainty at 4."""
    on = [{"ts": second(at), "on": True, "p": p} for at, p in ((2, 0.5), (4, 1.0))]
    stream = stream_of_tables(*TABLES, every=None).combine(ps.uncertain_events(on, event_type="Lamp", value="on"))
    walked = pattern_of("At(who as w) x [place = 'a'] -> At(who as w) y [place = 'a'] -> Lamp z")
    assert "Safe (Ré et al. 2008)" in walked.explain(stream)
    assert probabilities_of(walked.match(stream)) == pytest.approx({4: 0.5})


def test_without_every_a_row_without_a_value_is_a_step() -> None:
    """At 2 ann certainly has no event, so the table of no event applies at 3."""
    rows = [
        (1, "ann", None, "a", 1.0),
        (2, "ann", "a", None, 1.0),
        (3, "ann", "a", "a", 1.0),
        (3, "ann", None, "b", 1.0),
    ]
    lamp = ps.uncertain_events([{"ts": second(2), "on": True, "p": 0.5}], event_type="Lamp", value="on")
    for method in ("exact", "sample"):
        more = {"sampling": ps.uncertain.Sampling(always=True)} if method == "sample" else {}
        stream = stream_of_tables(*rows, every=None, **more).combine(lamp)  # type: ignore[arg-type]
        for match in ("At [place = 'b']", "(At [place = 'b'] | Lamp [on = false])"):
            assert probabilities_of(pattern_of(match).match(stream)) == {3: 1.0}


def test_without_every_each_distinct_time_is_a_step_of_readings() -> None:
    assert probabilities_of(AB.match(stream_of_readings("A", "B", every=None))) == pytest.approx(
        probabilities_of(AB.match(stream_of_readings("A", "B")))
    )


def test_tables_with_independent_steps_are_an_error() -> None:
    with pytest.raises(
        EventDataError,
        match="previous= makes steps depend on the step before, and correlated=False makes them independent",
    ):
        stream_of_tables((1, "ann", None, "a", 0.5), correlated=False)


def test_shared_variable_with_two_values_in_one_step_does_not_match() -> None:
    stream = ps.uncertain_events([{"ts": second(1), "who": "ann", "owner": "bob", "place": "a", "p": 1.0}], event_type="At", key=["who", "owner"], value="place")  # fmt: skip
    assert len(pattern_of("At(who as w, owner as w)").match(stream)) == 0


NEXT = ps.pattern("pattern p match At [place = 'a'], At [place = 'b'] within forever after match skip none")


def test_event_of_another_type_breaks_a_strict_sequence() -> None:
    stream = stream_of((1, "ann", "a", 1.0), (3, "ann", "b", 1.0))
    assert probabilities_of(NEXT.match(stream)) == {3: 1.0}
    assert len(NEXT.match(stream.combine(ps.events([{"ts": second(2), "type": "Door"}])))) == 0


def test_event_of_another_binding_breaks_a_strict_sequence() -> None:
    same = ps.pattern(
        "pattern p match At(who as w) [place = 'a'], At(who as w) [place = 'b'] within forever after match skip none"
    )
    stream = stream_of((1, "ann", "a", 1.0), (2, "bob", "a", 1.0), (3, "ann", "b", 1.0))
    assert all(row["p"] == pytest.approx(0.0, abs=0.1) for row in same.match(stream))


LOCKED = ps.uncertain.hidden_markov(
    values=["a", "b"],
    initial={"a": 1.0},
    transitions={"a": {"a": 1.0}, "b": {"b": 1.0}},
    readings={"a": {"A": 1.0}, "b": {"B": 1.0}},
)


def test_lag_ignores_impossible_readings() -> None:
    assert probabilities_of(EACH_IN_A.match(stream_of_readings("A", "B", model=LOCKED, inference="lag(1)"))) == {
        1: 1.0,
        2: 1.0,
    }


@pytest.mark.parametrize("others", [(), ("bob",)], ids=["one chain", "two chains"])
def test_lag_counts_only_readings_of_the_same_key(others: tuple[str, ...]) -> None:
    """Ann has readings at 1 and 4, and the lamp is on at 3. Both readings determine her place at 1."""
    rows = [(1, "ann", "A"), (4, "ann", "B"), *((2, who, "A") for who in others)]
    data = [{"ts": second(at), "who": who, "r": reading} for at, who, reading in rows]
    lamp = ps.events([{"ts": second(3), "type": "Lamp"}])
    kind = {"event_type": "At", "key": "who", "value": "place", "reading": "r", "model": MODEL, "inference": "lag(1)"}
    stream = ps.uncertain_events(data, **kind).combine(lamp)
    a_a, b_a, a_b, b_b = 0.8 * 0.75 * 0.2, 0.2 * 0.25 * 0.2, 0.8 * 0.25 * 0.8, 0.2 * 0.75 * 0.8
    ann = (a_a + a_b) / (a_a + b_a + a_b + b_b)
    pattern = pattern_of("At [place = 'a'] -> Lamp")
    expected = 1 - (1 - ann) * 0.2 if others else ann
    assert probabilities_of(pattern.match(stream)) == pytest.approx({3: expected})
    counted = pattern.match(stream, emit=ps.uncertain.expected())
    assert [row["expected"] for row in counted] == [pytest.approx(ann + 0.8 * len(others))]


def test_impossible_readings_are_counted_without_a_partition() -> None:
    assert IN_A.match(stream_of_readings("A", "B", model=LOCKED)).impossible == 1


def test_impossible_readings_are_counted_with_smoothing() -> None:
    result = EACH_IN_A.match(stream_of_readings("A", "B", model=LOCKED, inference="smooth"))
    assert probabilities_of(result) == {1: 1.0, 2: 1.0}
    assert result.impossible == 1


def test_missing_row_between_likelihoods_is_a_reading() -> None:
    """Only b has no reading, so the value at 2 is b."""
    model = ps.uncertain.hidden_markov(
        transitions={"a": {"a": 0.5, "b": 0.5}, "b": {"a": 0.5, "b": 0.5}},
        readings={"a": {"A": 1.0}, "b": {None: 1.0}},
    )
    data = pa.table({"ts": [second(1), second(3)], "who": ["ann", "ann"], "like": [[0.5, 0.5], [0.2, 0.2]]})
    stream = ps.uncertain_events(
        data, **STREAM, likelihood="like", model=model, every="1 second", reading_timeout="1 second"
    )
    assert probabilities_of(IN_A.match(stream)) == pytest.approx({1: 0.5, 3: 0.5})


def test_combination_of_readings_and_likelihoods() -> None:
    data = pa.table({"ts": [second(2)], "who": ["ann"], "like": [[0.0, 1.0]]})
    other = ps.uncertain_events(data, event_type="Also", key="who", value="place", likelihood="like", model=MODEL)
    both = pattern_of("At [place = 'a'] -> Also [place = 'b']")
    assert probabilities_of(both.match(stream_of_readings("A").combine(other))) == pytest.approx({2: 0.8})


def test_likelihoods_in_plain_rows() -> None:
    data = [{"ts": second(1), "who": "ann", "like": [0.8, 0.2]}]
    stream = ps.uncertain_events(data, **STREAM, likelihood="like", model=MODEL, every="1 second")
    assert probabilities_of(IN_A.match(stream)) == pytest.approx({1: 0.8})


def test_count_and_why_not_are_unsupported() -> None:
    for method in (IN_A.count, IN_A.why_not):
        with pytest.raises(UnsupportedError, match=f"{method.__name__} is unsupported on uncertain streams"):
            method(stream_of((1, "ann", "a", 0.5)))


def test_event_types_without_events_are_noted() -> None:
    result = IN_A.match(
        ps.uncertain_events(
            [{"ts": 1, "who": "ann", "place": "a", "p": 1.0}], event_type="Att", key="who", value="place"
        )
    )
    assert not len(result)
    assert "note: no event is a At. Did you mean 'Att'?" in repr(result)
