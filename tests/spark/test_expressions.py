"""On Spark, the SQL text of an expression has the value of the reference evaluator, in any session settings."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from perseid.errors import PatternError
from perseid.lang.expressions import Binary, Call, Case, Cast, Expr, InList, Literal, Ref, Unary, walk
from perseid.lang.parser import parse_expression
from perseid.lang.printer import print_expr
from perseid.semantics import types as t
from perseid.semantics import values as v
from perseid.semantics.evaluate import evaluate, is_true
from perseid.semantics.functions import FUNCTIONS, UNITS
from perseid.semantics.typing import infer, member_type
from perseid.spark.expressions import predicate_text, sql_text
from perseid.spark.sql.columns import spark_type
from tests.generators.expression_strategies import expressions
from tests.semantics.test_expressions import NoSchema

SESSIONS = [("true", "America/New_York"), ("false", "Asia/Kolkata")]
COLUMNS_AT_ONCE = 120
APPROXIMATE = {"ln", "log10", "exp", "power", "distance_km", "angle"}
"""Java and C round the last bit of these differently."""
NOT_TRANSLATED = {"regexp_extract": "Java's engine backtracks, and its groups differ from those of RE2"}
"""Functions that no test exercises, each with the reason."""

MAX, MIN = 2**63 - 1, -(2**63)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ODD = "odd `name`.of 'it' \\ é"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("m", pa.int64()), ("n", pa.int32()), ("tiny", pa.int8()), ("small", pa.int16()),
        ("x", pa.float64()), ("y", pa.float64()), ("f", pa.float32()),
        ("price", pa.decimal128(10, 2)), ("big", pa.decimal128(38, 0)), ("fine", pa.decimal128(38, 18)),
        ("part", pa.decimal128(5, 5)),
        ("word", pa.string()), ("bit", pa.string()), ("digits", pa.string()), ("written", pa.string()),
        ("span", pa.string()), ("yes", pa.bool_()), ("no", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")), ("till", pa.timestamp("us", "UTC")), ("wall", pa.timestamp("us")),
        ("born", pa.date32()), ("gap", pa.duration("us")), ("raw", pa.binary()),
        ("device", pa.struct([("os", pa.string()), ("n", pa.int32()), ("at", pa.timestamp("us")), (ODD, pa.int64())])),
        ("items", pa.list_(pa.int32())), ("xs", pa.list_(pa.float64())), ("words", pa.list_(pa.string())),
        ("lines", pa.list_(pa.struct([("price", pa.decimal128(10, 2)), ("when", pa.timestamp("us"))]))),
        ("tags", pa.map_(pa.string(), pa.int32())), ("by_id", pa.map_(pa.int64(), pa.string())),
        ("lat", pa.float64()), ("lon", pa.float64()), (ODD, pa.int64()),
        ("time", pa.timestamp("us", "UTC")), ("type", pa.string()),
    ]
)  # fmt: skip

_INTEGERS = (0, 1, -1, 7, 60, MAX, MIN, MAX - 1, 2**53 + 1, -(2**53) - 1, 10**12, 1714557600)
_DOUBLES = (
    0.0, -0.0, 1.0, -1.5, 2.5, 0.1, 1e300, -1e300, 5e-324, 1e16, 2.0**63, -(2.0**63), 9007199254740993.0, 123456.785,
    math.inf, -math.inf, math.nan, 253402300799.9, 2e23, 1.005,
)  # fmt: skip
_WORDS = (
    "", " ", "abc", "ABC", "  ab  ", "a,b,,c", "a%b_c", "back\\slash", "it's \"quoted\"", "naïve ß İ", "😀x😀", "\t tab\n",
    "aaaa", "ΑΣ", "x" * 5000, "null", "${env:HOME}", "é", "vip",
)  # fmt: skip
_BITS = ("", "a", "b", ",", "ab", "%", "_", "\\", "😀", "ß", "c", "x", "'")
_NUMBER_TEXTS = (
    "1", " 42 ", "-7", "+5", "1.5", ".5", "5.", "1e3", "1E-3", "1e400", "-1e400", "1e-400", "nan", "NaN", "inf", "-Infinity",
    "+inf", "0x10", "1d", "1.5f", "1.d", "", " ", "abc", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "1_000", "1,5", "true", "T", "yes", "0", "F", "no", "\x011\x7f", "٣", "1e999999999", "1e-999999999", "0e999999999",
    "1e-100000000", "0." + "0" * 900 + "1e905", "0" * 1000, "0" * 1001, "12345678901234567890123456789012345678.5", "1 2",
    "--1", "1e", "e5", "1e+5", "0.005", "-0.005", "1.005", "99999999999999999999999999999999999999.9", "-0", "-0.0",
)  # fmt: skip
_TIME_TEXTS = (
    "2024-05-01", "2024-05-01 10:20:30", "2024-05-01T10:20:30Z", "2024-05-01T10:20:30.123456789+02:00", "2024-5-1 1:2:3",
    "2024", "2024-05", "2024-02-30", "2024-13-01", "2024-05-01 24:00:00", "2024-05-01 10:20", "2024-05-01 10", "2024-05-01T",
    "2024-05-01 10:20:30 UTC", "2024-05-01 10:20:30 +5", "2024-05-01 10:20:30-0530", "2024-05-01 10:20:30+18:00",
    "0001-01-01 00:00:00+01:00", "9999-12-31 23:59:59.999999", "9999-12-31 23:59:59-01:00", "0000-01-01", "10000-01-01",
    "2024-05-01 10:20:30 Europe/Paris", "2024-05-01 10:20:30.", "2024-05-01 10:20:30.5", " 2024-05-01 ", "2024-05-01 x",
    "2024-05-01Tx", "2024 x", "-2024-05-01", "+2024-05-01", "10:20:30", "T10:20", "now", "", "2024-03-10 02:30:00",
    "2024-03-31T02:30:00", "2024-05-01 10:20:30 PST", "1582-10-10", "2024-05-01\t10:20", "2024-05-01\t", "20240501",
    "2024-05-01 10:20:60", "2024-05-01 10:60:00", "2024-05-01 10:20Z", "2024-05-01 10:20 +05:30",
    "2024-05-01 10:20:30+530", "2024-05-01 10:20:30+18:30", "2024-05-01 10:20:30+19", "2024-05-01 10:20:30.-5:30", "2024-05-01 10:20:30+05:60", "2024-05-01 10:20:30+5:3", "2024-05-01 10:20:30z",
)  # fmt: skip
_SPAN_TEXTS = (
    "1 02:03:04", "-1 02:03:04.5", "+0 0:0:0", "0 23:59:59.999999999", "0 24:00:00", "0 00:60:00", "999999999 00:00:00", "1",
    "02:03:04", "1 02:03", " 1 02:03:04 ", "106751991 04:00:54.775807", "106751991 04:00:54.775808", "1  02:03:04", "",
    "INTERVAL '1 02:03:04' DAY TO SECOND", "1 day", "-106751991 04:00:54.775808", "1 02:03:04.",
)  # fmt: skip
_MOMENTS = (
    datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), EPOCH,
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(2024, 3, 10, 7, 30, tzinfo=UTC),
    datetime(2024, 3, 9, 7, 30, tzinfo=UTC), datetime(2024, 11, 3, 6, 30, 0, 5, tzinfo=UTC),
    datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=UTC), datetime(1582, 10, 10, 1, tzinfo=UTC),
    datetime(1883, 11, 18, 17, 2, tzinfo=UTC), datetime(2300, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
)  # fmt: skip
_GAPS = (0, 1, -1, 60_000_000, 86_400_000_000, -86_400_000_001, 10**16, MAX, MIN, 3_600_000_000, 10**18)


def _decimal(rng: random.Random, precision: int, scale: int) -> Decimal:
    digits = rng.choice([1, 2, precision // 2 + 1, precision, precision])
    number = rng.choice([0, 10**precision - 1, rng.randrange(10**digits), rng.randrange(10**digits)])
    return Decimal((rng.randrange(2) if number else 0, tuple(map(int, str(number))), -scale))


def _between(rng: random.Random, first: datetime, last: datetime) -> datetime:
    return first + timedelta(microseconds=rng.randrange((last - first) // timedelta(microseconds=1)))


def _row(rng: random.Random) -> dict[str, Any]:
    def moment() -> datetime:
        recent = _between(rng, datetime(2020, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
        return rng.choice([recent, rng.choice(_MOMENTS), _between(rng, _MOMENTS[0], _MOMENTS[1])])

    def integer() -> int:
        return rng.choice([rng.choice(_INTEGERS), rng.randint(-100, 100), rng.randint(MIN, MAX)])

    def double() -> float:
        return rng.choice([rng.choice(_DOUBLES), round(rng.uniform(-1000, 1000), rng.randrange(5)), rng.gauss(0, 1e6)])

    def word() -> str:
        return rng.choice([rng.choice(_WORDS), "".join(rng.choices("abAB,é😀 ", k=rng.randrange(8)))])

    def several(make: Any) -> list[Any]:
        return [maybe(make) for _ in range(rng.choice([0, 1, 2, 3, 5]))]

    def maybe(make: Any) -> Any:
        return None if rng.random() < 0.1 else make()

    def naive() -> datetime:
        return moment().replace(tzinfo=None)

    def device() -> dict[str, Any]:
        return {"os": maybe(word), "n": maybe(lambda: rng.randint(-5, 5)), "at": maybe(naive), ODD: maybe(integer)}

    makers = {
        "id": integer, "m": integer, "n": lambda: rng.choice([2**31 - 1, -(2**31), 0, rng.randint(-9, 9)]),
        "tiny": lambda: rng.choice([-128, 127, rng.randint(-9, 9)]), "small": lambda: rng.choice([-32768, 32767, 3]),
        "x": double, "y": double, "f": lambda: rng.choice([float(np.float32(0.1)), -0.0, math.nan, math.inf, 1.5, 16777216.0]),
        "price": lambda: _decimal(rng, 10, 2), "big": lambda: _decimal(rng, 38, 0), "fine": lambda: _decimal(rng, 38, 18),
        "part": lambda: _decimal(rng, 5, 5),
        "word": word, "bit": lambda: rng.choice(_BITS), "digits": lambda: rng.choice(_NUMBER_TEXTS),
        "written": lambda: rng.choice(_TIME_TEXTS), "span": lambda: rng.choice(_SPAN_TEXTS),
        "yes": lambda: rng.random() < 0.5, "no": lambda: rng.random() < 0.5,
        "at": moment, "till": moment, "wall": naive, "born": lambda: moment().date(),
        "gap": lambda: timedelta(microseconds=rng.choice([rng.choice(_GAPS), rng.randint(-10**12, 10**12)])),
        "raw": lambda: rng.choice([b"", b"a", b"\xff\x00", b"ab"]), "device": device,
        "items": lambda: several(lambda: rng.randint(-3, 3)), "xs": lambda: several(lambda: rng.choice(_DOUBLES)),
        "words": lambda: several(lambda: rng.choice(["vip", "a", "", "é"])),
        "lines": lambda: several(lambda: {"price": maybe(lambda: _decimal(rng, 10, 2)), "when": maybe(naive)}),
        "tags": lambda: {k: maybe(lambda: rng.randint(0, 9)) for k in rng.sample(["a", "b", "colour", "é", ""], k=3)},
        "by_id": lambda: {k: maybe(word) for k in {1, 7, MAX, rng.randint(0, 3)}},
        "lat": lambda: rng.choice([rng.uniform(-90, 90), 90.0, 0.0, math.nan, math.inf]),
        "lon": lambda: rng.choice([rng.uniform(-180, 180), 180.0, -180.0, 0.0]), ODD: integer,
        "time": moment, "type": lambda: rng.choice(["Login", "Pay"]),
    }  # fmt: skip
    return {name: maybe(makers[name]) for name in SCHEMA.names}


def _rows() -> list[dict[str, Any]]:
    rng = random.Random(20240501)
    rows = [_row(rng) for _ in range(100)]
    # Every text that casts have to read comes up at least once.
    for name, texts in (("digits", _NUMBER_TEXTS), ("written", _TIME_TEXTS), ("span", _SPAN_TEXTS), ("word", _WORDS)):
        for row, text in zip(rows, texts, strict=False):
            row[name] = text
    for row, number in zip(rows, _DOUBLES, strict=False):
        row["x"] = number
    return rows


ROWS = _rows()
EMPTY: dict[str, Any] = dict.fromkeys(SCHEMA.names)


class Scope:
    """Scope of one event, with its columns in their declared types."""

    def __init__(self, row: dict[str, Any], columns: dict[str, spark_types.DataType]) -> None:
        self.row = {name: v.conform(row[name], spark_type(columns[name])) for name in columns}

    def ref(self, parts: tuple[str, ...]) -> object:
        value: Any = self.row
        for part in parts:
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def rounds(self, names: frozenset[str]) -> list[Any]:
        return []

    def is_step(self, name: str) -> bool:
        return False

    def param(self, name: str) -> object:
        return None

    def relation(self, name: str) -> None:
        return None

    def time(self, step: str | None) -> Any:
        return self.row["time"] if step is None else None

    def event_type(self, step: str | None) -> Any:
        return self.row["type"] if step is None else None


class Columns(NoSchema):
    """Types of the columns by name."""

    def __init__(self, columns: dict[str, spark_types.DataType]) -> None:
        self.columns = columns

    def ref(self, ref: Ref) -> t.Type:
        found = spark_type(self.columns[ref.parts[0]])
        for part in ref.parts[1:]:
            found = member_type(found, part)
        return found

    def is_step(self, name: str) -> bool:
        return False


def _column(field: pa.Field) -> pa.Array:
    values = [row[field.name] for row in ROWS]
    if pa.types.is_duration(field.type):  # Arrow rejects the extreme values that Python has
        return pa.array([None if x is None else v.microseconds(x) for x in values], pa.int64()).cast(field.type)
    if pa.types.is_map(field.type):
        values = [None if x is None else list(x.items()) for x in values]
    return pa.array(values, field.type)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> Iterator[DataFrame]:
    # Cached: otherwise the optimizer folds a local table, and the code that runs on real data never runs.
    found = spark.createDataFrame(pa.table([_column(field) for field in SCHEMA], schema=SCHEMA)).persist()
    found.count()
    yield found
    found.unpersist()


@pytest.fixture(scope="module")
def scopes(frame: DataFrame) -> tuple[Scope, ...]:
    columns = _columns(frame)
    return tuple(Scope(row, columns) for row in ROWS)


@contextmanager
def session(spark: SparkSession, ansi: str, zone: str) -> Iterator[None]:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def _columns(frame: DataFrame) -> dict[str, spark_types.DataType]:
    return {field.name: field.dataType for field in frame.schema.fields}


def _evaluate_on_spark(frame: DataFrame, texts: Sequence[str]) -> list[tuple[t.Type, list[Any]]]:
    """Return type and values of each text over all rows; times are numbers, because the session's zone would shift them."""
    found = frame.selectExpr(*(f"{text} as `{index}`" for index, text in enumerate(texts)))
    table = found.toArrow()
    answers = []
    for index, field in enumerate(found.schema.fields):
        column = table.column(index)
        if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
            make = v.moment if pa.types.is_timestamp(column.type) else v.duration
            values = [None if x is None else make(x) for x in column.cast(pa.int64()).to_pylist()]
        else:
            pairs = column.to_pylist(maps_as_pydicts="strict")
            values = [v.conform(x, spark_type(field.dataType)) for x in pairs]
        answers.append((spark_type(field.dataType), values))
    return answers


def _same(found: Any, wanted: Any, roughly: bool) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        if math.isnan(found) or math.isnan(wanted):
            return math.isnan(found) and math.isnan(wanted)
        if roughly and math.isfinite(found):
            return math.isclose(found, wanted, rel_tol=1e-13, abs_tol=1e-9)
        return found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
    if isinstance(found, Decimal) and isinstance(wanted, Decimal):
        return str(found) == str(wanted)
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(_same(a, b, roughly) for a, b in zip(found, wanted, strict=True))
    return type(found) is type(wanted) and found == wanted


_REFERENCE: dict[str, list[Any]] = {}


def _reference(expr: Expr, scopes: tuple[Scope, ...]) -> list[Any]:
    # By the whole text: 2.5 and 2.50, and 0.0 and -0.0, are equal, but have different meanings.
    key = repr(expr)
    if key not in _REFERENCE:
        _REFERENCE[key] = [evaluate(expr, scope) for scope in scopes]
    return _REFERENCE[key]


def _differences(frame: DataFrame, exprs: Sequence[Expr], scopes: tuple[Scope, ...]) -> list[str]:
    """Return a text for each place where Spark and the reference differ."""
    columns = _columns(frame)
    texts = [(expr, sql_text(expr, columns, time="time", type="type")) for expr in exprs]
    said = [(expr, text) for expr, text in texts if text is not None]
    wrong: list[str] = []
    for start in range(0, len(said), COLUMNS_AT_ONCE):
        some = said[start : start + COLUMNS_AT_ONCE]
        for (expr, text), (type_, values) in zip(
            some, _evaluate_on_spark(frame, [text for _, text in some]), strict=True
        ):
            roughly = any(isinstance(e, Call) and e.name in APPROXIMATE for e in walk(expr))
            for row, answer, found in zip(ROWS, _reference(expr, scopes), values, strict=True):
                # The column converts a branch of another type before its value is visible.
                wanted = v.conform(answer, type_)
                if not _same(found, wanted, roughly):
                    used = {e.parts[0]: row.get(e.parts[0]) for e in walk(expr) if isinstance(e, Ref)}
                    shown = f"Spark {found!r:.200}, reference {wanted!r:.200}"
                    wrong.append(
                        f"{expr if ODD in str(expr) else print_expr(expr)} on {used!r:.300}: {shown}; {text:.300}"
                    )
                    break
    return wrong


NUMBERS = ("id", "m", "n", "x", "f", "price", "big", "fine", "part", "7", "-3", "2.50", "0", "1e300", "0.0", "-0.5e0")
MOMENTS = ("at", "wall", "born", "time()", "timestamp '2024-03-10 07:00:00'", "date '2024-03-10'", "device.at")
GAPS = ("gap", "5 minutes", "1 day")
TEXTS = ("word", "bit", "device.os", "''", "'a'", "'it''s'", "'😀'", "'back\\slash'", "'${env:HOME}'")
COMPARED = ("=", "<", "<=>")
OTHERS = ("yes", "raw", "device", "items", "xs", "words", "tags", "null", "lines")


def _pairs(ops: Sequence[str], left: Sequence[str], right: Sequence[str]) -> list[str]:
    return [f"{a} {op} {b}" for op in ops for a, b in itertools.product(left, right)]


ARITHMETIC = [
    *_pairs("-", NUMBERS[:13], ("m", "y", "fine")),
    *_pairs("+*/%", NUMBERS[:12], ("m", "y", "price", "big", "fine", "part", "3", "-0.5", "0")),
    *_pairs("+-", MOMENTS, GAPS), *_pairs("+", GAPS, MOMENTS), *_pairs("-", MOMENTS, MOMENTS), *_pairs("+-", GAPS, GAPS),
    *_pairs("*/", GAPS, NUMBERS[2:11]), *_pairs("*", NUMBERS[2:11], GAPS[:1]),
    *(f"-({x})" for x in (*NUMBERS, *GAPS)), "-(-id)", "-(-9223372036854775807 - 1)", "id + m * n - 3", "price * 2 + part / 3",
    "7 + price", "price / 3", "3 / price", "12345678901 * part", "(at + gap) - till", "at + gap + gap > till - gap", "null + 1", "at - null", "tiny + small", "- price % 7",
]  # fmt: skip
COMPARISONS = [
    *_pairs(("<>", "<=", ">", ">="), ("id", "x", "price", "word", "at", "gap", "yes"), ("m", "y", "part", "bit", "born", "gap", "no")),
    *_pairs(COMPARED, ("id", "x", "price", "big", "fine", "5"), ("m", "y", "f", "part", "fine", "7", "2.5", "1e0")),
    *_pairs(COMPARED, ("at", "born", "wall"), MOMENTS), *_pairs(COMPARED, ("gap",), GAPS),
    *_pairs(COMPARED, ("word", "device.os"), TEXTS), *_pairs(COMPARED, ("yes",), ("no", "true", "word", "1")),
    *_pairs(("=", "<", "<=>"), OTHERS, OTHERS), *_pairs(("=", "<=>"), ("word",), ("id", "at", "null", "gap")),
    *(f"{a} {no}between {b} and {c}" for no in ("", "not ") for a, b, c in [
        ("id", "m", "n"), ("x", "0", "price"), ("at", "born", "till"), ("word", "'a'", "bit"), ("price", "1", "2.555"),
        ("gap", "-5 minutes", "1 day"), ("x + y * 2 - id / 3", "null", "10"), ("upper(concat(word, bit, 'abcdefghijkl', word))", "'A'", "'B'"),
    ]),
    *(f"{a} {no}in ({b})" for no in ("", "not ") for a, b in [
        ("n", "1, 2, 3"), ("id", "1, 2.5, 7e0, m"), ("x", "0, 1, 2.5e0, y"), ("x", ", ".join(f"{i}e0" for i in range(-3, 12))),
        ("word", "'', 'abc', 'it''s \"quoted\"', null"), ("word", ", ".join(f"'{c}'" for c in "abcdefghijklmn")), ("born", "date '2024-03-10', at"),
        ("word", "1, 2"), ("price", "null"), ("yes", "true"), ("gap", "1 minutes, 1 day"), ("bit", "word, 'a', '_'"), ("n", "1, 'a'"),
        ("concat(word, bit, word, bit, word, bit, word, bit, word, bit)", "'', 'a'"),
    ]),
]  # fmt: skip
LOGIC = [
    *_pairs(("and", "or"), ("yes", "no", "null", "true", "false", "n > 0", "word"), ("yes", "no", "null", "true", "false", "id")),
    "yes and no and not yes or no", "not yes", "not null", "not word", "yes = (n > 0)",
    *(f"{x} is {no}{what}" for x in ("yes", "n", "null", "at", "device", "items", "device.os", "(x > y)") for no in ("", "not ") for what in ("null", "true", "false")),
]  # fmt: skip
CHOICES = [
    "case when yes then 1 when no then 2 end", "case when yes then id else m end", "case n when 1 then 'a' when 2 then 'b' else word end",
    "case word when 'abc' then at when bit then till end", "case when yes then 1 else 2.5 end", "case when yes then 1 else 2.5e0 end",
    "case when word then 1 else 2 end", "case x when id then 'i' when 0 then 'z' when null then 'n' else '?' end", "case when yes then null end",
    "case when yes then items else null end", "case when yes then at else born end", "case concat(word, bit, 'abcdefghijklmnopqrstuvwxyz') when 'a' then 1 else 0 end",
    "coalesce(x, 0)", "coalesce(x, 0) > id", "coalesce(x, 5) = 5", "coalesce(price, 0)", "coalesce(price, 0) < 1", "coalesce(x, 0) / 3", "coalesce(x, 0) + y",
    "abs(coalesce(x, -3))", "floor(coalesce(x, 0))", "round(coalesce(x, 2), 1)", "-coalesce(price, 1)", "cast(coalesce(x, 1) as bigint)",
    "cast(coalesce(price, 1) as string)", "coalesce(x, 0) || ''", "coalesce(at, born)", "year(coalesce(at, born))", "coalesce(at, born) + gap",
    "coalesce(id, m, 3)", "coalesce(null, word)", "coalesce(word)", "coalesce(null)", "coalesce(id, x)", "coalesce(price, fine)", "coalesce(big, fine)", "coalesce(items, items)",
    "coalesce(n, id)", "coalesce(f, x)", "coalesce(device.os, word, '?')", "coalesce(yes, false)",
    *(f"{g}({args})" for g in ("greatest", "least") for args in (
        "id, m", "id, n, 3", "x, y", "x, y, 0.0e0", "price, fine, 3", "word, bit", "at, till, wall", "at, born", "gap, 1 day", "yes, no", "n, null, 5",
        "null, null", "x, 1", "items, items", "born, date '2024-01-01'", "id, x", "raw, raw", "xs, xs",
    )),
    "nullif(id, m)", "nullif(id, x)", "nullif(word, bit)", "nullif(price, 0)", "nullif(null, 1)", "nullif(n, null)", "nullif(at, born)", "nullif(word, 1)", "nullif(device, device)",
    "if(yes, id, m)", "if(n > 0, word, 'x')", "if(null, 1, 2)", "if(yes, 1, null)", "if(yes, price, 1)", "if(yes, x, y)", "if(word, 1, 2)", "if(yes, null, null)", "if(yes, big, 1)",
]  # fmt: skip
MATHS = [
    *(f"{f}({x})" for f in ("abs", "round", "floor", "ceil", "sqrt", "ln", "log10", "exp", "sign") for x in (*NUMBERS, "null")),
    *(f"abs({x})" for x in GAPS), *(f"power({a}, {b})" for a in ("x", "n", "price", "2") for b in ("y", "tiny", "part", "0.5", "-1")),
    *(f"round({x}, {d})" for x in NUMBERS for d in (-1000, -40, -39, -38, -37, -20, -19, -18, -3, -1, 0, 1, 2, 5, 17, 18, 30, 400, 1000, 9999999999)),
    *(f"mod({a}, {b})" for a in ("id", "x", "price", "big", "-7") for b in ("m", "y", "part", "3", "0", "2.5")),
    "distance_km(lat, lon, 52, 13.4)", "distance_km(lat, lon, -lat, lon + 180)", "distance_km(lat, lon, lat, lon)", "distance_km(lat, lon, x, y)",
    "angle(lat, lon, 52, 13.4, x, y)", "angle(lat, lon, lat, lon, x, y)", "angle(lat, 0, 0, 0, -lat, 0)",
    "distance_km(lat + lat - lat + lat - lat + lat - lat + lat - lat + lat - lat + lat - lat + lat - lat + lat - lat + lat - lat, lon, 1.5, 0)",
]  # fmt: skip
STRINGS = [
    *(f"{f}({x})" for f in ("upper", "lower", "trim", "ltrim", "rtrim", "length") for x in (*TEXTS, "digits", "null")),
    *(f"{f}({a}, {b})" for f in ("contains", "startswith", "endswith", "position", "instr") for a in ("word", "bit", "null") for b in ("bit", "''", "'a'", "word")),
    *(f"substring({x}, {a})" for x in ("word", "'😀b😀'") for a in ("0", "1", "2", "-2", "-9", "99", "n", "id", "9223372036854775807", "null", "-2147483648")),
    *(f"substring(word, {a}, {b})" for a in ("1", "0", "-3", "2", "n", "id", "-9223372036854775807") for b in ("0", "1", "-1", "3", "n", "m", "9223372036854775807", "null")),
    *(f"replace({args})" for args in ("word, bit", "word, bit, 'xy'", "word, 'a', ''", "word, '', 'x'", "word, 'x', word", "word, bit, word", "word, 'a', null", "word, null, 'a'")),
    "replace(replace(replace(replace(word, 'a', 'bb'), 'b', bit), ',', '.'), '😀', 'smile')",
    *(f"concat({x})" for x in ("word", "word, bit", "id, ' ', n", "price, big, fine", "at, born, gap, yes", "wall, '-', time()", "word, null", "x, word", "raw, word", "items")),
    "word || bit || 'x' || n", "word || ' at ' || at", "(word || bit) || (bit || word)", "device.os || '!'", "part || ''", "fine || ''",
    *(f"in_cidr({a}, {n})" for a in ("word", "'10.1.2.3'", "'11.1.2.3'", "'::1'", "'10.1.2.300'", "null", "concat('10.', n, '.0.', tiny)") for n in ("'10.0.0.0/8'", "'0.0.0.0/0'", "'10.1.2.3', '192.168.0.0/16'", "'ten'", "'::/0'")),
    "regexp_extract(word, '(a)')",
    *(f"split_part(word, {m}, {p})" for m in ("','", "''", "bit", "'ab'", "null") for p in ("1", "2", "-1", "0", "99", "n", "id", "-9223372036854775807")),
]  # fmt: skip
LIKES = [
    f"word {no}like {pattern}"
    for no in ("", "not ")
    for pattern in (
        "''", "'%'", "'%%'", "'a%'", "'%b'", "'%a%'", "'a%b'", "'%a%b%'", "'a%b%c'", "'%,%,%'", "'_'", "'__'", "'%_'", "'_%b'", "'a_c'", "'%\\%%'", "'%\\_%'",
        "'%\\\\%'", "'\\a'", "'a\\'", "'😀%😀'", "'%😀_'", "'_x_'", "'%aa%aa%'", "'aa%aa'", "'aaa%aa'", "'%x%x%x%x'", "'it''s%'", "null", "bit", "'%a_b%_%c%'", "'%tab%\n'",
    )
] + [
    *(f"word {no}ilike {p}" for no in ("", "not ") for p in ("'A%'", "'%AB%'", "'_b%'", "'%ΑΣ%'", "'ας'", "'naïve SS i%'", "'%İ'", "'\\%'", "'\a'", "''", "'😀%😀'", "null", "bit", "'IT''S%'")),
    *(f"word {no}rlike {p}" for no in ("", "not ") for p in ("''", "'^a'", "'b$'", "'^abc$'", "'a,b'", r"'a\.b'", "'^it''s \"'", "'^'", "'$'", "'😀x'", "'('", "'%'", "'ß İ$'", r"'\$\{env'")),
    "null ilike 'a'", "null rlike 'a'", "n ilike 'a'", "upper(word) ilike 'ab%'", "device.os rlike '^a'", "concat(word, bit, word) ilike '%AB%A_'",
]  # fmt: skip
TIMES = [
    *(f"{f}({x})" for f in ("year", "month", "day", "hour", "minute", "second", "dayofweek") for x in (*MOMENTS, "null")),
    *(f"date_trunc('{unit}', {x})" for unit in (*UNITS, "WEEK") for x in MOMENTS), "date_trunc(word, at)", "date_trunc('day', at + gap)",
    "to_timestamp(written)", "to_timestamp(word)", "to_timestamp('2024-05-01T10:00:00+02:00')", "to_timestamp(null)", "hour(to_timestamp(written) + 1 hour)",
    "time()", "type()", "type() = 'Login'", "time() - at", "time() > at + 5 minutes", "time(a)", "hour(at) between 9 and 17", "dayofweek(wall) in (1, 7)",
]  # fmt: skip
NESTED = [
    *(f"size({x})" for x in ("items", "xs", "tags", "by_id", "null", "words")),
    *(f"array_contains({a}, {b})" for a, b in [("items", "1"), ("items", "n"), ("items", "id"), ("xs", "x"), ("xs", "n"), ("xs", "0.0e0"), ("words", "'vip'"), ("words", "word"), ("words", "null"), ("items", "2.5e0"), ("items", "x"), ("words", "1")]),
    *(f"element_at({a}, {b})" for a in ("items", "xs", "words") for b in ("1", "-1", "0", "99", "-99", "n", "id", "-2147483648", "2147483648", "null")),
    *(f"{a}[{b}]" for a in ("items", "xs", "words") for b in ("0", "1", "-1", "99", "n", "id", "2147483648", "null")),
    "element_at(tags, 'a')", "element_at(tags, word)", "tags['colour']", "tags['']", "tags.colour", "tags.nothing", "tags[null]", "by_id[7]", "by_id[id]", "by_id[9223372036854775807]", "element_at(by_id, n)",
    "by_id[1.0]", "tags[1]", "lines[0].price", "lines[n].price * 2", "lines[0].when", "hour(lines[0].when)", "lines[0].price > 1", "device.os", "device.n + 1", "device.at", "device.n", "device.missing",
    "missing", "items", "tags", "n", "tiny", "f", "wall", "raw", "gap", "device.os = 'abc' and device.n > 0", "items[0] + items[1]", "year(device.at)",
]  # fmt: skip
CASTS = [
    f"cast({x} as {target})"
    for x in ("digits", "written", "span", "word", "id", "n", "x", "f", "price", "big", "fine", "part", "yes", "at", "wall", "born", "gap", "null", "items", "raw", "5", "2.5", "-1")
    for target in ("boolean", "bigint", "int", "double", "decimal(10,2)", "decimal(38,0)", "decimal(38,18)", "decimal(18,18)", "decimal", "string", "timestamp", "date", "duration")
]  # fmt: skip

GROUPS = {
    "arithmetic": ARITHMETIC, "comparisons": COMPARISONS, "logic": LOGIC, "choices": CHOICES, "maths": MATHS, "strings": STRINGS,
    "likes": LIKES, "times": TIMES, "nested": NESTED, "casts": CASTS,
}  # fmt: skip
ODD_ONES: list[Expr] = [
    Ref((ODD,)), Ref(("device", ODD)), Binary("+", Ref((ODD,)), Ref(("device", ODD))), Literal("string", ODD), Literal("string", "'\\\"`;--\0\n"),
    Literal("double", math.nan), Literal("double", -math.inf), Literal("double", -0.0), Literal("double", 5e-324), Literal("integer", 2**63), Literal("integer", MIN),
    Literal("decimal", Decimal("1E+5")), Literal("decimal", Decimal("1E+40")), Literal("decimal", Decimal("-0.10")), Literal("timestamp", 10**18), Literal("duration", MIN),
    Literal("date", 10**7), InList(Ref(("n",)), ()), Unary("-", Literal("duration", MIN)), Unary("-", Literal("integer", 2**63)), Cast(Ref(("word",)), "nonsense"), Case(None, (), None),
]  # fmt: skip


LEFT_TO_PYTHON = [
    # text of doubles, and decimals of doubles with more digits than a double has
    "cast(x as string)", "x || ''", "concat(word, x)", "cast(x as decimal(18,2))",
    # the type of the branch that is taken is visible
    "cast(coalesce(price, 1) as string)", "coalesce(x, 0) || ''", "coalesce(id, x)", "greatest(id, x)", "if(yes, big, 2.5)",
    "coalesce(x, 0) + 1", "coalesce(price, 0) * 2", "coalesce(big, fine)",
    # more than 38 digits
    "big = fine", "big % price", "big % part", "cast(big as timestamp)",
    # Spark takes more than linear time for these patterns
    "word like bit", "word like '%a_b%_%c%'", "word ilike bit", "word ilike '%a_b%_%c%'",
    # Java's regular expressions backtrack and differ from RE2
    "word rlike 'a.*b'", "word rlike '(?i)a'", "word rlike '[ab]'", "word rlike bit", "regexp_extract(word, '(a)')",
    # 128 bits
    "in_cidr(word, '::/0')", "in_cidr(word, '10.0.0.0/8', '2001:db8::/32')", "in_cidr(word, bit)",
    # keys and elements of another type, units that no literal has
    "by_id[1.0]", "tags[1]", "array_contains(words, 1)", "date_trunc(word, at)",
    # not of this event
    "missing", "device.missing", "time(a)", "count(n)", "sum(n)", "prev(n)", ":p", "n in :list", "(n, id) in Office", "first(t.n) > 1",
]  # fmt: skip


@pytest.mark.parametrize(("ansi", "zone"), [SESSIONS[0], pytest.param(*SESSIONS[1], marks=pytest.mark.deep)])
@pytest.mark.parametrize("group", GROUPS)
def test_spark_agrees_with_the_reference(
    spark: SparkSession, frame: DataFrame, scopes: tuple[Scope, ...], group: str, ansi: str, zone: str
) -> None:
    exprs = [parse_expression(text) for text in GROUPS[group]]
    with session(spark, ansi, zone):
        assert _differences(frame, exprs, scopes) == []


@pytest.mark.parametrize(("ansi", "zone"), SESSIONS)
def test_odd_names_and_constants(
    spark: SparkSession, frame: DataFrame, scopes: tuple[Scope, ...], ansi: str, zone: str
) -> None:
    with session(spark, ansi, zone):
        assert _differences(frame, ODD_ONES, scopes) == []
        spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
        try:
            assert _differences(frame, ODD_ONES, scopes) == []
        finally:
            spark.conf.unset("spark.sql.parser.escapedStringLiterals")


@settings(max_examples=4, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        expressions(refs=[(name,) for name in SCHEMA.names] + [("device", "os"), ("device", "at")], max_leaves=6),
        min_size=200,
        max_size=200,
    )
)
def test_random_expressions_agree_with_the_reference(
    spark: SparkSession, frame: DataFrame, scopes: tuple[Scope, ...], exprs: list[Expr]
) -> None:
    """Random expressions, most of them ill-typed: Spark accepts each text and never raises."""
    with session(spark, *SESSIONS[0]):
        assert _differences(frame, exprs, scopes) == []


def test_every_function_is_exercised(frame: DataFrame) -> None:
    columns = _columns(frame)
    said = {
        e.name
        for text in itertools.chain.from_iterable(GROUPS.values())
        if sql_text(expr := parse_expression(text), columns, time="time", type="type") is not None
        for e in walk(expr)
        if isinstance(e, Call)
    }
    wanted = {name for name, function in FUNCTIONS.items() if not function.aggregate}
    assert wanted - said == set(NOT_TRANSLATED)


def test_expressions_without_sql_text_run_in_python(frame: DataFrame) -> None:
    columns = _columns(frame)
    for text in LEFT_TO_PYTHON:
        assert sql_text(parse_expression(text), columns, time="time", type="type") is None, text
        assert predicate_text(parse_expression(text), columns, time="time", type="type") is None, text


def test_sql_types_equal_inferred_types(spark: SparkSession, frame: DataFrame) -> None:
    columns = _columns(frame)
    env = Columns(columns)
    texts: list[tuple[Expr, str]] = []
    for written in list(itertools.chain.from_iterable(GROUPS.values()))[::3]:
        text = sql_text(parse_expression(written), columns, time="time", type="type")
        if text is not None:
            texts.append((parse_expression(written), text))
    fields = frame.selectExpr(*(f"{text} as `{index}`" for index, (_, text) in enumerate(texts))).schema.fields
    for (expr, _), field in zip(texts, fields, strict=True):
        try:
            wanted = infer(expr, env)
        except PatternError:
            continue  # the type checker rejects it
        if not t.is_open(wanted):
            assert spark_type(field.dataType) in (wanted, t.Unknown()), print_expr(expr)


def test_predicate_is_never_null(frame: DataFrame, scopes: tuple[Scope, ...]) -> None:
    columns = _columns(frame)
    exprs = [parse_expression(text) for text in (*LOGIC, *LIKES, "null", "n", "word", "at > till")]
    said = [(e, text) for e in exprs if (text := predicate_text(e, columns, time="time", type="type")) is not None]
    for (expr, _), (type_, values) in zip(said, _evaluate_on_spark(frame, [text for _, text in said]), strict=True):
        assert type_ == t.Boolean()
        assert values == [is_true(x) for x in _reference(expr, scopes)], print_expr(expr)


def test_names_without_sql_text() -> None:
    text, long = spark_types.StringType(), spark_types.LongType()
    for name in ("", "${env:HOME}", "\ud800"):
        assert sql_text(Ref((name,)), {name: long}, time="t", type=None) is None
    assert sql_text(Ref(("v",)), {"v": long, "V": long}, time="t", type=None) is None
    assert sql_text(Ref(("V",)), {"v": long}, time="t", type=None) is None
    assert sql_text(Literal("string", "\ud800"), {}, time="t", type=None) is None
    assert sql_text(Call("time", ()), {"t": long}, time="t", type=None) is None
    assert sql_text(Call("type", ()), {"t": long}, time="t", type=None) is None
    assert sql_text(Call("type", ()), {}, time="t", type=None, event_type="Login") == "'Login'"
    assert sql_text(Call("type", ()), {"kind": text}, time="t", type="kind") == "`kind`"
    assert sql_text(Ref(("a`b",)), {"a`b": long}, time="t", type=None) == "`a``b`"


def test_nested_calls_do_not_grow_exponentially() -> None:
    expr: Expr = Ref(("w",))
    for _ in range(40):
        expr = Call("replace", (expr, Literal("string", "a"), Literal("string", "bb")))
    text = sql_text(expr, {"w": spark_types.StringType()}, time="t", type=None)
    assert text is not None
    assert len(text) < 20_000


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("tinyint", "bigint"), ("smallint", "bigint"), ("int", "bigint"), ("bigint", "bigint"), ("float", "double"), ("double", "double"),
        ("decimal(12,3)", "decimal(12,3)"), ("string", "string"), ("boolean", "boolean"), ("timestamp", "timestamp"),
        ("timestamp_ntz", "timestamp"), ("date", "date"), ("interval day to second", "duration"), ("interval hour to minute", "duration"),
        ("binary", "binary"), ("array<int>", "array<bigint>"), ("map<string,float>", "map<string,double>"),
        ("struct<a:int,b:array<date>>", "struct<a:bigint,b:array<date>>"), ("interval year to month", "unknown"), ("variant", "unknown"), ("void", "unknown"),
    ],
)  # fmt: skip
def test_types_of_columns(spark: SparkSession, written: str, wanted: str) -> None:
    schema = spark_types.StructType.fromDDL(f"c {written}")
    assert str(spark_type(schema["c"].dataType)) == wanted
    assert str(spark_type(spark_types.VarcharType(5))) == str(spark_type(spark_types.CharType(5))) == "string"


def test_collations_and_short_intervals(spark: SparkSession) -> None:
    found = spark.sql("select 'A' collate UTF8_LCASE as c, interval '2' hour as h, cast('x' as varchar(3)) as s")
    columns = _columns(found)
    texts = [
        sql_text(parse_expression(x), columns, time="t", type=None)
        for x in ("c = 'a'", "c < 'a'", "c", "h = 2 hours", "h + 1 minute", "contains(c, 'a')", "s || '!'")
    ]
    assert all(texts)
    assert tuple(found.selectExpr(*map(str, texts)).collect()[0]) == (
        False, True, "A", True, timedelta(hours=2, minutes=1), False, "x!",
    )  # fmt: skip
