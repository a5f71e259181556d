"""``median`` and ``percentile`` equal Spark's aggregates of the same names, to the last bit."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from perseid.compile.compiler import compile_set
from perseid.engines.sequence.matcher import kernel_matcher
from perseid.lang.expressions import Call
from perseid.lang.parser import parse_expression, parse_pattern
from perseid.runtime.jit import COMPILED
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.detection import detect
from perseid.semantics.events import Event
from perseid.semantics.functions import FUNCTIONS, literal_fraction
from perseid.semantics.resolve import resolve
from perseid.spark.sql.columns import spark_type

MAX, MIN = 2**63 - 1, -(2**63)
GROUPS = 300
FRACTIONS = ("0", "1", "0.5", "0.1", "0.9", "0.25", "0.99", "0.333333333333333333", "1e-300", "0.9999999999999999e0")
ASKED = (
    "median({0})", "median(distinct {0})", "percentile(distinct {0}, 0.9)",
    *(f"percentile({{0}}, {fraction})" for fraction in FRACTIONS),
)  # fmt: skip
_SPECIAL = (0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan, 2.0**53 + 2, 0.1)


def _double(rng: random.Random) -> float:
    return rng.choice([rng.choice(_SPECIAL), rng.gauss(0, 1e6), round(rng.uniform(-9, 9), 1), float(rng.randint(0, 3))])


def _decimal(precision: int, scale: int) -> Callable[[random.Random], Decimal]:
    def make(rng: random.Random) -> Decimal:
        number = rng.choice([rng.randint(-9, 9), rng.randrange(10 ** rng.randint(1, precision)), 10**precision - 1])
        return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))

    return make


KINDS: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "bigint": (pa.int64(), lambda rng: rng.choice([MAX, MIN, MAX - 1, 2**53 + 1, rng.randint(-9, 9), rng.randint(MIN, MAX)])),
    "tinyint": (pa.int8(), lambda rng: rng.randint(-128, 127)),
    "double": (pa.float64(), _double),
    "float": (pa.float32(), lambda rng: float(np.float32(rng.choice([0.1, math.nan, math.inf, -0.0, rng.gauss(0, 9)])))),
    "decimal(10,2)": (pa.decimal128(10, 2), _decimal(10, 2)),
    "decimal(38,18)": (pa.decimal128(38, 18), _decimal(38, 18)),
    "duration": (pa.duration("us"), lambda rng: rng.choice([MAX, MIN, 2**53 + 1, rng.randint(-9, 9), rng.randint(0, 10**13)])),
}  # fmt: skip


def _groups(kind: str) -> list[list[Any]]:
    """Return the values of random groups, many of them equal or null; durations as microseconds."""
    rng, make = random.Random(f"percentiles of {kind}"), KINDS[kind][1]
    groups: list[list[Any]] = []
    for _ in range(GROUPS):
        few = [None, *(make(rng) for _ in range(3))]
        size = rng.choice([1, 2, 3, 4, 5, 8, 40])
        groups.append([rng.choice(few) if rng.random() < 0.3 else make(rng) for _ in range(size)])
    return groups


def _bits(value: object) -> object:
    """Return a double by its bits, so that only identical values are equal; NaN and zero have one representation."""
    if not isinstance(value, float):
        return value
    return "nan" if math.isnan(value) else struct.pack("d", value or 0.0)


def _aggregate_on_spark(spark: SparkSession, kind: str, groups: list[list[Any]]) -> list[tuple[object, ...]]:
    type_ = KINDS[kind][0]
    flat = [(g, x) for g, values in enumerate(groups) for x in values]
    column = pa.array([x for _, x in flat], pa.int64() if kind == "duration" else type_).cast(type_)
    frame = spark.createDataFrame(pa.table({"g": [g for g, _ in flat], "x": column})).repartition(3)
    rows = frame.groupBy("g").agg(*(expr(text.format("x")).alias(f"c{i}") for i, text in enumerate(ASKED))).orderBy("g")
    table = rows.toArrow()
    found = []
    for field, values in zip(rows.schema.fields[1:], table.columns[1:], strict=True):
        if kind == "duration":
            assert str(spark_type(field.dataType)) == "duration"
            micros = values.cast(pa.int64()).to_pylist()
            found.append([None if x is None else timedelta(microseconds=x) for x in micros])
        else:
            found.append(values.to_pylist())
    return [tuple(map(_bits, row)) for row in zip(*found, strict=True)]


def _evaluated(kind: str, values: list[Any]) -> tuple[object, ...]:
    """Evaluate the expressions with the table of functions."""
    typed = list(values)
    if kind == "duration":
        typed = [None if x is None else v.duration(x) for x in values]
    elif kind.startswith("decimal"):
        typed = [v.conform(x, t.parse_type(kind)) for x in values]
    found = []
    for text in ASKED:
        call = parse_expression(text.format("t.x"))
        assert isinstance(call, Call)
        known = list({v.identity(x): x for x in typed}.values()) if call.distinct else list(typed)
        found.append(FUNCTIONS[call.name].run(known, *(literal_fraction(arg) for arg in call.args[1:])))
    return tuple(map(_bits, found))


@pytest.fixture(scope="module")
def of_spark(spark: SparkSession) -> Callable[[str], list[tuple[object, ...]]]:
    known: dict[str, list[tuple[object, ...]]] = {}

    def get(kind: str) -> list[tuple[object, ...]]:
        if kind not in known:
            known[kind] = _aggregate_on_spark(spark, kind, _groups(kind))
        return known[kind]

    return get


@pytest.mark.parametrize("kind", KINDS)
def test_percentiles_equal_those_of_spark(of_spark: Callable[[str], list[tuple[object, ...]]], kind: str) -> None:
    for values, wanted in zip(_groups(kind), of_spark(kind), strict=True):
        assert _evaluated(kind, values) == wanted, values


@pytest.mark.parametrize(
    "compiled", [pytest.param(True, marks=pytest.mark.skipif(not COMPILED, reason="Numba is switched off")), False]
)
@pytest.mark.parametrize("kind", ["bigint", "double"])
def test_percentiles_of_the_kernel_equal_those_of_spark(
    of_spark: Callable[[str], list[tuple[object, ...]]], kind: str, compiled: bool
) -> None:
    returned = ", ".join(f"{text.format('t.x')} as c{i}" for i, text in enumerate(ASKED))
    pattern = resolve(
        parse_pattern(f"pattern p match T+ t within 1 hour partition by g after match skip past last return {returned}")
    )
    events = [
        Event("T", at, {"g": g, "x": x}, f"e{g:03d} {at:03d}", 0, (0, at))
        for g, values in enumerate(_groups(kind))
        for at, x in enumerate(values)
    ]
    matches = detect([pattern], events, kernel_matcher(compile_set([pattern]), compiled=compiled)).matches
    found = {match.key["g"]: tuple(_bits(match.values[f"c{i}"]) for i in range(len(ASKED))) for match in matches}
    assert [found[g] for g in range(GROUPS)] == of_spark(kind)
