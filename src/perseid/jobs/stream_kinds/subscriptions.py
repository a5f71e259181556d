"""``kind: subscriptions``: documents with many subscriptions, each to pairs of documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from perseid.api.arguments import Relations
from perseid.api.patterns import PatternSet
from perseid.api.subscription_table import SubscriptionTable, subscription_table
from perseid.api.subscriptions import SubscriptionSet, subscriptions
from perseid.deprecated import RENAMED_JOB_KEYS
from perseid.engines.joins.plan import DEFAULT_QUERY_PARTITIONS
from perseid.errors import SettingsError
from perseid.jobs.stream_kinds.contract import JobQueryOptions, Row, Table, Tables
from perseid.jobs.stream_kinds.documents import DocumentStream
from perseid.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SubscriptionSettings(Settings):
    """Subscriptions to pairs of documents."""

    texts: dict[str, str] = Field(default_factory=dict)
    """Subscriptions in XSCL, by their owner."""
    table: Path | None = None
    """Instead of texts: the folder of a table of subscriptions, which may change while the job runs."""

    @model_validator(mode="after")
    def _check_one(self) -> SubscriptionSettings:
        if bool(self.texts) == (self.table is not None):
            raise ValueError("expected exactly one of texts: {OWNER: …} and table: FOLDER")
        return self

    def load(self) -> SubscriptionSet | SubscriptionTable:
        """Parse the texts, or open the table."""
        return subscriptions(self.texts) if self.table is None else subscription_table(str(self.table))

    def explain(self) -> str:
        """Explain the texts, or name the table, which may change until the job runs."""
        return subscriptions(self.texts).explain() if self.table is None else f"{self.load()!r}\n"


class SubscriptionStream(DocumentStream):
    """Documents with many subscriptions, each to pairs of documents."""

    requires_patterns: ClassVar[bool] = False
    reloads_rules: ClassVar[bool] = False
    renamed_keys: ClassVar[Mapping[str, str]] = RENAMED_JOB_KEYS["subscriptions"]

    kind: Literal["subscriptions"]  # type: ignore[assignment]
    """The kind of stream."""
    subscriptions: SubscriptionSettings
    """The subscriptions."""
    expand: bool = False
    """Output one row for each subscription, instead of one row with the list of all subscriptions to a pair."""
    results: bool | None = None
    """Output the XML of SELECT: true always, false never; without a value, if a subscription has SELECT."""
    query_partitions: int = Field(default=DEFAULT_QUERY_PARTITIONS, ge=1, le=4096)
    """Number of partitions of the subscriptions: about the number of cores."""

    @property
    def evaluates_patterns(self) -> bool:
        return False

    def check_patterns_setting(self, has_patterns: bool) -> None:
        if has_patterns:
            raise ValueError("a job with subscriptions has no patterns; remove patterns")

    def parse_patterns(self, texts: Mapping[str, str]) -> PatternSet:
        raise SettingsError("A job with subscriptions has no patterns.")

    def check(self, rules: PatternSet) -> None:
        self.subscriptions.load()

    def explain(self, rules: PatternSet) -> str:
        return self.subscriptions.explain()

    def match(self, tables: Tables | Table, rules: PatternSet, relations: Relations) -> list[Row]:
        found = self.subscriptions.load().match(self.declare(tables), expand=self.expand, results=self.results)
        rows: list[Row] = found.to_pylist()
        return rows

    def match_on_spark(self, tables: Tables, rules: PatternSet, options: JobQueryOptions) -> DataFrame:
        found: DataFrame = self.subscriptions.load().match(
            self.declare(tables),
            expand=self.expand,
            results=self.results,
            query_partitions=self.query_partitions,
            rejected=options.rejected,
            checkpoint=options.checkpoint,
        )
        return found
