"""Job streams of one source with further streams of ordinary events."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from perseid.jobs.stream_kinds.contract import SourceOf, StreamSettings, join_paths
from perseid.jobs.stream_kinds.events import EventStream
from perseid.sources.contract import Source


class StreamWithAdditionalEvents(StreamSettings):
    """A stream of one source, and streams of ordinary events below ``events``. Each kind orders these fields itself."""

    if TYPE_CHECKING:
        source: SourceOf
        time: str

    @abstractmethod
    def additional_streams(self) -> list[tuple[str, EventStream]]:
        """Each additional stream and the path that it is below."""

    def sources_by_path(self) -> dict[str, Source]:
        return join_paths({"source": self.source}, {at: one.sources_by_path() for at, one in self.additional_streams()})

    def time_columns(self) -> dict[str, str]:
        return join_paths({"source": self.time}, {at: one.time_columns() for at, one in self.additional_streams()})

    def max_ahead_bounds(self) -> dict[str, int | None]:
        bounds = {"source": self.max_ahead_us}
        return join_paths(bounds, {at: one.max_ahead_bounds() for at, one in self.additional_streams()})
