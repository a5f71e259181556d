"""Live models on Spark: a batch and a stream find what is found here, with the same ids."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Observation, SparkSession

import perseid as ps
from perseid.errors import EventDataError, UnsupportedError

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "site string, ts timestamp, change string, element string, kind string, attribute string, value string, target string"
SITE = ps.metamodel("""
model site
node Host (load double)
node App
edge runs_on App -> Host one

query hot(host)    find host: Host where moving_avg(host.load, 2) > 0.5
query on(host, app) find app -runs_on-> host
query crowded(host) find host: Host let n = count of on(host, _) where n >= 2

pattern heated   match found hot(host as h) a -> lost hot(host as h) b within 10 seconds return a.host as host
pattern moved    match change unlink runs_on(element as x) a -> change link runs_on(element as x) b within 5 seconds
                 return a.target as old_host, b.target as new_host
pattern quiet    match lost crowded a -> not found crowded for 4 seconds within 10 seconds partition by host
""")
Row = tuple[Any, ...]


def changes(seed: int = 1, seconds: int = 40) -> list[Row]:
    rng = random.Random(seed)
    named = [(f"h{i}", "Host") for i in (1, 2)] + [(f"a{i}", "App") for i in (1, 2, 3)]
    sites = ("north", "south", "east")
    rows: list[Row] = [(site, BEGIN, "create", name, kind, None, None, None) for site in sites for name, kind in named]
    for second in range(1, seconds):
        for site in sites:
            now = BEGIN + dt.timedelta(seconds=second)
            rows.append((site, now, "set", rng.choice(["h1", "h2"]), None, "load", str(rng.choice([0.1, 0.9])), None))
            if rng.random() < 0.6:
                action = rng.choice(["link", "unlink"])
                rows.append(
                    (site, now, action, f"a{rng.randint(1, 3)}", "runs_on", None, None, f"h{rng.randint(1, 2)}")
                )
    return rows


def here(rows: list[Row]) -> list[str]:
    names = [part.split()[0] for part in SCHEMA.split(", ")]
    listed = [dict(zip(names, row, strict=True)) for row in rows]
    with pytest.warns(ps.PerseidWarning, match="do not fit the model"):
        found = ps.patterns(SITE).match(ps.model(listed, SITE, key="site")).to_dicts()
    assert {m["pattern"] for m in found} == {"heated", "moved", "quiet"}
    return sorted(m["match_id"] for m in found)


def test_a_batch_finds_what_is_found_here(spark: SparkSession) -> None:
    frame = spark.createDataFrame(changes(), SCHEMA)
    counted = Observation()
    found = ps.patterns(SITE).detect(ps.model(frame, SITE, key="site"), observation=counted)
    assert sorted(row.match_id for row in found.collect()) == here(changes())
    assert counted.get["bad"] > 0


@pytest.mark.parametrize("shards", [1, 4])
def test_a_stream_finds_what_is_found_here(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    rows = sorted(changes(), key=lambda row: (row[1], row[0]))
    end: list[Row] = [
        ("end", BEGIN + dt.timedelta(days=days), "create", "x", "App", None, None, None) for days in (400, 401)
    ]
    for part in (rows[:60], rows[60:70], rows[70:], end[:1], end[1:]):
        spark.createDataFrame(part, SCHEMA).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    sites = ps.model(stream.withWatermark("ts", "2 seconds"), SITE, key="site", shards=shards)
    found = ps.patterns(SITE).detect(sites)
    name = f"models_{shards}"
    query = (
        found.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(row.match_id for row in spark.table(name).collect()) == here(changes())


def test_what_cannot_be(spark: SparkSession) -> None:
    frame = spark.createDataFrame(changes(), SCHEMA)
    with pytest.raises(UnsupportedError, match="rejected=True"):
        ps.patterns(SITE).detect(ps.model(frame, SITE, key="site"), rejected=True)
    with pytest.raises(EventDataError, match="Use detect"):
        ps.patterns(SITE).match(ps.model(frame, SITE, key="site"))
    with pytest.raises(EventDataError, match="no column 'node'"):
        ps.patterns(SITE).detect(ps.model(frame, SITE, key="site", element="node"))
    with pytest.raises(EventDataError, match="'place'"):
        ps.patterns(SITE).detect(ps.model(frame, SITE, key="place"))
