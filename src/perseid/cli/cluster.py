"""``perseid doctor`` and ``perseid inspect``: check executors, and summarize the state in a checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

import perseid as ps
from perseid.cli.common import misuse
from perseid.redaction import redact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from perseid.spark.doctor import Report


_QUIET = {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}


def doctor_command(
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Master URL of the cluster, as for spark-submit.")
    ] = None,
    remote: Annotated[str | None, typer.Option(metavar="URL", help="URL of a Spark Connect server.")] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A Spark setting, as for spark-submit; repeat for more."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check the versions of Python and perseid on the executors of a cluster.

    Example: perseid doctor --master spark://10.0.0.1:7077 --conf spark.submit.pyFiles=perseid.zip
    """
    if master is not None and remote is not None:
        raise misuse("Use --master or --remote, not both.")
    settings = [setting.partition("=") for setting in conf or []]
    for name, sign, value in settings:
        if not (name and sign):
            raise misuse(f"--conf: expected NAME=VALUE, got {name + value!r}.")
    report = _examined(master, remote, {name: value for name, _, value in settings})
    typer.echo(json.dumps(report.to_dict(), ensure_ascii=False) if as_json else str(report))
    if not report.ok:
        raise typer.Exit(1)


def _examined(master: str | None, remote: str | None, settings: Mapping[str, str]) -> Report:
    """Examine the executors of a session."""
    needs_spark("doctor")
    from perseid.spark.doctor import examine

    with session_for("doctor", master, remote, settings) as spark:
        return examine(spark)


def needs_spark(command: str) -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise misuse(f"perseid {command} needs pyspark.\nInstall it with: pip install 'perseid[spark]'") from None


@contextmanager
def session_for(
    command: str,
    master: str | None,
    remote: str | None,
    settings: Mapping[str, str],
    secrets: Mapping[str, str] | None = None,
    redacted: Collection[str] = (),
) -> Iterator[SparkSession]:
    """Provide the active session, or a session for the duration of the command.

    ``secrets`` are settings that are not passed on a command line; Spark redacts them and options with the ``redacted`` names.
    """
    from pyspark.sql import SparkSession

    from perseid.spark.private_settings import redacting, start_driver

    active = SparkSession.getActiveSession()
    # Java's logs would hide the report of the error; --conf enables them again.
    over_connect = remote is not None or "SPARK_REMOTE" in os.environ
    plain = {**({} if over_connect else _QUIET), **settings, "spark.app.name": f"perseid {command}"}
    if master is not None:
        plain["spark.master"] = master
    secrets = secrets or {}
    names = {*secrets, *redacted}
    try:
        found = start_driver(plain, secrets) if names and active is None and not over_connect else {}
        builder = SparkSession.builder
        if remote is not None:
            builder = builder.remote(remote)
        for name, value in {**plain, **secrets, **redacting(names, {**found, **plain})}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    except Exception as error:  # Java, the network and Spark each have their own.
        first = next(iter(redact(str(error)).strip().splitlines()), type(error).__name__)
        typer.echo(f"Failed to start a Spark session: {first}", err=True)
        raise typer.Exit(1) from None
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()


def inspect_command(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The checkpointLocation of a stream.")],
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Master URL of the cluster, as for spark-submit.")
    ] = None,
    remote: Annotated[str | None, typer.Option(metavar="URL", help="URL of a Spark Connect server.")] = None,
) -> None:
    """Summarize the state of a stream in its checkpoint: events, keys and open partial matches.

    Example: perseid inspect /data/checkpoints/takeover
    """
    if master is not None and remote is not None:
        raise misuse("Use --master or --remote, not both.")
    needs_spark("inspect")
    from perseid.spark.inspection import inspect

    with session_for("inspect", master or (None if remote else "local[1]"), remote, {}) as spark:
        try:
            typer.echo(str(inspect(spark, checkpoint)))
        except ps.PerseidError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
