"""``perseid replay``: run the rules of a job on historical data."""

from __future__ import annotations

import datetime as dt
import json
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import perseid as ps
from perseid.cli.cluster import needs_spark
from perseid.cli.common import fail, misuse
from perseid.cli.running import JobPath, read_or_fail, session_of_job, summary
from perseid.redaction import safe_cause

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

    from perseid.jobs.replay import ReplayResult

POLL_INTERVAL_S = 0.2
"""Interval at which the progress bar is updated."""


def replay_command(
    job: JobPath,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Exclude records before this time, e.g. 2026-01-31T06:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Exclude records at or after this time.")] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the matches to this new folder, as Parquet.")
    ] = None,
    show: Annotated[int, typer.Option(min=0, max=1000, help="Number of matches to show.")] = 10,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object with the numbers of records and matches.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Master URL of the cluster, as for spark-submit.")
    ] = None,
) -> None:
    """Run rules on historical data: the stream.history of a job, or all records of its source.

    Sinks and checkpoint of the job are not used.

    Example: perseid replay job.yaml --since 2026-01-01T00:00:00Z --to matches
    """
    needs_spark("replay")
    read = read_or_fail(job)
    if to is not None and to.exists():
        raise misuse(f"{to} already exists. Use a new folder.")
    span = _moment(since, "--since"), _moment(until, "--until")
    from perseid.jobs.replay import replay, replay_sources
    from perseid.sinks.console import show as show_rows

    if not as_json:
        for source in replay_sources(read).values():
            typer.echo(f"reads {source.describe()}", err=True)
    try:
        with tempfile.TemporaryDirectory(prefix="perseid-replay-") as aside:
            folder = str(to.resolve() if to is not None else Path(aside) / "matches")
            with session_of_job("replay", read, master) as spark:
                done = _with_progress(spark, lambda: replay(read, spark, folder, *span))
                if as_json:
                    typer.echo(json.dumps(_to_json(read.job, done), ensure_ascii=False))
                    return
                if show:
                    by = [name for name in ("end", "start", "match_id") if name in done.rows.columns]
                    show_rows(done.rows.orderBy(*by) if by else done.rows, "matches", show)
    except ps.PerseidError as error:
        raise fail(error, job) from None
    typer.echo(f"{read.job}: {_sentence(done)}", err=True)


def _moment(text: str | None, option: str) -> dt.datetime | None:
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise misuse(f"{option}: expected a time such as 2026-01-31T06:00:00Z, got {text!r}.") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def _to_json(job: str, done: ReplayResult) -> dict[str, object]:
    span = {
        name: None if time is None else time.isoformat() for name, time in (("from", done.since), ("to", done.until))
    }
    return {
        "job": job,
        "records": done.records,
        "bad": done.bad,
        "ahead": done.ahead,
        **span,
        "matches": dict(done.matches),
    }


def _sentence(done: ReplayResult) -> str:
    records = "1 record" if done.records == 1 else f"{done.records:,} records"
    span = "" if done.since is None or done.until is None else f" from {done.since:%F %T} to {done.until:%F %T} UTC"
    bad = f", {done.bad:,} of them malformed" if done.bad else ""
    bad += f", {done.ahead:,} too far in the future" if done.ahead else ""
    return f"{records}{span}{bad}; {summary(done.matches)}"


def _with_progress(spark: SparkSession, work: Callable[[], ReplayResult]) -> ReplayResult:
    """Run the work with a progress bar that counts the tasks of Spark."""
    context = getattr(spark, "sparkContext", None)  # a session over Connect has none, and the bar then only moves
    group, results, failed = uuid.uuid4().hex, [], []

    def run() -> None:
        try:
            if context is not None:
                context.setJobGroup(group, "perseid replay", interruptOnCancel=True)
            results.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        bar = progress.add_task("matching", total=None)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(POLL_INTERVAL_S)
                done, total = (0, 0) if context is None else _tasks(context.statusTracker(), group)
                progress.update(bar, completed=done, total=total or None)
        except KeyboardInterrupt:
            if context is not None:
                context.cancelJobGroup(group)
            raise typer.Exit(130) from None
    if failed:
        error = failed[0]
        if isinstance(error, ps.PerseidError):
            raise error
        from perseid.jobs.job_plan import JobError
        from perseid.jobs.spark_errors import first_line, hint_of

        raise JobError(f"The replay failed: {first_line(error)}", hint=hint_of(error)) from safe_cause(error)
    return results[0]


def _tasks(tracker: StatusTracker, group: str) -> tuple[int, int]:
    """Completed tasks of a job group, and all tasks in the stages that Spark has planned."""
    done = total = 0
    for number in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(number)
        for stage in job.stageIds if job is not None else ():
            if (info := tracker.getStageInfo(stage)) is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
    return done, total
