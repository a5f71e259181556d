"""Load the contents that a job file names: rule texts, patterns with their parameters bound, and relations."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perseid.api.patterns import PatternSet
from perseid.errors import BindingError, EventDataError, PerseidError, SettingsError, did_you_mean
from perseid.jobs.inline_text import InlineText, read_text
from perseid.jobs.rule_tables import TablePatterns
from perseid.jobs.rules import RuleTexts
from perseid.jobs.spec import JobFile
from perseid.jobs.stream_kinds.contract import NO_PATTERNS
from perseid.semantics.durations import micros_of
from perseid.tables.files import read_rows


def pattern_files(job: JobFile) -> list[Path]:
    """Pattern files of a job; a folder includes all .perseid files below it."""
    files: list[Path] = []
    for entry in job.patterns:
        if not isinstance(entry, Path):
            continue
        if not entry.is_dir():
            files.append(entry)
            continue
        inside = sorted(entry.rglob("*.perseid"))
        if not inside:
            raise SettingsError(f"patterns: the folder {entry} has no .perseid files.")
        files += inside
    return files


def read_rule_texts(job: JobFile) -> dict[str, str]:
    """Read all rule texts of a job, by the setting, file or table row of their origin."""
    texts = {
        f"patterns[{number}]": entry.text for number, entry in enumerate(job.patterns) if isinstance(entry, InlineText)
    }
    texts |= {str(path): read_text(path, "patterns") for path in pattern_files(job)}
    for entry in job.patterns:
        if isinstance(entry, TablePatterns):
            texts |= entry.table.texts()
    return texts | job.stream.rule_texts()


def parse_patterns(job: JobFile) -> PatternSet:
    """Parse the patterns of a job, with their parameters unbound."""
    return job.stream.parse_patterns(read_rule_texts(job))


def load_patterns(job: JobFile) -> PatternSet:
    """Parse the patterns of a job and bind their parameters; an error names the file that it is in."""
    return bind_values(parse_patterns(job), job.bind)


def load_rules(job: JobFile) -> PatternSet:
    """Load the patterns that the job evaluates; an empty set if its stream brings its own queries."""
    return load_patterns(job) if job.stream.evaluates_patterns else NO_PATTERNS


def unused_values(rules: PatternSet, values: Mapping[str, object]) -> dict[str, str]:
    """Values for parameters that no pattern declares, each with a sentence for the log."""
    declared = {parameter.name for pattern in rules.tree.patterns for parameter in pattern.parameters}
    return {
        name: f"bind: no pattern has a parameter {name!r}; its value is unused.{did_you_mean(name, declared)}"
        for name in values
        if name not in declared
    }


def bind_values(rules: PatternSet, values: Mapping[str, object]) -> PatternSet:
    """Bind the values of a job file; the value of a duration parameter is a text there."""
    types: dict[str, set[str]] = {}
    for pattern in rules.tree.patterns:
        for parameter in pattern.parameters:
            types.setdefault(parameter.name, set()).add(parameter.type)
    bound = dict(values)
    for name, value in values.items():
        if "duration" in types.get(name, ()) and isinstance(value, str):
            try:
                bound[name] = dt.timedelta(microseconds=micros_of(value, name) or 0)
            except PerseidError:
                raise BindingError(
                    f"bind.{name}: expected a duration.",
                    hint="Use a number and a unit, such as 10 minutes.",
                ) from None
    return rules.bind(**bound)


def load_relations(job: JobFile) -> dict[str, list[tuple[object, ...]]]:
    """Read the relations of a job from their files."""
    found = {}
    for name, relation in job.relations.items():
        try:
            found[name] = read_rows(relation.file)
        except EventDataError as error:
            raise BindingError(
                f"relations.{name}: {relation.file}: {error.message}", hint=error.hint, nearest=error.nearest
            ) from None
    return found


@dataclass(frozen=True)
class JobTexts:
    """Reads the rule texts and relations of a job each time."""

    job: JobFile

    def read(self) -> RuleTexts:
        relations = {name: _encode_relation(name, rows) for name, rows in load_relations(self.job).items()}
        return RuleTexts(read_rule_texts(self.job), relations)


def decode_relations(texts: RuleTexts) -> dict[str, list[tuple[object, ...]]]:
    """Relations from the texts that :class:`JobTexts` reads."""
    return {name: [tuple(row) for row in json.loads(text)] for name, text in texts.relations.items()}


def _encode_relation(name: str, rows: list[tuple[object, ...]]) -> str:
    """A relation as JSON, as the batch log stores it."""
    try:
        return json.dumps(rows, ensure_ascii=False)
    except (TypeError, ValueError):
        raise SettingsError(
            f"relations.{name}: a value cannot be stored as JSON.",
            hint="Use numbers, strings and booleans; write times as strings.",
        ) from None
