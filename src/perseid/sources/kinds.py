"""The sources that a job may name."""

from __future__ import annotations

from perseid.sources.contract import Source
from perseid.sources.files import FileSource
from perseid.sources.kafka import KafkaSource

SOURCES: dict[str, type[Source]] = {"kafka": KafkaSource, "files": FileSource}
"""Sources by their key in a job file: ``kafka: {…}``."""
