"""The session of these tests: classic, or Spark Connect when PERSEID_SPARK_CONNECT is 1."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sessions import configured
from tests.spark_facts.streams import Streams

CONNECT = os.environ.get("PERSEID_SPARK_CONNECT") == "1"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # Other tests of the same process may have a session, which then is the one we get and is theirs to stop.
    shared = not CONNECT and SparkSession.getActiveSession() is not None
    builder = SparkSession.builder.remote("local[2]") if CONNECT else SparkSession.builder.master("local[2]")
    with warnings.catch_warnings():
        # Connect starts its server with these settings, then tries to set them again and warns of each it cannot.
        warnings.filterwarnings("ignore", "Failed to set", UserWarning)
        session: SparkSession = configured(builder, tmp_path_factory.mktemp("warehouse")).getOrCreate()
    yield session
    if not shared and (CONNECT or SparkSession.getActiveSession() is not None):
        session.stop()


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Iterator[Streams]:
    made = Streams(spark, tmp_path)
    yield made
    made.close()
