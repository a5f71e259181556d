"""Arguments and error output that commands have in common."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

import perseid as ps
from perseid.errors import nearest
from perseid.redaction import redact

PatternFile = Annotated[Path, typer.Argument(metavar="FILE", help="A .perseid file; - is standard input.")]


PatternOrJobFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A .perseid file or a job file; - is standard input (patterns).")
]


PatternFiles = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="Pattern files, folders of .perseid files or job files; - is standard input."),
]


PatternName = Annotated[str | None, typer.Option("--pattern", metavar="NAME", help="Name of one pattern in the file.")]


EventFile = Annotated[
    Path,
    typer.Argument(metavar="EVENTS.jsonl", help="Events, one JSON object per line; - is standard input."),
]


TimeColumn = Annotated[str, typer.Option(help="The time column.")]


TypeColumn = Annotated[str, typer.Option(help="The column with the event type.")]


IdColumns = Annotated[list[str] | None, typer.Option(help="A column of the unique event key; repeat for more columns.")]


OrderColumns = Annotated[
    list[str] | None, typer.Option(help="A column that orders events of equal time; repeat for more columns.")
]


Values = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "--bind", metavar="NAME=VALUE", help="The value of a parameter; for a list, repeat it or use commas."
    ),
]


RelationFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--relation",
        metavar="NAME=FILE",
        help="The rows of a relation: JSON lines, or CSV with a header (a column with only numbers is numeric).",
    ),
]


def load(path: Path) -> ps.PatternSet:
    if str(path) != "-":
        return ps.load(path)
    try:
        return ps.patterns(sys.stdin.buffer.read().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ps.PerseidError("Standard input is not UTF-8 text.") from None


_traces = False


def show_traces(enabled: bool) -> None:
    """Set whether errors are printed with their traceback."""
    global _traces  # noqa: PLW0603 - one process is one command
    _traces = enabled


def fail(error: ps.PerseidError, path: Path | str, *hints: str) -> typer.Exit:
    """Print an error in a file; the caller raises the result, unless it reads other files first."""
    notes = [*hints, *getattr(error, "__notes__", ())]
    text = str(error)
    if text.startswith(f"{path} cannot be read"):
        text = f"The file{text.removeprefix(str(path))}"
    lines = [f"{path}: {type(error).__name__}[{error.code}]: {text}", *(f"  = {note}" for note in notes)]
    if _traces:
        lines.append("".join(traceback.format_exception(error)).rstrip())
    typer.echo(redact("\n".join(lines)), err=True)
    return typer.Exit(1)


def misuse(text: str) -> typer.Exit:
    typer.echo(text, err=True)
    return typer.Exit(2)


def pattern_files(path: Path) -> list[Path]:
    """Return the file, or the pattern files of a folder."""
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("*.perseid"))
    if not found:
        raise ps.PerseidError("The folder has no .perseid files.")
    return found


def chosen(rules: ps.PatternSet, name: str | None) -> ps.PatternSet:
    """Return one pattern if one is named, otherwise all."""
    if name is None:
        return rules
    try:
        return rules[name]
    except KeyError:
        unknown = ps.PerseidError(
            f"Unknown pattern {name!r}.",
            nearest=nearest(name, rules.names),
            hint=f"Available: {', '.join(rules.names)}.",
        )
        raise misuse(str(unknown)) from None


def is_job(path: Path) -> bool:
    """True if the name is that of a job file."""
    return path.suffix in (".yaml", ".yml", ".toml")
