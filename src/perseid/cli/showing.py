"""Print matches as tables and as JSON."""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from collections.abc import Mapping, Sequence

import typer
from rich.console import Console
from rich.table import Table

import perseid as ps
from perseid.lang.printer import print_duration
from perseid.semantics.values import clock
from perseid.semantics.values import text as value_text

UNBOUNDED = 1_000_000
_NARROW = 9


def finite(value: object) -> object:
    """Replace NaN and infinity, which JSON does not have, with null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def plain(value: object) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.timedelta):
        micros = value // dt.timedelta(microseconds=1)
        return ("-" if micros < 0 else "") + (print_duration(abs(micros)) if micros else "0 seconds")
    if isinstance(value, (list, tuple, Mapping)):
        return json.dumps(finite(value), default=plain, ensure_ascii=False)
    shown = value_text(value)
    return str(value) if shown is None else shown


def print_matches(matches: ps.types.Matches, names: Sequence[str], console: Console) -> None:
    for name in dict.fromkeys(match.pattern for match in matches):
        pattern_matches = [match for match in matches if match.pattern == name]
        title = f"{name}: {len(pattern_matches)} match{'' if len(pattern_matches) == 1 else 'es'}"
        keys = list(dict.fromkeys(k for m in pattern_matches for k in m.key))
        columns = list(dict.fromkeys(k for m in pattern_matches for k in m.values))
        reports = any(m.kind != "match" for m in pattern_matches)
        headers = [*keys, "start", "end", "events", *columns, *(["kind"] if reports else [])]
        rows = [
            [
                *(_cell(m.key.get(k)) for k in keys),
                *(clock(m.start_us), _end(m), _events(m)),
                *(_cell(m.values.get(k)) for k in columns),
                *([m.kind] if reports else []),
            ]
            for m in pattern_matches
        ]
        _print_rows(title, headers, rows, console)
    matched = {match.pattern for match in matches}
    for name in names:
        if name not in matched:
            console.print(f"{name}: no matches")
    if matches.suppressed:
        console.print(f"{matches.suppressed} suppressed")
    if matches.capped:
        console.print(f"{matches.capped} partial matches dropped: limit exceeded")


def _print_rows(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """Print a table; in a narrow terminal, a block of lines per match."""
    table = Table(title=title, title_justify="left")
    for header in headers:
        table.add_column(header, overflow="fold", no_wrap=header in ("start", "end"))
    for row in rows:
        table.add_row(*row)
    natural = console.measure(table, options=console.options.update(max_width=UNBOUNDED)).maximum
    if natural <= console.width or console.width >= _least(headers, rows):
        console.print(table)
        return
    console.print(title)
    for row in rows:
        console.print()
        for header, cell in zip(headers, row, strict=True):
            console.print(f"{header}: {cell}", soft_wrap=True)


def _least(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Minimum width at which a table of these columns is readable; times are not wrapped."""
    frame = 3 * len(headers) + 1
    times = sum(max(len(row[i]) for row in rows) for i, h in enumerate(headers) if h in ("start", "end"))
    return frame + times + (_NARROW - 3) * sum(h not in ("start", "end") for h in headers)


def _end(match: ps.types.Match) -> str:
    """The end time, without the date if it equals that of the start."""
    start, end = clock(match.start_us), clock(match.end_us)
    return end.partition(" ")[2] if " " in end and end[:10] == start[:10] else end


def _events(match: ps.types.Match) -> str:
    """Names of the steps with the number of their events: ``a b t×2``."""
    return " ".join(name if len(found) == 1 else f"{name}×{len(found)}" for name, found in match.bindings.items())


def _cell(value: object) -> str:
    return "" if value is None else plain(value)


def show_matches(found: ps.types.Matches, names: Sequence[str], as_json: bool) -> None:
    """Print matches as a table or as JSON, and their notes."""
    if as_json:
        for row in found.to_dicts():
            typer.echo(json.dumps(finite(row), default=plain, ensure_ascii=False, allow_nan=False))
    else:
        # Piped output is not wrapped, because its width is unknown.
        width = None if sys.stdout.isatty() else UNBOUNDED
        print_matches(found, names, Console(width=width, markup=False, emoji=False))
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
