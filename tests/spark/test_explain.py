"""Output of explain and why_not over DataFrames."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import perseid as ps
from tests.golden import check_golden

FOLDER = Path(__file__).parents[1] / "viz" / "golden" / "detection_on_spark"
PATTERN = """
    pattern takeover
    match   Login a [country <> 'AT'] -> Login b -> Transfer t [amount > a.limit and lower(user) like 'a%']
    where   b.ip <> a.ip
    within  10 minutes
    partition by user
"""
SCHEMA = "ts timestamp, type string, user string, ip string, country string, limit int, amount int"


def moment(minute: int) -> dt.datetime:
    return dt.datetime(2026, 3, 1, 9, minute, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    rows: list[tuple[Any, ...]] = [
        (moment(0), "Login", "ann", "10.0.0.1", "DE", 500, None),
        (moment(1), "Login", "ann", "10.0.0.2", "DE", 500, None),
        (moment(2), "Transfer", "ann", None, None, None, 400),
        (moment(3), "Login", "bob", "10.0.0.3", "AT", 500, None),
        (None, "Login", "ann", "10.0.0.4", "DE", 500, None),
    ]
    return spark.createDataFrame(rows, SCHEMA)


def test_explain_shows_where_predicates_run(frame: DataFrame) -> None:
    told = ps.pattern(PATTERN).explain(ps.events(frame))
    added = told[told.index("run on Spark") :]
    assert max(map(len, added.splitlines())) <= 100
    flat = re.sub(r"\s+", " ", added)
    assert "in Catalyst country <> 'AT' as " in flat
    assert "dropped rows that do not satisfy " in flat
    assert "shuffle keys user" in flat
    assert "to Python time, type and event id; 2 conditions, one bit each; keys user; columns ip, limit, amount" in flat
    assert "execution compiled" in flat
    assert "b.ip <> a.ip (in the engine, after the shuffle)" in flat


def test_plan_shows_no_internal_names(spark: SparkSession) -> None:
    columns = "timestamp'2026-01-01' ts, 'Login' type, 'ann' user, 'a' Case, 'b' case, '0' _perseid_position"
    text = "pattern p match Login a [`Case` = 'a/b' and user <> 'it''s'] -> Login b within 1 minute partition by user"
    told = ps.pattern(text).explain(ps.events(spark.sql(f"select {columns}")))
    assert "perseid_" not in told
    assert "X'" not in told
    flat = re.sub(r"\s+", " ", told)
    assert "input 5 columns" in flat
    assert "`user` <> 'it''s'" in flat


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_golden(path: Path, frame: DataFrame) -> None:
    def added(text: str) -> str:
        told = ps.patterns(text).explain(ps.events(frame, id=["user", "ts"]))
        return told[told.index("run on Spark") :]

    check_golden(path, added)


def test_explain_without_a_stream() -> None:
    assert "run on Spark" not in ps.pattern(PATTERN).explain()


def test_several_inputs_and_partition_keys(frame: DataFrame) -> None:
    stream = ps.events({"Login": frame.where("type = 'Login'"), "Transfer": frame.where("type = 'Transfer'")})
    text = "pattern p match Login a, Transfer t within 5 events\n" + PATTERN
    added = ps.patterns(text).explain(stream).partition("run on Spark")[2]
    flat = re.sub(r"\s+", " ", added)
    assert "all of type Login" in flat
    assert "shuffle keys partitioning number, user" in flat
    assert "none: events form one partition (p)" in flat


def test_a_relation_needs_no_rows_to_be_explained(frame: DataFrame) -> None:
    told = ps.pattern("pattern p match Login a [(user, ip) in Office]").explain(ps.events(frame))
    assert "on executors" in told


def test_why_not_collects_one_key(frame: DataFrame) -> None:
    asked = ps.pattern(PATTERN).why_not(ps.events(frame), key="ann")
    assert asked.events == 3
    assert asked.best[0].why == "amount > a.limit was not true"
    local = [row.asDict() for row in frame.where("ts is not null").collect()]
    for row, minute in zip(local, range(4), strict=True):
        row["ts"] = moment(minute)
    (untimed,) = asked.notes
    assert untimed.startswith("1 of 5 rows are dropped")
    assert repr(ps.pattern(PATTERN).why_not(local, key="ann")) == repr(replace(asked, notes=()))


def test_why_not_without_a_key_filter_and_without_rows(frame: DataFrame) -> None:
    assert ps.pattern(PATTERN).why_not(ps.events(frame)).partitions == 2
    assert "Did you mean user = 'ann'?" in repr(ps.pattern(PATTERN).why_not(ps.events(frame), key="Ann"))


def test_why_not_reports_rows_without_a_time(spark: SparkSession) -> None:
    rows = [("01.03.2026 09:00", "Login"), ("2026-03-01T09:00:00Z", "Login"), (None, "Login")]
    stream = ps.events(spark.createDataFrame(rows, "ts string, type string"))
    told = ps.pattern("pattern p match Login a -> Log0ut b within 1 hour").why_not(stream)
    assert told.notes[0].startswith("2 of 3 rows are dropped: 'ts' has no readable time, such as '01.03.2026 09:00'.")
    assert "no event has the type 'Log0ut'" in told.notes[1]
    logins = ps.events({"Login": spark.createDataFrame([(None, 1)], "ts string, n int")})
    assert "1 of 1 rows of Login are dropped: 'ts' has no readable time, such as null" in repr(
        ps.pattern("pattern p match Login a").why_not(logins)
    )


def test_incomparable_types_are_rejected(frame: DataFrame) -> None:
    pattern = ps.pattern("pattern p match Login a -> Transfer t [amount > 'much'] within 1 hour")
    with pytest.raises(ps.errors.TypeMismatchError, match=r"cannot compare an? \w+ with a string(.|\n)*line 1, column"):
        pattern.match(ps.events(frame))
    rows = [{"ts": 1, "type": "Login"}, {"ts": 2, "type": "Transfer", "amount": 3.5}]
    assert pattern.match(rows).notes == ("p: '>' cannot compare a double with a string.",)


def test_why_not_is_bounded(frame: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perseid.api.stream_kinds.events.MAX_EVENTS", 2)
    with pytest.raises(ps.errors.EventDataError, match="Filter the data to the time range"):
        ps.pattern(PATTERN).why_not(ps.events(frame), key="ann")


def test_why_not_of_several_inputs(frame: DataFrame) -> None:
    logins = frame.where("type = 'Login'").selectExpr("ts", "user as who", "ip", "country", "limit")
    moves = frame.where("type = 'Transfer'").selectExpr("ts as at", "user", "amount")
    stream = ps.events(
        {"Login": logins, "Transfer": moves},
        time={"Login": "ts", "Transfer": "at"},
        key={"Login": "who", "Transfer": "user"},
    )
    pattern = ps.pattern("pattern p match Login a -> Transfer t [amount > 500] within 1 hour")
    asked = pattern.why_not(stream, key="ann")
    assert {a.why for a in asked.attempts} == {"amount > 500 was not true"}


def test_why_not_rejects_a_stream(spark: SparkSession) -> None:
    rate = spark.readStream.format("rate").load().selectExpr("timestamp as ts", "'A' as type")
    with pytest.raises(ps.errors.UnsupportedError, match=r"with spark\.read instead of spark\.readStream"):
        ps.pattern("pattern p match A").why_not(ps.events(rate))
