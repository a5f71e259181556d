"""A stream on a cluster continues when a worker is killed, and emits every match once."""

from __future__ import annotations

import datetime as dt
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import perseid as ps
from tests.cluster.conftest import Cluster
from tests.cluster.stream_application import PATTERNS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

APPLICATION = Path(__file__).with_name("stream_application.py")
FILES = 14
EVENTS = pa.schema({"ts": pa.timestamp("us", "UTC"), "type": pa.string(), "user": pa.string(), "n": pa.int64()})
START = dt.datetime(2024, 3, 10, 6, 59, tzinfo=dt.UTC)


def rows_of(file: int, chance: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "ts": START + dt.timedelta(seconds=file * 10 + chance.randint(-4, 10)),
            "type": chance.choice("AABBX"),
            "user": f"u{chance.randrange(12)}",
            "n": file * 1000 + i,
        }
        for i in range(80)
    ]


def commits(folder: Path) -> int:
    there = folder / "checkpoint" / "commits"
    return sum(path.name.isdigit() for path in there.iterdir()) if there.exists() else 0


def test_stream_continues_after_a_worker_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    cluster.give("first", "second")
    chance = random.Random(5)
    batches = [rows_of(file, chance) for file in range(FILES)]
    batches.append([{"ts": START + dt.timedelta(days=9), "type": "X", "user": "nobody", "n": -1}])
    (tmp_path / "input").mkdir()
    for number, rows in enumerate(batches):
        path = tmp_path / "input" / f"{number:05}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, EVENTS), path)
        os.utime(path, (1_600_000_000 + number,) * 2)
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen(
            cluster.command(APPLICATION, tmp_path, spark__task__maxFailures="4"),
            env={**cluster.variables(), "PYSPARK_PYTHON": "perseid-python"},
            cwd=cluster.folder,
            stdout=log,
            stderr=log,
        )
        try:
            deadline = time.monotonic() + 400
            while commits(tmp_path) < 4:
                assert child.poll() is None, (tmp_path / "log").read_text()[-5_000:]
                assert time.monotonic() < deadline
                time.sleep(0.05)
            # This ends its executor and the state in its memory.
            cluster.processes["worker1"].kill()
            at_kill = commits(tmp_path)
            assert child.wait(400) == 0, (tmp_path / "log").read_text()[-5_000:]
        finally:
            child.kill()
            child.wait()
    assert at_kill < FILES - 2, "it was over before the worker was killed"
    told = [row for path in sorted((tmp_path / "out").glob("batch=*")) for row in pq.read_table(path).to_pylist()]
    expected = ps.patterns(PATTERNS).match(ps.events([row for rows in batches for row in rows], id="n"))
    found = sorted((row["pattern"], row["match_id"]) for row in told)
    assert found == sorted((m.pattern, m.match_id) for m in expected)
    assert len(set(found)) == len(found) > 100
    print(f"killed after {at_kill} of {commits(tmp_path)} batches: {len(found)} matches, each once")
