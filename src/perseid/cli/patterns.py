"""``perseid check``, ``explain`` and ``draw``: commands on patterns, without events."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import perseid as ps
from perseid.cli.common import (
    PatternFile,
    PatternFiles,
    PatternName,
    PatternOrJobFile,
    chosen,
    fail,
    is_job,
    load,
    misuse,
    pattern_files,
)
from perseid.cli.jobs import check_job, explain_job


class Form(StrEnum):
    text = "text"
    mermaid = "mermaid"
    dot = "dot"
    svg = "svg"


def check_command(
    files: PatternFiles,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per job file, one per line.")] = False,
) -> None:
    """Check patterns or jobs, and print errors with hints.

    For a job: its settings, its patterns against the columns of its source, its relations, and the guarantee of each sink.

    Example: perseid check rules.perseid more_rules/ job.yaml
    """
    wrong = None
    for file in files:
        if is_job(file):
            wrong = check_job(file, as_json) or wrong
            continue
        if as_json:
            raise misuse(f"--json is only supported for job files, got {file}.")
        try:
            for path in pattern_files(file):
                wrong = _checked(path) or wrong
        except ps.PerseidError as error:
            wrong = fail(error, file)
    if wrong is not None:
        raise wrong


def _checked(file: Path) -> typer.Exit | None:
    """Check one file and print the result; returns the exit of a command that failed."""
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", ps.errors.PerseidWarning)
        try:
            loaded = load(file).check()
        except ps.PerseidError as error:
            return fail(error, file)
    count = len(loaded)
    typer.echo(f"{file}: {count} pattern{'' if count == 1 else 's'}, OK: {', '.join(loaded.names)}")
    for doubt in doubts:
        typer.echo(f"note: {doubt.message}", err=True)
    return None


def explain_command(file: PatternOrJobFile, pattern: PatternName = None) -> None:
    """Explain how patterns are matched, and the state they need; for a job also its sources, sinks and guarantees.

    Example: perseid explain rules.perseid --pattern takeover
    """
    try:
        if is_job(file):
            typer.echo(explain_job(file, pattern), nl=False)
            return
        typer.echo(chosen(load(file), pattern).explain(), nl=False)
    except ps.PerseidError as error:
        raise fail(error, file) from None


def draw_command(
    file: PatternFile,
    form: Annotated[Form, typer.Option("--format", "-f", help="Output format.")] = Form.text,
    pattern: PatternName = None,
) -> None:
    """Draw the automata of the patterns.

    Example: perseid draw rules.perseid --format svg > rules.svg
    """
    try:
        patterns = chosen(load(file), pattern)
        if form is Form.svg and len(patterns) > 1:
            raise misuse(f"{file} has several patterns: {', '.join(patterns.names)}. Choose one with --pattern.")
        typer.echo(patterns.draw(form.value), nl=False)
    except ps.PerseidError as error:
        raise fail(error, file) from None
