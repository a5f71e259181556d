"""``perseid check | explain | try`` of a job's file, and ``perseid schema``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import typer

import perseid as ps
from perseid.cli.common import chosen, fail
from perseid.cli.showing import finite, plain, show_matches
from perseid.local.documents import Documents
from perseid.local.files import read_objects
from perseid.local.models import Models

if TYPE_CHECKING:
    from perseid.jobs.spec import JobFile


class _Checked(TypedDict):
    """What is said of a job that is right."""

    job: str
    stream: str
    reads: dict[str, str]
    """What each source reads, by its place in the stream."""
    patterns: list[str]
    checked_against_columns: bool
    writes: list[dict[str, str]]
    dead_letters: str | None
    checkpoint: str


def schema_command() -> None:
    """Print the JSON Schema of a job's file, for editors.

    Example: perseid schema > job.schema.json
    """
    try:
        from perseid.jobs.schema import schema_text
    except ps.MissingExtraError as error:
        raise fail(error, "perseid schema") from None
    typer.echo(schema_text(), nl=False)


def check_job(path: Path, as_json: bool) -> typer.Exit | None:
    """Say whether a job is right; what comes back says that it is not."""
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", ps.PerseidWarning)
        try:
            told = _checked(path)
        except ps.PerseidError as error:
            if not as_json:
                return fail(error, path)
            problems = [{"at": p.at, "line": p.line, "said": p.said} for p in getattr(error, "problems", ())]
            said = {"file": str(path), "ok": False, "error": str(error), "problems": problems}
            typer.echo(json.dumps(said, ensure_ascii=False))
            return typer.Exit(1)
    notes = [str(doubt.message) for doubt in doubts]
    if as_json:
        typer.echo(json.dumps({"file": str(path), "ok": True, **told, "notes": notes}, ensure_ascii=False))
        return None
    typer.echo(f"{path}: the job {told['job']} is all right")
    for line in _lines(told):
        typer.echo(f"  {line}")
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    return None


def _checked(path: Path) -> _Checked:
    """What a job does, once everything that can be known without running it is known to be right."""
    from perseid.jobs import asking
    from perseid.jobs.reading import read_job
    from perseid.jobs.stream_spec import ModelStream, SubscriptionStream, sources_of
    from perseid.jobs.streams import checked_words, declare

    job = read_job(path)
    checked_words(job.stream)
    asking.load_relations(job)
    schema, names = asking.schema_of(job), []
    if isinstance(job.stream, SubscriptionStream):
        asking.load_subscriptions(job)
    elif not (isinstance(job.stream, ModelStream) and job.stream.react):
        rules = asking.load_patterns(job)
        names = list(rules.names)
        if isinstance(job.stream, ModelStream):
            rules.explain(declare(job.stream, {place: [] for place in sources_of(job.stream)}))
        else:
            rules.check(schema)
    if schema is not None:
        asking.check_columns(job, schema)
    return {
        "job": job.job,
        "stream": job.stream.kind,
        "reads": {place: source.told() for place, source in sources_of(job.stream).items()},
        "patterns": names,
        "checked_against_columns": schema is not None,
        "writes": [{"to": sink.told(), "guarantee": sink.guarantee} for sink in job.sinks],
        "dead_letters": None if job.dead_letters is None else job.dead_letters.told(),
        "checkpoint": job.checkpoint,
    }


def _lines(told: _Checked) -> list[str]:
    lines = [
        f"reads: {said}" if place == "source" else f"reads {place}: {said}" for place, said in told["reads"].items()
    ]
    if told["patterns"]:
        against = (
            "checked against the columns of the source"
            if told["checked_against_columns"]
            else "columns are not known here"
        )
        lines.append(f"asks: {', '.join(told['patterns'])} ({against})")
    lines += [f"writes: {sink['to']}. {sink['guarantee']}" for sink in told["writes"]]
    lines.append(f"dead letters: {told['dead_letters'] or 'counted, and written nowhere'}")
    return lines


def explain_job(path: Path, pattern: str | None) -> str:
    """What a job reads and keeps, what its patterns mean, and what a reader of its sinks may rely on."""
    from perseid.declare import micros_of
    from perseid.jobs import asking
    from perseid.jobs.reading import read_job
    from perseid.jobs.stream_spec import (
        BeliefStream,
        DocumentStream,
        EventStream,
        ModelStream,
        SubscriptionStream,
        sources_of,
    )
    from perseid.jobs.streams import declare, max_ahead_of, strategy_of
    from perseid.viz.detection import describe_max_ahead

    told = _checked(path)
    job = read_job(path)
    stream = job.stream
    nothing: dict[str, list[object]] = {place: [] for place in sources_of(stream)}
    lines = [f"job {job.job}", *(f"  {line}" for line in _lines(told)), f"  begins a batch: {_trigger(job)}"]
    if stream.lateness is not None:
        lines.append(f"  late: what comes more than {stream.lateness} behind the newest record")
    lines.append(f"  max_ahead: {describe_max_ahead(micros_of(max_ahead_of(stream), 'max_ahead'))}")
    if isinstance(stream, EventStream | DocumentStream) and stream.order == "watermark":
        lines.append(
            f"  tells: {strategy_of(stream.disorder).tells or 'what can be assembled at once, and else what is final'}"
        )
    lines.append(f"  keeps: {stream.shards} states of at most {stream.max_state:,} bytes each, in {job.checkpoint}")
    if isinstance(stream, SubscriptionStream):
        asked = asking.load_subscriptions(job)
        said = asked.explain() if isinstance(asked, ps.SubscriptionSet) else f"{asked!r}\n"
    elif isinstance(stream, ModelStream) and stream.react:
        said = "rules act on the model; what they did is what is told\n"
    else:
        rules = chosen(asking.load_patterns(job), pattern)
        uncertain = isinstance(stream, BeliefStream | ModelStream)
        said = rules.explain(declare(stream, nothing)) if uncertain else rules.explain()
    return "\n".join(lines) + "\n\n" + said


def _trigger(job: JobFile) -> str:
    return "at once, until all there is has been read" if job.trigger == "available_now" else f"every {job.trigger}"


def try_job(path: Path, events: Path, as_json: bool) -> None:
    """Run what a job asks over rows of a file, here; nothing is opened, written or remembered."""
    try:
        from perseid.jobs.asking import load_patterns, load_relations, load_subscriptions
        from perseid.jobs.reading import read_job
        from perseid.jobs.stream_spec import ModelStream, SubscriptionStream
        from perseid.jobs.streams import declare, telling_of

        job = read_job(path)
        stream = declare(job.stream, _inputs(job, list(read_objects(events))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.PerseidWarning)  # it is among the notes
            if isinstance(job.stream, SubscriptionStream):
                assert isinstance(stream, Documents)
                asked = load_subscriptions(job)
                table = asked.match(stream, expand=job.stream.expand, results=job.stream.results)
                _show_rows(table.to_pylist())
                return
            if isinstance(job.stream, ModelStream) and job.stream.react:
                assert isinstance(stream, Models)
                typer.echo(str(ps.react(stream)))
                return
            rules = load_patterns(job)
            found = rules.match(stream, relations=load_relations(job), tell=telling_of(job.stream))
    except ps.EventDataError as error:
        raise fail(error, events) from None
    except ps.PerseidError as error:
        raise fail(error, path) from None
    if isinstance(found, ps.Answers):
        _show_rows(found.to_dicts())
    else:
        show_matches(found, rules.names, as_json)


def _show_rows(rows: Iterable[Mapping[str, object]]) -> None:
    for row in rows:
        typer.echo(json.dumps(finite(row), default=plain, ensure_ascii=False, allow_nan=False))


def _inputs(job: JobFile, rows: list[dict[str, object]]) -> dict[str, list[dict[str, object]]]:
    """Rows by the source they would have come from; of several sources the type says which."""
    from perseid.jobs.stream_spec import EventStream, sources_of

    places = list(sources_of(job.stream))
    if places == ["source"]:
        return {"source": rows}
    if isinstance(job.stream, EventStream):
        column = job.stream.type
        by_type = {name: [row for row in rows if row.get(column) == name] for name in job.stream.sources or {}}
        return {f"sources.{name}": some for name, some in by_type.items()}
    raise ps.UnsupportedError(
        "This job reads several sources, and one file of rows does not say which row is of which.",
        hint="Try its patterns in Python: read_job and declare take a table for each source.",
    )
