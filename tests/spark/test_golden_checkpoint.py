"""Whole checkpoints that earlier versions wrote: this one goes on with them.

A checkpoint is kept as an archive in ``checkpoints``, never to be changed. Spark writes down where the source's files
lay; in the archives that folder is called ``/INPUT``. With ``PERSEID_ADD_STATES=1`` a missing one is made.
"""

from __future__ import annotations

import json
import os
import random
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

import perseid as ps
from tests.spark.streaming import FAR, MOMENT, WAIT, Run, Streams, at, ids

pytestmark = pytest.mark.xdist_group("streams")

FOLDER = Path(__file__).with_name("checkpoints")
EVENTS = pa.schema({"ts": MOMENT, "type": pa.string(), "user": pa.string(), "n": pa.int64()})
PATTERNS = """
pattern pair match A a -> B b within 20 seconds partition by user return a.n as first, b.n as last
pattern many match A a -> B+ b -> C c within 30 seconds partition by user return count(b) as n
pattern silent match A a -> not B for 8 seconds partition by user return a.n as first
pattern quiet match A a partition by user suppress 15 seconds return a.n as first
pattern first match A a -> C c within 25 seconds partition by user selection chronicle return a.n as first
pattern twice match pair x -> pair y within 40 seconds partition by user return x.first as first
"""
CASES = ["two-shards"]


def batches() -> list[list[dict[str, Any]]]:
    """The same in every version: four files, and one that closes the stream."""
    chance = random.Random(7)
    made = [
        [
            {
                "ts": at(file * 10 + chance.randint(-4, 10)),
                "type": chance.choice("AABBCX"),
                "user": chance.choice(["x", "y", "z", None]),
                "n": file * 100 + i,
            }
            for i in range(40)
        ]
        for file in range(4)
    ]
    return [*made, [{"ts": at(FAR), "type": "X", "user": None, "n": -1}]]


def detected(streams: Streams) -> Run:
    frame = streams.read("input", EVENTS, delay="15 seconds")
    running = streams.start(ps.patterns(PATTERNS).detect(ps.events(frame, id="n", shards=2)))
    try:
        assert running.query.awaitTermination(WAIT)
        # As files: the sink's own record of them lies in the folder, and begins with a batch that is not there.
        tables = [pq.read_table(path) for path in Path(running.out).glob("*.parquet")]
        return Run(pa.concat_tables(tables), [dict(batch) for batch in running.query.recentProgress])
    finally:
        running.query.stop()


def keep(folder: Path, target: Path, told: Run) -> None:
    source = str(folder / "input")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((folder / "query.checkpoint").rglob("*")):
            if path.is_file() and path.suffix != ".crc":
                name = str(path.relative_to(folder / "query.checkpoint"))
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes().replace(source.encode(), b"/INPUT"))
        about = {"spark": pyspark.__version__, "told": ids(told.rows)}
        archive.writestr(zipfile.ZipInfo("about.json"), json.dumps(about))


def restore(archive: Path, folder: Path) -> dict[str, Any]:
    with zipfile.ZipFile(archive) as kept:
        about: dict[str, Any] = json.loads(kept.read("about.json"))
        for name in kept.namelist():
            target = folder / "query.checkpoint" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(kept.read(name).replace(b"/INPUT", str(folder / "input").encode()))
    return about


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_of_an_earlier_version(spark: SparkSession, tmp_path: Path, name: str) -> None:
    made = batches()
    archive = FOLDER / f"{name}.zip"
    if not archive.exists() and os.environ.get("PERSEID_ADD_STATES") == "1":
        (tmp_path / "then").mkdir()
        then = Streams(spark, tmp_path / "then")
        then.add("input", EVENTS, *made[:2])
        FOLDER.mkdir(exist_ok=True)
        keep(tmp_path / "then", archive, detected(then))
    (tmp_path / "now").mkdir()
    about = restore(archive, tmp_path / "now")
    if [int(n) for n in about["spark"].split(".")[:2]] > [int(n) for n in pyspark.__version__.split(".")[:2]]:
        pytest.skip(f"written by Spark {about['spark']}, and Spark does not read what later ones wrote")
    now = Streams(spark, tmp_path / "now")
    now.add("input", EVENTS, *made)
    run = detected(now)
    assert run.read[0] == len(made[2])  # it went on, and did not start again
    expected = ps.patterns(PATTERNS).match(ps.events([row for rows in made for row in rows], id="n"))
    told = [tuple(one) for one in about["told"]]
    assert {pattern for pattern, _, _ in told} >= {"first", "silent", "quiet"}
    assert sorted([*told, *ids(run.rows)]) == sorted((m.pattern, m.match_id, m.kind) for m in expected)
