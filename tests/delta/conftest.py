"""A Spark session that knows Delta. Its jars come by Maven, once, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from bench.harness import MissingToolError
from bench.java import run_maven
from tests.sessions import CONNECT, session

SPARK = "4.2."
"""The Spark that these jars are for."""
POM = Path(__file__).with_name("pom.xml")
PATIENCE = 250
"""Seconds that Maven has."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perseid"
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture(scope="session")
def jars() -> list[Path]:
    """What Maven copies for the pom beside us; skips where it cannot."""
    if not pyspark.__version__.startswith(SPARK):
        pytest.skip(f"this Delta is for Spark {SPARK}x, and here is {pyspark.__version__}")
    kept = CACHE / f"delta-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            copied = Path(folder) / "jars"
            goals = ("dependency:copy-dependencies", "-DexcludeTransitive", f"-DoutputDirectory={copied}")
            try:
                run_maven(POM.parent, goals, seconds=PATIENCE, how="On Debian: apt-get install maven")
            except MissingToolError as error:
                pytest.skip(f"the jars of Delta cannot be had: {error}")
            copied.rename(kept)
    return sorted(kept.glob("*.jar"))


@pytest.fixture(scope="session")
def spark(jars: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if SparkSession.getActiveSession() is not None:
        pytest.skip("another session of this process does not know Delta; run tests/delta by itself")
    settings = {**SETTINGS, "spark.jars": ",".join(map(str, jars))}
    with session(tmp_path_factory.mktemp("warehouse"), settings) as made:
        if not CONNECT:
            made.sparkContext.setLogLevel("OFF")
        yield made
