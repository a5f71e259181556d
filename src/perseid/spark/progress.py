"""Counters of a stream, from the progress that Spark records of it."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from perseid.errors import EventDataError, InputWarning, warn
from perseid.runtime.counters import COUNTERS, GAUGES
from perseid.spark.input_counts import Fields, read_types, warn_of_input
from perseid.spark.stream import COUNTED, OBSERVED
from perseid.spark.stream_worker import BY_SHARD

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.streaming.query import StreamingQuery

AHEAD_OF_CLOCK_ADVICE = (
    "rows with times in the future were accepted, and rows up to the watermark are late. Set max_ahead to reject them; "
    "the operations guide describes how to recover a stream with such a watermark in its checkpoint."
)


@dataclass(frozen=True)
class Progress:
    """Counters over a stream's last batches, as many as Spark retains.

    Spark's setting ``spark.sql.streaming.numRecentProgressUpdates`` limits their number.
    """

    batches: int
    watermark: str | None
    """Event time up to which input is complete; None before the first watermark."""
    read: int | None
    """Rows read from the sources."""
    filtered: int | None
    """Rows that no step can match: Spark dropped them before the shuffle."""
    events: int
    """Accepted rows."""
    by_type: Mapping[str, int]
    """Rows that reached the patterns, including late ones, by event type that a step names."""
    late: int
    bad: int
    ahead: int
    """Rows with a time more than ``max_ahead`` after their arrival."""
    matches: int
    timed_out: int
    retracted: int
    """Matches that were emitted and later retracted."""
    suppressed: int
    evidence_dropped: int
    capped: int
    duplicates: int
    incomplete: int
    """In the last batch: patterns, by shard, added or changed on a checkpoint, that may lack matches from before."""
    late_expected: int
    """Rows that an adaptive stream predicted to arrive too late."""
    impossible: int
    """Uncertain streams: readings that no value of the model explains; they carry no information."""
    sampled: int
    """Uncertain streams: steps that were sampled because the automaton of a pattern has too many states."""
    control_rows: int
    """Punctuations and subscription changes, by shard. Of punctuations for all keys, a task counts only the newest."""
    live_keys: int
    """Keys with state, as of the last call of each shard; the events and bytes likewise."""
    retained_events: int
    state_bytes: int

    def __str__(self) -> str:
        values = [(f.name.replace("_", " "), getattr(self, f.name)) for f in fields(self)]
        width = max(len(name) for name, _ in values)
        lines = [f"{name:<{width}}  {_shown(value)}" for name, value in values]
        if not self.matches and not self.timed_out:
            lines.append(self._silence())
        return "\n".join(lines)

    def _silence(self) -> str:
        """The reason for no output so far, as far as the counters show it."""
        if self.watermark is None:
            return "no output: no watermark yet; the first batch with a time sets it"
        if not self.events:
            return "no output: no row was accepted; check filtered, late and bad, and the event types in the pattern"
        return "no output: no match is final up to the watermark; use pattern.why_not(…) on the same rows to see why"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {count:,}" for name, count in value.items()) or "none"
    return str(value) if value is None or isinstance(value, str) else format(value, ",")


def progress(query: StreamingQuery, pattern: str | None = None) -> Progress:
    """Counters of a running or ended stream; warns if rows were read and a pattern has no match so far.

    If a query combines the output of several calls of ``match``, ``pattern`` selects one call: pass one of its patterns.
    """
    updates = list(query.recentProgress)
    recent = [update for update in updates if _observed(update)]
    names = list(dict.fromkeys(name for update in recent for name in _observed(update)))
    if pattern is not None:
        names = [name for name in names if pattern in name.removeprefix(OBSERVED).strip().split(", ")]
    if not names:
        raise EventDataError(
            "The query has no Perseid metrics yet."
            if pattern is None
            else f"The query has no metrics of a pattern {pattern!r}.",
            hint="Wait for the first batch. Only queries with matches as output have metrics.",
        )
    if len(names) > 1:
        raise EventDataError(
            f"The query combines the output of {len(names)} calls of match.",
            hint=f"Pass a pattern of one call: {', '.join(map(repr, names))}.",
        )
    counted = [counters(_observed(update)[names[0]]) for update in recent]
    sums = {
        name: sum(int(batch[name] or 0) for batch in counted) for name in COUNTERS if name not in (*GAUGES, "shards")
    }
    sums["incomplete"] = next((int(batch["incomplete"]) for batch in reversed(counted) if batch["shards"]), 0)
    gauges_by_shard: dict[str, list[int]] = {}
    for batch in counted:
        gauges_by_shard |= by_shard(batch)
    totals = [sum(numbers) for numbers in zip(*gauges_by_shard.values(), strict=True)] or [0] * len(GAUGES)
    sums |= dict(zip(GAUGES, totals, strict=True))
    rows = [_rows(update) for update in recent]
    read = None if None in rows else sum(n for n in rows if n is not None)
    by_type, required, idle = read_types(counted)
    if updates[0]["batchId"] != 0 or sums["matches"] or sums["timed_out"] or sums["retained_events"]:
        # Rows of an absent type may have arrived in earlier batches, or may still complete partial matches in state.
        required = {name: [] for name in required}
    # Spark counts ticks of the clock and punctuation rows as input rows, too.
    events_read = sums["events"] + sums["late"] + sums["bad"] + sums["ahead"]
    read_rows = events_read if idle or sums["control_rows"] else read or 0
    warn_of_input(required, by_type, sums["bad"], read_rows, sums["ahead"])
    watermark, at = _last_watermark(recent)
    if watermark is not None and at is not None and (ahead := seconds_ahead(watermark, at)) > 0:
        warn(f"The watermark {watermark} is {_span(ahead)} ahead of the clock: {AHEAD_OF_CLOCK_ADVICE}", InputWarning)
    return Progress(
        batches=len(recent),
        watermark=watermark,
        read=read,
        by_type=by_type,
        filtered=None if read is None else max(0, read - events_read),
        **sums,
    )


def _last_watermark(recent: Sequence[Fields]) -> tuple[str | None, str | None]:
    """The last watermark and the start time of its batch; None before the first watermark."""
    for update in reversed(recent):
        time = update["eventTime"].get("watermark")
        if time and not time.startswith("1970-01-01T00:00:00"):
            return time, update["timestamp"]
    return None, None


def seconds_ahead(watermark: str, clock: str) -> float:
    """Seconds that a watermark is ahead of a clock, both as Spark writes them; negative where it is behind."""
    if watermark.startswith("+"):
        return math.inf  # a year above 9999
    first, second = (dt.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (watermark, clock))
    return (first - second).total_seconds()


def _span(seconds: float) -> str:
    """A span in the largest unit that it fills."""
    if math.isinf(seconds):
        return "thousands of years"
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{seconds // size:,.0f} {unit}{'' if seconds < 2 * size else 's'}"
    return "less than a minute"


def _observed(update: Fields) -> Fields:
    return {name: row for name, row in (update["observedMetrics"] or {}).items() if name.startswith(OBSERVED)}


def counters(metrics: Fields | Row) -> Fields:
    """The counters of one batch, from its observed metrics."""
    return _fields(_fields(metrics)[COUNTED])


def batch_counts(update: Fields) -> Fields | None:
    """The counters of one batch, from Spark's progress; None without metrics of Perseid."""
    observed = list(_observed(update).values())
    return counters(observed[0]) if observed else None


def by_shard(counted: Fields) -> dict[str, list[int]]:
    """Gauges of each shard called in a batch, by its label."""
    shards = (shard.split(":") for shard in (counted[BY_SHARD] or "").split())
    return {label: [int(number) for number in numbers] for label, *numbers in shards}


def _fields(row: Fields | Row) -> Fields:
    """A row as a dict; Spark Connect delivers it as values and schema."""
    fields = row.asDict() if hasattr(row, "asDict") else dict(row)
    if "values" in fields and "schema" in fields:
        names = [field["name"] for field in fields["schema"]["fields"]]
        fields = dict(zip(names, fields["values"], strict=True))
    return fields


def _rows(update: Fields) -> int | None:
    """Rows that a batch read; Spark Connect reports them by source only."""
    total = update["numInputRows"]
    if total is not None:
        return int(total)
    parts = [source["numInputRows"] for source in update["sources"]]
    return None if None in parts else sum(parts)
