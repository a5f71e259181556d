"""Events from Kafka topics."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator
from pyspark.errors import PySparkException

from perseid.errors import SettingsError
from perseid.settings import Secret, Settings, invalid_setting, revealed
from perseid.sources.contract import Source
from perseid.sources.ddl_columns import check_columns
from perseid.sources.records import PayloadFormat, check_names, columns_of, read
from perseid.spark.inputs import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS_BY_OPTION = {
    "kafka.bootstrap.servers": "servers",
    "subscribe": "topic",
    "subscribepattern": "topic",
    "assign": "topic",
    "startingoffsets": "start",
    "startingoffsetsbytimestamp": "start",
    "startingtimestamp": "start",
    "maxoffsetspertrigger": "max_per_batch",
    "failondataloss": "fail_on_data_loss",
    "includeheaders": "keep",
}
"""Options of Spark that have a setting here."""
MAX_SCHEMA = 1 << 20
"""Maximum bytes of a file with an Avro schema."""
NO_KEY_TEXT = "The key is not UTF-8 text."


class TopicPattern(Settings):
    """Topics selected by a pattern."""

    pattern: str
    """A Java regular expression for topic names; topics that are created later match as well."""


class SchemaFile(Settings):
    """A schema in a file."""

    file: Path
    """The file."""


class KafkaSource(Source):
    """Records of one topic or several, each with its position: ``topic/partition/offset``."""

    has_positions: ClassVar[bool] = True

    kind: Literal["kafka"] = "kafka"
    servers: str = Field(min_length=1, examples=["broker-1:9092,broker-2:9092"])
    """The addresses of the brokers, separated by commas."""
    topic: str | list[str] | TopicPattern
    """The topic, a list of topics, or ``{pattern: REGEX}``."""
    format: Literal["json", "avro", "csv", "text", "bytes"] = "json"
    """The format of a record's value; ``text`` and ``bytes`` pass it unchanged, as the column ``value``."""
    columns: str | SchemaFile | None = Field(default=None, alias="schema")
    """The columns as in SQL, ``'ts TIMESTAMP, user STRING'``; for Avro its schema as JSON, or ``{file: PATH}``."""
    required: tuple[str, ...] = ()
    """Columns that must have a value, in addition to NOT NULL ones; a record without a required value is malformed."""
    skip: int = Field(default=0, ge=0, le=1024)
    """Bytes to skip before every Avro record; 5 with the serializer of a schema registry."""
    separator: str = Field(default=",", min_length=1, max_length=8)
    """CSV: the separator between fields."""
    start: Literal["earliest", "latest"] | dt.datetime | dict[str, dict[int, int]] = "earliest"
    """Start of a job without checkpoint; with one, it resumes there. Also a time, or offsets: ``{topic: {0: 17}}``."""
    max_per_batch: int | None = Field(default=None, gt=0)
    """Maximum number of records in a micro-batch, over all partitions."""
    fail_on_data_loss: bool = True
    """Fail if the broker no longer has records that were not read yet; false continues with the remaining ones."""
    keep: dict[Literal["key", "key_bytes", "topic", "partition", "offset", "timestamp", "headers"], str] = Field(
        default_factory=dict
    )
    """Further fields of a record, and the column for each: ``{timestamp: ts, key: user}``. A ``key`` is text."""
    options: dict[str, str | Secret] = Field(default_factory=dict)
    """Further options of Spark's Kafka source: ``{kafka.security.protocol: SASL_SSL}``."""

    @model_validator(mode="after")
    def _checked(self) -> KafkaSource:
        for name in self.options:
            if name.lower() in SETTINGS_BY_OPTION:
                raise ValueError(f"unsupported option {name}; use the setting {SETTINGS_BY_OPTION[name.lower()]}")
        if isinstance(self.topic, list) and not self.topic:
            raise ValueError("the list of topics is empty")
        if self.format in ("text", "bytes"):
            if self.columns is not None:
                raise ValueError(f"the format {self.format} has one column, value; remove schema")
        elif self.columns is None:
            raise ValueError(f"the format {self.format} needs a schema")
        elif isinstance(self.columns, SchemaFile) and self.format != "avro":
            raise ValueError("a schema in a file needs format: avro; use schema: 'ts TIMESTAMP, user STRING'")
        if self.format in ("json", "csv") and isinstance(self.columns, str):
            try:
                check_columns(self.columns)
            except ValueError as error:
                raise invalid_setting(str(error), ("schema",)) from None
        try:
            check_names(list(self.keep.values()), "keep")
        except SettingsError as error:
            raise ValueError(error.message) from None
        return self

    def describe(self) -> str:
        return f"Kafka, {self._topics()[1]} at {self.servers}"

    def _topics(self) -> tuple[str, str]:
        """The topics, as the name and the value of an option of Spark."""
        if isinstance(self.topic, TopicPattern):
            return "subscribePattern", self.topic.pattern
        return "subscribe", self.topic if isinstance(self.topic, str) else ",".join(self.topic)

    def open(self, session: SparkSession, *, streaming: bool) -> DataFrame:
        reader = (session.readStream if streaming else session.read).format("kafka")
        for name, value in (revealed(self.options) | self._options(streaming)).items():
            reader = reader.option(name, value)
        try:
            frame = reader.load()
        except PySparkException as error:
            if "kafka" not in str(error).lower() or "find" not in str(error).lower():
                raise
            raise SettingsError(
                "Spark has no data source for kafka.",
                hint="Add org.apache.spark:spark-sql-kafka-0-10_2.13:SPARK_VERSION to spark.jars.packages.",
            ) from None
        kafka = {"key": "cast(key as string)", "key_bytes": "key"}
        unreadable = "key is not null and not is_valid_utf8(cast(key as string))"
        return read(
            frame,
            self._reading(session),
            value="value",
            position="concat_ws('/', topic, partition, offset)",
            arrived="timestamp",
            keep={name: kafka.get(field, quoted(field)) for field, name in self.keep.items()},
            refuse=[(unreadable, NO_KEY_TEXT)] if "key" in self.keep else [],
        )

    def _options(self, streaming: bool) -> dict[str, str]:
        by, topics = self._topics()
        options = {
            "kafka.bootstrap.servers": self.servers,
            by: topics,
            "failOnDataLoss": str(self.fail_on_data_loss).lower(),
            "includeHeaders": str("headers" in self.keep).lower(),
        }
        if isinstance(self.start, dt.datetime):
            moment = self.start if self.start.tzinfo else self.start.replace(tzinfo=dt.UTC)
            options["startingTimestamp"] = str(int(moment.timestamp() * 1000))
            options["startingOffsetsByTimestampStrategy"] = "latest"
        elif isinstance(self.start, dict):
            options["startingOffsets"] = json.dumps(self.start)
        elif self.start == "latest" and not streaming:
            raise SettingsError(
                "start: latest is for streams only: a batch read from there has no records.",
                hint="Use start: earliest.",
            )
        else:
            options["startingOffsets"] = self.start
        if self.max_per_batch is not None and streaming:
            options["maxOffsetsPerTrigger"] = str(self.max_per_batch)
        return options

    def _reading(self, session: SparkSession) -> PayloadFormat:
        if self.format == "avro":
            schema = self.columns if isinstance(self.columns, str) else _read_schema(self.columns)
            return PayloadFormat("avro", required=self.required, avro=schema, skip=self.skip)
        if not isinstance(self.columns, str):
            return PayloadFormat(self.format, required=self.required)
        columns = columns_of(session, self.columns, self.describe())
        return PayloadFormat(self.format, columns, self.required, separator=self.separator)


def _read_schema(place: SchemaFile | None) -> str:
    assert place is not None
    try:
        with place.file.open("rb") as file:
            body = file.read(MAX_SCHEMA + 1)
        text = body.decode()
    except OSError as error:
        raise SettingsError(f"Schema file {place.file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"Schema file {place.file} is not UTF-8 text.") from None
    if len(body) > MAX_SCHEMA:
        raise SettingsError(f"Schema file {place.file} is larger than the limit of {MAX_SCHEMA} bytes.")
    return text
