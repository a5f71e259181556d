"""Write matches as messages of a Kafka topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from pydantic import Field, field_validator

from perseid.errors import SettingsError
from perseid.settings import Secret, revealed
from perseid.sinks.contract import Batch, Sink
from perseid.sinks.failures import failing, without_literal_secrets
from perseid.sinks.rows import headers_of, identity_of, json_of
from perseid.spark.inputs import literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

V1_SOURCES_SETTING = "spark.sql.sources.useV1SourceList"
"""Connectors that Spark writes to with its older interface, which observes no rows."""
V2_KAFKA_SETTINGS = {V1_SOURCES_SETTING: "avro,csv,json,orc,parquet,text"}
"""Spark's own list without Kafka, set in the session of a job."""
_OURS = ("topic", "kafka.bootstrap.servers", "includeheaders")


class Kafka(Sink):
    """A topic: the key is the ``match_id``, the value the row as JSON; headers have pattern, version, op and revision.

    In the JSON, moments are in UTC (``2026-03-01T09:00:00.000000Z``) and a column without a value is left out.
    """

    guarantee: ClassVar[str] = (
        "At least once: a retried batch is sent again with the same keys. A consumer that retains the last revision of "
        "each (pattern, kind, match_id) has every match once."
    )

    servers: str = Field(min_length=1)
    """The bootstrap brokers: ``host:port``, separated by commas."""
    topic: str = Field(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._-]+$")
    """The topic; the broker's settings determine if a missing topic is created."""
    options: dict[str, str | Secret] = Field(default_factory=dict)
    """Further options of Spark's connector; secrets as ``{env: NAME}`` or ``{file: PATH}``."""

    @field_validator("options")
    @classmethod
    def _checked(cls, options: dict[str, str | Secret]) -> dict[str, str | Secret]:
        for name in options:
            if name.lower() in _OURS:
                raise ValueError(f"unsupported option {name!r}; use servers and topic (the sink sets the headers)")
        return without_literal_secrets(options)

    def describe(self) -> str:
        return f"kafka {self.servers} {self.topic}"

    def prepare(self, session: SparkSession, schema: StructType, job: str) -> None:
        options = revealed(self.options)
        secrets = self._secrets(options)
        try:
            reader = session.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
            _ = reader.option("subscribe", self.topic).load().columns  # no broker is contacted
        except Exception as error:
            if "Failed to find" in str(error) or "DATA_SOURCE_NOT_FOUND" in str(error):
                raise SettingsError(
                    f"{self.describe()}: this Spark session has no Kafka connector.",
                    hint="Add org.apache.spark:spark-sql-kafka-0-10_2.13:SPARK_VERSION to spark.jars.packages.",
                ) from None
            with failing(self.describe(), None, secrets):
                raise

    def supports_single_pass(self, session: SparkSession) -> bool:
        return "kafka" not in cast("str", session.conf.get(V1_SOURCES_SETTING)).split(",")

    def write(self, batch: Batch) -> None:
        options = revealed(self.options)
        with failing(self.describe(), batch, self._secrets(options)):
            sent = messages(batch.rows)
            writer = sent.write.format("kafka").options(**options)
            writer.option("kafka.bootstrap.servers", self.servers).option("topic", self.topic).mode("append").save()

    def _secrets(self, options: dict[str, str]) -> list[str]:
        return [options[name] for name, value in self.options.items() if isinstance(value, Secret)]


def messages(rows: DataFrame) -> DataFrame:
    """Convert each row to a message."""
    columns = [f"{identity_of(rows)} as key", f"{json_of(rows)} as value"]
    headers = [
        f"struct({literal(name)} as key, cast({text} as binary) as value)" for name, text in headers_of(rows).items()
    ]
    if headers:
        columns.append(f"filter(array({', '.join(headers)}), header -> header.value is not null) as headers")
    return rows.selectExpr(*columns)
