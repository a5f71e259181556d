"""Fold changelogs of matches into current matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perseid.errors import EventDataError, UnsupportedError, type_name
from perseid.runtime.changelog import NAMED_BY, OP, REVISION
from perseid.spark.inputs import quoted
from perseid.spark.worker import OURS
from perseid.tables.rows import is_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND")
NO_MERGE = ("UNSUPPORTED_FEATURE.TABLE_OPERATION", "_LEGACY_ERROR_TEMP_2096")
"""Spark's error conditions for a table without MERGE; its first releases had no name for it."""
WITHOUT_MERGE = ("parquet", "orc", "csv", "json", "text", "avro")
"""Built-in formats of Spark, none of which supports MERGE."""


def fold(changes: DataFrame) -> DataFrame:
    """The current matches of a changelog: emitted and not retracted."""
    last = last_changes(changes)
    if changes.isStreaming:
        raise UnsupportedError(
            "A streaming changelog has no last change, so current_matches is unsupported on it.",
            hint="Use changes.writeStream.foreachBatch(ps.disorder.merge_into(table)) to maintain a table of current matches, "
            "or fold the written changes: ps.disorder.current_matches(spark.read.parquet(…)).",
        )
    return last.where(f"{OP} = '+'")


def last_changes(changes: DataFrame) -> DataFrame:
    """The change with the highest revision of each match; rows of rejected events are left out."""
    from pyspark.sql import functions as f

    if not is_spark(changes):
        raise EventDataError(
            f"fold expects a Spark DataFrame of changes, got {type_name(changes)}.",
            hint="Convert local rows first: spark.createDataFrame(…).",
        )
    lacking = [name for name in (*NAMED_BY, OP, REVISION) if name not in changes.columns]
    if lacking:
        raise EventDataError(
            f"Not a changelog of matches: column {lacking[0]!r} not found in the DataFrame.",
            hint="Pass the DataFrame that match returned, or one read from its written rows.",
        )
    row = f.struct(*(f.col(quoted(name)) for name in changes.columns))
    last = f.max_by(row, f.col(REVISION)).alias("last")
    return changes.where(f"{OP} is not null").groupBy(*NAMED_BY).agg(last).select("last.*")


@dataclass(frozen=True)
class FoldInto:
    """A ``foreachBatch`` function that folds each batch of a changelog into a table of current matches.

    A change applies only if its revision is above that of the stored row, so a retried batch changes nothing.
    """

    table: str
    using: str | None = None
    """Format for creating the table; None raises if the table does not exist."""

    def __post_init__(self) -> None:
        if self.using is not None and self.using.lower() in WITHOUT_MERGE:
            raise UnsupportedError(
                f"Tables in the format {self.using!r} do not support MERGE, which retractions require.",
                hint="Use a format that supports MERGE: ps.disorder.merge_into(…, using='delta').",
            )

    def __call__(self, batch: DataFrame, _number: int) -> None:
        # Without caching, each action would run the search, and count its events, again.
        last = last_changes(batch).persist()
        try:
            self._prepare(last)
            if not last.isEmpty():
                self._merge(last)
        finally:
            last.unpersist()

    def _prepare(self, last: DataFrame) -> None:
        """Create a missing table in the format ``using``; raise if the table or a column of the changes is missing."""
        table_columns = self._columns(last.sparkSession)
        if table_columns is None and self.using is not None:
            last.limit(0).writeTo(self.table).using(self.using).create()
            return
        if table_columns is None:
            raise EventDataError(
                f"Table {self.table} not found: cannot fold changes into it.",
                hint="Create it with the columns of the changes, or set a format to create it: "
                f"ps.disorder.merge_into({self.table!r}, using='delta').",
            )
        lower_names = {name.lower() for name in table_columns}
        lacking = [name for name in last.columns if name.lower() not in lower_names]
        if lacking:
            raise EventDataError(
                f"Column {lacking[0]!r} of the changes not found in table {self.table}.",
                hint=f"Add it: ALTER TABLE {self.table} ADD COLUMNS ({quoted(lacking[0])} {last.schema[lacking[0]].dataType.simpleString()}).",
            )

    def _columns(self, session: SparkSession) -> list[str] | None:
        from pyspark.errors import AnalysisException

        try:
            return list(session.table(self.table).columns)
        except AnalysisException as error:
            if error.getCondition() in MISSING:
                return None
            raise

    def _merge(self, last: DataFrame) -> None:
        from pyspark.errors import UnsupportedOperationException
        from pyspark.sql import functions as f

        # Internal names differ from all columns of the table, so the columns of the table need no qualifier.
        source_columns = {name: f"{OURS}{i}" for i, name in enumerate(last.columns)}
        same = " and ".join(f"{name} = {source_columns[name]}" for name in NAMED_BY)
        newer, op = f"{source_columns[REVISION]} > {REVISION}", source_columns[OP]
        assignments = {quoted(name): f.col(ours) for name, ours in source_columns.items()}
        merge = last.toDF(*source_columns.values()).mergeInto(self.table, f.expr(same))
        merge = merge.whenMatched(f.expr(f"{newer} and {op} = '-'")).delete()
        merge = merge.whenMatched(f.expr(newer)).update(assignments)
        merge = merge.whenNotMatched(f.expr(f"{op} = '+'")).insert(assignments)
        try:
            merge.merge()
        except UnsupportedOperationException as error:
            if error.getCondition() not in NO_MERGE:
                raise
            raise UnsupportedError(
                f"Table {self.table} does not support MERGE, which retractions require.",
                hint="Use a table that supports MERGE, such as Delta, in a session with its catalog and extension.",
            ) from None
