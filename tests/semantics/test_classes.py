"""The classes of paper 5, with all of its examples, and the choices that it leaves open."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from perseid.engines.uncertain.plan import PlannedQuery, plan_query
from perseid.engines.uncertain.streams import Known, Stream, Streams
from perseid.lang.parser import parse_pattern
from perseid.semantics.classes import Classified, Keys, QueryClass, classify, format_plan, local_form
from perseid.semantics.core import CorePattern
from perseid.semantics.resolve import resolve

REGULAR, EXTENDED, SAFE, UNSAFE = QueryClass

STREAMS = {
    "At": Keys(("person",), ("place",)),
    "Carries": Keys(("person", "object"), ("place",)),
    "R": Keys(("k",), ("v",)),
    "S": Keys(("k",), ("v",)),
    "T": Keys(("k", "l"), ("v",)),
    "Door": Keys(()),
}


def pattern(match: str, more: str = "within forever selection successor") -> CorePattern:
    return local_form(resolve(parse_pattern(f"pattern p match {match} {more}")))


def classified(match: str, more: str = "within forever selection successor") -> Classified:
    return classify(pattern(match, more), STREAMS)


class Example(NamedTuple):
    match: str
    kind: QueryClass
    why: str
    """A part of the reason."""


NO_SHARED = "every predicate is local, and no variable is shared"

PAPER = {
    "2.2, Joe's coffee": Example(
        """At [person = 'Joe' and place = '220'] -> At [person = 'Joe' and place in CRoom]
           -> At [person = 'Joe' and place = '220']""",
        REGULAR,
        NO_SHARED,
    ),
    "2.2, anyone's coffee": Example(
        """At(person as p) a [p in Person and (p, place) in Office] -> At(person as p)+ h must (place in Hall)
           -> At(person as p) c must (place in CRoom)""",
        EXTENDED,
        "p: in the key of every step, so bindings are independent (Definition 3.5)",
    ),
    "3.2, Joe through the hallway": Example(
        """At [person = 'Joe' and place = 'a'] -> At+ h [person = 'Joe'] must (place in Hallway)
           -> At [person = 'Joe' and place = 'c']""",
        REGULAR,
        NO_SHARED,
    ),
    "3.6, anyone through hallways": Example(
        """At(person as x) a [x in Person and place = 'a'] -> At(person as x)+ h must (place in Hallway)
           -> At(person as x) [place = 'c']""",
        EXTENDED,
        "x: in the key of every step",
    ),
    "3.9, to a talk": Example(
        """Carries(person as x, object as y) a [x in Person and y in Laptop and place in Office]
           -> Carries(person as x, object as y)+ b -> At(person as x) c must (place in LectureRoom)""",
        SAFE,
        "y is shared, but not by c; safe plan: π-x(seq(π-y(reg(a; b)), c))",
    ),
    "3.11, filtered": Example("R [k = 'a'] -> R [k = 'b']", REGULAR, NO_SHARED),
    "3.11, selected": Example("R [k = 'a'] -> R y must (k = 'b')", REGULAR, NO_SHARED),
    "3.17, Figure 6": Example(
        "R(k as x) -> S(k as x) -> T(l as y) [k = 'a']",
        SAFE,
        "x is shared, but not by step 3; safe plan: seq(π-x(reg(R; S)), T)",
    ),
    "3.18, h1": Example("R r -> S s must (s.k > r.k)", UNSAFE, "s.k > r.k refers to two events: the predicate is not"),
    "3.18, h2": Example(
        "R -> S(k as x)+? s",
        UNSAFE,
        "x is shared, but not by step 1; no safe plan: the last item of the sequence is not a single step",
    ),
    "3.19, h3": Example(
        "R -> S(k as x) -> T(k as x)",
        UNSAFE,
        "x is shared, but not by step 1; no safe plan: step 3 shares x with some of the steps before it, but not with all",
    ),
    "3.19, h4": Example(
        "R(k as x) -> S -> T(k as x)",
        UNSAFE,
        "x is shared, but not by step 2; no safe plan: step 3 shares x with some of the steps before it, but not with all",
    ),
    "section 4, the coffee room": Example(
        """At(person as p) a [place not in Rooms] -> At(person as p) b must (place not in Rooms)
           -> At(person as p) c must (place in CoffeeRooms)""",
        EXTENDED,
        "p: in the key of every step",
    ),
}

OURS = {
    "a condition that names a variable": Example("R(k as x) -> S(k as x) [x > 3]", EXTENDED, "x: in the key"),
    "a condition that names a variable of another step": Example(
        "R(k as x) -> S [v = x]", UNSAFE, "v = x refers to two events"
    ),
    "a variable in one place": Example("R(k as x) -> S(k as y)", REGULAR, NO_SHARED),
    "a variable in one repeated place": Example("S(k as x)+?", EXTENDED, "x: in the key of every step"),
    "two variables": Example(
        "Carries(person as x, object as y) -> Carries(person as x, object as y)", EXTENDED, "x, y: in the key"
    ),
    "a variable that is a value": Example(
        "At(place as l) -> At(place as l)", UNSAFE, "l is place in step 1, which is not a key of At"
    ),
    "one variable a key, one a value": Example(
        "R(k as x, v as y) -> S(k as x, v as y)", UNSAFE, "y is v in step 1, which is not a key of R"
    ),
    "a key of one and a value of another": Example(
        "R(k as x) -> S(v as x)", UNSAFE, "x is v in step 2, which is not a key of S"
    ),
    "two columns of one stream": Example(
        "Carries(person as x) -> Carries(object as x)", UNSAFE, "x is both object and person of Carries"
    ),
    "columns of different names": Example("R(k as x) -> T(l as x)", EXTENDED, "x: in the key of every step"),
    "a stream that nothing is said of": Example(
        "Z(k as x) -> Z(k as x)", UNSAFE, "x is k in step 1, which is not a key of Z"
    ),
    "a step of any kind": Example(
        "R(k as x) -> any(k as x)", UNSAFE, "x is shared, and step 2 matches events of any type"
    ),
    "a step of any kind behind": Example(
        "R(k as x) -> S(k as x) -> any", UNSAFE, "can match the same event, so they are not independent"
    ),
    "the same stream on both sides": Example(
        "R(k as x) -> S(k as x) -> R",
        UNSAFE,
        "step 3 and a step before it can match the same event, so they are not independent",
    ),
    "two steps behind": Example(
        "R(k as x) -> S(k as x) -> T -> Door", SAFE, "seq(seq(π-x(reg(R; S)), T), Door)"
    ),
    "a repetition behind": Example(
        "R(k as x) -> S(k as x) -> T+?", UNSAFE, "no safe plan: the last item of the sequence is not a single step"
    ),
    "an absence at the end of each round before the last step": Example(
        "(R(k as x) -> not R(k as x) for 2 seconds)* -> S",
        UNSAFE,
        "no safe plan: the steps before step 3 end with a 'not'",
    ),
    "a repetition that may have no iteration before the last step": Example(
        "R(k as x)* -> S", UNSAFE, "no safe plan: the steps before step 2 can match no event, and then step 2 alone is a match"
    ),
    "an optional group before the last step": Example(
        "(R(k as x) -> R(k as x))? -> S", UNSAFE, "no safe plan: the steps before step 3 can match no event"
    ),
    "either of two, one optional, before the last step": Example(
        "(R(k as x) | R(k as x)?) -> S", UNSAFE, "no safe plan: the steps before step 3 can match no event"
    ),
    "an optional step before the prefix": Example(
        "R(k as x)? -> R(k as x) -> S", SAFE, "seq(π-x(reg(R; R)), S)"
    ),
    "either of two behind": Example(
        "R(k as x) -> S(k as x) -> (T | Door)", UNSAFE, "the last item of the sequence is not a single step"
    ),
    "either of two, both with the variable": Example(
        "R(k as x) -> (S(k as x) | T(k as x))", EXTENDED, "x: in the key of every step"
    ),
    "either of two, one with the variable": Example(
        "R(k as x) -> (S(k as x) | T)", UNSAFE, "x is shared, but not by step 3"
    ),
    "negation": Example("R -> not S -> T", REGULAR, NO_SHARED),
    "negation with the variable": Example(
        "R(k as x) -> not S(k as x) -> T(k as x)", EXTENDED, "x: in the key of every step"
    ),
    "negation without the variable": Example(
        "R(k as x) -> not S -> T(k as x)", UNSAFE, "x is shared, but not by step 2"
    ),
    "negation behind": Example("R(k as x) -> S(k as x) -> not Door -> T", UNSAFE, "before step 4 end with a 'not'"),
    "a bound between steps behind": Example(
        "R(k as x) -> S(k as x) -> within 2 seconds T", UNSAFE, "no safe plan: the pattern is not a plain sequence"
    ),
    "a name in place of a number": Example(
        "R first -> S(k as x) second -> T(k as x) third", UNSAFE, "third shares x with some of the steps before it"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAPER)
def test_examples_of_the_paper(name: str) -> None:
    example = PAPER[name]
    found = classified(example.match)
    assert found.kind is example.kind, found.why
    assert example.why in found.why


@pytest.mark.parametrize("name", OURS)
def test_classes_of_cases_that_the_paper_leaves_open(name: str) -> None:
    example = OURS[name]
    found = classified(example.match)
    assert found.kind is example.kind, found.why
    assert example.why in found.why


def test_plans_in_the_paper_s_notation() -> None:
    """Figure 6: seq of a projection of the automaton, and T."""
    figure = pattern("R(k as x) -> S(k as x) -> T(l as y) [k = 'a']")
    plan = classify(figure, STREAMS).plan
    assert plan is not None
    assert format_plan(plan, figure) == "seq(π-x(reg(R; S)), T)"


def test_only_a_safe_query_has_a_plan() -> None:
    for examples in (PAPER, OURS):
        for example in examples.values():
            assert (classified(example.match).plan is not None) == (example.kind is SAFE), example.match


def test_bound_variables() -> None:
    """Only Extended Regular queries are evaluated separately for each binding."""
    assert classified(OURS["two variables"].match).bound == ("x", "y")
    for example in PAPER.values():
        assert bool(classified(example.match).bound) == (example.kind is EXTENDED)


@pytest.mark.parametrize("more", ["within 5 seconds", "within 5 seconds holds for 2 seconds"])
def test_windows(more: str) -> None:
    """Configurations of the automaton have an age, so a window does not change the class."""
    more += " selection successor"
    assert classified("R -> S", more).kind is REGULAR
    assert classified("R(k as x) -> S(k as x)", more).kind is EXTENDED


def test_a_safe_plan_with_a_window() -> None:
    """The plan follows the steps within the window; a window by count has no such steps."""
    query, more = "R(k as x) -> S(k as x) -> T", "within {} selection successor"
    assert classified(query, more.format("5 seconds")).kind is SAFE
    found = classified(query, more.format("5 events"))
    assert found.kind is UNSAFE
    assert "no safe plan: the window is not a time window" in found.why


SECOND = 1_000_000


def plan_within(match: str, within: str, *, linked: tuple[str, ...] = (), more: str = "") -> PlannedQuery:
    streams = tuple(
        Stream(type_, Known.LINKED if type_ in linked else Known.INDEPENDENT, keys.key or (), keys.uncertain or ("v",))
        for type_, keys in STREAMS.items()
    )
    return plan_query(pattern(match, f"within {within} {more} selection successor"), Streams(streams, SECOND))


def test_window_of_a_safe_plan_is_counted_in_steps() -> None:
    query = "R(k as x) -> S(k as x) -> T"
    assert plan_within(query, "5 seconds").window == 5
    assert plan_within(query, "forever").window is None
    assert plan_within("R(k as x) -> S(k as x)", "5 seconds").window is None


@pytest.mark.parametrize(
    ("match", "within", "linked", "why"),
    [
        ("R(k as x) -> S(k as x) -> T", "600 seconds", (), "its window has more than 512 steps"),
        ("T(k as x) -> S(k as x) -> R", "5 seconds", ("T",), "one binding may have several chains of T"),
        ("R(k as x) -> S(k as x) -> T", "5 seconds", ("R", "S"), "one binding may have several chains of R"),
        ("R(k as x) -> S(k as x) -> T -> Door", "5 seconds", ("T",), "steps of T depend on each other, and more steps follow"),
        ("R(k as x) -> S(k as x) -> T t must (v > 1) -> Door", "5 seconds", (), "t has a test, and more steps follow"),
    ],
)  # fmt: skip
def test_windows_without_a_safe_plan_are_sampled(match: str, within: str, linked: tuple[str, ...], why: str) -> None:
    """The plan depends on declarations only: if data could require sampling, the stream is sampled from its start."""
    query = plan_within(match, within, linked=linked)
    assert query.classified.kind is UNSAFE
    assert query.classified.why.endswith(f"which is not used: {why}")
    assert query.window is None


def test_which_windows_are_followed_over_tables() -> None:
    """One chain to a binding, and any number of chains behind it."""
    for match, linked, more in (
        ("R(k as x) -> S(k as x) -> T", ("R", "T"), ""),
        ("T(k as x, l as y) -> T(k as x, l as y) -> R(k as x)", ("T", "R"), ""),
        ("T(k as x) -> T(k as x) -> R", ("T", "R"), "partition by l"),
    ):
        query = plan_within(match, "5 seconds", linked=linked, more=more)
        assert query.window == 5, query.classified


def test_holds_for_has_no_safe_plan() -> None:
    for within in ("forever", "5 seconds"):
        found = classified("R(k as x) -> S(k as x) -> T", f"within {within} holds for 2 seconds selection successor")
        assert found.kind is UNSAFE
        assert "no safe plan: the pattern uses 'holds for'" in found.why


def test_conditions_of_the_whole_pattern() -> None:
    """Conditions on one event belong to its step, and those on a variable to the first step that has it."""
    where = "where {} within forever selection successor"
    assert classified("R a -> S b", where.format("a.v > 2 and b.v > 3")).kind is REGULAR
    assert classified("R(k as x) -> S(k as x)", where.format("x > 3")).kind is EXTENDED
    assert classified("R(k as x) -> S(k as x) -> T", where.format("x > 3")).kind is SAFE
    found = classified("R a -> S b", where.format("a.v < b.v"))
    assert found.kind is UNSAFE
    assert "a.v < b.v refers to two events" in found.why


def test_partitions() -> None:
    """Section 4's query of one person is Regular; a variable on the same column does not change that."""
    by_person = "within forever partition by person selection successor"
    query = "At a [place not in Rooms] -> At b must (place not in Rooms) -> At c must (place in CoffeeRooms)"
    assert classified(query, by_person).kind is REGULAR
    assert classified("At(person as p) -> At(person as p)", by_person).kind in (REGULAR, EXTENDED)


def test_a_variable_on_the_column_of_the_partition_is_a_constant() -> None:
    """In each group x has one value, so h3 is Regular there."""
    parts = tuple(Stream(type_, Known.INDEPENDENT, ("k",), ("v",)) for type_ in ("R", "S", "T"))
    query = pattern("R -> S(k as x) -> T(k as x)", "within forever partition by k selection successor")
    assert plan_query(query, Streams(parts)).classified.kind is REGULAR


def test_all_columns_of_certain_events_are_certain() -> None:
    """Nothing in a certain event depends on anything: bindings of p are independent."""
    parts = Stream("At", Known.INDEPENDENT, ("person",), ("place",)), Stream("Door", Known.CERTAIN)
    query = pattern("At(person as p) -> Door(person as p)", "within forever selection successor")
    assert plan_query(query, Streams(parts)).classified.kind is EXTENDED


@pytest.mark.parametrize(
    ("match", "why"),
    [
        (
            "R(k as x) a -> (R(k as x) b, R(k as x) c)",
            "a comma requires the very next event, which can have another",
        ),
        ("(R(k as x) a, R(k as x) b) -> S c", "x is shared, but not by c"),
        ("(R(k as x) a, S(k as x) b){2} -> T c", "x is shared, but not by c"),
        ("R(k as x) a -> (S(k as x) b -> (R(k as x) c, S(k as x) d)) -> T e", "x is shared, but not by e"),
    ],
)
@pytest.mark.parametrize("within", ["forever", "5 seconds"])
def test_a_comma_inside_a_group_rules_a_safe_plan_out(match: str, why: str, within: str) -> None:
    found = classified(match, f"within {within}")
    assert found.kind is UNSAFE
    assert found.why.startswith(why)
    assert "no safe plan: with a comma, events of all streams count" in found.why


@pytest.mark.parametrize(
    ("match", "more"),
    [
        ("R(k as x){2} a consecutive -> R(k as x) b", "within forever"),
        ("R(k as x) a -> R(k as x)+? b consecutive", "within forever"),
        ("R(k as x)+ a consecutive -> S c", "within 5 seconds"),
        ("(R(k as x)+ a consecutive -> R(k as x) b) -> S c", "within 5 seconds"),
    ],
)
def test_consecutive_iterations_rule_a_safe_plan_out(match: str, more: str) -> None:
    found = classified(match, more)
    assert found.kind is UNSAFE
    assert found.plan is None
    assert "no safe plan: with consecutive iterations, events of all streams count" in found.why


def test_with_a_comma_bindings_depend_on_one_another() -> None:
    """An event of another binding is in between, so bindings are not independent queries."""
    assert classified("R(k as x), S(k as x)", "within forever").kind not in (EXTENDED, SAFE)
