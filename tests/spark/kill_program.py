"""A streaming program that may be killed at any moment and started again: ``kill_program.py FOLDER``.

It reads the files of FOLDER/input, one file per batch, and writes the matches of batch 7 to FOLDER/out/batch=7,
replacing the output of an earlier try. A file FOLDER/done says that all input was read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import perseid as ps
from tests.sessions import configured

PATTERNS = """
pattern pair match A a -> B b within 20 seconds partition by user return a.n as first, b.n as last
pattern many match A a -> B+ b -> C c within 30 seconds partition by user return count(b) as n
pattern silent match A a -> not B for 8 seconds partition by user return a.n as first
pattern quiet match A a partition by user suppress 15 seconds return a.n as first
"""
COLUMNS = "ts timestamp, type string, user string, n bigint"
DELAY = "15 seconds"


def main(folder: Path) -> None:
    builder = configured(SparkSession.builder.master("local[2]"), folder / "warehouse")
    spark = builder.config("spark.local.dir", str(folder / "local")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))
    matches = ps.patterns(PATTERNS).match(
        ps.events(source.withWatermark("ts", DELAY), id="n", options=ps.StreamOptions(shards=2))
    )

    def write_batch(frame: Any, batch: int) -> None:
        frame.write.mode("overwrite").parquet(str(folder / "out" / f"batch={batch}"))

    query = (
        matches.writeStream.foreachBatch(write_batch)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    (folder / "done").touch()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
