"""Input that cannot match is counted and warned of: a type that no row has, and times that cannot be read."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Observation, SparkSession

import perseid as ps
from perseid.spark.input_counts import missing_input, required_types
from tests.spark.streaming import FAR, MOMENT, Streams, at

pytestmark = pytest.mark.xdist_group("spark")

ARROW = pa.schema([("ts", MOMENT), ("id", pa.int64()), ("kind", pa.string()), ("user", pa.string())])
RIGHT = ps.pattern("pattern p match Login a -> not Logout -> Transfer t within 1 hour partition by user")
WRONG = ps.pattern("pattern p match Logn a -> not Logout -> Transfer t within 1 hour partition by user")


def rows(*kinds: str) -> list[dict[str, Any]]:
    return [{"ts": at(i), "id": i, "kind": kind, "user": "ann"} for i, kind in enumerate(kinds)]


def frame_of(spark: SparkSession, *kinds: str) -> Any:
    return spark.createDataFrame(pa.Table.from_pylist(rows(*kinds), schema=ARROW))


def counted(pattern: Any, frame: Any, time: str = "ts") -> dict[str, int]:
    seen = Observation()
    pattern.detect(ps.events(frame, time=time, type="kind", id="id"), observation=seen).collect()
    return ps.counters(seen)


def test_a_batch_counts_rows_of_each_type_that_a_step_names(spark: SparkSession) -> None:
    found = counted(RIGHT, frame_of(spark, "Login", "Login", "Transfer", "Other"))
    by_type = {name: many for name, many in found.items() if name.startswith("events of ")}
    assert by_type == {"events of Login": 2, "events of Logout": 0, "events of Transfer": 1}
    assert (found["events"], found["matches"]) == (3, 2)


def test_rows_that_go_several_ways_are_counted_once(spark: SparkSession) -> None:
    other = ps.pattern("pattern q match Login a -> Transfer t within 1 hour partition by id")
    both = ps.patterns(f"{RIGHT} {other}")
    assert counted(both, frame_of(spark, "Login", "Transfer", "Transfer"))["events of Transfer"] == 2


def test_a_misspelled_type_is_warned_of_when_counters_are_read(spark: SparkSession) -> None:
    with pytest.warns(ps.InputWarning, match="'p' cannot match: no row of type 'Logn' reached it") as found:
        counted(WRONG, frame_of(spark, "Login", "Transfer"))
    (one,) = found
    assert one.filename == __file__
    assert "'Transfer' (1 rows)" in str(one.message)
    assert issubclass(ps.InputWarning, UserWarning)


def test_a_batch_of_which_no_row_is_left_is_warned_of(spark: SparkSession) -> None:
    with pytest.warns(ps.InputWarning, match="The input has no rows, the type is spelled otherwise"):
        counted(ps.pattern("pattern p match Logn a -> Logn b within 1 hour"), frame_of(spark, "Login", "Login"))


def test_times_that_cannot_be_parsed_are_counted_and_warned_of(spark: SparkSession) -> None:
    frame = frame_of(spark, "Login", "Transfer").selectExpr("*", "'01.03.2026 09:00' as at")
    with pytest.warns(ps.InputWarning, match=r"None of 2 rows has a time that can be read") as found:
        counts = counted(RIGHT, frame, time="at")
    assert len(found) == 1
    assert (counts["bad"], counts["matches"]) == (2, 0)


def test_nothing_runs_and_nothing_is_warned_of_before_counters_are_read(spark: SparkSession) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = frame_of(spark, "Login").selectExpr("*", "raise_error('it ran') as never", "'x' as at")
        WRONG.detect(ps.events(frame, time="ts", type="kind", id="id"), observation=Observation())


def test_a_stream_counts_types_and_warns_when_its_progress_is_read(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    ends = [{"ts": at(FAR + i), "id": 90 + i, "kind": "Other", "user": "ann"} for i in range(2)]
    streams.add("input", ARROW, rows("Login", "Transfer"), rows("Login", "Login", "Transfer"), ends[:1], ends[1:])
    stream = ps.events(streams.read("input", ARROW), time="ts", type="kind", id="id", shards=2)
    for pattern, first in ((RIGHT, {"Login": 3}), (WRONG, {"Logn": 0})):
        query = (
            pattern.detect(stream)
            .writeStream.format("noop")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / pattern.names[0] / next(iter(first))))
            .start()
        )
        assert query.awaitTermination(240)
        if pattern is RIGHT:
            found = ps.progress(query)
        else:
            with pytest.warns(ps.InputWarning, match="no row of type 'Logn' reached it"):
                found = ps.progress(query)
        assert found.by_type == {**first, "Logout": 0, "Transfer": 2}
        assert f"{next(iter(first))} {first[next(iter(first))]}" in str(found)


def test_explain_names_the_types_and_how_times_are_read(spark: SparkSession) -> None:
    frame = frame_of(spark, "Login").selectExpr("*", "cast(ts as string) as at")
    said = RIGHT.explain(ps.events(frame, time="at", type="kind", id="id"))
    assert "at (string, read as ISO 8601; other texts are bad rows)" in said
    assert "Login, Logout, Transfer: rows of each are counted" in said
    inputs = ps.events({"Login": frame, "Transfer": frame}, time="ts", id="id")
    said = WRONG.explain(inputs)
    assert "is of type Logn. Did you mean 'Login'? Inputs: Login, Transfer" in said


@pytest.mark.parametrize(
    ("match", "required"),
    [
        ("A -> B", ["A", "B"]),
        ("A -> not B -> C", ["A", "C"]),
        ("A -> B? -> C", ["A", "C"]),
        ("A -> B* -> C", ["A", "C"]),
        ("A -> B+ -> C", ["A", "B", "C"]),
        ("A -> (B | C)", ["A"]),
        ("A -> ((B -> C) | (C -> D))", ["A", "C"]),
        ("A & B", ["A", "B"]),
        ("(A -> B within 1 minute) -> any", ["A", "B"]),
    ],
)
def test_types_are_required_that_every_match_has(match: str, required: list[str]) -> None:
    plan = ps.pattern(f"pattern p match {match} within 1 hour")._plan_for(ps.events([]))
    assert required_types(plan) == {"p": required}


def test_input_without_rows_is_not_warned_of_on_a_stream() -> None:
    assert missing_input({"p": ["A"]}, {"A": 0}, 0, 0) == []
    assert json.dumps(missing_input({"p": ["A"]}, {"A": 0}, 0, 5)).count("'A'") == 1
