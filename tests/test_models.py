"""Patterns over live models in the public API: rows of changes as input, matches as output."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import perseid as ps

CPS = """
model cps
node Host (available_cpu bigint, total_cpu bigint, ram bigint)
node SmallHost is Host (label string)
node App
edge runs_on App -> Host one

query overcommitted(host)
find  host: Host
where host.available_cpu > host.total_cpu

query idle(host)
find  host: Host, not app -runs_on-> host

pattern toleration
match (found overcommitted | updated overcommitted){3}
selection immediate
within forever
partition by host

pattern emptied
match lost idle(host as h) a -> found idle(host as h) b
within 10 seconds
return a.host as host, time(b) as at
"""
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def at(second: int, change: str, element: str, **rest: Any) -> dict[str, Any]:
    return {"ts": START + dt.timedelta(seconds=second), "change": change, "element": element, **rest}


def set_attributes(second: int, element: str, **values: Any) -> list[dict[str, Any]]:
    return [at(second, "set", element, attribute=name, value=value) for name, value in values.items()]


def host(second: int, element: str, **values: Any) -> list[dict[str, Any]]:
    return [at(second, "create", element, kind="Host"), *set_attributes(second, element, **values)]


def match_rows(name: str, rows: Any, **options: Any) -> list[dict[str, Any]]:
    cps = ps.graph.metamodel(CPS)
    found: list[dict[str, Any]] = ps.patterns(cps)[name].match(ps.graph.model(rows, cps, **options)).to_dicts()
    return found


def test_three_consecutive_errors_of_one_host() -> None:
    """Figure 13 of the paper: available 10, total 8; further changes while the query matches are updates."""
    rows = host(0, "h1", available_cpu=8, total_cpu=8) + host(0, "h2", available_cpu=1, total_cpu=8)
    rows += (
        set_attributes(1, "h1", available_cpu=10)
        + set_attributes(2, "h1", ram=4)
        + set_attributes(3, "h2", ram=4)
        + set_attributes(4, "h1", ram=5)
    )
    (found,) = match_rows("toleration", rows)
    assert found["host"] == "h1"
    assert (found["start"], found["end"]) == (START + dt.timedelta(seconds=1), START + dt.timedelta(seconds=4))


def test_return_to_validity_restarts_the_count() -> None:
    rows = (
        host(0, "h1", available_cpu=10, total_cpu=8)
        + set_attributes(1, "h1", ram=4)
        + set_attributes(2, "h1", available_cpu=8)
    )
    rows += set_attributes(3, "h1", available_cpu=9)
    assert match_rows("toleration", rows) == []
    rows += set_attributes(4, "h1", ram=5) + set_attributes(5, "h1", ram=6)
    assert len(match_rows("toleration", rows)) == 1


def test_equal_value_is_no_update() -> None:
    rows = (
        host(0, "h1", available_cpu=10, total_cpu=8, ram=4)
        + set_attributes(1, "h1", ram=4)
        + set_attributes(2, "h1", ram=4)
    )
    assert match_rows("toleration", rows) == []


def test_equal_value_is_an_elementary_change_and_no_update() -> None:
    site = ps.graph.metamodel(LOADS + "pattern p match change set Host.load c return c.old as old, c.new as new")
    model = ps.graph.model(
        [at(0, "create", "a", kind="Host"), *set_attributes(0, "a", load=4), *set_attributes(1, "a", load=4)], site
    )
    assert [row["_type"] for row in model.events("q").to_pylist()] == ["found q"]
    found = ps.patterns(site)["p"].match(model).to_dicts()
    assert [(m["start"].second, m["old"], m["new"]) for m in found] == [(0, None, 4), (1, 4, 4)]


def test_edges_of_a_deleted_node_are_unlinked_in_order() -> None:
    """The order is by edge type, then outgoing edges by target, then incoming edges by source; a loop occurs once."""
    text = "model m node A edge f A -> A edge e A -> A query q(a) find a: A "
    steps = " | ".join(f"change {change} c{n}" for n, change in enumerate(("unlink e", "unlink f", "delete A")))
    site = ps.graph.metamodel(text + f"pattern p match {steps}")
    rows = [at(0, "create", name, kind="A") for name in "abc"]
    edges = ("a f b", "c e a", "a e c", "b e a", "a e a", "a e b", "b f c")
    for edge in edges:
        source, kind, target = edge.split()
        rows.append(at(0, "link", source, kind=kind, target=target))
    found = ps.patterns(site)["p"].match(ps.graph.model([*rows, at(1, "delete", "a")], site))
    events = [event for match in found for bound in match.bindings.values() for event in bound]
    events.sort(key=lambda event: event.attributes["_place"])
    listed = [(e.attributes["element"], e.attributes["kind"], e.attributes["target"]) for e in events]
    unlinked = ["a e a", "a e b", "a e c", "b e a", "c e a", "a f b"]
    assert listed == [*(tuple(edge.split()) for edge in unlinked), ("a", "A", None)]


def test_parameters_unify_with_elements() -> None:
    rows = host(0, "h1") + host(0, "h2") + [at(0, "create", "a", kind="App"), at(0, "create", "b", kind="App")]
    rows += [at(1, "link", "a", kind="runs_on", target="h1"), at(2, "link", "b", kind="runs_on", target="h2")]
    rows += [at(5, "unlink", "b", kind="runs_on", target="h2"), at(30, "delete", "a")]
    (found,) = match_rows("emptied", rows)
    assert found["host"] == "h2"


def test_deletion_of_a_node_unlinks_its_edges() -> None:
    rows = [*host(0, "h1"), at(0, "create", "a", kind="App"), at(1, "link", "a", kind="runs_on", target="h1")]
    (found,) = match_rows("emptied", [*rows, at(5, "delete", "a")])
    assert found["at"] == START + dt.timedelta(seconds=5)


def test_models_with_different_keys_are_separate() -> None:
    rows = [
        {**row, "site": site} for site in ("north", "south") for row in host(0, "h1", available_cpu=10, total_cpu=8)
    ]
    rows += [{**row, "site": "north"} for row in set_attributes(1, "h1", ram=1)]
    rows += [{**row, "site": "south"} for second in (1, 2) for row in set_attributes(second, "h1", ram=second)]
    (found,) = match_rows("toleration", rows, key="site")
    assert (found["site"], found["host"]) == ("south", "h1")


def test_changes_of_equal_time_are_one_transaction_in_any_order() -> None:
    """Nodes are changed before attributes, and attributes before edges; queries are evaluated after all changes."""
    rows = host(0, "h1", available_cpu=10, total_cpu=8)
    backwards = list(reversed(rows)) + set_attributes(1, "h1", ram=1) + set_attributes(2, "h1", ram=2)
    assert len(match_rows("toleration", backwards)) == 1
    settled = host(0, "h1", available_cpu=10) + set_attributes(0, "h1", total_cpu=12)
    cps = ps.graph.metamodel(CPS)
    assert ps.graph.model(settled, cps).events("overcommitted").num_rows == 0


TIED = """
model m
node A (x bigint, r double, s string)
node B (x string)
query q(a, x, r, s) find a: A let x = a.x, r = a.r, s = a.s
query b(a, x) find a: B let x = a.x
"""


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("ranked", [False, True])
@pytest.mark.parametrize(
    ("attribute", "values", "greatest"),
    [
        ("x", [9, 10], 10),
        ("x", [-2, -1], -1),
        ("x", [None, 3, -4], 3),
        ("x", ["9", "10", None], 10),
        ("r", [2.5, 10.0, 9.0], 10.0),
        ("r", ["2.5", "-inf", "10"], 10.0),
        ("s", ["9", "10", ""], "9"),
        ("s", ["Z", "a", "é"], "é"),
    ],
)
def test_greatest_of_several_values_for_one_attribute_counts(
    attribute: str, values: list[Any], greatest: Any, ranked: bool, backwards: bool
) -> None:
    sets = [row for value in values for row in set_attributes(1, "a", **{attribute: value})]
    rows = [at(0, "create", "a", kind="A"), *(reversed(sets) if backwards else sets)]
    model = ps.graph.model([{**row, "n": 1} for row in rows], ps.graph.metamodel(TIED), order_by="n" if ranked else ())
    ((_, *found),) = model.matches()[()]["q"]
    assert found["xrs".index(attribute)] == greatest


@pytest.mark.parametrize("values", [[float("nan"), 1e300], ["NaN", "inf", None]])
def test_nan_is_the_greatest_of_several_values_for_one_attribute(values: list[Any]) -> None:
    for ordered in (values, values[::-1]):
        rows = [at(0, "create", "a", kind="A"), *(row for value in ordered for row in set_attributes(0, "a", r=value))]
        ((_, _, found, _),) = ps.graph.model(rows, ps.graph.metamodel(TIED)).matches()[()]["q"]
        assert found != found


def test_values_for_one_attribute_compare_in_the_type_of_the_node() -> None:
    """A.x is a number and B.x a string: 10 is greater than 9, and '9' is greater than '10'."""
    rows = [at(0, "create", "a", kind="A"), at(0, "create", "b", kind="B")]
    rows += [row for name in "ab" for value in ("9", "10") for row in set_attributes(0, name, x=value)]
    found = ps.graph.model(rows, ps.graph.metamodel(TIED)).matches()[()]
    assert (found["q"], found["b"]) == ([("a", 10, None, None)], [("b", "9")])


def test_rank_decides_before_the_value() -> None:
    sets = [*set_attributes(1, "a", x=10), *set_attributes(1, "a", x=9), *set_attributes(1, "a", x=8)]
    rows = [{**row, "n": n} for row, n in zip([at(0, "create", "a", kind="A"), *sets], (0, 1, 2, 2), strict=True)]
    for ordered in (rows, rows[::-1]):
        model = ps.graph.model(ordered, ps.graph.metamodel(TIED), order_by="n")
        assert model.matches()[()]["q"] == [("a", 9, None, None)]


@pytest.mark.parametrize("rows", list(itertools.permutations([(None, 9), (1.0, 8), (2.0, 7), (float("nan"), 6)])))
def test_null_is_the_first_rank_and_nan_the_last(rows: tuple[tuple[float | None, int], ...]) -> None:
    created = {**at(0, "create", "a", kind="A"), "n": 0.0}
    sets = [{**row, "n": rank} for rank, value in rows for row in set_attributes(1, "a", x=value)]
    found = ps.graph.model([created, *sets], ps.graph.metamodel(TIED), order_by="n").matches()[()]
    assert found["q"] == [("a", 6, None, None)]


def test_invalid_value_is_rejected_and_the_greatest_valid_value_counts() -> None:
    rows = [
        at(0, "create", "a", kind="A"),
        *(row for value in ("9", "many", "10") for row in set_attributes(0, "a", x=value)),
    ]
    model = ps.graph.model(rows, ps.graph.metamodel(TIED))
    with pytest.warns(ps.errors.PerseidWarning, match="1 change rejected by the model"):
        assert model.matches()[()]["q"] == [("a", 10, None, None)]
    assert [change.value for _, _, change, _ in model.rejected()] == ["many"]


def test_several_values_for_one_attribute_are_elementary_changes_in_order() -> None:
    site = ps.graph.metamodel(TIED + "pattern p match change set A.x c return c.old as old, c.new as new")
    rows = [
        at(0, "create", "a", kind="A"),
        *(row for value in (10, None, 9) for row in set_attributes(0, "a", x=value)),
    ]
    found = ps.patterns(site)["p"].match(ps.graph.model(rows, site)).to_dicts()
    assert sorted(((m["old"], m["new"]) for m in found), key=repr) == [(9, 10), (None, 9), (None, None)]


def test_first_target_and_first_type_in_order_count() -> None:
    """Of two edges where one is allowed, and of two creations, the second is rejected; 9 precedes 10."""
    text = "model m node A node B edge e A -> A one query q(a, b) find a -e-> b query b(a) find a: B"
    rows = [at(0, "create", name, kind="A") for name in (1, 9, 10)] + [at(0, "create", 1, kind="B")]  # type: ignore[arg-type]
    rows += [at(0, "link", 1, kind="e", target=name) for name in (10, 9)]  # type: ignore[arg-type]
    for ordered in (rows, rows[::-1]):
        model = ps.graph.model(ordered, ps.graph.metamodel(text))
        with pytest.warns(ps.errors.PerseidWarning, match="changes rejected by the model"):
            assert model.matches()[()] == {"q": [(1, 9)], "b": []}


def test_elementary_changes_are_events() -> None:
    text = (
        CPS
        + "pattern raised match change set Host.ram a -> change set Host.ram b where b.new > a.new within 1 hour return a.element, b.old, b.new"
    )
    cps = ps.graph.metamodel(text)
    rows = host(0, "h1", ram=4, total_cpu=1) + set_attributes(1, "h1", ram=3) + set_attributes(2, "h1", ram=5)
    found = ps.patterns(cps)["raised"].match(ps.graph.model(rows, cps)).to_dicts()
    assert [(m["element"], m["old"], m["new"]) for m in found] == [("h1", 3, 5), ("h1", 3, 5)]


def test_step_of_a_type_matches_its_subtypes() -> None:
    text = CPS + "pattern made match change create Host a return a.element, a.kind as made"
    cps = ps.graph.metamodel(text)
    rows = [at(0, "create", "s", kind="SmallHost"), at(1, "create", "a", kind="App")]
    found = ps.patterns(cps)["made"].match(ps.graph.model(rows, cps)).to_dicts()
    assert [(m["element"], m["made"]) for m in found] == [("s", "SmallHost")]


def test_rows_can_be_any_table_and_values_can_be_strings() -> None:
    rows = (
        host(0, "h1", available_cpu="10", total_cpu="8")
        + set_attributes(1, "h1", ram="1")
        + set_attributes(2, "h1", ram="2")
    )
    names = ("ts", "change", "element", "kind", "attribute", "value")
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    assert len(match_rows("toleration", table)) == 1


def test_invalid_changes_are_rejected_with_a_warning() -> None:
    rows = [*host(0, "h1"), at(1, "create", "h1", kind="Host"), at(1, "set", "h1", attribute="cpu", value=1)]
    rows.append(at(1, "set", "h1", attribute="ram", value="much"))
    with pytest.warns(ps.errors.PerseidWarning, match="3 changes rejected by the model"):
        assert match_rows("toleration", rows) == []
    reasons = [why for *_, why in ps.graph.model(rows, ps.graph.metamodel(CPS)).rejected()]
    assert reasons == [
        "Node 'h1' already exists, with type Host.",
        "Unknown attribute 'cpu' of Host.",
        "Host.ram: expected bigint, got 'much'.",
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            at(1, "add", "h2", kind="Host"),
            "Unknown change 'add'. Available: create, delete, set, link, unlink.",
        ),
        (at(1, "create", "h2", kind="Hst"), "Unknown node type 'Hst'."),
        (at(1, "link", "h1", kind="runs", target="h1"), "Unknown edge 'runs'."),
        (at(1, "set", "h1", attribute="cpu", value=1), "Unknown attribute 'cpu' of Host."),
    ],
)
def test_unknown_names_are_counted_and_noted_on_the_result(row: dict[str, Any], reason: str) -> None:
    cps = ps.graph.metamodel(CPS)
    model = ps.graph.model([*host(0, "h1"), row, row], cps)
    with pytest.warns(ps.errors.PerseidWarning, match="2 changes rejected by the model"):
        found = ps.patterns(cps)["toleration"].match(model)
    assert found.bad == 2
    assert found.notes[-1] == f"2 changes rejected by the model; the first: {reason}"
    assert f"note: {found.notes[-1]}" in repr(found)
    for read in (model.matches, model.live, model.events):
        with pytest.warns(ps.errors.PerseidWarning, match="2 changes rejected by the model"):
            read()


def test_rejected_changes_are_counted_once_for_several_patterns() -> None:
    cps = ps.graph.metamodel(CPS)
    with pytest.warns(ps.errors.PerseidWarning, match="1 change rejected by the model"):
        found = ps.patterns(cps).match(ps.graph.model([*host(0, "h1"), at(1, "add", "h2", kind="Host")], cps))
    assert found.bad == 1
    assert len([note for note in found.notes if "rejected by the model" in note]) == 1


def test_valid_changes_have_no_note() -> None:
    cps = ps.graph.metamodel(CPS)
    found = ps.patterns(cps)["toleration"].match(ps.graph.model(host(0, "h1", available_cpu=9, total_cpu=8), cps))
    assert found.bad == 0
    assert not [note for note in found.notes if "rejected by the model" in note]


class FakeSparkChanges:
    """Fake Spark DataFrame, which Perseid recognizes by this method."""

    def mapInArrow(self) -> None: ...


@pytest.mark.parametrize("method", ["events", "matches", "rejected", "live"])
def test_reading_a_spark_model_locally_is_a_typed_error(method: str) -> None:
    model = ps.graph.model(FakeSparkChanges(), ps.graph.metamodel(CPS))
    with pytest.raises(ps.errors.UnsupportedError, match=rf"model\.{method}\(\) needs local changes") as caught:
        getattr(model, method)()
    assert ".match(model)" in str(caught.value)


LOADS = """
model cps
node Host (load bigint)
edge near Host -> Host
query q(h) find h: Host
query known(h) find h: Host where h.load is not null
"""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], ["updated q a", "updated q b", "lost known a", "updated known b"]),
        (["set"], ["updated q a", "updated q b", "updated known a", "updated known b"]),
        (["set", "link"], ["updated q a", "updated known a"]),
    ],
)
def test_node_deleted_and_created_in_one_transaction_is_updated(changes: list[str], expected: list[str]) -> None:
    """The table in docs/semantics.md: a and b have the load 2, and a is linked to b."""
    link = {"kind": "near", "target": "b"}
    rows = [row for name in "ab" for row in (at(0, "create", name, kind="Host"), *set_attributes(0, name, load=2))]
    rows += [at(0, "link", "a", **link), at(1, "delete", "a"), at(1, "create", "a", kind="Host")]
    rows += set_attributes(1, "a", load=2) if "set" in changes else []
    rows += [at(1, "link", "a", **link)] if "link" in changes else []
    rows_found = ps.graph.model(rows, ps.graph.metamodel(LOADS)).events().to_pylist()
    assert [f"{row['_type']} {row['h']}" for row in rows_found if row["_time"] > START] == expected


def test_node_created_and_deleted_in_one_transaction_is_no_event() -> None:
    rows = [{**row, "n": n} for n, row in enumerate((at(1, "create", "c", kind="Host"), at(1, "delete", "c")))]
    assert ps.graph.model(rows, ps.graph.metamodel(LOADS), order_by="n").events().num_rows == 0


def test_node_created_again_has_an_empty_moving_window() -> None:
    text = "model m node Host (load bigint) query q(h, n) find h: Host let n = moving_count(h.load, 5)"
    rows = [at(0, "create", "a", kind="Host"), *set_attributes(0, "a", load=2), *set_attributes(1, "a", load=2)]
    rows += [at(2, "delete", "a"), at(2, "create", "a", kind="Host"), *set_attributes(2, "a", load=2)]
    rows_found = ps.graph.model(rows, ps.graph.metamodel(text)).events().to_pylist()
    assert [(row["_type"], row["n"]) for row in rows_found] == [
        ("found q", 1),
        ("lost q", 1),
        ("found q", 2),
        ("lost q", 2),
        ("found q", 1),
    ]


@pytest.mark.parametrize(
    ("top", "gone", "expected"),
    [
        ("top 1 by h.load", "", "a"),
        ("top 2 by h.load", "", "abc"),
        ("top 3 by h.load", "", "abc"),
        ("top 1 by h.load ascending", "", "e"),
        ("top 2 by h.load", "a", "bc"),
    ],
)
def test_top_includes_ties(top: str, gone: str, expected: str) -> None:
    """The table in docs/semantics.md: loads are 3, 2, 2, 1 and null."""
    text = f"model m node Host (load bigint) query q(h) find h: Host {top}"
    rows = [at(0, "create", name, kind="Host") for name in "abcde"]
    rows += [row for name, load in zip("abcd", (3, 2, 2, 1), strict=True) for row in set_attributes(0, name, load=load)]
    rows += [at(1, "delete", name) for name in gone]
    assert "".join(h for (h,) in ps.graph.model(rows, ps.graph.metamodel(text)).matches()[()]["q"]) == expected


def test_starved_host_of_the_tour_compares_the_old_and_the_new_value() -> None:
    tour = (Path(__file__).parent.parent / "examples/patterns/models.perseid").read_text("utf-8")
    pattern = tour[tour.index("pattern starved_host") :]
    text = """
    model m
    node Host (cpu bigint, load bigint)
    query Overloaded(host, load) find host: Host let load = host.load where load > 10
    """
    site = ps.graph.metamodel(text + pattern)
    rows = [
        at(0, "create", "h", kind="Host"),
        *set_attributes(0, "h", cpu=8),
        *set_attributes(1, "h", cpu=4),
        *set_attributes(2, "h", load=20),
    ]
    (found,) = ps.patterns(site)["starved_host"].match(ps.graph.model(rows, site)).to_dicts()
    assert (found["host"], found["before"], found["now"], found["load"]) == ("h", 8, 4, 20)


def test_current_matches_are_grouped_by_model_and_query() -> None:
    rows = host(0, "h1", available_cpu=10, total_cpu=8) + host(0, "h2")
    current = ps.graph.model(rows, ps.graph.metamodel(CPS)).matches()
    assert current == {(): {"overcommitted": [("h1",)], "idle": [("h1",), ("h2",)]}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pattern p match found overcomitted a", "Did you mean 'overcommitted'"),
        ("pattern p match change set Host.rum a", "Did you mean 'ram'"),
        ("pattern p match change create Hots a", "Did you mean 'Host'"),
        ("pattern p match change link runs a", "Unknown edge 'runs'"),
        ("pattern p match change delete Host.ram a", "applies to a whole node"),
    ],
)
def test_unknown_name_is_an_error_with_a_suggestion(text: str, message: str) -> None:
    cps = ps.graph.metamodel(CPS)
    with pytest.raises(ps.errors.PatternError, match=message):
        ps.pattern(text).match(ps.graph.model(host(0, "h1"), cps))


def test_explain_lists_the_query_events() -> None:
    cps = ps.graph.metamodel(CPS)
    message = ps.patterns(cps).explain(ps.graph.model(host(0, "h1"), cps))
    assert "overcommitted found, updated and lost" in message
    assert "shared operators" in message


def test_text_without_a_metamodel_is_an_error() -> None:
    with pytest.raises(ps.errors.PatternSyntaxError, match="The text has no declaration of a model"):
        ps.graph.metamodel("query q(a) find a: Host")
    with pytest.raises(ps.errors.EventDataError, match="Expected a metamodel, got str"):
        ps.graph.model([], "model cps node Host")  # type: ignore[arg-type]


def test_list_attribute_can_be_stored_but_not_queried() -> None:
    text = "model x node A (tags array<string>, n bigint) query q(a) find a: A where {} pattern p match found q a"
    with pytest.raises(ps.errors.TypeMismatchError, match="expected a single value, got array<string>"):
        ps.graph.metamodel(text.format("size(a.tags) > 1"))
    valid = ps.graph.metamodel(text.format("a.n > 1"))
    rows = [at(0, "create", "a", kind="A"), *set_attributes(0, "a", tags=["x", "y"], n=2)]
    assert len(ps.patterns(valid).match(ps.graph.model(rows, valid))) == 1
