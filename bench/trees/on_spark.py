"""Tree patterns over many documents on Spark, beside bare Spark that moves the same column; and Spark's own XML source."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import perseid as ps
from bench import spark_rivals
from bench.harness import Clock, Contestant, Report, contest, paired_ratio, progress
from bench.trees import rivals
from bench.trees.figures import Measurement
from bench.trees.queries import QUERIES
from bench.trees.xmark import xmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DOCUMENTS = {"standard": 4_000, "full": 20_000}
KINDS = 40
"""So many documents are different."""
SCALE = 0.0003
PIECES = 8
PATTERN = QUERIES["Q3.2"].text


def measure(
    size: str, clock: Clock, report: Report, data: Path, documents: Mapping[tuple[str, int], Path]
) -> list[Measurement]:
    """Many documents of some 35 KB each, then one large one for Spark's own source."""
    folder = data / f"documents-{size}"
    _write(folder, DOCUMENTS[size])
    out: list[Measurement] = []
    with (
        tempfile.TemporaryDirectory(prefix="perseid-bench-trees-") as scratch,
        spark_rivals.session(Path(scratch)) as spark,
    ):
        right = _counted(spark, folder, 0)
        contestants = [
            Contestant("ours", partial(_ours, spark, folder, 0), None),
            Contestant("ours, one core", partial(_ours, spark, folder, 1), None),
            Contestant("bare", partial(_bare, spark, folder), None),
        ]
        records = contest(contestants, clock)
        progress(f"{DOCUMENTS[size]:,} documents on Spark, {right:,} results")
        for name, record in records.items():
            report.records[f"spark {name}"] = record
        report.add("spark.cores", *paired_ratio(records["ours"], records["ours, one core"]))
        report.add("spark.bare", *paired_ratio(records["ours"], records["bare"]))
        for name in rivals.BY_SPARK:
            query = QUERIES[name]
            path = documents[query.document, 2 if query.document == "xmark" else 0]
            expected = rivals.iterparse(name, path)
            found = contest(
                [Contestant("Spark XML", partial(rivals.spark_xml, spark, name, path), expected)],
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


def _frame(spark: SparkSession, folder: Path, tasks: int) -> DataFrame:
    frame = spark.read.parquet(str(folder))
    return frame.coalesce(tasks) if tasks else frame


def _found(spark: SparkSession, folder: Path, tasks: int) -> Any:
    return ps.trees(PATTERN).detect(ps.documents(_frame(spark, folder, tasks), body="xml"))


def _counted(spark: SparkSession, folder: Path, tasks: int) -> int:
    return int(_found(spark, folder, tasks).count())


def _ours(spark: SparkSession, folder: Path, tasks: int) -> None:
    _found(spark, folder, tasks).write.format("noop").mode("overwrite").save()


def _identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _bare(spark: SparkSession, folder: Path) -> None:
    frame = _frame(spark, folder, 0)
    frame.mapInArrow(_identity, frame.schema).write.format("noop").mode("overwrite").save()
