"""Semantics of queries over a model: hand-worked cases for each construct, which the engine must equal."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perseid.engines.models.live import LiveModel
from perseid.lang.parser import parse_models
from perseid.reference.models import Recomputed
from perseid.semantics.graphs import NAN, Change
from perseid.semantics.metamodels import kinds_of
from perseid.semantics.model_queries import Match, check_queries

SECOND = 1_000_000
SITE = """
model site
abstract node Thing (n bigint)
node Host is Thing (x double, name string, at timestamp)
node Task is Thing
edge near Host -> Host
edge on Task -> Host one
"""


class Site:
    """A model that is changed line by line: ``+ Host a b``, ``- a``, ``a.n = 3``, ``a near b``, ``a no near b``."""

    def __init__(self, queries: str) -> None:
        file = parse_models(SITE + queries)
        assert file.metamodel is not None
        checked = check_queries(kinds_of(file.metamodel), file.queries)
        self.oracle = Recomputed(checked)
        self.engine = LiveModel(checked)
        self.time = -SECOND

    def do(self, *lines: str, seconds: int = 1, **values: object) -> list[str]:
        """Runs a transaction and returns its changes of matches, as in ``found q a b``."""
        self.time += seconds * SECOND
        changes = [change for line in lines for change in changes_of(line, values)]
        outcome = self.oracle.transact(self.time, changes)
        assert not outcome.refused
        assert repr(self.engine.transact(self.time, changes)) == repr(outcome)
        return [" ".join((c.change, c.query, *map(str, c.match))) for c in outcome.changes]

    def matches(self, query: str = "q") -> set[Match]:
        assert self.engine.matches[query].standing == self.oracle.matches[query]
        return self.oracle.matches[query]

    def match_texts(self, query: str = "q") -> set[str]:
        return {" ".join(map(str, match)) for match in self.matches(query)}


def changes_of(line: str, values: dict[str, object]) -> list[Change]:
    match line.split():
        case ["+", kind, *elements]:
            return [Change("create", element, kind) for element in elements]
        case ["-", *elements]:
            return [Change("delete", element) for element in elements]
        case [place, "=", *value]:
            element, attribute = place.split(".")
            text = " ".join(value)
            return [Change("set", element, None, attribute, values[text] if text in values else eval(text))]
        case [source, "no", edge, target]:
            return [Change("unlink", source, edge, target=target)]
        case [source, edge, *targets]:
            return [Change("link", source, edge, target=target) for target in targets]
    raise AssertionError(line)


def of_q(outcome: list[str]) -> list[str]:
    return [line for line in outcome if line.split()[1] == "q"]


def site(queries: str, *lines: str) -> Site:
    made = Site(queries)
    made.do(*lines)
    return made


HOSTS = "+ Host a b c d"
CHAIN = (HOSTS, "a near b", "b near c", "c near d")
RING = (HOSTS, "a near b", "b near c", "c near a")


# nodes and walks


def test_type_includes_its_subtypes() -> None:
    made = site("query q(x) find x: Thing query hosts(x) find x: Host", "+ Host a", "+ Task t")
    assert made.match_texts() == {"a", "t"}
    assert made.match_texts("hosts") == {"a"}


@pytest.mark.parametrize(
    ("walk", "wanted"),
    [
        ("x -near-> y", "a b, b c, c d"),
        ("x <-near- y", "b a, c b, d c"),
        ("x -near{2}-> y", "a c, b d"),
        ("x -near{1,2}-> y", "a b, a c, b c, b d, c d"),
        ("x -near{0,1}-> y", "a a, b b, c c, d d, a b, b c, c d"),
        ("x -near+-> y", "a b, a c, a d, b c, b d, c d"),
        ("x -near*-> y", "a a, a b, a c, a d, b b, b c, b d, c c, c d, d d"),
        ("x -near-> z, z -near-> y", "a c, b d"),
        ("x -near-> z -near-> y", "a c, b d"),
        ("x -near-> y <-near- x", "a b, b c, c d"),
    ],
)
def test_walks_along_a_chain(walk: str, wanted: str) -> None:
    assert site(f"query q(x, y) find {walk}", *CHAIN).match_texts() == set(wanted.split(", "))


@pytest.mark.parametrize(
    ("walk", "wanted"),
    [
        ("x -near+-> x", "a, b, c"),
        ("x -near{3}-> x", "a, b, c"),
        ("x -near{2}-> x", ""),
        ("x -near-> x", ""),
        ("x -near*-> x", "a, b, c, d"),
    ],
)
def test_walks_that_come_back(walk: str, wanted: str) -> None:
    assert site(f"query q(x) find {walk}", *RING).match_texts() == set(filter(None, wanted.split(", ")))


def test_self_loop_is_a_walk_of_any_length() -> None:
    made = site("query q(x) find x -near{4}-> x", HOSTS, "a near a")
    assert made.match_texts() == {"a"}


def test_deleting_an_edge_of_a_ring_breaks_its_pairs() -> None:
    """Every pair of the ring also depended on the deleted edge, through the other pairs."""
    made = site("query q(x, y) find x -near+-> y", *RING)
    assert len(made.matches()) == 9
    assert made.do("c no near a") == [
        *(f"lost q {pair}" for pair in ("a a", "b a", "b b", "c a", "c b", "c c")),
        *(f"updated q {pair}" for pair in ("a b", "a c", "b c")),
    ]


def test_a_walk_over_a_called_query() -> None:
    made = site(
        "query twice(x, y) find x -near{2}-> y query q(x, y) find twice+(x, y)",
        "+ Host a b c d e", "a near b", "b near c", "c near d", "d near e",
    )  # fmt: skip
    assert made.match_texts() == {"a c", "b d", "c e", "a e"}


# joins


def test_shared_variables_join_and_others_form_the_product() -> None:
    made = site(
        "query q(x, y) find x -near-> _, y: Task query same(x) find x -near-> y, y -near-> x",
        "+ Host a b", "+ Task t u", "a near b",
    )  # fmt: skip
    assert made.match_texts() == {"a t", "a u"}
    assert made.match_texts("same") == set()


def test_a_variable_that_comes_twice_in_a_call() -> None:
    made = site("query pair(x, y) find x -near-> y query q(x) find pair(x, x)", HOSTS, "a near a", "a near b")
    assert made.match_texts() == {"a"}


def test_an_underscore_is_never_the_same_twice() -> None:
    made = site("query pair(x, y) find x -near-> y query q(x) find x: Host, pair(_, _)", HOSTS, "a near b")
    assert made.match_texts() == {"a", "b", "c", "d"}


def test_match_of_two_alternatives_is_one_match() -> None:
    made = site("query q(x) find x -near-> _ or find _ -near-> x", HOSTS, "a near b", "b near c")
    assert made.match_texts() == {"a", "b", "c"}
    assert made.do("b no near c") == ["lost q c", "updated q b"]


def test_values_join_as_equal_and_null_and_nan_equal_themselves() -> None:
    made = Site("query of(h, x) find h: Host let x = h.x query q(a, b) find of(a, x), of(b, x) where a < b")
    made.do("+ Host a b c d e f", "a.x = nan", "b.x = nan", "c.x = -0.0", "d.x = 0.0", nan=float("nan"))
    assert made.match_texts() == {"a b", "c d", "e f"}
    assert made.matches("of") == {("a", NAN), ("b", NAN), ("c", 0.0), ("d", 0.0), ("e", None), ("f", None)}


# absence


@pytest.mark.parametrize(
    ("no", "wanted"),
    [
        ("not x -near-> _", "d"),
        ("not _ -near-> x", "a"),
        ("not x -near{2}-> _", "c, d"),
        ("not (x -near-> y, y -near-> _)", "c, d"),
        ("not (x -near-> y where y.n > 1)", "a, d"),
        ("not (x -near-> y where y.n > x.n)", "d"),
        ("not (x -near-> y, not y -near-> _)", "a, b, d"),
        ("not (not x -near-> _)", "a, b, c"),
        ("not (x -near-> y, not (y -near-> z where z.n > 2))", "b, d"),
        ("not x -near-> _, not _ -near-> x", ""),
        ("not y: Task", "a, b, c, d"),
    ],
)
def test_absence(no: str, wanted: str) -> None:
    """Along a to d, n is 0 to 3."""
    made = site(f"query q(x) find x: Host, {no}", *CHAIN, "a.n = 0", "b.n = 1", "c.n = 2", "d.n = 3")
    expected = set(filter(None, wanted.split(", ")))
    assert made.match_texts() == expected


def test_null_condition_of_a_negation_does_not_match() -> None:
    made = site("query q(x) find x: Host, not (x -near-> y where y.n > 1)", HOSTS, "a near b")
    assert made.match_texts() == {"a", "b", "c", "d"}


# values


def test_let_and_where() -> None:
    made = site("query q(x, m) find x: Host let m = x.n * 2, k = m + 1 where k > 4", HOSTS, "a.n = 1", "b.n = 2")
    assert made.matches() == {("b", 4)}


@pytest.mark.parametrize(
    ("made_of", "a", "d"),
    [
        ("count", 3, 0),
        ("sum(y.n)", 5, 0),
        ("min(y.n)", 2, None),
        ("max(y.n)", 3, None),
        ("avg(y.n)", 2.5, None),
        ("sum(y.x)", 0.6, 0.0),
        ("min(y.x)", 0.1, None),
        ("max(y.x)", 0.3, None),
        ("min(y.name)", "A", None),
        ("max(y.name)", "b", None),
        ("min(y.at)", datetime(2020, 1, 1, tzinfo=UTC), None),
        ("max(y.at)", datetime(2020, 1, 3, tzinfo=UTC), None),
    ],
)
def test_aggregates_skip_null_and_are_defined_without_rows(made_of: str, a: object, d: object) -> None:
    """a leads to b, c and d; d, which leads nowhere, has no n. 0.1 + 0.2 + 0.3 is 0.6 to the nearest double."""
    made = site(
        f"query pair(x, y) find x -near-> y query q(x, v) find x: Host let v = {made_of} of pair(x, y)",
        HOSTS, "a near b c d", "b.n = 2", "c.n = 3", "b.x = 0.1", "c.x = 0.2", "d.x = 0.3", "b.name = 'b'",
        "c.name = 'A'",
    )  # fmt: skip
    made.do("b.at = t1", "c.at = t3", t1=datetime(2020, 1, 1), t3=datetime(2020, 1, 3))
    assert {match[0]: match[1] for match in made.matches() if match[0] in "ad"} == {"a": a, "d": d}


def test_bound_arguments_choose_and_free_ones_do_not() -> None:
    made = site(
        "query pair(x, y) find x -near-> y query q(x, own, all) find x -near-> _ "
        "let own = count of pair(x, _), all = count of pair(_, _)",
        *CHAIN, "a near c",
    )  # fmt: skip
    assert made.matches() == {("a", 2, 4), ("b", 1, 4), ("c", 1, 4)}


def test_arithmetic_over_counts_follows_every_change() -> None:
    made = site(
        "query pair(x, y) find x -near-> y query q(x, score) find x: Host "
        "let out = count of pair(x, _), back = count of pair(_, x), score = 10 * out - back",
        HOSTS, "a near b",
    )  # fmt: skip
    assert made.match_texts() == {"a 10", "b -1", "c 0", "d 0"}
    assert of_q(made.do("a near c", "a no near b")) == [
        "lost q b -1", "lost q c 0", "updated q a 10", "found q b 0", "found q c -1",
    ]  # fmt: skip


def test_an_average_of_counts() -> None:
    made = site(
        "query pair(x, y) find x -near-> y query size(x, n) find x -near-> _ let n = count of pair(x, _) "
        "query q(t, mean, all) find t: Task let mean = avg(n) of size(_, n), all = sum(n * n) of size(_, n)",
        HOSTS, "+ Task t", "a near b c", "b near c",
    )  # fmt: skip
    assert made.matches() == {("t", 1.5, 5)}


def test_numbers_of_several_ways_are_of_one_type() -> None:
    made = site("query q(v) find h: Host let v = h.n or find h: Host let v = h.x", "+ Host a", "a.n = 2", "a.x = 2.0")
    assert [repr(match) for match in made.matches()] == ["(2.0,)"]


# the top


@pytest.mark.parametrize(
    ("top", "wanted"),
    [
        ("top 1 by v", "a"),
        ("top 2 by v", "a, b, c"),
        ("top 3 by v", "a, b, c"),
        ("top 4 by v", "a, b, c, d"),
        ("top 2 by v, x ascending", "a, b"),
        ("top 2 by v, x", "a, c"),
        ("top 1 by v ascending", "e"),
        ("top 2 by v ascending", "d, e"),
        ("top 1 per v by x", "a, c, d, e"),
        ("top 9 by v", "a, b, c, d, e"),
    ],
)
def test_top_includes_ties_with_its_last(top: str, wanted: str) -> None:
    """n of a is 3, of b and c 2, of d 1; e has none, and null is below everything."""
    made = site(f"query q(x, v) find x: Host let v = x.n {top}", "+ Host a b c d e", "a.n = 3", "b.n = 2", "c.n = 2", "d.n = 1")  # fmt: skip
    assert {str(match[0]) for match in made.matches()} == set(wanted.split(", "))


def test_nan_is_the_top_of_doubles() -> None:
    made = Site("query q(x, v) find x: Host let v = x.x top 1 by v")
    made.do(HOSTS, "a.x = nan", "b.x = inf", nan=float("nan"), inf=float("inf"))
    assert made.match_texts() == {"a nan"}


def test_deleting_the_top_match_promotes_others() -> None:
    made = site("query q(x) find x: Host top 1 by x.n", HOSTS, "a.n = 3", "b.n = 2", "c.n = 2")
    assert made.do("- a") == ["lost q a", "found q b", "found q c"]


# components


def test_components_and_the_least_of_each() -> None:
    queries = "query pair(x, y) find x -near-> y query q(x, least) components of pair"
    made = site(queries, "+ Host a b c d e", "c near b", "d near e")
    assert made.match_texts() == {"b b", "c b", "d d", "e d"}
    assert of_q(made.do("c near a", "a near e")) == [
        "lost q b b", "lost q c b", "lost q d d", "lost q e d",
        "found q a a", "found q b a", "found q c a", "found q d a", "found q e a",
    ]  # fmt: skip
    made.do("- a")
    assert made.match_texts() == {"b b", "c b", "d d", "e d"}


def test_components_over_nodes_have_those_that_are_alone() -> None:
    made = site(
        "query pair(x, y) find x -near-> y query all(x) find x: Host query q(x, least) components of pair over all",
        HOSTS, "c near b",
    )  # fmt: skip
    assert made.match_texts() == {"a a", "b b", "c b", "d d"}


def test_components_are_separate_for_each_group() -> None:
    """Task a reaches only its neighbors: components of one task are not connected for another one."""
    made = site(
        "query seen(t, x, y) find t -on-> h, h -near-> x, x -near-> y query q(t, x, least) components of seen",
        "+ Host a b c d", "+ Task t u", "t on a", "u on d", "a near b", "b near c", "d near c", "c near c",
    )  # fmt: skip
    assert made.match_texts() == {"t b b", "t c b", "u c c"}


# moving windows


def test_the_last_values_of_an_attribute() -> None:
    made = site("query q(v, k) find h: Host let v = moving_avg(h.n, 2), k = moving_count(h.n, 2)", "+ Host a")
    assert made.matches() == {(None, 0)}
    made.do("a.n = 1")
    assert made.matches() == {(1.0, 1)}
    made.do("a.n = 4")
    assert made.matches() == {(2.5, 2)}
    made.do("a.n = 100", "a.n = 6")  # of one transaction the last value counts
    assert made.matches() == {(5.0, 2)}
    made.do("a.n = None")  # null is a set value, and it is skipped
    assert made.matches() == {(6.0, 1)}
    made.do("- a", "+ Host a")
    assert made.matches() == {(None, 0)}


def test_moving_sum_over_a_time_window() -> None:
    """A window of two seconds has the values set less than two seconds ago; each transaction advances time."""
    made = site("query q(v) find h: Host let v = moving_sum(h.n, 2 seconds)", "+ Host a", "a.n = 1")
    made.do("a.n = 2")
    assert made.matches() == {(3.0,)}
    assert made.do() == ["lost q 3.0", "found q 2.0"]
    made.do()
    assert made.matches() == {(None,)}


# changes of matches


def test_found_updated_and_lost_in_this_order() -> None:
    made = site("query q(x) find x: Host where x.n > 1", HOSTS, "a.n = 2", "b.n = 2")
    assert made.do("c.n = 2", "b.n = 3", "a.n = 0") == ["lost q a", "updated q b", "found q c"]


def test_unchanged_values_are_no_update() -> None:
    made = site("query q(x) find x: Host", "+ Host a b", "a.n = 2")
    assert made.do("a.n = 3", "a.n = 2") == []
    assert made.do("a near b", "a no near b") == []
    assert made.do("a.n = 3") == ["updated q a"]
    assert made.do("a near b") == ["updated q a", "updated q b"]


def test_the_same_nan_again_is_no_update() -> None:
    made = Site("query q(x) find x: Host")
    made.do("+ Host a", "a.x = nan", nan=float("nan"))
    assert made.do("a.x = nan", nan=float("inf") - float("inf")) == []


def test_recreated_node_is_an_update() -> None:
    made = site("query q(x) find x: Host query known(x) find x: Host where x.n is not null", "+ Host a", "a.n = 2")
    assert made.do("- a", "+ Host a") == ["updated q a", "lost known a"]


def test_match_lost_and_found_in_one_transaction_is_no_change() -> None:
    made = site("query q(x, y) find x -near-> y", HOSTS, "a near b")
    assert made.do("a no near b", "a near b") == []


# behavior that docs/semantics.md states


@pytest.mark.parametrize(
    ("function", "without", "one", "two"),
    [
        ("moving_sum", None, 1.0, 3.0),
        ("moving_avg", None, 1.0, 1.5),
        ("moving_min", None, 1, 1),
        ("moving_max", None, 1, 2),
        ("moving_count", 0, 1, 2),
    ],
)
def test_moving_aggregates_of_no_value_are_null_and_sums_are_doubles(
    function: str, without: object, one: object, two: object
) -> None:
    """n is a bigint; the window has the last two set values, first none, then 1, 1 2, 2 null, null null."""
    made = site(f"query q(a, v) find a: Host let v = {function}(a.n, 2)", "+ Host a")
    assert made.matches() == {("a", without)}
    for value, wanted in (("1", one), ("2", two)):
        made.do(f"a.n = {value}")
        ((_, found),) = made.matches()
        assert (found, type(found)) == (wanted, type(wanted))
    made.do("a.n = None")
    assert made.matches() == {("a", 1 if function == "moving_count" else 2)}
    made.do("a.n = None")
    assert made.matches() == {("a", without)}


def test_sum_of_no_match_is_zero_and_a_bigint() -> None:
    made = site(
        "query v(a, n) find a: Task let n = a.n query q(h, s) find h: Host let s = sum(n) of v(_, n)", "+ Host a"
    )
    ((_, found),) = made.matches()
    assert (found, type(found)) == (0, int)


def test_variable_of_two_calls_joins_null_with_null() -> None:
    """a and b have no n, c has 1."""
    queries = "query q(a, b) find v(a, n), v(b, n) query v(a, n) find a: Host let n = a.n"
    assert site(queries, "+ Host a b c", "c.n = 1").match_texts() == {"a a", "a b", "b a", "b b", "c c"}
    compared = "query q(a, b) find v(a, n), v(b, m) where n = m query v(a, n) find a: Host let n = a.n"
    assert site(compared, "+ Host a b c", "c.n = 1").match_texts() == {"c c"}


def test_star_relates_every_node_with_itself() -> None:
    """near joins hosts; the task t is related with itself all the same, unless an end has a type."""
    lines = ("+ Host a b", "+ Task t", "a near b")
    assert site("query q(x, y) find x -near*-> y", *lines).match_texts() == {"a a", "a b", "b b", "t t"}
    assert site("query q(x, y) find x: Host -near*-> y", *lines).match_texts() == {"a a", "a b", "b b"}
    assert site("query q(x, y) find x -near+-> y", *lines).match_texts() == {"a b"}


def test_query_events_are_depth_first_over_calls_in_the_order_of_the_text() -> None:
    """d calls c and then b; c calls b and then e: b, e, c, d, and then z, which nothing calls."""
    queries = """
    query d(a) find a: Host, c(a), b(a)
    query z(a) find a: Host
    query e(a) find a: Host
    query b(a) find a: Host
    query c(a) find a: Host, b(a) let n = count of e(a)
    """
    made = Site(queries)
    assert made.do("+ Host a") == [f"found {name} a" for name in "becdz"]


def test_components_over_nodes_have_their_least_member() -> None:
    queries = "query e(x, y) find x -near-> y query all(x) find x: Host query q(x, least) components of e"
    made = site(f"{queries} query o(x, least) components of e over all", HOSTS, "c near b")
    assert made.match_texts() == {"b b", "c b"}
    assert made.match_texts("o") == {"a a", "b b", "c b", "d d"}
