"""``kind: events``, the default: rows with a time and a type, in order or out of order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from perseid.api.patterns import PatternSet
from perseid.api.streams import events
from perseid.engines.sequence.stream import Events
from perseid.errors import missing_column
from perseid.jobs.stream_kinds.contract import Row, Table, Tables
from perseid.jobs.stream_kinds.timed_rows import TimedRows
from perseid.semantics.types import EventSchema
from perseid.sources.contract import WRONG
from perseid.sources.ddl_columns import parse_columns
from perseid.tables.rows import is_spark


class EventStream(TimedRows):
    """Events: rows with a time and a type, in order or out of order."""

    kind: Literal["events"] = "events"
    """The kind of stream."""
    type: str = "type"
    """The column with the event type, if there is one source."""

    def declare(self, tables: Tables | Table) -> Events:
        return self.declare_at("", self.require_tables(tables))

    def declare_at(self, prefix: str, opened: Tables) -> Events:
        """Declare the stream over opened tables with paths that start with ``prefix``."""
        data = self.table_or_tables(opened, prefix)
        declared = events(data, type=self.type, **self.row_options(data))
        tables = list(data.values()) if isinstance(data, dict) else [data]
        is_parsed = all(is_spark(table) and WRONG in table.columns for table in tables)
        return replace(declared, wrong=WRONG) if is_parsed else declared

    def event_schema(self) -> EventSchema | None:
        if self.source is not None:
            columns = parse_columns(getattr(self.source, "columns", None))
            return None if columns is None else EventSchema({}, columns)
        by_type = {name: parse_columns(getattr(one, "columns", None)) for name, one in self._by_type()}
        declared = {name: columns for name, columns in by_type.items() if columns is not None}
        return EventSchema(declared) if len(declared) == len(by_type) else None

    def check(self, rules: PatternSet) -> None:
        super().check(rules)
        schema = self.event_schema()
        if schema is not None:
            self.check_columns(schema)

    def check_columns(self, schema: EventSchema) -> None:
        """Raise if a column that a setting names is not in the schema of its source."""
        if self.source is not None:
            self._check_columns_of(None, schema.columns())
        else:
            for kind, _ in self._by_type():
                self._check_columns_of(kind, schema.columns(kind))

    def _check_columns_of(self, kind: str | None, available: Iterable[str]) -> None:
        # Any: a setting names one column, several, or either by event type.
        roles: dict[str, Any] = {"time": self.time, "key": self.key, "order_by": self.order_by}
        if self.id not in ("content", "position"):
            roles["id"] = self.id
        if kind is None:
            roles["type"] = self.type
        for role, named in roles.items():
            columns = named.get(kind, []) if isinstance(named, dict) else named
            for column in [columns] if isinstance(columns, str) else columns:
                if column not in available and column.partition(".")[0] not in available:
                    raise missing_column(
                        "The source" if kind is None else f"The source of {kind}",
                        column,
                        f"{role} column",
                        list(available),
                        f"stream.{role} in the job file",
                    )

    def rows_by_source(self, rows: Iterable[Row]) -> dict[str, list[Row]]:
        if self.sources is None:
            return super().rows_by_source(rows)
        rows_by_path: dict[str, list[Row]] = {f"sources.{kind}": [] for kind in self.sources}
        for row in rows:
            source_rows = rows_by_path.get(f"sources.{row.get(self.type)}")
            if source_rows is not None:
                source_rows.append(row)
        return rows_by_path

    def _by_type(self) -> Iterable[tuple[str, object]]:
        return (self.sources or {}).items()
