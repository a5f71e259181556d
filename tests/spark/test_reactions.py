"""Rules over live models on Spark: batch and stream have the local actions, row for row."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession

import perseid as ps
from perseid.errors import EventDataError, LimitError, UnsupportedError

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "site string, ts timestamp, change string, element string, kind string, attribute string, value string, target string"
NAMES = [part.split()[0] for part in SCHEMA.split(", ")]
TEXT = """
model site
node Host (load bigint, most bigint, since timestamp)
node App
node Copy (seen bigint)
edge runs_on App -> Host one
edge copy_of Copy -> Host one

query over(host)     find host: Host where host.load > host.most
query copied(copy, host) find copy -copy_of-> host
query bare(host)     find host: Host, not copied(_, host)
query full(host, n)  find host: Host let n = count of on(_, host) where n > 1
query on(app, host)  find app -runs_on-> host

pattern thrice match (found over | updated over){3} selection immediate within forever partition by host
pattern stays  match found over a -> not lost over for 2 seconds partition by host return a.host as who, 1.5 as weight

rule copy  on found bare(host) do create c: Copy named 'copy ' || host, link c -copy_of-> host, set c.seen = 0
rule drop  on lost copied(copy, _) do delete copy
rule calm  on thrice priority 2 do set host.load = host.most, emit calmed(host, host.load as was)
rule nudge on stays priority 1
do emit alarm(who, weight, who.load as load, who.since as since, 'it stays' as why), set who.load = who.load - 1
rule watch on found full(host, n) do emit crowd(host, n, n > 2 as many)
for model 'all' do create c: Copy named 'copy ' || host, set c.seen = n
"""
SITE = ps.graph.metamodel(TEXT)
Row = tuple[Any, ...]


def changes(seed: int = 1, seconds: int = 30) -> list[Row]:
    rng = random.Random(seed)
    named = [(f"h{i}", "Host") for i in (1, 2)] + [(f"a{i}", "App") for i in (1, 2, 3)]
    sites = ("north", "south", "east")
    rows: list[Row] = [(site, BEGIN, "create", name, kind, None, None, None) for site in sites for name, kind in named]
    rows += [(site, BEGIN, "set", h, None, "most", "2", None) for site in sites for h in ("h1", "h2")]
    rows += [(site, BEGIN, "set", "h1", None, "since", "2026-01-01 00:00:00", None) for site in sites]
    for second in range(1, seconds):
        for site in sites:
            now = BEGIN + dt.timedelta(seconds=second)
            if rng.random() < 0.7:
                rows.append((site, now, "set", rng.choice(["h1", "h2"]), None, "load", str(rng.randint(0, 5)), None))
            if rng.random() < 0.6:
                action = rng.choice(["link", "unlink"])
                rows.append(
                    (site, now, action, f"a{rng.randint(1, 3)}", "runs_on", None, None, f"h{rng.randint(1, 2)}")
                )
    return rows


def react_locally(rows: list[Row], **words: Any) -> ps.graph.Reaction:
    done: ps.graph.Reaction = ps.graph.react(
        ps.graph.model([dict(zip(NAMES, row, strict=True)) for row in rows], SITE, key="site"), **words
    )
    return done


def assert_same_reaction(found: list[Any], done: ps.graph.Reaction) -> None:
    """Assert that rows equal the reaction, in order for each model; times are in the session's zone, UTC."""
    rows = sorted((row.asDict() for row in found), key=lambda row: (row["ts"], row["site"], row["place"]))
    rows = [{**row, "ts": row["ts"].replace(tzinfo=dt.UTC)} for row in rows]
    assert len({row["id"] for row in rows}) == len(rows)
    for what, expected in (("changed", done.changes), ("rejected", done.rejected)):
        assert [(row["ts"], row["site"], row["rule"], row["round"], row["change"], row["element"], row["value"])
                for row in rows if row["what"] == what] == [
            (row["ts"], row["site"], row["rule"], row["round"], row["change"], row["element"], text(row["value"]))
            for row in sorted(expected, key=lambda row: (row["ts"], row["site"]))
        ]  # fmt: skip
    states = ("appeared", "updated", "disappeared", "fired")
    lives = sorted(done.lives, key=lambda row: (row["ts"], row["site"]))
    assert [
        (row["ts"], row["site"], row["rule"], row["what"], row["match"]) for row in rows if row["what"] in states
    ] == [
        (row["ts"], row["site"], row["rule"], row["state"], {n: text(value) for n, value in row["match"].items()})
        for row in lives
    ]
    asked = [
        (row["ts"], row["site"], row["change"], row["element"], row["value"])
        for row in rows
        if row["what"] == "requested"
    ]
    assert sorted(asked, key=repr) == sorted(
        [(row["ts"], row["site"], row["change"], row["element"], text(row["value"])) for row in done.elsewhere],
        key=repr,
    )
    assert {row["what"] for row in rows} == {*states, "changed", "rejected", "requested", "emitted"}


def text(value: Any) -> str | None:
    return None if value is None else str(value)


def assert_same_tables(frame: DataFrame, done: ps.graph.Reaction) -> None:
    """Assert that each table of emitted rows has its own columns and types."""
    for name, rows in done.emitted.items():
        found = ps.graph.select_emitted(frame, SITE, name)
        listed = [row.asDict() for row in found.collect()]
        for row in listed:
            row |= {n: value.replace(tzinfo=dt.UTC) for n, value in row.items() if isinstance(value, dt.datetime)}
        expected = [{n: float(x) if n == "weight" else x for n, x in row.items()} for row in rows]
        assert sorted(listed, key=repr) == sorted(expected, key=repr), name
        assert expected, name


def test_batch_equals_local_reaction(spark: SparkSession) -> None:
    frame = spark.createDataFrame(changes(), SCHEMA)
    counted = Observation()
    done = ps.graph.react(ps.graph.model(frame, SITE, key="site"), observation=counted)
    expected = react_locally(changes())
    assert_same_reaction(done.collect(), expected)
    assert counted.get["bad"] == sum(row["rule"] is None for row in expected.rejected)
    assert_same_tables(done, expected)
    crowd = ps.graph.select_emitted(done, SITE, "crowd")
    assert [f"{f.name} {f.dataType.simpleString()}" for f in crowd.schema] == [
        "ts timestamp", "site string", "host string", "n bigint", "many boolean",
    ]  # fmt: skip
    until = BEGIN + dt.timedelta(seconds=12)
    assert_same_reaction(
        ps.graph.react(ps.graph.model(frame, SITE, key="site"), until=until).collect(),
        react_locally(changes(), until=until),
    )


def test_queries_of_another_model_can_be_added_to_a_stream(spark: SparkSession) -> None:
    frame = spark.createDataFrame(changes(), SCHEMA)
    asked = ps.graph.react(ps.graph.model(frame, SITE, key="site")).where("what = 'requested'").select(*NAMES)
    again = ps.graph.react(ps.graph.model(frame.unionByName(asked), SITE, key="site")).where(
        "site = 'all' and what = 'rejected'"
    )
    elsewhere = [tuple(row[name] for name in NAMES) for row in react_locally(changes()).elsewhere]
    local = react_locally(
        [*changes(), *(tuple(text(x) if i == 6 else x for i, x in enumerate(row)) for row in elsewhere)]
    )
    assert again.count() == sum(row["site"] == "all" for row in local.rejected)


def test_stream_equals_local_reaction(spark: SparkSession, tmp_path: Path) -> None:
    """In several batches, with a restart from the checkpoint."""
    rows = sorted(changes(), key=lambda row: (row[1], row[0]))
    end: list[Row] = [
        ("end", BEGIN + dt.timedelta(days=days), "create", "x", "App", None, None, None) for days in (200, 201)
    ]
    parts = (rows[:40], rows[40:60], rows[60:], end[:1], end[1:])
    told = []
    for number, some in enumerate((parts[:2], parts[2:])):
        for part in some:
            spark.createDataFrame(part, SCHEMA).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        sites = ps.graph.model(
            stream.withWatermark("ts", "2 seconds"), SITE, key="site", options=ps.StreamOptions(shards=4)
        )
        checkpoint = str(tmp_path / "checkpoint")
        done = ps.graph.react(sites, checkpoint=checkpoint if number else None)
        query = done.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        running = query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        running.awaitTermination()
        told.append(ps.progress(running).matches)
        assert ps.inspect_state(spark, checkpoint).reports
    out = spark.read.parquet(str(tmp_path / "out"))
    expected = react_locally(changes())
    assert_same_reaction(out.where("site <> 'end'").collect(), expected)
    assert_same_tables(out, expected)
    assert all(told)


def test_unsupported_reactions_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(changes(seconds=3), SCHEMA)
    with pytest.raises(EventDataError, match="'round'"):
        ps.graph.react(ps.graph.model(frame.withColumnRenamed("site", "round"), SITE, key="round"))
    with pytest.raises(EventDataError, match="identifies a model by 1 values"):
        ps.graph.react(ps.graph.model(frame, SITE))
    with pytest.raises(EventDataError, match="emits a column 'host'"):
        ps.graph.react(ps.graph.model(frame.withColumnRenamed("site", "host"), SITE, key="host"))
    with pytest.raises(EventDataError, match="Did you mean 'alarm'"):
        ps.graph.select_emitted(ps.graph.react(ps.graph.model(frame, SITE, key="site")), SITE, "alarms")
    with pytest.raises(EventDataError, match="Unexpected columns"):
        ps.graph.select_emitted(frame, SITE, "alarm")
    with pytest.raises(EventDataError, match="For local changes, use"):
        ps.graph.select_emitted([], SITE, "alarm")
    with pytest.raises(EventDataError, match="require a Spark DataFrame"):
        ps.graph.react(ps.graph.model([], SITE, key="site"), checkpoint="there")
    spark.createDataFrame(changes(seconds=3), SCHEMA).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "in"))
    sites = ps.graph.model(stream.withWatermark("ts", "2 seconds"), SITE, key="site")
    with pytest.raises(UnsupportedError, match="its time advances with the watermark"):
        ps.graph.react(sites, until=BEGIN)
    with pytest.raises(UnsupportedError, match="observation= requires a batch DataFrame"):
        ps.graph.react(sites, observation=Observation())
    with pytest.raises(EventDataError, match="no watermark"):
        ps.graph.react(ps.graph.model(stream, SITE, key="site"))
    restless = (
        TEXT + "rule up on found over(host) do set host.load = 0 rule down on lost over(host) do set host.load = 9"
    )
    with pytest.raises(Exception, match="still requests changes after 9 iterations") as caught:
        ps.graph.react(ps.graph.model(frame, ps.graph.metamodel(restless), key="site"), max_iterations=9).collect()
    assert LimitError.__name__ in str(caught.value)
