"""``perseid``, the command line: errors are sentences.

Exit status 1 means an invalid pattern, job or test, or misconfigured executors; 2 means an invalid call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import perseid as ps
from perseid.cli import cluster, common, error_codes, jobs, patterns, replaying, running, starter, testing, trying

app = typer.Typer(
    name="perseid",
    help="Complex event processing for Apache Spark, in Python.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"perseid {ps.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the traceback of an error.")] = False,
) -> None:
    """Complex event processing for Apache Spark, in Python."""
    common.show_traces(verbose)


_COMMANDS: dict[str, Callable[..., None]] = {
    "check": patterns.check_command,
    "explain": patterns.explain_command,
    "draw": patterns.draw_command,
    "try": trying.try_command,
    "why-not": trying.why_not_command,
    "run": running.run_command,
    "replay": replaying.replay_command,
    "status": running.status_command,
    "test": testing.check_rules,
    "new": starter.new_command,
    "schema": jobs.schema_command,
    "doctor": cluster.doctor_command,
    "inspect": cluster.inspect_command,
    "explain-error": error_codes.explain_error_command,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
