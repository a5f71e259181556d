"""Describe the states in a checkpoint, read through Spark's state data source without changing them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perseid.errors import StateError
from perseid.runtime.contract import StateReport
from perseid.runtime.registry import report_of
from perseid.semantics import values as v

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUSIEST = 5


@dataclass(frozen=True)
class Inspection:
    """The states of a stream's shards."""

    reports: tuple[StateReport, ...]

    @property
    def busiest(self) -> list[tuple[str, int]]:
        """The keys with the most events in state, the busiest first."""
        counted: Counter[str] = Counter()
        for report in self.reports:
            for key, count in report.keys.items():
                counted[", ".join(f"{name}={value}" for name, value in key) or "all events"] += count
        return sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:BUSIEST]

    def __str__(self) -> str:
        if not self.reports:
            return "No state: no window is open, and no event is buffered for the watermark."
        shards, shards_with_state = self.reports[0].shards, len(self.reports)
        events, buffered = sum(r.events for r in self.reports), sum(r.buffered for r in self.reports)
        size = sum(r.bytes for r in self.reports)
        keys = sum(len(r.keys) for r in self.reports)
        horizons = [r.horizon for r in self.reports if r.horizon is not None]
        oldest = [r.oldest for r in self.reports if r.oldest is not None]
        lines = [
            f"{shards_with_state} of {shards} shards have state: {_pluralize(events, 'event')} of {_pluralize(keys, 'key')}, {size:,} bytes.",
            f"Searched up to {_moment(max(horizons))}. Shards without state may be further ahead."
            if horizons
            else "Not searched yet: no watermark so far.",
            f"{_pluralize(buffered, 'event')} buffered until the watermark passes; the oldest in state is from {_moment(min(oldest))}."
            if oldest
            else "No event is buffered; the state has other data, such as recent matches that suppress others.",
        ]
        opens: Counter[str] = Counter()
        for report in self.reports:
            opens.update(report.open)
        lines += [f"  {name}: {_pluralize(count, 'open partial match', 'es')}" for name, count in sorted(opens.items())]
        lines.append("Keys with the most events:")
        lines += [f"  {key}: {_pluralize(count, 'event')}" for key, count in self.busiest]
        return "\n".join(lines)


def inspect(session: SparkSession, checkpoint: str) -> Inspection:
    """Read the states in a checkpoint; needs no running query and does not affect one."""
    found = states(session, checkpoint)
    if found is None:
        raise _unreadable(checkpoint, "no batch has completed")
    return Inspection(tuple(map(report_of, found)))


def states(session: SparkSession, checkpoint: str) -> list[bytes] | None:
    """The stored states of a stream's shards; None if no batch has ended yet."""
    try:
        _ = session.streams.active  # a session that never had a stream cannot read state before this access
        rows = session.read.format("statestore").load(checkpoint).selectExpr("value.groupState.body as body").collect()
    except Exception as error:  # Spark raises a different type for each way in which a folder is no checkpoint
        if _NO_BATCH in str(error):
            return None
        raise _unreadable(checkpoint, first_message_line(error)) from None
    return [bytes(row.body) for row in rows if row.body is not None]


_NO_BATCH = "STDS_COMMITTED_BATCH_UNAVAILABLE"
_DAMAGED = "CANNOT_LOAD_STATE_STORE"


def first_message_line(error: BaseException) -> str:
    """The first informative line: errors of the bridge to Java begin with the name of a call."""
    lines = [
        line for line in str(error).strip().splitlines() if not line.startswith("An error occurred while calling ")
    ]
    return next(iter(lines), type(error).__name__).removeprefix(": ")


def _unreadable(checkpoint: str, reason: str) -> StateError:
    hint = "Use the folder that is the checkpointLocation of the query, after its first batch."
    if _DAMAGED in reason:
        hint = "Restore the folder from a copy, or start with another one: a file of its state is damaged or missing."
    return StateError(f"{checkpoint} cannot be read as the checkpoint of a stream of matches: {reason}", hint=hint)


def _pluralize(count: int, noun: str, plural: str = "s") -> str:
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def _moment(micros: int) -> str:
    return "the end of time" if v.moment(micros) is None else f"{v.clock(micros)} UTC"
