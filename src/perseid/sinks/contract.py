"""What every sink is: words of a job, a guarantee, and one function that writes a batch.

A batch may come again, with the same number and the same rows: after a crash, or where a sink failed half-way. What a
sink makes of that is its guarantee. A number may also come again with other rows: after the checkpoint was restored from
an older copy. A sink that records its batches therefore records the digest of their source offsets, too.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from perseid.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class Batch:
    """One micro-batch of answers, as every sink is given it."""

    job: str
    """The identity of the job's checkpoint: another checkpoint is another job, whatever its name."""
    number: int
    """The batch's number in this checkpoint, from 0."""
    attempt: str
    """Differs whenever a batch is tried again."""
    rows: DataFrame
    """The DataFrame. Kept, so that reading it again does not search again; a sink that goes ``along`` reads it once."""
    stopping: threading.Event = field(default_factory=threading.Event, compare=False)
    """Set when the job is stopped. A sink that waits between attempts waits on it."""
    digest: str | None = None
    """Digest of the source offsets of the batch, from the checkpoint; None if it is unknown."""

    def is_recorded_as(self, digest: str | None) -> bool:
        """Whether a record of this number is of this batch. A record without a digest is: earlier versions wrote none."""
        return digest is None or self.digest is None or digest == self.digest


class PlannedBatches(Protocol):
    """The batches that the checkpoint has planned, as a sink compares its records with them."""

    @property
    def oldest(self) -> int:
        """The first batch whose plan the checkpoint still has; earlier ones cannot be compared."""

    def first_replaced(self, recorded: Mapping[int, str | None]) -> int | None:
        """The first recorded batch that the checkpoint has not planned, or has planned with other offsets; None if all are the same."""


class Sink(Settings):
    """Where answers are written."""

    guarantee: ClassVar[str]
    """What a reader may rely on when batches come again, as a sentence."""

    @abstractmethod
    def told(self) -> str:
        """Where it writes, in a few words and without secrets."""

    def prepare(self, session: SparkSession, schema: StructType, job: str) -> None:
        """Refuse what cannot be written before anything runs: a missing table, a wrong address, columns it cannot take.

        ``schema`` is that of the rows to come, and ``job`` that of the batches: what a crash of this job left is put right,
        and nothing that another is about. Called at every start and after every change of rules, never beside a write.
        """

    def resume(self, session: SparkSession, job: str, planned: PlannedBatches) -> str | None:
        """Compare the records of the sink with the checkpoint, once when the job starts, after :meth:`prepare`.

        If the checkpoint was restored from an older copy, make ready for batches that come with other rows, and return a
        sentence for the log; raise :class:`~perseid.sinks.failures.RestoredCheckpointError` if rows would be lost or
        duplicated. A sink without records, whose rows may come more than once, does nothing.
        """
        return None

    def along(self, session: SparkSession) -> bool:
        """Whether it may be written while the batch is searched: its readers expect rows to come more than once, and Spark observes what it is given."""
        return False

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Write a batch; when this returns, it is written."""

    def close(self) -> None:
        """Let go of connections."""
