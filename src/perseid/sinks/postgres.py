"""Answers in a table of PostgreSQL: executors copy them beside it, and the driver merges each batch in one transaction."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator

from perseid.errors import MissingExtraError
from perseid.settings import Secret
from perseid.sinks.contract import Batch, Sink
from perseid.sinks.failures import failing
from perseid.sinks.postgres_tables import KEPT, Tables
from perseid.sinks.staging import copied, counted, staged_rows

LONGEST_NAME = 63
"""Bytes of a name; what is longer PostgreSQL cuts, and two names may become one."""
PATIENCE = 10
"""Seconds to connect, unless the url says otherwise."""


class Postgres(Sink):
    """A table with one row for each (pattern, kind, match_id, revision); it is created where there is none.

    Two more stand beside it: ``…_staging``, through which batches come, and ``…_ledger``, which says which batches are in. Key and
    returned columns are in ``data``, as JSON.
    """

    guarantee: ClassVar[str] = (
        "Exactly once: a batch and its line in the ledger are written in one transaction, and a row is known by "
        "(pattern, kind, match_id, revision), so that neither what comes again nor what comes out of order changes anything."
    )

    url: str | None = None
    """``postgresql://user@host:port/database?sslmode=…``, without a password; or say host, port, database and user."""
    host: str | None = None
    """The server's name or address."""
    port: int | None = Field(default=None, ge=1, le=65_535)
    """The server's port, 5432 unless said."""
    database: str | None = None
    """The database."""
    user: str | None = None
    """Who writes."""
    password: Secret | None = None
    """Where the password is: ``{env: NAME}`` or ``{file: PATH}``."""
    table: str
    """The table, as ``alarms`` or ``ops.alarms``; names are taken as they are written, capitals too."""

    @field_validator("url")
    @classmethod
    def _no_password(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not url.startswith(("postgresql://", "postgres://")):
            raise ValueError("the url has to begin with postgresql://")
        parts = _parts(url)
        if any(name in parts for name in ("password", "sslpassword")):
            raise ValueError("a password does not stand in the url; write password: {env: NAME} or {file: PATH}")
        return url

    @field_validator("table")
    @classmethod
    def _named(cls, table: str) -> str:
        parts = table.split(".")
        if len(parts) > 2 or not all(part.strip() and part.isprintable() for part in parts):
            raise ValueError("a table is called name or schema.name")
        if any(len(part.encode()) > LONGEST_NAME - len("_standing") for part in parts):
            raise ValueError(
                f"a table's name has at most {LONGEST_NAME - len('_standing')} bytes, since others are made of it"
            )
        return table

    @model_validator(mode="after")
    def _one_address(self) -> Postgres:
        if (self.url is None) == (self.host is None):
            raise ValueError("say url or host, one of them")
        if self.url is not None and (self.port or self.database or self.user):
            raise ValueError("port, database and user stand in the url, or beside host")
        return self

    def told(self) -> str:
        parts = self._address()
        port, database = parts.get("port", 5432), parts.get("dbname", "")
        return f"postgres {parts.get('host', '')}:{port}/{database} {self.table}"

    def _address(self) -> dict[str, Any]:
        if self.url is not None:
            return _parts(self.url)
        said = {"host": self.host, "port": self.port, "dbname": self.database, "user": self.user}
        return {name: value for name, value in said.items() if value is not None}

    def _reached(self) -> dict[str, Any]:
        """How to connect, with the password."""
        secret = {} if self.password is None else {"password": self.password.reveal()}
        return {"connect_timeout": PATIENCE, "application_name": "perseid", **self._address(), **secret}

    def prepare(self, session: Any, schema: Any, job: str) -> None:
        import psycopg

        reached = self._reached()
        with failing(self.told(), None, _secrets(reached)), psycopg.connect(**reached) as database:
            Tables(self.table).prepare(database, job)

    def write(self, batch: Batch) -> None:
        import psycopg

        reached, tables = self._reached(), Tables(self.table)
        with failing(self.told(), batch, _secrets(reached)):
            with psycopg.connect(**reached) as database:
                if tables.has(database, batch.job, batch.number):
                    return
            copy = tables.copying(batch.job, batch.number, batch.attempt)
            # Only what tasks say they have written counts: those that died half-way have written something too.
            done = counted(
                staged_rows(batch.rows).mapInArrow(copied(reached, copy), "task string, rows long").collect()
            )
            with psycopg.connect(**reached) as database:
                tables.merge(database, batch, done)


def _parts(url: str) -> dict[str, Any]:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:  # pragma: no cover - the extra brings it
        raise MissingExtraError("The sink postgres needs psycopg.", hint="pip install 'perseid[jobs]'") from None
    try:
        return dict(conninfo_to_dict(url))
    except ProgrammingError:  # what it says may hold what should not be told
        raise ValueError("the url is no address of a PostgreSQL server") from None


def _secrets(reached: dict[str, Any]) -> list[str]:
    return [reached["password"]] if "password" in reached else []


__all__ = ["KEPT", "Postgres"]
