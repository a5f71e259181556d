"""The two sides: a job as ``perseid run`` assembles it, and a query from Kafka to Kafka that does nothing in between.

The bare query reads the same topic, parses by the same schema, has the same watermark, filter, shards and bytes of
state, and gives back rows in place of matches, as many. It keeps no ledger, tells no malformed record from others and
writes to its topic straight from the operator.
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
AT_ONCE = "0 seconds"
"""A trigger that follows the one before."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a topic, for both sides."""

    name: str
    schema: str
    """The columns of a record; ``ts``, ``key`` and ``type`` among them."""
    pattern: str
    types: tuple[str, ...]
    lateness: str
    """The delay of the watermark."""
    carried: Mapping[str, str]
    """Columns that cross, with their types, numbers all; the bare query gives them back."""
    answers: str | None = None
    """The type of event that the bare query gives back; without, as many rows as there are matches."""
    per_batch: int | None = None
    order: Literal["watermark", "arrival"] = "watermark"


class Sides:
    """Queries of both sides in one session."""

    def __init__(self, spark: SparkSession, broker: Broker, scratch: Path) -> None:
        self.spark, self.broker, self.scratch = spark, broker, scratch
        self.runs = 0
        self.state_bytes = 0
        """What a shard of ours has on average, so that the bare query can have as much."""
        self.share = 0.0
        """UncertainMatches of ours for a row that the operator was given."""

    def _beside(self, side: str) -> Path:
        """Python workers of its own for what is planned from here on, and a folder."""
        self.spark.sparkContext.environment["BENCH_SIDE"] = side
        self.runs += 1
        folder = self.scratch / f"run-{self.runs}"
        folder.mkdir()
        return folder

    def job(self, asked: Asked, source: str, target: str, trigger: str, *, letters: bool = False) -> JobRunner:
        """A runner of a job's file, as ``perseid run`` makes it."""
        folder = self._beside(OURS)
        kafka = {"servers": self.broker.servers, "topic": source, "format": "json", "schema": asked.schema}
        if asked.per_batch is not None:
            kafka["max_per_batch"] = asked.per_batch  # type: ignore[assignment]
        stream = {"source": {"kafka": kafka}, "id": "position", "shards": SHARDS}
        stream |= {"order": asked.order, "lateness": asked.lateness}
        file = {
            "job": f"bench-{asked.name}",
            "stream": stream,
            "patterns": {"text": asked.pattern},
            "sinks": [{"kafka": {"servers": self.broker.servers, "topic": target}}],
            "trigger": trigger,
            "checkpoint": str(folder / "checkpoint"),
        }
        if letters:
            file["dead_letters"] = {"parquet": {"path": str(folder / "dead")}}
        path = folder / "job.yaml"
        path.write_text(yaml.safe_dump(file))
        return JobRunner(assemble(read_job(path), self.spark))

    def ours_to_the_end(
        self, asked: Asked, source: str, target: str, *, letters: bool = False
    ) -> tuple[list[Any], int]:
        """All there is in a topic; the progress of every batch, and how many answers were told."""
        runner = self.job(asked, source, target, "available_now", letters=letters)
        runner.run()
        ran = list(runner.query.recentProgress)
        counted = [ours.counters(one) for one in ran]
        if any(one["late"] or one["bad"] for one in counted):
            raise RuntimeError("rows were late or bad, and none is")
        sizes = [one["state_bytes"] / one["shards"] for one in counted if one["shards"]]
        self.state_bytes = int(statistics.mean(sizes)) if sizes else 0
        told = sum((runner.job.metrics.match_counts if runner.job.metrics else {}).values())
        rows = sum(one["events"] for one in counted)
        self.share = told / rows if rows else 0.0
        return ran, told

    def bare(self, asked: Asked, source: str, target: str, *, by_batch: bool = False, **trigger: Any) -> Any:
        """The bare query, started. ``by_batch``: what it gives is written by a function that is given each batch, as a job's is."""
        folder = self._beside(BARE)
        writer = bare(self.spark, self.broker, asked, source, self.share, bytes(self.state_bytes)).writeStream
        options = {"kafka.bootstrap.servers": self.broker.servers, "topic": target}
        if by_batch:
            writer = writer.foreachBatch(
                lambda rows, _: rows.write.format("kafka").options(**options).mode("append").save()
            )
        else:
            writer = writer.format("kafka").options(**options)
        return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**trigger).start()

    def bare_to_the_end(self, asked: Asked, source: str, target: str) -> list[Any]:
        query = self.bare(asked, source, target, availableNow=True)
        try:
            query.awaitTermination()
            return list(query.recentProgress)
        finally:
            query.stop()

    @contextmanager
    def running(self, side: str, asked: Asked, source: str, target: str, trigger: str = AT_ONCE) -> Iterator[Any]:
        """A side that runs until the block ends."""
        if side != OURS:
            query = self.bare(asked, source, target, by_batch=side == BY_BATCH, processingTime=trigger)
            try:
                yield query
            finally:
                query.stop()
            return
        runner = self.job(asked, source, target, trigger)
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


def bare(spark: SparkSession, broker: Broker, asked: Asked, source: str, share: float, content: bytes) -> DataFrame:
    """From the topic to messages: parsed, filtered, shuffled into a stateful operator that gives rows back."""
    from pyspark.sql import functions as f

    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.servers)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    if asked.per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", asked.per_batch)
    record = reader.load().select(f.from_json(f.col("value").cast("string"), asked.schema).alias("record"))
    frame = record.select("record.*").withWatermark("ts", asked.lateness)
    wanted = f"type in ({', '.join(map(repr, asked.types))}) or ts is null"
    kinds = " ".join(f"when '{name}' then {i}" for i, name in enumerate(asked.types))
    rows = frame.where(wanted).selectExpr(
        *asked.carried,
        "unix_micros(ts) as ts",
        f"coalesce(case type {kinds} end, -1) as kind",
        shard_of("key", SHARDS),
    )
    unknown = f.lit(None).cast("timestamp").alias("event_time", metadata={"spark.watermarkDelayMs": 0})
    given = asked.types.index(asked.answers) if asked.answers is not None else None
    holds = asked.order == "watermark" and asked.answers is not None
    names = tuple(asked.carried)
    kernel = _holding(names, given) if holds else _handing(names, given, share, content)
    shape = ", ".join(f"{name} {kind}" for name, kind in {**asked.carried, "ts": "bigint"}.items())
    told = rows.select("*", unknown).groupBy("shard")
    answers = told.applyInPandasWithState(kernel, shape, "kept binary", "append", "EventTimeTimeout")
    return answers.selectExpr(f"cast({names[0]} as string) as key", "to_json(struct(*)) as value")


def _handing(carried: tuple[str, ...], given: int | None, share: float, content: bytes) -> Any:
    """Gives rows back at once: those of a type, or a share of all; reads and writes a state that says nothing."""
    columns = [*carried, "ts"]

    def hand(_key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        if state.exists:
            _ = len(state.get[0])
        for frame in frames:
            some = frame[frame["kind"] == given] if given is not None else frame[: round(len(frame) * share)]
            yield some[columns]
        state.update((content,))
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + NEVER_MS)

    return hand


def _holding(carried: tuple[str, ...], given: int | None) -> Any:
    """Keeps rows until the watermark passes them, then gives back those of a type."""
    columns = [*carried, "ts", "kind"]

    def hold(_key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import numpy as np
        import pandas as pd

        kept = np.frombuffer(state.get[0], np.int64).reshape(-1, len(columns)) if state.exists else None
        parts = [frame[columns].to_numpy(np.int64) for frame in frames]
        rows = np.concatenate([*([] if kept is None else [kept]), *parts] or [np.zeros((0, len(columns)), np.int64)])
        watermark = state.getCurrentWatermarkMs()
        due = rows[:, -2] <= 1000 * watermark
        passed, rows = rows[due], rows[~due]
        if len(rows):
            state.update((rows.tobytes(),))
            state.setTimeoutTimestamp(max(int(rows[:, -2].min()) // 1000, watermark, 1))
        elif state.exists:
            state.remove()
        passed = passed[passed[:, -1] == given]
        yield pd.DataFrame(passed[:, :-1], columns=columns[:-1])

    return hold


def settings_of_a_job() -> dict[str, str]:
    """The session that ``perseid run`` makes for a job of so many shards, with the connectors in it."""
    from bench.servers.jars import connectors
    from perseid.cli.running import settings_of

    return {"spark.jars": ",".join(map(str, connectors())), **settings_of(SHARDS, "local[*]")}
