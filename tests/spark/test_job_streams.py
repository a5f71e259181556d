"""A job's stream over finished and streaming DataFrames: the same matches, and unparsable records as dead letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from perseid.jobs.reading import read_job
from perseid.jobs.rule_loading import load_patterns
from perseid.sources.contract import ARRIVED, PAYLOAD, POSITION, WRONG
from tests.jobs.conftest import _kinds  # noqa: F401
from tests.jobs.test_job_files import WHOLE, written

RULES = (
    "{text: 'pattern paid match Order o -> Payment p within 1 hour partition by customer return p.amount as amount'}"
)
ROWS: list[dict[str, Any]] = [
    {"ts": "2026-01-01T10:00:00Z", "type": "Order", "customer": "ann", "amount": 1.0},
    {"ts": "2026-01-01T10:05:00Z", "type": "Payment", "customer": "ann", "amount": 2.0},
    {"wrong": "it is no JSON."},
    {"ts": "2026-01-02T00:00:00Z", "type": "End", "customer": "ann", "amount": None},
]


def opened(frame: Any) -> Any:
    """Return a frame in the form in which sources open one."""
    return frame.select(
        "ts", "type", "customer", "amount",
        f.col("wrong").alias(WRONG), f.lit(None).cast("string").alias(PAYLOAD),
        f.lit("somewhere").alias(POSITION), f.lit(None).cast("timestamp").alias(ARRIVED),
    )  # fmt: skip


def test_stream_of_a_job_matches_in_batch_and_as_stream(spark: SparkSession, tmp_path: Path) -> None:
    job = read_job(written(tmp_path, WHOLE.replace("rules/", RULES).replace("  lateness", "  shards: 2\n  lateness")))
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "rows.json").write_text("\n".join(map(json.dumps, ROWS)))
    columns = "ts timestamp, type string, customer string, amount double, wrong string"
    rules = load_patterns(job)
    finished = rules.match(job.stream.declare(opened(spark.read.schema(columns).json(str(folder)))))
    (match,) = finished.collect()
    assert match.amount == 2.0

    stream = job.stream.declare(opened(spark.readStream.schema(columns).json(str(folder))))
    told = tmp_path / "told"
    query = (
        rules.match(stream, rejected=True)
        .writeStream.format("parquet")
        .option("path", str(told))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    rows = {row.kind: row for row in spark.read.parquet(str(told)).collect()}
    assert rows["match"].match_id == match.match_id
    assert rows["bad"].reason == "it is no JSON."
