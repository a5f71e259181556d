"""Answers in a Delta table, each batch in one transaction that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from perseid.engines.disorder.schema import NAMED_BY, OP, REVISION
from perseid.settings import SettingsError
from perseid.sinks.contract import Batch, Sink
from perseid.sinks.failures import failing, words
from perseid.sinks.rows import storable
from perseid.spark.changes import FoldInto
from perseid.spark.inputs import quoted

NOWHERE = "/perseid/nowhere"
"""A folder that is not there: what is said of it says whether its format is known."""
_UNKNOWN = ("DATA_SOURCE_NOT_FOUND", "Failed to find", "DELTA_CONFIGURE_SPARK_SESSION")
_ABSENT = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST")


class Delta(Sink):
    """A Delta table, by path or by name; it is created where there is none, and grows by the columns that are new."""

    guarantee: ClassVar[str] = (
        "Exactly once: the table's log holds the number of the last batch of each job, and one that comes again is passed over; "
        "folded, a change counts where its revision is above that of its row."
    )

    path: str | None = None
    """The table's folder."""
    table: str | None = None
    """The table's name in the catalog, as ``alarms`` or ``ops.alarms``."""
    changes: Literal["append", "fold"] = "append"
    """What becomes of a stream that takes back: ``append`` keeps every change with its ``op`` and ``revision``, ``fold`` keeps what stands.
    A folded table belongs to one job: one that starts anew counts revisions anew."""

    @model_validator(mode="after")
    def _one_place(self) -> Delta:
        if (self.path is None) == (self.table is None):
            raise ValueError("say path or table, one of them")
        return self

    @property
    def _name(self) -> str:
        """What SQL calls it."""
        return self.table if self.table is not None else f"delta.{quoted(str(self.path))}"

    def told(self) -> str:
        return f"delta {self.path or self.table}"

    def prepare(self, session: Any, schema: Any, job: str) -> None:
        lacking = [name for name in (*NAMED_BY, OP, REVISION) if name not in schema.fieldNames()]
        if self.changes == "fold" and lacking:
            raise SettingsError(
                f"{self.told()}: what stands can be kept of matches alone, and these answers have no column {lacking[0]!r}.",
                hint="Keep all of them: changes: append.",
            )
        with failing(self.told(), None):
            if self.path is None:
                self._columns(lambda: session.read.format("delta").load(NOWHERE))  # whether Delta is known at all
            self._there(session)

    def _there(self, session: Any) -> list[str] | None:
        """The columns of the table; None where there is none yet."""
        if self.path is not None:
            return self._columns(lambda: session.read.format("delta").load(self.path))
        return self._columns(lambda: session.table(self.table))

    def _columns(self, read: Callable[[], Any]) -> list[str] | None:
        try:
            return list(read().columns)
        except Exception as error:
            said = str(error)
            if any(sign in said for sign in _UNKNOWN):
                raise SettingsError(
                    f"This Spark session does not know Delta: {words(error)[:200]}",
                    hint="Give it the jar of Delta for its version, spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
                    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog.",
                ) from None
            if any(sign in said for sign in _ABSENT):
                return None
            raise

    def write(self, batch: Batch) -> None:
        with failing(self.told(), batch):
            rows = storable(batch.rows, intervals=False)
            if self.changes == "fold":
                self._fold(rows, batch.number)
            else:
                self._append(rows, {"txnAppId": batch.job, "txnVersion": str(batch.number)})

    def _append(self, rows: Any, naming: dict[str, str]) -> None:
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true").options(**naming)
        if self.path is not None:
            writer.save(self.path)
        else:
            writer.saveAsTable(self.table)

    def _fold(self, rows: Any, number: int) -> None:
        there = {name.lower() for name in self._there(rows.sparkSession) or ()}
        if any(name.lower() not in there for name in rows.columns):
            # No rows, but their columns: the table is made, or has those that are new.
            self._append(rows.limit(0), {})
        FoldInto(self._name)(rows, number)
