"""A job with a checkpoint restored from an older copy: sinks hold every match once, or the job does not start."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from perseid.jobs.batch_log import BatchLog
from perseid.jobs.job_plan import JobError
from perseid.sinks.contract import Batch, PlannedBatches, Sink
from perseid.sinks.failures import RestoredCheckpointError
from perseid.sinks.parquet import RECORD, Parquet
from tests.jobs.restoring import Named, Restoring

pytestmark = pytest.mark.timeout(900)


def parquet_matches(spark: SparkSession, folder: Path) -> Counter[Named]:
    rows = spark.read.parquet(str(folder)).collect()
    return Counter((row.pattern, row.kind, row.match_id) for row in rows)


def test_parquet_has_every_match_once_after_a_restore(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Restoring(spark, tmp_path, [Parquet(path=str(tmp_path / "out"), files=1)])
    made.play()
    with caplog.at_level(logging.WARNING, "perseid.jobs"):
        made.run(files_per_batch=3)
    expected = made.expected()
    assert len(expected) > 20
    assert parquet_matches(spark, tmp_path / "out") == expected
    assert "the checkpoint was restored from an older copy: parquet" in caplog.text
    assert list((tmp_path / "out" / "_perseid_restored").glob("job=*/0/batch=*/*.parquet")), (
        "what was there is set aside"
    )
    caplog.clear()
    made.run(files_per_batch=3)
    assert not caplog.text, "a start without a restore"
    made.restore()
    made.run(files_per_batch=5)
    assert parquet_matches(spark, tmp_path / "out") == expected, "the copy is restored once more"


class _Recording(Sink):
    """Sink that compares batch records set by a test with the checkpoint."""

    guarantee: ClassVar[str] = "none"
    digests: dict[int, str | None]
    refuses: bool = False

    def describe(self) -> str:
        return "recording"

    def resume(self, session: Any, job: str, planned: PlannedBatches) -> str | None:
        first = planned.first_replaced({n: d for n, d in self.digests.items() if n >= planned.oldest})
        if first is not None and self.refuses:
            raise RestoredCheckpointError("It was restored.", sink="recording", batch=None, hint="Restore the table.")
        return None if first is None else f"from {first} on"

    def write(self, batch: Batch) -> None:
        assert batch.digest is not None
        self.digests[batch.number] = batch.digest


def test_sink_that_cannot_take_batches_again_ends_the_job_before_it_starts(spark: SparkSession, tmp_path: Path) -> None:
    sink = _Recording(digests={})
    made = Restoring(spark, tmp_path, [sink])
    made.play()
    made.sinks = [sink.model_copy(update={"refuses": True})]
    planned = BatchLog(str(made.checkpoint)).planned()
    with pytest.raises(JobError, match=r"It was restored\.\n  = Restore the table\.") as caught:
        made.run(files_per_batch=3)
    assert isinstance(caught.value.__cause__, RestoredCheckpointError)
    assert BatchLog(str(made.checkpoint)).planned() == planned, "no batch was planned"


def write_offsets(folder: Path, bodies: Mapping[int, str]) -> BatchLog:
    (folder / "offsets").mkdir(exist_ok=True)
    for number, body in bodies.items():
        (folder / "offsets" / str(number)).write_text(body)
    return BatchLog(str(folder))


def test_digest_depends_on_the_first_and_the_last_offset_of_a_batch(tmp_path: Path) -> None:
    batch_log = write_offsets(tmp_path, {0: "a", 1: "b", 2: "c"})
    digests = [batch_log.offsets_digest(number) for number in range(3)]
    assert len(set(digests)) == 3
    assert batch_log.offsets_digest(3) is None, "not planned"
    write_offsets(tmp_path, {0: "other"})
    changed = [batch_log.offsets_digest(number) for number in range(3)]
    assert [before == after for before, after in zip(digests, changed, strict=True)] == [False, False, True]
    (tmp_path / "offsets" / "1").unlink()
    assert batch_log.offsets_digest(2) is None, "Spark has removed the offsets from which it begins"


def test_first_replaced_batch_is_the_first_that_the_checkpoint_does_not_have(tmp_path: Path) -> None:
    batch_log = write_offsets(tmp_path, {number: str(number) for number in range(3, 7)})
    same = {number: batch_log.offsets_digest(number) for number in range(4, 7)}
    assert batch_log.oldest == 3
    assert batch_log.first_replaced({}) is None
    assert batch_log.first_replaced(same) is None
    assert batch_log.first_replaced({3: "cannot be compared", **same}) is None
    assert batch_log.first_replaced({**same, 5: "other"}) == 5
    assert batch_log.first_replaced({**same, 7: "ahead", 8: "ahead"}) == 7
    assert batch_log.first_replaced(dict.fromkeys(range(4, 7))) is None, "records of earlier versions"
    assert batch_log.first_replaced({6: None, 9: None}) == 9, "a sink cannot be ahead of its checkpoint"
    assert BatchLog(str(tmp_path / "new")).first_replaced({0: "ahead"}) == 0


def test_parquet_folder_of_an_earlier_version_has_no_digest_and_is_accepted(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = Restoring(spark, tmp_path, [Parquet(path=str(tmp_path / "out"), files=1)])
    made.arrive(5)
    made.run(5)
    records = list((tmp_path / "out").glob(f"job=*/batch=*/{RECORD}"))
    assert records
    for record in records:
        record.unlink()
    made.close()
    made.run(1)
    assert parquet_matches(spark, tmp_path / "out") == made.expected()
    assert not (tmp_path / "out" / "_perseid_restored").exists()
