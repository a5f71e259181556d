"""Every call of Perseid that the benchmarks make."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import perseid
from bench.truth import Answer
from bench.workload import EventArrays, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from perseid.engines.sequence.columns import OrderedEvents

# Benchmarks may be newer or older than what they measure: what is missing shows up as a figure without a value.
_perseid: Any = perseid
ROOM = 4096
"""Times the room a search begins with: enough for all matches of 20 million events."""


def on_spark(query: Query, frame: DataFrame) -> Answer:
    """Matches of a query over a Spark frame, counted and their ids added up in Spark."""
    from bench.spark_rivals import answer_of

    pattern = _perseid.pattern(query.text)
    return answer_of(pattern.match(_perseid.events(frame, time="ts", type="type", id="id")), "aid")


def local(query: Query, path: Path) -> Answer:
    """Matches of a query over a Parquet file, without Spark."""
    pattern = _perseid.pattern(query.text)
    matches = pattern.match(_perseid.events(str(path), time="ts", type="type", id="id"))
    ids = matches.to_arrow().column("aid")
    return Answer(len(matches), int(pc.sum(ids).as_py() or 0))


def in_memory(query: Query, rows: list[dict[str, Any]]) -> Answer:
    """Matches of a query over a list of rows."""
    matches = _perseid.pattern(query.text).match(_perseid.events(rows, time="ts", type="type", id="id"))
    return Answer(len(matches), sum(int(match.values["aid"]) for match in matches))


def kernel_rate(query: Query, arrays: EventArrays) -> tuple[float, Answer]:
    """Events per second of the kernel alone, one core, over arrays that are ordered by key, time and id.

    Times only the kernel: what it needs beside the arrays (key bounds, masks, a first call that compiles) is made
    before the clock starts. Also gives what it found, so that the rate counts only with the right answer.
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
    answer = kernel.search_starts(prepared, offsets, offsets[1:], np.zeros(len(offsets), np.int64), none, none)
    taken = time.perf_counter() - started
    if answer != y.CONTINUE:
        raise RuntimeError("the room made for the kernel was too small")
    starts = raw.starts
    return len(arrays) / taken, Answer(len(raw), int(arrays.id[starts].sum()))


def engine_rate(query: Query, arrays: EventArrays) -> tuple[float, Answer]:
    """Events per second of the engine, one thread, from arrays in the order of time to matches in numbers.

    Times dropping what no step wants, ordering by key and time, masks and indexes, and the kernel; planning comes
    before, and so must a first call, which compiles. Also gives what it found.
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
    starts = found.batch.order[found.raw.starts]
    return len(arrays) / taken, Answer(len(found.raw), int(arrays.id[starts].sum()))


def _columns(arrays: EventArrays) -> dict[str, Any]:
    """Times, types and columns as engines take them."""
    return {
        "time": arrays.ts * 1000,
        "type_codes": arrays.type.astype(np.int32),
        "type_names": [chr(ord("A") + i) for i in range(10)],
        "columns": {"id": pa.array(arrays.id), "v": pa.array(arrays.v), "key": pa.array(arrays.key)},
    }


def _batch(columns: Mapping[str, Any]) -> OrderedEvents:
    """The same as the kernel's batch, which has no keys."""
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


def stands(changes: DataFrame) -> DataFrame:
    """What was told and not taken back."""
    folded: DataFrame = _perseid.disorder.current_matches(changes)
    return folded


def counters(progress: Any) -> dict[str, int]:
    """What a stream counted in one batch, by its progress."""
    from perseid.spark.progress import counters as counted

    (observed,) = (row for name, row in progress["observedMetrics"].items() if name.startswith("perseid"))
    return {name: int(value) for name, value in counted(observed).items() if name != "by_shard"}
