"""Contract of sinks: settings in a job file, a guarantee, and a function that writes a batch.

A batch may be retried with the same number and the same rows: after a crash, or after a sink failed half-way. How a sink
handles that is its guarantee. A number may also be reused for other rows: after the checkpoint was restored from an older
copy. A sink that records its batches therefore records the digest of their source offsets, too.
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
    """One micro-batch of matches."""

    job: str
    """Id of the checkpoint of the job: another checkpoint is another job, even with the same name."""
    number: int
    """Number of the batch in this checkpoint, from 0."""
    attempt: str
    """Unique for each try of a batch, including retries."""
    rows: DataFrame
    """The matches. They are cached, so that reading them again does not repeat the search, except in a single pass."""
    stopping: threading.Event = field(default_factory=threading.Event, compare=False)
    """Set when the job is stopped. A sink that waits before a retry waits on this event."""
    digest: str | None = None
    """Digest of the source offsets of the batch, from the checkpoint; None if it is unknown."""

    def is_recorded_as(self, digest: str | None) -> bool:
        """True if a record with this number and digest is of this batch; records of earlier versions have no digest."""
        return digest is None or self.digest is None or digest == self.digest


class PlannedBatches(Protocol):
    """Planned batches of the checkpoint, for a sink that compares its records with them."""

    @property
    def oldest(self) -> int:
        """The first batch with offsets in the checkpoint; earlier ones cannot be compared."""

    def first_replaced(self, recorded: Mapping[int, str | None]) -> int | None:
        """The first recorded batch that is not planned, or is planned with other offsets; None if all are the same."""


class Sink(Settings):
    """Settings of a sink, and the methods that a job calls."""

    guarantee: ClassVar[str]
    """Guarantee for readers when batches are retried, as a sentence."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the target in a few words, without secrets."""

    def prepare(self, session: SparkSession, schema: StructType, job: str) -> None:
        """Validate the target before anything runs: raise for a missing table, a wrong address or unsupported columns.

        ``schema`` is the schema of the rows, and ``job`` the id in the batches: the sink cleans up after a crash of this job
        and of no other. Called at every start and after every change of rules, never during a write.
        """

    def resume(self, session: SparkSession, job: str, planned: PlannedBatches) -> str | None:
        """Compare the records of the sink with the checkpoint, once when the job starts, after :meth:`prepare`.

        If the checkpoint was restored from an older copy, prepare for reused batch numbers with other rows, and return
        a sentence for the log; raise :class:`~perseid.sinks.failures.RestoredCheckpointError` if rows would be lost or
        duplicated. A sink without records, which may duplicate rows, does nothing.
        """
        return None

    def supports_single_pass(self, session: SparkSession) -> bool:
        """True if the Spark job of the search may write the sink: duplicates are accepted, and Spark observes rows."""
        return False

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Write a batch; when this returns, the batch is written."""

    def close(self) -> None:
        """Close connections."""
