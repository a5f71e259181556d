"""Checkpoints that earlier versions wrote: this version continues from them.

Each checkpoint is an archive in ``checkpoints``, which never changes. Spark records the paths of the source files;
the archives have ``/INPUT`` in their place. With ``PERSEID_ADD_STATES=1`` a missing archive is written.
"""

from __future__ import annotations

import json
import os
import random
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

import perseid as ps
from tests.spark.streaming import FAR, MOMENT, WAIT, Run, Streams, at

FOLDER = Path(__file__).with_name("checkpoints")
EVENTS = pa.schema({"ts": MOMENT, "type": pa.string(), "user": pa.string(), "n": pa.int64()})
PROMISES = EVENTS.append(pa.field("promise", pa.string()))
PATTERNS = """
pattern pair match A a -> B b within 20 seconds partition by user return a.n as first, b.n as last
pattern many match A a -> B+ b -> C c within 30 seconds partition by user return count(b) as n
pattern silent match A a -> not B for 8 seconds partition by user return a.n as first
pattern quiet match A a partition by user suppress 15 seconds return a.n as first
pattern first match A a -> C c within 25 seconds partition by user selection chronicle return a.n as first
pattern twice match pair x -> pair y within 40 seconds partition by user return x.first as first
"""
WITHOUT_FEEDING = PATTERNS[: PATTERNS.index("pattern twice")]


@dataclass(frozen=True)
class ArchivedStream:
    """Stream of an archived checkpoint."""

    name: str
    patterns: str = PATTERNS
    disorder: str = "buffer"

    @property
    def with_punctuations(self) -> bool:
        return self.disorder == "conservative"

    @property
    def schema(self) -> pa.Schema:
        return PROMISES if self.with_punctuations else EVENTS

    def batches(self) -> list[list[dict[str, Any]]]:
        """Rows by file, with valid punctuations after those of each file if the stream has them."""
        made = batches()
        if not self.with_punctuations:
            return made
        return [
            [
                *rows,
                {"ts": at(10 * file + 5), "promise": "all"},
                {"ts": at(10 * file + 5.5), "promise": "key", "user": "x"},
            ]
            for file, rows in enumerate(made)
        ]


CASES = [
    ArchivedStream("two-shards"),
    ArchivedStream("aggressive", disorder="aggressive"),
    ArchivedStream("conservative", WITHOUT_FEEDING, "conservative"),
]


def batches() -> list[list[dict[str, Any]]]:
    """Return the same rows in every version: four files, and one that closes the stream."""
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


def detected(streams: Streams, case: ArchivedStream) -> Run:
    frame = streams.read("input", case.schema, delay="15 seconds")
    events = ps.events(frame, id="n", disorder=case.disorder, options=ps.StreamOptions(shards=2))
    # The archive has punctuations in the column ``promise``, the default of 0.0.
    deprecated = pytest.warns(ps.errors.DeprecatedNameWarning, match="Column 'promise'")
    with deprecated if case.with_punctuations else nullcontext():
        matches = ps.patterns(case.patterns).match(events)
    running = streams.start(matches)
    try:
        assert running.query.awaitTermination(WAIT)
        # Read as files: the sink's own metadata in the folder begins with a batch that is not there.
        tables = [pq.read_table(path) for path in Path(running.out).glob("*.parquet")]
        return Run(pa.concat_tables(tables), [dict(batch) for batch in running.query.recentProgress])
    finally:
        running.query.stop()


def changes(run: Run) -> list[tuple[str, ...]]:
    """Return emitted and retracted matches by name."""
    return sorted((row["pattern"], row["match_id"], row["kind"], row.get("op", "+")) for row in run.rows)


def current_matches(told: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return matches that were emitted and not retracted; rows of old archives without an operation count as emitted."""
    counted: Counter[tuple[str, ...]] = Counter()
    for one in told:
        counted[tuple(one[:3])] += -1 if "-" in one[3:] else 1
    assert min(counted.values()) >= 0
    return sorted(counted.elements())


def archive_checkpoint(folder: Path, target: Path, told: Run) -> None:
    source = str(folder / "input")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((folder / "query.checkpoint").rglob("*")):
            if path.is_file() and path.suffix != ".crc":
                name = str(path.relative_to(folder / "query.checkpoint"))
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes().replace(source.encode(), b"/INPUT"))
        about = {"spark": pyspark.__version__, "told": changes(told)}
        archive.writestr(zipfile.ZipInfo("about.json"), json.dumps(about))


def restore(archive: Path, folder: Path) -> dict[str, Any]:
    with zipfile.ZipFile(archive) as kept:
        about: dict[str, Any] = json.loads(kept.read("about.json"))
        for name in kept.namelist():
            target = folder / "query.checkpoint" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(kept.read(name).replace(b"/INPUT", str(folder / "input").encode()))
    return about


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_query_continues_from_checkpoint_of_earlier_version(
    spark: SparkSession, tmp_path: Path, case: ArchivedStream
) -> None:
    made = case.batches()
    archive = FOLDER / f"{case.name}.zip"
    if not archive.exists() and os.environ.get("PERSEID_ADD_STATES") == "1":
        (tmp_path / "then").mkdir()
        then = Streams(spark, tmp_path / "then")
        then.add("input", case.schema, *made[:2])
        FOLDER.mkdir(exist_ok=True)
        archive_checkpoint(tmp_path / "then", archive, detected(then, case))
    (tmp_path / "now").mkdir()
    about = restore(archive, tmp_path / "now")
    if [int(n) for n in about["spark"].split(".")[:2]] > [int(n) for n in pyspark.__version__.split(".")[:2]]:
        pytest.skip(f"written by Spark {about['spark']}, and Spark does not read what later ones wrote")
    now = Streams(spark, tmp_path / "now")
    now.add("input", case.schema, *made)
    run = detected(now, case)
    assert run.read[0] == len(made[2])  # it continued, and did not start again
    expected = ps.patterns(case.patterns).match(ps.events([row for rows in batches() for row in rows], id="n"))
    assert {one[0] for one in about["told"]} >= {"first", "silent", "quiet"}
    stands = current_matches([*about["told"], *changes(run)])
    assert stands == sorted((m.pattern, m.match_id, m.kind) for m in expected)
    if case.disorder == "aggressive":
        assert any(one[3] == "-" for one in changes(run))  # matches emitted before the restart are retracted after it
