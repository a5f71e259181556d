"""Real servers, and one Spark session with their connectors; skips with the reason if they are not available."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from bench.harness import MissingToolError
from bench.servers.broker import Broker
from bench.servers.jars import SETTINGS, connectors
from bench.servers.postgres import Postgres
from perseid.cli.running import ORIGINS
from perseid.sinks.kafka import V2_KAFKA_SETTINGS
from tests.sessions import CONNECT, session

SPARK = "4.2."
"""Spark version of these jars."""


@pytest.fixture(scope="session")
def jars() -> list[Path]:
    if not pyspark.__version__.startswith(SPARK):
        pytest.skip(f"these connectors are for Spark {SPARK}x, and here is {pyspark.__version__}")
    try:
        return connectors()
    except MissingToolError as error:
        pytest.skip(f"the connectors cannot be had: {error}")


@pytest.fixture(scope="session")
def spark(jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if SparkSession.getActiveSession() is not None:
        pytest.skip("another session of this process has no connectors; run tests/pipeline by itself")
    settings = {**SETTINGS, ORIGINS: "false", **V2_KAFKA_SETTINGS, "spark.jars": ",".join(map(str, jars))}
    with session(tmp_path_factory.mktemp("warehouse"), settings) as made:
        if not CONNECT:
            made.sparkContext.setLogLevel("OFF")
        yield made


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        made = Broker(tmp_path_factory.mktemp("kafka"))
    except MissingToolError as error:
        pytest.skip(f"a Kafka broker cannot be had: {error}")
    with made:
        yield made


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    # As root the server runs as another user: every parent of its folder must be accessible to that user, and stay so.
    with tempfile.TemporaryDirectory(prefix="perseid-postgres-") as folder:
        try:
            made = Postgres(Path(folder))
        except MissingToolError as error:
            pytest.skip(f"PostgreSQL cannot be had: {error}")
        with made:
            yield made
