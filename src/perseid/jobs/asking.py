"""What a job asks: its patterns with their parameters bound, its relations, and whether its columns go with them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perseid.api import PatternSet, patterns
from perseid.declare import micros_of
from perseid.errors import BindingError, EventDataError, PatternError, PerseidError, did_you_mean, missing_column
from perseid.jobs.rule_tables import Table
from perseid.jobs.rules import read_patterns
from perseid.jobs.spec import JobFile
from perseid.jobs.stream_spec import EventStream, ModelStream, SubscriptionStream, Text
from perseid.local.files import read_rows
from perseid.model_api import metamodel
from perseid.semantics.types import EventSchema, Type, parse_type
from perseid.settings import SettingsError
from perseid.subscription_api import SubscriptionSet, subscriptions
from perseid.subscription_table import SubscriptionTable, subscription_table

METAMODEL = "metamodel"
"""What the text about a model is called among a job's texts."""
_COLUMN = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>\w+))\s*[:\s]\s*(?P<type>.+?)\s*", re.DOTALL)
_BEHIND = re.compile(r"(?is)\s+(not\s+null|comment\s+'(?:[^']|'')*'|default\s+.*)\s*$")


def pattern_files(job: JobFile) -> list[Path]:
    """The files of a job's patterns, folders opened."""
    found: list[Path] = []
    for given in job.patterns:
        if not isinstance(given, Path):
            continue
        if not given.is_dir():
            found.append(given)
            continue
        inside = sorted(given.rglob("*.perseid"))
        if not inside:
            raise SettingsError(f"patterns: the folder {given} has no .perseid files.")
        found += inside
    return found


def texts_of(job: JobFile) -> dict[str, str]:
    """The texts that a job's rules are made from, by where they stand: read now."""
    if isinstance(job.stream, SubscriptionStream):
        return {}
    found = {f"patterns[{number}]": given.text for number, given in enumerate(job.patterns) if isinstance(given, Text)}
    found |= {str(path): _text(path, "patterns") for path in pattern_files(job)}
    for given in job.patterns:
        if isinstance(given, Table):
            found |= given.table.texts()
    if isinstance(job.stream, ModelStream):
        model = job.stream.metamodel
        found[METAMODEL] = model.text if isinstance(model, Text) else _text(model, METAMODEL)
    return found


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise SettingsError(f"{what}: {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{what}: {path} is not UTF-8 text.") from None


def patterns_of(texts: Mapping[str, str]) -> PatternSet:
    """The patterns of a job's texts as one set, with their parameters open; those about a model may stand in its own text."""
    own = {name: text for name, text in texts.items() if name != METAMODEL}
    whole = read_patterns(own) if own or METAMODEL not in texts else patterns(metamodel(texts[METAMODEL]))
    if not len(whole):
        raise SettingsError("Nothing is asked of the stream.", hint="Write patterns: rules/")
    return whole


def load_patterns(job: JobFile) -> PatternSet:
    """All patterns of a job as one set, with their parameters bound; an error names the file that it is about."""
    if isinstance(job.stream, SubscriptionStream):
        raise SettingsError("A job with subscriptions has no patterns.")
    return bound(patterns_of(texts_of(job)), job.bind)


def unused_values(rules: PatternSet, values: Mapping[str, object]) -> dict[str, str]:
    """Values for parameters that no pattern declares, each with a sentence for the log."""
    declared = {parameter.name for pattern in rules.tree.patterns for parameter in pattern.parameters}
    return {
        name: f"bind: no pattern has a parameter {name!r}; its value is unused.{did_you_mean(name, declared)}"
        for name in values
        if name not in declared
    }


def bound(rules: PatternSet, values: Mapping[str, object]) -> PatternSet:
    """The patterns with the values of a file; a length of time is written as a text there."""
    types: dict[str, set[str]] = {}
    for pattern in rules.tree.patterns:
        for parameter in pattern.parameters:
            types.setdefault(parameter.name, set()).add(parameter.type)
    given = dict(values)
    for name, value in values.items():
        if "duration" in types.get(name, ()) and isinstance(value, str):
            try:
                given[name] = dt.timedelta(microseconds=micros_of(value, name) or 0)
            except PerseidError:
                raise BindingError(
                    f"Parameter {name} is a length of time, and what is given is none.",
                    hint="Write a number and a unit: 10 minutes.",
                ) from None
    return rules.bind(**given)


def load_subscriptions(job: JobFile) -> SubscriptionSet | SubscriptionTable:
    """The subscriptions of a job."""
    assert isinstance(job.stream, SubscriptionStream)
    given = job.stream.subscriptions
    return subscriptions(given.texts) if given.table is None else subscription_table(str(given.table))


def load_relations(job: JobFile) -> dict[str, list[tuple[object, ...]]]:
    """The tables that patterns ask, read now."""
    found = {}
    for name, relation in job.relations.items():
        try:
            found[name] = read_rows(relation.file)
        except EventDataError as error:
            raise BindingError(f"relations.{name}: {relation.file}: {error.message}", hint=error.hint) from None
    return found


def schema_of(job: JobFile) -> EventSchema | None:
    """The columns of a job's events, where its sources say them all in words; the check of patterns goes by them."""
    stream = job.stream
    if not isinstance(stream, EventStream):
        return None
    if stream.source is not None:
        own = columns_of(getattr(stream.source, "columns", None))
        return None if own is None else EventSchema({}, own)
    by_type = {name: columns_of(getattr(one, "columns", None)) for name, one in (stream.sources or {}).items()}
    known = {name: columns for name, columns in by_type.items() if columns is not None}
    return EventSchema(known) if len(known) == len(by_type) else None


def columns_of(ddl: object) -> dict[str, Type] | None:
    """Columns as Spark writes them, ``ts timestamp, user string``; None where they are not told so, or not in our types."""
    if not isinstance(ddl, str):
        return None
    found = {}
    for part in _parts(ddl):
        match = _COLUMN.fullmatch(part)
        if match is None:
            return None
        kind = match["type"]
        while _BEHIND.search(kind):
            kind = _BEHIND.sub("", kind)
        try:
            found[(match["quoted"] or match["name"]).replace("``", "`")] = parse_type(kind)
        except PatternError:
            return None
    return found


def _parts(ddl: str) -> list[str]:
    """Split at the commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(ddl):
        depth += (sign in "(<") - (sign in ")>")
        if sign == "," and depth == 0:
            parts.append(ddl[start:place])
            start = place + 1
    return [*parts, ddl[start:]]


def check_columns(job: JobFile, schema: EventSchema) -> None:
    """Raise where a column that the job names for a role is in no schema of its source."""
    stream = job.stream
    assert isinstance(stream, EventStream)
    tables = (
        {None: schema.columns()} if stream.source is not None else {n: schema.columns(n) for n in stream.sources or {}}
    )
    for kind, there in tables.items():
        roles: dict[str, Any] = {"time": stream.time, "key": stream.key, "order_by": stream.order_by}
        roles |= {} if stream.id in ("content", "position") else {"id": stream.id}
        roles |= {"type": stream.type} if kind is None else {}
        for role, named in roles.items():
            mine = named.get(kind, []) if isinstance(named, dict) else named
            for column in [mine] if isinstance(mine, str) else mine:
                if column not in there and column.partition(".")[0] not in there:
                    raise missing_column(
                        "The source" if kind is None else f"The source of {kind}",
                        column,
                        f"{role} column",
                        list(there),
                        f"stream.{role} in the job's file",
                    )
