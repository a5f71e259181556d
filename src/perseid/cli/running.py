"""``perseid run`` and ``perseid status``: run a job until it is stopped, and show the status of a job."""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import perseid as ps
from perseid.cli.cluster import needs_spark, session_for
from perseid.cli.common import fail, misuse
from perseid.redaction import redact, safe_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from perseid.jobs.job_plan import RunStatus
    from perseid.jobs.metrics import StatusFile
    from perseid.jobs.runner import JobRunner
    from perseid.jobs.spec import JobFile

JobPath = Annotated[Path, typer.Argument(metavar="JOB", help="The job file: YAML or TOML.")]
PARTITIONS = "spark.sql.shuffle.partitions"
ORIGINS = "spark.python.sql.dataFrameDebugging.enabled"
"""Spark looks up the Python line of every expression, and a job creates hundreds whenever its rules change."""
DAEMON = "spark.python.daemon.module"
CLUSTER_TASKS = 8
"""Default number of tasks of a batch on a cluster; on one machine it is the number of cores.

An empty task takes time, too, and a checkpoint fixes the number.
"""
SILENT_AFTER_S = 60.0
"""Time without a batch after which a job is shown as silent."""
MAX_RULES_SHOWN = 20
"""Maximum number of rule names in a terminal."""


def run_command(
    job: JobPath,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Master URL of the cluster, as for spark-submit.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Read the available records, then end.")] = False,
    from_history: Annotated[
        bool,
        typer.Option(
            "--from-history", help="Read stream.history first, then the live source; requires a new checkpoint."
        ),
    ] = False,
) -> None:
    """Run a job until it is stopped: Ctrl-C or SIGTERM ends it after the current batch.

    Example: perseid run job.yaml
    """
    needs_spark("run")
    read = read_or_fail(job)
    from perseid.jobs.assembly import assemble, describe_job
    from perseid.jobs.runner import JobRunner

    try:
        with session_of_job("run", read, master) as spark:
            plan = assemble(read, spark, once=once, from_history=from_history)
            assert plan.metrics is not None
            runner = JobRunner(plan)
            _handle_signals(runner)
            for line in describe_job(read):
                typer.echo(line, err=True)
            if read.metrics.port is not None:
                port = plan.metrics.serve(read.metrics.host, read.metrics.port)
                typer.echo(f"metrics on http://{read.metrics.host}:{port}/metrics", err=True)
            try:
                status = runner.run()
            finally:
                plan.metrics.close()
    except ps.PerseidError as error:
        raise fail(error, job) from None
    typer.echo(f"{read.job}: {describe_batches(status)}; {summary(plan.metrics.match_counts)}", err=True)


def describe_batches(status: RunStatus) -> str:
    """Number of batches of this run, and the last one as Spark, the status and the console number it: from 0."""
    if status.last_batch is None:
        return "no batch"
    count = "1 batch" if status.batches == 1 else f"{status.batches:,} batches"
    return f"{count}, the last is batch {status.last_batch}"


@contextmanager
def session_of_job(command: str, job: JobFile, master: str | None) -> Iterator[SparkSession]:
    """Provide the Spark session of a job."""
    from perseid.jobs.job_plan import JobError
    from perseid.jobs.spark_errors import first_line
    from perseid.jobs.spec import secret_options
    from perseid.settings import Secret, revealed

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs every query that ends for other rules
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_RedactingFormatter("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("perseid.jobs").setLevel(logging.INFO)  # added and removed rules
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers would start the system's Python
    where = master or _master()
    if (where or "").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # a job on one machine needs no other address
    spark_settings = revealed(job.spark)
    secrets = {name: spark_settings.pop(name) for name, value in job.spark.items() if isinstance(value, Secret)}
    settings = {**settings_of(job.stream.shards, where), **spark_settings}
    try:
        with session_for(f"{command} {job.job}", where, None, settings, secrets, secret_options(job)) as spark:
            yield spark
    except (ps.PerseidError, typer.Exit):
        raise
    except Exception as error:
        if safe_cause(error) is not None:
            raise
        raise JobError(f"Job {job.job!r} failed: {first_line(error)}") from None  # its trace has a secret


class _RedactingFormatter(logging.Formatter):
    """Redacts secrets in log lines and tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def read_or_fail(job: Path) -> JobFile:
    """Read a job file; an error is printed and ends the command."""
    try:
        from perseid.jobs.reading import read_job

        return read_job(job)
    except ps.PerseidError as error:
        raise fail(error, job) from None


def _master() -> str | None:
    """All cores of this machine, unless spark-submit or the environment sets a master."""
    is_set = "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ or "MASTER" in os.environ
    return None if is_set else "local[*]"


def settings_of(shards: int, master: str | None) -> dict[str, str]:
    """Default settings of the session of a job."""
    from perseid.sinks.kafka import V2_KAFKA_SETTINGS

    tasks = min(shards, _cores(master) or CLUSTER_TASKS)
    partitions = next(n for n in range(tasks, shards + 1) if shards % n == 0)
    # Only the Python of this process is known to have the module of the daemon.
    is_ours = _cores(master) is not None and os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable
    daemon = {DAEMON: "perseid.spark.worker_daemon"} if is_ours else {}
    return {
        PARTITIONS: str(partitions),
        "spark.sql.session.timeZone": "UTC",
        ORIGINS: "false",
        **daemon,
        **V2_KAFKA_SETTINGS,
    }


def _cores(master: str | None) -> int | None:
    """Number of parallel tasks of a local master; None for a cluster."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master or "")
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)


def _handle_signals(runner: JobRunner) -> None:
    """End after the current batch on the first signal, at once on the second."""

    def leave(number: int, _frame: FrameType | None) -> None:
        runner.stop()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)


def summary(counts: Mapping[str, int]) -> str:
    """Number of matches, in total and by pattern."""
    total = sum(counts.values())
    text = "1 match" if total == 1 else f"{total:,} matches"
    return f"{text} ({', '.join(f'{name} {count:,}' for name, count in sorted(counts.items()))})" if counts else text


def status_command(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file, or the checkpoint of the job.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Update the status until Ctrl-C.")] = False,
) -> None:
    """Show job status: batches, rates, watermark, state, matches of each pattern, rejected and quarantined rules.

    Example: perseid status job.yaml --watch
    """
    if as_json and watch:
        raise misuse("Give --json or --watch, not both.")
    checkpoint = str(job) if job.is_dir() else read_or_fail(job).checkpoint
    status = _read_status(checkpoint)
    if status is None:
        typer.echo(f"No job status found in checkpoint {checkpoint}. Start the job with: perseid run JOB", err=True)
        raise typer.Exit(1)
    if as_json:
        typer.echo(json.dumps(status, ensure_ascii=False))
        return
    console = Console()
    if not watch:
        console.print(shown(status, time.time()))
        return
    with Live(shown(status, time.time()), console=console, refresh_per_second=2) as live:
        try:
            while True:
                time.sleep(0.5)
                status = _read_status(checkpoint) or status
                live.update(shown(status, time.time()))
        except KeyboardInterrupt:
            return


_NEEDED = ("job", "since", "last", "totals", "gauges", "matches_by_pattern", "rejected")
"""Keys of the status file that the status is shown from."""


def _read_status(checkpoint: str) -> StatusFile | None:
    from perseid.jobs.batch_log import JOB_FOLDER
    from perseid.jobs.folders import Folder
    from perseid.jobs.metrics import STATUS

    body = (Folder(checkpoint) / JOB_FOLDER).read(STATUS)
    if body is None:
        return None
    try:
        found: StatusFile = json.loads(body)
    except ValueError:
        return None
    missing = [name for name in _NEEDED if name not in found] if isinstance(found, dict) else list(_NEEDED)
    if missing:
        typer.echo(
            f"The job status in checkpoint {checkpoint} is of another version of Perseid: {', '.join(missing)} not found.\n"
            "  = Show it with the version that runs the job, or restart the job with this version.",
            err=True,
        )
        raise typer.Exit(1)
    return found


def _listed(rules: Sequence[str]) -> str:
    more = len(rules) - MAX_RULES_SHOWN
    return ", ".join([*rules[:MAX_RULES_SHOWN], *([f"and {more:,} more"] if more > 0 else [])])


def shown(status: StatusFile, now: float) -> Group:
    """Render the status of a job for a terminal."""
    last, totals, levels = status["last"], status["totals"], status["gauges"]
    refused = [Text(f"rejected: {message}") for message in status["rejected"].values()]
    refused += [Text(f"warning: {message}", style="bold red") for message in status.get("warnings", ())]
    refused += [Text(f"quarantined: {name}: {reason}") for name, reason in status.get("quarantined", {}).items()]
    rules = _listed(status.get("rules", ()))
    if last is None:
        head = Text(f"{status['job']}: started {max(0.0, now - status['since']):,.0f} s ago, no batch yet")
        head.stylize("bold")
        return Group(head, *([Text(f"rules: {rules}")] if rules else []), *refused)
    at = dt.datetime.fromisoformat(last["at"]).timestamp()
    ago = max(0.0, now - at)
    silent = " (no recent batch)" if ago > SILENT_AFTER_S else ""
    head = Text(f"{status['job']}: batch {last['batch']}, {ago:,.0f} s ago{silent}")
    head.stylize("bold")
    rate = last["read"] / last["seconds"] if last["seconds"] else 0.0
    facts = Table(show_header=False, box=None, pad_edge=False)
    for name, value in (
        ("rows read", f"{totals['read']:,} ({rate:,.0f} per second in the last batch)"),
        ("events, late, malformed", f"{totals['events']:,}, {totals['late']:,}, {totals['bad']:,}"),
        ("too far in the future", f"{totals.get('ahead', 0):,}"),
        ("watermark", last["watermark"] or "none yet"),
        ("source lag", f"{last['lag']:,} rows"),
        ("batch duration", f"{last['seconds']:.2f} s"),
        ("retained events, keys, bytes", f"{levels.get('retained_events', 0):,}, {levels.get('live_keys', 0):,}, "
                  f"{levels.get('state_bytes', 0):,}"),
        ("dead letters", f"{totals['dead_letters']:,}"),
        ("capped, dropped", f"{totals['capped']:,}, {totals['dropped']:,}"),
        *([("rules", rules)] if rules else []),
        ("rule changes", f"{status.get('changes', 0)}"),
    ):  # fmt: skip
        facts.add_row(name, value)
    counts = Table("matches", "total", "last batch", box=None, pad_edge=False)
    for name, count in sorted(status["matches_by_pattern"].items()):
        counts.add_row(name, f"{count:,}", f"{last['matches_by_pattern'].get(name, 0):,}")
    return Group(head, facts, *([counts] if status["matches_by_pattern"] else []), *refused)
