"""A stream on a cluster: stream_application.py MASTER SETTINGS.json FOLDER

It reads the files of FOLDER/input, one file per batch, and writes the matches of batch 7 to FOLDER/out/batch=7.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import perseid as ps

PATTERNS = """
pattern pair match A a -> B b within 20 seconds partition by user return a.n as first, b.n as last
pattern silent match A a -> not B for 8 seconds partition by user return a.n as first
pattern quiet match A a partition by user suppress 15 seconds return a.n as first
"""
COLUMNS = "ts timestamp, type string, user string, n bigint"


def main(master: str, settings: str, place: str) -> None:
    folder = Path(place)
    builder = SparkSession.builder.master(master).appName("perseid-stream")
    for name, value in json.loads(Path(settings).read_text(encoding="utf-8")).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))
    matches = ps.patterns(PATTERNS).match(
        ps.events(source.withWatermark("ts", "15 seconds"), id="n", options=ps.StreamOptions(shards=4))
    )

    def write_batch(frame: Any, batch: int) -> None:
        frame.write.mode("overwrite").parquet(str(folder / "out" / f"batch={batch}"))

    writer = matches.writeStream.foreachBatch(write_batch).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
