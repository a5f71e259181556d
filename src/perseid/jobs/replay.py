"""Replay: run the rules of a job over historical records, as one finished table.

Rules, stream and sources are those of the job file; its sinks, checkpoint and limits are not used. No record of a finished
table is late, so the output equals that of a stream in which every record arrived in time. Records that are dated further
ahead than ``max_ahead`` are left out, as a job that read them now would reject them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pyspark.sql import Observation
from pyspark.sql import functions as f

from perseid.jobs.assembly import build_finished
from perseid.jobs.match_counter import MatchCounter, read_observation
from perseid.jobs.spec import JobFile
from perseid.sinks.rows import storable
from perseid.sources.contract import WRONG, Source
from perseid.spark.inputs import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


@dataclass(frozen=True)
class ReplayResult:
    """Counts and output rows of a replay."""

    records: int
    """Records that were read in the requested span of time."""
    bad: int
    """Records among them that cannot be parsed or have no time."""
    ahead: int
    """Records among them that are dated further ahead than ``max_ahead``; no rule is evaluated over them."""
    since: dt.datetime | None
    """Time of the first record, in UTC."""
    until: dt.datetime | None
    """Time of the last record, in UTC."""
    matches: Mapping[str, int]
    """Number of output rows by pattern."""
    rows: DataFrame
    """Output rows, read from the folder that they were written to."""


def replay_sources(job: JobFile) -> dict[str, Source]:
    """Sources of a replay, by path: history instead of the live source, if the job has one."""
    found = job.stream.sources_by_path()
    history = job.stream.backfill_source()
    return found if history is None else {**found, "source": history.source}


def replay(
    job: JobFile, session: SparkSession, folder: str, since: dt.datetime | None = None, until: dt.datetime | None = None
) -> ReplayResult:
    """Run the current rules over all records, or those in a time span, and write the output as Parquet to a folder."""
    times, bounds, frames, observations = job.stream.time_columns(), job.stream.max_ahead_bounds(), {}, []
    for path, source in replay_sources(job).items():
        frame, column = source.open(session, streaming=False), quoted(times[path])
        conditions = [f"{column} >= {_timestamp(since)}"] if since is not None else []
        conditions += [f"{column} < {_timestamp(until)}"] if until is not None else []
        if conditions:
            # A record without a time is in every span, so that it is counted as bad.
            frame = frame.where(f"({' and '.join(conditions)}) or {column} is null")
        bound = bounds[path]
        is_ahead = (
            "false" if bound is None else f"{column} > timestamp_micros(unix_micros(current_timestamp()) + {bound}L)"
        )
        wrong = f"{column} is null" + (f" or {WRONG} is not null" if WRONG in frame.columns else "")
        counts = [f.expr("count(1) as records"), f.expr(f"count_if({wrong}) as bad")]
        counts += [f.expr(f"count_if({is_ahead}) as ahead")]
        counts += [f.expr(f"unix_micros({end}(if({is_ahead}, null, {column}))) as {end}") for end in ("min", "max")]
        observation = Observation()
        observations.append((observation, frame, counts))
        frame = frame.observe(observation, *counts)
        frames[path] = frame if bound is None else frame.where(f"not coalesce({is_ahead}, false)")
    output = build_finished(job, frames)
    storable(output.frame, intervals=True).write.parquet(folder)
    # Spark may lose an observation; then the records are counted again.
    counted = [
        read_observation(observation) or cast("Row", frame.agg(*counts).first()).asDict()
        for observation, frame, counts in observations
    ]
    rows = session.read.parquet(folder)
    matches: dict[str, int] = {}
    for (pattern, _), count in MatchCounter(output.versions)(rows).items():
        matches[pattern] = matches.get(pattern, 0) + count
    return ReplayResult(
        sum(one["records"] for one in counted),
        sum(one["bad"] for one in counted),
        sum(one["ahead"] for one in counted),
        min((_utc(one["min"]) for one in counted if one["min"] is not None), default=None),
        max((_utc(one["max"]) for one in counted if one["max"] is not None), default=None),
        matches,
        rows,
    )


def _timestamp(time: dt.datetime) -> str:
    return f"timestamp'{time.astimezone(dt.UTC).isoformat(sep=' ')}'"


def _utc(micros: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)
