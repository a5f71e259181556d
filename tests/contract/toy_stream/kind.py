"""The kind of toy streams: the operations of pattern sets over one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import perseid as ps
from perseid.api.pattern_sources import PatternSources
from perseid.api.stream_kinds.events import EventStreamKind
from perseid.engines.sequence.stream import Events
from tests.contract.toy_stream.declaration import ToyStream


class ToyStreamKind(EventStreamKind):
    """A stream that becomes events: ``match``, ``count`` and ``why_not`` are those of events."""

    name: ClassVar[str] = "toy"
    job_settings: ClassVar[str | None] = "tests.contract.toy_stream.settings:ToyStreamSettings"

    def events_of(self, patterns: PatternSources, stream: ToyStream) -> tuple[PatternSources, Events]:
        return patterns, stream.events()

    def as_events(self, stream: ToyStream, otherwise: ps.PerseidError) -> Events:
        return stream.events()

    def data_of(self, stream: ToyStream) -> Iterable[object]:
        return super().data_of(stream.events())

    def explain(self, patterns: PatternSources, stream: ToyStream) -> str:
        return f"{super().explain(patterns, stream.events())}\nsearched by brute force\n"
