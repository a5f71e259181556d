"""The Spark session of these tests, and streams that are closed after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sessions import session
from tests.spark_facts.streams import Streams


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("warehouse")) as started:
        yield started


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Iterator[Streams]:
    opened = Streams(spark, tmp_path)
    yield opened
    opened.close()
