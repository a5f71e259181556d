"""A combination that an engine rejects, as a line of code that is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """Code that is rejected; names in it are those of ``fixtures.names``."""

    code: str
    reason: str
    """A part of the error's message."""
    instead: str
    """What to write; a sentence for the page."""
    error: str = "UnsupportedError"
    spark: bool = False
    """It needs a Spark session."""
