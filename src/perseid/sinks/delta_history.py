"""Records of a job's batches in the history of a Delta table, and their handling after a restore.

Each commit of a batch has a record in its user metadata. Delta itself stores the number of the last batch of each job,
under the name of a transaction, and skips batches up to it; ``RESTORE TABLE`` does not reset that number. A table
property therefore records how a job writes after its checkpoint, or the table, was restored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from perseid.spark.inputs import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

COMMITS_READ = 1000
"""Number of commits of the table that are read for records, the newest first."""
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
MERGE = "merge"
"""Property value of a job that merges batches, each row once, instead of appending them."""
_RECORD_KEY = "perseid"


@dataclass(frozen=True)
class DeltaCommit:
    """The record of one batch in the history of a table."""

    version: int
    batch: int
    digest: str | None
    is_live: bool
    """True if the rows are still in the table: no later ``RESTORE TABLE`` has undone the commit."""


def record_of(job: str, batch: int, digest: str | None) -> str:
    """The user metadata of a commit."""
    return json.dumps({_RECORD_KEY: {"job": job, "batch": batch, "digest": digest}})


def commits_of(session: SparkSession, table: str, job: str) -> list[DeltaCommit]:
    """The records of a job in the newest commits of a table, the newest first."""
    history = session.sql(f"describe history {table} limit {COMMITS_READ}")
    rows = history.select("version", "operation", "operationParameters", "userMetadata").collect()
    return list(_records(sorted(rows, key=lambda row: -row.version), job))


def _records(rows: Iterable[Row], job: str) -> Iterator[DeltaCommit]:
    undone_above: int | None = None
    for row in rows:
        is_live = undone_above is None or row.version <= undone_above
        if is_live and row.operation == "RESTORE":
            undone_above = _restored_version(row.operationParameters)
        found = _read_record(row.userMetadata)
        if found.get("job") == job and isinstance(found.get("batch"), int):
            yield DeltaCommit(row.version, found["batch"], found.get("digest"), is_live)


def _restored_version(parameters: Mapping[str, object]) -> int | None:
    """The version that a table was restored to; None if a time named it, and then no commit counts as undone."""
    version = str(parameters.get("version") or "").strip('"')
    return int(version) if version.isdecimal() else None


def _read_record(text: str | None) -> dict[str, Any]:
    try:
        metadata = json.loads(text or "null")
    except ValueError:
        return {}
    record = metadata.get(_RECORD_KEY) if isinstance(metadata, dict) else None
    return record if isinstance(record, dict) else {}


def live_digests(commits: Iterable[DeltaCommit], since: int) -> dict[int, str | None]:
    """The digest of each live batch from ``since`` on; of several commits of a number, that of the newest."""
    found: dict[int, str | None] = {}
    for commit in commits:
        if commit.is_live and commit.batch >= since:
            found.setdefault(commit.batch, commit.digest)
    return found


def undone_version(commits: Iterable[DeltaCommit]) -> int | None:
    """The newest version that ``RESTORE TABLE`` undid, if its batch is later than all live ones; None otherwise.

    Delta still stores the number of that batch, and would skip batches up to it.
    """
    newest: dict[bool, tuple[int, int]] = {}
    for commit in commits:
        found = (commit.batch, commit.version)
        newest[commit.is_live] = max(newest.get(commit.is_live, found), found)
    if False not in newest or (True in newest and newest[True][0] >= newest[False][0]):
        return None
    return newest[False][1]


def read_mode(session: SparkSession, table: str, job: str) -> str | None:
    """The write mode of a job after a restore; None for plain appends."""
    (row,) = session.sql(f"describe detail {table}").select("properties").collect()
    value = (row.properties or {}).get(_property(job))
    return None if value is None else str(value)


def write_mode(session: SparkSession, table: str, job: str, mode: str) -> None:
    """Set the write mode of a job; the property remains with the table."""
    session.sql(f"alter table {table} set tblproperties ({_text(_property(job))} = {_text(mode)})")


def _text(value: str) -> str:
    """A string literal for SQL that takes no expression."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _property(job: str) -> str:
    return f"perseid.restored.{job}"


def insert_missing(rows: DataFrame, table: str, keys: Iterable[str], prefix: str) -> None:
    """Insert the rows with keys that the table does not have, in one commit; a retried batch inserts nothing."""
    source_columns = {name: f"{prefix}{i}" for i, name in enumerate(rows.columns)}
    same = " and ".join(f"{quoted(name)} <=> {source_columns[name]}" for name in keys)
    values = {quoted(name): f.col(source_column) for name, source_column in source_columns.items()}
    source = rows.dropDuplicates(list(keys)).toDF(*source_columns.values())
    source.mergeInto(table, f.expr(same)).whenNotMatched().insert(values).merge()
