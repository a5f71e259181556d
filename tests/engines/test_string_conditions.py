"""``rlike``, ``ilike``, ``regexp_extract`` and ``in_cidr`` in every kind of stream that has conditions."""

from __future__ import annotations

import datetime as dt
import random

import pytest

import perseid as ps
from perseid.engines.sequence import columns
from perseid.semantics import evaluate

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TWIN = "(k rlike '^a' or k ilike 'A%') and in_cidr(ip, '10.0.0.0/8') and regexp_extract(k, '[a-z]', 0) = 'a'"
PLAIN = "startswith(k, 'a') and ip in ('10.0.0.1', '10.9.9.9')"


def rows(count: int) -> list[dict[str, object]]:
    rng = random.Random(5)
    return [
        {
            "ts": START + dt.timedelta(seconds=i),
            "type": rng.choice(["A", "B"]),
            "user": rng.choice(["ann", "bob"]),
            "k": rng.choice(["a", "ab", "b", "ba", "", None]),
            "ip": rng.choice(["10.0.0.1", "10.9.9.9", "11.0.0.1", "::1", "10.0", None]),
        }
        for i in range(count)
    ]


def found(condition: str, data: list[dict[str, object]]) -> list[str]:
    pattern = ps.pattern(
        f"pattern p match A a [{condition}] -> B b [{condition}] within 1 minute partition by user return time(a) as s, time(b) as e"
    )
    return sorted(str(match.values) for match in pattern.match(ps.events(data)))


def test_sequence() -> None:
    data = rows(400)
    assert found(TWIN, data) == found(PLAIN, data) != []


def test_condition_over_strings_of_two_events() -> None:
    data = rows(200)
    pattern = (
        "pattern p match A a -> B b where {} within 10 seconds partition by user return time(a) as s, time(b) as e"
    )
    for condition, plain in (
        ("a.k || b.k rlike '^ab?a'", "a.k || b.k like 'aa%' or a.k || b.k like 'aba%'"),
        ("b.k ilike a.k", "b.k like a.k"),
        ("regexp_extract(a.k || b.k, '^(..)') = 'ab'", "a.k || b.k like 'ab%'"),
        ("a.k || b.k not rlike 'b'", "a.k || b.k not like '%b%'"),
    ):
        some, other = (
            [m.values for m in ps.pattern(pattern.format(c)).match(ps.events(data))] for c in (condition, plain)
        )
        assert some == other != []


def test_distinct_values_are_matched_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(texts: list[object], expression: str) -> list[bool | None]:
        texts = list(texts)
        calls.append(len(texts))
        return matches(texts, expression)

    matches = evaluate.matches
    monkeypatch.setattr(evaluate, "matches", counted)
    assert columns.evaluate_all is evaluate.evaluate_all
    data = [row | {"k": f"user{i % 50}"} for i, row in enumerate(rows(1000))]
    assert len(ps.pattern("pattern p match A a [k rlike '^user[0-9]$'] within forever").match(ps.events(data))) > 0
    assert calls == [51]  # 50 values and null


def test_parameters() -> None:
    pattern = ps.pattern(
        "pattern p(name string, net string) match A a [k rlike :name and in_cidr(ip, :net)] within forever"
    )
    data = rows(100)
    wanted = [
        row
        for row in data
        if row["type"] == "A" and row["k"] in ("a", "ab") and str(row["ip"])[:3] == "10." and row["ip"] != "10.0"
    ]
    assert len(pattern.bind(name="^a", net="10.0.0.0/8").match(ps.events(data))) == len(wanted) > 0
    with pytest.raises(ps.errors.PatternSyntaxError, match="missing"):
        pattern.bind(name="(", net="10.0.0.0/8").match(ps.events(data))
    with pytest.raises(ps.errors.PatternSyntaxError, match="bits behind the prefix"):
        pattern.bind(name="a", net="10.0.0.1/8").match(ps.events(data))


def test_uncertain_stream() -> None:
    data = [{"ts": row["ts"], "who": row["user"], "place": row["k"] or "c", "p": 0.5} for row in rows(8)]
    stream = ps.uncertain_events(data, event_type="At", key="who", value="place", probability="p", every="1 second")
    told = [
        ps.pattern(f"pattern p match At [{condition}] -> At [{condition}] within forever selection successor")
        .match(stream)
        .to_dicts()
        for condition in ("place rlike '^a'", "place ilike 'A%'", "place like 'a%'")
    ]
    assert told[0] == told[1] == told[2] != []


def test_documents() -> None:
    feeds = [
        {"ts": i, "xml": f"<feed><e><t>{title}</t></e></feed>"}
        for i, title in enumerate(["Hello 1", "HELLO x", "by 2"])
    ]
    documents = ps.documents(feeds, body="xml")
    for condition in ("t rlike '^Hello [0-9]+$'", "t ilike 'hello _' and regexp_extract(t, '[0-9]', 0) <> ''"):
        pattern = ps.pattern(f"pattern p match Feed << //e[/t->t] >> x [{condition}] within forever return x.t")
        assert [match.values for match in pattern.match(documents)] == [{"t": "Hello 1"}]


MODEL = """
model hosts
node Host (name string, ip string)

query web(host)
find host: Host
where host.name rlike '^web[0-9]+$' and in_cidr(host.ip, '10.0.0.0/8') and host.name ilike 'WEB%'

pattern seen match found web(host as h) a within forever return a.host as host
"""


def test_live_model() -> None:
    changes: list[dict[str, object]] = []
    hosts = [("h1", "web1", "10.0.0.1"), ("h2", "webx", "10.0.0.2"), ("h3", "web3", "11.0.0.1"), ("h4", "web4", None)]
    for second, (element, name, ip) in enumerate(hosts):
        at = {"ts": START + dt.timedelta(seconds=second), "element": element}
        changes.append({**at, "change": "create", "kind": "Host"})
        changes += [
            {**at, "change": "set", "attribute": "name", "value": name},
            {**at, "change": "set", "attribute": "ip", "value": ip},
        ]
    hosts_model = ps.graph.metamodel(MODEL)
    matched = ps.patterns(hosts_model)["seen"].match(ps.graph.model(changes, hosts_model)).to_dicts()
    assert [row["host"] for row in matched] == ["h1"]
