"""Rules that stand in a table: a row for each, with its name and its text; read again while a job runs."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field, PrivateAttr

from perseid.declare import micros_of
from perseid.errors import EventDataError
from perseid.jobs.choices import ByKey
from perseid.local.files import read_table
from perseid.settings import Duration, Settings, SettingsError
from perseid.sinks.failures import words
from perseid.sinks.postgres_server import PostgresServer, secrets_of

MOST = 10_000
"""Rows that a table of rules may have."""


class RuleTable(Settings):
    """A table with a rule in every row."""

    name: str = "name"
    """The column with what a rule is called: unique, and told where the rule is refused."""
    text: str = "text"
    """The column with its text: one pattern, or several."""

    @abstractmethod
    def told(self) -> str:
        """Which table it is, in a few words and without secrets."""

    @abstractmethod
    def rows(self) -> Iterable[tuple[object, object]]:
        """Names and texts, as they are now."""

    def texts(self) -> dict[str, str]:
        """The texts of all rules by table and name; a table in which a row is no rule is refused whole."""
        found: dict[str, str] = {}
        for name, text in self.rows():
            if not isinstance(name, str) or not name.strip():
                raise SettingsError(
                    f"patterns: {self.told()}: a row has no {self.name!r}.", hint="Give every rule one."
                )
            if not isinstance(text, str) or not text.strip():
                raise SettingsError(
                    f"patterns: {self.told()}: rule {name!r} has no {self.text!r}.", hint="Remove the row, or write it."
                )
            if (place := f"{self.told()}: {name}") in found:
                raise SettingsError(f"patterns: {self.told()}: rule {name!r} stands there twice.")
            found[place] = text
        if not found:
            raise SettingsError(f"patterns: {self.told()} has no rows.")
        return found


class FileTable(RuleTable):
    """A file of rows."""

    path: Path
    """CSV with a header, JSON lines, or Parquet."""

    def told(self) -> str:
        return f"table {self.path}"

    def rows(self) -> Iterable[tuple[object, object]]:
        try:
            columns, rows = read_table(self.path)
        except EventDataError as error:
            raise SettingsError(f"patterns: {self.told()}: {error.message}", hint=error.hint) from None
        for column in (self.name, self.text):
            if column not in columns:
                raise SettingsError(
                    f"patterns: {self.told()} has no column {column!r}.", hint=f"It has: {', '.join(columns)}."
                )
        at = columns.index(self.name), columns.index(self.text)
        return [(row[at[0]], row[at[1]]) for row in rows]


class PostgresTable(RuleTable, PostgresServer):
    """A table of PostgreSQL, asked every few seconds."""

    table: str = Field(min_length=1, examples=["rules"])
    """The table, or a view, as ``rules`` or ``ops.rules``."""
    every: Duration = "5 seconds"
    """How often it is asked."""
    _seen: tuple[float, list[tuple[object, object]] | SettingsError] | None = PrivateAttr(default=None)
    """When it was last asked, and what it said: a server that is gone is not asked more often than one that is there."""

    def told(self) -> str:
        return f"postgres {self.place()} {self.table}"

    def rows(self) -> Iterable[tuple[object, object]]:
        wait = (micros_of(self.every, "every") or 0) / 1e6
        if self._seen is None or time.monotonic() - self._seen[0] >= wait:
            self._seen = time.monotonic(), self._asked()
        if isinstance(self._seen[1], SettingsError):
            raise self._seen[1]
        return self._seen[1]

    def _asked(self) -> list[tuple[object, object]] | SettingsError:
        import psycopg
        from psycopg import sql

        reached = self.reached()
        query = sql.SQL("select {}, {} from {} limit {}").format(
            sql.Identifier(self.name), sql.Identifier(self.text), sql.Identifier(*self.table.split(".")), MOST + 1
        )
        try:
            with psycopg.connect(**reached) as database:
                database.execute("set statement_timeout = '10s'")
                rows = database.execute(query).fetchall()
        except psycopg.Error as error:
            return SettingsError(f"patterns: {self.told()} cannot be read: {words(error, secrets_of(reached))}")
        if len(rows) > MOST:
            return SettingsError(f"patterns: {self.told()} has more than {MOST:,} rows.")
        return rows


TABLES: dict[str, type[Settings]] = {"file": FileTable, "postgres": PostgresTable}
"""Where tables of rules are, by the word that names it."""


class Table(Settings):
    """Rules from a table."""

    table: Annotated[RuleTable, ByKey(lambda: TABLES, "table")]
    """The table: ``{file: {path: rules.csv}}`` or ``{postgres: {url: …, table: rules}}``."""
