"""The Spark session that tests share: where it runs, and how little it may take; Connect when PERSEID_SPARK_CONNECT is 1."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

CONNECT = os.environ.get("PERSEID_SPARK_CONNECT") == "1"


@contextmanager
def session(warehouse: Path, more: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session, classic or through Connect, with some settings more."""
    # Other tests of the same process may have a session, which then is the one we get and is theirs to stop.
    shared = not CONNECT and SparkSession.getActiveSession() is not None
    builder = SparkSession.builder.remote("local[2]") if CONNECT else SparkSession.builder.master("local[2]")
    with warnings.catch_warnings():
        # Connect starts its server with these settings, then tries to set them again and warns of each it cannot.
        warnings.filterwarnings("ignore", "Failed to set", UserWarning)
        made: SparkSession = configured(builder, warehouse, more).getOrCreate()
    yield made
    if not shared and (CONNECT or SparkSession.getActiveSession() is not None):
        made.stop()


def configured(builder: Any, warehouse: Path, more: Mapping[str, str] | None = None) -> Any:
    """A builder of a small session that listens on this machine's own address only."""
    # Workers would start the system's Python, and the driver would listen on all addresses.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.python.daemon.module": "tests.preloaded_daemon",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse),
        **(more or {}),
    }
    builder = builder.appName("perseid-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder
