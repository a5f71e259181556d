"""Input without matches is counted and warned of: a type that no row has, and times that cannot be parsed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Observation, SparkSession

import perseid as ps
from perseid.compile.event_types import required_types
from perseid.spark.input_counts import missing_input
from tests.spark.streaming import FAR, MOMENT, WAIT, Streams, at

ARROW = pa.schema([("ts", MOMENT), ("id", pa.int64()), ("kind", pa.string()), ("user", pa.string())])
RIGHT = ps.pattern("pattern p match Login a -> not Logout -> Transfer t within 1 hour partition by user")
WRONG = ps.pattern("pattern p match Logn a -> not Logout -> Transfer t within 1 hour partition by user")


def rows(*kinds: str) -> list[dict[str, Any]]:
    return [{"ts": at(i), "id": i, "kind": kind, "user": "ann"} for i, kind in enumerate(kinds)]


def frame_of(spark: SparkSession, *kinds: str) -> Any:
    return spark.createDataFrame(pa.Table.from_pylist(rows(*kinds), schema=ARROW))


def counted(pattern: Any, frame: Any, time: str = "ts") -> dict[str, int]:
    seen = Observation()
    pattern.match(ps.events(frame, time=time, type="kind", id="id"), observation=seen).collect()
    return ps.counters(seen)


def test_a_batch_counts_rows_of_each_type_that_a_step_names(spark: SparkSession) -> None:
    found = counted(RIGHT, frame_of(spark, "Login", "Login", "Transfer", "Other"))
    by_type = {name: many for name, many in found.items() if name.startswith("events of ")}
    assert by_type == {"events of Login": 2, "events of Logout": 0, "events of Transfer": 1}
    assert (found["events"], found["matches"]) == (3, 2)


def test_rows_with_several_partition_keys_are_counted_once(spark: SparkSession) -> None:
    other = ps.pattern("pattern q match Login a -> Transfer t within 1 hour partition by id")
    both = ps.patterns(f"{RIGHT} {other}")
    assert counted(both, frame_of(spark, "Login", "Transfer", "Transfer"))["events of Transfer"] == 2


def test_a_misspelled_type_is_warned_of_when_counters_are_read(spark: SparkSession) -> None:
    with pytest.warns(
        ps.errors.InputWarning, match="'p' has no match so far: no row of type 'Logn' reached it"
    ) as found:
        counted(WRONG, frame_of(spark, "Login", "Transfer"))
    (one,) = found
    assert one.filename == __file__
    assert "Types that reached the patterns: 'Transfer'." in str(one.message)
    assert issubclass(ps.errors.InputWarning, UserWarning)


def test_batch_without_usable_rows_is_warned_of(spark: SparkSession) -> None:
    with pytest.warns(
        ps.errors.InputWarning, match="the input has no rows; the type differs from the type in the data"
    ):
        counted(ps.pattern("pattern p match Logn a -> Logn b within 1 hour"), frame_of(spark, "Login", "Login"))


def test_times_that_cannot_be_parsed_are_counted_and_warned_of(spark: SparkSession) -> None:
    frame = frame_of(spark, "Login", "Transfer").selectExpr("*", "'01.03.2026 09:00' as at")
    with pytest.warns(ps.errors.InputWarning) as found:
        counts = counted(RIGHT, frame, time="at")
    every, absent = (str(one.message) for one in found)
    assert "no row has a readable time, or no row with a time is of a type that the patterns name" in every
    assert "no row of type 'Login', 'Transfer' reached it" in absent
    assert "its rows have no readable time" in absent
    assert (counts["bad"], counts["matches"]) == (2, 0)


def test_misspelled_type_is_warned_of_if_only_rows_without_a_time_are_counted(spark: SparkSession) -> None:
    frame = frame_of(spark, "Login", "Login", "Other").selectExpr("*", "if(kind = 'Other', null, ts) as at")
    with pytest.warns(ps.errors.InputWarning) as found:
        counts = counted(ps.pattern("pattern p match Logn a -> Logn b within 1 hour"), frame, time="at")
    assert (counts["events"], counts["bad"]) == (1, 1)
    every, absent = (str(one.message) for one in found)
    assert "or no row with a time is of a type that the patterns name" in every
    assert "no row of type 'Logn' reached it" in absent


def test_warnings_of_different_counts_have_one_text(spark: SparkSession) -> None:
    other = ps.pattern("pattern q match Transfer t -> Logn b within 1 hour partition by user")
    both = ps.patterns(f"{WRONG} {other}")
    texts = []
    for kinds in (("Login", "Transfer"), ("Login", "Transfer", "Transfer")):
        with pytest.warns(ps.errors.InputWarning) as found:
            counted(both, frame_of(spark, *kinds))
        texts.append([str(one.message) for one in found])
    assert texts[0] == texts[1]
    assert [text.split(".")[0] for text in texts[0]] == [
        "Patterns 'p', 'q' have no match so far: no row of type 'Logn' reached them"
    ]


def test_query_neither_runs_nor_warns_before_counters_are_read(spark: SparkSession) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = frame_of(spark, "Login").selectExpr("*", "raise_error('it ran') as never", "'x' as at")
        WRONG.match(ps.events(frame, time="ts", type="kind", id="id"), observation=Observation())


def test_a_stream_counts_types_and_warns_when_its_progress_is_read(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    ends = [{"ts": at(FAR + i), "id": 90 + i, "kind": "Other", "user": "ann"} for i in range(2)]
    streams.add("input", ARROW, rows("Login", "Transfer"), rows("Login", "Login", "Transfer"), ends[:1], ends[1:])
    stream = ps.events(
        streams.read("input", ARROW), time="ts", type="kind", id="id", options=ps.StreamOptions(shards=2)
    )
    for pattern, first in ((RIGHT, {"Login": 3}), (WRONG, {"Logn": 0})):
        query = (
            pattern.match(stream)
            .writeStream.format("noop")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / pattern.names[0] / next(iter(first))))
            .start()
        )
        assert query.awaitTermination(240)
        if pattern is RIGHT:
            found = ps.progress(query)
        else:
            with pytest.warns(ps.errors.InputWarning, match="no row of type 'Logn' reached it"):
                found = ps.progress(query)
        assert found.by_type == {**first, "Logout": 0, "Transfer": 2}
        assert f"{next(iter(first))} {first[next(iter(first))]}" in str(found)


def progress_without_warning(query: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ps.errors.InputWarning)
        return ps.progress(query)


def event(second: int, kind: str) -> dict[str, Any]:
    return {"ts": at(second), "id": second, "kind": kind, "user": "ann"}


def run_to_the_end(streams: Streams, batches: Sequence[Sequence[dict[str, Any]]]) -> Any:
    """Run the query over these batches to its end; it continues from the checkpoint of an earlier run."""
    frame = streams.stream(ARROW, *batches)
    running = streams.start(
        RIGHT.match(ps.events(frame, time="ts", type="kind", id="id", options=ps.StreamOptions(shards=2)))
    )
    running.finish()
    return running.query


def test_a_type_of_earlier_batches_is_not_warned_of_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    first = [[event(0, "Login"), event(1, "Transfer")], [event(FAR, "Other")], [event(FAR + 1, "Other")]]
    assert progress_without_warning(run_to_the_end(streams, first)).matches == 1
    second = [[event(FAR + 60, "Login")], [event(2 * FAR, "Other")], [event(2 * FAR + 1, "Other")]]
    found = progress_without_warning(run_to_the_end(streams, second))
    assert (found.matches, found.retained_events, found.by_type["Transfer"]) == (0, 0, 0)


def test_a_type_that_may_still_complete_events_in_state_is_not_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    found = progress_without_warning(run_to_the_end(streams, [[event(0, "Login")], [event(60, "Login")]]))
    assert (found.matches, found.retained_events, found.by_type["Transfer"]) == (0, 2, 0)


def test_clock_ticks_of_an_idle_stream_are_not_warned_of(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    stream = ps.events(
        streams.stream(ARROW), time="ts", type="kind", id="id", options=ps.StreamOptions(shards=1, idle="1 minute")
    )
    running = streams.start(RIGHT.match(stream), processingTime="500 milliseconds")
    try:
        deadline = monotonic() + WAIT
        while monotonic() < deadline and not any(one["numInputRows"] for one in running.query.recentProgress):
            sleep(0.5)
        found = progress_without_warning(running.query)
    finally:
        running.query.stop()
    assert found.read
    assert (found.events, found.by_type) == (0, {"Login": 0, "Logout": 0, "Transfer": 0})


def test_punctuation_rows_are_not_counted_as_events_of_a_type(spark: SparkSession, tmp_path: Path) -> None:
    streams = Streams(spark, tmp_path)
    schema = ARROW.append(pa.field("punctuation", pa.string()))
    punctuation = [{**event(30, "Transfer"), "punctuation": "all"}, {**event(31, "Login"), "punctuation": "key"}]
    frame = streams.stream(schema, [event(0, "Login")], punctuation, delay="1 hour")
    events = ps.events(
        frame, time="ts", type="kind", id="id", disorder="conservative", options=ps.StreamOptions(shards=2)
    )
    running = streams.start(RIGHT.match(events))
    running.finish()
    found = progress_without_warning(running.query)
    assert found.by_type == {"Login": 1, "Logout": 0, "Transfer": 0}
    assert (found.events, found.control_rows) == (1, 3)  # a punctuation of all keys counts once per shard


def test_explain_names_the_types_and_how_times_are_read(spark: SparkSession) -> None:
    frame = frame_of(spark, "Login").selectExpr("*", "cast(ts as string) as at")
    text = RIGHT.explain(ps.events(frame, time="at", type="kind", id="id"))
    assert "at (string, parsed as ISO 8601; rows with other text are bad)" in text
    assert "Login, Logout, Transfer: rows of each type are counted" in text
    inputs = ps.events({"Login": frame, "Transfer": frame}, time="ts", id="id")
    text = WRONG.explain(inputs)
    assert "no input of type Logn. Did you mean 'Login'? Available: Login, Transfer" in text


@pytest.mark.parametrize(
    "kind", ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal(18,6)", "timestamp", "date"]
)
def test_explain_describes_each_type_of_time(spark: SparkSession, kind: str) -> None:
    is_time = kind in ("timestamp", "date")
    frame = frame_of(spark, "Login").selectExpr("*", f"cast({'ts' if is_time else '1'} as {kind}) as at")
    text = RIGHT.explain(ps.events(frame, time="at", type="kind", id="id"))
    assert f"at ({kind}{'' if is_time else ', seconds since 1970'})" in text


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
    plan = ps.pattern(f"pattern p match {match} within 1 hour").sources.compile(ps.events([]))
    assert required_types(plan) == {"p": tuple(required)}


def test_input_without_rows_is_not_warned_of_on_a_stream() -> None:
    assert missing_input({"p": ["A"]}, {"A": 0}, 0, 0) == []
    assert json.dumps(missing_input({"p": ["A"]}, {"A": 0}, 0, 5)).count("'A'") == 1
