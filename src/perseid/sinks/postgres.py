"""Write matches to PostgreSQL: executors copy them to a staging table, the driver merges a batch in a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import field_validator

from perseid.sinks.contract import Batch, PlannedBatches, Sink
from perseid.sinks.failures import failing
from perseid.sinks.postgres_server import PostgresServer, secrets_of
from perseid.sinks.postgres_tables import RETAINED_BATCHES, SinkTables
from perseid.sinks.staging import copied, counted, staged_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

LONGEST_NAME = 63
"""Maximum bytes of a name; PostgreSQL truncates longer names, and two of them may become one."""


class Postgres(PostgresServer, Sink):
    """A table with one row for each (pattern, kind, match_id, revision); it is created if it does not exist.

    The sink has two more tables: batches pass through ``…_staging``, and ``…_ledger`` records the batches that were
    written. Key and returned columns are in ``data``, as JSON.
    """

    guarantee: ClassVar[str] = (
        "Exactly once: a batch and its entry in the ledger table are written in one transaction, and a row is "
        "identified by (pattern, kind, match_id, revision), so retries and reordered writes do not change the result."
    )

    table: str
    """The table, such as ``alarms`` or ``ops.alarms``; names are case-sensitive."""

    @field_validator("table")
    @classmethod
    def _named(cls, table: str) -> str:
        parts = table.split(".")
        if len(parts) > 2 or not all(part.strip() and part.isprintable() for part in parts):
            raise ValueError("expected a table as name or schema.name")
        if any(len(part.encode()) > LONGEST_NAME - len("_standing") for part in parts):
            raise ValueError(
                f"expected a name of at most {LONGEST_NAME - len('_standing')} bytes; names of further tables extend it"
            )
        return table

    def describe(self) -> str:
        return f"postgres {self.place()} {self.table}"

    def prepare(self, session: SparkSession, schema: StructType, job: str) -> None:
        import psycopg

        reached = self.reached()
        with failing(self.describe(), None, secrets_of(reached)), psycopg.connect(**reached) as database:
            SinkTables(self.table).prepare(database, job)

    def resume(self, session: SparkSession, job: str, planned: PlannedBatches) -> str | None:
        import psycopg

        reached, tables = self.reached(), SinkTables(self.table)
        with failing(self.describe(), None, secrets_of(reached)), psycopg.connect(**reached) as database:
            first = planned.first_replaced(tables.commits(database, job, planned.oldest))
            if first is None:
                return None
            tables.rewind(database, job, first)
        return f"batches from {first} on are written again; existing rows are updated"

    def write(self, batch: Batch) -> None:
        import psycopg

        reached, tables = self.reached(), SinkTables(self.table)
        with failing(self.describe(), batch, secrets_of(reached)):
            with psycopg.connect(**reached) as database:
                if tables.has(database, batch):
                    return
            copy = tables.copying(batch.job, batch.number, batch.attempt)
            # Only rows of tasks that report success count: failed tasks have copied rows too.
            done = counted(
                staged_rows(batch.rows).mapInArrow(copied(reached, copy), "task string, rows long").collect()
            )
            with psycopg.connect(**reached) as database:
                tables.merge(database, batch, done)


__all__ = ["RETAINED_BATCHES", "Postgres"]
