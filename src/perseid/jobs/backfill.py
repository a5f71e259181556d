"""Backfill: historical records first, then the live source, in one query with one checkpoint, without gap or overlap.

Both are sources of the query from its first batch on. A record before ``history.until`` comes from history, all others
from the live source. While history is read, each source has a watermark of its own and the query uses the minimum, so
live records wait. When history has been read, a last row with a time far in the future moves the watermark of history
there, so the minimum is the watermark of the live source. Spark does not store several watermarks in the checkpoint, so
a query that starts after the backfill has one watermark for both sources.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perseid.errors import SettingsError
from perseid.jobs.batch_log import JOB_FOLDER
from perseid.jobs.folders import Folder
from perseid.jobs.stream_kinds.contract import StreamSettings
from perseid.spark.ahead import mark_ahead
from perseid.spark.inputs import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
END_FOLDER = "history-end"
"""Folder of the row that ends the backfill."""
END_TIME = "9000-01-01T00:00:00Z"


@dataclass(frozen=True)
class Backfill:
    """Historical and live records of a job, and the row that ends the backfill."""

    historical: DataFrame
    """Records before the boundary."""
    live: DataFrame
    """Records of the live source from the boundary on."""
    end_row: DataFrame
    """The source of the row that ends the backfill."""
    time: str
    lateness: str
    end_folder: Folder

    @property
    def ended(self) -> bool:
        """True if all historical records were read, by this query or an earlier one."""
        return bool(self.end_folder.names())

    def is_read(self, query: StreamingQuery) -> bool:
        """True if the historical source, which is the first of the query, had no rows for the last batch."""
        last = query.lastProgress
        return last is not None and int(last["sources"][0]["numInputRows"] or 0) == 0

    def end(self) -> None:
        """Write the last row of history, after which the live source alone determines the watermark."""
        self.end_folder.write("end.json", json.dumps({self.time: END_TIME}).encode())

    def union(self) -> DataFrame:
        """Return the union of both sources, with separate watermarks before the end and a common one after it.

        The sources and their order never change.
        """
        if not self.ended:
            before = self.historical.unionByName(self.end_row, allowMissingColumns=True)
            parts = [part.withWatermark(self.time, self.lateness) for part in (before, self.live)]
            # The end row moves the watermark and goes no further: in a state it would be the newest event for ever, and
            # a changed rule takes only later events.
            column = quoted(self.time)
            historical = parts[0].where(f"{column} is null or {column} < timestamp'{END_TIME}'")
            return historical.unionByName(parts[1], allowMissingColumns=True)
        no_row = self.end_row.where(f"{quoted(self.time)} is null and false")
        before = self.historical.unionByName(no_row, allowMissingColumns=True)
        return before.unionByName(self.live, allowMissingColumns=True).withWatermark(self.time, self.lateness)


def create_backfill(live: DataFrame, stream: StreamSettings, checkpoint: str) -> Backfill:
    """Open the historical source of a stream; ``max_ahead`` bounds the times of both sources, but not the end row."""
    history, lateness = stream.backfill_source(), stream.lateness
    if history is None or lateness is None:
        raise SettingsError("The stream has no history or no lateness.")
    session, time = live.sparkSession, stream.time_columns()["source"]
    policy = session.conf.get(POLICY, "min")
    if policy != "min":
        raise SettingsError(
            f"Unexpected {POLICY} {policy!r}: a job with history needs min.", hint="Remove the setting."
        )
    end_folder = Folder(checkpoint) / JOB_FOLDER / END_FOLDER
    end_folder.make()
    historical = history.source.open(session, streaming=True)
    missing = [name for name in live.columns if name not in historical.columns]
    if missing:
        raise SettingsError(
            f"Column {missing[0]!r} of the live source not found in stream.history.", hint="Use one schema for both."
        )
    column, until = quoted(time), f"timestamp'{history.until.isoformat(sep=' ')}'"
    # Both sources include records without a time, which are output as bad rows.
    return Backfill(
        mark_ahead(historical.where(f"{column} < {until} or {column} is null"), time, stream.max_ahead_us),
        mark_ahead(live.where(f"{column} >= {until} or {column} is null"), time, stream.max_ahead_us),
        session.readStream.schema(f"{column} timestamp").json(end_folder.where),
        time,
        lateness,
        end_folder,
    )
