"""Readings on a Spark stream: a Regular query with probabilities, compared with the same pipeline over the likeliest
place."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import perseid as ps
from bench import harness, spark_baselines

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HALLS, ROOMS = [f"hall{i}" for i in range(14)], [f"room{i}" for i in range(6)]
COFFEE = (
    "pattern coffee match At a [place not in Rooms] -> At b must (place not in Rooms) -> At c must (place in CoffeeRooms) "
    "within forever partition by person selection successor"
)


@dataclass(frozen=True)
class UncertainStreamSize:
    people: int
    seconds: int
    files: int
    rounds: int


SIZES = {
    "quick": UncertainStreamSize(300, 120, 3, 1),
    "standard": UncertainStreamSize(1_000, 300, 5, 3),
    "full": UncertainStreamSize(3_000, 600, 10, 3),
}


def model() -> ps.uncertain.HiddenMarkov:
    """A model of twenty places: a hall with antennas, and rooms without."""
    doors = [(HALLS[2 * i + 1], room) for i, room in enumerate(ROOMS)]
    plan = ps.uncertain.floor_plan([*pairwise(HALLS), *doors], stay=0.6)
    seen = {hall: {f"antenna-{hall}": 0.65, None: 0.35} for hall in HALLS} | {room: {None: 1.0} for room in ROOMS}
    return ps.uncertain.hidden_markov(transitions=plan, readings=seen)


def write(size: UncertainStreamSize, folder: Path) -> int:
    """Write readings by second to files of some seconds each; return the number of rows."""
    chance = np.random.default_rng(5)
    names = np.array([*(f"antenna-{hall}" for hall in HALLS), None], object)
    people = np.array([f"person{i:05d}" for i in range(size.people)], object)
    for number, seconds in enumerate(np.array_split(np.arange(size.seconds), size.files)):
        moments = [BEGIN + timedelta(seconds=int(second)) for second in seconds for _ in people]
        # Read at a random place or not at all: the time of a match does not depend on the place.
        read = names[chance.choice(len(names), len(moments), p=[0.4 / 14] * 14 + [0.6])]
        table = pa.table(
            {
                "ts": pa.array(moments, pa.timestamp("us", "UTC")),
                "person": pa.array(np.tile(people, len(seconds)), pa.string()),
                "antenna": pa.array(read, pa.string()),
            }
        )
        pq.write_table(table, folder / f"part{number:03d}.parquet")
        time.sleep(0.02)  # files are processed in the order of their times
    return size.people * size.seconds


def seconds_of(spark: Any, source: Path, way: str, correlations: bool) -> float:
    """Seconds of a query over the complete input."""
    schema = "ts timestamp, person string, antenna string"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    at = ps.uncertain_events(stream.withWatermark("ts", "1 second"), event_type="At", key="person", value="place", reading="antenna", model=model(), every="1 second", inference=way, correlated=correlations, options=ps.StreamOptions(shards=4))  # fmt: skip
    asked = ps.pattern(COFFEE).match(
        at, relations={"Rooms": ROOMS, "CoffeeRooms": ROOMS[:1]}, emit=ps.uncertain.above(0.2)
    )
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        query = asked.writeStream.format("noop").option("checkpointLocation", folder).trigger(availableNow=True).start()
        query.awaitTermination()
        return time.perf_counter() - began


def run(size_name: str) -> harness.Report:
    size = SIZES[size_name]
    report = harness.Report("uncertain-stream", size_name)
    with (
        tempfile.TemporaryDirectory() as scratch,
        tempfile.TemporaryDirectory() as folder,
        spark_baselines.session(Path(scratch)) as spark,
    ):
        spark.conf.set(spark_baselines.PARTITIONS_SETTING, "4")
        rows = write(size, Path(folder))
        ways = {"filter": ("filter", True), "independent": ("filter", False), "likeliest": ("likeliest", True)}
        for way in ways.values():
            seconds_of(spark, Path(folder), *way)  # after compilation
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(size.rounds):
            for name, way in ways.items():
                taken[name].append(seconds_of(spark, Path(folder), *way))
    harness.print_line("\n| answered by | readings/s | tuples/s (20 places) |\n|---|---|---|")
    for name, times in taken.items():
        rate = rows / statistics.median(times)
        harness.print_line(f"| {name} | {rate:,.0f} | {20 * rate:,.0f} |")
        report.add(f"{name}.readings_per_second", rate)
    for name in ("filter", "independent"):
        ratios = [other / own for own, other in zip(taken[name], taken["likeliest"], strict=True)]
        report.add(f"{name}.against_likeliest", statistics.median(ratios))
    return report
