"""Rules over live models: hand-worked cases of transactions and their iterations."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import perseid as ps

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CPS = """
model cps
node Host (available_cpu bigint, total_cpu bigint, ram bigint, label string)
node Copy (cpu bigint)
node App
edge runs_on App -> Host one
edge copy_of Copy -> Host one

query overcommitted(host)
find  host: Host
where host.available_cpu > host.total_cpu

query idle(host)
find  host: Host, not app -runs_on-> host

query copied(host, copy)
find copy -copy_of-> host

pattern toleration
match (found overcommitted | updated overcommitted){3}
selection immediate
within forever
partition by host

"""


def at(second: float, change: str, element: str, **rest: Any) -> dict[str, Any]:
    return {"ts": START + dt.timedelta(seconds=second), "change": change, "element": element, **rest}


def set_attributes(second: float, element: str, **values: Any) -> list[dict[str, Any]]:
    return [at(second, "set", element, attribute=name, value=value) for name, value in values.items()]


def host(second: float, element: str, **values: Any) -> list[dict[str, Any]]:
    return [at(second, "create", element, kind="Host"), *set_attributes(second, element, **values)]


def second(row: dict[str, Any]) -> float:
    return float((row["ts"] - START).total_seconds())


def react_to(
    rules: str, rows: list[dict[str, Any]], options: dict[str, Any] | None = None, **more: Any
) -> ps.graph.Reaction:
    return ps.graph.react(ps.graph.model(rows, ps.graph.metamodel(CPS + rules), **(options or {})), **more)


# actions


def test_rule_changes_a_found_node_in_the_same_transaction() -> None:
    done = react_to(
        "rule tidy on found overcommitted(host) priority 5 do set host.available_cpu = host.total_cpu",
        host(3, "h1", available_cpu=10, total_cpu=8),
    )
    (change,) = done.changes
    assert (second(change), change["rule"], change["round"]) == (3, "tidy", 1)
    assert (change["change"], change["element"], change["attribute"], change["value"]) == (
        "set",
        "h1",
        "available_cpu",
        8,
    )
    assert done.current[()]["overcommitted"] == []
    assert [(e["_type"], e["_place"]) for e in done.events("overcommitted").to_pylist()] == [
        ("found overcommitted", 0),
        ("lost overcommitted", 1),
    ]


def test_rule_on_a_pattern_emits_rows() -> None:
    rows = (
        host(0, "h1", available_cpu=10, total_cpu=8) + set_attributes(1, "h1", ram=1) + set_attributes(2, "h1", ram=2)
    )
    done = react_to("rule alarm on toleration do emit alarm(host, 'three errors' as why)", rows)
    assert done.emitted == {"alarm": [{"ts": START + dt.timedelta(seconds=2), "host": "h1", "why": "three errors"}]}
    assert [m.pattern for m in done.matches] == ["toleration"]


def test_rule_on_a_lost_match_deletes_the_copy() -> None:
    """Rules create, link, read and delete nodes; a lost match still has its values."""
    rules = """
    query ready(host) find host: Host, not copied(host, _)
    rule make on found ready(host)
    do create c: Copy named 'copy of ' || host, set c.cpu = host.total_cpu, link c -copy_of-> host
    rule drop on lost copied(host, copy) do delete copy
    """
    rows = [*host(0, "h1", total_cpu=8), at(5, "delete", "h1")]
    done = react_to(rules, rows)
    assert [(second(c), c["round"], c["change"], c["element"]) for c in done.changes] == [
        (0, 1, "create", "copy of h1"),
        (0, 1, "set", "copy of h1"),
        (0, 1, "link", "copy of h1"),
        (5, 1, "delete", "copy of h1"),
    ]
    assert done.live[()].graph.nodes == {}


def test_existing_node_is_bound_by_its_name() -> None:
    rules = "rule add on found idle(host) do let sum: Host named 'all', set sum.ram = sum.ram + host.ram"
    rows = [*host(0, "all", ram=0), at(0, "create", "app", kind="App")]
    rows += [at(0, "link", "app", kind="runs_on", target="all"), *host(1, "h1", ram=3), *host(2, "h2", ram=4)]
    done = react_to(rules, rows)
    assert done.live[()].graph.value("all", "ram") == 7


def test_changes_of_another_model_are_returned_as_rows() -> None:
    rules = """
    rule forward on found overcommitted(host)
    do emit told(host)
    for model 'copies' do create c: Copy named host, set c.cpu = host.total_cpu
    """
    rows = [{**row, "site": "north"} for row in host(0, "h1", available_cpu=10, total_cpu=8)]
    done = react_to(rules, rows, {"key": "site"})
    assert [(r["site"], r["change"], r["element"], r["value"]) for r in done.elsewhere] == [
        ("copies", "create", "h1", None),
        ("copies", "set", "h1", 8),
    ]
    assert done.changes == []
    again = react_to(rules, [*rows, *done.elsewhere], {"key": "site"})
    assert again.live["copies",].graph.value("h1", "cpu") == 8


# order


def test_all_rules_of_a_round_read_the_same_model() -> None:
    """All rules read the value before the round; the last write wins, in the order of priority, text and matches."""
    rules = """
    rule late on found idle(host) do set host.ram = host.total_cpu + 1, set host.label = host.label || ' late'
    rule first on found idle(host) priority 1 do set host.ram = 100, set host.label = 'first'
    rule second on found idle(host) priority 2 do set host.ram = 200
    """
    done = react_to(rules, host(0, "h1", total_cpu=8, label="old") + host(0, "h2", total_cpu=9, label="old"))
    graph = done.live[()].graph
    assert [(c["rule"], c["element"]) for c in done.changes if c["attribute"] == "ram"] == [
        ("first", "h1"),
        ("first", "h2"),
        ("second", "h1"),
        ("second", "h2"),
        ("late", "h1"),
        ("late", "h2"),
    ]
    assert [(graph.value(h, "ram"), graph.value(h, "label")) for h in ("h1", "h2")] == [
        (9, "old late"),
        (10, "old late"),
    ]


def test_rounds_are_part_of_one_transaction() -> None:
    rules = """
    query low(host) find host: Host where host.ram < 3
    rule up on found low(host) do set host.ram = host.ram + 1
    rule again on updated low(host) do set host.ram = host.ram + 1
    """
    done = react_to(rules, host(7, "h1", ram=0))
    assert [(second(c), c["round"], c["rule"], c["value"]) for c in done.changes] == [
        (7, 1, "up", 1),
        (7, 2, "again", 2),
        (7, 3, "again", 3),
    ]


def test_patterns_receive_the_events_of_all_rounds_in_order() -> None:
    rules = """
    pattern mended match found overcommitted(host as h) -> lost overcommitted(host as h) within 1 second return h
    rule tidy on found overcommitted(host) do set host.available_cpu = host.total_cpu
    rule praise on mended do emit praise(h as host)
    """
    done = react_to(rules, host(0, "h1", available_cpu=10, total_cpu=8))
    assert [(row["rule"], row["round"]) for row in done.lives if row["state"] == "fired"] == [
        ("tidy", 0),
        ("praise", 1),
    ]
    assert done.emitted["praise"] == [{"ts": START, "host": "h1"}]


# life cycle


def test_life_cycle_of_a_match_is_reported() -> None:
    rules = "rule watch on updated overcommitted(host) do emit seen(host)"
    rows = (
        host(0, "h1", available_cpu=10, total_cpu=8) + set_attributes(1, "h1", ram=1) + set_attributes(2, "h1", ram=2)
    )
    rows += set_attributes(3, "h1", available_cpu=8)
    done = react_to(rules, rows)
    assert [(second(r), r["round"], r["state"]) for r in done.lives] == [
        (0, 0, "appeared"),
        (1, 0, "updated"),
        (1, 0, "fired"),
        (2, 0, "updated"),
        (2, 0, "fired"),
        (3, 0, "disappeared"),
    ]
    assert all((r["rule"], r["match"]) == ("watch", {"host": "h1"}) for r in done.lives)


def test_rule_fires_once_for_each_appearance() -> None:
    rows = (
        host(0, "h1", available_cpu=10, total_cpu=8)
        + set_attributes(1, "h1", ram=1)
        + set_attributes(2, "h1", available_cpu=8)
    )
    rows += set_attributes(3, "h1", available_cpu=9)
    done = react_to("rule seen on found overcommitted(host) do emit seen(host)", rows)
    assert [second(row) for row in done.emitted["seen"]] == [0, 3]


# time


def test_rule_on_a_negation_fires_when_its_time_has_passed() -> None:
    """The rule fires at the earliest time at which the negation can no longer be violated."""
    rules = """
    pattern stuck match found overcommitted a -> not lost overcommitted for 5 seconds partition by host return a.host
    rule help on stuck do set host.available_cpu = 0
    """
    rows = host(0, "h1", available_cpu=10, total_cpu=8) + host(9, "h2") + host(10, "h3", available_cpu=1, total_cpu=0)
    done = react_to(rules, rows)
    assert [(second(c), c["element"]) for c in done.changes] == [(5.000001, "h1"), (15.000001, "h3")]
    assert [second(c) for c in react_to(rules, rows, until=START + dt.timedelta(seconds=12)).changes] == [5.000001]


def test_event_at_the_end_of_a_negation_violates_it() -> None:
    rules = """
    pattern stuck match found overcommitted a -> not lost overcommitted for 5 seconds partition by host return a.host
    rule help on stuck do emit help(host)
    """
    rows = host(0, "h1", available_cpu=10, total_cpu=8) + set_attributes(5, "h1", available_cpu=1)
    assert react_to(rules, rows).emitted["help"] == []


def test_match_decided_by_the_end_of_input_does_not_fire_a_rule() -> None:
    rules = """
    pattern run match found overcommitted, updated overcommitted+ within 10 events after match skip past last partition by host
    rule told on run do emit told(host)
    """
    rows = (
        host(0, "h1", available_cpu=10, total_cpu=8) + set_attributes(1, "h1", ram=1) + set_attributes(2, "h1", ram=2)
    )
    done = react_to(rules, rows)
    assert (len(done.matches), done.emitted["told"]) == (1, [])


# limits


def test_rules_without_a_fixpoint_are_an_error_with_the_rule_name() -> None:
    rules = """
    rule up on found overcommitted(host) do set host.available_cpu = 0
    rule down on lost overcommitted(host) do set host.available_cpu = 99
    """
    with pytest.raises(
        ps.errors.LimitError, match=r"Rule '(up|down)' still requests changes after 7 iterations"
    ) as caught:
        react_to(rules, host(0, "h1", available_cpu=10, total_cpu=8), max_iterations=7)
    assert "rule " in str(caught.value)
    rules = "rule more on found idle(host) do create h: Host named host || 'x'"
    with pytest.raises(ps.errors.LimitError, match="Rule 'more' still requests changes after 20 changes at one time"):
        react_to(rules, host(0, "h1"), max_changes=20)


def test_rule_that_triggers_itself_forever_is_an_error() -> None:
    rules = """
    pattern quiet match change set Host.ram a -> not change set Host.ram for 1 second return a.element as host, a.new as was
    rule tick on quiet do set host.ram = was + 1
    """
    rows = host(0, "h1", ram=0)
    with pytest.raises(ps.errors.LimitError, match="Rule 'tick' still fires"):
        react_to(rules, rows, max_changes=10)
    done = react_to(rules, rows, until=START + dt.timedelta(seconds=3.5))
    assert [c["value"] for c in done.changes] == [1, 2, 3]


def test_rejected_change_of_a_rule_is_reported() -> None:
    done = react_to("rule gone on lost idle(host) do delete host", [*host(0, "h1"), at(1, "delete", "h1")])
    (rejected,) = done.rejected
    assert (rejected["rule"], rejected["element"], rejected["why"]) == (
        "gone",
        "h1",
        "Node 'h1' not found in the model.",
    )
    assert "1 changes rejected" in repr(done)


# errors have positions


@pytest.mark.parametrize(
    ("rule", "message", "marked"),
    [
        ("on found overcomitted(host) do delete host", "Did you mean 'overcommitted'", "found overcomitted(host)"),
        ("on tolerance do delete host", "Unknown pattern 'tolerance'", "tolerance"),
        ("on found idle(a, b) do delete a", "expects 1 argument, got 2", "found idle(a, b)"),
        ("on found copied(a, a) do delete a", "Duplicate name 'a'", "found copied(a, a)"),
        ("on found idle(h) do set h.rum = 1", "Did you mean 'ram'", "set h.rum = 1"),
        ("on found idle(h) do set h.ram = 'much'", "h.ram: expected bigint, got string: 'much'", "set h.ram = 'much'"),
        ("on found idle(h) do set h.ram = 1.5", "h.ram: expected bigint", "set h.ram = 1.5"),
        ("on found idle(h) do set g.ram = 1", "Unknown variable 'g'", "set g.ram = 1"),
        ("on found idle(h) do set h.ram = g.ram", "Unknown variable 'g'", "g.ram"),
        ("on found idle(h) do link h -runs_on-> h", "expected a App, got 'h', a Host", "link h -runs_on-> h"),
        ("on found idle(h) do link h -runs-> h", "Unknown edge 'runs'", "link h -runs-> h"),
        ("on found idle(h) do create c: Cpy named 'x'", "Did you mean 'Copy'", "create c: Cpy named 'x'"),
        ("on found idle(h) do create h: Copy named 'x'", "Duplicate name 'h'", "create h: Copy named 'x'"),
        ("on found idle(h) do create c: Copy named 1.5", "expected a string or an integer", "1.5"),
        (
            "on found idle(h) do create c: Copy named 'x', set c.cpu = c.cpu + 1",
            "attributes of 'c' cannot be read",
            "c.cpu",
        ),
        ("on found idle(h) do emit x(h.ram + 1)", "needs a name", "h.ram + 1"),
        ("on found idle(h) do emit x(h, h)", "Duplicate column 'h'", "emit x(h, h)"),
        ("on toleration do delete hots", "Unknown variable 'hots'", "delete hots"),
        ("on found idle(h) do emit x(h) for model 'a' do delete h", "of the rule's own model", "delete h"),
    ],
)
def test_error_marks_its_position(rule: str, message: str, marked: str) -> None:
    text = CPS + f"rule wrong {rule}"
    with pytest.raises(ps.errors.PatternError, match=message) as caught:
        ps.graph.metamodel(text)
    assert caught.value.span is not None
    assert text[caught.value.span.start : caught.value.span.end] == marked
    assert "^" in str(caught.value)


def test_pattern_with_suppress_cannot_trigger_a_rule() -> None:
    rules = """
    pattern calm match found overcommitted a within 1 minute partition by host suppress 1 minute by host
    rule told on calm do emit told(host)
    """
    with pytest.raises(ps.errors.UnsupportedError, match="has a suppress clause"):
        react_to(rules, host(0, "h1"))


def test_duplicate_rule_name_is_an_error() -> None:
    rule = "rule a on found idle(host) do delete host\n"
    with pytest.raises(ps.errors.ScopeError, match="Duplicate rule 'a'"):
        ps.graph.metamodel(CPS + rule + rule)


def test_emitted_rows_of_one_name_must_have_the_same_columns() -> None:
    rules = "rule a on found idle(h) do emit x(h) rule b on found idle(h) do emit x(h, 1 as n)"
    with pytest.raises(ps.errors.PatternError, match="the same columns"):
        ps.graph.metamodel(CPS + rules)


def test_invalid_emitted_columns_and_model_keys_are_errors() -> None:
    with pytest.raises(ps.errors.EventDataError, match="emits a column 'ts'"):
        react_to("rule a on found idle(h) do emit x(h as ts)", host(0, "h1"))
    with pytest.raises(ps.errors.EventDataError, match="identifies a model by 1 values"):
        react_to("rule a on found idle(h) do emit x(h) for model 'b' do create c: Copy named 'x'", host(0, "h1"))


def test_partial_matches_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perseid.compile.compiler.OPEN_CAP", 10)
    rules = """
    pattern slow match found idle a -> lost overcommitted b within forever return a.host as host
    rule told on slow do emit told(host)
    """
    done = react_to(rules, [row for number in range(14) for row in host(number, f"h{number}")])
    assert done.matches.capped == 4
