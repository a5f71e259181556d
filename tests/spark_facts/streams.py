"""Small streams for the tests of this folder: files with one batch each, and the output rows of the query."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

Batch = list[tuple[int, int | None]]
Act = Callable[[Any, Iterator[pd.DataFrame], GroupState], Iterable[pd.DataFrame]]

OUTPUT = "what STRING, label INT, at BIGINT, watermark BIGINT"
STATE = "blob BINARY"


class Streams:
    """Writes the batches of a stream, runs a query over all of them, and returns its output rows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.files = 0
        self.tables: dict[str, str] = {}

    def add(self, name: str, *batches: Batch) -> None:
        """Write one file for each batch. The file source reads the oldest file first, so file times must differ."""
        target = self.folder / name
        target.mkdir(exist_ok=True)
        for batch in batches:
            self.files += 1
            hidden = target / f".{self.files}"
            hidden.write_text("".join(json.dumps({"label": label, "at": at}) + "\n" for label, at in batch))
            os.utime(hidden, (1_600_000_000 + self.files, 1_600_000_000 + self.files))
            hidden.rename(target / f"{self.files:05}.json")

    def read(self, *batches: Batch, name: str = "input") -> DataFrame:
        """Return a stream with one batch per file; ``at`` is the time in seconds, ``ts`` the same time as a timestamp."""
        self.add(name, *batches)
        source = self.spark.readStream.schema("label INT, at BIGINT").option("maxFilesPerTrigger", 1)
        return source.json(str(self.folder / name)).withColumn("ts", f.timestamp_seconds("at"))

    def start(self, frame: DataFrame, name: str = "query", *, keep: bool = True, now: bool = True) -> StreamingQuery:
        """Start a query. With ``keep``, :meth:`rows` returns the output; without it, the query can be restarted."""
        writer = frame.writeStream.outputMode("append").option("checkpointLocation", self.checkpoint(name))
        if keep:
            self.tables[name] = f"facts_{uuid.uuid4().hex}"
            writer = writer.format("memory").queryName(self.tables[name])
        else:
            writer = writer.format("noop")
        return (writer.trigger(availableNow=True) if now else writer).start()

    def run(self, frame: DataFrame, name: str = "query", *, keep: bool = True) -> StreamingQuery:
        """Run a query over all of its input."""
        query = self.start(frame, name, keep=keep)
        try:
            assert query.awaitTermination(120), "the query did not end"
        finally:
            query.stop()
        return query

    def rows(self, name: str = "query") -> list[tuple[Any, ...]]:
        """Return the output rows, sorted."""
        return sorted(tuple(row) for row in self.spark.table(self.tables[name]).collect())

    def checkpoint(self, name: str = "query") -> str:
        return str(self.folder / f"{name}.checkpoint")

    def close(self) -> None:
        for query in self.spark.streams.active:
            query.stop()
        for table in self.tables.values():
            self.spark.catalog.dropTempView(table)


def far_future(delay: int = 0) -> Column:
    """Return a constant that Spark uses as the event-time column and that is never late.

    It must be before the year 2262, the maximum of the nanosecond timestamps of pandas.
    """
    return f.expr("TIMESTAMP '2200-01-01 00:00:00Z'").alias("never_late", metadata={"spark.watermarkDelayMs": delay})


def operator(frame: DataFrame, act: Act | None = None, *, timeouts: bool = True, out: str = OUTPUT) -> DataFrame:
    timeout = GroupStateTimeout.EventTimeTimeout if timeouts else GroupStateTimeout.NoTimeout
    return frame.groupBy("label").applyInPandasWithState(act or report(timeouts), out, STATE, "append", timeout)


def report(timeouts: bool = True) -> Act:
    """Return a function that outputs each call and sets a timeout five seconds of event time after the last row.

    It is a nested function, which is serialized by value, because the workers cannot import the tests.
    """

    def act(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterable[pd.DataFrame]:
        watermark = state.getCurrentWatermarkMs() if timeouts else 0
        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"what": ["timeout"], "label": [key[0]], "at": [0], "watermark": [watermark]})
            return
        times = [int(at) for frame in frames for at in frame["at"]]
        state.update((",".join(map(str, times)).encode(),))
        if timeouts:
            state.setTimeoutTimestamp(max(watermark, max(times) * 1000 + 5000))
        yield pd.DataFrame({"what": "row", "label": key[0], "at": times, "watermark": watermark})

    return act


def watermarks(query: StreamingQuery) -> list[int]:
    """Return the watermark of each batch, in seconds."""
    texts = [batch["eventTime"]["watermark"] for batch in query.recentProgress]
    return [int(pd.Timestamp(text).timestamp()) for text in texts]


def state_operator(query: StreamingQuery) -> list[Mapping[str, Any]]:
    """Return the progress of the only stateful operator in each batch."""
    return [only(batch["stateOperators"]) for batch in query.recentProgress]


def only(things: Iterable[Any]) -> Any:
    (thing,) = things
    return thing


def observed(query: StreamingQuery, name: str) -> dict[str, Any]:
    """Return the observed metrics of the last batch, by name."""
    progress = query.lastProgress
    assert progress is not None
    return fields(progress["observedMetrics"][name])


def fields(value: Any) -> Any:
    """Convert structs to dictionaries: classic sends Rows or dictionaries, Connect sends values and a schema."""
    if isinstance(value, list):
        return [fields(part) for part in value]
    if hasattr(value, "asDict"):
        value = value.asDict()
    if not isinstance(value, dict):
        return value
    if value.keys() == {"values", "schema"}:
        names = [field["name"] for field in value["schema"]["fields"]]
        return {name: fields(part) for name, part in zip(names, value["values"], strict=True)}
    return {name: fields(part) for name, part in value.items()}
