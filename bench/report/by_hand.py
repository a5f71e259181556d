"""The queries as a Spark user without Perseid writes them on a stream: Python code for one key at a time.

Both programs buffer the events of a key. When the watermark passes the end of an A's window, the loop below decides
this A. So late events and events that are out of order are correct, as in the other streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.workload import ABSENCE_MS, WINDOW_MS, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = tuple[int, int, str, float]
"""Time in milliseconds, id, type, v."""
WINDOWS = {"Q4": ABSENCE_MS}
STATE = "ts array<bigint>, ids array<bigint>, types array<string>, vs array<double>, free bigint"


class Decision(NamedTuple):
    """What a key emits and retains after the watermark moved."""

    ids: list[int]
    rows: list[Row]
    """Events that a later A, or one that is not decided, can need."""
    free: int
    """Q1: an A at or before this time is inside the last match."""
    due: int | None
    """End of the first window that is not decided."""


def decide(query: str, rows: Sequence[Row], free: int, watermark: int) -> Decision:
    """Decide every A whose window ends at or before the watermark; rows are in the order of time."""
    window = WINDOWS.get(query, WINDOW_MS)
    found: list[int] = []
    first, due = len(rows), None
    for i, (ts, id_, kind, _) in enumerate(rows):
        if kind != "A":
            continue
        if ts + window > watermark:
            first, due = i, ts + window
            break
        if query == "Q1" and ts <= free:
            continue
        end = _match_end(query, rows, i, ts + window)
        if end is not None:
            found.append(id_)
            free = end
    # An A may still arrive up to the watermark's delay late, and need the events after it.
    recent = next((i for i, row in enumerate(rows) if row[0] >= watermark), len(rows))
    return Decision(found, list(rows[min(first, recent) :]), free, due)


def _match_end(query: str, rows: Sequence[Row], start: int, limit: int) -> int | None:
    """Time of the last event of the match from an A, whose window ends before ``limit``."""
    v = rows[start][3]
    later = [row for row in rows[start + 1 :] if row[0] < limit]
    if query in ("Q1", "Q1n"):
        b = next((i for i, row in enumerate(later) if row[2] == "B" and row[3] > v), len(later))
        return next((row[0] for row in later[b + 1 :] if row[2] == "C"), None)
    if query == "Q2":
        named = [row[2] for row in later[:2]] == ["B", "C"]
        return later[1][0] if named and later[0][3] > v else None
    if query == "Q3":
        end = next((i for i, row in enumerate(later) if row[2] != "B"), len(later))
        named = 0 < end < len(later) and later[end][2] == "C"
        return later[end][0] if named and sum(row[3] for row in later[:end]) > 100 else None
    if query == "Q4":
        return None if any(row[2] == "B" for row in later) else rows[start][0]
    raise ValueError(query)


def events_of(query: Query, source: DataFrame) -> DataFrame:
    """The columns that the query reads; events of other types are dropped before the shuffle if that is correct."""
    kept = f"type in ({', '.join(map(repr, query.types))}) or ts is null"  # `ts`: or Spark filters before its watermark
    rows = source if query.strict else source.where(kept)
    return rows.selectExpr("key", "ts", "id", "type", "v" if "v" in query.columns else "0D as v")


def _read(frames: Iterator[Any]) -> list[Row]:
    rows: list[Row] = []
    for frame in frames:
        ts = frame["ts"].astype("datetime64[ms]").astype("int64")
        rows += zip(ts.tolist(), frame["id"].tolist(), frame["type"].tolist(), frame["v"].tolist(), strict=True)
    return rows


def _unpack(state: Any) -> tuple[list[Row], int]:
    ts, ids, types, vs, free = state
    rows = zip(map(int, ts), map(int, ids), map(str, types), map(float, vs), strict=True)
    return list(rows), int(free)


def _pack(decision: Decision) -> tuple[list[int], list[int], list[str], list[float], int]:
    rows = decision.rows
    return (
        [row[0] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
        [row[3] for row in rows],
        decision.free,
    )


def with_group_state(query: Query, source: DataFrame) -> DataFrame:
    """``applyInPandasWithState``: one group per key."""
    name = query.name

    def step(_key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        rows, free = _unpack(state.get) if state.exists else ([], -1)
        if not state.hasTimedOut:
            rows = sorted(rows + _read(frames))
        decision = decide(name, rows, free, state.getCurrentWatermarkMs())
        if decision.rows:
            state.update(_pack(decision))
            if decision.due is not None:
                state.setTimeoutTimestamp(decision.due)
        elif state.exists:
            state.remove()
        yield pd.DataFrame({"aid": decision.ids}, dtype="int64")

    grouped = events_of(query, source).groupBy("key")
    return grouped.applyInPandasWithState(step, "aid bigint", STATE, "append", "EventTimeTimeout")


def with_processor(query: Query, source: DataFrame) -> DataFrame:
    """``transformWithStateInPandas``: one group per key, the buffer as one value, a timer for the next decision."""
    from pyspark.sql.streaming import StatefulProcessor

    name = query.name

    class Detector(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._handle = handle
            self._buffer = handle.getValueState("buffer", f"{STATE}, timer bigint")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N803 - Spark's names
            yield from self._step(_read(rows), timerValues)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N803
            yield from self._step([], timerValues)

        def close(self) -> None:
            pass

        def _step(self, new: list[Row], timers: Any) -> Iterator[Any]:
            import pandas as pd

            state = self._buffer.get()
            *before, timer = state if state is not None else ([], [], [], [], -1, -1)
            rows, free = _unpack(before)
            watermark = timers.getCurrentWatermarkInMs()
            decision = decide(name, sorted(rows + new), free, watermark)
            due = -1 if decision.due is None else decision.due
            if due not in (-1, timer):
                self._handle.registerTimer(due)
            if decision.rows:
                self._buffer.update((*_pack(decision), due))
            elif state is not None:
                self._buffer.clear()
            yield pd.DataFrame({"aid": decision.ids}, dtype="int64")

    return (
        events_of(query, source)
        .groupBy("key")
        .transformWithStateInPandas(
            statefulProcessor=Detector(), outputStructType="aid bigint", outputMode="Append", timeMode="EventTime"
        )
    )
