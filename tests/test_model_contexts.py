"""Query events under the contexts of paper 2: its vectors with bindings, and what its reference implementation gets wrong.

A node of a type is a match of the query about this type, so making ``a1`` of the type One is the event ``found one(a1)``.
"""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import Any

import pytest

import perseid as ps

TYPES = ("One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")
MODEL = "\n".join(
    ["model m", *(f"node {name}" for name in TYPES), *(f"query {name.lower()}(x) find x: {name}" for name in TYPES)]
)
START = dt.datetime(2001, 5, 1, tzinfo=dt.UTC)
KINDS = dict(zip("abcdefgh", TYPES, strict=True))


def happen(events: str) -> list[dict[str, Any]]:
    """``a1 0; b1 9``: a node of the type One is made at second 0, one of the type Two at second 9."""
    rows = []
    for event in events.split(";"):
        name, second = event.split()
        moment = START + dt.timedelta(seconds=float(second))
        rows.append({"ts": moment, "change": "create", "element": name, "kind": KINDS[name[0]]})
    return rows


def found(match: str, clauses: str, events: str, **words: Any) -> list[dict[str, list[str]]]:
    """The nodes that stand at each named step, match by match."""
    model = ps.graph.metamodel(MODEL)
    matches = ps.pattern(f"pattern p match {match} {clauses}").match(ps.graph.model(happen(events), model, **words))
    return [
        {name: [event.attributes["x"] for event in taken] for name, taken in match.bindings.items() if taken}
        for match in matches
    ]


SHAPES = {
    "follows": "found one a -> found two b",
    "or": "found one a | found two b",
    "and": "found one a & found two b",
    "{3}": "found one{3} a -> found two b",
    "{+}": "found one+? a -> found two b",
}
CHRONICLE = {
    "follows": [{"a": ["a1"], "b": ["b1"]}],
    "or": [{"a": ["a1"]}, {"b": ["b1"]}],
    "and": [{"a": ["a1"], "b": ["b1"]}],
    "{3}": [],
    "{+}": [{"a": ["a1"], "b": ["b1"]}],
}
IMMEDIATE = {
    "follows": [{"a": ["a1"], "b": ["b1"]}, {"a": ["a2"], "b": ["b2"]}],
    "or": [{"a": ["a1"]}, {"a": ["a2"]}, {"b": ["b1"]}, {"b": ["b2"]}],
    "and": [{"a": ["a1"], "b": ["b1"]}, {"a": ["a2"], "b": ["b2"]}],
    "{3}": [],
    "{+}": [{"a": ["a1"], "b": ["b1"]}, {"a": ["a2"], "b": ["b2"]}],
}
STRICT = {
    "follows": [{"a": ["a2"], "b": ["b1"]}],
    "or": [{"a": ["a1"]}, {"a": ["a2"]}, {"b": ["b1"]}, {"b": ["b2"]}],
    "and": [{"a": ["a2"], "b": ["b1"]}],
    "{3}": [],
    "{+}": [{"a": ["a1", "a2"], "b": ["b1"]}],
}


@pytest.mark.parametrize(
    ("selection", "events", "expected"),
    [
        ("chronicle", "a1 1; b1 2", CHRONICLE),
        ("immediate", "a1 1; a2 2; b1 3; b2 4", IMMEDIATE),
        ("strict immediate", "a1 1; a2 2; b1 3; b2 4", STRICT),
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_vectors(shape: str, selection: str, events: str, expected: dict[str, Any]) -> None:
    assert found(SHAPES[shape], f"within forever selection {selection}", events) == expected[shape]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("chronicle", [("a1", "b1"), ("a2", "b2")]),
        ("immediate", [("a1", "b1")]),
        ("strict immediate", [("a3", "b1")]),
    ],
)
def test_figure_5(selection: str, expected: list[tuple[str, str]]) -> None:
    """What happens to another query is noise only where somebody observes it."""
    clauses = f"within forever selection {selection}"
    events = "a1 1; a2 2; a3 3; b1 4; c1 5; b2 6"
    bindings = found("found one a -> found two b", clauses, events, observe="three")
    assert [(one["a"][0], one["b"][0]) for one in bindings] == expected


def test_unobserved_queries_are_no_noise() -> None:
    clauses = "within forever selection immediate"
    bindings = found("found one a -> found two b", clauses, "a1 1; a2 2; b1 4; c1 5; b2 6")
    assert [(one["a"][0], one["b"][0]) for one in bindings] == [("a1", "b1"), ("a2", "b2")]


# what the reference implementation gets wrong


def test_windows_go_by_the_events_own_time() -> None:
    """Rows of long ago, read in an instant: ten seconds are ten seconds of the events."""
    near = found("found one a -> found two b", "within 10 seconds", "a1 0; b1 10")
    far = found("found one a -> found two b", "within 10 seconds", "a1 0; b1 10.000001")
    assert (len(near), len(far)) == (1, 0)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("a1 0; a2 8; b1 9; b2 17", [("a1", "b1"), ("a2", "b2")]),
        ("a1 0; a2 8; b1 11; b2 12", [("a2", "b1")]),
        ("a1 0; a2 8; b1 9; b2 19", [("a1", "b1")]),
    ],
)
def test_each_partial_match_has_a_window_of_its_own(events: str, expected: list[tuple[str, str]]) -> None:
    """A second start does not move the end of the first one's window."""
    bindings = found("found one a -> found two b", "within 10 seconds selection chronicle", events)
    assert [(one["a"][0], one["b"][0]) for one in bindings] == expected


def test_an_absence_is_told_with_no_event_to_end_it() -> None:
    assert found("found one a -> not found two for 10 seconds", "", "a1 0") == [{"a": ["a1"]}]
    assert found("found one a -> not found two for 10 seconds", "", "a1 0; b1 10") == []
    assert found("found one a -> not found two", "within 10 seconds selection chronicle", "a1 0; b1 11") == [
        {"a": ["a1"]}
    ]


def test_a_rule_acts_on_an_absence_alone() -> None:
    text = (
        MODEL
        + """
    pattern silent match found one a -> not found two for 10 seconds return a.x as who
    rule tell on silent do emit silence(who)
    """
    )
    (row,) = ps.graph.react(ps.graph.model(happen("a1 0"), ps.graph.metamodel(text))).emitted["silence"]
    assert (row["who"], row["ts"]) == ("a1", START + dt.timedelta(seconds=10, microseconds=1))


def test_a_conjunction_does_not_grow_with_its_orders() -> None:
    """Eight members have 40,320 orders; the program grows by the same for each member."""

    def pattern(members: int) -> ps.Pattern:
        steps = " & ".join(f"found {name.lower()} {letter}" for letter, name in list(KINDS.items())[:members])
        return ps.pattern(f"pattern p match {steps} within 1 minute")

    sizes = [len(pattern(members).plan().patterns[0].programs[0].instructions) for members in range(2, 9)]
    assert len({after - before for before, after in pairwise(sizes)}) == 1
    events = ps.graph.model(
        happen("; ".join(f"{letter}1 {second}" for second, letter in enumerate("hcafbged"))), ps.graph.metamodel(MODEL)
    )
    (match,) = pattern(8).match(events)
    assert {name: taken[0].attributes["x"] for name, taken in match.bindings.items()} == {
        letter: f"{letter}1" for letter in KINDS
    }
    assert (
        len(
            pattern(8).match(
                ps.graph.model(happen("a1 0; b1 1; c1 2; d1 3; e1 4; f1 5; g1 6"), ps.graph.metamodel(MODEL))
            )
        )
        == 0
    )


@pytest.mark.parametrize(
    ("absent", "events", "matches"),
    [
        ("(found two -> found three)", "a1 0; b1 1; d1 3", 1),
        ("(found two -> found three)", "a1 0; b1 1; c1 2; d1 3", 0),
        ("(found two -> found three)", "a1 0; c1 1; b1 2; d1 3", 1),
        ("(found two | found three)", "a1 0; c1 1; d1 3", 0),
        ("(found two | found three)", "a1 0; d1 3", 1),
        ("(found two & found three)", "a1 0; c1 1; b1 2; d1 3", 0),
        ("(found two & found three)", "a1 0; c1 1; c2 2; d1 3", 1),
        ("(found two{2})", "a1 0; b1 1; d1 3", 1),
        ("(found two{2})", "a1 0; b1 1; b2 2; d1 3", 0),
    ],
)
def test_groups_may_be_absent(absent: str, events: str, matches: int) -> None:
    assert len(found(f"found one a -> not {absent} -> found four d", "within 1 minute", events)) == matches
