"""Read and validate a job file; errors have path and line of a setting, and never its value, which may be secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from perseid.errors import SettingsError, did_you_mean
from perseid.jobs.choices import INSIDE
from perseid.jobs.literal_secrets import literal_secret
from perseid.jobs.spec import JobFile
from perseid.jobs.texts import At, ParsedFile, read_text, read_toml, read_yaml
from perseid.settings import Settings
from perseid.sinks.contract import Sink
from perseid.sources.contract import Source

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

_SECTIONS = ("stream", "patterns", "sinks", "dead_letters", "spark")
"""Settings that may contain secrets."""
_NO_VALUES = ("text", "schema")
"""Keys of rules and of columns, which are not checked for secrets."""
_ANCHORED = ("path", "checkpoint")
"""Settings of type text that are paths, in addition to those of type path."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class Problem:
    """One error in a file."""

    at: str
    line: int | None
    message: str

    def __str__(self) -> str:
        line = f"line {self.line}: " if self.line is not None else ""
        return f"{line}{self.at + ': ' if self.at else ''}{self.message}"


class JobFileError(SettingsError):
    """A job file is invalid."""

    code = "job-file"

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        lines = "\n".join(f"  {problem}" for problem in problems)
        one = len(problems) == 1
        super().__init__(f"{path}: {problems[0]}" if one else f"{path}: {len(problems)} errors.\n{lines}")
        self.problems = tuple(problems)


def read_job(path: str | Path) -> JobFile:
    """Read the job of a YAML or TOML file; relative paths in it start at the folder of the file."""
    path = Path(path)
    if path.suffix not in (".yaml", ".yml", ".toml"):
        raise SettingsError(f"{path} is not a job file.", hint="Use a file name that ends in .yaml, .yml or .toml.")
    text = read_text(path)
    written = read_toml(text, path) if path.suffix == ".toml" else read_yaml(text, path)
    if not isinstance(written.data, Mapping):
        raise SettingsError(f"{path}: expected a mapping with the settings of a job.", hint="Begin with job: NAME.")
    bare = list(_bare_secrets(written))
    if bare:
        raise JobFileError(path, bare)
    try:
        job = JobFile.model_validate(written.data)
    except ValidationError as error:
        raise JobFileError(path, _problems(error, written)) from None
    anchored: JobFile = _anchored(job, path.parent)
    return anchored


def _anchored(value: object, folder: Path) -> Any:
    """Resolve relative paths against the folder of the file."""
    if isinstance(value, Path):
        return folder / value
    if isinstance(value, list | tuple):
        return type(value)(_anchored(one, folder) for one in value)
    if isinstance(value, dict):
        return {name: _anchored(one, folder) for name, one in value.items()}
    if not isinstance(value, Settings):
        return value
    changed = {}
    for name in type(value).model_fields:
        old = getattr(value, name)
        place = isinstance(value, Source | Sink | JobFile) and name in _ANCHORED and isinstance(old, str)
        new = str(folder / old) if place and not _ADDRESS.match(old) else _anchored(old, folder)
        if new != old:
            changed[name] = new
    return value.model_copy(update=changed) if changed else value


def _bare_secrets(written: ParsedFile) -> Iterator[Problem]:
    """Find literal secrets in the file."""

    def find(value: object, at: At) -> Iterator[Problem]:
        if isinstance(value, Mapping):
            for word, one in value.items():
                yield from find(one, (*at, word))
        elif isinstance(value, list):
            for place, one in enumerate(value):
                yield from find(one, (*at, place))
        elif (names := [part for part in at if isinstance(part, str)])[-1] not in _NO_VALUES:
            reason = literal_secret(names[-1], value)
            if reason is not None:
                yield Problem(_path(at), _line(written, at), reason)

    for word in _SECTIONS:
        if word in written.data:
            yield from find(written.data[word], (word,))


@dataclass(frozen=True)
class _Diagnosis:
    """One error of the validator, with its path in the file."""

    at: At
    branch: At | None
    """Path of the setting with several forms that the error belongs to, if any."""
    error: ErrorDetails
    model: type[BaseModel]
    base: At


def _problems(error: ValidationError, written: ParsedFile) -> list[Problem]:
    slips = list(_diagnoses(error, JobFile, (), written.data))
    deepest: dict[At, int] = {}
    for slip in slips:
        if slip.branch is not None:
            deepest[slip.branch] = max(deepest.get(slip.branch, 0), len(slip.at))
    groups: dict[At, list[_Diagnosis]] = {}
    for slip in slips:
        if slip.branch is None or len(slip.at) == deepest[slip.branch]:
            groups.setdefault(slip.at, []).append(slip)
    found = [
        Problem(_path(at), _line(written, at), _message(some, _value(written.data, at))) for at, some in groups.items()
    ]
    return sorted(found, key=lambda problem: problem.line or 0)


def _diagnoses(error: ValidationError, model: type[BaseModel], base: At, data: object) -> Iterator[_Diagnosis]:
    for one in error.errors(include_url=False, include_input=False):
        at, branch = _place(one, base, data)
        if one["type"] == INSIDE:
            inner = one["ctx"]
            yield from _diagnoses(inner["error"], inner["kind"], (*at, *inner["at"]), data)
        else:
            more = one["ctx"]["at"] if one["type"] == "invalid_setting" else ()
            yield _Diagnosis((*at, *more), branch, one, model, base)


def _place(error: ErrorDetails, base: At, data: object) -> tuple[At, At | None]:
    """Path of the error, without the names of the forms that pydantic adds to it."""
    at, branch, current = list(base), None, _value(data, base)
    loc = error["loc"]
    for number, part in enumerate(loc):
        last = number == len(loc) - 1
        exists = (isinstance(current, Mapping) and part in current) or (
            isinstance(current, list) and isinstance(part, int) and part < len(current)
        )
        if exists:
            current = current[part]
            at.append(part)
        elif last and error["type"] == "missing":
            at.append(part)
        elif part == "[key]":
            break
        else:
            branch = branch or tuple(at)
    return tuple(at), branch


def _value(data: Any, at: At) -> Any:
    for part in at:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _path(at: At) -> str:
    text = ""
    for part in at:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _line(written: ParsedFile, at: At) -> int | None:
    while at and at not in written.lines:
        at = at[:-1]
    return written.lines.get(at)


def _message(slips: Sequence[_Diagnosis], value: object) -> str:
    """Message for one path; for a setting with several forms, the message of each."""
    sentences = list(dict.fromkeys(_sentence(slip, value) for slip in slips))
    if len(sentences) == 1:
        return sentences[0]
    quoted = next((one for one in sentences if one.endswith("put it in quotes")), None)
    if quoted is not None:
        return quoted
    expectations = [one.partition(". ")[0].partition(", got ") for one in sentences if one.startswith("expected ")]
    if len(expectations) < len(sentences):
        return "; or ".join(sentences)
    types = " or ".join(expected.removeprefix("expected ") for expected, _, _ in expectations)
    return f"expected {types}{max(got + value for _, got, value in expectations)}"


_EXPECTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list, such as [a, b]",
    "tuple_type": "a list, such as [a, b]",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "path_type": "the path of a file or folder",
    "datetime_from_date_parsing": "a time such as 2026-01-31T12:00:00Z",
    "datetime_parsing": "a time such as 2026-01-31T12:00:00Z",
    "datetime_type": "a time such as 2026-01-31T12:00:00Z",
}


def _sentence(slip: _Diagnosis, value: object) -> str:
    """One error as a sentence with the correction, without the value."""
    error, context = slip.error, slip.error.get("ctx", {})
    word = str(slip.at[-1]) if slip.at else ""
    match error["type"]:
        case "missing":
            return f"missing setting; add {word}: …{_about(slip, word)}"
        case "extra_forbidden":
            available = _available_settings(slip)
            return f"unknown key.{did_you_mean(word, available)} Available: {', '.join(available)}."
        case "literal_error":
            allowed = [one.strip("'") for one in re.findall(r"'[^']*'", context["expected"])] or [context["expected"]]
            near = did_you_mean(value, allowed) if isinstance(value, str) else ""
            return f"expected {' or '.join(allowed)}{'.' if near else ''}{near}"
        case "value_error":
            return str(context["error"])
        case "invalid_setting":
            return str(context["message"])
        case "greater_than":
            return f"expected a number above {context['gt']}"
        case "greater_than_equal":
            return f"expected a number of at least {context['ge']}"
        case "less_than":
            return f"expected a number below {context['lt']}"
        case "less_than_equal":
            return f"expected a number of at most {context['le']}"
        case "too_short" | "string_too_short":
            return "empty; add at least one value"
        case "too_long" | "string_too_long":
            return f"longer than the limit of {context['max_length']}"
        case "string_pattern_mismatch":
            return (
                "expected a letter, then up to 62 letters, digits, _ or -"
                if word == "job"
                else f"unexpected characters; expected a match of {context['pattern']}"
            )
        case kind if kind in _EXPECTED:
            return f"expected {_EXPECTED[kind]}{_instead(kind, value)}"
    return f"invalid value: {error['type'].replace('_', ' ')}"


def _instead(kind: str, value: object) -> str:
    if kind in ("string_type", "path_type") and isinstance(value, bool):
        return ", got true or false, as YAML reads on, off, yes and no; put it in quotes"
    if kind in ("string_type", "path_type") and isinstance(value, int | float):
        return ", got a number; put it in quotes"
    if kind == "string_type" and isinstance(value, Mapping):
        return ", got a mapping"
    if kind in ("dict_type", "model_type", "model_attributes_type") and value is None:
        return ", got nothing"
    return ""


def _fields_at(slip: _Diagnosis, parent: At) -> dict[str, FieldInfo]:
    """Settings that are allowed at a path."""
    models: list[type[BaseModel]] = [slip.model]
    for part in parent[len(slip.base) :]:
        inner = [
            found
            for model in models
            for name, info in model.model_fields.items()
            if part in (name, info.alias)
            for found in _models_in(info.annotation)
        ]
        models = inner or models
    return {info.alias or name: info for model in models for name, info in model.model_fields.items()}


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for one in getattr(annotation, "__args__", ()) for found in _models_in(one)]


def _available_settings(slip: _Diagnosis) -> list[str]:
    return list(_fields_at(slip, slip.at[:-1]))


def _about(slip: _Diagnosis, word: str) -> str:
    info = _fields_at(slip, slip.at[:-1]).get(word)
    description = (info.description or "").strip().rstrip(".") if info is not None else ""
    return f" ({description[0].lower()}{description[1:]})" if description else ""
