"""Sorting and partitioning of columns against a plain sort of values, with and without Numba."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from decimal import Decimal
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid.runtime import event_order, jit, key_encoding
from perseid.runtime.key_encoding import key_codes
from perseid.semantics import values as v

NAN = math.nan
UTC = dt.UTC


@pytest.fixture(params=[True, False], ids=["numba", "plain"], autouse=True)
def compiled(request: pytest.FixtureRequest) -> Iterator[bool]:
    if request.param and not jit.COMPILED:
        pytest.skip("Numba is switched off")
    with nullcontext() if request.param else jit.plain_kernels():
        yield bool(request.param)


def expected(
    keys: list[list[Any]], time: list[int], ranks: list[list[Any]], identity: list[int] | None
) -> tuple[list[list[int]], dict[int, int]]:
    """Returns partitions as lists of rows, and the occurrence number of each row, by the simplest algorithm."""
    groups: dict[object, list[int]] = {}
    for row in range(len(time)):
        groups.setdefault(tuple(v.identity(v.plain(key[row])) for key in keys), []).append(row)

    def by_all(left: int, right: int) -> int:
        if time[left] != time[right]:
            return -1 if time[left] < time[right] else 1
        for rank in ranks:
            a, b = v.plain(rank[left]), v.plain(rank[right])
            if a is None or b is None:
                found: int | None = (a is not None) - (b is not None)
            else:
                found = v.compare(a, b)
            if found:
                return found
        if identity is not None and identity[left] != identity[right]:
            return -1 if identity[left] < identity[right] else 1
        return 0

    occurrence: dict[int, int] = {}
    for rows in groups.values():
        rows.sort(key=cmp_to_key(by_all))
        seen: dict[tuple[int, int], int] = {}
        for row in rows if identity is not None else []:
            name = (time[row], identity[row])  # type: ignore[index]
            occurrence[row] = seen.get(name, 0)
            seen[name] = occurrence[row] + 1
    return list(groups.values()), occurrence


def check(keys: list[Any], time: list[int], ranks: list[Any], identity: list[int] | None) -> event_order.Arrangement:
    """Asserts that arranging Arrow columns equals arranging their plain values."""
    found = event_order.arrange(
        keys, np.array(time, np.int64), ranks, None if identity is None else np.array(identity, np.int64)
    )
    partitions, occurrence = expected(
        [key.to_pylist() for key in keys], time, [rank.to_pylist() for rank in ranks], identity
    )
    assert found.order.dtype == found.offsets.dtype == np.int64
    rows, offsets = found.order.tolist(), found.offsets.tolist()
    assert offsets[0] == 0
    assert offsets[-1] == len(time)
    got = [rows[a:b] for a, b in pairwise(offsets)]
    assert sorted(got) == sorted(partitions)
    assert found.partitions == len(got)
    if identity is None:
        assert found.occurrence is None
    else:
        assert found.occurrence is not None
        assert dict(zip(rows, found.occurrence.tolist(), strict=True)) == occurrence
    return found


def moment(draw: random.Random) -> dt.datetime:
    return dt.datetime(2024, 1, 1, 0, 0, draw.randrange(3), draw.randrange(3), tzinfo=UTC)


KINDS: dict[str, tuple[Any, Callable[[random.Random], Any]]] = {
    "bool": (pa.bool_(), lambda r: r.random() < 0.5),
    "int8": (pa.int8(), lambda r: r.choice([-128, -1, 0, 1, 127])),
    "int32": (pa.int32(), lambda r: r.randrange(-3, 4)),
    "int32 wide": (pa.int32(), lambda r: r.choice([-(2**31), -5, 0, 7, 2**31 - 1])),
    "int64": (pa.int64(), lambda r: r.choice([-(2**63), -1, 0, 5, 2**63 - 1])),
    "uint8": (pa.uint8(), lambda r: r.choice([0, 1, 127, 128, 255])),
    "uint32": (pa.uint32(), lambda r: r.choice([0, 2**31, 2**32 - 1])),
    "uint64": (pa.uint64(), lambda r: r.choice([0, 1, 2**40, 2**63 - 1])),
    "double": (pa.float64(), lambda r: r.choice([NAN, -NAN, 0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, 1e300])),
    "float": (pa.float32(), lambda r: r.choice([NAN, 0.0, -0.0, 0.5, -2.0, math.inf])),
    "half": (pa.float16(), lambda r: np.float16(r.choice([NAN, 0.0, -0.0, 0.5, -2.0]))),
    "string": (
        pa.string(),
        lambda r: r.choice(["", "a", "ab", "b", "é", "日本", "😀", "long " * 3, "long " * 3 + "er"]),
    ),
    "large_string": (pa.large_string(), lambda r: r.choice(["", "x", "eight888", "eight889", "eight888 and more"])),
    "string_view": (pa.string_view(), lambda r: r.choice(["", "x", "a string longer than twelve bytes"])),
    "binary": (pa.binary(), lambda r: r.choice([b"", b"\0", b"\0\0", b"\xff", b"a" * 9])),
    "binary_view": (pa.binary_view(), lambda r: r.choice([b"", b"\0", b"\xff", b"a" * 19])),
    "fixed": (pa.binary(3), lambda r: r.choice([b"abc", b"abd", b"\xff\0\0"])),
    "decimal": (pa.decimal128(20, 2), lambda r: r.choice([Decimal("-1.50"), Decimal("0.00"), Decimal("10.25")])),
    "date": (pa.date32(), lambda r: dt.date(2024, 1, r.randrange(1, 4))),
    "date64": (pa.date64(), lambda r: dt.date(1969, 12, r.randrange(29, 32))),
    "timestamp": (pa.timestamp("us", "UTC"), moment),
    "timestamp ms": (pa.timestamp("ms"), lambda r: moment(r).replace(microsecond=0, tzinfo=None)),
    "duration": (pa.duration("us"), lambda r: dt.timedelta(days=r.choice([-1, 2, 10]), microseconds=r.randrange(2))),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), lambda r: r.choice(["p", "q", "r"])),
    "list": (pa.list_(pa.int64()), lambda r: [r.randrange(3) for _ in range(r.randrange(3))]),
    "null": (pa.null(), lambda r: None),
}


def column(kind: str, rows: int, draw: random.Random, nulls: float) -> Any:
    type_, one = KINDS[kind]
    return pa.array([None if draw.random() < nulls else one(draw) for _ in range(rows)], type_)


def in_pieces(whole: Any, draw: random.Random) -> Any:
    """The same values as slices that do not start where their buffers do, some of them empty."""
    padded = pa.concat_arrays([whole.slice(0, 1), whole]).slice(min(1, len(whole)))
    cuts = sorted([0, len(whole), draw.randint(0, len(whole)), draw.randint(0, len(whole))])
    return pa.chunked_array([padded.slice(a, b - a) for a, b in pairwise(cuts)], whole.type)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_each_kind_as_key_and_rank(kind: str, nulls: float) -> None:
    draw = random.Random(f"{kind} {nulls}")
    for rows in (1, 2, 40):
        key, rank = column(kind, rows, draw, nulls), column(kind, rows, draw, nulls)
        time = [draw.randrange(3) for _ in range(rows)]
        identity = [draw.randrange(-2, 3) for _ in range(rows)]
        check([key], time, [rank], identity)
        check([in_pieces(key, draw)], sorted(time), [in_pieces(rank, draw)], identity)


@pytest.mark.parametrize("seed", range(40))
def test_random_columns(seed: int) -> None:
    draw = random.Random(seed)
    rows = draw.choice([0, 1, 2, 5, 30, 120, 400])
    keys = [column(draw.choice(list(KINDS)), rows, draw, draw.choice([0, 0.2])) for _ in range(draw.randrange(4))]
    ranks = [column(draw.choice(list(KINDS)), rows, draw, draw.choice([0, 0.2])) for _ in range(draw.randrange(3))]
    span = draw.choice([1, 3, 50, 10**6, 2**62])
    time = [draw.randrange(-span, span) for _ in range(rows)]
    if draw.random() < 0.5:
        time.sort()
    identity = [draw.randrange(-3, 4) for _ in range(rows)] if draw.random() < 0.8 else None
    first = check(keys, time, ranks, identity)
    again = check(keys, time, ranks, identity)
    assert first.order.tolist() == again.order.tolist()


@pytest.mark.parametrize("seed", range(6))
def test_both_modes_agree_to_the_row(seed: int, compiled: bool) -> None:
    if not compiled:
        pytest.skip("compared once")
    make = np.random.default_rng(seed)
    rows = 30_000
    names = pa.array([f"key {i * 7919}" for i in range(9_000)])
    keys = [
        [pa.array(make.integers(0, 500, rows).astype(np.int32))],
        [pa.array(make.integers(-(2**62), 2**62, rows))],
        [names.take(pa.array(make.integers(0, len(names), rows), mask=make.random(rows) < 0.01))],
        [pa.array(make.integers(0, 2_000, rows)), names.take(pa.array(make.integers(0, len(names), rows)))],
        [],
        [pa.array(make.integers(0, 9, rows).astype(np.uint64) << np.uint64(60))],
    ][seed]
    time = make.integers(0, 200 if seed % 2 else 2**50, rows)
    identity = make.integers(0, 50, rows)
    ranks = [pa.array(make.integers(0, 4, rows))] if seed % 3 else []
    for when in (time, np.sort(time)):
        fast = event_order.arrange(keys, when, ranks, identity)
        with jit.plain_kernels():
            slow = event_order.arrange(keys, when, ranks, identity)
        assert np.array_equal(fast.order, slow.order)
        assert np.array_equal(fast.offsets, slow.offsets)
        assert fast.occurrence is not None
        assert slow.occurrence is not None
        assert np.array_equal(fast.occurrence, slow.occurrence)


def test_no_rows() -> None:
    found = event_order.arrange([], np.zeros(0, np.int64), [], None)
    assert (found.order.tolist(), found.offsets.tolist(), found.occurrence) == ([], [0], None)
    found = event_order.arrange([pa.array([], pa.string())], np.zeros(0, np.int64), [], np.zeros(0, np.int64))
    assert (found.partitions, found.occurrence is not None) == (0, True)
    empty = pa.chunked_array([], pa.int32())
    assert event_order.arrange([empty], np.zeros(0, np.int64), [empty], None).partitions == 0


def test_no_keys_are_one_partition() -> None:
    found = check([], [3, 1, 2], [], [0, 0, 0])
    assert found.order.tolist() == [1, 2, 0]
    assert found.offsets.tolist() == [0, 3]


def test_special_values_are_one_key_each() -> None:
    keys = pa.array([0.0, NAN, None, -0.0, NAN, None, 1.0])
    assert check([keys], [0] * 7, [], None).partitions == 4


def test_ranks_stand_before_identity_and_nulls_first() -> None:
    rank = pa.array([1.0, NAN, None, math.inf, -0.0, 0.0])
    found = check([], [0] * 6, [rank], [0, 0, 0, 0, 2, 1])
    assert found.order.tolist() == [2, 5, 4, 0, 3, 1]


def test_equal_rows_are_numbered_though_ranks_part_them() -> None:
    found = check([], [0, 0, 0, 0, 1], [pa.array([2, 1, 1, 2, 1])], [7, 7, 8, 7, 7])
    assert found.order.tolist() == [1, 2, 0, 3, 4]
    assert found.occurrence is not None
    assert found.occurrence.tolist() == [0, 0, 1, 2, 0]


@pytest.mark.parametrize("edge", [-(2**63), 2**63 - 1])
def test_the_ends_of_time(edge: int) -> None:
    keys = pa.array([1, 2, 1, 2, 3])
    check([keys], [edge] * 5, [], [1, 1, 1, 0, 0])
    check([keys], [-(2**63), 2**63 - 1, -(2**63), 0, -(2**63)], [], [1, 0, 0, 0, 0])
    check([keys], [-(2**63), -(2**63), -(2**63), 0, 2**63 - 1], [], [1, 0, 0, 0, 0])


def test_a_rank_with_null_and_the_least_integer() -> None:
    rank = pa.array([-(2**63), None, 0, -(2**63) + 1, None])
    assert check([], [0] * 5, [rank], None).order.tolist() == [1, 4, 0, 3, 2]


def test_nanoseconds_count_as_their_microsecond() -> None:
    time = pa.array([1_999, 1_000, 2_000, -1, -1_000], pa.timestamp("ns"))
    found = event_order.arrange([time], np.zeros(5, np.int64), [], None)
    assert found.partitions == 3
    found = event_order.arrange([], np.zeros(5, np.int64), [time], None)
    assert found.order.tolist() == [3, 4, 0, 1, 2]


def test_dictionaries_with_doubles_nulls_and_differences() -> None:
    odd = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None, 1]), pa.array(["a", "b", "a", None]))
    assert check([odd], [0, 1, 2, 3, 4, 5], [odd], None).partitions == 3
    other = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["b", "c"]))
    check([pa.chunked_array([odd, other])], [0] * 9, [pa.chunked_array([odd, other])], list(range(9)))


def test_structs_and_run_ends() -> None:
    structs = pa.array([{"a": 1}, {"a": NAN}, None, {"a": 1}, {"a": NAN}])
    found = event_order.arrange([structs], np.zeros(5, np.int64), [structs], None)
    assert found.partitions == 3
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["b", "a"]))
    found = event_order.arrange([runs], np.zeros(5, np.int64), [runs], None)
    assert sorted(np.diff(found.offsets).tolist()) == [2, 3]
    assert event_order.arrange([], np.zeros(5, np.int64), [runs], None).order.tolist() == [2, 3, 4, 0, 1]


def test_groups_of_every_size_are_sorted() -> None:
    draw = random.Random(5)
    for rows in (2, 23, 24, 25, 48, 49, 97, 500):
        check([], [0] * rows, [], [draw.randrange(-rows, rows) for _ in range(rows)])


def test_strings_with_equal_hashes_are_distinct(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        pytest.skip("there is no hash")

    def same(*columns: Any) -> None:
        columns[-1][:] = 2**40 + 5

    monkeypatch.setattr(key_encoding, "_hash_bytes", same)
    monkeypatch.setattr(key_encoding, "_hash_integers", same)
    check([pa.array(["a", "b", None, "a", "c"])], [0] * 5, [], None)
    check([pa.array(["a", None, "a"])], [0] * 3, [], None)
    check([pa.array(["a", "ab", "a"])], [0] * 3, [], None)
    check([pa.array([0, 2**62, None, 0, -(2**62)])], [0] * 5, [], None)


def test_a_signaling_nan_is_a_nan_and_no_warning() -> None:
    bits = np.array([0x7FF0000000000001, 0x7FF8000000000000, 0], np.uint64)
    codes, _ = key_codes([pa.array(bits.view(np.float64))], 3)
    assert codes[0] == codes[1] != codes[2]
