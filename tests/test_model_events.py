"""Ordinary events beside a live model: steps of patterns among what queries find and lose."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import perseid as ps

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TEXT = """
model site
node Host (load double)
query hot(host) find host: Host where host.load > 0.5
query lately(host) find host: Host where moving_max(host.load, 3 seconds) > 0.5

pattern entered
match  found hot(host as h) a -> Login(host as h) b -> lost hot(host as h) c
within 10 seconds
return b.user as user, b.host as host
"""


def at(second: float, **rest: Any) -> dict[str, Any]:
    return {"ts": BEGIN + dt.timedelta(seconds=second), "site": "n", **rest}


def load(second: float, value: float, host: str = "h1") -> dict[str, Any]:
    return at(second, change="set", element=host, attribute="load", value=value)


CHANGES = [at(0, change="create", element=host, kind="Host") for host in ("h1", "h2")]
CHANGES += [load(1, 0.9), load(1, 0.9, "h2"), load(5, 0.1), load(6, 0.2, "h2")]
LOGINS = [at(1, user="early", host="h1"), at(2, user="ann", host="h1"), at(5, user="late", host="h1")]
LOGINS += [at(3, user="bob", host="h9"), {**at(2, user="elsewhere", host="h1"), "site": "s"}]


def found(text: str, beside: Any, changes: Any = CHANGES) -> list[dict[str, Any]]:
    site = ps.graph.metamodel(text)
    matches = ps.patterns(site).match(ps.graph.model(changes, site, key="site", events=beside)).to_dicts()
    return sorted(matches, key=lambda match: match["end"])


def users(text: str, beside: Any) -> list[str]:
    return sorted(match["user"] for match in found(text, beside))


def test_an_event_between_a_match_found_and_lost() -> None:
    """At one time the model comes first: who logs in as it gets hot logs in to a hot host, as it cools down to a cool one."""
    assert users(TEXT, ps.events({"Login": LOGINS})) == ["early"]
    assert users(TEXT, ps.events({"Login": LOGINS[1:]})) == ["ann"]
    assert users(TEXT, ps.events({"Login": LOGINS[2:]})) == []


def test_types_by_a_column() -> None:
    rows = [{**row, "type": "Login"} for row in LOGINS] + [at(2, type="Logout", user="x", host="h1"), at(2, type=None)]
    assert users(TEXT, ps.events(rows)) == ["early"]
    assert users(TEXT, rows) == ["early"]


def test_a_pattern_hears_only_the_events_it_names() -> None:
    text = TEXT.replace("within 10 seconds", "selection immediate within 10 seconds")
    alone = found(text, ps.events({"Login": LOGINS[1:2]}))
    noise = [at(second, user="x", host="h1") for second in (2.5, 3.5)]
    assert found(text, ps.events({"Login": LOGINS[1:2], "Logout": noise})) == alone
    assert len(alone) == 1


def test_an_event_is_no_transaction() -> None:
    """A moving window is seen as it was at the last change, whether or not somebody logs in meanwhile."""
    text = (
        TEXT.partition("pattern")[0] + "pattern p match lost lately a -> Login b within 1 minute return b.user as user"
    )
    changes = [*CHANGES[:2], load(1, 0.9), load(20, 0.1)]
    logins = [at(10, user="between", host="h1"), at(21, user="after", host="h1")]
    site = ps.graph.metamodel(text)
    matches = ps.patterns(site).match(ps.graph.model(changes, site, key="site", events=ps.events({"Login": logins})))
    assert [match["user"] for match in matches.to_dicts()] == ["after"]


def test_rules_hear_events_too() -> None:
    site = ps.graph.metamodel(TEXT + "rule tell on entered do emit told(user)")
    done = ps.graph.react(ps.graph.model(CHANGES, site, key="site", events=ps.events({"Login": LOGINS})))
    assert [row["user"] for row in done.emitted["told"]] == ["early"]


def test_events_of_one_moment_are_in_one_order() -> None:
    both = [at(2, user="ann", host="h1"), at(2, user="bob", host="h1")]
    first = found(TEXT, ps.events({"Login": both}))
    assert found(TEXT, ps.events({"Login": both[::-1]})) == first
    assert len(first) == 1


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        (None, "Step Login matches additional events, and the model has none"),
        (ps.events({"Logon": LOGINS}), "no event 'Login'|Login"),
        (ps.events({"Login": [{"ts": BEGIN, "user": "ann", "host": "h1"}]}), "'site'"),
        (ps.events({"Login": [at(2, user="ann", host=1)]}), "'host' has names of nodes"),
        (
            ps.events({"Login": [at(2, user="ann", host=1.5)]}),
            "Column 'host' has one type in additional events and another",
        ),
    ],
)
def test_misuse(beside: Any, said: str) -> None:
    with pytest.raises(ps.PerseidError, match=said):
        found(TEXT, beside)


def test_explain_names_the_events() -> None:
    site = ps.graph.metamodel(TEXT)
    said = ps.patterns(site).explain(ps.graph.model(CHANGES, site, key="site", events=ps.events({"Login": LOGINS})))
    assert "hot found, updated and lost; additional events Login" in " ".join(said.split())
