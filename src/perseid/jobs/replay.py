"""History through a job's rules, as one finished table: what they would have told, before they are let run.

Rules, stream and sources are those of the job's file; its sinks, its checkpoint and its limits are left alone. A finished table has
nothing late in it, and its answers are those of a stream in which everything came in time. Records dated too far in the future are
left out, as a job that read them now would reject them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from perseid.declare import micros_of
from perseid.jobs.assembly import replayed
from perseid.jobs.spec import JobFile
from perseid.jobs.stream_spec import AnyStream, BeliefStream, DocumentStream, EventStream, ModelStream, sources_of
from perseid.jobs.streams import max_ahead_of
from perseid.jobs.tally import Tally, heard
from perseid.sinks.rows import storable
from perseid.sources.contract import WRONG, Source
from perseid.spark.inputs import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


@dataclass(frozen=True)
class Replayed:
    """What became of it."""

    records: int
    """Records that were read, in the time that was asked for."""
    bad: int
    """Those of them that could not be read, or have no time."""
    ahead: int
    """Those of them whose time lies beyond the present by more than ``max_ahead``: no rule is evaluated over them."""
    since: dt.datetime | None
    """The time of the first of them, in UTC."""
    until: dt.datetime | None
    """That of the last."""
    answers: Mapping[str, int]
    """How many there are of each pattern."""
    rows: DataFrame
    """All of them, a DataFrame of the folder that they were written to."""


def places_of(job: JobFile) -> dict[str, Source]:
    """The sources that are read, by their place in the stream: history in place of the live source, where there is one."""
    found = sources_of(job.stream)
    history = getattr(job.stream, "history", None)
    return found if history is None else {**found, "source": history.source}


def replay(
    job: JobFile, session: SparkSession, folder: str, since: dt.datetime | None = None, until: dt.datetime | None = None
) -> Replayed:
    """Ask the rules of the moment of all there is, or of what lies in a time, and write the answers to a folder as Parquet."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    times, bounds, frames, seen = _times(job.stream), _bounds(job.stream), {}, []
    for place, source in places_of(job).items():
        frame, column = source.open(session, streaming=False), quoted(times[place])
        wanted = [f"{column} >= {_moment(since)}"] if since is not None else []
        wanted += [f"{column} < {_moment(until)}"] if until is not None else []
        if wanted:
            # A record without a time is no event of any time; it has to be told as such.
            frame = frame.where(f"({' and '.join(wanted)}) or {column} is null")
        bound = bounds[place]
        is_ahead = (
            "false" if bound is None else f"{column} > timestamp_micros(unix_micros(current_timestamp()) + {bound}L)"
        )
        wrong = f"{column} is null" + (f" or {WRONG} is not null" if WRONG in frame.columns else "")
        counts = [f.expr("count(1) as records"), f.expr(f"count_if({wrong}) as bad")]
        counts += [f.expr(f"count_if({is_ahead}) as ahead")]
        counts += [f.expr(f"unix_micros({end}(if({is_ahead}, null, {column}))) as {end}") for end in ("min", "max")]
        observed = Observation()
        seen.append((observed, frame, counts))
        frame = frame.observe(observed, *counts)
        frames[place] = frame if bound is None else frame.where(f"not coalesce({is_ahead}, false)")
    answers = replayed(job, frames)
    storable(answers.frame, intervals=True).write.parquet(folder)
    # Spark may lose what it observed; then it is counted again.
    counted = [heard(observed) or cast("Row", frame.agg(*counts).first()).asDict() for observed, frame, counts in seen]
    rows = session.read.parquet(folder)
    told: dict[str, int] = {}
    for (pattern, _), count in Tally(answers.versions)(rows).items():
        told[pattern] = told.get(pattern, 0) + count
    return Replayed(
        sum(one["records"] for one in counted),
        sum(one["bad"] for one in counted),
        sum(one["ahead"] for one in counted),
        min((_utc(one["min"]) for one in counted if one["min"] is not None), default=None),
        max((_utc(one["max"]) for one in counted if one["max"] is not None), default=None),
        told,
        rows,
    )


def _times(stream: AnyStream) -> dict[str, str]:
    """The column with the time, of every source."""
    if isinstance(stream, EventStream | DocumentStream):
        if isinstance(stream.time, str):
            return dict.fromkeys(sources_of(stream), stream.time)
        return {f"sources.{kind}": column for kind, column in stream.time.items()}
    found = {"source": stream.time}
    if isinstance(stream, BeliefStream):
        for number, other in enumerate(stream.beside):
            found |= {f"beside[{number}].{place}": column for place, column in _times(other).items()}
    elif isinstance(stream, ModelStream) and stream.beside is not None:
        found |= {f"beside.{place}": column for place, column in _times(stream.beside).items()}
    return found


def _bounds(stream: AnyStream) -> dict[str, int | None]:
    """How far times may lie in the future, in microseconds, of every source; None for no bound."""
    own = micros_of(max_ahead_of(stream), "max_ahead")
    found: dict[str, int | None] = dict.fromkeys(sources_of(stream), own)
    beside = getattr(stream, "beside", None) or []
    for number, other in enumerate(beside if isinstance(beside, list) else [beside]):
        prefix = f"beside[{number}]." if isinstance(beside, list) else "beside."
        found |= {f"{prefix}{place}": bound for place, bound in _bounds(other).items()}
    return found


def _moment(time: dt.datetime) -> str:
    return f"timestamp'{time.astimezone(dt.UTC).isoformat(sep=' ')}'"


def _utc(micros: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)
