"""Rules from a table of a real PostgreSQL server."""

from __future__ import annotations

import psycopg
import pytest

from bench.servers.postgres import Postgres
from perseid.errors import SettingsError
from perseid.jobs.rule_tables import PostgresTable

pytestmark = pytest.mark.servers


def test_rules_are_read_from_a_postgres_table(postgres: Postgres) -> None:
    table = PostgresTable(url=postgres.url, table="policies.rules", every="0 seconds")
    with pytest.raises(
        SettingsError, match=r'policies\.rules cannot be read: relation "policies\.rules" does not exist'
    ):
        table.texts()
    with psycopg.connect(postgres.url, autocommit=True) as database:
        database.execute("create schema policies")
        database.execute("create table policies.rules (name text primary key, text text)")
        with pytest.raises(SettingsError, match="has no rows"):
            table.texts()
        database.execute(
            "insert into policies.rules values ('a', 'pattern a match A a'), ('b', 'pattern b\nmatch B b')"
        )
        assert sorted(table.texts().values()) == ["pattern a match A a", "pattern b\nmatch B b"]
        patient = PostgresTable(url=postgres.url, table="policies.rules")
        assert len(patient.texts()) == 2
        database.execute("delete from policies.rules where name = 'b'")
        assert list(table.texts().values()) == ["pattern a match A a"]
        assert len(patient.texts()) == 2  # polled every five seconds
    gone = PostgresTable(host="127.0.0.1", port=1, table="rules")
    with pytest.raises(SettingsError, match="cannot be read: connection failed"):
        gone.texts()
