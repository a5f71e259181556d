"""What a running stream has counted, read from the progress that Spark keeps of it."""

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

WHY_AHEAD_OF_CLOCK = (
    "rows with times in the future were accepted, and rows up to it are late. Bound them with max_ahead; the guide of "
    "operations says how to recover a stream whose checkpoint has such a watermark."
)


@dataclass(frozen=True)
class Progress:
    """A stream by its last batches, as many as Spark remembers (``spark.sql.streaming.numRecentProgressUpdates``)."""

    batches: int
    watermark: str | None
    """Everything up to here counts as complete; None before there is one."""
    read: int | None
    """Rows that were read."""
    filtered: int | None
    """Rows no step wants: Spark dropped them before they were moved."""
    events: int
    """Rows that were taken."""
    by_type: Mapping[str, int]
    """Rows that reached the patterns, late ones too, by each event type that a step names."""
    late: int
    bad: int
    ahead: int
    """Rows whose time lies beyond their arrival by more than ``max_ahead``."""
    matches: int
    timed_out: int
    retracted: int
    """Matches that were told and taken back."""
    suppressed: int
    evidence_dropped: int
    capped: int
    duplicates: int
    incomplete: int
    """In the last batch: patterns, by shard, that began after their first events may have come."""
    late_expected: int
    """Rows that an adaptive stream reckoned would come too late for it."""
    impossible: int
    """Of uncertain streams: readings that no value of the model explains; they were taken to say nothing."""
    sampled: int
    """Of uncertain streams: steps that were sampled because the automaton of a pattern has too many states."""
    promises: int
    """Promises that shards heard; of those about every key, all hear the newest of its kind that came in a task's rows."""
    live_keys: int
    """Keys of which anything is kept, by what each shard had when it was called last; so too the events and bytes."""
    kept_events: int
    state_bytes: int

    def __str__(self) -> str:
        values = [(f.name.replace("_", " "), getattr(self, f.name)) for f in fields(self)]
        width = max(len(name) for name, _ in values)
        lines = [f"{name:<{width}}  {_shown(value)}" for name, value in values]
        if not self.matches and not self.timed_out:
            lines.append(self._silence())
        return "\n".join(lines)

    def _silence(self) -> str:
        """Why there is no output yet, as far as the numbers say."""
        if self.watermark is None:
            return "no output: there is no watermark yet; the first one comes after the first batch that has a time"
        if not self.events:
            return (
                "no output: no row was taken; look at filtered, late and bad, and at the types that the pattern names"
            )
        return "no output: nothing is decided up to the watermark; pattern.why_not(…) on the same rows says how far they got"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {many:,}" for name, many in value.items()) or "none"
    return str(value) if value is None or isinstance(value, str) else format(value, ",")


def progress(query: StreamingQuery, pattern: str | None = None) -> Progress:
    """Counters of a running or ended stream; warns where rows were read and a pattern has no match so far.

    Where a query holds several detections, ``pattern`` names a pattern of the one that is meant.
    """
    updates = list(query.recentProgress)
    recent = [one for one in updates if _observed(one)]
    names = list(dict.fromkeys(name for one in recent for name in _observed(one)))
    if pattern is not None:
        names = [name for name in names if pattern in name.removeprefix(OBSERVED).strip().split(", ")]
    if not names:
        raise EventDataError(
            "The query has no progress of ours yet."
            if pattern is None
            else f"No detection here has a pattern {pattern!r}.",
            hint="It comes with the first batch; a query of other rows than matches has none.",
        )
    if len(names) > 1:
        raise EventDataError(
            f"The query holds {len(names)} detections.", hint=f"Name a pattern of one: {', '.join(map(repr, names))}."
        )
    counted = [counters(_observed(one)[names[0]]) for one in recent]
    sums = {name: sum(int(one[name] or 0) for one in counted) for name in COUNTERS if name not in (*GAUGES, "shards")}
    sums["incomplete"] = next((int(one["incomplete"]) for one in reversed(counted) if one["shards"]), 0)
    held: dict[str, list[int]] = {}
    for one in counted:
        held |= by_shard(one)
    totals = [sum(numbers) for numbers in zip(*held.values(), strict=True)] or [0] * len(GAUGES)
    sums |= dict(zip(GAUGES, totals, strict=True))
    rows = [_rows(one) for one in recent]
    read = None if None in rows else sum(n for n in rows if n is not None)
    by_type, required, idle = read_types(counted)
    if updates[0]["batchId"] != 0 or sums["matches"] or sums["timed_out"] or sums["kept_events"]:
        # Rows of an absent type may have come in earlier batches, or may still complete partial matches in state.
        required = {name: [] for name in required}
    # Spark counts ticks of the clock and punctuation rows as input rows, too.
    taken = sums["events"] + sums["late"] + sums["bad"] + sums["ahead"]
    read_rows = taken if idle or sums["promises"] else read or 0
    warn_of_input(required, by_type, sums["bad"], read_rows, sums["ahead"])
    watermark, at = _last_watermark(recent)
    if watermark is not None and at is not None and (ahead := seconds_ahead(watermark, at)) > 0:
        warn(f"The watermark {watermark} is {_span(ahead)} ahead of the clock: {WHY_AHEAD_OF_CLOCK}", InputWarning)
    return Progress(
        batches=len(recent),
        watermark=watermark,
        read=read,
        by_type=by_type,
        filtered=None if read is None else max(0, read - taken),
        **sums,
    )


def _last_watermark(recent: Sequence[Fields]) -> tuple[str | None, str | None]:
    """The last watermark, and when the batch began that had it; None before there is one."""
    for one in reversed(recent):
        time = one["eventTime"].get("watermark")
        if time and not time.startswith("1970-01-01T00:00:00"):
            return time, one["timestamp"]
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


def _observed(one: Fields) -> Fields:
    return {name: row for name, row in (one["observedMetrics"] or {}).items() if name.startswith(OBSERVED)}


def counters(metrics: Fields | Row) -> Fields:
    """What was counted in one batch, by the metrics that were observed."""
    return _fields(_fields(metrics)[COUNTED])


def batch_counts(one: Fields) -> Fields | None:
    """What was counted in one batch, by Spark's progress of it; None where it holds nothing of ours."""
    found = list(_observed(one).values())
    return counters(found[0]) if found else None


def by_shard(counted: Fields) -> dict[str, list[int]]:
    """What each shard that was called in a batch keeps, by its label: in the order of the gauges."""
    shards = (shard.split(":") for shard in (counted[BY_SHARD] or "").split())
    return {label: [int(number) for number in numbers] for label, *numbers in shards}


def _fields(row: Fields | Row) -> Fields:
    """A row by name; through Connect it comes as its values and its schema."""
    held = row.asDict() if hasattr(row, "asDict") else dict(row)
    if "values" in held and "schema" in held:
        names = [field["name"] for field in held["schema"]["fields"]]
        held = dict(zip(names, held["values"], strict=True))
    return held


def _rows(one: Fields) -> int | None:
    """Rows that a batch read; through Connect only its sources know."""
    whole = one["numInputRows"]
    if whole is not None:
        return int(whole)
    parts = [source["numInputRows"] for source in one["sources"]]
    return None if None in parts else sum(parts)
