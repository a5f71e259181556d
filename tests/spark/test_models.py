"""Live models on Spark: batch and stream have the local matches, with the same ids."""

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
SITE = ps.graph.metamodel("""
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


def match_locally(rows: list[Row]) -> list[str]:
    names = [part.split()[0] for part in SCHEMA.split(", ")]
    listed = [dict(zip(names, row, strict=True)) for row in rows]
    with pytest.warns(ps.errors.PerseidWarning, match="changes rejected by the model"):
        found = ps.patterns(SITE).match(ps.graph.model(listed, SITE, key="site")).to_dicts()
    assert {m["pattern"] for m in found} == {"heated", "moved", "quiet"}
    return sorted(m["match_id"] for m in found)


def test_batch_equals_local_matches(spark: SparkSession) -> None:
    frame = spark.createDataFrame(changes(), SCHEMA)
    counted = Observation()
    found = ps.patterns(SITE).match(ps.graph.model(frame, SITE, key="site"), observation=counted)
    assert sorted(row.match_id for row in found.collect()) == match_locally(changes())
    assert counted.get["bad"] > 0


def test_unknown_changes_are_counted_as_bad(spark: SparkSession) -> None:
    wrong: list[Row] = [
        ("north", BEGIN, "add", "h1", "Host", None, None, None),
        ("north", BEGIN, "create", "h1", "Hst", None, None, None),
    ]
    counted = Observation()
    found = ps.patterns(SITE).match(
        ps.graph.model(spark.createDataFrame(wrong, SCHEMA), SITE, key="site"), observation=counted
    )
    assert found.collect() == []
    assert counted.get["bad"] == 2


@pytest.mark.parametrize("shards", [4])
def test_stream_equals_local_matches(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    rows = sorted(changes(), key=lambda row: (row[1], row[0]))
    end: list[Row] = [
        ("end", BEGIN + dt.timedelta(days=days), "create", "x", "App", None, None, None) for days in (400, 401)
    ]
    for part in (rows[:60], rows[60:70], rows[70:], end[:1], end[1:]):
        spark.createDataFrame(part, SCHEMA).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    sites = ps.graph.model(
        stream.withWatermark("ts", "2 seconds"), SITE, key="site", options=ps.StreamOptions(shards=shards)
    )
    found = ps.patterns(SITE).match(sites)
    name = f"models_{shards}"
    query = (
        found.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(row.match_id for row in spark.table(name).collect()) == match_locally(changes())


def test_unsupported_models_are_rejected(spark: SparkSession) -> None:
    frame = spark.createDataFrame(changes(), SCHEMA)
    with pytest.raises(UnsupportedError, match="rejected=True"):
        ps.patterns(SITE).match(ps.graph.model(frame, SITE, key="site"), rejected=True)
    with pytest.raises(EventDataError, match="match: expected local rows, got a Spark DataFrame"):
        ps.patterns(SITE)[0].why_not(ps.graph.model(frame, SITE, key="site"))
    with pytest.raises(UnsupportedError, match=r"model\.events\(\) needs local changes"):
        ps.graph.model(frame, SITE, key="site").events()
    with pytest.raises(EventDataError, match="Column 'node' not found in the DataFrame of changes"):
        ps.patterns(SITE).match(ps.graph.model(frame, SITE, key="site", element="node"))
    with pytest.raises(EventDataError, match="'place'"):
        ps.patterns(SITE).match(ps.graph.model(frame, SITE, key="place"))


BESIDE = ps.graph.metamodel("""
model site
node Host (load double)
query hot(host) find host: Host where host.load > 0.5
pattern entered match found hot(host as h) a -> Login(host as h) b within 10 seconds return b.user as user
""")
LOGIN = "site string, ts timestamp, host string, user int"


@pytest.mark.parametrize("way", ["batch", "stream", "types by a column"])
def test_events_with_a_model(spark: SparkSession, tmp_path: Path, way: str) -> None:
    rows = [row for row in changes() if row[2] in ("create", "set") and row[3][0] == "h"]
    rng = random.Random(4)
    logins: list[Row] = [
        (rng.choice(["north", "south"]), BEGIN + dt.timedelta(seconds=second), rng.choice(["h1", "h2"]), second)
        for second in range(1, 40, 2)
    ]
    names = [part.split()[0] for part in SCHEMA.split(", ")]
    listed = [dict(zip(names, row, strict=True)) for row in rows]
    named = [dict(zip(("site", "ts", "host", "user"), row, strict=True)) for row in logins]
    here_ = ps.patterns(BESIDE).match(ps.graph.model(listed, BESIDE, key="site", events=ps.events({"Login": named})))
    expected = sorted(match["match_id"] for match in here_.to_dicts())
    assert len(expected) > 3
    given, login = spark.createDataFrame(rows, SCHEMA), spark.createDataFrame(logins, LOGIN)
    if way == "batch":
        found = ps.patterns(BESIDE).match(ps.graph.model(given, BESIDE, key="site", events=ps.events({"Login": login})))
        assert sorted(row.match_id for row in found.collect()) == expected
        return
    if way == "types by a column":
        # The type column is not an attribute of the event, and there is no other column.
        typed = login.selectExpr("*", "'Login' as type").union(login.selectExpr("*", "'Other' as type"))
        found = ps.patterns(BESIDE).match(ps.graph.model(given, BESIDE, key="site", events=ps.events(typed)))
        assert sorted(row.match_id for row in found.collect()) == expected
        return
    end = BEGIN + dt.timedelta(days=400)
    last: list[list[Row]] = [
        [("end", end + dt.timedelta(days=d), "create", "x", "App", None, None, None)] for d in (0, 1)
    ]
    for folder, schema, parts in (
        ("changes", SCHEMA, [rows[:60], rows[60:], *last]),
        (
            "logins",
            LOGIN,
            [logins[:5], logins[5:], [("end", end, "x", 0)], [("end", end + dt.timedelta(days=1), "x", 0)]],
        ),
    ):
        for part in parts:
            spark.createDataFrame(part, schema).coalesce(1).write.mode("append").parquet(str(tmp_path / folder))
    read = [
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / folder))
        for folder, schema in (("changes", SCHEMA), ("logins", LOGIN))
    ]
    live, live_logins = (one.withWatermark("ts", "40 seconds") for one in read)
    declared = ps.graph.model(
        live, BESIDE, key="site", events=ps.events({"Login": live_logins}), options=ps.StreamOptions(shards=2)
    )
    query = ps.patterns(BESIDE).match(declared).writeStream.format("memory").queryName("beside")
    query = query.option("checkpointLocation", str(tmp_path / "state"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(row.match_id for row in spark.table("beside").collect()) == expected
