"""A program that is killed at any moment and restarted loses no match and duplicates none."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import perseid as ps
from tests.spark.kill_program import PATTERNS
from tests.spark.streaming import FAR, MOMENT, at

# It starts its own session and should not run in parallel with those of other tests.
pytestmark = [pytest.mark.deep, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("PERSEID_KILLS", "2"))
ROOT = Path(__file__).parents[2]
PROGRAM = "tests.spark.kill_program"
EVENTS = pa.schema({"ts": MOMENT, "type": pa.string(), "user": pa.string(), "n": pa.int64()})


def rows(chance: random.Random, files: int) -> list[list[dict[str, Any]]]:
    batches = [
        [
            {
                "ts": at(file * 10 + chance.randint(-4, 10)),
                "type": chance.choice("AABBCX"),
                "user": chance.choice(["x", "y", "z", None]),
                "n": file * 1000 + i,
            }
            for i in range(60)
        ]
        for file in range(files)
    ]
    return [*batches, [{"ts": at(FAR), "type": "X", "user": None, "n": None}]]


def start(folder: Path) -> subprocess.Popen[bytes]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTEST"))}
    with (folder / "log").open("ab") as log:
        # A process group of its own: the child, its JVM and its workers can be ended together, without other processes.
        return subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(folder)],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            env=clean,
            start_new_session=True,
        )


def end(child: subprocess.Popen[bytes]) -> None:
    """End the child and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait(30)


def commits(folder: Path) -> int:
    there = folder / "checkpoint" / "commits"
    return sum(path.name.isdigit() for path in there.iterdir()) if there.exists() else 0


def read(folder: Path) -> list[int]:
    """Return the number of the newest file that was read, by batch."""
    batches = sorted(
        (p for p in (folder / "checkpoint" / "offsets").iterdir() if p.name.isdigit()), key=lambda p: int(p.name)
    )
    return [int(json.loads(path.read_text().splitlines()[-1])["logOffset"]) for path in batches]


def wait_for_more(child: subprocess.Popen[bytes], folder: Path) -> float:
    """Wait until the child has committed another batch or has ended; return the seconds it took."""
    known, begin = commits(folder), time.monotonic()
    while commits(folder) <= known and child.poll() is None:
        assert time.monotonic() < begin + 240, (folder / "log").read_text()[-3000:]
        time.sleep(0.05)
    return time.monotonic() - begin


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Kills between batches, within one, and while a batch is retried; PERSEID_KILLS sets their number."""
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    batches = rows(chance, KILLS * 2 + 5)
    (tmp_path / "input").mkdir()
    for number, batch in enumerate(batches):
        path = tmp_path / "input" / f"{number:05}.parquet"
        pq.write_table(pa.Table.from_pylist(batch, schema=EVENTS), path)
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    killed, first_batch = 0, 0.0
    while not (tmp_path / "done").exists():
        child = start(tmp_path)
        try:
            if killed < KILLS:
                if killed % 2 == 0:
                    first_batch = wait_for_more(child, tmp_path)
                    time.sleep(chance.uniform(0, 0.7))
                else:
                    time.sleep(chance.uniform(0.5, 1.1) * first_batch)
                killed += child.poll() is None
            else:
                child.wait(240)
                assert child.returncode == 0, (tmp_path / "log").read_text()[-3000:]
        finally:
            end(child)
    assert killed == KILLS, f"it was done after {killed} kills, seed {seed}"
    # After a kill a batch may take two files, so batches are not counted: the last has no file left, and those before had all.
    assert read(tmp_path)[-2:] == [len(batches) - 1] * 2
    everything = [row for batch in batches[:-1] for row in batch]
    expected = Counter((m.pattern, m.match_id) for m in ps.patterns(PATTERNS).match(ps.events(everything, id="n")))
    told: Counter[tuple[str, str]] = Counter()
    for folder in sorted((tmp_path / "out").iterdir()):
        table = pq.read_table(folder, columns=["pattern", "match_id"])
        told.update(zip(*(table[name].to_pylist() for name in ("pattern", "match_id")), strict=True))
    assert max(told.values()) == 1, f"duplicate, seed {seed}"
    assert sorted(expected - told) == [], f"lost, seed {seed}"
    assert sorted(told - expected) == [], f"not expected, seed {seed}"
    assert {name for name, _ in told} == set(ps.patterns(PATTERNS).names)
