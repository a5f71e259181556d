"""The benchmark of paper 3: its SQL baseline, its timings and its claims."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from bench.__main__ import JOINS_PARTS, main
from bench.joins import claims
from bench.joins.benchmark import PARTS
from bench.joins.measurement import SqlChoice, Timing, concatenate, time_sequential, time_sql
from bench.joins.sql_templates import PAIRS, VARIANTS, SqlTemplates
from bench.joins.workload import Drawn, Schema, pairs_of_documents
from perseid.engines.joins import layout as y
from perseid.engines.joins.index import Subscriptions
from perseid.engines.joins.joiner import ChainBindings, Joiner, notified

SCHEMAS = {"flat": (Schema.flat(4), 4), "deep": (Schema.three_levels(), 3)}
PAIRS_OF_DOCUMENTS = 5


def random_documents(schema: Schema, subscriptions: Subscriptions, seed: int) -> tuple[object, ChainBindings]:
    """Return documents with leaf texts from a small set, so that leaves of one document are equal and many documents join."""
    chance = random.Random(seed)
    chains = list(subscriptions.chains)
    times, bindings_of_pairs = pairs_of_documents(schema, chains, PAIRS_OF_DOCUMENTS)
    drawn: dict[tuple[int, int], str] = {}
    texts = []
    for document, chain, at in zip(
        bindings_of_pairs.documents, bindings_of_pairs.chains, bindings_of_pairs.at, strict=True
    ):
        node = int(bindings_of_pairs.nodes[at + chains[chain].height - 1])
        texts.append(drawn.setdefault((int(document), node), f"text {chance.randrange(6)}"))
    return times, ChainBindings(
        bindings_of_pairs.documents, bindings_of_pairs.chains, texts, bindings_of_pairs.at, bindings_of_pairs.nodes
    )


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_sql_per_template_emits_the_notifications_of_the_joiner(variant: str, schema: str) -> None:
    documents, most = SCHEMAS[schema]
    subscriptions = Drawn(documents, most, 0.8).subscriptions(60)
    times, bindings = random_documents(documents, subscriptions, 1)
    joined = Joiner(subscriptions, y.CACHED).add(times, bindings)
    expected = sorted((one.owner, one.older, one.newer, tuple(one.nodes)) for one in notified(joined, subscriptions))
    assert len(expected) > 100
    sql = SqlTemplates(subscriptions, variant)
    sql.stage(len(times), bindings)
    in_a_batch = sql.notifications(0, len(times))
    sql.reset(0)
    one_by_one = [row for document in range(len(times)) for row in sql.notifications(document, document + 1)]
    sql.reset(0)
    _, counted = sql.join(0, len(times), 60)
    sql.close()
    assert sorted(in_a_batch) == expected
    assert sorted(one_by_one) == expected
    assert counted == len(expected)


def test_sql_with_indexes_counts_the_same() -> None:
    documents, most = SCHEMAS["flat"]
    subscriptions = Drawn(documents, most, 0.8).subscriptions(60)
    times, bindings = random_documents(documents, subscriptions, 3)
    counts = []
    for indexed in (False, True):
        sql = SqlTemplates(subscriptions, PAIRS, indexed)
        sql.stage(len(times), bindings)
        sql.retain(0, 4)
        counts.append([sql.join(document, document + 1, 60)[1] for document in range(4, len(times))])
        sql.close()
    assert counts[0] == counts[1]
    assert sum(counts[0]) > 0


def test_wrong_number_of_notifications_stops_the_measurement() -> None:
    schema = Schema.flat(4)
    subscriptions = Drawn(schema, 4, 0.8).subscriptions(30)
    parts = [pairs_of_documents(schema, list(subscriptions.chains), 100, 100 * part) for part in range(2)]
    rows = Joiner(subscriptions, y.CACHED).add(*parts[1]).rows
    due = [0] * 200
    for row in rows:
        due[row[y.O_NEWER]] += int(row[y.O_COUNT])
    right = np.array(due, np.int64)
    timing = time_sequential(subscriptions, parts[:1], parts[1:], right, 60.0)
    assert timing.documents == 200
    wrong = right.copy()
    wrong[1] += 1
    with pytest.raises(AssertionError, match="Sequential found"):
        time_sequential(subscriptions, parts[:1], parts[1:], wrong, 60.0)
    with pytest.raises(AssertionError, match="SQL found"):
        time_sql(subscriptions, SqlChoice(), parts[:1], parts[1:], wrong, 0.0, 1)


def test_concatenated_parts_number_their_documents_on() -> None:
    schema = Schema.flat(4)
    subscriptions = Drawn(schema, 4, 0.8).subscriptions(30)
    chains = list(subscriptions.chains)
    count, bindings = concatenate([pairs_of_documents(schema, chains, 2, 2 * part) for part in range(2)])
    _, whole = pairs_of_documents(schema, chains, 4)
    assert count == 8
    assert bindings.documents.tolist() == whole.documents.tolist()
    assert bindings.texts == whole.texts
    assert bindings.at.tolist() == whole.at.tolist()
    assert bindings.nodes.tolist() == whole.nodes.tolist()


def test_timing_has_median_and_quartiles_per_document() -> None:
    timing = Timing()
    for seconds in (5.0, 1.0, 2.0, 3.0, 4.0):
        timing.add(10 * seconds, 10)
    assert timing.documents == 50
    assert timing.median == 3
    assert timing.quartiles == (2, 4)


@dataclass
class Point:
    figure: str
    x: float
    microseconds: dict[str, float]
    read_s: float | None = None
    times: dict[str, Timing | None] = field(init=False)

    def __post_init__(self) -> None:
        self.times = {name: Timing([each / 1e6], 1_000) for name, each in self.microseconds.items()}


def test_failed_claim_lists_its_points() -> None:
    views = {"shared views": 2.0, "cached views": 2.0}
    points = [
        Point("Figure 8", 10, {"no views": 4.0, "Sequential": 3.0} | views),
        Point("Figure 8", 100_000, {"no views": 8.0, "Sequential": 700.0} | views),
    ]
    at_10, at_100_000 = claims.check(points, {})
    assert at_10.holds
    assert not at_100_000.holds
    assert "no views 87.5" in at_100_000.line()
    assert "**does not hold**" in at_100_000.line()


def test_points_where_sequential_is_faster_are_listed() -> None:
    points = [Point("Figure 12", 5, {"no views": 4.0, "shared views": 1.0, "cached views": 1.0, "Sequential": 2.0})]
    lines = list(claims.slower(points))
    assert lines[0] == "- no views slower than Sequential: Figure 12 at 5 (2.0 times); 1 points compared."
    assert lines[1] == "- shared views slower than Sequential: nowhere; 1 points compared."


def test_option_only_accepts_the_parts_of_joins(capsys: pytest.CaptureFixture[str]) -> None:
    assert JOINS_PARTS == PARTS
    with pytest.raises(SystemExit) as stopped:
        main(["joins", "--only", "Q1n"])
    assert stopped.value.code == 2
    assert "there are flat, deep, feed, million" in capsys.readouterr().err
