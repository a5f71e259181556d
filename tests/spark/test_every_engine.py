"""Every engine of the registry has the same output locally, in a batch on Spark, and on a stream on Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import perseid as ps
from perseid.engines.disorder.strategy import Strategy
from perseid.runtime.registry import engines
from tests.contract.toy import TOY, Toy
from tests.spark.streaming import FAR, MOMENT, Streams, at, ids

Row = Mapping[str, Any]
Output = list[Any]


@dataclass(frozen=True)
class SparkCase:
    """One small query over one input."""

    schema: pa.Schema
    rows: Sequence[Row]
    closing: Row
    """A row without output; far later, it advances the watermark past every window."""
    run_locally: Callable[[pa.Table], Output]
    match_on_spark: Callable[[Any], Any]
    """Function from a Spark DataFrame to a DataFrame of output rows."""
    read: Callable[[Sequence[Row]], Output]


# Patterns

EVENTS = pa.schema(
    {
        "ts": MOMENT,
        "type": pa.string(),
        "user": pa.string(),
        "v": pa.int64(),
        "n": pa.int64(),
        "punctuation": pa.string(),
    }
)
ORDERED = "->>"
"""Steps whose matches the engines of all strategies can assemble."""
PATTERN = ps.pattern(
    f"pattern paid match Order o {ORDERED} Payment p [v >= o.v] {ORDERED} Receipt r within 20 seconds partition by user"
)


def _events() -> list[Row]:
    """Return events that are out of order by less than a second."""
    chance = random.Random(5)
    return [
        {
            "ts": at(second + 1 + chance.random()),
            "type": chance.choice(("Order", "Payment", "Receipt")),
            "user": chance.choice("ab"),
            "v": chance.randint(1, 3),
            "n": second,
            "punctuation": None,
        }
        for second in range(36)
    ]


def _current(rows: Sequence[Row]) -> Output:
    """Return the matches that were emitted and not retracted."""
    found: Counter[Any] = Counter()
    for row in rows:
        found[row["pattern"], row["match_id"], row["kind"]] += -1 if row.get("op") == "-" else 1
    return sorted(found.elements())


def _pattern_case(disorder: str | Strategy | None) -> SparkCase:
    def declare(data: Any) -> ps.types.Events:
        return ps.events(
            data, id="n", **({} if disorder is None else {"disorder": disorder, "options": ps.StreamOptions(shards=2)})
        )

    def run_locally(table: pa.Table) -> Output:
        return sorted((m.pattern, m.match_id, m.kind) for m in PATTERN.match(ps.events(table, id="n")))

    closing = {"ts": at(FAR), "type": "Z", "user": "z", "v": 0, "n": 10**6, "punctuation": None}
    return SparkCase(EVENTS, _events(), closing, run_locally, lambda frame: PATTERN.match(declare(frame)), _current)


# Documents

DOCUMENTS = pa.schema([("ts", MOMENT), ("n", pa.int64()), ("kind", pa.string()), ("xml", pa.string())])
LARGE = ps.pattern(
    "pattern large match S << //a->x[/b->y > 1] >> o -> S << //a->z[/b->w = 1] >> p within 20 seconds return o.y as y, p.n as n"
)
AFTER = ps.xscl.subscriptions({"q": "S//a[/b->x] FOLLOWED BY{x = y, 10 seconds} S//a[/b->y]"})


def _documents() -> list[Row]:
    chance = random.Random(6)
    return [
        {"ts": at(1 + second), "n": second, "kind": "S", "xml": f"<r><a><b>{chance.randint(1, 3)}</b></a></r>"}
        for second in range(16)
    ]


def _declare_documents(data: Any) -> ps.xml.Documents:
    return ps.documents(data, body="xml", time="ts", type="kind", id="n")


def _match_documents(table: pa.Table) -> Output:
    return sorted((m.pattern, m.match_id, m.kind) for m in LARGE.match(_declare_documents(table)))


def _pairs(rows: Sequence[Row]) -> Output:
    return sorted((row["left"]["n"], row["right"]["n"]) for row in rows for _ in row["subscriptions"])


NO_DOCUMENT = {"ts": at(FAR), "n": 10**6, "kind": "S", "xml": "<z/>"}
TREES = SparkCase(
    DOCUMENTS, _documents(), NO_DOCUMENT, _match_documents, lambda frame: LARGE.match(_declare_documents(frame)), ids
)
JOINS = SparkCase(
    DOCUMENTS,
    _documents(),
    NO_DOCUMENT,
    lambda table: _pairs(AFTER.match(_declare_documents(table)).to_pylist()),
    lambda frame: AFTER.match(_declare_documents(frame), query_partitions=2),
    _pairs,
)


# Uncertain streams

BELIEFS = pa.schema({"ts": MOMENT, "k": pa.string(), "v": pa.int64(), "p": pa.float64()})
RISING = ps.pattern("pattern rising match At a [v = 1] -> At b must (v = 2) within 5 seconds partition by k")


def _beliefs() -> list[Row]:
    chance = random.Random(7)
    return [
        {"ts": at(second), "k": k, "v": v, "p": chance.random() / 2}
        for second in range(1, 12)
        for k in "ab"
        for v in (1, 2)
    ]


def _declare_beliefs(data: Any) -> Any:
    return ps.uncertain_events(data, event_type="At", key="k", value="v", probability="p", every="1 second")


def _probabilities(rows: Sequence[Row]) -> Output:
    """Return rows with all digits of each probability."""
    return sorted((row["k"], row["time"].replace(tzinfo=None), row["p"], row["error"]) for row in rows)


UNCERTAIN = SparkCase(
    BELIEFS,
    _beliefs(),
    {"ts": at(FAR), "k": "z", "v": 1, "p": 0.0},
    lambda table: _probabilities(list(RISING.match(_declare_beliefs(table.to_pylist())))),
    lambda frame: RISING.match(_declare_beliefs(frame)),
    _probabilities,
)


# Live models

CHANGES = pa.schema(
    {"ts": MOMENT, **dict.fromkeys(("site", "change", "element", "kind", "attribute", "value", "target"), pa.string())}
)
SITE = ps.graph.metamodel("""
model site
node Host (load bigint)
query hot(host) find host: Host where host.load > 2
pattern heated match found hot(host as h) a -> lost hot(host as h) b within 10 seconds return a.host as host
pattern stays match found hot a -> not lost hot for 2 seconds partition by host return a.host as who
rule cool on stays do set who.load = 0, emit cooled(who)
""")


def _changes() -> list[Row]:
    chance = random.Random(8)
    created = {"change": "create", "element": "h", "kind": "Host"}
    rows: list[Row] = [{"ts": at(1), "site": site, **created} for site in "ab"]
    for second in range(2, 20):
        value = {"change": "set", "element": "h", "attribute": "load", "value": str(chance.randint(0, 5))}
        rows.append({"ts": at(second), "site": chance.choice("ab"), **value})
    return [{**dict.fromkeys(CHANGES.names), **row} for row in rows]


def _declare_model(data: Any) -> Any:
    return ps.graph.model(data, SITE, key="site")


def _react_locally(table: pa.Table) -> Output:
    lives = ps.graph.react(_declare_model(table.to_pylist())).lives
    return sorted(
        (row["ts"].replace(tzinfo=None), row["site"], row["rule"], row["state"], str(row["match"])) for row in lives
    )


def _lives(rows: Sequence[Row]) -> Output:
    states = ("appeared", "updated", "disappeared", "fired")
    return sorted(
        (row["ts"].replace(tzinfo=None), row["site"], row["rule"], row["what"], str(dict(row["match"])))
        for row in rows
        if row["what"] in states
    )


CREATED = {**dict.fromkeys(CHANGES.names), "site": "z", "change": "create", "element": "x", "kind": "Host"}
MODELS = SparkCase(
    CHANGES,
    _changes(),
    {**CREATED, "ts": at(FAR)},
    lambda table: sorted(
        (m["pattern"], m["match_id"], m["kind"])
        for m in ps.patterns(SITE).match(_declare_model(table.to_pylist())).to_dicts()
    ),
    lambda frame: ps.patterns(SITE).match(_declare_model(frame)),
    ids,
)
RULES = SparkCase(
    CHANGES,
    _changes(),
    {**CREATED, "ts": at(FAR)},
    _react_locally,
    lambda frame: ps.graph.react(_declare_model(frame)),
    _lives,
)


CASES: dict[str, SparkCase] = {
    "sequence": _pattern_case(None),
    **{name: _pattern_case(name) for name in ("aggressive", "assemble", "early", "adaptive", "conservative")},
    TOY.name: _pattern_case(Toy()),
    "trees": TREES,
    "joins": JOINS,
    "uncertain": UNCERTAIN,
    "models": MODELS,
    "rules": RULES,
}
every_engine = pytest.mark.parametrize("name", engines())


@every_engine
def test_batch_equals_local_output(spark: SparkSession, name: str) -> None:
    case = CASES[name]
    table = pa.Table.from_pylist([dict(row) for row in case.rows], schema=case.schema)
    expected = case.run_locally(table)
    assert expected
    rows = [
        row.asDict(recursive=True) for row in case.match_on_spark(spark.createDataFrame(table).repartition(3)).collect()
    ]
    assert case.read(rows) == expected


@every_engine
def test_stream_equals_local_output(spark: SparkSession, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    expected = case.run_locally(pa.Table.from_pylist([dict(row) for row in case.rows], schema=case.schema))
    streams = Streams(spark, tmp_path)
    third = len(case.rows) // 3
    frame = streams.stream(case.schema, case.rows[:third], case.rows[third:], [case.closing], delay="2 seconds")
    run = streams.run(case.match_on_spark(frame))
    assert case.read(run.table.to_pylist(maps_as_pydicts="lossy")) == expected
