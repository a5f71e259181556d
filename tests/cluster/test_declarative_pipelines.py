"""The pipeline of the page on Declarative Pipelines, run by ``spark-pipelines`` in a Spark Connect server of its own."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.sessions import session

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "platforms" / "declarative-pipelines.md"
COMMAND = shutil.which("spark-pipelines", path=sysconfig.get_path("scripts"))
MISSING = [name for name in ("pyspark.pipelines", "grpc", "yaml") if importlib.util.find_spec(name) is None]
EVENTS = """
{"id": 1, "ts": "2026-03-01T09:00:00Z", "type": "Login", "user": "ann", "ip": "10.0.0.1"}
{"id": 2, "ts": "2026-03-01T09:02:00Z", "type": "Login", "user": "ann", "ip": "203.0.113.9"}
{"id": 3, "ts": "2026-03-01T09:03:00Z", "type": "Transfer", "user": "ann", "amount": 6000.0}
{"id": 4, "ts": "2026-03-01T09:04:00Z", "type": "Login", "user": "bob", "ip": "10.0.0.7"}
{"id": 5, "ts": "2026-03-01T09:05:00Z", "type": "Login", "user": "bob", "ip": "10.0.0.8"}
{"id": 6, "ts": "2026-03-01T09:06:00Z", "type": "Transfer", "user": "bob", "amount": 70.0}
"""
LATER = """
{"id": 7, "ts": "2026-03-01T11:00:00Z", "type": "Login", "user": "eve", "ip": "10.0.0.9"}
"""

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        bool(MISSING), reason=f"spark-pipelines needs pyspark[pipelines]: {', '.join(MISSING)} not found"
    ),
    pytest.mark.skipif(COMMAND is None, reason="this pyspark has no command spark-pipelines: it is new in Spark 4.1"),
]


def block(language: str) -> str:
    """Return the first block of the page in this language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def run_pipeline(project: Path) -> None:
    assert COMMAND is not None
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK", "PYTEST"))}
    settings = {
        "spark.sql.warehouse.dir": str(project / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    options = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [COMMAND, "run", "--remote", "local[2]", *options, "--spec", str(project / "spark-pipeline.yml")],
        env={
            **clean,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_TESTING": "1",  # Spark's server and client use a free port, not 15002, which others may use
        },
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]


def match_ids(project: Path, table: str) -> list[str]:
    return sorted(pq.read_table(project / "warehouse" / table, columns=["match_id"])["match_id"].to_pylist())


def test_datasets_have_the_matches_of_a_batch(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    (events / "1.json").write_text(EVENTS)
    (events / "2.json").write_text(LATER)
    (tmp_path / "transformations").mkdir()
    code = block("py").replace("/data/events", str(events))
    (tmp_path / "transformations" / "takeover.py").write_text(code)
    (tmp_path / "spark-pipeline.yml").write_text(block("yaml").replace("/data/storage", str(tmp_path / "storage")))
    run_pipeline(tmp_path)

    pattern = re.search(r'ps\.pattern\("""(.*?)"""\)', code, re.DOTALL)
    schema = re.search(r'SCHEMA = "(.*?)"', code)
    assert pattern
    assert schema
    import perseid as ps

    with session(tmp_path / "plain") as spark:
        frame = spark.read.schema(schema[1]).json(str(events))
        plain = ps.pattern(pattern[1]).match(ps.events(frame, id="id"))
        expected = sorted(row["match_id"] for row in plain.select("match_id").collect())
    assert len(expected) == 2
    assert match_ids(tmp_path, "takeovers") == expected
    assert match_ids(tmp_path, "takeovers_stream") == expected
