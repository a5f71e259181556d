"""``perseid try`` and ``why-not``: run patterns over the events of a file, without a cluster."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import perseid as ps
from perseid.cli.common import (
    EventFile,
    IdColumns,
    OrderColumns,
    PatternFile,
    PatternName,
    PatternOrJobFile,
    RelationFiles,
    TimeColumn,
    TypeColumn,
    Values,
    chosen,
    fail,
    is_job,
    load,
    misuse,
)
from perseid.cli.jobs import try_job
from perseid.cli.showing import show_matches
from perseid.cli.values import constant, in_options, named_file, read_relation, values_of
from perseid.lang.ast import AnyEvent, EventType, StepKind, steps
from perseid.tables.files import holds_objects, read_objects


def try_command(
    file: PatternOrJobFile,
    events: EventFile,
    time: TimeColumn = "ts",
    type: TypeColumn = "type",
    id: IdColumns = None,
    order_by: OrderColumns = None,
    values: Values = None,
    relation: RelationFiles = None,
    pattern: PatternName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per match, one per line.")] = False,
) -> None:
    """Run patterns over the events of a file, without a cluster.

    For a job file: runs its patterns with the settings of its stream, and skips malformed records.

    Example: perseid try rules.perseid events.jsonl --time at --type kind
    """
    if is_job(file):
        if (time, type) != ("ts", "type") or id or order_by or values or relation:
            raise misuse(
                f"{file} is a job file, which sets these options. Remove --time, --type, --id, --order-by, --set and --relation."
            )
        try_job(file, events, pattern, as_json)
        return
    loaded, relations = load_files("try", file, events, relation)
    with _reporting(file, events, loaded):
        rules = chosen(loaded.bind(**values_of(values or [], loaded)), pattern)
        stream = stream_of(events, time, type, id, order_by)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.errors.PerseidWarning)  # the notes include it
            found = rules.match(stream, relations=relations)
    show_matches(found, rules.names, as_json)


def why_not_command(
    file: PatternFile,
    events: EventFile,
    pattern: PatternName = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]VALUE",
            help="The key of the partition; repeat for more columns of partition by. Quotes make a string: \"'7'\".",
        ),
    ] = None,
    time: TimeColumn = "ts",
    type: TypeColumn = "type",
    id: IdColumns = None,
    order_by: OrderColumns = None,
    values: Values = None,
    relation: RelationFiles = None,
) -> None:
    """Explain why an expected match is missing: how far partial matches got, and what ended them.

    Example: perseid why-not rules.perseid events.jsonl --pattern takeover --key ann
    """
    loaded, relations = load_files("why-not", file, events, relation)
    if pattern is None and len(loaded) > 1:
        raise misuse(f"{file} has several patterns: {', '.join(loaded.names)}. Choose one with --pattern.")
    with _reporting(file, events, loaded):
        rule = chosen(loaded.bind(**values_of(values or [], loaded)), pattern or loaded.names[0])
        stream = stream_of(events, time, type, id, order_by)
        typer.echo(str(rule.why_not(stream, key=key_of(key or [], rule), relations=relations)))


def load_files(
    command: str, file: Path, events: Path, relation: list[str] | None
) -> tuple[ps.PatternSet, dict[str, list[tuple[object, ...]]]]:
    """Load the patterns and relations of a command."""
    files = [named_file(setting) for setting in relation or []]
    if [str(file), str(events), *(str(path) for _, path in files)].count("-") > 1:
        raise misuse("Only one file can be standard input (-).")
    try:
        loaded = load(file)
    except ps.PerseidError as error:
        swapped = isinstance(error, ps.errors.PatternError) and holds_objects(file)
        hints = (
            [f"{file} contains events. Put the pattern file first: perseid {command} {events} {file}"]
            if swapped
            else []
        )
        raise fail(error, file, *hints) from None
    relations: dict[str, list[tuple[object, ...]]] = {}
    for name, path in files:
        relations.setdefault(name, []).extend(read_relation(path))
    return loaded, relations


def stream_of(events: Path, time: str, type: str, id: list[str] | None, order_by: list[str] | None) -> ps.types.Events:
    """Read the events of a file and declare them with the given columns."""
    return ps.events(list(read_objects(events)), time=time, type=type, id=id or (), order_by=order_by or ())


@contextmanager
def _reporting(file: Path, events: Path, loaded: ps.PatternSet) -> Iterator[None]:
    """Print an error with the file that it is in, and end the command."""
    try:
        yield
    except ps.errors.EventDataError as error:
        raise fail(error, events) from None
    except ps.errors.BindingError as error:
        raise fail(*in_options(error, file, loaded)) from None
    except ps.errors.UnsupportedError as error:
        other_stream = any(not isinstance(k, EventType | AnyEvent) for k in _step_kinds(loaded))
        hints = ["This command reads only events. Run the pattern in Python."] if other_stream else []
        raise fail(error, file, *hints) from None
    except ps.PerseidError as error:
        raise fail(error, file) from None


def _step_kinds(rules: ps.PatternSet) -> list[StepKind]:
    return [step.kind for pattern in rules.tree.patterns for step in steps(pattern.match)]


def key_of(settings: list[str], rule: ps.PatternSet) -> object:
    """``--key ann`` in the order of ``partition by``, or ``--key user=ann``: read as ``--set`` reads its values."""
    if not settings:
        return None
    names = {".".join(path.parts) for pattern in rule.tree.patterns for path in pattern.partition_by}
    parts = [setting.partition("=") for setting in settings]
    named = [(name, text) for name, sign, text in parts if sign and name in names]
    if len(named) == len(settings):
        return {name: constant(text, set()) for name, text in named}
    if named:
        raise misuse("Use a column name with every --key, or with none.")
    return tuple(constant(setting, set()) for setting in settings)
