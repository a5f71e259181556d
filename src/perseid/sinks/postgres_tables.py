"""The three tables of a PostgreSQL sink, and the statements that create, fill, merge and clean them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perseid.errors import PerseidError, SettingsError
from perseid.sinks.contract import Batch
from perseid.sinks.staging import COLUMNS

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow
    from psycopg.sql import Composable, Composed

RETAINED_BATCHES = 10_000
"""Batches of a job that the ledger retains; Spark retries only the last one."""
STALE = "1 day"
"""Age after which staging rows of a job that was not resumed are removed."""
NAMED = ("pattern", "kind", "match_id", "revision")
"""The columns that identify a row."""
_TYPES = {
    "match_id": "text not null",
    "revision": "bigint not null",
    "op": "text",
    "pattern": "text not null",
    "kind": "text not null",
    "version": "text",
    "start": "timestamptz",
    "end": "timestamptz",
    "data": "jsonb not null",
}
_ONE_AT_A_TIME = 0x7065727365696400 & 0x7FFFFFFFFFFFFFFF
"""The advisory lock for creating tables: PostgreSQL fails if two sessions create one at once."""


class LostStagingError(PerseidError):
    """The server restarted while a batch was copied, and has emptied its staging table; the batch is copied anew."""

    code = "lost-staging"

    transient = True


class SinkTables:
    """The names of the tables, and statements with them."""

    def __init__(self, table: str) -> None:
        from psycopg import sql

        *schema, name = table.split(".")
        self.target = sql.Identifier(*schema, name)
        self.staging = sql.Identifier(*schema, f"{name}_staging")
        self.ledger = sql.Identifier(*schema, f"{name}_ledger")

    def _compose(self, text: str, **parts: Composable) -> Composed:
        from psycopg import sql

        columns = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
        named = sql.SQL(", ").join(map(sql.Identifier, NAMED))
        # The texts are constants of this module, and names in them are quoted.
        statement = sql.SQL(text)
        return statement.format(
            target=self.target, staging=self.staging, ledger=self.ledger, columns=columns, named=named, **parts
        )

    def prepare(self, database: Connection[TupleRow], job: str) -> None:
        """Create missing tables, validate existing ones, and remove staging rows of this job."""
        from psycopg import errors, sql

        with database.transaction():
            database.execute("select pg_advisory_xact_lock(%s)", (_ONE_AT_A_TIME,))
            columns = sql.SQL(", ").join(
                sql.SQL("{} " + kind).format(sql.Identifier(name)) for name, kind in _TYPES.items()
            )
            for table, statement in (
                (
                    self.target,
                    "create table {target} ({types}, job text not null, batch bigint not null, "
                    "written timestamptz not null default now(), primary key ({named}))",
                ),
                (
                    self.staging,
                    "create unlogged table {staging} (job text, batch bigint, attempt text, task text, "
                    "copied timestamptz default now(), {types})",
                ),
                (
                    self.ledger,
                    "create table {ledger} (job text, batch bigint, attempt text not null, rows bigint not null, "
                    "written timestamptz not null default now(), digest text, primary key (job, batch))",
                ),
            ):
                found = database.execute("select to_regclass(%s)", (table.as_string(database),)).fetchone()
                if found is None or found[0] is None:
                    database.execute(self._compose(statement, types=columns))
            self._add_digests(database)
        try:
            with database.transaction():
                database.execute(self._compose("explain " + _MERGE), _empty_row())
                database.execute(self._compose("explain " + _ENTER), (job, 0, "", 0, None))
        except (
            errors.UndefinedColumn,
            errors.InvalidColumnReference,
            errors.DatatypeMismatch,
            errors.WrongObjectType,
        ) as error:
            raise SettingsError(
                f"The sink cannot write to the existing table: {error.diag.message_primary}",
                hint="Use another table name, and the sink creates the table; or add the columns and the primary key "
                "that docs/guides/sinks.md lists.",
            ) from None
        with database.transaction():
            database.execute(
                self._compose("delete from {staging} where job = %s or copied < now() - %s::interval"), (job, STALE)
            )

    def _add_digests(self, database: Connection[TupleRow]) -> None:
        """Add the column of digests to a ledger of an earlier version; raise without the privilege to do so."""
        from psycopg import errors

        found = database.execute(
            "select 1 from pg_attribute where attrelid = to_regclass(%s) and attname = 'digest' and not attisdropped",
            (self.ledger.as_string(database),),
        )
        if found.fetchone() is not None:
            return
        statement = self._compose("alter table {ledger} add column digest text")
        try:
            with database.transaction():
                database.execute(statement)
        except errors.InsufficientPrivilege as error:
            raise SettingsError(
                f"Column 'digest' not found in the ledger table and cannot be added: {error.diag.message_primary}",
                hint=f"Run as the owner of the table: {statement.as_string(database)};",
            ) from None

    def commits(self, database: Connection[TupleRow], job: str, since: int) -> dict[int, str | None]:
        """The batches of a job in the ledger, from ``since`` on, with the digests of their offsets."""
        found = database.execute(
            self._compose("select batch, digest from {ledger} where job = %s and batch >= %s"), (job, since)
        )
        return dict(found.fetchall())

    def has(self, database: Connection[TupleRow], batch: Batch) -> bool:
        """True if the ledger has a batch with the same offsets; the number alone is not enough."""
        recorded = self._recorded(database, batch)
        return bool(recorded) and batch.is_recorded_as(recorded[0])

    def _recorded(self, database: Connection[TupleRow], batch: Batch) -> tuple[str | None, ...]:
        found = database.execute(
            self._compose("select digest from {ledger} where job = %s and batch = %s"), (batch.job, batch.number)
        )
        return found.fetchone() or ()

    def rewind(self, database: Connection[TupleRow], job: str, batch: int) -> None:
        """Make the ledger accept batches from ``batch`` on anew.

        Rows stay: a repeated match updates its own. Only changes are removed, since revisions are numbered anew.
        """
        with database.transaction():
            for statement in (
                "delete from {target} where job = %s and batch >= %s and revision > 0",
                "delete from {ledger} where job = %s and batch >= %s",
            ):
                database.execute(self._compose(statement), (job, batch))

    def copying(self, job: str, number: int, attempt: str) -> tuple[str, tuple[object, ...]]:
        """The statement with which a task copies, and the values before each of its rows."""
        return self._compose("copy {staging} (job, batch, attempt, task, {columns}) from stdin").as_string(None), (
            job, number, attempt,
        )  # fmt: skip

    def merge(self, database: Connection[TupleRow], batch: Batch, done: Mapping[str, int]) -> None:
        """Merge a batch and add its line to the ledger, in one transaction."""
        copied = (batch.job, batch.number, batch.attempt, list(done))
        with database.transaction():
            recorded = self._recorded(database, batch)
            if recorded and not batch.is_recorded_as(recorded[0]):
                self.rewind(database, batch.job, batch.number)
            line = (batch.job, batch.number, batch.attempt, sum(done.values()), batch.digest)
            entered = database.execute(self._compose(_ENTER), line)
            if entered.rowcount == 1:
                staged = database.execute(self._compose(_COUNT), copied).fetchone()
                if staged is None or staged[0] != sum(done.values()):
                    # The staging table is unlogged: a server that crashed has emptied it.
                    raise LostStagingError("the staging table no longer has all copied rows")
                database.execute(self._compose(_MERGE), (batch.job, batch.number, *copied))
            database.execute(
                self._compose("delete from {staging} where job = %s and batch <= %s"), (batch.job, batch.number)
            )
            database.execute(
                self._compose("delete from {ledger} where job = %s and batch < %s"),
                (batch.job, batch.number - RETAINED_BATCHES),
            )


_ENTER = """
insert into {ledger} (job, batch, attempt, rows, digest) values (%s, %s, %s, %s, %s) on conflict (job, batch) do nothing
"""
_COUNT = "select count(*) from {staging} where job = %s and batch = %s and attempt = %s and task = any(%s)"
_MERGE = """
insert into {target} ({columns}, job, batch)
select distinct on ({named}) {columns}, %s::text, %s::bigint
from {staging} where job = %s and batch = %s and attempt = %s and task = any(%s) order by {named}
on conflict ({named}) do update set (op, version, start, "end", data, job, batch, written) =
(excluded.op, excluded.version, excluded.start, excluded."end", excluded.data, excluded.job, excluded.batch, excluded.written)
"""


def _empty_row() -> tuple[object, ...]:
    return ("", 0, "", 0, "", [""])
