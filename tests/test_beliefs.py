"""Uncertain streams as users declare and ask them: small examples worked by hand, and what is refused."""

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


def believed(*rows: tuple[int, str, str | None, float | None], **more: Any) -> ps.uncertain.UncertainEvents:
    """Rows of second, person, place and probability."""
    data = [{"ts": second(at), "who": who, "place": place, "p": p} for at, who, place, p in rows]
    return ps.uncertain_events(
        data, **{"event_type": "At", "key": "who", "value": "place", "every": "1 second", **more}
    )


def linked(*rows: tuple[int, str, str | None, str, float], **more: Any) -> ps.uncertain.UncertainEvents:
    """Rows of second, person, place before, place and probability."""
    data = [{"ts": second(at), "who": who, "old": old, "place": to, "p": p} for at, who, old, to, p in rows]
    kind = {"event_type": "At", "key": "who", "value": "place", "previous": "old", "every": "1 second"}
    return ps.uncertain_events(data, **{**kind, **more})


def asked(match: str, more: str = "within forever") -> ps.Pattern:
    return ps.pattern(f"pattern p match {match} {more} selection successor")


def chances(told: ps.uncertain.UncertainMatches) -> dict[int, float]:
    """Probabilities by second."""
    return {int((row["time"] - START).total_seconds()): row["p"] for row in told}


AB = asked("At [place = 'a'] -> At [place = 'b']")
IN_A = asked("At [place = 'a']")
EACH_IN_A = asked("At [place = 'a']", "within forever partition by who")
MODEL = ps.uncertain.hidden_markov(
    transitions={"a": {"a": 0.75, "b": 0.25}, "b": {"a": 0.25, "b": 0.75}},
    readings={"a": {"A": 0.8, "B": 0.2}, "b": {"A": 0.2, "B": 0.8}},
)


def read(*readings: str | None, **more: Any) -> ps.uncertain.UncertainEvents:
    """A reading of ann a second, from the first."""
    data = [{"ts": second(at), "who": "ann", "r": reading} for at, reading in enumerate(readings, 1)]
    kind = {"event_type": "At", "key": "who", "value": "place", "reading": "r", "model": MODEL, "every": "1 second"}
    return ps.uncertain_events(data, **{**kind, **more})


# UncertainMatches


def test_a_distribution_for_each_step() -> None:
    """At 2: a, then b. At 3 b: a before, and no b at 2."""
    stream = believed((1, "ann", "a", 0.5), (2, "ann", "b", 0.6), (3, "ann", "b", 1.0))
    told = AB.match(stream)
    assert chances(told) == pytest.approx({2: 0.5 * 0.6, 3: 0.5 * 0.4})
    assert [row["pattern"] for row in told] == ["p", "p"]
    assert {row["error"] for row in told} == {0.0}
    assert (told.sampled, told.impossible) == (0, 0)


def test_no_rows_have_no_answers() -> None:
    """As ordinary patterns do: a list without rows has no columns, and lacks none; a table with columns may."""
    for stream in (believed(), linked(), read()):
        told = EACH_IN_A.match(stream)
        assert (len(told), told.notes) == (0, ())
        assert told.to_arrow().column_names == ["pattern", "who", "time", "p", "error"]
    bare = pa.table({"ts": pa.array([], pa.timestamp("us", "UTC"))})
    with pytest.raises(EventDataError, match="Column 'who' not found in the table of At"):
        IN_A.match(ps.uncertain_events(bare, event_type="At", key="who", value="place", every="1 second"))


def test_answers_are_read_in_many_ways() -> None:
    told = AB.match(believed((1, "ann", "a", 0.5), (2, "ann", "b", 0.6)))
    assert repr(told) == "1 result\n  p  [2026-01-01 00:00:02]  p=0.3000"
    row = {"pattern": "p", "time": second(2), "p": pytest.approx(0.3), "error": 0.0}
    assert list(told) == told.to_dicts() == told[:] == [row]
    assert told[0] == told[-1] == row
    assert told.to_arrow().column_names == ["pattern", "time", "p", "error"]
    assert told.to_pandas()["p"].tolist() == [pytest.approx(0.3)]
    assert "<table" in (told._repr_html_() or "")
    with pytest.raises(IndexError, match="Index 1 is out of range: 1 result"):
        told[1]


def test_groups() -> None:
    """Two people each for themselves; and anyone: 1 - (1 - 0.25) * (1 - 0.1)."""
    stream = believed((1, "ann", "a", 0.5), (2, "ann", "b", 0.5), (1, "bob", "a", 1.0), (2, "bob", "b", 0.1))
    each = asked("At [place = 'a'] -> At [place = 'b']", "within forever partition by who").match(stream)
    assert {row["who"]: row["p"] for row in each} == pytest.approx({"ann": 0.25, "bob": 0.1})
    assert "who=ann" in repr(each)
    same = asked("At(who as w) [place = 'a'] -> At(who as w) [place = 'b']").match(stream)
    assert chances(same) == pytest.approx({2: 1 - 0.75 * 0.9})


def test_a_table_for_each_step() -> None:
    """The place is kept with 0.9; after a missing step what follows is given no event."""
    kept = [(2, "ann", "a", "a", 0.9), (2, "ann", "a", "b", 0.1), (2, "ann", "b", "b", 1.0)]
    first = [(1, "ann", None, "a", 0.5), (1, "ann", None, "b", 0.5)]
    assert chances(AB.match(linked(*first, *kept))) == pytest.approx({2: 0.05})
    gap = [(1, "ann", None, "a", 1.0), (3, "ann", "a", "b", 1.0), (3, "ann", None, "b", 0.25)]
    assert chances(AB.match(linked(*gap))) == pytest.approx({3: 0.25})


def test_readings() -> None:
    """By hand as in tests/semantics/test_worlds.py."""
    a_a, b_a = 0.8 * 0.75 * 0.2, 0.2 * 0.25 * 0.2
    a_b, b_b = 0.8 * 0.25 * 0.8, 0.2 * 0.75 * 0.8
    whole = a_a + b_a + a_b + b_b
    assert chances(IN_A.match(read("A", "B"))) == pytest.approx({1: 0.8, 2: (a_a + b_a) / whole})
    assert chances(AB.match(read("A", "B"))) == pytest.approx({2: a_b / whole})
    for inference in ("smooth", "lag(1)"):
        found = chances(IN_A.match(read("A", "B", inference=inference)))
        assert found == pytest.approx({1: (a_a + a_b) / whole, 2: (a_a + b_a) / whole})
    by_step = chances(AB.match(read("A", "B", correlated=False)))
    assert by_step == pytest.approx({2: 0.8 * (a_b + b_b) / whole})


def test_the_likeliest_is_taken_for_certain() -> None:
    """Each step by itself is a, then b; the likeliest path too, a b: 0.16 beats b b 0.12 and a a 0.12."""
    for inference in ("likeliest", "viterbi"):
        assert chances(AB.match(read("A", "B", inference=inference))) == {2: 1.0}


def test_particles_are_near_a_filter() -> None:
    exact = chances(IN_A.match(read("A", "B", "A")))
    assert chances(IN_A.match(read("A", "B", "A", inference="particles(5000)"))) == pytest.approx(exact, abs=0.05)


def test_readings_that_cannot_be_say_nothing() -> None:
    locked = ps.uncertain.hidden_markov(
        values=["a", "b"],
        initial={"a": 1.0},
        transitions={"a": {"a": 1.0}, "b": {"b": 1.0}},
        readings={"a": {"A": 1.0}, "b": {"B": 1.0}},
    )
    told = EACH_IN_A.match(read("A", "B", "A", model=locked))
    assert chances(told) == {1: 1.0, 2: 1.0, 3: 1.0}
    assert told.impossible == 1
    assert "1 readings that no value of the model explains were ignored" in repr(told)


def test_likelihoods() -> None:
    """The same as readings, by their probabilities."""
    data = pa.table({"ts": [second(1), second(2)], "who": ["ann", "ann"], "like": [[0.8, 0.2], [0.2, 0.8]]})
    told = AB.match(
        ps.uncertain_events(
            data, event_type="At", key="who", value="place", likelihood="like", model=MODEL, every="1 second"
        )
    )
    assert chances(told) == pytest.approx(chances(AB.match(read("A", "B"))))


def test_silence_is_a_reading_for_as_long_as_there_is_patience() -> None:
    """Without it, the second reading begins anew: each place 0.5 before it."""
    data = [{"ts": second(at), "who": "ann", "r": "A"} for at in (1, 3)]
    kind = {"event_type": "At", "key": "who", "value": "place", "reading": "r", "model": MODEL, "every": "1 second"}
    assert chances(IN_A.match(ps.uncertain_events(data, **kind))) == pytest.approx({1: 0.8, 3: 0.8})
    patient = chances(IN_A.match(ps.uncertain_events(data, reading_timeout="1 second", **kind)))
    before = 0.75 * (0.75 * 0.8 + 0.25 * 0.2) + 0.25 * (0.25 * 0.8 + 0.75 * 0.2)
    assert patient == pytest.approx(
        {1: 0.8, 2: 0.75 * 0.8 + 0.25 * 0.2, 3: (known := before * 0.8 / (before * 0.8 + (1 - before) * 0.2)),
         4: 0.75 * known + 0.25 * (1 - known)}
    )  # fmt: skip


def test_several_columns_are_uncertain() -> None:
    data = [
        {"ts": second(1), "who": "ann", "place": "a", "mood": "good", "p": 0.3},
        {"ts": second(1), "who": "ann", "place": "a", "mood": "bad", "p": 0.2},
    ]
    stream = ps.uncertain_events(data, event_type="At", key="who", value=["place", "mood"])
    assert chances(IN_A.match(stream)) == pytest.approx({1: 0.5})
    assert chances(asked("At [place = 'a' and mood = 'bad']").match(stream)) == pytest.approx({1: 0.2})


def test_null_is_no_event() -> None:
    stream = believed((1, "ann", None, 0.5), (1, "ann", "a", 0.25))
    assert chances(asked("At").match(stream)) == pytest.approx({1: 0.25})


def test_rows_of_one_step_are_of_one_moment() -> None:
    """Half a second apart, a and b exclude one another."""
    data = [
        {"ts": second(1), "who": "ann", "place": "a", "p": 0.5},
        {"ts": second(1) + dt.timedelta(milliseconds=500), "who": "ann", "place": "b", "p": 0.5},
    ]
    stream = {"event_type": "At", "key": "who", "value": "place"}
    assert len(AB.match(ps.uncertain_events(data, every="1 second", **stream))) == 0
    assert [row["p"] for row in AB.match(ps.uncertain_events(data, **stream))] == [0.25]


def test_beside_certain_events_and_relations() -> None:
    doors = ps.events([{"ts": second(3), "type": "Door", "who": "ann"}])
    stream = believed((1, "ann", "a", 0.5), (2, "ann", "c", 0.5), (2, "ann", "b", 0.1)).combine(doors)
    through = asked("At [place in Rooms] -> Door")
    assert chances(through.match(stream, relations={"Rooms": [("a",), ("b",)]})) == pytest.approx({3: 1 - 0.5 * 0.9})
    assert repr(stream) == "<uncertain events: At of who and certain events>"


def test_beside_another_uncertain_stream() -> None:
    lamp = ps.uncertain_events([{"ts": second(2), "on": True, "p": 0.5}], event_type="Lamp", value="on")
    found = asked("At [place = 'a'] -> Lamp [on]").match(believed((1, "ann", "a", 0.5)).combine(lamp))
    assert chances(found) == {2: 0.25}


def test_windows() -> None:
    stream = believed((1, "ann", "a", 1.0), (3, "ann", "b", 1.0))
    assert chances(asked("At [place = 'a'] -> At [place = 'b']", "within 2 seconds").match(stream)) == {3: 1.0}
    assert len(asked("At [place = 'a'] -> At [place = 'b']", "within 1 second").match(stream)) == 0


WALKED_AND_RANG = "At(who as x) [place = 'a'] -> At(who as x) [place = 'b'] -> Lamp [on]"
"""Safe, and not Extended Regular: somebody, and then a lamp that is nobody's."""


def lit(**more: Any) -> ps.uncertain.UncertainEvents:
    """Ann in a with 0.5 at 1, in a or b at 2, in b with 0.6 at 3; a lamp is on at 4."""
    lamp = ps.uncertain_events([{"ts": second(4), "on": True, "p": 1.0}], event_type="Lamp", value="on")
    rows = ((1, "ann", "a", 0.5), (2, "ann", "a", 0.4), (2, "ann", "b", 0.6), (3, "ann", "b", 0.6))
    return believed(*rows, **more).combine(lamp)


def test_windows_of_safe_patterns() -> None:
    """Within 3 seconds: a at 1, and b at 2 or where that is not so at 3; or a at 2, and b at 3, where a was not at 1."""
    since_1 = 0.5 * (0.6 + 0.4 * 0.6) + 0.5 * 0.4 * 0.6
    for within, due in (
        ("forever", {4: since_1}),
        ("3 seconds", {4: since_1}),
        ("2 seconds", {4: 0.4 * 0.6}),
        ("1 second", {}),
    ):
        found = asked(WALKED_AND_RANG, f"within {within}").match(lit())
        assert chances(found) == pytest.approx(due), within
        assert all(row["error"] == 0 for row in found)
    with pytest.raises(EventDataError, match="the stream has no step length"):
        asked(WALKED_AND_RANG, "within 3 seconds").match(lit(every=None))


@pytest.mark.parametrize(
    ("match", "due"),
    [
        # Bob is there between 1 and 3, so ann's 1 and 3 are not consecutive; 3 and 4 are.
        ("At(who as w){2} a consecutive -> At(who as w) b", {5: 1.0}),
        # The second step takes 3; 4 and 5 are iterations of it, each the very next event.
        ("At(who as w) a [place = 'a'] -> At(who as w){3} b consecutive", {5: 1.0}),
        ("At(who as w) a -> At(who as w){4} b consecutive", {}),
    ],
)
def test_consecutive_iterations_with_a_shared_variable(match: str, due: dict[int, float]) -> None:
    """Ann is seen at 1, 3, 4 and 5, bob at 2; all of it is certain, so sampled answers are, too."""
    stream = believed(
        (1, "ann", "a", 1.0), (2, "bob", "b", 1.0), (3, "ann", "b", 1.0), (4, "ann", "b", 1.0), (5, "ann", "b", 1.0)
    )
    assert chances(ps.pattern(f"pattern p match {match} within forever").match(stream)) == due


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
def test_a_step_behind_a_prefix_that_can_be_empty_is_a_match_alone(prefix: str, within: str) -> None:
    """Ann is there with 0.5, and the door opens for sure: that alone is a match."""
    stream = believed((0, "ann", "a", 0.5)).combine(ps.events([{"ts": second(1), "type": "Door"}]))
    assert chances(ps.pattern(f"pattern p match {prefix} -> Door d within {within}").match(stream)) == {1: 1.0}


def test_always_sampling() -> None:
    stream = believed(
        (1, "ann", "a", 0.5), sampling=ps.uncertain.Sampling(always=True, epsilon=0.02, delta=0.01, seed=3)
    )
    (row,) = IN_A.match(stream)
    assert row["p"] == pytest.approx(0.5, abs=0.02)
    assert row["error"] == 0.02
    assert "± 0.02" in repr(IN_A.match(stream))


def test_pruning() -> None:
    """What is left out can no longer be part of a match, and is said to be missing."""
    stream = believed((1, "ann", "a", 0.01), (2, "ann", "b", 1.0), prune=0.05)
    told = AB.match(stream)
    missed = 0.01 - (told[0]["p"] if len(told) else 0.0)
    assert 0 <= missed <= 0.01
    whole = believed((1, "ann", "a", 0.01), (1, "ann", "c", 0.99), (2, "ann", "b", 1.0), (2, "bob", "a", 0.5))
    assert chances(AB.match(whole)) == pytest.approx({2: 0.01})


# What is told


def told_of(*probabilities: float | None) -> ps.uncertain.UncertainEvents:
    """A second each from the first; None is a second without a row."""
    return believed(*((at, "ann", "a", p) for at, p in enumerate(probabilities, 1) if p is not None))


def test_steps_above() -> None:
    stream = told_of(0.2, 0.5, 0.8)
    assert chances(IN_A.match(stream, emit=ps.uncertain.above(0.5))) == {3: 0.8}  # above is not at
    assert chances(IN_A.match(stream, emit=ps.uncertain.above(0))) == {1: 0.2, 2: 0.5, 3: 0.8}


def test_alerts_wait_for_the_fall() -> None:
    """0.6 is a rise; 0.4 is no fall below 0.3, so 0.7 is no news; after 0.2 it is."""
    stream = told_of(0.1, 0.6, 0.4, 0.7, 0.2, 0.9)
    assert chances(IN_A.match(stream, emit=ps.uncertain.alerts(rise=0.6, fall=0.3))) == {2: 0.6, 6: 0.9}
    assert chances(IN_A.match(stream, emit=ps.uncertain.alerts(0.6))) == {2: 0.6, 4: 0.7, 6: 0.9}


def test_an_alert_ends_with_a_gap() -> None:
    assert chances(IN_A.match(told_of(0.6, None, 0.6), emit=ps.uncertain.alerts(0.5, 0.1))) == {1: 0.6, 3: 0.6}


def test_spans() -> None:
    found = IN_A.match(told_of(0.6, 0.8, 0.5, 0.4, 0.7, None, 0.7), emit=ps.uncertain.spans(0.5))
    assert [((row["start"] - START).seconds, (row["end"] - START).seconds, row["p"]) for row in found] == [
        (1, 3, 0.8),
        (5, 5, 0.7),
        (7, 7, 0.7),
    ]
    assert "[2026-01-01 00:00:01 → 2026-01-01 00:00:03]  p=0.8000" in repr(found)


def test_spans_of_groups_are_their_own() -> None:
    stream = believed((1, "ann", "a", 0.9), (2, "bob", "a", 0.9))
    found = asked("At [place = 'a']", "within forever partition by who").match(stream, emit=ps.uncertain.spans(0.5))
    assert [(row["who"], row["start"], row["end"]) for row in found] == [
        ("ann", second(1), second(1)),
        ("bob", second(2), second(2)),
    ]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ps.uncertain.above(1.5), "p=1.5: expected a probability from 0 to 1"),
        (lambda: ps.uncertain.above(True), "p=True: expected a probability from 0 to 1"),
        (lambda: ps.uncertain.alerts(0.3, 0.6), "fall=0.6, rise=0.3: expected fall above 0 and rise of at least fall"),
        (lambda: ps.uncertain.alerts(0.3, 0), "fall=0, rise=0.3: expected fall above 0"),
        (lambda: ps.uncertain.spans(0), "p=0: expected a probability above 0"),
        (lambda: ps.uncertain.spans(math.nan), "p=nan: expected a probability from 0 to 1"),
        (lambda: IN_A.match(told_of(0.5), emit=0.5), "emit=0.5: expected an output policy"),
    ],
)
def test_words_about_answers_are_checked(make: Any, said: str) -> None:
    with pytest.raises(EventDataError) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize("words", [{"emit": ps.uncertain.above(0.5)}])
def test_certain_streams_have_no_probabilities(words: dict[str, Any]) -> None:
    certain = ps.events([{"ts": second(1), "type": "At", "place": "a"}])
    with pytest.raises(
        UnsupportedError, match="emit= requires an uncertain stream, and this stream is certain"
    ) as caught:
        IN_A.match(certain, **words)
    assert "ps.uncertain_events" in str(caught.value)


# What is refused

ROWS = [{"ts": START, "who": "ann", "place": "a", "p": 0.5}]
SAID = {"event_type": "At", "key": "who", "value": "place"}

DECLARED: dict[str, tuple[dict[str, Any], str]] = {
    "a name that is none": ({"event_type": "At home"}, "event_type='At home': expected the name of an event type"),
    "nothing uncertain": ({"value": ()}, "value= names no column"),
    "a key that is uncertain": ({"value": "who"}, "Column 'who' is in key= and in value="),
    "a reading without a model": ({"reading": "r"}, "reading= requires a model="),
    "likelihoods without a model": ({"likelihood": "r"}, "likelihood= requires a model="),
    "a model without a reading": ({"model": MODEL}, "model= requires either reading= or likelihood="),
    "reading and likelihood": ({"model": MODEL, "reading": "r", "likelihood": "l"}, "model= requires either reading= or likelihood="),
    "no model": ({"model": {}, "reading": "r"}, "model= expected a HiddenMarkov, got dict"),
    "a model and probabilities": ({"model": MODEL, "reading": "r", "probability": "p"}, "not both"),
    "a model and tables": ({"model": MODEL, "reading": "r", "previous": "old"}, "not both"),
    "too few given": ({"value": ["place", "mood"], "previous": "old"}, "previous= has 1 columns, value= has 2"),
    "values that are no pairs": (
        {"value": ["place", "mood"], "model": MODEL, "reading": "r"}, "the values of the model are not tuples of 2",
    ),
    "a slip": ({"model": MODEL, "reading": "r", "inference": "fliter"}, "Unknown inference 'fliter'"),
    "a lag of no steps": ({"model": MODEL, "reading": "r", "inference": "lag"}, "'lag(5)' and 'particles(1000)' require a number"),
    "a lag of 0": ({"model": MODEL, "reading": "r", "inference": "lag(0)"}, "'lag(5)' and 'particles(1000)' require a number"),
    "a filter with a number": ({"model": MODEL, "reading": "r", "inference": "filter(3)"}, "the others have none"),
    "patience without steps": (
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
def test_what_is_declared_is_checked(case: str) -> None:
    given, said = DECLARED[case]
    with pytest.raises(EventDataError) as caught:
        ps.uncertain_events(ROWS, **{**SAID, **given})
    assert said in str(caught.value)


def test_sampling_is_validated() -> None:
    for name, number in (("epsilon", 0), ("delta", 1.5), ("delta", "1"), ("epsilon", True)):
        with pytest.raises(EventDataError, match=f"{name}={number!r}: expected a number between 0 and 1"):
            ps.uncertain.Sampling(**{name: number})  # type: ignore[arg-type]


def test_a_slip_is_told_from() -> None:
    with pytest.raises(EventDataError, match="filter") as caught:
        read("A", inference="fliter")
    assert "Did you mean 'filter'?" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
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
def test_missing_columns(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PerseidError) as caught:
        IN_A.match(ps.uncertain_events(ROWS, **{**SAID, **given}))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "shares", [(1.5,), (0.7, 0.7), (-0.1,), (math.nan,), (None,), (0.2, None), (math.inf,)], ids=str
)
def test_what_is_no_distribution(shares: tuple[float | None, ...]) -> None:
    stream = believed(*((1, "ann", place, p) for place, p in zip("ab", shares, strict=False)))
    with pytest.raises(
        EventDataError, match="The probabilities of At of who ann at one step are not a distribution"
    ) as e:
        IN_A.match(stream)
    assert "with a sum of at most 1; the rest is the probability of no event" in str(e.value)


def test_what_people_round_is_a_distribution() -> None:
    stream = believed((1, "ann", "a", 0.3333334), (1, "ann", "b", 0.3333334), (1, "ann", "c", 0.3333334))
    assert chances(IN_A.match(stream)) == pytest.approx({1: 0.3333334})


def test_tables_are_distributions_by_the_value_before() -> None:
    """Two rows of 0.7 by different values before are none too many."""
    sound = linked((1, "ann", None, "a", 0.7), (1, "ann", "x", "a", 0.7))
    assert chances(IN_A.match(sound)) == pytest.approx({1: 0.7})
    with pytest.raises(EventDataError, match=r"are not a distribution: 0\.7, 0\.7"):
        IN_A.match(linked((1, "ann", None, "a", 0.7), (1, "ann", None, "b", 0.7)))


def test_probabilities_that_are_no_numbers() -> None:
    with pytest.raises(EventDataError, match="Column 'p' of At: expected probabilities, got string"):
        IN_A.match(ps.uncertain_events([{**ROWS[0], "p": "often"}], **SAID))


def test_readings_that_the_model_does_not_know() -> None:
    with pytest.raises(EventDataError, match="Unknown reading 'C' of At") as caught:
        IN_A.match(read("A", "C"))
    assert "Available in its model: A, B" in str(caught.value)


@pytest.mark.parametrize(
    ("like", "said"),
    [
        ([0.5], "has 1 likelihoods, but its model has 2 values"),
        ([0.5, -1.0], "negative"),
        ([0.5, math.nan], "not a number"),
    ],
)
def test_likelihoods_are_checked(like: list[float], said: str) -> None:
    data = pa.table({"ts": [second(1)], "who": ["ann"], "like": [like]})
    with pytest.raises(EventDataError, match=said):
        IN_A.match(ps.uncertain_events(data, **SAID, likelihood="like", model=MODEL, every="1 second"))


def test_bounds_on_time_need_steps() -> None:
    timed = asked("At [place = 'a'] -> At [place = 'b']", "within 5 seconds")
    with pytest.raises(EventDataError, match="has a time bound, but the stream has no step length") as caught:
        timed.match(believed((1, "ann", "a", 0.5), every=None))
    assert "every='1 second'" in str(caught.value)
    with pytest.raises(
        EventDataError, match="a time bound of 5 seconds, which is not a multiple of the step length, 2 seconds"
    ):
        timed.match(believed((1, "ann", "a", 0.5), every="2 seconds"))


@pytest.mark.parametrize(
    ("text", "said"),
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
def test_what_uncertain_streams_do_not_answer(text: str, said: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        ps.pattern(f"pattern p {text}").match(believed((1, "ann", "a", 0.5)))
    assert said in str(caught.value)


def test_what_depends_on_the_step_before_is_no_group() -> None:
    by_place = asked("At -> At", "within forever partition by place")
    for stream in (read("A"), linked((1, "ann", None, "a", 1.0))):
        with pytest.raises(
            UnsupportedError, match="partitioned by place, which is uncertain and depends on the previous"
        ):
            by_place.match(stream)
    stream = believed((1, "ann", "a", 0.5), (2, "ann", "a", 0.5), (2, "ann", "b", 0.5))
    assert {row["place"]: row["p"] for row in by_place.match(stream)} == {"a": 0.25}


def test_unsafe_patterns_of_filtered_readings_are_refused() -> None:
    crossing = asked("At a -> At b [place > a.place]")
    with pytest.raises(
        UnsupportedError, match=r"must be sampled .* with inference='filter' cannot be sampled"
    ) as caught:
        crossing.match(read("A", "B"))
    assert "inference='smooth'" in str(caught.value)
    assert crossing.match(read("A", "B", inference="smooth"))[0]["error"] == 0.1


@pytest.mark.parametrize("within", ["forever", "5 seconds"])
def test_safe_patterns_of_filtered_readings_are_refused(within: str) -> None:
    lamp = ps.uncertain_events([{"ts": second(4), "on": True, "p": 1.0}], event_type="Lamp", value="on")
    pattern = asked(WALKED_AND_RANG, f"within {within}")
    with pytest.raises(
        UnsupportedError, match=r"is evaluated over time intervals .* with inference='filter' cannot be"
    ):
        pattern.match(read("A", "B").combine(lamp))
    for more in ({"correlated": False}, {"inference": "smooth"}):
        assert [row["error"] for row in pattern.match(read("A", "B", **more).combine(lamp))] == [0.0]


def test_streams_beside_one_another_have_names_of_their_own() -> None:
    with pytest.raises(EventDataError, match="Two uncertain streams have the event type 'At'") as caught:
        told_of(0.5).combine(told_of(0.5))
    assert "event_type=" in str(caught.value)
    with pytest.raises(EventDataError, match=r"combine\(…\): expected a stream, got list"):
        told_of(0.5).combine([])  # type: ignore[arg-type]


# What is explained


def explained(pattern: ps.Pattern, stream: ps.uncertain.UncertainEvents) -> str:
    return " ".join(pattern.explain(stream).split())


def test_classes_are_explained() -> None:
    regular = explained(AB, told_of(0.5))
    assert "class Regular (Ré et al. 2008): every predicate is local, and no variable is shared" in regular
    assert "method exact, step by step" in regular
    assert "grouped by step, all keys together" in regular
    assert (
        "4,096 states of a group at once; above it, the group is sampled from that step on: 150 sampled worlds"
        in regular
    )
    assert "At key who, value place: a distribution for each step" in regular
    extended = explained(asked("At(who as w) -> At(who as w)", "within 5 seconds"), told_of(0.5))
    assert "class Extended Regular (Ré et al. 2008): w: in the key of every step" in extended
    assert "combined as 1 - product of (1 - p)" in extended
    assert "the duration of a partial match is part of its state" in extended


def test_safe_plans_are_explained() -> None:
    whole = explained(asked(WALKED_AND_RANG), lit())
    assert (
        "class Safe (Ré et al. 2008): x is shared, but not by step 3; safe plan: seq(π-x(reg(At; At)), Lamp)" in whole
    )
    assert "needs finished data, or on a stream a window (within …)" in whole
    window = explained(asked(WALKED_AND_RANG, "within 5 seconds"), lit())
    assert "exact, by a safe plan over the last 6 steps, at each step:" in window
    assert "the duration of a partial match" not in window
    long = explained(asked(WALKED_AND_RANG, "within 1 hour"), lit())
    assert "class Unsafe (Ré et al. 2008)" in long
    assert "which is not used: its window has more than 512 steps" in long
    assert "150 sampled worlds" in long


def test_sampling_is_explained() -> None:
    crossing = asked("At a -> At b [place > a.place]", "within forever partition by who")
    said = explained(
        crossing, believed((1, "ann", "a", 0.5), sampling=ps.uncertain.Sampling(epsilon=0.05, delta=0.01, seed=4))
    )
    assert "class Unsafe (Ré et al. 2008): place > a.place refers to two events: the predicate is not local" in said
    worlds = math.ceil(math.log(2 / 0.01) / (2 * 0.05**2))
    assert f"{worlds:,} sampled worlds, seed 4: the error exceeds 0.05 with probability 0.01 at most" in said
    assert "grouped by who and step" in said


def test_streams_are_explained() -> None:
    assert (
        "readings, hidden Markov model with 2 values, lag(2); up to 3 steps without a row count as readings"
        in explained(AB, read("A", inference="lag(2)", reading_timeout="3 seconds"))
    )
    assert "inference restarts after a step without a row" in explained(AB, read("A"))
    assert "a transition table for each step, given the previous value" in explained(
        AB, linked((1, "ann", None, "a", 1.0))
    )
    assert "weights below 0.1; error includes the dropped probability" in explained(
        AB, believed((1, "ann", "a", 1.0), prune=0.1)
    )


# What is not as it should be


def test_every_distinct_time_is_a_step_of_tables() -> None:
    rows = [(1, "ann", None, "a", 1.0), (2, "ann", "a", "b", 0.5)]
    assert chances(AB.match(linked(*rows, every=None))) == pytest.approx({2: 0.5})


TABLES = ((1, "ann", None, "a", 1.0), (3, "ann", "a", "a", 0.5), (3, "ann", None, "b", 1.0))


@pytest.mark.parametrize(
    "match",
    ["At x [place = 'a']", "(At x [place = 'a'] | Lamp y)", "(At(who as w) x [place = 'a'] | Lamp(who as w) y)"],
)
@pytest.mark.parametrize("bob", [(), ((2, "bob", None, "b", 1.0),)], ids=["one chain", "two chains"])
@pytest.mark.parametrize("method", ["exact", "sample"])
def test_without_every_a_chain_of_tables_has_steps_at_times_of_its_own_rows(
    match: str, bob: tuple[Any, ...], method: str
) -> None:
    """At 3 ann is in a with 0.5, given that she was in a at 1; what a lamp or bob does at 2 is no step of hers."""
    lamp = ps.uncertain_events(
        [{"ts": second(2), "who": "ann", "on": True, "p": 0.5}], event_type="Lamp", key="who", value="on"
    )
    sampling = ps.uncertain.Sampling(epsilon=0.02, delta=0.001, always=True)
    more = {"sampling": sampling} if method == "sample" else {}
    stream = linked(*TABLES, *bob, every=None, **more).combine(lamp)
    told = asked(match).match(stream, emit=ps.uncertain.expected())
    due = {1: 1.0, 3: 0.5} | ({2: 0.5} if "Lamp" in match else {})
    assert chances(told) == pytest.approx(due, abs=0.02 if more else 1e-12)
    assert {row["time"]: row["expected"] for row in told} == pytest.approx({second(at): p for at, p in due.items()})


def test_without_every_a_safe_pattern_carries_a_chain_of_tables() -> None:
    """Ann is in a at 1, and at 3 with 0.5; the lamp is on with 0.5 at 2, and for sure at 4."""
    on = [{"ts": second(at), "on": True, "p": p} for at, p in ((2, 0.5), (4, 1.0))]
    stream = linked(*TABLES, every=None).combine(ps.uncertain_events(on, event_type="Lamp", value="on"))
    walked = asked("At(who as w) x [place = 'a'] -> At(who as w) y [place = 'a'] -> Lamp z")
    assert "Safe (Ré et al. 2008)" in walked.explain(stream)
    assert chances(walked.match(stream)) == pytest.approx({4: 0.5})


def test_without_every_a_row_without_a_value_is_a_step() -> None:
    """At 2 nothing happens for sure, so the table of 3 is that of no event."""
    rows = [
        (1, "ann", None, "a", 1.0),
        (2, "ann", "a", None, 1.0),
        (3, "ann", "a", "a", 1.0),
        (3, "ann", None, "b", 1.0),
    ]
    lamp = ps.uncertain_events([{"ts": second(2), "on": True, "p": 0.5}], event_type="Lamp", value="on")
    for method in ("exact", "sample"):
        more = {"sampling": ps.uncertain.Sampling(always=True)} if method == "sample" else {}
        stream = linked(*rows, every=None, **more).combine(lamp)  # type: ignore[arg-type]
        for match in ("At [place = 'b']", "(At [place = 'b'] | Lamp [on = false])"):
            assert chances(asked(match).match(stream)) == {3: 1.0}


def test_every_distinct_time_is_a_step_of_readings() -> None:
    assert chances(AB.match(read("A", "B", every=None))) == pytest.approx(chances(AB.match(read("A", "B"))))


def test_tables_are_no_steps_by_themselves() -> None:
    with pytest.raises(
        EventDataError,
        match="previous= makes steps depend on the step before, and correlated=False makes them independent",
    ):
        linked((1, "ann", None, "a", 0.5), correlated=False)


def test_a_variable_twice_in_one_step() -> None:
    stream = ps.uncertain_events([{"ts": second(1), "who": "ann", "owner": "bob", "place": "a", "p": 1.0}], event_type="At", key=["who", "owner"], value="place")  # fmt: skip
    assert len(asked("At(who as w, owner as w)").match(stream)) == 0


NEXT = ps.pattern("pattern p match At [place = 'a'], At [place = 'b'] within forever after match skip none")


def test_an_event_of_another_kind_is_in_between() -> None:
    stream = believed((1, "ann", "a", 1.0), (3, "ann", "b", 1.0))
    assert chances(NEXT.match(stream)) == {3: 1.0}
    assert len(NEXT.match(stream.combine(ps.events([{"ts": second(2), "type": "Door"}])))) == 0


def test_an_event_of_another_binding_is_in_between() -> None:
    same = ps.pattern(
        "pattern p match At(who as w) [place = 'a'], At(who as w) [place = 'b'] within forever after match skip none"
    )
    stream = believed((1, "ann", "a", 1.0), (2, "bob", "a", 1.0), (3, "ann", "b", 1.0))
    assert all(row["p"] == pytest.approx(0.0, abs=0.1) for row in same.match(stream))


LOCKED = ps.uncertain.hidden_markov(
    values=["a", "b"],
    initial={"a": 1.0},
    transitions={"a": {"a": 1.0}, "b": {"b": 1.0}},
    readings={"a": {"A": 1.0}, "b": {"B": 1.0}},
)


def test_a_lag_passes_over_what_cannot_be() -> None:
    assert chances(EACH_IN_A.match(read("A", "B", model=LOCKED, inference="lag(1)"))) == {1: 1.0, 2: 1.0}


@pytest.mark.parametrize("others", [(), ("bob",)], ids=["one chain", "two chains"])
def test_a_lag_counts_readings_ahead_also_at_times_of_other_rows(others: tuple[str, ...]) -> None:
    """Ann is read at 1 and at 4; the lamp is on at 3. Both readings say where she was at 1."""
    rows = [(1, "ann", "A"), (4, "ann", "B"), *((2, who, "A") for who in others)]
    data = [{"ts": second(at), "who": who, "r": reading} for at, who, reading in rows]
    lamp = ps.events([{"ts": second(3), "type": "Lamp"}])
    kind = {"event_type": "At", "key": "who", "value": "place", "reading": "r", "model": MODEL, "inference": "lag(1)"}
    stream = ps.uncertain_events(data, **kind).combine(lamp)
    a_a, b_a, a_b, b_b = 0.8 * 0.75 * 0.2, 0.2 * 0.25 * 0.2, 0.8 * 0.25 * 0.8, 0.2 * 0.75 * 0.8
    ann = (a_a + a_b) / (a_a + b_a + a_b + b_b)
    pattern = asked("At [place = 'a'] -> Lamp")
    right = 1 - (1 - ann) * 0.2 if others else ann
    assert chances(pattern.match(stream)) == pytest.approx({3: right})
    counted = pattern.match(stream, emit=ps.uncertain.expected())
    assert [row["expected"] for row in counted] == [pytest.approx(ann + 0.8 * len(others))]


def test_readings_for_anyone_that_cannot_be_are_counted() -> None:
    assert IN_A.match(read("A", "B", model=LOCKED)).impossible == 1


def test_smoothed_readings_that_cannot_be_are_counted() -> None:
    told = EACH_IN_A.match(read("A", "B", model=LOCKED, inference="smooth"))
    assert chances(told) == {1: 1.0, 2: 1.0}
    assert told.impossible == 1


def test_silence_between_likelihoods() -> None:
    """Silence comes from b alone, so at 2 it is b."""
    model = ps.uncertain.hidden_markov(
        transitions={"a": {"a": 0.5, "b": 0.5}, "b": {"a": 0.5, "b": 0.5}},
        readings={"a": {"A": 1.0}, "b": {None: 1.0}},
    )
    data = pa.table({"ts": [second(1), second(3)], "who": ["ann", "ann"], "like": [[0.5, 0.5], [0.2, 0.2]]})
    stream = ps.uncertain_events(
        data, **SAID, likelihood="like", model=model, every="1 second", reading_timeout="1 second"
    )
    assert chances(IN_A.match(stream)) == pytest.approx({1: 0.5, 3: 0.5})


def test_readings_beside_likelihoods() -> None:
    data = pa.table({"ts": [second(2)], "who": ["ann"], "like": [[0.0, 1.0]]})
    other = ps.uncertain_events(data, event_type="Also", key="who", value="place", likelihood="like", model=MODEL)
    both = asked("At [place = 'a'] -> Also [place = 'b']")
    assert chances(both.match(read("A").combine(other))) == pytest.approx({2: 0.8})


def test_likelihoods_in_plain_rows() -> None:
    data = [{"ts": second(1), "who": "ann", "like": [0.8, 0.2]}]
    stream = ps.uncertain_events(data, **SAID, likelihood="like", model=MODEL, every="1 second")
    assert chances(IN_A.match(stream)) == pytest.approx({1: 0.8})


def test_what_is_asked_of_matches_is_not_asked_here() -> None:
    for ask in (IN_A.count, IN_A.why_not):
        with pytest.raises(UnsupportedError, match=f"{ask.__name__} is unsupported on uncertain streams"):
            ask(believed((1, "ann", "a", 0.5)))


def test_events_that_never_occur_are_noted() -> None:
    told = IN_A.match(
        ps.uncertain_events(
            [{"ts": 1, "who": "ann", "place": "a", "p": 1.0}], event_type="Att", key="who", value="place"
        )
    )
    assert not len(told)
    assert "note: no event is a At. Did you mean 'Att'?" in repr(told)
