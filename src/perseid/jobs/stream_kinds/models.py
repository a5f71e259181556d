"""``kind: model``: changes of live models, with patterns over matches of graph queries, or rules on the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from perseid.api.arguments import Relations
from perseid.api.models import model, react
from perseid.api.patterns import PatternSet, patterns
from perseid.deprecated import RENAMED_JOB_KEYS
from perseid.engines.models.metamodel import metamodel
from perseid.engines.models.stream import Models
from perseid.jobs.inline_text import InlineText, read_text
from perseid.jobs.stream_kinds.additional_events import StreamWithAdditionalEvents
from perseid.jobs.stream_kinds.contract import (
    JobQueryOptions,
    LocalResult,
    Names,
    SourceOf,
    Table,
    Tables,
    require_patterns,
    require_time,
)
from perseid.jobs.stream_kinds.events import EventStream
from perseid.runtime.search_budget import MAX_LIMIT, MAX_MATCHES, MAX_STEPS
from perseid.settings import Duration, Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

METAMODEL = "metamodel"
"""Name of the metamodel among the rule texts of a job."""


class ChangeColumns(Settings):
    """Columns of a row that describes a change."""

    change: str = "change"
    """The column with the operation: create, delete, set, link or unlink."""
    element: str = "element"
    """The column with the node."""
    kind: str = "kind"
    """The column with the kind of node or edge."""
    attribute: str = "attribute"
    """The column with the attribute that is set."""
    value: str = "value"
    """The column with the new value."""
    target: str = "target"
    """The column with the target node of an edge."""


class ModelStream(StreamWithAdditionalEvents):
    """Changes of live models: events are matches of graph queries that appear, change and disappear."""

    requires_patterns: ClassVar[bool] = False
    supports_dead_letters: ClassVar[bool] = False
    renamed_keys: ClassVar[Mapping[str, str]] = RENAMED_JOB_KEYS["model"]

    kind: Literal["model"]
    """The kind of stream."""
    source: SourceOf
    """The source of the changes."""
    lateness: Duration
    """The maximum lateness of a change: the delay of the watermark."""
    metamodel: Path | InlineText
    """The file, or the text, of the metamodel with queries, patterns and rules."""
    time: str = "ts"
    """The column with the time."""
    key: Names = Field(default_factory=list)
    """The columns that identify a model."""
    order_by: Names = Field(default_factory=list)
    """The order of changes within a transaction."""
    columns: ChangeColumns = ChangeColumns()
    """The columns of a change."""
    observe: Names = Field(default_factory=list)
    """Queries with matches that are emitted even if no pattern names them."""
    react: bool = False
    """Run the rules of the metamodel; the job outputs their actions."""
    max_steps: int = Field(default=MAX_STEPS, ge=1, le=MAX_LIMIT)
    """Search steps that a pattern may take for one key in one batch, in addition to 2,500 for each event of the key."""
    max_matches: int = Field(default=MAX_MATCHES, ge=1, le=MAX_LIMIT)
    """Matches that a pattern may have for one key in one batch, in addition to 10 for each event of the key."""
    events: EventStream | None = None
    """An additional stream of ordinary events."""

    def additional_streams(self) -> list[tuple[str, EventStream]]:
        return [] if self.events is None else [("events.", self.events)]

    def declare(self, tables: Tables | Table) -> Models:
        opened = self.require_tables(tables)
        return model(
            require_time(opened["source"], self.time, "source"),
            metamodel(read_text(self.metamodel, METAMODEL)),
            time=self.time,
            key=self.key,
            order_by=self.order_by,
            observe=self.observe,
            events=None if self.events is None else self.events.declare_at("events.", opened),
            lateness=self.lateness,
            max_ahead=self.max_ahead_or_none,
            options=self.stream_options(),
            **self.columns.model_dump(),
        )

    def search_limits(self) -> tuple[int, ...]:
        return (self.max_steps, self.max_matches)

    @property
    def evaluates_patterns(self) -> bool:
        return not self.react

    def check_patterns_setting(self, has_patterns: bool) -> None:
        if self.react and has_patterns:
            raise ValueError(
                "react runs the rules of the metamodel, which include their patterns; remove patterns or react"
            )

    def rule_texts(self) -> dict[str, str]:
        return {METAMODEL: read_text(self.metamodel, METAMODEL)}

    def with_rule_texts(self, texts: Mapping[str, str]) -> Self:
        return self.model_copy(update={"metamodel": InlineText(text=texts[METAMODEL])})

    def parse_patterns(self, texts: Mapping[str, str]) -> PatternSet:
        pattern_texts = {name: text for name, text in texts.items() if name != METAMODEL}
        if pattern_texts or METAMODEL not in texts:
            return super().parse_patterns(pattern_texts)
        return require_patterns(patterns(metamodel(texts[METAMODEL])))

    def check(self, rules: PatternSet) -> None:
        if not self.react:
            self.explain(rules)

    def explain(self, rules: PatternSet) -> str:
        if self.react:
            return "runs the rules on the model; the job outputs their actions\n"
        return rules.explain(self.declare(self.empty_tables()))

    def match(self, tables: Tables | Table, rules: PatternSet, relations: Relations) -> LocalResult:
        if self.react:
            return str(react(self.declare(tables)))
        return super().match(tables, rules, relations)

    def match_on_spark(self, tables: Tables, rules: PatternSet, options: JobQueryOptions) -> DataFrame:
        if self.react:
            done: DataFrame = react(self.declare(tables), checkpoint=options.checkpoint)
            return done
        return super().match_on_spark(tables, rules, options)
