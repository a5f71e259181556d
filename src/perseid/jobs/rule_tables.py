"""Rules in a table, one row per rule with its name and its text; a running job polls the table."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field, PrivateAttr

from perseid.errors import EventDataError, SettingsError
from perseid.jobs.choices import ByKey
from perseid.semantics.durations import micros_of
from perseid.settings import Duration, Settings
from perseid.sinks.failures import error_summary
from perseid.sinks.postgres_server import PostgresServer, secrets_of
from perseid.tables.files import read_table

MAX_ROWS = 10_000
"""Maximum number of rows."""


class RuleTable(Settings):
    """A table with a rule in every row."""

    name: str = "name"
    """The column with the name of a rule: unique, and shown if the rule is rejected."""
    text: str = "text"
    """The column with the text of a rule: one pattern, or several."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the table in a few words, without secrets."""

    @abstractmethod
    def rows(self) -> Iterable[tuple[object, object]]:
        """Read the current names and texts."""

    def texts(self) -> dict[str, str]:
        """Return the texts of all rules by table and name; raises if a row is not a rule."""
        found: dict[str, str] = {}
        for name, text in self.rows():
            if not isinstance(name, str) or not name.strip():
                raise SettingsError(
                    f"patterns: {self.describe()}: a row has no {self.name!r}.", hint="Add a name to every row."
                )
            if not isinstance(text, str) or not text.strip():
                raise SettingsError(
                    f"patterns: {self.describe()}: rule {name!r} has no {self.text!r}.",
                    hint="Add the text, or remove the row.",
                )
            if (place := f"{self.describe()}: {name}") in found:
                raise SettingsError(f"patterns: {self.describe()}: duplicate rule {name!r}.")
            found[place] = text
        if not found:
            raise SettingsError(f"patterns: {self.describe()} has no rows.")
        return found


class FileTable(RuleTable):
    """A file of rows."""

    path: Path
    """CSV with a header, JSON lines, or Parquet."""

    def describe(self) -> str:
        return f"table {self.path}"

    def rows(self) -> Iterable[tuple[object, object]]:
        try:
            columns, rows = read_table(self.path)
        except EventDataError as error:
            raise SettingsError(
                f"patterns: {self.describe()}: {error.message}", hint=error.hint, nearest=error.nearest
            ) from None
        for column in (self.name, self.text):
            if column not in columns:
                raise SettingsError(
                    f"patterns: column {column!r} not found in {self.describe()}.",
                    hint=f"Available: {', '.join(columns)}.",
                )
        at = columns.index(self.name), columns.index(self.text)
        return [(row[at[0]], row[at[1]]) for row in rows]


class PostgresTable(RuleTable, PostgresServer):
    """A table of PostgreSQL, queried every few seconds."""

    table: str = Field(min_length=1, examples=["rules"])
    """The table, or a view, as ``rules`` or ``ops.rules``."""
    every: Duration = "5 seconds"
    """The interval of queries."""
    _last_query: tuple[float, list[tuple[object, object]] | SettingsError] | None = PrivateAttr(default=None)
    """Time and result of the last query: an unreachable server is not queried more often than others."""

    def describe(self) -> str:
        return f"postgres {self.place()} {self.table}"

    def rows(self) -> Iterable[tuple[object, object]]:
        wait = (micros_of(self.every, "every") or 0) / 1e6
        if self._last_query is None or time.monotonic() - self._last_query[0] >= wait:
            self._last_query = time.monotonic(), self._query()
        if isinstance(self._last_query[1], SettingsError):
            raise self._last_query[1]
        return self._last_query[1]

    def _query(self) -> list[tuple[object, object]] | SettingsError:
        import psycopg
        from psycopg import sql

        reached = self.reached()
        statement = sql.SQL("select {}, {} from {} limit {}").format(
            sql.Identifier(self.name), sql.Identifier(self.text), sql.Identifier(*self.table.split(".")), MAX_ROWS + 1
        )
        try:
            with psycopg.connect(**reached) as database:
                database.execute("set statement_timeout = '10s'")
                rows = database.execute(statement).fetchall()
        except psycopg.Error as error:
            return SettingsError(
                f"patterns: {self.describe()} cannot be read: {error_summary(error, secrets_of(reached))}"
            )
        if len(rows) > MAX_ROWS:
            return SettingsError(f"patterns: {self.describe()} has more than {MAX_ROWS:,} rows.")
        return rows


TABLES: dict[str, type[Settings]] = {"file": FileTable, "postgres": PostgresTable}
"""Kinds of rule tables by the key that chooses them."""


class TablePatterns(Settings):
    """Rules from a table."""

    table: Annotated[RuleTable, ByKey(lambda: TABLES, "table")]
    """The table: ``{file: {path: rules.csv}}`` or ``{postgres: {url: …, table: rules}}``."""
