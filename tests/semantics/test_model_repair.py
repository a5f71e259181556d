"""The search for repairs against the enumeration of all sequences of steps, on small random models."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

import perseid as ps
from perseid.engines.models.repair import STRATEGIES, search
from perseid.reference.model_repairs import climbed_by_hand, fixes_by_hand
from perseid.semantics.graphs import Change, Graph
from perseid.semantics.model_changes import applied
from perseid.semantics.model_repair import Aims, facts

TEXT = """
model cps
node Host (load bigint, most bigint)
node Big is Host
node App
edge runs_on App -> Host one

query over(host) find host: Host where host.load > host.most
query homeless(app) find app: App, not app -runs_on-> _
query on(app, host) find app -runs_on-> host
query crowded(host, n) find host: Host let n = count of on(_, host) where n > 1
query place(app, host) find homeless(app), host: Host
query high(host) find host: Host where host.most > 3
query plain(host) find host: Host, not host: Big

repair lower on over(host) cost 1 do set host.load = host.most
repair raise on over(host) cost 1.5 do set host.most = host.most + 1
repair put on place(app, host) cost 2 do link app -runs_on-> host, set host.load = host.load + 1
repair take on on(app, host) cost 1 do unlink app -runs_on-> host, set host.load = host.load - 1
repair drop on over(host) cost 4 do delete host
repair swap on plain(host) cost 0.5 do delete host, create b: Big named host, set b.most = host.most
repair add on crowded(host, _) cost 3 do create h: Host named host || '+', set h.load = 0, set h.most = 1
"""


def random_model(chance: random.Random) -> Graph:
    cps = ps.graph.metamodel(TEXT)
    graph = Graph(cps.queries.kinds)
    hosts, apps = ["h1", "h2"][: chance.randint(1, 2)], ["a", "b"][: chance.randint(0, 2)]
    changes = [Change("create", name, chance.choice(["Host", "Big"])) for name in hosts]
    changes += [Change("create", name, "App") for name in apps]
    for name in hosts:
        values = {"load": chance.randint(0, 4), "most": chance.randint(0, 3)}
        changes += [Change("set", name, None, key, value) for key, value in values.items()]
    changes += [Change("link", name, "runs_on", target=chance.choice(hosts)) for name in apps if chance.random() < 0.6]
    assert not applied(graph, changes)[1]
    return graph


def random_aims(chance: random.Random) -> Aims:
    hard = ("over",) if chance.random() < 0.5 else ("over", "homeless")
    soft = ("high",) if chance.random() < 0.5 else ("high", "crowded")
    never = ("crowded",) if chance.random() < 0.4 else ()
    cost = Decimal(chance.choice(["3", "4.5"])) if chance.random() < 0.4 else None
    return Aims(hard, soft, never, chance.randint(1, 3), cost)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_search_equals_exhaustive_enumeration(strategy: str) -> None:
    cps = ps.graph.metamodel(TEXT)
    some = several = 0
    for seed in range(60):
        chance = random.Random(seed)
        graph, aims = random_model(chance), random_aims(chance)
        before = facts(graph, graph.nodes)
        by_hand = climbed_by_hand if strategy == "hill climbing" else fixes_by_hand
        expected = by_hand(cps.queries, cps.rules.repairs, graph, aims)
        found = search(cps.queries, cps.rules.repairs, graph, aims, strategy, 10_000)
        assert [(fix.rank(), fix.changes) for fix in found.fixes] == [(fix.rank(), fix.changes) for fix in expected]
        assert facts(graph, graph.nodes) == before
        some += bool(expected)
        several += any(len(fix.steps) > 1 for fix in expected)
    assert some > 15
    assert several > 5


def test_applying_a_fix_makes_the_model_valid() -> None:
    cps = ps.graph.metamodel(TEXT)
    for seed in range(30):
        chance = random.Random(seed)
        graph, aims = random_model(chance), random_aims(chance)
        for fix in search(cps.queries, cps.rules.repairs, graph, aims, "best first", 10_000).fixes[:3]:
            again = random_model(random.Random(seed))
            assert not applied(again, fix.changes)[1]
            done = search(cps.queries, cps.rules.repairs, again, aims, "best first", 10)
            assert done.valid
