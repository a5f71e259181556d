"""Partitioning of Parquet input: every key in one partition, no row lost, no temporary file left."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from collections.abc import Collection
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perseid.errors import EventDataError
from perseid.runtime import jit, key_encoding
from perseid.semantics import values as v
from perseid.tables import parquet
from perseid.tables.parquet import Paths, partitioned


def read_parquet(paths: Paths, needed: Collection[str] | None = None) -> pa.Table:
    (table,) = partitioned(paths, (), needed, 1 << 30)
    return table


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Redirects temporary folders to a folder that the test inspects."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(autouse=True)
def one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process hashes keys in its own way, and in some of these ways few keys share one bucket."""
    monkeypatch.setattr(key_encoding, "_SEED", 1)


def events(rows: int, seed: int = 1) -> pa.Table:
    make = np.random.default_rng(seed)
    return pa.table(
        {
            "row": np.arange(rows),
            "user": pa.array([f"user-{i}" for i in make.integers(0, 50, rows)]),
            "shard": make.integers(0, 4, rows).astype(np.int32),
            "unused": ["x" * 50] * rows,
        }
    )


def write(table: pa.Table, folder: Path, files: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    step = -(-table.num_rows // files)
    for i in range(files):
        pq.write_table(table.slice(i * step, step), folder / f"part-{i}.parquet", row_group_size=100)
    return folder


def test_input_that_fits_in_memory_is_not_partitioned(tmp_path: Path, scratch: Path) -> None:
    table = events(1_000)
    folder = write(table, tmp_path / "in")
    (found,) = partitioned(folder, ["user"], {"row"}, 10**9)
    assert found.column_names == ["row", "user"]
    assert found.equals(table.select(["row", "user"]))
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("keys", [["user"], ["shard"], ["user", "shard"], ["user", "nowhere"]])
@pytest.mark.parametrize("compiled", [True, False])
def test_each_key_is_in_one_piece(
    keys: list[str], compiled: bool, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_BATCH", 64)
    table = events(3_000)
    folder = write(table, tmp_path / "in")
    seen: dict[object, int] = {}
    rows: list[int] = []
    with nullcontext() if compiled else jit.plain_kernels():
        pieces = list(partitioned([folder], keys, ["row"], 20_000))
    assert len(pieces) > 1
    for number, piece in enumerate(pieces):
        there = piece.column("row").to_pylist()
        assert there == sorted(there), "rows keep the order of the files"
        rows += there
        for row in piece.drop_columns(["row"]).to_pylist():
            assert seen.setdefault(tuple(row.values()), number) == number
    assert sorted(rows) == list(range(3_000))
    assert not list(scratch.iterdir())


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([0.0, -0.0, math.nan, None, 1.5] * 20),
        pa.array([Decimal("1.50"), None, Decimal("2.00"), Decimal("1.50"), Decimal("0.00")] * 20),
        pa.array(["a", None, "b", "a", "c"] * 20).dictionary_encode(),
        pa.array([dt.date(2024, 1, 1), None, dt.date(2024, 1, 2), None, dt.date(1960, 1, 1)] * 20),
        pa.array([True, None, False, True, None] * 20),
        pa.array([[1], None, [1, 2], [], [1]] * 20),
        pa.array([b"", None, b"\0", b"x", b""] * 20),
        pa.array(["a", None, "longer than twelve bytes", "a", "b"] * 20, pa.string_view()),
    ],
    ids=lambda keys: str(keys.type),
)
def test_keys_are_split_by_value(keys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_BATCH", 7)
    pq.write_table(pa.table({"key": keys, "row": range(100)}), tmp_path / "a.parquet", row_group_size=10)
    seen: dict[object, int] = {}
    count = 0
    for number, piece in enumerate(partitioned(tmp_path / "a.parquet", ["key"], None, 100)):
        count += piece.num_rows
        for key in piece.column("key").to_pylist():
            assert seen.setdefault(v.identity(v.plain(key)), number) == number
    assert count == 100
    assert len(set(seen.values())) > 1


def test_without_keys_it_is_refused(tmp_path: Path) -> None:
    folder = write(events(1_000), tmp_path / "in")
    for keys in ([], ["nowhere"]):
        with pytest.raises(EventDataError, match="without a key they cannot be split") as caught:
            list(partitioned(folder, keys, ["row"], 1_000))
        assert "partition by" in str(caught.value)
    assert "need about 8 KB of memory, the limit is 1 KB" in str(caught.value)


def test_temporary_files_go_when_left_early_or_on_an_error(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(events(3_000), tmp_path / "in")
    pieces = partitioned(folder, ["user"], ["row"], 20_000)
    next(pieces)
    assert list(scratch.iterdir())
    pieces.close()  # type: ignore[attr-defined]
    assert not list(scratch.iterdir())

    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(parquet, "key_hashes", fail)
    with pytest.raises(MemoryError):
        list(partitioned(folder, ["user"], ["row"], 20_000))
    assert not list(scratch.iterdir())


def test_long_strings_behind_a_dictionary_are_weighed_decoded(tmp_path: Path) -> None:
    table = pa.table({"text": ["x" * 1_000] * 5_000, "user": ["a", "b"] * 2_500})
    pq.write_table(table, tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 50_000
    assert len(list(partitioned(tmp_path / "a.parquet", ["user"], None, 1_000_000))) == 2


def test_files_may_lack_columns_and_folders_name_them(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=2").mkdir()
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "_temporary" / "part.parquet").write_text("half written")
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), tmp_path / "day=1" / "x.parquet")
    pq.write_table(pa.table({"a": pa.array([2], pa.int64()), "b": ["y"]}), tmp_path / "day=2" / "x.parquet")
    assert read_parquet(tmp_path).select(["a", "b", "day"]).to_pylist() == [
        {"a": 1, "b": None, "day": 1},
        {"a": 2, "b": "y", "day": 2},
    ]
    both = [tmp_path / "day=2" / "x.parquet", str(tmp_path / "day=1" / "x.parquet")]
    assert read_parquet(both, ["b", "a", "nowhere"]).to_pylist() == [{"a": 2, "b": "y"}, {"a": 1, "b": None}]


def test_unreadable_input_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EventDataError, match=r"File or folder '.*' not found"):
        read_parquet(tmp_path / "none.parquet")
    with pytest.raises(EventDataError, match="The list of input files is empty"):
        read_parquet([])
    (tmp_path / "empty").mkdir()
    with pytest.raises(EventDataError, match="No Parquet file found in the folder"):
        read_parquet(tmp_path / "empty")
    (tmp_path / "a.csv").write_text("ts,type\n1,A\n")
    with pytest.raises(EventDataError, match="cannot be read as Parquet") as caught:
        read_parquet(tmp_path / "a.csv")
    assert "pandas or pyarrow" in str(caught.value)
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and then nothing of use")
    with pytest.raises(EventDataError, match="cannot be read as Parquet"):
        read_parquet(tmp_path / "cut.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "two.parquet")
    with pytest.raises(EventDataError, match="have incompatible schemas"):
        read_parquet([tmp_path / "one.parquet", tmp_path / "two.parquet"])


def test_no_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    (found,) = partitioned(tmp_path / "a.parquet", ["a"], None, 0)
    assert found.num_rows == 0
