"""Settings of a job file: a stream, rules, sinks, and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from perseid.errors import PerseidError
from perseid.jobs.choices import ByKey
from perseid.jobs.inline_text import InlineText
from perseid.jobs.rule_tables import TablePatterns
from perseid.jobs.stream_kinds.settings_by_kind import AnyStream
from perseid.semantics.durations import micros_of
from perseid.settings import RetryDuration, Secret, Settings, reject_removed_word
from perseid.sinks import kinds
from perseid.sinks.contract import Sink
from perseid.sources.rules import LateRule, StopRule
from perseid.spark.private_settings import is_on_command_line

AVAILABLE_NOW = "available_now"
SinkOf = Annotated[Sink, ByKey(lambda: kinds.SINKS, "sink", bare=True)]
Value = bool | int | float | str | list[bool | int | float | str]
"""Value of a parameter in a job file; a duration is a text."""


class Limits(Settings):
    """Limits of a job, and the policy for batches that exceed them."""

    bad: StopRule | None = None
    """Stops the job if too many records cannot be read."""
    late: LateRule | None = None
    """Stops the job if too many of the records that reach the patterns are late."""
    per_batch: int | None = Field(default=None, gt=0)
    """Maximum number of matches in a batch."""
    per_pattern: int | None = Field(default=None, gt=0)
    """Maximum number of matches of one pattern in a batch."""
    per_key: int | None = Field(default=None, gt=0)
    """Maximum number of matches of one pattern for one key in a batch."""
    policy: Literal["fail", "dead_letter", "drop_oldest"] = "fail"
    """For a batch with more matches: stop the job, write the rest as dead letters, or drop the oldest."""


class Metrics(Settings):
    """Metrics of a running job."""

    port: int | None = Field(default=None, ge=1, le=65_535)
    """The port of the Prometheus endpoint; without it, there is no endpoint."""
    host: str = "127.0.0.1"
    """The address of the endpoint."""
    log: Path | None = None
    """A file to which the job appends a line of JSON for every batch."""


class RelationFile(Settings):
    """A table that patterns look up with ``in Name``."""

    file: Path
    """CSV with a header, JSON lines, or Parquet."""


def _to_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


Patterns = Annotated[
    list[Path | InlineText | TablePatterns],
    BeforeValidator(
        _to_list,
        json_schema_input_type=Path | InlineText | TablePatterns | list[Path | InlineText | TablePatterns],
    ),
]


def _trigger(value: object) -> object:
    if value == AVAILABLE_NOW:
        return value
    if not isinstance(value, str):
        raise ValueError("expected an interval such as 5 seconds, or available_now")
    try:
        micros_of(value, "trigger")
    except PerseidError as error:
        raise ValueError(f"{error.message} Use an interval such as 5 seconds, or available_now") from None
    return value


Trigger = Annotated[str, BeforeValidator(_trigger), Field(examples=["5 seconds", AVAILABLE_NOW])]


class JobFile(Settings):
    """A job: reads a stream, evaluates patterns, and writes matches; after a crash it resumes from its checkpoint."""

    job: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$", examples=["takeover"])
    """The job's name: letters, digits, _ and -."""
    stream: AnyStream
    """The stream: its kind, its source and its settings."""
    patterns: Patterns = Field(default_factory=list)
    """Files of patterns, folders of them, {text: …} or {table: …}; one of these or a list."""
    bind: dict[str, Value] = Field(default_factory=dict)
    """Values of the patterns' parameters."""
    relations: dict[str, RelationFile] = Field(default_factory=dict)
    """Tables that patterns look up with ``in Name``."""
    sinks: list[SinkOf] = Field(min_length=1)
    """The sinks of matches: each receives every batch."""
    dead_letters: SinkOf | None = None
    """The sink of records that are malformed, late or dated too far ahead; without it, they are only counted."""
    trigger: Trigger = "10 seconds"
    """The interval at which batches start; available_now: read the available records, and end."""
    checkpoint: str = Field(min_length=1)
    """The folder of the state of the job; another folder is another job."""
    retry_for: RetryDuration = "10 minutes"
    """The time for which the query is restarted after transient failures of a source, a sink or Spark.

    It starts anew with every written batch. 0 seconds: never.
    """
    limits: Limits = Limits()
    """The limits of the job."""
    metrics: Metrics = Metrics()
    """The metrics of the job."""
    spark: dict[str, str | Secret] = Field(default_factory=dict)
    """Settings of the Spark session."""

    @model_validator(mode="before")
    @classmethod
    def _reject_retries(cls, value: object) -> object:
        reject_removed_word(value, "retries", "retry_for: 10 minutes, the time for which the query is restarted")
        return value

    @field_validator("spark")
    @classmethod
    def _check_private(cls, spark: dict[str, str | Secret]) -> dict[str, str | Secret]:
        for name, value in spark.items():
            if isinstance(value, Secret) and is_on_command_line(name):
                raise ValueError(
                    f"Spark passes {name!r} to Java on a command line, which every user of the machine can read; "
                    "secrets are unsupported in this setting"
                )
        return spark

    @model_validator(mode="after")
    def _check_settings(self) -> JobFile:
        self.stream.check_patterns_setting(bool(self.patterns))
        if self.limits.policy == "dead_letter" and self.dead_letters is None:
            raise ValueError("policy: dead_letter needs a sink for dead letters; add dead_letters: {…}")
        return self


def secret_options(job: JobFile) -> set[str]:
    """Names of all options with the value ``{env: NAME}`` or ``{file: PATH}``."""
    found: set[str] = set()

    def visit(value: object, name: str) -> None:
        if isinstance(value, Secret):
            found.add(name)
        elif isinstance(value, BaseModel):
            for word in type(value).model_fields:
                visit(getattr(value, word), word)
        elif isinstance(value, dict):
            for word, one in value.items():
                visit(one, str(word))
        elif isinstance(value, list | tuple):
            for one in value:
                visit(one, name)

    visit(job, "")
    return found
