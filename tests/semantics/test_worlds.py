"""Possible worlds: probabilities worked by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from perseid.lang.parser import parse_pattern
from perseid.reference.worlds import Chain, GroupResult, HiddenChain, Possible, group_results, worlds
from perseid.semantics.core import CorePattern
from perseid.semantics.events import Event
from perseid.semantics.resolve import resolve
from perseid.semantics.values import Relation

SECOND = 1_000_000


def pattern(match: str, more: str = "within forever") -> CorePattern:
    return resolve(parse_pattern(f"pattern p match {match} {more} selection successor"))


def at(place: str) -> tuple[tuple[str, object], ...]:
    return (("place", place),)


def believed(who: str, *steps: Mapping[str, float], type_: str = "At") -> Chain:
    """Returns a chain with a distribution for each second, starting at 1."""
    tables = [
        (second * SECOND, [Possible(at(place), chance) for place, chance in step.items()])
        for second, step in enumerate(steps, 1)
    ]
    return Chain(type_, {"who": who}, tables)


def linked(who: str, *steps: Mapping[tuple[str | None, str], float]) -> Chain:
    """Returns a chain with a table for each second, by the previous place (None for no event) and the place."""
    tables = [
        (second * SECOND, [Possible(at(to), p, None if old is None else at(old)) for (old, to), p in step.items()])
        for second, step in enumerate(steps, 1)
    ]
    return Chain("At", {"who": who}, tables, linked=True)


def probabilities(given: CorePattern, *chains: Chain | HiddenChain, **more: Any) -> dict[Any, float]:
    """Returns the probabilities by second, or by group and second."""
    found = group_results(given, chains, **more)
    return {
        (end // SECOND if not group else (*group, end // SECOND)): answer.probability
        for (group, end), answer in found.items()
    }


AB = pattern("At [place = 'a'] -> At [place = 'b']")


def test_independent_steps() -> None:
    """At 2: a, then b. At 3: a at 1 and no b at 2, or a at 2; then b."""
    steps = [{"a": 0.5, "b": 0.5}, {"a": 0.2, "b": 0.8}, {"b": 1.0}]
    assert probabilities(AB, believed("ann", *steps)) == pytest.approx({2: 0.5 * 0.8, 3: 0.5 * 0.2 + 0.5 * 0.2})


def test_missing_probability_is_no_event() -> None:
    """Event b at 3 completes if it did not occur at 2, where nothing happened with 0.4."""
    steps = [{"a": 0.5}, {"b": 0.6}, {"b": 0.25}]
    assert probabilities(AB, believed("ann", *steps)) == pytest.approx({2: 0.5 * 0.6, 3: 0.5 * 0.4 * 0.25})


def test_missing_mass_is_no_event_to_a_comma_either() -> None:
    """b is the very next event if nothing happens in between, but not if c does."""
    strict = resolve(parse_pattern("pattern p match At [place = 'a'], At [place = 'b'] within forever"))
    steps = [{"a": 1.0}, {"c": 0.3}, {"b": 0.5}]
    assert probabilities(strict, believed("ann", *steps)) == pytest.approx({3: 0.7 * 0.5})


def test_brackets_and_must() -> None:
    """Example 3.11: brackets skip c at 2, and a must condition fails there and ends the run."""
    tested = pattern("At [place = 'a'] -> At x must (place = 'b')")
    steps = [{"a": 1.0}, {"c": 0.4, "b": 0.1}, {"b": 1.0}]
    assert probabilities(AB, believed("ann", *steps)) == pytest.approx({2: 0.1, 3: 0.9})
    assert probabilities(tested, believed("ann", *steps)) == pytest.approx({2: 0.1, 3: 0.5})


def test_linked_steps() -> None:
    """The place stays the same with 0.9: a at 1 and b at 2 is a change."""
    steps = [
        {(None, "a"): 0.5, (None, "b"): 0.5},
        {("a", "a"): 0.9, ("a", "b"): 0.1, ("b", "a"): 0.1, ("b", "b"): 0.9},
    ]
    assert probabilities(AB, linked("ann", *steps)) == pytest.approx({2: 0.5 * 0.1})


def test_a_row_of_a_table_that_is_short_of_one() -> None:
    """From a, b comes with 0.1 and no event with 0.9; after no event b is certain."""
    steps = [{(None, "a"): 1.0}, {("a", "b"): 0.1}, {(None, "b"): 1.0, ("b", "b"): 1.0}]
    assert probabilities(AB, linked("ann", *steps)) == pytest.approx({2: 0.1, 3: 0.9})


def test_linked_chain_depends_on_its_previous_step() -> None:
    """Without ``every``, ann has steps at 1 and 3; bob's event at 2 is not a step of hers."""
    ann = Chain("At", {"who": "ann"}, [
        (1 * SECOND, [Possible(at("a"), 1.0)]),
        (3 * SECOND, [Possible(at("b"), 0.5, at("a")), Possible(at("a"), 1.0)]),
    ], linked=True)  # fmt: skip
    bob = Chain("At", {"who": "bob"}, [(2 * SECOND, [Possible(at("c"), 0.5)])])
    assert probabilities(AB, ann, bob) == pytest.approx({3: 0.5})


def test_a_linked_chain_with_a_missing_step() -> None:
    """Second 2 has no row, so it has no event; the next step is conditional on no event, not on a."""
    steps = [{(None, "a"): 1.0}, {}, {("a", "b"): 1.0, (None, "b"): 0.25}]
    assert probabilities(AB, linked("ann", *steps)) == pytest.approx({3: 0.25})


def hidden(lag: int | None, *readings: Sequence[float]) -> HiddenChain:
    """Returns a chain of two places, equally likely at first, with self-transition probability 0.75 and the given
    likelihoods."""
    steps = [(second * SECOND, reading) for second, reading in enumerate(readings, 1)]
    matrix = [[0.75, 0.25], [0.25, 0.75]]
    return HiddenChain("At", {"who": "ann"}, [at("a"), at("b")], [0.5, 0.5], matrix, steps, lag)


IN_A = pattern("At [place = 'a']")
LIKELIHOODS = ([0.8, 0.2], [0.2, 0.8])
"""Likelihoods of two readings: four to one for a, then four to one for b."""


def test_filter_uses_readings_up_to_each_step() -> None:
    """At 1: 0.8. At 2: a a 0.5*0.8*0.75*0.2, b a 0.5*0.2*0.25*0.2, of all: those and a b, b b with 0.8 in place of the last."""
    a_a, b_a = 0.8 * 0.75 * 0.2, 0.2 * 0.25 * 0.2
    a_b, b_b = 0.8 * 0.25 * 0.8, 0.2 * 0.75 * 0.8
    whole = a_a + b_a + a_b + b_b
    assert probabilities(IN_A, hidden(0, *LIKELIHOODS)) == pytest.approx({1: 0.8, 2: (a_a + b_a) / whole})
    assert probabilities(AB, hidden(0, *LIKELIHOODS)) == pytest.approx({2: a_b / whole})


def test_smoothing_uses_the_second_reading_for_the_first_step() -> None:
    a_a, b_a = 0.8 * 0.75 * 0.2, 0.2 * 0.25 * 0.2
    a_b, b_b = 0.8 * 0.25 * 0.8, 0.2 * 0.75 * 0.8
    whole = a_a + b_a + a_b + b_b
    expected = {1: (a_a + a_b) / whole, 2: (a_a + b_a) / whole}
    assert probabilities(IN_A, hidden(None, *LIKELIHOODS)) == pytest.approx(expected)
    assert probabilities(IN_A, hidden(1, *LIKELIHOODS)) == pytest.approx(expected)  # of two steps, one more is all


def test_lag_uses_only_readings_within_it() -> None:
    """A third reading that only b explains affects second 1 with all readings, but not with a lag of one."""
    readings = (*LIKELIHOODS, [0.0, 1.0])
    short, whole = probabilities(IN_A, hidden(1, *readings)), probabilities(IN_A, hidden(None, *readings))
    assert short[1] == pytest.approx(probabilities(IN_A, hidden(None, *LIKELIHOODS))[1])
    assert whole[1] < short[1]
    assert short[2] == pytest.approx(whole[2])
    assert 3 not in whole


def test_two_keys_by_group() -> None:
    by_person = pattern("At [place = 'a'] -> At [place = 'b']", "within forever partition by who")
    ann, bob = believed("ann", {"a": 0.5}, {"b": 0.5}), believed("bob", {"a": 1.0}, {"b": 0.1})
    assert probabilities(by_person, ann, bob) == pytest.approx({("ann", 2): 0.25, ("bob", 2): 0.1})


def test_variable_matches_each_person_alone() -> None:
    """With a variable, each person is matched alone; without one, ann may start and bob may continue."""
    same = pattern("At(who as w) [place = 'a'] -> At(who as w) [place = 'b']")
    ann, bob = believed("ann", {"a": 0.5}, {"b": 0.5}), believed("bob", {"a": 1.0}, {"b": 0.1})
    assert probabilities(same, ann, bob) == pytest.approx({2: 1 - (1 - 0.25) * (1 - 0.1)})
    assert probabilities(AB, ann, bob) == pytest.approx({2: 1 - (1 - 0.5) * (1 - 0.1)})


def test_certain_and_uncertain_events_in_one_pattern() -> None:
    """The door opens in every world, at 1 and at 3: a before 3 was at 1 or at 2."""
    through = pattern("At [place = 'a'] -> Door")
    door = [Event("Door", second * SECOND, {"who": "ann"}, f"d{second}") for second in (1, 3)]
    chain = believed("ann", {"a": 0.5}, {"a": 0.5}, {"a": 1.0})
    assert probabilities(through, chain, certain=door) == pytest.approx({3: 0.75})


def test_relations() -> None:
    rooms = {"Rooms": Relation([("a",), ("b",)])}
    inside = pattern("At [place in Rooms]")
    assert probabilities(inside, believed("ann", {"a": 0.25, "b": 0.25, "c": 0.5}), relations=rooms) == {1: 0.5}


def test_windows() -> None:
    short = pattern("At [place = 'a'] -> At [place = 'b']", "within 1 second")
    steps = [{"a": 1.0}, {}, {"b": 1.0}]
    assert probabilities(AB, believed("ann", *steps)) == {3: 1.0}
    assert probabilities(short, believed("ann", *steps)) == {}


SAFE_THREE = "A(who as x) [place = 'a'] -> B(who as x) [place = 'b'] -> C [place = 'c']"
"""Any one person in a and then in b, and after that any person in c."""


def safe_three(within: str) -> CorePattern:
    return pattern(SAFE_THREE, f"within {within}")


def three(c_steps: Sequence[Mapping[str, float]]) -> list[Chain]:
    return [
        believed("ann", {"a": 0.5}, {"a": 0.4}, type_="A"),
        believed("ann", {}, {"b": 0.8}, {"b": 0.6}, type_="B"),
        believed("eve", *c_steps, type_="C"),
    ]


def test_window_longer_than_the_stream_equals_no_window() -> None:
    """At 4, c follows a at 1 and b at 2, or otherwise b at 3 with an a before it."""
    chains = three([{}, {}, {}, {"c": 1.0}])
    some_a, a_then_b = 1 - 0.5 * 0.6, 0.5 * 0.8
    due = a_then_b + 0.6 * (some_a - a_then_b)
    for within in ("forever", "3 seconds"):
        assert probabilities(safe_three(within), *chains) == pytest.approx({4: due})


def test_window_excludes_earlier_starts() -> None:
    """Within two seconds, c at 4 can follow only a at 2 and b at 3; within one, nothing."""
    chains = three([{}, {}, {}, {"c": 1.0}])
    assert probabilities(safe_three("2 seconds"), *chains) == pytest.approx({4: 0.4 * 0.6})
    assert probabilities(safe_three("1 second"), *chains) == {}


def test_chain_since_a_step_starts_with_its_marginal_distribution() -> None:
    """The chain starts at 2 with its marginals, where b is 0.25 + 0.45 = 0.7; later steps do not change.

    The first step has a and b with 0.5. From b, it stays b with 0.9, and from a it becomes b with 0.5.
    """
    steps = [
        {(None, "a"): 0.5, (None, "b"): 0.5},
        {("a", "a"): 0.5, ("a", "b"): 0.5, ("b", "b"): 0.9},
        {("a", "b"): 1.0, ("b", "a"): 0.2},
    ]
    found = linked("ann", *steps).since(2 * SECOND)
    assert [time for time, _ in found.steps] == [2 * SECOND, 3 * SECOND]
    first = {dict(one.value or ())["place"]: (one.probability, one.given) for one in found.steps[0][1]}
    assert first == {"a": (pytest.approx(0.25), None), "b": (pytest.approx(0.7), None)}
    assert probabilities(pattern("At [place = 'b'] -> At [place = 'a']"), found) == pytest.approx({3: 0.7 * 0.2})


@pytest.mark.parametrize("seconds", range(5))
def test_window_equals_a_stream_of_the_last_steps(seconds: int) -> None:
    """The law behind windows of safe plans: events before the window do not matter."""
    chains = [
        linked("ann", {(None, "a"): 0.5, (None, "b"): 0.3}, {("a", "b"): 0.7, ("b", "a"): 0.4, (None, "a"): 0.9},
               {("a", "a"): 0.2, ("b", "a"): 0.6}, {("a", "b"): 0.5, (None, "b"): 0.1}),
        believed("bob", {"a": 0.3}, {"b": 0.5}, {"a": 0.5}, {"b": 0.4}),
    ]  # fmt: skip
    match = "At(who as x) [place = 'a'] -> At(who as x)+ h [place = 'b'] -> At [place = 'a']"
    whole = probabilities(pattern(match, f"within {seconds} seconds"), *chains)
    for second in range(1, 5):
        last = [chain.since((second - seconds) * SECOND) for chain in chains]
        alone = probabilities(pattern(match), *last)
        assert whole.get(second, 0.0) == pytest.approx(alone.get(second, 0.0)), second
    assert bool(whole) == (seconds >= 2)


def test_expected_counts() -> None:
    """Two that may begin, one that ends: one way for each that did. At 1 and 2 a with 0.5, at 3 b."""
    found = group_results(AB, [believed("ann", {"a": 0.5}, {"a": 0.5}, {"b": 1.0})])
    assert found == {((), 3 * SECOND): GroupResult(pytest.approx(0.75), pytest.approx(1.0))}


def test_expected_counts_of_events_at_once() -> None:
    """A way for each of ann and bob who is in b."""
    ann, bob = believed("ann", {"a": 1.0}, {"b": 0.5}), believed("bob", {}, {"b": 0.5})
    assert group_results(AB, [ann, bob]) == {((), 2 * SECOND): GroupResult(pytest.approx(0.75), pytest.approx(1.0))}


def test_worlds_have_all_of_the_probability() -> None:
    chains = [
        believed("ann", {"a": 0.3}, {"a": 0.5, "b": 0.5}),
        hidden(None, *LIKELIHOODS),
        believed("bob", {"a": 0.9}),
    ]
    every = list(worlds(chains, 2 * SECOND))
    assert len(every) == (2 * 2) * 4 * 2
    assert sum(weight for weight, _ in every) == pytest.approx(1.0)
    early = list(worlds(chains, SECOND))
    assert len(early) == 2 * 2 * 2
    assert all(event.time == SECOND for _, events in early for event in events)


def test_chain_without_events_has_no_matches() -> None:
    assert group_results(AB, [believed("ann")]) == {}
    assert probabilities(IN_A, hidden(0)) == {}
