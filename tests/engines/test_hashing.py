"""Hashes of columns equal the reference hashes of their values, with and without Numba."""

from __future__ import annotations

import importlib.util
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.engines.sequence.stream import Events, read_events
from perseid.runtime import hashing, jit
from perseid.semantics import hashing as reference
from perseid.semantics.events import Event, match_id


def _plain() -> ModuleType:
    """Runs the same source without Numba."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "COMPILED", False)
        spec = importlib.util.spec_from_file_location("plain_hashing", hashing.__file__)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


PLAIN = _plain()
MODES = pytest.mark.parametrize("kernels", [hashing, PLAIN], ids=["numba", "plain"])


def integers(bits: int, low: int | None = None) -> st.SearchStrategy[int]:
    edge = 2 ** (bits - 1)
    return st.integers(-edge if low is None else low, edge - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**precision - 1
    return st.integers(-top, top).map(lambda n: Decimal(f"{n}E-{scale}"))  # exact, whatever the context


WORDS = st.text(max_size=80)
MOMENTS = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
SPANS = st.timedeltas(timedelta(days=-1000), timedelta(days=1000))
SIMPLE: list[tuple[Any, st.SearchStrategy[Any]]] = [
    *((kind, integers(bits)) for kind, bits in ((pa.int8(), 8), (pa.int16(), 16), (pa.int32(), 32), (pa.int64(), 64))),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    *((kind, WORDS) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    (pa.dictionary(pa.int32(), pa.string()), WORDS),
    (pa.dictionary(pa.int8(), pa.int32()), integers(32)),
    *((kind, st.binary(max_size=80)) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(5), st.binary(min_size=5, max_size=5)),
    (pa.timestamp("us", "UTC"), MOMENTS),
    (pa.timestamp("ns", "UTC"), MOMENTS),
    (pa.timestamp("ms"), MOMENTS.map(lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000, tzinfo=None))),
    (pa.timestamp("s"), MOMENTS.map(lambda m: m.replace(microsecond=0, tzinfo=None))),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.duration("us"), SPANS),
    (pa.duration("ns"), SPANS),
    (pa.decimal128(10, 2), decimals(10, 2)),
    (pa.decimal128(38, 38), decimals(38, 38)),
    (pa.decimal128(20, 18), decimals(20, 18)),
    (pa.decimal256(50, 3), decimals(38, 3)),
    (pa.time64("us"), st.times()),
    (pa.null(), st.none()),
]


def nullable(kind: tuple[Any, st.SearchStrategy[Any]]) -> tuple[Any, st.SearchStrategy[Any]]:
    return kind[0], st.none() | kind[1]


def nest(inner: tuple[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    kind, values = inner[0], st.none() | inner[1]
    names = st.lists(st.text("abcdefxyz", min_size=1, max_size=4), min_size=1, max_size=3, unique=True)
    return st.one_of(
        st.just((pa.list_(kind), st.lists(values, max_size=4))),
        st.just((pa.large_list(kind), st.lists(values, max_size=4))),
        st.just((pa.list_(kind, 2), st.lists(values, min_size=2, max_size=2))),
        names.map(
            lambda found: (
                pa.struct([(name, kind) for name in found]),
                st.fixed_dictionaries(dict.fromkeys(found, values)),
            )
        ),
        st.just((pa.map_(pa.string(), kind), st.dictionaries(WORDS, values, max_size=4))),
        st.just((pa.map_(pa.int64(), kind), st.dictionaries(integers(64), values, max_size=4))),
    )


# A dictionary inside a nested type, and casts of views, are not made by every pyarrow.
INSIDE = [kind for kind in SIMPLE if not pa.types.is_dictionary(kind[0]) and "view" not in str(kind[0])]
KINDS = st.sampled_from(SIMPLE) | st.recursive(st.sampled_from(INSIDE), lambda inner: inner.flatmap(nest), max_leaves=3)


def arrow(values: list[Any], kind: Any) -> Any:
    """The values as an array; Arrow wants a map's as pairs."""
    return pa.array([_pairs(value, kind) for value in values], kind)


def _pairs(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, _pairs(inner, kind.item_type)) for key, inner in value.items()]
    if pa.types.is_struct(kind):
        return {name: _pairs(inner, kind.field(name).type) for name, inner in value.items()}
    return [_pairs(inner, kind.value_type) for inner in value] if isinstance(value, list) else value


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Columns, whole, cut out of longer ones or in pieces, and their rows as plain values."""
    rows = draw(st.integers(1, 6))
    columns, plain = [], []
    for kind, values in draw(st.lists(KINDS, min_size=1, max_size=4)):
        before = draw(st.integers(0, 2))
        found = draw(st.lists(st.none() | values, min_size=before + rows, max_size=before + rows))
        array = arrow(found, kind)[before:]
        cut = draw(st.integers(0, rows))
        columns.append(pa.chunked_array([array[:cut], array[cut:]]) if draw(st.booleans()) else array)
        plain.append(found[before:])
    return columns, list(zip(*plain, strict=True))


@MODES
@given(tables())
def test_columns_are_hashed_as_their_values(
    kernels: ModuleType, table: tuple[list[Any], list[tuple[Any, ...]]]
) -> None:
    columns, rows = table
    expected = [reference.hash_values(row) for row in rows]
    assert kernels.hash_columns(columns).tolist() == expected
    after_one = [reference.hash_values(row, leading=1) for row in rows]
    assert kernels.hash_columns(columns, leading=1).tolist() == after_one
    assert kernels.key_words(columns).tolist() == [list(reference.key_words(row)) for row in rows]
    assert kernels.key_words(columns).tolist() == list(map(list, zip(expected, after_one, strict=True)))
    assert kernels.identities(columns, {}).tolist() == [reference.identity_of(row) for row in rows]


def test_published_values() -> None:
    assert reference.hash_bytes(b"", 0) & 2**64 - 1 == 0xEF46DB3751D8E999
    assert reference.hash_bytes(b"abc", 0) & 2**64 - 1 == 0x44BC2CF5AD770999
    # Results of xxhash64(0L), xxhash64(1577836800000000L), xxhash64(array()) in a Spark 4.2 shell.
    assert reference.hash_words(42, [0]) == -5252525462095825812
    assert reference.hash_words(42, [1577836800000000]) == 7881863312764026046
    assert reference.canonical([]) == 42


@pytest.mark.parametrize("size", [*range(0, 40), 63, 64, 65, 100, 1000])
@MODES
def test_every_length_of_bytes(kernels: ModuleType, size: int) -> None:
    data = bytes(i * 37 % 256 for i in range(size))
    assert kernels.hash_columns([pa.array([data])]).tolist() == [reference.hash_values([data])]
    assert reference.hash_values([data]) == reference.hash_long(0, reference.hash_bytes(data, 42))


def test_values_that_are_one_are_hashed_as_one() -> None:
    same = [
        [0.0, -0.0],
        [math.nan, -math.nan, float(np.frombuffer(b"\1\0\0\0\0\0\xf8\xff", np.float64)[0])],
        [{"a": 1, "b": None}, {"b": None, "a": 1}],
        [1, True, datetime(1970, 1, 1, 0, 0, 0, 1), date(1970, 1, 2), timedelta(microseconds=1)],
        ["é", "é".encode()],
        [None, 2**63, math.nan.__class__],
    ]
    for values in same:
        assert len({reference.hash_values([value]) for value in values}) == 1, values


def test_values_that_are_two_are_hashed_as_two() -> None:
    rows: list[list[Any]] = [
        [], [None], [None, None], [None, 1], [1, None], [0], [0, 0], [""], ["", ""], ["ab", "c"], ["a", "bc"],
        [[]], [[None]], [[[]]], [[[], []]], [[1, 2]], [[[1], [2]]], [[[1, 2]]], [[[1, 2], []]],
        [{"a": None}], [{"a": 1}], [{"b": 1}], [{"a": {"b": 1}}], [{"a": 1, "b": 2}], [{"a": 2, "b": 1}],
        [Decimal("1.0")], [Decimal("1.00")], [1.0], [1], [2],
    ]  # fmt: skip
    assert len({reference.hash_values(row) for row in rows}) == len(rows)
    many = [[None if i == hole else 7 for i in range(130)] for hole in range(130)]
    assert len({reference.hash_values(row) for row in many}) == 130


@MODES
def test_more_columns_than_a_word_has_bits(kernels: ModuleType) -> None:
    rows = [[None if (i * 7 + row) % 5 == 0 else i for i in range(125)] for row in range(4)] + [list(range(125))]
    columns = [pa.array(list(column), pa.int64()) for column in zip(*rows, strict=True)]
    assert kernels.hash_columns(columns).tolist() == [reference.hash_values(row) for row in rows]


@MODES
def test_no_columns_and_no_rows(kernels: ModuleType) -> None:
    assert kernels.hash_columns([], rows=2).tolist() == [42, 42]
    assert kernels.key_words([], rows=2).tolist() == [list(reference.key_words([]))] * 2
    for kind, _ in SIMPLE:
        assert kernels.hash_columns([pa.array([], kind)]).tolist() == []
        assert kernels.hash_columns([pa.nulls(2, kind)]).tolist() == [reference.hash_values([None])] * 2
    with pytest.raises(ValueError, match="Column 2 has 1 rows"):
        kernels.hash_columns([pa.array([1, 2]), pa.array([1])])


@MODES
def test_identities(kernels: ModuleType) -> None:
    columns = {"b": pa.array([5, None, -7]), "a": pa.array(["x", None, "y"]), "c": pa.array([1, 2, 3], pa.int32())}
    own = kernels.identities([columns["b"]], columns)
    assert own.tolist() == [5, reference.hash_values([None]), -7]
    assert kernels.identities([columns["c"]], columns).tolist() == [1, 2, 3]
    assert kernels.identities([columns["c"].dictionary_encode()], columns).tolist() == [1, 2, 3]
    by_two = kernels.identities([columns["b"], columns["a"]], columns)
    assert by_two.tolist() == [reference.hash_values(row) for row in [(5, "x"), (None, None), (-7, "y")]]
    by_all = kernels.identities([], columns)
    assert by_all.tolist() == [reference.hash_values(row) for row in [("x", 5, 1), (None, None, 2), ("y", -7, 3)]]


@MODES
def test_events_of_a_table_have_the_same_identities(kernels: ModuleType) -> None:
    table = pa.table(
        {
            "ts": pa.array([3, 1, 2]),
            "type": ["A", "B", "A"],
            "v": pa.array([1.5, None, -0.0]),
            "n": pa.array([9, 8, 9]),
            "m": pa.array([[("b", 1), ("a", None)], None, []], pa.map_(pa.string(), pa.int32())),
        }
    )
    columns = {name: table[name] for name in table.column_names}
    for id_columns in ((), ("n",), ("type", "n")):
        read = read_events(Events(table, id=id_columns))
        found = kernels.identities([table[name] for name in id_columns], columns).tolist()
        assert [int(event.id) for event in read] == found
        assert [event.rank[-1] for event in read] == found


def test_rows_that_leave_out_nulls_are_rows_of_one_table() -> None:
    rows = [{"ts": 1, "type": "A", "x": 1}, {"ts": 1, "type": "A", "y": 1}]
    full = [{"x": None, "y": None, **row} for row in rows]
    ids = [event.id for event in read_events(Events(rows))]
    assert ids == [event.id for event in read_events(Events(full))]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("text", ["e1", "", "007", "-0", "1_0", "١", str(2**63), "é\ud800", " 1"])
def test_ids_that_are_no_numbers_are_hashed(text: str) -> None:
    assert reference.identity_word(text) == reference.hash_bytes(text.encode("utf-8", "surrogatepass"), 42)


@given(integers(64))
def test_ids_that_are_numbers_are_themselves(number: int) -> None:
    assert reference.identity_word(str(number)) == number


TAKEN = st.tuples(st.integers(0, 9), integers(64), st.integers(0, 9), integers(64))


@MODES
@settings(max_examples=50)
@given(
    st.text(max_size=20), st.lists(st.tuples(st.text(max_size=5), st.lists(TAKEN, min_size=1, max_size=4)), max_size=5)
)
def test_match_ids(kernels: ModuleType, meaning: str, matches: list[tuple[str, list[tuple[int, ...]]]]) -> None:
    expected = [
        match_id(meaning, [key], [(step, Event("A", time, {}, str(own), count)) for step, time, count, own in events])
        for key, events in matches
    ]
    keys = kernels.key_words([pa.array([key for key, _ in matches], pa.string())])
    offsets = np.cumsum([0, *(len(events) for _, events in matches)], dtype=np.int64)
    flat = np.array([event for _, events in matches for event in events], np.int64).reshape(-1, 4)
    columns = [np.ascontiguousarray(flat[:, i]) for i in range(4)]
    lanes = kernels.match_words(*reference.match_seeds(meaning), keys, offsets, *columns)
    assert lanes.shape == (len(matches), 2)
    written = kernels.hex_ids(lanes)
    assert written.type == pa.string()
    written.validate(full=True)
    assert written.to_pylist() == expected


def test_hex_ids_have_leading_zeros() -> None:
    lanes = np.array([[0, -1], [255, -(2**63)]], np.int64)
    assert hashing.hex_ids(lanes).to_pylist() == ["0" * 16 + "f" * 16, "00000000000000ff8000000000000000"]
    assert hashing.hex_ids(lanes[:0]).to_pylist() == []
    assert hashing.hex_ids(np.asfortranarray(lanes)).to_pylist() == hashing.hex_ids(lanes).to_pylist()
