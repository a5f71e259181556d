"""This version finishes the checkpoint and the output of a job of an earlier version.

The archive in ``checkpoints`` never changes. It is from a job that was killed between its sinks and the commit of its
last batch. Its input is ``/INPUT`` in the archive, and its dead letters are omitted, because they contain paths. With
``PERSEID_ADD_STATES=1`` a missing archive is written.
"""

from __future__ import annotations

import json
import os
import random
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

import perseid as ps
from perseid.jobs.assembly import assemble
from perseid.jobs.batch_log import BatchLog
from perseid.jobs.job_plan import RunStatus
from perseid.jobs.reading import read_job
from perseid.jobs.runner import JobRunner

pytestmark = pytest.mark.timeout(600)

ARCHIVE = Path(__file__).with_name("checkpoints") / "job.zip"
PATTERNS = """
pattern pair match A a -> B b within 20 seconds partition by user return a.n as first, b.n as last
pattern many match A a -> B+ b -> C c within 30 seconds partition by user return count(b) as n
pattern silent match A a -> not B for 8 seconds partition by user return a.n as first
"""
JOB = """
job: golden
stream:
  kind: events
  source:
    files: {path: input, format: json, schema: "ts timestamp, type string, user string, n bigint", max_files_per_batch: 1}
  type: type
  lateness: 15 seconds
  id: [n]
  shards: 2
sinks: [{parquet: {path: out/matches}}]
dead_letters: {parquet: {path: out/dead}}
checkpoint: checkpoint
"""
FILES, THEN = 5, 3
"""Number of all files, and of those that existed when the checkpoint was written."""


def files() -> list[list[dict[str, Any]]]:
    """Return the same rows in every version; the last file closes the stream."""
    chance = random.Random(11)

    def at(second: int) -> str:
        return f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"

    made: list[list[dict[str, Any]]] = [
        [
            {
                "ts": at(10 + file * 10 + chance.randint(-4, 10)),
                "type": chance.choice("AABBCX"),
                "user": chance.choice("xyz"),
                "n": file * 100 + i,
            }
            for i in range(30)
        ]
        for file in range(FILES - 1)
    ]
    return [*made, [{"ts": "2026-01-02T00:00:00Z", "type": "X", "user": "x", "n": -1}]]


def arrive(folder: Path, count: int) -> None:
    (folder / "input").mkdir(exist_ok=True)
    for number, rows in enumerate(files()[:count]):
        path = folder / "input" / f"{number:05}.json"
        path.write_text("\n".join([*map(json.dumps, rows), '{"n": "broken"']))
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))


def run(spark: SparkSession, folder: Path) -> RunStatus:
    (folder / "job.yaml").write_text(f"{JOB}patterns: {{text: {json.dumps(PATTERNS)}}}")
    return JobRunner(assemble(read_job(folder / "job.yaml"), spark, once=True)).run()


def read_matches(folder: Path, sink: str) -> list[dict[str, Any]]:
    found = (folder / "out" / sink).glob("job=*/batch=*/*.parquet")
    return [row for path in sorted(found) for row in pq.ParquetFile(path).read().to_pylist()]


def moved(name: str, body: bytes, before: str, after: str) -> bytes:
    """Replace the path of the source files, which Spark records."""
    return body.replace(before.encode(), after.encode()) if name.startswith("checkpoint/sources/") else body


def archive_job(folder: Path) -> None:
    commits = folder / "checkpoint" / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    last.unlink()  # the job was killed before this was written
    ARCHIVE.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.glob("checkpoint/**/*")) + sorted(folder.glob("out/matches/**/*")):
            if path.is_file() and path.suffix != ".crc" and path.name != "lock":
                name, body = path.relative_to(folder).as_posix(), path.read_bytes()
                archive.writestr(zipfile.ZipInfo(name), moved(name, body, str(folder / "input"), "/INPUT"))
        archive.writestr(zipfile.ZipInfo("about.json"), json.dumps({"spark": pyspark.__version__}))


def restore(folder: Path) -> dict[str, Any]:
    with zipfile.ZipFile(ARCHIVE) as kept:
        for name in kept.namelist():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(moved(name, kept.read(name), "/INPUT", str(folder / "input")))
    return json.loads((folder / "about.json").read_text())  # type: ignore[no-any-return]


def test_job_of_an_earlier_version_continues(spark: SparkSession, tmp_path: Path) -> None:
    then, now = tmp_path / "then", tmp_path / "now"
    if not ARCHIVE.exists() and os.environ.get("PERSEID_ADD_STATES") == "1":
        then.mkdir()
        arrive(then, THEN)
        run(spark, then)
        archive_job(then)
    now.mkdir()
    written_by = restore(now)["spark"]
    if [int(n) for n in written_by.split(".")[:2]] > [int(n) for n in pyspark.__version__.split(".")[:2]]:
        pytest.skip(f"written by Spark {written_by}, and Spark does not read what later ones wrote")
    before = read_matches(now, "matches")
    began = BatchLog(str(now / "checkpoint")).unfinished()
    assert began is not None
    assert before, "the earlier run wrote matches"
    arrive(now, FILES)
    seen = run(spark, now)
    assert seen.last_batch is not None
    assert seen.last_batch - seen.batches == began - 1, "it went on with the batch that was not committed"

    expected = ps.patterns(PATTERNS).match(ps.events([row for rows in files() for row in rows], id="n"))
    found = Counter((row["pattern"], row["match_id"]) for row in read_matches(now, "matches"))
    assert found == Counter((match.pattern, match.match_id) for match in expected)
    assert {row["match_id"] for row in before} < {match_id for _, match_id in found}
    assert Counter(row["kind"] for row in read_matches(now, "dead")) == {"bad": FILES - THEN}
