"""``match`` on Spark equals ``match`` on local rows and the oracle, for any data, keys and settings."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

import perseid as ps
from perseid.api.patterns import PatternSet
from perseid.engines.sequence.stream import Events, read_events
from perseid.errors import (
    BindingError,
    EventDataError,
    PerseidError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
    VersionMismatchError,
)
from perseid.reference.oracle import oracle_matcher
from perseid.semantics.binding import bind
from perseid.semantics.detection import detect
from perseid.semantics.hashing import hash_values, identity_of
from perseid.semantics.resolve import resolve
from perseid.spark.evidence import explode_evidence
from tests.spark.queries import project_events
from tests.spark.settings import settings

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2024, 3, 10, 6, 59, 0, tzinfo=UTC)
"""One minute before New York's clocks go from 2 to 3."""
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")), ("type", pa.string()), ("user", pa.string()), ("host", pa.string()),
        ("v", pa.int32()), ("x", pa.float64()), ("s", pa.string()), ("d", pa.decimal128(10, 2)), ("ok", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")), ("wall", pa.timestamp("us")), ("day", pa.date32()),
        ("device", pa.struct([("id", pa.int64()), ("os", pa.string())])), ("tags", pa.list_(pa.string())),
    ]
)  # fmt: skip


def rows_of_data(count: int, seed: int = 1) -> pa.Table:
    """Return random events with nulls, equal times and duplicate rows."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    now = START

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.1 else value

    for _ in range(count):
        if rows and rng.random() < 0.05:
            rows.append(dict(rows[-1]))
            continue
        now += timedelta(seconds=rng.choice([0, 0, 1, 1, 2, 0.000001]))
        rows.append(
            {
                "ts": now,
                "type": maybe(rng.choice("AAABBBCCX")),
                "user": maybe(rng.choice(["ann", "bob", "cy"])),
                "host": maybe(rng.choice(["h1", "h2"])),
                "v": maybe(rng.randint(0, 4)),
                "x": maybe(rng.choice([0.0, -0.0, 0.5, 2.0, math.nan, math.inf])),
                "s": maybe(rng.choice(["", "a", "b", "ab", "é"])),
                "d": maybe(Decimal(rng.randint(0, 400)).scaleb(-2)),
                "ok": maybe(rng.random() < 0.5),
                "at": maybe(now + timedelta(seconds=rng.randint(-2, 2))),
                "wall": maybe(now.replace(tzinfo=None)),
                "day": maybe(date(2024, 3, rng.randint(9, 11))),
                "device": maybe({"id": maybe(rng.randint(1, 2)), "os": maybe(rng.choice(["ios", "android"]))}),
                "tags": maybe([maybe("t1"), "t2"]),
            }
        )
    rng.shuffle(rows)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


TABLE = rows_of_data(160)

DROPPABLE = """
pattern sequence match A a -> B b [v >= a.v] within 10 seconds partition by user
    return a.v as v1, b.x as x1, b.v - a.v as delta, b.d as d1, b.wall as wall1, b.at - a.at as gap, a.device as dev
pattern chosen match A a [v > 1 and s <> 'é'] -> B b [x > 0 or ok] within 10 seconds partition by user return b.s || a.s as word
pattern combined match A a [ok] ->> B b ->> C c within 6 seconds partition by user return c.day as day1
pattern repeated match A a -> B+ b -> C c where sum(b.v) > 2 within 20 seconds partition by user
    return count(b) as n, sum(b.v) as total, avg(b.x) as mean, min(b.s) as least, max(b.d) as most, first(b.v) as f1,
    sum(b.d) as money, collect(b.v) as all_v
pattern reluctant match A a -> B+? b -> C c within 20 seconds partition by user return last(b.v) as l1
pattern between match A a -> not B [v > 1] -> C c within 20 seconds partition by user return c.tags as tags1
pattern missing match A a [s = 'a'] -> not B for 3 seconds partition by user
pattern before match not B for 2 seconds -> A a partition by user
pattern until_c match A a [ok] -> B+ b until C within 20 seconds partition by user return count(b) as n
pattern either match A a [ok] -> (B b [v = 1] | C c) within 20 seconds partition by user return b.v as bv, c.v as cv
pattern both match A a & B b & C c within 4 seconds partition by user return a.v as v1
pattern oldest match A a -> B b within 20 seconds selection chronicle partition by user return a.x as x1
pattern newest match A a -> B b within 20 seconds selection recent partition by user
pattern gathered match A a -> B b within 20 seconds selection cumulative partition by user return count(a) as n
pattern same match A(s as u) a -> B(s as u) b within 20 seconds partition by user return u as word
pattern same_d match A(d as u) a -> B(d as u) b within 20 seconds partition by user return u as price, a.d = b.d and a.ok as same_ok
pattern waiting match A a -> C c [v > 2] within 2 seconds partition by user report timeouts return a.v as v1, c.v as v2
pattern skipped match A a -> B b within 20 seconds after match skip past last partition by user return time(b) - time(a) as took
pattern to_last match A a -> B+ b -> A c within 20 seconds after match skip to last c partition by user return type(c) as t1
pattern shown match A a [ok] -> B+ b -> C c within 10 seconds partition by user return count(b) as n, evidence limit 3
pattern quiet match A a [v > 0] partition by user suppress 5 seconds
pattern texts match A a -> B b where a.s || b.s like '%ab%' within 10 seconds partition by user
pattern money match A a -> B b where a.d + b.d > 3.50 within 10 seconds partition by user return a.d + b.d as sum_d
pattern nested match A a [device.os = 'ios'] -> B b where b.device.id = a.device.id within 10 seconds partition by user
pattern printed match A a [cast(x as string) || 'x' = '0.5x'] -> B b within 10 seconds partition by user return cast(b.x as string) as xs
pattern stays match A a [v < 3] stays 2 seconds partition by user
pattern tested match A a -> B b must (v > 1) within 10 seconds partition by user
pattern known match A a [s in Words] -> B b where (a.s, b.v) in Pairs within 10 seconds partition by user
"""
STRICT = """
pattern strict match A a, B b partition by user return a.v as v1
pattern counted match A a -> B b within 4 events partition by user
pattern noise match A a -> B b within 20 seconds selection immediate partition by user
pattern noise2 match A a -> B b within 20 seconds selection strict immediate partition by user
pattern anything match A a -> any b [type() <> 'A' and v > 0] -> any c [upper(type()) = 'X' or type() is null] within 9 seconds partition by user
    return type(c) as t1, c.v as v1
"""
ROUTES = """
pattern by_user match A a -> B b within 5 seconds partition by user return a.v as v1
pattern by_host match A a -> B b within 5 seconds partition by host return a.v as v1
pattern by_both match A a -> B b within 5 seconds partition by user, host return a.v as v1
pattern by_device match A a -> B b within 5 seconds partition by device.id return a.v as v1
pattern by_none match A a [v = 3] -> B b within 5 seconds return a.v as v1
"""
RELATIONS: dict[str, Any] = {"Words": ["a", "ab"], "Pairs": [("a", 1), ("ab", 2), ("a", 4)]}

Answer = list[tuple[Any, ...]]


def plain(value: Any) -> Any:
    """Return a value in a form that local and Spark results share: NaN equals itself, -0.0 is 0.0, times are in UTC."""
    match value:
        case float():
            return "nan" if math.isnan(value) else value + 0.0
        case datetime():
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        case Decimal():
            return format(value, "f")
        case Mapping():
            return {name: plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
    return value


def sorted_rows(patterns: PatternSet, rows: list[dict[str, Any]]) -> Answer:
    """Return sorted rows of matches, each with only the columns of its own pattern."""
    out = []
    for row in rows:
        tree = patterns[row["pattern"]].tree.patterns[0]
        names = [".".join(path.parts) for path in tree.partition_by]
        names += [o.name or o.expr.parts[-1] for o in tree.returns]  # type: ignore[union-attr]
        values = {name: plain(row.get(name)) for name in names}
        moments = (plain(row["start"]), plain(row["end"]))
        out.append((row["pattern"], row["match_id"], row["kind"], *moments, values, plain(row.get("evidence"))))
    return sorted(out, key=repr)


def match_on_spark(patterns: PatternSet, stream: Events, **options: Any) -> Answer:
    return sorted_rows(patterns, patterns.match(stream, **options).toArrow().to_pylist(maps_as_pydicts="lossy"))


def match_locally(patterns: PatternSet, stream: Events, **options: Any) -> Answer:
    return sorted_rows(patterns, patterns.match(stream, **options).to_dicts())


def match_with_oracle(patterns: PatternSet, stream: Events, relations: Any = None) -> Answer:
    cores = [resolve(bind(tree)) for tree in patterns.tree.patterns]
    found = detect(cores, read_events(stream), oracle_matcher(), relations=_rows(relations or {}))
    rows = []
    for m in found.matches:
        end = None if m.end_us > 253_402_300_799_999_999 else EPOCH + timedelta(microseconds=m.end_us)
        rows.append(
            {"pattern": m.pattern, "match_id": m.match_id, "kind": m.kind, **m.key, **m.values, "evidence": m.evidence}
            | {"start": EPOCH + timedelta(microseconds=m.start_us), "end": end}
        )
    return sorted_rows(patterns, rows)


def _rows(relations: Mapping[str, Any]) -> dict[str, Any]:
    return {name: [row if isinstance(row, tuple) else (row,) for row in rows] for name, rows in relations.items()}


def differences(found: Answer, expected: Answer) -> list[str]:
    """Return a short text of the rows in only one of two lists; pytest's diff of long lists takes minutes."""
    left, right = {repr(row) for row in found}, {repr(row) for row in expected}
    return [f"+ {row}" for row in sorted(left - right)][:5] + [f"- {row}" for row in sorted(right - left)][:5]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(TABLE)


def assert_same_matches(patterns: PatternSet, stream: Events, table: Any, **options: Any) -> Answer:
    """Assert that Spark, the local engine and the oracle have the same matches."""
    expected = match_with_oracle(patterns, table, options.get("relations"))
    assert differences(match_locally(patterns, table, **options), expected) == []
    found = match_on_spark(patterns, stream, **options)
    assert differences(found, expected) == []
    assert len(found) == len(expected)
    return found


# Same matches on Spark, locally and in the oracle


def test_patterns_that_may_drop_events(frame: DataFrame) -> None:
    patterns = ps.patterns(DROPPABLE)
    found = assert_same_matches(patterns, ps.events(frame), ps.events(TABLE), relations=RELATIONS)
    assert {row[0] for row in found} == set(patterns.names)
    assert {row[2] for row in found} == {"match", "timed out"}


def test_patterns_that_need_every_event(frame: DataFrame) -> None:
    patterns = ps.patterns(STRICT)
    found = assert_same_matches(patterns, ps.events(frame, order_by="v"), ps.events(TABLE, order_by="v"))
    assert {row[0] for row in found} == set(patterns.names)


def test_patterns_with_different_partition_keys(frame: DataFrame) -> None:
    patterns = ps.patterns(ROUTES)
    found = assert_same_matches(patterns, ps.events(frame), ps.events(TABLE))
    assert {row[0] for row in found} == set(patterns.names)


# Keys


def test_keys_of_every_kind(spark: SparkSession) -> None:
    rng = random.Random(4)
    values: dict[str, tuple[Any, list[Any]]] = {
        "word": (pa.string(), ["", "a", "A", "é", None]),
        "number": (pa.float64(), [0.0, -0.0, math.nan, 1.5, None]),
        "single": (pa.float32(), [0.0, -0.0, math.nan, 0.1, None]),
        "day": (pa.date32(), [date(2024, 1, 1), date(1, 1, 1), date(9999, 12, 31), None]),
        "moment": (pa.timestamp("us", "UTC"), [START, START + timedelta(hours=1), None]),
        "wall": (pa.timestamp("us"), [datetime(2024, 3, 10, 2, 30), datetime(2024, 11, 3, 1, 30), None]),
        "price": (pa.decimal128(12, 3), [Decimal("1.500"), Decimal("-0.001"), None]),
        "yes": (pa.bool_(), [True, False, None]),
        "small": (pa.int8(), [1, -1, None]),
        "raw": (pa.binary(), [b"", b"\x00", b"\xff", None]),
        "span": (pa.duration("us"), [timedelta(seconds=1), timedelta(days=-1), None]),
        "device": (pa.struct([("id", pa.float64()), ("n", pa.int32())]), [{"id": 0.0, "n": 1}, {"id": -0.0}, {}, None]),
        "many": (pa.list_(pa.int64()), [[], [1], [1, None], None]),
        "start": (pa.string(), ["taken", "name"]),
        "skewed": (pa.int64(), [1] * 27 + [2, 3, None]),
    }
    schema = pa.schema([("ts", pa.int64()), ("type", pa.string()), *((n, kind) for n, (kind, _) in values.items())])
    rows = [
        {"ts": i // 2, "type": rng.choice("AB"), **{n: rng.choice(options) for n, (_, options) in values.items()}}
        for i in range(120)
    ]
    table = pa.Table.from_pylist(rows, schema=schema)
    keys = [*values, "device.id", "device.n", "word, number", "number, yes, day"]
    patterns = ps.patterns(
        "\n".join(
            f"pattern p{i} match A a, B b within 5 seconds partition by {key}"
            for i, key in enumerate(keys)
            if key != "start"
        )
    )
    found = assert_same_matches(patterns, ps.events(spark.createDataFrame(table)), ps.events(table))
    assert {row[0] for row in found} == set(patterns.names)
    named = ps.pattern("pattern p match A a -> B b within 5 seconds partition by start")
    assert "key_start" in named.match(ps.events(spark.createDataFrame(table))).columns


def test_a_key_with_a_dot_in_its_name(spark: SparkSession) -> None:
    """``a.b`` is the column of that name if it exists, else a field; quotes in a pattern select one of them."""
    struct = pa.array([{"b": i % 2} for i in range(24)], pa.struct([("b", pa.int64())]))
    without = pa.table({"ts": range(24), "type": ["A", "B", "B"] * 8, "a": struct})
    table = without.append_column("a.b", pa.array([10, 11, 10, 12] * 6))
    pattern = ps.pattern("pattern p match A a -> B b within 9 seconds return a.ts as at")
    found = {}
    for data, keys in ((without, {0, 1}), (table, {10, 11, 12})):
        stream = ps.events(spark.createDataFrame(data), id="ts", key="a.b")
        rows = pattern.match(stream).toArrow().to_pylist()
        assert {row["a.b"] for row in rows} == keys
        local = pattern.match(ps.events(data, id="ts", key="a.b"))
        assert {m.match_id: m.key["a.b"] for m in local} == {row["match_id"]: row["a.b"] for row in rows}
        assert pattern.why_not(stream, key=rows[0]["a.b"]).matches > 0
        found.update({row["match_id"]: row["a.b"] for row in rows})
    both = ps.patterns("""
        pattern p match A a -> B b within 9 seconds partition by a.b return a.ts as at
        pattern q match A a -> B b within 9 seconds partition by `a.b` return a.ts as at
    """)
    assert_same_matches(both, ps.events(spark.createDataFrame(table), id="ts"), ps.events(table, id="ts"))
    assert {m.match_id: m.key["a.b"] for m in both.match(ps.events(table, id="ts"))} == found


def test_several_inputs(spark: SparkSession) -> None:
    """Each has its own schema, names for time and key, and ids that are independent of the ids of the others."""
    logins = pa.table(
        {
            "at": pa.array([START + timedelta(seconds=s) for s in (0, 4, 9, 9)], pa.timestamp("us", "UTC")),
            "user": ["ann", "bob", "ann", None],
            "ip": ["1", "2", "3", "4"],
            "n": pa.array([1, 2, 3, 4], pa.int32()),
            "amount": pa.array([1, 2, 3, 4], pa.int32()),
        }
    )
    transfers = pa.table(
        {
            "when": pa.array([START.timestamp() + s for s in (1, 5, 9, 12)], pa.float64()),
            "uid": ["ann", "bob", "ann", None],
            "user": ["not", "the", "key", "!"],
            "amount": pa.array([0.5, 7.0, 8.5, 9.0], pa.float64()),
            "n": pa.array([1, 2, 3, 4], pa.int64()),
            "extra": pa.array([{"a b": 1}, None, {"a b": 3}, {"a b": 4}], pa.struct([("a b", pa.int32())])),
        }
    )
    patterns = ps.patterns("""
        pattern moved match Login a -> Transfer t [amount > 1 and user is not null] within 1 minute
            return a.ip, t.amount as sum, a.amount + t.amount as both, t.extra as extra, t.user as who
        pattern back match Transfer t -> Login a within 1 minute
        pattern either match any x [n > 2 and type() like '%n%'] return type(x) as t1, x.amount as v1, evidence
    """)
    stream = ps.events(
        {"Login": spark.createDataFrame(logins), "Transfer": spark.createDataFrame(transfers)},
        time={"Login": "at", "Transfer": "when"},
        key={"Login": "user", "Transfer": "uid"},
        id="n",
        dedupe=True,
    )
    rows = []
    for kind, table, time, key in (("Login", logins, "at", "user"), ("Transfer", transfers, "when", "uid")):
        for row in table.to_pylist():
            identity = hash_values([identity_of([row["n"]]), kind])
            moment = row[time].timestamp() if kind == "Login" else row[time]
            rows.append({**row, "type": kind, "ts": moment, "user": row[key], "identity": identity})
    keyed = ps.patterns(str(patterns).replace("within 1 minute", "within 1 minute\npartition by user"))
    keyed = ps.patterns(
        str(keyed).replace("'%n%'", "'%n%'").replace("return type(x)", "partition by user\nreturn type(x)")
    )
    expected = match_with_oracle(keyed, ps.events(rows, id="identity"))
    found = match_on_spark(patterns, stream)
    assert differences([row[:5] for row in found], [row[:5] for row in expected]) == []
    assert {row[0] for row in found} == {"moved", "back", "either"}
    matches = patterns.match(stream).where("pattern = 'moved'").orderBy("start", "end").collect()
    assert [(m.user, m.ip, m.sum, m.both, m.who, m.extra and m.extra["a b"]) for m in matches] == [
        ("ann", "1", 8.5, 9.5, "ann", 3),
        ("bob", "2", 7.0, 9.0, "bob", None),
        ("ann", "3", 8.5, 11.5, "ann", 3),
    ]


@pytest.mark.parametrize("id", ["n", ()], ids=["by number", "by content"])
def test_several_inputs_have_the_same_ids_locally(spark: SparkSession, id: Any) -> None:
    """Both number their events from 1, and one has a column with the name of the key of the other."""
    inputs = {
        "Login": pa.table({"ts": [0, 4, 4, 9], "user": ["ann", "bob", "ann", None], "n": [1, 2, 3, 4]}),
        "Transfer": pa.table(
            {
                "ts": [0, 4, 9, 9],
                "uid": ["ann", "bob", "ann", None],
                "user": ["not", "the", "key", "!"],
                "n": [1, 2, 3, 4],
            }
        ),
    }
    patterns = ps.patterns("""
        pattern moved match Login a -> Transfer t within 1 minute partition by user return a.n as n1, t.n as n2
        pattern back match Transfer t -> Login a within 1 minute partition by user return a.n as n1, t.n as n2
        pattern either match any x partition by user return x.n as n1
    """)
    keys = {"Login": "user", "Transfer": "uid"}
    frames = {name: spark.createDataFrame(table) for name, table in inputs.items()}
    found = assert_same_matches(patterns, ps.events(frames, id=id, key=keys), ps.events(inputs, id=id, key=keys))
    assert {row[0] for row in found} == set(patterns.names)
    assert len({row[1] for row in found}) == len(found)
    only = ps.patterns("pattern seen match Login a partition by user return a.n as n1")
    assert_same_matches(
        only, ps.events({"Login": frames["Login"]}, id=id), ps.events({"Login": inputs["Login"]}, id=id)
    )


# Identity and order


def test_ids_order_and_duplicates(spark: SparkSession) -> None:
    rng = random.Random(7)
    rows = [
        {
            "ts": rng.randint(0, 6),
            "type": rng.choice("AB"),
            "k": rng.choice("xy"),
            "n": number if number else None,
            "m": number // 2,
            "o": rng.choice([None, math.nan, 0.0, -0.0, 1.0, -math.inf]),
        }
        for number in range(60)
    ]
    schema = pa.schema(
        [("ts", pa.int64()), ("type", pa.string()), ("k", pa.string()), ("n", pa.int16()), ("m", pa.int64()), ("o", pa.float64())]
    )  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=schema)
    frame = spark.createDataFrame(table).repartition(3)
    patterns = ps.patterns("pattern p match A a, B b partition by k return a.n as an, b.n as bn")
    for options in ({"id": "n", "order_by": ["o", "type"]}, {"id": ["m", "n"]}):
        assert_same_matches(patterns, ps.events(frame, **options), ps.events(table, **options))
    twice = spark.createDataFrame(pa.concat_tables([table, table.slice(0, 25), table.slice(5, 20)])).repartition(3)
    routed = ps.patterns(
        f"{patterns}\npattern q match A a, B b\npattern r match B b -> A a within 9 seconds partition by m"
    )
    for options in ({}, {"id": "n"}):
        observation = Observation()
        found = match_on_spark(routed, ps.events(twice, dedupe=True, **options), observation=observation)
        assert differences(found, match_with_oracle(routed, ps.events(table, **options))) == []
        assert {row[0] for row in found} == {"p", "q", "r"}
        assert observation.get["events"] == 105
        assert observation.get["duplicates"] == 45  # not once per partition key
    patterns.match(ps.events(twice, dedupe=True), observation=(observation := Observation())).collect()
    assert observation.get["duplicates"] == 45


# Times


def test_times_of_every_kind(spark: SparkSession) -> None:
    """Each input has its own type of time; the session's time zone and ANSI mode change nothing, and no digit is lost."""
    moments = [START, START + timedelta(seconds=90, microseconds=123456), datetime(2024, 11, 3, 6, 30, tzinfo=UTC)]
    seconds = [m.timestamp() for m in moments]
    inputs: dict[str, tuple[Any, list[Any], list[Any]]] = {
        "moment": (pa.timestamp("us", "UTC"), moments, [None]),
        "wall": (pa.timestamp("us"), [m.replace(tzinfo=None) for m in moments], [None]),
        "day": (pa.date32(), [m.date() for m in moments], [None]),
        "whole": (pa.int64(), [int(s) for s in seconds], [None, 2**62, -(2**40)]),
        "small": (pa.int32(), [int(s) for s in seconds], [None]),
        "real": (pa.float64(), seconds, [None, math.nan, math.inf, 1e300, 1e15]),
        "exact": (pa.decimal128(20, 6), [Decimal(f"{s:.6f}") for s in seconds], [None, Decimal("9e13")]),
        "text": (pa.string(), [m.isoformat() for m in moments], [None, "", "never", "10000-01-01"]),
    }
    frames, wanted, bad = {}, [], 0
    for name, (kind, good, poor) in inputs.items():
        frames[name] = spark.createDataFrame(pa.table({name + "_at": pa.array([*good, *poor], kind)}))
        bad += len(poor)
        for value, moment in zip(good, moments, strict=True):
            read = moment.replace(microsecond=0) if isinstance(value, int) else moment
            wanted.append((name, datetime(*moment.timetuple()[:3], tzinfo=UTC) if name == "day" else read))
    times = {name: name + "_at" for name in frames}
    patterns = ps.patterns("pattern p match any a return type(a) as api_of, time(a) as at")
    for ansi, zone in (("true", "America/New_York"), ("false", "Asia/Kolkata")):
        with settings(spark, spark__sql__ansi__enabled=ansi, spark__sql__session__timeZone=zone):
            observation = Observation()
            found = patterns.match(ps.events(frames, time=times), observation=observation).toArrow().to_pylist()
        assert sorted((row["api_of"], plain(row["start"])) for row in found) == sorted(wanted)
        assert all(plain(row["at"]) == plain(row["start"]) == plain(row["end"]) for row in found)
        assert (observation.get["bad"], observation.get["events"]) == (bad, bad + len(wanted))
    assert len(patterns.match(ps.events({"text": frames["text"]}, time="text_at")).collect()) == len(moments)


def test_session_settings_do_not_change_matches(spark: SparkSession, frame: DataFrame) -> None:
    patterns = ps.patterns(DROPPABLE)
    expected = match_locally(patterns, ps.events(TABLE), relations=RELATIONS)
    with settings(
        spark, spark__sql__ansi__enabled="false", spark__sql__session__timeZone="America/New_York",
        spark__sql__parser__escapedStringLiterals="true", spark__sql__caseSensitive="true",
        spark__sql__execution__arrow__maxRecordsPerBatch="7", spark__sql__shuffle__partitions="5",
    ):  # fmt: skip
        found = match_on_spark(patterns, ps.events(frame), relations=RELATIONS)
    assert differences(found, expected) == []


def test_window_end_outside_the_range_of_dates(spark: SparkSession) -> None:
    late = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    frame = spark.createDataFrame(
        pa.table(
            {
                "ts": pa.array([START, late], pa.timestamp("us", "UTC")),
                "type": ["A", "A"],
                # 12,000 and 300 years outside the years that dates have
                "far": pa.array([4_000_000, -1_000_000], pa.int32()).cast(pa.date32()),
            }
        )
    )
    patterns = ps.patterns("""
        pattern soon match A a -> not B for 5 seconds return a.far as far, evidence
        pattern late match A a -> not B within 9000 days
    """)
    found = patterns.match(ps.events(frame, id="ts")).toArrow().to_pylist()
    assert sorted((row["pattern"], plain(row["start"]), plain(row["end"])) for row in found) == [
        ("late", START, START + timedelta(days=9000)),
        ("late", late, None),
        ("soon", START, START + timedelta(seconds=5)),
        ("soon", late, None),
    ]


# Conditions


def test_more_predicates_than_bits(spark: SparkSession, frame: DataFrame) -> None:
    """Executors evaluate predicates beyond the 60 bits and those that Spark SQL lacks, with a large relation."""
    texts = [
        f"pattern p{i} match A a [v * {i} % 7 = {i % 3}] -> B b [x < {i}] within 3 seconds partition by user"
        for i in range(1, 40)
    ]
    texts.append(
        "pattern big match A a [cast(v as string) || 'x' in Names] -> B b where (a.v, b.v) in Pairs within 9 seconds partition by user"
    )
    patterns = ps.patterns("\n".join(texts))
    relations = {
        "Names": [f"{i}x" for i in range(1, 10_000)],
        "Pairs": pa.table({"one": [1, 2, 3], "other": [2, 3, 3]}),
    }
    stream = ps.events(frame)
    query = project_events(patterns.plan(), stream).query
    assert len(query.predicates) == 60
    assert sum(predicate.event_local for predicate in patterns.plan().predicates) > 60 + 15
    found = match_on_spark(patterns, stream, relations=relations)
    assert differences(found, match_locally(patterns, ps.events(TABLE), relations=relations)) == []
    assert {"p1", "p39", "big"} <= {row[0] for row in found}


def test_adversarial_names_and_literals(spark: SparkSession) -> None:
    names = [
        "a b",
        "a.b",
        "tick`s",
        "ünï😀",
        "__perseid_time",
        "__perseid_key0",
        "__perseid_hits",
        "__perseid_out3",
        "${env:HOME}",
        "select",
        "V",
        "v",
        "'q\"",
        "position",
        "pattern",
    ]
    kinds = ["A b", "x`'; drop table t; --", "$" + "{HOME}\\n"]
    rng = random.Random(3)
    rows = [
        {
            "ts": i,
            "type": rng.choice(kinds),
            **{name: rng.choice(["it's", "\\", "${env:HOME}", "%", "é"]) for name in names},
        }
        for i in range(60)
    ]
    quoted = {name: "`" + name.replace("`", "``") + "`" for name in [*names, *kinds]}
    patterns = ps.patterns("\n".join(
        f"pattern p{i} match {quoted[kinds[0]]} a [{quoted[name]} <> 'it''s'] -> {quoted[kinds[1]]} b"
        f" [{quoted[name]} = '${{env:HOME}}' or {quoted[name]} in ('\\', '%')] -> {quoted[kinds[2]]} c"
        f" where c.{quoted[name]} = a.{quoted[name]} within 20 seconds partition by {quoted[name] if name != 'pattern' else 'select'}"
        f" return b.{quoted[name]} as {quoted[name] if name != 'pattern' else 'x'}, evidence limit 2"
        for i, name in enumerate(names)
    ))  # fmt: skip
    table = pa.Table.from_pylist(rows)
    found = match_on_spark(patterns, ps.events(spark.createDataFrame(table)))
    assert differences(found, match_with_oracle(patterns, ps.events(table))) == []
    assert len({row[0] for row in found}) > len(names) - 4


# Counters and output


def test_counters(frame: DataFrame, spark: SparkSession) -> None:
    patterns = ps.patterns("""
        pattern waiting match A a -> C c within 2 seconds partition by user report timeouts
        pattern quiet match A a [v > 0] partition by user suppress 5 seconds
        pattern shown match A a -> B+ b -> C c within 9 seconds partition by host return evidence limit 2
    """)
    local = patterns.match(ps.events(TABLE))
    lost = frame.where("type = 'A'").limit(5).withColumn("ts", f.lit(None).cast("timestamp"))
    observation = Observation("counted")
    rows = patterns.match(ps.events(frame.unionByName(lost)), observation=observation).collect()
    counted = observation.get
    assert len(rows) == len(local)
    timed_out = sum(match.kind == "timed out" for match in local)
    wanted = TABLE.filter(pa.compute.is_in(TABLE["type"], pa.array(["A", "B", "C"]))).num_rows
    types = TABLE["type"].to_pylist()
    assert counted == {
        **{f"events of {name}": types.count(name) for name in "ABC"},
        "events": wanted + 5, "bad": 5, "matches": len(local) - timed_out, "timed_out": timed_out,
        "suppressed": local.suppressed, "evidence_dropped": local.evidence_dropped, "capped": 0, "duplicates": 0, "impossible": 0, "sampled": 0,
    }  # fmt: skip
    assert all(counted[name] for name in ("timed_out", "suppressed", "evidence_dropped"))


def test_exploded_evidence(frame: DataFrame) -> None:
    patterns = ps.patterns("""
        pattern shown match A a [ok] -> B+ b -> C c within 10 seconds partition by user return evidence limit 3
        pattern other match A a -> B b within 1 second partition by user return a.v as v1
    """)
    stream = ps.events(frame.withColumn("position", f.lit(7)).withColumn("Pattern", f.lit("p")))
    exploded = explode_evidence(patterns.match(stream))
    assert exploded.columns == [
        "match_id", "pattern", "position", *SCHEMA.names, "event_position", "event_Pattern",
    ]  # fmt: skip
    found: dict[str, list[Any]] = {}
    for row in sorted(exploded.collect(), key=lambda row: row.position):
        assert row.pattern == "shown"
        found.setdefault(row.match_id, []).append((row.type, row.v, row.ts.timestamp()))
    rows = {m.match_id for m in patterns.match(ps.events(TABLE)) if m.pattern == "shown"}
    assert len(found) == len(rows)
    assert all(events[0][0] == "A" and len(events) <= 3 for events in found.values())
    with pytest.raises(EventDataError, match="no evidence"):
        explode_evidence(frame)


# Sizes


def test_small_data_and_60_patterns(spark: SparkSession, frame: DataFrame) -> None:
    text = "\n".join(
        f"pattern p{i} match A a [v = {i % 5}] -> B b within {i + 1} seconds partition by user return a.v as v{i}"
        for i in range(50)
    )
    patterns = ps.patterns(text)
    observation = Observation()
    empty = spark.createDataFrame([], frame.schema)
    assert patterns.match(ps.events(empty), observation=observation).collect() == []
    assert set(observation.get.values()) == {0}
    alone = ps.patterns("pattern p match A a partition by user")
    one = spark.createDataFrame(TABLE.filter(pa.compute.equal(TABLE["type"], "A")).slice(0, 1)).repartition(4)
    assert len(alone.match(ps.events(one)).collect()) == 1
    found = match_on_spark(patterns, ps.events(frame))
    assert differences(found, match_locally(patterns, ps.events(TABLE))) == []
    assert len(found) > 50


# No early execution


def explained(frame: DataFrame) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain(mode="formatted")
    return out.getvalue()


def test_match_is_lazy_and_ships_only_used_columns(spark: SparkSession) -> None:
    ran = spark.sparkContext.accumulator(0)

    def count(value):  # type: ignore[no-untyped-def]  # Spark reads annotations as wishes
        ran.add(1)
        return value

    counted = f.udf(count, "int")
    wide = spark.range(20).selectExpr(
        "id",
        "timestamp_seconds(id) as ts",
        "if(id % 2 = 0, 'A', 'B') as type",
        *(f"id % {i} as c{i}" for i in range(2, 29)),
    )
    wide = wide.withColumn("u", counted("id"))
    pattern = ps.pattern("pattern p match A a [c7 > 0] -> B b where b.c2 > a.c3 within 9 seconds partition by u")
    tracker = spark.sparkContext.statusTracker()
    jobs = set(tracker.getJobIdsForGroup(None))
    matches = pattern.match(ps.events(wide, id="id"))
    assert matches.schema.names[:3] == ["pattern", "match_id", "kind"]
    assert set(tracker.getJobIdsForGroup(None)) == jobs
    assert ran.value == 0
    assert not matches.is_cached
    plan = explained(matches)
    # The printed tree starts at the root: operators below come later.
    tree = plan[: plan.index("\n\n")]
    assert tree.index("MapInArrow") < tree.index("Exchange") < tree.index("Filter"), tree
    crossing = next(part for part in plan.split("\n\n") if ") MapInArrow" in part)
    assert "Input [7]:" in crossing  # time, type, identity, hits, key, c2, c3
    names = project_events(pattern.plan(), ps.events(wide, id="id")).job.columns
    assert set(names) == {"c2", "c3"}


CONNECT = """
import sys
from pyspark.sql import Observation, SparkSession
import perseid as ps
spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
df = spark.createDataFrame(
    [(1, "A", 1.0, "x"), (2, "B", 5.0, "x"), (3, "A", 1.0, "y"), (4, "B", 0.0, "y"), (None, "A", 0.0, "y")],
    "ts long, type string, v double, k string")
p = ps.pattern("pattern q match A a -> B b [v > a.v and v > 0] within 1 minute partition by k "
               "return b.v - a.v as d, a.k || 'x' as s, evidence")
o = Observation("o")
rows = p.match(ps.events(df), observation=o).collect()
rows = [(r.k, r.d, r.s, len(r.evidence)) for r in rows]
print(rows, o.get["bad"], o.get["matches"])
spark.stop()
"""


@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason="Spark Connect needs grpc")
def test_spark_connect() -> None:
    """In a separate process with its own Connect server; nothing uses the JVM."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-c", CONNECT],
        env={**clean, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().splitlines()[-1] == "[('x', 4.0, 'xx', 2)] 1 1"


# Errors


SIMPLE = ps.pattern("pattern p match A a -> B b within 1 minute partition by user return a.v as v1")


def test_errors_of_the_stream(spark: SparkSession, frame: DataFrame) -> None:
    def assert_rejected(
        kind: type[PerseidError], text: str, stream: Any, pattern: PatternSet = SIMPLE, **options: Any
    ) -> None:
        with pytest.raises(kind, match=text):
            pattern.match(stream, **options)

    assert_rejected(
        EventDataError,
        r"Column 'tss' not found in the DataFrame; it is configured as the time column\. .*\n  = Did you mean 'ts'",
        ps.events(frame, time="tss"),
    )
    assert_rejected(
        EventDataError,
        "Column 'kind' not found in the DataFrame; it is configured as the type",
        ps.events(frame, type="kind"),
    )
    assert_rejected(
        EventDataError,
        r"Column 'usr' not found in the DataFrame; it is configured as the key column\.(.|\n)*Did you mean 'user'",
        ps.events(frame, key="usr"),
    )
    assert_rejected(EventDataError, "several columns named 'v'", frame.select("*", "v"))
    assert_rejected(TypeMismatchError, "Time column 'ok' is boolean", ps.events(frame, time="ok"))
    for mixed in ({"A": frame, "B": TABLE}, {"A": TABLE, "B": frame}):
        assert_rejected(EventDataError, "The inputs mix Spark DataFrames and local rows: got pyarrow", ps.events(mixed))
    assert_rejected(
        UnsupportedError, r"horizon= \(a fixed watermark\) is unsupported on Spark", ps.events(frame), horizon=EPOCH
    )
    for option in ({"checkpoint": "there"}, {"rejected": True}, {"observation": Observation()}):
        assert_rejected(
            UnsupportedError, "requires a Spark DataFrame, and these rows are local", ps.events(TABLE), **option
        )
    assert_rejected(EventDataError, "The dict of inputs is empty", ps.events({}))
    assert_rejected(
        EventDataError,
        "Unknown event type 'C' in time=",
        ps.events({"A": frame, "B": frame}, time={"A": "ts", "C": "ts"}),
    )
    assert_rejected(EventDataError, "Use a dict for several inputs", ps.events(frame, time={"A": "ts"}))
    assert_rejected(
        EventDataError, "No time column for the input 'B'", ps.events({"A": frame, "B": frame}, time={"A": "ts"})
    )
    assert_rejected(
        EventDataError,
        "'v' is int in one input and string",
        ps.events({"A": frame, "B": frame.withColumn("v", f.lit("x"))}),
    )
    assert_rejected(
        EventDataError, "Some inputs are streams", ps.events({"A": frame, "B": spark.readStream.format("rate").load()})
    )
    keyless = {"A": frame, "B": frame.drop("user")}
    assert_rejected(
        UnknownNameError, "Column 'user' not found in B; pattern .* is partitioned by it", ps.events(keyless)
    )
    assert_rejected(
        EventDataError,
        "Column 'user' not found in .*; it is configured as the key",
        ps.events(keyless, key={"A": "user"}),
    )


class Changed:
    """A class that this version lacks, as another version pickled it."""

    def __reduce__(self) -> Any:
        return getattr, (str, "no_such_name")


def test_another_version_on_executors(frame: DataFrame) -> None:
    job = project_events(SIMPLE.plan(), ps.events(frame)).job
    assert pickle.loads(pickle.dumps(job)).keys == job.keys
    forged = replace(job, version="0.0.7", plan=Changed())
    with pytest.raises(VersionMismatchError, match=r"The driver runs perseid 0\.0\.7, this executor runs "):
        pickle.loads(pickle.dumps(forged))
    with pytest.raises(PythonException, match=r"VersionMismatchError: The driver runs perseid 0\.0\.7"):
        frame.mapInArrow(forged, "pattern string").collect()


def test_errors_of_the_patterns(spark: SparkSession, frame: DataFrame) -> None:
    def assert_rejected(kind: type[PerseidError], text: str, pattern: str, **options: Any) -> str:
        with pytest.raises(kind, match=text) as caught:
            ps.patterns(pattern).match(ps.events(frame), **options)
        return str(caught.value)

    shown = assert_rejected(
        UnknownNameError,
        "Column 'usr' not found in the DataFrame",
        "pattern p match A a [usr = 'x'] -> B b within 1 second",
    )
    assert "Did you mean 'user'" in shown
    assert "^^^" in shown
    assert_rejected(
        UnknownNameError,
        "Column 'nope' not found in the DataFrame",
        "pattern p match A a -> B b within 1 second return b.nope",
    )
    assert_rejected(
        UnknownNameError,
        "Column 'device.idd' not found in the input; pattern p is partitioned",
        "pattern p match A a partition by device.idd",
    )
    assert_rejected(BindingError, "is a DataFrame", "pattern p match A a [s in R]", relations={"R": frame})
    assert_rejected(BindingError, "uses the relation 'R', which is missing", "pattern p match A a [s in R]")
    across = "pattern p match A a partition by user return a.s suppress 1 hour by s"
    assert "suppress … by user, s" in assert_rejected(
        UnsupportedError, "matches of different keys are found in different tasks", across
    )
    assert_rejected(
        TypeMismatchError, "returned column 'n' does not follow from the schema", "pattern p match A a return null as n"
    )
    shown = assert_rejected(
        TypeMismatchError,
        "'=' cannot compare a struct",
        "pattern p match A a -> B b within 1 second return a.device = b.device as same",
    )
    assert "^^^" in shown
    listed = "pattern p match A a -> B+ b -> C c within 9 seconds return collect(b.v) as x"
    for other in ("a.v as x", "a.s as x", "a.device as x", "a.x = 1.0 as x"):
        both = f"{listed}\npattern q match A a -> B b within 1 second return {other}"
        shown = assert_rejected(
            TypeMismatchError, r"Patterns p and q have an output column 'x' with incompatible types: list<", both
        )
        assert "return … as x_q" in shown
    keyed = f"{listed.replace('as x', 'as user')}\npattern q match A a -> B b within 1 second partition by user"
    assert_rejected(TypeMismatchError, "have an output column 'user' with incompatible types", keyed)
    odd = frame.selectExpr("*", "parse_json('1') as variant", "map('a', 1) as table")
    for text, kind in (
        ("pattern p match A a -> B b where b.variant = a.variant within 1 second", UnsupportedError),
        ("pattern p match A a partition by variant", TypeMismatchError),
        ("pattern p match A a partition by table", TypeMismatchError),
    ):
        with pytest.raises(kind):
            ps.pattern(text).match(ps.events(odd, id="v"))
