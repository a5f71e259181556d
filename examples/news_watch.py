"""Subscriptions to a stream of news and offers: readers subscribe and unsubscribe while the stream runs.

Run it where perseid and pyspark are installed: python examples/news_watch.py [items]
(Spark starts its workers with `python3`; in an environment that is not activated, set PYSPARK_PYTHON to its Python.)

The example generates RSS items: a few channels write most of the items, several channels have the same title, and some items offer
goods at a price. A source such as Kafka gives the same kind of input: a streaming DataFrame with a watermark.
"""

import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

from pyspark.sql import SparkSession

import perseid as ps

WORDS = [
    "storm",
    "harbour",
    "bridge",
    "election",
    "train",
    "ferry",
    "market",
    "winter",
    "record",
    "museum",
    "garden",
    "robot",
    "comet",
    "island",
]
GOODS = ["lamp", "kettle", "bicycle", "tent", "camera", "piano"]
CHANNELS = [f"channel{number}.example" for number in range(40)]
BEGIN = datetime(2026, 3, 1, 9, tzinfo=UTC)
READERS = {
    "ann": "Feed//item->a[/title->t][/channel->c] FOLLOWED BY{t = u AND t contains 'storm', 1 hour} "
    "Feed//item->b[/title->u][/channel->d]",
    "bob": "Feed//item->a[/offer->x][/price->p] FOLLOWED BY{x = y AND x = 'tent' AND p > q, 1 day} "
    "Feed//item->b[/offer->y][/price->q]",
}
LATER = {"cat": READERS["bob"].replace("'tent'", "'piano'")}


def items(count: int) -> Iterator[dict[str, object]]:
    """Generate items in order of time, with channels and titles by Zipf's law."""
    chance = random.Random(7)  # noqa: S311  not for secrets
    channels = list(accumulate(1 / rank**0.8 for rank in range(1, len(CHANNELS) + 1)))
    news: list[str] = ["storm ahead"]
    now = BEGIN
    for number in range(count):
        now += timedelta(seconds=chance.expovariate(1 / 60))
        (channel,) = chance.choices(CHANNELS, cum_weights=channels)
        if chance.random() < 0.3:
            good = chance.choice(GOODS)
            inner = f"<title>{good} for sale</title><offer>{good}</offer><price>{chance.randint(20, 200)}</price>"
        else:
            if chance.random() > 0.3:
                news = [*news[-20:], " ".join(chance.sample(WORDS, 3))]
            inner = f"<title>{chance.choice(news)}</title>"
        yield {
            "ts": now.isoformat(),
            "n": number,
            "xml": f"<rss><channel><item><channel>{channel}</channel>{inner}</item></channel></rss>",
        }


def main(count: int = 600) -> None:
    spark = SparkSession.builder.appName("news").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        arriving = Path(folder) / "arriving"
        arriving.mkdir()
        rows = [json.dumps(row) for row in items(count)]

        def arrive(part: int) -> None:
            path = arriving / f"{part}.json"
            path.write_text("\n".join(rows[part * count // 4 : (part + 1) * count // 4]))
            os.utime(path, (part + 1, part + 1))  # the file source reads the oldest file first

        stream = (
            spark.readStream.schema("ts timestamp, n int, xml string")
            .option("maxFilesPerTrigger", 1)
            .json(str(arriving))
            .withWatermark("ts", "1 minute")
        )
        readers = ps.xscl.subscription_table(Path(folder) / "readers")
        readers.add(READERS)
        documents = ps.documents({"Feed": stream}, body="xml", time="ts", id="n")
        notifications = readers.match(documents, expand=True, query_partitions=2)

        def show(batch: object, number: int) -> None:
            found = batch.collect()  # type: ignore[attr-defined]
            print(f"batch {number}: {len(found)} notifications")
            for row in sorted(found, key=lambda row: (row.right.ts, row.subscription))[:3]:
                print(
                    f"  {row.right.ts:%H:%M:%S}  {row.subscription}  items {row.left.n}, {row.right.n}  {dict(row['values'])}"
                )

        def run() -> None:
            query = (
                notifications.writeStream.foreachBatch(show)
                .option("checkpointLocation", str(Path(folder) / "checkpoint"))
                .trigger(availableNow=True)  # for a query that does not end: processingTime="10 seconds"
                .start()
            )
            query.awaitTermination()

        for part in (0, 1):
            arrive(part)
        run()
        print("cat subscribes, ann unsubscribes")
        readers.add(LATER)
        readers.remove(["ann"])
        for part in (2, 3):
            arrive(part)
        run()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
