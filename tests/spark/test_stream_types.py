"""For every column type, a match of the stream has the value of the batch."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import perseid as ps
from tests.spark.streaming import FAR, MOMENT, Running, Streams, at

UTC = dt.UTC
HUGE = "é" * 500_000 + "!"
FLAT: dict[str, tuple[Any, list[Any]]] = {
    "yes": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, 127]),
    "small": (pa.int16(), [-(2**15), 2**15 - 1]),
    "whole": (pa.int32(), [-(2**31), 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1]),
    "single": (pa.float32(), [0.1, math.nan, math.inf, -math.inf, -0.0, 1e-45, 3.4028234663852886e38]),
    "number": (pa.float64(), [0.1, math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308]),
    "price": (pa.decimal128(38, 10), [Decimal("-9999999999999999999999999999.9999999999"), Decimal("0.0000000001")]),
    "cent": (pa.decimal128(5, 2), [Decimal("999.99"), Decimal("0.00")]),
    "text": (pa.string(), ["", "a", "nan", "\x00", "😀", HUGE]),
    "raw": (pa.binary(), [b"", b"\x00\xff", b"a" * 1000]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), dt.date(1582, 10, 10)]),
    "moment": (
        MOMENT,
        [
            dt.datetime(1, 1, 1, tzinfo=UTC),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        ],
    ),
    "wall": (
        pa.timestamp("us"),
        [
            dt.datetime(1, 1, 1, 0, 0, 0, 1),
            dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
            dt.datetime(2024, 3, 10, 2, 30),
        ],
    ),
    "span": (
        pa.duration("us"),
        [
            dt.timedelta(0),
            dt.timedelta(microseconds=-1),
            dt.timedelta(days=-1, microseconds=1),
            dt.timedelta(days=100_000_000, microseconds=999_999),
            dt.timedelta(days=-100_000_000, hours=3),
        ],
    ),
}
NESTED: dict[str, tuple[Any, list[Any]]] = {
    "list": (pa.list_(pa.int64()), [[], [None], [1, None, -(2**63)]]),
    "days": (pa.list_(pa.date32()), [[dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]]),
    "struct": (
        pa.struct([("a", pa.float64()), ("b", pa.list_(pa.string()))]),
        [{"a": math.nan, "b": [""]}, {"a": None, "b": None}],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], []]),
    "moments": (pa.map_(pa.int32(), pa.struct([("at", MOMENT)])), [[(1, {"at": dt.datetime(9999, 1, 1, tzinfo=UTC)})]]),
    "walls": (pa.list_(pa.timestamp("us")), [[dt.datetime(1, 1, 1), None]]),
}
LONGEST = max(len(values) for _, values in (FLAT | NESTED).values())


def exact(value: Any) -> Any:
    """Return a form of a value in which only identical values are equal: NaN equals itself, and 0.0 differs from -0.0."""
    match value:
        case float():
            return repr(value)
        case Mapping():
            return {name: exact(inner) for name, inner in value.items()}
        case list() | tuple():
            return [exact(inner) for inner in value]
    return value


def schema_of(columns: Mapping[str, tuple[Any, list[Any]]]) -> pa.Schema:
    plain = {"ts": MOMENT, "type": pa.string(), "user": pa.int64()}
    return pa.schema({**plain, **{name: kind for name, (kind, _) in columns.items()}})


def rows_of(columns: Mapping[str, tuple[Any, list[Any]]]) -> list[dict[str, Any]]:
    """Return for every value an A with it and a B with null, and at the end the reverse."""
    rows = []
    nulls = dict.fromkeys(columns)
    for user in range(LONGEST + 1):
        values = {name: values[user] if user < len(values) else None for name, (_, values) in columns.items()}
        rows += [
            {"ts": at(user), "type": "A", "user": user, **values},
            {"ts": at(user + 0.5), "type": "B", "user": user, **nulls},
            {"ts": at(user + 0.75), "type": "B", "user": user, **values},
        ]
    return rows


def text_of(columns: Mapping[str, Any], more: str = "") -> str:
    given = [f"a.`{name}` as a_{name}" for name in columns]
    given += [f"last(b.`{name}`) as l_{name}, first(b.`{name}`) as f_{name}" for name in columns if name in FLAT]
    return f"pattern typed match A a -> B+ b within 1 minute partition by user return {', '.join(given)}{more}"


def test_columns_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    """Once as columns, and once with lists, structs, maps and evidence, which cross to Python in another way."""
    running: list[tuple[str, Any, Running]] = []
    for way, columns, more in (
        ("flat", FLAT, ""),
        ("nested", FLAT | NESTED, ", collect(b.number) as all_numbers, collect(b.`moment`) as all_moments, evidence"),
    ):
        pattern = ps.pattern(text_of(columns, more))
        schema, rows = schema_of(columns), rows_of(columns)
        streams = Streams(spark, tmp_path / way)
        streams.folder.mkdir()
        closing = {**dict.fromkeys(schema.names), "ts": at(FAR), "type": "X"}
        frame = streams.stream(schema, rows[:9], rows[9:], [closing])
        matches = pattern.match(ps.events(frame, id="user", options=ps.StreamOptions(shards=2)))
        still = spark.read.schema(frame.schema).parquet(str(streams.folder / "input")).where("type <> 'X'")
        batch = pattern.match(ps.events(still, id="user"))
        assert matches.schema == batch.schema, way
        running.append((way, batch, streams.start(matches)))
    for way, batch, one in running:
        found, expected = one.finish().table, batch.toArrow()
        assert found.schema.types == expected.schema.types, way
        left, right = (
            {row["user"]: row for row in table.to_pylist(maps_as_pydicts="lossy")} for table in (found, expected)
        )
        assert len(left) == found.num_rows == expected.num_rows == LONGEST + 1
        for user in range(LONGEST + 1):
            for name, value in right[user].items():
                assert exact(left[user][name]) == exact(value), (way, user, name)
        # The batch has the values that were written.
        columns = FLAT if way == "flat" else FLAT | NESTED
        for name, (_, values) in columns.items():
            if name in ("single", "map", "moments"):
                continue  # written as the nearest number; written as pairs
            assert [exact(left[user][f"a_{name}"]) for user in range(len(values))] == exact(values), (way, name)
            assert left[LONGEST][f"a_{name}"] is None
