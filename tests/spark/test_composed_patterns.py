"""Patterns over matches of other patterns on the same key: one query, with the local matches in batch and stream."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import perseid as ps
from perseid.errors import PerseidError, TypeMismatchError, UnknownNameError, UnsupportedError
from tests.spark.streaming import FAR, MOMENT, Streams, at, ids

EVENTS = pa.schema({"ts": MOMENT, "type": pa.string(), "user": pa.string(), "host": pa.string(), "n": pa.int32()})
PATTERNS = ps.patterns("""
pattern failing match Fail{3} f within 20 seconds partition by user return count(f) as times, max(f.n) as top
pattern silent match Login l -> not Fail for 6 seconds partition by user return l.n as n
pattern busy match Fail a, Fail b within 8 seconds partition by host return a.n + b.n as both
pattern taken match failing f [times > 2 and top > 1] -> Login l [n > 0] within 15 seconds partition by user
  return f.match_id as why, l.n as n, f.times as times
pattern again match taken a -> taken b within 60 seconds partition by user return time(b) as at
pattern calm match taken t -> silent s within 40 seconds partition by user suppress 30 seconds return s.n as n
pattern next match any e, silent s within 30 seconds partition by user return type(e) as before
""")


def rows_of(seed: int, count: int = 160) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "ts": at(i + chance.randint(-6, 6)),
            "type": chance.choice(["Fail", "Fail", "Fail", "Login", "Other", "failing"]),
            "user": chance.choice(["x", "x", "y", None]),
            "host": chance.choice(["a", "b"]),
            "n": chance.choice([None, *range(5)]),
        }
        for i in range(count)
    ]


def match_locally(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = PATTERNS.match(ps.events(pa.Table.from_pylist(rows, EVENTS)))
    return sorted((m.pattern, m.match_id, m.kind) for m in found)


def test_batch_equals_local_matches(spark: SparkSession) -> None:
    rows = rows_of(1)
    expected = match_locally(rows)
    assert {pattern for pattern, _, _ in expected} == {pattern.name for pattern in PATTERNS.plan().patterns}
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, EVENTS))
    found = PATTERNS.match(ps.events(frame)).toArrow().to_pylist()
    assert ids(found) == expected
    by_id = {row["match_id"]: row for row in found}
    assert all(by_id[row["why"]]["pattern"] == "failing" for row in found if row["pattern"] == "taken")
    assert all(row["times"] == 3 for row in found if row["pattern"] in ("failing", "taken"))


@pytest.mark.parametrize("seed", [2, 3])
def test_stream_equals_local_matches(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """The same matches for any time of the watermark; a downstream pattern waits for its input patterns."""
    rows = rows_of(seed)
    streams = Streams(spark, tmp_path)
    last = {"ts": at(FAR), "type": "Other", "user": None, "host": None, "n": None}
    cuts = [rows[:60], rows[60:110], rows[110:], [last]]
    frame = streams.stream(EVENTS, *cuts, delay="13 seconds")
    run = streams.run(PATTERNS.match(ps.events(frame, options=ps.StreamOptions(shards=2))))
    assert ids(run.rows) == match_locally([*rows, last])
    # The last row counts once in each of five links, and twice for a link with two keys.
    assert run.batches[-1]["retained_events"] <= 6


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows_of(4, 8), EVENTS))


FIRST = "pattern p match Fail a -> Login b within 1 minute partition by user return a.n as first\n"


@pytest.mark.parametrize(
    ("text", "kind", "words", "hint"),
    [
        ("pattern p match Fail a partition by user return a.host as host\npattern q match p x -> p y within 1 hour "
         "partition by host", UnsupportedError,
         "across keys: q is partitioned by host, p by user", "Use two queries"),
        (FIRST + "pattern q match p x -> p y within 1 hour", UnsupportedError, "by nothing, p by user", "time='end'"),
        ("pattern p match Fail a partition by user return upper(a.user) as user\n"
         "pattern q match p x partition by user", UnsupportedError, "returns 'user', which is also the name of its key", "user_of_p"),
        ("pattern p match Fail a partition by user return a.host as n\npattern q match p x partition by user return x.n as m",
         TypeMismatchError, "Column 'n' has type string in matches of p, but", "n_of_p"),
        (FIRST + "pattern q match p x -> Fail f within 1 hour partition by user return evidence", UnsupportedError,
         "consumes matches of p and returns evidence", "Return the columns that you need"),
        (FIRST + "pattern q match p x [frist > 1] partition by user", UnknownNameError, "Column .frist. not found in p", "first"),
        (FIRST + "pattern q match p x partition by user\npattern r match Fail x [first > 1] partition by user",
         UnknownNameError, "Column 'first' not found", "Available"),
    ],
)  # fmt: skip
def test_unsupported_compositions_are_rejected(
    frame: DataFrame, text: str, kind: type[PerseidError], words: str, hint: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        ps.patterns(text).match(ps.events(frame))
    assert hint in str(caught.value)


def test_explain_shows_composed_patterns(frame: DataFrame) -> None:
    told = " ".join(PATTERNS.explain(ps.events(frame)).split())
    assert "matches of failing; in the same query, on the shard of the key" in told
