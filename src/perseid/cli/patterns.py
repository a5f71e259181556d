"""``perseid check | explain | draw``: what patterns say, without events."""

from __future__ import annotations

import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import perseid as ps
from perseid.cli.common import PatternFile, PatternFiles, PatternName, chosen, fail, load, pattern_files


class Form(StrEnum):
    text = "text"
    mermaid = "mermaid"
    dot = "dot"


def check_command(files: PatternFiles) -> None:
    """Say whether the patterns of files are right, and if not, what to write instead.

    Example: perseid check rules.perseid more_rules/
    """
    wrong = None
    for file in files:
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
    """Say what the patterns mean and what running them takes.

    Example: perseid explain rules.perseid --pattern takeover
    """
    try:
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
