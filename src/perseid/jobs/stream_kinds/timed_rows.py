"""Settings of rows with a time, which events and documents have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import Field, model_validator

from perseid.errors import SettingsError, is_internal
from perseid.jobs.stream_kinds.contract import (
    History,
    Names,
    SourceOf,
    StreamSettings,
    Table,
    Tables,
    require_time,
)
from perseid.jobs.stream_kinds.disorder import BufferSettings, DisorderOf, create_strategy
from perseid.runtime.search_budget import MAX_LIMIT, MAX_MATCHES, MAX_STEPS
from perseid.sources.contract import POSITION, Source
from perseid.tables.rows import is_spark

BY_TYPE = ("time", "id", "order_by", "key")
"""Settings that may differ by event type."""


class TimedRows(StreamSettings):
    """Settings of rows with a time, in one table or in several by event type."""

    source: SourceOf | None = None
    """The source of the rows."""
    sources: Annotated[dict[str, SourceOf], Field(min_length=1)] | None = None
    """Instead of one source: several, by event type."""
    history: History | None = None
    """Historical records: a job that is started with --from-history reads them first."""
    time: str | dict[str, str] = "ts"
    """The column with the time; with several sources it may be given by event type."""
    id: Literal["content", "position"] | list[str] | dict[str, Names] = "content"
    """The identity of a record: all its columns, its position in the topic, or the columns named."""
    order_by: Names | dict[str, Names] = Field(default_factory=list)
    """Columns that order records of equal time."""
    strictly_later: bool = False
    """Require later steps to have later times."""
    key: Names | dict[str, Names] = Field(default_factory=list)
    """Columns that partition the stream for patterns without ``partition by``."""
    dedupe: bool = False
    """Treat records of equal time, key and identity as one."""
    order: Literal["watermark", "arrival"] = "watermark"
    """The basis on which time advances: the watermark, or the order in which the records of a key arrive."""
    max_steps: int = Field(default=MAX_STEPS, ge=1, le=MAX_LIMIT)
    """Search steps that a pattern may take for one key in one batch, in addition to 2,500 for each event of the key."""
    max_matches: int = Field(default=MAX_MATCHES, ge=1, le=MAX_LIMIT)
    """Matches that a pattern may have for one key in one batch, in addition to 10 for each event of the key."""
    disorder: DisorderOf = BufferSettings()
    """The strategy for records that arrive out of order, before the watermark has made matches final."""

    @model_validator(mode="after")
    def _check_rows(self) -> TimedRows:
        by_type = self.sources or {}
        if (self.source is None) == (self.sources is None):
            raise ValueError("expected exactly one of source: {…} and sources: {Type: {…}, …} by event type")
        if self.lateness is None:
            # Also with order: arrival: the watermark ends absences and evicts keys.
            raise ValueError("missing lateness, the maximum lateness of a record; add lateness: 10 minutes")
        if self.order == "arrival" and not isinstance(self.disorder, BufferSettings):
            raise ValueError(
                "order: arrival expects records in order, and disorder expects them out of order; remove one of them"
            )
        if self.history is not None and (self.source is None or not isinstance(self.time, str)):
            raise ValueError("history needs one source with one time column; remove history")
        if self.history is not None and self.order == "arrival":
            raise ValueError(
                "order: arrival expects the order of one source, and history is a second one; remove one of them"
            )
        named = [name for name in BY_TYPE if isinstance(getattr(self, name), dict)]
        if named and self.sources is None:
            raise ValueError(
                f"{named[0]} by event type needs sources by event type; use column names without event types"
            )
        for name in named:
            unknown = next((one for one in getattr(self, name) if one not in by_type), None)
            if unknown is not None:
                raise ValueError(f"unknown event type {unknown!r} in {name}. Available: {', '.join(by_type)}.")
        if self.id == "position" and not all(one.has_positions for one in self.sources_by_path().values()):
            raise ValueError("id: position needs records of Kafka; use id: content, or columns: id: [order_no]")
        return self

    def sources_by_path(self) -> dict[str, Source]:
        if self.source is not None:
            return {"source": self.source}
        return {f"sources.{name}": one for name, one in (self.sources or {}).items()}

    def time_columns(self) -> dict[str, str]:
        if isinstance(self.time, str):
            return dict.fromkeys(self.sources_by_path(), self.time)
        return {f"sources.{kind}": column for kind, column in self.time.items()}

    def backfill_source(self) -> History | None:
        return self.history

    def search_limits(self) -> tuple[int, ...]:
        return (self.max_steps, self.max_matches)

    def explain_output(self) -> str | None:
        if self.order != "watermark":
            return None
        return (
            create_strategy(self.disorder).output_policy
            or "matches as soon as they are complete if they can be assembled, otherwise final matches"
        )

    def table_or_tables(self, opened: Tables, prefix: str = "") -> Table:
        """The only table, or the tables by event type; paths in ``opened`` start with ``prefix``."""
        if self.sources is None:
            return require_time(opened[f"{prefix}source"], cast("str", self.time), f"{prefix}source")
        return {kind: self._table_of(kind, opened, prefix) for kind in self.sources}

    def _table_of(self, kind: str, opened: Tables, prefix: str) -> Table:
        time = self.time if isinstance(self.time, str) else self.time.get(kind)
        if time is None:
            raise SettingsError(f"Missing time column of {kind}.", hint=f"Add stream.time: {{{kind}: COLUMN, …}}.")
        path = f"{prefix}sources.{kind}"
        return require_time(opened[path], time, path)

    def row_options(self, data: Table) -> dict[str, Any]:
        """Options of ``ps.events`` and ``ps.documents`` over tables. Any: each option has a type of its own."""
        same = (
            "time", "order_by", "strictly_later", "key", "dedupe", "order", "lateness",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in same},
            "max_ahead": self.max_ahead_or_none,
            "id": self._identity(data),
            "disorder": create_strategy(self.disorder),
            "options": self.stream_options(),
        }

    def _identity(self, data: Table) -> object:
        """Identity columns; columns that a source adds are not part of the content of a record."""
        if self.id not in ("content", "position"):
            return self.id
        if isinstance(data, Mapping):
            return {kind: self._identity(table) for kind, table in data.items()}
        if not is_spark(data):
            return ()
        if self.id == "position":
            return (POSITION,)
        user_columns = sorted(name for name in data.columns if not is_internal(name))
        return tuple(user_columns) if len(user_columns) < len(data.columns) else ()
