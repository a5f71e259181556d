"""Alarms for goods that leave a shop unpaid, with a retraction if the read of the till arrives late.

Run it where perseid and pyspark are installed: python examples/goods_through_gates.py
(Spark starts its workers with `python3`; in an environment that is not activated, set PYSPARK_PYTHON to its Python.)

Readers at shelves, tills and doors send their reads. The reader of the till is slow: its read of 09:05 arrives after the read of the
door at 09:08.
"""

import json
import os
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import perseid as ps

STOLEN = ps.pattern("""
    pattern stolen
    match   Shelf s -> not Till -> Door d
    within  30 minutes
    partition by tag
    return  s.article, d.reader as door
""")
ARRIVING = [
    [
        {"ts": "2026-03-01T09:00:00Z", "read": "Shelf", "tag": "e200-17", "article": "razor", "reader": "aisle 4"},
        {"ts": "2026-03-01T09:02:00Z", "read": "Shelf", "tag": "e200-31", "article": "gin", "reader": "aisle 9"},
    ],
    [
        {"ts": "2026-03-01T09:07:00Z", "read": "Door", "tag": "e200-17", "reader": "north"},
        {"ts": "2026-03-01T09:08:00Z", "read": "Door", "tag": "e200-31", "reader": "south"},
    ],
    [{"ts": "2026-03-01T09:05:00Z", "read": "Till", "tag": "e200-31", "reader": "till 2"}],  # a late payment
    [{"ts": "2026-03-01T10:00:00Z", "read": "Shelf", "tag": "e200-99", "article": "soap", "reader": "aisle 1"}],
]


def main() -> None:
    spark = SparkSession.builder.appName("gates").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        arriving, output = Path(folder) / "arriving", Path(folder) / "output"
        arriving.mkdir()
        for number, rows in enumerate(ARRIVING, 1):
            path = arriving / f"{number}.json"
            path.write_text("\n".join(map(json.dumps, rows)))
            os.utime(path, (number, number))  # the file source reads the oldest file first
        stream = (
            spark.readStream.schema("ts timestamp, read string, tag string, article string, reader string")
            .option("maxFilesPerTrigger", 1)
            .json(str(arriving))
            .withWatermark("ts", "15 minutes")
        )
        changes = STOLEN.match(ps.events(stream, time="ts", type="read", disorder="aggressive"))

        def act(batch: DataFrame, number: int) -> None:
            batch.persist()  # two actions use the batch; match it only once
            for row in batch.orderBy("tag").collect():
                what = "alarm" if row.op == "+" else "retraction"
                print(f"batch {number}: {what}, {row.article} ({row.tag}) at the {row.door} door")
            batch.write.mode("overwrite").parquet(str(output / f"batch={number}"))
            batch.unpersist()

        query = (
            changes.writeStream.foreachBatch(act)
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        current = ps.disorder.current_matches(spark.read.parquet(str(output)))
        print("current matches:", [(row.article, row.door) for row in current.collect()])
        progress = ps.progress(query)
        print(f"{progress.matches} matches, {progress.retracted} retracted")


if __name__ == "__main__":
    main()
