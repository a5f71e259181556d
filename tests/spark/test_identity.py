"""Spark, the kernels and the reference give a row the same identity, in any session settings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from perseid.engines.sequence.stream import Events, read_events
from perseid.runtime import hashing
from perseid.semantics import hashing as reference
from perseid.spark.identity import hash_text, identity_text
from tests.spark.settings import settings

ROWS = 150
SESSIONS = [("true", "America/New_York"), ("false", "Asia/Kolkata")]
TEXTS = ["", "a", "ä", "𝄞 clef", "🜁", "0", " ", "\x00", "naïve", "x" * 31, "y" * 32, "z" * 33, "ß" * 50, "null"]
DOUBLES = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324, 1.5, -1e300, 0.1, 1e7]


def whole(bits: int) -> Callable[[random.Random], int]:
    edge = 2 ** (bits - 1)
    return lambda rng: rng.choice([0, 1, -1, edge - 1, -edge, rng.randrange(-edge, edge)])


def decimal(precision: int, scale: int) -> Callable[[random.Random], Decimal]:
    def draw(rng: random.Random) -> Decimal:
        digits = rng.choice([0, 1, rng.randrange(10 ** rng.randint(1, precision))])
        return Decimal(f"{rng.choice(['', '-']) if digits else ''}{digits}E-{scale}")

    return draw


def moment(rng: random.Random) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(-(10**16), 2 * 10**16))


def lists(inner: Callable[[random.Random], Any]) -> Callable[[random.Random], list[Any]]:
    return lambda rng: [maybe(inner, rng) for _ in range(rng.randint(0, 3))]


def maps(key: Callable[[random.Random], Any], value: Callable[[random.Random], Any]) -> Callable[[random.Random], Any]:
    return lambda rng: {key(rng): maybe(value, rng) for _ in range(rng.randint(0, 4))}


def structs(**fields: Callable[[random.Random], Any]) -> Callable[[random.Random], dict[str, Any]]:
    return lambda rng: {name: maybe(draw, rng) for name, draw in fields.items()}


def maybe(draw: Callable[[random.Random], Any], rng: random.Random) -> Any:
    return None if rng.random() < 0.2 else draw(rng)


def text(rng: random.Random) -> str:
    return rng.choice(TEXTS) + rng.choice(["", str(rng.randrange(100))])


def double(rng: random.Random) -> float:
    return rng.choice([*DOUBLES, rng.gauss(0, 1)])


def single(rng: random.Random) -> float:
    return float(np.float32(rng.choice([0.0, -0.0, float("nan"), float("inf"), rng.gauss(0, 1)])))


DRAWN: dict[str, tuple[str, Callable[[random.Random], Any]]] = {
    "tiny": ("tinyint", whole(8)),
    "small": ("smallint", whole(16)),
    "number": ("int", whole(32)),
    "big": ("bigint", whole(64)),
    "yes": ("boolean", lambda rng: rng.random() < 0.5),
    "single": ("float", single),
    "double": ("double", double),
    "text": ("string", text),
    "bytes": ("binary", lambda rng: bytearray(text(rng).encode() + bytes(rng.randrange(256) for _ in range(3)))),
    "at": ("timestamp", moment),
    "at_ntz": ("timestamp_ntz", lambda rng: moment(rng).replace(tzinfo=None)),
    "day": ("date", lambda rng: date(1970, 1, 1) + timedelta(days=rng.randrange(-700_000, 2_000_000))),
    "span": ("interval day to second", lambda rng: timedelta(microseconds=rng.randrange(-(10**15), 10**15))),
    "money": ("decimal(10,2)", decimal(10, 2)),
    "long_money": ("decimal(38,0)", decimal(38, 0)),
    "fine": ("decimal(38,18)", decimal(38, 18)),
    "finest": ("decimal(38,38)", decimal(38, 38)),
    "six": ("decimal(9,6)", decimal(9, 6)),
    "list": ("array<int>", lists(whole(32))),
    "texts": ("array<string>", lists(text)),
    "deep": ("array<array<double>>", lists(lists(double))),
    "record": (
        "struct<zeta:int,alpha:string,`odd ``name``.`:struct<when:timestamp,how:decimal(20,10)>>",
        structs(
            zeta=whole(32), alpha=text, **{"odd `name`.": structs(when=moment, how=decimal(20, 10))}
        ),
    ),
    "records": ("array<struct<a:bigint,b:array<boolean>>>", lists(structs(a=whole(64), b=lists(lambda r: r.random() < 0.5)))),
    "map": ("map<string,int>", maps(text, whole(32))),
    "number_map": ("map<int,array<string>>", maps(whole(32), lists(text))),
    "maps": ("map<string,map<bigint,struct<x:float>>>", maps(text, maps(whole(64), structs(x=single)))),
    "odd `name`.of it": ("string", text),
    "nothing": ("void", lambda rng: None),
}  # fmt: skip


@pytest.fixture(scope="module")
def drawn() -> list[dict[str, Any]]:
    rng = random.Random(7)
    return [{name: maybe(draw, rng) for name, (_, draw) in DRAWN.items()} for _ in range(ROWS)]


@pytest.fixture(scope="module")
def frame(spark: SparkSession, drawn: list[dict[str, Any]]) -> Iterator[DataFrame]:
    schema = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, (kind, _) in DRAWN.items())
    made = spark.createDataFrame([tuple(row.values()) for row in drawn], schema).coalesce(1).cache()
    yield made
    made.unpersist()


def kinds(frame: DataFrame) -> list[tuple[str, st.DataType]]:
    return [(field.name, field.dataType) for field in frame.schema.fields]


def evaluate_in_jvm(frame: DataFrame, texts: list[str]) -> tuple[list[list[int]], pa.Table]:
    """Return the value of each text in each row, and the rows, in the same order."""
    named = [f"{text} as h{i}" for i, text in enumerate(texts)]
    table = frame.selectExpr("*", *named).toArrow()
    found = [table[f"h{i}"].to_pylist() for i in range(len(texts))]
    return found, table.drop_columns([f"h{i}" for i in range(len(texts))])


@pytest.mark.parametrize(("ansi", "zone"), SESSIONS)
def test_values_of_every_type_have_one_identity(
    spark: SparkSession, frame: DataFrame, drawn: list[dict[str, Any]], ansi: str, zone: str
) -> None:
    columns = kinds(frame)
    with settings(spark, spark__sql__ansi__enabled=ansi, spark__sql__session__timeZone=zone):
        found, table = evaluate_in_jvm(
            frame, [*(hash_text([column]) for column in columns), *(hash_text([c], leading=1) for c in columns)]
        )
    for (name, _), hashes, led in zip(columns, found, found[len(columns) :], strict=False):
        assert hashes == hashing.hash_columns([table[name]]).tolist(), name
        assert led == hashing.hash_columns([table[name]], leading=1).tolist(), name
        assert hashes == [reference.hash_values([row[name]]) for row in drawn], name
        assert led == [reference.hash_values([row[name]], leading=1) for row in drawn], name


@pytest.mark.parametrize(("ansi", "zone"), SESSIONS)
def test_rows_have_one_identity(
    spark: SparkSession, frame: DataFrame, drawn: list[dict[str, Any]], ansi: str, zone: str
) -> None:
    columns = kinds(frame)
    types = dict(columns)
    ids = [[], ["big"], ["number"], ["text"], ["big", "text"], ["yes"], ["fine"], list(reversed(types))]
    keys: list[list[str]] = [[], ["number"], ["text", "record", "map"]]
    with settings(spark, spark__sql__ansi__enabled=ansi, spark__sql__session__timeZone=zone):
        texts = [identity_text([(name, types[name]) for name in names], columns) for names in ids]
        for names in keys:
            columns_of_key = [(name, types[name]) for name in names]
            texts += [hash_text(columns_of_key), hash_text(columns_of_key, leading=1)]
        found, table = evaluate_in_jvm(frame, texts)
    whole_table = {name: table[name] for name in table.column_names}
    for names, got in zip(ids, found, strict=False):
        assert got == hashing.identities([table[name] for name in names], whole_table).tolist(), names
        plain = [
            reference.identity_of([row[name] for name in names])
            if names
            else reference.hash_values([row[name] for name in sorted(row)])
            for row in drawn
        ]
        assert got == plain, names
    for names, first, second in zip(keys, found[len(ids) :: 2], found[len(ids) + 1 :: 2], strict=True):
        words = list(map(list, zip(first, second, strict=True)))
        assert words == hashing.key_words([table[name] for name in names], rows=ROWS).tolist(), names
        assert words == [list(reference.key_words([row[name] for name in names])) for row in drawn], names


def test_field_of_a_struct_has_the_identity_of_its_value(frame: DataFrame) -> None:
    record = frame.schema["record"].dataType
    assert isinstance(record, st.StructType)
    inner = record["odd `name`."].dataType
    assert isinstance(inner, st.StructType)
    path = ("record", "odd `name`.", "how")
    (found, values), _ = evaluate_in_jvm(
        frame, [hash_text([(path, inner["how"].dataType)]), "record.`odd ``name``.`.how"]
    )
    assert found == [reference.hash_values([value]) for value in values]


def test_identity_of_100_columns(spark: SparkSession) -> None:
    rows = [tuple(None if (i * 7 + row) % 5 == 0 else i for i in range(125)) for row in range(20)]
    frame = spark.createDataFrame(rows, ", ".join(f"c{i} int" for i in range(125)))
    (found,), table = evaluate_in_jvm(frame, [hash_text(kinds(frame))])
    assert found == hashing.hash_columns(table.columns).tolist()
    assert sorted(found) == sorted(reference.hash_values(row) for row in rows)


def test_identity_ignores_the_order_of_a_map(spark: SparkSession) -> None:
    frame = spark.sql("select map('a', 1, 'b', 2) as x, map('b', 2, 'a', 1) as y, named_struct('b', 2, 'a', 1) as z")
    found, _ = evaluate_in_jvm(frame, [hash_text([column]) for column in kinds(frame)])
    assert {one for (one,) in found} == {reference.hash_values([{"a": 1, "b": 2}])}


def test_collations_and_unsupported_types(spark: SparkSession) -> None:
    frame = spark.sql(
        "select 'Ab' collate UTF8_LCASE as text, interval '3' month as months, named_struct() as empty, "
        "array(interval '3' month) as list, parse_json('{\"b\": 1, \"a\": [null]}') as variant"
    )
    texts = [hash_text([column]) for column in kinds(frame)]
    found = list(frame.selectExpr(*texts).collect()[0])
    assert found == [reference.hash_values([value]) for value in ("Ab", None, {}, [None], '{"a":[null],"b":1}')]


def test_local_events_and_spark_rows_are_the_same_events(spark: SparkSession) -> None:
    rows: list[dict[str, Any]] = [
        {"ts": moment(random.Random(i)), "type": "A", "user": "ann"} | ({"amount": i / 2} if i % 2 else {"n": i})
        for i in range(10)
    ]
    frame = spark.createDataFrame(rows, "ts timestamp, type string, user string, amount double, n bigint")
    (found,), _ = evaluate_in_jvm(frame, [identity_text([], kinds(frame))])
    assert sorted(found) == sorted(int(event.id) for event in read_events(Events(rows)))
