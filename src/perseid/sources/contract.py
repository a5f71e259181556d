"""Contract of sources: settings in a job file, and a DataFrame that marks the records that could not be read.

A record that cannot be read is a row with null columns, so it has no time and is not an event. Four additional columns
describe it. It passes through the query with the events, is counted with them and is output as a dead letter, without a
second read of the source and without a failed batch.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from perseid.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = "_perseid_"
WRONG = f"{OURS}wrong"
"""Reason why the record could not be read, as a sentence; null for others."""
PAYLOAD = f"{OURS}payload"
"""Raw record as text; null if it could be read, or was empty.

Bytes that are not UTF-8 are in base64, after ``base64:``; a text of more than 65,536 characters is truncated and
marked.
"""
POSITION = f"{OURS}position"
"""Position of the record: ``topic/partition/offset``, the path of its file, or that of its Delta table."""
ARRIVED = f"{OURS}arrived"
"""Arrival time: that of the broker or of the file; null for a Delta table."""


class Source(Settings):
    """Settings of a source, and the DataFrame that it opens."""

    has_positions: ClassVar[bool] = False
    """True if every record has its own position, and not only that of its file."""

    @abstractmethod
    def open(self, session: SparkSession, *, streaming: bool) -> DataFrame:
        """Open the DataFrame: the columns of the schema, additional requested columns, and the four columns above."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the source in a few words, without secrets."""
