"""The daemon that imports the libraries of Python workers before Spark forks them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perseid.cli.running import DAEMON, settings_of

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from perseid.cli.running import settings_of
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
for name, value in settings_of(16, "local[1]").items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()

def loaded(batches):
    import sys
    names = [name for name in ("numba", "pandas", "perseid.spark.worker") if name in sys.modules]
    for batch in batches:
        import pyarrow as pa
        yield pa.RecordBatch.from_pydict({"loaded": [",".join(names)]})

print(spark.range(1).mapInArrow(loaded, "loaded string").first()["loaded"])
spark.stop()
"""


def test_workers_start_with_their_libraries(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env=environment,
    )
    assert done.stdout.split() == ["numba,pandas,perseid.spark.worker"], done.stderr


@pytest.mark.parametrize(
    ("master", "python", "is_set"),
    [
        ("local[*]", sys.executable, True),
        ("local[2]", "/opt/other/python", False),
        ("spark://somewhere:7077", sys.executable, False),
        (None, sys.executable, False),
    ],
)
def test_daemon_is_set_only_for_workers_with_this_python(
    monkeypatch: pytest.MonkeyPatch, master: str | None, python: str, is_set: bool
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    assert (DAEMON in settings_of(16, master)) is is_set
