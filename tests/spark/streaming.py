"""Small streams for the tests of this folder: rows in files, one batch per file, and the output of the query."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.streaming.query import StreamingQuery

from perseid.spark.arrow import to_spark
from perseid.spark.progress import counters

START = dt.datetime(2024, 3, 10, 6, 59, tzinfo=dt.UTC)
MOMENT = pa.timestamp("us", "UTC")
FAR = 10**6
"""Seconds after START, long after every window."""
WAIT = 240
"""Seconds after which a query counts as hung."""
LEVELS = ("live_keys", "retained_events", "state_bytes", "by_shard")
"""Counters of a current amount, which are not summed over batches."""

Row = Mapping[str, Any]


def at(second: float | None) -> dt.datetime | None:
    return None if second is None else START + dt.timedelta(seconds=second)


def seconds(moment: dt.datetime) -> float:
    return (moment - START).total_seconds()


def ids(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Pattern, match_id and kind of each match, sorted."""
    return sorted((row["pattern"], row["match_id"], row["kind"]) for row in rows)


@dataclass(frozen=True)
class Run:
    """Output and progress of a query."""

    table: pa.Table
    progress: list[Mapping[str, Any]]

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Return the matches."""
        return [row for row in self._all if row.get("kind", "match") in ("match", "timed out")]

    @cached_property
    def rejected(self) -> list[dict[str, Any]]:
        """Return the rejected rows: late and malformed."""
        return [row for row in self._all if row.get("kind") in ("late", "bad")]

    @cached_property
    def _all(self) -> list[dict[str, Any]]:
        return self.table.to_pylist(maps_as_pydicts="lossy")

    @cached_property
    def batches(self) -> list[dict[str, Any]]:
        """Return the counters of each batch."""
        out = []
        for batch in self.progress:
            (found,) = [v for name, v in batch["observedMetrics"].items() if name.startswith("perseid")]
            out.append(counters(found))
        return out

    @cached_property
    def counters(self) -> Counter[str]:
        """Return the counters summed over all batches."""
        summed: Counter[str] = Counter()
        for batch in self.batches:
            summed.update({name: count for name, count in batch.items() if name not in LEVELS})
        return summed

    @property
    def read(self) -> list[int]:
        """Return the number of input rows of each batch."""
        # From the sources: Spark Connect has no count for the whole batch.
        return [sum(source["numInputRows"] for source in batch["sources"]) for batch in self.progress]

    @property
    def watermarks(self) -> list[float]:
        """Return the watermark of each batch, in seconds after START."""
        texts = [batch["eventTime"]["watermark"] for batch in self.progress]
        return [seconds(dt.datetime.fromisoformat(text)) for text in texts]

    @property
    def states(self) -> list[int]:
        """Return the number of shards with state after each batch."""
        return [sum(operator["numRowsTotal"] for operator in batch["stateOperators"]) for batch in self.progress]


@dataclass(frozen=True)
class Running:
    spark: SparkSession
    query: StreamingQuery
    out: str
    schema: st.StructType

    def finish(self) -> Run:
        """Wait until all files are read."""
        try:
            assert self.query.awaitTermination(WAIT), "the query did not come to its end"
        finally:
            self.query.stop()
        return self.read_output()

    def read_output(self) -> Run:
        """Return all output so far and the progress of this query."""
        # Read with Spark, which ignores files of a failed batch.
        table = self.spark.read.schema(self.schema).parquet(self.out).toArrow()
        return Run(table, [dict(batch) for batch in self.query.recentProgress])


class Streams:
    """Writes files, reads them as streams with one file per batch, and runs queries over them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.files = 0

    def add(self, name: str, schema: pa.Schema, *batches: Sequence[Row]) -> None:
        """Write one file per batch. The source takes the oldest first, so all files have different modification times."""
        target = self.folder / name
        target.mkdir(exist_ok=True)
        for batch in batches:
            self.files += 1
            hidden = target / f".{self.files}"
            pq.write_table(pa.Table.from_pylist([dict(row) for row in batch], schema=schema), hidden)
            os.utime(hidden, (1_600_000_000 + self.files, 1_600_000_000 + self.files))
            hidden.rename(target / f"{self.files:05}.parquet")

    def read(self, name: str, schema: pa.Schema, delay: str | None = "10 seconds", time: str = "ts") -> DataFrame:
        (self.folder / name).mkdir(exist_ok=True)
        columns = st.StructType([st.StructField(field.name, to_spark(field.type)) for field in schema])
        source = self.spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
        frame = source.parquet(str(self.folder / name))
        return frame if delay is None else frame.withWatermark(time, delay)

    def stream(self, schema: pa.Schema, *batches: Sequence[Row], name: str = "input", **options: Any) -> DataFrame:
        """Return rows as a stream with one batch per list."""
        self.add(name, schema, *batches)
        return self.read(name, schema, **options)

    def checkpoint(self, name: str = "query") -> Path:
        return self.folder / f"{name}.checkpoint"

    def start(self, matches: DataFrame, name: str = "query", **trigger: Any) -> Running:
        """Start a query; a query with the name of an earlier one continues from its checkpoint."""
        out = str(self.folder / f"{name}.out")
        query = (
            matches.writeStream.format("parquet")
            .outputMode("append")
            .option("path", out)
            .option("checkpointLocation", str(self.checkpoint(name)))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        return Running(self.spark, query, out, matches.schema)

    def run(self, matches: DataFrame, name: str = "query") -> Run:
        """Run a query over all files so far."""
        return self.start(matches, name).finish()
