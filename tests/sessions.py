"""The small local Spark session that tests share; it uses Spark Connect if PERSEID_SPARK_CONNECT is 1."""

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
    """Start a session, classic or through Spark Connect, with additional settings, or reuse the active one."""
    # If other tests of the process have a session, getOrCreate returns it, and they stop it.
    shared = not CONNECT and SparkSession.getActiveSession() is not None
    builder = SparkSession.builder.remote("local[2]") if CONNECT else SparkSession.builder.master("local[2]")
    with warnings.catch_warnings():
        # Connect starts its server with these settings, then sets them again and warns about each setting that is static.
        warnings.filterwarnings("ignore", "Failed to set", UserWarning)
        started: SparkSession = configured(builder, warehouse, more).getOrCreate()
    yield started
    if not shared and (CONNECT or SparkSession.getActiveSession() is not None):
        started.stop()


def configured(builder: Any, warehouse: Path, more: Mapping[str, str] | None = None) -> Any:
    """Configure a small session that listens only on the loopback interface."""
    # Otherwise workers would start the Python of the system, and the driver would listen on all addresses.
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
