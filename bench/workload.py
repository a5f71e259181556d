"""Events and queries of the sequence benchmarks."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 20240601
KEYS = 10_000
ROW_GROUP = 250_000
FORMAT = 1
"""Part of every cached file's name: increment it if the generated data changes."""

WINDOW_MS = 60_000
"""Q1 to Q3: the last event is less than this after the first."""
ABSENCE_MS = 30_000
"""Q4: there is no B for less than this after A."""
PAIR_WINDOW_MS = 600_000
"""Q5: the second A is less than this after the first."""

EVENTS = {"quick": 1_000_000, "standard": 2_000_000, "full": 20_000_000}
FILLERS = 27
"""Columns of the wide file that no query reads; with key, type and v they are 30, in addition to id and ts."""


@dataclass(frozen=True)
class Query:
    """A pattern as a user writes it, and its minimal input."""

    name: str
    dataset: str
    text: str
    types: tuple[str, ...]
    """Event types that its steps name."""
    strict: bool
    """All events matter, so none may be dropped before the shuffle."""
    columns: tuple[str, ...] = ("id", "ts", "key", "type", "v")
    """Columns that it reads."""


def _sequence(match: str, condition: str, window: int, skip: str = "") -> str:
    where = f"where  {condition}\n" if condition else ""
    return f"match  {match}\n{where}within {window} milliseconds\npartition by key\n{skip}return a.id as aid\n"


_PAST_LAST = "after match skip past last\n"
# `within` and `for` include their bound: below 60 s is, in whole milliseconds, at most 59,999.
_WITHIN = WINDOW_MS - 1
_RISING = "A a -> B b -> C c"

QUERIES: dict[str, Query] = {
    query.name: query
    for query in (
        Query(
            "Q1",
            "plain",
            "pattern q1\n" + _sequence(_RISING, "b.v > a.v", _WITHIN, _PAST_LAST),
            ("A", "B", "C"),
            strict=False,
        ),
        Query(
            "Q1n",
            "plain",
            "pattern q1n\n" + _sequence(_RISING, "b.v > a.v", _WITHIN),
            ("A", "B", "C"),
            strict=False,
        ),
        Query(
            "Q2",
            "plain",
            "pattern q2\n" + _sequence("A a, B b, C c", "b.v > a.v", _WITHIN),
            ("A", "B", "C"),
            strict=True,
        ),
        Query(
            "Q3",
            "plain",
            "pattern q3\n" + _sequence("A a, B+ b, C c", "sum(b.v) > 100", _WITHIN),
            ("A", "B", "C"),
            strict=True,
        ),
        Query(
            "Q4",
            "plain",
            f"pattern q4\nmatch  A a -> not B for {ABSENCE_MS - 1} milliseconds\npartition by key\nreturn a.id as aid\n",
            ("A", "B"),
            strict=False,
            columns=("id", "ts", "key", "type"),
        ),
        Query(
            "Q1w",
            "wide",
            "pattern q1w\n" + _sequence(_RISING, "b.v > a.v", _WITHIN, _PAST_LAST),
            ("A", "B", "C"),
            strict=False,
        ),
        Query(
            "Q5",
            "busy",
            "pattern q5\n" + _sequence("A a -> A b", "", PAIR_WINDOW_MS - 1),
            ("A",),
            strict=False,
            columns=("id", "ts", "key", "type"),
        ),
    )
}


@dataclass(frozen=True)
class EventArrays:
    """Events as arrays, in the order of time and id, or, after :meth:`by_key`, of key, time and id."""

    id: npt.NDArray[np.int64]
    ts: npt.NDArray[np.int64]
    """Milliseconds."""
    key: npt.NDArray[np.int16]
    type: npt.NDArray[np.int8]
    """0 is A, 1 is B, and so on."""
    v: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.id)

    def head(self, count: int) -> EventArrays:
        """The first events."""
        return EventArrays(self.id[:count], self.ts[:count], self.key[:count], self.type[:count], self.v[:count])

    def by_key(self) -> EventArrays:
        """The same events ordered by key, then time, then id."""
        order = np.argsort(self.key, kind="stable")
        return EventArrays(self.id[order], self.ts[order], self.key[order], self.type[order], self.v[order])

    def key_bounds(self) -> npt.NDArray[np.int64]:
        """Start index of each key's events, and the end index; events must be ordered by key."""
        changes = np.flatnonzero(self.key[1:] != self.key[:-1]) + 1
        return np.concatenate(([0], changes, [len(self)])).astype(np.int64)


def generate(dataset: str, count: int, keys: int = KEYS) -> EventArrays:
    """Events of a dataset: ``plain`` for Q1 to Q4, ``wide`` for Q1w, ``busy`` for Q5.

    plain: an event every millisecond, uniform keys, types A to J, v in 0..100.
    wide: keys drawn by Zipf's law with exponent 1.1, four events share each time.
    busy: as plain, with types A to E. Every A but a key's first ends a match of Q5: a fifth of all events, less one a key.
    """
    rng = np.random.default_rng(SEED)
    ids = np.arange(count, dtype=np.int64)
    if dataset == "wide":
        weights = np.arange(1, keys + 1, dtype=np.float64) ** -1.1
        shares = np.cumsum(weights / weights.sum())
        key = np.minimum(np.searchsorted(shares, rng.random(count)), keys - 1)
        ts = ids // 4 * 4
    else:
        key = rng.integers(0, keys, count, dtype=np.int32)
        ts = ids.copy()
    types = rng.integers(0, 5 if dataset == "busy" else 10, count)
    v = rng.random(count) * 100.0
    return EventArrays(ids, ts, key.astype(np.int16), types.astype(np.int8), v)


def rows(events: EventArrays, dataset: str = "plain", keys: int = KEYS) -> pa.Table:
    """The events as the table that is written, ``ts`` as a timestamp."""
    letters = pa.array([chr(ord("A") + i) for i in range(10)])
    columns: dict[str, Any] = {
        "id": pa.array(events.id),
        "ts": pa.array(events.ts * 1000).cast(pa.timestamp("us", "UTC")),
        "key": pa.array(events.key.astype(np.int32)),
        "type": letters.take(pa.array(events.type)),
        "v": pa.array(events.v),
    }
    if dataset == "wide":
        columns["key"] = _long_keys(keys).take(pa.array(events.key))
        columns |= _fillers(events.id)
    return pa.table(columns)


def _long_keys(keys: int) -> pa.Array:
    """A string of 36 characters for each key."""
    return pa.array([str(uuid.uuid5(uuid.NAMESPACE_OID, str(i))) for i in range(keys)])


def _fillers(ids: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
    """Columns that no query reads: numbers and strings of a thousand values each."""
    texts = pa.array([f"value {i:04d}" for i in range(1000)])
    columns = {}
    for i in range(FILLERS):
        drawn = (ids * (2 * i + 7919) + i * 104_729) % 1_000_003 % 1000
        if i % 3 == 0:
            columns[f"x{i:02d}"] = texts.take(pa.array(drawn))
        elif i % 3 == 1:
            columns[f"x{i:02d}"] = pa.array(drawn / 10)
        else:
            columns[f"x{i:02d}"] = pa.array(drawn)
    return columns


def parquet(folder: Path, dataset: str, count: int) -> Path:
    """Path of the dataset's Parquet file in this folder, written if it does not exist."""
    path = folder / f"{dataset}-{count}-v{FORMAT}.parquet"
    if path.exists():
        return path
    events = generate(dataset, count)
    part = path.with_suffix(f".{os.getpid()}.part")
    writer = None
    for start in range(0, count, ROW_GROUP):
        end = min(start + ROW_GROUP, count)
        group = EventArrays(
            events.id[start:end],
            events.ts[start:end],
            events.key[start:end],
            events.type[start:end],
            events.v[start:end],
        )
        table = rows(group, dataset)
        if writer is None:
            plain_columns = {"id", "ts", "v"}
            writer = pq.ParquetWriter(
                part,
                table.schema,
                compression="snappy",
                use_dictionary=[name for name in table.column_names if name not in plain_columns],
            )
        writer.write_table(table, row_group_size=ROW_GROUP)
    if writer is not None:
        writer.close()
    part.rename(path)
    return path
