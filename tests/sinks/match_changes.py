"""Matches in the schema of ``match``, with values of every type."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from perseid.sinks.contract import Batch

ADVERSARIAL_TEXTS = [
    "a\0b",
    "back\\\\u0000slash\\\0",
    "'); drop table answers; --",
    '"quoted",\n\t\\N\\.',
    "\x1b[2J\x07",
    "[bold]{not} %s markup",
    "𝄞 ünï\u202ecode",
    "",
    "x" * 300_000,
]
"""Texts that a component could misinterpret."""

Change = tuple[str, str, int, str]
"""A match_id, an op, a revision and a text."""


def match_changes(spark: SparkSession, *changes: Change) -> DataFrame:
    rows = spark.createDataFrame(list(changes), "match_id string, op string, revision int, note string")
    return rows.selectExpr(
        "'late' as pattern",
        "match_id",
        "'match' as kind",
        "op",
        "revision",
        "timestamp'2026-03-01 09:00:00.000001' as start",
        "timestamp'2026-03-01 09:05:00' as end",
        "note",
        "cast('12345678901234567890.12' as decimal(38, 2)) as amount",
        "double('nan') as odd",
        "array(named_struct('at', timestamp'2026-03-01 09:00:00', 'took', interval '90' second, 'none', null)) as evidence",
        "map('k', 1) as counts",
        "interval '1' hour as gap",
        "null as nothing",
        "X'00ff' as bytes",
        "'v1' as version",
    )


def matches(spark: SparkSession, *ids: str) -> DataFrame:
    return match_changes(spark, *((name, "+", 0, f"note of {name}") for name in ids))


def batch(rows: DataFrame, number: int = 0, attempt: str = "a", job: str = "job-1") -> Batch:
    return Batch(job=job, number=number, attempt=attempt, rows=rows)


def broken(rows: DataFrame) -> DataFrame:
    """Return the same rows, with a column that raises an error when it is evaluated."""
    out = f.raise_error(f.lit("the power went out"))
    return rows.withColumn("odd", f.when(f.col("note").isNotNull(), out).otherwise(f.col("odd")))
