"""Rows for PostgreSQL: the columns of the table, all others as JSON, and the task that copies them to staging."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark.sql import types as t

from perseid.runtime.changelog import OP, REVISION
from perseid.sinks.rows import KIND, MATCH_ID, PATTERN, VERSION, identity_of, json_of
from perseid.sinks.transience import LOST_CONNECTION, is_lost_database
from perseid.spark.inputs import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.types import StructField

    from perseid.sinks.postgres_server import Reached

COLUMNS = ("match_id", "revision", "op", "pattern", "kind", "version", "start", "end", "data")
Staged: TypeAlias = tuple[str, int, str | None, str, str, str | None, int | None, int | None, str]
"""A row of these columns as Spark returns it: moments as microseconds, data as JSON."""
INSTEAD = "�"
"""Replacement of the character with code 0, which PostgreSQL does not store."""
_ZERO = re.compile(r"(?<!\\)((?:\\\\)*+)\\u0000")
"""The escape of it in JSON, which an even number of backslashes precedes; an odd number would escape its backslash."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLACES = {
    MATCH_ID: "string", PATTERN: "string", KIND: "string", VERSION: "string", OP: "string", REVISION: "number",
    "start": "timestamp", "end": "timestamp",
}  # fmt: skip
"""Columns of matches that are columns of the table, and the type that they must have."""


class StagingError(Exception):
    """An error that the server reported to a task, without the data that was sent."""


def staged_rows(rows: DataFrame) -> DataFrame:
    """Rows with the columns of the table; moments as microseconds."""

    def fits(field: StructField) -> bool:
        kind = field.dataType
        match _PLACES.get(field.name):
            case "number":
                return isinstance(kind, t.IntegralType)
            case "timestamp":
                return isinstance(kind, t.TimestampType)
            case "string":
                return isinstance(kind, t.StringType)
        return False

    placed = {field.name for field in rows.schema if fits(field)}

    def text(name: str, otherwise: str = "null") -> str:
        found = f"make_valid_utf8({quoted(name)})" if name in placed else "cast(null as string)"
        return f"coalesce({found}, {otherwise})"

    def moment(name: str) -> str:
        return f"unix_micros({quoted(name)})" if name in placed else "cast(null as bigint)"

    expressions = {
        "match_id": f"make_valid_utf8({identity_of(rows)})",
        "revision": f"coalesce(cast({quoted(REVISION)} as bigint), 0L)" if REVISION in placed else "0L",
        "op": text(OP) if OP in placed else "'+'",
        "pattern": text(PATTERN, "''"),
        "kind": text(KIND, "''"),
        "version": text(VERSION),
        "start": moment("start"),
        "end": moment("end"),
        "data": json_of(rows, leaving_out=placed),
    }
    return rows.selectExpr(*(f"{expressions[name]} as {quoted(name)}" for name in COLUMNS))


def copied(
    reached: Reached, copy: tuple[str, tuple[object, ...]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task: copy its rows in one transaction under a unique name, and return their number."""
    statement, before = copy

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import psycopg

        task, rows = uuid.uuid4().hex, 0
        full = (batch for batch in batches if batch.num_rows)
        first = next(full, None)
        if first is None:
            return
        try:
            # A connection pooler may not separate the prepared statements of sessions.
            with (
                psycopg.connect(**reached, prepare_threshold=None) as database,
                database.cursor() as cursor,
                cursor.copy(statement) as out,
            ):
                for batch in _chain(first, full):
                    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        out.write_row((*before, task, *stored(row)))
                        rows += 1
        except (psycopg.Error, OverflowError) as error:
            prefix = f"{LOST_CONNECTION}: " if is_lost_database(error) else ""
            raise StagingError(prefix + server_message(error)) from None
        yield pa.RecordBatch.from_pydict({"task": [task], "rows": [rows]})

    return stage


def server_message(error: Exception) -> str:
    """The server's message in one line."""
    diagnosis = getattr(error, "diag", None)
    message = getattr(diagnosis, "message_primary", None) or str(error)
    return " ".join(message.split())


def stored(row: Staged) -> list[object]:
    """Convert a row to PostgreSQL's types, in the order of the columns."""
    match_id, revision, op, pattern, kind, version, start, end, data = row
    texts = [None if text is None else text.replace("\0", INSTEAD) for text in (match_id, op, pattern, kind, version)]
    data = _ZERO.sub(lambda match: match[1] + INSTEAD, data) if "\\u0000" in data else data
    moments = [None if at is None else _EPOCH + timedelta(microseconds=at) for at in (start, end)]
    return [texts[0], revision, *texts[1:], *moments, data]


def counted(rows: Iterable[Row]) -> dict[str, int]:
    """The number of rows of each completed task."""
    return {row["task"]: row["rows"] for row in rows}


def _chain(first: pa.RecordBatch, remaining: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from remaining
