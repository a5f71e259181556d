"""``perseid check | explain | draw``: what patterns say, without events."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import perseid as ps
from perseid.cli.common import PatternFile, PatternFiles, PatternName, chosen, fail, is_job, load, misuse, pattern_files
from perseid.cli.jobs import check_job, explain_job


class Form(StrEnum):
    text = "text"
    mermaid = "mermaid"
    dot = "dot"


def check_command(
    files: PatternFiles,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a job's file, one a line.")] = False,
) -> None:
    """Say whether the patterns of files, or jobs, are right, and if not, what to write instead.

    Of a job: its words, its patterns against the columns of its source, its relations, and what each sink guarantees.

    Example: perseid check rules.perseid more_rules/ job.yaml
    """
    wrong = None
    for file in files:
        if is_job(file):
            wrong = check_job(file, as_json) or wrong
            continue
        if as_json:
            raise misuse("--json is for jobs.")
        try:
            for one in pattern_files(file):
                wrong = _checked(one) or wrong
        except ps.PerseidError as error:
            wrong = fail(error, file)
    if wrong is not None:
        raise wrong


def _checked(file: Path) -> typer.Exit | None:
    """Say whether one file is right; what comes back says that it is not."""
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", ps.PerseidWarning)
        try:
            loaded = load(file).check()
        except ps.PerseidError as error:
            return fail(error, file)
    count = len(loaded)
    typer.echo(f"{file}: {count} pattern{'' if count == 1 else 's'}, all right: {', '.join(loaded.names)}")
    for doubt in doubts:
        typer.echo(f"note: {doubt.message}", err=True)
    return None


def explain_command(file: PatternFile, pattern: PatternName = None) -> None:
    """Say what the patterns mean and what running them takes; of a job also what it reads, keeps and guarantees.

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
    form: Annotated[Form, typer.Option("--format", "-f", help="How to draw.")] = Form.text,
    pattern: PatternName = None,
) -> None:
    """Draw the automata of the patterns.

    Example: perseid draw rules.perseid --format mermaid
    """
    try:
        typer.echo(chosen(load(file), pattern).draw(form.value), nl=False)
    except ps.PerseidError as error:
        raise fail(error, file) from None
