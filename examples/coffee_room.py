"""Alerts when a person enters a coffee room, from readings of antennas that miss about a third of all positions.

Run it where perseid and pyspark are installed: python examples/coffee_room.py [people]
(Spark starts its workers with `python3`; in an environment that is not activated, set PYSPARK_PYTHON to its Python.)

The example simulates the readings and the true positions, and compares the alerts with the true positions. A source such as Kafka
gives the same kind of input: a streaming DataFrame with a watermark.
"""

import random
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from pyspark.sql import SparkSession

import perseid as ps

SECONDS = 240
BEGIN = datetime(2026, 3, 1, 9, tzinfo=UTC)
HALLS = [f"hall{i}" for i in range(6)]
DOORS = [("hall0", "office"), ("hall2", "coffee"), ("hall5", "lab")]
ROOMS = ["office", "coffee", "lab"]
COFFEE = """
    pattern coffee
    match   At a [place not in Rooms] -> At b must (place not in Rooms) -> At c must (place in CoffeeRooms)
    within  forever
    partition by person
    selection successor
"""


def main() -> None:
    people = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    plan = ps.uncertain.floor_plan([*pairwise(HALLS), *DOORS], stay=0.6)
    readings = {hall: {f"antenna-{hall}": 0.65, None: 0.35} for hall in HALLS} | {room: {None: 1.0} for room in ROOMS}
    model = ps.uncertain.hidden_markov(transitions=plan, readings=readings)
    rows, visits = simulate(plan, people)
    spark = SparkSession.builder.master("local[2]").appName("coffee room").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.shuffle.partitions", 4)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    with tempfile.TemporaryDirectory() as folder:
        alerts = watch(spark, rows, model, Path(folder))
    correct = sum(any(who == person and abs(at - when) <= 20 for person, when in visits) for who, at, _ in alerts)
    found = sum(any(who == person and abs(at - when) <= 20 for who, at, _ in alerts) for person, when in visits)
    for who, at, p in alerts[:5]:
        print(f"{who} at second {at:3}: p = {p:.2f}")
    print(f"{len(visits)} visits, {found} of them detected; {len(alerts)} alerts, {correct} of them correct")


def simulate(
    plan: dict[str, dict[str, float]], people: int
) -> tuple[list[tuple[datetime, str, str | None]], list[tuple[str, int]]]:
    """Readings by second and person, and the visits to the coffee room with their times."""
    chance = random.Random(11)  # noqa: S311
    rows: list[tuple[datetime, str, str | None]] = []
    visits = []
    for number in range(people):
        person, place = f"person{number}", "office"
        for second in range(SECONDS):
            before, place = place, chance.choices([*plan[place]], [*plan[place].values()])[0]
            if place == "coffee" != before:
                visits.append((person, second))
            read = f"antenna-{place}" if place in HALLS and chance.random() < 0.65 else None
            rows.append((BEGIN + timedelta(seconds=second), person, read))
    return rows, visits


def watch(
    spark: SparkSession, rows: list[tuple[datetime, str, str | None]], model: ps.uncertain.HiddenMarkov, folder: Path
) -> list[tuple[str, int, float]]:
    """Return the alerts of a stream of readings."""
    schema = "ts timestamp, person string, antenna string"
    half = sorted(rows)[: len(rows) // 2], sorted(rows)[len(rows) // 2 :]
    end = [(BEGIN + timedelta(days=1), "nobody", None)]  # a later row advances the watermark
    for part in (*half, end):
        spark.createDataFrame(part, schema).coalesce(1).write.mode("append").parquet(str(folder / "in"))
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    at = ps.uncertain_events(
        stream.withWatermark("ts", "5 seconds"),
        event_type="At",
        key="person",
        value="place",
        reading="antenna",
        model=model,
        every="1 second",
        inference="lag(4)",
        options=ps.StreamOptions(shards=4),
    )
    relations = {"Rooms": ROOMS, "CoffeeRooms": ["coffee"]}
    alerts = ps.pattern(COFFEE).match(at, relations=relations, emit=ps.uncertain.alerts(rise=0.35, fall=0.1))
    query = (
        alerts.writeStream.format("memory").queryName("alerts").option("checkpointLocation", str(folder / "checkpoint"))
    )
    query.trigger(availableNow=True).start().awaitTermination()
    alerts = spark.sql("select person, unix_seconds(time) as at, p from alerts order by at, person").collect()
    return [(row["person"], int(row["at"] - BEGIN.timestamp()), row["p"]) for row in alerts]


if __name__ == "__main__":
    main()
