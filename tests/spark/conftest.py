"""One Spark session for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.sessions import configured


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]")
    session: SparkSession = configured(builder, tmp_path_factory.mktemp("warehouse")).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
