"""Query events under the contexts of paper 2: its test vectors with bindings, and cases that its reference implementation gets wrong.

A node of a type is a match of the query for this type, so the creation of ``a1`` of the type One is the event ``found one(a1)``.
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


def changes_of(events: str) -> list[dict[str, Any]]:
    """Parse changes: ``a1 0; b1 9`` creates a node of the type One at second 0, and one of the type Two at second 9."""
    rows = []
    for event in events.split(";"):
        name, second = event.split()
        moment = START + dt.timedelta(seconds=float(second))
        rows.append({"ts": moment, "change": "create", "element": name, "kind": KINDS[name[0]]})
    return rows


def bindings_of(match: str, clauses: str, events: str, **options: Any) -> list[dict[str, list[str]]]:
    """Return the nodes bound to each named step, for each match."""
    model = ps.graph.metamodel(MODEL)
    matches = ps.pattern(f"pattern p match {match} {clauses}").match(
        ps.graph.model(changes_of(events), model, **options)
    )
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
def test_vectors_of_the_paper(shape: str, selection: str, events: str, expected: dict[str, Any]) -> None:
    assert bindings_of(SHAPES[shape], f"within forever selection {selection}", events) == expected[shape]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("chronicle", [("a1", "b1"), ("a2", "b2")]),
        ("immediate", [("a1", "b1")]),
        ("strict immediate", [("a3", "b1")]),
    ],
)
def test_contexts_of_figure_5(selection: str, expected: list[tuple[str, str]]) -> None:
    """Events of another query are noise only if the query is observed."""
    clauses = f"within forever selection {selection}"
    events = "a1 1; a2 2; a3 3; b1 4; c1 5; b2 6"
    bindings = bindings_of("found one a -> found two b", clauses, events, observe="three")
    assert [(one["a"][0], one["b"][0]) for one in bindings] == expected


def test_events_of_unobserved_queries_are_not_noise() -> None:
    clauses = "within forever selection immediate"
    bindings = bindings_of("found one a -> found two b", clauses, "a1 1; a2 2; b1 4; c1 5; b2 6")
    assert [(one["a"][0], one["b"][0]) for one in bindings] == [("a1", "b1"), ("a2", "b2")]


# cases that the reference implementation gets wrong


def test_windows_use_event_time() -> None:
    """Old rows are read at once; a window of ten seconds is in event time."""
    near = bindings_of("found one a -> found two b", "within 10 seconds", "a1 0; b1 10")
    far = bindings_of("found one a -> found two b", "within 10 seconds", "a1 0; b1 10.000001")
    assert (len(near), len(far)) == (1, 0)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("a1 0; a2 8; b1 9; b2 17", [("a1", "b1"), ("a2", "b2")]),
        ("a1 0; a2 8; b1 11; b2 12", [("a2", "b1")]),
        ("a1 0; a2 8; b1 9; b2 19", [("a1", "b1")]),
    ],
)
def test_each_partial_match_has_its_window(events: str, expected: list[tuple[str, str]]) -> None:
    """A second start does not change the end of the window of the first one."""
    bindings = bindings_of("found one a -> found two b", "within 10 seconds selection chronicle", events)
    assert [(one["a"][0], one["b"][0]) for one in bindings] == expected


def test_negation_matches_without_a_later_event() -> None:
    assert bindings_of("found one a -> not found two for 10 seconds", "", "a1 0") == [{"a": ["a1"]}]
    assert bindings_of("found one a -> not found two for 10 seconds", "", "a1 0; b1 10") == []
    assert bindings_of("found one a -> not found two", "within 10 seconds selection chronicle", "a1 0; b1 11") == [
        {"a": ["a1"]}
    ]


def test_rule_fires_on_a_negation() -> None:
    text = (
        MODEL
        + """
    pattern silent match found one a -> not found two for 10 seconds return a.x as who
    rule tell on silent do emit silence(who)
    """
    )
    (row,) = ps.graph.react(ps.graph.model(changes_of("a1 0"), ps.graph.metamodel(text))).emitted["silence"]
    assert (row["who"], row["ts"]) == ("a1", START + dt.timedelta(seconds=10, microseconds=1))


def test_program_size_of_a_conjunction_is_linear() -> None:
    """Eight members have 40,320 orders; each member adds the same number of instructions."""

    def pattern(members: int) -> ps.Pattern:
        steps = " & ".join(f"found {name.lower()} {letter}" for letter, name in list(KINDS.items())[:members])
        return ps.pattern(f"pattern p match {steps} within 1 minute")

    sizes = [len(pattern(members).plan().patterns[0].programs[0].instructions) for members in range(2, 9)]
    assert len({after - before for before, after in pairwise(sizes)}) == 1
    events = ps.graph.model(
        changes_of("; ".join(f"{letter}1 {second}" for second, letter in enumerate("hcafbged"))),
        ps.graph.metamodel(MODEL),
    )
    (match,) = pattern(8).match(events)
    assert {name: taken[0].attributes["x"] for name, taken in match.bindings.items()} == {
        letter: f"{letter}1" for letter in KINDS
    }
    assert (
        len(
            pattern(8).match(
                ps.graph.model(changes_of("a1 0; b1 1; c1 2; d1 3; e1 4; f1 5; g1 6"), ps.graph.metamodel(MODEL))
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
def test_groups_can_be_negated(absent: str, events: str, matches: int) -> None:
    assert len(bindings_of(f"found one a -> not {absent} -> found four d", "within 1 minute", events)) == matches
