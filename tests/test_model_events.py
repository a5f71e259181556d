"""Additional events of a live model: pattern steps between query events."""

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


def matches_of(text: str, extra: Any, changes: Any = CHANGES) -> list[dict[str, Any]]:
    site = ps.graph.metamodel(text)
    matches = ps.patterns(site).match(ps.graph.model(changes, site, key="site", events=extra)).to_dicts()
    return sorted(matches, key=lambda match: match["end"])


def users(text: str, extra: Any) -> list[str]:
    return sorted(match["user"] for match in matches_of(text, extra))


def test_additional_event_between_query_events() -> None:
    """At equal times, changes of the model precede additional events: a login at the time a host gets hot is on a hot host."""
    assert users(TEXT, ps.events({"Login": LOGINS})) == ["early"]
    assert users(TEXT, ps.events({"Login": LOGINS[1:]})) == ["ann"]
    assert users(TEXT, ps.events({"Login": LOGINS[2:]})) == []


def test_type_of_additional_events_is_a_column() -> None:
    rows = [{**row, "type": "Login"} for row in LOGINS] + [at(2, type="Logout", user="x", host="h1"), at(2, type=None)]
    assert users(TEXT, ps.events(rows)) == ["early"]
    assert users(TEXT, rows) == ["early"]


def test_pattern_receives_only_the_event_types_it_names() -> None:
    text = TEXT.replace("within 10 seconds", "selection immediate within 10 seconds")
    alone = matches_of(text, ps.events({"Login": LOGINS[1:2]}))
    noise = [at(second, user="x", host="h1") for second in (2.5, 3.5)]
    assert matches_of(text, ps.events({"Login": LOGINS[1:2], "Logout": noise})) == alone
    assert len(alone) == 1


def test_additional_event_does_not_update_moving_windows() -> None:
    """A moving window has its value at the last change, also after additional events."""
    text = (
        TEXT.partition("pattern")[0] + "pattern p match lost lately a -> Login b within 1 minute return b.user as user"
    )
    changes = [*CHANGES[:2], load(1, 0.9), load(20, 0.1)]
    logins = [at(10, user="between", host="h1"), at(21, user="after", host="h1")]
    site = ps.graph.metamodel(text)
    matches = ps.patterns(site).match(ps.graph.model(changes, site, key="site", events=ps.events({"Login": logins})))
    assert [match["user"] for match in matches.to_dicts()] == ["after"]


def test_rules_receive_additional_events() -> None:
    site = ps.graph.metamodel(TEXT + "rule tell on entered do emit told(user)")
    done = ps.graph.react(ps.graph.model(CHANGES, site, key="site", events=ps.events({"Login": LOGINS})))
    assert [row["user"] for row in done.emitted["told"]] == ["early"]


def test_simultaneous_events_have_a_fixed_order() -> None:
    both = [at(2, user="ann", host="h1"), at(2, user="bob", host="h1")]
    first = matches_of(TEXT, ps.events({"Login": both}))
    assert matches_of(TEXT, ps.events({"Login": both[::-1]})) == first
    assert len(first) == 1


@pytest.mark.parametrize(
    ("extra", "message"),
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
def test_invalid_additional_events_are_an_error(extra: Any, message: str) -> None:
    with pytest.raises(ps.PerseidError, match=message):
        matches_of(TEXT, extra)


def test_explain_lists_additional_events() -> None:
    site = ps.graph.metamodel(TEXT)
    message = ps.patterns(site).explain(ps.graph.model(CHANGES, site, key="site", events=ps.events({"Login": LOGINS})))
    assert "hot found, updated and lost; additional events Login" in " ".join(message.split())
