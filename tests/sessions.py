"""The Spark session that tests share: where it runs, and how little it may take."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def configured(builder: Any, warehouse: Path) -> Any:
    """A builder of a small session that listens on this machine's own address only."""
    # Workers would start the system's Python, and the driver would listen on all addresses.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse),
    }
    builder = builder.appName("perseid-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder
