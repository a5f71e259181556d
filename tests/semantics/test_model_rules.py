"""Rules over random changes: the live model equals recomputation, and incremental matches equal those of one run."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest

import perseid as ps
from perseid.engines.models.events import EventRows
from perseid.engines.models.live import LiveModel
from perseid.engines.models.pattern_trigger import PatternTrigger, plan_triggers
from perseid.engines.models.stream import event_stream
from perseid.reference.models import Recomputed
from perseid.semantics.model_rules import Reacting, RuleIteration
from perseid.semantics.model_steps import grouped
from tests.engines.interpreted_automaton import interpreted

TEXT = """
model cps
node Host (load bigint, most bigint)
node Copy (seen bigint)
node App
edge runs_on App -> Host one
edge copy_of Copy -> Host one

query over(host) find host: Host where host.load > host.most
query copied(host, copy) find copy -copy_of-> host
query bare(host) find host: Host, not copied(host, _)
query full(host, n) find host: Host let n = count of on(_, host) where n > 1
query on(app, host) find app -runs_on-> host
query warm(host) find host: Host where moving_avg(host.load, 3 seconds) > 2

pattern thrice match (found over | updated over){3} selection immediate within forever partition by host
pattern stays match found over a -> not lost over for 2 seconds partition by host return a.host as who
pattern both match found over(host as h) & found full(host as h) within 3 seconds return h
pattern busy match updated over+ a -> lost over b within 4 seconds partition by host return count(a) as n
pattern moved match change set Host.load a -> change set Host.load b within 2 seconds after match skip past last
  return a.element as who, b.new as now
pattern open match found warm a -> not updated warm within 2 seconds partition by host

rule copy on found bare(host) do create c: Copy named 'copy ' || host, link c -copy_of-> host, set c.seen = 0
rule drop on lost copied(_, copy) do delete copy
rule calm on thrice priority 2 do set host.load = host.most
rule nudge on stays priority 1 do set who.load = who.load - 1
rule mark on both do emit both(h)
rule count on busy do emit busy(host, n)
rule seen on moved do emit moved(who, now)
rule cool on open do set host.load = 0
rule push on found full(host, n) do set host.most = n
"""
BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def random_rows(chance: random.Random) -> list[dict[str, Any]]:
    """Returns changes of a few hosts and apps every half second; some are invalid and rejected by both."""
    hosts, apps = ["h1", "h2", "h3"], ["a", "b", "c", "d"]
    rows: list[dict[str, Any]] = []
    for name in hosts + apps:
        rows.append({"change": "create", "element": name, "kind": "Host" if name in hosts else "App", "ts": BEGIN})
    for step in range(chance.randint(5, 25)):
        ts = BEGIN + dt.timedelta(milliseconds=500 * (step + chance.choice([0, 0, 1, 3])))
        match chance.choice(["set", "set", "set", "most", "link", "unlink", "delete", "create"]):
            case "set" | "most" as what:
                attribute = "load" if what == "set" else "most"
                row: dict[str, Any] = {"change": "set", "attribute": attribute, "value": chance.randint(0, 5)}
            case "link" | "unlink" as what:
                row = {
                    "change": what,
                    "element": chance.choice(apps),
                    "kind": "runs_on",
                    "target": chance.choice(hosts),
                }
            case what:
                row = {"change": what, "kind": "Host"}
        rows.append({"element": chance.choice(hosts), **row, "ts": ts})
    return rows


def outcome(one: RuleIteration) -> tuple[Any, ...]:
    matches = [m.match_id for m in one.matches]
    return one.number, one.requests, one.effects.done, one.effects.changes, one.lifecycle, one.emitted, matches


@pytest.mark.parametrize("seed", range(40))
def test_live_model_equals_recomputation(seed: int) -> None:
    cps = ps.graph.metamodel(TEXT)
    stream = ps.graph.model(random_rows(random.Random(seed)), cps)
    plans = plan_triggers(cps.rules, ())
    engine = Reacting(cps.rules, LiveModel(cps.queries), PatternTrigger(cps.queries, plans, {}))
    oracle = Reacting(cps.rules, Recomputed(cps.queries), PatternTrigger(cps.queries, plans, {}))

    def moments(one: Reacting, time: int) -> list[tuple[int, list[tuple[Any, ...]]]]:
        return [(moment, [outcome(each) for each in rounds]) for moment, rounds in one.until(time)]

    for _, time, changes in stream.transactions():
        found, left = moments(engine, time), engine.transact(time, changes)
        with interpreted():
            expected, right = moments(oracle, time), oracle.transact(time, changes)
        assert found == expected
        assert [outcome(each) for each in left] == [outcome(each) for each in right]


def test_incremental_matches_equal_those_of_one_run() -> None:
    """Event by event and all at once, patterns have the same matches with the same ids, and every pattern has some."""
    cps = ps.graph.metamodel(TEXT)
    found: dict[str, int] = {}
    for seed in range(20):
        stream = ps.graph.model(random_rows(random.Random(seed)), cps)
        done = ps.graph.react(stream)
        ids = {match.match_id for match in done.matches}
        assert len(ids) == len(done.matches)
        expected = set()
        for group in grouped(cps.patterns, cps.queries, ()):
            rows = EventRows(cps.queries, group.watched, ())
            for key, time, iterations in done._moments:
                for one in iterations:
                    rows.add(key, time, one.effects)
            events = event_stream(rows.table(pa.string(), []), stream, group.watched)
            for pattern in group.patterns:
                for match in ps.pattern(pattern).match(events):
                    expected.add(match.match_id)
                    found[match.pattern] = found.get(match.pattern, 0) + 1
        assert ids == expected
    assert found.keys() == {"thrice", "stays", "both", "busy", "moved", "open"}
