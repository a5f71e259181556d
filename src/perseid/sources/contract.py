"""What every source is: words of a job, and a DataFrame that says of each record whether it could be read.

A record that cannot be read is a row like any other: its columns are null, so it has no time and is no event, and four
columns of ours say what it was. So it crosses with the events, is counted with them, and comes out as a dead letter; no
second reading of the source, and no batch that fails.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from perseid.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = "_perseid_"
WRONG = f"{OURS}wrong"
"""Why the record could not be read, as a sentence; null where it could."""
PAYLOAD = f"{OURS}payload"
"""The record as it came, as text; null where it could be read, or had none. Bytes that are no UTF-8 text are told in base64, behind
``base64:``; what is longer than 65,536 characters is cut, and says so."""
POSITION = f"{OURS}position"
"""Where it stood: ``topic/partition/offset``, the path of its file, or that of its table of Delta."""
ARRIVED = f"{OURS}arrived"
"""When the source had it: the broker's time, or that of the file; null of a table of Delta."""


class Source(Settings):
    """What a job reads."""

    @abstractmethod
    def open(self, session: SparkSession, *, streaming: bool) -> DataFrame:
        """The DataFrame: the columns of the schema and those that were kept, and the four of ours behind them."""

    @abstractmethod
    def told(self) -> str:
        """What is read, in a few words and without secrets."""
