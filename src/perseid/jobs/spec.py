"""A job's whole file: a stream, what is asked of it, where answers go, and what the job may do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from perseid.declare import micros_of
from perseid.errors import PerseidError
from perseid.jobs.choices import ByKey
from perseid.jobs.rule_tables import Table
from perseid.jobs.stream_spec import ModelStream, StreamOf, SubscriptionStream, Text
from perseid.settings import RetryDuration, Secret, Settings, reject_removed_word
from perseid.sinks import kinds
from perseid.sinks.contract import Sink
from perseid.sources.rules import LateRule, StopRule
from perseid.spark.private_settings import is_on_command_line

AVAILABLE_NOW = "available_now"
SinkOf = Annotated[Sink, ByKey(lambda: kinds.SINKS, "sink", bare=True)]
Value = bool | int | float | str | list[bool | int | float | str]
"""What a parameter may be given in a file; a length of time is a text."""


class Limits(Settings):
    """What a job may not exceed, and what is done when it does."""

    bad: StopRule | None = None
    """When too many records cannot be read."""
    late: LateRule | None = None
    """When too many of the records that reach the patterns are late."""
    per_batch: int | None = Field(default=None, gt=0)
    """Answers that one batch may have."""
    per_pattern: int | None = Field(default=None, gt=0)
    """Answers that one pattern may have in a batch."""
    per_key: int | None = Field(default=None, gt=0)
    """Answers that one pattern may have for one key in a batch."""
    policy: Literal["fail", "dead_letter", "drop_oldest"] = "fail"
    """What is done with a batch that has more: stop, write the rest as dead letters, or leave out the oldest."""


class Metrics(Settings):
    """What a running job tells of itself."""

    port: int | None = Field(default=None, ge=1, le=65_535)
    """Where Prometheus asks; without it nothing listens."""
    host: str = "127.0.0.1"
    """The address that is listened on."""
    log: Path | None = None
    """A file to which a line of JSON is added for every batch."""


class Relation(Settings):
    """A table that patterns ask with ``in Name``."""

    file: Path
    """CSV with a header, JSON lines, or Parquet."""


def _listed(given: object) -> object:
    return given if isinstance(given, list) else [given]


Patterns = Annotated[
    list[Path | Text | Table],
    BeforeValidator(_listed, json_schema_input_type=Path | Text | Table | list[Path | Text | Table]),
]


def _how_often(given: object) -> object:
    if given == AVAILABLE_NOW:
        return given
    if not isinstance(given, str):
        raise ValueError("write how often a batch is begun, as 5 seconds, or available_now")
    try:
        micros_of(given, "This")
    except PerseidError as error:
        raise ValueError(f"{error.message} Write how often, as 5 seconds, or available_now") from None
    return given


Trigger = Annotated[str, BeforeValidator(_how_often), Field(examples=["5 seconds", AVAILABLE_NOW])]


class JobFile(Settings):
    """A job: reads a stream, asks patterns of it, writes answers; it may be killed at any moment and goes on."""

    job: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$", examples=["takeover"])
    """The job's name: letters, digits, _ and -."""
    stream: StreamOf
    """The stream, and what it is like."""
    patterns: Patterns = Field(default_factory=list)
    """Files of patterns, folders of them, {text: …} or {table: …}; one of these or a list."""
    bind: dict[str, Value] = Field(default_factory=dict)
    """Values of the patterns' parameters."""
    relations: dict[str, Relation] = Field(default_factory=dict)
    """Tables that patterns ask with ``in Name``."""
    sinks: list[SinkOf] = Field(min_length=1)
    """Where answers go: each sink is given every batch."""
    dead_letters: SinkOf | None = None
    """Where records go that cannot be read, come too late or are dated too far ahead; unless said, they are only counted."""
    trigger: Trigger = "10 seconds"
    """How often a batch is begun; available_now: read what is there, and end."""
    checkpoint: str = Field(min_length=1)
    """The folder of what the job has to remember; another folder is another job."""
    retry_for: RetryDuration = "10 minutes"
    """The time that the query is restarted for after transient failures of a source, a sink or Spark; it begins anew with every batch that is written. 0 seconds: never."""
    limits: Limits = Limits()
    """What the job may not exceed."""
    metrics: Metrics = Metrics()
    """What it tells of itself."""
    spark: dict[str, str | Secret] = Field(default_factory=dict)
    """Settings of the Spark session."""

    @model_validator(mode="before")
    @classmethod
    def _reject_retries(cls, given: object) -> object:
        reject_removed_word(given, "retries", "retry_for: 10 minutes, the time that the query is restarted for")
        return given

    @field_validator("spark")
    @classmethod
    def _private(cls, spark: dict[str, str | Secret]) -> dict[str, str | Secret]:
        for name, value in spark.items():
            if isinstance(value, Secret) and is_on_command_line(name):
                raise ValueError(
                    f"Spark passes {name!r} to Java on a command line, which every user of the machine can read; "
                    "a secret cannot be given there"
                )
        return spark

    @model_validator(mode="after")
    def _fits(self) -> JobFile:
        asks = isinstance(self.stream, SubscriptionStream) or (
            isinstance(self.stream, ModelStream) and (self.stream.react or not self.patterns)
        )
        if not asks and not self.patterns:
            raise ValueError("nothing is asked of the stream; write patterns: rules/")
        if isinstance(self.stream, SubscriptionStream) and self.patterns:
            raise ValueError("subscriptions are what is asked of this stream; leave out patterns")
        if isinstance(self.stream, ModelStream) and self.stream.react and self.patterns:
            raise ValueError("react lets rules act, which ask patterns of their own text; leave out patterns or react")
        if self.limits.policy == "dead_letter" and self.dead_letters is None:
            raise ValueError("policy: dead_letter needs a place for them; write dead_letters: {…}")
        return self


def secret_options(job: JobFile) -> set[str]:
    """The names of all options that a job gives as ``{env: NAME}`` or ``{file: PATH}``."""
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
