"""Orders that are not paid within an hour, matched on a stream.

Run it where perseid and pyspark are installed: python examples/unpaid_on_a_stream.py
(Spark starts its workers with `python3`; in an environment that is not activated, set PYSPARK_PYTHON to its Python.)

The rows are JSON files. A source such as Kafka gives the same kind of input: a streaming DataFrame with a watermark.
"""

import json
import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import perseid as ps

UNPAID = ps.pattern("""
    pattern unpaid
    match   Order o -> not Payment for 1 hour
    partition by customer
    return  o.amount
""")
BATCHES = [
    [
        {"ts": "2026-03-01T09:00:00Z", "kind": "Order", "customer": "ann", "amount": 20.0},
        {"ts": "2026-03-01T09:01:00Z", "kind": "Order", "customer": "bob", "amount": 35.0},
    ],
    [{"ts": "2026-03-01T09:05:00Z", "kind": "Payment", "customer": "bob", "amount": 35.0}],
    [{"ts": "2026-03-01T10:30:00Z", "kind": "Visit", "customer": "dan"}],  # any event advances the watermark
    [{"ts": "2026-03-01T09:10:00Z", "kind": "Payment", "customer": "ann", "amount": 20.0}],  # late: dropped and counted
]


def main() -> None:
    spark = SparkSession.builder.appName("unpaid").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        arriving = Path(folder) / "arriving"
        arriving.mkdir()
        for number, rows in enumerate(BATCHES, 1):
            path = arriving / f"{number}.json"
            path.write_text("\n".join(map(json.dumps, rows)))
            os.utime(path, (number, number))  # the file source reads the oldest file first
        stream = (
            spark.readStream.schema("ts timestamp, kind string, customer string, amount double")
            .option("maxFilesPerTrigger", 1)
            .json(str(arriving))
            .withWatermark("ts", "10 minutes")
        )
        found = UNPAID.match(ps.events(stream, time="ts", type="kind"), rejected=True)

        def show(batch: object, number: int) -> None:
            for row in batch.collect():  # type: ignore[attr-defined]
                print(f"batch {number}: {row.kind:5}  {row.customer}  {row.amount or row.row}")

        query = (
            found.writeStream.foreachBatch(show)
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .trigger(availableNow=True)  # for a query that does not end: processingTime="10 seconds"
            .start()
        )
        query.awaitTermination()
        print(ps.progress(query))


if __name__ == "__main__":
    main()
