"""``perseid check``, ``explain`` and ``try`` for job files, and ``perseid schema``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import typer

import perseid as ps
from perseid.cli.common import chosen, fail, misuse
from perseid.cli.showing import finite, plain, show_matches
from perseid.runtime.explanation import describe_max_ahead
from perseid.tables.files import read_valid_objects

if TYPE_CHECKING:
    from perseid.jobs.spec import JobFile

MAX_MALFORMED_SHOWN = 3
"""Maximum number of malformed records with their reasons in a terminal."""


class _Checked(TypedDict):
    """Description of a valid job."""

    job: str
    stream: str
    reads: dict[str, str]
    """Description of each source, by its path below ``stream:``."""
    patterns: list[str]
    versions: dict[str, str]
    """Version of each pattern, as in the column ``version`` of its matches."""
    checked_against_columns: bool
    writes: list[dict[str, str]]
    dead_letters: str | None
    checkpoint: str


def schema_command() -> None:
    """Print the JSON Schema of job files, for editors.

    Example: perseid schema > job.schema.json
    """
    try:
        from perseid.jobs.schema import schema_text
    except ps.errors.MissingExtraError as error:
        raise fail(error, "perseid schema") from None
    typer.echo(schema_text(), nl=False)


def check_job(path: Path, as_json: bool) -> typer.Exit | None:
    """Check a job and print the result; returns the exit of a command that failed."""
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", ps.errors.PerseidWarning)
        try:
            checked = _checked(path)
        except ps.PerseidError as error:
            if not as_json:
                return fail(error, path)
            problems = [{"at": p.at, "line": p.line, "message": p.message} for p in getattr(error, "problems", ())]
            report = {"file": str(path), "ok": False, "error": str(error), "problems": problems}
            typer.echo(json.dumps(report, ensure_ascii=False))
            return typer.Exit(1)
    notes = [str(doubt.message) for doubt in doubts]
    if as_json:
        typer.echo(json.dumps({"file": str(path), "ok": True, **checked, "notes": notes}, ensure_ascii=False))
        return None
    typer.echo(f"{path}: job {checked['job']} is OK")
    for line in _lines(checked):
        typer.echo(f"  {line}")
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    return None


def _checked(path: Path) -> _Checked:
    """Check everything about a job that can be checked without running it, and describe the job."""
    from perseid.jobs.reading import read_job
    from perseid.jobs.rule_loading import load_relations, load_rules
    from perseid.jobs.rules import versions_of
    from perseid.jobs.stream_kinds.settings_by_kind import kind_name

    job = read_job(path)
    stream = job.stream
    stream.check_settings()
    load_relations(job)
    rules = load_rules(job)
    stream.check(rules)
    return {
        "job": job.job,
        "stream": kind_name(stream),
        "reads": {path: source.describe() for path, source in stream.sources_by_path().items()},
        "patterns": list(rules.names),
        "versions": versions_of(rules),
        "checked_against_columns": stream.event_schema() is not None,
        "writes": [{"to": sink.describe(), "guarantee": sink.guarantee} for sink in job.sinks],
        "dead_letters": None if job.dead_letters is None else job.dead_letters.describe(),
        "checkpoint": job.checkpoint,
    }


def _lines(checked: _Checked) -> list[str]:
    lines = [
        f"reads: {description}" if place == "source" else f"reads {place}: {description}"
        for place, description in checked["reads"].items()
    ]
    if checked["patterns"]:
        against = (
            "checked against the columns of the source"
            if checked["checked_against_columns"]
            else "not checked against columns"
        )
        lines.append(f"patterns: {', '.join(checked['patterns'])} ({against})")
    if checked["versions"]:
        lines.append(f"versions: {', '.join(f'{name} {version}' for name, version in checked['versions'].items())}")
    lines += [f"writes: {sink['to']}. {sink['guarantee']}" for sink in checked["writes"]]
    lines.append(f"dead letters: {checked['dead_letters'] or 'counted, not written'}")
    return lines


def explain_job(path: Path, pattern: str | None) -> str:
    """Explain the sources, state and sinks of a job, and its rules."""
    from perseid.jobs.reading import read_job
    from perseid.jobs.rule_loading import load_rules

    checked = _checked(path)
    job = read_job(path)
    stream = job.stream
    lines = [f"job {job.job}", *(f"  {line}" for line in _lines(checked)), f"  trigger: {_trigger(job)}"]
    if stream.lateness is not None:
        lines.append(f"  late: records at least {stream.lateness} older than the newest record of earlier batches")
    lines.append(f"  max_ahead: {describe_max_ahead(stream.max_ahead_us)}")
    output = stream.explain_output()
    if output is not None:
        lines.append(f"  emits: {output}")
    lines.append(f"  state: {stream.shards} shards of at most {stream.max_state:,} bytes each, in {job.checkpoint}")
    rules = load_rules(job)
    if stream.evaluates_patterns:
        rules = chosen(rules, pattern)
    return "\n".join(lines) + "\n\n" + stream.explain(rules)


def _trigger(job: JobFile) -> str:
    return (
        "available now: read the available records, then end"
        if job.trigger == "available_now"
        else f"every {job.trigger}"
    )


def try_job(path: Path, events: Path, pattern: str | None, as_json: bool) -> None:
    """Run the rules of a job over the rows of a file in this process; no source is opened and nothing is written.

    Malformed records are skipped and counted, as in a job that runs.
    """
    try:
        from perseid.jobs.local_rows import require_times
        from perseid.jobs.reading import read_job
        from perseid.jobs.rule_loading import load_relations, load_rules

        job = read_job(path)
        rows, malformed = read_valid_objects(events)
        tables = require_times(job.stream, job.stream.rows_by_source(rows.values()), rows, malformed)
        rules = load_rules(job)
        if pattern is not None:
            if not job.stream.evaluates_patterns:
                raise misuse(f"{path} is a job without patterns. Remove --pattern.")
            rules = chosen(rules, pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.errors.PerseidWarning)  # the notes include it
            found = job.stream.match(tables, rules, load_relations(job))
    except ps.errors.EventDataError as error:
        raise fail(error, events) from None
    except ps.PerseidError as error:
        raise fail(error, path) from None
    if isinstance(found, ps.types.Matches):
        show_matches(found, rules.names, as_json)
    elif isinstance(found, str):
        typer.echo(found)
    else:
        _show_rows(found)
    if malformed:
        typer.echo(f"note: {_describe_malformed(malformed, len(rows))}", err=True)


def _describe_malformed(malformed: Mapping[int, str], valid: int) -> str:
    """Number of malformed records, and the first ones with their reasons."""
    count = len(malformed)
    first = [f"line {number}: {malformed[number]}" for number in sorted(malformed)[:MAX_MALFORMED_SHOWN]]
    more = [f"and {count - len(first):,} more"] if count > len(first) else []
    verb = "is" if count == 1 else "are"
    return f"{count:,} of {count + valid:,} records {verb} malformed and skipped: {'; '.join([*first, *more])}"


def _show_rows(rows: Iterable[Mapping[str, object]]) -> None:
    for row in rows:
        typer.echo(json.dumps(finite(row), default=plain, ensure_ascii=False, allow_nan=False))
