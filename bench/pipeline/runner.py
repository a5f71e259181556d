"""The two sides: a job as ``perseid run`` creates it, and a query from Kafka to Kafka that does no work in between.

The baseline query reads the same topic, parses with the same schema, has the same watermark, filter, shards and bytes
of state, and outputs rows instead of matches, the same number. It has no batch log, does not detect malformed records,
and writes to its topic directly from the operator.
"""

from __future__ import annotations

import statistics
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from bench import ours
from bench.servers.broker import Broker
from bench.stream import NEVER_MS, SHARDS, shard_of
from perseid.jobs.assembly import assemble
from perseid.jobs.reading import read_job
from perseid.jobs.runner import JobRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, BARE, BY_BATCH = "ours", "bare", "bare by batch"
NO_DELAY = "0 seconds"
"""A trigger that immediately follows the previous one."""


@dataclass(frozen=True)
class PipelineSpec:
    """Input and pattern of both sides."""

    name: str
    schema: str
    """Columns of a record; ``ts``, ``key`` and ``type`` among them."""
    pattern: str
    types: tuple[str, ...]
    lateness: str
    """Delay of the watermark."""
    carried: Mapping[str, str]
    """Numeric columns that are moved to Python, with their types; the baseline query outputs them."""
    output_type: str | None = None
    """Type of event that the baseline query outputs; without it, as many rows as there are matches."""
    per_batch: int | None = None
    order: Literal["watermark", "arrival"] = "watermark"


class PipelineQueries:
    """Queries of both sides in one session."""

    def __init__(self, spark: SparkSession, broker: Broker, scratch: Path) -> None:
        self.spark, self.broker, self.scratch = spark, broker, scratch
        self.runs = 0
        self.state_bytes = 0
        """Average state size of a shard of ours, which the baseline query uses too."""
        self.share = 0.0
        """Matches of ours per row of the operator's input."""

    def _isolate_workers(self, side: str) -> Path:
        """Set separate Python workers for the queries planned from here on, and return a folder."""
        self.spark.sparkContext.environment["BENCH_SIDE"] = side
        self.runs += 1
        folder = self.scratch / f"run-{self.runs}"
        folder.mkdir()
        return folder

    def job(self, spec: PipelineSpec, source: str, target: str, trigger: str, *, letters: bool = False) -> JobRunner:
        """A runner of a job file, as ``perseid run`` creates it."""
        folder = self._isolate_workers(OURS)
        kafka = {"servers": self.broker.servers, "topic": source, "format": "json", "schema": spec.schema}
        if spec.per_batch is not None:
            kafka["max_per_batch"] = spec.per_batch  # type: ignore[assignment]
        stream = {"source": {"kafka": kafka}, "id": "position", "shards": SHARDS}
        stream |= {"order": spec.order, "lateness": spec.lateness}
        file = {
            "job": f"bench-{spec.name}",
            "stream": stream,
            "patterns": {"text": spec.pattern},
            "sinks": [{"kafka": {"servers": self.broker.servers, "topic": target}}],
            "trigger": trigger,
            "checkpoint": str(folder / "checkpoint"),
        }
        if letters:
            file["dead_letters"] = {"parquet": {"path": str(folder / "dead")}}
        path = folder / "job.yaml"
        path.write_text(yaml.safe_dump(file))
        return JobRunner(assemble(read_job(path), self.spark))

    def run_ours(self, spec: PipelineSpec, source: str, target: str, *, letters: bool = False) -> tuple[list[Any], int]:
        """Process a topic to its end; return the progress of every batch and the number of emitted rows."""
        runner = self.job(spec, source, target, "available_now", letters=letters)
        runner.run()
        ran = list(runner.query.recentProgress)
        counted = [ours.counters(one) for one in ran]
        if any(one["late"] or one["bad"] for one in counted):
            raise RuntimeError("rows were late or bad, and none is")
        sizes = [one["state_bytes"] / one["shards"] for one in counted if one["shards"]]
        self.state_bytes = int(statistics.mean(sizes)) if sizes else 0
        emitted = sum((runner.job.metrics.match_counts if runner.job.metrics else {}).values())
        rows = sum(one["events"] for one in counted)
        self.share = emitted / rows if rows else 0.0
        return ran, emitted

    def baseline(self, spec: PipelineSpec, source: str, target: str, *, by_batch: bool = False, **trigger: Any) -> Any:
        """Start the baseline query. With ``by_batch``, a ``foreachBatch`` function writes its output, as in a job."""
        folder = self._isolate_workers(BARE)
        writer = baseline(self.spark, self.broker, spec, source, self.share, bytes(self.state_bytes)).writeStream
        options = {"kafka.bootstrap.servers": self.broker.servers, "topic": target}
        if by_batch:
            writer = writer.foreachBatch(
                lambda rows, _: rows.write.format("kafka").options(**options).mode("append").save()
            )
        else:
            writer = writer.format("kafka").options(**options)
        return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()

    def run_baseline(self, spec: PipelineSpec, source: str, target: str) -> list[Any]:
        query = self.baseline(spec, source, target, availableNow=True)
        try:
            query.awaitTermination()
            return list(query.recentProgress)
        finally:
            query.stop()

    @contextmanager
    def running(
        self, side: str, spec: PipelineSpec, source: str, target: str, trigger: str = NO_DELAY
    ) -> Iterator[Any]:
        """Run a side until the block ends."""
        if side != OURS:
            query = self.baseline(spec, source, target, by_batch=side == BY_BATCH, processingTime=trigger)
            try:
                yield query
            finally:
                query.stop()
            return
        runner = self.job(spec, source, target, trigger)
        failed: list[BaseException] = []

        def work() -> None:
            try:
                runner.run()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield runner
        finally:
            runner.stop()
            thread.join(60)
        if failed:
            raise failed[0]


def baseline(
    spark: SparkSession, broker: Broker, spec: PipelineSpec, source: str, share: float, content: bytes
) -> DataFrame:
    """From the topic to messages: parsed, filtered, shuffled into a stateful operator that outputs rows."""
    from pyspark.sql import functions as f

    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.servers)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    if spec.per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", spec.per_batch)
    record = reader.load().select(f.from_json(f.col("value").cast("string"), spec.schema).alias("record"))
    frame = record.select("record.*").withWatermark("ts", spec.lateness)
    wanted = f"type in ({', '.join(map(repr, spec.types))}) or ts is null"
    kinds = " ".join(f"when '{name}' then {i}" for i, name in enumerate(spec.types))
    rows = frame.where(wanted).selectExpr(
        *spec.carried,
        "unix_micros(ts) as ts",
        f"coalesce(case type {kinds} end, -1) as kind",
        shard_of("key", SHARDS),
    )
    unknown = f.lit(None).cast("timestamp").alias("event_time", metadata={"spark.watermarkDelayMs": 0})
    output_code = spec.types.index(spec.output_type) if spec.output_type is not None else None
    holds = spec.order == "watermark" and spec.output_type is not None
    names = tuple(spec.carried)
    kernel = _buffering_kernel(names, output_code) if holds else _passthrough_kernel(names, output_code, share, content)
    shape = ", ".join(f"{name} {kind}" for name, kind in {**spec.carried, "ts": "bigint"}.items())
    emitted = rows.select("*", unknown).groupBy("shard")
    output_type = emitted.applyInPandasWithState(kernel, shape, "content binary", "append", "EventTimeTimeout")
    return output_type.selectExpr(f"cast({names[0]} as string) as key", "to_json(struct(*)) as value")


def _passthrough_kernel(carried: tuple[str, ...], output_code: int | None, share: float, content: bytes) -> Any:
    """Output rows at once: those of a type, or a fraction of all; read and write an unused state."""
    columns = [*carried, "ts"]

    def pass_through(_key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        if state.exists:
            _ = len(state.get[0])
        for frame in frames:
            some = (
                frame[frame["kind"] == output_code] if output_code is not None else frame[: round(len(frame) * share)]
            )
            yield some[columns]
        state.update((content,))
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + NEVER_MS)

    return pass_through


def _buffering_kernel(carried: tuple[str, ...], output_code: int | None) -> Any:
    """Buffer rows until the watermark passes them, then output those of a type."""
    columns = [*carried, "ts", "kind"]

    def buffer(_key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import numpy as np
        import pandas as pd

        buffered = np.frombuffer(state.get[0], np.int64).reshape(-1, len(columns)) if state.exists else None
        parts = [frame[columns].to_numpy(np.int64) for frame in frames]
        rows = np.concatenate(
            [*([] if buffered is None else [buffered]), *parts] or [np.zeros((0, len(columns)), np.int64)]
        )
        watermark = state.getCurrentWatermarkMs()
        due = rows[:, -2] <= 1000 * watermark
        passed, rows = rows[due], rows[~due]
        if len(rows):
            state.update((rows.tobytes(),))
            state.setTimeoutTimestamp(max(int(rows[:, -2].min()) // 1000, watermark, 1))
        elif state.exists:
            state.remove()
        passed = passed[passed[:, -1] == output_code]
        yield pd.DataFrame(passed[:, :-1], columns=columns[:-1])

    return buffer


def job_session_settings() -> dict[str, str]:
    """Settings of the session that ``perseid run`` creates for a job with these shards, with the connectors."""
    from bench.servers.jars import connectors
    from perseid.cli.running import settings_of

    return {"spark.jars": ",".join(map(str, connectors())), **settings_of(SHARDS, "local[*]")}
