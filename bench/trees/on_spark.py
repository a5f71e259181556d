"""Tree patterns over many documents on Spark, compared with Spark that moves the same column, and with its XML
source."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import perseid as ps
from bench import spark_baselines
from bench.harness import Clock, Report, Side, paired_ratio, progress, run_rounds
from bench.trees import baselines
from bench.trees.figures import Measurement
from bench.trees.queries import QUERIES
from bench.trees.xmark import xmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DOCUMENTS = {"standard": 20_000, "full": 20_000}
KINDS = 40
"""Number of distinct documents."""
SCALE = 0.0003
PIECES = 8
PATTERN = QUERIES["Q3.2"].text


def measure(
    size: str, clock: Clock, report: Report, data: Path, documents: Mapping[tuple[str, int], Path]
) -> list[Measurement]:
    """Measure many documents of some 35 KB each, then one large one for Spark's own source."""
    folder = data / f"documents-{size}"
    _write(folder, DOCUMENTS[size])
    out: list[Measurement] = []
    _cores(report, folder)
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-trees-") as scratch,
        spark_baselines.session(Path(scratch)) as spark,
    ):
        right = int(_found(spark, folder).count())
        sides = [
            Side("ours", partial(find_all, spark, folder), None),
            Side("bare", partial(_baseline, spark, folder), None),
        ]
        records = run_rounds(sides, clock)
        progress(f"{DOCUMENTS[size]:,} documents on Spark, {right:,} results")
        for name, record in records.items():
            report.records[f"spark {name}"] = record
        report.add("spark.bare", *paired_ratio(records["ours"], records["bare"]))
        for name in baselines.BY_SPARK:
            query = QUERIES[name]
            path = documents[query.document, 2 if query.document == "xmark" else 0]
            expected = baselines.iterparse(name, path)
            found = run_rounds(
                [Side("Spark XML", partial(baselines.spark_xml, spark, name, path), expected)],
                clock,
                rounds=1,
                warm=0,
            )["Spark XML"]
            if found.failure is not None:
                progress(f"{name} Spark XML: {found.failure}")
                continue
            megabytes = path.stat().st_size / 1e6
            out.append(
                Measurement(name, query.kind, query.document, megabytes, "Spark XML", found.seconds[0], expected, None)
            )
    return out


def _write(folder: Path, count: int) -> None:
    if folder.exists():
        return
    folder.mkdir(parents=True)
    made = [b"".join(xmark(SCALE, seed)) for seed in range(KINDS)]
    each = count // PIECES
    for piece in range(PIECES):
        bodies = [made[(piece * each + k) % KINDS] for k in range(each)]
        table = pa.table(
            {"id": pa.array(range(piece * each, (piece + 1) * each)), "xml": pa.array(bodies, pa.binary())}
        )
        pq.write_table(table, folder / f"{piece}.parquet", compression="none", use_dictionary=False, row_group_size=200)


def _cores(report: Report, folder: Path) -> None:
    """Compare Spark on two cores with Spark on one core."""
    taken = []
    for count in (1, 2):
        ran = subprocess.run(
            [sys.executable, "-m", "bench.trees.cores", str(folder), str(count)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ran.returncode:
            report.add("spark.cores", None, ran.stderr.strip().splitlines()[-1])
            return
        taken.append(float(ran.stdout.split()[-1]))
        progress(f"{count} cores: {taken[-1]:.2f} s")
    report.add("spark.cores", taken[0] / taken[1])


def _found(spark: SparkSession, folder: Path) -> DataFrame:
    found: DataFrame = ps.xml.tree_patterns(PATTERN).match(ps.documents(spark.read.parquet(str(folder)), body="xml"))
    return found


def find_all(spark: SparkSession, folder: Path) -> None:
    """Read every document and drop the results."""
    _found(spark, folder).write.format("noop").mode("overwrite").save()


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _baseline(spark: SparkSession, folder: Path) -> None:
    frame = spark.read.parquet(str(folder))
    frame.mapInArrow(_identity, frame.schema).write.format("noop").mode("overwrite").save()
