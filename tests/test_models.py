"""Patterns over live models, as users declare them: changes in, matches out."""

from __future__ import annotations

import datetime as dt
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


def given(second: int, element: str, **values: Any) -> list[dict[str, Any]]:
    return [at(second, "set", element, attribute=name, value=value) for name, value in values.items()]


def host(second: int, element: str, **values: Any) -> list[dict[str, Any]]:
    return [at(second, "create", element, kind="Host"), *given(second, element, **values)]


def matched(name: str, rows: Any, **words: Any) -> list[dict[str, Any]]:
    cps = ps.metamodel(CPS)
    found: list[dict[str, Any]] = ps.patterns(cps)[name].match(ps.model(rows, cps, **words)).to_dicts()
    return found


def test_three_errors_of_one_host_in_a_row() -> None:
    """The paper's Figure 13: available 10, total 8; further changes while the error stands are updates of it."""
    rows = host(0, "h1", available_cpu=8, total_cpu=8) + host(0, "h2", available_cpu=1, total_cpu=8)
    rows += given(1, "h1", available_cpu=10) + given(2, "h1", ram=4) + given(3, "h2", ram=4) + given(4, "h1", ram=5)
    (found,) = matched("toleration", rows)
    assert found["host"] == "h1"
    assert (found["start"], found["end"]) == (START + dt.timedelta(seconds=1), START + dt.timedelta(seconds=4))


def test_a_return_to_validity_starts_the_count_again() -> None:
    rows = host(0, "h1", available_cpu=10, total_cpu=8) + given(1, "h1", ram=4) + given(2, "h1", available_cpu=8)
    rows += given(3, "h1", available_cpu=9)
    assert matched("toleration", rows) == []
    rows += given(4, "h1", ram=5) + given(5, "h1", ram=6)
    assert len(matched("toleration", rows)) == 1


def test_the_same_value_again_is_no_change() -> None:
    rows = host(0, "h1", available_cpu=10, total_cpu=8, ram=4) + given(1, "h1", ram=4) + given(2, "h1", ram=4)
    assert matched("toleration", rows) == []


def test_parameters_unify_with_elements() -> None:
    rows = host(0, "h1") + host(0, "h2") + [at(0, "create", "a", kind="App"), at(0, "create", "b", kind="App")]
    rows += [at(1, "link", "a", kind="runs_on", target="h1"), at(2, "link", "b", kind="runs_on", target="h2")]
    rows += [at(5, "unlink", "b", kind="runs_on", target="h2"), at(30, "delete", "a")]
    (found,) = matched("emptied", rows)
    assert found["host"] == "h2"


def test_a_deletion_takes_its_edges_along() -> None:
    rows = [*host(0, "h1"), at(0, "create", "a", kind="App"), at(1, "link", "a", kind="runs_on", target="h1")]
    (found,) = matched("emptied", [*rows, at(5, "delete", "a")])
    assert found["at"] == START + dt.timedelta(seconds=5)


def test_models_are_told_apart_by_their_key() -> None:
    rows = [
        {**row, "site": site} for site in ("north", "south") for row in host(0, "h1", available_cpu=10, total_cpu=8)
    ]
    rows += [{**row, "site": "north"} for row in given(1, "h1", ram=1)]
    rows += [{**row, "site": "south"} for second in (1, 2) for row in given(second, "h1", ram=second)]
    (found,) = matched("toleration", rows, key="site")
    assert (found["site"], found["host"]) == ("south", "h1")


def test_one_moment_is_one_transaction_in_any_order_of_rows() -> None:
    """Nodes before attributes before edges, whatever the order of the rows; only the end of it is seen."""
    rows = host(0, "h1", available_cpu=10, total_cpu=8)
    backwards = list(reversed(rows)) + given(1, "h1", ram=1) + given(2, "h1", ram=2)
    assert len(matched("toleration", backwards)) == 1
    settled = host(0, "h1", available_cpu=10) + given(0, "h1", total_cpu=12)
    cps = ps.metamodel(CPS)
    assert ps.model(settled, cps).events("overcommitted").num_rows == 0


def test_elementary_changes_are_events() -> None:
    text = (
        CPS
        + "pattern raised match change set Host.ram a -> change set Host.ram b where b.new > a.new within 1 hour return a.element, b.old, b.new"
    )
    cps = ps.metamodel(text)
    rows = host(0, "h1", ram=4, total_cpu=1) + given(1, "h1", ram=3) + given(2, "h1", ram=5)
    found = ps.patterns(cps)["raised"].match(ps.model(rows, cps)).to_dicts()
    assert [(m["element"], m["old"], m["new"]) for m in found] == [("h1", 3, 5), ("h1", 3, 5)]


def test_a_type_below_is_asked_for_by_the_one_above() -> None:
    text = CPS + "pattern made match change create Host a return a.element, a.kind as made"
    cps = ps.metamodel(text)
    rows = [at(0, "create", "s", kind="SmallHost"), at(1, "create", "a", kind="App")]
    found = ps.patterns(cps)["made"].match(ps.model(rows, cps)).to_dicts()
    assert [(m["element"], m["made"]) for m in found] == [("s", "SmallHost")]


def test_rows_may_be_any_table_and_values_texts() -> None:
    rows = host(0, "h1", available_cpu="10", total_cpu="8") + given(1, "h1", ram="1") + given(2, "h1", ram="2")
    names = ("ts", "change", "element", "kind", "attribute", "value")
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    assert len(matched("toleration", table)) == 1


def test_what_does_not_fit_is_told() -> None:
    rows = [*host(0, "h1"), at(1, "create", "h1", kind="Host"), at(1, "set", "h1", attribute="cpu", value=1)]
    rows.append(at(1, "set", "h1", attribute="ram", value="much"))
    with pytest.warns(ps.PerseidWarning, match="3 changes do not fit the model"):
        assert matched("toleration", rows) == []
    reasons = [why for *_, why in ps.model(rows, ps.metamodel(CPS)).refused()]
    assert [why.split()[0] for why in reasons] == ["'h1'", "There", "'much'"]


def test_matches_stand_by_model_and_query() -> None:
    rows = host(0, "h1", available_cpu=10, total_cpu=8) + host(0, "h2")
    standing = ps.model(rows, ps.metamodel(CPS)).matches()
    assert standing == {(): {"overcommitted": [("h1",)], "idle": [("h1",), ("h2",)]}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pattern p match found overcomitted a", "did you mean 'overcommitted'"),
        ("pattern p match change set Host.rum a", "did you mean 'ram'"),
        ("pattern p match change create Hots a", "did you mean 'Host'"),
        ("pattern p match change link runs a", "no edge called 'runs'"),
        ("pattern p match change delete Host.ram a", "come and go whole"),
    ],
)
def test_names_that_no_model_has(text: str, said: str) -> None:
    cps = ps.metamodel(CPS)
    with pytest.raises(ps.PatternError, match=said):
        ps.pattern(text).match(ps.model(host(0, "h1"), cps))


def test_explain_says_what_the_events_are() -> None:
    cps = ps.metamodel(CPS)
    said = ps.patterns(cps).explain(ps.model(host(0, "h1"), cps))
    assert "overcommitted found, updated and lost" in said
    assert "operators that they share" in said


def test_a_text_that_is_no_metamodel() -> None:
    with pytest.raises(ps.PatternSyntaxError, match="does not say what a model may contain"):
        ps.metamodel("query q(a) find a: Host")
    with pytest.raises(ps.EventDataError, match="A model is one of a metamodel"):
        ps.model([], "model cps node Host")  # type: ignore[arg-type]


def test_an_attribute_of_several_values_is_carried_and_not_asked_about() -> None:
    text = "model x node A (tags array<string>, n bigint) query q(a) find a: A where {} pattern p match found q a"
    with pytest.raises(ps.TypeMismatchError, match="ask about single values"):
        ps.metamodel(text.format("size(a.tags) > 1"))
    carried = ps.metamodel(text.format("a.n > 1"))
    rows = [at(0, "create", "a", kind="A"), *given(0, "a", tags=["x", "y"], n=2)]
    assert len(ps.patterns(carried).match(ps.model(rows, carried))) == 1
