"""Uncertain streams on Spark: batch and stream output equals local output to the last bit, with and without a key."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import perseid as ps
from perseid.errors import EventDataError, UnsupportedError

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "ts timestamp, person string, antenna string"
MODEL = ps.uncertain.hidden_markov(
    transitions=ps.uncertain.floor_plan([("h1", "h2"), ("h2", "h3"), ("h2", "coffee"), ("h3", "office")], stay=0.5),
    readings={
        "h1": {"a1": 0.7, None: 0.3},
        "h2": {"a2": 0.7, None: 0.3},
        "h3": {"a3": 0.7, None: 0.3},
        "coffee": {None: 1.0},
        "office": {None: 1.0},
    },
)
ROOMS = {"Rooms": ["coffee", "office"], "CoffeeRooms": ["coffee"]}
SAID: dict[str, Any] = {
    "event_type": "At", "key": "person", "value": "place", "reading": "antenna", "model": MODEL, "every": "1 second",
}  # fmt: skip


def coffee(by_person: bool) -> ps.Pattern:
    who, by = ("", "partition by person") if by_person else ("(person as x)", "")
    return ps.pattern(
        f"pattern coffee match At{who} a [place not in Rooms] -> At{who} b must (place not in Rooms) "
        f"-> At{who} c must (place in CoffeeRooms) within forever {by} selection successor"
    )


def readings(people: str = "abcdefg", seconds: int = 40) -> list[tuple[dt.datetime, str, str | None]]:
    chance = random.Random(1)
    return [
        (BEGIN + dt.timedelta(seconds=second), person, chance.choice(["a1", "a2", "a2", None, None, "a3"]))
        for person in people
        for second in range(seconds)
        if chance.random() < 0.9
    ]


def exact_rows(rows: Any) -> list[str]:
    """Return rows with all digits, without the row that ends a stream."""
    out = []
    for row in rows:
        moments = [value for value in row.values() if isinstance(value, dt.datetime)]
        if all(moment.year == 2026 for moment in moments):
            out.append(
                repr([value.isoformat()[:19] if isinstance(value, dt.datetime) else value for value in row.values()])
            )
    return sorted(out)


def match_locally(by_person: bool, **more: Any) -> list[str]:
    tell = more.pop("tell", None)
    rows = [dict(zip(("ts", "person", "antenna"), row, strict=True)) for row in readings()]
    return exact_rows(
        coffee(by_person).match(ps.uncertain_events(rows, **{**SAID, **more}), relations=ROOMS, emit=tell)
    )


WAYS: list[tuple[bool, dict[str, Any]]] = [
    (True, {"inference": "lag(2)", "reading_timeout": "3 seconds", "tell": ps.uncertain.alerts(rise=0.2, fall=0.1)}),
    (True, {"correlated": False, "tell": ps.uncertain.spans(0.1)}),
    (False, {}),
    (False, {"inference": "likeliest"}),
    (True, {"reading_timeout": "3 seconds", "tell": ps.uncertain.expected()}),
    (False, {"inference": "lag(1)", "tell": ps.uncertain.expected(0.1)}),
    (False, {"correlated": False, "sampling": ps.uncertain.Sampling(always=True)}),
]


@pytest.mark.parametrize(
    ("by_person", "more"), [*WAYS, (True, {"inference": "smooth"}), (False, {"inference": "viterbi"})]
)
def test_batch_equals_local_probabilities(spark: SparkSession, by_person: bool, more: dict[str, Any]) -> None:
    tell = more.get("tell")
    frame = spark.createDataFrame(readings(), SCHEMA)
    declared = {**SAID, **{key: value for key, value in more.items() if key != "tell"}}
    found = coffee(by_person).match(ps.uncertain_events(frame, **declared), relations=ROOMS, emit=tell)
    assert exact_rows(row.asDict() for row in found.collect()) == match_locally(by_person, **more) != []


@pytest.mark.parametrize(
    ("by_person", "more", "shards"),
    [
        *((*way, 4) for way in WAYS[:3]),
        *(pytest.param(*way, 4, marks=pytest.mark.deep) for way in WAYS[3:]),
        pytest.param(*WAYS[2], 1, marks=pytest.mark.deep),
    ],
)
def test_stream_equals_local_probabilities(
    spark: SparkSession, tmp_path: Path, by_person: bool, more: dict[str, Any], shards: int
) -> None:
    rows = sorted(readings())
    end = [(BEGIN + dt.timedelta(days=400), "nobody", None)]
    for part in (rows[:90], rows[90:100], rows[100:], end):
        spark.createDataFrame(part, SCHEMA).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    declared = {**SAID, **{key: value for key, value in more.items() if key != "tell"}}
    at = ps.uncertain_events(
        stream.withWatermark("ts", "2 seconds"), **declared, options=ps.StreamOptions(shards=shards)
    )
    found = coffee(by_person).match(at, relations=ROOMS, emit=more.get("tell"))
    name = f"told_{abs(hash((by_person, str(more), shards)))}"
    query = (
        found.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query.trigger(availableNow=True).start().awaitTermination()
    assert exact_rows(row.asDict() for row in spark.table(name).collect()) == match_locally(by_person, **more) != []


def match_locally_and_on_stream(
    spark: SparkSession, tmp_path: Path, pattern: ps.Pattern, rows: list[Any], schema: str, said: dict[str, Any]
) -> tuple[ps.uncertain.UncertainMatches, list[dict[str, Any]]]:
    """Return local matches, and the rows of a stream in three batches and three shards."""
    names = [one.split()[0] for one in schema.split(", ")]
    local = pattern.match(ps.uncertain_events([dict(zip(names, row, strict=True)) for row in rows], **said))
    end = [(BEGIN + dt.timedelta(days=400), *rows[0][1:])]
    for part in (rows[: len(rows) // 3], rows[len(rows) // 3 :], end):
        spark.createDataFrame(part, schema).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    found = pattern.match(
        ps.uncertain_events(stream.withWatermark("ts", "2 seconds"), **said, options=ps.StreamOptions(shards=3))
    )
    name = f"told_{pattern.name}"
    query = (
        found.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query.trigger(availableNow=True).start().awaitTermination()
    return local, [row.asDict() for row in spark.table(name).collect()]


def test_stream_samples_the_same_worlds_as_local(spark: SparkSession, tmp_path: Path) -> None:
    """An Unsafe pattern: a person who appears twice on a higher floor than before."""
    higher = ps.pattern(
        "pattern higher match At a -> At b [b.floor > a.floor] -> At c [c.floor > b.floor] within 5 seconds partition by person"
    )
    chance = random.Random(2)
    rows = [
        (BEGIN + dt.timedelta(seconds=second), person, floor, chance.random() / 3)
        for second in range(30)
        for person in "abcde"
        for floor in range(3)
        if chance.random() < 0.8
    ]
    said = {
        "event_type": "At",
        "key": "person",
        "value": "floor",
        "every": "1 second",
        "sampling": ps.uncertain.Sampling(seed=5),
    }
    local, streamed = match_locally_and_on_stream(
        spark, tmp_path, higher, rows, "ts timestamp, person string, floor int, p double", said
    )
    assert exact_rows(streamed) == exact_rows(local) != []
    assert {row["error"] for row in streamed} == {0.1}


def test_stream_with_too_many_states_switches_to_sampling(spark: SparkSession, tmp_path: Path) -> None:
    """With ``holds for``, every start counts: there are as many states as sets of starts."""
    long = ps.pattern("pattern long match A [v = 1] -> A [v = 2] within 40 seconds holds for 9 seconds partition by k")
    rows = [
        (BEGIN + dt.timedelta(seconds=second), k, v, p)
        for second in range(40)
        for k in range(2)
        for v, p in ((1, 0.5), (2, 0.1))
    ]
    said = {"event_type": "A", "key": "k", "value": "v", "every": "1 second"}
    local, streamed = match_locally_and_on_stream(
        spark, tmp_path, long, rows, "ts timestamp, k int, v int, p double", said
    )
    assert exact_rows(streamed) == exact_rows(local) != []
    assert {row["error"] for row in streamed} == {0.0, 0.1}


def smoke(within: str) -> ps.Pattern:
    """Return a Safe pattern, not Extended Regular: a person goes from the hall to the lab, and then an alarm follows."""
    return ps.pattern(
        "pattern smoke match At(person as x) [place = 'hall'] -> At(person as x) [place = 'lab'] -> Alarm [kind = 'smoke'] "
        f"within {within} selection successor"
    )


def test_safe_pattern_with_window_equals_local_on_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Tables and distributions, with a restart, in batch and locally."""
    chance = random.Random(4)
    walked = [
        (BEGIN + dt.timedelta(seconds=second), person, place, was, chance.random() / 2)
        for second in range(20)
        for person in "abc"
        for was in (None, "hall", "lab")
        for place in ("hall", "lab")
        if chance.random() < 0.9
    ]
    rang = [(BEGIN + dt.timedelta(seconds=second), "smoke", chance.random()) for second in range(0, 20, 2)]
    schemas = {
        "At": "ts timestamp, person string, place string, was string, p double",
        "Alarm": "ts timestamp, kind string, p double",
    }
    said: dict[str, dict[str, Any]] = {
        "At": {"key": "person", "value": "place", "previous": "was"}, "Alarm": {"value": "kind"},
    }  # fmt: skip

    def declared(data: dict[str, Any]) -> ps.uncertain.UncertainEvents:
        at, alarm = (
            ps.uncertain_events(
                data[type_], event_type=type_, every="1 second", **said[type_], options=ps.StreamOptions(shards=2)
            )
            for type_ in said
        )
        return at.combine(alarm)

    tables = {"At": walked, "Alarm": rang}
    names = {type_: [one.split()[0] for one in schema.split(", ")] for type_, schema in schemas.items()}
    rows = {type_: [dict(zip(names[type_], row, strict=True)) for row in tables[type_]] for type_ in said}
    due = smoke("5 seconds").match(declared(rows))
    assert len({row["p"] for row in due}) == 9  # at every alarm but the first
    frames = {type_: spark.createDataFrame(tables[type_], schemas[type_]) for type_ in said}
    assert exact_rows(row.asDict() for row in smoke("5 seconds").match(declared(frames)).collect()) == exact_rows(due)

    def stream() -> ps.uncertain.UncertainEvents:
        read = spark.readStream.option("maxFilesPerTrigger", 1)
        parts = {type_: read.schema(schemas[type_]).parquet(str(tmp_path / type_)) for type_ in said}
        return declared({type_: part.withWatermark("ts", "1 second") for type_, part in parts.items()})

    end = BEGIN + dt.timedelta(days=400)
    last = {"At": (end, "z", "hall", None, 1.0), "Alarm": (end, "smoke", 0.0)}
    for begin, until in ((0, 8), (8, 13), (13, 20), (20, 21)):
        for type_ in said:
            low, high = BEGIN + dt.timedelta(seconds=begin), BEGIN + dt.timedelta(seconds=until)
            part = [row for row in tables[type_] if low <= row[0] < high] or [last[type_]]
            spark.createDataFrame(part, schemas[type_]).coalesce(1).write.mode("append").parquet(str(tmp_path / type_))
        if until in (8, 20):
            continue  # two files of each, and as many after a restart
        writer = smoke("5 seconds").match(stream()).writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out"))
    assert exact_rows(row.asDict() for row in found.collect()) == exact_rows(due)
    with pytest.raises(UnsupportedError, match="not supported on a stream without a window"):
        smoke("forever").match(stream())


def test_unsupported_streams_are_rejected(spark: SparkSession) -> None:
    rate = spark.readStream.format("rate").load().selectExpr("timestamp as ts", "'a' as person", "'a1' as antenna")
    stream = rate.withWatermark("ts", "1 second")
    for more, what in (
        ({"inference": "smooth"}, "needs all readings"),
        ({"sampling": ps.uncertain.Sampling(always=True)}, "must be sampled"),
    ):
        with pytest.raises(UnsupportedError, match=what):
            coffee(True).match(ps.uncertain_events(stream, **SAID, **more), relations=ROOMS)
    for frame in (stream, spark.createDataFrame(readings(), SCHEMA)):
        with pytest.raises(UnsupportedError, match="combines the results of several bindings"):
            coffee(False).match(ps.uncertain_events(frame, **SAID), relations=ROOMS, emit=ps.uncertain.spans(0.5))
    with pytest.raises(EventDataError, match="no watermark"):
        coffee(True).match(ps.uncertain_events(rate, **SAID), relations=ROOMS)
    with pytest.raises(EventDataError, match="'badge'"):
        coffee(True).match(ps.uncertain_events(stream, **{**SAID, "reading": "badge"}), relations=ROOMS)


def test_invalid_distributions_are_counted(spark: SparkSession) -> None:
    from pyspark.sql import Observation

    rows = [(BEGIN, "ann", "coffee", 0.7), (BEGIN, "ann", "h1", 0.7), (BEGIN, "bob", "coffee", 0.5)]
    frame = spark.createDataFrame(rows, "ts timestamp, person string, place string, p double")
    seen = Observation()
    asked = ps.pattern("pattern in_coffee match At a [place = 'coffee'] partition by person")
    found = asked.match(
        ps.uncertain_events(frame, event_type="At", key="person", value="place"), observation=seen
    ).collect()
    assert [(row["person"], row["p"]) for row in found] == [("bob", 0.5)]
    assert (seen.get["events"], seen.get["bad"]) == (3, 2)


def test_impossible_readings_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    """No one leaves the hall, which alone gives reading h: the second reading of ann is impossible, all of bob possible."""
    from pyspark.sql import Observation

    model = ps.uncertain.hidden_markov(
        transitions={"hall": {"hall": 1.0}, "lab": {"lab": 1.0}}, readings={"hall": {"h": 1.0}, "lab": {"l": 1.0}}
    )
    said = {"event_type": "At", "key": "person", "value": "place", "reading": "r", "model": model, "every": "1 second"}
    rows = [
        (BEGIN + dt.timedelta(seconds=at), who, r) for who, all_ in (("ann", "hlh"), ("bob", "ll")) for at, r in enumerate(all_)
    ]  # fmt: skip
    schema = "ts timestamp, person string, r string"
    frame = spark.createDataFrame(rows, schema)
    asked = ps.pattern(
        "pattern in_hall match At a [place = 'hall'] within forever partition by person selection successor"
    )
    seen = Observation()
    found = asked.match(ps.uncertain_events(frame, **said), observation=seen).collect()
    assert {(row["person"], row["p"]) for row in found} == {("ann", 1.0)}
    assert (seen.get["impossible"], seen.get["sampled"], seen.get["bad"]) == (1, 0, 0)
    spark.createDataFrame([*rows, (BEGIN + dt.timedelta(hours=1), "eve", "h")], schema).write.parquet(
        str(tmp_path / "in")
    )
    stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in")).withWatermark("ts", "1 second")
    writer = asked.match(ps.uncertain_events(stream, **said, options=ps.StreamOptions(shards=2))).writeStream.format(
        "noop"
    )
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    counted = ps.progress(query)
    assert (counted.impossible, counted.sampled, counted.matches) == (1, 0, 3)
