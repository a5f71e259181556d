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


def believed(*rows: tuple[int, str, str | None, float | None], **more: Any) -> ps.Beliefs:
    """Rows of second, person, place and probability."""
    data = [{"ts": second(at), "who": who, "place": place, "p": p} for at, who, place, p in rows]
    return ps.beliefs(data, **{"event": "At", "of": "who", "about": "place", "every": "1 second", **more})


def linked(*rows: tuple[int, str, str | None, str, float], **more: Any) -> ps.Beliefs:
    """Rows of second, person, place before, place and probability."""
    data = [{"ts": second(at), "who": who, "old": old, "place": to, "p": p} for at, who, old, to, p in rows]
    kind = {"event": "At", "of": "who", "about": "place", "given": "old", "every": "1 second"}
    return ps.beliefs(data, **{**kind, **more})


def asked(match: str, more: str = "within forever") -> ps.Pattern:
    return ps.pattern(f"pattern p match {match} {more} selection successor")


def chances(told: ps.Answers) -> dict[int, float]:
    """Probabilities by second."""
    return {int((row["time"] - START).total_seconds()): row["p"] for row in told}


AB = asked("At [place = 'a'] -> At [place = 'b']")
IN_A = asked("At [place = 'a']")
EACH_IN_A = asked("At [place = 'a']", "within forever partition by who")
MODEL = ps.hidden_markov(
    transitions={"a": {"a": 0.75, "b": 0.25}, "b": {"a": 0.25, "b": 0.75}},
    readings={"a": {"A": 0.8, "B": 0.2}, "b": {"A": 0.2, "B": 0.8}},
)


def read(*readings: str | None, **more: Any) -> ps.Beliefs:
    """A reading of ann a second, from the first."""
    data = [{"ts": second(at), "who": "ann", "r": reading} for at, reading in enumerate(readings, 1)]
    kind = {"event": "At", "of": "who", "about": "place", "reading": "r", "model": MODEL, "every": "1 second"}
    return ps.beliefs(data, **{**kind, **more})


# Answers


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
    with pytest.raises(EventDataError, match="no column 'who'"):
        IN_A.match(ps.beliefs(bare, event="At", of="who", about="place", every="1 second"))


def test_answers_are_read_in_many_ways() -> None:
    told = AB.match(believed((1, "ann", "a", 0.5), (2, "ann", "b", 0.6)))
    assert repr(told) == "1 answer\n  p  [2026-01-01 00:00:02]  p=0.3000"
    row = {"pattern": "p", "time": second(2), "p": pytest.approx(0.3), "error": 0.0}
    assert list(told) == told.to_dicts() == told[:] == [row]
    assert told[0] == told[-1] == row
    assert told.to_arrow().column_names == ["pattern", "time", "p", "error"]
    assert told.to_pandas()["p"].tolist() == [pytest.approx(0.3)]
    assert "<table" in (told._repr_html_() or "")
    with pytest.raises(IndexError, match="there are 1 answers"):
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
    by_step = chances(AB.match(read("A", "B", correlations=False)))
    assert by_step == pytest.approx({2: 0.8 * (a_b + b_b) / whole})


def test_the_likeliest_is_taken_for_certain() -> None:
    """Each step by itself is a, then b; the likeliest path too, a b: 0.16 beats b b 0.12 and a a 0.12."""
    for inference in ("likeliest", "viterbi"):
        assert chances(AB.match(read("A", "B", inference=inference))) == {2: 1.0}


def test_particles_are_near_a_filter() -> None:
    exact = chances(IN_A.match(read("A", "B", "A")))
    assert chances(IN_A.match(read("A", "B", "A", inference="particles(5000)"))) == pytest.approx(exact, abs=0.05)


def test_readings_that_cannot_be_say_nothing() -> None:
    locked = ps.hidden_markov(
        values=["a", "b"],
        initial={"a": 1.0},
        transitions={"a": {"a": 1.0}, "b": {"b": 1.0}},
        readings={"a": {"A": 1.0}, "b": {"B": 1.0}},
    )
    told = EACH_IN_A.match(read("A", "B", "A", model=locked))
    assert chances(told) == {1: 1.0, 2: 1.0, 3: 1.0}
    assert told.impossible == 1
    assert "1 readings that no value explains" in repr(told)


def test_likelihoods() -> None:
    """The same as readings, by their probabilities."""
    data = pa.table({"ts": [second(1), second(2)], "who": ["ann", "ann"], "like": [[0.8, 0.2], [0.2, 0.8]]})
    told = AB.match(
        ps.beliefs(data, event="At", of="who", about="place", likelihood="like", model=MODEL, every="1 second")
    )
    assert chances(told) == pytest.approx(chances(AB.match(read("A", "B"))))


def test_silence_is_a_reading_for_as_long_as_there_is_patience() -> None:
    """Without it, the second reading begins anew: each place 0.5 before it."""
    data = [{"ts": second(at), "who": "ann", "r": "A"} for at in (1, 3)]
    kind = {"event": "At", "of": "who", "about": "place", "reading": "r", "model": MODEL, "every": "1 second"}
    assert chances(IN_A.match(ps.beliefs(data, **kind))) == pytest.approx({1: 0.8, 3: 0.8})
    patient = chances(IN_A.match(ps.beliefs(data, patience="1 second", **kind)))
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
    stream = ps.beliefs(data, event="At", of="who", about=["place", "mood"])
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
    stream = {"event": "At", "of": "who", "about": "place"}
    assert len(AB.match(ps.beliefs(data, every="1 second", **stream))) == 0
    assert [row["p"] for row in AB.match(ps.beliefs(data, **stream))] == [0.25]


def test_beside_certain_events_and_relations() -> None:
    doors = ps.events([{"ts": second(3), "type": "Door", "who": "ann"}])
    stream = believed((1, "ann", "a", 0.5), (2, "ann", "c", 0.5), (2, "ann", "b", 0.1)).beside(doors)
    through = asked("At [place in Rooms] -> Door")
    assert chances(through.match(stream, relations={"Rooms": [("a",), ("b",)]})) == pytest.approx({3: 1 - 0.5 * 0.9})
    assert repr(stream) == "<beliefs: At of who beside certain events>"


def test_beside_another_uncertain_stream() -> None:
    lamp = ps.beliefs([{"ts": second(2), "on": True, "p": 0.5}], event="Lamp", about="on")
    found = asked("At [place = 'a'] -> Lamp [on]").match(believed((1, "ann", "a", 0.5)).beside(lamp))
    assert chances(found) == {2: 0.25}


def test_windows() -> None:
    stream = believed((1, "ann", "a", 1.0), (3, "ann", "b", 1.0))
    assert chances(asked("At [place = 'a'] -> At [place = 'b']", "within 2 seconds").match(stream)) == {3: 1.0}
    assert len(asked("At [place = 'a'] -> At [place = 'b']", "within 1 second").match(stream)) == 0


WALKED_AND_RANG = "At(who as x) [place = 'a'] -> At(who as x) [place = 'b'] -> Lamp [on]"
"""Safe, and not Extended Regular: somebody, and then a lamp that is nobody's."""


def lit(**more: Any) -> ps.Beliefs:
    """Ann in a with 0.5 at 1, in a or b at 2, in b with 0.6 at 3; a lamp is on at 4."""
    lamp = ps.beliefs([{"ts": second(4), "on": True, "p": 1.0}], event="Lamp", about="on")
    rows = ((1, "ann", "a", 0.5), (2, "ann", "a", 0.4), (2, "ann", "b", 0.6), (3, "ann", "b", 0.6))
    return believed(*rows, **more).beside(lamp)


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
    with pytest.raises(EventDataError, match="nothing says how long a step"):
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
    stream = believed((0, "ann", "a", 0.5)).beside(ps.events([{"ts": second(1), "type": "Door"}]))
    assert chances(ps.pattern(f"pattern p match {prefix} -> Door d within {within}").match(stream)) == {1: 1.0}


def test_always_sampling() -> None:
    stream = believed((1, "ann", "a", 0.5), method="sample", epsilon=0.02, delta=0.01, seed=3)
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


def told_of(*probabilities: float | None) -> ps.Beliefs:
    """A second each from the first; None is a second without a row."""
    return believed(*((at, "ann", "a", p) for at, p in enumerate(probabilities, 1) if p is not None))


def test_steps_above() -> None:
    stream = told_of(0.2, 0.5, 0.8)
    assert chances(IN_A.match(stream, tell=ps.above(0.5))) == {3: 0.8}  # above is not at
    assert chances(IN_A.match(stream, tell=ps.above(0))) == {1: 0.2, 2: 0.5, 3: 0.8}


def test_alerts_wait_for_the_fall() -> None:
    """0.6 is a rise; 0.4 is no fall below 0.3, so 0.7 is no news; after 0.2 it is."""
    stream = told_of(0.1, 0.6, 0.4, 0.7, 0.2, 0.9)
    assert chances(IN_A.match(stream, tell=ps.alerts(rise=0.6, fall=0.3))) == {2: 0.6, 6: 0.9}
    assert chances(IN_A.match(stream, tell=ps.alerts(0.6))) == {2: 0.6, 4: 0.7, 6: 0.9}


def test_an_alert_ends_with_a_gap() -> None:
    assert chances(IN_A.match(told_of(0.6, None, 0.6), tell=ps.alerts(0.5, 0.1))) == {1: 0.6, 3: 0.6}


def test_spans() -> None:
    found = IN_A.match(told_of(0.6, 0.8, 0.5, 0.4, 0.7, None, 0.7), tell=ps.spans(0.5))
    assert [((row["start"] - START).seconds, (row["end"] - START).seconds, row["p"]) for row in found] == [
        (1, 3, 0.8),
        (5, 5, 0.7),
        (7, 7, 0.7),
    ]
    assert "[2026-01-01 00:00:01 → 2026-01-01 00:00:03]  p=0.8000" in repr(found)


def test_spans_of_groups_are_their_own() -> None:
    stream = believed((1, "ann", "a", 0.9), (2, "bob", "a", 0.9))
    found = asked("At [place = 'a']", "within forever partition by who").match(stream, tell=ps.spans(0.5))
    assert [(row["who"], row["start"], row["end"]) for row in found] == [
        ("ann", second(1), second(1)),
        ("bob", second(2), second(2)),
    ]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ps.above(1.5), "p=1.5: a probability lies between 0 and 1"),
        (lambda: ps.above(True), "p=True: a probability"),
        (lambda: ps.alerts(0.3, 0.6), "rise is not below it"),
        (lambda: ps.alerts(0.3, 0), "fall is above 0"),
        (lambda: ps.spans(0), "a span has a bound above 0"),
        (lambda: ps.spans(math.nan), "p=nan: a probability lies between 0 and 1"),
        (lambda: IN_A.match(told_of(0.5), tell=0.5), "tell=0.5 says nothing of answers"),
    ],
)
def test_words_about_answers_are_checked(make: Any, said: str) -> None:
    with pytest.raises(EventDataError) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize("words", [{"tell": ps.above(0.5)}])
def test_certain_streams_have_no_probabilities(words: dict[str, Any]) -> None:
    certain = ps.events([{"ts": second(1), "type": "At", "place": "a"}])
    with pytest.raises(UnsupportedError, match="is about probabilities, and this stream is certain") as caught:
        IN_A.match(certain, **words)
    assert "ps.beliefs" in str(caught.value)


# What is refused

ROWS = [{"ts": START, "who": "ann", "place": "a", "p": 0.5}]
SAID = {"event": "At", "of": "who", "about": "place"}

DECLARED: dict[str, tuple[dict[str, Any], str]] = {
    "a name that is none": ({"event": "At home"}, "event='At home': it is what steps call the events"),
    "nothing uncertain": ({"about": ()}, "Nothing is said of what is uncertain"),
    "a key that is uncertain": ({"about": "who"}, "'who' is both whose the events are and uncertain"),
    "a reading without a model": ({"reading": "r"}, "reading= is for readings, and there is no model"),
    "likelihoods without a model": ({"likelihood": "r"}, "likelihood= is for readings, and there is no model"),
    "a model without a reading": ({"model": MODEL}, "A model needs readings: name their column with reading="),
    "reading and likelihood": ({"model": MODEL, "reading": "r", "likelihood": "l"}, "A model needs readings"),
    "no model": ({"model": {}, "reading": "r"}, "model= is dict"),
    "a model and probabilities": ({"model": MODEL, "reading": "r", "p": "p"}, "not both"),
    "a model and tables": ({"model": MODEL, "reading": "r", "given": "old"}, "not both"),
    "too few given": ({"about": ["place", "mood"], "given": "old"}, "given= names 1 columns, and about= 2"),
    "values that are no pairs": (
        {"about": ["place", "mood"], "model": MODEL, "reading": "r"}, "The model's values are no tuples of 2",
    ),
    "a slip": ({"model": MODEL, "reading": "r", "inference": "fliter"}, "inference='fliter' is not known"),
    "a lag of no steps": ({"model": MODEL, "reading": "r", "inference": "lag"}, "write 'lag(5)'"),
    "a lag of 0": ({"model": MODEL, "reading": "r", "inference": "lag(0)"}, "write 'lag(5)'"),
    "a filter with a number": ({"model": MODEL, "reading": "r", "inference": "filter(3)"}, "without a number"),
    "patience without steps": (
        {"model": MODEL, "reading": "r", "patience": "2 seconds"}, "nothing says how long a step is",
    ),
    "a step of no length": ({"every": "0 seconds"}, "every='0 seconds'"),
    "epsilon": ({"epsilon": 0}, "epsilon=0: it is a number between 0 and 1"),
    "delta": ({"delta": 1.5}, "delta=1.5"),
    "a method": ({"method": "guess"}, "method='guess' is neither 'auto' nor 'sample'"),
    "prune": ({"prune": 1}, "prune=1: it is a number from 0 to below 1"),
    "prune with a filter": (
        {"model": MODEL, "reading": "r", "prune": 0.1}, "prune= says by how much answers are off, which nobody knows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DECLARED)
def test_what_is_declared_is_checked(case: str) -> None:
    given, said = DECLARED[case]
    with pytest.raises(EventDataError) as caught:
        ps.beliefs(ROWS, **{**SAID, **given})
    assert said in str(caught.value)


def test_a_slip_is_told_from() -> None:
    with pytest.raises(EventDataError, match="filter") as caught:
        read("A", inference="fliter")
    assert "Did you mean" in str(caught.value) or "did you mean" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"of": "person"}, "key or value column"),
        ({"about": "room"}, "key or value column"),
        ({"p": "chance"}, "probability column"),
        ({"given": "old"}, "value before column"),
        ({"time": "when"}, "when"),
        ({"model": MODEL, "reading": "r"}, "reading column"),
        ({"model": MODEL, "likelihood": "l"}, "likelihood column"),
    ],
)
def test_missing_columns(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PerseidError) as caught:
        IN_A.match(ps.beliefs(ROWS, **{**SAID, **given}))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "shares", [(1.5,), (0.7, 0.7), (-0.1,), (math.nan,), (None,), (0.2, None), (math.inf,)], ids=str
)
def test_what_is_no_distribution(shares: tuple[float | None, ...]) -> None:
    stream = believed(*((1, "ann", place, p) for place, p in zip("ab", shares, strict=False)))
    with pytest.raises(EventDataError, match="The probabilities of At of who ann at one step are no distribution") as e:
        IN_A.match(stream)
    assert "add up to 1 at most; what is missing means no event" in str(e.value)


def test_what_people_round_is_a_distribution() -> None:
    stream = believed((1, "ann", "a", 0.3333334), (1, "ann", "b", 0.3333334), (1, "ann", "c", 0.3333334))
    assert chances(IN_A.match(stream)) == pytest.approx({1: 0.3333334})


def test_tables_are_distributions_by_the_value_before() -> None:
    """Two rows of 0.7 by different values before are none too many."""
    sound = linked((1, "ann", None, "a", 0.7), (1, "ann", "x", "a", 0.7))
    assert chances(IN_A.match(sound)) == pytest.approx({1: 0.7})
    with pytest.raises(EventDataError, match=r"are no distribution: 0\.7, 0\.7"):
        IN_A.match(linked((1, "ann", None, "a", 0.7), (1, "ann", None, "b", 0.7)))


def test_probabilities_that_are_no_numbers() -> None:
    with pytest.raises(EventDataError, match="The probabilities of At, 'p', are no numbers but string"):
        IN_A.match(ps.beliefs([{**ROWS[0], "p": "often"}], **SAID))


def test_readings_that_the_model_does_not_know() -> None:
    with pytest.raises(EventDataError, match="'C' was read of At, and its model knows no such reading") as caught:
        IN_A.match(read("A", "C"))
    assert "It knows: A, B" in str(caught.value)


@pytest.mark.parametrize(
    ("like", "said"),
    [([0.5], "has 1 likelihoods, and its model 2 values"), ([0.5, -1.0], "negative"), ([0.5, math.nan], "no number")],
)
def test_likelihoods_are_checked(like: list[float], said: str) -> None:
    data = pa.table({"ts": [second(1)], "who": ["ann"], "like": [like]})
    with pytest.raises(EventDataError, match=said):
        IN_A.match(ps.beliefs(data, **SAID, likelihood="like", model=MODEL, every="1 second"))


def test_bounds_on_time_need_steps() -> None:
    timed = asked("At [place = 'a'] -> At [place = 'b']", "within 5 seconds")
    with pytest.raises(EventDataError, match="nothing says how long a step of the stream is") as caught:
        timed.match(believed((1, "ann", "a", 0.5), every=None))
    assert "every='1 second'" in str(caught.value)
    with pytest.raises(EventDataError, match="a bound of 5 seconds, which is no whole number of steps of 2 seconds"):
        timed.match(believed((1, "ann", "a", 0.5), every="2 seconds"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("match At -> At within 5 events selection successor", "has a window in events"),
        ("match At -> At within forever after match skip past last", "has a context or skips after a match"),
        ("match At & Door within 5 seconds after match skip none", "asks for steps in any order"),
        ("match At -> not Door for 2 seconds within forever after match skip none", "ends with an absence"),
        ("match At -> At within forever partition by place.floor selection successor", "a part of a column"),
    ],
)
def test_what_uncertain_streams_do_not_answer(text: str, said: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        ps.pattern(f"pattern p {text}").match(believed((1, "ann", "a", 0.5)))
    assert said in str(caught.value)


def test_what_depends_on_the_step_before_is_no_group() -> None:
    by_place = asked("At -> At", "within forever partition by place")
    for stream in (read("A"), linked((1, "ann", None, "a", 1.0))):
        with pytest.raises(UnsupportedError, match="partitioned by place, which is uncertain and depends on the step"):
            by_place.match(stream)
    stream = believed((1, "ann", "a", 0.5), (2, "ann", "a", 0.5), (2, "ann", "b", 0.5))
    assert {row["place"]: row["p"] for row in by_place.match(stream)} == {"a": 0.25}


def test_unsafe_patterns_of_filtered_readings_are_refused() -> None:
    crossing = asked("At a -> At b [place > a.place]")
    with pytest.raises(UnsupportedError, match=r"has to be sampled .* cannot be with inference='filter'") as caught:
        crossing.match(read("A", "B"))
    assert "inference='smooth'" in str(caught.value)
    assert crossing.match(read("A", "B", inference="smooth"))[0]["error"] == 0.1


@pytest.mark.parametrize("within", ["forever", "5 seconds"])
def test_safe_patterns_of_filtered_readings_are_refused(within: str) -> None:
    lamp = ps.beliefs([{"ts": second(4), "on": True, "p": 1.0}], event="Lamp", about="on")
    pattern = asked(WALKED_AND_RANG, f"within {within}")
    with pytest.raises(
        UnsupportedError, match=r"is looked for in intervals of time .* cannot be with inference='filter'"
    ):
        pattern.match(read("A", "B").beside(lamp))
    for more in ({"correlations": False}, {"inference": "smooth"}):
        assert [row["error"] for row in pattern.match(read("A", "B", **more).beside(lamp))] == [0.0]


def test_streams_beside_one_another_have_names_of_their_own() -> None:
    with pytest.raises(EventDataError, match="Two uncertain streams have events called 'At'"):
        told_of(0.5).beside(told_of(0.5))
    with pytest.raises(EventDataError, match="list is no stream that can stand beside this one"):
        told_of(0.5).beside([])  # type: ignore[arg-type]


# What is explained


def explained(pattern: ps.Pattern, stream: ps.Beliefs) -> str:
    return " ".join(pattern.explain(stream).split())


def test_classes_are_explained() -> None:
    regular = explained(AB, told_of(0.5))
    assert "class Regular (paper 5): every predicate is local, and no variable is shared" in regular
    assert "answers exact, step by step" in regular
    assert "told by step, for anyone" in regular
    assert "a group in more than 4,096 states at once is sampled from that step on: 150 random worlds" in regular
    assert "At of who, about place: a distribution for each step" in regular
    extended = explained(asked("At(who as w) -> At(who as w)", "within 5 seconds"), told_of(0.5))
    assert "class Extended Regular (paper 5): w: in the key of every step" in extended
    assert "combined as 1 - product of (1 - p)" in extended
    assert "how long a partial match has lasted is part of its state" in extended


def test_safe_plans_are_explained() -> None:
    whole = explained(asked(WALKED_AND_RANG), lit())
    assert (
        "class Safe (paper 5): x is shared, but not by step 3; but a safe plan has it: seq(π-x(reg(At; At)), Lamp)"
        in whole
    )
    assert "needs finished data, on a stream a window (within …)" in whole
    window = explained(asked(WALKED_AND_RANG, "within 5 seconds"), lit())
    assert "exact, by a safe plan over the last 6 steps, at each step anew" in window
    assert "how long a partial match" not in window
    long = explained(asked(WALKED_AND_RANG, "within 1 hour"), lit())
    assert "class Unsafe (paper 5)" in long
    assert "which is not followed: its window has more than 512 steps" in long
    assert "150 random worlds" in long


def test_sampling_is_explained() -> None:
    crossing = asked("At a -> At b [place > a.place]", "within forever partition by who")
    said = explained(crossing, believed((1, "ann", "a", 0.5), epsilon=0.05, delta=0.01, seed=4))
    assert "class Unsafe (paper 5): place > a.place looks at two events" in said
    worlds = math.ceil(math.log(2 / 0.01) / (2 * 0.05**2))
    assert f"{worlds:,} random worlds, seed 4: off by more than 0.05 with probability 0.01 at most" in said
    assert "told by who, and step" in said


def test_streams_are_explained() -> None:
    assert "readings behind 2 values, lag(2); silence of up to 3 steps is a reading" in explained(
        AB, read("A", inference="lag(2)", patience="3 seconds")
    )
    assert "a step without a row begins anew" in explained(AB, read("A"))
    assert "a table for each step, by the value before" in explained(AB, linked((1, "ann", None, "a", 1.0)))
    assert "weights below 0.1; what was left out is in error" in explained(
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
    lamp = ps.beliefs([{"ts": second(2), "who": "ann", "on": True, "p": 0.5}], event="Lamp", of="who", about="on")
    more = {"method": "sample", "epsilon": 0.02, "delta": 0.001} if method == "sample" else {}
    stream = linked(*TABLES, *bob, every=None, **more).beside(lamp)
    told = asked(match).match(stream, tell=ps.expected())
    due = {1: 1.0, 3: 0.5} | ({2: 0.5} if "Lamp" in match else {})
    assert chances(told) == pytest.approx(due, abs=0.02 if more else 1e-12)
    assert {row["time"]: row["expected"] for row in told} == pytest.approx({second(at): p for at, p in due.items()})


def test_without_every_a_safe_pattern_carries_a_chain_of_tables() -> None:
    """Ann is in a at 1, and at 3 with 0.5; the lamp is on with 0.5 at 2, and for sure at 4."""
    on = [{"ts": second(at), "on": True, "p": p} for at, p in ((2, 0.5), (4, 1.0))]
    stream = linked(*TABLES, every=None).beside(ps.beliefs(on, event="Lamp", about="on"))
    walked = asked("At(who as w) x [place = 'a'] -> At(who as w) y [place = 'a'] -> Lamp z")
    assert "Safe (paper 5)" in walked.explain(stream)
    assert chances(walked.match(stream)) == pytest.approx({4: 0.5})


def test_without_every_a_row_without_a_value_is_a_step() -> None:
    """At 2 nothing happens for sure, so the table of 3 is that of no event."""
    rows = [
        (1, "ann", None, "a", 1.0),
        (2, "ann", "a", None, 1.0),
        (3, "ann", "a", "a", 1.0),
        (3, "ann", None, "b", 1.0),
    ]
    lamp = ps.beliefs([{"ts": second(2), "on": True, "p": 0.5}], event="Lamp", about="on")
    for method in ("exact", "sample"):
        more = {"method": method} if method == "sample" else {}
        stream = linked(*rows, every=None, **more).beside(lamp)  # type: ignore[arg-type]
        for match in ("At [place = 'b']", "(At [place = 'b'] | Lamp [on = false])"):
            assert chances(asked(match).match(stream)) == {3: 1.0}


def test_every_distinct_time_is_a_step_of_readings() -> None:
    assert chances(AB.match(read("A", "B", every=None))) == pytest.approx(chances(AB.match(read("A", "B"))))


def test_tables_are_no_steps_by_themselves() -> None:
    with pytest.raises(EventDataError, match="correlations=False that none does"):
        linked((1, "ann", None, "a", 0.5), correlations=False)


def test_a_variable_twice_in_one_step() -> None:
    stream = ps.beliefs(
        [{"ts": second(1), "who": "ann", "owner": "bob", "place": "a", "p": 1.0}],
        event="At", of=["who", "owner"], about="place",
    )  # fmt: skip
    assert len(asked("At(who as w, owner as w)").match(stream)) == 0


NEXT = ps.pattern("pattern p match At [place = 'a'], At [place = 'b'] within forever after match skip none")


def test_an_event_of_another_kind_is_in_between() -> None:
    stream = believed((1, "ann", "a", 1.0), (3, "ann", "b", 1.0))
    assert chances(NEXT.match(stream)) == {3: 1.0}
    assert len(NEXT.match(stream.beside(ps.events([{"ts": second(2), "type": "Door"}])))) == 0


def test_an_event_of_another_binding_is_in_between() -> None:
    same = ps.pattern(
        "pattern p match At(who as w) [place = 'a'], At(who as w) [place = 'b'] within forever after match skip none"
    )
    stream = believed((1, "ann", "a", 1.0), (2, "bob", "a", 1.0), (3, "ann", "b", 1.0))
    assert all(row["p"] == pytest.approx(0.0, abs=0.1) for row in same.match(stream))


LOCKED = ps.hidden_markov(
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
    kind = {"event": "At", "of": "who", "about": "place", "reading": "r", "model": MODEL, "inference": "lag(1)"}
    stream = ps.beliefs(data, **kind).beside(lamp)
    a_a, b_a, a_b, b_b = 0.8 * 0.75 * 0.2, 0.2 * 0.25 * 0.2, 0.8 * 0.25 * 0.8, 0.2 * 0.75 * 0.8
    ann = (a_a + a_b) / (a_a + b_a + a_b + b_b)
    pattern = asked("At [place = 'a'] -> Lamp")
    right = 1 - (1 - ann) * 0.2 if others else ann
    assert chances(pattern.match(stream)) == pytest.approx({3: right})
    counted = pattern.match(stream, tell=ps.expected())
    assert [row["expected"] for row in counted] == [pytest.approx(ann + 0.8 * len(others))]


def test_readings_for_anyone_that_cannot_be_are_counted() -> None:
    assert IN_A.match(read("A", "B", model=LOCKED)).impossible == 1


def test_smoothed_readings_that_cannot_be_are_counted() -> None:
    told = EACH_IN_A.match(read("A", "B", model=LOCKED, inference="smooth"))
    assert chances(told) == {1: 1.0, 2: 1.0}
    assert told.impossible == 1


def test_silence_between_likelihoods() -> None:
    """Silence comes from b alone, so at 2 it is b."""
    model = ps.hidden_markov(
        transitions={"a": {"a": 0.5, "b": 0.5}, "b": {"a": 0.5, "b": 0.5}},
        readings={"a": {"A": 1.0}, "b": {None: 1.0}},
    )
    data = pa.table({"ts": [second(1), second(3)], "who": ["ann", "ann"], "like": [[0.5, 0.5], [0.2, 0.2]]})
    stream = ps.beliefs(data, **SAID, likelihood="like", model=model, every="1 second", patience="1 second")
    assert chances(IN_A.match(stream)) == pytest.approx({1: 0.5, 3: 0.5})


def test_readings_beside_likelihoods() -> None:
    data = pa.table({"ts": [second(2)], "who": ["ann"], "like": [[0.0, 1.0]]})
    other = ps.beliefs(data, event="Also", of="who", about="place", likelihood="like", model=MODEL)
    both = asked("At [place = 'a'] -> Also [place = 'b']")
    assert chances(both.match(read("A").beside(other))) == pytest.approx({2: 0.8})


def test_likelihoods_in_plain_rows() -> None:
    data = [{"ts": second(1), "who": "ann", "like": [0.8, 0.2]}]
    stream = ps.beliefs(data, **SAID, likelihood="like", model=MODEL, every="1 second")
    assert chances(IN_A.match(stream)) == pytest.approx({1: 0.8})


def test_what_is_asked_of_matches_is_not_asked_here() -> None:
    for ask in (IN_A.count, IN_A.why_not):
        with pytest.raises(UnsupportedError, match="asks about matches"):
            ask(believed((1, "ann", "a", 0.5)))


def test_events_that_never_occur_are_noted() -> None:
    told = IN_A.match(
        ps.beliefs([{"ts": 1, "who": "ann", "place": "a", "p": 1.0}], event="Att", of="who", about="place")
    )
    assert not len(told)
    assert "note: no event is a At. Did you mean 'Att'?" in repr(told)
