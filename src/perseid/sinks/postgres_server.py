"""The address of a PostgreSQL server, and the connection to it, without a password in job files and messages."""

from __future__ import annotations

from typing import Any, TypeAlias

from pydantic import Field, field_validator, model_validator

from perseid.errors import MissingExtraError
from perseid.settings import Secret, Settings

PATIENCE = 10
"""Seconds to connect, unless the url sets them."""
Reached: TypeAlias = dict[str, Any]
"""Connection parameters: keywords of ``psycopg.connect``, each of its own type."""


class PostgresServer(Settings):
    """A database."""

    url: str | None = None
    """``postgresql://user@host:port/database?sslmode=…``, without a password; or set host, port, database and user."""
    host: str | None = None
    """The name or address of the server."""
    port: int | None = Field(default=None, ge=1, le=65_535)
    """The port of the server, 5432 by default."""
    database: str | None = None
    """The database."""
    user: str | None = None
    """The name of the database user."""
    password: Secret | None = None
    """The password, as a reference: ``{env: NAME}`` or ``{file: PATH}``."""

    @field_validator("url")
    @classmethod
    def _no_password(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not url.startswith(("postgresql://", "postgres://")):
            raise ValueError("expected a url that begins with postgresql://")
        parts = _parts(url)
        if any(name in parts for name in ("password", "sslpassword")):
            raise ValueError("a password must not be in the url; use password: {env: NAME} or {file: PATH}")
        return url

    @model_validator(mode="after")
    def _one_address(self) -> PostgresServer:
        if (self.url is None) == (self.host is None):
            raise ValueError("expected exactly one of url and host")
        if self.url is not None and (self.port or self.database or self.user):
            raise ValueError("port, database and user need host; with url, put them in the url")
        return self

    def place(self) -> str:
        """The server and the database in a few words, without secrets."""
        parts = self._address()
        return f"{parts.get('host', '')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"

    def _address(self) -> dict[str, str | int | None]:
        if self.url is not None:
            return _parts(self.url)
        parameters = {"host": self.host, "port": self.port, "dbname": self.database, "user": self.user}
        return {name: value for name, value in parameters.items() if value is not None}

    def reached(self) -> Reached:
        """Connection parameters, including the password."""
        secret = {} if self.password is None else {"password": self.password.reveal()}
        return {"connect_timeout": PATIENCE, "application_name": "perseid", **self._address(), **secret}


def _parts(url: str) -> dict[str, str | int | None]:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:  # pragma: no cover - the extra brings it
        raise MissingExtraError("PostgreSQL needs psycopg.", hint="pip install 'perseid[jobs]'") from None
    try:
        return dict(conninfo_to_dict(url))
    except ProgrammingError:  # its message may contain secrets
        raise ValueError("the url is not an address of a PostgreSQL server") from None


def secrets_of(reached: Reached) -> list[str]:
    """The secrets in connection parameters."""
    return [reached["password"]] if "password" in reached else []
