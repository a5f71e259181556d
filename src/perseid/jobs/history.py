"""History first, then live, through one query and one checkpoint: no gap and no double where they meet.

Both are sources of the same query from its first batch on, and a moment decides which of them a record is taken from.
While history is read, each has a watermark of its own, and time is the earlier of the two: live records wait. When all
of it was read, one row far in the future is its last, and from then on time is that of the live source. Spark forgets
with a query how far each of several watermarks was, so a query that starts after that has one for both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perseid.jobs.folders import Folder
from perseid.jobs.ledger import OWN
from perseid.jobs.stream_spec import History
from perseid.settings import SettingsError
from perseid.spark.ahead import mark_ahead
from perseid.spark.inputs import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
END = "history-end"
"""The folder of the row that ends history."""
FAR = "9000-01-01T00:00:00Z"


@dataclass(frozen=True)
class Past:
    """History as a running job sees it."""

    before: DataFrame
    """Its records, up to the moment from which on the live source is asked."""
    live: DataFrame
    last: DataFrame
    """The source of the row that ends history."""
    time: str
    lateness: str
    ending: Folder

    @property
    def ended(self) -> bool:
        """Whether all of it was read, by this query or one before."""
        return bool(self.ending.names())

    def is_read(self, query: StreamingQuery) -> bool:
        """Whether everything that history has was read: its source, which is the first, had nothing for a batch."""
        last = query.lastProgress
        return last is not None and int(last["sources"][0]["numInputRows"] or 0) == 0

    def end(self) -> None:
        """Let time be that of the live source."""
        self.ending.write("end.json", json.dumps({self.time: FAR}).encode())

    def joined(self) -> DataFrame:
        """One stream of both, with its watermark, or two: always of the same sources in the same order."""
        if not self.ended:
            old = self.before.unionByName(self.last, allowMissingColumns=True)
            parts = [part.withWatermark(self.time, self.lateness) for part in (old, self.live)]
            return parts[0].unionByName(parts[1], allowMissingColumns=True)
        nothing = self.last.where(f"{quoted(self.time)} is null and false")
        old = self.before.unionByName(nothing, allowMissingColumns=True)
        return old.unionByName(self.live, allowMissingColumns=True).withWatermark(self.time, self.lateness)


def past_of(
    live: DataFrame, history: History, time: str, lateness: str, checkpoint: str, max_ahead: int | None = None
) -> Past:
    """History beside the live source; ``max_ahead``, in microseconds, bounds the times of both, and not the row that ends history."""
    session = live.sparkSession
    policy = session.conf.get(POLICY, "min")
    if policy != "min":
        raise SettingsError(
            f"{POLICY} is {policy!r}, and with history time is the earlier of two.", hint="Leave it out, or write min."
        )
    ending = Folder(checkpoint) / OWN / END
    ending.make()
    before = history.source.open(session, streaming=True)
    missing = [name for name in live.columns if name not in before.columns]
    if missing:
        raise SettingsError(
            f"stream.history: it has no column {missing[0]!r}, which the live source has.", hint="Give both one schema."
        )
    column, moment = quoted(time), f"timestamp'{history.until.isoformat(sep=' ')}'"
    # A record without a time is no event wherever it is from; it has to be told as such.
    return Past(
        mark_ahead(before.where(f"{column} < {moment} or {column} is null"), time, max_ahead),
        mark_ahead(live.where(f"{column} >= {moment} or {column} is null"), time, max_ahead),
        session.readStream.schema(f"{column} timestamp").json(ending.where),
        time,
        lateness,
        ending,
    )
