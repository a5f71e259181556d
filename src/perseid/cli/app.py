"""``perseid check | explain | draw | try``: errors are sentences, exit status 1 is a wrong pattern, 2 a wrong call."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import perseid as ps
from perseid.local.matches import clock
from perseid.semantics.evaluate import literal_value
from perseid.semantics.values import text as value_text

app = typer.Typer(
    name="perseid",
    help="Complex event processing for Apache Spark, in Python.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

PatternFile = Annotated[Path, typer.Argument(metavar="FILE", help="A .perseid file; - reads standard input.")]
Values = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A value for a parameter.")]


class Form(StrEnum):
    text = "text"
    mermaid = "mermaid"
    dot = "dot"


def _load(path: Path) -> ps.PatternSet:
    return ps.patterns(sys.stdin.read()) if str(path) == "-" else ps.load(path)


def _fail(error: ps.PerseidError, path: Path) -> typer.Exit:
    typer.echo(f"{path}: {type(error).__name__}: {error}", err=True)
    return typer.Exit(1)


@app.command("check")
def check_command(file: PatternFile) -> None:
    """Say whether the patterns of a file are right, and if not, what to write instead.

    Example: perseid check rules.perseid
    """
    try:
        loaded = _load(file).check()
    except ps.PerseidError as error:
        raise _fail(error, file) from None
    count = len(loaded)
    typer.echo(f"{file}: {count} pattern{'' if count == 1 else 's'}, all right: {', '.join(loaded.names)}")


@app.command("explain")
def explain_command(file: PatternFile) -> None:
    """Say what the patterns mean and what running them takes.

    Example: perseid explain rules.perseid
    """
    try:
        typer.echo(_load(file).explain(), nl=False)
    except ps.PerseidError as error:
        raise _fail(error, file) from None


@app.command("draw")
def draw_command(
    file: PatternFile,
    form: Annotated[Form, typer.Option("--format", "-f", help="How to draw.")] = Form.text,
) -> None:
    """Draw the automata of the patterns.

    Example: perseid draw rules.perseid --format mermaid
    """
    try:
        typer.echo(_load(file).draw(form.value), nl=False)
    except ps.PerseidError as error:
        raise _fail(error, file) from None


@app.command("try")
def try_command(
    file: PatternFile,
    events: Annotated[Path, typer.Argument(metavar="EVENTS.jsonl", help="One JSON object an event, one a line.")],
    time: Annotated[str, typer.Option(help="The column with the time.")] = "ts",
    type: Annotated[str, typer.Option(help="The column with the type.")] = "type",
    id: Annotated[list[str] | None, typer.Option(help="A column of the event's identity.")] = None,
    order_by: Annotated[list[str] | None, typer.Option(help="A column that orders events of one time.")] = None,
    values: Values = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a match, one a line.")] = False,
) -> None:
    """Run the patterns over events from a file, here, without a cluster.

    Example: perseid try rules.perseid events.jsonl --time at --type kind
    """
    try:
        rules = _load(file).bind(**_values(values or []))
        stream = ps.events(list(_read(events)), time=time, type=type, id=id or (), order_by=order_by or ())
        found = rules.match(stream)
    except ps.EventDataError as error:
        raise _fail(error, events) from None
    except ps.PerseidError as error:
        raise _fail(error, file) from None
    if as_json:
        for row in found.to_dicts():
            typer.echo(json.dumps(row, default=_plain, ensure_ascii=False))
    else:
        _table(found)


def _values(settings: list[str]) -> dict[str, Any]:
    """``--set threshold=5``: the value is read as a constant of the language, otherwise as text."""
    from perseid.lang.expressions import Literal
    from perseid.lang.parser import parse_expression

    out: dict[str, Any] = {}
    for setting in settings:
        name, sign, text = setting.partition("=")
        if not sign:
            raise ps.BindingError(f"--set takes NAME=VALUE, not {setting!r}.")
        try:
            parsed = parse_expression(text)
        except ps.PatternError:
            parsed = None
        out[name] = literal_value(parsed) if isinstance(parsed, Literal) else text
    return out


def _read(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ps.EventDataError(f"The file cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ps.EventDataError("The file is not UTF-8 text.") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ps.EventDataError(f"Line {number} is not JSON: {error}.") from None
        if not isinstance(row, dict):
            raise ps.EventDataError(f"Line {number} is not a JSON object.")
        yield row


def _plain(value: object) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value_text(value) or str(value)


def _table(found: ps.Matches) -> None:
    console = Console()
    if not found:
        console.print("no matches")
        return
    names = list(dict.fromkeys(match.pattern for match in found))
    for name in names:
        mine = [match for match in found if match.pattern == name]
        table = Table(title=f"{name}: {len(mine)} match{'' if len(mine) == 1 else 'es'}", title_justify="left")
        keys = list(dict.fromkeys(k for m in mine for k in m.key))
        columns = list(dict.fromkeys(k for m in mine for k in m.values))
        reports = any(m.kind != "match" for m in mine)
        for header in (*keys, "start", "end", "events", *columns, *(["kind"] if reports else [])):
            table.add_column(header, overflow="fold", no_wrap=header in ("start", "end"))
        for m in mine:
            row = [_cell(m.key.get(k)) for k in keys]
            row += [clock(m.start), _end(m), _events(m)]
            row += [_cell(m.values.get(k)) for k in columns]
            table.add_row(*row, *([m.kind] if reports else []))
        console.print(table)
    if found.suppressed:
        console.print(f"{found.suppressed} suppressed")
    if found.capped:
        console.print(f"{found.capped} attempts given up: too many open without a bound")


def _end(match: ps.Match) -> str:
    """The end, without the date where it is the day of the start."""
    start, end = clock(match.start), clock(match.end)
    return end.partition(" ")[2] if " " in end and end[:10] == start[:10] else end


def _events(match: ps.Match) -> str:
    """Which steps have events, and how many: ``a b t×2``."""
    return " ".join(name if len(found) == 1 else f"{name}×{len(found)}" for name, found in match.bindings.items())


def _cell(value: object) -> str:
    return "" if value is None else _plain(value)
