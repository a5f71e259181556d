"""Write matches to a Delta table, each batch in one transaction that records its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import PrivateAttr, model_validator

from perseid.errors import SettingsError
from perseid.runtime.changelog import NAMED_BY, OP, REVISION
from perseid.sinks.contract import Batch, PlannedBatches, Sink
from perseid.sinks.delta_history import (
    MERGE,
    USER_METADATA,
    DeltaCommit,
    commits_of,
    insert_missing,
    live_digests,
    read_mode,
    record_of,
    undone_version,
    write_mode,
)
from perseid.sinks.failures import RestoredCheckpointError, error_summary, failing
from perseid.sinks.rows import KIND, NAMES, PATTERN, storable
from perseid.spark.changes import FoldInto
from perseid.spark.inputs import quoted
from perseid.spark.worker import OURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NOWHERE = "/perseid/nowhere"
"""A folder that does not exist: the error of reading it shows if the session supports Delta."""
_UNKNOWN = ("DATA_SOURCE_NOT_FOUND", "Failed to find", "DELTA_CONFIGURE_SPARK_SESSION")
_ABSENT = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST")


class Delta(Sink):
    """A Delta table, by path or by name; it is created if it does not exist, and new columns are added."""

    guarantee: ClassVar[str] = (
        "Exactly once: the table's log has the number of the last batch of each job, and a retried batch is skipped; "
        "with changes: fold, a change applies if its revision is higher than that of its row."
    )

    path: str | None = None
    """The folder of the table."""
    table: str | None = None
    """The name of the table in the catalog, such as ``alarms`` or ``ops.alarms``."""
    changes: Literal["append", "fold"] = "append"
    """Retractions: ``append`` writes every change with its ``op`` and ``revision``, ``fold`` current matches only.

    A folded table belongs to one job: a job with a new checkpoint counts revisions anew.
    """

    _mode: str | None = PrivateAttr(default=None)
    """The write mode after a restore of the checkpoint or of the table; None for plain appends."""

    @model_validator(mode="after")
    def _one_place(self) -> Delta:
        if (self.path is None) == (self.table is None):
            raise ValueError("expected exactly one of path and table")
        return self

    @property
    def _name(self) -> str:
        """The table's name in SQL."""
        return self.table if self.table is not None else f"delta.{quoted(str(self.path))}"

    def describe(self) -> str:
        return f"delta {self.path or self.table}"

    def prepare(self, session: SparkSession, schema: StructType, job: str) -> None:
        lacking = [name for name in (*NAMED_BY, OP, REVISION) if name not in schema.fieldNames()]
        if self.changes == "fold" and lacking:
            raise SettingsError(
                f"{self.describe()}: changes: fold is for matches only; column {lacking[0]!r} not found in the output.",
                hint="Use changes: append.",
            )
        with failing(self.describe(), None):
            if self.path is None:
                self._columns(lambda: session.read.format("delta").load(NOWHERE))  # raises without Delta
            self._table_columns(session)

    def _table_columns(self, session: SparkSession) -> list[str] | None:
        """The columns of the table; None if it does not exist yet."""
        if self.path is not None:
            return self._columns(lambda: session.read.format("delta").load(self.path))
        return self._columns(lambda: session.table(str(self.table)))

    def _columns(self, read: Callable[[], DataFrame]) -> list[str] | None:
        try:
            return list(read().columns)
        except Exception as error:
            message = str(error)
            if any(sign in message for sign in _UNKNOWN):
                raise SettingsError(
                    f"This Spark session does not support Delta: {error_summary(error)[:200]}",
                    hint="Add the Delta jar for this version of Spark, and set "
                    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
                    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog.",
                ) from None
            if any(sign in message for sign in _ABSENT):
                return None
            raise

    def resume(self, session: SparkSession, job: str, planned: PlannedBatches) -> str | None:
        with failing(self.describe(), None):
            columns = self._table_columns(session)
            if columns is None:
                return None
            commits = commits_of(session, self._name, job)
            self._mode = read_mode(session, self._name, job)
            first = planned.first_replaced(live_digests(commits, planned.oldest))
            if self._mode == MERGE:
                return None
            if first is None:
                undone = undone_version(commits)
                if undone is not None:
                    self._switch(session, job, f"append {undone}")
                return None
            if (obstacle := self._unmergeable(session, columns)) is not None:
                raise self._not_restored(obstacle, first, commits)
            if self.changes == "append":
                self._switch(session, job, MERGE)
        return f"batches from {first} on are written again; existing rows are not inserted again"

    def _switch(self, session: SparkSession, job: str, mode: str) -> None:
        if self._mode != mode:
            write_mode(session, self._name, job, mode)
            self._mode = mode

    def _unmergeable(self, session: SparkSession, columns: Sequence[str]) -> str | None:
        """The reason why retried rows of this table cannot be recognized; None if they can."""
        rows = session.table(self._name)
        name = next((name for name in NAMES if name in columns), None)
        if name is None or not rows.where(f"{quoted(name)} is null").isEmpty():
            return "rows without match_id or id"
        if REVISION in columns and not rows.where(f"{REVISION} > 0").isEmpty():
            return "changes with revisions, which are renumbered"
        return None

    def _not_restored(self, obstacle: str, first: int, commits: Sequence[DeltaCommit]) -> RestoredCheckpointError:
        before = min(commit.version for commit in commits if commit.is_live and commit.batch >= first) - 1
        remedy = f"RESTORE TABLE {self._name} TO VERSION AS OF {before}" if before >= 0 else f"DROP TABLE {self._name}"
        return RestoredCheckpointError(
            f"{self.describe()}: The table has batches from {first} on that the checkpoint does not have, because the "
            f"checkpoint was restored from an older copy. The table has {obstacle}, so these batches cannot be written "
            "again without duplicates.",
            sink=self.describe(),
            batch=None,
            hint=f"Restore the table as well, then start the job again: {remedy}; this also undoes later commits of "
            "other writers. Or use a new checkpoint and another table.",
        )

    def write(self, batch: Batch) -> None:
        with failing(self.describe(), batch):
            rows = storable(batch.rows, intervals=False)
            record = record_of(batch.job, batch.number, batch.digest)
            if self.changes == "fold":
                with _committing(rows.sparkSession, record):
                    self._fold(rows, batch.number)
            elif self._mode == MERGE:
                with _committing(rows.sparkSession, record):
                    self._merge(rows)
            else:
                name = batch.job if self._mode is None else f"{batch.job} {self._mode}"
                self._append(rows, {"txnAppId": name, "txnVersion": str(batch.number), "userMetadata": record})

    def _append(self, rows: DataFrame, options: dict[str, str]) -> None:
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true").options(**options)
        if self.path is not None:
            writer.save(self.path)
        else:
            writer.saveAsTable(str(self.table))

    def _merge(self, rows: DataFrame) -> None:
        named = next((name for name in NAMES if name in rows.columns), None)
        if named is None:
            raise SettingsError(
                "After a restore of the checkpoint, rows are merged by match_id or id; these rows have neither.",
                hint="Use a new checkpoint and another table.",
            )
        self._widen(rows)
        keys = [name for name in (PATTERN, KIND, named, REVISION) if name in rows.columns]
        insert_missing(rows, self._name, keys, OURS)

    def _fold(self, rows: DataFrame, number: int) -> None:
        self._widen(rows)
        FoldInto(self._name)(rows, number)

    def _widen(self, rows: DataFrame) -> None:
        """Create the table, or add new columns, without rows."""
        existing = {name.lower() for name in self._table_columns(rows.sparkSession) or ()}
        if any(name.lower() not in existing for name in rows.columns):
            self._append(rows.limit(0), {})


@contextmanager
def _committing(session: SparkSession, record: str) -> Iterator[None]:
    """Add a record to the commits of this session; a writer takes it as an option, a merge does not."""
    session.conf.set(USER_METADATA, record)
    try:
        yield
    finally:
        session.conf.unset(USER_METADATA)
