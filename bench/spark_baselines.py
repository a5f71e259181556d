"""Baselines on Spark without Perseid: the identity pipeline, the limit, and SQL written by hand; and the shared
session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.truth import MatchChecksum
from bench.workload import ABSENCE_MS, PAIR_WINDOW_MS, WINDOW_MS, Query

PARTITIONS_SETTING = "spark.sql.shuffle.partitions"


def partitions() -> int:
    """Shuffle partitions of the session: two per core."""
    return 2 * (os.cpu_count() or 1)


@contextmanager
def session(scratch: Path, more: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A local session on all cores, on 127.0.0.1 only, with ``more`` settings, which is stopped at the end."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("bench")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.local.dir", str(scratch / "spark"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config(PARTITIONS_SETTING, partitions())
    )
    for name, value in (more or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def spark_defaults(spark: SparkSession) -> Iterator[None]:
    """Use Spark's default number of shuffle partitions inside the block."""
    chosen = spark.conf.get(PARTITIONS_SETTING)
    spark.conf.unset(PARTITIONS_SETTING)
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS_SETTING, str(chosen))


def checksum_of(frame: DataFrame, column: str) -> MatchChecksum:
    """Count the rows and add up a column, in one job."""
    row = frame.agg(sf.count(sf.lit(1)), sf.sum(column)).first()
    return MatchChecksum(0, 0) if row is None else MatchChecksum(int(row[0]), int(row[1] or 0))


def identity_pipeline(query: Query, frame: DataFrame, count: int | None) -> DataFrame:
    """Run every event through the identity pipeline: project, shuffle by key, sort in the JVM, identity in Python.

    With ``count`` None, Spark chooses the partitions.
    """

    def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    events = frame.select(*query.columns)
    shuffled = events.repartition("key") if count is None else events.repartition(count, "key")
    return shuffled.sortWithinPartitions("key", "ts", "id").mapInArrow(identity, events.schema)


def run_identity_pipeline(query: Query, frame: DataFrame, count: int | None) -> None:
    """Run the identity pipeline to its end and drop the output."""
    identity_pipeline(query, frame, count).write.format("noop").mode("overwrite").save()


def run_limit(query: Query, frame: DataFrame, count: int) -> MatchChecksum:
    """Only the minimal work of any engine in Python: relevant events projected, shuffled, counted in Python, dropped.

    Returns the number of rows that arrived and the sum of their ids.
    """

    def tally(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as arrow
        from pyarrow import compute

        rows = id_sum = 0
        for batch in batches:
            rows += batch.num_rows
            id_sum += compute.sum(batch.column("id")).as_py() or 0
        yield arrow.RecordBatch.from_pydict({"rows": [rows], "id_sum": [id_sum]})

    wanted = limit_rows(query, frame).repartition(count, "key").mapInArrow(tally, "rows bigint, id_sum bigint")
    row = wanted.agg(sf.sum("rows"), sf.sum("id_sum")).first()
    return MatchChecksum(0, 0) if row is None else MatchChecksum(int(row[0]), int(row[1] or 0))


def limit_rows(query: Query, frame: DataFrame) -> DataFrame:
    """Events that can affect a query with the columns it needs: times as numbers, types as a bit mask."""
    if not query.strict:
        frame = frame.where(sf.col("type").isin(*query.types))
    mask = sf.lit(0)
    for bit, name in enumerate(query.types):
        mask = sf.when(sf.col("type") == name, 1 << bit).otherwise(mask)
    rest = [name for name in query.columns if name not in ("ts", "type")]
    return frame.select(*rest, sf.unix_micros("ts").alias("ts"), mask.alias("mask"))


_WINDOW_US = WINDOW_MS * 1000
_ABSENCE_US = ABSENCE_MS * 1000
_PAIR_US = PAIR_WINDOW_MS * 1000
_EVENTS = "(select id, unix_micros(ts) as ts, key, type, v from plain_events)"
_BY_TIME = "partition by key order by ts"

_Q1N = f"""
with e as (select * from {_EVENTS} where type in ('A', 'B', 'C')),
a as (select * from e where type = 'A'),
b as (select * from e where type = 'B'),
c as (select * from e where type = 'C'),
ab as (
  select a.key, a.id, a.ts, min(b.ts) as b_ts
  from a join b on a.key = b.key and b.ts > a.ts and b.ts < a.ts + {_WINDOW_US} and b.v > a.v
  group by a.key, a.id, a.ts)
select ab.id as aid
from ab left semi join c on ab.key = c.key and c.ts > ab.b_ts and c.ts < ab.ts + {_WINDOW_US}
"""

_Q2 = f"""
select id as aid from (
  select id, ts, type, v, lead(type, 1) over ({_BY_TIME}) as type1, lead(type, 2) over ({_BY_TIME}) as type2,
    lead(v, 1) over ({_BY_TIME}) as v1, lead(ts, 2) over ({_BY_TIME}) as ts2
  from {_EVENTS})
where type = 'A' and type1 = 'B' and type2 = 'C' and v1 > v and ts2 - ts < {_WINDOW_US}
"""

_Q3 = f"""
with numbered as (
  select id, ts, type, key, row_number() over ({_BY_TIME}) as place,
    sum(case when type = 'B' then v else 0D end)
      over ({_BY_TIME} rows between unbounded preceding and current row) as b_sum
  from {_EVENTS}),
paired as (
  select id, ts, type, place, b_sum, lead(type) over ({_BY_TIME}) as type1, lead(ts) over ({_BY_TIME}) as ts1,
    lead(place) over ({_BY_TIME}) as place1, lead(b_sum) over ({_BY_TIME}) as b_sum1
  from numbered where type <> 'B')
select id as aid from paired
where type = 'A' and type1 = 'C' and place1 - place >= 2 and b_sum1 - b_sum > 100 and ts1 - ts < {_WINDOW_US}
"""

_Q4 = f"""
select id as aid from (
  select id, ts, type, max(case when type = 'B' then -ts end)
    over (partition by key order by ts desc rows between unbounded preceding and 1 preceding) as next_b
  from {_EVENTS} where type in ('A', 'B'))
where type = 'A' and (next_b is null or -next_b - ts >= {_ABSENCE_US})
"""

_Q5 = f"""
select id as aid from (
  select id, ts, lead(ts) over ({_BY_TIME}) as ts1
  from (select id, unix_micros(ts) as ts, key from busy_events where type = 'A'))
where ts1 - ts < {_PAIR_US}
"""

SQL: dict[str, str] = {"Q1n": _Q1N, "Q2": _Q2, "Q3": _Q3, "Q4": _Q4, "Q5": _Q5}
"""The fastest forms found; Q1 and Q1w, which skip past each match, have none."""
OTHER_FORMS: dict[str, dict[str, str]] = {"Q4": {"sql_unfiltered": _Q4.replace(" where type in ('A', 'B'))", ")")}}
"""Further forms, reported without targets."""


def run_sql(spark: SparkSession, sql: str) -> MatchChecksum:
    """Run one form of a query."""
    return checksum_of(spark.sql(sql), "aid")
