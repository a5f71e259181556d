"""Reading columns gives the same values as reading rows."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from perseid.engines.sequence import stream as event_reader
from perseid.errors import EventDataError
from perseid.runtime.arrays import MOMENT
from perseid.semantics import values as v
from perseid.tables import rows as row_reader
from perseid.tables.columns import Table, read_table, require, time_column, type_codes

UTC = dt.UTC
PLUS_TWO = dt.timezone(dt.timedelta(hours=2))
NOON = dt.datetime(2024, 5, 6, 12, 0, 0, 123_456)


def plain(column: Any) -> list[Any]:
    found = column if isinstance(column, list) else column.to_pylist()
    return [v.plain(value) for value in found]


def shown(values: list[Any]) -> list[str]:
    """Values with their kinds, so that 1, 1.0 and True differ, and decimals with their sizes."""
    return [f"{value!r} {getattr(value, 'precision', '')}" for value in values]


def same_as_rows(data: Any) -> Table:
    """Asserts that every column equals the values of the rows, with null for missing ones."""
    table = read_table(data, None)
    rows = [{str(k): v.plain(x) for k, x in row.items()} for row in row_reader.rows_of(data)]
    assert table.rows == len(rows)
    if rows:
        assert set(table.columns) == {name for row in rows for name in row}
    for name, column in table.columns.items():
        assert shown(plain(column)) == shown([row.get(name) for row in rows]), name
        assert len(column) == table.rows
    return table


def one(values: list[Any]) -> Any:
    return same_as_rows([{"x": value} for value in values]).columns["x"]


KINDS: list[tuple[list[Any], Any]] = [
    ([True, None, False], pa.bool_()),
    ([1, None, -(2**63), 2**63 - 1], pa.int64()),
    ([2**63, 5], pa.int64()),  # what 64 bits do not hold is null
    ([1.5, math.inf, None, -0.0], pa.float64()),
    (["a", "", None, "é😀"], pa.string()),
    ([b"a", None, bytearray(b"b")], pa.binary()),
    ([NOON, NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=PLUS_TWO), None], MOMENT),
    ([dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=2))), NOON], MOMENT),
    ([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
    ([dt.timedelta(days=-1, microseconds=3), dt.timedelta.max], pa.duration("us")),
    ([Decimal("1.50"), None, Decimal("-100.25")], pa.decimal128(5, 2)),
    ([Decimal("-0.0"), Decimal("3.1")], pa.decimal128(2, 1)),
    ([np.int32(4), np.int64(5)], pa.int64()),
    ([np.float32(0.5), 1.0], pa.float64()),
    ([pd.Timestamp("2024-01-01 00:00:00.123456789"), NOON], MOMENT),
    ([None, None], pa.null()),
    ([object(), dt.time(3)], pa.null()),
]
LOOSE: list[list[Any]] = [
    [1, 2.5],
    [2**60 + 1, 0.5],
    [True, 1],
    ["a", 1, None],
    [NOON, NOON.date()],
    [Decimal("1.5"), Decimal("1.50")],
    [Decimal("1.5"), 2],
    [Decimal(10**37), Decimal("1." + "3" * 37)],
    [v.SizedDecimal("1.50", 10), None],
    [[1, None], [NOON]],
    [{"a": 1}, None],
    ["half a pair \ud800", "b"],
]


@pytest.mark.parametrize(("values", "kind"), KINDS, ids=lambda part: str(part).partition("<object object")[0])
def test_values_of_one_kind_are_an_arrow_array(values: list[Any], kind: Any) -> None:
    found = one(values)
    assert isinstance(found, pa.Array)
    assert found.type == kind


@pytest.mark.parametrize("values", LOOSE, ids=repr)
def test_other_values_are_python_objects(values: list[Any]) -> None:
    assert isinstance(one(values), list)


def test_nan_in_rows_is_no_null() -> None:
    found = read_table([{"x": math.nan}, {"x": None}]).columns["x"]
    assert found.null_count == 1


def test_dicts_with_gaps_odd_names_and_none() -> None:
    table = same_as_rows([{"a": 1, 2: "x"}, {"b": 1.5}, {}])
    assert table.names == ("a", "2", "b")
    assert read_table([], None) == Table({}, 0)
    assert list(read_table([{"a": 1, "b": 2}], {"b", "c"}).columns) == ["b"]
    assert same_as_rows(iter([])).rows == 0


def frame() -> pd.DataFrame:
    n = None
    return pd.DataFrame(
        {
            "int": [1, 2, 3],
            "small": np.array([1, 2, 255], np.uint8),
            "huge": np.array([1, 2**63, 2**64 - 1], np.uint64),
            "float": [1.5, math.nan, math.inf],
            "float32": np.array([0.1, math.nan, 1], np.float32),
            "float16": np.array([0.5, math.nan, 1], np.float16),
            "bool": [True, False, True],
            "object": ["a", math.nan, n],
            "mixed": [1, "a", math.nan],
            "lists": [[1, math.nan], n, []],
            "naive": pd.to_datetime(["2024-01-01 00:00:00.123456789", n, "1969-12-31 23:59:59.999999999"]),
            "zoned": pd.to_datetime(["2024-01-01", n, "1960-01-01"]).tz_localize("Europe/Vienna"),
            "seconds": pd.to_datetime(["2024-01-01", n, "1960-01-01"]).astype("datetime64[s]"),
            "delta": pd.to_timedelta([1, n, -1], unit="ns"),
            "category": pd.Categorical(["b", n, "a"]),
            "numbers": pd.Categorical([3, 1, 3]),
            "several": pd.Categorical([3, "x", 3]),
            "cut": pd.cut([1, 5, 9], 2),
            "Int64": pd.array([1, n, 3], "Int64"),
            "Float64": pd.array([1.5, n, 3], "Float64"),
            "boolean": pd.array([True, n, False], "boolean"),
            "string": pd.array(["a", n, "b"], "string"),
            "arrow": pd.array(["a", n, "b"], "string[pyarrow]"),
            "arrow int": pd.array([1, n, 2], pd.ArrowDtype(pa.int32())),
            "arrow dict": pd.array(["a", n, "a"], pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))),
            "period": pd.period_range("2024-01", periods=3),
            "sparse": pd.arrays.SparseArray([0.0, math.nan, 1.0]),
            "dates": [dt.date(2024, 1, 1), n, dt.date(2024, 1, 2)],
            "decimals": [Decimal("1.5"), n, Decimal("2.5")],
            7: ["a", "b", "c"],
        },
        index=[9, 9, 8],
    )


def test_pandas() -> None:
    table = same_as_rows(frame())
    assert all(isinstance(table.columns[name], list) for name in ("mixed", "lists", "several"))
    assert all(not isinstance(table.columns[name], list) for name in table.names if name not in ("mixed", "lists", "several"))  # fmt: skip
    assert table.columns["naive"].type == table.columns["zoned"].type == table.columns["seconds"].type == MOMENT
    assert pa.types.is_dictionary(table.columns["category"].type)
    same_as_rows(pd.DataFrame({"text": ["half a pair \ud800", math.nan]}))
    assert same_as_rows(frame().head(0)).rows == 0
    assert list(read_table(frame(), ["7", "int"]).columns) == ["int", "7"]


def test_nan_of_a_nullable_kind_is_null_too() -> None:
    zero = pd.Series([0.0, 1.0, None], dtype="Float64")
    assert read_table(pd.DataFrame({"x": zero / 0.0})).columns["x"].to_pylist() == [None, math.inf, None]


def arrow() -> pa.Table:
    n = None
    return pa.table(
        {
            "int8": pa.array([1, n, -128], pa.int8()),
            "uint64": pa.array([1, n, 2**64 - 1], pa.uint64()),
            "float": pa.array([0.1, n, math.nan], pa.float32()),
            "half": pa.array([np.float16(0.1), n, np.float16(math.nan)], pa.float16()),
            "decimal": pa.array([Decimal("1.50"), n, Decimal("-3.00")], pa.decimal128(20, 2)),
            "wide": pa.array([Decimal("1.50"), n, Decimal(10**45)], pa.decimal256(50, 2)),
            "date64": pa.array([dt.date(1960, 1, 1), n, dt.date(2024, 1, 1)], pa.date64()),
            "ns": pa.array([1_999, n, -1], pa.timestamp("ns")),
            "s": pa.array([1_999, n, -1], pa.timestamp("s", "Europe/Vienna")),
            "ms": pa.array([1_999, n, -1], pa.timestamp("ms")),
            "duration": pa.array([1_999, n, -1], pa.duration("ns")),
            "long": pa.array([10**13 - 1, n, -(10**13) + 1], pa.duration("s")),
            "time": pa.array([dt.time(1), n, dt.time(2)]),
            "view": pa.array(["a", n, "longer than twelve bytes"], pa.string_view()),
            "bytes": pa.array([b"a", n, b"longer than twelve bytes"], pa.binary_view()),
            "views": pa.array([["a", n], n, []], pa.large_list(pa.string_view())),
            "pairs": pa.array([["a", n], n, ["b", "c"]], pa.list_(pa.string_view(), 2)),
            "fields": pa.array([{"a": "x"}, n, {"a": n}], pa.struct({"a": pa.string_view()})),
            "codes": pa.DictionaryArray.from_arrays(
                pa.array([0, n, 1], pa.uint32()), pa.array(["a", "b"], pa.string_view())
            ),
            "fixed": pa.array([b"ab", n, b"cd"], pa.binary(2)),
            "dictionary": pa.array(["a", n, "b"]).dictionary_encode(),
            "numbers": pa.array([5, n, 7]).dictionary_encode(),
            "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array(["x", n])),
            "list": pa.array([[1, n], n, []]),
            "struct": pa.array([{"a": 1}, n, {"a": n}]),
            "null": pa.nulls(3),
        }
    )


def test_arrow(tmp_path: Path) -> None:
    table = same_as_rows(arrow())
    for name in ("ns", "s", "ms"):
        assert table.columns[name].type == MOMENT
    whole = arrow()
    same_as_rows(whole.to_batches()[0])
    same_as_rows(whole.to_batches()[0].slice(1, 2))
    same_as_rows(pa.concat_tables([whole, whole.slice(1), whole.slice(0, 0)]))
    same_as_rows(whole.slice(0, 0))
    nothing = same_as_rows(pa.Table.from_batches([], whole.schema))
    for name in whole.column_names:
        assert time_column(nothing, name).tolist() == []
        assert type_codes(nothing, name)[1] == []
    reader = read_table(whole.to_reader(), ["int8", "nowhere"])
    assert (reader.rows, list(reader.columns), len(reader.names)) == (3, ["int8"], whole.num_columns)
    assert read_table(whole.to_reader(), []).rows == 3
    assert read_table(whole, []).rows == 3


def test_datasets_and_files(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"], "t": pa.array([1, 2], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "one.parquet")
    pq.write_table(table, tmp_path / "two.parquet")
    for data in (
        tmp_path,
        str(tmp_path),
        [tmp_path / "one.parquet", str(tmp_path / "two.parquet")],
        ds.dataset(tmp_path),
    ):
        found = read_table(data, {"a", "t"})
        assert list(found.columns) == ["a", "t"]
        assert found.names == ("a", "b", "t")
        assert found.rows == 4
        assert found.columns["a"].to_pylist() == [1, 2, 1, 2]
        assert found.columns["t"].type == MOMENT
        assert read_table(data, []).rows == 4
    with pytest.raises(EventDataError, match=r"File or folder '.*' not found"):
        read_table("nowhere.parquet")
    (tmp_path / "text.csv").write_text("a,b")
    with pytest.raises(EventDataError, match="cannot be read as Parquet"):
        read_table(tmp_path / "text.csv")


@pytest.mark.parametrize("data", [5, b"bytes", {"ts": 1}, None])
def test_no_table(data: Any) -> None:
    with pytest.raises(EventDataError, match=r"Cannot read events from an? \w+"):
        read_table(data)


def test_a_row_that_is_no_dict() -> None:
    with pytest.raises(EventDataError, match="Row 2: expected a dict, got an int"):
        read_table([{"ts": 1}, 5])


# Times


def same_time(data: Any, name: str = "ts") -> None:
    """The times, or the error, of the rows."""
    rows = list(row_reader.rows_of(data))
    want: Any = []
    for number, row in enumerate(rows, 1):
        try:
            moment = event_reader._column(event_reader.Events(data), row, name, "time", number)
            want.append(row_reader.read_time(moment, number, name))
        except EventDataError as error:
            want = str(error)
            break
    try:
        found = time_column(read_table(data, [name]), name)
        assert found.dtype == np.int64
        got: Any = found.tolist()
    except EventDataError as error:
        got = str(error)
    assert got == want


TIMES: list[list[Any]] = [
    [NOON, NOON.replace(tzinfo=PLUS_TWO), dt.datetime(1, 1, 1), dt.datetime.max],
    [dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    [0, 1, -5, 253_402_300_799, -62_135_596_800],
    [0, 253_402_300_800],
    [5, -62_135_596_801, 2**62],
    [0.5, 1.1, 1700000000.123456, -1700000000.1234567, 1e-7, 1e10 + 0.1, -0.0, 253_402_300_799.5],
    [1.0, math.nan],
    [1.0, math.inf],
    [1.0, 1e300],
    [Decimal("1.1234567"), Decimal("-1.1234567")],
    [Decimal("1e30")],
    ["2024-01-01", "2024-01-01T10:00:00.123456789Z", " 2024-01-01 10:00+02:00 "],
    ["2024-01-01", "yesterday", "2024-01-01"],
    [1, 2.5, "2024-01-01", NOON],
    [1, None, 3],
    [NOON, None],
    ["2024-01-01", None],
    [True],
    [b"2024-01-01"],
    [dt.timedelta(1)],
    [[1]],
    [None],
]


@pytest.mark.parametrize("times", TIMES, ids=repr)
def test_times_as_rows_read_them(times: list[Any]) -> None:
    same_time([{"ts": time} for time in times])
    same_time(pd.DataFrame({"ts": times}))
    same_time(pd.DataFrame({"ts": pd.Series(times, dtype=object)}))
    if all(isinstance(time, str) for time in times):
        same_time(pd.DataFrame({"ts": pd.Categorical(times)}))


def test_random_doubles_as_rows_read_them() -> None:
    draw = random.Random(3)
    seconds = [draw.uniform(-(10 ** draw.randrange(10)), 10 ** draw.randrange(11)) for _ in range(500)]
    seconds += [round(draw.uniform(0, 2e9), draw.randrange(9)) for _ in range(1_000)]
    seconds += [math.nextafter(x, math.inf) for x in seconds] + [2.0**33, 2.0**33 - 2.0**-20, 2.0**33 + 2.0**-19]
    same_time([{"ts": x} for x in seconds])
    same_time(pa.table({"ts": pa.array(seconds, pa.float32())}))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Vienna"])
def test_timestamps_of_every_unit(unit: str, zone: str | None) -> None:
    whole = pa.array([0, 1_999_999, -1, -1_500, 10**9], pa.timestamp(unit, zone))
    same_time(pa.table({"ts": whole}))
    same_time(pa.table({"ts": pa.chunked_array([whole.slice(1, 2), whole.slice(0, 0), whole.slice(4)])}))
    same_time(pa.table({"ts": pa.array([1, 2, None], pa.timestamp(unit, zone))}))


def test_other_arrow_times() -> None:
    same_time(pa.table({"ts": pa.array([1, 2, 2**31 - 1], pa.uint32())}))
    same_time(pa.table({"ts": pa.array([1, 2**63], pa.uint64())}))
    same_time(pa.table({"ts": pa.array(["2024-01-01", "2024", None]).dictionary_encode()}))
    same_time(pa.table({"ts": pa.array([dt.date(2024, 1, 1)], pa.date64())}))
    same_time(pa.table({"ts": pa.array([], pa.string())}))
    same_time([])


def test_timestamps_beyond_the_calendar() -> None:
    for unit, value in (("s", 10**12), ("ms", 10**15), ("us", 10**18), ("s", 2**62)):
        table = read_table(pa.table({"ts": pa.array([0, value], pa.timestamp(unit))}))
        assert table.columns["ts"].to_pylist()[1] is None
        with pytest.raises(EventDataError, match=r"Row 2, column 'ts': the time .* is outside the years 1 to 9999"):
            time_column(table, "ts")
    days = read_table(pa.table({"ts": pa.array([None, 10**7], pa.date32())}))
    assert days.columns["ts"].to_pylist() == [None, None]
    with pytest.raises(EventDataError, match="Row 1, column 'ts': expected a time, got None"):
        time_column(days, "ts")


def test_columns_that_are_missing() -> None:
    for data in (
        [{"tme": 1, "type": "A"}],
        pd.DataFrame({"tme": [1], "type": ["A"]}),
        pd.DataFrame({"type": ["A"]}, pd.Index([1], name="time")),
        pa.table({"tme": [1], "type": ["A"]}),
    ):
        same_time(data, "time")
        with pytest.raises(
            EventDataError,
            match=r"Column 'typ' not found in row 1; it is configured as the type column\. .*\n  = Did you mean 'type'",
        ):
            type_codes(read_table(data, ["typ"]), "typ")
    same_time([{"ts": 1}, {"ts": None}, {"t": 3}])
    same_time([{"ts": 1}, {"t": 3}, {"ts": None}])
    with pytest.raises(
        EventDataError, match="Column 'rank' not found in row 2; it is configured as the order_by column"
    ) as caught:
        require(read_table([{"rank": 1}, {"rnk": 1}]), "rank", "order_by")
    assert "--order-by" in str(caught.value)


# Types


@pytest.mark.parametrize(
    "types",
    [
        ["A", "B", None, "A"],
        [None, None],
        [1, 2, 1],
        [1, "1", 1.0, True, None, [1]],
        [0.0, -0.0, 1.5, math.nan, None],
        [dt.date(2024, 1, 1), None],
        [Decimal("1.50"), Decimal("2.00")],
        [[1], None],
        [True, False],
        [],
    ],
    ids=repr,
)
def test_types_as_rows_read_them(types: list[Any]) -> None:
    data = [{"type": value} for value in types]
    codes, names = type_codes(read_table(data), "type")
    assert codes.dtype == np.int32
    assert [None if code < 0 else names[code] for code in codes.tolist()] == [v.text(v.plain(x)) for x in types]
    assert len(set(names)) == len(names)


def test_types_from_dictionaries() -> None:
    odd = pa.DictionaryArray.from_arrays(
        pa.array([3, 1, 2, 3, None, 4], pa.int32()), pa.array(["unused", "b", "a", "b", None])
    )
    for column in (odd, pa.chunked_array([odd.slice(0, 2), odd.slice(2).dictionary_decode().dictionary_encode()])):
        codes, names = type_codes(read_table(pa.table({"type": column})), "type")
        assert codes.tolist() == [0, 0, 1, 0, -1, -1]
        assert names == ["b", "a"]
    chunks = pa.chunked_array([["A"], ["B", "A"], []], pa.large_string())
    assert type_codes(read_table(pa.table({"type": chunks})), "type")[0].tolist() == [0, 1, 0]
