"""Repairs of a live model: the paper's case, and what is asked for, told and refused."""

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


def asked(rows: list[dict[str, Any]], objectives: Any = "overcommitted", **words: Any) -> ps.graph.QuickFixes:
    return ps.graph.find_repairs(ps.graph.model(rows, ps.graph.metamodel(CPS)), objectives=objectives, **words)


@pytest.mark.parametrize("strategy", ["best first", "breadth first", "depth first"])
def test_the_two_fixes_of_the_paper(strategy: str) -> None:
    """Figure 13: available 10, total 8."""
    fixes = asked(host("h1", 10, 8) + host("h2", 3, 8), strategy=strategy)
    assert [fix.steps for fix in fixes] == [
        ("lower(h1): set available_cpu of h1 from 10 to 8",),
        ("raise(h1): set total_cpu of h1 from 8 to 10",),
    ]
    assert (fixes.complete, fixes.states, fixes.valid) == (True, 3, False)


def test_a_chosen_fix_is_rows_that_make_the_model_valid() -> None:
    rows = host("h1", 10, 8)
    fixed = [*rows, *asked(rows)[0].rows(START + dt.timedelta(seconds=1))]
    model = ps.graph.model(fixed, ps.graph.metamodel(CPS))
    assert model.matches()[()]["overcommitted"] == []
    assert ps.graph.find_repairs(model, objectives="overcommitted").valid
    assert (
        repr(ps.graph.find_repairs(model, objectives="overcommitted")) == "nothing to repair: no objective has a match"
    )
    assert len(ps.graph.find_repairs(model, objectives="overcommitted", at=START)) == 2


def test_soft_objectives_rank_what_costs_the_same() -> None:
    assert [fix.steps[0][:5] for fix in asked(host("h1", 10, 8), soft="small")] == ["raise", "lower"]


def test_cost_comes_before_steps() -> None:
    """Two apps on two hosts: putting both costs 4, dropping one and putting the other 7."""
    rows = [*host("h1", 1, 8), at("create", "a", kind="App"), at("create", "b", kind="App")]
    fixes = asked(rows, "homeless")
    assert [(fix.cost, len(fix.steps)) for fix in fixes] == [(4, 2), (7, 2), (7, 2), (10, 2)]
    assert fixes.states == 9
    crowded = asked(rows, "homeless", constraints="crowded")
    assert [fix.cost for fix in crowded] == [7, 7, 10]
    assert [fix.cost for fix in asked(rows, "homeless", max_cost=7)] == [4, 7, 7]
    assert list(asked(rows, "homeless", max_depth=1)) == []
    assert "and 2 more" in repr(asked(rows, "homeless", max_fixes=2))


def test_hill_climbing_takes_the_best_step_each_time() -> None:
    rows = [*host("h1", 10, 8), *host("h2", 9, 8)]
    fixes = asked(rows, strategy="hill climbing")
    assert [fix.steps for fix in fixes] == [
        ("lower(h1): set available_cpu of h1 from 10 to 8", "lower(h2): set available_cpu of h2 from 9 to 8")
    ]
    assert not fixes.complete


def test_a_search_that_looks_at_too_few_models_says_so() -> None:
    rows = [row for number in range(6) for row in host(f"h{number}", 10, 8)]
    fixes = asked(rows, max_depth=6, max_states=20)
    assert (fixes.complete, fixes.states) == (False, 20)
    assert "other fixes may exist" in repr(fixes)


def test_one_of_many_models_and_what_rules_made_of_it() -> None:
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


def test_what_is_refused() -> None:
    rows = host("h1", 10, 8)
    with pytest.raises(ps.errors.PatternError, match="Did you mean 'overcommitted'"):
        asked(rows, "overcomitted")
    with pytest.raises(ps.errors.EventDataError, match="Unknown strategy 'luck'"):
        asked(rows, strategy="luck")
    with pytest.raises(ps.errors.EventDataError, match="needs an objective"):
        asked(rows, ())
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
