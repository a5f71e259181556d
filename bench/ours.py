"""All calls of Perseid by the sequence benchmarks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import perseid
from bench.truth import MatchChecksum
from bench.workload import EventArrays, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from perseid.engines.sequence.columns import OrderedEvents

# The benchmarks may be newer or older than the product: a missing API shows as a figure without a value.
_perseid: Any = perseid
ROOM = 4096
"""Factor on the initial match buffer of a search: enough for all matches of 20 million events."""


def on_spark(query: Query, frame: DataFrame) -> MatchChecksum:
    """Matches of a query over a Spark DataFrame; Spark counts them and sums their ids."""
    from bench.spark_baselines import checksum_of

    return checksum_of(batch(query, frame), "aid")


def local(query: Query, path: Path) -> MatchChecksum:
    """Matches of a query over a Parquet file, without Spark."""
    ids = local_ids(query, path)
    return MatchChecksum(len(ids), int(ids.sum()))


def local_ids(query: Query, path: Path) -> npt.NDArray[np.int64]:
    """Ids of the matches of a query over a Parquet file, without Spark."""
    matches = _perseid.pattern(query.text).match(_perseid.events(str(path), time="ts", type="type", id="id"))
    return np.asarray(matches.to_arrow().column("aid").to_numpy(), np.int64)


def batch(query: Query, frame: DataFrame) -> DataFrame:
    """Matches of a query over a Spark DataFrame."""
    found: DataFrame = _perseid.pattern(query.text).match(_perseid.events(frame, time="ts", type="type", id="id"))
    return found


def in_memory(query: Query, rows: list[dict[str, Any]]) -> MatchChecksum:
    """Matches of a query over a list of rows."""
    matches = _perseid.pattern(query.text).match(_perseid.events(rows, time="ts", type="type", id="id"))
    return MatchChecksum(len(matches), sum(int(match.values["aid"]) for match in matches))


def kernel_rate(query: Query, arrays: EventArrays) -> tuple[float, MatchChecksum]:
    """Events per second of the kernel alone, on one core, over arrays ordered by key, time and id.

    Times only the kernel: what it needs in addition to the arrays (key bounds, masks, a first call that compiles) is
    computed before. Also returns the result, so that the rate counts only if it is correct.
    """
    from perseid.engines.sequence import kernel
    from perseid.engines.sequence import layout as y
    from perseid.engines.sequence.bytecode import compile_pattern
    from perseid.engines.sequence.columns import kernel_arrays
    from perseid.engines.sequence.run import find, make_space

    plan = _perseid.pattern(query.text).plan()
    batch = _batch(_columns(arrays))
    numbered = compile_pattern(plan, plan.patterns[0], batch.types(), False)
    offsets = arrays.key_bounds()
    raw, _ = find(numbered, batch, offsets)
    prepared = kernel_arrays(numbered, batch, *make_space(numbered, ROOM))
    none = np.zeros(0, np.int64)
    started = time.perf_counter()
    status = kernel.search_starts(prepared, offsets, offsets[1:], np.zeros(len(offsets), np.int64), none, none)
    taken = time.perf_counter() - started
    if status != y.CONTINUE:
        raise RuntimeError("the room made for the kernel was too small")
    starts = raw.starts
    return len(arrays) / taken, MatchChecksum(len(raw), int(arrays.id[starts].sum()))


def engine_rate(query: Query, arrays: EventArrays) -> tuple[float, MatchChecksum]:
    """Events per second of the engine on one thread, and the result: see :func:`engine_ids`."""
    taken, ids = engine_ids(query, arrays)
    return len(arrays) / taken, MatchChecksum(len(ids), int(ids.sum()))


def engine_ids(query: Query, arrays: EventArrays) -> tuple[float, npt.NDArray[np.int64]]:
    """Seconds of the engine on one thread, from arrays in time order to match positions, and the ids of the matches.

    Times dropping what no step takes, ordering by key and time, masks and indexes, and the kernel. Planning comes
    before, and so must a first call, which compiles.
    """
    from perseid.engines.sequence.engine import find_all
    from perseid.engines.sequence.plan import make_plan
    from perseid.runtime.event_batch import EventBatch

    plan = _perseid.pattern(query.text).plan()
    columns = _columns(arrays)
    route = plan.patterns[0].route
    rows = EventBatch(**columns, keys={route: {"key": columns["columns"]["key"]}}, identity=arrays.id)
    numbered = make_plan(plan, _batch(columns).types())
    started = time.perf_counter()
    [found] = find_all(numbered, rows, threads=1)
    taken = time.perf_counter() - started
    return taken, arrays.id[found.batch.order[found.raw.starts]]


def _columns(arrays: EventArrays) -> dict[str, Any]:
    """Times, types and columns in the form that engines take."""
    return {
        "time": arrays.ts * 1000,
        "type_codes": arrays.type.astype(np.int32),
        "type_names": [chr(ord("A") + i) for i in range(10)],
        "columns": {"id": pa.array(arrays.id), "v": pa.array(arrays.v), "key": pa.array(arrays.key)},
    }


def _batch(columns: Mapping[str, Any]) -> OrderedEvents:
    """The columns as the kernel's batch, which has no keys."""
    from perseid.engines.sequence.columns import OrderedEvents

    return OrderedEvents(columns["time"], columns["type_codes"], columns["type_names"], columns["columns"])


def streamed(query: Query, frame: DataFrame, shards: int, **settings: Any) -> DataFrame:
    """Matches of a query over a streaming frame."""
    found: DataFrame = _perseid.pattern(query.text).match(
        _perseid.events(
            frame, time="ts", type="type", id="id", options=_perseid.StreamOptions(shards=shards), **settings
        )
    )
    return found


def current_matches(changes: DataFrame) -> DataFrame:
    """Emitted matches without the retracted ones."""
    folded: DataFrame = _perseid.disorder.current_matches(changes)
    return folded


def counters(progress: Any) -> dict[str, int]:
    """Counters of a stream in one batch, from its progress."""
    from perseid.spark.progress import counters as counted

    (observed,) = (row for name, row in progress["observedMetrics"].items() if name.startswith("perseid"))
    return {name: int(value) for name, value in counted(observed).items() if name != "by_shard"}
