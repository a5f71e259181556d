"""The settings of toy streams in job files. Only jobs import this module, so declarations need no pydantic."""

from __future__ import annotations

from typing import Literal

from perseid.jobs.stream_kinds.contract import SourceOf, StreamSettings, Table, Tables, require_time
from perseid.settings import Duration
from perseid.sources.contract import Source
from tests.contract.toy_stream.declaration import ToyStream


class ToyStreamSettings(StreamSettings):
    """Rows of one source, searched by brute force."""

    kind: Literal["toy"]
    """The kind of stream."""
    source: SourceOf
    """The source of the rows."""
    lateness: Duration
    """Maximum delay of a record."""
    at: str = "ts"
    """The column with the time."""

    def sources_by_path(self) -> dict[str, Source]:
        return {"source": self.source}

    def time_columns(self) -> dict[str, str]:
        return {"source": self.at}

    def declare(self, tables: Tables | Table) -> ToyStream:
        rows = require_time(self.require_tables(tables)["source"], self.at, "source")
        return ToyStream(rows, self.at, self.shards, self.lateness, self.max_ahead_or_none)
