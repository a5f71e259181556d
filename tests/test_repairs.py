"""Repairs of a live model: the case of the paper, search options, results and errors."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import perseid as ps

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CPS = """
model cps
node Host (available_cpu bigint, total_cpu bigint)
node App
edge runs_on App -> Host one

query overcommitted(host) find host: Host where host.available_cpu > host.total_cpu
query small(host) find host: Host where host.total_cpu < 9
query homeless(app) find app: App, not app -runs_on-> _
query crowded(host, n) find host: Host let n = count of on(_, host) where n > 1
query on(app, host) find app -runs_on-> host
query place(app, host) find homeless(app), host: Host

repair lower on overcommitted(host) cost 1 do set host.available_cpu = host.total_cpu
repair raise on overcommitted(host) cost 1 do set host.total_cpu = host.available_cpu
repair put on place(app, host) cost 2 do link app -runs_on-> host
repair drop on homeless(app) cost 5 do delete app
"""


def at(change: str, element: str, **rest: Any) -> dict[str, Any]:
    return {"ts": START, "change": change, "element": element, **rest}


def host(element: str, available: int, total: int) -> list[dict[str, Any]]:
    values = {"available_cpu": available, "total_cpu": total}
    return [
        at("create", element, kind="Host"),
        *(at("set", element, attribute=name, value=value) for name, value in values.items()),
    ]


def find_repairs_of(
    rows: list[dict[str, Any]], objectives: Any = "overcommitted", **options: Any
) -> ps.graph.QuickFixes:
    return ps.graph.find_repairs(ps.graph.model(rows, ps.graph.metamodel(CPS)), objectives=objectives, **options)


@pytest.mark.parametrize("strategy", ["best first", "breadth first", "depth first"])
def test_two_fixes_of_the_paper_are_found(strategy: str) -> None:
    """The case is Figure 13: available 10, total 8."""
    fixes = find_repairs_of(host("h1", 10, 8) + host("h2", 3, 8), strategy=strategy)
    assert [fix.steps for fix in fixes] == [
        ("lower(h1): set available_cpu of h1 from 10 to 8",),
        ("raise(h1): set total_cpu of h1 from 8 to 10",),
    ]
    assert (fixes.complete, fixes.states, fixes.valid) == (True, 3, False)


def test_rows_of_a_fix_make_the_model_valid() -> None:
    rows = host("h1", 10, 8)
    fixed = [*rows, *find_repairs_of(rows)[0].rows(START + dt.timedelta(seconds=1))]
    model = ps.graph.model(fixed, ps.graph.metamodel(CPS))
    assert model.matches()[()]["overcommitted"] == []
    assert ps.graph.find_repairs(model, objectives="overcommitted").valid
    assert (
        repr(ps.graph.find_repairs(model, objectives="overcommitted")) == "nothing to repair: no objective has a match"
    )
    assert len(ps.graph.find_repairs(model, objectives="overcommitted", at=START)) == 2


def test_soft_objectives_rank_fixes_of_equal_cost() -> None:
    assert [fix.steps[0][:5] for fix in find_repairs_of(host("h1", 10, 8), soft="small")] == ["raise", "lower"]


def test_fixes_are_ordered_by_cost() -> None:
    """Two apps and two hosts: placing both costs 4; dropping one and placing the other costs 7."""
    rows = [*host("h1", 1, 8), at("create", "a", kind="App"), at("create", "b", kind="App")]
    fixes = find_repairs_of(rows, "homeless")
    assert [(fix.cost, len(fix.steps)) for fix in fixes] == [(4, 2), (7, 2), (7, 2), (10, 2)]
    assert fixes.states == 9
    crowded = find_repairs_of(rows, "homeless", constraints="crowded")
    assert [fix.cost for fix in crowded] == [7, 7, 10]
    assert [fix.cost for fix in find_repairs_of(rows, "homeless", max_cost=7)] == [4, 7, 7]
    assert list(find_repairs_of(rows, "homeless", max_depth=1)) == []
    assert "and 2 more" in repr(find_repairs_of(rows, "homeless", max_fixes=2))


def test_hill_climbing_takes_the_best_step() -> None:
    rows = [*host("h1", 10, 8), *host("h2", 9, 8)]
    fixes = find_repairs_of(rows, strategy="hill climbing")
    assert [fix.steps for fix in fixes] == [
        ("lower(h1): set available_cpu of h1 from 10 to 8", "lower(h2): set available_cpu of h2 from 9 to 8")
    ]
    assert not fixes.complete


def test_search_beyond_the_state_limit_is_incomplete() -> None:
    rows = [row for number in range(6) for row in host(f"h{number}", 10, 8)]
    fixes = find_repairs_of(rows, max_depth=6, max_states=20)
    assert (fixes.complete, fixes.states) == (False, 20)
    assert "other fixes may exist" in repr(fixes)


def test_repairs_of_one_model_after_rules() -> None:
    rows = [{**row, "site": site} for site in ("north", "south") for row in host("h1", 10, 8)]
    cps = ps.graph.metamodel(CPS + "rule tidy on found small(host) do set host.total_cpu = 9")
    model = ps.graph.model(rows, cps, key="site")
    (first, _) = ps.graph.find_repairs(ps.graph.react(model), objectives="overcommitted", key="south")
    assert first.steps == ("lower(h1): set available_cpu of h1 from 10 to 9",)
    assert first.rows(START)[0] == {
        **at("set", "h1", kind=None, attribute="available_cpu", value=9, target=None),
        "site": "south",
    }
    with pytest.raises(ps.errors.EventDataError, match="Unknown model 'west'"):
        ps.graph.find_repairs(model, objectives="overcommitted", key="west")
    with pytest.raises(ps.errors.EventDataError, match="only the final models"):
        ps.graph.find_repairs(ps.graph.react(model), objectives="overcommitted", key="south", at=START)


def test_invalid_arguments_are_errors() -> None:
    rows = host("h1", 10, 8)
    with pytest.raises(ps.errors.PatternError, match="Did you mean 'overcommitted'"):
        find_repairs_of(rows, "overcomitted")
    with pytest.raises(ps.errors.EventDataError, match="Unknown strategy 'luck'"):
        find_repairs_of(rows, strategy="luck")
    with pytest.raises(ps.errors.EventDataError, match="needs an objective"):
        find_repairs_of(rows, ())
    with pytest.raises(ps.errors.EventDataError, match="needs a repair"):
        ps.graph.find_repairs(
            ps.graph.model(rows, ps.graph.metamodel(CPS.split("repair", maxsplit=1)[0])), objectives="overcommitted"
        )
    with pytest.raises(ps.errors.EventDataError, match="find_repairs requires changes of a model"):
        ps.graph.find_repairs(rows, objectives="overcommitted")  # type: ignore[arg-type]
    moving = "query warm(host) find host: Host where moving_avg(host.total_cpu, 2) > 1"
    with pytest.raises(ps.errors.UnsupportedError, match="query warm has a moving window"):
        ps.graph.find_repairs(ps.graph.model(rows, ps.graph.metamodel(CPS + moving)), objectives="warm")
    assert (
        len(ps.graph.find_repairs(ps.graph.model(rows, ps.graph.metamodel(CPS + moving)), objectives="overcommitted"))
        == 2
    )
    lists = ps.graph.metamodel(CPS.replace("node App", "node App (tags array<string>)"))
    with pytest.raises(ps.errors.UnsupportedError, match=r"App\.tags is array"):
        ps.graph.find_repairs(ps.graph.model(rows, lists), objectives="overcommitted")
