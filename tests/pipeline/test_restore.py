"""A checkpoint restored from an older copy, with PostgreSQL and Delta as sinks: no match is lost or duplicated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import perseid as ps
from bench.servers.postgres import Postgres as Server
from perseid.jobs.job_plan import JobError
from perseid.sinks.delta import Delta
from perseid.sinks.postgres import Postgres
from tests.jobs.restoring import Named, Restoring

pytestmark = [pytest.mark.servers, pytest.mark.timeout(1200)]


@pytest.fixture
def database(postgres: Server) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres.url, autocommit=True) as made:
        yield made
        made.execute("drop schema public cascade")
        made.execute("create schema public")


def postgres_matches(database: psycopg.Connection[Any], table: str) -> Counter[Named]:
    rows = database.execute(f"select pattern, kind, match_id from {table}").fetchall()  # type: ignore[arg-type]
    return Counter((pattern, kind, name) for pattern, kind, name in rows)


def delta_matches(spark: SparkSession, path: str) -> Counter[Named]:
    rows = spark.read.format("delta").load(path).select("pattern", "kind", "match_id").collect()
    return Counter((row.pattern, row.kind, row.match_id) for row in rows)


def test_postgres_and_delta_have_every_match_once_after_a_restore(
    spark: SparkSession, postgres: Server, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    table = str(tmp_path / "delta")
    made = Restoring(spark, tmp_path, [Postgres(url=postgres.url, table="t"), Delta(path=table)])
    made.play()
    made.run(files_per_batch=3)
    expected = made.expected()
    assert len(expected) > 20
    assert postgres_matches(database, "t") == expected
    assert delta_matches(spark, table) == expected
    made.restore()
    made.sinks = [sink.model_copy() for sink in made.sinks]  # as in a new process
    made.run(files_per_batch=5)
    assert postgres_matches(database, "t") == expected, "the copy is restored once more"
    assert delta_matches(spark, table) == expected, "the copy is restored once more"


def test_changes_in_postgres_are_replaced_after_a_restore(
    spark: SparkSession, postgres: Server, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    made = Restoring(spark, tmp_path, [Postgres(url=postgres.url, table="t")], disorder="aggressive")
    made.arrive(6)
    made.run(6)
    made.save()
    made.arrive(3)
    made.run(1)
    made.restore()
    made.arrive_with_retraction()
    made.close()
    made.run(files_per_batch=2)
    rows = database.execute("select pattern, kind, match_id, revision, op from t").fetchall()
    assert {op for *_, op in rows} == {"+", "-"}, "some matches are retracted"
    last = {tuple(key): op for *key, revision, op in sorted(rows, key=lambda row: row[3])}
    assert Counter(key for key, op in last.items() if op == "+") == made.expected()


@pytest.mark.parametrize("changes", ["append", "fold"])
def test_delta_table_of_changes_has_to_be_restored_too(spark: SparkSession, tmp_path: Path, changes: str) -> None:
    table = str(tmp_path / "delta")
    sink = Delta.model_validate({"path": table, "changes": changes})
    made = Restoring(spark, tmp_path, [sink], disorder="aggressive")
    made.play()
    with pytest.raises(
        JobError, match=r"restored from an older copy(.|\n)*RESTORE TABLE delta\.`.*` TO VERSION AS OF \d+"
    ) as caught:
        made.run(files_per_batch=5)
    remedy = str(caught.value).partition("start the job again: ")[2].partition(";")[0]
    spark.sql(remedy)
    made.run(files_per_batch=5)
    rows = spark.read.format("delta").load(table)
    stand = ps.disorder.current_matches(rows) if changes == "append" else rows
    found = Counter((row.pattern, row.kind, row.match_id) for row in stand.collect())
    assert found == made.expected()


def test_ledger_of_an_earlier_version_gets_digests(
    spark: SparkSession, postgres: Server, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    made = Restoring(spark, tmp_path, [Postgres(url=postgres.url, table="t")])
    made.arrive(5)
    made.run(5)
    database.execute("alter table t_ledger drop column digest")
    made.close()
    made.run(1)
    assert postgres_matches(database, "t") == made.expected()
    digests = database.execute("select digest is null from t_ledger order by batch").fetchall()
    assert {known for (known,) in digests} == {True, False}
